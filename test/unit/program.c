/* Programs of kernels: random bodies and splits of every family on the emulated fabric, against the
 * reference; cycles counted against those of the cost model. */
#include <CUnit/CUnit.h>

#include "program_many.h"

/* ---- Bodies ---- */

/* Appends elementwise ops with constants and repeated operands to the last value. */
static bool put_tail(rng *r, body_text *b) {
  static const char *const ops[] = {"relu", "sigmoid", "abs", "clip", "exp", "tanh"};
  if (one_in(r, 2)) return true;
  char operand[8];
  snprintf(operand, sizeof operand, "%u", b->body.input_count + b->body.node_count - 1);
  return put(b, ops[below(r, WAFER_COUNT(ops))], operand, "min=-0.5 max=0.75");
}

static const char *family_of(const char *op) {
  return wafer_family_name(wafer_op_get(wafer_op_by_name(op))->family);
}

static bool map_body(rng *r, body_text *b) {
  static const char *const shapes[][2] = {
      {"5x7x9xf32", "5x7x9xf32"}, {"8x12x6xf32", "12x6xf32"}, {"4x30xf32", "4x1xf32"},
      {"3x8x10xf32", "8x1xf32"},  {"64xf32", "1xf32"},        {"2x3x16x16xf32", "3x1x1xf32"}};
  static const char *const ops[] = {"add", "sub", "mul", "div", "max", "min"};
  static const char *const more[] = {"relu", "neg", "sigmoid", "floor", "tanh", "sqrt", "erf"};
  char inputs[64];
  const char *const *pair = shapes[below(r, WAFER_COUNT(shapes))];
  snprintf(inputs, sizeof inputs, "%s %s", pair[0], pair[1]);
  body_text_begin(b, "map", inputs);
  if (!put(b, ops[below(r, WAFER_COUNT(ops))], one_in(r, 2) ? "0 1" : "1 0", "")) return false;
  if (one_in(r, 2) && !put(b, more[below(r, WAFER_COUNT(more))], "2", "")) return false;
  return true;
}

/* Integers bit by bit, and types that no instruction computes with. */
static bool types_body(rng *r, body_text *b) {
  static const struct {
    const char *inputs, *op, *operands, *attrs;
  } ops[] = {
      {"4x30xi32 4x1xi32", "and", "0 1", ""}, {"3x8x10xu8 8x1xu8", "xor", "0 1", ""},
      {"7x11xi64 11xi64", "or", "0 1", ""},   {"6x9xi16", "not", "0", ""},
      {"8x12xi32", "bitcast", "0", "to=f32"}, {"8x12xi32", "cast", "0", "to=i4"},
      {"5x9xu8", "cast", "0", "to=u2"},       {"6x7xf32", "cast", "0", "to=f8e4m3fn"},
      {"6x7xf8e5m2", "cast", "0", "to=f32"},
  };
  uint32_t i = below(r, WAFER_COUNT(ops));
  body_text_begin(b, "map", ops[i].inputs);
  return put(b, ops[i].op, ops[i].operands, ops[i].attrs);
}

static bool gemm_body(rng *r, body_text *b) {
  char inputs[128];
  uint32_t m = between(r, 1, 24), n = between(r, 1, 24), k = between(r, 1, 40);
  switch (below(r, 3)) {
  case 0: snprintf(inputs, sizeof inputs, "%ux%uxf32 w:%ux%uxf32 %uxf32", m, k, k, n, n); break;
  case 1: snprintf(inputs, sizeof inputs, "3x%ux%uxf32 3x%ux%uxf32 %uxf32", m, k, k, n, n); break;
  default:
    snprintf(inputs, sizeof inputs, "2x1x%ux%uxf32 3x%ux%uxf32 %uxf32", m, k, k, n, n);
    break;
  }
  body_text_begin(b, "gemm", inputs);
  if (!put(b, "matmul", "0 1", "")) return false;
  return one_in(r, 2) || put(b, "add", "3 2", "");
}

static bool conv_body(rng *r, body_text *b) {
  uint32_t group = 1, c = between(r, 1, 8), k = between(r, 1, 12);
  if (one_in(r, 3))
    group = c, k = c;
  else if (one_in(r, 4))
    group = 2, c = 2 * between(r, 1, 3), k = 2 * between(r, 1, 4);
  uint32_t taps = between(r, 1, 3), stride = between(r, 1, 2), dilation = between(r, 1, 2);
  uint32_t size = between(r, 6, 14), pad = below(r, taps + 1);
  char inputs[128], attrs[128];
  snprintf(inputs, sizeof inputs, "1x%ux%ux%uxf32 w:%ux%ux%ux%uxf32 w:%uxf32", c, size, size + 1, k,
           c / group, taps, taps, k);
  snprintf(attrs, sizeof attrs, "group=%u strides=%u,%u dilations=%u,1 pads=%u,%u,%u,%u", group,
           stride, stride, dilation, pad, pad, below(r, taps + 1), pad);
  body_text_begin(b, "conv", inputs);
  if (!put(b, "conv", one_in(r, 3) ? "0 1" : "0 1 2", attrs)) return false;
  return put_tail(r, b);
}

static bool conv_transpose_body(rng *r, body_text *b) {
  uint32_t group = one_in(r, 4) ? 2 : 1, c = group * between(r, 1, 4), k = between(r, 1, 4);
  uint32_t taps = between(r, 1, 3), stride = between(r, 1, 2), size = between(r, 4, 9);
  char inputs[128], attrs[160];
  snprintf(inputs, sizeof inputs, "1x%ux%ux%uxf32 w:%ux%ux%ux%uxf32 w:%uxf32", c, size, size, c, k,
           taps, taps, k * group);
  snprintf(attrs, sizeof attrs,
           "group=%u strides=%u,%u dilations=1,1 pads=%u,0,0,%u output_padding=0,0", group, stride,
           stride, below(r, taps), below(r, taps));
  body_text_begin(b, "conv_transpose", inputs);
  if (!put(b, "conv_transpose", one_in(r, 3) ? "0 1" : "0 1 2", attrs)) return false;
  return put_tail(r, b);
}

static bool pool_body(rng *r, body_text *b) {
  uint32_t taps = between(r, 1, 3), stride = between(r, 1, 3), pad = below(r, (taps + 1) / 2);
  char inputs[64], attrs[160];
  snprintf(inputs, sizeof inputs, "1x%ux%ux%uxf32", between(r, 1, 6), between(r, 5, 12),
           between(r, 5, 12));
  snprintf(attrs, sizeof attrs,
           "kernel=%u,%u strides=%u,%u dilations=1,1 pads=%u,%u,%u,%u ceil_mode=%u "
           "count_include_pad=%u",
           taps, taps, stride, stride, pad, pad, pad, pad, below(r, 2), below(r, 2));
  body_text_begin(b, "pool", inputs);
  if (!put(b, one_in(r, 2) ? "max_pool" : "average_pool", "0", attrs)) return false;
  return put_tail(r, b);
}

static bool reduce_body(rng *r, body_text *b) {
  static const char *const ops[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                                    "reduce_prod"};
  static const char *const axes[] = {"0", "1", "2", "1,2", "0,2", "0,1,2"};
  char inputs[64], attrs[64];
  snprintf(inputs, sizeof inputs, "%ux%ux%uxf32", between(r, 1, 6), between(r, 1, 10),
           between(r, 1, 14));
  body_text_begin(b, "reduce", inputs);
  if (one_in(r, 5)) {
    snprintf(attrs, sizeof attrs, "axis=%u keepdims=%u last=%u", below(r, 3), below(r, 2),
             below(r, 2));
    return put(b, one_in(r, 2) ? "arg_max" : "arg_min", "0", attrs);
  }
  snprintf(attrs, sizeof attrs, "axes=%s keepdims=%u", axes[below(r, WAFER_COUNT(axes))],
           below(r, 2));
  return put(b, ops[below(r, WAFER_COUNT(ops))], "0", attrs) && put_tail(r, b);
}

/* A reduction over places behind another anchor, whose own results leave, too, or do not. */
static bool behind_body(rng *r, body_text *b) {
  static const char *const ops[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"};
  switch (below(r, 4)) {
  case 0: body_text_begin(b, "map", "2x3x16x15xf32 3x1x1xf32"); break;
  case 1:
    if (!pool_body(r, b)) return false;
    break;
  case 2:
    if (!conv_transpose_body(r, b)) return false;
    break;
  default:
    if (!conv_body(r, b)) return false;
  }
  if (b->body.node_count == 0 && !put(b, "mul", "0 1", "")) return false;
  uint32_t last = b->body.input_count + b->body.node_count - 1;
  bool leaves = one_in(r, 2);
  char operand[8], attrs[32];
  snprintf(operand, sizeof operand, "%u", last);
  snprintf(attrs, sizeof attrs, "axes=2,3 keepdims=%u", below(r, 2));
  if (!put(b, ops[below(r, WAFER_COUNT(ops))], operand, attrs)) return false;
  if (leaves) b->outputs[0] = last, b->outputs[1] = last + 1, b->body.output_count = 2;
  return true;
}

static bool softmax_body(rng *r, body_text *b) {
  char inputs[64], attrs[32];
  snprintf(inputs, sizeof inputs, "%ux%ux%uxf32", between(r, 1, 4), between(r, 1, 10),
           between(r, 1, 20));
  snprintf(attrs, sizeof attrs, "axis=%u", between(r, 0, 2));
  body_text_begin(b, "softmax", inputs);
  return put(b, "softmax", "0", attrs) && put_tail(r, b);
}

static bool normalize_body(rng *r, body_text *b) {
  static const char *const axes[] = {"0", "1", "2", "1,2", "0,2", "0,1,2"};
  char inputs[64], attrs[64];
  snprintf(inputs, sizeof inputs, "%ux%ux%uxf32", between(r, 1, 4), between(r, 1, 10),
           between(r, 1, 20));
  snprintf(attrs, sizeof attrs, "axes=%s epsilon=%s center=%u", axes[below(r, WAFER_COUNT(axes))],
           one_in(r, 2) ? "0.5" : "1e-3", below(r, 4) ? 1 : 0);
  body_text_begin(b, "normalize", inputs);
  return put(b, "normalize", "0", attrs) && put_tail(r, b);
}

static bool move_body(rng *r, body_text *b) {
  static const struct {
    const char *inputs, *op, *operands, *attrs;
  } ops[] = {
      {"4x6x10xf32", "transpose", "0", "perm=2,0,1"},
      {"4x6x10xf32", "transpose", "0", "perm=1,0,2"},
      {"4x6x10xf32", "reshape", "0", "shape=24,10"},
      {"4x6x10xf32", "reshape", "0", "shape=4,60"},
      {"12x10xf32", "reshape", "0", "shape=3,4,10"},
      {"6x20xf32", "reshape", "0", "shape=8,15"},
      {"4x1x10xf32", "expand", "0", "shape=4,5,10"},
      {"12x20xf32", "slice", "0", "starts=1,3 steps=2,1 shape=5,11"},
      {"12x20xf32", "slice", "0", "starts=11,19 steps=-1,-2 shape=12,10"},
      {"5x8xf32 7x8xf32", "concat", "0 1", "axis=0"},
      {"4x9xf32 4x6xf32", "concat", "0 1", "axis=1"},
      {"4x9xf32 4x6xf32 4x2xf32", "concat", "0 1 2", "axis=1"},
      {"3x8xf32 7x8xf32 4x8xf32 2x8xf32", "concat", "0 1 2 3", "axis=0"},
      {"6x8xf32", "pad", "0", "pads=1,2,0,3 mode=constant fill=0.5"},
      {"6x8xf32", "pad", "0", "pads=1,2,0,3 mode=reflect fill=0"},
      {"1x3x5x6xf32", "resize", "0",
       "shape=1,3,10,12 scales=1,1,2,2 mode=nearest coordinates=asymmetric rounding=floor "
       "cubic_a=-0.75 exclude_outside=0"},
      {"1x3x5x6xf32", "resize", "0",
       "shape=1,3,10,12 scales=1,1,2,2 mode=linear coordinates=half_pixel rounding=floor "
       "cubic_a=-0.75 exclude_outside=0"},
      {"1x2x6x6xf32", "resize", "0",
       "shape=1,2,12,12 scales=1,1,2,2 mode=linear coordinates=align_corners rounding=floor "
       "cubic_a=-0.75 exclude_outside=0"},
  };
  uint32_t i = below(r, WAFER_COUNT(ops));
  body_text_begin(b, family_of(ops[i].op), ops[i].inputs);
  return put(b, ops[i].op, ops[i].operands, ops[i].attrs) && put_tail(r, b);
}

/* By indices that only the run knows: seeded ones lie between -20 and 20. */
static bool rows_body(rng *r, body_text *b) {
  static const struct {
    const char *inputs, *op, *operands, *attrs;
  } ops[] = {
      {"30x12xf32 7xi64", "gather", "0 1", "axis=0"},
      {"5x24x6xf32 4xi32", "gather", "0 1", "axis=1"},
      {"3x40xf32 2x5xi64", "gather", "0 1", "axis=1"},
      {"64x8xi32 i64", "gather", "0 1", "axis=0"},
      {"3x5x24x2x7xf32 3x4x2xi64", "gather", "0 1", "axis=2"},
      {"6x40xf32 6x5xi64", "gather_batched", "0 1", "axis=1"},
      {"3x4x24x6xf32 3x4x3x2xi32", "gather_batched", "0 1", "axis=2"},
      {"5x30x4xi32 5xi64", "gather_batched", "0 1", "axis=1"},
      {"24x10xf32 6xi64 6x10xf32", "scatter", "0 1 2", "mode=none"},
      {"30xf32 3x4xi64 3x4xf32", "scatter", "0 1 2", "mode=add"},
      {"21x4x5xf32 5xi32 5x4x5xf32", "scatter", "0 1 2", "mode=mul"},
      {"22x6xf32 9xi64 9x6xf32", "scatter", "0 1 2", "mode=max"},
      {"24x6xi32 9xi64 9x6xi32", "scatter", "0 1 2", "mode=min"},
  };
  uint32_t i = below(r, WAFER_COUNT(ops));
  body_text_begin(b, family_of(ops[i].op), ops[i].inputs);
  return put(b, ops[i].op, ops[i].operands, ops[i].attrs) &&
         (i == 3 || i == 7 || i == 12 || put_tail(r, b));
}

static const wafer_shape *last_shape(const body_text *b) {
  return &wafer_body_type(&b->body, b->body.input_count + b->body.node_count - 1)->shape;
}

/* Two neighbouring dims become one, or one becomes two. */
static bool put_reshape(rng *r, body_text *b, const char *x) {
  const wafer_shape *from = last_shape(b);
  wafer_shape to = {0};
  uint32_t at = below(r, from->rank), parts = between(r, 2, 4);
  bool divides = from->rank < 5 && from->dims[at] % parts == 0;
  if (!divides && at + 1 == from->rank) at = 0;
  for (uint32_t d = 0; d < from->rank; d++) {
    if (d == at && divides) to.dims[to.rank++] = parts;
    if (d == at + 1 && !divides)
      to.dims[to.rank - 1] *= from->dims[d];
    else
      to.dims[to.rank++] = d == at && divides ? from->dims[d] / parts : from->dims[d];
  }
  char attrs[64] = "shape=", *end = attrs + 6;
  for (uint32_t d = 0; d < to.rank; d++) end += sprintf(end, "%s%d", d ? "," : "", (int)to.dims[d]);
  return put(b, "reshape", x, attrs);
}

static bool put_transpose(rng *r, body_text *b, const char *x) {
  uint32_t rank = last_shape(b)->rank, perm[WAFER_MAX_RANK] = {0};
  char attrs[64] = "perm=", *end = attrs + 5;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t other = below(r, d + 1);
    perm[d] = perm[other];
    perm[other] = d;
  }
  for (uint32_t d = 0; d < rank; d++) end += sprintf(end, "%s%u", d ? "," : "", perm[d]);
  return put(b, "transpose", x, attrs);
}

static bool put_slice(rng *r, body_text *b, const char *x) {
  const wafer_shape *from = last_shape(b);
  char starts[64] = "", sizes[64] = "", steps[64] = "", attrs[224];
  uint32_t at = below(r, from->rank);
  for (uint32_t d = 0; d < from->rank; d++) {
    int start = d == at && from->dims[d] > 1, size = (int)from->dims[d] - start;
    sprintf(starts + strlen(starts), "%s%d", d ? "," : "", start);
    sprintf(sizes + strlen(sizes), "%s%d", d ? "," : "", size);
    sprintf(steps + strlen(steps), "%s1", d ? "," : "");
  }
  snprintf(attrs, sizeof attrs, "starts=%s shape=%s steps=%s", starts, sizes, steps);
  return put(b, "slice", x, attrs);
}

/* Moves one behind the other: of all, the last one is what cuts. */
static bool moves_body(rng *r, body_text *b) {
  char input[64], x[16];
  snprintf(input, sizeof input, "%ux%ux%uxf32", 2 * between(r, 1, 6), between(r, 2, 12),
           2 * between(r, 1, 8));
  body_text_begin(b, "move", input);
  for (uint32_t n = between(r, 2, 5); n > 0; n--) {
    uint32_t last = b->body.input_count + b->body.node_count - 1;
    snprintf(x, sizeof x, "%u", last);
    bool made;
    switch (below(r, 5)) {
    case 0: made = put_transpose(r, b, x); break;
    case 1: made = put_slice(r, b, x); break;
    case 2: {
      char attrs[16];
      snprintf(x, sizeof x, one_in(r, 2) ? "%u %u" : "%u %u %u", last, last, last);
      snprintf(attrs, sizeof attrs, "axis=%u", below(r, last_shape(b)->rank));
      made = put(b, "concat", x, attrs);
      break;
    }
    default: made = put_reshape(r, b, x); break;
    }
    if (!made) return false;
  }
  b->body.anchor = b->body.node_count - 1;
  return true;
}

/* An image as windows, or windows as an image, rolled or not: dims that are merged of what was
 * divided before. */
static bool windows_body(rng *r, body_text *b) {
  uint32_t a = between(r, 1, 3), h = between(r, 2, 4), c = between(r, 1, 4), w = between(r, 2, 4),
           d = between(r, 1, 5);
  bool back = one_in(r, 2), rolls = one_in(r, 2);
  char text[96];
  snprintf(text, sizeof text, "%ux%ux%uxf32", a * (back ? c : h), (back ? h : c) * w, d);
  body_text_begin(b, "move", text);
  const char *x = rolls ? "3" : "0";
  if (rolls) {
    const wafer_shape *s = &b->inputs[0].shape;
    int rows = (int)s->dims[0], cols = (int)s->dims[1];
    snprintf(text, sizeof text, "starts=0,1,0 shape=%d,%d,%u steps=1,1,1", rows, cols - 1, d);
    if (!put(b, "slice", "0", text)) return false;
    snprintf(text, sizeof text, "starts=0,0,0 shape=%d,1,%u steps=1,1,1", rows, d);
    if (!put(b, "slice", "0", text) || !put(b, "concat", "1 2", "axis=1")) return false;
  }
  snprintf(text, sizeof text, "shape=%u,%u,%u,%u,%u", a, back ? c : h, back ? h : c, w, d);
  if (!put(b, "reshape", x, text)) return false;
  if (!put(b, "transpose", rolls ? "4" : "1", "perm=0,2,1,3,4")) return false;
  snprintf(text, sizeof text, "shape=%u,%u,%u", back ? a * h : a * c, back ? c * w : h * w, d);
  b->body.anchor = rolls ? 5 : 2;
  return put(b, "reshape", rolls ? "5" : "2", text);
}

/* Of every width; integers and what relu left are often equal, and half of the roots and
 * logarithms, which f16 would round, are no numbers. */
static bool sort_body(rng *r, body_text *b) {
  static const char *const types[] = {"f32", "f32", "f16", "f64", "i64",
                                      "u64", "i32", "u32", "i16", "u8"};
  static const char *const before[] = {"sqrt", "relu", "log"};
  const char *type = types[below(r, WAFER_COUNT(types))], *x = "0";
  char inputs[64], attrs[48];
  snprintf(inputs, sizeof inputs, "%ux%ux%ux%s", between(r, 1, 5), between(r, 1, 40),
           between(r, 1, 9), type);
  snprintf(attrs, sizeof attrs, "axis=%u descending=%u", between(r, 0, 2), below(r, 2));
  body_text_begin(b, "sort", inputs);
  if (type[0] == 'f' && one_in(r, 2)) {
    if (!put(b, before[strcmp(type, "f16") ? below(r, WAFER_COUNT(before)) : 1], "0", ""))
      return false;
    x = "1";
    b->body.anchor = 1;
  }
  return put(b, "arg_sort", x, attrs);
}

/* ---- Tests ---- */

#define FAMILY_TEST(name)                                                                          \
  static void test_##name(void) {                                                                  \
    program_many(#name, name##_body, 100);                                                         \
  }
FAMILY_TEST(map)
FAMILY_TEST(types)
FAMILY_TEST(gemm)
FAMILY_TEST(conv)
FAMILY_TEST(conv_transpose)
FAMILY_TEST(pool)
FAMILY_TEST(reduce)
FAMILY_TEST(behind)
FAMILY_TEST(softmax)
FAMILY_TEST(normalize)
FAMILY_TEST(sort)
FAMILY_TEST(move)
FAMILY_TEST(rows)

/* Copies between exchanges are not all in the model's bytes. */
static void test_moves(void) {
  program_many("moves", moves_body, 125);
}

static void test_windows(void) {
  program_many("windows", windows_body, 125);
}

/* Elements of a reshape that go anywhere go along a line of cores, each of which has its share. */
static void test_scattered(void) {
  static const char *const splits[] = {"cols1:4 rows2:32", "cols1:2 rows2:16"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++) {
    body_text b;
    wafer_split split = split_text(splits[i]);
    body_text_begin(&b, "move", "1x16x32x32xf32");
    CU_ASSERT_TRUE_FATAL(put(&b, "reshape", "0", "shape=1,4,4096"));
    program_run run = program_run_body("small64", &b, &split, i);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT_TRUE(run.error <= F32_ERROR);
    if (off(run.modelled, run.counted) > 0.5)
      printf("\n  %s: counted %llu, modelled %llu", splits[i], (unsigned long long)run.counted,
             (unsigned long long)run.modelled);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.5);
  }
}

CU_TestInfo tests_program[] = {{"map", test_map},
                               {"types", test_types},
                               {"gemm", test_gemm},
                               {"conv", test_conv},
                               {"conv_transpose", test_conv_transpose},
                               {"pool", test_pool},
                               {"reduce", test_reduce},
                               {"reductions behind other anchors", test_behind},
                               {"softmax", test_softmax},
                               {"normalize", test_normalize},
                               {"sort", test_sort},
                               {"move", test_move},
                               {"moves in a row", test_moves},
                               {"images as windows, and back", test_windows},
                               {"elements that go anywhere", test_scattered},
                               {"rows", test_rows},
                               CU_TEST_INFO_NULL};
