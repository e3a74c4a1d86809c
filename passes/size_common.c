/* What both ways of sizing share. */
#include <inttypes.h>

#include "size.h"

wafer_kernel_body size_with_depths(const wafer_kernel_body *body, const uint32_t *depths) {
  wafer_kernel_body with = *body;
  with.input_depth = depths;
  with.output_depth = depths[body->input_count];
  return with;
}

/* ---- The largest rectangle without dead cores ---- */

/* Free cores above and including row y, per column of the usable rectangle. */
static void raise_columns(const wafer_machine *m, uint32_t y, uint32_t *dead, uint32_t *above) {
  for (uint32_t x = 0; x < m->usable.width; x++) above[x]++;
  for (; *dead < m->dead_count && m->dead[*dead].y <= y; ++*dead) {
    uint32_t x = m->dead[*dead].x - m->usable.x;
    if (m->dead[*dead].y == y && m->dead[*dead].x >= m->usable.x && x < m->usable.width)
      above[x] = 0;
  }
}

/* The largest rectangle whose bottom row is y: the classic stack over a histogram. */
static void scan_row(const wafer_machine *m, uint32_t y, const uint32_t *above, uint32_t *stack,
                     wafer_rect *best) {
  uint32_t depth = 0, width = m->usable.width;
  for (uint32_t x = 0; x <= width; x++) {
    uint32_t height = x < width ? above[x] : 0;
    while (depth && above[stack[depth - 1]] >= height) {
      uint32_t tall = above[stack[--depth]], left = depth ? stack[depth - 1] + 1 : 0;
      wafer_rect r = {m->usable.x + left, y + 1 - tall, x - left, tall};
      if (wafer_rect_area(r) > wafer_rect_area(*best)) *best = r;
    }
    if (x < width) stack[depth++] = x;
  }
}

bool size_whole_wafer(const wafer_machine *m, wafer_rect *out) {
  *out = m->usable;
  if (m->dead_count == 0) return true;
  wafer_arena *arena = wafer_arena_create();
  uint32_t *above = arena ? WAFER_NEW(arena, uint32_t, m->usable.width) : NULL;
  uint32_t *stack = arena ? WAFER_NEW(arena, uint32_t, m->usable.width) : NULL;
  bool ok = above && stack;
  uint32_t dead = 0;
  *out = (wafer_rect){m->usable.x, m->usable.y, 0, 0};
  for (uint32_t y = m->usable.y; ok && y < m->usable.y + m->usable.height; y++) {
    raise_columns(m, y, &dead, above);
    scan_row(m, y, above, stack, out);
  }
  wafer_arena_destroy(arena);
  return ok;
}

/* ---- Refusals ---- */

/* The cost of the split that needs the fewest bytes. */
static wafer_status least_cost(const wafer_ctx *ctx, const wafer_kernel_body *body, uint64_t least,
                               wafer_cost *cost) {
  wafer_rect whole;
  wafer_curve curve;
  *cost = (wafer_cost){0};
  bool ok = size_whole_wafer(ctx->machine, &whole);
  wafer_curve_options options = {
      .max_width = whole.width, .max_height = whole.height, .budget = least};
  if (!ok || wafer_kernel_curve(ctx->machine, body, &options, ctx->arena, &curve) != WAFER_OK)
    return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for a shape curve");
  if (curve.count) wafer_kernel_cost(ctx->machine, body, &curve.at[0].split, cost);
  return WAFER_OK;
}

wafer_status size_refuse(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t kernel,
                         const wafer_kernel_body *body, uint64_t asked, uint64_t allowed,
                         uint64_t held, size_refusal *out) {
  wafer_cost cost;
  WAFER_TRY(least_cost(ctx, body, asked > held ? asked - held : asked, &cost));
  *out = (size_refusal){.kernel = kernel, .asked = asked, .allowed = allowed};
  out->why = wafer_arena_printf(
      ctx->arena,
      "kernel '%s' needs %" PRIu64 " bytes per core, %" PRIu64 " are allowed (code %" PRIu64
      ", weights %" PRIu64 ", inputs %" PRIu64 ", outputs %" PRIu64 ", scratch %" PRIu64
      ", held for other kernels %" PRIu64 ")",
      graph->kernels[kernel].name, asked, allowed, cost.code_bytes, cost.weight_bytes,
      cost.input_bytes, cost.output_bytes, cost.scratch_bytes, held);
  return out->why ? WAFER_OK
                  : wafer_fail(ctx->diag, graph->kernels[kernel].loc, WAFER_NO_MEMORY, "no memory");
}
