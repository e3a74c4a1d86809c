/* Follows every function of a plan: which holdings exist, and how many bytes lie on each core.
 *
 * Bytes of a phase on a core: of its kernels, which count their own inputs and outputs, and of
 * every other holding that lives during the phase, for all samples that are resident together. As
 * long as the largest kernel and all other holdings together fit, no core can be too full; only
 * then are they laid over each other. A phase is run by one step of the whole plan, so that
 * following is linear. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>

#include "plan_check.h"

typedef struct held {
  wafer_holding at;
  uint32_t value;
  uint32_t next, next_of_value; /* in the bucket; among the value's. WAFER_NONE ends */
  uint32_t place;               /* in `living`, WAFER_NONE: not on the wafer now */
  bool there;
  uint32_t samples; /* resident; of what passes, those that have room */
  uint32_t own;     /* last phase, plus 1, of which a kernel counts it */
  uint64_t bytes;   /* of a core, all samples */
} held;

typedef struct follower {
  const plan_check *c;
  const wafer_function *function;
  held *all;
  uint32_t count;
  uint32_t *bucket, buckets; /* a power of two */
  uint32_t *of_value;        /* value -> first */
  uint32_t *living, living_count;
  uint64_t living_bytes, own_bytes; /* own_bytes: of these, counted by kernels of the phase */
  bool *ran, *loaded;               /* phase */
  uint32_t *in_phase, *done;        /* kernel -> last phase, plus 1, that has it; that ran it */
} follower;

/* ---- holdings ---- */

static uint32_t hash_of(uint32_t value, const wafer_holding *at) {
  uint32_t words[6 + 2 * WAFER_MAX_RANK] = {value, at->where};
  if (at->where == WAFER_AT_wafer) {
    memcpy(&words[2], &at->rect, sizeof at->rect);
    memcpy(&words[6], at->layout.rows, at->layout.rank * sizeof words[0]);
    memcpy(&words[6 + WAFER_MAX_RANK], at->layout.cols, at->layout.rank * sizeof words[0]);
  }
  return (uint32_t)XXH3_64bits(words, sizeof words);
}

static held *find(const follower *f, uint32_t value, const wafer_holding *at) {
  for (uint32_t i = f->bucket[hash_of(value, at) & (f->buckets - 1)]; i != WAFER_NONE;
       i = f->all[i].next)
    if (f->all[i].value == value && wafer_holding_equal(&f->all[i].at, at)) return &f->all[i];
  return NULL;
}

static uint64_t bytes_of(const follower *f, uint32_t value, const wafer_holding *at) {
  const wafer_plan *plan = f->c->plan;
  uint64_t samples = plan->values[value].weight == WAFER_NONE ? wafer_plan_resident(plan) : 1, all;
  if (__builtin_mul_overflow(wafer_plan_held_bytes(plan, value, at), samples, &all) ||
      all > UINT32_MAX)
    return UINT32_MAX; /* far beyond any core; sums of these do not overflow */
  return all;
}

static held *add(follower *f, uint32_t value, const wafer_holding *at) {
  held *h = find(f, value, at);
  if (!h) {
    uint32_t slot = hash_of(value, at) & (f->buckets - 1);
    h = &f->all[f->count];
    *h = (held){.at = *at,
                .value = value,
                .next = f->bucket[slot],
                .next_of_value = f->of_value[value],
                .place = WAFER_NONE,
                .bytes = at->where == WAFER_AT_wafer ? bytes_of(f, value, at) : 0};
    f->bucket[slot] = f->of_value[value] = f->count++;
  }
  h->there = true;
  h->samples = wafer_plan_resident(f->c->plan);
  if (at->where != WAFER_AT_wafer || h->place != WAFER_NONE) return h;
  h->place = f->living_count;
  f->living[f->living_count++] = (uint32_t)(h - f->all);
  f->living_bytes += h->bytes;
  return h;
}

static void drop_one(follower *f, held *h) {
  uint32_t last = f->living[--f->living_count];
  f->living[h->place] = last;
  f->all[last].place = h->place;
  h->place = WAFER_NONE;
  h->there = false;
  f->living_bytes -= h->bytes;
}

static void drop(follower *f, uint32_t value) {
  for (uint32_t i = f->of_value[value]; i != WAFER_NONE; i = f->all[i].next_of_value) {
    held *h = &f->all[i];
    if (h->place != WAFER_NONE) drop_one(f, h);
  }
}

/* What passed to the kernels of a phase ends with it. */
static void drop_passed(follower *f, const wafer_phase *p) {
  const wafer_plan *plan = f->c->plan;
  for (uint32_t a = 0; a < p->action_count; a++) {
    if (p->actions[a].kind != WAFER_ACTION_stream) continue;
    const wafer_stream *s = &plan->streams[p->actions[a].index];
    held *h = wafer_stream_passes(plan, s) ? find(f, s->value, &s->to) : NULL;
    if (h && h->place != WAFER_NONE && h->samples < wafer_plan_resident(plan)) drop_one(f, h);
  }
}

/* A kernel of the phase counts the holding among its own bytes. */
static void count_own(follower *f, held *h, uint32_t phase) {
  if (h->own == phase + 1) return;
  h->own = phase + 1;
  f->own_bytes += h->bytes;
}

/* ---- actions ---- */

static wafer_status run_stream(follower *f, const wafer_stream *s, uint32_t phase) {
  const wafer_plan *plan = f->c->plan;
  const wafer_kernel *to = s->to_kernel == WAFER_NONE ? NULL : &plan->kernels[s->to_kernel];
  const wafer_kernel *from = s->from_kernel == WAFER_NONE ? NULL : &plan->kernels[s->from_kernel];
  wafer_loc loc = to || from ? plan_check_at(f->c, to ? to : from) : wafer_at_file(f->c->file);
  const held *source = find(f, s->value, &s->from), *there = find(f, s->value, &s->to);
  if ((to && f->in_phase[s->to_kernel] != phase + 1) ||
      (from && f->done[s->from_kernel] != phase + 1))
    return wafer_fail(f->c->diag, loc, WAFER_BAD_INPUT,
                      "stream of '%s' names a kernel that phase '%s' does not run %s it",
                      plan->values[s->value].name, plan->phases[phase].name,
                      to && f->in_phase[s->to_kernel] != phase + 1 ? "after" : "before");
  if (!source || !source->there || source->samples < wafer_plan_resident(plan))
    return wafer_fail(f->c->diag, loc, WAFER_TRAP,
                      "phase '%s' streams '%s' of node '%s' from a place where it is not held",
                      plan->phases[phase].name, plan->values[s->value].name,
                      plan->values[s->value].node);
  bool passes = wafer_stream_passes(plan, s) && !(there && there->there);
  add(f, s->value, &s->to)->samples = passes ? s->depth : wafer_plan_resident(plan);
  return WAFER_OK;
}

static wafer_status run_kernel(follower *f, uint32_t kernel, uint32_t phase) {
  const wafer_kernel *k = &f->c->plan->kernels[kernel];
  wafer_holding at = {.where = WAFER_AT_wafer, .rect = k->rect};
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    const wafer_value *v = &f->c->plan->values[k->inputs[i]];
    at.layout = wafer_kernel_input_layout(&k->body, &k->split, i);
    held *h = find(f, k->inputs[i], &at);
    if (!h || !h->there)
      return wafer_fail(f->c->diag, plan_check_at(f->c, k), WAFER_TRAP,
                        "kernel '%s' in phase '%s' needs input %u, '%s' of node '%s', in its "
                        "layout on its cores, and "
                        "no stream or kernel left it there",
                        k->name, f->c->plan->phases[phase].name, i, v->name, v->node);
    uint32_t depth = k->body.input_depth[i];
    if (!k->body.input_is_weight[i] && depth && depth < h->samples)
      return wafer_fail(f->c->diag, plan_check_at(f->c, k), WAFER_BAD_INPUT,
                        "kernel '%s' has room for %u samples of input %u, '%s', and %u are there",
                        k->name, k->body.input_depth[i], i, v->name, h->samples);
    count_own(f, h, phase);
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    at.layout = wafer_kernel_output_layout(&k->body, &k->split, i);
    add(f, k->outputs[i], &at);
    count_own(f, find(f, k->outputs[i], &at), phase);
  }
  f->done[kernel] = phase + 1;
  return WAFER_OK;
}

/* ---- bytes of a phase ---- */

static wafer_rect all_replicas(const wafer_kernel *k) {
  return (wafer_rect){k->rect.x, k->rect.y, k->rect.width * k->replicas, k->rect.height};
}

/* Names the kernel on the core and the holdings beside it. */
static wafer_status too_full(const follower *f, uint32_t phase, wafer_core_at at, uint64_t bytes) {
  const wafer_plan *plan = f->c->plan;
  const wafer_kernel *on = NULL;
  char owners[512] = "";
  size_t used = 0;
  for (uint32_t a = 0; a < plan->phases[phase].action_count && !on; a++)
    if (plan->phases[phase].actions[a].kind == WAFER_ACTION_kernel &&
        wafer_rect_has(all_replicas(&plan->kernels[plan->phases[phase].actions[a].index]), at.x,
                       at.y))
      on = &plan->kernels[plan->phases[phase].actions[a].index];
  if (on)
    used = (size_t)snprintf(owners, sizeof owners, "kernel '%.64s' of node '%.64s' %" PRIu64,
                            on->name, plan_check_node(on) ? plan_check_node(on) : "",
                            wafer_cost_bytes(&on->cost));
  for (uint32_t i = 0; i < f->living_count && used + 160 < sizeof owners; i++) {
    const held *h = &f->all[f->living[i]];
    const wafer_value *v = &plan->values[h->value];
    if (h->own == phase + 1 || h->bytes == 0 || !wafer_rect_has(h->at.rect, at.x, at.y)) continue;
    used +=
        (size_t)snprintf(owners + used, sizeof owners - used, "%s'%.40s' of node '%.40s' %" PRIu64,
                         used ? ", " : "", v->name, v->node, h->bytes);
  }
  return wafer_fail(f->c->diag, on ? plan_check_at(f->c, on) : wafer_at_file(f->c->file),
                    WAFER_NO_FIT,
                    "core (%u, %u) holds %" PRIu64
                    " bytes in phase '%s', %u are allowed: %s; try a smaller --batch",
                    at.x, at.y, bytes, plan->phases[phase].name,
                    wafer_machine_core_budget(plan->machine), owners);
}

static wafer_status lay_over(follower *f, uint32_t phase) {
  const wafer_plan *plan = f->c->plan;
  const wafer_phase *p = &plan->phases[phase];
  plan_weighed *rects =
      WAFER_NEW(f->c->arena, plan_weighed, (size_t)p->action_count + f->living_count);
  size_t count = 0;
  if (!rects) return plan_check_no_memory(f->c);
  for (uint32_t a = 0; a < p->action_count; a++) {
    if (p->actions[a].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &plan->kernels[p->actions[a].index];
    rects[count++] = (plan_weighed){all_replicas(k), wafer_cost_bytes(&k->cost)};
  }
  for (uint32_t i = 0; i < f->living_count; i++) {
    const held *h = &f->all[f->living[i]];
    if (h->own != phase + 1) rects[count++] = (plan_weighed){h->at.rect, h->bytes};
  }
  uint64_t most;
  wafer_core_at at;
  if (!plan_check_heaviest(f->c->arena, count, rects, &most, &at))
    return plan_check_no_memory(f->c);
  if (f->c->peaks) f->c->peaks[phase] = most;
  return most <= wafer_machine_core_budget(plan->machine) ? WAFER_OK : too_full(f, phase, at, most);
}

static wafer_status weigh(follower *f, uint32_t phase) {
  const wafer_plan *plan = f->c->plan;
  const wafer_phase *p = &plan->phases[phase];
  uint64_t largest = 0;
  for (uint32_t a = 0; a < p->action_count; a++) {
    if (p->actions[a].kind != WAFER_ACTION_kernel) continue;
    uint64_t bytes = wafer_cost_bytes(&plan->kernels[p->actions[a].index].cost);
    if (bytes > largest) largest = bytes;
  }
  if (f->c->peaks) return lay_over(f, phase);
  if (p->peak_core_bytes < largest)
    return wafer_fail(f->c->diag, wafer_at_file(f->c->file), WAFER_BAD_INPUT,
                      "phase '%s' says at most %" PRIu64
                      " bytes on a core, a kernel of it needs %" PRIu64,
                      p->name, p->peak_core_bytes, largest);
  if (largest + (f->living_bytes - f->own_bytes) <= wafer_machine_core_budget(plan->machine))
    return WAFER_OK;
  return lay_over(f, phase);
}

/* ---- steps ---- */

static bool from_memoryx(const follower *f, const wafer_action *action) {
  return action->kind == WAFER_ACTION_stream &&
         f->c->plan->streams[action->index].from.where == WAFER_AT_memoryx;
}

static wafer_status run_phase(follower *f, uint32_t phase) {
  const wafer_phase *p = &f->c->plan->phases[phase];
  f->own_bytes = 0;
  for (uint32_t a = 0; a < p->action_count; a++)
    if (p->actions[a].kind == WAFER_ACTION_kernel) f->in_phase[p->actions[a].index] = phase + 1;
  for (uint32_t a = 0; a < p->action_count; a++) {
    const wafer_action *action = &p->actions[a];
    if (action->kind == WAFER_ACTION_kernel)
      WAFER_TRY(run_kernel(f, action->index, phase));
    else if (!f->loaded[phase] || !from_memoryx(f, action))
      WAFER_TRY(run_stream(f, &f->c->plan->streams[action->index], phase));
  }
  WAFER_TRY(weigh(f, phase));
  drop_passed(f, p);
  for (uint32_t i = 0; i < p->free_count; i++) drop(f, p->frees[i]);
  return WAFER_OK;
}

static wafer_status load_phase(follower *f, uint32_t phase) {
  const wafer_phase *p = &f->c->plan->phases[phase];
  for (uint32_t a = 0; a < p->action_count; a++)
    if (p->actions[a].kind == WAFER_ACTION_kernel) f->in_phase[p->actions[a].index] = phase + 1;
  for (uint32_t a = 0; a < p->action_count; a++)
    if (from_memoryx(f, &p->actions[a]))
      WAFER_TRY(run_stream(f, &f->c->plan->streams[p->actions[a].index], phase));
  return WAFER_OK;
}

static wafer_status run_step(follower *f, uint32_t number) {
  const wafer_step *step = &f->function->steps[number];
  wafer_loc loc = wafer_at_file(f->c->file);
  if ((uint32_t)step->kind >= WAFER_STEP_COUNT || step->phase >= f->c->plan->phase_count)
    return wafer_fail(f->c->diag, loc, WAFER_BAD_INPUT,
                      "function '%s': step %u is not known or names no phase", f->function->name,
                      number);
  bool *once = step->kind == WAFER_STEP_load ? f->loaded : f->ran;
  if (once[step->phase] || f->ran[step->phase])
    return wafer_fail(f->c->diag, loc, WAFER_BAD_INPUT,
                      "function '%s': step %u runs or loads phase '%s' once more",
                      f->function->name, number, f->c->plan->phases[step->phase].name);
  once[step->phase] = true;
  return step->kind == WAFER_STEP_load ? load_phase(f, step->phase) : run_phase(f, step->phase);
}

/* ---- functions ---- */

static wafer_status check_names(const plan_check *c, const wafer_function *function) {
  for (uint32_t i = 0; i < function->input_count + (uint64_t)function->output_count; i++) {
    bool input = i < function->input_count;
    uint32_t value = input ? function->inputs[i] : function->outputs[i - function->input_count];
    if (value >= c->plan->value_count)
      return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                        "function '%s' names value %u, the plan has %u", function->name, value,
                        c->plan->value_count);
    if (c->plan->values[value].weight != WAFER_NONE)
      return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                        "function '%s': '%s' is a weight and no %s", function->name,
                        c->plan->values[value].name, input ? "input" : "output");
  }
  return WAFER_OK;
}

static wafer_status run_function(follower *f, const wafer_function *function) {
  const wafer_plan *plan = f->c->plan;
  const wafer_holding edge = {.where = WAFER_AT_edge}, memoryx = {.where = WAFER_AT_memoryx};
  f->function = function;
  f->count = f->living_count = 0;
  f->living_bytes = 0;
  memset(f->bucket, 0xff, f->buckets * sizeof *f->bucket);
  memset(f->of_value, 0xff, plan->value_count * sizeof *f->of_value);
  for (uint32_t i = 0; i < function->input_count; i++) {
    if (plan->values[function->inputs[i]].kind != WAFER_VALUE_tensor)
      return wafer_fail(f->c->diag, wafer_at_file(f->c->file), WAFER_BAD_INPUT,
                        "function '%s' of the wafer takes '%s', which is no tensor of static type",
                        function->name, plan->values[function->inputs[i]].name);
    add(f, function->inputs[i], &edge);
  }
  for (uint32_t i = 0; i < plan->value_count; i++)
    if (plan->values[i].weight != WAFER_NONE) add(f, i, &memoryx);
  for (uint32_t i = 0; i < function->step_count; i++) WAFER_TRY(run_step(f, i));
  for (uint32_t i = 0; i < function->output_count; i++) {
    const held *h = find(f, function->outputs[i], &edge);
    const wafer_value *v = &plan->values[function->outputs[i]];
    bool stays = wafer_plan_updates(plan) && v->owner == WAFER_OWNER_gradient;
    if (stays ? f->of_value[function->outputs[i]] == WAFER_NONE : !h || !h->there)
      return wafer_fail(f->c->diag, wafer_at_node(f->c->file, v->node, -1), WAFER_TRAP,
                        "output '%s' of function '%s' never reaches the edge", v->name,
                        function->name);
  }
  return WAFER_OK;
}

/* Each action makes at most as many holdings as its kernel has outputs. */
static uint64_t most_holdings(const wafer_plan *plan) {
  uint64_t most = 1 + (uint64_t)plan->value_count;
  for (uint32_t p = 0; p < plan->phase_count; p++)
    for (uint32_t a = 0; a < plan->phases[p].action_count; a++) {
      const wafer_action *action = &plan->phases[p].actions[a];
      most +=
          action->kind == WAFER_ACTION_kernel ? plan->kernels[action->index].body.output_count : 1;
    }
  return most;
}

wafer_status plan_check_functions(const plan_check *c) {
  const wafer_plan *plan = c->plan;
  uint64_t most = most_holdings(plan);
  uint32_t inputs = 0;
  for (uint32_t i = 0; i < plan->function_count; i++)
    if (plan->functions[i].input_count > inputs) inputs = plan->functions[i].input_count;
  most += inputs;
  if (most >= WAFER_NONE / 2)
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "the plan has too many actions");
  follower f = {.c = c, .buckets = 16};
  while (f.buckets < most) f.buckets *= 2;
  f.all = WAFER_NEW(c->arena, held, most);
  f.bucket = WAFER_NEW(c->arena, uint32_t, f.buckets);
  f.of_value = WAFER_NEW(c->arena, uint32_t, plan->value_count);
  f.living = WAFER_NEW(c->arena, uint32_t, most);
  f.ran = WAFER_NEW(c->arena, bool, plan->phase_count);
  f.loaded = WAFER_NEW(c->arena, bool, plan->phase_count);
  f.in_phase = WAFER_NEW(c->arena, uint32_t, plan->kernel_count);
  f.done = WAFER_NEW(c->arena, uint32_t, plan->kernel_count);
  if (!f.all || !f.bucket || !f.of_value || !f.living || !f.ran || !f.loaded || !f.in_phase ||
      !f.done)
    return plan_check_no_memory(c);
  for (uint32_t i = 0; i < plan->function_count; i++) {
    const wafer_function *function = &plan->functions[i];
    WAFER_TRY(check_names(c, function));
    if (wafer_function_on_host(function) || (i && !function->step_count)) continue;
    WAFER_TRY(run_function(&f, function));
  }
  return WAFER_OK;
}
