/* Weight streaming: the shapes of all phases chosen together.
 *
 * Where a kernel wants its inputs otherwise than their producers left them, they are exchanged
 * first, and that may take longer than the kernel. So a phase's shape is weighed with those of its
 * neighbours: least is the sum of all phases' cycles and of the exchanges between them. Along a
 * tree, each kernel hanging on the producer that ran last, that sum has an exact minimum: from the
 * last kernel to the first, each finds its best shape for every shape of its parent. Other edges
 * are weighed with the shapes of the round before; rounds go on as long as the sum falls. A chain
 * needs one. What the cores can hold beside the kernel is looked at afterwards (size_streaming.c);
 * where that is little, what shapes leave behind for later kernels has a price by bytes and phases.
 * size_options.c says which shapes are weighed. */
#include "size_layouts.h"

#define ROUNDS 6

/* A kernel in the tree. */
typedef struct choice {
  uint32_t parent;                                   /* kernel, or WAFER_NONE */
  layout_edge up;                                    /* from the parent, if there is one */
  uint32_t first_in, in_count, first_out, out_count; /* edges beside the tree */
  int64_t *base;                                     /* of each option, with all below it */
  uint8_t *best;                                     /* for each option of the parent */
  uint32_t chosen, kept;
} choice;

_Static_assert(LAYOUT_MOST_OPTIONS <= UINT8_MAX, "choice.best numbers options");

struct size_forest {
  layouts l;
  choice *kernels;
  layout_edge *in;          /* by user */
  uint32_t *out;            /* numbers of `in`, by producer */
  uint64_t price;           /* 1024ths of a cycle for a byte on each core through a phase */
  const uint32_t *last_use; /* value: the last kernel that needs it */
};
typedef struct size_forest forest;

static const layout_options *options_of(const forest *f, uint32_t k) {
  return f->l.options[k];
}

/* ---- Edges ---- */

static uint32_t producer_of(const wafer_graph *g, uint32_t k, uint32_t input) {
  return g->values[g->kernels[k].inputs[input]].producer;
}

static uint32_t parent_of(const wafer_graph *g, uint32_t k) {
  uint32_t last = WAFER_NONE;
  for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
    uint32_t producer = producer_of(g, k, i);
    if (producer != WAFER_NONE && (last == WAFER_NONE || producer > last)) last = producer;
  }
  return last;
}

/* Whether input i is the kernel's first one from a producer that is not its parent. */
static bool starts_edge(const forest *f, uint32_t k, uint32_t input) {
  const wafer_graph *g = f->l.graph;
  uint32_t producer = producer_of(g, k, input);
  if (producer == WAFER_NONE || producer == f->kernels[k].parent) return false;
  for (uint32_t j = 0; j < input; j++)
    if (producer_of(g, k, j) == producer) return false;
  return true;
}

static wafer_status open_edges(forest *f) {
  const wafer_graph *g = f->l.graph;
  size_t most = 0;
  uint32_t count = 0, before = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++) most += g->kernels[k].body.input_count;
  f->in = WAFER_NEW(f->l.ctx->arena, layout_edge, most);
  f->out = WAFER_NEW(f->l.ctx->arena, uint32_t, most);
  if (!f->in || !f->out) return layouts_no_memory(&f->l);
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    choice *c = &f->kernels[k];
    c->parent = parent_of(g, k);
    c->up = (layout_edge){.producer = c->parent, .user = k};
    if (c->parent != WAFER_NONE) WAFER_TRY(layouts_open_edge(&f->l, &c->up, true));
    c->first_in = count;
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
      if (!starts_edge(f, k, i)) continue;
      layout_edge *e = &f->in[count++];
      *e = (layout_edge){.producer = producer_of(g, k, i), .user = k};
      WAFER_TRY(layouts_open_edge(&f->l, e, false));
      f->kernels[e->producer].out_count++;
    }
    c->in_count = count - c->first_in;
  }
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    f->kernels[k].first_out = before;
    before += f->kernels[k].out_count;
    f->kernels[k].out_count = 0;
  }
  for (uint32_t i = 0; i < count; i++) {
    choice *c = &f->kernels[f->in[i].producer];
    f->out[c->first_out + c->out_count++] = i;
  }
  return WAFER_OK;
}

static wafer_status open_kernel(forest *f, uint32_t k) {
  choice *c = &f->kernels[k];
  uint32_t rows = c->parent == WAFER_NONE ? 1 : options_of(f, c->parent)->count;
  c->base = WAFER_NEW(f->l.ctx->arena, int64_t, options_of(f, k)->count);
  c->best = WAFER_NEW(f->l.ctx->arena, uint8_t, rows);
  return c->base && c->best ? WAFER_OK : layouts_no_memory(&f->l);
}

/* ---- Memory ---- */

/* What a copy of a value costs while kernels behind k run; `place`: among the option's layouts. */
static uint64_t copy_price(const forest *f, uint32_t k, const layout_option *o, uint32_t place,
                           uint32_t value) {
  uint32_t last = f->last_use[value];
  if (!f->price || last == WAFER_NONE || last <= k) return 0;
  const wafer_type *type = &f->l.graph->values[value].type;
  uint64_t bytes = wafer_layout_tile(&o->lie[place], &type->shape) *
                   wafer_stored_bytes(type->dtype, f->l.bodies[k].storage);
  return f->price * f->l.batch * bytes * (last - k) / 1024;
}

static uint64_t output_price(const forest *f, uint32_t k, uint32_t option) {
  const wafer_graph_kernel *kernel = &f->l.graph->kernels[k];
  const layout_option *o = &options_of(f, k)->at[option];
  uint64_t sum = 0;
  for (uint32_t i = 0; f->price && i < kernel->body.output_count; i++)
    sum += copy_price(f, k, o, kernel->body.input_count + i, kernel->outputs[i]);
  return sum;
}

/* Of what the kernel takes from a producer otherwise than it lies. */
static uint64_t input_price(const forest *f, uint32_t producer, uint32_t k, uint32_t option) {
  const wafer_graph_kernel *kernel = &f->l.graph->kernels[k];
  const layout_option *o = &options_of(f, k)->at[option];
  uint64_t sum = 0;
  for (uint32_t i = 0; f->price && i < kernel->body.input_count; i++)
    if (!kernel->body.input_is_weight[i] && producer_of(f->l.graph, k, i) == producer)
      sum += copy_price(f, k, o, i, kernel->inputs[i]);
  return sum;
}

/* An exchange, and the copy that it makes; `copy`: input_price of option `to`. */
static uint64_t edge_cost(const forest *f, const layout_edge *e, uint32_t from, uint32_t to,
                          uint64_t copy) {
  uint64_t cycles = layouts_edge_cycles(&f->l, e, from, to);
  return cycles ? cycles + copy : 0;
}

/* ---- Rounds ---- */

/* Edges of kernel k to producers besides its parent, with their present shapes. */
static uint64_t other_inputs(const forest *f, uint32_t k, uint32_t o) {
  const choice *c = &f->kernels[k];
  uint64_t sum = 0;
  for (const layout_edge *e = &f->in [c->first_in]; e < &f->in[c->first_in + c->in_count]; e++)
    sum += edge_cost(f, e, f->kernels[e->producer].chosen, o, input_price(f, e->producer, k, o));
  return sum;
}

/* Edges to consumers that hang on another producer. */
static uint64_t other_outputs(const forest *f, uint32_t k, uint32_t o) {
  const choice *c = &f->kernels[k];
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->out_count; i++) {
    const layout_edge *e = &f->in[f->out[c->first_out + i]];
    uint32_t to = f->kernels[e->user].chosen;
    sum += edge_cost(f, e, o, to, input_price(f, k, e->user, to));
  }
  return sum;
}

static int64_t total(const forest *f) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < f->l.graph->kernel_count; k++) {
    const choice *c = &f->kernels[k];
    sum += options_of(f, k)->at[c->chosen].own +
           (int64_t)(output_price(f, k, c->chosen) + other_inputs(f, k, c->chosen));
    if (c->parent != WAFER_NONE)
      sum += (int64_t)edge_cost(f, &c->up, f->kernels[c->parent].chosen, c->chosen,
                                input_price(f, c->parent, k, c->chosen));
  }
  return sum;
}

/* Options by what they cost below, the cheapest first. */
static void sort_by_base(const int64_t *base, uint32_t count, uint8_t *order) {
  for (uint32_t o = 0; o < count; o++) {
    uint32_t at = o;
    for (; at > 0 && base[order[at - 1]] > base[o]; at--) order[at] = order[at - 1];
    order[at] = (uint8_t)o;
  }
}

/* The best option for each of the parent's, whose base then counts it; of equal ones the first. No
 * edge makes an option cheaper than it is. */
static void send_message(const forest *f, uint32_t k) {
  choice *c = &f->kernels[k];
  bool root = c->parent == WAFER_NONE;
  uint32_t rows = root ? 1 : options_of(f, c->parent)->count, count = options_of(f, k)->count;
  uint64_t copy[LAYOUT_MOST_OPTIONS];
  uint8_t order[LAYOUT_MOST_OPTIONS];
  for (uint32_t o = 0; !root && o < count; o++) copy[o] = input_price(f, c->parent, k, o);
  sort_by_base(c->base, count, order);
  for (uint32_t p = 0; p < rows; p++) {
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < count && c->base[order[i]] <= least; i++) {
      uint8_t o = order[i];
      int64_t cost = c->base[o] + (root ? 0 : (int64_t)edge_cost(f, &c->up, p, o, copy[o]));
      if (cost > least || (cost == least && o > c->best[p])) continue;
      least = cost;
      c->best[p] = o;
    }
    if (!root) f->kernels[c->parent].base[p] += least;
  }
}

/* The best shapes, edges beside the tree as they were. */
static void round_of(forest *f) {
  uint32_t n = f->l.graph->kernel_count;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t o = 0; o < options_of(f, k)->count; o++)
      f->kernels[k].base[o] =
          options_of(f, k)->at[o].own +
          (int64_t)(output_price(f, k, o) + other_inputs(f, k, o) + other_outputs(f, k, o));
  for (uint32_t k = n; k-- > 0;) send_message(f, k);
  for (uint32_t k = 0; k < n; k++) {
    choice *c = &f->kernels[k];
    c->chosen = c->best[c->parent == WAFER_NONE ? 0 : f->kernels[c->parent].chosen];
  }
}

static wafer_status grow(forest *f, const sized_kernel *greedy) {
  uint32_t n = f->l.graph->kernel_count;
  f->kernels = WAFER_NEW(f->l.ctx->arena, choice, n);
  if (!f->kernels) return layouts_no_memory(&f->l);
  WAFER_TRY(layouts_open(&f->l));
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(layouts_open_kernel(&f->l, k, &greedy[k]));
  WAFER_TRY(open_edges(f));
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(open_kernel(f, k));
  return WAFER_OK;
}

wafer_status size_layouts_open(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                               uint32_t resident, uint32_t stripes, const sized_kernel *greedy,
                               const size_waste *waste, bool spread, const uint32_t *last_use,
                               size_forest **out) {
  forest *f = *out = WAFER_NEW(ctx->arena, forest, 1);
  if (!f)
    return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                      "no memory to choose layouts for weight streaming");
  *f = (forest){.l = {ctx, graph, curves, .batch = resident, .stripes = stripes, .waste = *waste,
                      .spread = spread},
                .last_use = last_use};
  return grow(f, greedy);
}

void size_layouts(size_forest *f, uint64_t price, const wafer_shape_point **wished) {
  uint32_t n = f->l.graph->kernel_count;
  f->price = price;
  for (uint32_t k = 0; k < n; k++) f->kernels[k].chosen = f->kernels[k].kept = 0;
  int64_t least = total(f);
  for (uint32_t r = 0; r < ROUNDS; r++) {
    round_of(f);
    int64_t now = total(f);
    if (now >= least) break;
    least = now;
    for (uint32_t k = 0; k < n; k++) f->kernels[k].kept = f->kernels[k].chosen;
  }
  for (uint32_t k = 0; k < n; k++) {
    const layout_options *set = options_of(f, k);
    wished[k] = set->count > 1 ? set->at[f->kernels[k].kept].point : NULL;
  }
}
