/* What a file says of its initializers: which of them its module learned, and which are constants
 * that an exporter made of numbers, masks and tables. PyTorch's exporter (torch.onnx.export with
 * dynamo) writes the signature of the exported program into the graph's metadata, a line
 *
 *     p_0_weight: PARAMETER target='0.weight'
 *
 * for each parameter, and the kind beside each value; its optimizer writes beside what it folded
 * from which values it made that. Most files say nothing: there every float tensor may be one. */
#ifndef FRONTEND_PARAMETERS_H
#define FRONTEND_PARAMETERS_H

#include "scope.h"

typedef struct parameter_list {
  bool told;    /* the file names parameters */
  scope names;  /* of these */
  scope folded; /* of what was computed from at least one of these when the file was made */
} parameter_list;

/* False: out of memory. The list refers to the graph. */
bool parameters_read(parameter_list *list, wafer_arena *arena, const onnx_graph *graph);
/* What a file that tells parameters does not name as one, nor as made of one. */
bool parameters_exclude(const parameter_list *list, const char *name);

#endif
