/* Pins: kernels of a pipeline that have their shape and place, by order or kept from an earlier
 * plan. The rest is packed around them. What is kept is a wish: where the rest does not fit, the
 * kept kernels nearest in the order to a free one are freed too, ever more of them. */
#include <inttypes.h>
#include <string.h>

#include "size_pipelined.h"

#define NEAREST 4 /* shapes named when one is not on a curve */

/* ---- Which kernel a pin means ---- */

static bool computes(const wafer_graph_kernel *k, const char *node) {
  for (uint32_t i = 0; i < k->body.node_count; i++)
    if (k->body.nodes[i].name && !strcmp(k->body.nodes[i].name, node)) return true;
  return false;
}

/* By its name, else by the node it is anchored on, else by any of its nodes. */
uint32_t size_find_kernel(const wafer_graph *g, const char *name) {
  for (uint32_t k = 0; k < g->kernel_count; k++)
    if (!strcmp(g->kernels[k].name, name)) return k;
  for (uint32_t k = 0; k < g->kernel_count; k++)
    if (g->kernels[k].node && !strcmp(g->kernels[k].node, name)) return k;
  for (uint32_t k = 0; k < g->kernel_count; k++)
    if (computes(&g->kernels[k], name)) return k;
  return WAFER_NONE;
}

static wafer_status unknown(const pipeline *p, const wafer_pin *pin) {
  const char *some = "";
  const wafer_graph *g = p->graph;
  for (uint32_t k = 0; k < g->kernel_count && k < 8 && some; k++)
    some = wafer_arena_printf(p->ctx->arena, "%s%s %s", some, k ? "," : "", g->kernels[k].name);
  wafer_loc loc = wafer_at_file(g->kernel_count ? g->kernels[0].loc.file : NULL);
  return wafer_fail(p->ctx->diag, loc, WAFER_USAGE,
                    "no kernel or ONNX node is named '%s'; there are %u kernels:%s%s", pin->kernel,
                    g->kernel_count, some ? some : "", g->kernel_count > 8 ? ", ..." : "");
}

/* ---- Is it a place? ---- */

static bool inside(wafer_rect outer, wafer_rect r) {
  return r.width && r.height && wafer_rect_within(r, outer);
}

/* The cores of all replicas. */
static wafer_rect cores_of(const wafer_pin *pin) {
  wafer_rect r = pin->rect;
  uint64_t width = (uint64_t)r.width * (pin->replicas ? pin->replicas : 1);
  r.width = width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
  return r;
}

/* What a rectangle lies on that it must not, as words; NULL: nothing. */
static const char *taken(const pipeline *p, wafer_rect r) {
  const wafer_machine *m = p->ctx->machine;
  for (uint32_t i = 0; i < m->dead_count; i++)
    if (wafer_rect_overlaps(r, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1}))
      return wafer_arena_printf(p->ctx->arena, "the dead core (%u, %u)", m->dead[i].x,
                                m->dead[i].y);
  for (uint32_t i = 0; i < m->reserved_count; i++)
    if (wafer_rect_overlaps(r, m->reserved[i]))
      return wafer_arena_printf(p->ctx->arena, "the reserved cores at (%u, %u)", m->reserved[i].x,
                                m->reserved[i].y);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (p->pin[k] && wafer_rect_overlaps(r, cores_of(p->pin[k])))
      return wafer_arena_printf(p->ctx->arena, "kernel '%s', pinned to %u,%u,%u,%u",
                                p->graph->kernels[k].name, p->pin[k]->rect.x, p->pin[k]->rect.y,
                                p->pin[k]->rect.width, p->pin[k]->rect.height);
  return NULL;
}

static wafer_status bad_place(const pipeline *p, uint32_t k, const wafer_pin *pin) {
  wafer_rect u = p->ctx->machine->usable;
  const char *on = inside(u, cores_of(pin)) ? taken(p, cores_of(pin)) : NULL;
  if (on)
    return wafer_fail(p->ctx->diag, p->graph->kernels[k].loc, WAFER_NO_FIT,
                      "kernel '%s' cannot be pinned to %u,%u,%u,%u: it would lie on %s",
                      p->graph->kernels[k].name, pin->rect.x, pin->rect.y, pin->rect.width,
                      pin->rect.height, on);
  const bool band = p->ctx->machine->whole != NULL;
  return wafer_fail(
      p->ctx->diag, p->graph->kernels[k].loc, WAFER_NO_FIT,
      "kernel '%s' cannot be pinned to %u,%u,%u,%u: the usable cores%s are %u x %u at "
      "(%u, %u)%s",
      p->graph->kernels[k].name, pin->rect.x, pin->rect.y, pin->rect.width, pin->rect.height,
      band ? " of the first band" : "", u.width, u.height, u.x, u.y,
      band ? "; --bands 1 has the whole wafer for one pipeline" : "");
}

/* ---- Is it a shape? ---- */

static const wafer_shape_point *on_curve(const wafer_curve *curve, wafer_rect r) {
  for (size_t i = 0; i < curve->count; i++)
    if (curve->at[i].width == r.width && curve->at[i].height == r.height) return &curve->at[i];
  return NULL;
}

/* The pin's own split, if it has one that makes its rectangle and fits its cores, else the fastest
 * of that shape. NULL: neither, or out of memory. */
static const wafer_shape_point *point_of(const pipeline *p, uint32_t k, const wafer_pin *pin) {
  const wafer_machine *machine = p->ctx->machine;
  wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, p->out->kernels[k].depths);
  wafer_shape_point at = {
      .split = pin->split, .width = pin->rect.width, .height = pin->rect.height};
  wafer_loops loops;
  wafer_kernel_loops(&body, &loops);
  if (!size_is_possible(&loops, &pin->split) || wafer_split_width(&pin->split) != at.width ||
      wafer_split_height(&pin->split) != at.height)
    return on_curve(p->curve[k], pin->rect);
  const split_body splits = curve_splits(p->curves, &body);
  split_cost cost = split_cost_find(&splits, &pin->split);
  at.cycles = cost.cycles;
  at.bytes = cost.bytes;
  return at.bytes <= wafer_machine_core_budget(machine)
             ? curve_keep_point(p->curves, splits.signature, &at)
             : on_curve(p->curve[k], pin->rect);
}

static uint64_t far(const wafer_shape_point *at, wafer_rect r) {
  uint32_t w = at->width > r.width ? at->width - r.width : r.width - at->width;
  uint32_t h = at->height > r.height ? at->height - r.height : r.height - at->height;
  return (uint64_t)w + h;
}

/* The nearest shapes, "3x4 (120 cycles)". */
static const char *nearest(const pipeline *p, const wafer_curve *curve, wafer_rect r) {
  const char *text = "";
  uint64_t last = 0;
  size_t last_at = SIZE_MAX;
  for (int n = 0; n < NEAREST && text; n++) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < curve->count; i++) {
      uint64_t d = far(&curve->at[i], r);
      bool past = n == 0 || d > last || (d == last && i > last_at);
      if (past && (best == SIZE_MAX || d < far(&curve->at[best], r))) best = i;
    }
    if (best == SIZE_MAX) break;
    last = far(&curve->at[best], r);
    last_at = best;
    text = wafer_arena_printf(p->ctx->arena, "%s%s %ux%u (%" PRIu64 " cycles, %" PRIu64 " bytes)",
                              text, n ? "," : "", curve->at[best].width, curve->at[best].height,
                              curve->at[best].cycles, curve->at[best].bytes);
  }
  return text ? text : "";
}

/* Not on the curve: for want of memory, or because no split has that shape. */
static wafer_status bad_shape(const pipeline *p, uint32_t k, const wafer_pin *pin) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t budget = wafer_machine_core_budget(p->ctx->machine);
  wafer_kernel_body body = size_with_depths(&kernel->body, p->out->kernels[k].depths);
  const wafer_curve *any;
  WAFER_TRY(curve_of(p->ctx->diag, p->curves, &body, (curve_query){.budget = UINT64_MAX}, &any));
  const wafer_shape_point *at = on_curve(any, pin->rect);
  if (at && at->bytes > budget)
    return wafer_fail(p->ctx->diag, kernel->loc, WAFER_NO_FIT,
                      "kernel '%s' on %ux%u cores needs %" PRIu64 " bytes per core, %" PRIu64
                      " are allowed; the nearest shapes that fit:%s",
                      kernel->name, pin->rect.width, pin->rect.height, at->bytes, budget,
                      nearest(p, p->curve[k], pin->rect));
  return wafer_fail(p->ctx->diag, kernel->loc, WAFER_NO_FIT,
                    "kernel '%s' has no shape of %ux%u cores that is worth it; the nearest:%s",
                    kernel->name, pin->rect.width, pin->rect.height,
                    nearest(p, p->curve[k], pin->rect));
}

/* ---- All pins ---- */

static void set(pipeline *p, uint32_t k, const wafer_pin *pin, const wafer_shape_point *point) {
  p->pin[k] = pin;
  p->pinned[k] = point;
}

static wafer_status place_pin(pipeline *p, const wafer_pin *pin) {
  uint32_t k = size_find_kernel(p->graph, pin->kernel);
  if (k == WAFER_NONE) return p->piece ? WAFER_OK : unknown(p, pin);
  if (p->pin[k])
    return wafer_fail(p->ctx->diag, p->graph->kernels[k].loc, WAFER_USAGE,
                      "kernel '%s' is pinned twice", p->graph->kernels[k].name);
  if (!inside(p->ctx->machine->usable, cores_of(pin)) || taken(p, cores_of(pin)))
    return bad_place(p, k, pin);
  const wafer_shape_point *point = point_of(p, k, pin);
  if (!point) return bad_shape(p, k, pin);
  return set(p, k, pin, point), WAFER_OK;
}

/* A kept pin goes to the free kernel of its name, in a second round to one that computes the same.
 */
static void keep_pin(pipeline *p, const wafer_pin *pin, bool by_name, bool *used) {
  if (*used || !inside(p->ctx->machine->usable, cores_of(pin))) return;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &p->graph->kernels[k];
    if (p->pin[k] || (by_name && strcmp(kernel->name, pin->kernel)) ||
        wafer_kernel_identity(&kernel->body) != pin->identity)
      continue;
    const wafer_shape_point *point = point_of(p, k, pin);
    if (!point || taken(p, cores_of(pin))) return;
    set(p, k, pin, point);
    *used = true;
    return;
  }
}

bool pipeline_pins_have_room(const pipeline *p) {
  const wafer_options *o = p->ctx->options;
  for (uint32_t i = 0; o && i < o->pin_count; i++) {
    uint32_t k = size_find_kernel(p->graph, o->pins[i].kernel);
    if (k == WAFER_NONE || !inside(p->ctx->machine->usable, cores_of(&o->pins[i]))) continue;
    if (o->pins[i].kept && wafer_kernel_identity(&p->graph->kernels[k].body) != o->pins[i].identity)
      continue;
    if (!point_of(p, k, &o->pins[i])) return false;
  }
  return true;
}

wafer_status pipeline_pin(pipeline *p) {
  const wafer_options *o = p->ctx->options;
  uint32_t n = p->graph->kernel_count;
  if (!o || !o->pin_count) return WAFER_OK;
  p->pin = WAFER_NEW(p->ctx->arena, const wafer_pin *, n);
  p->pinned = WAFER_NEW(p->ctx->arena, const wafer_shape_point *, n);
  bool *used = WAFER_NEW(p->ctx->arena, bool, o->pin_count);
  if (!p->pin || !p->pinned || !used) return pipeline_no_memory(p);
  for (uint32_t i = 0; i < o->pin_count; i++)
    if (!o->pins[i].kept) WAFER_TRY(place_pin(p, &o->pins[i]));
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < o->pin_count; i++)
      if (o->pins[i].kept) keep_pin(p, &o->pins[i], round == 0, &used[i]);
  return WAFER_OK;
}

wafer_status pipeline_release(pipeline *p, uint32_t radius) {
  uint32_t n = p->graph->kernel_count, last = UINT32_MAX; /* the last free one */
  if (!p->pin || !radius) return WAFER_OK;
  bool *was = WAFER_NEW(p->ctx->arena, bool, n);
  if (!was) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) was[k] = !p->pin[k];
  for (uint32_t k = 0; k < n; k++) {
    if (was[k]) last = k;
    if (last != UINT32_MAX && k - last <= radius && p->pin[k] && p->pin[k]->kept) p->pin[k] = NULL;
  }
  last = UINT32_MAX;
  for (uint32_t k = n; k-- > 0;) {
    if (was[k]) last = k;
    if (last != UINT32_MAX && last - k <= radius && p->pin[k] && p->pin[k]->kept) p->pin[k] = NULL;
  }
  return WAFER_OK;
}

uint32_t pipeline_kept(const pipeline *p) {
  uint32_t count = 0;
  for (uint32_t k = 0; p->pin && k < p->graph->kernel_count; k++)
    count += p->pin[k] && p->pin[k]->kept;
  return count;
}

/* Nothing faster than a pinned kernel, or than its streams over its rows, is worth looking for. */
uint64_t pipeline_pinned_cycles(const pipeline *p, uint64_t least) {
  for (uint32_t k = 0; p->pin && k < p->graph->kernel_count; k++) {
    if (!p->pin[k]) continue;
    const wafer_shape_point *at = p->pinned[k];
    uint64_t cycles = at->cycles, replicas = p->pin[k]->replicas ? p->pin[k]->replicas : 1;
    cycles = (cycles + replicas - 1) / replicas;
    uint64_t lanes = (p->kinds[p->kind_of[k]].words + at->height - 1) / at->height;
    least = cycles > least ? cycles : least;
    least = lanes > least ? lanes : least;
  }
  return least;
}

/* ---- Packing around them ---- */

wafer_status pipeline_pack(const pipeline *p, wafer_arena *arena, const shelf_shapes *kinds,
                           shelf_place *places, bool *fits) {
  uint32_t n = p->graph->kernel_count, items = 0, fixed = 0;
  uint32_t *kind_of = WAFER_NEW(arena, uint32_t, n), *item = WAFER_NEW(arena, uint32_t, n);
  wafer_rect *rects = WAFER_NEW(arena, wafer_rect, n);
  shelf_place *at = WAFER_NEW(arena, shelf_place, n);
  if (!kind_of || !item || !rects || !at) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    if (p->pin && p->pin[k]) {
      rects[fixed++] = cores_of(p->pin[k]);
      continue;
    }
    kind_of[items] = p->kind_of[k];
    item[items++] = k;
  }
  shelf_problem problem = {.machine = p->ctx->machine,
                           .kind_count = p->kind_count,
                           .count = items,
                           .kinds = kinds,
                           .kind = kind_of,
                           .fixed_count = fixed,
                           .fixed = rects};
  WAFER_TRY(shelf_pack(p->ctx->diag, arena, &problem, places ? at : NULL, fits));
  for (uint32_t i = 0; *fits && places && i < items; i++) places[item[i]] = at[i];
  for (uint32_t k = 0; *fits && places && fixed && k < n; k++)
    if (p->pin[k])
      places[k] = (shelf_place){
          .rect = p->pin[k]->rect, .replicas = p->pin[k]->replicas, .point = p->pinned[k]};
  return WAFER_OK;
}
