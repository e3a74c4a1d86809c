/* wafer compile: ONNX -> IR -> plan, and the report. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "compile/compile.h"
#include "report/report.h"
#include "sparsity.h"
#include "training.h"

static const char usage[] =
    "usage: wafer compile MODEL.onnx -o PLAN.wplan [options]\n\n"
    "  -o, --output PLAN        the plan to write (not needed with --check)\n"
    "      --machine NAME|FILE  wafer to compile for: a name of `wafer machines` or an XML file "
    "(wse2)\n"
    "      --mode MODE          auto, pipelined (all layers on the wafer at once) or streaming (a "
    "layer\n"
    "                           at a time, weights from outside) (auto: the one with the smaller "
    "interval)\n"
    "      --batch N|auto       samples resident together in streaming; auto: as many as shorten "
    "the\n"
    "                           interval and fit; side by side in bands and stripes where that is\n"
    "                           faster (1)\n"
    "      --dim NAME=N         size of a symbolic dim; repeat for others; N..M: a function for "
    "each "
    "size,\n"
    "                           the run takes the one its inputs fit\n"
    "      --shape INPUT=DIMS   shape of an input, such as x=1x3x48x320; repeat\n"
    "      --bind INPUT=FILE    the input becomes this constant (.npy); repeat\n"
    "      --dtype f32|f16      how cores store floats; sums are f32 either way (f32)\n"
    "      --edge-gbps N|inf    bandwidth of the wafer's edge, each direction, gigabits a second\n"
    "      --placer shelf|best  how a pipeline is laid out: shelves, or a search that is never\n"
    "                           worse (shelf)\n"
    "      --objective O        what is looked for: throughput, the latency of a sample, or, by\n"
    "                           best, short wires: throughput, latency or wire (throughput)\n"
    "      --place-moves N      length of the search; the same plan on every host (2000000,\n"
    "                           fewer of more than 256 kernels; 200000 with --train)\n"
    "      --place-seconds S    stop the search after so long instead\n"
    "      --seed N             another seed, another layout (0)\n"
    "      --pin KERNEL=X,Y,W,H this kernel, by its name or an ONNX node of it, on these cores; "
    "repeat\n"
    "      --reserve X,Y,W,H    no kernel on these cores; routes may pass; repeat\n"
    "      --placement FILE.xml pins and reserved cores, as `wafer dump PLAN --placement FILE` "
    "writes "
    "them\n"
    "      --keep PLAN          kernels stay where that plan has them, as far as the others leave "
    "room\n"
    "      --defects D          what is broken on this wafer: PERCENT:SEED, so many random cores, "
    "or "
    "FILE.xml\n"
    "      --repair R           spares: links bypass what is dead, the fabric is a smaller "
    "rectangle;\n"
    "                           avoid: kernels and routes keep off it (spares, or what FILE.xml "
    "says)\n"
    "      --replicas N         copies of a kernel side by side, at most, that share out the\n"
    "                           samples; takes --placer best; auto: as many as pay there (auto)\n"
    "      --bands N            bands of the wafer's rows, each with the same pipeline, which "
    "samples "
    "go to\n"
    "                           in turn; auto: as few as keep pace with the edge; in streaming\n"
    "                           samples of all bands are computed together; auto: as is faster "
    "(auto)\n"
    "      --sides N            of the wafer at which bands begin: 1, they have whole rows; 2,\n"
    "                           half of them end in the middle, mirrored in the other half; auto:\n"
    "                           as is faster, or 1 where --bands says how many (auto)\n"
    "      --relays R           kernels that hold samples of what skips others, or an input for\n"
    "                           several: auto, where programs, or streams, are faster for\n"
    "                           them, or none (auto)\n"
    "      --reductions R       over all places, as global pooling: apart, in kernels of their "
    "own;\n"
    "                           behind what makes their operand, on its cores; auto: apart, or\n"
    "                           behind where programs are faster for it (auto)\n"
    "      --sparsity S         this share of each weight of products and convolutions, from 0 to "
    "below\n"
    "                           1, becomes zero, the smallest magnitudes; zeros do not stream, nor "
    "do\n"
    "                           products multiply with them\n"
    "      --mask FILE          zeros of a mask of a weight's shape stay zeros: NAME=mask.npy, or "
    "a\n"
    "                           .safetensors of masks by name; repeat\n"
    "      --sparse-shapes S    lean, shapes that waste few multiply cycles, up to three times as\n"
    "                           slow; or fast: of a pipeline the fastest, in streaming others\n"
    "                           where the plan is slower than with dense weights; both compile\n"
    "                           again (lean)\n"
    "      --programs W         keep the core programs that `run --fidelity fabric` executes in "
    "the "
    "plan:\n"
    "                           auto (when they are small and soon made), always or never\n"
    "                           (auto)\n"
    "      --train              a training step in place of the model: loss and gradients of a "
    "micro-batch\n"
    "      --loss LOSS[:OUTPUT] with --train: cross-entropy, soft-cross-entropy, nll, mse, l1 or "
    "bce, "
    "of an\n"
    "                           output (the first)\n"
    "      --micro-batch N      with --train: leading dim of every input (as the model says)\n"
    "      --recompute WHAT     with --train: activations that the backward pass computes again: "
    "auto "
    "(as\n"
    "                           memory asks for), none or all (auto)\n"
    "      --ignore-index N     with --train: labels N do not count\n"
    "      --class-axis N       with --train: where the classes are; negative: from the last (1)\n"
    "      --freeze PATTERN     with --train: weights of such names stay as they are; repeat\n"
    "      --optimizer O        with --train --mode pipelined: sgd, momentum, adam or adamw, which "
    "updates\n"
    "                           the weights on the wafer (sgd)\n"
    "      --evaluate           with --train: the loss alone, without gradients\n"
    "      --report FILE.json   the closing report as JSON too\n"
    "      --passes LIST        passes to run instead of the default ones, comma separated\n"
    "      --print-ir-after P   print the IR after pass P, or after all, to stderr\n"
    "      --check              stop after matching and list all that does not compile, with "
    "remedies\n"
    "      --json               with --check: the list as JSON\n"
    "  -q, --quiet              no progress, no report\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer compile face.onnx -o face.wplan\n"
    "  wafer compile ocr.onnx -o ocr.wplan --shape x=1x3x48x320 --mode streaming --batch 8\n"
    "  wafer compile vad.onnx -o vad.wplan --shape input=1x576 --shape state=2x1x128 --bind "
    "sr=sr.npy\n"
    "  wafer compile net.onnx --check --dim batch=1\n"
    "  wafer compile net.onnx --check --json\n"
    "  wafer compile net.onnx -o step.wplan --train --loss cross-entropy --micro-batch 32\n";

typedef struct arguments {
  const char *model, *output, *report, *passes;
  compile_machine machine;
  compile_control control;
  compile_search search;
  bool check, json, quiet, train;
  wafer_options options;
  training_flags training;
  wafer_dim_binding *dims;
  wafer_shape_binding *shapes;
  wafer_value_binding *values;
  sparsity_masks masks;
  bool fast; /* sparse shapes, even where they waste more */
} arguments;

enum {
  MACHINE = 256,
  MODE,
  BATCH,
  DIM,
  SHAPE,
  BIND,
  DTYPE,
  EDGE,
  PLACER,
  OBJECTIVE,
  MOVES,
  SECONDS,
  SEED,
  PIN,
  RESERVE,
  PLACEMENT,
  KEEP,
  DEFECTS,
  REPAIR,
  REPLICAS,
  BANDS,
  SIDES,
  RELAYS,
  REDUCTIONS,
  PROGRAMS,
  SPARSITY,
  MASK,
  SHAPES,
  TRAIN,
  REPORT,
  PASSES,
  PRINT,
  CHECK,
  JSON
};

static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
                                             {"machine", required_argument, NULL, MACHINE},
                                             {"mode", required_argument, NULL, MODE},
                                             {"batch", required_argument, NULL, BATCH},
                                             {"dim", required_argument, NULL, DIM},
                                             {"shape", required_argument, NULL, SHAPE},
                                             {"bind", required_argument, NULL, BIND},
                                             {"dtype", required_argument, NULL, DTYPE},
                                             {"edge-gbps", required_argument, NULL, EDGE},
                                             {"placer", required_argument, NULL, PLACER},
                                             {"objective", required_argument, NULL, OBJECTIVE},
                                             {"place-moves", required_argument, NULL, MOVES},
                                             {"place-seconds", required_argument, NULL, SECONDS},
                                             {"seed", required_argument, NULL, SEED},
                                             {"pin", required_argument, NULL, PIN},
                                             {"reserve", required_argument, NULL, RESERVE},
                                             {"placement", required_argument, NULL, PLACEMENT},
                                             {"keep", required_argument, NULL, KEEP},
                                             {"defects", required_argument, NULL, DEFECTS},
                                             {"repair", required_argument, NULL, REPAIR},
                                             {"replicas", required_argument, NULL, REPLICAS},
                                             {"bands", required_argument, NULL, BANDS},
                                             {"sides", required_argument, NULL, SIDES},
                                             {"relays", required_argument, NULL, RELAYS},
                                             {"reductions", required_argument, NULL, REDUCTIONS},
                                             {"programs", required_argument, NULL, PROGRAMS},
                                             {"sparsity", required_argument, NULL, SPARSITY},
                                             {"mask", required_argument, NULL, MASK},
                                             {"sparse-shapes", required_argument, NULL, SHAPES},
                                             {"train", no_argument, NULL, TRAIN},
                                             TRAINING_LONG_OPTIONS,
                                             {"report", required_argument, NULL, REPORT},
                                             {"passes", required_argument, NULL, PASSES},
                                             {"print-ir-after", required_argument, NULL, PRINT},
                                             {"check", no_argument, NULL, CHECK},
                                             {"json", no_argument, NULL, JSON},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static void print_ir(void *self, const char *pass, const char *text, size_t bytes) {
  (void)self;
  cli_progress_done();
  fprintf(stderr, "// IR after %s\n", pass);
  fwrite(text, 1, bytes, stderr);
}

static wafer_status parse_dim(arguments *a, wafer_arena *arena, const char *text) {
  const char *name, *value;
  uint64_t size;
  if (!cli_parse_pair("compile", "--dim", text, arena, &name, &value)) return WAFER_USAGE;
  const char *to = strstr(value, "..");
  uint64_t last = 0;
  char *first = wafer_arena_strndup(arena, value, to ? (size_t)(to - value) : strlen(value));
  if (!first) return cli_no_memory();
  if (!cli_parse_u64("compile", "--dim", first, 0, INT32_MAX, &size)) return WAFER_USAGE;
  if (to && !cli_parse_u64("compile", "--dim", to + 2, size, INT32_MAX, &last)) return WAFER_USAGE;
  a->dims[a->options.dim_count++] = (wafer_dim_binding){name, (int64_t)size, (int64_t)last};
  return WAFER_OK;
}

static wafer_status parse_bind(arguments *a, wafer_arena *arena, const char *text) {
  const char *name, *path;
  wafer_view view;
  if (!cli_parse_pair("compile", "--bind", text, arena, &name, &path)) return WAFER_USAGE;
  WAFER_TRY(wafer_npy_read(cli_diag(), arena, path, &view));
  a->values[a->options.value_count++] = (wafer_value_binding){name, view};
  return WAFER_OK;
}

static bool parse_search(arguments *a, int option, const char *text) {
  wafer_options *o = &a->options;
  uint64_t number = 0;
  a->search.moves |= option == MOVES;
  a->search.seconds |= option == SECONDS;
  a->search.seed |= option == SEED;
  if (option == REPLICAS || option == BANDS || option == SIDES) {
    const char *name = option == BANDS ? "--bands" : option == SIDES ? "--sides" : "--replicas";
    uint32_t *to = option == BANDS ? &o->bands : option == SIDES ? &o->sides : &o->replicas;
    uint64_t most = option == SIDES ? 2 : UINT32_MAX;
    if (strcmp(text, "auto") && !cli_parse_u64("compile", name, text, 1, most, &number))
      return false;
    *to = (uint32_t)number;
    return true;
  }
  if (option == MOVES)
    return cli_parse_u64("compile", "--place-moves", text, 1, UINT64_MAX / 4, &o->place_moves);
  if (option == SEED)
    return cli_parse_u64("compile", "--seed", text, 0, UINT64_MAX, &o->place_seed);
  if (!cli_parse_f64("compile", "--place-seconds", text, &o->place_seconds)) return false;
  if (o->place_seconds > 0) return true;
  return cli_usage("compile", "--place-seconds wants more than 0, got '%s'", text), false;
}

/* Options whose values are words, in the order of their enumerations. */
static wafer_status parse_choice(arguments *a, int option, const char *text) {
  static const struct {
    int option;
    const char *name, *values;
  } rows[] = {{DTYPE, "--dtype", "f32 f16"},
              {PLACER, "--placer", "shelf best"},
              {OBJECTIVE, "--objective", "throughput latency wire"},
              {RELAYS, "--relays", "auto none"},
              {REDUCTIONS, "--reductions", "auto apart behind"},
              {PROGRAMS, "--programs", "auto always never"},
              {SHAPES, "--sparse-shapes", "lean fast"}};
  wafer_options *o = &a->options;
  uint32_t row = 0, at;
  while (rows[row].option != option) row++;
  if (!cli_parse_choice("compile", rows[row].name, text, rows[row].values, &at)) return WAFER_USAGE;
  switch (option) {
  case DTYPE: o->storage = at ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32; break;
  case PLACER: o->placer = (wafer_placer_kind)at; break;
  case OBJECTIVE: o->objective = (wafer_objective)at; break;
  case RELAYS: o->relays = at ? WAFER_RELAYS_none : WAFER_RELAYS_inputs; break;
  case REDUCTIONS: o->reductions = (wafer_reductions)at; break;
  case PROGRAMS: o->programs = (wafer_programs)at; break;
  default: a->fast = at; break;
  }
  a->search.placer |= option == PLACER;
  a->search.shapes |= option == SHAPES;
  return WAFER_OK;
}

static wafer_status parse_option(arguments *a, wafer_arena *arena, int option, const char *text) {
  uint64_t number;
  if (option >= TRAINING_LOSS && option < TRAINING_LAST)
    return training_flag("compile", arena, option, text, &a->training);
  switch (option) {
  case 'o': a->output = text; return WAFER_OK;
  case 'q': a->quiet = true; return WAFER_OK;
  case MACHINE: a->machine.name = text; return WAFER_OK;
  case MODE: return cli_parse_mode("compile", text, &a->options.mode) ? WAFER_OK : WAFER_USAGE;
  case BATCH:
    if (!strcmp(text, "auto")) return a->options.batch = WAFER_BATCH_auto, WAFER_OK;
    if (!cli_parse_u64("compile", "--batch", text, 1, 1u << 20, &number)) return WAFER_USAGE;
    a->options.batch = (uint32_t)number;
    return WAFER_OK;
  case DIM: return parse_dim(a, arena, text);
  case SHAPE:
    return cli_parse_input_shape("compile", text, arena, &a->shapes[a->options.shape_count++])
               ? WAFER_OK
               : WAFER_USAGE;
  case BIND: return parse_bind(a, arena, text);
  case EDGE: a->machine.edge = text; return WAFER_OK;
  case MOVES:
  case SECONDS:
  case SEED:
  case BANDS:
  case SIDES:
  case REPLICAS: return parse_search(a, option, text) ? WAFER_OK : WAFER_USAGE;
  case PIN: return compile_parse_pin(&a->control, arena, text);
  case RESERVE: return compile_parse_reserve(&a->control, text);
  case PLACEMENT: a->control.placement = text; return WAFER_OK;
  case KEEP: a->control.keep = text; return WAFER_OK;
  case DEFECTS: a->machine.defects = text; return WAFER_OK;
  case REPAIR: a->machine.repair = text; return WAFER_OK;
  case DTYPE:
  case PLACER:
  case OBJECTIVE:
  case RELAYS:
  case REDUCTIONS:
  case PROGRAMS:
  case SHAPES: return parse_choice(a, option, text);
  case SPARSITY: return sparsity_parse("compile", text, &a->options.sparsity);
  case MASK: return sparsity_add_mask("compile", arena, text, &a->masks);
  case TRAIN: a->train = true; return WAFER_OK;
  case REPORT: a->report = text; return WAFER_OK;
  case PASSES: a->passes = text; return WAFER_OK;
  case PRINT: a->options.print_after = text; return WAFER_OK;
  case CHECK: a->check = true; return WAFER_OK;
  case JSON: a->json = true; return WAFER_OK;
  default: return WAFER_USAGE;
  }
}

static wafer_status parse(int argc, char **argv, wafer_arena *arena, arguments *a, bool *help) {
  *a = (arguments){.machine = {.name = "wse2"},
                   .options.print = print_ir,
                   .options.relays = WAFER_RELAYS_inputs};
  a->dims = WAFER_NEW(arena, wafer_dim_binding, (size_t)argc);
  a->shapes = WAFER_NEW(arena, wafer_shape_binding, (size_t)argc);
  a->values = WAFER_NEW(arena, wafer_value_binding, (size_t)argc);
  a->training.frozen = WAFER_NEW(arena, const char *, (size_t)argc);
  if (!a->dims || !a->shapes || !a->values || !a->training.frozen ||
      !compile_control_init(&a->control, arena, (size_t)argc))
    return cli_no_memory();
  for (int c; (c = cli_option("compile", argc, argv, "o:qh", long_options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    WAFER_TRY(parse_option(a, arena, c, optarg));
  }
  a->options.dims = a->dims;
  a->options.shapes = a->shapes;
  a->options.values = a->values;
  a->options.masks = a->masks.at;
  a->options.mask_count = a->masks.count;
  if (optind + 1 != argc)
    return (wafer_status)cli_usage("compile", "one MODEL.onnx is wanted, got %d", argc - optind);
  if (a->training.first && !a->train)
    return (wafer_status)cli_usage("compile", "--%s goes with --train", a->training.first);
  if (a->train && !a->training.has_loss)
    return (wafer_status)cli_usage("compile", "--train wants a --loss");
  if (a->train) a->options.training = &a->training.options;
  if (a->check && (a->output || a->report))
    wafer_warn(cli_diag(), (wafer_loc){0},
               "--check writes no plan and no report: %s is not written",
               a->output ? a->output : a->report);
  if (a->json && !a->check) return (wafer_status)cli_usage("compile", "--json goes with --check");
  WAFER_TRY(compile_settle_search(&a->search, &a->options));
  a->model = argv[optind];
  if (!a->output && !a->check && !a->passes)
    return (wafer_status)cli_usage("compile", "-o PLAN is missing");
  return WAFER_OK;
}

static wafer_status finish(const arguments *a, const wafer_plan *plan, const wafer_machine *whole,
                           const char *placer, double started) {
  report r;
  WAFER_TRY(wafer_plan_write(cli_diag(), plan, a->output));
  WAFER_TRY(report_make(cli_diag(), plan, &r));
  WAFER_TRY(report_bound(cli_diag(), &r));
  r.placer = plan->mode == WAFER_MODE_pipelined ? placer : NULL;
  if (whole) WAFER_TRY(compile_whole(a->model, whole, &a->options, a->fast, &r.whole));
  double seconds = cli_seconds() - started;
  cli_progress_done();
  compile_warn_unread(&a->search, &a->options, plan);
  if (a->train) training_warn_unread(&a->training, plan);
  if (!a->quiet) {
    WAFER_TRY(report_print(stdout, &r));
    printf("wrote %s in %.2f s\n", a->output, seconds);
  }
  return a->report ? cli_write_json(a->report, report_json(&r, seconds)) : WAFER_OK;
}

/* Some passes, whose outcome need not be a plan. */
static wafer_status compile_passes(const arguments *a, const wafer_ctx *ctx,
                                   const wafer_machine *whole, double started) {
  const wafer_plan *plan;
  wafer_ir *ir;
  WAFER_TRY(wafer_import(ctx, a->model, &ir));
  wafer_status status = wafer_transform(ctx, ir, a->passes);
  if (status == WAFER_OK && a->output) status = wafer_lower(ctx, ir, &plan);
  if (status == WAFER_OK && a->output) status = finish(a, plan, whole, NULL, started);
  wafer_ir_destroy(ir);
  return status;
}

static wafer_status compile_model(const arguments *a, const wafer_ctx *ctx,
                                  const wafer_machine *whole, double started) {
  wafer_options own = a->options;
  wafer_ctx with = *ctx;
  const wafer_plan *plan;
  const char *placer = NULL;
  wafer_ir *ir = NULL, *other = NULL;
  if (a->check) return check_model(ctx, a->model, a->json);
  if (a->passes) return compile_passes(a, ctx, whole, started);
  with.options = &own;
  wafer_status status = compile_first(ctx, a->model, &own, &ir, &plan);
  if (status == WAFER_OK) status = compile_settle(&with, a->model, a->fast, &other, &plan, &placer);
  if (status == WAFER_OK) status = finish(a, plan, whole, placer, started);
  compile_drop(other);
  wafer_ir_destroy(ir);
  return status;
}

static wafer_status compile(arguments *a, wafer_arena *arena) {
  double started = cli_seconds();
  wafer_ctx ctx = {.arena = arena, .diag = cli_diag(), .options = &a->options};
  const wafer_machine *whole;
  const wafer_plan *kept = NULL;
  compile_refusal refusal = {a->model, a->report, &a->machine, {0}};
  a->options.refused = compile_refused;
  a->options.other_machine = compile_other_machine;
  a->options.refused_self = &refusal;
  const char *const files[] = {a->output,       a->report,         a->model, a->control.placement,
                               a->machine.name, a->machine.defects};
  const char *const kept_apart[] = {a->report, a->control.keep}; /* a plan may follow itself */
  WAFER_TRY(cli_check_apart("compile", files, 2, WAFER_COUNT(files)));
  WAFER_TRY(cli_check_apart("compile", kept_apart, 1, WAFER_COUNT(kept_apart)));
  WAFER_TRY(cli_check_output(a->output));
  WAFER_TRY(cli_check_output(a->report));
  WAFER_TRY(compile_machine_open(cli_diag(), &a->machine, arena, &ctx.machine, &whole));
  WAFER_TRY(wafer_machine_check_sides(cli_diag(), ctx.machine, a->options.sides));
  wafer_status status =
      compile_take_control(&a->control, arena, &a->options, &ctx.machine, &refusal.reserved, &kept);
  ctx.curves = wafer_curves_create(arena, ctx.machine);
  if (status == WAFER_OK && !ctx.curves) status = cli_no_memory();
  if (status == WAFER_OK) status = compile_model(a, &ctx, whole, started);
  wafer_plan_close(kept);
  return status;
}

int wafer_tool_compile(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  arguments a;
  bool help = false;
  wafer_status status = parse(argc, argv, arena, &a, &help);
  if (help) fputs(usage, stdout);
  if (status == WAFER_OK && !help) {
    if (a.quiet) cli_quiet();
    compile_keep_heap();
    status = compile(&a, arena);
  }
  wafer_arena_destroy(arena);
  return status;
}
