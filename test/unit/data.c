#include "../../frontend/onnx/data.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char last_error[512];

static void remember(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                     const char *text) {
  (void)self, (void)severity, (void)status, (void)loc;
  snprintf(last_error, sizeof last_error, "%s", text);
}
static const wafer_diag sink = {.emit = remember};

static data_store store_in(wafer_arena *arena, const char *file) {
  return (data_store){.diag = &sink, .arena = arena, .file = file};
}

static void typed_fields_become_elements(void) {
  static const int64_t dims[] = {3};
  static const uint8_t narrow[] = {1,    0x80, 0x01, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  static const uint8_t half[] = {0x80, 0x78, 0x80, 0x80, 0x01, 0}; /* 0x3c00, 0x4000, 0 */
  wafer_arena *arena = wafer_arena_create();
  data_store store = store_in(arena, "t.onnx");
  onnx_tensor tensor = {.dims = {dims, 1}, .name = "w", .data_type = 7};
  tensor.int64_data = (wire_bytes){narrow, sizeof narrow};
  wafer_view view;
  CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
  CU_ASSERT_EQUAL(view.dtype, WAFER_DTYPE_i64);
  CU_ASSERT_EQUAL(wafer_element_i64(view.dtype, view.data, 1), 128);
  CU_ASSERT_EQUAL(wafer_element_i64(view.dtype, view.data, 2), -1);
  tensor = (onnx_tensor){.dims = {dims, 1}, .data_type = 3, .int32_data = {narrow, sizeof narrow}};
  CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_element_i64(view.dtype, view.data, 2), -1);
  tensor = (onnx_tensor){.dims = {dims, 1}, .data_type = 10, .int32_data = {half, sizeof half}};
  CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_element_f64(view.dtype, view.data, 0), 1.0);
  CU_ASSERT_EQUAL(wafer_element_f64(view.dtype, view.data, 1), 2.0);
  wafer_arena_destroy(arena);
}

static void payloads_are_not_copied(void) {
  static const int64_t dims[] = {2, 2};
  static const float values[] = {1, 2, 3, 4};
  wafer_arena *arena = wafer_arena_create();
  data_store store = store_in(arena, "t.onnx");
  onnx_tensor tensor = {.dims = {dims, 2}, .data_type = 1};
  tensor.float_data = (wire_bytes){(const uint8_t *)values, sizeof values};
  wafer_view view;
  CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
  CU_ASSERT_PTR_EQUAL(view.data, values);
  CU_ASSERT_EQUAL(view.strides[0], 2);
  tensor = (onnx_tensor){.has = 1u << ONNX_TENSOR_RAW_DATA, .dims = {dims, 2}, .data_type = 1};
  tensor.raw_data = (wire_bytes){(const uint8_t *)values, sizeof values};
  CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
  CU_ASSERT_PTR_EQUAL(view.data, values);
  wafer_arena_destroy(arena);
}

/* Elements of 4 and 2 bits: the first one in the low bits, signed ones extended. */
static void packed_elements_are_taken_apart(void) {
  static const int64_t three[] = {3}, five[] = {5};
  static const uint8_t bytes[] = {0x8f, 0x07};
  static const struct {
    int64_t type;
    const int64_t *dim;
    int64_t want[5];
  } cases[] = {
      {22, three, {-1, -8, 7}},
      {21, three, {15, 8, 7}},
      {26, five, {-1, -1, 0, -2, -1}},
      {25, five, {3, 3, 0, 2, 3}},
  };
  wafer_arena *arena = wafer_arena_create();
  data_store store = store_in(arena, "t.onnx");
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    onnx_tensor tensor = {.has = 1 << 9,
                          .dims = {cases[i].dim, 1},
                          .data_type = cases[i].type,
                          .raw_data = {bytes, 2}};
    wafer_view view;
    CU_ASSERT_EQUAL_FATAL(data_view(&store, &tensor, &view), WAFER_OK);
    for (int64_t k = 0; k < *cases[i].dim; k++)
      CU_ASSERT_EQUAL(wafer_element_i64(view.dtype, view.data, k), cases[i].want[k]);
  }
  wafer_arena_destroy(arena);
}

static void contradictions_are_refused(void) {
  static const int64_t two[] = {2}, negative[] = {-1}, huge[] = {1ll << 40, 1ll << 40}, many[9];
  static const uint8_t bytes[12];
  const struct {
    onnx_tensor tensor;
    wafer_status status;
    const char *want;
  } cases[] = {
      {{.dims = {two, 1}, .data_type = 1, .float_data = {bytes, 12}},
       WAFER_BAD_INPUT,
       "asks for 8"},
      {{.dims = {two, 1}, .data_type = 7, .int64_data = {bytes, 3}}, WAFER_BAD_INPUT, "3 elements"},
      {{.dims = {two, 1}, .data_type = 7, .int64_data = {bytes, 1}}, WAFER_BAD_INPUT, "too short"},
      {{.has = 1 << 9, .dims = {two, 1}, .data_type = 7, .raw_data = {bytes, 12}},
       WAFER_BAD_INPUT,
       "raw_data holds 12"},
      {{.dims = {negative, 1}, .data_type = 1}, WAFER_BAD_INPUT, "negative"},
      {{.dims = {huge, 2}, .data_type = 1}, WAFER_BAD_INPUT, "too large"},
      {{.dims = {many, 9}, .data_type = 1}, WAFER_UNSUPPORTED, "at most 8"},
      {{.dims = {two, 1}, .data_type = 14}, WAFER_UNSUPPORTED, "complex64"},
      {{.has = 1 << 9, .dims = {two, 1}, .data_type = 22, .raw_data = {bytes, 2}},
       WAFER_BAD_INPUT,
       "raw_data holds 2 bytes, its shape asks for 1"},
      {{.dims = {two, 1}, .data_type = -4}, WAFER_UNSUPPORTED, "unknown"},
      {{.dims = {two, 1}, .data_type = 1, .data_location = 1},
       WAFER_BAD_INPUT,
       "without a location"},
  };
  wafer_arena *arena = wafer_arena_create();
  data_store store = store_in(arena, "t.onnx");
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    wafer_view view;
    CU_ASSERT_EQUAL(data_view(&store, &cases[i].tensor, &view), cases[i].status);
    if (!strstr(last_error, cases[i].want)) printf("case %zu: %s\n", i, last_error);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error, cases[i].want));
  }
  wafer_arena_destroy(arena);
}

static void write_file(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  fputs(text, file);
  fclose(file);
}

static wafer_status external(wafer_arena *arena, const char *model, const char *location,
                             const char *offset, const char *length, wafer_view *view) {
  static const int64_t dims[] = {4};
  const onnx_entry entries[] = {
      {0, "location", location}, {0, "offset", offset}, {0, "length", length}};
  onnx_tensor tensor = {.dims = {dims, 1}, .data_type = 2, .name = "w", .data_location = 1};
  tensor.external_data = (onnx_entries){entries, length ? 3 : offset ? 2 : 1};
  data_store store = store_in(arena, model);
  *last_error = 0;
  return data_view(&store, &tensor, view);
}

static void external_data_stay_in_their_folder(void) {
  char folder[] = "/tmp/wafer-data-XXXXXX", model[64], path[128];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/m", folder);
  CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
  snprintf(model, sizeof model, "%s/m/t.onnx", folder);
  write_file(folder, "outside.bin", "abcdefgh");
  write_file(folder, "m/inside.bin", "abcdefgh");
  snprintf(path, sizeof path, "%s/m/link.bin", folder);
  CU_ASSERT_EQUAL_FATAL(symlink("../outside.bin", path), 0);
  static const struct {
    const char *location, *offset, *length;
    wafer_status status;
    const char *want;
  } cases[] = {
      {"inside.bin", "3", "4", WAFER_OK, ""},
      {"./inside.bin", NULL, NULL, WAFER_OK, ""},
      {"inside.bin", "5", NULL, WAFER_BAD_INPUT, "bytes 5 to 9"},
      {"inside.bin", "18446744073709551615", NULL, WAFER_BAD_INPUT, "are 8 bytes"},
      {"inside.bin", "0", "5", WAFER_BAD_INPUT, "asks for 4"},
      {"inside.bin", "-1", NULL, WAFER_BAD_INPUT, "not a number"},
      {"inside.bin", "99999999999999999999", NULL, WAFER_BAD_INPUT, "not a number"},
      {"../outside.bin", NULL, NULL, WAFER_BAD_INPUT, "outside the model's folder"},
      {"x/../../outside.bin", NULL, NULL, WAFER_BAD_INPUT, "outside the model's folder"},
      {"/etc/passwd", NULL, NULL, WAFER_BAD_INPUT, "outside the model's folder"},
      {"link.bin", NULL, NULL, WAFER_BAD_INPUT, "link out of"},
      {"missing.bin", NULL, NULL, WAFER_IO, "'missing.bin' cannot be read"},
  };
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    wafer_view view;
    CU_ASSERT_EQUAL(
        external(arena, model, cases[i].location, cases[i].offset, cases[i].length, &view),
        cases[i].status);
    if (!strstr(last_error, cases[i].want)) printf("%s: %s\n", cases[i].location, last_error);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error, cases[i].want));
    if (i == 0 && view.data) CU_ASSERT_EQUAL(memcmp(view.data, "defg", 4), 0);
  }
  wafer_arena_destroy(arena);
  static const char *const leftovers[] = {"m/link.bin", "m/inside.bin", "m", "outside.bin", ""};
  for (size_t i = 0; i < WAFER_COUNT(leftovers); i++) {
    snprintf(path, sizeof path, "%s/%s", folder, leftovers[i]);
    CU_ASSERT_EQUAL(remove(path), 0);
  }
}

CU_TestInfo tests_data[] = {
    {"typed fields become elements", typed_fields_become_elements},
    {"payloads are not copied", payloads_are_not_copied},
    {"packed elements are taken apart", packed_elements_are_taken_apart},
    {"contradictions are refused", contradictions_are_refused},
    {"external data stay in their folder", external_data_stay_in_their_folder},
    CU_TEST_INFO_NULL,
};
