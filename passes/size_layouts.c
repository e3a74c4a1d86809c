/* Weight streaming: the shapes of all phases chosen together.
 *
 * Where a kernel wants its inputs otherwise than their producers left them, they are exchanged
 * first, and that may take longer than the kernel. So a phase's shape is weighed with those of its
 * neighbours: least is the sum of all phases' cycles and of the exchanges between them. Along a
 * tree, each kernel hanging on the producer that ran last, that sum has an exact minimum: from the
 * last kernel to the first, each finds its best shape for every shape of its parent. Other edges
 * are weighed with the shapes of the round before; rounds go on as long as the sum falls. A chain
 * needs one. What the cores can hold beside the kernel is looked at afterwards (size_streaming.c).
 * size_options.c says which shapes are weighed. */
#include "size_layouts.h"

#define ROUNDS 6

/* A kernel in the tree. */
typedef struct choice {
  uint32_t parent;                                   /* kernel, or WAFER_NONE */
  layout_edge up;                                    /* from the parent, if there is one */
  uint32_t first_in, in_count, first_out, out_count; /* edges beside the tree */
  uint64_t *base;                                    /* of each option, with all below it */
  uint8_t *best;                                     /* for each option of the parent */
  uint32_t chosen, kept;
} choice;

_Static_assert(LAYOUT_MOST_OPTIONS <= UINT8_MAX, "choice.best numbers options");

typedef struct forest {
  layouts l;
  choice *kernels;
  layout_edge *in; /* by user */
  uint32_t *out;   /* numbers of `in`, by producer */
} forest;

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
  c->base = WAFER_NEW(f->l.ctx->arena, uint64_t, options_of(f, k)->count);
  c->best = WAFER_NEW(f->l.ctx->arena, uint8_t, rows);
  return c->base && c->best ? WAFER_OK : layouts_no_memory(&f->l);
}

/* ---- Rounds ---- */

/* Edges of kernel k to producers besides its parent, with their present shapes. */
static uint64_t other_inputs(const forest *f, uint32_t k, uint32_t o) {
  const choice *c = &f->kernels[k];
  uint64_t sum = 0;
  for (const layout_edge *e = &f->in [c->first_in]; e < &f->in[c->first_in + c->in_count]; e++)
    sum += layouts_edge_cycles(&f->l, e, f->kernels[e->producer].chosen, o);
  return sum;
}

/* Edges to consumers that hang on another producer. */
static uint64_t other_outputs(const forest *f, uint32_t k, uint32_t o) {
  const choice *c = &f->kernels[k];
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->out_count; i++) {
    const layout_edge *e = &f->in[f->out[c->first_out + i]];
    sum += layouts_edge_cycles(&f->l, e, o, f->kernels[e->user].chosen);
  }
  return sum;
}

static uint64_t total(const forest *f) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < f->l.graph->kernel_count; k++) {
    const choice *c = &f->kernels[k];
    sum += options_of(f, k)->at[c->chosen].own + other_inputs(f, k, c->chosen);
    if (c->parent != WAFER_NONE)
      sum += layouts_edge_cycles(&f->l, &c->up, f->kernels[c->parent].chosen, c->chosen);
  }
  return sum;
}

/* The best option for each of the parent's, whose base then counts it. */
static void send_message(const forest *f, uint32_t k) {
  choice *c = &f->kernels[k];
  bool root = c->parent == WAFER_NONE;
  uint32_t rows = root ? 1 : options_of(f, c->parent)->count;
  for (uint32_t p = 0; p < rows; p++) {
    uint64_t least = UINT64_MAX;
    for (uint32_t o = 0; o < options_of(f, k)->count; o++) {
      uint64_t cost = c->base[o] + (root ? 0 : layouts_edge_cycles(&f->l, &c->up, p, o));
      if (cost >= least) continue;
      least = cost;
      c->best[p] = (uint8_t)o;
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
          options_of(f, k)->at[o].own + other_inputs(f, k, o) + other_outputs(f, k, o);
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

wafer_status size_layouts(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                          uint32_t batch, const sized_kernel *greedy,
                          const wafer_shape_point **wished) {
  forest f = {.l = {.ctx = ctx, .graph = graph, .curves = curves, .batch = batch}};
  uint32_t n = graph->kernel_count;
  WAFER_TRY(grow(&f, greedy));
  uint64_t least = total(&f);
  for (uint32_t r = 0; r < ROUNDS; r++) {
    round_of(&f);
    uint64_t now = total(&f);
    if (now >= least) break;
    least = now;
    for (uint32_t k = 0; k < n; k++) f.kernels[k].kept = f.kernels[k].chosen;
  }
  for (uint32_t k = 0; k < n; k++) {
    const layout_options *set = options_of(&f, k);
    wished[k] = set->count > 1 ? set->at[f.kernels[k].kept].point : NULL;
  }
  return WAFER_OK;
}
