/* Layouts to start from: runs of an order of the kernels, each a stack of slats, and the stacks put
 * together. Few long stacks mean short wires, for a wire crosses a slat where it is thin; many fit
 * the wafer better. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "placer.h"

/* ---- Orders ---- */

static int64_t length_at(const placer *in, const uint32_t *where, uint32_t i) {
  int64_t sum = 0;
  for (uint32_t k = in->neighbour_at[i]; k < in->neighbour_at[i + 1]; k++)
    sum += llabs((int64_t)where[i] - where[in->neighbour[k]]);
  return sum;
}

static int64_t length_of(const placer *in, const uint32_t *where) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < in->p->count; i++) sum += length_at(in, where, i);
  return sum / 2;
}

static void exchange(uint32_t *order, uint32_t *where, uint32_t a, uint32_t b) {
  uint32_t i = order[a], k = order[b];
  order[a] = k, order[b] = i;
  where[k] = a, where[i] = b;
}

/* Kernels in a row, edges short: annealed by exchanges. Of a chain with long skips it makes a
 * folded one. */
static void shorten(const placer *in, rng *r, uint32_t *order, uint32_t *where) {
  uint32_t n = in->p->count;
  const uint32_t tries = 2000 * (n < 500 ? n : 500);
  for (uint32_t k = 0; k < tries; k++) {
    double temperature = n * pow(0.1 / n, (double)k / tries);
    uint32_t a = rng_below(r, n), b = a;
    if (rng_below(r, 2))
      b = rng_below(r, n);
    else if (in->neighbour_at[order[a]] < in->neighbour_at[order[a] + 1]) {
      uint32_t i = order[a], many = in->neighbour_at[i + 1] - in->neighbour_at[i];
      b = where[in->neighbour[in->neighbour_at[i] + rng_below(r, many)]];
      b = rng_below(r, 2) ? b + 1 < n ? b + 1 : b : b ? b - 1 : b;
    }
    if (a == b) continue;
    uint32_t i = order[a], j = order[b];
    int64_t before = length_at(in, where, i) + length_at(in, where, j);
    exchange(order, where, a, b);
    int64_t rise = length_at(in, where, i) + length_at(in, where, j) - before;
    if (rise > 0 && rng_unit(r) >= exp(-(double)rise / temperature)) exchange(order, where, a, b);
  }
}

typedef struct alike {
  uint64_t area;
  uint32_t kind, kernel;
} alike;

/* Equal kernels side by side, and beside those of nearly as many cores: few widths and heights
 * fill a rectangle without loss. */
static int by_area(const void *a, const void *b) {
  const alike *x = a, *y = b;
  if (x->area != y->area) return x->area < y->area ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

bool placer_orders(placer *in, uint64_t seed, wafer_arena *arena) {
  uint32_t n = in->p->count, *order[ORDERS];
  uint32_t *where = WAFER_NEW(arena, uint32_t, n);
  alike *sorted = WAFER_NEW(arena, alike, n);
  for (int k = 0; k < ORDERS; k++)
    if (!(order[k] = WAFER_NEW(arena, uint32_t, n))) return false;
  if (!where || !sorted) return false;
  rng r = {seed};
  for (uint32_t i = 0; i < n; i++) {
    order[ORDER_GIVEN][i] = order[ORDER_SHORT][i] = where[i] = i;
    sorted[i] = (alike){in->areas[i], in->p->kind[i], i};
  }
  int64_t before = length_of(in, where);
  shorten(in, &r, order[ORDER_SHORT], where);
  if (length_of(in, where) >= before) order[ORDER_SHORT] = order[ORDER_GIVEN];
  qsort(sorted, n, sizeof *sorted, by_area);
  for (uint32_t i = 0; i < n; i++) order[ORDER_ALIKE][i] = sorted[i].kernel;
  for (int k = 0; k < ORDERS; k++) in->orders[k] = order[k];
  return true;
}

/* ---- Trees ---- */

uint32_t tree_join(tree *t, uint32_t a, uint32_t b, uint8_t how, uint8_t turned, uint32_t *next) {
  uint32_t at = (*next)++;
  node *new = &t->is.nodes[at];
  new->child[0] = a, new->child[1] = b;
  new->cut = how, new->turned = turned;
  t->is.nodes[a].parent = t->is.nodes[b].parent = at;
  return at;
}

/* A balanced tree of one cut over items[0 .. n-1]; takes nodes from *next. */
static uint32_t stack(tree *t, const uint32_t *items, uint32_t n, uint8_t how, uint8_t turned,
                      uint32_t *next) {
  if (n == 1) return items[0];
  uint32_t a = stack(t, items, n / 2, how, turned, next);
  uint32_t b = stack(t, items + n / 2, n - n / 2, how, turned, next);
  return tree_join(t, a, b, how, turned, next);
}

void tree_finish(tree *t, uint32_t root) {
  for (uint32_t i = 0; i < t->count; i++)
    t->is.nodes[i].child[0] = t->is.nodes[i].child[1] = PLACER_NONE;
  t->is.root = root;
  t->is.nodes[root].parent = PLACER_NONE;
  t->dirty_count = 0;
}

void tree_shelves(tree *t, const uint32_t *order, uint32_t shelves) {
  const uint64_t *areas = t->in->areas;
  uint32_t n = t->count, next = n, from = 0, made = 0, *tops = t->dirty;
  uint64_t all = 0, area = 0;
  for (uint32_t i = 0; i < n; i++) all += areas[i];
  for (uint32_t i = 0; i < n; i++) {
    uint64_t own = areas[order[i]];
    area += own;
    if (i + 1 < n && (double)(area + own / 2) * shelves < (double)all * (made + 1)) continue;
    tops[made] = stack(t, order + from, i + 1 - from, CUT_BESIDE, made % 2, &next);
    made++;
    from = i + 1;
  }
  tree_finish(t, stack(t, tops, made, CUT_ABOVE, 0, &next));
}

/* Those of the row from first to last-1: the highest joint between them is cut last. */
static uint32_t together(tree *t, const stacks *s, const uint32_t *tops, uint32_t first,
                         uint32_t last, uint32_t *next) {
  if (last - first == 1) return tops[s->row[first].stack];
  uint32_t at = first;
  for (uint32_t k = first; k + 1 < last; k++)
    if (s->row[k].joint > s->row[at].joint) at = k;
  uint32_t a = together(t, s, tops, first, at + 1, next);
  uint32_t b = together(t, s, tops, at + 1, last, next);
  return tree_join(t, a, b, s->row[at].cut & 1, s->row[at].cut >> 1, next);
}

void tree_stacks(tree *t, const stacks *s) {
  uint32_t next = t->count, from = 0, *tops = t->dirty;
  const uint32_t *order = t->in->orders[s->order];
  for (uint32_t k = 0; k < s->count; k++) {
    uint32_t n = s->at[k].end - from, way = s->at[k].way;
    tops[k] = stack(t, order + from, n, way & 1, way >> 1, &next);
    from = s->at[k].end;
  }
  tree_finish(t, together(t, s, tops, 0, s->count, &next));
}

/* ---- From rectangles ---- */

typedef struct cutter {
  tree *t;
  const wafer_placed *at;
  uint32_t *items, next;
} cutter;

typedef struct item {
  uint32_t low, high, kernel;
} item;

static int by_low(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->low != y->low) return x->low < y->low ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

/* Sorts items along one direction; the place nearest the middle where a straight cut parts them, or
 * 0. */
static uint32_t find_cut(const cutter *c, uint32_t first, uint32_t n, uint8_t how, item *order) {
  uint32_t reach = 0, best = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = c->items[first + i];
    const wafer_placed *r = &c->at[k];
    order[i] =
        how == CUT_BESIDE ? (item){r->x, r->x + r->width, k} : (item){r->y, r->y + r->height, k};
  }
  qsort(order, n, sizeof *order, by_low);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t off = i > n / 2 ? i - n / 2 : n / 2 - i;
    uint32_t held = best > n / 2 ? best - n / 2 : n / 2 - best;
    if (i && order[i].low >= reach && (!best || off < held)) best = i;
    if (order[i].high > reach) reach = order[i].high;
  }
  return best;
}

static uint32_t cut_apart(cutter *c, uint32_t first, uint32_t n, item *order) {
  if (n == 1) return c->items[first];
  uint8_t how = CUT_ABOVE;
  uint32_t at = find_cut(c, first, n, how, order);
  if (!at) at = find_cut(c, first, n, how = CUT_BESIDE, order);
  if (!at) return PLACER_NONE;
  for (uint32_t i = 0; i < n; i++) c->items[first + i] = order[i].kernel;
  uint32_t a = cut_apart(c, first, at, order), b = cut_apart(c, first + at, n - at, order);
  return a == PLACER_NONE || b == PLACER_NONE ? PLACER_NONE
                                              : tree_join(c->t, a, b, how, 0, &c->next);
}

bool tree_from_layout(tree *t, const wafer_placed *at) {
  uint32_t n = t->count;
  item *order = calloc(n, sizeof *order);
  cutter c = {t, at, t->mark, n};
  if (!order) return false;
  for (uint32_t i = 0; i < n; i++) c.items[i] = i;
  uint32_t root = cut_apart(&c, 0, n, order);
  memset(t->mark, 0, n * sizeof *t->mark);
  free(order);
  if (root != PLACER_NONE) tree_finish(t, root);
  return root != PLACER_NONE;
}

/* ---- Stacks, changed ---- */

static uint32_t joint_of(rng *r) {
  return (uint32_t)rng_next(r);
}

static uint32_t place_of(const stacks *s, uint32_t k) {
  uint32_t at = 0;
  while (s->row[at].stack != k) at++;
  return at;
}

/* Another end of stack k; false when there is no room for it. */
static bool split(stacks *s, rng *r, uint32_t k) {
  uint32_t from = k ? s->at[k - 1].end : 0, many = s->at[k].end - from, at = place_of(s, k);
  if (many < 2 || s->count == PLACER_MOST_STACKS) return false;
  memmove(s->at + k + 1, s->at + k, (s->count - k) * sizeof *s->at);
  memmove(s->row + at + 1, s->row + at, (s->count - at) * sizeof *s->row);
  s->count++;
  for (uint32_t i = 0; i < s->count; i++) s->row[i].stack += s->row[i].stack > k;
  s->row[at + 1].stack = k + 1;
  s->at[k].end = from + 1 + rng_below(r, many - 1);
  s->row[at].joint = joint_of(r);
  s->row[at].cut = rng_below(r, 4);
  if (rng_below(r, 2)) s->at[k].way = rng_below(r, 4);
  return true;
}

void stacks_random(stacks *s, rng *r, uint32_t count, uint32_t most) {
  s->order = rng_below(r, SHORT_ORDERS);
  s->mixed = rng_below(r, 2);
  s->count = 1;
  s->at[0].end = count;
  s->at[0].way = rng_below(r, 4);
  s->row[0].stack = 0;
  for (uint32_t k = rng_below(r, most); k > 0; k--) split(s, r, rng_below(r, s->count));
}

static bool shift(stacks *s, rng *r, uint32_t k) {
  if (k + 1 == s->count) return false;
  uint32_t low = k ? s->at[k - 1].end + 1 : 1, high = s->at[k + 1].end;
  if (high - low < 2) return false;
  uint32_t span = 1 + (high - low) / 8, by = 1 + rng_below(r, rng_below(r, 2) ? span : 2);
  uint32_t end = s->at[k].end;
  if (rng_below(r, 2))
    end = end + by < high ? end + by : high - 1;
  else
    end = end >= low + by ? end - by : low;
  if (end == s->at[k].end) return false;
  s->at[k].end = end;
  return true;
}

/* Stack k and the next are one, where the next stands. */
static bool merge(stacks *s, uint32_t k) {
  if (k + 1 == s->count) return false;
  uint32_t at = place_of(s, k);
  s->count--;
  memmove(s->at + k, s->at + k + 1, (s->count - k) * sizeof *s->at);
  memmove(s->row + at, s->row + at + 1, (s->count - at) * sizeof *s->row);
  for (uint32_t i = 0; i < s->count; i++) s->row[i].stack -= s->row[i].stack > k;
  return true;
}

/* Two stacks of the row change places: what follows in the order need not be cut off next. */
static bool reseat(stacks *s, rng *r, uint32_t a) {
  uint32_t b = rng_below(r, 2) ? a + 1 : rng_below(r, s->count), moved = s->row[a].stack;
  if (!s->mixed || b >= s->count || a == b) return false;
  s->row[a].stack = s->row[b].stack;
  s->row[b].stack = moved;
  return true;
}

void stacks_change(stacks *s, rng *r) {
  for (uint32_t tries = 0; tries < 8; tries++) {
    uint32_t k = rng_below(r, s->count), pick = rng_below(r, 100);
    if (pick < 35 && shift(s, r, k)) return;
    if (pick >= 35 && pick < 50) {
      s->at[k].way ^= 1 + rng_below(r, 3);
      return;
    }
    if (pick >= 50 && pick < 63 && k + 1 < s->count) {
      s->row[k].cut ^= 1 + rng_below(r, 3);
      return;
    }
    if (pick >= 63 && pick < 72 && k + 1 < s->count) {
      s->row[k].joint = joint_of(r);
      return;
    }
    if (pick >= 72 && pick < 81 && reseat(s, r, k)) return;
    if (pick >= 81 && pick < 90 && split(s, r, k)) return;
    if (pick >= 90 && merge(s, k)) return;
  }
}
