/* Sparse weights at fabric fidelity. What the host sends of them are the words of their pairs; and
 * values whose dims follow a dealt weight cross the border in the order of its parts. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"
#include "port.h"

static wafer_status find_pairs(session_fabric *s, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_pairs form = wafer_kernel_pairs(s->plan->machine, &k->body, &k->split, i);
    if (!form.lists) continue;
    fabric_pairs *pairs = WAFER_NEW(s->arena, fabric_pairs, 1);
    if (!pairs) return session_fabric_no_memory(s);
    *pairs = (fabric_pairs){form, wafer_kernel_input_layout(&k->body, &k->split, i)};
    s->pairs[k->inputs[i]] = pairs;
  }
  return WAFER_OK;
}

wafer_status session_fabric_sparse_begin(session_fabric *s) {
  const wafer_plan *plan = s->plan;
  s->pairs = WAFER_NEW(s->arena, const fabric_pairs *, plan->value_count);
  s->ordered = WAFER_NEW(s->arena, const wafer_layout *, plan->value_count);
  s->orders = wafer_orders_create(s->arena, plan);
  if (!s->pairs || !s->ordered || !s->orders) return session_fabric_no_memory(s);
  for (uint32_t i = 0; i < plan->kernel_count; i++) WAFER_TRY(find_pairs(s, &plan->kernels[i]));
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *t = &plan->streams[i];
    bool in = t->from.where != WAFER_AT_wafer, out = t->to.where != WAFER_AT_wafer;
    const wafer_layout *layout = in ? &t->to.layout : &t->from.layout;
    if ((in || out) && wafer_layout_ordered(layout)) s->ordered[t->value] = layout;
  }
  return WAFER_OK;
}

/* ---- order ---- */

/* Elements along a dim, as [outer][dim][inner bytes], to their places or back. */
static void turn(const wafer_order *order, bool back, size_t outer, size_t dim, size_t inner,
                 const char *from, char *to) {
  for (size_t o = 0; o < outer; o++)
    for (size_t i = 0; i < dim; i++) {
      size_t other = back ? order->index[i] : order->place[i];
      memcpy(to + (o * dim + other) * inner, from + (o * dim + i) * inner, inner);
    }
}

wafer_status session_fabric_order(session_fabric *s, uint32_t value, const wafer_layout *layout,
                                  bool back, size_t each, void *elements) {
  const wafer_type *type = &s->plan->values[value].type;
  size_t inner = each;
  int64_t all = 0;
  (void)wafer_shape_elements(&type->shape, &all);
  size_t bytes = (size_t)all * inner;
  char *copy = malloc(bytes + 1);
  wafer_status status = copy ? WAFER_OK : session_fabric_no_memory(s);
  for (uint32_t d = type->shape.rank; status == WAFER_OK && bytes && d-- > 0;) {
    size_t dim = (size_t)type->shape.dims[d];
    wafer_order order;
    status = wafer_order_of(s->diag, s->orders, layout->order[d], type->shape.dims[d], &order);
    if (status == WAFER_OK && order.place) {
      memcpy(copy, elements, bytes);
      turn(&order, back, bytes / (dim * inner), dim, inner, copy, elements);
    }
    inner *= dim;
  }
  free(copy);
  return status;
}

/* ---- pairs ---- */

static wafer_status pack(session_fabric *s, uint32_t value, void *dense) {
  const wafer_value *v = &s->plan->values[value];
  const wafer_weight *w = wafer_weights_at(s->plan->weights, v->weight);
  const fabric_pairs *pairs = s->pairs[value];
  wafer_dtype stored = wafer_stored_dtype(v->type.dtype, s->plan->storage);
  const uint32_t *place[2];
  int64_t count = 0;
  (void)wafer_shape_elements(&v->type.shape, &count);
  for (uint32_t d = 0; d < 2; d++) {
    wafer_order order;
    WAFER_TRY(
        wafer_order_of(s->diag, s->orders, pairs->layout.order[d], v->type.shape.dims[d], &order));
    place[d] = order.place;
  }
  port_narrow(v->type.dtype, stored, w->data, dense, (size_t)count);
  wafer_status status = wafer_pairs_pack(&pairs->form, stored, &v->type.shape, &pairs->layout,
                                         place, dense, s->stored[value]);
  if (status == WAFER_NO_MEMORY) return session_fabric_no_memory(s);
  if (status == WAFER_OK) return WAFER_OK;
  return wafer_fail(s->diag, wafer_at_file(s->plan->model), status,
                    "weight '%s' has more non-zeros on a core than its kernel says", v->name);
}

wafer_status session_fabric_pairs_pack(session_fabric *s, uint32_t value) {
  const wafer_type *type = &s->plan->values[value].type;
  int64_t count = 0;
  (void)wafer_shape_elements(&type->shape, &count);
  void *dense = calloc((size_t)count + 1, wafer_dtype_bytes(type->dtype));
  wafer_status status = dense ? pack(s, value, dense) : session_fabric_no_memory(s);
  free(dense);
  return status;
}
