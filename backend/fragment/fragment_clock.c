#include "fragment_clock.h"

#include <string.h>

#include "fragment_walk.h"

static uint32_t deepest(const uint32_t *words, uint32_t count) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; i++)
    if (words[i] > most) most = words[i];
  return most;
}

uint64_t fragment_sender_room(const wafer_machine *m) {
  return m->hop_queue + m->ramp_cycles + deepest(m->output_queue_words, m->output_queues);
}

uint64_t fragment_taker_room(const wafer_machine *m) {
  return deepest(m->input_queue_words, m->input_queues) + m->ramp_cycles;
}

bool fragment_clock_init(fragment_clock *c, wafer_arena *arena, const wafer_machine *machine) {
  *c = (fragment_clock){.machine = machine, .arena = arena, .train = true};
  size_t cores = (size_t)machine->width * machine->height;
  c->cores = WAFER_NEW(arena, uint64_t, cores);
  c->links = WAFER_NEW(arena, fragment_burst, 4 * cores);
  c->sent = WAFER_NEW(arena, uint64_t, cores);
  c->under_way = WAFER_NEW(arena, fragment_under_way, cores);
  c->linked = WAFER_NEW(arena, fragment_under_way, cores);
  c->threads = WAFER_NEW(arena, uint32_t, cores);
  c->passes = WAFER_NEW(arena, uint32_t, cores);
  c->part = WAFER_NEW(arena, uint32_t, cores);
  return c->cores && c->links && c->sent && c->under_way && c->linked && c->threads && c->passes &&
         c->part;
}

/* A core passes word after word on: the one before it ends as much later as a word is under way; a
 * core that is done early keeps to the one before it, but for the words that queues have room for.
 */
static void follow_chain(fragment_clock *c, const fragment_chain *chain, uint64_t room, bool back) {
  const wafer_machine *m = c->machine;
  uint64_t way = 2 * (uint64_t)m->ramp_cycles + (uint64_t)m->hop_cycles * chain->distance + 1;
  size_t behind = chain->columns ? (size_t)chain->distance * m->width : chain->distance;
  for (uint32_t y = 0; y < chain->cores.height; y++)
    for (uint32_t x = 0; x < chain->cores.width; x++) {
      uint64_t *from = &c->cores[(size_t)(chain->cores.y + y) * m->width + chain->cores.x + x];
      uint64_t *to = from - behind;
      if (!back && *from + way > *to) *to = *from + way;
      if (back && chain->words > room && *to > *from + way + room) *from = *to - way - room;
      if (*to > c->last) c->last = *to;
    }
}

/* The chains of a phase. `*next`: the first of them, and of those of the next. */
static void follow_chains(const walk *w, uint32_t phase, uint32_t *next) {
  const fragment *f = w->f;
  uint32_t first = *next, end = first;
  while (end < f->chain_count && f->chains[end].phase == phase) end++;
  *next = end;
  if (end == first) return;
  uint64_t room = w->own + w->taken + f->chains[first].distance * w->link;
  for (uint32_t i = end; i-- > first;) follow_chain(w->c, &f->chains[i], room, false);
  for (uint32_t i = first; i < end; i++) follow_chain(w->c, &f->chains[i], room, true);
}

/* Up to the end of a phase; what comes behind the last is one more. */
static uint64_t cycles_of(const fragment_code *code, uint32_t phase, uint32_t phases) {
  if (phase < phases) return code->phases ? code->phases[phase] : 0;
  uint64_t left = code->cycles;
  for (uint32_t i = 0; i < phases && code->phases; i++) left -= code->phases[i];
  return left;
}

/* As fragments are linked: what is under way ends first, or goes on. */
static void wait_for_sends(fragment_clock *c, const fragment *f, const fragment_code *code,
                           size_t core) {
  c->passes[core] = 0;
  if (!c->under_way[core].count && !(f->stream && code->sends)) return;
  bool on = fragment_goes_on(c->machine, f, code);
  if (fragment_waits(c->machine, f, code, &c->under_way[core]) && c->sent[core] > c->cores[core])
    c->cores[core] = c->sent[core];
  if (!on) return;
  c->passes[core] = code->passes;
  c->cores[core] += code->sends;
}

/* Microthreads for the transfers of the code, as it is linked. */
static uint32_t threads_of(const fragment_clock *c, const fragment *f, const fragment_code *code,
                           size_t core) {
  const wafer_machine *m = c->machine;
  uint32_t before = c->linked[core].count;
  if (!c->train || c->once || (!before && !(f->stream && code->sends))) return m->microthreads - 1;
  if (fragment_waits(m, f, code, &c->linked[core])) before = 0;
  return before || fragment_goes_on(m, f, code) ? fragment_waited_for(m) : m->microthreads - 1;
}

static void enter_part(fragment_clock *c, size_t core) {
  if (c->part[core] == c->entered) return;
  c->part[core] = c->entered;
  if (c->cores[core] > c->begun) c->begun = c->cores[core];
}

static void compute(const walk *w, uint32_t phase) {
  const fragment *f = w->f;
  fragment_clock *c = w->c;
  for (uint32_t y = 0; y < f->rect.height; y++)
    for (uint32_t x = 0; x < f->rect.width; x++) {
      uint32_t code = f->variant[(size_t)y * f->rect.width + x];
      size_t core = (size_t)(f->rect.y + y) * c->machine->width + f->rect.x + x;
      uint64_t *at = &c->cores[core];
      if (code == FRAGMENT_IDLE) continue;
      if (phase == 0) c->threads[core] = threads_of(c, f, &f->codes[code], core);
      if (c->train && phase == 0) wait_for_sends(c, f, &f->codes[code], core);
      if (c->entered) enter_part(c, core);
      *at += cycles_of(&f->codes[code], phase, f->phase_count);
      if (*at > c->last) c->last = *at;
    }
}

void fragment_clock_enter(fragment_clock *c, uint32_t part) {
  if (part != c->entered) c->begun = 0;
  c->entered = part;
}

void fragment_clock_restart(fragment_clock *c, fragment_past **past, uint32_t count) {
  size_t cores = (size_t)c->machine->width * c->machine->height;
  memset(c->cores, 0, cores * sizeof *c->cores);
  memset(c->links, 0, 4 * cores * sizeof *c->links);
  memset(c->sent, 0, cores * sizeof *c->sent);
  memset(c->under_way, 0, cores * sizeof *c->under_way);
  memset(c->part, 0, cores * sizeof *c->part);
  if (!past) memset(c->linked, 0, cores * sizeof *c->linked);
  fragment_clock_enter(c, 0);
  c->edge = c->left = 0;
  c->out = (fragment_border){0};
  c->last = 0;
  for (uint32_t i = 0; i < count; i++)
    if (past[i]) past[i]->times = 0;
}

bool fragment_clock_pass(fragment_clock *c, const fragment *f, fragment_past **past) {
  const wafer_machine *m = c->machine;
  if (!*past && !(*past = walk_past(c, f))) return false;
  walk w = {.c = c,
            .f = f,
            .times = (*past)->times++,
            .border = (int64_t)f->border,
            .leaves = INT64_MAX,
            .past = (*past)->ends,
            .setup = m->vector_setup_cycles + m->descriptor_load_cycles,
            .ramp = m->ramp_cycles,
            .hop = m->hop_cycles,
            .around = (int64_t)f->around * m->hop_cycles,
            .link = m->hop_queue + m->hop_cycles - 1,
            .taken = fragment_taker_room(m)};
  w.own = fragment_sender_room(m);
  for (uint32_t phase = 0, chain = 0; phase <= f->phase_count; phase++) {
    compute(&w, phase);
    if (phase < f->phase_count) follow_chains(&w, phase, &chain);
  }
  bool made = walk_lines(&w);
  c->leaves = w.leaves;
  if (w.leaves < INT64_MAX) fragment_border_pass(&c->out, w.leaves, w.border);
  c->edge = later(c->edge, w.edge);
  c->left = later(c->left, w.left);
  return made;
}
