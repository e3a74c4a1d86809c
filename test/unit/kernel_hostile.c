/* Kernels of whatever the shape rules accept. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "kernel_plain.h"
#include "op_hostile.h"

static int64_t hostile_dim(uint64_t *state) {
  static const int64_t dims[] = {0, 1, 1, 2, 3, 4, 6, 8, 9, 1000, (int64_t)1 << 33};
  return dims[op_hostile_next(state) % WAFER_COUNT(dims)];
}

static wafer_split hostile_split(uint64_t *state, const wafer_loops *loops) {
  wafer_split split = split_whole();
  for (uint32_t l = 0; l < loops->count; l++) {
    if (!loops->divisible[l]) continue;
    uint64_t parts =
        1 + op_hostile_next(state) % (uint64_t)(loops->extent[l] < 12 ? loops->extent[l] : 12);
    (op_hostile_next(state) % 2 ? split.rows : split.cols)[l] = (uint32_t)parts;
  }
  return split;
}

/* One op of its own family; false when its rule refuses it. */
static bool hostile_body(uint64_t *state, body_text *b) {
  wafer_op op = (wafer_op)(op_hostile_next(state) % WAFER_OP_COUNT);
  const wafer_op_info *info = wafer_op_get(op);
  uint32_t rank = (uint32_t)(op_hostile_next(state) % 6);
  if (info->family >= WAFER_FAMILY_COUNT || wafer_op_is(op, WAFER_TRAIT_SOURCE)) return false;
  body_text_begin(b, wafer_family_name(info->family), "");
  b->body.input_count = info->most;
  wafer_node *node = &b->nodes[0];
  *node = (wafer_node){.op = op, .name = "n", .operand_count = info->most};
  for (uint32_t i = 0; i < info->most; i++) {
    bool places = i == 1 && (info->family == WAFER_FAMILY_gather || op == WAFER_OP_scatter);
    b->inputs[i] = (wafer_type){places ? WAFER_DTYPE_i64 : WAFER_DTYPE_f32, {.rank = rank}};
    for (uint32_t d = 0; d < rank; d++)
      b->inputs[i].shape.dims[d] =
          i && op_hostile_next(state) % 4 ? b->inputs[0].shape.dims[d] : hostile_dim(state);
    b->depth[i] = 1;
    node->operands[i] = i;
  }
  bool bias = op == WAFER_OP_conv || op == WAFER_OP_conv_transpose;
  if (bias) b->body.input_count = node->operand_count = 2;
  op_hostile_attrs(state, op, rank, &b->attrs[0]);
  node->attrs = b->attrs[0].attrs;
  if (wafer_op_infer(NULL, wafer_at_file("test"), op, &node->attrs, node->operand_count, b->inputs,
                     &node->type) != WAFER_OK)
    return false;
  b->body.node_count = b->body.output_count = 1;
  b->outputs[0] = b->body.input_count;
  return true;
}

static int64_t few(uint64_t *state, int64_t least, int64_t most) {
  return least + (int64_t)(op_hostile_next(state) % (uint64_t)(most - least + 1));
}

/* A convolution or pool of sound attributes: random ones are refused nearly always. */
static bool window_body(uint64_t *state, body_text *b) {
  static const wafer_op ops[] = {WAFER_OP_conv, WAFER_OP_conv_transpose, WAFER_OP_max_pool,
                                 WAFER_OP_average_pool};
  wafer_op op = ops[op_hostile_next(state) % WAFER_COUNT(ops)];
  bool weighs = op == WAFER_OP_conv || op == WAFER_OP_conv_transpose;
  int64_t group = few(state, 1, 4), in = few(state, 1, 3), out = few(state, 1, 3),
          taps = few(state, 1, 4);
  char inputs[128], attrs[256];
  snprintf(inputs, sizeof inputs, "%dx%dx%dx%dxf32 w:%dx%dx%dx%dxf32", (int)few(state, 1, 2),
           (int)(group * in), (int)few(state, 1, 20), (int)few(state, 1, 20),
           (int)(group * (op == WAFER_OP_conv ? out : in)), (int)(op == WAFER_OP_conv ? in : out),
           (int)taps, (int)few(state, 1, 4));
  snprintf(attrs, sizeof attrs,
           "group=%d kernel=%d,%d strides=%d,%d dilations=%d,%d pads=%d,%d,%d,%d "
           "output_padding=0,0 ceil_mode=%d "
           "count_include_pad=0",
           (int)group, (int)taps, (int)few(state, 1, 4), (int)few(state, 1, 3),
           (int)few(state, 1, 3), (int)few(state, 1, 3), (int)few(state, 1, 2),
           (int)few(state, 0, 1), (int)few(state, 0, 1), (int)few(state, 0, 1),
           (int)few(state, 0, 1), (int)few(state, 0, 1));
  body_text_begin(b, wafer_family_name(wafer_op_get(op)->family), inputs);
  if (!weighs) b->body.input_count = 1;
  return body_text_node(b, wafer_op_get(op)->name, weighs ? "0 1" : "0", attrs) != UINT32_MAX;
}

/* No body that passes the rules may fault, and no part may be longer than its whole. */
static void test_hostile_bodies(void) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  wafer_machine m = plain_machine();
  uint32_t seen[2] = {0};
  for (int round = 0; round < 100000; round++) {
    static body_text b;
    wafer_loops loops;
    wafer_cost cost, whole;
    bool window = round % 8 == 0;
    if (!(window ? window_body(&state, &b) : hostile_body(&state, &b))) continue;
    seen[window]++;
    wafer_kernel_loops(&b.body, &loops);
    wafer_split split = hostile_split(&state, &loops), uncut = split_whole();
    wafer_kernel_cost(&m, &b.body, &split, &cost);
    wafer_kernel_cost(&m, &b.body, &uncut, &whole);
    CU_ASSERT_FATAL(cost.output_bytes <= whole.output_bytes);
    CU_ASSERT_FATAL(whole.fabric_cycles == 0);
    for (uint32_t i = 0; i < b.body.input_count; i++) {
      wafer_layout layout = wafer_kernel_input_layout(&b.body, &split, i);
      int64_t elements = 0;
      CU_ASSERT_FATAL(layout.rank == b.inputs[i].shape.rank);
      CU_ASSERT_FATAL(wafer_shape_elements(&b.inputs[i].shape, &elements));
      CU_ASSERT_FATAL(wafer_layout_tile(&layout, &b.inputs[i].shape) <= (uint64_t)elements);
    }
  }
  CU_ASSERT(seen[0] > 5000 && seen[1] > 5000);
}

CU_TestInfo tests_kernel_hostile[] = {
    {"whatever the shape rules accept", test_hostile_bodies},
    CU_TEST_INFO_NULL,
};
