/* Shapes to weigh for each phase of weight streaming, and exchanges between them.
 *
 * A kernel's shapes are some of its curve, few for each size, the one that it has when all is sized
 * one after the other, splits that fill the wafer loop by loop, which kernels over the same dims
 * have alike, and splits under which it takes an input just as a shape of the producer leaves it.
 * What decides about them is the kernel's signature, its present shape and the shapes of
 * its producers: where these have been met before, as in every layer of a deep model but the first
 * few, the options are the same, and so are the cycles of exchanges between two sets of them. */
#include <string.h>

#include "ir/intern.h"
#include "size_layouts.h"
#include "streams.h"

#define CURVE_OPTIONS 24 /* of a kernel, from its curve */
#define BUCKET_OPTIONS 2 /* of them, with about as many cores */

typedef struct layout_options options;
typedef struct layout_option option;

/* The cycles between all options of two sets over the same values. */
typedef struct layout_table {
  uint32_t met;
  uint64_t *cycles; /* [from][to]; UNKNOWN until asked for; NULL while it was met once */
} layout_table;

#define UNKNOWN UINT64_MAX

typedef struct layout_tables {
  intern *asked;   /* signature, present shape, producers' options -> options */
  intern *content; /* what options say -> options */
  intern *edges;   /* options, options, values -> table */
  uint64_t *key;   /* of the largest kernel */
} layout_tables;

wafer_status layouts_no_memory(const layouts *l) {
  return wafer_fail(l->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory to choose layouts for weight streaming");
}

/* ---- One option ---- */

static wafer_holding holding_of(const layouts *l, const option *o, uint32_t place) {
  const wafer_shape_point *p = o->point;
  return (wafer_holding){
      WAFER_AT_wafer, {l->whole.x, l->whole.y, p->width, p->height}, o->lie[place]};
}

/* Cycles to bring what the model's inputs give. */
static uint64_t from_edge(const layouts *l, uint32_t k, const option *o) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  const wafer_holding edge = {.where = WAFER_AT_edge};
  const wafer_machine *m = l->ctx->machine;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer != WAFER_NONE) continue;
    uint64_t words = stream_words(&v->type, kernel->body.storage);
    const wafer_holding to = holding_of(l, o, i);
    sum += l->stripes * stream_cycles(m, &edge, &to, words) +
           size_spread_cycles(m, &l->bodies[k], &to, &v->type) +
           stream_latency(m, &edge, &to, o->point->width);
  }
  return sum;
}

/* Half of what weights take longer than on the highest shape, and of their way over the cores if
 * that has a price: the other half may pass while phases before work. */
static uint64_t weights_late(const layouts *l, uint32_t k, const option *o) {
  const wafer_machine *m = l->ctx->machine;
  wafer_shape_point highest = *o->point;
  highest.height = l->whole.height;
  const wafer_kernel_body *body = &l->bodies[k];
  uint64_t longer =
      size_weight_cycles(m, body, o->point, NULL) - size_weight_cycles(m, body, &highest, NULL);
  uint64_t longest = 0;
  for (uint32_t i = 0; i < body->input_count && l->spread; i++) {
    const wafer_holding to = holding_of(l, o, i);
    uint64_t spread = size_weight_spread(m, body, i, &to);
    if (spread > longest) longest = spread;
  }
  return (longer + longest) / 2;
}

static wafer_status add_option(const layouts *l, uint32_t k, options *set,
                               const wafer_shape_point *point) {
  const wafer_kernel_body *body = &l->bodies[k];
  option *o = &set->at[set->count];
  const wafer_layout *lie = curve_layouts(l->curves, body, point);
  if (!lie) return layouts_no_memory(l);
  *o = (option){.point = point, .lie = lie};
  o->own = size_own_price(l->curves, l->graph, k, body, point, l->stripes, &l->waste) +
           (int64_t)(from_edge(l, k, o) + weights_late(l, k, o));
  set->count++;
  return WAFER_OK;
}

static bool has_split(const options *set, const wafer_split *split) {
  for (uint32_t i = 0; i < set->count; i++)
    if (!memcmp(&set->at[i].point->split, split, sizeof *split)) return true;
  return false;
}

static uint32_t bucket_of(const wafer_shape_point *p) {
  return 63 - (uint32_t)__builtin_clzll((uint64_t)p->width * p->height);
}

/* The one of the curve for each size that is cheapest, where waste has a price. */
static wafer_status add_lean(const layouts *l, uint32_t k, options *set, const wafer_curve *curve) {
  const wafer_kernel_body *body = &l->bodies[k];
  const wafer_shape_point *best[64] = {NULL};
  int64_t least[64];
  if (!l->waste.worth || !size_multiplies_sparse(body)) return WAFER_OK;
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *p = &curve->at[i];
    uint32_t bucket = bucket_of(p);
    int64_t price = size_own_price(l->curves, l->graph, k, body, p, l->stripes, &l->waste);
    if (best[bucket] && price >= least[bucket]) continue;
    best[bucket] = p;
    least[bucket] = price;
  }
  for (uint32_t b = 0; b < WAFER_COUNT(best); b++)
    if (best[b] && !has_split(set, &best[b]->split)) WAFER_TRY(add_option(l, k, set, best[b]));
  return WAFER_OK;
}

/* The fastest of the curve for each size, all in all CURVE_OPTIONS. */
static wafer_status add_curve(const layouts *l, uint32_t k, options *set,
                              const wafer_curve *curve) {
  uint32_t held[64] = {0};
  for (size_t i = 0; i < curve->count && set->count < CURVE_OPTIONS; i++) {
    uint32_t bucket = bucket_of(&curve->at[i]);
    if (held[bucket] == BUCKET_OPTIONS || has_split(set, &curve->at[i].split)) continue;
    held[bucket]++;
    WAFER_TRY(add_option(l, k, set, &curve->at[i]));
  }
  return WAFER_OK;
}

/* ---- Splits that are not of the curve ---- */

/* Whether no value is cut into more parts than there are rows or columns: dims of one may follow
 * the same loop. */
static bool lies_within(const split_body *splits, const wafer_shape_point *p) {
  const wafer_kernel_body *body = splits->body;
  for (uint32_t i = 0; i < body->input_count + body->output_count; i++) {
    uint32_t value = i < body->input_count ? i : body->outputs[i - body->input_count];
    wafer_layout lie = split_layout_of(splits, &p->split, value);
    uint64_t rows = 1, cols = 1;
    for (uint32_t d = 0; d < lie.rank; d++) {
      rows *= lie.rows[d];
      cols *= lie.cols[d];
      if (rows > p->height || cols > p->width) return false;
    }
  }
  return true;
}

/* Where the split is possible and fits a core alone. */
static wafer_status add_split(const layouts *l, uint32_t k, options *set, const split_body *splits,
                              const wafer_loops *loops, const wafer_split *split) {
  wafer_shape_point p = {
      .split = *split, .width = wafer_split_width(split), .height = wafer_split_height(split)};
  if (set->count == LAYOUT_MOST_OPTIONS || !size_is_possible(loops, split) || has_split(set, split))
    return WAFER_OK;
  split_cost cost = split_cost_find(splits, split);
  p.cycles = cost.cycles;
  p.bytes = cost.bytes;
  if (p.bytes > wafer_machine_core_budget(l->ctx->machine) || !lies_within(splits, &p))
    return WAFER_OK;
  const wafer_shape_point *kept = curve_keep_point(l->curves, splits->signature, &p);
  return kept ? add_option(l, k, set, kept) : layouts_no_memory(l);
}

/* Cuts loops from `first` on over up to `limit` cores of one direction, as evenly as goes, but for
 * loop `without` and those that are cut already. */
static void fill_direction(const wafer_loops *loops, uint32_t first, uint32_t without,
                           int64_t limit, const uint32_t *cut, uint32_t *parts) {
  for (uint32_t i = first; i < loops->count && limit > 1; i++) {
    int64_t extent = loops->extent[i];
    if (i == without || !loops->divisible[i] || cut[i] > 1 || extent < 2) continue;
    int64_t length = (extent + limit - 1) / limit;
    parts[i] = (uint32_t)((extent + length - 1) / length);
    limit /= parts[i];
  }
}

/* For each two loops the split that fills the rows from the one on and the columns from the other
 * on, and for each loop the one that leaves the columns alone. Most other kernels have some of the
 * same dims, and cut them into as many parts: between these nothing has to be exchanged. */
static wafer_status add_filled(const layouts *l, uint32_t k, options *set,
                               const split_body *splits) {
  wafer_loops loops;
  wafer_kernel_loops(&l->bodies[k], &loops);
  for (uint32_t row = 0; row < loops.count; row++)
    for (uint32_t col = 0; loops.divisible[row] && col <= loops.count; col++) {
      wafer_split split = size_uncut();
      if (col == row || (col < loops.count && !loops.divisible[col])) continue;
      fill_direction(&loops, row, col, l->whole.height, split.cols, split.rows);
      fill_direction(&loops, col, loops.count, l->whole.width, split.rows, split.cols);
      WAFER_TRY(add_split(l, k, set, splits, &loops, &split));
    }
  return WAFER_OK;
}

/* Cuts loops as `want` cuts the dims of the input. What rows or columns are left over, as where the
 * value is repeated, cut a loop that the input does not have. */
static void split_like(const wafer_loops *loops, const uint32_t *dim, const wafer_rect *rect,
                       const wafer_layout *want, wafer_split *split) {
  bool taken[WAFER_MAX_RANK + 1] = {false};
  uint32_t height = rect->height, width = rect->width;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split->rows[i] = split->cols[i] = 1;
  for (uint32_t d = 0; d < want->rank; d++) {
    height /= want->rows[d];
    width /= want->cols[d];
  }
  for (uint32_t i = 0; i < loops->count; i++) {
    if (!loops->divisible[i] || loops->extent[i] < 2) continue;
    uint32_t d = dim[i];
    if (d < WAFER_MAX_RANK && !taken[d]) {
      split->rows[i] = want->rows[d];
      split->cols[i] = want->cols[d];
      taken[d] = true;
    } else if (d == WAFER_MAX_RANK && (height > 1 || width > 1) &&
               (int64_t)height * width <= loops->extent[i]) {
      split->rows[i] = height;
      split->cols[i] = width;
      height = width = 1;
    }
  }
}

/* A split under which input `input` lies as `from`, an option of the producer, leaves it, if there
 * is one. dim[loop]: of the input, that the loop cuts. */
static wafer_status add_like(const layouts *l, uint32_t k, options *set, const split_body *splits,
                             uint32_t input, const uint32_t *dim, const wafer_shape_point *from,
                             const wafer_layout *want) {
  const wafer_kernel_body *body = &l->bodies[k];
  const wafer_rect rect = {0, 0, from->width, from->height};
  wafer_loops loops;
  wafer_split split;
  wafer_kernel_loops(body, &loops);
  split_like(&loops, dim, &rect, want, &split);
  if (!size_is_possible(&loops, &split) || wafer_split_width(&split) != rect.width ||
      wafer_split_height(&split) != rect.height)
    return WAFER_OK;
  wafer_layout layout = split_layout_of(splits, &split, input);
  return wafer_layout_equal(&layout, want) ? add_split(l, k, set, splits, &loops, &split)
                                           : WAFER_OK;
}

static wafer_status add_likes(const layouts *l, uint32_t k, options *set,
                              const split_body *splits) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer == WAFER_NONE) continue;
    const options *from = l->options[v->producer];
    uint32_t dim[WAFER_MAX_LOOPS], out = l->bodies[v->producer].input_count + v->output;
    for (uint32_t d = 0; d < WAFER_MAX_LOOPS; d++) dim[d] = size_dim_of(&l->bodies[k], i, d);
    for (uint32_t o = 0; o < from->count; o++)
      WAFER_TRY(add_like(l, k, set, splits, i, dim, from->at[o].point, &from->at[o].lie[out]));
  }
  return WAFER_OK;
}

/* ---- All options of a kernel ---- */

/* Not where memory was so short that weights, or samples, wait for room. */
static bool is_free(const layouts *l, uint32_t k, const uint32_t *depths) {
  const wafer_kernel_body *body = &l->graph->kernels[k].body;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (depths[i] && depths[i] != (body->input_is_weight[i] ? SIZE_WEIGHT_DEPTH : l->batch))
      return false;
  return true;
}

static wafer_status find_options(const layouts *l, uint32_t k, const sized_kernel *greedy,
                                 options *set) {
  const wafer_curve *curve;
  uint64_t budget = wafer_machine_core_budget(l->ctx->machine);
  set->at = WAFER_NEW(l->ctx->arena, option, LAYOUT_MOST_OPTIONS);
  if (!set->at) return layouts_no_memory(l);
  WAFER_TRY(add_option(l, k, set, greedy->point));
  if (!is_free(l, k, greedy->depths)) return WAFER_OK; /* as it is */
  WAFER_TRY(
      curve_of(l->ctx->diag, l->curves, &l->bodies[k], (curve_query){.budget = budget}, &curve));
  WAFER_TRY(add_lean(l, k, set, curve));
  WAFER_TRY(add_curve(l, k, set, curve));
  const split_body splits = curve_splits(l->curves, &l->bodies[k]);
  WAFER_TRY(add_filled(l, k, set, &splits));
  return add_likes(l, k, set, &splits);
}

/* The kernel's signature and order, of each input where it comes from, and what of each output
 * leaves the wafer; `whose`: also of which options inputs come. */
static size_t put_kernel(const layouts *l, uint32_t k, bool whose, uint64_t *key) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  size_t n = 0;
  key[n++] = wafer_kernel_signature(&l->bodies[k]);
  key[n++] = size_order(&l->bodies[k]);
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    key[n++] = wafer_graph_is_output(&l->graph->values[kernel->outputs[i]]);
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    bool made = !kernel->body.input_is_weight[i] && v->producer != WAFER_NONE;
    key[n++] = kernel->body.input_is_weight[i] ? 0 : made ? 2 + (uint64_t)v->output : 1;
    if (whose) key[n++] = made ? (uint64_t)(uintptr_t)l->options[v->producer] : 0;
  }
  for (uint32_t i = 0; i < kernel->body.output_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->outputs[i]];
    key[n++] = wafer_graph_is_output(v) ? value_words(v, kernel->body.storage) : 0;
  }
  return n;
}

static size_t put_bytes(uint64_t *key, size_t n, const void *what, size_t bytes) {
  size_t words = (bytes + sizeof *key - 1) / sizeof *key;
  key[n + words - 1] = 0;
  memcpy(&key[n], what, bytes);
  return n + words;
}

/* The same set where one of the same shapes is known. */
static wafer_status share_content(const layouts *l, uint32_t k, const options **set) {
  layout_tables *t = l->known;
  size_t n = put_kernel(l, k, false, t->key);
  for (uint32_t o = 0; o < (*set)->count; o++)
    n = put_bytes(t->key, n, &(*set)->at[o].point->split, sizeof(wafer_split));
  void **slot = intern_slot(t->content, t->key, n * sizeof *t->key);
  if (!slot) return layouts_no_memory(l);
  if (!*slot) *slot = (void *)(uintptr_t)*set;
  *set = *slot;
  return WAFER_OK;
}

wafer_status layouts_open_kernel(layouts *l, uint32_t k, const sized_kernel *greedy) {
  layout_tables *t = l->known;
  l->bodies[k] = size_with_depths(&l->graph->kernels[k].body, greedy->depths);
  size_t n = put_kernel(l, k, true, t->key);
  n = put_bytes(t->key, n, greedy->point, sizeof *greedy->point);
  void **slot = intern_slot(t->asked, t->key, n * sizeof *t->key);
  if (!slot) return layouts_no_memory(l);
  if (!*slot) {
    options *set = WAFER_NEW(l->ctx->arena, options, 1);
    if (!set) return layouts_no_memory(l);
    WAFER_TRY(find_options(l, k, greedy, set));
    l->options[k] = set;
    WAFER_TRY(share_content(l, k, &l->options[k]));
    *slot = (void *)(uintptr_t)l->options[k];
  }
  l->options[k] = *slot;
  return WAFER_OK;
}

/* ---- Exchanges ---- */

static uint64_t exchange(const layouts *l, uint32_t value, const wafer_holding *from,
                         const wafer_holding *to, wafer_dtype storage) {
  const wafer_type *type = &l->graph->values[value].type;
  if (wafer_holding_equal(from, to)) return 0;
  return relayout_cycles(l->ctx->machine, from, to, &type->shape, stream_words(type, storage));
}

/* Over all values that the user takes from the producer. */
static uint64_t edge_cycles(const layouts *l, const layout_edge *e, const option *from,
                            const option *to) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[e->user];
  uint32_t outputs = l->bodies[e->producer].input_count;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer != e->producer) continue;
    const wafer_holding left = holding_of(l, from, outputs + v->output),
                        want = holding_of(l, to, i);
    sum += exchange(l, kernel->inputs[i], &left, &want, kernel->body.storage);
  }
  return sum;
}

uint64_t layouts_edge_cycles(const layouts *l, const layout_edge *e, uint32_t from, uint32_t to) {
  const options *up = l->options[e->producer], *down = l->options[e->user];
  uint64_t *known = e->table->cycles ? &e->table->cycles[from * down->count + to] : NULL;
  if (known && *known != UNKNOWN) return *known;
  uint64_t cycles = edge_cycles(l, e, &up->at[from], &down->at[to]);
  if (known) *known = cycles;
  return cycles;
}

static layout_table *table_of(const layouts *l, const layout_edge *e) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[e->user];
  layout_tables *t = l->known;
  size_t n = 0;
  t->key[n++] = (uint64_t)(uintptr_t)l->options[e->producer];
  t->key[n++] = (uint64_t)(uintptr_t)l->options[e->user];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    bool passes = !kernel->body.input_is_weight[i] && v->producer == e->producer;
    t->key[n++] = passes ? 1 + (uint64_t)v->output : 0;
  }
  void **slot = intern_slot(t->edges, t->key, n * sizeof *t->key);
  if (slot && !*slot) *slot = WAFER_NEW(l->ctx->arena, layout_table, 1);
  return slot ? *slot : NULL;
}

wafer_status layouts_open_edge(layouts *l, layout_edge *e, bool all) {
  layout_table *t = e->table = table_of(l, e);
  if (!t) return layouts_no_memory(l);
  if (t->cycles || (!t->met++ && !all)) return WAFER_OK; /* a table pays when it is used again */
  size_t entries = (size_t)l->options[e->producer]->count * l->options[e->user]->count;
  t->cycles = WAFER_NEW(l->ctx->arena, uint64_t, entries);
  if (!t->cycles) return layouts_no_memory(l);
  for (size_t i = 0; i < entries; i++) t->cycles[i] = UNKNOWN;
  return WAFER_OK;
}

/* ---- All together ---- */

wafer_status layouts_open(layouts *l) {
  wafer_arena *arena = l->ctx->arena;
  uint32_t most = 0;
  for (uint32_t k = 0; k < l->graph->kernel_count; k++) {
    const wafer_kernel_body *body = &l->graph->kernels[k].body;
    if (body->input_count + body->output_count > most)
      most = body->input_count + body->output_count;
  }
  size_t words = 3 + 2 * (size_t)most + sizeof(wafer_shape_point) / sizeof(uint64_t) +
                 LAYOUT_MOST_OPTIONS * sizeof(wafer_split) / sizeof(uint64_t);
  l->options = WAFER_NEW(arena, const options *, l->graph->kernel_count);
  l->bodies = WAFER_NEW(arena, wafer_kernel_body, l->graph->kernel_count);
  layout_tables *t = l->known = WAFER_NEW(arena, layout_tables, 1);
  if (!t || !l->options || !l->bodies || !(t->key = WAFER_NEW(arena, uint64_t, words)) ||
      !(t->asked = intern_create(arena)) || !(t->content = intern_create(arena)) ||
      !(t->edges = intern_create(arena)) || !size_whole_wafer(l->ctx->machine, &l->whole))
    return layouts_no_memory(l);
  return WAFER_OK;
}
