/* C = A B on a square of cores, a tile of each at every core: the core in row y and column x holds
 * rows y of A and C, columns x of B and C. The algorithms differ in how tiles of A and B meet:
 * case_mesh.c passes them round in rings, case_summa.c sends them to everyone in turn. */
#include <string.h>

#include "case_gemm.h"

uint32_t case_gemm_bytes(const case_build *b, uint32_t rows, uint32_t cols) {
  return case_matrix_room(b, rows * cols);
}

wafer_operand case_gemm_at(const case_build *b, uint8_t reg, uint32_t address) {
  wafer_operand o = case_memory(b, (int32_t)address);
  o.reg = reg;
  return o;
}

void case_gemm_clear(case_build *b, case_program *p) {
  const case_matrices *m = b->state;
  wafer_operand zero = {.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)b->o.dtype};
  wafer_instruction code = case_instruction(b, WAFER_CORE_move, case_memory(b, (int32_t)b->answer),
                                            zero, (wafer_operand){0});
  code.shape[3] = m->mt * m->nt;
  code.thread = CASE_MULTIPLIES; /* a send that waits for others must not hold it up */
  case_emit(b, p, code);
}

/* ---- parts of a program ---- */

void case_gemm_send(case_build *b, case_program *p, uint8_t color, uint8_t reg, uint32_t count,
                    uint8_t thread) {
  wafer_instruction code = case_instruction(b, WAFER_CORE_move, case_out(b, p, color),
                                            case_gemm_at(b, reg, 0), (wafer_operand){0});
  code.shape[3] = count;
  code.async = true;
  code.thread = thread;
  case_emit(b, p, code);
}

void case_gemm_receive(case_build *b, case_program *p, uint8_t color, uint8_t reg, uint32_t count,
                       uint8_t thread, uint8_t task) {
  wafer_instruction code = case_instruction(b, WAFER_CORE_move, case_gemm_at(b, reg, 0),
                                            case_in(b, p, color), (wafer_operand){0});
  code.shape[3] = count;
  code.async = true;
  code.thread = thread;
  code.then = task ? (uint8_t)(task + 1) : 0;
  case_emit(b, p, code);
}

void case_gemm_task(case_build *b, case_program *p, wafer_core_op op, uint8_t task) {
  case_emit(b, p, (wafer_instruction){.op = (uint8_t)op, .target = task});
}

/* What came becomes present; the next goes where `sum` of the two addresses says. */
void case_gemm_swap(case_build *b, case_program *p, uint8_t now, uint8_t next, uint32_t sum) {
  case_add(b, p, now, next, 0);
  case_emit(b, p,
            (wafer_instruction){.op = WAFER_CORE_minus,
                                .a = next,
                                .b = WAFER_NO_REGISTER,
                                .c = now,
                                .value = (int32_t)sum});
}

void case_gemm_begin_task(case_program *p, uint8_t task, bool blocked) {
  p->tasks[task] = (wafer_core_task){
      .kind = WAFER_TASK_local, .blocked = blocked, .entry = p->program.code_count};
  p->program.task_count = task + 1u;
}

void case_gemm_end_task(case_build *b, case_program *p) {
  case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_end});
}

void case_gemm_waits(case_build *b, case_program *p) {
  case_gemm_begin_task(p, CASE_A_CAME, false);
  case_gemm_task(b, p, WAFER_CORE_unblock, CASE_BOTH_CAME);
  case_gemm_end_task(b, p);
  case_gemm_begin_task(p, CASE_B_CAME, false);
  case_gemm_task(b, p, WAFER_CORE_activate, CASE_BOTH_CAME);
  case_gemm_end_task(b, p);
  case_gemm_begin_task(p, CASE_BOTH_CAME, true);
  case_gemm_task(b, p, WAFER_CORE_block, CASE_BOTH_CAME);
  case_gemm_task(b, p, WAFER_CORE_unblock, CASE_STEPPED);
  case_gemm_end_task(b, p);
  case_gemm_begin_task(p, CASE_STEPPED, true);
  case_gemm_task(b, p, WAFER_CORE_block, CASE_STEPPED);
}

/* C, column by column: a row of B's tile times a column of A's at a time; descriptors are loaded
 * for each. */
void case_gemm_multiply(case_build *b, case_program *p) {
  enum { A = 9, B = 10, LEFT = 12 };
  const case_matrices *m = b->state;
  int32_t bytes = (int32_t)b->bytes, column = bytes * (int32_t)m->mt;
  case_add(b, p, A, CASE_A, 0);
  case_add(b, p, B, CASE_B, 0);
  case_add(b, p, LEFT, WAFER_NO_REGISTER, (int32_t)m->kt);
  uint32_t loop = p->program.code_count;
  wafer_operand c = case_memory(b, (int32_t)b->answer), x = case_gemm_at(b, A, 0),
                y = case_gemm_at(b, B, 0);
  c.stride[2] = column;
  y.stride[2] = bytes;
  y.stride[3] = 0;
  wafer_instruction code = case_instruction(b, WAFER_CORE_fma, c, x, y);
  code.in[2] = c;
  code.shape[2] = m->nt;
  code.shape[3] = m->mt;
  code.load_descriptors = true;
  code.thread = CASE_MULTIPLIES;
  case_emit(b, p, code);
  case_add(b, p, A, A, column);
  case_add(b, p, B, B, bytes * (int32_t)m->nt);
  case_add(b, p, LEFT, LEFT, -1);
  case_loop(b, p, LEFT, loop);
}

uint64_t case_gemm_multiply_cycles(const case_build *b) {
  const case_matrices *m = b->state;
  const wafer_machine *w = b->machine;
  return m->kt * (w->vector_setup_cycles + w->descriptor_load_cycles + 4ull +
                  wafer_machine_cycles(w, WAFER_RATE_fma, b->o.dtype, (uint64_t)m->mt * m->nt));
}

uint64_t case_gemm_wait_cycles(const case_build *b) {
  return 4 * (b->machine->task_switch_cycles + 2ull) + 11;
}

static wafer_status choose(case_build *b) {
  uint32_t cores = b->o.width;
  if (cores != b->o.height || cores < 3)
    return case_refuse(b, "a gemm takes a square of three by three cores or more");
  if (!b->o.m) b->o.m = cores;
  if (!b->o.k) b->o.k = cores;
  if (!b->o.n) b->o.n = cores;
  if (b->o.m % cores || b->o.k % cores || b->o.n % cores)
    return case_refuse(b, "m, k and n are multiples of the cores of a side");
  return WAFER_OK;
}

static bool is_summa(const case_build *b) {
  return b->o.algorithm && !strcmp(b->o.algorithm, "summa");
}

static wafer_status build_gemm(case_build *b) {
  WAFER_TRY(choose(b));
  uint64_t mt = b->o.m / b->o.width, kt = b->o.k / b->o.width, nt = b->o.n / b->o.width;
  WAFER_TRY(case_matrices_fit(b, 3 * mt * kt + 2 * kt * nt + mt * nt));
  case_matrices *m = case_matrices_make(b, b->o.m, b->o.k, b->o.n, 0, 0);
  if (!m) return case_refuse(b, "no memory for the matrices");
  m->mt = b->o.m / b->o.width;
  m->kt = b->o.k / b->o.width;
  m->nt = b->o.n / b->o.width;
  b->state = m;
  b->warms = b->timed = b->o.repeat > 1;
  b->answer_words = m->mt * m->nt;
  return is_summa(b) ? case_summa_build(b) : case_mesh_build(b);
}

/* Which tile of B's rows lies at a core at first. */
static uint32_t first_block(const case_build *b, uint32_t x, uint32_t y) {
  return is_summa(b) ? y : case_mesh_block(b->o.width, x, y);
}

static wafer_status fill_gemm(case_build *b) {
  const case_matrices *m = b->state;
  uint32_t at_b = is_summa(b) ? case_summa_b(b) : case_mesh_b(b);
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) {
      size_t row = (size_t)first_block(b, x, y) * m->kt;
      case_block a = {&m->a[(size_t)y * m->mt * m->k + x * m->kt], m->k, m->mt, m->kt, true};
      case_block w = {&m->b[row * m->n + x * m->nt], m->n, m->kt, m->nt, false};
      WAFER_TRY(case_matrix_put(b, x, y, 0, &a));
      WAFER_TRY(case_matrix_put(b, x, y, at_b, &w));
    }
  return WAFER_OK;
}

static void prepare_gemm(case_build *b) {
  if (!is_summa(b)) case_mesh_prepare(b);
}

static bool expect_gemm(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  const case_matrices *m = b->state;
  size_t row = (size_t)y * m->mt + i % m->mt, column = (size_t)x * m->nt + i / m->mt;
  *value = m->c[row * m->n + column];
  return true;
}

const case_row case_gemm_row = {
    {"gemm", "mesh|summa", "a matrix times a matrix, a tile of each at every core"},
    build_gemm,
    expect_gemm,
    prepare_gemm,
    fill_gemm};
