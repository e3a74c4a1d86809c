/* Pieces -> a launch: linked into one program, timed, and its bytes kept once. */
#include <string.h>

#include "launch_state.h"
#include "wafer/assembly.h"

static uint32_t find_program(const launcher *l, wafer_bytes bytes) {
  uint32_t i = 0;
  while (i < l->program_count && (l->programs[i].size != bytes.size ||
                                  memcmp(l->programs[i].data, bytes.data, bytes.size) != 0))
    i++;
  return i;
}

/* Pieces of an action stand together, and follow each other; actions run at once. */
static uint64_t longest_action(const launch_pieces *p) {
  uint64_t longest = 0, own = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    own = p->at[i]->cycles + (i > 0 && p->parts[i] == p->parts[i - 1] ? own : 0);
    if (own > longest) longest = own;
  }
  return longest;
}

/* Of each core the address behind all that a place of the map has on it, if that is more. */
static void raise_tops(const memory_map *map, const wafer_machine *m, uint32_t *tops) {
  for (uint32_t i = 0; i < map->count; i++) {
    const memory_place *p = &map->at[i];
    for (uint32_t y = p->at.rect.y; y < p->at.rect.y + p->at.rect.height; y++)
      for (uint32_t x = p->at.rect.x; x < p->at.rect.x + p->at.rect.width; x++) {
        uint32_t *top = &tops[(size_t)y * m->width + x];
        if (p->address + p->bytes > *top) *top = p->address + p->bytes;
      }
  }
}

/* Behind all places of the map. */
static uint32_t top_of(const memory_map *map) {
  uint32_t top = 0;
  for (uint32_t i = 0; i < map->count; i++)
    if (map->at[i].address + map->at[i].bytes > top) top = map->at[i].address + map->at[i].bytes;
  return top;
}

/* Is there room for the programs beside all that cores hold? Sizing knows their code about; in a
 * train what goes ahead comes twice in it, and holds more. */
static wafer_status check_code(launcher *l, const wafer_fabric_program *program) {
  const wafer_machine *m = l->plan->machine;
  size_t cores = (size_t)m->width * m->height;
  uint32_t *code = WAFER_NEW(l->arena, uint32_t, program->program_count);
  uint32_t longest = 0, top = top_of(&l->map), passing = top_of(&l->passing);
  if (!code) return launch_no_memory(l);
  for (uint32_t i = 0; i < program->program_count; i++) {
    code[i] = wafer_core_program_bytes(&program->programs[i]);
    if (code[i] > longest) longest = code[i];
  }
  if ((top > passing ? top : passing) + longest <= l->map.limit) return WAFER_OK;
  uint32_t *tops = WAFER_NEW(l->arena, uint32_t, cores);
  if (!tops) return launch_no_memory(l);
  raise_tops(&l->map, m, tops);
  raise_tops(&l->passing, m, tops);
  for (size_t i = 0; i < cores; i++)
    if (program->core[i] != WAFER_NO_PROGRAM && tops[i] + code[program->core[i]] > l->map.limit)
      return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_NO_FIT,
                        "core (%zu,%zu) holds %u bytes and has %u bytes of code", i % m->width,
                        i / m->width, tops[i], code[program->core[i]]);
  return WAFER_OK;
}

/* Words of a train go other ways than was known when it was timed. */
static wafer_status time_again(launcher *l, launch_pieces *p, const fragment *const *around,
                               wafer_launch *launch) {
  p->at = wafer_arena_copy(l->arena, around, p->count * sizeof *around);
  return p->at ? launch_time(l, p, launch->phase, (launch_wish){UINT64_MAX, 0, NULL},
                             &launch->interval)
               : launch_no_memory(l);
}

/* Room for one more in a list that lives as long as the plan; false: out of memory. */
static bool grow(wafer_arena *arena, void *list, uint32_t count, uint32_t *room, size_t size) {
  void *old, *more;
  if (count < *room) return true;
  uint32_t next = *room ? 2 * *room : 64;
  memcpy(&old, list, sizeof old);
  if (!(more = wafer_arena_alloc(arena, next, size))) return false;
  if (count) memcpy(more, old, count * size);
  memcpy(list, &more, sizeof more);
  *room = next;
  return true;
}

/* The program with these bytes: one that is there, or a new one. */
static wafer_status keep_program(launcher *l, wafer_bytes bytes, uint32_t *program) {
  *program = find_program(l, bytes);
  if (*program < l->program_count) return WAFER_OK;
  void *copy = wafer_arena_alloc(l->ctx->arena, bytes.size, 1);
  if (!copy ||
      !grow(l->ctx->arena, &l->programs, l->program_count, &l->program_room, sizeof *l->programs))
    return launch_no_memory(l);
  memcpy(copy, bytes.data, bytes.size);
  l->programs[l->program_count++] = (wafer_bytes){copy, bytes.size};
  return WAFER_OK;
}

/* Its program, and the ports that it has. */
typedef struct linked {
  wafer_arena *arena;
  wafer_bytes program;
  fragment_ports ports;
} linked;

/* One program of the pieces. */
static wafer_status link_pieces(launcher *l, wafer_launch *launch, const char *name,
                                launch_pieces *p, linked *out) {
  const wafer_machine *m = l->plan->machine;
  fragment_link link = {
      .name = name,
      .width = m->width,
      .height = m->height,
      .count = p->count,
      .at = (const fragment *const *)p->at,
      .marks = true,
      .step_count = p->step_count,
      .steps = p->steps,
      .once = p->once,
      .due = p->due,
      .period = p->period,
      .effort = &l->effort,
      .lacks_colors = &l->lacks_colors,
      .stripes = launch->kind == WAFER_LAUNCH_action ? wafer_launch_samples(l->plan, launch) : 1,
      .stripe_columns = l->plan->stripe_columns,
      .ports = &out->ports};
  wafer_fabric_program program;
  const fragment *const *around = NULL;
  if (l->may_go_around) link.around = &around;
  WAFER_TRY(fragment_link_program(&l->diag, out->arena, m, &link, &program));
  WAFER_TRY(check_code(l, &program));
  if (around) WAFER_TRY(time_again(l, p, around, launch));
  return wafer_fabric_program_write(out->arena, &program, &out->program) ? WAFER_OK
                                                                         : launch_no_memory(l);
}

static wafer_status keep_launch(launcher *l, wafer_launch launch, const launch_pieces *p) {
  if (launch.kind == WAFER_LAUNCH_load || launch.kind == WAFER_LAUNCH_action)
    launch.predicted = longest_action(p);
  if (launch.kind != WAFER_LAUNCH_train) launch.slowest = WAFER_NONE;
  launch.tap_count = p->tap_count;
  launch.taps = p->taps;
  if (!grow(l->ctx->arena, &l->launches, l->launch_count, &l->launch_room, sizeof *l->launches))
    return launch_no_memory(l);
  l->launches[l->launch_count++] = launch;
  return WAFER_OK;
}

static wafer_status finish_in(launcher *l, wafer_launch launch, const char *name, launch_pieces *p,
                              wafer_arena *arena) {
  linked of = {.arena = arena};
  wafer_bytes bytes;
  WAFER_TRY(link_pieces(l, &launch, name, p, &of));
  wafer_launch_body body = {.part_count = p->count,
                            .parts = p->parts,
                            .data_count = p->data.count,
                            .data = p->data.at,
                            .program = of.program,
                            .port_count = of.ports.count,
                            .ports = of.ports.at};
  if (!wafer_launch_write(arena, &body, &bytes)) return launch_no_memory(l);
  WAFER_TRY(keep_program(l, bytes, &launch.program));
  return keep_launch(l, launch, p);
}

/* What is linked goes with it, but where words go other ways: fragments that do last longer. */
wafer_status launch_finish(launcher *l, wafer_launch launch, const char *name, launch_pieces *p) {
  wafer_arena *own = l->may_go_around ? NULL : wafer_arena_create();
  if (!own && !l->may_go_around) return launch_no_memory(l);
  wafer_status status = finish_in(l, launch, name, p, own ? own : l->arena);
  wafer_arena_destroy(own);
  return status;
}
