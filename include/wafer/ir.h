/* The IR seen from C: MLIR handles, the builder, typed accessors. The only public header that
 * includes mlir-c; frontend, passes and backend stand on it, users never see it.
 *
 * Dialects: `nn` (passes/ir/nn.irdl.mlir), what to compute, rows of ops.def; `wafer`
 * (passes/ir/wafer.irdl.mlir), where and when. docs/dialects.md is their reference.
 *
 * Stages of a module
 * - imported: one func.func @main of nn ops. Arguments carry {wafer.name}, results {wafer.name}.
 *   Weights are nn.weight {name}, bytes in the weight table.
 * - fused: @main calls kernels: `func.func private @k(...)` with {wafer.family, wafer.anchor}; its
 *   only nn ops are nn.weight. A kernel's weights are arguments of the call.
 * - placed: kernels also carry {wafer.phase, wafer.rows, wafer.cols, wafer.rect, wafer.replicas,
 *   wafer.depths, wafer.slabs} and may carry {wafer.ahead, wafer.stays}; the module {wafer.mode,
 *   wafer.batch, wafer.storage, and the cost of both modes}.
 * - routed: every operand of a call comes from a wafer.stream, unless the value already lies there.
 * - scheduled: @main is a sequence: wafer.load, wafer.phase, streams and calls, wafer.free.
 *
 * Each attribute has one writer pass and one accessor pair here; passes/ir alone spells its name.
 */
#ifndef WAFER_IR_H
#define WAFER_IR_H

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>

#include "wafer/ops.h"
#include "wafer/plan.h"
#include "wafer/wafer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wafer_ir {
  MlirContext context;
  MlirModule module;
  wafer_weights *weights; /* in the arena of the compilation */
  const char *file;       /* model file, for messages */
  const char *model;      /* its name without folders */
  uint32_t node_count;    /* ONNX nodes read */
  wafer_arena *arena;
  const wafer_diag *diag; /* where MLIR's own diagnostics go */
  MlirDiagnosticHandlerID handler;
  MlirSymbolTable symbols;  /* of the module; functions enter and leave through the calls below */
  int64_t fold_growth;      /* bytes by which folded constants are larger than their operands */
  int64_t widened;          /* the same of weights of products that were quantized */
  bool scattered;           /* pass fuse: wafer_options.whole_concats makes a difference */
  struct curve_set *curves; /* of the passes that size: shape curves made so far, NULL */
  struct ir_band *bands;    /* machines that wafer_ir_machine has made, NULL */
  struct wafer_ir *owner;   /* of the context, where another one has it; NULL */
  struct wafer_ir *next;    /* another size of the model, destroyed with this one; NULL */
  bool sized;               /* of a model of several sizes, each of which is a program's piece */
  const struct wafer_peers *peers; /* see graph.h: what takes turns with it on the wafer; NULL */
  struct wafer_program *program; /* see program.h: the model is several pieces; NULL */
};

/* An empty module with both dialects loaded, MLIR's own diagnostics forwarded to ctx->diag. */
wafer_status wafer_ir_create(const wafer_ctx *ctx, const char *file, wafer_ir **out);

/* A piece of the same model: shares the context of `of`, which outlives it. */
wafer_status wafer_ir_create_piece(const wafer_ctx *ctx, wafer_ir *of, wafer_ir **out);

/* ---- Types, locations ---- */

/* The ranked tensor type of an element type and shape; null when MLIR has no such type. */
MlirType wafer_ir_type(MlirContext context, const wafer_type *type);
/* False when the MLIR type is not a ranked static tensor of a known element type. */
bool wafer_ir_type_get(MlirType type, wafer_type *out);
wafer_type wafer_ir_value_type(MlirValue value); /* asserted static */

/* Location that names an ONNX node; every op carries one and every rewrite passes it on. */
MlirLocation wafer_ir_location(const wafer_ir *ir, const char *node, int64_t index);
/* The place of an op for a message: ONNX node where there is one, else line of a text file. Strings
 * live as long as the context. */
wafer_loc wafer_ir_loc(const wafer_ir *ir, MlirOperation op);
/* The same without the model's file name. */
wafer_loc wafer_ir_loc_of(MlirOperation op);
/* The ONNX node's name, "" when there is none. */
const char *wafer_ir_node_name(MlirOperation op);

/* ---- nn ops ---- */

/* WAFER_OP_COUNT when the operation is not an nn op. O(1). */
wafer_op wafer_ir_op(MlirOperation op);
/* The op's attributes as plain data, in the arena. */
wafer_status wafer_ir_attrs(const wafer_ctx *ctx, MlirOperation op, wafer_attrs *attrs);

/* Creates nn ops at the end of a block (or before `before`), inferring each result type by the op's
 * shape rule and folding ops all of whose operands are constants, where that is no larger than
 * these or than WAFER_FOLD_BYTES, or not much (`fold_pays` in passes/ir/ir_fold.h). */
typedef struct wafer_builder {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  MlirBlock block;
  MlirOperation before; /* null: append */
  MlirLocation location;
  wafer_loc loc; /* the same for messages */
} wafer_builder;

#define WAFER_FOLD_BYTES 65536  /* a result no larger than this is folded while building */
#define WAFER_INLINE_BYTES 1024 /* larger constants become weights */

wafer_status wafer_build(wafer_builder *b, wafer_op op, uint32_t operand_count,
                         const MlirValue *operands, const wafer_attr *attrs, uint32_t attr_count,
                         MlirValue *result);
/* A reshape to the shape that it has: the same elements as a value of their own. */
wafer_status wafer_build_copy(wafer_builder *b, MlirValue value, MlirValue *result);
/* A constant from host data: nn.constant when small or a splat, else nn.weight `name` in the table.
 * The data must live as long as the arena. */
/* A value without data is an absent weight, whatever its size. */
wafer_status wafer_build_constant(wafer_builder *b, const char *name, const wafer_view *value,
                                  MlirValue *result);
/* The same for data that was computed: equal tables become one weight. */
wafer_status wafer_build_computed(wafer_builder *b, const char *name, const wafer_view *value,
                                  MlirValue *result);
/* The value of an entry of the weight table. */
wafer_status wafer_build_weight(wafer_builder *b, const wafer_weight *weight, MlirValue *result);
/* A scalar or splat constant of any shape; of an element of the type. */
wafer_status wafer_build_splat(wafer_builder *b, const wafer_type *type, double value,
                               MlirValue *result);
wafer_status wafer_build_splat_of(wafer_builder *b, const wafer_type *type, const void *element,
                                  MlirValue *result);

/* The elements of a value that is a constant or a present weight, as a dense view (splats expanded
 * into the arena); false when it is not constant. */
bool wafer_ir_constant(const wafer_ctx *ctx, const wafer_ir *ir, MlirValue value, wafer_view *out);
/* True for nn.constant and nn.weight results. */
bool wafer_ir_is_constant(MlirValue value);

/* True for a constant all of whose elements are equal; *value is that element. */
bool wafer_ir_splat(MlirValue value, double *element);

/* ---- Values and ops to numbers ---- */

/* Keyed by the address of an MLIR value or op; look-up only, so that nothing depends on its order.
 */
typedef struct wafer_ir_map wafer_ir_map;
wafer_ir_map *
wafer_ir_map_create(wafer_arena *arena); /* dies with the arena; NULL: out of memory */
bool wafer_ir_map_put(wafer_ir_map *map, const void *key,
                      uint32_t number); /* false: out of memory */
uint32_t wafer_ir_map_get(const wafer_ir_map *map,
                          const void *key); /* WAFER_NONE when there is none */

/* ---- Functions ---- */

MlirOperation wafer_ir_main(const wafer_ir *ir); /* null when there is none */
/* Starts @main with these arguments; the builder appends to its body. wafer_ir_finish_main adds the
 * return and the result names. */
wafer_status wafer_ir_begin_main(const wafer_ctx *ctx, wafer_ir *ir, uint32_t count,
                                 const char *const *names, const wafer_type *types,
                                 wafer_builder *b, MlirValue *arguments);
wafer_status wafer_ir_finish_main(wafer_builder *b, uint32_t count, const char *const *names,
                                  const MlirValue *results);

/* One more argument of @main while it is built; those that nothing uses go, and what is left is
 * named, before it is finished. `kept[i]` is the former number of argument i. */
MlirValue wafer_ir_add_argument(wafer_builder *b, const wafer_type *type);
uint32_t wafer_ir_prune_arguments(wafer_builder *b, uint32_t *kept);
wafer_status wafer_ir_name_arguments(wafer_builder *b, uint32_t count, const char *const *names);

/* What an argument or a result of @main is beside data of the model: parameters while the model is
 * imported for training, the others in a training plan (see wafer_training in plan.h). */
#define WAFER_ROLE_MAP(X)                                                                          \
  X(none)                                                                                          \
  X(parameter) X(labels) X(seed) X(noise) X(loss) X(count) X(correct) X(gradient) X(statistic)

typedef enum wafer_role {
#define X(name) WAFER_ROLE_##name,
  WAFER_ROLE_MAP(X)
#undef X
      WAFER_ROLE_COUNT
} wafer_role;

typedef struct wafer_ir_port {
  const char *name;
  wafer_role role;
  const char *of; /* parameter, gradient, statistic: the weight; noise: the ONNX node; else NULL */
} wafer_ir_port;

/* Strings live as long as the context. */
wafer_ir_port wafer_ir_argument(MlirOperation func, uint32_t index);
wafer_ir_port wafer_ir_result(MlirOperation func, uint32_t index);
/* Names every argument and result of @main, as many as it has, and sets its type by them. */
wafer_status wafer_ir_set_ports(const wafer_ctx *ctx, wafer_ir *ir, const wafer_ir_port *arguments,
                                const wafer_ir_port *results);

MlirBlock wafer_ir_body(MlirOperation func);
const char *wafer_ir_func_name(MlirOperation func);
/* {wafer.name} of an argument or result, "" when it has none. */
const char *wafer_ir_argument_name(MlirOperation func, uint32_t index);
const char *wafer_ir_result_name(MlirOperation func, uint32_t index);
bool wafer_ir_argument_is_weight(MlirOperation func, uint32_t index); /* of a kernel */

/* Starts a kernel's function; a name that is taken gets a suffix. `location` names the anchor's
 * ONNX node. wafer_ir_finish_kernel adds the return, family and anchor (the index of a node of the
 * body). */
wafer_status wafer_ir_begin_kernel(const wafer_ctx *ctx, wafer_ir *ir, const char *name,
                                   MlirLocation location, uint32_t count, const wafer_type *types,
                                   const bool *is_weight, wafer_builder *b, MlirValue *arguments);
wafer_status wafer_ir_finish_kernel(wafer_builder *b, wafer_family family, uint32_t anchor,
                                    uint32_t count, const MlirValue *results, MlirOperation *func);
/* Appends a copy of an nn op with other operands; its result. The copy keeps attributes and
 * location. */
MlirValue wafer_ir_clone(wafer_builder *b, MlirOperation op, const MlirValue *operands);
/* A call of the function with its operands; `results` gets one value per result. */
wafer_status wafer_ir_call(wafer_builder *b, MlirOperation func, const MlirValue *operands,
                           MlirValue *results);
bool wafer_ir_is_func(MlirOperation op);
bool wafer_ir_is_call(MlirOperation op);
MlirOperation wafer_ir_callee(const wafer_ir *ir, MlirOperation call); /* null when there is none */

/* ---- Kernels and where they are ---- */

/* A kernel's function as plain data in the arena: nodes, types, family, anchor, depths (1 where no
 * pass has set them). BAD_INPUT when the text it came from is not a kernel. */
wafer_status wafer_ir_kernel_body(const wafer_ctx *ctx, const wafer_ir *ir, MlirOperation func,
                                  wafer_kernel_body *body);
bool wafer_ir_is_kernel(MlirOperation func);

/* Accessors: a getter is false when no pass has set the attribute or it is malformed. */
bool wafer_ir_get_anchor(MlirOperation func, wafer_family *family, uint32_t *anchor); /* fuse */
void wafer_ir_set_anchor(MlirOperation func, wafer_family family, uint32_t anchor);
bool wafer_ir_get_split(MlirOperation func,
                        wafer_split *split); /* size; loops it does not name are uncut */
void wafer_ir_set_split(MlirOperation func, uint32_t loops, const wafer_split *split);
bool wafer_ir_get_slabs(MlirOperation func, uint32_t *slabs); /* size */
void wafer_ir_set_slabs(MlirOperation func, uint32_t slabs);
bool wafer_ir_get_replicas(MlirOperation func, uint32_t *replicas); /* size */
void wafer_ir_set_replicas(MlirOperation func, uint32_t replicas);
/* One depth per input, then the outputs'; `count` is the number of inputs + 1. */
bool wafer_ir_get_depths(MlirOperation func, uint32_t count, uint32_t *depths); /* size */
void wafer_ir_set_depths(MlirOperation func, uint32_t count, const uint32_t *depths);
/* Weight streaming: how many phases before its own weights leave MemoryX; unset: one. */
bool wafer_ir_get_ahead(MlirOperation func, uint32_t *ahead); /* size */
void wafer_ir_set_ahead(MlirOperation func, uint32_t ahead);
/* Weight streaming: inputs whose weight stays from the phase that used it before, a bit each;
 * unset: none. */
bool wafer_ir_get_stays(MlirOperation func, uint32_t *inputs); /* size */
void wafer_ir_set_stays(MlirOperation func, uint32_t inputs);
bool wafer_ir_get_phase(MlirOperation func, uint32_t *phase); /* place */
void wafer_ir_set_phase(MlirOperation func, uint32_t phase);
bool wafer_ir_get_rect(MlirOperation func, wafer_rect *rect); /* place, or size if it searched */
void wafer_ir_set_rect(MlirOperation func, const wafer_rect *rect);

/* ---- The module: what pass `mode` decided ---- */

bool wafer_ir_get_mode(const wafer_ir *ir, wafer_mode *mode);
void wafer_ir_set_mode(wafer_ir *ir, wafer_mode mode);
bool wafer_ir_get_batch(const wafer_ir *ir, uint32_t *batch);
void wafer_ir_set_batch(wafer_ir *ir, uint32_t batch);
/* The stripes of wafer_plan, where there are several; false: the wafer is one. */
bool wafer_ir_get_stripes(const wafer_ir *ir, uint32_t *stripes, uint32_t *columns);
void wafer_ir_set_stripes(wafer_ir *ir, uint32_t stripes, uint32_t columns);
bool wafer_ir_get_storage(const wafer_ir *ir, wafer_dtype *storage);
void wafer_ir_set_storage(wafer_ir *ir, wafer_dtype storage);
/* Of a training plan: samples of a micro-batch; pass grad. */
bool wafer_ir_get_micro_batch(const wafer_ir *ir, uint32_t *samples);
void wafer_ir_set_micro_batch(wafer_ir *ir, uint32_t samples);
/* Classes that labels number; false: the loss has none. Pass grad. */
bool wafer_ir_get_classes(const wafer_ir *ir, uint32_t *classes);
void wafer_ir_set_classes(wafer_ir *ir, uint32_t classes);
/* Of a pipeline that trains: what updates its weights; pass mode. */
bool wafer_ir_get_optimizer(const wafer_ir *ir, wafer_optimizer_kind *kind);
void wafer_ir_set_optimizer(wafer_ir *ir, wafer_optimizer_kind kind);
/* How the wafer is cut into bands, each with the same pipeline; whole where the module says
 * nothing. Later passes and lowering have a band as their machine. */
wafer_cut wafer_ir_get_cut(const wafer_ir *ir);
void wafer_ir_set_cut(wafer_ir *ir, wafer_cut cut);
/* A band of the context's machine, cut so; as long as the IR, the same at every call. */
wafer_status wafer_ir_machine(const wafer_ctx *ctx, wafer_ir *ir, wafer_cut cut,
                              const wafer_machine **out);
bool wafer_ir_get_flip_batch(const wafer_ir *ir, uint32_t *flip_batch);
void wafer_ir_set_flip_batch(wafer_ir *ir, uint32_t flip_batch);
/* What a mode (pipelined or streaming) would cost; `why_not` lives as long as the context. */
bool wafer_ir_get_mode_cost(const wafer_ir *ir, wafer_mode mode, wafer_mode_cost *cost);
void wafer_ir_set_mode_cost(wafer_ir *ir, wafer_mode mode, const wafer_mode_cost *cost);

/* ---- wafer ops ---- */

typedef enum wafer_ir_action {
  WAFER_IR_stream,
  WAFER_IR_load,
  WAFER_IR_phase,
  WAFER_IR_free,
  WAFER_IR_other /* not an op of dialect `wafer` */
} wafer_ir_action;
wafer_ir_action wafer_ir_action_of(MlirOperation op);

/* The fields of a wafer.stream, as in wafer_stream. */
typedef struct wafer_ir_stream {
  wafer_holding from, to;
  uint32_t color;
  uint32_t route_count;
  const wafer_route_segment *route;
  uint64_t words, cycles, latency;
  uint32_t depth;
} wafer_ir_stream;

wafer_status wafer_build_stream(wafer_builder *b, MlirValue value, const wafer_ir_stream *stream,
                                MlirValue *result);
/* The route is in the arena. BAD_INPUT when the attributes of the text it came from are malformed.
 */
wafer_status wafer_ir_stream_get(const wafer_ctx *ctx, const wafer_ir *ir, MlirOperation op,
                                 wafer_ir_stream *stream);

wafer_status wafer_build_load(wafer_builder *b, uint32_t phase);
bool wafer_ir_load_get(MlirOperation op, uint32_t *phase);
wafer_status wafer_build_phase(wafer_builder *b, uint32_t index, const char *name);
bool wafer_ir_phase_get(MlirOperation op, uint32_t *index, const char **name);
wafer_status wafer_build_free(wafer_builder *b, MlirValue value);

/* ---- Passes ---- */

/* A pass is a plain function over the module; passes.def has a row for each. */
typedef wafer_status wafer_pass_fn(const wafer_ctx *ctx, wafer_ir *ir);
#define PASS(id, ...) wafer_pass_fn wafer_pass_##id;
#include "wafer/passes.def"

#ifdef __cplusplus
}
#endif
#endif
