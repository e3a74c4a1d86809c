/* Programs of the fabric outside memory: as text that people read and write (docs/assembly.md), and
 * as bytes, the form in which a plan keeps them.
 *
 * Both hold what has a meaning: a field that an instruction does not use, a stride of a level that
 * its shape does not have are not kept. What is read is well formed; whether a
 * machine has the colours, queues and room for it is for wafer_fabric_create to say. */
#ifndef WAFER_ASSEMBLY_H
#define WAFER_ASSEMBLY_H

#include "wafer/fabric.h"
#include "wafer/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cores that a program read from outside may have. */
#define WAFER_FABRIC_MOST_CORES (1u << 22)

/* `*text` is *bytes long, ends with a zero beside that, and is freed with free(). */
wafer_status wafer_assembly_print(const wafer_diag *diag, const wafer_fabric_program *program,
                                  char **text, size_t *bytes);
/* Everything lives in the arena. BAD_INPUT names line and column of `file`. */
wafer_status wafer_assembly_read(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const char *text, size_t bytes, const wafer_fabric_program **out);

/* Into the arena; equal programs give equal bytes, and core programs that are equal are stored
 * once. False: no memory. */
bool wafer_fabric_program_write(wafer_arena *arena, const wafer_fabric_program *program,
                                wafer_bytes *out);
/* From untrusted bytes; everything lives in the arena. */
wafer_status wafer_fabric_program_read(const wafer_diag *diag, const char *file, wafer_arena *arena,
                                       wafer_bytes bytes, const wafer_fabric_program **out);

#ifdef __cplusplus
}
#endif
#endif
