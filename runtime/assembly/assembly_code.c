/* Lines of code. */
#include <string.h>

#include "assembly_text.h"

static wafer_status read_register(assembly_text *t, uint8_t *out) {
  uint64_t r;
  *out = WAFER_NO_REGISTER;
  if (assembly_word(t, "_")) return WAFER_OK;
  if (!assembly_is(t, 'r')) return assembly_wrong(t, "a register, as in r3, or _");
  WAFER_TRY(assembly_number(t, WAFER_CORE_REGISTERS - 1, "a register from r0 to r15", &r));
  *out = (uint8_t)r;
  return WAFER_OK;
}

static wafer_status read_int32(assembly_text *t, const char *what, int32_t *out) {
  int64_t value;
  WAFER_TRY(assembly_integer(t, INT32_MIN, INT32_MAX, what, &value));
  *out = (int32_t)value;
  return WAFER_OK;
}

static wafer_status read_thread(assembly_text *t, uint8_t *out) {
  uint64_t thread;
  WAFER_TRY(assembly_number(t, WAFER_CORE_THREADS - 1, "a microthread from 0 to 7", &thread));
  *out = (uint8_t)thread;
  return WAFER_OK;
}

static wafer_status read_task(assembly_text *t, uint16_t *out) {
  uint64_t task;
  if (!assembly_is(t, 'T')) return assembly_wrong(t, "a task, as in T2");
  WAFER_TRY(assembly_number(t, WAFER_CORE_TASKS - 1, "a task from T0 to T31", &task));
  *out = (uint16_t)task;
  return WAFER_OK;
}

/* ---- control ---- */

static wafer_dtype word_as_dtype(assembly_text *t);

static wafer_status read_scalar(assembly_text *t, wafer_instruction *code) {
  for (const char *field = assembly_fields(code->op); *field; field++) switch (*field) {
    case 'a': WAFER_TRY(read_register(t, &code->a)); break;
    case 'b': WAFER_TRY(read_register(t, &code->b)); break;
    case 'c': WAFER_TRY(read_register(t, &code->c)); break;
    case 'v': WAFER_TRY(read_int32(t, "a value of 32 bits", &code->value)); break;
    case 'm': WAFER_TRY(read_thread(t, &code->thread)); break;
    case 't': WAFER_TRY(read_task(t, &code->target)); break;
    case 'd':
      code->function = (uint16_t)word_as_dtype(t);
      if (!code->function) return assembly_wrong(t, "a type, as in i64");
      break;
    default: WAFER_TRY(assembly_label(t, t->code_count, false));
    }
  return WAFER_OK;
}

/* ---- vectors ---- */

static wafer_op word_as_op(assembly_text *t) {
  char name[32] = {0};
  size_t bytes = assembly_peek(t);
  if (bytes >= sizeof name) return WAFER_OP_COUNT;
  memcpy(name, t->at, bytes);
  wafer_op op = wafer_op_by_name(name);
  if (op < WAFER_OP_COUNT) t->at += bytes;
  return op;
}

static wafer_status read_attribute(assembly_text *t, wafer_attr *a) {
  for (uint32_t id = 0; id < WAFER_ATTR_COUNT; id++) {
    if (!assembly_word(t, wafer_attr_name((wafer_attr_id)id))) continue;
    a->id = (wafer_attr_id)id;
    if (!assembly_is(t, '=')) return assembly_wrong(t, "'='");
    switch (wafer_attr_kind_of(a->id)) {
    case WAFER_ATTR_KIND_int:
      return assembly_integer(t, INT64_MIN, INT64_MAX, "a number of 64 bits", &a->i);
    case WAFER_ATTR_KIND_float: return assembly_real(t, &a->f);
    case WAFER_ATTR_KIND_string: return assembly_string(t, &a->s);
    default: return assembly_wrong(t, "an attribute that maps have");
    }
  }
  return assembly_wrong(t, "an attribute");
}

static wafer_status read_attributes(assembly_text *t, wafer_instruction *code) {
  wafer_attr *list = NULL;
  uint32_t count = 0, room = 0;
  while (!assembly_is(t, '}')) {
    WAFER_TRY(assembly_grow(t, &list, count, &room, sizeof *list));
    WAFER_TRY(read_attribute(t, &list[count++]));
  }
  wafer_attrs attrs = {.count = count, .at = list};
  if (!count) return WAFER_OK;
  code->attrs = wafer_arena_copy(t->arena, &attrs, sizeof attrs);
  return code->attrs ? WAFER_OK : assembly_no_memory(t);
}

static wafer_status read_function(assembly_text *t, wafer_instruction *code) {
  wafer_op op = word_as_op(t);
  if (op == WAFER_OP_COUNT || !wafer_op_is(op, WAFER_TRAIT_MAP))
    return assembly_wrong(t, "the name of a map, as in tanh");
  code->function = (uint16_t)op;
  return assembly_is(t, '{') ? read_attributes(t, code) : WAFER_OK;
}

/* [3,64]: outermost first; a register may stand for the last. */
static wafer_status read_shape(assembly_text *t, wafer_instruction *code, uint32_t *levels) {
  uint64_t dims[WAFER_LEVELS];
  *levels = 0;
  if (!assembly_is(t, '[')) return assembly_wrong(t, "a shape, as in [3,64]");
  do {
    if (*levels == WAFER_LEVELS || code->count_reg != WAFER_NO_REGISTER)
      return assembly_wrong(t, "']': four levels at most, a register the last");
    dims[*levels] = 1;
    if (assembly_peek(t) && *t->at == 'r')
      WAFER_TRY(read_register(t, &code->count_reg));
    else
      WAFER_TRY(assembly_number(t, UINT32_MAX, "a count of 32 bits", &dims[*levels]));
    ++*levels;
  } while (assembly_is(t, ','));
  if (!assembly_is(t, ']')) return assembly_wrong(t, "']'");
  for (uint32_t k = 0; k < WAFER_LEVELS; k++)
    code->shape[k] = k < WAFER_LEVELS - *levels ? 1 : (uint32_t)dims[k - (WAFER_LEVELS - *levels)];
  return WAFER_OK;
}

/* @address+r3(outer stride,...,inner stride) */
static wafer_status read_memory(assembly_text *t, wafer_operand *o, uint32_t levels) {
  o->kind = WAFER_OPERAND_memory;
  o->reg = WAFER_NO_REGISTER;
  WAFER_TRY(read_int32(t, "an address", &o->address));
  if (assembly_is(t, '+')) WAFER_TRY(read_register(t, &o->reg));
  for (uint32_t k = WAFER_LEVELS - levels; k < WAFER_LEVELS; k++) {
    if (!assembly_is(t, k == WAFER_LEVELS - levels ? '(' : ','))
      return assembly_wrong(t, "a stride for each level of the shape, as in (256,4)");
    WAFER_TRY(read_int32(t, "a stride in bytes", &o->stride[k]));
  }
  return assembly_is(t, ')') ? WAFER_OK : assembly_wrong(t, "')' after a stride for each level");
}

static wafer_dtype word_as_dtype(assembly_text *t) {
  char name[16] = {0};
  size_t bytes = assembly_peek(t);
  if (bytes >= sizeof name) return WAFER_DTYPE_none;
  memcpy(name, t->at, bytes);
  wafer_dtype dtype = wafer_dtype_by_name(name);
  if (dtype != WAFER_DTYPE_none) t->at += bytes;
  return dtype;
}

static wafer_status read_operand(assembly_text *t, wafer_operand *o, uint32_t levels) {
  *o = (wafer_operand){.kind = WAFER_OPERAND_null};
  if (assembly_word(t, "null")) return WAFER_OK;
  o->dtype = (uint8_t)word_as_dtype(t);
  if (!o->dtype) return assembly_wrong(t, "an operand: its element type, as in f32@256(4)");
  if (assembly_is(t, '@')) return read_memory(t, o, levels);
  if (assembly_is(t, '=')) {
    o->kind = WAFER_OPERAND_constant;
    return assembly_real(t, &o->value);
  }
  o->kind = WAFER_OPERAND_fabric;
  assembly_skip(t);
  if (t->at == t->end || *t->at != '#')
    return assembly_wrong(t, "@ and an address, # and a color, or = and a constant");
  return assembly_color(t, &o->color);
}

static wafer_status read_option(assembly_text *t, wafer_instruction *code) {
  if (assembly_word(t, "thread")) return read_thread(t, &code->thread);
  if (assembly_word(t, "after")) {
    WAFER_TRY(read_thread(t, &code->after));
    code->after++;
  } else if (assembly_word(t, "then")) {
    uint16_t task = 0;
    WAFER_TRY(read_task(t, &task));
    code->then = (uint8_t)(task + 1);
  } else if (assembly_word(t, "async"))
    code->async = true;
  else if (assembly_word(t, "load"))
    code->load_descriptors = true;
  else if (assembly_word(t, "advance"))
    code->control = WAFER_CONTROL_advance;
  else if (assembly_word(t, "reset"))
    code->control = WAFER_CONTROL_reset;
  else
    return assembly_wrong(t, "thread, after, then, async, load, advance, reset, or the line's end");
  return WAFER_OK;
}

static wafer_status read_vector(assembly_text *t, wafer_instruction *code) {
  uint32_t levels, inputs = 0;
  code->count_reg = WAFER_NO_REGISTER;
  if (code->op == WAFER_CORE_apply) WAFER_TRY(read_function(t, code));
  WAFER_TRY(read_shape(t, code, &levels));
  WAFER_TRY(read_operand(t, &code->out, levels));
  while (assembly_is(t, ',')) {
    if (inputs == 3) return assembly_wrong(t, "three inputs at most");
    WAFER_TRY(read_operand(t, &code->in[inputs++], levels));
  }
  while (!assembly_at_end(t)) WAFER_TRY(read_option(t, code));
  return WAFER_OK;
}

wafer_status assembly_code(assembly_text *t) {
  wafer_instruction code = {0};
  assembly_peek(t);
  for (code.op = 0; code.op < WAFER_CORE_OPS; code.op++)
    if (assembly_word(t, wafer_core_op_name((wafer_core_op)code.op))) break;
  if (code.op == WAFER_CORE_OPS) return assembly_wrong(t, "an instruction, a label or a statement");
  if (assembly_fields(code.op))
    WAFER_TRY(read_scalar(t, &code));
  else
    WAFER_TRY(read_vector(t, &code));
  WAFER_TRY(assembly_grow(t, &t->code, t->code_count, &t->code_room, sizeof code));
  t->code[t->code_count++] = code;
  return WAFER_OK;
}
