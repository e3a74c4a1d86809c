/* wafer export: an ONNX file with the weights of a checkpoint. */
#include <getopt.h>
#include <string.h>

#include "cli.h"
#include "wafer/checkpoint.h"
#include "wafer/onnx.h"

static const char usage[] =
    "usage: wafer export CHECKPOINT -o MODEL.onnx [options]\n\n"
    "CHECKPOINT is a folder step-NNNNNNNN, or one of several, whose newest whole one counts.\n\n"
    "  -o, --output FILE   the ONNX file: the same graph, trained weights\n"
    "      --model FILE    the model that was trained (the one that the checkpoint names)\n"
    "  -q, --quiet         nothing but errors\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer export run -o trained.onnx\n"
    "  wafer export run/step-00001000 --model mlp.onnx -o trained.onnx\n";

typedef struct arguments {
  const char *checkpoint, *output, *model;
  bool quiet;
} arguments;

enum { MODEL = 256 };

static wafer_status parse(int argc, char **argv, arguments *a, bool *help) {
  static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                          {"model", required_argument, NULL, MODEL},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  for (int c; (c = cli_option("export", argc, argv, "o:qh", options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    if (c == 'q')
      a->quiet = true;
    else if (c == 'o')
      a->output = optarg;
    else if (c == MODEL)
      a->model = optarg;
    else
      return WAFER_USAGE;
  }
  if (optind + 1 != argc)
    return (wafer_status)cli_usage("export", "one CHECKPOINT is wanted, got %d", argc - optind);
  a->checkpoint = argv[optind];
  return a->output ? WAFER_OK : (wafer_status)cli_usage("export", "-o MODEL.onnx is missing");
}

static wafer_status export(const arguments *a, wafer_arena *arena) {
  wafer_checkpoint about;
  wafer_weights *weights = wafer_weights_create(arena);
  if (!weights) return cli_no_memory();
  WAFER_TRY(wafer_checkpoint_read(cli_diag(), arena, a->checkpoint, &about, weights, NULL));
  const char *model = a->model ? a->model : about.model;
  const char *const files[] = {a->output, model};
  WAFER_TRY(cli_check_apart("export", files, 1, WAFER_COUNT(files)));
  WAFER_TRY(cli_check_output(a->output));
  WAFER_TRY(wafer_onnx_export(cli_diag(), model, weights, a->output));
  if (!a->quiet)
    printf("wrote %s: %s after %llu steps, %zu trained weights\n", a->output, model,
           (unsigned long long)about.step, wafer_weights_count(weights));
  return WAFER_OK;
}

int wafer_tool_export(int argc, char **argv) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  arguments a = {0};
  bool help = false;
  wafer_status status = parse(argc, argv, &a, &help);
  if (help) fputs(usage, stdout);
  if (status == WAFER_OK && !help) status = export(&a, arena);
  wafer_arena_destroy(arena);
  return status;
}
