/* Order-preserving shelves by dynamic programming over where a shelf starts.
 *
 * used[i] is the fewest rows of cores that the first i items take. From i, a shelf of height h
 * takes items while their narrowest shapes of at most that height fit the width; taking fewer never
 * helps, as what follows only grows. Heights tried are those of the shapes themselves, thinned when
 * there are many items, so the work is items x heights. Dead
 * and reserved cores and fixed items split a shelf into stretches; items step over them. */
#include "shelf.h"

#include <stdlib.h>
#include <string.h>

#define NO_WAY UINT32_MAX
#define WORK 600000 /* items x heights tried per packing */
#define LEAST_HEIGHTS 12
#define MOST_HEIGHTS 160

typedef struct packer {
  const shelf_problem *problem;
  wafer_rect area;
  uint32_t height_count;
  uint32_t *heights; /* rising */
  uint32_t *widths;  /* [kind][height]: narrowest width, NO_WAY */
  uint32_t *used;    /* [item]: rows taken by the items before it; NO_WAY: not reached */
  uint32_t *from;    /* [item]: where the shelf that ends before it starts */
  uint32_t *at;      /* [item]: row that shelf starts at, relative to the area */
  uint32_t *chosen;  /* [item]: its height's number */
} packer;

/* ---- Shapes ---- */

static int by_width(const void *a, const void *b) {
  const shelf_point *p = a, *q = b;
  if (p->width != q->width) return p->width < q->width ? -1 : 1;
  if (p->height != q->height) return p->height < q->height ? -1 : 1;
  return (p->index > q->index) - (p->index < q->index);
}

uint32_t shelf_pareto(uint32_t count, shelf_point *points) {
  qsort(points, count, sizeof *points, by_width);
  uint32_t n = 0;
  for (uint32_t i = 0; i < count; i++)
    if (n == 0 || points[i].height < points[n - 1].height) points[n++] = points[i];
  return n;
}

/* The narrowest shape of at most `height`; NULL when there is none. */
static const shelf_point *narrowest(const shelf_shapes *shapes, uint32_t height) {
  uint32_t low = 0, high = shapes->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (shapes->at[middle].height <= height)
      high = middle;
    else
      low = middle + 1;
  }
  return low < shapes->count ? &shapes->at[low] : NULL;
}

/* ---- Heights worth trying ---- */

static int by_value(const void *a, const void *b) {
  uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
  return (p > q) - (p < q);
}

/* The height below which some item has no shape at all. */
static uint32_t least_height(const shelf_problem *problem) {
  uint32_t least = 1;
  for (uint32_t k = 0; k < problem->kind_count; k++) {
    const shelf_shapes *shapes = &problem->kinds[k];
    if (shapes->count && shapes->at[shapes->count - 1].height > least)
      least = shapes->at[shapes->count - 1].height;
  }
  return least;
}

static bool collect_heights(packer *p, wafer_arena *arena) {
  size_t total = 1, n = 0;
  for (uint32_t k = 0; k < p->problem->kind_count; k++) total += p->problem->kinds[k].count;
  uint32_t *all = WAFER_NEW(arena, uint32_t, total);
  if (!all) return false;
  all[n++] = least_height(p->problem);
  for (uint32_t k = 0; k < p->problem->kind_count; k++)
    for (uint32_t i = 0; i < p->problem->kinds[k].count; i++)
      if (p->problem->kinds[k].at[i].height <= p->area.height)
        all[n++] = p->problem->kinds[k].at[i].height;
  qsort(all, n, sizeof *all, by_value);
  size_t distinct = 1;
  for (size_t i = 1; i < n; i++)
    if (all[i] != all[distinct - 1]) all[distinct++] = all[i];
  uint64_t limit = WORK / (p->problem->count + 1);
  limit = limit < LEAST_HEIGHTS ? LEAST_HEIGHTS : limit > MOST_HEIGHTS ? MOST_HEIGHTS : limit;
  p->heights = all;
  p->height_count = (uint32_t)distinct;
  if (distinct > limit &&
      !p->problem
           ->every_height) { /* keep every so many-th, and the one that every item can live with */
    uint32_t least = least_height(p->problem);
    for (size_t i = 0; i < limit; i++) all[i] = all[i * (distinct - 1) / (limit - 1)];
    all[limit] = least;
    qsort(all, limit + 1, sizeof *all, by_value);
    p->height_count = (uint32_t)limit + 1;
  }
  return true;
}

static bool tabulate(packer *p, wafer_arena *arena) {
  p->widths = WAFER_NEW(arena, uint32_t, (size_t)p->problem->kind_count * p->height_count);
  if (!p->widths) return false;
  for (uint32_t k = 0; k < p->problem->kind_count; k++)
    for (uint32_t h = 0; h < p->height_count; h++) {
      const shelf_point *point = narrowest(&p->problem->kinds[k], p->heights[h]);
      p->widths[(size_t)k * p->height_count + h] = point ? point->width : NO_WAY;
    }
  return true;
}

/* ---- What is taken ---- */

/* The obstacle at or behind column x that a box at (x, y) would cover and that ends farthest to the
 * right: a dead core, reserved cores, a fixed item. */
static bool obstacle(const shelf_problem *p, wafer_rect box, wafer_rect *out) {
  const wafer_machine *m = p->machine;
  uint32_t far = 0;
  for (uint32_t i = 0; i < m->dead_count; i++) {
    wafer_rect d = {m->dead[i].x, m->dead[i].y, 1, 1};
    if (d.y >= box.y + box.height) break;
    if (wafer_rect_overlaps(box, d) && d.x + 1 > far) far = (*out = d).x + 1;
  }
  for (uint32_t i = 0; i < m->reserved_count + p->fixed_count; i++) {
    wafer_rect r = i < m->reserved_count ? m->reserved[i] : p->fixed[i - m->reserved_count];
    if (wafer_rect_overlaps(box, r) && r.x + r.width > far) far = (*out = r).x + r.width;
  }
  return far > 0;
}

static bool has_obstacles(const packer *p) {
  return p->problem->machine->dead_count || p->problem->machine->reserved_count ||
         p->problem->fixed_count;
}

/* Where an item of this width may start at or behind column x of a shelf; beyond the area: no room.
 */
static uint32_t step_over(const packer *p, uint32_t x, uint32_t y, uint32_t width,
                          uint32_t height) {
  while (x + (uint64_t)width <= p->area.width) {
    wafer_rect d;
    if (!obstacle(p->problem, (wafer_rect){p->area.x + x, p->area.y + y, width, height}, &d))
      return x;
    x = d.x + d.width - p->area.x;
  }
  return x;
}

/* ---- The programme ---- */

static uint32_t width_of(const packer *p, uint32_t item, uint32_t h) {
  return p->widths[(size_t)p->problem->kind[item] * p->height_count + h];
}

/* The first item that no longer fits a shelf of height number h that starts with `item` at row y.
 */
static uint32_t fill(const packer *p, uint32_t item, uint32_t y, uint32_t h) {
  uint32_t x = 0;
  bool holes = has_obstacles(p);
  for (; item < p->problem->count; item++) {
    uint32_t width = width_of(p, item, h);
    if (width == NO_WAY) break;
    if (holes) x = step_over(p, x, y, width, p->heights[h]);
    if (x + (uint64_t)width > p->area.width) break;
    x += width;
  }
  return item;
}

static void reach(packer *p, uint32_t item, uint32_t y, uint32_t h) {
  uint32_t end = fill(p, item, y, h), rows = y + p->heights[h];
  if (end == item || rows >= p->used[end]) return;
  p->used[end] = rows;
  p->from[end] = item;
  p->at[end] = y;
  p->chosen[end] = h;
}

/* Without obstacles the end of a shelf moves right as its start does: two pointers per height. */
typedef struct window {
  uint32_t end;
  uint64_t width;
} window;

static void slide(packer *p, window *windows, uint32_t item) {
  for (uint32_t h = 0; h < p->height_count; h++) {
    window *w = &windows[h];
    if (w->end < item) *w = (window){item, 0};
    while (w->end < p->problem->count && width_of(p, w->end, h) != NO_WAY &&
           w->width + width_of(p, w->end, h) <= p->area.width)
      w->width += width_of(p, w->end++, h);
    uint32_t end = w->end;
    if (end == item) continue;
    w->width -= width_of(p, item, h);
    if (p->used[item] == NO_WAY) continue;
    uint32_t rows = p->used[item] + p->heights[h];
    if (rows > p->area.height || rows >= p->used[end]) continue;
    p->used[end] = rows;
    p->from[end] = item;
    p->at[end] = p->used[item];
    p->chosen[end] = h;
  }
}

/* Rows that obstacles spoil for a shelf at y are skipped one obstacle at a time. */
static void step(packer *p, uint32_t item) {
  for (uint32_t h = 0; h < p->height_count; h++) {
    uint32_t y = p->used[item];
    for (int tries = 0; tries < 4 && y + p->heights[h] <= p->area.height; tries++) {
      reach(p, item, y, h);
      wafer_rect d;
      if (!obstacle(p->problem,
                    (wafer_rect){p->area.x, p->area.y + y, p->area.width, p->heights[h]}, &d))
        break;
      y = d.y + d.height - p->area.y;
    }
  }
}

static bool solve(packer *p, wafer_arena *arena) {
  window *windows = WAFER_NEW(arena, window, p->height_count);
  if (!windows) return false;
  memset(p->used, 0xff, ((size_t)p->problem->count + 1) * sizeof *p->used);
  p->used[0] = 0;
  for (uint32_t i = 0; i < p->problem->count; i++)
    if (!has_obstacles(p))
      slide(p, windows, i);
    else if (p->used[i] != NO_WAY)
      step(p, i);
  return true;
}

/* ---- From shelves to rectangles ---- */

/* Items of one shelf from left to right, centred on its middle row; mirrored when the snake runs
 * back. */
static void lay(const packer *p, uint32_t end, bool back, shelf_place *places) {
  uint32_t x = 0, y = p->at[end], height = p->heights[p->chosen[end]];
  bool holes = has_obstacles(p);
  uint32_t first = p->from[end], count = end - first;
  for (uint32_t n = 0; n < count; n++) {
    uint32_t item = first + n;
    const shelf_point *point = narrowest(&p->problem->kinds[p->problem->kind[item]], height);
    if (holes) x = step_over(p, x, y, point->width, height);
    places[item].index = point->index;
    places[item].rect = (wafer_rect){p->area.x + x, p->area.y + y + (height - point->height) / 2,
                                     point->width, point->height};
    if (back && !holes) places[item].rect.x = p->area.x + p->area.width - x - point->width;
    x += point->width;
  }
}

static void lay_all(const packer *p, shelf_place *places) {
  uint32_t shelves = 0;
  for (uint32_t end = p->problem->count; end > 0; end = p->from[end]) shelves++;
  for (uint32_t end = p->problem->count; end > 0; end = p->from[end])
    lay(p, end, --shelves % 2, places);
}

wafer_status shelf_pack(const wafer_diag *diag, wafer_arena *arena, const shelf_problem *problem,
                        shelf_place *places, bool *fits) {
  size_t n = (size_t)problem->count + 1;
  packer p = {.problem = problem,
              .area = problem->machine->usable,
              .used = WAFER_NEW(arena, uint32_t, n),
              .from = WAFER_NEW(arena, uint32_t, n),
              .at = WAFER_NEW(arena, uint32_t, n),
              .chosen = WAFER_NEW(arena, uint32_t, n)};
  *fits = false;
  bool ok = p.used && p.from && p.at && p.chosen && collect_heights(&p, arena) &&
            tabulate(&p, arena) && solve(&p, arena);
  if (!ok)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to place %u kernels",
                      problem->count);
  *fits = p.used[problem->count] != NO_WAY;
  if (*fits && places) lay_all(&p, places);
  return WAFER_OK;
}
