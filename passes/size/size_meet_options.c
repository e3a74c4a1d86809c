/* Shapes that a pipeline's kernels may meet their neighbours with: some of the curve, few of a
 * kind, and such as have rows cut like those of a neighbour's option, producers first, then users.
 */
#include <string.h>

#include "size_meet.h"
#include "streams.h"

#define CURVE_OPTIONS 80 /* of a kernel */
#define LIKE_OPTIONS 150 /* with those like its producers' */
#define LIKE_WIDTHS 3    /* for rows cut like a neighbour's */
#define MOST_ROWS 256    /* ways to cut them that are tried */

wafer_holding meet_holding(const meet *m, const meet_option *o, uint32_t place, bool beside) {
  wafer_rect usable = m->p->ctx->machine->usable;
  wafer_rect r = {beside ? usable.width : usable.width - o->point->width,
                  (usable.height - o->point->height) / 2, o->point->width, o->point->height};
  return (wafer_holding){WAFER_AT_wafer, r, o->lie[place]};
}

/* ---- one option ---- */

/* What crosses the wafer's edge. */
static uint64_t edge_cycles(const meet *m, uint32_t k, const meet_option *o) {
  const wafer_graph *g = m->p->graph;
  const wafer_graph_kernel *kernel = &g->kernels[k];
  const wafer_machine *machine = m->p->ctx->machine;
  const wafer_holding edge = {.where = WAFER_AT_edge};
  uint32_t inputs = kernel->body.input_count;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < inputs; i++) {
    const wafer_graph_value *v = &g->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer != WAFER_NONE) continue;
    wafer_holding to = meet_holding(m, o, i, false);
    sum += stream_cycles(machine, &edge, &to, value_words(v, kernel->body.storage));
  }
  for (uint32_t i = 0; i < kernel->body.output_count; i++) {
    const wafer_graph_value *v = &g->values[kernel->outputs[i]];
    if (!wafer_graph_is_output(v)) continue;
    wafer_holding from = meet_holding(m, o, inputs + i, false);
    sum += stream_cycles(machine, &from, &edge, value_words(v, kernel->body.storage));
  }
  return sum;
}

static wafer_status add_option(const meet *m, uint32_t k, const wafer_shape_point *point) {
  meet_kernel *set = &m->kernels[k];
  meet_option *o = &set->at[set->count];
  *o = (meet_option){.point = point, .lie = curve_layouts(m->p->curves, &set->body, point)};
  if (!o->lie) return pipeline_no_memory(m->p);
  o->own = point->cycles + edge_cycles(m, k, o);
  set->count++;
  return WAFER_OK;
}

static bool has_split(const meet_kernel *set, const wafer_split *split) {
  for (uint32_t i = 0; i < set->count; i++)
    if (!memcmp(&set->at[i].point->split, split, sizeof *split)) return true;
  return false;
}

static bool allows(const meet *m, uint32_t k, const wafer_shape_point *point) {
  uint64_t words = m->p->kinds[m->p->kind_of[k]].words;
  return point->cycles <= m->t >> m->p->haste[k] && words <= m->t * point->height;
}

/* ---- of the curve ---- */

static uint32_t octave(uint32_t n) {
  return 31 - (uint32_t)__builtin_clz(n);
}

static uint32_t half_octave(uint32_t n) {
  uint32_t whole = octave(n);
  return 2 * whole + (whole ? n >> (whole - 1) & 1 : 0);
}

/* About as high and large, with the same loops cut over rows. */
static bool alike(const wafer_shape_point *a, const wafer_shape_point *b) {
  if (half_octave(a->height) != half_octave(b->height) ||
      octave(a->width * a->height) != octave(b->width * b->height))
    return false;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++)
    if ((a->split.rows[i] > 1) != (b->split.rows[i] > 1)) return false;
  return true;
}

/* Of those alike the fastest. */
static wafer_status add_curve(const meet *m, uint32_t k) {
  const wafer_curve *curve = m->p->curve[k];
  const meet_kernel *set = &m->kernels[k];
  for (size_t i = 0; i < curve->count && set->count < CURVE_OPTIONS / m->share; i++) {
    bool known = !allows(m, k, &curve->at[i]);
    for (uint32_t o = 0; o < set->count && !known; o++)
      known = alike(set->at[o].point, &curve->at[i]);
    if (!known) WAFER_TRY(add_option(m, k, &curve->at[i]));
  }
  return WAFER_OK;
}

/* ---- rows like a neighbour's ---- */

/* A kernel that is being given such rows. */
typedef struct likes {
  const meet *m;
  uint32_t kernel, most; /* options */
  wafer_loops loops;
  split_body body;
  uint32_t dim[WAFER_MAX_LOOPS]; /* of the value: the dim that the loop cuts, or WAFER_MAX_RANK */
  wafer_split *seen;
  uint32_t seen_count;
} likes;

static void find_dims(likes *l, uint32_t place) {
  const wafer_kernel_body *body = &l->m->kernels[l->kernel].body;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) l->dim[i] = size_dim_of(body, place, i);
}

/* Whether rows can be cut so that the value's dims are as in `want`. */
static bool rows_like(const likes *l, const wafer_layout *want, uint32_t height,
                      wafer_split *split) {
  bool taken[WAFER_MAX_RANK + 1] = {false};
  *split = size_uncut();
  for (uint32_t i = 0; i < l->loops.count; i++) {
    uint32_t d = l->dim[i];
    if (!l->loops.divisible[i] || d >= want->rank || taken[d]) continue;
    if (want->rows[d] > (uint64_t)l->loops.extent[i]) return false;
    split->rows[i] = want->rows[d];
    taken[d] = true;
  }
  return wafer_split_height(split) == height;
}

/* Whether every core has a part of every loop. */
static bool all_have_some(const wafer_loops *loops, const wafer_split *split) {
  for (uint32_t i = 0; i < loops->count; i++) {
    int64_t parts = (int64_t)split->rows[i] * split->cols[i], extent = loops->extent[i];
    int64_t tile = (extent + parts - 1) / parts;
    if (parts > 1 && (extent + tile - 1) / tile < parts) return false;
  }
  return true;
}

/* Whether a kernel cut so fits its cores and is fast enough; what it is like. */
static bool try_split(const likes *l, const wafer_split *split, wafer_shape_point *p) {
  const wafer_machine *machine = l->m->p->ctx->machine;
  *p = (wafer_shape_point){
      .split = *split, .width = wafer_split_width(split), .height = wafer_split_height(split)};
  if (p->height > machine->usable.height || p->width > machine->usable.width ||
      !all_have_some(&l->loops, split))
    return false;
  split_cost cost = split_cost_find(&l->body, split);
  p->cycles = cost.cycles;
  p->bytes = cost.bytes;
  return p->bytes <= wafer_machine_core_budget(machine) && allows(l->m, l->kernel, p) &&
         pipeline_is_lean(l->m->p, l->kernel, &l->m->kernels[l->kernel].body, split);
}

/* Parts that come next for a shape that was too slow: so many at least, none being faster than its
 * share of the work. */
static int64_t next_parts(int64_t parts, uint64_t cycles, uint64_t limit) {
  return parts == 1 && cycles > limit ? (int64_t)ceil_div(cycles, limit) : parts + 1;
}

/* One loop cut over columns: the narrowest shape of at most `limit` cycles. */
static bool narrowest(const likes *l, const wafer_split *rows, uint64_t limit,
                      wafer_shape_point *best) {
  const int64_t widest = l->m->p->ctx->machine->usable.width;
  bool any = false;
  for (uint32_t i = 0; i < l->loops.count; i++) {
    int64_t extent = l->loops.extent[i] / rows->rows[i], left = extent < widest ? extent : widest;
    if (!l->loops.divisible[i]) continue;
    wafer_shape_point p;
    for (int64_t parts = 1; parts <= left; parts = next_parts(parts, p.cycles, limit)) {
      wafer_split split = *rows;
      split.cols[i] = (uint32_t)parts;
      if (any && parts > best->width) break;
      if (!try_split(l, &split, &p) || p.cycles > limit) continue;
      if (!any || p.width < best->width || p.cycles < best->cycles) *best = p;
      any = true;
      break;
    }
  }
  return any;
}

/* Fast enough, twice as fast as that, and again. */
static wafer_status add_rows(const likes *l, const wafer_split *rows) {
  const meet_kernel *set = &l->m->kernels[l->kernel];
  uint64_t limit = l->m->t ? l->m->t : 1;
  for (int i = 0; i < LIKE_WIDTHS && set->count < l->most; i++) {
    wafer_shape_point best;
    if (!narrowest(l, rows, limit, &best)) break;
    limit = best.cycles / 2 ? best.cycles / 2 : 1;
    if (has_split(set, &best.split)) continue;
    const wafer_shape_point *kept = curve_keep_point(l->m->p->curves, l->body.signature, &best);
    if (!kept) return pipeline_no_memory(l->m->p);
    WAFER_TRY(add_option(l->m, l->kernel, kept));
  }
  return WAFER_OK;
}

/* As `other` leaves, or wants, the value at its place `there`; it is at `here` of the kernel. */
static wafer_status add_like(likes *l, uint32_t here, uint32_t other, uint32_t there) {
  const meet_kernel *from = &l->m->kernels[other];
  find_dims(l, here);
  for (uint32_t o = 0; o < from->count && l->seen_count < MOST_ROWS; o++) {
    wafer_split *split = &l->seen[l->seen_count];
    uint32_t s = 0;
    if (!rows_like(l, &from->at[o].lie[there], from->at[o].point->height, split)) continue;
    while (s < l->seen_count && memcmp(&l->seen[s], split, sizeof *split) != 0) s++;
    if (s < l->seen_count) continue;
    l->seen_count++;
    WAFER_TRY(add_rows(l, split));
  }
  return WAFER_OK;
}

static likes likes_of(const meet *m, uint32_t k, uint32_t most, wafer_split *seen) {
  likes l = {.m = m, .kernel = k, .most = most, .seen = seen};
  wafer_kernel_loops(&m->kernels[k].body, &l.loops);
  l.body = curve_splits(m->p->curves, &m->kernels[k].body);
  return l;
}

static wafer_status add_like_producers(const meet *m, uint32_t k, wafer_split *seen) {
  const wafer_graph *g = m->p->graph;
  const wafer_graph_kernel *kernel = &g->kernels[k];
  likes l = likes_of(m, k, LIKE_OPTIONS / m->share, seen);
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &g->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer == WAFER_NONE) continue;
    uint32_t there = g->kernels[v->producer].body.input_count + v->output;
    WAFER_TRY(add_like(&l, i, v->producer, there));
  }
  return WAFER_OK;
}

static wafer_status add_like_users(const meet *m, uint32_t k, wafer_split *seen) {
  const wafer_graph *g = m->p->graph;
  const wafer_graph_kernel *kernel = &g->kernels[k];
  likes l = likes_of(m, k, MEET_OPTIONS / m->share, seen);
  for (uint32_t i = 0; i < kernel->body.output_count; i++) {
    const wafer_graph_value *v = &g->values[kernel->outputs[i]];
    for (uint32_t u = 0; u < v->use_count; u++)
      WAFER_TRY(add_like(&l, kernel->body.input_count + i, v->uses[u].kernel, v->uses[u].input));
  }
  return WAFER_OK;
}

wafer_status meet_open_options(meet *m, const shelf_place *places) {
  uint32_t n = m->p->graph->kernel_count;
  wafer_arena *arena = m->p->ctx->arena;
  wafer_split *seen = WAFER_NEW(arena, wafer_split, MOST_ROWS);
  if (!seen) return pipeline_no_memory(m->p);
  for (uint32_t k = 0; k < n; k++) {
    meet_kernel *set = &m->kernels[k];
    set->body = size_with_depths(&m->p->graph->kernels[k].body, m->p->out->kernels[k].depths);
    set->at = WAFER_NEW(arena, meet_option, MEET_OPTIONS);
    if (!set->at) return pipeline_no_memory(m->p);
    const wafer_shape_point *first = places[k].point;
    WAFER_TRY(add_option(m, k, first ? first : &m->p->curve[k]->at[places[k].index]));
    WAFER_TRY(add_curve(m, k));
    WAFER_TRY(add_like_producers(m, k, seen));
  }
  for (uint32_t k = n; k-- > 0;) WAFER_TRY(add_like_users(m, k, seen));
  return WAFER_OK;
}
