/* Nodes that become steps of the host. */
#ifndef FRONTEND_HOST_NODE_H
#define FRONTEND_HOST_NODE_H

#include "assembly.h"
#include "import.h"

/* Whether the host does this node: what it computes, or an operand of it, is nothing for cores. */
bool host_takes(import_node *n);
/* Is it SplitToSequence of which only single parts are taken, or does it take one
 * (expand_sequence.c)? */
bool sequence_is_known(const import_node *n);
/* An initializer or attribute of strings: a step that makes it. */
wafer_status strings_step(importer *im, const onnx_tensor *tensor, name_entry *entry);

/* A step that makes a value of its own of one that is another's too. */
wafer_status copy_step(importer *im, name_entry *entry);

/* The values of the node's inputs from `first` on, WAFER_NONE where one is left out. */
wafer_status host_inputs(import_node *n, uint32_t first, number_list *out);
/* Adds a step with the node's name, whose outputs become the node's results. `types[i].dtype` none:
 * a host value, unless the model declares a static type. */
wafer_status host_step(import_node *n, wafer_step *step, uint32_t output_count,
                       const wafer_type *types);

/* The node's first result: strings of its attribute `name`, those that a tensor of i64 counts. */
wafer_status host_texts_at(import_node *n, const char *name, MlirValue place);

/* The static tensor type that the graph of `s` declares for a name; dtype none: there is none. */
wafer_type host_declared(const scope *s, const char *name);
wafer_type host_static_type(const onnx_type *type);

#endif
