/* wafer conform: tests of ONNX's backend suite, compiled to plans and run. */
#include "conform/conform.h"

#include <getopt.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: wafer conform DIR [options]\n\n"
    "Runs every test below DIR: a folder with model.onnx and test_data_set_N/{input,output}_M.pb, "
    "or\n"
    "NAME.onnx beside NAME_output_M.pb. Each is compiled to a plan, and the plan is run.\n\n"
    "      --filter GLOB      only tests whose name, or its last part, matches\n"
    "      --tsv FILE         a line per test: passed or not, where each operator ran, "
    "differences,\n"
    "                         times, inputs bound when compiling because they fix shapes\n"
    "      --table FILE.md    a table of operators: versions, types, tests passed, largest ULP\n"
    "      --machine NAME|FILE  wafer to compile for (wse2)\n"
    "      --mode MODE        auto, pipelined or streaming (auto)\n"
    "      --fidelity F       kernel, or fabric: on emulated cores (kernel)\n"
    "      --jobs N           worker processes (one per processor)\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer conform suite\n"
    "  wafer conform suite --filter 'test_conv*' --mode streaming\n"
    "  wafer conform suite --jobs 2 --tsv conform.tsv\n";

enum { FILTER = 256, TSV, TABLE, MACHINE, MODE, FIDELITY, JOBS };

static const struct option long_options[] = {{"filter", required_argument, NULL, FILTER},
                                             {"tsv", required_argument, NULL, TSV},
                                             {"table", required_argument, NULL, TABLE},
                                             {"machine", required_argument, NULL, MACHINE},
                                             {"mode", required_argument, NULL, MODE},
                                             {"fidelity", required_argument, NULL, FIDELITY},
                                             {"jobs", required_argument, NULL, JOBS},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static wafer_status parse_option(conform_arguments *a, int option, const char *text) {
  switch (option) {
  case FILTER: a->filter = text; return WAFER_OK;
  case TSV: a->tsv = text; return WAFER_OK;
  case TABLE: a->table = text; return WAFER_OK;
  case MACHINE: a->machine = text; return WAFER_OK;
  case MODE: return cli_parse_mode("conform", text, &a->mode) ? WAFER_OK : WAFER_USAGE;
  case FIDELITY: return cli_parse_fidelity("conform", text, &a->fidelity) ? WAFER_OK : WAFER_USAGE;
  case JOBS:
    return cli_parse_u64("conform", "--jobs", text, 1, 256, &a->jobs) ? WAFER_OK : WAFER_USAGE;
  case 'q': return cli_quiet(), WAFER_OK;
  default: return WAFER_USAGE;
  }
}

static wafer_status parse(int argc, char **argv, conform_arguments *a, bool *help) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  *a = (conform_arguments){.machine = "wse2"};
  a->jobs = processors < 1 ? 1 : processors > 256 ? 256 : (uint64_t)processors;
  for (int c; (c = cli_option("conform", argc, argv, "qh", long_options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    WAFER_TRY(parse_option(a, c, optarg));
  }
  if (optind + 1 != argc)
    return (wafer_status)cli_usage("conform", "one DIR is wanted, got %d", argc - optind);
  a->folder = argv[optind];
  return WAFER_OK;
}

static wafer_status summarize(const conform_arguments *a, const conform_cases *cases,
                              const conform_result *results) {
  size_t passed = 0, failed = 0, skipped = 0;
  for (size_t i = 0; i < cases->count; i++) {
    passed += results[i].verdict == CONFORM_PASSED;
    skipped += results[i].verdict == CONFORM_SKIPPED;
    failed += results[i].verdict != CONFORM_PASSED && results[i].verdict != CONFORM_SKIPPED;
  }
  if (a->tsv) WAFER_TRY(conform_write_tsv(a->tsv, cases, results));
  if (a->table) WAFER_TRY(conform_write_table(a->table, cases, results));
  printf("%zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
  return failed ? WAFER_DIFFER : WAFER_OK;
}

static wafer_status conform(const conform_arguments *a, wafer_arena *arena) {
  const wafer_machine *machine;
  conform_cases cases;
  conform_result *results;
  WAFER_TRY(wafer_machine_open(cli_diag(), arena, a->machine, &machine));
  WAFER_TRY(conform_find(arena, a->folder, a->filter, &cases));
  if (!cases.count)
    return wafer_fail(cli_diag(), wafer_at_file(a->folder), WAFER_USAGE, "holds no test%s%s",
                      a->filter ? " that matches " : "; archives are to be unpacked first",
                      a->filter ? a->filter : "");
  wafer_status status = conform_run_all(a, machine, &cases, &results);
  if (status == WAFER_OK) status = summarize(a, &cases, results);
  conform_free_results(&cases, results);
  return status;
}

int wafer_tool_conform(int argc, char **argv) {
  conform_arguments a;
  bool help = false;
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  wafer_status status = parse(argc, argv, &a, &help);
  if (help) fputs(usage, stdout);
  if (status == WAFER_OK && !help) status = conform(&a, arena);
  wafer_arena_destroy(arena);
  return status;
}
