/* What the placement engine is asked: free rectangles of the wafer, the kernels that go to each,
 * and for each the problem that is left. */
#include <math.h>
#include <string.h>

#include "size_best.h"
#include "streams.h"

#define LEAST_PART 16 /* areas smaller than this part of the largest are left alone */
#define NEAR 64       /* the time at which kernels are dealt out is so exact a part of itself */

wafer_rect search_all_replicas(const shelf_place *at) {
  wafer_rect all = at->rect;
  if (at->replicas) all.width *= at->replicas;
  return all;
}

shelf_place search_pinned(const pipeline *p, uint32_t k) {
  const wafer_pin *pin = p->pin[k];
  return (shelf_place){0, pin->rect, pin->replicas, p->pinned[k]};
}

/* ---- Free rectangles ---- */

/* From north to south, and from west to east. */
static void add_area(search *s, wafer_rect r) {
  uint32_t at = s->area_count++;
  for (; at > 0; at--) {
    wafer_rect before = s->areas[at - 1].rect;
    if (before.y < r.y || (before.y == r.y && before.x < r.x)) break;
    s->areas[at] = s->areas[at - 1];
  }
  s->areas[at] = (search_area){.rect = r, .fill = 1};
}

/* The largest, then the largest of what is left. */
static wafer_status find_free(search *s, wafer_machine *m, wafer_rect *taken, uint32_t count) {
  uint64_t largest = 0;
  while (s->area_count < SEARCH_AREAS) {
    wafer_rect r;
    m->reserved_count = count;
    if (!size_whole_wafer(m, &r)) return pipeline_no_memory(s->p);
    uint64_t cores = wafer_rect_area(r);
    if (cores == 0 || cores < largest / LEAST_PART) break;
    largest = max_u64(largest, cores);
    add_area(s, r);
    taken[count++] = r;
  }
  return WAFER_OK;
}

wafer_status search_find_areas(search *s) {
  const pipeline *p = s->p;
  wafer_machine m = *p->ctx->machine;
  uint32_t n = p->graph->kernel_count, count = m.reserved_count;
  wafer_rect *taken = WAFER_NEW(p->ctx->arena, wafer_rect, (size_t)count + n + SEARCH_AREAS);
  s->item = WAFER_NEW(p->ctx->arena, uint32_t, n);
  if (!taken || !s->item) return pipeline_no_memory(p);
  if (count) memcpy(taken, m.reserved, count * sizeof *taken);
  m.reserved = taken;
  for (uint32_t k = 0; k < n; k++) {
    if (!search_is_pinned(p, k)) {
      s->item[s->item_count++] = k;
      continue;
    }
    shelf_place at = search_pinned(p, k);
    taken[count++] = search_all_replicas(&at);
  }
  return s->item_count ? find_free(s, &m, taken, count) : WAFER_OK;
}

/* ---- Kernels to rectangles ---- */

/* Fewest cores in the rectangle on which a kind takes at most t cycles a sample; UINT64_MAX: it
 * cannot. */
static uint64_t least_cores(const search *s, const kind *of, uint64_t t, wafer_rect r) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; t && i < of->curve->count; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    uint64_t copies = max_u64((at->cycles + t - 1) / t, 1), width = copies * at->width;
    if (copies > s->replicas || width > r.width || at->height > r.height) continue;
    if (of->words > t * at->height) continue;
    if (width * at->height < least) least = width * at->height;
  }
  return least;
}

/* Fills one area after the other; false when kernels are left over. */
static bool deal_at(search *s, uint64_t t) {
  const pipeline *p = s->p;
  uint32_t a = 0, i = 0;
  for (; a < s->area_count; a++) {
    search_area *area = &s->areas[a];
    double room = area->fill * (double)wafer_rect_area(area->rect);
    area->first = i;
    for (; i < s->item_count; i++) {
      uint64_t cores = least_cores(s, &p->kinds[p->kind_of[s->item[i]]], t, area->rect);
      if ((double)cores > room) break;
      room -= (double)cores;
    }
    area->count = i - area->first;
  }
  return i == s->item_count;
}

static void largest_alone(search *s) {
  search_area largest = s->areas[0];
  for (uint32_t a = 1; a < s->area_count; a++)
    if (wafer_rect_area(s->areas[a].rect) > wafer_rect_area(largest.rect)) largest = s->areas[a];
  largest.first = 0;
  largest.count = s->item_count;
  s->areas[0] = largest;
  s->area_count = 1;
}

void search_deal(search *s) {
  const pipeline *p = s->p;
  uint64_t low = 0, high = p->cycle_count ? p->cycles[p->cycle_count - 1] : 0;
  if (s->area_count > 1 && deal_at(s, high)) { /* low does not do, high does */
    while (high - low > 1 + low / NEAR) {
      uint64_t mid = low + (high - low) / 2;
      if (deal_at(s, mid))
        high = mid;
      else
        low = mid;
    }
    (void)deal_at(s, high);
    return;
  }
  largest_alone(s);
}

/* What an area of one kernel takes does not change, only whose it is. */
void search_even_out(search *s) {
  double mean = 0;
  for (uint32_t a = 0; a < s->area_count; a++)
    if (s->areas[a].count) mean += (double)s->areas[a].time * s->areas[a].count / s->item_count;
  for (uint32_t a = 0; a < s->area_count; a++)
    if (s->areas[a].count > 1)
      s->areas[a].fill =
          fmin(1, s->areas[a].fill * sqrt(mean / (double)max_u64(s->areas[a].time, 1)));
}

/* ---- The problem of one of them ---- */

/* Cycles of a sample on `copies` of a point of the curve; UINT64_MAX copies: on as many as there
 * could be. UINT64_MAX: more than there are numbers for. */
static uint64_t time_on(const search *s, const kind *of, const wafer_shape_point *point,
                        uint64_t copies) {
  uint64_t stream = (of->words + point->height - 1) / point->height;
  uint64_t time = max_u64(point->cycles / copies + (point->cycles % copies > 0), stream);
  if (time > UINT64_MAX >> (of->haste + 16)) return UINT64_MAX;
  time = max_u64(time << of->haste, s->floor);
  if (!of->patience) return time;
  return max_u64(time, (point->cycles * SIZE_PATIENCE + of->patience - 1) / of->patience);
}

/* One replica of a point of the curve, then more where they gain; their number. `at` may be NULL.
 * The tag is the point, and from bit 32 the replicas. */
static uint32_t point_shapes(const search *s, const kind *of, size_t i, uint32_t width,
                             wafer_placer_shape *at) {
  const wafer_shape_point *point = &of->curve->at[i];
  const uint64_t least = time_on(s, of, point, UINT64_MAX);
  uint64_t last = UINT64_MAX;
  uint32_t n = 0;
  for (uint32_t r = 1; r <= s->replicas && point->width * r <= width && last > least; r++) {
    uint64_t time = time_on(s, of, point, r);
    if (time == last) continue; /* in whole cycles, one more may gain nothing where two do */
    last = time;
    if (at)
      at[n] = (wafer_placer_shape){point->width * r, point->height, time, (uint64_t)r << 32 | i};
    n++;
  }
  return n;
}

static wafer_status kind_shapes(const search *s, const kind *of, wafer_rect in,
                                wafer_placer_shapes *out) {
  wafer_arena *arena = s->p->ctx->arena;
  uint32_t n = 0;
  for (size_t i = 0; i < of->curve->count; i++) n += point_shapes(s, of, i, in.width, NULL);
  wafer_placer_shape *at = WAFER_NEW(arena, wafer_placer_shape, n);
  if (!at) return pipeline_no_memory(s->p);
  n = 0;
  for (size_t i = 0; i < of->curve->count; i++) n += point_shapes(s, of, i, in.width, at + n);
  if (!wafer_placer_pareto(&n, at, in.width, in.height, false, arena))
    return pipeline_no_memory(s->p);
  *out = (wafer_placer_shapes){n, at};
  return WAFER_OK;
}

/* Wires that cross the whole wafer weigh as much as a hundredth of the interval at most, unless
 * they are what is wanted. */
static double wire_weight(const search *s, const wafer_placer_problem *q) {
  double longest = (double)(q->edge_count + 1) * (q->width + q->height);
  double interval = (double)max_u64(s->p->out->cost.interval_cycles, 1);
  bool fast = size_objective(s->p->ctx, s->p->graph) == WAFER_OBJECTIVE_throughput;
  return (fast ? 0.01 : 1) * interval / longest;
}

/* What stands elsewhere, seen from the area: pinned, or on another area, where its place may not be
 * known yet. */
static wafer_placer_terminal terminal_of(const search *s, const search_area *area, uint32_t kernel,
                                         uint32_t item) {
  wafer_rect r;
  if (search_is_pinned(s->p, kernel)) {
    shelf_place at = search_pinned(s->p, kernel);
    r = search_all_replicas(&at);
  } else if (s->start) {
    const wafer_placed *at = &s->start[item];
    r = (wafer_rect){at->x, at->y, at->width, at->height};
  } else {
    const search_area *on = s->areas;
    while (item - on->first >= on->count) on++;
    r = on->rect;
  }
  return (wafer_placer_terminal){2 * (int32_t)r.x + (int32_t)r.width - 2 * (int32_t)area->rect.x,
                                 2 * (int32_t)r.y + (int32_t)r.height - 2 * (int32_t)area->rect.y};
}

/* Edges between what the area has, and from there to what stands still. */
static wafer_status list_edges(const search *s, const search_area *area,
                               wafer_placer_problem *out) {
  const pipeline *p = s->p;
  uint32_t n = p->graph->kernel_count, edges = 0, item = 0;
  uint32_t *index = WAFER_NEW(p->ctx->arena, uint32_t, n);
  wafer_placer_terminal *terminals = WAFER_NEW(p->ctx->arena, wafer_placer_terminal, n);
  wafer_placer_edge *between = WAFER_NEW(p->ctx->arena, wafer_placer_edge, s->edge_count);
  if (!index || !terminals || !between) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = search_is_pinned(p, k) ? WAFER_NONE : item++;
    if (i != WAFER_NONE && i - area->first < area->count) {
      index[k] = i - area->first;
      continue;
    }
    terminals[out->terminal_count] = terminal_of(s, area, k, i);
    index[k] = area->count + out->terminal_count++;
  }
  for (uint32_t e = 0; e < s->edge_count; e++) {
    wafer_placer_edge edge = {index[s->edges[e].from], index[s->edges[e].to], s->edges[e].weight};
    if (edge.from < area->count || edge.to < area->count) between[edges++] = edge;
  }
  out->edges = between;
  out->edge_count = edges;
  out->terminals = terminals;
  return WAFER_OK;
}

wafer_status search_problem(search *s, const search_area *area, wafer_placer_problem *out) {
  const pipeline *p = s->p;
  uint32_t *kind_of = WAFER_NEW(p->ctx->arena, uint32_t, area->count);
  wafer_placer_shapes *kinds = WAFER_NEW(p->ctx->arena, wafer_placer_shapes, p->kind_count);
  if (!kind_of || !kinds) return pipeline_no_memory(p);
  for (uint32_t i = 0; i < area->count; i++) kind_of[i] = p->kind_of[s->item[area->first + i]];
  for (uint32_t k = 0; k < p->kind_count; k++)
    WAFER_TRY(kind_shapes(s, &p->kinds[k], area->rect, &kinds[k]));
  *out = (wafer_placer_problem){.width = area->rect.width,
                                .height = area->rect.height,
                                .kind_count = p->kind_count,
                                .count = area->count,
                                .kinds = kinds,
                                .kind = kind_of,
                                .time_weight = 1};
  WAFER_TRY(list_edges(s, area, out));
  out->wire_weight = wire_weight(s, out);
  return WAFER_OK;
}
