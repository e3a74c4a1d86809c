/* Built with -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off: vector code that rounds as
 * the scalar code does, on every instruction set. */
#include "optimizer_rules.h"

#include <math.h>

#include "tensor/vmath.h"

typedef void rule(const rule_step *step, float *restrict w, const float *restrict g,
                  float *restrict m, float *restrict v, size_t n);

rule_step rule_step_of(const wafer_optimizer *o, uint64_t t, double lr, double scale) {
  double count = (double)t;
  return (rule_step){.kind = o->kind,
                     .scale = (float)scale,
                     .lr = (float)lr,
                     .decay = (float)o->weight_decay,
                     .momentum = (float)o->momentum,
                     .eps = (float)o->eps,
                     .beta1 = (float)o->beta1,
                     .rest1 = (float)(1 - o->beta1),
                     .beta2 = (float)o->beta2,
                     .rest2 = (float)(1 - o->beta2),
                     .size = (float)(lr / (1 - pow(o->beta1, count))),
                     .root = (float)(1 / sqrt(1 - pow(o->beta2, count))),
                     .rate = fmin(lr, 1 / sqrt(count)),
                     .average = pow(count, -0.8)};
}

WAFER_CLONES static void rule_sgd(const rule_step *s, float *restrict w, const float *restrict g,
                                  float *restrict m, float *restrict v, size_t n) {
  (void)m, (void)v;
  for (size_t i = 0; i < n; i++) w[i] -= s->lr * (g[i] * s->scale + s->decay * w[i]);
}

WAFER_CLONES static void rule_momentum(const rule_step *s, float *restrict w,
                                       const float *restrict g, float *restrict m,
                                       float *restrict v, size_t n) {
  (void)v;
  for (size_t i = 0; i < n; i++) {
    m[i] = s->momentum * m[i] + (g[i] * s->scale + s->decay * w[i]);
    w[i] -= s->lr * m[i];
  }
}

WAFER_CLONES static void rule_nesterov(const rule_step *s, float *restrict w,
                                       const float *restrict g, float *restrict m,
                                       float *restrict v, size_t n) {
  (void)v;
  for (size_t i = 0; i < n; i++) {
    float x = g[i] * s->scale + s->decay * w[i];
    m[i] = s->momentum * m[i] + x;
    w[i] -= s->lr * (x + s->momentum * m[i]);
  }
}

/* Adam's rule after the two kinds of decay. */
static inline float adam_one(const rule_step *s, float w, float g, float *m, float *v) {
  *m += s->rest1 * (g - *m);
  *v = s->beta2 * *v + s->rest2 * (g * g);
  return w - s->size * (*m / (sqrtf(*v) * s->root + s->eps));
}

WAFER_CLONES static void rule_adam(const rule_step *s, float *restrict w, const float *restrict g,
                                   float *restrict m, float *restrict v, size_t n) {
  for (size_t i = 0; i < n; i++)
    w[i] = adam_one(s, w[i], g[i] * s->scale + s->decay * w[i], &m[i], &v[i]);
}

WAFER_CLONES static void rule_adamw(const rule_step *s, float *restrict w, const float *restrict g,
                                    float *restrict m, float *restrict v, size_t n) {
  float kept = 1 - s->lr * s->decay;
  for (size_t i = 0; i < n; i++) w[i] = adam_one(s, w[i] * kept, g[i] * s->scale, &m[i], &v[i]);
}

WAFER_CLONES static void rule_adagrad(const rule_step *s, float *restrict w,
                                      const float *restrict g, float *restrict m, float *restrict v,
                                      size_t n) {
  (void)v;
  for (size_t i = 0; i < n; i++) {
    float x = g[i] * s->scale + s->decay * w[i];
    m[i] += x * x;
    w[i] -= s->lr * (x / (sqrtf(m[i]) + s->eps));
  }
}

WAFER_CLONES static void rule_rmsprop(const rule_step *s, float *restrict w,
                                      const float *restrict g, float *restrict m, float *restrict v,
                                      size_t n) {
  (void)v;
  for (size_t i = 0; i < n; i++) {
    float x = g[i] * s->scale + s->decay * w[i];
    m[i] = s->beta2 * m[i] + s->rest2 * (x * x);
    w[i] -= s->lr * (x / (sqrtf(m[i]) + s->eps));
  }
}

WAFER_CLONES static void rule_lion(const rule_step *s, float *restrict w, const float *restrict g,
                                   float *restrict m, float *restrict v, size_t n) {
  float kept = 1 - s->lr * s->decay;
  (void)v;
  for (size_t i = 0; i < n; i++) {
    float x = g[i] * s->scale, toward = s->beta1 * m[i] + s->rest1 * x;
    float sign = (toward > 0 ? 1.0f : 0.0f) - (toward < 0 ? 1.0f : 0.0f);
    w[i] = w[i] * kept - s->lr * sign;
    m[i] = s->beta2 * m[i] + s->rest2 * x;
  }
}

/* ---- adafactor: Shazeer and Stern, 2018, as torch.optim.Adafactor reads it ---- */

/* A weight of two dims or more is `batch` matrices of its last two; of fewer, a vector. */
typedef struct factors {
  size_t batch, rows, columns;
} factors;

static factors factors_of(const wafer_shape *shape) {
  factors f = {1, 1, 1};
  if (shape->rank < 2) {
    f.columns = shape->rank ? (size_t)shape->dims[0] : 1;
    return f;
  }
  for (uint32_t i = 0; i + 2 < shape->rank; i++) f.batch *= (size_t)shape->dims[i];
  f.rows = (size_t)shape->dims[shape->rank - 2];
  f.columns = (size_t)shape->dims[shape->rank - 1];
  return f;
}

static float toward(float from, double to, double share) {
  return (float)(from + share * (to - from));
}

static double square(const rule_step *s, float g) {
  double x = g * s->scale;
  return x * x;
}

/* Averages of squares per row and per column of one matrix. */
static void factor_averages(const rule_step *s, factors f, const float *g, float *row,
                            float *column) {
  for (size_t r = 0; r < f.rows; r++) {
    double sum = 0;
    for (size_t c = 0; c < f.columns; c++) sum += square(s, g[r * f.columns + c]);
    row[r] = toward(row[r], sum / (double)f.columns, s->average);
  }
  for (size_t c = 0; c < f.columns; c++) {
    double sum = 0;
    for (size_t r = 0; r < f.rows; r++) sum += square(s, g[r * f.columns + c]);
    column[c] = toward(column[c], sum / (double)f.rows, s->average);
  }
}

/* The estimate's denominator: the mean of the rows' averages. */
static double rows_mean(factors f, const float *row) {
  double sum = 0;
  for (size_t r = 0; r < f.rows; r++) sum += row[r];
  return fmax(sum / (double)f.rows, 0x1p-23);
}

static double factored_update(const rule_step *s, double estimate, float g) {
  return (double)(g * s->scale) / sqrt(fmax(estimate, 0x1p-46));
}

/* Updates of one matrix: their squares' sum, and with `step` not 0 their effect. */
static double factor_pass(const rule_step *s, factors f, float *w, const float *g, const float *row,
                          const float *column, double step) {
  double mean = rows_mean(f, row), squares = 0;
  for (size_t r = 0; r < f.rows; r++)
    for (size_t c = 0; c < f.columns; c++) {
      double update = factored_update(s, (double)row[r] * column[c] / mean, g[r * f.columns + c]);
      squares += update * update;
      if (step != 0) w[r * f.columns + c] -= (float)(step * update);
    }
  return squares;
}

static double vector_pass(const rule_step *s, size_t n, float *w, const float *g, const float *v,
                          double step) {
  double squares = 0;
  for (size_t i = 0; i < n; i++) {
    double update = factored_update(s, v[i], g[i]);
    squares += update * update;
    if (step != 0) w[i] -= (float)(step * update);
  }
  return squares;
}

static double all_passes(const rule_step *s, bool vector, factors f, float *w, const float *g,
                         float *const *slots, double step) {
  size_t matrix = f.rows * f.columns;
  double squares = 0;
  if (vector) return vector_pass(s, f.columns, w, g, slots[0], step);
  for (size_t b = 0; b < f.batch; b++)
    squares += factor_pass(s, f, w + b * matrix, g + b * matrix, slots[0] + b * f.rows,
                           slots[1] + b * f.columns, step);
  return squares;
}

void rule_factored(const rule_step *s, const wafer_shape *shape, float *w, const float *g,
                   float *const *slots) {
  factors f = factors_of(shape);
  bool vector = shape->rank < 2;
  size_t matrix = f.rows * f.columns, n = f.batch * matrix;
  if (n == 0) return;
  double root = sqrt((double)n), size = sqrt(rule_squares(w, n)) / root;
  double step = fmax(s->eps, size) * s->rate;
  float kept = 1 - s->lr * s->decay;
  for (size_t i = 0; i < n; i++) w[i] *= kept;
  for (size_t i = 0; vector && i < n; i++)
    slots[0][i] = toward(slots[0][i], square(s, g[i]), s->average);
  for (size_t b = 0; !vector && b < f.batch; b++)
    factor_averages(s, f, g + b * matrix, slots[0] + b * f.rows, slots[1] + b * f.columns);
  double clip = fmax(1, sqrt(all_passes(s, vector, f, w, g, slots, 0)) / root);
  all_passes(s, vector, f, w, g, slots, step / clip);
}

/* ---- the table ---- */

#define rule_adafactor NULL

static rule *const rules[WAFER_OPTIMIZER_COUNT] = {
#define OPTIMIZER(name, ...) [WAFER_OPTIMIZER_##name] = rule_##name,
#include "wafer/optimizer.def"
};

enum { factored = 3 };
static const uint32_t slot_counts[WAFER_OPTIMIZER_COUNT] = {
#define OPTIMIZER(name, slots, ...) [WAFER_OPTIMIZER_##name] = slots,
#include "wafer/optimizer.def"
};

bool rule_elementwise(wafer_optimizer_kind kind) {
  return slot_counts[kind] != factored;
}

static uint32_t factored_slots(const wafer_shape *shape, rule_slot *slots) {
  if (shape->rank < 2) return slots[0] = (rule_slot){"v", *shape}, 1;
  slots[0] = (rule_slot){"row", *shape};
  slots[1] = (rule_slot){"column", *shape};
  slots[0].shape.dims[shape->rank - 1] = 1;
  slots[1].shape.dims[shape->rank - 2] = 1;
  return 2;
}

uint32_t rule_slots(wafer_optimizer_kind kind, const wafer_shape *shape, rule_slot *slots) {
  if (!rule_elementwise(kind)) return factored_slots(shape, slots);
  bool squares = kind == WAFER_OPTIMIZER_adagrad || kind == WAFER_OPTIMIZER_rmsprop;
  for (uint32_t i = 0; i < slot_counts[kind]; i++)
    slots[i] = (rule_slot){i || squares ? "v" : "m", *shape};
  return slot_counts[kind];
}

void rule_apply(const rule_step *step, float *w, const float *g, float *const *slots, size_t n) {
  rules[step->kind](step, w, g, slots[0], slots[1], n);
}

enum { LANES = 16 };

WAFER_CLONES double rule_squares(const float *x, size_t n) {
  double lane[LANES] = {0}, sum = 0;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (size_t l = 0; l < LANES; l++) lane[l] += (double)x[i + l] * x[i + l];
  for (; i < n; i++) lane[i % LANES] += (double)x[i] * x[i];
  for (size_t l = 0; l < LANES; l++) sum += lane[l];
  return sum;
}

WAFER_CLONES void rule_add(float *restrict to, const float *restrict from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] += from[i];
}
