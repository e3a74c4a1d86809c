/* Slicing trees: a leaf is a kernel, an inner node a cut. Curves are held in two buffers per node, so
 * that a move that is refused costs nothing but a switch back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "placer.h"

bool tree_init(tree *t, const placer *in, curve_cache *cache, wafer_arena *arena) {
  uint32_t n = in->p->count, all = 2 * n - 1;
  *t = (tree){.in = in, .cache = cache, .count = n, .root = all - 1, .penalty = in->penalty};
  t->nodes = WAFER_NEW(arena, node, all);
  t->curves = WAFER_NEW(arena, curve_pair, all);
  t->buffers = WAFER_NEW(arena, buffer_pair, all);
  t->boxes = WAFER_NEW(arena, box, all);
  t->stack = WAFER_NEW(arena, uint32_t, all + 1);
  t->mark = WAFER_NEW(arena, uint32_t, all);
  t->dirty = WAFER_NEW(arena, uint32_t, 4 * all);
  if (!t->nodes || !t->curves || !t->buffers || !t->boxes || !t->stack || !t->mark || !t->dirty)
    return false;
  uint32_t most = (in->reach_w > in->reach_h ? in->reach_w : in->reach_h) + 1;
  for (uint32_t i = n; i < all; i++)
    for (int k = 0; k < 2; k++)
      if (!(t->buffers[i][k] = WAFER_NEW(arena, point, most))) return false;
  return true;
}

void tree_copy_shape(tree *to, const tree *from) {
  for (uint32_t i = 0; i < 2 * to->count - 1; i++) {
    uint8_t active = to->nodes[i].active;
    to->nodes[i] = from->nodes[i];
    to->nodes[i].active = active;
  }
  to->root = from->root;
  to->level = from->level;
  to->root_width = from->root_width;
}

/* A balanced tree of one cut over items[0 .. n-1]; takes nodes from *next. */
static uint32_t balanced(tree *t, const uint32_t *items, uint32_t n, cut how, uint32_t *next) {
  if (n == 1) return items[0];
  uint32_t a = balanced(t, items, n / 2, how, next);
  uint32_t b = balanced(t, items + n / 2, n - n / 2, how, next);
  uint32_t at = (*next)++;
  t->nodes[at].child[0] = a;
  t->nodes[at].child[1] = b;
  t->nodes[at].cut = (uint8_t)how;
  t->nodes[at].turned = 0;
  t->nodes[a].parent = t->nodes[b].parent = at;
  return at;
}

static uint64_t least_area(const curve *c) {
  uint64_t best = UINT64_MAX;
  for (uint32_t i = 0; i < c->count; i++) {
    uint64_t area = (uint64_t)c->at[i].w * c->at[i].h;
    if (area < best) best = area;
  }
  return best == UINT64_MAX ? 1 : best;
}

void tree_shelves(tree *t, const uint32_t *order, uint32_t shelves) {
  uint32_t n = t->count, next = n, from = 0, made = 0;
  uint32_t *run = t->stack, *tops = t->dirty; /* scratch of the right size */
  uint64_t all = 0, area = 0;
  for (uint32_t i = 0; i < 2 * n - 1; i++)
    t->nodes[i].child[0] = t->nodes[i].child[1] = PLACER_NONE;
  uint64_t time = t->in->levels[t->level];
  for (uint32_t i = 0; i < n; i++)
    all += least_area(curve_at(t->cache, t->in->p->kind[i], time));
  for (uint32_t i = 0; i < n; i++) {
    uint64_t own = least_area(curve_at(t->cache, t->in->p->kind[order[i]], time));
    area += own;
    bool last = i + 1 == n;
    if (!last && (double)(area + own / 2) * shelves < (double)all * (made + 1)) continue;
    for (uint32_t k = from; k <= i; k++) run[k - from] = order[made % 2 ? i + from - k : k];
    tops[made++] = balanced(t, run, i + 1 - from, CUT_BESIDE, &next);
    from = i + 1;
  }
  t->root = balanced(t, tops, made, CUT_ABOVE, &next);
  t->nodes[t->root].parent = PLACER_NONE;
  t->dirty_count = 0;
}

static bool update_node(tree *t, uint32_t i) {
  node *at = &t->nodes[i];
  uint32_t a = at->child[0], b = at->child[1];
  uint8_t to = !at->active;
  uint32_t n = (at->cut == CUT_BESIDE ? curve_beside : curve_above)(
      t->curves[a][t->nodes[a].active], t->curves[b][t->nodes[b].active], t->in->reach_w,
      t->in->reach_h, t->buffers[i][to]);
  t->curves[i][to] = (curve){n, t->buffers[i][to]};
  at->active = to;
  t->dirty[t->dirty_count++] = i;
  return n > 0;
}

static bool update_leaf(tree *t, uint32_t i) {
  const curve *c = curve_at(t->cache, t->in->p->kind[i], t->in->levels[t->level]);
  if (!c || !c->count) return false;
  t->nodes[i].active = !t->nodes[i].active;
  t->curves[i][t->nodes[i].active] = *c;
  t->dirty[t->dirty_count++] = i;
  return true;
}

bool tree_build(tree *t) {
  uint32_t depth = 0, order = 0, all = 2 * t->count - 1;
  for (uint32_t i = 0; i < t->count; i++)
    if (!update_leaf(t, i)) return false;
  uint32_t *pre = t->mark; /* parents before children */
  t->stack[depth++] = t->root;
  while (depth) {
    uint32_t i = t->stack[--depth];
    if (i < t->count) continue;
    pre[order++] = i;
    t->stack[depth++] = t->nodes[i].child[0];
    t->stack[depth++] = t->nodes[i].child[1];
  }
  bool ok = true;
  for (uint32_t k = order; k-- > 0 && ok;) ok = update_node(t, pre[k]);
  memset(t->mark, 0, all * sizeof *t->mark);
  t->stamp = 0;
  return ok;
}

bool tree_update(tree *t, uint32_t first, uint32_t second) {
  t->stamp++;
  for (uint32_t i = first; i != PLACER_NONE; i = t->nodes[i].parent) t->mark[i] = t->stamp;
  for (uint32_t i = second; i != PLACER_NONE && t->mark[i] != t->stamp; i = t->nodes[i].parent)
    if (i >= t->count && !update_node(t, i)) return false;
  for (uint32_t i = first; i != PLACER_NONE; i = t->nodes[i].parent)
    if (i >= t->count && !update_node(t, i)) return false;
  return true;
}

void tree_commit(tree *t) { t->dirty_count = 0; }

void tree_revert(tree *t) {
  for (uint32_t k = t->dirty_count; k-- > 0;) {
    node *at = &t->nodes[t->dirty[k]];
    at->active = !at->active;
  }
  t->dirty_count = 0;
}

/* The root's point: the widest within the wanted width, if the wafer holds it; else the one that
 * sticks out least. */
static uint32_t root_point(const tree *t, curve c, uint32_t *over) {
  uint32_t best = 0, least = UINT32_MAX, width = t->in->p->width, height = t->in->p->height;
  for (uint32_t i = 0; i < c.count; i++) {
    uint32_t out = (c.at[i].w > width ? c.at[i].w - width : 0) +
                   (c.at[i].h > height ? c.at[i].h - height : 0);
    if (out < least || (out == least && c.at[i].w <= t->root_width)) best = i, least = out;
    if (c.at[i].w > width && !least) break;
  }
  *over = least;
  return best;
}

/* Gives the children of a cut their shares; what is left over goes round the subtree. */
static void share(tree *t, uint32_t i) {
  const node *at = &t->nodes[i];
  const box *own = &t->boxes[i];
  point p = t->curves[i][at->active].at[own->point];
  uint32_t a = at->child[0], b = at->child[1];
  point pa = t->curves[a][t->nodes[a].active].at[p.a];
  point pb = t->curves[b][t->nodes[b].active].at[p.b];
  if (at->cut == CUT_BESIDE) {
    uint32_t x = own->x + (own->w - p.w) / 2;
    t->boxes[a] = (box){at->turned ? x + pb.w : x, own->y, pa.w, own->h, p.a};
    t->boxes[b] = (box){at->turned ? x : x + pa.w, own->y, pb.w, own->h, p.b};
  } else {
    uint32_t y = own->y + (own->h - p.h) / 2;
    t->boxes[a] = (box){own->x, at->turned ? y + pb.h : y, own->w, pa.h, p.a};
    t->boxes[b] = (box){own->x, at->turned ? y : y + pa.h, own->w, pb.h, p.b};
  }
}

static void settle(tree *t, uint32_t leaf) {
  box *b = &t->boxes[leaf];
  point p = t->curves[leaf][t->nodes[leaf].active].at[b->point];
  *b = (box){b->x + (b->w - p.w) / 2, b->y + (b->h - p.h) / 2, p.w, p.h, b->point};
  uint64_t time = t->cache->shapes[t->in->p->kind[leaf]][p.a].time;
  if (time > t->time) t->time = time;
}

static uint32_t apart(const box *a, const box *b) {
  int32_t x = (int32_t)(2 * a->x + a->w) - (int32_t)(2 * b->x + b->w);
  int32_t y = (int32_t)(2 * a->y + a->h) - (int32_t)(2 * b->y + b->h);
  return (uint32_t)(abs(x) + abs(y));
}

double tree_cost(const tree *t) {
  const wafer_placer_problem *p = t->in->p;
  return p->time_weight * (double)t->time + p->wire_weight * 0.5 * (double)t->wire2 +
         t->penalty * t->over;
}

void tree_decode(tree *t) {
  const wafer_placer_problem *p = t->in->p;
  curve c = t->curves[t->root][t->nodes[t->root].active];
  uint32_t at = root_point(t, c, &t->over), depth = 0;
  t->boxes[t->root] = (box){0, 0, c.at[at].w, c.at[at].h, at};
  t->time = 0;
  t->stack[depth++] = t->root;
  while (depth) {
    uint32_t i = t->stack[--depth];
    if (i < t->count) {
      settle(t, i);
      continue;
    }
    share(t, i);
    t->stack[depth++] = t->nodes[i].child[0];
    t->stack[depth++] = t->nodes[i].child[1];
  }
  t->wire2 = 0;
  for (uint32_t e = 0; e < p->edge_count; e++)
    t->wire2 += (uint64_t)p->edges[e].weight *
                apart(&t->boxes[p->edges[e].from], &t->boxes[p->edges[e].to]);
  t->cost = tree_cost(t);
}
