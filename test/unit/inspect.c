/* frontend/onnx/inspect.c: what a file says of its ports and nodes; single tensors. */
#include <CUnit/CUnit.h>

#include "onnx_text.h"
#include "scratch.h"
#include "wafer/onnx.h"

static const wafer_onnx_info *inspect(wafer_arena *arena, scratch *s, const char *text) {
  protobuf *model = calloc(1, sizeof *model);
  const wafer_onnx_info *info;
  onnx_text_model(model, 17, text);
  const char *path = scratch_save(s, "t.onnx", model->bytes, model->count);
  free(model);
  CU_ASSERT_EQUAL_FATAL(wafer_onnx_inspect(NULL, arena, path, &info), WAFER_OK);
  return info;
}

static void test_ports(void) {
  wafer_arena *arena = wafer_arena_create();
  scratch s = scratch_create();
  const wafer_onnx_info *info =
      inspect(arena, &s,
              "in x f32 2x3; in w f32 1; in n string 2; in d i64 batchx4; "
              "in u f32 *; init w f32 1 = 5; Relu x -> y; out y f32 2x3");
  const wafer_shape want = {.rank = 2, .dims = {2, 3}};
  CU_ASSERT_EQUAL_FATAL(info->input_count, 4); /* w is an initializer */
  CU_ASSERT_EQUAL(info->output_count, 1);
  CU_ASSERT_STRING_EQUAL(info->inputs[0].name, "x");
  CU_ASSERT_EQUAL(info->inputs[0].dtype, WAFER_DTYPE_f32);
  CU_ASSERT_FALSE(info->inputs[0].open);
  CU_ASSERT(wafer_shape_equal(&info->inputs[0].shape, &want));
  CU_ASSERT_STRING_EQUAL(info->inputs[1].name, "n");
  CU_ASSERT(info->inputs[2].open);
  CU_ASSERT_EQUAL(info->inputs[2].dtype, WAFER_DTYPE_i64);
  CU_ASSERT(info->inputs[3].open);
  scratch_remove(&s);
  wafer_arena_destroy(arena);
}

static void test_nodes(void) {
  wafer_arena *arena = wafer_arena_create();
  scratch s = scratch_create();
  const wafer_onnx_info *info =
      inspect(arena, &s, "in x f32 2; Relu x -> a; Add a a -> y; out y f32 2");
  CU_ASSERT_EQUAL_FATAL(info->node_count, 2);
  CU_ASSERT_STRING_EQUAL(info->nodes[1].label, "y");
  CU_ASSERT_STRING_EQUAL(info->nodes[1].type, "Add");
  CU_ASSERT_STRING_EQUAL(info->nodes[1].domain, "ai.onnx");
  CU_ASSERT_EQUAL(info->nodes[1].opset, 17);
  scratch_remove(&s);
  wafer_arena_destroy(arena);
}

static void test_tensor(void) {
  wafer_arena *arena = wafer_arena_create();
  scratch s = scratch_create();
  protobuf *tensor = calloc(1, sizeof *tensor);
  wafer_view view;
  pb_int(tensor, 1, 3);
  pb_int(tensor, 2, 1);
  pb_data(tensor, 9, (float[]){1, 2, 3}, 12);
  const char *path = scratch_save(&s, "t.pb", tensor->bytes, tensor->count);
  CU_ASSERT_EQUAL_FATAL(wafer_onnx_tensor_read(NULL, arena, path, &view), WAFER_OK);
  CU_ASSERT_EQUAL(view.shape.dims[0], 3);
  CU_ASSERT_EQUAL(wafer_element_f64(view.dtype, view.data, 2), 3);
  path = scratch_save(&s, "t.pb", tensor->bytes, tensor->count - 1);
  CU_ASSERT_EQUAL(wafer_onnx_tensor_read(NULL, arena, path, &view), WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(wafer_onnx_tensor_read(NULL, arena, "/nowhere.pb", &view), WAFER_IO);
  free(tensor);
  scratch_remove(&s);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_inspect[] = {
    {"ports", test_ports}, {"nodes", test_nodes}, {"tensor files", test_tensor}, CU_TEST_INFO_NULL};
