/* Several pipelines beside each other.
 *
 * A core of a pipeline receives, computes and sends in turn, so that core programs need longer for
 * a sample than the wafer's edge needs to bring the next, while a small model leaves most of the
 * wafer idle. So the wafer is cut into bands of whole rows with the same pipeline each: samples go
 * to them in turn, and b bands have b times the time. Bands have fewer rows, which makes turns
 * longer; how much, nobody knows before a band is sized. Where words cross both borders of the
 * wafer, as many bands of half the columns have twice the rows. */
#include "mode_bands.h"

#include "streams.h"

#define TRIES 6
#define MOST_SIZED 4096u /* kernels in all tries for shelves, a quarter of them in haste */
#define GAIN 64u /* more bands have to shorten the interval by one part in these */
/* Programs are faster than is predicted, mostly: in haste their pace may be so small a part above
 * the edge's. */
#define SURE 4u

typedef struct banding {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  const wafer_graph *graph;
} banding;

uint64_t mode_pace(const sizing *s, uint32_t bands) {
  uint64_t pace = ceil_div(s->pace, bands);
  return pace > s->edge ? pace : s->edge;
}

/* The pipeline on one of so many bands; curves of a machine are kept as long as it. */
static wafer_status size_band(const banding *b, wafer_cut cut, bool try, sizing *out) {
  wafer_ctx with = *b->ctx;
  wafer_options options = with.options ? *with.options : (wafer_options){0};
  WAFER_TRY(wafer_ir_machine(b->ctx, b->ir, cut, &with.machine));
  curve_set *curves = curve_set_of(&with, b->ir);
  if (!curves)
    return wafer_fail(with.diag, wafer_at_file(b->ir->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  bool searches = options.placer == WAFER_PLACER_best;
  if (try && !size_seeks_pace(b->ctx, b->graph)) options.placer = WAFER_PLACER_shelf;
  with.options = &options;
  WAFER_TRY(size_pipelined(&with, curves, b->graph, try, out));
  if (try && searches) curve_set_forget_layout(curves);
  return WAFER_OK;
}

/* Of each side. Bands of one wafer are alike, and have a row. */
static uint32_t most_bands(const banding *b) {
  const wafer_machine *m = b->ctx->machine;
  uint32_t most = m->usable.height, samples; /* a micro-batch is one */
  const wafer_options *o = b->ctx->options;
  bool alone = m->dead_count || m->reserved_count || b->graph->piece || (o && o->pin_count) ||
               (o && o->objective == WAFER_OBJECTIVE_latency) ||
               wafer_ir_get_micro_batch(b->ir, &samples);
  uint32_t limit = size_seeks_pace(b->ctx, b->graph) ? WAFER_SEARCHED_BANDS : WAFER_MOST_BANDS;
  return alone ? 1 : most < limit ? most : limit;
}

/* The next number worth a try; one that has been tried: none is. */
static uint32_t next_try(const sizing *tried, uint32_t bands, uint32_t best, uint64_t edge) {
  if (!tried->cost.fits) return best + (bands - best) / 2;
  uint64_t wanted = ceil_div(tried->pace, edge);
  return wanted < WAFER_MOST_BANDS ? (uint32_t)wanted : WAFER_MOST_BANDS;
}

/* What tries of bands at so many sides have found. */
typedef struct found {
  uint64_t edge, least; /* cycles of a sample: across the edge, of programs on `best` */
  uint32_t sides;       /* of those that are tried */
  uint32_t sized;       /* kernels so far */
  wafer_cut best;
  bool hasty; /* if predictions are wrong all is looked for again */
} found;

static bool has_time(const banding *b, const found *f) {
  uint32_t most = f->hasty ? MOST_SIZED / 4 : MOST_SIZED;
  const wafer_options *o = b->ctx->options;
  bool searches = o && o->placer == WAFER_PLACER_best;
  return searches || f->sized + b->graph->kernel_count <= most;
}

static bool keeps_pace(const found *f) {
  return f->least <= f->edge + (f->hasty ? f->edge / SURE : 0);
}

/* So many at each side, and those for which there are rows left; bands whose streams would take
 * longer than `most_flow` are none. */
static wafer_status try_bands(const banding *b, uint32_t each, uint64_t most_flow, found *f,
                              sizing *tried) {
  wafer_cut cut =
      wafer_machine_fill(b->ctx->machine, (wafer_cut){each * f->sides, f->sides, false});
  *tried = (sizing){0};
  if (!has_time(b, f)) return WAFER_OK;
  f->sized += b->graph->kernel_count;
  WAFER_TRY(size_band(b, cut, true, tried));
  uint64_t now = mode_pace(tried, cut.bands);
  bool flows = tried->cost.fits && ceil_div(tried->cost.interval_cycles, cut.bands) <= most_flow;
  if (!flows || now >= f->least - f->least / GAIN) return WAFER_OK;
  f->least = now;
  f->best = cut;
  return WAFER_OK;
}

/* The best of what is tried now, at each side; 0: none is yet. */
static uint32_t best_of(const found *f) {
  return f->best.sides == f->sides ? f->best.bands / f->sides : 0;
}

/* The fewest with which core programs keep pace with the edge, as far as tries find them, in haste
 * before more are slower; by streams that flow while cores compute a pipeline does already, and on
 * each band has to. */
static wafer_status look_for_edge(const banding *b, const sizing *whole, found *f) {
  uint32_t most = most_bands(b), at = ceil_div(next_try(whole, 1, 1, f->edge), f->sides);
  for (int tries = 0; tries < TRIES && !keeps_pace(f); tries++) {
    sizing tried;
    if (at > most) at = most;
    if (at <= best_of(f)) break;
    uint32_t before = best_of(f);
    WAFER_TRY(try_bands(b, at, f->edge, f, &tried));
    if (f->hasty && tried.cost.fits && best_of(f) == before) break;
    uint32_t next = next_try(&tried, at * f->sides, before * f->sides, f->edge) / f->sides;
    if (next == at) break;
    at = next;
  }
  return WAFER_OK;
}

/* Where the plan's programs tell how fast it is, and nothing else binds: each number is twice the
 * one before, then half of what lies beside the best. */
static wafer_status look_for_pace(const banding *b, found *f) {
  uint32_t most = most_bands(b);
  sizing tried;
  for (uint32_t at = f->sides == 1 ? 2 : 1; at <= most && !keeps_pace(f); at *= 2)
    WAFER_TRY(try_bands(b, at, UINT64_MAX, f, &tried));
  uint32_t best = best_of(f);
  if (best > 3 && !keeps_pace(f)) WAFER_TRY(try_bands(b, best / 4 * 3, UINT64_MAX, f, &tried));
  if (best > 1 && best / 2 * 3 <= most && !keeps_pace(f))
    WAFER_TRY(try_bands(b, best / 2 * 3, UINT64_MAX, f, &tried));
  return WAFER_OK;
}

/* Bands make all samples late, and no streams faster that reach the edge's pace: there are none
 * where no programs tell. Beside replicas only those are taken whose programs are to keep that
 * pace. */
static wafer_status look(const banding *b, const sizing *whole, wafer_cut *cut) {
  const wafer_options *o = b->ctx->options;
  bool hasty = o && o->hasty;
  found f = {whole->edge ? whole->edge : 1, mode_pace(whole, 1), 1, 0, {1, 1, false}, hasty};
  uint32_t least = o && o->sides ? o->sides : 1, most = least;
  bool replicas = o && o->replicas > 1; /* they share out samples, too */
  bool told = size_gets_train(b->ctx, b->graph), paced = told && !replicas;
  if (paced && (!o || !o->sides) && wafer_machine_half_columns(b->ctx->machine)) most = 2;
  for (f.sides = least; f.sides <= most && !keeps_pace(&f); f.sides++) {
    if (told && whole->cost.interval_cycles <= whole->edge) WAFER_TRY(look_for_edge(b, whole, &f));
    if (paced) WAFER_TRY(look_for_pace(b, &f));
  }
  *cut = paced || keeps_pace(&f) ? f.best : (wafer_cut){1, 1, false};
  return WAFER_OK;
}

/* What has one pipeline only. */
static wafer_status refuse_several(const banding *b) {
  const wafer_options *o = b->ctx->options;
  uint32_t samples;
  bool trains = wafer_ir_get_micro_batch(b->ir, &samples);
  if (!o || o->bands < 2 || (!trains && !b->graph->piece)) return WAFER_OK;
  return wafer_fail(b->ctx->diag, wafer_at_file(b->ir->file), WAFER_UNSUPPORTED,
                    "--bands %u: %s one band; leave --bands out", o->bands,
                    trains ? "a pipeline that trains has its weights once, on"
                           : "a model with host steps runs sample by sample, on");
}

/* With interval and cores of all bands. */
static wafer_status size_all(const banding *b, wafer_cut cut, bool try, sizing *out) {
  WAFER_TRY(size_band(b, cut, try, out));
  uint64_t flow = ceil_div(out->cost.interval_cycles, cut.bands);
  out->cost.interval_cycles = flow > out->edge ? flow : out->edge;
  out->cost.cores *= cut.bands;
  return WAFER_OK;
}

wafer_status mode_size_bands(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                             wafer_cut *cut, sizing *out) {
  const banding b = {ctx, ir, graph};
  const wafer_options *o = ctx->options;
  WAFER_TRY(refuse_several(&b));
  *cut = (wafer_cut){1, 1, false};
  if (o && o->bands > 1) *cut = (wafer_cut){o->bands, o->sides ? o->sides : 1, false};
  if ((!o || !o->bands) && most_bands(&b) > 1) {
    WAFER_TRY(size_band(&b, *cut, true, out));
    if (out->cost.fits) WAFER_TRY(look(&b, out, cut));
  }
  return size_all(&b, *cut, size_seeks_pace(ctx, graph), out);
}

wafer_status mode_settle_bands(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               wafer_cut cut, sizing *out) {
  const banding b = {ctx, ir, graph};
  return size_seeks_pace(ctx, graph) ? size_all(&b, cut, false, out) : WAFER_OK;
}
