/* A cycle of all routers. A queue whose front could go over a link stands in the mask of that link;
 * a link takes one wavelet a cycle, in turn between those in its mask. A queue asks again when its
 * front becomes ready or room comes up before it: nobody is visited in vain.
 *
 * Most queues have one way on, and ask for its link as soon as their front is ready: whether there
 * is room beyond is seen when the link serves them. Those of which more is to be known (several
 * ways, a switch, a filter at the next core) are looked at first, and ask when there is room. */
#include <stdlib.h>

#include "router.h"

#define BATCH 48 /* links that are served together */

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
  uint32_t asked = 0;
  for (uint32_t i = 0; i < f->turn_count; i++) asked |= f->turns[i].count;
  for (uint32_t i = 0; i < FABRIC_BUCKETS && !asked; i++) asked |= f->bucket_of[i].count;
  return !asked;
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
    router_ask(f, q, wait);
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
    if (!beyond->count++) router_ask(f, beyond, q->latency);
  } else {
    router_send_on(f, q->to, *front, q->latency);
  }
  router_pop(f, node, q);
  if (!q->count) return WENT;
  if (beyond->count == beyond->capacity) {
    beyond->awaited = true;
    return WENT;
  }
  uint32_t wait = fabric_until(q->entries[q->head].stamp, now);
  if (wait <= 1) return STAYS;
  router_ask_in(f, q->ask, wait);
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
  router_go_one_way(f, who->node, who->out);
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
  if (mask) router_ask_at(f, s->link, mask, router_turn_of(f, turn + 1u));
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
  if (mask) router_ask_at(f, s->link, mask, router_turn_of(f, turn + 1u));
}

/* The same over two masks: the rank served last is in one of them, its word comes first and last.
 */
static SELDOM void serve_many(wafer_fabric *f, uint32_t at, uint32_t turn) {
  uint32_t first = at < f->link_count ? at : f->links[at].more;
  fabric_link *link = &f->links[first];
  uint64_t *asked[2] = {router_mask_of(f, first, turn), router_mask_of(f, link->more, turn)};
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
  if (mask[0]) router_ask_at(f, first, mask[0], router_turn_of(f, turn + 1u));
  if (mask[1]) router_ask_at(f, link->more, mask[1], router_turn_of(f, turn + 1u));
}

static inline service next_of(wafer_fabric *f, uint32_t at, uint32_t turn) {
  const fabric_link *link = &f->links[at];
  uint64_t *mask = router_mask_of(f, at, turn);
  service s = {.link = at, .rank = FABRIC_RANKS};
  if (link->more != FABRIC_NONE || (link->border && f->aside)) return s;
  s.rank = pick(*mask, link->last);
  s.node = f->candidates[link->first + s.rank].node;
  s.others = *mask & ~(1ull << s.rank);
  *mask = 0;
  return s;
}

/* Links side by side: first who is the next of each, then where it would go, so that queues come
 * into the cache. Those of the border stay while other strips are at work. */
static void serve_all(wafer_fabric *f, uint32_t turn) {
  fabric_bucket *links = &f->turns[turn];
  service services[BATCH];
  uint32_t kept = 0;
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
      else if (f->aside && f->links[services[i].link].border)
        links->at[kept++] = services[i].link;
      else
        serve_many(f, services[i].link, turn);
  }
  links->count = kept;
}

wafer_status fabric_route(wafer_fabric *f) {
  wafer_status status = router_collect(f, &f->bucket_of[f->now % FABRIC_BUCKETS]);
  serve_all(f, router_turn_of(f, f->now));
  if (f->turning_count && !f->aside) router_turn_switches(f);
  return status;
}
