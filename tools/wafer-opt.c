/* wafer-opt: runs passes over IR text, for tests and researchers. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/wafer.h"

static const char usage[] =
    "usage: wafer-opt FILE.mlir [options]\n"
    "Runs passes over a module of the dialects nn and wafer and prints the result.\n"
    "\n"
    "  --passes=LIST         names separated by commas, `default`, or `default:NAME` (up to "
    "NAME);\n"
    "                        MLIR's own work too (canonicalize, cse). Nothing: parse and print\n"
    "  --machine=NAME|FILE   the wafer to compile for (wse2)\n"
    "  --mode=MODE           auto, pipelined or streaming (auto)\n"
    "  --batch=N|auto        samples resident together when streaming (1)\n"
    "  --bands=N             of the wafer, each with the same pipeline (as many as pay)\n"
    "  --sides=N             of the wafer at which bands begin, 1 or 2 (as is faster)\n"
    "  --dtype=TYPE          how cores hold floats: f32 or f16 (f32)\n"
    "  --train=LOSS          a training step with this loss, such as mse; --train=LOSS:OUTPUT\n"
    "  --recompute=WHAT      of the activations: auto, none or all (auto)\n"
    "  --evaluate            with --train: no gradients\n"
    "  --optimizer=NAME      with --train, of a pipeline: what updates its weights (sgd)\n"
    "  --relays=WHAT         that hold samples in a pipeline: auto, inputs or none (none)\n"
    "  --reductions=WHERE    over all places: apart, or behind what they reduce (apart)\n"
    "  --print-ir-after=NAME the module after this pass, or after `all`, on standard error\n"
    "  --help                this text\n"
    "\n"
    "passes, in the order of `default`:\n";

typedef struct request {
  const char *file, *passes, *machine;
  wafer_options options;
  wafer_training_options training;
} request;

static void print_row(void *self, const char *name, const char *summary) {
  fprintf(self, "  %-9s %s\n", name, summary);
}

static void print_usage(FILE *to) {
  fputs(usage, to);
  wafer_passes_each(print_row, to);
}

static void print_module(void *self, const char *pass, const char *text, size_t bytes) {
  fprintf(self, "// -----// after %s //----- //\n%.*s", pass, (int)bytes, text);
}

static wafer_status wrong(const wafer_diag *diag, const char *option, const char *value,
                          const char *allowed) {
  return wafer_fail(diag, wafer_at_file(NULL), WAFER_USAGE, "--%s is '%s', not %s", option, value,
                    allowed);
}

static wafer_status set_mode(const wafer_diag *diag, const char *value, wafer_options *o) {
  for (int m = WAFER_MODE_auto; m <= WAFER_MODE_streaming; m++)
    if (!strcmp(value, wafer_mode_name((wafer_mode)m))) {
      o->mode = (wafer_mode)m;
      return WAFER_OK;
    }
  return wrong(diag, "mode", value, "auto, pipelined or streaming");
}

static wafer_status set_bands(const wafer_diag *diag, const char *value, wafer_options *o) {
  char *end;
  unsigned long bands = strtoul(value, &end, 10);
  if (*end || bands < 1 || bands > UINT32_MAX) return wrong(diag, "bands", value, "1 or more");
  o->bands = (uint32_t)bands;
  return WAFER_OK;
}

static wafer_status set_sides(const wafer_diag *diag, const char *value, wafer_options *o) {
  if (strcmp(value, "1") && strcmp(value, "2")) return wrong(diag, "sides", value, "1 or 2");
  o->sides = (uint32_t)(*value - '0');
  return WAFER_OK;
}

static wafer_status set_batch(const wafer_diag *diag, const char *value, wafer_options *o) {
  char *end;
  if (!strcmp(value, "auto")) return o->batch = WAFER_BATCH_auto, WAFER_OK;
  unsigned long batch = strtoul(value, &end, 10);
  if (*end || batch < 1 || batch > 1 << 20)
    return wrong(diag, "batch", value, "1 to 1048576, or auto");
  o->batch = (uint32_t)batch;
  return WAFER_OK;
}

static wafer_status set_dtype(const wafer_diag *diag, const char *value, wafer_options *o) {
  o->storage = wafer_dtype_by_name(value);
  if (o->storage == WAFER_DTYPE_f32 || o->storage == WAFER_DTYPE_f16) return WAFER_OK;
  return wrong(diag, "dtype", value, "f32 or f16");
}

/* LOSS or LOSS:OUTPUT; `value` is the program's own. */
static wafer_status set_training(const wafer_diag *diag, char *value, request *r) {
  char *colon = strchr(value, ':');
  if (colon) *colon = 0;
  r->training.loss = wafer_loss_by_name(value);
  r->training.output = colon ? colon + 1 : NULL;
  r->options.training = &r->training;
  return r->training.loss < WAFER_LOSS_COUNT ? WAFER_OK : wrong(diag, "train", value, "a loss");
}

static wafer_status set_recompute(const wafer_diag *diag, const char *value,
                                  wafer_training_options *o) {
  bool none = !strcmp(value, "none"), all = !strcmp(value, "all");
  o->recompute = none ? WAFER_RECOMPUTE_none : all ? WAFER_RECOMPUTE_all : WAFER_RECOMPUTE_auto;
  if (none || all || !strcmp(value, "auto")) return WAFER_OK;
  return wrong(diag, "recompute", value, "auto, none or all");
}

static const struct option long_options[] = {
    {"passes", required_argument, NULL, 'p'},
    {"machine", required_argument, NULL, 'm'},
    {"mode", required_argument, NULL, 'o'},
    {"batch", required_argument, NULL, 'b'},
    {"bands", required_argument, NULL, 'n'},
    {"sides", required_argument, NULL, 's'},
    {"dtype", required_argument, NULL, 'd'},
    {"print-ir-after", required_argument, NULL, 'a'},
    {"train", required_argument, NULL, 't'},
    {"recompute", required_argument, NULL, 'r'},
    {"evaluate", no_argument, NULL, 'e'},
    {"help", no_argument, NULL, 'h'},
    {"optimizer", required_argument, NULL, 'z'},
    {"relays", required_argument, NULL, 'y'},
    {"reductions", required_argument, NULL, 'u'},
    {NULL, 0, NULL, 0},
};

static wafer_status parse_option(const wafer_diag *diag, int option, request *r) {
  switch (option) {
  case 'p': r->passes = optarg; return WAFER_OK;
  case 'm': r->machine = optarg; return WAFER_OK;
  case 'a': r->options.print_after = optarg; return WAFER_OK;
  case 'o': return set_mode(diag, optarg, &r->options);
  case 'b': return set_batch(diag, optarg, &r->options);
  case 'n': return set_bands(diag, optarg, &r->options);
  case 's': return set_sides(diag, optarg, &r->options);
  case 'd': return set_dtype(diag, optarg, &r->options);
  case 't': return set_training(diag, optarg, r);
  case 'r': return set_recompute(diag, optarg, &r->training);
  case 'z':
    r->training.optimizer = wafer_optimizer_by_name(optarg);
    if (r->training.optimizer != WAFER_OPTIMIZER_COUNT) return WAFER_OK;
    return wrong(diag, "optimizer", optarg, "one that there is");
  case 'y':
    r->options.relays = !strcmp(optarg, "auto")     ? WAFER_RELAYS_auto
                        : !strcmp(optarg, "inputs") ? WAFER_RELAYS_inputs
                                                    : WAFER_RELAYS_none;
    return r->options.relays || !strcmp(optarg, "none")
               ? WAFER_OK
               : wrong(diag, "relays", optarg, "auto, inputs or none");
  case 'u':
    r->options.reductions =
        !strcmp(optarg, "behind") ? WAFER_REDUCTIONS_behind : WAFER_REDUCTIONS_apart;
    return !strcmp(optarg, "behind") || !strcmp(optarg, "apart")
               ? WAFER_OK
               : wrong(diag, "reductions", optarg, "apart or behind");
  case 'e': r->training.evaluate = true; return WAFER_OK;
  default: return WAFER_USAGE; /* getopt has said why */
  }
}

static wafer_status parse(const wafer_diag *diag, int argc, char **argv, request *r, bool *help) {
  for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
    *help |= option == 'h';
    if (option != 'h') WAFER_TRY(parse_option(diag, option, r));
  }
  if (*help) return WAFER_OK;
  if (optind != argc - 1)
    return wafer_fail(diag, wafer_at_file(NULL), WAFER_USAGE,
                      "one file of IR is needed, %d are given; see wafer-opt --help",
                      argc - optind);
  r->file = argv[optind];
  return WAFER_OK;
}

static wafer_status write_out(const wafer_ctx *ctx, const wafer_ir *ir) {
  const char *text;
  size_t bytes;
  WAFER_TRY(wafer_ir_print(ctx, ir, &text, &bytes));
  if (fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0) return WAFER_OK;
  return wafer_fail(ctx->diag, wafer_at_file("standard output"), WAFER_IO,
                    "the module cannot be written: %m");
}

static wafer_status run(wafer_ctx *ctx, const request *r) {
  wafer_ir *ir;
  WAFER_TRY(wafer_machine_open(ctx->diag, ctx->arena, r->machine, &ctx->machine));
  WAFER_TRY(wafer_ir_parse(ctx, r->file, &ir));
  wafer_status status = wafer_transform(ctx, ir, r->passes);
  if (status == WAFER_OK) status = write_out(ctx, ir);
  wafer_ir_destroy(ir);
  return status;
}

int main(int argc, char **argv) {
  wafer_diag diag = {.emit = wafer_diag_to_file, .self = stderr};
  request r = {
      .passes = "", .machine = "wse2", .options = {.print = print_module, .print_self = stderr}};
  bool help = false;
  wafer_status status = parse(&diag, argc, argv, &r, &help);
  if (status != WAFER_OK) return status;
  if (help) {
    print_usage(stdout);
    return fflush(stdout) == 0 ? WAFER_OK : WAFER_IO;
  }
  wafer_ctx ctx = {.arena = wafer_arena_create(), .diag = &diag, .options = &r.options};
  if (!ctx.arena)
    return wafer_fail(&diag, wafer_at_file(NULL), WAFER_NO_MEMORY, "no memory to start");
  status = run(&ctx, &r);
  wafer_arena_destroy(ctx.arena);
  return status;
}
