/* Activations that the backward pass computes again.
 *
 * The forward ops are cut into segments. What lives across a cut, the checkpoint, is kept; the rest
 * of a segment is computed again, from its checkpoint, right before the backward ops that use it.
 * The last segment ends where the backward pass begins and is kept as it is.
 *
 *   f1 f2 | f3 f4 | loss b4 b3 b2 b1   =>   f1 f2 | f3 f4 | loss b4 b3 f1' f2' b2 b1
 *
 * Cuts are chosen for the least bytes of all checkpoints and of the largest segment: for a bound on
 * segments the shortest path over the positions, tried for many bounds. A transformer is cut in its
 * residual stream, once in every few layers. */
#include <string.h>

#include "grad.h"

#define BOUNDS 48

typedef struct recompute {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  MlirBlock block;
  wafer_ir_map *numbers; /* result -> op */
  MlirOperation *ops;
  uint32_t count, loss, backward; /* ops; the first one of the loss; of the backward pass */
  int64_t *bytes, *needed;        /* needed: bytes that the backward pass uses, 0: none */
  uint32_t *last;                 /* the last forward op that uses it; of the loss: `loss` */
  int64_t *live;                  /* bytes that live across the cut behind an op */
  uint32_t *segment;              /* of a forward op */
  uint32_t segments;
  bool *kept;       /* a checkpoint, or of the last segment, or no activation */
  MlirValue *again; /* where it is found in the backward pass; null: not yet */
} recompute;

static wafer_status no_memory(const recompute *r) {
  return wafer_fail(r->ctx->diag, wafer_at_file(r->ir->file), WAFER_NO_MEMORY,
                    "no memory to choose what is computed again");
}

static bool is_source(MlirOperation op) {
  wafer_op id = wafer_ir_op(op);
  return id == WAFER_OP_COUNT || wafer_op_is(id, WAFER_TRAIT_SOURCE);
}

static uint32_t maker(const recompute *r, MlirOperation op, intptr_t operand) {
  return wafer_ir_map_get(r->numbers, mlirOperationGetOperand(op, operand).ptr);
}

/* ---- Reading ---- */

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

/* The loss stands right before the backward pass; both go by the names that the pass gives. */
static void find_borders(recompute *r) {
  r->backward = 0;
  while (r->backward < r->count && !ends_with(wafer_ir_node_name(r->ops[r->backward]), ".backward"))
    r->backward++;
  r->loss = r->backward;
  while (r->loss > 0 && (is_source(r->ops[r->loss - 1]) ||
                         !strcmp(wafer_ir_node_name(r->ops[r->loss - 1]), "loss")))
    r->loss--;
}

static wafer_status allocate(recompute *r) {
  wafer_arena *arena = r->ctx->arena;
  MlirOperation op;
  size_t count = 0;
  for (op = mlirBlockGetFirstOperation(r->block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    count++;
  r->numbers = wafer_ir_map_create(arena);
  r->ops = WAFER_NEW(arena, MlirOperation, count);
  r->bytes = WAFER_NEW(arena, int64_t, count);
  r->needed = WAFER_NEW(arena, int64_t, count + 1);
  r->last = WAFER_NEW(arena, uint32_t, count);
  r->live = WAFER_NEW(arena, int64_t, count);
  r->segment = WAFER_NEW(arena, uint32_t, count);
  r->kept = WAFER_NEW(arena, bool, count);
  r->again = WAFER_NEW(arena, MlirValue, count);
  if (!r->numbers || !r->ops || !r->bytes || !r->needed || !r->last || !r->live || !r->segment ||
      !r->kept || !r->again)
    return no_memory(r);
  for (op = mlirBlockGetFirstOperation(r->block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    r->ops[r->count] = op;
    if (mlirOperationGetNumResults(op) == 1 &&
        !wafer_ir_map_put(r->numbers, mlirOperationGetResult(op, 0).ptr, r->count))
      return no_memory(r);
    r->count++;
  }
  return WAFER_OK;
}

/* Who uses what, and how much lives across each cut. What the step returns, statistics among it, is
 * kept as what the loss uses. */
static void measure(recompute *r) {
  uint32_t end = r->count - 1; /* the terminator */
  for (uint32_t i = 0; i < r->loss; i++) {
    wafer_type type = wafer_ir_value_type(mlirOperationGetResult(r->ops[i], 0));
    r->bytes[i] = is_source(r->ops[i]) ? 0 : (int64_t)wafer_tensor_bytes(type.dtype, &type.shape);
    r->last[i] = i;
  }
  for (uint32_t i = 0; i < r->count; i++)
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(r->ops[i]); k++) {
      uint32_t of = maker(r, r->ops[i], k);
      if (of == WAFER_NONE || of >= r->loss || is_source(r->ops[of])) continue;
      if (i >= r->backward && i < end)
        r->needed[of] = r->bytes[of];
      else if (r->last[of] < r->loss)
        r->last[of] = i < r->loss ? i : r->loss;
    }
  int64_t *change = r->live; /* bytes that begin, less those that end, behind each op */
  for (uint32_t i = 0; i < r->loss; i++) change[i] = 0;
  for (uint32_t i = 0; i < r->loss; i++) {
    if (r->last[i] == i) continue;
    change[i] += r->bytes[i];
    if (r->last[i] < r->loss) change[r->last[i]] -= r->bytes[i];
  }
  for (uint32_t i = 1; i < r->loss; i++) r->live[i] += r->live[i - 1];
}

/* ---- Cuts ---- */

typedef struct path {
  int64_t *sum;    /* needed bytes of ops before each position; position p is behind p ops */
  int64_t *cost;   /* of the checkpoints up to a cut at the position */
  uint32_t *from;  /* the cut before it */
  uint32_t *queue; /* positions of rising cost */
} path;

/* The cheapest cuts with at most `bound` needed bytes between two; the cost, with the bound. */
static int64_t shortest(const recompute *r, path *p, int64_t bound) {
  uint32_t head = 0, tail = 0;
  p->cost[0] = 0;
  p->queue[tail++] = 0;
  for (uint32_t at = 1; at <= r->loss; at++) {
    while (head < tail && p->sum[at] - p->sum[p->queue[head]] > bound) head++;
    if (head == tail) return INT64_MAX;
    p->from[at] = p->queue[head];
    p->cost[at] = p->cost[p->queue[head]] + (at < r->loss ? r->live[at - 1] : 0);
    while (head < tail && p->cost[p->queue[tail - 1]] > p->cost[at]) tail--;
    p->queue[tail++] = at;
  }
  return p->cost[r->loss] + bound;
}

static void set_segments(recompute *r, const path *p) {
  uint32_t number = 0;
  for (uint32_t at = r->loss; at > 0; at = p->from[at], number++)
    for (uint32_t i = p->from[at]; i < at; i++) r->segment[i] = number;
  r->segments = number; /* numbered from the end: 0 is the last one */
}

static wafer_status choose(recompute *r) {
  wafer_arena *arena = r->ctx->arena;
  size_t room = (size_t)r->loss + 1;
  path p = {WAFER_NEW(arena, int64_t, room), WAFER_NEW(arena, int64_t, room),
            WAFER_NEW(arena, uint32_t, room), WAFER_NEW(arena, uint32_t, room + 1)};
  int64_t best = INT64_MAX, bound = 0, largest = 0;
  if (!p.sum || !p.cost || !p.from || !p.queue) return no_memory(r);
  for (uint32_t i = 0; i < r->loss; i++) {
    p.sum[i + 1] = p.sum[i] + r->needed[i];
    if (r->needed[i] > largest) largest = r->needed[i];
  }
  int64_t total = p.sum[r->loss];
  for (int k = 0; k <= BOUNDS; k++) { /* from the largest value, at first in small steps, to all */
    int64_t tried = largest + (total - largest) / BOUNDS * k / BOUNDS * k;
    int64_t cost = shortest(r, &p, tried);
    if (cost < best) best = cost, bound = tried;
  }
  shortest(r, &p, bound);
  set_segments(r, &p);
  return WAFER_OK;
}

/* A value is kept that lives across the end of its segment, or that the loss uses. */
static void mark_kept(recompute *r) {
  for (uint32_t i = 0; i < r->loss; i++) {
    bool crosses = r->last[i] == r->loss || r->segment[r->last[i]] != r->segment[i];
    r->kept[i] = is_source(r->ops[i]) || r->segment[i] == 0 || crosses;
  }
}

/* ---- Computing again ---- */

static wafer_status copy_op(recompute *r, uint32_t i, MlirOperation before) {
  MlirValue operands[WAFER_OP_MAX_OPERANDS];
  const char *node = wafer_ir_node_name(r->ops[i]);
  const char *name = wafer_arena_printf(r->ctx->arena, "%s.again", node);
  if (!name) return no_memory(r);
  for (intptr_t k = 0; k < mlirOperationGetNumOperands(r->ops[i]); k++) {
    uint32_t of = maker(r, r->ops[i], k);
    bool own = of != WAFER_NONE && of < r->loss && !r->kept[of];
    operands[k] = own ? r->again[of] : mlirOperationGetOperand(r->ops[i], k);
  }
  wafer_builder b = {.ctx = r->ctx, .ir = r->ir, .block = r->block, .before = before};
  r->again[i] = wafer_ir_clone(&b, r->ops[i], operands);
  mlirOperationSetLocation(mlirOpResultGetOwner(r->again[i]), wafer_ir_location(r->ir, name, -1));
  return WAFER_OK;
}

/* All of segment `s` that the backward pass needs, before its first op that does. */
static wafer_status copy_segment(recompute *r, uint32_t s, MlirOperation before) {
  uint32_t first = 0, end;
  bool *wanted = WAFER_NEW(r->ctx->arena, bool, r->loss + 1);
  if (!wanted) return no_memory(r);
  while (r->segment[first] != s) first++;
  for (end = first; end < r->loss && r->segment[end] == s; end++) {
  }
  for (uint32_t i = end; i-- > first;) {
    wanted[i] = !r->kept[i] && (wanted[i] || r->needed[i]);
    for (intptr_t k = 0; wanted[i] && k < mlirOperationGetNumOperands(r->ops[i]); k++) {
      uint32_t of = maker(r, r->ops[i], k);
      if (of != WAFER_NONE) wanted[of] = true;
    }
  }
  for (uint32_t i = first; i < end; i++)
    if (wanted[i] && !r->kept[i]) WAFER_TRY(copy_op(r, i, before));
  return WAFER_OK;
}

static wafer_status rewire(recompute *r) {
  for (uint32_t i = r->backward; i < r->count; i++)
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(r->ops[i]); k++) {
      uint32_t of = maker(r, r->ops[i], k);
      if (of == WAFER_NONE || of >= r->loss || r->kept[of]) continue;
      if (mlirValueIsNull(r->again[of])) WAFER_TRY(copy_segment(r, r->segment[of], r->ops[i]));
      mlirOperationSetOperand(r->ops[i], k, r->again[of]);
    }
  return WAFER_OK;
}

wafer_status grad_recompute(const wafer_ctx *ctx, wafer_ir *ir) {
  recompute r = {.ctx = ctx, .ir = ir, .block = wafer_ir_body(wafer_ir_main(ir))};
  WAFER_TRY(allocate(&r));
  find_borders(&r);
  if (r.loss == 0 || r.backward == r.count) return WAFER_OK;
  measure(&r);
  WAFER_TRY(choose(&r));
  mark_kept(&r);
  return rewire(&r);
}
