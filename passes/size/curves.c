/* What sizing finds once and asks for again: shape curves by signature, layouts of their points,
 * and how a graph was sized. */
#include <string.h>

#include "curves_kept.h"
#include "ir/intern.h"
#include "shelf.h"
#include "size.h"
#include "wafer/pairs.h"

#define MOST_WORKERS 8       /* more would hardly find work in one curve */
#define SEARCHED_POINTS 4096 /* of a curve, where a search for the best layout uses them */

/* A curve of a signature; one for each query. */
typedef struct entry entry;
struct entry {
  curve_query query;
  wafer_curve own;
  const wafer_curve *curve; /* that one, or one that is kept */
  entry *next;
};

typedef struct shapes {
  uint64_t signature;
  wafer_arena *arena; /* of the curves and what they are made from: threads find some at once */
  wafer_cuts *cuts;
  entry *first;
  bool busy; /* a thread finds one */
} shapes;

/* Layouts that were asked for lately: each value of a kernel in turn, and every point of a curve
 * again for each way to hold its inputs. */
#define RECENT (1 << 16)

typedef struct recent_layouts {
  const wafer_shape_point *point;
  uint32_t order;
  const wafer_layout *lie;
} recent_layouts;

/* Multiply cycles, in the same way. */
typedef struct recent_multiply {
  const wafer_shape_point *point;
  uint32_t order, slices; /* which sparse factors pass in slices, a bit each */
  size_multiply is;
} recent_multiply;

/* What is the same on a wafer and on all its bands. */
typedef struct of_points {
  split_costs *costs;
  intern *kept;    /* points, by signature */
  intern *layouts; /* of a point, by its address and the kernel's order */
  recent_layouts *recent;
} of_points;

struct curve_set {
  const wafer_machine *machine;
  wafer_arena *arena;
  uint32_t max_width, max_height, most_points;
  size_t count, room; /* room is a power of two */
  shapes **at;        /* curves never move: callers keep them */
  of_points *points;  /* of all machines that are parts of one wafer */
  recent_multiply *multiply; /* NULL until one is asked for */
  intern *sizings;           /* by all that decides about one */
  const shelf_place *layout;
  uint32_t layout_count;
  uint32_t stripes; /* whose machine it is one of */
  wafer_curves *kept; /* beyond the compilation; NULL: none are */
  wafer_workers *workers;
  bool alone;       /* there can be no workers */
  curve_set *other; /* of another number of stripes */
  curve_set *next;  /* of another machine */
};

static void end_workers(void *workers) {
  wafer_workers_destroy(workers);
}

static void end_arena(void *arena) {
  wafer_arena_destroy(arena);
}

/* Made when there is something for them to do. */
wafer_workers *curve_set_workers(curve_set *set) {
  if (!set->workers && !set->alone) {
    set->workers = wafer_workers_create(MOST_WORKERS);
    if (set->workers && !wafer_arena_defer(set->arena, end_workers, set->workers)) {
      wafer_workers_destroy(set->workers);
      set->workers = NULL;
    }
    set->alone = !set->workers;
  }
  return set->workers;
}

static curve_set *create(const wafer_machine *machine, bool best, wafer_arena *arena) {
  curve_set *set = WAFER_NEW(arena, curve_set, 1);
  wafer_rect whole;
  if (!set || !size_whole_wafer(machine, &whole)) return NULL;
  *set = (curve_set){.machine = machine,
                     .arena = arena,
                     .max_width = whole.width,
                     .max_height = whole.height,
                     .most_points = best ? SEARCHED_POINTS : 0,
                     .stripes = 1,
                     .room = 256,
                     .at = WAFER_NEW(arena, shapes *, 256),
                     .sizings = intern_create(arena)};
  return set->at && set->sizings ? set : NULL;
}

/* Those of a set of such a machine, or new ones; NULL: out of memory. */
static of_points *points_of(const curve_set *set, const curve_set *others) {
  while (others && !curves_same_wafer(others->machine, set->machine)) others = others->next;
  if (others) return others->points;
  of_points *points = WAFER_NEW(set->arena, of_points, 1);
  if (!points) return NULL;
  *points = (of_points){.costs = set->kept ? curves_kept_costs(set->kept)
                                           : split_costs_create(set->arena),
                        .kept = intern_create(set->arena),
                        .layouts = intern_create(set->arena),
                        .recent = WAFER_NEW(set->arena, recent_layouts, RECENT)};
  return points->costs && points->kept && points->layouts && points->recent ? points : NULL;
}

curve_set *curve_set_of(const wafer_ctx *ctx, wafer_ir *ir) {
  bool best = ctx->options && ctx->options->placer == WAFER_PLACER_best;
  for (curve_set *set = ir->curves; set; set = set->next)
    if (set->machine == ctx->machine) return set;
  curve_set *set = create(ctx->machine, best, ir->arena);
  if (!set) return NULL;
  if (curves_kept_of(ctx->curves, ctx->machine)) set->kept = ctx->curves;
  set->points = points_of(set, ir->curves);
  if (!set->points) return NULL;
  set->next = ir->curves;
  if (ir->curves) set->workers = ir->curves->workers, set->alone = ir->curves->alone;
  return ir->curves = set;
}

const wafer_machine *curve_set_machine(const curve_set *set) {
  return set->machine;
}

split_body curve_splits(const curve_set *set, const wafer_kernel_body *body) {
  return split_body_of(set->points->costs, set->machine, body);
}

/* What is dead or reserved lies beside the stripes. */
static const wafer_machine *stripe_of(curve_set *set, uint32_t stripes) {
  wafer_machine *m = wafer_arena_copy(set->arena, set->machine, sizeof *m);
  if (!m || !size_whole_wafer(set->machine, &m->usable)) return NULL;
  m->usable.width /= stripes;
  m->dead_count = m->reserved_count = 0;
  return m;
}

curve_set *curve_set_stripe(curve_set *set, uint32_t stripes) {
  curve_set *of = set;
  while (of && of->stripes != stripes) of = of->other;
  if (of) return of;
  const wafer_machine *machine = stripe_of(set, stripes);
  if (!machine || !(of = create(machine, false, set->arena))) return NULL;
  of->stripes = stripes;
  of->kept = set->kept;
  of->points = set->points;
  of->workers = curve_set_workers(set);
  of->alone = set->alone;
  of->other = set->other;
  return set->other = of;
}

const shelf_place *curve_set_layout(const curve_set *set, uint32_t count) {
  return set->layout_count == count ? set->layout : NULL;
}

bool curve_set_keep_layout(curve_set *set, uint32_t count, const shelf_place *at) {
  set->layout = wafer_arena_copy(set->arena, at, count * sizeof *at);
  set->layout_count = set->layout ? count : 0;
  return set->layout != NULL;
}

void curve_set_forget_layout(curve_set *set) {
  set->layout = NULL;
  set->layout_count = 0;
}

void curve_sets_forget_layouts(wafer_ir *ir) {
  for (curve_set *set = ir->curves; set; set = set->next) curve_set_forget_layout(set);
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
  wafer_arena *own = made ? wafer_arena_create() : NULL;
  if (!own || !wafer_arena_defer(set->arena, end_arena, own)) {
    wafer_arena_destroy(own);
    return NULL;
  }
  *made = (shapes){.signature = signature,
                   .arena = own,
                   .cuts = wafer_cuts_create(set->machine, body, set->max_width, set->max_height,
                                             curve_set_workers(set), own)};
  if (!made->cuts) return NULL;
  set->count++;
  return *find(set, signature) = made;
}

static bool same_query(const curve_query *a, const curve_query *b) {
  return a->budget == b->budget && a->words == b->words && a->lean == b->lean &&
         a->copied == b->copied;
}

/* With r copies time is the cycles, or those of r times as many words, over r. */
static wafer_status find_copied(curve_set *set, const wafer_kernel_body *body, curve_query query,
                                wafer_curve *out) {
  static const uint64_t copies[] = {1, 8, 64};
  const wafer_curve *parts[sizeof copies / sizeof *copies];
  size_t count = query.words ? sizeof copies / sizeof *copies : 1;
  for (size_t i = 0; i < count; i++) {
    curve_query one = {query.budget, query.words * copies[i], query.lean, false};
    WAFER_TRY(curve_of(NULL, set, body, one, &parts[i])); /* the caller tells */
  }
  return wafer_curve_unite(parts, count, set->arena, out);
}

static wafer_curve_options options_of(const curve_set *set, const curve_query *query) {
  return (wafer_curve_options){.max_width = set->max_width,
                               .max_height = set->max_height,
                               .budget = query->budget,
                               .stream_words = query->words,
                               .lean = query->lean,
                               .most_points = set->most_points};
}

static wafer_status find_points(curve_set *set, shapes *of, const wafer_kernel_body *body,
                                curve_query query, wafer_curve *out) {
  const wafer_curve_options options = options_of(set, &query);
  if (query.copied) return find_copied(set, body, query, out);
  return wafer_cuts_curve(of->cuts, body, &options, of->arena, out);
}

static curves_key key_of(const curve_set *set, const shapes *of, const curve_query *query) {
  return (curves_key){of->signature, *query, set->max_width, set->max_height, set->most_points};
}

static entry *keep_entry(shapes *of, entry *e, const curve_query *query) {
  e->query = *query;
  e->curve = &e->own;
  e->next = of->first;
  return of->first = e;
}

/* NULL: there is none yet, here or from compilations before. */
static entry *find_entry(const curve_set *set, shapes *of, const curve_query *query) {
  const curves_key key = key_of(set, of, query);
  entry *e = of->first;
  while (e && !same_query(&e->query, query)) e = e->next;
  const wafer_curve *kept = e || !set->kept ? NULL : curves_kept_find(set->kept, &key);
  if (!kept || !(e = WAFER_NEW(of->arena, entry, 1))) return e;
  keep_entry(of, e, query)->curve = kept;
  return e;
}

/* A curve that has been found, for compilations to come. False: out of memory. */
static bool keep_beyond(const curve_set *set, const shapes *of, entry *e) {
  const curves_key key = key_of(set, of, &e->query);
  const wafer_curve *kept = set->kept ? curves_kept_add(set->kept, &key, &e->own) : &e->own;
  if (kept) e->curve = kept;
  return kept;
}

static wafer_status no_memory(const wafer_diag *diag) {
  return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for a shape curve");
}

wafer_status curve_of(const wafer_diag *diag, curve_set *set, const wafer_kernel_body *body,
                      curve_query query, const wafer_curve **out) {
  shapes *of = shapes_of(set, body);
  entry *e = of ? find_entry(set, of, &query) : NULL;
  if (!e) {
    e = of ? WAFER_NEW(of->arena, entry, 1) : NULL;
    if (!e || find_points(set, of, body, query, &e->own) != WAFER_OK) return no_memory(diag);
    if (!keep_beyond(set, of, keep_entry(of, e, &query))) return no_memory(diag);
  }
  *out = e->curve;
  return WAFER_OK;
}

/* Curves that threads find side by side, of bodies that are busy then. */
typedef struct finding {
  uint32_t count;
  wafer_curve_task *tasks;
  shapes **of;
  entry **entries;
} finding;

static wafer_status add_task(curve_set *set, const curve_wish *w, finding *f) {
  shapes *of = shapes_of(set, &w->body);
  if (of && (w->query.copied || of->busy || find_entry(set, of, &w->query))) return WAFER_OK;
  entry *e = of ? WAFER_NEW(of->arena, entry, 1) : NULL;
  if (!e) return WAFER_NO_MEMORY;
  of->busy = true;
  f->of[f->count] = of;
  f->entries[f->count] = keep_entry(of, e, &w->query);
  f->tasks[f->count++] = (wafer_curve_task){.cuts = of->cuts,
                                            .body = &w->body,
                                            .options = options_of(set, &w->query),
                                            .arena = of->arena,
                                            .curve = &e->own};
  return WAFER_OK;
}

static wafer_status find_all(curve_set *set, wafer_arena *scratch, uint32_t count,
                             const curve_wish *wishes) {
  finding f = {0, WAFER_NEW(scratch, wafer_curve_task, count), WAFER_NEW(scratch, shapes *, count),
               WAFER_NEW(scratch, entry *, count)};
  if (!f.tasks || !f.of || !f.entries) return WAFER_NO_MEMORY;
  for (uint32_t i = 0; i < count; i++) WAFER_TRY(add_task(set, &wishes[i], &f));
  WAFER_TRY(wafer_cuts_curves(set->workers, f.tasks, f.count));
  for (uint32_t i = 0; i < f.count; i++) {
    f.of[i]->busy = false;
    if (!keep_beyond(set, f.of[i], f.entries[i])) return WAFER_NO_MEMORY;
  }
  return WAFER_OK;
}

wafer_status curves_find(const wafer_diag *diag, curve_set *set, uint32_t count,
                         const curve_wish *wishes) {
  if (!curve_set_workers(set)) return WAFER_OK; /* each when it is asked for */
  wafer_arena *scratch = wafer_arena_create();
  wafer_status status = scratch ? find_all(set, scratch, count, wishes) : WAFER_NO_MEMORY;
  wafer_arena_destroy(scratch);
  return status == WAFER_OK ? WAFER_OK : no_memory(diag);
}

/* ---- Points ---- */

const wafer_shape_point *curve_keep_point(curve_set *set, uint64_t signature,
                                          const wafer_shape_point *point) {
  struct {
    uint64_t signature;
    wafer_shape_point point;
  } key = {signature, *point};
  void **slot = intern_slot(set->points->kept, &key, sizeof key);
  if (slot && !*slot) *slot = wafer_arena_copy(set->arena, point, sizeof *point);
  return slot ? *slot : NULL;
}

const wafer_curve *curve_part(curve_set *set, const wafer_curve *of, const bool *keeps) {
  wafer_curve *part = WAFER_NEW(set->arena, wafer_curve, 1);
  wafer_shape_point *at = WAFER_NEW(set->arena, wafer_shape_point, of->count);
  if (!part || !at) return NULL;
  *part = *of;
  part->at = at;
  part->count = 0;
  for (size_t i = 0; i < of->count; i++)
    if (keeps[i]) at[part->count++] = of->at[i];
  return part;
}

const wafer_curve *curve_of_points(curve_set *set, const wafer_curve *of, size_t count,
                                   const wafer_shape_point *points) {
  wafer_curve *made = wafer_arena_copy(set->arena, of, sizeof *of);
  if (!made) return NULL;
  made->at = wafer_arena_copy(set->arena, points, count * sizeof *points);
  made->count = count;
  return made->at ? made : NULL;
}

const wafer_layout *curve_layouts(curve_set *set, const wafer_kernel_body *body,
                                  const wafer_shape_point *point) {
  uint32_t order = size_order(body);
  const uint64_t key[] = {(uint64_t)(uintptr_t)point, order};
  recent_layouts *recent = &set->points->recent[key[0] / sizeof *point % RECENT];
  if (recent->point == point && recent->order == order) return recent->lie;
  void **slot = intern_slot(set->points->layouts, key, sizeof key);
  if (!slot) return NULL;
  if (!*slot) {
    wafer_layout *lie = WAFER_NEW(set->arena, wafer_layout, body->input_count + body->output_count);
    if (!lie) return NULL;
    wafer_kernel_layouts(body, &point->split, lie, lie + body->input_count);
    *slot = lie;
  }
  *recent = (recent_layouts){point, order, *slot};
  return *slot;
}

/* Points of all curves together fill more memory than the table, so addresses are mixed. */
static size_t slot_of(const wafer_shape_point *point) {
  return (size_t)((uint64_t)(uintptr_t)point * 0x9e3779b97f4a7c15u >> 48) % RECENT;
}

size_multiply curve_multiply(curve_set *set, const wafer_kernel_body *body,
                             const wafer_shape_point *point) {
  recent_multiply key = {.point = point, .order = size_order(body)}, *at;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (wafer_body_multiplies(body, i)) key.slices = 2 * key.slices + (body->input_depth[i] == 0);
  if (!set->multiply) set->multiply = WAFER_NEW(set->arena, recent_multiply, RECENT);
  at = set->multiply ? &set->multiply[slot_of(point)] : &key;
  if (at == &key || at->point != point || at->order != key.order || at->slices != key.slices) {
    *at = key;
    at->is = size_multiply_cycles(set->machine, body, &point->split);
  }
  return at->is;
}

/* ---- Sizings ---- */

/* What a sizing follows from: kernels, how they hang together, and what leaves the wafer. */
static void put_graph(const wafer_graph *graph, uint32_t resident, uint64_t *key) {
  *key++ = resident;
  for (uint32_t k = 0; k < graph->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &graph->kernels[k];
    *key++ = wafer_kernel_signature(&kernel->body);
    for (uint32_t i = 0; i < kernel->body.input_count; i++) *key++ = kernel->inputs[i];
    for (uint32_t i = 0; i < kernel->body.output_count; i++) {
      bool leaves = wafer_graph_is_output(&graph->values[kernel->outputs[i]]);
      *key++ = 2 * (uint64_t)kernel->outputs[i] + leaves;
    }
  }
}

/* NULL: out of memory. */
static void **sizing_slot(curve_set *set, const wafer_graph *graph, uint32_t resident) {
  size_t words = 1;
  for (uint32_t k = 0; k < graph->kernel_count; k++)
    words += 1 + graph->kernels[k].body.input_count + graph->kernels[k].body.output_count;
  wafer_arena *scratch = wafer_arena_create();
  uint64_t *key = scratch ? WAFER_NEW(scratch, uint64_t, words) : NULL;
  if (key) put_graph(graph, resident, key);
  void **slot = key ? intern_slot(set->sizings, key, words * sizeof *key) : NULL;
  wafer_arena_destroy(scratch);
  return slot;
}

const sizing *curve_set_sizing(curve_set *set, const wafer_graph *graph, uint32_t resident) {
  void **slot = sizing_slot(set, graph, resident);
  return slot ? *slot : NULL;
}

bool curve_set_keep_sizing(curve_set *set, const wafer_graph *graph, uint32_t resident,
                           const sizing *found) {
  uint32_t n = graph->kernel_count;
  void **slot = sizing_slot(set, graph, resident);
  sizing *kept = wafer_arena_copy(set->arena, found, sizeof *found);
  if (!slot || !kept) return false;
  kept->kernels = wafer_arena_copy(set->arena, found->kernels, n * sizeof *kept->kernels);
  kept->phases = wafer_arena_copy(set->arena, found->phases, n * sizeof *kept->phases);
  if (!kept->kernels || !kept->phases) return false;
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t *depths = found->kernels[k].depths;
    size_t count = graph->kernels[k].body.input_count + 1;
    kept->kernels[k].depths = wafer_arena_copy(set->arena, depths, count * sizeof *depths);
    const wafer_rect *rect = found->kernels[k].rect;
    if (rect) kept->kernels[k].rect = rect = wafer_arena_copy(set->arena, rect, sizeof *rect);
    if (!kept->kernels[k].depths || (found->kernels[k].rect && !rect)) return false;
  }
  *slot = kept;
  return true;
}
