/* Random legal ONNX graphs: made from a seed, run as plans in both modes, and compared with what
 * the importer folds when it knows every input, which is the reference of each operator, one by
 * one. A graph that fails is cut down to the smallest that still does. */
#ifndef TEST_GRAPHS_H
#define TEST_GRAPHS_H

#include <stdio.h>

#include "wafer/wafer.h"

#define MOST_NODES 24
#define MOST_VALUES 128
#define MOST_ELEMENTS 4096 /* of one tensor */

typedef enum graph_source { GRAPH_INPUT, GRAPH_CONSTANT, GRAPH_NODE } graph_source;

/* Its elements, unless a node makes them, follow from the graph's seed and its number. */
typedef struct graph_value {
  graph_source source;
  wafer_dtype dtype;
  wafer_shape shape;
  double low, high; /* elements of an input or constant */
  bool given;       /* a constant of these integers */
  int64_t ints[16];
  uint32_t node; /* that makes it */
} graph_value;

typedef struct graph_node {
  char call[160]; /* "Conv(strides=[2,2])" */
  uint32_t input_count, output_count, inputs[12], outputs[3];
  bool cut; /* its outputs are inputs of the graph */
} graph_node;

typedef struct graph {
  uint64_t seed;
  double tolerance; /* of differences, times the largest element of all tensors */
  uint32_t value_count, node_count;
  graph_value values[MOST_VALUES];
  graph_node nodes[MOST_NODES];
  uint32_t only; /* the one output that is looked at, UINT32_MAX: every value that nobody uses */
} graph;

/* Numbers from a seed. */
uint64_t graph_random(uint64_t *state);

/* The graph of a seed. */
void graph_make(graph *g, uint64_t seed);

/* What is left after cuts: nodes that an output needs, values that are inputs or outputs. */
typedef struct graph_view {
  bool nodes[MOST_NODES], inputs[MOST_VALUES], constants[MOST_VALUES], outputs[MOST_VALUES];
  uint32_t node_count;
} graph_view;
graph_view graph_look(const graph *g);

/* The graph as statements of test/unit/onnx_text.h. `inner`: outputs of all nodes are outputs. */
void graph_print(const graph *g, bool inner, FILE *to);
/* Writes the model. */
bool graph_save(const graph *g, bool inner, const char *path);
/* The elements of an input or constant, in the arena. */
wafer_view graph_data(const graph *g, uint32_t value, wafer_arena *arena);

/* Whether every mode computes what the reference does; `why` says what is wrong. In a process of
 * its own: a crash is a reason. */
bool graph_holds(const graph *g, const char *folder, char *why, size_t bytes);

/* Cuts nodes and drops outputs while it does not hold. */
void graph_reduce(graph *g, const char *folder, char *why, size_t bytes);

#endif
