/* The loop over a model in closed form: y = w x + b, squared error, weights in two parameters. */
#include "wafer/train.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "caught.h"
#include "scratch.h"
#include "thread_ranks.h"
#include "wafer/npy.h"

enum { SAMPLES = 96, MICRO = 2, BATCH = 16, FEATURES = 3 };

/* ---- a system ---- */

typedef struct line {
  const float *w, *b;
  float gw[FEATURES], gb;
  uint64_t left[2], read[2];
  wafer_view views[2];
  uint32_t count;  /* samples of a micro-batch */
  uint64_t poison; /* runs until a gradient is infinite; 0: never */
} line;

static wafer_status line_bind(void *self, uint32_t parameter, const void *data) {
  line *l = self;
  *(parameter ? &l->b : &l->w) = data;
  return WAFER_OK;
}

static wafer_status line_run(void *self, const wafer_micro_batch *batch, wafer_answer *out) {
  line *l = self;
  const float *x = batch->fields[0], *t = batch->fields[1];
  *out = (wafer_answer){.gradients = l->views, .gradient_count = 2, .count = l->count};
  memset(l->gw, 0, sizeof l->gw);
  l->gb = 0;
  for (uint32_t i = 0; i < l->count; i++) {
    float y = l->b[0];
    for (int f = 0; f < FEATURES; f++) y += l->w[f] * x[i * FEATURES + f];
    float off = y - t[i], seed = 2 * off * batch->loss_gradient;
    out->loss += (double)off * off;
    for (int f = 0; f < FEATURES; f++) l->gw[f] += seed * x[i * FEATURES + f];
    l->gb += seed;
  }
  if (l->poison && --l->poison == 0) l->gb = INFINITY;
  out->cycles = 5000;
  out->left = l->left;
  out->read = l->read;
  return WAFER_OK;
}

static wafer_system make_line(uint32_t count, uint64_t poison) {
  line *l = calloc(1, sizeof *l);
  static const wafer_shape shapes[] = {{1, {FEATURES}}, {0, {0}}};
  l->views[0] = wafer_view_of(WAFER_DTYPE_f32, &shapes[0], l->gw);
  l->views[1] = wafer_view_of(WAFER_DTYPE_f32, &shapes[1], &l->gb);
  l->count = count;
  l->poison = poison;
  l->left[0] = 4900, l->left[1] = 4000;
  return (wafer_system){l, line_bind, line_run, free};
}

/* ---- a run ---- */

typedef struct fixture {
  scratch in;
  wafer_arena *arena;
  wafer_dataset *data;
  caught last;
  const wafer_machine *machine;
  wafer_diag diag;
  uint64_t steps_told, first_told;
  wafer_train_step told[256];
  wafer_train_score score;
} fixture;

static float draw(uint32_t i) {
  return (float)(wafer_mix(i, 1) >> 40) * 0x1p-23f - 1;
}

static void prepare(fixture *f) {
  float x[SAMPLES * FEATURES], y[SAMPLES];
  char path[1100];
  memset(f, 0, sizeof *f);
  f->in = scratch_create();
  f->arena = wafer_arena_create();
  f->diag = caught_diag(&f->last);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, f->arena, "wse2", &f->machine), WAFER_OK);
  for (uint32_t i = 0; i < SAMPLES * FEATURES; i++) x[i] = draw(i);
  for (int i = 0; i < SAMPLES; i++)
    y[i] = 0.5f * x[3 * i] - 2 * x[3 * i + 1] + x[3 * i + 2] + 0.25f;
  wafer_shape shapes[] = {{2, {SAMPLES, FEATURES}}, {1, {SAMPLES}}};
  wafer_view views[] = {wafer_view_of(WAFER_DTYPE_f32, &shapes[0], x),
                        wafer_view_of(WAFER_DTYPE_f32, &shapes[1], y)};
  wafer_npy_write(NULL, scratch_path(&f->in, "x.npy"), &views[0]);
  wafer_npy_write(NULL, scratch_path(&f->in, "y.npy"), &views[1]);
  snprintf(path, sizeof path, "%s/x.npy,%s/y.npy", f->in.folder, f->in.folder);
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(NULL, f->arena, path, false, &f->data), WAFER_OK);
}

static void finish(fixture *f) {
  char command[600];
  wafer_arena_destroy(f->arena);
  snprintf(command, sizeof command, "rm -rf '%s'", f->in.folder);
  CU_ASSERT_EQUAL(system(command), 0);
}

static wafer_status on_begin(void *self, uint64_t step) {
  ((fixture *)self)->first_told = step;
  return WAFER_OK;
}
static wafer_status on_step(void *self, const wafer_train_step *step) {
  fixture *f = self;
  if (f->steps_told < WAFER_COUNT(f->told)) f->told[f->steps_told] = *step;
  f->steps_told++;
  return WAFER_OK;
}
static wafer_status on_score(void *self, const wafer_train_score *score) {
  ((fixture *)self)->score = *score;
  return WAFER_OK;
}

static wafer_train_options options_of(fixture *f, uint64_t steps, const char *folder) {
  return (wafer_train_options){.diag = &f->diag,
                               .steps = steps,
                               .batch = BATCH,
                               .seed = 5,
                               .micro_batch = MICRO,
                               .elements = 1,
                               .optimizer = wafer_optimizer_default(WAFER_OPTIMIZER_adam),
                               .loss_scale = {.scale = 1},
                               .schedule = {.kind = WAFER_SCHEDULE_cosine, .steps = 200},
                               .model = "line.onnx",
                               .loss = "mse",
                               .checkpoint = folder,
                               .keep = 2,
                               .watch = {f, on_begin, on_step, on_score, NULL}};
}

/* What a rank is given; everything, when it is alone. */
static wafer_local local_of(fixture *f, const wafer_train_options *o, uint32_t systems,
                            uint32_t servers, uint64_t poison) {
  static const wafer_gather fields[] = {{.field = 0, .dtype = WAFER_DTYPE_f32},
                                        {.field = 1, .dtype = WAFER_DTYPE_f32}};
  static const wafer_parameter parameters[] = {
      {.name = "w", .dtype = WAFER_DTYPE_f32, .shape = {1, {FEATURES}}},
      {.name = "b", .dtype = WAFER_DTYPE_f32, .shape = {0, {0}}}};
  wafer_local local = {.diag = &f->diag,
                       .machine = f->machine,
                       .systems = systems,
                       .training = make_line(MICRO, poison),
                       .evaluation = make_line(40, 0),
                       .rest = make_line(SAMPLES % 40, 0),
                       .data = f->data,
                       .eval_data = f->data,
                       .fields = fields,
                       .micro_batch = MICRO,
                       .eval_micro_batch = 40,
                       .shuffle = true,
                       .seed = o->seed,
                       .parameters = parameters,
                       .parameter_count = 2,
                       .memoryx = {.optimizer = o->optimizer, .servers = servers, .threads = 1}};
  local.memoryx.optimizer.lr = 0.05;
  return local;
}

static wafer_status run_with(fixture *f, wafer_train_options *o, uint32_t systems, uint32_t servers,
                             uint64_t poison) {
  wafer_transport t;
  wafer_local local = local_of(f, o, systems, servers, poison);
  o->optimizer.lr = 0.05;
  CU_ASSERT_EQUAL_FATAL(wafer_transport_local(&local, &t), WAFER_OK);
  wafer_status status = wafer_train(o, &t);
  t.destroy(t.self);
  return status;
}

typedef struct rank_run {
  wafer_local local;
  const wafer_train_options *o; /* rank 0's */
  wafer_status status;
} rank_run;

static void *run_rank(void *self) {
  rank_run *r = self;
  wafer_transport t;
  r->status = wafer_transport_local(&r->local, &t);
  if (r->status != WAFER_OK) return NULL;
  r->status = r->o ? wafer_train(r->o, &t) : wafer_transport_serve(&t);
  if (r->status == WAFER_OK) r->status = wafer_transport_end(&t);
  t.destroy(t.self);
  return NULL;
}

/* The same run over `count` ranks. */
static bool run_ranks(fixture *f, wafer_train_options *o, uint32_t count, uint32_t systems,
                      uint32_t servers) {
  post p;
  wafer_ranks ranks[MOST_RANKS];
  rank_run runs[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  bool right = true;
  o->optimizer.lr = 0.05;
  post_open(&p, count, ranks);
  for (uint32_t i = 0; i < count; i++) {
    runs[i] = (rank_run){local_of(f, o, systems, servers, 0), i ? NULL : o, WAFER_OK};
    runs[i].local.ranks = ranks[i];
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run_rank, &runs[i]), 0);
  }
  for (uint32_t i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    right &= runs[i].status == WAFER_OK;
  }
  return post_close(&p) && right;
}

/* Bytes of the three files of a checkpoint, one after the other; 0: there is none. */
static size_t bytes_of(const fixture *f, const char *folder, uint64_t step, char *to) {
  static const char *const files[] = {"weights.safetensors", "state.safetensors",
                                      "checkpoint.json"};
  size_t count = 0;
  for (int i = 0; i < 3; i++) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s/step-%08u/%s", f->in.folder, folder, (unsigned)step,
             files[i]);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    count += fread(to + count, 1, 8192, file);
    fclose(file);
  }
  return count;
}

static bool same_checkpoints(const fixture *f, const char *a, const char *b, uint64_t step) {
  static char x[3 * 8192], y[3 * 8192];
  size_t n = bytes_of(f, a, step, x), m = bytes_of(f, b, step, y);
  return n > 0 && n == m && !memcmp(x, y, n);
}

static void a_line_is_learned(void) {
  fixture f;
  prepare(&f);
  wafer_train_options o = options_of(&f, 200, NULL);
  o.evaluate = true;
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_OK);
  CU_ASSERT_EQUAL(f.steps_told, 200);
  CU_ASSERT(f.told[0].loss > 1 && f.told[199].loss < 1e-4);
  CU_ASSERT(f.score.step == 200 && f.score.loss < 1e-4 && isnan(f.score.accuracy));
  finish(&f);
}

/* The first two steps by hand: mean gradient over the batch, clipped, through plain descent. */
static void steps_are_those_of_the_mean(void) {
  fixture f;
  prepare(&f);
  for (int scale = 1; scale <= 1024; scale *= 1024) {
    f.steps_told = 0;
    wafer_train_options o = options_of(&f, 2, NULL);
    o.optimizer = wafer_optimizer_default(WAFER_OPTIMIZER_sgd);
    o.schedule.kind = WAFER_SCHEDULE_constant;
    o.clip_norm = 0.5;
    o.loss_scale.scale = scale;
    CU_ASSERT_EQUAL(run_with(&f, &o, 2, 1, 0), WAFER_OK);
    double w[FEATURES + 1] = {0};
    for (uint64_t step = 0; step < 2; step++) {
      double g[FEATURES + 1] = {0}, loss = 0, norm = 0;
      for (uint64_t n = step * BATCH; n < (step + 1) * BATCH; n++) {
        uint32_t s = (uint32_t)wafer_dataset_at(f.data, true, 5, n);
        double x[FEATURES + 1] = {draw(3 * s), draw(3 * s + 1), draw(3 * s + 2), 1};
        double off = -(0.5 * x[0] - 2 * x[1] + x[2] + 0.25);
        for (int i = 0; i <= FEATURES; i++) off += w[i] * x[i];
        loss += off * off / BATCH;
        for (int i = 0; i <= FEATURES; i++) g[i] += 2 * off * x[i] / BATCH;
      }
      for (int i = 0; i <= FEATURES; i++) norm += g[i] * g[i];
      norm = sqrt(norm);
      CU_ASSERT_DOUBLE_EQUAL(f.told[step].loss, loss, 1e-6);
      CU_ASSERT_DOUBLE_EQUAL(f.told[step].norm, norm, 1e-6);
      for (int i = 0; i <= FEATURES; i++) w[i] -= 0.05 * g[i] * fmin(1, 0.5 / norm);
    }
  }
  finish(&f);
}

static void nothing_depends_on_systems_or_servers(void) {
  static const uint32_t systems[] = {2, 3, 4, 11}, servers[] = {1, 2, 3, 2};
  fixture f;
  prepare(&f);
  wafer_train_options o = options_of(&f, 20, scratch_path(&f.in, "one"));
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(systems); i++) {
    char name[16];
    snprintf(name, sizeof name, "n%u", systems[i]);
    o = options_of(&f, 20, scratch_path(&f.in, name));
    CU_ASSERT_EQUAL(run_with(&f, &o, systems[i], servers[i], 0), WAFER_OK);
    CU_ASSERT(same_checkpoints(&f, "one", name, 20));
  }
  finish(&f);
}

/* Fewer, as many and more systems and servers than ranks; a run is gone on with by other ranks. */
static void nothing_depends_on_ranks(void) {
  static const uint32_t ranks[] = {2, 3, 4, 7, 5}, systems[] = {2, 3, 9, 4, 1},
                        servers[] = {1, 2, 3, 2, 6};
  fixture f;
  prepare(&f);
  wafer_train_options o = options_of(&f, 20, scratch_path(&f.in, "one"));
  o.evaluate = true;
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_OK);
  wafer_train_score want = f.score;
  for (size_t i = 0; i < WAFER_COUNT(ranks); i++) {
    char name[16];
    snprintf(name, sizeof name, "r%u", ranks[i]);
    o = options_of(&f, 1, NULL);
    f.steps_told = 0;
    CU_ASSERT_EQUAL(run_with(&f, &o, systems[i], servers[i], 0), WAFER_OK);
    wafer_step_time alone = f.told[0].time;
    f.steps_told = 0;
    CU_ASSERT(run_ranks(&f, &o, ranks[i], systems[i], servers[i]));
    CU_ASSERT(alone.step > 5000 && !memcmp(&f.told[0].time, &alone, sizeof alone));
    o = options_of(&f, 9, scratch_path(&f.in, name));
    CU_ASSERT(run_ranks(&f, &o, ranks[i], systems[i], servers[i]));
    o = options_of(&f, 20, scratch_path(&f.in, name));
    o.resume = o.evaluate = true;
    f.score.loss = -1;
    CU_ASSERT(run_ranks(&f, &o, ranks[WAFER_COUNT(ranks) - 1 - i], systems[i], servers[i]));
    CU_ASSERT_EQUAL(f.first_told, 9);
    CU_ASSERT_EQUAL(f.score.loss, want.loss);
    CU_ASSERT(same_checkpoints(&f, "one", name, 20));
  }
  finish(&f);
}

static wafer_status resume(fixture *f, const char *folder, uint64_t steps, uint32_t systems) {
  wafer_train_options o = options_of(f, steps, scratch_path(&f->in, folder));
  o.resume = true;
  o.checkpoint_every = 5;
  f->steps_told = 0;
  return run_with(f, &o, systems, 1, 0);
}

/* Stopped and gone on with, twice, with other numbers of systems; then the newest checkpoints are
 * damaged in several ways and done again. */
static void resuming_changes_nothing(void) {
  fixture f;
  prepare(&f);
  wafer_train_options o = options_of(&f, 30, scratch_path(&f.in, "whole"));
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_OK);
  CU_ASSERT_EQUAL(resume(&f, "parts", 7, 1), WAFER_OK);
  CU_ASSERT_EQUAL(f.first_told, 0);
  CU_ASSERT_EQUAL(resume(&f, "parts", 18, 3), WAFER_OK);
  CU_ASSERT_EQUAL(f.first_told, 7);
  CU_ASSERT_EQUAL(resume(&f, "parts", 30, 2), WAFER_OK);
  CU_ASSERT(same_checkpoints(&f, "whole", "parts", 30));
  CU_ASSERT_EQUAL(resume(&f, "parts", 30, 2), WAFER_OK);
  CU_ASSERT_EQUAL(f.steps_told, 0);
  char file[600];
  snprintf(file, sizeof file, "%s/parts/step-00000030/weights.safetensors", f.in.folder);
  CU_ASSERT_EQUAL(truncate(file, 100), 0);
  f.last.count = 0;
  CU_ASSERT_EQUAL(resume(&f, "parts", 30, 2), WAFER_OK);
  CU_ASSERT_EQUAL(f.first_told, 25);
  CU_ASSERT(f.last.count == 1 && f.last.severity == WAFER_WARNING);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.last.text, "; this checkpoint is skipped"));
  CU_ASSERT(same_checkpoints(&f, "whole", "parts", 30));
  snprintf(file, sizeof file, "%s/parts/step-00000030/state.safetensors", f.in.folder);
  int fd = open(file, O_WRONLY);
  CU_ASSERT(lseek(fd, -3, SEEK_END) > 0 && write(fd, "x", 1) == 1);
  close(fd);
  CU_ASSERT_EQUAL(resume(&f, "parts", 30, 4), WAFER_OK);
  CU_ASSERT_EQUAL(f.first_told, 25);
  CU_ASSERT(same_checkpoints(&f, "whole", "parts", 30));
  snprintf(file, sizeof file, "%s/parts/step-00000030/checkpoint.json", f.in.folder);
  CU_ASSERT_EQUAL(truncate(file, 40), 0);
  CU_ASSERT_EQUAL(resume(&f, "parts", 30, 1), WAFER_OK);
  CU_ASSERT(same_checkpoints(&f, "whole", "parts", 30));
  finish(&f);
}

static void only_the_same_run_goes_on(void) {
  fixture f;
  prepare(&f);
  CU_ASSERT_EQUAL(resume(&f, "run", 5, 1), WAFER_OK);
  wafer_train_options o = options_of(&f, 10, scratch_path(&f.in, "run"));
  o.resume = true;
  o.batch = 2 * BATCH;
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_USAGE);
  CU_ASSERT_STRING_EQUAL(f.last.text,
                         "the checkpoint is of a run with --batch 16, this one has 32");
  o = options_of(&f, 10, scratch_path(&f.in, "run"));
  o.resume = true;
  o.optimizer = wafer_optimizer_default(WAFER_OPTIMIZER_lion);
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_USAGE);
  CU_ASSERT_STRING_EQUAL(f.last.text,
                         "the checkpoint is of a run with mse and adam, this one has mse and lion");
  o = options_of(&f, 10, NULL);
  o.resume = true;
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, 0), WAFER_USAGE);
  wafer_checkpoints *held;
  CU_ASSERT_EQUAL(wafer_checkpoints_open(NULL, scratch_path(&f.in, "run"), &held), WAFER_OK);
  CU_ASSERT_EQUAL(resume(&f, "run", 10, 1), WAFER_IO);
  CU_ASSERT_STRING_EQUAL(f.last.text, "another run writes here");
  wafer_checkpoints_close(held);
  finish(&f);
}

static void the_last_ones_are_kept(void) {
  fixture f;
  prepare(&f);
  char bytes[3 * 8192];
  CU_ASSERT_EQUAL(resume(&f, "run", 22, 1), WAFER_OK);
  CU_ASSERT_EQUAL(bytes_of(&f, "run", 15, bytes), 0);
  CU_ASSERT(bytes_of(&f, "run", 20, bytes) > 0);
  CU_ASSERT(bytes_of(&f, "run", 22, bytes) > 0);
  finish(&f);
}

/* An overflow changes nothing but the scale; without a dynamic one it ends the run. */
static void overflows_are_skipped_or_said(void) {
  fixture f;
  prepare(&f);
  wafer_train_options o = options_of(&f, 4, NULL);
  o.loss_scale = (wafer_loss_scale){.dynamic = true, .scale = 8, .patience = 2};
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, BATCH / MICRO), WAFER_OK);
  CU_ASSERT(f.told[0].skipped && !f.told[1].skipped);
  CU_ASSERT_EQUAL(f.told[1].loss_scale, 4);
  CU_ASSERT_EQUAL(f.told[3].loss_scale, 8);
  o = options_of(&f, 4, NULL);
  CU_ASSERT_EQUAL(run_with(&f, &o, 1, 1, BATCH / MICRO), WAFER_TRAP);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.last.text, "step 1: gradients are not finite at a loss of"));
  finish(&f);
}

static void draws_are_uniform_and_keyed(void) {
  enum { COUNT = 40001 };
  float *a = malloc(COUNT * sizeof *a), *b = malloc(COUNT * sizeof *b);
  wafer_draw_uniform(1, 2, 3, 4, a, COUNT);
  double mean = 0, square = 0;
  for (int i = 0; i < COUNT; i++) {
    CU_ASSERT_FATAL(a[i] >= 0 && a[i] < 1);
    mean += a[i] / COUNT;
    square += (double)a[i] * a[i] / COUNT;
  }
  CU_ASSERT_DOUBLE_EQUAL(mean, 0.5, 0.01);
  CU_ASSERT_DOUBLE_EQUAL(square, 1.0 / 3, 0.01);
  for (int key = 0; key < 4; key++) {
    int same = 0;
    wafer_draw_uniform(1 + (key == 0), 2 + (key == 1), 3 + (key == 2), 4 + (key == 3), b, COUNT);
    for (int i = 0; i < COUNT; i++) same += a[i] == b[i];
    CU_ASSERT(same < 10);
  }
  wafer_draw_uniform(1, 2, 3, 4, b, 10);
  CU_ASSERT_EQUAL(memcmp(a, b, 10 * sizeof *a), 0);
  free(a);
  free(b);
}

CU_TestInfo tests_train[] = {
    {"a line is learned", a_line_is_learned},
    {"steps are those of the mean", steps_are_those_of_the_mean},
    {"nothing depends on systems or servers", nothing_depends_on_systems_or_servers},
    {"nothing depends on ranks", nothing_depends_on_ranks},
    {"resuming changes nothing", resuming_changes_nothing},
    {"only the same run goes on", only_the_same_run_goes_on},
    {"the last ones are kept", the_last_ones_are_kept},
    {"overflows are skipped or said", overflows_are_skipped_or_said},
    {"draws are uniform and keyed", draws_are_uniform_and_keyed},
    CU_TEST_INFO_NULL,
};
