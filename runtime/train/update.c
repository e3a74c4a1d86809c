/* What a step of pipelined training takes: a train of micro-batches, and the update at its end
 * (wafer_step_cycles). Costs are of the slowest kernel; kernels work and send at the same time. */
#include <stdlib.h>

#include "kernel/kernel_family.h"
#include "wafer/plan.h"

typedef struct stepping {
  const wafer_diag *diag;
  const wafer_plan *plan;
  wafer_step_cycles *out;
  uint32_t *maker;      /* trained -> kernel of its gradient */
  uint64_t *busy;       /* kernel: cycles that new weights take to leave it and to reach it */
  uint32_t *trained_of; /* weight -> its place in `trained`, WAFER_NONE */
} stepping;

/* ---- the optimizers' instructions ---- */

/* A vector instruction each over a tile; x is the gradient, scaled and with decay. One tile is
 * spare: the sample's own gradient, which has been added. */
static const wafer_op sgd_ops[] = {WAFER_OP_mul, WAFER_OP_mul, WAFER_OP_add, /* x = g s + d w */
                                   WAFER_OP_mul, WAFER_OP_sub};              /* w -= lr x */
static const wafer_op momentum_ops[] = {WAFER_OP_mul, WAFER_OP_mul, WAFER_OP_add,
                                        WAFER_OP_mul, WAFER_OP_add, /* m = momentum m + x */
                                        WAFER_OP_mul, WAFER_OP_sub};
static const wafer_op adam_ops[] = {
    WAFER_OP_mul,  WAFER_OP_mul, WAFER_OP_add,               /* x; adamw: x = g s, w *= kept */
    WAFER_OP_sub,  WAFER_OP_mul, WAFER_OP_add,               /* m += rest1 (x - m) */
    WAFER_OP_mul,  WAFER_OP_mul, WAFER_OP_mul, WAFER_OP_add, /* v = beta2 v + rest2 x x */
    WAFER_OP_sqrt, WAFER_OP_mul, WAFER_OP_add,               /* sqrt(v) root + eps */
    WAFER_OP_div,  WAFER_OP_mul, WAFER_OP_sub};              /* w -= size m / that */

_Static_assert(WAFER_COUNT(adam_ops) <= WAFER_UPDATE_INSTRUCTIONS, "code bytes of a sum");

static const wafer_op *instructions(wafer_optimizer_kind kind, uint32_t *count) {
  switch (kind) {
  case WAFER_OPTIMIZER_sgd: return *count = WAFER_COUNT(sgd_ops), sgd_ops;
  case WAFER_OPTIMIZER_momentum: return *count = WAFER_COUNT(momentum_ops), momentum_ops;
  default: return *count = WAFER_COUNT(adam_ops), adam_ops;
  }
}

/* As a map kernel of one core: what its cost model says of these ops over a vector of f32. */
static uint64_t map_cycles(const wafer_machine *machine, uint32_t count, const wafer_op *ops,
                           uint64_t elements) {
  wafer_node nodes[WAFER_UPDATE_INSTRUCTIONS];
  const wafer_type type = {WAFER_DTYPE_f32, {.rank = 1, .dims = {(int64_t)elements}}};
  const bool no_weight = false;
  const uint32_t depth = 1, output = count;
  if (!elements) return 0;
  for (uint32_t i = 0; i < count; i++)
    nodes[i] = (wafer_node){.op = ops[i],
                            .operand_count = ops[i] == WAFER_OP_sqrt ? 1 : 2,
                            .operands = {i},
                            .type = type};
  const wafer_kernel_body body = {.family = WAFER_FAMILY_map,
                                  .input_count = 1,
                                  .inputs = &type,
                                  .input_is_weight = &no_weight,
                                  .input_depth = &depth,
                                  .output_depth = 1,
                                  .node_count = count,
                                  .nodes = nodes,
                                  .output_count = 1,
                                  .outputs = &output,
                                  .storage = WAFER_DTYPE_f32};
  wafer_split whole;
  wafer_cost cost;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) whole.rows[i] = whole.cols[i] = 1;
  wafer_kernel_cost(machine, &body, &whole, &cost);
  return cost.cycles;
}

/* ---- ways on the wafer ---- */

static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}
static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static uint64_t ceil_div(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

static uint64_t gap(uint32_t a, uint32_t length, uint32_t b) {
  return b >= a + length ? b - (a + length) + 1 : 0;
}

#define PASSES 2 /* of an exchange: along rows, along columns */

/* From one kernel's first replica to each of another's, one after the other. */
static uint64_t send_cycles(const wafer_plan *plan, const wafer_kernel *from,
                            const wafer_kernel *to, uint64_t words) {
  const wafer_machine *m = plan->machine;
  wafer_rect a = from->rect, b = to->rect;
  uint64_t lanes = most(least(a.height, b.height), least(a.width, b.width));
  uint64_t each =
      ceil_div(words, lanes) +
      PASSES * (2 * (uint64_t)m->ramp_cycles + m->vector_setup_cycles + m->descriptor_load_cycles);
  uint64_t hops = gap(a.x, a.width, b.x) + gap(b.x, b.width, a.x) + gap(a.y, a.height, b.y) +
                  gap(b.y, b.height, a.y) + (uint64_t)(to->replicas - 1) * b.width;
  return to->replicas * each + hops * m->hop_cycles;
}

/* ---- the parts of an update ---- */

static void gather_and_update(stepping *s, const wafer_kernel *k) {
  const wafer_plan *plan = s->plan;
  const wafer_machine *m = plan->machine;
  uint64_t elements = 0, words = 0;
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    if (!wafer_body_sums(&k->body, i)) continue;
    const wafer_type *type = &plan->values[k->outputs[i]].type;
    wafer_layout layout = wafer_kernel_output_layout(&k->body, &k->split, i);
    int64_t all = 0;
    (void)wafer_shape_elements(&type->shape, &all);
    elements += wafer_layout_tile(&layout, &type->shape);
    words += (uint64_t)all; /* sums are f32 */
  }
  uint32_t count;
  const wafer_op *ops = instructions(plan->training->optimizer, &count);
  uint64_t others = k->replicas - 1;
  s->out->update = most(s->out->update, map_cycles(m, count, ops, elements));
  if (!others || !words) return;
  const wafer_op add = WAFER_OP_add;
  uint64_t flows = others * ceil_div(words, k->rect.height);
  uint64_t way = others * k->rect.width * m->hop_cycles + 2 * (uint64_t)m->ramp_cycles;
  s->out->gather = most(s->out->gather, flows + way + others * map_cycles(m, 1, &add, elements));
}

/* Squares of the sums: two instructions over the longest tile, then a sum over the kernels' cores,
 * whose longest way is along a row to the west border and a column; the answer comes the same way.
 */
static void norm_and_control(stepping *s) {
  const wafer_machine *m = s->plan->machine;
  const wafer_op squares[] = {WAFER_OP_mul, WAFER_OP_add};
  uint64_t tile = 0, east = 0, south = 0, north = m->height;
  for (uint32_t k = 0; k < s->plan->kernel_count; k++) {
    const wafer_kernel *kernel = &s->plan->kernels[k];
    east = most(east, kernel->rect.x + (uint64_t)kernel->replicas * kernel->rect.width);
    south = most(south, (uint64_t)kernel->rect.y + kernel->rect.height);
    north = least(north, kernel->rect.y);
    for (uint32_t i = 0; i < kernel->body.output_count; i++) {
      if (!wafer_body_sums(&kernel->body, i)) continue;
      wafer_layout layout = wafer_kernel_output_layout(&kernel->body, &kernel->split, i);
      tile =
          most(tile, wafer_layout_tile(&layout, &s->plan->values[kernel->outputs[i]].type.shape));
    }
  }
  uint64_t hops = east + (south > north ? south - north : 0);
  uint64_t across = hops * (m->hop_cycles + 1) + 2 * (uint64_t)m->ramp_cycles;
  s->out->control = across + m->edge_latency_cycles;
  s->out->norm = map_cycles(m, 2, squares, tile) + s->out->control;
}

/* A stream that loaded the weight shows who reads it. */
static void send(stepping *s, const wafer_stream *load) {
  const wafer_plan *plan = s->plan;
  uint32_t weight = plan->values[load->value].weight;
  if (load->from.where != WAFER_AT_memoryx || load->to_kernel == WAFER_NONE) return;
  if (weight == WAFER_NONE || s->trained_of[weight] == WAFER_NONE) return;
  uint32_t maker = s->maker[s->trained_of[weight]];
  if (maker == WAFER_NONE) return;
  uint64_t cycles =
      send_cycles(plan, &plan->kernels[maker], &plan->kernels[load->to_kernel], load->words);
  s->busy[maker] += cycles;
  s->busy[load->to_kernel] += cycles;
  s->out->sent_words += load->words;
}

/* ---- all of it ---- */

/* Which kernel makes the gradient of each trained weight. */
static wafer_status find_makers(stepping *s) {
  const wafer_plan *plan = s->plan;
  const wafer_training *t = plan->training;
  size_t weights = wafer_weights_count(plan->weights);
  uint32_t *of_value = malloc((plan->value_count + (size_t)1) * sizeof *of_value);
  s->maker = malloc((t->trained_count + (size_t)1) * sizeof *s->maker);
  s->trained_of = malloc((weights + 1) * sizeof *s->trained_of);
  s->busy = calloc(plan->kernel_count + (size_t)1, sizeof *s->busy);
  bool ok = of_value && s->maker && s->trained_of && s->busy;
  for (uint32_t v = 0; ok && v < plan->value_count; v++) of_value[v] = WAFER_NONE;
  for (size_t w = 0; ok && w < weights; w++) s->trained_of[w] = WAFER_NONE;
  for (uint32_t k = 0; ok && k < plan->kernel_count; k++)
    for (uint32_t i = 0; i < plan->kernels[k].body.output_count; i++)
      of_value[plan->kernels[k].outputs[i]] = k;
  for (uint32_t i = 0; ok && i < t->trained_count; i++) {
    s->maker[i] = of_value[t->trained[i].gradient];
    s->trained_of[t->trained[i].weight] = i;
  }
  free(of_value);
  return ok ? WAFER_OK
            : wafer_fail(s->diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                         "no memory to time a step");
}

static void add_up(stepping *s) {
  wafer_step_cycles *out = s->out;
  for (uint32_t k = 0; k < s->plan->kernel_count; k++) gather_and_update(s, &s->plan->kernels[k]);
  for (uint32_t i = 0; i < s->plan->stream_count; i++) send(s, &s->plan->streams[i]);
  for (uint32_t k = 0; k < s->plan->kernel_count; k++) out->send = most(out->send, s->busy[k]);
  norm_and_control(s);
  out->step = out->train + out->gather + out->norm + out->control + out->update + out->send;
}

wafer_status wafer_plan_step_cycles(const wafer_diag *diag, const wafer_plan *plan,
                                    uint64_t micro_batches, wafer_step_cycles *out) {
  stepping s = {.diag = diag, .plan = plan, .out = out};
  wafer_timeline timeline = {0};
  *out = (wafer_step_cycles){0};
  if (!wafer_plan_updates(plan))
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_USAGE,
                      "the plan is not of pipelined training");
  WAFER_TRY(wafer_timeline_run(diag, plan, 0, micro_batches, &timeline));
  out->train = timeline.total_cycles;
  wafer_status status = find_makers(&s);
  if (status == WAFER_OK) add_up(&s);
  free(s.maker);
  free(s.trained_of);
  free(s.busy);
  return status;
}

/* ---- launches ---- */

uint64_t *wafer_step_part(wafer_step_cycles *cycles, wafer_launch_kind kind) {
  switch (kind) {
  case WAFER_LAUNCH_gather: return &cycles->gather;
  case WAFER_LAUNCH_norm: return &cycles->norm;
  case WAFER_LAUNCH_control: return &cycles->control;
  case WAFER_LAUNCH_update: return &cycles->update;
  case WAFER_LAUNCH_send: return &cycles->send;
  default: return NULL;
  }
}

wafer_step_cycles wafer_plan_launched_step(const wafer_plan *plan) {
  wafer_step_cycles all = {0};
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    uint64_t *part = wafer_step_part(&all, plan->launches[i].kind);
    if (part) *part += plan->launches[i].predicted;
  }
  all.norm += plan->machine->edge_latency_cycles;    /* of what leaves */
  all.control += plan->machine->edge_latency_cycles; /* of the numbers, from outside */
  all.step = all.gather + all.norm + all.control + all.update + all.send;
  return all;
}
