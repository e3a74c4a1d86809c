/* The program: picks the subcommand. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct tool {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} tools[] = {
    {"compile", wafer_tool_compile, "an ONNX model -> a plan for a wafer, with a report"},
    {"dump", wafer_tool_dump, "look into a plan: text, SVG, JSON, a core's memory map"},
    {"run", wafer_tool_run, "execute a plan on the emulator"},
    {"train", wafer_tool_train, "train a model: weights streamed to wafers, checkpoints"},
    {"export", wafer_tool_export, "a checkpoint -> an ONNX file with the trained weights"},
    {"check", wafer_tool_check, "both fidelities of a plan: predicted against counted cycles"},
    {"conform", wafer_tool_conform, "run tests of ONNX's backend suite as plans"},
    {"place", wafer_tool_place, "kernels of a contest file -> shapes and places on a wafer"},
    {"fabric", wafer_tool_fabric, "validation programs, cycle by cycle, on the emulated fabric"},
    {"zoo", wafer_tool_zoo, "models of known architectures as ONNX files"},
    {"scale", wafer_tool_scale, "a training step on 1 to many systems, predicted"},
    {"machines", wafer_tool_machines, "the wafers that ship, and checks of your own"},
};

static int help(FILE *to) {
  fputs("wafer " WAFER_VERSION ": lays neural networks over a wafer-scale engine and runs them\n\n"
        "usage: wafer TOOL [options]\n\ntools:\n",
        to);
  for (size_t i = 0; i < WAFER_COUNT(tools); i++)
    fprintf(to, "  %-9s %s\n", tools[i].name, tools[i].summary);
  fputs("\nexamples:\n"
        "  wafer compile model.onnx -o model.wplan\n"
        "  wafer dump model.wplan --svg model.svg\n"
        "  wafer run model.wplan --input x=x.npy --output out\n\n"
        "`wafer TOOL --help` says more. Exit codes: 0 ok, 1 usage, 2 bad input, 3 unsupported,\n"
        "4 does not fit, 5 trap, 6 results differ, 7 file, 8 out of memory, 9 internal.\n",
        to);
  return to == stdout ? WAFER_OK : WAFER_USAGE;
}

/* A file that may not grow is an error, as on a full disk, and no signal. */
static int run(const struct tool *tool, int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN);
  int code = tool->run(argc, argv);
  if (!fflush(stdout) && !ferror(stdout)) return code;
  if (code != WAFER_OK) return code;
  return wafer_fail(cli_diag(), wafer_at_file("standard output"), WAFER_IO, "cannot be written");
}

int main(int argc, char **argv) {
  if (argc < 2) return help(stderr);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
    return help(stdout);
  if (!strcmp(argv[1], "--version")) {
    puts("wafer " WAFER_VERSION);
    return WAFER_OK;
  }
  for (size_t i = 0; i < WAFER_COUNT(tools); i++)
    if (!strcmp(argv[1], tools[i].name)) return run(&tools[i], argc - 1, argv + 1);
  fprintf(stderr, "wafer: error: there is no tool '%s'; `wafer --help` lists them\n", argv[1]);
  return WAFER_USAGE;
}
