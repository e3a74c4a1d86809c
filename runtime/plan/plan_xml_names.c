/* Enumerations of plan.xml by the names their tables give them, and the attributes of ops by
 * attrs.def. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_xml_codec.h"

static const char *owner_name(uint32_t i) {
  return wafer_owner_name((wafer_owner)i);
}
static const char *mode_name(uint32_t i) {
  return wafer_mode_name((wafer_mode)i);
}
static const char *dtype_name(uint32_t i) {
  return wafer_dtype_name((wafer_dtype)i);
}
static const char *family_name(uint32_t i) {
  return wafer_family_name((wafer_family)i);
}
static const char *op_name(uint32_t i) {
  return wafer_op_get((wafer_op)i)->name;
}
static const char *bound_name(uint32_t i) {
  return wafer_bound_name((wafer_bound)i);
}
static const char *launch_kind_name(uint32_t i) {
  return wafer_launch_kind_name((wafer_launch_kind)i);
}
static const char *step_name(uint32_t i) {
  return wafer_step_kind_name((wafer_step_kind)i);
}
static const char *value_kind_name(uint32_t i) {
  return wafer_value_kind_name((wafer_value_kind)i);
}
static const char *host_op_name(uint32_t i) {
  return wafer_host_get((wafer_host_op)i)->name;
}
static const char *host_kind_name(uint32_t i) {
  return wafer_host_attr_kind_name((wafer_host_attr_kind)i);
}

static const char *optimizer_name(uint32_t i) {
  return wafer_optimizer_name((wafer_optimizer_kind)i);
}

/* Enumerations are stored as their compiler's unsigned int. */
_Static_assert(sizeof(wafer_value_kind) == 4 && sizeof(wafer_host_op) == 4 &&
                   sizeof(wafer_host_attr_kind) == 4 && sizeof(wafer_owner) == 4 &&
                   sizeof(wafer_mode) == 4 && sizeof(wafer_dtype) == 4 &&
                   sizeof(wafer_family) == 4 && sizeof(wafer_op) == 4 && sizeof(wafer_bound) == 4 &&
                   sizeof(wafer_step_kind) == 4 && sizeof(wafer_launch_kind) == 4 &&
                   sizeof(wafer_optimizer_kind) == 4,
               "an enumeration is 32 bits");

static void print_name(xml_text *out, const xml_field *f, const void *owner,
                       const char *(*name)(uint32_t)) {
  uint32_t i;
  memcpy(&i, (const char *)owner + f->at, sizeof i);
  const char *text = name(i);
  xml_put(out, text, strlen(text));
}

/* Only the names from `first` up to `end` may stand in a file. */
static wafer_status parse_name(const char *text, const xml_field *f, void *owner,
                               const char *(*name)(uint32_t), uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    if (strcmp(text, name(i))) continue;
    memcpy((char *)owner + f->at, &i, sizeof i);
    return WAFER_OK;
  }
  return WAFER_BAD_INPUT;
}

#define CODEC(kind, first, end, expected)                                                          \
  static void print_##kind(xml_text *out, const xml_field *f, const void *owner) {                 \
    print_name(out, f, owner, kind##_name);                                                        \
  }                                                                                                \
  static wafer_status parse_##kind(wafer_arena *arena, const char *text, const xml_field *f,       \
                                   void *owner) {                                                  \
    (void)arena;                                                                                   \
    return parse_name(text, f, owner, kind##_name, first, end);                                    \
  }                                                                                                \
  const xml_codec xml_##kind = {expected, print_##kind, parse_##kind};

CODEC(owner, 0, WAFER_OWNER_gradient + 1, "input, output, weight, state, activation or gradient")
CODEC(mode, WAFER_MODE_pipelined, WAFER_MODE_streaming + 1, "pipelined or streaming")
CODEC(dtype, WAFER_DTYPE_none + 1, WAFER_DTYPE_COUNT, "an element type such as f32")
CODEC(family, 0, WAFER_FAMILY_COUNT, "a kernel family such as conv")
CODEC(op, 0, WAFER_OP_COUNT, "a core op such as add")
CODEC(bound, 0, WAFER_BOUND_edge + 1, "compute, memory, streams or edge")
CODEC(step, 0, WAFER_STEP_COUNT, "load, phase, host, call, if, loop, scan, map or fit")
CODEC(value_kind, 0, WAFER_VALUE_COUNT, "tensor or host")
CODEC(host_op, 0, WAFER_HOST_COUNT, "a host operator such as NonZero")
CODEC(host_kind, 0, WAFER_HOST_ATTR_COUNT, "ints, floats or texts")
CODEC(optimizer, 0, WAFER_OPTIMIZER_COUNT, "an optimizer such as adam")
CODEC(launch_kind, 0, WAFER_LAUNCH_train + 1, "load, action or train")

/* ---- attributes ---- */

/* The shortest digits that read back as the same double. */
void xml_print_float(xml_text *out, double value) {
  char digits[32];
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value) break;
  }
  xml_printf(out, "%s", isnan(value) ? "nan" : digits);
}

static const char *scan_int(const char *s, int64_t *out) {
  char *end;
  if (*s != '-' && (*s < '0' || *s > '9')) return NULL;
  long long value = strtoll(s, &end, 10);
  char again[32];
  int count = snprintf(again, sizeof again, "%lld", value);
  if (end - s != count || memcmp(again, s, (size_t)count)) return NULL; /* overflow, "-", "007" */
  *out = value;
  return end;
}

static const char *scan_float(const char *s, double *out) {
  char *end;
  size_t count = strcspn(s, " ");
  bool named = (count == 3 && (!strncmp(s, "inf", 3) || !strncmp(s, "nan", 3))) ||
               (count == 4 && !strncmp(s, "-inf", 4));
  if (!named && (!count || strspn(s, "0123456789+-.e") < count)) return NULL;
  *out = strtod(s, &end);
  return end == s + count ? end : NULL;
}

static size_t data_bytes(const wafer_type *type, bool splat) {
  return splat ? wafer_dtype_bytes(type->dtype) : wafer_tensor_bytes(type->dtype, &type->shape);
}

static void print_data(xml_text *out, const wafer_attr *attr, const wafer_type *type) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *bytes = attr->data.bytes;
  for (size_t i = 0, n = data_bytes(type, attr->data.splat); i < n; i++)
    xml_put(out, (char[]){digits[bytes[i] >> 4], digits[bytes[i] & 15]}, 2);
}

static wafer_status parse_data(wafer_arena *arena, const char *text, const wafer_type *type,
                               bool splat, wafer_attr *attr) {
  static const char digits[] = "0123456789abcdef";
  size_t count = data_bytes(type, splat);
  if (strlen(text) / 2 != count || strlen(text) % 2) return WAFER_BAD_INPUT;
  unsigned char *bytes = WAFER_NEW(arena, unsigned char, count);
  if (!bytes) return WAFER_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const char *high = strchr(digits, text[2 * i]), *low = strchr(digits, text[2 * i + 1]);
    if (!high || !low) return WAFER_BAD_INPUT;
    bytes[i] = (unsigned char)((high - digits) << 4 | (low - digits));
  }
  attr->data.bytes = bytes;
  attr->data.splat = splat;
  return WAFER_OK;
}

void xml_attr_print(xml_text *out, const wafer_attr *attr, const wafer_type *type) {
  xml_put(out, "", 0);
  switch (wafer_attr_kind_of(attr->id)) {
  case WAFER_ATTR_KIND_int: xml_printf(out, "%lld", (long long)attr->i); break;
  case WAFER_ATTR_KIND_float: xml_print_float(out, attr->f); break;
  case WAFER_ATTR_KIND_string: xml_print_string(out, attr->s); break;
  case WAFER_ATTR_KIND_data: print_data(out, attr, type); break;
  case WAFER_ATTR_KIND_ints:
    for (uint32_t i = 0; i < attr->ints.count; i++)
      xml_printf(out, i ? " %lld" : "%lld", (long long)attr->ints.at[i]);
    break;
  case WAFER_ATTR_KIND_floats:
    for (uint32_t i = 0; i < attr->floats.count; i++) {
      if (i) xml_put(out, " ", 1);
      xml_print_float(out, attr->floats.at[i]);
    }
    break;
  }
}

/* A list separated by single spaces. */
wafer_status xml_parse_list(wafer_arena *arena, const char *text, bool floats, wafer_attr *attr) {
  uint32_t count = 0;
  size_t bound = strlen(text) / 2 + 1;
  int64_t *ints = floats ? NULL : WAFER_NEW(arena, int64_t, bound);
  double *doubles = floats ? WAFER_NEW(arena, double, bound) : NULL;
  if (!ints && !doubles) return WAFER_NO_MEMORY;
  for (const char *s = text; s && *s; count++) {
    s = floats ? scan_float(s, &doubles[count]) : scan_int(s, &ints[count]);
    if (!s || (*s && (*s != ' ' || !s[1]))) return WAFER_BAD_INPUT;
    s += *s == ' ';
  }
  if (floats)
    attr->floats.count = count, attr->floats.at = doubles;
  else
    attr->ints.count = count, attr->ints.at = ints;
  return WAFER_OK;
}

wafer_status xml_attr_parse(wafer_arena *arena, const char *text, const wafer_type *type,
                            bool splat, wafer_attr *attr) {
  const char *end = NULL;
  switch (wafer_attr_kind_of(attr->id)) {
  case WAFER_ATTR_KIND_int: end = scan_int(text, &attr->i); break;
  case WAFER_ATTR_KIND_float: end = scan_float(text, &attr->f); break;
  case WAFER_ATTR_KIND_string: return xml_parse_string(arena, text, &attr->s);
  case WAFER_ATTR_KIND_data: return parse_data(arena, text, type, splat, attr);
  case WAFER_ATTR_KIND_ints: return xml_parse_list(arena, text, false, attr);
  case WAFER_ATTR_KIND_floats: return xml_parse_list(arena, text, true, attr);
  }
  return end && !*end ? WAFER_OK : WAFER_BAD_INPUT;
}

const char *xml_attr_expected(wafer_attr_kind kind) {
  static const char *const expected[] = {
      [WAFER_ATTR_KIND_int] = "an integer",
      [WAFER_ATTR_KIND_float] = "a number",
      [WAFER_ATTR_KIND_ints] = "integers separated by single spaces",
      [WAFER_ATTR_KIND_floats] = "numbers separated by single spaces",
      [WAFER_ATTR_KIND_string] = "text in which \\ is spelt \\\\ or \\xHH",
      [WAFER_ATTR_KIND_data] = "two hexadecimal digits for every byte of the node's type",
  };
  return expected[kind];
}
