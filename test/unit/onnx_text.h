/* ONNX files for tests, from text: statements separated by ';', words by blanks.
 *
 * - `in x f32 1x3xN`: an input; dims are numbers, names or ? (nothing known); '*' for no shape
 * - `init w i64 2x2 = 1 2 3 4`: an initializer (f32 as float_data, i64 as int64_data, bool, i32 as
 *   int32_data)
 * - `sparse w f32 2x3 = 1 2 @ 0 4`: a sparse initializer, its values and where they stand; with
 *   `@2x2` in place of `@` the indices have these dims
 * - `out y f32 4`: an output; type and dims may be left out
 * - `Concat(axis=1) a b -> y`: a node named after its first output; `-` stands for a left-out
 * input; attributes: k=3 int, k=0.5 float, k=[1,2] ints, k=[1.0,2] floats, k='text', k=['a','b']
 * texts
 * - `note w KEY = TEXT`: metadata beside the value w, of the graph with `-` in place of w
 */
#ifndef UNIT_ONNX_TEXT_H
#define UNIT_ONNX_TEXT_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "protobuf.h"
#include "wafer/tensor.h"

static inline int onnx_text_dtype(const char *name) {
  static const int codes[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16};
  for (size_t i = 0; i < WAFER_COUNT(codes); i++)
    if (!strcmp(wafer_dtype_name(wafer_dtype_by_onnx(codes[i])), name)) return codes[i];
  return !strcmp(name, "string") ? 8 : !strcmp(name, "c64") ? 14 : 0;
}

/* ValueInfoProto from name, element type, dims. */
static inline void onnx_text_value(protobuf *out, const char *name, const char *dtype, char *dims) {
  protobuf *parts = calloc(4, sizeof *parts), *dim = parts, *shape = parts + 1;
  char *rest = NULL;
  pb_text(out, 1, name);
  if (dtype) pb_int(&parts[2], 1, onnx_text_dtype(dtype));
  for (char *d = dims ? strtok_r(dims, "x", &rest) : NULL; d; d = strtok_r(NULL, "x", &rest)) {
    dim->count = 0;
    if (isdigit((unsigned char)*d) || *d == '-')
      pb_int(dim, 1, strtoll(d, NULL, 10));
    else if (*d != '?')
      pb_text(dim, 2, d);
    if (strcmp(d, "scalar")) pb_message(shape, 1, dim);
  }
  if (dims && strcmp(dims, "*")) pb_message(&parts[2], 2, shape);
  pb_message(&parts[3], 1, &parts[2]);
  if (dtype) pb_message(out, 2, &parts[3]);
  free(parts);
}

/* TensorProto from name, element type, dims and the numbers that follow. */
static inline void onnx_text_tensor(protobuf *out, char **rest) {
  protobuf *data = calloc(1, sizeof *data);
  const char *name = strtok_r(NULL, " ", rest), *dtype = strtok_r(NULL, " ", rest);
  char *dims = strtok_r(NULL, " ", rest), *more = NULL;
  int code = onnx_text_dtype(dtype);
  strtok_r(NULL, " ", rest); /* = */
  for (char *d = strtok_r(dims, "x", &more); d; d = strtok_r(NULL, "x", &more))
    if (strcmp(d, "scalar")) pb_int(out, 1, strtoll(d, NULL, 10));
  for (char *n; (n = strtok_r(NULL, " ", rest));) {
    if (code == 1)
      pb_raw(data, &(float){strtof(n, NULL)}, 4);
    else if (code == 11)
      pb_raw(data, &(double){strtod(n, NULL)}, 8);
    else
      pb_varint(data, (uint64_t)strtoll(n, NULL, 10));
  }
  pb_int(out, 2, code);
  pb_text(out, 8, name);
  pb_message(out, code == 1 ? 4 : code == 11 ? 10 : code == 7 ? 7 : 5, data);
  free(data);
}

static inline void onnx_text_indices(protobuf *out, const char *dims, char **rest) {
  char text[512];
  protobuf *tensor = calloc(1, sizeof *tensor);
  int count = 0;
  for (const char *at = *rest; at && *at; at++) count += *at != ' ' && (at[1] == ' ' || !at[1]);
  if (*dims)
    snprintf(text, sizeof text, "init - i64 %s = %s", dims, *rest);
  else
    snprintf(text, sizeof text, "init - i64 %d = %s", count, *rest);
  char *words = NULL;
  strtok_r(text, " ", &words);
  onnx_text_tensor(tensor, &words);
  pb_message(out, 2, tensor);
  free(tensor);
}

/* SparseTensorProto: the values are a vector of the tensor's name. */
static inline void onnx_text_sparse(protobuf *out, char **rest) {
  char text[512], *words = NULL, *more = NULL, *end = strchr(*rest, '@'), *dims;
  protobuf *values = calloc(1, sizeof *values);
  const char *name = strtok_r(NULL, " ", rest), *dtype = strtok_r(NULL, " ", rest);
  int count = 0;
  dims = strtok_r(NULL, " ", rest);
  strtok_r(NULL, " ", rest); /* = */
  if (end) end[-1] = 0;
  for (const char *at = *rest; *at; at++) count += *at != ' ' && (at[1] == ' ' || !at[1]);
  snprintf(text, sizeof text, "init %s %s %d = %s", name, dtype, count, *rest);
  strtok_r(text, " ", &words);
  onnx_text_tensor(values, &words);
  pb_message(out, 1, values);
  if (end) {
    char *form = strtok_r(end, " ", &more);
    onnx_text_indices(out, form + 1, &more);
  }
  for (char *d = strtok_r(dims, "x", &more); d; d = strtok_r(NULL, "x", &more))
    if (strcmp(d, "scalar")) pb_int(out, 3, strtoll(d, NULL, 10));
  free(values);
}

static inline void onnx_text_attribute(protobuf *node, char *text) {
  protobuf *attribute = calloc(1, sizeof *attribute);
  char *value = strchr(text, '='), *rest = NULL;
  *value++ = 0;
  pb_text(attribute, 1, text);
  if (!strncmp(value, "['", 2)) {
    for (char *n = strtok_r(value + 1, "',]", &rest); n; n = strtok_r(NULL, "',]", &rest))
      pb_data(attribute, 9, n, strlen(n));
    pb_int(attribute, 20, 8);
  } else if (*value == '[' && strchr(value, '.')) {
    for (char *n = strtok_r(value + 1, ",]", &rest); n; n = strtok_r(NULL, ",]", &rest)) {
      pb_varint(attribute, 7 << 3 | 5);
      pb_raw(attribute, &(float){strtof(n, NULL)}, 4);
    }
    pb_int(attribute, 20, 6);
  } else if (*value == '[') {
    for (char *n = strtok_r(value + 1, ",]", &rest); n; n = strtok_r(NULL, ",]", &rest))
      pb_int(attribute, 8, strtoll(n, NULL, 10));
    pb_int(attribute, 20, 7);
  } else if (*value == '\'') {
    pb_data(attribute, 4, value + 1, strlen(value) - 2);
    pb_int(attribute, 20, 3);
  } else if (strchr(value, '.')) {
    pb_varint(attribute, 2 << 3 | 5);
    pb_raw(attribute, &(float){strtof(value, NULL)}, 4);
    pb_int(attribute, 20, 1);
  } else {
    pb_int(attribute, 3, strtoll(value, NULL, 10));
    pb_int(attribute, 20, 2);
  }
  pb_message(node, 5, attribute);
  free(attribute);
}

/* Commas outside brackets and quotes separate attributes. */
static inline void onnx_text_attributes(protobuf *node, char *list) {
  int depth = 0;
  bool quoted = false;
  char *start = list;
  for (char *at = list;; at++) {
    depth += (*at == '[') - (*at == ']');
    if (*at == '\'') quoted = !quoted;
    if (*at && (*at != ',' || depth || quoted)) continue;
    char end = *at;
    *at = 0;
    if (*start) onnx_text_attribute(node, start);
    start = at + 1;
    if (!end) return;
  }
}

static inline void onnx_text_node(protobuf *out, char *first, char **rest) {
  char *attributes = strchr(first, '('), *colon;
  uint32_t field = 1;
  bool named = false;
  if (attributes) {
    *attributes++ = 0;
    attributes[strlen(attributes) - 1] = 0;
    onnx_text_attributes(out, attributes);
  }
  if ((colon = strstr(first, "::"))) { /* domain::Operator */
    *colon = 0;
    pb_text(out, 7, first);
    first = colon + 2;
  }
  pb_text(out, 4, first);
  for (char *word; (word = strtok_r(NULL, " ", rest));) {
    if (!strcmp(word, "->")) {
      field = 2;
      continue;
    }
    pb_text(out, field, strcmp(word, "-") ? word : "");
    if (field == 2 && !named) pb_text(out, 3, word);
    named |= field == 2;
  }
}

/* StringStringEntryProto from a key, `=` and the rest; in a ValueInfoProto of that name, if any. */
static inline void onnx_text_note(protobuf *graph, char **rest) {
  protobuf *entry = calloc(2, sizeof *entry), *value = entry + 1;
  const char *name = strtok_r(NULL, " ", rest);
  pb_text(entry, 1, strtok_r(NULL, " ", rest));
  strtok_r(NULL, " ", rest); /* = */
  pb_text(entry, 2, *rest);
  pb_text(value, 1, name);
  pb_message(value, 4, entry);
  if (strcmp(name, "-"))
    pb_message(graph, 13, value);
  else
    pb_message(graph, 16, entry);
  free(entry);
}

static inline void onnx_text_statement(protobuf *graph, char *statement) {
  protobuf *message = calloc(1, sizeof *message);
  char *rest = NULL, *first = strtok_r(statement, " ", &rest);
  uint32_t field = 1;
  if (!first || !strcmp(first, "note")) {
    if (first) onnx_text_note(graph, &rest);
    free(message);
    return;
  }
  if (!strcmp(first, "init")) {
    field = 5;
    onnx_text_tensor(message, &rest);
  } else if (!strcmp(first, "sparse")) {
    field = 15;
    onnx_text_sparse(message, &rest);
  } else if (!strcmp(first, "in") || !strcmp(first, "out")) {
    field = *first == 'i' ? 11 : 12;
    char *name = strtok_r(NULL, " ", &rest), *dtype = strtok_r(NULL, " ", &rest);
    onnx_text_value(message, name, dtype, dtype ? strtok_r(NULL, " ", &rest) : NULL);
  } else {
    onnx_text_node(message, first, &rest);
  }
  pb_message(graph, field, message);
  free(message);
}

static inline void onnx_text_graph(protobuf *graph, const char *text) {
  char *copy = strdup(text), *rest = NULL;
  for (char *s = strtok_r(copy, ";", &rest); s; s = strtok_r(NULL, ";", &rest))
    onnx_text_statement(graph, s);
  free(copy);
}

static inline void onnx_text_model(protobuf *model, int64_t opset, const char *text) {
  protobuf *parts = calloc(3, sizeof *parts);
  model->count = 0;
  pb_int(model, 1, 8);
  pb_int(&parts[0], 2, opset);
  pb_message(model, 8, &parts[0]);
  pb_text(&parts[2], 1, "com.microsoft");
  pb_int(&parts[2], 2, 1);
  pb_message(model, 8, &parts[2]);
  parts[2].count = 0;
  pb_text(&parts[2], 1, "ai.onnx.ml");
  pb_int(&parts[2], 2, 1);
  pb_message(model, 8, &parts[2]);
  pb_text(&parts[1], 2, "text");
  onnx_text_graph(&parts[1], text);
  pb_message(model, 7, &parts[1]);
  free(parts);
}

#endif
