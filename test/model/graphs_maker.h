/* What makes random graphs: values and nodes of the graph at hand, and the kinds of nodes that
 * graphs_move.c has. */
#ifndef TEST_GRAPHS_MAKER_H
#define TEST_GRAPHS_MAKER_H

#include "graphs.h"

typedef struct maker {
  graph *g;
  uint64_t state;
} maker;

/* From least to most, both included. */
int64_t any(maker *m, int64_t least, int64_t most);
#define ONE_OF(m, list) ((list)[any(m, 0, (int64_t)WAFER_COUNT(list) - 1)])

#define FLOATS (1u << WAFER_DTYPE_f32 | 1u << WAFER_DTYPE_f64)
#define INTS (1u << WAFER_DTYPE_i32 | 1u << WAFER_DTYPE_i64)
#define BOOLS (1u << WAFER_DTYPE_bool)
#define ALL (FLOATS | INTS | BOOLS)
#define NOBODY UINT32_MAX

graph_value *value_at(maker *m, uint32_t value);
int64_t elements_of(const wafer_shape *shape);
/* A value of random elements in low .. high. */
uint32_t add_random(maker *m, graph_source source, wafer_dtype dtype, wafer_shape shape, double low,
                    double high);
/* A constant of these integers. */
uint32_t add_ints(maker *m, uint32_t rank, uint32_t count, const int64_t *ints);
/* A value, of these types and ranks, that is no constant; late ones are likelier. NOBODY: none. */
uint32_t pick(maker *m, uint32_t types, uint32_t least, uint32_t most);

void add_node(maker *m, uint32_t count, const uint32_t *inputs, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An output of the node added last. True. */
bool add_output(maker *m, wafer_dtype dtype, wafer_shape shape);

/* Each adds a node; false: nothing is there that it could take, or it changed its mind. */
bool make_transpose(maker *m);
bool make_reshape(maker *m);
bool make_unsqueeze(maker *m);
bool make_concat(maker *m);
bool make_slice(maker *m);
bool make_split(maker *m);
bool make_expand(maker *m);
bool make_pad(maker *m);
bool make_gather(maker *m);
bool make_cumsum(maker *m);

#endif
