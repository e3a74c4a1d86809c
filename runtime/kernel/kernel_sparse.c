/* Sparse weights that are multiplied with: how their tiles lie, and what that takes.
 *
 * A tile lies as pairs of position and value (wafer/pairs.h), and takes the room of these, where
 * the family of the anchor says that they take fewer cycles; else dense, and its zeros are
 * multiplied. The core with most pairs decides; rows and columns are dealt so that it has few more
 * than others (wafer/deal.h). Where not even pairs have room they pass in slices, each with lists
 * of its own. */
#include <math.h>

#include "kernel_family.h"

#define DEVIATIONS 3.5 /* of the largest of some thousand Poisson numbers from their mean */

static uint64_t parts_of(const kernel_view *k, uint32_t value, uint32_t d) {
  int loop = k->map[value].loop[d];
  return loop < 0 ? 1 : (uint64_t)k->split->rows[loop] * k->split->cols[loop];
}

/* Non-zeros of the fullest part when the lines of dim d are dealt: its share of the lines. */
static double fullest_part(const kernel_view *k, uint32_t value, uint32_t d) {
  double lines = (double)kernel_type(k, value)->shape.dims[d], most = (double)k->tile[value][d];
  double line = (double)k->body->sparsity[value].nonzeros / lines;
  return most > 1 ? most * line : line + DEVIATIONS * sqrt(line);
}

/* What is expected of the fullest tile before its pairs are counted. Dealt both ways it has a
 * deviation more than the mean; not dealt, as the largest of n Poisson numbers, sqrt(2 ln n). */
static double expected_pairs(const kernel_view *k, uint32_t value, double tiles) {
  const wafer_sparsity *is = &k->body->sparsity[value];
  double mean = (double)is->nonzeros / tiles;
  if (!is->order) return mean + sqrt(mean * 2 * log(tiles > 1 ? tiles : 1)) + 1;
  uint64_t rows = parts_of(k, value, 0), cols = parts_of(k, value, 1);
  double by_row = fullest_part(k, value, 0) / (double)cols,
         by_col = fullest_part(k, value, 1) / (double)rows;
  double most = rows == 1 ? by_col : cols == 1 ? by_row : by_row > by_col ? by_row : by_col;
  return most + (rows > 1 && cols > 1 ? sqrt(mean) : 0) + 1;
}

/* Sums of a tile for which a pair of value 0 is expected. */
static double expected_empty(const kernel_view *k, uint32_t value, double tiles) {
  uint32_t kept = wafer_body_kept(k->body, value);
  double sums = (double)k->tile[value][kept];
  return sums * exp(-(double)k->body->sparsity[value].nonzeros / tiles / sums);
}

/* Pairs of the fullest tile. */
static uint64_t pairs_of(const kernel_view *k, uint32_t value, uint32_t kinds) {
  const wafer_sparsity *is = &k->body->sparsity[value];
  uint64_t tile = kernel_tile_elements(k, value);
  int64_t all = 0;
  (void)wafer_shape_elements(&kernel_type(k, value)->shape, &all);
  if (is->fullest || all < 1 || tile < 1) return kinds > 1 ? is->filled : is->fullest;
  double tiles = (double)all / (double)tile, pairs = expected_pairs(k, value, tiles);
  uint64_t most = tile < is->nonzeros ? tile : is->nonzeros;
  if (pairs > (double)most) pairs = (double)most;
  if (kinds > 1) pairs += expected_empty(k, value, tiles);
  return pairs < (double)tile ? (uint64_t)pairs : tile;
}

/* And how they lie. */
static wafer_pairs form_of(const kernel_view *k, uint32_t value, uint32_t lists, uint32_t kinds) {
  const int64_t *tile = k->tile[value];
  uint64_t rows = (uint64_t)tile[0], cols = (uint64_t)tile[1], taps = 1;
  uint64_t pairs = pairs_of(k, value, kinds);
  if (kinds > 1 && !pairs) return (wafer_pairs){0};
  for (uint32_t d = 2; d < kernel_type(k, value)->shape.rank; d++) taps *= (uint64_t)tile[d];
  if (k->body->input_depth[value] == 0)
    return wafer_pairs_passing(kernel_dtype(k, value), pairs, taps, lists);
  wafer_pairs form = wafer_pairs_of(kernel_dtype(k, value), pairs, rows, cols, taps, lists, kinds);
  uint32_t group = wafer_body_group(k->body, value);
  if (form.lists && group) form = wafer_pairs_in_groups(&form, rows, cols, group);
  if (!form.lists || kinds == 1) return form;
  form.kept = wafer_body_kept(k->body, value);
  form.sums = (uint32_t)tile[form.kept];
  return form;
}

static uint64_t bytes_of(const wafer_pairs *pairs) {
  return kernel_mul(pairs->words, WAFER_WAVELET_BYTES);
}

/* In slices the lists of one after those of another. */
static uint64_t sparse_cycles(const kernel_view *k, uint32_t node, uint32_t i,
                              const wafer_pairs *pairs) {
  uint32_t value = kernel_node(k, node)->operands[i];
  uint64_t slices = k->body->input_depth[value] ? 1 : wafer_slices(bytes_of(pairs));
  wafer_pairs one = wafer_pairs_slice(pairs, kernel_dtype(k, value), slices);
  return kernel_mul(slices, k->family[node]->sparse(k, node, i, &one));
}

/* The operand of the anchor whose non-zeros alone can be multiplied with; UINT32_MAX: none. */
static uint32_t sparse_operand(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  for (uint32_t i = 2; i-- > 0 && kernel_is_anchor(k, node);)
    if (n->operands[i] < k->body->input_count && wafer_body_multiplies(k->body, n->operands[i]))
      return i;
  return UINT32_MAX;
}

/* Pairs may begin sums; and end them, where nothing is added behind and they are stored narrower.
 * In slices they only add. */
static uint32_t kinds_of(const kernel_view *k, uint32_t node, uint32_t value) {
  uint32_t result = kernel_result(k, node);
  if (k->body->input_depth[value] == 0) return 1;
  bool narrow = kernel_dtype(k, result) != kernel_sums(k, result);
  return narrow && kernel_node(k, node)->operand_count < 3 && !kernel_reduce_loops(k, 1) ? 4 : 2;
}

/* The form with so many lists and kinds, where it is faster than what was looked at before. */
static void weigh_form(const kernel_view *k, uint32_t node, uint32_t i, uint32_t lists,
                       uint32_t kinds, wafer_weighing *out) {
  wafer_pairs pairs = form_of(k, kernel_node(k, node)->operands[i], lists, kinds);
  if (!pairs.lists) return;
  uint64_t cycles = sparse_cycles(k, node, i, &pairs);
  uint64_t spared = kernel_sums_cycles(k, node, 1) - kernel_sums_cycles(k, node, kinds);
  if (out->pairs.lists && cycles + out->spared >= out->sparse_cycles + spared) return;
  out->pairs = pairs;
  out->sparse_cycles = cycles;
  out->spared = spared;
}

/* What the anchor's operand i takes either way. The last list begins late, and of many lists each
 * has its ends of taps: where it does not pay there is one less. Nor do pairs that begin and end
 * sums always: they end taps once more for each kind. False: its pairs have no room. */
static bool weigh(const kernel_view *k, uint32_t node, uint32_t i, wafer_weighing *out) {
  uint32_t value = kernel_node(k, node)->operands[i], kinds = kinds_of(k, node, value);
  uint32_t most = WAFER_PAIR_LISTS - !k->body->sparsity[value].late_list;
  *out = (wafer_weighing){.dense_cycles = k->family[node]->dense(k, node)};
  for (uint32_t few = 0; few < 2 && (!few || out->pairs.lists == WAFER_PAIR_LISTS); few++)
    for (uint32_t n = 1; n <= kinds; n *= 2) weigh_form(k, node, i, most - few, n, out);
  return out->pairs.lists;
}

static bool pays(const wafer_weighing *w) {
  return w->sparse_cycles < w->dense_cycles + w->spared;
}

void kernel_sparse_split(kernel_view *k) {
  uint32_t anchor = k->body->anchor;
  k->sparse = k->machine && k->body->sparsity ? sparse_operand(k, anchor) : UINT32_MAX;
  if (k->sparse == UINT32_MAX) return;
  if (!weigh(k, anchor, k->sparse, &k->weighed) || !pays(&k->weighed)) k->sparse = UINT32_MAX;
}

uint64_t kernel_multiply(const kernel_view *k, uint32_t node) {
  if (k->sparse != UINT32_MAX && kernel_is_anchor(k, node)) return k->weighed.sparse_cycles;
  return k->family[node]->dense(k, node);
}

/* ---- how what pairs read lies ---- */

static int stepped_dim(const wafer_kernel_body *body, uint32_t weight, uint32_t rank) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  if (rank != anchor->type.shape.rank || rank < 2) return -1;
  if (wafer_op_is(anchor->op, WAFER_TRAIT_WINDOW)) return 1;
  return (int)rank - (weight ? 1 : 2);
}

int wafer_pairs_sums_dim(const wafer_kernel_body *body, uint32_t weight, uint32_t value) {
  return stepped_dim(body, weight, wafer_body_type(body, value)->shape.rank);
}

int wafer_pairs_dim(const wafer_kernel_body *body, uint32_t weight, uint32_t value) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  wafer_dtype sums = wafer_sum_dtype(anchor->type.dtype);
  bool wide = value >= body->input_count &&
              wafer_dtype_bytes(wafer_body_dtype(body, value)) == wafer_dtype_bytes(sums);
  if (!wide && value != anchor->operands[1 - weight]) return -1;
  return wafer_pairs_sums_dim(body, weight, value);
}

uint32_t wafer_pairs_phase(const wafer_machine *machine, const wafer_kernel_body *body,
                           const wafer_split *split) {
  kernel_view k;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  const kernel_family *family = k.family[body->anchor];
  return family->phase ? family->phase(&k, body->anchor) : 0;
}

uint64_t kernel_apart_bytes(const kernel_view *k, uint32_t value, int dim, const int64_t *extent,
                            uint64_t element) {
  const wafer_node *anchor = kernel_node(k, k->body->anchor);
  bool all = wafer_op_is(anchor->op, WAFER_TRAIT_WINDOW) || k->sparse == 1;
  uint64_t inside = element, around = 1;
  for (int d = 0; d < (int)kernel_type(k, value)->shape.rank; d++) {
    uint64_t *part = d != dim && (all || d > dim) ? &inside : &around;
    *part = kernel_mul(*part, (uint64_t)extent[d]);
  }
  return kernel_mul(dim < 0 ? inside : wafer_pairs_stride(inside, element), around);
}

#define ROOM_BEYOND 8 /* more room, by one part in these, for pairs that are not counted */

/* A weight of zeros alone has none to count: its fullest tile is known to be empty. */
static bool is_counted(const wafer_sparsity *is) {
  return is->fullest || !is->nonzeros;
}

bool kernel_pairs_bytes(const kernel_view *k, uint32_t value, uint64_t *bytes) {
  if (k->sparse == UINT32_MAX || kernel_node(k, k->body->anchor)->operands[k->sparse] != value)
    return false;
  const wafer_sparsity *is = &k->body->sparsity[value];
  if (is->uneven && !is_counted(is)) return false;
  uint64_t all = kernel_mul(kernel_tile_elements(k, value), k->bytes[value]);
  *bytes = bytes_of(&k->weighed.pairs);
  if (!is_counted(is)) *bytes = kernel_add(*bytes, *bytes / ROOM_BEYOND);
  if (*bytes > all) *bytes = all;
  return true;
}

#define AXPY_BYTES 48 /* with its descriptors, and joining its microthread */
#define LOOP_BYTES 96 /* over taps: scalar instructions */

uint64_t kernel_pairs_code(const kernel_view *k) {
  if (k->sparse == UINT32_MAX) return 0;
  const wafer_pairs *pairs = &k->weighed.pairs;
  bool loops = pairs->taps > 1;
  return (uint64_t)(pairs->kinds - 1) *
         (pairs->lists * (1u + loops) * AXPY_BYTES + (loops ? LOOP_BYTES : 0));
}

uint64_t wafer_kernel_input_bytes(const wafer_machine *machine, const wafer_kernel_body *body,
                                  const wafer_split *split, uint32_t input) {
  kernel_view k;
  uint64_t bytes;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  if (kernel_pairs_bytes(&k, input, &bytes)) return bytes;
  return kernel_mul(kernel_tile_elements(&k, input), k.bytes[input]);
}

bool wafer_kernel_weigh(const wafer_machine *machine, const wafer_kernel_body *body,
                        const wafer_split *split, uint32_t input, wafer_weighing *out) {
  kernel_view k;
  if (!wafer_body_multiplies(body, input)) return false;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  uint32_t i = sparse_operand(&k, body->anchor);
  return body->nodes[body->anchor].operands[i] == input && weigh(&k, body->anchor, i, out);
}

wafer_pairs wafer_kernel_pairs(const wafer_machine *machine, const wafer_kernel_body *body,
                               const wafer_split *split, uint32_t input) {
  wafer_weighing w;
  bool known = wafer_body_multiplies(body, input) && body->sparsity[input].fullest > 0;
  bool sparse = known && wafer_kernel_weigh(machine, body, split, input, &w) && pays(&w);
  return sparse ? w.pairs : (wafer_pairs){0};
}
