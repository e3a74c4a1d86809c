/* What ir*.c share: attribute names, each spelt once, and MLIR's value types in short. */
#ifndef PASSES_IR_NAMES_H
#define PASSES_IR_NAMES_H

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "wafer/ir.h"

#define NAME_NAME "wafer.name"           /* of an argument or result of @main: the model's */
#define NAME_ROLE "wafer.role"           /* of the same: what it is beside data of the model */
#define NAME_OF "wafer.of"               /* of the same: the weight or node that it belongs to */
#define NAME_MICRO "wafer.micro_batch"   /* i64 */
#define NAME_CLASSES "wafer.classes"     /* i64 */
#define NAME_WEIGHT "wafer.weight"       /* unit, on a kernel's argument */
#define NAME_FAMILY "wafer.family"       /* string */
#define NAME_ANCHOR "wafer.anchor"       /* i64 */
#define NAME_ROWS "wafer.rows"           /* array<i64>, one per loop */
#define NAME_COLS "wafer.cols"           /* array<i64>, one per loop */
#define NAME_SLABS "wafer.slabs"         /* i64 */
#define NAME_REPLICAS "wafer.replicas"   /* i64 */
#define NAME_DEPTHS "wafer.depths"       /* array<i64>, one per input, then the outputs' */
#define NAME_AHEAD "wafer.ahead"         /* i64 */
#define NAME_STAYS "wafer.stays"         /* i64 */
#define NAME_PHASE "wafer.phase"         /* i64 */
#define NAME_RECT "wafer.rect"           /* array<i64> x, y, width, height */
#define NAME_MODE "wafer.mode"           /* string */
#define NAME_BATCH "wafer.batch"         /* i64 */
#define NAME_STRIPES "wafer.stripes"     /* array<i64> stripes, columns of one */
#define NAME_STORAGE "wafer.storage"     /* string */
#define NAME_OPTIMIZER "wafer.optimizer" /* string */
#define NAME_BANDS "wafer.bands"         /* i64, where it is not 1 */
#define NAME_SIDES "wafer.sides"         /* i64, of bands, where it is not 1 */
#define NAME_FLIP "wafer.flip_batch"     /* i64 */
#define NAME_COST "wafer.cost"           /* + ".<mode>": array<i64>; + ".<mode>.why_not": string */
#define NAME_FACTS "wafer.facts"         /* string: what passes gave, comma separated */

static inline MlirStringRef ref(const char *text) {
  return (MlirStringRef){.data = text, .length = strlen(text)};
}

static inline MlirNamedAttribute named(MlirContext context, const char *name, MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(context, ref(name)), value);
}

static inline MlirAttribute int_attr(MlirContext context, int64_t value) {
  return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), value);
}

/* Attributes of one op by name; getters are false when it is absent, of another kind or out of
 * range. */
bool get_int(MlirOperation op, const char *name, int64_t *value);
bool get_u32(MlirOperation op, const char *name, uint32_t *value);
bool get_u64(MlirOperation op, const char *name, uint64_t *value);
bool get_string(MlirOperation op, const char *name, const char **text);
bool get_u32s(MlirOperation op, const char *name, uint32_t count, uint32_t *values);
void set_int(MlirOperation op, const char *name, int64_t value);
void set_string(MlirOperation op, const char *name, const char *text);
void set_u32s(MlirOperation op, const char *name, uint32_t count, const uint32_t *values);

/* Adds the op at the builder's place; INTERNAL when MLIR refuses it. */
wafer_status insert_op(const wafer_builder *b, MlirOperationState *state, MlirOperation *op);

#endif
