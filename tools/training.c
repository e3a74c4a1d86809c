#include "training.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* LOSS or LOSS:OUTPUT. */
static wafer_status parse_loss(const char *command, wafer_arena *arena, const char *text,
                               training_flags *flags) {
  const char *colon = strchr(text, ':');
  char list[160] = "",
       *name = wafer_arena_strndup(arena, text, colon ? (size_t)(colon - text) : strlen(text));
  if (!name) return cli_no_memory();
  flags->options.loss = wafer_loss_by_name(name);
  flags->options.output = colon && colon[1] ? colon + 1 : NULL;
  flags->has_loss = true;
  if (flags->options.loss != WAFER_LOSS_COUNT) return WAFER_OK;
  for (int i = 0; i < WAFER_LOSS_COUNT; i++)
    strcat(strcat(list, i ? ", " : ""), wafer_loss_name((wafer_loss)i));
  return (wafer_status)cli_usage(
      command, "--loss wants one of %s, or one of them and :OUTPUT, got '%s'", list, text);
}

static wafer_status parse_recompute(const char *command, const char *text, wafer_recompute *out) {
  static const char *const names[] = {[WAFER_RECOMPUTE_auto] = "auto",
                                      [WAFER_RECOMPUTE_none] = "none",
                                      [WAFER_RECOMPUTE_all] = "all"};
  for (uint32_t i = 0; i < WAFER_COUNT(names); i++)
    if (!strcmp(text, names[i])) return *out = (wafer_recompute)i, WAFER_OK;
  return (wafer_status)cli_usage(command, "--recompute wants auto, none or all, got '%s'", text);
}

static wafer_status parse_int(const char *command, const char *name, const char *text,
                              int64_t least, int64_t most, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (*text && !*end && !errno && value >= least && value <= most) return *out = value, WAFER_OK;
  return (wafer_status)cli_usage(command, "%s wants a number from %lld to %lld, got '%s'", name,
                                 (long long)least, (long long)most, text);
}

wafer_status training_flag(const char *command, wafer_arena *arena, int option, const char *text,
                           training_flags *flags) {
  static const struct option names[] = {TRAINING_LONG_OPTIONS};
  wafer_training_options *o = &flags->options;
  int64_t number = 0;
  if (!flags->first) flags->first = names[option - TRAINING_LOSS].name;
  switch (option) {
  case TRAINING_LOSS: return parse_loss(command, arena, text, flags);
  case TRAINING_MICRO_BATCH:
    WAFER_TRY(parse_int(command, "--micro-batch", text, 1, 1 << 24, &number));
    o->micro_batch = (uint32_t)number;
    return WAFER_OK;
  case TRAINING_RECOMPUTE: return parse_recompute(command, text, &o->recompute);
  case TRAINING_IGNORE:
    o->ignores = true;
    return parse_int(command, "--ignore-index", text, INT32_MIN, INT32_MAX, &o->ignore_index);
  case TRAINING_CLASS_AXIS:
    WAFER_TRY(
        parse_int(command, "--class-axis", text, -WAFER_MAX_RANK, WAFER_MAX_RANK - 1, &number));
    o->class_axis = (int32_t)number;
    return WAFER_OK;
  case TRAINING_FREEZE:
    flags->frozen[o->frozen_count++] = text;
    o->frozen = flags->frozen;
    return WAFER_OK;
  case TRAINING_OPTIMIZER:
    o->optimizer = wafer_optimizer_by_name(text);
    if (o->optimizer != WAFER_OPTIMIZER_COUNT) return WAFER_OK;
    return (wafer_status)cli_usage(command, "--optimizer '%s' is none that there is", text);
  default: o->evaluate = true; return WAFER_OK;
  }
}
