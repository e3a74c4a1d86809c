/* The safetensors format: a length (8 bytes, little endian), a header (JSON: name -> dtype, shape,
 * offsets), the data without holes. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include "wafer/file.h"
#include "wafer/weights.h"

/* What is written, as parts to be written one after the other: the header, then each present
 * weight's data where it lies. The data starts at a multiple of 64; weights of a multiple of 64
 * bytes lie at one, too, the others behind them at a multiple of their element's size. The header
 * keeps the table's order. */
wafer_status safetensors_parts(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena,
                               const wafer_weights *weights, wafer_bytes **parts, size_t *count);

/* Adds every tensor of `file` to `weights`; the data stays where it is. Untrusted input: every
 * offset is in range, nothing overlaps, every byte belongs to a tensor, no name comes twice. `loc`
 * is for messages. */
wafer_status safetensors_read(const wafer_diag *diag, wafer_loc loc, wafer_bytes file,
                              wafer_arena *arena, wafer_weights *weights);

#endif
