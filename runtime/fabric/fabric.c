/* A fabric's life: its arrays, its cores at rest, its memory from outside. */
#include <stdlib.h>
#include <string.h>

#include "core_value.h"
#include "router.h"

static uint32_t threads_of(const wafer_core_program *program) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < program->code_count; i++)
    if (program->code[i].thread >= most) most = program->code[i].thread + 1u;
  return most;
}

/* The colours (modulo 32) on which a step may send several words. */
static uint32_t wide_colors(const wafer_core_program *program) {
  uint32_t colors = 0;
  for (uint32_t i = 0; i < program->code_count; i++) {
    const wafer_instruction *code = &program->code[i];
    if (code->op >= WAFER_CORE_VECTORS || code->out.kind != WAFER_OPERAND_fabric) continue;
    uint32_t bits = 8 * (uint32_t)wafer_dtype_bytes(code->out.dtype);
    bool wide = bits == 64;
    for (uint32_t k = 0; k < core_inputs(code); k++)
      wide |= code->in[k].kind == WAFER_OPERAND_fabric &&
              8 * wafer_dtype_bytes(code->in[k].dtype) < bits;
    if (wide) colors |= 1u << code->out.color % 32;
  }
  return colors;
}

/* What each program asks for, once. */
typedef struct demand {
  uint32_t threads, limit, wide;
  const core_thread *decoded;
  const core_scalar *scalars;
} demand;

static void place_core(wafer_fabric *f, uint32_t router, const demand *demands) {
  uint32_t index = f->program->core[router];
  if (index == WAFER_NO_PROGRAM) return;
  f->core_of[router] = f->core_count;
  fabric_core *core = &f->cores[f->core_count++];
  *core = (fabric_core){.program = &f->program->programs[index],
                        .router = router,
                        .thread_count = demands[index].threads,
                        .limit = demands[index].limit,
                        .wide = demands[index].wide,
                        .decoded = demands[index].decoded,
                        .scalars = demands[index].scalars,
                        .wake = FABRIC_NEVER};
  core->r[0] = (int32_t)(router % f->program->width);
  core->r[1] = (int32_t)(router / f->program->width);
  for (uint32_t i = 0; i < core->program->task_count; i++) {
    if (core->program->tasks[i].kind == WAFER_TASK_start) core->activated |= 1u << i;
    if (core->program->tasks[i].blocked) core->blocked |= 1u << i;
  }
}

static wafer_status no_room(const wafer_fabric *f) {
  return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                    "%u cores do not fit the host", f->count);
}

/* Instructions are decoded once, whatever number of cores runs them. */
static bool decode(wafer_fabric *f, demand *demands) {
  const wafer_fabric_program *p = f->program;
  size_t count = 0;
  for (uint32_t i = 0; i < p->program_count; i++) count += p->programs[i].code_count;
  f->decoded = aligned_alloc(64, (count + 1) * sizeof *f->decoded);
  f->scalars = malloc((count + 1) * sizeof *f->scalars);
  if (!f->decoded || !f->scalars) return false;
  core_thread *next = f->decoded;
  core_scalar *scalar = f->scalars;
  for (uint32_t i = 0; i < p->program_count; i++) {
    const wafer_core_program *program = &p->programs[i];
    demands[i].decoded = next;
    demands[i].scalars = scalar;
    for (uint32_t k = 0; k < program->code_count; k++, next++) {
      const wafer_instruction *code = &program->code[k];
      if (code->op < WAFER_CORE_VECTORS) core_decode(f->machine, program, code, next);
      *scalar++ = (core_scalar){code->value, code->target, code->op, code->a, code->b, code->c};
    }
  }
  return true;
}

/* Cores that have a program, with their microthreads and bindings. */
static wafer_status place_cores(wafer_fabric *f, demand *demands) {
  const wafer_fabric_program *p = f->program;
  size_t cores = 0, threads = 0, queues = 0;
  for (uint32_t i = 0; i < p->program_count; i++)
    demands[i] = (demand){.threads = threads_of(&p->programs[i]),
                          .limit = wafer_machine_core_budget(f->machine) -
                                   wafer_core_program_bytes(&p->programs[i]),
                          .wide = wide_colors(&p->programs[i])};
  for (uint32_t router = 0; router < f->count; router++) {
    if (p->core[router] == WAFER_NO_PROGRAM) continue;
    cores++;
    threads += demands[p->core[router]].threads;
    queues += p->programs[p->core[router]].binding_count;
  }
  f->cores = aligned_alloc(64, (cores + 1) * sizeof *f->cores);
  f->awake = malloc((cores + 1) * sizeof *f->awake);
  f->threads = aligned_alloc(64, (threads + 1) * sizeof *f->threads);
  f->queues = calloc(queues + 1, sizeof *f->queues);
  f->stage_of = calloc(cores + 1, sizeof *f->stage_of);
  f->caught = calloc(1, sizeof *f->caught);
  if (!f->caught || !f->stage_of || !f->cores || !f->awake || !f->threads || !f->queues ||
      !decode(f, demands))
    return no_room(f);
  memset(f->threads, 0, (threads + 1) * sizeof *f->threads);
  for (uint32_t router = 0; router < f->count; router++) place_core(f, router, demands);
  threads = queues = 0;
  for (uint32_t at = 0; at < f->core_count; at++) {
    f->cores[at].threads = f->threads + threads;
    f->cores[at].queue = f->queues + queues;
    threads += f->cores[at].thread_count;
    queues += f->cores[at].program->binding_count;
  }
  return WAFER_OK;
}

static wafer_status set_up(wafer_fabric *f) {
  f->count = f->program->width * f->program->height;
  if (!f->images) f->images = calloc(f->count, sizeof *f->images);
  f->core_of = malloc(f->count * sizeof *f->core_of);
  demand *demands = calloc(f->program->program_count + 1u, sizeof *demands);
  bool room = f->images && f->core_of && demands;
  for (uint32_t i = 0; room && i < f->count; i++) f->core_of[i] = FABRIC_NONE;
  wafer_status status = room ? place_cores(f, demands) : no_room(f);
  free(demands);
  if (status != WAFER_OK) return status;
  return fabric_build_routes(f);
}

wafer_status wafer_fabric_create(const wafer_diag *diag, const wafer_machine *machine,
                                 const wafer_fabric_program *program,
                                 const wafer_fabric_options *options, wafer_fabric **out) {
  *out = NULL;
  WAFER_TRY(fabric_check(diag, machine, program));
  wafer_fabric *f = calloc(1, sizeof *f);
  if (!f)
    return wafer_fail(diag, wafer_at_file(program->name), WAFER_NO_MEMORY, "no room for a fabric");
  f->diag = diag;
  f->machine = machine;
  f->program = program;
  f->plain = options && options->plain;
  f->single = f->plain || (options && options->single);
  f->asked_strips = options ? options->strips : 0;
  f->asked_island = options ? options->island : 0;
  f->asked_islands = options && options->islands;
  bool alone = !options || options->threads == 1;
  if (!alone) f->workers = thread_pool_create(options->threads);
  wafer_status status = alone || f->workers ? set_up(f) : no_room(f);
  if (status != WAFER_OK)
    wafer_fabric_destroy(f);
  else
    *out = f;
  return status;
}

/* What belongs to the program, not to the fabric. */
static void drop_program(wafer_fabric *f) {
  fabric_strips_free(f);
  fabric_islands_free(f);
  fabric_edge_free(f);
  fabric_faults_free(f);
  fabric_free_lists(f);
  free(f->core_of);
  free(f->cores);
  free(f->threads);
  free(f->decoded);
  free(f->scalars);
  free(f->queues);
  free(f->nodes);
  free(f->first_site);
  free(f->filters);
  free(f->sites);
  free(f->pool);
  free(f->outs);
  free(f->candidates);
  free(f->ways);
  free(f->links);
  free(f->gates);
  router_bits_free(f);
  free(f->switches);
  free(f->entered);
  fabric_free_fans(f);
  free(f->stage_of);
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
                      .images = f->images,
                      .mark = f->mark,
                      .mark_user = f->mark_user,
                      .single = f->single,
                      .plain = f->plain,
                      .workers = f->workers,
                      .asked_strips = f->asked_strips,
                      .asked_island = f->asked_island,
                      .asked_islands = f->asked_islands,
                      .counts = f->counts,
                      .shuffle = f->shuffle};
  return set_up(f);
}

void wafer_fabric_destroy(wafer_fabric *f) {
  if (!f) return;
  drop_program(f);
  for (uint32_t i = 0; f->images && i < f->count; i++) free(f->images[i].data);
  free(f->images);
  thread_pool_destroy(f->workers);
  free(f);
}

void wafer_fabric_observe(wafer_fabric *f, wafer_mark *mark, void *user) {
  f->mark = mark;
  f->mark_user = user;
}
void wafer_fabric_set(wafer_fabric *f, uint32_t x, uint32_t y, uint32_t reg, int32_t value) {
  uint32_t at = f->core_of[y * f->program->width + x];
  if (at != FABRIC_NONE) f->cores[at].r[reg] = value;
}
int32_t wafer_fabric_get(const wafer_fabric *f, uint32_t x, uint32_t y, uint32_t reg) {
  uint32_t at = f->core_of[y * f->program->width + x];
  return at == FABRIC_NONE ? 0 : f->cores[at].r[reg];
}
