/* The least time at which some slicing layout whose leaves stand in a given order fits the wafer,
 * by dynamic programming over the intervals of the order: an interval has, for every height, the
 * least width of all ways to cut it in two, and for every width the least height. What an
 * interval's rectangle holds beyond its kernels' least areas is lost; one that loses more than the
 * whole wafer can spare is in no layout that fits.
 *
 * An interval's rows of numbers are a kilobyte or two, and each is joined with as many others as
 * there are kernels. So intervals are made block by block, of some beginnings and some ends: what
 * is cut between two blocks is joined while the rows of three blocks are at hand.
 *
 * Of more kernels than there is memory for, runs of the order have tables of their own, and the
 * whole has one whose items are these runs: the least time is that of layouts in which each run
 * has a rectangle to itself. Some dozens of kernels fill one with next to no loss. */
#include <string.h>

#include "placer_search.h"
#include "wafer/clones.h"

typedef int16_t side;
#define NEVER 0x3fff /* more than any side; two of them are a side still */
#define LANES 32u    /* rows are as long as a multiple of this */
#define MOST_BYTES ((size_t)256 << 20) /* of all tables; each thread may have as many */
#define MOST_PART 64u                  /* kernels of a run, where the whole is too much */
#define BLOCK 8u                       /* beginnings, or ends, of intervals */
#define MOVE_SUMS (1u << 20)           /* see tree_least_moves */

/* What all tables of an order have in common. */
typedef struct shared {
  tree *t;
  const uint32_t *order;
  wafer_arena *arena;
  uint32_t rows, columns; /* sides of the wafer, rounded up */
  uint64_t *area;         /* least, of the first i of the order */
  uint64_t slack;         /* cores that may stay empty */
  uint32_t next;
  double until; /* a table that is not made by then fits nothing; 0: no limit */
} shared;

/* Intervals of a row of items. An item is a kernel, or a part of the order that has a table of its
 * own. */
typedef struct table {
  shared *of;
  uint32_t count;
  const uint32_t *begin;     /* of item i, and the end: places in the order */
  const struct table *parts; /* items are these; NULL: kernels */
  side *widths;              /* of each interval: the least at each height */
  side *heights;             /* and the least height at each width */
} table;

/* Of the interval [i, j). */
static side *widths_of(const table *d, uint32_t i, uint32_t j) {
  return d->widths + (size_t)(j * (j - 1) / 2 + i) * d->of->rows;
}
static side *heights_of(const table *d, uint32_t i, uint32_t j) {
  return d->heights + (size_t)(j * (j - 1) / 2 + i) * d->of->columns;
}

static void clear(side *at, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) at[k] = NEVER;
}

/* Side by side at each height, or on each other at each width. */
static inline void join(side *restrict to, const side *restrict a, const side *restrict b,
                        uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    side sum = (side)(a[k] + b[k]);
    to[k] = sum < to[k] ? sum : to[k];
  }
}

/* Interval [i, j) cut at each of [from, to). */
WAFER_CLONES static void cut_between(const table *d, uint32_t i, uint32_t j, uint32_t from,
                                     uint32_t to) {
  side *widths = widths_of(d, i, j), *heights = heights_of(d, i, j);
  for (uint32_t k = from; k < to; k++) {
    join(widths, widths_of(d, i, k), widths_of(d, k, j), d->of->rows);
    join(heights, heights_of(d, i, k), heights_of(d, k, j), d->of->columns);
  }
}

/* What stands at a length in `from` stands at its own in `to`, and fits longer ones. */
static void transpose(const side *from, uint32_t from_most, side *to, uint32_t to_most) {
  for (uint32_t k = 1; k <= from_most; k++) {
    if (from[k] == from[k - 1]) continue; /* shorter ones do */
    if ((uint32_t)from[k] <= to_most && (side)k < to[from[k]]) to[from[k]] = (side)k;
  }
  for (uint32_t k = 2; k <= to_most; k++)
    if (to[k - 1] < to[k]) to[k] = to[k - 1];
}

WAFER_CLONES static void drop(side *at, uint32_t most, uint32_t most_other, uint32_t area) {
  for (uint32_t k = 1; k <= most; k++) {
    bool lost = (uint32_t)at[k] > most_other || (uint32_t)at[k] * k > area;
    at[k] = lost ? NEVER : at[k];
  }
}

/* An interval's rectangles of both cuts together, without those that lose too much. */
static void settle(const table *d, uint32_t i, uint32_t j) {
  const shared *s = d->of;
  const wafer_placer_problem *p = s->t->in->p;
  side *widths = widths_of(d, i, j), *heights = heights_of(d, i, j);
  uint32_t area = /* no more than the wafer has */
      (uint32_t)(s->area[d->begin[j]] - s->area[d->begin[i]] + s->slack);
  transpose(widths, p->height, heights, p->width);
  transpose(heights, p->width, widths, p->height);
  drop(widths, p->height, p->width, area);
  drop(heights, p->width, p->height, area);
}

/* Least areas of the single kernels; *fits: together they are no more than there is. */
static bool areas(shared *s, uint64_t time, bool *fits) {
  const wafer_placer_problem *p = s->t->in->p;
  uint32_t n = s->t->count;
  *fits = false;
  for (uint32_t i = 0; i < n; i++) {
    const curve *c = curve_at(s->t->cache, p->kind[s->order[i]], time);
    uint64_t least = UINT64_MAX;
    if (!c) return false;
    for (uint32_t k = 0; k < c->count; k++)
      if (c->at[k].w <= p->width && c->at[k].h <= p->height &&
          (uint64_t)c->at[k].w * c->at[k].h < least)
        least = (uint64_t)c->at[k].w * c->at[k].h;
    if (least == UINT64_MAX) return true;
    s->area[i + 1] = s->area[i] + least;
  }
  uint64_t room = (uint64_t)p->width * p->height;
  *fits = s->area[n] <= room;
  s->slack = room - s->area[n];
  return true;
}

/* A kernel's curve, as areas() found it. */
static void leaf(const table *d, uint32_t i, uint64_t time) {
  const wafer_placer_problem *p = d->of->t->in->p;
  const curve *c = curve_at(d->of->t->cache, p->kind[d->of->order[d->begin[i]]], time);
  side *widths = widths_of(d, i, i + 1);
  clear(widths, d->of->rows);
  clear(heights_of(d, i, i + 1), d->of->columns);
  for (uint32_t k = 0; k < c->count; k++)
    if (c->at[k].h <= p->height && (side)c->at[k].w < widths[c->at[k].h])
      widths[c->at[k].h] = (side)c->at[k].w;
  settle(d, i, i + 1);
}

static void items(const table *d, uint64_t time) {
  for (uint32_t i = 0; i < d->count; i++) {
    const table *part = d->parts ? &d->parts[i] : NULL;
    if (!part) {
      leaf(d, i, time);
      continue;
    }
    memcpy(widths_of(d, i, i + 1), widths_of(part, 0, part->count), d->of->rows * sizeof(side));
    memcpy(heights_of(d, i, i + 1), heights_of(part, 0, part->count),
           d->of->columns * sizeof(side));
  }
}

static bool late(const shared *s) {
  return s->until > 0 && search_seconds() >= s->until;
}

static uint32_t end_of(const table *d, uint32_t block) {
  uint32_t end = (block + 1) * BLOCK, last = d->count + 1;
  return end < last ? end : last;
}

/* All intervals that begin in one block and end in another, or the same; those between are made. */
static void fill_block(const table *d, uint32_t begins, uint32_t ends) {
  uint32_t first = begins * BLOCK, last = ends * BLOCK, middle = end_of(d, begins);
  for (uint32_t block = begins + 1; block < ends; block++)
    for (uint32_t i = first; i < middle; i++)
      for (uint32_t j = last; j < end_of(d, ends); j++)
        cut_between(d, i, j, block * BLOCK, end_of(d, block));
  for (uint32_t i = middle; i-- > first;)
    for (uint32_t j = last > i + 2 ? last : i + 2; j < end_of(d, ends); j++) {
      if (begins == ends)
        cut_between(d, i, j, i + 1, j);
      else {
        cut_between(d, i, j, i + 1, middle);
        cut_between(d, i, j, last, j);
      }
      settle(d, i, j);
    }
}

static void clear_all(const table *d) {
  for (uint32_t j = 2; j <= d->count; j++)
    for (uint32_t i = 0; i + 2 <= j; i++) {
      clear(widths_of(d, i, j), d->of->rows);
      clear(heights_of(d, i, j), d->of->columns);
    }
}

/* The least height at which all items fit; 0: none. */
static uint32_t root_height(const table *d) {
  const side *widths = widths_of(d, 0, d->count);
  for (uint32_t h = 1; h <= d->of->t->in->p->height; h++)
    if (widths[h] != NEVER) return h;
  return 0;
}

/* All intervals at a time, those of its parts first; do all items fit? */
static bool fill(const table *d, uint64_t time) {
  for (uint32_t i = 0; d->parts && i < d->count; i++)
    if (!fill(&d->parts[i], time)) return false;
  items(d, time);
  clear_all(d);
  for (uint32_t ends = 0; ends <= d->count / BLOCK; ends++)
    for (uint32_t begins = ends + 1; begins-- > 0;) {
      fill_block(d, begins, ends);
      if (late(d->of)) return false;
    }
  return root_height(d) > 0;
}

/* The cuts behind a rectangle of an interval. */
static uint32_t unroll(const table *d, uint32_t i, uint32_t j, uint32_t w, uint32_t h) {
  shared *s = d->of;
  if (j - i == 1)
    return d->parts ? unroll(&d->parts[i], 0, d->parts[i].count, w, h) : s->order[d->begin[i]];
  for (uint32_t k = i + 1; k < j; k++) {
    uint32_t a = (uint32_t)widths_of(d, i, k)[h], b = (uint32_t)widths_of(d, k, j)[h];
    if (a + b <= w) {
      uint32_t first = unroll(d, i, k, a, h), second = unroll(d, k, j, b, h);
      return tree_join(s->t, first, second, CUT_BESIDE, 0, &s->next);
    }
    a = (uint32_t)heights_of(d, i, k)[w], b = (uint32_t)heights_of(d, k, j)[w];
    if (a + b <= h) {
      uint32_t first = unroll(d, i, k, w, a), second = unroll(d, k, j, w, b);
      return tree_join(s->t, first, second, CUT_ABOVE, 0, &s->next);
    }
  }
  return PLACER_NONE; /* every rectangle has its cuts */
}

/* One time; when it fits, the tree is left as a layout of it. */
static bool try_level(const table *d, uint32_t level) {
  shared *s = d->of;
  uint64_t time = s->t->in->levels[level];
  bool fits;
  if (!areas(s, time, &fits) || !fits || !fill(d, time)) return false;
  uint32_t h = root_height(d);
  s->next = s->t->count;
  tree_finish(s->t, unroll(d, 0, d->count, (uint32_t)widths_of(d, 0, d->count)[h], h));
  s->t->is.level = level;
  return true;
}

/* ---- Tables ---- */

static uint64_t intervals(uint64_t n) {
  return n * (n + 1) / 2;
}

/* Of so many runs and of the whole. */
static uint64_t bytes(const tree *t, uint64_t parts) {
  const wafer_placer_problem *p = t->in->p;
  const uint64_t n = t->count, each = ((uint64_t)p->width + p->height + 2 * LANES) * sizeof(side);
  const uint64_t runs = parts > 1 ? parts * intervals((n + parts - 1) / parts) : 0;
  return (runs + intervals(parts > 1 ? parts : n)) * each;
}

/* Runs of the order that have tables of their own; 1: the whole is one table, 0: there is no memory
 * for any. That is least where a run's table is about as large as that of the whole. */
static uint32_t part_count(const tree *t, uint32_t part) {
  const uint64_t n = t->count;
  if (!part && bytes(t, 1) <= MOST_BYTES) return 1;
  if (!part) part = MOST_PART;
  uint64_t parts = (n + part - 1) / part;
  const bool few = parts * parts * parts < n * n;
  while (bytes(t, parts) > MOST_BYTES) {
    if (few != (parts * parts * parts < n * n)) return 0;
    parts = few ? parts + 1 : parts - 1;
  }
  return (uint32_t)parts;
}

bool tree_least_is_whole(const tree *t) {
  return part_count(t, 0) == 1;
}

static bool table_init(table *d, shared *s, const uint32_t *begin, uint32_t count) {
  const size_t n = intervals(count);
  *d = (table){.of = s, .count = count, .begin = begin};
  d->widths = WAFER_NEW(s->arena, side, n * s->rows);
  d->heights = WAFER_NEW(s->arena, side, n * s->columns);
  return d->widths && d->heights;
}

/* false: out of memory, or there may not be that much. */
static bool least_init(shared *s, table *top, tree *t, const uint32_t *order, uint32_t part,
                       double until) {
  const wafer_placer_problem *p = t->in->p;
  const uint32_t n = t->count, parts = part_count(t, part);
  *s = (shared){.t = t, .order = order, .arena = wafer_arena_create(), .until = until};
  if (!s->arena || !parts) return false;
  s->rows = (p->height / LANES + 1) * LANES;
  s->columns = (p->width / LANES + 1) * LANES;
  s->area = WAFER_NEW(s->arena, uint64_t, n + 1);
  uint32_t *kernels = WAFER_NEW(s->arena, uint32_t, n + 1);
  if (!s->area || !kernels) return false;
  for (uint32_t i = 0; i <= n; i++) kernels[i] = i;
  if (parts == 1) return table_init(top, s, kernels, n);
  uint32_t *begin = WAFER_NEW(s->arena, uint32_t, parts + 1);
  table *tables = WAFER_NEW(s->arena, table, parts);
  if (!begin || !tables) return false;
  for (uint32_t i = 0; i <= parts; i++) begin[i] = (uint32_t)((uint64_t)n * i / parts);
  for (uint32_t i = 0; i < parts; i++)
    if (!table_init(&tables[i], s, kernels + begin[i], begin[i + 1] - begin[i])) return false;
  if (!table_init(top, s, begin, parts)) return false;
  top->parts = tables;
  return true;
}

/* So many as an annealing makes in about its time: of a table that is items^3 x both sides. */
uint64_t tree_least_moves(const tree *t, uint32_t part) {
  const wafer_placer_problem *p = t->in->p;
  const uint64_t n = t->count, lanes = (uint64_t)p->width + p->height;
  const uint64_t parts = part_count(t, part);
  if (!parts) return UINT64_MAX;
  const uint64_t run = (n + parts - 1) / parts;
  const uint64_t cubes = parts == 1 ? n * n * n : parts * run * run * run + parts * parts * parts;
  return cubes * lanes / MOVE_SUMS + 1;
}

/* The least of the first *high keys that fits, looked for near one. Up from the bound few tables
 * find nothing: each halves what is left then. */
static bool lower(const table *d, uint32_t near, least_work *work, uint32_t *high) {
  const bool few = near == 0 && work->tables < PLACER_FEW_TABLES;
  uint32_t low = 0, step = 2, at = few ? *high / 2 : near;
  bool found = false;
  while (low < *high && work->tables && !late(d->of)) { /* all below low do not fit */
    work->tables--;
    const bool fits = try_level(d, d->of->t->in->keys[at]);
    if (fits)
      *high = at;
    else
      low = at + 1;
    found |= fits;
    at = few ? (low + *high) / 2 : placer_next_key(low, *high, at, step, fits);
    step *= 2;
  }
  return found;
}

bool tree_least(tree *t, const uint32_t *order, uint32_t part, uint32_t near, least_work *work,
                uint32_t *high) {
  shared s;
  table top;
  if (!work->tables || !*high) return false; /* nor memory for any */
  if (near >= *high) near = *high - 1;
  bool found = least_init(&s, &top, t, order, part, work->until) && lower(&top, near, work, high);
  wafer_arena_destroy(s.arena);
  return found;
}
