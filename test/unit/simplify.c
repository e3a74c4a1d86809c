/* passes/simplify.c and its room: what a program computes before is what it computes after, with
 * fewer ops. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/ir.h"

/* The body of @main(%x) and its types; `ops` are those left after, constants and weights not
 * counted. */
typedef struct program {
  const char *name, *in, *out, *body;
  uint32_t ops;
} program;

#define CONV(k)                                                                                    \
  "{group = " #k " : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = "       \
  "array<i64: 1, 1, 1, 1>}"
#define WEIGHT(name, type)                                                                         \
  "%" name " = \"nn.weight\"() {name = \"" name "\"} : () -> tensor<" type ">\n"
#define SCALAR(name, value)                                                                        \
  "%" name " = \"nn.constant\"() {value = dense<" value "> : tensor<f32>} : () -> tensor<f32>\n"
#define MAP2(to, op, a, at, b, bt, t)                                                              \
  "%" to " = \"nn." op "\"(%" a ", %" b ") : (tensor<" at ">, tensor<" bt ">) -> tensor<" t ">\n"
#define BN(to, from, c, t)                                                                         \
  WEIGHT("scale", c)                                                                               \
  WEIGHT("shift", c)                                                                               \
  WEIGHT("mean", c)                                                                                \
  WEIGHT("variance",                                                                               \
         c) "%" to " = \"nn.batch_norm\"(%" from                                                   \
            ", %scale, %shift, %mean, %variance) {epsilon = 1.0e-3 : f64} : (tensor<" t            \
            ">, tensor<" c ">, tensor<" c ">, tensor<" c ">, tensor<" c ">) -> tensor<" t ">\n"

static const program programs[] = {
    {"batch_norm behind a convolution", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") WEIGHT("b", "6xf32") "%0 = \"nn.conv\"(%x, %w, %b) " CONV(
         1) " : (tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> "
            "tensor<1x6x5x5xf32>\n" BN("y", "0", "6xf32", "1x6x5x5xf32"),
     1},
    {"batch_norm behind a grouped convolution without bias", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x2x3x3xf32") "%0 = \"nn.conv\"(%x, %w) " CONV(
         2) " : (tensor<1x4x5x5xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x5x5xf32>\n" BN("y", "0",
                                                                                        "6xf32",
                                                                                        "1x6x5x5xf3"
                                                                                        "2"),
     1},
    {"batch_norm behind a grouped transposed convolution", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT(
         "w",
         "4x3x3x3xf32") "%0 = \"nn.conv_transpose\"(%x, %w) {group = 2 : i64, strides = array<i64: "
                        "1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
                        "output_padding = array<i64: 0, 0>}"
                        " : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x6x5x5xf32>\n" BN(
                            "y", "0", "6xf32", "1x6x5x5xf32"),
     1},
    {"batch_norm behind a convolution that is used twice", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") "%0 = \"nn.conv\"(%x, %w) " CONV(
         1) " : (tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x5x5xf32>\n" BN("1", "0",
                                                                                        "6xf32",
                                                                                        "1x6x5x5xf3"
                                                                                        "2")
         MAP2("y", "add", "0", "1x6x5x5xf32", "1", "1x6x5x5xf32", "1x6x5x5xf32"),
     4},
    {"batch_norm alone", "3x6xf32", "3x6xf32", BN("y", "x", "6xf32", "3x6xf32"), 2},
    {"mul, sub, div and add behind a convolution", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") WEIGHT("m", "1x6x1x1xf32") WEIGHT("a", "6x1x1xf32")
         SCALAR("h", "3.0") SCALAR("k", "0.7") "%0 = \"nn.conv\"(%x, %w) " CONV(
             1) " : (tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32>) -> "
                "tensor<1x6x5x5xf32>\n" MAP2("1", "mul", "m", "1x6x1x1xf32", "0", "1x6x5x5xf32",
                                             "1x6x5x5xf32")
                    MAP2("2", "sub", "k", "f32", "1", "1x6x5x5xf32", "1x6x5x5xf32")
                        MAP2("3", "div", "2", "1x6x5x5xf32", "h", "f32", "1x6x5x5xf32")
                            MAP2("y", "add", "3", "1x6x5x5xf32", "a", "6x1x1xf32", "1x6x5x5xf32"),
     1},
    {"a constant that differs along an image stays", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") WEIGHT("m", "5xf32") "%0 = \"nn.conv\"(%x, %w) " CONV(
         1) " : (tensor<1x4x5x5xf32>, "
            "tensor<6x4x3x3xf32>) -> "
            "tensor<1x6x5x5xf32>\n" MAP2("y", "mul", "0", "1x6x5x5xf32", "m", "5xf32",
                                         "1x6x5x5xf32"),
     2},
    {"mul and add before a convolution without pads", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x2x1x1xf32") WEIGHT("m", "4x1x1xf32") WEIGHT("a", "1x4x1x1xf32")
         MAP2("0", "mul", "x", "1x4x5x5xf32", "m", "4x1x1xf32", "1x4x5x5xf32") MAP2(
             "1", "add", "a", "1x4x1x1xf32", "0", "1x4x5x5xf32",
             "1x4x5x5xf32") "%y = \"nn.conv\"(%1, %w) {group = 2 : i64, strides = array<i64: 1, "
                            "1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : "
                            "(tensor<1x4x5x5xf32>, tensor<6x2x1x1xf32>) -> tensor<1x6x5x5xf32>\n",
     1},
    {"add before a convolution with pads stays", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") WEIGHT("b", "6xf32") WEIGHT("a", "4x1x1xf32") SCALAR("k", "0.3")
         MAP2("0", "add", "x", "1x4x5x5xf32", "a", "4x1x1xf32", "1x4x5x5xf32")
             MAP2("1", "mul", "0", "1x4x5x5xf32", "k", "f32",
                  "1x4x5x5xf32") "%y = \"nn.conv\"(%1, %w, %b) " CONV(1) " : (tensor<1x4x5x5xf32>, "
                                                                         "tensor<6x4x3x3xf32>, "
                                                                         "tensor<6xf32>) -> "
                                                                         "tensor<1x6x5x5xf32>\n",
     2},
    {"factors and quotients are one", "3x4xf32", "3x4xf32",
     WEIGHT("a", "4xf32") WEIGHT("d", "4xf32") SCALAR("k", "0.3") SCALAR("h", "6.0")
         MAP2("0", "div", "x", "3x4xf32", "h", "f32", "3x4xf32")
             MAP2("1", "mul", "a", "4xf32", "0", "3x4xf32", "3x4xf32")
                 MAP2("2", "mul", "1", "3x4xf32", "d", "4xf32", "3x4xf32")
                     MAP2("y", "mul", "2", "3x4xf32", "k", "f32", "3x4xf32"),
     1},
    {"factors that would grow stay", "3x4xf32", "3x4xf32",
     WEIGHT("a", "4xf32") WEIGHT("d", "3x1xf32")
         MAP2("0", "mul", "x", "3x4xf32", "a", "4xf32", "3x4xf32")
             MAP2("y", "mul", "0", "3x4xf32", "d", "3x1xf32", "3x4xf32"),
     2},
    {"powers that are products", "3x4xf32", "3x4xf32",
     SCALAR("two", "2.0") SCALAR("half", "0.5") SCALAR("less", "-1.0")
         MAP2("0", "pow", "x", "3x4xf32", "two", "f32", "3x4xf32")
             MAP2("1", "pow", "0", "3x4xf32", "half", "f32", "3x4xf32")
                 MAP2("y", "pow", "1", "3x4xf32", "less", "f32", "3x4xf32"),
     3},
    {"zeros behind channels", "1x4x3x3xf32", "1x9x3x3xf32",
     "%c = \"nn.constant\"() {value = dense<0.0> : tensor<1x3x3x3xf32>} : () -> "
     "tensor<1x3x3x3xf32>\n"
     "%d = \"nn.constant\"() {value = dense<0.5> : tensor<1x2x3x3xf32>} : () -> "
     "tensor<1x2x3x3xf32>\n"
     "%0 = \"nn.concat\"(%x, %c) {axis = 1 : i64} : (tensor<1x4x3x3xf32>, tensor<1x3x3x3xf32>) -> "
     "tensor<1x7x3x3xf32>\n"
     "%y = \"nn.concat\"(%d, %0) {axis = 1 : i64} : (tensor<1x2x3x3xf32>, tensor<1x7x3x3xf32>) -> "
     "tensor<1x9x3x3xf32>\n",
     2},
    {"a reciprocal of a convolution stays", "1x4x5x5xf32", "1x6x5x5xf32",
     WEIGHT("w", "6x4x3x3xf32") SCALAR("k", "2.0") "%0 = \"nn.conv\"(%x, %w) " CONV(
         1) " : (tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32>) "
            "-> tensor<1x6x5x5xf32>\n" MAP2("y", "div", "k", "f32", "0", "1x6x5x5xf32",
                                            "1x6x5x5xf32"),
     2},
    {"a frame of zeros before a convolution", "1x4x5x5xf32", "1x6x8x6xf32",
     WEIGHT("w", "6x4x3x3xf32") "%0 = \"nn.pad\"(%x) {pads = array<i64: 0, 0, 1, 0, 0, 0, 2, 1>, "
                                "mode = \"constant\", fill = 0.0 : f64} : (tensor<1x4x5x5xf32>) -> "
                                "tensor<1x4x8x6xf32>\n"
                                "%y = \"nn.conv\"(%0, %w) " CONV(
                                    1) " : (tensor<1x4x8x6xf32>, tensor<6x4x3x3xf32>) -> "
                                       "tensor<1x6x8x6xf32>\n",
     1},
    {"a frame of ones stays", "1x4x5x5xf32", "1x6x6x5xf32",
     WEIGHT("w", "6x4x3x3xf32") "%0 = \"nn.pad\"(%x) {pads = array<i64: 0, 0, 1, 0, 0, 0, 0, 0>, "
                                "mode = \"constant\", fill = 1.0 : f64} : (tensor<1x4x5x5xf32>) -> "
                                "tensor<1x4x6x5xf32>\n"
                                "%y = \"nn.conv\"(%0, %w) " CONV(
                                    1) " : (tensor<1x4x6x5xf32>, tensor<6x4x3x3xf32>) -> "
                                       "tensor<1x6x6x5xf32>\n",
     2},
    {"three transposes are one", "2x3x4xf32", "4x2x3xf32",
     "%0 = \"nn.transpose\"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> "
     "tensor<3x2x4xf32>\n"
     "%1 = \"nn.transpose\"(%0) {perm = array<i64: 2, 0, 1>} : (tensor<3x2x4xf32>) -> "
     "tensor<4x3x2xf32>\n"
     "%y = \"nn.transpose\"(%1) {perm = array<i64: 0, 2, 1>} : (tensor<4x3x2xf32>) -> "
     "tensor<4x2x3xf32>\n",
     1},
    {"views of views are one", "1x6x4xf32", "2x12xf32",
     "%0 = \"nn.transpose\"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<1x6x4xf32>) -> "
     "tensor<6x1x4xf32>\n"
     "%1 = \"nn.reduce_max\"(%0) {axes = array<i64: 1>, keepdims = 0 : i64} : (tensor<6x1x4xf32>) "
     "-> tensor<6x4xf32>\n"
     "%2 = \"nn.reshape\"(%1) {shape = array<i64: 24>} : (tensor<6x4xf32>) -> tensor<24xf32>\n"
     "%y = \"nn.reshape\"(%2) {shape = array<i64: 2, 12>} : (tensor<24xf32>) -> tensor<2x12xf32>\n",
     1},
    {"slices of slices are one, backwards too", "9x8xf32", "2x3xf32",
     "%0 = \"nn.slice\"(%x) {starts = array<i64: 8, 1>, steps = array<i64: -2, 2>, shape = "
     "array<i64: 4, 4>} : (tensor<9x8xf32>) -> tensor<4x4xf32>\n"
     "%y = \"nn.slice\"(%0) {starts = array<i64: 3, 1>, steps = array<i64: -2, 1>, shape = "
     "array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3xf32>\n",
     1},
    {"clips of clips are one", "64xf32", "64xf32",
     "%0 = \"nn.clip\"(%x) {min = -0.5 : f64, max = 0.25 : f64} : (tensor<64xf32>) -> "
     "tensor<64xf32>\n"
     "%1 = \"nn.relu\"(%0) : (tensor<64xf32>) -> tensor<64xf32>\n"
     "%y = \"nn.clip\"(%1) {min = 0.1 : f64, max = 0.9 : f64} : (tensor<64xf32>) -> "
     "tensor<64xf32>\n",
     1},
    {"an expand before ops that broadcast", "3x1xf32", "3x4xf32",
     WEIGHT("w", "4xf32") "%0 = \"nn.expand\"(%x) {shape = array<i64: 3, 4>} : (tensor<3x1xf32>) "
                          "-> tensor<3x4xf32>\n" MAP2("1", "add", "0", "3x4xf32", "w", "4xf32",
                                                      "3x4xf32")
                              MAP2("y", "mul", "1", "3x4xf32", "0", "3x4xf32", "3x4xf32"),
     2},
    {"an expand that the op needs stays", "3x1xf32", "3x4xf32",
     "%0 = \"nn.expand\"(%x) {shape = array<i64: 3, 4>} : (tensor<3x1xf32>) -> "
     "tensor<3x4xf32>\n" MAP2("y", "add", "0", "3x4xf32", "0", "3x4xf32", "3x4xf32"),
     2},
};

/* ---- Running a program by the oracle ---- */

typedef struct machine {
  wafer_ctx ctx;
  wafer_ir *ir;
  wafer_ir_map *numbers;
  uint32_t count;
  wafer_view values[64];
} machine;

static void keep(machine *m, MlirValue value, wafer_view view) {
  CU_ASSERT_FATAL(m->count < WAFER_COUNT(m->values));
  m->values[m->count] = view;
  CU_ASSERT_TRUE_FATAL(wafer_ir_map_put(m->numbers, value.ptr, m->count++));
}

static wafer_view get(const machine *m, MlirValue value) {
  return m->values[wafer_ir_map_get(m->numbers, value.ptr)];
}

static void run_op(machine *m, MlirOperation op) {
  wafer_view operands[WAFER_OP_MAX_OPERANDS], result;
  wafer_attrs attrs;
  MlirValue value = mlirOperationGetResult(op, 0);
  if (wafer_ir_constant(&m->ctx, m->ir, value, &result)) {
    keep(m, value, result);
    return;
  }
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  for (uint32_t i = 0; i < count; i++) operands[i] = get(m, mlirOperationGetOperand(op, i));
  wafer_type type = wafer_ir_value_type(value);
  void *data = wafer_arena_alloc(m->ctx.arena, wafer_tensor_bytes(type.dtype, &type.shape), 1);
  result = wafer_view_of(type.dtype, &type.shape, data);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_attrs(&m->ctx, op, &attrs), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_reference_run(NULL, wafer_at_file(""), wafer_ir_op(op), &attrs, count,
                                            operands, &result),
                        WAFER_OK);
  keep(m, value, result);
}

/* Numbers between -1 and 1; `positive`: between 0.5 and 1.5, for variances and divisors. */
static void fill(float *data, size_t bytes, uint32_t seed, bool positive) {
  for (size_t i = 0; i < bytes / sizeof *data; i++) {
    seed = seed * 1664525u + 1013904223u;
    float unit = (float)(seed >> 8) / (1 << 24);
    data[i] = positive ? 0.5f + unit : 2 * unit - 1;
  }
}

static wafer_view run(const wafer_ctx *ctx, wafer_ir *ir, uint32_t *ops) {
  machine m = {.ctx = *ctx, .ir = ir, .numbers = wafer_ir_map_create(ctx->arena)};
  MlirBlock block = wafer_ir_body(wafer_ir_main(ir));
  MlirValue x = mlirBlockGetArgument(block, 0);
  wafer_type type = wafer_ir_value_type(x);
  size_t bytes = wafer_tensor_bytes(type.dtype, &type.shape);
  void *data = wafer_arena_alloc(ctx->arena, bytes, 1);
  fill(data, bytes, 7, false);
  keep(&m, x, wafer_view_of(type.dtype, &type.shape, data));
  MlirOperation last = mlirBlockGetTerminator(block);
  *ops = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationEqual(op, last);
       op = mlirOperationGetNextInBlock(op)) {
    *ops += !wafer_ir_is_constant(mlirOperationGetResult(op, 0));
    run_op(&m, op);
  }
  return get(&m, mlirOperationGetOperand(last, 0));
}

static wafer_ir *parse(const wafer_ctx *ctx, const program *p) {
  char path[] = "/tmp/wafer-simplify-XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  wafer_ir *ir = NULL;
  fprintf(file,
          "func.func @main(%%x: tensor<%s>) -> tensor<%s> {\n%sfunc.return %%y : tensor<%s>\n}\n",
          p->in, p->out, p->body, p->out);
  fclose(file);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_parse(ctx, path, &ir), WAFER_OK);
  remove(path);
  for (size_t i = 0; i < wafer_weights_count(ir->weights); i++) {
    wafer_weight *w = wafer_weights_at(ir->weights, i);
    void *data = wafer_arena_alloc(ctx->arena, w->bytes, 1);
    fill(data, w->bytes, (uint32_t)i, !strcmp(w->name, "variance"));
    w->data = data;
  }
  return ir;
}

static void check(const program *p) {
  wafer_ctx ctx = {.arena = wafer_arena_create()};
  wafer_ir *ir = parse(&ctx, p);
  uint32_t before, after;
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&ctx, ir, "shape"), WAFER_OK);
  wafer_view want = run(&ctx, ir, &before);
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&ctx, ir, "simplify"), WAFER_OK);
  wafer_view got = run(&ctx, ir, &after);
  CU_ASSERT_TRUE_FATAL(wafer_shape_equal(&want.shape, &got.shape));
  int64_t count;
  double most = 0, largest = 0;
  wafer_shape_elements(&want.shape, &count);
  for (int64_t i = 0; i < count; i++) {
    double w = wafer_element_f64(want.dtype, want.data, i),
           g = wafer_element_f64(got.dtype, got.data, i);
    most = fmax(most, fabs(w - g));
    largest = fmax(largest, fabs(w));
  }
  CU_ASSERT(largest > 0);
  CU_ASSERT(most <= 1e-6 * largest);
  CU_ASSERT_EQUAL(after, p->ops);
  if (most > 1e-6 * largest || after != p->ops)
    printf("%s: %u ops of %u, %u wanted; largest difference %g of %g\n", p->name, after, before,
           p->ops, most, largest);
  wafer_ir_destroy(ir);
  wafer_arena_destroy(ctx.arena);
}

static void programs_compute_the_same(void) {
  for (size_t i = 0; i < WAFER_COUNT(programs); i++) check(&programs[i]);
}

/* An op that two rewrites merge keeps the node of the one that does the work. */
static void anchors_keep_their_node(void) {
  static const program p = {
      "", "1x4x5x5xf32", "1x6x5x5xf32",
      WEIGHT("w", "6x4x3x3xf32") WEIGHT("a", "6x1x1xf32") "%0 = \"nn.conv\"(%x, %w) " CONV(
          1) " : (tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x5x5xf32> "
             "loc(\"the/conv\")\n"
             "%y = \"nn.add\"(%0, %a) : (tensor<1x6x5x5xf32>, tensor<6x1x1xf32>) -> "
             "tensor<1x6x5x5xf32> loc(\"the/bias\")\n",
      1};
  wafer_ctx ctx = {.arena = wafer_arena_create()};
  wafer_ir *ir = parse(&ctx, &p);
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&ctx, ir, "shape,simplify"), WAFER_OK);
  MlirOperation last = mlirBlockGetTerminator(wafer_ir_body(wafer_ir_main(ir)));
  MlirOperation conv = mlirOpResultGetOwner(mlirOperationGetOperand(last, 0));
  CU_ASSERT_EQUAL(wafer_ir_op(conv), WAFER_OP_conv);
  CU_ASSERT_EQUAL(mlirOperationGetNumOperands(conv), 3);
  CU_ASSERT_STRING_EQUAL(wafer_ir_node_name(conv), "the/conv");
  wafer_ir_destroy(ir);
  wafer_arena_destroy(ctx.arena);
}

/* A convolution whose weights are absent keeps them as they are: what follows is not folded in. */
static void absent_weights_stay(void) {
  wafer_ctx ctx = {.arena = wafer_arena_create()};
  wafer_ir *ir = parse(&ctx, &programs[0]);
  for (size_t i = 0; i < wafer_weights_count(ir->weights); i++)
    wafer_weights_at(ir->weights, i)->data = NULL;
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&ctx, ir, "shape,simplify"), WAFER_OK);
  uint32_t norms = 0, convs = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(wafer_ir_body(wafer_ir_main(ir)));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    norms += wafer_ir_op(op) == WAFER_OP_batch_norm;
    if (wafer_ir_op(op) != WAFER_OP_conv) continue;
    convs++;
    for (int i = 1; i < 3; i++)
      CU_ASSERT_EQUAL(wafer_ir_op(mlirOpResultGetOwner(mlirOperationGetOperand(op, i))),
                      WAFER_OP_weight);
  }
  CU_ASSERT_EQUAL(norms, 0); /* rewritten to ops over its parameters */
  CU_ASSERT_EQUAL(convs, 1);
  wafer_ir_destroy(ir);
  wafer_arena_destroy(ctx.arena);
}

CU_TestInfo tests_simplify[] = {
    {"programs compute the same", programs_compute_the_same},
    {"anchors keep their node", anchors_keep_their_node},
    {"absent weights stay", absent_weights_stay},
    CU_TEST_INFO_NULL,
};
