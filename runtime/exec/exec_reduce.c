/* Reductions of f32 tensors in any order. The dims, in physical order, are merged into alternating
 * kept and reduced loops. With a kept loop innermost, vectors are accumulated element by element;
 * with a reduced one, lines are summed in lanes. Long sums are made of sums of at most PART terms.
 */
#include <math.h>
#include <string.h>

#include "exec.h"
#include "tensor/vmath.h"

enum { LANES = 64, PART = 64, WIDTH = 1024 }; /* WIDTH: results that a vector has at most */

typedef struct nest {
  uint32_t rank;
  int64_t extent[WAFER_MAX_RANK], stride[WAFER_MAX_RANK], total;
} nest;

typedef struct reduce_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  wafer_op op;
  nest kept, reduced; /* without the innermost loop */
  bool inner_kept;
  int64_t inner; /* extent of the innermost loop, stride 1 */
  int64_t terms; /* per result */
} reduce_stage;

static float start_of(wafer_op op) {
  return op == WAFER_OP_reduce_max    ? -INFINITY
         : op == WAFER_OP_reduce_min  ? INFINITY
         : op == WAFER_OP_reduce_prod ? 1.0f
                                      : 0.0f;
}

#define JOIN(name, expr)                                                                           \
  WAFER_CLONES static void name(float *out, const float *in, size_t n) {                           \
    for (size_t i = 0; i < n; i++) {                                                               \
      float x = in[i], y = out[i];                                                                 \
      out[i] = expr;                                                                               \
    }                                                                                              \
  }
JOIN(join_sum, y + x)
JOIN(join_prod, y *x)
JOIN(join_max, x > y || x != x ? x : y)
JOIN(join_min, x < y || x != x ? x : y)

static void join(wafer_op op, float *out, const float *in, int64_t n) {
  switch (op) {
  case WAFER_OP_reduce_max: join_max(out, in, (size_t)n); break;
  case WAFER_OP_reduce_min: join_min(out, in, (size_t)n); break;
  case WAFER_OP_reduce_prod: join_prod(out, in, (size_t)n); break;
  default: join_sum(out, in, (size_t)n); break;
  }
}

static int64_t offset_of(const nest *n, int64_t index) {
  int64_t offset = 0;
  for (uint32_t i = n->rank; i-- > 0; index /= n->extent[i])
    offset += index % n->extent[i] * n->stride[i];
  return offset;
}

/* A line of `n` terms joined into *into. */
static void join_line(wafer_op op, float *into, const float *line, int64_t n) {
  float lanes[LANES];
  for (int64_t at = 0; at < n; at += LANES * PART) {
    int64_t end = at + LANES * PART < n ? at + LANES * PART : n;
    for (int i = 0; i < LANES; i++) lanes[i] = start_of(op);
    for (int64_t i = at; i < end; i += LANES)
      join(op, lanes, line + i, end - i < LANES ? end - i : LANES);
    for (int64_t half = LANES / 2; half > 0; half /= 2) join(op, lanes, lanes + half, half);
    join(op, into, lanes, 1);
  }
}

static void finish(const reduce_stage *s, float *out, int64_t n) {
  if (s->op != WAFER_OP_reduce_mean) return;
  for (int64_t i = 0; i < n; i++) out[i] /= (float)s->terms;
}

/* Results [from, to), neighbours in the innermost kept loop; `x` is where the first one's terms
 * begin. */
static void reduce_vector(const reduce_stage *s, const float *x, float *out, int64_t n) {
  float part[WIDTH];
  for (int64_t i = 0; i < n; i++) out[i] = start_of(s->op);
  for (int64_t r = 0; r < s->reduced.total; r += PART) {
    int64_t end = r + PART < s->reduced.total ? r + PART : s->reduced.total;
    for (int64_t i = 0; i < n; i++) part[i] = start_of(s->op);
    for (int64_t k = r; k < end; k++) join(s->op, part, x + offset_of(&s->reduced, k), n);
    join(s->op, out, part, n);
  }
  finish(s, out, n);
}

static void reduce_lines(const reduce_stage *s, const float *x, float *out) {
  *out = start_of(s->op);
  for (int64_t r = 0; r < s->reduced.total; r++)
    join_line(s->op, out, x + offset_of(&s->reduced, r), s->inner);
  finish(s, out, 1);
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  (void)thread;
  const reduce_stage *s = (const reduce_stage *)stage;
  const float *x = exec_data(frame, s->x);
  float *y = exec_data(frame, s->y);
  int64_t from, to;
  exec_slab(stage, slab, &from, &to);
  from *= stage->row, to *= stage->row;
  while (from < to) {
    if (!s->inner_kept) {
      reduce_lines(s, x + offset_of(&s->kept, from), y + from);
      from++;
      continue;
    }
    int64_t column = from % s->inner,
            n = s->inner - column < to - from ? s->inner - column : to - from;
    if (n > WIDTH) n = WIDTH;
    reduce_vector(s, x + offset_of(&s->kept, from / s->inner) + column, y + from, n);
    from += n;
  }
  return WAFER_OK;
}

static void add_loop(nest *n, int64_t extent, int64_t stride) {
  n->total *= extent;
  if (n->rank && n->stride[n->rank - 1] == extent * stride) {
    n->extent[n->rank - 1] *= extent;
    n->stride[n->rank - 1] = stride;
    return;
  }
  n->extent[n->rank] = extent;
  n->stride[n->rank++] = stride;
}

/* Takes the innermost loop out of the nest that has it. */
static void split_inner(reduce_stage *s) {
  nest *n = s->kept.rank && s->kept.stride[s->kept.rank - 1] == 1 ? &s->kept : &s->reduced;
  s->inner_kept = n == &s->kept;
  s->inner = 1;
  if (n->rank == 0 || n->stride[n->rank - 1] != 1) return; /* a single element */
  s->inner = n->extent[--n->rank];
  n->total = s->inner ? n->total / s->inner : 0;
}

static void make_nests(reduce_stage *s, const bool *reduced) {
  const exec_tensor *x = s->x;
  s->kept.total = s->reduced.total = 1;
  for (uint32_t i = 0; i < x->shape.rank; i++) {
    uint32_t d = x->order.dim[i];
    if (x->shape.dims[d] != 1)
      add_loop(reduced[d] ? &s->reduced : &s->kept, x->shape.dims[d], x->strides[d]);
  }
  s->terms = s->reduced.total;
  split_inner(s);
}

/* The operand's order, without the dims that vanish. */
static exec_order result_order(const exec_tensor *x, const bool *reduced, bool keep) {
  if (keep) return x->order;
  exec_order order = exec_row_major();
  uint8_t number[WAFER_MAX_RANK], n = 0, at = 0;
  for (uint32_t d = 0; d < x->shape.rank; d++) number[d] = reduced[d] ? 0 : n++;
  for (uint32_t i = 0; i < x->shape.rank; i++)
    if (!reduced[x->order.dim[i]]) order.dim[at++] = number[x->order.dim[i]];
  return order;
}

wafer_status exec_build_reduce(exec_program *p, exec_op *op) {
  const wafer_node *node = op->node;
  const exec_tensor *x = op->operands[0];
  if (wafer_op_is(node->op, WAFER_TRAIT_INDEX)) return exec_build_arg(p, op);
  if (x->host != WAFER_DTYPE_f32) return WAFER_OK;
  bool reduced[WAFER_MAX_RANK];
  uint32_t axes = wafer_attr_dims(&node->attrs, WAFER_ATTR_axes);
  for (uint32_t d = 0; d < WAFER_MAX_RANK; d++) reduced[d] = axes >> d & 1;
  reduce_stage *s = WAFER_NEW(p->arena, reduce_stage, 1);
  if (!s) return exec_no_memory(p);
  *s = (reduce_stage){.stage = {.run = run, .loc = p->loc}, .x = x, .op = node->op};
  make_nests(s, reduced);
  exec_order order = result_order(x, reduced, wafer_attr_int(&node->attrs, WAFER_ATTR_keepdims));
  exec_tensor *y = exec_tensor_create(p, &node->type, &order);
  if (!y) return exec_no_memory(p);
  s->y = op->result = y;
  return exec_stage_add(p, &s->stage, op, UINT32_MAX);
}
