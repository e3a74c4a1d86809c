#include "fabric_trial.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

/* What the switch of a colour does: to the core there first and then on; or from afar first and
 * then from the core there. */
enum { STRAIGHT, FIRST_HERE, THEN_FROM_HERE, TURNS };

uint32_t trial_draw(trial *t, uint32_t below) {
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
  uint32_t at = trial_draw(t, t->width * t->height), port = trial_draw(t, 4),
           most = 1 + trial_draw(t, 12);
  f->length = 0;
  for (bool on = true; on && f->length <= most;) {
    f->takes[f->length] = f->length && trial_draw(t, 5) == 0;
    f->at[f->length++] = at;
    seen[at] = true;
    on = false;
    if (trial_draw(t, 4) == 0) port = trial_draw(t, 4);
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
  f->kind = f->length > 2 && trial_draw(t, 3) == 0 ? 1 + trial_draw(t, TURNS - 1) : STRAIGHT;
  if (f->kind == STRAIGHT) return;
  f->turn = 1 + trial_draw(t, f->length - 2);
  f->wrap = trial_draw(t, 2);
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
  if (wafer_dtype_bits((wafer_dtype)f->dtype) != 32 || trial_draw(t, 2)) return;
  *one = (wafer_filter){
      .runs = runs, .run_count = 2 + 2 * trial_draw(t, 3), .repeat = trial_draw(t, 2)};
  for (uint32_t k = 0; k < one->run_count; k++) runs[k] = trial_draw(t, k % 2 ? 9 : 40);
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
  code.control = first ? WAFER_CONTROL_advance : (uint8_t)trial_draw(t, 3);
  emit(t, core, code, alone);
  if (!first || f->kind != FIRST_HERE) return;
  code.control = (uint8_t)trial_draw(t, 3);
  emit(t, core, code, alone);
}

/* Which colour the core sends, if any; who receives passes on what he adds when the types allow. */
static void program_core(trial *t, uint32_t core) {
  uint32_t ends = 0;
  int out = -1;
  bool forwards = trial_draw(t, 3) != 0, alone = trial_draw(t, 3) != 0;
  for (uint32_t c = 0; c < t->flow_count; c++) {
    const flow *f = &t->flows[c];
    for (uint32_t i = 0; i < f->length; i++) ends += f->at[i] == core && (f->takes[i] || !i);
    if (f->length > 1 && f->at[0] == core) out = (int)c;
  }
  if (trial_draw(t, 3) == 0)
    emit(t, core,
         (wafer_instruction){
             .op = WAFER_CORE_delay, .a = WAFER_NO_REGISTER, .value = (int32_t)trial_draw(t, 60)},
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
      code.op = trial_draw(t, 4) ? WAFER_CORE_add : WAFER_CORE_mul;
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
      uint32_t parts = trial_draw(t, 4) == 0 && t->flows[c].elements % 8 == 0 ? 2 : 1;
      wafer_instruction code = {.op = WAFER_CORE_move,
                                .shape = {1, 1, 1, t->flows[c].elements / parts},
                                .out = bind(t, core, (uint8_t)c, true),
                                .in = {memory(t, (uint8_t)c, 0)}};
      for (uint32_t i = 0; i < parts; i++) emit(t, core, code, alone && ends <= 2);
    }
}

void trial_make(trial *t, uint64_t seed) {
  static const uint8_t types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f32, WAFER_DTYPE_f32,
                                  WAFER_DTYPE_f16, WAFER_DTYPE_u8,  WAFER_DTYPE_i16,
                                  WAFER_DTYPE_f64};
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  *t = (trial){.seed = seed};
  t->width = 1 + trial_draw(t, SIDE);
  t->height = 1 + trial_draw(t, SIDE);
  t->flow_count = 1 + trial_draw(t, COLORS);
  bool sends[CORES] = {false};
  uint32_t elements = 1 + trial_draw(t, 100);
  uint8_t dtype = types[trial_draw(t, 7)];
  for (uint32_t c = 0; c < t->flow_count; c++) {
    flow *f = &t->flows[c];
    do walk(t, f);
    while (sends[f->at[0]] && trial_draw(t, 50));
    if (sends[f->at[0]]) f->length = 0;
    if (f->length > 1) sends[f->at[0]] = true;
    f->elements = trial_draw(t, 3) ? elements : 1 + trial_draw(t, 120);
    f->dtype = trial_draw(t, 3) ? dtype : types[trial_draw(t, 7)];
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
    emit(t, i, (wafer_instruction){.op = WAFER_CORE_mark}, true);
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

bool trial_has_switch(const trial *t) {
  for (uint32_t c = 0; c < t->flow_count; c++)
    if (t->flows[c].kind) return true;
  return false;
}

/* Appends. */
static void hear(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  outcome *o = self;
  char place[256];
  size_t used = strlen(o->text);
  (void)severity;
  wafer_loc_format(loc, place, sizeof place);
  snprintf(o->text + used, sizeof o->text - used, "%d %s: %s\n", (int)status, place, text);
}

static void on_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  outcome *o = user;
  (void)value;
  o->marks[y * SIDE + x] = cycle + 1;
}

void trial_run(const trial *t, const wafer_machine *machine, const wafer_fabric_options *options,
               outcome *o) {
  const wafer_diag diag = {.emit = hear, .self = o};
  wafer_fabric *f;
  memset(o, 0, sizeof *o);
  o->status = wafer_fabric_create(&diag, machine, &t->program, options, &f);
  if (o->status != WAFER_OK) printf("\n%s\n", o->text);
  CU_ASSERT_FATAL(o->status == WAFER_OK);
  for (uint32_t i = 0; i < t->width * t->height; i++)
    for (uint32_t color = 0; color < t->flow_count; color++) {
      unsigned char data[REGION];
      for (uint32_t k = 0; k < REGION; k++)
        wafer_element_set_f64((wafer_dtype)t->flows[color].dtype, data,
                              k / wafer_dtype_bytes((wafer_dtype)t->flows[color].dtype),
                              (double)((i * 7 + color * 3 + k) % 11));
      CU_ASSERT(wafer_fabric_write(f, i % t->width, i / t->width, color * REGION, data, REGION));
    }
  wafer_fabric_count(f, !t->uncounted);
  wafer_fabric_observe(f, on_mark, o);
  o->status = wafer_fabric_run(f, &o->stats);
  if (o->status == WAFER_OK) wafer_fabric_load(f, o->worked, o->wavelets);
  for (uint32_t i = 0; i < t->width * t->height && o->status == WAFER_OK; i++) {
    o->finish[i] = wafer_fabric_finish(f, i % t->width, i / t->width);
    for (uint32_t k = 0; k < COLORS * REGION; k++)
      wafer_fabric_read(f, i % t->width, i / t->width, RESULTS + k, &o->results[i][k], 1);
  }
  wafer_fabric_destroy(f);
}
