/* Queues of which more is to be known than the cycle in which their front may leave: they are
 * looked at, and ask for their links when there is room beyond. */
#include "router.h"

void fabric_find_pass(const wafer_fabric *f, fabric_node *q) {
  q->passed = false;
  if (f->single || !q->outs || q->outs > 2) return;
  const fabric_out *first = &f->outs[fabric_site_of(f, q)->first_out], *last = first + q->outs - 1;
  if (!f->nodes[last->node].filtered || (last != first && !first->alone)) return;
  bool stays = f->nodes[first->node].strip == q->strip;
  q->passed = last == first || (stays && !f->nodes[first->node].filtered);
  fabric_site_of(f, q)->filter = f->sites[last->node].filter;
}

uint32_t fabric_asked(const wafer_fabric *f, const fabric_out *out) {
  uint32_t link = out->rank < FABRIC_RANKS ? out->link : f->links[out->link].more;
  return link << FABRIC_RANK_BITS | out->rank % FABRIC_RANKS;
}

/* The core does not want the front of q: it passes by without a link or room. */
static bool skip(wafer_fabric *f, uint32_t node, fabric_node *q, uint32_t branch, uint32_t to) {
  fabric_filter *filter = &f->filters[f->sites[to].filter];
  if (!fabric_skips(filter)) return false;
  uint32_t control = fabric_front(q)->control;
  fabric_filter_step(filter);
  q->pending &= (uint8_t)(31u & ~(1u << branch));
  if (q->pending) return true;
  router_leave(f, node, q, control);
  if (q->count) router_arm(f, q, fabric_wait(f, q));
  return true;
}

static wafer_status no_route(const wafer_fabric *f, uint32_t node) {
  static const char *const ports[] = {"the north", "the east", "the south", "the west", "the core"};
  const fabric_site *site = &f->sites[node];
  return fabric_trap(f, site->router, "a wavelet of color %u came in from %s and has no route",
                     site->color, ports[site->port]);
}

void router_go_one_way(wafer_fabric *f, uint32_t node, uint32_t way) {
  fabric_node *q = &f->nodes[node];
  const fabric_out *out = &f->outs[way];
  fabric_entry entry = *fabric_front(q);
  f->stats.hops += out->hops;
  router_send_on(f, out->node, entry, out->latency);
  if (f->nodes[out->node].filtered) fabric_filter_step(&f->filters[f->sites[out->node].filter]);
  q->pending &= (uint8_t)(31u & ~(1u << (way - f->sites[node].first_out)));
  if (q->pending) return;
  router_leave(f, node, q, entry.control);
  if (q->count) router_arm(f, q, fabric_wait(f, q));
}

/* Puts the ready front of a queue into the masks of the links that it could go over; where nobody
 * else can ask at the same time, it goes. */
static wafer_status look(wafer_fabric *f, uint32_t node, fabric_node *q) {
  if (q->passed) router_run_ahead(f, node, q);
  if (!q->count) return WAFER_OK;
  uint32_t wait = fabric_wait(f, q);
  if (wait) {
    router_arm(f, q, wait);
    return WAFER_OK;
  }
  if (!q->outs && !q->switched) return no_route(f, node);
  for (uint32_t left = q->pending; left; left &= left - 1) {
    uint32_t branch = (uint32_t)__builtin_ctz(left);
    const fabric_out *out = &f->outs[f->sites[node].first_out + branch];
    fabric_node *beyond = &f->nodes[out->node];
    if (beyond->filtered && skip(f, node, q, branch, out->node)) continue;
    wait = fabric_room_in(f, beyond, 1);
    if (!wait && out->alone)
      router_go_one_way(f, node, f->sites[node].first_out + branch);
    else if (!wait)
      router_ask_now(f, fabric_asked(f, out));
    else if (wait == FABRIC_NONE)
      beyond->awaited = true;
    else
      router_arm(f, q, wait);
  }
  return WAFER_OK;
}

void router_turn_switches(wafer_fabric *f) {
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
    f->sites[s->nodes[s->position]].first_out = s->first_out[s->position];
    q->outs = (uint8_t)s->outs[s->position];
    q->pending = router_all_outs(q);
    fabric_find_pass(f, q);
    if (q->count) router_arm(f, q, 1);
  }
  f->turning_count = 0;
}

wafer_status router_collect(wafer_fabric *f, fabric_bucket *bucket) {
  wafer_status status = WAFER_OK;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < bucket->count; i++) {
    uint32_t asked = bucket->at[i],
             next = bucket->at[i + ROUTER_AHEAD < bucket->count ? i + ROUTER_AHEAD : i];
    if (next & FABRIC_LOOK) __builtin_prefetch(&f->nodes[next & ~FABRIC_LOOK], 1);
    if (!(asked & FABRIC_LOOK)) {
      if (asked & FABRIC_BIT)
        router_bits_ask(f, asked);
      else
        router_ask_now(f, asked);
      continue;
    }
    fabric_node *q = &f->nodes[asked & ~FABRIC_LOOK];
    if (q->armed != f->now % FABRIC_BUCKETS + 1) continue; /* looked at before */
    if (f->aside && q->border) {
      bucket->at[kept++] = asked;
      continue;
    }
    q->armed = 0;
    wafer_status one = look(f, asked & ~FABRIC_LOOK, q);
    if (one != WAFER_OK) status = one;
  }
  bucket->count = kept;
  return status;
}
