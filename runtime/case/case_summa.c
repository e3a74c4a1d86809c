/* Panel by panel, everyone gets what it needs by multicast: the tiles of a row of A go westwards to
 * its first core, nearest first, where a switch at each router lets the core's own tile by and then
 * those from behind; the first core sends them on to the whole row. Columns of B do the same. After
 * van de Geijn and Watts, "SUMMA" (1997); that panels pass through the first core is ours: routes
 * then never change with the sender. */
#include "case_gemm.h"

enum { GATHER_A, SPREAD_A, GATHER_B, SPREAD_B }; /* colours */
enum { PASS_A = 5, PASS_B = 6 };                 /* microthreads of the first cores */

/* ---- memory: A's own tile, two more of A, B's own, two more of B, C ---- */

static uint32_t a_bytes(const case_build *b) {
  const case_matrices *m = b->state;
  return case_gemm_bytes(b, m->mt, m->kt);
}
static uint32_t b_bytes(const case_build *b) {
  const case_matrices *m = b->state;
  return case_gemm_bytes(b, m->kt, m->nt);
}
uint32_t case_summa_b(const case_build *b) {
  return 3 * a_bytes(b);
}

/* ---- a core ---- */

/* The core's own tile; the first core passes on all others behind it, wavelet by wavelet. */
static void emit_offer(case_build *b, case_program *p, uint32_t at, uint8_t gather, uint32_t tile,
                       uint32_t elements, uint8_t thread, uint8_t passes) {
  uint32_t last = b->o.width - 1;
  wafer_instruction code =
      case_instruction(b, WAFER_CORE_move, case_out(b, p, at ? gather : (uint8_t)(gather + 1)),
                       case_memory(b, (int32_t)tile), (wafer_operand){0});
  code.shape[3] = elements;
  code.async = true;
  code.thread = thread;
  if (at) code.control = at == last ? WAFER_CONTROL_reset : WAFER_CONTROL_advance;
  case_emit(b, p, code);
  if (at) return;
  wafer_operand in = case_in(b, p, gather);
  in.dtype = code.out.dtype = WAFER_DTYPE_u32;
  code.in[0] = in;
  code.shape[3] = (elements * b->bytes + 3) / 4 * last;
  code.thread = passes;
  case_emit(b, p, code);
}

static void emit_receives(case_build *b, case_program *p) {
  const case_matrices *m = b->state;
  case_gemm_receive(b, p, SPREAD_A, CASE_A_NEXT, m->mt * m->kt, CASE_RECEIVE_A, CASE_A_CAME);
  case_gemm_receive(b, p, SPREAD_B, CASE_B_NEXT, m->kt * m->nt, CASE_RECEIVE_B, CASE_B_CAME);
}

static uint32_t summa_program(case_build *b, uint32_t x, uint32_t y) {
  const case_matrices *m = b->state;
  case_program *p = case_program_begin(b, "gemm summa");
  uint32_t a = a_bytes(b), w = b_bytes(b), at_b = case_summa_b(b);
  case_add(b, p, CASE_STEPS, WAFER_NO_REGISTER, (int32_t)b->o.width);
  case_add(b, p, CASE_A_NEXT, WAFER_NO_REGISTER, (int32_t)a);
  case_add(b, p, CASE_B_NEXT, WAFER_NO_REGISTER, (int32_t)(at_b + w));
  emit_offer(b, p, x, GATHER_A, 0, m->mt * m->kt, CASE_SEND_A, PASS_A);
  emit_offer(b, p, y, GATHER_B, at_b, m->kt * m->nt, CASE_SEND_B, PASS_B);
  emit_receives(b, p);
  case_gemm_clear(b, p);
  case_gemm_task(b, p, WAFER_CORE_activate, CASE_STEPPED);
  case_gemm_end_task(b, p);
  uint32_t more = p->program.code_count;
  emit_receives(b, p);
  case_gemm_multiply(b, p);
  case_gemm_task(b, p, WAFER_CORE_activate, CASE_STEPPED);
  case_gemm_end_task(b, p);
  case_gemm_waits(b, p);
  case_gemm_swap(b, p, CASE_A, CASE_A_NEXT, 3 * a);
  case_gemm_swap(b, p, CASE_B, CASE_B_NEXT, 2 * at_b + 3 * w);
  case_add(b, p, CASE_STEPS, CASE_STEPS, -1);
  case_loop(b, p, CASE_STEPS, more);
  case_gemm_multiply(b, p);
  return case_program_end(b, p);
}

/* ---- all ---- */

static wafer_rect across(uint32_t cores, uint32_t at, uint32_t count, bool column) {
  return column ? (wafer_rect){0, at, cores, count} : (wafer_rect){at, 0, count, cores};
}

static void summa_routes(case_build *b, uint8_t gather, bool column) {
  uint32_t cores = b->o.width, last = cores - 1;
  wafer_port home = column ? WAFER_PORT_north : WAFER_PORT_west,
             away = column ? WAFER_PORT_south : WAFER_PORT_east;
  uint8_t to_home = (uint8_t)(1u << home), spread = (uint8_t)(gather + 1);
  uint32_t to_away = 1u << away;
  case_route(b, across(cores, 0, 1, column), gather, away, WAFER_TO(ramp));
  case_route_add(b, (wafer_route){.cores = across(cores, 1, last - 1, column),
                                  .color = gather,
                                  .positions = 2,
                                  .at = {{WAFER_PORT_ramp, to_home}, {(uint8_t)away, to_home}}});
  case_route(b, across(cores, last, 1, column), gather, WAFER_PORT_ramp, to_home);
  case_route(b, across(cores, 0, 1, column), spread, WAFER_PORT_ramp, to_away | WAFER_TO(ramp));
  case_route(b, across(cores, 1, last - 1, column), spread, home, to_away | WAFER_TO(ramp));
  case_route(b, across(cores, last, 1, column), spread, home, WAFER_TO(ramp));
}

static uint32_t class_of(uint32_t cores, uint32_t at) {
  return at == 0 ? 0 : at + 1 < cores ? 1 : 2;
}

wafer_status case_summa_build(case_build *b) {
  const case_matrices *m = b->state;
  uint32_t cores = b->o.width, made[3][3] = {{0}};
  b->answer = case_summa_b(b) + 3 * b_bytes(b) + 4;
  for (uint32_t y = 0; y < cores; y++)
    for (uint32_t x = 0; x < cores; x++) {
      uint32_t *one = &made[class_of(cores, x)][class_of(cores, y)];
      if (!*one) *one = summa_program(b, x, y) + 1;
      case_place(b, x, y, *one - 1);
    }
  summa_routes(b, GATHER_A, false);
  summa_routes(b, GATHER_B, true);
  uint64_t a = (m->mt * m->kt * b->bytes + 3) / 4, w = (m->kt * m->nt * b->bytes + 3) / 4,
           step = case_gemm_multiply_cycles(b) + case_gemm_wait_cycles(b),
           words = (a > w ? a : w) + b->machine->vector_setup_cycles;
  b->predicted = cores * (step > words ? step : words) + case_hops(b, cores) + 2 * case_depth(b);
  return WAFER_OK;
}
