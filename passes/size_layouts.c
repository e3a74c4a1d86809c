/* Weight streaming: the shapes of all phases chosen together.
 *
 * Where a kernel wants its inputs otherwise than their producers left them, they are exchanged
 * first, and that may take longer than the kernel. So a phase's shape is weighed with those of its
 * neighbours: least is the sum of all phases' cycles and of the exchanges between them. Along a
 * tree, each kernel hanging on the producer that ran last, that sum has an exact minimum: from the
 * last kernel to the first, each finds its best shape for every shape of its parent. Other edges
 * are weighed with the shapes of the round before; rounds go on as long as the sum falls. A chain
 * needs one. What the cores can hold beside the kernel is looked at afterwards (size_streaming.c).
 *
 * A kernel's shapes are some of its curve, few for each size, and splits under which it takes an
 * input just as a shape of the parent leaves it. */
#include <string.h>

#include "size.h"
#include "streams.h"

#define CURVE_OPTIONS 48 /* of a kernel, from its curve */
#define BUCKET_OPTIONS 4 /* of them, with about as many cores */
#define MOST_OPTIONS 96
#define ROUNDS 6

/* A shape and the layouts that come with it. */
typedef struct option {
  const wafer_shape_point *point;
  uint64_t own; /* cycles, with what comes from the edge, and what weights lack lanes */
  wafer_holding *in, *out;
} option;

typedef struct choice {
  wafer_kernel_body body;
  uint32_t count, parent; /* kernel, or WAFER_NONE */
  option *at;
  uint64_t *tree; /* [option of the parent][option]: exchanges between them */
  uint64_t *base, *message;
  uint32_t *best; /* for each option of the parent */
  uint32_t chosen, kept;
} choice;

typedef struct layouts {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  uint32_t batch;
  wafer_rect whole;
  choice *kernels;
} layouts;

static wafer_status no_memory(const layouts *l) {
  return wafer_fail(l->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory to choose layouts for weight streaming");
}

/* ---- Exchanges ---- */

static uint64_t exchange(const layouts *l, uint32_t value, const wafer_holding *from,
                         const wafer_holding *to, wafer_dtype storage) {
  const wafer_type *type = &l->graph->values[value].type;
  if (wafer_holding_equal(from, to)) return 0;
  return relayout_cycles(l->ctx->machine, from, to, &type->shape, stream_words(type, storage));
}

/* Between an option of a producer and one of kernel k, over all values that k takes from it. */
static uint64_t edge_cost(const layouts *l, uint32_t producer, const option *from, uint32_t k,
                          const option *to) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer != producer) continue;
    sum += exchange(l, kernel->inputs[i], &from->out[v->output], &to->in[i], kernel->body.storage);
  }
  return sum;
}

/* Cycles to bring what the model's inputs give. */
static uint64_t from_edge(const layouts *l, uint32_t k, const option *to) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  const wafer_holding edge = {.where = WAFER_AT_edge};
  const wafer_machine *m = l->ctx->machine;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer != WAFER_NONE) continue;
    uint64_t words = stream_words(&v->type, kernel->body.storage);
    sum += stream_cycles(m, &edge, &to->in[i], words) +
           stream_latency(m, &edge, &to->in[i], to->point->width);
  }
  return sum;
}

/* ---- Options ---- */

/* Half of what weights take longer than on the highest shape: the other half may pass while the
 * phase before works. */
static uint64_t weights_late(const layouts *l, uint32_t k, const wafer_shape_point *point) {
  const wafer_machine *m = l->ctx->machine;
  wafer_shape_point highest = *point;
  highest.height = l->whole.height;
  const wafer_kernel_body *body = &l->kernels[k].body;
  return (size_weight_cycles(m, body, point) - size_weight_cycles(m, body, &highest)) / 2;
}

static wafer_status add_option(layouts *l, uint32_t k, const wafer_shape_point *point) {
  choice *c = &l->kernels[k];
  option *o = &c->at[c->count];
  const wafer_kernel_body *body = &c->body;
  wafer_rect rect = {l->whole.x, l->whole.y, point->width, point->height};
  *o = (option){.point = point,
                .in = WAFER_NEW(l->ctx->arena, wafer_holding, body->input_count),
                .out = WAFER_NEW(l->ctx->arena, wafer_holding, body->output_count)};
  if ((body->input_count && !o->in) || !o->out) return no_memory(l);
  for (uint32_t i = 0; i < body->input_count; i++)
    o->in[i] =
        (wafer_holding){WAFER_AT_wafer, rect, wafer_kernel_input_layout(body, &point->split, i)};
  for (uint32_t i = 0; i < body->output_count; i++)
    o->out[i] =
        (wafer_holding){WAFER_AT_wafer, rect, wafer_kernel_output_layout(body, &point->split, i)};
  o->own = point->cycles + from_edge(l, k, o) + weights_late(l, k, point);
  c->count++;
  return WAFER_OK;
}

static bool has_split(const choice *c, const wafer_split *split) {
  for (uint32_t i = 0; i < c->count; i++)
    if (!memcmp(&c->at[i].point->split, split, sizeof *split)) return true;
  return false;
}

/* The fastest of the curve for each size, all in all CURVE_OPTIONS. */
static wafer_status add_curve(layouts *l, uint32_t k, const wafer_curve *curve) {
  choice *c = &l->kernels[k];
  uint32_t held[64] = {0};
  for (size_t i = 0; i < curve->count && c->count < CURVE_OPTIONS; i++) {
    uint64_t area = (uint64_t)curve->at[i].width * curve->at[i].height;
    uint32_t bucket = 63 - (uint32_t)__builtin_clzll(area);
    if (held[bucket] == BUCKET_OPTIONS || has_split(c, &curve->at[i].split)) continue;
    held[bucket]++;
    WAFER_TRY(add_option(l, k, &curve->at[i]));
  }
  return WAFER_OK;
}

/* The dim of input `input` that loop `loop` cuts; WAFER_MAX_RANK: none. */
static uint32_t dim_of(const choice *c, uint32_t input, uint32_t loop) {
  wafer_split split;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split.rows[i] = split.cols[i] = 1;
  split.rows[loop] = 2;
  wafer_layout layout = wafer_kernel_input_layout(&c->body, &split, input);
  for (uint32_t d = 0; d < layout.rank; d++)
    if (layout.rows[d] > 1) return d;
  return WAFER_MAX_RANK;
}

/* Cuts loops as `want` cuts the dims of the input. What rows or columns are left over, as where the
 * value is repeated, cut a loop that the input does not have. */
static void split_like(const choice *c, const wafer_loops *loops, uint32_t input,
                       const wafer_holding *want, wafer_split *split) {
  bool taken[WAFER_MAX_RANK + 1] = {false};
  uint32_t height = want->rect.height, width = want->rect.width;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split->rows[i] = split->cols[i] = 1;
  for (uint32_t d = 0; d < want->layout.rank; d++) {
    height /= want->layout.rows[d];
    width /= want->layout.cols[d];
  }
  for (uint32_t i = 0; i < loops->count; i++) {
    if (!loops->divisible[i] || loops->extent[i] < 2) continue;
    uint32_t d = dim_of(c, input, i);
    if (d < WAFER_MAX_RANK && !taken[d]) {
      split->rows[i] = want->layout.rows[d];
      split->cols[i] = want->layout.cols[d];
      taken[d] = true;
    } else if (d == WAFER_MAX_RANK && (height > 1 || width > 1) &&
               (int64_t)height * width <= loops->extent[i]) {
      split->rows[i] = height;
      split->cols[i] = width;
      height = width = 1;
    }
  }
}

static bool is_possible(const wafer_loops *loops, const wafer_split *split) {
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    uint64_t parts = (uint64_t)split->rows[i] * split->cols[i];
    if (parts > 1 &&
        (i >= loops->count || !loops->divisible[i] || parts > (uint64_t)loops->extent[i]))
      return false;
  }
  return true;
}

/* A split under which the input lies as an option of the producer leaves it, if there is one. */
static wafer_status add_like(layouts *l, uint32_t k, uint32_t input, const wafer_holding *want) {
  choice *c = &l->kernels[k];
  wafer_loops loops;
  wafer_cost cost;
  wafer_shape_point p = {.width = want->rect.width, .height = want->rect.height};
  wafer_kernel_loops(&c->body, &loops);
  split_like(c, &loops, input, want, &p.split);
  if (!is_possible(&loops, &p.split) || has_split(c, &p.split) ||
      wafer_split_width(&p.split) != p.width || wafer_split_height(&p.split) != p.height)
    return WAFER_OK;
  wafer_layout layout = wafer_kernel_input_layout(&c->body, &p.split, input);
  if (!wafer_layout_equal(&layout, &want->layout)) return WAFER_OK;
  wafer_kernel_cost(l->ctx->machine, &c->body, &p.split, &cost);
  p.cycles = cost.cycles;
  p.bytes = wafer_cost_bytes(&cost);
  if (p.bytes > wafer_machine_core_budget(l->ctx->machine)) return WAFER_OK;
  const wafer_shape_point *kept = wafer_arena_copy(l->ctx->arena, &p, sizeof p);
  return kept ? add_option(l, k, kept) : no_memory(l);
}

static wafer_status add_likes(layouts *l, uint32_t k) {
  choice *c = &l->kernels[k];
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->inputs[i]];
    if (kernel->body.input_is_weight[i] || v->producer == WAFER_NONE) continue;
    const choice *from = &l->kernels[v->producer];
    for (uint32_t o = 0; o < from->count && c->count < MOST_OPTIONS; o++)
      WAFER_TRY(add_like(l, k, i, &from->at[o].out[v->output]));
  }
  return WAFER_OK;
}

/* ---- The tree ---- */

static uint32_t parent_of(const wafer_graph *g, uint32_t k) {
  uint32_t last = WAFER_NONE;
  for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
    uint32_t producer = g->values[g->kernels[k].inputs[i]].producer;
    if (producer != WAFER_NONE && (last == WAFER_NONE || producer > last)) last = producer;
  }
  return last;
}

/* Not where memory was so short that weights, or samples, wait for room. */
static bool is_free(const layouts *l, const wafer_kernel_body *body, const uint32_t *depths) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (depths[i] && depths[i] != (body->input_is_weight[i] ? SIZE_WEIGHT_DEPTH : l->batch))
      return false;
  return true;
}

static wafer_status open_kernel(layouts *l, uint32_t k, const sized_kernel *greedy) {
  choice *c = &l->kernels[k];
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  wafer_arena *arena = l->ctx->arena;
  c->at = WAFER_NEW(arena, option, MOST_OPTIONS);
  if (!c->at) return no_memory(l);
  c->body = size_with_depths(&kernel->body, greedy->depths);
  c->parent = parent_of(l->graph, k);
  WAFER_TRY(add_option(l, k, greedy->point));
  if (!is_free(l, &kernel->body, greedy->depths)) return WAFER_OK;
  const wafer_curve *curve;
  uint64_t budget = wafer_machine_core_budget(l->ctx->machine);
  WAFER_TRY(curve_of(l->ctx->diag, l->curves, &c->body, budget, 0, &curve));
  WAFER_TRY(add_curve(l, k, curve));
  return add_likes(l, k);
}

static wafer_status open_tree(layouts *l, uint32_t k) {
  choice *c = &l->kernels[k];
  wafer_arena *arena = l->ctx->arena;
  const choice *up = c->parent == WAFER_NONE ? NULL : &l->kernels[c->parent];
  uint32_t rows = up ? up->count : 1;
  c->tree = WAFER_NEW(arena, uint64_t, (size_t)rows * c->count);
  c->base = WAFER_NEW(arena, uint64_t, c->count);
  c->message = WAFER_NEW(arena, uint64_t, rows);
  c->best = WAFER_NEW(arena, uint32_t, rows);
  if (!c->tree || !c->base || !c->message || !c->best) return no_memory(l);
  for (uint32_t p = 0; up && p < rows; p++)
    for (uint32_t o = 0; o < c->count; o++)
      c->tree[p * c->count + o] = edge_cost(l, c->parent, &up->at[p], k, &c->at[o]);
  return WAFER_OK;
}

/* ---- Rounds ---- */

/* Edges of kernel k to producers besides its parent, with their present shapes; the same producer
 * is met once. */
static uint64_t other_inputs(const layouts *l, uint32_t k, const option *o) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t producer = l->graph->values[kernel->inputs[i]].producer;
    bool met = producer == WAFER_NONE || producer == l->kernels[k].parent;
    for (uint32_t j = 0; j < i && !met; j++)
      met = l->graph->values[kernel->inputs[j]].producer == producer;
    if (met) continue;
    const choice *from = &l->kernels[producer];
    sum += edge_cost(l, producer, &from->at[from->chosen], k, o);
  }
  return sum;
}

static bool met_before(const layouts *l, uint32_t k, uint32_t output, uint32_t use, uint32_t user) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  for (uint32_t i = 0; i <= output; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->outputs[i]];
    for (uint32_t u = 0; u < (i == output ? use : v->use_count); u++)
      if (v->uses[u].kernel == user) return true;
  }
  return false;
}

/* Edges to consumers that hang on another producer. */
static uint64_t other_outputs(const layouts *l, uint32_t k, const option *o) {
  const wafer_graph_kernel *kernel = &l->graph->kernels[k];
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.output_count; i++) {
    const wafer_graph_value *v = &l->graph->values[kernel->outputs[i]];
    for (uint32_t u = 0; u < v->use_count; u++) {
      uint32_t user = v->uses[u].kernel;
      const choice *to = &l->kernels[user];
      if (to->parent == k || met_before(l, k, i, u, user)) continue;
      sum += edge_cost(l, k, o, user, &to->at[to->chosen]);
    }
  }
  return sum;
}

static uint64_t total(const layouts *l) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < l->graph->kernel_count; k++) {
    const choice *c = &l->kernels[k];
    const option *o = &c->at[c->chosen];
    sum += o->own + other_inputs(l, k, o);
    if (c->parent != WAFER_NONE)
      sum += c->tree[l->kernels[c->parent].chosen * c->count + c->chosen];
  }
  return sum;
}

static void send_message(choice *c, uint32_t rows) {
  for (uint32_t p = 0; p < rows; p++) {
    c->message[p] = UINT64_MAX;
    for (uint32_t o = 0; o < c->count; o++) {
      uint64_t cost = c->base[o] + c->tree[p * c->count + o];
      if (cost >= c->message[p]) continue;
      c->message[p] = cost;
      c->best[p] = o;
    }
  }
}

/* The best shapes, edges beside the tree as they were. */
static void round_of(layouts *l) {
  uint32_t n = l->graph->kernel_count;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t o = 0; o < l->kernels[k].count; o++) {
      const option *at = &l->kernels[k].at[o];
      l->kernels[k].base[o] = at->own + other_inputs(l, k, at) + other_outputs(l, k, at);
    }
  for (uint32_t k = n; k-- > 0;) {
    choice *c = &l->kernels[k], *up = c->parent == WAFER_NONE ? NULL : &l->kernels[c->parent];
    send_message(c, up ? up->count : 1);
    for (uint32_t p = 0; up && p < up->count; p++) up->base[p] += c->message[p];
  }
  for (uint32_t k = 0; k < n; k++) {
    choice *c = &l->kernels[k];
    c->chosen = c->best[c->parent == WAFER_NONE ? 0 : l->kernels[c->parent].chosen];
  }
}

wafer_status size_layouts(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                          uint32_t batch, const sized_kernel *greedy,
                          const wafer_shape_point **wished) {
  uint32_t n = graph->kernel_count;
  layouts l = {.ctx = ctx, .graph = graph, .curves = curves, .batch = batch};
  l.kernels = WAFER_NEW(ctx->arena, choice, n);
  if (!l.kernels || !size_whole_wafer(ctx->machine, &l.whole)) return no_memory(&l);
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(open_kernel(&l, k, &greedy[k]));
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(open_tree(&l, k));
  uint64_t least = total(&l);
  for (uint32_t r = 0; r < ROUNDS; r++) {
    round_of(&l);
    uint64_t now = total(&l);
    if (now >= least) break;
    least = now;
    for (uint32_t k = 0; k < n; k++) l.kernels[k].kept = l.kernels[k].chosen;
  }
  for (uint32_t k = 0; k < n; k++) {
    const choice *c = &l.kernels[k];
    wished[k] = c->count > 1 ? c->at[c->kept].point : NULL;
  }
  return WAFER_OK;
}
