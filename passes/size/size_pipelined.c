/* Sizing a pipeline: every kernel on its own rectangle, a train of samples flowing through.
 *
 * The interval T between samples is the slowest kernel's, stream's or the edge's. For a T each
 * kernel needs a shape whose cycles and whose streams (a row of the rectangle is a lane) are at
 * most T; T is feasible when the shelves hold them all. Only cycles that stand on a curve matter,
 * so T is found by bisection over them. Nothing faster than the edge is looked for: it would burn
 * cores and gain nothing, with one exception. A value that skips many slow kernels waits for them
 * in buffers; where these do not fit, kernels are made faster at the same T, so that fewer samples
 * wait. */
#include <stdlib.h>
#include <string.h>

#include "shelf.h"
#include "size_pipelined.h"
#include "streams.h"

static bool searches(const pipeline *p) {
  return p->ctx->options && p->ctx->options->placer == WAFER_PLACER_best;
}

wafer_status pipeline_no_memory(const pipeline *p) {
  return wafer_fail(p->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to size a pipeline");
}

/* ---- Kinds ---- */

typedef struct keyed {
  kind is;
  uint32_t kernel;
} keyed;

static int by_kind(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->is.curve != y->is.curve) return x->is.curve < y->is.curve ? -1 : 1;
  if (x->is.words != y->is.words) return x->is.words < y->is.words ? -1 : 1;
  if (x->is.haste != y->is.haste) return x->is.haste < y->is.haste ? -1 : 1;
  if (x->is.patience != y->is.patience) return x->is.patience < y->is.patience ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

/* In the order of their first kernels: addresses, which brought equals together, are others in
 * every run, and the placer goes by the numbers where shapes are as large. */
static wafer_status number_kinds(pipeline *p) {
  uint32_t n = p->graph->kernel_count, count = 0;
  uint32_t *number = WAFER_NEW(p->ctx->arena, uint32_t, p->kind_count);
  kind *kinds = WAFER_NEW(p->ctx->arena, kind, p->kind_count);
  if (!number || !kinds) return pipeline_no_memory(p);
  for (uint32_t i = 0; i < p->kind_count; i++) number[i] = WAFER_NONE;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t *own = &number[p->kind_of[k]];
    if (*own == WAFER_NONE) {
      *own = count++;
      kinds[*own] = p->kinds[p->kind_of[k]];
    }
    p->kind_of[k] = *own;
  }
  p->kinds = kinds;
  return WAFER_OK;
}

wafer_status pipeline_find_kinds(pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  p->kind_count = 0;
  keyed *order = WAFER_NEW(p->ctx->arena, keyed, n);
  p->kinds = WAFER_NEW(p->ctx->arena, kind, n);
  p->kind_of = WAFER_NEW(p->ctx->arena, uint32_t, n);
  if (!order || !p->kinds || !p->kind_of) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++)
    order[k] =
        (keyed){{p->curve[k], pipeline_heaviest_stream(p, k), p->haste[k], p->patience[k]}, k};
  qsort(order, n, sizeof *order, by_kind);
  for (uint32_t i = 0; i < n; i++) {
    const kind *last = &p->kinds[p->kind_count ? p->kind_count - 1 : 0];
    bool new = !p->kind_count || order[i].is.curve != last->curve ||
               order[i].is.words != last->words || order[i].is.haste != last->haste ||
               order[i].is.patience != last->patience;
    if (new) p->kinds[p->kind_count++] = order[i].is;
    p->kind_of[order[i].kernel] = p->kind_count - 1;
  }
  return number_kinds(p);
}

/* ---- Candidates for T ---- */

static int by_cycles(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static wafer_status find_cycles(pipeline *p) {
  size_t total = 1, n = 0;
  for (uint32_t k = 0; k < p->kind_count; k++) total += p->kinds[k].curve->count + 1;
  p->cycles = WAFER_NEW(p->ctx->arena, uint64_t, total);
  if (!p->cycles) return pipeline_no_memory(p);
  p->cycles[n++] = p->floor;
  for (uint32_t k = 0; k < p->kind_count; k++) {
    for (size_t i = 0; i < p->kinds[k].curve->count; i++)
      if (p->kinds[k].curve->at[i].cycles > p->floor)
        p->cycles[n++] = p->kinds[k].curve->at[i].cycles;
    if (p->kinds[k].words > p->floor) p->cycles[n++] = p->kinds[k].words;
  }
  qsort(p->cycles, n, sizeof *p->cycles, by_cycles);
  for (size_t i = 0; i < n; i++)
    if (p->cycle_count == 0 || p->cycles[i] != p->cycles[p->cycle_count - 1])
      p->cycles[p->cycle_count++] = p->cycles[i];
  return WAFER_OK;
}

static uint64_t edge_cycles(const pipeline *p) {
  uint64_t in = 0, out = 0;
  const wafer_graph *g = p->graph;
  wafer_dtype storage = g->kernel_count ? g->kernels[0].body.storage : WAFER_DTYPE_f32;
  for (uint32_t v = 0; v < g->value_count; v++) {
    if (g->values[v].owner != WAFER_OWNER_input) continue;
    in += g->values[v].use_count *
          edge_in_cycles(p->ctx->machine, stream_words(&g->values[v].type, storage));
  }
  for (uint32_t i = 0; i < g->output_count; i++)
    if (wafer_graph_is_output(&g->values[g->outputs[i]]))
      out += edge_out_cycles(p->ctx->machine, value_words(&g->values[g->outputs[i]], storage));
  return in > out ? in : out;
}

/* ---- Is T feasible? ---- */

/* What a packing asks for: an interval; shapes of at most `spare` per cent more cores than the
 * smallest and, where there are such, at most `aspect` times as long as wide. */
typedef struct target {
  uint64_t cycles, spare, aspect;
} target;

#define ANY 100000000u /* any area, any aspect */

/* Points of at most `cycles` with as many lanes as the streams need for it; their number. */
static uint32_t list_points(const kind *of, uint64_t cycles, shelf_point *points) {
  uint64_t rows = cycles ? (of->words + cycles - 1) / cycles : of->words;
  uint32_t n = 0;
  for (size_t i = 0; i < of->curve->count && of->curve->at[i].cycles <= cycles; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    if (at->height >= rows) points[n++] = (shelf_point){at->width, at->height, (uint32_t)i};
  }
  return n;
}

static uint64_t area_of(const shelf_point *p) {
  return (uint64_t)p->width * p->height;
}

static uint64_t aspect_of(const shelf_point *p) {
  return p->width > p->height ? p->width / p->height : p->height / p->width;
}

/* Keeps the points that the target allows; their number. */
static uint32_t keep_points(const target *t, uint32_t n, shelf_point *points) {
  uint64_t least = UINT64_MAX, squarest = UINT64_MAX;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    least = area_of(&points[i]) < least ? area_of(&points[i]) : least;
  for (uint32_t i = 0; i < n; i++)
    if (area_of(&points[i]) * 100 <= least * (100 + t->spare)) points[kept++] = points[i];
  for (uint32_t i = 0; i < kept; i++)
    squarest = aspect_of(&points[i]) < squarest ? aspect_of(&points[i]) : squarest;
  n = kept;
  kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (aspect_of(&points[i]) <= (squarest > t->aspect ? squarest : t->aspect))
      points[kept++] = points[i];
  return kept;
}

/* The shapes of a kind for an interval of T; none when it has no such shape. */
static wafer_status shapes_at(const pipeline *p, wafer_arena *arena, const kind *of,
                              const target *t, shelf_shapes *out) {
  shelf_point *points = WAFER_NEW(arena, shelf_point, of->curve->count);
  uint32_t n = 0;
  if (!points) return pipeline_no_memory(p);
  for (uint32_t haste = of->haste + 1; haste-- > 0 && n == 0;)
    n = list_points(of, t->cycles >> haste, points);
  n = keep_points(t, n, points);
  *out = (shelf_shapes){shelf_pareto(n, points), points};
  return WAFER_OK;
}

static wafer_status try_target(const pipeline *p, wafer_arena *arena, const target *t,
                               shelf_place *places, bool *fits) {
  shelf_shapes *kinds = WAFER_NEW(arena, shelf_shapes, p->kind_count);
  *fits = false;
  if (!kinds) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->kind_count; k++) {
    WAFER_TRY(shapes_at(p, arena, &p->kinds[k], t, &kinds[k]));
    if (!kinds[k].count) return WAFER_OK;
  }
  return pipeline_pack(p, arena, kinds, places, fits);
}

/* The same in an arena of its own: a bisection leaves nothing behind. */
static wafer_status feasible(const pipeline *p, target t, shelf_place *places, bool *fits) {
  wafer_arena *scratch = wafer_arena_create();
  if (!scratch) return pipeline_no_memory(p);
  wafer_status status = try_target(p, scratch, &t, places, fits);
  wafer_arena_destroy(scratch);
  return status;
}

/* The least T at which everything fits: an index of cycles, cycle_count when there is none. */
static wafer_status bisect(const pipeline *p, size_t *answer) {
  size_t low = 0, high = p->cycle_count, middle = 0; /* the edge first: small models end there */
  while (low < high) {
    bool fits;
    WAFER_TRY(feasible(p, (target){p->cycles[middle], ANY, ANY}, NULL, &fits));
    if (fits)
      high = middle;
    else
      low = middle + 1;
    middle = (low + high) / 2;
  }
  *answer = low;
  return WAFER_OK;
}

wafer_status pipeline_shelves(const pipeline *p, uint64_t cycles, shelf_place *places,
                              bool *found) {
  static const struct {
    uint32_t spare, aspect;
  } wishes[] = {{25, 4}, {50, 8}, {15, ANY}, {40, ANY}, {100, ANY}, {300, ANY}, {ANY, ANY}};
  *found = false;
  for (size_t i = 0; i < WAFER_COUNT(wishes) && !*found; i++)
    WAFER_TRY(feasible(p, (target){cycles, wishes[i].spare, wishes[i].aspect}, places, found));
  return WAFER_OK;
}

/* ---- Haste ---- */

#define HASTE 5 /* times that kernels are made twice as fast */

void pipeline_hasten(const pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  for (uint32_t s = 1; s <= n + 1; s++) p->skipped[s] += p->skipped[s - 1];
  for (uint32_t k = 0; k < n; k++) p->haste[k] += p->skipped[p->stage[k]] > 0;
  memset(p->skipped, 0, ((size_t)n + 2) * sizeof *p->skipped);
}

/* Shapes for an interval of `t`, faster ones where the buffers of slower ones do not fit. */
static wafer_status choose(pipeline *p, uint64_t t, bool *found) {
  uint32_t n = p->graph->kernel_count;
  shelf_place *places = WAFER_NEW(p->ctx->arena, shelf_place, 2 * (size_t)n), *best = places + n;
  if (!places) return pipeline_no_memory(p);
  uint64_t best_interval = UINT64_MAX, last = UINT64_MAX;
  *found = false;
  for (int tries = 0; tries <= HASTE && best_interval > t; tries++) {
    bool fits;
    if (tries) pipeline_hasten(p);
    if (tries) WAFER_TRY(pipeline_find_kinds(p));
    WAFER_TRY(pipeline_shelves(p, t, places, &fits));
    if (!fits) break;
    WAFER_TRY(pipeline_settle(p, places));
    *found = true;
    last = p->out->cost.interval_cycles;
    if (last >= best_interval) continue;
    best_interval = last;
    memcpy(best, places, n * sizeof *best);
  }
  if (*found && last > best_interval) WAFER_TRY(pipeline_settle(p, best));
  return *found && !p->pin ? pipeline_meet(p, t, best) : WAFER_OK;
}

/* ---- When it does not fit ---- */

/* Cores that the kernel takes where it is pinned, or at the least. */
static uint64_t least_cores(const pipeline *p, uint32_t k) {
  uint64_t least = UINT64_MAX;
  const wafer_pin *pin = p->pin ? p->pin[k] : NULL;
  if (pin) return wafer_rect_area(pin->rect) * (pin->replicas ? pin->replicas : 1);
  for (size_t i = 0; i < p->curve[k]->count; i++) {
    uint64_t area = (uint64_t)p->curve[k]->at[i].width * p->curve[k]->at[i].height;
    least = area < least ? area : least;
  }
  return least;
}

static uint64_t all_least_cores(const pipeline *p) {
  uint64_t total = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) total += least_cores(p, k);
  return total;
}

/* All fit one by one, not together: the kernel that takes most of the wafer at the least. */
static wafer_status refuse_cores(const pipeline *p) {
  uint64_t total = all_least_cores(p), most = 0, open;
  uint64_t all = wafer_rect_area(p->ctx->machine->usable);
  uint32_t worst = 0, pinned = 0;
  if (!size_free_cores(p->ctx->machine, &open)) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    uint64_t least = least_cores(p, k);
    pinned += p->pin && p->pin[k];
    if (least > most) {
      most = least;
      worst = k;
    }
  }
  size_refusal *r = &p->out->refusal;
  *r = (size_refusal){.kernel = worst};
  r->why = wafer_arena_printf(
      p->ctx->arena,
      "%u kernels need at least %llu cores side by side, the wafer has %llu usable "
      "ones%s; the largest is '%s' with %llu",
      p->graph->kernel_count, (unsigned long long)total, (unsigned long long)open,
      open < all ? " that are neither dead nor reserved" : "", p->graph->kernels[worst].name,
      (unsigned long long)most);
  if (r->why && pinned && total <= open)
    r->why = wafer_arena_printf(p->ctx->arena,
                                "%s; where %u of them are pinned the others find no room", r->why,
                                pinned);
  if (r->why && !pinned && total <= open)
    r->why = wafer_arena_printf(p->ctx->arena, "%s; rectangles so large do not go together as %s",
                                r->why, searches(p) ? "they were tried" : "shelves");
  return r->why ? WAFER_OK : pipeline_no_memory(p);
}

/* ---- All together ---- */

wafer_status pipeline_start(pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  wafer_arena *arena = p->ctx->arena;
  p->out->kernels = WAFER_NEW(arena, sized_kernel, n);
  p->stage = WAFER_NEW(arena, uint32_t, n);
  p->curve = WAFER_NEW(arena, const wafer_curve *, n);
  p->haste = WAFER_NEW(arena, uint32_t, n);
  p->patience = WAFER_NEW(arena, uint32_t, n);
  p->skipped = WAFER_NEW(arena, int32_t, (size_t)n + 2);
  p->wanted = WAFER_NEW(arena, const uint32_t *, n);
  bool ok =
      p->out->kernels && p->stage && p->curve && p->haste && p->patience && p->skipped && p->wanted;
  return ok ? WAFER_OK : pipeline_no_memory(p);
}

/* A sample by itself is done the sooner the faster kernels are, whatever the edge's pace. But the
 * fastest have most to exchange: the caller, who has other plans, may ask for slower ones. */
static uint32_t slower(const pipeline *p) {
  const wafer_options *o = p->ctx->options;
  bool alone = o && o->objective == WAFER_OBJECTIVE_latency && !p->piece;
  return alone ? o->slower : WAFER_SLOWER_PACE;
}

/* The least interval at which the shelves hold all that is not pinned, and its layout. */
static wafer_status lay_out(pipeline *p, bool *fits) {
  const uint64_t parts = slower(p);
  const bool paced = parts == WAFER_SLOWER_PACE;
  size_t t;
  p->cycle_count = 0;
  WAFER_TRY(pipeline_find_kinds(p));
  p->edge = pipeline_pinned_cycles(p, edge_cycles(p));
  p->floor = paced ? p->edge : pipeline_pinned_cycles(p, 1);
  WAFER_TRY(find_cycles(p));
  WAFER_TRY(bisect(p, &t));
  *fits = t < p->cycle_count;
  if (!*fits) return WAFER_OK;
  const uint64_t least = p->cycles[t];
  const uint64_t later = parts < WAFER_SLOWER_PRICED ? least * parts / WAFER_SLOWER_PARTS : 0;
  return choose(p, least + later, fits);
}

#define LATER 4 /* by one part in these */

/* Where options ask for that, with shapes alone whose sparse products waste little; for a longer
 * interval where cores do not suffice. There is no layout where there are no such shapes. */
static wafer_status lay_out_lean(pipeline *p, bool *fits) {
  size_t bytes = p->graph->kernel_count * sizeof *p->curve;
  const wafer_curve **all = wafer_arena_copy(p->ctx->arena, p->curve, bytes);
  uint64_t from = edge_cycles(p), t;
  if (!all) return pipeline_no_memory(p);
  if (!p->ctx->options || !p->ctx->options->lean) return lay_out(p, fits);
  for (*fits = false; !*fits; from = t + t / LATER + 1) {
    memcpy(p->curve, all, bytes);
    WAFER_TRY(pipeline_lean(p, from, &t));
    if (!t) return WAFER_OK;
    memset(p->haste, 0, p->graph->kernel_count * sizeof *p->haste);
    WAFER_TRY(lay_out(p, fits));
  }
  return WAFER_OK;
}

/* With pins: kept ones are given up as far as the rest needs it; then all rectangles stand. */
static wafer_status lay_out_pinned(pipeline *p, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  for (uint32_t radius = 1; !*fits; radius *= 2) {
    uint32_t kept = pipeline_kept(p);
    memset(p->haste, 0, n * sizeof *p->haste);
    WAFER_TRY(lay_out(p, fits));
    if (*fits || !kept) break;
    WAFER_TRY(pipeline_release(p, radius));
    if (radius > n) return WAFER_OK;
  }
  for (uint32_t k = 0; *fits && k < n; k++) p->out->kernels[k].rect = &p->places[k].rect;
  p->out->kept = pipeline_kept(p);
  p->out->wanted = 0;
  for (uint32_t i = 0; i < p->ctx->options->pin_count; i++)
    p->out->wanted += p->ctx->options->pins[i].kept;
  return WAFER_OK;
}

static uint32_t deepest_buffer(const pipeline *p) {
  uint32_t deepest = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    for (uint32_t i = 0; i < p->graph->kernels[k].body.input_count; i++)
      if (p->out->kernels[k].depths[i] > deepest) deepest = p->out->kernels[k].depths[i];
  return deepest;
}

/* With buffers for half as many samples, and so on, where kernels with room for all that may wait
 * for them take too many cores together: the interval is longer then, but there is one. */
static wafer_status lay_out_eased(pipeline *p, bool *fits) {
  uint32_t limit = deepest_buffer(p);
  WAFER_TRY(p->pin ? lay_out_pinned(p, fits) : lay_out_lean(p, fits));
  while (!*fits && (limit /= 2) >= SIZE_PIPELINE_DEPTH) {
    WAFER_TRY(pipeline_find_curves(p, limit, fits));
    WAFER_TRY(pipeline_pin(p)); /* to shapes of these curves */
    memset(p->haste, 0, p->graph->kernel_count * sizeof *p->haste);
    *fits = false;
    WAFER_TRY(p->pin ? lay_out_pinned(p, fits) : lay_out_lean(p, fits));
  }
  return WAFER_OK;
}

/* Pinned shapes, as an earlier layout had them, may have room for as few samples as that found. */
static wafer_status ease_for_pins(pipeline *p, bool *fits) {
  uint32_t limit = deepest_buffer(p), deepest = p->graph->kernel_count + 1;
  bool have_room = pipeline_pins_have_room(p);
  while (*fits && !have_room && limit > SIZE_PIPELINE_DEPTH) {
    limit = limit / 2 > SIZE_PIPELINE_DEPTH ? limit / 2 : SIZE_PIPELINE_DEPTH;
    WAFER_TRY(pipeline_find_curves(p, limit, fits));
    have_room = pipeline_pins_have_room(p);
  }
  return have_room ? WAFER_OK : pipeline_find_curves(p, deepest, fits);
}

/* For `size`, where `mode` has looked for it; `place` then finds the same rectangles on shelves. */
static wafer_status keep_layout(const pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  shelf_place *places = wafer_arena_copy(p->ctx->arena, p->places, n * sizeof *places);
  for (uint32_t k = 0; places && k < n; k++) places[k].point = p->out->kernels[k].point;
  bool kept = places && curve_set_keep_layout(p->curves, n, places);
  return kept ? WAFER_OK : pipeline_no_memory(p);
}

/* Of pieces samples pass one at a time; of a pipeline it was asked for. */
static bool is_priced(const pipeline *p) {
  return size_objective(p->ctx, p->graph) == WAFER_OBJECTIVE_latency && !p->pin &&
         (p->piece || slower(p) == WAFER_SLOWER_PRICED);
}

wafer_status pipeline_lay_out(pipeline *p, bool *fits) {
  memset(p->haste, 0, p->graph->kernel_count * sizeof *p->haste);
  *fits = false;
  WAFER_TRY(lay_out_eased(p, fits));
  return *fits && is_priced(p) ? pipeline_quicken(p) : WAFER_OK;
}

/* Where nothing is pinned a layout is looked for once. */
static wafer_status find_layout(pipeline *p, bool quick, bool *fits) {
  bool search = searches(p);
  const shelf_place *kept = curve_set_layout(p->curves, p->graph->kernel_count);
  *fits = kept != NULL;
  if (kept) return search ? pipeline_take(p, kept) : pipeline_settle(p, kept);
  WAFER_TRY(pipeline_lay_out(p, fits));
  if (search && !*fits) {
    uint64_t open;
    if (!size_free_cores(p->ctx->machine, &open)) return pipeline_no_memory(p);
    if (all_least_cores(p) > open) return WAFER_OK; /* they are in no layout */
  }
  if (search && (*fits || !p->pin)) return pipeline_best(p, quick, fits);
  return *fits && !p->pin ? keep_layout(p) : WAFER_OK;
}

wafer_status size_pipelined(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                            bool quick, sizing *out) {
  *out = (sizing){0};
  pipeline p = {.ctx = ctx, .graph = graph, .curves = curves, .out = out, .piece = graph->piece};
  bool fits;
  WAFER_TRY(pipeline_start(&p));
  wafer_graph_stages(graph, p.stage);
  WAFER_TRY(pipeline_find_curves(&p, graph->kernel_count + 1, &fits));
  if (fits) WAFER_TRY(ease_for_pins(&p, &fits));
  if (fits) {
    WAFER_TRY(pipeline_pin(&p));
    WAFER_TRY(find_layout(&p, quick, &fits));
    if (fits && !p.pin) WAFER_TRY(pipeline_heed_peers(&p));
    WAFER_TRY(fits ? pipeline_pace(&p, p.places, &out->pace) : refuse_cores(&p));
    out->edge = edge_cycles(&p);
  }
  if (!out->cost.fits) out->cost.why_not = out->refusal.why;
  return WAFER_OK;
}
