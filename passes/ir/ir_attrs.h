/* Elements of constants between MLIR and plain bytes. */
#ifndef PASSES_IR_ATTRS_H
#define PASSES_IR_ATTRS_H

#include "ir_names.h"

/* The elements of a dense attribute in the arena; with `expand`, splats are repeated to the full
 * count. False when out of memory. */
bool elements_get(wafer_arena *arena, MlirAttribute attr, const wafer_type *type, bool expand,
                  wafer_attr *out);
/* `count` elements, or 1 for a splat, as a dense attribute. At most WAFER_INLINE_BYTES. */
MlirAttribute elements_attr(MlirType type, wafer_dtype dtype, int64_t count, const void *bytes);
/* Any kind but data. */
MlirAttribute attr_write(MlirContext context, const wafer_attr *from);

#endif
