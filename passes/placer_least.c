/* The least time at which some slicing layout whose leaves stand in a given order fits the wafer,
 * by dynamic programming over the intervals of the order: the curve of an interval is the best of
 * all ways to cut it in two. What an interval's rectangle holds beyond its kernels' least areas is
 * lost; a point that loses more than the whole wafer can spare is in no layout that fits, which
 * leaves few points where it matters. */
#include <string.h>

#include "placer_search.h"

typedef struct table {
  tree *t;
  const uint32_t *order;
  wafer_arena *arena; /* of one time tried */
  curve *curves;      /* of the intervals [i, j), at i * (n + 1) + j */
  uint64_t *area;     /* least, of the first i of the order */
  uint64_t slack;     /* cores that may stay empty */
  point *scratch;
  uint32_t *least; /* height of each width */
  uint32_t next;
} table;

static uint32_t count_of(const table *d) {
  return d->t->count;
}

static curve *interval(const table *d, uint32_t i, uint32_t j) {
  return &d->curves[i * (count_of(d) + 1) + j];
}

/* The points of `least` that lose no more than may be lost. */
static bool gather(table *d, uint32_t i, uint32_t j) {
  uint32_t width = d->t->in->p->width, low = UINT32_MAX, n = 0;
  uint64_t most = d->area[j] - d->area[i] + d->slack;
  for (uint32_t w = 1; w <= width; w++) {
    bool keeps = d->least[w] < low && (uint64_t)w * d->least[w] <= most;
    if (keeps)
      low = d->least[w], n++;
    else
      d->least[w] = UINT32_MAX;
  }
  point *at = WAFER_NEW(d->arena, point, n ? n : 1);
  if (!at) return false;
  *interval(d, i, j) = (curve){n, at, NULL};
  for (uint32_t w = 1; w <= width; w++)
    if (d->least[w] != UINT32_MAX) *at++ = (point){.w = (uint16_t)w, .h = (uint16_t)d->least[w]};
  return true;
}

static void clear(table *d) {
  memset(d->least, 0xff, (d->t->in->p->width + 1) * sizeof *d->least);
}

static void offer(table *d, curve c) {
  for (uint32_t i = 0; i < c.count; i++)
    if (c.at[i].h < d->least[c.at[i].w]) d->least[c.at[i].w] = c.at[i].h;
}

static curve cut_of(const table *d, curve a, curve b, cut how) {
  const wafer_placer_problem *p = d->t->in->p;
  return how == CUT_BESIDE
             ? curve_beside(a, b, p->width, p->height, d->scratch)
             : curve_above(a, b, p->width, p->height, d->scratch, placer_room(d->t->in));
}

/* Curves of the single kernels, and their least areas; false when they are more than there is. */
static bool leaves(table *d, uint64_t time, bool *fits) {
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
  if (d->area[n] > room) return true;
  d->slack = room - d->area[n];
  for (uint32_t i = 0; i < n; i++) {
    const curve *c = curve_at(d->t->cache, p->kind[d->order[i]], time);
    clear(d);
    for (uint32_t k = 0; k < c->count; k++)
      if (c->at[k].w <= p->width && c->at[k].h <= p->height) d->least[c->at[k].w] = c->at[k].h;
    if (!gather(d, i, i + 1)) return false;
  }
  return *fits = true;
}

/* All intervals at a time; false when out of memory. */
static bool fill(table *d, uint64_t time, bool *fits) {
  uint32_t n = count_of(d);
  if (!leaves(d, time, fits)) return false;
  for (uint32_t many = 2; many <= n && *fits; many++)
    for (uint32_t i = 0; i + many <= n; i++) {
      clear(d);
      for (uint32_t k = i + 1; k < i + many; k++) {
        curve a = *interval(d, i, k), b = *interval(d, k, i + many);
        offer(d, cut_of(d, a, b, CUT_BESIDE));
        offer(d, cut_of(d, a, b, CUT_ABOVE));
      }
      if (!gather(d, i, i + many)) return false;
    }
  *fits = *fits && interval(d, 0, n)->count;
  return true;
}

/* The cuts behind a point of an interval. */
static uint32_t unroll(table *d, uint32_t i, uint32_t j, point at) {
  if (j - i == 1) return d->order[i];
  for (uint32_t k = i + 1; k < j; k++)
    for (int how = CUT_BESIDE; how <= CUT_ABOVE; how++) {
      curve a = *interval(d, i, k), b = *interval(d, k, j), c = cut_of(d, a, b, (cut)how);
      for (uint32_t q = 0; q < c.count; q++) {
        if (c.at[q].w > at.w || c.at[q].h > at.h) continue;
        point pa = a.at[c.at[q].a], pb = b.at[c.at[q].b];
        uint32_t first = unroll(d, i, k, pa), second = unroll(d, k, j, pb);
        return tree_join(d->t, first, second, (uint8_t)how, 0, &d->next);
      }
    }
  return PLACER_NONE; /* every point has its cuts */
}

/* One time; when it fits, the tree is left as a layout of it. */
static bool try_level(table *d, uint32_t level, bool *fits) {
  const placer *in = d->t->in;
  uint32_t n = count_of(d);
  *fits = false;
  d->arena = wafer_arena_create();
  if (!d->arena) return false;
  d->curves = WAFER_NEW(d->arena, curve, (size_t)(n + 1) * (n + 1));
  d->area = WAFER_NEW(d->arena, uint64_t, n + 1);
  d->scratch = WAFER_NEW(d->arena, point, placer_room(in));
  d->least = WAFER_NEW(d->arena, uint32_t, placer_room(in));
  bool ok = d->curves && d->area && d->scratch && d->least && fill(d, in->levels[level], fits);
  if (ok && *fits) {
    d->next = n;
    tree_finish(d->t, unroll(d, 0, n, interval(d, 0, n)->at[0]));
    d->t->is.level = level;
  }
  wafer_arena_destroy(d->arena);
  return ok && *fits;
}

bool tree_least(tree *t, const uint32_t *order, double until, uint32_t *high) {
  table d = {.t = t, .order = order};
  uint32_t low = 0, step = 1;
  bool found = false, fits;
  while (low < *high) { /* all below low do not fit; near the bound it is soon known */
    uint32_t at = found ? (low + *high) / 2 : low + step - 1;
    if (at >= *high) at = *high - 1;
    if (until > 0 && placer_seconds() >= until) break;
    if (try_level(&d, t->in->keys[at], &fits))
      *high = at, found = true;
    else
      low = at + 1, step *= 2;
  }
  return found;
}
