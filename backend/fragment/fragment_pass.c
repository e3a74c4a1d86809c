/* Code of streams, seen as passes: what it writes to, what it sends last. */
#include "fragment.h"

static bool is_empty(fragment_bytes b) {
  return b.first >= b.end;
}

static bool overlap(fragment_bytes a, fragment_bytes b) {
  return !is_empty(a) && !is_empty(b) && a.first < b.end && b.first < a.end;
}

static fragment_bytes join(fragment_bytes a, fragment_bytes b) {
  if (is_empty(a) || is_empty(b)) return is_empty(a) ? b : a;
  return (fragment_bytes){a.first < b.first ? a.first : b.first, a.end > b.end ? a.end : b.end};
}

/* All that an operand touches. */
static fragment_bytes bytes_of(const wafer_instruction *code, const wafer_operand *o) {
  fragment_bytes b = {o->address, o->address + (int32_t)wafer_dtype_bytes(o->dtype)};
  for (uint32_t i = 0; i < WAFER_LEVELS; i++) {
    int32_t way = o->stride[i] * (int32_t)(code->shape[i] - 1);
    *(way < 0 ? &b.first : &b.end) += way;
  }
  return b;
}

static bool is_move(const wafer_instruction *code) {
  bool to = code->out.kind == WAFER_OPERAND_memory && code->out.reg == WAFER_NO_REGISTER;
  bool from = code->in[0].kind == WAFER_OPERAND_memory && code->in[0].reg == WAFER_NO_REGISTER;
  return code->op == WAFER_CORE_move && code->count_reg == WAFER_NO_REGISTER && !code->after &&
         (to || code->out.kind == WAFER_OPERAND_fabric) &&
         (from || code->in[0].kind == WAFER_OPERAND_fabric);
}

static bool is_send(const wafer_instruction *code) {
  return code->async && code->out.kind == WAFER_OPERAND_fabric &&
         code->in[0].kind == WAFER_OPERAND_memory;
}

/* What it is when all of it are moves; false: it does something else. */
static bool describe(const wafer_instruction *code, fragment_code *c) {
  bool sends = true, open = false;
  for (uint32_t i = 0; i < c->count; i++) {
    if (code[i].op == WAFER_CORE_join) {
      open = false;
      continue;
    }
    if (!is_move(&code[i])) return false;
    if (!open) {
      c->passes++;
      c->last = i;
      c->sends = 0;
      c->sent = (fragment_bytes){0};
      sends = open = true;
    }
    if (code[i].out.kind == WAFER_OPERAND_memory)
      c->written = join(c->written, bytes_of(&code[i], &code[i].out));
    sends &= is_send(&code[i]);
    c->sends = sends ? c->sends + 1 : 0;
    c->sent = sends ? join(c->sent, bytes_of(&code[i], &code[i].in[0])) : (fragment_bytes){0};
  }
  return c->passes > 0;
}

fragment_code fragment_describe(const wafer_instruction *code, uint32_t count) {
  fragment_code c = {.code = code, .count = count};
  c.moves = describe(code, &c);
  return c.moves ? c : (fragment_code){.code = code, .count = count};
}

bool fragment_goes_on(const wafer_machine *machine, const fragment *f, const fragment_code *code) {
  return f->stream && code->sends > 0 && code->sends <= fragment_sends_room(machine);
}

bool fragment_waits(const wafer_machine *machine, const fragment *f, const fragment_code *code,
                    fragment_under_way *under_way) {
  uint32_t sends = fragment_goes_on(machine, f, code) ? code->sends : 0;
  bool waits = !f->stream || !code->moves || overlap(code->written, under_way->bytes) ||
               under_way->count + sends > fragment_sends_room(machine);
  waits &= under_way->count > 0;
  if (waits) *under_way = (fragment_under_way){0};
  under_way->count += sends;
  if (sends) under_way->bytes = join(under_way->bytes, code->sent);
  return waits;
}
