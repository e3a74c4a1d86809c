/* Trained weights: their elements are taken from outside at every run, where they lie if that is
 * how cores hold them, else widened, rounded or aligned into memory of the session first. */
#include <stdint.h>

#include "session_state.h"

exec_tensor *session_trained_tensor(wafer_session *s, uint32_t value) {
  const wafer_value *v = &s->plan->values[value];
  session_weight *w = WAFER_NEW(s->program->arena, session_weight, 1);
  exec_order order = exec_row_major();
  exec_tensor *t = w ? exec_tensor_outside(s->program, &v->type, &order) : NULL;
  if (!t) return NULL;
  *w = (session_weight){.next = s->trained, .index = v->weight, .tensor = t};
  s->trained = w;
  return t;
}

static bool lies_right(const wafer_session *s, const exec_tensor *t, const void *data) {
  return t->host == t->type && !exec_rounds(t->type, s->plan->storage) &&
         (uintptr_t)data % wafer_dtype_bytes(t->type) == 0;
}

/* The data of the plan, checked once. */
static wafer_status take_initial(wafer_session *s, session_weight *w) {
  const wafer_weight *of = wafer_weights_at(s->plan->weights, w->index);
  if (!of->data)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_BAD_INPUT,
                      "trained weight '%s' has no data in the plan and none is bound: bind it "
                      "before the first run%s%s",
                      of->name, *of->expected ? "; it was expected in " : "", of->expected);
  if (!w->checked) WAFER_TRY(wafer_plan_touch_weight(s->diag, s->plan, w->index));
  w->checked = true;
  w->data = of->data;
  return WAFER_OK;
}

wafer_status session_enter_weights(wafer_session *s) {
  for (session_weight *w = s->trained; w; w = w->next) {
    const exec_tensor *t = w->tensor;
    wafer_type type = {t->type, t->shape};
    exec_buffer *buffer = &s->program->buffers[t->buffer];
    if (!w->data) WAFER_TRY(take_initial(s, w));
    if (lies_right(s, t, w->data)) {
      buffer->constant = w->data;
      continue;
    }
    if (!w->own && !(w->own = exec_alloc(s->program, buffer->bytes))) return session_no_memory(s);
    exec_lay_out(w->own, &type, w->data, false, s->plan->storage);
    buffer->constant = w->own;
  }
  return WAFER_OK;
}

wafer_status wafer_session_bind_weight(wafer_session *s, uint32_t weight, const void *data) {
  const wafer_loc loc = wafer_at_file(s->plan->model);
  size_t count = s->plan->weights ? wafer_weights_count(s->plan->weights) : 0;
  if (weight >= count)
    return wafer_fail(s->diag, loc, WAFER_USAGE, "weight %u is bound, the plan has %zu", weight,
                      count);
  const wafer_weight *of = wafer_weights_at(s->plan->weights, weight);
  if (!of->trained)
    return wafer_fail(s->diag, loc, WAFER_USAGE,
                      "weight '%s' is a constant of the plan: only trained weights are bound",
                      of->name);
  if (s->fabric || s->host)
    return wafer_fail(s->diag, loc, WAFER_UNSUPPORTED,
                      "weight '%s' is bound to a session %s: weights are bound at kernel fidelity, "
                      "where the plan's first function is the wafer's",
                      of->name, s->fabric ? "at fabric fidelity" : "with steps on the host");
  for (session_weight *w = s->trained; w; w = w->next)
    if (w->index == weight) w->data = data;
  return WAFER_OK;
}
