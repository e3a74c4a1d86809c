/* When a model does not fit: which kernel, whose bytes, and ways that were tried and work. */
#include "mode_refuse.h"

#include "mode_bands.h"
#include "mode_stripes.h"

#define MOST_REMEDIES 7
#define SEARCH_MOVES 100000u /* a second or two */

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

static wafer_cut asked_cut(const refusing *c) {
  const wafer_options *o = c->ctx->options;
  return o ? (wafer_cut){o->bands, o->sides, false} : (wafer_cut){0};
}

/* Between samples; of a pipeline by the predicted pace of core programs where it will have some. */
static uint64_t cycles_of(const refusing *c, const sizing *tried, uint32_t bands) {
  bool paced = tried->pace && size_gets_train(c->ctx, c->graph);
  uint64_t pace = paced ? mode_pace(tried, bands) : 0;
  return pace > tried->cost.interval_cycles ? pace : tried->cost.interval_cycles;
}

/* What is asked for in place of what does not fit. */
typedef struct wish {
  wafer_mode mode;
  const wafer_machine *machine;
  const wafer_graph *graph;
  uint32_t batch;
  wafer_cut cut; /* as options say it */
  uint64_t moves; /* of a search; 0: shelves will do */
} wish;

static wish as_asked(const refusing *c) {
  const wafer_options *o = c->ctx->options;
  return (wish){c->asked, c->ctx->machine, c->graph, o && o->batch ? o->batch : 1, asked_cut(c), 0};
}

/* Takes what fits if it is faster. */
static void keep_least(const refusing *c, const sizing *tried, uint32_t bands, uint64_t *least) {
  uint64_t cycles = tried->cost.fits ? cycles_of(c, tried, bands) : 0;
  if (cycles && (!*least || cycles < *least)) *least = cycles;
}

static wafer_status size_wish(const refusing *c, const wafer_ctx *with, wish w, uint64_t *cycles) {
  sizing tried = {0};
  *cycles = 0;
  if (w.mode != WAFER_MODE_streaming) {
    WAFER_TRY(mode_size_bands(with, c->ir, w.graph, &w.cut, &tried));
    keep_least(c, &tried, w.cut.bands, cycles);
  }
  if (w.mode != WAFER_MODE_pipelined) {
    wafer_cut cut;
    WAFER_TRY(mode_size_stripes(with, c->ir, w.graph, &w.batch, &cut, &tried));
    keep_least(c, &tried, 1, cycles);
  }
  return WAFER_OK;
}

/* Cycles between samples with what was asked for besides. 0: it does not fit. */
static wafer_status try_with(const refusing *c, wish w, uint64_t *cycles) {
  static const wafer_diag silent = {0};
  wafer_ctx with = *c->ctx;
  wafer_options options = with.options ? *with.options : (wafer_options){0};
  options.placer = w.moves ? WAFER_PLACER_best : WAFER_PLACER_shelf;
  options.place_moves = w.moves;
  options.bands = w.cut.bands;
  options.sides = w.cut.sides;
  options.refused = NULL;
  with.options = &options;
  with.diag = &silent; /* a pin may lie outside of another machine */
  with.machine = w.machine;
  curve_sets_forget_layouts(c->ir); /* those of another graph, or of another placer */
  wafer_status status = size_wish(c, &with, w, cycles);
  return status == WAFER_NO_MEMORY ? no_memory(c) : WAFER_OK;
}

/* A machine of another name, or repaired otherwise, as the user would have it. */
static bool find_machine(const refusing *c, const char *name, const char *repair,
                         const wafer_machine **out) {
  const wafer_options *o = c->ctx->options;
  if (o && o->other_machine)
    return o->other_machine(o->refused_self, c->ctx->arena, name, repair, out) == WAFER_OK;
  return name && wafer_machine_open(NULL, c->ctx->arena, name, out) == WAFER_OK;
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
  return add(s, option, cycles_of(c, other, streams ? 1 : c->cut.bands));
}

/* Where shelves alone do not hold what there are cores for. */
static wafer_status try_search(search *s, const size_refusal *r) {
  const refusing *c = s->c;
  const wafer_options *o = c->ctx->options;
  wish w = as_asked(c);
  uint64_t cycles;
  if (c->mode == WAFER_MODE_streaming || r->asked || (o && o->placer == WAFER_PLACER_best))
    return WAFER_OK;
  w.mode = WAFER_MODE_pipelined;
  w.moves = SEARCH_MOVES;
  w.machine = wafer_arena_copy(c->ctx->arena, w.machine, sizeof *w.machine); /* other curves */
  if (!w.machine) return no_memory(c);
  WAFER_TRY(try_with(c, w, &cycles));
  if (!cycles) return WAFER_OK;
  return add(s, wafer_arena_printf(c->ctx->arena, "--placer best --place-moves %u", SEARCH_MOVES),
             cycles);
}

/* The most samples, halving, with which streaming fits, in the bands that are asked for. */
static wafer_status try_batches(search *s) {
  const refusing *c = s->c;
  uint32_t bands = mode_streaming_bands(c->ctx->options);
  wish w = as_asked(c);
  if (c->mode == WAFER_MODE_pipelined) return WAFER_OK;
  w.mode = WAFER_MODE_streaming;
  for (uint32_t each = c->batch / 2; each > 0; each /= 2) {
    uint64_t cycles;
    w.batch = each * bands;
    WAFER_TRY(try_with(c, w, &cycles));
    if (cycles) return add(s, wafer_arena_printf(c->ctx->arena, "--batch %u", w.batch), cycles);
  }
  return WAFER_OK;
}

/* Of the wafer's rows, where so many are asked for: the most, halving, with which a pipeline fits.
 */
static wafer_status try_bands(search *s) {
  const refusing *c = s->c;
  wish w = as_asked(c);
  if (c->mode == WAFER_MODE_streaming) return WAFER_OK;
  while (w.cut.bands /= 2) {
    uint64_t cycles;
    WAFER_TRY(try_with(c, w, &cycles));
    if (cycles)
      return add(s, wafer_arena_printf(c->ctx->arena, "--bands %u", w.cut.bands), cycles);
  }
  return WAFER_OK;
}

/* Half the bytes of every float. */
static wafer_status try_half(search *s) {
  const refusing *c = s->c;
  wafer_graph half = *c->graph;
  wish w = as_asked(c);
  uint64_t cycles;
  if (!half.kernel_count || half.kernels[0].body.storage != WAFER_DTYPE_f32) return WAFER_OK;
  half.kernels =
      wafer_arena_copy(c->ctx->arena, c->graph->kernels, half.kernel_count * sizeof *half.kernels);
  if (!half.kernels) return no_memory(c);
  for (uint32_t k = 0; k < half.kernel_count; k++) half.kernels[k].body.storage = WAFER_DTYPE_f16;
  w.graph = &half;
  WAFER_TRY(try_with(c, w, &cycles));
  return cycles ? add(s, "--dtype f16", cycles) : WAFER_OK;
}

/* Spares, where rectangles between dead cores are too small. */
static wafer_status try_repair(search *s) {
  const refusing *c = s->c;
  const char *spares = wafer_repair_name(WAFER_REPAIR_spares);
  wish w = as_asked(c);
  uint64_t cycles;
  if (!w.machine->dead_count || !find_machine(c, NULL, spares, &w.machine)) return WAFER_OK;
  WAFER_TRY(try_with(c, w, &cycles));
  if (!cycles) return WAFER_OK;
  return add(s, wafer_arena_printf(c->ctx->arena, "--repair %s", spares), cycles);
}

static uint64_t memory_of(const wafer_machine *m) {
  return wafer_rect_area(m->usable) * wafer_machine_core_budget(m);
}

/* The machine that ships with the least memory in which the model fits, if there is one. */
static wafer_status try_machines(search *s) {
  const refusing *c = s->c;
  wish w = as_asked(c);
  uint64_t least = UINT64_MAX, given = memory_of(c->ctx->machine), interval = 0;
  const char *best = NULL;
  for (const char *const *name = wafer_machine_names(); *name; name++) {
    uint64_t cycles;
    if (!find_machine(c, *name, NULL, &w.machine)) continue;
    uint64_t memory = memory_of(w.machine);
    if (memory <= given || memory >= least) continue;
    WAFER_TRY(try_with(c, w, &cycles));
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
  WAFER_TRY(try_search(&s, r));
  WAFER_TRY(try_bands(&s));
  WAFER_TRY(try_batches(&s));
  WAFER_TRY(try_half(&s));
  WAFER_TRY(try_repair(&s));
  WAFER_TRY(try_machines(&s));
  hand_over(&s, r);
  return wafer_fail(c->ctx->diag, c->graph->kernels[r->kernel].loc, WAFER_NO_FIT,
                    "%s does not fit %s: %s%s; %s", wafer_mode_name(c->mode), c->ctx->machine->name,
                    r->why, owners_of(c, r), remedies_of(&s));
}
