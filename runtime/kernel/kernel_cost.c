/* What a split costs on the slowest core, in integers of cycles and bytes.
 *
 * The programs are those of backend/program/program_*.c; arithmetic and fabric do not overlap
 * (kernel_vector.c, kernel_fabric.c).
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

/* Pairs read what begins at whole turns of the banks. */
static uint64_t tile_bytes(const kernel_view *k, uint32_t value) {
  int dim = k->sparse == UINT32_MAX ? -1 : wafer_pairs_dim(k->body, k->sparse, value);
  return dim < 0 ? kernel_mul(k->elements[value], k->bytes[value])
                 : kernel_apart_bytes(k, value, dim, k->tile[value], k->bytes[value]);
}

/* The windowed operand's buffer has room for the halo; of a sparse weight pairs may lie there. */
static uint64_t input_bytes(const kernel_view *k, uint32_t value) {
  uint64_t pairs;
  if (kernel_pairs_bytes(k, value, &pairs)) return pairs;
  if (value != k->windowed) return tile_bytes(k, value);
  int64_t reach[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < kernel_type(k, value)->shape.rank; d++) reach[d] = k->halo[d].reach;
  int dim = k->sparse == UINT32_MAX ? -1 : wafer_pairs_dim(k->body, k->sparse, value);
  return kernel_apart_bytes(k, value, dim, reach, k->bytes[value]);
}

/* ---- cycles ---- */

/* Slices of weights and of results: a task, and an instruction with its descriptors, for each. */
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

/* ---- bytes ---- */

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
  wafer_dtype sums = kernel_sums(k, result);
  if (kernel_dtype(k, result) == sums) return 0;
  int dim = k->sparse == UINT32_MAX ? -1 : wafer_pairs_sums_dim(k->body, k->sparse, result);
  uint64_t bytes = kernel_apart_bytes(k, result, dim, k->tile[result], wafer_dtype_bytes(sums));
  bool slices = k->body->output_depth == 0 && bytes > WAFER_SLICE_BYTES && !kernel_sums_wait(k);
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
    *bytes = kernel_add(*bytes, k->passes[i] ? kernel_passing_bytes(k, i)
                                             : room_for(input_bytes(k, i), depth_of(body, i)));
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
  cost->code_bytes = kernel_add(cost->code_bytes, kernel_pairs_code(k));
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
    if (k->family[node]->dense)
      cycles =
          kernel_add(cycles, kernel_add(kernel_multiply(k, node), kernel_accumulators(k, node)));
  return cycles;
}

static void cost_of(kernel_view *k, const wafer_split *split, wafer_cost *cost) {
  kernel_view_split(k, split);
  *cost = (wafer_cost){.compute_cycles = kernel_compute_cycles(k),
                       .multiply_cycles = multiply_cycles(k),
                       .fabric_cycles = kernel_fabric_cycles(k)};
  cost->cycles = kernel_add(cost->compute_cycles, cost->fabric_cycles);
  cost->operations = operations(k);
  kernel_bytes(k, cost);
}

void wafer_kernel_cost(const wafer_machine *machine, const wafer_kernel_body *body,
                       const wafer_split *split, wafer_cost *cost) {
  kernel_view k;
  kernel_view_open(&k, machine, body);
  cost_of(&k, split, cost);
}

void wafer_opened_body_cost(wafer_opened_body *opened, const wafer_split *split, wafer_cost *cost) {
  cost_of(&opened->view, split, cost);
}

void wafer_kernel_bytes(const wafer_machine *machine, const wafer_kernel_body *body,
                        const wafer_split *split, wafer_cost *cost) {
  kernel_view k;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  *cost = (wafer_cost){0};
  kernel_bytes(&k, cost);
}

void wafer_kernel_multiply(const wafer_machine *machine, const wafer_kernel_body *body,
                           const wafer_split *split, uint64_t *cycles, uint64_t *dense) {
  kernel_view k;
  kernel_view_open(&k, machine, body);
  kernel_view_split(&k, split);
  *cycles = multiply_cycles(&k);
  k.sparse = UINT32_MAX;
  *dense = multiply_cycles(&k);
}
