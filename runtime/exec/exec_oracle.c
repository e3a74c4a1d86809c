/* The plain-loop oracle as a stage: what no faster stage knows. Operands are laid out as it wants
 * them, dense and row-major, in ONNX's element types. */
#include <string.h>

#include "exec.h"

typedef struct side {
  const exec_tensor *tensor;
  wafer_view view;
  void *own;      /* the view's data when the tensor does not lie that way, else NULL */
  void *straight; /* row-major elements as held, between the tensor and `own`; may be `own` */
  exec_copy copy; /* tensor to row-major */
} side;

typedef struct oracle_stage {
  exec_stage stage;
  const exec_program *program;
  wafer_op op;
  wafer_attrs attrs;
  uint32_t count;
  side *operands;
  side result;
} oracle_stage;

static size_t elements(const exec_tensor *t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->shape.rank; i++) n *= t->shape.dims[i];
  return (size_t)n;
}

static void narrow(const side *s) {
  const float *from = s->straight;
  uint16_t *to = s->own;
  for (size_t i = 0, n = elements(s->tensor); i < n; i++)
    to[i] =
        s->tensor->type == WAFER_DTYPE_f16 ? wafer_f16_of_f32(from[i]) : wafer_bf16_of_f32(from[i]);
}

static void widen(const side *s) {
  const uint16_t *from = s->own;
  float *to = s->straight;
  for (size_t i = elements(s->tensor); i-- > 0;)
    to[i] =
        s->tensor->type == WAFER_DTYPE_f16 ? wafer_f32_of_f16(from[i]) : wafer_f32_of_bf16(from[i]);
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const oracle_stage *s = (const oracle_stage *)stage;
  (void)slab, (void)thread;
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  for (uint32_t i = 0; i < s->count; i++) {
    const side *o = &s->operands[i];
    views[i] = o->view;
    if (!o->own) {
      views[i].data = exec_data(frame, o->tensor);
      continue;
    }
    exec_copy_run(&o->copy, exec_data(frame, o->tensor), o->straight);
    if (o->straight != o->own) narrow(o);
  }
  wafer_view result = s->result.view;
  if (!s->result.own) result.data = exec_data(frame, s->result.tensor);
  WAFER_TRY(wafer_reference_run(s->program->diag, stage->loc, s->op, &s->attrs, s->count, views,
                                &result));
  if (!s->result.own) return WAFER_OK;
  widen(&s->result);
  memcpy(exec_data(frame, s->result.tensor), s->result.straight,
         elements(s->result.tensor) * sizeof(float));
  return WAFER_OK;
}

static bool init_side(exec_program *p, side *s, const exec_tensor *t) {
  exec_order order = exec_row_major();
  bool moves = !exec_same_order(&t->shape, &t->order, &order), converts = t->host != t->type;
  *s = (side){.tensor = t, .view = wafer_view_of(t->type, &t->shape, NULL)};
  s->copy = (exec_copy){.rank = t->shape.rank, .element = wafer_dtype_bytes(t->host)};
  memcpy(s->copy.extent, t->shape.dims, sizeof s->copy.extent);
  memcpy(s->copy.from, t->strides, sizeof s->copy.from);
  memcpy(s->copy.to, s->view.strides, sizeof s->copy.to);
  exec_copy_simplify(&s->copy);
  if (!moves && !converts) return true;
  s->own = exec_alloc(p, wafer_tensor_bytes(t->type, &t->shape));
  s->straight = converts ? exec_alloc(p, wafer_tensor_bytes(t->host, &t->shape)) : s->own;
  s->view.data = s->own;
  return s->own && s->straight;
}

wafer_status exec_build_oracle(exec_program *p, exec_op *op) {
  const wafer_node *node = op->node;
  exec_order order = exec_row_major();
  exec_tensor *y = exec_tensor_create(p, &node->type, &order);
  oracle_stage *s = WAFER_NEW(p->arena, oracle_stage, 1);
  side *operands = WAFER_NEW(p->arena, side, node->operand_count);
  if (!y || !s || !operands) return exec_no_memory(p);
  *s = (oracle_stage){.stage = {.run = run, .loc = p->loc},
                      .program = p,
                      .op = node->op,
                      .attrs = node->attrs,
                      .count = node->operand_count,
                      .operands = operands};
  s->stage.loc.node = node->name;
  bool room = init_side(p, &s->result, y);
  for (uint32_t i = 0; i < s->count; i++)
    room = init_side(p, &operands[i], op->operands[i]) && room;
  if (!room) return exec_no_memory(p);
  op->result = y;
  p->oracle_stages++;
  return exec_stage_add(p, &s->stage, op, 1);
}
