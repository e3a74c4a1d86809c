/* The parts of the validation programs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "case_build.h"

wafer_status case_refuse(const case_build *b, const char *format, ...) {
  char why[160];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_USAGE,
                    "%ux%u cores, %u words%s%s: %s", b->o.width, b->o.height, b->o.words,
                    b->o.algorithm ? ", " : "", b->o.algorithm ? b->o.algorithm : "", why);
}

void case_set_words(case_build *b, uint32_t words) {
  b->o.words = words;
  b->bytes = wafer_dtype_bits(b->o.dtype) / 8;
  b->wavelets = ((uint64_t)words * b->bytes + 3) / 4;
  b->answer = (words * b->bytes + 7) / 8 * 8 + 4;
}

/* Splitmix64. */
uint64_t case_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double case_input(const case_build *b, uint32_t x, uint32_t y, uint32_t i) {
  uint64_t state = b->o.seed ^ ((uint64_t)y << 48 | (uint64_t)x << 32 | i);
  uint64_t value = case_random(&state);
  return b->o.dtype == WAFER_DTYPE_f16 ? (double)(value & 1) : (double)(value & 15);
}

/* Room for one more, doubling. */
static void *grow(case_build *b, void *list, uint32_t count, uint32_t *room, size_t size) {
  if (wafer_arena_grow(b->arena, &list, count, room, size, 64)) return list;
  b->failed = true;
  return NULL;
}

enum { REPEATS = 2, TIMED = 5, BEGIN = 13, END = 14 }; /* registers */

/* The time at which what counts begins: of the second round where the first only warms up. */
static void begin_repeats(case_build *b, case_program *p) {
  int32_t repeat = (int32_t)b->o.repeat;
  case_add(b, p, REPEATS, WAFER_NO_REGISTER, b->warms ? repeat + 1 : repeat);
  if (b->warms) case_add(b, p, TIMED, WAFER_NO_REGISTER, repeat);
  p->loop = p->program.code_count;
  if (!b->warms) return;
  case_emit(b, p,
            (wafer_instruction){.op = WAFER_CORE_branch,
                                .a = REPEATS,
                                .b = TIMED,
                                .target = (uint16_t)(p->program.code_count + 2)});
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_time, .a = BEGIN});
}

case_program *case_program_begin(case_build *b, const char *name) {
  static case_program nowhere; /* when there is no memory: written, never run */
  case_program **list = grow(b, b->programs, b->program_count, &b->program_room, sizeof *list);
  case_program *p = WAFER_NEW(b->arena, case_program, 1);
  if (!list || !p) {
    b->failed = true;
    return &nowhere;
  }
  b->programs = list;
  b->programs[b->program_count++] = p;
  p->program = (wafer_core_program){
      .name = name, .code = p->code, .tasks = p->tasks, .task_count = 1, .bindings = p->bindings};
  if (b->o.repeat > 1) begin_repeats(b, p);
  return p;
}

void case_add(case_build *b, case_program *p, uint8_t a, uint8_t from, int32_t value) {
  case_emit(b, p,
            (wafer_instruction){
                .op = WAFER_CORE_plus, .a = a, .b = from, .c = WAFER_NO_REGISTER, .value = value});
}

void case_loop(case_build *b, case_program *p, uint8_t a, uint32_t target) {
  case_emit(
      b, p,
      (wafer_instruction){
          .op = WAFER_CORE_branch, .a = WAFER_NO_REGISTER, .b = a, .target = (uint16_t)target});
}

uint32_t case_program_end(case_build *b, case_program *p) {
  if (b->o.repeat > 1) {
    case_add(b, p, REPEATS, REPEATS, -1);
    case_loop(b, p, REPEATS, p->loop);
    if (b->warms) case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_time, .a = END});
  }
  return b->program_count - 1;
}

wafer_instruction *case_emit(case_build *b, case_program *p, wafer_instruction code) {
  static wafer_instruction nowhere;
  if (p->program.code_count == CASE_CODE) {
    b->failed = true;
    return &nowhere;
  }
  wafer_instruction *at = &p->code[p->program.code_count++];
  *at = code;
  return at;
}

wafer_operand case_memory(const case_build *b, int32_t address) {
  return (wafer_operand){.kind = WAFER_OPERAND_memory,
                         .dtype = (uint8_t)b->o.dtype,
                         .reg = WAFER_NO_REGISTER,
                         .address = address,
                         .stride = {0, 0, 0, (int32_t)b->bytes}};
}

/* The wide queues first: those that stream. */
static wafer_operand bind(case_build *b, case_program *p, uint8_t color, bool output) {
  static const uint8_t out_queue[] = {2, 3, 0, 1, 4, 5};
  uint32_t same = 0, queues = output ? b->machine->output_queues : b->machine->input_queues;
  bool found = false;
  for (uint32_t i = 0; i < p->program.binding_count; i++) {
    found |= p->bindings[i].output == output && p->bindings[i].color == color;
    same += p->bindings[i].output == output;
  }
  uint32_t queue = output && same < WAFER_COUNT(out_queue) ? out_queue[same] : same;
  if (!found && p->program.binding_count < WAFER_CORE_BINDINGS)
    p->bindings[p->program.binding_count++] =
        (wafer_core_binding){color, (uint8_t)(queue % queues), output};
  return (wafer_operand){
      .kind = WAFER_OPERAND_fabric, .dtype = (uint8_t)b->o.dtype, .color = color};
}

wafer_operand case_in(case_build *b, case_program *p, uint8_t color) {
  return bind(b, p, color, false);
}
wafer_operand case_out(case_build *b, case_program *p, uint8_t color) {
  return bind(b, p, color, true);
}

wafer_instruction case_instruction(const case_build *b, wafer_core_op op, wafer_operand out,
                                   wafer_operand x, wafer_operand y) {
  return (wafer_instruction){.op = (uint8_t)op,
                             .shape = {1, 1, 1, b->o.words},
                             .count_reg = WAFER_NO_REGISTER,
                             .out = out,
                             .in = {x, y}};
}

void case_route_add(case_build *b, wafer_route route) {
  wafer_route *list = grow(b, b->routes, b->route_count, &b->route_room, sizeof *list);
  if (!list) return;
  b->routes = list;
  b->routes[b->route_count++] = route;
}

void case_route(case_build *b, wafer_rect cores, uint8_t color, wafer_port from, uint32_t to) {
  if (!cores.width || !cores.height || !to) return;
  case_route_add(
      b, (wafer_route){
             .cores = cores, .color = color, .positions = 1, .at = {{(uint8_t)from, (uint8_t)to}}});
}

void case_line_west(case_build *b, uint32_t x, uint32_t to, uint32_t y, uint8_t color) {
  case_route(b, (wafer_rect){x, y, 1, 1}, color, WAFER_PORT_ramp, WAFER_TO(west));
  case_route(b, (wafer_rect){to + 1, y, x - to - 1, 1}, color, WAFER_PORT_east, WAFER_TO(west));
  case_route(b, (wafer_rect){to, y, 1, 1}, color, WAFER_PORT_east, WAFER_TO(ramp));
}

void case_place(case_build *b, uint32_t x, uint32_t y, uint32_t program) {
  b->core[y * b->o.width + x] = program;
}

uint64_t case_depth(const case_build *b) {
  return 2 * (uint64_t)b->machine->ramp_cycles + 1;
}
uint64_t case_sums(const case_build *b) {
  uint64_t adds = wafer_machine_cycles(b->machine, WAFER_RATE_add, b->o.dtype, b->o.words);
  return adds > b->wavelets ? adds : b->wavelets;
}
uint64_t case_hops(const case_build *b, uint64_t hops) {
  return hops * b->machine->hop_cycles;
}
