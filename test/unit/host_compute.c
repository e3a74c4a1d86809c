/* Host operators that compute what cores do: values, whole numbers beyond what a double holds, and
 * what is refused. */
#include "../../runtime/host/host.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "i64 2x3: 1 2 3 4 5 6"; "" is left out. */
static wafer_item *parse(const char *text) {
  char dtype[8], dims[32], *rest = NULL;
  int used = 0;
  wafer_shape shape = {0};
  if (sscanf(text, "%7s %31[^:]:%n", dtype, dims, &used) != 2) return NULL;
  for (char *d = strtok_r(dims, "x", &rest); d; d = strtok_r(NULL, "x", &rest))
    if (strcmp(d, "scalar")) shape.dims[shape.rank++] = atoll(d);
  wafer_item *item = wafer_item_new(wafer_dtype_by_name(dtype), &shape);
  int64_t count = 0;
  wafer_shape_elements(&shape, &count);
  char *at = (char *)(uintptr_t)text + used;
  for (int64_t i = 0; i < count; i++)
    if (wafer_dtype_is_float(item->tensor.dtype))
      wafer_element_set_f64(item->tensor.dtype, item->tensor.data, i, strtod(at, &at));
    else
      wafer_element_set_i64(item->tensor.dtype, item->tensor.data, i,
                            (int64_t)strtoull(at, &at, 10));
  return item;
}

static void format(const wafer_item *item, char *out, size_t room) {
  const wafer_view *v = &item->tensor;
  char shape[64];
  int64_t count;
  wafer_shape_format(&v->shape, shape, sizeof shape);
  wafer_shape_elements(&v->shape, &count);
  size_t used = (size_t)snprintf(out, room, "%s %s:", wafer_dtype_name(v->dtype), shape);
  for (int64_t i = 0; i < count && used + 32 < room; i++)
    if (wafer_dtype_is_float(v->dtype))
      used += (size_t)snprintf(out + used, room - used, " %.6g",
                               wafer_element_f64(v->dtype, v->data, i) + 0.0);
    else
      used += (size_t)snprintf(out + used, room - used, " %lld",
                               (long long)wafer_element_i64(v->dtype, v->data, i));
}

#define LIST(member, type, ...)                                                                    \
  .count = sizeof((type[]){__VA_ARGS__}) / sizeof(type), .member = (type[]) {                      \
    __VA_ARGS__                                                                                    \
  }
#define INTS(key, ...)                                                                             \
  { .name = key, .kind = WAFER_HOST_ATTR_ints, LIST(ints, int64_t, __VA_ARGS__) }
#define FLOATS(key, ...)                                                                           \
  { .name = key, .kind = WAFER_HOST_ATTR_floats, LIST(floats, double, __VA_ARGS__) }
#define TEXT(key, value)                                                                           \
  { .name = key, .kind = WAFER_HOST_ATTR_texts, LIST(texts, const char *, value) }

typedef struct host_row {
  wafer_host_op op;
  const char *in[5];
  wafer_host_attr attrs[4];
  const char *want[3]; /* of each output; of a refusal: a part of what is said */
} host_row;

/* 2^60 + 1 and its like are no doubles. */
static const host_row rows[] = {
    {WAFER_HOST_Max,
     {"i64 2: 1152921504606846977 5", "i64 1: 1152921504606846976"},
     {{0}},
     {"i64 2: 1152921504606846977 1152921504606846976"}},
    {WAFER_HOST_Min, {"u8 2: 200 5", "u8 2: 100 7", "u8 scalar: 6"}, {{0}}, {"u8 2: 6 5"}},
    {WAFER_HOST_Max, {"f32 1: 3"}, {{0}}, {"f32 1: 3"}},
    {WAFER_HOST_Sum, {"f32 2: 1 2", "f32 1: 3", "f32 2: 4 5"}, {{0}}, {"f32 2: 8 10"}},
    {WAFER_HOST_Mean, {"f32 2: 1 2", "f32 1: 3"}, {{0}}, {"f32 2: 2 2.5"}},
    {WAFER_HOST_Clip,
     {"i64 3: 1 1152921504606846979 7", "i64 scalar: 2", "i64 scalar: 1152921504606846977"},
     {{0}},
     {"i64 3: 2 1152921504606846977 7"}},
    {WAFER_HOST_Clip, {"f32 2: 1 9", "", "f32 1: 4"}, {{0}}, {"f32 2: 1 4"}},
    {WAFER_HOST_Clip, {"f32 2: 1 9"}, {FLOATS("min", 2)}, {"f32 2: 2 9"}},
    {WAFER_HOST_Mod, {"i64 2: 7 8", "i64 1: 5"}, {{0}}, {"i64 2: 2 3"}},
    {WAFER_HOST_LeakyRelu, {"f32 2: -2 3"}, {FLOATS("alpha", 0.5)}, {"f32 2: -1 3"}},
    {WAFER_HOST_PRelu, {"f32 2: -2 3", "f32 1: 0.25"}, {{0}}, {"f32 2: -0.5 3"}},
    {WAFER_HOST_HardSigmoid, {"f32 3: -9 0 9"}, {{0}}, {"f32 3: 0 0.5 1"}},
    {WAFER_HOST_HardSwish, {"f32 3: -9 0 9"}, {{0}}, {"f32 3: 0 0 9"}},
    {WAFER_HOST_Softmax, {"f32 2x2: 0 0 1 1"}, {{0}}, {"f32 2x2: 0.5 0.5 0.5 0.5"}},
    {WAFER_HOST_Softmax,
     {"f32 1x2x2: 0 0 0 0"},
     {INTS("flat", 1)},
     {"f32 1x2x2: 0.25 0.25 0.25 0.25"}},
    {WAFER_HOST_LogSoftmax, {"f32 1x2: 500 500"}, {{0}}, {"f32 1x2: -0.693147 -0.693147"}},
    {WAFER_HOST_MatMul, {"f32 2x2: 1 2 3 4", "f32 2: 1 10"}, {{0}}, {"f32 2: 21 43"}},
    {WAFER_HOST_MatMul, {"f32 2: 1 10", "f32 2: 1 10"}, {{0}}, {"f32 scalar: 101"}},
    {WAFER_HOST_MatMul, {"f32 0x2:", "f32 2x3: 1 1 1 1 1 1"}, {{0}}, {"f32 0x3:"}},
    {WAFER_HOST_Gemm,
     {"f32 1x2: 1 2", "f32 1x2: 3 4", "f32 1: 5"},
     {INTS("transB", 1), FLOATS("alpha", 2), FLOATS("beta", 3)},
     {"f32 1x1: 37"}},
    {WAFER_HOST_ArgMax,
     {"i64 1x3: 1152921504606846976 1152921504606846977 3"},
     {INTS("axis", 1)},
     {"i64 1x1: 1"}},
    {WAFER_HOST_ArgMin,
     {"f32 2x2: 1 2 1 0"},
     {INTS("keepdims", 0), INTS("select_last_index", 1)},
     {"i64 2: 1 1"}},
    {WAFER_HOST_TopK,
     {"i64 4: 1152921504606846976 9 1152921504606846977 9", "i64 1: 3"},
     {{0}},
     {"i64 3: 1152921504606846977 1152921504606846976 9", "i64 3: 2 0 1"}},
    {WAFER_HOST_TopK,
     {"f32 2x2: 1 2 4 3", "i64 1: 1"},
     {INTS("axis", 0), INTS("largest", 0)},
     {"f32 1x2: 1 2", "i64 1x2: 0 0"}},
    {WAFER_HOST_TopK, {"f32 0x2:", "i64 1: 1"}, {{0}}, {"f32 0x1:", "i64 0x1:"}},
    {WAFER_HOST_Split, {"i64 3: 1 2 3", "i64 2: 1 2"}, {{0}}, {"i64 1: 1", "i64 2: 2 3"}},
    {WAFER_HOST_Split,
     {"i64 5: 1 2 3 4 5"},
     {INTS("num_outputs", 3)},
     {"i64 2: 1 2", "i64 2: 3 4", "i64 1: 5"}},
    {WAFER_HOST_Pad,
     {"i64 2: 1152921504606846977 2", "i64 2: 1 1", "i64 scalar: 1152921504606846979"},
     {{0}},
     {"i64 4: 1152921504606846979 1152921504606846977 2 1152921504606846979"}},
    {WAFER_HOST_Pad,
     {"f32 2x2: 1 2 3 4", "i64 2: 1 -1", "", "i64 1: -1"},
     {{0}},
     {"f32 2x2: 0 1 0 3"}},
    {WAFER_HOST_Pad,
     {"bool 2: 1 0"},
     {INTS("pads", 1, 0), TEXT("mode", "edge")},
     {"bool 3: 1 1 0"}},
    {WAFER_HOST_GatherElements,
     {"i64 2x2: 1152921504606846977 2 3 4", "i64 1x2: -2 1"},
     {{0}},
     {"i64 1x2: 1152921504606846977 4"}},
    {WAFER_HOST_Pow, {"i64 2: 3 -2", "f32 1: 2"}, {{0}}, {"i64 2: 9 4"}},
    {WAFER_HOST_Pow, {"f32 2: 3 4", "i64 2: 2 -1"}, {{0}}, {"f32 2: 9 0.25"}},
    {WAFER_HOST_Conv,
     {"f32 1x1x3: 1 2 3", "f32 1x1x2: 1 10", "f32 1: 5"},
     {INTS("pads", 0, 1), INTS("kernel_shape", 2)},
     {"f32 1x1x3: 26 37 8"}},
    {WAFER_HOST_Conv,
     {"f32 1x1x3: 1 2 3", "f32 1x1x2: 1 10"},
     {TEXT("auto_pad", "SAME_LOWER")},
     {"f32 1x1x3: 10 21 32"}},
    {WAFER_HOST_Conv, {"f32 0x1x2x2:", "f32 3x1x1x1: 1 2 3"}, {{0}}, {"f32 0x3x2x2:"}},
    {WAFER_HOST_ConvTranspose,
     {"f32 1x1x2: 1 2", "f32 1x1x2: 1 10"},
     {INTS("strides", 2), INTS("output_padding", 1)},
     {"f32 1x1x5: 1 10 2 20 0"}},
    {WAFER_HOST_MaxPool,
     {"f32 1x1x3: 1 3 2"},
     {INTS("kernel_shape", 2), INTS("pads", 0, 1)},
     {"f32 1x1x3: 3 3 2"}},
    {WAFER_HOST_AveragePool,
     {"f32 1x1x3: 1 3 2"},
     {INTS("kernel_shape", 2), TEXT("auto_pad", "SAME_UPPER"), INTS("strides", 2)},
     {"f32 1x1x2: 2 2"}},
    {WAFER_HOST_GlobalAveragePool, {"f32 1x2x2x1: 1 2 3 5"}, {{0}}, {"f32 1x2x1x1: 1.5 4"}},
    {WAFER_HOST_GlobalMaxPool, {"f32 0x2x2x1:"}, {{0}}, {"f32 0x2x1x1:"}},
    {WAFER_HOST_BatchNormalization,
     {"f32 1x2x1: 3 8", "f32 2: 2 1", "f32 2: 0 1", "f32 2: 1 2", "f32 2: 4 9"},
     {FLOATS("epsilon", 0)},
     {"f32 1x2x1: 2 3"}},
    {WAFER_HOST_LayerNormalization,
     {"f32 2x2: 1 3 5 5", "f32 2: 1 2", "f32 2: 0 1"},
     {FLOATS("epsilon", 0.0001)},
     {"f32 2x2: -0.99995 2.9999 0 1"}},
    {WAFER_HOST_Gelu, {"f32 2: 1 -1"}, {{0}}, {"f32 2: 0.841345 -0.158655"}},
    {WAFER_HOST_Gelu, {"f32 1: 1"}, {TEXT("approximate", "tanh")}, {"f32 1: 0.841192"}},
    {WAFER_HOST_Resize,
     {"f32 1x2: 1 3", "", "", "i64 2: 1 4"},
     {TEXT("mode", "linear")},
     {"f32 1x4: 1 1.5 2.5 3"}},
    {WAFER_HOST_Resize, {"u8 2: 1 3", "", "f32 1: 2"}, {INTS("axes", -1)}, {"u8 4: 1 1 3 3"}},
    {WAFER_HOST_Resize, {"f32 3: 1 2 3", "f32 1: 0.7"}, {{0}}, {"f32 2: 1 2"}},
    {WAFER_HOST_Resize, {"f32 0x2:", "", "", "i64 2: 0 4"}, {{0}}, {"f32 0x4:"}},
    /* a bin around the middle of the first image, one of two samples at the border of the second */
    {WAFER_HOST_RoiAlign,
     {"f32 2x1x2x2: 1 2 3 4 5 6 7 8", "f32 2x4: 0 0 2 2 1 1 3 2", "i64 2: 0 1"},
     {INTS("sampling_ratio", 1)},
     {"f32 2x1x1x1: 2.5 8"}},
    {WAFER_HOST_RoiAlign,
     {"f32 1x1x2x2: 1 2 3 4", "f32 1x4: 0 0 4 2", "i64 1: 0"},
     {INTS("output_width", 2), FLOATS("spatial_scale", 0.5), TEXT("mode", "max"),
      TEXT("coordinate_transformation_mode", "output_half_pixel")},
     {"f32 1x1x1x2: 1 2"}},
    {WAFER_HOST_RoiAlign,
     {"f32 1x3x2x2: 1 2 3 4 1 2 3 4 1 2 3 4", "f32 0x4:", "i64 0:"},
     {{0}},
     {"f32 0x3x1x1:"}},
    {WAFER_HOST_ScatterND,
     {"i64 3: 1152921504606846977 2 3", "i64 2x1: 0 -1", "i64 2: 2 5"},
     {TEXT("reduction", "add")},
     {"i64 3: 1152921504606846979 2 8"}},
    {WAFER_HOST_ScatterND,
     {"f32 2x2: 1 2 3 4", "i64 1x1: 1", "f32 1x2: 8 9"},
     {{0}},
     {"f32 2x2: 1 2 8 9"}},
    {WAFER_HOST_ScatterElements,
     {"i64 2: 1152921504606846977 3", "i64 1: 0", "i64 1: 1152921504606846979"},
     {TEXT("reduction", "max")},
     {"i64 2: 1152921504606846979 3"}},
    {WAFER_HOST_ScatterElements,
     {"i64 2: 1152921504606846977 3", "i64 1: 0", "i64 1: 2"},
     {TEXT("reduction", "mul")},
     {"i64 2: 2305843009213693954 3"}},
};

static const host_row wrong[] = {
    {WAFER_HOST_TopK, {"f32 2: 1 2", "i64 1: 3"}, {{0}}, {"k is 3, dim 0 has 2 elements"}},
    {WAFER_HOST_TopK, {"f32 2: 1 2", "i64 1: -1"}, {{0}}, {"k is -1"}},
    {WAFER_HOST_Split, {"f32 3: 1 2 3", "i64 2: 1 1"}, {{0}}, {NULL, "hold 2 of 3 elements"}},
    {WAFER_HOST_Split, {"f32 3: 1 2 3"}, {{0}}, {NULL, "3 elements are no 2 parts"}},
    {WAFER_HOST_Split, {"f32 3: 1 2 3", "i64 2: 4 -1"}, {{0}}, {NULL, "4 elements, 3 are left"}},
    {WAFER_HOST_Pad, {"f32 2: 1 2", "i64 1: 1"}, {{0}}, {"pads has 1 entries, needs 2"}},
    {WAFER_HOST_Pad, {"f32 2: 1 2", "i64 2: 1 1", "i64 1: 1"}, {{0}}, {"must be one f32"}},
    {WAFER_HOST_Pad, {"f32 0:", "i64 2: 1 1"}, {TEXT("mode", "edge")}, {"no element to repeat"}},
    {WAFER_HOST_Clip, {"f32 2: 1 2", "f32 2: 1 1"}, {{0}}, {"operand 1 must be one number"}},
    {WAFER_HOST_Gemm, {"f32 2: 1 2", "f32 2x1: 1 1"}, {{0}}, {"must be matrices"}},
    {WAFER_HOST_MatMul, {"f32 1x2: 1 2", "f32 3x1: 1 1 1"}, {{0}}, {"matmul"}},
    {WAFER_HOST_Max, {"f32 2: 1 2", "f32 3: 1 1 1"}, {{0}}, {"broadcast"}},
    {WAFER_HOST_Conv, {"f32 2x2: 1 2 3 4", "f32 1x1x1: 1"}, {{0}}, {"an operand of 2 dims"}},
    {WAFER_HOST_Conv,
     {"f32 1x1x2: 1 2", "f32 1x1x1: 1"},
     {INTS("strides", 1, 1)},
     {"strides has 2 entries, needs 1"}},
    {WAFER_HOST_Conv, {"f32 1x1x2: 1 2", "f32 1x1x1: 1"}, {INTS("strides", 0)}, {"strides"}},
    {WAFER_HOST_Resize, {"f32 2: 1 2", "", "f32 2: 1 1"}, {{0}}, {"for each of 1 dims"}},
    {WAFER_HOST_Resize,
     {"f32 4: 1 2 3 4", "", "", "i64 1: 2"},
     {INTS("antialias", 1), TEXT("mode", "linear")},
     {"known when compiling"}},
    {WAFER_HOST_RoiAlign,
     {"f32 1x1x1x1: 1", "f32 1x4: 0 0 1 1", "i64 1: 1"},
     {{0}},
     {"box 0 is of image 1"}},
    {WAFER_HOST_GatherElements, {"f32 2: 1 2", "i64 1: 2"}, {{0}}, {"index 2 is out of range"}},
    {WAFER_HOST_GatherElements, {"f32 2x1: 1 2", "i64 1x2: 0 0"}, {{0}}, {"dim 1 of the indices"}},
    {WAFER_HOST_ScatterND, {"f32 2: 1 2", "i64 1x1: 2", "f32 1: 1"}, {{0}}, {"index 2 is out of"}},
    {WAFER_HOST_ScatterND, {"f32 2: 1 2", "i64 1x2: 0 0", "f32 1: 1"}, {{0}}, {"do not fit"}},
    {WAFER_HOST_ScatterND, {"f32 2: 1 2", "i64 1x1: 0", "f32 2: 1 1"}, {{0}}, {"do not fit"}},
};

static void remember(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                     const char *text) {
  (void)severity, (void)status, (void)loc;
  snprintf(self, 256, "%s", text);
}

static wafer_status run(const host_row *row, char *said, wafer_item **out) {
  wafer_diag diag = {.emit = remember, .self = said};
  wafer_item *in[5];
  host_site site = {.diag = &diag, .attrs = row->attrs, .inputs = in, .outputs = out};
  while (site.attr_count < 4 && row->attrs[site.attr_count].name) site.attr_count++;
  for (; site.input_count < 5 && row->in[site.input_count]; site.input_count++)
    in[site.input_count] = parse(row->in[site.input_count]);
  site.output_count = row->want[2] ? 3 : row->want[1] ? 2 : 1; /* a refusal's words may be behind */
  wafer_status status = host_run(&site, row->op);
  for (uint32_t i = 0; i < site.input_count; i++) wafer_item_release(in[i]);
  return status;
}

static void values_are_those_of_onnx(void) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    wafer_item *out[3] = {NULL};
    char said[256] = "", got[256];
    wafer_status status = run(&rows[i], said, out);
    CU_ASSERT_EQUAL(status, WAFER_OK);
    for (uint32_t k = 0; k < 3 && rows[i].want[k]; k++) {
      strcpy(got, "nothing");
      if (out[k]) format(out[k], got, sizeof got);
      if (strcmp(got, rows[i].want[k]))
        printf("\n  %s %zu: %s, expected %s; %s\n", wafer_host_get(rows[i].op)->name, i, got,
               rows[i].want[k], said);
      CU_ASSERT_STRING_EQUAL(got, rows[i].want[k]);
      wafer_item_release(out[k]);
    }
  }
}

static void what_is_wrong_is_said(void) {
  for (size_t i = 0; i < WAFER_COUNT(wrong); i++) {
    wafer_item *out[3] = {NULL};
    char said[256] = "";
    const char *want = wrong[i].want[0] ? wrong[i].want[0] : wrong[i].want[1];
    CU_ASSERT_EQUAL(run(&wrong[i], said, out), WAFER_BAD_INPUT);
    if (!strstr(said, want)) printf("\n  row %zu: %s, expected %s\n", i, said, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(said, want));
    for (uint32_t k = 0; k < 3; k++) wafer_item_release(out[k]);
  }
}

CU_TestInfo tests_host_compute[] = {
    {"values are those of ONNX", values_are_those_of_onnx},
    {"what is wrong is said", what_is_wrong_is_said},
    CU_TEST_INFO_NULL,
};
