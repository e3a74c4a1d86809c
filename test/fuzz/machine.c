/* Any bytes as a machine file; one that is accepted prints and parses to itself. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine, *again;
  char *text, *text_again;
  size_t bytes, bytes_again;
  if (arena && wafer_machine_parse(NULL, arena, "fuzz.xml", (const char *)data, size, &machine) ==
                   WAFER_OK) {
    if (wafer_machine_print(NULL, arena, machine, &text, &bytes) != WAFER_OK ||
        wafer_machine_parse(NULL, arena, "again.xml", text, bytes, &again) != WAFER_OK ||
        wafer_machine_print(NULL, arena, again, &text_again, &bytes_again) != WAFER_OK ||
        bytes != bytes_again || memcmp(text, text_again, bytes))
      abort();
  }
  wafer_arena_destroy(arena);
  return 0;
}
