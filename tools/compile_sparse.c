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

/* Times the density that products may take of the dense multiply cycles, and more only where the
 * plan at hand does. Sizing looks for less, because it estimates tiles. */
#define LEAN_MOST 1.3
#define LEAN_FAR 1.6 /* no shapes that it could look for would be lean */
#define LEAN_AGAIN 3 /* so often it is asked for less, in such steps: */
#define LEAN_STEP 50
#define LEAN_FIRST 1250
#define LEAN_LOOSER 2  /* and so often for more, which may not be more when it is counted */
#define SMALL_MODEL 16 /* kernels */

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

static void take(attempt *from, wafer_ir **ir, const wafer_plan **plan) {
  wafer_ir_destroy(*ir);
  *ir = from->ir;
  *plan = from->plan;
  from->ir = NULL;
}

/* Other shapes, where these are faster and lean. *interval: of *plan. */
static wafer_status faster(const wafer_ctx *ctx, const char *model, wish w, wafer_ir **ir,
                           const wafer_plan **plan, uint64_t *interval) {
  attempt a;
  double most = report_waste(*plan);
  if (most < LEAN_MOST) most = LEAN_MOST;
  WAFER_TRY(try(ctx, model, *plan, w, &a));
  if (a.plan && a.interval < *interval && report_waste(a.plan) <= most) {
    *interval = a.interval;
    take(&a, ir, plan);
  }
  wafer_ir_destroy(a.ir);
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
  for (uint32_t i = 0; i <= LEAN_AGAIN && waste > LEAN_MOST; i++) {
    attempt a;
    wish w = {WAFER_SPARSE_lean, LEAN_FIRST - i * LEAN_STEP, .no_late_list = i == 0};
    WAFER_TRY(try(ctx, model, *plan, w, &a));
    if (a.plan && report_waste(a.plan) < waste) {
      waste = report_waste(a.plan);
      *interval = a.interval;
      take(&a, ir, plan);
    }
    wafer_ir_destroy(a.ir);
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
    if (good) take(&a, ir, plan);
    wafer_ir_destroy(a.ir);
    if (good) break;
  }
  return WAFER_OK;
}

wafer_status compile_sparse(const wafer_ctx *ctx, const char *model, bool fast, wafer_ir **ir,
                            const wafer_plan **plan) {
  const wafer_options *o = ctx->options;
  attempt dense;
  report lean;
  if ((*plan)->mode != WAFER_MODE_streaming || o->training || !multiplies_sparse(*plan))
    return WAFER_OK;
  WAFER_TRY(report_make(cli_diag(), *plan, &lean));
  WAFER_TRY(leaner(ctx, model, ir, plan, &lean.interval_cycles));
  WAFER_TRY(find_faster(ctx, model, ir, plan, &lean.interval_cycles));
  if (!fast) return WAFER_OK;
  WAFER_TRY(try(ctx, model, *plan, (wish){.dense = true}, &dense));
  wafer_ir_destroy(dense.ir);
  if (!dense.plan || lean.interval_cycles <= dense.interval) return WAFER_OK;
  return find(ctx, model, dense.interval, ir, plan);
}
