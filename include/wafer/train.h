/* The training loop. It knows steps, rates and checkpoints; who runs micro-batches and who keeps
 * weights is behind a table of functions, the transport: in this process, or over ranks.
 *
 *     data -> micro-batches -> systems -> gradients -> SwarmX -> MemoryX -> weights -> systems
 *
 * What a run computes is a function of model, data and options. The number of systems, servers,
 * processes and threads changes nothing: the micro-batch is given, sums follow SwarmX's tree, and
 * MemoryX works in a fixed order. */
#ifndef WAFER_TRAIN_H
#define WAFER_TRAIN_H

#include "wafer/checkpoint.h"
#include "wafer/dataset.h"
#include "wafer/memoryx.h"
#include "wafer/plan.h"
#include "wafer/ranks.h"
#include "wafer/step_clock.h"
#include "wafer/swarmx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a system: what runs one micro-batch ---- */

typedef struct wafer_micro_batch {
  const void *const *fields;  /* dense arrays, as `fields` of the system describes them */
  float loss_gradient;        /* where the backward pass starts: a power of two */
  uint64_t seed, step, index; /* of random draws: the run's, the step, the micro-batch in it */
} wafer_micro_batch;

typedef struct wafer_answer {
  double loss, count, correct; /* sums; correct 0 where nobody counts it */
  uint32_t gradient_count;     /* 0: evaluation; else one per parameter */
  const wafer_view *gradients; /* the system's until its next run */
  /* Emulated: the whole micro-batch, and from its beginning, per parameter, when its gradient was
   * out and when its weight had come in for the last time. NULL: not known. */
  uint64_t cycles;
  const uint64_t *left, *read;
} wafer_answer;

typedef struct wafer_system {
  void *self;
  /* The current value of a parameter, borrowed and read in every run. */
  wafer_status (*bind)(void *self, uint32_t parameter, const void *data);
  wafer_status (*run)(void *self, const wafer_micro_batch *batch, wafer_answer *out);
  void (*destroy)(void *self);
} wafer_system;

/* A session of a training plan, at kernel fidelity. Fields: the inputs of functions[0] but labels,
 * seed and noises, in order, then the labels. Parameters: plan->training->trained, in order. */
wafer_status wafer_system_open(const wafer_diag *diag, const wafer_plan *plan, uint32_t threads,
                               wafer_system *out);
/* The plan values that are fields, in that order: at most `room` of them are written. */
uint32_t wafer_plan_fields(const wafer_plan *plan, uint32_t *values, uint32_t room);
/* Fills `to` with draws from [0, 1), 24 bits each: Philox4x32-10 (Salmon et al., "Parallel Random
 * Numbers: As Easy as 1, 2, 3", SC11), counter (element / 4, index, step), key seed and node. */
void wafer_draw_uniform(uint64_t seed, uint64_t node, uint64_t step, uint64_t index, float *to,
                        uint64_t count);

/* ---- the transport ---- */

/* Micro-batch i of `micro_batches` has samples first + i * micro_batch ... */
typedef struct wafer_work {
  bool evaluate;
  uint64_t step;
  uint64_t first, micro_batches;
  float loss_gradient;
} wafer_work;

typedef struct wafer_transport {
  void *self;
  /* Runs the micro-batches on the systems and sums: `scalars` are loss, count and right answers.
   * The finished gradients are where MemoryX is. */
  wafer_status (*run)(void *self, const wafer_work *work, double scalars[WAFER_SWARMX_SCALARS]);
  /* Sum of squares of the finished gradients. */
  wafer_status (*squares)(void *self, double *squares);
  wafer_status (*update)(void *self, const wafer_update *update);
  /* Emulated cycles of the step run last, counted from what it did; zeros where the systems do not
   * know theirs. `waits`: updates needed all sums first; `skips`: there was none. */
  wafer_status (*count)(void *self, bool waits, bool skips, wafer_step_time *out);
  /* Loss, count and right answers over all of the evaluation data. */
  wafer_status (*evaluate)(void *self, double scalars[WAFER_SWARMX_SCALARS]);
  /* Weights and state as tables, for a checkpoint; data is valid until the next call. */
  wafer_status (*save)(void *self, wafer_arena *arena, wafer_weights **weights,
                       wafer_weights **state);
  wafer_status (*load)(void *self, const wafer_weights *weights, const wafer_weights *state);
  void (*destroy)(void *self);
} wafer_transport;

/* What this process has of a run. Alone: everything, `systems` ranges of micro-batches one after
 * the other through one session, each with partial sums of its own. As one of several ranks: a
 * share of systems and weight servers, and a node of SwarmX (docs/training.md); every rank is given
 * the same but for `ranks`. */
typedef struct wafer_local {
  const wafer_diag *diag;
  const wafer_machine *machine; /* whose clock counts */
  uint32_t systems;
  wafer_system training, evaluation;     /* owned from here on; a zero one is absent */
  wafer_system rest;                     /* evaluation of the last, smaller micro-batch */
  const wafer_dataset *data, *eval_data; /* NULL: none */
  const wafer_gather *fields;            /* of both */
  uint32_t micro_batch, eval_micro_batch;
  bool shuffle;
  uint64_t seed;
  const wafer_parameter *parameters;
  uint32_t parameter_count;
  wafer_memoryx_options memoryx;
  wafer_ranks ranks; /* borrowed; zero: alone */
} wafer_local;

wafer_status wafer_transport_local(const wafer_local *local, wafer_transport *out);
/* On ranks above 0, which call nothing else of the table: does what rank 0's calls ask for, until
 * it calls wafer_transport_end. */
wafer_status wafer_transport_serve(const wafer_transport *transport);
wafer_status wafer_transport_end(const wafer_transport *transport);

/* ---- the loop ---- */

typedef struct wafer_train_step {
  uint64_t step;               /* done, from 1 */
  double loss;                 /* mean over the elements that count */
  double lr, norm, loss_scale; /* norm of the mean's gradient, before clipping */
  bool skipped;                /* the loss scale was too large */
  wafer_step_time time;        /* emulated, of wafer_transport.count */
} wafer_train_step;

typedef struct wafer_train_score {
  uint64_t step;
  double loss, accuracy; /* accuracy: of 1; NAN where the loss has no classes */
} wafer_train_score;

/* Who is told; members may be NULL. */
typedef struct wafer_train_watch {
  void *self;
  wafer_status (*begin)(void *self, uint64_t step); /* steps done before this one run */
  wafer_status (*step)(void *self, const wafer_train_step *step);
  wafer_status (*score)(void *self, const wafer_train_score *score);
  wafer_status (*saved)(void *self, uint64_t step);
} wafer_train_watch;

typedef struct wafer_train_options {
  const wafer_diag *diag;
  uint64_t steps, batch, seed; /* batch: samples of a step over all systems */
  uint32_t micro_batch;        /* divides the batch */
  uint64_t samples;            /* of the data; 0: not known */
  uint64_t elements;           /* elements of a sample that its loss has at most */
  wafer_optimizer optimizer;
  wafer_schedule schedule;
  double clip_norm; /* 0: no clipping */
  wafer_loss_scale loss_scale;
  bool classes;        /* the loss has right answers */
  uint64_t eval_every; /* 0: after the last step alone; without evaluation data never */
  bool evaluate;
  const char *model, *loss;        /* for the checkpoint */
  const char *sparsity;            /* likewise; NULL: "0 dense" */
  const char *settings;            /* likewise, as of wafer_checkpoint */
  const char *checkpoint;          /* folder; NULL: none */
  uint64_t checkpoint_every, keep; /* 0: after the last step alone; 0: all */
  bool resume;
  wafer_train_watch watch;
} wafer_train_options;

/* USAGE: options that do not fit each other or the checkpoint. TRAP: gradients are not finite and
 * no dynamic loss scale helps. */
wafer_status wafer_train(const wafer_train_options *options, const wafer_transport *transport);
/* Evaluation alone, of the newest checkpoint of the folder that is named, or of that checkpoint; a
 * run may be writing there meanwhile. */
wafer_status wafer_train_evaluate(const wafer_train_options *options,
                                  const wafer_transport *transport);

#ifdef __cplusplus
}
#endif
#endif
