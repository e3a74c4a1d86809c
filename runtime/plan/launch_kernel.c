/* The program that one kernel runs at fabric fidelity: its own launch, or its cores' part of a
 * pipeline's. */
#include <stdio.h>
#include <string.h>

#include "wafer/assembly.h"
#include "wafer/plan.h"

static wafer_rect common(wafer_rect a, wafer_rect b) {
  if (!wafer_rect_overlaps(a, b)) return (wafer_rect){0};
  uint32_t x = a.x > b.x ? a.x : b.x, y = a.y > b.y ? a.y : b.y;
  uint32_t right = a.x + a.width < b.x + b.width ? a.x + a.width : b.x + b.width;
  uint32_t below = a.y + a.height < b.y + b.height ? a.y + a.height : b.y + b.height;
  return (wafer_rect){x, y, right - x, below - y};
}

/* ---- a part of a program ---- */

/* Core programs that cores of the rectangle run, in their order, renumbered. */
static bool cut_cores(wafer_arena *arena, wafer_rect rect, const wafer_fabric_program *from,
                      wafer_fabric_program *to) {
  size_t cores = (size_t)from->width * from->height;
  uint32_t *core = WAFER_NEW(arena, uint32_t, cores);
  uint32_t *number = WAFER_NEW(arena, uint32_t, from->program_count);
  wafer_core_program *programs = WAFER_NEW(arena, wafer_core_program, from->program_count);
  if (!core || !number || !programs) return false;
  for (size_t i = 0; i < cores; i++) {
    bool here = wafer_rect_has(rect, (uint32_t)(i % from->width), (uint32_t)(i / from->width));
    core[i] = here ? from->core[i] : WAFER_NO_PROGRAM;
    if (core[i] != WAFER_NO_PROGRAM) number[core[i]] = 1;
  }
  to->program_count = 0;
  for (uint32_t i = 0; i < from->program_count; i++) {
    if (!number[i]) continue;
    number[i] = to->program_count;
    programs[to->program_count++] = from->programs[i];
  }
  for (size_t i = 0; i < cores; i++)
    if (core[i] != WAFER_NO_PROGRAM) core[i] = number[core[i]];
  to->programs = programs;
  to->core = core;
  return true;
}

static bool cut_routes(wafer_arena *arena, wafer_rect rect, const wafer_fabric_program *from,
                       wafer_fabric_program *to) {
  wafer_route *routes = WAFER_NEW(arena, wafer_route, from->route_count);
  if (!routes) return false;
  to->route_count = 0;
  for (uint32_t i = 0; i < from->route_count; i++) {
    wafer_route route = from->routes[i];
    route.cores = common(route.cores, rect);
    if (wafer_rect_area(route.cores)) routes[to->route_count++] = route;
  }
  to->routes = routes;
  return true;
}

static bool cut_filters(wafer_arena *arena, wafer_rect rect, const wafer_fabric_program *from,
                        wafer_fabric_program *to) {
  wafer_filter_use *uses = WAFER_NEW(arena, wafer_filter_use, from->filter_use_count);
  wafer_filter *filters = WAFER_NEW(arena, wafer_filter, from->filter_count);
  uint32_t *number = WAFER_NEW(arena, uint32_t, from->filter_count); /* 1 + the new one */
  if (!uses || !filters || !number) return false;
  to->filter_count = to->filter_use_count = 0;
  for (uint32_t i = 0; i < from->filter_use_count; i++) {
    wafer_filter_use use = from->filter_uses[i];
    use.cores = common(use.cores, rect);
    if (!wafer_rect_area(use.cores)) continue;
    if (!number[use.filter]) {
      filters[to->filter_count++] = from->filters[use.filter];
      number[use.filter] = to->filter_count;
    }
    use.filter = number[use.filter] - 1;
    uses[to->filter_use_count++] = use;
  }
  to->filters = filters;
  to->filter_uses = uses;
  return true;
}

/* ---- which launch ---- */

static bool has_kernel(const wafer_plan *plan, const wafer_launch *l, uint32_t kernel) {
  const wafer_phase *phase = &plan->phases[l->phase];
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_action *action = &phase->actions[a];
    bool runs =
        l->kind == WAFER_LAUNCH_train || (l->kind == WAFER_LAUNCH_action && a >= l->action &&
                                          a < wafer_phase_run_end(phase, l->action));
    if (runs && action->kind == WAFER_ACTION_kernel && action->index == kernel) return true;
  }
  return false;
}

static wafer_status open_program(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                                 uint32_t index, const wafer_fabric_program **out) {
  wafer_launch_body body;
  char file[64];
  snprintf(file, sizeof file, "programs/%u.bin", index);
  WAFER_TRY(wafer_launch_read(diag, file, arena, plan->programs[index], &body));
  return wafer_fabric_program_read(diag, file, arena, body.program, out);
}

wafer_status wafer_plan_kernel_program(const wafer_diag *diag, wafer_arena *arena,
                                       const wafer_plan *plan, uint32_t kernel,
                                       const wafer_fabric_program **out) {
  const wafer_kernel *k = &plan->kernels[kernel];
  const wafer_loc loc = wafer_at_kernel(plan->model, k->name, k->body.nodes[k->body.anchor].name);
  uint32_t i = 0;
  while (i < plan->launch_count && !has_kernel(plan, &plan->launches[i], kernel)) i++;
  if (i == plan->launch_count)
    return wafer_fail(diag, loc, WAFER_UNSUPPORTED,
                      plan->launch_count ? "the kernel has no program: its outputs are in place"
                                         : "the plan has no programs");
  const wafer_fabric_program *whole;
  WAFER_TRY(open_program(diag, arena, plan, plan->launches[i].program, &whole));
  *out = whole;
  const wafer_launch *l = &plan->launches[i];
  bool alone = l->kind == WAFER_LAUNCH_action &&
               wafer_phase_run_end(&plan->phases[l->phase], l->action) == l->action + 1;
  if (alone) return WAFER_OK;
  wafer_fabric_program *part = wafer_arena_copy(arena, whole, sizeof *whole);
  if (part && cut_cores(arena, k->rect, whole, part) && cut_routes(arena, k->rect, whole, part) &&
      cut_filters(arena, k->rect, whole, part)) {
    *out = part;
    return WAFER_OK;
  }
  return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory for the kernel's program");
}
