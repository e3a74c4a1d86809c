/* A graph run three ways: folded by the importer, and as a plan in either mode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs.h"

typedef struct run {
  const graph *g;
  graph_view view;
  char path[512], plan[512];
  wafer_arena *arena;
  wafer_diag diag;
  const wafer_machine *machine;
  char *why;
  size_t bytes;
} run;

/* Outputs by the number of their value. */
typedef struct outputs {
  wafer_view at[MOST_VALUES];
  bool there[MOST_VALUES];
} outputs;

static void emit(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  run *r = self;
  char place[128];
  (void)status;
  if (severity != WAFER_ERROR || *r->why) return;
  wafer_loc_format(loc, place, sizeof place);
  snprintf(r->why, r->bytes, "%s: %s", place, text);
}

static uint32_t number_of(const char *name) {
  return (uint32_t)strtoul(name + 1, NULL, 10); /* "v12" */
}

/* ---- Compiling and running ---- */

static void copy_out(run *r, uint32_t value, const wafer_view *from, outputs *out) {
  size_t bytes = wafer_tensor_bytes(from->dtype, &from->shape);
  void *data = wafer_arena_alloc(r->arena, bytes ? bytes : 1, 1);
  if (!data) abort();
  wafer_view_pack(from, data);
  out->at[value] = wafer_view_of(from->dtype, &from->shape, data);
  out->there[value] = true;
}

/* The reference must leave nothing to compute: everything has been folded. */
static bool only_moves(const wafer_plan *plan) {
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    if (plan->kernels[k].body.family != WAFER_FAMILY_move) return false;
  return true;
}

static wafer_status run_plan(run *r, bool folded, outputs *out) {
  const wafer_plan *plan;
  WAFER_TRY(wafer_plan_open(&r->diag, r->plan, &plan));
  const wafer_function *f = &plan->functions[0];
  wafer_view in[MOST_VALUES], results[MOST_VALUES];
  wafer_session *session;
  if (folded && !only_moves(plan)) {
    snprintf(r->why, r->bytes, "the reference computes something in its plan");
    return WAFER_INTERNAL;
  }
  for (uint32_t i = 0; i < f->input_count; i++)
    in[i] = graph_data(r->g, number_of(plan->values[f->inputs[i]].name), r->arena);
  const wafer_session_options options = {.threads = 1, .diag = &r->diag};
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  WAFER_TRY(wafer_session_run(session, in, f->input_count, results, f->output_count));
  for (uint32_t i = 0; i < f->output_count; i++)
    copy_out(r, number_of(plan->values[f->outputs[i]].name), &results[i], out);
  wafer_session_destroy(session);
  wafer_plan_close(plan);
  return WAFER_OK;
}

static wafer_status compute(run *r, wafer_mode mode, bool folded, outputs *out) {
  wafer_options options = {.mode = mode, .reductions = WAFER_REDUCTIONS_behind};
  wafer_value_binding *values = WAFER_NEW(r->arena, wafer_value_binding, MOST_VALUES);
  const wafer_plan *plan;
  wafer_ir *ir;
  if (!values) abort();
  for (uint32_t v = 0; v < r->g->value_count && folded; v++)
    if (r->view.inputs[v])
      values[options.value_count++] = (wafer_value_binding){wafer_arena_printf(r->arena, "v%u", v),
                                                            graph_data(r->g, v, r->arena)};
  options.values = values;
  const wafer_ctx ctx = {
      .machine = r->machine, .arena = r->arena, .diag = &r->diag, .options = &options};
  WAFER_TRY(wafer_import(&ctx, r->path, &ir));
  WAFER_TRY(wafer_transform(&ctx, ir, WAFER_DEFAULT_PASSES));
  WAFER_TRY(wafer_lower(&ctx, ir, &plan));
  WAFER_TRY(wafer_plan_write(&r->diag, plan, r->plan));
  wafer_ir_destroy(ir);
  return run_plan(r, folded, out);
}

/* ---- Comparing ---- */

static double largest_of(const outputs *all) {
  double largest = 0;
  for (uint32_t v = 0; v < MOST_VALUES; v++) {
    int64_t count = 0;
    if (all->there[v]) wafer_shape_elements(&all->at[v].shape, &count);
    for (int64_t i = 0; i < count; i++) {
      double x = fabs(wafer_element_f64(all->at[v].dtype, all->at[v].data, i));
      if (isfinite(x) && x > largest) largest = x;
    }
  }
  return largest;
}

static bool agrees(double got, double want, double room) {
  return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= room;
}

static bool compare(run *r, const char *mode, const outputs *got, const outputs *want,
                    double room) {
  for (uint32_t v = 0; v < r->g->value_count; v++) {
    if (!r->view.outputs[v]) continue;
    const wafer_view *a = &got->at[v], *b = &want->at[v];
    int64_t count = 0;
    wafer_shape_elements(&b->shape, &count);
    if (!got->there[v] || !want->there[v] || a->dtype != b->dtype ||
        !wafer_shape_equal(&a->shape, &b->shape)) {
      snprintf(r->why, r->bytes, "%s: output v%u is of another type", mode, v);
      return false;
    }
    double allowed = wafer_dtype_is_float(a->dtype) ? room : 0;
    for (int64_t i = 0; i < count; i++) {
      double x = wafer_element_f64(a->dtype, a->data, i),
             y = wafer_element_f64(b->dtype, b->data, i);
      if (agrees(x, y, allowed)) continue;
      snprintf(r->why, r->bytes, "%s: element %lld of v%u is %.9g, the reference %.9g", mode,
               (long long)i, v, x, y);
      return false;
    }
  }
  return true;
}

static bool check(run *r) {
  static const wafer_mode modes[] = {WAFER_MODE_pipelined, WAFER_MODE_streaming};
  outputs *all = calloc(1, sizeof *all), *want = calloc(1, sizeof *want);
  if (!all || !want || !graph_save(r->g, true, r->path)) abort();
  if (compute(r, WAFER_MODE_auto, true, all) != WAFER_OK) return false;
  double room = r->g->tolerance * largest_of(all);
  if (!graph_save(r->g, false, r->path)) abort();
  if (compute(r, WAFER_MODE_auto, true, want) != WAFER_OK) return false;
  for (size_t i = 0; i < WAFER_COUNT(modes); i++) {
    outputs *got = calloc(1, sizeof *got);
    if (!got || compute(r, modes[i], false, got) != WAFER_OK) return false;
    if (!compare(r, wafer_mode_name(modes[i]), got, want, room)) return false;
  }
  return true;
}

/* ---- The process ---- */

static int child(const graph *g, const char *folder, char *why, size_t bytes) {
  run r = {
      .g = g, .view = graph_look(g), .arena = wafer_arena_create(), .why = why, .bytes = bytes};
  r.diag = (wafer_diag){.emit = emit, .self = &r};
  snprintf(r.path, sizeof r.path, "%s/graph.onnx", folder);
  snprintf(r.plan, sizeof r.plan, "%s/graph.wplan", folder);
  if (!r.arena || wafer_machine_open(&r.diag, r.arena, "wse2", &r.machine) != WAFER_OK) return 1;
  return check(&r) ? 0 : 1;
}

bool graph_holds(const graph *g, const char *folder, char *why, size_t bytes) {
  char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) abort();
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(120);
    _exit(child(g, folder, shared, bytes));
  }
  int how = 1;
  if (pid < 0 || waitpid(pid, &how, 0) != pid) abort();
  snprintf(why, bytes, "%s", shared);
  if (WIFSIGNALED(how)) snprintf(why, bytes, "crashed: %s", strsignal(WTERMSIG(how)));
  munmap(shared, bytes);
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* ---- Reduction ---- */

/* Keeps the candidate when it does not hold either, and has not become trivial. */
static bool still_fails(graph *g, const graph *candidate, const char *folder, char *why,
                        size_t bytes) {
  char reason[1024];
  if (!graph_look(candidate).node_count) return false;
  if (graph_holds(candidate, folder, reason, sizeof reason)) return false;
  *g = *candidate;
  snprintf(why, bytes, "%s", reason);
  return true;
}

void graph_reduce(graph *g, const char *folder, char *why, size_t bytes) {
  graph_view view = graph_look(g);
  for (uint32_t v = 0; v < g->value_count; v++) {
    graph one = *g;
    one.only = v;
    if (view.outputs[v] && still_fails(g, &one, folder, why, bytes)) break;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t n = g->node_count; n-- > 0;) {
      graph without = *g;
      if (!graph_look(g).nodes[n]) continue;
      without.nodes[n].cut = true;
      for (uint32_t i = 0; i < g->nodes[n].output_count; i++)
        if (without.only == g->nodes[n].outputs[i]) without.nodes[n].cut = false;
      if (without.nodes[n].cut) changed |= still_fails(g, &without, folder, why, bytes);
    }
    for (uint32_t v = 0; v < g->value_count && !changed; v++) { /* an inner value as the output */
      graph shorter = *g;
      uint32_t node = g->values[v].node;
      shorter.only = v;
      if (v >= g->only || g->values[v].source != GRAPH_NODE || !graph_look(g).nodes[node]) continue;
      changed = still_fails(g, &shorter, folder, why, bytes);
    }
  }
}
