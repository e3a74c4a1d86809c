/* The same places: a pipeline follows one that is laid out, kernel by kernel.
 *
 * One with weights takes the rectangle and the cut that its like has there, so that they lie alike;
 * any other the fastest shape that the rectangle of its like holds. Rectangles of one layout lie
 * apart, so all of this fits; what has no like there, or would be slow in its place, stands in free
 * cores near what it takes. */
#include "size_peers.h"
#include "size_room.h"
#include "streams.h"

/* Cycles, about, to free cores near by and back: a kernel takes at most so much longer where its
 * like is. */
#define WAY 64

typedef struct following {
  pipeline *p;
  const peer *leader;
} following;

static const wafer_graph_kernel *like_of(const following *f, uint32_t k) {
  return &f->leader->graph->kernels[f->leader->like[k]];
}

/* Whether the weights that are the same lie alike under both cuts. */
static bool lies_alike(const pipeline *p, const peer *leader, uint32_t k,
                       const wafer_split *split) {
  const wafer_kernel_body *body = &p->graph->kernels[k].body;
  const wafer_graph_kernel *like = &leader->graph->kernels[leader->like[k]];
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (!peer_has_weight(p, leader, k, i)) continue;
    const wafer_layout own = wafer_kernel_input_layout(body, split, i),
                       other = wafer_kernel_input_layout(&like->body, &like->split, i);
    if (!wafer_layout_equal(&own, &other)) return false;
  }
  return true;
}

/* ---- Shapes ---- */

/* The leader's cut itself; *out NULL: the kernel cannot be cut so, or its cores have no room. */
static wafer_status same_cut(const following *f, uint32_t k, const wafer_shape_point **out) {
  const pipeline *p = f->p;
  const wafer_graph_kernel *own = &p->graph->kernels[k], *like = like_of(f, k);
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, own->body.input_count + 1);
  wafer_loops loops;
  *out = NULL;
  if (!depths) return pipeline_no_memory(p);
  wafer_kernel_loops(&own->body, &loops);
  if (!size_is_possible(&loops, &like->split) || !lies_alike(p, f->leader, k, &like->split))
    return WAFER_OK;
  pipeline_shallow_depths(p, k, depths);
  const wafer_kernel_body body = size_with_depths(&own->body, depths);
  const split_body splits = curve_splits(p->curves, &body);
  const split_cost cost = split_cost_find(&splits, &like->split);
  const wafer_shape_point point = {like->split, like->rect.width, like->rect.height, cost.cycles,
                                   cost.bytes};
  if (cost.bytes > wafer_machine_core_budget(p->ctx->machine)) return WAFER_OK;
  *out = curve_keep_point(p->curves, splits.signature, &point);
  return *out ? WAFER_OK : pipeline_no_memory(p);
}

/* What a sample spends with a kernel: it computes, and its heaviest value passes its rows. */
static uint64_t spent(const pipeline *p, uint32_t k, const wafer_shape_point *at) {
  return at->cycles + ceil_div(pipeline_heaviest_stream(p, k), at->height);
}

/* *out NULL: none fits the place, or all are slow. */
static wafer_status find_shape(const following *f, uint32_t k, const wafer_shape_point **out) {
  const wafer_graph_kernel *own = &f->p->graph->kernels[k], *like = like_of(f, k);
  const wafer_curve *curve = f->p->curve[k];
  const bool weights = size_has_weights(&own->body);
  *out = NULL;
  if (weights || wafer_kernel_identity(&own->body) == wafer_kernel_identity(&like->body))
    WAFER_TRY(same_cut(f, k, out));
  for (size_t i = 0; !*out && weights && i < curve->count; i++)
    if (curve->at[i].width == like->rect.width && curve->at[i].height == like->rect.height &&
        lies_alike(f->p, f->leader, k, &curve->at[i].split))
      *out = &curve->at[i];
  if (*out) return WAFER_OK;
  for (size_t i = 0; i < curve->count; i++)
    if (curve->at[i].width <= like->rect.width && curve->at[i].height <= like->rect.height &&
        (!*out || spent(f->p, k, &curve->at[i]) < spent(f->p, k, *out)))
      *out = &curve->at[i];
  if (*out && spent(f->p, k, *out) > spent(f->p, k, f->p->out->kernels[k].point) + WAY) *out = NULL;
  return WAFER_OK;
}

/* ---- Places ---- */

static wafer_rect all_replicas(const shelf_place *place) {
  wafer_rect all = place->rect;
  all.width *= place->replicas;
  return all;
}

/* Where a kernel takes a value from; if from none that has a place, where one is that takes from
 * it.
 */
static wafer_rect neighbour_of(const pipeline *p, const shelf_place *places, uint32_t k) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const uint32_t producer = pipeline_producer(p, k, i);
    if (producer != WAFER_NONE && places[producer].point) return places[producer].rect;
  }
  for (uint32_t o = 0; o < kernel->body.output_count; o++) {
    const wafer_graph_value *v = &p->graph->values[kernel->outputs[o]];
    for (uint32_t u = 0; u < v->use_count; u++)
      if (places[v->uses[u].kernel].point) return places[v->uses[u].kernel].rect;
  }
  return p->ctx->machine->usable;
}

/* The fastest shape of at most so many cores; NULL: there is none. */
static const wafer_shape_point *fastest_of(const pipeline *p, uint32_t k, uint64_t cores) {
  const wafer_curve *curve = p->curve[k];
  const wafer_shape_point *best = NULL;
  for (size_t i = 0; i < curve->count; i++)
    if ((uint64_t)curve->at[i].width * curve->at[i].height <= cores &&
        (!best || spent(p, k, &curve->at[i]) < spent(p, k, best)))
      best = &curve->at[i];
  return best;
}

/* As it is shaped now, or with half as many cores, and again, where there is room near by. */
static bool put_near(const pipeline *p, uint32_t k, const room *r, wafer_rect near,
                     shelf_place *place) {
  const uint32_t replicas = p->out->kernels[k].replicas;
  const wafer_shape_point *at = p->out->kernels[k].point;
  wafer_rect rect;
  while (at && !room_find(r, at->width * replicas, at->height, near, &rect))
    at = fastest_of(p, k, (uint64_t)at->width * at->height / 2);
  if (!at) return false;
  rect.width = at->width;
  *place = (shelf_place){.rect = rect, .replicas = replicas, .point = at};
  return true;
}

/* Those that have no place yet, near what they take. */
static wafer_status put_others(const pipeline *p, shelf_place *places, bool *fits) {
  room r;
  if (!room_open(p->ctx->arena, p->ctx->machine, &r)) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (places[k].point) room_cover(&r, all_replicas(&places[k]), true);
  *fits = true;
  for (uint32_t k = 0; *fits && k < p->graph->kernel_count; k++) {
    if (places[k].point) continue;
    room_count(&r);
    *fits = put_near(p, k, &r, neighbour_of(p, places, k), &places[k]);
    if (*fits) room_cover(&r, all_replicas(&places[k]), true);
  }
  return WAFER_OK;
}

static wafer_status put_all(const following *f, shelf_place *places, bool *fits) {
  for (uint32_t k = 0; k < f->p->graph->kernel_count; k++) {
    const wafer_shape_point *point;
    if (f->leader->like[k] == WAFER_NONE) continue;
    WAFER_TRY(find_shape(f, k, &point));
    if (!point) continue;
    const wafer_graph_kernel *like = like_of(f, k);
    places[k] = (shelf_place){.rect = {like->rect.x, like->rect.y, point->width, point->height},
                              .replicas = like->replicas,
                              .point = point};
  }
  return put_others(f->p, places, fits);
}

/* Whether, as kernels lie now, a weight is not where the leader has it. */
static bool is_missing(const pipeline *p, const peer *leader, uint32_t k, uint32_t input) {
  const sized_kernel *own = &p->out->kernels[k];
  if (!peer_has_weight(p, leader, k, input)) return true;
  const wafer_graph_kernel *like = &leader->graph->kernels[leader->like[k]];
  return !wafer_rect_equal(p->places[k].rect, like->rect) || own->replicas != like->replicas ||
         !lies_alike(p, leader, k, &own->point->split);
}

wafer_status pipeline_follow(pipeline *p, const peer *leader, bool *taken) {
  const following f = {p, leader};
  const shelf_place *own = p->places;
  shelf_place *places = WAFER_NEW(p->ctx->arena, shelf_place, p->graph->kernel_count);
  const uint64_t latency = p->out->cost.latency_cycles, load = peer_load(p, leader, is_missing);
  bool fits;
  *taken = false;
  if (!places) return pipeline_no_memory(p);
  WAFER_TRY(put_all(&f, places, &fits));
  if (!fits) return WAFER_OK;
  WAFER_TRY(pipeline_settle(p, places));
  *taken = peer_is_better(p, peer_load(p, leader, is_missing), latency, load);
  return *taken ? pipeline_take(p, places) : pipeline_settle(p, own);
}
