#include "wafer/pairs.h"

#include <stdlib.h>
#include <string.h>

#define END_OF_PAIRS 0xffffu
#define LEAST_LENGTH 3 /* pairs of a list, where there are more lists than one */

static uint32_t wavelets_of(wafer_dtype stored) {
  return wafer_dtype_bytes(stored) <= 2 ? 1 : 2;
}

static uint32_t bits_of(uint64_t columns) {
  uint32_t bits = 0;
  while (bits < 32 && (columns - 1) >> bits) bits++;
  return bits;
}

static uint64_t words_of(wafer_dtype stored, uint64_t lists, uint64_t pairs, uint64_t taps) {
  return lists * ((pairs + lists - 1) / lists * wavelets_of(stored) + taps);
}

wafer_pairs wafer_pairs_of(wafer_dtype stored, uint64_t pairs, uint64_t rows, uint64_t cols,
                           uint64_t taps, uint32_t most) {
  uint64_t lists = taps ? pairs / (LEAST_LENGTH * taps) : 0;
  uint64_t room = rows * cols * taps * wafer_dtype_bytes(stored) / WAFER_WAVELET_BYTES;
  if (room > UINT32_MAX) room = UINT32_MAX;
  if (cols == 0 || rows << bits_of(cols) > END_OF_PAIRS) return (wafer_pairs){0};
  if (lists > most) lists = most;
  if (lists == 0) lists = 1;
  while (lists > 1 && words_of(stored, lists, pairs, taps) > room) lists--;
  uint64_t words = words_of(stored, lists, pairs, taps);
  if (words > room) return (wafer_pairs){0};
  return (wafer_pairs){(uint32_t)lists, (uint32_t)((pairs + lists - 1) / lists), (uint32_t)taps,
                       (uint32_t)words};
}

static wafer_pairs with_words(wafer_dtype stored, wafer_pairs pairs) {
  pairs.words = pairs.lists * (pairs.length * wavelets_of(stored) + pairs.taps);
  return pairs;
}

wafer_pairs wafer_pairs_passing(wafer_dtype stored, uint64_t pairs, uint64_t taps, uint32_t lists) {
  uint64_t length = (pairs + lists - 1) / lists;
  if (length > UINT32_MAX / 8 || taps > UINT32_MAX / 8) return (wafer_pairs){0};
  return with_words(stored, (wafer_pairs){lists, (uint32_t)length, (uint32_t)taps, 0});
}

/* Pairs come tap by tap, so a slice has some of a few taps. */
wafer_pairs wafer_pairs_slice(const wafer_pairs *all, wafer_dtype stored, uint64_t slices) {
  wafer_pairs one = *all;
  if (slices < 2) return one;
  one.length = (uint32_t)((all->length + slices - 1) / slices);
  one.taps = (uint32_t)((all->taps + slices - 1) / slices);
  if (all->taps > 1 && one.taps < all->taps) one.taps++;
  return with_words(stored, one);
}

static bool takes_filters(const wafer_kernel_body *body, const wafer_node *anchor) {
  int64_t groups = wafer_attr_int(&anchor->attrs, WAFER_ATTR_group);
  int64_t channels = wafer_body_type(body, anchor->operands[0])->shape.dims[1];
  return groups == 1 || (groups == channels && groups == anchor->type.shape.dims[1]);
}

bool wafer_body_factor(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  if (anchor->op == WAFER_OP_conv) return anchor->operands[1] == input;
  return anchor->op == WAFER_OP_matmul && body->inputs[input].shape.rank == 2 &&
         (anchor->operands[0] == input || anchor->operands[1] == input);
}

bool wafer_body_multiplies(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  uint32_t uses = 0;
  if (!body->sparsity || !body->sparsity[input].sparse) return false;
  for (uint32_t n = 0; n < body->node_count; n++)
    for (uint32_t i = 0; i < body->nodes[n].operand_count; i++)
      uses += body->nodes[n].operands[i] == input;
  return uses == 1 && wafer_body_factor(body, input) &&
         (anchor->op != WAFER_OP_conv || takes_filters(body, anchor));
}

#define TAP_SCALARS 3 /* of the loop over taps: base, counter, branch */

/* A list's pair takes its wavelets, the set-up and its runs; lists compute one at a time, and all
 * wavelets pass one ramp. The last list begins behind that which clears the sums. Between
 * taps, and in the end, control meets their microthreads: what it does before is
 * hidden where there is one list and it has a pair of the tap, and not where several lists end one
 * after the other. Of another pass it loads the descriptors anew. */
uint64_t wafer_pairs_cycles(const wafer_machine *m, const wafer_pairs *pairs, wafer_dtype stored,
                            const wafer_run *run) {
  bool along = run->length >= run->rows;
  uint64_t inner = along ? run->length : run->rows, outer = along ? run->rows : run->length;
  uint64_t one = outer * wafer_machine_cycles(m, WAFER_RATE_fma, stored, inner);
  uint64_t collisions = m->banks > 1 ? run->collisions : 0;
  uint64_t setup = m->vector_setup_cycles > 2 ? m->vector_setup_cycles - 2 : 0;
  uint64_t before = wavelets_of(stored) + setup;
  uint64_t runs = pairs->length * one;
  runs += (runs * collisions + WAFER_STEPS - 1) / WAFER_STEPS;
  uint64_t list = pairs->length * before + runs, all = pairs->lists * runs;
  uint64_t last = pairs->lists < WAFER_PAIR_LISTS
                      ? 0
                      : m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles;
  list += last;
  uint64_t ramp = (uint64_t)pairs->lists * pairs->length * wavelets_of(stored);
  if (all < ramp) all = ramp;
  uint64_t tap = before + pairs->lists, control = m->vector_setup_cycles + TAP_SCALARS;
  uint64_t seen = pairs->taps - 1; /* taps for which control is waited for */
  if (pairs->lists == 1) seen -= pairs->length < seen ? pairs->length : seen;
  uint64_t pass =
      (list > all ? list : all) + before + pairs->lists + (pairs->taps - 1) * tap + seen * control;
  return run->times * pass +
         (run->times - 1) * (m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles);
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
  uint64_t lists, each;                         /* of all tiles; words of one */
  uint32_t *count, *at; /* pairs of each tile so far; of each list, words so far */
  uint32_t *words;
} packing;

/* Lists take turns. False: they have no room. */
static bool put(packing *p, uint32_t row, uint32_t col, uint32_t bits) {
  uint64_t tile = (uint64_t)(row / p->length[0]) * p->parts[1] + col / p->length[1];
  uint32_t n = p->count[tile]++;
  uint64_t list = tile * p->pairs->lists + n % p->pairs->lists;
  if (n / p->pairs->lists >= p->pairs->length) return false;
  uint32_t index = (row % p->length[0]) << p->bits | col % p->length[1];
  uint32_t *to = p->words + list * p->each + p->at[list];
  to[0] = p->wavelets == 1 ? index << 16 | bits : index;
  if (p->wavelets == 2) to[1] = bits;
  p->at[list] += p->wavelets;
  return true;
}

/* Of a tap; of the last one where the list ends, behind pairs of value 0. */
static void end_tap(packing *p, bool last) {
  for (uint64_t l = 0; l < p->lists; l++)
    p->words[l * p->each + (last ? p->each - 1 : p->at[l]++)] =
        p->wavelets == 1 ? END_OF_PAIRS << 16 : END_OF_PAIRS;
}

static bool put_tap(packing *p, const wafer_shape *shape, uint32_t tap,
                    const uint32_t *const place[2], size_t bytes, const char *elements) {
  bool fits = true;
  for (uint32_t r = 0; r < shape->dims[0]; r++)
    for (uint32_t c = 0; c < shape->dims[1]; c++) {
      size_t element = ((size_t)r * (size_t)shape->dims[1] + c) * p->pairs->taps + tap;
      uint32_t bits = 0;
      memcpy(&bits, elements + element * bytes, bytes);
      if (bits << (32 - 8 * bytes + 1)) /* zeros of both signs stay behind */
        fits &= put(p, place[0] ? place[0][r] : r, place[1] ? place[1][c] : c, bits);
    }
  end_tap(p, tap + 1 == p->pairs->taps);
  return fits;
}

wafer_status wafer_pairs_pack(const wafer_pairs *pairs, wafer_dtype stored,
                              const wafer_shape *shape, const wafer_layout *weight,
                              const uint32_t *const place[2], const void *elements,
                              uint32_t *words) {
  packing p = {.pairs = pairs, .wavelets = wavelets_of(stored), .words = words};
  for (uint32_t d = 0; d < 2; d++) {
    p.parts[d] = weight->rows[d] * weight->cols[d];
    p.length[d] = (uint32_t)((shape->dims[d] + p.parts[d] - 1) / p.parts[d]);
  }
  size_t tiles = (size_t)p.parts[0] * p.parts[1];
  p.bits = bits_of(p.length[1]);
  p.lists = tiles * pairs->lists;
  p.each = pairs->words / pairs->lists;
  p.count = calloc(tiles, sizeof *p.count);
  p.at = calloc(p.lists, sizeof *p.at);
  memset(words, 0, p.lists * p.each * sizeof *words);
  bool room = p.count && p.at, fits = true;
  for (uint32_t tap = 0; room && tap < pairs->taps; tap++)
    fits &= put_tap(&p, shape, tap, place, wafer_dtype_bytes(stored), elements);
  free(p.count);
  free(p.at);
  return !room ? WAFER_NO_MEMORY : fits ? WAFER_OK : WAFER_BAD_INPUT;
}
