/* A wafer cut into bands of whole rows, or of halves of rows, each a smaller wafer. */
#include "wafer/machine.h"

static wafer_status refuse_unlike(const wafer_diag *diag, const wafer_machine *wafer) {
  return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_UNSUPPORTED,
                    "bands of a wafer with %u dead and %u reserved places would not be alike; take "
                    "one band, or repair what is dead with spares",
                    wafer->dead_count, wafer->reserved_count);
}

wafer_status wafer_machine_check_sides(const wafer_diag *diag, const wafer_machine *wafer,
                                       uint32_t sides) {
  if (sides <= wafer->edge_sides) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_UNSUPPORTED,
                    "words cross the edge of this wafer at its west border alone: no bands begin "
                    "at the east one; take --sides 1");
}

static wafer_status check_cut(const wafer_diag *diag, const wafer_machine *wafer, wafer_cut cut) {
  WAFER_TRY(wafer_machine_check_sides(diag, wafer, cut.sides));
  if (cut.bands % cut.sides == 0) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_UNSUPPORTED,
                    "of %u bands half cannot lie at each side of the wafer; take %u", cut.bands,
                    cut.bands + 1);
}

/* Its size, and where kernels may lie in it; false: nowhere. */
static bool shape(const wafer_machine *wafer, wafer_cut cut, wafer_machine *band) {
  uint32_t half = wafer_machine_half_columns(wafer);
  uint32_t rows = cut.bands ? wafer->usable.height / (cut.bands / cut.sides) : 0;
  if (!rows) return false;
  band->height = band->usable.height = rows;
  band->usable.y = 0;
  if (cut.sides == 1) return true;
  band->width = wafer->width / 2;
  band->usable.x = band->width - half;
  band->usable.width = half;
  return half;
}

/* An even part of a rate, not none. */
static uint64_t share(uint64_t rate, uint32_t bands) {
  return rate == UINT64_MAX ? rate : rate / bands ? rate / bands : 1;
}

wafer_status wafer_machine_band(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_machine *wafer, wafer_cut cut,
                                const wafer_machine **out) {
  wafer_machine made = *wafer;
  *out = wafer;
  if (cut.bands == 1) return WAFER_OK;
  if (wafer->dead_count || wafer->reserved_count) return refuse_unlike(diag, wafer);
  WAFER_TRY(check_cut(diag, wafer, cut));
  if (!shape(wafer, cut, &made))
    return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_NO_FIT,
                      "%u bands of a wafer with %ux%u usable cores would have none; at most %u "
                      "bands have some",
                      cut.bands, wafer->usable.width, wafer->usable.height,
                      wafer->usable.height * cut.sides);
  made.cut = cut;
  if (cut.together) {
    made.edge_in_bytes_per_second = share(wafer->edge_in_bytes_per_second, cut.bands);
    made.edge_out_bytes_per_second = share(wafer->edge_out_bytes_per_second, cut.bands);
    made.memoryx_bytes_per_second = share(wafer->memoryx_bytes_per_second, cut.bands);
  }
  wafer_machine *band = wafer_arena_copy(arena, &made, sizeof made);
  if (band) band->whole = wafer_arena_copy(arena, wafer, sizeof *wafer);
  if (!band || !band->whole)
    return wafer_fail(diag, wafer_at_file(wafer->name), WAFER_NO_MEMORY, "no memory for bands");
  *out = band;
  return WAFER_OK;
}

wafer_core_at wafer_machine_band_core(const wafer_machine *m, uint32_t index, uint32_t x,
                                      uint32_t y) {
  wafer_cut cut = wafer_machine_cut(m);
  if (!m->whole) return (wafer_core_at){x, y};
  return (wafer_core_at){index % cut.sides ? m->whole->width - 1 - x : x,
                         m->whole->usable.y + index / cut.sides * m->height + y};
}

uint32_t wafer_machine_band_at(const wafer_machine *m, uint32_t x, uint32_t y, wafer_core_at *at) {
  wafer_cut cut = wafer_machine_cut(m);
  *at = (wafer_core_at){x, y};
  if (!m->whole) return 0;
  if (y < m->whole->usable.y) return cut.bands;
  uint32_t below = y - m->whole->usable.y, row = below / m->height;
  bool mirrored = cut.sides > 1 && x >= m->width;
  *at = (wafer_core_at){mirrored ? m->whole->width - 1 - x : x, below % m->height};
  bool inside = at->x < m->width && row < cut.bands / cut.sides;
  return inside ? row * cut.sides + mirrored : cut.bands;
}
