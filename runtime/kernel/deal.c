/* Dealing: one line (a row or a column) after the other, the fullest first, to the part that it
 * loads least beside what the part has in each tile; that is the part in which the sum of the
 * squares of all tiles grows least. Columns by their totals, then rows tile by tile, then both
 * again while there is work to spare; the dealing with the emptiest fullest tile stays.
 *
 * Unstructured zeros leave 300 +- 17 non-zeros in a tile of a thousandth of them, and the fullest
 * of hundreds 20 % more than the mean; dealt, it has 2 to 5 % more. */
#include "wafer/deal.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 4
#define MOST_WORK ((uint64_t)1 << 28) /* additions of a round; beyond it totals alone decide */

/* The non-zeros of one dim, line by line: where on the other dim they lie; of filters one for each
 * tap that is not zero. */
typedef struct lines {
  uint32_t count, parts, length; /* length: lines of a part but the last */
  uint64_t *start;               /* count + 1 */
  uint32_t *at;
  uint32_t *order; /* fullest first */
  uint32_t *part;  /* of each line */
} lines;

typedef struct dealing {
  lines dim[2];
  uint32_t *best[2];
  uint64_t fullest;
  uint64_t *load; /* [part of the other dim][part] */
  uint64_t *cost; /* [part] */
  uint32_t *used, *tiles, *held;
} dealing;

static bool is_zero(const wafer_weight *w, uint64_t i) {
  size_t bytes = wafer_dtype_bytes(w->dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)w->data + i * bytes, bytes);
  return (bits & ~((uint64_t)1 << (8 * bytes - 1))) == 0; /* of both signs */
}

static void *zeroed(wafer_arena *arena, uint64_t count, size_t bytes) {
  return wafer_arena_alloc(arena, (size_t)(count ? count : 1), bytes);
}

/* ---- the lines ---- */

static bool find_lines(wafer_arena *arena, const wafer_weight *w, const uint32_t parts[2],
                       lines dim[2]) {
  uint64_t rows = (uint64_t)w->shape.dims[0], cols = (uint64_t)w->shape.dims[1], taps = 1;
  for (uint32_t d = 2; d < w->shape.rank; d++) taps *= (uint64_t)w->shape.dims[d];
  for (uint32_t d = 0; d < 2; d++) {
    lines *l = &dim[d];
    l->count = (uint32_t)w->shape.dims[d];
    l->parts = parts[d];
    l->length = (l->count + l->parts - 1) / l->parts;
    l->start = zeroed(arena, (uint64_t)l->count + 1, sizeof *l->start);
    l->order = zeroed(arena, l->count, sizeof *l->order);
    l->part = zeroed(arena, l->count, sizeof *l->part);
    if (!l->start || !l->order || !l->part) return false;
  }
  for (uint64_t i = 0; i < rows * cols * taps; i++)
    if (!is_zero(w, i)) dim[0].start[i / taps / cols + 1]++, dim[1].start[i / taps % cols + 1]++;
  for (uint32_t d = 0; d < 2; d++) {
    for (uint32_t i = 0; i < dim[d].count; i++) dim[d].start[i + 1] += dim[d].start[i];
    dim[d].at = zeroed(arena, dim[d].start[dim[d].count], sizeof *dim[d].at);
    if (!dim[d].at) return false;
  }
  uint64_t *next = zeroed(arena, cols, sizeof *next), row = 0;
  if (!next) return false;
  for (uint64_t i = 0; i < rows * cols * taps; i++) {
    uint64_t r = i / taps / cols, c = i / taps % cols;
    if (is_zero(w, i)) continue;
    dim[0].at[row++] = (uint32_t)c;
    dim[1].at[dim[1].start[c] + next[c]++] = (uint32_t)r;
  }
  return true;
}

static uint64_t length_of(const lines *l, uint32_t i) {
  return l->start[i + 1] - l->start[i];
}

/* By length, longest first; of equal ones the first. Lengths are counted. */
static bool sort_lines(wafer_arena *arena, lines *l) {
  uint64_t longest = 0;
  for (uint32_t i = 0; i < l->count; i++)
    longest = length_of(l, i) > longest ? length_of(l, i) : longest;
  uint32_t *first = zeroed(arena, longest + 2, sizeof *first);
  if (!first) return false;
  for (uint32_t i = 0; i < l->count; i++) first[longest - length_of(l, i) + 1]++;
  for (uint64_t n = 0; n <= longest; n++) first[n + 1] += first[n];
  for (uint32_t i = 0; i < l->count; i++) l->order[first[longest - length_of(l, i)]++] = i;
  return true;
}

/* ---- a round ---- */

/* The tiles that a line meets, each once, in `tiles`, and how often in `used`. */
static uint32_t meet(const dealing *s, const lines *l, const lines *other, uint32_t line,
                     bool totals) {
  uint32_t count = 0;
  if (totals) return s->tiles[0] = 0, s->used[0] = (uint32_t)length_of(l, line), 1;
  for (uint64_t i = l->start[line]; i < l->start[line + 1]; i++) {
    uint32_t tile = other->part[l->at[i]];
    if (s->used[tile]++ == 0) s->tiles[count++] = tile;
  }
  return count;
}

/* Parts have as many lines as if they were neighbours. */
static bool has_room(const dealing *s, const lines *l, uint32_t part) {
  uint64_t before = (uint64_t)part * l->length;
  return s->held[part] < l->length && before + s->held[part] < l->count;
}

/* The part with room that a line with these tiles loads least. */
static uint32_t least_loaded(const dealing *s, const lines *l, uint32_t met) {
  uint32_t best = UINT32_MAX;
  memset(s->cost, 0, l->parts * sizeof *s->cost);
  for (uint32_t t = 0; t < met; t++) {
    const uint64_t *load = s->load + (uint64_t)s->tiles[t] * l->parts;
    uint64_t times = s->used[s->tiles[t]];
    for (uint32_t p = 0; p < l->parts; p++) s->cost[p] += times * load[p];
  }
  for (uint32_t p = 0; p < l->parts; p++)
    if (has_room(s, l, p) && (best == UINT32_MAX || s->cost[p] < s->cost[best])) best = p;
  return best;
}

static void deal(const dealing *s, uint32_t d, bool totals) {
  lines *l = (lines *)&s->dim[d];
  const lines *other = &s->dim[1 - d];
  uint32_t tiles = totals ? 1 : other->parts;
  memset(s->load, 0, (uint64_t)tiles * l->parts * sizeof *s->load);
  memset(s->held, 0, l->parts * sizeof *s->held);
  for (uint32_t n = 0; n < l->count; n++) {
    uint32_t line = l->order[n], met = meet(s, l, other, line, totals);
    uint32_t part = least_loaded(s, l, met);
    l->part[line] = part;
    s->held[part]++;
    for (uint32_t t = 0; t < met; t++) {
      s->load[(uint64_t)s->tiles[t] * l->parts + part] += s->used[s->tiles[t]];
      s->used[s->tiles[t]] = 0;
    }
  }
}

/* Keeps the dealing if no tile is as full as the fullest so far. */
static void judge(dealing *s) {
  const lines *rows = &s->dim[0], *cols = &s->dim[1];
  uint64_t most = 0, tiles = (uint64_t)rows->parts * cols->parts;
  memset(s->load, 0, tiles * sizeof *s->load);
  for (uint32_t r = 0; r < rows->count; r++)
    for (uint64_t i = rows->start[r]; i < rows->start[r + 1]; i++) {
      uint64_t n = ++s->load[(uint64_t)rows->part[r] * cols->parts + cols->part[rows->at[i]]];
      if (n > most) most = n;
    }
  if (s->fullest && most >= s->fullest) return;
  s->fullest = most;
  for (uint32_t d = 0; d < 2; d++)
    memcpy(s->best[d], s->dim[d].part, s->dim[d].count * sizeof *s->best[d]);
}

/* Within a part lines keep their order. */
static void set_places(dealing *s) {
  for (uint32_t d = 0; d < 2; d++) {
    const lines *l = &s->dim[d];
    memset(s->held, 0, l->parts * sizeof *s->held);
    for (uint32_t i = 0; i < l->count; i++) {
      uint32_t part = s->best[d][i];
      s->best[d][i] = part * l->length + s->held[part]++;
    }
  }
}

/* What a round of dim d adds up when lines are weighed tile by tile. */
static uint64_t work_of(const dealing *s, uint32_t d) {
  const lines *l = &s->dim[d];
  uint64_t met = (uint64_t)l->count * s->dim[1 - d].parts, nonzeros = l->start[l->count];
  return (met < nonzeros ? met : nonzeros) * l->parts;
}

static bool find_room(wafer_arena *arena, dealing *s) {
  uint64_t rows = s->dim[0].parts, cols = s->dim[1].parts, most = rows > cols ? rows : cols;
  s->load = zeroed(arena, rows * cols, sizeof *s->load);
  s->cost = zeroed(arena, most, sizeof *s->cost);
  s->used = zeroed(arena, most, sizeof *s->used);
  s->tiles = zeroed(arena, most, sizeof *s->tiles);
  s->held = zeroed(arena, most, sizeof *s->held);
  return s->load && s->cost && s->used && s->tiles && s->held;
}

bool wafer_deal_weight(wafer_arena *arena, const wafer_weight *weight, const uint32_t parts[2],
                       wafer_deal *out) {
  wafer_arena *own = wafer_arena_create();
  dealing s = {.fullest = 0};
  bool ok = own && find_lines(own, weight, parts, s.dim) && find_room(own, &s);
  for (uint32_t d = 0; ok && d < 2; d++) {
    ok = sort_lines(own, &s.dim[d]);
    s.best[d] = ok ? zeroed(arena, s.dim[d].count, sizeof *s.best[d]) : NULL;
    ok = ok && s.best[d];
  }
  bool both = ok && s.dim[0].parts > 1 && s.dim[1].parts > 1;
  for (uint32_t d = 2; ok && d-- > 0;) deal(&s, d, true);
  if (ok) judge(&s);
  for (uint32_t round = 0; both && round < ROUNDS; round++) {
    uint32_t d = round % 2;
    if (work_of(&s, d) > MOST_WORK) break;
    deal(&s, d, false);
    judge(&s);
  }
  if (ok) set_places(&s);
  wafer_arena_destroy(own);
  *out = (wafer_deal){{s.best[0], s.best[1]}, s.fullest};
  return ok;
}
