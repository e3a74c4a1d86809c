#include "wafer/npy.h"

#include <CUnit/CUnit.h>

#include "caught.h"
#include "scratch.h"
#include "wafer/file.h"

/* A version 1.0 file around `dict` with `bytes` of data, as numpy pads it. Returns its size. */
static size_t npy_of(char *file, const char *dict, const void *data, size_t bytes) {
  size_t length = strlen(dict), total = (10 + length + 1 + 63) / 64 * 64;
  memset(file, ' ', total);
  memcpy(file, "\x93NUMPY\x01", 8);
  file[8] = (char)((total - 10) & 0xff);
  file[9] = (char)((total - 10) >> 8);
  memcpy(file + 10, dict, length);
  file[total - 1] = '\n';
  if (bytes) memcpy(file + total, data, bytes);
  return total + bytes;
}

static wafer_status read_bytes(caught *last, wafer_arena *arena, const void *file, size_t bytes,
                               wafer_view *out) {
  wafer_diag diag = caught_diag(last);
  scratch in = scratch_create();
  wafer_status status = wafer_npy_read(&diag, arena, scratch_save(&in, "x.npy", file, bytes), out);
  scratch_remove(&in);
  return status;
}

static void every_type_and_rank_goes_there_and_back(void) {
  static const wafer_shape shapes[] = {{0, {0}}, {1, {5}},       {2, {2, 3}},
                                       {1, {0}}, {3, {2, 0, 4}}, {8, {1, 2, 1, 2, 1, 3, 1, 1}}};
  scratch in = scratch_create();
  wafer_arena *arena = wafer_arena_create();
  for (int type = 1; type < WAFER_DTYPE_COUNT; type++)
    for (size_t i = 0; i < WAFER_COUNT(shapes); i++) {
      unsigned char data[96];
      wafer_view got, view = wafer_view_of((wafer_dtype)type, &shapes[i], data);
      for (int j = 0; j < 12; j++) wafer_element_set_i64(view.dtype, data, j, j * 3);
      const char *path = scratch_path(&in, "x.npy");
      CU_ASSERT_EQUAL(wafer_npy_write(NULL, path, &view), WAFER_OK);
      CU_ASSERT_EQUAL_FATAL(wafer_npy_read(NULL, arena, path, &got), WAFER_OK);
      wafer_npy_adopt(&got, view.dtype); /* those that a file cannot name */
      CU_ASSERT_EQUAL(got.dtype, view.dtype);
      CU_ASSERT(wafer_shape_equal(&got.shape, &view.shape));
      CU_ASSERT_EQUAL(memcmp(got.data, data, wafer_tensor_bytes(view.dtype, &view.shape)), 0);
    }
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 1);
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

/* As numpy has them: "<U3" of the longest, in which zeros end the others. */
static void strings_go_there_and_back(void) {
  static const char *const texts[] = {"", "yes", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "a\xff"};
  static const char *const want[] = {"", "yes", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                                     "a\xef\xbf\xbd"};
  scratch in = scratch_create();
  wafer_arena *arena = wafer_arena_create();
  wafer_shape shape = {2, {2, 2}};
  wafer_bytes file;
  wafer_view got, view = wafer_view_of(WAFER_DTYPE_string, &shape, (void *)(uintptr_t)texts);
  const char *path = scratch_path(&in, "x.npy");
  CU_ASSERT_EQUAL_FATAL(wafer_npy_write(NULL, path, &view), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_npy_read(NULL, arena, path, &got), WAFER_OK);
  CU_ASSERT_EQUAL(got.dtype, WAFER_DTYPE_string);
  CU_ASSERT(wafer_shape_equal(&got.shape, &shape));
  for (int i = 0; i < 4; i++) CU_ASSERT_STRING_EQUAL(((const char **)got.data)[i], want[i]);
  CU_ASSERT_EQUAL_FATAL(wafer_file_map(NULL, arena, path, &file), WAFER_OK);
  const char *text = file.data;
  CU_ASSERT_PTR_NOT_NULL(strstr(text + 10, "'descr': '<U3', 'fortran_order': False, "));
  CU_ASSERT_EQUAL(file.size, 128 + 4 * 3 * 4);
  CU_ASSERT_EQUAL(memcmp(text + 128 + 12, "y\0\0\0e\0\0\0s\0\0", 12), 0);
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

/* What numpy.save writes, byte for byte. */
static void the_header_is_numpys(void) {
  static const struct {
    wafer_shape shape;
    const char *want;
  } cases[] = {
      {{0, {0}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
      {{1, {3}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
      {{2, {1, 3}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"},
  };
  scratch in = scratch_create();
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    float data[3] = {1, 2, 3};
    char want[512], got[512];
    wafer_view view = wafer_view_of(WAFER_DTYPE_f32, &cases[i].shape, data);
    size_t bytes = npy_of(want, cases[i].want, data, cases[i].shape.rank ? 12 : 4);
    const char *path = scratch_path(&in, "x.npy");
    CU_ASSERT_EQUAL(wafer_npy_write(NULL, path, &view), WAFER_OK);
    CU_ASSERT_EQUAL(scratch_load(path, got, sizeof got), (long)bytes);
    CU_ASSERT_EQUAL(memcmp(got, want, bytes), 0);
  }
  scratch_remove(&in);
}

static void strides_are_packed_when_written(void) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  scratch in = scratch_create();
  wafer_arena *arena = wafer_arena_create();
  wafer_view got, view = {.dtype = WAFER_DTYPE_f32, .shape = {2, {3, 2}}, .strides = {1, 3}};
  view.data = data;
  const char *path = scratch_path(&in, "x.npy");
  CU_ASSERT_EQUAL(wafer_npy_write(NULL, path, &view), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_npy_read(NULL, arena, path, &got), WAFER_OK);
  CU_ASSERT_EQUAL(memcmp(got.data, (float[]){1, 4, 2, 5, 3, 6}, 24), 0);
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

static void fortran_order_is_converted(void) {
  char file[256];
  caught last;
  wafer_view got;
  wafer_arena *arena = wafer_arena_create();
  size_t bytes = npy_of(file, "{\"shape\":(2,3),\"descr\":\"<i2\",\"fortran_order\":True}",
                        (int16_t[]){1, 4, 2, 5, 3, 6}, 12);
  CU_ASSERT_EQUAL_FATAL(read_bytes(&last, arena, file, bytes, &got), WAFER_OK);
  CU_ASSERT(wafer_view_is_dense(&got));
  CU_ASSERT_EQUAL(memcmp(got.data, (int16_t[]){1, 2, 3, 4, 5, 6}, 12), 0);
  wafer_arena_destroy(arena);
}

/* Versions 2 and 3 have a longer length; data that starts unaligned is copied. */
static void later_versions_are_read(void) {
  static const char dict[] = "{'descr': '=f8', 'fortran_order': False, 'shape': (2,)}\n";
  wafer_arena *arena = wafer_arena_create();
  for (char version = 2; version <= 3; version++) {
    char file[256] = "\x93NUMPY";
    double data[2] = {1.5, -2};
    caught last;
    wafer_view got;
    file[6] = version;
    file[8] = sizeof dict - 1;
    memcpy(file + 12, dict, sizeof dict - 1);
    memcpy(file + 12 + sizeof dict - 1, data, sizeof data);
    CU_ASSERT_EQUAL_FATAL(read_bytes(&last, arena, file, 12 + sizeof dict - 1 + 16, &got),
                          WAFER_OK);
    CU_ASSERT_EQUAL((uintptr_t)got.data % 8, 0);
    CU_ASSERT_EQUAL(memcmp(got.data, data, sizeof data), 0);
  }
  wafer_arena_destroy(arena);
}

static const struct {
  const char *dict;
  size_t bytes;
  wafer_status status;
  const char *want;
} bad_headers[] = {
    {"", 0, WAFER_BAD_INPUT, "the header is not a dict of descr, fortran_order and shape"},
    {"{'descr': '<f4'}", 0, WAFER_BAD_INPUT,
     "the header lacks one of descr, fortran_order and shape"},
    {"{'descr': '<f4', 'descr': '<f4'}", 0, WAFER_BAD_INPUT,
     "the header has the key 'descr' twice"},
    {"{'colour': 1}", 0, WAFER_BAD_INPUT, "the header has an unknown key 'colour'"},
    {"{'descr': [('a', '<f4')]}", 0, WAFER_BAD_INPUT,
     "the header's descr is not one plain element type; structured arrays are refused"},
    {"{'fortran_order': 0}", 0, WAFER_BAD_INPUT,
     "the header's fortran_order is neither True nor False"},
    {"{'shape': 3}", 0, WAFER_BAD_INPUT, "the header's shape is not a tuple of numbers"},
    {"{'shape': (3", 0, WAFER_BAD_INPUT, "the header's shape is not a tuple of numbers"},
    {"{'shape': (-3,)}", 0, WAFER_BAD_INPUT, "the header's shape is not a tuple of numbers"},
    {"{'shape': (99999999999999999999,)}", 0, WAFER_BAD_INPUT,
     "the header's shape is not a tuple of numbers"},
    {"{'shape': (1,1,1,1,1,1,1,1,1)}", 0, WAFER_BAD_INPUT, "the tensor has more than 8 dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", 4, WAFER_BAD_INPUT,
     "the header's dict does not end"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 7", 4, WAFER_BAD_INPUT,
     "the header goes on after its dict"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, WAFER_UNSUPPORTED,
     "big-endian elements ('>f4'); save it as '<f4'"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, WAFER_UNSUPPORTED,
     "elements of type '<c8'; save it as one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, as strings "
     "(U), or as raw "
     "bits, "
     "V1 or V2"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, WAFER_UNSUPPORTED,
     "elements of type '|O'; save it as one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, as strings "
     "(U), or as raw "
     "bits, "
     "V1 or V2"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, WAFER_BAD_INPUT,
     "2 of f32 needs 8 bytes of data, the file has 7"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 5, WAFER_BAD_INPUT,
     "1 of f32 needs 4 bytes of data, the file has 5"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4,
     WAFER_BAD_INPUT, "a tensor of 4294967296x4294967296 elements is too large"},
};

static void bad_headers_are_refused(void) {
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(bad_headers); i++) {
    char file[512];
    caught last;
    wafer_view got;
    size_t bytes = npy_of(file, bad_headers[i].dict, "12345678", bad_headers[i].bytes);
    CU_ASSERT_EQUAL(read_bytes(&last, arena, file, bytes, &got), bad_headers[i].status);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_STRING_EQUAL(last.text, bad_headers[i].want);
    CU_ASSERT_PTR_NOT_NULL(strstr(last.place, "x.npy"));
    CU_ASSERT_PTR_NULL(got.data);
  }
  wafer_arena_destroy(arena);
}

static void bad_beginnings_are_refused(void) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *want;
  } cases[] = {
      {"", 0, "is not a .npy file: the first bytes are not \\x93NUMPY"},
      {"\x93NUMPY\x01\0\x01", 9, "is not a .npy file: the first bytes are not \\x93NUMPY"},
      {"\x93NUMPX\x01\0\x01\0{", 11, "is not a .npy file: the first bytes are not \\x93NUMPY"},
      {"\x93NUMPY\x04\0\x01\0{", 11, ".npy version 4.0 is unknown; 1.0, 2.0 and 3.0 are read"},
      {"\x93NUMPY\x01\x01\x01\0{", 11, ".npy version 1.1 is unknown; 1.0, 2.0 and 3.0 are read"},
      {"\x93NUMPY\x01\0\x02\0{", 11, "ends inside the header"},
      {"\x93NUMPY\x02\0\x02\0\0", 11, "ends inside the header"},
      {"\x93NUMPY\x02\0\xff\xff\xff\xff{", 13,
       "the header has 4294967295 bytes, at most 65536 are read"},
  };
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    caught last;
    wafer_view got;
    CU_ASSERT_EQUAL(read_bytes(&last, arena, cases[i].bytes, cases[i].size, &got), WAFER_BAD_INPUT);
    CU_ASSERT_STRING_EQUAL(last.text, cases[i].want);
  }
  wafer_arena_destroy(arena);
}

/* No prefix of a good file is one. */
static void every_truncation_is_refused(void) {
  char file[512];
  size_t bytes = npy_of(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
                        (float[]){1, 2, 3}, 12);
  wafer_arena *arena = wafer_arena_create();
  for (size_t size = 0; size <= bytes; size++) {
    caught last;
    wafer_view got;
    wafer_status status = read_bytes(&last, arena, file, size, &got);
    CU_ASSERT_EQUAL(status, size == bytes ? WAFER_OK : WAFER_BAD_INPUT);
    CU_ASSERT_EQUAL(last.count, size != bytes);
  }
  wafer_arena_destroy(arena);
}

static void what_cannot_be_written_is_refused(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  uint16_t data[2] = {0};
  wafer_shape shape = {1, {2}};
  wafer_view view = wafer_view_of(WAFER_DTYPE_f16, &shape, data);
  CU_ASSERT_EQUAL(wafer_npy_write(&diag, "/dev/full", &view), WAFER_IO);
  CU_ASSERT_EQUAL(wafer_npy_write(&diag, "/nowhere/at/all.npy", &view), WAFER_IO);
  CU_ASSERT_EQUAL(last.count, 2);
}

/* What the elements of a file may stand for. */
static void narrow_types_are_adopted(void) {
  static const struct {
    wafer_dtype file, wanted;
    bool fits;
  } cases[] = {
      {WAFER_DTYPE_u16, WAFER_DTYPE_bf16, true},
      {WAFER_DTYPE_i16, WAFER_DTYPE_bf16, false},
      {WAFER_DTYPE_u8, WAFER_DTYPE_f8e5m2, true},
      {WAFER_DTYPE_i8, WAFER_DTYPE_f8e5m2, false},
      {WAFER_DTYPE_f8e4m3fn, WAFER_DTYPE_f8e8m0, true},
      {WAFER_DTYPE_i8, WAFER_DTYPE_i4, true},
      {WAFER_DTYPE_i8, WAFER_DTYPE_u4, false},
      {WAFER_DTYPE_i8, WAFER_DTYPE_i2, false},
      {WAFER_DTYPE_f8e4m3fn, WAFER_DTYPE_i4, true},
      {WAFER_DTYPE_u8, WAFER_DTYPE_i8, false},
      {WAFER_DTYPE_bf16, WAFER_DTYPE_f16, false},
      {WAFER_DTYPE_bf16, WAFER_DTYPE_f8e5m2, false},
      {WAFER_DTYPE_string, WAFER_DTYPE_string, true},
      {WAFER_DTYPE_string, WAFER_DTYPE_f8e4m3fn, false},
      {WAFER_DTYPE_u8, WAFER_DTYPE_string, false},
  };
  static const wafer_shape shape = {1, {2}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    uint8_t data[8] = {0xfc, 3, 0xfc, 3}; /* as i8: -4, 3 */
    wafer_view view = wafer_view_of(cases[i].file, &shape, data);
    wafer_npy_adopt(&view, cases[i].wanted);
    CU_ASSERT_EQUAL(view.dtype == cases[i].wanted, cases[i].fits);
  }
}

CU_TestInfo tests_npy[] = {
    {"narrow types are adopted", narrow_types_are_adopted},
    {"strings go there and back", strings_go_there_and_back},
    {"every type and rank goes there and back", every_type_and_rank_goes_there_and_back},
    {"the header is numpy's", the_header_is_numpys},
    {"strides are packed when written", strides_are_packed_when_written},
    {"fortran order is converted", fortran_order_is_converted},
    {"later versions are read", later_versions_are_read},
    {"bad headers are refused", bad_headers_are_refused},
    {"bad beginnings are refused", bad_beginnings_are_refused},
    {"every truncation is refused", every_truncation_is_refused},
    {"what cannot be written is refused", what_cannot_be_written_is_refused},
    CU_TEST_INFO_NULL,
};
