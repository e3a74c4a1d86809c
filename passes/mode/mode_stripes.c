/* How many samples lie side by side in streaming, and how many there are.
 *
 * A layer that does not fill the wafer, or whose exchanges take longer than its work, gains little
 * from the last half of the columns, or of the rows: bands of fewer rows, and stripes of fewer
 * columns in each, every one with samples of its own, give more samples in the same time, until the
 * edge or the cores' memory binds. */
#include "mode_stripes.h"

#include "streams.h"

#define BATCH_MOST (1u << 20)
#define MOST_FAILED 2   /* numbers of bands in a row that were no better */
#define DEEP 4          /* so many times fewer samples side by side */
#define DEPTH_MOST 1024 /* samples of a stripe, each with programs of its own */
#define BATCH_GAIN 64   /* more samples have to shorten the interval by one part in these */

/* How samples are dealt out: so many to each stripe of each band. */
typedef struct crowd {
  uint32_t bands, stripes, depth;
} crowd;

typedef struct striping {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  const wafer_graph *graph;
  uint32_t columns, rows; /* of the wafer, that stripes and bands may share */
  bool fixed, open;       /* the bands are given; the samples are not */
  uint64_t most;          /* samples */
  crowd now;
  sizing present; /* on a band, its interval that of the wafer */
} striping;

static uint64_t batch_of(crowd d) {
  return (uint64_t)d.bands * d.stripes * d.depth;
}

/* Who looks for a short latency gets the whole wafer for every sample; bands have to be alike. */
static bool may_hold(const striping *s, crowd d) {
  const wafer_options *o = s->ctx->options;
  const wafer_machine *m = s->ctx->machine;
  uint32_t samples;
  bool whole = o && o->objective == WAFER_OBJECTIVE_latency;
  bool one = whole || m->dead_count || m->reserved_count || s->graph->piece ||
             wafer_ir_get_micro_batch(s->ir, &samples);
  return (d.bands == s->now.bands || (!one && !s->fixed && d.bands <= s->rows)) &&
         d.stripes <= (whole ? 1 : s->columns) && d.depth && batch_of(d) <= s->most &&
         (!s->open || d.depth <= DEPTH_MOST);
}

/* Whether something passes in slices, which no core program does. */
static bool has_slices(const striping *s, const sizing *of) {
  for (uint32_t k = 0; k < s->graph->kernel_count; k++)
    for (uint32_t i = 0; i <= s->graph->kernels[k].body.input_count; i++)
      if (of->kernels[k].depths[i] == 0) return true;
  return false;
}

static wafer_status size_crowd(const striping *s, crowd d, sizing *out) {
  wafer_ctx with = *s->ctx;
  WAFER_TRY(wafer_ir_machine(s->ctx, s->ir, (wafer_cut){d.bands, 1, true}, &with.machine));
  curve_set *curves = curve_set_of(&with, s->ir);
  if (!curves)
    return wafer_fail(s->ctx->diag, wafer_at_file(s->ir->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  WAFER_TRY(size_streaming(&with, curves, s->graph, d.depth, d.stripes, out));
  out->cost.interval_cycles = ceil_div(out->cost.interval_cycles, d.bands);
  out->cost.cores *= d.bands;
  return WAFER_OK;
}

/* Whether a crowd is faster than another by `gain`; where there would be programs, not for slices.
 */
static bool is_better(const striping *s, crowd d, const sizing *tried, const sizing *than,
                      uint64_t gain) {
  if (!than->cost.fits || !tried->cost.fits) return tried->cost.fits;
  return tried->cost.interval_cycles + gain <= than->cost.interval_cycles &&
         (has_slices(s, than) || !has_slices(s, tried) ||
          !size_gets_programs(s->ctx, s->graph, d.stripes * d.depth));
}

/* Takes another crowd if it is better than the present one. */
static wafer_status try_crowd(striping *s, crowd d, uint64_t gain, bool *better) {
  sizing tried;
  *better = false;
  if (!may_hold(s, d)) return WAFER_OK;
  WAFER_TRY(size_crowd(s, d, &tried));
  *better = is_better(s, d, &tried, &s->present, gain);
  if (!*better) return WAFER_OK;
  s->now = d;
  s->present = tried;
  return WAFER_OK;
}

static uint64_t gain_of(const striping *s) {
  return s->present.cost.interval_cycles / BATCH_GAIN;
}

/* ---- A batch that is given ---- */

/* In bands and stripes that divide it. */
static wafer_status settle_stripes(striping *s, uint32_t batch) {
  bool better;
  for (uint32_t stripes = 2; stripes <= batch; stripes++)
    if (batch % (s->now.bands * stripes) == 0)
      WAFER_TRY(
          try_crowd(s, (crowd){s->now.bands, stripes, batch / s->now.bands / stripes}, 1, &better));
  return WAFER_OK;
}

/* Whether samples lie much less side by side than now: such crowds are no faster. */
static bool is_deep(const striping *s, uint32_t bands, uint32_t stripes) {
  uint64_t beside = (uint64_t)bands * stripes, now = (uint64_t)s->now.bands * s->now.stripes;
  return s->present.cost.fits && beside * DEEP < now;
}

/* Up to twice the bands that were best, or as many as there are rows for where nothing fits yet;
 * their stripes are all that divide the rest. */
static wafer_status settle_bands(striping *s, uint32_t batch) {
  for (uint32_t bands = s->now.bands + 1;
       bands <= (s->present.cost.fits ? 2 * s->now.bands : s->rows); bands++)
    for (uint32_t stripes = 1; batch % bands == 0 && stripes <= batch / bands; stripes++) {
      bool better;
      if (batch / bands % stripes == 0 && !is_deep(s, bands, stripes))
        WAFER_TRY(try_crowd(s, (crowd){bands, stripes, batch / bands / stripes}, 1, &better));
    }
  return WAFER_OK;
}

/* ---- As many samples as pay ---- */

/* As many samples in each stripe, of which there are as many as the wafer has columns for. More
 * samples have to be worth it. */
static wafer_status try_columns(striping *s, uint32_t columns, bool *better) {
  crowd d = s->now;
  *better = false;
  if (!columns || s->columns / columns == d.stripes) return WAFER_OK;
  d.stripes = s->columns / columns;
  return try_crowd(s, d, d.stripes > s->now.stripes ? gain_of(s) : 1, better);
}

/* Twice as many samples in each stripe, or half more where the cores hold no more. */
static wafer_status try_deeper(striping *s, crowd from, uint64_t gain, bool *better) {
  crowd twice = from, more = from;
  twice.depth *= 2;
  more.depth += more.depth / 2;
  WAFER_TRY(try_crowd(s, twice, gain, better));
  return *better || more.depth == from.depth ? WAFER_OK : try_crowd(s, more, gain, better);
}

/* Samples of a stripe share the arrival of a phase's weights and overlap within it, those of all
 * stripes share it too: there are more, by stripes or within them, as long as that shortens the
 * interval. */
static wafer_status grow(striping *s) {
  bool better = true;
  while (better && s->present.cost.fits) {
    const crowd from = s->now;
    uint64_t gain = gain_of(s);
    bool also;
    WAFER_TRY(try_columns(s, s->columns / (2 * from.stripes), &better));
    WAFER_TRY(try_deeper(s, from, better ? 1 : gain, &also));
    better |= also;
  }
  return WAFER_OK;
}

/* How well the layers suit a width no other width tells: those beside it are tried. */
static wafer_status settle_columns(striping *s) {
  bool better = true;
  while (better) {
    WAFER_TRY(grow(s));
    uint32_t columns = s->columns / s->now.stripes;
    if (!s->present.cost.fits || s->now.stripes == 1) return WAFER_OK;
    WAFER_TRY(try_columns(s, columns + 1, &better));
    if (!better) WAFER_TRY(try_columns(s, columns - 1, &better));
  }
  return WAFER_OK;
}

/* As many samples in a band as now, or in half as many stripes, or fewer, if they fit into one of
 * half the rows; *found: some do. */
static wafer_status enter_bands(striping *s, crowd d, bool *found) {
  bool more = may_hold(s, d);
  *found = false;
  for (uint32_t tries = 0; more && d.stripes; d.stripes /= 2) {
    sizing tried;
    WAFER_TRY(size_crowd(s, d, &tried));
    if (!tried.cost.fits) continue;
    if (!*found || is_better(s, d, &tried, &s->present, 1)) {
      s->now = d;
      s->present = tried;
    }
    *found = true;
    more = ++tries < 2;
  }
  return WAFER_OK;
}

/* So many bands, or as many of their height as there are rows for, with what suits them. */
static wafer_status try_bands(striping *s, uint32_t *bands, bool *better) {
  const crowd before = s->now;
  const sizing present = s->present;
  uint64_t gain = gain_of(s);
  bool found;
  *bands = wafer_machine_fill(s->ctx->machine, (wafer_cut){*bands, 1, true}).bands;
  const crowd same = {*bands, before.stripes, before.depth}, light = {*bands, before.stripes, 1};
  WAFER_TRY(enter_bands(s, same, &found));
  if (!found && before.depth > 1) WAFER_TRY(enter_bands(s, light, &found));
  if (found) WAFER_TRY(settle_columns(s));
  *better = found && is_better(s, s->now, &s->present, &present, gain);
  if (*better) return WAFER_OK;
  s->now = before;
  s->present = present;
  return WAFER_OK;
}

/* Bands after stripes: those of half the rows begin with the stripes that were best, until twice as
 * many were no better several times in a row. */
static wafer_status settle_batch(striping *s) {
  uint32_t failed = 0;
  WAFER_TRY(settle_columns(s));
  for (uint32_t bands = 2; bands <= s->rows && s->present.cost.fits; bands *= 2) {
    bool better;
    WAFER_TRY(try_bands(s, &bands, &better));
    failed = better ? 0 : failed + 1;
    if (failed == MOST_FAILED) return WAFER_OK;
  }
  return WAFER_OK;
}

uint32_t mode_streaming_bands(const wafer_options *o) {
  return o && o->mode == WAFER_MODE_streaming && o->bands ? o->bands : 1;
}

/* Bands have as many samples each, and what runs sample by sample has one. */
static wafer_status refuse_bands(const striping *s, uint32_t batch) {
  wafer_loc loc = wafer_at_file(s->ir->file);
  uint32_t bands = s->now.bands, samples;
  bool trains = wafer_ir_get_micro_batch(s->ir, &samples);
  if (bands > 1 && (trains || s->graph->piece))
    return wafer_fail(s->ctx->diag, loc, WAFER_UNSUPPORTED,
                      "--bands %u: %s one band; leave --bands out", bands,
                      trains ? "a training plan holds one micro-batch, on"
                             : "a model with host steps runs sample by sample, on");
  if (batch == WAFER_BATCH_auto || batch % bands == 0) return WAFER_OK;
  return wafer_fail(s->ctx->diag, loc, WAFER_USAGE,
                    "--bands %u: bands of streaming have as many samples each, and %u are resident "
                    "together; take --batch auto or a multiple of %u",
                    bands, batch, bands);
}

wafer_status mode_size_stripes(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               uint32_t *batch, wafer_cut *cut, sizing *out) {
  uint32_t samples, bands = mode_streaming_bands(ctx->options);
  bool open = *batch == WAFER_BATCH_auto;
  bool settles = open && !wafer_ir_get_micro_batch(ir, &samples);
  wafer_rect whole;
  striping s = {.ctx = ctx,
                .ir = ir,
                .graph = graph,
                .fixed = ctx->options && ctx->options->bands,
                .open = open,
                .most = ctx->options && ctx->options->batch_most ? ctx->options->batch_most
                                                                 : BATCH_MOST,
                .now = {bands, 1, open ? 1 : *batch / bands}};
  if (!size_whole_wafer(ctx->machine, &whole))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  WAFER_TRY(refuse_bands(&s, *batch));
  s.columns = whole.width;
  s.rows = whole.height;
  WAFER_TRY(size_crowd(&s, s.now, &s.present));
  if (settles) WAFER_TRY(settle_batch(&s));
  if (!open) WAFER_TRY(settle_stripes(&s, *batch));
  if (!open) WAFER_TRY(settle_bands(&s, *batch));
  *batch = s.now.stripes * s.now.depth;
  *cut = (wafer_cut){s.now.bands, 1, true};
  *out = s.present;
  return WAFER_OK;
}
