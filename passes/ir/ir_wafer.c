/* The module's attributes and the ops of dialect `wafer`. */
#include <stdio.h>

#include "ir_names.h"

/* ---- The module ---- */

static MlirOperation root_of(const wafer_ir *ir) {
  return mlirModuleGetOperation(ir->module);
}

bool wafer_ir_get_mode(const wafer_ir *ir, wafer_mode *mode) {
  const char *name;
  if (!get_string(root_of(ir), NAME_MODE, &name)) return false;
  for (int m = WAFER_MODE_pipelined; m <= WAFER_MODE_streaming; m++)
    if (!strcmp(name, wafer_mode_name((wafer_mode)m))) {
      *mode = (wafer_mode)m;
      return true;
    }
  return false;
}

void wafer_ir_set_mode(wafer_ir *ir, wafer_mode mode) {
  set_string(root_of(ir), NAME_MODE, wafer_mode_name(mode));
}

bool wafer_ir_get_batch(const wafer_ir *ir, uint32_t *batch) {
  return get_u32(root_of(ir), NAME_BATCH, batch);
}
void wafer_ir_set_batch(wafer_ir *ir, uint32_t batch) {
  set_int(root_of(ir), NAME_BATCH, batch);
}

bool wafer_ir_get_stripes(const wafer_ir *ir, uint32_t *stripes, uint32_t *columns) {
  uint32_t both[2];
  if (!get_u32s(root_of(ir), NAME_STRIPES, 2, both)) return false;
  *stripes = both[0];
  *columns = both[1];
  return true;
}
void wafer_ir_set_stripes(wafer_ir *ir, uint32_t stripes, uint32_t columns) {
  const uint32_t both[] = {stripes, columns};
  set_u32s(root_of(ir), NAME_STRIPES, 2, both);
}

bool wafer_ir_get_storage(const wafer_ir *ir, wafer_dtype *storage) {
  const char *name;
  if (!get_string(root_of(ir), NAME_STORAGE, &name)) return false;
  *storage = wafer_dtype_by_name(name);
  return *storage != WAFER_DTYPE_none;
}

void wafer_ir_set_storage(wafer_ir *ir, wafer_dtype storage) {
  set_string(root_of(ir), NAME_STORAGE, wafer_dtype_name(storage));
}

bool wafer_ir_get_micro_batch(const wafer_ir *ir, uint32_t *samples) {
  return get_u32(root_of(ir), NAME_MICRO, samples);
}
void wafer_ir_set_micro_batch(wafer_ir *ir, uint32_t samples) {
  set_int(root_of(ir), NAME_MICRO, samples);
}

bool wafer_ir_get_classes(const wafer_ir *ir, uint32_t *classes) {
  return get_u32(root_of(ir), NAME_CLASSES, classes);
}
void wafer_ir_set_classes(wafer_ir *ir, uint32_t classes) {
  set_int(root_of(ir), NAME_CLASSES, classes);
}

bool wafer_ir_get_optimizer(const wafer_ir *ir, wafer_optimizer_kind *kind) {
  const char *name;
  if (!get_string(root_of(ir), NAME_OPTIMIZER, &name)) return false;
  *kind = wafer_optimizer_by_name(name);
  return *kind != WAFER_OPTIMIZER_COUNT && wafer_optimizer_on_wafer(*kind);
}
void wafer_ir_set_optimizer(wafer_ir *ir, wafer_optimizer_kind kind) {
  set_string(root_of(ir), NAME_OPTIMIZER, wafer_optimizer_name(kind));
}

wafer_cut wafer_ir_get_cut(const wafer_ir *ir) {
  wafer_cut cut;
  wafer_mode mode;
  if (!get_u32(root_of(ir), NAME_BANDS, &cut.bands) || !cut.bands) cut.bands = 1;
  if (!get_u32(root_of(ir), NAME_SIDES, &cut.sides) || !cut.sides) cut.sides = 1;
  cut.together = wafer_ir_get_mode(ir, &mode) && mode == WAFER_MODE_streaming;
  return cut;
}
void wafer_ir_set_cut(wafer_ir *ir, wafer_cut cut) {
  if (cut.bands > 1) set_int(root_of(ir), NAME_BANDS, cut.bands);
  if (cut.sides > 1) set_int(root_of(ir), NAME_SIDES, cut.sides);
}

struct ir_band {
  const wafer_machine *wafer, *band;
  struct ir_band *next;
};

wafer_status wafer_ir_machine(const wafer_ctx *ctx, wafer_ir *ir, wafer_cut cut,
                              const wafer_machine **out) {
  *out = ctx->machine;
  if (cut.bands == 1) return WAFER_OK;
  for (const struct ir_band *at = ir->bands; at; at = at->next)
    if (at->wafer == ctx->machine && at->band->cut.bands == cut.bands &&
        at->band->cut.sides == cut.sides && at->band->cut.together == cut.together)
      return *out = at->band, WAFER_OK;
  struct ir_band *made = WAFER_NEW(ir->arena, struct ir_band, 1);
  if (!made)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY, "no memory for bands");
  WAFER_TRY(wafer_machine_band(ctx->diag, ir->arena, ctx->machine, cut, out));
  *made = (struct ir_band){ctx->machine, *out, ir->bands};
  ir->bands = made;
  return WAFER_OK;
}

bool wafer_ir_get_flip_batch(const wafer_ir *ir, uint32_t *flip_batch) {
  return get_u32(root_of(ir), NAME_FLIP, flip_batch);
}
void wafer_ir_set_flip_batch(wafer_ir *ir, uint32_t flip_batch) {
  set_int(root_of(ir), NAME_FLIP, flip_batch);
}

/* wafer.cost.<mode> = fits, latency, interval, cores, peak bytes; wafer.cost.<mode>.why_not. */
enum { COST_FITS, COST_LATENCY, COST_INTERVAL, COST_CORES, COST_BYTES, COST_COUNT };

typedef struct cost_names {
  char cost[64], why_not[64];
} cost_names;

static cost_names names_of(wafer_mode mode) {
  cost_names names;
  snprintf(names.cost, sizeof names.cost, "%s.%s", NAME_COST, wafer_mode_name(mode));
  snprintf(names.why_not, sizeof names.why_not, "%s.%s.why_not", NAME_COST, wafer_mode_name(mode));
  return names;
}

bool wafer_ir_get_mode_cost(const wafer_ir *ir, wafer_mode mode, wafer_mode_cost *cost) {
  cost_names names = names_of(mode);
  MlirAttribute attr = mlirOperationGetAttributeByName(root_of(ir), ref(names.cost));
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsADenseI64Array(attr)) return false;
  if (mlirDenseArrayGetNumElements(attr) != COST_COUNT) return false;
  uint64_t at[COST_COUNT];
  for (int i = 0; i < COST_COUNT; i++) at[i] = (uint64_t)mlirDenseI64ArrayGetElement(attr, i);
  *cost = (wafer_mode_cost){.fits = at[COST_FITS],
                            .latency_cycles = at[COST_LATENCY],
                            .interval_cycles = at[COST_INTERVAL],
                            .cores = at[COST_CORES],
                            .peak_core_bytes = at[COST_BYTES]};
  return get_string(root_of(ir), names.why_not, &cost->why_not);
}

void wafer_ir_set_mode_cost(wafer_ir *ir, wafer_mode mode, const wafer_mode_cost *cost) {
  cost_names names = names_of(mode);
  const int64_t at[COST_COUNT] = {
      [COST_FITS] = cost->fits,
      [COST_LATENCY] = (int64_t)cost->latency_cycles,
      [COST_INTERVAL] = (int64_t)cost->interval_cycles,
      [COST_CORES] = (int64_t)cost->cores,
      [COST_BYTES] = (int64_t)cost->peak_core_bytes,
  };
  MlirAttribute attr = mlirDenseI64ArrayGet(ir->context, COST_COUNT, at);
  mlirOperationSetAttributeByName(root_of(ir), ref(names.cost), attr);
  set_string(root_of(ir), names.why_not, cost->why_not ? cost->why_not : "");
}

/* ---- Ops of dialect `wafer` ---- */

static const char *const action_names[] = {
    [WAFER_IR_stream] = "wafer.stream",
    [WAFER_IR_load] = "wafer.load",
    [WAFER_IR_phase] = "wafer.phase",
    [WAFER_IR_free] = "wafer.free",
};

wafer_ir_action wafer_ir_action_of(MlirOperation op) {
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
  for (int a = 0; a < WAFER_IR_other; a++)
    if (!strcmp(name.data, action_names[a])) return (wafer_ir_action)a;
  return WAFER_IR_other;
}

/* A holding as numbers: where, x, y, w, h, rank, rows..., cols..., row strides..., column
 * strides..., orders... (left out where all are 0) */
enum { HOLDING_WHERE, HOLDING_X, HOLDING_Y, HOLDING_W, HOLDING_H, HOLDING_RANK, HOLDING_PARTS };
#define HOLDING_LISTS 5
#define HOLDING_MOST (HOLDING_PARTS + HOLDING_LISTS * WAFER_MAX_RANK)

static MlirAttribute holding_attr(MlirContext context, const wafer_holding *h) {
  int64_t at[HOLDING_MOST] = {
      [HOLDING_WHERE] = h->where,  [HOLDING_X] = h->rect.x,      [HOLDING_Y] = h->rect.y,
      [HOLDING_W] = h->rect.width, [HOLDING_H] = h->rect.height, [HOLDING_RANK] = h->layout.rank,
  };
  uint32_t rank = h->layout.rank, lists = HOLDING_LISTS - 1;
  for (uint32_t d = 0; d < rank; d++) {
    if (h->layout.order[d]) lists = HOLDING_LISTS;
    at[HOLDING_PARTS + d] = h->layout.rows[d];
    at[HOLDING_PARTS + rank + d] = h->layout.cols[d];
    at[HOLDING_PARTS + 2 * rank + d] = h->layout.row_stride[d];
    at[HOLDING_PARTS + 3 * rank + d] = h->layout.col_stride[d];
    at[HOLDING_PARTS + 4 * rank + d] = h->layout.order[d];
  }
  return mlirDenseI64ArrayGet(context, HOLDING_PARTS + lists * rank, at);
}

static bool get_holding(MlirOperation op, const char *name, wafer_holding *h) {
  MlirAttribute attr = mlirOperationGetAttributeByName(op, ref(name));
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsADenseI64Array(attr)) return false;
  intptr_t count = mlirDenseArrayGetNumElements(attr);
  uint32_t at[HOLDING_MOST];
  if (count < HOLDING_PARTS || count > HOLDING_MOST) return false;
  if (!get_u32s(op, name, (uint32_t)count, at)) return false;
  uint32_t rank = at[HOLDING_RANK];
  if (at[HOLDING_WHERE] > WAFER_AT_wafer || rank > WAFER_MAX_RANK ||
      (count != HOLDING_PARTS + HOLDING_LISTS * rank &&
       count != HOLDING_PARTS + (HOLDING_LISTS - 1) * rank))
    return false;
  *h = (wafer_holding){.where = (wafer_where)at[HOLDING_WHERE],
                       .rect = {.x = at[HOLDING_X],
                                .y = at[HOLDING_Y],
                                .width = at[HOLDING_W],
                                .height = at[HOLDING_H]},
                       .layout.rank = rank};
  memcpy(h->layout.rows, at + HOLDING_PARTS, rank * sizeof *at);
  memcpy(h->layout.cols, at + HOLDING_PARTS + rank, rank * sizeof *at);
  memcpy(h->layout.row_stride, at + HOLDING_PARTS + 2 * rank, rank * sizeof *at);
  memcpy(h->layout.col_stride, at + HOLDING_PARTS + 3 * rank, rank * sizeof *at);
  if (count == HOLDING_PARTS + HOLDING_LISTS * rank)
    memcpy(h->layout.order, at + HOLDING_PARTS + 4 * rank, rank * sizeof *at);
  return true;
}

static MlirAttribute route_attr(MlirContext context, uint32_t count,
                                const wafer_route_segment *route) {
  int64_t at[4 * (size_t)count + 1];
  for (uint32_t i = 0; i < count; i++) {
    at[4 * i] = route[i].x0;
    at[4 * i + 1] = route[i].y0;
    at[4 * i + 2] = route[i].x1;
    at[4 * i + 3] = route[i].y1;
  }
  return mlirDenseI64ArrayGet(context, 4 * (intptr_t)count, at);
}

/* True with a NULL route when out of memory. */
static bool get_route(wafer_arena *arena, MlirOperation op, wafer_ir_stream *s) {
  MlirAttribute attr = mlirOperationGetAttributeByName(op, ref("route"));
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsADenseI64Array(attr)) return false;
  uint32_t count = (uint32_t)mlirDenseArrayGetNumElements(attr);
  uint32_t *at = WAFER_NEW(arena, uint32_t, count);
  wafer_route_segment *route = WAFER_NEW(arena, wafer_route_segment, count / 4);
  s->route = NULL;
  if (!at || !route) return true;
  if (count % 4 || !get_u32s(op, "route", count, at)) return false;
  for (uint32_t i = 0; i < count / 4; i++)
    route[i] = (wafer_route_segment){at[4 * i], at[4 * i + 1], at[4 * i + 2], at[4 * i + 3]};
  s->route = route;
  s->route_count = count / 4;
  return true;
}

#define STREAM_ATTRS 8

static void stream_attrs(MlirContext context, const wafer_ir_stream *s, MlirNamedAttribute *attrs) {
  attrs[0] = named(context, "from", holding_attr(context, &s->from));
  attrs[1] = named(context, "to", holding_attr(context, &s->to));
  attrs[2] = named(context, "route", route_attr(context, s->route_count, s->route));
  attrs[3] = named(context, "color", int_attr(context, s->color));
  attrs[4] = named(context, "words", int_attr(context, (int64_t)s->words));
  attrs[5] = named(context, "cycles", int_attr(context, (int64_t)s->cycles));
  attrs[6] = named(context, "latency", int_attr(context, (int64_t)s->latency));
  attrs[7] = named(context, "depth", int_attr(context, s->depth));
}

wafer_status wafer_build_stream(wafer_builder *b, MlirValue value, const wafer_ir_stream *stream,
                                MlirValue *result) {
  MlirNamedAttribute attrs[STREAM_ATTRS];
  MlirType type = mlirValueGetType(value);
  stream_attrs(b->ir->context, stream, attrs);
  MlirOperationState state = mlirOperationStateGet(ref(action_names[WAFER_IR_stream]), b->location);
  mlirOperationStateAddAttributes(&state, STREAM_ATTRS, attrs);
  mlirOperationStateAddOperands(&state, 1, &value);
  mlirOperationStateAddResults(&state, 1, &type);
  MlirOperation op;
  WAFER_TRY(insert_op(b, &state, &op));
  *result = mlirOperationGetResult(op, 0);
  return WAFER_OK;
}

wafer_status wafer_ir_stream_get(const wafer_ctx *ctx, const wafer_ir *ir, MlirOperation op,
                                 wafer_ir_stream *s) {
  bool read = get_holding(op, "from", &s->from) && get_holding(op, "to", &s->to) &&
              get_route(ctx->arena, op, s) && get_u32(op, "color", &s->color) &&
              get_u64(op, "words", &s->words) && get_u64(op, "cycles", &s->cycles) &&
              get_u64(op, "latency", &s->latency) && get_u32(op, "depth", &s->depth);
  if (read && !s->route)
    return wafer_fail(ctx->diag, wafer_ir_loc(ir, op), WAFER_NO_MEMORY, "no memory for a route");
  if (read) return WAFER_OK;
  return wafer_fail(
      ctx->diag, wafer_ir_loc(ir, op), WAFER_BAD_INPUT,
      "the attributes of wafer.stream are malformed: see docs/dialects.md for their encoding");
}

/* An op with attributes alone. */
static wafer_status build_mark(wafer_builder *b, wafer_ir_action action, uint32_t count,
                               const MlirNamedAttribute *attrs) {
  MlirOperationState state = mlirOperationStateGet(ref(action_names[action]), b->location);
  mlirOperationStateAddAttributes(&state, count, attrs);
  return insert_op(b, &state, NULL);
}

wafer_status wafer_build_load(wafer_builder *b, uint32_t phase) {
  MlirContext context = b->ir->context;
  MlirNamedAttribute attr = named(context, "phase", int_attr(context, phase));
  return build_mark(b, WAFER_IR_load, 1, &attr);
}

bool wafer_ir_load_get(MlirOperation op, uint32_t *phase) {
  return get_u32(op, "phase", phase);
}

wafer_status wafer_build_phase(wafer_builder *b, uint32_t index, const char *name) {
  MlirContext context = b->ir->context;
  MlirNamedAttribute attrs[] = {named(context, "index", int_attr(context, index)),
                                named(context, "name", mlirStringAttrGet(context, ref(name)))};
  return build_mark(b, WAFER_IR_phase, 2, attrs);
}

bool wafer_ir_phase_get(MlirOperation op, uint32_t *index, const char **name) {
  return get_u32(op, "index", index) && get_string(op, "name", name);
}

wafer_status wafer_build_free(wafer_builder *b, MlirValue value) {
  MlirOperationState state = mlirOperationStateGet(ref(action_names[WAFER_IR_free]), b->location);
  mlirOperationStateAddOperands(&state, 1, &value);
  return insert_op(b, &state, NULL);
}
