/* How many samples lie side by side in streaming, and how many there are. */
#include "mode_stripes.h"

#define BATCH_MOST (1u << 20)
#define BATCH_GAIN 64 /* a doubling has to shorten the interval by one part in these */

typedef struct striping {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  uint32_t columns; /* that stripes may share */
  uint32_t batch;
  sizing present;
} striping;

/* Who looks for a short latency gets the whole wafer for every sample. */
static uint32_t most_stripes(const striping *s, uint32_t batch) {
  const wafer_options *o = s->ctx->options;
  if (o && o->objective == WAFER_OBJECTIVE_latency) return 1;
  return batch < s->columns ? batch : s->columns;
}

/* Whether something passes in slices, which no core program does. */
static bool has_slices(const striping *s, const sizing *of) {
  for (uint32_t k = 0; k < s->graph->kernel_count; k++)
    for (uint32_t i = 0; i <= s->graph->kernels[k].body.input_count; i++)
      if (of->kernels[k].depths[i] == 0) return true;
  return false;
}

/* Takes another sizing of `batch` samples if it is faster than the present one by `gain`; where
 * there would be programs, not for slices. */
static wafer_status try_stripes(striping *s, uint32_t batch, uint32_t stripes, uint64_t gain,
                                bool *better) {
  const sizing *present = &s->present;
  sizing tried;
  *better = false;
  if (stripes > most_stripes(s, batch)) return WAFER_OK;
  WAFER_TRY(size_streaming(s->ctx, s->curves, s->graph, batch / stripes, stripes, &tried));
  *better = tried.cost.fits;
  if (present->cost.fits && tried.cost.fits)
    *better = tried.cost.interval_cycles + gain <= present->cost.interval_cycles &&
              (has_slices(s, present) || !has_slices(s, &tried) ||
               !size_gets_programs(s->ctx, s->graph, batch));
  if (!*better) return WAFER_OK;
  s->batch = batch;
  s->present = tried;
  return WAFER_OK;
}

/* A layer that does not fill the wafer, or whose exchanges take longer than its work, gains little
 * from the last half of the columns: stripes of fewer columns, each with samples of its own, give
 * more samples in the same time, until the edge or the cores' memory binds. */
static wafer_status settle_stripes(striping *s) {
  bool better;
  for (uint32_t stripes = 2; stripes <= s->batch; stripes++)
    if (s->batch % stripes == 0) WAFER_TRY(try_stripes(s, s->batch, stripes, 1, &better));
  return WAFER_OK;
}

/* As many samples in each stripe, of which there are as many as the wafer has columns for. More
 * samples have to be worth it. */
static wafer_status try_columns(striping *s, uint32_t columns, bool *better) {
  uint32_t now = s->present.stripes, stripes = columns ? s->columns / columns : now;
  *better = false;
  if (stripes == now || stripes == 0) return WAFER_OK;
  uint64_t gain = stripes > now ? s->present.cost.interval_cycles / BATCH_GAIN : 1;
  return try_stripes(s, s->batch / now * stripes, stripes, gain, better);
}

/* Samples of a stripe share the arrival of a phase's weights and overlap within it, those of all
 * stripes share it too: the batch doubles, by stripes or within them, as long as that shortens the
 * interval. */
static wafer_status grow(striping *s) {
  bool better = true;
  while (better && s->present.cost.fits && s->batch < BATCH_MOST) {
    uint32_t batch = 2 * s->batch, stripes = s->present.stripes;
    uint64_t gain = s->present.cost.interval_cycles / BATCH_GAIN;
    bool deeper;
    WAFER_TRY(try_columns(s, s->columns / (2 * stripes), &better));
    WAFER_TRY(try_stripes(s, batch, stripes, better ? 1 : gain, &deeper));
    better |= deeper;
  }
  return WAFER_OK;
}

/* How well the layers suit a width no other width tells: those beside it are tried. */
static wafer_status settle_batch(striping *s) {
  bool better = true;
  while (better) {
    WAFER_TRY(grow(s));
    uint32_t columns = s->columns / s->present.stripes;
    if (!s->present.cost.fits || s->present.stripes == 1) return WAFER_OK;
    WAFER_TRY(try_columns(s, columns + 1, &better));
    if (!better) WAFER_TRY(try_columns(s, columns - 1, &better));
  }
  return WAFER_OK;
}

wafer_status mode_size_stripes(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               uint32_t *batch, sizing *out) {
  uint32_t samples;
  bool open = *batch == WAFER_BATCH_auto;
  bool settles = open && !wafer_ir_get_micro_batch(ir, &samples);
  striping s = {.ctx = ctx,
                .graph = graph,
                .curves = curve_set_of(ctx, ir),
                .batch = open ? 1 : *batch};
  wafer_rect whole;
  if (!s.curves || !size_whole_wafer(ctx->machine, &whole))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  s.columns = whole.width;
  WAFER_TRY(size_streaming(ctx, s.curves, graph, s.batch, 1, &s.present));
  WAFER_TRY(settles ? settle_batch(&s) : settle_stripes(&s));
  *batch = s.batch;
  *out = s.present;
  return WAFER_OK;
}
