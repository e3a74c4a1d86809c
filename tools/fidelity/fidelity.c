/* wafer check: a plan at both fidelities; how far the cost model is from counted cycles, and the
 * outputs from each other. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fidelity.h"

static const char usage[] =
    "usage: wafer check PLAN.wplan [--input NAME=FILE.npy ...] [options]\n\n"
    "Runs the plan at kernel and at fabric fidelity on the same inputs. Per kernel: the cycles "
    "that\n"
    "the cost model predicts, those counted, the difference, and the largest difference of the "
    "values\n"
    "that it makes of the same inputs, relative to the largest of them (of sums: to the size of "
    "their\n"
    "terms, if that is more). Per output: how far the runs are apart, with all that the layers "
    "make\n"
    "of such differences. Of pipelined training a step: then the weights are updated on the wafer, "
    "and\n"
    "a second train has the new ones.\n\n"
    "      --input NAME=FILE  an input tensor (.npy); without any: seeded random ones\n"
    "      --seed N           of the random inputs (1)\n"
    "      --samples S        random inputs: a train of S samples (as many as are resident "
    "together)\n"
    "      --streams          streams too\n"
    "      --tol T            outputs, and what a kernel makes, may differ by T times the largest\n"
    "                         (1e-5; with f16 storage or values 2e-3, with bf16 values 1.6e-2)\n"
    "      --mean P           fail when the mean difference of cycles per kernel is above P "
    "percent\n"
    "      --total P          fail when the total is off by more than P percent\n"
    "      --fault F          of the run at fabric fidelity, as of `wafer run`; may be repeated\n"
    "      --threads N        host threads (all)\n"
    "      --report FILE      the table as JSON\n"
    "      --json             the table as JSON, in place of text\n"
    "  -q, --quiet            no progress, closing lines alone\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer check face.wplan\n"
    "  wafer check face.wplan --input 'input:0=photo.npy' --mean 10 --total 5\n";

enum { INPUT = 256, SEED, SAMPLES, STREAMS, TOL, MEAN, TOTAL, FAULT, THREADS, REPORT, JSON };

static const struct option long_options[] = {{"input", required_argument, NULL, INPUT},
                                             {"seed", required_argument, NULL, SEED},
                                             {"samples", required_argument, NULL, SAMPLES},
                                             {"streams", no_argument, NULL, STREAMS},
                                             {"tol", required_argument, NULL, TOL},
                                             {"mean", required_argument, NULL, MEAN},
                                             {"total", required_argument, NULL, TOTAL},
                                             {"fault", required_argument, NULL, FAULT},
                                             {"threads", required_argument, NULL, THREADS},
                                             {"report", required_argument, NULL, REPORT},
                                             {"json", no_argument, NULL, JSON},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static bool parse_option(check_arguments *a, wafer_arena *arena, int option, const char *text) {
  run_arguments *r = &a->run;
  switch (option) {
  case 'q': r->quiet = true; return true;
  case INPUT:
    r->input_count++;
    return cli_parse_pair("check", "--input", text, arena, &r->input_names[r->input_count - 1],
                          &r->input_paths[r->input_count - 1]);
  case SEED: return cli_parse_u64("check", "--seed", text, 0, UINT64_MAX, &r->seed);
  case SAMPLES: return cli_parse_u64("check", "--samples", text, 1, 1000000, &r->samples);
  case STREAMS: a->streams = true; return true;
  case TOL: return cli_parse_f64("check", "--tol", text, &r->tol);
  case MEAN: return cli_parse_f64("check", "--mean", text, &a->most_mean);
  case TOTAL: return cli_parse_f64("check", "--total", text, &a->most_total);
  case FAULT: return run_parse_fault("check", r, text);
  case THREADS: return cli_parse_u64("check", "--threads", text, 1, 1024, &r->threads);
  case REPORT: r->report = text; return true;
  case JSON: a->json = r->quiet = true; return true;
  default: return false;
  }
}

static wafer_status parse(int argc, char **argv, wafer_arena *arena, check_arguments *a,
                          bool *help) {
  *a = (check_arguments){
      .run = {.seed = 1, .tol = NAN}, .most_mean = INFINITY, .most_total = INFINITY};
  a->run.input_names = WAFER_NEW(arena, const char *, (size_t)argc);
  a->run.input_paths = WAFER_NEW(arena, const char *, (size_t)argc);
  a->run.faults = WAFER_NEW(arena, wafer_fault, (size_t)argc);
  if (!a->run.input_names || !a->run.input_paths || !a->run.faults) return cli_no_memory();
  for (int c; (c = cli_option("check", argc, argv, "qh", long_options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    if (!parse_option(a, arena, c, optarg)) return WAFER_USAGE;
  }
  if (optind + 1 != argc)
    return (wafer_status)cli_usage("check", "one PLAN.wplan is wanted, got %d", argc - optind);
  if (a->run.samples && a->run.input_count)
    return (wafer_status)cli_usage("check", "--samples is for random inputs, not beside --input");
  a->run.plan = argv[optind];
  return WAFER_OK;
}

/* ---- what kernels make ---- */

/* How large it is, on average of samples and calls. */
static wafer_status measure_made(void *self, uint32_t kernel, uint32_t output,
                                 const wafer_view *view) {
  check_values *v = self;
  uint32_t value = v->plan->kernels[kernel].outputs[output];
  double told = (double)v->told[value]++;
  v->size[value] = (v->size[value] * told + check_size(view)) / (told + 1);
  return WAFER_OK;
}

static wafer_status keep_made(void *self, uint32_t kernel, uint32_t output,
                              const wafer_view *view) {
  check_values *v = self;
  check_made *m = &v->made[kernel][output];
  if (!WAFER_GROW(v->arena, m->at, m->count, m->room, 1)) return cli_no_memory();
  wafer_view *to = &m->at[m->count++];
  *to = *view;
  to->data = wafer_arena_copy(v->arena, view->data, wafer_tensor_bytes(view->dtype, &view->shape));
  return to->data ? WAFER_OK : cli_no_memory();
}

static wafer_status compare_made(void *self, uint32_t kernel, uint32_t output,
                                 const wafer_view *view) {
  check_values *v = self;
  const wafer_kernel *k = &v->plan->kernels[kernel];
  check_made *m = &v->made[kernel][output];
  if (m->next == m->count) return WAFER_OK;
  wafer_view *made = &m->at[m->next++];
  double d = check_difference(made, view, check_body_terms(v, k, k->body.outputs[output]));
  if (!(d <= v->difference[kernel])) v->difference[kernel] = d;
  if (d == 0) made->data = NULL;
  return WAFER_OK;
}

/* Kernels after it have the inputs that they had on the fabric. */
static void *put_made(void *self, uint32_t kernel, uint32_t output) {
  const check_values *v = self;
  const check_made *m = &v->made[kernel][output];
  return m->next ? m->at[m->next - 1].data : NULL;
}

static bool make_values(const wafer_plan *plan, const wafer_view *inputs, wafer_arena *arena,
                        check_values *out) {
  const wafer_function *f = &plan->functions[0];
  *out = (check_values){.arena = arena,
                        .plan = plan,
                        .made = WAFER_NEW(arena, check_made *, plan->kernel_count),
                        .difference = WAFER_NEW(arena, double, plan->kernel_count),
                        .size = WAFER_NEW(arena, double, plan->value_count),
                        .told = WAFER_NEW(arena, uint64_t, plan->value_count),
                        .maker = WAFER_NEW(arena, uint32_t, plan->value_count)};
  if (!out->made || !out->difference || !out->size || !out->told || !out->maker) return false;
  for (uint32_t i = 0; i < f->input_count; i++)
    if (plan->values[f->inputs[i]].kind == WAFER_VALUE_tensor)
      out->size[f->inputs[i]] = check_size(&inputs[i]);
  for (uint32_t i = 0; i < plan->value_count; i++) out->maker[i] = WAFER_NONE;
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *made = &plan->kernels[k];
    out->made[k] = WAFER_NEW(arena, check_made, made->body.output_count);
    out->difference[k] = NAN;
    if (!out->made[k]) return false;
    for (uint32_t o = 0; o < made->body.output_count; o++) out->maker[made->outputs[o]] = k;
  }
  return true;
}

static const uint64_t *kept(wafer_arena *arena, const uint64_t *counts, uint32_t count) {
  return counts ? wafer_arena_copy(arena, counts, count * sizeof *counts) : NULL;
}

wafer_status check_keep_outputs(const wafer_plan *plan, wafer_arena *arena, wafer_view *outputs) {
  const wafer_function *f = &plan->functions[0];
  for (uint32_t i = 0; i < f->output_count; i++) {
    wafer_view *v = &outputs[i];
    if (v->dtype == WAFER_DTYPE_string)
      return wafer_fail(cli_diag(), wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "output '%s' is text, which has no distance: compare it by `wafer run "
                        "--fidelity fabric`",
                        plan->values[f->outputs[i]].name);
    v->data = wafer_arena_copy(arena, v->data, wafer_tensor_bytes(v->dtype, &v->shape));
    if (!v->data) return cli_no_memory();
  }
  return WAFER_OK;
}

/* One fidelity: outputs copied into the arena, cycles of kernels and streams too. `step`: NULL, or
 * of the fabric what comes after that. */
static wafer_status run_at(const check_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                           wafer_fidelity fidelity, const wafer_view *inputs,
                           const wafer_kernel_watch *kernels, check_run *out, check_step *step) {
  const wafer_function *f = &plan->functions[0];
  wafer_session *session;
  wafer_session_options options = {.fidelity = fidelity,
                                   .threads = (uint32_t)a->run.threads,
                                   .diag = cli_diag(),
                                   .kernels = kernels};
  if (fidelity == WAFER_FIDELITY_fabric) {
    options.faults = a->run.faults;
    options.fault_count = a->run.fault_count;
  }
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  out->outputs = WAFER_NEW(arena, wafer_view, f->output_count);
  wafer_status status = out->outputs ? wafer_session_run(session, inputs, f->input_count,
                                                         out->outputs, f->output_count)
                                     : cli_no_memory();
  if (status == WAFER_OK) {
    out->stats = wafer_session_stats(session);
    status = check_keep_outputs(plan, arena, out->outputs);
    out->kernel_busy = kept(arena, out->stats.kernel_busy, plan->kernel_count);
    out->stream_busy = kept(arena, out->stats.stream_busy, plan->stream_count);
    out->phase_runs = kept(arena, out->stats.phase_runs, plan->phase_count);
    out->stats.fault_struck = kept(arena, out->stats.fault_struck, a->run.fault_count);
  }
  if (status == WAFER_OK && step)
    status = check_step_fabric(plan, arena, session, inputs, out, step);
  wafer_session_destroy(session);
  return status;
}

/* Kernel fidelity with the weights that the fabric has made. */
static wafer_status run_step(const check_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                             const wafer_view *inputs, check_step *step) {
  const wafer_session_options options = {.threads = (uint32_t)a->run.threads, .diag = cli_diag()};
  wafer_session *session;
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  wafer_status status = check_step_kernel(plan, arena, session, inputs, step);
  wafer_session_destroy(session);
  return status;
}

static wafer_status check_plan(check_arguments *a, const wafer_plan *plan, wafer_arena *arena) {
  const wafer_function *f = &plan->functions[0];
  if (!a->run.samples && wafer_plan_together(plan) > 1) a->run.samples = wafer_plan_together(plan);
  wafer_view *inputs = WAFER_NEW(arena, wafer_view, f->input_count);
  check_run kernel = {0}, fabric = {0};
  check_values values;
  check_step step;
  bool updates = plan->step_values > 0;
  if (!inputs) return cli_no_memory();
  const wafer_kernel_watch measure = {&values, measure_made, NULL};
  const wafer_kernel_watch keep = {&values, keep_made, NULL};
  const wafer_kernel_watch compare = {&values, compare_made, put_made};
  WAFER_TRY(run_inputs(&a->run, plan, arena, inputs));
  if (!make_values(plan, inputs, arena, &values)) return cli_no_memory();
  /* Of a train only the outputs are compared: kernels are at several samples at once, but where the
   * host takes one after the other. */
  bool one = !f->input_count || wafer_function_on_host(f) ||
             inputs[0].shape.rank == plan->values[f->inputs[0]].type.shape.rank;
  WAFER_TRY(run_at(a, plan, arena, WAFER_FIDELITY_kernel, inputs, &measure, &kernel, NULL));
  if (updates) WAFER_TRY(check_step_begin(plan, arena, kernel.stats.samples, &step));
  WAFER_TRY(run_at(a, plan, arena, WAFER_FIDELITY_fabric, inputs, one ? &keep : NULL, &fabric,
                   updates ? &step : NULL));
  if (updates) WAFER_TRY(run_step(a, plan, arena, inputs, &step));
  if (one) {
    check_run again = {0};
    WAFER_TRY(run_at(a, plan, arena, WAFER_FIDELITY_kernel, inputs, &compare, &again, NULL));
  }
  cli_progress_done();
  if (a->run.fault_count) run_print_struck(&a->run, &fabric.stats);
  return check_report(a, plan, &kernel, &fabric, &values, updates ? &step : NULL);
}

int wafer_tool_check(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_plan *plan = NULL;
  if (!arena) return cli_no_memory();
  check_arguments a;
  bool help = false;
  wafer_status status = parse(argc, argv, arena, &a, &help);
  if (help) fputs(usage, stdout);
  if (status == WAFER_OK && !help) {
    if (a.run.quiet) cli_quiet();
    status = run_check_files("check", &a.run, arena);
    if (status == WAFER_OK) status = wafer_plan_open(cli_diag(), a.run.plan, &plan);
    const wafer_plan *whole = plan;
    wafer_ctx ctx = {.arena = arena, .diag = cli_diag()};
    if (status == WAFER_OK) status = wafer_plan_add_programs(&ctx, plan, true, &whole);
    if (status == WAFER_OK) status = check_plan(&a, whole, arena);
    wafer_plan_close(plan);
  }
  wafer_arena_destroy(arena);
  return status;
}
