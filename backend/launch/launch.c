/* Plan -> launches. Follows the plan's phases; each stream becomes a launch, and so do kernels that
 * run at once; in pipelines all actions but the weights are one. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "launch_order.h"
#include "launch_state.h"

/* ---- what went wrong ---- */

static void keep_message(void *self, wafer_severity severity, wafer_status status,
                         const wafer_loc *loc, const char *text) {
  launcher *l = self;
  char place[256];
  (void)status;
  if (severity != WAFER_ERROR || l->why[0]) return;
  wafer_loc_format(loc, place, sizeof place);
  snprintf(l->why, sizeof l->why, "%s%s%s", place, *place ? ": " : "", text);
}

wafer_loc launch_at_kernel(const launcher *l, const wafer_kernel *k) {
  return wafer_at_kernel(l->plan->model, k->name, k->body.nodes[k->body.anchor].name);
}

wafer_status launch_no_memory(const launcher *l) {
  return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_NO_MEMORY,
                    "no memory for the programs");
}

/* ---- phases ---- */

wafer_status launch_begin(launcher *l, launch_pieces *p) {
  wafer_arena_destroy(l->arena);
  *p = (launch_pieces){0};
  l->arena = wafer_arena_create();
  l->passing = (memory_map){.arena = l->arena};
  return l->arena ? WAFER_OK : launch_no_memory(l);
}

bool launch_is_load(const launcher *l, const wafer_action *a) {
  return a->kind == WAFER_ACTION_stream &&
         l->plan->streams[a->index].from.where == WAFER_AT_memoryx;
}

/* A weight goes to every replica of its kernel: a launch for each, so that it has links and colours
 * to itself. */
static wafer_status launch_weight(launcher *l, uint32_t index, uint32_t a) {
  const wafer_phase *phase = &l->plan->phases[index];
  const wafer_stream *t = &l->plan->streams[phase->actions[a].index];
  const wafer_launch launch = {.kind = WAFER_LAUNCH_load, .phase = index};
  for (l->turn = 0; l->turn == 0 || launch_replica(l, t->to_kernel, l->turn); l->turn++) {
    launch_pieces p;
    WAFER_TRY(launch_begin(l, &p));
    p.action = a;
    WAFER_TRY(launch_add_stream(l, t, &p));
    WAFER_TRY(launch_finish(l, launch, phase->name, &p));
  }
  l->turn = 0;
  return WAFER_OK;
}

static wafer_status launch_load(launcher *l, uint32_t index) {
  const wafer_phase *phase = &l->plan->phases[index];
  for (uint32_t a = 0; a < phase->action_count; a++)
    if (launch_is_load(l, &phase->actions[a])) WAFER_TRY(launch_weight(l, index, a));
  return WAFER_OK;
}

static wafer_status add_action(launcher *l, const wafer_action *action, launch_pieces *p) {
  return action->kind == WAFER_ACTION_kernel
             ? launch_add_kernel(l, &l->plan->kernels[action->index], p)
             : launch_add_stream(l, &l->plan->streams[action->index], p);
}

/* A stream, or the kernels that run at once. All stripes do the same at the same time, but for what
 * crosses the border, stripe after stripe. */
static wafer_status launch_action(launcher *l, uint32_t index, uint32_t a) {
  const wafer_phase *phase = &l->plan->phases[index];
  wafer_launch launch = {.kind = WAFER_LAUNCH_action, .phase = index, .action = a};
  for (l->stripe = 0; l->stripe < l->plan->stripes;
       l->stripe += wafer_launch_samples(l->plan, &launch)) {
    launch_pieces p;
    WAFER_TRY(launch_begin(l, &p));
    for (p.action = a; p.action < wafer_phase_run_end(phase, a); p.action++)
      WAFER_TRY(add_action(l, &phase->actions[p.action], &p));
    launch.sample = l->sample * l->plan->stripes + l->stripe;
    if (p.count) /* else all is in place */
      WAFER_TRY(launch_finish_parts(l, &launch, phase->name, &p));
  }
  l->stripe = 0;
  return WAFER_OK;
}

/* What passed to the kernels of a phase ends with it. */
static void drop_passed(launcher *l, const wafer_phase *phase) {
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_stream) continue;
    const wafer_stream *t = &l->plan->streams[phase->actions[a].index];
    if (wafer_stream_passes(l->plan, t) &&
        !memory_find(&l->map, t->value, wafer_plan_resident(l->plan) - 1, &t->to))
      memory_drop_at(&l->map, t->value, &t->to);
  }
}

/* Sample after sample, each computing where the one before did. */
static wafer_status launch_samples(launcher *l, uint32_t index) {
  const wafer_phase *phase = &l->plan->phases[index];
  memory_map scratch = {.arena = l->map.arena};
  for (l->sample = 0; l->sample < wafer_plan_resident(l->plan); l->sample++) {
    for (uint32_t a = 0; a < phase->action_count; a = wafer_phase_run_end(phase, a))
      if (!launch_is_load(l, &phase->actions[a])) WAFER_TRY(launch_action(l, index, a));
    if (!memory_hand_over(&l->map, &scratch)) return launch_no_memory(l);
  }
  l->sample = 0;
  return memory_hand_over(&scratch, &l->map) ? WAFER_OK : launch_no_memory(l);
}

static uint32_t next_phase(const wafer_function *f, uint32_t step) {
  while (step < f->step_count && f->steps[step].kind != WAFER_STEP_phase) step++;
  return step < f->step_count ? f->steps[step].phase : WAFER_NONE;
}

/* Ends `value` but where the weights of the next phase that have come include it: phases in a row
 * may use one weight, and several kernels of a phase may. */
static wafer_status drop_freed(launcher *l, uint32_t value, uint32_t next) {
  const wafer_phase *phase = next == WAFER_NONE ? NULL : &l->plan->phases[next];
  uint32_t count = 0;
  wafer_holding *loaded = WAFER_NEW(l->map.arena, wafer_holding, phase ? phase->action_count : 1);
  if (!loaded) return launch_no_memory(l);
  for (uint32_t a = 0; phase && a < phase->action_count; a++) {
    if (!launch_is_load(l, &phase->actions[a])) continue;
    const wafer_stream *t = &l->plan->streams[phase->actions[a].index];
    if (t->value == value) loaded[count++] = t->to;
  }
  memory_drop(&l->map, value, loaded, count);
  return WAFER_OK;
}

/* The weights of the next phase, unless they came earlier, and of those with load steps before this
 * one, arrive while this one works: they find their places while its own are still taken. */
static wafer_status launch_phase(launcher *l, const wafer_function *f, uint32_t step) {
  uint32_t index = f->steps[step].phase, next = next_phase(f, step + 1), load = step;
  const wafer_phase *phase = &l->plan->phases[index];
  WAFER_TRY(launch_samples(l, index));
  while (load > 0 && f->steps[load - 1].kind == WAFER_STEP_load) load--;
  if (next != WAFER_NONE && !l->loaded[next]) WAFER_TRY(launch_load(l, next));
  for (; load < step; load++) {
    l->loaded[f->steps[load].phase] = true;
    WAFER_TRY(launch_load(l, f->steps[load].phase));
  }
  memory_drop(&l->map, WAFER_NONE, NULL, 0);
  drop_passed(l, phase);
  for (uint32_t i = 0; i < phase->free_count; i++) WAFER_TRY(drop_freed(l, phase->frees[i], next));
  return WAFER_OK;
}

/* The fastest train so far; it has been finished if it is `made`. */
typedef struct best_train {
  wafer_launch launch;
  launch_pieces pieces;
  bool made;
  uint64_t below;              /* trains of such an interval are asked for */
  uint32_t launches, programs; /* without it */
} best_train;

/* UINT64_MAX: any are. */
static uint64_t asked_for(const launcher *l) {
  const wafer_options *o = l->ctx->options;
  uint64_t within = o && l->plan->function_count == 1 ? o->programs_within : 0;
  return within ? within * wafer_machine_bands(l->plan->machine) + 1 : UINT64_MAX;
}

static wafer_status refuse_slow(const launcher *l, uint64_t below) {
  return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_NO_FIT,
                    "core programs take more than %llu cycles for a sample",
                    (unsigned long long)below - 1);
}

/* As launch_time, of the train made in the nth way; what was told of it before, when it found no
 * colours, is not found again. */
static wafer_status time_train(launcher *l, launch_pieces *p, uint32_t nth, launch_wish wish,
                               wafer_launch *train) {
  uint64_t *told = &l->told[nth];
  if (*told && !l->few_colors) {
    train->interval = *told < wish.below ? *told : UINT64_MAX;
    return WAFER_OK;
  }
  WAFER_TRY(launch_time(l, p, train->phase, wish, &train->interval));
  if (!l->few_colors) *told = train->interval;
  return WAFER_OK;
}

/* A train in which samples go ahead, if it can be made and is faster. */
static wafer_status finish_ahead(launcher *l, uint32_t nth, const launch_rooms *rooms,
                                 best_train *best) {
  const wafer_phase *phase = &l->plan->phases[best->launch.phase];
  wafer_launch launch = best->launch;
  launch_pieces p = {0};
  uint32_t launches = l->launch_count, programs = l->program_count;
  l->passing = (memory_map){.arena = l->arena};
  uint64_t below = best->launch.interval < best->below ? best->launch.interval : best->below;
  WAFER_TRY(launch_add_train(l, phase, rooms, &p));
  WAFER_TRY(time_train(l, &p, nth, (launch_wish){below, 0, &l->effort}, &launch));
  if (launch.interval == UINT64_MAX) return WAFER_OK;
  l->launch_count = best->launches;
  l->program_count = best->programs;
  wafer_status status = launch_finish(l, launch, phase->name, &p);
  if (status != WAFER_OK) {
    l->launch_count = launches;
    l->program_count = programs;
    return status;
  }
  best->launch = l->launches[l->launch_count - 1];
  best->pieces = p;
  best->made = true;
  return WAFER_OK;
}

/* Cycles between samples of a train with which bands keep the pace of the wafer's edge: none is
 * faster then. */
static uint64_t edge_pace(const launcher *l) {
  return launch_edge_cycles(l) * wafer_machine_bands(l->plan->machine);
}

static bool keeps_pace(const launcher *l, const wafer_launch *train) {
  return train->interval <= edge_pace(l);
}

/* Trains in which samples go ahead, in both orders. `p`: the pieces of one without rooms. */
static wafer_status try_ahead(launcher *l, const launch_pieces *p, uint32_t places,
                              const uint32_t *with, best_train *best) {
  const wafer_phase *phase = &l->plan->phases[best->launch.phase];
  for (int early = 1; early >= 0 && !keeps_pace(l, &best->launch); early--) {
    launch_rooms rooms;
    WAFER_TRY(launch_find_rooms(l, phase, p, early, with, &rooms));
    if (!rooms.any && !with) continue;
    l->map.count = places; /* the train takes its places anew */
    wafer_status status = finish_ahead(l, LAUNCH_AHEAD(with != NULL, !early), &rooms, best);
    if (status != WAFER_OK && status != WAFER_NO_FIT) return status;
    l->rooms = l->with = NULL;
    l->why[0] = 0;
  }
  return WAFER_OK;
}

/* One sample behind the other, or with rooms for several where values skip kernels, each value to
 * every reader by itself or to several at once: whatever is fastest, or the first that is as fast
 * as the edge. */
static wafer_status fastest_train(launcher *l, uint32_t index) {
  const wafer_phase *phase = &l->plan->phases[index];
  best_train best = {.launch = {.kind = WAFER_LAUNCH_train, .phase = index},
                     .below = asked_for(l),
                     .launches = l->launch_count,
                     .programs = l->program_count};
  launch_pieces p;
  const launch_wish wish = {best.below, edge_pace(l), &l->effort};
  uint32_t places = l->map.count;
  WAFER_TRY(launch_begin(l, &p));
  l->ways = WAFER_NEW(l->arena, launch_way, l->plan->stream_count);
  if (!l->ways) return launch_no_memory(l);
  WAFER_TRY(launch_add_train(l, phase, NULL, &p));
  WAFER_TRY(time_train(l, &p, 0, wish, &best.launch));
  memory_map passing = l->passing;
  if (launch_may_have_rooms(l, phase) && !keeps_pace(l, &best.launch)) {
    const uint32_t *with;
    WAFER_TRY(launch_find_together(l, phase, &with));
    WAFER_TRY(try_ahead(l, &p, places, NULL, &best));
    if (with) WAFER_TRY(try_ahead(l, &p, places, with, &best));
  }
  l->ways = NULL;
  l->passing = passing;
  l->lacks_colors = false; /* of one with rooms */
  if (!best.made && best.launch.interval == UINT64_MAX) return refuse_slow(l, best.below);
  if (!best.made) WAFER_TRY(launch_finish(l, best.launch, phase->name, &p));
  if (!best.made) best.pieces = p;
  return launch_tell(l, &best.pieces, best.made ? 0 : wish.wanted,
                     &l->launches[l->launch_count - 1]);
}

/* Where there are too few colours for the faster ways of exchanges by others, if there are some;
 * then with words that leave their lines, in the trains that were made first. */
static wafer_status launch_train(launcher *l, uint32_t index) {
  uint32_t places = l->map.count;
  l->even = false;
  memset(l->told, 0, sizeof l->told);
  wafer_status status = fastest_train(l, index);
  for (int way = l->even ? 0 : 1; way < 2 && status == WAFER_NO_FIT && l->lacks_colors; way++) {
    if (fragment_is_spent(&l->effort)) break;
    l->map.count = places;
    l->lacks_colors = false;
    l->few_colors = way == 0;
    l->may_go_around = way == 1;
    l->why[0] = 0;
    status = fastest_train(l, index);
  }
  l->few_colors = l->may_go_around = false;
  return status;
}

/* Shares may lie where the kernel before left them: no stream says that they pass. */
static wafer_status refuse_slices(const launcher *l, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (wafer_body_passes(&k->body, i))
      return wafer_fail(&l->diag, launch_at_kernel(l, k), WAFER_UNSUPPORTED,
                        "'%s' passes in slices, for which there are no programs; run at kernel "
                        "fidelity",
                        l->plan->values[k->inputs[i]].name);
  return WAFER_OK;
}

/* New weights that are to be pairs cannot be sent: their places are no exchange. */
static bool trains_zeros(const wafer_plan *plan) {
  bool any = false;
  for (uint32_t i = 0; i < plan->training->trained_count; i++)
    any |= wafer_weights_at(plan->weights, plan->training->trained[i].weight)->sparse;
  return any;
}

/* A function begins with memories of which nothing is known. */
static wafer_status launch_function(launcher *l, const wafer_function *f) {
  bool pipelined = l->plan->mode == WAFER_MODE_pipelined;
  uint32_t first = next_phase(f, 0);
  l->map.count = 0;
  if (first == WAFER_NONE) return WAFER_OK;
  WAFER_TRY(launch_load(l, first));
  for (uint32_t i = 0; i < f->step_count; i++) {
    if (f->steps[i].kind != WAFER_STEP_phase) continue;
    uint32_t phase = f->steps[i].phase, next = next_phase(f, i + 1);
    if (pipelined && next != WAFER_NONE)
      return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_UNSUPPORTED,
                        "function '%s' of a pipelined plan has several phases; compile with --mode "
                        "streaming",
                        f->name);
    bool updates = wafer_plan_updates(l->plan) && !trains_zeros(l->plan);
    if (updates) WAFER_TRY(launch_begin_steps(l, phase));
    WAFER_TRY(pipelined ? launch_train(l, phase) : launch_phase(l, f, i));
    if (updates) WAFER_TRY(launch_end_step(l, phase));
    wafer_progress(l->ctx->diag, "programs", phase + 1, l->plan->phase_count);
  }
  return WAFER_OK;
}

static wafer_status launch_all(launcher *l) {
  const wafer_plan *plan = l->plan;
  for (uint32_t i = 0; i < plan->stream_count; i++)
    if (plan->streams[i].depth == 0)
      return wafer_fail(&l->diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "'%s' passes in slices, for which there are no programs",
                        plan->values[plan->streams[i].value].name);
  for (uint32_t i = 0; i < plan->kernel_count; i++) WAFER_TRY(refuse_slices(l, &plan->kernels[i]));
  if (!launch_order_forms(l->ctx->arena, l->plan)) return launch_no_memory(l);
  WAFER_TRY(launch_order_check(&l->diag, l->map.arena, plan));
  l->streams =
      wafer_arena_copy(l->ctx->arena, plan->streams, plan->stream_count * sizeof *plan->streams);
  l->kernels =
      wafer_arena_copy(l->ctx->arena, plan->kernels, plan->kernel_count * sizeof *plan->kernels);
  l->loaded = WAFER_NEW(l->ctx->arena, bool, plan->phase_count);
  if (!l->streams || !l->kernels || !l->loaded) return launch_no_memory(l);
  for (uint32_t i = 0; i < plan->function_count; i++)
    if (!wafer_function_on_host(&plan->functions[i]))
      WAFER_TRY(launch_function(l, &plan->functions[i]));
  return WAFER_OK;
}

/* Where nobody said whether there are to be programs: some seconds, or half a minute. */
#define MOST_EFFORT ((uint64_t)128 << 20)
#define SEARCH_EFFORT ((uint64_t)1 << 30)

/* What a word costs that changes its place: cores take such words singly. */
#define ORDER_WORDS 16

static bool is_small(const wafer_plan *plan) {
  uint64_t cores = 0, words = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    cores += plan->stripes * wafer_rect_area(plan->kernels[k].rect);
  for (uint32_t s = 0; s < plan->stream_count && words <= WAFER_PROGRAMS_WORDS; s++)
    words += plan->batch * plan->streams[s].words *
             (launch_order_changes(&plan->streams[s]) ? (uint64_t)ORDER_WORDS : 1);
  bool many = plan->mode == WAFER_MODE_pipelined && plan->kernel_count > WAFER_PROGRAMS_KERNELS;
  return !many && cores <= WAFER_PROGRAMS_CORES && words <= WAFER_PROGRAMS_WORDS;
}

static wafer_status make_programs(launcher *l) {
  l->diag = (wafer_diag){.emit = keep_message, .self = l};
  l->map = (memory_map){.arena = wafer_arena_create(),
                        .limit = wafer_machine_core_budget(l->plan->machine)};
  l->orders = l->map.arena ? wafer_orders_create(l->map.arena, l->plan) : NULL;
  wafer_status status = l->orders ? launch_all(l) : launch_no_memory(l);
  wafer_arena_destroy(l->arena);
  wafer_arena_destroy(l->map.arena);
  if (status != WAFER_OK) return status;
  l->plan->streams = l->streams;
  l->plan->kernels = l->kernels;
  l->plan->launches = l->launches;
  l->plan->launch_count = l->launch_count;
  l->plan->programs = l->programs;
  l->plan->program_count = l->program_count;
  l->plan->no_programs = "";
  return WAFER_OK;
}

static bool searches(const wafer_ctx *ctx) {
  return ctx->options && ctx->options->placer == WAFER_PLACER_best;
}

wafer_status launch_plan(const wafer_ctx *ctx, wafer_plan *plan, wafer_programs wanted) {
  launcher l = {.ctx = ctx, .plan = plan};
  if (wafer_plan_updates(plan)) {
    plan->no_programs = WAFER_PROGRAMS_LATER ": gradients stay on their cores, and no file says "
                                             "where they lie";
    return WAFER_OK;
  }
  if (wanted == WAFER_PROGRAMS_never || (wanted == WAFER_PROGRAMS_auto && !is_small(plan))) {
    plan->no_programs = WAFER_PROGRAMS_LATER "; compile with --programs always keeps them";
    return WAFER_OK;
  }
  if (wanted == WAFER_PROGRAMS_auto) l.effort.most = searches(ctx) ? SEARCH_EFFORT : MOST_EFFORT;
  wafer_status status = make_programs(&l);
  plan->effort = l.effort.spent;
  if (status == WAFER_NO_MEMORY)
    return wafer_fail(ctx->diag, wafer_at_file(plan->model), status, "%s", l.why);
  if (status == WAFER_OK) return WAFER_OK;
  if (fragment_is_spent(&l.effort))
    plan->no_programs =
        WAFER_PROGRAMS_LATER ": they take long to make; compile with --programs always keeps them";
  else
    plan->no_programs = wafer_arena_strdup(ctx->arena, l.why);
  return plan->no_programs ? WAFER_OK : launch_no_memory(&l);
}

wafer_status wafer_plan_add_programs(const wafer_ctx *ctx, const wafer_plan *plan, bool taps,
                                     const wafer_plan **out) {
  *out = plan;
  if (plan->launch_count && !taps) return WAFER_OK;
  wafer_plan *copy = wafer_arena_copy(ctx->arena, plan, sizeof *plan);
  launcher l = {.ctx = ctx, .plan = copy, .tapped = taps || wafer_plan_updates(plan)};
  wafer_status status = copy ? make_programs(&l) : WAFER_NO_MEMORY;
  if (status != WAFER_OK)
    return wafer_fail(ctx->diag, wafer_at_file(plan->model), status,
                      "no programs for fabric fidelity: %s", l.why);
  *out = copy;
  return WAFER_OK;
}
