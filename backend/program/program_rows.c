/* Families gather and scatter.
 *
 * A gather by constant indices is an exchange. By indices that only the run knows, or that have
 * dims in common with what they look up, both are a loop over the indices, each loaded into a
 * register, and one vector instruction for its row, whose descriptors are loaded once and whose
 * bases registers move.
 *
 * The dim that a gather looks up may be cut over cores: each moves the rows that it has, the others
 * stay 0, and sums over the cores bring them together. A scatter's rows are those of dim 0 of the
 * result: each core does what falls into its part. An index out of range is a trap. */
#include <string.h>

#include "program_build.h"

enum {
  R_INDEX = 2, /* bytes from the first index, */
  R_BESIDE,    /* and from the first row that goes with the indices */
  R_LOADED,
  R_ROW, /* in the table: its number, then the bytes to it */
  R_ZERO,
  R_ROWS, /* that the core has */
  R_STRIDE,
  R_TABLE,  /* bytes from the first table */
  R_COUNTER /* two for each loop */
};
#define ROW_LOOPS 2 /* over indices that there are registers for */
#define NOT_SKIPPED UINT32_MAX

/* Over indices: bytes from one to the next, and of what goes along with them. */
typedef struct row_loop {
  int32_t count, index, beside, table;
} row_loop;

/* The indices, what lies beside each, and the table that they look rows up in. */
typedef struct row_work {
  program_code *code;
  const program_operand *indices;
  int32_t address;             /* of the first index */
  int32_t first, rows, stride; /* of the table on this core: number of the first row, rows, bytes */
  int64_t extent;              /* rows of the tensor */
  uint32_t loops;
  row_loop loop[WAFER_MAX_RANK];
} row_work;

/* ---- code ---- */

static bool is_cut(const row_work *w) {
  return w->rows < w->extent;
}

static bool has_tables(const row_work *w) {
  bool any = false;
  for (uint32_t l = 0; l < w->loops; l++) any |= w->loop[l].table != 0;
  return any;
}

/* The index at hand becomes the bytes to its row. `skips`: branches to where the next begins, for
 * rows of other cores. */
static void emit_lookup(const row_work *w, uint32_t skips[2]) {
  program_code *code = w->code;
  skips[0] = skips[1] = NOT_SKIPPED;
  if (w->indices->at)
    program_put(code, (wafer_instruction){.op = WAFER_CORE_load,
                                          .a = R_LOADED,
                                          .b = R_INDEX,
                                          .function = (uint16_t)w->indices->at->dtype,
                                          .value = w->address});
  else
    program_set(code, R_LOADED, (int32_t)w->indices->constant);
  program_plus(code, R_ROW, R_LOADED, (int32_t)w->extent);
  program_branch(code, R_LOADED, R_ZERO, code->count + 2); /* negative ones count from the end */
  program_plus(code, R_ROW, R_LOADED, 0);
  program_put(code,
              (wafer_instruction){.op = WAFER_CORE_bound, .a = R_ROW, .value = (int32_t)w->extent});
  if (w->first > 0) program_plus(code, R_ROW, R_ROW, -w->first);
  if (is_cut(w)) {
    skips[0] = program_branch(code, R_ROW, R_ZERO, 0);
    program_branch(code, R_ROW, R_ROWS, code->count + 2);
    skips[1] = program_branch(code, R_ZERO, R_ROWS, 0); /* always */
  }
  program_put(code,
              (wafer_instruction){.op = WAFER_CORE_times, .a = R_ROW, .b = R_ROW, .c = R_STRIDE});
  if (has_tables(w))
    program_put(code,
                (wafer_instruction){.op = WAFER_CORE_plus, .a = R_ROW, .b = R_ROW, .c = R_TABLE});
}

static void emit_loops(const row_work *w, uint32_t at, const wafer_instruction *row) {
  program_code *code = w->code;
  if (at == w->loops) {
    uint32_t skips[2];
    emit_lookup(w, skips);
    program_put(code, *row);
    for (uint32_t i = 0; i < 2; i++)
      if (skips[i] != NOT_SKIPPED) code->at[skips[i]].target = (uint16_t)code->count;
    return;
  }
  uint8_t counter = (uint8_t)(R_COUNTER + 2 * at);
  row_loop step = w->loop[at];
  if (at + 1 < w->loops) { /* which has moved all to its end */
    row_loop inner = w->loop[at + 1];
    step.index -= inner.index * inner.count;
    step.beside -= inner.beside * inner.count;
    step.table -= inner.table * inner.count;
  }
  program_set(code, counter, 0);
  program_set(code, (uint8_t)(counter + 1), step.count);
  uint32_t top = code->count;
  emit_loops(w, at + 1, row);
  if (step.index) program_plus(code, R_INDEX, R_INDEX, step.index);
  if (step.beside) program_plus(code, R_BESIDE, R_BESIDE, step.beside);
  if (step.table) program_plus(code, R_TABLE, R_TABLE, step.table);
  program_plus(code, counter, counter, 1);
  program_branch(code, counter, (uint8_t)(counter + 1), top);
}

static uint64_t turns_of(const row_work *w) {
  uint64_t turns = 1;
  for (uint32_t l = 0; l < w->loops; l++) turns *= (uint64_t)w->loop[l].count;
  return turns;
}

/* Rows of indices spread evenly that the core has. */
static uint64_t share_of(const row_work *w, uint64_t turns) {
  uint64_t extent = (uint64_t)w->extent;
  return is_cut(w) ? (turns * (uint64_t)w->rows + extent - 1) / extent : turns;
}

static void emit_rows(const row_work *w, const nest *row, const uint8_t base[NEST_OPERANDS]) {
  program_code *code = w->code;
  wafer_instruction one;
  nest n = *row;
  if (nest_outside(code->machine, &n) > 0) {
    for (uint32_t i = 0; i < n.extent[0]; i++) {
      nest part = nest_inside(&n, i);
      emit_rows(w, &part, base);
    }
    return;
  }
  uint64_t cycles = nest_instruction(code->machine, &n, base, &one);
  wafer_instruction load = one;
  load.load_descriptors = true;
  load.shape[WAFER_LEVELS - 1] = 0;
  program_put(code, load);
  program_set(code, R_INDEX, 0);
  program_set(code, R_BESIDE, 0);
  program_set(code, R_ZERO, 0);
  program_set(code, R_ROWS, w->rows);
  program_set(code, R_STRIDE, w->stride);
  if (has_tables(w)) program_set(code, R_TABLE, 0);
  uint32_t before = code->count;
  emit_loops(w, 0, &one);
  uint32_t once = 2 * w->loops, each = code->count - before - once - 1;
  uint64_t turns = turns_of(w);
  code->cycles += code->machine->vector_setup_cycles + code->machine->descriptor_load_cycles + 5 +
                  once + turns * each + share_of(w, turns) * cycles;
}

static bool runs_on(const row_loop *outer, const row_loop *inner) {
  return outer->index == inner->index * inner->count &&
         outer->beside == inner->beside * inner->count &&
         outer->table == inner->table * inner->count;
}

/* Fewer loops over indices: those of one, and those that all sides run through as one. */
static void simplify(row_work *w) {
  uint32_t kept = 0;
  for (uint32_t l = 0; l < w->loops; l++) {
    row_loop loop = w->loop[l];
    if (loop.count == 1) continue;
    if (kept && runs_on(&w->loop[kept - 1], &loop)) loop.count *= w->loop[--kept].count;
    w->loop[kept++] = loop;
  }
  w->loops = kept;
}

/* Loops beyond those with registers are written out. `beside`: operands that move with the
 * indices, by their numbers; the others are the table's. */
static void emit_all(row_work w, nest row, uint32_t beside) {
  uint8_t base[NEST_OPERANDS];
  simplify(&w);
  if (w.rows <= 0 || turns_of(&w) == 0) return;
  if (w.loops > ROW_LOOPS) {
    row_work part = w;
    part.loops--;
    memmove(part.loop, w.loop + 1, part.loops * sizeof *part.loop);
    for (int32_t i = 0; i < w.loop[0].count; i++) {
      emit_all(part, row, beside);
      part.address += w.loop[0].index;
      for (uint32_t k = 0; k <= row.inputs; k++)
        row.at[k].address += beside >> k & 1 ? w.loop[0].beside : w.loop[0].table;
    }
    return;
  }
  for (uint32_t k = 0; k < NEST_OPERANDS; k++) base[k] = beside >> k & 1 ? R_BESIDE : R_ROW;
  emit_rows(&w, &row, base);
}

/* ---- gather: in: data, indices ---- */

enum { AXIS, LOOP }; /* constants of the step; loop -1: the data is whole */

static void first_row(const program *p, const program_step *step, uint32_t row, uint32_t col,
                      int32_t *extra) {
  const spread_dim *dim =
      step->constant[LOOP] < 0 ? &step->out->dim[0] : &p->loop[step->constant[LOOP]];
  const spread_part *part = &dim->part[dim->row[row] * dim->cols + dim->col[col]];
  extra[0] = part->count ? part->runs->lo : 0;
}

static void emit_gather(const program_site *s) {
  const program_step *step = s->step;
  const spread *out = step->out, *x = step->in[0].at, *indices = step->in[1].at;
  uint32_t axis = (uint32_t)step->constant[AXIS], shared = wafer_node_shares(s->node);
  uint32_t behind = axis - shared, rank = out->rank + 1 - x->rank; /* dims of indices alone */
  row_work w = {.code = s->code,
                .indices = &step->in[1],
                .address = s->in[1].address,
                .first = step->constant[LOOP] < 0 ? 0 : s->extra[0],
                .rows = s->in[0].len[axis],
                .stride = x->dim[axis].stride,
                .extent = x->dim[axis].extent,
                .loops = shared + rank};
  nest row = {.op = x->dtype == out->dtype ? WAFER_CORE_move : WAFER_CORE_convert, .inputs = 1};
  row.at[0] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)out->dtype, .address = s->out.address};
  row.at[1] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)x->dtype, .address = s->in[0].address};
  for (uint32_t d = 0; d < out->rank; d++) {
    if (d < shared || (d >= axis && d < axis + rank)) {
      w.loop[d - behind] = (row_loop){.count = s->out.len[d],
                                      .index = indices ? indices->dim[d - behind].stride : 0,
                                      .beside = out->dim[d].stride,
                                      .table = d < shared ? x->dim[d].stride : 0};
      continue;
    }
    uint32_t loop = nest_loop(&row, s->out.len[d]);
    row.at[0].stride[loop] = out->dim[d].stride;
    row.at[1].stride[loop] = x->dim[d < axis ? d : d + 1 - rank].stride;
  }
  if (is_cut(&w)) program_fill(s, out, &s->out, 0);
  emit_all(w, row, 1);
}

static wafer_status gather_rows(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[0])->shape;
  uint32_t shared = wafer_node_shares(n);
  uint32_t rank = wafer_body_type(p->body, n->operands[1])->shape.rank;
  bool cut = node == p->body->anchor && program_cut_reductions(p);
  program_link data[WAFER_MAX_RANK] = {{0}}, indices[WAFER_MAX_RANK] = {{0}};
  spread *out, *to;
  WAFER_TRY(program_result(p, node, &out));
  wafer_dtype dtype = cut ? n->type.dtype : out->dtype;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (d != axis) data[d] = program_like(&out->dim[d < axis ? d : d - 1 + rank - shared]);
  for (uint32_t d = 0; d < rank; d++) indices[d] = program_like(&out->dim[axis - shared + d]);
  if (cut) data[axis] = program_like(&p->loop[p->loops.parallel]);
  if (cut && wafer_dtype_bytes(dtype) == 1)
    return program_refuse(p, "rows of bytes are looked up on several cores");
  WAFER_TRY(program_sums(p, node, out, dtype, &to));
  program_step step = program_step_of(node, to, emit_gather);
  step.in_count = 2;
  step.extra = first_row;
  step.constant[AXIS] = (int32_t)axis;
  step.constant[LOOP] = cut ? (int32_t)p->loops.parallel : -1;
  WAFER_TRY(program_operand_of(p, node, 0, data, 0, &step.in[0]));
  WAFER_TRY(program_operand_of(p, node, 1, indices, 0, &step.in[1]));
  WAFER_TRY(program_add(p, &step));
  return program_settle(p, node, to, WAFER_CORE_add, 1, out);
}

/* Of constant indices: a table for the dim that they stand for; more dims of indices than one are
 * seen as one. */
static wafer_status gather_known(program *p, uint32_t node, const wafer_attr *value) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis), v = n->operands[1];
  const wafer_type *indices = wafer_body_type(p->body, v);
  const spread *x = p->value[n->operands[0]];
  int64_t count = 1, extent = x->dim[axis].extent;
  for (uint32_t d = 0; d < indices->shape.rank; d++) count *= indices->shape.dims[d];
  int64_t *table = WAFER_NEW(p->arena, int64_t, (size_t)count);
  if (!table) return program_no_memory(p);
  for (int64_t i = 0; i < count; i++) {
    table[i] = wafer_element_i64(indices->dtype, value->data.bytes, value->data.splat ? 0 : i);
    if (table[i] < 0) table[i] += extent;
    if (table[i] < 0 || table[i] >= extent) return program_refuse(p, "an index is out of range");
  }
  index_map map = index_identity();
  spread *out, *to;
  WAFER_TRY(program_result(p, node, &out));
  WAFER_TRY(program_sums(p, node, out, x->dtype, &to));
  spread seen = *to;
  for (uint32_t d = axis + 1; d < x->rank; d++) map.dim[d].dim = (int)d;
  if (indices->shape.rank == 0) {
    map.dim[axis] = (index_dim){.dim = INDEX_CONSTANT, .b = table[0]};
    for (uint32_t d = axis + 1; d < x->rank; d++) map.dim[d].dim = (int)d - 1;
  } else {
    map.dim[axis].table = index_table_of(p->arena, table, count);
    if (!map.dim[axis].table) return program_no_memory(p);
    WAFER_TRY(program_merge(p, to, axis, axis + indices->shape.rank, &seen));
  }
  WAFER_TRY(program_exchange(p, x, &seen, &map));
  return program_land(p, to, out);
}

wafer_status program_gather(program *p, uint32_t node) {
  uint32_t x = p->body->nodes[node].operands[0], v = p->body->nodes[node].operands[1];
  const wafer_attr *value =
      v < p->body->input_count
          ? NULL
          : wafer_attr_find(&p->body->nodes[v - p->body->input_count].attrs, WAFER_ATTR_value);
  if (p->constant[x]) return program_filled(p, node);
  bool known = value && !wafer_node_shares(&p->body->nodes[node]);
  return known ? gather_known(p, node, value) : gather_rows(p, node);
}

/* ---- scatter: in: what it goes into, indices, updates ---- */

static wafer_core_op joined_by(const wafer_node *n) {
  const char *mode = wafer_attr_string(&n->attrs, WAFER_ATTR_mode);
  if (!strcmp(mode, "add")) return WAFER_CORE_add;
  if (!strcmp(mode, "mul")) return WAFER_CORE_mul;
  if (!strcmp(mode, "max")) return WAFER_CORE_max;
  return strcmp(mode, "min") ? WAFER_CORE_convert : WAFER_CORE_min;
}

static void place(nest_operand *o, const program_operand *from, const program_tile *tile) {
  *o = (nest_operand){
      .kind = WAFER_OPERAND_constant, .dtype = (uint8_t)from->dtype, .value = from->constant};
  if (from->at)
    *o = (nest_operand){
        .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)from->at->dtype, .address = tile->address};
}

/* The result begins as what the rows go into. */
static void emit_start(const program_site *s) {
  const spread *out = s->step->out, *x = s->step->in[0].at;
  nest n = program_nest_over(WAFER_CORE_convert, 1, out, &s->out);
  place(&n.at[1], &s->step->in[0], &s->in[0]);
  for (uint32_t d = 0; x && d < out->rank; d++) n.at[1].stride[d] = x->dim[d].stride;
  nest_emit(s->code, &n);
}

static void emit_scatter(const program_site *s) {
  const program_step *step = s->step;
  const spread *out = step->out, *indices = step->in[1].at, *updates = step->in[2].at;
  const wafer_shape *shape = &wafer_body_type(s->p->body, s->node->operands[1])->shape;
  row_work w = {.code = s->code,
                .indices = &step->in[1],
                .address = s->in[1].address,
                .first = s->extra[0],
                .rows = s->out.len[0],
                .stride = out->dim[0].stride,
                .extent = out->dim[0].extent,
                .loops = shape->rank};
  wafer_core_op op = joined_by(s->node);
  bool joins = op != WAFER_CORE_convert;
  uint32_t from = joins ? 2 : 1;
  nest row = {.op = op, .inputs = from};
  emit_start(s);
  row.at[0] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)out->dtype, .address = s->out.address};
  place(&row.at[from], &step->in[2], &s->in[2]);
  for (uint32_t d = 0; d < shape->rank; d++) {
    w.loop[d] = (row_loop){.count = (int32_t)shape->dims[d],
                           .index = indices ? indices->dim[d].stride : 0,
                           .beside = updates ? updates->dim[d].stride : 0};
  }
  for (uint32_t d = 1; d < out->rank; d++) {
    uint32_t loop = nest_loop(&row, s->out.len[d]);
    row.at[0].stride[loop] = out->dim[d].stride;
    if (updates) row.at[from].stride[loop] = updates->dim[d - 1 + shape->rank].stride;
  }
  if (joins) row.at[1] = row.at[0];
  emit_all(w, row, 1u << from);
}

wafer_status program_scatter(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t rank = wafer_body_type(p->body, n->operands[1])->shape.rank;
  program_link data[WAFER_MAX_RANK] = {{0}}, all[WAFER_MAX_RANK] = {{0}},
               updates[WAFER_MAX_RANK] = {{0}};
  wafer_core_op op = joined_by(n);
  bool adds = op == WAFER_CORE_add || op == WAFER_CORE_mul;
  spread *out, *to;
  WAFER_TRY(program_result(p, node, &out));
  WAFER_TRY(program_sums(p, node, out, adds ? wafer_sum_dtype(n->type.dtype) : n->type.dtype, &to));
  for (uint32_t d = 0; d < out->rank; d++) data[d] = program_like(&out->dim[d]);
  for (uint32_t d = 1; d < out->rank; d++) updates[d - 1 + rank] = program_like(&out->dim[d]);
  program_step step = program_step_of(node, to, emit_scatter);
  step.in_count = 3;
  step.extra = first_row;
  step.constant[LOOP] = -1;
  WAFER_TRY(program_operand_of(p, node, 0, data, 0, &step.in[0]));
  WAFER_TRY(program_operand_of(p, node, 1, all, 0, &step.in[1]));
  WAFER_TRY(program_operand_of(p, node, 2, updates, 0, &step.in[2]));
  WAFER_TRY(program_add(p, &step));
  return program_settle(p, node, to, WAFER_CORE_add, 1, out);
}
