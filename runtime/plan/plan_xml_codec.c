/* The spellings of plan.xml. Numbers are plain decimals, lists are separated by spaces. */
#include "plan_xml_codec.h"

#include <stdlib.h>
#include <string.h>

static const void *member(const xml_field *f, const void *owner) {
  return (const char *)owner + f->at;
}
static void *place(const xml_field *f, void *owner) {
  return (char *)owner + f->at;
}
static uint32_t count_of(const xml_field *f, const void *owner) {
  uint32_t count;
  memcpy(&count, (const char *)owner + f->count, sizeof count);
  return count;
}
static void set_count(const xml_field *f, void *owner, uint32_t count) {
  memcpy((char *)owner + f->count, &count, sizeof count);
}

/* ---- scanning: each returns the character after what it read, NULL when it is not there ---- */

static const char *scan_u64(const char *s, uint64_t most, uint64_t *out) {
  uint64_t value = 0;
  if (!s || *s < '0' || *s > '9') return NULL;
  for (; *s >= '0' && *s <= '9'; s++) {
    uint64_t digit = (uint64_t)(*s - '0');
    if (value > (most - digit) / 10) return NULL;
    value = value * 10 + digit;
  }
  *out = value;
  return s;
}

static const char *scan_u32(const char *s, uint32_t *out) {
  uint64_t value;
  s = scan_u64(s, UINT32_MAX, &value);
  if (s) *out = (uint32_t)value;
  return s;
}

static const char *skip_spaces(const char *s) {
  while (s && *s == ' ') s++;
  return s;
}

static const char *scan_word(const char *s, const char *word) {
  size_t count = strlen(word);
  return s && !strncmp(s, word, count) && (s[count] == ' ' || !s[count]) ? skip_spaces(s + count)
                                                                         : NULL;
}

static wafer_status ended(const char *s) {
  return s && !*s ? WAFER_OK : WAFER_BAD_INPUT;
}

/* Upper bound of the entries of a list: an entry and its separator take two characters. */
static size_t list_bound(const char *s) {
  return strlen(s) / 2 + 1;
}

/* Up to `most` numbers while there are digits; the rest of the text stands after them. */
static const char *scan_numbers(const char *s, uint32_t most, uint32_t *out, uint32_t *count) {
  s = skip_spaces(s);
  for (*count = 0; s && *s >= '0' && *s <= '9'; s = skip_spaces(s)) {
    if (*count == most) return NULL;
    s = scan_u32(s, &out[(*count)++]);
  }
  return s;
}

static void print_numbers(xml_text *out, const uint32_t *at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) xml_printf(out, i ? " %u" : "%u", at[i]);
}

/* ---- constants, strings, numbers ---- */

static void print_format(xml_text *out, const xml_field *f, const void *owner) {
  (void)f, (void)owner;
  xml_put(out, PLAN_XML_FORMAT, strlen(PLAN_XML_FORMAT));
}
static wafer_status parse_format(wafer_arena *arena, const char *text, const xml_field *f,
                                 void *owner) {
  (void)arena, (void)f, (void)owner;
  return strcmp(text, PLAN_XML_FORMAT) ? WAFER_BAD_INPUT : WAFER_OK;
}
const xml_codec xml_format = {"format " PLAN_XML_FORMAT ", the one this version reads",
                              print_format, parse_format};

static void print_string(xml_text *out, const xml_field *f, const void *owner) {
  const char *text;
  memcpy(&text, member(f, owner), sizeof text);
  xml_print_string(out, text ? text : "");
}
static wafer_status parse_string(wafer_arena *arena, const char *text, const xml_field *f,
                                 void *owner) {
  const char *copy;
  WAFER_TRY(xml_parse_string(arena, text, &copy));
  memcpy(place(f, owner), &copy, sizeof copy);
  return WAFER_OK;
}
const xml_codec xml_string = {"text in which \\ is spelt \\\\ or \\xHH", print_string,
                              parse_string};

static void print_u32(xml_text *out, const xml_field *f, const void *owner) {
  xml_printf(out, "%u", *(const uint32_t *)member(f, owner));
}
static wafer_status parse_u32(wafer_arena *arena, const char *text, const xml_field *f,
                              void *owner) {
  (void)arena;
  return ended(scan_u32(text, place(f, owner)));
}
const xml_codec xml_u32 = {"a number from 0 to 4294967295", print_u32, parse_u32};

static void print_u64(xml_text *out, const xml_field *f, const void *owner) {
  xml_printf(out, "%llu", (unsigned long long)*(const uint64_t *)member(f, owner));
}
static wafer_status parse_u64(wafer_arena *arena, const char *text, const xml_field *f,
                              void *owner) {
  (void)arena;
  return ended(scan_u64(text, UINT64_MAX, place(f, owner)));
}
const xml_codec xml_u64 = {"a number from 0 to 18446744073709551615", print_u64, parse_u64};

static void print_index(xml_text *out, const xml_field *f, const void *owner) {
  if (*(const uint32_t *)member(f, owner) == WAFER_NONE)
    xml_put(out, "none", 4);
  else
    print_u32(out, f, owner);
}
static wafer_status parse_index(wafer_arena *arena, const char *text, const xml_field *f,
                                void *owner) {
  uint32_t *at = place(f, owner);
  if (!strcmp(text, "none")) {
    *at = WAFER_NONE;
    return WAFER_OK;
  }
  WAFER_TRY(parse_u32(arena, text, f, owner));
  return *at == WAFER_NONE ? WAFER_BAD_INPUT : WAFER_OK;
}
const xml_codec xml_index = {"an index from 0 to 4294967294 or none", print_index, parse_index};

static void print_flag(xml_text *out, const xml_field *f, const void *owner) {
  if (*(const bool *)member(f, owner))
    xml_put(out, "true", 4);
  else
    xml_put(out, "false", 5);
}
static wafer_status parse_flag(wafer_arena *arena, const char *text, const xml_field *f,
                               void *owner) {
  (void)arena;
  *(bool *)place(f, owner) = !strcmp(text, "true");
  return !strcmp(text, "true") || !strcmp(text, "false") ? WAFER_OK : WAFER_BAD_INPUT;
}
const xml_codec xml_flag = {"true or false", print_flag, parse_flag};

static void print_hex64(xml_text *out, const xml_field *f, const void *owner) {
  xml_printf(out, "%016llx", (unsigned long long)*(const uint64_t *)member(f, owner));
}
static wafer_status parse_hex64(wafer_arena *arena, const char *text, const xml_field *f,
                                void *owner) {
  (void)arena;
  if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return WAFER_BAD_INPUT;
  *(uint64_t *)place(f, owner) = strtoull(text, NULL, 16);
  return WAFER_OK;
}
const xml_codec xml_hex64 = {"16 hexadecimal digits", print_hex64, parse_hex64};

/* ---- lists ---- */

static void print_u32s(xml_text *out, const xml_field *f, const void *owner) {
  const uint32_t *at;
  memcpy(&at, member(f, owner), sizeof at);
  print_numbers(out, at, count_of(f, owner));
}
static wafer_status parse_u32s(wafer_arena *arena, const char *text, const xml_field *f,
                               void *owner) {
  size_t bound = list_bound(text);
  uint32_t count, *at = WAFER_NEW(arena, uint32_t, bound);
  if (!at) return WAFER_NO_MEMORY;
  WAFER_TRY(ended(scan_numbers(text, (uint32_t)bound, at, &count)));
  memcpy(place(f, owner), &at, sizeof at);
  set_count(f, owner, count);
  return WAFER_OK;
}
const xml_codec xml_u32s = {"numbers from 0 to 4294967295 separated by spaces", print_u32s,
                            parse_u32s};

static void print_u64s(xml_text *out, const xml_field *f, const void *owner) {
  const uint64_t *at;
  memcpy(&at, member(f, owner), sizeof at);
  for (uint32_t i = 0; i < count_of(f, owner); i++)
    xml_printf(out, i ? " %llu" : "%llu", (unsigned long long)at[i]);
}
static wafer_status parse_u64s(wafer_arena *arena, const char *text, const xml_field *f,
                               void *owner) {
  uint64_t *at = WAFER_NEW(arena, uint64_t, list_bound(text));
  uint32_t count = 0;
  if (!at) return WAFER_NO_MEMORY;
  const char *s = skip_spaces(text);
  while (s && *s >= '0' && *s <= '9') s = skip_spaces(scan_u64(s, UINT64_MAX, &at[count++]));
  memcpy(place(f, owner), &at, sizeof at);
  set_count(f, owner, count);
  return ended(s);
}
const xml_codec xml_u64s = {"numbers from 0 to 18446744073709551615 separated by spaces",
                            print_u64s, parse_u64s};

static void print_indexes(xml_text *out, const xml_field *f, const void *owner) {
  const uint32_t *at;
  memcpy(&at, member(f, owner), sizeof at);
  for (uint32_t i = 0, count = count_of(f, owner); i < count; i++)
    xml_printf(out, at[i] == WAFER_NONE ? "%snone" : "%s%u", i ? " " : "", at[i]);
}
static wafer_status parse_indexes(wafer_arena *arena, const char *text, const xml_field *f,
                                  void *owner) {
  uint32_t count = 0, *at = WAFER_NEW(arena, uint32_t, list_bound(text));
  if (!at) return WAFER_NO_MEMORY;
  for (const char *s = skip_spaces(text); *s; count++) {
    const char *after = scan_word(s, "none");
    at[count] = WAFER_NONE;
    if (!after) {
      after = skip_spaces(scan_u32(s, &at[count]));
      if (!after || at[count] == WAFER_NONE) return WAFER_BAD_INPUT;
    }
    s = after;
  }
  memcpy(place(f, owner), &at, sizeof at);
  set_count(f, owner, count);
  return WAFER_OK;
}
const xml_codec xml_indexes = {"indexes or none, separated by spaces", print_indexes,
                               parse_indexes};

static void print_plain(xml_text *out, const xml_field *f, const void *owner) {
  const char *text;
  memcpy(&text, member(f, owner), sizeof text);
  xml_put(out, text, strlen(text));
}
static wafer_status parse_plain(wafer_arena *arena, const char *text, const xml_field *f,
                                void *owner) {
  char *copy = wafer_arena_strdup(arena, text);
  if (!copy) return WAFER_NO_MEMORY;
  memcpy(place(f, owner), &copy, sizeof copy);
  return WAFER_OK;
}
const xml_codec xml_plain = {"text", print_plain, parse_plain};

static void print_operands(xml_text *out, const xml_field *f, const void *owner) {
  print_numbers(out, member(f, owner), count_of(f, owner));
}
static wafer_status parse_operands(wafer_arena *arena, const char *text, const xml_field *f,
                                   void *owner) {
  (void)arena;
  uint32_t count;
  WAFER_TRY(ended(scan_numbers(text, WAFER_OP_MAX_OPERANDS, place(f, owner), &count)));
  set_count(f, owner, count);
  return WAFER_OK;
}
const xml_codec xml_operands = {"at most 8 value numbers separated by spaces", print_operands,
                                parse_operands};

static void print_trimmed(xml_text *out, const uint32_t *at, uint32_t count) {
  while (count && at[count - 1] == 1) count--;
  print_numbers(out, at, count);
}
/* Fills `at` up to `length` with ones. */
static const char *scan_parts(const char *s, uint32_t length, uint32_t *at) {
  uint32_t count;
  s = scan_numbers(s, length, at, &count);
  for (uint32_t i = count; s && i < length; i++) at[i] = 1;
  return s;
}

static void print_parts(xml_text *out, const xml_field *f, const void *owner) {
  print_trimmed(out, member(f, owner), (uint32_t)f->count);
}
static wafer_status parse_parts(wafer_arena *arena, const char *text, const xml_field *f,
                                void *owner) {
  (void)arena;
  return ended(scan_parts(text, (uint32_t)f->count, place(f, owner)));
}
const xml_codec xml_parts = {"at most 12 numbers of parts separated by spaces", print_parts,
                             parse_parts};

/* ---- types and places ---- */

static void print_type(xml_text *out, const xml_field *f, const void *owner) {
  const wafer_type *type = member(f, owner);
  for (uint32_t d = 0; d < type->shape.rank; d++)
    xml_printf(out, "%lldx", (long long)type->shape.dims[d]);
  xml_printf(out, "%s", wafer_dtype_name(type->dtype));
}
static wafer_status parse_type(wafer_arena *arena, const char *text, const xml_field *f,
                               void *owner) {
  (void)arena;
  wafer_type type = {0};
  const char *s = text;
  while (*s >= '0' && *s <= '9') {
    uint64_t dim;
    if (type.shape.rank == WAFER_MAX_RANK) return WAFER_BAD_INPUT;
    s = scan_u64(s, INT64_MAX, &dim);
    if (!s || *s++ != 'x') return WAFER_BAD_INPUT;
    type.shape.dims[type.shape.rank++] = (int64_t)dim;
  }
  int64_t elements;
  type.dtype = wafer_dtype_by_name(s);
  if (type.dtype == WAFER_DTYPE_none || !wafer_shape_elements(&type.shape, &elements))
    return WAFER_BAD_INPUT;
  *(wafer_type *)place(f, owner) = type;
  return WAFER_OK;
}
const xml_codec xml_type = {"a type such as 1x3x48x320xf32, of rank 8 at most", print_type,
                            parse_type};

static wafer_status parse_value_type(wafer_arena *arena, const char *text, const xml_field *f,
                                     void *owner) {
  if (strcmp(text, "none")) return parse_type(arena, text, f, owner);
  *(wafer_type *)place(f, owner) = (wafer_type){0};
  return WAFER_OK;
}
const xml_codec xml_value_type = {"a type such as 1x3x48x320xf32, of rank 8 at most", print_type,
                                  parse_value_type};

static const char *scan_rect(const char *s, wafer_rect *rect) {
  uint32_t at[4];
  for (int i = 0; i < 4; i++) s = skip_spaces(scan_u32(s, &at[i]));
  if (s) *rect = (wafer_rect){at[0], at[1], at[2], at[3]};
  return s;
}
static void put_rect(xml_text *out, const wafer_rect *r) {
  xml_printf(out, "%u %u %u %u", r->x, r->y, r->width, r->height);
}
static void print_rect(xml_text *out, const xml_field *f, const void *owner) {
  put_rect(out, member(f, owner));
}
static wafer_status parse_rect(wafer_arena *arena, const char *text, const xml_field *f,
                               void *owner) {
  (void)arena;
  return ended(scan_rect(text, place(f, owner)));
}
const xml_codec xml_rect = {"x y width height", print_rect, parse_rect};

/* PARTS, or PARTS@STRIDE where the next part is not on the next core. */
static void print_cuts(xml_text *out, const uint32_t *parts, const uint32_t *stride,
                       uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++) {
    xml_printf(out, d ? " %u" : "%u", parts[d]);
    if (parts[d] > 1 && stride[d] != 1) xml_printf(out, "@%u", stride[d]);
  }
}
static const char *scan_cuts(const char *s, uint32_t *parts, uint32_t *stride, uint32_t *rank) {
  *rank = 0;
  for (s = skip_spaces(s); s && *s >= '0' && *s <= '9'; s = skip_spaces(s)) {
    if (*rank == WAFER_MAX_RANK) return NULL;
    s = scan_u32(s, &parts[*rank]);
    if (s && *s == '@') s = scan_u32(s + 1, &stride[*rank]);
    ++*rank;
  }
  return s;
}

static bool is_dealt(const wafer_layout *layout) {
  bool any = false;
  for (uint32_t d = 0; d < layout->rank; d++) any |= layout->order[d] != 0;
  return any;
}

static void print_holding(xml_text *out, const xml_field *f, const void *owner) {
  const wafer_holding *h = member(f, owner);
  xml_printf(out, "%s", wafer_where_name(h->where));
  if (h->where != WAFER_AT_wafer) return;
  xml_put(out, " ", 1);
  put_rect(out, &h->rect);
  xml_put(out, " rows ", 6);
  print_cuts(out, h->layout.rows, h->layout.row_stride, h->layout.rank);
  xml_put(out, " cols ", 6);
  print_cuts(out, h->layout.cols, h->layout.col_stride, h->layout.rank);
  if (is_dealt(&h->layout)) xml_put(out, " orders", 7);
  for (uint32_t d = 0; is_dealt(&h->layout) && d < h->layout.rank; d++)
    xml_printf(out, " %u", h->layout.order[d]);
}
static wafer_status parse_holding(wafer_arena *arena, const char *text, const xml_field *f,
                                  void *owner) {
  (void)arena;
  wafer_holding h = {.where = WAFER_AT_wafer};
  uint32_t cols = 0;
  if (!strcmp(text, wafer_where_name(WAFER_AT_edge))) {
    h.where = WAFER_AT_edge;
  } else if (!strcmp(text, wafer_where_name(WAFER_AT_memoryx))) {
    h.where = WAFER_AT_memoryx;
  } else {
    for (int i = 0; i < WAFER_MAX_RANK; i++)
      h.layout.rows[i] = h.layout.cols[i] = h.layout.row_stride[i] = h.layout.col_stride[i] = 1;
    const char *s = scan_rect(scan_word(text, wafer_where_name(WAFER_AT_wafer)), &h.rect);
    s = scan_cuts(scan_word(s, "rows"), h.layout.rows, h.layout.row_stride, &h.layout.rank);
    s = scan_cuts(scan_word(s, "cols"), h.layout.cols, h.layout.col_stride, &cols);
    if (s && *s == 'o') {
      s = scan_word(s, "orders");
      for (uint32_t d = 0; s && d < h.layout.rank; d++)
        s = skip_spaces(scan_u32(skip_spaces(s), &h.layout.order[d]));
    }
    WAFER_TRY(ended(s));
    if (cols != h.layout.rank) return WAFER_BAD_INPUT;
  }
  *(wafer_holding *)place(f, owner) = h;
  return WAFER_OK;
}
const xml_codec xml_holding = {
    "edge, memoryx, or wafer X Y WIDTH HEIGHT rows PARTS[@STRIDE]... cols PARTS[@STRIDE]... "
    "[orders ORDER...]",
    print_holding, parse_holding};

static void print_route(xml_text *out, const xml_field *f, const void *owner) {
  const wafer_route_segment *at;
  memcpy(&at, member(f, owner), sizeof at);
  for (uint32_t i = 0, n = count_of(f, owner); i < n; i++)
    xml_printf(out, "%s%u %u %u %u", i ? ", " : "", at[i].x0, at[i].y0, at[i].x1, at[i].y1);
}
static wafer_status parse_route(wafer_arena *arena, const char *text, const xml_field *f,
                                void *owner) {
  uint32_t count = 0;
  wafer_route_segment *at = WAFER_NEW(arena, wafer_route_segment, strlen(text) / 8 + 1);
  if (!at) return WAFER_NO_MEMORY;
  for (const char *s = text; *s; count++) {
    wafer_rect four;
    s = scan_rect(count ? skip_spaces(s + 1) : s, &four);
    if (!s || (*s && *s != ',')) return WAFER_BAD_INPUT;
    at[count] = (wafer_route_segment){four.x, four.y, four.width, four.height};
  }
  memcpy(place(f, owner), &at, sizeof at);
  set_count(f, owner, count);
  return WAFER_OK;
}
const xml_codec xml_route = {"segments x0 y0 x1 y1 separated by commas", print_route, parse_route};

static void print_actions(xml_text *out, const xml_field *f, const void *owner) {
  const wafer_action *at;
  memcpy(&at, member(f, owner), sizeof at);
  for (uint32_t i = 0, n = count_of(f, owner); i < n; i++)
    xml_printf(out, "%s%c%u", i ? " " : "", at[i].kind == WAFER_ACTION_stream ? 's' : 'k',
               at[i].index);
}
static wafer_status parse_actions(wafer_arena *arena, const char *text, const xml_field *f,
                                  void *owner) {
  uint32_t count = 0;
  wafer_action *at = WAFER_NEW(arena, wafer_action, list_bound(text));
  if (!at) return WAFER_NO_MEMORY;
  for (const char *s = skip_spaces(text); *s; count++) {
    if (*s != 's' && *s != 'k') return WAFER_BAD_INPUT;
    at[count].kind = *s == 's' ? WAFER_ACTION_stream : WAFER_ACTION_kernel;
    s = scan_u32(s + 1, &at[count].index);
    if (!s || (*s && *s != ' ')) return WAFER_BAD_INPUT;
    s = skip_spaces(s);
  }
  memcpy(place(f, owner), &at, sizeof at);
  set_count(f, owner, count);
  return WAFER_OK;
}
const xml_codec xml_actions = {"streams sN and kernels kN separated by spaces", print_actions,
                               parse_actions};
