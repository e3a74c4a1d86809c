/* The parts of `wafer train`. */
#ifndef WAFER_TOOLS_TRAIN_H
#define WAFER_TOOLS_TRAIN_H

#include "cli.h"
#include "sparsity.h"
#include "wafer/train.h"

typedef enum train_mode { TRAIN, EVALUATE, TRAIN_AND_EVALUATE } train_mode;

typedef struct train_arguments {
  const char *model, *machine, *data, *eval_data, *store, *metrics, *plot;
  wafer_options compile; /* `training` points to the next */
  wafer_training_options loss;
  train_mode mode;
  struct {
    const char *name, *lr, *momentum, *beta1, *beta2, *eps, *weight_decay;
  } optimizer; /* as given: what it means hangs on the name */
  bool lm, no_shuffle, mode_set, quiet, compile_only, validate_only, scale_set;
  uint64_t epochs, systems, servers, threads, micro_batch, processes, restarts;
  wafer_train_options train;
  wafer_dim_binding *dims;
  wafer_shape_binding *shapes;
  const char **frozen;
  sparsity_masks masks;
} train_arguments;

/* train_options.c: argv, after `-p FILE` has been put in front of it by train_yaml.c. */
extern const char train_usage[];
wafer_status train_parse(int argc, char **argv, wafer_arena *arena, train_arguments *out,
                         bool *help);
/* Argument vector of the file's settings followed by those of argv, in the arena. Without -p argv
 * itself. Writes the model first where the file describes one. */
wafer_status train_with_params(int argc, char **argv, wafer_arena *arena, int *out_count,
                               char ***out);
/* Whether an option of that name exists, and whether it takes a value. */
bool train_option(const char *name, bool *has_value);

/* train_compile.c. A plan of `micro_batch` samples; the plan lives in the arena. */
wafer_status train_compile(const train_arguments *a, wafer_arena *arena,
                           const wafer_machine *machine, const wafer_diag *diag,
                           uint32_t micro_batch, bool evaluate, const wafer_plan **out);
/* The largest micro-batch that fits, from model, machine and batch alone: a divisor of the batch,
 * at most its square root, so that larger batches have work for more systems. */
wafer_status train_choose(const train_arguments *a, wafer_arena *arena,
                          const wafer_machine *machine, uint32_t *micro_batch,
                          const wafer_plan **out);
/* --execution auto: takes a pipeline's plan of the same micro-batch in place of `plan`, which
 * streams and takes `step` cycles, if there is one and a step of it is predicted to be shorter;
 * `out` is then what it takes. What is computed is the same. */
wafer_status train_faster(const train_arguments *a, wafer_arena *arena, uint64_t micro_batches,
                          uint64_t step, const wafer_plan **plan, wafer_step_cycles *out);

/* train_launch.c. Whether this process only starts others and looks after them; doing so, with
 * `argv` as train_parse had it. */
bool train_supervises(const train_arguments *a);
wafer_status train_supervise(const train_arguments *a, wafer_arena *arena, int argc, char **argv);
/* The ranks of the job this process belongs to, one when it is alone. */
wafer_status train_join(train_arguments *a, wafer_ranks *out);
/* Calls `prepare` on rank 0, then, if that went well, on the others. */
wafer_status train_agree(const wafer_ranks *ranks, wafer_status (*prepare)(void *self), void *self);

/* train_watch.c: progress on the terminal, the metrics file, points for the plot. */
typedef struct train_point {
  uint64_t step;
  double value;
} train_point;
typedef struct train_curve {
  size_t count, room;
  train_point *points; /* malloc'ed */
} train_curve;
typedef struct train_log {
  const train_arguments *a;
  const char *machine;
  double clock_hz;
  uint64_t step_cycles; /* predicted */
  uint64_t counted;     /* of the steps of this run */
  FILE *metrics;
  train_curve losses, scores;
  double started;
  uint64_t first_step;
  wafer_train_step last;
} train_log;
wafer_train_watch train_watch_of(train_log *log);
/* The last line, the plot; frees what the log holds. */
wafer_status train_log_close(train_log *log, wafer_status status);
bool train_curve_add(train_curve *curve, uint64_t step, double value);

/* train_plot.c */
wafer_status train_plot(const char *path, const char *title, const train_curve *losses,
                        const train_curve *scores);

#endif
