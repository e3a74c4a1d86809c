/* Sparse wavelets and pairs: what compress sends and axpy takes. */
#include "fabric_row.h"

/* One core sends what is not zero of 40 elements to the next, which has 5 x 8 runs. */
static fixture *pairs(bool narrow, uint32_t run, const float *values) {
  static wafer_instruction sends, takes;
  static const wafer_instruction *code[2] = {&sends, &takes};
  static const uint32_t counts[2] = {1, 1};
  static const wafer_route routes[] = {
      {{0, 0, 1, 1}, 0, 1, false, {{WAFER_PORT_ramp, WAFER_TO(east)}}},
      {{1, 0, 1, 1}, 0, 1, false, {{WAFER_PORT_west, WAFER_TO(ramp)}}}};
  sends = (wafer_instruction){DO(compress, 40, WIRE(f32, 0), FLAT(f32, 0, 4))};
  takes = (wafer_instruction){DO(axpy, run, AT(f32, 4, {0, 400, 0, 4}), WIRE(f32, 0),
                                 AT(f32, 2000, {0, 0, 40, 4}), AT(f32, 4, {0, 400, 0, 4}))};
  takes.shape[1] = 5, takes.shape[2] = 8;
  if (narrow) {
    sends.out.dtype = sends.in[0].dtype = takes.in[0].dtype = WAFER_DTYPE_f16;
    sends.in[0].stride[3] = 2;
  }
  fixture *f = lay(2, code, counts, routes, 2);
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  for (uint32_t i = 0; i < 40; i++) {
    uint16_t half = wafer_f16_of_f32(values[i]);
    put(f, 0, narrow ? 2 * i : 4 * i, narrow ? (void *)&half : (void *)&values[i], narrow ? 2 : 4);
  }
  float zeros[500] = {0}, x[160];
  for (int i = 0; i < 160; i++) x[i] = (float)(i + 1);
  put(f, 1, 4, zeros, sizeof zeros);
  put(f, 1, 2000, x, sizeof x);
  return f;
}

static void sparse_wavelets_multiply_runs(void) {
  float values[40] = {0};
  values[0] = 2, values[5] = -3, values[13] = 0.5f, values[39] = 1, values[20] = -0.0f;
  for (uint32_t narrow = 0; narrow < 2; narrow++)
    for (uint32_t run_length = 1; run_length <= 9; run_length += 8) {
      fixture *f = pairs(narrow, run_length, values);
      run(f);
      for (uint32_t high = 0; high < 5; high++)
        for (uint32_t i = 0; i < run_length; i++) {
          float want = 0, got;
          for (uint32_t low = 0; low < 8; low++)
            want += values[8 * high + low] * (float)(10 * low + i + 1);
          CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 4 + 400 * high + 4 * i, &got, 4));
          CU_ASSERT(got == want);
        }
      CU_ASSERT(f->stats.elements == 4 + 4 * run_length);
      CU_ASSERT(f->stats.hops == (narrow ? 4 + 1 : 2 * 4 + 1));
      finish(f);
    }
}

/* Two runs of each pair, set up once; a register that moves later changes nothing. */
static void pairs_have_runs_from_where_they_were_issued(void) {
  enum { RUN = 3, BASE = 5 };
  float values[40] = {0};
  values[0] = 2, values[5] = -3, values[39] = 1;
  fixture *f = pairs(false, RUN, values);
  wafer_instruction takes = f->programs[1].code[0];
  takes.shape[0] = 2;
  takes.out.stride[0] = takes.in[2].stride[0] = 160;
  takes.in[1].stride[0] = 320;
  takes.in[1].address = 1600, takes.in[1].reg = BASE;
  takes.async = true, takes.thread = 1;
  const wafer_instruction code[] = {{.op = WAFER_CORE_set, .a = BASE, .value = 400},
                                    takes,
                                    {.op = WAFER_CORE_set, .a = BASE, .value = 0},
                                    {.op = WAFER_CORE_join, .thread = 1}};
  f->programs[1].code = code;
  f->programs[1].code_count = WAFER_COUNT(code);
  CU_ASSERT_FATAL(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_OK);
  run(f);
  for (uint32_t high = 0; high < 5; high++)
    for (uint32_t i = 0; i < 2 * RUN; i++) {
      uint32_t r = i / RUN, at = i % RUN;
      float want = 0, got;
      for (uint32_t low = 0; low < 8; low++)
        want += values[8 * high + low] * (float)(10 * low + at + 80 * r + 1);
      CU_ASSERT(
          wafer_fabric_read(f->fabric, 1, 0, 4 + 400 * high + 160 * r + 4 * at, &got, sizeof got));
      CU_ASSERT(got == want);
    }
  finish(f);
}

/* Each pair takes its set-up and its run; zeros nothing but the cycle in which they are seen. */
static void sparse_wavelets_take_their_time(void) {
  float values[40] = {0};
  for (int i = 0; i < 4; i++) values[i] = 1;
  uint64_t cycles[3];
  for (uint32_t i = 0; i < 3; i++) {
    values[4] = i == 2;
    fixture *f = pairs(true, i == 1 ? 80 : 40, values);
    run(f);
    cycles[i] = wafer_fabric_finish(f->fabric, 1, 0);
    finish(f);
  }
  CU_ASSERT(cycles[1] == cycles[0] + 4 * 40 / 4); /* four f16 a cycle */
  CU_ASSERT(cycles[2] == cycles[0] + 40 / 4 + 5); /* vector-setup-cycles - 1 */
}

enum { LIST_PAIRS = 10, LIST_WORDS = 2 * LIST_PAIRS + 1, LIST_RUN = 8 };

/* The cycles in which a core multiplies with `lists` lists that it sends to itself. */
static uint64_t multiply_lists(uint32_t lists) {
  static const wafer_instruction code[] = {
      {DO(move, LIST_WORDS, WIRE(u32, 0), FLAT(u32, 0, 4)), .async = true, .thread = 1},
      {DO(axpy, LIST_RUN, FLAT(f32, 2004, 4), WIRE(f32, 0), FLAT(f32, 1000, 4), FLAT(f32, 2004, 4)),
       .async = true, .thread = 2},
      {DO(move, LIST_WORDS, WIRE(u32, 1), FLAT(u32, 0, 4)), .async = true, .thread = 3},
      {DO(axpy, LIST_RUN, FLAT(f32, 2004, 4), WIRE(f32, 1), FLAT(f32, 1000, 4), FLAT(f32, 2004, 4)),
       .async = true, .thread = 4}};
  static const wafer_route routes[] = {
      {{0, 0, 1, 1}, 0, 1, false, {{WAFER_PORT_ramp, WAFER_TO(ramp)}}},
      {{0, 0, 1, 1}, 1, 1, false, {{WAFER_PORT_ramp, WAFER_TO(ramp)}}}};
  const wafer_instruction *at = code;
  uint32_t count = 2 * lists, words[LIST_WORDS] = {0};
  fixture *f = lay(1, &at, &count, routes, lists);
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  float one = 1, x[LIST_RUN], zeros[LIST_RUN] = {0}, got[LIST_RUN];
  for (uint32_t i = 0; i < LIST_PAIRS; i++) memcpy(&words[2 * i + 1], &one, sizeof one);
  for (uint32_t i = 0; i < LIST_RUN; i++) x[i] = (float)(i + 1);
  words[LIST_WORDS - 1] = 0xffff;
  put(f, 0, 0, words, sizeof words);
  put(f, 0, 1000, x, sizeof x);
  put(f, 0, 2004, zeros, sizeof zeros);
  run(f);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 2004, got, sizeof got));
  for (uint32_t i = 0; i < LIST_RUN; i++) CU_ASSERT(got[i] == (float)(lists * LIST_PAIRS) * x[i]);
  uint64_t cycles = wafer_fabric_finish(f->fabric, 0, 0);
  finish(f);
  return cycles;
}

/* One pair is set up while the run of another goes on to its end, so that arithmetic never waits.
 * Of a single list the ways out and in are one queue, and neither end waits for the other to end.
 */
static void lists_of_pairs_share_the_arithmetic(void) {
  uint64_t least = 2 * LIST_PAIRS * LIST_RUN, cycles = multiply_lists(2);
  CU_ASSERT(cycles >= least && cycles <= least + 30);
  CU_ASSERT(multiply_lists(1) >= cycles / 2 + 4 * LIST_PAIRS);
}

static void sparse_wavelets_stay_inside(void) {
  float values[40] = {0};
  values[39] = 1;
  fixture *f = pairs(false, 1, values);
  wafer_instruction few = f->programs[1].code[0];
  few.shape[1] = 4;
  f->programs[1].code = &few;
  CU_ASSERT(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_OK);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_TRAP);
  CU_ASSERT(strstr(f->caught.text, "axpy takes index 39, outside of its 4x8 runs") != NULL);
  finish(f);
  f = pairs(false, 1, values);
  wafer_instruction wrong = f->programs[0].code[0];
  wrong.in[0].dtype = wrong.out.dtype = WAFER_DTYPE_i32;
  f->programs[0].code = &wrong;
  CU_ASSERT(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_BAD_INPUT);
  CU_ASSERT(strstr(f->caught.text, "sparse wavelets of f32, f16 or bf16") != NULL);
  finish(f);
}

CU_TestInfo tests_fabric_sparse[] = {
    {"sparse wavelets multiply runs", sparse_wavelets_multiply_runs},
    {"pairs have runs from where they were issued", pairs_have_runs_from_where_they_were_issued},
    {"sparse wavelets take their time", sparse_wavelets_take_their_time},
    {"lists of pairs share the arithmetic", lists_of_pairs_share_the_arithmetic},
    {"sparse wavelets stay inside", sparse_wavelets_stay_inside},
    CU_TEST_INFO_NULL,
};
