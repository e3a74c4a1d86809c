/* What passes to a kernel's cores in slices.
 *
 * Cores along a loop that an operand does not depend on need the same part of it. Where its depth
 * is 0 each of them keeps a share of that part instead, cut along a further loop that is whole on
 * every core: the operand lies over all of the rectangle. The kernel goes along that loop, and each
 * share is broadcast, in slices of WAFER_SLICE_BYTES through two buffers, when its turn comes:
 * first along the columns to where its row of cores needs it, then along the rows. So a matrix
 * product is SUMMA (van de Geijn, Watts 1997): where the summed loop is whole both factors pass,
 * sums stay; where it is cut, as the tokens of a weight's gradient are, one factor stays, the other
 * passes along a dim of the result, partial sums go down a chain and results leave, slice by slice.
 *
 * All that passes goes along the same loop, weights of depth 0 too: a slice is there once. Where
 * there is no such loop, the operand lies on each core as a whole. Passing and arithmetic do not
 * overlap; a slice costs a task and an instruction besides its words. */
#include "kernel_family.h"

#define NONE UINT32_MAX

static bool is_operand(const wafer_node *n, uint32_t value) {
  for (uint32_t i = 0; i < n->operand_count; i++)
    if (n->operands[i] == value) return true;
  return false;
}

bool wafer_body_can_pass(const wafer_kernel_body *body, uint32_t input) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  const kernel_family *family = kernel_family_of(body, body->anchor);
  uint32_t uses = 0, operand = 0;
  for (uint32_t node = 0; node < body->node_count; node++)
    for (uint32_t i = 0; i < body->nodes[node].operand_count; i++) {
      if (body->nodes[node].operands[i] != input) continue;
      operand = i;
      uses += 1 + (node != body->anchor);
    }
  return uses == 1 && !body->input_is_weight[input] && family->passes &&
         family->passes(anchor, operand);
}

bool wafer_body_passes(const wafer_kernel_body *body, uint32_t input) {
  return !body->input_is_weight[input] && body->input_depth[input] == 0 &&
         wafer_body_can_pass(body, input);
}

/* ---- along which loop ---- */

static uint32_t dim_of(const kernel_view *k, uint32_t value, uint32_t loop) {
  for (uint32_t d = 0; d < kernel_type(k, value)->shape.rank; d++)
    if (k->map[value].loop[d] == (int)loop) return d;
  return NONE;
}

/* Of the loops in one direction that the value does not depend on, the one with most parts. */
static uint32_t free_loop(const kernel_view *k, const uint32_t *parts, uint32_t value) {
  uint32_t best = NONE;
  for (uint32_t l = 0; l < k->loops.count; l++)
    if (parts[l] > 1 && dim_of(k, value, l) == NONE && (best == NONE || parts[l] > parts[best]))
      best = l;
  return best;
}

/* Cores that need the same part of a value that passes. */
static uint64_t sharers(const kernel_view *k, const wafer_split *split, uint32_t value) {
  uint32_t row = free_loop(k, split->rows, value), col = free_loop(k, split->cols, value);
  return (uint64_t)(row == NONE ? 1 : split->rows[row]) * (col == NONE ? 1 : split->cols[col]);
}

/* Whether the loop goes through all that passes. */
static bool serves(const kernel_view *k, const wafer_split *split, uint32_t loop) {
  const wafer_kernel_body *body = k->body;
  const wafer_node *anchor = &body->nodes[body->anchor];
  if (split->rows[loop] > 1 || split->cols[loop] > 1 || k->loops.extent[loop] < 2) return false;
  for (uint32_t i = 0; i < body->input_count; i++) {
    bool slices = body->input_is_weight[i] && body->input_depth[i] == 0 && is_operand(anchor, i);
    if ((slices || (k->passes[i] && sharers(k, split, i) > 1)) && dim_of(k, i, loop) == NONE)
      return false;
  }
  return true;
}

/* The first that is long enough for every core to have a share, or the longest; results are
 * complete slice by slice when it is none of the summed loops, which come last. */
static uint32_t pass_loop(const kernel_view *k, const wafer_split *split) {
  uint64_t most = 1;
  uint32_t best = NONE;
  for (uint32_t i = 0; i < k->body->input_count; i++)
    if (k->passes[i] && sharers(k, split, i) > most) most = sharers(k, split, i);
  if (most == 1) return NONE;
  for (uint32_t l = 0; l < k->loops.count; l++) {
    if (!serves(k, split, l)) continue;
    if (best == NONE || k->loops.extent[l] > k->loops.extent[best]) best = l;
    if ((uint64_t)k->loops.extent[best] >= most) break;
  }
  return best;
}

static void share(const kernel_view *k, const wafer_split *split, uint32_t value, uint32_t loop,
                  wafer_layout *layout) {
  uint32_t d = dim_of(k, value, loop);
  uint32_t row = free_loop(k, split->rows, value), col = free_loop(k, split->cols, value);
  if (d == NONE) return;
  if (row != NONE) {
    layout->rows[d] = split->rows[row];
    layout->row_stride[d] = kernel_stride_of(k, split->rows, row);
  }
  if (col != NONE) {
    layout->cols[d] = split->cols[col];
    layout->col_stride[d] = kernel_stride_of(k, split->cols, col);
  }
}

void kernel_share(const kernel_view *k, const wafer_split *split, uint32_t value,
                  wafer_layout *layout) {
  if (value >= k->body->input_count || !k->passes[value]) return;
  uint32_t loop = pass_loop(k, split);
  if (loop != NONE) share(k, split, value, loop, layout);
}

void kernel_slices_open(kernel_view *k) {
  k->any_passes = false;
  for (uint32_t i = 0; i < k->body->input_count; i++) {
    k->passes[i] = wafer_body_passes(k->body, i);
    k->any_passes |= k->passes[i];
  }
}

void kernel_slices_split(kernel_view *k) {
  k->pass_loop = k->any_passes ? pass_loop(k, k->split) : NONE;
  for (uint32_t i = 0; i < k->body->input_count && k->any_passes; i++) {
    const wafer_shape *shape = &kernel_type(k, i)->shape;
    uint32_t d = k->pass_loop == NONE ? NONE : dim_of(k, i, k->pass_loop);
    k->share[i] = k->elements[i];
    if (!k->passes[i] || d == NONE || k->tile[i][d] < 1) continue;
    int64_t parts = (int64_t)sharers(k, k->split, i);
    k->share[i] = kernel_mul(k->elements[i] / (uint64_t)k->tile[i][d],
                             (uint64_t)kernel_ceil(shape->dims[d], parts));
  }
}

/* ---- what it costs ---- */

static uint64_t bytes_of(const kernel_view *k, uint32_t value) {
  return kernel_mul(k->elements[value], k->bytes[value]);
}

bool kernel_shared(const kernel_view *k, uint32_t value) {
  return value < k->body->input_count && k->passes[value] && k->share[value] < k->elements[value];
}

/* A pass in one direction: the words go through every link, and every core that has a share begins
 * a slice. */
static uint64_t one_pass(const kernel_view *k, const uint32_t *parts, uint32_t loop,
                         uint64_t bytes) {
  const wafer_machine *m = k->machine;
  uint64_t slices = wafer_slices(bytes);
  if (loop == NONE) return 0;
  if (slices < parts[loop]) slices = parts[loop];
  uint64_t each =
      m->task_switch_cycles + m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles;
  uint64_t words = bytes / WAFER_WAVELET_BYTES + (bytes % WAFER_WAVELET_BYTES != 0);
  return kernel_add(kernel_mul(slices, each), kernel_multicast(k, parts, loop, words));
}

uint64_t kernel_pass_cycles(const kernel_view *k) {
  uint64_t cycles = 0;
  for (uint32_t i = 0; i < k->body->input_count && k->any_passes; i++) {
    if (!kernel_shared(k, i)) continue;
    uint32_t row = free_loop(k, k->split->rows, i), col = free_loop(k, k->split->cols, i);
    uint64_t bytes = bytes_of(k, i), along = col == NONE ? 1 : k->split->cols[col];
    cycles =
        kernel_add(cycles, one_pass(k, k->split->rows, row, bytes / along + (bytes % along != 0)));
    cycles = kernel_add(cycles, one_pass(k, k->split->cols, col, bytes));
  }
  return cycles;
}

uint64_t kernel_passing_bytes(const kernel_view *k, uint32_t value) {
  uint64_t all = bytes_of(k, value), slice = all < WAFER_SLICE_BYTES ? all : WAFER_SLICE_BYTES;
  if (!kernel_shared(k, value)) return all;
  return kernel_add(kernel_mul(k->share[value], k->bytes[value]), 2 * slice);
}

/* Sums that are not complete before all slices have passed wait for them. */
bool kernel_sums_wait(const kernel_view *k) {
  return k->any_passes && k->pass_loop != NONE && k->pass_loop >= k->loops.parallel;
}
