/* The report as JSON: docs/report.schema.json, version 1; units in the keys. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "sparsity.h"

static void add_mode(cJSON *to, const char *name, const wafer_mode_cost *c) {
  cJSON *mode = cJSON_AddObjectToObject(to, name);
  cJSON_AddBoolToObject(mode, "fits", c->fits);
  if (!c->fits) {
    cJSON_AddStringToObject(mode, "why_not", c->why_not);
    return;
  }
  cJSON_AddNumberToObject(mode, "latency_cycles", (double)c->latency_cycles);
  cJSON_AddNumberToObject(mode, "interval_cycles", (double)c->interval_cycles);
  cJSON_AddNumberToObject(mode, "cores", (double)c->cores);
  cJSON_AddNumberToObject(mode, "peak_core_bytes", (double)c->peak_core_bytes);
}

void report_add_nodes(cJSON *kernel, const wafer_kernel *k) {
  cJSON *nodes = cJSON_AddArrayToObject(kernel, "onnx_nodes");
  const char *last = "";
  for (uint32_t i = 0; i < k->body.node_count; i++) {
    const char *name = k->body.nodes[i].name;
    if (!name || !*name || !strcmp(name, last)) continue;
    cJSON_AddItemToArray(nodes, cJSON_CreateString(name));
    last = name;
  }
}

static void add_kernel(cJSON *list, const wafer_kernel *k, const char *function) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(list, o);
  cJSON_AddStringToObject(o, "name", k->name);
  if (function) cJSON_AddStringToObject(o, "function", function);
  cJSON_AddStringToObject(o, "family", wafer_family_name(k->body.family));
  report_add_nodes(o, k);
  cJSON_AddNumberToObject(o, "x", k->rect.x);
  cJSON_AddNumberToObject(o, "y", k->rect.y);
  cJSON_AddNumberToObject(o, "width_cores", k->rect.width);
  cJSON_AddNumberToObject(o, "height_cores", k->rect.height);
  cJSON_AddNumberToObject(o, "replicas", k->replicas);
  cJSON_AddNumberToObject(o, "cycles", (double)wafer_kernel_cycles(k));
  cJSON_AddNumberToObject(o, "operations", (double)k->cost.operations);
  cJSON_AddNumberToObject(o, "core_bytes", (double)wafer_cost_bytes(&k->cost));
  cJSON_AddStringToObject(o, "bound", wafer_bound_name(k->bound));
}

static void add_kernels(cJSON *root, const wafer_plan *plan, const report_way *way) {
  cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    bool named = way->several && way->of_kernel[i] != WAFER_NONE;
    add_kernel(kernels, &plan->kernels[i], named ? plan->functions[way->of_kernel[i]].name : NULL);
  }
}

/* Those of the wafer, where there are others: which of them a sample goes through. */
static void add_functions(cJSON *root, const wafer_plan *plan, const report_way *way) {
  cJSON *list = way->several ? cJSON_AddArrayToObject(root, "functions") : NULL;
  for (uint32_t i = 0; list && i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    if (!wafer_function_on_wafer(f)) continue;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(list, o);
    cJSON_AddStringToObject(o, "name", f->name);
    cJSON_AddNumberToObject(o, "cycles", (double)way->calls[i].cycles);
    cJSON_AddNumberToObject(o, "calls", (double)way->calls[i].calls);
    cJSON_AddNumberToObject(o, "load_cycles", (double)way->calls[i].load);
    cJSON_AddNumberToObject(o, "load_behind_cycles", (double)way->behind[i]);
    cJSON_AddNumberToObject(o, "loads", (double)way->calls[i].loads);
  }
}

/* What the least interval is due to. */
static const char *binding(const report *r) {
  if (r->least.at_edge) return "edge";
  return r->least.kernel == WAFER_NONE ? "cores" : r->plan->kernels[r->least.kernel].name;
}

static void add_head(cJSON *root, const report *r) {
  cJSON_AddNumberToObject(root, "samples_per_s", r->samples_per_s);
  cJSON_AddNumberToObject(root, "compute_samples_per_s", r->compute_samples_per_s);
  cJSON_AddNumberToObject(root, "transmission_samples_per_s", r->transmission_samples_per_s);
  cJSON_AddNumberToObject(root, "active_cores", r->active_cores);
  cJSON_AddNumberToObject(root, "usable_cores",
                          (double)wafer_rect_area(wafer_machine_whole(r->plan->machine)->usable));
  cJSON_AddNumberToObject(root, "bands", wafer_machine_bands(r->plan->machine));
  cJSON_AddNumberToObject(root, "compute_utilization_fraction", r->utilization);
  cJSON_AddNumberToObject(root, "latency_cycles", (double)r->latency_cycles);
  cJSON_AddNumberToObject(root, "interval_cycles", (double)r->interval_cycles);
  if (r->one_replica_interval_cycles)
    cJSON_AddNumberToObject(root, "one_replica_interval_cycles",
                            (double)r->one_replica_interval_cycles);
  if (r->one_band_interval_cycles)
    cJSON_AddNumberToObject(root, "one_band_interval_cycles", (double)r->one_band_interval_cycles);
  cJSON_AddNumberToObject(root, "compute_interval_cycles", (double)r->compute_cycles);
  cJSON_AddNumberToObject(root, "edge_interval_cycles", (double)r->edge_cycles);
  cJSON_AddNumberToObject(root, "edge_in_bytes", (double)r->edge_in_bytes);
  cJSON_AddNumberToObject(root, "edge_out_bytes", (double)r->edge_out_bytes);
  cJSON_AddNumberToObject(root, "weight_bytes", (double)r->weight_bytes);
  cJSON_AddNumberToObject(root, "operations", (double)r->operations);
  cJSON_AddStringToObject(root, "bottleneck", r->bottleneck);
  cJSON_AddStringToObject(root, "timed_by", r->plan->launch_count ? "programs" : "streams");
  if (r->least.cycles) {
    cJSON_AddNumberToObject(root, "least_interval_cycles", (double)r->least.cycles);
    cJSON_AddNumberToObject(root, "interval_gap_fraction",
                            (double)r->interval_cycles / (double)r->least.cycles - 1);
    cJSON_AddStringToObject(root, "least_interval_binds", binding(r));
  }
  if (r->placer) cJSON_AddStringToObject(root, "placer", r->placer);
}

static void add_host_steps(cJSON *list, const wafer_plan *plan) {
  for (uint32_t f = 0; f < plan->function_count; f++)
    for (uint32_t i = 0; i < plan->functions[f].step_count; i++) {
      const wafer_step *s = &plan->functions[f].steps[i];
      if (wafer_step_on_wafer(s) || s->kind == WAFER_STEP_call) continue;
      cJSON *o = cJSON_CreateObject();
      cJSON_AddItemToArray(list, o);
      cJSON_AddStringToObject(o, "operator",
                              s->kind == WAFER_STEP_host ? wafer_host_get(s->op)->name
                                                         : wafer_step_kind_name(s->kind));
      cJSON_AddStringToObject(o, "onnx_node", s->node ? s->node : "");
      cJSON_AddStringToObject(o, "function", plan->functions[f].name);
    }
}

static void add_defects(cJSON *root, const report *r) {
  const wafer_machine *m = wafer_machine_whole(r->plan->machine);
  if (!m->defects) return;
  cJSON *o = cJSON_AddObjectToObject(root, "defects");
  cJSON_AddStringToObject(o, "repair", wafer_repair_name(m->defects->policy));
  cJSON_AddNumberToObject(o, "dead_cores", m->repair ? m->repair->dead_count : m->dead_count);
  cJSON_AddNumberToObject(o, "dead_links", m->defects->link_count);
  if (m->repair) {
    cJSON_AddStringToObject(o, "spare", m->repair->columns ? "columns" : "rows");
    cJSON_AddNumberToObject(o, "spares_used", m->repair->lost);
    cJSON_AddNumberToObject(o, "longest_link_hops", m->repair->links_most);
    cJSON_AddNumberToObject(o, "mean_link_hops", m->repair->links_mean * 1e-3);
    cJSON_AddNumberToObject(o, "hop_cycles", m->hop_cycles);
    cJSON_AddNumberToObject(o, "detour_cycles", m->detour_cycles);
  }
  if (!r->whole.interval_cycles) return;
  cJSON_AddNumberToObject(o, "whole_usable_cores", (double)r->whole.cores);
  cJSON_AddNumberToObject(o, "whole_interval_cycles", (double)r->whole.interval_cycles);
  cJSON_AddNumberToObject(o, "whole_latency_cycles", (double)r->whole.latency_cycles);
}

char *report_json(const report *r, double compile_seconds) {
  const wafer_plan *plan = r->plan;
  report_way way;
  cJSON *root = cJSON_CreateObject();
  if (!root || report_way_find(cli_diag(), plan, &way) != WAFER_OK) {
    cJSON_Delete(root);
    return NULL;
  }
  cJSON_AddStringToObject(root, "schema", "wafer-report-1");
  cJSON_AddStringToObject(root, "command", "compile");
  cJSON_AddStringToObject(root, "model", plan->model);
  cJSON_AddStringToObject(root, "machine", plan->machine->name);
  cJSON_AddNumberToObject(root, "clock_hz", (double)plan->machine->clock_hz);
  cJSON_AddStringToObject(root, "storage", wafer_dtype_name(plan->storage));
  if (compile_seconds >= 0) cJSON_AddNumberToObject(root, "compile_s", compile_seconds);
  cJSON_AddNumberToObject(root, "onnx_nodes", plan->node_count);
  add_head(root, r);
  add_defects(root, r);
  cJSON_AddStringToObject(root, "mode", wafer_mode_name(plan->mode));
  cJSON_AddNumberToObject(root, "batch_samples", (double)wafer_plan_together(plan));
  cJSON_AddNumberToObject(root, "stripes", plan->stripes);
  cJSON_AddNumberToObject(root, "stripe_columns", plan->stripe_columns);
  cJSON_AddNumberToObject(root, "flip_batch_samples", plan->flip_batch);
  cJSON *modes = cJSON_AddObjectToObject(root, "modes");
  add_mode(modes, "pipelined", &plan->pipelined);
  add_mode(modes, "streaming", &plan->streaming);
  add_functions(root, plan, &way);
  add_kernels(root, plan, &way);
  report_way_drop(&way);
  add_host_steps(cJSON_AddArrayToObject(root, "host_steps"), plan);
  report_add_training(root, plan);
  report_add_sparsity(root, plan);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  return text;
}
