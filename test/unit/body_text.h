/* Kernel bodies as text, for tests of costs, checks and timelines. */
#ifndef BODY_TEXT_H
#define BODY_TEXT_H

#include <stdio.h>

#include "op_text.h"
#include "wafer/kernel.h"

#define BODY_TEXT_MAX 12

/* Stays in place while its body is used. */
typedef struct body_text {
  wafer_kernel_body body;
  wafer_type inputs[BODY_TEXT_MAX];
  bool weight[BODY_TEXT_MAX];
  uint32_t depth[BODY_TEXT_MAX];
  wafer_node nodes[BODY_TEXT_MAX];
  op_text_attrs attrs[BODY_TEXT_MAX];
  uint32_t outputs[BODY_TEXT_MAX];
} body_text;

/* Inputs as types separated by blanks; "w:" in front of a type makes it a weight. Depths are 1. */
static inline void body_text_begin(body_text *b, const char *family, const char *inputs) {
  char copy[512], *rest = copy, *word;
  memset(b, 0, sizeof *b);
  snprintf(copy, sizeof copy, "%s", inputs);
  b->body = (wafer_kernel_body){.family = wafer_family_by_name(family),
                                .inputs = b->inputs,
                                .input_is_weight = b->weight,
                                .input_depth = b->depth,
                                .output_depth = 1,
                                .nodes = b->nodes,
                                .outputs = b->outputs,
                                .storage = WAFER_DTYPE_f32};
  while ((word = strtok_r(rest, " ", &rest))) {
    uint32_t i = b->body.input_count++;
    b->weight[i] = strncmp(word, "w:", 2) == 0;
    b->depth[i] = 1;
    b->inputs[i] = op_text_type(b->weight[i] ? word + 2 : word);
  }
}

/* Adds a node whose type the op's rule gives; returns its value, UINT32_MAX when the rule refuses
 * it. It becomes the only output. */
static inline uint32_t body_text_node(body_text *b, const char *op, const char *operands,
                                      const char *attrs) {
  wafer_type types[WAFER_OP_MAX_OPERANDS];
  wafer_node *node = &b->nodes[b->body.node_count];
  char copy[64], *rest = copy, *word;
  snprintf(copy, sizeof copy, "%s", operands);
  *node = (wafer_node){.op = wafer_op_by_name(op), .name = op};
  while ((word = strtok_r(rest, " ", &rest))) {
    node->operands[node->operand_count] = (uint32_t)atoi(word);
    types[node->operand_count] = *wafer_body_type(&b->body, node->operands[node->operand_count]);
    node->operand_count++;
  }
  node->attrs = *op_text_parse(&b->attrs[b->body.node_count], attrs);
  if (wafer_op_infer(NULL, wafer_at_file("test"), node->op, &node->attrs, node->operand_count,
                     types, &node->type) != WAFER_OK)
    return UINT32_MAX;
  b->outputs[0] = b->body.input_count + b->body.node_count++;
  b->body.output_count = 1;
  return b->outputs[0];
}

static inline wafer_split split_whole(void) {
  wafer_split split;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split.rows[i] = split.cols[i] = 1;
  return split;
}

/* "rows1:2 cols3:4": loop 1 in 2 parts over the rows, loop 3 in 4 over the columns. */
static inline wafer_split split_text(const char *text) {
  wafer_split split = split_whole();
  unsigned loop, parts;
  char way[8];
  int used;
  while (sscanf(text, " %4[a-z]%u:%u%n", way, &loop, &parts, &used) == 3) {
    (strcmp(way, "rows") == 0 ? split.rows : split.cols)[loop] = parts;
    text += used;
  }
  return split;
}

#endif
