/* Checkpoints of training: DIR/step-NNNNNNNN/ with
 *   weights.safetensors  the trained weights, of the model's types
 *   state.safetensors    the optimizer's state: "NAME:m", "NAME:v" ...
 *   checkpoint.json      where the run is, and sizes and digests (XXH3-64) of the two
 * A checkpoint is written aside, synced and renamed: it is there completely or not at all, whenever
 * the process or the machine dies. Its bytes are a function of the run alone, of its model, data
 * and options: not of the number of systems, servers or threads, nor of time. */
#ifndef WAFER_CHECKPOINT_H
#define WAFER_CHECKPOINT_H

#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a run is. Strings of one that was read live in the arena. */
typedef struct wafer_checkpoint {
  const char *model; /* path of the ONNX file */
  const char *loss, *optimizer;
  const char *sparsity; /* share of zeros that was asked for, and what they are: two words */
  const char *settings; /* options that steps go by and a run may go on with others of; NULL: not
                           known */
  uint64_t step;        /* steps done */
  uint64_t updates;     /* of them those that changed weights */
  uint64_t batch, micro_batch, seed;
  uint64_t samples; /* of the data; 0: not known */
  double last_loss;
  double loss_scale;
  uint64_t good_steps; /* since the scale changed */
} wafer_checkpoint;

/* A folder of checkpoints, locked against a second run while it is open. */
typedef struct wafer_checkpoints wafer_checkpoints;

/* Makes the folder, removes what an interrupted write left. IO: another run has it. */
wafer_status wafer_checkpoints_open(const wafer_diag *diag, const char *folder,
                                    wafer_checkpoints **out);
void wafer_checkpoints_close(wafer_checkpoints *folder); /* NULL is fine */

/* Step of the newest one, whole or not; 0: none. A run that starts anew has no business there: what
 * it writes would lie among those of another, which resumption, evaluation and export would take.
 */
uint64_t wafer_checkpoints_last(const wafer_checkpoints *folder);

/* Writes a checkpoint, then removes all but the newest `keep` (0: none is removed). On failure the
 * folder is as it was. */
wafer_status wafer_checkpoint_write(wafer_checkpoints *folder, const wafer_checkpoint *about,
                                    const wafer_weights *weights, const wafer_weights *state,
                                    uint64_t keep);
/* The newest one that is whole; those that are not are named in warnings. `found` false: none. */
wafer_status wafer_checkpoint_newest(wafer_checkpoints *folder, wafer_arena *arena,
                                     wafer_checkpoint *about, wafer_weights *weights,
                                     wafer_weights *state, bool *found);

/* One checkpoint by the path of its folder, or the newest whole one of a folder of checkpoints.
 * BAD_INPUT: it is not whole. `state` may be NULL. */
wafer_status wafer_checkpoint_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                   wafer_checkpoint *about, wafer_weights *weights,
                                   wafer_weights *state);

#ifdef __cplusplus
}
#endif
#endif
