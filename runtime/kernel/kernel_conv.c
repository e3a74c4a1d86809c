/* Family conv: convolution with groups, strides, dilations and pads, in any number of spatial dims.
 *
 * The program: accumulators begin at zero; one vector multiply-accumulate goes over the four
 * longest of batch, filters, places, channels and taps, inside loops over the others; filters of
 * several groups are taken group by group; the bias is added last. Sums stay in f32. Pads are
 * filled in, and a cut of a spatial dim exchanges the halo, first; a cut of the input channels
 * chains the partial sums, the tail works at the chain's end, and what it stores is broadcast. With
 * sparse filters the loop is over taps, and each pair of a tap is one multiply-accumulate over all
 * places of a filter.
 *
 * Loops: n, k, spatial dims, then the input channels of a group. Those are cut only without groups;
 * with groups, cutting k cuts the channels of x alike when every part has whole groups, and when
 * every group has whole parts, which have its channels then. */
#include <string.h>

#include "kernel_family.h"

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *node = &body->nodes[body->anchor];
  const wafer_shape *w = &wafer_body_type(body, node->operands[1])->shape;
  kernel_loop_append(out, w->dims[1], wafer_attr_int(&node->attrs, WAFER_ATTR_group) == 1);
}

static void map_input(const kernel_view *k, uint32_t node, const kernel_map *result,
                      kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  int64_t group = wafer_attr_int(&n->attrs, WAFER_ATTR_group);
  int64_t channels = kernel_type(k, n->operands[0])->shape.dims[1];
  bool anchor = kernel_is_anchor(k, node),
       depthwise = group == channels && group == n->type.shape.dims[1];
  kernel_map_set(map, 0, result, 0);
  if (group == 1 && anchor) kernel_map_loop(map, 1, k->loops.parallel);
  if (group > 1 && depthwise) kernel_map_set(map, 1, result, 1);
  if (group > 1 && !depthwise)
    kernel_map_even(map, 1, result, 1, group, n->type.shape.dims[1] / group);
  for (uint32_t d = 2; d < n->type.shape.rank && anchor; d++) kernel_map_set(map, d, result, d);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  if (i == 0) {
    map_input(k, node, result, map);
    return;
  }
  kernel_map_set(map, 0, result, 1);
  bool whole = wafer_attr_int(&kernel_node(k, node)->attrs, WAFER_ATTR_group) != 1;
  if (i == 1 && kernel_is_anchor(k, node) && !whole) kernel_map_loop(map, 1, k->loops.parallel);
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  const int64_t *strides = wafer_node_ints(n, WAFER_ATTR_strides),
                *pads = wafer_node_ints(n, WAFER_ATTR_pads);
  const int64_t *dilations = wafer_node_ints(n, WAFER_ATTR_dilations);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    int64_t span = (kernel_type(k, n->operands[1])->shape.dims[d] - 1) * dilations[d - 2];
    window[d] = (kernel_window){strides[d - 2], 1, pads[d - 2], span - pads[d - 2]};
  }
}

static int64_t groups(const kernel_view *k, const wafer_node *n) {
  int64_t channels = kernel_type(k, n->operands[0])->shape.dims[1];
  int64_t in_group = kernel_type(k, n->operands[1])->shape.dims[1];
  return in_group > 0 && channels > in_group ? channels / in_group : 1;
}

/* Bytes from one index of a dim to the next, of a value with `bytes` an element whose dims are as
 * long as said: `last` is the innermost, before it `before`, and around them the spatial dims, the
 * last of them inside (backend/program/program.c, order_of). */
static void pack(const int64_t *length, uint32_t rank, uint32_t last, int64_t bytes,
                 int64_t *stride) {
  stride[last] = bytes;
  bytes *= length[last];
  if (last == 0) { /* a weight: channels around filters */
    stride[1] = bytes;
    bytes *= length[1];
  }
  for (uint32_t d = rank; d-- > 2; bytes *= length[d]) stride[d] = bytes;
  if (last == 1) stride[0] = bytes;
}

/* Where sums, windows and filters lie on a core. */
typedef struct conv_places {
  int64_t sum[WAFER_MAX_RANK], x[WAFER_MAX_RANK], w[WAFER_MAX_RANK];
} conv_places;

static void find_places(const kernel_view *k, uint32_t node, conv_places *at) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), x = n->operands[0], rank = n->type.shape.rank;
  int64_t reach[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++)
    reach[d] = kernel_is_anchor(k, node) ? k->halo[d].reach : k->tile[x][d];
  pack(k->tile[result], rank, 1, (int64_t)wafer_dtype_bytes(kernel_sums(k, result)), at->sum);
  pack(reach, rank, 1, (int64_t)wafer_dtype_bytes(kernel_dtype(k, x)), at->x);
  pack(k->tile[n->operands[1]], rank, 0,
       (int64_t)wafer_dtype_bytes(kernel_dtype(k, n->operands[1])), at->w);
}

/* Sums lie 4 bytes off the windows, and filters where a core has an odd number of them
 * (backend/program/program.c, program_phase). */
#define OFF_BYTES 4

/* `groups` of `filters` each, in the order of loops that programs have
 * (backend/program/program_conv.c). */
static uint64_t nest_cycles(const kernel_view *k, uint32_t node, int64_t groups, int64_t filters) {
  const wafer_node *n = kernel_node(k, node);
  const int64_t *strides = wafer_node_ints(n, WAFER_ATTR_strides),
                *dilations = wafer_node_ints(n, WAFER_ATTR_dilations);
  uint32_t result = kernel_result(k, node), w = n->operands[1];
  int64_t channels = k->tile[w][1], odd = k->tile[result][1] % 2;
  conv_places at;
  find_places(k, node, &at);
  kernel_steps s = {
      .address = {[KERNEL_STEPS_SUM] = OFF_BYTES, [KERNEL_STEPS_RIGHT] = odd ? OFF_BYTES : 0}};
  kernel_steps_add(&s, k->tile[result][0], at.sum[0], at.x[0], 0);
  kernel_steps_add(&s, groups, filters * at.sum[1], channels * at.x[1], filters * at.w[0]);
  kernel_steps_add(&s, filters, at.sum[1], 0, at.w[0]);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    kernel_steps_add(&s, k->tile[result][d], at.sum[d], strides[d - 2] * at.x[d], 0);
    kernel_steps_add(&s, k->tile[w][d], 0, dilations[d - 2] * at.x[d], at.w[d]);
  }
  kernel_steps_add(&s, channels, 0, at.x[1], at.w[1]);
  return kernel_steps_cycles(k->machine, kernel_dtype(k, n->operands[0]), &s);
}

static uint64_t dense(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  int64_t group = groups(k, n), filters = k->tile[kernel_result(k, node)][1];
  int64_t in_group = n->type.shape.dims[1] / group;
  if (in_group < 1) in_group = 1;
  int64_t whole = filters / in_group;
  uint64_t cycles = 0;
  if (whole > 0) cycles = kernel_add(cycles, nest_cycles(k, node, whole, in_group));
  if (filters % in_group) cycles = kernel_add(cycles, nest_cycles(k, node, 1, filters % in_group));
  return cycles;
}

/* ---- sparse filters ---- */

/* Results of a filter on a core, and the windows' first elements, samples innermost: dims along
 * which both are one run of memory are one level. */
typedef struct level {
  int64_t extent, window, sum; /* and elements from one to the next */
} level;

#define SUM_BYTES 4

typedef struct places {
  uint32_t count;
  level at[WAFER_MAX_RANK];
  int64_t windows, sums;         /* bytes from one channel, from one filter to the next */
  int64_t pitch[WAFER_MAX_RANK]; /* of the windows' buffer, by dim */
} places;

static places places_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  const int64_t *tile = k->tile[kernel_result(k, node)],
                *strides = wafer_node_ints(n, WAFER_ATTR_strides);
  int64_t each = (int64_t)wafer_dtype_bytes(kernel_dtype(k, n->operands[0]));
  places p = {.windows = 1, .sums = 1};
  for (uint32_t rank = n->type.shape.rank, i = 0; i + 1 < rank; i++) {
    uint32_t d = i ? rank - i : 0;
    level here = {tile[d], d ? p.windows * strides[d - 2] : p.windows, p.sums};
    level *last = p.count ? &p.at[p.count - 1] : NULL;
    p.pitch[d] = p.windows;
    p.windows *= k->halo[d].reach;
    p.sums *= kernel_most(tile[d], 1);
    if (tile[d] < 2) continue;
    if (last && here.window == last->window * last->extent)
      last->extent *= tile[d];
    else
      p.at[p.count++] = here;
  }
  p.windows = (int64_t)wafer_pairs_stride((uint64_t)(p.windows * each), (uint64_t)each);
  p.sums = (int64_t)wafer_pairs_stride((uint64_t)(p.sums * SUM_BYTES), SUM_BYTES);
  return p;
}

/* How far the two reads of a step lie apart, mod BANKS_APART widths of a bank (2 bytes): parts of
 * all steps. Each loop adds so many widths a turn. */
#define BANKS_APART 4
#define BANK_BYTES 2
typedef double apart[BANKS_APART];

static void add_turns(apart steps, int64_t count, int64_t widths) {
  apart sum = {0};
  for (int64_t i = 0; i < kernel_least(count, BANKS_APART); i++) {
    double alike = (double)((count - i + BANKS_APART - 1) / BANKS_APART) / (double)count;
    for (uint32_t at = 0; at < BANKS_APART; at++) {
      int64_t to = ((int64_t)at + i * (widths % BANKS_APART)) % BANKS_APART;
      sum[to < 0 ? to + BANKS_APART : to] += steps[at] * alike;
    }
  }
  if (count > 1) memcpy(steps, sum, sizeof sum);
}

/* Of the reads of a pair's run: over all places, filters, channels and taps. */
static void reads_of(const kernel_view *k, uint32_t node, const places *p, apart steps) {
  const wafer_node *n = kernel_node(k, node);
  const int64_t *filters = k->tile[n->operands[1]],
                *dilations = wafer_node_ints(n, WAFER_ATTR_dilations);
  wafer_dtype stored = kernel_dtype(k, n->operands[0]);
  int64_t each = (int64_t)wafer_dtype_bytes(stored) / BANK_BYTES, sum = SUM_BYTES / BANK_BYTES;
  int64_t windows = p->windows / BANK_BYTES, sums = p->sums / BANK_BYTES;
  const wafer_throughput *rate = &k->machine->rate[WAFER_RATE_fma][each == 1];
  int64_t group = wafer_body_group(k->body, n->operands[1]), own = groups(k, n) > 1 && !group;
  int64_t inside = group ? kernel_least(group, filters[0]) : filters[0];
  int64_t longest = 0, step = kernel_ceil(rate->elements, rate->cycles);
  for (uint32_t l = 0; l < p->count; l++) longest = kernel_most(longest, p->at[l].extent);
  for (uint32_t l = 0; l < p->count; l++) {
    const level *at = &p->at[l];
    int64_t stride = at->extent == longest ? step : 1;
    if (at->extent == longest) longest = 0; /* inside */
    add_turns(steps, kernel_ceil(at->extent, stride), stride * (at->window * each - at->sum * sum));
  }
  add_turns(steps, inside, own * windows - sums);
  add_turns(steps, kernel_ceil(filters[0], inside), filters[1] * windows - inside * sums);
  add_turns(steps, filters[1], windows);
  for (uint32_t d = 2; d < n->type.shape.rank; d++)
    add_turns(steps, filters[d], dilations[d - 2] * p->pitch[d] * each);
}

/* Of WAFER_STEPS steps, those that collide where windows begin `widths` of a bank behind a whole
 * turn; sums lie half a turn behind one. */
static uint32_t colliding(const apart steps, uint32_t widths) {
  uint32_t at = (BANKS_APART / 2 + BANKS_APART - widths) % BANKS_APART;
  return (uint32_t)(steps[at] * WAFER_STEPS + 0.5);
}

/* Where they had best begin: taps move windows by an element, and of three in a row none need be
 * where the sum is. */
static uint32_t calmest(const kernel_view *k, uint32_t node, const places *p,
                        uint32_t *collisions) {
  uint32_t x = kernel_node(k, node)->operands[0], best = 0;
  uint32_t each = (uint32_t)wafer_dtype_bytes(kernel_dtype(k, x)) / BANK_BYTES;
  apart steps = {1};
  reads_of(k, node, p, steps);
  for (uint32_t widths = each; widths < BANKS_APART; widths += each)
    if (colliding(steps, widths) < colliding(steps, best)) best = widths;
  *collisions = colliding(steps, best);
  return best;
}

static uint32_t phase(const kernel_view *k, uint32_t node) {
  uint32_t collisions;
  places p = places_of(k, node);
  return calmest(k, node, &p, &collisions) * BANK_BYTES;
}

/* The two longest levels are a pair's, the others times that lists pass. */
static wafer_run run_of(const kernel_view *k, uint32_t node) {
  places p = places_of(k, node);
  wafer_run run = {1, 1, 1, 0};
  (void)calmest(k, node, &p, &run.collisions);
  for (uint32_t l = 0; l < p.count; l++) {
    uint64_t *least = run.rows < run.length ? &run.rows : &run.length;
    uint64_t extent = (uint64_t)p.at[l].extent;
    if (extent > *least) {
      uint64_t shorter = *least;
      *least = extent;
      extent = shorter;
    }
    run.times = kernel_mul(run.times, extent);
  }
  return run;
}

static uint64_t sparse(const kernel_view *k, uint32_t node, uint32_t operand,
                       const wafer_pairs *pairs) {
  wafer_run run = run_of(k, node);
  wafer_dtype stored = kernel_dtype(k, kernel_node(k, node)->operands[operand]);
  return wafer_pairs_cycles(k->machine, pairs, stored, &run);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  uint64_t sums = kernel_add(kernel_accumulators(k, node), kernel_bias(k, node));
  uint64_t cycles = kernel_add(kernel_multiply(k, node), sums);
  return kernel_is_anchor(k, node) ? kernel_add(cycles, kernel_pads(k)) : cycles;
}

static uint64_t fabric(const kernel_view *k) {
  uint64_t partial = kernel_tile_elements(k, kernel_result(k, k->body->anchor));
  return kernel_add(kernel_halo(k), kernel_reduce_loops(k, partial));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_shape *w = &kernel_type(k, kernel_node(k, node)->operands[1])->shape;
  uint64_t all = 2;
  for (uint32_t d = 1; d < w->rank; d++) all = kernel_mul(all, (uint64_t)w->dims[d]);
  return all;
}

const kernel_family kernel_family_conv = {.loops = loops,
                                          .operand = operand,
                                          .dense = dense,
                                          .sparse = sparse,
                                          .phase = phase,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .windows = windows,
                                          .operations = operations,
                                          .accumulates = true};
