/* Graphs as text and as ONNX files, and the elements of their tensors. */
#include <stdlib.h>
#include <string.h>

#include "test/unit/onnx_text.h"

#include "graphs.h"

/* ---- What is left ---- */

static bool made_here(const graph *g, uint32_t value) {
  const graph_value *v = &g->values[value];
  return v->source == GRAPH_NODE && !g->nodes[v->node].cut;
}

/* Marks what the value is computed from. Nodes come in order, so their operands' numbers are
 * less. */
static void need(const graph *g, uint32_t value, graph_view *view) {
  const graph_value *v = &g->values[value];
  if (v->source == GRAPH_CONSTANT) {
    view->constants[value] = true;
  } else if (!made_here(g, value)) {
    view->inputs[value] = true;
  } else if (!view->nodes[v->node]) {
    view->nodes[v->node] = true;
    view->node_count++;
    const graph_node *node = &g->nodes[v->node];
    for (uint32_t i = 0; i < node->input_count; i++) need(g, node->inputs[i], view);
  }
}

graph_view graph_look(const graph *g) {
  graph_view view = {0};
  bool used[MOST_VALUES] = {0};
  for (uint32_t n = 0; n < g->node_count; n++)
    for (uint32_t i = 0; i < g->nodes[n].input_count && !g->nodes[n].cut; i++)
      used[g->nodes[n].inputs[i]] = true;
  for (uint32_t v = 0; v < g->value_count; v++) {
    view.outputs[v] = g->only == UINT32_MAX ? made_here(g, v) && !used[v] : v == g->only;
    if (view.outputs[v]) need(g, v, &view);
  }
  return view;
}

/* ---- Elements ---- */

wafer_view graph_data(const graph *g, uint32_t value, wafer_arena *arena) {
  const graph_value *v = &g->values[value];
  int64_t count = 1;
  wafer_shape_elements(&v->shape, &count);
  void *data = wafer_arena_alloc(arena, (size_t)count, wafer_dtype_bytes(v->dtype));
  if (!data) abort();
  uint64_t state = g->seed * 1000 + value;
  for (int64_t i = 0; i < count; i++) {
    double part = (double)(graph_random(&state) >> 40) / (1 << 24);
    if (v->given)
      wafer_element_set_i64(v->dtype, data, i, v->ints[i]);
    else if (v->dtype == WAFER_DTYPE_bool)
      wafer_element_set_i64(v->dtype, data, i, part < 0.5);
    else if (wafer_dtype_is_float(v->dtype))
      wafer_element_set_f64(v->dtype, data, i, v->low + part * (v->high - v->low));
    else
      wafer_element_set_i64(v->dtype, data, i, (int64_t)(part * 9) - 4);
  }
  return wafer_view_of(v->dtype, &v->shape, data);
}

/* ---- Text ---- */

static void print_type(const graph_value *v, FILE *to) {
  char shape[128];
  wafer_shape_format(&v->shape, shape, sizeof shape);
  fprintf(to, " %s %s", wafer_dtype_name(v->dtype), shape);
}

static void print_constant(const graph *g, uint32_t value, FILE *to) {
  wafer_arena *arena = wafer_arena_create();
  wafer_view data = graph_data(g, value, arena);
  int64_t count = 1;
  wafer_shape_elements(&data.shape, &count);
  fprintf(to, "init v%u", value);
  print_type(&g->values[value], to);
  fputs(" =", to);
  for (int64_t i = 0; i < count; i++)
    if (wafer_dtype_is_float(data.dtype))
      fprintf(to, " %.17g", wafer_element_f64(data.dtype, data.data, i));
    else
      fprintf(to, " %lld", (long long)wafer_element_i64(data.dtype, data.data, i));
  fputs(";\n", to);
  wafer_arena_destroy(arena);
}

static void print_node(const graph_node *node, FILE *to) {
  fputs(node->call, to);
  for (uint32_t i = 0; i < node->input_count; i++) fprintf(to, " v%u", node->inputs[i]);
  fputs(" ->", to);
  for (uint32_t i = 0; i < node->output_count; i++) fprintf(to, " v%u", node->outputs[i]);
  fputs(";\n", to);
}

void graph_print(const graph *g, bool inner, FILE *to) {
  graph_view view = graph_look(g);
  for (uint32_t v = 0; v < g->value_count; v++) {
    if (view.constants[v]) print_constant(g, v, to);
    if (!view.inputs[v]) continue;
    fprintf(to, "in v%u", v);
    print_type(&g->values[v], to);
    fputs(";\n", to);
  }
  for (uint32_t n = 0; n < g->node_count; n++)
    if (view.nodes[n]) print_node(&g->nodes[n], to);
  for (uint32_t v = 0; v < g->value_count; v++) {
    bool shown = view.outputs[v] || (inner && made_here(g, v) && view.nodes[g->values[v].node]);
    if (!shown) continue;
    fprintf(to, "out v%u", v);
    print_type(&g->values[v], to);
    fputs(";\n", to);
  }
}

bool graph_save(const graph *g, bool inner, const char *path) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  protobuf *model = calloc(1, sizeof *model);
  if (!to || !model) abort();
  graph_print(g, inner, to);
  fclose(to);
  for (char *at = text; *at; at++)
    if (*at == '\n') *at = ' ';
  onnx_text_model(model, 20, text);
  FILE *file = fopen(path, "w");
  bool fine = file && fwrite(model->bytes, 1, model->count, file) == model->count;
  fine = file && fclose(file) == 0 && fine;
  free(model);
  free(text);
  return fine;
}
