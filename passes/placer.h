/* The placement engine's own parts: shape curves, slicing trees, moves, annealing, bounds.
 * A chain owns all it changes; what chains share is read only. */
#ifndef WAFER_PASSES_PLACER_H
#define WAFER_PASSES_PLACER_H

#include "wafer/placer.h"

#define PLACER_CHAINS 2u
#define PLACER_NONE UINT32_MAX

/* A point of a shape curve: widths rise and heights fall along it. In a leaf's curve `a` is the shape
 * and `b` tells whether it is turned; in a cut's curve they are points of the two children. */
typedef struct point {
  uint16_t w, h;
  uint32_t a, b;
} point;

typedef struct curve {
  uint32_t count;
  const point *at;
} curve;

/* Read only while chains run. */
typedef struct placer {
  const wafer_placer_problem *p;
  uint32_t level_count;
  const uint64_t *levels;    /* times that some shape has, rising, none below the bound */
  uint32_t reach_w, reach_h; /* layouts up to this much are weighed, though not legal */
  uint32_t *neighbour_at;    /* count + 1 offsets into `neighbour` */
  uint32_t *neighbour;
  uint64_t time_bound;
  double score_bound;
  double penalty; /* of a row or column beyond the wafer */
} placer;

typedef struct rng {
  uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static inline uint32_t rng_below(rng *r, uint32_t n) {
  return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}
static inline double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

/* Curves of every kind at the times asked for so far. */
typedef struct curve_cache {
  const placer *in;
  wafer_arena *arena;
  uint32_t **ends;        /* per kind: shapes with the same time end here */
  uint32_t *end_count;
  curve **curves;         /* per kind and end; `at` NULL: not made yet */
  wafer_placer_shape **shapes;   /* per kind, sorted by time */
  uint32_t **index;       /* of a sorted shape: where the caller has it */
  uint32_t *least;        /* scratch: least height of a width */
  uint32_t *which;
} curve_cache;

bool curve_cache_init(curve_cache *cache, const placer *in, wafer_arena *arena);
/* The curve of a kind at a time; count 0 when nothing is that fast; NULL when out of memory. */
const curve *curve_at(curve_cache *cache, uint32_t kind, uint64_t time);
/* Side by side, and on top of each other: at most `reach` wide and high; returns the points written,
 * never more than the reach of the side that counts. */
uint32_t curve_beside(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out);
uint32_t curve_above(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out);

typedef enum cut { CUT_BESIDE, CUT_ABOVE } cut;

/* Leaves 0 .. count-1, cuts count .. 2 count - 2. */
typedef struct node {
  uint32_t parent, child[2]; /* PLACER_NONE: none */
  uint8_t cut;
  uint8_t turned; /* the second child stands first: left or below */
  uint8_t active; /* which of the two buffers holds the curve */
} node;

typedef struct box {
  uint32_t x, y, w, h, point;
} box;

/* A node's two buffers. */
typedef curve curve_pair[2];
typedef point *buffer_pair[2];

/* The state of a chain. */
typedef struct tree {
  const placer *in;
  curve_cache *cache;
  uint32_t count, root;
  uint32_t level, root_width;
  node *nodes;
  curve_pair *curves;
  buffer_pair *buffers; /* of cuts */
  box *boxes;           /* decoded: of each node, centred in its share */
  uint32_t *stack;
  uint32_t *mark; /* scratch for moves */
  uint32_t stamp;
  uint32_t *dirty, dirty_count; /* nodes whose buffer was switched since the last commit */
  uint64_t time, wire2;
  uint32_t over; /* rows and columns beyond the wafer */
  double penalty; /* of each of them; grows while a chain cools */
  double cost;    /* the objective and the penalty */
} tree;

bool tree_init(tree *t, const placer *in, curve_cache *cache, wafer_arena *arena);
/* Shape of `from` without its curves: the tree, level and root width. */
void tree_copy_shape(tree *to, const tree *from);
/* The order cut into `shelves` runs, laid to and fro. */
void tree_shelves(tree *t, const uint32_t *order, uint32_t shelves);
/* All curves anew, at the tree's level; false when nothing fits the reach. */
bool tree_build(tree *t);
/* Curves on the ways from the marked nodes (PLACER_NONE: none) to the root. */
bool tree_update(tree *t, uint32_t first, uint32_t second);
void tree_commit(tree *t);
void tree_revert(tree *t); /* curves only */
/* Boxes, time, wire and cost of the built tree. */
void tree_decode(tree *t);
double tree_cost(const tree *t); /* of the decoded tree, at the present penalty */

/* A move and what takes it back. */
typedef struct undo {
  uint32_t count;
  struct {
    uint32_t at;
    node was;
  } nodes[16];
  uint32_t level, root_width, mirrored; /* PLACER_NONE, or the subtree that was mirrored */
  uint8_t mirror_cut;
  uint32_t root;
} undo;

/* Changes the tree and its curves; false when it came to nothing, and the tree is as before. */
bool move_try(tree *t, rng *r, double heat, undo *u);
void move_undo(tree *t, const undo *u);

/* A legal layout outside of a tree. */
typedef struct layout {
  wafer_placed *at;
  double score; /* INFINITY: none */
  uint64_t time, wire2;
} layout;

void layout_score(const placer *in, layout *l);
void layout_from_tree(const tree *t, layout *l);

/* The bounds, and the levels above them; *fits is false when no time fits the area. False when out of
 * memory. */
bool placer_bounds(placer *in, wafer_arena *arena, bool *fits);

#endif
