/* Hops between brief queues: of two words, with one way on, over a link of one cycle into another
 * such queue of the same strip. Where much is under way most hops are of that kind, so this is what
 * the speed of the emulation hangs on: nothing is looked up that all of them have in common, and
 * nothing is called. What does not go at once is left to router.c, which knows why. */
#include "router.h"

/* ---- who ---- */

bool router_asks_at_border(const wafer_fabric *f, const fabric_node *q) {
  return f->gates[q->ask >> FABRIC_RANK_BITS].border;
}

void router_find_briefs(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    const fabric_node *q = &f->nodes[i];
    bool one_way = q->outs == 1 && !(q->ask & FABRIC_LOOK) && !q->to_core && !q->at_edge;
    if (!one_way || q->outer != q->from_core || q->border || q->gone) continue;
    const fabric_out *out = &f->outs[f->sites[i].first_out];
    const fabric_node *beyond = &f->nodes[out->node];
    const fabric_link *link = &f->links[out->link];
    bool simple = router_is_brief(beyond) && !(beyond->flags & FABRIC_PUSH_FLAGS) &&
                  !beyond->border && !router_asks_at_border(f, beyond);
    if (simple && out->latency == 1 && out->hops == 1 && link->more == FABRIC_NONE)
      f->candidates[fabric_candidate_of(f, out)].to = out->node;
  }
}

/* ---- a cycle ---- */

/* A queue asks for its link in the next cycle: the end of the list. */
static inline uint32_t *ask_next(fabric_gate *gates, uint32_t asked, uint32_t *end) {
  uint32_t at = asked >> FABRIC_RANK_BITS;
  uint64_t mask = gates[at].mask;
  *end = at;
  gates[at].mask = mask | 1ull << asked % FABRIC_RANKS;
  return end + !mask;
}

/* In `next`, the stamp of the next cycle, a wavelet may leave the queue to which it goes now, and
 * the slot that it leaves is room. */
void router_hop_all(wafer_fabric *f) {
  fabric_node *nodes = f->nodes;
  fabric_gate *gates = f->gates;
  uint32_t next = fabric_stamp(f->now + 1);
  uint32_t *asked = f->asked_next.at + f->asked_next.count, *other = f->others.at + f->others.count;
  const fabric_candidate *end = f->briefs + f->brief_count;
  for (const fabric_candidate *who = f->briefs; who < end; who++) {
    __builtin_prefetch(&nodes[who[FABRIC_AHEAD].node], 1);
    __builtin_prefetch(&nodes[who[FABRIC_AHEAD].to], 1);
    fabric_node *q = &nodes[who->node], *beyond = &nodes[who->to];
    uint32_t left = q->count - 1u, before = beyond->count, head = q->head;
    fabric_entry *front = fabric_entry_at(q, head);
    fabric_entry *slot = &beyond->own[(beyond->head + before) % 2];
    uint32_t stamp = front->stamp;
    if (left >= q->capacity || before == ROUTER_BRIEF_WORDS ||
        fabric_early(stamp, slot->stamp, next - 1)) {
      *other++ = q->ask; /* it is seen there what is in the way */
      continue;
    }
    uint32_t word = front->word;
    front->stamp = fabric_stamp(next - 1 + q->credit);
    q->head = (uint16_t)(head + 1 == q->capacity ? 0 : head + 1);
    q->count = (uint16_t)left;
    if (q->awaited) f->told.at[f->told.count++] = who->node;
    slot->word = word;
    slot->stamp = next | (stamp & ~FABRIC_STAMP_MASK);
    beyond->count = (uint16_t)(before + 1);
    if (!before) asked = ask_next(gates, beyond->ask, asked);
    if (!left) continue;
    if (before)
      beyond->awaited = true;
    else
      asked = ask_next(gates, q->ask, asked);
  }
  f->asked_next.count = (uint32_t)(asked - f->asked_next.at);
  f->stats.hops += f->brief_count + f->others.count;
  f->others.count = (uint32_t)(other - f->others.at);
  f->stats.hops -= f->others.count;
}
