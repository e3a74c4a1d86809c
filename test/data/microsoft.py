"""Makes test/data/microsoft.tar.zst: tests in the layout of ONNX's backend suite for the operators of the domain
com.microsoft that frontend/onnx.def has and onnxruntime runs without a GPU, and for recurrences, with what it computes. The same bytes each time, for one version of
onnxruntime; needs it, onnx and zstd.  usage: microsoft.py [FOLDER]: the tests in a folder instead."""
import io, pathlib, subprocess, sys, tarfile, zlib
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
CASES = {}
KIND = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32,
        "int64": TensorProto.INT64, "float16": TensorProto.FLOAT16, "bool": TensorProto.BOOL}


class Case:
    """A node; operands are arrays, which become inputs of the model, or constants of it where `Fixed` holds them."""

    def __init__(self, op, operands, outputs=1, domain=MS, opset=17, **attrs):
        self.op, self.operands, self.outputs = op, operands, outputs
        self.domain, self.opset, self.attrs = domain, opset, attrs


class Fixed:
    def __init__(self, value):
        self.value = np.asarray(value)


def case(make):
    CASES[make.__name__.strip("_")] = make
    return make


def seeded(name):
    r = np.random.default_rng(zlib.crc32(name.encode()))

    class Draw:
        def f(self, *shape, scale=1.0):
            return (r.standard_normal(shape) * scale).astype(np.float32)

        def u8(self, *shape):
            return r.integers(0, 256, shape, dtype=np.uint8)

        def i8(self, *shape):
            return r.integers(-128, 128, shape, dtype=np.int8)

        def ids(self, most, *shape, dtype=np.int32):
            return r.integers(0, most, shape).astype(dtype)

    return Draw()


def scale(value):
    return Fixed(np.float32(value))


def zero(value, dtype=np.uint8):
    return Fixed(dtype(value))


# ---- Activations and products


@case
def gelu(d): return Case("Gelu", [d.f(3, 5, scale=2)])
@case
def fast_gelu(d): return Case("FastGelu", [d.f(2, 3, 8)])
@case
def fast_gelu_bias(d): return Case("FastGelu", [d.f(2, 3, 8), Fixed(d.f(8))])
@case
def bias_gelu(d): return Case("BiasGelu", [d.f(2, 3, 8), Fixed(d.f(8))])
@case
def quick_gelu(d): return Case("QuickGelu", [d.f(4, 6, scale=2)], alpha=1.702)
@case
def fused_matmul(d): return Case("FusedMatMul", [d.f(2, 3, 4), d.f(2, 5, 4)], alpha=0.125, transB=1)
@case
def fused_matmul_left(d): return Case("FusedMatMul", [d.f(2, 4, 3), Fixed(d.f(4, 6))], transA=1)
@case
def fused_matmul_batches(d): return Case("FusedMatMul", [d.f(3, 2, 4), d.f(2, 4, 5)], transBatchA=1)
@case
def transpose_matmul(d): return Case("TransposeMatMul", [d.f(3, 4), d.f(5, 4)], transB=1, alpha=2.0)
@case
def fused_gemm_relu(d): return Case("FusedGemm", [d.f(3, 4), Fixed(d.f(5, 4)), Fixed(d.f(5))], transB=1, activation="Relu")
@case
def fused_gemm_leaky(d):
    return Case("FusedGemm", [d.f(3, 4), Fixed(d.f(4, 5)), Fixed(d.f(5))], activation="LeakyRelu", activation_alpha=0.25)
@case
def fused_conv_relu(d):
    return Case("FusedConv", [d.f(1, 3, 6, 5), Fixed(d.f(4, 3, 3, 3)), Fixed(d.f(4))], activation="Relu", pads=[1, 1, 1, 1])
@case
def fused_conv_clip(d):
    return Case("FusedConv", [d.f(1, 4, 6, 6), Fixed(d.f(4, 1, 3, 3)), Fixed(d.f(4))], activation="Clip",
                activation_params=[0.0, 6.0], group=4, strides=[2, 2])
@case
def fused_conv_leaky(d):
    return Case("FusedConv", [d.f(1, 2, 5, 5), Fixed(d.f(3, 2, 1, 1))], activation="LeakyRelu", activation_params=[0.1])
@case
def fused_conv_hard_sigmoid(d):
    return Case("FusedConv", [d.f(1, 2, 5, 5), Fixed(d.f(3, 2, 1, 1))], activation="HardSigmoid", activation_params=[0.2, 0.5])
@case
def fused_conv_sum(d):
    return Case("FusedConv", [d.f(1, 2, 4, 4), Fixed(d.f(3, 2, 1, 1)), Fixed(d.f(3)), d.f(1, 3, 4, 4)], activation="Relu")


# ---- Normalizations


@case
def layer_norm_of_opset_11(d):
    return Case("LayerNormalization", [d.f(2, 3, 8), Fixed(d.f(8)), Fixed(d.f(8))], domain="", opset=11, axis=-1)
@case
def simplified_layer_norm(d):
    return Case("SimplifiedLayerNormalization", [d.f(2, 3, 8), Fixed(d.f(8))], domain="", epsilon=1e-6, axis=-1)
@case
def skip_layer_norm(d): return Case("SkipLayerNormalization", [d.f(2, 3, 8), d.f(2, 3, 8), Fixed(d.f(8)), Fixed(d.f(8))])
@case
def skip_layer_norm_bias(d):
    return Case("SkipLayerNormalization", [d.f(2, 3, 8), d.f(2, 3, 8), Fixed(d.f(8)), Fixed(d.f(8)), Fixed(d.f(8))],
                outputs=[0, 3], epsilon=1e-5)
@case
def skip_layer_norm_no_beta(d): return Case("SkipLayerNormalization", [d.f(2, 3, 8), d.f(3, 8), Fixed(d.f(8))])
@case
def skip_simplified_layer_norm(d):
    return Case("SkipSimplifiedLayerNormalization", [d.f(2, 3, 8), d.f(2, 3, 8), Fixed(d.f(8))], outputs=[0, 3], epsilon=1e-6)
@case
def skip_simplified_layer_norm_bias(d):
    return Case("SkipSimplifiedLayerNormalization", [d.f(2, 3, 8), d.f(2, 3, 8), Fixed(d.f(8)), Fixed(d.f(8))], epsilon=1e-6)


def embedding(d, hidden=8, words=11, places=6, kinds=2):
    return [Fixed(d.f(words, hidden)), Fixed(d.f(places, hidden)), Fixed(d.f(kinds, hidden)), Fixed(d.f(hidden)),
            Fixed(d.f(hidden))]


@case
def embed_layer_norm(d):
    w = embedding(d)
    return Case("EmbedLayerNormalization", [d.ids(11, 2, 4), d.ids(2, 2, 4), *w], outputs=[0, 1], epsilon=1e-5)
@case
def embed_layer_norm_mask(d):
    w, mask = embedding(d), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    return Case("EmbedLayerNormalization", [d.ids(11, 2, 4), d.ids(2, 2, 4), *w, mask], outputs=[0, 1], epsilon=1e-5)
@case
def embed_layer_norm_positions(d):
    w = embedding(d)
    w[2] = None
    return Case("EmbedLayerNormalization", [d.ids(11, 2, 4), None, *w, None, d.ids(6, 2, 4)], outputs=[0, 1, 2], epsilon=1e-5)


# ---- Attention


def heads(d, batch=2, rows=3, size=8, kv=None):
    kv = kv or rows
    return d.f(batch, rows, size), d.f(batch, kv, size), d.f(batch, kv, size)


def projection(d, size=8, columns=24):
    return Fixed(d.f(size, columns, scale=0.4)), Fixed(d.f(columns, scale=0.4))


@case
def attention_plain(d): return Case("Attention", [d.f(2, 4, 8), *projection(d)], num_heads=2)
@case
def attention_causal(d): return Case("Attention", [d.f(2, 4, 8), *projection(d)], num_heads=2, unidirectional=1)
@case
def attention_mask(d):
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    return Case("Attention", [d.f(2, 4, 8), *projection(d), mask], num_heads=2)
@case
def attention_ends(d): return Case("Attention", [d.f(2, 4, 8), *projection(d), np.array([3, 2], np.int32)], num_heads=2)
@case
def attention_spans(d): return Case("Attention", [d.f(2, 4, 8), *projection(d), np.array([3, 4, 1, 0], np.int32)], num_heads=4)
@case
def attention_mask_3d(d):
    mask = np.tril(np.ones((2, 4, 4), np.int32))
    return Case("Attention", [d.f(2, 4, 8), *projection(d), mask], num_heads=2, scale=0.25)
@case
def attention_past(d):
    return Case("Attention", [d.f(2, 1, 8), *projection(d), np.ones((2, 4), np.int32), d.f(2, 2, 2, 3, 4)], outputs=2,
                num_heads=2, unidirectional=1)
@case
def attention_bias(d):
    return Case("Attention", [d.f(2, 4, 8), *projection(d), None, None, d.f(1, 2, 4, 4)], num_heads=2)
@case
def attention_sizes(d):
    return Case("Attention", [d.f(2, 3, 8), *projection(d, 8, 28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
@case
def multi_head_plain(d): return Case("MultiHeadAttention", [*heads(d)], num_heads=2)
@case
def multi_head_cross(d): return Case("MultiHeadAttention", [*heads(d, kv=5)], num_heads=4, scale=0.5)
@case
def multi_head_bias(d): return Case("MultiHeadAttention", [*heads(d), Fixed(d.f(24))], num_heads=2)
@case
def multi_head_mask(d):
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    return Case("MultiHeadAttention", [*heads(d), Fixed(d.f(24)), mask], num_heads=2)
@case
def multi_head_past(d):
    q, k, v = heads(d, rows=2)
    return Case("MultiHeadAttention", [q, k, v, None, None, d.f(1, 2, 2, 5), d.f(2, 2, 3, 4), d.f(2, 2, 3, 4)], outputs=3,
                num_heads=2)
@case
def multi_head_causal(d): return Case("MultiHeadAttention", [*heads(d)], num_heads=2, unidirectional=1)
@case
def multi_head_given(d):
    return Case("MultiHeadAttention", [d.f(2, 3, 8), d.f(2, 2, 5, 4), d.f(2, 2, 5, 4)], num_heads=2)


def caches(d, places=8, half=2):
    a = np.arange(places)[:, None] * 0.3 ** np.arange(half)[None]
    return Fixed(np.cos(a).astype(np.float32)), Fixed(np.sin(a).astype(np.float32))


def place(*values):
    return Fixed(np.array(values, np.int32)) if len(values) != 1 else Fixed(np.int32(values[0]))


@case
def group_query_first(d):
    return Case("GroupQueryAttention", [d.f(2, 3, 32), d.f(2, 3, 16), d.f(2, 3, 16), None, None, place(2, 2), place(3)], outputs=3,
                num_heads=4, kv_num_heads=2)
@case
def group_query_packed_rotary(d):
    return Case("GroupQueryAttention", [d.f(1, 3, 128), None, None, None, None, Fixed(np.array([2], np.int32)), place(3),
                                        *caches(d, half=8)], outputs=3, num_heads=4, kv_num_heads=2, do_rotary=1)
@case
def group_query_grows(d):
    return Case("GroupQueryAttention", [d.f(2, 1, 64), d.f(2, 1, 32), d.f(2, 1, 32), d.f(2, 2, 4, 16), d.f(2, 2, 4, 16), place(4, 4),
                                        place(5), *caches(d, half=8)], outputs=3, num_heads=4, kv_num_heads=2, do_rotary=1, softcap=5.0)
@case
def group_query_filled_at_run(d):
    return Case("GroupQueryAttention", [d.f(1, 1, 64), d.f(1, 1, 32), d.f(1, 1, 32), d.f(1, 2, 4, 16), d.f(1, 2, 4, 16),
                                        np.array([4], np.int32), place(5), *caches(d, half=8)], outputs=3, num_heads=4, kv_num_heads=2,
                do_rotary=1, rotary_interleaved=1)
@case
def group_query_two_more(d):
    return Case("GroupQueryAttention", [d.f(1, 2, 64), d.f(1, 2, 32), d.f(1, 2, 32), d.f(1, 2, 3, 16), d.f(1, 2, 3, 16),
                                        np.array([4], np.int32), place(5), *caches(d, half=8)], outputs=3, num_heads=4,
                kv_num_heads=2, do_rotary=1)
@case
def group_query_window(d):
    return Case("GroupQueryAttention", [d.f(1, 6, 32), d.f(1, 6, 16), d.f(1, 6, 16), None, None, Fixed(np.array([5], np.int32)),
                                        place(6)], outputs=3, num_heads=4, kv_num_heads=2, local_window_size=3, scale=0.3)
@case
def rotary(d):
    return Case("RotaryEmbedding", [d.f(2, 3, 8), d.ids(8, 2, 3, dtype=np.int64), *caches(d)])
@case
def rotary_offset(d):
    return Case("RotaryEmbedding", [d.f(1, 2, 3, 4), np.array([4], np.int64), *caches(d)], interleaved=1)
@case
def rotary_part(d):
    return Case("RotaryEmbedding", [d.f(1, 3, 16), d.ids(8, 1, 3, dtype=np.int64), *caches(d)], num_heads=2, rotary_embedding_dim=4)


# ---- Quantized numbers


def quantized(d, *shape, dtype=np.uint8, s=0.02, z=None):
    z = (128 if dtype == np.uint8 else 0) if z is None else z
    return (d.u8(*shape) if dtype == np.uint8 else d.i8(*shape)), scale(s), zero(z, dtype)


@case
def qlinear_add(d): return Case("QLinearAdd", [*quantized(d, 2, 3, 4), *quantized(d, 2, 3, 4, s=0.03, z=120), scale(0.043), zero(131)])
@case
def qlinear_add_signed(d):
    return Case("QLinearAdd", [*quantized(d, 2, 3, dtype=np.int8), *quantized(d, 3, dtype=np.int8, s=0.05), scale(0.06), zero(-3, np.int8)])
@case
def qlinear_mul(d): return Case("QLinearMul", [*quantized(d, 2, 3, 4), *quantized(d, 4, s=0.03, z=120), scale(0.071), zero(131)])
@case
def qlinear_global_pool(d): return Case("QLinearGlobalAveragePool", [*quantized(d, 1, 3, 5, 4), scale(0.011), zero(125)])
@case
def qlinear_global_pool_last(d):
    return Case("QLinearGlobalAveragePool", [*quantized(d, 1, 5, 4, 3), scale(0.011), zero(125)], channels_last=1)
@case
def qlinear_pool(d):
    return Case("QLinearAveragePool", [*quantized(d, 1, 3, 6, 6), scale(0.017), zero(125)], kernel_shape=[3, 3], strides=[2, 2],
                pads=[1, 1, 1, 1])
@case
def qlinear_sigmoid(d): return Case("QLinearSigmoid", [*quantized(d, 3, 8, s=0.05), scale(1 / 256), zero(0)])
@case
def qlinear_leaky_relu(d): return Case("QLinearLeakyRelu", [*quantized(d, 3, 8, s=0.05), scale(0.031), zero(40)], alpha=0.2)
@case
def qlinear_softmax(d): return Case("QLinearSoftmax", [*quantized(d, 3, 10, s=0.05), scale(1 / 256), zero(0)], axis=-1, **{"opset_": 13})
@case
def qlinear_softmax_of_opset_12(d):
    return Case("QLinearSoftmax", [*quantized(d, 2, 3, 4, s=0.05), scale(1 / 256), zero(0)], axis=1, **{"opset_": 12})
@case
def qlinear_concat(d):
    return Case("QLinearConcat", [scale(0.03), zero(128), *quantized(d, 2, 3), *quantized(d, 2, 5, s=0.04, z=100)], axis=1)
@case
def qlinear_where(d):
    return Case("QLinearWhere", [d.ids(2, 3, 4).astype(bool), *quantized(d, 3, 4), *quantized(d, 3, 4, s=0.03, z=100), scale(0.026), zero(128)])
@case
def qgemm(d):
    return Case("QGemm", [*quantized(d, 3, 8), Fixed(d.i8(5, 8)), scale(0.01), zero(0, np.int8), Fixed(d.ids(2000, 5)), scale(0.37),
                          zero(128)], transB=1)
@case
def qgemm_real(d):
    return Case("QGemm", [*quantized(d, 3, 8), Fixed(d.i8(8, 5)), Fixed(np.abs(d.f(5)) * np.float32(0.01)),
                          Fixed(np.zeros(5, np.int8)), Fixed(d.ids(2000, 5))])
@case
def dynamic_quantize_matmul(d):
    return Case("DynamicQuantizeMatMul", [d.f(2, 3, 8), Fixed(d.u8(8, 5)), scale(0.01), zero(130), Fixed(d.f(5))])
@case
def dynamic_quantize_matmul_columns(d):
    return Case("DynamicQuantizeMatMul", [d.f(3, 8), Fixed(d.i8(8, 5)), Fixed(np.abs(d.f(5)) * np.float32(0.01)),
                                          Fixed(np.zeros(5, np.int8))])
def quantized_lstm(d, columns=False, dirs=1, steps=3, size=4, hidden=4):
    """One sequence: onnxruntime quantizes the rows of a batch together or apart, as threads come."""
    scales = lambda: Fixed(np.abs(d.f(dirs, 4 * hidden) if columns else d.f(dirs)) * np.float32(0.01) + np.float32(0.003))
    zeros = lambda: Fixed(np.zeros((dirs, 4 * hidden) if columns else dirs, np.int8))
    return Case("DynamicQuantizeLSTM", [d.f(steps, 1, size), Fixed(d.i8(dirs, size, 4 * hidden)), Fixed(d.i8(dirs, hidden, 4 * hidden)),
                                        Fixed(d.f(dirs, 8 * hidden, scale=0.5)), None, d.f(dirs, 1, hidden), d.f(dirs, 1, hidden), None,
                                        scales(), zeros(), scales(), zeros()], 3, hidden_size=hidden,
                direction="bidirectional" if dirs == 2 else "forward")
@case
def dynamic_quantize_lstm(d): return quantized_lstm(d)
@case
def dynamic_quantize_lstm_columns(d): return quantized_lstm(d, columns=True, dirs=2)
@case
def matmul_integer_to_float(d):
    return Case("MatMulIntegerToFloat", [d.u8(2, 3, 8), Fixed(d.i8(8, 5)), scale(0.02), Fixed(np.abs(d.f(5)) * np.float32(0.01)), zero(128),
                                         Fixed(np.zeros(5, np.int8)), Fixed(d.f(5))])
@case
def qattention(d):
    return Case("QAttention", [d.u8(2, 3, 8), Fixed(d.i8(8, 24)), Fixed(d.f(24, scale=0.4)), scale(0.01), scale(0.01),
                               np.array([3, 2], np.int32), zero(128), zero(0, np.int8)], num_heads=2)
@case
def quantize(d): return Case("QuantizeLinear", [d.f(3, 4), scale(0.03), zero(128)])
@case
def dequantize_columns(d):
    return Case("DequantizeLinear", [d.u8(3, 4), Fixed(np.abs(d.f(4))), Fixed(d.u8(4))], axis=1)


def packed(d, n, k, block, bits):
    blocks = -(-k // block)
    return Fixed(d.u8(n, blocks, block * bits // 8)), Fixed((np.abs(d.f(n, blocks)) * np.float32(0.1)).astype(np.float32)), blocks


@case
def matmul_nbits(d):
    b, s, blocks = packed(d, 5, 32, 16, 4)
    return Case("MatMulNBits", [d.f(2, 3, 32), b, Fixed(s.value.reshape(-1))], K=32, N=5, bits=4, block_size=16)
@case
def matmul_nbits_zeros(d):
    b, s, blocks = packed(d, 5, 40, 16, 4)
    return Case("MatMulNBits", [d.f(3, 40), b, s, Fixed(d.u8(5, (blocks + 1) // 2))], K=40, N=5, bits=4, block_size=16)
@case
def matmul_8_bits(d):
    b, s, blocks = packed(d, 4, 32, 32, 8)
    return Case("MatMulNBits", [d.f(3, 32), b, s, None, None, Fixed(d.f(4))], K=32, N=4, bits=8, block_size=32)


@case
def grid_sample(d): return Case("GridSample", [d.f(1, 2, 4, 4), d.f(1, 3, 3, 2, scale=0.5)], mode="bilinear", padding_mode="zeros")
@case
def trilu(d): return Case("Trilu", [d.f(3, 4)], upper=0)


# ---- Recurrences of ONNX's own domain, of which its suite has few


def recurrence(d, op, lengths=None, dirs=1, steps=4, batch=3, size=2, hidden=4, fixed=False, **attrs):
    """All operands but peepholes; lengths are an input of the model, or known when compiling."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    lens = None if lengths is None else np.array(lengths, np.int32)
    operands = [d.f(steps, batch, size), Fixed(d.f(dirs, gates * hidden, size)), Fixed(d.f(dirs, gates * hidden, hidden, scale=0.5)),
                Fixed(d.f(dirs, 2 * gates * hidden, scale=0.5)), Fixed(lens) if fixed else lens, d.f(dirs, batch, hidden)]
    if op == "LSTM":
        operands.append(d.f(dirs, batch, hidden))
    direction = "bidirectional" if dirs == 2 else attrs.pop("direction", "forward")
    return Case(op, operands, 3 if op == "LSTM" else 2, domain="", hidden_size=hidden, direction=direction, **attrs)


@case
def rnn_lengths(d): return recurrence(d, "RNN", [4, 2, 0])
@case
def rnn_lengths_known(d): return recurrence(d, "RNN", [3, 1, 2], fixed=True, direction="reverse")
@case
def rnn_affine(d): return recurrence(d, "RNN", dirs=2, activations=["Affine", "LeakyRelu"], activation_alpha=[0.5, 0.2], activation_beta=[0.1])
@case
def rnn_softsign(d): return recurrence(d, "RNN", dirs=2, activations=["Softsign", "Softplus"])
@case
def gru_lengths(d): return recurrence(d, "GRU", [2, 4, 1], dirs=2)
@case
def gru_hard_sigmoid(d):
    return recurrence(d, "GRU", activations=["HardSigmoid", "ScaledTanh"], activation_alpha=[0.3, 1.2], activation_beta=[0.4, 0.7])
@case
def gru_elu(d):
    return recurrence(d, "GRU", [4, 4, 3], activations=["HardSigmoid", "Elu"], activation_alpha=[0.25, 0.6], linear_before_reset=1, clip=0.9)
@case
def lstm_lengths(d): return recurrence(d, "LSTM", [1, 4, 3], dirs=2)
@case
def lstm_lengths_reverse(d): return recurrence(d, "LSTM", [0, 4, 2], direction="reverse", clip=0.8)
@case
def lstm_input_forget(d): return recurrence(d, "LSTM", input_forget=1)
@case
def lstm_activations(d):
    return recurrence(d, "LSTM", dirs=2, activations=["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "ThresholdedRelu", "Softsign"],
                      activation_alpha=[0.3, 0.1, 0.4], activation_beta=[0.6])
@case
# Of Affine, ScaledTanh and ThresholdedRelu onnxruntime takes 0 for what is not given, ONNX the operators' defaults.
def lstm_defaults(d): return recurrence(d, "LSTM", activations=["HardSigmoid", "LeakyRelu", "Elu"])


# ---- Writing


def model_of(c):
    inputs, names, fixed = [], [], []
    for i, x in enumerate(c.operands):
        names.append("" if x is None else f"x{i}")
        if isinstance(x, Fixed):
            fixed.append(numpy_helper.from_array(np.asarray(x.value), f"x{i}"))
        elif x is not None:
            inputs.append((f"x{i}", np.asarray(x)))
    wanted = range(c.outputs) if isinstance(c.outputs, int) else c.outputs
    results = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    attrs = {k.rstrip("_"): v for k, v in c.attrs.items()}
    node = helper.make_node(c.op, names, results, name=c.op, domain=c.domain, **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(k, KIND[v.dtype.name], v.shape) for k, v in inputs],
                              [helper.make_empty_tensor_value_info(r) for r in results if r], fixed)
    opsets = [helper.make_opsetid("", c.opset), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs


def files_of(name):
    model, inputs = model_of(CASES[name](seeded(name)))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, dict(inputs))
    for info, value in zip(model.graph.output, results):
        info.CopyFrom(helper.make_tensor_value_info(info.name, KIND[value.dtype.name], value.shape))
    yield "model.onnx", model.SerializeToString(deterministic=True)
    for i, (key, value) in enumerate(inputs):
        yield f"test_data_set_0/input_{i}.pb", numpy_helper.from_array(value, key).SerializeToString()
    for i, value in enumerate(results):
        yield f"test_data_set_0/output_{i}.pb", numpy_helper.from_array(value, model.graph.output[i].name).SerializeToString()


def main():
    ort.set_default_logger_severity(4)
    if len(sys.argv) > 1:
        for name in CASES:
            try:
                files = list(files_of(name))
            except Exception as e:  # a case that this version of onnxruntime does not run
                print(f"{name}: {str(e)[:300]}")
                continue
            for path, data in files:
                full = pathlib.Path(sys.argv[1]) / name / path
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_bytes(data)
        return
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(CASES):
            for path, data in files_of(name):
                info = tarfile.TarInfo(f"{name}/{path}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    out = pathlib.Path(__file__).with_name("microsoft.tar.zst")
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", str(out)], input=archive.getvalue(), check=True)
    print(f"{len(CASES)} tests, onnxruntime {ort.__version__}")


main()
