/* Creation, the cycle loop, and the wheel in which sleeping cores wait for their cycle. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric_islands.h"
#include "router.h"
#include "wafer/fault.h"

#define AHEAD 4   /* visits, of fetching */
#define NEAR 4096 /* cores that stay in the cache as they are */

wafer_status fabric_trap(const wafer_fabric *f, uint32_t router, const char *format, ...) {
  uint32_t core = f->core_of[router];
  const wafer_core_program *p = core == FABRIC_NONE ? NULL : f->cores[core].program;
  fabric_caught *caught = f->caught;
  bool sooner = caught->any && caught->loc.cycle < f->now; /* in another island */
  if (sooner || (caught->any && caught->loc.cycle == f->now && caught->router <= router))
    return WAFER_TRAP;
  va_list list;
  va_start(list, format);
  vsnprintf(caught->text, sizeof caught->text, format, list);
  va_end(list);
  caught->any = true;
  caught->router = router;
  caught->loc = (wafer_loc){.kind = WAFER_AT_CORE,
                            .file = f->program->name,
                            .name = p ? p->name : NULL,
                            .node = p ? p->node : NULL,
                            .x = router % f->program->width,
                            .y = router / f->program->width,
                            .cycle = f->now};
  return WAFER_TRAP;
}

wafer_status fabric_tell_trap(const wafer_fabric *f) {
  fabric_caught *first = f->caught;
  for (uint32_t i = 1; i < f->strip_count; i++) {
    fabric_caught *caught = f->strips[i]->caught;
    if (caught->any && (!first->any || caught->router < first->router)) first = caught;
  }
  if (!first->any) return WAFER_TRAP;
  first->any = false;
  return wafer_fail(f->diag, first->loc, WAFER_TRAP, "%s", first->text);
}

/* ---- the wheel: a bucket per cycle, modulo its size. A core that is woken earlier than thought
 * stays in the later bucket as well, where it is passed over ---- */

static inline void wake_at(wafer_fabric *f, uint32_t at, uint64_t cycle) {
  fabric_core *core = &f->cores[at];
  if (core->awake || cycle >= core->wake) return;
  core->wake = cycle;
  fabric_put(f, &f->wheel[cycle % FABRIC_WHEEL], at);
}

void fabric_wake(wafer_fabric *f, uint32_t at, uint64_t cycle) {
  f->cores[at].still = 0;
  wake_at(fabric_home(f, f->cores[at].strip), at, cycle);
}

static void collect_awake(wafer_fabric *f) {
  fabric_bucket *bucket = &f->wheel[f->now % FABRIC_WHEEL];
  uint32_t kept = 0;
  for (uint32_t i = 0; i < bucket->count; i++) {
    if (i + AHEAD < bucket->count) __builtin_prefetch(&f->cores[bucket->at[i + AHEAD]].wake, 1);
    uint32_t at = bucket->at[i];
    fabric_core *core = &f->cores[at];
    bool stays = core->wake % FABRIC_WHEEL == f->now % FABRIC_WHEEL && core->wake != FABRIC_NEVER;
    if (core->awake || !stays) continue;
    if (core->wake > f->now) {
      bucket->at[kept++] = at;
      continue;
    }
    core->wake = FABRIC_NEVER;
    core->awake = true;
    f->awake[f->awake_count++] = at;
  }
  bucket->count = kept;
}

/* The first cycle, from the present one on, in which a sleeping core of the strip wakes. */
static uint64_t next_wake_in(const wafer_fabric *f) {
  uint64_t first = FABRIC_NEVER;
  for (uint32_t i = 0; i < FABRIC_WHEEL; i++) {
    const fabric_bucket *bucket = &f->wheel[(f->now + i) % FABRIC_WHEEL];
    for (uint32_t k = 0; k < bucket->count; k++) {
      uint64_t wake = f->cores[bucket->at[k]].wake;
      if (wake == f->now + i) return wake;
      if (wake < first) first = wake;
    }
  }
  return first;
}

/* ---- cycles ---- */

/* Visits in an order of its own: a test proves that none matters. */
static void shuffle(wafer_fabric *f, uint32_t *list, uint32_t count) {
  for (uint32_t i = count; f->shuffle && i > 1; i--) {
    f->shuffle = f->shuffle * 6364136223846793005u + 1442695040888963407u;
    uint32_t other = (uint32_t)(f->shuffle >> 33) % i, kept = list[i - 1];
    list[i - 1] = list[other];
    list[other] = kept;
  }
}

void fabric_pass_mark(wafer_fabric *f, uint32_t router, int32_t value) {
  fabric_keep_mark(f, f->now, router, value);
}

void fabric_keep_mark(wafer_fabric *f, uint64_t cycle, uint32_t router, int32_t value) {
  if (f->marked_count == f->marked_room) {
    uint32_t room = f->marked_room ? 2 * f->marked_room : 64;
    fabric_marked *more = realloc(f->marked, room * sizeof *more);
    f->failed |= !more;
    if (!more) return;
    f->marked = more;
    f->marked_room = room;
  }
  f->marked[f->marked_count] = (fabric_marked){cycle, router, f->marked_count, value};
  f->marked_count++;
}

static int compare_marks(const void *left, const void *right) {
  const fabric_marked *a = left, *b = right;
  if (a->cycle != b->cycle) return a->cycle < b->cycle ? -1 : 1;
  if (a->router != b->router) return a->router < b->router ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

/* Those of all strips, of each core in its own order. */
static void tell_marks(wafer_fabric *f) {
  uint32_t width = f->program->width;
  for (uint32_t i = 1; i < f->strip_count; i++) {
    wafer_fabric *s = f->strips[i];
    for (uint32_t k = 0; k < s->marked_count; k++)
      fabric_pass_mark(f, s->marked[k].router, s->marked[k].value);
    s->marked_count = 0;
  }
  if (f->marked_count > 1) qsort(f->marked, f->marked_count, sizeof *f->marked, compare_marks);
  for (uint32_t i = 0; i < f->marked_count; i++) {
    const fabric_marked *m = &f->marked[i];
    f->mark(f->mark_user, m->router % width, m->router / width, fabric_since_open(f, m->cycle),
            m->value);
  }
  f->marked_count = 0;
}

/* Ahead of their turn: cores, then their first microthreads, then the memory that those use. */
static void fetch_cores(const wafer_fabric *f, uint32_t i) {
  if (i + 3 * AHEAD < f->awake_count) {
    const char *core = (const char *)&f->cores[f->awake[i + 3 * AHEAD]];
    __builtin_prefetch(core, 1);
    __builtin_prefetch(core + 64, 1);
    __builtin_prefetch(core + 128, 1);
  }
  if (i + 2 * AHEAD < f->awake_count) {
    const fabric_core *core = &f->cores[f->awake[i + 2 * AHEAD]];
    if (core->state == CORE_RUN) __builtin_prefetch(core->program);
    for (uint32_t left = core->running; left; left &= left - 1) {
      const char *thread = (const char *)&core->threads[__builtin_ctz(left)];
      __builtin_prefetch(thread, 1);
      __builtin_prefetch(thread + 64, 1);
    }
  }
  if (i + AHEAD < f->awake_count) core_fetch(f, f->awake[i + AHEAD]);
}

/* Who has trapped is not visited again: all ends with this cycle. */
static wafer_status visit_cores(wafer_fabric *f) {
  wafer_status status = WAFER_OK;
  collect_awake(f);
  shuffle(f, f->awake, f->awake_count);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < f->awake_count; i++) {
    if (f->core_count > NEAR) fetch_cores(f, i);
    uint32_t at = f->awake[i];
    uint64_t next;
    wafer_status one = core_visit(f, at, &next);
    if (one != WAFER_OK) status = one;
    if (f->deferred) fabric_put(f, &f->later, at);
    f->deferred = false;
    if (next == f->now + 1) {
      f->awake[kept++] = at;
      continue;
    }
    f->cores[at].awake = false;
    if (next != FABRIC_NEVER) wake_at(f, at, next);
  }
  f->awake_count = kept;
  return status;
}

wafer_status fabric_step(wafer_fabric *f) {
  wafer_status status = visit_cores(f);
  shuffle(f, f->asked.at, f->asked.count);
  fabric_bucket *bucket = &f->bucket_of[f->now % FABRIC_BUCKETS];
  shuffle(f, bucket->at, bucket->count);
  wafer_status routed = fabric_route(f);
  return status != WAFER_OK ? status : routed;
}

wafer_status fabric_step_rest(wafer_fabric *f) {
  wafer_status status = WAFER_OK;
  fabric_tell_of_pops(f);
  for (uint32_t i = 0; i < f->later.count; i++) {
    uint64_t next = FABRIC_NEVER;
    wafer_status one = core_visit_sends(f, f->later.at[i], &next);
    if (one != WAFER_OK) status = one;
    if (next != FABRIC_NEVER) wake_at(f, f->later.at[i], next);
  }
  f->later.count = 0;
  wafer_status routed = fabric_route(f);
  return status != WAFER_OK ? status : routed;
}

static wafer_status fits_host(const wafer_fabric *f) {
  return f->failed ? wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                                "what there is to do in a cycle does not fit the host")
                   : WAFER_OK;
}

static wafer_status cycle(wafer_fabric *f) {
  f->moved = false;
  for (uint32_t i = 1; i < f->strip_count; i++) f->strips[i]->now = f->now;
  if (f->faults && f->now >= f->fault_due) WAFER_TRY(fabric_faults_strike(f));
  if (f->edges_left) fabric_edge_cycle(f);
  fabric_islands_work(f);
  WAFER_TRY(f->strip_count > 1 ? fabric_strips_cycle(f) : fabric_step(f));
  if (f->mark && !(f->islands && f->islands->depth)) tell_marks(f);
  return fits_host(f);
}

/* Is anything to be done in the present cycle? */
static bool rests(const wafer_fabric *f) {
  bool rest = true;
  for (uint32_t i = 0; i < f->strip_count && rest; i++)
    rest = !f->strips[i]->awake_count && fabric_rests(f->strips[i]);
  return rest;
}

static uint64_t next_wake(const wafer_fabric *f) {
  uint64_t first = FABRIC_NEVER;
  for (uint32_t i = 0; i < f->strip_count; i++) {
    f->strips[i]->now = f->now;
    uint64_t next = next_wake_in(f->strips[i]);
    if (next < first) first = next;
  }
  return first;
}

/* Before stamps come round. */
static void begin_era(wafer_fabric *f) {
  const fabric_island *here = f->islands ? &f->islands->here : NULL;
  f->era = fabric_era(f);
  for (uint32_t i = 0; i < f->strip_count; i++) f->strips[i]->now = f->now;
  for (uint32_t i = 0; i < (here ? here->core_count : f->core_count); i++)
    core_catch_up(f, here ? here->cores[i] : i);
  fabric_refresh(f);
}

static uint64_t limit_of(const wafer_fabric *f) {
  return f->islands ? f->islands->here.limit : FABRIC_NEVER;
}

/* The next cycle in which something is to be done; FABRIC_NEVER: nothing moves any more. */
static uint64_t next_cycle(wafer_fabric *f) {
  uint64_t next = next_wake(f);
  if (next != FABRIC_NEVER || limit_of(f) != FABRIC_NEVER) return next;
  if (fabric_end_fans(f)) next = next_wake(f);
  if (next == FABRIC_NEVER && core_end_patience(f)) next = next_wake(f);
  return next;
}

wafer_status fabric_loop(wafer_fabric *f) {
  for (bool divided; f->now < limit_of(f);) {
    bool edge = f->edges_left && f->moved;
    if (!edge && f->now && rests(f)) {
      uint64_t next = next_cycle(f);
      if (next == FABRIC_NEVER) return WAFER_OK;
      f->now = next;
      if (next >= limit_of(f)) return WAFER_OK;
    }
    if (fabric_era(f) != f->era) begin_era(f);
    if (fabric_islands_due(f)) {
      WAFER_TRY(fabric_divide(f, &divided));
      WAFER_TRY(fits_host(f));
      if (divided) continue;
    }
    WAFER_TRY(cycle(f));
    if (f->now % 65536 == 0 && wafer_cancelled(f->diag)) return WAFER_USAGE;
    f->now++;
  }
  return WAFER_OK;
}

/* The cycle from which on no core did anything, nor the host. The last in which the emulation had
 * something to look at depends on what it did ahead of time. */
static uint64_t at_rest(const wafer_fabric *f) {
  uint64_t last = f->edge_finish;
  for (uint32_t at = 0; at < f->core_count; at++) {
    const fabric_core *core = &f->cores[at];
    if (core->finish > last) last = core->finish;
    if (core->worked_to > last) last = core->worked_to;
  }
  return last;
}

wafer_status wafer_fabric_run(wafer_fabric *f, wafer_fabric_stats *stats) {
  *stats = (wafer_fabric_stats){0};
  if (f->ran)
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_USAGE,
                      "a program runs once; reprogram the fabric");
  f->ran = true;
  WAFER_TRY(fabric_edge_begin(f));
  WAFER_TRY(fabric_load_begin(f));
  WAFER_TRY(router_bits_begin(f));
  WAFER_TRY(fabric_strips_begin(f));
  WAFER_TRY(fabric_islands_begin(f));
  for (uint32_t at = 0; at < f->core_count; at++) fabric_wake(f, at, 0);
  wafer_status status = fabric_loop(f);
  if (f->mark)
    tell_marks(f); /* islands keep them until a cycle of the whole, which need not come */
  if (status == WAFER_OK) {
    f->now = at_rest(f);
    router_bits_end(f);
    status = fabric_settle(f);
  }
  fabric_strips_end(f);
  if (status == WAFER_USAGE)
    wafer_fail(f->diag, wafer_at_file(f->program->name), status, "cancelled");
  if (status == WAFER_TRAP) fabric_tell_trap(f);
  if (status != WAFER_OK) wafer_fabric_note_faults(f);
  WAFER_TRY(status);
  f->stats.cycles = f->edge_finish;
  for (uint32_t at = 0; at < f->core_count; at++) {
    if (f->cores[at].finish > f->stats.cycles) f->stats.cycles = f->cores[at].finish;
    core_count_ahead(&f->cores[at]);
    f->stats.core_cycles += f->cores[at].worked;
  }
  f->stats.cycles = fabric_since_open(f, f->stats.cycles);
  f->stats.border = fabric_since_open(f, f->edge_finish);
  *stats = f->stats;
  return WAFER_OK;
}

void wafer_fabric_shuffle(wafer_fabric *f, uint64_t seed) {
  f->shuffle = seed;
}
uint64_t wafer_fabric_finish(const wafer_fabric *f, uint32_t x, uint32_t y) {
  uint32_t at = f->core_of[y * f->program->width + x];
  return at == FABRIC_NONE ? 0 : f->cores[at].finish;
}
