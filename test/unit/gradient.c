/* frontend/expand/expand_gradient.c: gradients against differences of the function itself, run as
 * plans.
 */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>

#include "compiled.h"
#include "wafer/program.h"
#include "wafer/session.h"

#define COUNT 4

typedef struct model {
  compiled c;
  wafer_session *session;
  char said[512];
} model;

static void remember(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                     const char *text) {
  model *m = self;
  (void)severity, (void)status, (void)loc;
  size_t used = strlen(m->said);
  snprintf(m->said + used, sizeof m->said - used, "%s\n", text);
}

/* x f32 4 is the input, y what `text` makes of it, g the gradient by x of the sum of y's elements.
 */
static wafer_status begin(model *m, const wafer_diag *diag, const char *text) {
  protobuf *parts = calloc(2, sizeof *parts);
  char graph[1024];
  snprintf(graph, sizeof graph,
           "in x f32 4; %s; ai.onnx.preview.training::Gradient(xs=['x'],y='y') x -> g; out y; "
           "out g",
           text);
  onnx_text_model(&parts[0], 16, graph);
  pb_text(&parts[1], 1, "ai.onnx.preview.training");
  pb_int(&parts[1], 2, 1);
  pb_message(&parts[0], 8, &parts[1]);
  *m = (model){.session = NULL};
  wafer_status status = compiled_begin(&m->c, diag, NULL, &parts[0]);
  free(parts);
  return status == WAFER_OK ? wafer_session_create(m->c.plan, NULL, &m->session) : status;
}

static void end(model *m) {
  wafer_session_destroy(m->session);
  compiled_end(&m->c);
}

/* The sum of y's elements, NAN when it cannot run; the gradient. */
static double run(const model *m, float *x, float *gradient) {
  wafer_shape shape = {1, {COUNT}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out[2];
  int64_t count;
  double sum = 0;
  if (wafer_session_run(m->session, &in, 1, out, 2) != WAFER_OK) return NAN;
  if (!wafer_shape_equal(&out[1].shape, &shape)) return NAN;
  wafer_shape_elements(&out[0].shape, &count);
  for (int64_t i = 0; i < count; i++) sum += wafer_element_f64(WAFER_DTYPE_f32, out[0].data, i);
  memcpy(gradient, out[1].data, COUNT * sizeof *gradient);
  return sum;
}

static void check(const char *text) {
  model m;
  float x[COUNT] = {0.5f, 1.5f, -0.75f, 2}, gradient[COUNT], ignored[COUNT];
  CU_ASSERT_EQUAL_FATAL(begin(&m, NULL, text), WAFER_OK);
  CU_ASSERT(isfinite(run(&m, x, gradient)));
  for (int i = 0; i < COUNT; i++) {
    const float at = x[i], step = 0x1p-6f;
    x[i] = at + step;
    double above = run(&m, x, ignored);
    x[i] = at - step;
    double slope = (above - run(&m, x, ignored)) / (2 * step);
    x[i] = at;
    bool right = fabs(slope - gradient[i]) <= 5e-3 * fmax(1, fabs(slope));
    if (!right) printf("\n  %s: element %d: %g, by differences %g\n", text, i, gradient[i], slope);
    CU_ASSERT(right);
  }
  end(&m);
}

static void test_slopes(void) {
  static const char *const functions[] = {
      "Add x x -> y",
      "Mul x x -> y",
      "init c f32 4 = 1 2 3 4; Sub c x -> a; Mul a x -> y",
      "init c f32 4 = 1 2 3 4; Mul x x -> a; Add a c -> b; Div c b -> d; Div d x -> y",
      "Exp x -> a; Neg a -> y",
      "init c f32 scalar = 3; Add x c -> a; Log a -> b; Sqrt a -> d; Mul b d -> y",
      "Tanh x -> a; Sigmoid x -> b; Mul a b -> y",
      "Relu x -> a; Mul a x -> y",
      "init s i64 2 = 2 2; Reshape x s -> m; Transpose m -> t; MatMul m t -> p; MatMul p m -> y",
      "ReduceSum x -> s; Mul s x -> y",
      "init s i64 2 = 2 2; Reshape x s -> m; ReduceMean(axes=[1],keepdims=0) m -> a; Mul a m -> y",
      "init c f32 3x1 = 1 2 3; Mul x c -> a; init s i64 2 = 3 4; Expand x s -> b; Mul a b -> y",
      "init c f32 4 = 1 2 3 4; Identity c -> y", /* does not depend on x */
  };
  for (size_t i = 0; i < WAFER_COUNT(functions); i++) check(functions[i]);
}

static void test_refusals(void) {
  static const struct {
    const char *text, *said;
  } rows[] = {
      {"init c f32 4 = 1 2 3 4; Identity c -> z", "'y' is not defined"},
      {"Add x x -> z", "'y' is not defined"},
  };
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    model m;
    wafer_diag diag = {.emit = remember, .self = &m};
    CU_ASSERT_NOT_EQUAL(begin(&m, &diag, rows[i].text), WAFER_OK);
    if (!strstr(m.said, rows[i].said)) printf("\n  %s: %s", rows[i].text, m.said);
    CU_ASSERT_PTR_NOT_NULL(strstr(m.said, rows[i].said));
    end(&m);
  }
}

const CU_TestInfo tests_gradient[] = {
    {"slopes", test_slopes}, {"refusals", test_refusals}, CU_TEST_INFO_NULL};
