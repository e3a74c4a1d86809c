/* Gradients too large for a wafer to hold while they are made, as one product of matrices.
 *
 * A matrix product leaves the wafer slice by slice as its cores make it (wafer_kernel_body in
 * wafer/kernel.h), whatever its size. What else makes a parameter's gradient has to lie there as a
 * whole: what was added up row by row, a result before it is turned, a part before the next one is
 * added to it. Of a table of tokens these are all three. Where they are too much,
 *
 *   rows g of a gather, to their places    the places, a one per row of g, times g
 *   (a b) turned                           b turned, times a turned
 *   a b + c d                              [a c] times [b over d]
 *
 * with f32 sums over the same terms. It multiplies by zeros what a scatter would leave alone, so
 * gradients with room stay as they are. */
#include <string.h>

#include "grad.h"
#include "size/size.h"

/* Of a gradient and its f32 sums, so many are on the wafer at one time: a part that waits, the next
 * one, and what is turned or added. */
#define COPIES 3

typedef struct factors {
  MlirValue left, right; /* rows x inner, inner x columns */
} factors;

static MlirOperation maker(MlirValue value) {
  MlirOperation nothing = {NULL};
  return mlirValueIsAOpResult(value) ? mlirOpResultGetOwner(value) : nothing;
}

static bool is_matrix(MlirValue value) {
  return wafer_ir_value_type(value).shape.rank == 2;
}

static int64_t elements(MlirValue value) {
  wafer_shape shape = wafer_ir_value_type(value).shape;
  return grad_elements(&shape, 0, shape.rank);
}

/* ---- what is one ---- */

static bool adds_rows(const wafer_ctx *ctx, MlirOperation op) {
  wafer_attrs attrs;
  double zero;
  return wafer_ir_attrs(ctx, op, &attrs) == WAFER_OK &&
         !strcmp(wafer_attr_string(&attrs, WAFER_ATTR_mode), "add") &&
         wafer_ir_splat(mlirOperationGetOperand(op, 0), &zero) && zero == 0 &&
         wafer_ir_value_type(mlirOperationGetOperand(op, 1)).shape.rank == 1;
}

/* Whether a matrix is a sum of products; *size grows by the elements of their factors. */
static bool is_product(const wafer_ctx *ctx, MlirValue value, int64_t *size) {
  MlirOperation op = maker(value);
  if (mlirOperationIsNull(op) || !is_matrix(value)) return false;
  wafer_shape shape = wafer_ir_value_type(value).shape;
  switch ((int)wafer_ir_op(op)) {
  case WAFER_OP_transpose: return is_product(ctx, mlirOperationGetOperand(op, 0), size);
  case WAFER_OP_matmul:
    *size += elements(mlirOperationGetOperand(op, 0)) + elements(mlirOperationGetOperand(op, 1));
    return is_matrix(mlirOperationGetOperand(op, 0)) && is_matrix(mlirOperationGetOperand(op, 1));
  case WAFER_OP_scatter:
    *size += (shape.dims[0] + shape.dims[1]) * elements(mlirOperationGetOperand(op, 1));
    return adds_rows(ctx, op);
  case WAFER_OP_add:
    return is_product(ctx, mlirOperationGetOperand(op, 0), size) &&
           is_product(ctx, mlirOperationGetOperand(op, 1), size);
  default: return false;
  }
}

/* ---- its factors ---- */

/* Element (v, i): whether index i, of which negative ones count from the end, is v. */
static MlirValue places(grad *d, MlirValue index, const wafer_type *table) {
  int64_t rows = table->shape.dims[0], count = grad_shape(d, index).dims[0];
  index = grad_cast(d, index, WAFER_DTYPE_i64);
  MlirValue zero = grad_scalar(d, index, 0), all = grad_scalar(d, index, (double)rows);
  index = grad_select(d, LESS(index, zero), ADD(index, all), index);
  MlirValue number = grad_reshape_to(d, grad_iota(d, rows), 2, (int64_t[]){rows, 1});
  index = grad_reshape_to(d, index, 2, (int64_t[]){1, count});
  return grad_cast(d, EQUAL(number, index), table->dtype);
}

static factors factors_of(grad *d, MlirValue value) {
  MlirOperation op = maker(value);
  wafer_type type = wafer_ir_value_type(value);
  wafer_op id = wafer_ir_op(op);
  MlirValue a = mlirOperationGetOperand(op, 0), b = a;
  if (mlirOperationGetNumOperands(op) > 1) b = mlirOperationGetOperand(op, 1);
  if (id == WAFER_OP_matmul) return (factors){a, b};
  if (id == WAFER_OP_scatter) return (factors){places(d, b, &type), mlirOperationGetOperand(op, 2)};
  factors f = factors_of(d, a);
  if (id == WAFER_OP_transpose)
    return (factors){grad_swap_last(d, f.right), grad_swap_last(d, f.left)};
  factors g = factors_of(d, b);
  return (factors){grad_concat(d, f.left, g.left, 1), grad_concat(d, f.right, g.right, 0)};
}

/* ---- which ---- */

static bool is_too_large(const wafer_ctx *ctx, MlirValue gradient) {
  wafer_type type = wafer_ir_value_type(gradient);
  wafer_dtype storage =
      ctx->options && ctx->options->storage ? ctx->options->storage : WAFER_DTYPE_f32;
  wafer_rect whole;
  if (!size_whole_wafer(ctx->machine, &whole)) return false;
  double bytes = wafer_stored_bytes(type.dtype, storage) + wafer_dtype_bytes(WAFER_DTYPE_f32);
  double room = (double)whole.width * whole.height * wafer_machine_core_budget(ctx->machine);
  return COPIES * bytes * (double)elements(gradient) > room;
}

static wafer_status join(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation end, intptr_t at) {
  MlirValue gradient = mlirOperationGetOperand(end, at);
  MlirOperation op = maker(gradient);
  wafer_builder b = {.ctx = ctx,
                     .ir = ir,
                     .block = mlirOperationGetBlock(end),
                     .before = end,
                     .location = mlirOperationGetLocation(op),
                     .loc = wafer_ir_loc(ir, op)};
  grad d = {.b = &b};
  factors f = factors_of(&d, gradient);
  MlirValue product = grad_binary(&d, WAFER_OP_matmul, f.left, f.right);
  if (d.status == WAFER_OK) mlirOperationSetOperand(end, at, product);
  return d.status;
}

wafer_status grad_join(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation end) {
  bool any = false;
  for (intptr_t i = 0; ctx->machine && i < mlirOperationGetNumOperands(end); i++) {
    MlirValue gradient = mlirOperationGetOperand(end, i);
    int64_t size = 0;
    if (wafer_ir_result(wafer_ir_main(ir), (uint32_t)i).role != WAFER_ROLE_gradient ||
        !is_too_large(ctx, gradient) || wafer_ir_op(maker(gradient)) == WAFER_OP_matmul ||
        !is_product(ctx, gradient, &size) || size > elements(gradient))
      continue;
    WAFER_TRY(join(ctx, ir, end, i));
    any = true;
  }
  return any ? wafer_pass_simplify(ctx, ir) : WAFER_OK; /* what nothing uses any more */
}
