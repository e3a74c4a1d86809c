#include "exec_dnnl.h"

#include <math.h>

wafer_status library_failed(const exec_program *p, const char *what) {
  return wafer_fail(p->diag, p->loc, WAFER_INTERNAL, "oneDNN refused %s", what);
}

wafer_status library_engine(exec_program *p) {
  if (!p->engine) {
    dnnl_engine_t engine;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
      return library_failed(p, "an engine");
    p->engine = engine;
  }
  if (!p->stream) {
    dnnl_stream_t stream;
    if (dnnl_stream_create(&stream, p->engine, dnnl_stream_default_flags) != dnnl_success)
      return library_failed(p, "a stream");
    p->stream = stream;
  }
  return WAFER_OK;
}

wafer_status library_call_init(exec_program *p, library_call *call,
                               const_dnnl_primitive_desc_t descriptor, const library_arg *args,
                               uint32_t count) {
  call->stream = p->stream;
  for (uint32_t i = 0; i <= count; i++) {
    bool scratchpad = i == count;
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(
        descriptor, scratchpad ? dnnl_query_scratchpad_md : args[i].query,
        scratchpad ? 0 : args[i].index);
    if (!md) return library_failed(p, "an argument");
    if (scratchpad) call->scratchpad = dnnl_memory_desc_get_size(md);
    dnnl_memory_t memory;
    if (dnnl_memory_create(&memory, md, p->engine, DNNL_MEMORY_NONE) != dnnl_success)
      return library_failed(p, "a memory object");
    call->args[call->count++] =
        (dnnl_exec_arg_t){scratchpad ? DNNL_ARG_SCRATCHPAD : args[i].kind, memory};
  }
  return WAFER_OK;
}

void library_call_release(library_call *call) {
  for (uint32_t i = 0; i < call->count; i++) dnnl_memory_destroy(call->args[i].memory);
  if (call->owns_primitive) dnnl_primitive_destroy(call->primitive);
  *call = (library_call){0};
}

static bool set_handle(library_call *call, uint32_t i, void *handle) {
  if (call->last[i] == handle) return true;
  call->last[i] = handle;
  return dnnl_memory_set_data_handle(call->args[i].memory, handle) == dnnl_success;
}

wafer_status library_call_run(library_call *call, void *const *handles, void *scratch) {
  bool set = set_handle(call, call->count - 1, scratch);
  for (uint32_t i = 0; i + 1 < call->count; i++) set = set_handle(call, i, handles[i]) && set;
  if (!set || dnnl_primitive_execute(call->primitive, call->stream, (int)call->count, call->args) !=
                  dnnl_success)
    return WAFER_INTERNAL;
  return WAFER_OK;
}

wafer_status library_attributes(exec_program *p, const exec_op *op, dnnl_primitive_attr_t *out) {
  dnnl_primitive_attr_t attr;
  if (dnnl_primitive_attr_create(&attr) != dnnl_success) return library_failed(p, "attributes");
  dnnl_post_ops_t tail = NULL;
  bool good =
      dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
  if (good && op && op->clips) {
    bool relu = op->clip_min == 0.0f && op->clip_max == INFINITY;
    good = dnnl_post_ops_create(&tail) == dnnl_success &&
           dnnl_post_ops_append_eltwise(tail, 1.0f, relu ? dnnl_eltwise_relu : dnnl_eltwise_clip,
                                        relu ? 0.0f : op->clip_min,
                                        relu ? 0.0f : op->clip_max) == dnnl_success &&
           dnnl_primitive_attr_set_post_ops(attr, tail) == dnnl_success;
  }
  if (tail) dnnl_post_ops_destroy(tail);
  if (!good) {
    dnnl_primitive_attr_destroy(attr);
    return library_failed(p, "post-ops");
  }
  *out = attr;
  return WAFER_OK;
}

static wafer_status run_stage(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                              uint32_t thread) {
  library_slab *s = &((const library_stage *)stage)->slabs[slab];
  void *handles[LIBRARY_MOST_ARGS];
  for (uint32_t i = 0; i + 1 < s->call.count; i++) {
    const library_handle *h = &s->handles[i];
    handles[i] = h->tensor ? (char *)exec_data(frame, h->tensor) + h->offset : h->fixed;
  }
  return library_call_run(&s->call, handles, frame->scratch[thread]);
}

static void release_stage(exec_stage *stage) {
  library_stage *s = (library_stage *)stage;
  for (uint32_t i = 0; i < stage->slabs; i++) library_call_release(&s->slabs[i].call);
}

library_stage *library_stage_create(exec_program *p, uint32_t slabs, const char *fault) {
  library_stage *s = WAFER_NEW(p->arena, library_stage, 1);
  if (!s) return NULL;
  *s = (library_stage){.stage = {.run = run_stage,
                                 .release = release_stage,
                                 .slabs = slabs,
                                 .loc = p->loc,
                                 .fault = fault},
                       .slabs = WAFER_NEW(p->arena, library_slab, slabs)};
  return s->slabs ? s : NULL;
}

uint32_t library_slabs(const exec_program *p, const exec_tensor *result, uint32_t most) {
  exec_stage probe = {0};
  exec_slabs(p, &probe, result, most);
  return probe.slabs;
}

wafer_status library_stage_add(exec_program *p, library_stage *s, exec_op *op, uint32_t most) {
  for (uint32_t i = 0; i < s->stage.slabs; i++)
    if (s->slabs[i].call.scratchpad > s->stage.scratch)
      s->stage.scratch = s->slabs[i].call.scratchpad;
  WAFER_TRY(exec_stage_add(p, &s->stage, op, most));
  for (uint32_t i = 0; i < s->stage.slabs; i++)
    for (uint32_t k = 0; k < LIBRARY_MOST_ARGS; k++)
      if (s->slabs[i].handles[k].tensor) exec_use(p, s->slabs[i].handles[k].tensor);
  return WAFER_OK;
}
