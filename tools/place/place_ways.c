/* All splits of the contest's kernels at a time, as far as a bound needs them: of each only what it
 * takes and gives, and its sides. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

/* Convolutions of a kernel with h, w and c features a row; least 0: memory is too small. */
typedef struct row {
  uint64_t base[KERNEL_MOST_CONVS];
  uint64_t least[KERNEL_MOST_CONVS];
} row;

/* An h and a w of a kernel, and the rows of c = 1 .. count. */
typedef struct division {
  uint32_t hw, count;
  row *rows;
} division;

struct contest_divisions {
  const contest *c;
  uint32_t convs, last, count, side;
  contest_conv conv[KERNEL_MOST_CONVS];
  division *at;
};

static bool list_rows(wafer_arena *arena, const contest_divisions *d, uint64_t unit, uint32_t h,
                      uint32_t w, division *to) {
  uint64_t most = 0, room = d->side / (h * w) - 1;
  for (uint32_t i = 0; i < d->convs; i++) most = d->conv[i].C > most ? d->conv[i].C : most;
  *to = (division){h * w, (uint32_t)(room < most ? room : most), NULL};
  if (!(to->rows = WAFER_NEW(arena, row, to->count))) return false;
  for (uint32_t c = 1; c <= to->count; c++)
    for (uint32_t i = 0; i < d->convs; i++) {
      const contest_conv *v = &d->conv[i];
      row *r = &to->rows[c - 1];
      uint32_t features = c < v->C ? c : (uint32_t)v->C;
      if (!contest_divide(d->c, v, unit, h, w, features, &r->base[i], &r->least[i]))
        r->least[i] = 0;
    }
  return true;
}

/* What is the same with h and w exchanged is listed once. */
static bool alike(const contest_kernel *k) {
  return k->H == k->W && (k->type != KERNEL_CONV || k->R == k->S);
}

const contest_divisions *contest_list_divisions(wafer_arena *arena, const contest *c,
                                                const contest_kernel *kernel, uint64_t unit) {
  contest_divisions *d = WAFER_NEW(arena, contest_divisions, 1);
  if (!d) return NULL;
  *d = (contest_divisions){.c = c, .last = contest_last_conv(kernel)};
  d->side = c->width > c->height ? c->width : c->height;
  d->convs = contest_convs(kernel, d->conv);
  for (int pass = 0; pass < 2; pass++) {
    d->count = 0;
    for (uint32_t h = 1; h <= kernel->H && 2 * h <= d->side; h++)
      for (uint32_t w = alike(kernel) ? h : 1; w <= kernel->W && 2 * h * w <= d->side; w++) {
        if (pass && !list_rows(arena, d, unit, h, w, &d->at[d->count])) return NULL;
        d->count++;
      }
    if (!pass && !(d->at = WAFER_NEW(arena, division, d->count))) return NULL;
  }
  return d;
}

/* The least k of a convolution for this time; 0: none. */
static uint32_t columns(const contest_divisions *d, const row *r, uint32_t conv, uint64_t time) {
  uint64_t K = d->conv[conv].K, share = r->least[conv] ? time / r->base[conv] : 0;
  if (!share) return 0;
  uint64_t need = share < K ? (K + share - 1) / share : 1;
  return (uint32_t)(need > r->least[conv] ? need : r->least[conv]);
}

/* Columns of all convolutions but the first; 0: one has none. */
static uint32_t others(const contest_divisions *d, const row *r, uint64_t time, uint32_t *last) {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < d->convs; i++) {
    uint32_t k = columns(d, r, i, time);
    if (!k) return 0;
    if (i == d->last) *last = k;
    sum += k;
  }
  return sum;
}

static bool put(contest_ways *to, contest_way e) {
  if (to->count == to->room) {
    uint32_t room = 2 * to->room + 1024;
    contest_way *at = realloc(to->at, room * sizeof *at);
    if (!at) return false;
    to->at = at, to->room = room;
  }
  to->at[to->count++] = e;
  return true;
}

bool contest_fits(const contest *c, uint32_t width, uint32_t height) {
  return (width <= c->width && height <= c->height) || (height <= c->width && width <= c->height);
}

/* With at most `cap` features a row, the first convolution with any number up to that; but where
 * the others need as much as with one feature less, that has been listed. */
static bool put_division(const contest_divisions *d, const division *v, uint64_t time,
                         contest_ways *to) {
  uint32_t before = 0, last_before = 0;
  for (uint32_t cap = 1; cap <= v->count; cap++) {
    uint32_t last = 0, rest = others(d, &v->rows[cap - 1], time, &last), height = v->hw * (cap + 1);
    if (d->convs > 1 && !rest) continue;
    bool listed = d->convs == 1 || (rest == before && last == last_before);
    uint32_t most = cap < d->conv[0].C ? cap : (uint32_t)d->conv[0].C;
    for (uint32_t c = most; c && (c == most || !listed); c--) {
      uint32_t k = columns(d, &v->rows[c - 1], 0, time), width = 3 * (k + rest);
      if (!k || !contest_fits(d->c, width, height)) break;
      uint32_t out = d->convs == 1 ? k : last;
      if (!put(to, (contest_way){(uint16_t)c, (uint16_t)out, (uint16_t)width, (uint16_t)height}))
        return false;
    }
    before = rest, last_before = last;
  }
  return true;
}

/* ---- Ways that another covers ---- */

/* As low, with no more columns of the last convolution, nor of the others. */
static bool covers(const contest_way *a, const contest_way *b) {
  return a->out <= b->out && a->width - 3 * a->out <= b->width - 3 * b->out;
}

static uint64_t sort_key(const contest_way *e) {
  return (uint64_t)e->in << 48 | (uint64_t)e->height << 32 | (uint64_t)e->width << 16 | e->out;
}

static int by_in_and_height(const void *a, const void *b) {
  uint64_t x = sort_key(a), y = sort_key(b);
  return (x > y) - (x < y);
}

/* Those that are lower come first. */
static void drop_covered(contest_ways *ways) {
  qsort(ways->at, ways->count, sizeof *ways->at, by_in_and_height);
  uint32_t kept = 0, first = 0;
  for (uint32_t i = 0; i < ways->count; i++) {
    contest_way e = ways->at[i];
    if (kept && ways->at[kept - 1].in != e.in) first = kept;
    bool covered = false;
    for (uint32_t k = first; k < kept && !covered; k++) covered = covers(&ways->at[k], &e);
    if (!covered) ways->at[kept++] = e;
  }
  ways->count = kept;
}

bool contest_list_ways(const contest_divisions *d, uint64_t time, contest_ways *to) {
  to->count = 0;
  for (uint32_t i = 0; i < d->count; i++)
    if (!put_division(d, &d->at[i], time, to)) return false;
  if (to->count) drop_covered(to);
  return true;
}
