/* `wafer run --fault`: the same run without and with faults. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

bool run_parse_fault(const char *command, run_arguments *a, const char *text) {
  if (wafer_fault_parse(text, &a->faults[a->fault_count])) return ++a->fault_count > 0;
  cli_usage(command,
            "--fault wants drop@X,Y,CYCLE, stuck@X,Y,CYCLE, flip@X,Y,CYCLE[,BIT] or "
            "flip@X,Y,ADDRESS,BIT,CYCLE, got '%s'",
            text);
  return false;
}

wafer_status run_sound(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                       const wafer_view *inputs, wafer_view **outputs) {
  const wafer_function *f = &plan->functions[0];
  const wafer_session_options options = {
      .fidelity = a->fidelity, .threads = (uint32_t)a->threads, .diag = cli_diag()};
  wafer_session *session;
  for (uint32_t i = 0; i < f->output_count; i++)
    if (plan->values[f->outputs[i]].type.dtype == WAFER_DTYPE_string)
      return wafer_fail(cli_diag(), wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "output '%s' is text, which has no distance: --fault is of numbers",
                        plan->values[f->outputs[i]].name);
  wafer_view *copies = WAFER_NEW(arena, wafer_view, f->output_count);
  if (!copies) return cli_no_memory();
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  wafer_status status = wafer_session_run(session, inputs, f->input_count, copies, f->output_count);
  for (uint32_t i = 0; i < f->output_count && status == WAFER_OK; i++) {
    wafer_view *v = &copies[i];
    v->data = wafer_arena_copy(arena, v->data, wafer_tensor_bytes(v->dtype, &v->shape));
    if (!v->data) status = cli_no_memory();
  }
  wafer_session_destroy(session);
  *outputs = copies;
  return status;
}

void run_print_struck(const run_arguments *a, const wafer_run_stats *stats) {
  for (uint32_t i = 0; i < a->fault_count && !a->quiet; i++) {
    char text[96];
    wafer_fault_format(&a->faults[i], text, sizeof text);
    if (stats->fault_struck[i] == UINT64_MAX)
      printf("fault %s did not strike\n", text);
    else
      printf("fault %s struck in cycle %llu\n", text, (unsigned long long)stats->fault_struck[i]);
  }
}

/* How many elements differ in a bit, and by how much at most. */
static uint64_t differing(const wafer_view *sound, const wafer_view *got, double *most) {
  size_t bytes = wafer_dtype_bytes(sound->dtype);
  int64_t count = 0;
  uint64_t differ = 0;
  (void)wafer_shape_elements(&sound->shape, &count);
  *most = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *a = (const char *)sound->data + (size_t)i * bytes;
    const char *b = (const char *)got->data + (size_t)i * bytes;
    if (!memcmp(a, b, bytes)) continue;
    double d = fabs(wafer_element_f64(sound->dtype, sound->data, i) -
                    wafer_element_f64(got->dtype, got->data, i));
    if (isnan(d)) d = INFINITY;
    if (d > *most) *most = d;
    differ++;
  }
  return differ;
}

wafer_status run_faults(const run_arguments *a, const wafer_plan *plan,
                        const wafer_run_stats *stats, const wafer_view *sound,
                        const wafer_view *outputs) {
  const wafer_function *f = &plan->functions[0];
  bool harmless = true;
  run_print_struck(a, stats);
  for (uint32_t i = 0; i < f->output_count; i++) {
    double most;
    const char *name = plan->values[f->outputs[i]].name;
    if (!wafer_shape_equal(&sound[i].shape, &outputs[i].shape)) { /* steps of the host chose it */
      harmless = false;
      printf("output %s: of another shape than without faults\n", name);
      continue;
    }
    uint64_t count = differing(&sound[i], &outputs[i], &most);
    if (!count) continue;
    harmless = false;
    printf("output %s: %llu elements differ from those without faults, by %.6g at most\n", name,
           (unsigned long long)count, most);
  }
  if (harmless && !a->quiet) printf("faults harmless: every output is as without them\n");
  return harmless ? WAFER_OK : WAFER_DIFFER;
}
