/* wafer scale: a training step on 1 to many systems, predicted. */
#include "scale/scale.h"

#include <getopt.h>
#include <string.h>

typedef unsigned long long ull;

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
    "      --clip-norm X, --loss-scale S\n"
    "                         as `wafer train` has them: with a limit, or dynamic (which f16 is),\n"
    "                         updates wait for all gradients\n"
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

enum {
  SYSTEMS = 256,
  BATCH,
  GLOBAL,
  MACHINE,
  DTYPE,
  STATE,
  SERVERS,
  DENSITY,
  CLIP,
  SCALE,
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
                                             {"clip-norm", required_argument, NULL, CLIP},
                                             {"loss-scale", required_argument, NULL, SCALE},
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

static bool parse_systems(scale_arguments *a, const char *text) {
  ull first, last;
  int end = 0;
  if (sscanf(text, "%llu%n", &first, &end) == 1 && !text[end])
    last = first;
  else if (sscanf(text, "%llu..%llu%n", &first, &last, &end) != 2 || text[end])
    first = last = 0;
  if (first >= 1 && first <= last && last <= 65536) return a->first = first, a->last = last, true;
  return cli_usage("scale", "--systems is '%s'; it is N or A..B, as in 1..192", text), false;
}

static bool parse_real(const char *option, const char *text, double most, double *out) {
  if (!cli_parse_f64("scale", option, text, out)) return false;
  if (*out > 0 && *out <= most) return true;
  return cli_usage("scale", "%s wants more than 0 and at most %g, got '%s'", option, most, text),
         false;
}

static bool parse_scale(scale_arguments *a, const char *text) {
  double scale;
  a->scale_set = true;
  a->dynamic = !strcmp(text, "dynamic");
  return a->dynamic || parse_real("--loss-scale", text, 1e30, &scale);
}

static bool take(scale_arguments *a, wafer_arena *arena, int option, const char *text) {
  uint32_t choice;
  switch (option) {
  case SYSTEMS: return parse_systems(a, text);
  case BATCH: return cli_parse_u64("scale", "--batch", text, 1, 1u << 24, &a->batch);
  case GLOBAL: return cli_parse_u64("scale", "--global-batch", text, 1, 1u << 30, &a->global);
  case STATE: return cli_parse_u64("scale", "--state-bytes", text, 2, 1024, &a->state_bytes);
  case SERVERS: return cli_parse_u64("scale", "--weight-servers", text, 1, 65536, &a->servers);
  case SEQUENCE: return cli_parse_u64("scale", "--sequence", text, 1, 1u << 24, &a->sequence);
  case DENSITY: return parse_real("--density", text, 1, &a->density);
  case CLIP: return parse_real("--clip-norm", text, 1e30, &a->clip_norm);
  case SCALE: return parse_scale(a, text);
  case TOKENS: return parse_real("--tokens", text, 1e18, &a->tokens);
  case GPU: return parse_real("--gpu-gb", text, 1e6, &a->gpu_gb);
  case MACHINE: return a->machine = text, true;
  case CSV: return a->csv = text, true;
  case SVG: return a->svg = text, true;
  case JSON: return a->json = text, true;
  case DTYPE:
    if (!cli_parse_choice("scale", "--dtype", text, "f32 f16", &choice)) return false;
    a->dtype = choice ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32;
    return true;
  case TRAINING_EVALUATE:
    return cli_usage("scale", "--evaluate: a step that trains is what is scaled"), false;
  case TRAINING_OPTIMIZER:
    return cli_usage("scale",
                     "--optimizer: --state-bytes says how much MemoryX keeps of a parameter"),
           false;
  default:
    return option >= TRAINING_LOSS && option < TRAINING_LAST &&
           training_flag("scale", arena, option, text, &a->training) == WAFER_OK;
  }
}

/* ---- The plan ---- */

static wafer_status compile(const scale_arguments *a, const wafer_diag *diag, wafer_arena *arena,
                            const wafer_machine *machine, uint64_t micro_batch,
                            wafer_recompute recompute, const wafer_plan **out) {
  wafer_training_options training = a->training.options;
  training.micro_batch = (uint32_t)micro_batch;
  training.recompute = recompute;
  wafer_options options = {.mode = WAFER_MODE_streaming,
                           .storage = a->dtype,
                           .programs = WAFER_PROGRAMS_never,
                           .no_mlir = true,
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

/* The same, and not a word where it does not fit: *out is then as before. */
static wafer_status try_size(const scale_arguments *a, wafer_arena *arena,
                             const wafer_machine *machine, uint64_t size, wafer_recompute recompute,
                             const wafer_plan **out, bool *fits) {
  static const wafer_diag silent = {0};
  const wafer_plan *plan;
  wafer_status status = compile(a, &silent, arena, machine, size, recompute, &plan);
  *fits = status == WAFER_OK;
  if (*fits) *out = plan;
  if (*fits || status == WAFER_NO_FIT) return WAFER_OK;
  return compile(a, cli_diag(), arena, machine, size, recompute, &plan); /* says what is wrong */
}

/* Of the powers of two that divide the batch the largest that fits, by bisection, and the next one,
 * which does not (0: the whole batch fits). What is larger than a size that fits only with
 * activations computed again does not fit without that either. */
static wafer_status search(const scale_arguments *a, wafer_arena *arena,
                           const wafer_machine *machine, uint64_t batch, const wafer_plan **out,
                           uint64_t *next) {
  wafer_recompute tried = a->training.options.recompute;
  int most = __builtin_ctzll(batch), fitting = -1, refused = most + 1; /* exponents */
  while (refused - fitting > 1) {
    bool fits = true; /* one sample does, or says why not */
    int at = (fitting + refused) / 2;
    if (at > 0)
      WAFER_TRY(try_size(a, arena, machine, (uint64_t)1 << at, tried, out, &fits));
    else
      WAFER_TRY(compile(a, cli_diag(), arena, machine, 1, tried, out));
    if (fits && wafer_scale_recomputes(*out)) tried = WAFER_RECOMPUTE_all;
    *(fits ? &fitting : &refused) = at;
  }
  *next = refused <= most ? (uint64_t)1 << refused : 0;
  return WAFER_OK;
}

/* Samples that a system has at once at most: of a global batch a power of two that divides it. */
static uint64_t batch_of(const scale_arguments *a) {
  uint64_t share = a->global ? (a->global + a->last - 1) / a->last : 0, size = 1;
  if (!a->global) return a->batch;
  while (size * 2 <= share && a->global % (size * 2) == 0) size *= 2;
  return size;
}

static wafer_status choose(const scale_arguments *a, wafer_arena *arena,
                           const wafer_machine *machine, uint64_t batch, const wafer_plan **out,
                           uint64_t *next) {
  const wafer_training_options *t = &a->training.options;
  *next = 0;
  if (!t->micro_batch) return search(a, arena, machine, batch, out, next);
  return compile(a, cli_diag(), arena, machine, t->micro_batch, t->recompute, out);
}

static void add_row(scale_table *t, uint64_t systems) {
  const scale_arguments *a = t->a;
  const wafer_machine *m = t->plan->machine;
  uint64_t micro = t->plan->training->micro_batch;
  uint64_t alone = a->global ? a->global : a->batch;
  uint64_t samples = a->global ? a->global : a->batch * systems;
  scale_row *r = &t->rows[t->count++];
  *r = (scale_row){.systems = systems, .samples = samples};
  wafer_scale_options options = {.systems = systems,
                                 .micro_batches = (samples + micro - 1) / micro,
                                 .servers = a->servers,
                                 .state_bytes = a->state_bytes,
                                 .waits = scale_waits(a)};
  wafer_scale_of(m, &options, &t->pass, &r->step);
  wafer_scale_step one;
  options.systems = 1;
  options.micro_batches = (alone + micro - 1) / micro;
  wafer_scale_of(m, &options, &t->pass, &one);
  r->efficiency = scale_rate(r) / ((double)alone / one.seconds * (double)systems);
  r->cluster = scale_cluster(t, systems, samples);
}

static wafer_status fill(scale_table *t, wafer_arena *arena) {
  const scale_arguments *a = t->a;
  WAFER_TRY(wafer_scale_micro_batch(cli_diag(), arena, t->plan, a->density, &t->pass));
  WAFER_TRY(wafer_scale_model_of(cli_diag(), t->plan, &t->model));
  for (uint64_t n = a->first; n < a->last && t->count + 1 < SCALE_ROWS; n *= 2) add_row(t, n);
  add_row(t, a->last);
  return WAFER_OK;
}

/* ---- All together ---- */

static uint64_t tokens_of(const scale_arguments *a, const wafer_plan *plan) {
  for (uint32_t v = 0; v < plan->value_count && !a->sequence; v++)
    if (plan->values[v].owner == WAFER_OWNER_input && v != plan->training->seed)
      return plan->values[v].type.shape.rank == 2 ? (uint64_t)plan->values[v].type.shape.dims[1]
                                                  : 1;
  return a->sequence ? a->sequence : 1;
}

static wafer_status run(const scale_arguments *a, wafer_arena *arena) {
  const wafer_machine *machine;
  scale_table t = {.a = a};
  const char *const files[] = {a->csv, a->svg, a->json, a->model, a->machine};
  enum { WRITTEN = 3 };
  WAFER_TRY(cli_check_apart("scale", files, WRITTEN, WAFER_COUNT(files)));
  for (size_t i = 0; i < WRITTEN; i++) WAFER_TRY(cli_check_output(files[i]));
  WAFER_TRY(wafer_machine_open(cli_diag(), arena, a->machine, &machine));
  WAFER_TRY(choose(a, arena, machine, batch_of(a), &t.plan, &t.next));
  t.sequence = tokens_of(a, t.plan);
  WAFER_TRY(fill(&t, arena));
  cli_progress_done();
  training_warn_unread(&a->training, t.plan);
  scale_print(&t);
  if (a->csv) WAFER_TRY(scale_write_csv(&t));
  if (a->svg) WAFER_TRY(scale_write_svg(&t));
  return a->json ? scale_write_json(&t) : WAFER_OK;
}

/* What options have to do with each other. */
static int settle(scale_arguments *a) {
  uint64_t micro = a->training.options.micro_batch;
  if (!a->training.has_loss) return cli_usage("scale", "--loss is missing");
  if (a->batch && a->global)
    return cli_usage("scale", "--batch is of each system, --global-batch of all: give one of them");
  if (!a->batch) a->batch = 1;
  uint64_t samples = a->global ? a->global : a->batch;
  if (micro && samples % micro)
    return cli_usage("scale", "%s %llu is no multiple of --micro-batch %llu",
                     a->global ? "--global-batch" : "--batch", (ull)samples, (ull)micro);
  if (!a->scale_set) a->dynamic = a->dtype == WAFER_DTYPE_f16;
  return WAFER_OK;
}

int wafer_tool_scale(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  scale_arguments a = {.machine = "wse2",
                       .first = 1,
                       .last = 16,
                       .state_bytes = 12,
                       .servers = 1,
                       .density = 1,
                       .tokens = 2e10,
                       .gpu_gb = 80,
                       .dtype = WAFER_DTYPE_f16};
  int status = WAFER_OK;
  bool help = false;
  a.training.frozen = WAFER_NEW(arena, const char *, (size_t)argc);
  for (int c;
       status == WAFER_OK && (c = cli_option("scale", argc, argv, "h", long_options)) != -1;) {
    if (c == 'h')
      help = true;
    else if (!take(&a, arena, c, optarg))
      status = WAFER_USAGE;
  }
  if (help)
    fputs(usage, stdout);
  else if (status == WAFER_OK && optind + 1 != argc)
    status = cli_usage("scale", "one MODEL.onnx is wanted, got %d", argc - optind);
  else if (status == WAFER_OK && (status = settle(&a)) == WAFER_OK) {
    a.model = argv[optind];
    status = run(&a, arena);
  }
  wafer_arena_destroy(arena);
  return status;
}
