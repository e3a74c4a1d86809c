/* A chain: rounds of annealing over slicing trees. It depends on its seed and its budget alone. */
#include <math.h>
#include <string.h>

#include "placer_chain.h"

/* Where in the chain's budget we are, from 0 to 1. Time is looked at seldom. */
static double spent(chain *c) {
  if (c->most_moves) {
    double part = (double)c->moves / (double)c->most_moves;
    if (c->deadline <= 0 || part >= 1) return part;
    if (c->moves - c->looked < 256) return part;
    c->looked = c->moves;
    return placer_seconds() >= c->deadline ? 1 : part;
  }
  if (c->moves - c->looked >= 64 || c->now == 0) {
    c->looked = c->moves;
    c->now = placer_seconds();
  }
  return (c->now - c->started) / (c->deadline - c->started);
}

static void keep_best(chain *c) {
  tree *t = &c->tree;
  if (t->over || t->cost >= c->best.score) return;
  layout_from_tree(t, &c->best);
  tree_copy_shape(&c->best_tree, t);
  if (c->first == 0) c->first = placer_seconds();
  placer_report(c->run, c->best.score);
}

/* Every count of shelves and the least time at which it fits the wafer; the best of them starts. */
static bool start(chain *c) {
  tree *t = &c->tree;
  uint32_t n = t->count, most = n < 16 ? n : 16;
  double best = INFINITY;
  if ((double)n > 200) most = (uint32_t)(1.5 * sqrt(n)) + 1;
  for (uint32_t shelves = 1; shelves <= most; shelves++) {
    uint32_t low = 0, high = t->in->level_count;
    while (low < high) {
      t->level = (low + high) / 2;
      tree_shelves(t, c->order, shelves);
      bool fits = tree_build(t);
      tree_commit(t);
      if (fits) tree_decode(t);
      if (!fits || t->over) {
        low = t->level + 1;
        continue;
      }
      high = t->level;
      keep_best(c);
      if (t->cost < best) best = t->cost, tree_copy_shape(&c->round_tree, t);
    }
  }
  return best < INFINITY;
}

static bool enter(chain *c, const tree *from) {
  tree_copy_shape(&c->tree, from);
  bool ok = tree_build(&c->tree);
  tree_commit(&c->tree);
  if (ok) tree_decode(&c->tree);
  return ok;
}

/* From `hot` to `cold`, in units of the score, between two parts of the budget. */
static void anneal(chain *c, double from, double to, double hot, double cold) {
  tree *t = &c->tree;
  undo u;
  double heat = 1, temperature = hot;
  for (uint32_t k = 0;; k++) {
    if (k % 64 == 0) {
      double at = spent(c);
      if (at >= to || wafer_cancelled(c->run->diag)) break;
      heat = at > from ? (at - from) / (to - from) : 0;
      temperature = hot * pow(cold / hot, heat);
      t->penalty = t->in->penalty * (0.3 + 24 * heat * heat);
      t->cost = tree_cost(t);
    }
    c->moves++;
    double before = t->cost;
    uint64_t time = t->time, wire2 = t->wire2;
    uint32_t over = t->over;
    if (!move_try(t, &c->rng, 1 - heat, &u)) continue;
    tree_decode(t);
    double rise = t->cost - before;
    if (rise > 0 && rng_unit(&c->rng) >= exp(-rise / temperature)) {
      move_undo(t, &u);
      t->cost = before, t->time = time, t->wire2 = wire2, t->over = over;
      continue;
    }
    tree_commit(t);
    if (rise < 0) keep_best(c);
  }
}

/* Each row a round: where in the budget it ends, its temperatures in units of the wire a kernel costs
 * in the first layout, and whether it goes on from the best instead of the shelves. A hot search finds
 * other trees, a cold one keeps what is good about the shelves; which wins depends on the kernels. */
typedef struct plan_row {
  double to, hot, cold;
  bool from_best;
} plan_row;

static const plan_row plans[PLACER_CHAINS][2] = {
    {{0.85, 2, 0.03, false}, {1, 0.25, 0.01, true}},
    {{0.6, 0.8, 0.02, false}, {1, 0.4, 0.01, true}},
};

static double wire_share(const chain *c) {
  const wafer_placer_problem *p = c->run->in.p;
  double wire = p->wire_weight * 0.5 * (double)c->tree.wire2;
  double least = 1e-3 * c->run->in.score_bound;
  return fmax(wire, least) / p->count;
}

bool chain_run(chain *c) {
  if (!start(c)) tree_shelves(&c->round_tree, c->order, 1 + (uint32_t)sqrt(c->tree.count));
  if (!enter(c, &c->round_tree)) return false;
  double scale = wire_share(c), from = 0;
  for (size_t i = 0; i < WAFER_COUNT(plans[0]); i++) {
    const plan_row *row = &plans[c->number][i];
    bool again = row->from_best && c->best.score < INFINITY;
    if (!enter(c, again ? &c->best_tree : &c->round_tree)) return false;
    anneal(c, from, row->to, scale * row->hot, scale * row->cold);
    from = row->to;
  }
  return true;
}
