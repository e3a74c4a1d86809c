/* The sum of everyone's words at everyone. In two dimensions: chains along the rows, a chain down
 * the first column, a broadcast back. In a ring, eastwards with one long way back: P - 1 steps in
 * which everyone adds the chunk that comes in and passes on what it has, P - 1 more in which sums
 * go round. */
#include <string.h>

#include "case_build.h"

/* ---- two dimensions ---- */

enum { ROW = 0, COLUMN = 2, BACK = 4 }; /* colours; rows and columns take turns with two each */

static wafer_instruction *emit_sum(case_build *b, case_program *p, int out, wafer_operand in,
                                   int32_t address) {
  wafer_operand to = out < 0 ? case_memory(b, (int32_t)b->answer) : case_out(b, p, (uint8_t)out);
  return case_emit(b, p, case_instruction(b, WAFER_CORE_add, to, case_memory(b, address), in));
}

static void emit_send(case_build *b, case_program *p, uint8_t color, int32_t address) {
  case_emit(b, p,
            case_instruction(b, WAFER_CORE_move, case_out(b, p, color), case_memory(b, address),
                             (wafer_operand){0}));
}

/* Rows: all send west but the first column, which keeps; columns: it sends north but (0, 0). */
static uint32_t grid_program(case_build *b, uint32_t x, uint32_t y) {
  uint32_t w = b->o.width, h = b->o.height;
  uint8_t row = (uint8_t)(ROW + x % 2), row_in = (uint8_t)(ROW + (x + 1) % 2);
  uint8_t column = (uint8_t)(COLUMN + y % 2), column_in = (uint8_t)(COLUMN + (y + 1) % 2);
  case_program *p = case_program_begin(b, "all-reduce");
  int32_t answer = (int32_t)b->answer, sum = w > 1 ? answer : 0;
  if (x && x == w - 1)
    emit_send(b, p, row, 0);
  else if (w > 1)
    emit_sum(b, p, x ? row : -1, case_in(b, p, row_in), 0);
  if (!x && h > 1) {
    if (y && y == h - 1)
      emit_send(b, p, column, sum);
    else
      emit_sum(b, p, y ? column : -1, case_in(b, p, column_in), sum);
  }
  if (x + y)
    case_emit(b, p,
              case_instruction(b, WAFER_CORE_move, case_memory(b, answer), case_in(b, p, BACK),
                               (wafer_operand){0}));
  else
    emit_send(b, p, BACK, answer);
  return case_program_end(b, p);
}

/* The broadcast back: along the first row, down every column. */
static void back_routes(case_build *b) {
  uint32_t w = b->o.width, h = b->o.height, south = h > 1 ? WAFER_TO(south) : 0;
  case_route(b, (wafer_rect){0, 0, 1, 1}, BACK, WAFER_PORT_ramp,
             (w > 1 ? WAFER_TO(east) : 0) | south);
  if (w > 1) {
    case_route(b, (wafer_rect){1, 0, w - 2, 1}, BACK, WAFER_PORT_west,
               WAFER_TO(east) | WAFER_TO(ramp) | south);
    case_route(b, (wafer_rect){w - 1, 0, 1, 1}, BACK, WAFER_PORT_west, WAFER_TO(ramp) | south);
  }
  if (h > 1) {
    case_route(b, (wafer_rect){0, 1, w, h - 2}, BACK, WAFER_PORT_north,
               WAFER_TO(ramp) | WAFER_TO(south));
    case_route(b, (wafer_rect){0, h - 1, w, 1}, BACK, WAFER_PORT_north, WAFER_TO(ramp));
  }
}

static void grid_routes(case_build *b) {
  uint32_t w = b->o.width, h = b->o.height;
  for (uint32_t x = 1; x < w; x++) {
    case_route(b, (wafer_rect){x, 0, 1, h}, (uint8_t)(ROW + x % 2), WAFER_PORT_ramp,
               WAFER_TO(west));
    case_route(b, (wafer_rect){x - 1, 0, 1, h}, (uint8_t)(ROW + x % 2), WAFER_PORT_east,
               WAFER_TO(ramp));
  }
  for (uint32_t y = 1; y < h; y++) {
    case_route(b, (wafer_rect){0, y, 1, 1}, (uint8_t)(COLUMN + y % 2), WAFER_PORT_ramp,
               WAFER_TO(north));
    case_route(b, (wafer_rect){0, y - 1, 1, 1}, (uint8_t)(COLUMN + y % 2), WAFER_PORT_south,
               WAFER_TO(ramp));
  }
  back_routes(b);
}

/* Cores whose programs are the same: by end or middle, odd or even. */
static uint32_t class_of(uint32_t at, uint32_t count) {
  return at == 0 ? 0 : at == count - 1 ? 1 : 2 + at % 2;
}

static wafer_status grid(case_build *b) {
  uint32_t w = b->o.width, h = b->o.height;
  uint32_t made[4][4] = {{0}};
  if (b->o.repeat == 1) b->answer = 0; /* over the input, which nobody needs again */
  for (uint32_t y = 0; y < h; y++)
    for (uint32_t x = 0; x < w; x++) {
      uint32_t *one = &made[class_of(x, w)][x ? 0 : class_of(y, h)];
      if (!*one) *one = grid_program(b, x, y) + 1;
      case_place(b, x, y, *one - 1);
    }
  grid_routes(b);
  uint64_t chain = case_depth(b) + case_hops(b, 1);
  b->predicted = (w > 1 ? case_sums(b) + chain * (w - 1) : 0) +
                 (h > 1 ? case_sums(b) + chain * (h - 1) : 0) + b->wavelets +
                 case_hops(b, w + h - 2) + case_depth(b);
  return WAFER_OK;
}

/* ---- ring: a chunk of whole wavelets per core, all as long; what the words fall short of it is
 * summed as well ---- */

enum { RING = 0, HOME = 2 };
enum { HERE = 3, ROUNDS = 4 }; /* registers: a chunk's address; rounds of the loop to go */

static void ring_routes(case_build *b) {
  uint32_t last = b->o.width - 1, h = b->o.height;
  for (uint32_t x = 0; x < last; x++) {
    case_route(b, (wafer_rect){x, 0, 1, h}, (uint8_t)(RING + x % 2), WAFER_PORT_ramp,
               WAFER_TO(east));
    case_route(b, (wafer_rect){x + 1, 0, 1, h}, (uint8_t)(RING + x % 2), WAFER_PORT_west,
               WAFER_TO(ramp));
  }
  for (uint32_t y = 0; y < h; y++) case_line_west(b, last, 0, y, HOME);
}

/* Core x keeps chunk x + 1 + k, around the end, in slot k: so all start at the last slot and go
 * down. */
static uint32_t ring_index(const case_build *b, uint32_t x, uint32_t i) {
  uint32_t chunk = b->o.words / b->o.width;
  return (x + 1 + i / chunk) % b->o.width * chunk + i % chunk;
}

/* Sends the slot at HERE, after it has come in, and takes the one `down` bytes below. Microthreads
 * alternate, so that an instruction is set up while the one before runs. */
static void ring_step(case_build *b, case_program *p, uint8_t out, uint8_t in, bool adds,
                      int32_t down, uint8_t turn) {
  wafer_operand slot = case_memory(b, 0), from = case_in(b, p, in);
  slot.reg = HERE;
  wafer_instruction code =
      case_instruction(b, WAFER_CORE_move, case_out(b, p, out), slot, (wafer_operand){0});
  code.async = true;
  code.thread = (uint8_t)(2 + turn);
  code.after = (uint8_t)(2 - turn);
  code.shape[3] = b->o.words / b->o.width;
  case_emit(b, p, code);
  case_emit(
      b, p,
      (wafer_instruction){
          .op = WAFER_CORE_plus, .a = HERE, .b = HERE, .c = WAFER_NO_REGISTER, .value = -down});
  code = adds ? case_instruction(b, WAFER_CORE_add, slot, slot, from)
              : case_instruction(b, WAFER_CORE_move, slot, from, (wafer_operand){0});
  code.async = true;
  code.thread = turn;
  code.shape[3] = b->o.words / b->o.width;
  case_emit(b, p, code);
}

/* `steps` steps, two to a round of the loop; the first of them on microthread 0. */
static void ring_loop(case_build *b, case_program *p, uint8_t out, uint8_t in, bool adds,
                      uint32_t steps) {
  int32_t bytes = (int32_t)(b->o.words / b->o.width * b->bytes);
  case_emit(b, p,
            (wafer_instruction){.op = WAFER_CORE_set, .a = ROUNDS, .value = (int32_t)(steps / 2)});
  if (steps > 1) {
    uint16_t loop = (uint16_t)p->program.code_count;
    ring_step(b, p, out, in, adds, bytes, 0);
    ring_step(b, p, out, in, adds, bytes, 1);
    case_emit(
        b, p,
        (wafer_instruction){
            .op = WAFER_CORE_plus, .a = ROUNDS, .b = ROUNDS, .c = WAFER_NO_REGISTER, .value = -1});
    case_emit(b, p,
              (wafer_instruction){
                  .op = WAFER_CORE_branch, .a = WAFER_NO_REGISTER, .b = ROUNDS, .target = loop});
  }
  if (steps % 2) ring_step(b, p, out, in, adds, bytes, 0);
}

static uint32_t ring_program(case_build *b, uint8_t out, uint8_t in) {
  uint32_t cores = b->o.width;
  int32_t last = (int32_t)((b->o.words - b->o.words / cores) * b->bytes);
  case_program *p = case_program_begin(b, "ring");
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_set, .a = HERE, .value = last});
  ring_loop(b, p, out, in, true, cores - 1);
  for (uint8_t turn = 0; turn < 2;
       turn++) /* the lowest slot has its sum; the next to come is the highest */
    case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_join, .thread = turn});
  ring_step(b, p, out, in, false, -last, 1);
  ring_loop(b, p, out, in, false, cores - 2);
  return case_program_end(b, p);
}

static wafer_status ring(case_build *b) {
  uint32_t cores = b->o.width;
  if (cores < 3 || b->o.repeat > 1)
    return case_refuse(b, "a ring takes three cores in a row, and runs once");
  uint64_t chunk = (b->wavelets + cores - 1) / cores;
  case_set_words(b, (uint32_t)(chunk * cores * 4 / b->bytes));
  b->answer = 0;
  for (uint32_t x = 0; x < cores; x++) {
    uint8_t out = (uint8_t)(x == cores - 1 ? HOME : RING + x % 2),
            in = (uint8_t)(x ? RING + (x - 1) % 2 : HOME);
    bool inner = x > 2 && x < cores - 1;
    uint32_t program = inner ? b->core[x - 2] : ring_program(b, out, in);
    for (uint32_t y = 0; y < b->o.height; y++) case_place(b, x, y, program);
  }
  ring_routes(b);
  b->predicted = (uint64_t)(cores - 1) * ((b->wavelets + case_sums(b)) / cores) +
                 case_hops(b, 4 * (uint64_t)cores - 6) + 2 * (uint64_t)(cores - 1) * case_depth(b);
  return WAFER_OK;
}

static bool is_ring(const case_build *b) {
  return b->o.algorithm && !strcmp(b->o.algorithm, "ring");
}

static wafer_status build_all_reduce(case_build *b) {
  if (b->o.width * b->o.height < 2) return case_refuse(b, "an all-reduce takes two cores");
  return is_ring(b) ? ring(b) : grid(b);
}

/* A ring sums its row; the grid everything, as prepared. */
static void prepare_all_reduce(case_build *b) {
  uint32_t rows = is_ring(b) ? b->o.height : 1;
  double *sums = WAFER_NEW(b->arena, double, (size_t)rows * b->o.words);
  b->state = sums;
  for (uint32_t y = 0; sums && y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++)
      for (uint32_t i = 0; i < b->o.words; i++)
        sums[(is_ring(b) ? (size_t)y * b->o.words + ring_index(b, x, i) : i)] +=
            case_input(b, x, y, i);
}

static bool expect_all_reduce(const case_build *b, uint32_t x, uint32_t y, uint32_t i,
                              double *value) {
  const double *sums = b->state;
  *value = sums ? sums[is_ring(b) ? (size_t)y * b->o.words + ring_index(b, x, i) : i] : -1;
  return true;
}

const case_row case_all_reduce_row = {
    {"all-reduce", "2d|ring", "the sum of all words at all cores; ring: of each row"},
    build_all_reduce,
    expect_all_reduce,
    prepare_all_reduce,
    NULL};
