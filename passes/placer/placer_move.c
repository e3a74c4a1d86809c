/* Moves over slicing trees, and how each is taken back. */
#include <math.h>

#include "placer.h"

static void save(tree *t, undo *u, uint32_t i) {
  if (i == PLACER_NONE) return;
  for (uint32_t k = 0; k < u->count; k++)
    if (u->nodes[k].at == i) return;
  u->nodes[u->count].at = i;
  u->nodes[u->count++].was = t->is.nodes[i];
}

static void replace_child(tree *t, uint32_t parent, uint32_t was, uint32_t by) {
  t->is.nodes[by].parent = parent;
  if (parent == PLACER_NONE)
    t->is.root = by;
  else
    t->is.nodes[parent].child[t->is.nodes[parent].child[1] == was] = by;
}

/* Is j on the way up from i? */
static bool above(const tree *t, uint32_t i, uint32_t j) {
  for (; i != PLACER_NONE; i = t->is.nodes[i].parent)
    if (i == j) return true;
  return false;
}

static bool same_kind(const tree *t, uint32_t a, uint32_t b) {
  return a < t->count && b < t->count && t->in->p->kind[a] == t->in->p->kind[b];
}

static bool swap(tree *t, undo *u, uint32_t a, uint32_t b) {
  if (a == b || above(t, a, b) || above(t, b, a)) return false;
  uint32_t pa = t->is.nodes[a].parent, pb = t->is.nodes[b].parent;
  save(t, u, a), save(t, u, b), save(t, u, pa), save(t, u, pb);
  if (pa == pb) {
    t->is.nodes[pa].turned = !t->is.nodes[pa].turned;
    return true;
  }
  int ia = t->is.nodes[pa].child[1] == a, ib = t->is.nodes[pb].child[1] == b;
  t->is.nodes[pa].child[ia] = b, t->is.nodes[b].parent = pa;
  t->is.nodes[pb].child[ib] = a, t->is.nodes[a].parent = pb;
  if (same_kind(t, a, b)) return true;
  return tree_update(t, pa, pb);
}

/* Takes a out and cuts it in beside b. */
static bool insert(tree *t, rng *r, undo *u, uint32_t a, uint32_t b) {
  uint32_t p = t->is.nodes[a].parent;
  if (p == PLACER_NONE || p == b || above(t, b, a)) return false;
  uint32_t sibling = t->is.nodes[p].child[t->is.nodes[p].child[0] == a], up = t->is.nodes[p].parent;
  uint32_t pb = t->is.nodes[b].parent;
  save(t, u, a), save(t, u, b), save(t, u, p), save(t, u, sibling), save(t, u, up), save(t, u, pb);
  uint32_t flags = rng_below(r, 4);
  replace_child(t, up, p, sibling);
  pb = t->is.nodes[b].parent;
  replace_child(t, pb, b, p);
  t->is.nodes[p].cut = flags & 1;
  t->is.nodes[p].child[flags >> 1] = a;
  t->is.nodes[p].child[!(flags >> 1)] = b;
  t->is.nodes[b].parent = p;
  return tree_update(t, p, up);
}

static bool flip(tree *t, undo *u, uint32_t i) {
  save(t, u, i);
  t->is.nodes[i].cut = !t->is.nodes[i].cut;
  return tree_update(t, i, PLACER_NONE);
}

/* (a, (b, c)) becomes ((a, b), c), and the other way. */
static bool rotate(tree *t, rng *r, undo *u, uint32_t i) {
  uint32_t side = rng_below(r, 2);
  uint32_t low = t->is.nodes[i].child[side];
  if (low < t->count) return false;
  uint32_t outer = t->is.nodes[i].child[!side];
  uint32_t goes = t->is.nodes[low].child[!side], stays = t->is.nodes[low].child[side];
  save(t, u, i), save(t, u, low), save(t, u, outer), save(t, u, stays);
  t->is.nodes[i].child[!side] = low, t->is.nodes[i].child[side] = stays;
  t->is.nodes[stays].parent = i;
  t->is.nodes[low].child[!side] = outer, t->is.nodes[low].child[side] = goes;
  t->is.nodes[outer].parent = low;
  uint8_t cut_low = t->is.nodes[low].cut;
  if (rng_below(r, 2)) t->is.nodes[low].cut = t->is.nodes[i].cut, t->is.nodes[i].cut = cut_low;
  return tree_update(t, low, PLACER_NONE);
}

void tree_mirror(tree *t, uint32_t top, uint8_t how) {
  uint32_t depth = 0;
  t->stack[depth++] = top;
  while (depth) {
    uint32_t i = t->stack[--depth];
    if (i < t->count) continue;
    node *at = &t->is.nodes[i];
    uint32_t a = at->child[0], b = at->child[1];
    if (at->cut == how) at->turned = !at->turned;
    t->stack[depth++] = a;
    t->stack[depth++] = b;
  }
}

static uint32_t next_key(const placer *in, uint32_t level) {
  uint32_t low = 0, high = in->key_count; /* the first that is above */
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    if (in->keys[mid] > level)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

/* Up or down: mostly to levels at which something gets smaller. */
static bool change_level(tree *t, rng *r, double heat) {
  uint32_t span = (uint32_t)(heat * 8) + 2, by = rng_below(r, span), level = t->is.level;
  uint32_t key = next_key(t->in, level);
  bool up = rng_below(r, 2);
  if (rng_below(r, 8) == 0) {
    if (up ? level + by + 1 >= t->in->level_count : level < by + 1) return false;
    t->is.level = up ? level + by + 1 : level - by - 1;
  } else if (up) {
    if (key + by >= t->in->key_count) return false;
    t->is.level = t->in->keys[key + by];
  } else {
    bool on = key && t->in->keys[key - 1] == level;
    if (key < by + 1 + on) return false;
    t->is.level = t->in->keys[key - 1 - on - by];
  }
  return tree_build(t);
}

static bool change_width(tree *t, rng *r) {
  uint32_t width = t->in->p->width, span = width / 8 + 1;
  uint32_t to = t->is.root_width + rng_below(r, 2 * span + 1);
  if (to < span) return false;
  to -= span;
  if (!to || to > width) return false;
  t->is.root_width = to;
  return true;
}

/* Turns every cut of a subtree: it lies on its side. */
static void lay(tree *t, uint32_t top) {
  uint32_t depth = 0;
  t->stack[depth++] = top;
  while (depth) {
    node *at = &t->is.nodes[t->stack[--depth]];
    at->cut = !at->cut;
    for (int k = 0; k < 2; k++)
      if (at->child[k] >= t->count) t->stack[depth++] = at->child[k];
  }
}

static bool lay_try(tree *t, undo *u, uint32_t i) {
  u->laid = i;
  lay(t, i);
  return tree_build(t);
}

static uint32_t inner(const tree *t, rng *r) {
  return t->count + rng_below(r, t->count - 1);
}

/* A kernel, often with what stands right beside it; small subtrees wander too. */
static uint32_t some(const tree *t, rng *r) {
  uint32_t i = rng_below(r, t->count);
  while (t->is.nodes[i].parent != PLACER_NONE && rng_below(r, 5) == 0) i = t->is.nodes[i].parent;
  return i;
}

/* A place near a graph neighbour of a leaf at or below i. */
static uint32_t near(const tree *t, rng *r, uint32_t i) {
  while (i >= t->count) i = t->is.nodes[i].child[rng_below(r, 2)];
  const uint32_t *at = t->in->neighbour_at;
  if (at[i] == at[i + 1] || rng_below(r, 8) == 0) return some(t, r);
  uint32_t to = t->in->neighbour[at[i] + rng_below(r, at[i + 1] - at[i])];
  while (t->is.nodes[to].parent != PLACER_NONE && rng_below(r, 3) == 0) to = t->is.nodes[to].parent;
  return to;
}

static uint32_t beside(const tree *t, uint32_t i) {
  uint32_t p = t->is.nodes[i].parent;
  return p == PLACER_NONE ? i : t->is.nodes[p].child[t->is.nodes[p].child[0] == i];
}

static bool mirror_try(tree *t, rng *r, undo *u, uint32_t i) {
  u->mirror_cut = (uint8_t)rng_below(r, 2);
  u->mirrored = i;
  tree_mirror(t, i, u->mirror_cut);
  return true;
}

static bool any_move(tree *t, rng *r, double heat, undo *u) {
  uint32_t pick = rng_below(r, 100);
  if (pick < 18) return swap(t, u, rng_below(r, t->count), rng_below(r, t->count));
  if (pick < 26) return swap(t, u, some(t, r), some(t, r));
  if (pick < 40) {
    uint32_t a = some(t, r);
    return swap(t, u, a, beside(t, near(t, r, a)));
  }
  if (pick < 68) {
    uint32_t a = some(t, r);
    return insert(t, r, u, a, near(t, r, a));
  }
  if (pick < 75) return flip(t, u, inner(t, r));
  if (pick < 84) return mirror_try(t, r, u, inner(t, r));
  if (pick < 94) return rotate(t, r, u, inner(t, r));
  if (pick < 97) return change_width(t, r);
  if (pick < 98) return lay_try(t, u, inner(t, r));
  return change_level(t, r, heat);
}

bool move_try(tree *t, rng *r, double heat, undo *u) {
  *u = (undo){.root = t->is.root,
              .level = t->is.level,
              .root_width = t->is.root_width,
              .mirrored = PLACER_NONE,
              .laid = PLACER_NONE};
  if (t->count == 1) return change_level(t, r, heat) || (move_undo(t, u), false);
  if (any_move(t, r, heat, u)) return true;
  move_undo(t, u);
  return false;
}

void move_undo(tree *t, const undo *u) {
  if (u->laid != PLACER_NONE) lay(t, u->laid);
  if (u->mirrored != PLACER_NONE) tree_mirror(t, u->mirrored, u->mirror_cut);
  tree_revert(t);
  for (uint32_t k = u->count; k-- > 0;) {
    uint32_t i = u->nodes[k].at;
    uint8_t active = t->is.nodes[i].active;
    t->is.nodes[i] = u->nodes[k].was;
    t->is.nodes[i].active = active;
  }
  t->is.level = u->level;
  t->is.root_width = u->root_width;
  t->is.root = u->root;
}
