/* The table beside the IR: a weight's name -> element type, shape and where its bytes are. The IR
 * never holds the data. Insertion order is kept; look-up by name is O(1). */
#ifndef WAFER_WEIGHTS_H
#define WAFER_WEIGHTS_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_weight {
  const char *name;
  wafer_dtype dtype;
  wafer_shape shape;
  const void *data; /* dense row-major, unaligned: in a mapped file or in the arena; NULL: absent */
  size_t bytes;
  uint64_t digest;      /* XXH3-64 of the data; 0 until wafer_weight_digest */
  const char *expected; /* of an absent one: where its data should lie, "" when nobody said */
  bool trained; /* data is the initial value; a session takes the current one from outside */
  /* Zeros neither stream nor multiply, and training leaves them zero. */
  bool sparse;
  uint64_t nonzeros; /* of a sparse weight: elements of the data that are not zero */
  struct {
    uint32_t parts[2]; /* over which it has been dealt last (wafer/deal.h), 0: not yet, */
    uint64_t fullest;  /* and the non-zeros of the tile that has most; */
    uint64_t filled;   /* so, too, where each line of dim `kept` has one at least */
    uint32_t kept;
  } dealt;
  bool uneven; /* its tiles have turned out fuller than estimated: wafer_sparsity.uneven */
} wafer_weight;

typedef struct wafer_weights wafer_weights;

wafer_weights *
wafer_weights_create(wafer_arena *arena); /* dies with the arena; NULL: out of memory */
/* Adds a weight; a name that is taken becomes name_2, name_3 ... The entry's address is stable. The
 * shape must have passed wafer_shape_elements. NULL: out of memory. */
wafer_weight *wafer_weights_add(wafer_weights *weights, const char *name, wafer_dtype dtype,
                                const wafer_shape *shape, const void *data);
/* The same for data that the compiler has computed: where this function has added equal data of the
 * type before, that entry, whatever its name. Layers alike compute the same tables. */
wafer_weight *wafer_weights_share(wafer_weights *weights, const char *name, wafer_dtype dtype,
                                  const wafer_shape *shape, const void *data);
wafer_weight *wafer_weights_find(const wafer_weights *weights, const char *name); /* NULL: none */
size_t wafer_weights_count(const wafer_weights *weights);
wafer_weight *wafer_weights_at(const wafer_weights *weights, size_t index);
/* A weight's data as a view (row-major). */
wafer_view wafer_weight_view(const wafer_weight *weight);
/* Computes it once and keeps it; not for use from several threads. */
uint64_t wafer_weight_digest(wafer_weight *weight);

/* Tensors of a .safetensors file, added to the table; the data lives as long as the arena. */
wafer_status wafer_weights_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                wafer_weights *weights);
wafer_status wafer_weights_write(const wafer_diag *diag, const char *path,
                                 const wafer_weights *weights);

#ifdef __cplusplus
}
#endif
#endif
