#include "wafer/train.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct run {
  const wafer_train_options *o;
  const wafer_transport *t;
  wafer_checkpoints *folder; /* NULL: none */
  uint64_t step, updates;
  wafer_loss_scale scale;
  double last_loss;
} run;

static wafer_status usage(const run *r, const char *file, const char *text) {
  return wafer_fail(r->o->diag, wafer_at_file(file), WAFER_USAGE, "%s", text);
}

/* ---- checkpoints ---- */

static const char *sparsity_of(const run *r) {
  return r->o->sparsity ? r->o->sparsity : "0 dense";
}

static wafer_checkpoint about(const run *r) {
  return (wafer_checkpoint){.model = r->o->model,
                            .loss = r->o->loss,
                            .optimizer = wafer_optimizer_name(r->o->optimizer.kind),
                            .sparsity = sparsity_of(r),
                            .settings = r->o->settings,
                            .step = r->step,
                            .updates = r->updates,
                            .batch = r->o->batch,
                            .micro_batch = r->o->micro_batch,
                            .seed = r->o->seed,
                            .samples = r->o->samples,
                            .last_loss = r->last_loss,
                            .loss_scale = r->scale.scale,
                            .good_steps = r->scale.good};
}

static wafer_status save(run *r) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights, *state;
  wafer_checkpoint now = about(r);
  wafer_status status =
      arena ? r->t->save(r->t->self, arena, &weights, &state)
            : wafer_fail(r->o->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  if (status == WAFER_OK)
    status = wafer_checkpoint_write(r->folder, &now, weights, state, r->o->keep);
  wafer_arena_destroy(arena);
  if (status == WAFER_OK && r->o->watch.saved)
    status = r->o->watch.saved(r->o->watch.self, r->step);
  return status;
}

/* What must be as it was: otherwise the rest of the run is not that of the checkpoint. */
static wafer_status same_run(const run *r, const wafer_checkpoint *c) {
  const wafer_train_options *o = r->o;
  const struct {
    const char *option;
    uint64_t was, is;
  } numbers[] = {{"--batch", c->batch, o->batch},
                 {"--micro-batch", c->micro_batch, o->micro_batch},
                 {"--seed", c->seed, o->seed}};
  const char *optimizer = wafer_optimizer_name(o->optimizer.kind);
  for (size_t i = 0; i < WAFER_COUNT(numbers); i++)
    if (numbers[i].was != numbers[i].is)
      return wafer_fail(o->diag, wafer_at_file(o->checkpoint), WAFER_USAGE,
                        "the checkpoint is of a run with %s %" PRIu64 ", this one has %" PRIu64,
                        numbers[i].option, numbers[i].was, numbers[i].is);
  if (strcmp(c->sparsity, sparsity_of(r)))
    return wafer_fail(
        o->diag, wafer_at_file(o->checkpoint), WAFER_USAGE,
        "the checkpoint is of a run with other zeros: --sparsity and --mask made '%s' of "
        "its weights, and '%s' of this one's",
        c->sparsity, sparsity_of(r));
  if (strcmp(c->optimizer, optimizer) || strcmp(c->loss, o->loss))
    return wafer_fail(o->diag, wafer_at_file(o->checkpoint), WAFER_USAGE,
                      "the checkpoint is of a run with %s and %s, this one has %s and %s", c->loss,
                      c->optimizer, o->loss, optimizer);
  return WAFER_OK;
}

/* What may have been changed on purpose. */
static void tell_changes(const run *r, const wafer_checkpoint *c) {
  const wafer_train_options *o = r->o;
  if (c->samples != o->samples && c->samples && o->samples)
    wafer_warn(o->diag, wafer_at_file(o->checkpoint),
               "the checkpoint is of a run over %" PRIu64 " samples, this one has %" PRIu64
               ": they come in another order from here on",
               c->samples, o->samples);
  if (c->settings && o->settings && strcmp(c->settings, o->settings))
    wafer_warn(o->diag, wafer_at_file(o->checkpoint),
               "the checkpoint is of a run with %s; from here on steps go by %s", c->settings,
               o->settings);
}

static wafer_status take(run *r, const wafer_checkpoint *c, const wafer_weights *weights,
                         const wafer_weights *state) {
  r->step = c->step;
  r->updates = c->updates;
  r->last_loss = c->last_loss;
  if (r->scale.dynamic) r->scale.scale = c->loss_scale; /* else it is what this run says */
  r->scale.good = c->good_steps;
  return r->t->load(r->t->self, weights, state);
}

static wafer_status load(run *r, wafer_arena *arena, bool *found) {
  wafer_weights *weights = wafer_weights_create(arena), *state = wafer_weights_create(arena);
  wafer_checkpoint c;
  if (!weights || !state)
    return wafer_fail(r->o->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  WAFER_TRY(wafer_checkpoint_newest(r->folder, arena, &c, weights, state, found));
  if (!*found) return WAFER_OK;
  WAFER_TRY(same_run(r, &c));
  tell_changes(r, &c);
  return take(r, &c, weights, state);
}

/* For evaluation, which needs the weights alone, and nothing of the folder to itself. */
static wafer_status read_newest(run *r, wafer_arena *arena) {
  wafer_weights *weights = wafer_weights_create(arena), *state = wafer_weights_create(arena);
  wafer_checkpoint c;
  if (!weights || !state)
    return wafer_fail(r->o->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  WAFER_TRY(wafer_checkpoint_read(r->o->diag, arena, r->o->checkpoint, &c, weights, state));
  return take(r, &c, weights, state);
}

static wafer_status resume(run *r, bool evaluates) {
  bool found;
  wafer_arena *arena = wafer_arena_create();
  wafer_status status =
      !arena      ? wafer_fail(r->o->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory")
      : evaluates ? read_newest(r, arena)
                  : load(r, arena, &found);
  wafer_arena_destroy(arena);
  return status;
}

static wafer_status open_folder(run *r) {
  if (!r->o->checkpoint) return WAFER_OK;
  WAFER_TRY(wafer_checkpoints_open(r->o->diag, r->o->checkpoint, &r->folder));
  if (r->o->resume) return resume(r, false);
  uint64_t last = wafer_checkpoints_last(r->folder);
  if (!last) return WAFER_OK;
  return wafer_fail(r->o->diag, wafer_at_file(r->o->checkpoint), WAFER_USAGE,
                    "has a checkpoint of step %" PRIu64
                    " already: --resume goes on from it, a new run wants a folder without",
                    last);
}

/* ---- steps ---- */

/* The gradient at the loss: a power of two, so that scaling rounds nothing, near scale / elements.
 */
static double loss_gradient(const run *r) {
  double elements = (double)r->o->batch * (double)(r->o->elements ? r->o->elements : 1);
  return ldexp(r->scale.scale, -(int)ceil(log2(elements)));
}

static wafer_status not_finite(const run *r, const wafer_train_step *told) {
  bool bce = isnan(told->loss) && !strncmp(r->o->loss, "bce", 3);
  const char *what = isfinite(told->norm) ? "the loss is" : "gradients are not finite at a loss of";
  return wafer_fail(r->o->diag, (wafer_loc){0}, WAFER_TRAP,
                    "step %" PRIu64 ": %s %g; lower --lr, use --clip-norm or --warmup, or with "
                    "f16 --loss-scale dynamic%s",
                    r->step + 1, what, isnan(told->loss) ? (double)NAN : told->loss,
                    bce ? "; bce has no value where an output is not from 0 to 1" : "");
}

/* MemoryX's factor turns the finished sum into the gradient of the mean; clipping takes its part as
 * PyTorch's clip_grad_norm_ does. */
static wafer_status apply(run *r, double factor, wafer_train_step *told) {
  const wafer_train_options *o = r->o;
  if (o->clip_norm > 0 && told->norm > o->clip_norm) factor *= o->clip_norm / (told->norm + 1e-6);
  wafer_update update = {.number = ++r->updates,
                         .lr = told->lr,
                         .scale = factor,
                         .share = (double)o->micro_batch / (double)o->batch};
  return r->t->update(r->t->self, &update);
}

static wafer_status one_step(run *r) {
  const wafer_train_options *o = r->o;
  double scalars[WAFER_SWARMX_SCALARS], squares, start = loss_gradient(r);
  wafer_work work = {.step = r->step,
                     .first = r->step * o->batch,
                     .micro_batches = o->batch / o->micro_batch,
                     .loss_gradient = (float)start};
  WAFER_TRY(r->t->run(r->t->self, &work, scalars));
  if (!(scalars[1] > 0))
    return wafer_fail(o->diag, (wafer_loc){0}, WAFER_BAD_INPUT,
                      "step %" PRIu64 ": no label of the batch counts", r->step + 1);
  WAFER_TRY(r->t->squares(r->t->self, &squares));
  double factor = 1 / (scalars[1] * start);
  wafer_train_step told = {.step = r->step + 1,
                           .loss = scalars[0] / scalars[1],
                           .lr = o->optimizer.lr * wafer_schedule_factor(&o->schedule, r->step),
                           .norm = sqrt(squares) * factor,
                           .loss_scale = r->scale.scale,
                           .skipped = !isfinite(squares)};
  if ((told.skipped && !r->scale.dynamic) || (!told.skipped && isnan(told.loss)))
    return not_finite(r, &told);
  if (!told.skipped) WAFER_TRY(apply(r, factor, &told));
  bool waits = o->clip_norm > 0 || r->scale.dynamic;
  WAFER_TRY(r->t->count(r->t->self, waits, told.skipped, &told.time));
  wafer_loss_scale_step(&r->scale, !told.skipped);
  if (r->scale.scale < 0x1p-40) return not_finite(r, &told);
  r->last_loss = told.loss;
  r->step++;
  return o->watch.step ? o->watch.step(o->watch.self, &told) : WAFER_OK;
}

static wafer_status score(run *r) {
  const wafer_train_options *o = r->o;
  double scalars[WAFER_SWARMX_SCALARS];
  WAFER_TRY(r->t->evaluate(r->t->self, scalars));
  if (!(scalars[1] > 0))
    return wafer_fail(o->diag, (wafer_loc){0}, WAFER_BAD_INPUT,
                      "no label of the evaluation data counts");
  wafer_train_score told = {.step = r->step,
                            .loss = scalars[0] / scalars[1],
                            .accuracy = o->classes ? scalars[2] / scalars[1] : NAN};
  return o->watch.score ? o->watch.score(o->watch.self, &told) : WAFER_OK;
}

static bool due(uint64_t step, uint64_t every, uint64_t last) {
  return step == last || (every && step % every == 0);
}

static wafer_status all_steps(run *r) {
  const wafer_train_options *o = r->o;
  if (o->watch.begin) WAFER_TRY(o->watch.begin(o->watch.self, r->step));
  while (r->step < o->steps) {
    if (wafer_cancelled(o->diag)) return usage(r, NULL, "stopped");
    WAFER_TRY(one_step(r));
    wafer_status scored =
        o->evaluate && due(r->step, o->eval_every, o->steps) ? score(r) : WAFER_OK;
    if (r->folder && due(r->step, o->checkpoint_every, o->steps))
      WAFER_TRY(save(r)); /* evaluation data that are wrong take no step back */
    WAFER_TRY(scored);
  }
  return WAFER_OK;
}

static wafer_status check(const run *r) {
  const wafer_train_options *o = r->o;
  WAFER_TRY(wafer_optimizer_check(o->diag, &o->optimizer));
  if (o->resume && !o->checkpoint) return usage(r, NULL, "--resume goes with --checkpoint DIR");
  if (o->batch && o->micro_batch && o->batch % o->micro_batch == 0) return WAFER_OK;
  return wafer_fail(o->diag, (wafer_loc){0}, WAFER_USAGE,
                    "the batch of %" PRIu64
                    " samples is no multiple of the micro-batch of %" PRIu32,
                    o->batch, o->micro_batch);
}

wafer_status wafer_train(const wafer_train_options *options, const wafer_transport *transport) {
  run r = {.o = options, .t = transport, .scale = options->loss_scale};
  WAFER_TRY(check(&r));
  wafer_status status = open_folder(&r);
  if (status == WAFER_OK) status = all_steps(&r);
  wafer_checkpoints_close(r.folder);
  return status;
}

wafer_status wafer_train_evaluate(const wafer_train_options *options,
                                  const wafer_transport *transport) {
  run r = {.o = options, .t = transport, .scale = options->loss_scale};
  if (options->checkpoint) WAFER_TRY(resume(&r, true));
  if (options->watch.begin) WAFER_TRY(options->watch.begin(options->watch.self, r.step));
  return score(&r);
}
