/* Products of i32 matrices, as quantised models have them: integers of 8 or 16 bits in i32, b also
 * in fewer bits. Both sides are narrowed to i16, b by columns, so that a pair of products and their
 * sum is one instruction; where an element is wider, or a sum could leave i32, plain loops that
 * wrap do the rows in question. */
#include <string.h>

#include "exec.h"
#include "tensor/vmath.h"

enum { LANES = 32, TILE = 4 }; /* columns of b are as long as whole vectors */

/* b by columns, TILE of zeros behind them; the largest magnitude, INT64_MAX: wider than i16. */
typedef struct columns {
  int64_t most;
  int64_t fill[7]; /* to a cache line */
  int16_t at[];
} columns;

typedef struct pack_stage {
  exec_stage stage;
  const exec_tensor *b, *packed;
  int64_t k, n, depth, row, column; /* depth: k rounded up to LANES; row, column: strides of b */
} pack_stage;

typedef struct product_stage {
  exec_stage stage;
  const exec_tensor *a, *b, *packed, *y;
  pack_stage pack;
} product_stage;

/* n elements, `step` apart, to i16; the largest magnitude, INT64_MAX when some does not fit. */
#define NARROW(name, type)                                                                         \
  static int64_t narrow_##name(const void *data, int64_t first, int64_t step, int64_t n,           \
                               int16_t *to) {                                                      \
    const type *from = (const type *)data + first;                                                 \
    int32_t least = 0, most = 0;                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
      int32_t x = from[i * step];                                                                  \
      least = x < least ? x : least;                                                               \
      most = x > most ? x : most;                                                                  \
      to[i] = (int16_t)x;                                                                          \
    }                                                                                              \
    if (least < INT16_MIN || most > INT16_MAX) return INT64_MAX;                                   \
    return most > -least ? most : -least;                                                          \
  }
NARROW(i32, int32_t)
NARROW(i16, int16_t)
NARROW(i8, int8_t)
NARROW(u8, uint8_t)

typedef int64_t narrow(const void *data, int64_t first, int64_t step, int64_t n, int16_t *to);

/* NULL: there is no such. */
static narrow *narrow_of(wafer_dtype dtype) {
  switch (dtype) {
  case WAFER_DTYPE_i32: return narrow_i32;
  case WAFER_DTYPE_i16: return narrow_i16;
  case WAFER_DTYPE_i8: return narrow_i8;
  case WAFER_DTYPE_u8: return narrow_u8;
  default: return NULL;
  }
}

static void pack(const pack_stage *s, const void *b, columns *out) {
  narrow *narrow_column = narrow_of(s->b->host);
  out->most = 0;
  for (int64_t j = 0; j < s->n; j++) {
    int16_t *column = out->at + j * s->depth;
    int64_t most = narrow_column(b, j * s->column, s->row, s->k, column);
    memset(column + s->k, 0, (size_t)(s->depth - s->k) * sizeof *column);
    if (most > out->most) out->most = most;
  }
  memset(out->at + s->n * s->depth, 0, (size_t)(TILE * s->depth) * sizeof *out->at);
}

static wafer_status run_pack(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                             uint32_t thread) {
  const pack_stage *s = (const pack_stage *)stage;
  (void)slab, (void)thread;
  pack(s, exec_data(frame, s->b), exec_data(frame, s->packed));
  return WAFER_OK;
}

/* TILE rows times TILE columns. */
WAFER_CLONES static void tile(const int16_t *a, const int16_t *b, int64_t depth, int32_t *out) {
  const int16_t *a0 = a, *a1 = a + depth, *a2 = a1 + depth, *a3 = a2 + depth;
  for (int j = 0; j < TILE; j++) {
    const int16_t *c = b + j * depth;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int64_t i = 0; i < depth; i++) {
      s0 += a0[i] * c[i];
      s1 += a1[i] * c[i];
      s2 += a2[i] * c[i];
      s3 += a3[i] * c[i];
    }
    out[j] = s0, out[TILE + j] = s1, out[2 * TILE + j] = s2, out[3 * TILE + j] = s3;
  }
}

/* One row, modulo 2^32. */
static void wrapping_row(const pack_stage *s, const int32_t *a, const void *b, int32_t *y) {
  const int32_t *wide = s->b->host == WAFER_DTYPE_i32 ? b : NULL;
  for (int64_t j = 0; j < s->n; j++) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < s->k; i++) {
      int64_t at = i * s->row + j * s->column;
      sum += (uint32_t)a[i] * (uint32_t)(wide ? wide[at] : wafer_element_i64(s->b->host, b, at));
    }
    y[j] = (int32_t)sum;
  }
}

/* Rows fewer than TILE: `rows` has zeros behind them. */
static void rows_times(const pack_stage *s, const int16_t *rows, int64_t count, const columns *b,
                       int32_t *y) {
  int32_t out[TILE * TILE];
  for (int64_t j = 0; j < s->n; j += TILE) {
    int64_t width = s->n - j < TILE ? s->n - j : TILE;
    tile(rows, b->at + j * s->depth, s->depth, out);
    for (int64_t i = 0; i < count; i++)
      memcpy(y + i * s->n + j, out + i * TILE, (size_t)width * sizeof *y);
  }
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const product_stage *s = (const product_stage *)stage;
  const pack_stage *p = &s->pack;
  const int32_t *a = exec_data(frame, s->a);
  const void *b = exec_data(frame, s->b);
  const columns *packed = exec_data(frame, s->packed);
  int32_t *y = exec_data(frame, s->y);
  int16_t *rows = frame->scratch[thread];
  int64_t from, to;
  exec_slab(stage, slab, &from, &to);
  from = from * stage->row / p->n, to = to * stage->row / p->n;
  for (int64_t i = from; i < to; i += TILE) {
    int64_t count = to - i < TILE ? to - i : TILE, most = 0;
    memset(rows, 0, (size_t)(TILE * p->depth) * sizeof *rows);
    for (int64_t r = 0; r < count; r++) {
      int64_t of_row = narrow_i32(a, (i + r) * p->k, 1, p->k, rows + r * p->depth);
      if (of_row > most) most = of_row;
    }
    bool small = most <= INT16_MAX + 1 && packed->most <= INT16_MAX + 1 &&
                 most * packed->most <= INT32_MAX / p->k;
    if (small) rows_times(p, rows, count, packed, y + i * p->n);
    for (int64_t r = 0; !small && r < count; r++)
      wrapping_row(p, a + (i + r) * p->k, b, y + (i + r) * p->n);
  }
  return WAFER_OK;
}

static int64_t elements(const wafer_shape *s) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s->rank; i++) n *= s->dims[i];
  return n;
}

/* One matrix b for all of a, and nothing empty. */
static bool can_do(const exec_op *op) {
  const exec_tensor *a = op->operands[0], *b = op->operands[1];
  uint32_t rank = b->shape.rank;
  return a->host == WAFER_DTYPE_i32 && narrow_of(b->host) && a->shape.rank > 1 && rank > 1 &&
         elements(&a->shape) > 0 && elements(&b->shape) > 0 &&
         elements(&b->shape) == b->shape.dims[rank - 1] * b->shape.dims[rank - 2];
}

/* Packed once when b is known, else by a stage of its own. */
static wafer_status add_pack(exec_program *p, pack_stage *s) {
  size_t bytes = sizeof(columns) + (size_t)((s->n + TILE) * s->depth) * sizeof(int16_t);
  const void *known = exec_tensor_known(p, s->b);
  const exec_order order = exec_row_major();
  const wafer_type type = {WAFER_DTYPE_i8, {1, {(int64_t)bytes}}};
  exec_tensor *packed = exec_tensor_create(p, &type, &order);
  if (!packed) return exec_no_memory(p);
  s->packed = packed;
  if (known) {
    columns *out = exec_alloc(p, bytes);
    if (!out) return exec_no_memory(p);
    pack(s, known, out);
    p->buffers[packed->buffer].constant = out;
    return WAFER_OK;
  }
  pack_stage *stage = WAFER_NEW(p->arena, pack_stage, 1);
  if (!stage) return exec_no_memory(p);
  *stage = *s;
  exec_op op = {.result = packed};
  WAFER_TRY(exec_stage_add(p, &stage->stage, &op, 1));
  exec_use(p, s->b);
  return WAFER_OK;
}

wafer_status exec_build_gemm_int(exec_program *p, exec_op *op) {
  exec_order order = exec_row_major();
  if (!can_do(op)) return WAFER_OK;
  WAFER_TRY(exec_reordered(p, op->operands[0], &order, &op->operands[0]));
  const exec_tensor *b = op->operands[1];
  uint32_t rank = b->shape.rank;
  product_stage *s = WAFER_NEW(p->arena, product_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!s || !y) return exec_no_memory(p);
  int64_t k = b->shape.dims[rank - 2];
  *s = (product_stage){.stage = {.run = run, .loc = p->loc}, .a = op->operands[0], .b = b, .y = y};
  s->pack = (pack_stage){.stage = {.run = run_pack, .loc = p->loc},
                         .b = b,
                         .k = k,
                         .n = b->shape.dims[rank - 1],
                         .depth = (k + LANES - 1) / LANES * LANES,
                         .row = b->strides[rank - 2],
                         .column = b->strides[rank - 1]};
  WAFER_TRY(add_pack(p, &s->pack));
  s->packed = s->pack.packed;
  s->stage.scratch = (size_t)(TILE * s->pack.depth) * sizeof(int16_t);
  op->result = y;
  bool one_row = elements(&y->shape) == s->pack.n;
  WAFER_TRY(exec_stage_add(p, &s->stage, op, one_row ? 1 : UINT32_MAX));
  exec_use(p, s->packed);
  return WAFER_OK;
}
