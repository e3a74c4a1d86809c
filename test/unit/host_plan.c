/* Models with host steps: what the importer makes of them, what running gives, and that plans whose
 * host functions are broken are refused. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "compiled.h"
#include "wafer/program.h"
#include "wafer/session.h"

static wafer_status begin(compiled *m, const char *text) {
  return compiled_text(m, NULL, NULL, text);
}

static uint32_t count_steps(const wafer_plan *plan, wafer_step_kind kind) {
  uint32_t count = 0;
  for (uint32_t f = 0; f < plan->function_count; f++)
    for (uint32_t s = 0; s < plan->functions[f].step_count; s++)
      count += plan->functions[f].steps[s].kind == kind;
  return count;
}

/* What y is for x = -1, 2, 0, 3, as text; `host`, `call`: how many steps of the kind. */
static const struct {
  const char *text, *want;
  uint32_t host, call;
} rows[] = {
    {"in x f32 4; NonZero x -> y; out y", "1x3: 0 1 3", 1, 0},
    {"in x f32 4; Relu x -> a; NonZero a -> y; out y", "1x2: 1 3", 1, 1},
    {"in x f32 4; Relu x -> a; NonZero a -> i; Squeeze i -> s; Gather x s -> b; Neg b -> y; out y",
     "2: -2 -3", 4, 1},
    {"in x f32 4; NonZero x -> i; Shape i -> y; out y i64 2", "2: 1 3", 2, 0},
    {"in x f32 4; SequenceConstruct x x -> s; SequenceLength s -> n; Add n n -> y; out y",
     "scalar: 4", 2, 1},
    {"in x f32 4; init at i64 scalar = -1; Neg x -> z; SequenceConstruct x z -> s; "
     "SequenceAt s at -> y; out y",
     "4: 1 -2 -0 -3", 2, 1},
    {"in x f32 4; SplitToSequence(keepdims=0) x -> s; ConcatFromSequence(axis=0,new_axis=1) s -> "
     "c; "
     "Abs c -> y; out y",
     "4: 1 2 0 3", 3, 0},
    /* who takes single parts, of places that are known, needs no host */
    {"in x f32 4; init l i64 2 = 1 3; init at i64 scalar = -1; SplitToSequence x l -> s; "
     "SequenceAt s at -> b; Neg b -> y; out y",
     "3: -2 -0 -3", 0, 0},
    {"in x f32 4; init l i64 scalar = 3; init at i64 scalar = 1; SplitToSequence x l -> s; "
     "SequenceAt s at -> y; out y",
     "1: 3", 0, 0},
    {"in x f32 4; init at i64 scalar = 1; SplitToSequence(keepdims=0) x -> s; SequenceAt s at -> "
     "y; "
     "out y",
     "scalar: 2", 0, 0},
    {"in x f32 4; init at i64 scalar = 1; SplitToSequence x -> s; SequenceAt s at -> b; "
     "SequenceLength s -> n; Cast(to=1) n -> f; Add b f -> y; out y",
     "1: 6", 4, 1},
    {"in x f32 4; Optional x -> o; OptionalHasElement o -> h; OptionalGetElement o -> g; "
     "Identity g -> y; out y",
     "4: -1 2 0 3", 3, 0},
    {"in x f32 4; Cast(to=9) x -> c; Compress(axis=0) x c -> y; out y", "3: -1 2 3", 1, 1},
    /* what is known to be wanted the cores pick */
    {"in x f32 4; init c bool 4 = 1 0 0 1; Compress(axis=0) x c -> y; out y", "2: -1 3", 0, 0},
    {"in x f32 4; NonZero x -> i; SequenceConstruct i -> s; Identity x -> y; out y", "4: -1 2 0 3",
     2, 1},
};

static void format(const wafer_view *view, char *out, size_t room) {
  int64_t count;
  wafer_shape_format(&view->shape, out, room);
  wafer_shape_elements(&view->shape, &count);
  strcat(out, ":");
  for (int64_t i = 0; i < count; i++)
    snprintf(out + strlen(out), room - strlen(out), " %g",
             wafer_element_f64(view->dtype, view->data, i));
}

static void test_runs(void) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    compiled m;
    wafer_session *session = NULL;
    float x[] = {-1, 2, 0, 3};
    wafer_shape shape = {1, {4}};
    wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
    char got[128] = "nothing";
    wafer_status status = begin(&m, rows[i].text);
    if (status == WAFER_OK) status = wafer_session_create(m.plan, NULL, &session);
    if (status == WAFER_OK) status = wafer_session_run(session, &in, 1, &out, 1);
    if (status == WAFER_OK) format(&out, got, sizeof got);
    uint32_t host = m.plan ? count_steps(m.plan, WAFER_STEP_host) : 0;
    uint32_t call = m.plan ? count_steps(m.plan, WAFER_STEP_call) : 0;
    bool right = !strcmp(got, rows[i].want) && host == rows[i].host && call == rows[i].call;
    if (!right) printf("\n  %s: %s, %u host, %u calls\n", rows[i].text, got, host, call);
    CU_ASSERT(right);
    wafer_session_destroy(session);
    compiled_end(&m);
  }
}

/* Two samples at once: results of one shape are stacked, others refused. */
static void test_trains(void) {
  compiled m;
  wafer_session *session = NULL;
  float x[] = {0, 1, 0, 2, 3, 0, 0, 4};
  wafer_shape shape = {2, {2, 4}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
  CU_ASSERT_EQUAL_FATAL(begin(&m, rows[0].text), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_session_create(m.plan, NULL, &session), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_session_run(session, &in, 1, &out, 1), WAFER_OK);
  CU_ASSERT(out.shape.rank == 3 && out.shape.dims[0] == 2 && out.shape.dims[2] == 2);
  const int64_t *at = out.data;
  CU_ASSERT(at[0] == 1 && at[1] == 3 && at[2] == 0 && at[3] == 3);
  x[0] = 5;
  CU_ASSERT_EQUAL(wafer_session_run(session, &in, 1, &out, 1), WAFER_UNSUPPORTED);
  wafer_session_destroy(session);
  compiled_end(&m);
}

/* A written plan is the plan. */
static void test_files(void) {
  compiled m;
  char *text = NULL, *again = NULL;
  size_t bytes, more;
  const wafer_plan *opened = NULL;
  CU_ASSERT_EQUAL_FATAL(begin(&m, rows[2].text), WAFER_OK);
  const char *path = scratch_path(&m.folder, "p.wplan");
  CU_ASSERT_EQUAL_FATAL(wafer_plan_write(NULL, m.plan, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(NULL, path, &opened), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_plan_print_xml(NULL, m.plan, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_plan_print_xml(NULL, opened, &again, &more), WAFER_OK);
  CU_ASSERT(bytes == more && !memcmp(text, again, bytes));
  free(text);
  free(again);
  wafer_plan_close(opened);
  remove(path);
  compiled_end(&m);
}

/* A function for every size of a dim: the run takes the one that fits, and says when none does. */
static void test_sizes(void) {
  compiled m;
  wafer_session *session = NULL;
  float x[] = {-1, 2, -3, 4};
  const wafer_dim_binding range = {"N", 1, 3};
  const wafer_options options = {.dim_count = 1, .dims = &range};
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, "in x f32 N; Abs x -> y; out y"),
                        WAFER_OK);
  CU_ASSERT_EQUAL(count_steps(m.plan, WAFER_STEP_fit), 1);
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(m.plan, NULL, &session), WAFER_OK);
  for (int64_t n = 1; n <= 4; n++) {
    wafer_shape shape = {1, {n}};
    wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
    wafer_status status = wafer_session_run(session, &in, 1, &out, 1);
    CU_ASSERT_EQUAL(status, n <= 3 ? WAFER_OK : WAFER_BAD_INPUT);
    if (status != WAFER_OK) continue;
    CU_ASSERT_EQUAL(out.shape.dims[0], n);
    CU_ASSERT_EQUAL(((float *)out.data)[n - 1], n == 2 ? 2 : (float)n);
  }
  wafer_session_destroy(session);
  compiled_end(&m);
}

/* Of two samples, the second of which goes the way of the first. */
static void run_two(const compiled *m, uint64_t *first, uint64_t *second) {
  wafer_session *session = NULL;
  wafer_shape shape = {1, {4}};
  float x[] = {-1, 2, 0, 3};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(m->plan, NULL, &session), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, &in, 1, &out, 1), WAFER_OK);
  *first = wafer_session_stats(session).total_cycles;
  CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, &in, 1, &out, 1), WAFER_OK);
  *second = wafer_session_stats(session).total_cycles;
  wafer_session_destroy(session);
}

/* A pipeline's weights stay on the wafer until another function runs there, and then those that it
 * has at the same place, whatever they are called there. */
static void test_weights_stay(void) {
#define W "in x f32 4; init w f32 4x4 = 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7; MatMul x w -> a; "
#define V "init v f32 4x4 = 7 6 5 4 3 2 1 9 8 7 6 5 4 3 2 1; "
  static const struct {
    uint32_t functions;
    bool others, last; /* the first, the last waits behind the function before it */
    const char *text;
  } models[] = {
      {1, false, false, W "NonZero a -> y; out y"},
      {2, false, false,
       W "NonZero a -> i; MatMul a w -> b; NonZero b -> j; Concat(axis=1) i j -> y; out y"},
      {2, true, true,
       W V "NonZero a -> i; MatMul a v -> b; NonZero b -> j; Concat(axis=1) i j -> y; out y"},
      {3, true, false,
       W "NonZero a -> i; Transpose w -> t; MatMul a t -> b; NonZero b -> j; Transpose w -> u; "
         "MatMul b u -> c; NonZero c -> k; Concat(axis=1) i j k -> y; out y"}};
#undef V
#undef W
  for (size_t row = 0; row < WAFER_COUNT(models); row++) {
    compiled m;
    wafer_options options = {.mode = WAFER_MODE_pipelined};
    uint64_t first, second;
    wafer_timeline t = {0};
    CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, models[row].text), WAFER_OK);
    const uint32_t functions = models[row].functions;
    CU_ASSERT_FATAL(count_steps(m.plan, WAFER_STEP_call) == functions &&
                    m.plan->function_count == functions + 1);
    const wafer_loads *loads = wafer_loads_of(m.ctx.arena, m.plan);
    const uint64_t load = wafer_loads_cycles(loads, 1, WAFER_NONE),
                   again = wafer_loads_cycles(loads, 1, functions),
                   last = functions > 1 ? wafer_loads_cycles(loads, functions, functions - 1) : 0;
    CU_ASSERT_EQUAL(again, models[row].others ? load : 0);
    CU_ASSERT_EQUAL(last, models[row].last ? load : 0);
    CU_ASSERT_EQUAL(wafer_timeline_run(NULL, m.plan, 0, 3, &t), WAFER_OK);
    run_two(&m, &first, &second);
    CU_ASSERT(load > 0 && first > load);
    CU_ASSERT_EQUAL(second, first - load + again);
    CU_ASSERT(t.latency_cycles == first && t.interval_cycles == second);
    CU_ASSERT_EQUAL(t.total_cycles, first + 2 * second);
    compiled_end(&m);
  }
}

/* What a function of another size has left is there where it is the same weight, in the same parts,
 * on the same cores, and was not freed. */
static void test_weights_left(void) {
  enum { EDITS = 7 };
  const wafer_dim_binding range = {"N", 1, 2};
  const wafer_options options = {.mode = WAFER_MODE_pipelined, .dim_count = 1, .dims = &range};
  compiled m;
  CU_ASSERT_EQUAL_FATAL(
      compiled_text(&m, NULL, &options,
                    "in x f32 Nx4; init w f32 4x4 = 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7; "
                    "MatMul x w -> y; out y"),
      WAFER_OK);
  wafer_plan plan = *m.plan;
  uint32_t a = 0, b = 0;
  for (uint32_t i = 0; i < plan.stream_count; i++)
    if (plan.streams[i].from.where == WAFER_AT_memoryx) a = b, b = i;
  CU_ASSERT_FATAL(a < b && plan.function_count == 3);
  for (int edit = 0; edit < EDITS; edit++) {
    wafer_stream *streams =
        wafer_arena_copy(m.ctx.arena, m.plan->streams, plan.stream_count * sizeof *plan.streams);
    wafer_value *values =
        wafer_arena_copy(m.ctx.arena, m.plan->values, plan.value_count * sizeof *plan.values);
    wafer_phase *phases =
        wafer_arena_copy(m.ctx.arena, m.plan->phases, plan.phase_count * sizeof *plan.phases);
    plan.streams = streams, plan.values = values, plan.phases = phases;
    streams[b].to = streams[a].to; /* alike, whatever both are laid out like */
    if (edit == 1) streams[b].to.rect.x++;
    if (edit == 2) streams[b].to.rect.height++;
    if (edit == 3) streams[b].to.layout.cols[1] *= 2;
    if (edit == 4) streams[b].to.layout.order[0]++;
    if (edit == 5) values[streams[b].value].weight++;
    if (edit == 6) phases[0].free_count = 1, phases[0].frees = &streams[a].value;
    const wafer_loads *loads = wafer_loads_of(m.ctx.arena, &plan);
    const uint64_t load = wafer_loads_cycles(loads, 2, WAFER_NONE);
    CU_ASSERT(load > 0);
    CU_ASSERT_EQUAL(wafer_loads_cycles(loads, 2, 1), edit ? load : 0);
    CU_ASSERT_EQUAL(wafer_loads_cycles(loads, 1, 1), edit == 6 ? load : 0);
    CU_ASSERT_EQUAL(wafer_loads_cycles(loads, 2, 2), 0);
  }
  compiled_end(&m);
}

/* Cycles of a call with so many rows, and the sum of what it gives. */
static uint64_t call_with(wafer_session *session, int64_t count, double *sum) {
  static float x[4 * 64];
  wafer_shape shape = {2, {count, 64}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
  for (int i = 0; i < 4 * 64; i++) x[i] = (float)(i % 7 - 3);
  CU_ASSERT_EQUAL_FATAL(wafer_session_run(session, &in, 1, &out, 1), WAFER_OK);
  *sum = 0;
  for (int64_t i = 0; i < count * 64; i++) *sum += ((const float *)out.data)[i] * (double)(i % 5);
  return wafer_session_stats(session).total_cycles;
}

/* Sizes that take turns have their weights at the same place, also where fewer rows can be cut: a
 * call behind another size's takes as long as one behind its own, as the plan tells. */
static void test_sizes_share(void) {
  const wafer_dim_binding range = {"N", 2, 4};
  const wafer_options options = {.mode = WAFER_MODE_pipelined, .dim_count = 1, .dims = &range};
  static const int64_t turns[] = {2, 3, 4, 4, 2, 3};
  char *text = malloc(1 << 16);
  double first[5] = {0}, sum;
  compiled m;
  wafer_session *session = NULL;
  size_t used = (size_t)sprintf(text, "in x f32 Nx64; init w f32 64x64 =");
  for (int i = 0; i < 64 * 64; i++) used += (size_t)sprintf(text + used, " %d", i * i % 11 - 5);
  strcpy(text + used, "; MatMul x w -> a; Relu a -> b; MatMul b w -> y; out y");
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, text), WAFER_OK);
  const wafer_loads *loads = wafer_loads_of(m.ctx.arena, m.plan);
  CU_ASSERT_EQUAL_FATAL(wafer_session_create(m.plan, NULL, &session), WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(turns); i++) {
    const uint32_t function = (uint32_t)turns[i] - 1;
    wafer_timeline t = {0};
    CU_ASSERT_EQUAL(wafer_timeline_run(NULL, m.plan, function, 1, &t), WAFER_OK);
    const uint64_t load = i ? 0 : wafer_loads_cycles(loads, function, WAFER_NONE);
    CU_ASSERT(i > 0 || load > 0);
    CU_ASSERT_EQUAL(call_with(session, turns[i], &sum), t.total_cycles + load);
    CU_ASSERT(first[turns[i]] == 0 || first[turns[i]] == sum);
    first[turns[i]] = sum;
  }
  wafer_session_destroy(session);
  compiled_end(&m);
  free(text);
}

/* Each edit of a legal plan breaks one law of host functions. */
static void test_laws(void) {
  enum { EDITS = 8 };
  for (int edit = 0; edit < EDITS; edit++) {
    compiled m;
    CU_ASSERT_EQUAL_FATAL(begin(&m, rows[1].text), WAFER_OK);
    wafer_plan plan = *m.plan;
    wafer_function main = plan.functions[0];
    wafer_function functions[2] = {main, plan.functions[1]};
    wafer_step steps[2] = {main.steps[0], main.steps[1]};
    uint32_t far = 1u << 20, self = 0, none = WAFER_NONE;
    CU_ASSERT_EQUAL_FATAL(main.step_count, 2);
    plan.functions = functions;
    functions[0].steps = steps;
    CU_ASSERT_EQUAL(wafer_plan_check(NULL, "p", &plan), WAFER_OK);
    if (edit == 0) steps[0].bodies = &self;
    if (edit == 1) steps[0].bodies = &far;
    if (edit == 2) steps[1].inputs = &far;
    if (edit == 3) steps[1].outputs = main.inputs;
    if (edit == 4) steps[1].op = WAFER_HOST_none;
    if (edit == 5) functions[0].steps = &steps[1], functions[0].step_count = 1;
    if (edit == 6) steps[1] = plan.functions[1].steps[0];
    if (edit == 7) steps[0].body_count = 0;
    (void)none;
    bool refused = wafer_plan_check(NULL, "p", &plan) != WAFER_OK;
    if (!refused) printf("\n  edit %d is taken\n", edit);
    CU_ASSERT(refused);
    compiled_end(&m);
  }
}

CU_TestInfo tests_host_plan[] = {
    {"runs", test_runs},
    {"trains", test_trains},
    {"files", test_files},
    {"sizes", test_sizes},
    {"weights stay", test_weights_stay},
    {"weights left", test_weights_left},
    {"sizes share", test_sizes_share},
    {"laws", test_laws},
    CU_TEST_INFO_NULL,
};
