/* wafer machines: the wafers that ship, as a table or as XML; checks of a user's own. */
#include <getopt.h>
#include <string.h>

#include "cli.h"

static const char usage[] =
    "usage: wafer machines                 list the wafers that ship\n"
    "       wafer machines NAME|FILE.xml   one of them in full, as XML\n"
    "       wafer machines --check FILE    is this machine file valid?\n\n"
    "A machine file describes a wafer: cores, memory, clock, fabric, edge. Start from a shipped "
    "one:\n"
    "  wafer machines wse2 > mine.xml && $EDITOR mine.xml && wafer machines --check mine.xml\n"
    "  wafer compile model.onnx -o model.wplan --machine mine.xml\n";

static void print_row(const wafer_machine *m) {
  char edge[32];
  if (m->edge_in_bytes_per_second == UINT64_MAX)
    snprintf(edge, sizeof edge, "unlimited");
  else
    snprintf(edge, sizeof edge, "%.0f Gb/s", (double)m->edge_in_bytes_per_second * 8e-9);
  printf("%-8s %4ux%-5u %4ux%-5u %9llu %6.2f GHz %6u B %7u %10s\n", m->name, m->width, m->height,
         m->usable.width, m->usable.height, (unsigned long long)wafer_rect_area(m->usable),
         (double)m->clock_hz * 1e-9, m->core_bytes, m->colors, edge);
}

static wafer_status list(wafer_arena *arena) {
  printf("%-8s %10s %10s %9s %10s %8s %7s %10s\n", "name", "fabric", "usable", "cores", "clock",
         "SRAM/core", "colors", "edge");
  for (const char *const *name = wafer_machine_names(); *name; name++) {
    const wafer_machine *machine;
    WAFER_TRY(wafer_machine_open(cli_diag(), arena, *name, &machine));
    print_row(machine);
  }
  return WAFER_OK;
}

static wafer_status show(wafer_arena *arena, const char *name) {
  size_t bytes;
  const char *shipped = wafer_machine_text(name, &bytes);
  if (shipped) return fwrite(shipped, 1, bytes, stdout) == bytes ? WAFER_OK : WAFER_IO;
  const wafer_machine *machine;
  char *text;
  WAFER_TRY(wafer_machine_open(cli_diag(), arena, name, &machine));
  WAFER_TRY(wafer_machine_print(cli_diag(), arena, machine, &text, &bytes));
  return fwrite(text, 1, bytes, stdout) == bytes ? WAFER_OK : WAFER_IO;
}

static wafer_status check(wafer_arena *arena, const char *path) {
  const wafer_machine *machine;
  WAFER_TRY(wafer_machine_open(cli_diag(), arena, path, &machine));
  printf("%s: valid: %s, %llu usable cores\n", path, machine->name,
         (unsigned long long)wafer_rect_area(machine->usable));
  return WAFER_OK;
}

int wafer_tool_machines(int argc, char **argv) {
  static const struct option options[] = {
      {"check", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'}, {0}};
  const char *file = NULL;
  for (int c; (c = cli_option("machines", argc, argv, "h", options)) != -1;) {
    if (c == 'h') return fputs(usage, stdout), WAFER_OK;
    if (c != 'c') return WAFER_USAGE;
    file = optarg;
  }
  if (argc - optind + (file != NULL) > 1) return cli_usage("machines", "one machine at a time");
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  wafer_status status = file            ? check(arena, file)
                        : optind < argc ? show(arena, argv[optind])
                                        : list(arena);
  wafer_arena_destroy(arena);
  return status;
}
