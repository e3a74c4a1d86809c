/* What a training step costs on N systems, predicted from the training plan of one micro-batch.
 *
 * The law, in cycles of the wafer's clock:
 *   step = hops + ceil(micro-batches / N) * micro-batch + sum + update
 * - hops: new weights go down the SwarmX tree, swarmx hop-cycles a level.
 * - micro-batch: the plan's timeline (wafer_timeline_run): weights from MemoryX, inputs at the
 *   edge, kernels, gradients out at the edge, each at the machine's rate.
 * - sum: what is left of the sums when the last micro-batch ends. Weight i's gradient is out L_i
 *   cycles after its beginning, takes C_i on a link of SwarmX and a hop per level, one after the
 *   other in the order in which they are out:
 *     S_i = max over j up to i of (L_j + C_j + ... + C_i) + hops
 * - update: what is left of the updates then. MemoryX reads a weight's gradients, reads and writes
 *   weight and state in U_i cycles, its servers sharing the work, when the sum is there, after its
 *   latency, and when the weight has gone to the wafer for the last time of the step, R_i:
 *     E_i = max over j up to i of (max(S_j + latency, R_j) + U_j + ... + U_i)
 *   Updates that wait for all sums (clipping, a dynamic loss scale) begin after the last one, and
 *   two latencies more for the squares and the factor.
 * wafer/step_clock.h counts the same of a run. */
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
  bool waits;             /* updates need all sums */
} wafer_scale_options;

typedef struct wafer_scale_step {
  uint64_t depth;                 /* of the SwarmX tree: 0 for one system */
  uint64_t rounds;                /* micro-batches of the busiest system */
  uint64_t micro_batch;           /* cycles, as all below */
  uint64_t system;                /* hops, and rounds micro-batches */
  uint64_t sum, update;           /* not hidden behind the rest */
  uint64_t step;                  /* system + sum + update */
  uint64_t sum_work, update_work; /* hidden or not: of a link, of a server */
  double seconds;
} wafer_scale_step;

/* A weight's gradient in a micro-batch: cycles from its beginning. */
typedef struct wafer_scale_gradient {
  uint64_t left, read;      /* L and R of the law */
  uint64_t elements, bytes; /* bytes: of a sum, f32; of a sparse weight with places */
} wafer_scale_gradient;

typedef struct wafer_scale_pass {
  uint64_t cycles;
  uint32_t count;
  const wafer_scale_gradient *gradients; /* in the order in which they are out */
} wafer_scale_pass;

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
/* One micro-batch, in the arena, for many calls of wafer_scale_of. A density below 1 shortens
 * phases of products with weights: time goes with the non-zeros, each of which is sent as an index
 * and a value. */
wafer_status wafer_scale_micro_batch(const wafer_diag *diag, wafer_arena *arena,
                                     const wafer_plan *plan, double density, wafer_scale_pass *out);
void wafer_scale_of(const wafer_machine *machine, const wafer_scale_options *options,
                    const wafer_scale_pass *pass, wafer_scale_step *out);

uint64_t wafer_scale_parameters(const wafer_plan *plan); /* trained elements */
bool wafer_scale_recomputes(const wafer_plan *plan);     /* activations of the forward pass */
wafer_scale_traffic wafer_scale_edge(const wafer_plan *plan);
wafer_scale_core wafer_scale_memory(const wafer_plan *plan);

/* ---- a cluster of processors beside it ---- */

/* The model as the formulas of clusters see it. Layers: blocks of products with weights of the same
 * shapes that follow one another and make up at least two thirds of all such products; else each
 * product is a layer. Activations: what a layer takes, of a sample; the rest of a layer is computed
 * again in the backward pass. */
typedef struct wafer_scale_model {
  double parameters;
  double layers;      /* L */
  double activations; /* elements of a sample, over all layers: L T */
  double batch;       /* samples of a step */
} wafer_scale_model;

/* NO_MEMORY alone fails. `batch` is left 0. */
wafer_status wafer_scale_model_of(const wafer_diag *diag, const wafer_plan *plan,
                                  wafer_scale_model *out);

/* Degrees of parallelism: their product is the number of processors. */
typedef struct wafer_scale_grid {
  uint64_t data, pipeline, tensor;
} wafer_scale_grid;

/* What a cluster of N processors of `memory` bytes needs for the same step, per processor: elements
 * of 2 bytes, weights and optimizer state 16 bytes a parameter; up to 8 processors for tensor
 * parallelism, up to L for the pipeline, up to the batch for data. */
typedef struct wafer_scale_gpu {
  uint64_t processors;
  double data_memory, pipeline_memory, tensor_memory; /* each alone: bytes, moved in a step */
  double data_bytes, pipeline_bytes, tensor_bytes;
  bool data_fits, pipeline_fits, tensor_fits;
  /* Of all grids of N processors that fit the one with the fewest kinds of parallelism, then the
   * most data, then the most tensor parallelism; zeros: none fits. A kind is forced when no grid
   * that fits does without. */
  wafer_scale_grid grid;
  bool data_forced, pipeline_forced, tensor_forced;
} wafer_scale_gpu;
wafer_scale_gpu wafer_scale_cluster(const wafer_scale_model *model, uint64_t processors,
                                    double memory);

#ifdef __cplusplus
}
#endif
#endif
