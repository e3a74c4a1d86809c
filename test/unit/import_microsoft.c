/* com.microsoft in frontend/onnx.def: what onnxruntime computes on GPUs alone, and bad input.
 * test/data/microsoft.tar.zst has the others, with onnxruntime's results. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

#define MS "com.microsoft::"

static const struct {
  const char *graph, *want;
} folded[] = {
    {"init x f32 1x1x2 = 1 2; init b f32 2 = 10 20; init s f32 1x1x2 = 100 200; " MS
     "BiasAdd x b s -> y",
     "1x1x2: 111 222"},
    {"init x f32 1x1x2 = 3 0.5; init b f32 2 = 0 0.5; " MS "BiasSplitGelu x b -> y",
     "1x1x1: 2.524"},
    {"init x f32 1x2x1x2 = 1 10 3 30; init g f32 2 = 1 2; init b f32 2 = 0 1; " MS
     "GroupNorm(groups=2,activation=0,epsilon=0.0) x g b -> y",
     "1x2x1x2: -1 -1 1 3"},
    {"init x f32 1x2x1x2 = 1 10 3 30; init g f32 2 = 1 1; init b f32 2 = 0 0; " MS
     "GroupNorm(groups=1,activation=0,epsilon=0.0,channels_last=0) x g b -> y",
     "1x2x1x2: -0.87204 -0.087204 -0.69763 1.6569"},
    {"init x f32 1x1x1x2 = 1 3; init g f32 2 = 1 1; init b f32 2 = 0 0; " MS
     "GroupNorm(groups=1,activation=1,epsilon=0.0) x g b -> y",
     "1x1x1x2: -0.26894 0.73106"},
    {"init x f32 1x1x1x2 = 1 1; init g f32 2 = 1 1; init b f32 2 = 0 0; init s f32 1x2 = 0 1; "
     "init o f32 2 = 0 1; " MS "SkipGroupNorm(groups=1,activation=0,epsilon=0.0) x g b s o -> y",
     "1x1x1x2: -1 1"},
    {"init x f32 1x1x1x2 = 1 1; init g f32 2 = 1 1; init b f32 2 = 0 0; init s f32 1x2 = 0 1; " MS
     "SkipGroupNorm(groups=1,activation=0) x g b s -> n y",
     "1x1x1x2: 1 2"},
    {"init x u8 2x2 = 10 20 30 40; init s f32 scalar = 0.5; init z u8 scalar = 10; " MS
     "QLinearReduceMean(axes=[1],keepdims=0) x s z s z -> y",
     "2: 15 35"},
    {"init q f32 1x1x1x3x1 = 1 2 5; " MS "MultiHeadAttention(num_heads=1) q -> y", "1x1x1: 5"},
    {"init q f32 1x1x1 = 0; init k f32 1x2x1x2x1 = 1 2 3 4; " MS
     "MultiHeadAttention(num_heads=1) q k -> y",
     "1x1x1: 3"},
    /* a buffer of four, one of which is filled */
    {"init q f32 1x1x1 = 0; init k f32 1x1x1 = 1; init v f32 1x1x1 = 6; init c f32 1x1x4x1 = 2 7 8 "
     "9; init l i32 1 = 1; init t i32 scalar = 2; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q k v c c l t -> y",
     "1x1x1: 4"},
    {"init q f32 1x1x1 = 0; init k f32 1x1x1 = 1; init v f32 1x1x1 = 6; init c f32 1x1x4x1 = 2 7 8 "
     "9; init l i32 1 = 1; init t i32 scalar = 2; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q k v c c l t -> a b y",
     "1x1x4x1: 2 6 8 9"},
    /* samples of unlike lengths: each fills its own buffer, and sees no more than that */
    {"init q f32 2x1x1 = 0 0; init k f32 2x1x1 = 1 1; init v f32 2x1x1 = 6 10; init c f32 2x1x4x1 "
     "= 2 7 8 9 1 2 3 9; init l i32 2 = 1 3; init t i32 scalar = 4; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q k v c c l t -> y",
     "2x1x1: 4 4"},
    {"init q f32 2x1x1 = 0 0; init k f32 2x1x1 = 1 1; init v f32 2x1x1 = 6 10; init c f32 2x1x4x1 "
     "= 2 7 8 9 1 2 3 9; init l i32 2 = 1 3; init t i32 scalar = 4; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q k v c c l t -> a b y",
     "2x1x4x1: 2 6 8 9 1 2 3 10"},
    {"init x u8 1x2x2x2 = 1 20 2 30 3 40 4 10; " MS "NhwcMaxPool(kernel_shape=[2,1]) x -> y",
     "1x1x2x2: 3 40 4 30"},
    {"init x u8 1x1x2x2 = 1 20 2 30; init s f32 scalar = 1; init z u8 scalar = 0; init w u8 "
     "1x2x1x1 "
     "= 2 1; " MS "QLinearConv(channels_last=1) x s z w s z s z -> y",
     "1x1x2x1: 22 34"},
};

static void operators_fold_to_what_they_mean(void) {
  for (size_t i = 0; i < WAFER_COUNT(folded); i++)
    check_folded(17, folded[i].graph, folded[i].want);
}

static const struct {
  const char *graph;
  wafer_status status;
  const char *want;
} wrong[] = {
    {"in x f32 1x2x4; in w f32 4x12; " MS "Attention(num_heads=3) x w -> y", WAFER_BAD_INPUT,
     "node 'y' (#0): Attention: 3 heads do not divide 4 elements"},
    {"in x f32 1x2x4; in w f32 4x13; " MS "Attention(num_heads=2) x w -> y", WAFER_BAD_INPUT,
     "node 'y' (#0): Attention: the weights have 13 columns"},
    {"in x f32 1x2x4; in w f32 4x12; in m i32 1x3; " MS "Attention(num_heads=2) x w - m -> y",
     WAFER_UNSUPPORTED, "node 'y' (#0): operator Attention of com.microsoft"},
    {"in x f32 1x2x4; in w f32 4x12; " MS "Attention(num_heads=2,do_rotary=1) x w -> y",
     WAFER_UNSUPPORTED, "attribute do_rotary"},
    {"in q f32 1x2x4; in k f32 1x2x4; " MS "MultiHeadAttention(num_heads=2) q k -> y",
     WAFER_BAD_INPUT, "node 'y' (#0): MultiHeadAttention: queries of 3 dims, keys of 3"},
    {"in q f32 1x1x1; in c f32 1x1x4x1; init l i32 1 = 6; init t i32 scalar = 7; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q q q c c l t -> y",
     WAFER_BAD_INPUT, "total_sequence_length 7, 1 positions and 4 of the past"},
    {"in q f32 1x1x1; in c f32 1x1x4x1; in l i32 1; in t i32 scalar; " MS
     "GroupQueryAttention(num_heads=1,kv_num_heads=1) q q q c c l t -> y",
     WAFER_UNSUPPORTED, "give --bind t=FILE.npy"},
    {"in x f32 1x2x4; in p i64 1x2; in c f32 8x3; " MS "RotaryEmbedding(num_heads=1) x p c c -> y",
     WAFER_BAD_INPUT, "node 'y' (#0): RotaryEmbedding: caches of 3 columns for heads of 4"},
    {"in x f32 1x1x4x4; init w f32 1x1x1x1 = 1; " MS "FusedConv(activation='Bend') x w -> y",
     WAFER_UNSUPPORTED, "activation Bend"},
    {"in x f32 1x1x4x4; init w f32 1x1x1x1 = 1; " MS "FusedConv(activation='Clip') x w -> y",
     WAFER_BAD_INPUT, "Clip takes two"},
    {"in x u8 4; init s f32 scalar = 1; " MS "QLinearAdd x s - x -> y", WAFER_BAD_INPUT,
     "node 'y' (#0): QLinearAdd: input 4 is missing"},
    {"in x u8 4; init s f32 2 = 1 1; " MS "QLinearSigmoid x s - s -> y", WAFER_UNSUPPORTED,
     "is not one number"},
    {"init s f32 scalar = 1; init z u8 scalar = 1; in x u8 4; " MS
     "QLinearConcat(axis=0) s z x s -> y",
     WAFER_BAD_INPUT, "node 'y' (#0): QLinearConcat: operands come with"},
    {"in x f32 1x16; in b u8 1x1x8; init s f32 1 = 1; " MS
     "MatMulNBits(K=16,N=1,bits=3,block_size=16) x b s -> y",
     WAFER_BAD_INPUT, "bits is 3"},
    {"in x f32 1x16; init b u8 1x1x4 = 0 0 0 0; init s f32 1 = 1; " MS
     "MatMulNBits(K=16,N=1,block_size=16) x b s -> y",
     WAFER_BAD_INPUT, "input 1 must be 8 bytes"},
    {"in x i32 2x3; in w f32 4x5; " MS "EmbedLayerNormalization x - w w -> y", WAFER_BAD_INPUT,
     "node 'y' (#0)"},
};

static void what_is_wrong_is_said(void) {
  for (size_t i = 0; i < WAFER_COUNT(wrong); i++)
    check_refused(17, wrong[i].graph, wrong[i].status, wrong[i].want);
}

CU_TestInfo tests_import_microsoft[] = {
    {"operators fold to what they mean", operators_fold_to_what_they_mean},
    {"what is wrong is said", what_is_wrong_is_said},
    CU_TEST_INFO_NULL,
};
