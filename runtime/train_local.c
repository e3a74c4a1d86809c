/* The transport within one process: systems one after the other, MemoryX and SwarmX beside them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/train.h"

typedef struct local {
  wafer_local about;
  wafer_memoryx *memoryx;
  wafer_swarmx *root, *partial; /* partial: of the system at work; one system adds to the root */
  wafer_feed *feed, *eval_feed, *rest_feed;
  const float *sum; /* finished gradients */
} local;

/* ---- running ---- */

typedef struct batch_source {
  const wafer_system *system;
  wafer_feed *feed;
  wafer_micro_batch batch;
} batch_source;

static wafer_status run_one(batch_source *from, uint64_t sample, wafer_answer *answer) {
  WAFER_TRY(wafer_feed_take(from->feed, sample, &from->batch.fields));
  return from->system->run(from->system->self, &from->batch, answer);
}

/* Micro-batches [first, end) of a step, their gradients added to `to`. */
static wafer_status run_range(local *l, const wafer_work *work, uint64_t first, uint64_t end,
                              wafer_swarmx *to) {
  batch_source from = {&l->about.training, l->feed,
                       {.loss_gradient = work->loss_gradient,
                        .seed = l->about.seed,
                        .step = work->step}};
  for (uint64_t i = first; i < end; i++) {
    wafer_answer a;
    from.batch.index = i;
    WAFER_TRY(run_one(&from, work->first + i * l->about.micro_batch, &a));
    const double scalars[WAFER_SWARMX_SCALARS] = {a.loss, a.count, a.correct};
    WAFER_TRY(wafer_swarmx_add_leaf(to, i, a.gradients, a.gradient_count, scalars));
  }
  return WAFER_OK;
}

/* What a system with a part of the micro-batches does: partial sums, then one message per node. */
static wafer_status run_system(local *l, const wafer_work *work, uint32_t system) {
  uint64_t m = work->micro_batches, n = l->about.systems;
  uint64_t first = m * system / n, end = m * (system + 1) / n;
  const wafer_swarmx_node *nodes;
  if (n == 1) return run_range(l, work, first, end, l->root);
  wafer_swarmx_begin(l->partial, m);
  WAFER_TRY(run_range(l, work, first, end, l->partial));
  uint32_t count = wafer_swarmx_held(l->partial, &nodes);
  for (uint32_t i = 0; i < count; i++) WAFER_TRY(wafer_swarmx_add(l->root, &nodes[i]));
  return WAFER_OK;
}

static wafer_status local_run(void *self, const wafer_work *work,
                              double scalars[WAFER_SWARMX_SCALARS]) {
  local *l = self;
  const double *sums;
  wafer_swarmx_begin(l->root, work->micro_batches);
  for (uint32_t i = 0; i < l->about.systems; i++) WAFER_TRY(run_system(l, work, i));
  WAFER_TRY(wafer_swarmx_finish(l->root, &l->sum, &sums));
  memcpy(scalars, sums, WAFER_SWARMX_SCALARS * sizeof *scalars);
  return WAFER_OK;
}

static wafer_status local_squares(void *self, double *squares) {
  local *l = self;
  *squares = wafer_memoryx_squares(l->memoryx, l->sum);
  return WAFER_OK;
}

static wafer_status local_update(void *self, const wafer_update *update) {
  local *l = self;
  wafer_memoryx_update(l->memoryx, update, l->sum);
  return WAFER_OK;
}

/* In the order of the files; the last micro-batch may be smaller and has a system of its own. */
static wafer_status local_evaluate(void *self, double scalars[WAFER_SWARMX_SCALARS]) {
  local *l = self;
  uint64_t samples = wafer_dataset_samples(l->about.eval_data), size = l->about.eval_micro_batch;
  batch_source whole = {&l->about.evaluation, l->eval_feed, {.seed = l->about.seed}};
  batch_source rest = {&l->about.rest, l->rest_feed, {.seed = l->about.seed}};
  memset(scalars, 0, WAFER_SWARMX_SCALARS * sizeof *scalars);
  for (uint64_t first = 0; first < samples; first += size) {
    wafer_answer a;
    batch_source *from = samples - first < size ? &rest : &whole;
    from->batch.index = first / size;
    WAFER_TRY(run_one(from, first, &a));
    scalars[0] += a.loss;
    scalars[1] += a.count;
    scalars[2] += a.correct;
  }
  return WAFER_OK;
}

/* ---- weights and state as tables ---- */

static const char *state_name(wafer_arena *arena, const local *l, wafer_memoryx_state s) {
  return wafer_arena_printf(arena, "%s:%s", l->about.parameters[s.parameter].name, s.suffix);
}

static wafer_status no_memory(const local *l) {
  return wafer_fail(l->about.diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
}

static wafer_status local_save(void *self, wafer_arena *arena, wafer_weights **weights,
                               wafer_weights **state) {
  local *l = self;
  *weights = wafer_weights_create(arena);
  *state = wafer_weights_create(arena);
  if (!*weights || !*state) return no_memory(l);
  for (uint32_t i = 0; i < l->about.parameter_count; i++) {
    const wafer_parameter *p = &l->about.parameters[i];
    if (!wafer_weights_add(*weights, p->name, p->dtype, &p->shape,
                           wafer_memoryx_weight(l->memoryx, i)))
      return no_memory(l);
  }
  for (uint32_t i = 0; i < wafer_memoryx_state_count(l->memoryx); i++) {
    wafer_memoryx_state s = wafer_memoryx_state_at(l->memoryx, i);
    const char *name = state_name(arena, l, s);
    if (!name || !wafer_weights_add(*state, name, WAFER_DTYPE_f32, &s.shape, s.data))
      return no_memory(l);
  }
  return WAFER_OK;
}

static wafer_status find(const local *l, const wafer_weights *table, const char *name,
                         wafer_dtype dtype, const wafer_shape *shape, const wafer_weight **out) {
  *out = wafer_weights_find(table, name);
  if (*out && (*out)->dtype == dtype && wafer_shape_equal(&(*out)->shape, shape)) return WAFER_OK;
  return wafer_fail(l->about.diag, (wafer_loc){0}, WAFER_BAD_INPUT,
                    "the checkpoint has no '%s' of the model's type and shape; is it of another "
                    "model, or of other frozen weights",
                    name);
}

static wafer_status local_load(void *self, const wafer_weights *weights,
                               const wafer_weights *state) {
  local *l = self;
  const wafer_weight *w = NULL;
  for (uint32_t i = 0; i < l->about.parameter_count; i++) {
    const wafer_parameter *p = &l->about.parameters[i];
    WAFER_TRY(find(l, weights, p->name, p->dtype, &p->shape, &w));
    wafer_memoryx_set(l->memoryx, i, w->data);
  }
  if (!l->about.training.run) return WAFER_OK; /* evaluation has no use for state */
  for (uint32_t i = 0; i < wafer_memoryx_state_count(l->memoryx); i++) {
    wafer_memoryx_state s = wafer_memoryx_state_at(l->memoryx, i);
    wafer_arena *arena = wafer_arena_create();
    const char *name = arena ? state_name(arena, l, s) : NULL;
    wafer_status status =
        name ? find(l, state, name, WAFER_DTYPE_f32, &s.shape, &w) : no_memory(l);
    wafer_arena_destroy(arena);
    if (status != WAFER_OK) return status;
    memcpy(s.data, w->data, w->bytes);
  }
  return WAFER_OK;
}

/* ---- life ---- */

static void local_destroy(void *self) {
  local *l = self;
  wafer_system *systems[] = {&l->about.training, &l->about.evaluation, &l->about.rest};
  for (size_t i = 0; i < WAFER_COUNT(systems); i++)
    if (systems[i]->destroy) systems[i]->destroy(systems[i]->self);
  wafer_feed_destroy(l->feed);
  wafer_feed_destroy(l->eval_feed);
  wafer_feed_destroy(l->rest_feed);
  wafer_swarmx_destroy(l->root);
  wafer_swarmx_destroy(l->partial);
  wafer_memoryx_destroy(l->memoryx);
  free(l);
}

static wafer_status bind(const local *l, const wafer_system *system) {
  for (uint32_t i = 0; system->bind && i < l->about.parameter_count; i++)
    WAFER_TRY(system->bind(system->self, i, wafer_memoryx_weight(l->memoryx, i)));
  return WAFER_OK;
}

static wafer_status open_feeds(local *l) {
  const wafer_local *a = &l->about;
  wafer_feed_options o = {.fields = a->fields, .diag = a->diag, .seed = a->seed};
  if (a->training.run) {
    o.dataset = a->data;
    o.micro_batch = a->micro_batch;
    o.shuffle = a->shuffle;
    WAFER_TRY(wafer_feed_create(&o, &l->feed));
  }
  if (!a->eval_data) return WAFER_OK;
  o.dataset = a->eval_data;
  o.shuffle = false;
  o.micro_batch = a->eval_micro_batch;
  WAFER_TRY(wafer_feed_create(&o, &l->eval_feed));
  o.micro_batch = (uint32_t)(wafer_dataset_samples(a->eval_data) % a->eval_micro_batch);
  return o.micro_batch ? wafer_feed_create(&o, &l->rest_feed) : WAFER_OK;
}

static wafer_status open_all(local *l) {
  const wafer_local *a = &l->about;
  const wafer_memoryx_options *m = &a->memoryx;
  WAFER_TRY(wafer_memoryx_create(m, a->parameters, a->parameter_count, &l->memoryx));
  WAFER_TRY(bind(l, &a->training));
  WAFER_TRY(bind(l, &a->evaluation));
  WAFER_TRY(bind(l, &a->rest));
  WAFER_TRY(open_feeds(l));
  uint64_t elements = wafer_memoryx_offset(l->memoryx, a->parameter_count);
  WAFER_TRY(wafer_swarmx_create(a->diag, elements, m->store, m->threads, &l->root));
  if (a->systems == 1) return WAFER_OK;
  return wafer_swarmx_create(a->diag, elements, m->store, m->threads, &l->partial);
}

wafer_status wafer_transport_local(const wafer_local *about, wafer_transport *out) {
  local *l = calloc(1, sizeof *l);
  *out = (wafer_transport){0};
  if (!l) return wafer_fail(about->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  l->about = *about;
  if (!l->about.systems) l->about.systems = 1;
  wafer_status status = open_all(l);
  if (status != WAFER_OK) return local_destroy(l), status;
  *out = (wafer_transport){.self = l,
                           .run = local_run,
                           .squares = local_squares,
                           .update = local_update,
                           .evaluate = local_evaluate,
                           .save = local_save,
                           .load = local_load,
                           .destroy = local_destroy};
  return WAFER_OK;
}
