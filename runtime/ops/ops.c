/* The registry of core ops, read from ops.def, attrs.def and kernels.def, and typed access to
 * attributes. */
#include "wafer/ops.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

/* ATTRS((a, b)) is WAFER_ATTR_a, WAFER_ATTR_b: one macro per attribute an op may carry. */
#define ATTRS(list) ATTRS_0 list
#define ATTRS_0(...) __VA_OPT__(ATTRS_1(__VA_ARGS__))
#define ATTRS_1(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_2(__VA_ARGS__))
#define ATTRS_2(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_3(__VA_ARGS__))
#define ATTRS_3(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_4(__VA_ARGS__))
#define ATTRS_4(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_5(__VA_ARGS__))
#define ATTRS_5(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_6(__VA_ARGS__))
#define ATTRS_6(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_7(__VA_ARGS__))
#define ATTRS_7(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_8(__VA_ARGS__))
#define ATTRS_8(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_9(__VA_ARGS__))
#define ATTRS_9(id, ...) WAFER_ATTR_##id, __VA_OPT__(ATTRS_10(__VA_ARGS__))
#define ATTRS_10(id) WAFER_ATTR_##id

enum { /* as ops.def spells them */
       MAP = WAFER_TRAIT_MAP,
       COMMUTES = WAFER_TRAIT_COMMUTES,
       VIEW = WAFER_TRAIT_VIEW,
       SOURCE = WAFER_TRAIT_SOURCE,
       PRODUCT = WAFER_TRAIT_PRODUCT,
       WINDOW = WAFER_TRAIT_WINDOW,
       INDEX = WAFER_TRAIT_INDEX
};

static const wafer_op_info ops[WAFER_OP_COUNT] = {
#define OP(id, fewest, many, trait, shape_rule, gradient, anchor, cost, attributes)                \
  [WAFER_OP_##id] = {                                                                              \
      .name = #id,                                                                                 \
      .least = fewest,                                                                             \
      .most = many,                                                                                \
      .traits = trait,                                                                             \
      .family = WAFER_FAMILY_##anchor,                                                             \
      .rate = WAFER_RATE_##cost,                                                                   \
      .attr_count = sizeof((wafer_attr_id[]){0, ATTRS(attributes)}) / sizeof(wafer_attr_id) - 1,   \
      .attrs = {ATTRS(attributes)},                                                                \
  },
#include "wafer/ops.def"
};

static const struct {
  const char *name;
  wafer_attr_kind kind;
} attributes[WAFER_ATTR_COUNT] = {
#define ATTR(id, value_kind) [WAFER_ATTR_##id] = {#id, WAFER_ATTR_KIND_##value_kind},
#include "wafer/attrs.def"
};

static const char *const families[WAFER_FAMILY_COUNT + 1] = {
#define FAMILY(id, ...) [WAFER_FAMILY_##id] = #id,
#include "wafer/kernels.def"
    [WAFER_FAMILY_none] = "none",
};

static const char *const rates[WAFER_RATE_COUNT] = {
#define X(id) [WAFER_RATE_##id] = #id,
    WAFER_RATE_MAP(X)
#undef X
};

/* Open-addressed tables from a name to its number plus one; built once, at most a quarter full. */
#define SLOTS 512
_Static_assert(WAFER_OP_COUNT <= SLOTS / 4 && WAFER_ATTR_COUNT <= SLOTS / 4, "grow SLOTS");

typedef struct name_table {
  struct {
    const char *name;
    uint32_t number_plus_one;
  } slot[SLOTS];
} name_table;

static name_table op_names, attr_names;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static uint32_t hash(const char *name) { /* FNV-1a */
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
  return h;
}

static void enter(name_table *table, const char *name, uint32_t number) {
  uint32_t at = hash(name) % SLOTS;
  while (table->slot[at].name) at = (at + 1) % SLOTS;
  table->slot[at].name = name;
  table->slot[at].number_plus_one = number + 1;
}

static uint32_t look_up(const name_table *table, const char *name, uint32_t none) {
  if (!name || !*name) return none;
  for (uint32_t at = hash(name) % SLOTS; table->slot[at].name; at = (at + 1) % SLOTS)
    if (strcmp(table->slot[at].name, name) == 0) return table->slot[at].number_plus_one - 1;
  return none;
}

static void fill_tables(void) {
  for (uint32_t i = 0; i < WAFER_OP_COUNT; i++) enter(&op_names, ops[i].name, i);
  for (uint32_t i = 0; i < WAFER_ATTR_COUNT; i++) enter(&attr_names, attributes[i].name, i);
}

static const name_table *filled(const name_table *table) {
  pthread_once(&tables_once, fill_tables);
  return table;
}

const wafer_op_info *wafer_op_get(wafer_op op) {
  assert((uint32_t)op < WAFER_OP_COUNT);
  return &ops[op];
}

wafer_op wafer_op_by_name(const char *name) {
  return (wafer_op)look_up(filled(&op_names), name, WAFER_OP_COUNT);
}

const char *wafer_family_name(wafer_family family) {
  assert((uint32_t)family <= WAFER_FAMILY_none);
  return families[family];
}

wafer_family wafer_family_by_name(const char *name) {
  for (uint32_t i = 0; name && i < WAFER_FAMILY_COUNT; i++)
    if (strcmp(families[i], name) == 0) return (wafer_family)i;
  return WAFER_FAMILY_none;
}

const char *wafer_rate_name(wafer_rate rate) {
  assert((uint32_t)rate < WAFER_RATE_COUNT);
  return rates[rate];
}

const char *wafer_attr_name(wafer_attr_id id) {
  assert((uint32_t)id < WAFER_ATTR_COUNT);
  return attributes[id].name;
}

wafer_attr_kind wafer_attr_kind_of(wafer_attr_id id) {
  assert((uint32_t)id < WAFER_ATTR_COUNT);
  return attributes[id].kind;
}

wafer_attr_id wafer_attr_by_name(const char *name) {
  return (wafer_attr_id)look_up(filled(&attr_names), name, WAFER_ATTR_COUNT);
}

const wafer_attr *wafer_attr_find(const wafer_attrs *attrs, wafer_attr_id id) {
  for (uint32_t i = 0; attrs && i < attrs->count; i++)
    if (attrs->at[i].id == id) return &attrs->at[i];
  return NULL;
}

static const wafer_attr *demand(const wafer_attrs *attrs, wafer_attr_id id, wafer_attr_kind kind) {
  const wafer_attr *attr = wafer_attr_find(attrs, id);
  assert(attr && wafer_attr_kind_of(id) == kind);
  (void)kind;
  return attr;
}

int64_t wafer_attr_int(const wafer_attrs *attrs, wafer_attr_id id) {
  return demand(attrs, id, WAFER_ATTR_KIND_int)->i;
}

double wafer_attr_float(const wafer_attrs *attrs, wafer_attr_id id) {
  return demand(attrs, id, WAFER_ATTR_KIND_float)->f;
}

const char *wafer_attr_string(const wafer_attrs *attrs, wafer_attr_id id) {
  return demand(attrs, id, WAFER_ATTR_KIND_string)->s;
}

const int64_t *wafer_attr_ints(const wafer_attrs *attrs, wafer_attr_id id, uint32_t *count) {
  const wafer_attr *attr = demand(attrs, id, WAFER_ATTR_KIND_ints);
  *count = attr->ints.count;
  return attr->ints.at;
}

uint32_t wafer_attr_dims(const wafer_attrs *attrs, wafer_attr_id id) {
  uint32_t count, dims = 0;
  const int64_t *at = wafer_attr_ints(attrs, id, &count);
  for (uint32_t i = 0; i < count; i++) dims |= 1u << at[i];
  return dims;
}

uint32_t wafer_node_shares(const wafer_node *node) {
  bool batched = node->op == WAFER_OP_gather_batched;
  return batched ? (uint32_t)wafer_attr_int(&node->attrs, WAFER_ATTR_axis) : 0;
}

bool wafer_node_reduces(const wafer_node *node, uint32_t d) {
  if (wafer_op_is(node->op, WAFER_TRAIT_INDEX))
    return wafer_attr_int(&node->attrs, WAFER_ATTR_axis) == (int64_t)d;
  return wafer_attr_dims(&node->attrs, WAFER_ATTR_axes) >> d & 1;
}

uint32_t wafer_reduction_keeps(const wafer_attrs *attrs, uint32_t rank) {
  uint32_t axes = wafer_attr_dims(attrs, WAFER_ATTR_axes), kept = 0;
  while (kept < rank && !(axes >> kept & 1)) kept++;
  return kept < rank && axes == ((1u << rank) - 1) >> kept << kept ? kept : 0;
}

const double *wafer_attr_floats(const wafer_attrs *attrs, wafer_attr_id id, uint32_t *count) {
  const wafer_attr *attr = demand(attrs, id, WAFER_ATTR_KIND_floats);
  *count = attr->floats.count;
  return attr->floats.at;
}
