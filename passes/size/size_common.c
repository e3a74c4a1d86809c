/* What both ways of sizing share. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "size.h"
#include "sparsity.h"
#include "streams.h"
#include "wafer/pairs.h"

wafer_kernel_body size_with_depths(const wafer_kernel_body *body, const uint32_t *depths) {
  wafer_kernel_body with = *body;
  with.input_depth = depths;
  with.output_depth = depths[body->input_count];
  return with;
}

bool size_gets_programs(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t batch) {
  wafer_programs wanted = ctx->options ? ctx->options->programs : WAFER_PROGRAMS_auto;
  uint64_t words = 0;
  for (uint32_t k = 0; k < graph->kernel_count; k++) {
    const wafer_kernel_body *body = &graph->kernels[k].body;
    for (uint32_t i = 0; i < body->input_count; i++)
      words += stream_words(&body->inputs[i], body->storage) *
               (body->input_is_weight[i] ? 1 : (uint64_t)batch);
  }
  return wanted == WAFER_PROGRAMS_always ||
         (wanted == WAFER_PROGRAMS_auto && words <= WAFER_PROGRAMS_WORDS);
}

bool size_gets_train(const wafer_ctx *ctx, const wafer_graph *graph) {
  bool always = ctx->options && ctx->options->programs == WAFER_PROGRAMS_always;
  return size_gets_programs(ctx, graph, 1) &&
         (always || graph->kernel_count <= WAFER_PROGRAMS_KERNELS);
}

/* ---- Sparse products ---- */

bool size_multiplies_sparse(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (wafer_body_multiplies(body, i)) return true;
  return false;
}

uint32_t size_order(const wafer_kernel_body *body) {
  uint32_t order = 0;
  for (uint32_t i = 0; body->sparsity && i < body->input_count; i++)
    if (body->sparsity[i].order) order = body->sparsity[i].order;
  return order;
}

size_multiply size_multiply_cycles(const wafer_machine *m, const wafer_kernel_body *body,
                                   const wafer_split *split) {
  uint64_t cycles, dense;
  uint32_t i = 0;
  int64_t elements = 1;
  if (!size_multiplies_sparse(body)) return (size_multiply){0};
  wafer_kernel_multiply(m, body, split, &cycles, &dense);
  while (!wafer_body_multiplies(body, i)) i++;
  (void)wafer_shape_elements(&body->inputs[i].shape, &elements);
  unsigned __int128 part = (unsigned __int128)dense * body->sparsity[i].nonzeros;
  return (size_multiply){
      .cycles = cycles, .due = (uint64_t)(part / (uint64_t)elements), .dense = dense};
}

int64_t size_waste_price(const size_multiply *own, const size_waste *waste) {
  int64_t least = -(int64_t)own->cycles * waste->credit / 20;
  int64_t wasted = (int64_t)own->cycles - (int64_t)(own->due * waste->lean / 1000);
  return waste->worth * (wasted > least ? wasted : least) / 64;
}

wafer_status size_recount(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                          const sizing *of, bool *again) {
  *again = false;
  for (uint32_t k = 0; k < graph->kernel_count; k++)
    WAFER_TRY(sparsity_recount(ctx, ir, &graph->kernels[k], graph->values,
                               &of->kernels[k].point->split, of->kernels[k].depths, again));
  if (*again) curve_sets_forget_layouts(ir);
  return WAFER_OK;
}

/* ---- The largest rectangle without dead and reserved cores ---- */

/* The largest rectangle whose bottom row is y, when `top` is the first row of each column from
 * which on no core is dead: the classic stack over a histogram. */
static void scan_row(const wafer_machine *m, uint32_t y, const uint32_t *top, uint32_t *stack,
                     wafer_rect *best) {
  uint32_t depth = 0, width = m->usable.width;
  for (uint32_t x = 0; x <= width; x++) {
    uint32_t height = x < width ? y + 1 - top[x] : 0;
    while (depth && y + 1 - top[stack[depth - 1]] >= height) {
      uint32_t tall = y + 1 - top[stack[--depth]], left = depth ? stack[depth - 1] + 1 : 0;
      wafer_rect r = {m->usable.x + left, y + 1 - tall, x - left, tall};
      if (wafer_rect_area(r) > wafer_rect_area(*best)) *best = r;
    }
    if (x < width) stack[depth++] = x;
  }
}

/* Columns of reserved rectangles that row y meets. */
static void reserve_row(const wafer_machine *m, uint32_t y, uint32_t *top) {
  for (uint32_t i = 0; i < m->reserved_count; i++) {
    wafer_rect r = m->reserved[i];
    if (y < r.y || y - r.y >= r.height) continue;
    for (uint32_t x = r.x; x < r.x + r.width; x++)
      if (x >= m->usable.x && x - m->usable.x < m->usable.width) top[x - m->usable.x] = y + 1;
  }
}

/* What is found row by row. A rectangle that cannot grow ends above a row with cores that are
 * taken, or with the wafer. */
typedef struct scan {
  wafer_rect best;
  uint64_t taken; /* dead and reserved cores */
} scan;

static void scan_all(const wafer_machine *m, uint32_t *top, uint32_t *stack, scan *found) {
  const wafer_core_at *dead = m->dead, *last = m->dead + m->dead_count;
  uint32_t end = m->usable.y + m->usable.height;
  for (uint32_t x = 0; x < m->usable.width; x++) top[x] = m->usable.y;
  while (dead < last && dead->y < m->usable.y) dead++;
  for (uint32_t y = m->usable.y; y < end; y++) {
    reserve_row(m, y, top);
    for (; dead < last && dead->y == y; dead++)
      if (dead->x >= m->usable.x && dead->x - m->usable.x < m->usable.width)
        top[dead->x - m->usable.x] = y + 1;
    for (uint32_t x = 0; x < m->usable.width; x++) found->taken += top[x] == y + 1;
    bool grows = y + 1 < end && !m->reserved_count && !(dead < last && dead->y == y + 1);
    if (!grows) scan_row(m, y, top, stack, &found->best);
  }
}

/* false: out of memory. */
static bool scan_wafer(const wafer_machine *m, scan *found) {
  *found = (scan){.best = m->usable};
  if (m->dead_count == 0 && m->reserved_count == 0) return true;
  wafer_arena *arena = wafer_arena_create();
  uint32_t *top = arena ? WAFER_NEW(arena, uint32_t, m->usable.width) : NULL;
  uint32_t *stack = arena ? WAFER_NEW(arena, uint32_t, m->usable.width) : NULL;
  bool ok = top && stack;
  found->best = (wafer_rect){m->usable.x, m->usable.y, 0, 0};
  if (ok) scan_all(m, top, stack, found);
  wafer_arena_destroy(arena);
  return ok;
}

bool size_whole_wafer(const wafer_machine *m, wafer_rect *out) {
  scan found;
  bool ok = scan_wafer(m, &found);
  *out = found.best;
  return ok;
}

bool size_free_cores(const wafer_machine *m, uint64_t *out) {
  scan found;
  bool ok = scan_wafer(m, &found);
  *out = wafer_rect_area(m->usable) - found.taken;
  return ok;
}

/* ---- Refusals ---- */

const char *size_mode_option(const wafer_ctx *ctx, wafer_mode mode) {
  const char *option = ctx->options ? ctx->options->mode_option : NULL;
  return wafer_arena_printf(ctx->arena, "%s %s", option ? option : "--mode", wafer_mode_name(mode));
}

/* Both kinds of curves, the one that spreads results thin last; *curve is empty where none has a
 * shape within the budget, *least the fewest bytes of any. */
static bool curve_within(const wafer_ctx *ctx, const wafer_kernel_body *body, wafer_rect whole,
                         uint64_t budget, wafer_curve *curve, uint64_t *least) {
  *least = UINT64_MAX;
  for (int lean = 0; lean < 2; lean++) {
    wafer_curve_options options = {
        .max_width = whole.width, .max_height = whole.height, .budget = budget, .lean = lean};
    if (wafer_kernel_curve(ctx->machine, body, &options, ctx->arena, curve) != WAFER_OK)
      return false;
    if (curve->count) return true;
    if (curve->least_bytes < *least) *least = curve->least_bytes;
  }
  return true;
}

/* The split that needs at most so many bytes, or else the fewest, and its cost. */
static wafer_status least_cost(const wafer_ctx *ctx, const wafer_kernel_body *body, uint64_t most,
                               wafer_split *split, wafer_cost *cost) {
  wafer_rect whole;
  wafer_curve curve;
  uint64_t least;
  *cost = (wafer_cost){0};
  bool ok = size_whole_wafer(ctx->machine, &whole) &&
            curve_within(ctx, body, whole, most, &curve, &least);
  if (ok && !curve.count) ok = curve_within(ctx, body, whole, least, &curve, &least);
  if (!ok)
    return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for a shape curve");
  *split = (wafer_split){0};
  if (!curve.count) return WAFER_OK;
  *split = curve.at[0].split;
  wafer_kernel_cost(ctx->machine, body, split, cost);
  return WAFER_OK;
}

static int by_bytes(const void *a, const void *b) {
  const wafer_owner_bytes *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return strcmp(x->what, y->what);
}

static uint64_t tile_bytes(const wafer_kernel_body *body, const wafer_layout *layout,
                           const wafer_type *type) {
  return wafer_layout_tile(layout, &type->shape) * wafer_stored_bytes(type->dtype, body->storage);
}

/* Of a tile on a core, as often as it is there; depth 0: two slices of it. */
static uint64_t room_for(uint64_t bytes, uint64_t depth) {
  if (depth == 0) return 2 * (bytes < WAFER_SLICE_BYTES ? bytes : WAFER_SLICE_BYTES);
  return depth * bytes;
}

/* "weight 'name' (2 at a time)". */
static const char *name_owner(wafer_arena *arena, const char *kind, const wafer_graph_value *v,
                              uint32_t depth) {
  const char *name = v->name && *v->name ? v->name : v->node;
  if (depth == 0) return wafer_arena_printf(arena, "%s '%s' (in slices)", kind, name);
  return wafer_arena_printf(arena, "%s '%s' (%u at a time)", kind, name, depth);
}

/* Inputs and outputs by the ONNX value or node that they are, as far as there is a split. */
static wafer_status list_owners(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t kernel,
                                const wafer_kernel_body *body, const wafer_split *split,
                                size_refusal *out) {
  const wafer_graph_kernel *k = &graph->kernels[kernel];
  uint32_t count = body->input_count + body->output_count;
  wafer_owner_bytes *at = WAFER_NEW(ctx->arena, wafer_owner_bytes, count);
  for (uint32_t i = 0; at && split->rows[0] && i < count; i++) {
    bool in = i < body->input_count;
    const wafer_graph_value *v =
        &graph->values[in ? k->inputs[i] : k->outputs[i - body->input_count]];
    wafer_layout layout = in ? wafer_kernel_input_layout(body, split, i)
                             : wafer_kernel_output_layout(body, split, i - body->input_count);
    uint32_t depth = in ? body->input_depth[i] : body->output_depth;
    const char *kind = !in ? "output" : body->input_is_weight[i] ? "weight" : "input";
    bool passes = in && wafer_body_passes(body, i),
         ends = in && !body->input_is_weight[i] && !depth;
    at[i].bytes = in && body->sparsity && body->sparsity[i].sparse
                      ? wafer_kernel_input_bytes(ctx->machine, body, split, i)
                      : tile_bytes(body, &layout, &v->type);
    at[i].bytes = room_for(at[i].bytes, ends ? 1 : depth);
    at[i].node = v->node;
    at[i].what = name_owner(ctx->arena, kind, v, ends && !passes ? 1 : depth);
    if (!at[i].what) at = NULL;
  }
  if (!at)
    return wafer_fail(ctx->diag, k->loc, WAFER_NO_MEMORY, "no memory to name who needs memory");
  if (!split->rows[0]) return WAFER_OK;
  qsort(at, count, sizeof *at, by_bytes);
  out->owners = at;
  out->owner_count = count;
  return WAFER_OK;
}

wafer_status size_refuse(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t kernel,
                         const wafer_kernel_body *body, uint64_t asked, uint64_t allowed,
                         uint64_t held, size_refusal *out) {
  wafer_cost cost;
  wafer_split split;
  WAFER_TRY(least_cost(ctx, body, asked > held ? asked - held : asked, &split, &cost));
  /* what it takes itself of what is held is not beside it */
  held = asked > wafer_cost_bytes(&cost) ? asked - wafer_cost_bytes(&cost) : 0;
  *out = (size_refusal){.kernel = kernel, .asked = asked, .allowed = allowed};
  WAFER_TRY(list_owners(ctx, graph, kernel, body, &split, out));
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

bool size_has_weights(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i]) return true;
  return false;
}

bool size_is_possible(const wafer_loops *loops, const wafer_split *split) {
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    uint64_t parts = (uint64_t)split->rows[i] * split->cols[i];
    if (parts == 0 || (parts > 1 && (i >= loops->count || !loops->divisible[i] ||
                                     parts > (uint64_t)loops->extent[i])))
      return false;
  }
  return true;
}

wafer_split size_uncut(void) {
  wafer_split split;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split.rows[i] = split.cols[i] = 1;
  return split;
}

uint32_t size_dim_of(const wafer_kernel_body *body, uint32_t place, uint32_t loop) {
  wafer_split split = size_uncut();
  split.rows[loop] = 2;
  wafer_layout layout = place < body->input_count
                            ? wafer_kernel_input_layout(body, &split, place)
                            : wafer_kernel_output_layout(body, &split, place - body->input_count);
  for (uint32_t d = 0; d < layout.rank; d++)
    if (layout.rows[d] > 1) return d;
  return WAFER_MAX_RANK;
}
