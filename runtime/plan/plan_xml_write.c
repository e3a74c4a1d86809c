/* A plan -> plan.xml. */
#include <libxml/xmlwriter.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "plan_xml.h"

/* libxml2's failures (memory alone) and ours are remembered and looked at once, at the end. */
typedef struct writer {
  xmlTextWriterPtr xml;
  xml_text value;
  bool failed;
} writer;

static void open_element(writer *w, const char *name) {
  w->failed |= xmlTextWriterStartElement(w->xml, BAD_CAST name) < 0;
}

static void close_element(writer *w) {
  w->failed |= xmlTextWriterEndElement(w->xml) < 0;
}

static void put_attribute(writer *w, const char *name) {
  w->failed |= w->value.failed ||
               xmlTextWriterWriteAttribute(w->xml, BAD_CAST name, BAD_CAST w->value.at) < 0;
}

/* Opens the element and writes its fields, but for those that say what their absence says. */
static void put_fields(writer *w, const xml_element *element, const void *owner) {
  open_element(w, element->name);
  for (uint32_t i = 0; i < element->field_count; i++) {
    const xml_field *f = &element->fields[i];
    w->value.count = 0;
    xml_put(&w->value, "", 0);
    f->codec->print(&w->value, f, owner);
    if (w->value.failed || !f->fallback || strcmp(w->value.at, f->fallback))
      put_attribute(w, f->name);
  }
}

static void put_element(writer *w, const xml_element *element, const void *owner) {
  put_fields(w, element, owner);
  close_element(w);
}

static wafer_status put_machine(const wafer_diag *diag, writer *w, const wafer_machine *machine) {
  char *text;
  size_t bytes;
  wafer_arena *arena = wafer_arena_create();
  if (!arena) {
    w->failed = true;
    return WAFER_OK;
  }
  wafer_status status = wafer_machine_print(diag, arena, machine, &text, &bytes);
  if (status == WAFER_OK) {
    const char *root = text; /* after <?xml ...?> */
    while ((root = strchr(root, '<')) && (root[1] == '?' || root[1] == '!')) root++;
    w->failed |= !root || xmlTextWriterWriteRaw(w->xml, BAD_CAST root) < 0;
  }
  wafer_arena_destroy(arena);
  return status;
}

static void put_weights(writer *w, const wafer_weights *weights) {
  for (size_t i = 0, n = weights ? wafer_weights_count(weights) : 0; i < n; i++) {
    const wafer_weight *weight = wafer_weights_at(weights, i);
    xml_weight item = {weight->name,    {weight->dtype, weight->shape},
                       weight->digest,  !weight->data,
                       weight->trained, weight->expected,
                       weight->sparse,  weight->nonzeros};
    put_element(w, &xml_weight_element, &item);
  }
}

static void put_node(writer *w, const wafer_node *node) {
  xml_node item = {*node, false};
  for (uint32_t i = 0; i < node->attrs.count; i++) {
    const wafer_attr *attr = &node->attrs.at[i];
    item.splat |= wafer_attr_kind_of(attr->id) == WAFER_ATTR_KIND_data && attr->data.splat;
  }
  put_fields(w, &xml_node_element, &item);
  for (uint32_t i = 0; i < node->attrs.count; i++) {
    w->value.count = 0;
    xml_attr_print(&w->value, &node->attrs.at[i], &node->type);
    put_attribute(w, wafer_attr_name(node->attrs.at[i].id));
  }
  close_element(w);
}

static void put_kernel(writer *w, const wafer_kernel *kernel) {
  const wafer_kernel_body *body = &kernel->body;
  put_fields(w, &xml_kernel_element, kernel);
  for (uint32_t i = 0; i < body->input_count; i++) {
    xml_input item = {kernel->inputs[i], body->input_depth[i], body->inputs[i],
                      body->input_is_weight[i],
                      body->sparsity ? body->sparsity[i] : (wafer_sparsity){0}};
    put_element(w, &xml_input_element, &item);
  }
  for (uint32_t i = 0; i < body->node_count; i++) put_node(w, &body->nodes[i]);
  for (uint32_t i = 0; i < body->output_count; i++)
    put_element(w, &xml_output_element,
                &(xml_output){kernel->outputs[i], body->outputs[i], wafer_body_sums(body, i)});
  put_element(w, &xml_split_cost_element, &kernel->cost);
  for (uint32_t i = 0; i < kernel->memory_count; i++)
    put_element(w, &xml_memory_element, &kernel->memory[i]);
  close_element(w);
}

static void put_step(writer *w, const wafer_step *step) {
  put_fields(w, &xml_step_element, step);
  for (uint32_t i = 0; i < step->attr_count; i++) {
    xml_text value = {0};
    xml_host_attr_print(&value, &step->attrs[i]);
    xml_host_attr item = {step->attrs[i].name, step->attrs[i].kind, value.at ? value.at : ""};
    w->failed |= value.failed;
    put_element(w, &xml_attr_element, &item);
    free(value.at);
  }
  close_element(w);
}

static void put_function(writer *w, const wafer_function *function) {
  put_fields(w, &xml_function_element, function);
  for (uint32_t i = 0; i < function->step_count; i++) put_step(w, &function->steps[i]);
  close_element(w);
}

static void put_training(writer *w, const wafer_training *training) {
  put_fields(w, &xml_training_element, training);
  for (uint32_t i = 0; i < training->trained_count; i++)
    put_element(w, &xml_trained_element, &training->trained[i]);
  for (uint32_t i = 0; i < training->noise_count; i++)
    put_element(w, &xml_noise_element, &training->noises[i]);
  close_element(w);
}

static wafer_status put_plan(const wafer_diag *diag, writer *w, const wafer_plan *plan) {
  put_fields(w, &xml_plan_element, plan);
  put_element(w, &xml_cost_elements[0], &plan->pipelined);
  put_element(w, &xml_cost_elements[1], &plan->streaming);
  WAFER_TRY(put_machine(diag, w, plan->machine));
  put_weights(w, plan->weights);
  for (uint32_t i = 0; i < plan->value_count; i++)
    put_element(w, &xml_value_element, &plan->values[i]);
  for (uint32_t i = 0; i < plan->kernel_count; i++) put_kernel(w, &plan->kernels[i]);
  for (uint32_t i = 0; i < plan->stream_count; i++)
    put_element(w, &xml_stream_element, &plan->streams[i]);
  for (uint32_t i = 0; i < plan->phase_count; i++)
    put_element(w, &xml_phase_element, &plan->phases[i]);
  for (uint32_t i = 0; i < plan->launch_count; i++)
    put_element(w, &xml_launch_element, &plan->launches[i]);
  for (uint32_t i = 0; i < plan->function_count; i++) put_function(w, &plan->functions[i]);
  if (plan->training) put_training(w, plan->training);
  close_element(w);
  return WAFER_OK;
}

/* Numbers are spelt as in the C locale, whatever the program around us has set. */
static wafer_status put_document(const wafer_diag *diag, writer *w, const wafer_plan *plan) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) {
    w->failed = true;
    return WAFER_OK;
  }
  locale_t before = uselocale(c);
  w->failed |= xmlTextWriterSetIndent(w->xml, 1) < 0 ||
               xmlTextWriterStartDocument(w->xml, NULL, "UTF-8", NULL) < 0;
  wafer_status status = put_plan(diag, w, plan);
  w->failed |= xmlTextWriterEndDocument(w->xml) < 0;
  uselocale(before);
  freelocale(c);
  return status;
}

wafer_status plan_xml_write(const wafer_diag *diag, const wafer_plan *plan, char **text,
                            size_t *bytes) {
  *text = NULL;
  xmlBufferPtr buffer = xmlBufferCreate();
  writer w = {.xml = buffer ? xmlNewTextWriterMemory(buffer, 0) : NULL};
  wafer_status status = WAFER_OK;
  w.failed = !w.xml;
  if (buffer) xmlBufferSetAllocationScheme(buffer, XML_BUFFER_ALLOC_DOUBLEIT);
  if (w.xml) status = put_document(diag, &w, plan);
  xmlFreeTextWriter(w.xml);
  free(w.value.at);
  if (status == WAFER_OK && !w.failed) {
    *bytes = (size_t)xmlBufferLength(buffer);
    *text = malloc(*bytes + 1);
    if (*text) memcpy(*text, xmlBufferContent(buffer), *bytes + 1);
  }
  xmlBufferFree(buffer);
  if (status != WAFER_OK || *text) return status;
  return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                    "no memory for plan.xml, which is limited to %d bytes", INT_MAX);
}
