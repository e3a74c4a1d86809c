/* frontend/onnx.def and its expansions: graphs of constants fold to numbers that are known. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

/* What y is when every operand is a constant. */
#define ML "ai.onnx.ml::"
#define TWO "classlabels_ints=[7,9],"

static const struct {
  int64_t opset;
  const char *graph, *want;
} folded[] = {
    {13, "init a f32 2 = 1 -2; Relu a -> y", "2: 1 0"},
    {13, "init a f32 2 = 1 -2; init b f32 1 = 1; Greater a b -> y", "2: 0 0"},
    {13, "init a f32 2 = 1 -2; init b f32 1 = 1; GreaterOrEqual a b -> y", "2: 1 0"},
    {13, "init a f32 2 = 1 -2; init b f32 1 = 4; Max a b a -> y", "2: 4 4"},
    {13, "init a f32 2 = 1 -2; init b f32 1 = 4; Mean a b -> y", "2: 2.5 1"},
    {13, "init a i64 2 = -7 7; init b i64 1 = 3; Mod a b -> y", "2: 2 1"},
    {15, "init a f32 2 = 2 9; init b i64 2 = 3 2; Pow a b -> y", "2: 8 81"},
    {14, "init x f32 2x1x1 = 1 1; init w f32 1x1x1 = 1; init r f32 1x1x1 = 1; RNN x w r -> y",
     "2x1x1x1: 0.76159 0.94268"},
    {14,
     "init x f32 2x1x1 = 1 1; init w f32 1x1x1 = 1; init r f32 1x1x1 = 1; "
     "RNN(direction='reverse') x w r -> y",
     "2x1x1x1: 0.94268 0.76159"},
    {14,
     "init x f32 1x1x1 = 1; init w f32 1x3x1 = 1 1 1; init r f32 1x3x1 = 0 0 0; "
     "GRU x w r -> y",
     "1x1x1x1: 0.20482"},
    {14,
     "init x f32 1x1x1 = 1; init w f32 1x4x1 = 1 1 1 1; init r f32 1x4x1 = 0 0 0 0; "
     "LSTM x w r -> y",
     "1x1x1x1: 0.36961"},
    /* several steps, with states and biases of their own */
    {14,
     "init x f32 3x1x1 = 1 -1 0.5; init w f32 1x6x1 = 1 -1 0.5 2 -0.5 1; "
     "init r f32 1x6x2 = 1 -1 0.5 0.5 -1 2 0 1 1 1 -0.5 0.25; "
     "init b f32 1x12 = 0.5 -0.5 1 0 0.25 1 0.5 0.5 -1 1 2 -1; GRU x w r b -> y",
     "3x1x1x2: 0.11221 0.55677 0.65039 0.28373 0.69577 0.32749"},
    {14,
     "init x f32 3x1x1 = 1 -1 0.5; init w f32 1x6x1 = 1 -1 0.5 2 -0.5 1; "
     "init r f32 1x6x2 = 1 -1 0.5 0.5 -1 2 0 1 1 1 -0.5 0.25; "
     "init b f32 1x12 = 0.5 -0.5 1 0 0.25 1 0.5 0.5 -1 1 2 -1; "
     "GRU(linear_before_reset=1) x w r b -> y",
     "3x1x1x2: 0.090529 0.57081 0.64307 0.38008 0.68732 0.37031"},
    {14,
     "init x f32 3x1x1 = 1 -1 0.5; init w f32 2x4x1 = 1 -1 0.5 2 0.5 1 -1 1; "
     "init r f32 2x4x1 = 1 -1 0.5 0.5 -1 2 0.25 1; "
     "init b f32 2x8 = 0.5 -0.5 1 0 0.25 1 -1 0.5 1 0 -1 0.5 0.5 0.5 0 -0.5; "
     "init p f32 2x3 = 1 -1 0.5 0.5 1 -1; LSTM(direction='bidirectional') x w r b - - - p -> y",
     "3x2x1x1: 0.14231 0.45364 -0.14957 -0.11829 0.1991 0.30008"},
    {13,
     "init a f32 1x1x2 = 1 2; init w f32 1x1x1 = 1; "
     "ConvTranspose(strides=[2],output_shape=[4]) a w -> y",
     "1x1x4: 1 0 2 0"},
    {13,
     "init a f32 1x1x2 = 1 2; init w f32 1x1x1 = 1; "
     "ConvTranspose(strides=[2],auto_pad='SAME_UPPER') a w -> y",
     "1x1x3: 1 0 2"},
    {15, "init a i32 2 = 2 9; init b f32 2 = 3 0.5; Pow a b -> y", "2: 8 3"},
    {13, "init a i64 2x1 = 1 2; init r i64 2 = 2 3; Tile a r -> y", "4x3: 1 1 1 2 2 2 1 1 1 2 2 2"},
    /* beyond the border tap by tap, as PyTorch has it */
    {20,
     "init a f32 1x1x2x2 = 1 2 3 5; init g f32 1x1x2x2 = -1.2 0.3 0.1 0.9; "
     "GridSample(mode='cubic',padding_mode='border') a g -> y",
     "1x1x1x2: 2.5618 4.5061"},
    {20,
     "init a f32 1x1x2x2 = 1 2 3 5; init g f32 1x1x2x2 = -1.2 0.3 0.1 0.9; "
     "GridSample(mode='cubic',padding_mode='reflection') a g -> y",
     "1x1x1x2: 2.3607 4.6942"},
    {20,
     "init a f32 1x1x2x2 = 1 2 3 5; init g f32 1x1x2x2 = -1.2 0.3 0.1 0.9; "
     "GridSample(mode='cubic',padding_mode='border',align_corners=1) a g -> y",
     "1x1x1x2: 2.2329 4.0119"},
    {20,
     "init a f32 1x1x2x2 = 1 2 3 5; init g f32 1x1x2x2 = -1.2 0.3 0.1 0.9; "
     "GridSample(mode='cubic',padding_mode='reflection',align_corners=1) a g -> y",
     "1x1x1x2: 2.4846 4.1308"},
    /* integers that are no doubles, and the most there are */
    {13,
     "init z i64 scalar = 9007199254740993; init l i64 scalar = 9007199254740996; "
     "init d i64 scalar = 1; Range z l d -> r; Sub r z -> y",
     "3: 0 1 2"},
    {13,
     "init z i64 scalar = 5; init l i64 scalar = -9223372036854775807; "
     "init d i64 scalar = -9223372036854775807; Range z l d -> y",
     "2: 5 -9.2234e+18"},
    {14, "init a f32 2x2 = 1 2 3 4; init k i64 scalar = 9223372036854775807; Trilu a k -> y",
     "2x2: 0 0 0 0"},
    {14,
     "init a f32 2x2 = 1 2 3 4; init k i64 scalar = -9223372036854775807; Trilu(upper=0) a k -> y",
     "2x2: 0 0 0 0"},
    {14, "init a f32 2x2 = 1 2 3 4; init k i64 scalar = 1; Trilu(upper=0) a k -> y",
     "2x2: 1 2 3 4"},
    {18, "init a f32 3x2 = 1 inf -inf -inf 0 0; init d i64 1 = 1; ReduceLogSumExp a d -> y",
     "3x1: inf -inf 0.69315"},
    {13, "init a f32 1x1x2x2 = 1 2 3 6; AveragePool(kernel_shape=[2,2]) a -> y", "1x1x1x1: 3"},
    {13, "init a f32 1x1x3 = 3 -4 5; LpPool(kernel_shape=[2]) a -> y", "1x1x2: 5 6.4031"},
    {18, "init a f32 1x1x3 = 3 -4 5; LpPool(kernel_shape=[2],strides=[2],ceil_mode=1) a -> y",
     "1x1x2: 5 5"},
    {13, "init a f32 4 = 1 2 3 4; init i i64 scalar = 0; CumSum a i -> y", "4: 1 3 6 10"},
    {13, "init a i64 4 = 1 2 3 4; init i i64 scalar = 0; CumSum(exclusive=1,reverse=1) a i -> y",
     "4: 9 7 4 0"},
    {13, "init a f32 2x3 = 0 2 0 4 0 -1; NonZero a -> y", "2x3: 0 1 1 1 0 2"},
    {13, "init a f32 scalar = 3; NonZero a -> y", "1x1: 0"},
    {13, "init a i64 2 = 0 0; NonZero a -> y", "1x0:"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; init c bool 3 = 1 0 1; Compress(axis=1) a c -> y",
     "2x2: 1 3 4 6"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; init c bool 5 = 0 1 0 0 1; Compress a c -> y", "2: 2 5"},
    {13, "init a f32 2x2 = 1 2 3 4; init i i64 2x1 = 1 -2; GatherElements(axis=1) a i -> y",
     "2x1: 2 3"},
    {13, "init a f32 3x2 = 1 2 3 4 5 6; init i i64 2x2 = 0 2 1 0; GatherElements(axis=0) a i -> y",
     "2x2: 1 6 3 2"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; init i i64 1x2 = 1 0; GatherElements(axis=0) a i -> y",
     "1x2: 4 2"},
    {13,
     "init a f32 2x2x2 = 1 2 3 4 5 6 7 8; init i i64 2x1x2 = 1 1 0 0; "
     "GatherElements(axis=1) a i -> y",
     "2x1x2: 3 4 5 6"},
    {13, "init a f32 2x2 = 1 2 3 4; init i i64 2x2 = 0 1 -1 0; GatherND a i -> y", "2: 2 3"},
    {13,
     "init a f32 2x2x2 = 1 2 3 4 5 6 7 8; init i i64 2x1 = 1 0; GatherND(batch_dims=1) a i -> y",
     "2x2: 3 4 5 6"},
    {13, "init a f32 2x2 = 1 2 3 4; init i i64 2x1 = 1 0; GatherND(batch_dims=1) a i -> y",
     "2: 2 3"},
    {13,
     "init a f32 1x1x1x1x1x1x1x2 = 1 2; init i i64 1x1x1x1x1x1x1x1 = 1; "
     "GatherND(batch_dims=7) a i -> y",
     "1x1x1x1x1x1x1: 2"},
    {13,
     "init a f32 3 = 1 2 3; init i i64 2 = 2 -2; init u f32 2 = 8 9; ScatterElements a i u -> y",
     "3: 1 9 8"},
    {18,
     "init a f32 3 = 1 2 3; init i i64 3 = 2 -2 2; init u f32 3 = 8 9 1; "
     "ScatterElements(reduction='add') a i u -> y",
     "3: 1 11 12"},
    {18,
     "init a f32 2x2 = 1 2 3 4; init i i64 2x1 = 1 1; init u f32 2x2 = 8 9 2 3; "
     "ScatterND(reduction='mul') a i u -> y",
     "2x2: 1 2 48 108"},
    {11, "init a f32 4 = 3 1 4 1; init k i64 1 = 3; TopK(largest=0) a k -> y i", "3: 1 1 3"},
    /* a long line, by ranks: of equals the first */
    {13,
     "init z f32 scalar = 0; init l f32 scalar = 128; init d f32 scalar = 1; init m f32 scalar = "
     "7; "
     "init k i64 1 = 3; Range z l d -> r; Mod(fmod=1) r m -> a; TopK a k -> v y",
     "3: 6 13 20"},
    {13,
     "init z f32 scalar = 0; init l f32 scalar = 128; init d f32 scalar = 1; init m f32 scalar = "
     "7; "
     "init k i64 1 = 3; Range z l d -> r; Mod(fmod=1) r m -> a; TopK(largest=0) a k -> v y",
     "3: 0 7 14"},
    /* whose parts are of different length */
    {13,
     "init z f32 scalar = 0; init l f32 scalar = 131; init d f32 scalar = 1; init m f32 scalar = "
     "7; "
     "init k i64 1 = 4; Range z l d -> r; Mod(fmod=1) r m -> a; TopK a k -> y i",
     "4: 6 6 6 6"},
    {13,
     "init z f32 scalar = 0; init d f32 scalar = -1; init e f32 scalar = "
     "-131; init k i64 1 = 2; Range z e d -> a; TopK(largest=0) a k -> v y",
     "2: 130 129"},
    {26, "init a f32 3 = 2 3 4; init i i64 scalar = 0; CumProd(exclusive=1) a i -> y", "3: 1 2 6"},
    {18, "init a i32 2 = 12 -1; init b i32 2 = 10 3; BitwiseXor a b -> y", "2: 6 -4"},
    {11, "init a f32 2x2 = 1 2 3 4; Det a -> y", "scalar: -2"},
    {13, "init a f32 2x2 = 1 2 3 4; init i i64 1x1 = 1; init u f32 1x2 = 8 9; ScatterND a i u -> y",
     "2x2: 1 2 8 9"},
    /* a real signal of two dims, as PyTorch writes it */
    {17, "init a f32 1x4 = 1 2 3 4; init t i64 scalar = 1; init w f32 1 = 2; STFT a t w -> y",
     "1x4x1x2: 2 0 4 0 6 0 8 0"},
    {17, "init a f32 1x4 = 1 2 3 4; init t i64 scalar = 2; init w f32 2 = 1 2; STFT a t w -> y",
     "1x2x2x2: 5 0 -3 0 11 0 -5 0"},
    {17,
     "init a f32 1x4x2 = 1 2 3 4 5 6 7 8; init t i64 scalar = 2; init l i64 scalar = 2; "
     "STFT(onesided=0) a t - l -> y",
     "1x2x2x2: 4 6 -2 -2 12 14 -2 -2"},
    {13, "init a i64 2 = -7 7; init b i64 1 = 3; Mod(fmod=1) a b -> y", "2: -1 1"},
    {13, "init a f32 2 = 1.7 -2; Cast(to=7) a -> y", "2: 1 -2"},
    {15, "init a f32 2 = 1.7 -2; init b i32 1 = 0; CastLike a b -> y", "2: 1 -2"},
    {10, "init a f32 3 = -9 0 9; Clip(min=-1.0,max=2.0) a -> y", "3: -1 0 2"},
    {13, "init a f32 3 = -9 0 9; init m f32 scalar = 2; Clip a - m -> y", "3: -9 0 2"},
    {13, "init a i64 3 = -9 0 9; init m i64 scalar = 2; Clip a m -> y", "3: 2 2 9"},
    {13, "init a f32 3 = -9 1 9; HardSigmoid a -> y", "3: 0 0.7 1"},
    {14, "init a f32 3 = -9 1 9; HardSwish a -> y", "3: 0 0.66667 9"},
    {13, "init a f32 2 = -1 1; LeakyRelu(alpha=0.5) a -> y", "2: -0.5 1"},
    {13, "init a f32 2 = -1 1; LeakyRelu(alpha=2.0) a -> y", "2: -2 1"},
    {13, "init a f32 2 = -1 1; init s f32 2 = 3 4; PRelu a s -> y", "2: -3 1"},
    {6, "init a f32 1x2x2 = -1 1 -1 1; init s f32 2 = 3 4; PRelu a s -> y", "1x2x2: -3 1 -4 1"},
    {7, "init a f32 1x2x2 = -1 1 -1 -1; init s f32 2 = 3 4; PRelu a s -> y", "1x2x2: -3 1 -3 -4"},
    {6, "init a f32 2x2 = 1 2 3 4; init b f32 2 = 10 20; Add(broadcast=1,axis=0) a b -> y",
     "2x2: 11 12 23 24"},
    {6, "init a f32 2x2 = 1 2 3 4; init b f32 2 = 10 20; Sub(broadcast=1) a b -> y",
     "2x2: -9 -18 -7 -16"},
    {6, "init a f32 2x2 = 1 2 3 4; init b f32 2 = 2 3; Greater(broadcast=1,axis=-2) a b -> y",
     "2x2: 0 0 0 1"},
    {6, "init a f32 2x2 = 1 2 3 4; init b f32 2 = 2 1; Pow(broadcast=1,axis=0) a b -> y",
     "2x2: 1 4 3 4"},
    {6, "init a f32 1x1x1x2 = 1 2; Upsample(height_scale=2.0,width_scale=1.0) a -> y",
     "1x1x2x2: 1 2 1 2"},
    {5, "init a f32 2 = 1.7 -2; Cast(to='INT64') a -> y", "2: 1 -2"},
    {4, "init a f32 2 = 1 2; Reshape(shape=[1,-1]) a -> y", "1x2: 1 2"},
    {5, "init a f32 1x2 = 1 2; init t f32 1 = 2; init x f32 1 = 1; Tile a t x -> y",
     "1x4: 1 2 1 2"},
    {1, "init a f32 2 = 1 2; Pad(paddings=[1,0],value=9.0) a -> y", "3: 9 1 2"},
    {1, "init a f32 3 = 1 2 3; init p f32 2 = 1 2; Split a -> y u w", "1: 1"},
    {1, "init a f32 1x1x2 = 3 -4; GlobalLpPool(p=1.0) a -> y", "1x1x1: 7"},
    {1, "init a f32 1 = 1; Selu a -> y", "1: 1.0507"},
    {6, "init a f32 2 = -1 3; Dropout(is_test=1) a -> y", "2: -1 3"},
    {13, "init a f32 2 = -1 1; Elu(alpha=2.0) a -> y", "2: -1.2642 1"},
    {13, "init a f32 2 = -1 1; Selu a -> y", "2: -1.1113 1.0507"},
    {13, "init a f32 2 = -1 1; Celu(alpha=2.0) a -> y", "2: -0.78694 1"},
    {13, "init a f32 2 = 0.5 1; ThresholdedRelu(alpha=0.7) a -> y", "2: 0 1"},
    {13, "init a f32 3 = -2 0.1 2; Shrink(lambd=0.5,bias=0.25) a -> y", "3: -1.75 0 1.75"},
    {20, "init a f32 2 = -1 1; Gelu a -> y", "2: -0.15866 0.84134"},
    {20, "init a f32 2 = -1 1; Gelu(approximate='tanh') a -> y", "2: -0.15881 0.84119"},
    {18, "init a f32 2 = -1 1; Mish a -> y", "2: -0.3034 0.8651"},
    {13, "init a f32 2 = -1 3; Softsign a -> y", "2: -0.5 0.75"},
    {13, "init a f32 2 = -1 3; Dropout a -> y", "2: -1 3"},
    {13, "init a f32 2x2 = 1 2 3 4; ReduceSum a -> y", "1x1: 10"},
    {13, "init a f32 2x2 = 1 2 3 4; init x i64 1 = -1; ReduceSum(keepdims=0) a x -> y", "2: 3 7"},
    {13, "init a f32 2x2 = 1 2 3 4; ReduceMax(axes=[0]) a -> y", "1x2: 3 4"},
    {18, "init a f32 2x2 = 1 2 3 4; init x i64 1 = 0; ReduceMean a x -> y", "1x2: 2 3"},
    {18, "init a f32 2 = 1 2; ReduceMin(noop_with_empty_axes=1) a -> y", "2: 1 2"},
    {13, "init a f32 2 = 3 -4; ReduceL1 a -> y", "1: 7"},
    {13, "init a f32 2 = 3 -4; ReduceL2 a -> y", "1: 5"},
    {13, "init a f32 2 = 3 4; ReduceSumSquare a -> y", "1: 25"},
    {13, "init a f32 2 = 3 4; ReduceLogSum a -> y", "1: 1.9459"},
    {13, "init a f32 2 = 100 100; ReduceLogSumExp(keepdims=0) a -> y", "scalar: 100.69"},
    {13, "init a f32 2x2 = 1 2 4 3; ArgMax(axis=1,keepdims=0) a -> y", "2: 1 0"},
    {13, "init a f32 3 = 1 2 1; ArgMin(select_last_index=1) a -> y", "1: 2"},
    {13, "init a f32 2x2 = 0 0 0 0; Softmax(axis=0) a -> y", "2x2: 0.5 0.5 0.5 0.5"},
    {12, "init a f32 2x2 = 0 0 0 0; Softmax(axis=0) a -> y", "2x2: 0.25 0.25 0.25 0.25"},
    {13, "init a f32 2 = 0 0; LogSoftmax a -> y", "2: -0.69315 -0.69315"},
    {13, "init a f32 3 = 1 3 3; Hardmax a -> y", "3: 0 1 0"},
    {13, "init a f32 6 = 1 2 3 4 5 6; init s i64 2 = 0 -1; Reshape a s -> y", "6x1: 1 2 3 4 5 6"},
    {14, "init a f32 0 =; init s i64 2 = 0 5; Reshape(allowzero=1) a s -> y", "0x5:"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; Transpose a -> y", "3x2: 1 4 2 5 3 6"},
    {13, "init a f32 1x2x1 = 1 2; Flatten(axis=2) a -> y", "2x1: 1 2"},
    {13, "init a f32 1x2x1 = 1 2; Squeeze a -> y", "2: 1 2"},
    {11, "init a f32 1x2x1 = 1 2; Squeeze(axes=[-1]) a -> y", "1x2: 1 2"},
    {11, "init a f32 2 = 1 2; Unsqueeze(axes=[0,2]) a -> y", "1x2x1: 1 2"},
    {13, "init a f32 2 = 1 2; init x i64 1 = -1; Unsqueeze a x -> y", "2x1: 1 2"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; Shape a -> y", "2: 2 3"},
    {15, "init a f32 2x3 = 1 2 3 4 5 6; Shape(start=-1) a -> y", "1: 3"},
    {13, "init a f32 2x3 = 1 2 3 4 5 6; Size a -> y", "scalar: 6"},
    {9, "init a f32 4 = 1 2 3 4; Slice(starts=[1],ends=[-1]) a -> y", "2: 2 3"},
    {13,
     "init a f32 4 = 1 2 3 4; init s i64 1 = -1; init e i64 1 = -9; init x i64 1 = 0; init t i64 1 "
     "= -2; Slice a s e x t -> y",
     "2: 4 2"},
    {13, "init a f32 4 = 1 2 3 4; init s i64 1 = 3; init e i64 1 = 1; Slice a s e -> y", "0:"},
    {13, "init a f32 2 = 1 2; init b f32 1 = 3; Concat(axis=0) a b a -> y", "5: 1 2 3 1 2"},
    {13, "init a f32 4 = 1 2 3 4; Split a -> x y", "2: 3 4"},
    {18, "init a f32 5 = 1 2 3 4 5; Split(num_outputs=2) a -> x y", "2: 4 5"},
    {11, "init a f32 4 = 1 2 3 4; Split(split=[3,1]) a -> x y", "1: 4"},
    {10, "init a f32 2 = 1 2; Pad(pads=[1,0],value=9.0) a -> y", "3: 9 1 2"},
    {13, "init a f32 2 = 1 2; init p i64 2 = 0 2; Pad(mode='edge') a p -> y", "4: 1 2 2 2"},
    {18, "init a f32 1x2 = 1 2; init p i64 2 = 1 0; init x i64 1 = 1; Pad a p - x -> y",
     "1x3: 0 1 2"},
    {13, "init a f32 3 = 1 2 3; init i i64 2 = 2 -1; Gather a i -> y", "2: 3 3"},
    {13, "init a f32 2 = 1 2; init s i64 2 = 2 1; Expand a s -> y", "2x2: 1 2 1 2"},
    {13, "init a f32 2x1 = 1 2; init r i64 2 = 2 3; Tile a r -> y", "4x3: 1 1 1 2 2 2 1 1 1 2 2 2"},
    {13, "init a f32 1x4x1x1 = 1 2 3 4; DepthToSpace(blocksize=2) a -> y", "1x1x2x2: 1 2 3 4"},
    {13, "init a f32 1x1x2x2 = 1 2 3 4; SpaceToDepth(blocksize=2) a -> y", "1x4x1x1: 1 2 3 4"},
    {9, "init a f32 1x1x1x2 = 1 2; init s f32 4 = 1 1 2 2; Upsample a s -> y",
     "1x1x2x4: 1 1 2 2 1 1 2 2"},
    {10, "init a f32 1x1x1x2 = 1 2; init s f32 4 = 1 1 1 2; Resize a s -> y", "1x1x1x4: 1 1 2 2"},
    {13, "init a f32 1x1x1x2 = 1 2; init s i64 4 = 1 1 1 4; Resize(mode='linear') a - - s -> y",
     "1x1x1x4: 1 1.25 1.75 2"},
    {18,
     "init a f32 1x1x1x4 = 1 2 3 4; init s f32 4 = 1 1 1 0.5; "
     "Resize(mode='linear',antialias=1) a - s -> y",
     "1x1x1x2: 1.625 3.375"},
    {18,
     "init a f32 1x1x4x1 = 1 2 3 4; init s i64 4 = 1 1 1 1; "
     "Resize(mode='cubic',antialias=1) a - - s -> y",
     "1x1x1x1: 2.5"},
    {13,
     "init a f32 1x4 = 1 2 3 4; init r f32 4 = 0 0.5 1 1.5; init s i64 2 = 1 3; "
     "Resize(mode='linear',coordinate_transformation_mode='tf_crop_and_resize',"
     "extrapolation_value=9.0) a r - s -> y",
     "1x3: 2.5 4 9"},
    {13,
     "init a f32 1x4 = 1 2 3 4; init r f32 4 = 0 0.5 1 1.5; init s i64 2 = 1 3; "
     "Resize(coordinate_transformation_mode='tf_crop_and_resize') a r - s -> y",
     "1x3: 2 4 0"},
    {18,
     "init a f32 1x4 = 1 2 3 4; init r f32 2 = 1 0; init s i64 1 = 4; "
     "Resize(coordinate_transformation_mode='tf_crop_and_resize',axes=[1]) a r - s -> y",
     "1x4: 4 3 2 1"},
    {14,
     "init a f32 2x1x1 = 1 2; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; "
     "RNN(hidden_size=1,layout=1) a w r -> y",
     "2x1x1x1: 0.76159 0.96403"},
    {14,
     "init a f32 2x2x1 = 0 1 0 2; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; "
     "init h f32 2x1x1 = 5 6; RNN(hidden_size=1,layout=1) a w r - - h -> x y",
     "2x1x1: 0.76159 0.96403"},
    {17, "init a f32 1x10x2 = 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0; DFT(inverse=1) a -> y",
     "1x10x2: 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0"},
    {13, "init s i64 1 = 3; ConstantOfShape s -> y", "3: 0 0 0"},
    {13, "Constant(value_ints=[4,5]) -> y", "2: 4 5"},
    {13, "Constant(value_float=0.5) -> y", "scalar: 0.5"},
    {13, "init a i64 scalar = 1; init b i64 scalar = 6; init c i64 scalar = 2; Range a b c -> y",
     "3: 1 3 5"},
    {13, "init a f32 2x2 = 0 0 0 0; EyeLike(k=1) a -> y", "2x2: 0 1 0 0"},
    {14, "init a f32 2x2 = 1 2 3 4; Trilu a -> y", "2x2: 1 2 0 4"},
    {14, "init a f32 2x2 = 1 2 3 4; Trilu(upper=0) a -> y", "2x2: 1 0 3 4"},
    {13, "init i i64 2 = 0 -1; init d i64 1 = 3; init v f32 2 = 5 7; OneHot i d v -> y",
     "2x3: 7 5 5 5 5 7"},
    {13, "init a f32 2 = 1 2; init b f32 2 = 3 4; MatMul a b -> y", "scalar: 11"},
    {13,
     "init a f32 2x1 = 1 2; init b f32 2x1 = 3 4; init c f32 1 = 1; "
     "Gemm(transA=1,alpha=2.0,beta=3.0) a b c -> y",
     "1x1: 25"},
    {13, "init a f32 2x2 = 1 2 3 4; init b f32 2 = 1 2; Einsum(equation='ij,j->i') a b -> y",
     "2: 5 11"},
    {13, "init a f32 2x2 = 1 2 3 4; Einsum(equation='ii') a -> y", "scalar: 5"},
    {13, "init a f32 2x2 = 1 2 3 4; Einsum(equation='...i->i...') a -> y", "2x2: 1 3 2 4"},
    {13, "init a f32 1x1x3 = 1 2 3; init w f32 1x1x2 = 1 1; Conv(auto_pad='SAME_LOWER') a w -> y",
     "1x1x3: 1 3 5"},
    {13, "init a f32 1x1x3 = 1 2 3; init w f32 1x1x2 = 1 1; Conv(auto_pad='SAME_UPPER') a w -> y",
     "1x1x3: 3 5 3"},
    {13, "init a f32 1x1x2 = 1 2; init w f32 1x1x2 = 1 10; ConvTranspose(strides=[2]) a w -> y",
     "1x1x4: 1 10 2 20"},
    {13,
     "init a f32 1x1x2 = 1 2; init w f32 1x1x2 = 1 10; "
     "ConvTranspose(strides=[2],output_shape=[3]) a w -> y",
     "1x1x3: 10 2 20"},
    {13, "init a f32 1x1x3 = 1 2 3; MaxPool(kernel_shape=[2]) a -> y", "1x1x2: 2 3"},
    {13, "init a f32 1x1x3 = 1 2 3; AveragePool(kernel_shape=[2],pads=[1,0]) a -> y",
     "1x1x3: 1 1.5 2.5"},
    {13, "init a f32 1x1x3 = 1 2 3; GlobalAveragePool a -> y", "1x1x1: 2"},
    {13, "init a f32 1x1x3 = 1 2 3; GlobalMaxPool a -> y", "1x1x1: 3"},
    {17,
     "init a f64 1x2 = 1 3; init s f64 2 = 1 2; LayerNormalization(epsilon=0.0) a s -> z m i; "
     "init b f32 1x1 = 1; Add m i -> c; Add c b -> y",
     "1x1: 4"}, /* of an f64 operand they are f32 */
    {17, "init a f32 1x2 = 1 3; init s f32 2 = 1 2; LayerNormalization(epsilon=0.0) a s -> y",
     "1x2: -1 2"},
    {13,
     "init a f32 1x1x2 = 1 3; init s f32 1 = 2; init b f32 1 = 1; "
     "InstanceNormalization(epsilon=0.0) a s b -> y",
     "1x1x2: -1 3"},
    {18,
     "init a f32 1x2x1 = 1 3; init s f32 1 = 2; init b f32 1 = 1; "
     "GroupNormalization(num_groups=1,epsilon=0.0) a s b -> y",
     "1x2x1: -1 3"},
    {23, "init a f32 2 = 1 7; init s f32 1 = 5; RMSNormalization(epsilon=0.0) a s -> y", "2: 1 7"},
    {13, "init a f32 2 = 3 4; LpNormalization a -> y", "2: 0.6 0.8"},
    {13, "init a f32 1x1x1x1 = 2; LRN(size=1,alpha=1.0,beta=1.0) a -> y", "1x1x1x1: 0.4"},
    {13,
     "init x i64 2 = 5 9007199254740993; init p i64 2 = 1 0; init f i64 scalar = "
     "9007199254740993; Pad x p f -> z; Equal z f -> y",
     "3: 1 0 1"},
    {13, "init x i64 1x2 = 3 5; " ML "Scaler(offset=[1.0],scale=[2.0]) x -> y", "1x2: 4 8"},
    {13, "init x f32 2x2 = 3 -4 0 0; " ML "Normalizer(norm='L2') x -> y", "2x2: 0.6 -0.8 0 0"},
    {13, "init x f32 1 = 3; " ML "LinearRegressor(coefficients=[2.0,3],targets=2) x -> y",
     "1x2: 6 9"},
    {13, "init x f32 1 = 1; " ML "LinearClassifier(" TWO "coefficients=[2.0,3]) x -> y s", "1: 9"},
    {13,
     "init x f32 1 = -3; " ML "LinearClassifier(" TWO "coefficients=[2.0],intercepts=[0.5]) x "
     "-> l y",
     "1x2: 6.5 -5.5"},
    /* A row that may look at nothing is zeros; the others are averages of what they may look at. */
    {23,
     "init q f32 1x1x3x1 = 0 0 0; init v f32 1x1x2x1 = 2 6; init m bool 3x2 = 1 1 0 0 0 1; "
     "Attention q v v m -> y",
     "1x1x3x1: 4 0 6"},
    {23,
     "init q f32 1x1x2x1 = 0 0; init v f32 1x1x2x1 = 2 6; init m f32 2x2 = -inf -inf -inf 0; "
     "Attention(qk_matmul_output_mode=3) q v v m -> x a b y",
     "1x1x2x2: 0 0 0 1"},
    {23,
     "init q f32 1x1x2x1 = 0 0; init v f32 1x1x2x1 = 2 6; init m f32 2x2 = -inf -inf -inf 0; "
     "Attention(qk_matmul_output_mode=2) q v v m -> x a b y",
     "1x1x2x2: -inf -inf -inf 0"},
    /* A cache that is filled from outside: the last query stands at the last key that counts. */
    {24,
     "init q f32 2x1x2x1 = 0 0 0 0; init v f32 2x1x3x1 = 2 6 4 2 6 4; init n i64 2 = 1 3; "
     "Attention(is_causal=1) q v v - - - n -> y",
     "2x1x2x1: 0 2 4 4"},
    {25,
     "init q f32 1x1x3x1 = 0 0 0; init v f32 1x1x3x1 = 2 6 4; "
     "Attention(left_window_size=1,right_window_size=0) q v v -> y",
     "1x1x3x1: 2 4 5"},
    {25,
     "init q f32 1x1x2x1 = 0 0; init v f32 1x1x3x1 = 2 6 4; init p f32 1x1x1x1 = 10; "
     "Attention(right_window_size=1) q v v - p p -> y",
     "1x1x2x1: 6 5.5"},
};

static void operators_fold_to_what_they_mean(void) {
  for (size_t i = 0; i < WAFER_COUNT(folded); i++)
    check_folded(folded[i].opset, folded[i].graph, folded[i].want);
}

/* The largest shape on the way from a result to its graph's inputs along first operands. */
static wafer_shape largest_behind(const session *s) {
  wafer_shape found = {0};
  MlirValue at = result(s, 0);
  for (; mlirValueIsAOpResult(at); at = mlirOperationGetOperand(mlirOpResultGetOwner(at), 0)) {
    wafer_type type = wafer_ir_value_type(at);
    if (type.shape.rank > found.rank) found = type.shape;
  }
  return found;
}

/* A group normalization merges no dims, nor does one that an exporter wrote as an instance
 * normalization between reshapes: merged dims are cut otherwise than what comes before. */
static void groups_are_not_merged(void) {
  static const char *const graphs[] = {
      "in x f32 2x6x3x5; init g i64 3 = 0 2 -1; init u i64 4 = 2 6 3 5; init s f32 2 = 1 1; "
      "init b f32 2 = 0 0; Reshape x g -> r; InstanceNormalization r s b -> n; Reshape n u -> y; "
      "out y",
      "in x f32 2x6x3x5; init s f32 6 = 1 1 1 1 1 1; init b f32 6 = 0 0 0 0 0 0; "
      "GroupNormalization(num_groups=2) x s b -> y; out y"};
  for (size_t i = 0; i < WAFER_COUNT(graphs); i++) {
    session s = {0};
    import_text(&s, 21, graphs[i]);
    CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
    wafer_shape shape = largest_behind(&s);
    const int64_t dims[] = {2, 2, 3, 3, 5};
    CU_ASSERT(shape.rank == 5 && !memcmp(shape.dims, dims, sizeof dims));
    end(&s);
  }
}

/* Whether an op of that kind is on the way from a result to its graph's inputs along first
 * operands.
 */
static bool is_behind(const session *s, wafer_op op) {
  MlirValue at = result(s, 0);
  for (; mlirValueIsAOpResult(at); at = mlirOperationGetOperand(mlirOpResultGetOwner(at), 0)) {
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(mlirOpResultGetOwner(at)));
    const char *want = wafer_op_get(op)->name;
    if (name.length == 3 + strlen(want) && !memcmp(name.data + 3, want, strlen(want))) return true;
  }
  return false;
}

/* Frames that overlap are no copies that are looked up, unless they are long: a signal of 30 s in
 * frames of 400 took 29,285 cycles, and 7,041 of the wafer's edge since. Long ones of a prime, too,
 * whose taps no core has room for, are looked up. */
static void frames_are_a_convolution(void) {
  static const struct {
    int length;
    bool dense;
  } cases[] = {{400, true}, {1024, true}, {1999, false} /* a prime */, {2048, false}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    char graph[256];
    snprintf(graph, sizeof graph,
             "in x f32 1x8000x1; init t i64 scalar = 160; init l i64 scalar = %d; "
             "STFT x t - l -> y; out y",
             cases[i].length);
    import_text(&s, 17, graph);
    CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
    CU_ASSERT_EQUAL(is_behind(&s, WAFER_OP_conv), cases[i].dense);
    CU_ASSERT_EQUAL(is_behind(&s, WAFER_OP_gather), !cases[i].dense);
    end(&s);
  }
}

CU_TestInfo tests_import_operators[] = {
    {"frames that overlap are a convolution", frames_are_a_convolution},
    {"groups of channels are not merged", groups_are_not_merged},
    {"operators fold to what they mean", operators_fold_to_what_they_mean},
    CU_TEST_INFO_NULL,
};
