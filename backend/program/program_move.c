/* Family move: what only changes where elements are is an exchange from the operand to the result
 * by a map of indices. A reshape first sees both as if the dims that it merges or divides were one.
 */
#include <string.h>

#include "program_build.h"

static wafer_status add_exchange(program *p, const exchange *x) {
  wafer_rect rect = p->r->rect;
  fragment *f = program_fragment(p, p->body->nodes[p->node].name);
  if (!f) return program_no_memory(p);
  WAFER_TRY(exchange_add(x, f));
  bool idle = true;
  for (uint64_t i = 0; idle && i < wafer_rect_area(rect); i++)
    idle = f->variant[i] == FRAGMENT_IDLE;
  return idle ? WAFER_OK : program_append(p, f);
}

/* One after the other: what one leaves on its way has gone on before words of the next come, so
 * they have one place. */
static wafer_status add_exchanges(program *p, exchange *x, uint32_t count) {
  uint64_t scratch = 0;
  int32_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t own = exchange_scratch(&x[i]);
    if (own == UINT64_MAX) return program_no_memory(p);
    if (own > scratch) scratch = own;
  }
  if (scratch) WAFER_TRY(program_bytes(p, scratch, 0, p->node, &at));
  for (uint32_t i = 0; i < count; i++) {
    x[i].scratch = at;
    x[i].scratch_room = (uint32_t)scratch;
    WAFER_TRY(add_exchange(p, &x[i]));
  }
  return WAFER_OK;
}

static exchange exchange_of(program *p, const spread *from, const spread *to,
                            const index_map *map) {
  return (exchange){.diag = p->r->diag,
                    .machine = p->r->machine,
                    .from = program_ranked(p, from),
                    .to = program_ranked(p, to),
                    .map = map ? *map : index_identity()};
}

wafer_status program_exchange(program *p, const spread *from, const spread *to,
                              const index_map *map) {
  exchange x = exchange_of(p, from, to, map);
  if (!x.from || !x.to) return program_no_memory(p);
  WAFER_TRY(program_flush(p));
  return add_exchanges(p, &x, 1);
}

/* ---- Element types ---- */

static void emit_convert(const program_site *s) {
  nest n = program_nest_over(WAFER_CORE_convert, 1, s->step->out, &s->out);
  nest_place(&n, 1, s->step->in[0].at, &s->in[0]);
  nest_emit(s->code, &n);
}

wafer_status program_land(program *p, const spread *to, const spread *out) {
  if (to->dtype == out->dtype) return WAFER_OK;
  program_step step = program_step_of(p->node, out, emit_convert);
  step.in_count = 1;
  step.in[0] = program_own(to);
  return program_add(p, &step);
}

/* ---- Maps of indices ---- */

static index_map slice_map(const wafer_node *n) {
  index_map map = index_identity();
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    map.dim[d].a = wafer_node_ints(n, WAFER_ATTR_steps)[d];
    map.dim[d].b = wafer_node_ints(n, WAFER_ATTR_starts)[d];
  }
  return map;
}

/* Dims align at the right; 1 against more repeats. */
static index_map expand_map(const wafer_shape *x, const wafer_shape *y) {
  index_map map = index_identity();
  for (uint32_t d = 0; d < x->rank; d++) {
    map.dim[d] = (index_dim){.dim = (int)(d + y->rank - x->rank), .a = 1};
    if (x->dims[d] == 1) map.dim[d] = (index_dim){.dim = INDEX_CONSTANT};
  }
  return map;
}

/* The index that continues a run of n elements; -1: none does. */
static int64_t continued(const char *mode, int64_t at, int64_t n) {
  if (at >= 0 && at < n) return at;
  if (strcmp(mode, "constant") == 0) return -1;
  if (strcmp(mode, "edge") == 0 || n == 1) return at < 0 ? 0 : n - 1;
  int64_t period = strcmp(mode, "wrap") == 0 ? n : 2 * (n - 1), rest = at % period;
  if (rest < 0) rest += period;
  return rest < n ? rest : period - rest;
}

static wafer_status pad_map(program *p, const wafer_node *n, index_map *map) {
  const wafer_shape *x = &wafer_body_type(p->body, n->operands[0])->shape;
  const int64_t *pads = wafer_node_ints(n, WAFER_ATTR_pads);
  const char *mode = wafer_attr_string(&n->attrs, WAFER_ATTR_mode);
  *map = index_identity();
  for (uint32_t d = 0; d < x->rank; d++) {
    int64_t begin = pads[d], end = pads[d + x->rank], first = begin < 0 ? -begin : 0;
    int64_t kept = x->dims[d] - first + (end < 0 ? end : 0);
    if (begin == 0 && end == 0) continue;
    int64_t *table = WAFER_NEW(p->arena, int64_t, (size_t)n->type.shape.dims[d]);
    if (!table) return program_no_memory(p);
    for (int64_t i = 0; i < n->type.shape.dims[d]; i++) {
      int64_t at = continued(mode, i - (begin > 0 ? begin : 0), kept);
      table[i] = at < 0 ? -1 : first + at;
    }
    map->dim[d].table = index_table_of(p->arena, table, n->type.shape.dims[d]);
    if (!map->dim[d].table) return program_no_memory(p);
  }
  return WAFER_OK;
}

/* ---- Ops of one operand ---- */

static wafer_status fill(program *p, const spread *out, double value) {
  p->splat[p->body->input_count + p->node] = value;
  return program_splat(p, p->node, out);
}

wafer_status program_filled(program *p, uint32_t node) {
  spread *out;
  WAFER_TRY(program_result(p, node, &out));
  return fill(p, out, p->splat[p->body->nodes[node].operands[0]]);
}

wafer_status program_moved(program *p, const spread *from, spread *out, const index_map *map,
                           const double *outside) {
  spread *to;
  WAFER_TRY(program_sums(p, p->node, out, from->dtype, &to));
  if (outside) WAFER_TRY(fill(p, to, *outside));
  WAFER_TRY(program_exchange(p, from, to, map));
  return program_land(p, to, out);
}

/* ---- Concat ---- */

/* `x` with elements of `dtype`: itself, or a buffer like it. */
static wafer_status as_type(program *p, const spread *x, wafer_dtype dtype, const spread **out) {
  *out = x;
  if (x->dtype == dtype) return WAFER_OK;
  spread *own = WAFER_NEW(p->arena, spread, 1);
  if (!own) return program_no_memory(p);
  *own = *x;
  own->dtype = dtype;
  program_pack_like(own, x);
  WAFER_TRY(program_reserve(p, own, 4, p->node));
  *out = own;
  return program_land(p, x, own);
}

/* What the kernel computed waits in another type than what is stored: operands that differ get the
 * result's before they move. */
static wafer_status concat(program *p, uint32_t node, spread *out) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  int64_t offset = 0;
  bool alike = true;
  exchange each[WAFER_OP_MAX_OPERANDS];
  spread *to;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const spread *x = p->value[n->operands[i]];
    if (!x) return program_refuse(p, "one of its operands is one constant");
    alike &= x->dtype == p->value[n->operands[0]]->dtype;
  }
  wafer_dtype dtype = alike ? p->value[n->operands[0]]->dtype : out->dtype;
  WAFER_TRY(program_sums(p, p->node, out, dtype, &to));
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const spread *x;
    index_map map = index_identity();
    map.dim[axis].b = -offset;
    WAFER_TRY(as_type(p, p->value[n->operands[i]], dtype, &x));
    each[i] = exchange_of(p, x, to, &map);
    if (!each[i].from || !each[i].to) return program_no_memory(p);
    offset += x->dim[axis].extent;
  }
  WAFER_TRY(program_flush(p));
  WAFER_TRY(add_exchanges(p, each, n->operand_count));
  return program_land(p, to, out);
}

/* ---- All of them ---- */

wafer_status program_move(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  const spread *x = p->value[n->operands[0]];
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[0])->shape;
  index_map map = index_identity();
  double outside = 0;
  spread *out;
  if (p->constant[n->operands[0]] && n->op != WAFER_OP_concat && n->op != WAFER_OP_pad)
    return program_filled(p, node);
  WAFER_TRY(program_result(p, node, &out));
  switch (n->op) {
  case WAFER_OP_reshape: return program_reshape(p, node, out);
  case WAFER_OP_concat: return concat(p, node, out);
  case WAFER_OP_transpose:
    map = index_transpose(shape->rank, wafer_node_ints(n, WAFER_ATTR_perm));
    break;
  case WAFER_OP_expand: map = expand_map(shape, &n->type.shape); break;
  case WAFER_OP_slice: map = slice_map(n); break;
  case WAFER_OP_pad:
    if (!x) return program_refuse(p, "its operand is one constant");
    outside = wafer_attr_float(&n->attrs, WAFER_ATTR_fill);
    WAFER_TRY(pad_map(p, n, &map));
    break;
  default: return program_refuse(p, "it is not known how its elements move");
  }
  return program_moved(p, x, out, &map, n->op == WAFER_OP_pad ? &outside : NULL);
}
