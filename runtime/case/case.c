/* Runs a case: builds its program, fills the cores, runs, checks every answer. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "case_build.h"

static const case_row *const rows[] = {
#define CASE(name) &case_##name##_row,
#include "cases.def"
};

const wafer_case_info *wafer_case_list(void) {
  static wafer_case_info list[WAFER_COUNT(rows) + 1];
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) list[i] = rows[i]->info;
  return list;
}

static const case_row *row_of(const char *name) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (!strcmp(rows[i]->info.name, name)) return rows[i];
  return NULL;
}

/* The algorithm asked for as the case's list "star|chain" spells it, whatever its case. */
static wafer_status settle_algorithm(case_build *b, const char *list) {
  const char *asked = b->o.algorithm;
  size_t bytes = asked ? strlen(asked) : 0;
  if (!asked) return WAFER_OK;
  for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (!strncasecmp(at, asked, bytes) && (at[bytes] == '|' || !at[bytes])) {
      b->o.algorithm = wafer_arena_strndup(b->arena, at, bytes);
      return b->o.algorithm ? WAFER_OK : case_refuse(b, "no memory for the name of an algorithm");
    }
  if (!*list) return case_refuse(b, "the case has one algorithm");
  return case_refuse(b, "there is no such algorithm, but %s", list);
}

static wafer_status fill_words(case_build *b) {
  unsigned char *data = wafer_arena_alloc(b->arena, b->o.words, b->bytes);
  if (!data) return case_refuse(b, "no memory for the inputs");
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) {
      if (b->core[y * b->o.width + x] == WAFER_NO_PROGRAM) continue;
      for (uint32_t i = 0; i < b->o.words; i++)
        wafer_element_set_f64(b->o.dtype, data, i, case_input(b, x, y, i));
      if (!wafer_fabric_write(b->fabric, x, y, 0, data, b->o.words * b->bytes))
        return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_NO_FIT,
                          "%u elements do not fit a core of %s", b->o.words, b->machine->name);
    }
  return WAFER_OK;
}

static wafer_status differs(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double got,
                            double want) {
  return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_DIFFER,
                    "core (%u,%u) holds %.9g as element %u; expected %.9g", x, y, got, i, want);
}

static wafer_status check_core(case_build *b, const case_row *row, uint32_t x, uint32_t y,
                               void *data) {
  double want;
  uint32_t words = b->answer_words ? b->answer_words : b->o.words;
  if (!row->expect(b, x, y, 0, &want)) return WAFER_OK;
  if (!wafer_fabric_read(b->fabric, x, y, b->answer, data, words * b->bytes))
    return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_DIFFER,
                      "core (%u,%u) has not written its answer", x, y);
  for (uint32_t i = 0; i < words; i++) {
    row->expect(b, x, y, i, &want);
    double got = wafer_element_f64(b->o.dtype, data, i);
    if (got != want) return differs(b, x, y, i, got, want);
    b->checked++;
  }
  return WAFER_OK;
}

static wafer_status check(case_build *b, const case_row *row) {
  uint32_t words = b->answer_words ? b->answer_words : b->o.words;
  void *data = wafer_arena_alloc(b->arena, words, b->bytes);
  if (!data) return case_refuse(b, "no memory for the answers");
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) WAFER_TRY(check_core(b, row, x, y, data));
  return WAFER_OK;
}

static wafer_status seal(case_build *b) {
  wafer_core_program *programs = WAFER_NEW(b->arena, wafer_core_program, b->program_count);
  if (!programs || b->failed)
    return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_NO_MEMORY,
                      "the case does not fit the host");
  for (uint32_t i = 0; i < b->program_count; i++) programs[i] = b->programs[i]->program;
  b->fabric_program.programs = programs;
  b->fabric_program.program_count = b->program_count;
  b->fabric_program.core = b->core;
  b->fabric_program.routes = b->routes;
  b->fabric_program.route_count = b->route_count;
  return WAFER_OK;
}

/* Cycles of what counts, for all repeats. */
static uint64_t cycles_of(const case_build *b, const wafer_case_result *result) {
  uint64_t sum = 0, cores = 0;
  if (!b->timed) return result->stats.cycles;
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) {
      if (b->core[y * b->o.width + x] == WAFER_NO_PROGRAM) continue;
      sum += (uint32_t)wafer_fabric_get(b->fabric, x, y, 14) -
             (uint32_t)wafer_fabric_get(b->fabric, x, y, 13);
      cores++;
    }
  return cores ? (sum + cores / 2) / cores : 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static wafer_status load(case_build *b, const case_row *row) {
  const wafer_fabric_options options = {
      .threads = b->o.threads, .single = b->o.single || b->o.fault_count, .plain = b->o.plain};
  WAFER_TRY(wafer_fabric_create(b->diag, b->machine, &b->fabric_program, &options, &b->fabric));
  WAFER_TRY(row->fill ? row->fill(b) : fill_words(b));
  if (row->prepare) row->prepare(b);
  wafer_fabric_shuffle(b->fabric, b->o.visits);
  return WAFER_OK;
}

/* Once more, with faults; a fabric whose run traps has said which of them struck. */
static wafer_status run_with_faults(case_build *b, const case_row *row, wafer_case_result *result) {
  wafer_fabric_stats stats;
  wafer_fabric_destroy(b->fabric);
  b->fabric = NULL;
  WAFER_TRY(load(b, row));
  WAFER_TRY(wafer_fabric_inject(b->fabric, b->o.faults, b->o.fault_count, 0,
                                4 * result->stats.cycles + 1000));
  wafer_status status = wafer_fabric_run(b->fabric, &stats);
  if (status == WAFER_OK) {
    status = check(b, row);
    if (status != WAFER_OK) wafer_fabric_note_faults(b->fabric);
  }
  for (uint32_t i = 0; i < b->o.fault_count; i++)
    result->struck += wafer_fabric_struck(b->fabric, i) != UINT64_MAX;
  return status;
}

static wafer_status run(case_build *b, const case_row *row, wafer_case_result *result) {
  WAFER_TRY(load(b, row));
  double start = seconds();
  WAFER_TRY(wafer_fabric_run(b->fabric, &result->stats));
  result->seconds = seconds() - start;
  WAFER_TRY(check(b, row));
  result->counted = (cycles_of(b, result) + b->o.repeat / 2) / b->o.repeat;
  result->predicted = b->predicted;
  result->checked = b->checked;
  return b->o.fault_count ? run_with_faults(b, row, result) : WAFER_OK;
}

/* Input and answer; code comes on top. */
static wafer_status check_room(const case_build *b) {
  uint64_t words = b->answer_words ? b->answer_words : b->o.words;
  uint64_t bytes = b->answer + words * b->bytes, room = wafer_machine_core_budget(b->machine);
  if (bytes <= room) return WAFER_OK;
  return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_NO_FIT,
                    "%u words, and where the answer goes, take %llu bytes of a core, which has "
                    "%llu; give fewer --words",
                    b->o.words, (unsigned long long)bytes, (unsigned long long)room);
}

static wafer_status start(case_build *b, const case_row *row) {
  wafer_case_options *o = &b->o;
  if (!o->width) o->width = 1;
  if (!o->height) o->height = 1;
  if (!o->repeat) o->repeat = 1;
  if (o->dtype == WAFER_DTYPE_none) o->dtype = WAFER_DTYPE_f32;
  if (o->dtype != WAFER_DTYPE_f32 && o->dtype != WAFER_DTYPE_f16)
    return case_refuse(b, "the types are f32 and f16");
  if (!o->words || o->words > b->machine->core_bytes)
    return case_refuse(b, "1 to %u words, the bytes of a core of %s", b->machine->core_bytes,
                       b->machine->name);
  if (o->width > b->machine->width || o->height > b->machine->height)
    return case_refuse(b, "%s has %ux%u cores", b->machine->name, b->machine->width,
                       b->machine->height);
  WAFER_TRY(settle_algorithm(b, row->info.algorithms));
  case_set_words(b, o->words);
  size_t cores = (size_t)o->width * o->height;
  b->core = WAFER_NEW(b->arena, uint32_t, cores);
  if (!b->core) return case_refuse(b, "no memory for the cores");
  for (size_t i = 0; i < cores; i++) b->core[i] = WAFER_NO_PROGRAM;
  b->fabric_program =
      (wafer_fabric_program){.name = row->info.name, .width = o->width, .height = o->height};
  WAFER_TRY(row->build(b));
  WAFER_TRY(check_room(b));
  return seal(b);
}

static wafer_status find(const wafer_diag *diag, const char *name, const case_row **row) {
  *row = row_of(name);
  if (*row) return WAFER_OK;
  return wafer_fail(diag, (wafer_loc){0}, WAFER_USAGE,
                    "there is no case '%s'; `wafer fabric --help` lists them", name);
}

wafer_status wafer_case_program(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_machine *machine, const char *name,
                                const wafer_case_options *options,
                                const wafer_fabric_program **out) {
  const case_row *row;
  WAFER_TRY(find(diag, name, &row));
  case_build *b = WAFER_NEW(arena, case_build, 1);
  if (!b) return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no room for a case");
  *b = (case_build){.diag = diag, .machine = machine, .o = *options, .arena = arena};
  b->fabric_program.name = name;
  WAFER_TRY(start(b, row));
  *out = &b->fabric_program;
  return WAFER_OK;
}

wafer_status wafer_case_run(const wafer_diag *diag, const wafer_machine *machine, const char *name,
                            const wafer_case_options *options, wafer_case_result *result) {
  *result = (wafer_case_result){0};
  const case_row *row;
  WAFER_TRY(find(diag, name, &row));
  case_build b = {.diag = diag, .machine = machine, .o = *options, .arena = wafer_arena_create()};
  b.fabric_program.name = name;
  if (!b.arena) return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no room for a case");
  wafer_status status = start(&b, row);
  if (status == WAFER_OK) status = run(&b, row, result);
  wafer_fabric_destroy(b.fabric);
  wafer_arena_destroy(b.arena);
  return status;
}
