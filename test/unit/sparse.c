/* frontend/onnx/sparse.c: sparse initializers become dense ones; what does not add up is said. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"
#include "wafer/onnx.h"

static void sparse_initializers_become_dense(void) {
  static const struct {
    const char *graph, *want;
  } cases[] = {
      {"sparse w f32 2x3 = 1 2 @ 1 5; Neg w -> y; out y", "2x3: 0 -1 0 0 0 -2"},
      {"sparse w f32 2x3 = 1 2 @2x2 0 1 1 2; Neg w -> y; out y", "2x3: 0 -1 0 0 0 -2"},
      {"sparse w i64 3 = 9007199254740993 @ 2; init o i64 1 = 9007199254740992; Sub w o -> d; "
       "init i i64 1 = 2; Gather d i -> y; out y",
       "1: 1"},
      {"sparse w f32 4 =  @ ; Add w w -> y; out y", "4: 0 0 0 0"},
      {"sparse w f32 4 = ; Add w w -> y; out y", "4: 0 0 0 0"},
      {"sparse w f64 2x2x2 = 3 @1x3 1 0 1; Neg w -> y; out y", "2x2x2: 0 0 0 0 0 -3 0 0"},
      /* as an input with a default */
      {"in w f32 3; sparse w f32 3 = 4 @ 0; Neg w -> y; out y", "3: -4 0 0"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    char got[128] = "";
    import_text(&s, 13, cases[i].graph);
    if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
    if (strcmp(got, cases[i].want)) printf("%s\n  said %s", cases[i].graph, s.said.text);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
    end(&s);
  }
}

static void what_does_not_add_up_is_said(void) {
  static const struct {
    const char *sparse;
    wafer_status status;
    const char *want;
  } cases[] = {
      {"w f32 2x3 = 1 2 @ 1 6", WAFER_BAD_INPUT,
       "sparse tensor 'w': index 6 of value 1 must be 0 to 5"},
      {"w f32 2x3 = 1 @ -1", WAFER_BAD_INPUT, "index -1 of value 0 must be 0 to 5"},
      {"w f32 2x3 = 1 @1x2 1 3", WAFER_BAD_INPUT, "index 3 of value 0 must be 0 to 2"},
      {"w f32 2x3 = 1 2 @ 3 3", WAFER_BAD_INPUT, "the index of value 1 does not lie behind"},
      {"w f32 2x3 = 1 2 @2x2 1 0 0 2", WAFER_BAD_INPUT, "indices must rise"},
      {"w f32 2x3 = 1 2 @ 1", WAFER_BAD_INPUT, "its indices are 1, must be 2 or 2x2"},
      {"w f32 2x3 = 1 2 @2x1 1 2", WAFER_BAD_INPUT, "its indices are 2x1, must be 2 or 2x2"},
      {"w f32 2x3 = 1 2", WAFER_BAD_INPUT, "has 2 values, but no indices"},
      {"w f32 scalar = 1 @ 0", WAFER_BAD_INPUT, "has 0 dims, 1 to"},
      {"w f32 2x-3 = 1 @ 0", WAFER_BAD_INPUT, "is negative or too large"},
      {"w f32 4294967296x4294967296x4 = 1 @ 0", WAFER_BAD_INPUT, "is negative or too large"},
      /* little is written, much would be asked for */
      {"w f32 1073741824x16 = 1 @ 0", WAFER_UNSUPPORTED,
       "is 17179869184 elements of 4 bytes when dense, at most 2147483648 bytes are allowed"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    char graph[256];
    snprintf(graph, sizeof graph, "sparse %s; Neg w -> y; out y", cases[i].sparse);
    import_text(&s, 13, graph);
    CU_ASSERT_EQUAL(s.status, cases[i].status);
    CU_ASSERT_PTR_NULL(s.ir);
    if (!strstr(s.said.text, cases[i].want)) printf("%s\n  said %s", graph, s.said.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, cases[i].want));
    end(&s);
  }
}

/* A checkpoint's values take the place of a sparse tensor: it is a dense one then. */
static void exported_weights_are_dense(void) {
  static const float values[] = {1, 2, 3, 4, 5, 6};
  const wafer_shape shape = {2, {2, 3}}, other = {2, {3, 2}};
  protobuf *model = calloc(1, sizeof *model);
  session s = {.folder = scratch_create()};
  char got[128] = "";
  wafer_diag diag = {.emit = remember, .self = &s.said};
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena), *turned = wafer_weights_create(arena);
  onnx_text_model(model, 13, "sparse w f32 2x3 = 7 @ 1; Neg w -> y; out y");
  const char *path = scratch_path(&s.folder, "out.onnx");
  const char *from = scratch_save(&s.folder, "t.onnx", model->bytes, model->count);
  wafer_weights_add(weights, "w", WAFER_DTYPE_f32, &shape, values);
  wafer_weights_add(turned, "w", WAFER_DTYPE_f32, &other, values);
  CU_ASSERT_EQUAL(wafer_onnx_export(&diag, from, turned, path), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, "weight 'w' is of another type or shape"));
  CU_ASSERT_EQUAL_FATAL(wafer_onnx_export(&diag, from, weights, path), WAFER_OK);
  import_file(&s, path);
  CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
  format_value(&s, result(&s, 0), got, sizeof got);
  CU_ASSERT_STRING_EQUAL(got, "2x3: -1 -2 -3 -4 -5 -6");
  wafer_arena_destroy(arena);
  free(model);
  end(&s);
}

CU_TestInfo tests_sparse[] = {
    {"sparse initializers become dense", sparse_initializers_become_dense},
    {"what does not add up is said", what_does_not_add_up_is_said},
    {"exported weights are dense", exported_weights_are_dense},
    CU_TEST_INFO_NULL,
};
