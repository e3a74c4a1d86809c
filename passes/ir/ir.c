/* The context of one compilation, types, locations and op identities. */
#include "wafer/ir.h"

#include <assert.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/IRDL.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir_names.h"
#include "wafer/program.h"

static const char nn_text[] = {
#include "nn.irdl.mlir.inc"
};
static const char wafer_text[] = {
#include "wafer.irdl.mlir.inc"
};

/* ---- Types ---- */

/* MLIR's float types, of which dtypes.def names those that we have. */
static const struct {
  const char *name;
  MlirType (*get)(MlirContext context);
  bool (*is)(MlirType type);
} floats[] = {
    {"f32", mlirF32TypeGet, mlirTypeIsAF32},
    {"f64", mlirF64TypeGet, mlirTypeIsAF64},
    {"f16", mlirF16TypeGet, mlirTypeIsAF16},
    {"bf16", mlirBF16TypeGet, mlirTypeIsABF16},
    {"f8E4M3FN", mlirFloat8E4M3FNTypeGet, mlirTypeIsAFloat8E4M3FN},
    {"f8E4M3FNUZ", mlirFloat8E4M3FNUZTypeGet, mlirTypeIsAFloat8E4M3FNUZ},
    {"f8E5M2", mlirFloat8E5M2TypeGet, mlirTypeIsAFloat8E5M2},
    {"f8E5M2FNUZ", mlirFloat8E5M2FNUZTypeGet, mlirTypeIsAFloat8E5M2FNUZ},
    {"f4E2M1FN", mlirFloat4E2M1FNTypeGet, mlirTypeIsAFloat4E2M1FN},
    {"f8E8M0FNU", mlirFloat8E8M0FNUTypeGet, mlirTypeIsAFloat8E8M0FNU},
};

static MlirType float_type(MlirContext context, const char *name) {
  for (size_t i = 0; i < WAFER_COUNT(floats); i++)
    if (!strcmp(name, floats[i].name)) return floats[i].get(context);
  return (MlirType){NULL};
}

/* `name` is the mlir column of dtypes.def. */
static MlirType element_type(MlirContext context, const char *name) {
  if (name[0] == 'i') return mlirIntegerTypeGet(context, (unsigned)atoi(name + 1));
  if (!strncmp(name, "ui", 2)) return mlirIntegerTypeUnsignedGet(context, (unsigned)atoi(name + 2));
  return float_type(context, name);
}

static wafer_dtype dtype_by_mlir(const char *name) {
  for (int d = WAFER_DTYPE_none + 1; d < WAFER_DTYPE_COUNT; d++)
    if (!strcmp(wafer_dtype_mlir((wafer_dtype)d), name)) return (wafer_dtype)d;
  return WAFER_DTYPE_none;
}

static wafer_dtype element_dtype(MlirType type) {
  for (size_t i = 0; i < WAFER_COUNT(floats); i++)
    if (floats[i].is(type)) return dtype_by_mlir(floats[i].name);
  if (!mlirTypeIsAInteger(type) || mlirIntegerTypeIsSigned(type)) return WAFER_DTYPE_none;
  char name[16];
  snprintf(name, sizeof name, "%s%u", mlirIntegerTypeIsUnsigned(type) ? "ui" : "i",
           mlirIntegerTypeGetWidth(type));
  return dtype_by_mlir(name);
}

MlirType wafer_ir_type(MlirContext context, const wafer_type *type) {
  MlirType element = element_type(context, wafer_dtype_mlir(type->dtype));
  if (mlirTypeIsNull(element)) return element;
  return mlirRankedTensorTypeGet(type->shape.rank, type->shape.dims, element,
                                 mlirAttributeGetNull());
}

bool wafer_ir_type_get(MlirType type, wafer_type *out) {
  if (!mlirTypeIsARankedTensor(type)) return false;
  *out = (wafer_type){.dtype = element_dtype(mlirShapedTypeGetElementType(type))};
  int64_t rank = mlirShapedTypeGetRank(type);
  if (out->dtype == WAFER_DTYPE_none || rank > WAFER_MAX_RANK) return false;
  out->shape.rank = (uint32_t)rank;
  for (int64_t d = 0; d < rank; d++) {
    if (mlirShapedTypeIsDynamicDim(type, d)) return false;
    out->shape.dims[d] = mlirShapedTypeGetDimSize(type, d);
  }
  int64_t elements;
  return wafer_shape_elements(&out->shape, &elements);
}

wafer_type wafer_ir_value_type(MlirValue value) {
  wafer_type type;
  bool is_static = wafer_ir_type_get(mlirValueGetType(value), &type);
  assert(is_static && "pass `shape` has not run");
  (void)is_static;
  return type;
}

/* ---- Locations ---- */

/* A node's index is kept as the line after it, so that line 0 says "unknown". */
MlirLocation wafer_ir_location(const wafer_ir *ir, const char *node, int64_t index) {
  MlirLocation place =
      mlirLocationFileLineColGet(ir->context, ref(ir->file), (unsigned)(index + 1), 0);
  return node && *node ? mlirLocationNameGet(ir->context, ref(node), place) : place;
}

static MlirLocation first_location(MlirLocation location) {
  while (mlirLocationIsAFused(location) && mlirLocationFusedGetNumLocations(location) == 1)
    mlirLocationFusedGetLocations(location, &location);
  return location;
}

static const char *identifier_text(MlirIdentifier id) {
  return mlirIdentifierStr(id).data;
}

static wafer_loc place_of(const char *file, MlirLocation location) {
  location = first_location(location);
  if (mlirLocationIsAName(location)) {
    const char *node = identifier_text(mlirLocationNameGetName(location));
    MlirLocation child = mlirLocationNameGetChildLoc(location);
    if (!mlirLocationIsAFileLineColRange(child)) return wafer_at_node(file, node, -1);
    const char *in = identifier_text(mlirLocationFileLineColRangeGetFilename(child));
    return wafer_at_node(in, node, (int64_t)mlirLocationFileLineColRangeGetStartLine(child) - 1);
  }
  if (!mlirLocationIsAFileLineColRange(location)) return wafer_at_file(file);
  return wafer_at_line(identifier_text(mlirLocationFileLineColRangeGetFilename(location)),
                       (uint32_t)mlirLocationFileLineColRangeGetStartLine(location),
                       (uint32_t)mlirLocationFileLineColRangeGetStartColumn(location));
}

wafer_loc wafer_ir_loc(const wafer_ir *ir, MlirOperation op) {
  return place_of(ir->file, mlirOperationGetLocation(op));
}

wafer_loc wafer_ir_loc_of(MlirOperation op) {
  return place_of(NULL, mlirOperationGetLocation(op));
}

const char *wafer_ir_node_name(MlirOperation op) {
  MlirLocation location = first_location(mlirOperationGetLocation(op));
  return mlirLocationIsAName(location) ? identifier_text(mlirLocationNameGetName(location)) : "";
}

/* ---- Op identities ---- */

/* Open addressing over the ops' names; filled once, read-only after. */
#define SLOTS 256
static uint8_t slots[SLOTS]; /* op + 1; 0: empty */
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static uint32_t slot_of(const char *name, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
  return (hash ^ hash >> 15) % SLOTS;
}

static const char *const op_names[WAFER_OP_COUNT] = {
#define OP(name, ...) #name,
#include "wafer/ops.def"
};
_Static_assert(WAFER_OP_COUNT < SLOTS / 2, "the table of op names is too full");

static void fill_slots(void) {
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++) {
    uint32_t slot = slot_of(op_names[op], strlen(op_names[op]));
    while (slots[slot]) slot = (slot + 1) % SLOTS;
    slots[slot] = (uint8_t)(op + 1);
  }
}

wafer_op wafer_ir_op(MlirOperation op) {
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
  if (name.length < 4 || memcmp(name.data, "nn.", 3)) return WAFER_OP_COUNT;
  pthread_once(&slots_once, fill_slots);
  uint32_t slot = slot_of(name.data + 3, name.length - 3);
  for (; slots[slot]; slot = (slot + 1) % SLOTS)
    if (!strcmp(op_names[slots[slot] - 1], name.data + 3)) return (wafer_op)(slots[slot] - 1);
  return WAFER_OP_COUNT;
}

/* ---- The context ---- */

typedef struct text {
  wafer_arena *arena;
  char *at;
  size_t bytes, room;
  bool failed;
} text;

static void text_add(MlirStringRef part, void *self) {
  text *t = self;
  if (t->failed) return;
  if (t->bytes + part.length + 1 > t->room) {
    size_t room = 2 * (t->bytes + part.length + 1);
    char *grown = WAFER_NEW(t->arena, char, room);
    if (!grown) {
      t->failed = true;
      return;
    }
    if (t->bytes) memcpy(grown, t->at, t->bytes);
    t->at = grown;
    t->room = room;
  }
  memcpy(t->at + t->bytes, part.data, part.length);
  t->bytes += part.length;
  t->at[t->bytes] = 0;
}

static MlirLogicalResult forward(MlirDiagnostic diagnostic, void *self) {
  const wafer_ir *ir = self;
  text message = {.arena = ir->arena};
  mlirDiagnosticPrint(diagnostic, text_add, &message);
  wafer_loc loc = place_of(ir->file, mlirDiagnosticGetLocation(diagnostic));
  const char *said = message.failed || !message.at ? "" : message.at;
  switch (mlirDiagnosticGetSeverity(diagnostic)) {
  case MlirDiagnosticError: (void)wafer_fail(ir->diag, loc, WAFER_BAD_INPUT, "%s", said); break;
  case MlirDiagnosticWarning: wafer_warn(ir->diag, loc, "%s", said); break;
  default: wafer_note(ir->diag, loc, "%s", said); break;
  }
  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); i++)
    forward(mlirDiagnosticGetNote(diagnostic, i), self);
  return mlirLogicalResultSuccess();
}

static wafer_status load_dialect(wafer_ir *ir, const char *irdl) {
  MlirModule module = mlirModuleCreateParse(ir->context, ref(irdl));
  bool loaded =
      !mlirModuleIsNull(module) && mlirLogicalResultIsSuccess(mlirLoadIRDLDialects(module));
  if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
  if (loaded) return WAFER_OK;
  return wafer_fail(ir->diag, wafer_at_file(ir->file), WAFER_INTERNAL, "a dialect does not load");
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* A context with the dialects, and no module yet. */
static wafer_status open_context(const wafer_ctx *ctx, const char *file, wafer_ir **out) {
  *out = NULL;
  wafer_ir *ir = WAFER_NEW(ctx->arena, wafer_ir, 1);
  wafer_weights *weights = wafer_weights_create(ctx->arena);
  char *path = wafer_arena_strdup(ctx->arena, file);
  if (!ir || !weights || !path)
    return wafer_fail(ctx->diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory for the module");
  *ir = (wafer_ir){.weights = weights,
                   .file = path,
                   .model = base_name(path),
                   .arena = ctx->arena,
                   .diag = ctx->diag};
  ir->context = mlirContextCreateWithThreading(false);
  ir->handler = mlirContextAttachDiagnosticHandler(ir->context, forward, ir, NULL);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__func__(), ir->context);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__irdl__(), ir->context);
  wafer_status status = load_dialect(ir, nn_text);
  if (status == WAFER_OK) status = load_dialect(ir, wafer_text);
  if (status != WAFER_OK) {
    wafer_ir_destroy(ir);
    return status;
  }
  *out = ir;
  return WAFER_OK;
}

wafer_status wafer_ir_create(const wafer_ctx *ctx, const char *file, wafer_ir **out) {
  WAFER_TRY(open_context(ctx, file, out));
  wafer_ir *ir = *out;
  ir->module = mlirModuleCreateEmpty(wafer_ir_location(ir, NULL, -1));
  ir->symbols = mlirSymbolTableCreate(mlirModuleGetOperation(ir->module));
  return WAFER_OK;
}

wafer_status wafer_ir_create_piece(const wafer_ctx *ctx, wafer_ir *of, wafer_ir **out) {
  *out = NULL;
  wafer_ir *ir = WAFER_NEW(ctx->arena, wafer_ir, 1);
  wafer_weights *weights = wafer_weights_create(ctx->arena);
  if (!ir || !weights)
    return wafer_fail(ctx->diag, wafer_at_file(of->file), WAFER_NO_MEMORY,
                      "no memory for the module");
  *ir = (wafer_ir){.context = of->context,
                   .weights = weights,
                   .file = of->file,
                   .model = of->model,
                   .arena = ctx->arena,
                   .diag = of->diag,
                   .owner = of};
  ir->module = mlirModuleCreateEmpty(wafer_ir_location(ir, NULL, -1));
  ir->symbols = mlirSymbolTableCreate(mlirModuleGetOperation(ir->module));
  *out = ir;
  return WAFER_OK;
}

static MlirWalkResult note_weight(MlirOperation op, void *self) {
  wafer_ir *ir = self;
  wafer_type type;
  const char *name;
  if (wafer_ir_op(op) != WAFER_OP_weight || !get_string(op, "name", &name))
    return MlirWalkResultAdvance;
  if (!wafer_ir_type_get(mlirValueGetType(mlirOperationGetResult(op, 0)), &type))
    return MlirWalkResultAdvance;
  if (wafer_weights_find(ir->weights, name)) return MlirWalkResultAdvance;
  wafer_weight *weight = wafer_weights_add(ir->weights, name, type.dtype, &type.shape, NULL);
  return weight ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

/* MLIR reads "-" as standard input. */
static wafer_status readable(const wafer_ctx *ctx, const char *path) {
  struct stat info;
  if (!strcmp(path, "-")) return WAFER_OK;
  if (access(path, R_OK) != 0 || stat(path, &info) != 0)
    return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_IO, "the file cannot be read: %m");
  if (!S_ISDIR(info.st_mode)) return WAFER_OK;
  return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_IO, "is a folder, not a file of IR");
}

wafer_status wafer_ir_parse(const wafer_ctx *ctx, const char *path, wafer_ir **out) {
  *out = NULL;
  WAFER_TRY(readable(ctx, path));
  wafer_ir *ir;
  WAFER_TRY(open_context(ctx, path, &ir));
  ir->module = mlirModuleCreateParseFromFile(ir->context, ref(path));
  if (mlirModuleIsNull(ir->module)) {
    wafer_ir_destroy(ir);
    return WAFER_BAD_INPUT; /* the handler has said why */
  }
  MlirOperation root = mlirModuleGetOperation(ir->module);
  ir->symbols = mlirSymbolTableCreate(root);
  mlirOperationWalk(root, note_weight, ir, MlirWalkPreOrder);
  *out = ir;
  return WAFER_OK;
}

static void print_module(const wafer_ir *ir, text *printed) {
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  mlirOpPrintingFlagsAssumeVerified(flags);
  mlirOperationPrintWithFlags(mlirModuleGetOperation(ir->module), flags, text_add, printed);
  mlirOpPrintingFlagsDestroy(flags);
  text_add(ref("\n"), printed);
}

wafer_status wafer_ir_print(const wafer_ctx *ctx, const wafer_ir *ir, const char **out,
                            size_t *bytes) {
  text printed = {.arena = ctx->arena};
  const wafer_program *program = ir->program;
  for (uint32_t i = 0; program && i < program->function_count; i++) {
    if (!program->pieces[i]) continue;
    text_add(ref("// function "), &printed);
    text_add(ref(program->functions[i].name), &printed);
    text_add(ref("\n"), &printed);
    print_module(program->pieces[i], &printed);
  }
  if (!program) print_module(ir, &printed);
  *out = printed.at;
  *bytes = printed.bytes;
  if (!printed.failed) return WAFER_OK;
  *out = NULL;
  return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                    "no memory to print the module");
}

void wafer_ir_destroy(wafer_ir *ir) {
  if (!ir) return;
  const wafer_program *program = ir->program;
  for (uint32_t i = 0; program && i < program->function_count; i++)
    if (program->pieces[i] && program->pieces[i]->owner) wafer_ir_destroy(program->pieces[i]);
  wafer_ir_destroy(ir->next);
  if (!mlirSymbolTableIsNull(ir->symbols)) mlirSymbolTableDestroy(ir->symbols);
  if (!mlirModuleIsNull(ir->module)) mlirModuleDestroy(ir->module);
  if (ir->owner) return;
  mlirContextDetachDiagnosticHandler(ir->context, ir->handler);
  mlirContextDestroy(ir->context);
}
