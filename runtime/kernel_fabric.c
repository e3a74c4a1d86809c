/* Fabric work inside a kernel's rectangle, in cycles.
 *
 * - Chain reduce of B words over P parts: B + (2 T_R + 2)(P - 1); broadcast: B + P + 2 T_R; T_R is
 *   ramp_cycles ("Near-Optimal Wafer-Scale Reduce", HPDC 2024, arXiv 2404.15888); setup and
 *   descriptor_load besides. Where `stride` cores lie from one part to the next, a step is that
 * many hops and a link carries that many flows: B stride + (2 T_R + hop stride + 1)(P - 1). Partial
 * sums travel as f32, a word each; what is broadcast is packed.
 * Neighbours may be summed in two phases instead: wafer_reduce_group.
 * - Halo exchange: a pass over the rows, one over the columns, each the words of the larger side
 * over one link, both directions at once: words x hops + hop x hops + 2 T_R + setup +
 * descriptor_load, where hops = stride x tiles that the farthest word crosses. */
#include "kernel_family.h"

uint64_t kernel_words(wafer_dtype dtype, uint64_t elements) {
  return kernel_mul(elements, wafer_dtype_bytes(dtype)) / WAFER_WAVELET_BYTES +
         (kernel_mul(elements, wafer_dtype_bytes(dtype)) % WAFER_WAVELET_BYTES != 0);
}

/* One direction of a cut loop: its parts, and how many cores lie from one part to the next. */
typedef struct cut {
  uint64_t parts, stride;
} cut;

static cut cut_of(const kernel_view *k, const uint32_t *parts, uint32_t loop) {
  cut c = {.parts = parts[loop], .stride = 1};
  for (uint32_t i = loop + 1; i < k->loops.count; i++) c.stride *= parts[i];
  return c;
}

/* Before the first word: descriptors, and both ramps. */
static uint64_t departure(const wafer_machine *m) {
  return m->vector_setup_cycles + m->descriptor_load_cycles + 2ull * m->ramp_cycles;
}

static uint64_t two_phase(const wafer_machine *m, uint64_t parts, uint64_t group, uint64_t words) {
  uint64_t depth = group - 1 + (parts + group - 1) / group - 1;
  uint64_t way = m->hop_cycles * (parts - 1) + (2ull * m->ramp_cycles + 1) * depth;
  return kernel_add(kernel_add(kernel_mul(2, words), way),
                    2 * (m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles));
}

static uint64_t one_chain(const wafer_machine *m, uint64_t parts, uint64_t words) {
  uint64_t step = 2ull * m->ramp_cycles + m->hop_cycles + 1;
  return kernel_add(kernel_add(words, step * (parts - 1)),
                    m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles);
}

uint32_t wafer_reduce_group(const wafer_machine *m, uint32_t parts, uint64_t words) {
  uint32_t group = 1;
  while ((uint64_t)group * group < parts) group++;
  if (parts < 4) return parts;
  return two_phase(m, parts, group, words) < one_chain(m, parts, words) ? group : parts;
}

static uint64_t chain(const wafer_machine *m, cut c, uint64_t words) {
  if (c.parts < 2) return 0;
  if (c.stride == 1 && c.parts <= UINT32_MAX) {
    uint64_t group = wafer_reduce_group(m, (uint32_t)c.parts, words);
    return group < c.parts ? two_phase(m, c.parts, group, words) : one_chain(m, c.parts, words);
  }
  uint64_t step = 2ull * m->ramp_cycles + m->hop_cycles * c.stride + 1;
  return kernel_add(kernel_add(kernel_mul(words, c.stride), step * (c.parts - 1)),
                    m->vector_setup_cycles + m->descriptor_load_cycles);
}

static uint64_t broadcast(const wafer_machine *m, cut c, uint64_t words) {
  if (c.parts < 2) return 0;
  return kernel_add(kernel_mul(words, c.stride),
                    m->hop_cycles * c.stride * (c.parts - 1) + departure(m));
}

uint64_t kernel_chain(const kernel_view *k, uint32_t loop, uint64_t words) {
  return kernel_add(chain(k->machine, cut_of(k, k->split->cols, loop), words),
                    chain(k->machine, cut_of(k, k->split->rows, loop), words));
}

uint64_t kernel_broadcast(const kernel_view *k, uint32_t loop, uint64_t words) {
  return kernel_add(broadcast(k->machine, cut_of(k, k->split->rows, loop), words),
                    broadcast(k->machine, cut_of(k, k->split->cols, loop), words));
}

uint64_t kernel_multicast(const kernel_view *k, const uint32_t *parts, uint32_t loop,
                          uint64_t words) {
  return broadcast(k->machine, cut_of(k, parts, loop), words);
}

uint64_t kernel_reduce_loops(const kernel_view *k, uint64_t words) {
  uint64_t stored = 0, cycles = 0;
  for (uint32_t i = 0; i < k->body->output_count; i++) {
    uint32_t value = k->body->outputs[i];
    stored =
        kernel_add(stored, kernel_words(kernel_dtype(k, value), kernel_tile_elements(k, value)));
  }
  for (uint32_t loop = k->loops.count; loop-- > k->loops.parallel;) {
    cycles = kernel_add(cycles, kernel_chain(k, loop, words));
    cycles = kernel_add(cycles, kernel_broadcast(k, loop, stored));
  }
  return cycles;
}

#define PASS_INSTRUCTIONS 4 /* sends and receives of a core, and waiting for them */

/* What crosses cores in one direction, dims one after another: every core's words over all hops to
 * the farthest; one pass for all of them. Where a dim is cut both ways, a row of parts ends at the
 * other border, so that its last column sends as far as the row is wide. */
static uint64_t halo_pass(const kernel_view *k, bool columns) {
  const wafer_machine *m = k->machine;
  uint32_t value = k->windowed, rank = kernel_type(k, value)->shape.rank;
  uint64_t words = 0, hops = 0;
  for (uint32_t d = 0; d < rank; d++) {
    if (k->halo[d].foreign == 0) continue;
    uint32_t loop = (uint32_t)k->map[value].loop[d];
    cut rows = cut_of(k, k->split->rows, loop), cols = cut_of(k, k->split->cols, loop);
    uint64_t tiles = (uint64_t)kernel_most(k->halo[d].tiles, 1);
    uint64_t far = columns          ? cols.parts < 2   ? 0
                                      : rows.parts < 2 ? tiles * cols.stride
                                                       : (cols.parts - 1) * cols.stride
                   : rows.parts < 2 ? 0
                                    : rows.stride * (cols.parts < 2 ? tiles : 1);
    if (far == 0) continue;
    uint64_t elements = (uint64_t)k->halo[d].crossing;
    for (uint32_t e = 0; e < rank; e++)
      if (e != d)
        elements = kernel_mul(elements, (uint64_t)(e < d ? k->halo[e].reach : k->tile[value][e]));
    uint64_t flows = far / tiles; /* of parts that lie between two neighbours */
    words = kernel_add(
        words, kernel_mul(kernel_words(kernel_dtype(k, value), elements), flows > 0 ? flows : 1));
    if (far > hops) hops = far;
  }
  if (hops == 0) return 0;
  /* a bus: to its far end, and from each of its senders to the next */
  uint64_t bus = hops > 1 ? (2 * m->hop_cycles + 1) * hops : m->hop_cycles;
  return kernel_add(words, bus + departure(m) + PASS_INSTRUCTIONS);
}

uint64_t kernel_halo(const kernel_view *k) {
  if (k->windowed == UINT32_MAX) return 0;
  return kernel_add(halo_pass(k, false), halo_pass(k, true));
}

uint64_t kernel_fabric_cycles(const kernel_view *k) {
  const kernel_family *family = k->family[k->body->anchor];
  uint64_t cycles = kernel_add(kernel_pass_cycles(k), family->fabric ? family->fabric(k) : 0);
  for (uint32_t node = 0; node < k->body->node_count; node++)
    if (k->family[node]->moves) cycles = kernel_add(cycles, k->family[node]->moves(k, node));
  return cycles;
}
