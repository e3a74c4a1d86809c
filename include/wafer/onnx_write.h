/* ONNX files, written: protobuf's wire format below, a model's graph above. Numbers of fields are
 * those of onnx.proto (IR version 13).
 *
 * Failures are kept: everything may be called after one, and the function that writes the file
 * reports it. */
#ifndef WAFER_ONNX_WRITE_H
#define WAFER_ONNX_WRITE_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A protobuf message as bytes ---- */

/* Grows in the arena, so that it is never freed by itself; zero but for `arena` at first. */
typedef struct wafer_message {
  wafer_arena *arena;
  uint8_t *bytes;
  size_t count, room;
  bool failed; /* out of memory: what follows is dropped */
} wafer_message;

void wafer_message_int(wafer_message *m, uint32_t field, int64_t value); /* ints, bools, enums */
void wafer_message_float(wafer_message *m, uint32_t field, float value);
void wafer_message_bytes(wafer_message *m, uint32_t field, const void *data, size_t count);
void wafer_message_text(wafer_message *m, uint32_t field, const char *text);
void wafer_message_ints(wafer_message *m, uint32_t field, const int64_t *values, size_t count);
void wafer_message_add(wafer_message *m, uint32_t field, const wafer_message *inner);
/* Fields that are bytes already, one after the other. */
void wafer_message_append(wafer_message *m, const wafer_message *fields);
/* The key of a field of `count` bytes that are not in memory: the caller puts them behind it. */
void wafer_message_head(wafer_message *m, uint32_t field, uint64_t count);

/* ---- A model ---- */

typedef struct wafer_onnx_model wafer_onnx_model;

/* A dim is a number, or a name when `symbol` is set. */
typedef struct wafer_onnx_dim {
  int64_t size;
  const char *symbol;
} wafer_onnx_dim;

/* Elements [first, first + count) of a weight, little-endian, to `to`. */
typedef void wafer_onnx_fill(void *self, int64_t first, int64_t count, void *to);

/* An initializer. Its data are `data` (dense, row-major) or made by `fill`; with neither they are
 * external: `location`, a file below the model's folder, holds them from `offset` on. */
typedef struct wafer_onnx_weight {
  const char *name;
  wafer_dtype dtype;
  wafer_shape shape;
  const void *data;
  wafer_onnx_fill *fill;
  void *self;
  const char *location;
  uint64_t offset;
} wafer_onnx_weight;

/* Lives in the arena, as do copies of all names; weights' data are borrowed until the model is
 * written. NULL: out of memory. */
wafer_onnx_model *wafer_onnx_model_create(wafer_arena *arena, const char *graph, int64_t opset);
/* An entry of the model's metadata. */
void wafer_onnx_model_note(wafer_onnx_model *model, const char *key, const char *value);
void wafer_onnx_input(wafer_onnx_model *model, const char *name, wafer_dtype dtype, uint32_t rank,
                      const wafer_onnx_dim *dims);
void wafer_onnx_output(wafer_onnx_model *model, const char *name, wafer_dtype dtype, uint32_t rank,
                       const wafer_onnx_dim *dims);
void wafer_onnx_weight_add(wafer_onnx_model *model, const wafer_onnx_weight *weight);

/* A node; attributes follow, and belong to the latest node. Operands end with NULL, "" is one that
 * is left out. */
void wafer_onnx_node_add(wafer_onnx_model *model, const char *type, const char *name,
                         const char *const *inputs, const char *const *outputs);
void wafer_onnx_attr_int(wafer_onnx_model *model, const char *name, int64_t value);
void wafer_onnx_attr_float(wafer_onnx_model *model, const char *name, float value);
void wafer_onnx_attr_text(wafer_onnx_model *model, const char *name, const char *value);
void wafer_onnx_attr_ints(wafer_onnx_model *model, const char *name, const int64_t *values,
                          size_t count);
/* Of f32: the tensor's data are copied. */
void wafer_onnx_attr_tensor(wafer_onnx_model *model, const char *name, const wafer_shape *shape,
                            const float *data);

/* Weights of `data` or `fill` go into the file; when they are more than WAFER_ONNX_INLINE_BYTES
 * together (protobuf ends at 2 GB) all of them go to PATH.data beside it. */
#define WAFER_ONNX_INLINE_BYTES ((uint64_t)1 << 30)
wafer_status wafer_onnx_model_write(const wafer_diag *diag, wafer_onnx_model *model,
                                    const char *path);

#ifdef __cplusplus
}
#endif
#endif
