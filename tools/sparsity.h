/* What --sparsity and --mask take, and what the report says of sparse weights. */
#ifndef TOOLS_SPARSITY_H
#define TOOLS_SPARSITY_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "wafer/wafer.h"

typedef struct sparsity_masks {
  size_t count, room;
  wafer_value_binding *at;
} sparsity_masks;

wafer_status sparsity_parse(const char *command, const char *text, double *out);
/* NAME=FILE.npy, or every tensor of a .safetensors file. */
wafer_status sparsity_add_mask(const char *command, wafer_arena *arena, const char *text,
                               sparsity_masks *masks);

/* report_sparsity.c: nothing of plans whose weights are all dense. */
void report_print_sparsity(FILE *to, const wafer_plan *plan);
void report_add_sparsity(cJSON *root, const wafer_plan *plan);
#define REPORT_LEAN 1.3 /* times the density: products that take more are said not to be lean */
/* The products' share of the dense multiply cycles, in times the density; 0: none is sparse. */
double report_waste(const wafer_plan *plan);

#endif
