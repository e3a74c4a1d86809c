#include "launch_data.h"

#include <string.h>

/* Which part of each dim the core in that row and column holds. */
static void parts_at(const spread *s, uint32_t row, uint32_t col, uint32_t parts[WAFER_MAX_RANK]) {
  for (uint32_t d = 0; d < s->rank; d++)
    parts[d] = s->dim[d].row[row] * s->dim[d].cols + s->dim[d].col[col];
}

static bool same_parts(const spread *s, uint32_t row_a, uint32_t col_a, uint32_t row_b,
                       uint32_t col_b) {
  uint32_t a[WAFER_MAX_RANK], b[WAFER_MAX_RANK];
  parts_at(s, row_a, col_a, a);
  parts_at(s, row_b, col_b, b);
  return memcmp(a, b, s->rank * sizeof *a) == 0;
}

static bool same_rows(const spread *s, uint32_t a, uint32_t b) {
  for (uint32_t d = 0; d < s->rank; d++)
    if (s->dim[d].row[a] != s->dim[d].row[b]) return false;
  return true;
}

/* Copies the elements of the parts into the buffer, from dim `d` on. */
static void fill(const spread *s, const uint32_t *parts, uint32_t d, const char *from,
                 int64_t index, char *to) {
  size_t element = wafer_dtype_bytes(s->dtype);
  if (d == s->rank) {
    memcpy(to, from + (size_t)index * element, element);
    return;
  }
  const spread_part *part = &s->dim[d].part[parts[d]];
  for (uint32_t r = 0; r < part->count; r++)
    for (int32_t i = part->runs[r].lo; i < part->runs[r].hi; i++)
      fill(s, parts, d + 1, from, index * s->dim[d].extent + i,
           to + (int64_t)(part->runs[r].at + i - part->runs[r].lo) * s->dim[d].stride);
}

static bool is_empty(const spread *s, const uint32_t *parts) {
  for (uint32_t d = 0; d < s->rank; d++)
    if (s->dim[d].part[parts[d]].count == 0) return true;
  return false;
}

static bool append(wafer_arena *arena, launch_data_list *list, wafer_launch_data item) {
  if (list->count == list->room) {
    uint32_t room = list->room ? 2 * list->room : 16;
    wafer_launch_data *at = WAFER_NEW(arena, wafer_launch_data, room);
    if (!at) return false;
    if (list->count) memcpy(at, list->at, list->count * sizeof *at);
    list->at = at;
    list->room = room;
  }
  list->at[list->count++] = item;
  return true;
}

/* Columns [col, end) of rows [row, below) hold the same. */
static bool add_rect(wafer_arena *arena, const program_data *data, launch_data_list *list,
                     uint32_t row, uint32_t below, uint32_t col, uint32_t end) {
  const spread *s = data->at;
  uint32_t parts[WAFER_MAX_RANK];
  parts_at(s, row, col, parts);
  if (is_empty(s, parts)) return true;
  uint64_t size = spread_bytes(s);
  char *bytes = WAFER_NEW(arena, char, size);
  if (!bytes) return false;
  fill(s, parts, 0, data->elements, 0, bytes);
  return append(
      arena, list,
      (wafer_launch_data){.cores = {s->rect.x + col, s->rect.y + row, end - col, below - row},
                          .address = (uint32_t)s->address,
                          .bytes = {bytes, size}});
}

bool launch_data_add(wafer_arena *arena, const program_data *data, launch_data_list *list) {
  const spread *s = data->at;
  for (uint32_t row = 0, below; row < s->rect.height; row = below) {
    for (below = row + 1; below < s->rect.height && same_rows(s, row, below);) below++;
    for (uint32_t col = 0, end; col < s->rect.width; col = end) {
      for (end = col + 1; end < s->rect.width && same_parts(s, row, col, row, end);) end++;
      if (!add_rect(arena, data, list, row, below, col, end)) return false;
    }
  }
  return true;
}
