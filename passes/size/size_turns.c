/* Shelves on which the longest turn of a kernel is short, by annealing.
 *
 * Where cores bind, neighbours cannot be given what they like best one by one: a kernel that is
 * wider leaves less to the others, another end of a shelf moves all that come behind. So all of it
 * is changed a little at a time: how a kernel is cut, where a shelf ends. Kernels stand in their
 * order on shelves, to and fro, a shelf as high as its highest kernel; the next one begins below
 * where it ends. What counts is the longest turn, and a little those near it: the sixteenth root of
 * the sum of their sixteenth powers. Layouts too large for the wafer have a price, which rises;
 * only layouts that fit are kept. */
#include <math.h>
#include <string.h>

#include "search.h"
#include "size_meet.h"
#include "streams.h"

#define MOVES 500000
#define MOST_WORK 100000000 /* moves of a kernel */
#define LOOK 1024           /* moves between two looks at the clock */
#define TRIES 4             /* that --place-seconds are for */
#define SLOWEST 11          /* eighths of the shortest interval that a kernel may compute */
#define SCALE 1000.0        /* cycles; keeps powers small */
#define PRICED 0.05         /* of the energy, for each column or row that is not there, */
#define PRICE_RISE 9        /* and at last so many times that more */
#define NO_ROOM 4           /* words without room on their way: one part of the slowest kernel */
#define HOT 0.003           /* of the energy at first: a rise that is taken once in e times, */
#define COLD 0.0001         /* and at last */
#define NEAR 1.15           /* times the energy: layouts nearby have no more */
#define MOST_LOOKS 512      /* for all changes that lead to one */
#define WARM 0.0003         /* of the energy, on the way to some of them */

/* Of an option of the producer with one of the user: whether their rows, and their columns, hold
 * the same, and whether words have room on their way. A bit says that it is known, the next one
 * what. */
enum { PAIR_ROWS = 0, PAIR_COLUMNS = 2, PAIR_ROOM = 4 };

/* A value that passes from a kernel to another. */
typedef struct way {
  uint32_t producer, user, output, input;
  uint32_t value;
  const wafer_shape *shape;
  uint64_t words;
  uint8_t *pairs;            /* [option of the producer][option of the user] */
  uint64_t *from[2], *to[2]; /* of each option: words of a row, and of a column */
} way;

/* What a move changes, and what follows from it. */
typedef struct state {
  uint32_t *option; /* of each kernel */
  bool *breaks;     /* a shelf begins with it */
  wafer_rect *rect;
  uint64_t *cycles; /* of each way */
  double energy;
  uint32_t longest; /* the kernel with the longest turn */
  uint64_t beyond;  /* columns of all shelves and rows that are not there */
} state;

typedef struct turns {
  pipeline *p;
  meet m;
  uint64_t **held; /* bytes of a core for each option, with room for one sample */
  uint32_t way_count;
  way *ways;
  uint64_t *receives, *sends;
  uint64_t (*most)[MEET_SIDES]; /* of each value, see meet_send */
  double price;                 /* see PRICED */
  double until;                 /* 0: no limit; else of search_seconds */
  state now, tried, best;
  rng random;
} turns;

/* ---- a layout ---- */

static const meet_option *option_of(const turns *t, const state *s, uint32_t k) {
  return &t->m.kernels[k].at[s->option[k]];
}

/* Kernels first .. end - 1 on a shelf from column `from` on, to the right or to the left; where it
 * ends. */
static int64_t fill_shelf(const turns *t, state *s, uint32_t first, uint32_t end, uint32_t y,
                          bool left, int64_t from) {
  wafer_rect u = t->p->ctx->machine->usable;
  for (uint32_t k = first; k < end; k++) {
    const wafer_shape_point *is = option_of(t, s, k)->point;
    if (left) from -= is->width;
    s->rect[k] =
        (wafer_rect){u.x + (uint32_t)(from < 0 ? 0 : from), u.y + y, is->width, is->height};
    if (!left) from += is->width;
  }
  return from;
}

/* Rectangles of all kernels, and by how much they are too large. */
static void lay_out(const turns *t, state *s) {
  wafer_rect u = t->p->ctx->machine->usable;
  uint32_t n = t->p->graph->kernel_count, y = 0;
  int64_t at = 0, width = u.width;
  bool left = false;
  s->beyond = 0;
  for (uint32_t first = 0, end; first < n; first = end, left = !left) {
    int64_t columns = 0;
    uint32_t height = 0;
    for (end = first; end < n && (end == first || !s->breaks[end]); end++) {
      const wafer_shape_point *is = option_of(t, s, end)->point;
      columns += is->width;
      height = is->height > height ? is->height : height;
    }
    if (columns > width) s->beyond += (uint64_t)(columns - width);
    if (left && at < columns) at = columns < width ? columns : width;
    if (!left && at + columns > width) at = columns < width ? width - columns : 0;
    at = fill_shelf(t, s, first, end, y, left, at);
    y += height;
  }
  if (y > u.height) s->beyond += y - u.height;
}

/* ---- turns ---- */

static wafer_holding holding_of(const turns *t, uint32_t k, uint32_t option, uint32_t place) {
  const meet_option *o = &t->m.kernels[k].at[option];
  return (wafer_holding){
      WAFER_AT_wafer, {0, 0, o->point->width, o->point->height}, o->lie[place]};
}

static bool has_room(const turns *t, const way *w, uint32_t a, uint32_t b) {
  wafer_shape_point one = *t->m.kernels[w->producer].at[a].point,
                    other = *t->m.kernels[w->user].at[b].point;
  wafer_holding from = holding_of(t, w->producer, a, w->output),
                to = holding_of(t, w->user, b, w->input);
  one.bytes = t->held[w->producer][a];
  other.bytes = t->held[w->user][b];
  return !meet_room_price(t->p, &from, &one, &to, &other, w->shape, w->words);
}

/* What is asked of options a and b of the ends of a way. */
static bool ask(const turns *t, const way *w, uint32_t a, uint32_t b, uint32_t what) {
  uint8_t *pair = &w->pairs[a * t->m.kernels[w->user].count + b];
  if (!(*pair >> what & 1)) {
    wafer_holding from = holding_of(t, w->producer, a, w->output),
                  to = holding_of(t, w->user, b, w->input);
    bool is = what == PAIR_ROOM ? has_room(t, w, a, b)
                                : meeting_alike(&from, &to, w->shape, what == PAIR_COLUMNS);
    *pair |= (uint8_t)((is ? 3u : 1u) << what);
  }
  return *pair >> what & 2;
}

static uint64_t cycles_of(const turns *t, const state *s, const way *w) {
  uint32_t a = s->option[w->producer], b = s->option[w->user];
  wafer_rect from = s->rect[w->producer], to = s->rect[w->user];
  bool columns = meeting_along_columns(from, to);
  meeting of = {.alike = ask(t, w, a, b, columns ? PAIR_COLUMNS : PAIR_ROWS),
                .from = {w->from[columns][a], w->from[!columns][a]},
                .to = {w->to[columns][b], w->to[!columns][b]}};
  return meeting_takes(t->p->ctx->machine, &of, from, to, w->words, columns) +
         (ask(t, w, a, b, PAIR_ROOM) ? 0 : t->m.t / NO_ROOM);
}

/* How far the user of the way lies from its producer. */
static uint32_t east_of(const state *s, const way *w) {
  return s->rect[w->user].x - s->rect[w->producer].x;
}
static uint32_t south_of(const state *s, const way *w) {
  return s->rect[w->user].y - s->rect[w->producer].y;
}

/* Whether its cycles are the same in both: where both ends lie together counts for nothing, and a
 * move shifts all that comes behind. */
static bool same_way(const state *a, const state *b, const way *w) {
  return a->option[w->producer] == b->option[w->producer] &&
         a->option[w->user] == b->option[w->user] && east_of(a, w) == east_of(b, w) &&
         south_of(a, w) == south_of(b, w);
}

static double sixteenth(double x) {
  x *= x;
  x *= x;
  x *= x;
  x *= x;
  return x;
}

/* Of a layout; `like`: one whose ways are known, or NULL. */
static void weigh(turns *t, state *s, const state *like) {
  uint32_t n = t->p->graph->kernel_count;
  memset(t->receives, 0, n * sizeof *t->receives);
  memset(t->sends, 0, n * sizeof *t->sends);
  for (uint32_t i = 0; i < t->way_count; i++) memset(t->most[t->ways[i].value], 0, sizeof *t->most);
  for (uint32_t i = 0; i < t->way_count; i++) {
    const way *w = &t->ways[i];
    s->cycles[i] = like && same_way(s, like, w) ? like->cycles[i] : cycles_of(t, s, w);
    uint32_t side = meet_side(t->p, s->rect[w->producer], s->rect[w->user]);
    t->sends[w->producer] += meet_send(t->most[w->value], side, s->cycles[i]);
    t->receives[w->user] += s->cycles[i];
  }
  double sum = 0;
  uint64_t most = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint64_t turn = meet_turn(t->receives[k], option_of(t, s, k)->own, t->sends[k]);
    sum += sixteenth((double)turn / SCALE);
    if (turn > most) most = turn, s->longest = k;
  }
  s->energy = SCALE * pow(sum, 0.0625) * (1 + t->price * (double)s->beyond);
}

/* ---- moves ---- */

static void change_option(turns *t, state *s, uint32_t k) {
  s->option[k] = rng_below(&t->random, t->m.kernels[k].count);
}

/* A shelf more or less, or one that begins elsewhere. */
static void change_break(turns *t, state *s) {
  uint32_t n = t->p->graph->kernel_count;
  if (n < 2) return;
  uint32_t k = 1 + rng_below(&t->random, n - 1);
  if (rng_below(&t->random, 4) == 0) {
    s->breaks[k] = !s->breaks[k];
    return;
  }
  uint32_t from = k;
  while (from < n && !s->breaks[from]) from++;
  if (from == n) return;
  uint32_t by = 1 + rng_below(&t->random, 3), to = rng_below(&t->random, 2) ? from + by : from - by;
  if (to == 0 || to >= n) return; /* below 0 as well */
  s->breaks[from] = false;
  s->breaks[to] = true;
}

/* A kernel that shares a value with `k`, or `k` itself. */
static uint32_t neighbour(turns *t, uint32_t k) {
  uint32_t i = t->way_count ? rng_below(&t->random, t->way_count) : 0;
  for (uint32_t tried = 0; tried < t->way_count; tried++, i = (i + 1) % t->way_count) {
    const way *w = &t->ways[i];
    if (w->producer == k) return w->user;
    if (w->user == k) return w->producer;
  }
  return k;
}

static void move(turns *t, state *s) {
  uint32_t move_of = rng_below(&t->random, 32),
           k = rng_below(&t->random, t->p->graph->kernel_count);
  if (move_of < 4) {
    change_option(t, s, s->longest);
  } else if (move_of < 8) {
    change_option(t, s, neighbour(t, s->longest));
  } else if (move_of < 14) {
    change_break(t, s);
  } else {
    if (move_of < 17) change_option(t, s, neighbour(t, k));
    change_option(t, s, k);
  }
}

static void copy(const turns *t, state *to, const state *from) {
  uint32_t n = t->p->graph->kernel_count;
  memcpy(to->option, from->option, n * sizeof *to->option);
  memcpy(to->breaks, from->breaks, n * sizeof *to->breaks);
  memcpy(to->rect, from->rect, n * sizeof *to->rect);
  memcpy(to->cycles, from->cycles, t->way_count * sizeof *to->cycles);
  to->energy = from->energy;
  to->beyond = from->beyond;
  to->longest = from->longest;
}

/* Whether the seconds that there are for a try are over. */
static bool is_late(const turns *t, uint64_t i, uint64_t moves) {
  if (i % LOOK) return false;
  wafer_progress(t->p->ctx->diag, "shorter turns: moves", i, moves);
  return t->until > 0 && search_seconds() > t->until;
}

static void anneal(turns *t, uint64_t moves) {
  double start = t->now.energy;
  for (uint64_t i = 0; i < moves && !is_late(t, i, moves); i++) {
    double part = (double)i / (double)moves, heat = HOT * pow(COLD / HOT, part) * start;
    if (i % LOOK == 0) {
      t->price = PRICED * (1 + PRICE_RISE * part);
      weigh(t, &t->now, &t->now);
    }
    copy(t, &t->tried, &t->now);
    move(t, &t->tried);
    lay_out(t, &t->tried);
    weigh(t, &t->tried, &t->now);
    double rise = t->tried.energy - t->now.energy;
    if (rise > 0 && rng_unit(&t->random) >= exp(-rise / heat)) continue;
    copy(t, &t->now, &t->tried);
    if (!t->now.beyond && t->now.energy < t->best.energy) copy(t, &t->best, &t->now);
  }
}

/* ---- all together ---- */

static wafer_status open_state(const turns *t, state *s) {
  uint32_t n = t->p->graph->kernel_count;
  wafer_arena *arena = t->p->ctx->arena;
  *s = (state){.option = WAFER_NEW(arena, uint32_t, n),
               .breaks = WAFER_NEW(arena, bool, n),
               .rect = WAFER_NEW(arena, wafer_rect, n),
               .cycles = WAFER_NEW(arena, uint64_t, t->way_count)};
  return s->option && s->breaks && s->rect && s->cycles ? WAFER_OK : pipeline_no_memory(t->p);
}

/* Words of lines of all options, and room for what is asked of them. */
static wafer_status open_way(const turns *t, way *w) {
  wafer_arena *arena = t->p->ctx->arena;
  const meet_kernel *from = &t->m.kernels[w->producer], *to = &t->m.kernels[w->user];
  w->pairs = WAFER_NEW(arena, uint8_t, (size_t)from->count * to->count);
  for (int column = 0; column < 2; column++) {
    uint64_t *sent = w->from[column] = WAFER_NEW(arena, uint64_t, from->count);
    uint64_t *taken = w->to[column] = WAFER_NEW(arena, uint64_t, to->count);
    if (!w->pairs || !sent || !taken) return pipeline_no_memory(t->p);
    for (uint32_t o = 0; o < from->count; o++)
      sent[o] = meeting_words(&from->at[o].lie[w->output], w->shape, column, w->words);
    for (uint32_t o = 0; o < to->count; o++)
      taken[o] = meeting_words(&to->at[o].lie[w->input], w->shape, column, w->words);
  }
  return WAFER_OK;
}

static wafer_status find_ways(turns *t) {
  const wafer_graph *g = t->p->graph;
  size_t most = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++) most += g->kernels[k].body.input_count;
  t->ways = WAFER_NEW(t->p->ctx->arena, way, most);
  if (!t->ways) return pipeline_no_memory(t->p);
  for (uint32_t k = 0; k < g->kernel_count; k++)
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
      const wafer_graph_value *v = &g->values[g->kernels[k].inputs[i]];
      if (meet_passes_on(&g->kernels[k], v, i))
        t->ways[t->way_count++] =
            (way){.producer = v->producer,
                  .user = k,
                  .output = g->kernels[v->producer].body.input_count + v->output,
                  .input = i,
                  .value = g->kernels[k].inputs[i],
                  .shape = &v->type.shape,
                  .words = value_words(v, g->kernels[k].body.storage)};
    }
  for (uint32_t i = 0; i < t->way_count; i++) WAFER_TRY(open_way(t, &t->ways[i]));
  return WAFER_OK;
}

/* Programs have one room for each value, and more where there is space. */
static wafer_status find_held(turns *t, uint32_t k) {
  const meet_kernel *kernel = &t->m.kernels[k];
  uint32_t inputs = kernel->body.input_count;
  uint32_t *depths = WAFER_NEW(t->p->ctx->arena, uint32_t, inputs + 1);
  t->held[k] = WAFER_NEW(t->p->ctx->arena, uint64_t, kernel->count);
  if (!depths || !t->held[k]) return pipeline_no_memory(t->p);
  for (uint32_t i = 0; i <= inputs; i++) depths[i] = 1;
  wafer_kernel_body body = size_with_depths(&kernel->body, depths);
  const split_body splits = curve_splits(t->p->curves, &body);
  for (uint32_t o = 0; o < kernel->count; o++)
    t->held[k][o] = split_cost_find(&splits, &kernel->at[o].point->split).bytes;
  return WAFER_OK;
}

/* The layout at hand, as shelves. */
static void begin(const turns *t, const shelf_place *places, state *s) {
  for (uint32_t k = 0; k < t->p->graph->kernel_count; k++) {
    wafer_rect r = places[k].rect, last = places[k ? k - 1 : 0].rect;
    s->option[k] = 0;
    s->breaks[k] = k && (r.y >= last.y + last.height || r.y + r.height <= last.y);
  }
  lay_out(t, s);
}

static bool may_search(const pipeline *p, const shelf_place *places) {
  const wafer_machine *m = p->ctx->machine;
  if (m->dead_count || m->reserved_count || p->pin) return false;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (places[k].replicas > 1) return false;
  return true;
}

static wafer_status open_turns(turns *t, const shelf_place *places) {
  uint32_t n = t->p->graph->kernel_count;
  if (!t->m.kernels || !t->held || !t->receives || !t->sends || !t->most)
    return pipeline_no_memory(t->p);
  WAFER_TRY(meet_open_options(&t->m, places));
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(find_held(t, k));
  WAFER_TRY(find_ways(t));
  WAFER_TRY(open_state(t, &t->now));
  WAFER_TRY(open_state(t, &t->tried));
  WAFER_TRY(open_state(t, &t->best));
  begin(t, places, &t->now);
  weigh(t, &t->now, NULL);
  t->best.energy = HUGE_VAL;
  return WAFER_OK;
}

static uint64_t moves_of(const pipeline *p) {
  uint64_t moves = MOST_WORK / p->graph->kernel_count, asked = p->ctx->options->place_moves;
  moves = moves < MOVES ? moves : MOVES;
  return asked && asked < moves ? asked : moves;
}

static turns turns_of(pipeline *p, uint64_t seed) {
  wafer_arena *arena = p->ctx->arena;
  uint32_t n = p->graph->kernel_count;
  uint64_t(*most)[MEET_SIDES] = wafer_arena_alloc(arena, p->graph->value_count, sizeof *most);
  return (turns){.p = p,
                 .m = {.p = p,
                       .t = p->out->cost.interval_cycles * SLOWEST / 8,
                       .share = 1,
                       .kernels = WAFER_NEW(arena, meet_kernel, n)},
                 .held = WAFER_NEW(arena, uint64_t *, n),
                 .receives = WAFER_NEW(arena, uint64_t, n),
                 .sends = WAFER_NEW(arena, uint64_t, n),
                 .most = most,
                 .price = PRICED,
                 .random = {seed}};
}

static void put_down(const turns *t, const state *s, shelf_place *places) {
  for (uint32_t k = 0; k < t->p->graph->kernel_count; k++)
    places[k] = (shelf_place){.rect = s->rect[k], .point = option_of(t, s, k)->point};
}

/* Takes the layout if its pace is shorter. */
static wafer_status take(const turns *t, shelf_place *places) {
  uint32_t n = t->p->graph->kernel_count;
  uint64_t before, after;
  shelf_place *found = WAFER_NEW(t->p->ctx->arena, shelf_place, n);
  if (!found) return pipeline_no_memory(t->p);
  put_down(t, &t->best, found);
  WAFER_TRY(pipeline_pace(t->p, places, &before));
  WAFER_TRY(pipeline_pace(t->p, found, &after));
  if (after < before) memcpy(places, found, n * sizeof *places);
  return WAFER_OK;
}

wafer_status pipeline_shorten_turns(pipeline *p, shelf_place *places) {
  const wafer_options *o = p->ctx->options;
  if (!may_search(p, places)) return WAFER_OK;
  turns t = turns_of(p, o->place_seed + ((uint64_t)o->slower << 32));
  if (o->place_seconds > 0) t.until = search_seconds() + o->place_seconds / TRIES;
  WAFER_TRY(open_turns(&t, places));
  anneal(&t, moves_of(p));
  return t.best.energy < HUGE_VAL ? take(&t, places) : WAFER_OK;
}

/* ---- a layout nearby ---- */

static bool same_layout(const turns *t, const state *a, const state *b) {
  uint32_t n = t->p->graph->kernel_count;
  return !memcmp(a->option, b->option, n * sizeof *a->option) &&
         !memcmp(a->breaks, b->breaks, n * sizeof *a->breaks);
}

/* A kernel is cut otherwise, or two that share a value are, or a shelf ends elsewhere. */
static void move_any(turns *t, state *s) {
  uint32_t move_of = rng_below(&t->random, 8), k = rng_below(&t->random, t->p->graph->kernel_count);
  if (move_of < 2) {
    change_break(t, s);
    return;
  }
  if (move_of < 4) change_option(t, s, neighbour(t, k));
  change_option(t, s, k);
}

/* So many moves one after the other, whatever they are worth as long as it is no more than `most`;
 * with some heat those that make turns longer are seldom taken. */
static void wander(turns *t, uint32_t moves, uint32_t changes, double heat, double most) {
  for (uint32_t i = 0, taken = 0; i < moves && taken < changes; i++) {
    copy(t, &t->tried, &t->now);
    heat > 0 ? move(t, &t->tried) : move_any(t, &t->tried);
    lay_out(t, &t->tried);
    weigh(t, &t->tried, &t->now);
    double rise = t->tried.energy - t->now.energy;
    if (t->tried.beyond || t->tried.energy > most || same_layout(t, &t->tried, &t->now) ||
        (heat > 0 && rise > 0 && rng_unit(&t->random) >= exp(-rise / heat)))
      continue;
    copy(t, &t->now, &t->tried);
    taken++;
  }
}

wafer_status pipeline_wander(pipeline *p, shelf_place *places) {
  static const uint32_t changes[] = {1, 2, 4, 8}, moves[] = {30, 300, 3000, 10000};
  const wafer_options *o = p->ctx->options;
  const uint32_t far = o->wander / 2 % WAFER_COUNT(changes);
  turns t = turns_of(p, o->place_seed + ((uint64_t)o->wander << 32));
  WAFER_TRY(open_turns(&t, places));
  if (t.now.beyond) return WAFER_OK;
  const double now = t.now.energy;
  if (o->wander % 2)
    wander(&t, MOST_LOOKS, changes[far], 0, now * NEAR);
  else
    wander(&t, moves[far], UINT32_MAX, now * WARM, now * NEAR);
  put_down(&t, &t.now, places);
  return WAFER_OK;
}
