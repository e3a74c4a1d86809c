#include "training.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

wafer_status training_parse_loss(const char *command, wafer_arena *arena, const char *text,
                                 wafer_training_options *out) {
  const char *colon = strchr(text, ':');
  char list[160] = "",
       *name = wafer_arena_strndup(arena, text, colon ? (size_t)(colon - text) : strlen(text));
  if (!name) return cli_no_memory();
  out->loss = wafer_loss_by_name(name);
  out->output = colon && colon[1] ? colon + 1 : NULL;
  if (out->loss != WAFER_LOSS_COUNT) return WAFER_OK;
  for (int i = 0; i < WAFER_LOSS_COUNT; i++)
    strcat(strcat(list, i ? ", " : ""), wafer_loss_name((wafer_loss)i));
  return (wafer_status)cli_usage(
      command, "--loss wants one of %s, or one of them and :OUTPUT, got '%s'", list, text);
}

wafer_status training_parse_recompute(const char *command, const char *text, wafer_recompute *out) {
  uint32_t at;
  if (!cli_parse_choice(command, "--recompute", text, "auto none all", &at)) return WAFER_USAGE;
  *out = (wafer_recompute)at;
  return WAFER_OK;
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

wafer_status training_parse_ignore(const char *command, const char *text,
                                   wafer_training_options *out) {
  out->ignores = true;
  return parse_int(command, "--ignore-index", text, INT32_MIN, INT32_MAX, &out->ignore_index);
}

wafer_status training_flag(const char *command, wafer_arena *arena, int option, const char *text,
                           training_flags *flags) {
  static const struct option names[] = {TRAINING_LONG_OPTIONS};
  wafer_training_options *o = &flags->options;
  int64_t number = 0;
  flags->said |= 1u << (option - TRAINING_LOSS);
  if (!flags->first) flags->first = names[option - TRAINING_LOSS].name;
  switch (option) {
  case TRAINING_LOSS: flags->has_loss = true; return training_parse_loss(command, arena, text, o);
  case TRAINING_MICRO_BATCH:
    WAFER_TRY(parse_int(command, "--micro-batch", text, 1, 1 << 24, &number));
    o->micro_batch = (uint32_t)number;
    return WAFER_OK;
  case TRAINING_RECOMPUTE: return training_parse_recompute(command, text, &o->recompute);
  case TRAINING_IGNORE: return training_parse_ignore(command, text, o);
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

static bool says(const training_flags *flags, int option) {
  return flags->said & 1u << (option - TRAINING_LOSS);
}

static void warn(bool unread, const char *option, const char *why) {
  if (unread) wafer_warn(cli_diag(), (wafer_loc){0}, "%s changed nothing: %s", option, why);
}

static bool has_numbers(const wafer_training_options *o) {
  return o->loss == WAFER_LOSS_cross_entropy || o->loss == WAFER_LOSS_nll;
}

void training_warn_ignored(const wafer_training_options *o) {
  warn(o->ignores && !has_numbers(o), "--ignore-index",
       "labels are left out by their numbers, which cross-entropy and nll have");
}

void training_warn_unread(const training_flags *flags, const wafer_plan *plan) {
  const wafer_training_options *o = &flags->options;
  const bool classes = has_numbers(o) || o->loss == WAFER_LOSS_soft_cross_entropy;
  char has_none[64];
  snprintf(has_none, sizeof has_none, "loss %s has no classes", wafer_loss_name(o->loss));
  warn(says(flags, TRAINING_OPTIMIZER) && plan->mode == WAFER_MODE_streaming, "--optimizer",
       "in weight streaming MemoryX updates the weights, as a run asks it to; --mode pipelined "
       "updates them on the wafer");
  warn(says(flags, TRAINING_OPTIMIZER) && o->evaluate && plan->mode == WAFER_MODE_pipelined,
       "--optimizer", "--evaluate leaves the weights as they are");
  warn(says(flags, TRAINING_RECOMPUTE) && o->evaluate, "--recompute",
       "--evaluate has no backward pass");
  warn(says(flags, TRAINING_CLASS_AXIS) && !classes, "--class-axis", has_none);
  training_warn_ignored(o);
}

/* ---- Two layouts of a step ---- */

static bool has_few_words(const wafer_plan *plan) {
  uint64_t words = 0;
  for (uint32_t s = 0; s < plan->stream_count && words <= WAFER_PROGRAMS_WORDS; s++)
    words += plan->streams[s].words;
  return words <= WAFER_PROGRAMS_WORDS;
}

/* By core programs; UINT64_MAX where there are none, or none that are made in short time. */
static wafer_status time_programs(const wafer_plan *plan, uint64_t micro_batches,
                                  uint64_t *cycles) {
  const wafer_diag silent = {0};
  wafer_arena *arena = wafer_arena_create();
  const wafer_ctx ctx = {.machine = plan->machine, .arena = arena, .diag = &silent};
  const wafer_plan *whole;
  wafer_step_cycles step;
  *cycles = UINT64_MAX;
  if (!arena) return cli_no_memory();
  wafer_status status =
      has_few_words(plan) ? wafer_plan_add_programs(&ctx, plan, false, &whole) : WAFER_UNSUPPORTED;
  if (status == WAFER_OK) status = wafer_plan_step_cycles(&silent, whole, micro_batches, &step);
  if (status == WAFER_OK) *cycles = step.step;
  wafer_arena_destroy(arena);
  return status == WAFER_NO_MEMORY ? cli_no_memory() : WAFER_OK;
}

static wafer_status time_streams(const wafer_plan *plan, uint64_t micro_batches, uint64_t *cycles) {
  wafer_step_cycles step;
  WAFER_TRY(wafer_plan_step_cycles(cli_diag(), plan, micro_batches, &step));
  *cycles = step.step;
  return WAFER_OK;
}

wafer_status training_no_slower(wafer_plan const *const plans[2], uint64_t micro_batches,
                                bool *keeps, bool *by_programs, uint64_t cycles[2]) {
  WAFER_TRY(time_programs(plans[0], micro_batches, &cycles[0]));
  *by_programs = cycles[0] < UINT64_MAX;
  if (!*by_programs) WAFER_TRY(time_streams(plans[0], micro_batches, &cycles[0]));
  WAFER_TRY((*by_programs ? time_programs : time_streams)(plans[1], micro_batches, &cycles[1]));
  *keeps = cycles[1] <= cycles[0];
  return WAFER_OK;
}
