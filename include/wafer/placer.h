/* The placement engine: malleable rectangles on a wafer, shapes and positions chosen together.
 * Plain structs, no IR: `wafer place` feeds it a contest's kernels, a pass those of a model.
 *
 * The objective, to be minimised, is
 *   time_weight * slowest kernel + wire_weight * sum of edge weight * L1 distance of the centres
 *   + adapter_weight * adapters between ends of edges whose ports disagree.
 */
#ifndef WAFER_PLACER_H
#define WAFER_PLACER_H

#include "wafer/arena.h"
#include "wafer/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_PLACER_MOST_SIDE 4096 /* cores along a side of the wafer */
#define WAFER_PLACER_MOST_KERNELS 4096

/* One way to shape a kernel, not yet turned. */
typedef struct wafer_placer_shape {
  uint32_t width, height;
  uint64_t time;
  uint64_t tag; /* the caller's */
} wafer_placer_shape;

/* What kernels of the same signature share. Points that another one covers are allowed, and of use
 * where other sides are odd. */
typedef struct wafer_placer_shapes {
  uint32_t count;
  const wafer_placer_shape *at;
} wafer_placer_shapes;

/* How a shape takes or gives its data: numbers that the two ends of an edge should have alike. */
#define WAFER_PLACER_PORT 3
typedef struct wafer_placer_ports {
  uint32_t in[WAFER_PLACER_PORT], out[WAFER_PLACER_PORT];
} wafer_placer_ports;

/* What stands still, outside of the rectangle or in it: only the way there counts. */
typedef struct wafer_placer_terminal {
  int32_t x2, y2; /* its centre, twice */
} wafer_placer_terminal;

typedef struct wafer_placer_edge {
  uint32_t from, to; /* kernels, not equal; from `count` on terminals, at one end at most */
  uint32_t weight;
} wafer_placer_edge;

/* Kernels stand in topological order, so far as they have one: the first layouts follow it. */
typedef struct wafer_placer_problem {
  uint32_t width, height; /* of the wafer, in cores */
  uint32_t kind_count, count, edge_count;
  const wafer_placer_shapes *kinds;
  const uint32_t *kind; /* of each kernel */
  const wafer_placer_edge *edges;
  double time_weight, wire_weight;        /* per unit of time, per core of distance */
  bool turns;                             /* shapes may be turned by 90 degrees */
  double adapter_weight;                  /* 0: ports are not looked at */
  bool count_components;                  /* an adapter per number that differs, else per edge */
  const wafer_placer_ports *const *ports; /* of each kind's shapes; with adapter_weight alone */
  uint32_t terminal_count;
  const wafer_placer_terminal *terminals;
  const char *file; /* that messages name; NULL: none */
} wafer_placer_problem;

typedef struct wafer_placed {
  uint32_t shape; /* index into the kind's shapes */
  bool turned;
  uint32_t x, y;          /* lower left corner */
  uint32_t width, height; /* as placed */
} wafer_placed;

/* Work is counted in moves, whichever thread tries them: the same seed and moves give the same
 * placement for any number of threads and any load. With moves 0, seconds decide alone; with both,
 * moves are given up when the time is over. */
typedef struct wafer_placer_options {
  uint64_t seed, moves;
  double seconds;
  double spent;     /* seconds that the caller needed before: shown, and in first_seconds */
  uint32_t threads; /* 0: as many as the host has */
  const wafer_placed *start; /* NULL, or a layout whose rectangles some candidates start from */
} wafer_placer_options;

typedef struct wafer_placement {
  wafer_placed *at; /* of each kernel */
  uint32_t other_count;
  wafer_placed **others; /* further layouts of the search, the better first */
  uint64_t time;         /* of the slowest */
  uint64_t wire2;        /* twice the weighted length */
  uint64_t adapters;
  uint64_t area; /* cores covered */
  double score;
  uint64_t time_bound;  /* none is faster: the least time whose smallest shapes fit the area */
  double score_bound;   /* no placement scores less */
  uint64_t moves;       /* tried */
  double first_seconds; /* until the first legal placement, those spent before among them */
} wafer_placement;

/* Places everything, or fails with WAFER_NO_FIT when it found no way to. */
wafer_status wafer_place(const wafer_diag *diag, wafer_arena *arena,
                         const wafer_placer_problem *problem, const wafer_placer_options *options,
                         wafer_placement *out);

/* Drops the shapes that another one covers in width, height and time (turned too, if `turns`), in
 * place, sorted by time; `*count`: of all, then of those left. False: no memory, and all are as
 * they were. Only what has the same sides odd covers a shape: two rectangles have their centres on
 * one line where their sides across are both odd or both even. */
bool wafer_placer_pareto(uint32_t *count, wafer_placer_shape *shapes, uint32_t width,
                         uint32_t height, bool turns, wafer_arena *arena);

/* Moves rectangles to where wires are shortest: along x, those that overlap in y keep their order,
 * along y those that overlap in x; each in turn exactly, as long as one gains. As far as it got
 * when it is `until`, in seconds of CLOCK_MONOTONIC (0: any time). False when out of memory. */
bool wafer_placer_shift(const wafer_placer_problem *problem, double until, wafer_placed *at);

#ifdef __cplusplus
}
#endif
#endif
