#include "exec_bench.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bench bench_start(void) {
  return (bench){
      .arena = wafer_arena_create(), .body = {.storage = WAFER_DTYPE_f32}, .seed = 12345};
}

wafer_shape bench_shape(const char *text) { /* "1x3x8", "" */
  wafer_shape s = {0};
  while (*text) {
    s.dims[s.rank++] = strtoll(text, (char **)&text, 10);
    if (*text == 'x') text++;
  }
  return s;
}

uint32_t bench_next(bench *b) {
  b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(b->seed >> 33);
}

static int64_t elements(const wafer_shape *s) {
  int64_t n;
  CU_ASSERT_FATAL(wafer_shape_elements(s, &n));
  return n;
}

uint32_t bench_input(bench *b, wafer_dtype dtype, const char *shape, bool constant) {
  uint32_t v = b->body.input_count++;
  b->inputs[v] = (wafer_type){dtype, bench_shape(shape)};
  int64_t n = elements(&b->inputs[v].shape);
  b->data[v] = wafer_arena_alloc(b->arena, (size_t)n + 1, 8);
  b->constant[v] = constant;
  for (int64_t i = 0; i < n; i++) {
    uint32_t r = bench_next(b);
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

wafer_attrs bench_attrs(bench *b, wafer_op op, const wafer_attr *attrs, uint32_t count) {
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

uint32_t bench_node(bench *b, wafer_op op, const uint32_t *operands, uint32_t count,
                    const wafer_attr *attrs, uint32_t attr_count) {
  wafer_diag diag = to_stderr();
  wafer_node *n = &b->nodes[b->body.node_count];
  uint32_t v = b->body.input_count + b->body.node_count;
  *n = (wafer_node){.op = op,
                    .name = wafer_op_get(op)->name,
                    .operand_count = count,
                    .attrs = bench_attrs(b, op, attrs, attr_count)};
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

void bench_output(bench *b, uint32_t value) {
  b->outputs[b->body.output_count++] = value;
}

/* --- running */

exec_program *bench_program(bench *b, uint32_t slabs, uint32_t threads, exec_tensor **in,
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
  CU_ASSERT_FATAL(exec_kernel_build(p, &b->body, slabs, b->sums, wafer_at_file("test"), in, out) ==
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
  exec_program *p = bench_program(b, slabs, threads, in, out, channels_last);
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

void bench_check_within(bench *b, const char *name, double tolerance) {
  for (uint32_t slabs = 1; slabs <= 5; slabs += 2)
    for (int channels_last = 0; channels_last < 2; channels_last++) {
      void *bytes = NULL;
      for (uint32_t threads = 1; threads <= 2; threads++)
        run_once(b, name, slabs, threads, channels_last, tolerance, &bytes);
    }
  wafer_arena_destroy(b->arena);
}
void bench_check(bench *b, const char *name) {
  bench_check_within(b, name, 2e-5);
}
