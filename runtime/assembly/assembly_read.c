/* Text as a fabric program: statements, labels, where programs run, routes. */
#include <string.h>

#include "assembly_text.h"

typedef struct reader {
  assembly_text t;
  wafer_fabric_program *fabric;
  wafer_core_program *programs;
  wafer_route *routes;
  uint32_t *core;
  wafer_filter *filters;
  wafer_filter_use *uses;
  uint32_t program_room, route_room, filter_room, use_room;
  bool open; /* lines belong to the last program */
} reader;

/* ---- fabric ---- */

/* WxH */
static wafer_status read_size(assembly_text *t, uint32_t *width, uint32_t *height) {
  uint64_t w, h;
  WAFER_TRY(assembly_number(t, WAFER_FABRIC_MOST_CORES, "a size, as in 16x4", &w));
  if (!assembly_is(t, 'x')) return assembly_wrong(t, "x and a height, as in 16x4");
  WAFER_TRY(assembly_number(t, WAFER_FABRIC_MOST_CORES, "a height", &h));
  *width = (uint32_t)w;
  *height = (uint32_t)h;
  return WAFER_OK;
}

static wafer_status read_fabric(reader *r) {
  assembly_text *t = &r->t;
  wafer_fabric_program *f = r->fabric;
  if (!assembly_word(t, "fabric")) return assembly_wrong(t, "fabric, a name and a size");
  WAFER_TRY(assembly_string(t, &f->name));
  WAFER_TRY(read_size(t, &f->width, &f->height));
  uint64_t cores = (uint64_t)f->width * f->height;
  if (!cores || cores > WAFER_FABRIC_MOST_CORES)
    return assembly_wrong(t, "a size of 1 to 4194304 cores before the line's end");
  r->core = WAFER_NEW(t->arena, uint32_t, cores);
  if (!r->core) return assembly_no_memory(t);
  for (uint64_t i = 0; i < cores; i++) r->core[i] = WAFER_NO_PROGRAM;
  f->core = r->core;
  return WAFER_OK;
}

/* ---- programs ---- */

static wafer_status resolve(assembly_text *t, const assembly_use *use) {
  if (t->label_of[use->label] != t->program_count)
    return wafer_fail(t->diag, wafer_at_line(t->file, use->line, use->column), WAFER_BAD_INPUT,
                      "there is no label L%u in its program", use->label);
  uint32_t at = t->label[use->label];
  if (at >= t->code_count)
    return wafer_fail(t->diag, wafer_at_line(t->file, use->line, use->column), WAFER_BAD_INPUT,
                      "no instruction follows label L%u", use->label);
  if (use->task)
    t->tasks[use->at].entry = at;
  else
    t->code[use->at].target = (uint16_t)at;
  return WAFER_OK;
}

static void store_program(reader *r) {
  assembly_text *t = &r->t;
  wafer_core_program *p = &r->programs[t->program_count - 1];
  p->code = t->code;
  p->tasks = t->tasks;
  p->bindings = t->bindings;
  p->code_count = t->code_count;
  p->task_count = t->task_count;
  p->binding_count = t->binding_count;
}

static wafer_status end_program(reader *r) {
  assembly_text *t = &r->t;
  if (!r->open) return WAFER_OK;
  r->open = false;
  for (uint32_t i = 0; i < t->use_count; i++) WAFER_TRY(resolve(t, &t->uses[i]));
  store_program(r);
  t->code = NULL;
  t->tasks = NULL;
  t->bindings = NULL;
  t->code_count = t->code_room = t->task_count = t->task_room = 0;
  t->binding_count = t->binding_room = t->use_count = 0;
  return WAFER_OK;
}

static wafer_status begin_program(reader *r) {
  assembly_text *t = &r->t;
  wafer_core_program program = {0};
  WAFER_TRY(end_program(r));
  WAFER_TRY(assembly_string(t, &program.name));
  if (assembly_word(t, "node")) WAFER_TRY(assembly_string(t, &program.node));
  WAFER_TRY(assembly_grow(t, &r->programs, t->program_count, &r->program_room, sizeof program));
  r->programs[t->program_count++] = program;
  r->open = true;
  return WAFER_OK;
}

static wafer_status read_binding(assembly_text *t, bool output) {
  wafer_core_binding b = {.output = output};
  uint64_t queue;
  WAFER_TRY(assembly_number(t, UINT8_MAX, "a queue from 0 to 255", &queue));
  b.queue = (uint8_t)queue;
  WAFER_TRY(assembly_color(t, &b.color));
  WAFER_TRY(assembly_grow(t, &t->bindings, t->binding_count, &t->binding_room, sizeof b));
  t->bindings[t->binding_count++] = b;
  return WAFER_OK;
}

static wafer_status read_task(assembly_text *t) {
  static const char *const kinds[] = {"start", "local", "data", "control"};
  wafer_core_task task = {.kind = WAFER_COUNT(kinds)};
  for (uint8_t k = 0; k < WAFER_COUNT(kinds) && task.kind == WAFER_COUNT(kinds); k++)
    if (assembly_word(t, kinds[k])) task.kind = k;
  if (task.kind == WAFER_COUNT(kinds)) return assembly_wrong(t, "start, local, data or control");
  if (task.kind == WAFER_TASK_data || task.kind == WAFER_TASK_control)
    WAFER_TRY(assembly_color(t, &task.color));
  WAFER_TRY(assembly_label(t, t->task_count, true));
  task.blocked = assembly_word(t, "blocked");
  WAFER_TRY(assembly_grow(t, &t->tasks, t->task_count, &t->task_room, sizeof task));
  t->tasks[t->task_count++] = task;
  return WAFER_OK;
}

/* L5: at the beginning of a line. */
static wafer_status read_label(assembly_text *t) {
  uint64_t label;
  t->at++;
  WAFER_TRY(assembly_number(t, ASSEMBLY_LABELS - 1, "a label from L0 to L65535", &label));
  if (t->label_of[label] == t->program_count) return assembly_wrong(t, "a label of its own");
  if (t->code_count >= ASSEMBLY_LABELS) return assembly_wrong(t, "65536 instructions at most");
  t->label_of[label] = t->program_count;
  t->label[label] = t->code_count;
  return assembly_is(t, ':') ? WAFER_OK : assembly_wrong(t, "':'");
}

/* ---- places ---- */

/* X,Y WxH */
static wafer_status read_rect(const reader *r, assembly_text *t, wafer_rect *rect) {
  uint64_t x, y;
  WAFER_TRY(assembly_number(t, r->fabric->width - 1, "a column of the fabric", &x));
  if (!assembly_is(t, ',')) return assembly_wrong(t, "',' and a row");
  WAFER_TRY(assembly_number(t, r->fabric->height - 1, "a row of the fabric", &y));
  rect->x = (uint32_t)x;
  rect->y = (uint32_t)y;
  WAFER_TRY(read_size(t, &rect->width, &rect->height));
  if (!rect->width || !rect->height || rect->width > r->fabric->width - rect->x ||
      rect->height > r->fabric->height - rect->y)
    return assembly_wrong(t, "a rectangle inside the fabric before the line's end");
  return WAFER_OK;
}

/* A core runs one program, so all lines together touch each core once. */
static wafer_status read_at(reader *r) {
  assembly_text *t = &r->t;
  wafer_rect rect;
  uint64_t program;
  WAFER_TRY(end_program(r));
  WAFER_TRY(read_rect(r, t, &rect));
  if (!assembly_word(t, "program")) return assembly_wrong(t, "program and its number");
  if (!t->program_count) return assembly_wrong(t, "a program before the line");
  WAFER_TRY(assembly_number(t, t->program_count - 1, "the number of a program", &program));
  for (uint32_t y = rect.y; y < rect.y + rect.height; y++)
    for (uint32_t x = rect.x; x < rect.x + rect.width; x++) {
      uint32_t *core = &r->core[(size_t)y * r->fabric->width + x];
      if (*core != WAFER_NO_PROGRAM) return assembly_wrong(t, "cores that have no program yet");
      *core = (uint32_t)program;
    }
  return WAFER_OK;
}

static bool read_port(assembly_text *t, uint8_t *port) {
  static const char *const ports[] = {"north", "east", "south", "west", "ramp"};
  for (*port = 0; *port < WAFER_PORTS; ++*port)
    if (assembly_word(t, ports[*port])) return true;
  return false;
}

static wafer_status read_position(assembly_text *t, wafer_route *route) {
  uint8_t from, to;
  if (route->positions == WAFER_SWITCH_POSITIONS)
    return assembly_wrong(t, "four positions at most");
  if (!read_port(t, &from)) return assembly_wrong(t, "a port: north, east, south, west, ramp");
  if (!assembly_is(t, '-') || !assembly_is(t, '>')) return assembly_wrong(t, "-> and ports");
  if (!read_port(t, &to)) return assembly_wrong(t, "a port: north, east, south, west, ramp");
  uint32_t set = 0;
  do set |= 1u << to;
  while (read_port(t, &to));
  route->at[route->positions].from = from;
  route->at[route->positions++].to = (uint8_t)set;
  return WAFER_OK;
}

static wafer_status read_route(reader *r) {
  assembly_text *t = &r->t;
  wafer_route route = {0};
  WAFER_TRY(end_program(r));
  WAFER_TRY(assembly_color(t, &route.color));
  WAFER_TRY(read_rect(r, t, &route.cores));
  do WAFER_TRY(read_position(t, &route));
  while (assembly_is(t, '|'));
  route.wrap = assembly_word(t, "wrap");
  WAFER_TRY(assembly_grow(t, &r->routes, r->fabric->route_count, &r->route_room, sizeof route));
  r->routes[r->fabric->route_count++] = route;
  return WAFER_OK;
}

/* skip 3 keep 4 ... repeat */
static wafer_status read_filter(reader *r) {
  assembly_text *t = &r->t;
  wafer_filter filter = {0};
  uint32_t *runs = NULL, room = 0;
  WAFER_TRY(end_program(r));
  while (assembly_word(t, filter.run_count % 2 ? "keep" : "skip")) {
    uint64_t run;
    WAFER_TRY(assembly_number(t, UINT32_MAX, "a count of wavelets", &run));
    WAFER_TRY(assembly_grow(t, &runs, filter.run_count, &room, sizeof *runs));
    runs[filter.run_count++] = (uint32_t)run;
  }
  filter.runs = runs;
  filter.repeat = assembly_word(t, "repeat");
  WAFER_TRY(assembly_grow(t, &r->filters, r->fabric->filter_count, &r->filter_room, sizeof filter));
  r->filters[r->fabric->filter_count++] = filter;
  return WAFER_OK;
}

static wafer_status read_ramp(reader *r) {
  assembly_text *t = &r->t;
  wafer_filter_use use = {0};
  uint64_t filter;
  WAFER_TRY(end_program(r));
  WAFER_TRY(assembly_color(t, &use.color));
  WAFER_TRY(read_rect(r, t, &use.cores));
  if (!assembly_word(t, "filter")) return assembly_wrong(t, "filter and its number");
  WAFER_TRY(assembly_number(t, UINT32_MAX, "the number of a filter", &filter));
  if (filter >= r->fabric->filter_count) return assembly_wrong(t, "a filter of a line before");
  use.filter = (uint32_t)filter;
  WAFER_TRY(assembly_grow(t, &r->uses, r->fabric->filter_use_count, &r->use_room, sizeof use));
  r->uses[r->fabric->filter_use_count++] = use;
  return WAFER_OK;
}

/* ---- lines ---- */

static wafer_status read_line(reader *r) {
  assembly_text *t = &r->t;
  if (assembly_at_end(t)) return WAFER_OK;
  if (!r->core) return read_fabric(r);
  if (assembly_word(t, "program")) return begin_program(r);
  if (assembly_word(t, "at")) return read_at(r);
  if (assembly_word(t, "route")) return read_route(r);
  if (assembly_word(t, "filter")) return read_filter(r);
  if (assembly_word(t, "ramp")) return read_ramp(r);
  if (!r->open) return assembly_wrong(t, "program, at, route, filter or ramp");
  if (assembly_word(t, "in")) return read_binding(t, false);
  if (assembly_word(t, "out")) return read_binding(t, true);
  if (assembly_word(t, "task")) return read_task(t);
  if (*t->at == 'L') WAFER_TRY(read_label(t));
  return assembly_at_end(t) ? WAFER_OK : assembly_code(t);
}

static wafer_status read_lines(reader *r) {
  assembly_text *t = &r->t;
  while (t->at < t->end) {
    WAFER_TRY(read_line(r));
    if (!assembly_at_end(t)) return assembly_wrong(t, "the end of the line");
    const char *next = memchr(t->at, '\n', (size_t)(t->end - t->at));
    t->at = t->line_start = next ? next + 1 : t->end;
    t->line++;
  }
  if (!r->core) return assembly_wrong(t, "fabric, a name and a size");
  return end_program(r);
}

wafer_status wafer_assembly_read(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const char *text, size_t bytes, const wafer_fabric_program **out) {
  *out = NULL;
  reader r = {.t = {.diag = diag, .arena = arena, .file = file, .line = 1}};
  r.t.at = r.t.line_start = text;
  r.t.end = text + bytes;
  r.t.label = WAFER_NEW(arena, uint32_t, ASSEMBLY_LABELS);
  r.t.label_of = WAFER_NEW(arena, uint32_t, ASSEMBLY_LABELS);
  r.fabric = WAFER_NEW(arena, wafer_fabric_program, 1);
  if (!r.t.label || !r.t.label_of || !r.fabric) return assembly_no_memory(&r.t);
  WAFER_TRY(read_lines(&r));
  r.fabric->programs = r.programs;
  r.fabric->program_count = r.t.program_count;
  r.fabric->routes = r.routes;
  r.fabric->filters = r.filters;
  r.fabric->filter_uses = r.uses;
  *out = r.fabric;
  return WAFER_OK;
}
