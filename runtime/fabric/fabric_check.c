/* What a program for the fabric must be before it runs: indices inside their tables, queues that
 * the machine has, code that leaves room for data. */
#include "core_value.h"

static const char *const op_names[WAFER_CORE_OPS] = {
#define VECTOR(name, ...) [WAFER_CORE_##name] = #name,
#define SCALAR(name) [WAFER_CORE_##name] = #name,
#include "wafer/core_ops.def"
};

const char *wafer_core_op_name(wafer_core_op op) {
  return op < WAFER_CORE_OPS ? op_names[op] : "?";
}

typedef struct checker {
  const wafer_diag *diag;
  const wafer_machine *machine;
  const wafer_fabric_program *fabric;
  const wafer_core_program *program;
  uint32_t at; /* instruction */
} checker;

static wafer_loc here(const checker *c) {
  return wafer_at_kernel(c->fabric->name, c->program->name, c->program->node);
}

uint32_t wafer_core_program_bytes(const wafer_core_program *program) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < program->code_count; i++) {
    const wafer_instruction *code = &program->code[i];
    bytes += WAFER_INSTRUCTION_BYTES;
    if (code->op >= WAFER_CORE_VECTORS) continue;
    for (uint32_t k = 0; k <= core_inputs(code); k++) bytes += WAFER_INSTRUCTION_BYTES;
  }
  return bytes;
}

static bool is_core_type(uint8_t dtype) {
  switch (dtype) {
  case WAFER_DTYPE_f16:
  case WAFER_DTYPE_bf16:
  case WAFER_DTYPE_f32:
  case WAFER_DTYPE_f64:
  case WAFER_DTYPE_i8:
  case WAFER_DTYPE_u8:
  case WAFER_DTYPE_i16:
  case WAFER_DTYPE_u16:
  case WAFER_DTYPE_i32:
  case WAFER_DTYPE_u32:
  case WAFER_DTYPE_i64:
  case WAFER_DTYPE_u64:
  case WAFER_DTYPE_bool: return true;
  default: return false;
  }
}

/* A byte each, which cores move and convert. */
static bool is_small_type(uint8_t dtype) {
  return dtype && dtype < WAFER_DTYPE_COUNT && wafer_dtype_bytes((wafer_dtype)dtype) == 1;
}

static bool is_bound(const checker *c, uint8_t color, bool output) {
  for (uint32_t i = 0; i < c->program->binding_count; i++)
    if (c->program->bindings[i].color == color && c->program->bindings[i].output == output)
      return true;
  return false;
}

static bool reg_fits(uint8_t reg) {
  return reg < WAFER_CORE_REGISTERS || reg == WAFER_NO_REGISTER;
}

static wafer_status check_operand(const checker *c, const wafer_operand *o, bool output) {
  const char *name = wafer_core_op_name(c->program->code[c->at].op);
  if (o->kind == WAFER_OPERAND_none || o->kind > WAFER_OPERAND_null ||
      o->kind == (output ? WAFER_OPERAND_constant : WAFER_OPERAND_null))
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) has an operand of kind %u", c->at, name, o->kind);
  uint8_t op = c->program->code[c->at].op;
  bool moves = op == WAFER_CORE_move || op == WAFER_CORE_convert;
  if (!is_core_type(o->dtype) && !(moves && is_small_type(o->dtype)))
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) has an operand of type %s; cores compute with floats of "
                      "16 bits and more, integers of 8 bits and more, and bool, and move and "
                      "convert smaller ones",
                      c->at, name, wafer_dtype_name((wafer_dtype)o->dtype));
  if (o->kind == WAFER_OPERAND_fabric && !is_bound(c, o->color, output))
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) uses color %u, to which no %s queue "
                      "is bound",
                      c->at, name, o->color, output ? "output" : "input");
  if (o->kind == WAFER_OPERAND_memory && !reg_fits(o->reg))
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) uses register %u of %u", c->at, name, o->reg,
                      WAFER_CORE_REGISTERS);
  return WAFER_OK;
}

/* Elements of 8 bits come four to a wavelet, and four of 64 bits are more than a queue holds. */
static wafer_status check_widths(const checker *c, const wafer_instruction *code) {
  uint32_t least = 64, most = 8;
  for (uint32_t k = 0; k <= core_inputs(code); k++) {
    const wafer_operand *o = core_operand(code, k);
    if (o->kind != WAFER_OPERAND_fabric) continue;
    uint32_t bits = 8 * (uint32_t)wafer_dtype_bytes(o->dtype);
    if (bits < least) least = bits;
    if (bits > most) most = bits;
  }
  if (least > 8 || most < 64) return WAFER_OK;
  return wafer_fail(c->diag, here(c), WAFER_UNSUPPORTED,
                    "instruction %u (%s) has elements of 8 and of 64 bits on the fabric; convert "
                    "in memory",
                    c->at, wafer_core_op_name(code->op));
}

/* Sparse wavelets come from the fabric or go there, everything else lies in memory, or what is
 * added to is one constant; pairs and
 * vectors are floats of 16 or 32 bits. */
static wafer_status check_pairs(const checker *c, const wafer_instruction *code) {
  bool sends = code->op == WAFER_CORE_compress, fits = true;
  for (uint32_t k = 0; k <= core_inputs(code); k++) {
    const wafer_operand *o = core_operand(code, k);
    uint32_t bits = wafer_dtype_bits((wafer_dtype)o->dtype);
    bool constant = !sends && k == 3 && o->kind == WAFER_OPERAND_constant;
    fits &= constant || o->kind == (k == !sends ? WAFER_OPERAND_fabric : WAFER_OPERAND_memory);
    fits &= wafer_dtype_is_float((wafer_dtype)o->dtype) && (bits == 16 || bits == 32);
  }
  for (uint32_t level = 0; level + 1 < WAFER_LEVELS; level++)
    fits &= code->shape[level] == 1 || (!sends && code->shape[level] <= 65535);
  fits &= !sends || code->out.dtype == code->in[0].dtype;
  if (fits) return WAFER_OK;
  return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                    "instruction %u (%s): sparse wavelets of f32, f16 or bf16, on the fabric, and "
                    "vectors of these types in memory",
                    c->at, wafer_core_op_name(code->op));
}

/* Routines that there are for these types. */
static wafer_status check_types(const checker *c, const wafer_instruction *code) {
  bool software = code->op == WAFER_CORE_exp || code->op == WAFER_CORE_reciprocal ||
                  code->op == WAFER_CORE_sqrt;
  if (software && !wafer_dtype_is_float(code->in[0].dtype))
    return wafer_fail(c->diag, here(c), WAFER_UNSUPPORTED,
                      "instruction %u (%s) takes floats, not %s", c->at,
                      wafer_core_op_name(code->op), wafer_dtype_name(code->in[0].dtype));
  if (code->op == WAFER_CORE_apply && !core_has_routine(code))
    return wafer_fail(c->diag, here(c), WAFER_UNSUPPORTED,
                      "instruction %u applies %s to %s: no elementwise routine for that, or its "
                      "attributes are missing",
                      c->at, wafer_op_get((wafer_op)code->function)->name,
                      wafer_dtype_name(code->in[0].dtype));
  if (core_takes_pairs(code->op)) return check_pairs(c, code);
  return check_widths(c, code);
}

static wafer_status check_code(const checker *c) {
  const wafer_instruction *code = &c->program->code[c->at];
  bool vector = code->op < WAFER_CORE_VECTORS;
  uint32_t threads =
      c->machine->microthreads < WAFER_CORE_THREADS ? c->machine->microthreads : WAFER_CORE_THREADS;
  bool to_task = code->op == WAFER_CORE_activate || code->op == WAFER_CORE_block ||
                 code->op == WAFER_CORE_unblock;
  if (code->op >= WAFER_CORE_OPS || code->thread >= threads || code->after > threads ||
      code->then > c->program->task_count || !reg_fits(code->a) || !reg_fits(code->b) ||
      !reg_fits(code->c) || !reg_fits(code->count_reg) ||
      (to_task && code->target >= c->program->task_count) ||
      (code->op == WAFER_CORE_branch && code->target >= c->program->code_count))
    return wafer_fail(
        c->diag, here(c), WAFER_BAD_INPUT,
        "instruction %u (%s) names a thread, task, register or target that there is not", c->at,
        wafer_core_op_name(code->op));
  if (code->op == WAFER_CORE_load &&
      (!is_core_type((uint8_t)code->function) || wafer_dtype_is_float((wafer_dtype)code->function)))
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (load) is of type %s; registers hold integers", c->at,
                      wafer_dtype_name((wafer_dtype)code->function));
  if (!vector) return WAFER_OK;
  if (!code->shape[0] || !code->shape[1] || !code->shape[2])
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) has the shape %ux%ux%ux%u; levels it does not use are 1",
                      c->at, wafer_core_op_name(code->op), code->shape[0], code->shape[1],
                      code->shape[2], code->shape[3]);
  if (code->control > WAFER_CONTROL_reset)
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "instruction %u (%s) has control %u; there are none, advance and reset",
                      c->at, wafer_core_op_name(code->op), code->control);
  if (code->op == WAFER_CORE_apply && code->function >= WAFER_OP_COUNT)
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT, "instruction %u applies op %u of %u",
                      c->at, code->function, WAFER_OP_COUNT);
  WAFER_TRY(check_operand(c, &code->out, true));
  for (uint32_t k = 0; k < core_inputs(code); k++) WAFER_TRY(check_operand(c, &code->in[k], false));
  return check_types(c, code);
}

static wafer_status check_bindings(const checker *c) {
  for (uint32_t i = 0; i < c->program->binding_count; i++) {
    const wafer_core_binding *b = &c->program->bindings[i];
    uint32_t queues = b->output ? c->machine->output_queues : c->machine->input_queues;
    if (b->color >= c->machine->colors || b->queue >= queues)
      return wafer_fail(c->diag, here(c), WAFER_NO_FIT,
                        "color %u is bound to %s queue %u; %s has %u colors and %u such queues",
                        b->color, b->output ? "output" : "input", b->queue, c->machine->name,
                        c->machine->colors, queues);
    for (uint32_t k = 0; k < i; k++)
      if (c->program->bindings[k].output == b->output && c->program->bindings[k].color == b->color)
        return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT, "color %u is bound to two %s queues",
                          b->color, b->output ? "output" : "input");
  }
  return WAFER_OK;
}

static wafer_status check_program(checker *c) {
  const wafer_core_program *p = c->program;
  if (p->task_count > WAFER_CORE_TASKS || p->binding_count > WAFER_CORE_BINDINGS || !p->code_count)
    return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                      "%u instructions, %u tasks, %u bindings; at least 1, at "
                      "most %u and %u",
                      p->code_count, p->task_count, p->binding_count, WAFER_CORE_TASKS,
                      WAFER_CORE_BINDINGS);
  WAFER_TRY(check_bindings(c));
  for (c->at = 0; c->at < p->code_count; c->at++) WAFER_TRY(check_code(c));
  for (uint32_t i = 0; i < p->task_count; i++) {
    const wafer_core_task *t = &p->tasks[i];
    bool wavelets = t->kind == WAFER_TASK_data || t->kind == WAFER_TASK_control;
    if (t->kind > WAFER_TASK_control || t->entry >= p->code_count ||
        (wavelets && !is_bound(c, t->color, false)))
      return wafer_fail(c->diag, here(c), WAFER_BAD_INPUT,
                        "task %u starts at instruction %u of %u, on color %u", i, t->entry,
                        p->code_count, t->color);
  }
  if (wafer_core_program_bytes(p) >= wafer_machine_core_budget(c->machine))
    return wafer_fail(
        c->diag, here(c), WAFER_NO_FIT, "%u bytes of code; a core of %s has %u for code and data",
        wafer_core_program_bytes(p), c->machine->name, wafer_machine_core_budget(c->machine));
  return WAFER_OK;
}

static bool is_inside(const wafer_fabric_program *p, wafer_rect r) {
  return r.x < p->width && r.width <= p->width - r.x && r.y < p->height &&
         r.height <= p->height - r.y;
}

static wafer_status check_route(const wafer_diag *diag, const wafer_machine *machine,
                                const wafer_fabric_program *p, const wafer_route *r) {
  bool ports = r->positions >= 1 && r->positions <= WAFER_SWITCH_POSITIONS;
  for (uint32_t i = 0; ports && i < r->positions; i++)
    ports = r->at[i].from < WAFER_PORTS && r->at[i].to && r->at[i].to < 1u << WAFER_PORTS &&
            (r->at[i].from == WAFER_PORT_ramp || !(r->at[i].to >> r->at[i].from & 1));
  if (is_inside(p, r->cores) && ports && r->color < machine->colors) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(p->name), WAFER_BAD_INPUT,
                    "the route of color %u for %ux%u cores from (%u,%u) is outside the fabric of "
                    "%ux%u cores and %u "
                    "colors, or leads back where it comes from",
                    r->color, r->cores.width, r->cores.height, r->cores.x, r->cores.y, p->width,
                    p->height, machine->colors);
}

static wafer_status check_filters(const wafer_diag *diag, const wafer_machine *machine,
                                  const wafer_fabric_program *p) {
  for (uint32_t i = 0; i < p->filter_count; i++) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < p->filters[i].run_count; k++) sum += p->filters[i].runs[k];
    if (p->filters[i].repeat && !sum)
      return wafer_fail(diag, wafer_at_file(p->name), WAFER_BAD_INPUT,
                        "filter %u repeats runs that are all empty", i);
  }
  for (uint32_t i = 0; i < p->filter_use_count; i++) {
    const wafer_filter_use *use = &p->filter_uses[i];
    if (!is_inside(p, use->cores) || use->color >= machine->colors ||
        use->filter >= p->filter_count)
      return wafer_fail(diag, wafer_at_file(p->name), WAFER_BAD_INPUT,
                        "filter %u of %u for color %u and %ux%u cores from (%u,%u) is outside the "
                        "fabric of %ux%u cores and %u colors",
                        use->filter, p->filter_count, use->color, use->cores.width,
                        use->cores.height, use->cores.x, use->cores.y, p->width, p->height,
                        machine->colors);
  }
  return WAFER_OK;
}

wafer_status fabric_check(const wafer_diag *diag, const wafer_machine *machine,
                          const wafer_fabric_program *program) {
  if (!program->width || !program->height || program->width > machine->width ||
      program->height > machine->height)
    return wafer_fail(diag, wafer_at_file(program->name), WAFER_NO_FIT,
                      "asks for %ux%u cores; %s has %ux%u", program->width, program->height,
                      machine->name, machine->width, machine->height);
  for (uint32_t i = 0; i < program->program_count; i++) {
    checker c = {
        .diag = diag, .machine = machine, .fabric = program, .program = &program->programs[i]};
    WAFER_TRY(check_program(&c));
  }
  for (uint32_t i = 0; i < program->width * program->height; i++)
    if (program->core[i] != WAFER_NO_PROGRAM && program->core[i] >= program->program_count)
      return wafer_fail(diag, wafer_at_file(program->name), WAFER_BAD_INPUT,
                        "core (%u,%u) runs program %u of %u", i % program->width,
                        i / program->width, program->core[i], program->program_count);
  for (uint32_t i = 0; i < program->route_count; i++)
    WAFER_TRY(check_route(diag, machine, program, &program->routes[i]));
  return check_filters(diag, machine, program);
}
