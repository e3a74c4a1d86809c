#include "program_run.h"

#include <CUnit/CUnit.h>
#include <math.h>

#include "caught.h"
#include "wafer/pairs.h"

#define VALUES (2 * BODY_TEXT_MAX)

typedef struct bench {
  const body_text *b;
  body_text thinned; /* where weights are sparse: with their fullest tiles */
  wafer_sparsity sparsity[BODY_TEXT_MAX];
  const wafer_split *split;
  wafer_arena *arena;
  const wafer_machine *machine;
  caught caught;
  wafer_diag diag;
  wafer_rect rect;
  void *tensor[VALUES]; /* as the reference has them */
  spread at[VALUES];
  wafer_fabric *fabric;
  program_run run;
} bench;

static uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static int64_t elements_of(const wafer_type *type) {
  int64_t elements = 0;
  (void)wafer_shape_elements(&type->shape, &elements);
  return elements;
}

static bool is_f16(const bench *t, wafer_dtype dtype) {
  return wafer_stored_dtype(dtype, t->b->body.storage) == WAFER_DTYPE_f16;
}

static void round_to_storage(const bench *t, const wafer_type *type, void *data) {
  for (int64_t i = 0; is_f16(t, type->dtype) && i < elements_of(type); i++) {
    uint16_t half;
    wafer_element_set_f64(WAFER_DTYPE_f16, &half, 0, wafer_element_f64(type->dtype, data, i));
    wafer_element_set_f64(type->dtype, data, i, wafer_element_f64(WAFER_DTYPE_f16, &half, 0));
  }
}

static void make_inputs(bench *t, uint64_t seed) {
  const wafer_kernel_body *body = &t->b->body;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 88172645463325252u;
  for (uint32_t v = 0; v < body->input_count; v++) {
    const wafer_type *type = &body->inputs[v];
    t->tensor[v] = wafer_arena_alloc(t->arena, (size_t)elements_of(type) + 1, 8);
    for (int64_t i = 0; i < elements_of(type); i++) {
      double x = (double)(next_random(&state) >> 11) / 0x1p53 * 2 - 1;
      if (wafer_dtype_is_float(type->dtype))
        wafer_element_set_f64(type->dtype, t->tensor[v], i, x);
      else
        wafer_element_set_i64(type->dtype, t->tensor[v], i, (int64_t)(x * 20));
    }
    round_to_storage(t, type, t->tensor[v]);
  }
}

/* Nine tenths of a sparse weight go, and tiles that are neighbours have the more the later they
 * come. */
static void thin_out(bench *t, uint32_t v) {
  const wafer_type *type = &t->b->body.inputs[v];
  wafer_layout layout = wafer_kernel_input_layout(&t->b->body, t->split, v);
  uint32_t parts[2], count[64] = {0};
  int64_t length[2], taps = 1;
  for (uint32_t d = 2; d < type->shape.rank; d++) taps *= type->shape.dims[d];
  for (uint32_t d = 0; d < 2; d++) {
    parts[d] = layout.rows[d] * layout.cols[d];
    length[d] = (type->shape.dims[d] + parts[d] - 1) / parts[d];
  }
  CU_ASSERT_FATAL(parts[0] * parts[1] <= 64);
  t->sparsity[v] = (wafer_sparsity){.sparse = true, .late_list = t->b->body.sparsity[v].late_list};
  for (int64_t i = 0; i < elements_of(type); i++) {
    int64_t row = i / taps / type->shape.dims[1], col = i / taps % type->shape.dims[1];
    uint32_t *here = &count[row / length[0] * parts[1] + col / length[1]];
    if ((i * 7919 + row) % 10 != 3) {
      wafer_element_set_f64(type->dtype, t->tensor[v], i, 0);
      continue;
    }
    t->sparsity[v].nonzeros++;
    if (++*here > t->sparsity[v].fullest) t->sparsity[v].fullest = *here;
  }
  if (!t->b->body.sparsity[v].filled) return; /* pairs only add */
  static const uint32_t *const place[2];
  t->sparsity[v].filled = wafer_pairs_filled(type->dtype, &type->shape, &layout, place,
                                             wafer_body_kept(&t->b->body, v), t->tensor[v]);
}

static void thin_inputs(bench *t) {
  t->thinned = *t->b;
  for (uint32_t v = 0; v < t->b->body.input_count; v++)
    if (t->b->body.sparsity[v].sparse) thin_out(t, v);
  t->thinned.body.sparsity = t->sparsity;
  t->b = &t->thinned;
}

static bool is_output(const bench *t, uint32_t v) {
  for (uint32_t i = 0; i < t->b->body.output_count; i++)
    if (t->b->body.outputs[i] == v) return true;
  return false;
}

static void make_reference(bench *t) {
  const wafer_kernel_body *body = &t->b->body;
  for (uint32_t node = 0; node < body->node_count; node++) {
    const wafer_node *n = &body->nodes[node];
    uint32_t v = body->input_count + node;
    wafer_view in[WAFER_OP_MAX_OPERANDS];
    t->tensor[v] = wafer_arena_alloc(t->arena, (size_t)elements_of(&n->type) + 1, 8);
    for (uint32_t i = 0; i < n->operand_count; i++) {
      const wafer_type *type = wafer_body_type(body, n->operands[i]);
      in[i] = wafer_view_of(type->dtype, &type->shape, t->tensor[n->operands[i]]);
    }
    wafer_view out = wafer_view_of(n->type.dtype, &n->type.shape, t->tensor[v]);
    CU_ASSERT_EQUAL_FATAL(wafer_reference_run(&t->diag, wafer_at_file("test"), n->op, &n->attrs,
                                              n->operand_count, in, &out),
                          WAFER_OK);
    if (is_output(t, v)) round_to_storage(t, &n->type, t->tensor[v]);
  }
}

/* ---- Elements in the memories ---- */

typedef void visit(bench *t, uint32_t x, uint32_t y, int64_t element, int32_t address,
                   const spread *s, void *state);

static void each_element(bench *t, const spread *s, visit *run, void *state) {
  for (uint32_t row = 0; row < s->rect.height; row++)
    for (uint32_t col = 0; col < s->rect.width; col++) {
      spread_box box = spread_at(s, row, col);
      int32_t i[WAFER_MAX_RANK];
      if (spread_box_empty(&box, s->rank)) continue;
      memcpy(i, box.lo, sizeof i);
      for (bool more = true; more;) {
        int64_t element = 0;
        int32_t address = s->address;
        for (uint32_t d = 0; d < s->rank; d++) {
          element = element * s->dim[d].extent + i[d];
          address += (i[d] - box.origin[d]) * s->dim[d].stride;
        }
        run(t, s->rect.x + col, s->rect.y + row, element, address, s, state);
        more = false;
        for (uint32_t d = s->rank; d-- > 0 && !more;) {
          more = ++i[d] < box.hi[d];
          if (!more) i[d] = box.lo[d];
        }
      }
    }
}

typedef struct source {
  const void *data;
  wafer_dtype dtype;
} source;

static void put(bench *t, uint32_t x, uint32_t y, int64_t element, int32_t address, const spread *s,
                void *state) {
  const source *from = state;
  uint64_t cell = 0;
  if (wafer_dtype_is_float(s->dtype))
    wafer_element_set_f64(s->dtype, &cell, 0, wafer_element_f64(from->dtype, from->data, element));
  else
    wafer_element_set_i64(s->dtype, &cell, 0, wafer_element_i64(from->dtype, from->data, element));
  CU_ASSERT_TRUE(wafer_fabric_write(t->fabric, x, y, (uint32_t)address, &cell,
                                    (uint32_t)wafer_dtype_bytes(s->dtype)));
}

typedef struct target {
  const void *want;
  wafer_dtype dtype;
  double most;
} target;

static void compare(bench *t, uint32_t x, uint32_t y, int64_t element, int32_t address,
                    const spread *s, void *state) {
  const target *to = state;
  uint64_t cell = 0;
  double error = INFINITY;
  if (wafer_fabric_read(t->fabric, x, y, (uint32_t)address, &cell,
                        (uint32_t)wafer_dtype_bytes(s->dtype))) {
    double want = wafer_element_f64(to->dtype, to->want, element);
    double have = wafer_element_f64(s->dtype, &cell, 0);
    error = want == have ? 0 : fabs(have - want) / (to->most > 0 ? to->most : 1);
    if (isnan(error)) error = isnan(want) && isnan(have) ? 0 : INFINITY;
  }
  if (error > t->run.error) t->run.error = error;
}

/* ---- Memory ---- */

static int32_t place(bench *t, uint32_t v, int32_t at) {
  int32_t phase = program_phase(t->machine, &t->b->body, t->split, v);
  CU_ASSERT_TRUE_FATAL(
      program_spread(t->arena, t->machine, &t->b->body, t->split, t->rect, v, &t->at[v]));
  t->at[v].address = (at + 7) / 8 * 8 + phase;
  return t->at[v].address + (int32_t)spread_bytes(&t->at[v]);
}

static wafer_status make_program(bench *t, program_kernel_code *code,
                                 wafer_fabric_program *linked) {
  const wafer_kernel_body *body = &t->b->body;
  spread *outputs = WAFER_NEW(t->arena, spread, body->output_count);
  int32_t at = 0;
  for (uint32_t v = 0; v < body->input_count; v++) at = place(t, v, at);
  for (uint32_t i = 0; i < body->output_count; i++) {
    at = place(t, body->outputs[i], at);
    outputs[i] = t->at[body->outputs[i]];
  }
  const program_request request = {.diag = &t->diag,
                                   .arena = t->arena,
                                   .machine = t->machine,
                                   .loc = wafer_at_kernel("test", "kernel", "node"),
                                   .name = "kernel",
                                   .body = body,
                                   .split = t->split,
                                   .rect = t->rect,
                                   .inputs = t->at,
                                   .outputs = outputs,
                                   .scratch = at,
                                   .scratch_end = (int32_t)t->machine->core_bytes - 8192};
  WAFER_TRY(program_kernel(&request, code));
  const fragment_link link = {.name = "test",
                              .width = t->machine->width,
                              .height = t->machine->height,
                              .count = code->fragment_count,
                              .at = (const fragment *const *)code->fragments};
  WAFER_TRY(fragment_link_program(&t->diag, t->arena, t->machine, &link, linked));
  for (uint32_t i = 0; i < linked->program_count; i++) {
    uint64_t bytes = wafer_core_program_bytes(&linked->programs[i]);
    if (bytes > t->run.code_bytes) t->run.code_bytes = bytes;
  }
  t->run.memory = at + code->scratch_bytes + (int64_t)t->run.code_bytes;
  t->run.predicted = code->cycles;
  return WAFER_OK;
}

/* The words of a sparse weight, or its elements. */
static void put_input(bench *t, uint32_t v) {
  const wafer_kernel_body *body = &t->b->body;
  const wafer_type *type = &body->inputs[v];
  wafer_pairs pairs = wafer_kernel_pairs(t->machine, body, t->split, v);
  source from = {t->tensor[v], type->dtype};
  t->run.sparse |= pairs.lists > 0;
  if (pairs.lists) {
    static const uint32_t *const place[2];
    wafer_dtype stored = wafer_stored_dtype(type->dtype, body->storage);
    wafer_layout layout = wafer_kernel_input_layout(body, t->split, v);
    wafer_shape shape = wafer_pairs_shape(&pairs, &layout);
    int64_t words = 0, elements = elements_of(type);
    (void)wafer_shape_elements(&shape, &words);
    uint32_t *packed = WAFER_NEW(t->arena, uint32_t, (size_t)words);
    char *dense = wafer_arena_alloc(t->arena, (size_t)elements, wafer_dtype_bytes(stored));
    for (int64_t i = 0; i < elements; i++)
      wafer_element_set_f64(stored, dense, i, wafer_element_f64(type->dtype, t->tensor[v], i));
    CU_ASSERT_EQUAL_FATAL(
        wafer_pairs_pack(&pairs, stored, &type->shape, &layout, place, dense, packed), WAFER_OK);
    from = (source){packed, WAFER_DTYPE_u32};
  }
  each_element(t, &t->at[v], put, &from);
}

static wafer_status execute(bench *t) {
  const wafer_kernel_body *body = &t->b->body;
  program_kernel_code code;
  wafer_fabric_program linked;
  wafer_fabric_stats stats;
  WAFER_TRY(make_program(t, &code, &linked));
  WAFER_TRY(wafer_fabric_create(&t->diag, t->machine, &linked, NULL, &t->fabric));
  for (uint32_t v = 0; v < body->input_count; v++) put_input(t, v);
  for (uint32_t i = 0; i < code.data_count; i++) {
    source from = {code.data[i].elements, code.data[i].at->dtype};
    each_element(t, code.data[i].at, put, &from);
  }
  WAFER_TRY(wafer_fabric_run(t->fabric, &stats));
  t->run.counted = stats.cycles;
  for (uint32_t i = 0; i < body->output_count; i++) {
    uint32_t v = body->outputs[i];
    target to = {t->tensor[v], wafer_body_type(body, v)->dtype, 0};
    for (int64_t e = 0; e < elements_of(wafer_body_type(body, v)); e++)
      to.most = fmax(to.most, fabs(wafer_element_f64(to.dtype, to.want, e)));
    if (isinf(to.most)) to.most = 1;
    each_element(t, &t->at[v], compare, &to);
  }
  return WAFER_OK;
}

program_run program_run_body(const char *machine, const body_text *b, const wafer_split *split,
                             uint64_t seed) {
  static bench t;
  static char message[sizeof t.caught.text];
  wafer_cost cost;
  t = (bench){.b = b, .split = split, .arena = wafer_arena_create()};
  t.diag = caught_diag(&t.caught);
  t.rect = (wafer_rect){1, 1, wafer_split_width(split), wafer_split_height(split)};
  CU_ASSERT_FATAL(wafer_machine_open(NULL, t.arena, machine, &t.machine) == WAFER_OK);
  make_inputs(&t, seed);
  if (b->body.sparsity) thin_inputs(&t);
  wafer_kernel_cost(t.machine, &t.b->body, split, &cost);
  t.run.modelled = cost.cycles;
  t.run.code_modelled = cost.code_bytes;
  t.run.memory_modelled = (int64_t)wafer_cost_bytes(&cost);
  make_reference(&t);
  t.run.status = execute(&t);
  snprintf(message, sizeof message, "%s", t.run.status ? t.caught.text : "");
  t.run.message = message;
  wafer_fabric_destroy(t.fabric);
  wafer_arena_destroy(t.arena);
  return t.run;
}
