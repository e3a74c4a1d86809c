/* Shared by the fuzz targets: input bytes as a file path, changes of an input. */
#ifndef WAFER_FUZZ_H
#define WAFER_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "wafer/wafer.h"

/* The bytes as a file in memory; `path` gets its name. Returns the descriptor to close, -1 on
 * failure. */
int fuzz_file(const uint8_t *data, size_t size, char path[64]);

/* The next of a fixed sequence. */
uint64_t fuzz_next(uint64_t *state);

/* Replaces a decimal number of the text by another one, there or wherever it stands; gives an
 * attribute the value of another of its name. The new size, at most `room`. */
size_t fuzz_change_number(uint8_t *data, size_t size, size_t room, uint64_t *state);
size_t fuzz_copy_attribute(uint8_t *data, size_t size, size_t room, uint64_t *state);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
