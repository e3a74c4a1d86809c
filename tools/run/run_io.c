/* Tensors of `wafer run`: files in, files out, random inputs. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

void run_file_name(const char *name, char *buffer, size_t bytes) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  size_t i = 0;
  for (; name[i] && i + 1 < bytes; i++) buffer[i] = strchr(plain, name[i]) ? name[i] : '_';
  buffer[i] = 0;
}

/* One step of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static wafer_status random_input(const run_arguments *a, const wafer_value *value,
                                 wafer_arena *arena, uint64_t *state, wafer_view *out) {
  wafer_shape shape = value->type.shape;
  if (value->kind != WAFER_VALUE_tensor)
    return wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE,
                      "input '%s' has no one shape that random values could be of: give --input "
                      "'%s=FILE.npy'",
                      value->name, value->name);
  if (a->samples) {
    if (shape.rank == WAFER_MAX_RANK)
      return wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_UNSUPPORTED,
                        "input '%s' has rank %d, a train would need one more", value->name,
                        WAFER_MAX_RANK);
    memmove(shape.dims + 1, shape.dims, sizeof shape.dims - sizeof shape.dims[0]);
    shape.dims[0] = (int64_t)a->samples;
    shape.rank++;
  }
  int64_t count;
  if (!wafer_shape_elements(&shape, &count))
    return wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE,
                      "%llu samples of '%s' are too many", (unsigned long long)a->samples,
                      value->name);
  void *data = wafer_arena_alloc(arena, (size_t)count, wafer_dtype_bytes(value->type.dtype));
  if (!data) return cli_no_memory();
  for (int64_t i = 0; i < count; i++) {
    double uniform = (double)(next_random(state) >> 11) * 0x1p-53;
    if (wafer_dtype_is_float(value->type.dtype))
      wafer_element_set_f64(value->type.dtype, data, i, 2 * uniform - 1);
    else
      wafer_element_set_i64(value->type.dtype, data, i, uniform < 0.5 ? 0 : 1);
  }
  *out = wafer_view_of(value->type.dtype, &shape, data);
  return WAFER_OK;
}

/* NULL when the user did not give it. */
static const char *path_of(const run_arguments *a, const char *name) {
  for (size_t i = 0; i < a->input_count; i++)
    if (!strcmp(a->input_names[i], name)) return a->input_paths[i];
  return NULL;
}

static wafer_status check_name(const run_arguments *a, const wafer_plan *plan, const char *name) {
  const wafer_function *f = &plan->functions[0];
  for (uint32_t i = 0; i < f->input_count; i++)
    if (!strcmp(name, plan->values[f->inputs[i]].name)) return WAFER_OK;
  wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE, "there is no input '%s'", name);
  for (uint32_t i = 0; i < f->input_count; i++)
    wafer_note(cli_diag(), wafer_at_file(a->plan), "input '%s'", plan->values[f->inputs[i]].name);
  return WAFER_USAGE;
}

static wafer_status check_names(const run_arguments *a, const wafer_plan *plan) {
  for (size_t i = 0; i < a->input_count; i++) {
    WAFER_TRY(check_name(a, plan, a->input_names[i]));
    if (path_of(a, a->input_names[i]) != a->input_paths[i])
      return wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE,
                        "--input '%s' is given twice: as %s and as %s", a->input_names[i],
                        path_of(a, a->input_names[i]), a->input_paths[i]);
  }
  for (size_t i = 0; a->state && i < wafer_weights_count(a->state); i++)
    WAFER_TRY(check_name(a, plan, wafer_weights_at(a->state, i)->name));
  return WAFER_OK;
}

wafer_status run_inputs(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                        wafer_view *inputs) {
  const wafer_function *f = &plan->functions[0];
  WAFER_TRY(check_names(a, plan));
  if (!a->input_count && !a->quiet && f->input_count)
    printf("no --input: random inputs, uniform in -1..1 (integers: 0 or 1), seed %llu\n",
           (unsigned long long)a->seed);
  uint64_t state = a->seed;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const wafer_value *value = &plan->values[f->inputs[i]];
    const char *path = path_of(a, value->name);
    if (path) {
      WAFER_TRY(wafer_npy_read(cli_diag(), arena, path, &inputs[i]));
      wafer_npy_adopt(&inputs[i], value->type.dtype);
    } else if (run_state_value(a, value->name)) {
      inputs[i] = wafer_weight_view(run_state_value(a, value->name));
    } else if (a->input_count) {
      return wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE,
                        "input '%s' is missing: give --input '%s=FILE.npy'", value->name,
                        value->name);
    } else {
      WAFER_TRY(random_input(a, value, arena, &state, &inputs[i]));
    }
  }
  return WAFER_OK;
}

wafer_status run_write_outputs(const run_arguments *a, const wafer_plan *plan,
                               const wafer_view *outputs) {
  const wafer_function *f = &plan->functions[0];
  WAFER_TRY(wafer_folder_make(cli_diag(), a->output));
  for (uint32_t i = 0; i < f->output_count; i++) {
    char name[256], path[4096];
    run_file_name(plan->values[f->outputs[i]].name, name, sizeof name);
    if (snprintf(path, sizeof path, "%s/%s.npy", a->output, name) >= (int)sizeof path)
      return wafer_fail(cli_diag(), wafer_at_file(a->output), WAFER_IO, "the path is too long");
    WAFER_TRY(wafer_npy_write(cli_diag(), path, &outputs[i]));
  }
  return WAFER_OK;
}

wafer_status run_check_files(const char *command, const run_arguments *a, wafer_arena *arena) {
  const char *const named[] = {a->report, a->trace, a->heat, a->state_out, a->plan, a->state_in};
  enum { WRITTEN = 4 };
  size_t count = WAFER_COUNT(named);
  const char **files = WAFER_NEW(arena, const char *, count + a->input_count + a->then_count);
  if (!files) return cli_no_memory();
  memcpy(files, named, sizeof named);
  for (size_t i = 0; i < a->input_count; i++) files[count++] = a->input_paths[i];
  for (size_t i = 0; i < a->then_count; i++) files[count++] = a->then_paths[i];
  if (a->state_in && a->state_out && !strcmp(a->state_in, a->state_out))
    files[WAFER_COUNT(named) - 1] = NULL; /* read before the run, written behind it */
  WAFER_TRY(cli_check_apart(command, files, WRITTEN, count));
  for (size_t i = 0; i < WRITTEN; i++) WAFER_TRY(cli_check_output(files[i]));
  return WAFER_OK;
}
