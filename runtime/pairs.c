#include "wafer/pairs.h"

#include <stdlib.h>
#include <string.h>

#define END_OF_PAIRS 0xffffu
#define LEAST_LENGTH 4 /* pairs of a list, where there are more lists than one */

static uint32_t wavelets_of(wafer_dtype stored) {
  return wafer_dtype_bytes(stored) <= 2 ? 1 : 2;
}

wafer_pairs wafer_pairs_of(wafer_dtype stored, uint64_t pairs, uint64_t tile) {
  uint64_t lists = pairs / LEAST_LENGTH, room = tile * wafer_dtype_bytes(stored);
  if (lists > WAFER_PAIR_LISTS) lists = WAFER_PAIR_LISTS;
  if (lists == 0) lists = 1;
  uint64_t length = (pairs + lists - 1) / lists;
  uint64_t words = lists * (length * wavelets_of(stored) + 1);
  if (words * WAFER_WAVELET_BYTES > room || words > UINT32_MAX) return (wafer_pairs){0};
  return (wafer_pairs){(uint32_t)lists, (uint32_t)length, (uint32_t)words};
}

bool wafer_body_multiplies(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  uint32_t uses = 0;
  if (!body->sparsity || !body->sparsity[input].sparse || body->inputs[input].shape.rank != 2 ||
      anchor->op != WAFER_OP_matmul)
    return false;
  for (uint32_t n = 0; n < body->node_count; n++)
    for (uint32_t i = 0; i < body->nodes[n].operand_count; i++)
      uses += body->nodes[n].operands[i] == input;
  return uses == 1 && (anchor->operands[0] == input || anchor->operands[1] == input);
}

wafer_pairs wafer_kernel_pairs(const wafer_kernel_body *body, const wafer_split *split,
                               uint32_t input) {
  if (!wafer_body_multiplies(body, input) || !body->sparsity[input].fullest)
    return (wafer_pairs){0};
  wafer_layout layout = wafer_kernel_input_layout(body, split, input);
  const wafer_type *type = &body->inputs[input];
  return wafer_pairs_of(wafer_stored_dtype(type->dtype, body->storage),
                        body->sparsity[input].fullest, wafer_layout_tile(&layout, &type->shape));
}

/* A list's pair takes its wavelets, the set-up and its run; lists compute one at a time. Then
 * control meets their microthreads. */
uint64_t wafer_pairs_cycles(const wafer_machine *m, const wafer_pairs *pairs, wafer_dtype stored,
                            uint64_t rows) {
  uint64_t run = wafer_machine_cycles(m, WAFER_RATE_fma, stored, rows), step = m->banks > 1;
  if (rows * wafer_dtype_bytes(stored) % 8) run += step * run / 2;
  uint64_t setup = m->vector_setup_cycles > 2 ? m->vector_setup_cycles - 2 : 0;
  uint64_t before = wavelets_of(stored) + setup, list = pairs->length * (before + run);
  uint64_t all = pairs->lists * pairs->length * run;
  return (list > all ? list : all) + before + pairs->lists;
}

wafer_shape wafer_pairs_shape(const wafer_pairs *pairs, const wafer_layout *weight) {
  return (wafer_shape){3,
                       {(int64_t)weight->rows[0] * weight->cols[0],
                        (int64_t)weight->rows[1] * weight->cols[1], pairs->words}};
}

wafer_layout wafer_pairs_layout(const wafer_layout *weight) {
  wafer_layout layout = *weight;
  layout.rank = 3;
  layout.rows[2] = layout.cols[2] = layout.row_stride[2] = layout.col_stride[2] = 1;
  memset(layout.order, 0, sizeof layout.order);
  return layout;
}

/* ---- packing ---- */

typedef struct packing {
  const wafer_pairs *pairs;
  uint32_t wavelets, parts[2], length[2], bits; /* bits: that count the columns of a tile */
  uint32_t *count;                              /* of each tile, so far */
  uint32_t *words;
} packing;

/* Ends of the lists; everything else begins as pairs of value 0. */
static void begin(packing *p) {
  uint64_t tiles = (uint64_t)p->parts[0] * p->parts[1], list = p->pairs->words / p->pairs->lists;
  memset(p->words, 0, tiles * p->pairs->words * sizeof *p->words);
  for (uint64_t i = 1; i <= tiles * p->pairs->lists; i++)
    p->words[i * list - 1] = p->wavelets == 1 ? END_OF_PAIRS << 16 : END_OF_PAIRS;
}

/* Lists take turns. False: they have no room. */
static bool put(packing *p, uint32_t row, uint32_t col, uint32_t bits) {
  uint64_t tile = (uint64_t)(row / p->length[0]) * p->parts[1] + col / p->length[1];
  uint32_t n = p->count[tile]++, list = n % p->pairs->lists, at = n / p->pairs->lists;
  if (at >= p->pairs->length) return false;
  uint32_t index = (row % p->length[0]) << p->bits | col % p->length[1];
  uint32_t *to = p->words + tile * p->pairs->words + list * (p->pairs->words / p->pairs->lists) +
                 at * p->wavelets;
  to[0] = p->wavelets == 1 ? index << 16 | bits : index;
  if (p->wavelets == 2) to[1] = bits;
  return true;
}

wafer_status wafer_pairs_pack(const wafer_pairs *pairs, wafer_dtype stored,
                              const wafer_shape *shape, const wafer_layout *weight,
                              const uint32_t *const place[2], const void *elements,
                              uint32_t *words) {
  packing p = {.pairs = pairs, .wavelets = wavelets_of(stored), .words = words};
  size_t bytes = wafer_dtype_bytes(stored);
  for (uint32_t d = 0; d < 2; d++) {
    p.parts[d] = weight->rows[d] * weight->cols[d];
    p.length[d] = (uint32_t)((shape->dims[d] + p.parts[d] - 1) / p.parts[d]);
  }
  while ((p.length[1] - 1) >> p.bits) p.bits++;
  p.count = calloc((size_t)p.parts[0] * p.parts[1], sizeof *p.count);
  if (!p.count) return WAFER_NO_MEMORY;
  begin(&p);
  bool fits = true;
  for (uint32_t r = 0; r < shape->dims[0]; r++)
    for (uint32_t c = 0; c < shape->dims[1]; c++) {
      uint32_t bits = 0;
      memcpy(&bits, (const char *)elements + ((size_t)r * (size_t)shape->dims[1] + c) * bytes,
             bytes);
      if (bits << (32 - 8 * bytes + 1)) /* zeros of both signs stay behind */
        fits &= put(&p, place[0] ? place[0][r] : r, place[1] ? place[1][c] : c, bits);
    }
  free(p.count);
  return fits ? WAFER_OK : WAFER_BAD_INPUT;
}
