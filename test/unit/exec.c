/* Kernels through the execution engine against the plain-loop oracle, node by node: every op,
 * several slab counts and threads, odd shapes; results of different thread counts to the byte. */
#include "runtime/exec.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 40 };

/* A kernel under construction, and its values by the oracle. */
typedef struct bench {
  wafer_arena *arena;
  wafer_kernel_body body;
  wafer_type inputs[MOST_VALUES];
  wafer_node nodes[MOST_VALUES];
  uint32_t outputs[MOST_VALUES];
  void *data[MOST_VALUES]; /* oracle's elements per value */
  bool constant[MOST_VALUES];
  uint64_t seed;
  uint32_t oracle_stages; /* expected: ops that have no fast stage */
  uint32_t most_stages;   /* expected, 0: any number; one more may put an input in order */
} bench;

static bench start(void) {
  return (bench){
      .arena = wafer_arena_create(), .body = {.storage = WAFER_DTYPE_f32}, .seed = 12345};
}

static wafer_shape shape_of(const char *text) { /* "1x3x8", "" */
  wafer_shape s = {0};
  while (*text) {
    s.dims[s.rank++] = strtoll(text, (char **)&text, 10);
    if (*text == 'x') text++;
  }
  return s;
}

static uint32_t next(bench *b) {
  b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(b->seed >> 33);
}

static int64_t elements(const wafer_shape *s) {
  int64_t n;
  CU_ASSERT_FATAL(wafer_shape_elements(s, &n));
  return n;
}

/* Inputs come before nodes. Elements are small, of both signs, distinct enough. */
static uint32_t input(bench *b, wafer_dtype dtype, const char *shape, bool constant) {
  uint32_t v = b->body.input_count++;
  b->inputs[v] = (wafer_type){dtype, shape_of(shape)};
  int64_t n = elements(&b->inputs[v].shape);
  b->data[v] = wafer_arena_alloc(b->arena, (size_t)n + 1, 8);
  b->constant[v] = constant;
  for (int64_t i = 0; i < n; i++) {
    uint32_t r = next(b);
    if (wafer_dtype_is_float(dtype))
      wafer_element_set_f64(dtype, b->data[v], i, (double)(r % 4001) / 1000.0 - 2.0);
    else
      wafer_element_set_i64(dtype, b->data[v], i,
                            dtype == WAFER_DTYPE_bool ? r % 2 : (int64_t)(r % 7) - 3);
  }
  return v;
}

static const wafer_type *type_of(const bench *b, uint32_t v) {
  return v < b->body.input_count ? &b->inputs[v] : &b->nodes[v - b->body.input_count].type;
}

static wafer_attr ints(wafer_attr_id id, uint32_t count, const int64_t *at) {
  return (wafer_attr){.id = id, .ints = {count, at}};
}
static wafer_attr whole(wafer_attr_id id, int64_t i) {
  return (wafer_attr){.id = id, .i = i};
}
static wafer_attr real(wafer_attr_id id, double f) {
  return (wafer_attr){.id = id, .f = f};
}
static wafer_attr word(wafer_attr_id id, const char *s) {
  return (wafer_attr){.id = id, .s = s};
}
#define INTS(id, ...)                                                                              \
  ints(WAFER_ATTR_##id, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

/* Attributes are copied into the order of the op's row. */
static wafer_attrs attrs_of(bench *b, wafer_op op, const wafer_attr *attrs, uint32_t count) {
  const wafer_op_info *info = wafer_op_get(op);
  wafer_attr *copy = WAFER_NEW(b->arena, wafer_attr, info->attr_count);
  for (uint32_t i = 0; i < info->attr_count; i++)
    for (uint32_t k = 0; k < count; k++) {
      if (attrs[k].id != info->attrs[i]) continue;
      copy[i] = attrs[k];
      if (wafer_attr_kind_of(attrs[k].id) == WAFER_ATTR_KIND_ints)
        copy[i].ints.at = wafer_arena_copy(b->arena, attrs[k].ints.at, attrs[k].ints.count * 8);
      if (wafer_attr_kind_of(attrs[k].id) == WAFER_ATTR_KIND_floats)
        copy[i].floats.at =
            wafer_arena_copy(b->arena, attrs[k].floats.at, attrs[k].floats.count * 8);
    }
  return (wafer_attrs){info->attr_count, copy};
}

static wafer_diag to_stderr(void) {
  return (wafer_diag){.emit = wafer_diag_to_file, .self = stderr};
}

static uint32_t node_of(bench *b, wafer_op op, const uint32_t *operands, uint32_t count,
                        const wafer_attr *attrs, uint32_t attr_count) {
  wafer_diag diag = to_stderr();
  wafer_node *n = &b->nodes[b->body.node_count];
  uint32_t v = b->body.input_count + b->body.node_count;
  *n = (wafer_node){.op = op,
                    .name = wafer_op_get(op)->name,
                    .operand_count = count,
                    .attrs = attrs_of(b, op, attrs, attr_count)};
  wafer_type types[WAFER_OP_MAX_OPERANDS];
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  for (uint32_t i = 0; i < count; i++) {
    n->operands[i] = operands[i];
    types[i] = *type_of(b, operands[i]);
    views[i] = wafer_view_of(types[i].dtype, &types[i].shape, b->data[operands[i]]);
  }
  wafer_loc loc = wafer_at_node(NULL, n->name, -1);
  CU_ASSERT_FATAL(wafer_op_infer(&diag, loc, op, &n->attrs, count, types, &n->type) == WAFER_OK);
  b->data[v] = wafer_arena_alloc(b->arena, (size_t)elements(&n->type.shape) + 1, 8);
  wafer_view result = wafer_view_of(n->type.dtype, &n->type.shape, b->data[v]);
  CU_ASSERT_FATAL(wafer_reference_run(&diag, loc, op, &n->attrs, count, views, &result) ==
                  WAFER_OK);
  b->body.node_count++;
  return v;
}
#define NODE(b, op, operands, ...)                                                                 \
  node_of(b, WAFER_OP_##op, (const uint32_t[]){LIST operands},                                     \
          sizeof((uint32_t[]){LIST operands}) / 4,                                                 \
          (const wafer_attr[]){{.id = WAFER_ATTR_COUNT}, __VA_ARGS__},                             \
          sizeof((wafer_attr[]){{.id = WAFER_ATTR_COUNT}, __VA_ARGS__}) / sizeof(wafer_attr))
#define LIST(...) __VA_ARGS__

static void output(bench *b, uint32_t value) {
  b->outputs[b->body.output_count++] = value;
}

/* --- running */

static exec_program *program_of(bench *b, uint32_t slabs, uint32_t threads, exec_tensor **in,
                                exec_tensor **out, bool channels_last) {
  static wafer_diag diag;
  diag = to_stderr();
  exec_program *p;
  CU_ASSERT_FATAL(exec_program_create(&diag, &p) == WAFER_OK);
  b->body.inputs = b->inputs, b->body.nodes = b->nodes, b->body.outputs = b->outputs;
  for (uint32_t i = 0; i < b->body.input_count; i++) {
    exec_order order =
        channels_last ? exec_channels_last(b->inputs[i].shape.rank) : exec_row_major();
    in[i] = b->constant[i]
                ? exec_tensor_constant(p, &b->inputs[i], b->data[i], false, b->body.storage)
                : exec_tensor_create(p, &b->inputs[i], &order);
  }
  CU_ASSERT_FATAL(exec_kernel_build(p, &b->body, slabs, wafer_at_file("test"), in, out) ==
                  WAFER_OK);
  for (uint32_t i = 0; i < b->body.input_count; i++)
    if (!b->constant[i])
      p->buffers[in[i]->buffer].first = 0, p->buffers[in[i]->buffer].last = p->stage_count;
  for (uint32_t i = 0; i < b->body.output_count; i++) {
    exec_buffer *buffer = &p->buffers[out[i]->buffer];
    if (buffer->first > p->stage_count) buffer->first = 0;
    buffer->last = p->stage_count;
  }
  CU_ASSERT_FATAL(exec_program_finish(p, threads, 1, 0, NULL) == WAFER_OK);
  return p;
}

/* Element i (row-major) of a tensor in any order, as a double. */
static double element(const exec_program *p, const exec_tensor *t, int64_t i) {
  int64_t at = 0;
  for (uint32_t d = t->shape.rank; d-- > 0; i /= t->shape.dims[d])
    at += i % t->shape.dims[d] * t->strides[d];
  const void *data = p->frame.address[t->buffer];
  return t->host == WAFER_DTYPE_i64 || t->host == WAFER_DTYPE_u64
             ? (double)wafer_element_i64(t->host, data, at)
             : wafer_element_f64(t->host, data, at);
}

static void fill_input(const exec_program *p, const exec_tensor *t, const void *data) {
  for (int64_t i = 0, n = elements(&t->shape); i < n; i++) {
    int64_t at = 0, rest = i;
    for (uint32_t d = t->shape.rank; d-- > 0; rest /= t->shape.dims[d])
      at += rest % t->shape.dims[d] * t->strides[d];
    char *to = p->frame.address[t->buffer];
    if (t->host != t->type)
      ((float *)(void *)to)[at] = (float)wafer_element_f64(t->type, data, i);
    else {
      size_t size = wafer_dtype_bytes(t->type);
      memcpy(to + (size_t)at * size, (const char *)data + (size_t)i * size, size);
    }
  }
}

static bool close_enough(double got, double want, double tolerance) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  return got == want || fabs(got - want) <= tolerance * (1.0 + fabs(want));
}

static void compare(const bench *b, const exec_program *p, exec_tensor *const *out,
                    const char *name, double tolerance) {
  for (uint32_t k = 0; k < b->body.output_count; k++) {
    const wafer_type *type = type_of(b, b->outputs[k]);
    int64_t wrong = 0, first = -1, n = elements(&type->shape);
    CU_ASSERT(wafer_shape_equal(&out[k]->shape, &type->shape) && out[k]->type == type->dtype);
    for (int64_t i = 0; i < n; i++) {
      double want = wafer_dtype_is_float(type->dtype)
                        ? wafer_element_f64(type->dtype, b->data[b->outputs[k]], i)
                        : (double)wafer_element_i64(type->dtype, b->data[b->outputs[k]], i);
      if (!close_enough(element(p, out[k], i), want, tolerance) && wrong++ == 0) {
        first = i;
        printf("\n  %s: output %u element %ld is %g, should be %g", name, k, (long)i,
               element(p, out[k], i), want);
      }
    }
    CU_ASSERT(wrong == 0 && first == -1);
  }
}

static void run_once(bench *b, const char *name, uint32_t slabs, uint32_t threads,
                     bool channels_last, double tolerance, void **bytes) {
  exec_tensor *in[MOST_VALUES], *out[MOST_VALUES];
  exec_program *p = program_of(b, slabs, threads, in, out, channels_last);
  if (p->oracle_stages != b->oracle_stages)
    printf("\n  %s: %u ops left to the oracle", name, p->oracle_stages);
  CU_ASSERT(p->oracle_stages == b->oracle_stages);
  CU_ASSERT(b->most_stages == 0 || p->stage_count <= b->most_stages + (channels_last ? 0 : 1));
  thread_pool *pool = thread_pool_create(threads);
  for (int again = 0; again < 2; again++) { /* buffers are reused: inputs come anew */
    for (uint32_t i = 0; i < b->body.input_count; i++)
      if (!b->constant[i]) fill_input(p, in[i], b->data[i]);
    CU_ASSERT_FATAL(exec_program_run(p, pool, 0, p->stage_count) == WAFER_OK);
  }
  compare(b, p, out, name, tolerance);
  const void *at = p->frame.address[out[0]->buffer];
  size_t size = p->buffers[out[0]->buffer].bytes;
  if (!*bytes)
    *bytes = wafer_arena_copy(b->arena, at, size);
  else
    CU_ASSERT(memcmp(*bytes, at, size) == 0);
  thread_pool_destroy(pool);
  exec_program_destroy(p);
}

static void check_within(bench *b, const char *name, double tolerance) {
  for (uint32_t slabs = 1; slabs <= 5; slabs += 2)
    for (int channels_last = 0; channels_last < 2; channels_last++) {
      void *bytes = NULL;
      for (uint32_t threads = 1; threads <= 2; threads++)
        run_once(b, name, slabs, threads, channels_last, tolerance, &bytes);
    }
  wafer_arena_destroy(b->arena);
}
static void check(bench *b, const char *name) {
  check_within(b, name, 2e-5);
}

/* --- tests */

static const struct {
  const char *name, *x, *w;
  int64_t group, strides[2], dilations[2], pads[4];
  bool bias;
} convs[] = {
    {"3x3", "1x5x9x11", "7x5x3x3", 1, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"1x1", "1x16x7x6", "24x16x1x1", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {"stride 2, one-sided pads", "1x4x10x10", "8x4x3x3", 1, {2, 2}, {1, 1}, {0, 0, 1, 1}, true},
    {"depthwise", "1x12x9x8", "12x1x3x3", 12, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"depthwise, stride 2", "1x16x11x9", "16x1x5x5", 16, {2, 2}, {1, 1}, {2, 2, 2, 2}, true},
    {"grouped", "1x8x6x6", "12x4x3x3", 2, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"dilated", "1x3x13x13", "4x3x3x3", 1, {1, 1}, {3, 3}, {3, 3, 3, 3}, true},
    {"batch", "5x3x6x5", "4x3x2x2", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
    {"single column", "1x6x12x1", "5x6x3x1", 1, {1, 1}, {1, 1}, {1, 0, 1, 0}, true},
    {"one pixel", "1x40x1x1", "24x40x1x1", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
    {"single row", "1x10x1x17", "6x10x1x3", 1, {1, 1}, {1, 1}, {0, 1, 0, 1}, false},
    {"wide pads", "1x3x4x4", "4x3x3x3", 1, {1, 1}, {1, 1}, {4, 4, 4, 4}, true},
};

static void convolves(void) {
  for (size_t i = 0; i < WAFER_COUNT(convs); i++) {
    bench b = start();
    uint32_t x = input(&b, WAFER_DTYPE_f32, convs[i].x, false),
             w = input(&b, WAFER_DTYPE_f32, convs[i].w, true);
    char k[16];
    snprintf(k, sizeof k, "%d", (int)shape_of(convs[i].w).dims[0]);
    uint32_t bias = input(&b, WAFER_DTYPE_f32, k, true), operands[] = {x, w, bias};
    wafer_attr attrs[] = {
        whole(WAFER_ATTR_group, convs[i].group), ints(WAFER_ATTR_strides, 2, convs[i].strides),
        ints(WAFER_ATTR_dilations, 2, convs[i].dilations), ints(WAFER_ATTR_pads, 4, convs[i].pads)};
    output(&b, node_of(&b, WAFER_OP_conv, operands, convs[i].bias ? 3 : 2, attrs, 4));
    check(&b, convs[i].name);
  }
}

/* As trained: weights come at run time. */
static void convolves_by_inputs(void) {
  for (size_t i = 0; i < WAFER_COUNT(convs); i++)
    for (int transposed = 0; transposed < 2; transposed++) {
      if (transposed && convs[i].pads[0] > 3) continue; /* nothing would remain */
      bench b = start();
      wafer_shape xs = shape_of(convs[i].x), ws = shape_of(convs[i].w);
      if (transposed) xs.dims[1] = ws.dims[0];
      char shape[32];
      snprintf(shape, sizeof shape, "%dx%dx%dx%d", (int)xs.dims[0], (int)xs.dims[1],
               (int)xs.dims[2], (int)xs.dims[3]);
      uint32_t operands[] = {input(&b, WAFER_DTYPE_f32, shape, false),
                             input(&b, WAFER_DTYPE_f32, convs[i].w, false)};
      wafer_attr attrs[] = {whole(WAFER_ATTR_group, convs[i].group),
                            ints(WAFER_ATTR_strides, 2, convs[i].strides),
                            ints(WAFER_ATTR_dilations, 2, convs[i].dilations),
                            ints(WAFER_ATTR_pads, 4, convs[i].pads), INTS(output_padding, 0, 0)};
      output(&b, node_of(&b, transposed ? WAFER_OP_conv_transpose : WAFER_OP_conv, operands, 2,
                         attrs, 5));
      check(&b, convs[i].name);
    }
}

/* The gradient of a convolution's weights: kernels as large as what the convolution made. */
static void convolves_large_kernels(void) {
  static const struct {
    const char *x, *w;
    int64_t group, strides[2], dilations[2], pads[4];
  } cases[] = {
      {"5x7x9x11", "6x7x9x11", 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},  /* 3x3 */
      {"4x8x10x10", "8x8x5x5", 1, {1, 1}, {2, 2}, {0, 0, 1, 1}},  /* 3x3, stride 2 */
      {"3x5x13x13", "4x5x9x9", 1, {3, 3}, {1, 1}, {1, 1, 1, 1}},  /* dilated */
      {"1x24x9x8", "12x2x9x8", 12, {1, 1}, {1, 1}, {1, 1, 1, 1}}, /* depthwise */
      {"4x6x6x6", "12x3x6x6", 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},   /* grouped */
      {"3x1x8x8", "4x1x4x4", 1, {1, 1}, {2, 2}, {0, 0, 0, 0}},    /* a rest that counts nowhere */
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    bench b = start();
    uint32_t operands[] = {input(&b, WAFER_DTYPE_f32, cases[i].x, false),
                           input(&b, WAFER_DTYPE_f32, cases[i].w, false)};
    wafer_attr attrs[] = {
        whole(WAFER_ATTR_group, cases[i].group), ints(WAFER_ATTR_strides, 2, cases[i].strides),
        ints(WAFER_ATTR_dilations, 2, cases[i].dilations), ints(WAFER_ATTR_pads, 4, cases[i].pads)};
    uint32_t y = node_of(&b, WAFER_OP_conv, operands, 2, attrs, 4);
    output(&b, NODE(&b, transpose, (y), INTS(perm, 1, 0, 2, 3)));
    output(&b, NODE(&b, relu, (y)));
    check(&b, cases[i].x);
  }
}

static uint32_t small_conv(bench *b, uint32_t x, uint32_t w, uint32_t bias) {
  return NODE(b, conv, (x, w, bias), whole(WAFER_ATTR_group, 1), INTS(strides, 1, 1),
              INTS(dilations, 1, 1), INTS(pads, 1, 1, 1, 1));
}

/* conv, clip, then a residual sum and a per-channel scale in the tail. */
static void runs_tails(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x8x7x9", false),
           w = input(&b, WAFER_DTYPE_f32, "8x8x3x3", true);
  uint32_t bias = input(&b, WAFER_DTYPE_f32, "8", true),
           scale = input(&b, WAFER_DTYPE_f32, "8x1x1", true);
  uint32_t y = small_conv(&b, x, w, bias);
  y = NODE(&b, clip, (y), real(WAFER_ATTR_min, 0.0), real(WAFER_ATTR_max, 6.0));
  uint32_t sum = NODE(&b, add, (y, x));
  uint32_t scaled = NODE(&b, mul, (scale, sum));
  output(&b, NODE(&b, sigmoid, (scaled)));
  b.most_stages = 1;
  check(&b, "conv with a tail");
}

/* The value before the tail is an output too; another output branches off. */
static void keeps_what_is_needed(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x8x7x9", false),
           w = input(&b, WAFER_DTYPE_f32, "8x8x3x3", true);
  uint32_t bias = input(&b, WAFER_DTYPE_f32, "8", true);
  uint32_t y = small_conv(&b, x, w, bias), r = NODE(&b, relu, (y)), s = NODE(&b, sub, (r, y));
  output(&b, y);
  output(&b, r);
  output(&b, NODE(&b, exp, (s)));
  output(&b, NODE(&b, less, (y, r)));
  check(&b, "several outputs");
}

static void transposes_convolutions(void) {
  static const int64_t cases[][5] = {/* stride, pad before, after, output padding, group */
                                     {2, 1, 1, 1, 1},
                                     {1, 0, 0, 0, 1},
                                     {2, 0, 0, 0, 2},
                                     {3, 1, 0, 0, 1}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    const int64_t *c = cases[i];
    bench b = start();
    uint32_t x = input(&b, WAFER_DTYPE_f32, "1x6x5x4", false),
             w = input(&b, WAFER_DTYPE_f32, "6x4x3x3", true);
    uint32_t bias = input(&b, WAFER_DTYPE_f32, c[4] == 1 ? "4" : "8", true);
    uint32_t y = NODE(&b, conv_transpose, (x, w, bias), whole(WAFER_ATTR_group, c[4]),
                      INTS(strides, c[0], c[0]), INTS(dilations, 1, 1),
                      INTS(pads, c[1], c[1], c[2], c[2]), INTS(output_padding, c[3], c[3]));
    output(&b, NODE(&b, relu, (y)));
    check(&b, "conv_transpose");
  }
}

static void multiplies_matrices(void) {
  static const struct {
    const char *a, *b;
    bool constant;
  } cases[] = {{"13x17", "17x9", true},    {"13x17", "17x9", false},      {"1x64", "64x40", true},
               {"1x1x24", "24x35", true},  {"2x3x5x7", "2x3x7x4", false}, {"4x5x7", "7x6", true},
               {"4x5x7", "7x6", false},    {"3x5x7", "1x7x6", true},      {"5x7", "2x7x3", false},
               {"1x40x12", "12x36", true}, {"2x1x5x7", "3x7x4", false},   {"5x1", "1x5", false},
               {"7x3", "3x1", true}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    bench b = start();
    uint32_t a = input(&b, WAFER_DTYPE_f32, cases[i].a, false);
    uint32_t m = input(&b, WAFER_DTYPE_f32, cases[i].b, cases[i].constant);
    uint32_t y = NODE(&b, matmul, (a, m));
    output(&b, NODE(&b, clip, (y), real(WAFER_ATTR_min, -1.0), real(WAFER_ATTR_max, 1.5)));
    check(&b, cases[i].a);
  }
}

/* Attention: transposed views as operands. */
static void multiplies_views(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x10x48", false);
  uint32_t h = NODE(&b, reshape, (x), INTS(shape, 1, 10, 3, 16));
  uint32_t q = NODE(&b, transpose, (h), INTS(perm, 0, 2, 1, 3)),
           k = NODE(&b, transpose, (h), INTS(perm, 0, 2, 3, 1));
  uint32_t s = NODE(&b, matmul, (q, k)), p = NODE(&b, softmax, (s), whole(WAFER_ATTR_axis, 3));
  uint32_t o = NODE(&b, matmul, (p, q)), t = NODE(&b, transpose, (o), INTS(perm, 0, 2, 1, 3));
  output(&b, NODE(&b, reshape, (t), INTS(shape, 1, 10, 48)));
  check(&b, "attention");
}

static void pools(void) {
  static const struct {
    const char *x;
    int64_t kernel[2], strides[2], dilations[2], pads[4], ceil, include;
  } cases[] = {{"1x8x9x10", {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 0, 0},
               {"1x1x12x13", {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 0, 0},
               {"1x3x9x9", {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 0, 1},
               {"1x3x8x8", {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, 0},
               {"2x5x8x7", {3, 2}, {1, 2}, {2, 1}, {1, 0, 1, 1}, 0, 0},
               {"1x6x1x9", {1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, 0, 1},
               {"1x4x6x6", {6, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 0, 0}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++)
    for (int mean = 0; mean < 2; mean++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_f32, cases[i].x, false);
      wafer_attr attrs[] = {ints(WAFER_ATTR_kernel, 2, cases[i].kernel),
                            ints(WAFER_ATTR_strides, 2, cases[i].strides),
                            ints(WAFER_ATTR_dilations, 2, cases[i].dilations),
                            ints(WAFER_ATTR_pads, 4, cases[i].pads),
                            whole(WAFER_ATTR_ceil_mode, cases[i].ceil),
                            whole(WAFER_ATTR_count_include_pad, cases[i].include)};
      output(&b, node_of(&b, mean ? WAFER_OP_average_pool : WAFER_OP_max_pool, &x, 1, attrs, 6));
      check(&b, cases[i].x);
    }
}

static void reduces(void) {
  static const wafer_op ops[] = {WAFER_OP_reduce_sum, WAFER_OP_reduce_mean, WAFER_OP_reduce_max,
                                 WAFER_OP_reduce_min, WAFER_OP_reduce_prod};
  static const int64_t axes[][4] = {{1, 3},    {1, 1},       {2, 2, 3}, {1, 0},
                                    {2, 0, 2}, {4, 0, 1, 2}, {2, 1, 3}};
  for (size_t o = 0; o < WAFER_COUNT(ops); o++)
    for (size_t i = 0; i < WAFER_COUNT(axes); i++)
      for (int keep = 0; keep < 2; keep++) {
        bench b = start();
        uint32_t x = input(&b, WAFER_DTYPE_f32, "2x3x5x7", false);
        wafer_attr attrs[] = {
            ints(WAFER_ATTR_axes, (uint32_t)(axes[i][0] == 4 ? 3 : axes[i][0]), axes[i] + 1),
            whole(WAFER_ATTR_keepdims, keep)};
        output(&b, node_of(&b, ops[o], &x, 1, attrs, 2));
        check_within(&b, wafer_op_get(ops[o])->name, 1e-4);
      }
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x33x90x100", false);
  output(&b, NODE(&b, reduce_mean, (x), INTS(axes, 2, 3), whole(WAFER_ATTR_keepdims, 1)));
  check(&b, "a long mean");
  b = start();
  x = input(&b, WAFER_DTYPE_i64, "4x5", false);
  output(&b, NODE(&b, arg_max, (x), whole(WAFER_ATTR_axis, 1), whole(WAFER_ATTR_keepdims, 0),
                  whole(WAFER_ATTR_last, 0)));
  b.oracle_stages = 1;
  check(&b, "arg_max");
}

/* Small numbers, some that need more than 16 bits, and sums beyond 32 bits, which wrap. */
static void multiplies_integers(void) {
  static const int64_t largest[] = {255, 40000, INT32_MAX};
  for (size_t m = 0; m < WAFER_COUNT(largest); m++)
    for (int known = 0; known < 2; known++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_i32, "2x5x37", false);
      uint32_t w = input(&b, WAFER_DTYPE_i32, "37x18", known);
      int32_t *data[] = {b.data[x], b.data[w]};
      for (int i = 0; i < 370; i++)
        data[0][i] = (int32_t)((int64_t)next(&b) * largest[i < 185 ? 0 : m] / INT32_MAX) - 100;
      for (int i = 0; i < 37 * 18; i++) data[1][i] = (int32_t)(next(&b) % 511) - 255;
      output(&b, NODE(&b, matmul, (x, w)));
      check(&b, "product of integers");
    }
}

/* Few distinct numbers, so that the first and the last of equals matter; a NaN beats all. */
static void finds_extremes(void) {
  for (int64_t axis = 0; axis < 3; axis++)
    for (int kind = 0; kind < 4; kind++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_f32, "3x4x37", false);
      float *data = b.data[x];
      for (int i = 0; i < 3 * 4 * 37; i++) data[i] = i == 40 ? NAN : (float)(next(&b) % 3) - 1.0f;
      wafer_attr attrs[] = {whole(WAFER_ATTR_axis, axis), whole(WAFER_ATTR_keepdims, kind & 1),
                            whole(WAFER_ATTR_last, kind & 1)};
      output(&b, node_of(&b, kind & 2 ? WAFER_OP_arg_min : WAFER_OP_arg_max, &x, 1, attrs, 3));
      check(&b, "arg");
    }
}

static void softmaxes(void) {
  for (int64_t axis = 0; axis < 4; axis++) {
    bench b = start();
    uint32_t x = input(&b, WAFER_DTYPE_f32, "2x3x5x37", false);
    output(&b, NODE(&b, softmax, (x), whole(WAFER_ATTR_axis, axis)));
    check(&b, "softmax");
  }
}

static void moves(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "2x6x5x4", false);
  output(&b, NODE(&b, transpose, (x), INTS(perm, 0, 2, 3, 1)));
  output(&b, NODE(&b, reshape, (x), INTS(shape, 2, 6, 20)));
  output(&b, NODE(&b, reshape, (x), INTS(shape, 12, 1, 5, 4)));
  output(&b, NODE(&b, reshape, (x), INTS(shape, 4, 60)));
  output(&b, NODE(&b, reshape, (x), INTS(shape, 2, 3, 2, 5, 4)));
  uint32_t t = NODE(&b, transpose, (x), INTS(perm, 3, 0, 1, 2));
  output(&b, NODE(&b, reshape, (t), INTS(shape, 4, 1, 2, 30)));
  output(&b, NODE(&b, reshape, (t), INTS(shape, 8, 30)));
  output(&b, NODE(&b, slice, (x), INTS(starts, 1, 5, 0, 3), INTS(steps, 1, -2, 1, -1),
                  INTS(shape, 1, 3, 5, 4)));
  output(&b, NODE(&b, concat, (x, x), whole(WAFER_ATTR_axis, 1)));
  output(&b, NODE(&b, concat, (x, x), whole(WAFER_ATTR_axis, 2)));
  output(&b, NODE(&b, pad, (x), INTS(pads, 0, 1, 2, 0, 1, 0, 1, 3),
                  word(WAFER_ATTR_mode, "constant"), real(WAFER_ATTR_fill, -1.5)));
  output(&b, NODE(&b, pad, (x), INTS(pads, 0, 0, -1, 0, 0, 0, 2, -2),
                  word(WAFER_ATTR_mode, "constant"), real(WAFER_ATTR_fill, 0)));
  output(&b, NODE(&b, pad, (x), INTS(pads, 0, 1, 2, 0, 0, 1, 2, 3),
                  word(WAFER_ATTR_mode, "reflect"), real(WAFER_ATTR_fill, 0)));
  uint32_t s = NODE(&b, slice, (x), INTS(starts, 0, 2, 0, 0), INTS(steps, 1, 1, 1, 1),
                    INTS(shape, 2, 1, 5, 4));
  output(&b, NODE(&b, expand, (s), INTS(shape, 2, 3, 5, 4)));
  b.oracle_stages = 1; /* the reflecting pad */
  check(&b, "moves");
}

static void resizes(void) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const coordinates[] = {"half_pixel",           "asymmetric",
                                            "align_corners",        "pytorch_half_pixel",
                                            "half_pixel_symmetric", "tf_half_pixel_for_nn"};
  static const double scales[] = {1, 1, 2.5, 0.8};
  for (size_t m = 0; m < WAFER_COUNT(modes); m++)
    for (size_t c = 0; c < WAFER_COUNT(coordinates); c++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_f32, "1x5x6x8", false);
      output(&b, NODE(&b, resize, (x), INTS(shape, 1, 5, 15, 6),
                      {.id = WAFER_ATTR_scales, .floats = {4, scales}},
                      word(WAFER_ATTR_mode, modes[m]), word(WAFER_ATTR_coordinates, coordinates[c]),
                      word(WAFER_ATTR_rounding, "round_prefer_floor"),
                      real(WAFER_ATTR_cubic_a, -0.75), whole(WAFER_ATTR_exclude_outside, 0)));
      b.oracle_stages = m == 2;
      check(&b, coordinates[c]);
    }
}

/* A dim of 1 has the same order wherever it stands, until it is resized. */
static void resizes_dims_of_one(void) {
  static const double scales[] = {1, 1, 3, 1};
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "5x4x1x3", false);
  uint32_t mean = NODE(&b, reduce_mean, (x), INTS(axes, 3), whole(WAFER_ATTR_keepdims, 1));
  output(&b,
         NODE(&b, resize, (mean), INTS(shape, 5, 4, 3, 1),
              {.id = WAFER_ATTR_scales, .floats = {4, scales}}, word(WAFER_ATTR_mode, "nearest"),
              word(WAFER_ATTR_coordinates, "half_pixel"), word(WAFER_ATTR_rounding, "floor"),
              real(WAFER_ATTR_cubic_a, -0.75), whole(WAFER_ATTR_exclude_outside, 0)));
  check(&b, "dims of 1");
}

/* Rows that are taken in several times, none, and from the end. */
static void scatters(void) {
  static const char *const modes[] = {"none", "add", "mul", "max", "min"};
  for (size_t m = 0; m < WAFER_COUNT(modes); m++) {
    bench b = start();
    uint32_t x = input(&b, WAFER_DTYPE_f32, "7x3x5", false);
    uint32_t i = input(&b, WAFER_DTYPE_i64, "4x6", false);
    uint32_t updates = input(&b, WAFER_DTYPE_f32, "4x6x3x5", false);
    output(&b, NODE(&b, scatter, (x, i, updates), word(WAFER_ATTR_mode, modes[m])));
    check(&b, modes[m]);
  }
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_i64, "5", false), i = input(&b, WAFER_DTYPE_i64, "9", false);
  uint32_t updates = input(&b, WAFER_DTYPE_i64, "9", false);
  output(&b, NODE(&b, scatter, (x, i, updates), word(WAFER_ATTR_mode, "none")));
  check(&b, "scatter of whole numbers");
}

static void gathers(void) {
  for (int64_t axis = 0; axis < 3; axis++) {
    bench b = start();
    uint32_t x = input(&b, WAFER_DTYPE_f32, "4x5x6", false),
             i = input(&b, WAFER_DTYPE_i64, "2x3", false);
    output(&b, NODE(&b, gather, (x, i), whole(WAFER_ATTR_axis, axis)));
    check(&b, "gather");
  }
}

/* Every elementwise op on every type that the oracle knows it for. */
static void maps(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f64, WAFER_DTYPE_i32,
                                      WAFER_DTYPE_i64, WAFER_DTYPE_u8,  WAFER_DTYPE_i8,
                                      WAFER_DTYPE_u32, WAFER_DTYPE_bool};
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++)
    for (size_t t = 0; t < WAFER_COUNT(types); t++) {
      const wafer_op_info *info = wafer_op_get((wafer_op)op);
      if (!(info->traits & WAFER_TRAIT_MAP) || op == WAFER_OP_cast) continue;
      bench b = start();
      uint32_t operands[3] = {0};
      for (uint32_t i = 0; i < info->most; i++)
        operands[i] = input(&b, op == WAFER_OP_select && i == 0 ? WAFER_DTYPE_bool : types[t],
                            i == 0   ? "2x7x3x5"
                            : i == 1 ? "7x1x1"
                                     : "",
                            false);
      wafer_attr attrs[] = {real(WAFER_ATTR_min, -1.0), real(WAFER_ATTR_max, 1.0),
                            whole(WAFER_ATTR_truncate, 0), whole(WAFER_ATTR_negative, 1),
                            whole(WAFER_ATTR_positive, 0)};
      wafer_type in[3], out;
      for (uint32_t i = 0; i < info->most; i++) in[i] = b.inputs[operands[i]];
      wafer_attrs ordered = attrs_of(&b, (wafer_op)op, attrs, 5);
      wafer_loc nowhere = wafer_at_file(NULL);
      bool valid =
          wafer_op_infer(NULL, nowhere, (wafer_op)op, &ordered, info->most, in, &out) == WAFER_OK;
      bool divides = op == WAFER_OP_div || op == WAFER_OP_mod || op == WAFER_OP_pow;
      if (valid && !(divides && !wafer_dtype_is_float(types[t])))
        output(&b, node_of(&b, (wafer_op)op, operands, info->most, attrs, 5)),
            check(&b, info->name);
      else
        wafer_arena_destroy(b.arena);
    }
}

static void divides_integers(void) {
  static const wafer_op ops[] = {WAFER_OP_div, WAFER_OP_mod, WAFER_OP_pow};
  for (size_t o = 0; o < WAFER_COUNT(ops); o++)
    for (int truncate = 0; truncate < 2; truncate++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_i32, "4x9", false),
               y = input(&b, WAFER_DTYPE_i32, "4x9", false);
      for (int i = 0; i < 36; i++)
        if (((int32_t *)b.data[y])[i] <= 0)
          ((int32_t *)b.data[y])[i] = ops[o] == WAFER_OP_pow ? 0 : -2;
      uint32_t operands[] = {x, y};
      wafer_attr attrs[] = {whole(WAFER_ATTR_truncate, truncate)};
      output(&b, node_of(&b, ops[o], operands, 2, attrs, 1));
      check(&b, wafer_op_get(ops[o])->name);
    }
}

static void casts(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f64, WAFER_DTYPE_i32,
                                      WAFER_DTYPE_i64, WAFER_DTYPE_i8,  WAFER_DTYPE_bool,
                                      WAFER_DTYPE_f16, WAFER_DTYPE_bf16};
  for (size_t i = 0; i < WAFER_COUNT(types); i++)
    for (size_t j = 0; j < WAFER_COUNT(types); j++) {
      bench b = start();
      uint32_t x = input(&b, types[i], "3x50", false);
      output(&b, NODE(&b, cast, (x), word(WAFER_ATTR_to, wafer_dtype_name(types[j]))));
      check_within(&b, wafer_dtype_name(types[j]), 0.0);
    }
}

/* A chain whose values change width: a register may not be written over what is read from it. */
static void widens_inside_a_chain(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "3x500", false),
           y = input(&b, WAFER_DTYPE_f32, "3x500", false);
  uint32_t same = NODE(&b, less, (x, y));
  uint32_t mask = NODE(&b, cast, (same), word(WAFER_ATTR_to, "f32"));
  output(&b, NODE(&b, mul, (x, mask)));
  check_within(&b, "less, cast, mul", 0.0);
}

/* Operands that broadcast in every way, longer than a block. */
static void broadcasts(void) {
  static const char *const shapes[] = {"3x40x17x11", "40x1x1", "1x40x1x1", "3x1x1x1",   "17x1",
                                       "11",         "",       "3x40x1x1", "1x1x17x11", "3x1x17x1"};
  for (size_t i = 0; i < WAFER_COUNT(shapes); i++)
    for (int left = 0; left < 2; left++) {
      bench b = start();
      uint32_t x = input(&b, WAFER_DTYPE_f32, shapes[0], false),
               y = input(&b, WAFER_DTYPE_f32, shapes[i], i % 2);
      uint32_t s = left ? NODE(&b, sub, (y, x)) : NODE(&b, sub, (x, y));
      output(&b, NODE(&b, mul, (s, y)));
      b.most_stages = 1;
      check(&b, shapes[i]);
    }
}

/* Element sizes change along the chain; the pool's result is overwritten by the last one. */
static void changes_types_on_the_way(void) {
  bench b = start();
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x1x20x70", false);
  uint32_t p = NODE(&b, max_pool, (x), INTS(kernel, 3, 3), INTS(strides, 1, 1),
                    INTS(dilations, 1, 1), INTS(pads, 1, 1, 1, 1), whole(WAFER_ATTR_ceil_mode, 0));
  uint32_t peak = NODE(&b, equal, (x, p)),
           mask = NODE(&b, cast, (peak), word(WAFER_ATTR_to, "f32"));
  uint32_t wide = NODE(&b, cast, (mask), word(WAFER_ATTR_to, "f64"));
  uint32_t back = NODE(&b, cast, (wide), word(WAFER_ATTR_to, "f32"));
  uint32_t none = NODE(&b, not, (peak)), y = NODE(&b, mul, (x, back));
  output(&b, NODE(&b, select, (none, p, y)));
  b.most_stages = 1;
  check(&b, "types on the way");
}

/* f16 storage: what a kernel stores is rounded, what passes inside is not. */
static void rounds_what_it_stores(void) {
  bench b = start();
  b.body.storage = WAFER_DTYPE_f16;
  uint32_t x = input(&b, WAFER_DTYPE_f32, "1x40", false),
           w = input(&b, WAFER_DTYPE_f32, "40", true);
  for (int i = 0; i < 40; i++) wafer_round_f16((float *)b.data[w] + i, 1);
  uint32_t y = NODE(&b, add, (x, w));
  uint32_t z = NODE(&b, mul, (y, y));
  wafer_round_f16(b.data[z], 40);
  output(&b, z);
  check_within(&b, "f16 storage", 0.0);
}

static void reports_a_bad_index(void) {
  bench b = start();
  exec_tensor *in[2], *out[1];
  uint32_t x = input(&b, WAFER_DTYPE_f32, "4x5", false), i = input(&b, WAFER_DTYPE_i64, "3", false);
  output(&b, NODE(&b, gather, (x, i), whole(WAFER_ATTR_axis, 0)));
  exec_program *p = program_of(&b, 1, 1, in, out, false);
  thread_pool *pool = thread_pool_create(1);
  p->diag = NULL;
  ((int64_t *)p->frame.address[in[i]->buffer])[0] = 4;
  CU_ASSERT(exec_program_run(p, pool, 0, p->stage_count) == WAFER_TRAP);
  thread_pool_destroy(pool);
  exec_program_destroy(p);
  wafer_arena_destroy(b.arena);
}

CU_TestInfo tests_exec[] = {
    {"convolves with weights that come at run time", convolves_by_inputs},
    {"convolves kernels larger than results", convolves_large_kernels},
    {"convolves", convolves},
    {"runs tails on convolutions", runs_tails},
    {"keeps values that are needed later", keeps_what_is_needed},
    {"transposes convolutions", transposes_convolutions},
    {"multiplies matrices", multiplies_matrices},
    {"multiplies transposed views", multiplies_views},
    {"pools", pools},
    {"reduces", reduces},
    {"softmaxes", softmaxes},
    {"moves elements", moves},
    {"resizes", resizes},
    {"resizes_dims_of_one", resizes_dims_of_one},
    {"gathers", gathers},
    {"scatters", scatters},
    {"finds extremes", finds_extremes},
    {"multiplies integers", multiplies_integers},
    {"runs every elementwise op", maps},
    {"divides integers", divides_integers},
    {"casts", casts},
    {"widens inside a chain", widens_inside_a_chain},
    {"broadcasts", broadcasts},
    {"changes types on the way", changes_types_on_the_way},
    {"rounds what it stores", rounds_what_it_stores},
    {"reports an index out of range", reports_a_bad_index},
    CU_TEST_INFO_NULL,
};
