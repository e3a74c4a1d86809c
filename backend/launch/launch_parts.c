/* Kernels that run at once, when their exchanges want more colours than there are: in parts, one
 * behind the other, each a launch that has all colours. What one leaves in memory the next finds
 * there. */
#include "launch_state.h"

typedef struct parts {
  launcher *l;
  const wafer_launch *launch;
  const char *name;
  uint32_t count;   /* of parts so far */
  uint64_t *cycles; /* of each action of the phase, over these */
} parts;

/* Pieces of an action stand together: the end of those at `first`. */
static uint32_t action_end(const launch_pieces *p, uint32_t first) {
  uint32_t end = first + 1;
  while (end < p->count && p->parts[end] == p->parts[first]) end++;
  return end;
}

static uint32_t most_of_an_action(const launch_pieces *p) {
  uint32_t most = 0;
  for (uint32_t i = 0, end; i < p->count; i = end) {
    end = action_end(p, i);
    most = end - i > most ? end - i : most;
  }
  return most;
}

/* Of each action's pieces the first half, or the second. Constants lie there from the beginning;
 * outputs do at the end. False: out of memory. */
static bool halve(launcher *l, const launch_pieces *p, bool second, launch_pieces *out) {
  *out = (launch_pieces){.action = p->action};
  for (uint32_t i = 0, end; i < p->count; i = end) {
    end = action_end(p, i);
    uint32_t middle = i + (end - i + 1) / 2;
    for (uint32_t k = second ? middle : i; k < (second ? end : middle); k++)
      if (!launch_add_piece(l, out, p->at[k], p->parts[k])) return false;
  }
  if (!second) out->data = p->data;
  if (second) out->taps = p->taps;
  if (second) out->tap_count = p->tap_count;
  return true;
}

static wafer_status add_cycles(parts *all, const launch_pieces *p) {
  for (uint32_t i = 0, end; i < p->count; i = end) {
    uint64_t cycles;
    end = action_end(p, i);
    WAFER_TRY(launch_time_kernel(all->l, p->at + i, end - i, &cycles));
    all->cycles[p->parts[i]] += cycles;
  }
  return WAFER_OK;
}

/* `part`: there are others. */
static wafer_status finish(parts *all, launch_pieces *p, bool part) {
  launcher *l = all->l;
  launch_pieces half;
  l->lacks_colors = false;
  wafer_status status = launch_finish(l, *all->launch, all->name, p);
  all->count += status == WAFER_OK;
  if (status == WAFER_OK) return part ? add_cycles(all, p) : WAFER_OK;
  if (status != WAFER_NO_FIT || !l->lacks_colors || most_of_an_action(p) < 2) return status;
  l->why[0] = 0;
  for (int second = 0; second < 2; second++) {
    if (!halve(l, p, second, &half)) return launch_no_memory(l);
    WAFER_TRY(finish(all, &half, true));
  }
  return WAFER_OK;
}

wafer_status launch_finish_parts(launcher *l, const wafer_launch *launch, const char *name,
                                 launch_pieces *p) {
  const wafer_phase *phase = &l->plan->phases[launch->phase];
  parts all = {.l = l,
               .launch = launch,
               .name = name,
               .cycles = WAFER_NEW(l->arena, uint64_t, phase->action_count)};
  if (!all.cycles) return launch_no_memory(l);
  WAFER_TRY(finish(&all, p, false));
  for (uint32_t a = 0; a < phase->action_count && all.count > 1; a++)
    if (phase->actions[a].kind == WAFER_ACTION_kernel && all.cycles[a])
      l->kernels[phase->actions[a].index].program_cycles = all.cycles[a];
  return WAFER_OK;
}
