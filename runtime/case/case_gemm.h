/* What the algorithms of the case gemm share. Private to case_*.c */
#ifndef RUNTIME_CASE_GEMM_H
#define RUNTIME_CASE_GEMM_H

#include "case_matrix.h"

enum { CASE_A = 3, CASE_A_NEXT = 4, CASE_B = 6, CASE_B_NEXT = 7, CASE_STEPS = 8 };  /* registers */
enum { CASE_SEND_A, CASE_RECEIVE_A, CASE_SEND_B, CASE_RECEIVE_B, CASE_MULTIPLIES }; /* threads */
enum { CASE_START, CASE_A_CAME, CASE_B_CAME, CASE_BOTH_CAME, CASE_STEPPED };        /* tasks */

/* Memory of a tile. */
uint32_t case_gemm_bytes(const case_build *b, uint32_t rows, uint32_t cols);
wafer_operand case_gemm_at(const case_build *b, uint8_t reg, uint32_t address);
/* Tiles of A lie column by column, those of B row by row, C's at `answer` column by column. */
void case_gemm_clear(case_build *b, case_program *p);
/* C += A B for the tiles that registers A and B point to; uses registers 9, 10 and 12. */
void case_gemm_multiply(case_build *b, case_program *p);
uint64_t case_gemm_multiply_cycles(const case_build *b);

/* `count` elements between the tile at a register and a color, on a microthread; a receive
 * activates a task when it has all, 0: none. */
void case_gemm_send(case_build *b, case_program *p, uint8_t color, uint8_t reg, uint32_t count,
                    uint8_t thread);
void case_gemm_receive(case_build *b, case_program *p, uint8_t color, uint8_t reg, uint32_t count,
                       uint8_t thread, uint8_t task);
/* What came becomes present; the next goes to the other of the two places: `sum` less the one. */
void case_gemm_swap(case_build *b, case_program *p, uint8_t now, uint8_t next, uint32_t sum);
void case_gemm_task(case_build *b, case_program *p, wafer_core_op op, uint8_t task);
void case_gemm_begin_task(case_program *p, uint8_t task, bool blocked);
void case_gemm_end_task(case_build *b, case_program *p);
/* The tasks of a step: when both tiles have come and the present ones are multiplied, what is
 * emitted next goes on. */
void case_gemm_waits(case_build *b, case_program *p);
uint64_t case_gemm_wait_cycles(const case_build *b);

wafer_status case_mesh_build(case_build *b);
void case_mesh_prepare(case_build *b);
uint32_t case_mesh_b(const case_build *b); /* where B's tile lies at first */
/* The rows of B that the core in column x and row y of a square of `cores` begins with. */
uint32_t case_mesh_block(uint32_t cores, uint32_t x, uint32_t y);

wafer_status case_summa_build(case_build *b);
uint32_t case_summa_b(const case_build *b);

#endif
