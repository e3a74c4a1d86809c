/* A kernel: a group of ops that one rectangle of cores computes, and what a split of it costs. The
 * one source of cycles and bytes for passes, report and runtime. */
#ifndef WAFER_KERNEL_H
#define WAFER_KERNEL_H

#include "wafer/ops.h"
#include "wafer/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most values (inputs and nodes together) of one body. Matching stays below it, a plan above it is
 * refused; costs can then be computed without allocating. */
#define WAFER_MAX_KERNEL_VALUES 256

/* In weight streaming a weight of depth 0 is never on a core as a whole: each core takes its part
 * in slices of this size through two buffers, and is done with one when it has met all of the
 * core's activations. The kernel begins with the first slice and cannot end before the last is
 * there. An activation of depth 0 that the anchor can take so (wafer_body_can_pass) is shared out
 * over all cores, and each share passes to those that need it, in such slices. */
#define WAFER_SLICE_BYTES 2048
/* How much of a weight is not zero. */
typedef struct wafer_sparsity {
  bool sparse;
  uint64_t nonzeros;
  uint64_t fullest; /* in the tile that has most, for the kernel's split; 0 where there are
                       non-zeros: not known, and costs take an estimate */
  uint64_t filled;  /* the same where each sum has one pair at least, if only of value 0 */
  uint32_t order;   /* not 0: rows and columns are dealt over the parts (wafer/deal.h), and this
                       number, of the weight, tells their orders from others */
  bool uneven;      /* estimates of its tiles are too low: as long as these are not counted a core
                       has room for all elements */
  bool late_list; /* pairs may lie in WAFER_PAIR_LISTS lists, of which the last begins late; else in
                     one less */
} wafer_sparsity;

/* Wavelets of a sparse weight, or of its gradient: a 16-bit index (in the tile of the core that
 * takes it) and a 16-bit value in one, for wider values the value in a second one; all elements
 * without indices where those are fewer. */
uint64_t wafer_sparse_words(const wafer_type *type, wafer_dtype storage, uint64_t nonzeros);

/* What is computed. Inputs are values 0 .. input_count-1; node i makes value input_count + i. */
typedef struct wafer_kernel_body {
  wafer_family family;
  uint32_t input_count;
  const wafer_type *inputs;
  const bool *input_is_weight;
  const wafer_sparsity *sparsity; /* per input; NULL: none is sparse */
  const uint32_t *input_depth; /* samples of input i a core holds at once (2: double buffered); for
                                  a weight 1 is resident, 2 is the next layer's slice arriving while
                                  this one works, and 0 passes in slices of WAFER_SLICE_BYTES; 0 of
                                  another input: its copy ends with the phase, and where
                                  wafer_body_passes cores have shares of it alone */
  uint32_t output_depth; /* samples of the outputs a core holds at once; 0: they leave the wafer in
                            slices of WAFER_SLICE_BYTES, as soon as they are made */
  uint32_t node_count;
  const wafer_node *nodes;
  uint32_t anchor;         /* node whose loops the split divides */
  uint32_t output_count;   /* at least 1 */
  const uint32_t *outputs; /* value numbers; every output has the anchor's result dims but for
                              `move`, and for reductions behind the anchor */
  const bool
      *output_is_summed; /* per output, NULL: none. A gradient of pipelined training: stays on
                            the cores and is added up in f32 over the samples of a train */
  uint32_t state; /* f32 values that lie beside each element of such a sum: the weight's own, and
                     what the optimizer keeps */
  wafer_dtype storage; /* f32 or f16: how cores hold float tensors; integers as they are */
} wafer_kernel_body;

/* Most vector instructions of an update of a weight (optimizer.def); code of each sum counts them.
 */
#define WAFER_UPDATE_INSTRUCTIONS 16

/* Whether the anchor, and it alone, takes this activation and can do so in slices; whether it does,
 * having depth 0. */
bool wafer_body_can_pass(const wafer_kernel_body *body, uint32_t input);
bool wafer_body_passes(const wafer_kernel_body *body, uint32_t input);

/* A reduction behind the anchor: of a value with the anchor's dims, over all from `*first` on. Each
 * core folds its part; what comes of that goes over the parts of the dims that are cut. */
bool wafer_body_reduces(const wafer_kernel_body *body, uint32_t node, uint32_t *first);

static inline bool wafer_body_sums(const wafer_kernel_body *b, uint32_t output) {
  return b->output_is_summed && b->output_is_summed[output];
}

static inline const wafer_type *wafer_body_type(const wafer_kernel_body *b, uint32_t value) {
  return value < b->input_count ? &b->inputs[value] : &b->nodes[value - b->input_count].type;
}

/* How a value of a body lies on a core: inputs and outputs as they are stored, and what only moves
 * their elements; what else passes from node to node is not rounded, unless a cast says so or its
 * bits are looked at. */
wafer_dtype wafer_body_dtype(const wafer_kernel_body *body, uint32_t value);

/* The loops of a kernel: first the dims of the first output, outermost first, then reduction loops.
 */
#define WAFER_MAX_LOOPS (WAFER_MAX_RANK + 4)

typedef struct wafer_loops {
  uint32_t count, parallel; /* the first `parallel` loops are output dims, the rest reductions */
  int64_t extent[WAFER_MAX_LOOPS];
  bool divisible[WAFER_MAX_LOOPS]; /* may be cut over cores */
} wafer_loops;

void wafer_kernel_loops(const wafer_kernel_body *body, wafer_loops *loops);

/* How a kernel divides its loops over a rectangle: loop i is cut into rows[i] parts over the rows
 * and each of those into cols[i] over the columns; 1 is not cut. Height is the product of rows,
 * width of cols. Later loops lie inside: the next part of loop i is the product of the later loops'
 * parts away. */
typedef struct wafer_split {
  uint32_t rows[WAFER_MAX_LOOPS], cols[WAFER_MAX_LOOPS];
} wafer_split;

uint32_t wafer_split_height(const wafer_split *split);
uint32_t wafer_split_width(const wafer_split *split);

/* How a tensor lies on a rectangle: dim d in rows[d] parts over the rows and cols[d] over the
 * columns; the next part begins row_stride[d] rows, or col_stride[d] columns, farther (1 where the
 * dim is not cut). The core at row r and column c has part (r / row_stride % rows) * cols +
 * c / col_stride % cols of a dim. A part is ceil(dim / (rows*cols)) long; later ones may be shorter
 * or empty. Where the products are less than the rectangle the tensor is repeated (replicated):
 * loops that a value does not depend on lie between its parts, or around them.
 *
 * Parts hold consecutive elements where the order of a dim is 0. Otherwise the dim follows a sparse
 * weight's that is dealt: order is 2 * wafer_sparsity.order for its rows, 1 more for its columns.
 */
typedef struct wafer_layout {
  uint32_t rank;
  uint32_t rows[WAFER_MAX_RANK], cols[WAFER_MAX_RANK];
  uint32_t row_stride[WAFER_MAX_RANK], col_stride[WAFER_MAX_RANK];
  uint32_t order[WAFER_MAX_RANK];
} wafer_layout;

/* Part of dim d at the core in row `row` and column `col` of the rectangle. */
static inline uint32_t wafer_layout_part(const wafer_layout *layout, uint32_t d, uint32_t row,
                                         uint32_t col) {
  uint32_t r = layout->rows[d] > 1 ? row / layout->row_stride[d] % layout->rows[d] : 0;
  uint32_t c = layout->cols[d] > 1 ? col / layout->col_stride[d] % layout->cols[d] : 0;
  return r * layout->cols[d] + c;
}

/* Whether an input may be dealt: a matrix or filters that the anchor multiplies with, of whose rows
 * and columns (filters and channels) every value has all or one for one. Not where nodes take a
 * value differently, as one that is multiplied along its columns and added to the result: it lies
 * whole, and in no order. */
bool wafer_kernel_may_deal(const wafer_kernel_body *body, uint32_t input);

bool wafer_layout_equal(const wafer_layout *a, const wafer_layout *b);
/* Elements of the largest tile. */
uint64_t wafer_layout_tile(const wafer_layout *layout, const wafer_shape *shape);
/* The layout in which the kernel wants input `input`, and leaves output `output` (an index of
 * outputs). */
wafer_layout wafer_kernel_input_layout(const wafer_kernel_body *body, const wafer_split *split,
                                       uint32_t input);
wafer_layout wafer_kernel_output_layout(const wafer_kernel_body *body, const wafer_split *split,
                                        uint32_t output);

/* All of them: of the inputs, then of the outputs. */
void wafer_kernel_layouts(const wafer_kernel_body *body, const wafer_split *split,
                          wafer_layout *inputs, wafer_layout *outputs);

/* The same of any value of the body, also of those between its nodes. */
wafer_layout wafer_kernel_value_layout(const wafer_kernel_body *body, const wafer_split *split,
                                       uint32_t value);

typedef enum wafer_bound {
  WAFER_BOUND_compute,
  WAFER_BOUND_memory,
  WAFER_BOUND_streams,
  WAFER_BOUND_edge
} wafer_bound;
const char *wafer_bound_name(wafer_bound bound);

/* What one sample costs on the slowest core of the rectangle; bytes count the body's depths. */
typedef struct wafer_cost {
  uint64_t cycles; /* from the inputs' arrival to the outputs' last word: compute + fabric */
  uint64_t compute_cycles;  /* vector instructions, set-up, task switches */
  uint64_t multiply_cycles; /* of those, what matrix products and convolutions take, with clearing
 their sums */
  uint64_t fabric_cycles;   /* halo exchange, reductions, broadcasts inside the rectangle */
  uint64_t operations;      /* of the whole kernel: multiply-accumulates count 2 */
  /* bytes of one core */
  uint64_t code_bytes, weight_bytes, input_bytes, output_bytes, scratch_bytes;
} wafer_cost;

static inline uint64_t wafer_cost_bytes(const wafer_cost *c) {
  return c->code_bytes + c->weight_bytes + c->input_bytes + c->output_bytes + c->scratch_bytes;
}

/* How `words` per core are summed along a line of `parts` neighbours: this many form a group, which
 * is a chain; then the groups' first cores are one (two-phase). All parts: a single chain.
 * Whichever takes fewer cycles: words + (2 T_R + 1 + hop) (P - 1), or 2 words + hop (P - 1) + (2
 * T_R + 1) (S - 1 + G - 1) and the second instruction ("Near-Optimal Wafer-Scale Reduce", HPDC
 * 2024). */
uint32_t wafer_reduce_group(const wafer_machine *machine, uint32_t parts, uint64_t words);

/* The order in which cores add up what the anchor's first reduction loop makes of an f32 result.
 * The loop is cut into rows parts over the rows, each into cols over the columns, all of
 * ceil(extent / (rows * cols)); a core sums its own part from zero. Then chains: in each row of
 * parts those of a group of col_group, from the last to the first, whose core has the sum; then the
 * groups' firsts, likewise; then the first columns' sums over the rows, in groups of row_group. */
typedef struct wafer_sum_order {
  uint32_t rows, row_group, cols, col_group; /* all 1: not cut */
} wafer_sum_order;
wafer_sum_order wafer_kernel_sum_order(const wafer_machine *machine, const wafer_kernel_body *body,
                                       const wafer_split *split);

/* Cycles in which a core merges `count` keys that lie in any order, from runs of one on. */
uint64_t wafer_sort_cycles(const wafer_machine *machine, uint64_t count);

void wafer_kernel_cost(const wafer_machine *machine, const wafer_kernel_body *body,
                       const wafer_split *split, wafer_cost *cost);
/* The same of many splits of a body, which has to last as long: what they have in common is found
 * when it is opened. NULL: out of memory. */
typedef struct wafer_opened_body wafer_opened_body;
wafer_opened_body *wafer_opened_body_create(wafer_arena *arena);
void wafer_opened_body_open(wafer_opened_body *opened, const wafer_machine *machine,
                            const wafer_kernel_body *body);
void wafer_opened_body_cost(wafer_opened_body *opened, const wafer_split *split, wafer_cost *cost);
wafer_layout wafer_opened_body_layout(const wafer_opened_body *opened, const wafer_split *split,
                                      uint32_t value);
/* The bytes alone, which cost less to find. */
void wafer_kernel_bytes(const wafer_machine *machine, const wafer_kernel_body *body,
                        const wafer_split *split, wafer_cost *cost);
/* Its multiply_cycles alone, and what they would be if no weight were sparse. */
void wafer_kernel_multiply(const wafer_machine *machine, const wafer_kernel_body *body,
                           const wafer_split *split, uint64_t *cycles, uint64_t *dense);

/* A point of a shape curve. */
typedef struct wafer_shape_point wafer_shape_point;
struct wafer_shape_point {
  wafer_split split;
  uint32_t width, height;
  uint64_t cycles, bytes;
};

/* The Pareto set over (width, height, time) of the splits whose bytes per core are at most
 * `budget` and that fit `max_width` x `max_height`; sorted by cycles, then area, then width. Time
 * is the cycles, or those that `stream_words` take over the rows if that is more: a higher shape
 * that is no faster may be needed for its lanes. Empty when nothing fits: least_bytes then tells
 * the fewest bytes per core of any split. No split, whatever its bytes, has more rows or columns
 * than most_rows and most_cols. WAFER_NO_MEMORY alone fails. */
typedef struct wafer_curve {
  size_t count;
  const wafer_shape_point *at;
  uint64_t least_bytes;
  uint32_t most_rows, most_cols;
} wafer_curve;

typedef struct wafer_curve_options {
  uint32_t max_width, max_height;
  uint64_t budget;       /* bytes per core */
  uint64_t stream_words; /* of the heaviest stream to or from the kernel, a row a lane; 0: any */
  uint32_t most_points;  /* a longer curve is thinned; 0: 512 */
  bool lean; /* instead, of kernels with sums (loops that are no dims of the result), the shapes
                that spread results thinnest: sums stay whole, and the two longest dims of the
                result are cut in both directions */
} wafer_curve_options;

wafer_status wafer_kernel_curve(const wafer_machine *machine, const wafer_kernel_body *body,
                                const wafer_curve_options *options, wafer_arena *arena,
                                wafer_curve *curve);

/* The ways to cut the loops of a body over rows or columns, weighed: what its curves within one
 * rectangle have in common, whatever their budgets. Made as curves need them, with the help of
 * `workers` (NULL: none), which outlive them; NULL: out of memory. */
typedef struct wafer_cuts wafer_cuts;
wafer_cuts *wafer_cuts_create(const wafer_machine *machine, const wafer_kernel_body *body,
                              uint32_t max_width, uint32_t max_height, wafer_workers *workers,
                              wafer_arena *arena);
/* The same curve as wafer_kernel_curve's: `body` and the options' rectangle are those of the cuts.
 */
wafer_status wafer_cuts_curve(wafer_cuts *cuts, const wafer_kernel_body *body,
                              const wafer_curve_options *options, wafer_arena *arena,
                              wafer_curve *curve);

/* A curve to find. */
typedef struct wafer_curve_task {
  wafer_cuts *cuts; /* neither these nor an arena, theirs or the curve's, are another task's */
  const wafer_kernel_body *body;
  wafer_curve_options options;
  wafer_arena *arena;
  wafer_curve *curve; /* as wafer_cuts_curve makes it */
  wafer_status status;
} wafer_curve_task;
/* All of them, shared out over `workers`. WAFER_NO_MEMORY alone fails. */
wafer_status wafer_cuts_curves(wafer_workers *workers, wafer_curve_task *tasks, uint32_t count);

/* The points of `count` > 0 curves of one body for other streams, each split once, in the order of
 * a curve; the rest as the first has it. WAFER_NO_MEMORY alone fails. */
wafer_status wafer_curve_unite(const wafer_curve *const *parts, size_t count, wafer_arena *arena,
                               wafer_curve *out);

/* A digest of everything that determines a curve: equal kernels share one. */
uint64_t wafer_kernel_signature(const wafer_kernel_body *body);

#ifdef __cplusplus
}
#endif
#endif
