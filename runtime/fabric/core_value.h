/* What the parts of a vector instruction share: operands by number (0: out, then the inputs), runs
 * of its innermost level, types. */
#ifndef RUNTIME_CORE_VALUE_H
#define RUNTIME_CORE_VALUE_H

#include "fabric_state.h"

static inline const wafer_operand *core_operand(const wafer_instruction *code, uint32_t k) {
  return k ? &code->in[k - 1] : &code->out;
}
/* Inputs of a vector instruction. */
extern const uint8_t core_op_inputs[WAFER_CORE_VECTORS];
static inline uint32_t core_inputs(const wafer_instruction *code) {
  if (code->op != WAFER_CORE_apply) return core_op_inputs[code->op];
  return code->function < WAFER_OP_COUNT ? wafer_op_get((wafer_op)code->function)->most : 0;
}
/* The rate that an element costs, and its column. */
const wafer_throughput *core_rate(const wafer_machine *machine, const wafer_instruction *code);
/* Is there a routine for the function of an `apply` on these types? */
bool core_has_routine(const wafer_instruction *code);

/* What a type computes in. */
typedef enum core_class {
  CORE_COPIES, /* nothing computed: bits move */
  CORE_F32,
  CORE_F64,
  CORE_I64,
  CORE_U64,
  CORE_APPLIES,
  CORE_PAIRS, /* sparse wavelets: core_pairs.c */
} core_class;
core_class core_class_of(const wafer_instruction *code);

/* All n elements of operand k from its present address, within its innermost level, are in the data
 * and, of an input, written. */
bool core_run_there(const wafer_fabric *f, uint32_t core, const core_thread *thread, uint32_t k,
                    uint32_t n);
/* The bytes that all elements of operand k, from its first one on, cover: from, below. False:
 * beyond what an address can be. */
bool core_box(const core_thread *thread, uint32_t k, int32_t bytes[2]);
/* They are in the data. */
bool core_box_inside(const wafer_fabric *f, uint32_t core, const core_thread *thread, uint32_t k);
/* Input k may be read before the output is written, for n elements at once. */
bool core_runs_apart(const core_thread *thread, uint32_t k, uint32_t n);
/* The elements side by side, and back; a trap where memory is not theirs. */
wafer_status core_gather(const wafer_fabric *f, uint32_t core, const core_thread *thread,
                         uint32_t k, uint32_t n, void *dense);
/* The same without a copy, where they lie side by side: `*elements` is in the core's memory, or is
 * `dense`. */
wafer_status core_view(const wafer_fabric *f, uint32_t core, const core_thread *thread, uint32_t k,
                       uint32_t n, void *dense, const void **elements);
wafer_status core_scatter(wafer_fabric *f, uint32_t core, const core_thread *thread, uint32_t n,
                          const void *dense);
/* The next n elements are done: at most what is left of the innermost level. */
void core_advance(core_thread *thread, uint32_t n);
static inline uint32_t core_run_left(const core_thread *t) {
  return t->inner - t->index[3];
}

/* The next element of a microthread that is quick. */
static inline void core_go_on(core_thread *t) {
  if (t->index[3] + 1 == t->inner) {
    core_advance(t, 1);
    return;
  }
  t->index[3]++;
  for (uint32_t k = 0; k < 3; k++) t->address[k] += t->stride[k]; /* 0 of what is not there */
}
/* The written bits of a word of memory that is in the data, all in one; NULL: not as simple as
 * that. */
static inline uint64_t *core_bits_at(const fabric_image *image, uint64_t address, uint64_t *mask) {
  if (address + 4 > image->bytes || address % 64 > 60) return NULL;
  *mask = 15ull << address % 64;
  return (uint64_t *)(image->data + image->bytes) + address / 64;
}

/* Cycles of a step of so many elements over memory: rate, and banks that collide. */
uint32_t core_step_cycles(const wafer_machine *machine, core_thread *thread, uint32_t elements);

/* Instructions of sparse wavelets (core_pairs.c). */
bool core_takes_pairs(uint8_t op);
wafer_status core_begin_pairs(wafer_fabric *f, uint32_t core, core_thread *thread);
/* The words that every axpy of a core can take in this cycle; no arithmetic waits for that. */
wafer_status core_take_pairs(wafer_fabric *f, uint32_t core, uint64_t *next);
/* A wavelet of compress, or a pair's run; `over`: the instruction has ended. */
wafer_status core_step_pairs(wafer_fabric *f, uint32_t core, core_thread *thread, bool *stepped,
                             bool *over, uint32_t *cost, uint64_t *next);

/* The instruction's last step is done; those that wait for it may start `at` that cycle. */
void core_end_instruction(fabric_core *core, core_thread *thread, uint64_t at);

#define CORE_CHUNK 256 /* elements computed at once */

typedef union core_lanes {
  float f[CORE_CHUNK];
  double d[CORE_CHUNK];
  int64_t i[CORE_CHUNK];
  unsigned char raw[CORE_CHUNK * 8];
} core_lanes;

/* Elements of a type to what it computes in, and back (core_types.c): floats round to nearest even,
 * integers wrap, floats to integers truncate and saturate at 64 bits, bool is 0 or 1. */
void core_widen(core_class to, wafer_dtype dtype, const void *raw, uint32_t n, core_lanes *out);
void core_narrow(core_class from, const core_lanes *in, uint32_t n, wafer_dtype dtype, void *raw);

#endif
