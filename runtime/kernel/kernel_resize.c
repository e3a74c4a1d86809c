/* Family resize: nearest, linear and cubic, dim by dim.
 *
 * Dims are cut as the result's; the operand's parts overlap by what an element is made of: windows,
 * as of convolutions. Every resized dim is a pass of its own over what the one before made: an
 * instruction for each index of the result and each element that it is made of, where the same
 * weights come back those indices together (resize_passes). A linear or cubic resize is 2 or 4
 * multiply-accumulates per element and resized dim. */
#include <string.h>

#include "kernel_move.h"

/* Elements on either side of the nearest one that a resized element is made of, less itself. */
static int64_t support(const wafer_node *n) {
  const char *mode = wafer_attr_string(&n->attrs, WAFER_ATTR_mode);
  return strcmp(mode, "cubic") == 0 ? 2 : strcmp(mode, "linear") == 0 ? 1 : 0;
}

static uint64_t taps_of(const wafer_node *n) {
  return support(n) ? 2 * (uint64_t)support(n) : 1;
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    int64_t in = kernel_move_shape(k, n->operands[0])->dims[d], out = n->type.shape.dims[d];
    if (in == out) continue;
    window[d] = (kernel_window){.num = in, .den = out};
    wafer_resize_window(&n->attrs, d, in, out, &window[d].before, &window[d].after);
  }
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t taps = 1;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (n->type.shape.dims[d] != kernel_move_shape(k, n->operands[0])->dims[d]) taps *= taps_of(n);
  return support(n) ? 2 * taps : 1;
}

static int64_t divisor(int64_t a, int64_t b) {
  return b ? divisor(b, a % b) : a > 0 ? a : 1;
}

/* Instructions along dim d; 0: it keeps its length. */
static uint64_t resize_passes(const kernel_view *k, uint32_t node, uint32_t d) {
  const wafer_node *n = kernel_node(k, node);
  const char *how = wafer_attr_string(&n->attrs, WAFER_ATTR_coordinates);
  int64_t in = kernel_move_shape(k, n->operands[0])->dims[d], out = n->type.shape.dims[d];
  int64_t period = strcmp(how, "align_corners") == 0 ? out : out / divisor(in, out);
  int64_t tile = k->tile[kernel_result(k, node)][d];
  return in == out ? 0 : kernel_mul((uint64_t)(tile < period ? tile : period), taps_of(n));
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t x = n->operands[0], y = kernel_result(k, node);
  uint64_t elements = k->elements[x], cycles = 0;
  uint64_t one = k->machine->vector_setup_cycles + k->machine->descriptor_load_cycles;
  wafer_rate rate = support(n) ? WAFER_RATE_fma : WAFER_RATE_move;
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    uint64_t passes = resize_passes(k, node, d);
    if (passes == 0) continue;
    elements = elements / (uint64_t)(k->tile[x][d] > 0 ? k->tile[x][d] : 1);
    elements = kernel_mul(elements, (uint64_t)k->tile[y][d]);
    cycles = kernel_add(cycles, kernel_mul(passes, one));
    cycles = kernel_add(cycles, wafer_machine_cycles(k->machine, rate, kernel_sums(k, y),
                                                     kernel_mul(elements, taps_of(n))));
  }
  return cycles;
}

/* What it has made of all dims but the last. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node), x = kernel_node(k, node)->operands[0];
  uint64_t bytes = wafer_dtype_bytes(kernel_sums(k, y));
  for (uint32_t d = 0; d < kernel_type(k, y)->shape.rank; d++) {
    int64_t from = x == k->windowed ? k->halo[d].reach : k->tile[x][d], to = k->tile[y][d];
    bytes = kernel_mul(bytes, (uint64_t)(from > to ? from : to));
  }
  return kernel_dtype(k, y) != kernel_sums(k, y) ? kernel_mul(2, bytes) : bytes;
}

#define RESIZE_CODE_BYTES 40 /* an instruction, and four descriptors */

static uint64_t code(const kernel_view *k, uint32_t node) {
  uint64_t instructions = 0;
  for (uint32_t d = 0; d < kernel_node(k, node)->type.shape.rank; d++)
    instructions = kernel_add(instructions, resize_passes(k, node, d));
  return kernel_mul(instructions, RESIZE_CODE_BYTES);
}

const kernel_family kernel_family_resize = {.operand = kernel_move_follow,
                                            .compute = compute,
                                            .fabric = kernel_halo,
                                            .windows = windows,
                                            .operations = operations,
                                            .scratch = scratch,
                                            .code = code};
