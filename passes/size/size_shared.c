/* The same cuts: kernels with weights are cut as their likes in other pieces can be.
 *
 * Where the rows of a product are cut into four parts a size of three rows cannot have its weights
 * so. A kernel's shapes are then those of its like with the least to cut, as far as all others can
 * have them; if that is too slow, of those with half as much to cut as it has, at least. */
#include <stdlib.h>
#include <string.h>

#include "size_peers.h"

/* What all that are like a kernel can cut, and the body of the one with the least. */
typedef struct common {
  wafer_loops loops;
  const wafer_kernel_body *least;
  bool shorter; /* than what the kernel has */
} common;

static int64_t work_of(const wafer_kernel_body *body) {
  wafer_loops loops;
  int64_t work = 1;
  wafer_kernel_loops(body, &loops);
  for (uint32_t i = 0; i < loops.count; i++)
    if (__builtin_mul_overflow(work, loops.extent[i], &work)) return INT64_MAX;
  return work;
}

/* Bodies with other loops are none of its likes; `half`: nor those with less than half of its own.
 */
static void shorten(common *c, const wafer_loops *own, const wafer_kernel_body *like, bool half) {
  wafer_loops other;
  wafer_kernel_loops(like, &other);
  if (other.count != own->count || other.parallel != own->parallel) return;
  for (uint32_t i = 0; half && i < own->count; i++)
    if (other.extent[i] < own->extent[i] - own->extent[i] / 2) return;
  for (uint32_t i = 0; i < c->loops.count; i++) {
    if (other.extent[i] >= c->loops.extent[i]) continue;
    c->loops.extent[i] = other.extent[i];
    c->shorter = true;
  }
  if (work_of(like) < work_of(c->least)) c->least = like;
}

static bool is_shared(const pipeline *p, const peer *of, uint32_t k, uint32_t input) {
  (void)of;
  return p->shared[k] && p->graph->kernels[k].body.input_is_weight[input];
}

static wafer_status find_common(const pipeline *p, bool half, common *all) {
  const wafer_graph *g = p->graph;
  peer with = {.like = WAFER_NEW(p->ctx->arena, uint32_t, g->kernel_count)};
  if (!with.like) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    wafer_kernel_loops(&g->kernels[k].body, &all[k].loops);
    all[k].least = &g->kernels[k].body;
  }
  for (uint32_t i = 0; i < g->peers->count; i++) {
    with.graph = &g->peers->at[i];
    WAFER_TRY(peer_match(p, &with));
    for (uint32_t k = 0; k < g->kernel_count; k++) {
      if (with.like[k] == WAFER_NONE || !size_has_weights(&g->kernels[k].body)) continue;
      const wafer_kernel_body *own = &g->kernels[k].body,
                              *like = &with.graph->kernels[with.like[k]].body;
      wafer_loops loops;
      wafer_kernel_loops(own, &loops);
      if (like->input_count == own->input_count) shorten(&all[k], &loops, like, half);
    }
  }
  return WAFER_OK;
}

static int by_cycles(const void *a, const void *b) {
  const wafer_shape_point *x = a, *y = b;
  const uint64_t left = (uint64_t)x->width * x->height, right = (uint64_t)y->width * y->height;
  if (x->cycles != y->cycles) return x->cycles < y->cycles ? -1 : 1;
  if (left != right) return left < right ? -1 : 1;
  return (x->width > y->width) - (x->width < y->width);
}

/* The shapes of kernel k that are cut so; *out NULL: there are none. */
static wafer_status find_curve(const pipeline *p, uint32_t k, const common *c,
                               const wafer_curve **out) {
  const uint64_t budget = wafer_machine_core_budget(p->ctx->machine);
  const wafer_kernel_body *own = &p->graph->kernels[k].body;
  const curve_query query = {.budget = budget, .words = pipeline_heaviest_stream(p, k)};
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, own->input_count + 1);
  const wafer_curve *from;
  uint32_t n = 0;
  *out = NULL;
  if (!depths) return pipeline_no_memory(p);
  pipeline_shallow_depths(p, k, depths);
  const wafer_kernel_body least = size_with_depths(c->least, depths),
                          body = size_with_depths(own, depths);
  WAFER_TRY(curve_of(p->ctx->diag, p->curves, &least, query, &from));
  wafer_shape_point *points = WAFER_NEW(p->ctx->arena, wafer_shape_point, from->count + 1);
  if (!points) return pipeline_no_memory(p);
  const split_body splits = curve_splits(p->curves, &body);
  for (size_t i = 0; i < from->count; i++) {
    if (!size_is_possible(&c->loops, &from->at[i].split)) continue;
    const split_cost cost = split_cost_find(&splits, &from->at[i].split);
    points[n] = from->at[i];
    points[n].cycles = cost.cycles;
    points[n].bytes = cost.bytes;
    n += cost.bytes <= budget;
  }
  qsort(points, n, sizeof *points, by_cycles);
  if (n && !(*out = curve_of_points(p->curves, p->curve[k], n, points)))
    return pipeline_no_memory(p);
  return WAFER_OK;
}

/* *some: there are cuts that not all pieces can have, and shapes without. */
static wafer_status open_shared(pipeline *p, bool half, bool *some) {
  const uint32_t n = p->graph->kernel_count;
  common *all = WAFER_NEW(p->ctx->arena, common, n);
  p->shared = WAFER_NEW(p->ctx->arena, const wafer_loops *, n);
  *some = false;
  if (!all || !p->shared) return pipeline_no_memory(p);
  WAFER_TRY(find_common(p, half, all));
  for (uint32_t k = 0; k < n; k++) {
    const wafer_curve *curve;
    if (!all[k].shorter) continue;
    WAFER_TRY(find_curve(p, k, &all[k], &curve));
    if (!curve) continue;
    p->curve[k] = curve;
    p->shared[k] = &all[k].loops;
    *some = true;
  }
  return WAFER_OK;
}

static wafer_status take(pipeline *p) {
  const uint32_t n = p->graph->kernel_count;
  shelf_place *places = wafer_arena_copy(p->ctx->arena, p->places, n * sizeof *places);
  if (!places) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) places[k].point = p->out->kernels[k].point;
  return pipeline_take(p, places);
}

/* What is settled stays, with all curves, if it is better. */
static wafer_status try_cuts(pipeline *p, bool half, bool *taken) {
  const shelf_place *own = p->places;
  const uint64_t latency = p->out->cost.latency_cycles;
  const size_t bytes = p->graph->kernel_count * sizeof *p->curve;
  const wafer_curve **curves = wafer_arena_copy(p->ctx->arena, p->curve, bytes);
  bool some, fits = false;
  *taken = false;
  if (!curves) return pipeline_no_memory(p);
  WAFER_TRY(open_shared(p, half, &some));
  if (some) WAFER_TRY(pipeline_lay_out(p, &fits));
  if (fits) *taken = peer_is_better(p, 0, latency, peer_load(p, NULL, is_shared));
  if (*taken) WAFER_TRY(take(p));
  memcpy(p->curve, curves, bytes);
  p->shared = NULL;
  return some && !*taken ? pipeline_settle(p, own) : WAFER_OK;
}

wafer_status pipeline_share_cuts(pipeline *p) {
  bool taken;
  WAFER_TRY(try_cuts(p, false, &taken));
  return taken ? WAFER_OK : try_cuts(p, true, &taken);
}
