/* Grouping ops into kernels in one walk over the program.
 *
 * A group grows while none of its values is used outside: it is *open*. The first op that uses one
 * of its values without joining closes it. Hence every use from outside stands behind the group's
 * last op, and groups ordered by their last op are in topological order: no cycle can arise,
 * however the joins fell. An op that joins one elementwise group brings open ones of its shape that
 * it reads along. */
#include "group.h"

#include <string.h>

typedef struct walk {
  uint32_t count;
  const group_op *ops;
  bool whole;       /* concatenations of any number of parts */
  bool scattered;   /* some has many small ones */
  group *groups;    /* one per op at most; the group founded by op i is groups[i] */
  uint32_t *parent; /* union-find over ops */
  uint32_t *uses;
} walk;

static bool is_source(const walk *w, uint32_t value) {
  return value < w->count && wafer_op_is(w->ops[value].op, WAFER_TRAIT_SOURCE);
}

static uint32_t root(const walk *w, uint32_t op) {
  while (w->parent[op] != op) op = w->parent[op] = w->parent[w->parent[op]];
  return op;
}

/* The group that makes a value; UINT32_MAX for arguments and sources. */
static uint32_t maker(const walk *w, uint32_t value) {
  return value >= w->count || is_source(w, value) ? UINT32_MAX : root(w, value);
}

static void count_uses(walk *w) {
  for (uint32_t i = 0; i < w->count; i++) {
    w->uses[i] += w->ops[i].returned;
    for (uint32_t k = 0; k < w->ops[i].operand_count; k++)
      if (w->ops[i].operands[k] < w->count) w->uses[w->ops[i].operands[k]]++;
  }
}

/* Operands of `op` that would come from outside group `g`. */
static uint32_t outside(const walk *w, uint32_t op, uint32_t g) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t value = w->ops[op].operands[k];
    n += !is_source(w, value) && maker(w, value) != g;
  }
  return n;
}

static void found(walk *w, uint32_t op) {
  const wafer_op_info *info = wafer_op_get(w->ops[op].op);
  w->groups[op] = (group){.family = info->family,
                          .anchor = op,
                          .last = op,
                          .size = 1,
                          .inputs = outside(w, op, op),
                          .views = info->traits & WAFER_TRAIT_VIEW};
}

/* What a reduction behind the group's anchor makes, other kernels take. */
static bool reads_reduction(const walk *w, uint32_t op, uint32_t g) {
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t value = w->ops[op].operands[k];
    if (maker(w, value) == g && value != w->groups[g].anchor &&
        wafer_op_get(w->ops[value].op)->family == WAFER_FAMILY_reduce)
      return true;
  }
  return false;
}

/* What the anchor sums over and the op has as a dim of its own is cut for neither: cores would hold
 * all of it, and all of its weights a part. */
static bool cuts_otherwise(const walk *w, uint32_t op, uint32_t g) {
  const group_op *anchor = &w->ops[w->groups[g].anchor];
  int64_t elements;
  if (!anchor->mixes || !wafer_shape_elements(&anchor->shape, &elements) || elements <= GROUP_WHOLE)
    return false;
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++)
    for (uint32_t i = 0; i < anchor->operand_count; i++)
      if (w->ops[op].operands[k] == anchor->operands[i]) return true;
  return false;
}

static bool elementwise_joins(const walk *w, uint32_t op, uint32_t g) {
  const group *to = &w->groups[g];
  return !to->closed && to->size < GROUP_MAX_OPS && !reads_reduction(w, op, g) &&
         wafer_shape_equal(&w->ops[op].shape, &w->ops[to->anchor].shape) &&
         !cuts_otherwise(w, op, g) &&
         (outside(w, op, g) == 0 || to->inputs + outside(w, op, g) <= GROUP_MAX_INPUTS);
}

/* The group whose tail the elementwise op extends: the youngest one with an anchor of its own
 * before map kernels. */
static uint32_t find_tail(const walk *w, uint32_t op) {
  uint32_t best = UINT32_MAX;
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t g = maker(w, w->ops[op].operands[k]);
    if (g == UINT32_MAX || g == best || !elementwise_joins(w, op, g)) continue;
    bool map = w->groups[g].family == WAFER_FAMILY_map;
    bool best_map = best == UINT32_MAX || w->groups[best].family == WAFER_FAMILY_map;
    if (best == UINT32_MAX || (best_map && !map) ||
        (best_map == map && w->groups[g].last > w->groups[best].last))
      best = g;
  }
  return best;
}

/* An elementwise group of its own, of the same shape, that nobody has used. */
static bool may_bring(const walk *w, uint32_t op, uint32_t other, uint32_t g) {
  const group *to = &w->groups[g], *from = &w->groups[other];
  return to->family == WAFER_FAMILY_map && from->family == WAFER_FAMILY_map && !from->closed &&
         wafer_shape_equal(&w->ops[op].shape, &w->ops[from->anchor].shape) &&
         to->size + from->size < GROUP_MAX_OPS &&
         to->inputs + from->inputs + outside(w, op, g) <= GROUP_MAX_INPUTS;
}

/* Makes the elementwise groups that `op`, which joins `g`, takes a part of it. */
static void join_others(walk *w, uint32_t op, uint32_t g) {
  group *to = &w->groups[g];
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t other = maker(w, w->ops[op].operands[k]);
    if (other == UINT32_MAX || other == g || !may_bring(w, op, other, g)) continue;
    to->size += w->groups[other].size;
    to->inputs += w->groups[other].inputs;
    w->parent[other] = g;
  }
}

static void join_tail(walk *w, uint32_t op, uint32_t g) {
  group *to = &w->groups[g];
  join_others(w, op, g);
  to->inputs += outside(w, op, g);
  to->size++;
  to->last = op;
  to->views = false;
  w->parent[op] = g;
}

/* A view that joins values would have so many parts, those of the tree that `value` ends so small,
 * that setting up copies takes longer than copying: as kernels of a tree each core copies few. */
static bool scatters(const walk *w, uint32_t op, uint32_t value, uint32_t parts) {
  const group *tree = &w->groups[maker(w, value)];
  int64_t elements;
  return w->ops[op].operand_count > 1 && tree->inputs > 1 && parts > GROUP_MAX_PARTS &&
         wafer_shape_elements(&w->ops[value].shape, &elements) &&
         elements / tree->inputs <= GROUP_SMALL_PART;
}

/* Into how many parts the dims of x that are not of `moved` can be cut where x becomes y: a dim
 * that becomes several as the first of these, whatever else as it is. */
static int64_t parts_beside(const wafer_shape *x, const wafer_shape *y, uint32_t moved) {
  int64_t parts = 1;
  for (uint32_t i = 0, j = 0; i < x->rank && j < y->rank;) {
    bool one = x->dims[i] == 1; /* is in no group */
    if (one || y->dims[j] == 1) {
      i += one;
      j += !one;
      continue;
    }
    uint32_t first = i;
    int64_t left = x->dims[i++], right = y->dims[j++], least = right;
    while (left != right && (left < right ? i < x->rank : j < y->rank))
      if (left < right)
        left *= x->dims[i++];
      else
        right *= y->dims[j++];
    if (!(moved >> first & ((1u << (i - first)) - 1))) parts *= least;
  }
  return parts;
}

/* The dim that is joined or sliced had best be whole on each core, for else elements change cores;
 * but behind it comes a reshape that leaves so few parts of the other dims that it has to be cut.
 */
static bool crowds(const walk *w, uint32_t op, uint32_t value) {
  const group_op *view = &w->ops[op], *x = &w->ops[value];
  int64_t before = parts_beside(&x->shape, &x->shape, x->moved);
  if (view->op != WAFER_OP_reshape || !x->moved || before == 0) return false;
  int64_t behind = parts_beside(&x->shape, &view->shape, x->moved);
  return x->taken / behind > GROUP_ROOMY_PART && before >= 2 * behind;
}

/* Makes the view `op`, just founded, the root of the trees of views that end in its operands. */
static void join_views(walk *w, uint32_t op) {
  group *to = &w->groups[op];
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t value = w->ops[op].operands[k], g = maker(w, value);
    if (g == UINT32_MAX || g == op || w->uses[value] != 1) continue;
    const group *tree = &w->groups[g];
    if (!tree->views || tree->closed || crowds(w, op, value)) continue;
    if (to->size + to->inputs + tree->size + tree->inputs > GROUP_MAX_VIEWS) continue;
    if (scatters(w, op, value, to->inputs + tree->inputs - 1)) {
      w->scattered = true;
      if (!w->whole) continue;
    }
    to->size += tree->size;
    to->inputs += tree->inputs - 1;
    w->parent[g] = op;
  }
}

/* What is computed of pairs, say, is far more than they are and than what is wanted of it. */
static bool makes_much(const walk *w, const group *g, const group_op *reduction) {
  const group_op *anchor = &w->ops[g->anchor];
  int64_t made, wanted;
  return g->family == WAFER_FAMILY_map && wafer_shape_elements(&anchor->shape, &made) &&
         wafer_shape_elements(&reduction->shape, &wanted) && made > GROUP_ROOMY_PART &&
         made / GROUP_PAIRS >= anchor->taken && made / GROUP_PAIRS >= wanted;
}

/* Whether a reduction can follow an anchor on its cores: it is over places, and all of them, or of
 * what is too much to leave them. */
static bool reduction_joins(const walk *w, uint32_t op) {
  const group_op *is = &w->ops[op];
  uint32_t g = is->keeps ? maker(w, is->operands[0]) : UINT32_MAX;
  if (g == UINT32_MAX || w->groups[g].closed || w->groups[g].size == GROUP_MAX_OPS ||
      reads_reduction(w, op, g))
    return false;
  if (!(is->behind && is->keeps == 2) && !makes_much(w, &w->groups[g], is)) return false;
  wafer_family family = w->groups[g].family;
  return (family == WAFER_FAMILY_conv || family == WAFER_FAMILY_conv_transpose ||
          family == WAFER_FAMILY_pool || family == WAFER_FAMILY_map) &&
         wafer_shape_equal(&w->ops[is->operands[0]].shape, &w->ops[w->groups[g].anchor].shape);
}

static void close_others(walk *w, uint32_t op) {
  for (uint32_t k = 0; k < w->ops[op].operand_count; k++) {
    uint32_t g = maker(w, w->ops[op].operands[k]);
    if (g != UINT32_MAX && g != root(w, op)) w->groups[g].closed = true;
  }
}

static void visit(walk *w, uint32_t op) {
  uint32_t traits = wafer_op_get(w->ops[op].op)->traits;
  if (traits & WAFER_TRAIT_SOURCE) return;
  uint32_t tail = traits & WAFER_TRAIT_MAP ? find_tail(w, op) : UINT32_MAX;
  if (reduction_joins(w, op)) tail = maker(w, w->ops[op].operands[0]);
  if (tail != UINT32_MAX) {
    join_tail(w, op, tail);
  } else {
    found(w, op);
    if (traits & WAFER_TRAIT_VIEW) join_views(w, op);
  }
  close_others(w, op);
}

/* Numbers the groups by their last op. */
static void number(const walk *w, group *at, uint32_t *of, uint32_t *count) {
  uint32_t *final = w->uses; /* done with */
  for (uint32_t i = 0; i < w->count; i++) {
    if (is_source(w, i)) continue;
    uint32_t g = root(w, i);
    if (w->groups[g].last != i) continue;
    final[g] = *count;
    at[(*count)++] = w->groups[g];
  }
  for (uint32_t i = 0; i < w->count; i++) of[i] = is_source(w, i) ? UINT32_MAX : final[root(w, i)];
}

wafer_status group_ops(const wafer_diag *diag, wafer_arena *arena, uint32_t count,
                       const group_op *ops, bool whole, grouping *out) {
  *out = (grouping){0};
  walk w = {.count = count,
            .ops = ops,
            .whole = whole,
            .groups = WAFER_NEW(arena, group, count),
            .parent = WAFER_NEW(arena, uint32_t, count),
            .uses = WAFER_NEW(arena, uint32_t, count)};
  group *at = WAFER_NEW(arena, group, count);
  uint32_t *of = WAFER_NEW(arena, uint32_t, count);
  if (!w.groups || !w.parent || !w.uses || !at || !of)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "grouping %u ops", count);
  for (uint32_t i = 0; i < count; i++) w.parent[i] = i;
  count_uses(&w);
  for (uint32_t i = 0; i < count; i++) visit(&w, i);
  uint32_t groups = 0;
  number(&w, at, of, &groups);
  *out = (grouping){groups, at, of, w.scattered};
  return WAFER_OK;
}
