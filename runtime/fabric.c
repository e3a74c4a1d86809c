/* A fabric's life: its arrays, its cores at rest, its memory from outside. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric_state.h"

/* Zero pages that take memory when they are written. */
static void *reserve(size_t bytes) {
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void place_core(wafer_fabric *f, uint32_t at) {
  fabric_core *core = &f->cores[at];
  uint32_t index = f->program->core[at];
  core->wake = FABRIC_NEVER;
  core->r[0] = (int32_t)(at % f->program->width);
  core->r[1] = (int32_t)(at / f->program->width);
  core->limit = wafer_machine_core_budget(f->machine);
  if (index == WAFER_NO_PROGRAM) return;
  core->program = &f->program->programs[index];
  core->limit -= wafer_core_program_bytes(core->program);
  for (uint32_t i = 0; i < core->program->task_count; i++) {
    if (core->program->tasks[i].kind == WAFER_TASK_start) core->activated |= 1u << i;
    if (core->program->tasks[i].blocked) core->blocked |= 1u << i;
  }
}

static wafer_status set_up(wafer_fabric *f) {
  f->count = f->program->width * f->program->height;
  f->written_words = (f->machine->core_bytes + 63) / 64;
  f->cores = calloc(f->count, sizeof *f->cores);
  f->awake = calloc(f->count, sizeof *f->awake);
  if (!f->memory) f->memory = reserve((size_t)f->count * f->machine->core_bytes);
  if (!f->written) f->written = reserve((size_t)f->count * f->written_words * sizeof *f->written);
  if (!f->cores || !f->awake || !f->memory || !f->written)
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                      "%u cores do not fit the host", f->count);
  for (uint32_t at = 0; at < f->count; at++) place_core(f, at);
  for (uint32_t i = 0; i < FABRIC_WHEEL; i++) f->bucket[i] = FABRIC_NONE;
  return fabric_build_routes(f);
}

wafer_status wafer_fabric_create(const wafer_diag *diag, const wafer_machine *machine,
                                 const wafer_fabric_program *program, wafer_fabric **out) {
  *out = NULL;
  WAFER_TRY(fabric_check(diag, machine, program));
  wafer_fabric *f = calloc(1, sizeof *f);
  if (!f)
    return wafer_fail(diag, wafer_at_file(program->name), WAFER_NO_MEMORY, "no room for a fabric");
  f->diag = diag;
  f->machine = machine;
  f->program = program;
  wafer_status status = set_up(f);
  if (status != WAFER_OK)
    wafer_fabric_destroy(f);
  else
    *out = f;
  return status;
}

/* What belongs to the program, not to the fabric. */
static void drop_program(wafer_fabric *f) {
  fabric_edge_free(f);
  fabric_faults_free(f);
  free(f->cores);
  free(f->awake);
  free(f->nodes);
  free(f->first_site);
  free(f->filters);
  free(f->sites);
  free(f->pool);
  free(f->active);
  free(f->outs);
  free(f->ranks);
  free(f->links);
  free(f->contended);
  free(f->switches);
  free(f->turning);
}

wafer_status wafer_fabric_reprogram(wafer_fabric *f, const wafer_fabric_program *program) {
  WAFER_TRY(fabric_check(f->diag, f->machine, program));
  if (program->width != f->program->width || program->height != f->program->height)
    return wafer_fail(f->diag, wafer_at_file(program->name), WAFER_USAGE,
                      "%ux%u cores on a fabric of %ux%u", program->width, program->height,
                      f->program->width, f->program->height);
  drop_program(f);
  *f = (wafer_fabric){.diag = f->diag,
                      .machine = f->machine,
                      .program = program,
                      .memory = f->memory,
                      .written = f->written,
                      .mark = f->mark,
                      .mark_user = f->mark_user,
                      .shuffle = f->shuffle};
  return set_up(f);
}

void wafer_fabric_destroy(wafer_fabric *f) {
  if (!f) return;
  drop_program(f);
  if (f->memory) munmap(f->memory, (size_t)f->count * f->machine->core_bytes);
  if (f->written) munmap(f->written, (size_t)f->count * f->written_words * sizeof *f->written);
  free(f);
}

void wafer_fabric_observe(wafer_fabric *f, wafer_mark *mark, void *user) {
  f->mark = mark;
  f->mark_user = user;
}
void wafer_fabric_set(wafer_fabric *f, uint32_t x, uint32_t y, uint32_t reg, int32_t value) {
  f->cores[y * f->program->width + x].r[reg] = value;
}
int32_t wafer_fabric_get(const wafer_fabric *f, uint32_t x, uint32_t y, uint32_t reg) {
  return f->cores[y * f->program->width + x].r[reg];
}
