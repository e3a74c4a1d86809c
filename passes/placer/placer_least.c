/* The least time at which some slicing layout whose leaves stand in a given order fits the wafer,
 * by dynamic programming over the intervals of the order: an interval has, for every height, the
 * least width of all ways to cut it in two, and for every width the least height. What an
 * interval's rectangle holds beyond its kernels' least areas is lost; one that loses more than the
 * whole wafer can spare is in no layout that fits.
 *
 * An interval's rows of numbers are a kilobyte or two, and each is joined with as many others as
 * there are kernels. So intervals are made block by block, of some beginnings and some ends: what
 * is cut between two blocks is joined while the rows of three blocks are at hand. */
#include "placer_search.h"
#include "wafer/clones.h"

typedef int16_t side;
#define NEVER 0x3fff /* more than any side; two of them are a side still */
#define LANES 32u    /* rows are as long as a multiple of this */
#define MOST_BYTES ((size_t)256 << 20) /* of a table; each thread may have one */
#define BLOCK 8u                       /* beginnings, or ends, of intervals */
#define MOVE_SUMS (1u << 20)           /* see tree_least_moves */

typedef struct table {
  tree *t;
  const uint32_t *order;
  wafer_arena *arena;
  uint32_t rows, columns; /* sides of the wafer, rounded up */
  side *widths;           /* of each interval: the least at each height */
  side *heights;          /* and the least height at each width */
  uint64_t *area;         /* least, of the first i of the order */
  uint64_t slack;         /* cores that may stay empty */
  uint32_t next;
  double until; /* a table that is not made by then fits nothing; 0: no limit */
} table;

static uint32_t count_of(const table *d) {
  return d->t->count;
}

/* Of the interval [i, j). */
static side *widths_of(const table *d, uint32_t i, uint32_t j) {
  return d->widths + (size_t)(j * (j - 1) / 2 + i) * d->rows;
}
static side *heights_of(const table *d, uint32_t i, uint32_t j) {
  return d->heights + (size_t)(j * (j - 1) / 2 + i) * d->columns;
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
    join(widths, widths_of(d, i, k), widths_of(d, k, j), d->rows);
    join(heights, heights_of(d, i, k), heights_of(d, k, j), d->columns);
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
  const wafer_placer_problem *p = d->t->in->p;
  side *widths = widths_of(d, i, j), *heights = heights_of(d, i, j);
  uint32_t area = (uint32_t)(d->area[j] - d->area[i] + d->slack); /* no more than the wafer has */
  transpose(widths, p->height, heights, p->width);
  transpose(heights, p->width, widths, p->height);
  drop(widths, p->height, p->width, area);
  drop(heights, p->width, p->height, area);
}

/* Least areas of the single kernels; *fits: together they are no more than there is. */
static bool areas(table *d, uint64_t time, bool *fits) {
  const wafer_placer_problem *p = d->t->in->p;
  uint32_t n = count_of(d);
  *fits = false;
  for (uint32_t i = 0; i < n; i++) {
    const curve *c = curve_at(d->t->cache, p->kind[d->order[i]], time);
    uint64_t least = UINT64_MAX;
    if (!c) return false;
    for (uint32_t k = 0; k < c->count; k++)
      if (c->at[k].w <= p->width && c->at[k].h <= p->height &&
          (uint64_t)c->at[k].w * c->at[k].h < least)
        least = (uint64_t)c->at[k].w * c->at[k].h;
    if (least == UINT64_MAX) return true;
    d->area[i + 1] = d->area[i] + least;
  }
  uint64_t room = (uint64_t)p->width * p->height;
  *fits = d->area[n] <= room;
  d->slack = room - d->area[n];
  return true;
}

/* The curves of areas(), as intervals of one kernel. */
static void leaves(const table *d, uint64_t time) {
  const wafer_placer_problem *p = d->t->in->p;
  for (uint32_t i = 0; i < count_of(d); i++) {
    const curve *c = curve_at(d->t->cache, p->kind[d->order[i]], time);
    side *widths = widths_of(d, i, i + 1);
    clear(widths, d->rows);
    clear(heights_of(d, i, i + 1), d->columns);
    for (uint32_t k = 0; k < c->count; k++)
      if (c->at[k].h <= p->height && (side)c->at[k].w < widths[c->at[k].h])
        widths[c->at[k].h] = (side)c->at[k].w;
    settle(d, i, i + 1);
  }
}

static bool late(const table *d) {
  return d->until > 0 && placer_seconds() >= d->until;
}

static uint32_t end_of(const table *d, uint32_t block) {
  uint32_t end = (block + 1) * BLOCK, last = count_of(d) + 1;
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
  for (uint32_t j = 2; j <= count_of(d); j++)
    for (uint32_t i = 0; i + 2 <= j; i++) {
      clear(widths_of(d, i, j), d->rows);
      clear(heights_of(d, i, j), d->columns);
    }
}

/* The least height at which everything fits; 0: none. */
static uint32_t root_height(const table *d) {
  const side *widths = widths_of(d, 0, count_of(d));
  for (uint32_t h = 1; h <= d->t->in->p->height; h++)
    if (widths[h] != NEVER) return h;
  return 0;
}

/* All intervals at a time; false when out of memory. */
static bool fill(table *d, uint64_t time, bool *fits) {
  uint32_t n = count_of(d);
  if (!areas(d, time, fits)) return false;
  if (!*fits) return true;
  leaves(d, time);
  clear_all(d);
  for (uint32_t ends = 0; ends <= n / BLOCK && *fits; ends++)
    for (uint32_t begins = ends + 1; begins-- > 0 && *fits;) {
      fill_block(d, begins, ends);
      *fits = !late(d);
    }
  *fits = *fits && root_height(d);
  return true;
}

/* The cuts behind a rectangle of an interval. */
static uint32_t unroll(table *d, uint32_t i, uint32_t j, uint32_t w, uint32_t h) {
  if (j - i == 1) return d->order[i];
  for (uint32_t k = i + 1; k < j; k++) {
    uint32_t a = (uint32_t)widths_of(d, i, k)[h], b = (uint32_t)widths_of(d, k, j)[h];
    if (a + b <= w) {
      uint32_t first = unroll(d, i, k, a, h), second = unroll(d, k, j, b, h);
      return tree_join(d->t, first, second, CUT_BESIDE, 0, &d->next);
    }
    a = (uint32_t)heights_of(d, i, k)[w], b = (uint32_t)heights_of(d, k, j)[w];
    if (a + b <= h) {
      uint32_t first = unroll(d, i, k, w, a), second = unroll(d, k, j, w, b);
      return tree_join(d->t, first, second, CUT_ABOVE, 0, &d->next);
    }
  }
  return PLACER_NONE; /* every rectangle has its cuts */
}

/* One time; when it fits, the tree is left as a layout of it. */
static bool try_level(table *d, uint32_t level) {
  uint32_t n = count_of(d);
  bool fits;
  if (!fill(d, d->t->in->levels[level], &fits) || !fits) return false;
  uint32_t h = root_height(d);
  d->next = n;
  tree_finish(d->t, unroll(d, 0, n, (uint32_t)widths_of(d, 0, n)[h], h));
  d->t->is.level = level;
  return true;
}

/* false: out of memory, or there may not be that much. */
static bool table_init(table *d, tree *t, const uint32_t *order, double until) {
  const wafer_placer_problem *p = t->in->p;
  size_t n = t->count, intervals = n * (n + 1) / 2;
  *d = (table){.t = t, .order = order, .until = until};
  d->rows = (p->height / LANES + 1) * LANES;
  d->columns = (p->width / LANES + 1) * LANES;
  if (intervals * (d->rows + d->columns) * sizeof(side) > MOST_BYTES) return false;
  d->arena = wafer_arena_create();
  if (!d->arena) return false;
  d->widths = WAFER_NEW(d->arena, side, intervals * d->rows);
  d->heights = WAFER_NEW(d->arena, side, intervals * d->columns);
  d->area = WAFER_NEW(d->arena, uint64_t, n + 1);
  return d->widths && d->heights && d->area;
}

/* So many as an annealing makes in about its time: of a table that is kernels^3 x both sides. */
uint64_t tree_least_moves(const tree *t) {
  const wafer_placer_problem *p = t->in->p;
  const uint64_t n = t->count, lanes = (uint64_t)p->width + p->height;
  return n * n * n * lanes / MOVE_SUMS + 1;
}

/* The least of the first *high keys that fits. Up from the bound few tables find nothing: each
 * halves what is left then. */
static bool lower(table *d, bool down, least_work *work, uint32_t *high) {
  uint32_t low = 0, step = 1;
  bool found = false, failed = false, few = !down && work->tables < PLACER_FEW_TABLES;
  while (low < *high && work->tables && !late(d)) { /* all below low do not fit */
    uint32_t at = (low + *high) / 2;
    if (!few && (down ? !failed : !found)) { /* by doubled steps; near the bound it is soon known */
      uint32_t by = step < *high - low ? step : *high - low;
      at = down ? *high - by : low + by - 1;
      step *= 2;
    }
    work->tables--;
    if (try_level(d, d->t->in->keys[at]))
      *high = at, found = true;
    else
      low = at + 1, failed = true;
  }
  return found;
}

bool tree_least(tree *t, const uint32_t *order, bool down, least_work *work, uint32_t *high) {
  table d;
  if (!work->tables) return false; /* nor memory for any */
  bool found = table_init(&d, t, order, work->until) && lower(&d, down, work, high);
  wafer_arena_destroy(d.arena);
  return found;
}
