/* Decision trees, whatever operator they are from (expand_trees.c), and what becomes of them
 * (expand_forest.c). */
#ifndef FRONTEND_FOREST_H
#define FRONTEND_FOREST_H

#include "import.h"

/* What a node asks of its feature, as TreeEnsemble numbers it. */
enum { FOREST_LEQ, FOREST_LT, FOREST_GTE, FOREST_GT, FOREST_EQ, FOREST_NEQ, FOREST_MEMBER };

/* Interior nodes are places 0 .. nodes - 1, leaves come behind them. */
typedef struct forest {
  int64_t nodes, leaves, trees, targets;
  const int64_t *features, *modes, *yes, *no; /* per node; yes and no are places */
  const int64_t *missing;                     /* per node: whether NaN passes; NULL: nowhere */
  const double *splits;                       /* per node */
  wafer_view members;   /* sets of the nodes that ask for one, each behind the other, NaN between */
  const int64_t *roots; /* per tree, places */
  const double *weights; /* (leaves, targets); NaN: the leaf says nothing of the target */
} forest;

/* How the leaves that a sample comes to become one number per target. */
typedef enum forest_sum { FOREST_AVERAGE, FOREST_SUM, FOREST_MIN, FOREST_MAX } forest_sum;

/* (samples, features) to (samples, targets), in the operand's type; the node fails where places are
 * not there or lead in circles. */
MlirValue emit_forest(import_node *n, const forest *f, MlirValue x, forest_sum how);

#endif
