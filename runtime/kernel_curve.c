/* The shape curve of a body: the Pareto set over (width, height, time); time is cycles, or those of
 * the heaviest stream over the rows.
 *
 * Per loop only the distinct quotients ceil(extent / parts) matter, with the fewest parts that give
 * each. At most two loops share a direction, at most four (the longest) are cut at all, and a loop
 * is cut in both directions only when there is no third, or when it is longer than all others
 * together. Costs are the same with rows and columns exchanged, so one list of choices per pair of
 * loops serves both directions. It is pruned to its own Pareto set over (cores, cycles, bytes),
 * while it is long with a tolerance of up to 16 %, the ends kept. Then pairs of choices are tried,
 * small shapes first, and left as soon as their vector work alone is no less than the cycles of a
 * shape known to fit inside. Around the fastest point, and one point per halving of its area, every
 * way to cut each direction is tried. When nothing fits, the search is done again for bytes alone,
 * without tolerance.
 *
 * The set of what was tried is exact, and thinned when it has more than MAX_POINTS: one point, that
 * of least area, per cell of a geometric grid over (time, aspect ratio) that begins at 2 % of
 * time, the extremes of each coordinate always. All orders are total, so the result is the same
 * on every run. */
#include <stdlib.h>
#include <string.h>

#include "kernel_family.h"

#define MAX_POINTS 512 /* unless others are asked for */
#define MAX_CHOICES 48 /* of a list, while 16 % of tolerance can make it so */
#define MAX_CUT 4      /* loops that are cut */

/* The parts of up to two loops along one direction. */
typedef struct choice {
  uint32_t loop[2], parts[2], length;
  uint64_t cycles, bytes, weights, inputs; /* with the other direction uncut */
  uint64_t alone;                          /* vector work with all other loops cut to one element */
  bool beaten;
} choice;

typedef struct choices {
  size_t count;
  choice *at;
} choices;

typedef struct search {
  kernel_view view;
  wafer_curve_options options;
  wafer_arena *arena;
  bool bytes_alone; /* choices are judged by cores and bytes: does anything fit? */
  uint32_t cut[MAX_CUT], cut_count;
  choices single[MAX_CUT], pair[MAX_CUT][MAX_CUT]; /* by index of cut; pair: [i][j], i < j */
  size_t count, capacity;
  wafer_shape_point *points;
  uint64_t least_bytes;
  /* known[h][w]: fewest cycles of a shape in cell (h, w), as a Fenwick tree of minima */
  uint64_t *known;
} search;

/* ---- the distinct ways to cut ---- */

/* Next number of parts after `parts` with a smaller quotient; above extent when there is none. */
static int64_t next_parts(int64_t extent, int64_t parts) {
  int64_t quotient = kernel_ceil(extent, parts);
  return quotient <= 1 ? extent + 1 : kernel_ceil(extent, quotient - 1);
}

static void pick_loops(search *s) {
  const wafer_loops *loops = &s->view.loops;
  bool taken[WAFER_MAX_LOOPS] = {false};
  for (s->cut_count = 0; s->cut_count < MAX_CUT; s->cut_count++) {
    uint32_t best = WAFER_MAX_LOOPS;
    for (uint32_t i = 0; i < loops->count; i++) {
      if (!loops->divisible[i] || taken[i]) continue;
      if (best == WAFER_MAX_LOOPS || loops->extent[i] > loops->extent[best]) best = i;
    }
    if (best == WAFER_MAX_LOOPS) return;
    taken[best] = true;
    s->cut[s->cut_count] = best;
  }
}

static wafer_split split_of(const choice *rows, const choice *cols) {
  wafer_split split;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split.rows[i] = split.cols[i] = 1;
  for (int i = 0; i < 2; i++) {
    split.rows[rows->loop[i]] *= rows->parts[i];
    if (cols) split.cols[cols->loop[i]] *= cols->parts[i];
  }
  return split;
}

static uint64_t bytes_of(const wafer_cost *cost) {
  uint64_t bytes = kernel_add(cost->code_bytes, cost->weight_bytes);
  bytes = kernel_add(bytes, kernel_add(cost->input_bytes, cost->output_bytes));
  return kernel_add(bytes, cost->scratch_bytes);
}

/* A choice alone, and its vector work when the other loops are cut to single elements: how long the
 * runs are that it leaves tells only then. */
static void weigh(search *s, choice *c) {
  wafer_split split = split_of(c, NULL);
  wafer_cost cost;
  kernel_view_split(&s->view, &split);
  kernel_bytes(&s->view, &cost);
  c->cycles = kernel_add(kernel_compute_cycles(&s->view), kernel_fabric_cycles(&s->view));
  c->weights = cost.weight_bytes;
  c->inputs = cost.input_bytes;
  c->bytes = bytes_of(&cost);
  for (uint32_t i = 0; i < s->cut_count; i++)
    if (s->cut[i] != c->loop[0] && s->cut[i] != c->loop[1])
      split.cols[s->cut[i]] = (uint32_t)s->view.loops.extent[s->cut[i]];
  kernel_view_split(&s->view, &split);
  c->alone = kernel_compute_cycles(&s->view);
}

static int by_length(const void *left, const void *right) {
  const choice *a = left, *b = right;
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return a->parts[0] < b->parts[0] ? -1 : a->parts[0] > b->parts[0];
}

/* Whether `a` is nowhere worse than `b`, within `tolerance` eighths of a percent. */
static bool beats(const choice *a, const choice *b, uint64_t tolerance) {
  return a->bytes <= kernel_add(b->bytes, b->bytes / 800 * tolerance) &&
         a->alone <= kernel_add(b->alone, b->alone * tolerance / 800) &&
         a->cycles <= kernel_add(b->cycles, b->cycles / 800 * tolerance);
}

/* Bytes are judged per kind, since what the other direction cuts decides which kind weighs. */
static bool leaner(const choice *a, const choice *b) {
  return a->weights <= b->weights && a->inputs <= b->inputs &&
         a->bytes - a->weights - a->inputs <= b->bytes - b->weights - b->inputs;
}

/* Keeps, whatever their length, the leanest of those that fit either direction, and of all. */
static void prune_by_bytes(const search *s, choices *list) {
  uint32_t both =
      s->options.max_width < s->options.max_height ? s->options.max_width : s->options.max_height;
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) list->at[i].beaten = false;
  for (size_t i = 0; i < list->count; i++) {
    choice *c = &list->at[i];
    for (size_t j = 0; j < list->count && !c->beaten; j++) {
      const choice *other = &list->at[j];
      if (j == i || other->beaten || (other->length > both && c->length <= both)) continue;
      c->beaten = leaner(other, c);
    }
  }
  for (size_t i = 0; i < list->count; i++)
    if (!list->at[i].beaten) list->at[kept++] = list->at[i];
  list->count = kept;
}

/* Keeps what no shorter or equal choice beats; the fastest and the smallest stay. */
static void prune_within(choices *list, uint64_t tolerance) {
  size_t kept = 0, fastest = 0, smallest = 0;
  for (size_t i = 1; i < list->count; i++) {
    if (list->at[i].cycles < list->at[fastest].cycles) fastest = i;
    if (list->at[i].bytes < list->at[smallest].bytes) smallest = i;
  }
  for (size_t i = 0; i < list->count; i++) {
    const choice c = list->at[i];
    bool beaten = false;
    for (size_t j = kept; j-- > 0 && !beaten && i != fastest && i != smallest;)
      beaten = beats(&list->at[j], &c, tolerance);
    if (!beaten) list->at[kept++] = c;
  }
  list->count = kept;
}

/* Widens the tolerance until the list is short, up to 16 %. */
static void prune(const search *s, choices *list) {
  qsort(list->at, list->count, sizeof *list->at, by_length);
  if (s->bytes_alone) {
    prune_by_bytes(s, list);
    return;
  }
  prune_within(list, 0);
  for (uint64_t tolerance = 4; tolerance <= 128 && list->count > MAX_CHOICES; tolerance *= 2)
    prune_within(list, tolerance);
}

static wafer_status list_choices(search *s, uint32_t i, uint32_t j, choices *list) {
  uint32_t limit =
      s->options.max_width > s->options.max_height ? s->options.max_width : s->options.max_height;
  int64_t outer = s->view.loops.extent[i], inner = i == j ? 1 : s->view.loops.extent[j];
  for (int pass = 0; pass < 2; pass++) { /* count, then fill */
    list->count = 0;
    for (int64_t p = 1; p <= outer && p <= limit; p = next_parts(outer, p))
      for (int64_t q = 1; q <= inner && p * q <= limit; q = next_parts(inner, q)) {
        choice c = {{i, j}, {(uint32_t)p, (uint32_t)q}, (uint32_t)(p * q), 0, 0, 0, 0, 0, false};
        if (pass) {
          weigh(s, &c);
          list->at[list->count] = c;
        }
        list->count++;
      }
    if (!pass && !(list->at = WAFER_NEW(s->arena, choice, list->count))) return WAFER_NO_MEMORY;
  }
  prune(s, list);
  return WAFER_OK;
}

/* ---- what is known: minima over (height, width) cells ---- */

#define CELLS 160 /* of a direction: 8 to an octave, up to 2^20 cores */

/* A cell per eighth of an octave: the cell of the largest boundary that is no more than n. */
static uint32_t cell_of(uint32_t n) {
  uint32_t octave = 31 - (uint32_t)__builtin_clz(n | 1);
  uint32_t eighth = octave >= 3 ? (n >> (octave - 3)) & 7 : (n << (3 - octave)) & 7;
  uint32_t cell = octave * 8 + eighth;
  return cell < CELLS ? cell : CELLS - 1;
}

/* The first cell all of whose shapes are at least n long. */
static uint32_t cell_above(uint32_t n) {
  uint32_t cell = cell_of(n);
  return n > 1 && cell_of(n - 1) == cell ? cell + 1 : cell;
}

static void learn(search *s, uint32_t height, uint32_t width, uint64_t cycles) {
  for (uint32_t i = cell_above(height) + 1; i <= CELLS; i += i & -i)
    for (uint32_t j = cell_above(width) + 1; j <= CELLS; j += j & -j) {
      uint64_t *least = &s->known[(i - 1) * CELLS + j - 1];
      if (cycles < *least) *least = cycles;
    }
}

static uint64_t fewest(const search *s, uint32_t height, uint32_t width) {
  uint64_t cycles = UINT64_MAX;
  for (uint32_t i = cell_of(height) + 1; i > 0; i -= i & -i)
    for (uint32_t j = cell_of(width) + 1; j > 0; j -= j & -j) {
      uint64_t least = s->known[(i - 1) * CELLS + j - 1];
      if (least < cycles) cycles = least;
    }
  return cycles;
}

/* ---- trying pairs of choices ---- */

static wafer_status keep(search *s, const wafer_shape_point *point) {
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 1024;
    wafer_shape_point *grown = realloc(s->points, capacity * sizeof *grown);
    if (!grown) return WAFER_NO_MEMORY;
    s->points = grown;
    s->capacity = capacity;
  }
  s->points[s->count++] = *point;
  return WAFER_OK;
}

static uint64_t time_of(const search *s, uint64_t cycles, uint32_t height) {
  uint64_t stream = kernel_ceil((int64_t)s->options.stream_words, height);
  return cycles > stream ? cycles : stream;
}

static wafer_status try_split(search *s, const wafer_split *split, uint32_t height,
                              uint32_t width) {
  wafer_shape_point p = {.width = width, .height = height, .split = *split};
  uint64_t known = fewest(s, height, width);
  wafer_cost cost;
  kernel_view_split(&s->view, split);
  p.cycles = kernel_compute_cycles(&s->view);
  if (time_of(s, p.cycles, height) >= known) return WAFER_OK;
  p.cycles = kernel_add(p.cycles, kernel_fabric_cycles(&s->view));
  if (time_of(s, p.cycles, height) >= known) return WAFER_OK;
  kernel_bytes(&s->view, &cost);
  p.bytes = bytes_of(&cost);
  if (p.bytes < s->least_bytes) s->least_bytes = p.bytes;
  if (p.bytes > s->options.budget) return WAFER_OK;
  learn(s, height, width, time_of(s, p.cycles, height));
  return keep(s, &p);
}

static wafer_status try_pair(search *s, const choice *rows, const choice *cols) {
  wafer_split split = split_of(rows, cols);
  for (int i = 0; i < 2; i++) { /* a loop cut both ways has no more parts than elements */
    uint32_t l = rows->loop[i];
    int64_t parts = (int64_t)split.rows[l] * split.cols[l];
    if (parts > s->view.loops.extent[l] && split.cols[l] > 1) return WAFER_OK;
  }
  return try_split(s, &split, rows->length, cols->length);
}

static wafer_status try_lists(search *s, const choices *rows, const choices *cols) {
  for (size_t i = 0; i < rows->count && rows->at[i].length <= s->options.max_height; i++)
    for (size_t j = 0; j < cols->count && cols->at[j].length <= s->options.max_width; j++)
      WAFER_TRY(try_pair(s, &rows->at[i], &cols->at[j]));
  return WAFER_OK;
}

static wafer_status try_both(search *s, const choices *a, const choices *b) {
  WAFER_TRY(try_lists(s, a, b));
  return a == b ? WAFER_OK : try_lists(s, b, a);
}

static wafer_status try_all(search *s) {
  uint32_t n = s->cut_count;
  int64_t rest = 1;
  for (uint32_t i = 0; i < n; i++) {
    WAFER_TRY(list_choices(s, s->cut[i], s->cut[i], &s->single[i]));
    for (uint32_t j = i + 1; j < n; j++)
      WAFER_TRY(list_choices(s, s->cut[i], s->cut[j], &s->pair[i][j]));
    if (i > 0 && rest <= s->view.loops.extent[s->cut[0]]) rest *= s->view.loops.extent[s->cut[i]];
  }
  if (n == 1) WAFER_TRY(try_both(s, &s->single[0], &s->single[0]));
  if (n == 2) WAFER_TRY(try_both(s, &s->single[0], &s->single[1]));
  if (n == 2) WAFER_TRY(try_both(s, &s->pair[0][1], &s->pair[0][1]));
  if (n == 3)
    for (uint32_t i = 0; i < 3; i++)
      WAFER_TRY(try_both(s, &s->pair[i == 0][i == 2 ? 1 : 2], &s->single[i]));
  if (n == 4)
    for (uint32_t i = 1; i < 4; i++)
      WAFER_TRY(try_both(s, &s->pair[0][i], &s->pair[i == 1 ? 2 : 1][i == 3 ? 2 : 3]));
  if (n > 2 && s->view.loops.extent[s->cut[0]] > rest)
    for (uint32_t i = 1; i < n; i++) WAFER_TRY(try_both(s, &s->pair[0][i], &s->single[0]));
  return WAFER_OK;
}

/* ---- the exact set, then fewer ---- */

static uint64_t area_of(const wafer_shape_point *p) {
  return (uint64_t)p->width * p->height;
}

static int by_cycles(const void *left, const void *right) {
  const wafer_shape_point *a = left, *b = right;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (area_of(a) != area_of(b)) return area_of(a) < area_of(b) ? -1 : 1;
  if (a->width != b->width) return a->width < b->width ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return memcmp(&a->split, &b->split, sizeof a->split);
}

typedef struct timed {
  uint64_t time;
  wafer_shape_point is;
} timed;

static int by_time(const void *left, const void *right) {
  const timed *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (area_of(&a->is) != area_of(&b->is)) return area_of(&a->is) < area_of(&b->is) ? -1 : 1;
  return by_cycles(&a->is, &b->is);
}

static wafer_status sort_by_time(search *s) {
  timed *order = WAFER_NEW(s->arena, timed, s->count);
  if (!order) return WAFER_NO_MEMORY;
  for (size_t i = 0; i < s->count; i++)
    order[i] = (timed){time_of(s, s->points[i].cycles, s->points[i].height), s->points[i]};
  qsort(order, s->count, sizeof *order, by_time);
  for (size_t i = 0; i < s->count; i++) s->points[i] = order[i].is;
  return WAFER_OK;
}

/* Drops what another point is nowhere worse than; the rest by time. `lowest[w]`: Fenwick tree,
 * least height of widths
 * <= w. */
static wafer_status only_pareto(search *s) {
  uint32_t *lowest = WAFER_NEW(s->arena, uint32_t, (size_t)s->options.max_width + 1);
  size_t kept = 0;
  if (!lowest) return WAFER_NO_MEMORY;
  memset(lowest, 0xff, ((size_t)s->options.max_width + 1) * sizeof *lowest);
  if (s->count > 0) WAFER_TRY(sort_by_time(s));
  for (size_t i = 0; i < s->count; i++) {
    const wafer_shape_point p = s->points[i];
    uint32_t least = UINT32_MAX;
    for (uint32_t w = p.width; w > 0; w -= w & -w)
      if (lowest[w] < least) least = lowest[w];
    if (least <= p.height) continue;
    for (uint32_t w = p.width; w <= s->options.max_width; w += w & -w)
      if (p.height < lowest[w]) lowest[w] = p.height;
    s->points[kept++] = p;
  }
  s->count = kept;
  return WAFER_OK;
}

/* 64 log2 n, rounded down: by squaring, so that it is the same everywhere. */
static int32_t log_of(uint64_t n) {
  if (n == 0) return 0;
  int32_t whole = 63 - __builtin_clzll(n), fraction = 0;
  uint64_t mantissa = whole >= 31 ? n >> (whole - 31) : n << (31 - whole);
  for (int i = 0; i < 6; i++) {
    mantissa = mantissa * mantissa >> 31;
    fraction = 2 * fraction + (mantissa >> 32 ? 1 : 0);
    if (mantissa >> 32) mantissa >>= 1;
  }
  return whole * 64 + fraction;
}

typedef struct cell {
  int32_t cycles, aspect;
  uint64_t area;
  size_t point;
} cell;

static int by_cell(const void *left, const void *right) {
  const cell *a = left, *b = right;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (a->aspect != b->aspect) return a->aspect < b->aspect ? -1 : 1;
  if (a->area != b->area) return a->area < b->area ? -1 : 1;
  return a->point < b->point ? -1 : a->point > b->point;
}

/* Marks the first point of every cell; returns how many cells there are. */
static size_t mark_cells(const search *s, cell *cells, bool *marked, int32_t cycles,
                         int32_t aspect) {
  size_t count = 0;
  for (size_t i = 0; i < s->count; i++) {
    const wafer_shape_point *p = &s->points[i];
    int32_t ratio = log_of(p->width) - log_of(p->height) + 32 * 64;
    cells[i] =
        (cell){log_of(time_of(s, p->cycles, p->height)) / cycles, ratio / aspect, area_of(p), i};
    marked[i] = false;
  }
  qsort(cells, s->count, sizeof *cells, by_cell);
  for (size_t i = 0; i < s->count; i++) {
    if (i && cells[i].cycles == cells[i - 1].cycles && cells[i].aspect == cells[i - 1].aspect)
      continue;
    marked[cells[i].point] = true;
    count++;
  }
  return count;
}

static void mark_extremes(const search *s, bool *marked) {
  size_t smallest = 0, narrowest = 0, lowest = 0;
  for (size_t i = 1; i < s->count; i++) {
    const wafer_shape_point *p = s->points;
    if (area_of(&p[i]) < area_of(&p[smallest])) smallest = i;
    if (p[i].width < p[narrowest].width) narrowest = i;
    if (p[i].height < p[lowest].height) lowest = i;
  }
  marked[0] = marked[smallest] = marked[narrowest] = marked[lowest] = true;
}

/* Grid cells begin at 2 % of cycles by half an octave of aspect ratio and widen until few enough
 * remain. */
static wafer_status thin(search *s) {
  size_t most = s->options.most_points ? s->options.most_points : MAX_POINTS;
  if (s->count <= most || most < 8) return WAFER_OK;
  cell *cells = WAFER_NEW(s->arena, cell, s->count);
  bool *marked = WAFER_NEW(s->arena, bool, s->count);
  if (!cells || !marked) return WAFER_NO_MEMORY;
  int32_t cycles = 2, aspect = 32;
  while (mark_cells(s, cells, marked, cycles, aspect) > most - 4) {
    cycles += 1 + cycles / 4;
    aspect += aspect / 8;
  }
  mark_extremes(s, marked);
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++)
    if (marked[i]) s->points[kept++] = s->points[i];
  s->count = kept;
  return WAFER_OK;
}

/* ---- what pruning lost ---- */

/* Every way to cut loops `i` and `j` along one direction of `split` that is about as long as
 * before. */
static wafer_status try_around(search *s, wafer_split split, bool rows, uint32_t i, uint32_t j) {
  const wafer_loops *loops = &s->view.loops;
  uint32_t *parts = rows ? split.rows : split.cols;
  const uint32_t *across = rows ? split.cols : split.rows;
  uint32_t length = rows ? wafer_split_height(&split) : wafer_split_width(&split);
  uint32_t other = rows ? wafer_split_width(&split) : wafer_split_height(&split);
  int64_t least = length - length / 4, limit = rows ? s->options.max_height : s->options.max_width;
  if (limit > length + length / 4 + 1) limit = length + length / 4 + 1;
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) parts[l] = 1;
  for (int64_t p = 1; p <= loops->extent[i] && p <= limit; p = next_parts(loops->extent[i], p)) {
    int64_t from = kernel_ceil(least, p), extent = loops->extent[j];
    int64_t q = from <= 1       ? 1
                : from > extent ? extent + 1
                                : kernel_ceil(extent, kernel_ceil(extent, from));
    for (; q <= extent && p * q <= limit; q = next_parts(extent, q)) {
      if (p * across[i] > loops->extent[i] || q * across[j] > extent) break;
      parts[i] = (uint32_t)p;
      parts[j] = (uint32_t)q;
      uint32_t now = (uint32_t)(p * q);
      WAFER_TRY(try_split(s, &split, rows ? now : other, rows ? other : now));
    }
  }
  return WAFER_OK;
}

/* Along each direction of `split`, every pair of loops that the other direction leaves whole
 * (of two loops, both). */
static wafer_status improve(search *s, const wafer_split *split) {
  for (int rows = 0; rows < 2; rows++)
    for (uint32_t i = 0; i < s->cut_count; i++)
      for (uint32_t j = i + 1; j < s->cut_count; j++) {
        const uint32_t *other = rows ? split->cols : split->rows;
        if (s->cut_count == 2 || (other[s->cut[i]] == 1 && other[s->cut[j]] == 1))
          WAFER_TRY(try_around(s, *split, rows, s->cut[i], s->cut[j]));
      }
  return WAFER_OK;
}

/* The fastest point, and from there one per halving of the area. */
static wafer_status improve_some(search *s) {
  size_t count = s->count;
  uint64_t area = UINT64_MAX;
  for (size_t i = 0; i < count; i++) {
    if (area_of(&s->points[i]) > area / 2) continue;
    area = area_of(&s->points[i]);
    const wafer_split split = s->points[i].split;
    WAFER_TRY(improve(s, &split));
  }
  return WAFER_OK;
}

static wafer_status run(search *s) {
  s->known = WAFER_NEW(s->arena, uint64_t, CELLS *CELLS);
  if (!s->known) return WAFER_NO_MEMORY;
  memset(s->known, 0xff, CELLS * CELLS * sizeof *s->known);
  pick_loops(s);
  const choice whole = {.parts = {1, 1}, .length = 1};
  WAFER_TRY(s->cut_count ? try_all(s) : try_pair(s, &whole, &whole));
  WAFER_TRY(only_pareto(s));
  WAFER_TRY(improve_some(s));
  WAFER_TRY(only_pareto(s));
  WAFER_TRY(thin(s));
  if (s->count) qsort(s->points, s->count, sizeof *s->points, by_cycles);
  return WAFER_OK;
}

wafer_status wafer_kernel_curve(const wafer_machine *machine, const wafer_kernel_body *body,
                                const wafer_curve_options *options, wafer_arena *arena,
                                wafer_curve *curve) {
  *curve = (wafer_curve){.least_bytes = UINT64_MAX};
  wafer_arena *scratch = wafer_arena_create();
  search *s = scratch ? WAFER_NEW(scratch, search, 1) : NULL;
  wafer_status status = WAFER_NO_MEMORY;
  if (s) {
    s->options = *options;
    s->arena = scratch;
    s->least_bytes = UINT64_MAX;
    kernel_view_open(&s->view, machine, body);
    status = run(s);
    if (status == WAFER_OK && s->count == 0) { /* nothing fits: be sure of it, and of least_bytes */
      s->bytes_alone = true;
      status = run(s);
    }
  }
  if (status == WAFER_OK) {
    wafer_shape_point *at = wafer_arena_copy(arena, s->points, s->count * sizeof *at);
    if (at || s->count == 0)
      *curve = (wafer_curve){s->count, at, s->least_bytes};
    else
      status = WAFER_NO_MEMORY;
  }
  if (s) free(s->points);
  wafer_arena_destroy(scratch);
  return status;
}
