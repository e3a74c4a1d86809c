/* Wavelets one by one, and rows of queues and trains of words at once: the same cycles and bytes.
 */
#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"
#include "wafer/fabric_case.h"

enum { SIDE = 6, CORES = SIDE * SIDE, COLORS = 7, MOST = 24, RUNS = 6 };
enum { REGION = 1024, RESULTS = 16384 };

/* What the switch of a colour does: to the core there first and then on; or from afar first and
 * then from the core there. */
enum { STRAIGHT, FIRST_HERE, THEN_FROM_HERE, TURNS };

/* A colour: from a core along a walk, to the core at its end and some on the way. */
typedef struct flow {
  uint32_t length, at[CORES]; /* routers of the walk */
  bool takes[CORES];          /* the core there, too */
  uint32_t keeps[CORES];      /* words that its filter lets in; 0: it has none */
  uint32_t elements;
  uint8_t dtype;
  uint32_t kind, turn; /* the place on the walk where a switch is */
  bool wrap;
} flow;

typedef struct trial {
  uint64_t seed;
  uint32_t width, height, flow_count, route_count;
  flow flows[COLORS];
  wafer_route routes[COLORS * CORES];
  wafer_instruction code[CORES][MOST];
  wafer_core_binding bindings[CORES][WAFER_CORE_BINDINGS];
  wafer_core_program programs[CORES];
  uint32_t core[CORES];
  uint32_t runs[COLORS * CORES][RUNS];
  wafer_filter filters[COLORS * CORES];
  wafer_filter_use uses[COLORS * CORES];
  uint32_t filter_count;
  wafer_fabric_program program;
} trial;

static uint32_t draw(trial *t, uint32_t below) {
  t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(t->seed >> 33) % below;
}

static int side_of(const trial *t, uint32_t from, uint32_t to) {
  return to + t->width == from   ? WAFER_PORT_north
         : to == from + 1        ? WAFER_PORT_east
         : to == from + t->width ? WAFER_PORT_south
                                 : WAFER_PORT_west;
}

static uint32_t neighbour(const trial *t, uint32_t at, uint32_t port) {
  uint32_t x = at % t->width, y = at / t->width;
  if (port == WAFER_PORT_north) return y ? at - t->width : at;
  if (port == WAFER_PORT_east) return x + 1 < t->width ? at + 1 : at;
  if (port == WAFER_PORT_south) return y + 1 < t->height ? at + t->width : at;
  return x ? at - 1 : at;
}

/* A walk that does not cross itself; mostly straight on. */
static void walk(trial *t, flow *f) {
  bool seen[CORES] = {false};
  uint32_t at = draw(t, t->width * t->height), port = draw(t, 4), most = 1 + draw(t, 12);
  f->length = 0;
  for (bool on = true; on && f->length <= most;) {
    f->takes[f->length] = f->length && draw(t, 5) == 0;
    f->at[f->length++] = at;
    seen[at] = true;
    on = false;
    if (draw(t, 4) == 0) port = draw(t, 4);
    for (uint32_t turn = 0; turn < 4 && !on; turn++) {
      uint32_t next = neighbour(t, at, (port + turn) % 4);
      on = !seen[next];
      if (!on) continue;
      port = (port + turn) % 4;
      at = next;
    }
  }
  if (f->length > 1) f->takes[f->length - 1] = true;
}

/* A switch on the walk: cores before it take nothing. */
static void add_switch(trial *t, flow *f) {
  f->kind = f->length > 2 && draw(t, 3) == 0 ? 1 + draw(t, TURNS - 1) : STRAIGHT;
  if (f->kind == STRAIGHT) return;
  f->turn = 1 + draw(t, f->length - 2);
  f->wrap = draw(t, 2);
  f->elements = 1 + f->elements % 60;
  for (uint32_t i = 0; i <= f->turn; i++) f->takes[i] = false;
  f->takes[f->turn] = f->kind == FIRST_HERE;
}

/* Both positions of the switch, where position 0 would let the colour straight on. */
static void lay_switch(const flow *f, wafer_route *r) {
  uint8_t on = r->at[0].to & (uint8_t)~WAFER_TO(ramp);
  r->positions = 2;
  r->wrap = f->wrap;
  r->at[1].from = f->kind == FIRST_HERE ? r->at[0].from : WAFER_PORT_ramp;
  r->at[0].to = f->kind == FIRST_HERE ? WAFER_TO(ramp) : on;
  r->at[1].to = on;
}

static void lay(trial *t, const flow *f, uint8_t color) {
  static const uint8_t opposite[] = {WAFER_PORT_south, WAFER_PORT_west, WAFER_PORT_north,
                                     WAFER_PORT_east};
  for (uint32_t i = 0; i < f->length; i++) {
    wafer_route r = {
        .cores = {f->at[i] % t->width, f->at[i] / t->width, 1, 1}, .color = color, .positions = 1};
    int to = i + 1 < f->length ? side_of(t, f->at[i], f->at[i + 1]) : -1;
    r.at[0].from = i ? opposite[side_of(t, f->at[i - 1], f->at[i])] : WAFER_PORT_ramp;
    r.at[0].to = (uint8_t)((to < 0 ? 0 : 1u << to) | (f->takes[i] ? WAFER_TO(ramp) : 0));
    if (f->kind && i == f->turn) lay_switch(f, &r);
    t->routes[t->route_count++] = r;
  }
}

/* Words that runs keep of so many. */
static uint32_t kept(const wafer_filter *filter, uint32_t words) {
  uint32_t count = 0;
  for (uint32_t run = 0, at = 0; at < words && (run < filter->run_count || filter->repeat); run++) {
    uint32_t length = filter->runs[run % filter->run_count];
    if (length > words - at) length = words - at;
    count += run % 2 ? length : 0;
    at += length;
  }
  return count;
}

/* A filter for the core at place i of a colour of whole words. */
static void filter(trial *t, uint8_t color, uint32_t i) {
  flow *f = &t->flows[color];
  uint32_t *runs = t->runs[t->filter_count];
  wafer_filter *one = &t->filters[t->filter_count];
  f->keeps[i] = 0;
  if (wafer_dtype_bits((wafer_dtype)f->dtype) != 32 || draw(t, 2)) return;
  *one = (wafer_filter){.runs = runs, .run_count = 2 + 2 * draw(t, 3), .repeat = draw(t, 2)};
  for (uint32_t k = 0; k < one->run_count; k++) runs[k] = draw(t, k % 2 ? 9 : 40);
  runs[1]++;
  f->keeps[i] = kept(one, f->elements);
  if (!f->keeps[i]) return;
  t->uses[t->filter_count] =
      (wafer_filter_use){.cores = {f->at[i] % t->width, f->at[i] / t->width, 1, 1},
                         .color = color,
                         .filter = t->filter_count};
  t->filter_count++;
}

static wafer_operand bind(trial *t, uint32_t core, uint8_t color, bool output) {
  wafer_core_program *p = &t->programs[core];
  uint32_t same = 0;
  bool found = false;
  for (uint32_t i = 0; i < p->binding_count; i++) {
    same += t->bindings[core][i].output == output;
    found |= t->bindings[core][i].output == output && t->bindings[core][i].color == color;
  }
  if (!found)
    t->bindings[core][p->binding_count++] =
        (wafer_core_binding){color, (uint8_t)(same % (output ? 6 : 8)), output};
  return (wafer_operand){
      .kind = WAFER_OPERAND_fabric, .dtype = t->flows[color].dtype, .color = color};
}

static wafer_operand memory(const trial *t, uint8_t color, int32_t base) {
  return (wafer_operand){
      .kind = WAFER_OPERAND_memory,
      .dtype = t->flows[color].dtype,
      .reg = WAFER_NO_REGISTER,
      .address = base + color * REGION,
      .stride = {0, 0, 0, (int32_t)wafer_dtype_bytes((wafer_dtype)t->flows[color].dtype)}};
}

/* Alone in its program an instruction may be waited for; among others it goes beside them. */
static void emit(trial *t, uint32_t core, wafer_instruction code, bool alone) {
  wafer_core_program *p = &t->programs[core];
  code.count_reg = WAFER_NO_REGISTER;
  code.shape[0] = code.shape[1] = code.shape[2] = 1;
  code.async = !alone;
  code.thread = (uint8_t)(p->code_count % 8);
  if (p->code_count < MOST) t->code[core][p->code_count++] = code;
}

/* What a colour with a switch has its sender, or the core at the switch, send. */
static void send_switched(trial *t, uint32_t core, uint8_t c, bool first, bool alone) {
  const flow *f = &t->flows[c];
  wafer_instruction code = {.op = WAFER_CORE_move,
                            .shape = {1, 1, 1, f->elements},
                            .out = bind(t, core, c, true),
                            .in = {memory(t, c, 0)}};
  code.control = first ? WAFER_CONTROL_advance : (uint8_t)draw(t, 3);
  emit(t, core, code, alone);
  if (!first || f->kind != FIRST_HERE) return;
  code.control = (uint8_t)draw(t, 3);
  emit(t, core, code, alone);
}

/* Which colour the core sends, if any; who receives passes on what he adds when the types allow. */
static void program_core(trial *t, uint32_t core) {
  uint32_t ends = 0;
  int out = -1;
  bool forwards = draw(t, 3) != 0, alone = draw(t, 3) != 0;
  for (uint32_t c = 0; c < t->flow_count; c++) {
    const flow *f = &t->flows[c];
    for (uint32_t i = 0; i < f->length; i++) ends += f->at[i] == core && (f->takes[i] || !i);
    if (f->length > 1 && f->at[0] == core) out = (int)c;
  }
  if (draw(t, 3) == 0)
    emit(t, core,
         (wafer_instruction){
             .op = WAFER_CORE_delay, .a = WAFER_NO_REGISTER, .value = (int32_t)draw(t, 60)},
         true);
  for (uint32_t c = 0; c < t->flow_count; c++) {
    const flow *f = &t->flows[c];
    uint32_t in = 0, elements = f->elements;
    for (uint32_t i = 1; i < f->length; i++)
      if (f->at[i] == core && f->takes[i]) in = i;
    if (!in) continue;
    if (f->keeps[in]) elements = f->keeps[in];
    wafer_instruction code = {
        .op = WAFER_CORE_move, .shape = {1, 1, 1, elements}, .out = memory(t, (uint8_t)c, RESULTS)};
    if (forwards && out >= 0 && !f->kind && !t->flows[out].kind &&
        t->flows[out].dtype == f->dtype && t->flows[out].elements == elements) {
      code.op = draw(t, 4) ? WAFER_CORE_add : WAFER_CORE_mul;
      code.out = bind(t, core, (uint8_t)out, true);
      code.in[1] = memory(t, (uint8_t)c, 0);
      out = -1;
    }
    code.in[0] = bind(t, core, (uint8_t)c, false);
    emit(t, core, code, alone && ends <= 2);
    code.out.address += code.out.stride[3] * (int32_t)elements;
    if (f->kind == THEN_FROM_HERE) emit(t, core, code, alone && ends <= 2);
  }
  for (uint32_t c = 0; c < t->flow_count; c++) {
    const flow *f = &t->flows[c];
    bool first = f->length > 1 && f->at[0] == core;
    bool here = f->kind == THEN_FROM_HERE && f->length > 1 && f->at[f->turn] == core;
    if (f->kind && (first || here)) send_switched(t, core, (uint8_t)c, first, alone && ends <= 2);
  }
  for (uint32_t c = 0; c < t->flow_count; c++)
    if (!t->flows[c].kind && t->flows[c].length > 1 && t->flows[c].at[0] == core && (int)c == out) {
      uint32_t parts = draw(t, 4) == 0 && t->flows[c].elements % 8 == 0 ? 2 : 1;
      wafer_instruction code = {.op = WAFER_CORE_move,
                                .shape = {1, 1, 1, t->flows[c].elements / parts},
                                .out = bind(t, core, (uint8_t)c, true),
                                .in = {memory(t, (uint8_t)c, 0)}};
      for (uint32_t i = 0; i < parts; i++) emit(t, core, code, alone && ends <= 2);
    }
}

static void make(trial *t, uint64_t seed) {
  static const uint8_t types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f32, WAFER_DTYPE_f32,
                                  WAFER_DTYPE_f16, WAFER_DTYPE_u8,  WAFER_DTYPE_i16,
                                  WAFER_DTYPE_f64};
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  *t = (trial){.seed = seed};
  t->width = 1 + draw(t, SIDE);
  t->height = 1 + draw(t, SIDE);
  t->flow_count = 1 + draw(t, COLORS);
  bool sends[CORES] = {false};
  uint32_t elements = 1 + draw(t, 100);
  uint8_t dtype = types[draw(t, 7)];
  for (uint32_t c = 0; c < t->flow_count; c++) {
    flow *f = &t->flows[c];
    do walk(t, f);
    while (sends[f->at[0]] && draw(t, 50));
    if (sends[f->at[0]]) f->length = 0;
    if (f->length > 1) sends[f->at[0]] = true;
    f->elements = draw(t, 3) ? elements : 1 + draw(t, 120);
    f->dtype = draw(t, 3) ? dtype : types[draw(t, 7)];
    add_switch(t, f);
    if (f->length > 1) lay(t, f, (uint8_t)c);
    for (uint32_t i = 1; i < f->length; i++)
      if (f->takes[i] && !f->kind) filter(t, (uint8_t)c, i);
  }
  for (uint32_t i = 0; i < t->width * t->height; i++) {
    t->core[i] = i;
    t->programs[i] = (wafer_core_program){.name = "trial",
                                          .code = t->code[i],
                                          .tasks = &start,
                                          .task_count = 1,
                                          .bindings = t->bindings[i]};
    program_core(t, i);
    if (!t->programs[i].code_count) t->core[i] = WAFER_NO_PROGRAM;
    if (!t->programs[i].code_count) emit(t, i, (wafer_instruction){.op = WAFER_CORE_end}, true);
  }
  t->program = (wafer_fabric_program){.name = "trial",
                                      .width = t->width,
                                      .height = t->height,
                                      .programs = t->programs,
                                      .program_count = t->width * t->height,
                                      .core = t->core,
                                      .filters = t->filters,
                                      .filter_count = t->filter_count,
                                      .filter_uses = t->uses,
                                      .filter_use_count = t->filter_count,
                                      .routes = t->routes,
                                      .route_count = t->route_count};
}

typedef struct outcome {
  wafer_status status;
  wafer_fabric_stats stats;
  uint64_t finish[CORES], worked[CORES], wavelets[CORES * WAFER_LINKS];
  unsigned char results[CORES][COLORS * REGION];
} outcome;

static void run(const trial *t, const wafer_machine *machine, bool single, outcome *o) {
  caught c;
  wafer_diag diag = caught_diag(&c);
  wafer_fabric *f;
  memset(o, 0, sizeof *o);
  o->status = wafer_fabric_create(&diag, machine, &t->program, &f);
  if (o->status != WAFER_OK) printf("\n%s\n", c.text);
  CU_ASSERT_FATAL(o->status == WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_single(f, single) == WAFER_OK);
  for (uint32_t i = 0; i < t->width * t->height; i++)
    for (uint32_t color = 0; color < t->flow_count; color++) {
      unsigned char data[REGION];
      for (uint32_t k = 0; k < REGION; k++)
        wafer_element_set_f64((wafer_dtype)t->flows[color].dtype, data,
                              k / wafer_dtype_bytes((wafer_dtype)t->flows[color].dtype),
                              (double)((i * 7 + color * 3 + k) % 11));
      CU_ASSERT(wafer_fabric_write(f, i % t->width, i / t->width, color * REGION, data, REGION));
    }
  wafer_fabric_count(f, true);
  o->status = wafer_fabric_run(f, &o->stats);
  if (o->status == WAFER_OK) wafer_fabric_load(f, o->worked, o->wavelets);
  for (uint32_t i = 0; i < t->width * t->height && o->status == WAFER_OK; i++) {
    o->finish[i] = wafer_fabric_finish(f, i % t->width, i / t->width);
    for (uint32_t k = 0; k < COLORS * REGION; k++)
      wafer_fabric_read(f, i % t->width, i / t->width, RESULTS + k, &o->results[i][k], 1);
  }
  wafer_fabric_destroy(f);
}

/* Cores and links, each by itself, do what the totals say. */
static void check_load(const outcome *o) {
  uint64_t worked = 0, wavelets = 0;
  for (uint32_t i = 0; i < CORES; i++) worked += o->worked[i];
  for (uint32_t i = 0; i < CORES * WAFER_LINKS; i++) wavelets += o->wavelets[i];
  CU_ASSERT(worked == o->stats.core_cycles && wavelets == o->stats.hops);
}

static bool has_switch(const trial *t) {
  for (uint32_t c = 0; c < t->flow_count; c++)
    if (t->flows[c].kind) return true;
  return false;
}

static void trains_are_exact(void) {
  static trial t;
  static outcome one, many;
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  uint32_t ended = 0, switched = 0;
  for (uint64_t seed = 1; seed <= 600; seed++) {
    make(&t, seed);
    run(&t, machines[seed % 2], true, &one);
    run(&t, machines[seed % 2], false, &many);
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
    switched += one.status == WAFER_OK && has_switch(&t);
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
  uint32_t core[ROW], runs[ROW][2], uses;
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

/* A core takes all words, or a run of them, by one instruction or two, some after a while. */
static void make_row_core(trial *t, row *r, uint32_t i) {
  uint32_t skipped = draw(t, r->words), wanted = r->words, count = 0;
  if (draw(t, 2)) {
    wanted = 1 + draw(t, r->words - skipped);
    r->runs[i][0] = skipped;
    r->runs[i][1] = wanted;
    r->filters[r->uses] = (wafer_filter){.runs = r->runs[i], .run_count = 2};
    r->use[r->uses] = (wafer_filter_use){.cores = {i, 0, 1, 1}, .filter = r->uses};
    r->uses++;
  }
  uint32_t first = draw(t, 3) ? wanted : 1 + draw(t, wanted);
  r->code[i][count++] = (wafer_instruction){.op = WAFER_CORE_delay,
                                            .a = WAFER_NO_REGISTER,
                                            .value = (int32_t)(draw(t, 3) ? 1 : draw(t, 90))};
  r->code[i][count++] = keep(first, 0, draw(t, 2));
  if (wanted > first) r->code[i][count++] = keep(wanted - first, 4096, draw(t, 2));
  r->programs[i].code_count = count;
}

static void make_row(trial *t, row *r, uint64_t seed) {
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  t->seed = seed;
  *r = (row){.width = 2 + draw(t, ROW - 2),
             .words = 5 + draw(t, FED - 5),
             .rate = draw(t, 3),
             .cycles = 1 + draw(t, 7)};
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
  CU_ASSERT_FATAL(wafer_fabric_create(NULL, machine, &program, &f) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_single(f, single) == WAFER_OK);
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

static void fans_are_exact(void) {
  static trial t;
  static row r;
  static outcome one, many;
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  for (uint64_t seed = 1; seed <= 300; seed++) {
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
                              .repeat = 1 + i % 2,
                              .single = true};
      const char *name = names[i / 4 / WAFER_COUNT(words)];
      CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, machines[m], &machine) == WAFER_OK);
      CU_ASSERT(wafer_case_run(NULL, machine, name, &o, &one) == WAFER_OK);
      o.single = false;
      CU_ASSERT(wafer_case_run(NULL, machine, name, &o, &many) == WAFER_OK);
      CU_ASSERT(one.counted == many.counted && one.checked == many.checked);
      CU_ASSERT(!memcmp(&one.stats, &many.stats, sizeof one.stats));
    }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fabric_train[] = {
    {"trains are exact", trains_are_exact},
    {"chains are exact", chains_are_exact},
    {"fans are exact", fans_are_exact},
    CU_TEST_INFO_NULL,
};
