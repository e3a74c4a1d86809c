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
  if (delay == 1 && f->serving && !gate->border) {
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

/* Wavelets that are in no queue (router_flight.c). */

/* Before a run: from which queues they fly. */
wafer_status router_find_legs(wafer_fabric *f);
/* Of the fabric or a strip; false: they do not fit the host. */
bool router_make_flights(wafer_fabric *f);
/* Before turns are taken: who comes down in this cycle, and who comes to a core. */
void router_fly_in(wafer_fabric *f);
/* After that: all others, before what is in queues. */
void router_fly_on(wafer_fabric *f);
static inline bool router_is_claimed(fabric_claim claim) {
  return claim.told % (FABRIC_LEG_RANKS + 1) != FABRIC_LEG_RANKS;
}
/* A link with a claim is asked for from queues, too: is it the flight's turn? If not, that comes
 * down and asks as the others do. */
bool router_settle_claim(wafer_fabric *f, uint32_t at);
/* Before the cycles of claims come round on the way to this one: turns that were taken. */
void router_settle_claims(wafer_fabric *f, uint64_t cycle);
/* A wavelet that is no control and may leave the queue in the next cycle, after flights have gone:
 * false: it has to be put there. */
bool router_fly(wafer_fabric *f, const fabric_candidate *who, uint32_t word);
/* A word has been put into a queue, out of another, where there are legs. */
void router_note_push(wafer_fabric *f, const fabric_candidate *who);

/* After everything else of the cycle: the next position holds from the next cycle on. */
void router_turn_switches(wafer_fabric *f);

#endif
