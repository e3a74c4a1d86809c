/* Constants of kernels as bytes in memories. Private to backend/. */
#ifndef BACKEND_LAUNCH_DATA_H
#define BACKEND_LAUNCH_DATA_H

#include "program/program.h"
#include "wafer/launch.h"

typedef struct launch_data_list {
  uint32_t count, room;
  wafer_launch_data *at;
} launch_data_list;

/* Appends what the cores hold of a constant: rectangles of cores that hold the same, once each.
 * False: out of memory. */
bool launch_data_add(wafer_arena *arena, const program_data *data, launch_data_list *list);

#endif
