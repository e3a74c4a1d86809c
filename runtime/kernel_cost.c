/* What a split costs on the slowest core, in integers of cycles and bytes.
 *
 * The programs are those of backend/program_*.c; arithmetic and fabric do not overlap.
 *
 * - Vector work: a loop nest is one instruction over up to four levels, further loops are the
 *   program's. descriptor_load + setup - 1 + elements / rate each, in a loop the descriptors once;
 *   from timings of one core: 5124 elements take 5130 cycles with descriptors in registers, 5158
 * when they are loaded. Half a cycle more per element where banks collide every other time.
 * - Chain reduce of B words over P parts: B + (2 T_R + 2)(P - 1); broadcast: B + P + 2 T_R; T_R is
 *   ramp_cycles ("Near-Optimal Wafer-Scale Reduce", HPDC 2024, arXiv 2404.15888); setup and
 *   descriptor_load besides. Where `stride` cores lie from one part to the next, a step is that
 * many hops and a link carries that many flows: B stride + (2 T_R + hop stride + 1)(P - 1). Partial
 * sums travel as f32, a word each; what is broadcast is packed.
 * - Halo exchange: a pass over the rows, one over the columns, each the words of the larger side
 * over one link, both directions at once: words x hops + hop x hops + 2 T_R + setup +
 * descriptor_load, where hops = stride x tiles that the farthest word crosses.
 *
 * Bytes of a core: code (kernels.def, and 96 per further node: a vector instruction, its loop and
 * four descriptors); tiles of weights, of inputs with their halo, and of outputs, each times its
 * depth; scratch: f32 accumulators when storage is narrower, and values kept between nodes beyond
 * what the first output's own buffer takes.
 *
 * A summed output is added to its sum once per sample, an f32 addition per element of the tile; a
 * core holds one sample of it, and in f32 the sum and the state beside each of its elements. */
#include "kernel_family.h"

static const uint32_t code_bytes[WAFER_FAMILY_COUNT] = {
#define FAMILY(name, bytes, ...) [WAFER_FAMILY_##name] = bytes,
#include "wafer/kernels.def"
};

#define NODE_CODE_BYTES 96
#define SUM_CODE_BYTES (NODE_CODE_BYTES * (1 + WAFER_UPDATE_INSTRUCTIONS))

uint64_t kernel_words(wafer_dtype dtype, uint64_t elements) {
  return kernel_mul(elements, wafer_dtype_bytes(dtype)) / WAFER_WAVELET_BYTES +
         (kernel_mul(elements, wafer_dtype_bytes(dtype)) % WAFER_WAVELET_BYTES != 0);
}

/* ---- tiles ---- */

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t clip(int64_t at, int64_t end) {
  return at < 0 ? 0 : at > end ? end : at;
}

/* What part `p` of the windowed operand lacks: its own elements lie in [p own, (p + 1) own), those
 * it needs in [from, to). */
static void lack(kernel_halo_dim *halo, int64_t extent, int64_t own, int64_t p, int64_t from,
                 int64_t to) {
  int64_t mine = clip(p * own, extent), mine_end = clip((p + 1) * own, extent);
  int64_t need = clip(from, extent), need_end = clip(to, extent);
  int64_t below = least(mine, need_end) - need, above = need_end - most(mine_end, need);
  if (need_end <= need || own < 1) return;
  halo->foreign = most(halo->foreign, most(below, 0) + most(above, 0));
  halo->crossing = most(halo->crossing, most(p * own - need, need_end - (p + 1) * own));
  halo->tiles = most(halo->tiles, most(p - need / own, (need_end - 1) / own - p));
  halo->reach = most(halo->reach, to - from);
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
    __int128 to = (__int128)(least((p + 1) * part, results) - 1) * w.num + w.after;
    bool whole = w.den == 1;
    lack(&k->halo[dim], extent, own, p, whole ? (int64_t)from : floor_div(from, w.den),
         (whole ? (int64_t)to : floor_div(to, w.den)) + 1);
  }
  k->halo[dim].reach = most(k->halo[dim].reach, own + k->halo[dim].foreign);
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
      if (loop < 0 || (map->even[d] && map->even[d] % parts[loop] != 0))
        k->tile[v][d] = shape->dims[d];
      else
        k->tile[v][d] = k->plain[v] ? part[loop] : kernel_ceil(shape->dims[d], parts[loop]);
      k->elements[v] = kernel_mul(k->elements[v], (uint64_t)k->tile[v][d]);
    }
  }
  if (k->windowed != UINT32_MAX) windows(k);
}

/* ---- vector work ---- */

uint64_t kernel_vector(const kernel_view *k, wafer_rate rate, wafer_dtype dtype, uint64_t elements,
                       uint64_t run) {
  const wafer_machine *m = k->machine;
  if (elements == 0) return 0;
  if (run == 0) run = 1;
  uint64_t instructions = elements / run + (elements % run != 0);
  uint64_t one = m->vector_setup_cycles + wafer_machine_cycles(m, rate, dtype, run);
  return kernel_add(m->descriptor_load_cycles, kernel_mul(instructions, one));
}

void kernel_nest_tile(kernel_nest *n, const kernel_view *k, uint32_t value, uint32_t from,
                      uint32_t to) {
  for (uint32_t d = from; d < to; d++) kernel_nest_add(n, k->tile[value][d]);
}

#define LEVELS 4             /* of a descriptor */
#define SCALARS_PER_PASS 4   /* of a loop of the program: two or three bases, counter, branch */
#define SCALARS_PER_LOOP 4   /* before it: the same registers' first values */
#define PASSES_WRITTEN_OUT 2 /* instead of a loop */

/* What instructions cost besides their elements, when `passes` of them are in `loops` loops. */
static uint64_t overhead(const wafer_machine *m, uint64_t passes, uint64_t loops) {
  uint64_t setup = m->vector_setup_cycles > 0 ? m->vector_setup_cycles - 1 : 0;
  if (passes <= PASSES_WRITTEN_OUT) return passes * (setup + m->descriptor_load_cycles);
  uint64_t each = setup + SCALARS_PER_PASS + 1;
  return kernel_add(kernel_mul(passes, each),
                    loops * SCALARS_PER_LOOP + setup + 1 + m->descriptor_load_cycles);
}

uint64_t kernel_nest_cycles(const kernel_view *k, wafer_rate rate, wafer_dtype dtype,
                            const kernel_nest *n) {
  int64_t level[LEVELS] = {1, 1, 1, 1}; /* the longest, in descending order */
  uint64_t elements = 1, passes = 1, loops = 0;
  for (uint32_t i = 0; i < n->count; i++) {
    int64_t extent = n->extent[i];
    elements = kernel_mul(elements, (uint64_t)extent);
    for (uint32_t l = 0; l < LEVELS; l++) {
      if (extent <= level[l]) continue;
      int64_t shorter = level[l];
      level[l] = extent;
      extent = shorter;
    }
    passes = kernel_mul(passes, (uint64_t)extent);
    loops += extent > 1;
  }
  if (elements == 0) return 0;
  uint64_t cycles = wafer_machine_cycles(k->machine, rate, dtype, elements);
  const wafer_throughput *step = &k->machine->rate[rate][wafer_dtype_bits(dtype) <= 16];
  uint32_t per_step = (step->elements + step->cycles - 1) / step->cycles;
  if (n->conflicts) cycles = kernel_add(cycles, elements / per_step / 2);
  return kernel_add(cycles, overhead(k->machine, passes, loops));
}

uint64_t kernel_over_tile(const kernel_view *k, wafer_rate rate, wafer_dtype dtype,
                          uint32_t value) {
  kernel_nest n = {0};
  kernel_nest_add(&n, (int64_t)(k->elements[value] < INT64_MAX ? k->elements[value] : INT64_MAX));
  return kernel_nest_cycles(k, rate, dtype, &n);
}

uint64_t kernel_accumulators(const kernel_view *k, uint32_t node) {
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_type(k, result)->dtype;
  uint64_t cycles = kernel_over_tile(k, WAFER_RATE_move, dtype, result);
  if (kernel_dtype(k, result) == dtype) return cycles;
  return kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_convert, dtype, result));
}

/* Of each dim, the core in the corner: one side where the dim is cut, else both. */
uint64_t kernel_pads(const kernel_view *k) {
  uint32_t value = k->windowed;
  uint64_t cycles = 0;
  if (value == UINT32_MAX) return 0;
  const wafer_shape *shape = &kernel_type(k, value)->shape;
  for (uint32_t d = 0; d < shape->rank; d++) {
    const kernel_window *w = &k->window[d];
    int loop = k->map[value].loop[d];
    if (w->den != 1 || loop < 0) continue;
    int64_t parts = (int64_t)k->split->rows[loop] * k->split->cols[loop];
    int64_t before = w->before, after = (k->loops.extent[loop] - 1) * w->num + w->after + 1;
    after -= shape->dims[d];
    if (parts > 1) before = most(before, after), after = 0;
    uint64_t others = k->elements[value] / (uint64_t)most(k->tile[value][d], 1);
    for (uint32_t side = 0; side < 2; side++) {
      int64_t pad = side ? after : before;
      if (pad <= 0) continue;
      kernel_nest n = {0};
      kernel_nest_add(&n, pad);
      kernel_nest_add(&n, (int64_t)others);
      cycles =
          kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_move, kernel_dtype(k, value), &n));
    }
  }
  return cycles;
}

static uint64_t tile_bytes(const kernel_view *k, uint32_t value);
static uint64_t input_bytes(const kernel_view *k, uint32_t value);

/* What passes in slices: a task, and an instruction with its descriptors, for each. */
static uint64_t slice_cycles(const kernel_view *k) {
  const wafer_machine *m = k->machine;
  uint64_t slices = 0;
  for (uint32_t i = 0; i < k->body->input_count; i++)
    if (k->body->input_is_weight[i] && k->body->input_depth[i] == 0)
      slices = kernel_add(slices, input_bytes(k, i) / WAFER_SLICE_BYTES);
  for (uint32_t i = 0; i < k->body->output_count && k->body->output_depth == 0; i++)
    slices = kernel_add(slices, tile_bytes(k, k->body->outputs[i]) / WAFER_SLICE_BYTES);
  return kernel_mul(slices, m->task_switch_cycles + m->vector_setup_cycles +
                                (uint64_t)m->descriptor_load_cycles);
}

uint64_t kernel_compute_cycles(const kernel_view *k) {
  uint64_t cycles = slice_cycles(k);
  for (uint32_t node = 0; node < k->body->node_count; node++)
    cycles = kernel_add(cycles, k->family[node]->compute(k, node));
  for (uint32_t i = 0; i < k->body->output_count; i++)
    if (wafer_body_sums(k->body, i))
      cycles = kernel_add(cycles, kernel_over_tile(k, wafer_op_get(WAFER_OP_add)->rate,
                                                   WAFER_DTYPE_f32, k->body->outputs[i]));
  return cycles;
}

/* ---- fabric work ---- */

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

static uint64_t chain(const wafer_machine *m, cut c, uint64_t words) {
  if (c.parts < 2) return 0;
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
    uint64_t tiles = (uint64_t)most(k->halo[d].tiles, 1);
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
  uint64_t cycles = family->fabric ? family->fabric(k) : 0;
  for (uint32_t node = 0; node < k->body->node_count; node++)
    if (k->family[node]->moves) cycles = kernel_add(cycles, k->family[node]->moves(k, node));
  return cycles;
}

/* ---- bytes ---- */

static uint64_t tile_bytes(const kernel_view *k, uint32_t value) {
  return kernel_mul(k->elements[value], k->bytes[value]);
}

/* The windowed operand's buffer has room for the halo. */
static uint64_t input_bytes(const kernel_view *k, uint32_t value) {
  if (value != k->windowed) return tile_bytes(k, value);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < kernel_type(k, value)->shape.rank; d++)
    elements = kernel_mul(elements, (uint64_t)k->halo[d].reach);
  return kernel_mul(elements, k->bytes[value]);
}

static bool is_source(const wafer_node *node) {
  return wafer_op_is(node->op, WAFER_TRAIT_SOURCE);
}

static uint64_t constant_bytes(const kernel_view *k, uint32_t node) {
  const wafer_attr *value = wafer_attr_find(&kernel_node(k, node)->attrs, WAFER_ATTR_value);
  uint32_t result = kernel_result(k, node);
  return value && value->data.splat ? k->bytes[result] : tile_bytes(k, result);
}

/* Most bytes of values between nodes at one time. */
static uint64_t between_bytes(const kernel_view *k) {
  uint64_t live = 0, peak = 0;
  for (uint32_t node = 0; node < k->body->node_count; node++) {
    const wafer_node *n = kernel_node(k, node);
    uint32_t result = kernel_result(k, node);
    uint64_t bytes = k->between[result] && !k->in_output[result] ? tile_bytes(k, result) : 0;
    uint64_t with = kernel_add(live, k->in_place[result] ? 0 : bytes);
    if (with > peak) peak = with;
    live = kernel_add(live, bytes);
    for (uint32_t i = 0; i < n->operand_count; i++) {
      uint32_t v = n->operands[i];
      bool again = false; /* an operand named twice ends once */
      for (uint32_t j = 0; j < i; j++) again |= n->operands[j] == v;
      if (k->between[v] && !k->in_output[v] && k->last[v] == node && !again)
        live -= tile_bytes(k, v);
    }
  }
  return peak;
}

static uint64_t accumulator_bytes(const kernel_view *k) {
  uint32_t anchor = k->body->anchor, result = kernel_result(k, anchor);
  if (!k->family[anchor]->accumulates || !k->stored[result]) return 0;
  wafer_dtype sums = kernel_type(k, result)->dtype;
  if (kernel_dtype(k, result) == sums) return 0;
  uint64_t bytes = kernel_mul(kernel_tile_elements(k, result), wafer_dtype_bytes(sums));
  bool slices = k->body->output_depth == 0 && bytes > WAFER_SLICE_BYTES;
  return slices ? WAFER_SLICE_BYTES : bytes;
}

static bool cut_both_ways(const kernel_view *k) {
  uint64_t rows = 1, cols = 1;
  for (uint32_t l = 0; l < k->loops.count; l++) {
    rows |= k->split->rows[l] > 1 ? 2 : 0;
    cols |= k->split->cols[l] > 1 ? 2 : 0;
  }
  return rows > 1 && cols > 1;
}

/* Sums over parts that lie both ways: results go to the others in two passes. */
static bool summed_both_ways(const kernel_view *k) {
  bool rows = false, cols = false;
  for (uint32_t l = k->loops.parallel; l < k->loops.count; l++) {
    rows |= k->split->rows[l] > 1;
    cols |= k->split->cols[l] > 1;
  }
  return rows && cols;
}

/* What waits on a core between a pass over the rows and one over the columns; where a value between
 * nodes has windows, those. */
static uint64_t transit_bytes(const kernel_view *k) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < k->body->output_count && summed_both_ways(k); i++) {
    uint64_t one = tile_bytes(k, k->body->outputs[i]);
    if (k->body->output_depth == 0 && one > WAFER_SLICE_BYTES) one = WAFER_SLICE_BYTES;
    if (one > bytes) bytes = one;
  }
  if (k->windowed == UINT32_MAX) return bytes;
  if (k->windowed >= k->body->input_count) bytes = kernel_add(bytes, input_bytes(k, k->windowed));
  return cut_both_ways(k) ? kernel_add(bytes, input_bytes(k, k->windowed)) : bytes;
}

/* Of all copies of a value that a core has room for. */
static uint64_t room_for(uint64_t bytes, uint32_t depth) {
  if (depth > 0) return kernel_mul(bytes, depth);
  return kernel_mul(2, bytes < WAFER_SLICE_BYTES ? bytes : WAFER_SLICE_BYTES);
}

/* An input whose copy ends with the phase lies there as a whole. */
static uint32_t depth_of(const wafer_kernel_body *body, uint32_t input) {
  uint32_t depth = body->input_depth[input];
  return depth || body->input_is_weight[input] ? depth : 1;
}

/* A sum and what lies beside its elements. */
static uint64_t sum_bytes(const kernel_view *k, uint32_t value) {
  return kernel_mul(kernel_mul(k->elements[value], wafer_dtype_bytes(WAFER_DTYPE_f32)),
                    1 + (uint64_t)k->body->state);
}

void kernel_bytes(const kernel_view *k, wafer_cost *cost) {
  const wafer_kernel_body *body = k->body;
  cost->code_bytes = code_bytes[body->family] + NODE_CODE_BYTES * (uint64_t)(body->node_count - 1);
  cost->weight_bytes = cost->input_bytes = cost->output_bytes = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    uint64_t *bytes = body->input_is_weight[i] ? &cost->weight_bytes : &cost->input_bytes;
    *bytes = kernel_add(*bytes, room_for(input_bytes(k, i), depth_of(body, i)));
  }
  for (uint32_t node = 0; node < body->node_count; node++)
    if (k->body->nodes[node].operand_count == 0 && is_source(kernel_node(k, node)))
      cost->weight_bytes = kernel_add(cost->weight_bytes, constant_bytes(k, node));
  for (uint32_t i = 0; i < body->output_count; i++) {
    bool sums = wafer_body_sums(body, i);
    uint64_t all = room_for(tile_bytes(k, body->outputs[i]), sums ? 1 : body->output_depth);
    cost->output_bytes = kernel_add(cost->output_bytes, all);
    if (!sums) continue;
    cost->weight_bytes = kernel_add(cost->weight_bytes, sum_bytes(k, body->outputs[i]));
    cost->code_bytes += SUM_CODE_BYTES;
  }
  cost->scratch_bytes =
      kernel_add(kernel_add(accumulator_bytes(k), between_bytes(k)), transit_bytes(k));
  for (uint32_t node = 0; node < body->node_count; node++)
    if (k->family[node]->code)
      cost->code_bytes = kernel_add(cost->code_bytes, k->family[node]->code(k, node));
  for (uint32_t node = 0; node < body->node_count; node++)
    if (k->family[node]->scratch)
      cost->scratch_bytes = kernel_add(cost->scratch_bytes, k->family[node]->scratch(k, node));
}

/* ---- all of it ---- */

static uint64_t operations(const kernel_view *k) {
  uint64_t all = 0;
  for (uint32_t node = 0; node < k->body->node_count; node++) {
    const kernel_family *family = k->family[node];
    int64_t elements = 0;
    if (is_source(kernel_node(k, node))) continue;
    (void)wafer_shape_elements(&kernel_type(k, kernel_result(k, node))->shape, &elements);
    all = kernel_add(
        all, kernel_mul((uint64_t)elements, family->operations ? family->operations(k, node) : 1));
  }
  return all;
}

static uint64_t multiply_cycles(const kernel_view *k) {
  uint64_t cycles = 0;
  for (uint32_t node = 0; node < k->body->node_count; node++)
    if (k->family[node] == &kernel_family_gemm)
      cycles = kernel_add(cycles, k->family[node]->compute(k, node));
  return cycles;
}

void wafer_kernel_cost(const wafer_machine *machine, const wafer_kernel_body *body,
                       const wafer_split *split, wafer_cost *cost) {
  kernel_view k;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  *cost = (wafer_cost){.compute_cycles = kernel_compute_cycles(&k),
                       .multiply_cycles = multiply_cycles(&k),
                       .fabric_cycles = kernel_fabric_cycles(&k)};
  cost->cycles = kernel_add(cost->compute_cycles, cost->fabric_cycles);
  cost->operations = operations(&k);
  kernel_bytes(&k, cost);
}
