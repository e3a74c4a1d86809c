/* Shared by the fuzz targets: input bytes as a file path, a silent sink. */
#ifndef WAFER_FUZZ_H
#define WAFER_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "wafer/wafer.h"

/* The bytes as a file in memory; `path` gets its name. Returns the descriptor to close, -1 on failure. */
int fuzz_file(const uint8_t *data, size_t size, char path[64]);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
