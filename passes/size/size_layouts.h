/* The shapes that are weighed for each phase of weight streaming (size_options.c), and what it
 * takes to bring values from one kernel's to another's. Kernels alike in the same surroundings
 * share both: layers repeat. */
#ifndef WAFER_PASSES_SIZE_LAYOUTS_H
#define WAFER_PASSES_SIZE_LAYOUTS_H

#include "size.h"

#define LAYOUT_MOST_OPTIONS 96

/* A shape and the layouts that come with it. */
typedef struct layout_option {
  const wafer_shape_point *point;
  int64_t own;             /* cycles, with what comes from the edge and goes to it, and what weights
                              lack lanes */
  const wafer_layout *lie; /* of the inputs, then of the outputs */
} layout_option;

/* Options of a kernel. Sets that are equal in all that decides about costs are one. */
typedef struct layout_options {
  uint32_t count;
  layout_option *at;
} layout_options;

/* Values that pass from one kernel to another. */
typedef struct layout_edge {
  uint32_t producer, user;
  struct layout_table *table;
} layout_edge;

typedef struct layouts {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  uint32_t batch, stripes; /* samples resident in a stripe; stripes that share the edge */
  size_waste waste;
  bool spread; /* the way of weights over the cores has a price */
  wafer_rect whole;
  const layout_options **options; /* kernel */
  wafer_kernel_body *bodies;      /* kernel: with the depths that were chosen */
  struct layout_tables *known;
} layouts;

wafer_status layouts_no_memory(const layouts *l);
/* Fills in what is empty beside ctx, graph, curves, batch, stripes, waste and spread. */
wafer_status layouts_open(layouts *l);
/* The options of kernel k; those of its producers come first. */
wafer_status layouts_open_kernel(layouts *l, uint32_t k, const sized_kernel *greedy);
/* Between kernels with options; `all`: every pair of options will be asked for. */
wafer_status layouts_open_edge(layouts *l, layout_edge *edge, bool all);
/* Cycles of the exchanges between option `from` of the producer and option `to` of the user. */
uint64_t layouts_edge_cycles(const layouts *l, const layout_edge *edge, uint32_t from, uint32_t to);

#endif
