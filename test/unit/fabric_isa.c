/* Instructions, types, filters, the border: what programs that are compiled stand on. */
#include <math.h>

#include "fabric_row.h"

/* ---- descriptors ---- */

static void four_levels(void) {
  static const wafer_instruction code[] = {{.op = WAFER_CORE_move,
                                            .shape = {2, 2, 3, 2},
                                            .count_reg = R,
                                            .out = AT(i32, 400, {48, 24, 8, 4}),
                                            .in = {AT(i32, 0, {4, 24, 8, 48})}}};
  fixture *f = one_core(code, 1);
  int32_t data[24], got[24];
  for (int i = 0; i < 24; i++) data[i] = i;
  put(f, 0, 0, data, sizeof data);
  run(f);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 400, got, sizeof got));
  for (int a = 0, i = 0; a < 2; a++)
    for (int b = 0; b < 2; b++)
      for (int c = 0; c < 3; c++)
        for (int d = 0; d < 2; d++, i++) CU_ASSERT(got[i] == a + 6 * b + 2 * c + 12 * d);
  finish(f);
}

/* Sum of products into one f32 from f16, and a running sum that reads what it wrote. */
static void accumulates_in_order(void) {
  static const wafer_instruction code[] = {
      {DO(fma, 300, FLAT(f32, 1204, 0), FLAT(f16, 0, 2), FLAT(f16, 600, 2), FLAT(f32, 1204, 0))},
      {DO(add, 3, FLAT(f32, 1304, 4), FLAT(f32, 1300, 4), CONSTANT(f32, 1))},
      {DO(add, 300, NOWHERE(f32), FLAT(f16, 0, 2), CONSTANT(f32, 1))},
      {DO(max, 300, FLAT(f32, 1400, 0), FLAT(f32, 1400, 0), FLAT(f16, 0, 2))}};
  fixture *f = one_core(code, 4);
  uint16_t data[600];
  float sum = 0.5f, start = 7, got[4];
  for (int i = 0; i < 600; i++) data[i] = wafer_f16_of_f32((float)(i % 37) / 8 - 2);
  put(f, 0, 0, data, sizeof data);
  put(f, 0, 1204, &sum, 4);
  put(f, 0, 1300, &start, 4);
  put(f, 0, 1400, &start, 4);
  run(f);
  for (int i = 0; i < 300; i++)
    sum = fmaf(wafer_f32_of_f16(data[i]), wafer_f32_of_f16(data[300 + i]), sum);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 1204, got, 4) && got[0] == sum);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 1300, got, 16) && got[3] == 10);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 1400, got, 4) && got[0] == 7);
  CU_ASSERT(f->stats.elements == 903);
  finish(f);
}

static void applies_functions(void) {
  static const wafer_attr bounds[] = {{.id = WAFER_ATTR_min, .f = -1},
                                      {.id = WAFER_ATTR_max, .f = 2}};
  static const wafer_attrs clip = {2, bounds};
  static const wafer_instruction code[] = {
      {APPLY(tanh, 300, FLAT(f16, 2000, 2), FLAT(f32, 0, 4))},
      {APPLY(less, 300, FLAT(bool, 3000, 1), FLAT(f32, 0, 4), CONSTANT(f32, 0.5))},
      {APPLY(select, 300, FLAT(f32, 4000, 4), FLAT(bool, 3000, 1), FLAT(f32, 0, 4),
             CONSTANT(f32, 9))},
      {APPLY(clip, 300, FLAT(f32, 6000, 4), FLAT(f32, 0, 4)), .attrs = &clip},
      {APPLY(cast, 300, FLAT(i64, 8000, 8), FLAT(f32, 6000, 4))},
      {APPLY(add, 300, FLAT(i64, 8000, 8), FLAT(i64, 8000, 8), CONSTANT(i64, 4e15))}};
  fixture *f = one_core(code, 6);
  float data[300], got;
  for (int i = 0; i < 300; i++) data[i] = (float)i / 50 - 3;
  put(f, 0, 0, data, sizeof data);
  run(f);
  for (uint32_t i = 0; i < 300; i++) {
    uint16_t half;
    uint8_t flag;
    int64_t whole;
    float clipped = data[i] < -1 ? -1 : data[i] > 2 ? 2 : data[i];
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 2000 + 2 * i, &half, 2));
    CU_ASSERT(fabsf(wafer_f32_of_f16(half) - tanhf(data[i])) < 1e-3f);
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 3000 + i, &flag, 1) && flag == (data[i] < 0.5f));
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 4000 + 4 * i, &got, 4));
    CU_ASSERT(got == (flag ? data[i] : 9));
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 8000 + 8 * i, &whole, 8));
    CU_ASSERT(whole == 4000000000000000 + (int64_t)clipped);
  }
  /* 300 each at 1/24, 1, 1, 1, 1 and, of 64 bits, 1/2 a cycle; a quarter of the flags and values
   * lie in the same banks; 6 set-ups. */
  CU_ASSERT(f->stats.cycles == 300 * (24 + 1 + 1 + 1 + 1 + 2) + 75 + 6 * 5);
  finish(f);
}

/* With a microthread that waits beside it, an instruction goes step by step: as many cycles, the
 * same bytes. */
static void at_once_is_step_by_step(void) {
  static const wafer_instruction work[] = {
      {.op = WAFER_CORE_mul,
       .shape = {1, 3, 7, 5},
       .count_reg = R,
       .out = AT(f16, 2000, {0, 70, 10, 2}),
       .in = {AT(f16, 0, {0, 70, 10, 2}), AT(f16, 8, {0, 2, 20, 6})}},
      {DO(sub, 53, FLAT(i16, 3000, 2), FLAT(i16, 0, 2), FLAT(i16, 210, 2))},
      {DO(exp, 9, FLAT(f32, 4000, 8), FLAT(f16, 0, 2))}};
  static const wafer_route in[] = {{.cores = {0, 0, 1, 1},
                                    .color = 0,
                                    .positions = 1,
                                    .at = {{WAFER_PORT_west, WAFER_TO(ramp)}}}};
  wafer_instruction code[] = {
      {DO(move, 1, FLAT(f32, 5000, 4), WIRE(f32, 0)), .async = true, .thread = 1},
      {.op = WAFER_CORE_time, .a = 5},
      work[0],
      work[1],
      work[2],
      {.op = WAFER_CORE_time, .a = 6}};
  uint16_t data[250], got[2][250];
  int32_t cycles[2];
  for (int i = 0; i < 250; i++) data[i] = wafer_f16_of_f32((float)(i % 11) / 4);
  for (int slow = 0; slow < 2; slow++) {
    const wafer_instruction *list = code + 1 - slow;
    uint32_t count = 5 + (uint32_t)slow, word = 0;
    fixture *f = lay(1, &list, &count, in, 1);
    static const wafer_core_binding only[] = {{0, 0, false}};
    f->programs[0].bindings = only;
    f->programs[0].binding_count = 1;
    create(f);
    CU_ASSERT_FATAL(f->fabric != NULL);
    put(f, 0, 0, data, sizeof data);
    if (slow) {
      wafer_fabric_rate(f->fabric, 0, 1, 2000);
      CU_ASSERT(wafer_fabric_feed(f->fabric, 0, 0, WAFER_PORT_west, 0, &word, 1, 0, 0) == WAFER_OK);
    }
    run(f);
    memset(got[slow], 0, sizeof got[slow]);
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 2000, got[slow], 210));
    CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 3000, got[slow] + 105, 106));
    for (uint32_t i = 0; i < 9; i++)
      CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 4000 + 8 * i, got[slow] + 160 + 2 * i, 4));
    cycles[slow] = wafer_fabric_get(f->fabric, 0, 0, 6) - wafer_fabric_get(f->fabric, 0, 0, 5);
    finish(f);
  }
  CU_ASSERT(memcmp(got[0], got[1], sizeof got[0]) == 0);
  CU_ASSERT(cycles[0] == cycles[1]);
}

/* ---- types on the fabric ---- */

static const wafer_route east[] = {
    {.cores = {0, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(east)}}},
    {.cores = {1, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_west, WAFER_TO(ramp)}}},
    {.cores = {1, 0, 1, 1}, .color = 1, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(west)}}},
    {.cores = {0, 0, 1, 1}, .color = 1, .positions = 1, .at = {{WAFER_PORT_east, WAFER_TO(ramp)}}},
};

static void packs_types_into_wavelets(void) {
  static const wafer_instruction left[] = {
      {DO(move, 5, WIRE(u8, 0), FLAT(u8, 0, 1))},       /* 2 wavelets, the second part filled */
      {DO(move, 3, WIRE(f64, 0), FLAT(f64, 16, 8))},    /* 6 */
      {DO(convert, 3, WIRE(f16, 0), FLAT(f64, 16, 8))}, /* 2 */
      {DO(move, 4, WIRE(i16, 0), FLAT(i16, 0, 2))}};    /* 2 */
  static const wafer_instruction right[] = {
      {DO(convert, 5, FLAT(f32, 0, 4), WIRE(u8, 0))},
      {DO(add, 3, FLAT(f64, 32, 8), WIRE(f64, 0), CONSTANT(f64, 1))},
      {DO(convert, 3, FLAT(f32, 64, 4), WIRE(f16, 0))},
      {DO(convert, 4, FLAT(i64, 80, 8), WIRE(i16, 0))}};
  const wafer_instruction *code[] = {left, right};
  const uint32_t counts[] = {4, 4};
  fixture *f = lay(2, code, counts, east, 4);
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  uint8_t bytes[] = {1, 2, 250, 4, 5, 6, 7, 255};
  double wide[] = {1.5, -2, 1e300}, got[3];
  float narrow[5];
  int64_t whole[4];
  put(f, 0, 0, bytes, sizeof bytes);
  put(f, 0, 16, wide, sizeof wide);
  run(f);
  CU_ASSERT(f->stats.hops == 2 + 6 + 2 + 2);
  CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 0, narrow, 20));
  CU_ASSERT(narrow[0] == 1 && narrow[2] == 250 && narrow[4] == 5);
  CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 32, got, 24));
  CU_ASSERT(got[0] == 2.5 && got[1] == -1 && got[2] == 1e300);
  CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 64, narrow, 12));
  CU_ASSERT(narrow[1] == -2 && isinf(narrow[2]));
  CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 80, whole, 32));
  CU_ASSERT(whole[0] == 0x201 && whole[3] == (int16_t)0xff07);
  finish(f);
}

static void refuses_what_cores_cannot(void) {
  static const wafer_instruction bad[] = {
      {APPLY(conv, 1, FLAT(f32, 0, 4), FLAT(f32, 0, 4), FLAT(f32, 0, 4))},
      {APPLY(clip, 1, FLAT(f32, 0, 4), FLAT(f32, 0, 4))},
      {DO(exp, 1, FLAT(i32, 0, 4), FLAT(i32, 0, 4))},
      {DO(move, 1, FLAT(f32, 0, 4), NOWHERE(f32))}};
  const uint32_t one = 1;
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) {
    const wafer_instruction *code = &bad[i];
    fixture *f = lay(1, &code, &one, NULL, 0);
    create(f);
    CU_ASSERT(f->fabric == NULL && f->caught.count == 1);
    finish(f);
  }
}

/* ---- an ordered bus ---- */

/* Cores 0, 1 and 2 send two words each to core 3, the nearest first, two rounds: `advance` lets
 * those behind by, `reset` of the farthest closes the round. */
static const wafer_route bus[] = {
    {.cores = {0, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(east)}}},
    {.cores = {1, 0, 2, 1},
     .color = 0,
     .positions = 2,
     .at = {{WAFER_PORT_ramp, WAFER_TO(east)}, {WAFER_PORT_west, WAFER_TO(east) | WAFER_TO(ramp)}}},
    {.cores = {3, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_west, WAFER_TO(ramp)}}},
};

static fixture *ride_the_bus(const wafer_filter *filter, uint32_t kept) {
  static wafer_instruction first[2], middle[2], last[1];
  first[0] = (wafer_instruction){DO(move, 2, WIRE(u32, 0), FLAT(u32, 0, 4)),
                                 .control = WAFER_CONTROL_reset};
  middle[0] = (wafer_instruction){DO(move, 2, WIRE(u32, 0), FLAT(u32, 0, 4)),
                                  .control = WAFER_CONTROL_advance};
  first[1] = first[0];
  middle[1] = middle[0];
  last[0] = (wafer_instruction){DO(move, kept, FLAT(u32, 100, 4), WIRE(u32, 0))};
  const wafer_instruction *code[] = {first, middle, middle, last};
  const uint32_t counts[] = {2, 2, 2, 1};
  /* Nothing of the bus comes to those in the middle; the last has the filter that was asked for. */
  static const wafer_filter none = {.run_count = 0};
  static wafer_filter filters[2];
  static const wafer_filter_use uses[] = {{{1, 0, 2, 1}, 0, 0}, {{3, 0, 1, 1}, 0, 1}};
  fixture *f = lay(4, code, counts, bus, 3);
  filters[0] = none;
  if (filter) filters[1] = *filter;
  f->program.filters = filters;
  f->program.filter_count = 2;
  f->program.filter_uses = uses;
  f->program.filter_use_count = filter ? 2 : 1;
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  for (uint32_t x = 0; x < 3; x++) {
    uint32_t words[] = {10 * x, 10 * x + 1};
    put(f, x, 0, words, sizeof words);
  }
  run(f);
  return f;
}

static void buses_keep_their_order(void) {
  static const uint32_t order[] = {20, 21, 10, 11, 0, 1, 20, 21, 10, 11, 0, 1};
  uint32_t got[12];
  fixture *f = ride_the_bus(NULL, 12);
  CU_ASSERT(wafer_fabric_read(f->fabric, 3, 0, 100, got, sizeof got));
  CU_ASSERT(memcmp(got, order, sizeof got) == 0);
  CU_ASSERT(f->stats.hops == 2 * 2 * (1 + 2 + 3));
  finish(f);
}

static void filters_choose_wavelets(void) {
  static const uint32_t runs[] = {1, 2, 0, 0, 2, 1}; /* of six: the second, third and sixth */
  static const uint32_t order[] = {21, 10, 1, 21, 10, 1};
  uint32_t got[6];
  fixture *f = ride_the_bus(&(wafer_filter){runs, 6, true}, 6);
  CU_ASSERT(wafer_fabric_read(f->fabric, 3, 0, 100, got, sizeof got));
  CU_ASSERT(memcmp(got, order, sizeof got) == 0);
  finish(f);
  f = ride_the_bus(&(wafer_filter){runs, 2, false}, 2);
  CU_ASSERT(wafer_fabric_read(f->fabric, 3, 0, 100, got, 8) && got[1] == 10);
  finish(f);
}

/* ---- the border ---- */

static const wafer_route through[] = {
    {.cores = {0, 0, 2, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_west, WAFER_TO(east)}}},
    {.cores = {0, 0, 1, 1}, .color = 1, .positions = 1, .at = {{WAFER_PORT_north, WAFER_TO(ramp)}}},
};

/* One core passes words on, and takes 40 that come in beside them. */
static fixture *lay_through(void) {
  static const wafer_instruction take[] = {{DO(move, 40, FLAT(u32, 0, 4), WIRE(u32, 1))}};
  static const wafer_core_binding only[] = {{1, 0, false}};
  const wafer_instruction *code[] = {take, NULL};
  const uint32_t counts[] = {1, 0};
  fixture *f = lay(2, code, counts, through, 2);
  f->programs[0].bindings = only;
  f->programs[0].binding_count = 1;
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  return f;
}

static void words_cross_the_border(void) {
  uint32_t words[40], out[40] = {0};
  uint64_t cycles[2], left[2];
  for (uint32_t i = 0; i < 40; i++) words[i] = 1000 + i;
  for (uint32_t slow = 0; slow < 2; slow++) {
    fixture *f = lay_through();
    if (slow) wafer_fabric_rate(f->fabric, 1, 3, 4);
    wafer_fabric *w = f->fabric;
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_west, 0, words, 30, 0, 1) == WAFER_OK);
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_west, 0, words + 30, 10, 0, 1) == WAFER_OK);
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_north, 1, words, 40, 0, 1) == WAFER_OK);
    uint64_t finished = 0;
    CU_ASSERT(wafer_fabric_drain(w, 1, 0, WAFER_PORT_east, 0, out, 40, 0, &finished) == WAFER_OK);
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_east, 0, words, 1, 0, 0) == WAFER_USAGE);
    CU_ASSERT(wafer_fabric_feed(w, 1, 0, WAFER_PORT_south, 0, words, 1, 0, 0) == WAFER_BAD_INPUT);
    run(f);
    CU_ASSERT(memcmp(words, out, sizeof out) == 0);
    memset(out, 0, sizeof out);
    CU_ASSERT(wafer_fabric_read(w, 0, 0, 0, out, sizeof out));
    CU_ASSERT(memcmp(words, out, sizeof out) == 0);
    cycles[slow] = f->stats.cycles;
    left[slow] = finished;
    finish(f);
  }
  CU_ASSERT(cycles[0] < 60);
  CU_ASSERT(left[0] > 40 && left[0] < 50); /* two routers on, the last of 40 words */
  CU_ASSERT(left[1] > 53 && left[1] <= cycles[1]);
  CU_ASSERT(cycles[1] >= 80 * 4 / 3 && cycles[1] < 80 * 4 / 3 + 20);
}

/* Two rounds share a rate: the later one has it when the earlier one is through. */
static void rounds_go_one_after_the_other(void) {
  uint32_t words[40] = {0}, out[40];
  for (uint32_t later = 0; later < 2; later++) {
    fixture *f = lay_through();
    wafer_fabric *w = f->fabric;
    uint64_t finished = 0;
    wafer_fabric_rate(w, 1, 1, 2);
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_north, 1, words, 40, 0, 1) == WAFER_OK);
    if (later) wafer_fabric_round(w);
    CU_ASSERT(wafer_fabric_feed(w, 0, 0, WAFER_PORT_west, 0, words, 40, 0, 1) == WAFER_OK);
    CU_ASSERT(wafer_fabric_drain(w, 1, 0, WAFER_PORT_east, 0, out, 40, 0, &finished) == WAFER_OK);
    run(f);
    CU_ASSERT(finished >= 160 && finished < 175); /* 80 words at one in two cycles */
    CU_ASSERT(f->stats.cycles >= finished);
    uint64_t taken = wafer_fabric_finish(w, 0, 0);
    CU_ASSERT(later ? taken >= 80 && taken < 100 : taken >= 155);
    finish(f);
  }
}

/* A closed border keeps words out; cycles count from when it opens. */
static void the_border_opens(void) {
  static const wafer_instruction take[] = {{DO(move, 4, FLAT(u32, 0, 4), WIRE(u32, 1))}};
  static const wafer_core_binding only[] = {{1, 0, false}};
  const wafer_instruction *code[] = {take, NULL};
  const uint32_t counts[] = {1, 0};
  uint32_t words[4] = {1, 2, 3, 4};
  uint64_t cycles[3];
  for (uint32_t i = 0; i < 3; i++) {
    fixture *f = lay(2, code, counts, through + 1, 1);
    f->programs[0].bindings = only;
    f->programs[0].binding_count = 1;
    create(f);
    CU_ASSERT_FATAL(f->fabric != NULL);
    CU_ASSERT(wafer_fabric_feed(f->fabric, 0, 0, WAFER_PORT_north, 1, words, 4, 0, 1) == WAFER_OK);
    wafer_fabric_open(f->fabric, 500 * i);
    run(f);
    cycles[i] = f->stats.cycles;
    finish(f);
  }
  CU_ASSERT(cycles[1] <= cycles[0] && cycles[1] >= 4); /* the core is ready when it opens */
  CU_ASSERT_EQUAL(cycles[2], cycles[1]);
}

static void the_border_waits_in_vain(void) {
  static const wafer_instruction quiet[] = {{.op = WAFER_CORE_end}};
  const wafer_instruction *code[] = {quiet, quiet};
  const uint32_t counts[] = {1, 1};
  uint32_t words[4] = {0};
  fixture *f = lay(2, code, counts, through, 1);
  create(f);
  CU_ASSERT_FATAL(f->fabric != NULL);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_BAD_INPUT); /* nobody drains it */
  CU_ASSERT(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_OK);
  CU_ASSERT(wafer_fabric_feed(f->fabric, 0, 0, WAFER_PORT_west, 0, words, 3, 0, 0) == WAFER_OK);
  CU_ASSERT(wafer_fabric_drain(f->fabric, 1, 0, WAFER_PORT_east, 0, words, 4, 0, NULL) == WAFER_OK);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_TRAP);
  CU_ASSERT(strstr(f->caught.text, "1 of 4 words of color 0 have not left") != NULL);
  for (uint32_t fed = 0; fed < 2; fed++) { /* none is to come: none does, one does */
    CU_ASSERT(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_OK);
    CU_ASSERT(wafer_fabric_feed(f->fabric, 0, 0, WAFER_PORT_west, 0, words, fed, 0, 0) == WAFER_OK);
    CU_ASSERT(wafer_fabric_drain(f->fabric, 1, 0, WAFER_PORT_east, 0, words, 0, 0, NULL) ==
              WAFER_OK);
    CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == (fed ? WAFER_TRAP : WAFER_OK));
  }
  finish(f);
}

/* ---- launches ---- */

typedef struct marks {
  uint32_t count;
  uint64_t cycle[4];
  int32_t value[4];
} marks;

static void note(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  marks *m = user;
  CU_ASSERT(x == 0 && y == 0 && m->count < 4);
  m->cycle[m->count] = cycle;
  m->value[m->count++] = value;
}

static void marks_and_reprograms(void) {
  static const wafer_instruction first[] = {{.op = WAFER_CORE_mark, .value = 7},
                                            {DO(move, 20, FLAT(f32, 80, 4), FLAT(f32, 0, 4))},
                                            {.op = WAFER_CORE_mark, .value = 8}};
  static const wafer_instruction second[] = {
      {DO(add, 20, FLAT(f32, 80, 4), FLAT(f32, 80, 4), FLAT(f32, 0, 4))},
      {.op = WAFER_CORE_mark, .value = 9}};
  marks m = {0};
  fixture *f = one_core(first, 3);
  wafer_fabric_observe(f->fabric, note, &m);
  float data[20], got;
  for (int i = 0; i < 20; i++) data[i] = (float)i;
  put(f, 0, 0, data, sizeof data);
  run(f);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_USAGE);
  f->programs[0].code = second;
  f->programs[0].code_count = 2;
  CU_ASSERT(wafer_fabric_reprogram(f->fabric, &f->program) == WAFER_OK);
  run(f);
  CU_ASSERT(wafer_fabric_read(f->fabric, 0, 0, 80 + 4 * 19, &got, 4) && got == 38);
  CU_ASSERT(m.count == 3 && m.value[0] == 7 && m.value[1] == 8 && m.value[2] == 9);
  CU_ASSERT(m.cycle[0] == 0 && m.cycle[1] == 15 && m.cycle[2] == 25 + 20);
  finish(f);
}

/* An index that the run knows: what a register can hold of it, and a trap where it is no index. */
static void loads_indices(void) {
  static const wafer_instruction code[] = {
      {.op = WAFER_CORE_set, .a = 2, .value = 16},
      {.op = WAFER_CORE_load, .function = WAFER_DTYPE_i64, .a = 3, .b = 2, .value = -16},
      {.op = WAFER_CORE_load, .function = WAFER_DTYPE_i64, .a = 4, .b = 2, .value = -8},
      {.op = WAFER_CORE_load, .function = WAFER_DTYPE_u64, .a = 5, .b = R, .value = 16},
      {.op = WAFER_CORE_load, .function = WAFER_DTYPE_i8, .a = 6, .b = R, .value = 15},
      {.op = WAFER_CORE_bound, .a = 3, .value = 8},
      {.op = WAFER_CORE_bound, .a = 3, .value = 7}};
  static const wafer_instruction unwritten = {
      .op = WAFER_CORE_load, .function = WAFER_DTYPE_i32, .a = 3, .b = R, .value = 40};
  static const wafer_instruction real = {
      .op = WAFER_CORE_load, .function = WAFER_DTYPE_f32, .a = 3, .b = R};
  const int64_t data[] = {7, -(1ll << 40), -1};
  fixture *f = one_core(code, WAFER_COUNT(code));
  put(f, 0, 0, data, sizeof data);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_TRAP);
  CU_ASSERT_STRING_EQUAL(f->caught.text, "index 7 is out of range, there are 7");
  CU_ASSERT(strstr(f->caught.place, "core (0,0) cycle 6") && strstr(f->caught.place, "isa"));
  CU_ASSERT(wafer_fabric_get(f->fabric, 0, 0, 3) == 7);
  CU_ASSERT(wafer_fabric_get(f->fabric, 0, 0, 4) == INT32_MIN);
  CU_ASSERT(wafer_fabric_get(f->fabric, 0, 0, 5) == INT32_MAX);
  CU_ASSERT(wafer_fabric_get(f->fabric, 0, 0, 6) == -1);
  finish(f);
  f = one_core(&unwritten, 1);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_TRAP);
  CU_ASSERT_STRING_EQUAL(f->caught.text, "move reads address 40, which nobody has written");
  finish(f);
  const wafer_instruction *one = &real;
  uint32_t count = 1;
  f = lay(1, &one, &count, NULL, 0);
  create(f);
  CU_ASSERT(!f->fabric && strstr(f->caught.text, "registers hold integers"));
  finish(f);
}

CU_TestInfo tests_fabric_isa[] = {
    {"loads indices", loads_indices},
    {"four levels", four_levels},
    {"accumulates in order", accumulates_in_order},
    {"applies functions", applies_functions},
    {"at once is step by step", at_once_is_step_by_step},
    {"packs types into wavelets", packs_types_into_wavelets},
    {"refuses what cores cannot", refuses_what_cores_cannot},
    {"buses keep their order", buses_keep_their_order},
    {"filters choose wavelets", filters_choose_wavelets},
    {"words cross the border", words_cross_the_border},
    {"rounds go one after the other", rounds_go_one_after_the_other},
    {"the border opens", the_border_opens},
    {"the border waits in vain", the_border_waits_in_vain},
    {"marks and reprograms", marks_and_reprograms},
    CU_TEST_INFO_NULL,
};
