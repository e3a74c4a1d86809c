/* Optimizers: what they are, their numbers, the learning rate of a step and the loss scale.
 * Everything is a function of its arguments: the same on every host and for any number of threads.
 */
#ifndef WAFER_OPTIMIZER_H
#define WAFER_OPTIMIZER_H

#include "wafer/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_optimizer_kind {
#define OPTIMIZER(name, ...) WAFER_OPTIMIZER_##name,
#include "wafer/optimizer.def"
  WAFER_OPTIMIZER_COUNT
} wafer_optimizer_kind;

const char *wafer_optimizer_name(wafer_optimizer_kind kind);
/* WAFER_OPTIMIZER_COUNT: there is none of that name. */
wafer_optimizer_kind wafer_optimizer_by_name(const char *name);
/* Whether its rule has that number: momentum, beta1, beta2 or eps. */
bool wafer_optimizer_reads(wafer_optimizer_kind kind, const char *number);
/* Whether pipelined training, whose weights stay on the wafer, has it. */
bool wafer_optimizer_on_wafer(wafer_optimizer_kind kind);

/* f32 values of state per element of a weight; of the factored ones 0. */
uint32_t wafer_optimizer_slots(wafer_optimizer_kind kind);

/* The numbers of an optimizer; those it does not use are ignored. */
typedef struct wafer_optimizer {
  wafer_optimizer_kind kind;
  double lr; /* base rate of the schedule */
  double weight_decay;
  double momentum;     /* momentum, nesterov */
  double beta1, beta2; /* adam, adamw, lion; beta2 is also rmsprop's smoothing (PyTorch: alpha) */
  double eps;          /* adam, adamw, adagrad, rmsprop; adafactor: of the weight's norm */
} wafer_optimizer;

/* PyTorch's defaults (sgd's rate, where it has none, is 0.01; momentum 0.9); lion's are those of
 * Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023. */
wafer_optimizer wafer_optimizer_default(wafer_optimizer_kind kind);
/* USAGE: a number is out of its range. */
wafer_status wafer_optimizer_check(const wafer_diag *diag, const wafer_optimizer *optimizer);

/* ---- learning rate ---- */

/* SCHEDULE(name, factor of the rate at progress p in [0, 1] from the end of the warm-up) */
#define WAFER_SCHEDULE_MAP(X)                                                                      \
  X(constant, "1")                                                                                 \
  X(linear, "from 1 to end at the last step")                                                      \
  X(cosine, "from 1 to end along half a cosine")                                                   \
  X(step, "gamma ^ floor(steps / every)")

typedef enum wafer_schedule_kind {
#define X(name, summary) WAFER_SCHEDULE_##name,
  WAFER_SCHEDULE_MAP(X)
#undef X
      WAFER_SCHEDULE_COUNT
} wafer_schedule_kind;

const char *wafer_schedule_name(wafer_schedule_kind kind);
wafer_schedule_kind wafer_schedule_by_name(const char *name); /* WAFER_SCHEDULE_COUNT: none */

typedef struct wafer_schedule {
  wafer_schedule_kind kind;
  uint64_t warmup; /* steps: step s of them has (s + 1) / warmup of the rate */
  uint64_t steps;  /* of the whole run, warm-up included */
  uint64_t every;  /* of step; 0: never */
  double gamma;    /* of step */
  double end;      /* of linear and cosine: the factor of the last step */
} wafer_schedule;

/* Factor of the rate for step 0, 1, ... */
double wafer_schedule_factor(const wafer_schedule *schedule, uint64_t step);

/* ---- loss scale ---- */

/* With f16 storage small gradients vanish unless the loss is scaled. Dynamic: a step whose finished
 * gradients hold an infinity or NaN changes nothing and halves the scale; `patience` good steps in
 * a row double it. */
typedef struct wafer_loss_scale {
  bool dynamic;
  double scale;
  uint64_t patience; /* 2000 */
  uint64_t good;     /* good steps since the last change */
} wafer_loss_scale;

void wafer_loss_scale_step(wafer_loss_scale *scale, bool finite);

#ifdef __cplusplus
}
#endif
#endif
