/* wafer run: executes a plan on the emulator. */
#include "run/run.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "run/run_heat.h"
#include "run/run_trace.h"

static const char usage[] =
    "usage: wafer run PLAN.wplan [--input NAME=FILE.npy ...] [options]\n\n"
    "      --input NAME=FILE  an input tensor (.npy); one extra leading dim S makes a train of S "
    "samples;\n"
    "                         repeat for other inputs; without any: seeded random ones\n"
    "      --output DIR       write every output as DIR/<name>.npy\n"
    "      --expect DIR       compare outputs with DIR/<name>.npy or DIR/out_<name>.npy\n"
    "      --tol [NAME=]T     allow |a-b| up to T times the largest |b| (1e-4), for all outputs or "
    "for one\n"
    "      --rtol R --atol A  allow |a-b| up to A + R |b|, element by element, instead\n"
    "      --fidelity F       kernel (each kernel as a tensor computation), or fabric: every core "
    "and\n"
    "                         every wavelet, cycle by cycle (kernel)\n"
    "      --threads N        host threads (all); the result does not depend on it\n"
    "      --repeat N         run N times more and report the median time\n"
    "      --samples S        random inputs: a train of S samples\n"
    "      --seed N           random inputs: the seed (1)\n"
    "      --steps N          run N times, one after the other; with --state or a train of inputs: "
    "as\n"
    "                         many as there are samples\n"
    "      --state OUT=IN     an output becomes the input of the next step; one without elements "
    "leaves\n"
    "                         it as it was; repeat for others\n"
    "      --feed IN=argmax(OUT)  the input of the next step is the index of the output's largest "
    "element\n"
    "                         along its last dim, at its last place\n"
    "      --until IN=N       stop when what is fed is N\n"
    "      --then NAME=FILE   another value of an input from the second step on; repeat\n"
    "      --state-in FILE    first values of inputs, by their names (.safetensors)\n"
    "      --state-out FILE   write the inputs' values for the next step\n"
    "      --report FILE      times, cycles, differences as JSON\n"
    "  -q, --quiet\n"
    "  -h, --help\n\n"
    "of fabric fidelity:\n"
    "      --trace FILE       what ran when, as JSON for Perfetto and chrome://tracing\n"
    "      --trace-cores L    with what these cores did: X,Y;X,Y ...\n"
    "      --trace-bytes N    size of the trace, at most (50000000)\n"
    "      --heat FILE.svg    busy cores and links over the wafer\n"
    "      --fault F          run without faults, then with them, and compare the outputs; may be "
    "given again:\n"
    "                         drop@X,Y,CYCLE: a wavelet at a router is lost; flip@X,Y,CYCLE[,BIT]: "
    "a bit of it\n"
    "                         changes; flip@X,Y,ADDRESS,BIT,CYCLE: one of a core's memory; "
    "stuck@X,Y,CYCLE:\n"
    "                         the core stops\n\n"
    "examples:\n"
    "  wafer run face.wplan --input 'input:0=photo.npy' --output out\n"
    "  wafer run face.wplan --input 'input:0=photo.npy' --expect reference --tol 1e-4\n"
    "  wafer run face.wplan --samples 64 --repeat 20 --report run.json\n"
    "  wafer run vad.wplan --input input=chunks.npy --state stateN=state --state-out "
    "next.safetensors\n"
    "  wafer run decoder.wplan --steps 40 --state present.0.key=past.0.key --feed "
    "'ids=argmax(logits)' "
    "--until ids=2\n";

enum {
  INPUT = 256,
  OUTPUT,
  EXPECT,
  TOL,
  RTOL,
  ATOL,
  THREADS,
  REPEAT,
  SAMPLES,
  SEED,
  REPORT,
  STEPS,
  STATE,
  FEED,
  UNTIL,
  THEN,
  STATE_IN,
  STATE_OUT,
  FIDELITY,
  TRACE,
  TRACE_CORES,
  TRACE_BYTES,
  HEAT,
  FAULT
};

static const struct option long_options[] = {{"input", required_argument, NULL, INPUT},
                                             {"output", required_argument, NULL, OUTPUT},
                                             {"expect", required_argument, NULL, EXPECT},
                                             {"tol", required_argument, NULL, TOL},
                                             {"rtol", required_argument, NULL, RTOL},
                                             {"atol", required_argument, NULL, ATOL},
                                             {"trace", required_argument, NULL, TRACE},
                                             {"trace-cores", required_argument, NULL, TRACE_CORES},
                                             {"trace-bytes", required_argument, NULL, TRACE_BYTES},
                                             {"heat", required_argument, NULL, HEAT},
                                             {"fault", required_argument, NULL, FAULT},
                                             {"threads", required_argument, NULL, THREADS},
                                             {"repeat", required_argument, NULL, REPEAT},
                                             {"samples", required_argument, NULL, SAMPLES},
                                             {"seed", required_argument, NULL, SEED},
                                             {"fidelity", required_argument, NULL, FIDELITY},
                                             {"report", required_argument, NULL, REPORT},
                                             {"steps", required_argument, NULL, STEPS},
                                             {"state", required_argument, NULL, STATE},
                                             {"feed", required_argument, NULL, FEED},
                                             {"until", required_argument, NULL, UNTIL},
                                             {"then", required_argument, NULL, THEN},
                                             {"state-in", required_argument, NULL, STATE_IN},
                                             {"state-out", required_argument, NULL, STATE_OUT},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static bool parse_tol(run_arguments *a, wafer_arena *arena, const char *text) {
  const char *value;
  a->has_tol = true;
  if (!strchr(text, '=')) return cli_parse_f64("run", "--tol", text, &a->tol);
  return cli_parse_pair("run", "--tol", text, arena, &a->own_names[a->own_count], &value) &&
         cli_parse_f64("run", "--tol", value, &a->own_tols[a->own_count++]);
}

/* IN=argmax(OUT) */
static bool parse_feed(run_arguments *a, wafer_arena *arena, const char *text) {
  static const char head[] = "argmax(";
  const char *value;
  if (!cli_parse_pair("run", "--feed", text, arena, &a->feed_input, &value)) return false;
  size_t length = strlen(value), skip = sizeof head - 1;
  if (!strncmp(value, head, skip) && length > skip + 1 && value[length - 1] == ')') {
    a->feed_output = wafer_arena_strndup(arena, value + skip, length - skip - 1);
    return a->feed_output != NULL;
  }
  cli_usage("run", "--feed wants INPUT=argmax(OUTPUT), got '%s'", text);
  return false;
}

static bool parse_until(run_arguments *a, wafer_arena *arena, const char *text) {
  const char *value;
  uint64_t token;
  if (!cli_parse_pair("run", "--until", text, arena, &a->until_input, &value) ||
      !cli_parse_u64("run", "--until", value, 0, INT64_MAX, &token))
    return false;
  a->until = (int64_t)token;
  return true;
}

static bool parse_step_option(run_arguments *a, wafer_arena *arena, int option, const char *text) {
  switch (option) {
  case STEPS: return cli_parse_u64("run", "--steps", text, 1, 1000000, &a->steps);
  case STATE:
    a->state_count++;
    return cli_parse_pair("run", "--state", text, arena, &a->state_outputs[a->state_count - 1],
                          &a->state_inputs[a->state_count - 1]);
  case FEED: return parse_feed(a, arena, text);
  case UNTIL: return parse_until(a, arena, text);
  case THEN:
    a->then_count++;
    return cli_parse_pair("run", "--then", text, arena, &a->then_names[a->then_count - 1],
                          &a->then_paths[a->then_count - 1]);
  case STATE_IN: a->state_in = text; return true;
  case STATE_OUT: a->state_out = text; return true;
  default: return false;
  }
}

/* X,Y;X,Y ... */
static bool parse_cores(run_arguments *a, wafer_arena *arena, const char *text) {
  const char *at = text;
  a->trace_core_count = 0;
  a->trace_cores = WAFER_NEW(arena, wafer_core_at, strlen(text) / 3 + 1);
  for (bool more = a->trace_cores != NULL; more; at += *at == ';') {
    wafer_core_at core;
    int used = 0;
    if (sscanf(at, "%9u,%9u%n", &core.x, &core.y, &used) != 2 || *at < '0' || *at > '9') break;
    a->trace_cores[a->trace_core_count++] = core;
    at += used;
    if (!*at) return true;
    more = *at == ';';
  }
  if (!a->trace_cores) return cli_no_memory() == WAFER_OK;
  cli_usage("run", "--trace-cores wants X,Y;X,Y ..., got '%s'", text);
  return false;
}

static bool parse_fabric_option(run_arguments *a, wafer_arena *arena, int option,
                                const char *text) {
  switch (option) {
  case TRACE: a->trace = text; return true;
  case TRACE_CORES: return parse_cores(a, arena, text);
  case TRACE_BYTES:
    return cli_parse_u64("run", "--trace-bytes", text, RUN_TRACE_LEAST_BYTES, UINT32_MAX,
                         &a->trace_bytes);
  case HEAT: a->heat = text; return true;
  case FAULT: return run_parse_fault("run", a, text);
  default: return parse_step_option(a, arena, option, text);
  }
}

static bool parse_option(run_arguments *a, wafer_arena *arena, int option, const char *text) {
  switch (option) {
  case 'q': a->quiet = true; return true;
  case INPUT:
    a->input_count++;
    return cli_parse_pair("run", "--input", text, arena, &a->input_names[a->input_count - 1],
                          &a->input_paths[a->input_count - 1]);
  case OUTPUT: a->output = text; return true;
  case EXPECT: a->expect = text; return true;
  case FIDELITY: return cli_parse_fidelity("run", text, &a->fidelity);
  case REPORT: a->report = text; return true;
  case TOL: return parse_tol(a, arena, text);
  case RTOL: a->by_largest = false; return cli_parse_f64("run", "--rtol", text, &a->rtol);
  case ATOL: a->by_largest = false; return cli_parse_f64("run", "--atol", text, &a->atol);
  case THREADS: return cli_parse_u64("run", "--threads", text, 1, 1024, &a->threads);
  case REPEAT: return cli_parse_u64("run", "--repeat", text, 1, 1000000, &a->repeat);
  case SAMPLES: return cli_parse_u64("run", "--samples", text, 1, 1000000, &a->samples);
  case SEED: return cli_parse_u64("run", "--seed", text, 0, UINT64_MAX, &a->seed);
  default: return parse_fabric_option(a, arena, option, text);
  }
}

/* What is allowed is said of a comparison, and in one way. */
static wafer_status check_tols(const run_arguments *a) {
  if (!a->expect && (a->has_tol || !a->by_largest))
    return (wafer_status)cli_usage("run", "%s is of --expect DIR, which is missing",
                                   a->has_tol ? "--tol" : "--rtol, as --atol,");
  if (a->has_tol && !a->by_largest)
    return (wafer_status)cli_usage("run", "--rtol and --atol take the place of --tol: give one");
  return WAFER_OK;
}

static wafer_status check_fabric(const run_arguments *a) {
  const char *option = a->fault_count ? "--fault" : NULL;
  if (a->heat) option = "--heat";
  if (a->trace) option = "--trace";
  if (!a->trace && a->trace_cores)
    return (wafer_status)cli_usage("run", "--trace-cores is of --trace FILE");
  if (!a->trace && a->trace_bytes)
    return (wafer_status)cli_usage("run", "--trace-bytes is of --trace FILE");
  if (!option) return WAFER_OK;
  if (a->fidelity != WAFER_FIDELITY_fabric)
    return (wafer_status)cli_usage("run", "%s is of --fidelity fabric", option);
  if (a->repeat || run_has_steps(a))
    return (wafer_status)cli_usage("run", "%s is of one run, not of --repeat or of steps", option);
  return WAFER_OK;
}

static wafer_status parse(int argc, char **argv, wafer_arena *arena, run_arguments *a, bool *help) {
  *a = (run_arguments){.by_largest = true, .tol = 1e-4, .seed = 1};
  a->input_names = WAFER_NEW(arena, const char *, (size_t)argc);
  a->input_paths = WAFER_NEW(arena, const char *, (size_t)argc);
  a->own_names = WAFER_NEW(arena, const char *, (size_t)argc);
  a->own_tols = WAFER_NEW(arena, double, (size_t)argc);
  a->state_outputs = WAFER_NEW(arena, const char *, (size_t)argc);
  a->state_inputs = WAFER_NEW(arena, const char *, (size_t)argc);
  a->then_names = WAFER_NEW(arena, const char *, (size_t)argc);
  a->then_paths = WAFER_NEW(arena, const char *, (size_t)argc);
  a->faults = WAFER_NEW(arena, wafer_fault, (size_t)argc);
  if (!a->state_outputs || !a->state_inputs || !a->then_names || !a->then_paths || !a->faults)
    return cli_no_memory();
  if (!a->input_names || !a->input_paths || !a->own_names || !a->own_tols) return cli_no_memory();
  for (int c; (c = cli_option("run", argc, argv, "qh", long_options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    if (!parse_option(a, arena, c, optarg)) return WAFER_USAGE;
  }
  if (optind + 1 != argc)
    return (wafer_status)cli_usage("run", "one PLAN.wplan is wanted, got %d", argc - optind);
  if (a->samples && a->input_count)
    return (wafer_status)cli_usage("run", "--samples is for random inputs, not beside --input");
  if (a->repeat && run_has_steps(a))
    return (wafer_status)cli_usage("run", "--repeat does not go with steps that hand values on");
  if (a->until_input && (!a->feed_input || strcmp(a->until_input, a->feed_input)))
    return (wafer_status)cli_usage("run", "--until names an input that --feed does not feed");
  a->plan = argv[optind];
  WAFER_TRY(check_tols(a));
  return check_fabric(a);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The repeats beyond the first run, timed and sorted. */
static wafer_status repeat(const run_arguments *a, wafer_session *session, const wafer_function *f,
                           const wafer_view *inputs, wafer_view *outputs, double *ms) {
  for (uint64_t i = 0; i < a->repeat; i++) {
    double start = cli_seconds();
    WAFER_TRY(wafer_session_run(session, inputs, f->input_count, outputs, f->output_count));
    ms[i] = (cli_seconds() - start) * 1e3;
    wafer_progress(cli_diag(), "run", i + 1, a->repeat);
  }
  cli_progress_done();
  qsort(ms, a->repeat, sizeof *ms, by_value);
  return WAFER_OK;
}

static void print_stats(const run_arguments *a, const wafer_plan *plan, const wafer_run_stats *s,
                        const double *ms) {
  if (a->quiet) return;
  typedef unsigned long long ull;
  printf("%s on %s, %s, %llu sample%s: latency %llu cycles, interval %llu cycles (%.6g samples/s "
         "at %.2f GHz)\n",
         plan->model, plan->machine->name, wafer_mode_name(plan->mode), (ull)s->samples,
         s->samples == 1 ? "" : "s", (ull)s->latency_cycles, (ull)s->interval_cycles,
         (double)plan->machine->clock_hz / (double)(s->interval_cycles ? s->interval_cycles : 1),
         (double)plan->machine->clock_hz * 1e-9);
  if (a->repeat)
    printf("host: median %.3f ms of %llu runs (%.3f to %.3f), %s\n", run_median(ms, a->repeat),
           (ull)a->repeat, ms[0], ms[a->repeat - 1], s->instruction_set);
}

/* Everything after the first run: repeats, files, comparison, report. A difference is reported
 * last, when outputs and report are written. */
static wafer_status deliver(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                            wafer_session *session, run_totals *totals, const wafer_view *inputs,
                            wafer_view *outputs) {
  const wafer_function *f = &plan->functions[0];
  run_difference *differences = WAFER_NEW(arena, run_difference, f->output_count);
  double *ms = WAFER_NEW(arena, double, a->repeat);
  if (!differences || !ms) return cli_no_memory();
  WAFER_TRY(repeat(a, session, f, inputs, outputs, ms));
  if (!totals->steps) totals->stats = wafer_session_stats(session);
  const wafer_run_stats *stats = &totals->stats;
  print_stats(a, plan, stats, ms);
  if (a->output) WAFER_TRY(run_write_outputs(a, plan, outputs));
  wafer_status compared = WAFER_OK;
  if (a->expect) compared = run_compare(a, plan, arena, outputs, differences);
  if (compared != WAFER_OK && compared != WAFER_DIFFER) return compared;
  if (a->heat) WAFER_TRY(run_heat(cli_diag(), plan, stats, a->heat));
  if (a->report)
    WAFER_TRY(
        cli_write_json(a->report, run_report_json(a, plan, totals, ms, a->repeat, differences)));
  return compared;
}

static wafer_status run_session(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                                const wafer_watch *watch, const wafer_view *inputs,
                                wafer_view *outputs) {
  const wafer_function *f = &plan->functions[0];
  wafer_session *session;
  wafer_session_options options = {.fidelity = a->fidelity,
                                   .threads = (uint32_t)a->threads,
                                   .diag = cli_diag(),
                                   .watch = watch,
                                   .load = a->heat || a->report,
                                   .faults = a->faults,
                                   .fault_count = a->fault_count};
  wafer_view *sound = NULL;
  wafer_status damaged = WAFER_OK;
  if (a->fault_count) WAFER_TRY(run_sound(a, plan, arena, inputs, &sound));
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  run_totals totals = {0};
  wafer_status status =
      run_has_steps(a)
          ? run_steps(a, plan, arena, session, inputs, outputs, &totals)
          : wafer_session_run(session, inputs, f->input_count, outputs, f->output_count);
  if (status == WAFER_OK && sound) {
    wafer_run_stats stats = wafer_session_stats(session);
    damaged = run_faults(a, plan, &stats, sound, outputs);
  }
  if (status == WAFER_OK) status = deliver(a, plan, arena, session, &totals, inputs, outputs);
  if (status == WAFER_OK) status = damaged;
  wafer_session_destroy(session);
  return status;
}

static wafer_status run_plan(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena) {
  const wafer_function *f = &plan->functions[0];
  wafer_view *inputs = WAFER_NEW(arena, wafer_view, f->input_count);
  wafer_view *outputs = WAFER_NEW(arena, wafer_view, f->output_count);
  const uint64_t bytes = a->trace_bytes ? a->trace_bytes : RUN_TRACE_BYTES;
  run_trace *trace = NULL;
  if (!inputs || !outputs) return cli_no_memory();
  WAFER_TRY(run_check_tols(a, plan));
  WAFER_TRY(run_inputs(a, plan, arena, inputs));
  if (a->trace) WAFER_TRY(run_trace_open(cli_diag(), plan, a->trace, bytes, &trace));
  const wafer_watch watch = {.self = trace,
                             .span = run_trace_span,
                             .cores = a->trace_cores,
                             .core_count = a->trace_core_count};
  wafer_status status = run_session(a, plan, arena, trace ? &watch : NULL, inputs, outputs);
  /* What ran is worth seeing when the values are wrong, too. */
  wafer_status saved = run_trace_close(trace, status == WAFER_OK || status == WAFER_DIFFER);
  return status == WAFER_OK ? saved : status;
}

static wafer_status run(run_arguments *a, wafer_arena *arena) {
  const wafer_plan *plan;
  WAFER_TRY(run_check_files("run", a, arena));
  if (a->state_in) {
    a->state = wafer_weights_create(arena);
    if (!a->state) return cli_no_memory();
    WAFER_TRY(wafer_weights_read(cli_diag(), arena, a->state_in, a->state));
  }
  WAFER_TRY(wafer_plan_open(cli_diag(), a->plan, &plan));
  const wafer_plan *whole = plan;
  wafer_ctx ctx = {.machine = plan->machine, .arena = arena, .diag = cli_diag()};
  wafer_status status = WAFER_OK;
  if (a->fidelity == WAFER_FIDELITY_fabric)
    status = wafer_plan_add_programs(&ctx, plan, false, &whole);
  if (status == WAFER_OK) status = run_plan(a, whole, arena);
  wafer_plan_close(plan);
  return status;
}

int wafer_tool_run(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  run_arguments a;
  bool help = false;
  wafer_status status = parse(argc, argv, arena, &a, &help);
  if (help) fputs(usage, stdout);
  if (status == WAFER_OK && !help) {
    if (a.quiet) cli_quiet();
    status = run(&a, arena);
  }
  wafer_arena_destroy(arena);
  return status;
}
