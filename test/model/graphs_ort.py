#!/usr/bin/env python3
"""Random graphs against ONNX Runtime: every graph of `graphs save` in both modes. One that differs is reduced: the
smallest part of it, fed with ONNX Runtime's own values, that still differs is kept as a test for `wafer conform`.
Needs onnx, onnxruntime and numpy. usage: graphs_ort.py BIN COUNT [FIRST [DIR]]
BIN: the build's folder of programs. DIR: where the reduced graphs go (failed-graphs)."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MODES = ("pipelined", "streaming")


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))


def save_tensors(folder, kind, tensors):
    for i, tensor in enumerate(tensors):
        onnx.save_tensor(numpy_helper.from_array(tensor), f"{folder}/test_data_set_0/{kind}_{i}.pb")


def finish(folder, outputs, largest):
    """The expected outputs of a test, and how far they may be from them."""
    save_tensors(folder, "output", outputs)
    with open(f"{folder}/data.json", "w") as file:
        json.dump({"rtol": 1e-4, "atol": 1e-5 * largest}, file)


def largest_of(tensors):
    sizes = [np.abs(t[np.isfinite(t)]).max() for t in tensors if t.dtype.kind == "f" and np.isfinite(t).any()]
    return float(max(sizes, default=0))


def failures(wafer, folder):
    """Names of the tests below a folder that fail in either mode, with what is said of them."""
    said = {}
    for mode in MODES:
        done = subprocess.run([wafer, "conform", folder, "-q", "--mode", mode], capture_output=True, text=True)
        if done.returncode not in (0, 6):
            sys.exit(f"wafer conform: exit code {done.returncode}: {done.stderr}")
        for line in done.stdout.splitlines():
            if line.startswith("FAILED "):
                name, why = line[len("FAILED "):].split(": ", 1)
                said.setdefault(name, f"{mode}: {why}")
    return said


def all_values(model, feeds):
    """Every value of a graph by name: inputs, constants, what its nodes make."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    del wide.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(model)
    typed = list(inferred.graph.value_info) + list(inferred.graph.output)
    wide.graph.output.extend(typed)
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    values.update(feeds)
    values.update(run(wide, feeds))
    return values


def part(model, values, nodes, folder):
    """The nodes as a test: what they do not make themselves are inputs, or the constants they were."""
    made = [name for node in nodes for name in node.output]
    used = dict.fromkeys(name for node in nodes for name in node.input)
    constants = [i for i in model.graph.initializer if i.name in used]
    names = {i.name for i in constants}
    inputs = [name for name in used if name not in made and name not in names]
    outputs = [name for name in nodes[-1].output]

    def info(name):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype),
                                             values[name].shape)
    graph = helper.make_graph(nodes, "part", [info(n) for n in inputs], [info(n) for n in outputs], constants)
    os.makedirs(f"{folder}/test_data_set_0")
    onnx.save(helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version),
              f"{folder}/model.onnx")
    save_tensors(folder, "input", [values[n] for n in inputs])
    finish(folder, [values[n] for n in outputs], largest_of([values[n] for n in inputs + made]))


def ancestors(model, node, depth):
    """The node and those that it needs, directly (depth 2) or not, in their order."""
    makers = {name: n for n in model.graph.node for name in n.output}
    found, front = [node], [node]
    for _ in range(depth - 1):
        front = [makers[name] for n in front for name in n.input if name in makers and makers[name] not in found]
        found += front
    return [n for n in model.graph.node if n in found]


def reduce(wafer, folder, kept):
    model = onnx.load(f"{folder}/model.onnx")
    feeds = {port.name: numpy_helper.to_array(onnx.load_tensor(f"{folder}/test_data_set_0/input_{i}.pb"))
             for i, port in enumerate(model.graph.input)}
    values = all_values(model, feeds)
    for depth in range(1, len(model.graph.node) + 1):
        for node in model.graph.node:
            with tempfile.TemporaryDirectory() as work:
                nodes = ancestors(model, node, depth)
                part(model, values, nodes, f"{work}/part")
                said = failures(wafer, work)
                if said:
                    shutil.copytree(f"{work}/part", kept, dirs_exist_ok=True)
                    calls = ", ".join(n.op_type for n in nodes)
                    return f"{len(nodes)} nodes ({calls}): {said['part']}"
    shutil.copytree(folder, kept, dirs_exist_ok=True)
    return "only the whole graph differs"


def main():
    programs, count = sys.argv[1], sys.argv[2]
    first = sys.argv[3] if len(sys.argv) > 3 else "1"
    kept = sys.argv[4] if len(sys.argv) > 4 else "failed-graphs"
    wafer = os.path.join(programs, "wafer")
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([os.path.join(programs, "graphs"), "save", work, count, first], check=True)
        for seed in os.listdir(work):
            folder = os.path.join(work, seed)
            model = onnx.load(f"{folder}/model.onnx")
            onnx.checker.check_model(model, full_check=True)
            feeds = {port.name: numpy_helper.to_array(onnx.load_tensor(f"{folder}/test_data_set_0/input_{i}.pb"))
                     for i, port in enumerate(model.graph.input)}
            values = all_values(model, feeds)
            finish(folder, [values[o.name] for o in model.graph.output], largest_of(values.values()))
        said = failures(wafer, work)
        for seed, why in sorted(said.items()):
            print(f"FAILED: seed {seed}: {why}\n  reduced to {reduce(wafer, os.path.join(work, seed), os.path.join(kept, seed))}")
        print(f"{count} graphs, {len(said)} differ from ONNX Runtime {onnxruntime.__version__}")
        return bool(said)


if __name__ == "__main__":
    sys.exit(main())
