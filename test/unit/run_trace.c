/* Traces of runs at fabric fidelity: JSON that opens, tracks whose events follow each other, and a
 * bound on the size. */
#include "tools/run/run_trace.h"

#include <CUnit/CUnit.h>
#include <cjson/cJSON.h>
#include <string.h>

#include "caught.h"
#include "scratch.h"
#include "wafer/wafer.h"

enum { KERNELS = 1, STREAMS, WEIGHTS, CORES, PROCESSES }; /* as the file numbers them */

typedef struct fixture {
  scratch folder;
  caught last;
  wafer_diag diag;
  wafer_arena *arena;
  wafer_ir *ir; /* the plan borrows its names */
  const wafer_plan *plan;
  const char *path;
  wafer_run_stats stats;
  cJSON *json;
  size_t bytes;
} fixture;

static void compile(fixture *f, wafer_mode mode) {
  wafer_options options = {.mode = mode, .bands = 1, .programs = WAFER_PROGRAMS_always};
  wafer_ctx ctx = {.arena = f->arena, .diag = &f->diag, .options = &options};
  CU_ASSERT_FATAL(wafer_machine_open(&f->diag, f->arena, "small16", &ctx.machine) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_import(&ctx, WAFER_SOURCE_DIR "/test/data/small_cnn.onnx", &f->ir) ==
                  WAFER_OK);
  CU_ASSERT_FATAL(wafer_transform(&ctx, f->ir, WAFER_DEFAULT_PASSES) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_lower(&ctx, f->ir, &f->plan) == WAFER_OK);
}

/* Three samples of zeros, watched with all that a core of the first kernel does. */
static void run(fixture *f, wafer_mode mode, uint64_t most) {
  *f = (fixture){.folder = scratch_create(), .arena = wafer_arena_create()};
  f->diag = caught_diag(&f->last);
  compile(f, mode);
  f->path = scratch_path(&f->folder, "trace.json");
  const wafer_rect *rect = &f->plan->kernels[0].rect;
  const wafer_core_at core = {rect->x, rect->y};
  run_trace *trace;
  CU_ASSERT_FATAL(run_trace_open(&f->diag, f->plan, f->path, most, &trace) == WAFER_OK);
  const wafer_watch watch = {trace, run_trace_span, &core, 1};
  const wafer_session_options options = {
      .fidelity = WAFER_FIDELITY_fabric, .threads = 1, .diag = &f->diag, .watch = &watch};
  wafer_session *session;
  wafer_view out[8];
  const wafer_type *type = &f->plan->values[f->plan->functions[0].inputs[0]].type;
  wafer_shape shape = {.rank = type->shape.rank + 1, .dims = {3}};
  memcpy(shape.dims + 1, type->shape.dims, type->shape.rank * sizeof shape.dims[0]);
  const wafer_view in = wafer_view_of(
      type->dtype, &shape, wafer_arena_alloc(f->arena, wafer_tensor_bytes(type->dtype, &shape), 1));
  CU_ASSERT_FATAL(wafer_session_create(f->plan, &options, &session) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_session_run(session, &in, 1, out, f->plan->functions[0].output_count) ==
                  WAFER_OK);
  f->stats = wafer_session_stats(session);
  wafer_session_destroy(session);
  CU_ASSERT_FATAL(run_trace_close(trace, true) == WAFER_OK);
  wafer_bytes text;
  CU_ASSERT_FATAL(wafer_file_map(&f->diag, f->arena, f->path, &text) == WAFER_OK);
  f->bytes = text.size;
  f->json = cJSON_ParseWithLength(text.data, text.size);
  CU_ASSERT_PTR_NOT_NULL_FATAL(f->json);
}

static void finish(fixture *f) {
  cJSON_Delete(f->json);
  wafer_ir_destroy(f->ir);
  wafer_arena_destroy(f->arena);
  scratch_remove(&f->folder);
}

static double number(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItem(object, name);
  CU_ASSERT_FATAL(cJSON_IsNumber(item));
  return item->valuedouble;
}

static double in_args(const cJSON *event, const char *name) {
  return number(cJSON_GetObjectItem(event, "args"), name);
}

/* Per track: events do not overlap and come in the order of time. How many of each process. */
static void count_events(const fixture *f, uint32_t count[PROCESSES]) {
  static double end[PROCESSES][65536];
  memset(end, 0, sizeof end);
  memset(count, 0, PROCESSES * sizeof *count);
  double hz = (double)f->plan->machine->clock_hz;
  const cJSON *event;
  cJSON_ArrayForEach(event, cJSON_GetObjectItem(f->json, "traceEvents")) {
    const char *phase = cJSON_GetObjectItem(event, "ph")->valuestring;
    if (strcmp(phase, "X") != 0) continue;
    int process = (int)number(event, "pid"), track = (int)number(event, "tid");
    double start = in_args(event, "cycle"), cycles = in_args(event, "cycles");
    CU_ASSERT_FATAL(process >= KERNELS && process < PROCESSES && track > 0 && track < 65536);
    count[process]++;
    CU_ASSERT(cycles > 0);
    CU_ASSERT(start >= end[process][track]);
    end[process][track] = start + cycles;
    CU_ASSERT(start + cycles <= (double)f->stats.total_cycles * 2);
    CU_ASSERT_DOUBLE_EQUAL(number(event, "ts"), start / hz * 1e6, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(number(event, "dur"), cycles / hz * 1e6, 1e-6);
  }
}

static void opens(wafer_mode mode) {
  fixture f;
  uint32_t count[PROCESSES];
  run(&f, mode, RUN_TRACE_BYTES);
  count_events(&f, count);
  CU_ASSERT_EQUAL(count[KERNELS], 3 * f.plan->kernel_count);
  CU_ASSERT(count[STREAMS] > 0 && count[WEIGHTS] > 0 && count[CORES] >= 3);
  CU_ASSERT_EQUAL(number(cJSON_GetObjectItem(f.json, "otherData"), "spans_left_out"), 0);
  finish(&f);
}

static void streaming(void) {
  opens(WAFER_MODE_streaming);
}

static void pipelined(void) {
  opens(WAFER_MODE_pipelined);
}

static void bounded(void) {
  fixture f;
  run(&f, WAFER_MODE_streaming, RUN_TRACE_LEAST_BYTES);
  CU_ASSERT(f.bytes <= RUN_TRACE_LEAST_BYTES);
  CU_ASSERT(number(cJSON_GetObjectItem(f.json, "otherData"), "spans_left_out") > 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.last.text, "were left out"));
  finish(&f);
}

CU_TestInfo tests_run_trace[] = {
    {"launches, one after the other", streaming},
    {"a train, by its marks", pipelined},
    {"a bound on the size", bounded},
    CU_TEST_INFO_NULL,
};
