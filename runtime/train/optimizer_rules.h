/* One update of a piece of a weight by each optimizer, in f32. Elementwise rules may be applied to
 * any pieces in any order; the result does not depend on the instruction set either. */
#ifndef RUNTIME_OPTIMIZER_RULES_H
#define RUNTIME_OPTIMIZER_RULES_H

#include <stdint.h>

#include "wafer/optimizer.h"
#include "wafer/tensor.h"

#define RULE_SLOTS 2 /* most state arrays of a weight */

/* The numbers of one update, rounded to f32 once. */
typedef struct rule_step {
  wafer_optimizer_kind kind;
  float scale; /* of the gradient, before anything else */
  float lr, decay, momentum, eps;
  float beta1, rest1, beta2, rest2; /* rest = 1 - beta */
  float size, root;                 /* adam: lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
  double rate, average;             /* adafactor: min(lr, 1/sqrt t), t^-0.8 */
} rule_step;

/* `t` counts updates from 1. */
rule_step rule_step_of(const wafer_optimizer *optimizer, uint64_t t, double lr, double scale);

/* The state of a weight, one array per slot. Suffix of its name in checkpoints: "m", "v" ... */
typedef struct rule_slot {
  const char *suffix;
  wafer_shape shape;
} rule_slot;
uint32_t rule_slots(wafer_optimizer_kind kind, const wafer_shape *shape, rule_slot *slots);

/* False: the rule needs the whole weight at once, rule_factored. */
bool rule_elementwise(wafer_optimizer_kind kind);
void rule_apply(const rule_step *step, float *w, const float *g, float *const *slots, size_t n);
void rule_factored(const rule_step *step, const wafer_shape *shape, float *w, const float *g,
                   float *const *slots);

/* The sum of squares in f64, in a fixed order; not finite when an element is not. */
double rule_squares(const float *x, size_t n);
/* to[i] += from[i]. */
void rule_add(float *to, const float *from, size_t n);

#endif
