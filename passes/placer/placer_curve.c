/* Shape curves: a kernel's at a time, and those of two rectangles beside or above each other. */
#include <stdlib.h>
#include <string.h>

#include "placer.h"

typedef struct sorted {
  uint64_t time, area;
  uint32_t index;
} sorted;

static int by_time(const void *a, const void *b) {
  const sorted *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->area != y->area) return x->area < y->area ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static sorted sort_key(const wafer_placer_shape *s, uint32_t index) {
  return (sorted){s->time, (uint64_t)s->width * s->height, index};
}

/* Those that no other covers, however odd its sides. Shapes come by time, then area. */
static void find_open(curve_cache *c, uint32_t kind, uint32_t count) {
  uint32_t side = c->in->reach_w > c->in->reach_h ? c->in->reach_w : c->in->reach_h, n = 0;
  uint32_t *least = c->least; /* height of what is at most this wide */
  for (uint32_t w = 0; w <= side; w++) least[w] = UINT32_MAX;
  for (uint32_t i = 0; i < count; i++) {
    const wafer_placer_shape *s = &c->shapes[kind][i];
    if (s->width > side || s->height > side || least[s->width] <= s->height) continue;
    c->open[kind][n++] = i;
    for (uint32_t w = s->width; w <= side && least[w] > s->height; w++) least[w] = s->height;
    for (uint32_t w = s->height; c->in->p->turns && w <= side && least[w] > s->width; w++)
      least[w] = s->width;
  }
  c->open[kind][n] = count;
}

/* Where curves change: after the last shape of each time at which one is open. */
static void find_ends(curve_cache *c, uint32_t kind, uint32_t count) {
  const wafer_placer_shape *s = c->shapes[kind];
  uint32_t n = 0;
  for (const uint32_t *at = c->open[kind]; *at < count; at++) {
    uint32_t end = *at + 1;
    while (end < count && s[end].time == s[*at].time) end++;
    if (!n || c->ends[kind][n - 1] != end) c->ends[kind][n++] = end;
  }
  c->end_count[kind] = n;
}

/* One kind: its shapes, sorted by time. */
static bool init_kind(curve_cache *c, uint32_t kind) {
  const wafer_placer_shapes *from = &c->in->p->kinds[kind];
  sorted *order = calloc(from->count + 1, sizeof *order);
  c->shapes[kind] = WAFER_NEW(c->arena, wafer_placer_shape, from->count);
  c->index[kind] = WAFER_NEW(c->arena, uint32_t, from->count);
  c->ends[kind] = WAFER_NEW(c->arena, uint32_t, from->count);
  c->curves[kind] = WAFER_NEW(c->arena, curve, from->count);
  c->open[kind] = WAFER_NEW(c->arena, uint32_t, from->count + 1);
  bool ok = order && c->open[kind] && c->shapes[kind] && c->index[kind] && c->ends[kind] &&
            c->curves[kind];
  if (ok) {
    for (uint32_t i = 0; i < from->count; i++) order[i] = sort_key(&from->at[i], i);
    qsort(order, from->count, sizeof *order, by_time);
    for (uint32_t i = 0; i < from->count; i++) {
      c->shapes[kind][i] = from->at[order[i].index];
      c->index[kind][i] = order[i].index;
    }
    find_open(c, kind, from->count);
    find_ends(c, kind, from->count);
  }
  free(order);
  return ok;
}

bool curve_cache_init(curve_cache *c, const placer *in, wafer_arena *arena) {
  uint32_t kinds = in->p->kind_count;
  uint32_t side = in->reach_w > in->reach_h ? in->reach_w : in->reach_h;
  *c = (curve_cache){.in = in,
                     .arena = arena,
                     .ends = WAFER_NEW(arena, uint32_t *, kinds),
                     .end_count = WAFER_NEW(arena, uint32_t, kinds),
                     .curves = WAFER_NEW(arena, curve *, kinds),
                     .shapes = WAFER_NEW(arena, wafer_placer_shape *, kinds),
                     .index = WAFER_NEW(arena, uint32_t *, kinds),
                     .open = WAFER_NEW(arena, uint32_t *, kinds),
                     .least = WAFER_NEW(arena, uint32_t, side + 1),
                     .which = WAFER_NEW(arena, uint32_t, side + 1)};
  if (!c->ends || !c->end_count || !c->curves || !c->shapes || !c->index || !c->open || !c->least ||
      !c->which)
    return false;
  for (uint32_t k = 0; k < kinds; k++)
    if (!init_kind(c, k)) return false;
  return true;
}

#define ANY 4u /* parity */

static void offer(curve_cache *c, uint32_t parity, uint32_t w, uint32_t h, uint32_t which) {
  if (parity != ANY && curve_parity(w, h) != parity) return;
  if (w > c->in->reach_w || h > c->in->reach_h || h >= c->least[w]) return;
  c->least[w] = h;
  c->which[w] = which;
}

/* The shapes of one parity that no other of them covers. */
static bool make_part(curve_cache *c, uint32_t kind, uint32_t end, uint32_t parity, curve *out) {
  const uint32_t *open = c->open[kind];
  for (uint32_t w = 0; w <= c->in->reach_w; w++) c->least[w] = UINT32_MAX;
  for (uint32_t k = 0;; k++) {
    uint32_t i = parity == ANY ? open[k] : k;
    if (i >= end) break;
    const wafer_placer_shape *s = &c->shapes[kind][i];
    offer(c, parity, s->width, s->height, 2 * i);
    if (c->in->p->turns) offer(c, parity, s->height, s->width, 2 * i + 1);
  }
  uint32_t n = 0, low = UINT32_MAX;
  for (uint32_t w = 0; w <= c->in->reach_w; w++)
    if (c->least[w] < low) low = c->least[w], n++;
  point *at = WAFER_NEW(c->arena, point, n);
  uint32_t *which = WAFER_NEW(c->arena, uint32_t, n);
  if (!at || !which) return false;
  *out = (curve){.count = n, .at = at, .which = which};
  low = UINT32_MAX;
  for (uint32_t w = 0; w <= c->in->reach_w; w++)
    if (c->least[w] < low) {
      low = c->least[w];
      *at++ = (point){.w = (uint16_t)w, .h = (uint16_t)low};
      *which++ = c->which[w];
    }
  return true;
}

static bool make_curve(curve_cache *c, uint32_t kind, uint32_t end, curve *out) {
  curve_parts *parts = WAFER_NEW(c->arena, curve_parts, 1);
  if (!parts || !make_part(c, kind, end, ANY, out)) return false;
  *parts = (curve_parts){.kind = kind, .end = end};
  out->parts = parts;
  return true;
}

const curve *leaf_part(curve_cache *c, const curve *leaf, uint32_t parity) {
  static const curve empty;
  curve *part = &leaf->parts->part[parity];
  if (!part->at && !make_part(c, leaf->parts->kind, leaf->parts->end, parity, part)) return &empty;
  return part;
}

const curve *curve_at(curve_cache *c, uint32_t kind, uint64_t time) {
  static const curve empty;
  uint32_t low = 0, high = c->end_count[kind];
  while (low < high) { /* the first end whose time is too long */
    uint32_t mid = (low + high) / 2;
    if (c->shapes[kind][c->ends[kind][mid] - 1].time <= time)
      low = mid + 1;
    else
      high = mid;
  }
  if (!low) return &empty;
  curve *made = &c->curves[kind][low - 1];
  if (!made->at && !make_curve(c, kind, c->ends[kind][low - 1], made)) return NULL;
  return made;
}

/* Walks down both curves from the highest points: the higher one must give way. */
curve curve_beside(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out) {
  uint32_t i = 0, j = 0, n = 0;
  while (i < a.count && a.at[i].h > reach_h) i++;
  while (j < b.count && b.at[j].h > reach_h) j++;
  while (i < a.count && j < b.count) {
    uint32_t w = (uint32_t)a.at[i].w + b.at[j].w, ha = a.at[i].h, hb = b.at[j].h;
    if (w > reach_w) break;
    out[n++] = (point){(uint16_t)w, (uint16_t)(ha > hb ? ha : hb), (uint16_t)i, (uint16_t)j};
    i += ha >= hb;
    j += hb >= ha;
  }
  return (curve){.count = n, .at = out};
}

/* The same from the widest points, written from the end. */
curve curve_above(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out, uint32_t room) {
  uint32_t i = a.count, j = b.count, n = room;
  while (i && a.at[i - 1].w > reach_w) i--;
  while (j && b.at[j - 1].w > reach_w) j--;
  while (i && j) {
    uint32_t h = (uint32_t)a.at[i - 1].h + b.at[j - 1].h, wa = a.at[i - 1].w, wb = b.at[j - 1].w;
    if (h > reach_h) break;
    out[--n] =
        (point){(uint16_t)(wa > wb ? wa : wb), (uint16_t)h, (uint16_t)(i - 1), (uint16_t)(j - 1)};
    i -= wa >= wb;
    j -= wb >= wa;
  }
  return (curve){.count = room - n, .at = out + n};
}

/* Shapes come by time, then area: one is covered when an earlier one is inside of it. */
bool wafer_placer_pareto(uint32_t *count, wafer_placer_shape *shapes, uint32_t width,
                         uint32_t height, bool turns, wafer_arena *arena) {
  uint32_t all = *count, side = width > height ? width : height, n = 0;
  sorted *order = calloc(all + 1, sizeof *order);
  wafer_placer_shape *copy = WAFER_NEW(arena, wafer_placer_shape, all);
  uint32_t *least = malloc(4 * (side + 2) * sizeof *least); /* least height at most this wide */
  if (!order || !copy || !least) {
    free(order);
    free(least);
    return false;
  }
  for (uint32_t w = 0; w < 4 * (side + 2); w++) least[w] = UINT32_MAX;
  for (uint32_t i = 0; i < all; i++) order[i] = sort_key(&shapes[i], i), copy[i] = shapes[i];
  qsort(order, all, sizeof *order, by_time);
  for (uint32_t i = 0; i < all; i++) {
    const wafer_placer_shape *s = &copy[order[i].index];
    bool fits = (s->width <= width && s->height <= height) ||
                (turns && s->height <= width && s->width <= height);
    uint32_t *own = least + (side + 2) * (s->width % 2 + 2 * (s->height % 2));
    uint32_t *laid = least + (side + 2) * (s->height % 2 + 2 * (s->width % 2));
    if (!fits || own[s->width] <= s->height) continue;
    shapes[n++] = *s;
    for (uint32_t w = s->width; w <= side && own[w] > s->height; w++) own[w] = s->height;
    for (uint32_t w = s->height; turns && w <= side && laid[w] > s->width; w++) laid[w] = s->width;
  }
  free(order);
  free(least);
  *count = n;
  return true;
}
