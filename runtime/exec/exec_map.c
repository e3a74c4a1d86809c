/* Elementwise chains. The chain runs over blocks of elements that stay in the first-level cache:
 * one pass over memory, however long the chain is. A block is a range of the result's elements in
 * physical order; an operand is read in place when its elements lie the same way, else laid out for
 * the block first. */
#include <assert.h>
#include <string.h>

#include "exec.h"
#include "exec_map_ops.h"

enum { BLOCK = 1024, MOST_SLOTS = 96 };

/* How an operand's element follows from the position i in physical order. */
typedef enum operand_kind {
  OPERAND_SAME,     /* element i */
  OPERAND_SCALAR,   /* element 0 */
  OPERAND_PERIODIC, /* element i % period */
  OPERAND_GENERAL,  /* a loop nest */
} operand_kind;

typedef struct map_operand {
  exec_tensor *tensor;
  operand_kind kind;
  int64_t period;
  uint32_t rank; /* of the loop nest, outermost first; strides in elements */
  int64_t extent[WAFER_MAX_RANK], stride[WAFER_MAX_RANK];
  size_t element;
  bool whole_block; /* some loop reads a block of it, not just one element */
} map_operand;

/* Slots: operands first, then the results of the nodes. A result's block lies in the tensor that it
 * is stored to, or in a register. */
typedef struct map_step {
  map_loop *loop;
  uint32_t slot[3];
  map_attrs attrs;
  exec_tensor *store; /* NULL: a register */
  uint32_t reg;
  size_t element;
  wafer_dtype rounds; /* type whose rounding its store applies, none: no rounding */
} map_step;

struct exec_map {
  uint32_t operand_count, step_count, register_count;
  map_operand *operands;
  map_step *steps;
  int64_t block; /* elements of a block */
  wafer_dtype storage;
  size_t scratch;
};

/* --- operands */

static void coalesce(map_operand *o) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < o->rank; i++) {
    if (o->extent[i] == 1) continue;
    if (rank && o->stride[rank - 1] == o->stride[i] * o->extent[i]) {
      o->extent[rank - 1] *= o->extent[i];
      o->stride[rank - 1] = o->stride[i];
      continue;
    }
    o->extent[rank] = o->extent[i];
    o->stride[rank++] = o->stride[i];
  }
  o->rank = rank;
}

static void classify(map_operand *o) {
  coalesce(o);
  o->kind = OPERAND_GENERAL;
  if (o->rank == 0 || (o->rank == 1 && o->stride[0] == 0))
    o->kind = OPERAND_SCALAR;
  else if (o->rank == 1 && o->stride[0] == 1)
    o->kind = OPERAND_SAME;
  else if (o->rank == 2 && o->stride[0] == 0 && o->stride[1] == 1) {
    o->kind = OPERAND_PERIODIC;
    o->period = o->extent[1];
  }
}

static void init_operand(map_operand *o, exec_tensor *t, const wafer_shape *result,
                         const exec_order *order) {
  *o = (map_operand){.tensor = t, .rank = result->rank, .element = wafer_dtype_bytes(t->host)};
  uint32_t missing = result->rank - t->shape.rank;
  for (uint32_t i = 0; i < result->rank; i++) {
    uint32_t d = order->dim[i];
    o->extent[i] = result->dims[d];
    o->stride[i] = d < missing || t->shape.dims[d - missing] == 1 ? 0 : t->strides[d - missing];
  }
  classify(o);
}

static void fill(char *out, const char *value, size_t element, int64_t n) {
  switch (element) {
  case 1: memset(out, *value, (size_t)n); break;
  case 2:
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = *(const uint16_t *)value;
    break;
  case 4:
    for (int64_t i = 0; i < n; i++) ((uint32_t *)out)[i] = *(const uint32_t *)value;
    break;
  default:
    for (int64_t i = 0; i < n; i++) ((uint64_t *)out)[i] = *(const uint64_t *)value;
    break;
  }
}

static void pick(char *out, const char *from, size_t element, int64_t stride, int64_t n) {
  switch (element) {
  case 1:
    for (int64_t i = 0; i < n; i++) out[i] = from[i * stride];
    break;
  case 2:
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = ((const uint16_t *)from)[i * stride];
    break;
  case 4:
    for (int64_t i = 0; i < n; i++) ((uint32_t *)out)[i] = ((const uint32_t *)from)[i * stride];
    break;
  default:
    for (int64_t i = 0; i < n; i++) ((uint64_t *)out)[i] = ((const uint64_t *)from)[i * stride];
    break;
  }
}

/* Positions [from, from + n) of a loop nest, laid side by side. */
static void gather(const map_operand *o, const char *base, int64_t from, int64_t n, char *out) {
  int64_t index[WAFER_MAX_RANK] = {0}, offset = 0, rest = from;
  for (uint32_t i = o->rank; i-- > 0; rest /= o->extent[i]) {
    index[i] = rest % o->extent[i];
    offset += index[i] * o->stride[i];
  }
  uint32_t inner = o->rank - 1;
  while (n > 0) {
    int64_t run = o->extent[inner] - index[inner];
    if (run > n) run = n;
    const char *at = base + offset * (int64_t)o->element;
    if (o->stride[inner] == 1)
      memcpy(out, at, (size_t)run * o->element);
    else if (o->stride[inner] == 0)
      fill(out, at, o->element, run);
    else
      pick(out, at, o->element, o->stride[inner], run);
    out += run * (int64_t)o->element;
    n -= run;
    index[inner] += run;
    offset += run * o->stride[inner];
    for (uint32_t i = inner; i > 0 && index[i] == o->extent[i]; i--) {
      offset += o->stride[i - 1] - o->extent[i] * o->stride[i];
      index[i] = 0;
      index[i - 1]++;
    }
  }
}

/* --- running */

typedef struct block {
  int64_t from, count;
  char *slot[MOST_SLOTS]; /* where each slot's block begins */
} block;

/* Scratch: a register of BLOCK 8-byte elements for each operand and each register of the chain. */
static char *scratch_at(char *scratch, uint32_t index) {
  return scratch + (size_t)index * BLOCK * 8;
}

/* Operands that look the same in every block. */
static void lay_out_constants(const exec_map *m, const exec_frame *frame, int64_t count,
                              char *scratch, block *b) {
  for (uint32_t i = 0; i < m->operand_count; i++) {
    const map_operand *o = &m->operands[i];
    const char *base = exec_data(frame, o->tensor);
    b->slot[i] = scratch_at(scratch, i);
    int64_t n = count < m->block ? count : m->block;
    if (o->kind == OPERAND_SCALAR)
      fill(b->slot[i], base, o->element, o->whole_block ? n : 1);
    else if (o->kind == OPERAND_PERIODIC && o->period <= m->block)
      for (int64_t at = 0; at < n; at += o->period)
        memcpy(b->slot[i] + at * (int64_t)o->element, base,
               (size_t)(at + o->period < n ? o->period : n - at) * o->element);
  }
}

static void lay_out_block(const exec_map *m, const exec_frame *frame, char *scratch, block *b) {
  for (uint32_t i = 0; i < m->operand_count; i++) {
    const map_operand *o = &m->operands[i];
    char *base = exec_data(frame, o->tensor);
    if (o->kind == OPERAND_SAME)
      b->slot[i] = base + b->from * (int64_t)o->element;
    else if (o->kind == OPERAND_PERIODIC && o->period > m->block)
      b->slot[i] = base + b->from % o->period * (int64_t)o->element;
    else if (o->kind == OPERAND_GENERAL)
      gather(o, base, b->from, b->count, scratch_at(scratch, i));
  }
  for (uint32_t i = 0; i < m->step_count; i++) {
    const map_step *s = &m->steps[i];
    b->slot[m->operand_count + i] =
        s->store ? (char *)exec_data(frame, s->store) + b->from * (int64_t)s->element
                 : scratch_at(scratch, m->operand_count + s->reg);
  }
}

static void run_block(const exec_map *m, const block *b) {
  for (uint32_t i = 0; i < m->step_count; i++) {
    const map_step *s = &m->steps[i];
    char *out = b->slot[m->operand_count + i];
    s->loop(out, b->slot[s->slot[0]], b->slot[s->slot[1]], b->slot[s->slot[2]], (size_t)b->count,
            &s->attrs);
    if (s->rounds != WAFER_DTYPE_none)
      exec_round(s->rounds, m->storage, (float *)out, (size_t)b->count);
  }
}

/* A block may not cross the end of a period longer than a block. */
static int64_t block_end(const exec_map *m, int64_t from, int64_t to) {
  int64_t end = from + m->block < to ? from + m->block : to;
  for (uint32_t i = 0; i < m->operand_count; i++) {
    const map_operand *o = &m->operands[i];
    if (o->kind != OPERAND_PERIODIC || o->period <= m->block) continue;
    int64_t rim = (from / o->period + 1) * o->period;
    if (rim < end) end = rim;
  }
  return end;
}

void exec_map_run(const exec_map *m, const exec_frame *frame, int64_t from, int64_t to,
                  void *scratch) {
  block b = {.from = from};
  lay_out_constants(m, frame, to - from, scratch, &b);
  while (b.from < to) {
    b.count = block_end(m, b.from, to) - b.from;
    lay_out_block(m, frame, scratch, &b);
    run_block(m, &b);
    b.from += b.count;
  }
}

size_t exec_map_scratch(const exec_map *m) {
  return m->scratch;
}

void exec_map_use(exec_program *p, const exec_map *m) {
  for (uint32_t i = 0; i < m->operand_count; i++) exec_use(p, m->operands[i].tensor);
  for (uint32_t i = 0; i < m->step_count; i++)
    if (m->steps[i].store) exec_use(p, m->steps[i].store);
}

/* --- compiling */

typedef struct compiler {
  exec_program *program;
  const exec_map_build *build;
  const wafer_shape *shape;
  exec_map *map;
  uint32_t operand_value[MOST_SLOTS]; /* value number of each operand */
  uint32_t last_use[MOST_SLOTS];      /* per step: the last step that reads it */
} compiler;

static bool in_chain(const exec_map_build *b, uint32_t value, uint32_t *index) {
  for (uint32_t i = 0; i < b->count; i++)
    if (b->number[i] == value) {
      *index = i;
      return true;
    }
  return false;
}

/* Steps are numbered after operands once all operands are known: until then step i is MOST_SLOTS +
 * i. */
static uint32_t slot_of(compiler *c, uint32_t value) {
  uint32_t index;
  if (in_chain(c->build, value, &index)) return MOST_SLOTS + index;
  for (uint32_t i = 0; i < c->map->operand_count; i++)
    if (c->operand_value[i] == value) return i;
  uint32_t slot = c->map->operand_count++;
  c->operand_value[slot] = value;
  init_operand(&c->map->operands[slot], c->build->value[value], c->shape, c->build->order);
  return slot;
}

static wafer_dtype value_host(const compiler *c, uint32_t value) {
  uint32_t index;
  if (in_chain(c->build, value, &index)) return exec_host_dtype(c->build->nodes[index]->type.dtype);
  return c->build->value[value]->host;
}

static bool is_scalar(const compiler *c, uint32_t slot) {
  return slot < MOST_SLOTS && c->map->operands[slot].kind == OPERAND_SCALAR;
}

static map_loop *loop_of(const compiler *c, const wafer_node *node, map_step *step) {
  wafer_dtype type = value_host(c, node->operands[node->op == WAFER_OP_select ? 1 : 0]);
  if (node->op == WAFER_OP_cast) return map_loop_cast(type, exec_host_dtype(node->type.dtype));
  map_loop *loop;
  if (node->operand_count == 2 && is_scalar(c, step->slot[1]) && !is_scalar(c, step->slot[0]) &&
      (loop = map_loop_get(node->op, type, MAP_RIGHT_SCALAR)))
    return loop;
  if (node->operand_count == 2 && is_scalar(c, step->slot[0]) && !is_scalar(c, step->slot[1]) &&
      (loop = map_loop_get(node->op, type, MAP_LEFT_SCALAR)))
    return loop;
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (step->slot[i] < MOST_SLOTS) c->map->operands[step->slot[i]].whole_block = true;
  return map_loop_get(node->op, type, MAP_ALL);
}

/* A cast to a 16-bit float rounds wherever it stands. */
static wafer_dtype rounding_of(const compiler *c, const wafer_node *node, bool stored) {
  wafer_dtype type = node->type.dtype;
  if (node->op == WAFER_OP_cast && exec_rounds(type, WAFER_DTYPE_f32)) return type;
  return stored && exec_rounds(type, c->map->storage) ? type : WAFER_DTYPE_none;
}

static void compile_step(compiler *c, uint32_t i) {
  const wafer_node *node = c->build->nodes[i];
  map_step *s = &c->map->steps[i];
  for (uint32_t k = 0; k < node->operand_count; k++) {
    s->slot[k] = slot_of(c, node->operands[k]);
    if (s->slot[k] >= MOST_SLOTS) c->last_use[s->slot[k] - MOST_SLOTS] = i;
  }
  s->element = wafer_dtype_bytes(exec_host_dtype(node->type.dtype));
  s->attrs = map_attrs_of(node->op, &node->attrs);
  s->rounds = rounding_of(c, node, c->build->stored[i]);
  s->loop = loop_of(c, node, s);
  assert(s->loop);
}

static void assign_registers(compiler *c) {
  exec_map *m = c->map;
  uint32_t free_at[MOST_SLOTS] = {0}; /* per register: the last step that reads what it holds */
  size_t element[MOST_SLOTS] = {0};   /* per register: bytes of what it holds, 0 when it is new */
  for (uint32_t i = 0; i < m->step_count; i++) {
    map_step *s = &m->steps[i];
    for (uint32_t k = 0; k < 3; k++)
      if (s->slot[k] >= MOST_SLOTS) s->slot[k] += m->operand_count - MOST_SLOTS;
    if (s->store) continue;
    uint32_t r =
        0; /* the step that reads a register last may write it, element upon element alike */
    while (element[r] && (free_at[r] > i || (free_at[r] == i && element[r] != s->element))) r++;
    element[r] = s->element;
    free_at[r] = c->last_use[i];
    s->reg = r;
    if (r >= m->register_count) m->register_count = r + 1;
  }
}

/* Tensors of the results needed outside; the last one may lie where the anchor's result was. */
static wafer_status make_results(compiler *c) {
  const exec_map_build *b = c->build;
  for (uint32_t i = 0; i < b->count; i++) {
    if (!b->escapes[i]) continue;
    const wafer_type *type = &b->nodes[i]->type;
    bool over =
        b->anchor && i == b->count - 1 &&
        wafer_dtype_bytes(exec_host_dtype(type->dtype)) == wafer_dtype_bytes(b->anchor->host);
    exec_tensor *t = over ? exec_tensor_view(c->program, b->anchor, type, b->order)
                          : exec_tensor_create(c->program, type, b->order);
    if (!t) return exec_no_memory(c->program);
    b->value[b->number[i]] = t;
    c->map->steps[i].store = t;
  }
  return WAFER_OK;
}

/* Blocks are whole periods, of all operands whose period fits: such periods divide each other. */
static void choose_block(exec_map *m) {
  int64_t period = 1;
  for (uint32_t i = 0; i < m->operand_count; i++) {
    const map_operand *o = &m->operands[i];
    if (o->kind == OPERAND_PERIODIC && o->period <= BLOCK && o->period > period) period = o->period;
  }
  m->block = BLOCK / period * period;
  m->scratch = (size_t)(m->operand_count + m->register_count) * BLOCK * 8;
}

bool exec_map_knows(wafer_op op, wafer_dtype operand, wafer_dtype result) {
  return (op == WAFER_OP_cast ? map_loop_cast(operand, result)
                              : map_loop_get(op, operand, MAP_ALL)) != NULL;
}

wafer_status exec_map_compile(exec_program *p, const exec_map_build *build, const exec_map **out) {
  *out = NULL;
  compiler *c = WAFER_NEW(p->arena, compiler, 1);
  exec_map *m = WAFER_NEW(p->arena, exec_map, 1);
  if (!c || !m) return exec_no_memory(p);
  *m = (exec_map){.operands = WAFER_NEW(p->arena, map_operand, 3 * build->count),
                  .steps = WAFER_NEW(p->arena, map_step, build->count),
                  .step_count = build->count,
                  .storage = p->storage};
  if (!m->operands || !m->steps) return exec_no_memory(p);
  *c = (compiler){.program = p, .build = build, .shape = &build->nodes[0]->type.shape, .map = m};
  for (uint32_t i = 0; i < build->count; i++) compile_step(c, i);
  WAFER_TRY(make_results(c));
  assign_registers(c);
  choose_block(m);
  assert(m->operand_count + m->step_count <= MOST_SLOTS);
  *out = m;
  return WAFER_OK;
}

/* --- a chain as a stage */

typedef struct map_stage {
  exec_stage stage;
  const exec_map *map;
} map_stage;

static wafer_status run_stage(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                              uint32_t thread) {
  int64_t from, to;
  exec_slab(stage, slab, &from, &to);
  exec_map_run(((const map_stage *)stage)->map, frame, from * stage->row, to * stage->row,
               frame->scratch[thread]);
  return WAFER_OK;
}

wafer_status exec_map_stage(exec_program *p, const exec_map *map, exec_tensor *result) {
  map_stage *s = WAFER_NEW(p->arena, map_stage, 1);
  if (!s) return exec_no_memory(p);
  *s = (map_stage){.stage = {.run = run_stage, .scratch = map->scratch, .loc = p->loc}, .map = map};
  exec_op op = {.result = result};
  WAFER_TRY(exec_stage_add(p, &s->stage, &op, UINT32_MAX));
  exec_map_use(p, map);
  return WAFER_OK;
}
