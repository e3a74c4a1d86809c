/* A number of every core of a rectangle, added up: what family reduce does over a matrix of which
 * each core has one element, once its cores have folded that. */
#include "program_build.h"
#include "program_update.h"

static wafer_type type_of(int64_t rows, int64_t cols) {
  return (wafer_type){WAFER_DTYPE_f32, {2, {rows, cols}}};
}

/* What lies in the arena, for the program refers to it. */
typedef struct total_body {
  wafer_kernel_body body;
  wafer_split split;
  wafer_type input;
  wafer_attr attrs[2];
  wafer_node node;
  int64_t axes[2];
  bool is_weight;
  uint32_t depth, output;
} total_body;

static void set_body(total_body *t, const wafer_kernel_body *of, wafer_rect rect) {
  const wafer_node *node = &of->nodes[of->anchor];
  *t = (total_body){
      .input = type_of(rect.height, rect.width), .axes = {0, 1}, .depth = 1, .output = 1};
  t->attrs[0] = (wafer_attr){.id = WAFER_ATTR_axes, .ints = {2, t->axes}};
  t->attrs[1] = (wafer_attr){.id = WAFER_ATTR_keepdims, .i = 1};
  t->node = (wafer_node){.op = WAFER_OP_reduce_sum,
                         .name = node->name,
                         .operand_count = 1,
                         .attrs = {WAFER_COUNT(t->attrs), t->attrs},
                         .type = type_of(1, 1)};
  t->body = (wafer_kernel_body){.family = WAFER_FAMILY_reduce,
                                .input_count = 1,
                                .inputs = &t->input,
                                .input_is_weight = &t->is_weight,
                                .input_depth = &t->depth,
                                .output_depth = 1,
                                .node_count = 1,
                                .nodes = &t->node,
                                .output_count = 1,
                                .outputs = &t->output,
                                .storage = WAFER_DTYPE_f32};
  wafer_loops loops;
  wafer_kernel_loops(&t->body, &loops);
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) t->split.rows[i] = t->split.cols[i] = 1;
  t->split.rows[loops.count - 2] = rect.height;
  t->split.cols[loops.count - 1] = rect.width;
}

wafer_status program_total(const program_request *request, const spread *each,
                           program_kernel_code *out) {
  total_body *t = WAFER_NEW(request->arena, total_body, 1);
  program_request *r = wafer_arena_copy(request->arena, request, sizeof *r);
  program *p = WAFER_NEW(request->arena, program, 1);
  *out = (program_kernel_code){0};
  if (!t || !r || !p) return WAFER_NO_MEMORY;
  set_body(t, request->body, request->rect);
  r->body = &t->body;
  r->split = &t->split;
  r->inputs = r->outputs = each;
  p->out = out;
  WAFER_TRY(program_begin(p, r));
  WAFER_TRY(program_chain(p, each, program_cut_reductions(p), 0, WAFER_CORE_add));
  return program_flush(p);
}
