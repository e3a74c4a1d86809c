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

static bool softmax_body(rng *r, body_text *b) {
  char inputs[64], attrs[32];
  snprintf(inputs, sizeof inputs, "%ux%ux%uxf32", between(r, 1, 4), between(r, 1, 10),
           between(r, 1, 20));
  snprintf(attrs, sizeof attrs, "axis=%u", between(r, 0, 2));
  body_text_begin(b, "softmax", inputs);
  return put(b, "softmax", "0", attrs) && put_tail(r, b);
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
      {"24x10xf32 6xi64 6x10xf32", "scatter", "0 1 2", "mode=none"},
      {"30xf32 3x4xi64 3x4xf32", "scatter", "0 1 2", "mode=add"},
      {"21x4x5xf32 5xi32 5x4x5xf32", "scatter", "0 1 2", "mode=mul"},
      {"22x6xf32 9xi64 9x6xf32", "scatter", "0 1 2", "mode=max"},
      {"24x6xi32 9xi64 9x6xi32", "scatter", "0 1 2", "mode=min"},
  };
  uint32_t i = below(r, WAFER_COUNT(ops));
  body_text_begin(b, family_of(ops[i].op), ops[i].inputs);
  return put(b, ops[i].op, ops[i].operands, ops[i].attrs) && (i == 3 || i == 9 || put_tail(r, b));
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
      snprintf(x, sizeof x, "%u %u", last, last);
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
FAMILY_TEST(softmax)
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

/* A kernel of one op, cut as `split` says, on small64. */
static program_run run_op(const char *family, const char *inputs, const char *op,
                          const char *operands, const char *attrs, const char *split,
                          uint64_t seed) {
  body_text b;
  wafer_split cut = split_text(split);
  body_text_begin(&b, family, inputs);
  CU_ASSERT_TRUE_FATAL(put(&b, op, operands, attrs));
  return program_run_body("small64", &b, &cut, seed);
}

/* Few words over many neighbours are summed in two phases, more of them in one chain; the cost
 * model and the program pick alike, and both sum right. */
static void test_phases(void) {
  static const struct {
    const char *inputs, *family, *op, *operands, *attrs, *split;
    uint32_t parts;
    uint64_t words;
    bool phases;
  } cases[] = {
      {"12x180xf32", "reduce", "reduce_sum", "0", "axes=1 keepdims=0", "cols1:60", 60, 12, true},
      {"40x61xf32", "reduce", "reduce_max", "0", "axes=1 keepdims=0", "rows1:61", 61, 40, true},
      {"400x180xf32", "reduce", "reduce_sum", "0", "axes=1 keepdims=0", "cols1:60", 60, 400, false},
      {"4x50xf32 w:50x6xf32", "gemm", "matmul", "0 1", "", "cols2:50", 50, 24, true},
      {"4x5xf32 w:5x6xf32", "gemm", "matmul", "0 1", "", "cols2:5", 5, 24, false},
      {"6x40xf32", "softmax", "softmax", "0", "axis=1", "cols1:40", 40, 6, true},
  };
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small64", &m), WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    CU_ASSERT_EQUAL(wafer_reduce_group(m, cases[i].parts, cases[i].words) < cases[i].parts,
                    cases[i].phases);
    program_run run = run_op(cases[i].family, cases[i].inputs, cases[i].op, cases[i].operands,
                             cases[i].attrs, cases[i].split, i);
    if (run.status != WAFER_OK) printf("\n  %s: %s", cases[i].op, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT_TRUE(run.error <= F32_ERROR);
    CU_ASSERT_TRUE(run.code_bytes <= run.code_modelled);
    if (off(run.predicted, run.counted) > 0.1 || off(run.modelled, run.counted) > 0.15)
      printf("\n  %s %s: counted %llu, predicted %llu, modelled %llu", cases[i].op, cases[i].inputs,
             (unsigned long long)run.counted, (unsigned long long)run.predicted,
             (unsigned long long)run.modelled);
    CU_ASSERT_TRUE(off(run.predicted, run.counted) <= 0.1);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.15);
  }
  wafer_arena_destroy(arena);
}

/* The index of an extreme is found where the axis is cut, too: once it was refused. A core holds
 * the indices of its part alone, so that a vocabulary of any size fits. */
static void test_args(void) {
  static const struct {
    const char *inputs, *op, *attrs, *split;
  } cases[] = {
      {"1x5003xf32", "arg_max", "axis=1 keepdims=0 last=0", "rows1:12 cols1:8"},
      {"3x61x7xi32", "arg_min", "axis=1 keepdims=1 last=1", "cols2:20"},
      {"61x5xf16", "arg_max", "axis=0 keepdims=0 last=1", "rows1:9 cols0:5"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    program_run run =
        run_op("reduce", cases[i].inputs, cases[i].op, "0", cases[i].attrs, cases[i].split, i);
    if (run.status != WAFER_OK || run.error > 0 || off(run.modelled, run.counted) > 0.1)
      printf("\n  %s: status %d, error %g, counted %llu, modelled %llu: %s", cases[i].inputs,
             run.status, run.error, (unsigned long long)run.counted,
             (unsigned long long)run.modelled, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error == 0);
    CU_ASSERT(run.memory <= run.memory_modelled);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.1);
  }
}

/* The cost model counts what programs do: a square reads one bank twice at every step; what is cut
 * along two dims that are summed is chained over each, without flows side by side, and sent to all
 * parts at once. Halos of both sides come through one ramp; pads are as long as the buffer; taps of
 * a pool are innermost, so that its result stays; filters that are fewer than four other loops turn
 * are not; windows at a border are scaled one by one. Where operands lie decides which reads
 * collide, in halves of a word too; a halo on one side has its corners there; cores at a border
 * that fill in zeros first keep nobody waiting when halos are few words. */
#define DILATED(by, group)                                                                         \
  "group=" group " strides=1,1 dilations=" by "," by " pads=" by "," by "," by "," by
#define STRIDED(group, by, pads) "group=" group " strides=" by " dilations=1,1 pads=" pads
#define POOL(size, pad)                                                                            \
  "kernel=" size "," size " strides=1,1 dilations=1,1 pads=" pad "," pad "," pad "," pad           \
  " ceil_mode=0"
static void test_modelled(void) {
  static const struct {
    const char *inputs, *family, *op, *operands, *attrs, *split;
  } cases[] = {
      {"33x13xf32", "map", "mul", "0 0", "", ""},
      {"33x13xf16", "map", "mul", "0 0", "", "rows0:3"},
      {"6x14x9xf32", "reduce", "reduce_sum", "0", "axes=1,2 keepdims=0", "rows1:7 rows2:3"},
      {"4x14x9xf32", "reduce", "reduce_max", "0", "axes=1,2 keepdims=1", "rows1:7 cols2:3"},
      {"1x4x24x24xf32 w:16x4x3x3xf32", "conv", "conv", "0 1", DILATED("6", "1"), "cols1:4 rows2:6"},
      {"1x16x20x20xf32 w:16x1x3x3xf32", "conv", "conv", "0 1", DILATED("2", "16"),
       "cols1:4 rows2:10"},
      {"1x8x16x16xf32 w:2x8x3x3xf32", "conv", "conv", "0 1", DILATED("1", "1"), "rows2:4 cols3:4"},
      {"1x1x10x10xf32", "pool", "max_pool", "0", POOL("5", "2"), ""},
      {"1x3x16x16xf32", "pool", "max_pool", "0", POOL("3", "1"), "rows2:4"},
      {"1x1x10x10xf32", "pool", "average_pool", "0", POOL("5", "2") " count_include_pad=0", ""},
      {"1x48x8x8xf32 w:48x1x5x5xf32", "conv", "conv", "0 1", STRIDED("48", "2,2", "2,2,2,2"),
       "rows1:16 cols1:3"},
      {"1x1x49x10xf32 w:32x1x10x4xf32", "conv", "conv", "0 1", STRIDED("1", "2,2", "4,1,4,1"),
       "cols1:4"},
      {"1x16x9x7xf16 w:24x16x3x3xf16", "conv", "conv", "0 1", DILATED("1", "1"), "rows1:2 cols2:3"},
      {"1x28x32x32xf32 w:28x1x3x3xf32", "conv", "conv", "0 1", STRIDED("28", "2,2", "0,0,1,1"),
       "rows2:4 rows3:8 cols1:7"},
      {"1x20x7x7xf32 w:20x1x3x3xf32", "conv", "conv", "0 1", DILATED("1", "20"),
       "rows1:20 cols2:7 cols3:7"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    program_run run = run_op(cases[i].family, cases[i].inputs, cases[i].op, cases[i].operands,
                             cases[i].attrs, cases[i].split, i);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    if (off(run.modelled, run.counted) > 0.05)
      printf("\n  %s %s %s: counted %llu, modelled %llu %s", cases[i].op, cases[i].inputs,
             cases[i].split, (unsigned long long)run.counted, (unsigned long long)run.modelled,
             run.message);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.05);
  }
}

/* What follows a reduction to one number is computed where that number is, and sent to all cores at
 * the end: once every step sent its operand to all of them. */
static void test_scalars(void) {
  body_text b;
  wafer_split split = split_text("cols0:8");
  body_text_begin(&b, "reduce", "16x4x8xf32 f32");
  CU_ASSERT_TRUE_FATAL(put(&b, "reduce_max", "0", "axes=0,1,2 keepdims=0"));
  CU_ASSERT_TRUE_FATAL(put(&b, "sub", "2 1", "") && put(&b, "abs", "3", "") &&
                       put(&b, "mul", "4 1", "") && put(&b, "exp", "5", ""));
  program_run run = program_run_body("small64", &b, &split, 1);
  CU_ASSERT_EQUAL(run.status, WAFER_OK);
  CU_ASSERT(run.error <= F32_ERROR);
  bool close = off(run.modelled, run.counted) <= 0.1;
  if (!close)
    printf("\n  counted %llu, modelled %llu\n", (unsigned long long)run.counted,
           (unsigned long long)run.modelled);
  CU_ASSERT(close);
}

/* Products of f16 tensors are summed in f32: an element is at most a step of f16 off, where sums of
 * f16 are several. */
static void test_f16_sums(void) {
  static const char *const splits[] = {"", "cols2:4", "rows0:2 rows2:3"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++) {
    body_text b;
    wafer_split split = split_text(splits[i]);
    body_text_begin(&b, "gemm", "4x400xf16 400x6xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "matmul", "0 1", ""));
    program_run run = program_run_body("small64", &b, &split, i);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error <= 0x1p-10);
  }
}

/* The same of rows that are added to one: small ones beside a large one would vanish one by one. */
static void test_f16_rows(void) {
  static const char *const modes[] = {"mode=add", "mode=mul"};
  for (size_t i = 0; i < WAFER_COUNT(modes); i++) {
    body_text b;
    wafer_split split = split_text(i ? "rows0:2" : "cols1:3");
    body_text_begin(&b, "scatter", "21x3xf16 1500xi64 1500x3xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "scatter", "0 1 2", modes[i]));
    program_run run = program_run_body("small64", &b, &split, i);
    if (run.status != WAFER_OK || run.error > 0x1p-10)
      printf("\n  %s: status %d, error %g: %s", modes[i], run.status, run.error, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error <= 0x1p-10);
    CU_ASSERT(run.memory <= run.memory_modelled);
  }
}

/* What only moves f16 elements moves them as they are stored: as f32 in between they would take
 * twice the words and two conversions, which the cost model does not count. */
static void test_f16_moves(void) {
  static const char *const splits[] = {"", "rows0:4", "rows0:2 cols1:3"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++) {
    body_text b;
    wafer_split split = split_text(splits[i]);
    body_text_begin(&b, "move", "12x9x10xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "slice", "0", "starts=0,0,0 shape=12,9,8 steps=1,1,1") &&
                         put(&b, "reshape", "1", "shape=12,9,2,4") &&
                         put(&b, "transpose", "2", "perm=0,2,1,3"));
    b.body.anchor = 2;
    for (uint32_t v = 0; v < 4; v++) CU_ASSERT_EQUAL(wafer_body_dtype(&b.body, v), WAFER_DTYPE_f16);
    program_run run = program_run_body("small64", &b, &split, i);
    if (run.status != WAFER_OK || run.error > 0 || off(run.modelled, run.counted) > 0.15)
      printf("\n  %s: status %d, error %g, counted %llu, modelled %llu: %s", splits[i], run.status,
             run.error, (unsigned long long)run.counted, (unsigned long long)run.modelled,
             run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error == 0);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.15);
  }
}

/* What a kernel has computed, in f32, beside what is stored in f16, as rotary embeddings have it:
 * once it was refused. */
static void test_f16_concat(void) {
  static const char *const splits[] = {"", "rows0:3", "rows0:2 cols1:4"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++)
    for (uint32_t more = 0; more < 2; more++) {
      body_text b;
      wafer_split split = split_text(splits[i]);
      body_text_begin(&b, "move", "6x5xf16 6x3xf16");
      CU_ASSERT_TRUE_FATAL(put(&b, "neg", "0", "") && put(&b, "concat", "2 1", "axis=1"));
      CU_ASSERT_TRUE_FATAL(!more || put(&b, "concat", "3 2", "axis=1"));
      b.body.anchor = 1 + more;
      program_run run = program_run_body("small64", &b, &split, i);
      if (run.status != WAFER_OK || run.error > 0)
        printf("\n  %s: status %d, error %g: %s", splits[i], run.status, run.error, run.message);
      CU_ASSERT_EQUAL(run.status, WAFER_OK);
      CU_ASSERT(run.error == 0);
    }
}

CU_TestInfo tests_program[] = {{"map", test_map},
                               {"types", test_types},
                               {"gemm", test_gemm},
                               {"conv", test_conv},
                               {"conv_transpose", test_conv_transpose},
                               {"pool", test_pool},
                               {"scalars", test_scalars},
                               {"reduce", test_reduce},
                               {"softmax", test_softmax},
                               {"two phases of a reduction", test_phases},
                               {"indices of extremes", test_args},
                               {"what the cost model counts", test_modelled},
                               {"sort", test_sort},
                               {"move", test_move},
                               {"moves in a row", test_moves},
                               {"images as windows, and back", test_windows},
                               {"elements that go anywhere", test_scattered},
                               {"rows", test_rows},
                               {"sums of f16", test_f16_sums},
                               {"rows of f16", test_f16_rows},
                               {"moves of f16", test_f16_moves},
                               {"concatenations of f16", test_f16_concat},
                               CU_TEST_INFO_NULL};
