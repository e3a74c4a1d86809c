#include "launch_order.h"

#include <string.h>

#include "wafer/pairs.h"

static bool crosses_border(const wafer_stream *t) {
  return t->from.where != WAFER_AT_wafer || t->to.where != WAFER_AT_wafer;
}

bool launch_order_changes(const wafer_stream *t) {
  return !crosses_border(t) && memcmp(t->from.layout.order, t->to.layout.order,
                                      t->to.layout.rank * sizeof *t->to.layout.order) != 0;
}

static const wafer_layout *inside(const wafer_stream *t) {
  return t->from.where == WAFER_AT_wafer ? &t->from.layout : &t->to.layout;
}

/* Kernels that share a sparse weight have it in one form. */
static wafer_status check_forms(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_plan *plan) {
  wafer_pairs *forms = WAFER_NEW(arena, wafer_pairs, plan->value_count);
  bool *known = WAFER_NEW(arena, bool, plan->value_count);
  if (!forms || !known)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory for the forms of weights");
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    for (uint32_t i = 0; i < kernel->body.input_count; i++) {
      uint32_t v = kernel->inputs[i];
      wafer_pairs form = wafer_kernel_pairs(plan->machine, &kernel->body, &kernel->split, i);
      if (known[v] && memcmp(&forms[v], &form, sizeof form))
        return wafer_fail(diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                          "kernel '%s' takes the sparse weight '%s' in another form than the "
                          "kernels before it, for which there are no programs; run at kernel "
                          "fidelity",
                          kernel->name, plan->values[v].name);
      known[v] = true;
      forms[v] = form;
    }
  }
  return WAFER_OK;
}

wafer_status launch_order_check(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_plan *plan) {
  WAFER_TRY(check_forms(diag, arena, plan));
  const wafer_layout **first = WAFER_NEW(arena, const wafer_layout *, plan->value_count);
  if (!first)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory for the orders of values");
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *t = &plan->streams[i];
    const wafer_layout *layout = inside(t), **known = &first[t->value];
    if (!crosses_border(t)) continue;
    if (*known && memcmp((*known)->order, layout->order, layout->rank * sizeof *layout->order))
      return wafer_fail(diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "'%s' crosses the border in two orders of dealt weights, for which there "
                        "are no programs; run at kernel fidelity",
                        plan->values[t->value].name);
    *known = layout;
  }
  return WAFER_OK;
}

/* Places of the target's order as places of the source's. */
static wafer_status table_of(const wafer_diag *diag, wafer_arena *arena, wafer_orders *orders,
                             const wafer_stream *t, uint32_t d, int64_t extent, index_dim *map) {
  wafer_order from, to;
  WAFER_TRY(wafer_order_of(diag, orders, t->from.layout.order[d], extent, &from));
  WAFER_TRY(wafer_order_of(diag, orders, t->to.layout.order[d], extent, &to));
  int64_t *table = WAFER_NEW(arena, int64_t, (size_t)extent);
  for (int64_t p = 0; table && p < extent; p++) {
    int64_t index = to.index ? to.index[p] : p;
    table[p] = from.place ? from.place[index] : index;
  }
  map->table = table ? index_table_of(arena, table, extent) : NULL;
  return map->table ? WAFER_OK
                    : wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                                 "no memory for an order of %lld", (long long)extent);
}

wafer_status launch_order_map(const wafer_diag *diag, wafer_arena *arena, wafer_orders *orders,
                              const wafer_plan *plan, const wafer_stream *t, index_map *map) {
  const wafer_shape *shape = &plan->values[t->value].type.shape;
  *map = index_identity();
  for (uint32_t d = 0; d < shape->rank && !crosses_border(t); d++)
    if (t->from.layout.order[d] != t->to.layout.order[d])
      WAFER_TRY(table_of(diag, arena, orders, t, d, shape->dims[d], &map->dim[d]));
  return WAFER_OK;
}

/* ---- constants ---- */

/* Of element `at` of a tensor in the orders' places, which element of the tensor it is. */
static int64_t index_of(const wafer_shape *shape, const wafer_order *order, int64_t at) {
  int64_t index = 0, step = 1;
  for (uint32_t d = shape->rank; d-- > 0; step *= shape->dims[d], at /= shape->dims[d]) {
    int64_t place = at % shape->dims[d];
    index += step * (order[d].index ? order[d].index[place] : place);
  }
  return index;
}

wafer_status launch_order_data(const wafer_diag *diag, wafer_arena *arena, wafer_orders *orders,
                               const wafer_kernel *k, program_data *data) {
  const wafer_node *n = &k->body.nodes[data->node];
  uint32_t value = k->body.input_count + data->node;
  wafer_layout layout = wafer_kernel_value_layout(&k->body, &k->split, value);
  wafer_order order[WAFER_MAX_RANK];
  size_t size = wafer_dtype_bytes(data->at->dtype);
  int64_t all = 0;
  if (!wafer_op_is(n->op, WAFER_TRAIT_SOURCE) || !wafer_layout_ordered(&layout)) return WAFER_OK;
  for (uint32_t d = 0; d < layout.rank; d++)
    WAFER_TRY(wafer_order_of(diag, orders, layout.order[d], n->type.shape.dims[d], &order[d]));
  (void)wafer_shape_elements(&n->type.shape, &all);
  char *to = WAFER_NEW(arena, char, (size_t)all *size);
  if (!to)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for a constant in order");
  for (int64_t i = 0; i < all; i++)
    memcpy(to + (size_t)i * size,
           (const char *)data->elements + (size_t)index_of(&n->type.shape, order, i) * size, size);
  data->elements = to;
  return WAFER_OK;
}
