/* Sizing: what `mode` costs for both alternatives and `size` writes for the chosen one. */
#ifndef WAFER_PASSES_SIZE_H
#define WAFER_PASSES_SIZE_H

#include "split_costs.h"
#include "wafer/graph.h"

#define SIZE_PIPELINE_DEPTH 2 /* double buffers, at least, between kernels of a pipeline */
#define SIZE_WEIGHT_DEPTH 2   /* of streamed weights: the next ones arrive while these are used */

/* ---- Shape curves, one per distinct kernel ---- */

typedef struct curve_set curve_set;
/* The curves made so far for this compilation and machine: `size` finds those of `mode`. NULL: out
 * of memory. */
curve_set *curve_set_of(const wafer_ctx *ctx, wafer_ir *ir);
/* Those of one of `stripes` stripes alike of the wafer: a machine of its own. NULL: out of memory.
 */
curve_set *curve_set_stripe(curve_set *set, uint32_t stripes);
const wafer_machine *curve_set_machine(const curve_set *set);
/* Which curve of a body: within `budget` bytes per core, with what its streams need if `words` is
 * not 0; `lean` as in wafer_curve_options. Samples are dealt out to the copies of a split, and all
 * pass the rows of the first: `copied`, those as well that are worth having in many copies alone,
 * for their rows. */
typedef struct curve_query {
  uint64_t budget, words;
  bool lean, copied;
} curve_query;
/* Equal bodies share one. */
wafer_status curve_of(const wafer_diag *diag, curve_set *set, const wafer_kernel_body *body,
                      curve_query query, const wafer_curve **out);
/* Curves that will be asked for: threads find them side by side, one of each body, if there are
 * threads. */
typedef struct curve_wish {
  wafer_kernel_body body;
  curve_query query;
} curve_wish;
wafer_status curves_find(const wafer_diag *diag, curve_set *set, uint32_t count,
                         const curve_wish *wishes);

/* Threads of the compilation; NULL: the caller is alone. */
wafer_workers *curve_set_workers(curve_set *set);

/* Splits of a body, on a curve or not: what they take is found once. */
split_body curve_splits(const curve_set *set, const wafer_kernel_body *body);

/* How inputs, then outputs, lie under a point of a curve of the body, or one that was kept; made
 * once. NULL: out of memory. */
const wafer_layout *curve_layouts(curve_set *set, const wafer_kernel_body *body,
                                  const wafer_shape_point *point);
/* A point of bodies of that signature that lives as long as the curves do; NULL: out of memory. */
const wafer_shape_point *curve_keep_point(curve_set *set, uint64_t signature,
                                          const wafer_shape_point *point);
/* A curve with those points alone; NULL: out of memory. */
const wafer_curve *curve_part(curve_set *curves, const wafer_curve *of, const bool *keeps);
/* The same with these points, at most as many as it has room for; NULL: out of memory. */
const wafer_curve *curve_of_points(curve_set *curves, const wafer_curve *of, size_t count,
                                   const wafer_shape_point *points);

/* The pipeline's layout as a search found it, kept for `size` where `mode` looked for it. */
typedef struct shelf_place shelf_place;
const shelf_place *curve_set_layout(const curve_set *set, uint32_t count); /* NULL: none yet */
bool curve_set_keep_layout(curve_set *set, uint32_t count, const shelf_place *at);
void curve_set_forget_layout(curve_set *set);
void curve_sets_forget_layouts(wafer_ir *ir); /* of all machines */

/* ---- The result ---- */

typedef struct sized_kernel {
  const wafer_shape_point *point; /* NULL when the kernel fits nowhere */
  const uint32_t *depths;         /* of the inputs, then of the outputs */
  uint32_t replicas;              /* side by side; 0 is 1 */
  uint32_t phase;                 /* streaming: which it has, or shares with those next to it */
  uint32_t stays; /* streaming: inputs whose weight lies there from a phase before, a
                     bit each of the first WAFER_STAYING_INPUTS */
  const wafer_rect *rect;         /* where a search has put it; NULL: `place` says where */
} sized_kernel;
static inline bool size_stays(const sized_kernel *kernel, uint32_t input) {
  return input < WAFER_STAYING_INPUTS && kernel->stays >> input & 1;
}

/* What does not fit, when something does not. */
typedef struct size_refusal {
  uint32_t kernel;         /* the worst one */
  uint64_t asked, allowed; /* bytes per core; 0 when cores, not bytes, are short */
  const char *why;         /* the same as a sentence */
  uint32_t owner_count;    /* whose bytes they are, the most first; none when cores are short */
  const wafer_owner_bytes *owners;
} size_refusal;

/* A phase of weight streaming. */
typedef struct size_phase {
  uint64_t in, work,
      beat; /* cycles: inputs of a sample arrive, then it is computed and leaves; between samples */
  uint64_t leave;                                 /* of these, words go over the border */
  uint64_t weights;                               /* cycles until they have crossed the edge */
  uint64_t spread;                                /* and then until all cores have them */
  uint32_t ahead;                                 /* phases before it with which they set out */
  uint64_t fixed_bytes, sample_bytes, load_bytes; /* load_bytes: of its weights, once */
  uint64_t cores;
} size_phase;

typedef struct sizing {
  wafer_mode_cost cost;
  size_refusal refusal; /* when !cost.fits */
  sized_kernel *kernels;
  uint32_t phase_count;
  size_phase *phases;               /* streaming; room for one per kernel */
  uint32_t stripes, stripe_columns; /* streaming: as in wafer_plan */
  uint32_t kept,
      wanted; /* pipelined: kernels that stay where an earlier plan had them; that it had */
  uint64_t pace, edge; /* pipelined: cycles between samples where a core receives, computes and
                          sends in turn; those of a sample across the edge */
} sizing;

/* The sizing of weight streaming that was found for such a graph, so many samples in a stripe:
 * `size` asks for that of `mode` again. NULL: none. */
const sizing *curve_set_sizing(curve_set *set, const wafer_graph *graph, uint32_t resident);
bool curve_set_keep_sizing(curve_set *set, const wafer_graph *graph, uint32_t resident,
                           const sizing *found); /* false: out of memory */

/* `quick`: as good a layout as can be had at once, where one out of several is looked for. */
wafer_status size_pipelined(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                            bool quick, sizing *out);
/* `resident` samples in each of `stripes` stripes. */
wafer_status size_streaming(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                            uint32_t resident, uint32_t stripes, sizing *out);
/* Interval per sample of a streaming sizing with `resident` samples in a stripe; UINT64_MAX when
 * they do not fit. */
uint64_t size_streaming_interval(const wafer_machine *machine, const sizing *of, uint32_t resident);

/* Counts the non-zeros of the tiles of a sizing. *again: they want more room than was expected, so
 * the graph is to be read anew, and sized. */
wafer_status size_recount(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                          const sizing *of, bool *again);

/* What wasted cycles cost beside the time that they take. A product that wastes none makes up for
 * others that do, by what it is below `lean`, and by no more than so many 20ths of its own cycles:
 * a long product has credit for several short ones. */
typedef struct size_waste {
  int64_t worth;  /* 64ths of a cycle; 0: waste has no price */
  int64_t credit; /* 20ths */
  uint64_t lean;  /* thousandths of the non-zeros' part of the dense cycles that are no waste */
} size_waste;

/* The shapes that all kernels may have beside those of a sizing that took one after the other.
 * `spread`: the way of weights over the cores has a price. last_use[value]: the last kernel that
 * takes it. */
typedef struct size_forest size_forest;
wafer_status size_layouts_open(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                               uint32_t resident, uint32_t stripes, const sized_kernel *greedy,
                               const size_waste *waste, bool spread, const uint32_t *last_use,
                               size_forest **out);
/* For every kernel the one that makes phases and the exchanges between them shortest all in all;
 * NULL where that sizing's stays. Whether the cores hold them beside other values is not looked at,
 * but a copy of a value costs `price` 1024ths of a cycle for each of its bytes on a core and each
 * phase until its last use. */
void size_layouts(size_forest *forest, uint64_t price, const wafer_shape_point **wished);

/* Whether a kernel is a product, or a convolution, with a sparse weight. */
bool size_multiplies_sparse(const wafer_kernel_body *body);
/* The order of the weight that is dealt, 0: none is. Kernels share the points of their curves with
 * others whose weights have as many non-zeros, but not what lies in an order. */
uint32_t size_order(const wafer_kernel_body *body);
/* Multiply cycles of such a kernel, of its slowest core; none of others. Small tiles are uneven,
 * and what begins instructions takes as long as in a dense product, so the last cores bring little,
 * as do cores with few rows for each pair. */
typedef struct size_multiply {
  uint64_t cycles; /* with the non-zeros */
  uint64_t due;    /* the non-zeros' part of the dense ones */
  uint64_t dense;  /* with all elements of the weight */
} size_multiply;
size_multiply size_multiply_cycles(const wafer_machine *machine, const wafer_kernel_body *body,
                                   const wafer_split *split);
/* The same of a point of the set's curves, kept: prices ask for it again and again. */
size_multiply curve_multiply(curve_set *curves, const wafer_kernel_body *body,
                             const wafer_shape_point *point);
int64_t size_waste_price(const size_multiply *own, const size_waste *waste);

/* Cycles until all weights of a phase have arrived on a shape, one after the other: the lower it
 * is, the fewer lanes they have. `stays`: NULL, or whose weights that stay do not. */
uint64_t size_weight_cycles(const wafer_machine *machine, const wafer_kernel_body *body,
                            const wafer_shape_point *point, const sized_kernel *stays);

/* And then, until a weight has come to all cores that want it: spread_cycles. 0: no weight. */
uint64_t size_weight_spread(const wafer_machine *machine, const wafer_kernel_body *body,
                            uint32_t input, const wafer_holding *to);

/* An input from the edge, beside its stream: spread_cycles. Of kernels without sparse weights none:
 * their weights are on their way for longer than that. */
uint64_t size_spread_cycles(const wafer_machine *machine, const wafer_kernel_body *body,
                            const wafer_holding *to, const wafer_type *type);

/* Cycles of kernel k from its inputs' arrival until what leaves the wafer has left it; results that
 * leave in slices do so meanwhile. Of a sample in
 * every stripe. */
uint64_t size_work_cycles(const wafer_machine *machine, const wafer_graph *graph, uint32_t k,
                          const wafer_kernel_body *body, const wafer_shape_point *point,
                          uint32_t stripes);
/* What a shape is chosen by: those cycles and what they waste. */
int64_t size_own_price(curve_set *curves, const wafer_graph *graph, uint32_t k,
                       const wafer_kernel_body *body, const wafer_shape_point *point,
                       uint32_t stripes, const size_waste *waste);

/* What is looked for: of a piece of a model one sample at a time, since the next piece, or the
 * host, wants it before the sample after it begins. */
wafer_objective size_objective(const wafer_ctx *ctx, const wafer_graph *graph);
/* Whether --placer best looks for the pace of core programs, which will tell how fast a pipeline
 * is. */
bool size_seeks_pace(const wafer_ctx *ctx, const wafer_graph *graph);

/* ---- Shared pieces ---- */

/* Whether the plan will have core programs, as far as words tell: those of what kernels take, of
 * `batch` samples. Its cycles are then what programs take. */
bool size_gets_programs(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t batch);
/* size_gets_programs of a pipeline, whose kernels are one train of samples. */
bool size_gets_train(const wafer_ctx *ctx, const wafer_graph *graph);

/* What asks for a mode, as remedies say it: "--mode streaming". NULL: no memory. */
const char *size_mode_option(const wafer_ctx *ctx, wafer_mode mode);

/* The largest rectangle of usable cores without a dead or reserved one; the usable rectangle when
 * there are none. */
bool size_whole_wafer(const wafer_machine *machine, wafer_rect *out); /* false: out of memory */
/* Usable cores that are neither dead nor reserved. */
bool size_free_cores(const wafer_machine *machine, uint64_t *out); /* false: out of memory */
/* The body with other depths. */
wafer_kernel_body size_with_depths(const wafer_kernel_body *body, const uint32_t *depths);
wafer_split size_uncut(void);
/* The dim of an input, or behind them of an output, that the loop cuts; WAFER_MAX_RANK: none. */
uint32_t size_dim_of(const wafer_kernel_body *body, uint32_t place, uint32_t loop);
/* Whether any of its inputs is a weight. */
bool size_has_weights(const wafer_kernel_body *body);
/* Whether loops can be cut so. */
bool size_is_possible(const wafer_loops *loops, const wafer_split *split);
/* Fills in a refusal for want of bytes: `asked` per core at the least, owners in the sentence. */
wafer_status size_refuse(const wafer_ctx *ctx, const wafer_graph *graph, uint32_t kernel,
                         const wafer_kernel_body *body, uint64_t asked, uint64_t allowed,
                         uint64_t held, size_refusal *out);

/* The kernel of that name, else one that computes the ONNX node of it; WAFER_NONE: none does. */
uint32_t size_find_kernel(const wafer_graph *graph, const char *name);

#endif
