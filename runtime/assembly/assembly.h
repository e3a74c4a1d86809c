/* What text and bytes of a program have in common. Private to assembly*.c and program_bytes.c */
#ifndef RUNTIME_ASSEMBLY_H
#define RUNTIME_ASSEMBLY_H

#include "wafer/assembly.h"

/* What an instruction of control uses, in the order in which it is written: registers a, b, c; v:
 * value; t: the task `target`; l: the instruction `target`; m: microthread. NULL: a vector
 * instruction. */
const char *assembly_fields(uint8_t op);

/* Levels of the shape that are written: all but leading ones. */
uint32_t assembly_levels(const wafer_instruction *code);

#endif
