#!/usr/bin/env python3
"""Batch normalization in training mode against PyTorch: weights and running statistics after ten steps, the loss by
these statistics, the same bytes on any number of systems, and what an export holds.

ONNX's running variance is of the population (divided by n), PyTorch's of a sample (n - 1): PyTorch's layer is made to
follow ONNX. usage: batch_norm_torch.py path/to/wafer"""
import filecmp
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

from gpt_torch import safetensors

STEPS, BATCH, MOMENTUM = 10, 16, 0.8


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def weights():
    return {"conv": draw(4, 1, 3, 3), "scale": 1 + 0.1 * draw(4), "shift": 0.1 * draw(4), "mean": 0.1 * draw(4),
            "variance": 1 + 0.1 * np.abs(draw(4)), "out": 0.2 * draw(100, 3)}


def model(path):
    w = weights()
    nodes = [helper.make_node("Conv", ["x", "conv"], ["c"], pads=[1] * 4),
             helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n", "m1", "v1"],
                              momentum=MOMENTUM, training_mode=1),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Flatten", ["r"], ["f"]),
             helper.make_node("MatMul", ["f", "out"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "classes"])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)


def torch_run(x, y):
    w = {k: torch.tensor(v.astype(np.float32)) for k, v in weights().items()}
    train = [w[k].requires_grad_() for k in ("conv", "scale", "shift", "out")]
    sgd = torch.optim.SGD(train, lr=0.05, momentum=0.9)

    def forward(x, statistics):
        c = F.conv2d(x, w["conv"], padding=1)
        n = F.batch_norm(c, w["mean"], w["variance"], w["scale"], w["shift"], training=statistics is None)
        return F.relu(n).flatten(1) @ w["out"], c

    for step in range(STEPS):
        at = slice(step * BATCH, (step + 1) * BATCH)
        before = w["mean"].clone(), w["variance"].clone()
        out, c = forward(torch.tensor(x[at]), None)
        sgd.zero_grad()
        F.cross_entropy(out, torch.tensor(y[at])).backward()
        sgd.step()
        c = c.detach()
        w["mean"] = MOMENTUM * before[0] + (1 - MOMENTUM) * c.mean((0, 2, 3))
        w["variance"] = MOMENTUM * before[1] + (1 - MOMENTUM) * c.var((0, 2, 3), unbiased=False)
    with torch.no_grad():
        out, _ = forward(torch.tensor(x), True)
        return {k: v.detach().numpy() for k, v in w.items()}, F.cross_entropy(out, torch.tensor(y)).item()


def main(wafer):
    failed = False

    def check(ok, *what):
        nonlocal failed
        failed |= not ok
        print("ok" if ok else "FAILED", *what)

    with tempfile.TemporaryDirectory() as work:
        x, y = draw(STEPS * BATCH, 1, 5, 5), np.arange(STEPS * BATCH) * 7 % 3
        np.save(f"{work}/x.npy", x)
        np.save(f"{work}/y.npy", y)
        model(f"{work}/net.onnx")

        def train(folder, *options):
            return subprocess.run(
                [wafer, "train", f"{work}/net.onnx", "--data", f"{work}/x.npy,{work}/y.npy", "--eval-data",
                 f"{work}/x.npy,{work}/y.npy", "--loss", "cross-entropy", "--optimizer", "momentum", "--lr", "0.05",
                 "--steps", str(STEPS), "--batch", str(BATCH), "--no-shuffle", "--checkpoint", f"{work}/{folder}",
                 *options], check=True, capture_output=True, text=True).stdout

        text = train("whole", "--micro-batch", str(BATCH))
        got = safetensors(f"{work}/whole/step-{STEPS:08d}/weights.safetensors")
        want, loss = torch_run(x, y)
        for name, value in want.items():
            off = np.abs(got[name].numpy() - value).max() / np.abs(value).max()
            check(off < 1e-5, f"{name}: off by {off:.2g} of the largest")
        measured = float(re.findall(r"\| Eval .*Loss=([0-9.]+)", text)[-1])
        check(abs(measured - loss) < 2e-5, f"loss by the running statistics {measured}, PyTorch {loss:.5f}")

        train("one", "--micro-batch", "2")
        train("three", "--micro-batch", "2", "--systems", "3", "--weight-servers", "2", "--threads", "1")
        for name in ("weights", "state"):
            file = f"step-{STEPS:08d}/{name}.safetensors"
            check(filecmp.cmp(f"{work}/one/{file}", f"{work}/three/{file}", False), f"three systems: same {name}")
        check(not any(k.startswith(("mean:", "variance:")) for k in safetensors(f"{work}/one/{file}")), "no state of statistics")

        subprocess.run([wafer, "export", f"{work}/whole", "-o", f"{work}/out.onnx", "-q"], check=True)
        held = {t.name: numpy_helper.to_array(t) for t in onnx.load(f"{work}/out.onnx").graph.initializer}
        check(all(np.array_equal(held[k], got[k].numpy()) for k in want), "the export holds them")
        train("pipe", "--micro-batch", "2", "--execution", "pipelined")
        for name in ("weights", "state"):
            file = f"step-{STEPS:08d}/{name}.safetensors"
            check(filecmp.cmp(f"{work}/one/{file}", f"{work}/pipe/{file}", False), f"a pipeline: same {name}")
        np.save(f"{work}/y.npy", y + (np.arange(len(y)) == 5))
        wrong = subprocess.run([wafer, "train", f"{work}/net.onnx", "--data", f"{work}/x.npy,{work}/y.npy", "--loss",
                                "cross-entropy", "--steps", "10"], capture_output=True, text=True)
        check("y.npy: error: row 5 has label 3, the loss has classes 0 to 2" in wrong.stderr, "a label beyond the classes", wrong.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
