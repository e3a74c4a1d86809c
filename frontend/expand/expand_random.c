/* Random numbers: drawn when compiling, so that a plan gives the same results every time. They are
 * those of numpy's RandomState(seed); without a seed, of the node's index. */
#include <math.h>
#include <string.h>

#include "operators.h"
#include "random.h"

static const MlirValue none;

typedef double draw_fn(random_state *r);

/* From attribute `seed`: a float here, an integer of Dropout. */
static void begin_random(import_node *n, random_state *r) {
  const onnx_attribute *seed = attr_find(n, "seed");
  double value = (double)n->index;
  if (seed) value = onnx_attribute_type_of(seed) == ONNX_INT ? (double)seed->i : (double)seed->f;
  if (!(value >= 0 && value < 0x1p32)) {
    node_bad(n, "seed %g, must be 0 to 2^32 - 1", value);
    value = 0;
  }
  random_seed(r, (uint32_t)value);
}

/* `scale` times each draw, plus `shift`. */
static MlirValue draws(import_node *n, random_state *r, draw_fn *draw, const wafer_type *type,
                       double scale, double shift) {
  wafer_view view = node_new_tensor(n, type->dtype, type->shape.rank, type->shape.dims);
  int64_t count;
  if (!view.data || !wafer_shape_elements(&type->shape, &count)) return none;
  for (int64_t i = 0; i < count; i++)
    wafer_element_set_f64(type->dtype, view.data, i, shift + scale * draw(r));
  return emit_constant(n, &view);
}

MlirValue emit_uniform(import_node *n, const wafer_shape *shape, int64_t skip) {
  random_state r;
  wafer_type type = {WAFER_DTYPE_f64, *shape};
  begin_random(n, &r);
  for (int64_t i = 0; i < skip && n->status == WAFER_OK; i++) random_uniform(&r);
  return n->status == WAFER_OK ? draws(n, &r, random_uniform, &type, 1, 0) : none;
}

/* The type that is asked for: attributes shape and dtype, or those of an operand. */
static wafer_type wanted_type(import_node *n) {
  wafer_type type = {.dtype = WAFER_DTYPE_f32};
  if (node_has_input(n, 0)) {
    type = node_type(n, node_input(n, 0));
  } else {
    int_list dims = attr_ints(n, "shape");
    if (dims.count > WAFER_MAX_RANK)
      node_unsupported(n, "%u dims, at most %d are", dims.count, WAFER_MAX_RANK);
    for (uint32_t i = 0; i < dims.count && n->status == WAFER_OK; i++)
      type.shape.dims[type.shape.rank++] = dims.at[i];
  }
  type.dtype = attr_dtype(n, "dtype", type.dtype);
  if (!wafer_dtype_is_float(type.dtype)) node_bad(n, "random numbers are floats");
  return type;
}

void import_random_uniform(import_node *n) {
  random_state r;
  wafer_type type = wanted_type(n);
  double low = attr_float(n, "low", 0), high = attr_float(n, "high", 1);
  begin_random(n, &r);
  if (n->status == WAFER_OK) n->outputs[0] = draws(n, &r, random_uniform, &type, high - low, low);
}

void import_random_normal(import_node *n) {
  random_state r;
  wafer_type type = wanted_type(n);
  double mean = attr_float(n, "mean", 0), deviation = attr_float(n, "scale", 1);
  begin_random(n, &r);
  if (n->status == WAFER_OK) n->outputs[0] = draws(n, &r, random_normal, &type, deviation, mean);
}

/* 1 with probability x: as numpy's binomial, which compares from the nearer end. The draws begin
 * behind as many as x has elements, so that an x drawn with the same seed is not compared with
 * itself. */
void import_bernoulli(import_node *n) {
  MlirValue x = node_input(n, 0), p = emit_cast(n, x, WAFER_DTYPE_f64);
  wafer_shape shape = node_type(n, x).shape;
  wafer_dtype dtype = attr_dtype(n, "dtype", node_dtype(n, x));
  int64_t count = 0;
  if (n->status != WAFER_OK || !wafer_shape_elements(&shape, &count)) return;
  MlirValue u = emit_uniform(n, &shape, count), half = emit_scalar_like(n, p, 0.5);
  MlirValue rare = emit_binary(n, WAFER_OP_less, SUB(emit_scalar_like(n, p, 1), p), u);
  MlirValue often = emit_binary(n, WAFER_OP_less_equal, u, p);
  MlirValue small = emit_binary(n, WAFER_OP_less_equal, p, half);
  n->outputs[0] = emit_cast(n, emit_select(n, small, rare, often), dtype);
}

/* Classes by unnormalized log-probabilities: how many partial sums a draw exceeds. */
void import_multinomial(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  int64_t count = attr_int(n, "sample_size", 1), classes = s.rank == 2 ? s.dims[1] : 0;
  wafer_dtype dtype = attr_dtype(n, "dtype", WAFER_DTYPE_i32);
  if (n->status == WAFER_OK && (s.rank != 2 || classes < 1 || classes > 1 << 12 || count < 1))
    node_bad(n, "%lld samples of %lld classes", (long long)count, (long long)classes);
  wafer_view upper = node_new_tensor(n, WAFER_DTYPE_f32, 2, (int64_t[]){classes, classes});
  if (!upper.data) return;
  for (int64_t i = 0; i < classes * classes; i++)
    ((float *)upper.data)[i] = i / classes <= i % classes;
  MlirValue p = emit_softmax(n, emit_cast(n, x, WAFER_DTYPE_f32), 1);
  p = emit_binary(n, WAFER_OP_matmul, p, emit_constant(n, &upper));
  p = emit_reshape(n, p, 3, (int64_t[]){s.dims[0], 1, classes});
  MlirValue u = emit_uniform(n, &(wafer_shape){3, {s.dims[0], count, 1}}, 0);
  MlirValue passed = emit_binary(n, WAFER_OP_less_equal, p, emit_cast(n, u, WAFER_DTYPE_f32));
  MlirValue index =
      emit_reduce(n, WAFER_OP_reduce_sum, emit_cast(n, passed, dtype), 1u << 2, false);
  n->outputs[0] =
      emit_binary(n, WAFER_OP_min, index, emit_scalar_like(n, index, (double)classes - 1));
}
