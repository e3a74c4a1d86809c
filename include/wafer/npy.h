/* The .npy format (NEP 1), versions 1 to 3, little endian. */
#ifndef WAFER_NPY_H
#define WAFER_NPY_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file's tensor (numbers, or strings as numpy's "U"), row-major and aligned (Fortran order is
 * converted), for as long as the arena lives. Read only: the data may lie in the mapped file. */
wafer_status wafer_npy_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            wafer_view *out);
/* A file cannot name every element type: when the elements that were read can be those of `wanted`,
 * the view becomes one of that type. bf16 from raw bits (V2, u2), floats of 8 and 4 bits from raw
 * bits (V1, u1: one to a byte), integers of 4 and 2 bits from those of 8 in range. Else nothing
 * changes. */
void wafer_npy_adopt(wafer_view *view, wafer_dtype wanted);
/* Writes a tensor under a temporary name and renames it: nothing half written. Any strides. */
wafer_status wafer_npy_write(const wafer_diag *diag, const char *path, const wafer_view *view);

#ifdef __cplusplus
}
#endif
#endif
