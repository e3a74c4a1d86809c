/* Telling a watcher what a run did when. A launch of weight streaming is one span; of a pipeline
 * the marks say when each action began and ended at each sample. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"

static wafer_span span_of(const wafer_phase *phase, const fabric_launch *l, uint32_t action) {
  const wafer_action *a = &phase->actions[action];
  wafer_span span = {.kind = WAFER_SPAN_stream, .index = a->index};
  if (a->kind == WAFER_ACTION_kernel) span.kind = WAFER_SPAN_kernel;
  if (l->of->kind == WAFER_LAUNCH_load) span.kind = WAFER_SPAN_load;
  return span;
}

/* Loads that follow each other over the border are told one after the other. */
static void tell(const session_fabric *s, wafer_span span, uint64_t start, uint64_t end) {
  if (start < s->told) start = s->told;
  span.start = start;
  span.cycles = end - start;
  if (end > start) s->watch->span(s->watch->self, &span);
}

/* ---- beginning and end ---- */

wafer_status session_fabric_watch_begin(session_fabric *s, const wafer_watch *watch) {
  const wafer_machine *m = wafer_machine_whole(s->plan->machine);
  size_t cores = (size_t)m->width * m->height;
  s->marks.since = calloc(cores, sizeof *s->marks.since);
  if (!s->marks.since) return session_fabric_no_memory(s);
  s->watch = watch;
  if (!watch->core_count) return WAFER_OK;
  s->watched = calloc(cores, sizeof *s->watched);
  if (!s->watched) return session_fabric_no_memory(s);
  for (uint32_t i = 0; i < watch->core_count; i++) {
    const wafer_core_at *at = &watch->cores[i];
    if (at->x >= m->width || at->y >= m->height)
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                        "core %u,%u is outside the %ux%u cores of %s", at->x, at->y, m->width,
                        m->height, m->name);
    s->watched[(size_t)at->y * m->width + at->x] = true;
  }
  return WAFER_OK;
}

wafer_status session_fabric_watch_train(session_fabric *s, const fabric_launch *l) {
  size_t actions = session_fabric_phase(s, l)->action_count;
  free(s->marks.times);
  s->marks.times = NULL;
  if (!s->watch || l->of->kind != WAFER_LAUNCH_train) return WAFER_OK;
  if (actions && s->marks.samples > SIZE_MAX / actions) return session_fabric_no_memory(s);
  s->marks.times = calloc(actions * s->marks.samples + 1, sizeof *s->marks.times);
  return s->marks.times ? WAFER_OK : session_fabric_no_memory(s);
}

void session_fabric_watch_end(session_fabric *s) {
  free(s->watched);
  free(s->marks.since);
  free(s->marks.times);
}

/* ---- what happens ---- */

/* Samples before those of the stripe that a core of a band's column is in. */
static uint64_t before_stripe(const session_fabric *s, const fabric_launch *l, uint32_t x) {
  const wafer_plan *plan = s->plan;
  if (l->of->kind != WAFER_LAUNCH_action || wafer_launch_samples(plan, l->of) == 1) return 0;
  uint32_t left = wafer_plan_first_column(plan);
  return x < left ? 0 : (uint64_t)((x - left) / plan->stripe_columns) * s->marks.bands;
}

void session_fabric_watch_part(session_fabric *s, size_t core, uint32_t part, uint64_t sample,
                               uint64_t since, uint64_t cycle) {
  const fabric_launch *l = s->running;
  const wafer_phase *phase = session_fabric_phase(s, l);
  if (part >= l->body.part_count || l->body.parts[part] >= phase->action_count ||
      sample >= s->marks.samples)
    return;
  uint32_t action = l->body.parts[part];
  if (s->marks.times) {
    fabric_part_time *t = &s->marks.times[sample * phase->action_count + action];
    if (!t->last || since < t->first) t->first = since;
    if (cycle > t->last) t->last = cycle;
  }
  if (!s->watched || !s->watched[core] || cycle == since) return;
  wafer_span span = span_of(phase, l, action);
  span.of_core = true;
  span.x = (uint32_t)(core % wafer_machine_whole(s->plan->machine)->width);
  span.y = (uint32_t)(core / wafer_machine_whole(s->plan->machine)->width);
  span.sample = s->sample + before_stripe(s, l, span.x);
  if (l->of->kind != WAFER_LAUNCH_load) span.sample += sample; /* else of all */
  tell(s, span, s->start + since, s->start + cycle);
}

/* A core begins the next sample while others are at this one: a span begins where the one before
 * has ended. Bands do the same at the same time: of the first is told. */
static void tell_train(const session_fabric *s, const fabric_launch *l) {
  const wafer_phase *phase = session_fabric_phase(s, l);
  for (uint32_t a = 0; a < phase->action_count; a++) {
    uint64_t free_from = 0;
    for (uint64_t i = 0; i < s->marks.samples; i += s->marks.bands) {
      const fabric_part_time *t = &s->marks.times[i * phase->action_count + a];
      uint64_t first = t->first > free_from ? t->first : free_from;
      if (t->last <= first) continue;
      wafer_span span = span_of(phase, l, a);
      span.sample = i;
      span.start = s->start + first;
      span.cycles = t->last - first;
      free_from = t->last;
      s->watch->span(s->watch->self, &span);
    }
  }
}

void session_fabric_watch_launch(const session_fabric *s, const fabric_launch *l, uint64_t cycles) {
  const wafer_phase *phase = session_fabric_phase(s, l);
  if (!s->watch) return;
  if (l->of->kind == WAFER_LAUNCH_train) {
    tell_train(s, l);
    return;
  }
  uint32_t action = l->of->action;
  if (l->of->kind == WAFER_LAUNCH_load)
    action = l->body.part_count ? l->body.parts[0] : phase->action_count;
  if (action >= phase->action_count || !cycles) return;
  for (uint32_t a = action; a < wafer_phase_run_end(phase, action); a++) {
    wafer_span span = span_of(phase, l, a);
    span.sample = s->sample;
    tell(s, span, s->start, s->start + session_fabric_action_cycles(s, l, a, cycles));
  }
}
