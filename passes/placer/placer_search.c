/* A candidate's search: shelves to start from, and annealing. It depends on the candidate, its
 * random numbers and its budget alone. */
#include "placer_search.h"

#include <math.h>
#include <string.h>

static void keep(worker *w, candidate *c) {
  tree *t = &w->tree;
  if (t->state.over || t->state.cost >= c->best.score) return;
  layout_from_tree(t, &c->best);
  tree_save(t, &c->now);
  placer_report(w->run, c->best.score);
}

static bool enter(worker *w, const tree_shape *from) {
  tree_load(&w->tree, from);
  bool ok = tree_build(&w->tree);
  tree_commit(&w->tree);
  if (ok) tree_outline(&w->tree), tree_decode(&w->tree);
  return ok;
}

/* Does the tree fit the wafer at a level? */
static bool fits_at(tree *t, uint32_t key) {
  t->is.level = t->in->keys[key];
  bool fits = tree_build(t);
  tree_commit(t);
  if (!fits) return false;
  tree_outline(t);
  return !t->state.over;
}

/* The least of the first `high` keys at which the tree fits, left built; looked for near *key. */
static bool lower(tree *t, uint32_t high, uint32_t *key) {
  uint32_t low = 0, at = *key < high ? *key : high - 1, step = 1;
  bool built = false;
  while (low < high) { /* all below low do not fit, high does, or is none */
    built = fits_at(t, at);
    if (built)
      high = at;
    else
      low = at + 1;
    if (low >= high) break;
    at = placer_next_key(low, high, at, step, built);
    step *= 2;
  }
  *key = low;
  return low < t->in->key_count && (built || fits_at(t, low));
}

/* Turns stacks round as long as that makes wires shorter. */
static void unfold(tree *t) {
  tree_decode(t);
  for (uint32_t sweep = 0; sweep < 2; sweep++)
    for (uint32_t i = 2 * t->count - 1; i-- > t->count;) {
      uint32_t up = t->is.nodes[i].parent;
      if (up != PLACER_NONE && t->is.nodes[up].cut == t->is.nodes[i].cut && sweep == 0) continue;
      uint64_t before = t->state.wire2;
      tree_mirror(t, i, t->is.nodes[i].cut);
      tree_decode(t);
      if (t->state.wire2 < before) continue;
      tree_mirror(t, i, t->is.nodes[i].cut);
      t->state.wire2 = before;
    }
  tree_decode(t);
}

void search_start(worker *w, candidate *c, uint32_t shelves, const wafer_placed *start) {
  tree *t = &w->tree;
  uint32_t key = t->in->key_count / 2;
  t->is.root_width = t->in->p->width;
  if (!start || !tree_from_layout(t, start)) tree_shelves(t, t->in->orders[ORDER_GIVEN], shelves);
  if (lower(t, t->in->key_count, &key)) {
    tree_decode(t);
    keep(w, c);
  }
  c->failed = c->best.score == INFINITY;
}

/* Keys whose time alone does not exceed a score. */
static uint32_t keys_below(const placer *in, double score) {
  uint32_t low = 0, high = in->key_count;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    if (in->p->time_weight * (double)in->levels[in->keys[mid]] < score)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static uint32_t key_of(const placer *in, uint64_t time) {
  return keys_below(in, in->p->time_weight * (double)time);
}

/* Leaves the candidate at the layout of least time, if one is better than its best. */
static void least(worker *w, candidate *c, const uint32_t *order, uint32_t part, uint32_t near,
                  const budget *b, uint32_t key) {
  tree *t = &w->tree;
  uint64_t each = tree_least_moves(t, part), most = b->most ? b->most / each : UINT64_MAX;
  least_work work = {most, b->until};
  if (most < PLACER_FEW_TABLES && c->best.score < INFINITY) {
    uint32_t faster = key_of(t->in, c->best.time);
    key = faster < key ? faster : key;
  }
  bool found = tree_least(t, order, part, near, &work, &key);
  w->moves += (most - work.tables) * each;
  t->is.root_width = t->in->p->width;
  if (!found || !fits_at(t, key)) return;
  unfold(t);
  keep(w, c);
  c->failed = false;
}

void search_least(worker *w, candidate *c, const uint32_t *order, uint32_t part, uint64_t time,
                  const budget *b) {
  least(w, c, order, part, key_of(w->tree.in, time), b, w->tree.in->key_count);
}

void search_again(worker *w, candidate *c, const budget *b) {
  if (c->failed || c->best.score == INFINITY) return;
  tree_order(&c->now, w->tree.count, w->tree.stack, w->order);
  const uint32_t faster = key_of(w->tree.in, c->best.time);
  least(w, c, w->order, 0, faster, b, faster);
}

#define STACKS_MOVES 32     /* what weighing stacks counts for */
#define STACKS_PATIENCE 400 /* steps without a better one before others are tried */
#define STACKS_HEAT 0.001   /* temperature, in scores */

/* Walks from random stacks, mostly downhill, again and again. */
void search_stacks(worker *w, candidate *c, uint32_t most, const budget *b) {
  tree *t = &w->tree;
  stacks now = {0}, next;
  double score = INFINITY, least = INFINITY;
  uint32_t patience = 0, key = 0;
  uint64_t moves = 0;
  for (; b->most ? moves < b->most : search_seconds() < b->until; moves += STACKS_MOVES) {
    if (wafer_cancelled(w->run->diag)) break;
    bool fresh = !patience;
    if (fresh)
      stacks_random(&next, &c->rng, t->count, most), least = INFINITY;
    else
      next = now, stacks_change(&next, &c->rng), patience--;
    double limit =
        fresh ? 1.2 * c->best.score : score * (1 - STACKS_HEAT * log(1 - rng_unit(&c->rng)));
    uint32_t high = keys_below(t->in, limit), at = key;
    tree_stacks(t, &next);
    t->is.root_width = t->in->p->width;
    if (!high || !lower(t, high, &at)) continue;
    unfold(t);
    if (t->state.cost > limit) continue;
    score = t->state.cost, now = next, key = at;
    if (score < least) least = score, patience = STACKS_PATIENCE;
    keep(w, c);
    c->failed = false;
  }
  w->moves += moves;
}

/* How much of the budget is spent, from 0 to 1. */
static double spent(const budget *b, double started, uint64_t moves) {
  if (b->until > 0) {
    double now = search_seconds();
    if (now >= b->until) return 1;
    if (!b->most) return (now - started) / (b->until - started);
  }
  return (double)moves / (double)b->most;
}

/* One move, kept or taken back. The chance is drawn first: what costs too much without its wire is
 * refused before the wire is measured. */
static void step(tree *t, rng *r, double temperature, double hot) {
  undo u;
  tree_state before = t->state;
  double limit = before.cost - temperature * log(1 - rng_unit(r));
  if (!move_try(t, r, hot, &u)) return;
  if (tree_outline(t) <= limit) {
    tree_decode(t);
    if (t->state.cost <= limit) {
      tree_commit(t);
      return;
    }
  }
  move_undo(t, &u);
  t->state = before;
}

#define WARM_MOVES 100.0  /* of each kernel; with fewer an annealing is the end of one */
#define MOVE_SECONDS 1e-7 /* a move takes about so long for each kernel */

/* Where an annealing begins, 0: at its start. What it has no moves to cool down from would stay, so
 * one with few moves is the end of one with enough. */
static double beginning(const tree *t, const budget *b, double now) {
  double moves = b->most ? (double)b->most : INFINITY;
  if (b->until > 0) moves = fmin(moves, (b->until - now) / (MOVE_SECONDS * t->count));
  return fmax(0, 1 - moves / (WARM_MOVES * t->count));
}

void search_anneal(worker *w, candidate *c, const heat *h, const budget *b) {
  tree *t = &w->tree;
  if (c->failed || !enter(w, &c->now)) return;
  double hot = h->hot * w->run->scale, cold = h->cold * w->run->scale;
  double started = search_seconds(), from = beginning(t, b, started);
  uint64_t moves = 0;
  for (double at; (at = spent(b, started, moves)) < 1 && !wafer_cancelled(w->run->diag);) {
    at = from + (1 - from) * at;
    double temperature = hot > 0 ? hot * pow(cold / hot, at) : 0;
    t->penalty = t->in->penalty * (0.3 + 24 * at * at);
    t->state.cost = tree_cost(t);
    for (int k = 0; k < 64; k++, moves++) {
      step(t, &c->rng, temperature, 1 - at);
      if (t->state.cost < c->best.score) keep(w, c);
    }
  }
  w->moves += moves;
  if (c->best.score == INFINITY) tree_save(t, &c->now);
}

void search_polish(worker *w, candidate *c, const budget *b) {
  if (c->best.score == INFINITY) return;
  w->moves += layout_polish(&w->polisher, &c->best, b);
  placer_report(w->run, c->best.score);
}
