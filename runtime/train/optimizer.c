#include "wafer/optimizer.h"

#include <math.h>
#include <string.h>

static const struct row {
  const char *name, *on_wafer, *reads;
} rows[] = {
#define OPTIMIZER(name, slots, on_wafer, reads, summary)                                           \
  [WAFER_OPTIMIZER_##name] = {#name, #on_wafer, reads},
#include "wafer/optimizer.def"
};

const char *wafer_optimizer_name(wafer_optimizer_kind kind) {
  return rows[kind].name;
}

wafer_optimizer_kind wafer_optimizer_by_name(const char *name) {
  int kind = 0;
  while (kind < WAFER_OPTIMIZER_COUNT && strcmp(rows[kind].name, name)) kind++;
  return (wafer_optimizer_kind)kind;
}

bool wafer_optimizer_reads(wafer_optimizer_kind kind, const char *number) {
  size_t length = strlen(number);
  for (const char *at = rows[kind].reads; *at; at += strspn(at, " ")) {
    size_t word = strcspn(at, " ");
    if (word == length && !memcmp(at, number, length)) return true;
    at += word;
  }
  return false;
}

bool wafer_optimizer_on_wafer(wafer_optimizer_kind kind) {
  return !strcmp(rows[kind].on_wafer, "yes");
}

uint32_t wafer_optimizer_slots(wafer_optimizer_kind kind) {
  enum { factored = 0 };
  static const uint32_t slots[] = {
#define OPTIMIZER(name, count, ...) [WAFER_OPTIMIZER_##name] = count,
#include "wafer/optimizer.def"
  };
  return slots[kind];
}

wafer_optimizer wafer_optimizer_default(wafer_optimizer_kind kind) {
  wafer_optimizer made = {
      .kind = kind, .lr = 1e-3, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  switch (kind) {
  case WAFER_OPTIMIZER_adamw: made.weight_decay = 1e-2; break;
  case WAFER_OPTIMIZER_adagrad:
    made.lr = 1e-2;
    made.eps = 1e-10;
    break;
  case WAFER_OPTIMIZER_rmsprop:
    made.lr = 1e-2;
    made.beta2 = 0.99;
    break;
  case WAFER_OPTIMIZER_lion:
    made.lr = 1e-4;
    made.beta2 = 0.99;
    break;
  case WAFER_OPTIMIZER_adafactor:
    made.lr = 1e-2;
    made.eps = 1e-3;
    break;
  case WAFER_OPTIMIZER_adam: break;
  default: made.lr = 1e-2;
  }
  return made;
}

wafer_status wafer_optimizer_check(const wafer_diag *diag, const wafer_optimizer *o) {
  const struct {
    const char *name;
    double value, below;
  } numbers[] = {{"learning rate", o->lr, INFINITY},
                 {"weight decay", o->weight_decay, INFINITY},
                 {"momentum", o->momentum, INFINITY},
                 {"beta1", o->beta1, 1},
                 {"beta2", o->beta2, 1},
                 {"eps", o->eps, INFINITY}};
  for (size_t i = 0; i < WAFER_COUNT(numbers); i++)
    if (!(numbers[i].value >= 0 && numbers[i].value < numbers[i].below))
      return wafer_fail(diag, (wafer_loc){0}, WAFER_USAGE,
                        "the %s of %s must be at least 0 and less than %g, got %g", numbers[i].name,
                        rows[o->kind].name, numbers[i].below, numbers[i].value);
  return WAFER_OK;
}

/* ---- learning rate ---- */

static const char *const schedules[] = {
#define X(name, summary) #name,
    WAFER_SCHEDULE_MAP(X)
#undef X
};

const char *wafer_schedule_name(wafer_schedule_kind kind) {
  return schedules[kind];
}

wafer_schedule_kind wafer_schedule_by_name(const char *name) {
  int kind = 0;
  while (kind < WAFER_SCHEDULE_COUNT && strcmp(schedules[kind], name)) kind++;
  return (wafer_schedule_kind)kind;
}

/* Steps are counted from the warm-up's end; the last step of the run has progress 1. */
double wafer_schedule_factor(const wafer_schedule *s, uint64_t step) {
  if (step < s->warmup) return (double)(step + 1) / (double)s->warmup;
  uint64_t since = step - s->warmup, span = s->steps > s->warmup + 1 ? s->steps - s->warmup - 1 : 1;
  double progress = since < span ? (double)since / (double)span : 1;
  switch (s->kind) {
  case WAFER_SCHEDULE_linear: return 1 + (s->end - 1) * progress;
  case WAFER_SCHEDULE_cosine: return s->end + (1 - s->end) * 0.5 * (1 + cos(acos(-1) * progress));
  case WAFER_SCHEDULE_step: return s->every ? pow(s->gamma, (double)(since / s->every)) : 1;
  default: return 1;
  }
}

/* ---- loss scale ---- */

void wafer_loss_scale_step(wafer_loss_scale *scale, bool finite) {
  if (!scale->dynamic) return;
  if (!finite) {
    scale->scale *= 0.5;
    scale->good = 0;
  } else if (++scale->good >= scale->patience) {
    if (scale->scale < 0x1p100) scale->scale *= 2;
    scale->good = 0;
  }
}
