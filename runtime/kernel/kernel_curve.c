/* The shape curve of a body: the Pareto set over (width, height, time); time is cycles, or those of
 * the heaviest stream over the rows.
 *
 * Pairs of choices (kernel_cuts.c) are tried, one for the rows and one for the columns, small
 * shapes first, and left as soon as their vector work alone is no less than the cycles of a shape
 * known to fit inside. A loop is cut in both directions only when there is no third, or when it is
 * longer than all others together or nothing fits. Around the fastest point, and one point per
 * halving of its area, every way to cut each direction is tried: pruned lists lack some. When
 * nothing fits, the search is done again for bytes alone, without tolerance. */
#include <stdlib.h>
#include <string.h>

#include "kernel_curve.h"

typedef struct search {
  kernel_search has;
  bool bytes_alone; /* choices are judged by bytes: does anything fit? */
  kernel_points points;
  uint64_t least_bytes;
  /* known[h][w]: fewest cycles of a shape in cell (h, w), as a Fenwick tree of minima */
  uint64_t *known;
} search;

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
  kernel_points *set = &s->points;
  if (set->count == set->capacity) {
    size_t capacity = set->capacity ? 2 * set->capacity : 1024;
    wafer_shape_point *grown = realloc(set->at, capacity * sizeof *grown);
    if (!grown) return WAFER_NO_MEMORY;
    set->at = grown;
    set->capacity = capacity;
  }
  set->at[set->count++] = *point;
  return WAFER_OK;
}

/* A split that is tried, and what is known of it. */
typedef struct trial {
  wafer_split split;
  uint32_t height, width;
  bool viewed; /* the view is of this split */
  kernel_pair *is;
} trial;

static const kernel_view *view_of(search *s, trial *t) {
  if (!t->viewed) kernel_view_split(s->has.views, &t->split);
  t->viewed = true;
  return s->has.views;
}

static uint64_t bytes_of(search *s, trial *t) {
  wafer_cost cost;
  if (!t->is->has_bytes) {
    kernel_bytes(view_of(s, t), &cost);
    t->is->bytes = kernel_all_bytes(&cost);
    t->is->has_bytes = true;
  }
  return t->is->bytes;
}

/* Vector work, or more. */
static uint64_t work_of(search *s, trial *t) {
  if (!t->is->has_work) t->is->cycles = kernel_compute_cycles(view_of(s, t));
  t->is->has_work = true;
  return t->is->cycles;
}

static uint64_t cycles_of(search *s, trial *t) {
  uint64_t work = work_of(s, t);
  if (!t->is->has_all) t->is->cycles = kernel_add(work, kernel_fabric_cycles(view_of(s, t)));
  t->is->has_all = true;
  return t->is->cycles;
}

static bool is_small(search *s, trial *t) {
  uint64_t bytes = bytes_of(s, t);
  if (bytes < s->least_bytes) s->least_bytes = bytes;
  return bytes <= s->points.options.budget;
}

/* Bytes are asked first while no shape that fits is known: often there is none. */
static wafer_status try_split(search *s, trial *t) {
  const wafer_curve_options *o = &s->points.options;
  uint64_t known = s->points.count ? fewest(s, t->height, t->width) : UINT64_MAX;
  if (known == UINT64_MAX && !is_small(s, t)) return WAFER_OK;
  if (kernel_time(o, work_of(s, t), t->height) >= known) return WAFER_OK;
  if (kernel_time(o, cycles_of(s, t), t->height) >= known || !is_small(s, t)) return WAFER_OK;
  learn(s, t->height, t->width, kernel_time(o, cycles_of(s, t), t->height));
  return keep(s, &(wafer_shape_point){.width = t->width,
                                      .height = t->height,
                                      .split = t->split,
                                      .cycles = cycles_of(s, t),
                                      .bytes = bytes_of(s, t)});
}

static wafer_status try_pair(search *s, const kernel_choice *rows, const kernel_choice *cols,
                             kernel_pair *is) {
  trial t = {.split = kernel_split_of(rows, cols),
             .height = rows->length,
             .width = cols->length,
             .is = is};
  for (int i = 0; i < 2; i++) { /* a loop cut both ways has no more parts than elements */
    uint32_t l = rows->loop[i];
    int64_t parts = (int64_t)t.split.rows[l] * t.split.cols[l];
    if (parts > s->has.views->loops.extent[l] && t.split.cols[l] > 1) return WAFER_OK;
  }
  return try_split(s, &t);
}

static const kernel_choices *list(search *s, uint32_t i, uint32_t j) {
  return kernel_cuts_list(&s->has, s->bytes_alone, i, j);
}

static wafer_status try_lists(search *s, const kernel_choices *rows, const kernel_choices *cols) {
  const wafer_cuts *cuts = s->has.cuts;
  kernel_pair *pairs = kernel_cuts_pairs(s->has.cuts, rows, cols);
  if (!pairs) return WAFER_NO_MEMORY;
  for (size_t i = 0; i < rows->count && rows->at[i].length <= cuts->max_height; i++)
    for (size_t j = 0; j < cols->count && cols->at[j].length <= cuts->max_width; j++)
      WAFER_TRY(try_pair(s, &rows->at[i], &cols->at[j], &pairs[i * cols->count + j]));
  return WAFER_OK;
}

/* Cuts of loops i and j along one direction and of k and l along the other, i <= j and k <= l. */
static wafer_status try_both(search *s, uint32_t i, uint32_t j, uint32_t k, uint32_t l) {
  const kernel_choices *a = list(s, i, j), *b = list(s, k, l);
  if (!a || !b) return WAFER_NO_MEMORY;
  WAFER_TRY(try_lists(s, a, b));
  return a == b ? WAFER_OK : try_lists(s, b, a);
}

/* The longest loop is longer than all others together. */
static bool one_is_long(const search *s) {
  const int64_t *extent = s->has.views->loops.extent;
  const uint32_t *loop = s->has.cuts->loop;
  int64_t rest = 1;
  for (uint32_t i = 1; i < s->has.cuts->count && rest <= extent[loop[0]]; i++)
    rest *= extent[loop[i]];
  return extent[loop[0]] > rest;
}

static wafer_status try_all(search *s) {
  uint32_t n = s->has.cuts->count;
  if (n == 1) WAFER_TRY(try_both(s, 0, 0, 0, 0));
  if (n == 2) WAFER_TRY(try_both(s, 0, 0, 1, 1));
  if (n == 2) WAFER_TRY(try_both(s, 0, 1, 0, 1));
  if (n == 3)
    for (uint32_t i = 0; i < 3; i++) WAFER_TRY(try_both(s, i == 0, i == 2 ? 1 : 2, i, i));
  if (n == 4)
    for (uint32_t i = 1; i < 4; i++) WAFER_TRY(try_both(s, 0, i, i == 1 ? 2 : 1, i == 3 ? 2 : 3));
  if (n == 3 && s->bytes_alone) WAFER_TRY(try_both(s, 0, 1, 0, 2));
  if (n > 2 && one_is_long(s))
    for (uint32_t i = 1; i < n; i++) WAFER_TRY(try_both(s, 0, i, 0, 0));
  return WAFER_OK;
}

/* The two longest dims of the result, each in both directions, where there are sums beside them. */
static wafer_status try_lean(search *s) {
  uint32_t at[2], count = 0, sums = 0;
  for (uint32_t i = 0; i < s->has.cuts->count; i++)
    if (s->has.cuts->loop[i] >= s->has.views->loops.parallel)
      sums++;
    else if (count < 2)
      at[count++] = i;
  return sums && count == 2 ? try_both(s, at[0], at[1], at[0], at[1]) : WAFER_OK;
}

/* ---- what pruning lost ---- */

/* Every way to cut loops `i` and `j` along one direction of `split` that is about as long as
 * before. */
static wafer_status try_around(search *s, wafer_split split, bool rows, uint32_t i, uint32_t j) {
  const wafer_loops *loops = &s->has.views->loops;
  uint32_t *parts = rows ? split.rows : split.cols;
  const uint32_t *across = rows ? split.cols : split.rows;
  uint32_t length = rows ? wafer_split_height(&split) : wafer_split_width(&split);
  uint32_t other = rows ? wafer_split_width(&split) : wafer_split_height(&split);
  int64_t least = length - length / 4,
          limit = rows ? s->has.cuts->max_height : s->has.cuts->max_width;
  if (limit > length + length / 4 + 1) limit = length + length / 4 + 1;
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) parts[l] = 1;
  for (int64_t p = 1; p <= loops->extent[i] && p <= limit;
       p = kernel_next_parts(loops->extent[i], p)) {
    int64_t from = kernel_ceil(least, p), extent = loops->extent[j];
    int64_t q = from <= 1       ? 1
                : from > extent ? extent + 1
                                : kernel_ceil(extent, kernel_ceil(extent, from));
    for (; q <= extent && p * q <= limit; q = kernel_next_parts(extent, q)) {
      if (p * across[i] > loops->extent[i] || q * across[j] > extent) break;
      parts[i] = (uint32_t)p;
      parts[j] = (uint32_t)q;
      uint32_t now = (uint32_t)(p * q);
      kernel_pair is = {0};
      trial t = {split, rows ? now : other, rows ? other : now, false, &is};
      WAFER_TRY(try_split(s, &t));
    }
  }
  return WAFER_OK;
}

/* Along each direction of `split`, every pair of loops that the other direction leaves whole
 * (of two loops, both). */
static wafer_status improve(search *s, const wafer_split *split) {
  for (int rows = 0; rows < 2; rows++)
    for (uint32_t i = 0; i < s->has.cuts->count; i++)
      for (uint32_t j = i + 1; j < s->has.cuts->count; j++) {
        const uint32_t *other = rows ? split->cols : split->rows;
        if (s->has.cuts->count == 2 ||
            (other[s->has.cuts->loop[i]] == 1 && other[s->has.cuts->loop[j]] == 1))
          WAFER_TRY(try_around(s, *split, rows, s->has.cuts->loop[i], s->has.cuts->loop[j]));
      }
  return WAFER_OK;
}

/* The fastest point, and from there one per halving of the area. */
static wafer_status improve_some(search *s) {
  size_t count = s->points.count;
  uint64_t area = UINT64_MAX;
  for (size_t i = 0; i < count; i++) {
    const wafer_shape_point *p = &s->points.at[i];
    if (kernel_area(p) > area / 2) continue;
    area = kernel_area(p);
    const wafer_split split = p->split;
    WAFER_TRY(improve(s, &split));
  }
  return WAFER_OK;
}

static wafer_status run(search *s) {
  s->known = WAFER_NEW(s->has.scratch, uint64_t, CELLS *CELLS);
  if (!s->known) return WAFER_NO_MEMORY;
  memset(s->known, 0xff, CELLS * CELLS * sizeof *s->known);
  const kernel_choice whole = {.parts = {1, 1}, .length = 1};
  bool lean = s->points.options.lean;
  WAFER_TRY(lean                 ? try_lean(s)
            : s->has.cuts->count ? try_all(s)
                                 : try_pair(s, &whole, &whole, &(kernel_pair){0}));
  WAFER_TRY(kernel_only_pareto(&s->points));
  if (!lean) WAFER_TRY(improve_some(s));
  WAFER_TRY(kernel_only_pareto(&s->points));
  WAFER_TRY(kernel_thin(&s->points));
  kernel_sort_points(&s->points);
  return WAFER_OK;
}

/* When nothing fits, again for bytes alone: to be sure of it, and of the fewest bytes. */
static wafer_status run_all(search *s) {
  uint64_t *known = &s->has.cuts->least_bytes[s->points.options.lean];
  if (*known > s->points.options.budget) return WAFER_OK;
  WAFER_TRY(run(s));
  if (s->points.count) return WAFER_OK;
  s->bytes_alone = true;
  WAFER_TRY(run(s));
  if (!s->points.count) *known = s->least_bytes;
  return WAFER_OK;
}

/* ---- threads ---- */

#define LEAST_SHARED 256 /* parts of work: fewer are sooner done than handed over */
#define MOST_TILES 1024

typedef struct shared {
  kernel_search *of;
  size_t count, tile;
  kernel_some *some;
  void *self;
} shared;

static void do_tile(void *self, uint32_t tile, uint32_t thread) {
  const shared *s = self;
  size_t first = tile * s->tile, end = first + s->tile;
  s->some(s->self, &s->of->views[thread], first, end < s->count ? end : s->count);
}

void kernel_share_out(kernel_search *of, size_t count, kernel_some *some, void *self) {
  thread_pool *pool = of->cuts->workers;
  uint32_t threads = pool && count >= LEAST_SHARED ? thread_pool_size(pool) : 1;
  if (threads == 1) {
    some(self, of->views, 0, count);
    return;
  }
  for (; of->opened < threads; of->opened++) of->views[of->opened] = of->views[0];
  shared s = {of, count, (count + MOST_TILES - 1) / MOST_TILES, some, self};
  if (s.tile < LEAST_SHARED / 8) s.tile = LEAST_SHARED / 8;
  thread_pool_run(pool, (uint32_t)((count + s.tile - 1) / s.tile), do_tile, &s);
}

/* ---- all together ---- */

static wafer_status make(search *s, const wafer_kernel_body *body) {
  const wafer_cuts *cuts = s->has.cuts;
  uint32_t threads = cuts->workers ? thread_pool_size(cuts->workers) : 1;
  s->has.views = WAFER_NEW(s->has.scratch, kernel_view, threads);
  if (!s->has.views) return WAFER_NO_MEMORY;
  kernel_view_open(s->has.views, cuts->machine, body);
  s->has.opened = 1;
  return run_all(s);
}

wafer_status wafer_cuts_curve(wafer_cuts *cuts, const wafer_kernel_body *body,
                              const wafer_curve_options *options, wafer_arena *arena,
                              wafer_curve *curve) {
  *curve = (wafer_curve){.least_bytes = UINT64_MAX};
  wafer_arena *scratch = wafer_arena_create();
  search *s = scratch ? WAFER_NEW(scratch, search, 1) : NULL;
  wafer_status status = WAFER_NO_MEMORY;
  if (s) {
    s->has = (kernel_search){.cuts = cuts, .scratch = scratch};
    s->points = (kernel_points){.options = *options, .scratch = scratch};
    uint64_t known = cuts->least_bytes[options->lean];
    s->least_bytes = known ? known : UINT64_MAX;
    status = make(s, body);
  }
  if (status == WAFER_OK) {
    size_t count = s->points.count;
    wafer_shape_point *at = wafer_arena_copy(arena, s->points.at, count * sizeof *at);
    if (at || count == 0)
      *curve = (wafer_curve){count, at, s->least_bytes, cuts->most_rows, cuts->most_cols};
    else
      status = WAFER_NO_MEMORY;
  }
  if (s) free(s->points.at);
  wafer_arena_destroy(scratch);
  return status;
}

/* Its choices are weighed by the thread that has the task. */
static void do_task(void *self, uint32_t tile, uint32_t thread) {
  wafer_curve_task *t = (wafer_curve_task *)self + tile;
  wafer_workers *workers = t->cuts->workers;
  (void)thread;
  t->cuts->workers = NULL;
  t->status = wafer_cuts_curve(t->cuts, t->body, &t->options, t->arena, t->curve);
  t->cuts->workers = workers;
}

wafer_status wafer_cuts_curves(wafer_workers *workers, wafer_curve_task *tasks, uint32_t count) {
  for (uint32_t first = 0, part; first < count; first += part) {
    part = count - first < THREADS_MOST_TILES ? count - first : THREADS_MOST_TILES;
    thread_pool_run(workers, part, do_task, tasks + first);
  }
  for (uint32_t i = 0; i < count; i++) WAFER_TRY(tasks[i].status);
  return WAFER_OK;
}

wafer_status wafer_kernel_curve(const wafer_machine *machine, const wafer_kernel_body *body,
                                const wafer_curve_options *options, wafer_arena *arena,
                                wafer_curve *curve) {
  wafer_arena *scratch = wafer_arena_create();
  wafer_cuts *cuts = scratch ? wafer_cuts_create(machine, body, options->max_width,
                                                 options->max_height, NULL, scratch)
                             : NULL;
  *curve = (wafer_curve){.least_bytes = UINT64_MAX};
  wafer_status status =
      cuts ? wafer_cuts_curve(cuts, body, options, arena, curve) : WAFER_NO_MEMORY;
  wafer_arena_destroy(scratch);
  return status;
}
