/* Kernel fidelity: a kernel as a series of stages over tensors in host memory.
 *
 * A tensor lies dense in memory in a physical *order* of its dims: channels last where convolutions
 * and pools work, else as its producer left it. Transposes and reshapes that move nothing are other
 * views of the same buffer. f16 and bf16 are held as f32, rounded wherever a kernel stores an
 * output.
 *
 * A stage computes one op, with the elementwise ops that follow it as its *tail*, or a chain of
 * elementwise ops. It is cut into slabs: ranges of rows of the first physical dim of its result
 * that is not 1. Slabs are fixed when the stage is built, so results do not depend on the number of
 * threads. Building allocates and creates library primitives; running allocates nothing. */
#ifndef RUNTIME_EXEC_H
#define RUNTIME_EXEC_H

#include "threads.h"
#include "wafer/kernel.h"

typedef struct exec_order {
  uint8_t dim[WAFER_MAX_RANK]; /* outermost first */
} exec_order;

typedef struct exec_tensor {
  wafer_dtype type; /* in ONNX's terms */
  wafer_dtype host; /* as held: f32 for f16 and bf16 */
  wafer_shape shape;
  exec_order order;
  int64_t strides[WAFER_MAX_RANK]; /* per dim, elements; follow from order */
  uint32_t buffer;
} exec_tensor;

typedef struct exec_buffer {
  size_t bytes;         /* of one sample */
  const void *constant; /* never planned: known when building, or `outside` and set before a run */
  bool outside;
  uint32_t first, last; /* stages that use it; first > last: none */
  bool per_sample;      /* the samples of a group each have one */
  size_t offset,
      stride; /* in the program's memory, after planning; stride between samples of a group */
} exec_buffer;

/* Where everything lies during a run. */
typedef struct exec_frame {
  void **address; /* per buffer */
  void **scratch; /* per thread */
} exec_frame;

typedef struct exec_map exec_map;
typedef struct exec_stage exec_stage;
struct exec_stage {
  wafer_status (*run)(const exec_stage *self, const exec_frame *frame, uint32_t slab,
                      uint32_t thread);
  void (*release)(exec_stage *self); /* NULL: nothing but arena memory */
  uint32_t slabs;
  int64_t rows,
      row;        /* the result's first physical dim that is not 1, and elements of one row of it */
  size_t scratch; /* bytes per thread */
  const exec_map *tail;      /* runs over each slab after it, or NULL */
  const exec_tensor *rounds; /* result to round after the tail, or NULL */
  wafer_dtype storage;       /* of the kernel */
  wafer_loc loc;             /* the kernel; node is the ONNX node */
  const char *fault;         /* what it means when run fails */
  /* NULL, or writes that with the numbers of this run */
  void (*tell)(const exec_stage *self, const exec_frame *frame, char *text, size_t room);
};

typedef struct exec_program exec_program;
struct exec_program {
  wafer_arena *arena;
  const wafer_diag *diag;
  void *engine, *stream; /* dnnl_engine_t, dnnl_stream_t, made at first use */
  uint32_t buffer_count, buffer_room, stage_count, stage_room;
  exec_buffer *buffers;
  exec_stage **stages;
  struct exec_block *blocks; /* aligned memory of constants */
  size_t constant_bytes;
  uint32_t oracle_stages; /* how many are left to the oracle */
  wafer_loc loc;          /* of the kernel being built */
  uint32_t slabs;         /* of the kernel being built */
  wafer_dtype storage;    /* of the kernel being built */
  exec_frame frame;
  void *memory;
  size_t memory_bytes;
};

/* --- exec.c: programs */
wafer_status exec_program_create(const wafer_diag *diag, exec_program **out);
void exec_program_destroy(exec_program *program); /* NULL is fine */
/* After the last stage, and again for another group: plans and allocates the buffers of all stages,
 * for groups of `group` samples. Buffers used on both sides of a boundary (stage numbers,
 * ascending) exist per sample. */
wafer_status exec_program_finish(exec_program *program, uint32_t threads, uint32_t group,
                                 uint32_t boundary_count, const uint32_t *boundaries);
/* Chooses the sample of the group whose buffers the next runs use. */
void exec_program_select(exec_program *program, uint32_t sample);
/* Stages [first, last). */
wafer_status exec_program_run(exec_program *program, thread_pool *pool, uint32_t first,
                              uint32_t last);
static inline void *exec_data(const exec_frame *frame, const exec_tensor *t) {
  return frame->address[t->buffer];
}
/* What `tell` of stages that look rows up says: which of `count` indices is outside `dim`. */
void exec_tell_index(const exec_frame *frame, const exec_tensor *index, int64_t count, int64_t dim,
                     char *text, size_t room);
wafer_status exec_no_memory(const exec_program *program);
/* Aligned to 64, lives as long as the program; NULL when out of memory. */
void *exec_alloc(exec_program *program, size_t bytes);

/* --- exec_tensor.c: tensors; NULL when out of memory. */
wafer_dtype exec_host_dtype(wafer_dtype dtype);
exec_order exec_row_major(void);
exec_order exec_channels_last(uint32_t rank); /* dims 0, 2, 3, ..., 1 */
/* Whether two orders mean the same: dims of 1 do not matter. */
bool exec_same_order(const wafer_shape *shape, const exec_order *a, const exec_order *b);
exec_tensor *exec_tensor_create(exec_program *program, const wafer_type *type,
                                const exec_order *order);
/* Another view of the same buffer; the number of elements must agree. */
exec_tensor *exec_tensor_view(exec_program *program, const exec_tensor *base,
                              const wafer_type *type, const exec_order *order);
/* From dense row-major elements of `type`; `splat`: one element stands for all. Rounded as
 * `storage` holds it; copied when that or alignment demands it, else `data` must outlive the
 * program. */
exec_tensor *exec_tensor_constant(exec_program *program, const wafer_type *type, const void *data,
                                  bool splat, wafer_dtype storage);
/* One whose elements are set before each run: buffers[t->buffer].constant. */
exec_tensor *exec_tensor_outside(exec_program *program, const wafer_type *type,
                                 const exec_order *order);
/* Dense elements of `type` to `out`, as a wafer that stores `storage` holds them. */
void exec_lay_out(void *out, const wafer_type *type, const void *data, bool splat,
                  wafer_dtype storage);
/* The elements of a tensor known when building, or NULL. */
const void *exec_tensor_known(const exec_program *program, const exec_tensor *t);
/* The stage added last uses it: lifetimes of buffers span such stages. */
void exec_use(exec_program *program, const exec_tensor *t);
/* Rounds elements as they are stored: f16 and bf16 types, and f32 on a wafer that stores f16. */
void exec_round(wafer_dtype type, wafer_dtype storage, float *values, size_t count);
bool exec_rounds(wafer_dtype type, wafer_dtype storage);

/* --- one op being built: its operands, and the result to be made */
typedef struct exec_op {
  const wafer_node *node;
  exec_tensor *operands[WAFER_OP_MAX_OPERANDS];
  exec_tensor *result;         /* out */
  exec_stage *stage;           /* out: the stage that computes it; NULL for a mere view */
  const wafer_sum_order *sums; /* how cores add up what it sums; NULL: not told */
  /* relu or clip on every result, if the builder can take it along */
  bool clips, took_clip;
  float clip_min, clip_max;
} exec_op;

/* Builders leave op->result NULL when they do not know this case; the oracle then takes it. */
typedef wafer_status exec_build(exec_program *program, exec_op *op);
exec_build exec_build_arg, exec_build_conv, exec_build_conv_sums, exec_build_conv_transpose,
    exec_build_conv_weights, exec_build_gather, exec_build_gemm, exec_build_gemm_int,
    exec_build_move, exec_build_normalize, exec_build_oracle, exec_build_pool, exec_build_reduce,
    exec_build_resize, exec_build_scatter, exec_build_softmax;

/* Fills in slabs, rows, row, loc of a stage for its result, tells of operands and result, and adds
 * it. */
wafer_status exec_stage_add(exec_program *program, exec_stage *stage, exec_op *op,
                            uint32_t most_slabs);
/* That part of it which sets slabs, rows and row. */
void exec_slabs(const exec_program *program, exec_stage *stage, const exec_tensor *result,
                uint32_t most);
/* Rows [*from, *to) of a slab. */
static inline void exec_slab(const exec_stage *stage, uint32_t slab, int64_t *from, int64_t *to) {
  *from = stage->rows * slab / stage->slabs;
  *to = stage->rows * (slab + 1) / stage->slabs;
}
/* The first physical dim that is not 1 (0 for a scalar). */
uint32_t exec_outer_dim(const exec_tensor *t);
/* `t` in another order: itself when that changes nothing, else a copy by a stage of its own. */
wafer_status exec_reordered(exec_program *program, exec_tensor *t, const exec_order *order,
                            exec_tensor **out);

/* --- exec_body.c: the stages of a kernel. outputs[i] is body->outputs[i]. `sums`: of its anchor.
 */
wafer_status exec_kernel_build(exec_program *program, const wafer_kernel_body *body, uint32_t slabs,
                               const wafer_sum_order *sums, wafer_loc loc,
                               exec_tensor *const *inputs, exec_tensor **outputs);
/* The order in which a kernel would like to find an input. */
exec_order exec_wanted_order(const wafer_kernel_body *body, uint32_t input);

/* --- exec_map.c: elementwise chains */
/* A value of a chain: an operand tensor or the result of an earlier node of it. */
typedef struct exec_map_build {
  const wafer_node *const *nodes;
  uint32_t count;
  exec_tensor **value;    /* per value number of the body; NULL: not made yet */
  const uint32_t *number; /* value number of nodes[i] */
  const bool *escapes;    /* nodes[i] is needed outside the chain */
  const bool *stored;     /* nodes[i] is an output of the kernel */
  exec_tensor *anchor;    /* the last node may overwrite it, or NULL */
  const exec_order *order;
} exec_map_build;
/* Makes the tensors of the escaping nodes. Every node must be one that exec_map_knows. */
wafer_status exec_map_compile(exec_program *program, const exec_map_build *build,
                              const exec_map **out);
/* A stage of its own. */
wafer_status exec_map_stage(exec_program *program, const exec_map *map, exec_tensor *result);
void exec_map_run(const exec_map *map, const exec_frame *frame, int64_t from, int64_t to,
                  void *scratch);
size_t exec_map_scratch(const exec_map *map);
void exec_map_use(exec_program *program, const exec_map *map);
/* Held types of the operands (of select's second) and of the result. */
bool exec_map_knows(wafer_op op, wafer_dtype operand, wafer_dtype result);
#define EXEC_MAP_MOST_NODES 24 /* of one chain */

/* --- exec_copy.c: a box of elements between two strided places. Strides in elements, any sign,
 * `from` may be 0. */
typedef struct exec_copy {
  uint32_t rank;
  int64_t extent[WAFER_MAX_RANK], from[WAFER_MAX_RANK], to[WAFER_MAX_RANK];
  size_t element; /* bytes */
} exec_copy;
/* Drops, merges and sorts dims for speed. */
void exec_copy_simplify(exec_copy *copy);
void exec_copy_run(const exec_copy *copy, const void *from, void *to);

#endif
