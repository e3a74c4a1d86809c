/* What the views of `wafer dump` share. */
#ifndef WAFER_DUMP_H
#define WAFER_DUMP_H

#include <stdio.h>

#include "cli.h"
#include "wafer/plan.h"

typedef unsigned long long ull;
struct cJSON;

/* Everything, as text. */
void dump_text(FILE *to, const wafer_plan *plan);
/* A kernel by name, else by number, k0 or 0; plan->kernel_count when there is none. */
uint32_t dump_find_kernel(const wafer_plan *plan, const char *name);
/* What is proved of each phase, and the order of its actions. */
wafer_status dump_certificate(FILE *to, const wafer_diag *diag, const wafer_plan *plan);
/* Why a kernel has its size and place, what limits it, what more cores would buy. */
wafer_status dump_why(FILE *to, const wafer_diag *diag, const wafer_plan *plan, uint32_t kernel);
/* What moved from one plan to another, and what it cost: text, or JSON of schema wafer-diff-1. */
wafer_status dump_diff(FILE *to, const wafer_diag *diag, const wafer_plan *before,
                       const wafer_plan *after, bool json);
/* One kernel with its ops, layouts, cost, memory and streams. */
void dump_kernel(FILE *to, const wafer_plan *plan, uint32_t kernel);
/* The assembly of its program (docs/assembly.md); made here when the plan has none. */
wafer_status dump_program(FILE *to, const wafer_diag *diag, const wafer_plan *plan,
                          uint32_t kernel);
/* The memory map of a core, phase by phase. */
wafer_status dump_core(FILE *to, const wafer_diag *diag, const wafer_plan *plan, uint32_t x,
                       uint32_t y);
/* docs/plan-format.md says what is in it; malloc'ed, NULL when out of memory. */
char *dump_json(const wafer_plan *plan);
/* Writes the picture atomically. */
wafer_status dump_svg(const wafer_diag *diag, const wafer_plan *plan, const char *path);

/* The plan's training, if it has one, as text and as part of the JSON. */
void dump_training(FILE *to, const wafer_plan *plan);
void dump_training_json(struct cJSON *root, const wafer_plan *plan);

/* Parts that several views print; `bytes` are of the buffer, longer text is cut. */
void dump_type(const wafer_type *type, char *buffer, size_t bytes); /* 1x3x48x320xf32 */
void dump_holding(const wafer_holding *holding, char *buffer,
                  size_t bytes); /* "30x20 at 4,8, 1x64x4x4 parts" */
void dump_split(const wafer_kernel *kernel, char *buffer, size_t bytes);
/* The rectangle of all replicas of a kernel. */
wafer_rect dump_extent(const wafer_kernel *kernel);

#endif
