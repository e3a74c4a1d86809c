/* Slicing trees: a leaf is a kernel, an inner node a cut. Curves are held in two buffers per node,
 * so that a move that is refused costs nothing but a switch back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "placer.h"

bool tree_shape_init(tree_shape *s, const placer *in, wafer_arena *arena) {
  *s = (tree_shape){.nodes = WAFER_NEW(arena, node, 2 * in->p->count - 1)};
  return s->nodes != NULL;
}

bool tree_init(tree *t, const placer *in, curve_cache *cache, wafer_arena *arena) {
  uint32_t n = in->p->count, all = 2 * n - 1, room = placer_room(in);
  *t = (tree){.in = in, .cache = cache, .count = n, .penalty = in->penalty};
  t->curves = WAFER_NEW(arena, curve_pair, all);
  t->buffers = WAFER_NEW(arena, buffer_pair, all);
  t->boxes = WAFER_NEW(arena, box, all);
  t->centres = WAFER_NEW(arena, centre, n + in->p->terminal_count);
  t->shapes = WAFER_NEW(arena, uint32_t, n);
  t->stack = WAFER_NEW(arena, uint32_t, all + 1);
  t->mark = WAFER_NEW(arena, uint32_t, all);
  t->dirty = WAFER_NEW(arena, uint32_t, 4 * all);
  if (!tree_shape_init(&t->is, in, arena) || !t->curves || !t->buffers || !t->boxes ||
      !t->centres || !t->shapes || !t->stack || !t->mark || !t->dirty)
    return false;
  for (uint32_t i = 0; i < in->p->terminal_count; i++)
    t->centres[n + i] = (centre){in->p->terminals[i].x2, in->p->terminals[i].y2};
  for (uint32_t i = n; i < all; i++)
    for (int k = 0; k < 2; k++)
      if (!(t->buffers[i][k] = WAFER_NEW(arena, point, room))) return false;
  return true;
}

static void copy_shape(tree_shape *to, const tree_shape *from, uint32_t nodes) {
  memcpy(to->nodes, from->nodes, nodes * sizeof *to->nodes);
  to->root = from->root;
  to->level = from->level;
  to->root_width = from->root_width;
}

void tree_save(const tree *t, tree_shape *to) {
  copy_shape(to, &t->is, 2 * t->count - 1);
}

/* The buffers' present sides mean nothing without the curves: the saved ones are as good. */
void tree_load(tree *t, const tree_shape *from) {
  copy_shape(&t->is, from, 2 * t->count - 1);
  t->dirty_count = 0;
}

void tree_order(const tree_shape *s, uint32_t count, uint32_t *stack, uint32_t *order) {
  uint32_t depth = 0, n = 0;
  stack[depth++] = s->root;
  while (depth) {
    uint32_t i = stack[--depth];
    if (i < count) {
      order[n++] = i;
      continue;
    }
    stack[depth++] = s->nodes[i].child[1];
    stack[depth++] = s->nodes[i].child[0];
  }
}

static bool update_node(tree *t, uint32_t i) {
  node *at = &t->is.nodes[i];
  uint32_t a = at->child[0], b = at->child[1];
  uint8_t to = !at->active;
  curve ca = t->curves[a][t->is.nodes[a].active], cb = t->curves[b][t->is.nodes[b].active];
  uint32_t w = t->in->reach_w, h = t->in->reach_h;
  t->curves[i][to] = at->cut == CUT_BESIDE
                         ? curve_beside(ca, cb, w, h, t->buffers[i][to])
                         : curve_above(ca, cb, w, h, t->buffers[i][to], placer_room(t->in));
  at->active = to;
  t->dirty[t->dirty_count++] = i;
  return t->curves[i][to].count > 0;
}

static bool update_leaf(tree *t, uint32_t i) {
  const curve *c = curve_at(t->cache, t->in->p->kind[i], t->in->levels[t->is.level]);
  if (!c || !c->count) return false;
  t->is.nodes[i].active = !t->is.nodes[i].active;
  t->curves[i][t->is.nodes[i].active] = *c;
  t->dirty[t->dirty_count++] = i;
  return true;
}

bool tree_build(tree *t) {
  uint32_t depth = 0, order = 0, all = 2 * t->count - 1;
  for (uint32_t i = 0; i < t->count; i++)
    if (!update_leaf(t, i)) return false;
  uint32_t *pre = t->mark; /* parents before children */
  t->stack[depth++] = t->is.root;
  while (depth) {
    uint32_t i = t->stack[--depth];
    if (i < t->count) continue;
    pre[order++] = i;
    t->stack[depth++] = t->is.nodes[i].child[0];
    t->stack[depth++] = t->is.nodes[i].child[1];
  }
  bool ok = true;
  for (uint32_t k = order; k-- > 0 && ok;) ok = update_node(t, pre[k]);
  memset(t->mark, 0, all * sizeof *t->mark);
  t->stamp = 0;
  return ok;
}

bool tree_update(tree *t, uint32_t first, uint32_t second) {
  t->stamp++;
  for (uint32_t i = first; i != PLACER_NONE; i = t->is.nodes[i].parent) t->mark[i] = t->stamp;
  for (uint32_t i = second; i != PLACER_NONE && t->mark[i] != t->stamp; i = t->is.nodes[i].parent)
    if (i >= t->count && !update_node(t, i)) return false;
  for (uint32_t i = first; i != PLACER_NONE; i = t->is.nodes[i].parent)
    if (i >= t->count && !update_node(t, i)) return false;
  return true;
}

void tree_commit(tree *t) {
  t->dirty_count = 0;
}

void tree_revert(tree *t) {
  for (uint32_t k = t->dirty_count; k-- > 0;) {
    node *at = &t->is.nodes[t->dirty[k]];
    at->active = !at->active;
  }
  t->dirty_count = 0;
}

/* The root's point: the widest within the wanted width, if the wafer holds it; else the one that
 * sticks out least. */
static uint32_t root_point(const tree *t, curve c, uint32_t *over) {
  uint32_t best = 0, least = UINT32_MAX, width = t->in->p->width, height = t->in->p->height;
  for (uint32_t i = 0; i < c.count; i++) {
    uint32_t out =
        (c.at[i].w > width ? c.at[i].w - width : 0) + (c.at[i].h > height ? c.at[i].h - height : 0);
    if (out < least || (out == least && c.at[i].w <= t->is.root_width)) best = i, least = out;
    if (c.at[i].w > width && !least) break;
  }
  *over = least;
  return best;
}

/* Gives the children of a cut their shares; what is left over goes round the subtree. */
static void share(tree *t, uint32_t i) {
  const node *at = &t->is.nodes[i];
  const box *own = &t->boxes[i];
  point p = t->curves[i][at->active].at[own->point];
  uint32_t a = at->child[0], b = at->child[1];
  point pa = t->curves[a][t->is.nodes[a].active].at[p.a];
  point pb = t->curves[b][t->is.nodes[b].active].at[p.b];
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

/* The lowest shape of a parity within a share; PLACER_NONE: there is none. */
static uint32_t within(const curve *c, uint32_t w, uint32_t h) {
  uint32_t low = 0, high = c->count;
  while (low < high) { /* the first that is too wide */
    uint32_t mid = (low + high) / 2;
    if (c->at[mid].w > w)
      high = mid;
    else
      low = mid + 1;
  }
  return low && c->at[low - 1].h <= h ? low - 1 : PLACER_NONE;
}

/* Of the sides that differ from the share's by odd numbers, those that another shape within the
 * share has otherwise: such a shape stands in the middle, not half a core beside it. */
static point even_out(tree *t, uint32_t leaf, const box *share, uint32_t *which) {
  const curve *c = &t->curves[leaf][t->is.nodes[leaf].active];
  point p = c->at[share->point];
  uint32_t own = curve_parity(p.w, p.h), odd = own ^ curve_parity(share->w, share->h);
  *which = c->which[share->point];
  for (uint32_t flip = odd; flip; flip = (flip - 1) & odd) {
    const curve *part = leaf_part(t->cache, c, own ^ flip);
    uint32_t at = within(part, share->w, share->h);
    if (at == PLACER_NONE) continue;
    *which = part->which[at];
    return part->at[at];
  }
  return p;
}

static void settle(tree *t, uint32_t leaf) {
  box *b = &t->boxes[leaf];
  uint32_t which;
  point p = even_out(t, leaf, b, &which);
  *b = (box){b->x + (b->w - p.w) / 2, b->y + (b->h - p.h) / 2, p.w, p.h, which};
  uint32_t kind = t->in->p->kind[leaf], shape = which / 2;
  uint64_t time = t->cache->shapes[kind][shape].time;
  t->shapes[leaf] = t->cache->index[kind][shape];
  if (time > t->state.time) t->state.time = time;
  t->centres[leaf] = (centre){(int32_t)(2 * b->x + b->w), (int32_t)(2 * b->y + b->h)};
}

double tree_cost(const tree *t) {
  const wafer_placer_problem *p = t->in->p;
  return p->time_weight * (double)t->state.time + p->wire_weight * 0.5 * (double)t->state.wire2 +
         p->adapter_weight * t->state.adapters + t->penalty * t->state.over;
}

double tree_outline(tree *t) {
  curve c = t->curves[t->is.root][t->is.nodes[t->is.root].active];
  t->root_point = root_point(t, c, &t->state.over);
  return t->in->p->time_weight * (double)t->in->time_bound + t->penalty * t->state.over;
}

static uint64_t wire2(const tree *t) {
  const wafer_placer_problem *p = t->in->p;
  uint64_t sum = 0;
  for (uint32_t e = 0; e < p->edge_count; e++) {
    centre a = t->centres[p->edges[e].from], b = t->centres[p->edges[e].to];
    sum += (uint64_t)p->edges[e].weight * (uint32_t)(abs(a.x2 - b.x2) + abs(a.y2 - b.y2));
  }
  return sum;
}

static uint32_t adapters(const tree *t) {
  const wafer_placer_problem *p = t->in->p;
  uint32_t sum = 0;
  for (uint32_t e = 0; p->adapter_weight > 0 && e < p->edge_count; e++)
    if (placer_between(p, &p->edges[e]))
      sum +=
          placer_adapters(p, &p->edges[e], t->shapes[p->edges[e].from], t->shapes[p->edges[e].to]);
  return sum;
}

void tree_decode(tree *t) {
  uint32_t root = t->is.root, depth = 0;
  point p = t->curves[root][t->is.nodes[root].active].at[t->root_point];
  uint32_t w = t->in->p->width, h = t->in->p->height;
  t->boxes[root] = (box){0, 0, p.w > w ? p.w : w, p.h > h ? p.h : h, t->root_point};
  t->state.time = 0;
  t->stack[depth++] = root;
  while (depth) {
    uint32_t i = t->stack[--depth];
    if (i < t->count) {
      settle(t, i);
      continue;
    }
    share(t, i);
    t->stack[depth++] = t->is.nodes[i].child[0];
    t->stack[depth++] = t->is.nodes[i].child[1];
  }
  t->state.wire2 = wire2(t);
  t->state.adapters = adapters(t);
  t->state.cost = tree_cost(t);
}
