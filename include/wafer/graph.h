/* The fused IR as plain structs: kernels, the values between them, and what later passes have
 * decided. What mode, size, place, route, schedule, verify and the backend look at; they write to
 * the IR through ir.h. */
#ifndef WAFER_GRAPH_H
#define WAFER_GRAPH_H

#include "wafer/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_STAYING_INPUTS 32 /* of a kernel: the first ones, whose weights may stay */

typedef struct wafer_graph_use {
  uint32_t kernel, input;
} wafer_graph_use;

/* An argument of @main, a weight, or a result of a kernel. Streams do not make values: they move
 * them. */
typedef struct wafer_graph_value {
  const char *name; /* the model's for inputs, outputs and weights, else the node's */
  const char *node; /* "" for inputs and weights */
  wafer_owner owner;
  wafer_type type;
  MlirValue value;
  uint32_t producer,
      output;        /* kernel and index of its outputs; WAFER_NONE for inputs and weights */
  bool sparse;       /* a weight, or the gradient of one, of which non-zeros alone stream */
  uint64_t nonzeros; /* then */
  uint64_t digest;   /* of a weight, where its table has it by now; else 0 */
  bool summed;       /* a gradient that stays on the wafer: see wafer_body_sums */
  uint32_t use_count;
  const wafer_graph_use *uses; /* in the order of kernels, then of inputs */
} wafer_graph_value;

/* Fields after `outputs` are set once the pass that writes them has run. */
typedef struct wafer_graph_kernel {
  const char *name, *node;
  wafer_loc loc;
  MlirOperation call, func;
  wafer_kernel_body body;
  const uint32_t *inputs, *outputs; /* values */
  bool constant; /* it takes nothing of a sample: weights, and what such kernels make */
  bool sized, placed;
  wafer_split split;
  uint32_t slabs, replicas, ahead, phase;
  uint32_t stays; /* inputs whose weight stays from the phase that used it before, a bit each of the
                     first WAFER_STAYING_INPUTS */
  wafer_rect rect;
} wafer_graph_kernel;

typedef struct wafer_graph_stream {
  MlirOperation op;
  uint32_t value;
  wafer_ir_stream is;
} wafer_graph_stream;

/* What @main does, in its order. */
typedef enum wafer_graph_kind {
  WAFER_GRAPH_kernel,
  WAFER_GRAPH_stream,
  WAFER_GRAPH_phase, /* index: its number */
  WAFER_GRAPH_load,  /* index: the phase */
  WAFER_GRAPH_free,  /* index: the value */
} wafer_graph_kind;

typedef struct wafer_graph_action {
  wafer_graph_kind kind;
  uint32_t index;
  MlirOperation op;
} wafer_graph_action;

typedef struct wafer_graph {
  uint32_t value_count, kernel_count, stream_count, action_count, input_count, output_count;
  const wafer_graph_value *values; /* inputs first */
  wafer_graph_kernel *kernels;     /* in the order of @main */
  const wafer_graph_stream *streams;
  const wafer_graph_action *actions;
  const uint32_t *outputs; /* values */
  MlirBlock block;
  MlirOperation terminator;
  bool piece; /* of a model of several */
  const struct wafer_peers *peers; /* of a pipeline: all pieces, it among them; NULL */
} wafer_graph;

/* The pieces of a model that are pipelines on one wafer: what each consists of, and where it lies
 * once it is laid out. */
typedef struct wafer_peers {
  uint32_t count;
  wafer_graph *at;
  bool *laid;
} wafer_peers;

/* Reads @main and its kernels. Needs KERNELED; BAD_INPUT when the text it came from is something
 * else. */
wafer_status wafer_graph_read(const wafer_ctx *ctx, const wafer_ir *ir, wafer_graph *out);

/* A result of @main that leaves the wafer: of a pipeline that trains gradients do not. */
static inline bool wafer_graph_is_output(const wafer_graph_value *value) {
  return value->owner == WAFER_OWNER_output ||
         (value->owner == WAFER_OWNER_gradient && !value->summed);
}

/* When kernel k runs in a phase that begins with kernel `first`: behind all that make what it
 * takes; those of a turn run at once. turn[]: of the kernels from `first` to it. */
uint32_t wafer_graph_turn(const wafer_graph *graph, uint32_t first, uint32_t k,
                          const uint32_t *turn);

/* The longest path to each kernel, in kernels; one that takes nothing of a sample comes just before
 * the first that takes what it makes. stage[]: of all kernels. */
void wafer_graph_stages(const wafer_graph *graph, uint32_t *stage);

/* Whether a weight stays behind kernel `last`, for the next kernel that uses it. */
bool wafer_graph_stays(const wafer_graph *graph, uint32_t value, uint32_t last);
static inline bool wafer_graph_is_weight(const wafer_graph *graph, uint32_t value) {
  return graph->values[value].owner == WAFER_OWNER_weight;
}

#ifdef __cplusplus
}
#endif
#endif
