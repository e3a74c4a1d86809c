/* Pipelined training: where gradients stay, what they cost, what a step takes, and what the check
 * of a plan refuses. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "caught.h"
#include "compiled.h"
#include "wafer/memoryx.h"
#include "wafer/session.h"

#define NET                                                                                        \
  "in x f32 3x3; init w f32 3x4 = .5 -.3 .2 .7 -.6 .1 .4 -.2 .3 .8 -.5 .6; init v f32 4x3 = .3 "   \
  "-.7 .2 .5 .4 -.1 .9 .2 -.4 -.3 .6 .8; MatMul x w -> m; Tanh m -> a; MatMul a v -> z; "          \
  "Identity z -> y; out y"

typedef struct made {
  compiled c;
  wafer_options options;
  wafer_training_options training;
} made;

static wafer_status make(made *t, const wafer_diag *diag, wafer_mode mode,
                         wafer_optimizer_kind optimizer) {
  *t = (made){.options = {.mode = mode},
              .training = {.loss = WAFER_LOSS_mse, .micro_batch = 3, .optimizer = optimizer}};
  t->options.training = &t->training;
  return compiled_text(&t->c, diag, &t->options, NET);
}

static void end(made *t) {
  compiled_end(&t->c);
}

/* The kernel that adds up the i-th trained weight's gradient, and which of its outputs that is. */
static const wafer_kernel *maker(const wafer_plan *plan, uint32_t i, uint32_t *output) {
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (*output = 0; *output < plan->kernels[k].body.output_count; ++*output)
      if (plan->kernels[k].outputs[*output] == plan->training->trained[i].gradient)
        return &plan->kernels[k];
  return NULL;
}

static void gradients_stay(void) {
  made t;
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_adam), WAFER_OK);
  CU_ASSERT(wafer_plan_updates(t.c.plan) && t.c.plan->phase_count == 1);
  CU_ASSERT_EQUAL(t.c.plan->training->optimizer, WAFER_OPTIMIZER_adam);
  for (uint32_t i = 0; i < t.c.plan->training->trained_count; i++) {
    uint32_t output = 0;
    const wafer_kernel *k = maker(t.c.plan, i, &output);
    CU_ASSERT_PTR_NOT_NULL_FATAL(k);
    CU_ASSERT(wafer_body_sums(&k->body, output) && k->body.state == 3);
    for (uint32_t s = 0; s < t.c.plan->stream_count; s++)
      CU_ASSERT_NOT_EQUAL(t.c.plan->streams[s].value, t.c.plan->training->trained[i].gradient);
  }
  end(&t);
}

/* An addition per sample; in f32 the sum, the weight and what the optimizer keeps. */
static void sums_cost(void) {
  made t;
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_momentum), WAFER_OK);
  uint32_t output = 0;
  const wafer_kernel *k = maker(t.c.plan, 0, &output);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  wafer_layout layout = wafer_kernel_output_layout(&k->body, &k->split, output);
  uint64_t tile = wafer_layout_tile(&layout, &t.c.plan->values[k->outputs[output]].type.shape);
  wafer_kernel_body plain = k->body, more = k->body;
  wafer_cost without, with, bigger;
  plain.output_is_summed = NULL;
  more.state++;
  wafer_kernel_cost(t.c.ctx.machine, &plain, &k->split, &without);
  wafer_kernel_cost(t.c.ctx.machine, &k->body, &k->split, &with);
  wafer_kernel_cost(t.c.ctx.machine, &more, &k->split, &bigger);
  CU_ASSERT(with.compute_cycles > without.compute_cycles + tile / 2);
  CU_ASSERT_EQUAL(with.weight_bytes, without.weight_bytes + 4 * tile * 3);
  CU_ASSERT_EQUAL(bigger.weight_bytes, with.weight_bytes + 4 * tile);
  CU_ASSERT_EQUAL(with.output_bytes * plain.output_depth, without.output_bytes);
  CU_ASSERT_NOT_EQUAL(wafer_kernel_signature(&plain), wafer_kernel_signature(&k->body));
  CU_ASSERT_NOT_EQUAL(wafer_kernel_signature(&more), wafer_kernel_signature(&k->body));
  end(&t);
}

/* ---- values ---- */

static void run(const made *t, float *loss, float *gradient, size_t room) {
  static const float x[9] = {.4f, -.2f, .9f, -.7f, .3f, .1f, .6f, .8f, -.5f}, one = 1;
  const wafer_function *f = &t->c.plan->functions[0];
  const wafer_training *training = t->c.plan->training;
  wafer_session *session;
  wafer_view in[3], out[4];
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(t->c.plan, NULL, &session), WAFER_OK);
  CU_ASSERT_FATAL(f->input_count == 3 && f->output_count == 4);
  for (uint32_t i = 0; i < 3; i++) {
    const wafer_value *v = &t->c.plan->values[f->inputs[i]];
    const void *data = f->inputs[i] == training->seed ? &one : x;
    in[i] = wafer_view_of(v->type.dtype, &v->type.shape, (void *)(uintptr_t)data);
  }
  CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, in, 3, out, 4), WAFER_OK);
  for (uint32_t i = 0; i < 4; i++) {
    if (f->outputs[i] == training->loss) memcpy(loss, out[i].data, sizeof *loss);
    if (f->outputs[i] == training->trained[0].gradient)
      memcpy(gradient, out[i].data, room * sizeof *gradient);
  }
  wafer_session_destroy(session);
}

static void both_modes_agree(void) {
  made streaming, pipelined;
  float losses[2] = {0}, gradients[2][12] = {{0}};
  CU_ASSERT_EQUAL_FATAL(make(&streaming, NULL, WAFER_MODE_streaming, WAFER_OPTIMIZER_sgd),
                        WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(make(&pipelined, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_sgd),
                        WAFER_OK);
  run(&streaming, &losses[0], gradients[0], 12);
  run(&pipelined, &losses[1], gradients[1], 12);
  CU_ASSERT(losses[0] > 0 && gradients[0][0] != 0);
  CU_ASSERT_EQUAL(losses[0], losses[1]);
  CU_ASSERT_EQUAL(memcmp(gradients[0], gradients[1], sizeof gradients[0]), 0);
  end(&streaming);
  end(&pipelined);
}

enum { MOST_SAMPLES = 8 };

/* Views of samples from `first` on, with a leading dim where there are any. */
static void make_inputs(const wafer_plan *plan, int64_t first, int64_t samples, wafer_view in[3]) {
  static float x[MOST_SAMPLES][9], labels[MOST_SAMPLES][9], one[MOST_SAMPLES];
  const wafer_function *f = &plan->functions[0];
  for (int i = 0; i < MOST_SAMPLES * 9; i++) {
    x[i / 9][i % 9] = (float)(i * 37 % 19 - 9) / 8;
    labels[i / 9][i % 9] = (float)(i * 23 % 17 - 8) / 8;
    one[i / 9] = 1;
  }
  for (uint32_t i = 0; i < 3; i++) {
    wafer_type type = plan->values[f->inputs[i]].type;
    float *data = f->inputs[i] == plan->training->seed     ? &one[first]
                  : f->inputs[i] == plan->training->labels ? labels[first]
                                                           : x[first];
    memmove(type.shape.dims + (samples > 0), type.shape.dims, sizeof type.shape.dims[0] * 3);
    if (samples) type.shape.dims[0] = samples, type.shape.rank++;
    in[i] = wafer_view_of(type.dtype, &type.shape, data);
  }
}

/* Loss and gradients of `samples` (0: one, without a leading dim) from `first` on, whose gradients
 * come as one sum; `times` in a row in one session. */
static void run_train(const wafer_plan *plan, wafer_fidelity fidelity, int64_t first,
                      int64_t samples, int times, float *gradient) {
  const wafer_function *f = &plan->functions[0];
  wafer_session *session;
  wafer_view in[3], out[4];
  const wafer_session_options options = {.fidelity = fidelity};
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(plan, &options, &session), WAFER_OK);
  make_inputs(plan, first, samples, in);
  for (int t = 0; t < times; t++)
    CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, in, 3, out, 4), WAFER_OK);
  for (uint32_t i = 0; i < 4; i++) {
    if (f->outputs[i] == plan->training->loss)
      CU_ASSERT_EQUAL(out[i].shape.rank, samples > 0); /* each sample has its own */
    if (f->outputs[i] != plan->training->trained[0].gradient) continue;
    CU_ASSERT(wafer_shape_equal(&out[i].shape, &plan->values[f->outputs[i]].type.shape));
    memcpy(gradient, out[i].data, 12 * sizeof *gradient);
  }
  wafer_session_destroy(session);
}

/* A train's gradients are their sum: by the tree at kernel fidelity, on the cores one after the
 * other; a second train begins anew. */
static void trains_add_up(void) {
  enum { SAMPLES = 5 };
  made t;
  const wafer_plan *with;
  float one[SAMPLES][12], kernel[12] = {0}, fabric[12] = {0};
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_sgd), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_add_programs(&t.c.ctx, t.c.plan, false, &with), WAFER_OK);
  for (int i = 0; i < SAMPLES; i++) run_train(t.c.plan, WAFER_FIDELITY_kernel, i, 0, 1, one[i]);
  run_train(t.c.plan, WAFER_FIDELITY_kernel, 0, SAMPLES, 2, kernel);
  run_train(with, WAFER_FIDELITY_fabric, 0, SAMPLES, 2, fabric);
  for (int e = 0; e < 12; e++) {
    CU_ASSERT_EQUAL(kernel[e], one[0][e] + one[1][e] + (one[2][e] + one[3][e]) + one[4][e]);
    CU_ASSERT_DOUBLE_EQUAL(fabric[e], kernel[e], 1e-5 * 4);
  }
  end(&t);
}

/* ---- updates on cores ---- */

enum { TRAINED = 2, ELEMENTS = 12 };

static wafer_memoryx *memoryx_of(const wafer_plan *plan, const wafer_optimizer *optimizer) {
  const wafer_memoryx_options options = {.optimizer = *optimizer, .threads = 1};
  wafer_parameter parameters[TRAINED];
  wafer_memoryx *m = NULL;
  for (uint32_t i = 0; i < TRAINED; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, plan->training->trained[i].weight);
    parameters[i] = (wafer_parameter){
        .name = w->name, .dtype = w->dtype, .shape = w->shape, .initial = w->data};
  }
  CU_ASSERT_EQUAL_FATAL(wafer_memoryx_create(&options, parameters, TRAINED, &m), WAFER_OK);
  return m;
}

/* What cores make of the squares of their sums is what MemoryX does in f64, but for f32's rounding;
 * the update's factor after clipping to a fifth of the norm. */
static double clipped(wafer_session *session, wafer_memoryx *m, const float *sums) {
  double each[TRAINED] = {0}, squares = 0;
  CU_ASSERT_EQUAL_FATAL(wafer_session_squares(session, &squares), WAFER_OK);
  wafer_memoryx_squares(m, sums, each);
  CU_ASSERT(squares > 0);
  CU_ASSERT_DOUBLE_EQUAL(squares, each[0] + each[1], 1e-6 * squares);
  return 0.2 * 0.2 / sqrt(squares);
}

/* Trains and updates in turn: MemoryX has the sums that the cores had. */
static void update_beside_memoryx(const wafer_plan *plan, const wafer_optimizer *optimizer) {
  float weights[TRAINED][ELEMENTS], *to[TRAINED] = {weights[0], weights[1]};
  float sums[TRAINED * ELEMENTS];
  const wafer_function *f = &plan->functions[0];
  const wafer_session_options options = {.fidelity = WAFER_FIDELITY_fabric};
  wafer_session *session;
  wafer_view in[3], out[4];
  wafer_step_cycles counted;
  wafer_memoryx *m = memoryx_of(plan, optimizer);
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(plan, &options, &session), WAFER_OK);
  make_inputs(plan, 0, 5, in);
  for (uint64_t t = 1; t <= 3; t++) {
    wafer_update update = {.number = t, .lr = 0.125 / (double)t, .scale = 0.2, .share = 0.2};
    CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, in, 3, out, 4), WAFER_OK);
    for (uint32_t i = 0; i < TRAINED; i++)
      for (uint32_t o = 0; o < 4; o++)
        if (f->outputs[o] == plan->training->trained[i].gradient)
          memcpy(sums + i * ELEMENTS, out[o].data, sizeof weights[i]);
    if (t == 2) update.scale = clipped(session, m, sums);
    CU_ASSERT_EQUAL_FATAL(wafer_session_update(session, optimizer, &update, to, &counted),
                          WAFER_OK);
    wafer_memoryx_update(m, &update, sums);
    for (uint32_t i = 0; i < TRAINED; i++)
      CU_ASSERT_EQUAL(memcmp(weights[i], wafer_memoryx_weight(m, i), sizeof weights[i]), 0);
    CU_ASSERT(counted.control && counted.update && counted.send && !counted.gather);
    CU_ASSERT_EQUAL(counted.norm > 0, t == 2);
    CU_ASSERT_EQUAL(counted.step, counted.norm + counted.control + counted.update + counted.send);
  }
  wafer_memoryx_destroy(m);
  wafer_session_destroy(session);
}

/* Every rule rounds on cores as MemoryX does, decay and state of later steps included. */
static void cores_update_as_memoryx_does(void) {
  static const wafer_optimizer_kind kinds[] = {WAFER_OPTIMIZER_sgd, WAFER_OPTIMIZER_momentum,
                                               WAFER_OPTIMIZER_adam, WAFER_OPTIMIZER_adamw};
  for (size_t i = 0; i < WAFER_COUNT(kinds); i++) {
    made t;
    const wafer_plan *with;
    wafer_optimizer optimizer = wafer_optimizer_default(kinds[i]);
    optimizer.weight_decay = 0.0625;
    CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, kinds[i]), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(wafer_plan_add_programs(&t.c.ctx, t.c.plan, false, &with), WAFER_OK);
    update_beside_memoryx(with, &optimizer);
    end(&t);
  }
}

/* ---- a step ---- */

static wafer_step_cycles step_of(const wafer_plan *plan, uint64_t micro_batches) {
  wafer_step_cycles s = {0};
  CU_ASSERT_EQUAL(wafer_plan_step_cycles(NULL, plan, micro_batches, &s), WAFER_OK);
  CU_ASSERT_EQUAL(s.step, s.train + s.gather + s.norm + s.control + s.update + s.send);
  return s;
}

static void a_step_is_a_train_and_an_update(void) {
  made t;
  wafer_timeline train = {0};
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_sgd), WAFER_OK);
  wafer_step_cycles one = step_of(t.c.plan, 1), many = step_of(t.c.plan, 40);
  CU_ASSERT_EQUAL(wafer_timeline_run(NULL, t.c.plan, 0, 40, &train), WAFER_OK);
  CU_ASSERT_EQUAL(many.train, train.total_cycles);
  CU_ASSERT(one.train < many.train && many.train < 40 * one.train);
  CU_ASSERT(one.update == many.update && one.send == many.send && one.control == many.control);
  CU_ASSERT_EQUAL(one.gather, 0); /* no replicas */
  uint64_t words = 0, copies = 0;
  for (uint32_t s = 0; s < t.c.plan->stream_count;
       s++) { /* whoever loads a trained weight gets the next */
    const wafer_stream *load = &t.c.plan->streams[s];
    uint32_t weight = t.c.plan->values[load->value].weight;
    if (weight == WAFER_NONE || !wafer_weights_at(t.c.plan->weights, weight)->trained) continue;
    words += load->words;
    copies++;
  }
  CU_ASSERT(copies >= 3); /* v is read on the way back too */
  CU_ASSERT_EQUAL(one.sent_words, words);
  CU_ASSERT_EQUAL(words, 12 * copies);
  CU_ASSERT(one.send > 0);
  end(&t);
}

static void heavier_rules_take_longer(void) {
  static const wafer_optimizer_kind kinds[] = {WAFER_OPTIMIZER_sgd, WAFER_OPTIMIZER_momentum,
                                               WAFER_OPTIMIZER_adam};
  uint64_t last = 0;
  for (size_t i = 0; i < WAFER_COUNT(kinds); i++) {
    made t;
    CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, kinds[i]), WAFER_OK);
    wafer_step_cycles s = step_of(t.c.plan, 8);
    CU_ASSERT(s.update > last);
    last = s.update;
    end(&t);
  }
}

static void replicas_gather(void) {
  made t;
  uint32_t output = 0;
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_sgd), WAFER_OK);
  const wafer_kernel *k = maker(t.c.plan, 0, &output);
  wafer_plan plan = *t.c.plan;
  wafer_kernel *kernels =
      wafer_arena_copy(t.c.ctx.arena, plan.kernels, plan.kernel_count * sizeof *kernels);
  CU_ASSERT_FATAL(k && kernels);
  plan.kernels = kernels;
  kernels[k - t.c.plan->kernels].replicas = 2;
  uint64_t two = step_of(&plan, 8).gather;
  kernels[k - t.c.plan->kernels].replicas = 3;
  CU_ASSERT(two > 12 / k->rect.height && step_of(&plan, 8).gather > two);
  end(&t);
}

/* ---- refusals ---- */

static void others_are_refused_by_name(void) {
  made t;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL(make(&t, &diag, WAFER_MODE_pipelined, WAFER_OPTIMIZER_lion), WAFER_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "lion is none of the optimizers"));
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "sgd, momentum, adam, adamw"));
  end(&t);
  CU_ASSERT_EQUAL(make(&t, NULL, WAFER_MODE_streaming, WAFER_OPTIMIZER_lion), WAFER_OK);
  wafer_step_cycles s;
  CU_ASSERT_EQUAL(wafer_plan_step_cycles(NULL, t.c.plan, 1, &s), WAFER_USAGE);
  end(&t);
}

static wafer_status check(const made *t, const wafer_plan *edited) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  (void)t;
  return wafer_plan_check(&diag, "t.wplan", edited);
}

static void broken_plans_are_refused(void) {
  made t;
  uint32_t output = 0;
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_adam), WAFER_OK);
  wafer_plan plan = *t.c.plan;
  wafer_training training = *plan.training;
  CU_ASSERT_EQUAL(check(&t, &plan), WAFER_OK);
  plan.training = &training;
  training.optimizer = WAFER_OPTIMIZER_sgd; /* other state */
  CU_ASSERT_EQUAL(check(&t, &plan), WAFER_BAD_INPUT);
  training.optimizer = WAFER_OPTIMIZER_lion;
  CU_ASSERT_EQUAL(check(&t, &plan), WAFER_BAD_INPUT);
  training.optimizer = WAFER_OPTIMIZER_COUNT;
  CU_ASSERT_EQUAL(check(&t, &plan), WAFER_BAD_INPUT);
  plan.training = t.c.plan->training;
  const wafer_kernel *k = maker(&plan, 0, &output);
  wafer_kernel *kernels =
      wafer_arena_copy(t.c.ctx.arena, plan.kernels, plan.kernel_count * sizeof *kernels);
  CU_ASSERT_FATAL(k && kernels);
  plan.kernels = kernels;
  kernels[k - t.c.plan->kernels].body.output_is_summed = NULL; /* lost */
  CU_ASSERT_EQUAL(check(&t, &plan), WAFER_BAD_INPUT);
  plan = *t.c.plan;
  plan.mode = WAFER_MODE_streaming; /* gradients never reach the edge */
  CU_ASSERT_NOT_EQUAL(check(&t, &plan), WAFER_OK);
  end(&t);
}

/* Written and read again it says the same. */
static void files_hold_it(void) {
  made t;
  const wafer_plan *again;
  CU_ASSERT_EQUAL_FATAL(make(&t, NULL, WAFER_MODE_pipelined, WAFER_OPTIMIZER_adamw), WAFER_OK);
  const char *path = scratch_save(&t.c.folder, "t.wplan", "", 0);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_write(NULL, t.c.plan, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(NULL, path, &again), WAFER_OK);
  CU_ASSERT_EQUAL(again->training->optimizer, WAFER_OPTIMIZER_adamw);
  wafer_step_cycles a = step_of(t.c.plan, 5), b = step_of(again, 5);
  CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof a), 0);
  wafer_plan_close(again);
  end(&t);
}

CU_TestInfo tests_update[] = {
    {"gradients stay on the wafer", gradients_stay},
    {"sums cost cycles and bytes", sums_cost},
    {"both modes give the same gradients", both_modes_agree},
    {"gradients of a train add up", trains_add_up},
    {"cores update weights as MemoryX does", cores_update_as_memoryx_does},
    {"a step is a train and an update", a_step_is_a_train_and_an_update},
    {"heavier rules take longer", heavier_rules_take_longer},
    {"sums of replicas come together", replicas_gather},
    {"other optimizers are refused", others_are_refused_by_name},
    {"broken plans are refused", broken_plans_are_refused},
    {"a file holds it", files_hold_it},
    CU_TEST_INFO_NULL,
};
