/* The oracle against values computed elsewhere (reference/?.def), its refusals, and sizes beyond a
 * block. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "op_hostile.h"
#include "op_text.h"
#include "wafer/arena.h"

typedef struct reference_case {
  const char *op, *attrs, *operands, *result;
} reference_case;

#define MOST_ELEMENTS 128

typedef struct tensor {
  wafer_view view;
  int64_t count;
  uint64_t bytes[MOST_ELEMENTS];
} tensor;

static void set_element(wafer_dtype dtype, void *data, int64_t index, const char *word) {
  if (wafer_dtype_is_float(dtype))
    wafer_element_set_f64(dtype, data, index, strtod(word, NULL));
  else if (dtype == WAFER_DTYPE_u64)
    wafer_element_set_i64(dtype, data, index, (int64_t)strtoull(word, NULL, 10));
  else
    wafer_element_set_i64(dtype, data, index, strtoll(word, NULL, 10));
}

/* "2x1xf32 1 -inf" */
static void parse(tensor *t, const char *text) {
  char copy[4096], *rest = copy, *word;
  snprintf(copy, sizeof copy, "%s", text);
  wafer_type type = op_text_type(strtok_r(rest, " ", &rest));
  int64_t elements, i = 0;
  bool fits = wafer_shape_elements(&type.shape, &elements) && elements <= MOST_ELEMENTS;
  CU_ASSERT_FATAL(fits && type.dtype != WAFER_DTYPE_none);
  *t = (tensor){.view = wafer_view_of(type.dtype, &type.shape, t->bytes), .count = elements};
  for (; i < elements && (word = strtok_r(rest, " ", &rest)); i++)
    set_element(type.dtype, t->bytes, i, word);
  CU_ASSERT_EQUAL_FATAL(i, elements);
}

static uint32_t parse_all(tensor *t, wafer_view *views, const char *text) {
  char copy[4096], *rest = copy, *word;
  uint32_t count = 0;
  snprintf(copy, sizeof copy, "%s", text);
  while (count < WAFER_OP_MAX_OPERANDS && (word = strtok_r(rest, ";", &rest))) {
    parse(&t[count], word + strspn(word, " "));
    views[count] = t[count].view;
    count++;
  }
  return count;
}

/* Integers exactly; floats to what one rounding of another order of operations may change. */
static bool agrees(wafer_dtype dtype, const void *got, const void *want, int64_t i) {
  double a = wafer_element_f64(dtype, got, i), b = wafer_element_f64(dtype, want, i);
  static const double relative[WAFER_DTYPE_COUNT] = {[WAFER_DTYPE_f64] = 1e-12,
                                                     [WAFER_DTYPE_f32] = 1e-6,
                                                     [WAFER_DTYPE_f16] = 1e-3,
                                                     [WAFER_DTYPE_bf16] = 8e-3};
  if (!wafer_dtype_is_float(dtype))
    return wafer_element_i64(dtype, got, i) == wafer_element_i64(dtype, want, i);
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= relative[dtype] * fabs(b) + (dtype == WAFER_DTYPE_f32 ? 8e-6 : 0);
}

static bool passes(const reference_case *c, char *seen, size_t bytes) {
  static tensor in[WAFER_OP_MAX_OPERANDS], want, got;
  static op_text_attrs attrs;
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  caught last;
  wafer_diag diag = caught_diag(&last);
  uint32_t count = parse_all(in, views, c->operands);
  parse(&want, c->result);
  got = want;
  got.view.data = got.bytes;
  memset(got.bytes, 0x5a, sizeof got.bytes);
  snprintf(seen, bytes, "%s", "");
  if (wafer_reference_run(&diag, wafer_at_file("m"), wafer_op_by_name(c->op),
                          op_text_parse(&attrs, c->attrs), count, views, &got.view) != WAFER_OK) {
    snprintf(seen, bytes, "%s", last.text);
    return false;
  }
  for (int64_t i = 0; i < got.count; i++) {
    if (agrees(got.view.dtype, got.bytes, want.bytes, i)) continue;
    snprintf(seen, bytes, "element %lld is %.9g, not %.9g", (long long)i,
             wafer_element_f64(got.view.dtype, got.bytes, i),
             wafer_element_f64(got.view.dtype, want.bytes, i));
    return false;
  }
  return true;
}

static const reference_case cases[] = {
#define CASE(op, attrs, operands, result) {op, attrs, operands, result},
#include "reference/map.def"
#define CASE(op, attrs, operands, result) {op, attrs, operands, result},
#include "reference/move.def"
#define CASE(op, attrs, operands, result) {op, attrs, operands, result},
#include "reference/resize.def"
#define CASE(op, attrs, operands, result) {op, attrs, operands, result},
#include "reference/reduce.def"
#define CASE(op, attrs, operands, result) {op, attrs, operands, result},
#include "reference/linear.def"
};

static void test_cases(void) {
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    char seen[4096];
    bool ok = passes(&cases[i], seen, sizeof seen);
    if (!ok) printf("\n  %s(%s) {%s}: %s", cases[i].op, cases[i].operands, cases[i].attrs, seen);
    CU_ASSERT(ok);
  }
}

/* A new row brings its cases. */
static void test_every_op_has_cases(void) {
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++) {
    size_t count = 0;
    if (wafer_op_is((wafer_op)op, WAFER_TRAIT_SOURCE)) continue;
    for (size_t i = 0; i < WAFER_COUNT(cases); i++)
      count += strcmp(cases[i].op, wafer_op_get((wafer_op)op)->name) == 0;
    if (!count) printf("\n  %s has no case", wafer_op_get((wafer_op)op)->name);
    CU_ASSERT(count > 0);
  }
}

static void test_constants(void) {
  static const int16_t three[] = {1, -2, 3};
  int16_t out[3];
  wafer_attr value = {.id = WAFER_ATTR_value, .data = {three, false}};
  wafer_attrs attrs = {1, &value};
  wafer_view result = wafer_view_of(WAFER_DTYPE_i16, &(wafer_shape){1, {3}}, out);
  CU_ASSERT_EQUAL(
      wafer_reference_run(NULL, wafer_at_file("m"), WAFER_OP_constant, &attrs, 0, NULL, &result),
      WAFER_OK);
  CU_ASSERT_EQUAL(memcmp(out, three, sizeof three), 0);
  value.data.splat = true;
  CU_ASSERT_EQUAL(
      wafer_reference_run(NULL, wafer_at_file("m"), WAFER_OP_constant, &attrs, 0, NULL, &result),
      WAFER_OK);
  CU_ASSERT(out[0] == 1 && out[1] == 1 && out[2] == 1);
}

/* `result` names a type; operands and result are parsed, then `break_view` may spoil one. */
static void refuses(const char *op, const char *attrs_text, const char *operands,
                    const char *result, void (*spoil)(wafer_view *operand, wafer_view *result),
                    wafer_status want, const char *words) {
  static tensor in[WAFER_OP_MAX_OPERANDS];
  op_text_attrs attrs;
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  uint64_t bytes[MOST_ELEMENTS];
  caught last;
  wafer_diag diag = caught_diag(&last);
  uint32_t count = parse_all(in, views, operands);
  wafer_type type = op_text_type(result);
  wafer_view out = wafer_view_of(type.dtype, &type.shape, bytes);
  if (spoil) spoil(&views[0], &out);
  wafer_status status =
      wafer_reference_run(&diag, wafer_at_node("m.onnx", "n", 3), wafer_op_by_name(op),
                          op_text_parse(&attrs, attrs_text), count, views, &out);
  CU_ASSERT_EQUAL(status, want);
  CU_ASSERT_EQUAL(last.count, 1);
  if (!strstr(last.text, words)) printf("\n  %s: '%s' lacks '%s'", op, last.text, words);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, words));
}

static void gaps_in_operand(wafer_view *operand, wafer_view *result) {
  (void)result;
  operand->strides[0] = 4;
}

static void columns_first(wafer_view *operand, wafer_view *result) {
  (void)operand;
  result->strides[0] = 1, result->strides[1] = 2;
}

static void test_refusals(void) {
  refuses("add", "", "2xf32 1 2; 3xf32 1 2 3", "3xf32", NULL, WAFER_BAD_INPUT, "do not broadcast");
  refuses("add", "", "2xf32 1 2; 2xf32 1 2", "2xf64", NULL, WAFER_BAD_INPUT,
          "the result is 2 f32, not 2 f64");
  refuses("add", "", "2xf32 1 2; 2xf32 1 2", "1x2xf32", NULL, WAFER_BAD_INPUT, "not 1x2 f32");
  refuses("abs", "", "2x2xf32 1 2 3 4", "2x2xf32", gaps_in_operand, WAFER_UNSUPPORTED,
          "operand 0 has gaps");
  refuses("abs", "", "2x2xf32 1 2 3 4", "2x2xf32", columns_first, WAFER_UNSUPPORTED,
          "result 0 has gaps");
  refuses("gather", "axis=0", "2xf32 1 2; 2xi64 0 2", "2xf32", NULL, WAFER_BAD_INPUT,
          "index 2 is out of range, dim 0 has 2 elements");
  refuses("gather", "axis=0", "2xf32 1 2; 2xi32 0 -3", "2xf32", NULL, WAFER_BAD_INPUT, "index -3");
  refuses("weight", "name=conv.w", "", "2xf32", NULL, WAFER_UNSUPPORTED, "weight 'conv.w'");
}

/* Rows longer than a block, and unaligned data. */
static void test_long_rows(void) {
  enum { ROWS = 3, N = 1500 };
  static char raw[ROWS * N * 4 + 1];
  static float row[N], out[ROWS * N], sums[ROWS];
  op_text_attrs attrs;
  for (int i = 0; i < ROWS * N; i++) memcpy(raw + 1 + i * 4, &(float){(float)(i % 1000)}, 4);
  for (int i = 0; i < N; i++) row[i] = (float)i;
  wafer_view in[] = {wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){2, {ROWS, N}}, raw + 1),
                     wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){1, {N}}, row)};
  wafer_view result = wafer_view_of(WAFER_DTYPE_f32, &in[0].shape, out);
  wafer_view sum = wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){1, {ROWS}}, sums);
  CU_ASSERT_EQUAL(wafer_reference_run(NULL, wafer_at_file("m"), WAFER_OP_add, NULL, 2, in, &result),
                  WAFER_OK);
  int wrong = 0;
  for (int i = 0; i < ROWS * N; i++) wrong += out[i] != (float)(i % 1000 + i % N);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(wafer_reference_run(NULL, wafer_at_file("m"), WAFER_OP_reduce_sum,
                                      op_text_parse(&attrs, "axes=1 keepdims=0"), 1, in, &sum),
                  WAFER_OK);
  for (int r = 0; r < ROWS; r++) {
    float want = 0;
    for (int i = 0; i < N; i++) want += (float)((r * N + i) % 1000);
    CU_ASSERT_EQUAL(sums[r], want);
  }
}

/* Rows long enough for the vector loop, of floats whose sums are exact. */
static void test_long_products(void) {
  enum { M = 3, K = 40, N = 70 };
  static float a[M * K], b[K * N], c[M * N];
  int wrong = 0;
  for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 31 - 15);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i * 5 % 29 - 14);
  wafer_view in[] = {wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){2, {M, K}}, a),
                     wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){2, {K, N}}, b)};
  wafer_view out = wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){2, {M, N}}, c);
  CU_ASSERT_EQUAL(wafer_reference_run(NULL, wafer_at_file("m"), WAFER_OP_matmul, NULL, 2, in, &out),
                  WAFER_OK);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += a[i * K + k] * b[k * N + j];
      wrong += c[i * N + j] != want;
    }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void test_out_of_memory(void) {
  static const char *const text = "group=1 strides=1 dilations=1 pads=0,0";
  static tensor in[3];
  wafer_view views[3];
  float out[2];
  op_text_attrs attrs;
  wafer_view result = wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){3, {1, 1, 2}}, out);
  uint32_t count = parse_all(in, views, "1x1x3xf32 1 2 3; 1x1x2xf32 1 1; 1xf32 1");
  size_t fail = 1;
  for (wafer_status status = WAFER_NO_MEMORY; status == WAFER_NO_MEMORY && fail < 20; fail++) {
    caught last;
    wafer_diag diag = caught_diag(&last);
    wafer_arena_fail_after(fail);
    status = wafer_reference_run(&diag, wafer_at_file("m"), WAFER_OP_conv,
                                 op_text_parse(&attrs, text), count, views, &result);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || (status == WAFER_NO_MEMORY && last.count == 1));
  }
  CU_ASSERT(fail > 3 && fail < 20);
  CU_ASSERT(out[0] == 4 && out[1] == 6);
}

/* Tensors of exactly their size, so that a sanitizer sees a step beyond. */
static bool run_exactly(wafer_op op, const wafer_attrs *attrs, uint32_t count,
                        const wafer_type *types, const wafer_type *type) {
  wafer_view views[WAFER_OP_MAX_OPERANDS], out;
  for (uint32_t i = 0; i < count; i++)
    views[i] = wafer_view_of(types[i].dtype, &types[i].shape,
                             calloc(1, wafer_tensor_bytes(types[i].dtype, &types[i].shape)));
  out = wafer_view_of(type->dtype, &type->shape,
                      calloc(1, wafer_tensor_bytes(type->dtype, &type->shape)));
  wafer_status status =
      wafer_reference_run(NULL, wafer_at_file("m"), op, attrs, count, views, &out);
  for (uint32_t i = 0; i < count; i++) free(views[i].data);
  free(out.data);
  return status == WAFER_OK;
}

static bool small(const wafer_type *types, uint32_t count) {
  int64_t elements;
  for (uint32_t i = 0; i < count; i++)
    if (!wafer_shape_elements(&types[i].shape, &elements) || elements > 4096) return false;
  return true;
}

/* Small operands of the kinds the op takes, mostly; how many. */
static uint32_t hostile_types(uint64_t *state, wafer_op op, uint32_t rank, wafer_type *types) {
  static const wafer_dtype dtypes[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f32,  WAFER_DTYPE_f16,
                                       WAFER_DTYPE_u64, WAFER_DTYPE_bool, WAFER_DTYPE_i8};
  const wafer_op_info *info = wafer_op_get(op);
  wafer_dtype dtype = dtypes[op_hostile_next(state) % WAFER_COUNT(dtypes)];
  bool alike = op_hostile_next(state) % 2;
  for (uint32_t i = 0; i < info->most; i++) {
    bool vector = i > 0 && (op == WAFER_OP_batch_norm || (i == 2 && op != WAFER_OP_select));
    types[i] = (wafer_type){dtype, {.rank = vector ? 1 : rank}};
    for (uint32_t d = 0; d < types[i].shape.rank; d++)
      types[i].shape.dims[d] = i > 0 && alike ? types[0].shape.dims[vector ? 1 : d]
                                              : (int64_t)(op_hostile_next(state) % 4);
  }
  if (op == WAFER_OP_gather || op == WAFER_OP_gather_batched || op == WAFER_OP_scatter)
    types[1].dtype = WAFER_DTYPE_i64;
  if (op == WAFER_OP_scatter) { /* a row per index, mostly */
    types[1].shape = (wafer_shape){.rank = 1, .dims = {types[1].shape.dims[0]}};
    types[2].shape = types[0].shape;
    types[2].shape.dims[0] = types[1].shape.dims[0];
  }
  if (op == WAFER_OP_select) types[0].dtype = WAFER_DTYPE_bool;
  return info->most - (info->least < info->most && op_hostile_next(state) % 2);
}

static uint32_t compute_hostile(uint64_t *state, wafer_op op) {
  static op_text_attrs attrs;
  wafer_type types[WAFER_OP_MAX_OPERANDS], result = {0};
  uint32_t rank = (uint32_t)(op_hostile_next(state) % 5),
           count = hostile_types(state, op, rank, types);
  op_hostile_attrs(state, op, rank, &attrs);
  if (wafer_op_infer(NULL, wafer_at_file("m"), op, &attrs.attrs, count, types, &result) != WAFER_OK)
    return 0;
  if (!small(types, count) || !small(&result, 1)) return 0;
  return run_exactly(op, &attrs.attrs, count, types, &result);
}

/* Whatever attributes infer accepts, the oracle computes: no crash, no step outside a tensor. */
static void test_hostile(void) {
  uint64_t state = 88172645463325252u;
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++) {
    const char *name = wafer_op_get((wafer_op)op)->name;
    uint32_t computed = 0;
    if (wafer_op_is((wafer_op)op, WAFER_TRAIT_SOURCE)) continue;
    for (uint32_t i = 0; i < 20000; i++) computed += compute_hostile(&state, (wafer_op)op);
    if (computed < 20) printf("\n  %s was computed %u times", name, computed);
    CU_ASSERT(computed >= 20);
  }
}

CU_TestInfo tests_reference[] = {
    {"cases", test_cases},
    {"every op has cases", test_every_op_has_cases},
    {"constants", test_constants},
    {"refusals", test_refusals},
    {"long rows", test_long_rows},
    {"long products", test_long_products},
    {"out of memory", test_out_of_memory},
    {"hostile", test_hostile},
    CU_TEST_INFO_NULL,
};
