/* When a model does not fit: which kernel, whose bytes, and ways that were tried and work. */
#include "mode_refuse.h"

#include "mode_bands.h"

#define MOST_REMEDIES 5

typedef struct search {
  const refusing *c;
  uint32_t count;
  wafer_remedy at[MOST_REMEDIES];
} search;

static wafer_status no_memory(const refusing *c) {
  return wafer_fail(c->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to refuse");
}

static wafer_status add(search *s, const char *option, uint64_t interval) {
  if (!option) return no_memory(s->c);
  if (s->count < MOST_REMEDIES) s->at[s->count++] = (wafer_remedy){option, interval};
  return WAFER_OK;
}

static uint32_t asked_bands(const refusing *c) {
  return c->ctx->options ? c->ctx->options->bands : 0;
}

/* Between samples; of a pipeline by the predicted pace of core programs where it will have some. */
static uint64_t cycles_of(const refusing *c, const sizing *tried, uint32_t bands) {
  bool paced = tried->pace && size_gets_programs(c->ctx, c->graph, 1);
  uint64_t pace = paced ? mode_pace(tried, bands) : 0;
  return pace > tried->cost.interval_cycles ? pace : tried->cost.interval_cycles;
}

/* The mode that was asked for, on another machine or graph, with the same wishes; shelves will do.
 * Cycles between samples; 0: it does not fit. */
static wafer_status try_with(const refusing *c, const wafer_machine *machine,
                             const wafer_graph *graph, uint32_t batch, uint32_t bands,
                             uint64_t *cycles) {
  static const wafer_diag silent = {0};
  wafer_ctx with = *c->ctx;
  wafer_options options = with.options ? *with.options : (wafer_options){0};
  wafer_status status = WAFER_OK;
  sizing tried = {0};
  options.placer = WAFER_PLACER_shelf;
  options.bands = bands;
  options.refused = NULL;
  with.options = &options;
  with.diag = &silent; /* a pin may lie outside of another machine */
  with.machine = machine;
  *cycles = 0;
  if (c->mode == WAFER_MODE_pipelined) {
    status = mode_size_bands(&with, c->ir, graph, &bands, &tried);
  } else {
    curve_set *curves = curve_set_of(&with, c->ir);
    if (curves) status = size_streaming(&with, curves, graph, batch, 1, &tried);
  }
  if (status == WAFER_OK && tried.cost.fits) *cycles = cycles_of(c, &tried, bands);
  return status == WAFER_NO_MEMORY ? no_memory(c) : WAFER_OK;
}

/* ---- What is tried ---- */

static wafer_status try_modes(search *s) {
  const refusing *c = s->c;
  const wafer_options *o = c->ctx->options;
  bool streams = c->mode == WAFER_MODE_pipelined;
  if (streams && o && (o->bands > 1 || o->pin_count)) return WAFER_OK; /* want a pipeline */
  const sizing *other = streams ? c->streaming : c->pipelined;
  if (!other->cost.fits) return WAFER_OK;
  const char *option =
      size_mode_option(c->ctx, streams ? WAFER_MODE_streaming : WAFER_MODE_pipelined);
  return add(s, option, cycles_of(c, other, streams ? 1 : c->bands));
}

/* The most samples, halving, with which streaming fits. */
static wafer_status try_batches(search *s) {
  const refusing *c = s->c;
  if (c->mode == WAFER_MODE_pipelined) return WAFER_OK;
  for (uint32_t batch = c->batch / 2; batch > 0; batch /= 2) {
    uint64_t cycles;
    WAFER_TRY(try_with(c, c->ctx->machine, c->graph, batch, 0, &cycles));
    if (cycles) return add(s, wafer_arena_printf(c->ctx->arena, "--batch %u", batch), cycles);
  }
  return WAFER_OK;
}

/* Of the wafer's rows, where so many are asked for: the most, halving, with which a pipeline fits.
 */
static wafer_status try_bands(search *s) {
  const refusing *c = s->c;
  uint32_t bands = asked_bands(c);
  if (c->mode == WAFER_MODE_streaming) return WAFER_OK;
  while (bands /= 2) {
    uint64_t cycles;
    WAFER_TRY(try_with(c, c->ctx->machine, c->graph, c->batch, bands, &cycles));
    if (cycles) return add(s, wafer_arena_printf(c->ctx->arena, "--bands %u", bands), cycles);
  }
  return WAFER_OK;
}

/* Half the bytes of every float. */
static wafer_status try_half(search *s) {
  const refusing *c = s->c;
  wafer_graph half = *c->graph;
  uint64_t cycles;
  if (!half.kernel_count || half.kernels[0].body.storage != WAFER_DTYPE_f32) return WAFER_OK;
  half.kernels =
      wafer_arena_copy(c->ctx->arena, c->graph->kernels, half.kernel_count * sizeof *half.kernels);
  if (!half.kernels) return no_memory(c);
  for (uint32_t k = 0; k < half.kernel_count; k++) half.kernels[k].body.storage = WAFER_DTYPE_f16;
  WAFER_TRY(try_with(c, c->ctx->machine, &half, c->batch, asked_bands(c), &cycles));
  return cycles ? add(s, "--dtype f16", cycles) : WAFER_OK;
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
    uint64_t cycles;
    if (wafer_machine_open(NULL, c->ctx->arena, *name, &machine) != WAFER_OK) continue;
    uint64_t memory = memory_of(machine);
    if (memory <= given || memory >= least) continue;
    WAFER_TRY(try_with(c, machine, c->graph, c->batch, asked_bands(c), &cycles));
    if (!cycles) continue;
    least = memory;
    best = *name;
    interval = cycles;
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
  WAFER_TRY(try_bands(&s));
  WAFER_TRY(try_batches(&s));
  WAFER_TRY(try_half(&s));
  WAFER_TRY(try_machines(&s));
  hand_over(&s, r);
  return wafer_fail(c->ctx->diag, c->graph->kernels[r->kernel].loc, WAFER_NO_FIT,
                    "%s does not fit %s: %s%s; %s", wafer_mode_name(c->mode), c->ctx->machine->name,
                    r->why, owners_of(c, r), remedies_of(&s));
}
