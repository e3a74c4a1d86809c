#include "wafer/tensor.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void names_go_both_ways(void) {
  for (int i = 1; i < WAFER_DTYPE_COUNT; i++) {
    wafer_dtype dtype = (wafer_dtype)i;
    CU_ASSERT_EQUAL(wafer_dtype_by_name(wafer_dtype_name(dtype)), dtype);
    CU_ASSERT_EQUAL(wafer_dtype_by_safetensors(wafer_dtype_safetensors(dtype)), dtype);
    if (wafer_dtype_bits(dtype) > 8)
      CU_ASSERT_EQUAL(wafer_dtype_by_npy(wafer_dtype_npy(dtype)), dtype);
    CU_ASSERT_EQUAL(wafer_dtype_bytes(dtype), (wafer_dtype_bits(dtype) + 7) / 8);
  }
  CU_ASSERT_EQUAL(wafer_dtype_by_name("float"), WAFER_DTYPE_none);
  CU_ASSERT_EQUAL(wafer_dtype_by_npy(""), WAFER_DTYPE_none);
  CU_ASSERT_EQUAL(wafer_dtype_by_npy(NULL), WAFER_DTYPE_none);
  CU_ASSERT_STRING_EQUAL(wafer_dtype_name(WAFER_DTYPE_bool), "bool");
  CU_ASSERT_STRING_EQUAL(wafer_dtype_name(WAFER_DTYPE_none), "none");
  CU_ASSERT_EQUAL(wafer_dtype_bytes(WAFER_DTYPE_none), 0);
  CU_ASSERT_EQUAL(wafer_dtype_by_onnx(1), WAFER_DTYPE_f32);
  CU_ASSERT_EQUAL(wafer_dtype_by_onnx(16), WAFER_DTYPE_bf16);
  CU_ASSERT_EQUAL(wafer_dtype_by_onnx(0), WAFER_DTYPE_none);
  CU_ASSERT_EQUAL(wafer_dtype_by_onnx(8), WAFER_DTYPE_none);
}

/* Every f16 widens to a float that narrows back to it. */
static void f16_goes_there_and_back(void) {
  int wrong = 0;
  for (uint32_t half = 0; half < 0x10000; half++) {
    float wide = wafer_f32_of_f16((uint16_t)half);
    uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    double want = exponent ? ldexp(1 + mantissa / 1024.0, (int)exponent - 15) : mantissa * 0x1p-24;
    if (exponent == 31) want = mantissa ? NAN : INFINITY;
    if (half & 0x8000) want = -want;
    if (isnan(want) ? !isnan(wide) : (double)wide != want) wrong++;
    uint16_t quiet = exponent == 31 && mantissa ? 0x200 : 0;
    if (wafer_f16_of_f32(wide) != (half | quiet)) wrong++;
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Ties to even, overflow, subnormals: each midpoint between neighbours and its float neighbours. */
static void f16_rounds_to_nearest_even(void) {
  int wrong = 0;
  for (uint32_t half = 0; half < 0x7c00; half++) {
    float low = wafer_f32_of_f16((uint16_t)half);
    double high = half == 0x7bff ? 65536.0 : (double)wafer_f32_of_f16((uint16_t)(half + 1));
    float middle = (float)(((double)low + high) / 2);
    uint32_t even = half & 1 ? half + 1 : half;
    wrong += wafer_f16_of_f32(middle) != even;
    wrong += wafer_f16_of_f32(-middle) != (even | 0x8000);
    wrong += wafer_f16_of_f32(nextafterf(middle, INFINITY)) != half + 1;
    wrong += wafer_f16_of_f32(nextafterf(middle, 0)) != half;
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(wafer_f16_of_f32(65519.996f), 0x7bff);
  CU_ASSERT_EQUAL(wafer_f16_of_f32(65520.0f), 0x7c00);
  CU_ASSERT_EQUAL(wafer_f16_of_f32(-1e30f), 0xfc00);
  CU_ASSERT_EQUAL(wafer_f16_of_f32(float_of(0x7f800001)), 0x7e00);
  CU_ASSERT_EQUAL(wafer_f16_of_f32(1e-45f), 0);
}

static void bf16_rounds_to_nearest_even(void) {
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(1.0f), 0x3f80);
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(float_of(0x3f808000)), 0x3f80);
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(float_of(0x3f818000)), 0x3f82);
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(float_of(0x3f808001)), 0x3f81);
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(float_of(0x7f7fffff)), 0x7f80);
  CU_ASSERT_EQUAL(wafer_bf16_of_f32(float_of(0x7f800001)), 0x7fc0);
  CU_ASSERT_EQUAL(bits_of(wafer_f32_of_bf16(0xc049)), 0xc0490000);
}

/* The vector form and the plain form agree on every class of value, at every length. */
static void rounding_in_place_is_the_same(void) {
  enum { COUNT = 100003 };
  float *values = malloc(COUNT * sizeof *values), *kept = malloc(COUNT * sizeof *kept);
  uint32_t seed = 1, wrong = 0;
  for (size_t i = 0; i < COUNT; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t bits = i % 3 ? seed : 0x33000000u + seed % 0x16000000u;
    values[i] = kept[i] = float_of(bits);
  }
  wafer_round_f16(values, COUNT);
  for (size_t i = 0; i < COUNT; i++)
    wrong += bits_of(values[i]) != bits_of(wafer_f32_of_f16(wafer_f16_of_f32(kept[i])));
  CU_ASSERT_EQUAL(wrong, 0);
  for (size_t count = 0; count < 20; count++) {
    float few[21];
    for (size_t i = 0; i <= 20; i++) few[i] = 1.0001f;
    wafer_round_f16(few, count);
    for (size_t i = 0; i <= 20; i++) CU_ASSERT_EQUAL(few[i], i < count ? 1.0f : 1.0001f);
  }
  free(values);
  free(kept);
}

static void elements_convert_as_casts_do(void) {
  static const double in[] = {0, 1, -1, 100, 2.75, -2.75};
  for (int i = 1; i < WAFER_DTYPE_COUNT; i++)
    for (size_t j = 0; j < WAFER_COUNT(in); j++) {
      wafer_dtype dtype = (wafer_dtype)i;
      bool small = wafer_dtype_bits(dtype) < 8 || dtype > WAFER_DTYPE_bf16; /* tests of their own */
      if (dtype == WAFER_DTYPE_bool || small || (in[j] < 0 && !wafer_dtype_is_signed(dtype)))
        continue;
      unsigned char data[25] = {0};
      wafer_element_set_f64(dtype, data + 1, 2, in[j]);
      double want = wafer_dtype_is_float(dtype) ? in[j] : trunc(in[j]);
      CU_ASSERT_EQUAL(wafer_element_f64(dtype, data + 1, 2), want);
      CU_ASSERT_EQUAL(wafer_element_i64(dtype, data + 1, 2), (int64_t)in[j]);
      CU_ASSERT_EQUAL(wafer_element_f64(dtype, data + 1, 1), 0);
    }
}

static void elements_at_the_edges(void) {
  uint64_t word = 0;
  wafer_element_set_i64(WAFER_DTYPE_u64, &word, 0, -1);
  CU_ASSERT_EQUAL(wafer_element_f64(WAFER_DTYPE_u64, &word, 0), 0x1p64);
  wafer_element_set_f64(WAFER_DTYPE_u64, &word, 0, 0x1p63);
  CU_ASSERT_EQUAL(word, (uint64_t)1 << 63);
  wafer_element_set_f64(WAFER_DTYPE_i64, &word, 0, NAN);
  CU_ASSERT_EQUAL((int64_t)word, INT64_MIN);
  wafer_element_set_f64(WAFER_DTYPE_i64, &word, 0, 1e300);
  CU_ASSERT_EQUAL((int64_t)word, INT64_MIN);
  uint8_t flag = 0;
  wafer_element_set_f64(WAFER_DTYPE_bool, &flag, 0, 0.25);
  CU_ASSERT_EQUAL(flag, 1);
  flag = 7;
  CU_ASSERT_EQUAL(wafer_element_i64(WAFER_DTYPE_bool, &flag, 0), 1);
  uint16_t half = 0; /* rounding 1 + 2^-11 + 2^-40 through f32 first would tie to even and give 1 */
  wafer_element_set_f64(WAFER_DTYPE_f16, &half, 0, 1 + 0x1p-11 + 0x1p-40);
  CU_ASSERT_EQUAL(half, 0x3c01);
  wafer_element_set_f64(WAFER_DTYPE_f16, &half, 0, -(1 + 0x1p-10 + 0x1p-11 - 0x1p-40));
  CU_ASSERT_EQUAL(half, 0xbc01);
  wafer_element_set_f64(WAFER_DTYPE_f16, &half, 0, 1e300);
  CU_ASSERT_EQUAL(half, 0x7c00);
}

static void shapes_are_counted_with_care(void) {
  static const struct {
    wafer_shape shape;
    bool fits;
    int64_t elements;
    const char *text;
  } cases[] = {
      {{0, {0}}, true, 1, "scalar"},
      {{4, {1, 3, 48, 320}}, true, 46080, "1x3x48x320"},
      {{2, {0, 5}}, true, 0, "0x5"},
      {{1, {-1}}, false, 0, "-1"},
      {{2, {INT64_MAX, 2}}, false, 0, "9223372036854775807x2"},
      {{2, {(int64_t)1 << 30, (int64_t)1 << 30}}, false, 0, "1073741824x1073741824"},
      {{2, {(int64_t)1 << 30, ((int64_t)1 << 30) - 1}},
       true,
       1152921503533105152,
       "1073741824x1073741823"},
      {{3, {0, (int64_t)1 << 40, (int64_t)1 << 40}}, false, 0, "0x1099511627776x1099511627776"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    int64_t elements = 99;
    char text[64];
    CU_ASSERT_EQUAL(wafer_shape_elements(&cases[i].shape, &elements), cases[i].fits);
    CU_ASSERT_EQUAL(elements, cases[i].elements);
    wafer_shape_format(&cases[i].shape, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, cases[i].text);
  }
  wafer_shape deep = {WAFER_MAX_RANK + 1, {1, 1, 1, 1, 1, 1, 1, 1}};
  int64_t elements;
  CU_ASSERT_FALSE(wafer_shape_elements(&deep, &elements));
  char small[6];
  wafer_shape_format(&cases[1].shape, small, sizeof small);
  CU_ASSERT_STRING_EQUAL(small, "1x3x4");
  CU_ASSERT(wafer_shape_equal(&cases[1].shape, &cases[1].shape));
  CU_ASSERT_FALSE(wafer_shape_equal(&cases[1].shape, &cases[2].shape));
}

static void views_know_when_they_are_dense(void) {
  wafer_shape shape = {3, {2, 1, 4}};
  wafer_view view = wafer_view_of(WAFER_DTYPE_f16, &shape, NULL);
  CU_ASSERT_EQUAL(view.strides[0], 4);
  CU_ASSERT_EQUAL(view.strides[2], 1);
  CU_ASSERT(wafer_view_is_dense(&view));
  view.strides[1] = 77; /* a dim of 1 may lie anywhere */
  CU_ASSERT(wafer_view_is_dense(&view));
  view.strides[0] = 5;
  CU_ASSERT_FALSE(wafer_view_is_dense(&view));
  view.shape.dims[2] = 0;
  CU_ASSERT(wafer_view_is_dense(&view));
  CU_ASSERT_EQUAL(wafer_tensor_bytes(WAFER_DTYPE_f16, &shape), 16);
}

static void packing_follows_any_strides(void) {
  for (int type = 1; type < WAFER_DTYPE_COUNT; type++) {
    wafer_dtype dtype = (wafer_dtype)type;
    unsigned char grid[24 * 8] = {0}, packed[24 * 8] = {0};
    for (int i = 0; i < 24; i++) wafer_element_set_i64(dtype, grid, i, i % 2 + (i > 11));
    wafer_view view = {.dtype = dtype, .shape = {3, {4, 2, 3}}, .strides = {1, -12, 4}};
    view.data = grid + 12 * wafer_dtype_bytes(dtype); /* the middle dim runs backwards */
    wafer_view_pack(&view, packed);
    for (int i = 0; i < 24; i++) {
      int from = 12 + i / 6 - i / 3 % 2 * 12 + i % 3 * 4;
      CU_ASSERT_EQUAL(wafer_element_i64(dtype, packed, i), wafer_element_i64(dtype, grid, from));
    }
  }
  float one = 3, many[6] = {0};
  wafer_view spread = {.dtype = WAFER_DTYPE_f32, .shape = {2, {2, 3}}, .data = &one};
  wafer_view_pack(&spread, many);
  for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(many[i], 3);
  wafer_view scalar = {.dtype = WAFER_DTYPE_f32, .data = &one};
  many[0] = 0;
  wafer_view_pack(&scalar, many);
  CU_ASSERT_EQUAL(many[0], 3);
  wafer_view nothing = {.dtype = WAFER_DTYPE_f32, .shape = {2, {3, 0}}};
  wafer_view_pack(&nothing, NULL);
}

/* Every code of a float of 8 bits and less means what its encoding says, and is its number's code.
 */
static void small_floats_go_there_and_back(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f8e4m3fn, WAFER_DTYPE_f8e4m3fnuz,
                                      WAFER_DTYPE_f8e5m2,   WAFER_DTYPE_f8e5m2fnuz,
                                      WAFER_DTYPE_f4e2m1,   WAFER_DTYPE_f8e8m0};
  for (size_t t = 0; t < WAFER_COUNT(types); t++)
    for (int code = 0; code < 1 << wafer_dtype_bits(types[t]); code++) {
      uint8_t in = (uint8_t)code, out = 0;
      double value = wafer_element_f64(types[t], &in, 0);
      wafer_element_set_f64(types[t], &out, 0, value);
      if (value == value)
        CU_ASSERT_EQUAL(out, in)
      else
        CU_ASSERT(wafer_element_f64(types[t], &out, 0) != wafer_element_f64(types[t], &out, 0));
    }
}

static void small_floats_round_and_overflow(void) {
  static const struct {
    wafer_dtype type;
    double value;
    uint8_t code;
  } cases[] = {
      {WAFER_DTYPE_f8e4m3fn, 1, 0x38},          {WAFER_DTYPE_f8e4m3fn, 448, 0x7e},
      {WAFER_DTYPE_f8e4m3fn, 463, 0x7e},        {WAFER_DTYPE_f8e4m3fn, 465, 0x7f},
      {WAFER_DTYPE_f8e4m3fn, -INFINITY, 0xff},  {WAFER_DTYPE_f8e4m3fn, 0x1p-9, 0x01},
      {WAFER_DTYPE_f8e4m3fn, 0x1p-10, 0x00},    {WAFER_DTYPE_f8e4m3fn, 0x1.8p-9, 0x02},
      {WAFER_DTYPE_f8e4m3fn, 1.0625, 0x38},     {WAFER_DTYPE_f8e4m3fn, 1.1875, 0x3a},
      {WAFER_DTYPE_f8e4m3fnuz, 240, 0x7f},      {WAFER_DTYPE_f8e4m3fnuz, 1e9, 0x80},
      {WAFER_DTYPE_f8e4m3fnuz, -0.0, 0x00},     {WAFER_DTYPE_f8e5m2, 57344, 0x7b},
      {WAFER_DTYPE_f8e5m2, 1e9, 0x7c},          {WAFER_DTYPE_f8e5m2, -1e9, 0xfc},
      {WAFER_DTYPE_f8e5m2fnuz, INFINITY, 0x80}, {WAFER_DTYPE_f4e2m1, 2.5, 0x04},
      {WAFER_DTYPE_f4e2m1, -1e9, 0x0f},         {WAFER_DTYPE_f8e8m0, 1, 127},
      {WAFER_DTYPE_f8e8m0, 1.99, 127},          {WAFER_DTYPE_f8e8m0, INFINITY, 255},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    uint8_t code = 0x55;
    wafer_element_set_f64(cases[i].type, &code, 0, cases[i].value);
    CU_ASSERT_EQUAL(code, cases[i].code);
  }
}

static void small_integers_wrap(void) {
  int8_t signed_one;
  uint8_t plain;
  wafer_element_set_i64(WAFER_DTYPE_i4, &signed_one, 0, 9);
  CU_ASSERT_EQUAL(signed_one, -7);
  wafer_element_set_i64(WAFER_DTYPE_i2, &signed_one, 0, 2);
  CU_ASSERT_EQUAL(signed_one, -2);
  wafer_element_set_i64(WAFER_DTYPE_u4, &plain, 0, 17);
  CU_ASSERT_EQUAL(plain, 1);
  wafer_element_set_i64(WAFER_DTYPE_u2, &plain, 0, -1);
  CU_ASSERT_EQUAL(plain, 3);
}

static void ranges_are_those_of_the_types(void) {
  double least, most;
  for (int i = 1; i < WAFER_DTYPE_COUNT; i++) {
    wafer_dtype dtype = (wafer_dtype)i;
    uint64_t element = 0;
    wafer_dtype_range(dtype, &least, &most);
    if (dtype == WAFER_DTYPE_i64 || dtype == WAFER_DTYPE_u64) continue; /* rounded to doubles */
    wafer_element_set_f64(dtype, &element, 0, most);
    CU_ASSERT_EQUAL(wafer_element_f64(dtype, &element, 0), most);
    wafer_element_set_f64(dtype, &element, 0, least);
    CU_ASSERT_EQUAL(wafer_element_f64(dtype, &element, 0), least);
  }
}

CU_TestInfo tests_tensor[] = {
    {"small floats go there and back", small_floats_go_there_and_back},
    {"small floats round and overflow", small_floats_round_and_overflow},
    {"small integers wrap", small_integers_wrap},
    {"ranges are those of the types", ranges_are_those_of_the_types},
    {"names go both ways", names_go_both_ways},
    {"f16 goes there and back", f16_goes_there_and_back},
    {"f16 rounds to nearest even", f16_rounds_to_nearest_even},
    {"bf16 rounds to nearest even", bf16_rounds_to_nearest_even},
    {"rounding in place is the same", rounding_in_place_is_the_same},
    {"elements convert as casts do", elements_convert_as_casts_do},
    {"elements at the edges", elements_at_the_edges},
    {"shapes are counted with care", shapes_are_counted_with_care},
    {"views know when they are dense", views_know_when_they_are_dense},
    {"packing follows any strides", packing_follows_any_strides},
    CU_TEST_INFO_NULL,
};
