/* The splits of kernels that fit a room and a time, as far as their protocols are of use: what a
 * kernel takes and gives is the most and the least it can, or what some neighbour can have too. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

/* An h and a w of a kernel in its room: the first convolution may have `low` to `cap` features a
 * row, all others have as many as fit. */
typedef struct division {
  uint16_t h, w, low, cap;
} division;

typedef struct lister {
  const contest *c;
  uint64_t unit, time;
  const wafer_placed *rooms;
  uint32_t *first; /* divisions of each kernel */
  division *at;
  uint32_t count, room;
  uint32_t side; /* features and filters are fewer */
  bool *takes,
      *has; /* of each kernel and number: its first convolution may take, its last give it */
  bool *wanted_in, *wanted_out; /* the same, by one of its neighbours */
} lister;

static void room_of(const lister *l, uint32_t i, uint32_t *height, uint32_t *columns) {
  const wafer_placed *at = &l->rooms[i];
  *height = at->turned ? at->width : at->height;
  *columns = (at->turned ? at->height : at->width) / 3;
}

/* Columns of a convolution if no quotient had to be rounded up. */
static double least_columns(const lister *l, const contest_conv *v, const contest_split *s,
                            uint32_t c) {
  double work = (double)(v->H * v->W * v->R * v->S) * (double)(v->C * v->K) * (double)l->unit;
  return work / ((double)(v->T * v->T * s->h * s->w) * c * (double)l->time);
}

/* The split with h, w and c features a row of the first convolution, and the columns it leaves;
 * false when they do not suffice. */
static bool split_of(const contest *c, const contest_kernel *k, uint64_t unit, uint64_t time,
                     uint32_t cap, uint32_t columns, contest_split *s, uint32_t *left) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(k, convs), sum = 0;
  for (uint32_t v = 0; v < n; v++) {
    if (v) s->c[v] = cap < convs[v].C ? cap : (uint32_t)convs[v].C;
    s->k[v] = contest_least_k(c, k, unit, time, s, v);
    if (!s->k[v] || (sum += s->k[v]) > columns) return false;
  }
  *left = columns - sum;
  return true;
}

/* Could the division be fast enough, rounding apart? */
static bool promises(const lister *l, const contest_kernel *k, contest_split *s, uint32_t cap,
                     uint32_t columns) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(k, convs);
  double least = 0;
  for (uint32_t v = 0; v < n; v++) {
    s->c[v] = cap < convs[v].C ? cap : (uint32_t)convs[v].C;
    least += least_columns(l, &convs[v], s, s->c[v]);
  }
  return least <= columns * (1 + 1e-9);
}

/* The fewest features a row of the first convolution: fewer ask for more columns. */
static uint32_t fewest(const lister *l, const contest_kernel *k, contest_split s, uint32_t cap,
                       uint32_t columns) {
  uint32_t low = 1, high = s.c[0], left;
  while (low < high) {
    uint32_t mid = s.c[0] = (low + high) / 2;
    if (split_of(l->c, k, l->unit, l->time, cap, columns, &s, &left))
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static bool put(lister *l, division d) {
  if (l->count == l->room) {
    uint32_t room = 2 * l->room + 256;
    division *at = realloc(l->at, room * sizeof *at);
    if (!at) return false;
    l->at = at, l->room = room;
  }
  l->at[l->count++] = d;
  return true;
}

/* Filters of the last convolution: at most what it has. */
static uint32_t most_filters(const contest_kernel *k, const contest_split *s, uint32_t left) {
  contest_conv convs[KERNEL_MOST_CONVS];
  contest_convs(k, convs);
  uint32_t last = contest_last_conv(k), most = s->k[last] + left;
  return most < convs[last].K ? most : (uint32_t)convs[last].K;
}

static bool divide(lister *l, uint32_t i) {
  const contest_kernel *k = &l->c->kernels[i];
  uint32_t height, columns, left;
  room_of(l, i, &height, &columns);
  for (uint32_t h = 1; h <= k->H && 2 * h <= height; h++)
    for (uint32_t w = 1; w <= k->W && 2 * h * w <= height; w++) {
      contest_split s = {.h = h, .w = w};
      uint32_t cap = height / (h * w) - 1;
      if (!promises(l, k, &s, cap, columns) ||
          !split_of(l->c, k, l->unit, l->time, cap, columns, &s, &left))
        continue;
      division d = {(uint16_t)h, (uint16_t)w, (uint16_t)fewest(l, k, s, cap, columns),
                    (uint16_t)s.c[0]};
      if (!put(l, d)) return false;
      for (uint32_t c = d.low; c <= d.cap; c++) l->takes[(size_t)i * l->side + c] = true;
      uint32_t most = most_filters(k, &s, left);
      for (uint32_t f = s.k[contest_last_conv(k)]; f <= most; f++)
        l->has[(size_t)i * l->side + f] = true;
    }
  return true;
}

static void want(lister *l) {
  for (uint32_t e = 0; e < l->c->edge_count; e++) {
    size_t from = (size_t)l->c->edges[e].from * l->side, to = (size_t)l->c->edges[e].to * l->side;
    for (uint32_t x = 0; x < l->side; x++) {
      l->wanted_out[from + x] |= l->takes[to + x];
      l->wanted_in[to + x] |= l->has[from + x];
    }
  }
}

static bool put_fit(contest_fit_list *to, contest_fit fit) {
  if (to->count == to->room) {
    uint32_t room = 2 * to->room + 1024;
    contest_fit *at = WAFER_NEW(to->arena, contest_fit, room);
    if (!at) return false;
    if (to->count) memcpy(at, to->at, to->count * sizeof *at);
    to->at = at, to->room = room;
  }
  to->at[to->count++] = fit;
  return true;
}

/* All of a division: features as many as fit or as wanted, filters as few as needed or as wanted.
 */
static bool list_division(const lister *l, uint32_t i, const division *d, contest_fit_list *to) {
  const contest_kernel *k = &l->c->kernels[i];
  uint32_t height, columns, left, last = contest_last_conv(k);
  room_of(l, i, &height, &columns);
  for (uint32_t c = d->cap; c >= d->low; c--) {
    if (c < d->cap && !l->wanted_in[(size_t)i * l->side + c]) continue;
    contest_split s = {.h = d->h, .w = d->w, .c = {c}};
    uint32_t cap = height / (d->h * d->w) - 1;
    if (!split_of(l->c, k, l->unit, l->time, cap, columns, &s, &left)) continue;
    uint32_t most = most_filters(k, &s, left);
    for (uint32_t f = s.k[last]; f <= most; f++)
      if ((f == s.k[last] || l->wanted_out[(size_t)i * l->side + f]) &&
          !put_fit(to, (contest_fit){d->h, d->w, (uint16_t)c, (uint16_t)f}))
        return false;
  }
  return true;
}

contest_split contest_split_of_fit(const contest_fit_list *fits, uint32_t i, const contest_fit *f) {
  const contest_kernel *k = &fits->c->kernels[i];
  const wafer_placed *room = &fits->rooms[i];
  uint32_t height = room->turned ? room->width : room->height, left;
  contest_split s = {.h = f->h, .w = f->w, .c = {f->c}};
  split_of(fits->c, k, fits->unit, fits->time, height / (s.h * s.w) - 1, UINT32_MAX, &s, &left);
  s.k[contest_last_conv(k)] = f->k;
  return s;
}

static bool late(double until) {
  return until > 0 && cli_seconds() > until;
}

/* Kernels by kernels; *over: there was no time for all. */
static bool list(lister *l, double until, contest_fit_list *out, bool *over) {
  uint32_t n = l->c->count;
  for (uint32_t i = 0; i < n; i++) {
    l->first[i] = l->count;
    if ((*over = late(until))) return true;
    if (!divide(l, i)) return false;
  }
  l->first[n] = l->count;
  want(l);
  for (uint32_t i = 0; i < n; i++) {
    out->first[i] = out->count;
    if ((*over = late(until))) return true;
    for (uint32_t d = l->first[i]; d < l->first[i + 1]; d++)
      if (!list_division(l, i, &l->at[d], out)) return false;
  }
  out->first[n] = out->count;
  return true;
}

bool contest_list_fits(wafer_arena *arena, const contest *c, uint64_t unit, uint64_t time,
                       double until, const wafer_placed *rooms, contest_fit_list *out) {
  uint32_t n = c->count, side = (c->width > c->height ? c->width : c->height) + 1;
  size_t all = (size_t)n * side;
  lister l = {.c = c, .unit = unit, .time = time, .rooms = rooms, .side = side};
  bool over = false;
  *out = (contest_fit_list){.arena = arena, .c = c, .unit = unit, .time = time, .rooms = rooms};
  out->first = WAFER_NEW(arena, uint32_t, n + 1);
  l.first = WAFER_NEW(arena, uint32_t, n + 1);
  l.takes = WAFER_NEW(arena, bool, all), l.has = WAFER_NEW(arena, bool, all);
  l.wanted_in = WAFER_NEW(arena, bool, all), l.wanted_out = WAFER_NEW(arena, bool, all);
  bool ok = out->first && l.first && l.takes && l.has && l.wanted_in && l.wanted_out &&
            list(&l, until, out, &over);
  free(l.at);
  if (over) out->first = NULL;
  return ok;
}
