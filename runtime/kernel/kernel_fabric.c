/* Fabric work inside a kernel's rectangle, in cycles.
 *
 * - Chain reduce of B words over P parts: B + (2 T_R + 2)(P - 1); broadcast: B + P + 2 T_R; T_R is
 *   ramp_cycles ("Near-Optimal Wafer-Scale Reduce", HPDC 2024, arXiv 2404.15888); setup and
 *   descriptor_load besides. Where `stride` cores lie from one part to the next, a step is that
 * many hops and a link carries that many flows: B stride + (2 T_R + hop stride + 1)(P - 1). Partial
 * sums travel as f32, a word each; what is broadcast is packed.
 * Neighbours may be summed in two phases instead: wafer_reduce_group.
 * - Halo exchange: a pass over the rows, one over the columns, both directions at once: what the
 * busiest link carries (bus_cycles) + hops + 2 T_R + setup + descriptor_load. */
#include "kernel_family.h"

uint64_t kernel_words(wafer_dtype dtype, uint64_t elements) {
  return kernel_mul(elements, wafer_dtype_bytes(dtype)) / WAFER_WAVELET_BYTES +
         (kernel_mul(elements, wafer_dtype_bytes(dtype)) % WAFER_WAVELET_BYTES != 0);
}

/* One direction of a cut loop: its parts, and how many cores lie from one part to the next. */
typedef struct cut {
  uint64_t parts, stride;
} cut;

static cut cut_of(const wafer_loops *loops, const uint32_t *parts, uint32_t loop) {
  cut c = {.parts = parts[loop], .stride = 1};
  for (uint32_t i = loop + 1; i < loops->count; i++) c.stride *= parts[i];
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

/* Parts that lie apart are always one chain. */
static uint32_t group_of(const wafer_machine *m, cut c, uint64_t words) {
  if (c.parts < 2) return 1;
  return c.stride == 1 ? wafer_reduce_group(m, (uint32_t)c.parts, words) : (uint32_t)c.parts;
}

wafer_sum_order wafer_kernel_sum_order(const wafer_machine *machine, const wafer_kernel_body *body,
                                       const wafer_split *split) {
  uint32_t value = body->input_count + body->anchor;
  const wafer_type *type = wafer_body_type(body, value);
  wafer_layout layout = wafer_kernel_value_layout(body, split, value);
  wafer_loops loops;
  wafer_kernel_loops(body, &loops);
  uint32_t loop = loops.parallel;
  if (loop == loops.count) return (wafer_sum_order){1, 1, 1, 1};
  uint64_t words =
      kernel_words(wafer_sum_dtype(type->dtype), wafer_layout_tile(&layout, &type->shape));
  return (wafer_sum_order){
      .rows = split->rows[loop],
      .row_group = group_of(machine, cut_of(&loops, split->rows, loop), words),
      .cols = split->cols[loop],
      .col_group = group_of(machine, cut_of(&loops, split->cols, loop), words),
  };
}

/* `flows`: chains that share a link, those of the loops in between that are not summed. */
static uint64_t chain(const wafer_machine *m, cut c, uint64_t flows, uint64_t words) {
  if (c.parts < 2) return 0;
  if (c.stride == 1 && c.parts <= UINT32_MAX) {
    uint64_t group = wafer_reduce_group(m, (uint32_t)c.parts, words);
    return group < c.parts ? two_phase(m, c.parts, group, words) : one_chain(m, c.parts, words);
  }
  uint64_t step = 2ull * m->ramp_cycles + m->hop_cycles * c.stride + 1;
  return kernel_add(kernel_add(kernel_mul(words, flows), step * (c.parts - 1)),
                    m->vector_setup_cycles + m->descriptor_load_cycles);
}

/* Loops that are summed come after the others, and the innermost has gone before. */
static uint64_t flows_of(const wafer_loops *loops, const uint32_t *parts, uint32_t loop) {
  uint64_t flows = 1;
  for (uint32_t i = loop + 1; i < loops->parallel; i++) flows *= parts[i];
  return flows;
}

static uint64_t broadcast(const wafer_machine *m, cut c, uint64_t words) {
  if (c.parts < 2) return 0;
  return kernel_add(kernel_mul(words, c.stride),
                    m->hop_cycles * c.stride * (c.parts - 1) + departure(m));
}

uint64_t kernel_chain(const kernel_view *k, uint32_t loop, uint64_t words) {
  const wafer_split *s = k->split;
  return kernel_add(chain(k->machine, cut_of(&k->loops, s->cols, loop),
                          flows_of(&k->loops, s->cols, loop), words),
                    chain(k->machine, cut_of(&k->loops, s->rows, loop),
                          flows_of(&k->loops, s->rows, loop), words));
}

uint64_t kernel_broadcast(const kernel_view *k, uint32_t loop, uint64_t words) {
  return kernel_add(broadcast(k->machine, cut_of(&k->loops, k->split->rows, loop), words),
                    broadcast(k->machine, cut_of(&k->loops, k->split->cols, loop), words));
}

uint64_t kernel_multicast(const kernel_view *k, const uint32_t *parts, uint32_t loop,
                          uint64_t words) {
  return broadcast(k->machine, cut_of(&k->loops, parts, loop), words);
}

uint64_t kernel_reduce_loops(const kernel_view *k, uint64_t words) {
  cut rows = {1, 1}, cols = {1, 1}; /* of all loops that are summed: they are the innermost */
  uint64_t stored = 0, cycles = 0;
  for (uint32_t i = 0; i < k->body->output_count; i++) {
    uint32_t value = k->body->outputs[i];
    stored =
        kernel_add(stored, kernel_words(kernel_dtype(k, value), kernel_tile_elements(k, value)));
  }
  for (uint32_t loop = k->loops.count; loop-- > k->loops.parallel;) {
    cycles = kernel_add(cycles, kernel_chain(k, loop, words));
    rows.parts *= k->split->rows[loop];
    cols.parts *= k->split->cols[loop];
  }
  cycles = kernel_add(cycles, broadcast(k->machine, rows, stored));
  return kernel_add(cycles, broadcast(k->machine, cols, stored));
}

/* Loops inside of one have gone before: their first parts alone are left. */
uint64_t kernel_reduce_dims(const kernel_view *k, uint32_t first, uint64_t words, uint64_t stored) {
  const wafer_machine *m = k->machine;
  const wafer_split *s = k->split;
  cut rows = {1, 1}, cols = {1, 1};
  uint64_t cycles = 0;
  for (uint32_t loop = k->loops.parallel; loop-- > first;) {
    cycles = kernel_add(cycles, chain(m, cut_of(&k->loops, s->cols, loop), 1, words));
    cycles = kernel_add(cycles, chain(m, cut_of(&k->loops, s->rows, loop), 1, words));
    rows.parts *= s->rows[loop];
    cols.parts *= s->cols[loop];
  }
  cycles = kernel_add(cycles, broadcast(m, rows, stored));
  return kernel_add(cycles, broadcast(m, cols, stored));
}

#define PASS_INSTRUCTIONS 4 /* sends and receives of a core, and waiting for them */

/* What every core of a line sends in one direction: words, and how many cores far. */
typedef struct flow {
  uint64_t far, words;
} flow;

/* Buses begin every `far` cores and reach 2 far - 1 (backend/exchange/exchange_line.c): over a link
 * of the last sender go the words of its own bus and of the one before, and each of its own senders
 * hands over to the next. */
static uint64_t bus_cycles(const wafer_machine *m, uint64_t cores, flow all) {
  uint64_t senders = cores > all.far ? cores - all.far : 1;
  if (senders > 2 * all.far - 1) senders = 2 * all.far - 1;
  uint64_t shared = kernel_mul(all.words, senders);
  uint64_t handed = kernel_mul(kernel_add(all.words, 1), all.far) - 1;
  uint64_t travelled = kernel_add(all.words, (2 * all.far - 1) * m->hop_cycles);
  uint64_t most = shared > handed ? shared : handed;
  return kernel_add(most > travelled ? most : travelled, departure(m) + PASS_INSTRUCTIONS);
}

/* Flows in ascending order of `far`: near ones apart from the others where that is sooner, as in
 * backend/exchange/exchange_reach.c. */
static uint64_t flow_cycles(const wafer_machine *m, uint64_t cores, const flow *flows,
                            uint32_t count) {
  flow near = {0}, all = {0};
  if (count == 0) return 0;
  for (uint32_t i = 0; i < count; i++)
    all = (flow){flows[i].far, kernel_add(all.words, flows[i].words)};
  uint64_t best = bus_cycles(m, cores, all);
  for (uint32_t i = 0; i + 1 < count; i++) {
    near = (flow){flows[i].far, kernel_add(near.words, flows[i].words)};
    uint64_t apart = kernel_add(bus_cycles(m, cores, near),
                                bus_cycles(m, cores, (flow){all.far, all.words - near.words}));
    if (flows[i + 1].far >= 2 * near.far && apart < best) best = apart;
  }
  return best;
}

/* How many cores far the farthest words of a dim go, in one direction. Where a dim is cut both
 * ways, a row of parts ends at the other border, so that its last column sends as far as the row is
 * wide. */
static uint64_t distance(const kernel_view *k, uint32_t d, bool columns) {
  int loop = k->map[k->windowed].loop[d];
  if (k->halo[d].foreign == 0 || loop < 0) return 0;
  cut rows = cut_of(&k->loops, k->split->rows, (uint32_t)loop),
      cols = cut_of(&k->loops, k->split->cols, (uint32_t)loop);
  uint64_t tiles = (uint64_t)kernel_most(k->halo[d].tiles, 1);
  if (columns && cols.parts > 1)
    return rows.parts < 2 ? tiles * cols.stride : (cols.parts - 1) * cols.stride;
  if (!columns && rows.parts > 1) return rows.stride * (cols.parts < 2 ? tiles : 1);
  return 0;
}

/* Elements of another dim that go along: the tile that the anchor reads of it; what the pass before
 * has brought, too; and where its neighbours lie on the same line, corners for them. */
static int64_t breadth(const kernel_view *k, uint32_t e, uint64_t far, bool columns) {
  const kernel_map *map = &k->windowed_map;
  int64_t extent = kernel_type(k, k->windowed)->shape.dims[e], tile = k->tile[k->windowed][e];
  uint64_t own = distance(k, e, columns);
  if (map->loop[e] >= 0 && k->map[k->windowed].loop[e] < 0) {
    uint32_t loop = (uint32_t)map->loop[e];
    kernel_cut c = kernel_cut_of(map, e, k->split->rows[loop], k->split->cols[loop]);
    tile = kernel_ceil(extent, (int64_t)c.rows * c.cols);
  }
  int64_t corners = kernel_most(k->halo[e].before, 0) + kernel_most(k->halo[e].after, 0);
  if (own) return own < far && tile > k->halo[e].crossing ? tile + corners : tile;
  return columns && distance(k, e, false) ? kernel_most(tile, k->halo[e].reach) : tile;
}

/* Words of `count` elements of dim d, and as many of the others as go along. */
static uint64_t slab_words(const kernel_view *k, uint32_t d, int64_t count, uint64_t far,
                           bool columns) {
  uint64_t elements = (uint64_t)count;
  uint32_t rank = kernel_type(k, k->windowed)->shape.rank;
  for (uint32_t e = 0; e < rank; e++)
    if (e != d) elements = kernel_mul(elements, (uint64_t)breadth(k, e, far, columns));
  return kernel_words(kernel_dtype(k, k->windowed), elements);
}

/* What a pass sends in one direction for all dims: flows in ascending order of `far`. */
static uint32_t halo_flows(const kernel_view *k, bool columns, bool up, flow *flows) {
  uint32_t rank = kernel_type(k, k->windowed)->shape.rank, count = 0;
  for (uint32_t d = 0; d < rank; d++) {
    uint64_t far = distance(k, d, columns);
    int64_t crossing = up ? k->halo[d].before : k->halo[d].after;
    if (far == 0 || crossing <= 0) continue;
    uint32_t at = count++;
    for (; at && flows[at - 1].far > far; at--) flows[at] = flows[at - 1];
    crossing = kernel_least(crossing, k->tile[k->windowed][d]);
    flows[at] = (flow){far, slab_words(k, d, crossing, far, columns)};
  }
  return count;
}

/* What a core that has neighbours on both sides takes, which comes through one ramp. */
static uint64_t taken(const kernel_view *k, bool columns) {
  uint64_t words = 0;
  for (uint32_t d = 0; d < kernel_type(k, k->windowed)->shape.rank; d++) {
    uint64_t far = distance(k, d, columns);
    if (far) words = kernel_add(words, slab_words(k, d, k->halo[d].foreign, far, columns));
  }
  return words;
}

/* Both directions of a line at once; a core in the middle sends both ways through one ramp. */
static uint64_t halo_pass(const kernel_view *k, bool columns) {
  uint64_t cores = 1, sent = 0, far = 0, most = 0, in = taken(k, columns);
  for (uint32_t l = 0; l < k->loops.count; l++)
    cores *= columns ? k->split->cols[l] : k->split->rows[l];
  for (uint32_t up = 0; up < 2; up++) {
    flow flows[WAFER_MAX_RANK];
    uint32_t count = halo_flows(k, columns, up, flows);
    uint64_t cycles = flow_cycles(k->machine, cores, flows, count);
    if (cycles > most) most = cycles;
    for (uint32_t i = 0; i < count; i++) sent = kernel_add(sent, flows[i].words);
    if (count && flows[count - 1].far > far) far = flows[count - 1].far;
  }
  if (sent == 0) return 0;
  uint64_t ramp = cores > 2 * far && sent > in ? sent : in;
  ramp = kernel_add(ramp, departure(k->machine) + PASS_INSTRUCTIONS);
  return ramp > most ? ramp : most;
}

uint64_t kernel_halo(const kernel_view *k) {
  if (k->windowed == UINT32_MAX) return 0;
  return kernel_add(halo_pass(k, false), halo_pass(k, true));
}

/* What a core sends to the farthest neighbour, in the direction with more of it. */
static flow message(const kernel_view *k, bool columns) {
  flow most = {0};
  for (uint32_t up = 0; up < 2; up++) {
    flow flows[WAFER_MAX_RANK], all = {0};
    uint32_t count = halo_flows(k, columns, up, flows);
    for (uint32_t i = 0; i < count; i++)
      all = (flow){flows[i].far, kernel_add(all.words, flows[i].words)};
    if (all.words > most.words) most = all;
  }
  return most;
}

uint64_t kernel_halo_late(const kernel_view *k, uint64_t late) {
  uint64_t all = kernel_halo(k), alone = late;
  for (uint32_t columns = 0; columns < 2; columns++) {
    flow m = message(k, columns);
    if (m.words > k->machine->hop_queue + k->machine->ramp_cycles) return late;
    if (m.words)
      alone += m.words + m.far * k->machine->hop_cycles + departure(k->machine) + PASS_INSTRUCTIONS;
  }
  return alone > all ? alone - all : 0;
}

uint64_t kernel_fabric_cycles(const kernel_view *k) {
  const kernel_family *family = k->family[k->body->anchor];
  uint64_t cycles = kernel_add(kernel_pass_cycles(k), family->fabric ? family->fabric(k) : 0);
  for (uint32_t node = 0; node < k->body->node_count; node++)
    if (k->family[node]->moves) cycles = kernel_add(cycles, k->family[node]->moves(k, node));
  return cycles;
}
