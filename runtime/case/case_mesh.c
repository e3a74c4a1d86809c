/* Cannon's algorithm on rings folded into rows and columns, so that neighbours in a ring are at
 * most two hops apart: 0, 2, 4 ... 5, 3, 1. Tiles of A are turned round the ring of row r by as
 * many places as the row has in its own ring, the shorter way; then, step by step, tiles of A and B
 * move one place on while the present ones are multiplied. After He et al., "WaferLLM" (OSDI 2025),
 * MeshGEMM, whose tasks and loops this has too. */
#include "case_gemm.h"

/* Colours: along rows there and back, along columns; senders eastwards (southwards) take turns with
 * two, those westwards (northwards) with the next two. */
enum { ROW = 0, ROW_BACK = 4, COLUMN = 8 };
enum { TURNS = 11, LEFT = 12, LESS = 15 }; /* registers */

/* Place of a core in its ring; the core at a place. */
static uint32_t place_of(uint32_t cores, uint32_t at) {
  return at % 2 ? cores - (at + 1) / 2 : at / 2;
}
static uint32_t core_at(uint32_t cores, uint32_t place) {
  uint32_t evens = (cores + 1) / 2;
  return place < evens ? 2 * place : 2 * (cores - place) - 1;
}
static uint32_t next_of(uint32_t cores, uint32_t at) {
  return core_at(cores, (place_of(cores, at) + 1) % cores);
}
static uint32_t before(uint32_t cores, uint32_t at) {
  return core_at(cores, (place_of(cores, at) + cores - 1) % cores);
}

/* A sender's colour: of two, in turn, for each direction along the line. Places alternate; place 0
 * sends the way of the last place. */
static uint8_t color_of(const case_build *b, uint8_t ring, uint32_t from, uint32_t to) {
  uint32_t place = place_of(b->o.width, from);
  if (!place && ring != ROW_BACK) place = b->o.width;
  return (uint8_t)(ring + (to > from ? 0 : 2) + place % 2);
}

/* Tiles move to the place before: so the number of the tile that a core has grows by one a step.
 * The other way is for the turn of rows that are nearer the other end. */
static uint32_t receiver(uint32_t cores, uint32_t at, bool back) {
  return back ? next_of(cores, at) : before(cores, at);
}
static uint32_t sender(uint32_t cores, uint32_t at, bool back) {
  return back ? before(cores, at) : next_of(cores, at);
}

uint32_t case_mesh_block(uint32_t cores, uint32_t x, uint32_t y) {
  return core_at(cores, (place_of(cores, x) + place_of(cores, y)) % cores);
}

/* Rows of even number turn one way, the others the other. */
static bool turns_back(uint32_t row) {
  return row % 2;
}
static uint32_t turns_of(uint32_t row) {
  return (row + 1) / 2;
}

/* ---- memory: A's own tile, two more of A, two of B, C ---- */

static uint32_t a_bytes(const case_build *b) {
  const case_matrices *m = b->state;
  return case_gemm_bytes(b, m->mt, m->kt);
}
static uint32_t b_bytes(const case_build *b) {
  const case_matrices *m = b->state;
  return case_gemm_bytes(b, m->kt, m->nt);
}
uint32_t case_mesh_b(const case_build *b) {
  return 3 * a_bytes(b);
}

/* ---- a core ---- */

/* Rows turn A as often as register TURNS says. */
static void emit_turns(case_build *b, case_program *p, uint32_t x, bool back) {
  const case_matrices *m = b->state;
  uint32_t cores = b->o.width, to = receiver(cores, x, back), from = sender(cores, x, back);
  uint8_t ring = back ? ROW_BACK : ROW;
  case_add(b, p, CASE_A, WAFER_NO_REGISTER, 0);
  case_add(b, p, CASE_A_NEXT, WAFER_NO_REGISTER, (int32_t)a_bytes(b));
  case_add(b, p, LEFT, TURNS, 0);
  case_add(b, p, LESS, LEFT, -1);
  wafer_instruction *skip = case_emit(
      b, p, (wafer_instruction){.op = WAFER_CORE_branch, .a = LESS, .b = WAFER_NO_REGISTER});
  uint32_t loop = p->program.code_count;
  case_gemm_send(b, p, color_of(b, ring, x, to), CASE_A, m->mt * m->kt, CASE_SEND_A);
  case_gemm_receive(b, p, color_of(b, ring, from, x), CASE_A_NEXT, m->mt * m->kt, CASE_RECEIVE_A,
                    0);
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_join, .thread = CASE_SEND_A});
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_join, .thread = CASE_RECEIVE_A});
  case_gemm_swap(b, p, CASE_A, CASE_A_NEXT, 3 * a_bytes(b));
  case_add(b, p, LEFT, LEFT, -1);
  case_loop(b, p, LEFT, loop);
  skip->target = (uint16_t)p->program.code_count;
}

/* Routes back are there in every row, so all cores have queues for them. */
static void bind_back(case_build *b, case_program *p, uint32_t x) {
  uint32_t cores = b->o.width, to = receiver(cores, x, true), from = sender(cores, x, true);
  case_out(b, p, color_of(b, ROW_BACK, x, to));
  case_in(b, p, color_of(b, ROW_BACK, from, x));
}

/* A step: tiles move on while the present ones are multiplied. */
static void emit_step(case_build *b, case_program *p, uint32_t x, uint32_t y) {
  const case_matrices *m = b->state;
  uint32_t cores = b->o.width, ta = m->mt * m->kt, tb = m->kt * m->nt;
  uint32_t east = receiver(cores, x, false), west = sender(cores, x, false);
  uint32_t south = receiver(cores, y, false), north = sender(cores, y, false);
  case_gemm_send(b, p, color_of(b, ROW, x, east), CASE_A, ta, CASE_SEND_A);
  case_gemm_receive(b, p, color_of(b, ROW, west, x), CASE_A_NEXT, ta, CASE_RECEIVE_A, CASE_A_CAME);
  case_gemm_send(b, p, color_of(b, COLUMN, y, south), CASE_B, tb, CASE_SEND_B);
  case_gemm_receive(b, p, color_of(b, COLUMN, north, y), CASE_B_NEXT, tb, CASE_RECEIVE_B,
                    CASE_B_CAME);
  case_gemm_multiply(b, p);
  case_gemm_task(b, p, WAFER_CORE_activate, CASE_STEPPED);
  case_gemm_end_task(b, p);
}

static uint32_t mesh_program(case_build *b, uint32_t x, uint32_t y) {
  case_program *p = case_program_begin(b, "gemm mesh");
  uint32_t a = a_bytes(b), w = b_bytes(b);
  case_add(b, p, CASE_STEPS, WAFER_NO_REGISTER, (int32_t)b->o.width);
  emit_turns(b, p, x, turns_back(y));
  bind_back(b, p, x);
  case_gemm_clear(b, p);
  uint32_t step = p->program.code_count;
  emit_step(b, p, x, y);
  case_gemm_waits(b, p);
  case_gemm_swap(b, p, CASE_A, CASE_A_NEXT, 3 * a);
  case_gemm_swap(b, p, CASE_B, CASE_B_NEXT, 6 * a + w);
  case_add(b, p, CASE_STEPS, CASE_STEPS, -1);
  case_loop(b, p, CASE_STEPS, step);
  return case_program_end(b, p);
}

/* ---- all ---- */

/* One colour along a row (or, turned, a column), for all of them. */
static void line(case_build *b, uint32_t from, uint32_t to, uint8_t color, bool column) {
  uint32_t cores = b->o.width, low = from < to ? from : to, high = from < to ? to : from;
  bool on = to > from;
  wafer_port ahead = column ? (on ? WAFER_PORT_south : WAFER_PORT_north)
                            : (on ? WAFER_PORT_east : WAFER_PORT_west);
  wafer_port behind = column ? (on ? WAFER_PORT_north : WAFER_PORT_south)
                             : (on ? WAFER_PORT_west : WAFER_PORT_east);
  for (uint32_t at = low; at <= high; at++) {
    wafer_rect cores_at = column ? (wafer_rect){0, at, cores, 1} : (wafer_rect){at, 0, 1, cores};
    case_route(b, cores_at, color, at == from ? WAFER_PORT_ramp : behind,
               at == to ? WAFER_TO(ramp) : 1u << ahead);
  }
}

static void mesh_routes(case_build *b) {
  uint32_t cores = b->o.width;
  for (uint32_t at = 0; at < cores; at++) {
    uint32_t to = receiver(cores, at, false), back = receiver(cores, at, true);
    line(b, at, to, color_of(b, ROW, at, to), false);
    line(b, at, back, color_of(b, ROW_BACK, at, back), false);
    line(b, at, to, color_of(b, COLUMN, at, to), true);
  }
}

/* Classes of cores along a side: what they send and receive on, and which way their row turns. */
static uint32_t class_of(uint32_t cores, uint32_t at) {
  return at < 3 ? at : at + 3 >= cores ? 7 + (cores - 1 - at) : 3 + at % 4;
}

wafer_status case_mesh_build(case_build *b) {
  uint32_t cores = b->o.width, made[10][10] = {{0}};
  const case_matrices *m = b->state;
  b->answer = case_mesh_b(b) + 2 * b_bytes(b) + 4;
  for (uint32_t y = 0; y < cores; y++)
    for (uint32_t x = 0; x < cores; x++) {
      uint32_t *one = &made[class_of(cores, x)][class_of(cores, y)];
      if (!*one) *one = mesh_program(b, x, y) + 1;
      case_place(b, x, y, *one - 1);
    }
  mesh_routes(b);
  uint64_t multiply = case_gemm_multiply_cycles(b),
           words = (m->mt * m->kt * b->bytes + 3) / 4 + case_hops(b, 2) + case_depth(b),
           turn = b->machine->vector_setup_cycles + words;
  b->predicted = cores * (multiply + case_gemm_wait_cycles(b)) + cores / 2 * turn;
  return WAFER_OK;
}

void case_mesh_prepare(case_build *b) {
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) {
      wafer_fabric_set(b->fabric, x, y, TURNS, (int32_t)turns_of(y));
      wafer_fabric_set(b->fabric, x, y, CASE_B, (int32_t)case_mesh_b(b));
      wafer_fabric_set(b->fabric, x, y, CASE_B_NEXT, (int32_t)(case_mesh_b(b) + b_bytes(b)));
    }
}
