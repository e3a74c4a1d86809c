/* Counting and pruning. Magnitudes of IEEE formats order as their bits without the sign do, so that
 * the smallest are found by two histograms of 16 bits each, whatever the number of elements. */
#include "sparsity.h"
#include "wafer/deal.h"
#include "wafer/pairs.h"

#include <stdlib.h>
#include <string.h>

#define BINS 65536u

static bool is_narrow(const wafer_weight *w) {
  return w->dtype == WAFER_DTYPE_f16 || w->dtype == WAFER_DTYPE_bf16;
}

/* The bits of an element without its sign, those of narrow ones in the upper half. */
static uint32_t magnitude(const wafer_weight *w, uint64_t i) {
  uint32_t wide;
  uint16_t narrow;
  if (is_narrow(w)) {
    memcpy(&narrow, (const char *)w->data + 2 * i, sizeof narrow);
    return (uint32_t)(narrow & 0x7fffu) << 16;
  }
  memcpy(&wide, (const char *)w->data + 4 * i, sizeof wide);
  return wide & 0x7fffffffu;
}

static uint64_t elements_of(const wafer_weight *w) {
  int64_t count = 0;
  (void)wafer_shape_elements(&w->shape, &count);
  return (uint64_t)count;
}

uint64_t sparsity_nonzeros(const wafer_weight *weight) {
  uint64_t count = 0, all = elements_of(weight);
  for (uint64_t i = 0; i < all; i++) count += magnitude(weight, i) != 0;
  return count;
}

/* The bin in which the `rank`-th smallest (from 0) lies; `rank` becomes its rank there. */
static uint32_t bin_of(const uint64_t *bins, uint64_t *rank) {
  uint32_t bin = 0;
  for (; *rank >= bins[bin]; bin++) *rank -= bins[bin];
  return bin;
}

void *sparsity_prune(wafer_arena *arena, const wafer_weight *weight, uint64_t zeros) {
  uint64_t all = elements_of(weight), rank = zeros;
  size_t bytes = wafer_dtype_bytes(weight->dtype);
  char *data = wafer_arena_copy(arena, weight->data, weight->bytes);
  uint64_t *bins = calloc(BINS, sizeof *bins);
  if (!data || !bins) return free(bins), NULL;
  if (zeros >= all) return free(bins), memset(data, 0, weight->bytes);
  for (uint64_t i = 0; i < all; i++) bins[magnitude(weight, i) >> 16]++;
  uint32_t upper = bin_of(bins, &rank), least;
  memset(bins, 0, BINS * sizeof *bins);
  for (uint64_t i = 0; i < all; i++) {
    uint32_t bits = magnitude(weight, i);
    if (bits >> 16 == upper) bins[bits & 0xffff]++;
  }
  least = upper << 16 | bin_of(bins, &rank); /* the smallest that stays; `rank` as large go */
  free(bins);
  for (uint64_t i = 0; i < all; i++) {
    uint32_t bits = magnitude(weight, i);
    if (bits < least || (bits == least && rank > 0)) {
      rank -= bits == least;
      memset(data + i * bytes, 0, bytes);
    }
  }
  return data;
}

/* ---- the fullest tile ---- */

bool sparsity_fullest(const wafer_weight *weight, const wafer_layout *layout, uint64_t *most) {
  uint32_t rank = weight->shape.rank;
  uint64_t parts[WAFER_MAX_RANK] = {1}, length[WAFER_MAX_RANK] = {1}, tiles = 1;
  int64_t at[WAFER_MAX_RANK] = {0};
  for (uint32_t d = 0; d < rank; d++) {
    parts[d] = (uint64_t)layout->rows[d] * layout->cols[d];
    length[d] = ((uint64_t)weight->shape.dims[d] + parts[d] - 1) / parts[d];
    tiles *= parts[d];
  }
  *most = 0;
  if (!weight->data || !rank) return true;
  uint64_t *count = calloc(tiles, sizeof *count);
  if (!count) return false;
  for (uint64_t i = 0, all = elements_of(weight), row = (uint64_t)weight->shape.dims[rank - 1];
       i < all; i += row) {
    uint64_t tile = 0;
    for (uint32_t d = 0; d + 1 < rank; d++) tile = tile * parts[d] + (uint64_t)at[d] / length[d];
    uint64_t *here = count + tile * parts[rank - 1];
    for (uint64_t j = 0; j < row; j++)
      if (magnitude(weight, i + j)) here[j / length[rank - 1]]++;
    for (uint32_t d = rank - 1; d-- > 0 && ++at[d] == weight->shape.dims[d];) at[d] = 0;
  }
  for (uint64_t t = 0; t < tiles; t++) *most = count[t] > *most ? count[t] : *most;
  free(count);
  return true;
}

static wafer_status no_memory(const wafer_ctx *ctx, const wafer_graph_kernel *kernel) {
  return wafer_fail(ctx->diag, kernel->loc, WAFER_NO_MEMORY, "no memory for kernel '%s'",
                    kernel->name);
}

/* Of a weight in its table, from 1. */
static uint32_t number_of(const wafer_weights *weights, const char *name) {
  uint32_t number = 1;
  while (strcmp(wafer_weights_at(weights, number - 1)->name, name)) number++;
  return number;
}

/* 0 of what is no factor, for it does not lie as pairs. */
static uint64_t filled_of(const wafer_kernel_body *body, uint32_t input, const wafer_weight *w,
                          const wafer_layout *layout, const uint32_t *const place[2]) {
  if (!w->data || !wafer_body_factor(body, input)) return 0;
  return wafer_pairs_filled(w->dtype, &w->shape, layout, place, wafer_body_kept(body, input),
                            w->data);
}

/* Dealing takes a while, and passes ask one after the other: the weight keeps the last answer. */
static bool count_tiles(const wafer_kernel_body *body, const wafer_split *split, uint32_t input,
                        wafer_weight *w, wafer_sparsity *is) {
  static const uint32_t *const natural[2];
  wafer_layout layout = wafer_kernel_input_layout(body, split, input);
  bool dealt = layout.order[0] || layout.order[1];
  if (!dealt || !w->data) {
    is->filled = filled_of(body, input, w, &layout, natural);
    return sparsity_fullest(w, &layout, &is->fullest);
  }
  uint32_t kept = wafer_body_kept(body, input);
  const uint32_t parts[2] = {layout.rows[0] * layout.cols[0], layout.rows[1] * layout.cols[1]};
  if (memcmp(w->dealt.parts, parts, sizeof parts) || w->dealt.kept != kept) {
    wafer_arena *arena = wafer_arena_create();
    wafer_deal deal;
    bool ok = arena && wafer_deal_weight(arena, w, parts, &deal);
    const uint32_t *const place[2] = {ok ? deal.place[0] : NULL, ok ? deal.place[1] : NULL};
    uint64_t filled = ok ? filled_of(body, input, w, &layout, place) : 0;
    wafer_arena_destroy(arena);
    if (!ok) return false;
    memcpy(w->dealt.parts, parts, sizeof parts);
    w->dealt.fullest = deal.fullest;
    w->dealt.filled = filled;
    w->dealt.kept = kept;
  }
  is->fullest = w->dealt.fullest;
  is->filled = w->dealt.filled;
  return true;
}

wafer_status sparsity_of(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_graph_value *values,
                         const uint32_t *inputs, wafer_graph_kernel *kernel) {
  wafer_sparse_shapes shapes = ctx->options ? ctx->options->sparse_shapes : WAFER_SPARSE_lean;
  uint32_t count = kernel->body.input_count;
  bool any = false;
  if (shapes == WAFER_SPARSE_as_dense && !kernel->sized) return WAFER_OK;
  for (uint32_t i = 0; i < count; i++)
    any |= kernel->body.input_is_weight[i] && values[inputs[i]].sparse;
  if (!any) return WAFER_OK;
  wafer_sparsity *is = WAFER_NEW(ctx->arena, wafer_sparsity, count);
  bool dealt = shapes >= WAFER_SPARSE_lean_undealt;
  if (!is) return no_memory(ctx, kernel);
  for (uint32_t i = 0; i < count; i++) {
    const wafer_graph_value *v = &values[inputs[i]];
    if (!kernel->body.input_is_weight[i] || !v->sparse) continue;
    is[i] = (wafer_sparsity){.sparse = true,
                             .nonzeros = v->nonzeros,
                             .late_list = !ctx->options || !ctx->options->no_late_list,
                             .uneven = shapes == WAFER_SPARSE_lean_roomy ||
                                       wafer_weights_find(ir->weights, v->name)->uneven};
    if (!dealt && wafer_kernel_may_deal(&kernel->body, i)) {
      is[i].order = number_of(ir->weights, v->name);
      dealt = true;
    }
  }
  kernel->body.sparsity = is;
  for (uint32_t i = 0; i < count && kernel->sized; i++)
    if (is[i].sparse &&
        !count_tiles(&kernel->body, &kernel->split, i,
                     wafer_weights_find(ir->weights, values[inputs[i]].name), &is[i]))
      return no_memory(ctx, kernel);
  return WAFER_OK;
}

wafer_status sparsity_recount(const wafer_ctx *ctx, const wafer_ir *ir,
                              const wafer_graph_kernel *kernel, const wafer_graph_value *values,
                              const wafer_split *split, const uint32_t *depths, bool *again) {
  wafer_kernel_body body = kernel->body;
  wafer_sparsity counted[WAFER_MAX_KERNEL_VALUES];
  wafer_cost expected, is;
  bool any = false;
  body.input_depth = depths;
  for (uint32_t i = 0; body.sparsity && i < body.input_count; i++)
    any |= body.sparsity[i].sparse && !body.sparsity[i].uneven;
  if (!any) return WAFER_OK;
  wafer_kernel_cost(ctx->machine, &body, split, &expected);
  memcpy(counted, body.sparsity, body.input_count * sizeof *counted);
  for (uint32_t i = 0; i < body.input_count; i++)
    if (counted[i].sparse &&
        !count_tiles(&kernel->body, split, i,
                     wafer_weights_find(ir->weights, values[kernel->inputs[i]].name), &counted[i]))
      return no_memory(ctx, kernel);
  body.sparsity = counted;
  wafer_kernel_cost(ctx->machine, &body, split, &is);
  if (is.weight_bytes <= expected.weight_bytes) return WAFER_OK;
  for (uint32_t i = 0; i < body.input_count; i++)
    if (counted[i].sparse)
      wafer_weights_find(ir->weights, values[kernel->inputs[i]].name)->uneven = true;
  *again = true;
  return WAFER_OK;
}
