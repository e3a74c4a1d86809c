/* plan.xml -> a plan. The text is untrusted: no DTD, so no entities; nothing is fetched; every list
 * is as long as its text says, never as a number in it says; every number is range-checked. What
 * the numbers mean together is wafer_plan_check's to prove. */
#define _GNU_SOURCE /* memmem */
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "plan_xml_reader.h"

/* ---- kernels ---- */

static wafer_status read_input(xml_reader *r) {
  xml_input item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_input_element, &item));
  return xml_reader_push(r, &r->inputs, &item, sizeof item);
}

static wafer_status read_output(xml_reader *r) {
  xml_output item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_output_element, &item));
  return xml_reader_push(r, &r->outputs, &item, sizeof item);
}

static wafer_status read_memory(xml_reader *r) {
  wafer_memory_item item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_memory_element, &item));
  return xml_reader_push(r, &r->memory, &item, sizeof item);
}

static wafer_status read_split_cost(xml_reader *r) {
  if (r->costed)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                      "a second <cost> of one kernel");
  r->costed = true;
  return xml_reader_leaf(r, &xml_split_cost_element, r->cost);
}

/* The attribute the reader stands on, if it is one of the op's. */
static wafer_status read_attr(const xml_reader *r, const xml_node *item, wafer_attr *attrs,
                              uint32_t *seen) {
  const char *name = xml_reader_name(r), *text = (const char *)xmlTextReaderConstValue(r->xml);
  wafer_attr_id id = wafer_attr_by_name(name);
  const wafer_op_info *info = wafer_op_get(item->node.op);
  if (id == WAFER_ATTR_COUNT) return WAFER_OK;
  uint32_t k = 0;
  while (k < info->attr_count && info->attrs[k] != id) k++;
  if (k == info->attr_count)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                      "op %s carries no attribute '%s'", info->name, name);
  attrs[k].id = id;
  *seen |= 1u << k;
  wafer_status status = xml_attr_parse(r->arena, text, &item->node.type, item->splat, &attrs[k]);
  if (status == WAFER_OK) return WAFER_OK;
  if (status == WAFER_NO_MEMORY) return xml_reader_no_memory(r);
  return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                    "<node> has %s=\"%.40s\"%s, expected %s", name, text,
                    strlen(text) > 40 ? "..." : "", xml_attr_expected(wafer_attr_kind_of(id)));
}

/* Exactly the attributes of the op's row, put in its order. */
static wafer_status read_attrs(const xml_reader *r, xml_node *item) {
  const wafer_op_info *info = wafer_op_get(item->node.op);
  wafer_attr *attrs = WAFER_NEW(r->arena, wafer_attr, info->attr_count);
  uint32_t seen = 0;
  if (!attrs) return xml_reader_no_memory(r);
  while (xmlTextReaderMoveToNextAttribute(r->xml) == 1) WAFER_TRY(read_attr(r, item, attrs, &seen));
  xmlTextReaderMoveToElement(r->xml);
  for (uint32_t k = 0; k < info->attr_count; k++)
    if (!(seen >> k & 1))
      return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                        "<node> of op %s lacks its attribute '%s'", info->name,
                        wafer_attr_name(info->attrs[k]));
  item->node.attrs = (wafer_attrs){info->attr_count, attrs};
  return WAFER_OK;
}

static wafer_status read_node(xml_reader *r) {
  xml_node item = {0};
  WAFER_TRY(xml_reader_fields(r, &xml_node_element, &item));
  WAFER_TRY(read_attrs(r, &item));
  WAFER_TRY(xml_reader_children(r, "node", NULL, 0));
  return xml_reader_push(r, &r->nodes, &item.node, sizeof item.node);
}

/* <input> and <output> elements -> the body's parallel arrays. */
static wafer_status take_operands(xml_reader *r, wafer_kernel *kernel) {
  wafer_kernel_body *body = &kernel->body;
  size_t in = r->inputs.count, out = r->outputs.count;
  uint32_t *inputs = WAFER_NEW(r->arena, uint32_t, in), *depths = WAFER_NEW(r->arena, uint32_t, in);
  uint32_t *outputs = WAFER_NEW(r->arena, uint32_t, out), *of = WAFER_NEW(r->arena, uint32_t, out);
  wafer_type *types = WAFER_NEW(r->arena, wafer_type, in);
  bool *weights = WAFER_NEW(r->arena, bool, in), *summed = WAFER_NEW(r->arena, bool, out);
  wafer_sparsity *sparsity = WAFER_NEW(r->arena, wafer_sparsity, in);
  if (!inputs || !depths || !outputs || !of || !types || !weights || !sparsity || !summed)
    return xml_reader_no_memory(r);
  for (size_t i = 0; i < in; i++) {
    const xml_input *item = (const xml_input *)r->inputs.at + i;
    inputs[i] = item->value, depths[i] = item->depth;
    types[i] = item->type, weights[i] = item->weight;
    sparsity[i] = item->is;
    if (item->is.sparse) body->sparsity = sparsity;
  }
  for (size_t i = 0; i < out; i++) {
    const xml_output *item = (const xml_output *)r->outputs.at + i;
    outputs[i] = item->value, of[i] = item->of;
    summed[i] = item->summed;
    if (item->summed) body->output_is_summed = summed;
  }
  body->input_count = (uint32_t)in, body->output_count = (uint32_t)out;
  body->inputs = types, body->input_is_weight = weights, body->input_depth = depths;
  body->outputs = of;
  kernel->inputs = inputs, kernel->outputs = outputs;
  r->inputs.count = r->outputs.count = 0;
  return WAFER_OK;
}

static wafer_status read_kernel(xml_reader *r) {
  static const xml_child children[] = {
      {&xml_input_element, read_input},   {&xml_node_element, read_node},
      {&xml_output_element, read_output}, {&xml_split_cost_element, read_split_cost},
      {&xml_memory_element, read_memory},
  };
  wafer_kernel kernel = {0};
  wafer_loc start = xml_reader_here(r);
  r->cost = &kernel.cost;
  r->costed = false;
  WAFER_TRY(xml_reader_fields(r, &xml_kernel_element, &kernel));
  WAFER_TRY(xml_reader_children(r, "kernel", children, WAFER_COUNT(children)));
  r->cost = NULL;
  if (!r->costed || !r->nodes.count || !r->outputs.count)
    return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<kernel> '%s' lacks its %s", kernel.name,
                      !r->costed        ? "<cost>"
                      : !r->nodes.count ? "<node>"
                                        : "<output>");
  WAFER_TRY(take_operands(r, &kernel));
  WAFER_TRY(xml_reader_take(r, &r->nodes, sizeof(wafer_node), &kernel.body.nodes,
                            &kernel.body.node_count));
  WAFER_TRY(xml_reader_take(r, &r->memory, sizeof(wafer_memory_item), &kernel.memory,
                            &kernel.memory_count));
  return xml_reader_push(r, &r->kernels, &kernel, sizeof kernel);
}

/* ---- the plan ---- */

static wafer_status read_cost(xml_reader *r, int mode, wafer_mode_cost *cost) {
  if (r->seen_mode[mode])
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT, "a second <%s>",
                      xml_cost_elements[mode].name);
  r->seen_mode[mode] = true;
  return xml_reader_leaf(r, &xml_cost_elements[mode], cost);
}
static wafer_status read_pipelined(xml_reader *r) {
  return read_cost(r, 0, &r->plan->pipelined);
}
static wafer_status read_streaming(xml_reader *r) {
  return read_cost(r, 1, &r->plan->streaming);
}

static wafer_status read_machine(xml_reader *r) {
  if (r->plan->machine)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT, "a second <machine>");
  xmlChar *text = xmlTextReaderReadOuterXml(r->xml);
  if (!text) return r->xml_error[0] ? xml_reader_not_xml(r) : xml_reader_no_memory(r);
  wafer_status status = wafer_machine_parse(r->diag, r->arena, r->file, (const char *)text,
                                            strlen((const char *)text), &r->plan->machine);
  xmlFree(text);
  if (status != WAFER_OK || xmlTextReaderIsEmptyElement(r->xml)) return status;
  int depth = xmlTextReaderDepth(r->xml);
  do WAFER_TRY(xml_reader_advance(r));
  while (xmlTextReaderDepth(r->xml) > depth);
  return WAFER_OK;
}

static wafer_status read_weight(xml_reader *r) {
  static const char promised[1];
  xml_weight item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_weight_element, &item));
  wafer_weight *weight =
      wafer_weights_add(r->weights, item.name, item.type.dtype, &item.type.shape, NULL);
  if (!weight) return xml_reader_no_memory(r);
  if (strcmp(weight->name, item.name))
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT, "a second weight named '%s'",
                      item.name);
  weight->digest = item.digest;
  weight->data = item.absent ? NULL : promised;
  weight->trained = item.trained;
  weight->expected = item.expected;
  weight->sparse = item.sparse;
  weight->nonzeros = item.nonzeros;
  return WAFER_OK;
}

static wafer_status read_value(xml_reader *r) {
  wafer_value item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_value_element, &item));
  if (item.kind == WAFER_VALUE_tensor && item.type.dtype == WAFER_DTYPE_none)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                      "<value> '%s' is a tensor and lacks a type such as 1x3xf32", item.name);
  return xml_reader_push(r, &r->values, &item, sizeof item);
}

static wafer_status read_stream(xml_reader *r) {
  wafer_stream item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_stream_element, &item));
  return xml_reader_push(r, &r->streams, &item, sizeof item);
}

static wafer_status read_phase(xml_reader *r) {
  wafer_phase item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_phase_element, &item));
  return xml_reader_push(r, &r->phases, &item, sizeof item);
}

static wafer_status read_launch(xml_reader *r) {
  wafer_launch item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_launch_element, &item));
  return xml_reader_push(r, &r->launches, &item, sizeof item);
}

static wafer_status read_host_attr(xml_reader *r) {
  xml_host_attr item = {0};
  wafer_host_attr attr;
  WAFER_TRY(xml_reader_leaf(r, &xml_attr_element, &item));
  wafer_status status = xml_host_attr_parse(r->arena, &item, &attr);
  if (status == WAFER_NO_MEMORY) return xml_reader_no_memory(r);
  if (status != WAFER_OK)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                      "<attr> '%.40s' is no list of %s", item.name,
                      wafer_host_attr_kind_name(item.kind));
  return xml_reader_push(r, &r->attrs, &attr, sizeof attr);
}

static wafer_status read_step(xml_reader *r) {
  static const xml_child children[] = {{&xml_attr_element, read_host_attr}};
  wafer_step item = {0};
  WAFER_TRY(xml_reader_fields(r, &xml_step_element, &item));
  WAFER_TRY(xml_reader_children(r, "step", children, WAFER_COUNT(children)));
  WAFER_TRY(xml_reader_take(r, &r->attrs, sizeof(wafer_host_attr), &item.attrs, &item.attr_count));
  return xml_reader_push(r, &r->steps, &item, sizeof item);
}

static wafer_status read_function(xml_reader *r) {
  static const xml_child children[] = {{&xml_step_element, read_step}};
  wafer_function item = {0};
  WAFER_TRY(xml_reader_fields(r, &xml_function_element, &item));
  WAFER_TRY(xml_reader_children(r, "function", children, WAFER_COUNT(children)));
  WAFER_TRY(xml_reader_take(r, &r->steps, sizeof(wafer_step), &item.steps, &item.step_count));
  return xml_reader_push(r, &r->functions, &item, sizeof item);
}

static wafer_status read_trained(xml_reader *r) {
  wafer_trained item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_trained_element, &item));
  return xml_reader_push(r, &r->trained, &item, sizeof item);
}

static wafer_status read_noise(xml_reader *r) {
  wafer_noise item = {0};
  WAFER_TRY(xml_reader_leaf(r, &xml_noise_element, &item));
  return xml_reader_push(r, &r->noises, &item, sizeof item);
}

static wafer_status read_training(xml_reader *r) {
  static const xml_child children[] = {{&xml_trained_element, read_trained},
                                       {&xml_noise_element, read_noise}};
  if (r->plan->training)
    return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT, "a second <training>");
  wafer_training *training = WAFER_NEW(r->arena, wafer_training, 1);
  if (!training) return xml_reader_no_memory(r);
  r->plan->training = training;
  WAFER_TRY(xml_reader_fields(r, &xml_training_element, training));
  WAFER_TRY(xml_reader_children(r, "training", children, WAFER_COUNT(children)));
  WAFER_TRY(xml_reader_take(r, &r->trained, sizeof(wafer_trained), &training->trained,
                            &training->trained_count));
  return xml_reader_take(r, &r->noises, sizeof(wafer_noise), &training->noises,
                         &training->noise_count);
}

static wafer_status take_lists(xml_reader *r) {
  wafer_plan *p = r->plan;
  WAFER_TRY(xml_reader_take(r, &r->values, sizeof(wafer_value), &p->values, &p->value_count));
  WAFER_TRY(xml_reader_take(r, &r->kernels, sizeof(wafer_kernel), &p->kernels, &p->kernel_count));
  WAFER_TRY(xml_reader_take(r, &r->streams, sizeof(wafer_stream), &p->streams, &p->stream_count));
  WAFER_TRY(xml_reader_take(r, &r->phases, sizeof(wafer_phase), &p->phases, &p->phase_count));
  WAFER_TRY(xml_reader_take(r, &r->launches, sizeof(wafer_launch), &p->launches, &p->launch_count));
  WAFER_TRY(
      xml_reader_take(r, &r->functions, sizeof(wafer_function), &p->functions, &p->function_count));
  p->weights = r->weights;
  return WAFER_OK;
}

static wafer_status read_plan(xml_reader *r) {
  static const xml_element machine = {"machine", 0, NULL};
  static const xml_child children[] = {
      {&xml_kernel_element, read_kernel},
      {&xml_stream_element, read_stream},
      {&xml_value_element, read_value},
      {&xml_phase_element, read_phase},
      {&xml_launch_element, read_launch},
      {&xml_weight_element, read_weight},
      {&xml_function_element, read_function},
      {&xml_training_element, read_training},
      {&xml_cost_elements[0], read_pipelined},
      {&xml_cost_elements[1], read_streaming},
      {&machine, read_machine},
  };
  WAFER_TRY(xml_reader_advance(r));
  wafer_loc start = xml_reader_here(r);
  if (strcmp(xml_reader_name(r), xml_plan_element.name))
    return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<%.40s> where <plan> is expected",
                      xml_reader_name(r));
  WAFER_TRY(xml_reader_fields(r, &xml_plan_element, r->plan));
  WAFER_TRY(xml_reader_children(r, "plan", children, WAFER_COUNT(children)));
  const char *lacks = !r->plan->machine     ? "machine"
                      : !r->seen_mode[0]    ? "pipelined"
                      : !r->seen_mode[1]    ? "streaming"
                      : !r->functions.count ? "function"
                                            : NULL;
  if (lacks) return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<plan> lacks its <%s>", lacks);
  if (xmlTextReaderRead(r->xml) != 0 || r->xml_error[0]) return xml_reader_not_xml(r);
  return take_lists(r);
}

static void release(xml_reader *r) {
  xml_items *lists[] = {&r->values,   &r->kernels, &r->streams, &r->phases,  &r->functions,
                        &r->launches, &r->inputs,  &r->nodes,   &r->outputs, &r->memory,
                        &r->steps,    &r->attrs,   &r->trained, &r->noises};
  for (size_t i = 0; i < WAFER_COUNT(lists); i++) free(lists[i]->at);
  xmlFreeTextReader(r->xml);
}

/* Numbers are spelt as in the C locale, whatever the program around us has set. */
static wafer_status read_document(xml_reader *r) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) return xml_reader_no_memory(r);
  locale_t before = uselocale(c);
  wafer_status status = read_plan(r);
  uselocale(before);
  freelocale(c);
  return status;
}

wafer_status plan_xml_read(const wafer_diag *diag, wafer_arena *arena, const char *file,
                           const char *text, size_t bytes, wafer_plan *plan) {
  if (bytes > INT_MAX)
    return wafer_fail(diag, wafer_at_file(file), WAFER_BAD_INPUT, "%zu bytes, at most %d are read",
                      bytes, INT_MAX);
  if (memmem(text, bytes, "<!DOCTYPE", 9))
    return wafer_fail(diag, wafer_at_file(file), WAFER_BAD_INPUT, "a plan has no DTD");
  xml_reader r = {.diag = diag, .file = file, .arena = arena, .plan = plan};
  r.weights = wafer_weights_create(arena);
  r.xml = r.weights ? xmlReaderForMemory(text, (int)bytes, NULL, "UTF-8", XML_PARSE_NONET) : NULL;
  if (!r.xml) return xml_reader_no_memory(&r);
  xmlTextReaderSetStructuredErrorHandler(r.xml, xml_reader_error, &r);
  wafer_status status = read_document(&r);
  release(&r);
  return status;
}
