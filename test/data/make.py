#!/usr/bin/env python3
"""Writes the small models of this folder: seeded weights, references by ONNX Runtime. Needs onnx, onnxruntime
and numpy; the tests need none of them, the files are committed."""
import os
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(1)
F = TensorProto.FLOAT


def weight(name, *shape, scale=None):
    fan = np.prod(shape[1:]) if len(shape) > 1 else shape[0]
    return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(scale or fan)).astype(np.float32), name)


def save(name, nodes, inputs, outputs, weights=(), opset=17, check=True):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if check:
        onnx.checker.check_model(model, full_check=True)
    path = os.path.join(here, name + ".onnx")
    onnx.save(model, path)
    return path


def value(name, *dims, dtype=F):
    return helper.make_tensor_value_info(name, dtype, dims)


def node(op, inputs, outputs, name=None, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=name or outputs.split()[0] + "_node", **attributes)


def reference(path, **inputs):
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    folder = path[:-5]
    os.makedirs(folder, exist_ok=True)
    for name, data in inputs.items():
        np.save(f"{folder}/in_{name}.npy", data)
    for info, data in zip(session.get_outputs(), session.run(None, inputs)):
        np.save(f"{folder}/out_{info.name}.npy", data.astype(str) if data.dtype == object else data)


def small_cnn():
    """A residual net: every main kernel family, two outputs, a skip connection."""
    nodes = [
        node("Conv", "x w1 b1", "c1", "stem", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c1 scale shift mean var", "n1", "stem_bn"),
        node("Relu", "n1", "r1", "stem_relu"),
        node("MaxPool", "r1", "p1", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2 b2", "c2", "depthwise", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8),
        node("Conv", "c2 w3", "c3", "pointwise", kernel_shape=[1, 1]),
        node("Add", "c3 p1", "a1", "skip"),
        node("HardSwish", "a1", "h1", "swish"),
        node("GlobalAveragePool", "h1", "g1", "global"),
        node("Flatten", "g1", "f1", "flat"),
        node("Gemm", "f1 w4 b4", "logits", "head", transB=1),
        node("Softmax", "logits", "y", "prob", axis=1),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 1, 3, 3), weight("b2", 8),
               weight("w3", 8, 8, 1, 1), weight("w4", 10, 8), weight("b4", 10)]
    for name, data in (("scale", rng.random(8) + 0.5), ("shift", rng.standard_normal(8)),
                       ("mean", rng.standard_normal(8)), ("var", rng.random(8) + 0.5)):
        weights.append(numpy_helper.from_array(data.astype(np.float32), name))
    path = save("small_cnn", nodes, [value("x", 1, 3, 16, 16)], [value("y", 1, 10), value("a1", 1, 8, 8, 8)], weights)
    reference(path, x=rng.standard_normal((1, 3, 16, 16)).astype(np.float32))


def averages():
    """An average of a few levels, which is a level again: many lie halfway between two of them."""
    scale = numpy_helper.from_array(np.array(0.05, np.float32), "s")
    zero = numpy_helper.from_array(np.array(128, np.uint8), "z")
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
             node("AveragePool", "d", "p", kernel_shape=[2, 2], strides=[2, 2]),
             node("QuantizeLinear", "p s z", "r"), node("DequantizeLinear", "r s z", "y")]
    save("averages", nodes, [value("x", 1, 8, 32, 32)], [value("y", 1, 8, 16, 16)], [scale, zero])


def scales():
    """A scale and a shift per channel, none of which f16 has exactly: constants of a kernel."""
    weights = [weight("s", 8, 1, 1), weight("b", 8, 1, 1)]
    nodes = [node("Mul", "x s", "m"), node("Add", "m b", "a"), node("Relu", "a", "y")]
    save("scales", nodes, [value("x", 1, 8, 12, 12)], [value("y", 1, 8, 12, 12)], weights)


def one_mean():
    """One number of a whole batch, which is no output that a label per sample could be of."""
    save("one_mean", [node("MatMul", "x w", "h"), node("ReduceMean", "h", "y", keepdims=0)], [value("x", "n", 8)], [value("y")],
         [weight("w", 8, 4)])


def borders():
    """Two branches of one input, each with an output: values that cross the border side by side."""
    nodes = [node("Mul", "x m", "a"), node("Exp", "a", "e"), node("Erf", "e", "y"), node("Sigmoid", "x", "z")]
    save("borders", nodes, [value("x", 1, 8, 24, 24), value("m", 1, 8, 1, 1)],
         [value("y", 1, 8, 24, 24), value("z", 1, 8, 24, 24)], [])


def late():
    """A product between two activations, each with an output: the first kernel of a phase needs no weight."""
    nodes = [node("Softmax", "x", "y"), node("MatMul", "y w", "z"), node("Softmax", "z", "u")]
    w = np.random.default_rng(4).standard_normal((16, 16)).astype(np.float32)
    save("late", nodes, [value("x", 2, 16)], [value(name, 2, 16) for name in "yzu"], [numpy_helper.from_array(w, "w")])


def halves():
    """Thirty elements, each on a core of its own, to one core: in f16 a message each."""
    nodes = [node("Elu", "x", "e"), node("MatMul", "e w", "y")]
    w = np.random.default_rng(5).standard_normal((6, 2)).astype(np.float32)
    save("halves", nodes, [value("x", 1, 5, 6)], [value("y", 1, 5, 2)], [numpy_helper.from_array(w, "w")])


def narrow():
    """Sums whose last bit decides how a value of the model's own f16 is rounded."""
    save("narrow", [node("MeanVarianceNormalization", "x", "y", axes=[0, 2, 3])],
         [value("x", 4, 4, 9, 11, dtype=TensorProto.FLOAT16)], [value("y", 4, 4, 9, 11, dtype=TensorProto.FLOAT16)], check=False)


def nothing():
    """Values without elements, and a weight for them."""
    nodes = [node("Concat", "x x", "c", axis=0), node("MatMul", "c w", "y")]
    w = np.random.default_rng(6).standard_normal((3, 2)).astype(np.float32)
    save("nothing", nodes, [value("x", 2, 0, 3)], [value("y", 4, 0, 2)], [numpy_helper.from_array(w, "w")])


def skips():
    """Three convolutions, and the first's result added to the last's: values that skip a kernel."""
    own = np.random.default_rng(2)
    nodes, weights = [], []
    for i, x in enumerate(("x", "r0", "r1")):
        nodes += [node("Conv", f"{x} w{i} b{i}", f"c{i}", f"conv{i}", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                  node("Relu", f"c{i}", f"r{i}")]
        weights += [numpy_helper.from_array((own.standard_normal(shape) / scale).astype(np.float32), name)
                    for name, shape, scale in ((f"w{i}", (8, 8, 3, 3), 8.5), (f"b{i}", (8,), 10))]
    nodes.append(node("Add", "r0 r2", "y", "sum"))
    save("skips", nodes, [value("x", 1, 8, 12, 12)], [value("y", 1, 8, 12, 12)], weights)


def early():
    """Ten convolutions in a row, and an output that leaves behind the second: a sample's outputs cross the border long
    after each other."""
    own = np.random.default_rng(7)
    nodes, weights, x = [], [], "x"
    for i in range(10):
        nodes += [node("Conv", f"{x} w{i}", f"c{i}", f"conv{i}", pads=[1, 1, 1, 1]),
                  node("Relu", f"c{i}", f"r{i}" if i < 9 else "y", f"relu{i}")]
        weights.append(numpy_helper.from_array((own.standard_normal((8, 8, 3, 3)) / 9).astype(np.float32), f"w{i}"))
        x = f"r{i}"
    nodes.append(node("MaxPool", "r1", "pooled", "pooled", kernel_shape=[2, 2], strides=[2, 2]))
    save("early", nodes, [value("x", 1, 8, 16, 16)], [value("pooled", 1, 8, 8, 8), value("y", 1, 8, 16, 16)], weights)


def split():
    """Twice, a value that three kernels take: all of it, a pool of it, one point of each window."""
    own = np.random.default_rng(11)
    nodes, weights, x = [], [], "x"
    for i in range(2):
        c = 8 if i == 0 else 24
        for name, shape, at in (("a", (16, c, 3, 3), x), ("b", (8, 16, 3, 3), f"s{i}"), ("c", (8, 16, 1, 1), f"s{i}")):
            pad = shape[2] // 2
            nodes.append(node("Conv", f"{at} w{i}{name} b{i}{name}", f"{name}{i}", pads=[pad] * 4))
            weights += [numpy_helper.from_array((own.standard_normal(d) / k).astype(np.float32), n + f"{i}{name}")
                        for n, d, k in (("w", shape, np.sqrt(np.prod(shape[1:]))), ("b", shape[:1], 10))]
            if name == "a":
                nodes.append(node("Relu", f"a{i}", f"s{i}"))
        nodes += [node("MaxPool", f"s{i}", f"p{i}", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                  node("Slice", f"p{i} zero eight one", f"d{i}"),
                  node("Concat", f"b{i} c{i} d{i}", "y" if i else "t", axis=1)]
        x = "t"
    weights += [numpy_helper.from_array(np.array([n], np.int64), name)
                for name, n in (("zero", 0), ("eight", 8), ("one", 1))]
    save("split", nodes, [value("x", 1, 8, 12, 12)], [value("y", 1, 24, 12, 12)], weights)


def steps():
    """A recurrence of 18 steps, unrolled: two values of which each step takes a row, and a result of all."""
    own = np.random.default_rng(12)
    nodes = [node("MatMul", "x wk", "u"), node("Sigmoid", "u", "k"), node("MatMul", "x wv", "v")]
    weights = [numpy_helper.from_array((own.standard_normal((16, 16)) / 4).astype(np.float32), n) for n in ("wk", "wv")]
    weights.append(numpy_helper.from_array(own.uniform(0.5, 0.9, 16).astype(np.float32), "decay"))
    for i in range(18):
        weights.append(numpy_helper.from_array(np.array(i, np.int64), f"at{i}"))
        nodes += [node("Gather", f"k at{i}", f"k{i}", axis=1), node("Gather", f"v at{i}", f"v{i}", axis=1),
                  node("Mul", f"k{i} v{i}", f"p{i}")]
        if i:
            nodes += [node("Mul", f"n{i - 1} decay", f"m{i}"), node("Add", f"m{i} p{i}", f"n{i}"),
                      node("Mul", f"d{i - 1} decay", f"e{i}"), node("Add", f"e{i} k{i}", f"d{i}")]
        else:
            nodes += [node("Identity", "p0", "n0"), node("Identity", "k0", "d0")]
        nodes.append(node("Div", f"n{i} d{i}", f"y{i}"))
    nodes.append(node("Concat", " ".join(f"y{i}" for i in range(18)), "y", axis=1))
    save("steps", nodes, [value("x", 1, 18, 16)], [value("y", 1, 288)], weights)


def attention():
    """One head of self-attention with layer normalisation, a symbolic sequence length and shape arithmetic."""
    nodes = [
        node("LayerNormalization", "x g b", "n", "norm", axis=-1),
        node("MatMul", "n wq", "q"), node("MatMul", "n wk", "k"), node("MatMul", "n wv", "v"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"), node("Mul", "s root", "ss"), node("Softmax", "ss", "p", axis=-1),
        node("MatMul", "p v", "o"), node("Add", "o x", "r"),
        node("Shape", "x", "shape"), node("Gather", "shape zero", "batch", axis=0),
        node("Unsqueeze", "batch zero1", "batch1"), node("Concat", "batch1 minus", "target", axis=0),
        node("Reshape", "r target", "y"),
    ]
    weights = [weight("wq", 16, 16), weight("wk", 16, 16), weight("wv", 16, 16),
               numpy_helper.from_array(np.ones(16, np.float32), "g"), weight("b", 16),
               numpy_helper.from_array(np.float32(0.25), "root"),
               numpy_helper.from_array(np.int64(0), "zero"),
               numpy_helper.from_array(np.array([0], np.int64), "zero1"),
               numpy_helper.from_array(np.array([-1], np.int64), "minus")]
    path = save("attention", nodes, [value("x", "batch", "sequence", 16)], [value("y", "batch", "flat")], weights)
    reference(path, x=rng.standard_normal((1, 12, 16)).astype(np.float32))


def steep():
    """Clipped convolutions with weights that are large beside what is left of their sums: each multiplies what the
    order of f32 sums left before it, as depthwise ones with folded normalisation do."""
    def block(x, y, name, w, pads, **attributes):
        return [node("Conv", f"{x} w{w} b{w}", f"{y}c", name, pads=pads, **attributes),
                node("Clip", f"{y}c zero six", y, f"{name}_clip")]
    nodes = block("x", "a", "first", 1, [1] * 4) + block("a", "b", "first_depthwise", 2, [1] * 4, group=8) + \
        block("b", "c", "second", 3, [0] * 4) + block("c", "y", "second_depthwise", 4, [1] * 4, group=8)
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 1, 3, 3, scale=1 / 400), weight("w3", 8, 8, 1, 1),
               weight("w4", 8, 1, 3, 3, scale=1 / 400), numpy_helper.from_array(np.float32(0), "zero"),
               numpy_helper.from_array(np.float32(6), "six")] + [weight(f"b{i}", 8) for i in range(1, 5)]
    save("steep", nodes, [value("x", 1, 3, 16, 16)], [value("y", 1, 8, 16, 16)], weights)


def field(number, payload):
    """A length-delimited protobuf field."""
    size, length = len(payload), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def nested(depth):
    """A GraphProto whose only node carries a graph attribute, `depth` times."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    return graph


def bad():
    x, y = [value("x", 1, 4)], [value("y", 1, 4)]
    plain = dict(check=False)
    save("bad/unknown_operator", [node("Frobnicate", "x", "t", "first_unknown"), node("Relu", "t", "u"),
         node("Whirl", "x", "v", "second_unknown", domain="com.example"), node("Add", "u v", "y")], x, y, **plain)
    save("bad/cycle", [node("Add", "x b", "a", "forward"), node("Relu", "a", "b", "backward"), node("Relu", "b", "y")], x, y, **plain)
    save("bad/undefined_value", [node("Add", "x nowhere", "y", "reads_nothing")], x, y, **plain)
    save("bad/contradictory_shapes", [node("Add", "x w", "y", "adds_unlike")], x, y, [weight("w", 3)], **plain)
    save("bad/matmul_mismatch", [node("MatMul", "x w", "y", "multiplies_unlike")], x, y, [weight("w", 5, 4)], **plain)
    save("bad/overflowing_dims", [node("Expand", "x shape", "y", "expands_too_far")], x, y,
         [numpy_helper.from_array(np.array([2**40, 2**40, 4], np.int64), "shape")], **plain)
    save("bad/negative_dim", [node("Relu", "x", "y")], [value("x", 1, -4)], y, **plain)
    save("bad/unbound_dim", [node("Relu", "x", "y")], [value("x", "batch", 4)], [value("y", "batch", 4)], **plain)
    save("bad/no_outputs", [node("Relu", "x", "y")], x, [], **plain)
    save("bad/missing_output", [node("Relu", "x", "z")], x, y, **plain)
    for name, location in (("missing_external", "absent.bin"), ("escaping_external", "../../secret.bin"),
                           ("absolute_external", "/etc/passwd")):
        w = weight("w", 1, 4)
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        for key, text in (("location", location), ("offset", "0"), ("length", "16")):
            w.external_data.add(key=key, value=text)
        save(f"bad/{name}", [node("Add", "x w", "y", "adds_external")], x, y, [w], **plain)
    w = weight("w", 1, 4)
    w.raw_data = w.raw_data[:9]
    save("bad/short_weight", [node("Add", "x w", "y", "adds_short")], x, y, [w], **plain)
    with open(os.path.join(here, "bad/deep_graphs.onnx"), "wb") as file:
        file.write(field(7, nested(5000)))


def conform():
    """A suite of five tests for `wafer conform`: two pass, two fail, one has nothing to compare with; and a model
    whose inputs the runner makes."""
    x, y = [value("x", 2, 3)], [value("y", 2, 3)]
    data = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    shape = value("shape", 2, dtype=TensorProto.INT64)

    def suite(name, nodes, inputs, outputs, given, expected):
        os.makedirs(os.path.join(here, "conform", name, "test_data_set_0"), exist_ok=True)
        save(f"conform/{name}/model", nodes, inputs, outputs, check=False)
        for kind, tensors in (("input", given), ("output", expected)):
            for i, tensor in enumerate(tensors):
                onnx.save_tensor(numpy_helper.from_array(tensor),
                                 os.path.join(here, "conform", name, "test_data_set_0", f"{kind}_{i}.pb"))

    relu = [node("Relu", "x", "y")]
    suite("passes", relu, x, y, [data], [np.maximum(data, 0)])
    suite("differs", relu, x, y, [data], [np.maximum(data, 0) + np.float32(0.5)])
    suite("reshapes", [node("Reshape", "x shape", "r"), node("Relu", "r", "y")], x + [shape],
          [value("y", None, None)], [data, np.array([3, 2], np.int64)], [np.maximum(data, 0).reshape(3, 2)])
    suite("unknown", [node("Frobnicate", "x", "y", "first_unknown")], x, y, [data], [data])
    os.makedirs(os.path.join(here, "conform/bare"), exist_ok=True)
    save("conform/bare/model", relu, x, y)
    save("conform/ramp", relu, x, y)
    onnx.save_tensor(numpy_helper.from_array((np.arange(6) / 6).astype(np.float32).reshape(2, 3)),
                     os.path.join(here, "conform/ramp_output_0.pb"))


def turns():
    """The host decides: one of two products, three times a third, and where the result is not zero."""
    y, z = [value("y1", 4, 8)], [value("y2", 4, 8)]
    state = value("s", 4, 8)
    flag, trip = value("c", dtype=TensorProto.BOOL), value("i", dtype=TensorProto.INT64)
    body = helper.make_graph([node("MatMul", "s w3", "t", "turn"), node("Tanh", "t", "s1"), node("Identity", "c", "c1")],
                             "body", [trip, flag, state], [value("c1", dtype=TensorProto.BOOL), value("s1", 4, 8)])
    nodes = [
        node("ReduceMax", "x", "m", "most", keepdims=0),
        node("Greater", "m zero", "positive"),
        node("If", "positive", "y", "choose",
             then_branch=helper.make_graph([node("MatMul", "x w1", "y1", "yes")], "yes", [], y),
             else_branch=helper.make_graph([node("MatMul", "x w2", "y2", "no")], "no", [], z)),
        node("Cast", "positive", "one", to=TensorProto.INT64),
        node("Mul", "one three", "trips"),
        helper.make_node("Loop", ["trips", "", "y"], ["z"], name="turns", body=body),
        node("NonZero", "z", "where"),
    ]
    save("turns", nodes, [value("x", 4, 8)], [value("z", 4, 8), value("where", 2, None, dtype=TensorProto.INT64)],
         [weight("w1", 8, 8), weight("w2", 8, 8), weight("w3", 8, 8),
          numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.int64(3), "three")])


def loops():
    """Three models for `wafer conform`, with the results of ONNX Runtime. `counted`: a while loop without a trip
    count, whose condition follows from its counter, collects slices. `decoder`: the data end it; the step that is
    chosen goes into a buffer whose part, and so its dims, only the run knows, and a branch gives one element for what
    it declares a scalar. `unnamed`: dims called '?', which are two."""
    import onnxruntime
    B, I = TensorProto.BOOL, TensorProto.INT64

    def suite(name, path, given):
        folder = os.path.join(here, "loops", name, "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        model = onnx.load(path)
        expected = onnxruntime.InferenceSession(path).run(None, {i.name: x for i, x in zip(model.graph.input, given)})
        for kind, tensors in (("input", given), ("output", expected)):
            for i, tensor in enumerate(tensors):
                onnx.save_tensor(numpy_helper.from_array(np.asarray(tensor)), os.path.join(folder, f"{kind}_{i}.pb"))

    def constants(**values):
        return [numpy_helper.from_array(np.array(v), k) for k, v in values.items()]

    for name in ("counted", "decoder", "unnamed"):
        os.makedirs(os.path.join(here, "loops", name), exist_ok=True)
    x = np.random.default_rng(7).standard_normal((5, 4)).astype(np.float32)
    state, place = value("s", 1, 4), value("k", 1, dtype=I)
    body = helper.make_graph(
        [node("Gather", "x k", "row"), node("Add", "row s", "sum"), node("Tanh", "sum", "s1"), node("Identity", "s1", "slice"),
         node("Add", "k step", "k1"), node("Less", "k1 rows", "more1"), node("Squeeze", "more1", "more")],
        "body", [value("i", dtype=I), value("c", dtype=B), state, place],
        [value("more", dtype=B), value("s1", 1, 4), value("k1", 1, dtype=I), value("slice", 1, 4)])
    nodes = [helper.make_node("Loop", ["", "go", "zero", "start"], ["last", "end", "y"], name="rows", body=body)]
    path = save("loops/counted/model", nodes, [value("x", 5, 4)], [value("last", 1, 4), value("y", 5, 1, 4)],
                constants(step=[1], rows=[5], start=[0], go=True, zero=np.zeros((1, 4), np.float32)))
    suite("counted", path, [x])

    yes = helper.make_graph([node("Constant", "", "t", value=helper.make_tensor("", B, [1], [True]))], "yes", [], [value("t", dtype=B)])
    no = helper.make_graph([node("Cast", "over", "f0", to=I), node("Add", "f0 nought", "f1"), node("Cast", "f1", "f", to=B)],
                           "no", [], [value("f", dtype=B)])
    body = helper.make_graph(
        [node("MatMul", "s w", "t0"), node("Tanh", "t0", "s1"), node("ArgMax", "s1", "best", axis=1, keepdims=0),
         node("Add", "k step", "after"), node("Slice", "line k after axis", "part"), node("Shape", "part", "dims"),
         node("Unsqueeze", "best axis", "token"), node("Expand", "token dims", "update"),
         node("Range", "k0 after0 step0", "numbers"), node("Reshape", "numbers row", "index0"), node("Tile", "index0 ones", "index"),
         node("Squeeze", "k", "k0"), node("Squeeze", "after", "after0"),
         node("ScatterElements", "line index update", "line1", axis=1),
         node("Equal", "best end", "hit"), node("Squeeze", "hit", "ended"),
         helper.make_node("If", ["ended"], ["over1"], name="is_over", then_branch=yes, else_branch=no),
         node("Less", "after0 most", "room"), node("Squeeze", "over1", "over0"), node("Not", "over0", "open"), node("And", "room open", "more")],
        "body", [value("i", dtype=I), value("c", dtype=B), value("s", 1, 4), place, value("line", 1, 9, dtype=I), value("over", dtype=B)],
        [value("more", dtype=B), value("s1", 1, 4), value("after", 1, dtype=I), value("line1", 1, 9, dtype=I), value("over1", dtype=B)])
    order = {n.output[0]: n for n in body.node}
    names = ("t0 s1 best after part dims token update k0 after0 numbers index0 index line1 hit ended over1 room over0 open more").split()
    del body.node[:]
    body.node.extend(order[n] for n in names)
    nodes = [helper.make_node("Loop", ["trips", "go", "x", "start", "blank", "not_over"], ["last", "end_place", "line_end", "end_over"], name="decode", body=body)]
    w = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    path = save("loops/decoder/model", nodes, [value("x", 1, 4)], [value("last", 1, 4), value("line_end", 1, 9, dtype=I)],
                constants(w=w, step=[1], step0=1, start=[0], go=True, trips=100, axis=[1], row=[1, -1], ones=[1, 1], end=[2],
                          nought=[0], most=9, not_over=False, blank=np.full((1, 9), -1)), check=False)
    suite("decoder", path, [x[:1]])

    path = save("loops/unnamed/model", [node("Relu", "x", "y")], [value("x", "?", "?")], [value("y", "?", "?")])
    suite("unnamed", path, [x])


def votes():
    """Two trees that vote for labels that are strings, and a feature that may be missing."""
    trees = dict(nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2], nodes_featureids=[0, 0, 0, 1, 0, 0],
                 nodes_values=[0.5, 0.0, 0.0, -0.25, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
                 nodes_truenodeids=[1, 0, 0] * 2, nodes_falsenodeids=[2, 0, 0] * 2,
                 class_treeids=[0, 0, 0, 1, 1], class_nodeids=[1, 2, 2, 1, 2], class_ids=[0, 1, 2, 2, 1],
                 class_weights=[0.5, 0.125, 0.375, 0.5, 0.5], classlabels_strings=["apple", "pear", "quince"])
    ml = dict(domain="ai.onnx.ml")
    nodes = [node("Imputer", "x", "known", imputed_value_floats=[1.0, 0.0], replaced_value_float=float("nan"), **ml),
             node("TreeEnsembleClassifier", "known", "label scores", **trees, **ml)]
    graph = helper.make_graph(nodes, "votes", [value("x", 4, 2)], [value("label", 4, dtype=TensorProto.STRING), value("scores", 4, 3)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = os.path.join(here, "votes.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    reference(path, x=np.array([[0, 0], [1, 0], [1, -1], [np.nan, np.nan]], np.float32))


def quantized():
    """Weights of 8 bits, and so many that folding leaves them as they are."""
    count = np.arange(420 * 424, dtype=np.int64)
    w = ((count * 7 + count // 424) % 251 - 125).astype(np.int8).reshape(420, 424)
    scale = (1 / (100 + np.arange(424) % 7)).astype(np.float32)
    nodes = [node("DequantizeLinear", "q scale zero", "w", "dequantize", axis=1), node("MatMul", "x w", "t", "product"),
             node("Relu", "t", "y", "rectify")]
    save("quantized", nodes, [value("x", 4, 420)], [value("y", 4, 424)],
         [numpy_helper.from_array(data, name)
          for name, data in (("q", w), ("scale", scale), ("zero", np.zeros(424, np.int8)))])


os.makedirs(os.path.join(here, "bad"), exist_ok=True)
small_cnn()
attention()
bad()
conform()
steep()
averages()
borders()
late()
halves()
narrow()
nothing()
skips()
early()
turns()
loops()
scales()
one_mean()
split()
steps()
quantized()
votes()
