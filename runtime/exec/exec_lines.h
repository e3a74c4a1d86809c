/* Stages that go over a tensor line by line, where a line is what some dims have together: softmax,
 * normalization. Private to runtime/. */
#ifndef RUNTIME_EXEC_LINES_H
#define RUNTIME_EXEC_LINES_H

#include "exec.h"

enum { EXEC_LINES = 256 }; /* neighbours that strided lines are handled with at once, at most */

typedef struct exec_lines exec_lines;
struct exec_lines {
  exec_stage stage;
  const exec_tensor *x, *y; /* alike */
  int64_t n, inner;         /* elements of a line, stride of them */
  void (*line)(const exec_lines *l, float *y, const float *x); /* whose elements are side by side */
  void (*neighbours)(const exec_lines *l, float *y, const float *x, int64_t width);
};

/* Sets *op's result, and adds the stage, which begins with `l` and has its two functions; not where
 * the operand is not held as f32, is empty, or has other dims between those of the bit set. */
wafer_status exec_lines_build(exec_program *p, exec_op *op, uint32_t dims, exec_lines *l);

/* In f32, as many sums at once as the host has lanes. */
float exec_lines_total(const float *x, int64_t n);
void exec_lines_subtract(float *out, const float *x, float y, int64_t n);
void exec_lines_scale(float *out, const float *x, float by, int64_t n);

#endif
