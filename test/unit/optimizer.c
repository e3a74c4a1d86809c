#include "wafer/optimizer.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <string.h>

#include "caught.h"
#include "runtime/train/optimizer_rules.h"

enum { ROWS = 5, COLUMNS = 9, COUNT = ROWS * COLUMNS, UPDATES = 25 };
static const wafer_shape matrix = {2, {ROWS, COLUMNS}};

/* A rule as PyTorch's documentation writes it, one element in f64; s is its state. */
typedef double formula(const wafer_optimizer *o, double w, double g, double *s, int t);

static double by_sgd(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)s, (void)t;
  return w - o->lr * (g + o->weight_decay * w);
}
static double by_momentum(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)t;
  s[0] = o->momentum * s[0] + g + o->weight_decay * w;
  return w - o->lr * s[0];
}
static double by_nesterov(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)t;
  g += o->weight_decay * w;
  s[0] = o->momentum * s[0] + g;
  return w - o->lr * (g + o->momentum * s[0]);
}
static double by_adam(const wafer_optimizer *o, double w, double g, double *s, int t) {
  g += o->weight_decay * w;
  s[0] = o->beta1 * s[0] + (1 - o->beta1) * g;
  s[1] = o->beta2 * s[1] + (1 - o->beta2) * g * g;
  double m = s[0] / (1 - pow(o->beta1, t)), v = s[1] / (1 - pow(o->beta2, t));
  return w - o->lr * m / (sqrt(v) + o->eps);
}
static double by_adamw(const wafer_optimizer *o, double w, double g, double *s, int t) {
  wafer_optimizer plain = *o;
  plain.weight_decay = 0;
  return by_adam(&plain, w - o->lr * o->weight_decay * w, g, s, t);
}
static double by_adagrad(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)t;
  g += o->weight_decay * w;
  s[0] += g * g;
  return w - o->lr * g / (sqrt(s[0]) + o->eps);
}
static double by_rmsprop(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)t;
  g += o->weight_decay * w;
  s[0] = o->beta2 * s[0] + (1 - o->beta2) * g * g;
  return w - o->lr * g / (sqrt(s[0]) + o->eps);
}
static double by_lion(const wafer_optimizer *o, double w, double g, double *s, int t) {
  (void)t;
  double c = o->beta1 * s[0] + (1 - o->beta1) * g;
  s[0] = o->beta2 * s[0] + (1 - o->beta2) * g;
  return w - o->lr * ((c > 0) - (c < 0) + o->weight_decay * w);
}
#define by_adafactor NULL

static formula *const formulas[] = {
#define OPTIMIZER(name, ...) [WAFER_OPTIMIZER_##name] = by_##name,
#include "wafer/optimizer.def"
};

static float draw(uint32_t i) {
  uint32_t x = i * 2654435761u + 12345u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12;
  return (float)(x >> 8) * 0x1p-23f - 1.0f;
}

static void check_formula(wafer_optimizer_kind kind, double decay, double scale) {
  wafer_optimizer o = wafer_optimizer_default(kind);
  o.weight_decay = decay;
  float w[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, *slots[RULE_SLOTS] = {m, v};
  double want[COUNT], state[COUNT][2] = {{0}};
  for (int i = 0; i < COUNT; i++) want[i] = w[i] = draw((uint32_t)i);
  for (int t = 1; t <= UPDATES; t++) {
    rule_step step = rule_step_of(&o, (uint64_t)t, o.lr, scale);
    for (int i = 0; i < COUNT; i++) {
      g[i] = draw((uint32_t)(t * 1000 + i));
      want[i] = formulas[kind](&o, want[i], (double)g[i] * scale, state[i], t);
    }
    rule_apply(&step, w, g, slots, COUNT);
  }
  double worst = 0;
  for (int i = 0; i < COUNT; i++) worst = fmax(worst, fabs(w[i] - want[i]));
  CU_ASSERT(worst < 2e-6);
  if (worst >= 2e-6) printf("%s: off by %g\n", wafer_optimizer_name(kind), worst);
}

static void elementwise_rules_follow_their_formulas(void) {
  for (int kind = 0; kind < WAFER_OPTIMIZER_COUNT; kind++)
    for (int variant = 0; rule_elementwise((wafer_optimizer_kind)kind) && variant < 3; variant++)
      check_formula((wafer_optimizer_kind)kind, variant ? 0.1 : 0, variant == 2 ? 0.125 : 1);
}

static double norm(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* Adafactor with everything laid out: squares, their row and column means, the outer product. */
static void naive_adafactor(const wafer_optimizer *o, double *w, const float *g, double *row,
                            double *column, int t) {
  double share = pow(t, -0.8), mean = 0, update[COUNT], step;
  step = fmax(o->eps, norm(w, COUNT) / sqrt(COUNT)) * fmin(o->lr, 1 / sqrt(t));
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int c = 0; c < COLUMNS; c++) sum += (double)g[r * COLUMNS + c] * g[r * COLUMNS + c];
    row[r] += share * (sum / COLUMNS - row[r]);
    mean += row[r] / ROWS;
  }
  for (int c = 0; c < COLUMNS; c++) {
    double sum = 0;
    for (int r = 0; r < ROWS; r++) sum += (double)g[r * COLUMNS + c] * g[r * COLUMNS + c];
    column[c] += share * (sum / ROWS - column[c]);
  }
  for (int i = 0; i < COUNT; i++)
    update[i] = g[i] / sqrt(row[i / COLUMNS] * column[i % COLUMNS] / mean);
  double clip = fmax(1, norm(update, COUNT) / sqrt(COUNT));
  for (int i = 0; i < COUNT; i++)
    w[i] = w[i] * (1 - o->lr * o->weight_decay) - step / clip * update[i];
}

static void adafactor_follows_its_formula(void) {
  wafer_optimizer o = wafer_optimizer_default(WAFER_OPTIMIZER_adafactor);
  o.weight_decay = 0.1;
  float w[COUNT], g[COUNT], row[ROWS] = {0}, column[COLUMNS] = {0}, *slots[] = {row, column};
  double want[COUNT], rows[ROWS] = {0}, columns[COLUMNS] = {0}, worst = 0;
  rule_slot made[RULE_SLOTS];
  CU_ASSERT_EQUAL(rule_slots(o.kind, &matrix, made), 2);
  CU_ASSERT_EQUAL(made[0].shape.dims[0] * made[0].shape.dims[1], ROWS);
  CU_ASSERT_EQUAL(made[1].shape.dims[0] * made[1].shape.dims[1], COLUMNS);
  for (int i = 0; i < COUNT; i++) want[i] = w[i] = draw((uint32_t)i);
  for (int t = 1; t <= UPDATES; t++) {
    rule_step step = rule_step_of(&o, (uint64_t)t, o.lr, 1);
    for (int i = 0; i < COUNT; i++) g[i] = draw((uint32_t)(t * 1000 + i));
    naive_adafactor(&o, want, g, rows, columns, t);
    rule_factored(&step, &matrix, w, g, slots);
  }
  for (int i = 0; i < COUNT; i++) worst = fmax(worst, fabs(w[i] - want[i]));
  CU_ASSERT(worst < 2e-6);
}

static void schedules_have_their_shapes(void) {
  static const struct {
    wafer_schedule schedule;
    uint64_t step;
    double want;
  } cases[] = {
      {{.kind = WAFER_SCHEDULE_constant, .steps = 10}, 7, 1},
      {{.kind = WAFER_SCHEDULE_constant, .warmup = 4, .steps = 10}, 0, 0.25},
      {{.kind = WAFER_SCHEDULE_constant, .warmup = 4, .steps = 10}, 3, 1},
      {{.kind = WAFER_SCHEDULE_linear, .steps = 11}, 0, 1},
      {{.kind = WAFER_SCHEDULE_linear, .steps = 11}, 5, 0.5},
      {{.kind = WAFER_SCHEDULE_linear, .steps = 11, .end = 0.1}, 10, 0.1},
      {{.kind = WAFER_SCHEDULE_linear, .steps = 13, .warmup = 2}, 7, 0.5},
      {{.kind = WAFER_SCHEDULE_cosine, .steps = 11}, 5, 0.5},
      {{.kind = WAFER_SCHEDULE_cosine, .steps = 11, .end = 0.2}, 10, 0.2},
      {{.kind = WAFER_SCHEDULE_step, .steps = 100, .every = 30, .gamma = 0.1}, 29, 1},
      {{.kind = WAFER_SCHEDULE_step, .steps = 100, .every = 30, .gamma = 0.1}, 60, 0.01},
      {{.kind = WAFER_SCHEDULE_linear, .steps = 1}, 0, 1},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++)
    CU_ASSERT_DOUBLE_EQUAL(wafer_schedule_factor(&cases[i].schedule, cases[i].step), cases[i].want,
                           1e-12);
}

static void the_loss_scale_halves_and_doubles(void) {
  wafer_loss_scale s = {.dynamic = true, .scale = 1024, .patience = 3};
  wafer_loss_scale_step(&s, false);
  CU_ASSERT_EQUAL(s.scale, 512);
  for (int i = 0; i < 3; i++) wafer_loss_scale_step(&s, true);
  CU_ASSERT_EQUAL(s.scale, 1024);
  wafer_loss_scale_step(&s, true);
  wafer_loss_scale_step(&s, false);
  CU_ASSERT_EQUAL(s.scale, 512);
  CU_ASSERT_EQUAL(s.good, 0);
  wafer_loss_scale fixed = {.scale = 8, .patience = 1};
  wafer_loss_scale_step(&fixed, false);
  wafer_loss_scale_step(&fixed, true);
  CU_ASSERT_EQUAL(fixed.scale, 8);
}

static void names_and_numbers_are_checked(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  for (int kind = 0; kind < WAFER_OPTIMIZER_COUNT; kind++) {
    wafer_optimizer o = wafer_optimizer_default((wafer_optimizer_kind)kind);
    CU_ASSERT_EQUAL(wafer_optimizer_by_name(wafer_optimizer_name(o.kind)), o.kind);
    CU_ASSERT_EQUAL(wafer_optimizer_check(&diag, &o), WAFER_OK);
  }
  CU_ASSERT_EQUAL(wafer_optimizer_by_name("adamax"), WAFER_OPTIMIZER_COUNT);
  CU_ASSERT_EQUAL(wafer_schedule_by_name("cosine"), WAFER_SCHEDULE_cosine);
  CU_ASSERT(wafer_optimizer_on_wafer(WAFER_OPTIMIZER_adamw));
  CU_ASSERT(!wafer_optimizer_on_wafer(WAFER_OPTIMIZER_lion));
  wafer_optimizer o = wafer_optimizer_default(WAFER_OPTIMIZER_adam);
  o.beta2 = 1;
  CU_ASSERT_EQUAL(wafer_optimizer_check(&diag, &o), WAFER_USAGE);
  CU_ASSERT_STRING_EQUAL(last.text, "the beta2 of adam must be at least 0 and less than 1, got 1");
}

CU_TestInfo tests_optimizer[] = {
    {"elementwise rules follow their formulas", elementwise_rules_follow_their_formulas},
    {"adafactor follows its formula", adafactor_follows_its_formula},
    {"schedules have their shapes", schedules_have_their_shapes},
    {"the loss scale halves and doubles", the_loss_scale_halves_and_doubles},
    {"names and numbers are checked", names_and_numbers_are_checked},
    CU_TEST_INFO_NULL,
};
