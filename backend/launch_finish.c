/* Pieces -> a launch: linked into one program, timed, and its bytes kept once. */
#include <string.h>

#include "launch_state.h"
#include "wafer/assembly.h"

static uint32_t find_program(const launcher *l, wafer_bytes bytes) {
  uint32_t i = 0;
  while (i < l->program_count && (l->programs[i].size != bytes.size ||
                                  memcmp(l->programs[i].data, bytes.data, bytes.size) != 0))
    i++;
  return i;
}

/* Pieces of an action stand together, and follow each other; actions run at once. */
static uint64_t longest_action(const launch_pieces *p) {
  uint64_t longest = 0, own = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    own = p->at[i]->cycles + (i > 0 && p->parts[i] == p->parts[i - 1] ? own : 0);
    if (own > longest) longest = own;
  }
  return longest;
}

wafer_status launch_finish(launcher *l, wafer_launch launch, const char *name,
                           const launch_pieces *p) {
  const wafer_machine *m = l->plan->machine;
  fragment_link link = {
      .name = name,
      .width = m->width,
      .height = m->height,
      .count = p->count,
      .at = (const fragment *const *)p->at,
      .marks = true,
      .step_count = p->step_count,
      .steps = p->steps,
      .once = p->once,
      .stripes = launch.kind == WAFER_LAUNCH_action ? wafer_launch_samples(l->plan, &launch) : 1,
      .stripe_columns = l->plan->stripe_columns};
  wafer_launch_body body = {
      .part_count = p->count, .parts = p->parts, .data_count = p->data.count, .data = p->data.at};
  wafer_fabric_program program;
  fragment_ports ports;
  link.ports = &ports;
  WAFER_TRY(fragment_link_program(&l->diag, l->arena, m, &link, &program));
  body.port_count = ports.count;
  body.ports = ports.at;
  if (!wafer_fabric_program_write(l->arena, &program, &body.program)) return launch_no_memory(l);
  wafer_bytes bytes;
  if (!wafer_launch_write(l->arena, &body, &bytes)) return launch_no_memory(l);
  launch.program = find_program(l, bytes);
  if (launch.program == l->program_count) {
    void *copy = wafer_arena_alloc(l->ctx->arena, bytes.size, 1);
    if (!copy) return launch_no_memory(l);
    memcpy(copy, bytes.data, bytes.size);
    l->programs[l->program_count++] = (wafer_bytes){copy, bytes.size};
  }
  launch.predicted = longest_action(p);
  launch.slowest = WAFER_NONE;
  launch.tap_count = p->tap_count;
  launch.taps = p->taps;
  if (launch.kind == WAFER_LAUNCH_train) WAFER_TRY(launch_time(l, p, &launch));
  l->launches[l->launch_count++] = launch;
  return WAFER_OK;
}
