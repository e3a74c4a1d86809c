/* wafer train: model + data -> plans -> the training loop -> checkpoints. */
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/scale.h"

typedef unsigned long long ull;
enum { MOST_FIELDS = 16 };

typedef struct job {
  train_arguments *a;
  wafer_arena *arena;
  wafer_ranks ranks;
  const wafer_machine *machine;
  wafer_dataset *data, *eval_data;
  const wafer_plan *plan, *eval_plan, *rest_plan; /* plan: of evaluation in --mode eval */
  uint32_t micro_batch, field_count;
  wafer_gather fields[MOST_FIELDS];
  wafer_parameter *parameters;
  uint32_t parameter_count;
  wafer_scale_step cycles;
  wafer_step_cycles on_wafer; /* of a pipeline */
  uint64_t state_bytes;       /* in MemoryX, of a weight and its state */
} job;

/* ---- data against plan ---- */

static wafer_status fail(const char *file, wafer_status status, const char *text) {
  return wafer_fail(cli_diag(), wafer_at_file(file), status, "%s", text);
}

/* What a sample of a plan's input is. */
static wafer_shape sample_shape(const wafer_plan *plan, uint32_t value) {
  wafer_shape whole = plan->values[value].type.shape;
  wafer_shape made = {.rank = whole.rank ? whole.rank - 1 : 0};
  memcpy(made.dims, whole.dims + 1, made.rank * sizeof *made.dims);
  return made;
}

static bool has_classes(const train_arguments *a) {
  return a->loss.loss == WAFER_LOSS_cross_entropy || a->loss.loss == WAFER_LOSS_nll;
}

static bool labels_fit(const job *j, const wafer_dataset *data) {
  wafer_shape want = sample_shape(j->plan, j->plan->training->labels);
  wafer_shape have = wafer_dataset_shape(data, wafer_dataset_fields(data) - 1);
  return wafer_shape_alike(&want, &have);
}

static wafer_status does_not_fit(const char *path, const wafer_plan *plan, uint32_t value,
                                 const wafer_shape *have) {
  char one[128], other[128];
  wafer_shape want = sample_shape(plan, value);
  wafer_shape_format(have, one, sizeof one);
  wafer_shape_format(&want, other, sizeof other);
  return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_BAD_INPUT,
                    "a sample is %s, %s '%s' wants %s", one,
                    value == plan->training->labels ? "the loss's input" : "the model's input",
                    plan->values[value].name, other);
}

static wafer_status match_fields(job *j, const char *path, const wafer_dataset *data) {
  uint32_t values[MOST_FIELDS], count = wafer_plan_fields(j->plan, values, MOST_FIELDS);
  if (count != wafer_dataset_fields(data))
    return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_BAD_INPUT,
                      "has %" PRIu32 " inputs beside the labels, the model has %" PRIu32,
                      wafer_dataset_fields(data) - 1, count - 1);
  for (uint32_t i = 0; i < count; i++) {
    wafer_shape want = sample_shape(j->plan, values[i]), have = wafer_dataset_shape(data, i);
    if (!wafer_shape_alike(&want, &have)) return does_not_fit(path, j->plan, values[i], &have);
    j->fields[i] = (wafer_gather){.field = i, .dtype = j->plan->values[values[i]].type.dtype};
  }
  j->field_count = count;
  return WAFER_OK;
}

/* Inputs and labels have a sample for each of the micro-batch. A model that slices, joins or sums
 * up its batch has other labels. */
static wafer_status check_batch(const job *j) {
  uint32_t values[MOST_FIELDS], count = wafer_plan_fields(j->plan, values, MOST_FIELDS);
  for (uint32_t i = 0; i < count && i < MOST_FIELDS; i++) {
    const wafer_value *v = &j->plan->values[values[i]];
    char text[128];
    if (v->type.shape.rank && v->type.shape.dims[0] == j->micro_batch) continue;
    wafer_shape_format(&v->type.shape, text, sizeof text);
    return wafer_fail(cli_diag(), wafer_at_file(j->a->model), WAFER_BAD_INPUT,
                      "with a micro-batch of %u samples %s '%s' is %s: its first dim must count "
                      "samples, through the whole model",
                      j->micro_batch,
                      values[i] == j->plan->training->labels ? "the loss's input" : "input",
                      v->name, text);
  }
  return WAFER_OK;
}

/* Labels are checked against the classes of what the loss reads, and tokens too, which are labels
 * but for the first of a shard. */
static void check_labels(job *j) {
  const wafer_training_options *loss = &j->a->loss;
  for (uint32_t i = j->a->lm ? 0 : j->field_count - 1; i < j->field_count; i++) {
    wafer_gather *labels = &j->fields[i];
    labels->classes = j->plan->training->classes;
    labels->ignores = loss->ignores;
    labels->ignore_index = loss->ignore_index;
  }
}

static wafer_status set_window(job *j, wafer_dataset *data) {
  uint32_t value;
  if (!data || !j->a->lm) return WAFER_OK;
  (void)wafer_plan_fields(j->plan, &value, 1);
  wafer_shape shape = sample_shape(j->plan, value);
  if (shape.rank != 1)
    return fail(j->a->model, WAFER_BAD_INPUT, "--lm is for a model whose input is batch x tokens");
  return wafer_dataset_window(data, shape.dims[0]);
}

static wafer_status open_data(job *j) {
  train_arguments *a = j->a;
  if (a->mode != EVALUATE && a->data)
    WAFER_TRY(wafer_dataset_open(cli_diag(), j->arena, a->data, a->lm, &j->data));
  if (a->mode != TRAIN && a->eval_data)
    WAFER_TRY(wafer_dataset_open(cli_diag(), j->arena, a->eval_data, a->lm, &j->eval_data));
  return WAFER_OK;
}

/* Plan and data agree on where the classes are: dim 1 of the output, else its last one. */
static wafer_status choose_plan(job *j) {
  train_arguments *a = j->a;
  const wafer_dataset *data = j->data ? j->data : j->eval_data;
  if (a->lm && has_classes(a)) a->loss.class_axis = -1;
  WAFER_TRY(train_choose(a, j->arena, j->machine, &j->micro_batch, &j->plan));
  WAFER_TRY(set_window(j, j->data));
  WAFER_TRY(set_window(j, j->eval_data));
  if (!data || a->lm || !has_classes(a) || labels_fit(j, data)) return WAFER_OK;
  const wafer_plan *first = j->plan;
  a->loss.class_axis = -1;
  static const wafer_diag silent = {0};
  wafer_status status = train_compile(a, j->arena, j->machine, &silent, j->micro_batch,
                                      a->mode == EVALUATE, &j->plan);
  if (status != WAFER_OK || !labels_fit(j, data)) {
    j->plan = first; /* whose shape the message gives */
    a->loss.class_axis = 0;
  }
  return WAFER_OK;
}

/* ---- plans and systems ---- */

static wafer_status list_parameters(job *j) {
  const wafer_training *t = j->plan->training;
  j->parameter_count = t->trained_count;
  j->parameters = WAFER_NEW(j->arena, wafer_parameter, t->trained_count);
  if (!j->parameters) return cli_no_memory();
  for (uint32_t i = 0; i < t->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(j->plan->weights, t->trained[i].weight);
    j->parameters[i] = (wafer_parameter){.name = w->name,
                                         .dtype = w->dtype,
                                         .shape = w->shape,
                                         .initial = w->data,
                                         .statistic = t->trained[i].statistic,
                                         .sparse = w->sparse};
    if (!w->data && !j->a->compile_only && !j->a->validate_only)
      return wafer_fail(cli_diag(), wafer_at_file(j->a->model), WAFER_BAD_INPUT,
                        "weight '%s' is absent: there is nothing to start from", w->name);
  }
  return t->trained_count ? WAFER_OK
                          : fail(j->a->model, WAFER_BAD_INPUT, "the model has no weight to train");
}

/* A weight with its state in MemoryX; the row and column of adafactor count as none. */
static uint64_t state_bytes(const job *j) {
  static const uint64_t slots[] = {
#define yes
#define no
#define factored 0
#define OPTIMIZER(name, count, ...) [WAFER_OPTIMIZER_##name] = count,
#include "wafer/optimizer.def"
#undef factored
#undef no
#undef yes
  };
  return 4 * (1 + slots[j->a->train.optimizer.kind]);
}

static wafer_status evaluation_plans(job *j) {
  uint64_t samples = j->eval_data ? wafer_dataset_samples(j->eval_data) : 0;
  uint32_t rest = samples ? (uint32_t)(samples % j->micro_batch) : 0;
  if (!samples) return WAFER_OK;
  j->eval_plan = j->plan;
  if (j->a->mode != EVALUATE)
    WAFER_TRY(
        train_compile(j->a, j->arena, j->machine, cli_diag(), j->micro_batch, true, &j->eval_plan));
  if (!rest) return WAFER_OK;
  return train_compile(j->a, j->arena, j->machine, cli_diag(), rest, true, &j->rest_plan);
}

static wafer_status open_systems(const job *j, wafer_local *local) {
  uint32_t threads = (uint32_t)j->a->threads;
  if (j->a->mode != EVALUATE)
    WAFER_TRY(wafer_system_open(cli_diag(), j->plan, threads, &local->training));
  if (j->eval_plan)
    WAFER_TRY(wafer_system_open(cli_diag(), j->eval_plan, threads, &local->evaluation));
  if (j->rest_plan) WAFER_TRY(wafer_system_open(cli_diag(), j->rest_plan, threads, &local->rest));
  return WAFER_OK;
}

static void close_systems(wafer_local *local) {
  wafer_system *systems[] = {&local->training, &local->evaluation, &local->rest};
  for (size_t i = 0; i < WAFER_COUNT(systems); i++)
    if (systems[i]->destroy) systems[i]->destroy(systems[i]->self);
}

static wafer_status open_transport(const job *j, wafer_transport *out) {
  const train_arguments *a = j->a;
  wafer_local local = {.diag = cli_diag(),
                       .machine = j->machine,
                       .systems = (uint32_t)a->systems,
                       .data = j->data,
                       .eval_data = j->eval_data,
                       .fields = j->fields,
                       .micro_batch = j->micro_batch,
                       .eval_micro_batch = j->micro_batch,
                       .shuffle = !a->no_shuffle,
                       .seed = a->train.seed,
                       .parameters = j->parameters,
                       .parameter_count = j->parameter_count,
                       .memoryx = {.optimizer = a->train.optimizer,
                                   .servers = (uint32_t)a->servers,
                                   .store = a->store,
                                   .threads = (uint32_t)a->threads,
                                   .diag = cli_diag()},
                       .ranks = j->ranks};
  wafer_status status = open_systems(j, &local);
  if (status != WAFER_OK) return close_systems(&local), status;
  return wafer_transport_local(&local, out);
}

/* ---- the run ---- */

static void print_pipeline(const job *j) {
  const wafer_step_cycles *s = &j->on_wafer;
  printf("train %llu, gather %llu, norm %llu, control %llu, update %llu, send %llu\n",
         (ull)s->train, (ull)s->gather, (ull)s->norm, (ull)s->control, (ull)s->update,
         (ull)s->send);
  printf("pipeline of %llu cores: a micro-batch every %llu cycles, latency %llu; weights and state "
         "stay on them, at most %llu bytes of one\n",
         (ull)j->plan->pipelined.cores, (ull)j->plan->pipelined.interval_cycles,
         (ull)j->plan->pipelined.latency_cycles, (ull)j->plan->pipelined.peak_core_bytes);
}

static void print_plan(const job *j) {
  const train_arguments *a = j->a;
  uint64_t micro_batches = a->train.batch / j->micro_batch;
  uint64_t weights = wafer_scale_parameters(j->plan);
  if (micro_batches < a->systems && j->ranks.rank == 0)
    wafer_note(cli_diag(), (wafer_loc){0},
               "%llu of %llu systems have no micro-batch; a larger --batch gives them some",
               (ull)(a->systems - micro_batches), (ull)a->systems);
  if (a->quiet) return;
  cli_progress_done();
  if (a->mode == EVALUATE) { /* no steps, no optimizer */
    printf("%s on %s x%llu: %llu weights in %u tensors, micro-batches of %u\n", a->model,
           j->machine->name, (ull)a->systems, (ull)weights, j->parameter_count, j->micro_batch);
    fflush(stdout);
    return;
  }
  printf("%s on %s x%llu, %s: %llu weights in %u tensors, %s %s: %llu bytes\n", a->model,
         j->machine->name, (ull)a->systems, wafer_mode_name(j->plan->mode), (ull)weights,
         j->parameter_count, wafer_optimizer_name(a->train.optimizer.kind),
         wafer_plan_updates(j->plan) ? "on the wafer" : "in MemoryX",
         (ull)(weights * j->state_bytes));
  printf("batch %llu = %llu micro-batches of %u; a step is %llu cycles: ", (ull)a->train.batch,
         (ull)micro_batches, j->micro_batch, (ull)j->cycles.step);
  if (wafer_plan_updates(j->plan))
    print_pipeline(j);
  else
    printf("systems %llu, sum %llu, update %llu\n", (ull)j->cycles.system, (ull)j->cycles.sum,
           (ull)j->cycles.update);
  fflush(stdout);
}

/* The share that --sparsity asked for, and a digest of where the zeros are, which --mask may say.
 */
static wafer_status describe_zeros(job *j) {
  uint64_t digest = 0;
  bool sparse = false;
  for (uint32_t i = 0; i < j->parameter_count; i++) {
    const wafer_parameter *p = &j->parameters[i];
    int64_t elements = 0;
    (void)wafer_shape_elements(&p->shape, &elements);
    if (!p->sparse || !p->initial) continue;
    sparse = true;
    for (int64_t e = 0; e < elements; e++)
      if (wafer_element_f64(p->dtype, p->initial, e) == 0)
        digest = wafer_mix(wafer_mix(digest, i), (uint64_t)e);
  }
  j->a->train.sparsity =
      sparse
          ? wafer_arena_printf(j->arena, "%.9g zeros %016" PRIx64, j->a->compile.sparsity, digest)
          : wafer_arena_printf(j->arena, "%.9g dense", j->a->compile.sparsity);
  return j->a->train.sparsity ? WAFER_OK : cli_no_memory();
}

/* Options that steps go by: those of the schedule and the optimizer that count, the order of
 * samples, and how numbers are held. */
static wafer_status describe_settings(job *j) {
  const wafer_train_options *o = &j->a->train;
  const wafer_optimizer *p = &o->optimizer;
  const wafer_schedule *s = &o->schedule;
  char *text = wafer_arena_printf(j->arena, "--lr %.9g --lr-schedule %s", p->lr,
                                  wafer_schedule_name(s->kind));
  if (text && (s->kind == WAFER_SCHEDULE_linear || s->kind == WAFER_SCHEDULE_cosine))
    text =
        wafer_arena_printf(j->arena, "%s --lr-end %.9g --steps %llu", text, s->end, (ull)s->steps);
  if (text && s->kind == WAFER_SCHEDULE_step)
    text = wafer_arena_printf(j->arena, "%s --lr-every %llu --lr-gamma %.9g", text, (ull)s->every,
                              s->gamma);
  if (text)
    text =
        wafer_arena_printf(j->arena,
                           "%s --warmup %llu --weight-decay %.9g --momentum %.9g --beta1 %.9g "
                           "--beta2 %.9g --eps %.9g --clip-norm %.9g%s",
                           text, (ull)s->warmup, p->weight_decay, p->momentum, p->beta1, p->beta2,
                           p->eps, o->clip_norm, j->a->no_shuffle ? " --no-shuffle" : "");
  if (text)
    text = wafer_arena_printf(j->arena, "%s --dtype %s --loss-scale", text,
                              j->a->compile.storage == WAFER_DTYPE_f16 ? "f16" : "f32");
  if (text)
    text = o->loss_scale.dynamic
               ? wafer_arena_printf(j->arena, "%s dynamic", text)
               : wafer_arena_printf(j->arena, "%s %.9g", text, o->loss_scale.scale);
  j->a->train.settings = text;
  return text ? WAFER_OK : cli_no_memory();
}

static uint64_t label_elements(const job *j) {
  wafer_shape shape = sample_shape(j->plan, j->plan->training->labels);
  int64_t elements = 1;
  (void)wafer_shape_elements(&shape, &elements);
  return (uint64_t)elements;
}

static wafer_status settle_run(job *j) {
  train_arguments *a = j->a;
  uint64_t samples = j->data ? wafer_dataset_samples(j->data) : 0;
  if (a->epochs) a->train.steps = (a->epochs * samples + a->train.batch - 1) / a->train.batch;
  a->train.schedule.steps = a->train.steps;
  a->train.micro_batch = j->micro_batch;
  a->train.samples = samples;
  a->train.elements = label_elements(j);
  a->train.classes = j->eval_plan && j->eval_plan->training->correct != WAFER_NONE;
  a->train.evaluate = j->eval_data != NULL;
  WAFER_TRY(describe_zeros(j));
  WAFER_TRY(describe_settings(j));
  char *path = realpath(a->model, NULL);
  a->train.model = wafer_arena_strdup(j->arena, path ? path : a->model);
  free(path);
  return a->train.model ? WAFER_OK : cli_no_memory();
}

static wafer_status run(job *j) {
  wafer_transport transport;
  train_log log = {.a = j->a,
                   .machine = j->machine->name,
                   .clock_hz = (double)j->machine->clock_hz,
                   .step_cycles = j->cycles.step};
  WAFER_TRY(settle_run(j));
  j->a->train.watch = train_watch_of(&log);
  WAFER_TRY(open_transport(j, &transport));
  wafer_status status = j->ranks.rank            ? wafer_transport_serve(&transport)
                        : j->a->mode == EVALUATE ? wafer_train_evaluate(&j->a->train, &transport)
                                                 : wafer_train(&j->a->train, &transport);
  if (status == WAFER_TRAP && j->data) wafer_dataset_doubt(j->data, cli_diag());
  status = train_log_close(&log, status);
  if (status == WAFER_OK) status = wafer_transport_end(&transport);
  if (status != WAFER_OK && j->ranks.count > 1) /* the others wait for this one */
    fflush(NULL), j->ranks.abort(j->ranks.self, status);
  transport.destroy(transport.self);
  return status;
}

/* What a step costs; with --execution auto the choice that follows from it. */
static wafer_status predict(job *j) {
  uint64_t micro_batches = j->a->train.batch / j->micro_batch;
  wafer_scale_options step = {.systems = j->a->systems,
                              .micro_batches = micro_batches,
                              .servers = j->a->servers,
                              .state_bytes = j->state_bytes,
                              .waits = j->a->train.clip_norm > 0 || j->a->train.loss_scale.dynamic};
  if (wafer_plan_updates(j->plan)) {
    WAFER_TRY(wafer_plan_step_cycles(cli_diag(), j->plan, micro_batches, &j->on_wafer));
  } else {
    WAFER_TRY(wafer_scale_predict(cli_diag(), j->plan, &step, &j->cycles));
    WAFER_TRY(train_faster(j->a, j->arena, micro_batches, j->cycles.step, &j->plan, &j->on_wafer));
  }
  if (wafer_plan_updates(j->plan)) j->cycles.step = j->on_wafer.step;
  return WAFER_OK;
}

static wafer_status prepare(void *self) {
  job *j = self;
  WAFER_TRY(wafer_machine_open(cli_diag(), j->arena, j->a->machine, &j->machine));
  WAFER_TRY(open_data(j));
  WAFER_TRY(choose_plan(j));
  WAFER_TRY(check_batch(j));
  WAFER_TRY(list_parameters(j));
  if (j->data) WAFER_TRY(match_fields(j, j->a->data, j->data));
  if (j->eval_data) WAFER_TRY(match_fields(j, j->a->eval_data, j->eval_data));
  if (j->field_count) check_labels(j);
  j->state_bytes = state_bytes(j);
  WAFER_TRY(predict(j));
  return list_parameters(j);
}

/* Every value of the samples, as the feed would take it: labels that are no class, say. */
static wafer_status check_values(const job *j, const wafer_dataset *data) {
  for (uint32_t i = 0; data && i < j->field_count; i++) {
    wafer_shape sample = wafer_dataset_shape(data, j->fields[i].field);
    void *to = wafer_arena_alloc(j->arena, wafer_tensor_bytes(j->fields[i].dtype, &sample), 64);
    if (!to) return cli_no_memory();
    for (uint64_t n = 0; n < wafer_dataset_samples(data); n++)
      WAFER_TRY(wafer_dataset_gather(data, cli_diag(), &j->fields[i], &n, 1, to));
  }
  return WAFER_OK;
}

static wafer_status train_ranks(job *j) {
  train_arguments *a = j->a;
  WAFER_TRY(train_agree(&j->ranks, prepare, j));
  if (a->validate_only) {
    const wafer_dataset *sets[] = {j->data, j->eval_data};
    for (uint32_t i = 0; i < WAFER_COUNT(sets) && j->ranks.rank == 0; i++)
      WAFER_TRY(check_values(j, sets[i]));
    if (!a->quiet) puts("options, model and data fit each other");
    return WAFER_OK;
  }
  WAFER_TRY(evaluation_plans(j));
  print_plan(j);
  return a->compile_only ? WAFER_OK : run(j);
}

static wafer_status train(train_arguments *a, wafer_arena *arena) {
  job j = {.a = a, .arena = arena};
  WAFER_TRY(train_join(a, &j.ranks));
  wafer_status status = train_ranks(&j);
  if (j.ranks.destroy) j.ranks.destroy(j.ranks.self);
  return status;
}

int wafer_tool_train(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  train_arguments a;
  bool help = false;
  char **all;
  int all_count;
  wafer_status status = train_with_params(argc, argv, arena, &all_count, &all);
  if (status == WAFER_OK) status = train_parse(all_count, all, arena, &a, &help);
  if (help) fputs(train_usage, stdout);
  if (status == WAFER_OK && !help) {
    if (a.quiet) cli_quiet();
    status = train_supervises(&a) ? train_supervise(&a, arena, all_count, all) : train(&a, arena);
  }
  wafer_arena_destroy(arena);
  return status;
}
