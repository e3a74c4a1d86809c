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

/* `ends`: of taps, kind by kind. */
static uint64_t words_of(wafer_dtype stored, uint64_t lists, uint64_t pairs, uint64_t ends) {
  return lists * ((pairs + lists - 1) / lists * wavelets_of(stored) + ends);
}

wafer_pairs wafer_pairs_of(wafer_dtype stored, uint64_t pairs, uint64_t rows, uint64_t cols,
                           uint64_t taps, uint32_t most, uint32_t kinds) {
  uint64_t lists = taps ? pairs / (LEAST_LENGTH * taps) : 0;
  uint64_t room = rows * cols * taps * wafer_dtype_bytes(stored) / WAFER_WAVELET_BYTES;
  if (room > UINT32_MAX) room = UINT32_MAX;
  if (cols == 0 || rows << bits_of(cols) > END_OF_PAIRS) return (wafer_pairs){0};
  if (lists > most) lists = most;
  if (lists == 0) lists = 1;
  while (lists > 1 && words_of(stored, lists, pairs, taps * kinds) > room) lists--;
  uint64_t words = words_of(stored, lists, pairs, taps * kinds);
  if (words > room) return (wafer_pairs){0};
  return (wafer_pairs){.lists = (uint32_t)lists,
                       .length = (uint32_t)((pairs + lists - 1) / lists),
                       .taps = (uint32_t)taps,
                       .words = (uint32_t)words,
                       .kinds = kinds,
                       .columns = (uint32_t)cols};
}

/* Parts that are no whole groups and no parts of one begin anywhere in a group. */
wafer_pairs wafer_pairs_in_groups(const wafer_pairs *pairs, uint64_t rows, uint64_t cols,
                                  uint64_t group) {
  bool whole = rows % group == 0 || group % rows == 0;
  uint64_t columns = cols * ((rows + group - (whole ? 1 : 2)) / group + !whole);
  wafer_pairs own = *pairs;
  if (columns > END_OF_PAIRS || rows << bits_of(columns) > END_OF_PAIRS) return (wafer_pairs){0};
  own.columns = (uint32_t)columns;
  own.group = (uint32_t)group;
  return own;
}

static wafer_pairs with_words(wafer_dtype stored, wafer_pairs pairs) {
  pairs.words = pairs.lists * (pairs.length * wavelets_of(stored) + pairs.taps);
  return pairs;
}

wafer_pairs wafer_pairs_passing(wafer_dtype stored, uint64_t pairs, uint64_t taps, uint32_t lists) {
  uint64_t length = (pairs + lists - 1) / lists;
  if (length > UINT32_MAX / 8 || taps > UINT32_MAX / 8) return (wafer_pairs){0};
  return with_words(stored, (wafer_pairs){lists, (uint32_t)length, (uint32_t)taps, .kinds = 1});
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

bool wafer_body_factor(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  if (anchor->op == WAFER_OP_conv) return anchor->operands[1] == input;
  return anchor->op == WAFER_OP_matmul && body->inputs[input].shape.rank == 2 &&
         (anchor->operands[0] == input || anchor->operands[1] == input);
}

uint32_t wafer_body_group(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  const wafer_shape *shape = &body->inputs[input].shape;
  if (anchor->op != WAFER_OP_conv || anchor->operands[1] != input) return 0;
  int64_t groups = wafer_attr_int(&anchor->attrs, WAFER_ATTR_group);
  bool depthwise = groups == shape->dims[0] && shape->dims[1] == 1;
  return groups > 1 && !depthwise ? (uint32_t)(shape->dims[0] / groups) : 0;
}

uint32_t wafer_body_kept(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  return anchor->op != WAFER_OP_conv && anchor->operands[1] == input;
}

bool wafer_body_multiplies(const wafer_kernel_body *body, uint32_t input) {
  uint32_t uses = 0;
  if (!body->sparsity || !body->sparsity[input].sparse) return false;
  for (uint32_t n = 0; n < body->node_count; n++)
    for (uint32_t i = 0; i < body->nodes[n].operand_count; i++)
      uses += body->nodes[n].operands[i] == input;
  return uses == 1 && wafer_body_factor(body, input);
}

#define TAP_SCALARS 3 /* of the loop over taps: base, counter, branch */

/* Until the last list, which begins `late`, is through: the others finish before it, so where they
 * keep the arithmetic busy it then goes on alone with what they were ahead. A list takes `alone`,
 * of which `runs` are arithmetic. */
static uint64_t late_cycles(uint64_t alone, uint64_t runs, uint64_t late) {
  uint64_t others = (WAFER_PAIR_LISTS - 1) * runs, all = WAFER_PAIR_LISTS * runs;
  if (others < alone) others = alone;
  if (all < alone) all = alone;
  uint64_t ahead = others ? (all - alone) * (late < others ? late : others) / others : 0;
  return late + all - ahead;
}

/* A list's pair takes its wavelets, the set-up and its runs; lists compute one at a time, and all
 * wavelets pass one ramp. The last list begins behind that which clears the sums. Between
 * taps, and in the end, control meets their microthreads: what it does before is
 * hidden where there is one list and it has a pair of the tap, and not where several lists end one
 * after the other. Of another pass it loads the descriptors anew, and of each kind of pairs. Such
 * as begin sums read nothing that could collide. */
uint64_t wafer_pairs_cycles(const wafer_machine *m, const wafer_pairs *pairs, wafer_dtype stored,
                            const wafer_run *run) {
  bool along = run->length >= run->rows;
  uint64_t inner = along ? run->length : run->rows, outer = along ? run->rows : run->length;
  uint64_t one = outer * wafer_machine_cycles(m, WAFER_RATE_fma, stored, inner);
  uint64_t collisions = m->banks > 1 ? run->collisions : 0;
  uint64_t setup = m->vector_setup_cycles > 2 ? m->vector_setup_cycles - 2 : 0;
  uint64_t before = wavelets_of(stored) + setup;
  uint64_t begin = pairs->kinds > 1 ? pairs->sums / pairs->lists : 0;
  uint64_t adds = pairs->length > begin ? pairs->length - begin : 0;
  uint64_t runs = pairs->length * one;
  runs += (adds * one * collisions + WAFER_STEPS - 1) / WAFER_STEPS;
  uint64_t list = pairs->length * before + runs, all = pairs->lists * runs;
  uint64_t load = m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles;
  if (pairs->kinds == 1 && pairs->lists == WAFER_PAIR_LISTS) list = late_cycles(list, runs, load);
  uint64_t ramp = (uint64_t)pairs->lists * pairs->length * wavelets_of(stored);
  if (all < ramp) all = ramp;
  uint64_t tap = before + pairs->lists, control = m->vector_setup_cycles + TAP_SCALARS;
  uint64_t ends = (uint64_t)pairs->taps * pairs->kinds;
  uint64_t seen = pairs->taps - 1; /* taps for which control is waited for, not for each kind */
  if (pairs->lists == 1) seen -= pairs->length < seen ? pairs->length : seen;
  uint64_t pass =
      (list > all ? list : all) + before + pairs->lists + (ends - 1) * tap + seen * control;
  if (pairs->kinds > 1) pass += pairs->kinds * load;
  return run->times * pass + (run->times - 1) * load;
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
  const wafer_shape *shape;
  const uint32_t *const *place;
  size_t bytes; /* of an element */
  const char *elements;
  uint32_t wavelets, parts[2], length[2], bits; /* bits: that count the columns of positions */
  uint64_t lists, each;                         /* of all tiles; words of one */
  uint32_t *count, *at; /* pairs of each tile so far; of each list, words so far */
  uint32_t *most;       /* pairs of each sum of each part of the other dim */
  uint32_t *met;        /* of these, so far */
  uint32_t *words;
} packing;

static packing packing_of(const wafer_shape *shape, const wafer_layout *weight,
                          const uint32_t *const place[2], size_t bytes, const void *elements) {
  packing p = {.shape = shape, .place = place, .bytes = bytes, .elements = elements};
  for (uint32_t d = 0; d < 2; d++) {
    p.parts[d] = weight->rows[d] * weight->cols[d];
    p.length[d] = (uint32_t)((shape->dims[d] + p.parts[d] - 1) / p.parts[d]);
  }
  return p;
}

/* Where row r, or column r, comes. */
static uint32_t placed(const packing *p, uint32_t d, uint32_t r) {
  return p->place[d] ? p->place[d][r] : r;
}

static uint64_t tile_of(const packing *p, uint32_t row, uint32_t col) {
  return (uint64_t)(row / p->length[0]) * p->parts[1] + col / p->length[1];
}

/* The bits of an element, but 0 for zeros of both signs. */
static uint32_t bits_at(const packing *p, uint64_t element) {
  uint32_t bits = 0;
  memcpy(&bits, p->elements + element * p->bytes, p->bytes);
  return bits << (32 - 8 * p->bytes + 1) ? bits : 0;
}

/* ---- sums ---- */

static uint64_t taps_of(const wafer_shape *shape) {
  uint64_t taps = 1;
  for (uint32_t d = 2; d < shape->rank; d++) taps *= (uint64_t)shape->dims[d];
  return taps;
}

/* Sums have a number for each part of the other dim. */
static uint64_t sum_of(const packing *p, uint32_t kept, uint32_t row, uint32_t col) {
  uint32_t other = kept ? row / p->length[0] : col / p->length[1];
  return (uint64_t)other * (uint64_t)p->shape->dims[kept] + (kept ? col : row);
}

static uint32_t *count_sums(const packing *p, uint32_t kept) {
  uint64_t taps = taps_of(p->shape), element = 0;
  uint32_t *count =
      calloc((size_t)p->parts[1 - kept] * (size_t)p->shape->dims[kept] + 1, sizeof *count);
  for (uint32_t r = 0; count && r < p->shape->dims[0]; r++)
    for (uint32_t c = 0; c < p->shape->dims[1]; c++) {
      uint32_t *here = &count[sum_of(p, kept, placed(p, 0, r), placed(p, 1, c))];
      for (uint64_t tap = 0; tap < taps; tap++) *here += bits_at(p, element++) != 0;
    }
  return count;
}

/* Of each tile, of its sums one pair at least; NULL: out of memory. */
static uint32_t *count_filled(const packing *p, uint32_t kept, const uint32_t *sums) {
  uint32_t *count = calloc((size_t)p->parts[0] * p->parts[1], sizeof *count);
  for (uint32_t other = 0; count && other < p->parts[1 - kept]; other++)
    for (uint32_t at = 0; at < p->shape->dims[kept]; at++) {
      uint32_t across = other * p->length[1 - kept];
      uint32_t here = sums[(uint64_t)other * (uint64_t)p->shape->dims[kept] + at];
      if (across >= p->shape->dims[1 - kept]) continue; /* nothing is multiplied there */
      count[tile_of(p, kept ? across : at, kept ? at : across)] += here ? here : 1;
    }
  return count;
}

uint64_t wafer_pairs_filled(wafer_dtype dtype, const wafer_shape *shape, const wafer_layout *weight,
                            const uint32_t *const place[2], uint32_t kept, const void *elements) {
  packing p = packing_of(shape, weight, place, wafer_dtype_bytes(dtype), elements);
  uint32_t *sums = count_sums(&p, kept), *count = sums ? count_filled(&p, kept, sums) : NULL;
  uint64_t most = 0;
  for (uint64_t t = 0; count && t < (uint64_t)p.parts[0] * p.parts[1]; t++)
    if (count[t] > most) most = count[t];
  free(sums);
  free(count);
  return most;
}

/* ---- lists ---- */

/* The channels of a group follow those of the groups before it in the tile. */
static uint32_t index_of(const packing *p, uint32_t row, uint32_t col) {
  uint32_t in_tile = row % p->length[0], group = p->pairs->group, column = col % p->length[1];
  if (group) column += (row / group - (row - in_tile) / group) * p->length[1];
  return in_tile << p->bits | column;
}

/* Lists take turns. False: they have no room. */
static bool put(packing *p, uint32_t row, uint32_t col, uint32_t bits) {
  uint64_t tile = tile_of(p, row, col);
  uint32_t n = p->count[tile]++;
  uint64_t list = tile * p->pairs->lists + n % p->pairs->lists;
  if (n / p->pairs->lists >= p->pairs->length) return false;
  uint32_t index = index_of(p, row, col);
  uint32_t *to = p->words + list * p->each + p->at[list];
  to[0] = p->wavelets == 1 ? index << 16 | bits : index;
  if (p->wavelets == 2) to[1] = bits;
  p->at[list] += p->wavelets;
  return true;
}

/* Where pairs begin sums, the first of a tile comes so often that its lists are full then. */
static bool put_first(packing *p, const uint32_t *filled, uint32_t row, uint32_t col,
                      uint32_t bits) {
  uint64_t tile = tile_of(p, row, col);
  uint32_t room = p->pairs->lists * p->pairs->length;
  bool fits = put(p, row, col, bits);
  if (p->count[tile] > 1 || filled[tile] > room) return fits;
  for (uint32_t n = filled[tile]; n < room; n++) fits &= put(p, row, col, bits);
  return fits;
}

/* Of a tap; of the last one where the list ends, behind pairs of value 0. */
static void end_tap(packing *p, bool last) {
  for (uint64_t l = 0; l < p->lists; l++)
    p->words[l * p->each + (last ? p->each - 1 : p->at[l]++)] =
        p->wavelets == 1 ? END_OF_PAIRS << 16 : END_OF_PAIRS;
}

/* What pair `met` of `most` does. */
static wafer_pair_kind kind_of(uint32_t kinds, uint32_t met, uint32_t most) {
  if (kinds == 4 && most < 2) return WAFER_PAIR_alone;
  if (kinds > 1 && met == 0) return WAFER_PAIR_begins;
  return kinds == 4 && met + 1 == most ? WAFER_PAIR_ends : WAFER_PAIR_adds;
}

/* The pairs of that kind in a tap. `filled`: NULL where all add. */
static bool put_tap(packing *p, wafer_pair_kind kind, uint32_t tap, const uint32_t *filled) {
  const wafer_shape *shape = p->shape;
  uint32_t kept = p->pairs->kept;
  bool fits = true;
  for (uint32_t r = 0; r < shape->dims[0]; r++)
    for (uint32_t c = 0; c < shape->dims[1]; c++) {
      uint32_t row = placed(p, 0, r), col = placed(p, 1, c);
      uint32_t bits = bits_at(p, ((size_t)r * (size_t)shape->dims[1] + c) * p->pairs->taps + tap);
      if (!filled) {
        if (bits) fits &= put(p, row, col, bits);
        continue;
      }
      uint64_t sum = sum_of(p, kept, row, col);
      bool empty = !p->most[sum] && !tap && (kept ? row : col) % p->length[1 - kept] == 0;
      if (!bits && !empty) continue;
      uint32_t met = p->met[sum];
      p->met[sum] += bits != 0;
      if (kind_of(p->pairs->kinds, met, p->most[sum]) == kind)
        fits &= put_first(p, filled, row, col, bits);
    }
  return fits;
}

static bool put_kind(packing *p, uint32_t i, const uint32_t *filled) {
  bool fits = true;
  uint32_t kept = p->pairs->kept, taps = p->pairs->taps;
  if (filled)
    memset(p->met, 0, (size_t)p->parts[1 - kept] * (size_t)p->shape->dims[kept] * sizeof *p->met);
  for (uint32_t tap = 0; tap < taps; tap++) {
    fits &= put_tap(p, wafer_pairs_kind(p->pairs->kinds, i), tap, filled);
    end_tap(p, tap + 1 == taps && i + 1 == p->pairs->kinds);
  }
  return fits;
}

wafer_status wafer_pairs_pack(const wafer_pairs *pairs, wafer_dtype stored,
                              const wafer_shape *shape, const wafer_layout *weight,
                              const uint32_t *const place[2], const void *elements,
                              uint32_t *words) {
  packing p = packing_of(shape, weight, place, wafer_dtype_bytes(stored), elements);
  size_t tiles = (size_t)p.parts[0] * p.parts[1];
  bool begun = pairs->kinds > 1, fits = true;
  uint32_t *filled = NULL;
  p.pairs = pairs;
  p.words = words;
  p.bits = bits_of(pairs->columns);
  p.wavelets = wavelets_of(stored);
  p.lists = tiles * pairs->lists;
  p.each = pairs->words / pairs->lists;
  p.count = calloc(tiles, sizeof *p.count);
  p.at = calloc(p.lists, sizeof *p.at);
  if (begun) {
    p.most = count_sums(&p, pairs->kept);
    p.met = calloc((size_t)p.parts[1 - pairs->kept] * (size_t)shape->dims[pairs->kept] + 1,
                   sizeof *p.met);
    filled = p.most ? count_filled(&p, pairs->kept, p.most) : NULL;
  }
  memset(words, 0, p.lists * p.each * sizeof *words);
  bool room = p.count && p.at && (!begun || (p.met && filled));
  for (uint32_t i = 0; room && i < pairs->kinds; i++) fits &= put_kind(&p, i, filled);
  free(p.count);
  free(p.at);
  free(p.most);
  free(p.met);
  free(filled);
  return !room ? WAFER_NO_MEMORY : fits ? WAFER_OK : WAFER_BAD_INPUT;
}
