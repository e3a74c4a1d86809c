/* A fabric program as bytes: numbers in groups of 7 bits, the lowest first, the top bit saying that
 * more follow; signed ones fold their sign into the lowest bit. One description of the form serves
 * writing and reading: each function below codes its argument, which it gets or sets. */
#include <string.h>
#include <xxhash.h>

#include "assembly/assembly.h"

#define MAGIC 0x32504657u /* "WFP2" */

typedef struct coder {
  wafer_arena *arena;
  bool reading, no_memory;
  const unsigned char *in; /* reading */
  unsigned char *out;      /* writing */
  size_t at, size;         /* size: of `in`, or the room of `out` */
  const char *wrong;       /* the first thing that cannot be; then everything reads as 0 */
} coder;

/* ---- numbers ---- */

static void put(coder *c, unsigned char byte) {
  if (c->at == c->size) {
    size_t room = c->size ? c->size * 2 : 256;
    unsigned char *more = c->no_memory ? NULL : wafer_arena_alloc(c->arena, room, 1);
    if (!more) {
      c->no_memory = true;
      return;
    }
    if (c->at) memcpy(more, c->out, c->at);
    c->out = more;
    c->size = room;
  }
  c->out[c->at++] = byte;
}

static uint64_t get(coder *c, const char *what) {
  uint64_t value = 0;
  for (unsigned shift = 0; !c->wrong && shift < 64; shift += 7) {
    if (c->at == c->size) break;
    unsigned char byte = c->in[c->at++];
    if (shift == 63 && byte > 1) break;
    value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return value;
  }
  if (!c->wrong) c->wrong = what;
  return 0;
}

static uint64_t number(coder *c, uint64_t value, uint64_t most, const char *what) {
  if (c->reading) {
    value = get(c, what);
    if (value <= most) return value;
    if (!c->wrong) c->wrong = what;
    return 0;
  }
  uint64_t left = value;
  for (; left > 127; left >>= 7) put(c, (unsigned char)(left | 128));
  put(c, (unsigned char)left);
  return value;
}

static int64_t integer(coder *c, int64_t value, int64_t least, int64_t most, const char *what) {
  uint64_t folded = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
  folded = number(c, folded, UINT64_MAX, what);
  value = (int64_t)(folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0));
  if (value >= least && value <= most) return value;
  if (!c->wrong) c->wrong = what;
  return 0;
}

static int32_t integer32(coder *c, int32_t value, const char *what) {
  return (int32_t)integer(c, value, INT32_MIN, INT32_MAX, what);
}

/* The end of the fraction first: round numbers are short. */
static double real(coder *c, double value) {
  uint64_t bits, turned = 0;
  memcpy(&bits, &value, 8);
  for (int i = 0; i < 8; i++) turned |= (bits >> (8 * i) & 255) << (8 * (7 - i));
  turned = number(c, turned, UINT64_MAX, "a constant");
  for (int i = bits = 0; i < 8; i++) bits |= (turned >> (8 * i) & 255) << (8 * (7 - i));
  memcpy(&value, &bits, 8);
  return value;
}

/* None is 0. */
static uint8_t reg(coder *c, uint8_t r) {
  uint64_t one = r == WAFER_NO_REGISTER ? 0 : r + 1u;
  one = number(c, one, WAFER_CORE_REGISTERS, "a register");
  return one ? (uint8_t)(one - 1) : WAFER_NO_REGISTER;
}

/* NULL is length 0; else the length and one. */
static const char *string(coder *c, const char *text) {
  size_t bytes = text ? strlen(text) : 0;
  uint64_t coded = number(c, text ? bytes + 1 : 0, UINT32_MAX, "the length of a name");
  if (!c->reading) {
    for (size_t i = 0; i < bytes; i++) put(c, (unsigned char)text[i]);
    return text;
  }
  if (!coded || c->wrong) return NULL;
  bytes = coded - 1;
  if (bytes > c->size - c->at || memchr(c->in + c->at, 0, bytes)) {
    c->wrong = "a name";
    return NULL;
  }
  text = wafer_arena_strndup(c->arena, (const char *)c->in + c->at, bytes);
  c->no_memory |= !text;
  c->at += bytes;
  return text ? text : "";
}

/* A list's count, and when reading its room: an entry takes a byte or more. */
static void *list(coder *c, const void *at, uint32_t *count, size_t size, const char *what) {
  uint64_t most = c->reading ? c->size - c->at : UINT32_MAX;
  *count = (uint32_t)number(c, *count, most < UINT32_MAX ? most : UINT32_MAX, what);
  if (!c->reading) return (void *)at;
  void *room = wafer_arena_alloc(c->arena, *count, size);
  if (room) return room;
  c->no_memory = true;
  *count = 0;
  return NULL;
}

/* ---- instructions ---- */

/* Like the attributes of a plan: what the kind says. */
static void attribute(coder *c, wafer_attr *a) {
  a->id = (wafer_attr_id)number(c, a->id, WAFER_ATTR_COUNT - 1, "an attribute");
  switch (wafer_attr_kind_of(a->id)) {
  case WAFER_ATTR_KIND_int:
    a->i = integer(c, a->i, INT64_MIN, INT64_MAX, "an attribute's number");
    return;
  case WAFER_ATTR_KIND_float: a->f = real(c, a->f); return;
  case WAFER_ATTR_KIND_string:
    a->s = string(c, a->s);
    if (!a->s && !c->wrong) c->wrong = "an attribute's text";
    return;
  default:
    if (!c->wrong) c->wrong = "an attribute that no map has";
  }
}

static void attributes(coder *c, wafer_instruction *code) {
  wafer_attrs all = code->attrs ? *code->attrs : (wafer_attrs){0};
  wafer_attr *at = list(c, all.at, &all.count, sizeof *at, "the count of attributes");
  for (uint32_t i = 0; i < all.count; i++) {
    wafer_attr one = c->reading ? (wafer_attr){0} : at[i];
    attribute(c, &one);
    if (c->reading) at[i] = one;
  }
  if (!c->reading || !all.count) return;
  all.at = at;
  code->attrs = wafer_arena_copy(c->arena, &all, sizeof all);
  c->no_memory |= !code->attrs;
}

static void operand(coder *c, wafer_operand *o, uint32_t levels) {
  o->kind = (uint8_t)number(c, o->kind, WAFER_OPERAND_null, "the kind of an operand");
  if (o->kind == WAFER_OPERAND_none || o->kind == WAFER_OPERAND_null) return;
  o->dtype = (uint8_t)number(c, o->dtype, WAFER_DTYPE_COUNT - 1, "the type of an operand");
  if (!o->dtype && !c->wrong) c->wrong = "the type of an operand";
  if (o->kind == WAFER_OPERAND_fabric) {
    o->color = (uint8_t)number(c, o->color, UINT8_MAX, "a color");
  } else if (o->kind == WAFER_OPERAND_constant) {
    o->value = real(c, o->value);
  } else {
    o->address = integer32(c, o->address, "an address");
    o->reg = reg(c, o->reg);
    for (uint32_t k = WAFER_LEVELS - levels; k < WAFER_LEVELS; k++)
      o->stride[k] = integer32(c, o->stride[k], "a stride");
  }
}

static void shape(coder *c, wafer_instruction *code) {
  uint32_t levels = (uint32_t)number(c, assembly_levels(code), WAFER_LEVELS, "a shape");
  bool counted = code->count_reg != WAFER_NO_REGISTER;
  if (c->reading)
    for (uint32_t k = 0; k < WAFER_LEVELS; k++) code->shape[k] = 1;
  for (uint32_t k = WAFER_LEVELS - levels; k + counted < WAFER_LEVELS; k++)
    code->shape[k] = (uint32_t)number(c, code->shape[k], UINT32_MAX, "a shape");
  operand(c, &code->out, levels);
  for (uint32_t k = 0; k < 3; k++) operand(c, &code->in[k], levels);
}

enum { ASYNC = 1, LOADS = 2, ORDERED = 4 }; /* ordered: thread, after, then and control follow */

static void vector(coder *c, wafer_instruction *code) {
  uint64_t flags = (code->async ? ASYNC : 0) | (code->load_descriptors ? LOADS : 0) |
                   (code->thread || code->after || code->then || code->control ? ORDERED : 0);
  flags = number(c, flags, 7, "the flags of an instruction");
  code->async = flags & ASYNC;
  code->load_descriptors = flags & LOADS;
  if (flags & ORDERED) {
    code->thread = (uint8_t)number(c, code->thread, WAFER_CORE_THREADS - 1, "a microthread");
    code->after = (uint8_t)number(c, code->after, WAFER_CORE_THREADS, "a microthread");
    code->then = (uint8_t)number(c, code->then, WAFER_CORE_TASKS, "a task");
    code->control = (uint8_t)number(c, code->control, WAFER_CONTROL_reset, "control");
  }
  code->count_reg = reg(c, code->count_reg);
  if (code->op == WAFER_CORE_apply) {
    code->function = (uint16_t)number(c, code->function, WAFER_OP_COUNT - 1, "a function");
    attributes(c, code);
  }
  shape(c, code);
}

static void scalar(coder *c, wafer_instruction *code) {
  for (const char *field = assembly_fields(code->op); *field; field++) switch (*field) {
    case 'a': code->a = reg(c, code->a); break;
    case 'b': code->b = reg(c, code->b); break;
    case 'c': code->c = reg(c, code->c); break;
    case 'v': code->value = integer32(c, code->value, "a value"); break;
    case 'm':
      code->thread = (uint8_t)number(c, code->thread, WAFER_CORE_THREADS - 1, "a microthread");
      break;
    case 'd':
      code->function = (uint16_t)number(c, code->function, WAFER_DTYPE_COUNT - 1, "a type");
      break;
    default: code->target = (uint16_t)number(c, code->target, UINT16_MAX, "a target");
    }
}

static void instruction(coder *c, wafer_instruction *code) {
  code->op = (uint8_t)number(c, code->op, WAFER_CORE_OPS - 1, "an instruction");
  if (assembly_fields(code->op))
    scalar(c, code);
  else
    vector(c, code);
}

/* ---- programs ---- */

static void task(coder *c, wafer_core_task *t) {
  t->kind = (uint8_t)number(c, t->kind, WAFER_TASK_control, "the kind of a task");
  if (t->kind == WAFER_TASK_data || t->kind == WAFER_TASK_control)
    t->color = (uint8_t)number(c, t->color, UINT8_MAX, "a color");
  t->blocked = number(c, t->blocked, 1, "the flag of a task");
  t->entry = (uint32_t)number(c, t->entry, UINT32_MAX, "a task's entry");
}

static void binding(coder *c, wafer_core_binding *b) {
  b->color = (uint8_t)number(c, b->color, UINT8_MAX, "a color");
  b->queue = (uint8_t)number(c, b->queue, UINT8_MAX, "a queue");
  b->output = number(c, b->output, 1, "the flag of a queue");
}

static void core_program(coder *c, wafer_core_program *p) {
  p->name = string(c, p->name || c->reading ? p->name : "");
  if (!p->name && !c->wrong) c->wrong = "the name of a program";
  p->node = string(c, p->node);
  wafer_instruction *code = list(c, p->code, &p->code_count, sizeof *code, "the size of a program");
  for (uint32_t i = 0; i < p->code_count; i++) {
    wafer_instruction one = c->reading ? (wafer_instruction){0} : code[i];
    instruction(c, &one);
    if (c->reading) code[i] = one;
  }
  p->code = code;
  wafer_core_task *tasks = list(c, p->tasks, &p->task_count, sizeof *tasks, "the count of tasks");
  for (uint32_t i = 0; i < p->task_count; i++) {
    wafer_core_task one = c->reading ? (wafer_core_task){0} : tasks[i];
    task(c, &one);
    if (c->reading) tasks[i] = one;
  }
  p->tasks = tasks;
  wafer_core_binding *bindings =
      list(c, p->bindings, &p->binding_count, sizeof *bindings, "the count of queues");
  for (uint32_t i = 0; i < p->binding_count; i++) {
    wafer_core_binding one = c->reading ? (wafer_core_binding){0} : bindings[i];
    binding(c, &one);
    if (c->reading) bindings[i] = one;
  }
  p->bindings = bindings;
}

static void rectangle(coder *c, wafer_rect *r) {
  r->x = (uint32_t)number(c, r->x, UINT32_MAX, "a place");
  r->y = (uint32_t)number(c, r->y, UINT32_MAX, "a place");
  r->width = (uint32_t)number(c, r->width, UINT32_MAX, "a width");
  r->height = (uint32_t)number(c, r->height, UINT32_MAX, "a height");
}

static void route(coder *c, wafer_route *r) {
  rectangle(c, &r->cores);
  r->color = (uint8_t)number(c, r->color, UINT8_MAX, "a color");
  r->positions = (uint8_t)number(c, r->positions, WAFER_SWITCH_POSITIONS, "a route's positions");
  r->wrap = number(c, r->wrap, 1, "the flag of a route");
  for (uint32_t i = 0; i < r->positions; i++) {
    r->at[i].from = (uint8_t)number(c, r->at[i].from, WAFER_PORTS - 1, "a port");
    r->at[i].to = (uint8_t)number(c, r->at[i].to, (1u << WAFER_PORTS) - 1, "ports");
  }
}

static void routes(coder *c, wafer_fabric_program *p) {
  wafer_route *at = list(c, p->routes, &p->route_count, sizeof *at, "the count of routes");
  for (uint32_t i = 0; i < p->route_count; i++) {
    wafer_route one = c->reading ? (wafer_route){0} : at[i];
    route(c, &one);
    if (c->reading) at[i] = one;
  }
  p->routes = at;
}

static void filter(coder *c, wafer_filter *f) {
  uint32_t *runs = list(c, f->runs, &f->run_count, sizeof *runs, "the runs of a filter");
  for (uint32_t i = 0; i < f->run_count; i++) {
    uint32_t run = (uint32_t)number(c, c->reading ? 0 : runs[i], UINT32_MAX, "a run of a filter");
    if (c->reading) runs[i] = run;
  }
  f->runs = runs;
  f->repeat = number(c, f->repeat, 1, "the flag of a filter");
}

static void filters(coder *c, wafer_fabric_program *p) {
  wafer_filter *at = list(c, p->filters, &p->filter_count, sizeof *at, "the count of filters");
  for (uint32_t i = 0; i < p->filter_count; i++) {
    wafer_filter one = c->reading ? (wafer_filter){0} : at[i];
    filter(c, &one);
    if (c->reading) at[i] = one;
  }
  p->filters = at;
  wafer_filter_use *uses =
      list(c, p->filter_uses, &p->filter_use_count, sizeof *uses, "the uses of filters");
  for (uint32_t i = 0; i < p->filter_use_count; i++) {
    wafer_filter_use one = c->reading ? (wafer_filter_use){0} : uses[i];
    rectangle(c, &one.cores);
    one.color = (uint8_t)number(c, one.color, UINT8_MAX, "a color");
    one.filter = (uint32_t)number(c, one.filter, UINT32_MAX, "a filter");
    if (c->reading) uses[i] = one;
  }
  p->filter_uses = uses;
}

static void head(coder *c, wafer_fabric_program *p) {
  if (number(c, MAGIC, UINT32_MAX, "the mark of a program") != MAGIC && !c->wrong)
    c->wrong = "the mark of a program";
  p->name = string(c, p->name || c->reading ? p->name : "");
  if (!p->name && !c->wrong) c->wrong = "the name of the program";
  p->width = (uint32_t)number(c, p->width, WAFER_FABRIC_MOST_CORES, "the width");
  p->height = (uint32_t)number(c, p->height, WAFER_FABRIC_MOST_CORES, "the height");
  if ((uint64_t)p->width * p->height > WAFER_FABRIC_MOST_CORES && !c->wrong)
    c->wrong = "the size of the fabric";
}

/* ---- writing ---- */

typedef struct merger {
  coder *out;
  wafer_bytes *seen; /* of programs already written, by number */
  uint32_t *slots;   /* 1 + number, by hash */
  uint32_t slot_count, count;
} merger;

/* The number of the program among those written; a new one is appended. */
static uint32_t merge(merger *m, const wafer_core_program *program) {
  coder alone = {.arena = m->out->arena};
  wafer_core_program copy = *program;
  core_program(&alone, &copy);
  m->out->no_memory |= alone.no_memory;
  if (m->out->no_memory) return 0;
  uint32_t at = (uint32_t)XXH3_64bits(alone.out, alone.at) & (m->slot_count - 1);
  for (; m->slots[at]; at = (at + 1) & (m->slot_count - 1)) {
    const wafer_bytes *one = &m->seen[m->slots[at] - 1];
    if (one->size == alone.at && !memcmp(one->data, alone.out, alone.at)) return m->slots[at] - 1;
  }
  m->seen[m->count] = (wafer_bytes){alone.out, alone.at};
  m->slots[at] = ++m->count;
  return m->count - 1;
}

/* Runs of cores with the same program, row by row; 0: none. */
static void write_cores(coder *c, const wafer_fabric_program *p, const uint32_t *merged) {
  size_t cores = (size_t)p->width * p->height;
  for (size_t i = 0, run; i < cores; i += run) {
    for (run = 1; i + run < cores && p->core[i + run] == p->core[i]; run++) continue;
    number(c, run, UINT64_MAX, "a run of cores");
    number(c, p->core[i] == WAFER_NO_PROGRAM ? 0 : merged[p->core[i]] + 1ull, UINT64_MAX,
           "a core's program");
  }
}

static bool merge_all(merger *m, const wafer_fabric_program *p, uint32_t *merged) {
  m->slot_count = 16;
  while (m->slot_count / 2 < p->program_count) m->slot_count *= 2;
  m->seen = WAFER_NEW(m->out->arena, wafer_bytes, p->program_count);
  m->slots = WAFER_NEW(m->out->arena, uint32_t, m->slot_count);
  if (!m->seen || !m->slots || !merged || p->program_count > UINT32_MAX / 4) return false;
  for (uint32_t i = 0; i < p->program_count; i++) merged[i] = merge(m, &p->programs[i]);
  return !m->out->no_memory;
}

bool wafer_fabric_program_write(wafer_arena *arena, const wafer_fabric_program *program,
                                wafer_bytes *out) {
  coder c = {.arena = arena};
  merger m = {.out = &c};
  wafer_fabric_program copy = *program;
  uint32_t *merged = WAFER_NEW(arena, uint32_t, program->program_count);
  if (!merge_all(&m, program, merged)) return false;
  head(&c, &copy);
  number(&c, m.count, UINT32_MAX, "the count of programs");
  for (uint32_t i = 0; i < m.count; i++)
    for (size_t k = 0; k < m.seen[i].size; k++) put(&c, ((const unsigned char *)m.seen[i].data)[k]);
  write_cores(&c, program, merged);
  routes(&c, &copy);
  filters(&c, &copy);
  *out = (wafer_bytes){c.out, c.at};
  return !c.no_memory;
}

/* ---- reading ---- */

static void read_cores(coder *c, wafer_fabric_program *p) {
  size_t cores = (size_t)p->width * p->height;
  uint32_t *core = WAFER_NEW(c->arena, uint32_t, cores);
  p->core = core;
  c->no_memory |= !core;
  for (size_t i = 0; core && i < cores && !c->wrong;) {
    uint64_t run = number(c, 0, cores - i, "a run of cores");
    uint64_t program = number(c, 0, p->program_count, "a core's program");
    if (!run && !c->wrong) c->wrong = "a run of cores";
    for (; run && !c->wrong; run--)
      core[i++] = program ? (uint32_t)(program - 1) : WAFER_NO_PROGRAM;
  }
}

static void read_all(coder *c, wafer_fabric_program *p) {
  head(c, p);
  wafer_core_program *programs =
      list(c, NULL, &p->program_count, sizeof *programs, "the count of programs");
  for (uint32_t i = 0; i < p->program_count && !c->wrong; i++) core_program(c, &programs[i]);
  p->programs = programs;
  if (!c->wrong && !c->no_memory) read_cores(c, p);
  routes(c, p);
  filters(c, p);
  if (!c->wrong && c->at != c->size) c->wrong = "nothing";
}

wafer_status wafer_fabric_program_read(const wafer_diag *diag, const char *file, wafer_arena *arena,
                                       wafer_bytes bytes, const wafer_fabric_program **out) {
  *out = NULL;
  wafer_fabric_program *program = WAFER_NEW(arena, wafer_fabric_program, 1);
  coder c = {.arena = arena, .reading = true, .in = bytes.data, .size = bytes.size};
  if (program) read_all(&c, program);
  if (c.wrong)
    return wafer_fail(diag, wafer_at_file(file), WAFER_BAD_INPUT,
                      "the program is damaged: expected %s before byte %zu of %zu", c.wrong, c.at,
                      c.size);
  if (!program || c.no_memory)
    return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY, "no room for the program");
  *out = program;
  return WAFER_OK;
}
