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

static uint64_t min_u64(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
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

uint64_t stream_latency(const wafer_machine *m, const wafer_holding *from, const wafer_holding *to,
                        uint64_t hops) {
  uint64_t latency = hops * m->hop_cycles + 2 * (uint64_t)m->ramp_cycles;
  if (from->where == WAFER_AT_memoryx) latency += m->memoryx_latency_cycles;
  if (from->where != WAFER_AT_wafer || to->where != WAFER_AT_wafer)
    latency += m->edge_latency_cycles;
  return latency;
}

uint64_t holding_bytes(const wafer_holding *holding, const wafer_type *type, wafer_dtype storage) {
  return wafer_layout_tile(&holding->layout, &type->shape) * wafer_stored_bytes(type->dtype, storage);
}
