/* What the architectures of the zoo are built with. */
#ifndef FRONTEND_ZOO_H
#define FRONTEND_ZOO_H

#include "wafer/onnx_write.h"
#include "wafer/zoo.h"

typedef struct zoo {
  const wafer_zoo_model *spec;
  const wafer_zoo_options *options;
  wafer_arena *arena;
  wafer_onnx_model *model;
  uint64_t parameters;
  double residual; /* deviation of matrices that end a residual branch */
  bool failed;     /* out of memory */
} zoo;

/* A name in the arena, "" when memory is short. */
const char *zoo_name(zoo *z, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A weight of N(mean, deviation); returns its name. */
const char *zoo_weight(zoo *z, const char *name, double mean, double deviation, uint32_t rank,
                       const int64_t *dims);
const char *zoo_vector(zoo *z, const char *name, double value, int64_t size);
const char *zoo_matrix(zoo *z, const char *name, double deviation, int64_t rows, int64_t columns);
/* Constants that are no parameters. */
const char *zoo_ints(zoo *z, const char *name, size_t count, const int64_t *values);

/* A node of one output, which has the node's name and is returned. Operands end with NULL. */
const char *zoo_op(zoo *z, const char *type, const char *name, const char *const *inputs);
#define ZOO_OP(z, type, name, ...)                                                                 \
  zoo_op((z), (type), (name), (const char *const[]){__VA_ARGS__, NULL})

wafer_onnx_dim zoo_batch(const zoo *z);

/* The architectures: nodes, weights, ports. */
void zoo_gpt(zoo *z);
void zoo_bert(zoo *z);
void zoo_mlp(zoo *z);
void zoo_cnn(zoo *z);

/* What makes the elements of a weight: a number per (seed, name, index), whoever asks in whatever
 * order. */
typedef struct zoo_draw {
  uint64_t key;
  double mean, deviation;
} zoo_draw;
zoo_draw *zoo_draw_of(zoo *z, const char *name, double mean, double deviation);
void zoo_fill(void *draw, int64_t first, int64_t count, void *to);

#endif
