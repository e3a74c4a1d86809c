/* A wafer cut into bands of whole rows, each a smaller wafer. */
#include "wafer/machine.h"

static wafer_status refuse_unlike(const wafer_diag *diag, const wafer_machine *wafer) {
  return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_UNSUPPORTED,
                    "bands of a wafer with %u dead and %u reserved places would not be alike; take "
                    "one band, or repair what is dead with spares",
                    wafer->dead_count, wafer->reserved_count);
}

wafer_status wafer_machine_band(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_machine *wafer, uint32_t bands,
                                const wafer_machine **out) {
  uint32_t margins = wafer->height - wafer->usable.height, rows = bands ? wafer->height / bands : 0;
  *out = wafer;
  if (bands == 1) return WAFER_OK;
  if (wafer->dead_count || wafer->reserved_count) return refuse_unlike(diag, wafer);
  if (rows <= margins)
    return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_NO_FIT,
                      "%u bands of a wafer of %u rows have %u each, of which %u are margins; at "
                      "most %u bands have usable rows",
                      bands, wafer->height, rows, margins, wafer->height / (margins + 1));
  wafer_machine *band = wafer_arena_copy(arena, wafer, sizeof *wafer);
  band->whole = band ? wafer_arena_copy(arena, wafer, sizeof *wafer) : NULL;
  if (!band || !band->whole)
    return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_NO_MEMORY, "no memory for bands");
  band->bands = bands;
  band->height = rows;
  band->usable.height = rows - margins;
  *out = band;
  return WAFER_OK;
}
