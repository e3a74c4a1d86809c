/* Wavelets one by one, and rows of queues and trains of words at once: the same cycles and bytes.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "fabric_row.h"
#include "fabric_trial.h"
#include "wafer/fabric_case.h"

/* Cores and links, each by itself, do what the totals say. */
static void check_load(const outcome *o) {
  uint64_t worked = 0, wavelets = 0;
  for (uint32_t i = 0; i < CORES; i++) worked += o->worked[i];
  for (uint32_t i = 0; i < CORES * WAFER_LINKS; i++) wavelets += o->wavelets[i];
  CU_ASSERT(worked == o->stats.core_cycles && wavelets == o->stats.hops);
}

/* Behind the first 600, those that once differed: words that came into an emptied queue, the root
 * of a fan, left it beside others that were ahead of time. */
static const uint64_t seeds_once_apart[] = {4348, 10914, 27058, 47058};
enum { SEEDS = 600 };

static void trains_are_exact(void) {
  static trial t;
  static outcome one, many;
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  uint32_t ended = 0, switched = 0;
  for (size_t i = 1; i <= SEEDS + WAFER_COUNT(seeds_once_apart); i++) {
    uint64_t seed = i <= SEEDS ? i : seeds_once_apart[i - SEEDS - 1];
    trial_make(&t, seed);
    trial_run(&t, machines[seed % 2], &(wafer_fabric_options){.threads = 1, .plain = true}, &one);
    trial_run(&t, machines[seed % 2], NULL, &many);
    bool same = one.status == many.status && !memcmp(&one.stats, &many.stats, sizeof one.stats) &&
                !memcmp(one.finish, many.finish, sizeof one.finish) &&
                !memcmp(one.worked, many.worked, sizeof one.worked) &&
                !memcmp(one.wavelets, many.wavelets, sizeof one.wavelets) &&
                !memcmp(one.results, many.results, sizeof one.results);
    if (one.status == WAFER_OK) check_load(&many);
    if (!same)
      printf("\nseed %u: status %d %d, cycles %u %u, hops %u %u, elements %u %u, work %u %u\n",
             (unsigned)seed, one.status, many.status, (unsigned)one.stats.cycles,
             (unsigned)many.stats.cycles, (unsigned)one.stats.hops, (unsigned)many.stats.hops,
             (unsigned)one.stats.elements, (unsigned)many.stats.elements,
             (unsigned)one.stats.core_cycles, (unsigned)many.stats.core_cycles);
    CU_ASSERT(same);
    ended += one.status == WAFER_OK;
    switched += one.status == WAFER_OK && trial_has_switch(&t);
  }
  CU_ASSERT(ended > 300 && switched > 100); /* the others wait for each other */
  wafer_arena_destroy(arena);
}

/* ---- fans: words from the border to all cores of a row, each of which waits for its own ---- */

enum { ROW = 24, FED = 240 };

typedef struct row {
  uint32_t width, words, rate, cycles;
  wafer_route routes[2];
  wafer_instruction code[ROW][3];
  wafer_core_binding binding;
  wafer_core_program programs[ROW];
  uint32_t core[ROW], runs[ROW][4], uses;
  wafer_filter filters[ROW];
  wafer_filter_use use[ROW];
} row;

static wafer_instruction keep(uint32_t elements, uint32_t address, bool in_two_levels) {
  uint32_t inner = in_two_levels && elements % 4 == 0 ? 4 : elements;
  int32_t far = 8 * (int32_t)inner;
  return (wafer_instruction){
      .op = WAFER_CORE_move,
      .count_reg = WAFER_NO_REGISTER,
      .shape = {1, 1, elements / inner, inner},
      .out = {.kind = WAFER_OPERAND_memory,
              .dtype = WAFER_DTYPE_f32,
              .reg = WAFER_NO_REGISTER,
              .address = (int32_t)address,
              .stride = {0, 0, far, inner == elements ? 4 : 8}},
      .in = {{.kind = WAFER_OPERAND_fabric, .dtype = WAFER_DTYPE_f32, .color = 0}}};
}

/* A core takes all words, or two runs of them, by one instruction or two, some after a while. */
static void make_row_core(trial *t, row *r, uint32_t i) {
  uint32_t skipped = trial_draw(t, r->words), wanted = r->words, count = 0;
  if (trial_draw(t, 2)) {
    wanted = 1 + trial_draw(t, r->words - skipped);
    uint32_t gap = trial_draw(t, r->words - skipped - wanted + 1),
             before = trial_draw(t, wanted + 1);
    const uint32_t runs[] = {skipped, before, gap, wanted - before};
    memcpy(r->runs[i], runs, sizeof runs);
    r->filters[r->uses] = (wafer_filter){.runs = r->runs[i], .run_count = 4};
    r->use[r->uses] = (wafer_filter_use){.cores = {i, 0, 1, 1}, .filter = r->uses};
    r->uses++;
  }
  uint32_t first = trial_draw(t, 3) ? wanted : 1 + trial_draw(t, wanted);
  r->code[i][count++] =
      (wafer_instruction){.op = WAFER_CORE_delay,
                          .a = WAFER_NO_REGISTER,
                          .value = (int32_t)(trial_draw(t, 3) ? 1 : trial_draw(t, 90))};
  r->code[i][count++] = keep(first, 0, trial_draw(t, 2));
  if (wanted > first) r->code[i][count++] = keep(wanted - first, 4096, trial_draw(t, 2));
  r->programs[i].code_count = count;
}

static void make_row(trial *t, row *r, uint64_t seed) {
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  t->seed = seed;
  *r = (row){.width = 2 + trial_draw(t, ROW - 2),
             .words = 5 + trial_draw(t, FED - 5),
             .rate = trial_draw(t, 3),
             .cycles = 1 + trial_draw(t, 7)};
  for (uint32_t i = 0; i < r->width; i++) {
    r->core[i] = i;
    r->programs[i] = (wafer_core_program){.name = "row",
                                          .code = r->code[i],
                                          .tasks = &start,
                                          .task_count = 1,
                                          .bindings = &r->binding,
                                          .binding_count = 1};
    make_row_core(t, r, i);
  }
  uint8_t last = WAFER_TO(ramp);
  r->routes[0] = (wafer_route){.cores = {0, 0, r->width - 1, 1},
                               .positions = 1,
                               .at = {{WAFER_PORT_west, (uint8_t)(last | WAFER_TO(east))}}};
  r->routes[1] = (wafer_route){
      .cores = {r->width - 1, 0, 1, 1}, .positions = 1, .at = {{WAFER_PORT_west, last}}};
}

static void run_row(const row *r, const wafer_machine *machine, bool single, outcome *o) {
  static uint32_t words[FED];
  wafer_fabric_program program = {.name = "row",
                                  .width = r->width,
                                  .height = 1,
                                  .programs = r->programs,
                                  .program_count = r->width,
                                  .core = r->core,
                                  .filters = r->filters,
                                  .filter_count = r->uses,
                                  .filter_uses = r->use,
                                  .filter_use_count = r->uses,
                                  .routes = r->routes,
                                  .route_count = 2};
  wafer_fabric *f;
  memset(o, 0, sizeof *o);
  for (uint32_t i = 0; i < FED; i++) words[i] = i * 2654435761u;
  const wafer_fabric_options options = {.threads = 1, .plain = single};
  CU_ASSERT_FATAL(wafer_fabric_create(NULL, machine, &program, &options, &f) == WAFER_OK);
  wafer_fabric_rate(f, 0, r->rate, r->cycles);
  CU_ASSERT(wafer_fabric_feed(f, 0, 0, WAFER_PORT_west, 0, words, r->words, WAFER_CONTROL_none,
                              0) == WAFER_OK);
  wafer_fabric_count(f, true);
  o->status = wafer_fabric_run(f, &o->stats);
  wafer_fabric_load(f, o->worked, o->wavelets);
  for (uint32_t i = 0; i < r->width; i++) {
    o->finish[i] = wafer_fabric_finish(f, i, 0);
    for (uint32_t k = 0; k < COLORS * REGION; k++)
      wafer_fabric_read(f, i, 0, k, &o->results[i][k], 1);
  }
  wafer_fabric_destroy(f);
}

/* Behind the first 300, those that once differed: the border's rate stood still in cycles that
 * nobody visited while the queue behind it was full, and other cycles are visited by default. */
static const uint64_t rows_once_apart[] = {8237, 15104, 16096};
enum { ROWS = 300 };

static void fans_are_exact(void) {
  static trial t;
  static row r;
  static outcome one, many;
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  for (size_t i = 1; i <= ROWS + WAFER_COUNT(rows_once_apart); i++) {
    uint64_t seed = i <= ROWS ? i : rows_once_apart[i - ROWS - 1];
    make_row(&t, &r, seed);
    run_row(&r, machines[seed % 2], true, &one);
    run_row(&r, machines[seed % 2], false, &many);
    if (memcmp(&one, &many, sizeof one))
      printf("\nseed %u: status %d %d, cycles %u %u, hops %u %u\n", (unsigned)seed, one.status,
             many.status, (unsigned)one.stats.cycles, (unsigned)many.stats.cycles,
             (unsigned)one.stats.hops, (unsigned)many.stats.hops);
    CU_ASSERT(one.status == WAFER_OK && !memcmp(&one, &many, sizeof one));
  }
  wafer_arena_destroy(arena);
}

/* Cases that are one train, or begin as one: as many cycles, hops and cycles of work as by single
 * wavelets. */
static void chains_are_exact(void) {
  static const char *const machines[] = {"wse2", "wse3", "small64"};
  static const char *const names[] = {"reduce", "send", "broadcast", "all-reduce"};
  static const uint32_t words[] = {3, 4, 20, 21, 300};
  wafer_arena *arena = wafer_arena_create();
  for (size_t m = 0; m < WAFER_COUNT(machines); m++)
    for (size_t i = 0; i < WAFER_COUNT(names) * WAFER_COUNT(words) * 4; i++) {
      const wafer_machine *machine;
      wafer_case_result one, many;
      wafer_case_options o = {.width = 2 + (uint32_t)i % 4 * 3,
                              .height = i % 4 == 1           ? 3
                                        : i == 75 || i == 78 ? 9
                                                             : 1,
                              .words = words[i / 4 % WAFER_COUNT(words)],
                              .repeat = 1 + i % 3,
                              .plain = true};
      const char *name = names[i / 4 / WAFER_COUNT(words)];
      CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, machines[m], &machine) == WAFER_OK);
      CU_ASSERT(wafer_case_run(NULL, machine, name, &o, &one) == WAFER_OK);
      o.plain = false;
      CU_ASSERT(wafer_case_run(NULL, machine, name, &o, &many) == WAFER_OK);
      CU_ASSERT(one.counted == many.counted && one.checked == many.checked);
      CU_ASSERT(!memcmp(&one.stats, &many.stats, sizeof one.stats));
    }
  wafer_arena_destroy(arena);
}

/* A message goes as a train from (0,0) to (2,0), over a link that (1,0) shares; that it cannot come
 * in the way is known once the other strip, from which it takes words, was looked at. The sender
 * was not woken behind such a train. */
static const wafer_instruction first[] = {{DO(move, 32, WIRE(f32, 0), FLAT(f32, 0, 4))},
                                          {DO(move, 1, WIRE(f32, 0), FLAT(f32, 128, 4))}};
static const wafer_instruction between[] = {{DO(move, 200, FLAT(f32, 0, 4), WIRE(f32, 2))},
                                            {DO(move, 5, WIRE(f32, 1), FLAT(f32, 0, 4))}};
static const wafer_instruction last[] = {{DO(move, 32, FLAT(f32, 0, 4), WIRE(f32, 0))},
                                         {DO(move, 1, FLAT(f32, 128, 4), WIRE(f32, 0))},
                                         {DO(move, 5, FLAT(f32, 200, 4), WIRE(f32, 1))}};
static const wafer_instruction below[] = {{.op = WAFER_CORE_delay, .a = R, .value = 300},
                                          {DO(move, 200, WIRE(f32, 2), FLAT(f32, 0, 4))}};

#define WAY(c, x, y, from, to)                                                                     \
  {                                                                                                \
    .color = c, .cores = {x, y, 1, 1}, .positions = 1, .at = { {WAFER_PORT_##from, WAFER_TO(to)} } \
  }
#define RUNS(code_, bindings_)                                                                     \
  {.name = #code_,                                                                                 \
   .code = code_,                                                                                  \
   .code_count = WAFER_COUNT(code_),                                                               \
   .tasks = &at_start,                                                                             \
   .task_count = 1,                                                                                \
   .bindings = bindings_,                                                                          \
   .binding_count = WAFER_COUNT(bindings_)}

static void trains_look_aside(void) {
  static const wafer_route routes[] = {WAY(0, 0, 0, ramp, east), WAY(0, 1, 0, west, east),
                                       WAY(0, 2, 0, west, ramp), WAY(1, 1, 0, ramp, east),
                                       WAY(1, 2, 0, west, ramp), WAY(2, 1, 1, ramp, north),
                                       WAY(2, 1, 0, south, ramp)};
  static const wafer_core_binding of_first[] = {{0, 2, true}}, of_below[] = {{2, 2, true}},
                                  of_between[] = {{2, 0, false}, {1, 2, true}},
                                  of_last[] = {{0, 0, false}, {1, 1, false}};
  static const wafer_core_program programs[] = {RUNS(first, of_first), RUNS(between, of_between),
                                                RUNS(last, of_last), RUNS(below, of_below)};
  static const uint32_t core[6] = {0, 1, 2, WAFER_NO_PROGRAM, 3, WAFER_NO_PROGRAM};
  const wafer_fabric_program program = {.name = "aside",
                                        .width = 3,
                                        .height = 2,
                                        .programs = programs,
                                        .program_count = WAFER_COUNT(programs),
                                        .core = core,
                                        .routes = routes,
                                        .route_count = WAFER_COUNT(routes)};
  static const wafer_fabric_options ways[] = {{.threads = 1}, {.threads = 1, .strips = 2}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  wafer_fabric_stats stats[2];
  uint32_t sent[200];
  for (uint32_t i = 0; i < 200; i++) sent[i] = i * 2654435761u;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  for (uint32_t i = 0; i < 2; i++) {
    wafer_fabric *f;
    CU_ASSERT_FATAL(wafer_fabric_create(NULL, machine, &program, &ways[i], &f) == WAFER_OK);
    CU_ASSERT(wafer_fabric_write(f, 0, 0, 0, sent, 132) &&
              wafer_fabric_write(f, 1, 1, 0, sent, 800));
    CU_ASSERT(wafer_fabric_run(f, &stats[i]) == WAFER_OK);
    wafer_fabric_destroy(f);
  }
  CU_ASSERT(!memcmp(&stats[0], &stats[1], sizeof stats[0]));
  wafer_arena_destroy(arena);
}

/* ---- what passes a filter ahead of time, at the root of a fan ---- */

/* (0,0) sends 60 words by (1,0), which begins late and keeps runs of them, to (2,0), whose sums let
 * no fan begin. When (1,0) takes words at last, those that it skips leave the row before it as fast
 * as they can, which is known ahead of time: what the sender puts behind them, into a row that is
 * empty by then, did not wait for them. */
static const wafer_instruction all_of_it[] = {{DO(move, 60, WIRE(f32, 0), FLAT(f32, 0, 4))}};
static const wafer_instruction late_runs[] = {{.op = WAFER_CORE_delay, .a = R, .value = 20},
                                              {DO(move, 18, FLAT(f32, 0, 4), WIRE(f32, 0))}};
static const wafer_instruction sums[] = {
    {DO(add, 60, FLAT(f32, 0, 4), WIRE(f32, 0), FLAT(f32, 0, 4))}};

static void passing_waits_at_roots(void) {
  static const wafer_instruction *const code[] = {all_of_it, late_runs, sums};
  static const uint32_t counts[] = {1, 2, 1}, runs[] = {4, 9, 12, 9};
  static const wafer_filter keeps = {.runs = runs, .run_count = 4};
  static const wafer_filter_use use = {.cores = {1, 0, 1, 1}};
  static const wafer_fabric_options ways[] = {{.threads = 1, .plain = true}, {.threads = 1}};
  const wafer_route routes[] = {WAY(0, 0, 0, ramp, east),
                                {.cores = {1, 0, 1, 1},
                                 .positions = 1,
                                 .at = {{WAFER_PORT_west, WAFER_TO(ramp) | WAFER_TO(east)}}},
                                WAY(0, 2, 0, west, ramp)};
  uint64_t ends[2][3];
  wafer_fabric_stats stats[2];
  float words[60];
  for (uint32_t i = 0; i < 60; i++) words[i] = (float)i;
  for (uint32_t i = 0; i < 2; i++) {
    fixture *f = lay(3, code, counts, routes, WAFER_COUNT(routes));
    f->program.filters = &keeps;
    f->program.filter_uses = &use;
    f->program.filter_count = f->program.filter_use_count = 1;
    CU_ASSERT_FATAL(wafer_fabric_create(&f->diag, f->machine, &f->program, &ways[i], &f->fabric) ==
                    WAFER_OK);
    put(f, 0, 0, words, sizeof words);
    put(f, 2, 0, words, sizeof words);
    run(f);
    stats[i] = f->stats;
    for (uint32_t x = 0; x < 3; x++) ends[i][x] = wafer_fabric_finish(f->fabric, x, 0);
    finish(f);
  }
  CU_ASSERT(!memcmp(&stats[0], &stats[1], sizeof stats[0]));
  CU_ASSERT(!memcmp(ends[0], ends[1], sizeof ends[0]));
}

CU_TestInfo tests_fabric_train[] = {
    {"trains are exact", trains_are_exact},
    {"chains are exact", chains_are_exact},
    {"fans are exact", fans_are_exact},
    {"trains look aside", trains_look_aside},
    {"passing waits at roots", passing_waits_at_roots},
    CU_TEST_INFO_NULL,
};
