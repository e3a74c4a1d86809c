/* A plan made by hand: y = relu(x) + w over 8 numbers, two kernels of one core each; in pipelined
 * mode in one phase, in streaming mode in a phase each. Tests edit it before use; it stays in place
 * while used. */
#ifndef RELAY_PLAN_H
#define RELAY_PLAN_H

#include <string.h>

#include "wafer/plan.h"

enum { RELAY_X, RELAY_H, RELAY_W, RELAY_Y, RELAY_V, RELAY_VALUES };
enum { RELAY_IN, RELAY_HAND_OVER, RELAY_WEIGHT, RELAY_OUT, RELAY_STREAMS };

typedef struct relay_plan {
  wafer_plan plan;
  wafer_machine machine;
  wafer_value values[RELAY_VALUES];
  wafer_kernel kernels[2];
  wafer_stream streams[RELAY_STREAMS];
  wafer_phase phases[2];
  wafer_function function;
  wafer_action actions[2][8];
  uint32_t frees[2][4];
  wafer_step steps[4];
  wafer_route_segment routes[RELAY_STREAMS];
  wafer_type types[2][2];
  wafer_node nodes[2];
  wafer_memory_item memory[2];
  uint32_t depths[2];
  float w[8], v[8];
} relay_plan;

static const uint32_t relay_numbers[] = {0, 1, 2, 3, 4};
static const bool relay_is_weight[2][2] = {{false, false}, {false, true}};

static inline void relay_kernel(relay_plan *r, uint32_t i, wafer_op op) {
  wafer_kernel *k = &r->kernels[i];
  r->types[i][0] = r->types[i][1] = r->values[RELAY_X].type;
  r->nodes[i] = (wafer_node){.op = op,
                             .name = i ? "Add_1" : "Relu_0",
                             .operand_count = i + 1,
                             .operands = {0, 1},
                             .type = r->types[i][0]};
  *k = (wafer_kernel){.name = i ? "sum" : "bend",
                      .body = {.family = WAFER_FAMILY_map,
                               .input_count = i + 1,
                               .inputs = r->types[i],
                               .input_is_weight = relay_is_weight[i],
                               .input_depth = r->depths,
                               .output_depth = 1,
                               .node_count = 1,
                               .nodes = &r->nodes[i],
                               .output_count = 1,
                               .outputs = &relay_numbers[i + 1],
                               .storage = WAFER_DTYPE_f32},
                      .inputs = &relay_numbers[i],
                      .outputs = &relay_numbers[i ? RELAY_Y : RELAY_H],
                      .rect = {.x = 2 * i, .y = 0, .width = 1, .height = 1},
                      .replicas = 1,
                      .slabs = 2,
                      .memory_count = 1,
                      .memory = &r->memory[i]};
  for (int d = 0; d < WAFER_MAX_LOOPS; d++) k->split.rows[d] = k->split.cols[d] = 1;
}

/* Depths for the plan's batch, and what the kernels then cost; after an edit of batch or storage.
 */
static inline void relay_settle(relay_plan *r, const wafer_machine *machine) {
  r->depths[0] = r->plan.batch;
  r->depths[1] = 1; /* the weight */
  for (uint32_t i = 0; i < RELAY_STREAMS; i++)
    r->streams[i].words = 8 * wafer_dtype_bytes(r->plan.storage) / WAFER_WAVELET_BYTES;
  for (int i = 0; i < 2; i++) {
    wafer_kernel *k = &r->kernels[i];
    k->body.output_depth = r->plan.batch;
    k->body.storage = r->plan.storage;
    wafer_kernel_cost(machine, &k->body, &k->split, &k->cost);
    r->memory[i] = (wafer_memory_item){
        .what = "all", .node = r->nodes[i].name, .bytes = wafer_cost_bytes(&k->cost)};
  }
}

static inline wafer_holding relay_at(const relay_plan *r, uint32_t kernel) {
  return (wafer_holding){
      .where = WAFER_AT_wafer,
      .rect = r->kernels[kernel].rect,
      .layout = wafer_kernel_output_layout(&r->kernels[kernel].body, &r->kernels[kernel].split, 0)};
}

static inline void relay_streams(relay_plan *r) {
  const wafer_holding edge = {.where = WAFER_AT_edge}, store = {.where = WAFER_AT_memoryx};
  const wafer_stream streams[] = {{.value = RELAY_X,
                                   .from = edge,
                                   .to = relay_at(r, 0),
                                   .from_kernel = WAFER_NONE,
                                   .to_kernel = 0},
                                  {.value = RELAY_H,
                                   .from = relay_at(r, 0),
                                   .to = relay_at(r, 1),
                                   .from_kernel = 0,
                                   .to_kernel = 1},
                                  {.value = RELAY_W,
                                   .from = store,
                                   .to = relay_at(r, 1),
                                   .from_kernel = WAFER_NONE,
                                   .to_kernel = 1},
                                  {.value = RELAY_Y,
                                   .from = relay_at(r, 1),
                                   .to = edge,
                                   .from_kernel = 1,
                                   .to_kernel = WAFER_NONE}};
  static const wafer_route_segment routes[] = {
      {0, 0, 0, 0}, {0, 0, 2, 0}, {0, 0, 2, 0}, {2, 0, 0, 0}};
  for (uint32_t i = 0; i < RELAY_STREAMS; i++) {
    r->streams[i] = streams[i];
    r->routes[i] = routes[i];
    r->streams[i].color = i;
    r->streams[i].route_count = 1;
    r->streams[i].route = &r->routes[i];
    r->streams[i].words = 8;
    r->streams[i].cycles = 10;
    r->streams[i].latency = 5;
    r->streams[i].depth = 1;
  }
}

static inline void relay_act(relay_plan *r, uint32_t phase, wafer_action_kind kind,
                             uint32_t index) {
  wafer_phase *p = &r->phases[phase];
  r->actions[phase][p->action_count++] = (wafer_action){kind, index};
  p->actions = r->actions[phase];
}

static inline void relay_schedule(relay_plan *r, wafer_mode mode) {
  bool streaming = mode == WAFER_MODE_streaming;
  uint32_t second = streaming ? 1 : 0, n = 0;
  r->phases[0] = (wafer_phase){.name = "first", .frees = r->frees[0], .peak_core_bytes = 8000};
  r->phases[1] = (wafer_phase){.name = "second", .frees = r->frees[1], .peak_core_bytes = 8000};
  relay_act(r, 0, WAFER_ACTION_stream, RELAY_IN);
  relay_act(r, 0, WAFER_ACTION_kernel, 0);
  relay_act(r, second, WAFER_ACTION_stream, RELAY_HAND_OVER);
  relay_act(r, second, WAFER_ACTION_stream, RELAY_WEIGHT);
  relay_act(r, second, WAFER_ACTION_kernel, 1);
  relay_act(r, second, WAFER_ACTION_stream, RELAY_OUT);
  r->frees[0][r->phases[0].free_count++] = RELAY_X;
  if (streaming) r->streams[RELAY_HAND_OVER].from_kernel = WAFER_NONE;
  if (!streaming) r->steps[n++] = (wafer_step){.kind = WAFER_STEP_load, .phase = 0};
  r->steps[n++] = (wafer_step){.kind = WAFER_STEP_phase, .phase = 0};
  if (streaming) r->steps[n++] = (wafer_step){.kind = WAFER_STEP_phase, .phase = 1};
  r->function = (wafer_function){.name = "main",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .step_count = n,
                                 .inputs = &relay_numbers[RELAY_X],
                                 .outputs = &relay_numbers[RELAY_Y],
                                 .steps = r->steps};
}

/* Costs are the machine's; tests that want round figures set them. False when out of memory. */
static inline bool relay_init(relay_plan *r, const wafer_machine *machine, wafer_arena *arena,
                              wafer_mode mode) {
  memset(r, 0, sizeof *r);
  const wafer_type type = {WAFER_DTYPE_f32, {.rank = 1, .dims = {8}}};
  const wafer_value values[] = {
      {.name = "x", .node = "", .owner = WAFER_OWNER_input, .type = type, .weight = WAFER_NONE},
      {.name = "h",
       .node = "Relu_0",
       .owner = WAFER_OWNER_activation,
       .type = type,
       .weight = WAFER_NONE},
      {.name = "w", .node = "", .owner = WAFER_OWNER_weight, .type = type, .weight = 0},
      {.name = "y",
       .node = "Add_1",
       .owner = WAFER_OWNER_output,
       .type = type,
       .weight = WAFER_NONE},
      {.name = "v", .node = "", .owner = WAFER_OWNER_weight, .type = type, .weight = 1}};
  wafer_weights *weights = wafer_weights_create(arena);
  if (!weights) return false;
  memcpy(r->values, values, sizeof values);
  for (int i = 0; i < 8; i++) r->w[i] = 0.5f * (float)i, r->v[i] = 100.0f;
  if (!wafer_weights_add(weights, "w", WAFER_DTYPE_f32, &type.shape, r->w) ||
      !wafer_weights_add(weights, "v", WAFER_DTYPE_f32, &type.shape, r->v))
    return false;
  relay_kernel(r, 0, WAFER_OP_relu);
  relay_kernel(r, 1, WAFER_OP_add);
  relay_streams(r);
  relay_schedule(r, mode);
  r->plan = (wafer_plan){.model = "relay.onnx",
                         .producer = "test",
                         .machine = machine,
                         .mode = mode,
                         .storage = WAFER_DTYPE_f32,
                         .batch = 1,
                         .stripes = 1,
                         .node_count = 2,
                         .pipelined = {.fits = true, .why_not = ""},
                         .streaming = {.fits = true, .why_not = ""},
                         .value_count = RELAY_VALUES,
                         .kernel_count = 2,
                         .stream_count = RELAY_STREAMS,
                         .phase_count = mode == WAFER_MODE_streaming ? 2 : 1,
                         .function_count = 1,
                         .values = r->values,
                         .kernels = r->kernels,
                         .streams = r->streams,
                         .phases = r->phases,
                         .functions = &r->function,
                         .weights = weights,
                         .mlir = ""};
  relay_settle(r, machine);
  return true;
}

#endif
