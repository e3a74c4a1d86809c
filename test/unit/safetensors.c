#include "runtime/tensor/safetensors.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"

static const wafer_loc nowhere = {0};

/* The parts glued together, as a file would hold them. */
static wafer_bytes join(wafer_arena *arena, const wafer_bytes *parts, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += parts[i].size;
  char *file = wafer_arena_alloc(arena, bytes, 1);
  bytes = 0;
  for (size_t i = 0; i < count; bytes += parts[i++].size)
    memcpy(file + bytes, parts[i].data, parts[i].size);
  return (wafer_bytes){file, bytes};
}

static wafer_weights *sample(wafer_arena *arena) {
  static const unsigned char data[256] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  static const struct {
    const char *name;
    wafer_dtype dtype;
    wafer_shape shape;
    size_t from;
  } rows[] = {
      {"bias", WAFER_DTYPE_u8, {1, {3}}, 0},
      {"conv \"1\"\\\n\xc3\xa9", WAFER_DTYPE_f32, {2, {4, 8}}, 1},
      {"scalar", WAFER_DTYPE_f64, {0, {0}}, 2},
      {"empty", WAFER_DTYPE_bool, {2, {0, 5}}, 3},
      {"half", WAFER_DTYPE_bf16, {1, {5}}, 4},
      {"more", WAFER_DTYPE_i64, {1, {16}}, 5},
  };
  wafer_weights *weights = wafer_weights_create(arena);
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    wafer_weights_add(weights, rows[i].name, rows[i].dtype, &rows[i].shape, data + rows[i].from);
  wafer_weights_add(weights, "absent", WAFER_DTYPE_f32, &rows[0].shape, NULL);
  return weights;
}

static void weights_go_there_and_back(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = sample(arena), *got = wafer_weights_create(arena);
  wafer_bytes *parts;
  size_t count;
  CU_ASSERT_EQUAL_FATAL(safetensors_parts(NULL, nowhere, arena, weights, &parts, &count), WAFER_OK);
  CU_ASSERT_EQUAL(count, 7);
  CU_ASSERT_EQUAL(parts[0].size % 64, 0);
  wafer_bytes file = join(arena, parts, count);
  CU_ASSERT_EQUAL_FATAL(safetensors_read(NULL, nowhere, file, arena, got), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_weights_count(got), 6);
  for (size_t i = 0; i < 6; i++) {
    wafer_weight *a = wafer_weights_at(weights, i), *b = wafer_weights_at(got, i);
    CU_ASSERT_STRING_EQUAL(a->name, b->name);
    CU_ASSERT_EQUAL(a->dtype, b->dtype);
    CU_ASSERT(wafer_shape_equal(&a->shape, &b->shape));
    CU_ASSERT_EQUAL(memcmp(a->data, b->data, a->bytes), 0);
    size_t offset = (size_t)((const char *)b->data - (const char *)file.data);
    CU_ASSERT_EQUAL(offset % (a->bytes % 64 ? wafer_dtype_bytes(a->dtype) : 64), 0);
  }
  wafer_arena_destroy(arena);
}

static void no_weights_are_a_file_too(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  wafer_bytes *parts;
  size_t count;
  CU_ASSERT_EQUAL(safetensors_parts(NULL, nowhere, arena, weights, &parts, &count), WAFER_OK);
  CU_ASSERT_EQUAL(count, 1);
  CU_ASSERT_EQUAL(parts[0].size, 64);
  CU_ASSERT_EQUAL(safetensors_read(NULL, nowhere, parts[0], arena, weights), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_weights_count(weights), 0);
  wafer_arena_destroy(arena);
}

static wafer_status read_text(caught *last, const char *header, size_t data_bytes, char *first) {
  wafer_diag diag = caught_diag(last);
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  size_t length = strlen(header);
  unsigned char *file = wafer_arena_alloc(arena, 8 + length + data_bytes, 1);
  file[0] = (unsigned char)length;
  file[1] = (unsigned char)(length >> 8);
  memcpy(file + 8, header, length);
  wafer_bytes bytes = {file, 8 + length + data_bytes};
  wafer_status status = safetensors_read(&diag, wafer_at_file("p"), bytes, arena, weights);
  if (first && status == WAFER_OK) strcpy(first, wafer_weights_at(weights, 0)->name);
  wafer_arena_destroy(arena);
  return status;
}

/* What others write: metadata, escapes, fields in another order, space. */
static void other_writers_are_understood(void) {
  static const struct {
    const char *header, *name;
    size_t bytes;
  } cases[] = {
      {"{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
       "\"data_offsets\":[0,4]}}   ",
       "a", 4},
      {" { \"\\u00e9\\ud83d\\ude00\\u20ac\\t\\/\" : {\"data_offsets\" : [ 0 , 2 ],\n\"shape\":[ ],"
       "\"dtype\":\"BF16\"} } ",
       "\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac\t/", 2},
      {"{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
       "e", 2},
      {"{\"__metadata__\":{},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "a",
       0},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    caught last;
    char name[64] = "";
    CU_ASSERT_EQUAL(read_text(&last, cases[i].header, cases[i].bytes, name), WAFER_OK);
    CU_ASSERT_STRING_EQUAL(name, cases[i].name);
  }
}

#define ONE(fields) "{\"a\":{" fields "}}"
#define HEAD "the weights' header is malformed: "
#define FIELDS HEAD "a tensor's fields are not one dtype, shape and data_offsets each"
static const struct {
  const char *header;
  size_t bytes;
  const char *want;
} bad[] = {
    {"", 0, HEAD "it is not an object"},
    {"[]", 0, HEAD "it is not an object"},
    {"{", 0, HEAD "a name is missing"},
    {"{}x", 0, HEAD "it goes on after its object"},
    {"{\"a\"}", 0, HEAD "a name is missing"},
    {"{\"a\":3}", 0, HEAD "a tensor is not an object"},
    {"{\"a\\", 0, HEAD "a name is missing"},
    {"{\"a\\x\":{}}", 0, HEAD "a name is missing"},
    {"{\"\\u0000\":{}}", 0, HEAD "a name is missing"},
    {"{\"\\ud83d\":{}}", 0, HEAD "a name is missing"},
    {"{\"\\ude00\":{}}", 0, HEAD "a name is missing"},
    {"{\"a\nb\":{}}", 0, HEAD "a name is missing"},
    {"{\"__metadata__\":{\"a\":1}}", 0, HEAD "its metadata is not strings"},
    {ONE(""), 0, FIELDS},
    {ONE("\"dtype\":\"F4\""), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"dtype\":\"F32\""), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[-1]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[01]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1.5]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[99999999999999999999]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[18446744073709551615]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1]"), 0, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]"), 4, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"colour\":1"), 4, FIELDS},
    {ONE("\"dtype\":\"F32\",\"shape\":[1]"), 4, HEAD "a tensor lacks dtype, shape or data_offsets"},
    {ONE("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]"), 4,
     HEAD "a tensor is too large"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 3,
     "weight 'a' lies at bytes 0 to 4 of 3"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4,
     "weight 'a' lies at bytes 4 to 0 of 4"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]"), 4,
     "weight 'a' has 3 bytes, its shape needs 4"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]"), 5,
     "weight 'a' does not start where the one before it ends"},
    {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 5,
     "1 bytes after the last weight"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "weight 'b' does not start where the one before it ends"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "weight 'a' is there twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", 1, HEAD "it does not end"},
};

static void bad_headers_are_refused(void) {
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) {
    caught last;
    CU_ASSERT_EQUAL(read_text(&last, bad[i].header, bad[i].bytes, NULL), WAFER_BAD_INPUT);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_STRING_EQUAL(last.text, bad[i].want);
  }
}

/* Cut anywhere, or with any one bit turned: an error or a file that means the same kind of thing,
 * never a read out of bounds. */
static void every_cut_and_every_flip_is_survived(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_bytes *parts;
  size_t count, accepted = 0;
  CU_ASSERT_EQUAL(safetensors_parts(NULL, nowhere, arena, sample(arena), &parts, &count), WAFER_OK);
  wafer_bytes file = join(arena, parts, count);
  for (size_t size = 0; size < file.size; size++) {
    char *cut = malloc(size ? size : 1);
    memcpy(cut, file.data, size);
    wafer_bytes bytes = {cut, size};
    wafer_weights *weights = wafer_weights_create(arena);
    CU_ASSERT_EQUAL(safetensors_read(NULL, nowhere, bytes, arena, weights), WAFER_BAD_INPUT);
    free(cut);
  }
  for (size_t bit = 0; bit < parts[0].size * 8; bit++) {
    wafer_arena *inner = wafer_arena_create();
    unsigned char *turned = wafer_arena_copy(inner, file.data, file.size);
    turned[bit / 8] ^= (unsigned char)(1u << bit % 8);
    wafer_bytes bytes = {turned, file.size};
    accepted += !safetensors_read(NULL, nowhere, bytes, inner, wafer_weights_create(inner));
    wafer_arena_destroy(inner);
  }
  CU_ASSERT(accepted < parts[0].size * 8 / 4); /* names and padding may change */
  wafer_arena_destroy(arena);
}

static void running_out_of_memory_is_reported(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = sample(arena);
  wafer_bytes *parts, file = {0};
  wafer_status status = WAFER_NO_MEMORY;
  size_t count;
  for (size_t n = 1; status != WAFER_OK; n++) {
    wafer_arena_fail_after(n);
    status = safetensors_parts(NULL, nowhere, arena, weights, &parts, &count);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
  }
  wafer_arena_fail_after(0);
  file = join(arena, parts, count);
  status = WAFER_NO_MEMORY;
  for (size_t n = 1; status != WAFER_OK; n++) {
    wafer_weights *got = wafer_weights_create(arena);
    wafer_arena_fail_after(n);
    status = safetensors_read(NULL, nowhere, file, arena, got);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_safetensors[] = {
    {"weights go there and back", weights_go_there_and_back},
    {"no weights are a file, too", no_weights_are_a_file_too},
    {"other writers are understood", other_writers_are_understood},
    {"bad headers are refused", bad_headers_are_refused},
    {"every cut and every flip is survived", every_cut_and_every_flip_is_survived},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};
