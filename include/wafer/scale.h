/* What a training step costs on N systems, predicted from the training plan of one micro-batch.
 *
 * The law, in cycles of the wafer's clock:
 *   step = ceil(micro-batches / N) * micro-batch + sum + update
 * - micro-batch: the plan's timeline (wafer_timeline_run): weights from MemoryX, inputs at the
 * edge, kernels, gradients out at the edge, each at the machine's rate.
 * - sum: SwarmX, a tree of broadcast-reduce nodes of the machine's fan-out: down and up its depth
 * at swarmx hop-cycles, and one vector of all gradients at its rate.
 * - update: MemoryX reads the gradients, reads and writes weights and state, at its rate on each of
 *   its servers, after its latency.
 * Sum and update follow the last micro-batch: nothing is hidden behind it. */
#ifndef WAFER_SCALE_H
#define WAFER_SCALE_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_scale_options {
  uint64_t systems;       /* at least 1 */
  uint64_t micro_batches; /* of a step, over all systems; at least 1 */
  uint64_t servers;       /* of MemoryX; 0: 1 */
  uint64_t state_bytes;   /* of MemoryX for each trained element: weight and optimizer state */
  double density;         /* of the weights, above 0 to 1; 0: 1 */
} wafer_scale_options;

typedef struct wafer_scale_step {
  uint64_t depth;                                  /* of the SwarmX tree: 0 for one system */
  uint64_t rounds;                                 /* micro-batches of the busiest system */
  uint64_t micro_batch, system, sum, update, step; /* cycles; system = rounds * micro-batch */
  double seconds;
} wafer_scale_step;

/* Bytes that cross the edge of one wafer for one micro-batch. */
typedef struct wafer_scale_traffic {
  uint64_t weights, inputs, gradients, outputs;
} wafer_scale_traffic;

/* Bytes of a core in the phase that needs most. */
typedef struct wafer_scale_core {
  const char *phase;
  uint64_t code, weights, inputs, outputs, scratch, held, all;
} wafer_scale_core;

/* USAGE: the plan does not train. */
wafer_status wafer_scale_predict(const wafer_diag *diag, const wafer_plan *plan,
                                 const wafer_scale_options *options, wafer_scale_step *out);
/* The cycles of one micro-batch alone, for many calls of wafer_scale_of. A density below 1 shortens
 * phases of products with weights: time goes with the non-zeros, each of which is sent as an index
 * and a value. */
wafer_status wafer_scale_micro_batch(const wafer_diag *diag, const wafer_plan *plan, double density,
                                     uint64_t *cycles);
void wafer_scale_of(const wafer_plan *plan, const wafer_scale_options *options,
                    uint64_t micro_batch, wafer_scale_step *out);

uint64_t wafer_scale_parameters(const wafer_plan *plan); /* trained elements */
wafer_scale_traffic wafer_scale_edge(const wafer_plan *plan);
wafer_scale_core wafer_scale_memory(const wafer_plan *plan);
/* The most bytes of a core that wait, in any phase, for later ones. */
uint64_t wafer_scale_held(const wafer_plan *plan);

/* What a cluster of N processors of `memory` bytes would need for the same step, per processor:
 * standard formulas, elements of 2 bytes, weights and optimizer state 16 bytes a parameter. */
typedef struct wafer_scale_gpu {
  uint64_t processors;
  double data_memory, pipeline_memory, tensor_memory; /* bytes */
  double data_bytes, pipeline_bytes, tensor_bytes;    /* moved in a step */
  bool data_fits, pipeline_fits, tensor_fits;
} wafer_scale_gpu;
wafer_scale_gpu wafer_scale_cluster(double parameters, double activations_per_sample, double layers,
                                    double batch, uint64_t processors, double memory);

#ifdef __cplusplus
}
#endif
#endif
