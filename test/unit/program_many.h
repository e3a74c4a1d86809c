/* Programs of many random bodies under random splits, against the reference and the cost model. */
#ifndef PROGRAM_MANY_H
#define PROGRAM_MANY_H

#include <math.h>

#include "program_run.h"

#define F32_ERROR 1e-5
#define F16_ERROR 2e-3

typedef struct rng {
  uint64_t state;
} rng;

static inline uint32_t below(rng *r, uint32_t n) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((r->state >> 33) % n);
}
static inline uint32_t between(rng *r, uint32_t least, uint32_t most) {
  return least + below(r, most - least + 1);
}
static inline bool one_in(rng *r, uint32_t n) {
  return below(r, n) == 0;
}

static inline bool put(body_text *b, const char *op, const char *operands, const char *attrs) {
  return body_text_node(b, op, operands, attrs) != UINT32_MAX;
}

static inline double off(uint64_t told, uint64_t counted) {
  return counted ? fabs((double)told - (double)counted) / (double)counted : 0;
}

/* A random body; false: this one cannot be made. */
typedef bool program_maker(rng *r, body_text *b);

/* Runs 60 of them, or as many as the environment's WAFER_SEEDS; with WAFER_TABLE what is far off is
 * printed. At most a quarter may be refused; a core's memory is at most so many percent of what the
 * model says. */
void program_many(const char *family, program_maker *make, int64_t memory_percent);

#endif
