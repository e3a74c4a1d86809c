/* The parts of wafer_plan_check: each proves one kind of law, in the order of plan_check.c, and may
 * rely on what those before it proved. Private to runtime/. */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include <inttypes.h>

#include "wafer/plan.h"

typedef struct plan_check {
  const wafer_diag *diag;
  const char *file;
  const wafer_plan *plan;
  wafer_arena *arena; /* dies with the check */
  uint8_t *side;      /* per router, while colours are checked */
  uint64_t *peaks;    /* per phase, found where they are wanted; NULL: the plan's own are checked */
} plan_check;

wafer_loc plan_check_at(const plan_check *c, const wafer_kernel *kernel);
/* The ONNX node behind a kernel: its anchor's. */
const char *plan_check_node(const wafer_kernel *kernel);
wafer_status plan_check_no_memory(const plan_check *c);

/* Element type, rank, dims: what every later computation takes for granted. */
wafer_status plan_check_type(const plan_check *c, wafer_loc loc, const char *what,
                             const wafer_type *type);
/* plan_check_body.c: the body of a kernel is one that costs can be computed of. */
wafer_status plan_check_body(const plan_check *c, const wafer_kernel *kernel);
/* plan_check_stripes.c: samples divide by stripes; once kernels are known to be inside the wafer:
 * so are those of all stripes, apart from each other. */
wafer_status plan_check_stripes(const plan_check *c);
wafer_status plan_check_stripe_columns(const plan_check *c);
/* plan_check_kernel.c: operands, split, rectangle, cost, memory map. */
wafer_status plan_check_kernel(const plan_check *c, const wafer_kernel *kernel);
/* plan_check_stream.c: one stream; then the colours of a phase. */
wafer_status plan_check_stream(const plan_check *c, uint32_t stream);
wafer_status plan_check_colors(plan_check *c, const wafer_phase *phase);
/* plan_check_space.c: rectangles of a phase are disjoint. */
wafer_status plan_check_disjoint(const plan_check *c, const wafer_phase *phase);
/* Dead cores in a rectangle inside the fabric: two look-ups for each row of it that has any. */
uint32_t plan_check_dead_in(const plan_check *c, wafer_rect rect);
/* plan_check_run.c: follows the functions of the wafer. */
wafer_status plan_check_functions(const plan_check *c);
/* plan_check_program.c: follows those of the host. */
wafer_status plan_check_host_functions(const plan_check *c);
/* plan_check_training.c: what a driver of training relies on. */
wafer_status plan_check_training(const plan_check *c);

/* A rectangle and what it weighs. */
typedef struct plan_weighed {
  wafer_rect rect;
  uint64_t weight;
} plan_weighed;

/* The largest sum of weights over any core, and one core where it is. O(n log n). False: no memory.
 */
bool plan_check_heaviest(wafer_arena *arena, size_t count, const plan_weighed *rects,
                         uint64_t *most, wafer_core_at *at);

static inline bool plan_check_among(const uint32_t *values, uint32_t count, uint32_t value) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i] == value) return true;
  return false;
}

static inline bool plan_check_inside(wafer_rect outer, wafer_rect inner) {
  return inner.width >= 1 && inner.height >= 1 && wafer_rect_within(inner, outer);
}

#endif
