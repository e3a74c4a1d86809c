/* Shape curves by signature: equal kernels are enumerated once. */
#include "shelf.h"
#include "size.h"

#define SEARCHED_POINTS 4096 /* of a curve, where a search for the best layout uses them */

/* A curve of a signature; one for each budget that was asked for. */
typedef struct entry entry;
struct entry {
  uint64_t budget, words;
  wafer_curve curve;
  entry *next;
};

typedef struct shapes {
  uint64_t signature;
  wafer_cuts *cuts;
  entry *first;
} shapes;

struct curve_set {
  const wafer_machine *machine;
  wafer_arena *arena;
  uint32_t max_width, max_height, most_points;
  size_t count, room; /* room is a power of two */
  shapes **at;        /* curves never move: callers keep them */
  const shelf_place *layout;
  uint32_t layout_count;
};

static curve_set *create(const wafer_ctx *ctx, wafer_arena *arena) {
  const wafer_machine *machine = ctx->machine;
  bool best = ctx->options && ctx->options->placer == WAFER_PLACER_best;
  curve_set *set = WAFER_NEW(arena, curve_set, 1);
  wafer_rect whole;
  if (!set || !size_whole_wafer(machine, &whole)) return NULL;
  *set = (curve_set){.machine = machine,
                     .arena = arena,
                     .max_width = whole.width,
                     .max_height = whole.height,
                     .most_points = best ? SEARCHED_POINTS : 0,
                     .room = 256,
                     .at = WAFER_NEW(arena, shapes *, 256)};
  return set->at ? set : NULL;
}

curve_set *curve_set_of(const wafer_ctx *ctx, wafer_ir *ir) {
  if (!ir->curves || ir->curves->machine != ctx->machine) ir->curves = create(ctx, ir->arena);
  return ir->curves;
}

const shelf_place *curve_set_layout(const curve_set *set, uint32_t count) {
  return set->layout_count == count ? set->layout : NULL;
}

bool curve_set_keep_layout(curve_set *set, uint32_t count, const shelf_place *at) {
  set->layout = wafer_arena_copy(set->arena, at, count * sizeof *at);
  set->layout_count = set->layout ? count : 0;
  return set->layout != NULL;
}

static shapes **find(const curve_set *set, uint64_t signature) {
  size_t slot = (size_t)(signature >> 7) & (set->room - 1);
  while (set->at[slot] && set->at[slot]->signature != signature)
    slot = (slot + 1) & (set->room - 1);
  return &set->at[slot];
}

static bool grow(curve_set *set) {
  curve_set larger = *set;
  larger.room *= 2;
  larger.at = WAFER_NEW(set->arena, shapes *, larger.room);
  if (!larger.at) return false;
  for (size_t i = 0; i < set->room; i++)
    if (set->at[i]) *find(&larger, set->at[i]->signature) = set->at[i];
  *set = larger;
  return true;
}

/* NULL: out of memory. */
static shapes *shapes_of(curve_set *set, const wafer_kernel_body *body) {
  uint64_t signature = wafer_kernel_signature(body);
  shapes **slot = find(set, signature);
  if (*slot) return *slot;
  if (2 * set->count >= set->room && !grow(set)) return NULL;
  shapes *made = WAFER_NEW(set->arena, shapes, 1);
  if (!made) return NULL;
  *made = (shapes){
      .signature = signature,
      .cuts = wafer_cuts_create(set->machine, body, set->max_width, set->max_height, set->arena)};
  if (!made->cuts) return NULL;
  set->count++;
  return *find(set, signature) = made;
}

wafer_status curve_of(const wafer_diag *diag, curve_set *set, const wafer_kernel_body *body,
                      uint64_t budget, uint64_t words, const wafer_curve **out) {
  shapes *of = shapes_of(set, body);
  entry *e = of ? of->first : NULL;
  while (e && (e->budget != budget || e->words != words)) e = e->next;
  if (!e) {
    wafer_curve_options options = {.max_width = set->max_width,
                                   .max_height = set->max_height,
                                   .budget = budget,
                                   .stream_words = words,
                                   .most_points = set->most_points};
    e = of ? WAFER_NEW(set->arena, entry, 1) : NULL;
    if (!e || wafer_cuts_curve(of->cuts, body, &options, set->arena, &e->curve) != WAFER_OK)
      return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for a shape curve");
    e->budget = budget;
    e->words = words;
    e->next = of->first;
    of->first = e;
  }
  *out = &e->curve;
  return WAFER_OK;
}
