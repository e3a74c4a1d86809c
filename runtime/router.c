/* A cycle of all routers. A queue whose front could go over a link stands in the mask of that link;
 * a link takes one wavelet a cycle, in turn between those in its mask. A queue asks again when its
 * front becomes ready or room comes up before it: nobody is visited in vain.
 *
 * Most queues have one way on, and ask for its link as soon as their front is ready: whether there
 * is room beyond is seen when the link serves them. Those of which more is to be known (several
 * ways, a switch, a filter at the next core) are looked at first, and ask when there is room. */
#include <stdlib.h>
#include <string.h>

#include "fabric_state.h"

#define AHEAD 8  /* visits, of fetching */
#define BATCH 16 /* links that are served together */

bool fabric_more_room(wafer_fabric *f, fabric_bucket *bucket) {
  uint32_t room = bucket->room ? 2 * bucket->room : 64;
  uint32_t *at = realloc(bucket->at, room * sizeof *at);
  f->failed |= !at;
  if (!at) return false;
  bucket->at = at;
  bucket->room = room;
  return true;
}

/* What is asked for in so many cycles, or as far ahead as there are buckets: it is seen then that
 * it is too early. */
static inline void ask_in(wafer_fabric *f, uint32_t asked, uint32_t delay) {
  if (delay >= FABRIC_BUCKETS) delay = FABRIC_BUCKETS - 1;
  fabric_put(f, &f->bucket_of[(f->now + delay) % FABRIC_BUCKETS], asked);
}

/* A look sees when there is something to do, and arms again: so the earliest is enough. */
static inline void arm(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  if (delay >= FABRIC_BUCKETS) delay = FABRIC_BUCKETS - 1;
  uint32_t bucket = (uint32_t)(f->now + delay) % FABRIC_BUCKETS;
  if (q->armed && (q->armed - 1u - (uint32_t)f->now) % FABRIC_BUCKETS <= delay) return;
  q->armed = (uint8_t)(bucket + 1);
  fabric_put(f, &f->bucket_of[bucket], q->ask);
}

static inline void ask(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  if (q->ask & FABRIC_LOOK)
    arm(f, q, delay);
  else
    ask_in(f, q->ask, delay);
}

bool fabric_rests(const wafer_fabric *f) {
  uint32_t asked = f->active_count;
  for (uint32_t i = 0; i < FABRIC_BUCKETS && !asked; i++) asked |= f->bucket_of[i].count;
  return !asked;
}

static uint8_t all_outs(const fabric_node *q) {
  return (uint8_t)((1u << q->outs) - 1);
}

static inline void push(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  uint32_t at = q->head + q->count++;
  if (at >= q->capacity) at -= q->capacity;
  entry.ready = fabric_stamp(f->now + delay);
  q->entries[at] = entry;
  if (f->entered) f->entered[node]++;
  if (q->to_core)
    fabric_wake(f, f->sites[node].core, f->now + delay);
  else if (q->at_edge)
    f->moved = true;
  else if (q->count == 1)
    ask(f, q, delay);
}

/* Cycles from now to this cycle, 0: it has been. */
static inline uint32_t until(const wafer_fabric *f, uint32_t stamp) {
  uint32_t wait = (stamp - fabric_stamp(f->now)) & FABRIC_STAMP_MASK;
  return wait >> (FABRIC_STAMP_BITS - 1) ? 0 : wait;
}

/* An empty queue that wavelets pass: the first cycle in which another may leave it, its last one
 * being ahead of time. */
static inline uint32_t after_last(const wafer_fabric *f, const fabric_node *q) {
  uint32_t last = q->head ? q->head - 1u : q->capacity - 1u;
  return until(f, q->entries[last].ready - q->credit + 1u);
}

/* Does a wavelet that may leave q `*delay` cycles from now pass a core that does not want it? Then
 * `*delay` becomes that of the cycle in which there is room beyond: it leaves in that cycle, for
 * its link leads out of no other queue, and room that is there stays. */
static inline bool passes(const wafer_fabric *f, const fabric_node *q, uint32_t control,
                          uint32_t *delay) {
  fabric_filter *filter = &f->filters[q->filter];
  if (!fabric_skips(filter) || (q->switched && control)) return false;
  uint32_t room = q->outs > 1 ? fabric_room_in(f, &f->nodes[f->outs[q->first_out].node], 1) : 0;
  if (room == FABRIC_NONE) return false;
  if (room > *delay) *delay = room;
  if (*delay >= FABRIC_SOON) return false;
  fabric_filter_step(filter);
  return true;
}

/* The slot of a wavelet that leaves `delay` cycles from now is free in the cycle after. */
static inline void go_through(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  q->entries[q->head].ready = fabric_stamp(f->now + delay + q->credit);
  if (++q->head == q->capacity) q->head = 0;
  f->moved |= q->from == FABRIC_NONE; /* the host may have waited for room */
}

/* A push, at once through all routers on the way whose queues are empty and whose cores do not want
 * the wavelet. */
static inline void send_on(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  while (q->passed && !q->count) {
    uint32_t free_from = after_last(f, q);
    if (free_from > delay) delay = free_from;
    if (!passes(f, q, entry.control, &delay)) break;
    if (f->entered) f->entered[node]++;
    go_through(f, q, delay);
    if (q->outs == 1) return; /* nobody wants it */
    const fabric_out *on = &f->outs[q->first_out];
    f->stats.hops += on->hops;
    delay += on->latency;
    node = on->node;
    q = &f->nodes[node];
  }
  push(f, node, entry, delay);
}

void fabric_push(wafer_fabric *f, uint32_t node, uint32_t word, uint32_t control, uint32_t delay) {
  fabric_site *site = &f->sites[node];
  site->used = true;
  f->stats.hops += site->far;
  send_on(f, node, (fabric_entry){.word = word, .control = control & 3}, delay + site->late);
}

/* The queue that writes into q, whose slot is room `credit` cycles from now. */
static void tell_writer(wafer_fabric *f, fabric_node *q) {
  q->awaited = false;
  const fabric_switch *s = q->by_switch ? &f->switches[q->from] : NULL;
  ask(f, &f->nodes[s ? s->nodes[s->position] : q->from], q->credit);
}

static inline void pop(wafer_fabric *f, fabric_node *q) {
  if (q->awaited) tell_writer(f, q);
  q->entries[q->head].ready = fabric_stamp(f->now + q->credit);
  if (++q->head == q->capacity) q->head = 0;
  q->count--;
  q->pending = all_outs(q);
  if (q->from == FABRIC_NONE) f->moved = true; /* the host may have waited for room */
}

/* A core that waits for room wants some words of it. */
static inline void tell_core(wafer_fabric *f, uint32_t node, const fabric_node *q) {
  if (q->count + CORE_STEP_WORDS >= q->capacity)
    fabric_wake(f, f->sites[node].writer, f->now + q->credit);
}

void fabric_pop(wafer_fabric *f, fabric_node *q) {
  pop(f, q);
  if (q->from_core) tell_core(f, (uint32_t)(q - f->nodes), q);
}

void fabric_lose(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  for (uint32_t i = 0; i < q->outs; i++) {
    const fabric_out *out = &f->outs[q->first_out + i];
    f->links[out->link].mask[out->rank / 64] &= ~(1ull << out->rank % 64);
  }
  fabric_pop(f, q);
  if (q->count && !q->to_core) ask(f, q, 1);
}

void fabric_refresh(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    for (uint32_t k = 0; k < q->capacity && !q->gone; k++) {
      fabric_entry *entry = &q->entries[k];
      uint32_t wait = (entry->ready - fabric_stamp(f->now)) & FABRIC_STAMP_MASK;
      if (wait > FABRIC_SOON) entry->ready = fabric_stamp(f->now);
    }
  }
}

bool fabric_skips(const fabric_filter *filter) {
  return filter->at % 2 == 0 || filter->at == filter->rule->run_count;
}

/* On to a run that is not empty. */
static void next_run(fabric_filter *filter) {
  const wafer_filter *rule = filter->rule;
  while (!filter->left && filter->at < rule->run_count) {
    if (++filter->at == rule->run_count && rule->repeat) filter->at = 0;
    if (filter->at < rule->run_count) filter->left = rule->runs[filter->at];
  }
}

void fabric_filter_start(fabric_filter *filter, const wafer_filter *rule) {
  *filter = (fabric_filter){.rule = rule, .left = rule->run_count ? rule->runs[0] : 0};
  next_run(filter);
}

void fabric_filter_step(fabric_filter *filter) {
  if (filter->left) filter->left--;
  next_run(filter);
}

/* The front of q has taken its last link: the next one may go in the next cycle. */
static inline void leave(wafer_fabric *f, uint32_t node, fabric_node *q, uint32_t control) {
  pop(f, q);
  if (q->count && !fabric_wait(f, q)) q->entries[q->head].ready = fabric_stamp(f->now + 1);
  if (q->from_core) tell_core(f, node, q);
  if (!control || !q->switched) return;
  q->passed = false; /* it may be another that goes on */
  f->turning[f->turning_count++] = (fabric_turn){f->sites[node].sw, control == WAFER_CONTROL_reset};
}

static inline void set_bit(wafer_fabric *f, uint32_t asked) {
  uint32_t rank = asked % FABRIC_CANDIDATES;
  fabric_link *link = &f->links[asked >> FABRIC_RANK_BITS];
  link->mask[rank / 64] |= 1ull << rank % 64;
  f->active[f->active_count] = asked >> FABRIC_RANK_BITS;
  f->active_count += !link->listed;
  link->listed = true;
}

/* The core does not want the front of q: it passes by without a link or room. */
static bool skip(wafer_fabric *f, uint32_t node, fabric_node *q, uint32_t branch, uint32_t to) {
  fabric_filter *filter = &f->filters[f->sites[to].filter];
  if (!fabric_skips(filter)) return false;
  uint32_t control = fabric_front(q)->control;
  fabric_filter_step(filter);
  q->pending &= (uint8_t)(31u & ~(1u << branch));
  if (q->pending) return true;
  leave(f, node, q, control);
  if (q->count) arm(f, q, fabric_wait(f, q));
  return true;
}

/* Those in q that pass its core go on at once, also before they can. */
static void run_ahead(wafer_fabric *f, uint32_t node, fabric_node *q) {
  while (q->passed && q->count && q->pending == all_outs(q)) {
    fabric_entry entry = *fabric_front(q);
    uint32_t delay = fabric_wait(f, q);
    if (!passes(f, q, entry.control, &delay)) return;
    if (q->awaited) tell_writer(f, q);
    go_through(f, q, delay);
    q->count--;
    if (q->from_core) tell_core(f, node, q);
    if (q->count && fabric_wait(f, q) <= delay)
      q->entries[q->head].ready = fabric_stamp(f->now + delay + 1);
    if (q->outs == 1) continue;
    const fabric_out *on = &f->outs[q->first_out];
    f->stats.hops += on->hops;
    send_on(f, on->node, entry, delay + on->latency);
  }
}

static wafer_status no_route(const wafer_fabric *f, uint32_t node) {
  static const char *const ports[] = {"the north", "the east", "the south", "the west", "the core"};
  const fabric_site *site = &f->sites[node];
  return fabric_trap(f, site->router, "a wavelet of color %u came in from %s and has no route",
                     site->color, ports[site->port]);
}

/* Puts the ready front of a queue into the masks of the links that it could go over. */
static wafer_status look(wafer_fabric *f, uint32_t node, fabric_node *q) {
  if (q->passed) run_ahead(f, node, q);
  if (!q->count) return WAFER_OK;
  uint32_t wait = fabric_wait(f, q);
  if (wait) {
    arm(f, q, wait);
    return WAFER_OK;
  }
  if (!q->outs && !q->switched) return no_route(f, node);
  for (uint32_t left = q->pending; left; left &= left - 1) {
    uint32_t branch = (uint32_t)__builtin_ctz(left);
    const fabric_out *out = &f->outs[q->first_out + branch];
    fabric_node *beyond = &f->nodes[out->node];
    if (beyond->filtered && skip(f, node, q, branch, out->node)) continue;
    wait = fabric_room_in(f, beyond, 1);
    if (!wait)
      set_bit(f, out->link << FABRIC_RANK_BITS | out->rank);
    else if (wait == FABRIC_NONE)
      beyond->awaited = true;
    else
      arm(f, q, wait);
  }
  return WAFER_OK;
}

/* The first of the mask after the one that was served last. */
static inline uint32_t pick(const fabric_link *link) {
  uint32_t start = (link->last + 1u) % FABRIC_CANDIDATES, from = start % 64;
  uint64_t here = link->mask[start / 64];
  if (link->candidates <= 64) { /* all round, in one word */
    uint64_t round = here >> from | here << (64 - from) % 64;
    return (from + (uint32_t)__builtin_ctzll(round)) % 64;
  }
  uint32_t other = 1 - start / 64;
  if (here >> from) return start + (uint32_t)__builtin_ctzll(here >> from);
  if (link->mask[other]) return other * 64 + (uint32_t)__builtin_ctzll(link->mask[other]);
  return start / 64 * 64 + (uint32_t)__builtin_ctzll(here);
}

/* May the front go now? If not, it asks again when it may. */
static inline bool may_go(wafer_fabric *f, const fabric_candidate *who) {
  fabric_node *q = &f->nodes[who->node], *beyond = &f->nodes[who->to];
  uint32_t branch = who->out - q->first_out;
  if (!q->count || branch >= q->outs || !(q->pending >> branch & 1)) return false;
  uint32_t wait = fabric_wait(f, q);
  if (!wait) wait = fabric_room_in(f, beyond, 1);
  if (!wait) return true;
  if (wait == FABRIC_NONE)
    beyond->awaited = true;
  else
    ask(f, q, wait);
  return false;
}

/* The front of q, of which more is to be known, has gone over one of its links. */
static void has_gone(wafer_fabric *f, const fabric_candidate *who, uint32_t control) {
  fabric_node *q = &f->nodes[who->node];
  if (f->nodes[who->to].filtered) fabric_filter_step(&f->filters[f->sites[who->to].filter]);
  q->pending &= (uint8_t)(31u & ~(1u << (who->out - q->first_out)));
  if (q->pending) return;
  leave(f, who->node, q, control);
  if (q->count) arm(f, q, fabric_wait(f, q));
}

/* One wavelet over the link. Does its queue still ask in the next cycle? */
static inline bool go(wafer_fabric *f, const fabric_candidate *who) {
  fabric_node *q = &f->nodes[who->node], *beyond = &f->nodes[who->to];
  fabric_entry entry = *fabric_front(q);
  f->stats.hops += who->hops;
  send_on(f, who->to, entry, who->latency);
  if (q->ask & FABRIC_LOOK) {
    has_gone(f, who, entry.control);
    return false;
  }
  pop(f, q);
  if (q->from_core) tell_core(f, who->node, q);
  if (!q->count) return false;
  if (beyond->count == beyond->capacity) {
    beyond->awaited = true;
    return false;
  }
  uint32_t wait = fabric_wait(f, q);
  if (wait > 1) ask_in(f, q->ask, wait);
  return wait <= 1;
}

/* The first, from `rank` on, that may go. */
static inline void serve(wafer_fabric *f, fabric_link *link, uint32_t rank) {
  const fabric_candidate *who = &f->candidates[link->first + rank];
  while (!may_go(f, who)) {
    link->mask[rank / 64] &= ~(1ull << rank % 64);
    if (!(link->mask[0] | link->mask[1])) return;
    rank = pick(link);
    who = &f->candidates[link->first + rank];
  }
  link->last = (uint16_t)rank;
  if (!go(f, who)) link->mask[rank / 64] &= ~(1ull << rank % 64);
}

/* After everything else of the cycle: the next position holds from the next cycle on. */
static void turn_switches(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->turning_count; i++) {
    fabric_switch *s = &f->switches[f->turning[i].sw];
    fabric_node *before = &f->nodes[s->nodes[s->position]];
    before->outs = before->pending = 0;
    before->passed = false;
    if (f->turning[i].reset)
      s->position = 0;
    else if (s->position + 1u < s->positions)
      s->position++;
    else if (s->wrap)
      s->position = 0;
    fabric_node *q = &f->nodes[s->nodes[s->position]];
    q->first_out = s->first_out[s->position];
    q->outs = (uint8_t)s->outs[s->position];
    q->pending = all_outs(q);
    fabric_find_pass(f, q);
    if (q->count) arm(f, q, 1);
  }
  f->turning_count = 0;
}

/* All that is asked for in this cycle. */
static wafer_status collect(wafer_fabric *f, fabric_bucket *bucket) {
  for (uint32_t i = 0; i < bucket->count; i++) {
    uint32_t asked = bucket->at[i], next = bucket->at[i + AHEAD < bucket->count ? i + AHEAD : i];
    if (next & FABRIC_LOOK)
      __builtin_prefetch(&f->nodes[next & ~FABRIC_LOOK], 1);
    else
      __builtin_prefetch(&f->links[next >> FABRIC_RANK_BITS], 1);
    if (!(asked & FABRIC_LOOK)) {
      set_bit(f, asked);
      continue;
    }
    fabric_node *q = &f->nodes[asked & ~FABRIC_LOOK];
    if (q->armed != f->now % FABRIC_BUCKETS + 1) continue; /* looked at before */
    q->armed = 0;
    WAFER_TRY(look(f, asked & ~FABRIC_LOOK, q));
  }
  bucket->count = 0;
  return WAFER_OK;
}

/* Links side by side: first who may go over each, so that queues come into the cache. */
static void serve_all(wafer_fabric *f) {
  uint32_t count = f->active_count, kept = 0, ranks[BATCH];
  for (uint32_t first = 0; first < count; first += BATCH) {
    uint32_t here = count - first < BATCH ? count - first : BATCH;
    for (uint32_t i = 0; i < here; i++) {
      const fabric_link *link = &f->links[f->active[first + i]];
      if (!(link->mask[0] | link->mask[1])) continue;
      ranks[i] = pick(link);
      const fabric_candidate *who = &f->candidates[link->first + ranks[i]];
      __builtin_prefetch(&f->nodes[who->node], 1);
      __builtin_prefetch(&f->nodes[who->to], 1);
    }
    for (uint32_t i = 0; i < here; i++) {
      uint32_t at = f->active[first + i];
      fabric_link *link = &f->links[at];
      if (link->mask[0] | link->mask[1]) serve(f, link, ranks[i]);
      link->listed = link->mask[0] | link->mask[1];
      f->active[kept] = at;
      kept += link->listed;
    }
  }
  f->active_count = kept;
}

wafer_status fabric_route(wafer_fabric *f) {
  WAFER_TRY(collect(f, &f->bucket_of[f->now % FABRIC_BUCKETS]));
  serve_all(f);
  if (f->turning_count) turn_switches(f);
  return f->failed ? wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                                "the queues to look at do not fit the host")
                   : WAFER_OK;
}
