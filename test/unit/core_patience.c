/* Sends that go in bursts, and cores that are not woken by every word or instruction: the same
 * cycles, hops and values as word by word, where links are shared, queues run full, and control
 * works beside them. */
#include "fabric_row.h"
#include "wafer/fabric_case.h"

typedef struct trial {
  const char *name, *algorithm;
  uint32_t width, height, words;
  double load;
} trial;

static const trial trials[] = {
    {.name = "random", .width = 5, .height = 5, .words = 1, .load = 0.02},
    {.name = "random", .width = 12, .height = 9, .words = 1, .load = 0.1},
    {.name = "random", .width = 16, .height = 16, .words = 1, .load = 0.3},
    {.name = "random", .width = 9, .height = 14, .words = 1, .load = 0.9},
    {.name = "reduce", .algorithm = "tree", .width = 7, .height = 1, .words = 64},
    {.name = "reduce", .algorithm = "tree", .width = 13, .height = 2, .words = 5},
    {.name = "reduce", .algorithm = "star", .width = 9, .height = 1, .words = 33},
    {.name = "reduce", .algorithm = "two-phase", .width = 11, .height = 1, .words = 40},
    {.name = "all-reduce", .algorithm = "ring", .width = 6, .height = 1, .words = 48},
};

static void check(const wafer_machine *machine, const trial *t, uint64_t seed) {
  wafer_case_options o = {.width = t->width,
                          .height = t->height,
                          .words = t->words,
                          .algorithm = t->algorithm,
                          .load = t->load,
                          .cycles = t->load > 0 ? 1500 : 0,
                          .repeat = 1,
                          .seed = seed,
                          .plain = true};
  wafer_case_result one, many;
  CU_ASSERT(wafer_case_run(NULL, machine, t->name, &o, &one) == WAFER_OK);
  o.plain = false;
  CU_ASSERT(wafer_case_run(NULL, machine, t->name, &o, &many) == WAFER_OK);
  bool same = one.counted == many.counted && one.checked == many.checked &&
              one.stats.hops == many.stats.hops && one.stats.elements == many.stats.elements &&
              one.stats.core_cycles == many.stats.core_cycles;
  if (!same)
    printf("\n%s %s %ux%u, seed %u: cycles %u %u, work %u %u\n", t->name,
           t->algorithm ? t->algorithm : "", t->width, t->height, (unsigned)seed,
           (unsigned)one.counted, (unsigned)many.counted, (unsigned)one.stats.core_cycles,
           (unsigned)many.stats.core_cycles);
  CU_ASSERT(same);
}

static void words_in_time(void) {
  static const char *const machines[] = {"wse2", "wse3", "small64"};
  wafer_arena *arena = wafer_arena_create();
  for (size_t m = 0; m < WAFER_COUNT(machines); m++) {
    const wafer_machine *machine;
    CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, machines[m], &machine) == WAFER_OK);
    for (size_t i = 0; i < WAFER_COUNT(trials); i++)
      for (uint64_t seed = 1; seed <= 3; seed++) check(machine, &trials[i], seed);
  }
  wafer_arena_destroy(arena);
}

/* Registers 2, 3, 4 and 5: bursts, their words, a factor, words to come in. How long a burst took
 * makes the delay to the next one: a cycle that control got too early or too late is seen in all
 * that follows. */
#define COUNTED(name, reg, to, ...)                                                                \
  .op = WAFER_CORE_##name, .shape = {1, 1, 1, 1}, .count_reg = reg, .out = to, .in = {__VA_ARGS__}
#define TALKS(to, from)                                                                            \
  {                                                                                                \
      {COUNTED(add, 5, FLAT(f32, 64, 0), FLAT(f32, 64, 0), WIRE(f32, from)), .thread = 1,          \
       .async = true},                                                                             \
      {.op = WAFER_CORE_time, .a = 6},                                                             \
      {COUNTED(move, 3, WIRE(f32, to), FLAT(f32, 0, 4))},                                          \
      {.op = WAFER_CORE_time, .a = 7},                                                             \
      {.op = WAFER_CORE_minus, .a = 8, .b = 7, .c = 6},                                            \
      {.op = WAFER_CORE_times, .a = 8, .b = 8, .c = 4},                                            \
      {.op = WAFER_CORE_delay, .a = 8},                                                            \
      {.op = WAFER_CORE_plus, .a = 2, .b = 2, .c = R, .value = -1},                                \
      {.op = WAFER_CORE_mark},                                                                     \
      {.op = WAFER_CORE_plus, .a = 9, .b = 9, .c = 7},                                             \
      {.op = WAFER_CORE_branch, .a = R, .b = 2, .target = 1},                                      \
  }
enum { TALK = 11, TALKERS = 2 };

typedef struct talk {
  wafer_fabric_stats stats;
  uint64_t finish[TALKERS], worked[TALKERS], marked[TALKERS];
  int32_t registers[TALKERS][WAFER_CORE_REGISTERS];
  float sum[TALKERS];
} talk;

static void hear_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  talk *t = user;
  (void)y;
  (void)value;
  t->marked[x] = t->marked[x] * 31 + cycle;
}

static void talk_once(const fixture *f, const int32_t set[TALKERS][3], bool plain, talk *t) {
  static const float words[17] = {1, 2, 3, 4, 5, 6, 7, 8};
  const wafer_fabric_options options = {.threads = 1, .single = true, .plain = plain};
  wafer_fabric *fabric;
  memset(t, 0, sizeof *t);
  CU_ASSERT_FATAL(wafer_fabric_create(&f->diag, f->machine, &f->program, &options, &fabric) ==
                  WAFER_OK);
  for (uint32_t x = 0; x < TALKERS; x++) {
    const int32_t *other = set[TALKERS - 1 - x];
    CU_ASSERT(wafer_fabric_write(fabric, x, 0, 0, words, sizeof words));
    for (uint32_t i = 0; i < 3; i++) wafer_fabric_set(fabric, x, 0, 2 + i, set[x][i]);
    wafer_fabric_set(fabric, x, 0, 5, other[0] * other[1]);
  }
  wafer_fabric_observe(fabric, hear_mark, t);
  CU_ASSERT(wafer_fabric_run(fabric, &t->stats) == WAFER_OK);
  wafer_fabric_load(fabric, t->worked, NULL);
  for (uint32_t x = 0; x < TALKERS; x++) {
    t->finish[x] = wafer_fabric_finish(fabric, x, 0);
    for (uint32_t r = 0; r < WAFER_CORE_REGISTERS; r++)
      t->registers[x][r] = wafer_fabric_get(fabric, x, 0, r);
    CU_ASSERT(wafer_fabric_read(fabric, x, 0, 64, &t->sum[x], sizeof t->sum[x]));
  }
  wafer_fabric_destroy(fabric);
}

/* Control that only its own registers know of is not visited for it. */
static void control_in_time(void) {
  static const wafer_instruction code[TALKERS][TALK] = {TALKS(0, 1), TALKS(1, 0)};
  static const wafer_route routes[] = {
      {.cores = {0, 0, 1, 1}, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(east)}}},
      {.cores = {1, 0, 1, 1}, .positions = 1, .at = {{WAFER_PORT_west, WAFER_TO(ramp)}}},
      {.cores = {1, 0, 1, 1},
       .color = 1,
       .positions = 1,
       .at = {{WAFER_PORT_ramp, WAFER_TO(west)}}},
      {.cores = {0, 0, 1, 1},
       .color = 1,
       .positions = 1,
       .at = {{WAFER_PORT_east, WAFER_TO(ramp)}}}};
  const wafer_instruction *const codes[] = {code[0], code[1]};
  const uint32_t counts[] = {TALK, TALK};
  fixture *f = lay(TALKERS, codes, counts, routes, WAFER_COUNT(routes));
  uint64_t state = 1;
  talk one, late;
  for (uint32_t i = 0; i < 400; i++) {
    int32_t set[TALKERS][3];
    for (uint32_t k = 0; k < TALKERS * 3; k++) {
      static const uint32_t most[] = {30, 8, 5}, least[] = {1, 1, 0};
      state = state * 6364136223846793005u + 1442695040888963407u;
      set[k / 3][k % 3] = (int32_t)(least[k % 3] + (uint32_t)(state >> 33) % most[k % 3]);
    }
    talk_once(f, set, true, &one);
    talk_once(f, set, false, &late);
    CU_ASSERT(!memcmp(&one, &late, sizeof one));
  }
  wafer_arena_destroy(f->arena);
}

CU_TestInfo tests_core_patience[] = {
    {"words are taken in time", words_in_time},
    {"control is in time", control_in_time},
    CU_TEST_INFO_NULL,
};
