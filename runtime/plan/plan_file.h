/* The plan file as an archive, for who has its members already. Private to the runtime and to
 * tests. */
#ifndef PLAN_FILE_H
#define PLAN_FILE_H

#include "wafer/file.h"

/* weights[0] is all of weights.safetensors up to the data, the others are the data. */
typedef struct plan_members {
  wafer_bytes xml, mlir;
  size_t weight_parts;
  const wafer_bytes *weights;
  uint32_t program_count;
  const wafer_bytes *programs; /* programs/0.bin ... */
} plan_members;

/* Writes a plan file of these members, whatever they hold, with its structural digest. */
wafer_status plan_file_save(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            const plan_members *members);

#endif
