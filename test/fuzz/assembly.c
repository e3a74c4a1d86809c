/* Any bytes as a fabric program: text, or the form of a plan's programs (whose first byte is no
 * character of text). What is read prints, and comes back from text and from bytes as it was. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wafer/assembly.h"

static bool same(wafer_bytes a, wafer_bytes b) {
  return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

/* Labels and task numbers that lead nowhere are kept in bytes but cannot be spelt: only what came
 * from text must come back from it. */
static void round_trip(wafer_arena *arena, const wafer_fabric_program *program, bool from_text) {
  const wafer_fabric_program *again;
  wafer_bytes bytes, next;
  char *text;
  size_t size;
  if (!wafer_fabric_program_write(arena, program, &bytes)) return;
  if (wafer_fabric_program_read(NULL, "again", arena, bytes, &again) != WAFER_OK ||
      !wafer_fabric_program_write(arena, again, &next) || !same(bytes, next))
    abort();
  if (wafer_assembly_print(NULL, again, &text, &size) != WAFER_OK) return;
  bool read = wafer_assembly_read(NULL, arena, "again", text, size, &program) == WAFER_OK;
  free(text);
  if (from_text &&
      (!read || !wafer_fabric_program_write(arena, program, &next) || !same(bytes, next)))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_fabric_program *program;
  if (arena &&
      wafer_assembly_read(NULL, arena, "fuzz", (const char *)data, size, &program) == WAFER_OK)
    round_trip(arena, program, true);
  if (arena && wafer_fabric_program_read(NULL, "fuzz", arena, (wafer_bytes){data, size},
                                         &program) == WAFER_OK)
    round_trip(arena, program, false);
  wafer_arena_destroy(arena);
  return 0;
}
