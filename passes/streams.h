/* What carrying a value costs: the one source for sizing, route and the checks of a placed module.
 *
 * A stream's route is a static tree of parallel trunks: a link moves a wavelet of 32 bits per
 * cycle, and the trunks leave one side of the source rectangle, one per row or column, and enter
 * one side of the target. So
 * - lanes = the shorter of the two heights, or of the two widths, whichever is more: trunks leave
 *   and enter along rows, or along columns;
 * - cycles = ceil(words / lanes), at the edge not less than the bytes at the edge's rate.
 * Streams from and to the edge run along rows: their lanes are the rectangle's height. */
#ifndef WAFER_PASSES_STREAMS_H
#define WAFER_PASSES_STREAMS_H

#include "wafer/graph.h"

static inline uint64_t ceil_div(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
static inline uint64_t min_u64(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static inline uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Wavelets that carry one sample of a value. */
uint64_t stream_words(const wafer_type *type, wafer_dtype storage);
/* The same of a value of the graph, which may be sparse. */
uint64_t value_words(const wafer_graph_value *value, wafer_dtype storage);
uint64_t stream_lanes(const wafer_holding *from, const wafer_holding *to);
uint64_t stream_cycles(const wafer_machine *machine, const wafer_holding *from,
                       const wafer_holding *to, uint64_t words);
/* What comes from outside to a phase of weight streaming enters along rows; where several rows hold
 * the same, each brings a share, which then goes along the columns to all of them: cycles of that.
 */
uint64_t spread_cycles(const wafer_machine *machine, const wafer_holding *to,
                       const wafer_shape *shape, uint64_t words);
/* From one layout to another on rectangles that overlap, as an exchange goes: words go along the
 * rows to the column where they are needed, and along the columns to the row, or the other way
 * about; a line carries all that its cores have, a word a cycle, and a pass along which the layouts
 * agree falls away. `words` of the whole tensor. */
uint64_t relayout_cycles(const wafer_machine *machine, const wafer_holding *from,
                         const wafer_holding *to, const wafer_shape *shape, uint64_t words);
/* From one kernel's cores to another's, on rectangles that lie apart: along the rows that both have
 * (or the columns, where they share none), straight on where these hold the same parts in both
 * layouts, else also along the source's columns before or the target's after, whichever is less. */
uint64_t meeting_cycles(const wafer_machine *machine, const wafer_holding *from,
                        const wafer_holding *to, const wafer_shape *shape, uint64_t words);
/* The same in parts, for a search that moves rectangles. Of two holdings, wherever they lie: */
typedef struct meeting {
  bool alike;              /* lines hold the same parts in both */
  uint64_t from[2], to[2]; /* words of all that a line holds, and one across */
} meeting;
/* Whether lines are columns. */
bool meeting_along_columns(wafer_rect from, wafer_rect to);
/* Whether lines hold the same in both, which are equally high, or wide where lines are columns. */
bool meeting_alike(const wafer_holding *from, const wafer_holding *to, const wafer_shape *shape,
                   bool columns);
/* Words of all different elements that a row or a column of cores has. */
uint64_t meeting_words(const wafer_layout *layout, const wafer_shape *shape, bool column,
                       uint64_t words);
uint64_t meeting_takes(const wafer_machine *machine, const meeting *of, wafer_rect from,
                       wafer_rect to, uint64_t words, bool columns);
/* Elements that wait on a core of the source's rows when its words go along rows first, halos left
 * out; 0: rows hold the same parts, and nothing waits. Rows that a dim is cut over have all of it
 * for few columns where those cut it, too. */
uint64_t meeting_elements(const wafer_holding *from, const wafer_holding *to,
                          const wafer_shape *shape);
uint64_t stream_latency(const wafer_machine *machine, const wafer_holding *from,
                        const wafer_holding *to, uint64_t hops);
/* Cycles of `words` across the wafer's edge, in or out. */
uint64_t edge_in_cycles(const wafer_machine *machine, uint64_t words);
uint64_t edge_out_cycles(const wafer_machine *machine, uint64_t words);
uint64_t memoryx_cycles(const wafer_machine *machine, uint64_t words);
/* Bytes of a value on the fullest core of a holding, one sample. */
uint64_t holding_bytes(const wafer_holding *holding, const wafer_type *type, wafer_dtype storage);

#endif
