/* Gives every tensor that moves a stream: from the edge, from MemoryX, between kernels, to the
 * edge. A copy that already lies where a kernel wants it is used as it is. */
#include <inttypes.h>

#include "route/fabric.h"
#include "scratch.h"
#include "size/size.h"
#include "streams.h"
#include "wafer/graph.h"

/* A copy of a value, and the SSA value that stands for it. */
typedef struct copy {
  wafer_holding at;
  MlirValue value;
  uint32_t kernel; /* where it lies */
  struct copy *older;
} copy;

/* A stream of this phase that has its way and colour. */
typedef struct routed {
  uint32_t value, kernel, count;
  const wafer_route_segment *route;
  struct routed *older;
} routed;

/* The copies of a value on the wafer. */
typedef struct copies {
  const copy *origin; /* where it came to the wafer, or was made */
  copy *newest;
} copies;

typedef struct routing {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  wafer_graph graph;
  wafer_mode mode;
  uint32_t resident, stripes, stripe_columns; /* samples of a stripe; as in wafer_plan */
  fabric *fabric;
  fabric_path *paths;
  wafer_route_segment *detour;
  copies *copies;   /* of each value */
  uint32_t *colors; /* of each kernel: those of the streams that meet at its cores, a bit each */
  uint32_t *sent;   /* of each value: those of its streams from kernels of the phase, a bit each */
  uint32_t loaded;  /* those of the phase's weights that many kernels take */
  uint32_t *turn;   /* of each kernel, see wafer_graph_turn */
  routed *newest;   /* of the phase */
} routing;

static wafer_status no_memory(const routing *r) {
  return wafer_fail(r->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to route streams");
}

/* ---- Copies ---- */

/* A copy that lies at `at`, where kernel `k` is. Kernels of a pipeline lie apart, so that only the
 * kernel's own copies, the newest, come into question. */
static const copy *find_copy(const routing *r, uint32_t k, uint32_t value,
                             const wafer_holding *at) {
  for (const copy *c = r->copies[value].newest; c; c = c->older) {
    if (r->mode == WAFER_MODE_pipelined && c->kernel != k) return NULL;
    if (wafer_holding_equal(&c->at, at)) return c;
  }
  return NULL;
}

static wafer_status add_copy(routing *r, uint32_t k, uint32_t value, const wafer_holding *at,
                             MlirValue ssa) {
  copy *made = WAFER_NEW(r->ctx->arena, copy, 1);
  if (!made) return no_memory(r);
  *made = (copy){*at, ssa, k, r->copies[value].newest};
  r->copies[value].newest = made;
  if (!r->copies[value].origin) r->copies[value].origin = made;
  return WAFER_OK;
}

/* Where a value can be fetched from: its first copy on the wafer, else where it comes from. Of
 * weights and, in a pipeline, of inputs every kernel gets its own. */
static wafer_holding source_of(const routing *r, uint32_t value, MlirValue *ssa) {
  const wafer_graph_value *v = &r->graph.values[value];
  bool outside = v->owner == WAFER_OWNER_weight ||
                 (v->owner == WAFER_OWNER_input && r->mode == WAFER_MODE_pipelined);
  const copy *origin = outside ? NULL : r->copies[value].origin;
  *ssa = origin ? origin->value : v->value;
  if (origin) return origin->at;
  return (wafer_holding){.where =
                             v->owner == WAFER_OWNER_weight ? WAFER_AT_memoryx : WAFER_AT_edge};
}

/* ---- Streams ---- */

#define NAMED 6 /* routers, and streams on the busiest, that a refusal names */

static bool passes_by(const routed *stream, wafer_core_at at) {
  for (uint32_t i = 0; i < stream->count; i++) {
    const wafer_route_segment *s = &stream->route[i];
    uint32_t west = s->x0 < s->x1 ? s->x0 : s->x1, north = s->y0 < s->y1 ? s->y0 : s->y1;
    uint32_t east = s->x0 < s->x1 ? s->x1 : s->x0, south = s->y0 < s->y1 ? s->y1 : s->y0;
    if (at.x >= west && at.x <= east && at.y >= north && at.y <= south) return true;
  }
  return false;
}

/* The routers that most streams pass, and those of them that pass the given one. */
static const char *congestion(const routing *r, wafer_core_at at) {
  wafer_core_at busy[NAMED];
  uint32_t colors[NAMED], count = fabric_busiest(r->fabric, NAMED, busy, colors), named = 0,
                          all = 0;
  const char *text = "; most taken:";
  for (uint32_t i = 0; i < count && text; i++)
    text =
        wafer_arena_printf(r->ctx->arena, "%s (%u, %u) %u", text, busy[i].x, busy[i].y, colors[i]);
  if (text) text = wafer_arena_printf(r->ctx->arena, "%s; through (%u, %u):", text, at.x, at.y);
  for (const routed *s = r->newest; s && text; s = s->older) {
    if (!passes_by(s, at)) continue;
    all++;
    if (named++ < NAMED)
      text = wafer_arena_printf(r->ctx->arena, "%s '%s' of kernel '%s',", text,
                                r->graph.values[s->value].name, r->graph.kernels[s->kernel].name);
  }
  if (text) text = wafer_arena_printf(r->ctx->arena, "%s %u streams in all", text, all);
  return text ? text : "";
}

static wafer_status no_color(const routing *r, const wafer_graph_kernel *kernel, uint32_t value,
                             const wafer_core_at *at) {
  return wafer_fail(
      r->ctx->diag, kernel->loc, WAFER_NO_FIT,
      "no colour is left for the stream of '%s' at kernel '%s': all %u are taken at core "
      "(%" PRIu32 ", %" PRIu32 ") and on every other way tried, try %s%s",
      r->graph.values[value].name, kernel->name, r->ctx->machine->colors, at->x, at->y,
      size_mode_option(r->ctx, WAFER_MODE_streaming), congestion(r, *at));
}

static wafer_status remember(routing *r, const wafer_graph_kernel *kernel, uint32_t value,
                             const wafer_ir_stream *s) {
  routed *made = WAFER_NEW(r->ctx->arena, routed, 1);
  wafer_route_segment *route =
      wafer_arena_copy(r->ctx->arena, s->route, s->route_count * sizeof *s->route);
  if (!made || !route) return no_memory(r);
  *made = (routed){value, (uint32_t)(kernel - r->graph.kernels), s->route_count, route, r->newest};
  r->newest = made;
  return WAFER_OK;
}

/* A stream's ends, with the replicas of the kernels there, and the kernel of the same phase that it
 * comes from; WAFER_NONE: from elsewhere. */
typedef struct ends {
  fabric_end from, to;
  uint32_t maker;
} ends;

/* What crosses the border goes past all stripes; what does not stays inside of one. */
static void pass_stripes(const routing *r, ends *e) {
  bool in = e->to.at.where == WAFER_AT_wafer, out = e->from.at.where == WAFER_AT_wafer;
  fabric_end *inside = in ? &e->to : &e->from;
  if (r->stripes == 1 || (in && out)) return;
  inside->replicas = r->stripes;
  inside->columns = r->stripe_columns;
}

static ends ends_of(const routing *r, const wafer_graph_kernel *kernel, uint32_t value,
                    const wafer_ir_stream *s) {
  uint32_t producer = r->graph.values[value].producer;
  bool made = s->from.where == WAFER_AT_wafer && producer != WAFER_NONE;
  ends e = {{s->from, made ? r->graph.kernels[producer].replicas : 1, s->from.rect.width},
            {s->to, s->to.where == WAFER_AT_wafer ? kernel->replicas : 1, s->to.rect.width},
            made && r->graph.kernels[producer].phase == kernel->phase ? producer : WAFER_NONE};
  pass_stripes(r, &e);
  return e;
}

/* A core tells streams apart by their colours, and gives each colour a queue: so those that other
 * streams have at either end are avoided. */
static uint32_t colors_met(const routing *r, const wafer_graph_kernel *kernel, const ends *e) {
  uint32_t met = r->colors[kernel - r->graph.kernels];
  return e->maker == WAFER_NONE ? met : met | r->colors[e->maker];
}

#define FEW_READERS 4 /* of a value: one part of all colours */

static bool has_many_readers(const routing *r, uint32_t value) {
  return r->graph.values[value].use_count > r->ctx->machine->colors / FEW_READERS;
}

static void meet(routing *r, const wafer_graph_kernel *kernel, uint32_t value, const ends *e,
                 uint32_t color) {
  r->colors[kernel - r->graph.kernels] |= 1u << color;
  if (wafer_graph_is_weight(&r->graph, value) && has_many_readers(r, value))
    r->loaded |= 1u << color;
  if (e->maker == WAFER_NONE) return;
  r->colors[e->maker] |= 1u << color;
  r->sent[value] |= 1u << color;
}

/* What many kernels take would leave its producer's few rows in as many colours as these are, and
 * none be left: its streams share colours as far as they go the same way, those that no other
 * stream has at the reader. So do weights that many kernels take, as the steps of a recurrence do:
 * all come from the border, before the first sample, and would have as many colours as there are
 * steps wherever they pass. */
static uint32_t colors_joined(const routing *r, const wafer_graph_kernel *kernel, uint32_t value) {
  if (!has_many_readers(r, value)) return 0;
  uint32_t sent = wafer_graph_is_weight(&r->graph, value) ? r->loaded : r->sent[value];
  return sent & ~r->colors[kernel - r->graph.kernels];
}

/* Where the simple ways are blocked, or have no colour: the first colour with any way round, at
 * first of those that no other stream has at the ends. */
static wafer_status go_round(routing *r, const wafer_graph_kernel *kernel, uint32_t value,
                             const ends *e, wafer_ir_stream *s, const wafer_core_at *congested) {
  uint32_t colors = r->ctx->machine->colors, met = colors_met(r, kernel, e), count = 0;
  wafer_core_at clash;
  if (colors > FABRIC_MAX_COLORS) colors = FABRIC_MAX_COLORS;
  for (uint32_t i = 0; i < 2 * colors; i++) {
    s->color = i % colors;
    if ((i >= colors) != (met >> s->color & 1)) continue;
    if (fabric_detour(r->fabric, &e->from, &e->to, s->color, r->detour, &count) != WAFER_OK)
      return no_memory(r);
    if (!count) continue;
    s->route_count = count;
    s->route = r->detour;
    return fabric_claim(r->fabric, count, r->detour, s->color, &clash) ? WAFER_OK : no_memory(r);
  }
  if (fabric_detour(r->fabric, &e->from, &e->to, FABRIC_MAX_COLORS, r->detour, &count) != WAFER_OK)
    return no_memory(r);
  if (count) return no_color(r, kernel, value, congested);
  return wafer_fail(r->ctx->diag, kernel->loc, WAFER_NO_FIT,
                    "dead cores block every way of '%s' to or from kernel '%s'",
                    r->graph.values[value].name, kernel->name);
}

/* Finds way and colour, and fills in what the stream costs. */
static wafer_status plan_stream(routing *r, const wafer_graph_kernel *kernel, uint32_t value,
                                wafer_ir_stream *s) {
  const wafer_machine *m = r->ctx->machine;
  ends e = ends_of(r, kernel, value, s);
  uint32_t count = fabric_paths(r->fabric, &e.from, &e.to, r->paths), chosen = 0;
  wafer_core_at congested = {s->to.rect.x, s->to.rect.y};
  if (count && fabric_assign(r->fabric, count, r->paths, colors_joined(r, kernel, value),
                             colors_met(r, kernel, &e), &chosen, &s->color, &congested)) {
    s->route_count = r->paths[chosen].count;
    s->route = r->paths[chosen].at;
  } else {
    WAFER_TRY(go_round(r, kernel, value, &e, s, &congested));
  }
  meet(r, kernel, value, &e, s->color);
  WAFER_TRY(remember(r, kernel, value, s));
  s->words = value_words(&r->graph.values[value], kernel->body.storage);
  s->cycles = stream_cycles(m, &s->from, &s->to, s->words);
  s->latency = stream_latency(m, &s->from, &s->to, wafer_route_hops(s->route_count, s->route));
  if (r->mode == WAFER_MODE_streaming && s->from.where == s->to.where) {
    s->cycles = relayout_cycles(m, &s->from, &s->to, &r->graph.values[value].type.shape, s->words);
    s->latency = 0;
  }
  return WAFER_OK;
}

static wafer_status build(routing *r, const wafer_graph_kernel *kernel, MlirOperation before,
                          MlirValue from, const wafer_ir_stream *s, MlirValue *result) {
  wafer_builder b = {.ctx = r->ctx,
                     .ir = r->ir,
                     .block = r->graph.block,
                     .before = before,
                     .location = mlirOperationGetLocation(kernel->call),
                     .loc = kernel->loc};
  return wafer_build_stream(&b, from, s, result);
}

static wafer_status route_input(routing *r, uint32_t k, uint32_t input, MlirOperation before) {
  const wafer_graph_kernel *kernel = &r->graph.kernels[k];
  uint32_t value = kernel->inputs[input];
  wafer_ir_stream s = {.depth = kernel->body.input_depth[input]};
  s.to = (wafer_holding){WAFER_AT_wafer, kernel->rect,
                         wafer_kernel_input_layout(&kernel->body, &kernel->split, input)};
  const copy *there = find_copy(r, k, value, &s.to);
  MlirValue ssa, result;
  if (there) {
    mlirOperationSetOperand(kernel->call, input, there->value);
    return WAFER_OK;
  }
  s.from = source_of(r, value, &ssa);
  WAFER_TRY(plan_stream(r, kernel, value, &s));
  WAFER_TRY(build(r, kernel, before, ssa, &s, &result));
  mlirOperationSetOperand(kernel->call, input, result);
  bool passes = !wafer_graph_is_weight(&r->graph, value) &&
                s.depth < r->resident; /* see wafer_stream_passes */
  return passes ? WAFER_OK : add_copy(r, k, value, &s.to, result);
}

/* The result of `output` lies on the kernel; outputs of the model go on to the edge. */
static wafer_status route_output(routing *r, uint32_t k, uint32_t output, MlirOperation before) {
  const wafer_graph_kernel *kernel = &r->graph.kernels[k];
  uint32_t value = kernel->outputs[output];
  wafer_ir_stream s = {.depth = kernel->body.output_depth, .to = {.where = WAFER_AT_edge}};
  s.from = (wafer_holding){WAFER_AT_wafer, kernel->rect,
                           wafer_kernel_output_layout(&kernel->body, &kernel->split, output)};
  MlirValue ssa = r->graph.values[value].value, result;
  WAFER_TRY(add_copy(r, k, value, &s.from, ssa));
  if (!wafer_graph_is_output(&r->graph.values[value])) return WAFER_OK;
  WAFER_TRY(plan_stream(r, kernel, value, &s));
  WAFER_TRY(build(r, kernel, before, ssa, &s, &result));
  for (uint32_t i = 0; i < r->graph.output_count; i++)
    if (r->graph.outputs[i] == value) mlirOperationSetOperand(r->graph.terminator, i, result);
  return WAFER_OK;
}

/* What a phase of kernels [first, end) ends with: its streams' colours, and streamed weights but
 * for those that stay. */
static void end_phase(routing *r, uint32_t first, uint32_t end) {
  fabric_clear(r->fabric);
  for (const routed *s = r->newest; s; s = s->older) r->sent[s->value] = 0;
  r->newest = NULL;
  r->loaded = 0;
  for (const wafer_graph_kernel *k = &r->graph.kernels[first]; k < &r->graph.kernels[end]; k++)
    for (uint32_t i = 0; i < k->body.input_count; i++)
      if (wafer_graph_is_weight(&r->graph, k->inputs[i]) &&
          !wafer_graph_stays(&r->graph, k->inputs[i], end - 1))
        r->copies[k->inputs[i]] = (copies){0};
}

static wafer_status route_kernel(routing *r, uint32_t k, MlirOperation turn, MlirOperation behind) {
  const wafer_graph_kernel *kernel = &r->graph.kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) WAFER_TRY(route_input(r, k, i, turn));
  for (uint32_t i = 0; i < kernel->body.output_count; i++) WAFER_TRY(route_output(r, k, i, behind));
  return WAFER_OK;
}

/* Kernels [first, end). In streaming all inputs of a turn come before the first of its kernels, and
 * what leaves the wafer does so at the end. */
static wafer_status route_phase(routing *r, uint32_t first, uint32_t end) {
  const wafer_graph_kernel *kernels = r->graph.kernels;
  bool streams = r->mode == WAFER_MODE_streaming;
  uint32_t at = first, *turn = r->turn;
  MlirOperation behind = mlirOperationGetNextInBlock(kernels[end - 1].call);
  for (uint32_t k = first; k < end; k++) {
    turn[k] = wafer_graph_turn(&r->graph, first, k, turn + first);
    if (turn[k] != turn[at] || !streams) at = k;
    MlirOperation next = mlirOperationGetNextInBlock(kernels[k].call);
    WAFER_TRY(route_kernel(r, k, kernels[at].call, streams ? behind : next));
  }
  end_phase(r, first, end);
  return WAFER_OK;
}

/* Behind the last of the kernels that share a phase with `first`. */
static wafer_status end_of_phase(const routing *r, uint32_t first, uint32_t *end) {
  const wafer_graph_kernel *kernels = r->graph.kernels;
  for (*end = first; *end < r->graph.kernel_count && kernels[*end].phase == kernels[first].phase;
       ++*end)
    if (!kernels[*end].sized || !kernels[*end].placed)
      return wafer_fail(r->ctx->diag, kernels[*end].loc, WAFER_BAD_INPUT,
                        "kernel '%s' has no split or rectangle, run size and place before route",
                        kernels[*end].name);
  return WAFER_OK;
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  routing r = {.ctx = ctx, .ir = ir};
  WAFER_TRY(wafer_graph_read(ctx, ir, &r.graph));
  if (!wafer_ir_get_mode(ir, &r.mode))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "the module has no wafer.mode, run pass mode before route");
  r.resident = r.stripes = 1;
  (void)wafer_ir_get_batch(ir, &r.resident);
  (void)wafer_ir_get_stripes(ir, &r.stripes, &r.stripe_columns);
  r.resident /= r.stripes ? r.stripes : 1;
  r.fabric = fabric_create(ctx->arena, ctx->machine);
  r.detour = WAFER_NEW(ctx->arena, wafer_route_segment, FABRIC_MAX_DETOUR);
  r.paths = WAFER_NEW(ctx->arena, fabric_path, FABRIC_MAX_PATHS);
  r.copies = WAFER_NEW(ctx->arena, copies, r.graph.value_count);
  r.colors = WAFER_NEW(ctx->arena, uint32_t, r.graph.kernel_count);
  r.sent = WAFER_NEW(ctx->arena, uint32_t, r.graph.value_count);
  r.turn = WAFER_NEW(ctx->arena, uint32_t, r.graph.kernel_count);
  if (!r.fabric || !r.detour || !r.paths || !r.copies || !r.colors || !r.sent || !r.turn)
    return no_memory(&r);
  for (uint32_t first = 0, end; first < r.graph.kernel_count; first = end) {
    WAFER_TRY(end_of_phase(&r, first, &end));
    WAFER_TRY(route_phase(&r, first, end));
  }
  return WAFER_OK;
}

wafer_status wafer_pass_route(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}
