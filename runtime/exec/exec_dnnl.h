/* oneDNN 2.6 through its C API, for the stages that use it: one engine per program, one primitive
 * per distinct slab shape, arguments per slab. oneDNN never sees more than one OpenMP thread. */
#ifndef RUNTIME_EXEC_DNNL_H
#define RUNTIME_EXEC_DNNL_H

#include <dnnl.h>

#include "exec.h"

#define LIBRARY_MOST_ARGS 6

/* One execution: what a slab does. Owns its memory objects; shares the primitive. */
typedef struct library_call {
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  bool owns_primitive;
  uint32_t count; /* arguments; the last one is the scratchpad */
  dnnl_exec_arg_t args[LIBRARY_MOST_ARGS];
  void *last[LIBRARY_MOST_ARGS]; /* handles that are set: setting is skipped when they stay */
  size_t scratchpad;             /* bytes */
} library_call;

/* An argument of a call: kind (DNNL_ARG_...) and the descriptor's query. */
typedef struct library_arg {
  int kind;
  dnnl_query_t query;
  int index;
} library_arg;

/* Makes the program's engine and stream at the first call. */
wafer_status library_engine(exec_program *program);
wafer_status library_failed(const exec_program *program, const char *what);
/* Makes the memory objects of a call for a primitive of `descriptor`. */
wafer_status library_call_init(exec_program *program, library_call *call,
                               const_dnnl_primitive_desc_t descriptor, const library_arg *args,
                               uint32_t count);
void library_call_release(library_call *call);
/* handles[i] belongs to args[i]; the scratchpad's follows from `scratch`. */
wafer_status library_call_run(library_call *call, void *const *handles, void *scratch);
/* Attributes with a user's scratchpad, and relu or clip of `op` as post-op; NULL: none. */
wafer_status library_attributes(exec_program *program, const exec_op *op,
                                dnnl_primitive_attr_t *out);
/* Where an argument lies: a tensor's address plus an offset, or fixed. */
typedef struct library_handle {
  const exec_tensor *tensor;
  int64_t offset; /* bytes */
  void *fixed;    /* when tensor is NULL */
} library_handle;

/* Weights in the format that a primitive wants. */
typedef struct library_weights {
  struct library_weights *next;
  dnnl_memory_desc_t descriptor;
  library_handle handle;
} library_weights;
/* --- exec_pack.c
 * `weights`, which lie as `from` says, as `to` wants them: reordered once into memory of the
 * program when they are known, else by a stage in every run; as they are when the two are equal.
 * Shared when `*copies` has some of the same descriptor. */
wafer_status library_pack(exec_program *program, library_weights **copies,
                          const library_handle *weights, const dnnl_memory_desc_t *from,
                          const dnnl_memory_desc_t *to, library_handle *out);
/* A stage that reorders a tensor to op->result; op->node may be NULL. */
wafer_status library_pack_stage(exec_program *program, const library_handle *source,
                                const dnnl_memory_desc_t *from, exec_op *op,
                                const dnnl_memory_desc_t *to);
/* Rows that each hold a tensor of a library's format; NULL: out of memory. */
exec_tensor *library_buffer(exec_program *program, const dnnl_memory_desc_t *of, uint32_t count);

/* A stage of such calls, one per slab. */

typedef struct library_slab {
  library_call call;
  library_handle handles[LIBRARY_MOST_ARGS];
} library_slab;

typedef struct library_stage {
  exec_stage stage;
  library_slab *slabs;
} library_stage;

/* Slabs are as many as stage.slabs will be; NULL when out of memory. */
library_stage *library_stage_create(exec_program *program, uint32_t slabs, const char *fault);
/* Slabs that exec_stage_add will give a stage with this result. */
uint32_t library_slabs(const exec_program *program, const exec_tensor *result, uint32_t most);
/* Adds it, a user of every tensor among its handles; on failure what the slabs own is released. */
wafer_status library_stage_add(exec_program *program, library_stage *stage, exec_op *op,
                               uint32_t most);

#endif
