/* Two plans side by side: kernels that moved, grew, came and went, and what it cost. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "dump.h"
#include "report/report.h"
#include "wafer/placement.h"

typedef struct difference {
  const wafer_plan *a, *b;
  report before, after;
  uint32_t *of;  /* kernel of b: that of a, WAFER_NONE: added */
  bool *matched; /* kernel of a: false: removed */
} difference;

static void match(difference *d, uint32_t b, uint32_t a) {
  d->of[b] = a;
  d->matched[a] = true;
}

/* By name, then by what they compute. */
static void match_all(difference *d) {
  for (uint32_t b = 0; b < d->b->kernel_count; b++) {
    d->of[b] = WAFER_NONE;
    for (uint32_t a = 0; a < d->a->kernel_count && d->of[b] == WAFER_NONE; a++)
      if (!d->matched[a] && !strcmp(d->a->kernels[a].name, d->b->kernels[b].name)) match(d, b, a);
  }
  for (uint32_t b = 0; b < d->b->kernel_count; b++) {
    if (d->of[b] != WAFER_NONE) continue;
    uint64_t identity = wafer_kernel_identity(&d->b->kernels[b].body);
    for (uint32_t a = 0; a < d->a->kernel_count && d->of[b] == WAFER_NONE; a++)
      if (!d->matched[a] && wafer_kernel_identity(&d->a->kernels[a].body) == identity)
        match(d, b, a);
  }
}

static bool moved(const wafer_kernel *a, const wafer_kernel *b) {
  return a->rect.x != b->rect.x || a->rect.y != b->rect.y;
}

static bool resized(const wafer_kernel *a, const wafer_kernel *b) {
  return a->rect.width != b->rect.width || a->rect.height != b->rect.height ||
         a->replicas != b->replicas;
}

/* Cycles of a sample: replicas share samples out. */
static uint64_t share_of(const wafer_kernel *k) {
  return (wafer_kernel_cycles(k) + k->replicas - 1) / k->replicas;
}

static uint64_t wire_of(const wafer_plan *plan) {
  uint64_t hops = 0;
  for (uint32_t i = 0; i < plan->stream_count; i++)
    hops += wafer_route_hops(plan->streams[i].route_count, plan->streams[i].route);
  return hops;
}

static uint64_t peak_of(const wafer_plan *plan) {
  uint64_t peak = 0;
  for (uint32_t i = 0; i < plan->phase_count; i++)
    if (plan->phases[i].peak_core_bytes > peak) peak = plan->phases[i].peak_core_bytes;
  return peak;
}

/* ---- text ---- */

static void print_figure(FILE *to, const char *what, uint64_t a, uint64_t b) {
  fprintf(to, "  %-28s %12llu -> %-12llu", what, (ull)a, (ull)b);
  if (a) fprintf(to, " %+.2f %%", 100.0 * ((double)b - (double)a) / (double)a);
  fputc('\n', to);
}

static void print_change(FILE *to, const char *what, const char *a, const char *b) {
  if (strcmp(a, b)) fprintf(to, "%s: %s -> %s\n", what, a, b);
}

static void print_kernel(FILE *to, const char *how, const wafer_kernel *a, const wafer_kernel *b) {
  fprintf(to, "  %-14s %s:", how, b ? b->name : a->name);
  if (a) fprintf(to, " %ux%u at %u,%u", a->rect.width, a->rect.height, a->rect.x, a->rect.y);
  if (a && a->replicas > 1) fprintf(to, " (%u times)", a->replicas);
  if (a && b) fputs(" ->", to);
  if (b) fprintf(to, " %ux%u at %u,%u", b->rect.width, b->rect.height, b->rect.x, b->rect.y);
  if (b && b->replicas > 1) fprintf(to, " (%u times)", b->replicas);
  if (a && b && share_of(a) != share_of(b))
    fprintf(to, "; %llu -> %llu cycles a sample", (ull)share_of(a), (ull)share_of(b));
  fputc('\n', to);
}

static const char *how_of(const wafer_kernel *a, const wafer_kernel *b) {
  if (!a) return "added";
  if (!b) return "removed";
  bool away = moved(a, b), other = resized(a, b);
  return away && other ? "moved, resized" : away ? "moved" : other ? "resized" : NULL;
}

static void print_text(FILE *to, const difference *d) {
  uint32_t same = 0;
  for (uint32_t b = 0; b < d->b->kernel_count; b++) {
    const wafer_kernel *is = &d->b->kernels[b];
    const wafer_kernel *was = d->of[b] == WAFER_NONE ? NULL : &d->a->kernels[d->of[b]];
    const char *how = how_of(was, is);
    same += !how;
    if (how) print_kernel(to, how, was, is);
  }
  for (uint32_t a = 0; a < d->a->kernel_count; a++)
    if (!d->matched[a]) print_kernel(to, "removed", &d->a->kernels[a], NULL);
  fprintf(to, "%u kernels stand as they stood\n", same);
  print_change(to, "model", d->a->model, d->b->model);
  print_change(to, "machine", d->a->machine->name, d->b->machine->name);
  print_change(to, "mode", wafer_mode_name(d->a->mode), wafer_mode_name(d->b->mode));
  print_figure(to, "interval, cycles", d->before.interval_cycles, d->after.interval_cycles);
  print_figure(to, "latency, cycles", d->before.latency_cycles, d->after.latency_cycles);
  print_figure(to, "wire, hops of all streams", wire_of(d->a), wire_of(d->b));
  print_figure(to, "cores", (uint64_t)d->before.active_cores, (uint64_t)d->after.active_cores);
  print_figure(to, "bytes of the fullest core", peak_of(d->a), peak_of(d->b));
}

/* ---- JSON ---- */

static void add_rect(cJSON *to, const char *key, const wafer_kernel *k) {
  if (!k) return;
  cJSON *o = cJSON_AddObjectToObject(to, key);
  cJSON_AddNumberToObject(o, "x", k->rect.x);
  cJSON_AddNumberToObject(o, "y", k->rect.y);
  cJSON_AddNumberToObject(o, "width_cores", k->rect.width);
  cJSON_AddNumberToObject(o, "height_cores", k->rect.height);
  cJSON_AddNumberToObject(o, "replicas", k->replicas);
  cJSON_AddNumberToObject(o, "cycles", (double)wafer_kernel_cycles(k));
}

static void add_kernel(cJSON *list, const wafer_kernel *a, const wafer_kernel *b) {
  const char *how = how_of(a, b);
  if (!how) return;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(list, o);
  cJSON_AddStringToObject(o, "name", b ? b->name : a->name);
  cJSON_AddBoolToObject(o, "added", !a);
  cJSON_AddBoolToObject(o, "removed", !b);
  cJSON_AddBoolToObject(o, "moved", a && b && moved(a, b));
  cJSON_AddBoolToObject(o, "resized", a && b && resized(a, b));
  add_rect(o, "before", a);
  add_rect(o, "after", b);
}

static void add_plan(cJSON *to, const char *key, const wafer_plan *plan, const report *r) {
  cJSON *o = cJSON_AddObjectToObject(to, key);
  cJSON_AddStringToObject(o, "model", plan->model);
  cJSON_AddStringToObject(o, "machine", plan->machine->name);
  cJSON_AddStringToObject(o, "mode", wafer_mode_name(plan->mode));
  cJSON_AddNumberToObject(o, "interval_cycles", (double)r->interval_cycles);
  cJSON_AddNumberToObject(o, "latency_cycles", (double)r->latency_cycles);
  cJSON_AddNumberToObject(o, "wire_hops", (double)wire_of(plan));
  cJSON_AddNumberToObject(o, "active_cores", r->active_cores);
  cJSON_AddNumberToObject(o, "peak_core_bytes", (double)peak_of(plan));
}

static wafer_status print_json(FILE *to, const difference *d) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, "schema", "wafer-diff-1");
  add_plan(root, "before", d->a, &d->before);
  add_plan(root, "after", d->b, &d->after);
  cJSON *list = cJSON_AddArrayToObject(root, "kernels");
  for (uint32_t b = 0; b < d->b->kernel_count; b++)
    add_kernel(list, d->of[b] == WAFER_NONE ? NULL : &d->a->kernels[d->of[b]], &d->b->kernels[b]);
  for (uint32_t a = 0; a < d->a->kernel_count; a++)
    if (!d->matched[a]) add_kernel(list, &d->a->kernels[a], NULL);
  char *text = root ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  if (!text) return cli_no_memory();
  fprintf(to, "%s\n", text);
  free(text);
  return WAFER_OK;
}

wafer_status dump_diff(FILE *to, const wafer_diag *diag, const wafer_plan *a, const wafer_plan *b,
                       bool json) {
  wafer_arena *arena = wafer_arena_create();
  difference d = {.a = a, .b = b};
  d.of = arena ? WAFER_NEW(arena, uint32_t, b->kernel_count) : NULL;
  d.matched = arena ? WAFER_NEW(arena, bool, a->kernel_count) : NULL;
  wafer_status status = d.of && d.matched ? WAFER_OK : cli_no_memory();
  if (status == WAFER_OK) status = report_make(diag, a, &d.before);
  if (status == WAFER_OK) status = report_make(diag, b, &d.after);
  if (status == WAFER_OK) {
    match_all(&d);
    if (json)
      status = print_json(to, &d);
    else
      print_text(to, &d);
  }
  wafer_arena_destroy(arena);
  return status;
}
