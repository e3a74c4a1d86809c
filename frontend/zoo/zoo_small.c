/* Small classifiers: layers of neurons, and convolutions. */
#include <math.h>

#include "zoo.h"

static const char *dense(zoo *z, const char *name, const char *x, int64_t inputs, int64_t outputs) {
  const char *w =
      zoo_matrix(z, zoo_name(z, "%s.weight", name), sqrt(2.0 / (double)inputs), inputs, outputs);
  return ZOO_OP(z, "Gemm", name, x, w, zoo_vector(z, zoo_name(z, "%s.bias", name), 0, outputs));
}

static void logits(zoo *z, int64_t classes) {
  wafer_onnx_output(z->model, "logits", WAFER_DTYPE_f32, 2,
                    (wafer_onnx_dim[]){zoo_batch(z), {classes, NULL}});
}

void zoo_mlp(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  const char *x = "x";
  uint32_t last = m->width_count - 1;
  wafer_onnx_input(z->model, x, WAFER_DTYPE_f32, 2,
                   (wafer_onnx_dim[]){zoo_batch(z), {m->widths[0], NULL}});
  for (uint32_t i = 0; i < last; i++) {
    const char *name = i + 1 < last ? zoo_name(z, "layer.%u", i) : "logits";
    x = dense(z, name, x, m->widths[i], m->widths[i + 1]);
    if (i + 1 < last) x = ZOO_OP(z, "Relu", zoo_name(z, "layer.%u.active", i), x);
  }
  logits(z, m->widths[last]);
}

/* What it keeps of batches is not drawn, but begins as PyTorch's does. */
static const char *batch_norm(zoo *z, const char *name, const char *x, int64_t channels) {
  ZOO_OP(z, "BatchNormalization", name, x,
         zoo_vector(z, zoo_name(z, "%s.weight", name), 1, channels),
         zoo_vector(z, zoo_name(z, "%s.bias", name), 0, channels),
         zoo_vector(z, zoo_name(z, "%s.running_mean", name), 0, channels),
         zoo_vector(z, zoo_name(z, "%s.running_var", name), 1, channels));
  wafer_onnx_attr_int(z->model, "training_mode", 1);
  return name;
}

/* 3x3, as large as its input. */
static const char *convolution(zoo *z, const char *name, const char *x, int64_t from, int64_t to) {
  static const int64_t ones[] = {1, 1, 1, 1};
  int64_t dims[] = {to, from, 3, 3};
  const char *w =
      zoo_weight(z, zoo_name(z, "%s.weight", name), 0, sqrt(2.0 / (9.0 * (double)from)), 4, dims);
  bool normed = z->spec->norm == WAFER_ZOO_batch;
  ZOO_OP(z, "Conv", name, x, w, normed ? NULL : zoo_vector(z, zoo_name(z, "%s.bias", name), 0, to));
  wafer_onnx_attr_ints(z->model, "pads", ones, 4);
  const char *y = normed ? batch_norm(z, zoo_name(z, "%s.norm", name), name, to) : name;
  return ZOO_OP(z, "Relu", zoo_name(z, "%s.active", name), y);
}

static const char *halved(zoo *z, const char *name, const char *x) {
  static const int64_t two[] = {2, 2};
  ZOO_OP(z, "MaxPool", name, x);
  wafer_onnx_attr_ints(z->model, "kernel_shape", two, 2);
  wafer_onnx_attr_ints(z->model, "strides", two, 2);
  return name;
}

void zoo_cnn(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  const char *x = "x";
  int64_t side = m->side;
  uint32_t convolutions = m->width_count - 2;
  wafer_onnx_dim size = {m->side, NULL};
  wafer_onnx_input(z->model, x, WAFER_DTYPE_f32, 4,
                   (wafer_onnx_dim[]){zoo_batch(z), {m->widths[0], NULL}, size, size});
  for (uint32_t i = 0; i < convolutions; i++) {
    const char *name = zoo_name(z, "conv.%u", i);
    x = convolution(z, name, x, m->widths[i], m->widths[i + 1]);
    if (i % 2 == 0) continue;
    x = halved(z, zoo_name(z, "%s.halved", name), x);
    side /= 2;
  }
  int64_t channels = m->widths[convolutions], classes = m->widths[convolutions + 1];
  x = ZOO_OP(z, "Flatten", "flat", x);
  dense(z, "logits", x, channels * side * side, classes);
  logits(z, classes);
}
