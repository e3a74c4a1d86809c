/* The order in which the nodes of a graph can be imported. */
#ifndef FRONTEND_ORDER_H
#define FRONTEND_ORDER_H

#include "scope.h"
#include "wafer/diag.h"

typedef struct node_order {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;   /* what is made lives here */
  const scope *visible; /* names that are there before the first node */
  const onnx_nodes *nodes;
} node_order;

/* Indices of the nodes, each behind those whose results it or a graph inside it uses. NULL: that is
 * how they stand. Otherwise they stay as they are but for the nodes that others before them use,
 * which come right before the first of these. A cycle is an error that names one of its nodes. */
WAFER_MUST_USE wafer_status order_nodes(const node_order *order, const size_t **out);

#endif
