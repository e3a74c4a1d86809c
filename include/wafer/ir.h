/* The IR seen from C: MLIR handles, the builder, typed accessors. The only public header that includes
 * mlir-c; frontend, passes and backend stand on it, users never see it.
 *
 * Dialects: `nn` (passes/nn.irdl.mlir), what to compute, rows of ops.def; `wafer` (passes/wafer.irdl.mlir),
 * where and when. docs/dialects.md is their reference.
 *
 * Stages of a module
 *   imported   one func.func @main of nn ops. Arguments carry {wafer.name}, results {wafer.name}.
 *              Weights are nn.weight {name}, bytes in the weight table.
 *   fused      @main calls kernels: `func.func private @k(...)` with {wafer.family, wafer.anchor}; nn ops in
 *              @main are only nn.weight. A kernel's weights are arguments of the call.
 *   placed     kernels also carry {wafer.phase, wafer.rows, wafer.cols, wafer.rect, wafer.depths,
 *              wafer.slabs}; the module {wafer.mode, wafer.batch, wafer.storage, and the cost of both modes}.
 *   routed     every operand of a call comes from a wafer.stream, unless the value already lies there.
 *   scheduled  @main is a sequence: wafer.load, wafer.phase, streams and calls, wafer.free.
 *
 * Each attribute has one writer pass and one accessor pair here; ir.c alone spells its name. */
#ifndef WAFER_IR_H
#define WAFER_IR_H

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
  const wafer_diag *diag;
  MlirDiagnosticHandlerID handler;
};

/* An empty module with both dialects loaded, MLIR's own diagnostics forwarded to ctx->diag. */
wafer_status wafer_ir_create(const wafer_ctx *ctx, const char *file, wafer_ir **out);

/* ---- Types, locations ---- */

/* The ranked tensor type of an element type and shape; null when MLIR has no such type. */
MlirType wafer_ir_type(MlirContext context, const wafer_type *type);
/* False when the MLIR type is not a ranked static tensor of a known element type. */
bool wafer_ir_type_get(MlirType type, wafer_type *out);
wafer_type wafer_ir_value_type(MlirValue value); /* asserted static */

/* Location that names an ONNX node; every op carries one and every rewrite passes it on. */
MlirLocation wafer_ir_location(const wafer_ir *ir, const char *node, int64_t index);
/* The place of an op for a message: ONNX node where there is one, else line of a text file. Strings live as
 * long as the context. */
wafer_loc wafer_ir_loc(const wafer_ir *ir, MlirOperation op);
/* The ONNX node's name, "" when there is none. */
const char *wafer_ir_node_name(MlirOperation op);

/* ---- nn ops ---- */

/* WAFER_OP_COUNT when the operation is not an nn op. O(1). */
wafer_op wafer_ir_op(MlirOperation op);
/* The op's attributes as plain data, in the arena. */
wafer_status wafer_ir_attrs(const wafer_ctx *ctx, MlirOperation op, wafer_attrs *attrs);

/* Creates nn ops at the end of a block (or before `before`), inferring each result type by the op's shape
 * rule and folding ops all of whose operands are constants of at most WAFER_FOLD_BYTES. */
typedef struct wafer_builder {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  MlirBlock block;
  MlirOperation before; /* null: append */
  MlirLocation location;
  wafer_loc loc; /* the same for messages */
} wafer_builder;

#define WAFER_FOLD_BYTES 65536   /* largest result folded while building */
#define WAFER_INLINE_BYTES 1024  /* larger constants become weights */

wafer_status wafer_build(wafer_builder *b, wafer_op op, uint32_t operand_count, const MlirValue *operands,
                         const wafer_attr *attrs, uint32_t attr_count, MlirValue *result);
/* A constant from host data: nn.constant when small or a splat, else nn.weight `name` in the table. The data
 * must live as long as the arena. */
wafer_status wafer_build_constant(wafer_builder *b, const char *name, const wafer_view *value, MlirValue *result);
/* A scalar or splat constant of any shape. */
wafer_status wafer_build_splat(wafer_builder *b, const wafer_type *type, double value, MlirValue *result);

/* The elements of a value that is a constant or a present weight, as a dense view (splats expanded into the
 * arena); false when it is not constant. */
bool wafer_ir_constant(const wafer_ctx *ctx, const wafer_ir *ir, MlirValue value, wafer_view *out);
/* True for nn.constant and nn.weight results. */
bool wafer_ir_is_constant(MlirValue value);

/* ---- Functions ---- */

MlirOperation wafer_ir_main(const wafer_ir *ir); /* null when there is none */
/* Starts @main with these arguments; the builder appends to its body. wafer_ir_finish_main adds the return and
 * the result names. */
wafer_status wafer_ir_begin_main(const wafer_ctx *ctx, wafer_ir *ir, uint32_t count, const char *const *names,
                                 const wafer_type *types, wafer_builder *b, MlirValue *arguments);
wafer_status wafer_ir_finish_main(wafer_builder *b, uint32_t count, const char *const *names,
                                  const MlirValue *results);

/* ---- Kernels and where they are ---- */

/* A kernel's function as plain data in the arena: nodes, types, family, anchor, depths (1 where no pass has
 * set them). */
wafer_status wafer_ir_kernel_body(const wafer_ctx *ctx, const wafer_ir *ir, MlirOperation func,
                                  wafer_kernel_body *body);
bool wafer_ir_is_kernel(MlirOperation func);

/* The printed location and verification switches of wafer_ir_print are fixed: pretty, with locations off. */

/* ---- Passes ---- */

/* A pass is a plain function over the module; passes.def has a row for each. */
typedef wafer_status wafer_pass_fn(const wafer_ctx *ctx, wafer_ir *ir);
#define PASS(id, ...) wafer_pass_fn wafer_pass_##id;
#include "wafer/passes.def"

#ifdef __cplusplus
}
#endif
#endif
