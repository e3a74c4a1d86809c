/* MemoryX: weights and the optimizer's state outside of the wafer, over a number of weight servers.
 * A weight lies whole on one server, with its state; which one does not influence any result.
 *
 * In memory, or with `store` in files in that folder that are mapped and have no name: what a run
 * keeps for good are its checkpoints. With files, state may be larger than the host's memory. */
#ifndef WAFER_MEMORYX_H
#define WAFER_MEMORYX_H

#include "wafer/optimizer.h"
#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_parameter {
  const char *name; /* borrowed while the MemoryX lives */
  wafer_dtype
      dtype; /* f32, f16 or bf16; what is not f32 has a master copy in f32 that is updated */
  wafer_shape shape;
  const void *initial; /* dense row-major; NULL: zeros */
  bool statistic;      /* no weight: without state, it becomes the mean of its "gradients" */
  bool sparse; /* zeros of `initial`, which is borrowed too, stay zero whatever is loaded or updated
                */
} wafer_parameter;

typedef struct wafer_memoryx_options {
  wafer_optimizer optimizer;
  uint32_t servers;  /* 0: 1 */
  const char *store; /* folder; NULL: in memory */
  uint32_t threads;  /* 0: as many as the machine has */
  const wafer_diag *diag;
} wafer_memoryx_options;

typedef struct wafer_memoryx wafer_memoryx;

/* What a parameter and its state take on a server. */
uint64_t wafer_memoryx_bytes_of(const wafer_optimizer *optimizer, const wafer_parameter *parameter);
/* Which server each parameter goes to: in their order, to the one that has fewest bytes so far. */
wafer_status wafer_memoryx_assign(const wafer_memoryx_options *options,
                                  const wafer_parameter *parameters, uint32_t count,
                                  uint32_t *server);
/* UNSUPPORTED: a parameter's type. NO_MEMORY or IO: no room. */
wafer_status wafer_memoryx_create(const wafer_memoryx_options *options,
                                  const wafer_parameter *parameters, uint32_t count,
                                  wafer_memoryx **out);
void wafer_memoryx_destroy(wafer_memoryx *memoryx); /* NULL is fine */

/* The current value, dense, of the parameter's type, at the same place for the MemoryX's life. */
const void *wafer_memoryx_weight(const wafer_memoryx *memoryx, uint32_t parameter);

/* Gradients are one vector: parameter i's elements begin at offset(i); offset(count) is its length.
 */
uint64_t wafer_memoryx_offset(const wafer_memoryx *memoryx, uint32_t parameter);

/* Per parameter the sum of squares of its gradients in f64, in a fixed order of pieces; not finite
 * when an element is not. 0 of a statistic. */
void wafer_memoryx_squares(wafer_memoryx *memoryx, const float *gradients, double *squares);

typedef struct wafer_update {
  uint64_t number; /* of updates so far, this one included: from 1 */
  double lr;       /* of this step */
  double scale;    /* of every gradient: 1 / elements, loss scale and clipping in one number */
  double share;    /* of every statistic: 1 / micro-batches */
} wafer_update;

void wafer_memoryx_update(wafer_memoryx *memoryx, const wafer_update *update,
                          const float *gradients);

/* What a checkpoint holds beside the weights: "NAME:m", "NAME:v" ... and "NAME:master" for weights
 * that are not f32; in the order of parameters. Data may be written, then wafer_memoryx_loaded. */
uint32_t wafer_memoryx_state_count(const wafer_memoryx *memoryx);
typedef struct wafer_memoryx_state {
  uint32_t parameter;
  const char *suffix;
  wafer_shape shape;
  float *data;
} wafer_memoryx_state;
wafer_memoryx_state wafer_memoryx_state_at(const wafer_memoryx *memoryx, uint32_t index);
/* A parameter's value from outside, of its type; its master copy follows unless state is loaded
 * after it. */
void wafer_memoryx_set(wafer_memoryx *memoryx, uint32_t parameter, const void *data);

#ifdef __cplusplus
}
#endif
#endif
