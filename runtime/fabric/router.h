/* What the parts of a cycle of all routers share (router.c): asking for links, leaving a queue. */
#ifndef RUNTIME_ROUTER_H
#define RUNTIME_ROUTER_H

#include "fabric_state.h"

#define ROUTER_AHEAD 16 /* visits, of fetching */

/* What few hops need stays out of the way of those that do not. */
#define SELDOM __attribute__((noinline))

/* The first of the mask after the one that was served last. */
static inline uint32_t router_pick(uint64_t mask, uint32_t last) {
  uint32_t from = (last + 1) % 64;
  return (from + (uint32_t)__builtin_ctzll(mask >> from | mask << (64 - from) % 64)) % 64;
}

/* Some of a link's candidates ask for it, in the cycle of the list. */
static inline void router_list(fabric_bucket *list, fabric_gate *gate, uint32_t at, uint64_t mask) {
  list->at[list->count] = at;
  list->count += !gate->mask;
  gate->mask |= mask;
}

/* When links are served: in the next cycle. */
static inline void router_ask_next(wafer_fabric *f, uint32_t asked) {
  uint32_t at = asked >> FABRIC_RANK_BITS;
  router_list(&f->asked_next, &f->gates[at], at, 1ull << asked % FABRIC_RANKS);
}

/* In this cycle, before any link is served. */
static inline void router_ask_now(wafer_fabric *f, uint32_t asked) {
  uint32_t at = asked >> FABRIC_RANK_BITS;
  router_list(&f->asked, &f->gates[at], at, 1ull << asked % FABRIC_RANKS);
}

/* What is asked for in so many cycles, or as far ahead as there are buckets: it is seen then that
 * it is too early. When links are served, their masks are for the next cycle, but for those of the
 * border, whose turn may still come. */
static inline void router_ask_in(wafer_fabric *f, uint32_t asked, uint32_t delay) {
  uint32_t at = asked >> FABRIC_RANK_BITS;
  fabric_gate *gate = &f->gates[at];
  if (delay == 1 && f->serving && !(asked & FABRIC_BIT) && !gate->border) {
    router_list(&f->asked_next, gate, at, 1ull << asked % FABRIC_RANKS);
    return;
  }
  if (delay >= FABRIC_BUCKETS) delay = FABRIC_BUCKETS - 1;
  fabric_put(f, &f->bucket_of[(f->now + delay) % FABRIC_BUCKETS], asked);
}

/* A look sees when there is something to do, and arms again: so the earliest is enough. */
static inline void router_arm(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  if (delay >= FABRIC_BUCKETS) delay = FABRIC_BUCKETS - 1;
  uint32_t bucket = (uint32_t)(f->now + delay) % FABRIC_BUCKETS;
  if (q->armed && (q->armed - 1u - (uint32_t)f->now) % FABRIC_BUCKETS <= delay) return;
  q->armed = (uint8_t)(bucket + 1);
  fabric_put(f, &f->bucket_of[bucket], q->ask);
}

static inline void router_ask(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  if (q->ask & FABRIC_LOOK)
    router_arm(f, q, delay);
  else
    router_ask_in(f, q->ask, delay);
}

/* There will be room for its front. */
static inline void router_ask_room(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  if ((q->ask & (FABRIC_LOOK | FABRIC_BIT)) == FABRIC_BIT)
    router_ask_in(f, q->ask | FABRIC_BIT_ROOM, delay);
  else
    router_ask(f, q, delay);
}

static inline uint8_t router_all_outs(const fabric_node *q) {
  return (uint8_t)((1u << q->outs) - 1);
}

/* Who waits for room, `credit` cycles from now: the queue before, a core, or perhaps the host
 * (router_push.c). */
void router_tell_of_pop(wafer_fabric *f, uint32_t node, fabric_node *q);

static inline void router_pop(wafer_fabric *f, uint32_t node, fabric_node *q) {
  fabric_front(q)->stamp = fabric_stamp(f->now + q->credit);
  q->head = q->head + 1u == q->capacity ? 0 : (uint16_t)(q->head + 1);
  q->count--;
  f->moved |= q->outer;
  if (q->awaited) router_tell_of_pop(f, node, q);
}

/* One pop a cycle: what is next does not leave in this one. */
static inline void router_next_later(wafer_fabric *f, fabric_node *q) {
  if (q->count && !fabric_wait(f, q)) fabric_front(q)->ready = fabric_stamp(f->now + 1);
}

/* The front of q has taken its last link: the next one may go in the next cycle. */
static inline void router_leave(wafer_fabric *f, uint32_t node, fabric_node *q, uint32_t control) {
  router_pop(f, node, q);
  q->pending = router_all_outs(q);
  router_next_later(f, q);
  if (!control || !q->switched) return;
  q->passed = false; /* it may be another that goes on */
  f->turning[f->turning_count++] = (fabric_turn){f->sites[node].sw, control == WAFER_CONTROL_reset};
}

/* A push, at once through all routers on the way whose queues are empty and whose cores do not want
 * the wavelet. */
void router_send_on(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay);
/* The same into a queue with room for it. */
static inline void router_put(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  uint32_t more = q->flags & FABRIC_PUSH_FLAGS;
  if (more & ~FABRIC_TO_CORE || f->entered) {
    router_send_on(f, node, entry, delay);
    return;
  }
  uint32_t at = q->head + q->count++, stamp = fabric_stamp(f->now + delay);
  entry.stamp = stamp | (entry.stamp & ~FABRIC_STAMP_MASK);
  *fabric_entry_at(q, at < q->capacity ? at : at - q->capacity) = entry;
  if (!more && q->count == 1) router_ask(f, q, delay);
  if (more && q->count >= q->patience) fabric_wake(f, f->sites[node].core, f->now + delay);
}
/* Those in q that pass its core go on at once, also before they can. */
void router_run_ahead(wafer_fabric *f, uint32_t node, fabric_node *q);

/* Looks at queues (router_look.c). */

/* What was put into a bucket for this cycle. */
wafer_status router_collect(wafer_fabric *f, fabric_bucket *bucket);
/* The front of q, of which more is to be known, goes over one of its links. */
void router_go_one_way(wafer_fabric *f, uint32_t node, uint32_t way);

/* Hops that are as simple as they come (router_brief.c). */

#define ROUTER_BRIEF_WORDS 2
static inline bool router_is_brief(const fabric_node *q) {
  return !(q->ask & FABRIC_LOOK) && q->capacity == ROUTER_BRIEF_WORDS && q->credit == 1 &&
         !q->to_core && !q->at_edge;
}
/* Another strip's queue may still ask for the link of q in this cycle: who asks for the next one
 * has to wait with that (router_ask_in). */
bool router_asks_at_border(const wafer_fabric *f, const fabric_node *q);
/* Who of them may hop so, when all queues are there. */
void router_find_briefs(wafer_fabric *f);
/* Those whose turn it is; who is in the way of another goes to the others. */
void router_hop_all(wafer_fabric *f);

/* Queues of which a bit says all (router_bits.c). */

/* Before a run. */
wafer_status router_bits_begin(wafer_fabric *f);
/* After it: queues know again how many words are in them. */
void router_bits_end(wafer_fabric *f);
void router_bits_free(wafer_fabric *f);
/* Of a strip: all hops of a cycle; how many there were. */
void router_bits_cycle(wafer_fabric *f);
uint32_t router_bits_went(const wafer_fabric *f);
/* What was asked for by a queue with a bit, in its cycle. */
void router_bits_ask(wafer_fabric *f, uint32_t asked);
/* Nobody can go. */
bool router_bits_rest(const wafer_fabric *f);

/* After everything else of the cycle: the next position holds from the next cycle on. */
void router_turn_switches(wafer_fabric *f);

#endif
