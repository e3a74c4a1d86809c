/* Gives every kernel a phase and a rectangle. Pipelined: one phase, order-preserving shelves
 * (shelf.c), unless the search that chose the shapes has placed them as well (size_best.c).
 * Streaming: a phase per kernel, each at the first corner of the whole wafer, or of its first
 * stripe, unless sizing has let some share a phase (size_share.c): those then stand in the order of
 * their turns.
 */
#include <stdlib.h>

#include "scratch.h"
#include "size/shelf.h"
#include "size/size.h"

typedef struct placing {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  wafer_graph graph;
  uint32_t *kind, kind_count;
  shelf_shapes *kinds;
  shelf_point *points;
} placing;

static wafer_status no_memory(const placing *p) {
  return wafer_fail(p->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to place kernels");
}

typedef struct sized {
  shelf_point is;
  uint32_t kernel;
} sized;

static int by_size(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->is.width != y->is.width) return x->is.width < y->is.width ? -1 : 1;
  if (x->is.height != y->is.height) return x->is.height < y->is.height ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

/* Kernels of one size are one kind. */
static wafer_status find_kinds(placing *p) {
  uint32_t n = p->graph.kernel_count;
  wafer_arena *arena = p->ctx->arena;
  sized *order = WAFER_NEW(arena, sized, n);
  p->kind = WAFER_NEW(arena, uint32_t, n);
  p->kinds = WAFER_NEW(arena, shelf_shapes, n);
  p->points = WAFER_NEW(arena, shelf_point, n);
  if (!order || !p->kind || !p->kinds || !p->points) return no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    const wafer_split *split = &p->graph.kernels[k].split;
    order[k] = (sized){{wafer_split_width(split), wafer_split_height(split), 0}, k};
  }
  qsort(order, n, sizeof *order, by_size);
  for (uint32_t i = 0; i < n; i++) {
    const shelf_point *last = &p->points[p->kind_count ? p->kind_count - 1 : 0];
    if (!p->kind_count || last->width != order[i].is.width || last->height != order[i].is.height) {
      p->points[p->kind_count] = order[i].is;
      p->kinds[p->kind_count] = (shelf_shapes){1, &p->points[p->kind_count]};
      p->kind_count++;
    }
    p->kind[order[i].kernel] = p->kind_count - 1;
  }
  return WAFER_OK;
}

/* Every kernel stands where the search that gave it its shape has put it. */
static bool placed_already(const placing *p, wafer_mode mode) {
  for (uint32_t k = 0; k < p->graph.kernel_count; k++) {
    const wafer_graph_kernel *kernel = &p->graph.kernels[k];
    if (!kernel->placed || (mode == WAFER_MODE_pipelined && kernel->phase != 0) ||
        kernel->rect.width != wafer_split_width(&kernel->split) ||
        kernel->rect.height != wafer_split_height(&kernel->split))
      return false;
  }
  return true;
}

static wafer_status place_shelves(placing *p) {
  uint32_t n = p->graph.kernel_count;
  WAFER_TRY(find_kinds(p));
  shelf_place *places = WAFER_NEW(p->ctx->arena, shelf_place, n);
  if (!places) return no_memory(p);
  shelf_problem problem = {.machine = p->ctx->machine,
                           .kind_count = p->kind_count,
                           .count = n,
                           .kinds = p->kinds,
                           .kind = p->kind,
                           .every_height = true};
  bool fits;
  WAFER_TRY(shelf_pack(p->ctx->diag, p->ctx->arena, &problem, places, &fits));
  if (!fits)
    return wafer_fail(p->ctx->diag, (wafer_loc){0}, WAFER_NO_FIT,
                      "%u kernels of these sizes do not fit %u x %u cores side by side, try %s", n,
                      p->ctx->machine->usable.width, p->ctx->machine->usable.height,
                      size_mode_option(p->ctx, WAFER_MODE_streaming));
  for (uint32_t k = 0; k < n; k++) {
    wafer_ir_set_phase(p->graph.kernels[k].func, 0);
    wafer_ir_set_rect(p->graph.kernels[k].func, &places[k].rect);
  }
  return WAFER_OK;
}

static wafer_status place_phases(const placing *p) {
  wafer_rect whole;
  uint32_t stripes;
  if (!size_whole_wafer(p->ctx->machine, &whole)) return no_memory(p);
  (void)wafer_ir_get_stripes(p->ir, &stripes, &whole.width);
  for (uint32_t k = 0; k < p->graph.kernel_count; k++) {
    const wafer_graph_kernel *kernel = &p->graph.kernels[k];
    wafer_rect rect = {whole.x, whole.y, wafer_split_width(&kernel->split),
                       wafer_split_height(&kernel->split)};
    if (rect.width > whole.width || rect.height > whole.height)
      return wafer_fail(
          p->ctx->diag, kernel->loc, WAFER_NO_FIT,
          "kernel '%s' is split over %u x %u cores, the wafer has %u x %u usable ones in a piece",
          kernel->name, rect.width, rect.height, whole.width, whole.height);
    wafer_ir_set_phase(kernel->func, k);
    wafer_ir_set_rect(kernel->func, &rect);
  }
  return WAFER_OK;
}

/* ---- Phases of several kernels ---- */

/* Kernels [first, end) of one phase, those of a turn one behind another: calls move to where the
 * phase ends, turn by turn. */
static void stand_by_turn(const placing *p, const uint32_t *turn, uint32_t first, uint32_t end) {
  MlirOperation behind = mlirOperationGetNextInBlock(p->graph.kernels[end - 1].call);
  for (uint32_t t = 0, left = end - first; left; t++)
    for (uint32_t k = first; k < end; k++) {
      if (turn[k] != t) continue;
      mlirOperationMoveBefore(p->graph.kernels[k].call, behind);
      left--;
    }
}

static wafer_status order_phases(const placing *p) {
  const wafer_graph *g = &p->graph;
  uint32_t *turn = WAFER_NEW(p->ctx->arena, uint32_t, g->kernel_count), end;
  if (!turn) return no_memory(p);
  for (uint32_t first = 0; first < g->kernel_count; first = end) {
    for (end = first; end < g->kernel_count && g->kernels[end].phase == g->kernels[first].phase;)
      turn[end] = wafer_graph_turn(g, first, end, turn + first), end++;
    if (end > first + 1) stand_by_turn(p, turn, first, end);
  }
  return WAFER_OK;
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  placing p = {.ctx = ctx, .ir = ir};
  wafer_mode mode;
  if (!wafer_ir_get_mode(ir, &mode))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "the module has no wafer.mode, run pass mode before place");
  WAFER_TRY(wafer_graph_read(ctx, ir, &p.graph));
  for (uint32_t k = 0; k < p.graph.kernel_count; k++)
    if (!p.graph.kernels[k].sized)
      return wafer_fail(ctx->diag, p.graph.kernels[k].loc, WAFER_BAD_INPUT,
                        "kernel '%s' has no split, run pass size before place",
                        p.graph.kernels[k].name);
  bool placed = placed_already(&p, mode);
  if (mode == WAFER_MODE_streaming) return placed ? order_phases(&p) : place_phases(&p);
  return placed ? WAFER_OK : place_shelves(&p);
}

wafer_status wafer_pass_place(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}
