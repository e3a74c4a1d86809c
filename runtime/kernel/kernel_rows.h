/* Rows by indices that only the run knows, of families gather and scatter. Private to their files.
 */
#ifndef RUNTIME_KERNEL_ROWS_H
#define RUNTIME_KERNEL_ROWS_H

#include "kernel_move.h"

typedef struct kernel_rows {
  wafer_rate rate; /* of an element of a row */
  wafer_dtype
      dtype;        /* in which rows are put together: sums and products round once, where stored */
  uint64_t indices; /* that a core looks at, */
  uint64_t parts;   /* each of which has as many of their rows */
  uint64_t elements; /* of a row on a core */
  bool tables;       /* indices look rows up in several tables of the core */
  bool begins;       /* a row may be missing: what they are put into is begun first */
} kernel_rows;

/* Row by row, an instruction each: how backend/program/program_rows.c goes. */
uint64_t kernel_rows_cycles(const kernel_view *k, uint32_t node, const kernel_rows *rows);

#endif
