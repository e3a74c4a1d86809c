/* arg_sort: merging. Elements become keys, integers of 32 bits in their order (of wider elements
 * two, for sorting is stable: by the low words first), so that scalar instructions compare them. A
 * list of places, as bytes from the first key of the row, is merged from runs of 1, 2, 4 ... of one
 * buffer into the other; which comes first only the run knows, so a place is moved alone. Row after
 * row; the list of a row ends up where its keys were, then all become indices. */
#include <string.h>

#include "program_build.h"

enum { KEYS, LISTS, TABLE }; /* constants of the step: addresses */

enum {
  R_A = 2, /* next place of the left run, its end, the same of the right one, */
  R_A_END,
  R_B,
  R_B_END,
  R_OUT, /* and where the next one goes */
  R_KEY_A,
  R_KEY_B,
  R_LAST,  /* the end of the list, or for a moment something else */
  R_WIDTH, /* of a run, bytes */
  R_FROM,  /* lists */
  R_TO,
  R_ROW /* bytes of keys before it */
};
#define R_NONE WAFER_NO_REGISTER
#define PLACE PROGRAM_PLACE

/* The keys of a core: row after row, along the axis the innermost. */
typedef struct sorting {
  const program_site *site;
  program_code *code;
  const spread *x, *out;
  uint32_t axis, rank;
  int32_t length, rows;           /* of the axis; rows that are sorted */
  int32_t keys, key_bytes;        /* address; 4 or 8 */
  int32_t key_stride[NEST_LOOPS]; /* per dim */
  int32_t row_keys, lists[2], table;
  bool wide;
} sorting;

/* ---- all elements ---- */

static nest_operand of_keys(const sorting *s, wafer_dtype dtype) {
  nest_operand o = {.kind = WAFER_OPERAND_memory, .dtype = (uint8_t)dtype, .address = s->keys};
  memcpy(o.stride, s->key_stride, sizeof o.stride);
  return o;
}

/* In the place of the result, 8 bytes an element, while there is none: the low or the high half. */
static nest_operand of_result(const sorting *s, wafer_dtype dtype, int32_t half) {
  nest_operand o = {.kind = WAFER_OPERAND_memory,
                    .dtype = (uint8_t)dtype,
                    .address = s->site->out.address + 4 * half};
  for (uint32_t d = 0; d < s->rank; d++) o.stride[d] = s->out->dim[d].stride;
  return o;
}

static nest_operand of_x(const sorting *s, wafer_dtype dtype) {
  nest_operand o = {
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)dtype, .address = s->site->in[0].address};
  for (uint32_t d = 0; d < s->rank; d++) o.stride[d] = s->x->dim[d].stride;
  return o;
}

static nest_operand constant(wafer_dtype dtype, double value) {
  return (nest_operand){.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)dtype, .value = value};
}

static void over_all(const sorting *s, wafer_core_op op, uint32_t inputs, nest_operand out,
                     nest_operand a, nest_operand b, nest_operand c) {
  nest n = {.op = op, .inputs = inputs, .at = {out, a, b, c}};
  for (uint32_t d = 0; d < s->rank; d++) nest_loop(&n, s->site->out.len[d]);
  nest_emit(s->code, &n);
}

/* The bits of a float as an integer, those of negative ones from the other end; what is no number
 * comes last. */
static void float_keys(const sorting *s, wafer_dtype word) {
  wafer_dtype dtype = s->x->dtype;
  nest_operand x = of_x(s, dtype), bits = of_x(s, word), none = {0};
  nest_operand mark = of_result(s, WAFER_DTYPE_i32, 0), key = of_keys(s, word);
  if (wafer_dtype_bits(dtype) == 16) {
    bits = of_result(s, WAFER_DTYPE_i32, 1);
    over_all(s, WAFER_CORE_convert, 1, of_result(s, WAFER_DTYPE_f32, 1), x, none, none);
  }
  double least = s->wide ? -0x1p63 : -0x1p31, last = s->wide ? 0x1.ffep62 : 0x1p31 - 1;
  over_all(s, WAFER_CORE_less, 2, mark, bits, constant(word, 0), none);
  over_all(s, WAFER_CORE_sub, 2, key, constant(word, least), bits, none);
  over_all(s, WAFER_CORE_select, 3, key, mark, key, bits);
  over_all(s, WAFER_CORE_equal, 2, mark, x, x, none);
  over_all(s, WAFER_CORE_select, 3, key, mark, key, constant(word, last));
}

static void make_keys(const sorting *s) {
  wafer_dtype dtype = s->x->dtype, word = s->wide ? WAFER_DTYPE_i64 : WAFER_DTYPE_i32;
  nest_operand key = of_keys(s, word), none = {0};
  if (wafer_dtype_is_float(dtype))
    float_keys(s, word);
  else if (!wafer_dtype_is_signed(dtype) && wafer_dtype_bits(dtype) >= 32)
    over_all(s, WAFER_CORE_add, 2, key, of_x(s, word), constant(word, s->wide ? -0x1p63 : -0x1p31),
             none);
  else
    over_all(s, WAFER_CORE_convert, 1, key, of_x(s, dtype), none, none);
  if (wafer_attr_int(&s->site->node->attrs, WAFER_ATTR_descending))
    over_all(s, WAFER_CORE_sub, 2, key, constant(word, -1), key, none);
}

/* Places that lie where the keys were: a quarter of each, as f32, which holds it exactly. */
static void make_indices(const sorting *s) {
  nest_operand none = {0}, number = of_result(s, WAFER_DTYPE_f32, 0);
  nest_operand place = of_keys(s, WAFER_DTYPE_i32), index = of_result(s, s->out->dtype, 0);
  over_all(s, WAFER_CORE_convert, 1, number, place, none, none);
  over_all(s, WAFER_CORE_mul, 2, number, number, constant(WAFER_DTYPE_f32, 1.0 / PLACE), none);
  over_all(s, WAFER_CORE_convert, 1, index, number, none, none);
}

/* ---- a row ---- */

/* Along the row; a register moves an operand where it is not 0. */
static void over_row(const sorting *s, wafer_core_op op, nest_operand out, uint8_t out_base,
                     nest_operand in, uint8_t in_base, const nest_operand *more) {
  nest n = {.op = op, .inputs = more ? 2 : 1, .at = {out, in}};
  uint8_t base[NEST_OPERANDS] = {out_base, in_base};
  wafer_instruction one;
  if (more) n.at[2] = *more;
  nest_loop(&n, s->length);
  (void)nest_outside(s->code->machine, &n);
  s->code->cycles +=
      nest_instruction(s->code->machine, &n, base, &one) + s->code->machine->descriptor_load_cycles;
  one.load_descriptors = true;
  program_put(s->code, one);
}

static nest_operand along(wafer_dtype dtype, int32_t address, int32_t stride) {
  return (nest_operand){.kind = WAFER_OPERAND_memory,
                        .dtype = (uint8_t)dtype,
                        .address = address,
                        .stride = {stride}};
}

/* One word of each key to where the scalar instructions look them up. Low words have no sign. */
static void take_row(const sorting *s, bool low) {
  const nest_operand least = constant(WAFER_DTYPE_i32, -0x1p31);
  nest_operand keys = along(WAFER_DTYPE_i32, s->keys + (s->wide && !low ? PLACE : 0), s->key_bytes);
  over_row(s, low ? WAFER_CORE_add : WAFER_CORE_move, along(WAFER_DTYPE_i32, s->row_keys, PLACE), 0,
           keys, R_ROW, low ? &least : NULL);
}

/* ---- merging ---- */

/* The next place of a run goes to the list; or its descriptors alone are loaded. */
static void take_place(program_code *code, uint8_t run, bool descriptors) {
  const nest one = {.op = WAFER_CORE_move,
                    .inputs = 1,
                    .at = {along(WAFER_DTYPE_i32, 0, 0), along(WAFER_DTYPE_i32, 0, 0)}};
  const uint8_t base[NEST_OPERANDS] = {R_OUT, run};
  wafer_instruction move;
  (void)nest_instruction(code->machine, &one, base, &move);
  move.load_descriptors = descriptors;
  if (descriptors) move.shape[WAFER_LEVELS - 1] = 0;
  program_put(code, move);
  if (descriptors) {
    code->cycles += code->machine->vector_setup_cycles + code->machine->descriptor_load_cycles;
    return;
  }
  program_plus(code, run, run, PLACE);
  program_plus(code, R_OUT, R_OUT, PLACE);
}

static void load(program_code *code, uint8_t to, uint8_t from, int32_t address) {
  program_put(code, (wafer_instruction){.op = WAFER_CORE_load,
                                        .a = to,
                                        .b = from,
                                        .function = WAFER_DTYPE_i32,
                                        .value = address});
}

static void load_key(const sorting *s, uint8_t to, uint8_t place) {
  load(s->code, to, place, 0);
  load(s->code, to, to, s->row_keys);
}

static void sum(program_code *code, uint8_t a, uint8_t b, uint8_t c) {
  program_put(code, (wafer_instruction){.op = WAFER_CORE_plus, .a = a, .b = b, .c = c});
}

static uint32_t jump(program_code *code, uint32_t target) {
  return program_branch(code, R_NONE, R_WIDTH, target); /* 0 is less */
}

static void land(program_code *code, uint32_t branch) {
  code->at[branch].target = (uint16_t)code->count;
}

/* From `begin` a run's width on, at most to the end of the list. */
static void end_of_run(program_code *code, uint8_t end, uint8_t begin) {
  sum(code, end, begin, R_WIDTH);
  program_branch(code, end, R_LAST, code->count + 2);
  program_plus(code, end, R_LAST, 0);
}

/* Of equal keys the left one comes first. */
static void merge_pair(const sorting *s) {
  program_code *code = s->code;
  uint32_t both = program_branch(code, R_B, R_B_END, 0), alone = jump(code, 0);
  land(code, both);
  load_key(s, R_KEY_A, R_A);
  uint32_t right = code->count;
  load_key(s, R_KEY_B, R_B);
  uint32_t compare = program_branch(code, R_KEY_B, R_KEY_A, 0), at = compare;
  take_place(code, R_A, false);
  uint32_t more = program_branch(code, R_A, R_A_END, 0), rest = jump(code, 0);
  land(code, more);
  load_key(s, R_KEY_A, R_A);
  jump(code, at);
  land(code, compare);
  take_place(code, R_B, false);
  program_branch(code, R_B, R_B_END, right);
  land(code, alone);
  uint32_t again = code->count;
  take_place(code, R_A, false);
  program_branch(code, R_A, R_A_END, again);
  uint32_t done = jump(code, 0);
  land(code, rest);
  again = code->count;
  take_place(code, R_B, false);
  program_branch(code, R_B, R_B_END, again);
  land(code, done);
}

static void merge(const sorting *s) {
  program_code *code = s->code;
  int32_t bytes = s->length * PLACE;
  program_set(code, R_WIDTH, PLACE);
  uint32_t pass = code->count;
  program_plus(code, R_A, R_FROM, 0);
  program_plus(code, R_OUT, R_TO, 0);
  uint32_t pair = code->count;
  program_plus(code, R_LAST, R_FROM, bytes);
  end_of_run(code, R_A_END, R_A);
  program_plus(code, R_B, R_A_END, 0);
  end_of_run(code, R_B_END, R_B);
  merge_pair(s);
  program_plus(code, R_A, R_B_END, 0);
  program_plus(code, R_LAST, R_FROM, bytes);
  program_branch(code, R_A, R_LAST, pair);
  program_plus(code, R_LAST, R_FROM, 0);
  program_plus(code, R_FROM, R_TO, 0);
  program_plus(code, R_TO, R_LAST, 0);
  sum(code, R_WIDTH, R_WIDTH, R_WIDTH);
  program_set(code, R_LAST, bytes);
  program_branch(code, R_WIDTH, R_LAST, pass);
  code->cycles += wafer_sort_cycles(code->machine, (uint64_t)s->length);
}

/* ---- the step ---- */

static void emit_row(const sorting *s) {
  program_code *code = s->code;
  take_row(s, s->wide);
  over_row(s, WAFER_CORE_move, along(WAFER_DTYPE_i32, s->lists[0], PLACE), 0,
           along(WAFER_DTYPE_i32, s->table, PLACE), 0, NULL);
  program_set(code, R_FROM, s->lists[0]);
  program_set(code, R_TO, s->lists[1]);
  merge(s);
  if (s->wide) {
    take_row(s, false);
    merge(s);
  }
  over_row(s, WAFER_CORE_move, along(WAFER_DTYPE_i32, s->keys, s->key_bytes), R_ROW,
           along(WAFER_DTYPE_i32, 0, PLACE), R_FROM, NULL);
}

static void emit_sort(const program_site *site) {
  const program_step *step = site->step;
  sorting s = {.site = site,
               .code = site->code,
               .x = step->in[0].at,
               .out = step->out,
               .axis = (uint32_t)wafer_attr_int(&site->node->attrs, WAFER_ATTR_axis),
               .rank = step->out->rank,
               .rows = 1,
               .keys = step->constant[KEYS],
               .row_keys = step->constant[LISTS],
               .table = step->constant[TABLE],
               .wide = wafer_dtype_bits(step->in[0].dtype) == 64};
  s.key_bytes = s.wide ? 2 * PLACE : PLACE;
  s.length = site->out.len[s.axis];
  s.lists[0] = s.row_keys + s.length * PLACE;
  s.lists[1] = s.lists[0] + s.length * PLACE;
  s.key_stride[s.axis] = s.key_bytes;
  for (uint32_t d = s.rank; d-- > 0;) {
    if (d == s.axis) continue;
    s.key_stride[d] = s.rows * s.length * s.key_bytes;
    s.rows *= site->out.len[d];
  }
  program_code *code = s.code;
  make_keys(&s);
  take_place(code, R_A, true);
  take_place(code, R_B, true);
  program_set(code, R_ROW, 0);
  uint32_t top = code->count;
  uint64_t once = code->cycles;
  emit_row(&s);
  program_plus(code, R_ROW, R_ROW, s.length * s.key_bytes);
  program_set(code, R_LAST, s.rows * s.length * s.key_bytes);
  program_branch(code, R_ROW, R_LAST, top);
  code->cycles = once + (uint64_t)s.rows * (code->cycles - once + 5);
  make_indices(&s);
}

wafer_status program_sort(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  program_link link[WAFER_MAX_RANK] = {{0}};
  spread *out;
  WAFER_TRY(program_result(p, node, &out));
  if (p->constant[n->operands[0]]) return program_refuse(p, "its operand is one constant");
  for (uint32_t d = 0; d < out->rank; d++)
    if (d != axis) link[d] = program_like(&out->dim[d]);
  program_step step = program_step_of(node, out, emit_sort);
  step.in_count = 1;
  WAFER_TRY(program_operand_of(p, node, 0, link, 0, &step.in[0]));
  uint64_t elements = spread_bytes(out) / wafer_dtype_bytes(out->dtype);
  uint64_t key = wafer_dtype_bits(step.in[0].dtype) == 64 ? 2 * PLACE : PLACE;
  uint64_t length = (uint64_t)out->dim[axis].extent;
  WAFER_TRY(program_bytes(p, elements * key, 0, node, &step.constant[KEYS]));
  WAFER_TRY(program_bytes(p, 3 * length * PLACE, 4, node, &step.constant[LISTS]));
  step.constant[TABLE] = p->table[p->body->input_count + node]->address;
  return program_add(p, &step);
}
