/* What the systems of a step did, and the emulated time that follows from it (wafer/step_clock.h).
 *
 * The log is words of 64 bits, per system: end, partial sums, then per place when the weight was
 * read, then per partial sum its level, its index, and per place when the sum was ready. */
#include <stdlib.h>
#include <string.h>

#include "train_local.h"

static uint64_t *grow(local *l, size_t words) {
  if (l->log_count + words > l->log_room) {
    size_t room = 2 * (l->log_count + words);
    uint64_t *grown = realloc(l->log, room * sizeof *grown);
    if (!grown) return NULL;
    l->log = grown;
    l->log_room = room;
  }
  l->log_count += words;
  return l->log + l->log_count - words;
}

/* By place, `start` cycles later. */
static uint64_t *put_times(const local *l, uint64_t *to, uint64_t start, const uint64_t *times) {
  for (uint32_t p = 0; p < l->about.parameter_count; p++) *to++ = start + times[l->parameter[p]];
  return to;
}

wafer_status local_log(local *l, uint64_t first, uint64_t end, const wafer_answer *last,
                       const wafer_swarmx *sent) {
  const wafer_swarmx_node *nodes;
  uint32_t count = end > first ? wafer_swarmx_held(sent, &nodes) : 0;
  bool known = last->left && last->read;
  size_t places = l->about.parameter_count;
  uint64_t *to = grow(l, 2 + (known ? places + count * (2 + places) : 0));
  if (!to) return local_no_memory(l);
  *to++ = (end - first) * last->cycles;
  *to++ = known ? count : WAFER_NONE;
  if (!known) return WAFER_OK;
  to = put_times(l, to, (end - first - 1) * last->cycles, last->read);
  for (uint32_t n = 0; n < count; n++) {
    uint64_t past = (nodes[n].index + 1) << nodes[n].level; /* its last micro-batch is before */
    *to++ = nodes[n].level;
    *to++ = nodes[n].index;
    to = put_times(l, to, (past - first - 1) * last->cycles, last->left);
  }
  return WAFER_OK;
}

wafer_status local_send_log(local *l, uint32_t to) {
  uint64_t words = l->log_count;
  WAFER_TRY(local_send(l, to, &words, sizeof words));
  return local_send(l, to, l->log, words * sizeof *l->log);
}

wafer_status local_receive_log(local *l, uint32_t from) {
  uint64_t words, *to;
  WAFER_TRY(local_receive(l, from, &words, sizeof words));
  if (!words) return WAFER_OK; /* a rank without systems */
  if (!(to = grow(l, words))) return local_no_memory(l);
  return local_receive(l, from, to, words * sizeof *to);
}

/* The log's systems, in order: a rank's are followed by those of its subtree. */
static wafer_status read_log(const local *l, wafer_arena *arena, wafer_step_system *systems,
                             bool *known) {
  const uint64_t *at = l->log;
  size_t places = l->about.parameter_count;
  for (uint32_t s = 0; s < l->about.systems; s++) {
    wafer_step_system *to = &systems[s];
    to->end = *at++;
    uint64_t count = *at++;
    if (count == WAFER_NONE) {
      *known &= to->end == 0;
      continue;
    }
    to->read = at;
    at += places;
    to->partial_count = (uint32_t)count;
    wafer_step_partial *partials = WAFER_NEW(arena, wafer_step_partial, count);
    if (!partials) return local_no_memory(l);
    for (uint64_t n = 0; n < count; n++, at += 2 + places)
      partials[n] = (wafer_step_partial){(uint32_t)at[0], at[1], at + 2};
    to->partials = partials;
  }
  return WAFER_OK;
}

static wafer_status count(const local *l, wafer_arena *arena, bool waits, bool skips,
                          wafer_step_time *out) {
  bool known = l->about.machine != NULL;
  wafer_step_system *systems = WAFER_NEW(arena, wafer_step_system, l->about.systems);
  if (!systems) return local_no_memory(l);
  WAFER_TRY(read_log(l, arena, systems, &known));
  const wafer_step_run run = {.machine = l->about.machine,
                              .weight_count = l->about.parameter_count,
                              .server_count =
                                  l->about.memoryx.servers ? l->about.memoryx.servers : 1,
                              .system_count = l->about.systems,
                              .weights = l->about_weights,
                              .systems = systems,
                              .waits = waits,
                              .skips = skips};
  return known ? wafer_step_count(l->about.diag, &run, out) : WAFER_OK;
}

wafer_status local_count(local *l, bool waits, bool skips, wafer_step_time *out) {
  *out = (wafer_step_time){0};
  wafer_arena *arena = wafer_arena_create();
  wafer_status status = arena ? count(l, arena, waits, skips, out) : local_no_memory(l);
  wafer_arena_destroy(arena);
  return status;
}
