/* A pipeline whose sparse products waste few multiply cycles.
 *
 * Products are lean when all together take at most so many thousandths (of options) of the
 * non-zeros' part of the dense multiply cycles; what some are below that makes up for what others
 * are above it. For an interval T each kernel has a shape of at most T cycles, that which has the
 * fewest cores when waste has a price in cores: the least price with which products are lean. The
 * shortest T is looked for at which there is one. Each kernel keeps the shapes that waste no more
 * than that one and its share of what is left: whatever shelves and neighbours choose of these is
 * lean. */
#include "size_pipelined.h"

#define MOST_PRICE (1ll << 40) /* of a wasted cycle, in 1024ths of a core */

static int64_t wasted(const pipeline *p, const size_multiply *of) {
  return (int64_t)of->cycles - (int64_t)(of->due * p->ctx->options->lean / 1000);
}

static wafer_kernel_body body_of(const pipeline *p, uint32_t k) {
  return size_with_depths(&p->graph->kernels[k].body, p->out->kernels[k].depths);
}

bool pipeline_is_lean(const pipeline *p, uint32_t k, const wafer_kernel_body *body,
                      const wafer_split *split) {
  if (p->shared && p->shared[k] && !size_is_possible(p->shared[k], split)) return false;
  if (!p->waste || p->waste[k] == INT64_MAX) return true;
  size_multiply own = size_multiply_cycles(p->ctx->machine, body, split);
  return wasted(p, &own) <= p->waste[k];
}

wafer_status pipeline_keep_lean(const pipeline *p, uint32_t k, const wafer_kernel_body *body,
                                const wafer_curve **curve) {
  const wafer_curve *all = *curve;
  if (!p->waste || p->waste[k] == INT64_MAX) return WAFER_OK;
  bool *keeps = WAFER_NEW(p->ctx->arena, bool, all->count + 1);
  if (!keeps) return pipeline_no_memory(p);
  for (size_t i = 0; i < all->count; i++) {
    size_multiply own = curve_multiply(p->curves, body, &all->at[i]);
    keeps[i] = wasted(p, &own) <= p->waste[k];
  }
  *curve = curve_part(p->curves, all, keeps);
  return *curve ? WAFER_OK : pipeline_no_memory(p);
}

/* ---- the interval ---- */

/* Of each kernel with a sparse product, by the points of its curve; NULL of others. */
static wafer_status open_products(const pipeline *p, size_multiply ***out) {
  uint32_t n = p->graph->kernel_count;
  *out = WAFER_NEW(p->ctx->arena, size_multiply *, n);
  if (!*out) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    const wafer_kernel_body body = body_of(p, k);
    const wafer_curve *curve = p->curve[k];
    if (!size_multiplies_sparse(&body)) continue;
    size_multiply *at = (*out)[k] = WAFER_NEW(p->ctx->arena, size_multiply, curve->count);
    if (!at) return pipeline_no_memory(p);
    for (size_t i = 0; i < curve->count; i++)
      at[i] = curve_multiply(p->curves, &body, &curve->at[i]);
  }
  return WAFER_OK;
}

/* Of the shapes of at most `t` cycles that with the fewest cores at this price of waste; the
 * fastest where all are slower. */
static const size_multiply *cheapest(const pipeline *p, const size_multiply *at, uint32_t k,
                                     uint64_t t, int64_t price) {
  const wafer_curve *curve = p->curve[k];
  __int128 least = 0;
  size_t best = 0;
  for (size_t i = 0; i < curve->count && (i == 0 || curve->at[i].cycles <= t); i++) {
    int64_t cores = (int64_t)curve->at[i].width * curve->at[i].height;
    __int128 cost = (__int128)1024 * cores + (__int128)price * wasted(p, &at[i]);
    if (i > 0 && cost >= least) continue;
    least = cost;
    best = i;
  }
  return &at[best];
}

/* What all products waste then. */
static int64_t waste_at(const pipeline *p, size_multiply *const *at, uint64_t t, int64_t price,
                        uint64_t *due) {
  int64_t sum = 0;
  *due = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    if (!at[k]) continue;
    const size_multiply *own = cheapest(p, at[k], k, t, price);
    sum += wasted(p, own);
    *due += own->due;
  }
  return sum;
}

static int64_t least_price(const pipeline *p, size_multiply *const *at, uint64_t t) {
  int64_t low = 0, high = 1;
  uint64_t due;
  while (high < MOST_PRICE && waste_at(p, at, t, high, &due) > 0) low = high, high *= 2;
  while (high - low > 1 + high / 64) {
    int64_t middle = low + (high - low) / 2;
    if (waste_at(p, at, t, middle, &due) > 0)
      low = middle;
    else
      high = middle;
  }
  return high;
}

static wafer_status share_out(pipeline *p, size_multiply *const *at, uint64_t t) {
  uint32_t n = p->graph->kernel_count;
  int64_t price = least_price(p, at, t);
  uint64_t due;
  int64_t left = -waste_at(p, at, t, price, &due);
  p->waste = WAFER_NEW(p->ctx->arena, int64_t, n);
  if (!p->waste) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    p->waste[k] = INT64_MAX;
    if (!at[k]) continue;
    const size_multiply *own = cheapest(p, at[k], k, t, price);
    p->waste[k] = wasted(p, own) + (int64_t)((__int128)left * (int64_t)own->due / (int64_t)due);
  }
  for (uint32_t k = 0; k < n; k++) {
    const wafer_kernel_body body = body_of(p, k);
    WAFER_TRY(pipeline_keep_lean(p, k, &body, &p->curve[k]));
  }
  return WAFER_OK;
}

static uint64_t longest(const pipeline *p) {
  uint64_t most = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    uint64_t last = p->curve[k]->at[p->curve[k]->count - 1].cycles;
    most = last > most ? last : most;
  }
  return most;
}

wafer_status pipeline_lean(pipeline *p, uint64_t from, uint64_t *t) {
  uint64_t high = longest(p), low = from ? from : 1, due;
  size_multiply **at;
  *t = 0;
  WAFER_TRY(open_products(p, &at));
  if ((p->waste && from > high) || waste_at(p, at, high, MOST_PRICE, &due) > 0 || !due)
    return WAFER_OK;
  if (low > high) high = low;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (waste_at(p, at, middle, MOST_PRICE, &due) <= 0)
      high = middle;
    else
      low = middle + 1;
  }
  *t = high;
  return share_out(p, at, high);
}
