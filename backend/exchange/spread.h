/* How a tensor is spread over a rectangle of cores: which of its elements each core holds, and at
 * which addresses.
 *
 * Dims are independent of each other: the core in row r and column c holds, of dim d, the part
 * row[r] * cols + col[c], and of the tensor the product of its parts. A part is a list of runs of
 * indices; where a layout or windows are spread there is one run, so that a core holds a box.
 * Buffers have the same shape and strides on every core. All memory is an arena's. */
#ifndef BACKEND_SPREAD_H
#define BACKEND_SPREAD_H

#include "wafer/arena.h"
#include "wafer/kernel.h"

/* Indices lo .. hi - 1 of a dim; the first lies at index `at` of the core's buffer. */
typedef struct spread_run {
  int32_t lo, hi, at;
} spread_run;

typedef struct spread_part {
  uint32_t count;         /* 0: the core holds nothing */
  const spread_run *runs; /* sorted by lo, disjoint */
} spread_part;

typedef struct spread_dim {
  int64_t extent;            /* of the tensor */
  int32_t buffer;            /* of a core's buffer, in elements */
  int32_t stride;            /* bytes from one index of the buffer to the next */
  uint32_t rows, cols;       /* kinds of rows and columns */
  const uint32_t *row, *col; /* of each row and column of the rectangle: its kind */
  spread_part *part;         /* rows * cols of them */
} spread_dim;

typedef struct spread {
  wafer_rect rect;   /* of the fabric */
  wafer_dtype dtype; /* as cores hold it */
  int32_t address;   /* bytes, of index 0 of every dim of the buffer */
  uint32_t rank;
  uint32_t apart; /* dim, counted from 1, whose indices are whole turns of the banks apart, as pairs
                     ask (wafer_pairs_stride); 0: none */
  spread_dim dim[WAFER_MAX_RANK];
} spread;

/* What one core holds, where every part is one run: elements lo <= i < hi of the tensor, each at
 * address + sum of (i - origin) * stride. Empty when a lo is not below its hi. */
typedef struct spread_box {
  int32_t lo[WAFER_MAX_RANK], hi[WAFER_MAX_RANK], origin[WAFER_MAX_RANK];
} spread_box;

/* The parts of a layout, dense and row-major in a buffer of the longest part's size. False: out of
 * memory. */
bool spread_of_layout(wafer_arena *arena, wafer_rect rect, const wafer_layout *layout,
                      const wafer_shape *shape, wafer_dtype dtype, int32_t address, spread *out);

/* The same at `count` places, each so many columns east of the one before; cores between them hold
 * nothing. False: out of memory. */
bool spread_repeat(wafer_arena *arena, const spread *s, uint32_t count, uint32_t columns,
                   spread *out);
/* The same on those rows and columns; the other cores hold nothing. Of rank 1 at least. False: out
 * of memory. */
bool spread_where(wafer_arena *arena, const spread *s, const bool *rows, const bool *cols,
                  spread *out);
/* The same on the first of the cores that hold the same. As above. */
bool spread_once(wafer_arena *arena, const spread *s, spread *out);
/* Rows for columns. False: out of memory. */
bool spread_turn(wafer_arena *arena, const spread *s, spread *out);
/* Kinds of columns (rows: `of_rows`) by all dims, counted from 0 in the order of appearance; NULL:
 * out of memory. */
uint32_t *spread_kinds(wafer_arena *arena, const spread *s, bool of_rows, uint32_t *count);

/* Dense row-major strides for the buffers' extents. */
void spread_pack(spread *s);
/* Strides for these from the last of `order` to the first, dense but for dim `apart`. */
void spread_pack_in(spread *s, const uint8_t *order);
/* Bytes of a core's buffer, once it is packed. */
uint64_t spread_bytes(const spread *s);

/* The same parts at the same places. */
bool spread_equal(const spread *a, const spread *b);

static inline const spread_part *spread_part_at(const spread *s, uint32_t d, uint32_t row,
                                                uint32_t col) {
  const spread_dim *dim = &s->dim[d];
  return &dim->part[dim->row[row] * dim->cols + dim->col[col]];
}
/* Of a spread whose parts are single runs. `row` and `col` count within the rectangle. */
spread_box spread_at(const spread *s, uint32_t row, uint32_t col);
bool spread_box_empty(const spread_box *box, uint32_t rank);

#endif
