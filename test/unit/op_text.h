/* Op cases as text: "2x3xf32" is a type, "axis=1 pads=0,1 mode=edge" a list of attributes. */
#ifndef OP_TEXT_H
#define OP_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "wafer/ops.h"

static inline wafer_type op_text_type(const char *text) {
  wafer_type type = {0};
  char *end;
  while (*text == '-' || (*text >= '0' && *text <= '9')) {
    type.shape.dims[type.shape.rank++ % WAFER_MAX_RANK] = strtoll(text, &end, 10);
    text = end + 1;
  }
  type.dtype = wafer_dtype_by_name(text);
  return type;
}

/* Types separated by blanks; how many. */
static inline uint32_t op_text_types(const char *text, wafer_type *types, uint32_t most) {
  char copy[512], *rest = copy, *word;
  uint32_t count = 0;
  snprintf(copy, sizeof copy, "%s", text);
  while ((word = strtok_r(rest, " ", &rest)) && count < most) types[count++] = op_text_type(word);
  return count;
}

typedef struct op_text_attrs {
  wafer_attrs attrs;
  wafer_attr list[16];
  int64_t ints[16][32];
  double floats[16][32];
  char text[512];
} op_text_attrs;

static inline void op_text_value(op_text_attrs *out, uint32_t i, char *value) {
  wafer_attr *attr = &out->list[i];
  uint32_t n = 0;
  char *rest = value, *word;
  switch (wafer_attr_kind_of(attr->id)) {
  case WAFER_ATTR_KIND_int: attr->i = strtoll(value, NULL, 10); break;
  case WAFER_ATTR_KIND_float: attr->f = strtod(value, NULL); break;
  case WAFER_ATTR_KIND_string: attr->s = value; break;
  case WAFER_ATTR_KIND_ints:
    while ((word = strtok_r(rest, ",", &rest)) && n < 32)
      out->ints[i][n++] = strtoll(word, NULL, 10);
    attr->ints.count = n, attr->ints.at = out->ints[i];
    break;
  case WAFER_ATTR_KIND_floats:
    while ((word = strtok_r(rest, ",", &rest)) && n < 32) out->floats[i][n++] = strtod(word, NULL);
    attr->floats.count = n, attr->floats.at = out->floats[i];
    break;
  case WAFER_ATTR_KIND_data: break;
  }
}

/* `out` must stay in place while its attrs are used. Words without a known name are left out. */
static inline const wafer_attrs *op_text_parse(op_text_attrs *out, const char *text) {
  char *rest = out->text, *word;
  memset(out, 0, sizeof *out);
  snprintf(out->text, sizeof out->text, "%s", text);
  while ((word = strtok_r(rest, " ", &rest))) {
    char *value = strchr(word, '=');
    if (!value || out->attrs.count == 16) continue;
    *value = 0;
    wafer_attr_id id = wafer_attr_by_name(word);
    if (id == WAFER_ATTR_COUNT) continue;
    out->list[out->attrs.count].id = id;
    op_text_value(out, out->attrs.count++, value + 1);
  }
  out->attrs.at = out->list;
  return &out->attrs;
}

#endif
