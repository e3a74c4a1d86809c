/* Any bytes as a plan: what opens is checked, and what passes the check runs. Digests would refuse
 * every change at once, so an archive gets its structural digest anew; and text that begins with
 * '<' is taken for plan.xml alone, with weights of zeros. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan/plan_xml.h"
#include "runtime/zip.h"

#define MOST_BYTES (1u << 20) /* of all values of a plan that is run */

static uint64_t bytes_of(const wafer_type *type) {
  int64_t elements;
  uint64_t bytes;
  return wafer_shape_elements(&type->shape, &elements) &&
                 !__builtin_mul_overflow((uint64_t)elements, wafer_dtype_bytes(type->dtype), &bytes)
             ? bytes
             : UINT64_MAX;
}

static bool is_small(const wafer_plan *plan) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < plan->value_count; i++) {
    uint64_t bytes = bytes_of(&plan->values[i].type);
    if (bytes > MOST_BYTES || (total += bytes * plan->batch) > MOST_BYTES) return false;
  }
  return plan->batch < 64;
}

static void run(wafer_arena *arena, const wafer_plan *plan, wafer_session *session) {
  const wafer_function *f = &plan->functions[0];
  wafer_view *inputs = WAFER_NEW(arena, wafer_view, f->input_count);
  wafer_view *outputs = WAFER_NEW(arena, wafer_view, f->output_count);
  if (!inputs || !outputs) return;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const wafer_type *type = &plan->values[f->inputs[i]].type;
    void *data = wafer_arena_alloc(arena, bytes_of(type), 1);
    if (!data) return;
    memset(data, 1, bytes_of(type));
    inputs[i] = wafer_view_of(type->dtype, &type->shape, data);
  }
  for (int twice = 0; twice < 2; twice++)
    if (wafer_session_run(session, inputs, f->input_count, outputs, f->output_count) != WAFER_OK)
      return;
}

/* Of a plan that has passed wafer_plan_check. */
static void execute(wafer_arena *arena, const wafer_plan *plan) {
  wafer_session_options options = {.threads = 1};
  wafer_session *session;
  if (!is_small(plan) || wafer_session_create(plan, &options, &session) != WAFER_OK) return;
  run(arena, plan, session);
  wafer_session_destroy(session);
}

static void try_file(wafer_arena *arena, const char *path) {
  const wafer_plan *plan;
  if (wafer_plan_open(NULL, path, &plan) != WAFER_OK) return;
  if (wafer_plan_verify(NULL, plan) == WAFER_OK) execute(arena, plan);
  wafer_plan_close(plan);
}

static void try_bytes(wafer_arena *arena, const uint8_t *data, size_t size) {
  char path[64];
  int file = fuzz_file(data, size, path);
  if (file < 0) return;
  try_file(arena, path);
  close(file);
}

/* The members of an archive in a new one, with its digest. */
static void try_signed(wafer_arena *arena, const uint8_t *data, size_t size) {
  zip_entry *entries;
  wafer_bytes bytes = {data, size}, comment, parts[2];
  size_t count;
  uint64_t header = 0;
  if (zip_read(NULL, wafer_at_file("fuzz"), arena, bytes, &entries, &count, &comment) != WAFER_OK ||
      count < 3 || entries[1].data.size < 8)
    return;
  const uint8_t *weights = entries[1].data.data;
  for (int i = 0; i < 8; i++) header |= (uint64_t)weights[i] << (8 * i);
  if (header > entries[1].data.size - 8) return;
  parts[0] = (wafer_bytes){weights, 8 + header};
  parts[1] = (wafer_bytes){weights + 8 + header, entries[1].data.size - 8 - header};
  wafer_bytes *programs = WAFER_NEW(arena, wafer_bytes, count - 3);
  if (!programs) return;
  for (size_t i = 3; i < count; i++) programs[i - 3] = entries[i].data;
  plan_members members = {entries[0].data, entries[2].data,       2,
                          parts,           (uint32_t)(count - 3), programs};
  char path[] = "/tmp/wafer-fuzz-XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return;
  close(file);
  if (plan_file_save(NULL, arena, path, &members) == WAFER_OK) try_file(arena, path);
  unlink(path);
}

/* A change of a body or a type should meet more than the checks of numbers that follow from it:
 * costs, memory maps and words are computed anew where that is safe, which is after plan_check_body
 * and check_split. */
static void settle(wafer_arena *arena, const wafer_plan *plan, wafer_kernel *k) {
  plan_check c = {.file = "fuzz.xml", .plan = plan, .arena = arena};
  wafer_loops loops;
  if (plan_check_body(&c, k) != WAFER_OK) return;
  wafer_kernel_loops(&k->body, &loops);
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    uint64_t parts = (uint64_t)k->split.rows[i] * k->split.cols[i];
    if (parts < 1 || (parts > 1 && (i >= loops.count || parts > (uint64_t)loops.extent[i]))) return;
  }
  wafer_memory_item *all = WAFER_NEW(arena, wafer_memory_item, 1);
  if (!all) return;
  wafer_kernel_cost(plan->machine, &k->body, &k->split, &k->cost);
  *all = (wafer_memory_item){"all", "", wafer_cost_bytes(&k->cost)};
  k->memory = all;
  k->memory_count = 1;
}

static void settle_all(wafer_arena *arena, wafer_plan *plan) {
  for (uint32_t i = 0; i < plan->kernel_count; i++)
    settle(arena, plan, (wafer_kernel *)&plan->kernels[i]);
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    wafer_stream *stream = (wafer_stream *)&plan->streams[i];
    if (stream->value >= plan->value_count) continue;
    uint64_t bytes = bytes_of(&plan->values[stream->value].type);
    stream->words = bytes / WAFER_WAVELET_BYTES + (bytes % WAFER_WAVELET_BYTES != 0);
  }
}

static void try_xml(wafer_arena *arena, const uint8_t *data, size_t size) {
  wafer_plan plan = {.model = "fuzz"};
  if (plan_xml_read(NULL, arena, "fuzz.xml", (const char *)data, size, &plan) != WAFER_OK) return;
  if (wafer_plan_check(NULL, "fuzz.xml", &plan) != WAFER_OK) settle_all(arena, &plan);
  if (wafer_plan_check(NULL, "fuzz.xml", &plan) != WAFER_OK || !is_small(&plan)) return;
  for (size_t i = 0; i < wafer_weights_count(plan.weights); i++) {
    wafer_weight *weight = wafer_weights_at(plan.weights, i);
    if (weight->bytes > MOST_BYTES) weight->data = NULL;
    if (!weight->data) continue;
    if (!(weight->data = wafer_arena_alloc(arena, weight->bytes, 1))) return;
  }
  plan.mlir = "";
  execute(arena, &plan);
  char *text;
  size_t bytes;
  if (wafer_plan_print_xml(NULL, &plan, &text, &bytes) == WAFER_OK) free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  wafer_arena *arena = wafer_arena_create();
  if (arena && size > 0 && data[0] == '<')
    try_xml(arena, data, size);
  else if (arena) {
    try_bytes(arena, data, size);
    try_signed(arena, data, size);
  }
  wafer_arena_destroy(arena);
  return 0;
}
