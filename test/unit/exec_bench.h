/* A kernel under construction, op by op, which runs through the execution engine and is compared
 * with the plain-loop oracle: several slab counts and threads; results of different thread counts
 * to the byte. */
#ifndef EXEC_BENCH_H
#define EXEC_BENCH_H

#include "runtime/exec/exec.h"

enum { MOST_VALUES = 40 };

typedef struct bench {
  wafer_arena *arena;
  wafer_kernel_body body;
  wafer_type inputs[MOST_VALUES];
  wafer_node nodes[MOST_VALUES];
  uint32_t outputs[MOST_VALUES];
  void *data[MOST_VALUES]; /* oracle's elements per value */
  bool constant[MOST_VALUES];
  const wafer_sum_order *sums; /* of the anchor; NULL: in one */
  uint64_t seed;
  uint32_t oracle_stages; /* expected: ops that have no fast stage */
  uint32_t most_stages;   /* expected, 0: any number; one more may put an input in order */
} bench;

bench bench_start(void);
wafer_shape bench_shape(const char *text); /* "1x3x8", "" */
uint32_t bench_next(bench *b);             /* 31 random bits */
/* Inputs come before nodes. Elements are small, of both signs, distinct enough. */
uint32_t bench_input(bench *b, wafer_dtype dtype, const char *shape, bool constant);
/* Attributes are copied into the order of the op's row. */
wafer_attrs bench_attrs(bench *b, wafer_op op, const wafer_attr *attrs, uint32_t count);
uint32_t bench_node(bench *b, wafer_op op, const uint32_t *operands, uint32_t count,
                    const wafer_attr *attrs, uint32_t attr_count);
void bench_output(bench *b, uint32_t value);
exec_program *bench_program(bench *b, uint32_t slabs, uint32_t threads, exec_tensor **in,
                            exec_tensor **out, bool channels_last);
/* Ends the bench. `tolerance` is relative to the largest element. */
void bench_check_within(bench *b, const char *name, double tolerance);
void bench_check(bench *b, const char *name);

static inline wafer_attr ints(wafer_attr_id id, uint32_t count, const int64_t *at) {
  return (wafer_attr){.id = id, .ints = {count, at}};
}
static inline wafer_attr whole(wafer_attr_id id, int64_t i) {
  return (wafer_attr){.id = id, .i = i};
}
static inline wafer_attr real(wafer_attr_id id, double f) {
  return (wafer_attr){.id = id, .f = f};
}
static inline wafer_attr word(wafer_attr_id id, const char *s) {
  return (wafer_attr){.id = id, .s = s};
}
#define INTS(id, ...)                                                                              \
  ints(WAFER_ATTR_##id, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

#define NODE(b, op, operands, ...)                                                                 \
  bench_node(b, WAFER_OP_##op, (const uint32_t[]){LIST operands},                                  \
             sizeof((uint32_t[]){LIST operands}) / 4,                                              \
             (const wafer_attr[]){{.id = WAFER_ATTR_COUNT}, __VA_ARGS__},                          \
             sizeof((wafer_attr[]){{.id = WAFER_ATTR_COUNT}, __VA_ARGS__}) / sizeof(wafer_attr))
#define LIST(...) __VA_ARGS__

#endif
