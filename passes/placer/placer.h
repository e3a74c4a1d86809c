/* The placement engine's own parts: shape curves, slicing trees, moves, search, bounds.
 * A worker owns all it changes; what workers share is read only. */
#ifndef WAFER_PASSES_PLACER_H
#define WAFER_PASSES_PLACER_H

#include "search.h"
#include "wafer/placer.h"

#define PLACER_NONE UINT32_MAX
#define PLACER_MOST_STACKS 64u

/* A point of a shape curve: widths rise and heights fall along it. In a cut's curve `a` and `b` are
 * points of the two children. */
typedef struct point {
  uint16_t w, h, a, b;
} point;

typedef struct curve {
  uint32_t count;
  const point *at;
  const uint32_t *which; /* in a leaf's curve: the shape, twice, and one more when it is turned */
  struct curve_parts *parts; /* a leaf's */
} curve;

/* Which sides are odd. */
static inline uint32_t curve_parity(uint32_t w, uint32_t h) {
  return w % 2 + 2 * (h % 2);
}

/* A leaf's curve, parity by parity; `at` NULL: not made yet. */
typedef struct curve_parts {
  uint32_t kind, end;
  curve part[4];
} curve_parts;

/* Of the kernels: the caller's, one with shorter edges if there is one, and one that has equal
 * kernels side by side. Stacks are of the first two, whose edges are short. */
enum { ORDER_GIVEN, ORDER_SHORT, ORDER_ALIKE, ORDERS, SHORT_ORDERS = ORDER_ALIKE };

/* Read only while workers run. */
typedef struct placer {
  const wafer_placer_problem *p;
  uint32_t level_count;
  const uint64_t *levels; /* times that some shape has, rising, none below the bound */
  uint32_t key_count;
  const uint32_t *keys;      /* levels at which some kernel needs fewer cores than just before */
  uint32_t reach_w, reach_h; /* layouts up to this much are weighed, though not legal */
  uint32_t *neighbour_at;    /* count + 1 offsets into `neighbour` */
  uint32_t *neighbour;
  const uint32_t *orders[ORDERS];
  uint64_t *areas;           /* of each kernel, the least at the bound */
  uint64_t time_bound;
  double score_bound;
  double penalty; /* of a row or column beyond the wafer */
} placer;

/* Points a curve may have. */
static inline uint32_t placer_room(const placer *in) {
  return (in->reach_w > in->reach_h ? in->reach_w : in->reach_h) + 1;
}

/* Curves of every kind at the times asked for so far. */
typedef struct curve_cache {
  const placer *in;
  wafer_arena *arena;
  uint32_t **ends; /* per kind: shapes with the same time end here */
  uint32_t *end_count;
  curve **curves;              /* per kind and end; `at` NULL: not made yet */
  wafer_placer_shape **shapes; /* per kind, sorted by time */
  uint32_t **index;            /* of a sorted shape: where the caller has it */
  uint32_t **open;             /* per kind: shapes that none as fast covers, then its count */
  uint32_t *least;             /* scratch: least height of a width */
  uint32_t *which;
} curve_cache;

bool curve_cache_init(curve_cache *cache, const placer *in, wafer_arena *arena);
/* The curve of a kind at a time; count 0 when nothing is that fast; NULL when out of memory. */
const curve *curve_at(curve_cache *cache, uint32_t kind, uint64_t time);
/* A kind's curve of shapes of one curve_parity() alone; an empty one when out of memory. */
const curve *leaf_part(curve_cache *cache, const curve *leaf, uint32_t parity);
/* Side by side, and on top of each other: at most `reach` wide and high, written into `out`, which
 * has room for `room` points, more than the larger reach. */
curve curve_beside(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out);
curve curve_above(curve a, curve b, uint32_t reach_w, uint32_t reach_h, point *out, uint32_t room);

typedef enum cut { CUT_BESIDE, CUT_ABOVE } cut;

/* Leaves are 0 .. count-1, cuts count .. 2 count - 2. */
typedef struct node {
  uint32_t parent, child[2]; /* PLACER_NONE: none */
  uint8_t cut;
  uint8_t turned; /* the second child stands first: left or below */
  uint8_t active; /* which of the two buffers holds the curve */
} node;

/* A cut's point is one of its curve; a decoded leaf's is what `which` of its curve has. */
typedef struct box {
  uint32_t x, y, w, h, point;
} box;

typedef struct centre {
  int32_t x2, y2; /* twice */
} centre;

/* A node's two buffers. */
typedef curve curve_pair[2];
typedef point *buffer_pair[2];

/* What a tree is without its curves. */
typedef struct tree_shape {
  node *nodes;
  uint32_t root, level, root_width;
} tree_shape;

/* What a layout comes to. */
typedef struct tree_state {
  uint64_t time, wire2;
  uint32_t adapters;
  uint32_t over; /* rows and columns beyond the wafer */
  double cost;   /* the objective and the penalty */
} tree_state;

typedef struct tree {
  const placer *in;
  curve_cache *cache;
  uint32_t count;
  tree_shape is;
  curve_pair *curves;
  buffer_pair *buffers; /* of cuts */
  box *boxes;           /* decoded: of each node, centred in its share */
  centre *centres;      /* of kernels, then of terminals */
  uint32_t *shapes;     /* of kernels, the caller's */
  uint32_t *stack;
  uint32_t *mark; /* scratch for moves */
  uint32_t stamp;
  uint32_t *dirty, dirty_count; /* nodes whose buffer was switched since the last commit */
  tree_state state;
  uint32_t root_point;
  double penalty; /* of a row or column beyond the wafer; grows while a search cools */
} tree;

/* A tree in outline: runs of an order of the kernels, each a stack of slats. They stand in a row,
 * most of them in their order, and the joints between them are cut one within the other, the
 * highest outermost. A way or cut: its direction, and 2 if turned. */
typedef struct stacks {
  uint32_t count, order;
  bool mixed; /* may stand in another order */
  struct {
    uint32_t end, way;
  } at[PLACER_MOST_STACKS];
  struct {
    uint32_t stack, joint, cut; /* the joint is to the next in the row */
  } row[PLACER_MOST_STACKS];
} stacks;

bool tree_shape_init(tree_shape *s, const placer *in, wafer_arena *arena);
bool tree_init(tree *t, const placer *in, curve_cache *cache, wafer_arena *arena);
void tree_save(const tree *t, tree_shape *to);
void tree_load(tree *t, const tree_shape *from); /* without curves */
/* The order cut into `shelves` runs, laid to and fro. */
void tree_shelves(tree *t, const uint32_t *order, uint32_t shelves);
/* The cuts of a layout; false when it cannot be cut apart, or memory is out. */
bool tree_from_layout(tree *t, const wafer_placed *at);
void tree_stacks(tree *t, const stacks *s);
/* A new cut with these children; takes a node from *next. */
uint32_t tree_join(tree *t, uint32_t a, uint32_t b, uint8_t how, uint8_t turned, uint32_t *next);
void tree_finish(tree *t, uint32_t root);
/* Which of the keys low .. high - 1 is to be tried behind one that fits or does not: by steps,
 * which the caller doubles, until they would pass the other end, then by halves. */
static inline uint32_t placer_next_key(uint32_t low, uint32_t high, uint32_t at, uint32_t step,
                                       bool fits) {
  if (fits && at >= low + step) return at - step;
  return !fits && at + step < high ? at + step : (low + high) / 2;
}
#define PLACER_FEW_TABLES 8u /* as many find the least of a thousand times only by halves */
/* How many tables least times may still take, and until when; 0: any time. */
typedef struct least_work {
  uint64_t tables;
  double until;
} least_work;

/* The layout of least time among all slicing trees with this order of leaves, if it is faster than
 * key *high, which becomes its key; the best so far when the work is done. `part`: of those in
 * which each run of about so many kernels has a rectangle; 0: any, if there is memory for that.
 * It is looked for near a key, 0 being the bound's. */
bool tree_least(tree *t, const uint32_t *order, uint32_t part, uint32_t near, least_work *work,
                uint32_t *high);
bool tree_least_is_whole(const tree *t); /* there is memory for one table of all kernels */
/* What a table counts for; UINT64_MAX: none is made. */
uint64_t tree_least_moves(const tree *t, uint32_t part);
/* The leaves from first to last. */
void tree_order(const tree_shape *s, uint32_t count, uint32_t *stack, uint32_t *order);
void stacks_random(stacks *s, rng *r, uint32_t count, uint32_t most);
void stacks_change(stacks *s, rng *r); /* a little */
/* Turns a subtree's cuts of one direction round; no curve changes. */
void tree_mirror(tree *t, uint32_t top, uint8_t how);
/* All curves anew, at the tree's level; false when nothing fits the reach. */
bool tree_build(tree *t);
/* Curves on the ways from the marked nodes (PLACER_NONE: none) to the root. */
bool tree_update(tree *t, uint32_t first, uint32_t second);
void tree_commit(tree *t);
void tree_revert(tree *t); /* curves only */
/* The built tree's outline on the wafer: a cost that the layout cannot be below. */
double tree_outline(tree *t);
/* After the outline: boxes, time, wire and cost. */
void tree_decode(tree *t);
double tree_cost(const tree *t); /* of the decoded tree, at the present penalty */

/* A move and what takes it back. */
typedef struct undo {
  uint32_t count;
  struct {
    uint32_t at;
    node was;
  } nodes[16];
  uint32_t root, level, root_width;
  uint32_t mirrored, laid; /* PLACER_NONE, or the subtree that was mirrored, or laid on its side */
  uint8_t mirror_cut;
} undo;

/* Changes the tree and its curves; false when it came to nothing, and the tree is as before. */
bool move_try(tree *t, rng *r, double heat, undo *u);
void move_undo(tree *t, const undo *u);

/* A legal layout outside of a tree. */
typedef struct layout {
  wafer_placed *at;
  double score; /* INFINITY: none */
  uint64_t time, wire2;
  uint32_t adapters;
} layout;

void layout_score(const placer *in, layout *l);
static inline bool placer_between(const wafer_placer_problem *p, const wafer_placer_edge *e) {
  return e->from < p->count && e->to < p->count; /* kernels, no terminal */
}
/* Adapters on an edge whose ends have these shapes. */
uint32_t placer_adapters(const wafer_placer_problem *p, const wafer_placer_edge *e, uint32_t from,
                         uint32_t to);
void layout_from_tree(const tree *t, layout *l);

typedef struct shift_arc {
  uint32_t to, next;
  int64_t left;
} shift_arc;

typedef struct shift_pair {
  uint32_t low, high;
} shift_pair;

/* Scratch for shifts of a layout along an axis. */
typedef struct shifter {
  const wafer_placer_problem *p;
  uint32_t n, pair_count, arc_count;
  int32_t most; /* the wafer's end */
  double until; /* 0: any time */
  int32_t *place, *size;
  int64_t *fixed; /* of terminals: twice where they are */
  int64_t *gain;  /* of each kernel, when it alone moves */
  shift_pair *pairs, *order;
  shift_arc *arcs;
  uint32_t *first, *next, *level, *queue; /* of each kernel, source and sink */
  uint32_t *seen, *mark;
} shifter;

#define SHIFT_FAR 256 /* a first step for a layout that was not shifted before */

bool shifter_init(shifter *s, const wafer_placer_problem *p, wafer_arena *arena);
/* As wafer_placer_shift(), in steps from `first` (a power of two) down to a core. */
void shift_all(shifter *s, wafer_placed *at, int32_t first);

/* Orders for the first layouts; false when out of memory. */
bool placer_orders(placer *in, uint64_t seed, wafer_arena *arena);

/* The bounds, and the levels above them; *fits is false when no time fits the area. False when out
 * of memory. */
bool placer_bounds(placer *in, wafer_arena *arena, bool *fits);

#endif
