/* Weights in a library's own formats: constants once, others by a stage in every run. */
#include "exec_dnnl.h"

static dnnl_primitive_desc_t reorder_of(exec_program *p, const dnnl_memory_desc_t *from,
                                        const dnnl_memory_desc_t *to) {
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t descriptor = NULL;
  if (library_attributes(p, NULL, &attr) != WAFER_OK) return NULL;
  (void)dnnl_reorder_primitive_desc_create(&descriptor, from, p->engine, to, p->engine, attr);
  dnnl_primitive_attr_destroy(attr);
  return descriptor;
}

static wafer_status init_call(exec_program *p, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to, library_call *call) {
  static const library_arg args[] = {{DNNL_ARG_FROM, dnnl_query_src_md, 0},
                                     {DNNL_ARG_TO, dnnl_query_dst_md, 0}};
  dnnl_primitive_desc_t descriptor = reorder_of(p, from, to);
  if (!descriptor) return library_failed(p, "a reorder of weights");
  wafer_status status = library_call_init(p, call, descriptor, args, 2);
  if (status == WAFER_OK && dnnl_primitive_create(&call->primitive, descriptor) != dnnl_success)
    status = library_failed(p, "a reorder of weights");
  call->owns_primitive = status == WAFER_OK;
  dnnl_primitive_desc_destroy(descriptor);
  return status;
}

static wafer_status pack_known(exec_program *p, const void *data, const dnnl_memory_desc_t *from,
                               const dnnl_memory_desc_t *to, void **out) {
  library_call call = {0};
  *out = exec_alloc(p, dnnl_memory_desc_get_size(to));
  if (!*out) return exec_no_memory(p);
  wafer_status status = init_call(p, from, to, &call);
  void *scratch = status == WAFER_OK ? exec_alloc(p, call.scratchpad + 1) : NULL;
  if (status == WAFER_OK)
    status = !scratch ? exec_no_memory(p)
                      : library_call_run(&call, (void *[]){(void *)(uintptr_t)data, *out}, scratch);
  library_call_release(&call);
  return status;
}

wafer_status library_pack_stage(exec_program *p, const library_handle *source,
                                const dnnl_memory_desc_t *from, exec_op *op,
                                const dnnl_memory_desc_t *to) {
  library_stage *s = library_stage_create(p, 1, "oneDNN failed in a reorder of weights");
  if (!s) return exec_no_memory(p);
  wafer_status status = init_call(p, from, to, &s->slabs[0].call);
  if (status != WAFER_OK) {
    s->stage.release(&s->stage);
    return status;
  }
  s->slabs[0].handles[0] = *source;
  s->slabs[0].handles[1] = (library_handle){.tensor = op->result};
  return library_stage_add(p, s, op, 1);
}

exec_tensor *library_buffer(exec_program *p, const dnnl_memory_desc_t *of, uint32_t count) {
  const exec_order order = exec_row_major();
  int64_t floats = (int64_t)((dnnl_memory_desc_get_size(of) + 63) / 64 * 16);
  const wafer_type type = {WAFER_DTYPE_f32, {.rank = 2, .dims = {count, floats}}};
  return exec_tensor_create(p, &type, &order);
}

static wafer_status pack(exec_program *p, const library_handle *weights,
                         const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                         library_handle *out) {
  const char *known = exec_tensor_known(p, weights->tensor);
  if (dnnl_memory_desc_equal(from, to)) {
    *out = *weights;
    return WAFER_OK;
  }
  if (known) return pack_known(p, known + weights->offset, from, to, &out->fixed);
  exec_op op = {.result = library_buffer(p, to, 1)};
  out->tensor = op.result;
  return op.result ? library_pack_stage(p, weights, from, &op, to) : exec_no_memory(p);
}

wafer_status library_pack(exec_program *p, library_weights **copies, const library_handle *weights,
                          const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                          library_handle *out) {
  for (library_weights *c = *copies; c; c = c->next)
    if (dnnl_memory_desc_equal(&c->descriptor, to)) {
      *out = c->handle;
      return WAFER_OK;
    }
  library_weights *copy = WAFER_NEW(p->arena, library_weights, 1);
  if (!copy) return exec_no_memory(p);
  *copy = (library_weights){.next = *copies, .descriptor = *to};
  WAFER_TRY(pack(p, weights, from, to, &copy->handle));
  *copies = copy;
  *out = copy->handle;
  return WAFER_OK;
}
