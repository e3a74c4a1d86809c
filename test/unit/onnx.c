#include "../../frontend/onnx/onnx.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "protobuf.h"

static char last_error[512];

static void remember(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                     const char *text) {
  (void)self, (void)severity, (void)status, (void)loc;
  snprintf(last_error, sizeof last_error, "%s", text);
}
static const wafer_diag sink = {.emit = remember};

static wafer_status read_bytes(wafer_arena *arena, const void *bytes, size_t count,
                               const onnx_model **model) {
  wire_source source = {&sink, arena, "t.onnx", {bytes, count}};
  *last_error = 0;
  return onnx_read(&source, model);
}

/* One node Relu x -> y with attribute alpha = 0.5 and ints = {1, -2, 300}. */
static void put_graph(protobuf *graph) {
  static protobuf node, attribute, ints;
  node.count = attribute.count = ints.count = 0;
  pb_text(&node, 1, "x");
  pb_text(&node, 2, "y");
  pb_text(&node, 3, "r");
  pb_text(&node, 4, "Relu");
  pb_text(&attribute, 1, "alpha");
  pb_varint(&attribute, 2 << 3 | 5);
  pb_raw(&attribute, &(float){0.5f}, 4);
  pb_int(&attribute, 20, ONNX_FLOAT);
  pb_message(&node, 5, &attribute);
  attribute.count = 0;
  pb_text(&attribute, 1, "ints");
  pb_int(&attribute, 8, 1);
  pb_varint(&ints, (uint64_t)-2);
  pb_varint(&ints, 300);
  pb_message(&attribute, 8, &ints);
  pb_message(&node, 5, &attribute);
  pb_message(graph, 1, &node);
  pb_text(graph, 2, "g");
}

static void put_model(protobuf *model) {
  static protobuf graph, opset;
  graph.count = opset.count = 0;
  put_graph(&graph);
  pb_int(model, 1, 8);
  pb_text(model, 2, "test");
  pb_text(model, 99, "a field from the future");
  pb_int(&opset, 2, 17);
  pb_message(model, 8, &opset);
  pb_message(model, 7, &graph);
}

static void a_model_is_read(void) {
  static protobuf bytes;
  bytes.count = 0;
  put_model(&bytes);
  wafer_arena *arena = wafer_arena_create();
  const onnx_model *model;
  CU_ASSERT_EQUAL_FATAL(read_bytes(arena, bytes.bytes, bytes.count, &model), WAFER_OK);
  CU_ASSERT_EQUAL(model->ir_version, 8);
  CU_ASSERT_STRING_EQUAL(model->producer_name, "test");
  CU_ASSERT_PTR_NULL(model->producer_version);
  CU_ASSERT_EQUAL(model->opset_import.at[0].version, 17);
  CU_ASSERT_EQUAL_FATAL(model->graph->node.count, 1);
  const onnx_node *node = model->graph->node.at;
  CU_ASSERT_STRING_EQUAL(node->op_type, "Relu");
  CU_ASSERT_STRING_EQUAL(node->input.at[0], "x");
  CU_ASSERT_EQUAL_FATAL(node->attribute.count, 2);
  CU_ASSERT_EQUAL(node->attribute.at[0].f, 0.5f);
  const onnx_attribute *ints = &node->attribute.at[1];
  CU_ASSERT_EQUAL(onnx_attribute_type_of(ints), ONNX_INTS);
  CU_ASSERT_EQUAL_FATAL(ints->ints.count, 3);
  CU_ASSERT_EQUAL(ints->ints.at[1], -2);
  CU_ASSERT_EQUAL(ints->ints.at[2], 300);
  wafer_arena_destroy(arena);
}

/* Every proper prefix either still ends between two fields, or is refused with a byte offset. */
static void every_truncation_is_an_error(void) {
  static protobuf bytes;
  bytes.count = 0;
  put_model(&bytes);
  size_t refused = 0;
  for (size_t length = 0; length < bytes.count; length++) {
    wafer_arena *arena = wafer_arena_create();
    const onnx_model *model;
    wafer_status status = read_bytes(arena, bytes.bytes, length, &model);
    CU_ASSERT_EQUAL(status, WAFER_BAD_INPUT);
    CU_ASSERT_PTR_NULL(model);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_error, "ONNX") ? last_error
                                                      : strstr(last_error, "truncated"));
    refused += status == WAFER_BAD_INPUT;
    wafer_arena_destroy(arena);
  }
  CU_ASSERT_EQUAL(refused, bytes.count);
}

/* No flipped bit crashes; what is read must be reachable without a fault (checked by the
 * sanitizers). */
static void flipped_bits_do_no_harm(void) {
  static protobuf bytes;
  bytes.count = 0;
  put_model(&bytes);
  for (size_t bit = 0; bit < bytes.count * 8; bit++) {
    bytes.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    wafer_arena *arena = wafer_arena_create();
    const onnx_model *model;
    wafer_status status = read_bytes(arena, bytes.bytes, bytes.count, &model);
    CU_ASSERT(status == WAFER_OK || (status == WAFER_BAD_INPUT && *last_error));
    wafer_arena_destroy(arena);
    bytes.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

static void malformed_files_are_named(void) {
  static const struct {
    const char *name, *bytes;
    size_t count;
    const char *want;
  } cases[] = {
      {"empty", "", 0, "it is empty"},
      {"text", "hello, world", 12, "bad field number|wire type|truncated"},
      {"no graph", "\x08\x08", 2, "holds no graph"},
      {"field zero", "\x00\x01", 2, "bad field number in ModelProto at byte 0"},
      {"group", "\x0b", 1, "unknown wire type in ModelProto at byte 0"},
      {"endless varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12,
       "truncated number"},
      {"long length", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "are left"},
      {"text that is a number", "\x10\x01", 2, "unexpected wire type"},
      {"two graphs", "\x3a\x00\x3a\x00", 4, "second value"},
      {"not UTF-8", "\x12\x02\xc3\x28", 4, "not UTF-8 text in ModelProto at byte 2"},
      {"overlong UTF-8", "\x12\x02\xc0\x80", 4, "not UTF-8"},
      {"zero in a name", "\x12\x02x\x00", 4, "not UTF-8"},
      {"odd fixed number", "\x3a\x08\x2a\x06\x22\x03\x01\x02\x03x", 9, "left|odd"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    wafer_arena *arena = wafer_arena_create();
    const onnx_model *model;
    CU_ASSERT_EQUAL(read_bytes(arena, cases[i].bytes, cases[i].count, &model), WAFER_BAD_INPUT);
    char wanted[128], *rest = NULL;
    snprintf(wanted, sizeof wanted, "%s", cases[i].want);
    int found = 0;
    for (char *at = strtok_r(wanted, "|", &rest); at; at = strtok_r(NULL, "|", &rest))
      found |= strstr(last_error, at) != NULL;
    if (!found) printf("%s: %s\n", cases[i].name, last_error);
    CU_ASSERT(found);
    wafer_arena_destroy(arena);
  }
}

/* `levels` graphs inside one another, each the attribute of a node. Built from the inside out,
 * backwards. */
static size_t nested_graphs(uint8_t *bytes, size_t room, int levels) {
  static const uint8_t keys[] = {7 << 3 | 2, 1 << 3 | 2, 5 << 3 | 2, 6 << 3 | 2};
  uint8_t *end = bytes + room, *at = end;
  for (int i = 0; i <= 3 * levels; i++) {
    protobuf head = {.count = 0};
    size_t inner = (size_t)(end - at);
    pb_byte(&head, i == 3 * levels ? keys[0] : keys[3 - i % 3]);
    pb_varint(&head, inner);
    at -= head.count;
    memcpy(at, head.bytes, head.count);
  }
  memmove(bytes, at, (size_t)(end - at));
  return (size_t)(end - at);
}

static void deep_nesting_is_refused(void) {
  static uint8_t bytes[200000];
  wafer_arena *arena = wafer_arena_create();
  const onnx_model *model;
  size_t count = nested_graphs(bytes, sizeof bytes, 60);
  CU_ASSERT_EQUAL(read_bytes(arena, bytes, count, &model), WAFER_OK);
  count = nested_graphs(bytes, sizeof bytes, 5000);
  CU_ASSERT_EQUAL(read_bytes(arena, bytes, count, &model), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last_error, "nested deeper"));
  wafer_arena_destroy(arena);
}

static void every_failed_allocation_is_reported(void) {
  static protobuf bytes;
  bytes.count = 0;
  put_model(&bytes);
  wafer_status status = WAFER_NO_MEMORY;
  size_t n = 1;
  for (; status != WAFER_OK && n < 1000; n++) {
    wafer_arena *arena = wafer_arena_create();
    const onnx_model *model;
    wafer_arena_fail_after(n);
    status = read_bytes(arena, bytes.bytes, bytes.count, &model);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    wafer_arena_fail_after(0);
    wafer_arena_destroy(arena);
  }
  CU_ASSERT(n > 10);
}

CU_TestInfo tests_onnx[] = {
    {"a model is read", a_model_is_read},
    {"every truncation is an error", every_truncation_is_an_error},
    {"flipped bits do no harm", flipped_bits_do_no_harm},
    {"malformed files are named", malformed_files_are_named},
    {"deep nesting is refused", deep_nesting_is_refused},
    {"every failed allocation is reported", every_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};
