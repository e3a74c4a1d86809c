/* Graphs inside a node (branches, bodies): what is in them, and functions of the host made of them.
 */
#ifndef FRONTEND_BODY_H
#define FRONTEND_BODY_H

#include "host_node.h"

#define MOST_UNROLLED 4096 /* nodes that unrolling may make */

/* What a loop hands from trip to trip, and where its slices collect. */
typedef struct loop {
  const onnx_graph *body;
  uint32_t lead;    /* arguments before the carried values; results: lead ? 1 : 0 */
  uint32_t carried; /* values */
  uint32_t sliced;  /* arguments that are slices of tensors */
  uint32_t slices;  /* results that are stacked */
} loop;

/* The graph of an attribute; null, and the node is refused, when there is none. */
const onnx_graph *body_graph(import_node *n, const char *name);
/* Whether an input is a constant, seen through `view`. */
bool body_is_known(const import_node *n, uint32_t input, wafer_view *view);
/* Nodes, those of graphs inside it too; `plain` is cleared by what is not a core's alone. */
size_t body_count_nodes(const onnx_graph *graph, bool *plain);
/* Room for `count` entries. */
name_entry **body_new_entries(import_node *n, uint32_t count);
/* The value of a branch's result in the open piece; null when it is none of static type. */
MlirValue body_use(import_node *n, name_entry *entry);
/* A scalar constant as an argument. */
name_entry body_constant(import_node *n, wafer_dtype dtype, int64_t value);
/* A value of the open piece as an argument. */
name_entry body_value(import_node *n, MlirValue value);
/* Counts the slices that the body gives; false, and the node is refused, when arguments or results
 * do not fit. */
bool body_shape(import_node *n, loop *l);
/* An entry of the node as an argument of a body in the same function. */
name_entry body_argument(const import_node *n, uint32_t input);
/* The trips' slices, each with one dim more at `axis`, along it. */
void body_stack(import_node *n, uint32_t output, uint32_t count, name_entry *const *slices,
                int64_t axis, bool backwards);
/* A body as a function of the host. `arguments`: the first ones, as the caller has them; carried
 * values of static type whose results are of another become host values, and it is done again. */
void body_import(import_node *n, loop *l, const name_entry *arguments, assembly *fn);
/* Inputs of the step: those of the node, then what the body captures. */
void body_step(import_node *n, loop *l, wafer_step *step, assembly *fn);

#endif
