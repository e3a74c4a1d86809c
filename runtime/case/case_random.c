/* Random traffic: every core sends bursts to one other core, drawn without repetition, along its
 * row and then the column, on a colour that no other route uses on the way; a core for which none
 * is left does not send. A core adds up what it receives. */
#include <math.h>

#include "case_build.h"

#define BURST 8 /* words, at most */

typedef struct flow {
  uint32_t to, from; /* cores; from: who sends here, UINT32_MAX: nobody */
  uint8_t color;     /* of its own words; 255: sends none */
  uint32_t words, bursts, delay;
} flow;

static uint32_t step(const case_build *b, uint32_t at, uint32_t to, wafer_port *port) {
  uint32_t w = b->o.width;
  if (at % w != to % w) {
    *port = at % w < to % w ? WAFER_PORT_east : WAFER_PORT_west;
    return at % w < to % w ? at + 1 : at - 1;
  }
  *port = at < to ? WAFER_PORT_south : WAFER_PORT_north;
  return at < to ? at + w : at - w;
}

/* The lowest colour that is free at every router of the way; 255: none. */
static uint8_t free_color(const case_build *b, const uint32_t *used, uint32_t from, uint32_t to) {
  uint32_t taken = used[from];
  wafer_port port;
  for (uint32_t at = from; at != to; taken |= used[at]) at = step(b, at, to, &port);
  uint32_t colors = b->machine->colors < 32 ? b->machine->colors : 32;
  for (uint32_t c = 0; c < colors; c++)
    if (!(taken >> c & 1)) return (uint8_t)c;
  return 255;
}

static void lay(case_build *b, uint32_t *used, uint32_t from, const flow *f) {
  static const uint8_t opposite[] = {WAFER_PORT_south, WAFER_PORT_west, WAFER_PORT_north,
                                     WAFER_PORT_east};
  wafer_port in = WAFER_PORT_ramp, out;
  for (uint32_t at = from, next;; at = next) {
    wafer_rect here = {at % b->o.width, at / b->o.width, 1, 1};
    used[at] |= 1u << f->color;
    if (at == f->to) {
      case_route(b, here, f->color, in, WAFER_TO(ramp));
      return;
    }
    next = step(b, at, f->to, &out);
    case_route(b, here, f->color, in, 1u << out);
    in = (wafer_port)opposite[out];
  }
}

/* Bursts of 1 to 8 words; the delay between them makes the load. */
static void pace(const case_build *b, flow *f, uint64_t *state) {
  f->words = (uint32_t)(1 + case_random(state) % BURST);
  double period = f->words / b->o.load, bursts = floor((double)b->o.cycles / period);
  double busy = f->words + b->machine->vector_setup_cycles + 2; /* set-up and loop */
  f->bursts = bursts < 1 ? 1 : (uint32_t)bursts;
  f->delay = period > busy + 1 ? (uint32_t)(period - busy + 0.5) : 1;
}

static flow *draw(case_build *b, uint32_t cores) {
  flow *flows = WAFER_NEW(b->arena, flow, cores);
  uint32_t *used = WAFER_NEW(b->arena, uint32_t, cores);
  uint64_t state = b->o.seed;
  if (!flows || !used) return NULL;
  for (uint32_t i = 0; i < cores; i++) flows[i] = (flow){.to = i, .from = UINT32_MAX, .color = 255};
  for (uint32_t i = cores; i > 1; i--) {
    uint32_t other = (uint32_t)(case_random(&state) % i), kept = flows[i - 1].to;
    flows[i - 1].to = flows[other].to;
    flows[other].to = kept;
  }
  for (uint32_t i = 0; i < cores; i++) {
    pace(b, &flows[i], &state);
    if (flows[i].to == i) continue;
    flows[i].color = free_color(b, used, i, flows[i].to);
    if (flows[i].color == 255) continue;
    lay(b, used, i, &flows[i]);
    flows[flows[i].to].from = i;
  }
  return flows;
}

/* Registers 3, 4 and 5: words of a burst, delay, words to come in. */
static uint32_t make_program(case_build *b, uint8_t out, uint8_t in) {
  case_program *p = case_program_begin(b, "random");
  wafer_operand sum = case_memory(b, (int32_t)b->answer),
                zero = {.kind = WAFER_OPERAND_constant, .dtype = sum.dtype};
  sum.stride[3] = 0;
  p->program.code_count = 0;
  if (in != 255) {
    wafer_instruction clear = case_instruction(b, WAFER_CORE_move, sum, zero, (wafer_operand){0});
    clear.shape[3] = 1;
    case_emit(b, p, clear);
    wafer_instruction add = case_instruction(b, WAFER_CORE_add, sum, sum, case_in(b, p, in));
    add.thread = 1;
    add.async = true;
    add.count_reg = 5;
    case_emit(b, p, add);
  }
  if (out != 255) {
    uint16_t loop = (uint16_t)p->program.code_count;
    wafer_instruction send = case_instruction(b, WAFER_CORE_move, case_out(b, p, out),
                                              case_memory(b, 0), (wafer_operand){0});
    send.count_reg = 3;
    case_emit(b, p, send);
    case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_delay, .a = 4});
    case_emit(b, p,
              (wafer_instruction){
                  .op = WAFER_CORE_plus, .a = 2, .b = 2, .c = WAFER_NO_REGISTER, .value = -1});
    case_emit(b, p,
              (wafer_instruction){
                  .op = WAFER_CORE_branch, .a = WAFER_NO_REGISTER, .b = 2, .target = loop});
  }
  return b->program_count - 1;
}

static wafer_status build_random(case_build *b) {
  uint32_t cores = b->o.width * b->o.height;
  if (b->o.load == 0) b->o.load = 0.1;
  if (!b->o.cycles) b->o.cycles = 100000;
  if (!(b->o.load > 0 && b->o.load <= 1) || b->o.dtype != WAFER_DTYPE_f32 || b->o.repeat > 1)
    return case_refuse(b, "random takes a load up to 1, f32, and no repeat");
  if (cores < 2) return case_refuse(b, "random traffic takes two cores");
  b->o.words = BURST;
  b->answer_words = 1;
  b->answer = BURST * 4;
  flow *flows = draw(b, cores);
  uint32_t *class_of = WAFER_NEW(b->arena, uint32_t, 256 * 256);
  if (!flows || !class_of) return case_refuse(b, "no memory for the routes");
  b->state = flows;
  for (uint32_t i = 0; i < cores; i++) {
    uint8_t in = flows[i].from == UINT32_MAX ? 255 : flows[flows[i].from].color;
    if (in == 255 && flows[i].color == 255) continue;
    uint32_t *made = &class_of[in * 256 + flows[i].color];
    if (!*made) *made = make_program(b, flows[i].color, in) + 1;
    b->core[i] = *made - 1;
  }
  return WAFER_OK;
}

static void prepare_random(case_build *b) {
  const flow *flows = b->state;
  for (uint32_t i = 0; i < b->o.width * b->o.height; i++) {
    uint32_t x = i % b->o.width, y = i / b->o.width;
    wafer_fabric_set(b->fabric, x, y, 2, (int32_t)flows[i].bursts);
    wafer_fabric_set(b->fabric, x, y, 3, (int32_t)flows[i].words);
    wafer_fabric_set(b->fabric, x, y, 4, (int32_t)flows[i].delay);
    if (flows[i].from == UINT32_MAX) continue;
    const flow *from = &flows[flows[i].from];
    wafer_fabric_set(b->fabric, x, y, 5, (int32_t)(from->words * from->bursts));
  }
}

static bool expect_random(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  const flow *flows = b->state;
  uint32_t source = flows[y * b->o.width + x].from;
  (void)i;
  if (source == UINT32_MAX) return false;
  *value = 0;
  for (uint32_t k = 0; k < flows[source].words; k++)
    *value += case_input(b, source % b->o.width, source / b->o.width, k) * flows[source].bursts;
  return true;
}

const case_row case_random_row = {
    {"random", "", "bursts between cores drawn at random, all at the same time"},
    build_random,
    expect_random,
    prepare_random,
    NULL};
