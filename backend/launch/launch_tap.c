#include "launch_tap.h"

static bool copy_dim(wafer_arena *arena, const spread *s, const spread_dim *dim,
                     wafer_tap_dim *out) {
  uint32_t parts = dim->rows * dim->cols;
  wafer_tap_part *part = WAFER_NEW(arena, wafer_tap_part, parts);
  *out = (wafer_tap_dim){.stride = dim->stride, .cols = dim->cols, .part = part};
  out->row = wafer_arena_copy(arena, dim->row, s->rect.height * sizeof *dim->row);
  out->col = wafer_arena_copy(arena, dim->col, s->rect.width * sizeof *dim->col);
  if (!part || !out->row || !out->col) return false;
  for (uint32_t i = 0; i < parts; i++)
    if (dim->part[i].count)
      part[i] =
          (wafer_tap_part){dim->part[i].runs->lo, dim->part[i].runs->hi, dim->part[i].runs->at};
  return true;
}

bool launch_tap_of(wafer_arena *arena, const spread *s, wafer_tap *out) {
  out->address = s->address;
  for (uint32_t d = 0; d < s->rank; d++)
    if (!copy_dim(arena, s, &s->dim[d], &out->dim[d])) return false;
  return true;
}
