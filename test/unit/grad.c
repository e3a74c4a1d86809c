/* passes/grad/grad_*.c: the derivative of every op against differences of the oracle in f64, and by
 * hand where there is no slope. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>

#include "caught.h"
#include "op_text.h"
#include "wafer/grad.h"

#define MOST_OPERANDS 5
#define MOST_VALUES 4096 /* of a function */
#define STEP 1e-3        /* of the differences, which are exact to its fourth power */

typedef struct site {
  wafer_ctx ctx;
  wafer_ir *ir;
  wafer_builder b;
  wafer_op op;
  op_text_attrs parsed;
  wafer_attr list[WAFER_OP_MAX_ATTRS];
  wafer_attrs attrs;                      /* in the op's order */
  uint32_t count;                         /* operands */
  wafer_type types[MOST_OPERANDS + 1];    /* of the operands, then of the result */
  MlirValue arguments[MOST_OPERANDS + 1]; /* operands, then the result's gradient */
  wafer_view values[MOST_OPERANDS + 1];   /* of the arguments */
  MlirValue y, gradients[MOST_OPERANDS];
} site;

/* ---- The oracle over a block ---- */

static wafer_view tensor(const site *s, const wafer_type *type) {
  size_t bytes = wafer_tensor_bytes(type->dtype, &type->shape);
  wafer_view view = wafer_view_of(type->dtype, &type->shape, NULL);
  view.data = wafer_arena_alloc(s->ctx.arena, bytes + 8, 1);
  return view;
}

static void run_op(const site *s, wafer_op op, const wafer_attrs *attrs, uint32_t count,
                   const wafer_view *operands, const wafer_view *result) {
  CU_ASSERT_EQUAL_FATAL(wafer_reference_run(NULL, s->b.loc, op, attrs, count, operands, result),
                        WAFER_OK);
}

static wafer_view run_node(const site *s, MlirOperation op, const wafer_ir_map *numbers,
                           const wafer_view *views) {
  MlirValue value = mlirOperationGetResult(op, 0);
  wafer_view operands[WAFER_OP_MAX_OPERANDS], result;
  wafer_type type = wafer_ir_value_type(value);
  wafer_attrs attrs;
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  if (wafer_ir_constant(&s->ctx, s->ir, value, &result)) return result;
  for (uint32_t i = 0; i < count; i++)
    operands[i] = views[wafer_ir_map_get(numbers, mlirOperationGetOperand(op, i).ptr)];
  CU_ASSERT_EQUAL_FATAL(wafer_ir_attrs(&s->ctx, op, &attrs), WAFER_OK);
  result = tensor(s, &type);
  run_op(s, wafer_ir_op(op), &attrs, count, operands, &result);
  return result;
}

/* The values of the gradients, by running all ops of the block in order. */
static void interpret(const site *s, wafer_view *out) {
  wafer_ir_map *numbers = wafer_ir_map_create(s->ctx.arena);
  wafer_view *views = WAFER_NEW(s->ctx.arena, wafer_view, MOST_VALUES);
  uint32_t count = 0;
  for (; count <= s->count; count++) {
    views[count] = s->values[count];
    wafer_ir_map_put(numbers, s->arguments[count].ptr, count);
  }
  for (MlirOperation op = mlirBlockGetFirstOperation(s->b.block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op), count++) {
    CU_ASSERT_FATAL(count < MOST_VALUES);
    wafer_ir_map_put(numbers, mlirOperationGetResult(op, 0).ptr, count);
    views[count] = run_node(s, op, numbers, views);
  }
  for (uint32_t i = 0; i < s->count; i++)
    if (!mlirValueIsNull(s->gradients[i]))
      out[i] = views[wafer_ir_map_get(numbers, s->gradients[i].ptr)];
}

/* ---- Rows ---- */

typedef struct row {
  wafer_op op;
  const char *types, *fill, *attrs;
  int64_t limit;    /* of indices */
  double tolerance; /* 0: 1e-6 */
} row;

/* A letter of `fill` per operand. a: any; p: positive; u: between -1 and 1; g: more than 1; d: all
 * apart, none 0; z: small integers with zeros; i: indices, negative ones too; b: truth. */
#define R(name, types_, fill_, attrs_, ...)                                                        \
  {.op = WAFER_OP_##name, .types = types_, .fill = fill_, .attrs = attrs_, __VA_ARGS__}
static const row rows[] = {
    R(abs, "3x4xf64", "d", ""),
    R(neg, "3x4xf64", "a", ""),
    R(relu, "3x4xf64", "d", ""),
    R(sqrt, "3x4xf64", "p", ""),
    R(reciprocal, "3x4xf64", "p", ""),
    R(exp, "3x4xf64", "a", ""),
    R(log, "3x4xf64", "p", ""),
    R(sin, "3x4xf64", "a", ""),
    R(cos, "3x4xf64", "a", ""),
    R(tan, "3x4xf64", "u", ""),
    R(asin, "3x4xf64", "u", ""),
    R(acos, "3x4xf64", "u", ""),
    R(atan, "3x4xf64", "a", ""),
    R(sinh, "3x4xf64", "a", ""),
    R(cosh, "3x4xf64", "a", ""),
    R(asinh, "3x4xf64", "a", ""),
    R(acosh, "3x4xf64", "g", ""),
    R(atanh, "3x4xf64", "u", ""),
    R(tanh, "3x4xf64", "a", ""),
    R(erf, "3x4xf64", "a", ""),
    R(sigmoid, "3x4xf64", "a", ""),
    R(softplus, "3x4xf64", "a", ""),
    R(clip, "3x4xf64", "d", "min=-0.32 max=0.41"),
    R(cast, "3x4xf64", "a", "to=f32", .tolerance = 1e-3),
    R(add, "3x4xf64 3x4xf64", "aa", ""),
    R(add, "2x3x4xf64 3x1xf64", "aa", ""),
    R(sub, "4xf64 2x3x4xf64", "aa", ""),
    R(mul, "2x1x4xf64 3x1xf64", "aa", ""),
    R(mul, "f64 2x3xf64", "aa", ""),
    R(div, "2x3xf64 1x3xf64", "ap", ""),
    R(mod, "5x3xf64 3xf64", "ap", "truncate=1"),
    R(mod, "5x3xf64 3xf64", "ap", "truncate=0"),
    R(pow, "2x3xf64 3xf64", "pa", ""),
    R(max, "2x5xf64 5xf64", "da", ""),
    R(min, "3x5xf64 3x1xf64", "da", ""),
    R(select, "5x1xbool 5x3xf64 3xf64", "baa", ""),
    R(reshape, "2x6xf64", "a", "shape=3,4"),
    R(transpose, "2x3x4xf64", "a", "perm=2,0,1"),
    R(expand, "3x1xf64", "a", "shape=2,3,4"),
    R(expand, "2x3xf64", "a", "shape=2,3"),
    R(slice, "5x6x4xf64", "a", "starts=1,0,2 steps=1,2,1 shape=3,3,1"),
    R(slice, "7x6xf64", "a", "starts=6,5 steps=-3,-1 shape=3,4"),
    R(concat, "2x3xf64 2x1xf64", "aa", "axis=1"),
    R(pad, "3x4xf64", "a", "pads=1,0,2,3 mode=constant fill=7"),
    R(pad, "5x4xf64", "a", "pads=-1,2,1,-2 mode=constant fill=0"),
    R(pad, "4x5xf64", "a", "pads=2,1,1,3 mode=reflect fill=0"),
    R(pad, "4x5xf64", "a", "pads=2,1,1,3 mode=edge fill=0"),
    R(pad, "3x4xf64", "a", "pads=2,0,1,3 mode=wrap fill=0"),
    R(resize, "1x2x3x4xf64", "a",
      "shape=1,2,6,8 scales=1,1,2,2 mode=nearest coordinates=asymmetric rounding=floor "
      "cubic_a=-0.75 exclude_outside=0"),
    R(resize, "1x2x3x5xf64", "a",
      "shape=1,2,7,4 scales=1,1,2.333333333,0.8 mode=linear coordinates=half_pixel rounding=floor "
      "cubic_a=-0.75 exclude_outside=0"),
    R(resize, "1x1x4x5xf64", "a",
      "shape=1,1,6,3 scales=1,1,1.5,0.6 mode=cubic coordinates=align_corners rounding=floor "
      "cubic_a=-0.5 exclude_outside=0"),
    R(gather, "5x3xf64 4xi64", "ai", "axis=0", .limit = 5),
    R(gather, "2x5x3xf64 2x3xi64", "ai", "axis=1", .limit = 5),
    R(gather, "4xf64 i64", "ai", "axis=0", .limit = 4),
    R(gather_batched, "2x5x3xf64 2x4xi64", "ai", "axis=1", .limit = 5),
    R(gather_batched, "2x3x6xf64 2x3x2x2xi64", "ai", "axis=2", .limit = 6),
    R(scatter, "5x3xf64 4xi64 4x3xf64", "aia", "mode=none", .limit = 5),
    R(scatter, "6x2xf64 7xi64 7x2xf64", "aia", "mode=none", .limit = 6),
    R(scatter, "5x3xf64 2x3xi64 2x3x3xf64", "aia", "mode=add", .limit = 5),
    R(scatter, "3x2xf64 5xi64 5x2xf64", "ziz", "mode=mul", .limit = 3),
    R(scatter, "3xf64 6xi64 6xf64", "did", "mode=max", .limit = 3),
    R(scatter, "3x2xf64 4xi64 4x2xf64", "did", "mode=min", .limit = 3),
    R(reduce_sum, "2x3x4xf64", "a", "axes=0,2 keepdims=0"),
    R(reduce_mean, "2x3x4xf64", "a", "axes=1 keepdims=1"),
    R(reduce_max, "3x4x2xf64", "d", "axes=1 keepdims=0"),
    R(reduce_min, "3x4xf64", "d", "axes=0,1 keepdims=1"),
    R(reduce_prod, "3x4x2xf64", "a", "axes=0,2 keepdims=0"),
    R(reduce_prod, "6x4xf64", "z", "axes=1 keepdims=1"),
    R(softmax, "3x4x2xf64", "a", "axis=1"),
    R(matmul, "3x4xf64 4x5xf64", "aa", ""),
    R(matmul, "2x3x4xf64 4x5xf64", "aa", ""),
    R(matmul, "2x3x4xf64 1x4x5xf64", "aa", ""),
    R(matmul, "3x4xf64 2x4x5xf64", "aa", ""),
    R(matmul, "2x1x3x4xf64 3x4x2xf64", "aa", ""),
    R(conv, "2x3x5x6xf64 4x3x3x3xf64 4xf64", "aaa",
      "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"),
    R(conv, "1x4x7x6xf64 6x2x3x2xf64", "aa", "group=2 strides=2,1 dilations=2,3 pads=0,2,1,0"),
    R(conv, "2x3x5xf64 3x1x3xf64 3xf64", "aaa", "group=3 strides=3 dilations=1 pads=2,0"),
    R(conv, "1x2x3x4x3xf64 2x2x2x3x1xf64", "aa",
      "group=1 strides=2,1,1 dilations=1,1,2 pads=0,1,0,1,0,1"),
    R(conv, "2x3x7x6xf64 4x3x2x3xf64 4xf64", "aaa",
      "group=1 strides=2,3 dilations=1,1 pads=0,0,0,0"),
    R(conv, "2x4x3x6xf64 4x2x3x3xf64", "aa", "group=2 strides=3,3 dilations=1,1 pads=0,0,0,0"),
    R(conv, "1x2x4x2x3xf64 3x2x2x2x3xf64", "aa",
      "group=1 strides=2,2,3 dilations=1,1,1 pads=0,1,0,0,1,0"),
    R(conv, "2x3x4x4xf64 5x3x1x1xf64", "aa", "group=1 strides=2,2 dilations=1,1 pads=0,0,0,0"),
    R(conv_transpose, "2x3x4x3xf64 3x2x3x3xf64 2xf64", "aaa",
      "group=1 strides=2,1 dilations=1,2 pads=1,0,0,1 output_padding=1,0"),
    R(conv_transpose, "2x3x2x3xf64 3x4x2x3xf64 4xf64", "aaa",
      "group=1 strides=2,3 dilations=1,1 pads=0,0,0,0 output_padding=0,0"),
    R(conv_transpose, "1x4x5xf64 4x2x3xf64 4xf64", "aaa",
      "group=2 strides=3 dilations=2 pads=1,2 output_padding=2"),
    R(max_pool, "2x3x6x4xf64", "d",
      "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0"),
    R(max_pool, "1x2x7x5xf64", "d",
      "kernel=3,2 strides=2,1 dilations=1,2 pads=1,0,2,1 ceil_mode=0"),
    R(max_pool, "1x1x6x6xf64", "d",
      "kernel=3,3 strides=2,2 dilations=1,1 pads=1,1,0,0 ceil_mode=1"),
    R(max_pool, "1x2x7x5xf64", "d",
      "kernel=2,2 strides=2,2 dilations=1,1 pads=0,1,0,0 ceil_mode=1"),
    R(max_pool, "2x2x7xf64", "d", "kernel=3 strides=3 dilations=1 pads=0,0 ceil_mode=0"),
    R(max_pool, "1x2x4x3x4xf64", "d",
      "kernel=2,2,3 strides=2,1,1 dilations=1,1,1 pads=0,0,1,0,0,1 ceil_mode=0"),
    R(average_pool, "2x3x6x4xf64", "a",
      "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0 count_include_pad=0"),
    R(average_pool, "1x2x7x5xf64", "a",
      "kernel=3,2 strides=2,1 dilations=1,1 pads=1,0,2,1 ceil_mode=0 count_include_pad=0"),
    R(average_pool, "1x2x7x5xf64", "a",
      "kernel=3,3 strides=2,2 dilations=1,1 pads=1,1,1,1 ceil_mode=1 count_include_pad=1"),
    R(average_pool, "1x2x7x5xf64", "a",
      "kernel=2,2 strides=2,2 dilations=1,1 pads=0,1,1,0 ceil_mode=1 count_include_pad=1"),
    R(average_pool, "1x2x9xf64", "a",
      "kernel=2 strides=1 dilations=3 pads=2,1 ceil_mode=0 count_include_pad=0"),
    R(batch_norm, "3x4x2xf64 4xf64 4xf64 4xf64 4xf64", "aaaap", "epsilon=0.01"),
};

static uint64_t state;
static double draw(void) { /* 0 .. 1 */
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) * 0x1p-53;
}

static double element_of(char fill, int64_t i, int64_t count, int64_t limit) {
  switch (fill) {
  case 'p': return 0.5 + 2 * draw();
  case 'u': return 1.8 * draw() - 0.9;
  case 'g': return 1.2 + 2 * draw();
  case 'd': /* 7 and 11 are prime to no count here that divides both */
    return ((double)((i * (count % 7 ? 7 : 11)) % count) - (double)(count / 2) + 0.4) * 0.05;
  case 'z': return floor(4 * draw()) - 1;
  case 'i': return floor(2 * (double)limit * draw()) - (double)limit;
  case 'b': return draw() < 0.5;
  default: return 4 * draw() - 2;
  }
}

static int64_t elements(const wafer_view *view) {
  int64_t count;
  wafer_shape_elements(&view->shape, &count);
  return count;
}

static void fill(site *s, uint32_t i, char letter, int64_t limit) {
  s->values[i] = tensor(s, &s->types[i]);
  int64_t count = elements(&s->values[i]);
  for (int64_t k = 0; k < count; k++)
    wafer_element_set_f64(s->types[i].dtype, s->values[i].data, k,
                          element_of(letter, k, count, limit));
}

/* @main(operands, gradient of y) with y = op(operands), and the gradients by the operands. */
static wafer_status build(site *s, const row *r, const wafer_diag *diag) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
  *s = (site){.ctx = {.arena = wafer_arena_create(), .diag = diag}, .op = r->op};
  CU_ASSERT_EQUAL_FATAL(wafer_ir_create(&s->ctx, "m.onnx", &s->ir), WAFER_OK);
  s->count = op_text_types(r->types, s->types, MOST_OPERANDS);
  const wafer_attrs *given = op_text_parse(&s->parsed, r->attrs);
  const wafer_op_info *info = wafer_op_get(r->op);
  for (uint32_t i = 0; i < info->attr_count; i++)
    s->list[i] = *wafer_attr_find(given, info->attrs[i]);
  s->attrs = (wafer_attrs){info->attr_count, s->list};
  CU_ASSERT_EQUAL_FATAL(
      wafer_op_infer(NULL, s->b.loc, r->op, &s->attrs, s->count, s->types, &s->types[s->count]),
      WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(
      wafer_ir_begin_main(&s->ctx, s->ir, s->count + 1, names, s->types, &s->b, s->arguments),
      WAFER_OK);
  WAFER_TRY(wafer_build(&s->b, r->op, s->count, s->arguments, s->list, info->attr_count, &s->y));
  wafer_grad what = {.y = s->y,
                     .seed = s->arguments[s->count],
                     .variable_count = s->count,
                     .fixed_count = s->count,
                     .fixed = s->arguments};
  return wafer_grad_build(&s->b, &what, s->gradients);
}

static void end(site *s) {
  wafer_ir_destroy(s->ir);
  wafer_arena_destroy(s->ctx.arena);
}

/* ---- Slopes ---- */

/* The sum of y's elements times their gradients. */
static double value_of(const site *s, const wafer_view *y) {
  const wafer_view *seed = &s->values[s->count];
  double sum = 0;
  run_op(s, s->op, &s->attrs, s->count, s->values, y);
  for (int64_t i = 0, n = elements(y); i < n; i++)
    sum += wafer_element_f64(y->dtype, y->data, i) * wafer_element_f64(seed->dtype, seed->data, i);
  return sum;
}

static double slope(const site *s, uint32_t i, int64_t at, const wafer_view *y) {
  static const double factors[] = {1, -8, 8, -1}, steps[] = {-2, -1, 1, 2};
  double *x = (double *)s->values[i].data + at, sum = 0, before = *x;
  for (int k = 0; k < 4; k++) {
    *x = before + steps[k] * STEP;
    sum += factors[k] * value_of(s, y);
  }
  *x = before;
  return sum / (12 * STEP);
}

static bool check_operand(const site *s, const row *r, uint32_t i, const wafer_view *gradient) {
  double tolerance = r->tolerance > 0 ? r->tolerance : 1e-6, largest = 0, off = 0;
  wafer_view y = tensor(s, &s->types[s->count]);
  CU_ASSERT_FATAL(wafer_shape_equal(&gradient->shape, &s->types[i].shape));
  for (int64_t k = 0, n = elements(gradient); k < n; k++) {
    double want = slope(s, i, k, &y), got = wafer_element_f64(gradient->dtype, gradient->data, k);
    largest = fmax(largest, fabs(want));
    off = fmax(off, isnan(got) ? INFINITY : fabs(want - got));
  }
  bool right = largest > 1e-9 && off <= tolerance * largest;
  if (!right)
    printf("\n  %s(%s) %s: operand %u is off by %g of %g", wafer_op_get(r->op)->name, r->types,
           r->attrs, i, off, largest);
  return right;
}

static void check_row(const row *r) {
  site s;
  wafer_view gradients[MOST_OPERANDS];
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_status status = build(&s, r, &diag);
  if (status != WAFER_OK) printf("\n  %s: %s", wafer_op_get(r->op)->name, last.text);
  CU_ASSERT_EQUAL_FATAL(status, WAFER_OK);
  for (uint32_t i = 0; i < s.count; i++) fill(&s, i, r->fill[i], r->limit);
  fill(&s, s.count, 'a', 0);
  interpret(&s, gradients);
  for (uint32_t i = 0; i < s.count; i++) {
    bool real = wafer_dtype_is_float(s.types[i].dtype);
    CU_ASSERT_EQUAL(mlirValueIsNull(s.gradients[i]), !real);
    if (real) CU_ASSERT(check_operand(&s, r, i, &gradients[i]));
  }
  end(&s);
}

static void test_slopes(void) {
  state = 20;
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) check_row(&rows[i]);
}

/* Every op that has a rule stands in a row. */
static void test_every_rule_is_checked(void) {
  static const struct {
    wafer_op op;
    const char *rule;
  } ops[] = {
#define OP(name, least, most, traits, shape, gradient, ...) {WAFER_OP_##name, #gradient},
#include "wafer/ops.def"
  };
  for (size_t i = 0; i < WAFER_COUNT(ops); i++) {
    bool ruled = strcmp(ops[i].rule, "none") && strcmp(ops[i].rule, "refused"), found = false;
    for (size_t k = 0; k < WAFER_COUNT(rows); k++) found |= rows[k].op == ops[i].op;
    if (found != ruled) printf("\n  %s", wafer_op_get(ops[i].op)->name);
    CU_ASSERT_EQUAL(found, ruled);
  }
}

/* ---- Where there is no slope ---- */

typedef struct point {
  row r;
  double x[2][9], want[2][9]; /* of the first two operands; y's gradient is 1, 2, 3 ... */
} point;

static const point points[] = {
    {R(abs, "3xf64", "a", ""), {{0, -1, 2}}, {{0, -2, 3}}},
    {R(relu, "3xf64", "a", ""), {{0, -1, 2}}, {{0, 0, 3}}},
    {R(clip, "3xf64", "a", "min=0 max=2"), {{0, 2, 3}}, {{1, 2, 0}}},
    {R(max, "3xf64 3xf64", "aa", ""), {{1, 2, 3}, {1, 3, 2}}, {{0.5, 0, 3}, {0.5, 2, 0}}},
    {R(min, "3xf64 3xf64", "aa", ""), {{1, 2, 3}, {1, 3, 2}}, {{0.5, 2, 0}, {0.5, 0, 3}}},
    {R(pow, "3xf64 3xf64", "aa", ""),
     {{0, 0, 2}, {0, 2, 1}},
     {{0, 0, 3}, {0, 0, 4.1588830833596715}}},
    {R(reduce_max, "4xf64", "a", "axes=0 keepdims=0"), {{1, 3, 3, 2}}, {{0, 0.5, 0.5, 0}}},
    {R(reduce_min, "4xf64", "a", "axes=0 keepdims=1"),
     {{1, 3, 1, 1}},
     {{1.0 / 3, 0, 1.0 / 3, 1.0 / 3}}},
    /* the first of equal ones, as the kernel goes through its window */
    {R(max_pool, "1x1x3x3xf64", "a",
       "kernel=2,2 strides=1,1 dilations=1,1 pads=0,0,0,0 ceil_mode=0"),
     {{5, 5, 5, 5, 5, 5, 5, 5, 5}},
     {{1, 2, 0, 3, 4, 0, 0, 0, 0}}},
    {R(max_pool, "1x1x4xf64", "a", "kernel=2 strides=2 dilations=1 pads=0,0 ceil_mode=0"),
     {{5, 5, 4, 5}},
     {{1, 0, 0, 2}}},
};

static void check_point(const point *p) {
  site s;
  wafer_view gradients[MOST_OPERANDS];
  CU_ASSERT_EQUAL_FATAL(build(&s, &p->r, NULL), WAFER_OK);
  for (uint32_t i = 0; i <= s.count; i++) {
    fill(&s, i, 'a', 0);
    for (int64_t k = 0, n = elements(&s.values[i]); k < n; k++)
      ((double *)s.values[i].data)[k] = i < s.count ? p->x[i][k] : (double)k + 1;
  }
  interpret(&s, gradients);
  for (uint32_t i = 0; i < s.count; i++)
    for (int64_t k = 0, n = elements(&gradients[i]); k < n; k++) {
      double got = ((const double *)gradients[i].data)[k];
      bool right = fabs(got - p->want[i][k]) < 1e-12;
      if (!right)
        printf("\n  %s: operand %u, element %lld: %g, want %g", wafer_op_get(p->r.op)->name, i,
               (long long)k, got, p->want[i][k]);
      CU_ASSERT(right);
    }
  end(&s);
}

static void test_points(void) {
  for (size_t i = 0; i < WAFER_COUNT(points); i++) check_point(&points[i]);
}

/* ---- Chains ---- */

/* Nothing behind `floor` counts, and what is used twice gets both parts. */
static void test_chains(void) {
  static const char *const names[] = {"a", "b"};
  site s = {.ctx = {.arena = wafer_arena_create()}};
  wafer_type type = {WAFER_DTYPE_f64, {1, {2}}}, types[] = {type, type};
  MlirValue a[2], square, steps, y, gradients[2];
  bool reached[2];
  CU_ASSERT_EQUAL_FATAL(wafer_ir_create(&s.ctx, "m.onnx", &s.ir), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_begin_main(&s.ctx, s.ir, 2, names, types, &s.b, a), WAFER_OK);
  wafer_build(&s.b, WAFER_OP_mul, 2, (MlirValue[]){a[0], a[0]}, NULL, 0, &square);
  wafer_build(&s.b, WAFER_OP_floor, 1, &a[1], NULL, 0, &steps);
  wafer_build(&s.b, WAFER_OP_add, 2, (MlirValue[]){square, steps}, NULL, 0, &y);
  wafer_grad what = {.y = y, .variable_count = 2, .fixed_count = 2, .fixed = a};
  CU_ASSERT_EQUAL(wafer_grad_reaches(&s.b, &what, reached), WAFER_OK);
  CU_ASSERT(reached[0] && !reached[1]);
  CU_ASSERT_EQUAL(wafer_grad_build(&s.b, &what, gradients), WAFER_OK);
  CU_ASSERT(!mlirValueIsNull(gradients[0]) && mlirValueIsNull(gradients[1]));
  what.fixed = (MlirValue[]){square, a[0]}; /* behind what stands still is nothing */
  CU_ASSERT_EQUAL(wafer_grad_reaches(&s.b, &what, reached), WAFER_OK);
  CU_ASSERT(reached[0] && !reached[1]);
  end(&s);
}

static void test_refusals(void) {
  static const row refused = R(bitcast, "3xf16", "a", "to=bf16");
  site s;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL(build(&s, &refused, &diag), WAFER_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "the derivative of nn.bitcast is not known"));
  end(&s);
}

CU_TestInfo tests_grad[] = {
    {"slopes of every op", test_slopes},      {"every rule is checked", test_every_rule_is_checked},
    {"points without a slope", test_points},  {"chains of ops", test_chains},
    {"refused ops are named", test_refusals}, CU_TEST_INFO_NULL,
};
