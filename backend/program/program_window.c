/* Windows: what results of convolutions, pools and resizes need of operand 0. */
#include "program_build.h"

static program_reach forward(const wafer_node *n, int64_t taps, uint32_t d) {
  int64_t pad = wafer_node_ints(n, WAFER_ATTR_pads)[d - 2];
  int64_t span = (taps - 1) * wafer_node_ints(n, WAFER_ATTR_dilations)[d - 2];
  return (program_reach){wafer_node_ints(n, WAFER_ATTR_strides)[d - 2], 1, pad, span - pad};
}

/* Element i of the input reaches results i * stride - pad + tap * dilation. */
static program_reach backward(const wafer_node *n, int64_t taps, uint32_t d) {
  int64_t stride = wafer_node_ints(n, WAFER_ATTR_strides)[d - 2],
          pad = wafer_node_ints(n, WAFER_ATTR_pads)[d - 2];
  int64_t span = (taps - 1) * wafer_node_ints(n, WAFER_ATTR_dilations)[d - 2];
  return (program_reach){1, stride, span - pad - (stride - 1), pad};
}

bool program_window(const wafer_node *n, const wafer_kernel_body *body, uint32_t d,
                    program_reach *w) {
  const wafer_shape *x = &wafer_body_type(body, n->operands[0])->shape;
  switch (n->op) {
  case WAFER_OP_conv:
  case WAFER_OP_conv_transpose: {
    if (d < 2) return false;
    int64_t taps = wafer_body_type(body, n->operands[1])->shape.dims[d];
    *w = n->op == WAFER_OP_conv ? forward(n, taps, d) : backward(n, taps, d);
    return true;
  }
  case WAFER_OP_max_pool:
  case WAFER_OP_average_pool:
    if (d < 2) return false;
    *w = forward(n, wafer_node_ints(n, WAFER_ATTR_kernel)[d - 2], d);
    return true;
  case WAFER_OP_resize: {
    int64_t in = x->dims[d], out = n->type.shape.dims[d];
    if (in == out) return false;
    *w = (program_reach){.num = in, .den = out};
    wafer_resize_window(&n->attrs, d, in, out, &w->before, &w->after);
    return true;
  }
  default: return false;
  }
}

static int32_t floor_div(int64_t a, int64_t b) {
  return (int32_t)(a >= 0 ? a / b : -((b - 1 - a) / b));
}

void program_window_range(const program_reach *w, int32_t lo, int32_t hi, int32_t *from,
                          int32_t *to) {
  *from = floor_div(lo * w->num - w->before, w->den);
  *to = floor_div((hi - 1) * w->num + w->after, w->den) + 1;
}

program_link program_windowed(const spread_dim *dim, const program_reach *w) {
  return (program_link){
      .by = dim, .num = w->num, .den = w->den, .before = w->before, .after = w->after};
}
