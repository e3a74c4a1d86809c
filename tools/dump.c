/* wafer dump: looks into a plan. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "dump/dump.h"
#include "wafer/file.h"

static const char usage[] =
    "usage: wafer dump PLAN [options]\n\n"
    "Without options: machine, modes, functions, phases, kernels with their rectangles, streams "
    "with their\n"
    "colors, and memory, as text.\n\n"
    "  --svg FILE     the wafer to scale: kernels by family, streams, bytes per core; phase by "
    "phase\n"
    "  --json         the plan as JSON, units in the keys\n"
    "  --xml          plan.xml, as it stands in the plan\n"
    "  --mlir         the placed IR\n"
    "  --placement FILE  where the kernels lie, as XML for `wafer compile --placement`\n"
    "  --why KERNEL   why this size and place, what limits it, what more cores would buy\n"
    "  --diff BEFORE  what moved from that plan to this one and what it cost; with --json as JSON\n"
    "  --certificate  what is proved of each phase: memory, colors, queues, links, the order that "
    "rules "
    "out\n"
    "                 cyclic waits\n"
    "  --core X,Y     that core's memory, phase by phase: what, bytes, from which ONNX node\n"
    "  --kernel NAME  one kernel: its ops, layouts, cost, memory and streams\n"
    "  --program KERNEL  what its cores execute at fabric fidelity, as assembly\n"
    "  --verify       checks every digest, weights included, and plan.xml against its schema\n"
    "  -h, --help     this text\n\n"
    "examples:\n"
    "  wafer dump model.wplan | less\n"
    "  wafer dump model.wplan --svg model.svg\n"
    "  wafer dump model.wplan --core 12,3\n"
    "  wafer dump model.wplan --program k0\n"
    "  wafer dump model.wplan --json | jq '.kernels[] | [.name, .cycles]'\n";

typedef enum view {
  VIEW_text,
  VIEW_svg,
  VIEW_json,
  VIEW_xml,
  VIEW_mlir,
  VIEW_placement,
  VIEW_certificate,
  VIEW_why,
  VIEW_diff,
  VIEW_core,
  VIEW_kernel,
  VIEW_program,
  VIEW_verify
} view;

typedef struct request {
  view view;
  const char *plan, *argument; /* file, name or core, as the view wants */
  uint32_t x, y;
  bool json; /* beside --diff */
} request;

static bool parse_core(const char *text, request *r) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  unsigned long x = strtoul(text, &end, 10);
  if (*end != ',' || end[1] < '0' || end[1] > '9') return false;
  unsigned long y = strtoul(end + 1, &end, 10);
  r->x = (uint32_t)x, r->y = (uint32_t)y;
  return !*end && x <= UINT32_MAX && y <= UINT32_MAX;
}

/* 0 to go on; 1 when there is nothing left to do, with the exit code in *code. */
static int parse(int argc, char **argv, request *r, int *code) {
  static const struct option options[] = {
      {"svg", required_argument, NULL, VIEW_svg},
      {"json", no_argument, NULL, VIEW_json},
      {"xml", no_argument, NULL, VIEW_xml},
      {"mlir", no_argument, NULL, VIEW_mlir},
      {"placement", required_argument, NULL, VIEW_placement},
      {"certificate", no_argument, NULL, VIEW_certificate},
      {"why", required_argument, NULL, VIEW_why},
      {"diff", required_argument, NULL, VIEW_diff},
      {"core", required_argument, NULL, VIEW_core},
      {"kernel", required_argument, NULL, VIEW_kernel},
      {"program", required_argument, NULL, VIEW_program},
      {"verify", no_argument, NULL, VIEW_verify},
      {"help", no_argument, NULL, 'h'},
      {0},
  };
  *code = WAFER_OK;
  for (int c; (c = cli_option("dump", argc, argv, "h", options)) != -1;) {
    if (c == 'h') return fputs(usage, stdout), 1;
    if (c == '?') return *code = WAFER_USAGE, 1;
    if (c == VIEW_json && r->view == VIEW_diff && !r->json) {
      r->json = true;
      continue;
    }
    r->json = c == VIEW_diff && r->view == VIEW_json;
    if (r->view != VIEW_text && !r->json) return *code = cli_usage("dump", "one view at a time"), 1;
    r->view = (view)c;
    r->argument = optarg;
  }
  if (argc - optind != 1)
    return *code = cli_usage("dump", argc == optind ? "which plan?" : "one plan at a time"), 1;
  r->plan = argv[optind];
  if (r->view == VIEW_core && !parse_core(r->argument, r))
    return *code = cli_usage("dump", "--core wants X,Y, got '%s'", r->argument), 1;
  return 0;
}

static wafer_status print_bytes(const char *text, size_t bytes) {
  if (fwrite(text, 1, bytes, stdout) == bytes) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file("standard output"), WAFER_IO, "cannot be written");
}

static wafer_status print_xml(const wafer_plan *plan) {
  char *text;
  size_t bytes;
  WAFER_TRY(wafer_plan_print_xml(cli_diag(), plan, &text, &bytes));
  wafer_status status = print_bytes(text, bytes);
  free(text);
  return status;
}

static wafer_status write_placement(const wafer_plan *plan, const char *path) {
  wafer_arena *arena = wafer_arena_create();
  char *text;
  size_t bytes;
  if (!arena) return cli_no_memory();
  wafer_status status = wafer_pins_print(cli_diag(), arena, plan, &text, &bytes);
  if (status == WAFER_OK) status = wafer_file_save(cli_diag(), path, text, bytes);
  wafer_arena_destroy(arena);
  return status;
}

static wafer_status print_json(const wafer_plan *plan) {
  char *text = dump_json(plan);
  if (!text) return cli_no_memory();
  wafer_status status = print_bytes(text, strlen(text));
  free(text);
  return status == WAFER_OK ? print_bytes("\n", 1) : status;
}

static wafer_status verify(const request *r, const wafer_plan *plan) {
  WAFER_TRY(wafer_plan_verify(cli_diag(), plan));
  size_t count = plan->weights ? wafer_weights_count(plan->weights) : 0, absent = 0;
  for (size_t i = 0; i < count; i++) absent += !wafer_weights_at(plan->weights, i)->data;
  printf("%s: every digest agrees: structure, schema and %zu weights", r->plan, count - absent);
  printf(absent ? "; %zu weights are absent\n" : "\n", absent);
  return WAFER_OK;
}

static wafer_status show_kernel(const request *r, const wafer_plan *plan) {
  uint32_t kernel = dump_find_kernel(plan, r->argument);
  if (kernel == plan->kernel_count)
    return wafer_fail(cli_diag(), wafer_at_file(r->plan), WAFER_USAGE,
                      "no kernel is named '%s'; `wafer dump %s` lists all", r->argument, r->plan);
  if (r->view == VIEW_program) return dump_program(stdout, cli_diag(), plan, kernel);
  if (r->view == VIEW_why) return dump_why(stdout, cli_diag(), plan, kernel);
  return dump_kernel(stdout, plan, kernel), WAFER_OK;
}

static wafer_status show_diff(const request *r, const wafer_plan *plan) {
  const wafer_plan *before;
  WAFER_TRY(wafer_plan_open(cli_diag(), r->argument, &before));
  wafer_status status = dump_diff(stdout, cli_diag(), before, plan, r->json);
  wafer_plan_close(before);
  return status;
}

static wafer_status show(const request *r, const wafer_plan *plan) {
  switch (r->view) {
  case VIEW_text: return dump_text(stdout, plan), WAFER_OK;
  case VIEW_svg: return dump_svg(cli_diag(), plan, r->argument);
  case VIEW_json: return print_json(plan);
  case VIEW_xml: return print_xml(plan);
  case VIEW_mlir: return print_bytes(plan->mlir, plan->mlir_bytes);
  case VIEW_placement: return write_placement(plan, r->argument);
  case VIEW_diff: return show_diff(r, plan);
  case VIEW_certificate: return dump_certificate(stdout, cli_diag(), plan);
  case VIEW_core: return dump_core(stdout, cli_diag(), plan, r->x, r->y);
  case VIEW_verify: return verify(r, plan);
  case VIEW_kernel:
  case VIEW_why:
  case VIEW_program: return show_kernel(r, plan);
  }
  return WAFER_INTERNAL;
}

int wafer_tool_dump(int argc, char **argv) {
  request r = {.view = VIEW_text};
  int code;
  if (parse(argc, argv, &r, &code)) return code;
  bool writes = r.view == VIEW_svg || r.view == VIEW_placement;
  const char *const files[] = {writes ? r.argument : NULL, r.plan};
  WAFER_TRY(cli_check_apart("dump", files, 1, WAFER_COUNT(files)));
  const wafer_plan *plan;
  WAFER_TRY(wafer_plan_open(cli_diag(), r.plan, &plan));
  wafer_status status = show(&r, plan);
  wafer_plan_close(plan);
  return status;
}
