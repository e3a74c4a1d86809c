/* A convolution whose kernel is larger than its result: the gradient of a convolution's weights,
 * which libraries know as an operation of its own. With
 *   x (c, group * N, in...), w (K, N, out...), y (c, K, kernel...)
 * it is what a convolution of (N, group * c, in...) to (N, K, out...) gives its weights (K, c,
 * kernel...), strides and dilations exchanged. Slabs are ranges of N, each with a sum of its own;
 * these are then added in their order. */
#include <string.h>

#include "exec_dnnl.h"

enum { MOST_SPATIAL = 3 };

typedef struct gradient {
  exec_program *program;
  uint32_t spatial, slabs;
  int64_t group, batch, in_channels, out_channels; /* channels of a group */
  const exec_tensor *x, *g;                        /* channels last, batch first */
  exec_tensor *y, *parts;                          /* the result; a row of `parts` per slab */
  const wafer_shape *in, *out;
  dnnl_dims_t strides, dilations, before, after; /* of the forward convolution */
  dnnl_memory_desc_t weights;                    /* of a row of `parts` */
} gradient;

static bool take_attrs(gradient *c, const wafer_attrs *a) {
  uint32_t n[3];
  const int64_t *strides = wafer_attr_ints(a, WAFER_ATTR_strides, &n[0]);
  const int64_t *dilations = wafer_attr_ints(a, WAFER_ATTR_dilations, &n[1]);
  const int64_t *pads = wafer_attr_ints(a, WAFER_ATTR_pads, &n[2]);
  c->group = wafer_attr_int(a, WAFER_ATTR_group);
  if (n[0] != c->spatial || n[1] != c->spatial || n[2] != 2 * c->spatial || c->group < 1)
    return false;
  for (uint32_t i = 0; i < c->spatial; i++) {
    c->strides[i] = dilations[i];
    c->dilations[i] = strides[i] - 1;
    c->before[i] = pads[i];
    /* As far as the last window reaches: the rest of the input counts nowhere. */
    c->after[i] = (c->out->dims[2 + i] - 1) * c->strides[i] +
                  (c->y->shape.dims[2 + i] - 1) * strides[i] + 1 - c->in->dims[2 + i] - pads[i];
  }
  return true;
}

/* (group,) output, input, spatial, and where they lie in y. */
static int weight_dims(const gradient *c, dnnl_dims_t dims, dnnl_dims_t stride) {
  const int64_t *at = c->y->strides;
  int n = 0;
  if (c->group > 1) stride[n] = c->out_channels * at[1], dims[n++] = c->group;
  stride[n] = at[1], dims[n++] = c->out_channels;
  stride[n] = at[0], dims[n++] = c->in_channels;
  for (uint32_t i = 2; i < c->spatial + 2; i++) stride[n] = at[i], dims[n++] = c->y->shape.dims[i];
  return n;
}

/* For `batch` of the samples; NULL: oneDNN does not do it. */
static dnnl_primitive_desc_t descriptor_of(const gradient *c, int64_t batch, bool first,
                                           dnnl_primitive_attr_t attr) {
  static const dnnl_format_tag_t last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
  int rank = (int)c->spatial + 2;
  dnnl_dims_t x = {batch, c->group * c->in_channels}, g = {batch, c->group * c->out_channels};
  dnnl_dims_t w, stride;
  dnnl_memory_desc_t source, weights = c->weights, target;
  dnnl_convolution_desc_t desc;
  dnnl_primitive_desc_t pd = NULL;
  int n = weight_dims(c, w, stride);
  memcpy(x + 2, c->in->dims + 2, c->spatial * sizeof *x);
  memcpy(g + 2, c->out->dims + 2, c->spatial * sizeof *g);
  dnnl_format_tag_t tag = last[c->spatial - 1];
  bool good = dnnl_memory_desc_init_by_tag(&source, rank, x, dnnl_f32, tag) == dnnl_success &&
              dnnl_memory_desc_init_by_tag(&target, rank, g, dnnl_f32, tag) == dnnl_success;
  if (good && first)
    good =
        dnnl_memory_desc_init_by_tag(&weights, n, w, dnnl_f32, dnnl_format_tag_any) == dnnl_success;
  if (good && dnnl_dilated_convolution_backward_weights_desc_init(
                  &desc, dnnl_convolution_direct, &source, &weights, NULL, &target, c->strides,
                  c->dilations, c->before, c->after) == dnnl_success)
    (void)dnnl_primitive_desc_create(&pd, &desc, attr, c->program->engine, NULL);
  return pd;
}

static wafer_status init_call(gradient *c, dnnl_primitive_desc_t pd, library_slab *slab,
                              int64_t from, uint32_t row) {
  static const library_arg args[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                     {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                                     {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0}};
  const int64_t size = (int64_t)sizeof(float);
  int64_t x = c->group * c->in_channels, g = c->group * c->out_channels;
  for (uint32_t i = 2; i < c->spatial + 2; i++) x *= c->in->dims[i], g *= c->out->dims[i];
  if (row == 0) {
    c->weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    c->parts = library_buffer(c->program, &c->weights, c->slabs);
    if (!c->parts) return exec_no_memory(c->program);
  }
  WAFER_TRY(library_call_init(c->program, &slab->call, pd, args, 3));
  if (dnnl_primitive_create(&slab->call.primitive, pd) != dnnl_success)
    return library_failed(c->program, "a convolution's gradient");
  slab->call.owns_primitive = true;
  slab->handles[0] = (library_handle){.tensor = c->x, .offset = from * x * size};
  slab->handles[1] = (library_handle){.tensor = c->g, .offset = from * g * size};
  slab->handles[2] =
      (library_handle){.tensor = c->parts, .offset = row * c->parts->strides[0] * size};
  return WAFER_OK;
}

static wafer_status init_slabs(gradient *c, library_stage *stage, bool *known) {
  dnnl_primitive_attr_t attr = NULL;
  WAFER_TRY(library_attributes(c->program, NULL, &attr));
  wafer_status status = WAFER_OK;
  *known = true;
  for (uint32_t i = 0; i < c->slabs && *known && status == WAFER_OK; i++) {
    int64_t from = c->batch * i / c->slabs, to = c->batch * (i + 1) / c->slabs;
    dnnl_primitive_desc_t pd = descriptor_of(c, to - from, i == 0, attr);
    *known = pd != NULL;
    if (pd) status = init_call(c, pd, &stage->slabs[i], from, i);
    if (pd) dnnl_primitive_desc_destroy(pd);
  }
  dnnl_primitive_attr_destroy(attr);
  return status;
}

/* The rows of `parts` added up. */
static wafer_status add_parts(gradient *c, exec_tensor **sum) {
  *sum = c->parts;
  if (c->slabs == 1) return WAFER_OK;
  const int64_t axes[] = {0};
  const wafer_attr attrs[] = {{.id = WAFER_ATTR_axes, .ints = {1, axes}},
                              {.id = WAFER_ATTR_keepdims, .i = 0}};
  wafer_node node = {.op = WAFER_OP_reduce_sum,
                     .operand_count = 1,
                     .attrs = {WAFER_COUNT(attrs), attrs},
                     .type = {WAFER_DTYPE_f32, {1, {c->parts->shape.dims[1]}}}};
  exec_op op = {.node = &node, .operands = {c->parts}};
  WAFER_TRY(exec_build_reduce(c->program, &op));
  *sum = op.result;
  return WAFER_OK;
}

static wafer_status lay_out_result(gradient *c, exec_op *op) {
  dnnl_dims_t dims, stride;
  dnnl_memory_desc_t plain;
  exec_tensor *sum;
  int n = weight_dims(c, dims, stride);
  if (dnnl_memory_desc_init_by_strides(&plain, n, dims, dnnl_f32, stride) != dnnl_success)
    return library_failed(c->program, "a convolution's gradient");
  WAFER_TRY(add_parts(c, &sum));
  exec_op out = {.result = c->y};
  WAFER_TRY(
      library_pack_stage(c->program, &(library_handle){.tensor = sum}, &c->weights, &out, &plain));
  op->result = c->y;
  op->stage = out.stage;
  return WAFER_OK;
}

/* (c, group * N, in...) as N, in..., group, c; the group's channels lie side by side. */
static wafer_status order_input(const gradient *c, exec_tensor *t, exec_tensor **out) {
  exec_order last = {.dim = {1}}, split = exec_row_major();
  for (uint8_t i = 0; i < c->spatial; i++) last.dim[1 + i] = (uint8_t)(2 + i);
  last.dim[1 + c->spatial] = 0;
  if (c->group == 1) return exec_reordered(c->program, t, &last, out);
  WAFER_TRY(exec_reordered(c->program, t, &split, &t));
  wafer_type type = {t->type,
                     {.rank = 3 + c->spatial, .dims = {c->in_channels, c->group, c->batch}}};
  memcpy(type.shape.dims + 3, t->shape.dims + 2, c->spatial * sizeof *type.shape.dims);
  t = exec_tensor_view(c->program, t, &type, &split);
  if (!t) return exec_no_memory(c->program);
  last.dim[0] = 2;
  for (uint8_t i = 0; i < c->spatial; i++) last.dim[1 + i] = (uint8_t)(3 + i);
  last.dim[1 + c->spatial] = 1;
  last.dim[2 + c->spatial] = 0;
  return exec_reordered(c->program, t, &last, out);
}

static wafer_status order_operands(gradient *c, exec_op *op) {
  exec_order last = {.dim = {1}};
  exec_tensor *x, *g;
  for (uint8_t i = 0; i < c->spatial; i++) last.dim[1 + i] = (uint8_t)(2 + i);
  last.dim[1 + c->spatial] = 0;
  WAFER_TRY(order_input(c, op->operands[0], &x));
  WAFER_TRY(exec_reordered(c->program, op->operands[1], &last, &g));
  c->x = x, c->g = g;
  return WAFER_OK;
}

static bool looks_so(const exec_program *p, const exec_op *op) {
  const wafer_shape *w = &op->operands[1]->shape, *y = &op->node->type.shape;
  int64_t kernel = 1, result = 1;
  for (uint32_t i = 2; i < y->rank; i++) kernel *= w->dims[i], result *= y->dims[i];
  return op->node->operand_count == 2 && kernel > result && !exec_tensor_known(p, op->operands[1]);
}

wafer_status exec_build_conv_weights(exec_program *p, exec_op *op) {
  const wafer_shape *x = &op->operands[0]->shape, *w = &op->operands[1]->shape;
  gradient c = {.program = p, .spatial = x->rank - 2, .in = x, .out = w};
  if (!looks_so(p, op)) return WAFER_OK;
  exec_order order = exec_row_major(); /* y's first two dims change places: weights are row-major */
  order.dim[0] = 1, order.dim[1] = 0;
  c.y = exec_tensor_create(p, &op->node->type, &order);
  if (!c.y) return exec_no_memory(p);
  if (!take_attrs(&c, &op->node->attrs)) return WAFER_OK;
  c.batch = w->dims[1];
  c.in_channels = x->dims[0];
  c.out_channels = w->dims[0] / c.group;
  c.slabs = c.batch < p->slabs ? (uint32_t)c.batch : p->slabs;
  WAFER_TRY(library_engine(p));
  WAFER_TRY(order_operands(&c, op));
  library_stage *stage =
      library_stage_create(p, c.slabs, "oneDNN failed in a convolution's gradient");
  if (!stage) return exec_no_memory(p);
  bool known = false;
  wafer_status status = init_slabs(&c, stage, &known);
  if (status != WAFER_OK || !known) {
    stage->stage.release(&stage->stage);
    return status;
  }
  exec_op sums = {.result = c.parts};
  WAFER_TRY(library_stage_add(p, stage, &sums, c.slabs));
  return lay_out_result(&c, op);
}
