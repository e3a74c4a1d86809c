/* A machine as the XML that machine_xml.c reads: plans carry it, `wafer machines NAME` prints it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_fields.h"

static void print_fields(FILE *to, const wafer_machine *machine, const char *element) {
  fprintf(to, "  <%s", element);
  for (size_t i = 0; i < machine_field_count; i++) {
    const machine_field *field = &machine_fields[i];
    uint64_t value = machine_field_get(machine, field);
    if (strcmp(field->element, element) != 0) continue;
    if (field->kind == FIELD_optional && value == field->minimum) continue;
    if (field->kind == FIELD_bandwidth && value == UINT64_MAX)
      fprintf(to, " %s=\"unlimited\"", field->attribute);
    else
      fprintf(to, " %s=\"%" PRIu64 "\"", field->attribute, value);
  }
  fprintf(to, "/>\n");
}

static void print_rates(FILE *to, const wafer_machine *machine) {
  for (int rate = 0; rate < WAFER_RATE_COUNT; rate++) {
    const wafer_throughput *t = machine->rate[rate];
    fprintf(to, "  <rate of=\"%s\" bits32=\"%u/%u\" bits16=\"%u/%u\"/>\n",
            wafer_rate_name((wafer_rate)rate), t[0].elements, t[0].cycles, t[1].elements,
            t[1].cycles);
  }
}

static void print_queues(FILE *to, const char *element, uint32_t count, const uint32_t *words) {
  fprintf(to, "  <%s words=\"", element);
  for (uint32_t i = 0; i < count; i++) fprintf(to, "%s%u", i ? " " : "", words[i]);
  fprintf(to, "\"/>\n");
}

static void print_defects(FILE *to, const wafer_machine *machine) {
  const wafer_defects listed = {.dead_count = machine->dead_count, .dead = machine->dead};
  const wafer_defects *d = machine->defects ? machine->defects : &listed;
  for (uint32_t i = 0; i < d->dead_count; i++)
    fprintf(to, "  <dead x=\"%u\" y=\"%u\"/>\n", d->dead[i].x, d->dead[i].y);
  for (uint32_t i = 0; i < d->link_count; i++)
    fprintf(to, "  <dead-link x=\"%u\" y=\"%u\" to=\"%s\"/>\n", d->links[i].x, d->links[i].y,
            d->links[i].south ? "south" : "east");
  if (d->per_million)
    fprintf(to, "  <random-dead per-million=\"%u\" seed=\"%" PRIu64 "\"/>\n", d->per_million,
            d->seed);
  if (d->policy != WAFER_REPAIR_avoid)
    fprintf(to, "  <repair with=\"%s\"/>\n", wafer_repair_name(d->policy));
  for (uint32_t i = 0; i < machine->reserved_count; i++)
    fprintf(to, "  <reserved x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"/>\n",
            machine->reserved[i].x, machine->reserved[i].y, machine->reserved[i].width,
            machine->reserved[i].height);
}

/* The wafer as it was made, with its defects and bands: repair is worked out anew. */
static void print_all(FILE *to, const wafer_machine *derived) {
  wafer_machine made = *wafer_machine_whole(derived);
  const wafer_machine *machine = &made;
  if (made.repair) {
    made.width = made.repair->width;
    made.height = made.repair->height;
    made.usable = made.repair->usable;
    made.hop_cycles = made.repair->hop_cycles;
  }
  fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  fprintf(to, "<machine version=\"1\" name=\"%s\">\n", machine->name);
  print_fields(to, machine, "fabric");
  print_fields(to, machine, "usable");
  print_defects(to, machine);
  if (derived->whole) {
    fprintf(to, "  <bands count=\"%u\"", derived->cut.bands);
    if (derived->cut.sides > 1) fprintf(to, " sides=\"%u\"", derived->cut.sides);
    if (derived->cut.together) fputs(" together=\"true\"", to);
    fputs("/>\n", to);
  }
  print_fields(to, machine, "clock");
  print_fields(to, machine, "core");
  print_rates(to, machine);
  print_fields(to, machine, "router");
  print_queues(to, "input-queues", machine->input_queues, machine->input_queue_words);
  print_queues(to, "output-queues", machine->output_queues, machine->output_queue_words);
  print_fields(to, machine, "edge");
  print_fields(to, machine, "memoryx");
  print_fields(to, machine, "swarmx");
  fprintf(to, "</machine>\n");
}

wafer_status wafer_machine_print(const wafer_diag *diag, wafer_arena *arena,
                                 const wafer_machine *machine, char **text, size_t *bytes) {
  char *made = NULL;
  size_t size = 0;
  *text = NULL;
  *bytes = 0;
  WAFER_TRY(wafer_machine_check(diag, machine->name, machine));
  FILE *to = open_memstream(&made, &size);
  if (to) print_all(to, machine);
  bool complete = to && !ferror(to);
  if (to && fclose(to) != 0) complete = false;
  if (complete) *text = wafer_arena_strndup(arena, made, size);
  free(made);
  if (!*text)
    return wafer_fail(diag, wafer_at_file(machine->name), WAFER_NO_MEMORY, "out of memory");
  *bytes = size;
  return WAFER_OK;
}
