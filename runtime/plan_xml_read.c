/* plan.xml -> a plan. The text is untrusted: no DTD, so no entities; nothing is fetched; every list
 * is as long as its text says, never as a number in it says; every number is range-checked. What
 * the numbers mean together is wafer_plan_check's to prove. */
#define _GNU_SOURCE /* memmem */
#include <libxml/xmlreader.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "plan_xml.h"

/* Items of one kind, in the order of the file. */
typedef struct item_list {
  char *at;
  size_t count, capacity;
} item_list;

typedef struct reader {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;
  xmlTextReaderPtr xml;
  wafer_plan *plan;
  wafer_weights *weights;
  item_list values, kernels, streams, phases, launches, functions; /* of the plan */
  item_list inputs, nodes, outputs, memory, steps; /* of the kernel or function being read */
  item_list attrs;                                 /* of the step being read */
  item_list trained, noises;                       /* of the training being read */
  wafer_cost *cost;                                /* of that kernel */
  bool costed;
  bool seen_mode[2];
  char xml_error[256]; /* the first thing libxml2 complained about */
  uint32_t xml_line;
} reader;

/* ---- where, and what is wrong ---- */

static wafer_loc here(const reader *r) {
  xmlNodePtr node = xmlTextReaderCurrentNode(r->xml);
  if (node && node->type == XML_ATTRIBUTE_NODE) node = node->parent;
  bool lined = node && node->type == XML_ELEMENT_NODE; /* the structs of other kinds are shorter */
  long line =
      lined && node->line != USHRT_MAX ? node->line : xmlTextReaderGetParserLineNumber(r->xml);
  return wafer_at_line(r->file, line > 0 ? (uint32_t)line : 0, 0);
}

static wafer_status no_memory(const reader *r) {
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "no memory for the plan");
}

static void on_xml_error(void *self, xmlErrorPtr error) {
  reader *r = self;
  if (r->xml_error[0] || !error->message) return;
  r->xml_line = error->line > 0 ? (uint32_t)error->line : 0;
  for (size_t i = 0; i < sizeof r->xml_error - 1 && error->message[i] && error->message[i] != '\n';
       i++) {
    unsigned char c = (unsigned char)error->message[i];
    r->xml_error[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
  }
}

static wafer_status not_xml(const reader *r) {
  return wafer_fail(r->diag, wafer_at_line(r->file, r->xml_line, 0), WAFER_BAD_INPUT,
                    "not well-formed XML: %s",
                    r->xml_error[0] ? r->xml_error : "the document ends too early");
}

/* ---- lists ---- */

static wafer_status push(const reader *r, item_list *list, const void *item, size_t bytes) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    char *at = capacity <= UINT32_MAX ? realloc(list->at, capacity * bytes) : NULL;
    if (!at) return no_memory(r);
    list->at = at;
    list->capacity = capacity;
  }
  memcpy(list->at + list->count++ * bytes, item, bytes);
  return WAFER_OK;
}

/* Moves the items to the arena; the list is empty then. */
static wafer_status take(const reader *r, item_list *list, size_t bytes, void *out,
                         uint32_t *count) {
  void *at = wafer_arena_alloc(r->arena, list->count, bytes);
  if (!at) return no_memory(r);
  if (list->count) memcpy(at, list->at, list->count * bytes);
  memcpy(out, &at, sizeof at);
  *count = (uint32_t)list->count;
  list->count = 0;
  return WAFER_OK;
}

/* ---- walking ---- */

static bool is_blank(const xmlChar *text) {
  return !text || !text[strspn((const char *)text, " \t\r\n")];
}

/* To the next start or end of an element. */
static wafer_status advance(reader *r) {
  for (;;) {
    int more = xmlTextReaderRead(r->xml);
    if (more != 1 || r->xml_error[0]) return not_xml(r);
    switch (xmlTextReaderNodeType(r->xml)) {
    case XML_READER_TYPE_ELEMENT:
    case XML_READER_TYPE_END_ELEMENT: return WAFER_OK;
    case XML_READER_TYPE_COMMENT:
    case XML_READER_TYPE_WHITESPACE:
    case XML_READER_TYPE_SIGNIFICANT_WHITESPACE: break;
    case XML_READER_TYPE_TEXT:
      if (is_blank(xmlTextReaderConstValue(r->xml))) break;
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "text where only elements may stand");
    default:
      return wafer_fail(
          r->diag, here(r), WAFER_BAD_INPUT,
          "a plan holds elements and comments alone, no DTD, entity, CDATA or processing "
          "instruction");
    }
  }
}

static const char *element_name(const reader *r) {
  return (const char *)xmlTextReaderConstName(r->xml);
}

/* The row of the attribute `name`, looked for from `next` on since files mostly keep the table's
 * order. */
static uint32_t find_field(const xml_element *element, const char *name, uint32_t next) {
  for (uint32_t i = 0; i < element->field_count; i++) {
    uint32_t k = (next + i) % element->field_count;
    if (!strcmp(element->fields[k].name, name)) return k;
  }
  return element->field_count;
}

static wafer_status parse_field(const reader *r, const xml_element *element, const xml_field *f,
                                const char *text, void *owner) {
  wafer_status status = f->codec->parse(r->arena, text, f, owner);
  if (status == WAFER_OK) return WAFER_OK;
  if (status == WAFER_NO_MEMORY) return no_memory(r);
  return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<%s> has %s=\"%.40s\"%s, expected %s",
                    element->name, f->name, text, strlen(text) > 40 ? "..." : "",
                    f->codec->expected);
}

/* Reads the attributes of the element the reader stands on. A node's op attributes are passed over.
 */
static wafer_status read_fields(const reader *r, const xml_element *element, void *owner) {
  uint32_t seen = 0, next = 0;
  while (xmlTextReaderMoveToNextAttribute(r->xml) == 1) {
    const char *name = element_name(r), *text = (const char *)xmlTextReaderConstValue(r->xml);
    if (!text) return no_memory(r);
    uint32_t k = find_field(element, name, next);
    if (k == element->field_count) {
      if (element == &xml_node_element && wafer_attr_by_name(name) != WAFER_ATTR_COUNT) continue;
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<%s> has no attribute '%.40s'",
                        element->name, name);
    }
    WAFER_TRY(parse_field(r, element, &element->fields[k], text, owner));
    seen |= 1u << k;
    next = k + 1;
  }
  xmlTextReaderMoveToElement(r->xml);
  for (uint32_t k = 0; k < element->field_count; k++) {
    const xml_field *f = &element->fields[k];
    if (seen >> k & 1) continue;
    if (!f->fallback)
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<%s> lacks its attribute '%s'",
                        element->name, f->name);
    WAFER_TRY(parse_field(r, element, f, f->fallback, owner));
  }
  return WAFER_OK;
}

typedef struct child {
  const xml_element *element;
  wafer_status (*read)(reader *r); /* stands on the start, leaves the reader on the end */
} child;

static wafer_status read_children(reader *r, const char *parent, const child *children,
                                  size_t count) {
  if (xmlTextReaderIsEmptyElement(r->xml)) return WAFER_OK;
  for (;;) {
    WAFER_TRY(advance(r));
    if (xmlTextReaderNodeType(r->xml) == XML_READER_TYPE_END_ELEMENT) return WAFER_OK;
    const char *name = element_name(r);
    size_t i = 0;
    while (i < count && strcmp(children[i].element->name, name)) i++;
    if (i == count)
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<%s> holds no <%.40s>", parent, name);
    WAFER_TRY(children[i].read(r));
  }
}

static wafer_status read_leaf(reader *r, const xml_element *element, void *owner) {
  WAFER_TRY(read_fields(r, element, owner));
  return read_children(r, element->name, NULL, 0);
}

/* ---- kernels ---- */

static wafer_status read_input(reader *r) {
  xml_input item = {0};
  WAFER_TRY(read_leaf(r, &xml_input_element, &item));
  return push(r, &r->inputs, &item, sizeof item);
}

static wafer_status read_output(reader *r) {
  xml_output item = {0};
  WAFER_TRY(read_leaf(r, &xml_output_element, &item));
  return push(r, &r->outputs, &item, sizeof item);
}

static wafer_status read_memory(reader *r) {
  wafer_memory_item item = {0};
  WAFER_TRY(read_leaf(r, &xml_memory_element, &item));
  return push(r, &r->memory, &item, sizeof item);
}

static wafer_status read_split_cost(reader *r) {
  if (r->costed)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a second <cost> of one kernel");
  r->costed = true;
  return read_leaf(r, &xml_split_cost_element, r->cost);
}

/* The attribute the reader stands on, if it is one of the op's. */
static wafer_status read_attr(const reader *r, const xml_node *item, wafer_attr *attrs,
                              uint32_t *seen) {
  const char *name = element_name(r), *text = (const char *)xmlTextReaderConstValue(r->xml);
  wafer_attr_id id = wafer_attr_by_name(name);
  const wafer_op_info *info = wafer_op_get(item->node.op);
  if (id == WAFER_ATTR_COUNT) return WAFER_OK;
  uint32_t k = 0;
  while (k < info->attr_count && info->attrs[k] != id) k++;
  if (k == info->attr_count)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "op %s carries no attribute '%s'",
                      info->name, name);
  attrs[k].id = id;
  *seen |= 1u << k;
  wafer_status status = xml_attr_parse(r->arena, text, &item->node.type, item->splat, &attrs[k]);
  if (status == WAFER_OK) return WAFER_OK;
  if (status == WAFER_NO_MEMORY) return no_memory(r);
  return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<node> has %s=\"%.40s\"%s, expected %s",
                    name, text, strlen(text) > 40 ? "..." : "",
                    xml_attr_expected(wafer_attr_kind_of(id)));
}

/* Exactly the attributes of the op's row, put in its order. */
static wafer_status read_attrs(const reader *r, xml_node *item) {
  const wafer_op_info *info = wafer_op_get(item->node.op);
  wafer_attr *attrs = WAFER_NEW(r->arena, wafer_attr, info->attr_count);
  uint32_t seen = 0;
  if (!attrs) return no_memory(r);
  while (xmlTextReaderMoveToNextAttribute(r->xml) == 1) WAFER_TRY(read_attr(r, item, attrs, &seen));
  xmlTextReaderMoveToElement(r->xml);
  for (uint32_t k = 0; k < info->attr_count; k++)
    if (!(seen >> k & 1))
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                        "<node> of op %s lacks its attribute '%s'", info->name,
                        wafer_attr_name(info->attrs[k]));
  item->node.attrs = (wafer_attrs){info->attr_count, attrs};
  return WAFER_OK;
}

static wafer_status read_node(reader *r) {
  xml_node item = {0};
  WAFER_TRY(read_fields(r, &xml_node_element, &item));
  WAFER_TRY(read_attrs(r, &item));
  WAFER_TRY(read_children(r, "node", NULL, 0));
  return push(r, &r->nodes, &item.node, sizeof item.node);
}

/* <input> and <output> elements -> the body's parallel arrays. */
static wafer_status take_operands(reader *r, wafer_kernel *kernel) {
  wafer_kernel_body *body = &kernel->body;
  size_t in = r->inputs.count, out = r->outputs.count;
  uint32_t *inputs = WAFER_NEW(r->arena, uint32_t, in), *depths = WAFER_NEW(r->arena, uint32_t, in);
  uint32_t *outputs = WAFER_NEW(r->arena, uint32_t, out), *of = WAFER_NEW(r->arena, uint32_t, out);
  wafer_type *types = WAFER_NEW(r->arena, wafer_type, in);
  bool *weights = WAFER_NEW(r->arena, bool, in), *summed = WAFER_NEW(r->arena, bool, out);
  wafer_sparsity *sparsity = WAFER_NEW(r->arena, wafer_sparsity, in);
  if (!inputs || !depths || !outputs || !of || !types || !weights || !sparsity || !summed)
    return no_memory(r);
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

static wafer_status read_kernel(reader *r) {
  static const child children[] = {
      {&xml_input_element, read_input},   {&xml_node_element, read_node},
      {&xml_output_element, read_output}, {&xml_split_cost_element, read_split_cost},
      {&xml_memory_element, read_memory},
  };
  wafer_kernel kernel = {0};
  wafer_loc start = here(r);
  r->cost = &kernel.cost;
  r->costed = false;
  WAFER_TRY(read_fields(r, &xml_kernel_element, &kernel));
  WAFER_TRY(read_children(r, "kernel", children, WAFER_COUNT(children)));
  r->cost = NULL;
  if (!r->costed || !r->nodes.count || !r->outputs.count)
    return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<kernel> '%s' lacks its %s", kernel.name,
                      !r->costed        ? "<cost>"
                      : !r->nodes.count ? "<node>"
                                        : "<output>");
  WAFER_TRY(take_operands(r, &kernel));
  WAFER_TRY(take(r, &r->nodes, sizeof(wafer_node), &kernel.body.nodes, &kernel.body.node_count));
  WAFER_TRY(take(r, &r->memory, sizeof(wafer_memory_item), &kernel.memory, &kernel.memory_count));
  return push(r, &r->kernels, &kernel, sizeof kernel);
}

/* ---- the plan ---- */

static wafer_status read_cost(reader *r, int mode, wafer_mode_cost *cost) {
  if (r->seen_mode[mode])
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a second <%s>",
                      xml_cost_elements[mode].name);
  r->seen_mode[mode] = true;
  return read_leaf(r, &xml_cost_elements[mode], cost);
}
static wafer_status read_pipelined(reader *r) {
  return read_cost(r, 0, &r->plan->pipelined);
}
static wafer_status read_streaming(reader *r) {
  return read_cost(r, 1, &r->plan->streaming);
}

static wafer_status read_machine(reader *r) {
  if (r->plan->machine) return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a second <machine>");
  xmlChar *text = xmlTextReaderReadOuterXml(r->xml);
  if (!text) return r->xml_error[0] ? not_xml(r) : no_memory(r);
  wafer_status status = wafer_machine_parse(r->diag, r->arena, r->file, (const char *)text,
                                            strlen((const char *)text), &r->plan->machine);
  xmlFree(text);
  if (status != WAFER_OK || xmlTextReaderIsEmptyElement(r->xml)) return status;
  int depth = xmlTextReaderDepth(r->xml);
  do WAFER_TRY(advance(r));
  while (xmlTextReaderDepth(r->xml) > depth);
  return WAFER_OK;
}

static wafer_status read_weight(reader *r) {
  static const char promised[1];
  xml_weight item = {0};
  WAFER_TRY(read_leaf(r, &xml_weight_element, &item));
  wafer_weight *weight =
      wafer_weights_add(r->weights, item.name, item.type.dtype, &item.type.shape, NULL);
  if (!weight) return no_memory(r);
  if (strcmp(weight->name, item.name))
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a second weight named '%s'", item.name);
  weight->digest = item.digest;
  weight->data = item.absent ? NULL : promised;
  weight->trained = item.trained;
  weight->expected = item.expected;
  weight->sparse = item.sparse;
  weight->nonzeros = item.nonzeros;
  return WAFER_OK;
}

static wafer_status read_value(reader *r) {
  wafer_value item = {0};
  WAFER_TRY(read_leaf(r, &xml_value_element, &item));
  if (item.kind == WAFER_VALUE_tensor && item.type.dtype == WAFER_DTYPE_none)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                      "<value> '%s' is a tensor and lacks a type such as 1x3xf32", item.name);
  return push(r, &r->values, &item, sizeof item);
}

static wafer_status read_stream(reader *r) {
  wafer_stream item = {0};
  WAFER_TRY(read_leaf(r, &xml_stream_element, &item));
  return push(r, &r->streams, &item, sizeof item);
}

static wafer_status read_phase(reader *r) {
  wafer_phase item = {0};
  WAFER_TRY(read_leaf(r, &xml_phase_element, &item));
  return push(r, &r->phases, &item, sizeof item);
}

static wafer_status read_launch(reader *r) {
  wafer_launch item = {0};
  WAFER_TRY(read_leaf(r, &xml_launch_element, &item));
  return push(r, &r->launches, &item, sizeof item);
}

static wafer_status read_host_attr(reader *r) {
  xml_host_attr item = {0};
  wafer_host_attr attr;
  WAFER_TRY(read_leaf(r, &xml_attr_element, &item));
  wafer_status status = xml_host_attr_parse(r->arena, &item, &attr);
  if (status == WAFER_NO_MEMORY) return no_memory(r);
  if (status != WAFER_OK)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "<attr> '%.40s' is no list of %s",
                      item.name, wafer_host_attr_kind_name(item.kind));
  return push(r, &r->attrs, &attr, sizeof attr);
}

static wafer_status read_step(reader *r) {
  static const child children[] = {{&xml_attr_element, read_host_attr}};
  wafer_step item = {0};
  WAFER_TRY(read_fields(r, &xml_step_element, &item));
  WAFER_TRY(read_children(r, "step", children, WAFER_COUNT(children)));
  WAFER_TRY(take(r, &r->attrs, sizeof(wafer_host_attr), &item.attrs, &item.attr_count));
  return push(r, &r->steps, &item, sizeof item);
}

static wafer_status read_function(reader *r) {
  static const child children[] = {{&xml_step_element, read_step}};
  wafer_function item = {0};
  WAFER_TRY(read_fields(r, &xml_function_element, &item));
  WAFER_TRY(read_children(r, "function", children, WAFER_COUNT(children)));
  WAFER_TRY(take(r, &r->steps, sizeof(wafer_step), &item.steps, &item.step_count));
  return push(r, &r->functions, &item, sizeof item);
}

static wafer_status read_trained(reader *r) {
  wafer_trained item = {0};
  WAFER_TRY(read_leaf(r, &xml_trained_element, &item));
  return push(r, &r->trained, &item, sizeof item);
}

static wafer_status read_noise(reader *r) {
  wafer_noise item = {0};
  WAFER_TRY(read_leaf(r, &xml_noise_element, &item));
  return push(r, &r->noises, &item, sizeof item);
}

static wafer_status read_training(reader *r) {
  static const child children[] = {{&xml_trained_element, read_trained},
                                   {&xml_noise_element, read_noise}};
  if (r->plan->training)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a second <training>");
  wafer_training *training = WAFER_NEW(r->arena, wafer_training, 1);
  if (!training) return no_memory(r);
  r->plan->training = training;
  WAFER_TRY(read_fields(r, &xml_training_element, training));
  WAFER_TRY(read_children(r, "training", children, WAFER_COUNT(children)));
  WAFER_TRY(
      take(r, &r->trained, sizeof(wafer_trained), &training->trained, &training->trained_count));
  return take(r, &r->noises, sizeof(wafer_noise), &training->noises, &training->noise_count);
}

static wafer_status take_lists(reader *r) {
  wafer_plan *p = r->plan;
  WAFER_TRY(take(r, &r->values, sizeof(wafer_value), &p->values, &p->value_count));
  WAFER_TRY(take(r, &r->kernels, sizeof(wafer_kernel), &p->kernels, &p->kernel_count));
  WAFER_TRY(take(r, &r->streams, sizeof(wafer_stream), &p->streams, &p->stream_count));
  WAFER_TRY(take(r, &r->phases, sizeof(wafer_phase), &p->phases, &p->phase_count));
  WAFER_TRY(take(r, &r->launches, sizeof(wafer_launch), &p->launches, &p->launch_count));
  WAFER_TRY(take(r, &r->functions, sizeof(wafer_function), &p->functions, &p->function_count));
  p->weights = r->weights;
  return WAFER_OK;
}

static wafer_status read_plan(reader *r) {
  static const xml_element machine = {"machine", 0, NULL};
  static const child children[] = {
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
  WAFER_TRY(advance(r));
  wafer_loc start = here(r);
  if (strcmp(element_name(r), xml_plan_element.name))
    return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<%.40s> where <plan> is expected",
                      element_name(r));
  WAFER_TRY(read_fields(r, &xml_plan_element, r->plan));
  WAFER_TRY(read_children(r, "plan", children, WAFER_COUNT(children)));
  const char *lacks = !r->plan->machine     ? "machine"
                      : !r->seen_mode[0]    ? "pipelined"
                      : !r->seen_mode[1]    ? "streaming"
                      : !r->functions.count ? "function"
                                            : NULL;
  if (lacks) return wafer_fail(r->diag, start, WAFER_BAD_INPUT, "<plan> lacks its <%s>", lacks);
  if (xmlTextReaderRead(r->xml) != 0 || r->xml_error[0]) return not_xml(r);
  return take_lists(r);
}

static void release(reader *r) {
  item_list *lists[] = {&r->values,   &r->kernels, &r->streams, &r->phases,  &r->functions,
                        &r->launches, &r->inputs,  &r->nodes,   &r->outputs, &r->memory,
                        &r->steps,    &r->attrs,   &r->trained, &r->noises};
  for (size_t i = 0; i < WAFER_COUNT(lists); i++) free(lists[i]->at);
  xmlFreeTextReader(r->xml);
}

/* Numbers are spelt as in the C locale, whatever the program around us has set. */
static wafer_status read_document(reader *r) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) return no_memory(r);
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
  reader r = {.diag = diag, .file = file, .arena = arena, .plan = plan};
  r.weights = wafer_weights_create(arena);
  r.xml = r.weights ? xmlReaderForMemory(text, (int)bytes, NULL, "UTF-8", XML_PARSE_NONET) : NULL;
  if (!r.xml) return no_memory(&r);
  xmlTextReaderSetStructuredErrorHandler(r.xml, on_xml_error, &r);
  wafer_status status = read_document(&r);
  release(&r);
  return status;
}
