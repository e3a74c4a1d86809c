/* Wavelets into queues and out of them; at once through all those whose core does not want them. */
#include <string.h>

#include "router.h"

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

/* Cycles until a wavelet that comes into an empty queue may leave: not before the last one, which
 * may be ahead of time. */
static inline uint32_t behind_last(const wafer_fabric *f, const fabric_node *q, uint32_t delay) {
  uint32_t free_from = fabric_after_last(f, q);
  return free_from > delay ? free_from : delay;
}

static inline void push(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  f = fabric_home(f, q->strip);
  if (q->fans_out) {
    if (fabric_fan_out(f, node, entry.word, delay)) return;
    if (q->passed && !q->count) delay = behind_last(f, q, delay); /* router_run_ahead was here */
  }
  entry.ready = fabric_stamp(f->now + delay);
  *fabric_slot(q, q->count++) = entry;
  if (f->entered) f->entered[node]++;
  if (q->to_core) {
    if (q->count >= q->patience) fabric_wake(f, f->sites[node].core, f->now + delay);
  } else if (q->at_edge)
    f->moved = true;
  else if (q->count == 1)
    router_ask(f, q, delay);
}

/* Does a wavelet that may leave q `*delay` cycles from now pass a core that does not want it? Then
 * `*delay` becomes that of the cycle in which there is room beyond: it leaves in that cycle, for
 * its link leads out of no other queue, and room that is there stays. */
static inline bool passes(const wafer_fabric *f, const fabric_node *q, uint32_t control,
                          uint32_t *delay) {
  const fabric_site *site = fabric_site_of(f, q);
  fabric_filter *filter = &f->filters[site->filter];
  if (!fabric_skips(filter) || (q->switched && control)) return false;
  uint32_t room = q->outs > 1 ? fabric_room_in(f, &f->nodes[f->outs[site->first_out].node], 1) : 0;
  if (room == FABRIC_NONE) return false;
  if (room > *delay) *delay = room;
  if (*delay >= FABRIC_SOON) return false;
  fabric_filter_step(filter);
  return true;
}

/* The slot of a wavelet that leaves `delay` cycles from now is free in the cycle after. */
static inline void go_through(wafer_fabric *f, fabric_node *q, uint32_t delay) {
  fabric_front(q)->ready = fabric_stamp(f->now + delay + q->credit);
  if (++q->head == q->capacity) q->head = 0;
  f->moved |= q->outer; /* the host may have waited for room */
}

void router_send_on(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  while (q->passed && !q->count && !q->fans_out) {
    delay = behind_last(f, q, delay);
    if (!passes(f, q, entry.control, &delay)) break;
    if (f->entered) f->entered[node]++;
    go_through(f, q, delay);
    if (q->outs == 1) return; /* nobody wants it */
    const fabric_out *on = &f->outs[f->sites[node].first_out];
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
  router_send_on(f, node, (fabric_entry){.word = word, .control = control & 3}, delay + site->late);
}

void fabric_push_burst(wafer_fabric *f, uint32_t node, const fabric_burst *b) {
  fabric_node *q = &f->nodes[node];
  fabric_site *site = &f->sites[node];
  fabric_entry *entries = fabric_entry_at(q, 0);
  const unsigned char *from = b->from;
  uint32_t at = q->head + q->count, delay = b->delay + site->late, before = q->count;
  if (at >= q->capacity) at -= q->capacity;
  for (uint32_t i = 0; i < b->words; i++, from += b->stride) {
    fabric_entry *slot = &entries[at];
    memcpy(&slot->word, from, sizeof slot->word);
    slot->stamp = fabric_stamp(f->now + delay + i);
    if (i + 1 == b->words) slot->control = b->control & 3;
    if (++at == q->capacity) at = 0;
  }
  site->used = true;
  f->stats.hops += (uint64_t)b->words * site->far;
  if (f->entered) f->entered[node] += b->words;
  q->count = (uint16_t)(before + b->words);
  if (!before) router_ask(f, q, delay);
}

/* The queue that writes into q. */
static fabric_node *before(const wafer_fabric *f, const fabric_node *q) {
  const fabric_site *site = fabric_site_of(f, q);
  const fabric_switch *s = q->by_switch ? &f->switches[site->from] : NULL;
  return &f->nodes[s ? s->nodes[s->position] : site->from];
}

void router_tell_of_pop(wafer_fabric *f, uint32_t node, fabric_node *q) {
  q->awaited = false;
  if (q->outer) {
    if (q->from_core) fabric_wake(f, f->sites[node].writer, f->now + q->credit);
  } else if (f->aside && q->crossed) {
    f->failed |= !fabric_put(f, &f->popped, node);
  } else {
    fabric_node *waits = before(f, q);
    router_ask_room(fabric_home(f, waits->strip), waits, q->credit);
  }
}

void fabric_tell_of_pops(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->popped.count; i++) {
    const fabric_node *q = &f->nodes[f->popped.at[i]];
    fabric_node *waits = before(f, q);
    router_ask_room(fabric_home(f, waits->strip), waits, q->credit);
  }
  f->popped.count = 0;
}

void fabric_pop(wafer_fabric *f, fabric_node *q) {
  router_pop(f, (uint32_t)(q - f->nodes), q);
}

void fabric_lose(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  f = fabric_home(f, q->strip);
  q->pending = router_all_outs(q);
  fabric_pop(f, q);
  if (!q->count || q->to_core) return;
  router_next_later(f, q);
  router_ask(f, q, fabric_wait(f, q));
}

void router_run_ahead(wafer_fabric *f, uint32_t node, fabric_node *q) {
  while (q->passed && q->count && q->pending == router_all_outs(q)) {
    fabric_entry entry = *fabric_front(q);
    uint32_t delay = fabric_wait(f, q);
    if (!passes(f, q, entry.control, &delay)) return;
    go_through(f, q, delay);
    q->count--;
    f->moved |= q->outer;
    if (q->awaited) router_tell_of_pop(f, node, q);
    if (q->count && fabric_wait(f, q) <= delay)
      fabric_front(q)->ready = fabric_stamp(f->now + delay + 1);
    if (q->outs == 1) continue;
    const fabric_out *on = &f->outs[f->sites[node].first_out];
    f->stats.hops += on->hops;
    router_send_on(f, on->node, entry, delay + on->latency);
  }
}
