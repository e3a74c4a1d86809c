/* passes/ir: types, attributes, constants, the builder, functions, kernels, streams. */
#include <CUnit/CUnit.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/ir.h"

typedef struct fixture {
  wafer_ctx ctx;
  wafer_ir *ir;
} fixture;

static fixture setup(void) {
  fixture f = {.ctx.arena = wafer_arena_create()};
  CU_ASSERT_EQUAL_FATAL(wafer_ir_create(&f.ctx, "dir/model.onnx", &f.ir), WAFER_OK);
  return f;
}

static void teardown(fixture *f) {
  wafer_ir_destroy(f->ir);
  wafer_arena_destroy(f->ctx.arena);
}

static wafer_type type_of(wafer_dtype dtype, uint32_t rank, const int64_t *dims) {
  wafer_type type = {.dtype = dtype, .shape.rank = rank};
  for (uint32_t d = 0; d < rank; d++) type.shape.dims[d] = dims[d];
  return type;
}

static wafer_builder begin(fixture *f, uint32_t count, const wafer_type *types,
                           MlirValue *arguments) {
  static const char *const names[] = {"x", "y", "z"};
  wafer_builder b;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_begin_main(&f->ctx, f->ir, count, names, types, &b, arguments),
                        WAFER_OK);
  b.location = wafer_ir_location(f->ir, "node1", 7);
  b.loc = wafer_at_node("dir/model.onnx", "node1", 7);
  return b;
}

static void types_both_ways(void) {
  fixture f = setup();
  for (int d = WAFER_DTYPE_none + 1; d < WAFER_DTYPE_COUNT; d++) {
    wafer_type type = type_of((wafer_dtype)d, 2, (int64_t[]){3, 0}), back;
    MlirType mlir = wafer_ir_type(f.ir->context, &type);
    CU_ASSERT_FALSE_FATAL(mlirTypeIsNull(mlir));
    CU_ASSERT_TRUE_FATAL(wafer_ir_type_get(mlir, &back));
    CU_ASSERT_EQUAL(back.dtype, type.dtype);
    CU_ASSERT_TRUE(wafer_shape_equal(&back.shape, &type.shape));
  }
  wafer_type none = {0};
  CU_ASSERT_TRUE(mlirTypeIsNull(wafer_ir_type(f.ir->context, &none)));
  teardown(&f);
}

/* Every element type, splat, small, empty and scalar. */
static void constants_both_ways(void) {
  static const struct {
    uint32_t rank;
    int64_t dims[2];
  } shapes[] = {{0, {0}}, {1, {1}}, {1, {5}}, {2, {3, 9}}, {1, {0}}};
  fixture f = setup();
  MlirValue x;
  wafer_type in = type_of(WAFER_DTYPE_f32, 1, (int64_t[]){4});
  wafer_builder b = begin(&f, 1, &in, &x);
  for (int d = WAFER_DTYPE_none + 1; d < WAFER_DTYPE_COUNT; d++) {
    for (size_t s = 0; s < WAFER_COUNT(shapes); s++) {
      wafer_type type = type_of((wafer_dtype)d, shapes[s].rank, shapes[s].dims);
      int64_t count;
      wafer_shape_elements(&type.shape, &count);
      char data[8 * 27] = {0};
      for (int64_t i = 0; i < count; i++) wafer_element_set_i64(type.dtype, data, i, i % 3 != 1);
      wafer_view view = wafer_view_of(type.dtype, &type.shape, data), back;
      MlirValue constant;
      CU_ASSERT_EQUAL_FATAL(wafer_build_constant(&b, "c", &view, &constant), WAFER_OK);
      CU_ASSERT_TRUE_FATAL(wafer_ir_constant(&f.ctx, f.ir, constant, &back));
      CU_ASSERT_EQUAL(back.dtype, type.dtype);
      CU_ASSERT_FALSE(memcmp(back.data, data, (size_t)count * wafer_dtype_bytes(type.dtype)));
      CU_ASSERT_TRUE(wafer_build_splat(&b, &type, 1, &constant) == WAFER_OK);
      CU_ASSERT_TRUE_FATAL(wafer_ir_constant(&f.ctx, f.ir, constant, &back));
      for (int64_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(wafer_element_i64(type.dtype, back.data, i), 1);
      double element = 0;
      CU_ASSERT_EQUAL(wafer_ir_splat(constant, &element), count > 0);
      CU_ASSERT_EQUAL(element, count > 0);
    }
  }
  CU_ASSERT_EQUAL(wafer_ir_finish_main(&b, 1, (const char *[]){"y"}, &x), WAFER_OK);
  CU_ASSERT_TRUE(mlirOperationVerify(mlirModuleGetOperation(f.ir->module)));
  teardown(&f);
}

static void large_constants_are_weights(void) {
  fixture f = setup();
  MlirValue x, w;
  wafer_type in = type_of(WAFER_DTYPE_f32, 1, (int64_t[]){4});
  wafer_builder b = begin(&f, 1, &in, &x);
  static float data[300];
  data[7] = 1;
  wafer_type type = type_of(WAFER_DTYPE_f32, 1, (int64_t[]){300});
  wafer_view view = wafer_view_of(type.dtype, &type.shape, data), back;
  CU_ASSERT_EQUAL_FATAL(wafer_build_constant(&b, "big", &view, &w), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_ir_op(mlirOpResultGetOwner(w)), WAFER_OP_weight);
  CU_ASSERT_PTR_NOT_NULL(wafer_weights_find(f.ir->weights, "big"));
  CU_ASSERT_TRUE_FATAL(wafer_ir_constant(&f.ctx, f.ir, w, &back));
  CU_ASSERT_PTR_EQUAL(back.data, data); /* not copied */
  data[7] = 0;
  CU_ASSERT_EQUAL_FATAL(wafer_build_constant(&b, "zeros", &view, &w), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_ir_op(mlirOpResultGetOwner(w)), WAFER_OP_constant); /* a splat */
  CU_ASSERT_FALSE(wafer_ir_is_constant(x));
  teardown(&f);
}

/* Builds conv with every attribute kind of its row and reads it back. */
static void attributes_both_ways(void) {
  fixture f = setup();
  MlirValue in[2], y;
  wafer_type types[] = {type_of(WAFER_DTYPE_f32, 4, (int64_t[]){1, 4, 8, 8}),
                        type_of(WAFER_DTYPE_f32, 4, (int64_t[]){6, 2, 3, 3})};
  wafer_builder b = begin(&f, 2, types, in);
  wafer_attr attrs[] = {
      {.id = WAFER_ATTR_group, .i = 2},
      {.id = WAFER_ATTR_strides, .ints = {2, (int64_t[]){2, 1}}},
      {.id = WAFER_ATTR_dilations, .ints = {2, (int64_t[]){1, 1}}},
      {.id = WAFER_ATTR_pads, .ints = {4, (int64_t[]){1, 0, 1, 2}}},
  };
  CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_conv, 2, in, attrs, 4, &y), WAFER_OK);
  wafer_type type = wafer_ir_value_type(y),
             want = type_of(WAFER_DTYPE_f32, 4, (int64_t[]){1, 6, 4, 8});
  CU_ASSERT_TRUE(wafer_shape_equal(&type.shape, &want.shape));
  MlirOperation op = mlirOpResultGetOwner(y);
  wafer_attrs read;
  CU_ASSERT_EQUAL(wafer_ir_op(op), WAFER_OP_conv);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_attrs(&f.ctx, op, &read), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_attr_int(&read, WAFER_ATTR_group), 2);
  uint32_t count;
  CU_ASSERT_EQUAL(wafer_attr_ints(&read, WAFER_ATTR_pads, &count)[3], 2);
  CU_ASSERT_EQUAL(count, 4);
  CU_ASSERT_STRING_EQUAL(wafer_ir_node_name(op), "node1");
  wafer_loc loc = wafer_ir_loc(f.ir, op);
  CU_ASSERT_EQUAL(loc.kind, WAFER_AT_NODE);
  CU_ASSERT_EQUAL(loc.index, 7);
  mlirOperationRemoveAttributeByName(op, mlirStringRefCreateFromCString("pads"));
  CU_ASSERT_EQUAL(wafer_ir_attrs(&f.ctx, op, &read), WAFER_BAD_INPUT);
  teardown(&f);
}

static void constants_fold_while_building(void) {
  fixture f = setup();
  MlirValue x, a, c, sum;
  wafer_type in = type_of(WAFER_DTYPE_f32, 1, (int64_t[]){4}),
             shape = type_of(WAFER_DTYPE_i64, 1, (int64_t[]){2});
  wafer_builder b = begin(&f, 1, &in, &x);
  int64_t left[] = {40, -1}, right[] = {2, 3};
  wafer_view lv = wafer_view_of(WAFER_DTYPE_i64, &shape.shape, left), back;
  wafer_view rv = wafer_view_of(WAFER_DTYPE_i64, &shape.shape, right);
  CU_ASSERT_EQUAL(wafer_build_constant(&b, "a", &lv, &a), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_build_constant(&b, "c", &rv, &c), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_build(&b, WAFER_OP_add, 2, (MlirValue[]){a, c}, NULL, 0, &sum), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(wafer_ir_constant(&f.ctx, f.ir, sum, &back));
  CU_ASSERT_EQUAL(((int64_t *)back.data)[0], 42);
  CU_ASSERT_EQUAL(((int64_t *)back.data)[1], 2);
  teardown(&f);
}

static void identities_build_nothing(void) {
  fixture f = setup();
  MlirValue x, y;
  wafer_type in = type_of(WAFER_DTYPE_f32, 2, (int64_t[]){4, 6});
  wafer_builder b = begin(&f, 1, &in, &x);
  wafer_attr same = {.id = WAFER_ATTR_shape, .ints = {2, (int64_t[]){4, 6}}};
  wafer_attr other = {.id = WAFER_ATTR_shape, .ints = {1, (int64_t[]){24}}};
  wafer_attr perm = {.id = WAFER_ATTR_perm, .ints = {2, (int64_t[]){0, 1}}};
  wafer_attr swap = {.id = WAFER_ATTR_perm, .ints = {2, (int64_t[]){1, 0}}};
  wafer_attr f32 = {.id = WAFER_ATTR_to, .s = "f32"}, f16 = {.id = WAFER_ATTR_to, .s = "f16"};
  const struct {
    wafer_op op;
    const wafer_attr *attr;
    bool identity;
  } cases[] = {
      {WAFER_OP_reshape, &same, true},    {WAFER_OP_reshape, &other, false},
      {WAFER_OP_expand, &same, true},     {WAFER_OP_transpose, &perm, true},
      {WAFER_OP_transpose, &swap, false}, {WAFER_OP_cast, &f32, true},
      {WAFER_OP_cast, &f16, false},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    CU_ASSERT_EQUAL_FATAL(wafer_build(&b, cases[i].op, 1, &x, cases[i].attr, 1, &y), WAFER_OK);
    CU_ASSERT_EQUAL(mlirValueEqual(x, y), cases[i].identity);
  }
  int64_t backwards[] = {3, 0}, steps[] = {-1, 1}, dims[] = {4, 6};
  wafer_attr slice[] = {{.id = WAFER_ATTR_starts, .ints = {2, backwards}},
                        {.id = WAFER_ATTR_steps, .ints = {2, steps}},
                        {.id = WAFER_ATTR_shape, .ints = {2, dims}}};
  CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_slice, 1, &x, slice, 3, &y), WAFER_OK);
  CU_ASSERT_FALSE(mlirValueEqual(x, y)); /* it reverses */
  teardown(&f);
}

/* ---- Dialects against ops.def ---- */

typedef struct walk {
  bool seen[WAFER_OP_COUNT];
  wafer_op op;
  unsigned ops;
} walk;

static const char *name_of(MlirOperation op) {
  return mlirIdentifierStr(mlirOperationGetName(op)).data;
}

static void compare_attributes(const wafer_op_info *info, MlirOperation attributes) {
  MlirAttribute names = mlirOperationGetAttributeByName(
      attributes, mlirStringRefCreateFromCString("attributeValueNames"));
  CU_ASSERT_EQUAL_FATAL((uint32_t)mlirArrayAttrGetNumElements(names), info->attr_count);
  for (uint32_t i = 0; i < info->attr_count; i++) {
    const char *name = mlirStringAttrGetValue(mlirArrayAttrGetElement(names, i)).data;
    CU_ASSERT_STRING_EQUAL(name, wafer_attr_name(info->attrs[i]));
  }
}

static MlirWalkResult compare(MlirOperation op, void *self) {
  walk *w = self;
  const wafer_op_info *info = w->op < WAFER_OP_COUNT ? wafer_op_get(w->op) : NULL;
  if (!strcmp(name_of(op), "irdl.operation")) {
    MlirAttribute name =
        mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("sym_name"));
    w->op = wafer_op_by_name(mlirStringAttrGetValue(name).data);
    CU_ASSERT_NOT_EQUAL_FATAL(w->op, WAFER_OP_COUNT);
    w->seen[w->op] = true;
    w->ops++;
  } else if (!strcmp(name_of(op), "irdl.operands")) {
    /* the IR has concatenations of two; kernels have them together */
    bool joined = w->op == WAFER_OP_concat;
    CU_ASSERT_EQUAL(mlirOperationGetNumOperands(op), joined ? info->least : info->most);
  } else if (!strcmp(name_of(op), "irdl.attributes")) {
    compare_attributes(info, op);
  }
  return MlirWalkResultAdvance;
}

static void dialect_is_ops_def(void) {
  fixture f = setup();
  MlirModule nn = mlirModuleCreateParseFromFile(
      f.ir->context, mlirStringRefCreateFromCString(WAFER_SOURCE_DIR "/passes/ir/nn.irdl.mlir"));
  CU_ASSERT_FALSE_FATAL(mlirModuleIsNull(nn));
  walk w = {.op = WAFER_OP_COUNT};
  mlirOperationWalk(mlirModuleGetOperation(nn), compare, &w, MlirWalkPreOrder);
  CU_ASSERT_EQUAL(w.ops, WAFER_OP_COUNT);
  for (int op = 0; op < WAFER_OP_COUNT; op++) CU_ASSERT_TRUE(w.seen[op]);
  mlirModuleDestroy(nn);
  teardown(&f);
}

/* docs/dialects.md names every op with its operands, and every attribute. */
static void docs_name_every_op(void) {
  static char text[65536];
  FILE *file = fopen(WAFER_SOURCE_DIR "/docs/dialects.md", "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  for (int op = 0; op < WAFER_OP_COUNT; op++) {
    char name[64];
    snprintf(name, sizeof name, "`nn.%s`", wafer_op_get((wafer_op)op)->name);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, name));
    if (!strstr(text, name)) printf("docs/dialects.md lacks %s\n", name);
  }
  for (int attr = 0; attr < WAFER_ATTR_COUNT; attr++)
    CU_ASSERT_PTR_NOT_NULL(strstr(text, wafer_attr_name((wafer_attr_id)attr)));
}

/* ---- Kernels, streams, the module ---- */

/* @k(x, w) = relu(x + w), called from @main. */
static MlirOperation kernel(fixture *f, wafer_builder *main, const MlirValue *operands,
                            const wafer_type *types) {
  static const bool is_weight[] = {false, true};
  MlirOperation func;
  MlirValue in[2], sum, out, result;
  wafer_builder b;
  MlirLocation location = wafer_ir_location(f->ir, "anchor", 3);
  CU_ASSERT_EQUAL_FATAL(
      wafer_ir_begin_kernel(&f->ctx, f->ir, "k", location, 2, types, is_weight, &b, in), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_add, 2, in, NULL, 0, &sum), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_relu, 1, &sum, NULL, 0, &out), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_finish_kernel(&b, WAFER_FAMILY_map, 1, 1, &out, &func), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_call(main, func, operands, &result), WAFER_OK);
  CU_ASSERT_TRUE(mlirOperationEqual(wafer_ir_callee(f->ir, mlirOpResultGetOwner(result)), func));
  CU_ASSERT_TRUE(wafer_ir_is_call(mlirOpResultGetOwner(result)));
  CU_ASSERT_EQUAL_FATAL(wafer_ir_finish_main(main, 1, (const char *[]){"out"}, &result), WAFER_OK);
  return func;
}

static void kernel_as_plain_data(void) {
  fixture f = setup();
  MlirValue in[2];
  wafer_type types[] = {type_of(WAFER_DTYPE_f32, 2, (int64_t[]){4, 6}),
                        type_of(WAFER_DTYPE_f32, 1, (int64_t[]){6})};
  wafer_builder b = begin(&f, 2, types, in);
  MlirOperation func = kernel(&f, &b, in, types);
  CU_ASSERT_TRUE(wafer_ir_is_kernel(func));
  CU_ASSERT_FALSE(wafer_ir_is_kernel(wafer_ir_main(f.ir)));
  CU_ASSERT_TRUE(mlirOperationVerify(mlirModuleGetOperation(f.ir->module)));
  wafer_ir_set_depths(func, 3, (uint32_t[]){2, 1, 3});
  wafer_kernel_body body;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_kernel_body(&f.ctx, f.ir, func, &body), WAFER_OK);
  CU_ASSERT_EQUAL(body.family, WAFER_FAMILY_map);
  CU_ASSERT_EQUAL_FATAL(body.input_count, 2);
  CU_ASSERT_TRUE(!body.input_is_weight[0] && body.input_is_weight[1]);
  CU_ASSERT_TRUE(body.input_depth[0] == 2 && body.input_depth[1] == 1 && body.output_depth == 3);
  CU_ASSERT_EQUAL_FATAL(body.node_count, 2);
  CU_ASSERT_TRUE(body.nodes[0].operands[0] == 0 && body.nodes[0].operands[1] == 1);
  CU_ASSERT_TRUE(body.nodes[1].op == WAFER_OP_relu && body.nodes[1].operands[0] == 2);
  CU_ASSERT_STRING_EQUAL(body.nodes[1].name, "anchor");
  CU_ASSERT_TRUE(body.anchor == 1 && body.output_count == 1 && body.outputs[0] == 3);
  CU_ASSERT_EQUAL(body.storage, WAFER_DTYPE_f32);
  wafer_ir_set_anchor(func, WAFER_FAMILY_map, 9);
  CU_ASSERT_EQUAL(wafer_ir_kernel_body(&f.ctx, f.ir, func, &body), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(wafer_ir_argument_name(wafer_ir_main(f.ir), 1), "y");
  CU_ASSERT_STRING_EQUAL(wafer_ir_result_name(wafer_ir_main(f.ir), 0), "out");
  teardown(&f);
}

/* A chain of concatenations of ten inputs, twice on top of each other. */
static void concatenations_join(void) {
  fixture f = setup();
  wafer_type types[10];
  bool is_weight[10] = {false};
  MlirValue in[10], x;
  MlirOperation func;
  wafer_builder b;
  wafer_attr columns = {.id = WAFER_ATTR_axis, .i = 1}, rows = {.id = WAFER_ATTR_axis, .i = 0};
  for (int64_t i = 0; i < 10; i++) types[i] = type_of(WAFER_DTYPE_f32, 2, (int64_t[]){3, i + 1});
  MlirLocation location = wafer_ir_location(f.ir, "anchor", 3);
  CU_ASSERT_EQUAL_FATAL(
      wafer_ir_begin_kernel(&f.ctx, f.ir, "k", location, 10, types, is_weight, &b, in), WAFER_OK);
  x = in[0];
  for (uint32_t i = 1; i < 10; i++) {
    MlirValue two[] = {x, in[i]};
    CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_concat, 2, two, &columns, 1, &x), WAFER_OK);
  }
  MlirValue two[] = {x, x};
  CU_ASSERT_EQUAL_FATAL(wafer_build(&b, WAFER_OP_concat, 2, two, &rows, 1, &x), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_finish_kernel(&b, WAFER_FAMILY_move, 9, 1, &x, &func), WAFER_OK);
  wafer_kernel_body body;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_kernel_body(&f.ctx, f.ir, func, &body), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(body.node_count, 3);
  CU_ASSERT_EQUAL_FATAL(body.nodes[0].operand_count, WAFER_OP_MAX_OPERANDS);
  for (uint32_t i = 0; i < WAFER_OP_MAX_OPERANDS; i++)
    CU_ASSERT_EQUAL(body.nodes[0].operands[i], i);
  CU_ASSERT_EQUAL(body.nodes[0].type.shape.dims[1], 36);
  CU_ASSERT_EQUAL_FATAL(body.nodes[1].operand_count, 3);
  CU_ASSERT_TRUE(body.nodes[1].operands[0] == 10 && body.nodes[1].operands[2] == 9);
  CU_ASSERT_EQUAL_FATAL(body.nodes[2].operand_count, 2);
  CU_ASSERT_TRUE(body.nodes[2].operands[0] == 11 && body.nodes[2].operands[1] == 11);
  CU_ASSERT_TRUE(body.anchor == 2 && body.outputs[0] == 12);
  teardown(&f);
}

static void accessors_both_ways(void) {
  fixture f = setup();
  MlirValue in[2];
  wafer_type types[] = {type_of(WAFER_DTYPE_f32, 2, (int64_t[]){4, 6}),
                        type_of(WAFER_DTYPE_f32, 1, (int64_t[]){6})};
  wafer_builder b = begin(&f, 2, types, in);
  MlirOperation func = kernel(&f, &b, in, types);
  wafer_split split = {.rows = {2, 1}, .cols = {1, 3}}, split_back;
  wafer_rect rect = {.x = 3, .y = 4, .width = 5, .height = 6}, rect_back;
  uint32_t n;
  CU_ASSERT_FALSE(wafer_ir_get_split(func, &split_back));
  CU_ASSERT_FALSE(wafer_ir_get_phase(func, &n));
  wafer_ir_set_split(func, 2, &split);
  wafer_ir_set_rect(func, &rect);
  wafer_ir_set_phase(func, 11);
  wafer_ir_set_slabs(func, 12);
  wafer_ir_set_replicas(func, 13);
  CU_ASSERT_TRUE_FATAL(wafer_ir_get_split(func, &split_back));
  CU_ASSERT_TRUE(split_back.rows[0] == 2 && split_back.cols[1] == 3 &&
                 split_back.cols[WAFER_MAX_LOOPS - 1] == 1);
  CU_ASSERT_TRUE(wafer_ir_get_rect(func, &rect_back) && !memcmp(&rect, &rect_back, sizeof rect));
  CU_ASSERT_TRUE(wafer_ir_get_phase(func, &n) && n == 11);
  CU_ASSERT_TRUE(wafer_ir_get_slabs(func, &n) && n == 12);
  CU_ASSERT_TRUE(wafer_ir_get_replicas(func, &n) && n == 13);
  teardown(&f);
}

static void module_accessors_both_ways(void) {
  fixture f = setup();
  uint32_t n;
  wafer_mode mode;
  wafer_dtype storage;
  wafer_mode_cost cost = {.fits = true,
                          .why_not = "",
                          .latency_cycles = 1,
                          .interval_cycles = 2,
                          .cores = 3,
                          .peak_core_bytes = 4},
                  cost_back;
  CU_ASSERT_FALSE(wafer_ir_get_mode(f.ir, &mode));
  wafer_ir_set_mode(f.ir, WAFER_MODE_streaming);
  wafer_ir_set_batch(f.ir, 8);
  wafer_ir_set_flip_batch(f.ir, 9);
  wafer_ir_set_storage(f.ir, WAFER_DTYPE_f16);
  wafer_ir_set_mode_cost(f.ir, WAFER_MODE_pipelined, &cost);
  CU_ASSERT_TRUE(wafer_ir_get_mode(f.ir, &mode) && mode == WAFER_MODE_streaming);
  CU_ASSERT_TRUE(wafer_ir_get_batch(f.ir, &n) && n == 8);
  CU_ASSERT_TRUE(wafer_ir_get_flip_batch(f.ir, &n) && n == 9);
  CU_ASSERT_TRUE(wafer_ir_get_storage(f.ir, &storage) && storage == WAFER_DTYPE_f16);
  CU_ASSERT_FALSE(wafer_ir_get_mode_cost(f.ir, WAFER_MODE_streaming, &cost_back));
  CU_ASSERT_TRUE(wafer_ir_get_mode_cost(f.ir, WAFER_MODE_pipelined, &cost_back));
  CU_ASSERT_TRUE(cost_back.fits && cost_back.interval_cycles == 2 &&
                 cost_back.peak_core_bytes == 4);
  teardown(&f);
}

static void streams_both_ways(void) {
  fixture f = setup();
  MlirValue x, y;
  wafer_type type = type_of(WAFER_DTYPE_f32, 2, (int64_t[]){4, 6});
  wafer_builder b = begin(&f, 1, &type, &x);
  wafer_ir_stream stream =
                      {
                          .from = {.where = WAFER_AT_edge},
                          .to = {.where = WAFER_AT_wafer,
                                 .rect = {1, 2, 3, 4},
                                 .layout = {.rank = 2, .rows = {4, 1}, .cols = {1, 3}}},
                          .color = 5,
                          .route_count = 2,
                          .route = (wafer_route_segment[]){{0, 0, 1, 0}, {1, 0, 1, 2}},
                          .words = 24,
                          .cycles = 30,
                          .latency = 9,
                          .depth = 2,
                      },
                  back;
  CU_ASSERT_EQUAL_FATAL(wafer_build_phase(&b, 0, "all"), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_build_stream(&b, x, &stream, &y), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_build_free(&b, y), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_build_load(&b, 0), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_ir_finish_main(&b, 1, (const char *[]){"out"}, &x), WAFER_OK);
  CU_ASSERT_TRUE(mlirOperationVerify(mlirModuleGetOperation(f.ir->module)));
  MlirOperation op = mlirOpResultGetOwner(y);
  CU_ASSERT_EQUAL(wafer_ir_action_of(op), WAFER_IR_stream);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_stream_get(&f.ctx, f.ir, op, &back), WAFER_OK);
  CU_ASSERT_TRUE(back.from.where == WAFER_AT_edge && back.to.where == WAFER_AT_wafer);
  CU_ASSERT_FALSE(memcmp(&back.to.rect, &stream.to.rect, sizeof back.to.rect));
  CU_ASSERT_TRUE(back.to.layout.rows[0] == 4 && back.to.layout.cols[1] == 3);
  CU_ASSERT_TRUE(back.route_count == 2 && back.route[1].y1 == 2);
  CU_ASSERT_TRUE(back.color == 5 && back.words == 24 && back.cycles == 30 && back.latency == 9 &&
                 back.depth == 2);
  mlirOperationRemoveAttributeByName(op, mlirStringRefCreateFromCString("route"));
  CU_ASSERT_EQUAL(wafer_ir_stream_get(&f.ctx, f.ir, op, &back), WAFER_BAD_INPUT);
  teardown(&f);
}

/* Prints, parses, prints again: the same text. */
static void text_both_ways(void) {
  fixture f = setup();
  MlirValue in[2];
  wafer_type types[] = {type_of(WAFER_DTYPE_f32, 2, (int64_t[]){4, 6}),
                        type_of(WAFER_DTYPE_f32, 1, (int64_t[]){6})};
  wafer_builder b = begin(&f, 2, types, in);
  kernel(&f, &b, in, types);
  const char *text, *again;
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_print(&f.ctx, f.ir, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL(strlen(text), bytes);
  char path[] = "/tmp/wafer-ir-XXXXXX";
  int file = mkstemp(path);
  FILE *out = fdopen(file, "w");
  fwrite(text, 1, bytes, out);
  fclose(out);
  wafer_ir *parsed;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_parse(&f.ctx, path, &parsed), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_print(&f.ctx, parsed, &again, &bytes), WAFER_OK);
  CU_ASSERT_STRING_EQUAL(text, again);
  wafer_ir_destroy(parsed);
  remove(path);
  CU_ASSERT_EQUAL(wafer_ir_parse(&f.ctx, path, &parsed), WAFER_IO);
  CU_ASSERT_PTR_NULL(parsed);
  teardown(&f);
}

static void map_finds_what_was_put(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_ir_map *map = wafer_ir_map_create(arena);
  char keys[1000];
  for (uint32_t i = 0; i < 1000; i++) CU_ASSERT_TRUE(wafer_ir_map_put(map, &keys[i], i));
  for (uint32_t i = 0; i < 1000; i++) CU_ASSERT_EQUAL(wafer_ir_map_get(map, &keys[i]), i);
  CU_ASSERT_EQUAL(wafer_ir_map_get(map, keys + 1000), WAFER_NONE);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_ir[] = {
    {"types both ways", types_both_ways},
    {"constants both ways", constants_both_ways},
    {"large constants are weights", large_constants_are_weights},
    {"attributes both ways", attributes_both_ways},
    {"constants fold while building", constants_fold_while_building},
    {"identities build nothing", identities_build_nothing},
    {"the dialect is ops.def", dialect_is_ops_def},
    {"the docs name every op", docs_name_every_op},
    {"a kernel as plain data", kernel_as_plain_data},
    {"concatenations of concatenations are one", concatenations_join},
    {"accessors both ways", accessors_both_ways},
    {"module accessors both ways", module_accessors_both_ways},
    {"streams both ways", streams_both_ways},
    {"text both ways", text_both_ways},
    {"map finds what was put", map_finds_what_was_put},
    CU_TEST_INFO_NULL,
};
