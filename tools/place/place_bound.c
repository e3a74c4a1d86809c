/* A bound for scores that count adapters: no layout of a contest file is below it.
 *
 * Let T be the time of a layout. Its score is at least T's and what each kernel adds by itself:
 * half its shorter side for every edge (neighbours touch at best), and the price of its cores, for
 * all areas together are the wafer's at most (weak duality: every price gives a bound); and
 * adapters, one at least where a producer's last k is not its consumer's first c. Along a forest of
 * the edges the least of all this is exact, a table per edge: what a subtree comes to for each
 * number at its parent's end. Adapters of other edges count nothing. Splits may be any that keep T,
 * not only those of shape curves (h, w, c and k are at most what they divide): a filter that
 * matches may be worth columns or rows.
 *
 * Times are cut into windows: none of a window's layouts is faster than its first time, nor has
 * splits slower than its last. The window with the lowest bound is cut in two until it is narrow,
 * so the lowest is a bound at any moment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define NONE UINT32_MAX
#define STEP 1.001 /* a window this narrow is not cut */
#define MOST_WINDOWS 256
#define MOST_PRICES 6 /* tried in a window */

/* The least cost of a subtree, and the cores that its kernels take then. */
typedef struct least {
  double cost, area;
} least;

typedef struct node {
  uint32_t parent; /* NONE: a root */
  bool gives;      /* to its parent, else it takes */
  uint32_t degree; /* edges of the forest */
  double pull;     /* half the wire's weight of all edges */
  least *in, *out; /* what the subtrees below come to, for each c and for each k */
} node;

typedef struct pricing {
  const contest_job *j;
  double until; /* 0: any time */
  const contest_divisions **kinds;
  contest_ways *now; /* of each kind, at the time looked at */
  node *nodes;
  uint32_t *order;   /* parents first */
  uint32_t keys;     /* c and k are below */
  least *up;         /* scratch: for each number at the parent's end */
  contest_way *kept; /* scratch: ways worth looking at */
  uint32_t kept_room;
} pricing;

static bool late(const pricing *b) {
  return b->until > 0 && cli_seconds() > b->until;
}

static double own_cost(const node *n, double price, uint32_t width, uint32_t height) {
  return price * width * height + n->pull * (width < height ? width : height);
}

/* Ways that cost less than adapters on all edges of the node would save. */
static uint32_t keep(pricing *b, const node *n, const contest_ways *from, double price) {
  double low = INFINITY;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < from->count; i++)
    low = fmin(low, own_cost(n, price, from->at[i].width, from->at[i].height));
  double most = low + (double)b->j->contest.wadapter * n->degree;
  for (uint32_t i = 0; i < from->count; i++)
    if (own_cost(n, price, from->at[i].width, from->at[i].height) <= most)
      b->kept[kept++] = from->at[i];
  return kept;
}

static void offer(least *to, double cost, double area) {
  if (cost < to->cost) *to = (least){cost, area};
}

/* All ways of a node, with what is below: the least of each number at the parent's end in `up`,
 * and the least of all. */
static least weigh(pricing *b, const node *n, uint32_t count, double price) {
  double adapter = (double)b->j->contest.wadapter;
  least any = {INFINITY, 0};
  double below = INFINITY; /* the consumers' at least */
  for (uint32_t k = 0; k < b->keys; k++) {
    b->up[k].cost = INFINITY;
    below = fmin(below, n->out[k].cost);
  }
  for (uint32_t i = 0; i < count; i++) {
    contest_way e = b->kept[i];
    for (; e.out < b->keys && contest_fits(&b->j->contest, e.width, e.height);
         e.out++, e.width += 3) {
      double cost = own_cost(n, price, e.width, e.height) + n->in[e.in].cost;
      if (cost + below > any.cost + adapter) break; /* an adapter is cheaper */
      double area = (double)e.width * e.height + n->in[e.in].area + n->out[e.out].area;
      cost += n->out[e.out].cost;
      offer(&any, cost, area);
      offer(&b->up[n->gives ? e.out : e.in], cost, area);
    }
  }
  return any;
}

static void add(least *to, const least *from) {
  to->cost += from->cost;
  to->area += from->area;
}

/* The Lagrangian at this price; *slope: cores wanted beyond those there are. */
static double lagrangian(pricing *b, double price, double *slope) {
  uint32_t n = b->j->contest.count;
  double cores = (double)b->j->contest.width * b->j->contest.height;
  least all = {0};
  for (uint32_t i = 0; i < n; i++) {
    memset(b->nodes[i].in, 0, b->keys * sizeof(least));
    memset(b->nodes[i].out, 0, b->keys * sizeof(least));
  }
  for (uint32_t k = n; k-- > 0;) {
    const node *at = &b->nodes[b->order[k]];
    uint32_t count = keep(b, at, &b->now[b->j->problem.kind[b->order[k]]], price);
    least any = weigh(b, at, count, price);
    if (at->parent == NONE) {
      add(&all, &any);
      continue;
    }
    node *parent = &b->nodes[at->parent];
    least *to = at->gives ? parent->in : parent->out;
    for (uint32_t c = 0; c < b->keys; c++) {
      offer(&b->up[c], any.cost + (double)b->j->contest.wadapter, any.area);
      add(&to[c], &b->up[c]);
    }
  }
  *slope = all.area - cores;
  return all.cost - price * cores;
}

typedef struct tangent {
  double at, value, slope;
} tangent;

/* The highest Lagrangian over prices, which is concave: where the tangents of both sides meet is
 * tried next. Starts at *price, leaves the best there. */
static double best_price(pricing *b, double *price) {
  tangent low = {0}, high = {.at = INFINITY};
  double best = -INFINITY, at = *price;
  for (int k = 0; k < MOST_PRICES && (!k || !late(b)); k++) {
    tangent t = {.at = at};
    t.value = lagrangian(b, at, &t.slope);
    if (t.value > best) best = t.value, *price = at;
    if (t.slope > 0)
      low = t;
    else
      high = t;
    if (high.at == INFINITY || low.slope == 0) {
      at = high.at == INFINITY ? 2 * at : at / 2;
      continue;
    }
    at = (high.value - low.value + low.slope * low.at - high.slope * high.at) /
         (low.slope - high.slope);
    if (low.value + low.slope * (at - low.at) <= best * (1 + 1e-4)) break;
  }
  return best;
}

typedef struct window {
  double first, last; /* times */
  double value, price;
} window;

static bool list_ways(pricing *b, uint64_t time) {
  for (uint32_t k = 0; k < b->j->problem.kind_count && !late(b); k++) {
    if (!contest_list_ways(b->kinds[k], time, &b->now[k])) return false;
    if (b->now[k].count <= b->kept_room) continue;
    free(b->kept);
    b->kept_room = b->now[k].room;
    if (!(b->kept = malloc(b->kept_room * sizeof *b->kept))) return false;
  }
  return true;
}

/* Raises the window's value, if there is time. */
static bool look(pricing *b, window *w) {
  if (!list_ways(b, (uint64_t)w->last)) return false;
  if (late(b)) return true;
  double value = b->j->problem.time_weight * w->first + best_price(b, &w->price);
  if (value > w->value) w->value = value;
  return true;
}

/* *bound, the score of some layout, becomes a score that none is below. */
static bool search(pricing *b, double *bound) {
  const wafer_placement *found = &b->j->placement;
  const contest *c = &b->j->contest;
  double weight = b->j->problem.time_weight, first = (double)found->time_bound;
  double price = 0.2 * found->score_bound / ((double)c->width * c->height);
  window w[MOST_WINDOWS] = {{first, fmin(*bound / weight, 1e18), weight * first, price}};
  for (uint32_t n = 1;; n++) {
    uint32_t k = 0;
    for (uint32_t i = 1; i < n; i++)
      if (w[i].value < w[k].value) k = i;
    if (w[k].last <= w[k].first * STEP || n == MOST_WINDOWS || late(b)) {
      *bound = fmin(*bound, w[k].value);
      return true;
    }
    w[n] = w[k];
    w[k].last = floor(sqrt(w[k].first * w[k].last));
    w[n].first = w[k].last + 1;
    if (!look(b, &w[k]) || !look(b, &w[n])) return false;
  }
}

/* All that can be reached from a root, breadth first; *done nodes are in order before and after. */
static void reach(pricing *b, uint32_t root, bool *seen, uint32_t *done) {
  const contest *c = &b->j->contest;
  seen[root] = true;
  b->nodes[root].parent = NONE;
  b->order[*done] = root;
  for (uint32_t at = (*done)++; at < *done; at++)
    for (uint32_t e = 0; e < c->edge_count; e++) {
      uint32_t i = b->order[at], from = c->edges[e].from, to = c->edges[e].to;
      uint32_t other = from == i ? to : from;
      if ((from != i && to != i) || seen[other]) continue;
      seen[other] = true;
      b->nodes[other].parent = i;
      b->nodes[other].gives = from == other;
      b->nodes[other].degree++, b->nodes[i].degree++;
      b->order[(*done)++] = other;
    }
}

static bool list_forest(pricing *b, wafer_arena *arena) {
  const contest *c = &b->j->contest;
  uint32_t done = 0;
  b->nodes = WAFER_NEW(arena, node, c->count);
  b->order = WAFER_NEW(arena, uint32_t, c->count);
  bool *seen = WAFER_NEW(arena, bool, c->count);
  if (!b->nodes || !b->order || !seen) return false;
  for (uint32_t root = 0; root < c->count; root++) {
    if (!seen[root]) reach(b, root, seen, &done);
    b->nodes[root].in = WAFER_NEW(arena, least, b->keys);
    b->nodes[root].out = WAFER_NEW(arena, least, b->keys);
    if (!b->nodes[root].in || !b->nodes[root].out) return false;
  }
  for (uint32_t e = 0; e < c->edge_count; e++) {
    double half = 0.5 * b->j->problem.wire_weight * c->edges[e].weight;
    b->nodes[c->edges[e].from].pull += half;
    b->nodes[c->edges[e].to].pull += half;
  }
  return true;
}

static bool set_up(pricing *b, wafer_arena *arena) {
  const contest *c = &b->j->contest;
  uint32_t kinds = b->j->problem.kind_count;
  b->keys = (c->width > c->height ? c->width : c->height) + 1;
  b->kinds = WAFER_NEW(arena, const contest_divisions *, kinds);
  b->now = WAFER_NEW(arena, contest_ways, kinds);
  b->up = WAFER_NEW(arena, least, b->keys);
  if (!b->kinds || !b->now || !b->up || !list_forest(b, arena)) return false;
  for (uint32_t i = 0; i < c->count && !late(b); i++) {
    const contest_divisions **d = &b->kinds[b->j->problem.kind[i]];
    if (!*d && !(*d = contest_list_divisions(arena, c, &c->kernels[i], b->j->unit))) return false;
  }
  return true;
}

wafer_status contest_bound(const wafer_diag *diag, wafer_arena *arena, const contest_job *j,
                           double until, double *bound) {
  pricing b = {.j = j, .until = until};
  bool ok = set_up(&b, arena) && search(&b, bound);
  for (uint32_t k = 0; b.now && k < j->problem.kind_count; k++) free(b.now[k].at);
  free(b.kept);
  if (!ok) return wafer_fail(diag, wafer_at_file(j->in), WAFER_NO_MEMORY, "no memory for a bound");
  return WAFER_OK;
}
