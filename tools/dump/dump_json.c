/* A plan as JSON for other programs: schema "wafer-dump-1", units in the keys. */
#include <cjson/cJSON.h>

#include "dump.h"
#include "report/report.h"
#include "sparsity.h"

static void add_u64(cJSON *to, const char *key, uint64_t value) {
  cJSON_AddNumberToObject(to, key, (double)value); /* exact up to 2^53 */
}

static cJSON *add_item(cJSON *list) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(list, o);
  return o;
}

static void add_rect(cJSON *to, wafer_rect r) {
  add_u64(to, "x", r.x);
  add_u64(to, "y", r.y);
  add_u64(to, "width_cores", r.width);
  add_u64(to, "height_cores", r.height);
}

static void add_indices(cJSON *to, const char *key, const uint32_t *at, uint32_t count) {
  cJSON *list = cJSON_AddArrayToObject(to, key);
  for (uint32_t i = 0; i < count; i++) cJSON_AddItemToArray(list, cJSON_CreateNumber(at[i]));
}

static void add_machine(cJSON *root, const wafer_machine *m) {
  cJSON *o = cJSON_AddObjectToObject(root, "machine");
  cJSON_AddStringToObject(o, "name", m->name);
  add_u64(o, "width_cores", m->width);
  add_u64(o, "height_cores", m->height);
  add_rect(cJSON_AddObjectToObject(o, "usable"), m->usable);
  add_u64(o, "clock_hz", m->clock_hz);
  add_u64(o, "core_bytes", m->core_bytes);
  add_u64(o, "reserved_bytes", m->reserved_bytes);
  add_u64(o, "colors", m->colors);
  add_u64(o, "bands", wafer_machine_bands(m));
  add_u64(o, "dead_cores", m->dead_count);
  if (m->repair) {
    add_u64(o, "bypassed_cores", m->repair->dead_count);
    add_u64(o, m->repair->columns ? "spare_columns" : "spare_rows", m->repair->lost);
  }
}

static void add_mode(cJSON *to, const char *name, const wafer_mode_cost *c) {
  cJSON *o = cJSON_AddObjectToObject(to, name);
  cJSON_AddBoolToObject(o, "fits", c->fits);
  if (!c->fits) {
    cJSON_AddStringToObject(o, "why_not", c->why_not);
    return;
  }
  add_u64(o, "latency_cycles", c->latency_cycles);
  add_u64(o, "interval_cycles", c->interval_cycles);
  add_u64(o, "cores", c->cores);
  add_u64(o, "peak_core_bytes", c->peak_core_bytes);
}

static void add_value(cJSON *list, const wafer_value *v) {
  char type[128];
  cJSON *o = add_item(list);
  dump_type(&v->type, type, sizeof type);
  cJSON_AddStringToObject(o, "name", v->name);
  cJSON_AddStringToObject(o, "onnx_node", v->node);
  cJSON_AddStringToObject(o, "owner", wafer_owner_name(v->owner));
  cJSON_AddStringToObject(o, "type", type);
}

static void add_cost(cJSON *o, const wafer_kernel *k) {
  const wafer_cost *c = &k->cost;
  add_u64(o, "cycles", c->cycles);
  if (k->program_cycles) add_u64(o, "program_cycles", k->program_cycles);
  add_u64(o, "compute_cycles", c->compute_cycles);
  add_u64(o, "fabric_cycles", c->fabric_cycles);
  add_u64(o, "operations", c->operations);
  add_u64(o, "core_bytes", wafer_cost_bytes(c));
  cJSON_AddStringToObject(o, "bound", wafer_bound_name(k->bound));
  cJSON *list = cJSON_AddArrayToObject(o, "memory");
  for (uint32_t i = 0; i < k->memory_count; i++) {
    cJSON *item = add_item(list);
    cJSON_AddStringToObject(item, "what", k->memory[i].what);
    cJSON_AddStringToObject(item, "onnx_node", k->memory[i].node);
    add_u64(item, "core_bytes", k->memory[i].bytes);
  }
}

static void add_kernel(cJSON *list, const wafer_kernel *k) {
  char split[512];
  cJSON *o = add_item(list);
  cJSON_AddStringToObject(o, "name", k->name);
  cJSON_AddStringToObject(o, "family", wafer_family_name(k->body.family));
  report_add_nodes(o, k);
  add_rect(o, k->rect);
  add_u64(o, "replicas", k->replicas);
  dump_split(k, split, sizeof split);
  cJSON_AddStringToObject(o, "split", split);
  add_indices(o, "input_values", k->inputs, k->body.input_count);
  add_indices(o, "output_values", k->outputs, k->body.output_count);
  add_cost(o, k);
}

static void add_end(cJSON *o, const char *key, const wafer_holding *h, const char *kernel_key,
                    uint32_t kernel) {
  cJSON *end = cJSON_AddObjectToObject(o, key);
  cJSON_AddStringToObject(end, "where", wafer_where_name(h->where));
  if (h->where == WAFER_AT_wafer) {
    add_rect(end, h->rect);
    add_indices(end, "row_parts", h->layout.rows, h->layout.rank);
    add_indices(end, "column_parts", h->layout.cols, h->layout.rank);
    add_indices(end, "row_strides", h->layout.row_stride, h->layout.rank);
    add_indices(end, "column_strides", h->layout.col_stride, h->layout.rank);
  }
  if (kernel != WAFER_NONE) add_u64(o, kernel_key, kernel);
}

static void add_stream(cJSON *list, const wafer_stream *s) {
  cJSON *o = add_item(list);
  add_u64(o, "value", s->value);
  add_end(o, "from", &s->from, "from_kernel", s->from_kernel);
  add_end(o, "to", &s->to, "to_kernel", s->to_kernel);
  add_u64(o, "color", s->color);
  add_u64(o, "words", s->words);
  add_u64(o, "busy_cycles", s->cycles);
  add_u64(o, "latency_cycles", s->latency);
  add_u64(o, "depth_samples", s->depth);
  cJSON *route = cJSON_AddArrayToObject(o, "route");
  for (uint32_t i = 0; i < s->route_count; i++) {
    const wafer_route_segment *g = &s->route[i];
    cJSON_AddItemToArray(
        route, cJSON_CreateIntArray((int[]){(int)g->x0, (int)g->y0, (int)g->x1, (int)g->y1}, 4));
  }
}

static void add_phase(cJSON *list, const wafer_phase *p) {
  cJSON *o = add_item(list);
  cJSON_AddStringToObject(o, "name", p->name);
  cJSON *actions = cJSON_AddArrayToObject(o, "actions");
  for (uint32_t i = 0; i < p->action_count; i++)
    add_u64(add_item(actions), p->actions[i].kind == WAFER_ACTION_kernel ? "kernel" : "stream",
            p->actions[i].index);
  add_indices(o, "frees", p->frees, p->free_count);
  add_u64(o, "peak_core_bytes", p->peak_core_bytes);
}

static void add_step(cJSON *o, const wafer_step *s) {
  if (wafer_step_on_wafer(s)) {
    add_u64(o, wafer_step_kind_name(s->kind), s->phase);
    return;
  }
  cJSON_AddStringToObject(o, "kind", wafer_step_kind_name(s->kind));
  if (s->kind == WAFER_STEP_host)
    cJSON_AddStringToObject(o, "operator", wafer_host_get(s->op)->name);
  cJSON_AddStringToObject(o, "onnx_node", s->node ? s->node : "");
  add_indices(o, "input_values", s->inputs, s->input_count);
  add_indices(o, "output_values", s->outputs, s->output_count);
  add_indices(o, "functions", s->bodies, s->body_count);
}

static void add_function(cJSON *list, const wafer_function *f) {
  cJSON *o = add_item(list);
  cJSON_AddStringToObject(o, "name", f->name);
  add_indices(o, "input_values", f->inputs, f->input_count);
  add_indices(o, "output_values", f->outputs, f->output_count);
  cJSON *steps = cJSON_AddArrayToObject(o, "steps");
  for (uint32_t i = 0; i < f->step_count; i++) add_step(add_item(steps), &f->steps[i]);
}

static void add_lists(cJSON *root, const wafer_plan *plan) {
  cJSON *values = cJSON_AddArrayToObject(root, "values");
  for (uint32_t i = 0; i < plan->value_count; i++) add_value(values, &plan->values[i]);
  cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
  for (uint32_t i = 0; i < plan->kernel_count; i++) add_kernel(kernels, &plan->kernels[i]);
  cJSON *streams = cJSON_AddArrayToObject(root, "streams");
  for (uint32_t i = 0; i < plan->stream_count; i++) add_stream(streams, &plan->streams[i]);
  cJSON *phases = cJSON_AddArrayToObject(root, "phases");
  for (uint32_t i = 0; i < plan->phase_count; i++) add_phase(phases, &plan->phases[i]);
  cJSON *functions = cJSON_AddArrayToObject(root, "functions");
  for (uint32_t i = 0; i < plan->function_count; i++) add_function(functions, &plan->functions[i]);
  dump_training_json(root, plan);
}

char *dump_json(const wafer_plan *plan) {
  cJSON *root = cJSON_CreateObject();
  if (!root) return NULL;
  cJSON_AddStringToObject(root, "schema", "wafer-dump-1");
  cJSON_AddStringToObject(root, "model", plan->model);
  cJSON_AddStringToObject(root, "producer", plan->producer);
  cJSON_AddStringToObject(root, "mode", wafer_mode_name(plan->mode));
  cJSON_AddStringToObject(root, "storage", wafer_dtype_name(plan->storage));
  add_u64(root, "batch_samples", wafer_plan_together(plan));
  add_u64(root, "stripes", plan->stripes);
  add_u64(root, "stripe_columns", plan->stripe_columns);
  add_u64(root, "flip_batch_samples", plan->flip_batch);
  add_u64(root, "onnx_nodes", plan->node_count);
  add_machine(root, plan->machine);
  cJSON *modes = cJSON_AddObjectToObject(root, "modes");
  add_mode(modes, "pipelined", &plan->pipelined);
  add_mode(modes, "streaming", &plan->streaming);
  add_lists(root, plan);
  report_add_sparsity(root, plan);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  return text;
}
