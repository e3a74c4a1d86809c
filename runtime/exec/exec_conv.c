/* Convolutions through oneDNN: activations channels last, weights in the format it prefers. A slab
 * is a range of output rows; it reads the input rows under it, with padding only at the rims. */
#include <string.h>

#include "exec_dnnl.h"

enum { MOST_SPATIAL = 3, WHOLE = UINT32_MAX };

typedef struct conv {
  exec_program *program;
  exec_op *op;
  const exec_tensor *x, *w;
  exec_tensor *y;
  uint32_t spatial;
  int64_t group;
  dnnl_dims_t strides, dilations, before, after; /* of the whole; `after` less the output padding */
  library_weights *copies;
} conv;

/* What one slab works on. */
typedef struct part {
  int64_t batch;
  dnnl_dims_t in, out, before, after;
  int64_t x_offset, y_offset; /* elements */
} part;

static dnnl_format_tag_t channels_last(uint32_t rank) {
  return rank == 3 ? dnnl_nwc : rank == 4 ? dnnl_nhwc : dnnl_ndhwc;
}

static part whole(const conv *c) {
  part t = {.batch = c->y->shape.dims[0]};
  for (uint32_t i = 0; i < c->spatial; i++) {
    t.in[i] = c->x->shape.dims[2 + i];
    t.out[i] = c->y->shape.dims[2 + i];
    t.before[i] = c->before[i];
    t.after[i] = c->after[i];
  }
  return t;
}

/* Rows [from, to) of the output's outermost dim; false when they touch padding alone. */
static bool part_of(const conv *c, uint32_t dim, int64_t from, int64_t to, part *t) {
  *t = whole(c);
  t->y_offset = from * c->y->strides[dim];
  if (dim == 0) {
    t->batch = to - from;
    t->x_offset = from * c->x->strides[0];
    return true;
  }
  uint32_t i = dim - 2;
  int64_t reach = (c->w->shape.dims[2 + i] - 1) * c->dilations[i] + 1;
  int64_t first = from * c->strides[i] - c->before[i];
  int64_t end = (to - 1) * c->strides[i] - c->before[i] + reach;
  t->before[i] = first < 0 ? -first : 0;
  t->after[i] = end > t->in[i] ? end - t->in[i] : 0;
  if (first < 0) first = 0;
  if (end > t->in[i]) end = t->in[i];
  t->in[i] = end - first;
  t->out[i] = to - from;
  t->x_offset = first * c->x->strides[dim];
  return t->in[i] > 0;
}

/* Weights as oneDNN names their dims: (group,) output, input, spatial. `stride` is filled with
 * where they lie, for a convolution (K, C/group, ...) or a transposed one (C, K/group, ...). */
static int weight_dims(const conv *c, bool transposed, dnnl_dims_t dims, dnnl_dims_t stride) {
  int64_t k = c->y->shape.dims[1] / c->group, in = c->x->shape.dims[1] / c->group;
  const int64_t *at = c->w->strides;
  int n = 0, grouped = c->group > 1;
  if (grouped) stride[n] = (transposed ? in : k) * at[0], dims[n++] = c->group;
  stride[n] = at[transposed ? 1 : 0], dims[n++] = k;
  stride[n] = at[transposed ? 0 : 1], dims[n++] = in;
  for (uint32_t i = 2; i < c->spatial + 2; i++) stride[n] = at[i], dims[n++] = c->w->shape.dims[i];
  return n;
}

typedef struct descriptors {
  dnnl_memory_desc_t x, w, plain_w, b, y;
  bool bias;
} descriptors;

static bool describe(const conv *c, const part *t, bool transposed, descriptors *d) {
  uint32_t rank = c->spatial + 2;
  dnnl_dims_t x = {t->batch, c->x->shape.dims[1]}, y = {t->batch, c->y->shape.dims[1]}, w, stride;
  dnnl_dims_t b = {c->y->shape.dims[1]};
  memcpy(x + 2, t->in, c->spatial * sizeof *x);
  memcpy(y + 2, t->out, c->spatial * sizeof *y);
  int n = weight_dims(c, transposed, w, stride);
  d->bias = c->op->node->operand_count > 2;
  return dnnl_memory_desc_init_by_tag(&d->x, (int)rank, x, dnnl_f32, channels_last(rank)) ==
             dnnl_success &&
         dnnl_memory_desc_init_by_tag(&d->y, (int)rank, y, dnnl_f32, channels_last(rank)) ==
             dnnl_success &&
         dnnl_memory_desc_init_by_tag(&d->w, n, w, dnnl_f32, dnnl_format_tag_any) == dnnl_success &&
         dnnl_memory_desc_init_by_strides(&d->plain_w, n, w, dnnl_f32, stride) == dnnl_success &&
         dnnl_memory_desc_init_by_tag(&d->b, 1, b, dnnl_f32, dnnl_a) == dnnl_success;
}

/* NULL: oneDNN does not do it. */
static dnnl_primitive_desc_t descriptor_of(const conv *c, const part *t, bool transposed,
                                           const descriptors *d, dnnl_primitive_attr_t attr) {
  dnnl_dims_t dilate = {0};
  for (uint32_t i = 0; i < c->spatial; i++) dilate[i] = c->dilations[i] - 1;
  dnnl_convolution_desc_t desc;
  const dnnl_memory_desc_t *b = d->bias ? &d->b : NULL;
  dnnl_status_t status = transposed
                             ? dnnl_dilated_deconvolution_forward_desc_init(
                                   &desc, dnnl_forward_inference, dnnl_deconvolution_direct, &d->x,
                                   &d->w, b, &d->y, c->strides, dilate, t->before, t->after)
                             : dnnl_dilated_convolution_forward_desc_init(
                                   &desc, dnnl_forward_inference, dnnl_convolution_direct, &d->x,
                                   &d->w, b, &d->y, c->strides, dilate, t->before, t->after);
  dnnl_primitive_desc_t pd = NULL;
  if (status == dnnl_success)
    (void)dnnl_primitive_desc_create(&pd, &desc, attr, c->program->engine, NULL);
  return pd;
}

static bool same_work(const part *a, const part *b) {
  return a->batch == b->batch && !memcmp(a->in, b->in, sizeof a->in) &&
         !memcmp(a->out, b->out, sizeof a->out) &&
         !memcmp(a->before, b->before, sizeof a->before) &&
         !memcmp(a->after, b->after, sizeof a->after);
}

static wafer_status init_call(conv *c, const descriptors *d, dnnl_primitive_desc_t pd,
                              library_slab *slab, const part *t, const library_slab *like) {
  static const library_arg args[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                     {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                                     {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                     {DNNL_ARG_BIAS, dnnl_query_weights_md, 1}};
  const library_handle w = {.tensor = c->w};
  const exec_tensor *bias = d->bias ? c->op->operands[2] : NULL;
  WAFER_TRY(library_pack(c->program, &c->copies, &w, &d->plain_w,
                         dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0),
                         &slab->handles[2]));
  WAFER_TRY(library_call_init(c->program, &slab->call, pd, args, d->bias ? 4 : 3));
  slab->call.owns_primitive = !like;
  if (like)
    slab->call.primitive = like->call.primitive;
  else if (dnnl_primitive_create(&slab->call.primitive, pd) != dnnl_success)
    return library_failed(c->program, "a convolution");
  slab->handles[0] =
      (library_handle){.tensor = c->x, .offset = t->x_offset * (int64_t)sizeof(float)};
  slab->handles[1] =
      (library_handle){.tensor = c->y, .offset = t->y_offset * (int64_t)sizeof(float)};
  slab->handles[3] = (library_handle){.tensor = bias};
  return WAFER_OK;
}

/* *known is false when oneDNN does not do it. */
static wafer_status init_slab(conv *c, bool transposed, dnnl_primitive_attr_t attr,
                              library_slab *slab, const part *t, const library_slab *like,
                              bool *known) {
  descriptors d;
  if (!describe(c, t, transposed, &d)) return library_failed(c->program, "a convolution's shapes");
  dnnl_primitive_desc_t pd = descriptor_of(c, t, transposed, &d, attr);
  *known = pd != NULL;
  if (!pd) return WAFER_OK;
  wafer_status status = init_call(c, &d, pd, slab, t, like);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

static wafer_status init_slabs(conv *c, bool transposed, library_stage *stage,
                               dnnl_primitive_attr_t attr, bool *known) {
  uint32_t dim = exec_outer_dim(c->y), n = stage->stage.slabs;
  part *parts = WAFER_NEW(c->program->arena, part, n);
  if (!parts) return exec_no_memory(c->program);
  *known = true;
  for (uint32_t i = 0; i < n && *known; i++) {
    int64_t rows = c->y->shape.dims[dim];
    if (n == 1)
      parts[i] = whole(c);
    else if (!part_of(c, dim, rows * i / n, rows * (i + 1) / n, &parts[i]))
      *known = false;
    if (!*known) break;
    uint32_t like = 0;
    while (like < i && !same_work(&parts[like], &parts[i])) like++;
    WAFER_TRY(init_slab(c, transposed, attr, &stage->slabs[i], &parts[i],
                        like < i ? &stage->slabs[like] : NULL, known));
  }
  return WAFER_OK;
}

/* Tries with at most `most` slabs. */
static wafer_status build_with(conv *c, bool transposed, uint32_t most, bool *known) {
  exec_program *p = c->program;
  library_stage *stage =
      library_stage_create(p, library_slabs(p, c->y, most), "oneDNN failed in a convolution");
  dnnl_primitive_attr_t attr = NULL;
  if (!stage) return exec_no_memory(p);
  WAFER_TRY(library_attributes(p, c->op, &attr));
  wafer_status status = init_slabs(c, transposed, stage, attr, known);
  dnnl_primitive_attr_destroy(attr);
  if (status == WAFER_OK && *known) {
    c->op->took_clip = c->op->clips;
    c->op->result = c->y;
    return library_stage_add(p, stage, c->op, most);
  }
  stage->stage.release(&stage->stage);
  return status;
}

/* Takes over an attribute of `count` numbers; false when it has another length. */
static bool take(const wafer_attrs *attrs, wafer_attr_id id, uint32_t count, int64_t *out) {
  uint32_t have;
  const int64_t *at = wafer_attr_ints(attrs, id, &have);
  if (have == count) memcpy(out, at, count * sizeof *out);
  return have == count;
}

static bool read_attrs(conv *c, bool transposed) {
  const wafer_attrs *a = &c->op->node->attrs;
  int64_t pads[2 * MOST_SPATIAL], extra[MOST_SPATIAL] = {0};
  uint32_t n = c->spatial;
  c->group = wafer_attr_int(a, WAFER_ATTR_group);
  if (!take(a, WAFER_ATTR_strides, n, c->strides) ||
      !take(a, WAFER_ATTR_dilations, n, c->dilations) || !take(a, WAFER_ATTR_pads, 2 * n, pads) ||
      (transposed && !take(a, WAFER_ATTR_output_padding, n, extra)))
    return false;
  memcpy(c->before, pads, n * sizeof *pads);
  for (uint32_t i = 0; i < n; i++) c->after[i] = pads[n + i] - extra[i];
  return c->group > 0;
}

static bool can_do(const exec_op *op) {
  const wafer_node *node = op->node;
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (op->operands[i]->host != WAFER_DTYPE_f32) return false;
  const wafer_shape *x = &op->operands[0]->shape, *y = &node->type.shape;
  if (x->rank < 3 || x->rank > 2 + MOST_SPATIAL) return false;
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dims[i] == 0 || y->dims[i] == 0) return false;
  return true;
}

static wafer_status build(exec_program *p, exec_op *op, bool transposed) {
  conv c = {.program = p, .op = op, .w = op->operands[1], .spatial = op->node->type.shape.rank - 2};
  if (!can_do(op) || !read_attrs(&c, transposed)) return WAFER_OK;
  WAFER_TRY(library_engine(p));
  exec_order order = exec_channels_last(op->node->type.shape.rank);
  WAFER_TRY(exec_reordered(p, op->operands[0], &order, &op->operands[0]));
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!y) return exec_no_memory(p);
  c.x = op->operands[0];
  c.y = y;
  uint32_t dim = exec_outer_dim(y);
  bool known = false;
  if (dim != 1 && (dim == 0 || !transposed)) WAFER_TRY(build_with(&c, transposed, WHOLE, &known));
  if (!known) WAFER_TRY(build_with(&c, transposed, 1, &known));
  return WAFER_OK;
}

wafer_status exec_build_conv(exec_program *p, exec_op *op) {
  if (can_do(op)) WAFER_TRY(exec_build_conv_weights(p, op));
  if (can_do(op) && !op->result) WAFER_TRY(exec_build_conv_sums(p, op));
  return op->result ? WAFER_OK : build(p, op, false);
}
wafer_status exec_build_conv_transpose(exec_program *p, exec_op *op) {
  return build(p, op, true);
}
