/* Steps that run a body many times: loop, scan, map. */
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "host_plan.h"

/* A list of items that grows, each with a reference. */
typedef struct collection {
  wafer_item **at;
  uint32_t count, room;
} collection;

/* Takes the reference over, also on failure. */
static bool collect(collection *c, wafer_item *item) {
  if (c->count == c->room) {
    uint32_t room = c->room ? 2 * c->room : 8;
    wafer_item **at = room > c->room ? realloc(c->at, room * sizeof *at) : NULL;
    if (!at) {
      wafer_item_release(item);
      return false;
    }
    c->at = at;
    c->room = room;
  }
  c->at[c->count++] = item;
  return true;
}

static void discard(collection *c) {
  for (uint32_t i = 0; i < c->count; i++) wafer_item_release(c->at[i]);
  free(c->at);
}

/* A body with its arguments and results of the trip at hand. */
typedef struct trips {
  host_plan *p;
  const wafer_step *step;
  const wafer_function *body;
  wafer_item **args, **made; /* made: references; args: of `carried` ones alone */
  uint32_t slice_count;
  collection *slices; /* per result beyond the carried ones */
} trips;

static wafer_status begin(trips *t, host_plan *p, const wafer_step *step, uint32_t leading) {
  const wafer_function *body = &p->plan->functions[step->bodies[0]];
  *t = (trips){.p = p, .step = step, .body = body};
  if (body->output_count < leading)
    return wafer_fail(p->diag, host_plan_at(p, step), WAFER_BAD_INPUT,
                      "the body gives %u results, needs %u", body->output_count, leading);
  t->slice_count = body->output_count - leading;
  t->args = calloc((size_t)body->input_count + 1, sizeof *t->args);
  t->made = calloc((size_t)body->output_count + 1, sizeof *t->made);
  t->slices = calloc((size_t)t->slice_count + 1, sizeof *t->slices);
  return t->args && t->made && t->slices ? WAFER_OK : host_plan_no_memory(p);
}

static void end(trips *t) {
  for (uint32_t i = 0; t->slices && i < t->slice_count; i++) discard(&t->slices[i]);
  free(t->slices);
  free(t->args);
  free(t->made);
}

/* The results from `leading` on join their lists. */
static wafer_status keep_slices(trips *t, uint32_t leading) {
  bool room = true;
  for (uint32_t i = 0; i < t->slice_count; i++) {
    room = collect(&t->slices[i], t->made[leading + i]) && room;
    t->made[leading + i] = NULL;
  }
  return room ? WAFER_OK : host_plan_no_memory(t->p);
}

static void drop_made(trips *t) {
  for (uint32_t i = 0; i < t->body->output_count; i++) {
    wafer_item_release(t->made[i]);
    t->made[i] = NULL;
  }
}

/* A tensor with one more dim, of 1, at `axis`. */
static bool widen(const wafer_item *item, uint32_t axis, wafer_view *out) {
  wafer_shape shape = item->tensor.shape;
  if (item->kind != WAFER_ITEM_tensor || shape.rank == WAFER_MAX_RANK || axis > shape.rank)
    return false;
  memmove(&shape.dims[axis + 1], &shape.dims[axis], (shape.rank - axis) * sizeof shape.dims[0]);
  shape.dims[axis] = 1;
  shape.rank++;
  *out = wafer_view_of(item->tensor.dtype, &shape, item->tensor.data);
  return true;
}

/* No trip was made: the type that the body declares, with a new dim of 0. */
static wafer_status stack_none(const host_site *site, trips *t, uint32_t slice, uint32_t leading,
                               int64_t axis, wafer_item **out) {
  const wafer_value *v = &t->p->plan->values[t->body->outputs[leading + slice]];
  wafer_type type = v->type;
  if (v->kind != WAFER_VALUE_tensor)
    return wafer_fail(t->p->diag, host_plan_at(t->p, t->step), WAFER_UNSUPPORTED,
                      "no trip was made, and result '%s' has no type to make an empty tensor of",
                      v->name);
  wafer_item scalar = {.kind = WAFER_ITEM_tensor, .tensor = {type.dtype, type.shape, {0}, NULL}};
  wafer_view view;
  uint32_t place;
  WAFER_TRY(host_axis(site, axis, type.shape.rank + 1, &place));
  if (!widen(&scalar, place, &view)) return host_fail(site, "a result has too many dims");
  view.shape.dims[place] = 0;
  *out = wafer_item_new(view.dtype, &view.shape);
  return *out ? WAFER_OK : host_plan_no_memory(t->p);
}

/* Slices along a new dim `axis`, counted from the end when negative. */
static wafer_status stack(trips *t, uint32_t slice, uint32_t leading, int64_t axis, bool backwards,
                          wafer_item **out) {
  const collection *c = &t->slices[slice];
  host_site site = {.diag = t->p->diag, .loc = host_plan_at(t->p, t->step)};
  site.info = &(wafer_host_info){.name = wafer_step_kind_name(t->step->kind)};
  if (!c->count) return stack_none(&site, t, slice, leading, axis, out);
  uint32_t place;
  WAFER_TRY(host_axis(&site, axis, c->at[0]->tensor.shape.rank + 1, &place));
  wafer_view *views = calloc(c->count, sizeof *views);
  if (!views) return host_plan_no_memory(t->p);
  wafer_status status = WAFER_OK;
  for (uint32_t i = 0; i < c->count && status == WAFER_OK; i++)
    if (!widen(c->at[backwards ? c->count - 1 - i : i], place, &views[i]))
      status = host_fail(&site, "a slice is no tensor or of another rank");
  if (status == WAFER_OK) status = host_join(&site, c->count, views, place, out);
  free(views);
  return status;
}

/* ---- loop ---- */

static wafer_status one_element(const trips *t, const wafer_item *item, const char *what,
                                int64_t *out) {
  int64_t count = 0;
  if (item && item->kind == WAFER_ITEM_tensor && item->tensor.dtype != WAFER_DTYPE_string &&
      wafer_shape_elements(&item->tensor.shape, &count) && count == 1) {
    *out = wafer_element_i64(item->tensor.dtype, item->tensor.data, 0);
    return WAFER_OK;
  }
  return wafer_fail(t->p->diag, host_plan_at(t->p, t->step), WAFER_BAD_INPUT,
                    "Loop: the %s must be one element", what);
}

static wafer_item *scalar(wafer_dtype dtype, int64_t value) {
  wafer_item *item = wafer_item_new(dtype, &(wafer_shape){0});
  if (item) wafer_element_set_i64(dtype, item->tensor.data, 0, value);
  return item;
}

static wafer_status run_trip(trips *t, int64_t trip) {
  t->args[0] = scalar(WAFER_DTYPE_i64, trip);
  t->args[1] = scalar(WAFER_DTYPE_bool, 1);
  wafer_status status = t->args[0] && t->args[1]
                            ? host_plan_call(t->p, t->step->bodies[0], t->args, t->made)
                            : host_plan_no_memory(t->p);
  wafer_item_release(t->args[0]);
  wafer_item_release(t->args[1]);
  return status;
}

static wafer_status loop_trips(trips *t, wafer_item *const *inputs) {
  uint32_t carried = t->step->carried;
  int64_t most = INT64_MAX, more = 1;
  if (inputs[0]) WAFER_TRY(one_element(t, inputs[0], "number of trips", &most));
  if (inputs[1]) WAFER_TRY(one_element(t, inputs[1], "condition", &more));
  for (int64_t trip = 0; trip < most && more; trip++) {
    if (wafer_cancelled(t->p->diag))
      return wafer_fail(t->p->diag, host_plan_at(t->p, t->step), WAFER_USAGE,
                        "cancelled after %lld trips", (long long)trip);
    WAFER_TRY(run_trip(t, trip));
    wafer_status status = one_element(t, t->made[0], "condition", &more);
    for (uint32_t i = 0; i < carried && status == WAFER_OK; i++) {
      wafer_item_release(t->args[2 + i]);
      t->args[2 + i] = t->made[1 + i];
      t->made[1 + i] = NULL;
    }
    if (status == WAFER_OK) status = keep_slices(t, 1 + carried);
    drop_made(t);
    WAFER_TRY(status);
  }
  return WAFER_OK;
}

/* The carried values as they are now; references move to the outputs. */
static void give_carried(trips *t, uint32_t first, wafer_item **outputs) {
  for (uint32_t i = 0; i < t->step->carried; i++) {
    outputs[i] = t->args[first + i];
    t->args[first + i] = NULL;
  }
}

wafer_status host_plan_loop(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                            wafer_item **outputs) {
  trips t;
  uint32_t carried = step->carried;
  wafer_status status = begin(&t, p, step, 1 + carried);
  if (status == WAFER_OK) {
    for (uint32_t i = 2; i < step->input_count; i++) t.args[i] = inputs[i];
    for (uint32_t i = 0; i < carried; i++)
      if (t.args[2 + i]) wafer_item_retain(t.args[2 + i]);
    status = loop_trips(&t, inputs);
    if (status == WAFER_OK) give_carried(&t, 2, outputs);
    for (uint32_t i = 0; i < t.slice_count && status == WAFER_OK; i++)
      status = stack(&t, i, 1 + carried, 0, false, &outputs[carried + i]);
    for (uint32_t i = 0; i < carried; i++) wafer_item_release(t.args[2 + i]);
  }
  end(&t);
  return status;
}

/* ---- scan ---- */

typedef struct cuts {
  const wafer_host_attr *axes, *directions, *out_axes, *out_directions;
  uint32_t count; /* tensors to cut */
  uint32_t axis[WAFER_OP_MAX_OPERANDS * 4];
  int64_t length;
} cuts;

static int64_t entry(const wafer_host_attr *list, uint32_t i) {
  return list && i < list->count ? list->ints[i] : 0;
}

static wafer_status measure_cuts(const trips *t, const host_site *site, wafer_item *const *inputs,
                                 cuts *c) {
  uint32_t carried = t->step->carried;
  c->axes = host_attr(site, "scan_input_axes", WAFER_HOST_ATTR_ints);
  c->directions = host_attr(site, "scan_input_directions", WAFER_HOST_ATTR_ints);
  c->out_axes = host_attr(site, "scan_output_axes", WAFER_HOST_ATTR_ints);
  c->out_directions = host_attr(site, "scan_output_directions", WAFER_HOST_ATTR_ints);
  c->count = c->axes ? c->axes->count : 0;
  if (!c->count || c->count > WAFER_COUNT(c->axis) || carried + c->count > t->step->input_count)
    return host_fail(site, "%u tensors to cut", c->count);
  for (uint32_t i = 0; i < c->count; i++) {
    const wafer_view *x;
    WAFER_TRY(host_tensor(site, carried + i, &x));
    WAFER_TRY(host_axis(site, entry(c->axes, i), x->shape.rank, &c->axis[i]));
    if (i && x->shape.dims[c->axis[i]] != c->length)
      return host_fail(site, "the tensors to cut are of unlike lengths");
    c->length = x->shape.dims[c->axis[i]];
  }
  (void)inputs;
  return WAFER_OK;
}

static wafer_status scan_trip(trips *t, const host_site *site, const cuts *c, int64_t trip) {
  uint32_t carried = t->step->carried;
  wafer_status status = WAFER_OK;
  for (uint32_t i = 0; i < c->count; i++) t->args[carried + i] = NULL;
  for (uint32_t i = 0; i < c->count && status == WAFER_OK; i++)
    status = host_cut(site, &site->inputs[carried + i]->tensor, c->axis[i],
                      entry(c->directions, i) ? c->length - 1 - trip : trip, 1, true,
                      &t->args[carried + i]);
  if (status == WAFER_OK) status = host_plan_call(t->p, t->step->bodies[0], t->args, t->made);
  for (uint32_t i = 0; i < c->count; i++) wafer_item_release(t->args[carried + i]);
  WAFER_TRY(status);
  for (uint32_t i = 0; i < carried; i++) {
    wafer_item_release(t->args[i]);
    t->args[i] = t->made[i];
    t->made[i] = NULL;
  }
  return keep_slices(t, carried);
}

wafer_status host_plan_scan(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                            wafer_item **outputs) {
  trips t;
  cuts c = {0};
  uint32_t carried = step->carried;
  host_site site = {.diag = p->diag,
                    .loc = host_plan_at(p, step),
                    .info = &(wafer_host_info){.name = "Scan"},
                    .attr_count = step->attr_count,
                    .attrs = step->attrs,
                    .input_count = step->input_count,
                    .inputs = inputs};
  wafer_status status = begin(&t, p, step, carried);
  if (status == WAFER_OK) status = measure_cuts(&t, &site, inputs, &c);
  if (status == WAFER_OK) {
    for (uint32_t i = 0; i < step->input_count; i++) t.args[i] = inputs[i];
    for (uint32_t i = 0; i < carried; i++)
      if (t.args[i]) wafer_item_retain(t.args[i]);
    for (int64_t trip = 0; trip < c.length && status == WAFER_OK; trip++)
      status = scan_trip(&t, &site, &c, trip);
    if (status == WAFER_OK) give_carried(&t, 0, outputs);
    for (uint32_t i = 0; i < t.slice_count && status == WAFER_OK; i++)
      status = stack(&t, i, carried, entry(c.out_axes, i), entry(c.out_directions, i) != 0,
                     &outputs[carried + i]);
    for (uint32_t i = 0; i < carried; i++) wafer_item_release(t.args[i]);
  }
  end(&t);
  return status;
}

/* ---- map ---- */

wafer_status host_plan_map(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                           wafer_item **outputs) {
  trips t;
  wafer_status status = begin(&t, p, step, 0);
  uint32_t count = inputs[0] && inputs[0]->kind == WAFER_ITEM_sequence ? inputs[0]->count : 0;
  if (status == WAFER_OK && (!inputs[0] || inputs[0]->kind != WAFER_ITEM_sequence))
    status = wafer_fail(p->diag, host_plan_at(p, step), WAFER_BAD_INPUT,
                        "SequenceMap: the first operand must be a sequence");
  for (uint32_t k = 0; k < count && status == WAFER_OK; k++) {
    for (uint32_t i = 0; i < step->input_count && status == WAFER_OK; i++) {
      bool spread = i < step->carried && inputs[i] && inputs[i]->kind == WAFER_ITEM_sequence;
      if (spread && k >= inputs[i]->count)
        status = wafer_fail(p->diag, host_plan_at(p, step), WAFER_BAD_INPUT,
                            "SequenceMap: operand %u has %u elements, the first %u", i,
                            inputs[i]->count, count);
      else
        t.args[i] = spread ? inputs[i]->items[k] : inputs[i];
    }
    if (status == WAFER_OK) status = host_plan_call(p, step->bodies[0], t.args, t.made);
    if (status == WAFER_OK) status = keep_slices(&t, 0);
  }
  for (uint32_t i = 0; i < t.slice_count && status == WAFER_OK; i++) {
    outputs[i] = wafer_item_list(WAFER_ITEM_sequence, t.slices[i].count, t.slices[i].at);
    if (!outputs[i]) status = host_plan_no_memory(p);
  }
  end(&t);
  return status;
}
