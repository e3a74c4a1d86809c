/* Shapes of a pipeline with which neighbours meet.
 *
 * A core of a pipeline receives and computes in turn, and sends while it receives the next sample,
 * so a kernel's turn of a sample is what it computes and the longer of both others, and the longest
 * turn is the interval of the pipeline's core programs. Where the rows of two kernels hold the same
 * part of a value it passes straight on; otherwise words go along columns as well. So shapes are
 * chosen together, among those that the interval of the kernels alone allows: first those with the
 * least sum of all turns, along a tree of the graph exactly (each kernel hanging on the producer
 * that ran last), then, kernel by kernel, what makes long turns shorter. Rows of one shelf meet,
 * those of two hardly ever: columns have a price, which rises until so many shelves hold all
 * kernels. */
#include "size_meet.h"

#include <string.h>

#include "streams.h"
#include "wafer/clones.h"

#define ROUNDS 3
#define PRICE_STEP 4 /* times as much as before */
#define SHELVES 4
#define CORES_A_CYCLE 8 /* so many cores are worth a cycle of a turn: words pass all of a row */
#define TOO_HIGH (UINT64_C(1) << 40)
#define LEAST_PRICE 1u /* of a column, in cycles */
#define MOST_PRICE 1024u
#define QUICK_SHARE 2 /* of the options of a layout that is wanted at once */

/* ---- edges ---- */

static uint64_t cycles_between(const meet *m, const meet_edge *e, uint32_t from, uint32_t to) {
  return e->cycles[(size_t)from * m->kernels[e->user].count + to];
}

/* The kernel's inputs from other kernels. */
static void list_edges(meet *m, uint32_t k) {
  const wafer_graph *g = m->p->graph;
  const wafer_graph_kernel *kernel = &g->kernels[k];
  meet_kernel *to = &m->kernels[k];
  to->parent = WAFER_NONE;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &g->values[kernel->inputs[i]];
    if (!meet_passes_on(kernel, v, i)) continue;
    if (to->parent == WAFER_NONE || v->producer > to->parent) to->parent = v->producer;
    m->edges[m->edge_count++] =
        (meet_edge){.producer = v->producer,
                    .user = k,
                    .output = g->kernels[v->producer].body.input_count + v->output,
                    .input = i,
                    .shape = &v->type.shape,
                    .words = value_words(v, kernel->body.storage)};
    to->edge_count++;
    m->kernels[v->producer].edge_count++;
  }
}

static bool from_parent(const meet *m, const meet_edge *e) {
  return e->producer == m->kernels[e->user].parent;
}

static wafer_status open_kernel(const meet *m, meet_kernel *k) {
  wafer_arena *arena = m->p->ctx->arena;
  uint32_t rows = k->parent == WAFER_NONE ? 1 : m->kernels[k->parent].count;
  k->edges = WAFER_NEW(arena, uint32_t, k->edge_count);
  k->base = WAFER_NEW(arena, uint64_t, k->count);
  k->best = WAFER_NEW(arena, uint8_t, rows);
  k->edge_count = 0;
  return k->edges && k->base && k->best ? WAFER_OK : pipeline_no_memory(m->p);
}

static wafer_status open_edges(meet *m) {
  uint32_t n = m->p->graph->kernel_count;
  size_t most = 0;
  for (uint32_t k = 0; k < n; k++) most += m->p->graph->kernels[k].body.input_count;
  m->edges = WAFER_NEW(m->p->ctx->arena, meet_edge, most);
  if (!m->edges) return pipeline_no_memory(m->p);
  for (uint32_t k = 0; k < n; k++) list_edges(m, k);
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(open_kernel(m, &m->kernels[k]));
  m->around = WAFER_NEW(m->p->ctx->arena, meet_neighbor, m->edge_count);
  if (!m->around) return pipeline_no_memory(m->p);
  for (int up = 1; up >= 0; up--)
    for (uint32_t i = 0; i < m->edge_count; i++) {
      const meet_edge *e = &m->edges[i];
      meet_kernel *a = &m->kernels[e->producer], *b = &m->kernels[e->user];
      if (from_parent(m, e) == up) b->edges[b->edge_count++] = i, b->up_count += (uint32_t)up;
      if (!up) a->edges[a->edge_count++] = i;
    }
  return meet_open_tables(m);
}

/* ---- the least sum of turns ---- */

/* What columns and cores of an option are worth. */
static uint64_t price_of(const meet *m, const meet_option *o) {
  if (o->point->height > m->height) return TOO_HIGH;
  return m->price * o->point->width + (uint64_t)o->point->width * o->point->height / CORES_A_CYCLE;
}

/* An option of a kernel with all its edges that are not of the tree; cores of both ends of an edge
 * take part in it. */
static uint64_t alone(const meet *m, uint32_t k, uint32_t option) {
  const meet_kernel *kernel = &m->kernels[k];
  uint64_t sum = kernel->at[option].own + price_of(m, &kernel->at[option]);
  for (uint32_t i = kernel->up_count; i < kernel->edge_count; i++) {
    const meet_edge *e = &m->edges[kernel->edges[i]];
    if (e->user == k)
      sum += 2 * cycles_between(m, e, m->kernels[e->producer].chosen, option);
    else if (!from_parent(m, e))
      sum += 2 * cycles_between(m, e, option, m->kernels[e->user].chosen);
  }
  return sum;
}

/* The kernel's best option when all below it costs `cost`; `*least`: then. */
static uint8_t cheapest(uint32_t count, const uint64_t *cost, uint64_t *least) {
  uint32_t o = 0;
  *least = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++) *least = cost[i] < *least ? cost[i] : *least;
  while (cost[o] != *least) o++;
  return (uint8_t)o;
}

/* The best option for each of the parent's, whose base then counts it. */
WAFER_CLONES
static void hang_on_parent(meet *m, uint32_t k) {
  meet_kernel *kernel = &m->kernels[k];
  uint64_t cost[MEET_OPTIONS], least;
  if (kernel->parent == WAFER_NONE) {
    kernel->best[0] = cheapest(kernel->count, kernel->base, &least);
    return;
  }
  meet_kernel *parent = &m->kernels[kernel->parent];
  for (uint32_t r = 0; r < parent->count; r++) {
    memcpy(cost, kernel->base, kernel->count * sizeof *cost);
    for (uint32_t i = 0; i < kernel->up_count; i++) {
      const uint64_t *row = &m->edges[kernel->edges[i]].cycles[(size_t)r * kernel->count];
      for (uint32_t o = 0; o < kernel->count; o++) cost[o] += 2 * row[o];
    }
    kernel->best[r] = cheapest(kernel->count, cost, &least);
    parent->base[r] += least;
  }
}

/* Whether anything has changed. */
static bool least_sum(meet *m) {
  uint32_t n = m->p->graph->kernel_count;
  bool changed = false;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t o = 0; o < m->kernels[k].count; o++) m->kernels[k].base[o] = alone(m, k, o);
  for (uint32_t k = n; k-- > 0;) hang_on_parent(m, k);
  for (uint32_t k = 0; k < n; k++) {
    meet_kernel *kernel = &m->kernels[k];
    uint32_t row = kernel->parent == WAFER_NONE ? 0 : m->kernels[kernel->parent].chosen;
    changed |= kernel->chosen != kernel->best[row];
    kernel->chosen = kernel->best[row];
  }
  return changed;
}

/* ---- long turns ---- */

static void add_passing(const meet *m, const meet_edge *e, uint32_t k, meet_passing *sum) {
  uint64_t cycles =
      cycles_between(m, e, m->kernels[e->producer].chosen, m->kernels[e->user].chosen);
  if (e->user == k)
    sum->in += cycles;
  else
    sum->out += cycles;
}

/* But for what passes between it and kernel `without`. */
static meet_passing passing_of(const meet *m, uint32_t k, uint32_t without) {
  const meet_kernel *kernel = &m->kernels[k];
  meet_passing sum = {0, 0};
  for (uint32_t i = 0; i < kernel->edge_count; i++) {
    const meet_edge *e = &m->edges[kernel->edges[i]];
    if (e->producer != without && e->user != without) add_passing(m, e, k, &sum);
  }
  return sum;
}

static uint64_t turn_with(const meet *m, uint32_t k, meet_passing p) {
  return meet_turn(p.in, m->kernels[k].at[m->kernels[k].chosen].own, p.out);
}

static uint64_t longest_turn(const meet *m) {
  uint64_t longest = 1;
  for (uint32_t k = 0; k < m->p->graph->kernel_count; k++) {
    uint64_t turn = turn_with(m, k, passing_of(m, k, WAFER_NONE));
    longest = turn > longest ? turn : longest;
  }
  return longest;
}

/* Of half the scale: an eighth of its length. */
static double weight_of(const meet *m, uint64_t cycles) {
  double turn = (double)cycles, part = turn / (double)m->scale;
  return part * part * part * turn;
}

static void open_around(const meet *m, uint32_t k) {
  const meet_kernel *kernel = &m->kernels[k];
  for (uint32_t i = 0; i < kernel->edge_count; i++) {
    const meet_edge *e = &m->edges[kernel->edges[i]];
    uint32_t other = e->user == k ? e->producer : e->user, first = 0;
    while (first < i && m->around[first].kernel != other) first++;
    m->around[i] = (meet_neighbor){.kernel = other, .first = first};
    if (first == i) m->around[i].without = passing_of(m, other, k);
  }
}

/* What the option at hand of a kernel costs it and its neighbours. */
static double weight_around(const meet *m, uint32_t k) {
  const meet_kernel *kernel = &m->kernels[k];
  meet_passing own = {0, 0};
  for (uint32_t i = 0; i < kernel->edge_count; i++) {
    const meet_edge *e = &m->edges[kernel->edges[i]];
    meet_neighbor *other = &m->around[m->around[i].first];
    if (other == &m->around[i]) other->with = other->without;
    add_passing(m, e, k, &own);
    add_passing(m, e, other->kernel, &other->with);
  }
  double sum =
      weight_of(m, turn_with(m, k, own)) + (double)price_of(m, &kernel->at[kernel->chosen]);
  for (uint32_t i = 0; i < kernel->edge_count; i++) {
    const meet_neighbor *other = &m->around[m->around[i].first];
    sum += weight_of(m, turn_with(m, other->kernel, other->with));
  }
  return sum;
}

/* Whether any kernel has found a better option. */
static bool improve(meet *m) {
  bool better = false;
  m->scale = longest_turn(m);
  for (uint32_t k = 0; k < m->p->graph->kernel_count; k++) {
    meet_kernel *kernel = &m->kernels[k];
    uint32_t best = kernel->chosen;
    open_around(m, k);
    double least = weight_around(m, k);
    for (uint32_t o = 0; o < kernel->count; o++) {
      kernel->chosen = o;
      double weight = weight_around(m, k);
      if (weight >= least) continue;
      least = weight;
      best = o;
      better = true;
    }
    kernel->chosen = best;
  }
  return better;
}

/* ---- on the wafer ---- */

static wafer_status pack(const meet *m, shelf_place *places, bool *fits) {
  uint32_t n = m->p->graph->kernel_count;
  wafer_arena *arena = m->p->ctx->arena;
  shelf_point *points = WAFER_NEW(arena, shelf_point, n);
  shelf_shapes *kinds = WAFER_NEW(arena, shelf_shapes, n);
  uint32_t *kind_of = WAFER_NEW(arena, uint32_t, n);
  if (!points || !kinds || !kind_of) return pipeline_no_memory(m->p);
  for (uint32_t k = 0; k < n; k++) {
    const wafer_shape_point *at = m->kernels[k].at[m->kernels[k].chosen].point;
    points[k] = (shelf_point){at->width, at->height, 0};
    kinds[k] = (shelf_shapes){1, &points[k]};
    kind_of[k] = k;
  }
  shelf_problem problem = {.machine = m->p->ctx->machine,
                           .kind_count = n,
                           .count = n,
                           .kinds = kinds,
                           .kind = kind_of,
                           .every_height = true}; /* as pass `place` */
  WAFER_TRY(shelf_pack(m->p->ctx->diag, arena, &problem, places, fits));
  for (uint32_t k = 0; *fits && k < n; k++)
    places[k].point = m->kernels[k].at[m->kernels[k].chosen].point;
  return WAFER_OK;
}

/* ---- all together ---- */

static uint64_t columns(const meet *m) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < m->p->graph->kernel_count; k++)
    sum += m->kernels[k].at[m->kernels[k].chosen].point->width;
  return sum;
}

/* Options at that price; whether so many shelves hold them. */
static bool choose_at(meet *m, uint64_t price, uint32_t shelves) {
  wafer_rect usable = m->p->ctx->machine->usable;
  m->price = price;
  m->height = usable.height / shelves;
  for (int r = 0; r < ROUNDS && least_sum(m); r++) continue;
  for (int r = 0; r < ROUNDS && improve(m); r++) continue;
  return columns(m) <= (uint64_t)shelves * usable.width;
}

/* At the least price at which that is so; false: there is none. */
static bool choose(meet *m, uint32_t shelves) {
  if (!choose_at(m, MOST_PRICE, shelves)) return false;
  uint64_t price = LEAST_PRICE;
  while (price < MOST_PRICE && !choose_at(m, price, shelves)) price *= PRICE_STEP;
  return price < MOST_PRICE || choose_at(m, MOST_PRICE, shelves);
}

/* Takes the layout in `tried` if its longest turn is less than `*turn`, and its interval no more.
 */
static wafer_status keep_better(pipeline *p, uint64_t interval, const shelf_place *tried,
                                uint64_t *turn, shelf_place *places) {
  uint64_t longest;
  WAFER_TRY(pipeline_turn(p, tried, &longest));
  if (longest >= *turn) return WAFER_OK;
  WAFER_TRY(pipeline_settle(p, tried));
  if (p->out->cost.interval_cycles > interval) return WAFER_OK;
  memcpy(places, tried, p->graph->kernel_count * sizeof *places);
  *turn = longest;
  return WAFER_OK;
}

/* The same pipeline, whose tables are in an arena that ends before it. */
static wafer_status open_apart(const pipeline *p, wafer_ctx *with, pipeline *own) {
  *with = *p->ctx;
  *own = *p;
  own->ctx = with;
  with->arena = wafer_arena_create();
  return with->arena ? WAFER_OK : pipeline_no_memory(p);
}

/* With the tables of `own`; layouts are settled by `p`. */
static wafer_status meet_in(pipeline *p, pipeline *own, uint64_t t, shelf_place *places) {
  uint32_t n = p->graph->kernel_count;
  uint64_t turn, interval = p->out->cost.interval_cycles;
  bool hasty = p->ctx->options && p->ctx->options->hasty;
  meet m = {.p = own,
            .t = t,
            .share = hasty ? QUICK_SHARE : 1,
            .kernels = WAFER_NEW(own->ctx->arena, meet_kernel, n)};
  shelf_place *tried = WAFER_NEW(own->ctx->arena, shelf_place, n);
  if (!m.kernels || !tried) return pipeline_no_memory(p);
  WAFER_TRY(pipeline_turn(p, places, &turn));
  WAFER_TRY(meet_open_options(&m, places));
  WAFER_TRY(open_edges(&m));
  for (uint32_t shelves = 1; shelves <= SHELVES; shelves++) {
    bool fits = false;
    if (choose(&m, shelves)) WAFER_TRY(pack(&m, tried, &fits));
    if (fits) WAFER_TRY(keep_better(p, interval, tried, &turn, places));
  }
  return WAFER_OK;
}

wafer_status pipeline_meet(pipeline *p, uint64_t t, shelf_place *places) {
  wafer_ctx with;
  pipeline own;
  WAFER_TRY(open_apart(p, &with, &own));
  wafer_status status = meet_in(p, &own, t, places);
  wafer_arena_destroy(with.arena);
  return status == WAFER_OK ? pipeline_settle(p, places) : status;
}

/* ---- by pace ---- */

/* Takes the layout in `tried` if its cores have room for words on their way and its pace is
 * shorter; *shorter: it is. */
static wafer_status keep_faster(const pipeline *p, const shelf_place *tried, uint64_t *pace,
                                shelf_place *places, bool *shorter) {
  uint64_t longest, now;
  WAFER_TRY(pipeline_turn(p, tried, &longest));
  WAFER_TRY(pipeline_pace(p, tried, &now));
  *shorter = longest < MEET_NO_ROOM && now < *pace;
  if (!*shorter) return WAFER_OK;
  memcpy(places, tried, p->graph->kernel_count * sizeof *places);
  *pace = now;
  return WAFER_OK;
}

/* With kernels of at most `t` cycles each, on more and more shelves as long as these gain. */
static wafer_status meet_at(pipeline *p, uint64_t t, uint32_t share, const shelf_place *start,
                            uint64_t *pace, shelf_place *places) {
  uint32_t n = p->graph->kernel_count;
  meet m = {.p = p, .t = t, .share = share, .kernels = WAFER_NEW(p->ctx->arena, meet_kernel, n)};
  shelf_place *tried = WAFER_NEW(p->ctx->arena, shelf_place, n);
  bool gains = true, has = false;
  if (!m.kernels || !tried) return pipeline_no_memory(p);
  WAFER_TRY(meet_open_options(&m, start));
  WAFER_TRY(open_edges(&m));
  for (uint32_t shelves = 1; shelves <= SHELVES && (gains || !has); shelves++) {
    bool fits = false;
    gains = false;
    if (choose(&m, shelves)) WAFER_TRY(pack(&m, tried, &fits));
    if (fits) WAFER_TRY(keep_faster(p, tried, pace, places, &gains));
    has |= fits;
  }
  return WAFER_OK;
}

wafer_status pipeline_meet_pace(const pipeline *p, bool quick, shelf_place *places) {
  static const uint32_t halves[] = {4, 3, 7}; /* of the interval; the first is quick */
  uint32_t n = p->graph->kernel_count;
  shelf_place *start = wafer_arena_copy(p->ctx->arena, places, n * sizeof *start);
  uint64_t pace = UINT64_MAX;
  bool shorter;
  if (!start) return pipeline_no_memory(p);
  WAFER_TRY(keep_faster(p, start, &pace, places, &shorter));
  for (size_t i = 0; i < (quick ? 1 : WAFER_COUNT(halves)); i++) {
    wafer_ctx with;
    pipeline own;
    WAFER_TRY(open_apart(p, &with, &own));
    uint64_t t = p->out->cost.interval_cycles * halves[i] / 2;
    wafer_status status = meet_at(&own, t, quick ? QUICK_SHARE : 1, start, &pace, places);
    wafer_arena_destroy(with.arena);
    if (status != WAFER_OK) return status;
  }
  return WAFER_OK;
}
