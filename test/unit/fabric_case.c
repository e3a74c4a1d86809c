/* Published cycles of WSE-2, and the formulas for its collectives (docs/validation.md). */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "caught.h"
#include "wafer/fabric_case.h"

static uint64_t count_on(const char *machine, const char *name, wafer_case_options options,
                         uint64_t *predicted) {
  caught c;
  wafer_diag diag = caught_diag(&c);
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_case_result result = {0};
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, machine, &m) == WAFER_OK);
  wafer_status status = wafer_case_run(&diag, m, name, &options, &result);
  if (status != WAFER_OK)
    printf("\n%s %s: %s\n", name, options.algorithm ? options.algorithm : "", c.text);
  CU_ASSERT(status == WAFER_OK);
  wafer_arena_destroy(arena);
  *predicted = result.predicted;
  return result.counted;
}

static uint64_t count(const char *name, wafer_case_options options, uint64_t *predicted) {
  return count_on("wse2", name, options, predicted);
}

static bool within(uint64_t counted, uint64_t wanted, double share, double cycles) {
  double off = counted > wanted ? (double)(counted - wanted) : (double)(wanted - counted);
  return off <= share * (double)wanted || off <= cycles;
}

static void counts_published_vectors(void) {
  static const struct {
    uint32_t words;
    bool conflict, load;
    uint64_t cycles;
  } rows[] = {{5124, false, false, 5130}, {5124, true, false, 10254}, {5124, false, true, 5158},
              {1028, false, false, 1034}, {1028, true, false, 2062},  {1028, true, true, 2089}};
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    uint64_t predicted;
    uint64_t counted = count("vector",
                             (wafer_case_options){.words = rows[i].words,
                                                  .conflict = rows[i].conflict,
                                                  .load_descriptors = rows[i].load},
                             &predicted);
    CU_ASSERT(within(counted, rows[i].cycles, 0.01, 0));
    CU_ASSERT(counted == predicted);
  }
}

/* measurements/reduce_512pe_wse2sim.csv. */
static void counts_published_reductions(void) {
  static const struct {
    uint32_t group;
    uint64_t cycles;
  } rows[] = {{2, 10055}, {8, 9117}, {32, 8973}, {128, 9297}, {512, 7218}};
  double sum = 0;
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    uint64_t predicted;
    uint64_t counted =
        count("reduce",
              (wafer_case_options){
                  .width = 512, .words = 4096, .group = rows[i].group, .algorithm = "two-phase"},
              &predicted);
    CU_ASSERT(within(counted, rows[i].cycles, 0.02, 0));
    double off = (double)counted / (double)rows[i].cycles - 1;
    sum += off < 0 ? -off : off;
  }
  CU_ASSERT(sum / WAFER_COUNT(rows) <= 0.01);
}

static void check_formula(const char *name, wafer_case_options options) {
  uint64_t predicted, counted = count(name, options, &predicted);
  bool ok = within(counted, predicted, 0.03, 80);
  if (!ok)
    printf("\n%s %s %ux%u cores, %u words: counted %llu, predicted %llu\n", name,
           options.algorithm ? options.algorithm : "", options.width, options.height, options.words,
           (unsigned long long)counted, (unsigned long long)predicted);
  CU_ASSERT(ok);
}

static void follows_the_formulas(void) {
  static const uint32_t cores[] = {4, 7, 32, 129, 512}, words[] = {1, 5, 64, 700};
  static const char *const algorithms[] = {"star", "chain", "tree", "two-phase"};
  for (size_t p = 0; p < WAFER_COUNT(cores); p++)
    for (size_t w = 0; w < WAFER_COUNT(words); w++) {
      check_formula("broadcast", (wafer_case_options){.width = cores[p], .words = words[w]});
      check_formula("send", (wafer_case_options){.width = cores[p], .words = words[w]});
      if (cores[p] <= 32)
        check_formula("broadcast",
                      (wafer_case_options){.width = cores[p], .height = 9, .words = words[w]});
      for (size_t a = 0; a < WAFER_COUNT(algorithms); a++)
        if (cores[p] < 512 || words[w] < 100)
          check_formula("reduce", (wafer_case_options){.width = cores[p],
                                                       .words = words[w],
                                                       .algorithm = algorithms[a]});
    }
}

static void all_reduces_follow_the_formulas(void) {
  static const uint32_t cores[] = {4, 8, 31, 128}, chunks[] = {1, 2, 8, 50};
  for (size_t p = 0; p < WAFER_COUNT(cores); p++)
    for (size_t c = 0; c < WAFER_COUNT(chunks); c++)
      check_formula("all-reduce", (wafer_case_options){.width = cores[p],
                                                       .words = cores[p] * chunks[c],
                                                       .algorithm = "ring"});
  for (uint32_t width = 1; width <= 16; width += 5)
    check_formula("all-reduce", (wafer_case_options){.width = width, .height = 11, .words = 300});
}

/* Its chunks are as long for all, so the words are made up to a multiple of the cores: the formula
 * of the words that were asked for, fractions and all, holds on rows on which that costs little. */
static void rings_take_any_words(void) {
  static const uint32_t cores[] = {3, 4, 7, 32}, words[] = {1, 5, 41, 799};
  for (size_t p = 0; p < WAFER_COUNT(cores); p++)
    for (size_t w = 0; w < WAFER_COUNT(words); w++) {
      wafer_case_options o = {.width = cores[p], .words = words[w], .algorithm = "ring"};
      uint64_t predicted, counted = count("all-reduce", o, &predicted);
      uint64_t formula = 2 * (cores[p] - 1) * words[w] / cores[p] + 4 * cores[p] - 6 +
                         2 * (cores[p] - 1) * 5; /* 2 ramps and an addition a step */
      CU_ASSERT(within(counted, formula, 0.03, 80));
      o.dtype = WAFER_DTYPE_f16;
      CU_ASSERT(count("all-reduce", o, &predicted) <= counted);
    }
}

/* Predicted was twice the words once, for a second phase that has nothing to add to. */
static void groups_of_one_are_a_chain(void) {
  check_formula("reduce", (wafer_case_options){
                              .width = 7, .words = 4096, .algorithm = "two-phase", .group = 1});
}

/* The case checks the sums; another order of visits counts the same cycles. */
static void random_traffic_arrives(void) {
  uint64_t predicted;
  for (uint64_t seed = 0; seed < 4; seed++) {
    uint64_t counted = count("random",
                             (wafer_case_options){.width = 12,
                                                  .height = 9,
                                                  .words = 8,
                                                  .cycles = 3000,
                                                  .load = seed == 3 ? 1 : 0.1,
                                                  .seed = seed},
                             &predicted);
    CU_ASSERT(counted >= 2900);
    CU_ASSERT(count("random",
                    (wafer_case_options){.width = 12,
                                         .height = 9,
                                         .words = 8,
                                         .cycles = 3000,
                                         .visits = 77,
                                         .load = seed == 3 ? 1 : 0.1,
                                         .seed = seed},
                    &predicted) == counted);
  }
}

/* What the first router that was one queue, one look and one link at a time counted: cycles of
 * links that are full show who was served when. */
static void random_traffic_counts_as_ever(void) {
  static const struct {
    const char *machine;
    uint64_t seed;
    double load;
    uint64_t cycles;
  } rows[] = {
      {"wse2", 1, 0.02, 1004}, {"wse2", 1, 0.1, 1003},  {"wse2", 1, 0.4, 4007},
      {"wse2", 1, 1, 9989},    {"wse2", 2, 0.1, 1005},  {"wse2", 2, 0.4, 3945},
      {"wse2", 2, 1, 9869},    {"wse3", 1, 0.02, 1038}, {"wse3", 1, 0.1, 2142},
      {"wse3", 1, 0.4, 8147},  {"wse3", 1, 1, 20323},   {"wse3", 2, 0.1, 2109},
      {"wse3", 2, 0.4, 8243},  {"wse3", 2, 1, 20537},
  };
  for (size_t i = 0; i < 2 * WAFER_COUNT(rows); i++) {
    uint64_t predicted;
    CU_ASSERT(count_on(rows[i / 2].machine, "random",
                       (wafer_case_options){.width = 16,
                                            .height = 12,
                                            .words = 8,
                                            .cycles = 1000,
                                            .load = rows[i / 2].load,
                                            .seed = rows[i / 2].seed,
                                            .single = i % 2},
                       &predicted) == rows[i / 2].cycles);
  }
}

static void reduces_halves_and_repeats(void) {
  uint64_t predicted;
  uint64_t once =
      count("reduce", (wafer_case_options){.width = 16, .words = 99, .dtype = WAFER_DTYPE_f16},
            &predicted);
  CU_ASSERT(once < 50 + 6 * 15 + 80);
  uint64_t mean =
      count("reduce", (wafer_case_options){.width = 16, .height = 3, .words = 100, .repeat = 20},
            &predicted);
  CU_ASSERT(mean >= 100 && mean < 130); /* back to back, latency is hidden */
}

/* The worst of all sizes up to 512 before halves were as equal as they can be. */
static void trees_take_any_number_of_cores(void) {
  static const uint32_t cores[] = {33, 65, 257, 300, 383, 500}, words[] = {16, 64, 257};
  for (size_t p = 0; p < WAFER_COUNT(cores); p++)
    for (size_t w = 0; w < WAFER_COUNT(words); w++)
      check_formula("reduce", (wafer_case_options){
                                  .width = cores[p], .words = words[w], .algorithm = "tree"});
}

/* Links of two cycles a hop carry a wavelet a cycle through queues of the machine's depth. */
static void slow_hops_keep_the_rate(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f16};
  for (size_t t = 0; t < WAFER_COUNT(types); t++) {
    static const char *const names[] = {"send", "broadcast", "reduce"};
    for (size_t i = 0; i < WAFER_COUNT(names); i++) {
      wafer_case_options options = {.width = 64, .words = 4000, .dtype = types[t]};
      uint64_t predicted, counted = count_on("wse3", names[i], options, &predicted);
      CU_ASSERT(within(counted, predicted, 0.01, 0));
    }
  }
}

static void multiplies_matrices(void) {
  uint64_t predicted;
  for (uint32_t cores = 3; cores <= 9; cores++)
    for (uint32_t repeat = 1; repeat <= 3; repeat++) {
      wafer_case_options o = {.width = cores,
                              .height = cores,
                              .words = 1,
                              .m = 3 * cores,
                              .k = cores * (cores % 3 + 1),
                              .n = 2 * cores,
                              .repeat = repeat,
                              .seed = cores,
                              .dtype = repeat == 2 ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32};
      static const char *const algorithms[] = {"mesh", "summa"};
      for (size_t a = 0; a < WAFER_COUNT(algorithms); a++) {
        o.algorithm = algorithms[a];
        uint64_t counted = count("gemm", o, &predicted);
        CU_ASSERT(within(counted, predicted, 0.3, 0));
      }
      o.height = cores + repeat;
      o.m = 2 * o.height;
      for (o.groups = 0; o.groups <= 3; o.groups++) {
        o.algorithm = o.groups ? "tree" : "chain";
        uint64_t counted = count("gemv", o, &predicted);
        CU_ASSERT(within(counted, predicted, 0.3, 40));
      }
    }
}

/* A tile is longer than what queues between two cores hold: a core clears its sums while its own
 * tile still waits for the others' before it. */
static void multiplies_long_tiles(void) {
  uint64_t predicted;
  for (uint32_t side = 16; side <= 48; side += 16) {
    wafer_case_options o = {
        .width = 4, .height = 4, .words = 1, .m = side, .k = side, .n = side, .algorithm = "summa"};
    for (uint32_t narrow = 0; narrow < 2; narrow++) {
      o.dtype = narrow ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32;
      uint64_t counted = count("gemm", o, &predicted);
      CU_ASSERT(within(counted, predicted, 0.3, 0));
    }
  }
}

/* Zeros are left out by who sends them: time goes with what is left. */
static void multiplies_what_is_not_zero(void) {
  static const double densities[] = {1, 0.5, 0.1, 0.02};
  for (uint32_t narrow = 0; narrow < 2; narrow++) {
    uint64_t before = UINT64_MAX, predicted;
    for (size_t i = 0; i < WAFER_COUNT(densities); i++) {
      wafer_case_options o = {.width = 5, .height = 4, .words = 1, .m = 512, .n = 160};
      o.density = densities[i];
      o.dtype = narrow ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32;
      uint64_t counted = count("gemv", o, &predicted);
      CU_ASSERT(within(counted, predicted, 0.03, 80));
      CU_ASSERT(counted < before);
      before = counted;
      o.plain = true;
      CU_ASSERT_EQUAL(count("gemv", o, &predicted), counted);
    }
    CU_ASSERT(before < 500);
  }
}

/* What is refused, before anything is multiplied on the host or on cores, and how. */
static void refuses(void) {
  static const struct {
    const char *name;
    wafer_case_options options;
    wafer_status status;
    const char *said;
  } rows[] = {{"gemm",
               {.width = 3, .height = 3, .words = 1, .m = 60000, .k = 60000, .n = 60000},
               WAFER_NO_FIT,
               "a core of wse2 has room for 11264"},
              {"gemv",
               {.width = 3, .height = 3, .words = 1, .m = 60000, .n = 60000},
               WAFER_NO_FIT,
               "a core of wse2 has room for 11264"},
              {"reduce",
               {.width = 4, .words = 11000, .algorithm = "chain"},
               WAFER_NO_FIT,
               "88004 bytes of a core, which has 45056"},
              {"all-reduce",
               {.width = 4, .height = 4, .words = 8, .algorithm = "star"},
               WAFER_USAGE,
               "no such algorithm, but 2d|ring"},
              {"send", {.width = 751, .words = 8}, WAFER_USAGE, "wse2 has 750x994 cores"},
              {"random", {.width = 1, .words = 8}, WAFER_USAGE, "takes two cores"},
              {"vector", {.words = 50000}, WAFER_USAGE, "1 to 49152 words"}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    caught c;
    wafer_diag diag = caught_diag(&c);
    wafer_case_result result;
    CU_ASSERT_EQUAL(wafer_case_run(&diag, wse2, rows[i].name, &rows[i].options, &result),
                    rows[i].status);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.text, rows[i].said));
  }
  wafer_arena_destroy(arena);
}

/* The literature writes 2D. */
static void algorithms_have_no_case(void) {
  uint64_t predicted, again;
  wafer_case_options o = {.width = 4, .height = 4, .words = 8, .algorithm = "2D"};
  uint64_t counted = count("all-reduce", o, &predicted);
  o.algorithm = "2d";
  CU_ASSERT_EQUAL(count("all-reduce", o, &again), counted);
}

/* measurements/meshgemv_wse3_hw.csv and meshgemm_wse3_hw.csv: silicon. docs/validation.md says on
 * which of them constants of the machine file were fitted, and has all rows. */
static void counts_published_matrices(void) {
  static const struct {
    uint32_t cores, times, groups;
    double cycles;
  } rows[] = {{16, 1, 2, 246.95},  {16, 1, 4, 237.96},   {16, 1, 8, 240.96},  {80, 1, 2, 596.96},
              {80, 1, 4, 468.95},  {80, 1, 8, 416.96},   {144, 1, 8, 601.95}, {208, 1, 8, 784.96},
              {16, 8, 8, 268.95},  {144, 8, 8, 631.95},  {16, 1, 0, 2637.4},  {16, 2, 0, 3463.73},
              {16, 3, 0, 4389.49}, {16, 8, 0, 10818.46}, {80, 1, 0, 12828.4}};
  double sum = 0;
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    uint32_t size = rows[i].cores * rows[i].times;
    wafer_case_options o = {.width = rows[i].cores,
                            .height = rows[i].cores,
                            .words = 1,
                            .m = size,
                            .k = size,
                            .n = size,
                            .groups = rows[i].groups,
                            .algorithm = rows[i].groups ? "tree" : "mesh",
                            .repeat = 4,
                            .dtype = WAFER_DTYPE_f16};
    uint64_t predicted, counted = count_on("wse3", rows[i].groups ? "gemv" : "gemm", o, &predicted);
    double off = (double)counted / rows[i].cycles - 1;
    CU_ASSERT(off > -0.12 && off < 0.12);
    sum += off < 0 ? -off : off;
  }
  CU_ASSERT(sum / WAFER_COUNT(rows) <= 0.05);
}

CU_TestInfo tests_fabric_case[] = {
    {"multiplies what is not zero", multiplies_what_is_not_zero},
    {"counts published vectors", counts_published_vectors},
    {"counts published reductions", counts_published_reductions},
    {"follows the formulas", follows_the_formulas},
    {"all-reduces follow the formulas", all_reduces_follow_the_formulas},
    {"rings take any words", rings_take_any_words},
    {"groups of one are a chain", groups_of_one_are_a_chain},
    {"random traffic arrives, whatever the order of visits", random_traffic_arrives},
    {"random traffic counts as ever", random_traffic_counts_as_ever},
    {"reduces halves and repeats", reduces_halves_and_repeats},
    {"trees take any number of cores", trees_take_any_number_of_cores},
    {"slow hops keep the rate", slow_hops_keep_the_rate},
    {"multiplies matrices", multiplies_matrices},
    {"multiplies long tiles", multiplies_long_tiles},
    {"refuses what does not fit or is not known", refuses},
    {"algorithms have no case", algorithms_have_no_case},
    {"counts published matrices", counts_published_matrices},
    CU_TEST_INFO_NULL,
};
