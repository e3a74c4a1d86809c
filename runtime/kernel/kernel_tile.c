/* The tiles of a split: how long the longest part of every dim is, and what windows need beyond it.
 */
#include "kernel_family.h"

static int64_t clip(int64_t at, int64_t end) {
  return at < 0 ? 0 : at > end ? end : at;
}

/* What part `p` of the windowed operand lacks: its own elements lie in [p own, (p + 1) own), those
 * it needs in [from, to). */
static void lack(kernel_halo_dim *halo, int64_t extent, int64_t own, int64_t p, int64_t from,
                 int64_t to) {
  int64_t mine = clip(p * own, extent), mine_end = clip((p + 1) * own, extent);
  int64_t need = clip(from, extent), need_end = clip(to, extent);
  int64_t below = kernel_least(mine, need_end) - need,
          above = need_end - kernel_most(mine_end, need);
  if (need_end <= need || own < 1) return;
  halo->foreign = kernel_most(halo->foreign, kernel_most(below, 0) + kernel_most(above, 0));
  halo->before = kernel_most(halo->before, p * own - need);
  halo->after = kernel_most(halo->after, need_end - (p + 1) * own);
  halo->crossing = kernel_most(halo->before, halo->after);
  halo->tiles = kernel_most(halo->tiles, kernel_most(p - need / own, (need_end - 1) / own - p));
  halo->reach = kernel_most(halo->reach, to - from);
}

static int64_t floor_div(__int128 a, int64_t b) {
  return (int64_t)(a >= 0 ? a / b : -((b - 1 - a) / b));
}

/* The halo of dim `dim` of the windowed value. Where a part's window begins moves evenly from part
 * to part, and so does its own tile: what lies outside is the largest at the first or last parts,
 * or beside them. */
static void reach(kernel_view *k, uint32_t dim) {
  const kernel_window w = k->window[dim];
  int64_t extent = kernel_type(k, k->windowed)->shape.dims[dim], own = k->tile[k->windowed][dim];
  int loop = k->map[k->windowed].loop[dim];
  int64_t results = k->loops.extent[loop];
  int64_t part = kernel_ceil(results, (int64_t)k->split->rows[loop] * k->split->cols[loop]);
  int64_t last = part > 0 ? (results - 1) / part : -1;
  const int64_t probes[] = {0, 1, last - 1, last};
  for (size_t i = 0; i < WAFER_COUNT(probes); i++) {
    int64_t p = probes[i];
    if (p < 0 || p > last) continue;
    __int128 from = (__int128)(p * part) * w.num - w.before;
    __int128 to = (__int128)(kernel_least((p + 1) * part, results) - 1) * w.num + w.after;
    bool whole = w.den == 1;
    lack(&k->halo[dim], extent, own, p, whole ? (int64_t)from : floor_div(from, w.den),
         (whole ? (int64_t)to : floor_div(to, w.den)) + 1);
  }
  k->halo[dim].reach = kernel_most(k->halo[dim].reach, own + k->halo[dim].foreign);
}

static void windows(kernel_view *k) {
  for (uint32_t d = 0; d < kernel_type(k, k->windowed)->shape.rank; d++) {
    k->halo[d] = (kernel_halo_dim){.reach = k->tile[k->windowed][d]};
    if (k->map[k->windowed].loop[d] >= 0 && k->window[d].den) reach(k, d);
  }
}

void kernel_view_split(kernel_view *k, const wafer_split *split) {
  int64_t parts[WAFER_MAX_LOOPS], part[WAFER_MAX_LOOPS];
  k->split = split;
  for (uint32_t i = 0; i < k->loops.count; i++) {
    parts[i] = (int64_t)split->rows[i] * split->cols[i];
    part[i] = parts[i] == 1 ? k->loops.extent[i] : kernel_ceil(k->loops.extent[i], parts[i]);
  }
  for (uint32_t v = 0; v < k->values; v++) {
    const wafer_shape *shape = &kernel_type(k, v)->shape;
    const kernel_map *map = &k->map[v];
    k->elements[v] = 1;
    for (uint32_t d = 0; d < shape->rank; d++) {
      int loop = map->loop[d];
      if (loop < 0) {
        k->tile[v][d] = shape->dims[d];
      } else if (k->plain[v] && !map->even[d]) {
        k->tile[v][d] = part[loop];
      } else {
        kernel_cut cut = kernel_cut_of(map, d, split->rows[loop], split->cols[loop]);
        k->tile[v][d] = kernel_ceil(shape->dims[d], (int64_t)cut.rows * cut.cols);
      }
      k->elements[v] = kernel_mul(k->elements[v], (uint64_t)k->tile[v][d]);
    }
  }
  if (k->windowed != UINT32_MAX) windows(k);
  kernel_slices_split(k);
  kernel_sparse_split(k);
}
