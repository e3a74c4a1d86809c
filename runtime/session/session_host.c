/* Running a plan whose first function is the host's: sample by sample, over items. */
#include <stdlib.h>
#include <string.h>

#include "session_state.h"

wafer_status session_check_counts(const wafer_session *s, uint32_t inputs, uint32_t outputs) {
  if (inputs != s->function->input_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u inputs, given %u", s->function->input_count, inputs);
  if (outputs != s->function->output_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u outputs, asked for %u", s->function->output_count, outputs);
  return WAFER_OK;
}

/* Sample `sample` of a train becomes an item each. */
static wafer_status enter_items(wafer_session *s, const wafer_view *inputs, bool train,
                                uint64_t sample) {
  for (uint32_t i = 0; i < s->function->input_count; i++) {
    wafer_view view = inputs[i];
    if (train) {
      if (view.dtype != WAFER_DTYPE_none)
        view.data = (char *)view.data +
                    view.strides[0] * (int64_t)sample * (int64_t)wafer_dtype_bytes(view.dtype);
      view.shape.rank--;
      memmove(view.shape.dims, view.shape.dims + 1, view.shape.rank * sizeof *view.shape.dims);
      memmove(view.strides, view.strides + 1, view.shape.rank * sizeof *view.strides);
    }
    wafer_item_release(s->items[i]);
    s->items[i] = wafer_item_copy(&view);
    if (!s->items[i]) return session_no_memory(s);
  }
  return WAFER_OK;
}

/* One sample: the item's own memory. Of a train: behind those before it. */
static wafer_status leave_item(wafer_session *s, uint32_t output, bool train, uint64_t sample,
                               uint64_t samples, wafer_view *out) {
  const wafer_item *item = s->items[s->function->input_count + output];
  const char *name = s->plan->values[s->function->outputs[output]].name;
  if (item->kind != WAFER_ITEM_tensor)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' is a %s and no tensor; run it with items", name,
                      wafer_item_kind_name(item->kind));
  if (!train) {
    *out = item->tensor;
    return WAFER_OK;
  }
  wafer_shape shape = item->tensor.shape;
  size_t bytes = wafer_tensor_bytes(item->tensor.dtype, &shape);
  if (shape.rank == WAFER_MAX_RANK || item->tensor.dtype == WAFER_DTYPE_string ||
      (bytes && samples > SIZE_MAX / 2 / bytes))
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' cannot be stacked to a train: run samples one by one", name);
  memmove(shape.dims + 1, shape.dims, shape.rank * sizeof *shape.dims);
  shape.dims[0] = (int64_t)samples;
  shape.rank++;
  if (sample == 0) {
    free(s->out[output]);
    s->out[output] = malloc(bytes * samples + 1);
    if (!s->out[output]) return session_no_memory(s);
    *out = wafer_view_of(item->tensor.dtype, &shape, s->out[output]);
  } else if (out->dtype != item->tensor.dtype || !wafer_shape_equal(&shape, &out->shape)) {
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' differs in shape from sample to sample: run them one by one",
                      name);
  }
  if (bytes) memcpy((char *)s->out[output] + sample * bytes, item->tensor.data, bytes);
  return WAFER_OK;
}

/* A train when the first input of static type has one dim more than that. */
static wafer_status check_train(const wafer_session *s, const wafer_view *inputs, bool *train,
                                uint64_t *samples) {
  *samples = 1;
  for (uint32_t i = 0; i < s->function->input_count && !*train; i++) {
    const wafer_value *v = &s->plan->values[s->function->inputs[i]];
    *train = v->kind == WAFER_VALUE_tensor && inputs[i].shape.rank == v->type.shape.rank + 1;
    if (*train) *samples = (uint64_t)inputs[i].shape.dims[0];
  }
  for (uint32_t i = 0; i < s->function->input_count && *train; i++)
    if (!inputs[i].shape.rank || (uint64_t)inputs[i].shape.dims[0] != *samples || !*samples)
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_BAD_INPUT,
                        "input '%s' has another number of samples than the train's %llu",
                        s->plan->values[s->function->inputs[i]].name, (unsigned long long)*samples);
  return WAFER_OK;
}

wafer_status session_run_host(wafer_session *s, const wafer_view *inputs, wafer_view *outputs) {
  bool train = false;
  uint64_t samples;
  WAFER_TRY(check_train(s, inputs, &train, &samples));
  wafer_item **made = s->items + s->function->input_count;
  host_plan_begin(s->host);
  for (uint64_t sample = 0; sample < samples; sample++) {
    WAFER_TRY(enter_items(s, inputs, train, sample));
    WAFER_TRY(host_plan_run(s->host, s->items, made));
    for (uint32_t i = 0; i < s->function->output_count; i++)
      WAFER_TRY(leave_item(s, i, train, sample, samples, &outputs[i]));
  }
  s->stats = host_plan_stats(s->host);
  return WAFER_OK;
}

wafer_status wafer_session_run_items(wafer_session *s, wafer_item *const *inputs,
                                     uint32_t input_count, wafer_item **outputs,
                                     uint32_t output_count) {
  WAFER_TRY(session_check_counts(s, input_count, output_count));
  if (!s->host)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "every input and output is a tensor: run it with views");
  host_plan_begin(s->host);
  WAFER_TRY(host_plan_run(s->host, inputs, outputs));
  s->stats = host_plan_stats(s->host);
  return WAFER_OK;
}
