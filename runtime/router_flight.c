/* Wavelets in flight. One that comes alone into an empty queue with one simple way on need not be
 * put into it: it is noted as being there, and goes on in the next cycle. It claims its link for
 * that cycle. Where another asks for the same link, or there is no room beyond, it comes down: it
 * is put into the queue as if it had always been there, and router.c sees to it.
 *
 * Where one is in flight the queue is empty, and the other word of the two that it holds is room:
 * what comes in behind leaves a cycle later at the earliest. So a flight changes nothing of its
 * queue, and many of them are emulated by going through a list. Who has to come down is known
 * before the cycle begins, whatever the order in that list: at a claim, or when the queue beyond
 * becomes full. */
#include <stdlib.h>

#include "router.h"

static fabric_flight *flight_of(const wafer_fabric *f, uint32_t flight) {
  return flight & FABRIC_LOOK ? &f->arrivals[flight & ~FABRIC_LOOK] : &f->flights[flight];
}

/* Into its queue, as if it had come there in the cycle before. */
static void come_down(wafer_fabric *f, fabric_flight *one) {
  fabric_leg *leg = &f->legs[one->leg];
  fabric_node *q = &f->nodes[leg->node];
  assert(!q->count);
  *fabric_slot(q, q->count++) = (fabric_entry){.word = one->word, .ready = fabric_stamp(f->now)};
  leg->how |= FABRIC_HELD;
  one->leg = FABRIC_NONE;
  router_ask_now(f, leg->ask);
}

/* ---- claims ---- */

/* A turn that a flight took, and nobody else has asked for since, is told in its claim. */
static inline void claim(wafer_fabric *f, uint32_t ask, uint32_t flight) {
  fabric_claim *c = &f->claims[ask >> FABRIC_RANK_BITS];
  uint32_t next = (uint32_t)f->now + 1;
  if (c->cycle == next && c->rank != FABRIC_RANKS) { /* one of them comes down */
    f->downs.at[f->downs.count++] = flight;
    return;
  }
  *c = (fabric_claim){next, flight, (uint8_t)(ask % FABRIC_RANKS), c->rank};
}

/* Among those that ask for the link from queues is the flight that has a claim on it. It may be its
 * turn. */
bool router_settle_claim(wafer_fabric *f, uint32_t at) {
  fabric_claim *c = &f->claims[at];
  fabric_gate *gate = &f->gates[at];
  if (c->cycle != (uint32_t)f->now) {
    gate->turns = c->rank;
    c->rank = FABRIC_RANKS;
    return false;
  }
  if (c->before != FABRIC_RANKS) gate->turns = c->before;
  uint64_t bit = 1ull << c->rank, mask = gate->mask | bit;
  uint32_t flight = c->flight;
  bool goes = router_pick(mask, (uint8_t)gate->turns) == c->rank;
  c->before = FABRIC_RANKS;
  if (goes) return true;
  c->rank = FABRIC_RANKS;
  come_down(f, flight_of(f, flight));
  return false;
}

void router_settle_claims(wafer_fabric *f) {
  for (uint32_t i = 0; f->claims && i < f->link_room; i++)
    if (f->claims[i].rank != FABRIC_RANKS && f->claims[i].cycle != (uint32_t)f->now)
      router_settle_claim(f, i);
}

/* The flight comes down, and has no claim any more. */
static void give_way(wafer_fabric *f, uint32_t flight) {
  fabric_flight *one = flight_of(f, flight);
  if (one->leg == FABRIC_NONE) return;
  uint32_t at = f->legs[one->leg].ask >> FABRIC_RANK_BITS;
  fabric_claim *c = &f->claims[at];
  if (c->flight == flight && c->cycle == (uint32_t)f->now) {
    if (c->before != FABRIC_RANKS) f->gates[at].turns = c->before;
    c->rank = FABRIC_RANKS;
  }
  come_down(f, one);
}

/* The queue after this leg is full: who has come to the leg by now does not go on. */
static void block(wafer_fabric *f, uint32_t at) {
  fabric_leg *leg = &f->legs[at];
  const fabric_claim *c = &f->claims[leg->ask >> FABRIC_RANK_BITS];
  leg->how |= FABRIC_BLOCKED;
  if (c->cycle != (uint32_t)f->now + 1 || c->rank == FABRIC_RANKS) return;
  if (flight_of(f, c->flight)->leg == at) f->downs.at[f->downs.count++] = c->flight;
}

void router_note_push(wafer_fabric *f, uint32_t from, uint32_t to) {
  uint32_t at = f->leg_of[to];
  if (at != FABRIC_NONE) f->legs[at].how |= FABRIC_HELD;
  if (f->nodes[to].count == ROUTER_BRIEF_WORDS && f->leg_of[from] != FABRIC_NONE)
    block(f, f->leg_of[from]);
}

/* ---- a hop ---- */

static inline void note(wafer_fabric *f, uint32_t at, uint32_t word, bool arrives) {
  fabric_flight one = {at, word};
  uint32_t flight = arrives ? f->arrival_count | FABRIC_LOOK : f->flight_count;
  *(arrives ? &f->arrivals[f->arrival_count++] : &f->flights[f->flight_count++]) = one;
  claim(f, f->legs[at].ask, flight);
}

/* Has the leg no words in its way? */
static bool is_clear(wafer_fabric *f, uint32_t at) {
  fabric_leg *leg = &f->legs[at];
  if (leg->how & FABRIC_ENDS || f->nodes[leg->node].count) return false;
  if (leg->how & FABRIC_BLOCKED && f->nodes[leg[1].node].count == ROUTER_BRIEF_WORDS) return false;
  leg->how &= (uint8_t)~(FABRIC_HELD | FABRIC_BLOCKED);
  return true;
}

bool router_fly(wafer_fabric *f, uint32_t from, uint32_t to, uint32_t word) {
  uint32_t at = f->leg_of[to];
  if (at == FABRIC_NONE) return false;
  if (at && f->legs[at - 1].node == from && !f->nodes[from].count)
    f->legs[at - 1].how &= (uint8_t)~FABRIC_HELD;
  if (!is_clear(f, at)) return false;
  note(f, at, word, f->legs[at].how & FABRIC_ARRIVES);
  return true;
}

/* Onto a leg of which more is to be known. */
static SELDOM void come_to(wafer_fabric *f, fabric_flight one) {
  uint32_t at = one.leg, word = one.word, node = f->legs[at].node;
  if (f->legs[at].how == FABRIC_ARRIVES || is_clear(f, at)) {
    note(f, at, word, f->legs[at].how & FABRIC_ARRIVES);
    return;
  }
  fabric_node *q = &f->nodes[node];
  *fabric_slot(q, q->count) = (fabric_entry){.word = word, .ready = fabric_stamp(f->now + 1)};
  f->legs[at].how |= FABRIC_HELD;
  if (!q->count++)
    router_ask_next(f, q->ask);
  else
    block(f, at - 1);
}

/* ---- a cycle ---- */

/* Into the queue of a core, if there is room and nobody else asks for the link. */
static bool arrive(wafer_fabric *f, const fabric_flight *one) {
  const fabric_leg *leg = &f->legs[one->leg];
  const fabric_gate *gate = &f->gates[leg->ask >> FABRIC_RANK_BITS];
  const fabric_way *way = &f->ways[gate->first + leg->ask % FABRIC_RANKS];
  uint32_t to = leg[1].node;
  fabric_node *beyond = &f->nodes[to];
  if (gate->mask || beyond->count == beyond->capacity) return false;
  fabric_entry *slot = fabric_slot(beyond, beyond->count);
  if (fabric_until(slot->stamp, (uint32_t)f->now)) return false;
  *slot = (fabric_entry){.word = one->word, .stamp = fabric_stamp(f->now + way->latency)};
  f->stats.hops += way->hops;
  if (++beyond->count >= beyond->patience) fabric_wake(f, f->sites[to].core, f->now + way->latency);
  return true;
}

void router_fly_in(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->downs.count; i++) give_way(f, f->downs.at[i]);
  f->downs.count = 0;
  for (uint32_t i = 0; i < f->arrival_count; i++) {
    const fabric_flight *one = &f->arrivals[i];
    if (one->leg != FABRIC_NONE && !arrive(f, one)) give_way(f, i | FABRIC_LOOK);
  }
  f->arrival_count = 0;
}

/* Most legs are like this one: nothing is looked up that all of them have in common. */
void router_fly_on(wafer_fabric *f) {
  const fabric_flight *at = f->flights, *end = at + f->flight_count;
  const fabric_leg *legs = f->legs;
  fabric_claim *claims = f->claims;
  uint32_t next = (uint32_t)f->now + 1;
  fabric_flight *on = f->flights;
  for (; at < end; at++) {
    fabric_flight one = {at->leg + 1, at->word};
    const fabric_leg *leg = &legs[one.leg];
    if (!one.leg) continue; /* has come down */
    f->stats.hops++;
    fabric_claim *c = &claims[leg->ask >> FABRIC_RANK_BITS];
    if (leg->how || c->cycle == next) {
      f->flight_count = (uint32_t)(on - f->flights);
      come_to(f, one);
      on = f->flights + f->flight_count;
      continue;
    }
    uint32_t flight = (uint32_t)(on - f->flights);
    *c = (fabric_claim){next, flight, (uint8_t)(leg->ask % FABRIC_RANKS), c->rank};
    *on++ = one;
  }
  f->flight_count = (uint32_t)(on - f->flights);
}

/* ---- before a run ---- */

static bool is_plain(const wafer_fabric *f, const fabric_node *q) {
  return router_is_brief(q) && !q->gone && !q->outer && !q->by_switch && !q->border &&
         !(q->flags & FABRIC_PUSH_FLAGS) && !router_asks_at_border(f, q);
}

/* Where a leg leads to: FABRIC_NONE: none begins here. */
static uint32_t leads_to(const wafer_fabric *f, uint32_t node) {
  const fabric_node *q = &f->nodes[node];
  if (q->outs != 1 || !is_plain(f, q)) return FABRIC_NONE;
  const fabric_gate *gate = &f->gates[q->ask >> FABRIC_RANK_BITS];
  const fabric_out *out = &f->outs[f->sites[node].first_out];
  const fabric_node *beyond = &f->nodes[out->node];
  bool arrives = (beyond->flags & FABRIC_PUSH_FLAGS) == FABRIC_TO_CORE && !beyond->filtered;
  bool hop = is_plain(f, beyond) && out->latency == 1 && out->hops == 1;
  return (arrives || hop) && !gate->many ? out->node : FABRIC_NONE;
}

static void add_leg(wafer_fabric *f, uint32_t *count, uint32_t node, uint8_t how) {
  if (!(how & FABRIC_ENDS)) f->leg_of[node] = *count;
  f->legs[(*count)++] = (fabric_leg){node, f->nodes[node].ask, how};
}

/* All legs from here on, and what comes after the last. */
static void add_way(wafer_fabric *f, uint32_t *count, uint32_t node) {
  for (uint32_t to; (to = leads_to(f, node)) != FABRIC_NONE && f->leg_of[node] == FABRIC_NONE;
       node = to)
    add_leg(f, count, node, f->nodes[to].to_core ? FABRIC_ARRIVES : 0);
  add_leg(f, count, node, FABRIC_ENDS);
}

static void find_legs(wafer_fabric *f) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < f->node_count; i++) f->leg_of[i] = FABRIC_NONE;
  for (uint32_t i = 0; i < f->node_count; i++)
    if (leads_to(f, i) != FABRIC_NONE && leads_to(f, f->sites[i].from) == FABRIC_NONE)
      add_way(f, &count, i);
  for (uint32_t i = 0; i < f->link_room; i++) f->claims[i] = (fabric_claim){.rank = FABRIC_RANKS};
}

/* A leg has one wavelet in flight at most, which comes down for two reasons at most. */
bool router_make_flights(wafer_fabric *f) {
  size_t most = (size_t)f->node_count + 1;
  if (!f->legs) return true;
  f->flights = malloc(most * sizeof *f->flights);
  f->arrivals = malloc(most * sizeof *f->arrivals);
  f->downs.at = malloc(2 * most * sizeof *f->downs.at);
  return f->flights && f->arrivals && f->downs.at;
}

wafer_status router_find_legs(wafer_fabric *f) {
  size_t most = 2 * ((size_t)f->node_count + 1);
  if (!f->single || f->plain || f->entered || f->faults) return WAFER_OK;
  f->legs = malloc(most * sizeof *f->legs);
  f->leg_of = malloc(most * sizeof *f->leg_of);
  f->claims = malloc(f->link_room * sizeof *f->claims);
  if (!f->legs || !f->leg_of || !f->claims || !router_make_flights(f))
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                      "%u queues and what flies between them do not fit the host", f->node_count);
  find_legs(f);
  return WAFER_OK;
}
