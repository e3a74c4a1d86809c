/* Attributes both ways: nn ops' as plain data by the tables of ops.def and attrs.def, and by name.
 */
#include "ir_attrs.h"

/* ---- By name ---- */

static MlirAttribute get(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, ref(name));
}

static void set(MlirOperation op, const char *name, MlirAttribute value) {
  mlirOperationSetAttributeByName(op, ref(name), value);
}

static bool is_i64(MlirAttribute attr) {
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsAInteger(attr)) return false;
  MlirType type = mlirAttributeGetType(attr);
  return mlirTypeIsAInteger(type) && mlirIntegerTypeIsSignless(type) &&
         mlirIntegerTypeGetWidth(type) == 64;
}

bool get_int(MlirOperation op, const char *name, int64_t *value) {
  MlirAttribute attr = get(op, name);
  if (!is_i64(attr)) return false;
  *value = mlirIntegerAttrGetValueInt(attr);
  return true;
}

bool get_u64(MlirOperation op, const char *name, uint64_t *value) {
  int64_t wide;
  if (!get_int(op, name, &wide) || wide < 0) return false;
  *value = (uint64_t)wide;
  return true;
}

bool get_u32(MlirOperation op, const char *name, uint32_t *value) {
  uint64_t wide;
  if (!get_u64(op, name, &wide) || wide > UINT32_MAX) return false;
  *value = (uint32_t)wide;
  return true;
}

bool get_string(MlirOperation op, const char *name, const char **text) {
  MlirAttribute attr = get(op, name);
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsAString(attr)) return false;
  *text = mlirStringAttrGetValue(attr).data;
  return true;
}

bool get_u32s(MlirOperation op, const char *name, uint32_t count, uint32_t *values) {
  MlirAttribute attr = get(op, name);
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsADenseI64Array(attr)) return false;
  if (mlirDenseArrayGetNumElements(attr) != count) return false;
  for (uint32_t i = 0; i < count; i++) {
    int64_t value = mlirDenseI64ArrayGetElement(attr, i);
    if (value < 0 || value > UINT32_MAX) return false;
    values[i] = (uint32_t)value;
  }
  return true;
}

void set_int(MlirOperation op, const char *name, int64_t value) {
  set(op, name, int_attr(mlirOperationGetContext(op), value));
}

void set_string(MlirOperation op, const char *name, const char *text) {
  set(op, name, mlirStringAttrGet(mlirOperationGetContext(op), ref(text)));
}

void set_u32s(MlirOperation op, const char *name, uint32_t count, const uint32_t *values) {
  int64_t wide[count + 1];
  for (uint32_t i = 0; i < count; i++) wide[i] = values[i];
  set(op, name, mlirDenseI64ArrayGet(mlirOperationGetContext(op), count, wide));
}

/* ---- Elements ---- */

/* MLIR may pack booleans into bits, so they go one by one. */
static void unpack_bools(MlirAttribute attr, int64_t count, uint8_t *bytes) {
  for (int64_t i = 0; i < count; i++) bytes[i] = mlirDenseElementsAttrGetBoolValue(attr, i);
}

bool elements_get(wafer_arena *arena, MlirAttribute attr, const wafer_type *type, bool expand,
                  wafer_attr *out) {
  int64_t count;
  if (!wafer_shape_elements(&type->shape, &count)) return false;
  bool splat = count > 0 && mlirDenseElementsAttrIsSplat(attr);
  size_t size = wafer_dtype_bytes(type->dtype);
  int64_t stored = splat ? 1 : count, wanted = splat && expand ? count : stored;
  uint8_t *bytes = wafer_arena_alloc(arena, (size_t)wanted, size);
  if (!bytes) return false;
  if (type->dtype == WAFER_DTYPE_bool)
    unpack_bools(attr, stored, bytes);
  else if (stored)
    memcpy(bytes, mlirDenseElementsAttrGetRawData(attr), (size_t)stored * size);
  for (int64_t i = stored; i < wanted; i++) memcpy(bytes + (size_t)i * size, bytes, size);
  out->data.bytes = bytes;
  out->data.splat = splat && !expand;
  return true;
}

static MlirAttribute bools_attr(MlirType type, int64_t count, const uint8_t *bytes) {
  int values[WAFER_INLINE_BYTES];
  for (int64_t i = 0; i < count; i++) values[i] = bytes[i] != 0;
  if (count == 1) return mlirDenseElementsAttrBoolSplatGet(type, values[0]);
  return mlirDenseElementsAttrBoolGet(type, count, values);
}

MlirAttribute elements_attr(MlirType type, wafer_dtype dtype, int64_t count, const void *bytes) {
  if (count == 0) return mlirDenseElementsAttrGet(type, 0, NULL);
  if (dtype == WAFER_DTYPE_bool) return bools_attr(type, count, bytes);
  return mlirDenseElementsAttrRawBufferGet(type, (size_t)count * wafer_dtype_bytes(dtype), bytes);
}

/* ---- nn attributes as plain data ---- */

static bool is_f64(MlirAttribute attr) {
  return mlirAttributeIsAFloat(attr) && mlirTypeIsAF64(mlirAttributeGetType(attr));
}

/* Readers are false when out of memory; `op` has the result that `data` belongs to. */
typedef bool reader(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to);

static bool read_int(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  (void)arena, (void)op;
  to->i = mlirIntegerAttrGetValueInt(from);
  return true;
}

static bool read_float(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  (void)arena, (void)op;
  to->f = mlirFloatAttrGetValueDouble(from);
  return true;
}

static bool read_ints(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  (void)op;
  intptr_t count = mlirDenseArrayGetNumElements(from);
  int64_t *at = WAFER_NEW(arena, int64_t, (size_t)count);
  for (intptr_t i = 0; at && i < count; i++) at[i] = mlirDenseI64ArrayGetElement(from, i);
  to->ints.count = (uint32_t)count;
  to->ints.at = at;
  return at;
}

static bool read_floats(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  (void)op;
  intptr_t count = mlirDenseArrayGetNumElements(from);
  double *at = WAFER_NEW(arena, double, (size_t)count);
  for (intptr_t i = 0; at && i < count; i++) at[i] = mlirDenseF64ArrayGetElement(from, i);
  to->floats.count = (uint32_t)count;
  to->floats.at = at;
  return at;
}

static bool read_string(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  (void)op;
  MlirStringRef text = mlirStringAttrGetValue(from);
  to->s = wafer_arena_strndup(arena, text.data, text.length);
  return to->s;
}

static bool read_data(wafer_arena *arena, MlirOperation op, MlirAttribute from, wafer_attr *to) {
  wafer_type type = wafer_ir_value_type(mlirOperationGetResult(op, 0));
  return elements_get(arena, from, &type, false, to);
}

static const struct {
  bool (*is)(MlirAttribute attr);
  reader *read;
  const char *what;
} kinds[] = {
    [WAFER_ATTR_KIND_int] = {is_i64, read_int, "an i64"},
    [WAFER_ATTR_KIND_float] = {is_f64, read_float, "an f64"},
    [WAFER_ATTR_KIND_ints] = {mlirAttributeIsADenseI64Array, read_ints, "array<i64>"},
    [WAFER_ATTR_KIND_floats] = {mlirAttributeIsADenseF64Array, read_floats, "array<f64>"},
    [WAFER_ATTR_KIND_string] = {mlirAttributeIsAString, read_string, "a string"},
    [WAFER_ATTR_KIND_data] = {mlirAttributeIsADenseElements, read_data,
                              "dense elements of the result's static type"},
};

/* Elements are of the result's type, and that is one of ours. */
static bool is_of_result(MlirOperation op, MlirAttribute data) {
  wafer_type type;
  MlirType result = mlirValueGetType(mlirOperationGetResult(op, 0));
  return mlirTypeEqual(mlirAttributeGetType(data), result) && wafer_ir_type_get(result, &type);
}

static wafer_status read_attr(const wafer_ctx *ctx, MlirOperation op, wafer_attr *to) {
  const char *name = wafer_attr_name(to->id);
  wafer_attr_kind kind = wafer_attr_kind_of(to->id);
  MlirAttribute from = get(op, name);
  bool fits = !mlirAttributeIsNull(from) && kinds[kind].is(from);
  if (!fits || (kind == WAFER_ATTR_KIND_data && !is_of_result(op, from)))
    return wafer_fail(ctx->diag, wafer_ir_loc_of(op), WAFER_BAD_INPUT,
                      "attribute '%s' of nn.%s must be %s", name,
                      wafer_op_get(wafer_ir_op(op))->name, kinds[kind].what);
  if (kinds[kind].read(ctx->arena, op, from, to)) return WAFER_OK;
  return wafer_fail(ctx->diag, wafer_ir_loc_of(op), WAFER_NO_MEMORY, "no memory for attributes");
}

wafer_status wafer_ir_attrs(const wafer_ctx *ctx, MlirOperation op, wafer_attrs *attrs) {
  const wafer_op_info *info = wafer_op_get(wafer_ir_op(op));
  wafer_attr *at = WAFER_NEW(ctx->arena, wafer_attr, info->attr_count);
  if (!at)
    return wafer_fail(ctx->diag, wafer_ir_loc_of(op), WAFER_NO_MEMORY, "no memory for attributes");
  for (uint32_t i = 0; i < info->attr_count; i++) {
    at[i].id = info->attrs[i];
    WAFER_TRY(read_attr(ctx, op, &at[i]));
  }
  *attrs = (wafer_attrs){.count = info->attr_count, .at = at};
  return WAFER_OK;
}

/* ---- and back ---- */

typedef MlirAttribute writer(MlirContext context, const wafer_attr *from);

static MlirAttribute write_int(MlirContext context, const wafer_attr *from) {
  return int_attr(context, from->i);
}

static MlirAttribute write_float(MlirContext context, const wafer_attr *from) {
  return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), from->f);
}

static MlirAttribute write_ints(MlirContext context, const wafer_attr *from) {
  return mlirDenseI64ArrayGet(context, from->ints.count, from->ints.at);
}

static MlirAttribute write_floats(MlirContext context, const wafer_attr *from) {
  return mlirDenseF64ArrayGet(context, from->floats.count, from->floats.at);
}

static MlirAttribute write_string(MlirContext context, const wafer_attr *from) {
  return mlirStringAttrGet(context, ref(from->s));
}

/* `data` needs the result's type: wafer_build_constant writes it. */
static writer *const writers[] = {
    [WAFER_ATTR_KIND_int] = write_int,       [WAFER_ATTR_KIND_float] = write_float,
    [WAFER_ATTR_KIND_ints] = write_ints,     [WAFER_ATTR_KIND_floats] = write_floats,
    [WAFER_ATTR_KIND_string] = write_string,
};

MlirAttribute attr_write(MlirContext context, const wafer_attr *from) {
  return writers[wafer_attr_kind_of(from->id)](context, from);
}
