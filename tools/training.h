/* Options that say how a model is trained: what `wafer compile --train` takes, and forms of values
 * that `wafer train` shares. */
#ifndef TOOLS_TRAINING_H
#define TOOLS_TRAINING_H

#include <getopt.h>

#include "wafer/wafer.h"

enum {
  TRAINING_LOSS = 512,
  TRAINING_MICRO_BATCH,
  TRAINING_RECOMPUTE,
  TRAINING_IGNORE,
  TRAINING_CLASS_AXIS,
  TRAINING_FREEZE,
  TRAINING_OPTIMIZER,
  TRAINING_EVALUATE,
  TRAINING_LAST
};

#define TRAINING_LONG_OPTIONS                                                                      \
  {"loss", required_argument, NULL, TRAINING_LOSS},                                                \
      {"micro-batch", required_argument, NULL, TRAINING_MICRO_BATCH},                              \
      {"recompute", required_argument, NULL, TRAINING_RECOMPUTE},                                  \
      {"ignore-index", required_argument, NULL, TRAINING_IGNORE},                                  \
      {"class-axis", required_argument, NULL, TRAINING_CLASS_AXIS},                                \
      {"freeze", required_argument, NULL, TRAINING_FREEZE},                                        \
      {"optimizer", required_argument, NULL, TRAINING_OPTIMIZER}, {                                \
    "evaluate", no_argument, NULL, TRAINING_EVALUATE                                               \
  }

typedef struct training_flags {
  wafer_training_options options;
  const char **frozen; /* room for as many as there are arguments */
  const char *first;   /* option that was given; NULL: none */
  uint32_t said;       /* a bit for each option that was, from TRAINING_LOSS on */
  bool has_loss;
} training_flags;

/* LOSS or LOSS:OUTPUT; auto, none or all; a label. USAGE, said by the command, of anything else.
 * `out` points into `text` from then on. */
wafer_status training_parse_loss(const char *command, wafer_arena *arena, const char *text,
                                 wafer_training_options *out);
wafer_status training_parse_recompute(const char *command, const char *text, wafer_recompute *out);
wafer_status training_parse_ignore(const char *command, const char *text,
                                   wafer_training_options *out);

/* Takes one option of the list above. */
wafer_status training_flag(const char *command, wafer_arena *arena, int option, const char *text,
                           training_flags *flags);

/* Warns of what changed nothing in the plan of a step. */
void training_warn_unread(const training_flags *flags, const wafer_plan *plan);
void training_warn_ignored(const wafer_training_options *options);

/* Of two pipelines of a training step, whether the second is no slower over so many micro-batches:
 * by core programs where those of the first can be made, which then those of the second have to; by
 * their streams where not. `cycles`: of a step, of each (UINT64_MAX: it has no programs). */
wafer_status training_no_slower(wafer_plan const *const plans[2], uint64_t micro_batches,
                                bool *keeps, bool *by_programs, uint64_t cycles[2]);

#endif
