/* The .npy format (NEP 1), versions 1 to 3, little endian. */
#ifndef WAFER_NPY_H
#define WAFER_NPY_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file's tensor, row-major and aligned (Fortran order is converted), for as long as the arena
 * lives. Read only: the data may lie in the mapped file. */
wafer_status wafer_npy_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            wafer_view *out);
/* Writes a tensor under a temporary name and renames it: nothing half written. Any strides. */
wafer_status wafer_npy_write(const wafer_diag *diag, const char *path, const wafer_view *view);

#ifdef __cplusplus
}
#endif
#endif
