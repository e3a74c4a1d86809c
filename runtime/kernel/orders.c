#include "wafer/orders.h"

#include <string.h>

#include "wafer/deal.h"

typedef struct dealt {
  uint32_t number; /* wafer_sparsity.order */
  int64_t extent[2];
  wafer_order dim[2];
  struct dealt *next;
} dealt;

struct wafer_orders {
  wafer_arena *arena;
  const wafer_plan *plan;
  dealt *known;
};

wafer_orders *wafer_orders_create(wafer_arena *arena, const wafer_plan *plan) {
  wafer_orders *o = WAFER_NEW(arena, wafer_orders, 1);
  if (o) *o = (wafer_orders){.arena = arena, .plan = plan};
  return o;
}

static wafer_status no_memory(const wafer_diag *diag, const wafer_orders *o) {
  return wafer_fail(diag, wafer_at_file(o->plan->model), WAFER_NO_MEMORY,
                    "no memory for the order of a sparse weight");
}

static const uint32_t *inverse(wafer_arena *arena, const uint32_t *place, int64_t count) {
  uint32_t *index = WAFER_NEW(arena, uint32_t, (size_t)count);
  for (uint32_t i = 0; index && i < count; i++) index[place[i]] = i;
  return index;
}

/* The kernel's parts of the weight; false: another kernel's are others. */
static bool find_parts(const wafer_orders *o, uint32_t number, uint32_t parts[2],
                       uint32_t *weight) {
  bool any = false;
  for (uint32_t n = 0; n < o->plan->kernel_count; n++) {
    const wafer_kernel *k = &o->plan->kernels[n];
    for (uint32_t i = 0; k->body.sparsity && i < k->body.input_count; i++) {
      if (k->body.sparsity[i].order != number) continue;
      wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
      const uint32_t own[2] = {layout.rows[0] * layout.cols[0], layout.rows[1] * layout.cols[1]};
      if (any && memcmp(own, parts, sizeof own)) return false;
      memcpy(parts, own, sizeof own);
      *weight = o->plan->values[k->inputs[i]].weight;
      any = true;
    }
  }
  return true;
}

static wafer_status make(const wafer_diag *diag, wafer_orders *o, dealt *d) {
  uint32_t parts[2] = {1, 1}, weight = WAFER_NONE;
  bool agree = find_parts(o, d->number, parts, &weight);
  if (weight == WAFER_NONE) return WAFER_OK;
  const wafer_weight *w = wafer_weights_at(o->plan->weights, weight);
  if (!agree)
    return wafer_fail(diag, wafer_at_file(o->plan->model), WAFER_UNSUPPORTED,
                      "kernels deal weight '%s' over different numbers of parts; run at kernel "
                      "fidelity",
                      w->name);
  if (!w->data || w->shape.rank < 2) return WAFER_OK;
  WAFER_TRY(wafer_plan_touch_weight(diag, o->plan, weight));
  wafer_deal deal;
  if (!wafer_deal_weight(o->arena, w, parts, &deal)) return no_memory(diag, o);
  for (uint32_t i = 0; i < 2; i++) {
    d->extent[i] = w->shape.dims[i];
    d->dim[i] = (wafer_order){deal.place[i], inverse(o->arena, deal.place[i], w->shape.dims[i])};
    if (!d->dim[i].index) return no_memory(diag, o);
  }
  return WAFER_OK;
}

wafer_status wafer_order_of(const wafer_diag *diag, wafer_orders *o, uint32_t order, int64_t extent,
                            wafer_order *out) {
  *out = (wafer_order){0};
  if (order == 0) return WAFER_OK;
  dealt *d = o->known;
  while (d && d->number != order / 2) d = d->next;
  if (!d) {
    d = WAFER_NEW(o->arena, dealt, 1);
    if (!d) return no_memory(diag, o);
    *d = (dealt){.number = order / 2, .next = o->known};
    WAFER_TRY(make(diag, o, d));
    o->known = d;
  }
  *out = d->dim[order % 2];
  if (!out->place || d->extent[order % 2] == extent) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(o->plan->model), WAFER_BAD_INPUT,
                    "a dim of %lld lies in the order of one of %lld", (long long)extent,
                    (long long)d->extent[order % 2]);
}

bool wafer_layout_ordered(const wafer_layout *layout) {
  for (uint32_t d = 0; d < layout->rank; d++)
    if (layout->order[d]) return true;
  return false;
}
