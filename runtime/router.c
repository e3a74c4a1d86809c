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

#define AHEAD 16 /* visits, of fetching */
#define BATCH 48 /* links that are served together */

/* What few hops need stays out of the way of those that do not. */
#define SELDOM __attribute__((noinline))

bool fabric_more_room(wafer_fabric *f, fabric_bucket *bucket) {
  uint32_t room = bucket->room ? 2 * bucket->room : 64;
  uint32_t *at = realloc(bucket->at, room * sizeof *at);
  f->failed |= !at;
  if (!at) return false;
  bucket->at = at;
  bucket->room = room;
  return true;
}

static inline uint32_t turn_of(const wafer_fabric *f, uint64_t cycle) {
  return (uint32_t)cycle & (f->turn_count - 1);
}

static inline uint64_t *mask_of(const wafer_fabric *f, uint32_t link, uint32_t turn) {
  return &f->masks[turn][link];
}

/* Some of a link's candidates ask for it in that turn. */
static inline void ask_at(wafer_fabric *f, uint32_t at, uint64_t mask, uint32_t turn) {
  fabric_bucket *links = &f->turns[turn];
  uint64_t *asked = mask_of(f, at, turn);
  links->at[links->count] = at;
  links->count += !*asked;
  *asked |= mask;
}

/* What is asked for in so many cycles, or as far ahead as there are buckets: it is seen then that
 * it is too early. */
static inline void ask_in(wafer_fabric *f, uint32_t asked, uint32_t delay) {
  if (delay < f->turn_count) {
    ask_at(f, asked >> FABRIC_RANK_BITS, 1ull << asked % FABRIC_RANKS, turn_of(f, f->now + delay));
    return;
  }
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
  uint32_t asked = 0;
  for (uint32_t i = 0; i < f->turn_count; i++) asked |= f->turns[i].count;
  for (uint32_t i = 0; i < FABRIC_BUCKETS && !asked; i++) asked |= f->bucket_of[i].count;
  return !asked;
}

static uint8_t all_outs(const fabric_node *q) {
  return (uint8_t)((1u << q->outs) - 1);
}

static inline void push(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  if (q->fans_out && fabric_fan_out(f, node, entry.word, delay)) return;
  uint32_t at = q->head + q->count++;
  if (at >= q->capacity) at -= q->capacity;
  entry.ready = fabric_stamp(f->now + delay);
  q->entries[at] = entry;
  if (f->entered) f->entered[node]++;
  if (q->to_core) {
    if (q->count >= q->patience) fabric_wake(f, f->sites[node].core, f->now + delay);
  } else if (q->at_edge)
    f->moved = true;
  else if (q->count == 1)
    ask(f, q, delay);
}

/* An empty queue that wavelets pass: the first cycle in which another may leave it, its last one
 * being ahead of time. */
static inline uint32_t after_last(const wafer_fabric *f, const fabric_node *q) {
  uint32_t last = q->head ? q->head - 1u : q->capacity - 1u;
  return fabric_until(q->entries[last].ready - q->credit + 1u, (uint32_t)f->now);
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
static SELDOM void send_on(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  while (q->passed && !q->count && !q->fans_out) {
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

/* Who waits for room, `credit` cycles from now: the queue before, a core, or perhaps the host. */
static SELDOM void tell_of_pop(wafer_fabric *f, uint32_t node, fabric_node *q) {
  f->moved |= q->outer;
  if (!q->awaited) return;
  q->awaited = false;
  if (q->outer) {
    if (q->from_core) fabric_wake(f, f->sites[node].writer, f->now + q->credit);
    return;
  }
  const fabric_switch *s = q->by_switch ? &f->switches[q->from] : NULL;
  ask(f, &f->nodes[s ? s->nodes[s->position] : q->from], q->credit);
}

static inline void pop(wafer_fabric *f, uint32_t node, fabric_node *q) {
  q->entries[q->head].stamp = fabric_stamp(f->now + q->credit);
  q->head = q->head + 1u == q->capacity ? 0 : (uint16_t)(q->head + 1);
  q->count--;
  if (q->flags & FABRIC_POP_FLAGS) tell_of_pop(f, node, q);
}

void fabric_pop(wafer_fabric *f, fabric_node *q) {
  pop(f, (uint32_t)(q - f->nodes), q);
}

/* One pop a cycle: what is next does not leave in this one. */
static inline void next_later(wafer_fabric *f, fabric_node *q) {
  if (q->count && !fabric_wait(f, q)) q->entries[q->head].ready = fabric_stamp(f->now + 1);
}

void fabric_lose(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  q->pending = all_outs(q);
  fabric_pop(f, q);
  if (!q->count || q->to_core) return;
  next_later(f, q);
  ask(f, q, fabric_wait(f, q));
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
  pop(f, node, q);
  q->pending = all_outs(q);
  next_later(f, q);
  if (!control || !q->switched) return;
  q->passed = false; /* it may be another that goes on */
  f->turning[f->turning_count++] = (fabric_turn){f->sites[node].sw, control == WAFER_CONTROL_reset};
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
    go_through(f, q, delay);
    q->count--;
    if (q->flags & FABRIC_POP_FLAGS) tell_of_pop(f, node, q);
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

/* The front of q, of which more is to be known, goes over one of its links. */
static void go_one_way(wafer_fabric *f, uint32_t node, uint32_t way) {
  fabric_node *q = &f->nodes[node];
  const fabric_out *out = &f->outs[way];
  fabric_entry entry = *fabric_front(q);
  f->stats.hops += out->hops;
  send_on(f, out->node, entry, out->latency);
  if (f->nodes[out->node].filtered) fabric_filter_step(&f->filters[f->sites[out->node].filter]);
  q->pending &= (uint8_t)(31u & ~(1u << (way - q->first_out)));
  if (q->pending) return;
  leave(f, node, q, entry.control);
  if (q->count) arm(f, q, fabric_wait(f, q));
}

/* Puts the ready front of a queue into the masks of the links that it could go over; where nobody
 * else can ask at the same time, it goes. */
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
    if (!wait && out->alone)
      go_one_way(f, node, q->first_out + branch);
    else if (!wait)
      ask_in(f, fabric_asked(f, out), 0);
    else if (wait == FABRIC_NONE)
      beyond->awaited = true;
    else
      arm(f, q, wait);
  }
  return WAFER_OK;
}

/* The first of the mask after the one that was served last. */
static inline uint32_t pick(uint64_t mask, uint32_t last) {
  uint32_t from = (last + 1) % 64;
  return (from + (uint32_t)__builtin_ctzll(mask >> from | mask << (64 - from) % 64)) % 64;
}

/* May the front go now? If not, it asks again when it may. */
static SELDOM bool may_go(wafer_fabric *f, const fabric_candidate *who) {
  fabric_node *q = &f->nodes[who->node], *beyond = &f->nodes[f->outs[who->out].node];
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

/* What became of a candidate: it cannot go; it went; it asks in the next cycle, too. */
typedef enum outcome { REFUSED, WENT, STAYS } outcome;

/* One wavelet of a queue with one way on. */
static inline outcome go(wafer_fabric *f, uint32_t node, fabric_node *q) {
  fabric_node *beyond = &f->nodes[q->to];
  fabric_entry *front = &q->entries[q->head];
  uint32_t now = (uint32_t)f->now, at = beyond->head + beyond->count;
  fabric_entry *slot = &beyond->entries[at < beyond->capacity ? at : at - beyond->capacity];
  if (!q->count || beyond->count == beyond->capacity ||
      fabric_early(front->stamp, slot->stamp, now))
    return REFUSED;
  f->stats.hops += q->hops;
  if (!(beyond->flags & FABRIC_PUSH_FLAGS) && !f->entered) {
    slot->word = front->word;
    slot->stamp = fabric_stamp(now + q->latency) | (front->stamp & ~FABRIC_STAMP_MASK);
    if (!beyond->count++) ask(f, beyond, q->latency);
  } else {
    send_on(f, q->to, *front, q->latency);
  }
  pop(f, node, q);
  if (!q->count) return WENT;
  if (beyond->count == beyond->capacity) {
    beyond->awaited = true;
    return WENT;
  }
  uint32_t wait = fabric_until(q->entries[q->head].stamp, now);
  if (wait <= 1) return STAYS;
  ask_in(f, q->ask, wait);
  return WENT;
}

/* The candidate's wavelet goes, if it may. */
static inline outcome try(wafer_fabric *f, uint32_t candidate) {
  const fabric_candidate *who = &f->candidates[candidate];
  fabric_node *q = &f->nodes[who->node];
  if (!(q->ask & FABRIC_LOOK)) {
    outcome what = go(f, who->node, q);
    if (what == REFUSED) may_go(f, who); /* asks again */
    return what;
  }
  if (!may_go(f, who)) return REFUSED;
  go_one_way(f, who->node, who->out);
  return WENT;
}

/* A link's turn: who is the next to go over it, and who else asks. */
typedef struct service {
  uint64_t others;
  uint32_t link, node;
  uint32_t rank; /* FABRIC_RANKS: of a link that has more */
} service;

/* The next one may not go at once, or is more than a queue with one way on. */
static SELDOM void serve_slowly(wafer_fabric *f, const service *s, uint32_t turn) {
  fabric_link *link = &f->links[s->link];
  uint64_t mask = s->others | 1ull << s->rank;
  for (uint32_t rank = s->rank;; rank = pick(mask, link->last)) {
    outcome what = try(f, link->first + rank);
    if (what != STAYS) mask &= ~(1ull << rank);
    if (what != REFUSED) link->last = (uint8_t)rank;
    if (what != REFUSED || !mask) break;
  }
  if (mask) ask_at(f, s->link, mask, turn_of(f, turn + 1u));
}

static inline void serve(wafer_fabric *f, const service *s, uint32_t turn) {
  fabric_node *q = &f->nodes[s->node];
  outcome what = q->ask & FABRIC_LOOK ? REFUSED : go(f, s->node, q);
  if (what == REFUSED) {
    serve_slowly(f, s, turn);
    return;
  }
  f->links[s->link].last = (uint8_t)s->rank;
  uint64_t mask = s->others | (uint64_t)(what == STAYS) << s->rank;
  if (mask) ask_at(f, s->link, mask, turn_of(f, turn + 1u));
}

/* The same over two masks: the rank served last is in one of them, its word comes first and last.
 */
static SELDOM void serve_many(wafer_fabric *f, uint32_t at, uint32_t turn) {
  uint32_t first = at < f->link_count ? at : f->links[at].more;
  fabric_link *link = &f->links[first];
  uint64_t *asked[2] = {mask_of(f, first, turn), mask_of(f, link->more, turn)};
  uint64_t mask[2] = {*asked[0], *asked[1]};
  *asked[0] = *asked[1] = 0;
  for (outcome what = REFUSED; what == REFUSED && (mask[0] | mask[1]);) {
    uint32_t start = (link->last + 1u) % FABRIC_CANDIDATES, word = start / FABRIC_RANKS;
    if (!(mask[word] >> start % FABRIC_RANKS) && mask[1 - word]) {
      word = 1 - word;
      start = 0;
    }
    uint32_t rank = pick(mask[word], start + FABRIC_RANKS - 1);
    what = try(f, link->first + word * FABRIC_RANKS + rank);
    if (what != STAYS) mask[word] &= ~(1ull << rank);
    if (what != REFUSED) link->last = (uint8_t)(word * FABRIC_RANKS + rank);
  }
  if (mask[0]) ask_at(f, first, mask[0], turn_of(f, turn + 1u));
  if (mask[1]) ask_at(f, link->more, mask[1], turn_of(f, turn + 1u));
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

/* What was put into a bucket for this cycle. */
static wafer_status collect(wafer_fabric *f, fabric_bucket *bucket) {
  for (uint32_t i = 0; i < bucket->count; i++) {
    uint32_t asked = bucket->at[i], next = bucket->at[i + AHEAD < bucket->count ? i + AHEAD : i];
    if (next & FABRIC_LOOK) __builtin_prefetch(&f->nodes[next & ~FABRIC_LOOK], 1);
    if (!(asked & FABRIC_LOOK)) {
      ask_in(f, asked, 0);
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

static inline service next_of(wafer_fabric *f, uint32_t at, uint32_t turn) {
  const fabric_link *link = &f->links[at];
  uint64_t *mask = mask_of(f, at, turn);
  service s = {.link = at, .rank = FABRIC_RANKS};
  if (link->more != FABRIC_NONE) return s;
  s.rank = pick(*mask, link->last);
  s.node = f->candidates[link->first + s.rank].node;
  s.others = *mask & ~(1ull << s.rank);
  *mask = 0;
  return s;
}

/* Links side by side: first who is the next of each, then where it would go, so that queues come
 * into the cache. */
static void serve_all(wafer_fabric *f, uint32_t turn) {
  fabric_bucket *links = &f->turns[turn];
  service services[BATCH];
  for (uint32_t first = 0; first < links->count; first += BATCH) {
    uint32_t here = links->count - first < BATCH ? links->count - first : BATCH;
    for (uint32_t i = 0; i < here; i++) {
      services[i] = next_of(f, links->at[first + i], turn);
      __builtin_prefetch(&f->nodes[services[i].node], 1);
    }
    for (uint32_t i = 0; i < here; i++) {
      const fabric_node *q = &f->nodes[services[i].node];
      if (!(q->ask & FABRIC_LOOK)) __builtin_prefetch(&f->nodes[q->to], 1);
    }
    for (uint32_t i = 0; i < here; i++)
      if (services[i].rank < FABRIC_RANKS)
        serve(f, &services[i], turn);
      else
        serve_many(f, services[i].link, turn);
  }
  links->count = 0;
}

wafer_status fabric_route(wafer_fabric *f) {
  WAFER_TRY(collect(f, &f->bucket_of[f->now % FABRIC_BUCKETS]));
  serve_all(f, turn_of(f, f->now));
  if (f->turning_count) turn_switches(f);
  return f->failed ? wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                                "the queues to look at do not fit the host")
                   : WAFER_OK;
}
