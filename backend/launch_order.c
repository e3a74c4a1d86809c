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
  if (!table)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory for an order of %lld",
                      (long long)extent);
  for (int64_t p = 0; p < extent; p++) {
    int64_t index = to.index ? to.index[p] : p;
    table[p] = from.place ? from.place[index] : index;
  }
  map->table = table;
  return WAFER_OK;
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
