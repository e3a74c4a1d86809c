/* libwafer: a neural network in an ONNX file -> a plan for a wafer-scale engine -> tensors and
 * cycles. Plain C; no LLVM type appears here. Link with libwafer (compile and run) or
 * libwafer-runtime (run alone).
 *
 * Ownership
 * 1. *_create and *_open give one reference, which *_destroy or *_close takes; both accept NULL.
 * 2. Anything else returned is borrowed from the argument it came from.
 * 3. A const pointer argument is not kept beyond the call, except: a plan built by wafer_lower
 * borrows from its context's arena; a session keeps its plan; a context keeps its machine, diag and
 * options.
 * 4. Out-parameters come last and are NULL on failure.
 * 5. What a compilation makes lives in its arena and dies with it.
 * 6. A plan is const and may be run from many threads, each with its own session.
 *
 * The whole compiler:
 *     WAFER_TRY(wafer_import(&ctx, "model.onnx", &ir));            frontend: ONNX -> IR
 *     WAFER_TRY(wafer_transform(&ctx, ir, WAFER_DEFAULT_PASSES));  passes:   IR -> IR
 *     WAFER_TRY(wafer_lower(&ctx, ir, &plan));                     backend:  IR -> plan
 *     WAFER_TRY(wafer_plan_write(ctx.diag, plan, "model.wplan"));
 */
#ifndef WAFER_WAFER_H
#define WAFER_WAFER_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/machine.h"
#include "wafer/npy.h"
#include "wafer/placement.h"
#include "wafer/plan.h"
#include "wafer/session.h"
#include "wafer/status.h"
#include "wafer/tensor.h"
#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_VERSION "0.1.0"
const char *wafer_version(void);

/* NAME=N for a symbolic dim of the model. With a `last` above `size` a plan is made for every size
 * from one to the other, and the run takes the one that its inputs fit; one dim may have it. */
typedef struct wafer_dim_binding {
  const char *name;
  int64_t size, last;
} wafer_dim_binding;

/* The shape of a named input. */
typedef struct wafer_shape_binding {
  const char *input;
  wafer_shape shape;
} wafer_shape_binding;

/* The value of a named input: it becomes a constant of the model. */
typedef struct wafer_value_binding {
  const char *input;
  wafer_view value;
} wafer_value_binding;

/* What keeps a model from compiling: PROBLEM(kind, what to do about it). */
#define WAFER_PROBLEM_MAP(X)                                                                       \
  X(operator, "write it with operators of docs/onnx-support.md, or as a function of the model")    \
  X(opset, "convert the model with onnx.version_converter")                                        \
  X(attribute, "export the model with another value of the attribute")                             \
  X(type, "convert the tensor to a type of docs/onnx-support.md")                                  \
  X(dim, "give the dim with --dim or the input's shape with --shape")                              \
  X(value, "give the input's value with --bind")

typedef enum wafer_problem_kind {
#define X(name, remedy) WAFER_PROBLEM_##name,
  WAFER_PROBLEM_MAP(X)
#undef X
} wafer_problem_kind;

typedef struct wafer_problem {
  wafer_problem_kind kind;
  const wafer_loc *loc;
  const char *text, *remedy;
} wafer_problem;
const char *wafer_problem_name(wafer_problem_kind kind);
const char *wafer_problem_remedy(wafer_problem_kind kind);

/* How a pipeline's kernels get their shapes and places. */
typedef enum wafer_placer_kind {
  WAFER_PLACER_shelf, /* order-preserving shelves, at once */
  WAFER_PLACER_best   /* the shelves' layout, or a better one that wafer/placer.h finds */
} wafer_placer_kind;

/* What "better" means. Nothing is traded for it: the shelves' layout stays when it is not beaten.
 */
typedef enum wafer_objective {
  WAFER_OBJECTIVE_throughput, /* a shorter interval; of equals the shorter wires */
  WAFER_OBJECTIVE_latency,    /* a shorter latency */
  WAFER_OBJECTIVE_wire        /* shorter wires, the interval being no longer */
} wafer_objective;

/* Whether a plan holds what fabric fidelity runs. auto: when it is small, with so many cores over
 * all kernels and words over all streams at most, and in a pipeline, where all of them run at once,
 * so many kernels; wafer_plan_add_programs makes it for plans without. */
#define WAFER_PROGRAMS_CORES (1u << 20)
#define WAFER_PROGRAMS_WORDS (1u << 23)
#define WAFER_PROGRAMS_KERNELS 256u
typedef enum wafer_programs {
  WAFER_PROGRAMS_auto,
  WAFER_PROGRAMS_always,
  WAFER_PROGRAMS_never
} wafer_programs;

/* Kernels of a pipeline that only hold samples of what skips others, so that its producer need not
 * wait, or of an input that several take, which then crosses the edge once; their names end in
 * WAFER_RELAY_SUFFIX and a number. auto: where core programs seem faster for them; what they are
 * worth, and whether there are colours for them, only the plan tells. inputs: those of inputs
 * alone. */
#define WAFER_RELAY_SUFFIX "/relay"
#define WAFER_RELAY_GAIN 8 /* they have to shorten the interval by one part in these */
typedef enum wafer_relays {
  WAFER_RELAYS_none,
  WAFER_RELAYS_inputs,
  WAFER_RELAYS_auto
} wafer_relays;
/* Reductions over all places of what a convolution, a pool or elementwise ops make: kernels of
 * their own, or behind it, on its cores. auto: apart, and `wafer compile` tries the other. */
typedef enum wafer_reductions {
  WAFER_REDUCTIONS_auto,
  WAFER_REDUCTIONS_apart,
  WAFER_REDUCTIONS_behind
} wafer_reductions;
bool wafer_is_relay(const char *kernel);

#define WAFER_SLOWER_PARTS 32
#define WAFER_SLOWER_PACE UINT32_MAX
#define WAFER_SLOWER_PRICED (UINT32_MAX - 1)

/* Bands of each side that are tried where their number is ours to choose: by sizing on shelves, and
 * by a search or by plans. */
#define WAFER_MOST_BANDS 128u
#define WAFER_SEARCHED_BANDS 256u

/* X(name, spelling, what it sums over the elements that count). Of the output's elements y, the
 * labels' t. cross-entropy and nll have classes along one axis and i64 labels of the output's shape
 * without it; every other loss has labels of the output's type. */
#define WAFER_LOSS_MAP(X)                                                                          \
  X(cross_entropy, "cross-entropy", "-log softmax(y)[t]")                                          \
  X(soft_cross_entropy, "soft-cross-entropy", "-t * log softmax(y), summed over the classes")      \
  X(nll, "nll", "-y[t], y being logarithms of probabilities")                                      \
  X(mse, "mse", "(y - t)^2")                                                                       \
  X(l1, "l1", "|y - t|")                                                                           \
  X(bce, "bce", "-(t log y + (1 - t) log(1 - y)), logarithms being at least -100")

typedef enum wafer_loss {
#define X(name, spelling, summary) WAFER_LOSS_##name,
  WAFER_LOSS_MAP(X)
#undef X
      WAFER_LOSS_COUNT
} wafer_loss;
const char *wafer_loss_name(wafer_loss loss);
/* WAFER_LOSS_COUNT: none is spelt so. */
wafer_loss wafer_loss_by_name(const char *spelling);

/* Which activations of the forward pass the backward pass computes again instead of keeping them:
 * none; all but those at checkpoints; or (auto) none if the wafer holds them, else all. */
typedef enum wafer_recompute {
  WAFER_RECOMPUTE_auto,
  WAFER_RECOMPUTE_none,
  WAFER_RECOMPUTE_all
} wafer_recompute;

/* One micro-batch forward, its loss and backward: see wafer_training in plan.h. */
typedef struct wafer_training_options {
  wafer_loss loss;
  const char *output; /* model output that the loss reads; NULL: the first */
  bool ignores;       /* labels of ignore_index do not count (cross-entropy, nll) */
  int64_t ignore_index;
  int32_t class_axis;   /* of the losses with classes; negative: from the last; 0: axis 1 */
  uint32_t micro_batch; /* samples; the leading dim of every input becomes this; 0: as it is */
  wafer_recompute recompute;
  bool evaluate;                  /* forward and loss alone */
  wafer_optimizer_kind optimizer; /* of a pipeline, which updates its weights; one on the wafer */
  size_t frozen_count;            /* weights that stay as they are: */
  const char *const *frozen;      /* patterns of their names, as of fnmatch(3) */
} wafer_training_options;

/* Why a model does not fit. Bytes are of one core, at the split of the kernel that needs fewest; 0
 * where cores are short. Every remedy was tried and works. */
typedef struct wafer_owner_bytes {
  const char *what,
      *node; /* "weight 'conv1.w' (1 at a time)"; the ONNX node that makes it, or "" */
  uint64_t bytes;
} wafer_owner_bytes;
typedef struct wafer_remedy {
  const char *option; /* of the program that compiles */
  uint64_t interval_cycles;
} wafer_remedy;
typedef struct wafer_refusal {
  wafer_mode mode;
  const char *machine, *kernel, *node, *why;
  uint64_t asked, allowed;
  size_t owner_count, remedy_count;
  const wafer_owner_bytes *owners; /* the most first */
  const wafer_remedy *remedies;
} wafer_refusal;

/* As many samples as pay: powers of two, as long as one more shortens the interval noticeably. */
#define WAFER_BATCH_auto UINT32_MAX

/* How shapes of kernels in streaming follow their sparse weights, those first that waste the least
 * multiply cycles. Exchanges between dims that are dealt, or with few cores, may take longer than
 * is gained; only the plan tells. */
typedef enum wafer_sparse_shapes {
  WAFER_SPARSE_lean,         /* dealt over cores; up to three times as slow as the fastest for
                                the sake of less waste */
  WAFER_SPARSE_lean_roomy,   /* the same among shapes that have room for all elements of weights */
  WAFER_SPARSE_fast,         /* dealt, and the fastest by the estimate */
  WAFER_SPARSE_lean_undealt, /* not dealt: lines of weights lie in the model's order */
  WAFER_SPARSE_as_dense /* those of dense weights, not dealt; zeros still do not stream, and where
                           that is faster cores multiply with non-zeros alone */
} wafer_sparse_shapes;

/* Zero is the default of every field. */
typedef struct wafer_options {
  wafer_mode mode;
  const char *mode_option; /* by which the user asks for one, as remedies name it; NULL: --mode */
  uint32_t batch;          /* samples resident together in streaming; 0: 1; or WAFER_BATCH_auto, */
  uint32_t batch_most;     /* which takes no more than these; 0: as many as pay */
  wafer_dtype storage;     /* f32 or f16: how cores hold floats; none: f32 */
  wafer_placer_kind placer;
  wafer_objective objective;
  uint64_t place_seed, place_moves; /* of the search; 0 moves: a default, or place_seconds alone */
  double place_seconds;             /* 0: no limit, and the same plan on every host */
  uint32_t replicas;                /* of a kernel of a pipeline, at most; 0: as many as pay */
  uint32_t bands; /* of the wafer, each with the same pipeline or phases; 0: as many as pay */
  uint32_t sides; /* of the wafer at which bands begin, 1 or 2; 0: as is faster */
  bool bands_kept; /* both are an earlier plan's: where there can be one band, it is one */
  bool hasty; /* shelves are to be had soon, for a caller that compiles again where programs turn
                 out slow: neighbours choose among half of their shapes, and programs are trusted to
                 be a little faster than predicted, so that fewer numbers of bands are tried */
  bool wide_weights;  /* those that are quantized become what a product takes, to stay on cores */
  bool whole_concats; /* concatenations of many small parts are a kernel each, of fewer streams */
  wafer_relays relays;
  wafer_reductions reductions;
  uint32_t slower;    /* of a pipeline that a search lays out for the pace of programs, or that is
                         laid out for its latency: kernels may take so many WAFER_SLOWER_PARTS
                         longer; 0: as the search finds best, or as fast as can be;
                         WAFER_SLOWER_PACE: as slow as the edge's pace lets them be;
                         WAFER_SLOWER_PRICED: what is cheapest where a core has a price in cycles */
  uint32_t wander;    /* of a pipeline with every kernel pinned, which a search lays out for the
                         pace of programs: one of the layouts near the pins; 0: pins hold */
  uint32_t pin_count; /* of kernels of a pipeline; those of streaming have the whole wafer */
  const wafer_pin *pins;
  wafer_programs programs;
  uint64_t programs_within; /* cycles between samples: a pipeline of one function gets no programs
                               that take longer; 0: any */
  bool no_mlir; /* the plan gets no text of the IR: it is looked at, and not written */
  /* Of each weight of two dims that a matrix product takes, and of filters of convolutions, this
   * share (0 to below 1) becomes zero: the smallest magnitudes. 0: none. */
  double sparsity;
  wafer_sparse_shapes sparse_shapes;
  uint32_t lean;     /* such shapes are looked for that products take at most so many thousandths of
                        the non-zeros' part of the dense multiply cycles; 0: 1250 in streaming, and
                        in a pipeline the fastest */
  bool no_late_list; /* pairs of a sparse weight lie in few enough lists that each begins at once */
  const wafer_mode_cost *pipelined; /* of the model's pipeline, known from a plan at hand, so that
                                       streaming alone is sized; NULL: both are */
  /* Weights by their names (`input`), of the model's shape: where the value is zero, so is the
   * weight.
   */
  size_t mask_count;
  const wafer_value_binding *masks;
  const wafer_training_options *training; /* NULL: inference */
  size_t dim_count, shape_count, value_count;
  const wafer_dim_binding *dims;
  const wafer_shape_binding *shapes;
  const wafer_value_binding *values;
  /* Called with the IR as text after each pass of this name ("all": every pass). */
  const char *print_after;
  void (*print)(void *self, const char *pass, const char *text, size_t bytes);
  void *print_self;
  /* Called for each input whose value must be known when compiling and is not, perhaps several
   * times; the import then fails. Giving it in `values` is the remedy. */
  void (*needs)(void *self, const char *input);
  void *needs_self;
  /* Gets each problem in place of the context's diag. Strings live as long as the call. */
  void (*problem)(void *self, const wafer_problem *problem);
  void *problem_self;
  /* Called when the model does not fit, before that is reported. Strings live as long as the call.
   */
  void (*refused)(void *self, const wafer_refusal *refusal);
  void *refused_self;
  /* The machine of that name, or repaired in that way (each NULL: as it is), with all that was said
   * of the one at hand, so that remedies are what the user gets; gets refused_self. Whatever is not
   * OK: there is none. NULL: machines as they ship. */
  wafer_status (*other_machine)(void *self, wafer_arena *arena, const char *name,
                                const char *repair, const wafer_machine **out);
} wafer_options;

/* Shape curves that several compilations for one wafer have in common: each is found once. One
 * compilation at a time; they live as long as the arena, and the machine has to. NULL: out of
 * memory. */
typedef struct wafer_curves wafer_curves;
wafer_curves *wafer_curves_create(wafer_arena *arena, const wafer_machine *machine);

/* What is threaded through a compilation; no globals. `options` may be NULL. */
typedef struct wafer_ctx {
  const wafer_machine *machine;
  wafer_arena *arena;
  const wafer_diag *diag;
  const wafer_options *options;
  wafer_curves *curves; /* NULL: it finds its own */
} wafer_ctx;

typedef struct wafer_ir wafer_ir;

#define WAFER_DEFAULT_PASSES "default" /* every row of passes.def, in order */

/* Reads an ONNX file. Everything that cannot be compiled is reported at once, then
 * WAFER_UNSUPPORTED. */
wafer_status wafer_import(const wafer_ctx *ctx, const char *path, wafer_ir **out);
/* Parses IR text; weights it names are absent. */
wafer_status wafer_ir_parse(const wafer_ctx *ctx, const char *path, wafer_ir **out);
/* The IR as MLIR text in the arena. */
wafer_status wafer_ir_print(const wafer_ctx *ctx, const wafer_ir *ir, const char **text,
                            size_t *bytes);
void wafer_ir_destroy(wafer_ir *ir);

/* Runs passes: "default", "default:fuse" (the default ones up to and including fuse), or names
 * separated by commas ("shape,fold"; MLIR's own such as "canonicalize" work too). */
wafer_status wafer_transform(const wafer_ctx *ctx, wafer_ir *ir, const char *passes);

/* Every pass of the default pipeline, in order. */
void wafer_passes_each(void (*visit)(void *self, const char *name, const char *summary),
                       void *self);

/* Placed IR -> plan, checked by wafer_plan_check. Lives in the arena; weights stay where they are.
 */
wafer_status wafer_lower(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out);

/* The plan with launches and programs, in the arena; it borrows everything else from `plan`, and is
 * `plan` itself when that has them and no `taps` are wanted, which say where the outputs of kernels
 * lie. UNSUPPORTED: a kernel or stream has no program. */
wafer_status wafer_plan_add_programs(const wafer_ctx *ctx, const wafer_plan *plan, bool taps,
                                     const wafer_plan **out);

#ifdef __cplusplus
}
#endif
#endif
