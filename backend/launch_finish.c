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

/* ---- the time of a train ---- */

#define TRAIN_SAMPLES 8

typedef struct train_clock {
  uint64_t *free; /* per kernel: when its cores have done the pieces so far */
  uint64_t end;   /* of the sample */
} train_clock;

/* A kernel takes its own cores. A stream takes those of its source from when they are free until
 * the last words have left, and those of its target from when the first arrive. */
static void pass_piece(const launcher *l, const wafer_phase *phase, uint32_t action,
                       const fragment *f, train_clock *c) {
  const wafer_action *a = &phase->actions[action];
  uint32_t from = a->index, to = WAFER_NONE;
  if (a->kind == WAFER_ACTION_stream) {
    from = l->plan->streams[a->index].from_kernel;
    to = l->plan->streams[a->index].to_kernel;
  }
  uint64_t start = from == WAFER_NONE ? 0 : c->free[from];
  if (to != WAFER_NONE && c->free[to] > start + f->lead) start = c->free[to] - f->lead;
  if (from != WAFER_NONE) c->free[from] = start + f->cycles - f->tail;
  if (to != WAFER_NONE) c->free[to] = start + f->cycles;
  if (start + f->cycles > c->end) c->end = start + f->cycles;
}

/* The kernel whose cores have most to do of a sample. */
static uint32_t slowest_kernel(const launcher *l, const launch_pieces *p,
                               const wafer_phase *phase) {
  uint32_t slowest = WAFER_NONE;
  uint64_t most = 0;
  for (uint32_t k = 0; k < l->plan->kernel_count; k++) {
    uint64_t cycles = 0;
    for (uint32_t i = 0; i < p->count; i++) {
      const wafer_action *a = &phase->actions[p->parts[i]];
      const wafer_stream *t = &l->plan->streams[a->index];
      bool own =
          a->kind == WAFER_ACTION_stream ? t->from_kernel == k || t->to_kernel == k : a->index == k;
      if (own) cycles += p->at[i]->cycles;
    }
    if (cycles <= most) continue;
    most = cycles;
    slowest = k;
  }
  return slowest;
}

/* Cores go through their pieces in the order of the phase, sample after sample. */
static wafer_status time_train(launcher *l, const launch_pieces *p, wafer_launch *launch) {
  const wafer_phase *phase = &l->plan->phases[launch->phase];
  train_clock c = {.free = WAFER_NEW(l->arena, uint64_t, l->plan->kernel_count)};
  uint64_t ends[TRAIN_SAMPLES], half = TRAIN_SAMPLES / 2;
  if (!c.free) return launch_no_memory(l);
  for (uint32_t s = 0; s < TRAIN_SAMPLES; s++) {
    for (uint32_t i = 0; i < p->count; i++) pass_piece(l, phase, p->parts[i], p->at[i], &c);
    ends[s] = c.end;
  }
  launch->predicted = ends[0];
  launch->slowest = slowest_kernel(l, p, phase);
  launch->interval = (ends[TRAIN_SAMPLES - 1] - ends[TRAIN_SAMPLES - 1 - half] + half - 1) / half;
  return WAFER_OK;
}

wafer_status launch_finish(launcher *l, wafer_launch launch, const char *name,
                           const launch_pieces *p) {
  const wafer_machine *m = l->plan->machine;
  fragment_link link = {.name = name,
                        .width = m->width,
                        .height = m->height,
                        .count = p->count,
                        .at = (const fragment *const *)p->at,
                        .train = launch.kind == WAFER_LAUNCH_train,
                        .marks = true};
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
  for (uint32_t i = 0; i < p->count; i++) launch.predicted += p->at[i]->cycles;
  launch.slowest = WAFER_NONE;
  launch.tap_count = p->tap_count;
  launch.taps = p->taps;
  if (launch.kind == WAFER_LAUNCH_train) WAFER_TRY(time_train(l, p, &launch));
  l->launches[l->launch_count++] = launch;
  return WAFER_OK;
}
