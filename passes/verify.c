/* Proves that a scheduled module is legal, in the words of the IR: every decision there, every
 * operand where its kernel wants it, rectangles apart, bytes within the cores, colours apart. The
 * backend's plan is checked again, and harder, by wafer_plan_check; a message here names the op
 * that is wrong. */
#include <inttypes.h>

#include "route/fabric.h"
#include "scratch.h"
#include "streams.h"
#include "wafer/graph.h"

typedef struct verifier {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  wafer_graph graph;
  fabric *fabric;
  uint32_t *owner;       /* core: 1 + the kernel of this phase on it */
  wafer_ir_map *streams; /* result of a wafer.stream -> its number */
  bool in_phase;
  uint32_t phase, kernels, alone; /* kernels of this phase so far, the first of them */
} verifier;

static wafer_status no_memory(const verifier *v) {
  return wafer_fail(v->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to verify");
}

/* ---- One kernel ---- */

/* Of all replicas; rectangles beyond the wafer may be any size. */
static wafer_rect all_of(const wafer_graph_kernel *k) {
  uint64_t width = (uint64_t)k->rect.width * k->replicas;
  wafer_rect all = k->rect;
  all.width = width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
  return all;
}

static wafer_status check_split(const verifier *v, const wafer_graph_kernel *k) {
  uint32_t width = wafer_split_width(&k->split), height = wafer_split_height(&k->split);
  if (width != k->rect.width || height != k->rect.height)
    return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                      "kernel '%s' is split over %u x %u cores, its rectangle has %u x %u", k->name,
                      width, height, k->rect.width, k->rect.height);
  wafer_loops loops;
  wafer_kernel_loops(&k->body, &loops);
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    uint64_t parts = (uint64_t)k->split.rows[i] * k->split.cols[i];
    if (parts == 0 || (parts > 1 && (i >= loops.count || !loops.divisible[i] ||
                                     parts > (uint64_t)loops.extent[i])))
      return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                        "kernel '%s' cuts loop %u into %" PRIu64 " parts, which it cannot be",
                        k->name, i, parts);
  }
  return WAFER_OK;
}

static wafer_status check_bytes(const verifier *v, const wafer_graph_kernel *k) {
  wafer_cost cost;
  wafer_kernel_cost(v->ctx->machine, &k->body, &k->split, &cost);
  uint64_t bytes = wafer_cost_bytes(&cost), budget = wafer_machine_core_budget(v->ctx->machine);
  if (bytes <= budget) return WAFER_OK;
  return wafer_fail(v->ctx->diag, k->loc, WAFER_NO_FIT,
                    "kernel '%s' needs %" PRIu64 " bytes per core, %" PRIu64 " are allowed",
                    k->name, bytes, budget);
}

static wafer_status check_kernel(const verifier *v, const wafer_graph_kernel *k) {
  if (!k->sized || !k->placed || !k->slabs)
    return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                      "kernel '%s' lacks a split, slabs, a phase or a rectangle", k->name);
  wafer_rect all = all_of(k);
  if (!wafer_rect_within(all, v->ctx->machine->usable))
    return wafer_fail(v->ctx->diag, k->loc, WAFER_NO_FIT,
                      "kernel '%s' lies on %u x %u cores at (%u, %u), outside the usable ones",
                      k->name, all.width, all.height, all.x, all.y);
  WAFER_TRY(check_split(v, k));
  return check_bytes(v, k);
}

/* ---- A phase ---- */

static wafer_status check_dead(const verifier *v, const wafer_graph_kernel *k) {
  const wafer_machine *m = v->ctx->machine;
  for (uint32_t i = 0; i < m->dead_count; i++)
    if (wafer_rect_has(all_of(k), m->dead[i].x, m->dead[i].y))
      return wafer_fail(v->ctx->diag, k->loc, WAFER_NO_FIT,
                        "kernel '%s' lies on the dead core (%u, %u)", k->name, m->dead[i].x,
                        m->dead[i].y);
  for (uint32_t i = 0; i < m->reserved_count; i++)
    if (wafer_rect_overlaps(all_of(k), m->reserved[i]))
      return wafer_fail(v->ctx->diag, k->loc, WAFER_NO_FIT,
                        "kernel '%s' lies on the reserved cores at (%u, %u)", k->name,
                        m->reserved[i].x, m->reserved[i].y);
  return WAFER_OK;
}

/* Marks the kernel's cores; another one's mark is an overlap. */
static wafer_status mark_cores(const verifier *v, uint32_t number) {
  const wafer_graph_kernel *k = &v->graph.kernels[number];
  wafer_rect all = all_of(k);
  for (uint32_t y = all.y; y < all.y + all.height; y++)
    for (uint32_t x = all.x; x < all.x + all.width; x++) {
      uint32_t *at = &v->owner[(size_t)y * v->ctx->machine->width + x];
      if (*at)
        return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                          "kernels '%s' and '%s' overlap at core (%u, %u)",
                          v->graph.kernels[*at - 1].name, k->name, x, y);
      *at = number + 1;
    }
  return WAFER_OK;
}

/* A phase's first kernel has nobody to overlap with: it is marked when a second one comes. */
static wafer_status claim_cores(verifier *v, uint32_t number) {
  WAFER_TRY(check_dead(v, &v->graph.kernels[number]));
  if (v->kernels++ == 0) {
    v->alone = number;
    return WAFER_OK;
  }
  if (v->kernels == 2) WAFER_TRY(mark_cores(v, v->alone));
  return mark_cores(v, number);
}

static void release_cores(const verifier *v, const wafer_graph_kernel *k) {
  wafer_rect all = all_of(k);
  for (uint32_t y = all.y; y < all.y + all.height; y++)
    for (uint32_t x = all.x; x < all.x + all.width; x++)
      v->owner[(size_t)y * v->ctx->machine->width + x] = 0;
}

static void end_phase(verifier *v, uint32_t action) {
  while (v->kernels > 1 && action-- > 0 && v->graph.actions[action].kind != WAFER_GRAPH_phase)
    if (v->graph.actions[action].kind == WAFER_GRAPH_kernel)
      release_cores(v, &v->graph.kernels[v->graph.actions[action].index]);
  v->kernels = 0;
  fabric_clear(v->fabric);
}

/* ---- Streams ---- */

static bool is_straight(const wafer_route_segment *s) {
  return s->x0 == s->x1 || s->y0 == s->y1;
}

static wafer_status check_route(const verifier *v, const wafer_graph_stream *s, wafer_loc loc) {
  const wafer_machine *m = v->ctx->machine;
  for (uint32_t i = 0; i < s->is.route_count; i++) {
    const wafer_route_segment *at = &s->is.route[i];
    bool inside =
        at->x0 < m->width && at->x1 < m->width && at->y0 < m->height && at->y1 < m->height;
    bool joined = i == 0 || (at[-1].x1 == at->x0 && at[-1].y1 == at->y0);
    if (!inside || !joined || !is_straight(at))
      return wafer_fail(
          v->ctx->diag, loc, WAFER_BAD_INPUT,
          "segment %u of the route of '%s' leaves the wafer, is not straight, or starts elsewhere "
          "than the last one ends",
          i, v->graph.values[s->value].name);
  }
  if (s->is.route_count) return WAFER_OK;
  return wafer_fail(v->ctx->diag, loc, WAFER_BAD_INPUT, "the stream of '%s' has no route",
                    v->graph.values[s->value].name);
}

static wafer_status check_stream(verifier *v, uint32_t number) {
  const wafer_graph_stream *s = &v->graph.streams[number];
  wafer_loc loc = wafer_ir_loc(v->ir, s->op);
  const char *name = v->graph.values[s->value].name;
  wafer_core_at clash;
  WAFER_TRY(check_route(v, s, loc));
  if (s->is.color >= v->ctx->machine->colors || s->is.color >= FABRIC_MAX_COLORS)
    return wafer_fail(v->ctx->diag, loc, WAFER_NO_FIT,
                      "the stream of '%s' has colour %u, the machine has %u", name, s->is.color,
                      v->ctx->machine->colors);
  bool claimed = fabric_claim(v->fabric, s->is.route_count, s->is.route, s->is.color, &clash);
  if (!claimed && clash.x == WAFER_NONE) return no_memory(v);
  if (!claimed)
    return wafer_fail(v->ctx->diag, loc, WAFER_BAD_INPUT,
                      "the stream of '%s' brings colour %u to core (%u, %u) from another side than "
                      "an earlier one",
                      name, s->is.color, clash.x, clash.y);
  MlirValue result = mlirOperationGetResult(s->op, 0);
  return wafer_ir_map_put(v->streams, result.ptr, number) ? WAFER_OK : no_memory(v);
}

/* Where an operand of a call lies: at the end of its stream, or where its kernel left it. */
static bool holding_of(const verifier *v, uint32_t value, MlirValue operand, wafer_holding *at) {
  uint32_t stream = wafer_ir_map_get(v->streams, operand.ptr),
           producer = v->graph.values[value].producer;
  if (stream != WAFER_NONE) {
    *at = v->graph.streams[stream].is.to;
    return true;
  }
  if (producer == WAFER_NONE || !v->graph.kernels[producer].sized) return false;
  const wafer_graph_kernel *k = &v->graph.kernels[producer];
  *at = (wafer_holding){
      WAFER_AT_wafer, k->rect,
      wafer_kernel_output_layout(&k->body, &k->split, v->graph.values[value].output)};
  return true;
}

static wafer_status check_operands(const verifier *v, const wafer_graph_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_holding at,
        want = {WAFER_AT_wafer, k->rect, wafer_kernel_input_layout(&k->body, &k->split, i)};
    if (!holding_of(v, k->inputs[i], mlirOperationGetOperand(k->call, i), &at) ||
        !wafer_holding_equal(&at, &want))
      return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                        "input %u of kernel '%s' ('%s') is not where the kernel wants it, a "
                        "wafer.stream is missing",
                        i, k->name, v->graph.values[k->inputs[i]].name);
  }
  return WAFER_OK;
}

static wafer_status check_outputs(const verifier *v) {
  for (uint32_t i = 0; i < v->graph.output_count; i++) {
    if (v->graph.values[v->graph.outputs[i]].summed) continue;
    uint32_t stream =
        wafer_ir_map_get(v->streams, mlirOperationGetOperand(v->graph.terminator, i).ptr);
    if (stream == WAFER_NONE || v->graph.streams[stream].is.to.where != WAFER_AT_edge)
      return wafer_fail(v->ctx->diag, wafer_ir_loc(v->ir, v->graph.terminator), WAFER_BAD_INPUT,
                        "output '%s' does not reach the edge",
                        v->graph.values[v->graph.outputs[i]].name);
  }
  return WAFER_OK;
}

/* ---- The sequence ---- */

static wafer_status check_action(verifier *v, uint32_t action) {
  const wafer_graph_action *a = &v->graph.actions[action];
  if (a->kind == WAFER_GRAPH_load) return WAFER_OK;
  if (a->kind == WAFER_GRAPH_phase) {
    if (v->in_phase) end_phase(v, action);
    v->in_phase = true;
    v->phase = a->index;
    return WAFER_OK;
  }
  if (!v->in_phase)
    return wafer_fail(v->ctx->diag, wafer_ir_loc(v->ir, a->op), WAFER_BAD_INPUT,
                      "an op stands before the first phase");
  if (a->kind == WAFER_GRAPH_stream) return check_stream(v, a->index);
  if (a->kind == WAFER_GRAPH_free) return WAFER_OK;
  const wafer_graph_kernel *k = &v->graph.kernels[a->index];
  WAFER_TRY(check_kernel(v, k));
  if (k->phase != v->phase)
    return wafer_fail(v->ctx->diag, k->loc, WAFER_BAD_INPUT,
                      "kernel '%s' of phase %u stands in phase %u", k->name, k->phase, v->phase);
  WAFER_TRY(claim_cores(v, a->index));
  return check_operands(v, k);
}

static wafer_status check_module(const verifier *v) {
  wafer_mode mode;
  wafer_dtype storage;
  wafer_mode_cost cost;
  uint32_t number;
  bool there = wafer_ir_get_mode(v->ir, &mode) && wafer_ir_get_batch(v->ir, &number) &&
               number > 0 && wafer_ir_get_storage(v->ir, &storage) &&
               wafer_ir_get_flip_batch(v->ir, &number) &&
               wafer_ir_get_mode_cost(v->ir, WAFER_MODE_pipelined, &cost) &&
               wafer_ir_get_mode_cost(v->ir, WAFER_MODE_streaming, &cost);
  if (there) return WAFER_OK;
  return wafer_fail(v->ctx->diag, wafer_at_file(v->ir->file), WAFER_BAD_INPUT,
                    "the module lacks its mode, batch, storage, flip batch or the cost of a mode");
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  verifier v = {.ctx = ctx, .ir = ir};
  WAFER_TRY(check_module(&v));
  WAFER_TRY(wafer_graph_read(ctx, ir, &v.graph));
  v.fabric = fabric_create(ctx->arena, ctx->machine);
  v.owner = WAFER_NEW(ctx->arena, uint32_t, (size_t)ctx->machine->width * ctx->machine->height);
  v.streams = wafer_ir_map_create(ctx->arena);
  if (!v.fabric || !v.owner || !v.streams) return no_memory(&v);
  for (uint32_t a = 0; a < v.graph.action_count; a++) WAFER_TRY(check_action(&v, a));
  return check_outputs(&v);
}

wafer_status wafer_pass_verify(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}
