/* Reshapes: dims that are merged or divided are seen as one, whose parts are runs of indices. */
#include <string.h>

#include "program_build.h"

/* Dims first .. end - 1 of a spread, one inside the other in its buffer. */
typedef struct dim_range {
  program *p;
  const spread *s;
  uint32_t first, end;
} dim_range;

static uint32_t *merged_kinds(const dim_range *g, bool rows, uint32_t *kinds) {
  uint32_t n = rows ? g->p->r->rect.height : g->p->r->rect.width;
  uint32_t *kind = WAFER_NEW(g->p->arena, uint32_t, n);
  *kinds = 1;
  for (uint32_t d = g->first; kind && d < g->end; d++) {
    const spread_dim *dim = &g->s->dim[d];
    uint32_t own = rows ? dim->rows : dim->cols;
    for (uint32_t i = 0; i < n; i++) kind[i] = kind[i] * own + (rows ? dim->row : dim->col)[i];
    *kinds *= own;
  }
  return kind;
}

/* The part of each dim for a pair of merged kinds. False: the core holds nothing. */
static bool parts_of(const dim_range *g, uint32_t row, uint32_t col, const spread_part **part) {
  for (uint32_t d = g->end; d-- > g->first;) {
    const spread_dim *dim = &g->s->dim[d];
    part[d] = &dim->part[row % dim->rows * dim->cols + col % dim->cols];
    row /= dim->rows;
    col /= dim->cols;
    if (!part[d]->count) return false;
  }
  return true;
}

typedef struct run_list {
  spread_run *at; /* NULL: only counted */
  uint32_t count;
  spread_run last;
} run_list;

static void put_run(run_list *list, int64_t lo, int64_t n, int64_t at) {
  if (list->count && list->last.hi == lo && list->last.at + (lo - list->last.lo) == at) {
    list->last.hi += (int32_t)n;
  } else {
    list->last = (spread_run){(int32_t)lo, (int32_t)(lo + n), (int32_t)at};
    list->count++;
  }
  if (list->at) list->at[list->count - 1] = list->last;
}

/* `lo`, `at`: of the index so far, in the tensor and in the buffer. */
static void walk(const dim_range *g, const spread_part **part, uint32_t d, int64_t lo, int64_t at,
                 run_list *list) {
  const spread_dim *dim = &g->s->dim[d];
  for (uint32_t r = 0; r < part[d]->count; r++) {
    const spread_run *run = &part[d]->runs[r];
    if (d + 1 == g->end) {
      put_run(list, lo * dim->extent + run->lo, run->hi - run->lo, at * dim->buffer + run->at);
      continue;
    }
    for (int32_t i = run->lo; i < run->hi; i++)
      walk(g, part, d + 1, lo * dim->extent + i, at * dim->buffer + run->at + i - run->lo, list);
  }
}

static bool merge(const dim_range *g, spread_dim *out) {
  *out = (spread_dim){.extent = 1, .buffer = 1, .stride = g->s->dim[g->end - 1].stride};
  for (uint32_t d = g->first; d < g->end; d++) {
    out->extent *= g->s->dim[d].extent;
    out->buffer *= g->s->dim[d].buffer;
  }
  out->row = merged_kinds(g, true, &out->rows);
  out->col = merged_kinds(g, false, &out->cols);
  out->part = WAFER_NEW(g->p->arena, spread_part, (size_t)out->rows * out->cols);
  if (!out->row || !out->col || !out->part) return false;
  for (uint32_t r = 0; r < out->rows; r++)
    for (uint32_t c = 0; c < out->cols; c++) {
      const spread_part *part[WAFER_MAX_RANK];
      run_list list = {0};
      if (!parts_of(g, r, c, part)) continue;
      walk(g, part, g->first, 0, 0, &list);
      spread_run *runs = WAFER_NEW(g->p->arena, spread_run, list.count);
      if (!runs) return false;
      out->part[r * out->cols + c] = (spread_part){list.count, runs};
      list = (run_list){.at = runs};
      walk(g, part, g->first, 0, 0, &list);
    }
  return true;
}

static bool is_nested(const spread *s, uint32_t first, uint32_t end) {
  for (uint32_t d = first; d + 1 < end; d++)
    if (s->dim[d].buffer > 1 &&
        s->dim[d].stride != (int64_t)s->dim[d + 1].stride * s->dim[d + 1].buffer)
      return false;
  return true;
}

wafer_status program_merge(program *p, const spread *s, uint32_t first, uint32_t end, spread *out) {
  dim_range g = {p, s, first, end};
  spread merged = *s;
  if (!is_nested(s, first, end))
    return program_refuse(p, "dims that it merges do not lie one inside the other");
  if (!merge(&g, &merged.dim[first])) return program_no_memory(p);
  for (uint32_t d = end; d < s->rank; d++) merged.dim[d - (end - first) + 1] = s->dim[d];
  merged.rank = s->rank - (end - first) + 1;
  *out = merged;
  return WAFER_OK;
}

spread *program_ranked(program *p, const spread *s) {
  spread *out = wafer_arena_copy(p->arena, s, sizeof *s);
  if (!out || s->rank > 0) return out;
  spread_run *run = WAFER_NEW(p->arena, spread_run, 1);
  spread_part *part = WAFER_NEW(p->arena, spread_part, 1);
  if (!run || !part) return NULL;
  *run = (spread_run){0, 1, 0};
  *part = (spread_part){1, run};
  out->rank = 1;
  out->dim[0] = (spread_dim){.extent = 1,
                             .buffer = 1,
                             .stride = (int32_t)wafer_dtype_bytes(s->dtype),
                             .rows = 1,
                             .cols = 1,
                             .row = p->nowhere,
                             .col = p->nowhere,
                             .part = part};
  return out;
}

/* ---- Both sides of a reshape ---- */

static void emit_copy(const program_site *s) {
  bool same = s->step->out->dtype == s->step->in[0].at->dtype;
  nest n = program_nest_over(same ? WAFER_CORE_move : WAFER_CORE_convert, 1, s->step->out, &s->out);
  nest_place(&n, 1, s->step->in[0].at, &s->in[0]);
  nest_emit(s->code, &n);
}

/* `s` row-major: itself, or a copy. */
static wafer_status row_major(program *p, const spread *s, spread *out) {
  *out = *s;
  if (is_nested(s, 0, s->rank)) return WAFER_OK;
  spread_pack(out);
  WAFER_TRY(program_reserve(p, out, 0, p->node));
  spread *copy = WAFER_NEW(p->arena, spread, 1);
  if (!copy) return program_no_memory(p);
  *copy = *out;
  program_step step = program_step_of(p->node, copy, emit_copy);
  step.in_count = 1;
  step.in[0] = program_own(s);
  return program_add(p, &step);
}

static wafer_status add_group(program *p, const spread *s, uint32_t first, uint32_t end,
                              spread *out) {
  spread merged;
  if (end == first + 1) {
    out->dim[out->rank++] = s->dim[first];
    return WAFER_OK;
  }
  WAFER_TRY(program_merge(p, s, first, end, &merged));
  out->dim[out->rank++] = merged.dim[first];
  return WAFER_OK;
}

/* ---- Dims that divide ---- */

/* Dim d of `s` as two, if all parts are whole turns of the inner one. */
static bool divide(program *p, spread *s, uint32_t d, int64_t inner) {
  spread_dim *dim = &s->dim[d], outer = *dim, turn;
  uint32_t parts = dim->rows * dim->cols;
  if (s->rank == WAFER_MAX_RANK || dim->extent % inner || dim->buffer % inner) return false;
  spread_run *runs = WAFER_NEW(p->arena, spread_run, parts),
             *whole = WAFER_NEW(p->arena, spread_run, 1);
  outer.part = WAFER_NEW(p->arena, spread_part, parts);
  turn = (spread_dim){.extent = inner,
                      .buffer = (int32_t)inner,
                      .stride = dim->stride,
                      .rows = 1,
                      .cols = 1,
                      .row = p->nowhere,
                      .col = p->nowhere,
                      .part = WAFER_NEW(p->arena, spread_part, 1)};
  if (!runs || !whole || !outer.part || !turn.part) return false;
  for (uint32_t i = 0; i < parts; i++) {
    const spread_part *part = &dim->part[i];
    if (part->count > 1) return false;
    if (!part->count) continue;
    const spread_run *r = part->runs;
    if (r->lo % inner || r->hi % inner || r->at % inner) return false;
    runs[i] = (spread_run){r->lo / (int32_t)inner, r->hi / (int32_t)inner, r->at / (int32_t)inner};
    outer.part[i] = (spread_part){1, &runs[i]};
  }
  *whole = (spread_run){0, (int32_t)inner, 0};
  turn.part[0] = (spread_part){1, whole};
  outer.extent /= inner;
  outer.buffer /= (int32_t)inner;
  outer.stride *= (int32_t)inner;
  for (uint32_t e = s->rank++; e > d; e--) s->dim[e] = s->dim[e - 1];
  s->dim[d] = outer;
  s->dim[d + 1] = turn;
  return true;
}

/* From the innermost dims: divides what can be divided until dims of both sides are equal, as far
 * as that goes. */
static void divide_both(program *p, spread *x, spread *y) {
  uint32_t i = x->rank, j = y->rank;
  while (i > 0 && j > 0) {
    int64_t left = x->dim[i - 1].extent, right = y->dim[j - 1].extent;
    if (left == right) {
      i--, j--;
    } else if (left == 1) {
      i--;
    } else if (right == 1) {
      j--;
    } else if (left > right && divide(p, x, i - 1, right)) {
      j--; /* the inner one of x's two is done, the outer one stands at i - 1 */
    } else if (right > left && divide(p, y, j - 1, left)) {
      i--;
    } else {
      return;
    }
  }
}

/* Shortest runs of dims on either side with equal products; what is left over joins the last. */
static wafer_status merge_both(program *p, const spread *x, const spread *y, spread *from,
                               spread *to) {
  uint32_t i = 0, j = 0;
  *from = *x;
  *to = *y;
  from->rank = to->rank = 0;
  while (i < x->rank && j < y->rank) {
    uint32_t a = i, b = j;
    int64_t left = x->dim[i++].extent, right = y->dim[j++].extent;
    while (left != right && (left < right ? i < x->rank : j < y->rank)) {
      if (left < right)
        left *= x->dim[i++].extent;
      else
        right *= y->dim[j++].extent;
    }
    while (i < x->rank && (x->dim[i].extent == 1 || j == y->rank)) i++;
    while (j < y->rank && (y->dim[j].extent == 1 || i == x->rank)) j++;
    WAFER_TRY(add_group(p, x, a, i, from));
    WAFER_TRY(add_group(p, y, b, j, to));
  }
  return WAFER_OK;
}

wafer_status program_reshape(program *p, uint32_t node, spread *result) {
  const spread *x = program_ranked(p, p->value[p->body->nodes[node].operands[0]]);
  spread *out = program_ranked(p, result);
  spread dense, from, to, *landing;
  if (!x || !out) return program_no_memory(p);
  for (uint32_t d = 0; d < out->rank; d++)
    if (out->dim[d].extent == 0) return WAFER_OK; /* nothing to move */
  WAFER_TRY(program_sums(p, node, out, x->dtype, &landing));
  WAFER_TRY(row_major(p, x, &dense));
  spread target = *landing;
  bool copies = !is_nested(landing, 0, landing->rank);
  if (copies) {
    spread_pack(&target);
    WAFER_TRY(program_reserve(p, &target, 0, node));
  }
  spread seen = target;
  divide_both(p, &dense, &seen);
  WAFER_TRY(merge_both(p, &dense, &seen, &from, &to));
  WAFER_TRY(program_exchange(p, &from, &to, NULL));
  if (!copies && landing->dtype == out->dtype) return WAFER_OK;
  spread *made = WAFER_NEW(p->arena, spread, 1);
  if (!made) return program_no_memory(p);
  *made = target;
  program_step step = program_step_of(node, out, emit_copy);
  step.in_count = 1;
  step.in[0] = program_own(made);
  return program_add(p, &step);
}
