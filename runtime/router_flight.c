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

/* ---- flights, legs and claims ---- */

static inline fabric_flight flight(uint32_t leg, uint32_t word) {
  return (fabric_flight)leg << 32 | word;
}
static inline uint32_t leg_of(fabric_flight one) {
  return (uint32_t)(one >> 32);
}
static fabric_flight *flight_at(const wafer_fabric *f, uint32_t at) {
  return at & FABRIC_LOOK ? &f->arrivals[at & ~FABRIC_LOOK] : &f->flights[at];
}
static inline uint32_t link_of(fabric_leg leg) {
  return leg >> FABRIC_LEG_RANK_BITS & (FABRIC_LEG_LINKS - 1);
}
static inline uint32_t rank_of(fabric_leg leg) {
  return leg & FABRIC_LEG_RANKS;
}

static inline uint32_t told(uint64_t cycle, uint32_t before, uint32_t rank) {
  return (uint32_t)cycle << 2 * FABRIC_LEG_RANK_BITS | before << FABRIC_LEG_RANK_BITS | rank;
}
static inline bool is_of(const fabric_claim *c, uint64_t cycle) {
  return (c->told ^ told(cycle, 0, 0)) < told(1, 0, 0);
}
static inline uint32_t rank_claimed(const fabric_claim *c) {
  return c->told & FABRIC_LEG_RANKS;
}
static inline uint32_t rank_before(const fabric_claim *c) {
  return c->told >> FABRIC_LEG_RANK_BITS & FABRIC_LEG_RANKS;
}

/* Into its queue, as if it had come there in the cycle before. */
static void come_down(wafer_fabric *f, fabric_flight *one) {
  uint32_t leg = leg_of(*one);
  fabric_node *q = &f->nodes[f->leg_nodes[leg]];
  assert(!q->count);
  *fabric_slot(q, q->count++) =
      (fabric_entry){.word = (uint32_t)*one, .ready = fabric_stamp(f->now)};
  f->legs[leg] |= FABRIC_HELD;
  *one = flight(FABRIC_NONE, 0);
  router_ask_now(f, q->ask);
}

/* ---- claims ---- */

/* A turn that a flight took, and nobody else has asked for since, is told in its claim. */
static inline void claim(wafer_fabric *f, fabric_leg leg, uint32_t at) {
  fabric_claim *c = &f->claims[link_of(leg)];
  if (is_of(c, f->now + 1) && router_is_claimed(*c)) { /* one of them comes down */
    f->downs.at[f->downs.count++] = at;
    return;
  }
  *c = (fabric_claim){at, told(f->now + 1, rank_claimed(c), rank_of(leg))};
}

/* Among those that ask for the link from queues is the flight that has a claim on it. It may be its
 * turn. */
bool router_settle_claim(wafer_fabric *f, uint32_t at) {
  fabric_claim *c = &f->claims[at];
  fabric_gate *gate = &f->gates[at];
  uint32_t rank = rank_claimed(c), before = rank_before(c);
  if (!is_of(c, f->now)) {
    gate->turns = (uint16_t)rank;
    c->told |= FABRIC_LEG_RANKS;
    return false;
  }
  if (before != FABRIC_LEG_RANKS) gate->turns = (uint16_t)before;
  bool goes = router_pick(gate->mask | 1ull << rank, (uint8_t)gate->turns) == rank;
  c->told = told(f->now, FABRIC_LEG_RANKS, goes ? rank : FABRIC_LEG_RANKS);
  if (!goes) come_down(f, flight_at(f, c->flight));
  return goes;
}

/* At rest nothing is in flight, whatever the present cycle. */
void router_settle_claims(wafer_fabric *f, uint64_t cycle) {
  uint64_t era = cycle >> (FABRIC_CLAIM_BITS - 2);
  if (!f->claims || era == f->claim_era) return;
  f->claim_era = era;
  for (uint32_t i = 0; i < f->link_room; i++)
    if (router_is_claimed(f->claims[i]) && !is_of(&f->claims[i], f->now)) router_settle_claim(f, i);
}

/* The flight comes down, and has no claim any more. */
static void give_way(wafer_fabric *f, uint32_t at) {
  fabric_flight *one = flight_at(f, at);
  if (leg_of(*one) == FABRIC_NONE) return;
  uint32_t link = link_of(f->legs[leg_of(*one)]);
  fabric_claim *c = &f->claims[link];
  if (c->flight == at && is_of(c, f->now)) {
    if (rank_before(c) != FABRIC_LEG_RANKS) f->gates[link].turns = (uint16_t)rank_before(c);
    c->told |= FABRIC_LEG_RANKS;
  }
  come_down(f, one);
}

/* The queue after this leg is full: who has come to the leg by now does not go on. */
static void block(wafer_fabric *f, uint32_t at) {
  const fabric_claim *c = &f->claims[link_of(f->legs[at])];
  f->legs[at] |= FABRIC_BLOCKED;
  if (!is_of(c, f->now + 1) || !router_is_claimed(*c)) return;
  if (leg_of(*flight_at(f, c->flight)) == at) f->downs.at[f->downs.count++] = c->flight;
}

void router_note_push(wafer_fabric *f, const fabric_candidate *who) {
  uint32_t to = who->to & ~FABRIC_LOOK, at = who->leg & ~FABRIC_LOOK;
  if (who->leg != FABRIC_NONE) f->legs[at] |= FABRIC_HELD;
  if (f->nodes[to].count != ROUTER_BRIEF_WORDS) return;
  uint32_t before = who->leg & FABRIC_LOOK ? f->leg_of[who->node] : at - 1;
  if (before != FABRIC_NONE) block(f, before);
}

/* ---- a hop ---- */

static inline void note(wafer_fabric *f, fabric_flight one) {
  fabric_leg leg = f->legs[leg_of(one)];
  bool arrives = leg & FABRIC_ARRIVES;
  uint32_t at = arrives ? f->arrival_count | FABRIC_LOOK : f->flight_count;
  *(arrives ? &f->arrivals[f->arrival_count++] : &f->flights[f->flight_count++]) = one;
  claim(f, leg, at);
}

/* Has the leg no words in its way? */
static bool is_clear(wafer_fabric *f, uint32_t at) {
  fabric_leg leg = f->legs[at];
  const uint32_t *node = &f->leg_nodes[at];
  if (leg & FABRIC_ENDS || f->nodes[*node].count) return false;
  if (leg & FABRIC_BLOCKED && f->nodes[node[1]].count == ROUTER_BRIEF_WORDS) return false;
  f->legs[at] = leg & ~(FABRIC_HELD | FABRIC_BLOCKED);
  return true;
}

bool router_fly(wafer_fabric *f, const fabric_candidate *who, uint32_t word) {
  uint32_t at = who->leg & ~FABRIC_LOOK;
  if (who->leg == FABRIC_NONE || f->nodes[who->to & ~FABRIC_LOOK].count) return false;
  if (!(who->leg & FABRIC_LOOK) && !f->nodes[who->node].count) f->legs[at - 1] &= ~FABRIC_HELD;
  if (!is_clear(f, at)) return false;
  note(f, flight(at, word));
  return true;
}

/* Onto a leg of which more is to be known. */
static SELDOM void come_to(wafer_fabric *f, fabric_flight one) {
  uint32_t at = leg_of(one);
  bool in_its_way = f->legs[at] & (FABRIC_HELD | FABRIC_BLOCKED | FABRIC_ENDS);
  if (!in_its_way || is_clear(f, at)) {
    note(f, one);
    return;
  }
  fabric_node *q = &f->nodes[f->leg_nodes[at]];
  *fabric_slot(q, q->count) =
      (fabric_entry){.word = (uint32_t)one, .ready = fabric_stamp(f->now + 1)};
  if (!(f->legs[at] & FABRIC_ENDS)) f->legs[at] |= FABRIC_HELD;
  if (!q->count++)
    router_ask_next(f, q->ask);
  else
    block(f, at - 1);
}

/* ---- a cycle ---- */

/* Cycles from a router into its core. */
static inline uint32_t ramp(const wafer_fabric *f) {
  return f->machine->ramp_cycles ? f->machine->ramp_cycles : 1;
}

/* Into the queue of a core, if there is room and nobody else asks for the link. */
static bool arrive(wafer_fabric *f, fabric_flight one) {
  const fabric_leg *leg = &f->legs[leg_of(one)];
  uint32_t to = leg[1] & ~FABRIC_ENDS;
  fabric_node *beyond = &f->nodes[to];
  if (f->gates[link_of(*leg)].mask || beyond->count == beyond->capacity) return false;
  fabric_entry *slot = fabric_slot(beyond, beyond->count);
  if (fabric_until(slot->stamp, (uint32_t)f->now)) return false;
  *slot = (fabric_entry){.word = (uint32_t)one, .stamp = fabric_stamp(f->now + ramp(f))};
  if (++beyond->count >= beyond->patience) fabric_wake(f, f->sites[to].core, f->now + ramp(f));
  return true;
}

void router_fly_in(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->downs.count; i++) give_way(f, f->downs.at[i]);
  f->downs.count = 0;
  for (uint32_t i = 0; i < f->arrival_count; i++) {
    fabric_flight one = f->arrivals[i];
    if (leg_of(one) != FABRIC_NONE && !arrive(f, one)) give_way(f, i | FABRIC_LOOK);
  }
  f->arrival_count = 0;
}

/* Most legs are like this one: nothing is looked up that all of them have in common. */
void router_fly_on(wafer_fabric *f) {
  const fabric_flight *at = f->flights, *end = at + f->flight_count;
  const fabric_leg *legs = f->legs;
  fabric_claim *claims = f->claims;
  uint64_t next = f->now + 1, hops = f->flight_count;
  fabric_flight *on = f->flights;
  for (; at < end; at++) {
    fabric_flight one = *at + flight(1, 0);
    if (!leg_of(one)) { /* has come down */
      hops--;
      continue;
    }
    fabric_leg leg = legs[leg_of(one)];
    fabric_claim *c = &claims[link_of(leg)];
    if (leg >= FABRIC_HELD || is_of(c, next)) {
      f->flight_count = (uint32_t)(on - f->flights);
      come_to(f, one);
      on = f->flights + f->flight_count;
      continue;
    }
    c->flight = (uint32_t)(on - f->flights);
    c->told = told(next, rank_claimed(c), rank_of(leg));
    *on++ = one;
  }
  f->stats.hops += hops;
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
  bool arrives = (beyond->flags & FABRIC_PUSH_FLAGS) == FABRIC_TO_CORE && !beyond->filtered &&
                 out->latency == ramp(f) && !out->hops;
  bool hop = is_plain(f, beyond) && out->latency == 1 && out->hops == 1;
  bool small = !gate->many && q->ask % FABRIC_RANKS < FABRIC_LEG_RANKS;
  return (arrives || hop) && small ? out->node : FABRIC_NONE;
}

static void add_leg(wafer_fabric *f, uint32_t *count, uint32_t node, uint32_t how) {
  bool ends = how == FABRIC_ENDS;
  uint32_t ask = f->nodes[node].ask, rank = ask % FABRIC_RANKS, link = ask >> FABRIC_RANK_BITS;
  if (!ends) f->leg_of[node] = *count;
  f->leg_nodes[*count] = node;
  f->legs[(*count)++] = how | (ends ? node : link << FABRIC_LEG_RANK_BITS | rank);
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
  for (uint32_t i = 0; i < f->link_room; i++) f->claims[i].told = FABRIC_LEG_RANKS;
  for (uint32_t i = 0; i < f->out_count; i++) {
    fabric_candidate *who = &f->candidates[fabric_candidate_of(f, &f->outs[i])];
    uint32_t at = f->leg_of[who->to & ~FABRIC_LOOK];
    bool follows = at != FABRIC_NONE && at && f->leg_of[who->node] == at - 1;
    who->leg = follows || at == FABRIC_NONE ? at : at | FABRIC_LOOK;
  }
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
  if (f->link_room > FABRIC_LEG_LINKS) return WAFER_OK;
  f->legs = malloc(most * sizeof *f->legs);
  f->leg_nodes = malloc(most * sizeof *f->leg_nodes);
  f->leg_of = malloc(most * sizeof *f->leg_of);
  f->claims = malloc(f->link_room * sizeof *f->claims);
  if (!f->legs || !f->leg_nodes || !f->leg_of || !f->claims || !router_make_flights(f))
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                      "%u queues and what flies between them do not fit the host", f->node_count);
  find_legs(f);
  return WAFER_OK;
}
