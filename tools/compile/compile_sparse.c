/* Second thoughts about the shapes of sparse weights. Sizing takes those that waste few multiply
 * cycles; what exchanges with them take, only the plan tells. What lies in the order of a dealt
 * weight is brought into another for the next, so weights that are not dealt may be faster and
 * waste as little; so may shapes with room for more than the pairs, of which there are fewer, where
 * the estimates of exchanges mislead. Where speed is asked for, a plan is no slower than the dense
 * one; with the shapes of dense weights it is not, for it streams fewer words and multiplies no
 * longer than the dense plan does. */
#include "compile.h"
#include "sparsity.h"
#include "wafer/pairs.h"

/* Products may take REPORT_LEAN times the density of the dense multiply cycles, and more only where
 * the plan at hand does. Sizing looks for less, because it estimates tiles. */
#define LEAN_FAR 1.6 /* no shapes that it could look for would be lean */
#define LEAN_AGAIN 3 /* so often it is asked for less, in such steps: */
#define LEAN_STEP 50
#define LEAN_FIRST 1250
#define LEAN_LOOSER 2  /* and so often for more, which may not be more when it is counted */
#define SMALL_MODEL 16 /* kernels */
#define SLOWER_MOST 3  /* times as slow a pipeline may be for the sake of lean products */

static bool multiplies_sparse(const wafer_plan *plan) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel_body *body = &plan->kernels[k].body;
    for (uint32_t i = 0; i < body->input_count; i++)
      if (wafer_body_multiplies(body, i)) return true;
  }
  return false;
}

typedef struct attempt {
  wafer_ir *ir;
  const wafer_plan *plan;
  uint64_t interval;
} attempt;

/* What sizing is asked for. */
typedef struct wish {
  wafer_sparse_shapes shapes;
  uint32_t lean;     /* thousandths; 0: as it likes */
  bool no_late_list; /* of pairs */
  bool dense;        /* weights */
} wish;

/* `a->plan` is NULL where there is no plan so. What a pipeline would take is that of the plan at
 * hand. */
static wafer_status try(const wafer_ctx *ctx, const char *model, const wafer_plan *present, wish w,
                        attempt *a) {
  wafer_options own = *ctx->options;
  own.mode = WAFER_MODE_streaming;
  own.sparse_shapes = w.shapes;
  own.lean = w.lean;
  own.no_late_list = w.no_late_list;
  own.pipelined = &present->pipelined;
  if (w.dense) own.sparsity = 0, own.mask_count = 0;
  report r = {0};
  WAFER_TRY(compile_other(ctx, model, &own, own.programs, false, &a->ir, &a->plan, &r));
  a->interval = r.interval_cycles;
  return WAFER_OK;
}

/* The attempt in place of what is at hand where it is better; the worse one goes. */
static bool choose(const attempt *a, bool better, wafer_ir **ir, const wafer_plan **plan) {
  compile_drop(better ? *ir : a->ir);
  if (better) *ir = a->ir, *plan = a->plan;
  return better;
}

/* Other shapes, where these are faster and lean. *interval: of *plan. */
static wafer_status faster(const wafer_ctx *ctx, const char *model, wish w, wafer_ir **ir,
                           const wafer_plan **plan, uint64_t *interval) {
  attempt a;
  double most = report_waste(*plan);
  if (most < REPORT_LEAN) most = REPORT_LEAN;
  WAFER_TRY(try(ctx, model, *plan, w, &a));
  bool better = a.plan && a.interval < *interval && report_waste(a.plan) <= most;
  if (choose(&a, better, ir, plan)) *interval = a.interval;
  return WAFER_OK;
}

/* Shapes with room for all elements, and weights that are not dealt; and all of them where they are
 * estimated to waste more, which counted they may not. Each with four lists of pairs and with
 * three: what four have shapes to choose from is more, and what estimates make of that not always
 * better. Of a large model, which takes long, a few of these. */
static wafer_status find_faster(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                                const wafer_plan **plan, uint64_t *interval) {
  static const wafer_sparse_shapes shapes[] = {WAFER_SPARSE_lean, WAFER_SPARSE_lean_roomy,
                                               WAFER_SPARSE_lean_undealt};
  bool small = (*plan)->kernel_count <= SMALL_MODEL;
  for (uint32_t i = 0; i <= (small ? LEAN_LOOSER : 1u); i++)
    for (uint32_t k = 0; k < WAFER_COUNT(shapes); k++)
      for (uint32_t few = 0; few < 2; few++) {
        bool first = i == 0 && k == 0 && !few, costly = !small && (!few || (i > 0 && k > 0));
        wish w = {shapes[k], LEAN_FIRST + i * LEAN_STEP, few, false};
        if (first || costly) continue; /* that at hand, and others */
        WAFER_TRY(faster(ctx, model, w, ir, plan, interval));
      }
  return WAFER_OK;
}

/* Where counted tiles are fuller than sizing has estimated: three lists of pairs, and shapes that
 * it takes for leaner. */
static wafer_status leaner(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                           const wafer_plan **plan, uint64_t *interval) {
  double waste = report_waste(*plan);
  if (waste > LEAN_FAR) return WAFER_OK;
  for (uint32_t i = 0; i <= LEAN_AGAIN && waste > REPORT_LEAN; i++) {
    attempt a;
    wish w = {WAFER_SPARSE_lean, LEAN_FIRST - i * LEAN_STEP, .no_late_list = i == 0};
    WAFER_TRY(try(ctx, model, *plan, w, &a));
    if (!choose(&a, a.plan && report_waste(a.plan) < waste, ir, plan)) continue;
    waste = report_waste(a.plan);
    *interval = a.interval;
  }
  return WAFER_OK;
}

/* The leanest that takes no longer than `most`; shapes of dense weights where all others do. */
static wafer_status find(const wafer_ctx *ctx, const char *model, uint64_t most, wafer_ir **ir,
                         const wafer_plan **plan) {
  for (wafer_sparse_shapes s = WAFER_SPARSE_fast; s <= WAFER_SPARSE_as_dense; s++) {
    attempt a;
    WAFER_TRY(try(ctx, model, *plan, (wish){.shapes = s}, &a));
    bool good = a.plan && (a.interval <= most || s == WAFER_SPARSE_as_dense);
    if (choose(&a, good, ir, plan)) break;
  }
  return WAFER_OK;
}

/* ---- Pipelines ---- */

/* A pipeline with shapes that are as lean as `w` asks for, and what suits it. It is timed as the
 * one at hand is, by programs or by streams: these alone are faster than they. */
static wafer_status lean_pipeline(const wafer_ctx *ctx, const char *model,
                                  const wafer_plan *present, wish w, attempt *a) {
  wafer_options own = *ctx->options;
  wafer_ctx with = *ctx;
  wafer_ir *suited = NULL;
  const char *told;
  report r;
  own.mode = WAFER_MODE_pipelined;
  own.lean = w.lean;
  own.sparse_shapes = w.shapes;
  with.options = &own;
  bool by_streams = !present->launch_count && !compile_lacks_programs(present);
  WAFER_TRY(compile_other(ctx, model, &own, by_streams ? WAFER_PROGRAMS_never : own.programs, false,
                          &a->ir, &a->plan, &r));
  if (!a->plan) return WAFER_OK;
  WAFER_TRY(compile_reconsider(&with, model, &suited, &a->plan, &told));
  if (suited) {
    compile_drop(a->ir);
    a->ir = suited;
  }
  if (present->launch_count && !a->plan->launch_count) a->plan = NULL;
  if (!a->plan) return WAFER_OK;
  WAFER_TRY(report_make(cli_diag(), a->plan, &r));
  a->interval = r.interval_cycles;
  return WAFER_OK;
}

/* What is asked for next where something was, or was once, too slow or not to be had. */
static uint32_t next_lean(uint32_t lean, bool bears, double waste, double *slow) {
  if (!bears) *slow = lean;
  if (*slow < 1000 * REPORT_LEAN) return (uint32_t)(1000 * REPORT_LEAN);
  return (uint32_t)((*slow + 1000 * waste) / 2);
}

/* Of lean ones the faster, else the leaner. */
static bool is_leaner(const attempt *a, double waste, uint64_t interval) {
  double own = report_waste(a->plan);
  if (own > REPORT_LEAN || waste > REPORT_LEAN) return own < waste;
  return a->interval < interval;
}

/* The pipeline at hand, and the fastest that there is. */
typedef struct pipelines {
  const wafer_ctx *ctx;
  const char *model;
  wafer_ir **ir;
  const wafer_plan **plan, *fastest;
  double waste;
  uint64_t interval, most; /* most: what others may take */
} pipelines;

/* Another, where it is leaner, or lean and faster; *bears: it does not take too long. */
static wafer_status try_pipeline(pipelines *p, wafer_sparse_shapes shapes, uint32_t lean,
                                 bool *bears) {
  attempt a;
  wish w = {.shapes = shapes, .lean = lean};
  WAFER_TRY(lean_pipeline(p->ctx, p->model, p->fastest, w, &a));
  *bears = a.plan && a.interval <= p->most;
  bool better = *bears && is_leaner(&a, p->waste, p->interval);
  if (!choose(&a, better, p->ir, p->plan)) return WAFER_OK;
  p->waste = report_waste(a.plan);
  p->interval = a.interval;
  return WAFER_OK;
}

/* Where the fastest pipeline wastes multiply cycles: the fastest that is lean, if it is not so much
 * slower, else the leanest such that a few tries find. Exchanges between orders of dealt weights
 * take long, but what is not dealt is uneven: both are tried. Tiles that are counted may be fuller
 * than estimates, so sizing is then asked for less. */
static wafer_status find_lean(pipelines *p, uint32_t tries) {
  double slow = 0; /* what was asked for, and takes too long */
  uint32_t lean = LEAN_FIRST;
  for (uint32_t i = 0; i <= tries && p->waste > REPORT_LEAN; i++) {
    bool dealt, natural;
    WAFER_TRY(try_pipeline(p, WAFER_SPARSE_lean, lean, &dealt));
    WAFER_TRY(try_pipeline(p, WAFER_SPARSE_lean_undealt, lean, &natural));
    bool any = dealt || natural;
    lean = any && slow == 0 ? lean - LEAN_STEP : next_lean(lean, any, p->waste, &slow);
  }
  return WAFER_OK;
}

/* Shapes that seem to waste more are tried where lean ones make it slower; of what is lean at once
 * weights that are not dealt, for an input that two kernels take in orders of their own crosses the
 * border twice. */
static wafer_status lean_pipelines(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                                   const wafer_plan **plan) {
  static const wafer_sparse_shapes shapes[] = {WAFER_SPARSE_lean, WAFER_SPARSE_lean_undealt};
  bool small = (*plan)->kernel_count <= SMALL_MODEL, bears;
  report r;
  WAFER_TRY(report_make(cli_diag(), *plan, &r));
  uint64_t least = r.interval_cycles, most = SLOWER_MOST * least;
  pipelines p = {ctx, model, ir, plan, *plan, report_waste(*plan), least, most};
  if (p.waste > REPORT_LEAN)
    WAFER_TRY(find_lean(&p, small ? LEAN_AGAIN : 1));
  else if (small)
    WAFER_TRY(try_pipeline(&p, WAFER_SPARSE_lean_undealt, LEAN_FIRST, &bears));
  if (!small || p.waste > REPORT_LEAN) return WAFER_OK;
  for (uint32_t i = 1; i <= LEAN_LOOSER && p.interval > least; i++)
    for (uint32_t k = 0; k < WAFER_COUNT(shapes); k++)
      WAFER_TRY(try_pipeline(&p, shapes[k], LEAN_FIRST + i * LEAN_STEP, &bears));
  return WAFER_OK;
}

/* Of a streaming plan with sparse weights: one whose weights are not dealt, or lie in fewer lists
 * of pairs, where it is faster and lean; if it shall be `fast`, one of other shapes where it is
 * slower than with dense weights, by what plans tell. Of a pipeline one that is lean, or leaner,
 * unless it shall be `fast`. *ir: NULL where the plan stays, which
 * is the caller's and outlives all others. */
static wafer_status lean_plan(const wafer_ctx *ctx, const char *model, bool fast, wafer_ir **ir,
                              const wafer_plan **plan) {
  const wafer_options *o = ctx->options;
  attempt dense;
  report lean;
  if (o->training || !multiplies_sparse(*plan)) return WAFER_OK;
  if ((*plan)->mode != WAFER_MODE_streaming)
    return fast || o->pin_count ? WAFER_OK : lean_pipelines(ctx, model, ir, plan);
  WAFER_TRY(report_make(cli_diag(), *plan, &lean));
  WAFER_TRY(leaner(ctx, model, ir, plan, &lean.interval_cycles));
  WAFER_TRY(find_faster(ctx, model, ir, plan, &lean.interval_cycles));
  if (!fast) return WAFER_OK;
  WAFER_TRY(try(ctx, model, *plan, (wish){.dense = true}, &dense));
  compile_drop(dense.ir);
  if (!dense.plan || lean.interval_cycles <= dense.interval) return WAFER_OK;
  return find(ctx, model, dense.interval, ir, plan);
}

wafer_status compile_settle(const wafer_ctx *ctx, const char *model, bool fast, wafer_ir **ir,
                            const wafer_plan **plan, const char **told) {
  wafer_ir *lean = NULL;
  WAFER_TRY(compile_reconsider(ctx, model, ir, plan, told));
  wafer_status status = lean_plan(ctx, model, fast, &lean, plan);
  if (!lean) return status;
  compile_drop(*ir);
  *ir = lean;
  *told = NULL;
  return status;
}
