/* Training plans, from an ONNX file to the session: what they train, losses against differences,
 * what the check of a plan refuses. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>

#include "caught.h"
#include "compiled.h"
#include "wafer/session.h"

/* w, b and v are trained; k has an infinity, c is a scalar, and 2 -1 holds the batch of 2. */
#define MLP                                                                                        \
  "in x f32 2x3; init w f32 3x4 = .5 -.3 .2 .7 -.6 .1 .4 -.2 .3 .8 -.5 .6; init b f32 4 = .1 .2 "  \
  "-.1 0; init v f32 4x3 = .3 -.7 .2 .5 .4 -.1 .9 .2 -.4 -.3 .6 .8; init s i64 2 = 2 -1; init k "  \
  "f32 1x4 = 0 0 0 -inf; init c f32 scalar = 2; Reshape x s -> r; MatMul r w -> m; Add m b -> h; " \
  "Tanh h -> a; Mul a c -> d; Exp k -> e; Add d e -> f; MatMul f v -> z; "

typedef struct trained {
  compiled c;
  wafer_options options;
  wafer_session *session;
} trained;

static wafer_status begin(trained *t, const wafer_diag *diag, const char *text,
                          const wafer_training_options *options) {
  *t = (trained){.options = {.training = options}};
  WAFER_TRY(compiled_text(&t->c, diag, &t->options, text));
  return wafer_session_create(t->c.plan, NULL, &t->session);
}

static void end(trained *t) {
  wafer_session_destroy(t->session);
  compiled_end(&t->c);
}

static bool trains(const trained *t, const char *name) {
  const wafer_weight *w = wafer_weights_find(t->c.plan->weights, name);
  return w && w->trained;
}

/* ---- Losses ---- */

#define SAMPLES 3

static const float x[SAMPLES * 3] = {.4f, -.2f, .9f, -.7f, .3f, .1f, .6f, .8f, -.5f};
static const int64_t classes[SAMPLES] = {2, 0, 1}, some[SAMPLES] = {2, -1, 1};
static const float shares[SAMPLES * 3] = {.2f, .3f, .5f, .1f, .6f, .3f, .8f, .1f, .1f};

typedef struct outcome {
  float loss, count, gradient[12]; /* of w */
} outcome;

static bool run(const trained *t, const void *labels, const float *w, outcome *out) {
  const wafer_function *f = &t->c.plan->functions[0];
  const wafer_training *training = t->c.plan->training;
  static const float one = 1;
  wafer_view in[3], results[5];
  for (uint32_t i = 0; i < 3; i++) {
    const wafer_value *v = &t->c.plan->values[f->inputs[i]];
    const void *data = f->inputs[i] == training->labels ? labels
                       : f->inputs[i] == training->seed ? (const void *)&one
                                                        : x;
    in[i] = wafer_view_of(v->type.dtype, &v->type.shape, (void *)(uintptr_t)data);
  }
  for (uint32_t i = 0; i < training->trained_count; i++)
    if (!strcmp(wafer_weights_at(t->c.plan->weights, training->trained[i].weight)->name, "w") &&
        wafer_session_bind_weight(t->session, training->trained[i].weight, w) != WAFER_OK)
      return false;
  if (wafer_session_run(t->session, in, 3, results, 5) != WAFER_OK) return false;
  for (uint32_t i = 0; i < f->output_count; i++) {
    const char *name = t->c.plan->values[f->outputs[i]].name;
    if (f->outputs[i] == training->loss) memcpy(&out->loss, results[i].data, 4);
    if (f->outputs[i] == training->count) memcpy(&out->count, results[i].data, 4);
    if (!strcmp(name, "gradient:w")) memcpy(out->gradient, results[i].data, sizeof out->gradient);
  }
  return true;
}

typedef struct loss_row {
  wafer_training_options options;
  const char *tail; /* z -> y */
  const void *labels;
  float count;
} loss_row;

static void check_loss(const loss_row *row) {
  trained t;
  char text[1024];
  outcome at, above, below;
  snprintf(text, sizeof text, MLP "%s; out y", row->tail);
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, text, &row->options), WAFER_OK);
  float w[12];
  memcpy(w, wafer_weights_find(t.c.plan->weights, "w")->data, sizeof w);
  CU_ASSERT_FATAL(run(&t, row->labels, w, &at));
  CU_ASSERT_EQUAL(at.count, row->count);
  for (int i = 0; i < 12; i++) {
    const float before = w[i], step = 0x1p-7f;
    w[i] = before + step;
    CU_ASSERT_FATAL(run(&t, row->labels, w, &above));
    w[i] = before - step;
    CU_ASSERT_FATAL(run(&t, row->labels, w, &below));
    w[i] = before;
    double slope = ((double)above.loss - below.loss) / (2 * (double)step);
    bool right = fabs(slope - at.gradient[i]) < 2e-3;
    if (!right)
      printf("\n  %s, element %d: %g, by differences %g", wafer_loss_name(row->options.loss), i,
             at.gradient[i], slope);
    CU_ASSERT(right);
  }
  end(&t);
}

#define LOSS(name, ...) {.loss = WAFER_LOSS_##name, .micro_batch = SAMPLES, __VA_ARGS__}
static void test_losses(void) {
  static const loss_row rows[] = {
      {LOSS(cross_entropy), "Identity z -> y", classes, 3},
      {LOSS(cross_entropy, .ignores = true, .ignore_index = -1), "Identity z -> y", some, 2},
      {LOSS(cross_entropy, .class_axis = -1, .recompute = WAFER_RECOMPUTE_all), "Identity z -> y",
       classes, 3},
      {LOSS(nll), "LogSoftmax(axis=1) z -> y", classes, 3},
      {LOSS(soft_cross_entropy), "Identity z -> y", shares, 3},
      {LOSS(mse), "Identity z -> y", shares, 9},
      {LOSS(l1), "Identity z -> y", shares, 9},
      {LOSS(bce), "Sigmoid z -> y", shares, 9},
  };
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) check_loss(&rows[i]);
}

/* ---- What is trained ---- */

static void test_what_is_trained(void) {
  static const char *const frozen[] = {"v*", "v"}; /* one weight may fit both */
  wafer_training_options o = LOSS(mse);
  trained t;
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, MLP "Identity z -> y; out y", &o), WAFER_OK);
  CU_ASSERT(trains(&t, "w") && trains(&t, "b") && trains(&t, "v") && !trains(&t, "k"));
  CU_ASSERT(t.c.plan->training->trained_count == 3 && t.c.plan->training->micro_batch == SAMPLES);
  CU_ASSERT_EQUAL(t.c.plan->mode, WAFER_MODE_streaming);
  end(&t);
  o.frozen = frozen, o.frozen_count = 2;
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, MLP "Identity z -> y; out y", &o), WAFER_OK);
  CU_ASSERT(trains(&t, "w") && trains(&t, "b") && !trains(&t, "v"));
  end(&t);
  o.evaluate = true, o.loss = WAFER_LOSS_cross_entropy;
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, MLP "Identity z -> y; out y", &o), WAFER_OK);
  CU_ASSERT(trains(&t, "w") && trains(&t, "b") && !trains(&t, "v"));
  CU_ASSERT(t.c.plan->training->seed == WAFER_NONE && t.c.plan->training->correct != WAFER_NONE);
  CU_ASSERT_EQUAL(t.c.plan->training->trained[0].gradient, WAFER_NONE);
  end(&t);
}

/* What PyTorch's exporter with dynamo says: a parameter without dims is one, what was folded from
 * one is, tables and numbers are none; the statistics that a model keeps change all the same. */
#define TOLD                                                                                       \
  "in x f32 2x3; init w f32 3x4 = .5 -.3 .2 .7 -.6 .1 .4 -.2 .3 .8 -.5 .6; init s f32 scalar = "   \
  "2; "                                                                                            \
  "init val_1 f32 4 = 1 2 3 4; init val_2 f32 4 = 1 1 2 2; init m f32 4 = 0 0 0 0; init v f32 4 "  \
  "= "                                                                                             \
  "1 1 1 1; MatMul x w -> h; Mul h s -> a; Mul a val_1 -> b; Add b val_2 -> c; "                   \
  "BatchNormalization(training_mode=1) c val_1 val_2 m v -> y m2 v2; out y;"
#define KIND " pkg.torch.export.graph_signature.InputSpec.kind = "

static void test_the_file_tells_parameters(void) {
  static const char *const rows[] = {
      TOLD "note - pkg.torch.export.ExportedProgram.graph_signature = # inputs\np_w: PARAMETER "
           "target='w'\np_s: PARAMETER target='s'\np_b: PARAMETER target='b.0'\nb_m: BUFFER "
           "target='val_1' persistent=True\n;"
           "note val_2 pkg.onnxscript.optimizer.folded_from = ['val_0', 'b.0']",
      TOLD "note w" KIND "PARAMETER;note s" KIND "PARAMETER;note val_1" KIND "BUFFER;"
           "note val_2 pkg.onnxscript.optimizer.folded_from = ['s', 'val_7']",
  };
  for (int evaluate = 0; evaluate < 2; evaluate++)
    for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
      wafer_training_options o = LOSS(mse, .evaluate = evaluate);
      trained t;
      CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, rows[i], &o), WAFER_OK);
      CU_ASSERT(trains(&t, "w") && trains(&t, "s") && !trains(&t, "val_1") && trains(&t, "val_2"));
      CU_ASSERT(trains(&t, "m") && trains(&t, "v"));
      end(&t);
    }
}

static void test_dropout_takes_noise(void) {
  static const char text[] =
      "in x f32 2x3; init w f32 3x3 = 1 2 3 4 5 6 7 8 9; init r f32 scalar = "
      ".5; init on bool scalar = 1; MatMul x w -> h; Dropout h r on -> y; "
      "out y";
  wafer_training_options o = LOSS(mse);
  trained t;
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, text, &o), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(t.c.plan->training->noise_count, 1);
  const wafer_noise *noise = &t.c.plan->training->noises[0];
  CU_ASSERT(noise->key != 0 && t.c.plan->values[noise->input].type.dtype == WAFER_DTYPE_f32);
  CU_ASSERT_STRING_EQUAL(t.c.plan->values[noise->input].name, "noise:y");
  end(&t);
  o.evaluate = true; /* nothing is dropped then */
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, text, &o), WAFER_OK);
  CU_ASSERT_EQUAL(t.c.plan->training->noise_count, 0);
  end(&t);
}

/* ---- The batch in the model's constants ---- */

/* Two sequences of four steps, the steps first in t. */
#define RECURRENT                                                                                  \
  "in x f32 2x4x3; Transpose(perm=[1,0,2]) x -> t; init w f32 1x2x3 = 1 2 3 4 5 6; "               \
  "init r f32 1x2x2 = 1 2 3 4; "

static void test_batch_is_rewritten(void) {
  static const char *const models[] = {
      "in x f32 2x4; init w f32 4x4 = 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7; MatMul x w -> m; "
      "init s i64 3 = 2 2 2; Reshape m s -> y; out y",
      "in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init s i64 2 = 4 2; Reshape m s -> a; "
      "init t i64 2 = -1 4; Reshape a t -> y; out y",
      /* six steps, a multiple of both batches, before a batch that is merged with two heads */
      "in x f32 2x6x4; init w f32 4 = 1 2 3 4; Mul x w -> m; Transpose(perm=[1,0,2]) m -> t; "
      "init s i64 3 = 6 4 2; Reshape t s -> r; init k f32 6x1x1 = 1 2 3 4 5 6; Mul r k -> h; "
      "Transpose(perm=[1,0,2]) h -> a; init u i64 2 = 2 24; Reshape a u -> y; out y",
      /* steps and batch merged, and apart again; the last dim is a micro-batch by chance */
      "in x f32 2x6x3; Transpose(perm=[1,0,2]) x -> t; init s i64 2 = 12 3; Reshape t s -> r; "
      "init w f32 3x3 = 1 2 3 4 5 6 7 8 9; MatMul r w -> m; init u i64 3 = 6 2 3; "
      "Reshape m u -> h; Add h t -> a; Transpose(perm=[1,0,2]) a -> y; out y",
      /* a batch of 1 that is merged with the steps, and with heads; one that is copied */
      "in x f32 1x5x4; init w f32 4x4 = 1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8; Transpose(perm=[1,0,2]) x "
      "-> t; init s i64 3 = 5 2 2; Reshape t s -> r; init u i64 2 = 5 4; Reshape r u -> f; MatMul "
      "f w "
      "-> m; init v i64 3 = 5 1 4; Reshape m v -> h; Transpose(perm=[1,0,2]) h -> y; out y",
      "in x f32 1x6x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init s i64 3 = 0 1 -1; Reshape m s -> "
      "r; "
      "init k f32 1x1x24 = 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6; Mul r k -> y; out y",
      "in x f32 1x2x4; init c f32 1x1x4 = 1 2 3 4; init k f32 4 = 1 2 3 4; Mul c k -> d; "
      "Concat(axis=1) d x -> y; out y",
      RECURRENT
      "init z f32 1x2x2 = 0 0 0 0; Shape(start=0,end=1) x -> n; init a i64 1 = 1; init b i64 "
      "1 = 2; Concat(axis=0) a n b -> e; Expand z e -> h; RNN(hidden_size=2) t w r - - h -> "
      "s; Transpose(perm=[2,0,1,3]) s -> y; out y",
      "in x f32 1x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init z f32 1x1 = 0; Identity z -> c; "
      "Concat(axis=1) m c -> y; out y",
      "in x f32 2x1x2x2; init w f32 2 = 1 2; Mul x w -> m; init s i64 4 = 2 1 4 4; "
      "Resize m - - s -> y; out y",
      "in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init a i64 1 = 0; init e i64 1 = 2; "
      "Slice m a e -> y; out y",
      "in x f32 2x4; init w f32 4x3 = 1 2 3 4 5 6 7 8 9 1 2 3; init c f32 2x3 = 1 2 3 1 2 3; "
      "Gemm x w c -> y; out y",
      /* places in the samples, one behind the other, as as_strided has them; of a batch of 1 too */
      "in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init f i64 1 = -1; Reshape m f -> l; "
      "init i i64 2x2 = 1 3 5 7; Gather l i -> y; out y",
      "in x f32 1x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init f i64 1 = -1; Reshape m f -> l; "
      "init i i64 1x2 = 1 3; Gather l i -> y; out y",
      RECURRENT "init h f32 1x2x2 = 1 2 1 2; RNN(hidden_size=2) t w r - - h -> s; "
                "Transpose(perm=[2,0,1,3]) s -> y; out y",
      RECURRENT "init h f32 1x2x2 = 0 0 0 0; RNN(hidden_size=2) t w r - - h -> s; "
                "init d i64 3 = 4 2 2; Reshape s d -> m; Transpose(perm=[1,0,2]) m -> y; out y",
      RECURRENT "init h f32 2x1x2 = 1 2 1 2; RNN(hidden_size=2,layout=1) x w r - - h -> y; out y",
  };
  const wafer_training_options o = LOSS(mse);
  for (size_t i = 0; i < WAFER_COUNT(models); i++) {
    trained t;
    CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, models[i], &o), WAFER_OK);
    const wafer_value *labels = &t.c.plan->values[t.c.plan->training->labels];
    CU_ASSERT_EQUAL(labels->type.shape.dims[0], SAMPLES);
    end(&t);
  }
}

static void test_refusals(void) {
  static const struct {
    const char *text, *said;
  } rows[] = {
      {"in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init p f32 2x4 = 1 2 3 4 5 6 7 8; "
       "Concat(axis=1) m p -> y; out y",
       "may hold its batch of 2 here"},
      {RECURRENT "init h f32 1x2x2 = 1 2 3 4; RNN(hidden_size=2) t w r - - h -> s; "
                 "Transpose(perm=[2,0,1,3]) s -> y; out y",
       "may hold its batch of 2 here"},
      {"in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; init f i64 1 = -1; Reshape m f -> l; "
       "init i i64 2x2 = 1 3 5 40; Gather l i -> y; out y",
       "may hold its batch of 2 here"},
      {"in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; Floor m -> y; out y",
       "there is nothing to train"},
      {"in x f32 2x4; init w f32 4 = 1 2 3 4; Mul x w -> m; Cast(to=7) m -> y; out y",
       "loss mse reads an output of type i64"},
  };
  const wafer_training_options o = LOSS(mse);
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    trained t;
    caught last;
    wafer_diag diag = caught_diag(&last);
    CU_ASSERT_NOT_EQUAL(begin(&t, &diag, rows[i].text, &o), WAFER_OK);
    if (!strstr(last.text, rows[i].said)) printf("\n  %zu: %s", i, last.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(last.text, rows[i].said));
    end(&t);
  }
}

/* ---- The check of a plan ---- */

static wafer_status check_with(const trained *t, const wafer_training *edited) {
  wafer_plan plan = *t->c.plan;
  plan.training = edited;
  return wafer_plan_check(NULL, "t.wplan", &plan);
}

static void test_broken_plans(void) {
  const wafer_training_options o = LOSS(mse);
  trained t;
  CU_ASSERT_EQUAL_FATAL(begin(&t, NULL, MLP "Identity z -> y; out y", &o), WAFER_OK);
  const wafer_training *good = t.c.plan->training;
  wafer_trained swapped[3] = {good->trained[1], good->trained[0], good->trained[2]};
  wafer_trained crossed[3] = {good->trained[0], good->trained[1], good->trained[2]};
  wafer_noise noise = {good->labels + 1000, 1};
  wafer_training edits[9];
  for (size_t i = 0; i < WAFER_COUNT(edits); i++) edits[i] = *good;
  CU_ASSERT_EQUAL(check_with(&t, good), WAFER_OK);
  CU_ASSERT_EQUAL(check_with(&t, NULL), WAFER_BAD_INPUT); /* weights are marked as trained */
  crossed[0].gradient = good->trained[1].gradient;
  edits[0].loss = good->labels;
  edits[1].count = UINT32_MAX - 1;
  edits[2].labels = good->loss;
  edits[3].seed = WAFER_NONE;
  edits[4].trained = swapped;
  edits[5].trained = crossed;
  edits[6].trained_count = 2;
  edits[7].micro_batch = 0;
  edits[8].noise_count = 1, edits[8].noises = &noise;
  for (size_t i = 0; i < WAFER_COUNT(edits); i++)
    CU_ASSERT_EQUAL(check_with(&t, &edits[i]), WAFER_BAD_INPUT);
  end(&t);
}

CU_TestInfo tests_training[] = {
    {"losses by differences", test_losses},
    {"what is trained", test_what_is_trained},
    {"the file tells parameters", test_the_file_tells_parameters},
    {"dropout takes noise", test_dropout_takes_noise},
    {"the batch in constants is rewritten", test_batch_is_rewritten},
    {"what cannot be trained is refused", test_refusals},
    {"broken training plans are refused", test_broken_plans},
    CU_TEST_INFO_NULL,
};
