/* wafer scale: a training step on 1 to many systems, predicted. */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <libxml/xmlwriter.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "training.h"
#include "wafer/file.h"
#include "wafer/scale.h"

typedef unsigned long long ull;

#define MOST_ROWS 64

static const char usage[] =
    "usage: wafer scale MODEL.onnx --loss LOSS [options]\n\n"
    "Compiles the training step of one micro-batch, and predicts a step on 1 to many systems.\n\n"
    "      --systems A..B     systems: A, 2 A, 4 A ... and B (1..16)\n"
    "      --batch N          samples of a step on each system: weak scaling (1)\n"
    "      --global-batch N   samples of a step over all systems: strong scaling\n"
    "      --micro-batch N    samples at once on a wafer (the most that fit and divide the batch)\n"
    "      --loss LOSS[:OUTPUT], --recompute WHAT, --ignore-index N, --class-axis N, --freeze P\n"
    "                         as `wafer compile --train` has them\n"
    "      --machine NAME|FILE  the wafer (wse2)\n"
    "      --dtype f32|f16    how cores store floats (f16)\n"
    "      --state-bytes N    of MemoryX for each parameter: weight and optimizer state (12: "
    "Adam)\n"
    "      --weight-servers N of MemoryX (1)\n"
    "      --density D        of the weights: non-zeros alone are streamed and multiplied (1)\n"
    "      --tokens T         days until so many tokens are trained on (2e10)\n"
    "      --sequence N       tokens of a sample (dim 1 of the first input)\n"
    "      --gpu-gb N         memory of a processor of the cluster beside it (80)\n"
    "      --csv FILE, --svg FILE, --json FILE\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer zoo gpt2 -o gpt2.onnx\n"
    "  wafer scale gpt2.onnx --loss cross-entropy --class-axis -1 --systems 1..192 --csv "
    "gpt2.csv\n";

typedef struct arguments {
  const char *model, *machine, *csv, *svg, *json;
  uint64_t first, last, batch, global, micro_batch, state_bytes, servers, sequence;
  double density, tokens, gpu_gb;
  wafer_dtype dtype;
  training_flags training;
} arguments;

enum {
  SYSTEMS = 256,
  BATCH,
  GLOBAL,
  MACHINE,
  DTYPE,
  STATE,
  SERVERS,
  DENSITY,
  TOKENS,
  SEQUENCE,
  GPU,
  CSV,
  SVG,
  JSON
};

static const struct option long_options[] = {{"systems", required_argument, NULL, SYSTEMS},
                                             {"batch", required_argument, NULL, BATCH},
                                             {"global-batch", required_argument, NULL, GLOBAL},
                                             {"machine", required_argument, NULL, MACHINE},
                                             {"dtype", required_argument, NULL, DTYPE},
                                             {"state-bytes", required_argument, NULL, STATE},
                                             {"weight-servers", required_argument, NULL, SERVERS},
                                             {"density", required_argument, NULL, DENSITY},
                                             {"tokens", required_argument, NULL, TOKENS},
                                             {"sequence", required_argument, NULL, SEQUENCE},
                                             {"gpu-gb", required_argument, NULL, GPU},
                                             {"csv", required_argument, NULL, CSV},
                                             {"svg", required_argument, NULL, SVG},
                                             {"json", required_argument, NULL, JSON},
                                             {"help", no_argument, NULL, 'h'},
                                             TRAINING_LONG_OPTIONS,
                                             {0}};

/* ---- Options ---- */

static bool parse_systems(arguments *a, const char *text) {
  char rest;
  ull first, last;
  int got = sscanf(text, "%llu..%llu%c", &first, &last, &rest);
  if (got == 1 && !strchr(text, '.')) last = first;
  if ((got == 2 || (got == 1 && !strchr(text, '.'))) && first >= 1 && first <= last &&
      last <= 65536)
    return a->first = first, a->last = last, true;
  return cli_usage("scale", "--systems is '%s'; it is N or A..B, as in 1..192", text), false;
}

static bool parse_real(const char *option, const char *text, double most, double *out) {
  if (!cli_parse_f64("scale", option, text, out)) return false;
  if (*out > 0 && *out <= most) return true;
  return cli_usage("scale", "%s wants more than 0 and at most %g, got '%s'", option, most, text),
         false;
}

static bool take(arguments *a, wafer_arena *arena, int option, const char *text) {
  switch (option) {
  case SYSTEMS: return parse_systems(a, text);
  case BATCH: return cli_parse_u64("scale", "--batch", text, 1, 1u << 24, &a->batch);
  case GLOBAL: return cli_parse_u64("scale", "--global-batch", text, 1, 1u << 30, &a->global);
  case STATE: return cli_parse_u64("scale", "--state-bytes", text, 2, 1024, &a->state_bytes);
  case SERVERS: return cli_parse_u64("scale", "--weight-servers", text, 1, 65536, &a->servers);
  case SEQUENCE: return cli_parse_u64("scale", "--sequence", text, 1, 1u << 24, &a->sequence);
  case DENSITY: return parse_real("--density", text, 1, &a->density);
  case TOKENS: return parse_real("--tokens", text, 1e18, &a->tokens);
  case GPU: return parse_real("--gpu-gb", text, 1e6, &a->gpu_gb);
  case MACHINE: return a->machine = text, true;
  case CSV: return a->csv = text, true;
  case SVG: return a->svg = text, true;
  case JSON: return a->json = text, true;
  case DTYPE:
    a->dtype = wafer_dtype_by_name(text);
    if (a->dtype == WAFER_DTYPE_f32 || a->dtype == WAFER_DTYPE_f16) return true;
    return cli_usage("scale", "--dtype wants f32 or f16, got '%s'", text), false;
  default:
    if (option > TRAINING_LOSS - 1 && option < TRAINING_LAST && option != TRAINING_EVALUATE)
      return training_flag("scale", arena, option, text, &a->training) == WAFER_OK;
    return cli_usage("scale", "that option is unknown or lacks its value"), false;
  }
}

/* ---- The plan ---- */

static wafer_status compile(const arguments *a, const wafer_diag *diag, wafer_arena *arena,
                            const wafer_machine *machine, uint64_t micro_batch,
                            const wafer_plan **out) {
  wafer_training_options training = a->training.options;
  training.micro_batch = (uint32_t)micro_batch;
  wafer_options options = {.mode = WAFER_MODE_streaming,
                           .storage = a->dtype,
                           .programs = WAFER_PROGRAMS_never,
                           .training = &training};
  wafer_options *kept = wafer_arena_copy(arena, &options, sizeof options);
  wafer_training_options *inner = wafer_arena_copy(arena, &training, sizeof training);
  if (!kept || !inner) return cli_no_memory();
  kept->training = inner;
  wafer_ctx ctx = {.machine = machine, .arena = arena, .diag = diag, .options = kept};
  wafer_ir *ir;
  WAFER_TRY(wafer_import(&ctx, a->model, &ir));
  wafer_status status = wafer_transform(&ctx, ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&ctx, ir, out);
  wafer_ir_destroy(ir);
  return status;
}

/* From 1 upwards, doubling, over what divides the batch: the largest that fits, and the next one,
 * which does not (0: the whole batch fits). */
static wafer_status choose(const arguments *a, wafer_arena *arena, const wafer_machine *machine,
                           uint64_t batch, const wafer_plan **out, uint64_t *next) {
  static const wafer_diag silent = {0};
  *next = 0;
  uint64_t given = a->training.options.micro_batch;
  if (given) return compile(a, cli_diag(), arena, machine, given, out);
  WAFER_TRY(compile(a, cli_diag(), arena, machine, 1, out));
  for (uint64_t size = 2; size <= batch && !*next; size *= 2) {
    const wafer_plan *larger;
    if (batch % size) continue;
    wafer_status status = compile(a, &silent, arena, machine, size, &larger);
    if (status != WAFER_OK && status != WAFER_NO_FIT) return status;
    if (status == WAFER_OK)
      *out = larger;
    else
      *next = size;
  }
  return WAFER_OK;
}

/* ---- What is printed ---- */

typedef struct row {
  uint64_t systems, samples;
  double efficiency;
  wafer_scale_step step;
} row;

typedef struct table {
  const arguments *a;
  const wafer_plan *plan;
  uint64_t next, sequence;
  uint32_t count;
  row rows[MOST_ROWS];
} table;

static double rate(const row *r) {
  return (double)r->samples / r->step.seconds;
}

static void add_row(table *t, uint64_t systems, uint64_t cycles) {
  const arguments *a = t->a;
  uint64_t micro = t->plan->training->micro_batch;
  uint64_t samples = a->global ? a->global : a->batch * systems;
  row *r = &t->rows[t->count++];
  *r = (row){.systems = systems, .samples = samples};
  wafer_scale_options options = {.systems = systems,
                                 .micro_batches = (samples + micro - 1) / micro,
                                 .servers = a->servers,
                                 .state_bytes = a->state_bytes};
  wafer_scale_of(t->plan, &options, cycles, &r->step);
  wafer_scale_step one;
  options.systems = 1;
  options.micro_batches = ((a->global ? a->global : a->batch) + micro - 1) / micro;
  wafer_scale_of(t->plan, &options, cycles, &one);
  double alone = (double)(a->global ? a->global : a->batch) / one.seconds;
  r->efficiency = rate(r) / (alone * (double)systems);
}

static wafer_status fill(table *t) {
  uint64_t cycles;
  WAFER_TRY(wafer_scale_micro_batch(cli_diag(), t->plan, t->a->density, &cycles));
  for (uint64_t n = t->a->first; n < t->a->last && t->count + 1 < MOST_ROWS; n *= 2)
    add_row(t, n, cycles);
  add_row(t, t->a->last, cycles);
  return WAFER_OK;
}

static void print_rows(const table *t) {
  printf("%8s %8s %12s %12s %12s %12s %12s %12s %10s %12s\n", "systems", "samples", "rounds",
         "step ms", "sum us", "update ms", "samples/s", "tokens/s", "efficiency", "days");
  for (uint32_t i = 0; i < t->count; i++) {
    const row *r = &t->rows[i];
    double hz = (double)t->plan->machine->clock_hz, tokens = rate(r) * (double)t->sequence;
    printf("%8llu %8llu %12llu %12.3f %12.3f %12.3f %12.2f %12.0f %10.5f %12.2f\n", (ull)r->systems,
           (ull)r->samples, (ull)r->step.rounds, 1e3 * r->step.seconds,
           1e6 * (double)r->step.sum / hz, 1e3 * (double)r->step.update / hz, rate(r), tokens,
           r->efficiency, t->a->tokens / tokens / 86400);
  }
}

static void print_loss(const table *t) {
  const row *first = &t->rows[0], *last = &t->rows[t->count - 1];
  if (t->count < 2) return;
  double hz = (double)t->plan->machine->clock_hz;
  printf("efficiency at %llu systems %.5f: the tree is %llu deep, %.3f us more for each step of "
         "%.3f ms%s\n",
         (ull)last->systems, last->efficiency, (ull)last->step.depth,
         1e6 * (double)(last->step.sum - first->step.sum) / hz, 1e3 * last->step.seconds,
         t->a->global ? "; fewer micro-batches per system leave sum and update to be paid" : "");
}

static void print_wafer(const table *t) {
  wafer_scale_traffic e = wafer_scale_edge(t->plan);
  wafer_scale_core c = wafer_scale_memory(t->plan);
  uint64_t micro = t->plan->training->micro_batch, rounds = t->rows[0].step.rounds;
  printf("model %s, %llu trained parameters, machine %s, %s\n", t->plan->model,
         (ull)wafer_scale_parameters(t->plan), t->plan->machine->name,
         wafer_dtype_name(t->plan->storage));
  printf("loop order: %s; micro-batch %llu",
         rounds == 1 ? "layers outside, weights come once per pass"
                     : "micro-batches outside, weights come with each",
         (ull)micro);
  if (t->next) printf(", %llu does not fit", (ull)t->next);
  printf("\nedge of a wafer, a step: weights in %.3f GB, inputs in %.6f GB, gradients out %.3f GB, "
         "outputs %.6f GB\n",
         1e-9 * (double)(rounds * e.weights), 1e-9 * (double)(rounds * e.inputs),
         1e-9 * (double)(rounds * e.gradients), 1e-9 * (double)(rounds * e.outputs));
  printf("fullest core, phase '%s': %llu B: code %llu, weights %llu, inputs %llu, outputs %llu, "
         "scratch %llu, held %llu\n\n",
         c.phase, (ull)c.all, (ull)c.code, (ull)c.weights, (ull)c.inputs, (ull)c.outputs,
         (ull)c.scratch, (ull)c.held);
}

/* Activations that wait for the backward pass: the most bytes held, over all cores. */
static double activations(const wafer_plan *plan) {
  double cores = (double)wafer_rect_area(plan->machine->usable);
  return (double)wafer_scale_held(plan) * cores /
         (double)wafer_stored_bytes(WAFER_DTYPE_f32, plan->storage) /
         (double)plan->training->micro_batch;
}

static void print_cluster(const table *t) {
  double p = (double)wafer_scale_parameters(t->plan), lt = activations(t->plan);
  printf("\na cluster of processors of %.0f GB for the same batch: memory GB / moved GB per step, "
         "! does not fit\n",
         t->a->gpu_gb);
  printf("%10s %22s %22s %22s  %s\n", "processors", "data", "pipeline", "tensor", "forced");
  for (uint64_t n = 1; n <= 1024; n *= 4) {
    wafer_scale_gpu g = wafer_scale_cluster(p, lt, (double)t->plan->phase_count,
                                            (double)t->rows[0].samples, n, 1e9 * t->a->gpu_gb);
    printf("%10llu %10.2f%c %10.2f %10.2f%c %10.2f %10.2f%c %10.2f  %s\n", (ull)n,
           1e-9 * g.data_memory, g.data_fits ? ' ' : '!', 1e-9 * g.data_bytes,
           1e-9 * g.pipeline_memory, g.pipeline_fits ? ' ' : '!', 1e-9 * g.pipeline_bytes,
           1e-9 * g.tensor_memory, g.tensor_fits ? ' ' : '!', 1e-9 * g.tensor_bytes,
           g.data_fits       ? "data alone does"
           : g.tensor_fits   ? "tensor"
           : g.pipeline_fits ? "pipeline"
                             : "all three");
  }
}

/* ---- Files ---- */

static wafer_status write_csv(const table *t) {
  size_t room = 256 * (t->count + 1), used = 0;
  char *text = malloc(room);
  if (!text) return cli_no_memory();
  used += (size_t)snprintf(text, room,
                           "systems,samples,rounds,micro_batch_cycles,sum_cycles,update_cycles,"
                           "step_cycles,step_s,samples_per_s,efficiency\n");
  for (uint32_t i = 0; i < t->count; i++) {
    const row *r = &t->rows[i];
    used += (size_t)snprintf(text + used, room - used,
                             "%llu,%llu,%llu,%llu,%llu,%llu,%llu,%.9g,%.9g,%.9g\n", (ull)r->systems,
                             (ull)r->samples, (ull)r->step.rounds, (ull)r->step.micro_batch,
                             (ull)r->step.sum, (ull)r->step.update, (ull)r->step.step,
                             r->step.seconds, rate(r), r->efficiency);
  }
  wafer_status status = wafer_file_save(cli_diag(), t->a->csv, text, used);
  free(text);
  return status;
}

static void put(cJSON *json, const char *key, uint64_t number) {
  cJSON_AddNumberToObject(json, key, (double)number);
}

/* What one micro-batch moves over a wafer's edge, and what lies on the fullest core. */
static void put_wafer(cJSON *json, const table *t) {
  wafer_scale_traffic e = wafer_scale_edge(t->plan);
  wafer_scale_core c = wafer_scale_memory(t->plan);
  cJSON *edge = cJSON_AddObjectToObject(json, "edge_of_a_micro_batch");
  put(edge, "weights_bytes", e.weights), put(edge, "inputs_bytes", e.inputs);
  put(edge, "gradients_bytes", e.gradients), put(edge, "outputs_bytes", e.outputs);
  cJSON *core = cJSON_AddObjectToObject(json, "fullest_core");
  cJSON_AddStringToObject(core, "phase", c.phase);
  put(core, "bytes", c.all), put(core, "code_bytes", c.code);
  put(core, "weights_bytes", c.weights), put(core, "inputs_bytes", c.inputs);
  put(core, "outputs_bytes", c.outputs), put(core, "scratch_bytes", c.scratch);
  put(core, "held_bytes", c.held);
}

static wafer_status write_json(const table *t) {
  cJSON *json = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(json, "rows");
  cJSON_AddNumberToObject(json, "version", 1);
  cJSON_AddStringToObject(json, "model", t->plan->model);
  cJSON_AddStringToObject(json, "machine", t->plan->machine->name);
  cJSON_AddNumberToObject(json, "parameters", (double)wafer_scale_parameters(t->plan));
  cJSON_AddNumberToObject(json, "micro_batch", t->plan->training->micro_batch);
  put_wafer(json, t);
  for (uint32_t i = 0; i < t->count; i++) {
    const row *r = &t->rows[i];
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "systems", (double)r->systems);
    cJSON_AddNumberToObject(one, "samples", (double)r->samples);
    cJSON_AddNumberToObject(one, "micro_batch_cycles", (double)r->step.micro_batch);
    cJSON_AddNumberToObject(one, "sum_cycles", (double)r->step.sum);
    cJSON_AddNumberToObject(one, "update_cycles", (double)r->step.update);
    cJSON_AddNumberToObject(one, "step_cycles", (double)r->step.step);
    cJSON_AddNumberToObject(one, "samples_per_s", rate(r));
    cJSON_AddNumberToObject(one, "efficiency", r->efficiency);
    cJSON_AddItemToArray(rows, one);
  }
  char *text = cJSON_Print(json);
  cJSON_Delete(json);
  return cli_write_json(t->a->json, text);
}

enum { LEFT = 70, TOP = 30, WIDE = 560, HIGH = 320 };

static void label(xmlTextWriterPtr w, double x, double y, const char *anchor, const char *text) {
  xmlTextWriterStartElement(w, BAD_CAST "text");
  xmlTextWriterWriteFormatAttribute(w, BAD_CAST "x", "%.1f", x);
  xmlTextWriterWriteFormatAttribute(w, BAD_CAST "y", "%.1f", y);
  xmlTextWriterWriteAttribute(w, BAD_CAST "text-anchor", BAD_CAST anchor);
  xmlTextWriterWriteString(w, BAD_CAST text);
  xmlTextWriterEndElement(w);
}

static void line(xmlTextWriterPtr w, const char *style, const table *t, bool ideal) {
  const row *last = &t->rows[t->count - 1];
  double most = rate(&t->rows[0]) * (double)last->systems / (double)t->rows[0].systems;
  xmlTextWriterStartElement(w, BAD_CAST "polyline");
  xmlTextWriterWriteAttribute(w, BAD_CAST "style", BAD_CAST style);
  xmlTextWriterStartAttribute(w, BAD_CAST "points");
  for (uint32_t i = 0; i < t->count; i++) {
    const row *r = &t->rows[i];
    double share = (double)r->systems / (double)last->systems, y = ideal ? share : rate(r) / most;
    xmlTextWriterWriteFormatString(w, "%.1f,%.1f ", LEFT + WIDE * share, TOP + HIGH * (1 - y));
  }
  xmlTextWriterEndAttribute(w);
  xmlTextWriterEndElement(w);
}

static wafer_status write_svg(const table *t) {
  char text[128];
  xmlBufferPtr buffer = xmlBufferCreate();
  xmlTextWriterPtr w = buffer ? xmlNewTextWriterMemory(buffer, 0) : NULL;
  if (!w) return xmlBufferFree(buffer), cli_no_memory();
  const row *last = &t->rows[t->count - 1];
  xmlTextWriterStartDocument(w, NULL, "UTF-8", NULL);
  xmlTextWriterStartElement(w, BAD_CAST "svg");
  xmlTextWriterWriteAttribute(w, BAD_CAST "xmlns", BAD_CAST "http://www.w3.org/2000/svg");
  xmlTextWriterWriteAttribute(w, BAD_CAST "viewBox", BAD_CAST "0 0 680 400");
  xmlTextWriterWriteAttribute(w, BAD_CAST "font-family", BAD_CAST "sans-serif");
  xmlTextWriterWriteAttribute(w, BAD_CAST "font-size", BAD_CAST "12");
  line(w, "fill:none;stroke:#bbb;stroke-dasharray:4", t, true);
  line(w, "fill:none;stroke:#06c;stroke-width:2", t, false);
  snprintf(text, sizeof text, "%s on %s: samples/s, dashed: linear", t->plan->model,
           t->plan->machine->name);
  label(w, LEFT, 18, "start", text);
  snprintf(text, sizeof text, "%.4g", rate(last));
  label(w, LEFT - 6, TOP + 12, "end", text);
  label(w, LEFT - 6, TOP + HIGH, "end", "0");
  snprintf(text, sizeof text, "%llu systems, efficiency %.4f", (ull)last->systems,
           last->efficiency);
  label(w, LEFT + WIDE, TOP + HIGH + 24, "end", text);
  xmlTextWriterEndDocument(w);
  xmlFreeTextWriter(w);
  wafer_status status = wafer_file_save(cli_diag(), t->a->svg, xmlBufferContent(buffer),
                                        (size_t)xmlBufferLength(buffer));
  xmlBufferFree(buffer);
  return status;
}

/* ---- All together ---- */

static uint64_t tokens_of(const arguments *a, const wafer_plan *plan) {
  for (uint32_t v = 0; v < plan->value_count && !a->sequence; v++)
    if (plan->values[v].owner == WAFER_OWNER_input && v != plan->training->seed)
      return plan->values[v].type.shape.rank == 2 ? (uint64_t)plan->values[v].type.shape.dims[1]
                                                  : 1;
  return a->sequence ? a->sequence : 1;
}

static wafer_status run(const arguments *a, wafer_arena *arena) {
  const wafer_machine *machine;
  table t = {.a = a};
  WAFER_TRY(wafer_machine_open(cli_diag(), arena, a->machine, &machine));
  uint64_t batch = a->global ? (a->global + a->last - 1) / a->last : a->batch;
  WAFER_TRY(choose(a, arena, machine, batch, &t.plan, &t.next));
  t.sequence = tokens_of(a, t.plan);
  WAFER_TRY(fill(&t));
  cli_progress_done();
  print_wafer(&t);
  print_rows(&t);
  print_loss(&t);
  print_cluster(&t);
  if (a->csv) WAFER_TRY(write_csv(&t));
  if (a->svg) WAFER_TRY(write_svg(&t));
  return a->json ? write_json(&t) : WAFER_OK;
}

int wafer_tool_scale(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  arguments a = {.machine = "wse2",
                 .first = 1,
                 .last = 16,
                 .batch = 1,
                 .state_bytes = 12,
                 .servers = 1,
                 .density = 1,
                 .tokens = 2e10,
                 .gpu_gb = 80,
                 .dtype = WAFER_DTYPE_f16};
  int status = WAFER_OK;
  bool help = false;
  a.training.frozen = WAFER_NEW(arena, const char *, (size_t)argc);
  opterr = 0;
  for (int c; status == WAFER_OK && (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
    if (c == 'h')
      help = true;
    else if (!take(&a, arena, c, optarg))
      status = WAFER_USAGE;
  }
  if (help)
    fputs(usage, stdout);
  else if (status == WAFER_OK && optind + 1 != argc)
    status = cli_usage("scale", "one MODEL.onnx is wanted, got %d", argc - optind);
  else if (status == WAFER_OK && !a.training.has_loss)
    status = cli_usage("scale", "--loss is missing");
  else if (status == WAFER_OK) {
    a.model = argv[optind];
    status = run(&a, arena);
  }
  wafer_arena_destroy(arena);
  return status;
}
