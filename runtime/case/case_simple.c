/* One core's vector instruction; one core's words to another; one core's words to all. */
#include <string.h>

#include "case_build.h"

/* ---- vector: answer = x op x', timestamps around it ---- */

static wafer_core_op vector_op(const case_build *b) {
  for (int op = 0; op < WAFER_CORE_VECTORS; op++)
    if (b->o.op && !strcmp(b->o.op, wafer_core_op_name((wafer_core_op)op)))
      return (wafer_core_op)op;
  return b->o.op ? WAFER_CORE_VECTORS : WAFER_CORE_add;
}

static wafer_rate vector_rate(wafer_core_op op) {
  return op == WAFER_CORE_move  ? WAFER_RATE_move
         : op == WAFER_CORE_mul ? WAFER_RATE_mul
                                : WAFER_RATE_add;
}

/* The second input is the first, shifted into the other banks or, with a conflict, not. */
static wafer_status build_vector(case_build *b) {
  wafer_core_op op = vector_op(b);
  if (op > WAFER_CORE_min && op != WAFER_CORE_mul)
    return case_refuse(b, "the operations are move, convert, add, sub, max, min, mul");
  if (b->o.width != 1 || b->o.height != 1) return case_refuse(b, "vector is for one core");
  b->timed = true;
  uint32_t other = b->answer;
  b->answer = b->o.conflict ? 0 : other;
  case_program *p = case_program_begin(b, "vector");
  if (!b->o.conflict) /* a copy, before the window */
    case_emit(b, p,
              case_instruction(b, WAFER_CORE_move, case_memory(b, (int32_t)other),
                               case_memory(b, 0), (wafer_operand){0}));
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_time, .a = 13});
  wafer_instruction code = case_instruction(b, op, case_memory(b, (int32_t)b->answer),
                                            case_memory(b, 0), case_memory(b, (int32_t)b->answer));
  code.load_descriptors = b->o.load_descriptors;
  case_emit(b, p, code);
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_time, .a = 14});
  if (b->o.repeat != 1) return case_refuse(b, "vector runs once");
  case_place(b, 0, 0, case_program_end(b, p));
  uint64_t elements = wafer_machine_cycles(
      b->machine, op == WAFER_CORE_convert ? WAFER_RATE_convert : vector_rate(op), b->o.dtype,
      b->o.words);
  b->predicted = elements * (b->o.conflict && op > WAFER_CORE_convert ? 2 : 1) +
                 b->machine->vector_setup_cycles +
                 (b->o.load_descriptors ? b->machine->descriptor_load_cycles : 0);
  return WAFER_OK;
}

static bool expect_vector(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  double in = case_input(b, x, y, i);
  switch (vector_op(b)) {
  case WAFER_CORE_add: *value = in + in; break;
  case WAFER_CORE_sub: *value = 0; break;
  case WAFER_CORE_mul: *value = in * in; break;
  default: *value = in; break;
  }
  return true;
}

const case_row case_vector_row = {
    {"vector", "", "one vector instruction of one core, timestamps around it"},
    build_vector,
    expect_vector,
    NULL,
    NULL};

/* ---- send: from core (0, 0) along its row, then along the last column ---- */

static void place_receivers(case_build *b, bool all) {
  case_program *p = case_program_begin(b, "receive");
  case_emit(b, p,
            case_instruction(b, WAFER_CORE_move, case_memory(b, (int32_t)b->answer),
                             case_in(b, p, 0), (wafer_operand){0}));
  uint32_t program = case_program_end(b, p);
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++)
      if ((all && x + y) || (x == b->o.width - 1 && y == b->o.height - 1))
        case_place(b, x, y, program);
}

static void place_sender(case_build *b) {
  case_program *p = case_program_begin(b, "send");
  case_emit(b, p,
            case_instruction(b, WAFER_CORE_move, case_out(b, p, 0), case_memory(b, 0),
                             (wafer_operand){0}));
  case_place(b, 0, 0, case_program_end(b, p));
}

static wafer_status build_send(case_build *b) {
  uint32_t w = b->o.width, h = b->o.height;
  if (w * h < 2) return case_refuse(b, "sending takes two cores");
  place_receivers(b, false);
  place_sender(b);
  uint32_t east = WAFER_TO(east), south = h > 1 ? WAFER_TO(south) : WAFER_TO(ramp);
  case_route(b, (wafer_rect){0, 0, 1, 1}, 0, WAFER_PORT_ramp, w > 1 ? east : south);
  if (w > 1) {
    case_route(b, (wafer_rect){1, 0, w - 2, 1}, 0, WAFER_PORT_west, east);
    case_route(b, (wafer_rect){w - 1, 0, 1, 1}, 0, WAFER_PORT_west, south);
  }
  if (h > 1) {
    case_route(b, (wafer_rect){w - 1, 1, 1, h - 2}, 0, WAFER_PORT_north, south);
    case_route(b, (wafer_rect){w - 1, h - 1, 1, 1}, 0, WAFER_PORT_north, WAFER_TO(ramp));
  }
  b->predicted = b->wavelets + case_hops(b, w + h - 2) + case_depth(b);
  return WAFER_OK;
}

static bool expect_send(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  *value = case_input(b, 0, 0, i);
  return x == b->o.width - 1 && y == b->o.height - 1;
}

const case_row case_send_row = {
    {"send", "", "core (0,0) sends its words to the core farthest away"},
    build_send,
    expect_send,
    NULL,
    NULL};

/* ---- broadcast: along the first row, and down every column as it passes ---- */

static wafer_status build_broadcast(case_build *b) {
  uint32_t w = b->o.width, h = b->o.height;
  if (w * h < 2) return case_refuse(b, "a broadcast takes two cores");
  place_receivers(b, true);
  place_sender(b);
  uint32_t south = h > 1 ? WAFER_TO(south) : 0;
  case_route(b, (wafer_rect){0, 0, 1, 1}, 0, WAFER_PORT_ramp, (w > 1 ? WAFER_TO(east) : 0) | south);
  if (w > 1) {
    case_route(b, (wafer_rect){1, 0, w - 2, 1}, 0, WAFER_PORT_west,
               WAFER_TO(east) | WAFER_TO(ramp) | south);
    case_route(b, (wafer_rect){w - 1, 0, 1, 1}, 0, WAFER_PORT_west, WAFER_TO(ramp) | south);
  }
  if (h > 1) {
    case_route(b, (wafer_rect){0, 1, w, h - 2}, 0, WAFER_PORT_north,
               WAFER_TO(ramp) | WAFER_TO(south));
    case_route(b, (wafer_rect){0, h - 1, w, 1}, 0, WAFER_PORT_north, WAFER_TO(ramp));
  }
  b->predicted = h == 1 ? b->wavelets + case_hops(b, w) + 2 * (uint64_t)b->machine->ramp_cycles
                        : b->wavelets + case_hops(b, w + h - 2) + case_depth(b);
  return WAFER_OK;
}

static bool expect_broadcast(const case_build *b, uint32_t x, uint32_t y, uint32_t i,
                             double *value) {
  *value = case_input(b, 0, 0, i);
  return x + y > 0;
}

const case_row case_broadcast_row = {
    {"broadcast", "", "core (0,0) sends its words to all, by multicast"},
    build_broadcast,
    expect_broadcast,
    NULL,
    NULL};
