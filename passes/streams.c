#include "streams.h"

static uint64_t elements_of(const wafer_shape *shape) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < shape->rank; i++) n *= (uint64_t)shape->dims[i];
  return n;
}

uint64_t stream_words(const wafer_type *type, wafer_dtype storage) {
  uint64_t bytes = elements_of(&type->shape) * wafer_stored_bytes(type->dtype, storage);
  return (bytes + WAFER_WAVELET_BYTES - 1) / WAFER_WAVELET_BYTES;
}

uint64_t value_words(const wafer_graph_value *value, wafer_dtype storage) {
  return value->sparse ? wafer_sparse_words(&value->type, storage, value->nonzeros)
                       : stream_words(&value->type, storage);
}

uint64_t stream_lanes(const wafer_holding *from, const wafer_holding *to) {
  if (from->where != WAFER_AT_wafer) return to->where == WAFER_AT_wafer ? to->rect.height : 1;
  if (to->where != WAFER_AT_wafer) return from->rect.height;
  uint64_t rows = min_u64(from->rect.height, to->rect.height);
  return max_u64(rows, min_u64(from->rect.width, to->rect.width));
}

uint64_t edge_in_cycles(const wafer_machine *m, uint64_t words) {
  return wafer_machine_transfer_cycles(m, words * WAFER_WAVELET_BYTES, m->edge_in_bytes_per_second);
}

uint64_t edge_out_cycles(const wafer_machine *m, uint64_t words) {
  return wafer_machine_transfer_cycles(m, words * WAFER_WAVELET_BYTES,
                                       m->edge_out_bytes_per_second);
}

uint64_t memoryx_cycles(const wafer_machine *m, uint64_t words) {
  uint64_t rate = min_u64(m->edge_in_bytes_per_second, m->memoryx_bytes_per_second);
  return wafer_machine_transfer_cycles(m, words * WAFER_WAVELET_BYTES, rate);
}

uint64_t stream_cycles(const wafer_machine *m, const wafer_holding *from, const wafer_holding *to,
                       uint64_t words) {
  uint64_t lanes = stream_lanes(from, to), links = (words + lanes - 1) / lanes;
  if (from->where == WAFER_AT_edge) return max_u64(links, edge_in_cycles(m, words));
  if (from->where == WAFER_AT_memoryx) return max_u64(links, memoryx_cycles(m, words));
  return to->where == WAFER_AT_edge ? max_u64(links, edge_out_cycles(m, words)) : links;
}

/* ---- relayouts ---- */

/* Cuts of a dim in one direction: parts, how far apart they are, in which order, and how many
 * elements lie between the beginnings of two of them. */
typedef struct cut {
  uint32_t parts, stride, order;
  int64_t length;
} cut;

static cut cut_of(const wafer_layout *l, const wafer_shape *shape, uint32_t d, bool over_rows) {
  int64_t parts = (int64_t)l->rows[d] * l->cols[d], tile = (shape->dims[d] + parts - 1) / parts;
  uint32_t own = over_rows ? l->rows[d] : l->cols[d];
  if (own == 1) return (cut){1, 1, 0, shape->dims[d]};
  return (cut){own, over_rows ? l->row_stride[d] : l->col_stride[d], l->order[d],
               over_rows ? tile * l->cols[d] : tile};
}

/* Whether the lines of that direction hold the same elements in both layouts. */
static bool agrees(const wafer_holding *from, const wafer_holding *to, const wafer_shape *shape,
                   bool over_rows) {
  for (uint32_t d = 0; d < shape->rank; d++) {
    cut a = cut_of(&from->layout, shape, d, over_rows),
        b = cut_of(&to->layout, shape, d, over_rows);
    if (a.parts != b.parts || a.stride != b.stride || a.length != b.length || a.order != b.order)
      return false;
  }
  return true;
}

/* Words of all different elements that a line of cores has: rows (columns) that a dim is cut over
 * share them out. */
static uint64_t line_words(const wafer_layout *l, const wafer_shape *shape, bool row,
                           uint64_t words) {
  uint64_t parts = 1;
  for (uint32_t d = 0; d < shape->rank; d++) parts *= row ? l->rows[d] : l->cols[d];
  return (words + parts - 1) / parts;
}

static uint64_t pass_cycles(const wafer_machine *m, uint64_t words, uint32_t cores) {
  return words + (uint64_t)cores * m->hop_cycles + 2 * (uint64_t)m->ramp_cycles +
         2 * (uint64_t)m->vector_setup_cycles + m->descriptor_load_cycles;
}

/* Rows that hold the same lie together: a row's words go to all of them at once. */
static bool has_trunks(const wafer_holding *at, uint64_t kinds) {
  uint64_t apart = UINT64_MAX;
  for (uint32_t d = 0; d < at->layout.rank; d++)
    if (at->layout.rows[d] > 1) apart = min_u64(apart, at->layout.row_stride[d]);
  return kinds == 1 || apart == at->rect.height / kinds;
}

uint64_t spread_cycles(const wafer_machine *m, const wafer_holding *to, const wafer_shape *shape,
                       uint64_t words) {
  uint64_t rows = 1, pass;
  for (uint32_t d = 0; d < shape->rank; d++) rows *= to->layout.rows[d];
  if (rows >= to->rect.height) return 0;
  pass = pass_cycles(m, line_words(&to->layout, shape, false, words), to->rect.height);
  return has_trunks(to, rows) ? min_u64(line_words(&to->layout, shape, true, words), pass) : pass;
}

uint64_t relayout_cycles(const wafer_machine *m, const wafer_holding *from, const wafer_holding *to,
                         const wafer_shape *shape, uint64_t words) {
  if (from->rect.x != to->rect.x || from->rect.y != to->rect.y)
    return meeting_cycles(m, from, to, shape, words);
  uint32_t width = from->rect.width > to->rect.width ? from->rect.width : to->rect.width;
  uint32_t height = from->rect.height > to->rect.height ? from->rect.height : to->rect.height;
  bool rows = agrees(from, to, shape, true), cols = agrees(from, to, shape, false);
  uint64_t along_row = pass_cycles(m, line_words(&from->layout, shape, true, words), width);
  uint64_t along_col = pass_cycles(m, line_words(&from->layout, shape, false, words), height);
  uint64_t row_after = pass_cycles(m, line_words(&to->layout, shape, true, words), width);
  uint64_t col_after = pass_cycles(m, line_words(&to->layout, shape, false, words), height);
  if (rows && cols) return min_u64(along_row, along_col); /* only replicas lack them */
  if (rows) return along_row;
  if (cols) return along_col;
  return min_u64(along_row + col_after, along_col + row_after);
}

static uint32_t common(uint32_t a, uint32_t a_length, uint32_t b, uint32_t b_length) {
  uint32_t end = a + a_length < b + b_length ? a + a_length : b + b_length, first = a > b ? a : b;
  return end > first ? end - first : 0;
}

static uint32_t beyond(uint32_t a, uint32_t a_length, uint32_t b, uint32_t b_length) {
  uint32_t end = a + a_length > b + b_length ? a + a_length : b + b_length, first = a < b ? a : b;
  return end - first;
}

bool meeting_along_columns(wafer_rect a, wafer_rect b) {
  return !common(a.y, a.height, b.y, b.height) && common(a.x, a.width, b.x, b.width);
}

bool meeting_alike(const wafer_holding *from, const wafer_holding *to, const wafer_shape *shape,
                   bool columns) {
  uint32_t a = columns ? from->rect.width : from->rect.height;
  uint32_t b = columns ? to->rect.width : to->rect.height;
  return a == b && agrees(from, to, shape, !columns);
}

uint64_t meeting_words(const wafer_layout *layout, const wafer_shape *shape, bool column,
                       uint64_t words) {
  return line_words(layout, shape, !column, words);
}

/* Rows of cores that both rectangles have carry words from one to the other. */
uint64_t meeting_takes(const wafer_machine *m, const meeting *of, wafer_rect a, wafer_rect b,
                       uint64_t words, bool columns) {
  if (columns) a = wafer_rect_turn(a), b = wafer_rect_turn(b);
  uint32_t both = common(a.y, a.height, b.y, b.height);
  uint32_t across = beyond(a.x, a.width, b.x, b.width), most = beyond(a.y, a.height, b.y, b.height);
  uint64_t lanes = ceil_div(words, both ? both : 1);
  uint64_t rows_from = max_u64(of->from[0], lanes);
  if (a.height == both && b.height == both && of->alike) return pass_cycles(m, rows_from, across);
  uint64_t rows_to = max_u64(of->to[0], lanes);
  uint64_t cols_from = pass_cycles(m, of->from[1], most), cols_to = pass_cycles(m, of->to[1], most);
  uint64_t rows_first =
      pass_cycles(m, rows_from, across) + cols_to + (a.height > both ? cols_from : 0);
  uint64_t cols_first =
      cols_from + pass_cycles(m, rows_to, across) + (b.height > both ? cols_to : 0);
  return min_u64(rows_first, cols_first);
}

uint64_t meeting_cycles(const wafer_machine *m, const wafer_holding *from, const wafer_holding *to,
                        const wafer_shape *shape, uint64_t words) {
  bool columns = meeting_along_columns(from->rect, to->rect);
  meeting of = {.alike = meeting_alike(from, to, shape, columns)};
  for (int across = 0; across < 2; across++) {
    of.from[across] = meeting_words(&from->layout, shape, columns != across, words);
    of.to[across] = meeting_words(&to->layout, shape, columns != across, words);
  }
  return meeting_takes(m, &of, from->rect, to->rect, words, columns);
}

/* Elements of dim d in a column, of all rows. */
static uint64_t in_column(const wafer_layout *l, const wafer_shape *shape, uint32_t d) {
  uint64_t parts = (uint64_t)l->rows[d] * l->cols[d], all = (uint64_t)shape->dims[d];
  return min_u64(all, ceil_div(all, parts) * l->rows[d]);
}

uint64_t meeting_elements(const wafer_holding *from, const wafer_holding *to,
                          const wafer_shape *shape) {
  uint64_t elements = ceil_div(from->rect.height, min_u64(from->rect.height, to->rect.height));
  if (agrees(from, to, shape, true)) return 0;
  for (uint32_t d = 0; d < shape->rank; d++) {
    uint64_t in_row = (uint64_t)cut_of(&from->layout, shape, d, true).length;
    elements *= min_u64(in_row, in_column(&to->layout, shape, d));
  }
  return elements;
}

#define RUNS 3 /* straight ones of a route: fabric.h */

uint64_t stream_latency(const wafer_machine *m, const wafer_holding *from, const wafer_holding *to,
                        uint64_t hops) {
  uint64_t latency =
      hops * m->hop_cycles + 2 * (uint64_t)m->ramp_cycles + RUNS * (uint64_t)m->detour_cycles;
  if (from->where == WAFER_AT_memoryx) latency += m->memoryx_latency_cycles;
  if (from->where != WAFER_AT_wafer || to->where != WAFER_AT_wafer)
    latency += m->edge_latency_cycles;
  return latency;
}

uint64_t holding_bytes(const wafer_holding *holding, const wafer_type *type, wafer_dtype storage) {
  return wafer_layout_tile(&holding->layout, &type->shape) *
         wafer_stored_bytes(type->dtype, storage);
}
