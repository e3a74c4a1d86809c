/* The shape rules: what each gives, and what each refuses in which words. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "caught.h"
#include "op_hostile.h"
#include "op_text.h"

/* `want` is the result's type; NULL: BAD_INPUT with `words` in its message. */
typedef struct infer_case {
  const char *op, *operands, *attrs, *want, *words;
} infer_case;

static bool type_equal(const wafer_type *a, const wafer_type *b) {
  return a->dtype == b->dtype && wafer_shape_equal(&a->shape, &b->shape);
}

static bool passes(const infer_case *c, char *seen, size_t bytes) {
  op_text_attrs parsed;
  wafer_type operands[WAFER_OP_MAX_OPERANDS + 1], got = {0};
  caught last;
  wafer_diag diag = caught_diag(&last);
  uint32_t count = op_text_types(c->operands, operands, WAFER_COUNT(operands));
  wafer_status status =
      wafer_op_infer(&diag, wafer_at_node("m.onnx", "n", 1), wafer_op_by_name(c->op),
                     op_text_parse(&parsed, c->attrs), count, operands, &got);
  if (status == WAFER_OK) {
    char text[128];
    wafer_shape_format(&got.shape, text, sizeof text);
    snprintf(seen, bytes, "%s %s", text, wafer_dtype_name(got.dtype));
    wafer_type want = op_text_type(c->want ? c->want : "");
    return c->want && type_equal(&got, &want) && last.count == 0;
  }
  snprintf(seen, bytes, "%.500s", last.text);
  return !c->want && status == WAFER_BAD_INPUT && last.count == 1 && strstr(last.text, c->words) &&
         strncmp(last.text, c->op, strlen(c->op)) == 0;
}

static void run(const infer_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char seen[600];
    bool ok = passes(&cases[i], seen, sizeof seen);
    if (!ok)
      printf("\n  %s(%s) {%s}: want %s, got %s", cases[i].op, cases[i].operands, cases[i].attrs,
             cases[i].want ? cases[i].want : cases[i].words, seen);
    CU_ASSERT(ok);
  }
}

static const infer_case maps[] = {
    {"abs", "2x3xi8", "", "2x3xi8", 0},
    {"abs", "bool", "", 0, "bool"},
    {"abs", "2x3xi8 f32", "", 0, "2 operands, takes 1 to 1"},
    {"abs", "", "", 0, "0 operands"},
    {"abs", "none", "", 0, "operand 0 has no element type"},
    {"abs", "4611686018427387904xf32", "", 0, "too many elements"},
    {"abs", "2x-3xf32", "", 0, "negative"},
    {"exp", "2x0xbf16", "", "2x0xbf16", 0},
    {"exp", "3xi32", "", 0, "i32, must be a float type"},
    {"not", "3xbool", "", "3xbool", 0},
    {"not", "3xf32", "", 0, "must be bool"},
    {"isnan", "3xf16", "", "3xbool", 0},
    {"isinf", "3xf64", "negative=1 positive=0", "3xbool", 0},
    {"isinf", "3xf64", "negative=1", 0, "lacks attribute positive"},
    {"clip", "3xi64", "min=-inf max=6", "3xi64", 0},
    {"cast", "3x2xbool", "to=f16", "3x2xf16", 0},
    {"cast", "3xf32", "to=f128", 0, "'f128'"},
    {"add", "4x8xf32 4x8xf32", "", "4x8xf32", 0},
    {"add", "4x1xf32 1x8xf32", "", "4x8xf32", 0},
    {"add", "f32 2x1x3xf32", "", "2x1x3xf32", 0},
    {"add", "2x1x3xf32 5x1xf32", "", "2x5x3xf32", 0},
    {"add", "0x3xf32 1x3xf32", "", "0x3xf32", 0},
    {"add", "0xf32 2xf32", "", 0, "0 against 2"},
    {"add", "4x3xf32 4x8xf32", "", 0, "4x3 and 4x8 do not broadcast"},
    {"add", "3xf32 3xf64", "", 0, "operand 1 is of type f64"},
    {"add", "3xbool 3xbool", "", 0, "number"},
    {"mod", "3xu8 1xu8", "truncate=0", "3xu8", 0},
    {"pow", "3xf32 2x1xi64", "", "2x3xf32", 0},
    {"pow", "3xbool 3xf32", "", 0, "operand 0"},
    {"equal", "3xbool 2x1xbool", "", "2x3xbool", 0},
    {"less", "3xu64 u64", "", "3xbool", 0},
    {"less", "bool bool", "", 0, "number"},
    {"and", "3xbool bool", "", "3xbool", 0},
    {"xor", "3xi32 i32", "", "3xi32", 0},
    {"xor", "3xf32 f32", "", 0, "must be bool or an integer"},
    {"bitcast", "3xf32", "to=i32", "3xi32", 0},
    {"bitcast", "3xf32", "to=i64", 0, "f32 and i64 differ in size"},
    {"scatter", "5x6xf32 2x3xi64 2x3x6xf32", "mode=add", "5x6xf32", 0},
    {"scatter", "5x6xf32 2xi64 2x5xf32", "mode=none", 0, "updates of 2x5 do not fit 2 places"},
    {"scatter", "5x6xf32 2xi64 2x6xi32", "mode=none", 0, "must agree"},
    {"scatter", "5xf32 2xf32 2xf32", "mode=none", 0, "integer"},
    {"scatter", "f32 i64 f32", "mode=none", 0, "do not fit"},
    {"scatter", "5xf32 i64 f32", "mode=sum", 0, "must be one of none, add, mul, max, min"},
    {"arg_sort", "5x6xf16", "axis=1 descending=0", "5x6xi64", 0},
    {"arg_sort", "5x6xf16", "axis=2 descending=0", 0, "less than the rank"},
    {"select", "2x1xbool 3xi64 i64", "", "2x3xi64", 0},
    {"select", "2xi32 2xf32 2xf32", "", 0, "operand 0"},
    {"select", "2xbool 2xf32 2xf16", "", 0, "operand 2 is of type f16, operand 1"},
    {"softmax", "2x3xf32", "axis=1", "2x3xf32", 0},
    {"softmax", "2x3xf32", "axis=2", 0, "axis is 2"},
    {"softmax", "2x3xf32", "axis=-1", 0, "axis is -1"},
    {"softmax", "f32", "axis=0", 0, "less than the rank, 0"},
    {"normalize", "2x3xf16", "axes=0,1 epsilon=0 center=0", "2x3xf16", 0},
    {"normalize", "2x3xf32", "axes=1,0 epsilon=0 center=1", 0, "axes must rise"},
    {"normalize", "2x3xi32", "axes=1 epsilon=0 center=1", 0, "a float type"},
    {"batch_norm", "2x3x4xf16 3xf32 3xf32 3xf32 3xf32", "epsilon=1e-5", "2x3x4xf16", 0},
    {"batch_norm", "2x3x4xf32 3xf32 3xf32 4xf32 3xf32", "epsilon=1e-5", 0,
     "operand 3 is 4, must be 3"},
    {"batch_norm", "3xf32 3xf32 3xf32 3xf32 3xf32", "epsilon=1e-5", 0, "at least 2"},
};

static void test_maps(void) {
  run(maps, WAFER_COUNT(maps));
}

static const infer_case moves[] = {
    {"reshape", "2x3x4xf32", "shape=6,4", "6x4xf32", 0},
    {"reshape", "1xf32", "shape=", "f32", 0},
    {"reshape", "0x3xf32", "shape=7,0", "7x0xf32", 0},
    {"reshape", "2x3xf32", "shape=7", 0, "2x3 has 6 elements, 7 has 7"},
    {"reshape", "2x3xf32", "shape=-1,3", 0, "shape[0] is -1"},
    {"reshape", "2x3xf32", "shape=1,1,1,1,1,1,1,2,3", 0, "9 dims, at most 8"},
    {"reshape", "2xf32", "shape=4294967296,4294967296", 0, "too many"},
    {"transpose", "2x3x4xf32", "perm=2,0,1", "4x2x3xf32", 0},
    {"transpose", "f32", "perm=", "f32", 0},
    {"transpose", "2x3xf32", "perm=0,0", 0, "dim 0 twice"},
    {"transpose", "2x3xf32", "perm=0,2", 0, "perm[1] is 2, must be 0 to 1"},
    {"transpose", "2x3xf32", "perm=0", 0, "1 entries, needs 2"},
    {"expand", "3x1xf32", "shape=2,1,6", "2x3x6xf32", 0},
    {"expand", "3x4xf32", "shape=1", "3x4xf32", 0},
    {"expand", "3x4xf32", "shape=5", 0, "do not broadcast"},
    {"expand", "1xf32", "shape=2147483648,2147483648", 0, "result 0"},
    {"slice", "10xf32", "starts=1 steps=3 shape=3", "3xf32", 0},
    {"slice", "10xf32", "starts=9 steps=-3 shape=4", "4xf32", 0},
    {"slice", "10xf32", "starts=9 steps=-3 shape=5", 0, "5 elements from 9 by -3 leave 0 to 9"},
    {"slice", "10xf32", "starts=10 steps=-3 shape=1", 0, "leave"},
    {"slice", "10xf32", "starts=8 steps=9223372036854775807 shape=3", 0, "leave"},
    {"slice", "10xf32", "starts=8 steps=9223372036854775807 shape=1", "1xf32", 0},
    {"slice", "10xf32", "starts=10 steps=1 shape=0", "0xf32", 0},
    {"slice", "10xf32", "starts=0 steps=0 shape=1", 0, "steps[0] is 0"},
    {"slice", "10xf32", "starts=-1 steps=1 shape=1", 0, "starts[0] is -1"},
    {"slice", "10xf32", "starts=0 steps=1 shape=1,1", 0, "2 dims"},
    {"concat", "2x3xf32 2x5xf32", "axis=1", "2x8xf32", 0},
    {"concat", "2x3xf32 2x5xf32", "axis=0", 0, "dim 1"},
    {"concat", "2x3xf32 2x5xf32 2x1xf32 2x2xf32", "axis=1", "2x11xf32", 0},
    {"concat", "2x3xf32 2x3xf32 2x1xf32", "axis=0", 0, "2x3 and 2x1"},
    {"concat", "2x3xf32 2x3xf32 3xf32", "axis=0", 0, "operand 2 has 1 dims"},
    {"concat", "2xf32 2xf32 2xi32", "axis=0", 0, "operand 2 is of type i32"},
    {"concat", "2x3xf32 2xf32", "axis=0", 0, "1 dims"},
    {"concat", "2xf32 2xi32", "axis=0", 0, "agree"},
    {"concat", "1152921504606846975xu8 1152921504606846975xu8", "axis=0", 0, "result 0"},
    {"pad", "2x3xf32", "pads=1,0,0,2 mode=constant fill=0", "3x5xf32", 0},
    {"pad", "5xf32", "pads=-2,-1 mode=constant fill=0", "2xf32", 0},
    {"pad", "5xf32", "pads=-2,-4 mode=constant fill=0", 0,
     "dim 0: 5 elements cannot take pads -2 and -4"},
    {"pad", "5xf32", "pads=-7,9 mode=constant fill=0", "7xf32", 0},
    {"pad", "5xf32", "pads=-7,9 mode=edge fill=0", 0, "no element to repeat"},
    {"pad", "0xf32", "pads=1,0 mode=reflect fill=0", 0, "no element to repeat"},
    {"pad", "5xf32", "pads=9223372036854775807,1 mode=constant fill=0", 0,
     "pads[0] is 9223372036854775807"},
    {"pad", "5xf32", "pads=-9223372036854775808,-9223372036854775808 mode=wrap fill=0", 0,
     "pads[0] is -9223372036854775808"},
    {"pad", "5xf32", "pads=1 mode=constant fill=0", 0, "1 entries, needs 2"},
    {"pad", "5xf32", "pads=1,1 mode=mirror fill=0", 0,
     "'mirror', must be one of constant, reflect, edge, wrap"},
    {"resize", "1x3x4xf32",
     "shape=1,6,8 scales=1,2,2 mode=nearest coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     "1x6x8xf32", 0},
    {"resize", "1x3xf32",
     "shape=1,6 scales=1 mode=nearest coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "scales 1"},
    {"resize", "1x3xf32",
     "shape=1,6 scales=1,-2 mode=nearest coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "scales[1] is -2"},
    {"resize", "1x3xf32",
     "shape=1,6 scales=1,nan mode=nearest coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "scales[1]"},
    {"resize", "1x0xf32",
     "shape=1,6 scales=1,2 mode=nearest coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "no element"},
    {"resize", "1x3xf32",
     "shape=1,6 scales=1,2 mode=bicubic coordinates=asymmetric rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "'bicubic'"},
    {"resize", "1x3xf32",
     "shape=1,6 scales=1,2 mode=cubic coordinates=middle rounding=floor "
     "cubic_a=-0.75 exclude_outside=0",
     0, "'middle'"},
    {"gather", "5x6xf32 2x3xi64", "axis=1", "5x2x3xf32", 0},
    {"gather", "5x6xi8 i32", "axis=0", "6xi8", 0},
    {"gather", "5x6xi8 f32", "axis=0", 0, "integer"},
    {"gather", "i8 1xi64", "axis=0", 0, "rank, 0"},
    {"gather", "1x1x1x1x1xf32 1x1x1x1x1xi64", "axis=0", 0, "9 dims, at most 8"},
    {"gather_batched", "5x6x7xf32 5x2x3xi64", "axis=1", "5x2x3x7xf32", 0},
    {"gather_batched", "5x6xi8 5xi32", "axis=1", "5xi8", 0},
    {"gather_batched", "5x6xi8 4x2xi32", "axis=1", 0,
     "the data, 5x6, and the indices, 4x2, differ before dim 1"},
    {"gather_batched", "5x6xi8 i32", "axis=1", 0, "differ before dim 1"},
    {"gather_batched", "1x1x1x1x1xf32 1x1x1x1x1x1xi64", "axis=1", 0, "9 dims, at most 8"},
};

static void test_moves(void) {
  run(moves, WAFER_COUNT(moves));
}

static const infer_case reductions[] = {
    {"reduce_sum", "2x3x4xf32", "axes=0,2 keepdims=1", "1x3x1xf32", 0},
    {"reduce_sum", "2x3x4xf32", "axes=0,2 keepdims=0", "3xf32", 0},
    {"reduce_sum", "2x3xi32", "axes= keepdims=0", "2x3xi32", 0},
    {"reduce_mean", "2x3xf32", "axes=0,1 keepdims=0", "f32", 0},
    {"reduce_max", "2x3xbool", "axes=1 keepdims=1", "2x1xbool", 0},
    {"reduce_sum", "2x3xbool", "axes=1 keepdims=1", 0, "number"},
    {"reduce_min", "2x3xf32", "axes=1,0 keepdims=1", 0, "axes[1] is 0"},
    {"reduce_min", "2x3xf32", "axes=1,1 keepdims=1", 0, "axes[1] is 1"},
    {"reduce_prod", "2x3xf32", "axes=2 keepdims=1", 0, "less than 2"},
    {"reduce_prod", "2x3xf32", "axes=-1 keepdims=1", 0, "axes[0] is -1"},
    {"arg_max", "2x3xf32", "axis=1 keepdims=0 last=0", "2xi64", 0},
    {"arg_min", "2x3xf32", "axis=0 keepdims=1 last=1", "1x3xi64", 0},
    {"arg_min", "2x0xf32", "axis=1 keepdims=1 last=1", 0, "no element"},
    {"arg_min", "2x3xf32", "axis=5 keepdims=1 last=1", 0, "axis is 5"},
    {"matmul", "2x3xf32 3x5xf32", "", "2x5xf32", 0},
    {"matmul", "7x1x2x3xf32 4x3x5xf32", "", "7x4x2x5xf32", 0},
    {"matmul", "2x0xi32 0x5xi32", "", "2x5xi32", 0},
    {"matmul", "2x3xf32 4x5xf32", "", 0, "2x3 has 3 columns, 4x5 has 4 rows"},
    {"matmul", "3xf32 3x5xf32", "", 0, "1 and 2 dims"},
    {"matmul", "2x2x3xf32 3x3x5xf32", "", 0, "broadcast"},
    {"matmul", "2147483648x1xf32 1x2147483648xf32", "", 0, "result 0"},
};

static void test_reductions(void) {
  run(reductions, WAFER_COUNT(reductions));
}

static const infer_case windows[] = {
    {"conv", "1x3x8x9xf32 6x3x3x3xf32", "group=1 strides=1,2 dilations=1,1 pads=1,1,1,1",
     "1x6x8x5xf32", 0},
    {"conv", "2x4x8xf32 6x2x3xf32 6xf32", "group=2 strides=1 dilations=2 pads=0,1", "2x6x5xf32", 0},
    {"conv", "1x1x3x3x3xf32 1x1x3x3x3xf32",
     "group=1 strides=1,1,1 dilations=1,1,1 pads=0,0,0,0,0,0", "1x1x1x1x1xf32", 0},
    {"conv", "0x3x8xf32 6x3x3xf32", "group=1 strides=1 dilations=1 pads=0,0", "0x6x6xf32", 0},
    {"conv", "1x3x8xf32 6x2x3xf32", "group=1 strides=1 dilations=1 pads=0,0", 0, "3 channels"},
    {"conv", "1x4x8xf32 5x2x3xf32", "group=2 strides=1 dilations=1 pads=0,0", 0,
     "5, is no multiple of 2 groups"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=0 strides=1 dilations=1 pads=0,0", 0, "group is 0"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=-1 strides=1 dilations=1 pads=0,0", 0, "group is -1"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=9223372036854775807 strides=1 dilations=1 pads=0,0", 0,
     "group"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=1 strides=0 dilations=1 pads=0,0", 0, "strides[0] is 0"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=1 strides=1 dilations=-1 pads=0,0", 0,
     "dilations[0] is -1"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=1 strides=1 dilations=1 pads=-1,0", 0, "pads[0] is -1"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=1 strides=1,1 dilations=1 pads=0,0", 0,
     "2 entries, needs 1"},
    {"conv", "1x4x8xf32 4x4x3xf32", "group=1 strides=1 dilations=2147483647 pads=2147483647,0", 0,
     "kernel spans 4294967295"},
    {"conv", "1x4x2xf32 4x4x3xf32", "group=1 strides=1 dilations=1 pads=0,0", 0,
     "spans 3 elements, the padded input has 2"},
    {"conv", "1x4x8xf32 4x4x0xf32", "group=1 strides=1 dilations=1 pads=0,0", 0, "kernel has 0"},
    {"conv", "1x4x8xf32 4x4x3xf32 3xf32", "group=1 strides=1 dilations=1 pads=0,0", 0,
     "bias is 3, must be 4"},
    {"conv", "1x4xf32 4x4xf32", "group=1 strides= dilations= pads=", 0, "must be 3 to 5"},
    {"conv", "1x4x8xf32 4x4x3x3xf32", "group=1 strides=1 dilations=1 pads=0,0", 0,
     "weight has 4 dims"},
    {"conv", "1x4x8xf32 4x4x3xf16", "group=1 strides=1 dilations=1 pads=0,0", 0, "agree"},
    {"conv", "1x1x1x1xf32 1x1x1x1xf32",
     "group=1 strides=1,1 dilations=1,1 pads=2147483647,2147483647,0,0", 0, "result 0"},
    {"conv_transpose", "1x1x3x3xf32 1x2x3x3xf32",
     "group=1 strides=3,2 dilations=1,1 pads=0,0,0,0 output_padding=1,1", "1x2x10x8xf32", 0},
    {"conv_transpose", "1x4x3xf32 4x2x3xf32 4xf32",
     "group=2 strides=1 dilations=2 pads=1,2 output_padding=0", "1x4x4xf32", 0},
    {"conv_transpose", "1x4x3xf32 4x2x3xf32 2xf32",
     "group=2 strides=1 dilations=2 pads=1,2 output_padding=0", 0, "must be 4"},
    {"conv_transpose", "1x4x1xf32 4x2x1xf32",
     "group=1 strides=1 dilations=1 pads=1,2 output_padding=0", 0, "-2 elements remain"},
    {"conv_transpose", "1x3x1xf32 4x2x1xf32",
     "group=1 strides=1 dilations=1 pads=0,0 output_padding=0", 0, "3 channels"},
    {"conv_transpose", "1x1x1xf32 1x4611686018427387904x0xf32",
     "group=4 strides=1 dilations=1 pads=0,0 output_padding=0", 0, "negative dim or too many"},
    {"conv_transpose", "1x1x1xf32 1x1152921504606846975x1xu8",
     "group=16 strides=1 dilations=1 pads=0,0 output_padding=0", 0, "agree"},
    {"conv_transpose", "2x16x1xu8 16x72057594037927935x1xu8",
     "group=16 strides=1 dilations=1 pads=0,0 output_padding=0", 0, "result 0"},
    {"conv_transpose", "1x1x1152921504606846975xu8 1x1x1xu8",
     "group=1 strides=2147483647 dilations=1 pads=0,0 output_padding=0", 0, "out of range"},
    {"conv_transpose", "1x1x0xf32 1x1x1xf32",
     "group=1 strides=1 dilations=1 pads=0,0 output_padding=5", 0, "out of range"},
    {"max_pool", "1x3x32x32xf32", "kernel=5,5 strides=3,3 dilations=1,1 pads=0,0,0,0 ceil_mode=0",
     "1x3x10x10xf32", 0},
    {"max_pool", "1x1x4x4xf32", "kernel=3,3 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=1",
     "1x1x2x2xf32", 0},
    {"max_pool", "1x1x2x2xf32", "kernel=1,1 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=1",
     "1x1x1x1xf32", 0},
    {"max_pool", "1x1x1xf32", "kernel=2 strides=2 dilations=1 pads=0,0 ceil_mode=1", "1x1x1xf32",
     0},
    {"max_pool", "1x1x1xf32", "kernel=2 strides=2 dilations=1 pads=0,0 ceil_mode=0", 0, "spans 2"},
    {"max_pool", "1x1x1xf32", "kernel=3 strides=2 dilations=1 pads=0,0 ceil_mode=1", 0, "spans 3"},
    {"max_pool", "1x1x5xi8", "kernel=2 strides=1 dilations=3 pads=0,0 ceil_mode=0", "1x1x2xi8", 0},
    {"max_pool", "1x1x5xf32", "kernel=0 strides=1 dilations=1 pads=0,0 ceil_mode=0", 0,
     "kernel[0] is 0"},
    {"max_pool", "1x1x5xf32", "kernel=2 strides=1 dilations=1 pads=2,0 ceil_mode=0", 0,
     "less than the kernel's span, 2"},
    {"average_pool", "1x1x7xf32",
     "kernel=3 strides=2 dilations=1 pads=1,1 ceil_mode=1 count_include_pad=1", "1x1x4xf32", 0},
    {"average_pool", "1x1x8xf32",
     "kernel=3 strides=2 dilations=1 pads=1,1 ceil_mode=1 count_include_pad=1", "1x1x5xf32", 0},
    {"average_pool", "1x1x7xf32",
     "kernel=2 strides=3 dilations=1 pads=1,1 ceil_mode=1 count_include_pad=1", "1x1x3xf32", 0},
};

static void test_windows(void) {
  run(windows, WAFER_COUNT(windows));
}

static void test_sources(void) {
  float one = 1;
  wafer_attr value = {.id = WAFER_ATTR_value, .data = {&one, false}};
  wafer_attrs attrs = {1, &value};
  wafer_type type = op_text_type("1xf32"), wrong = op_text_type("1xf99");
  CU_ASSERT_EQUAL(
      wafer_op_infer(NULL, wafer_at_file("m"), WAFER_OP_constant, &attrs, 0, NULL, &type),
      WAFER_OK);
  CU_ASSERT(type.dtype == WAFER_DTYPE_f32 && type.shape.rank == 1 && type.shape.dims[0] == 1);
  CU_ASSERT_EQUAL(
      wafer_op_infer(NULL, wafer_at_file("m"), WAFER_OP_constant, &attrs, 0, NULL, &wrong),
      WAFER_BAD_INPUT);
  value.data.bytes = NULL;
  CU_ASSERT_EQUAL(
      wafer_op_infer(NULL, wafer_at_file("m"), WAFER_OP_constant, &attrs, 0, NULL, &type),
      WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(wafer_op_infer(NULL, wafer_at_file("m"), WAFER_OP_weight, NULL, 0, NULL, &type),
                  WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(wafer_op_infer(NULL, wafer_at_file("m"), WAFER_OP_COUNT, NULL, 0, NULL, &type),
                  WAFER_BAD_INPUT);
}

/* Every answer is OK with a type whose bytes can be counted, or BAD_INPUT with one message. */
static void test_hostile(void) {
  static op_text_attrs attrs;
  uint64_t state = 88172645463325252u;
  uint32_t accepted = 0;
  for (uint32_t i = 0; i < 200000; i++) {
    wafer_op op = (wafer_op)(op_hostile_next(&state) % WAFER_OP_COUNT);
    wafer_type operands[WAFER_OP_MAX_OPERANDS], result = {0};
    caught last;
    wafer_diag diag = caught_diag(&last);
    uint32_t rank = (uint32_t)(op_hostile_next(&state) % 6), count = wafer_op_get(op)->most;
    for (uint32_t j = 0; j < WAFER_OP_MAX_OPERANDS; j++) {
      operands[j] = (wafer_type){.dtype = WAFER_DTYPE_f32, .shape.rank = rank};
      for (uint32_t d = 0; d < rank; d++) operands[j].shape.dims[d] = op_hostile_int(&state);
    }
    op_hostile_attrs(&state, op, rank, &attrs);
    wafer_status status =
        wafer_op_infer(&diag, wafer_at_file("m"), op, &attrs.attrs, count, operands, &result);
    int64_t elements;
    bool sound = status == WAFER_OK
                     ? wafer_shape_elements(&result.shape, &elements) && last.count == 0
                     : status == WAFER_BAD_INPUT && last.count == 1;
    if (!sound) CU_FAIL("unsound answer");
    accepted += status == WAFER_OK;
  }
  CU_ASSERT(accepted > 1000);
}

CU_TestInfo tests_infer[] = {
    {"maps", test_maps},       {"moves", test_moves},     {"reductions", test_reductions},
    {"windows", test_windows}, {"sources", test_sources}, {"hostile", test_hostile},
    CU_TEST_INFO_NULL,
};
