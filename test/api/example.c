/* A program that embeds the compiler: compiles a model for a wafer, looks at the placement, and
 * runs the plan from two threads at once, each with a session of its own.
 *
 *   cc example.c $(pkg-config --cflags --libs wafer) -pthread -o example && ./example model.onnx
 * wse2 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wafer/wafer.h>

static const wafer_diag to_stderr = {.emit = wafer_diag_to_file};

typedef struct job {
  const wafer_plan *plan;
  wafer_status status;
  size_t bytes;
  void *result; /* first output */
} job;

/* Inputs of one sample, all elements 0.25. */
static wafer_status make_inputs(const wafer_plan *plan, wafer_arena *arena, wafer_view *inputs) {
  for (uint32_t i = 0; i < plan->functions[0].input_count; i++) {
    const wafer_type *type = &plan->values[plan->functions[0].inputs[i]].type;
    int64_t count;
    wafer_shape_elements(&type->shape, &count);
    void *data = wafer_arena_alloc(arena, (size_t)count, wafer_dtype_bytes(type->dtype));
    if (!data) return WAFER_NO_MEMORY;
    for (int64_t j = 0; j < count; j++) wafer_element_set_f64(type->dtype, data, j, 0.25);
    inputs[i] = wafer_view_of(type->dtype, &type->shape, data);
  }
  return WAFER_OK;
}

static wafer_status run(job *j, wafer_arena *arena, wafer_session *session) {
  const wafer_function *main_function = &j->plan->functions[0];
  wafer_view inputs[16], outputs[16];
  if (main_function->input_count > 16 || main_function->output_count > 16) return WAFER_UNSUPPORTED;
  WAFER_TRY(make_inputs(j->plan, arena, inputs));
  for (int repeat = 0; repeat < 3; repeat++)
    WAFER_TRY(wafer_session_run(session, inputs, main_function->input_count, outputs,
                                main_function->output_count));
  j->bytes = wafer_tensor_bytes(outputs[0].dtype, &outputs[0].shape);
  j->result = malloc(j->bytes);
  if (!j->result) return WAFER_NO_MEMORY;
  memcpy(j->result, outputs[0].data, j->bytes);
  return WAFER_OK;
}

static void *work(void *argument) {
  job *j = argument;
  wafer_arena *arena = wafer_arena_create();
  wafer_session_options options = {.threads = 1, .diag = &to_stderr};
  wafer_session *session = NULL;
  j->status = wafer_session_create(j->plan, &options, &session);
  if (j->status == WAFER_OK) j->status = run(j, arena, session);
  wafer_session_destroy(session);
  wafer_arena_destroy(arena);
  return NULL;
}

static int run_twice(const wafer_plan *plan) {
  job jobs[2] = {{.plan = plan}, {.plan = plan}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, work, &jobs[i])) return WAFER_INTERNAL;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  int code = jobs[0].status ? (int)jobs[0].status : (int)jobs[1].status;
  if (!code &&
      (jobs[0].bytes != jobs[1].bytes || memcmp(jobs[0].result, jobs[1].result, jobs[0].bytes)))
    code = WAFER_DIFFER;
  if (!code) printf("two threads, the same %zu bytes\n", jobs[0].bytes);
  free(jobs[0].result);
  free(jobs[1].result);
  return code;
}

static wafer_status compile(wafer_ctx *ctx, const char *model, const wafer_plan **plan) {
  wafer_ir *ir;
  WAFER_TRY(wafer_import(ctx, model, &ir));
  wafer_status status = wafer_transform(ctx, ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(ctx, ir, plan);
  wafer_ir_destroy(ir);
  return status;
}

static void inspect(const wafer_plan *plan) {
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    const wafer_kernel *k = &plan->kernels[i];
    printf("%-24s %4" PRIu32 " x %-4" PRIu32 " at %" PRIu32 ",%" PRIu32 " %10" PRIu64 " cycles\n",
           k->name, k->rect.width, k->rect.height, k->rect.x, k->rect.y, k->cost.cycles);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return fputs("usage: example MODEL.onnx MACHINE\n", stderr), WAFER_USAGE;
  wafer_ctx ctx = {.arena = wafer_arena_create(), .diag = &to_stderr};
  const wafer_plan *plan = NULL;
  int code = wafer_machine_open(&to_stderr, ctx.arena, argv[2], &ctx.machine);
  if (!code) code = compile(&ctx, argv[1], &plan);
  if (!code) inspect(plan);
  if (!code) code = run_twice(plan);
  wafer_arena_destroy(ctx.arena);
  return code;
}
