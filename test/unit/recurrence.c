/* Recurrences, step by step: what each step's kernels take does not grow with the number of steps. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "compiled.h"

#define STEPS 64
#define INPUTS 4
#define HIDDEN 8
#define GATES 4

typedef struct text {
  char at[1 << 16];
  size_t length;
} text;

static void weight(text *t, const char *name, int rows, int columns) {
  t->length += (size_t)snprintf(t->at + t->length, sizeof t->at - t->length,
                                "init %s f32 1x%dx%d =", name, rows, columns);
  for (int i = 0; i < rows * columns; i++)
    t->length += (size_t)snprintf(t->at + t->length, sizeof t->at - t->length, " 0.%d", 1 + i % 9);
  t->length += (size_t)snprintf(t->at + t->length, sizeof t->at - t->length, "; ");
}

static wafer_status compile(compiled *m, const wafer_options *options) {
  text *t = calloc(1, sizeof *t);
  weight(t, "w", GATES * HIDDEN, INPUTS);
  weight(t, "r", GATES * HIDDEN, HIDDEN);
  snprintf(t->at + t->length, sizeof t->at - t->length,
           "in x f32 %dx1x%d; LSTM x w r -> y; out y", STEPS, INPUTS);
  wafer_status status = compiled_text(m, NULL, options, t->at);
  free(t);
  return status;
}

/* The steps' results come together few at a time: one concatenation of all took 75 cycles a step.
 */
static void steps_take_little(void) {
  wafer_options options = {
      .mode = WAFER_MODE_pipelined, .programs = WAFER_PROGRAMS_never, .bands = 1};
  compiled m;
  CU_ASSERT_EQUAL_FATAL(compile(&m, &options), WAFER_OK);
  for (uint32_t k = 0; k < m.plan->kernel_count; k++)
    CU_ASSERT(m.plan->kernels[k].cost.cycles < 400);
  compiled_end(&m);
}

/* Weights of all steps come from the border by a colour or two; they had ten. */
static void steps_share_colors(void) {
  wafer_options options = {
      .mode = WAFER_MODE_pipelined, .programs = WAFER_PROGRAMS_never, .bands = 1};
  compiled m;
  uint32_t colors = 0, count = 0;
  CU_ASSERT_EQUAL_FATAL(compile(&m, &options), WAFER_OK);
  for (uint32_t s = 0; s < m.plan->stream_count; s++) {
    const wafer_stream *stream = &m.plan->streams[s];
    if (stream->from.where != WAFER_AT_memoryx) continue;
    colors |= 1u << stream->color;
    count++;
  }
  CU_ASSERT(count >= STEPS - 1);
  CU_ASSERT(__builtin_popcount(colors) <= 2);
  compiled_end(&m);
}

/* How often a plan has weights come that several kernels take; `least`: fewer cannot be. */
static uint32_t streams_of_shared(const wafer_plan *plan, uint32_t *least) {
  uint32_t count = 0;
  *least = 0;
  for (uint32_t v = 0; v < plan->value_count; v++) {
    uint32_t uses = 0, streams = 0;
    for (uint32_t k = 0; plan->values[v].weight != WAFER_NONE && k < plan->kernel_count; k++)
      for (uint32_t i = 0; i < plan->kernels[k].body.input_count; i++)
        uses += plan->kernels[k].inputs[i] == v;
    if (uses < 2) continue;
    for (uint32_t s = 0; s < plan->stream_count; s++) streams += plan->streams[s].value == v;
    count += streams;
    ++*least;
  }
  return count;
}

/* In streaming the weights of all steps come once, as far as the cores have room; they came for
 * each step: two layers of 90 steps with 2.6 MB of weights each took 13,500,000 cycles for
 * 2,400,000. */
static void weights_stay(void) {
  wafer_options options = {.mode = WAFER_MODE_streaming};
  compiled m;
  uint32_t least, count;
  CU_ASSERT_EQUAL_FATAL(compile(&m, &options), WAFER_OK);
  count = streams_of_shared(m.plan, &least);
  CU_ASSERT(least > 0 && count == least);
  for (uint32_t p = 0; p < m.plan->phase_count; p++)
    CU_ASSERT(m.plan->phases[p].peak_core_bytes <= wafer_machine_core_budget(m.ctx.machine));
  compiled_end(&m);
}

CU_TestInfo tests_recurrence[] = {
    {"weights of all steps stay in streaming", weights_stay},
    {"steps take little each", steps_take_little},
    {"weights of all steps share colours", steps_share_colors},
    CU_TEST_INFO_NULL,
};
