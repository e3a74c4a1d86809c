/* A cycle of all routers. A queue whose front could go over a link stands in the mask of that link;
 * a link takes one wavelet a cycle, in turn between those in its mask. A queue asks again when its
 * front becomes ready or room comes up before it: nobody is visited in vain.
 *
 * Most queues have one way on, and ask for its link as soon as their front is ready: whether there
 * is room beyond is seen when the link serves them. Those of which more is to be known (several
 * ways, a switch, a filter at the next core) are looked at first, and ask when there is room. */
#include <stdlib.h>

#include "router.h"

#define OTHERS_AHEAD 4 /* how far apart what is looked at one by one comes into the cache */

bool fabric_more_room(wafer_fabric *f, fabric_bucket *bucket) {
  uint32_t room = bucket->room ? 2 * bucket->room : 64;
  uint32_t *at = realloc(bucket->at, room * sizeof *at);
  f->failed |= !at;
  if (!at) return false;
  bucket->at = at;
  bucket->room = room;
  return true;
}

bool fabric_rests(const wafer_fabric *f) {
  uint32_t asked = f->asked.count;
  for (uint32_t i = 0; i < FABRIC_BUCKETS && !asked; i++) asked |= f->bucket_of[i].count;
  return !asked && router_bits_rest(f);
}

void fabric_refresh(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    for (uint32_t k = 0; k < q->capacity && !q->gone; k++) {
      fabric_entry *entry = fabric_entry_at(q, k);
      uint32_t wait = (entry->ready - fabric_stamp(f->now)) & FABRIC_STAMP_MASK;
      if (wait > FABRIC_SOON) entry->ready = fabric_stamp(f->now);
    }
  }
}

/* The way of a queue over a link; FABRIC_NONE: none at present. */
static uint32_t way_of(const wafer_fabric *f, const fabric_node *q, uint32_t link) {
  uint32_t first = fabric_site_of(f, q)->first_out;
  for (uint32_t i = first; i < first + q->outs; i++)
    if (f->outs[i].link == link) return i;
  return FABRIC_NONE;
}

/* May the front go now? If not, it asks again when it may. */
static SELDOM bool may_go(wafer_fabric *f, fabric_node *q, uint32_t way) {
  uint32_t first = fabric_site_of(f, q)->first_out;
  if (!q->count || way == FABRIC_NONE || !(q->pending >> (way - first) & 1)) return false;
  fabric_node *beyond = &f->nodes[f->outs[way].node];
  uint32_t wait = fabric_wait(f, q);
  if (!wait) wait = fabric_room_in(f, beyond, 1);
  if (!wait) return true;
  if (wait == FABRIC_NONE)
    beyond->awaited = true;
  else
    router_ask(f, q, wait);
  return false;
}

/* One wavelet of a queue with one way on; false: it cannot go. */
static inline bool go(wafer_fabric *f, const fabric_candidate *who, fabric_node *q) {
  const fabric_way *way = &f->ways[who - f->candidates];
  uint32_t to = who->to & ~FABRIC_LOOK, now = (uint32_t)f->now, latency = way->latency;
  fabric_node *beyond = &f->nodes[to];
  fabric_entry *front = fabric_front(q), *slot = fabric_slot(beyond, beyond->count);
  if (!q->count || beyond->count == beyond->capacity ||
      fabric_early(front->stamp, slot->stamp, now))
    return false;
  f->stats.hops += way->hops;
  router_put(f, to, *front, latency);
  router_pop(f, who->node, q);
  if (!q->count) return true;
  if (beyond->count == beyond->capacity) {
    beyond->awaited = true;
    return true;
  }
  uint32_t wait = fabric_until(fabric_front(q)->stamp, now);
  router_ask_in(f, q->ask, wait ? wait : 1);
  return true;
}

/* The candidate's wavelet goes, if it may; if not, it asks again when it may. */
static SELDOM bool try(wafer_fabric *f, uint32_t link, uint32_t rank) {
  const fabric_candidate *who = &f->candidates[f->gates[link].first + rank];
  fabric_node *q = &f->nodes[who->node];
  if (!(q->ask & FABRIC_LOOK) && go(f, who, q)) return true;
  uint32_t way = way_of(f, q, link);
  if (!may_go(f, q, way)) return false;
  router_go_one_way(f, who->node, way);
  return true;
}

/* The one whose turn it was may not go: another one may. Who has asked for the next cycle before
 * it went asks in vain. */
static SELDOM void serve_another(wafer_fabric *f, uint32_t at, uint32_t rank) {
  fabric_gate *gate = &f->gates[at];
  for (uint64_t left = gate->mask; left; left &= ~(1ull << rank)) {
    rank = router_pick(left, rank);
    if (!try(f, at, rank)) continue;
    gate->turns = (uint16_t)rank;
    return;
  }
  gate->turns >>= 8;
}

/* The same over two masks: the rank served last is in one of them, its word comes first and last.
 */
static SELDOM void serve_many(wafer_fabric *f, uint32_t at) {
  uint32_t first = at < f->link_count ? at : f->links[at].more;
  fabric_gate *gate = &f->gates[first], *more = &f->gates[f->links[first].more];
  uint64_t mask[2] = {gate->mask, more->mask};
  gate->mask = more->mask = 0;
  for (bool went = false; !went && (mask[0] | mask[1]);) {
    uint32_t start = (gate->turns + 1u) % FABRIC_CANDIDATES, word = start / FABRIC_RANKS;
    if (!(mask[word] >> start % FABRIC_RANKS) && mask[1 - word]) {
      word = 1 - word;
      start = 0;
    }
    uint32_t rank = router_pick(mask[word], start + FABRIC_RANKS - 1);
    mask[word] &= ~(1ull << rank);
    rank += word * FABRIC_RANKS;
    went = try(f, first, rank);
    if (went) gate->turns = (uint16_t)rank;
  }
  if (mask[0]) router_list(&f->asked_next, gate, first, mask[0]);
  if (mask[1]) router_list(&f->asked_next, more, f->links[first].more, mask[1]);
}

/* Whose turn it is on each link; who else asks for it does so in the next cycle, too. Links of the
 * border stay while other strips are at work. */
static void take_turns(wafer_fabric *f) {
  fabric_gate *gates = f->gates;
  const fabric_candidate *candidates = f->candidates;
  fabric_candidate *brief = f->briefs;
  uint32_t *kept = f->asked.at, *next = f->asked_next.at + f->asked_next.count;
  uint32_t *other = f->others.at, look = f->entered ? 0 : FABRIC_LOOK; /* who counts looks at all */
  bool aside = f->aside;
  for (const uint32_t *at = f->asked.at, *end = at + f->asked.count; at < end; at++) {
    fabric_gate *gate = &gates[*at];
    if (gate->border && aside) {
      *kept++ = *at;
      continue;
    }
    if (gate->many) {
      *other++ = *at << FABRIC_RANK_BITS;
      continue;
    }
    uint64_t mask = gate->mask;
    uint32_t rank = router_pick(mask, (uint8_t)gate->turns);
    const fabric_candidate *who = &candidates[gate->first + rank];
    uint32_t simple = who->to < look;
    *brief = *who;
    brief += simple;
    *other = *at << FABRIC_RANK_BITS | rank;
    other += simple ^ 1;
    mask ^= 1ull << rank;
    *next = *at;
    next += mask != 0;
    gate->mask = mask;
    gate->turns = (uint16_t)(gate->turns << 8 | rank);
  }
  f->asked.count = (uint32_t)(kept - f->asked.at);
  f->asked_next.count = (uint32_t)(next - f->asked_next.at);
  f->brief_count = (uint32_t)(brief - f->briefs);
  f->others.count = (uint32_t)(other - f->others.at);
}

static void serve(wafer_fabric *f, uint32_t asked) {
  uint32_t link = asked >> FABRIC_RANK_BITS, rank = asked % FABRIC_RANKS;
  if (f->gates[link].many)
    serve_many(f, link);
  else if (!try(f, link, rank))
    serve_another(f, link, rank);
}

/* Brings what `serve` goes through into the cache: who asks, its queue, the ways out of that. */
static inline void come_ahead(const wafer_fabric *f, uint32_t i) {
  const uint32_t *asked = f->others.at + i;
  if (i + 3 * OTHERS_AHEAD >= f->others.count) return;
  const fabric_candidate *who[3];
  for (uint32_t k = 0; k < 3; k++) {
    uint32_t at = asked[(k + 1) * OTHERS_AHEAD];
    who[k] = &f->candidates[f->gates[at >> FABRIC_RANK_BITS].first + at % FABRIC_RANKS];
  }
  __builtin_prefetch(who[2]);
  __builtin_prefetch(&f->nodes[who[1]->node], 1);
  __builtin_prefetch(&f->sites[who[1]->node]);
  __builtin_prefetch(&f->outs[f->sites[who[0]->node].first_out]);
}

/* First all simple hops, then the rest, of which queues come into the cache ahead. */
static void serve_all(wafer_fabric *f) {
  if (f->bits && (f->strip_count == 1 || f->aside)) router_bits_cycle(f);
  take_turns(f);
  router_hop_all(f);
  for (uint32_t i = 0; i < f->others.count; i++) {
    come_ahead(f, i);
    serve(f, f->others.at[i]);
  }
  f->others.count = 0;
  for (uint32_t i = 0; i < f->told.count; i++)
    router_tell_of_pop(f, f->told.at[i], &f->nodes[f->told.at[i]]);
  f->told.count = 0;
}

wafer_status fabric_route(wafer_fabric *f) {
  wafer_status status = router_collect(f, &f->bucket_of[f->now % FABRIC_BUCKETS]);
  f->serving = true;
  serve_all(f);
  f->serving = false;
  if (f->aside) return status;
  fabric_bucket served = f->asked;
  f->asked = f->asked_next;
  f->asked_next = served;
  if (f->turning_count) router_turn_switches(f);
  return status;
}
