/* When a model does not fit: which kernel, whose bytes, and ways that were tried and work. */
#include "mode_refuse.h"

#define MOST_REMEDIES 5

typedef struct search {
  const refusing *c;
  uint32_t count;
  wafer_remedy at[MOST_REMEDIES];
} search;

static wafer_status add(search *s, const char *option, uint64_t interval) {
  if (!option)
    return wafer_fail(s->c->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to refuse");
  if (s->count < MOST_REMEDIES) s->at[s->count++] = (wafer_remedy){option, interval};
  return WAFER_OK;
}

/* The mode that was asked for, on another machine or graph; shelves will do. */
static wafer_status try_with(const refusing *c, const wafer_machine *machine,
                             const wafer_graph *graph, uint32_t batch, sizing *tried) {
  wafer_ctx with = *c->ctx;
  with.options = NULL;
  with.machine = machine;
  *tried = (sizing){0};
  curve_set *curves = curve_set_of(&with, c->ir);
  if (!curves) return WAFER_OK;
  return c->mode == WAFER_MODE_pipelined ? size_pipelined(&with, curves, graph, false, tried)
                                         : size_streaming(&with, curves, graph, batch, 1, tried);
}

/* ---- What is tried ---- */

static wafer_status try_modes(search *s) {
  const refusing *c = s->c;
  if (c->mode == WAFER_MODE_pipelined && c->streaming->cost.fits)
    return add(s, "--mode streaming", c->streaming->cost.interval_cycles);
  if (c->mode == WAFER_MODE_streaming && c->pipelined->cost.fits)
    return add(s, "--mode pipelined", c->pipelined->cost.interval_cycles);
  return WAFER_OK;
}

/* The most samples, halving, with which streaming fits. */
static wafer_status try_batches(search *s) {
  const refusing *c = s->c;
  if (c->mode == WAFER_MODE_pipelined) return WAFER_OK;
  for (uint32_t batch = c->batch / 2; batch > 0; batch /= 2) {
    sizing tried;
    WAFER_TRY(try_with(c, c->ctx->machine, c->graph, batch, &tried));
    if (tried.cost.fits)
      return add(s, wafer_arena_printf(c->ctx->arena, "--batch %u", batch),
                 tried.cost.interval_cycles);
  }
  return WAFER_OK;
}

/* Half the bytes of every float. */
static wafer_status try_half(search *s) {
  const refusing *c = s->c;
  wafer_graph half = *c->graph;
  sizing tried;
  if (!half.kernel_count || half.kernels[0].body.storage != WAFER_DTYPE_f32) return WAFER_OK;
  half.kernels =
      wafer_arena_copy(c->ctx->arena, c->graph->kernels, half.kernel_count * sizeof *half.kernels);
  if (!half.kernels) return add(s, NULL, 0);
  for (uint32_t k = 0; k < half.kernel_count; k++) half.kernels[k].body.storage = WAFER_DTYPE_f16;
  WAFER_TRY(try_with(c, c->ctx->machine, &half, c->batch, &tried));
  return tried.cost.fits ? add(s, "--dtype f16", tried.cost.interval_cycles) : WAFER_OK;
}

static uint64_t memory_of(const wafer_machine *m) {
  return wafer_rect_area(m->usable) * wafer_machine_core_budget(m);
}

/* The machine that ships with the least memory in which the model fits, if there is one. */
static wafer_status try_machines(search *s) {
  const refusing *c = s->c;
  uint64_t least = UINT64_MAX, given = memory_of(c->ctx->machine), interval = 0;
  const char *best = NULL;
  for (const char *const *name = wafer_machine_names(); *name; name++) {
    const wafer_machine *machine;
    sizing tried;
    if (wafer_machine_open(NULL, c->ctx->arena, *name, &machine) != WAFER_OK) continue;
    uint64_t memory = memory_of(machine);
    if (memory <= given || memory >= least) continue;
    WAFER_TRY(try_with(c, machine, c->graph, c->batch, &tried));
    if (!tried.cost.fits) continue;
    least = memory;
    best = *name;
    interval = tried.cost.interval_cycles;
  }
  if (!best) return WAFER_OK;
  return add(s, wafer_arena_printf(c->ctx->arena, "--machine %s", best), interval);
}

/* ---- Saying so ---- */

static const char *remedies_of(const search *s) {
  const char *text = s->count ? ""
                              : "nothing that was tried fits: other modes, smaller batches, "
                                "--dtype f16, larger machines that ship";
  for (uint32_t i = 0; i < s->count && text; i++)
    text = wafer_arena_printf(s->c->ctx->arena, "%s%s%s fits: %llu cycles a sample", text,
                              i ? ", " : "", s->at[i].option,
                              (unsigned long long)s->at[i].interval_cycles);
  return text ? text : "";
}

static const char *owners_of(const refusing *c, const size_refusal *r) {
  const char *text = "";
  for (uint32_t i = 0; i < r->owner_count && text; i++)
    text = wafer_arena_printf(c->ctx->arena, "%s%s%s %llu", text, i ? ", " : "; of these ",
                              r->owners[i].what, (unsigned long long)r->owners[i].bytes);
  return text ? text : "";
}

static void hand_over(const search *s, const size_refusal *r) {
  const refusing *c = s->c;
  const wafer_options *o = c->ctx->options;
  const wafer_graph_kernel *kernel = &c->graph->kernels[r->kernel];
  if (!o || !o->refused) return;
  wafer_refusal refusal = {.mode = c->mode,
                           .machine = c->ctx->machine->name,
                           .kernel = kernel->name,
                           .node = kernel->node ? kernel->node : "",
                           .why = r->why,
                           .asked = r->asked,
                           .allowed = r->allowed,
                           .owner_count = r->owner_count,
                           .owners = r->owners,
                           .remedy_count = s->count,
                           .remedies = s->at};
  o->refused(o->refused_self, &refusal);
}

/* Who only asks whether a plan fits pays for no remedies. */
static bool is_heard(const wafer_ctx *ctx) {
  return (ctx->diag && ctx->diag->emit) || (ctx->options && ctx->options->refused);
}

wafer_status mode_refuse(const refusing *c, const size_refusal *r) {
  search s = {.c = c};
  if (!is_heard(c->ctx))
    return wafer_fail(c->ctx->diag, c->graph->kernels[r->kernel].loc, WAFER_NO_FIT, "%s", r->why);
  WAFER_TRY(try_modes(&s));
  WAFER_TRY(try_batches(&s));
  WAFER_TRY(try_half(&s));
  WAFER_TRY(try_machines(&s));
  hand_over(&s, r);
  return wafer_fail(c->ctx->diag, c->graph->kernels[r->kernel].loc, WAFER_NO_FIT,
                    "%s does not fit %s: %s%s; %s", wafer_mode_name(c->mode), c->ctx->machine->name,
                    r->why, owners_of(c, r), remedies_of(&s));
}
