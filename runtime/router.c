/* A cycle of all routers: every queue with a wavelet offers its front to the links of its route; a
 * link takes one wavelet a cycle, in turn between the queues that ask; a full queue behind it takes
 * none. */
#include <string.h>

#include "fabric_state.h"

static inline void enlist(wafer_fabric *f, uint32_t node) {
  if (f->nodes[node].listed) return;
  f->nodes[node].listed = true;
  f->active[f->active_count++] = node;
}

static inline void push(wafer_fabric *f, uint32_t node, fabric_entry entry, uint32_t delay) {
  fabric_node *q = &f->nodes[node];
  uint32_t at = q->head + q->count++;
  if (at >= q->capacity) at -= q->capacity;
  entry.ready = fabric_stamp(f->now + delay);
  q->entries[at] = entry;
  if (q->to_core)
    fabric_wake(f, f->sites[node].router, f->now + delay);
  else if (!q->at_edge)
    enlist(f, node);
}

void fabric_push(wafer_fabric *f, uint32_t node, uint32_t word, uint32_t control, uint32_t delay) {
  push(f, node, (fabric_entry){.word = word, .control = control & 3}, delay);
}

static uint8_t all_outs(const fabric_node *q) {
  return (uint8_t)((1u << q->outs) - 1);
}

/* Whoever waited for room has it from the next cycle on. */
static inline void pop(wafer_fabric *f, fabric_node *q) {
  if (q->count == q->capacity && q->from != FABRIC_NONE) enlist(f, q->from);
  if (++q->head == q->capacity) q->head = 0;
  q->count--;
  q->pops = q->popped == fabric_stamp(f->now) ? q->pops + 1 : 1;
  q->popped = fabric_stamp(f->now);
  q->pending = all_outs(q);
  f->moved = true;
}

void fabric_pop(wafer_fabric *f, fabric_node *q) {
  pop(f, q);
}

void fabric_refresh(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    if (q->popped != fabric_stamp(f->now)) q->popped = FABRIC_NONE;
    for (uint32_t k = 0; k < q->count; k++) {
      fabric_entry *entry = &q->entries[(q->head + k) % q->capacity];
      uint32_t wait = (entry->ready - fabric_stamp(f->now)) & FABRIC_STAMP_MASK;
      if (wait > FABRIC_SOON) entry->ready = fabric_stamp(f->now);
    }
  }
  for (uint32_t i = 0; i < f->link_count; i++) f->links[i].asked = FABRIC_NONE;
}

/* The front of q has taken its last link. */
static inline void leave(wafer_fabric *f, fabric_node *q, uint32_t control) {
  pop(f, q);
  if (q->from_core) fabric_wake(f, f->sites[q - f->nodes].router, f->now + 1);
  if (control && q->switched)
    f->turning[f->turning_count++] =
        (fabric_turn){f->sites[q - f->nodes].sw, control == WAFER_CONTROL_reset};
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

static inline void take(wafer_fabric *f, fabric_node *q, uint32_t branch, fabric_out out) {
  fabric_entry entry = *fabric_front(q);
  const fabric_link *link = &f->links[out.link];
  push(f, out.node, entry, link->latency);
  f->stats.hops += link->between;
  if (f->nodes[out.node].filtered) fabric_filter_step(&f->filters[f->sites[out.node].filter]);
  q->pending &= (uint8_t) ~(1u << branch);
  if (!q->pending) leave(f, q, entry.control);
}

/* The core does not want the front of q: it passes by without a link or room. */
static bool skip(wafer_fabric *f, fabric_node *q, uint32_t branch, fabric_out out) {
  fabric_filter *filter = &f->filters[f->sites[out.node].filter];
  if (!fabric_skips(filter)) return false;
  uint32_t control = fabric_front(q)->control;
  fabric_filter_step(filter);
  q->pending &= (uint8_t) ~(1u << branch);
  f->moved = true;
  if (!q->pending) leave(f, q, control);
  return true;
}

/* Keeps the asker that is next in turn. */
static inline void ask(wafer_fabric *f, uint32_t node, uint32_t branch, uint32_t rank,
                       fabric_link *link) {
  uint32_t turn = rank + link->candidates - link->last - 1;
  if (turn >= link->candidates) turn -= link->candidates;
  if (link->asked != fabric_stamp(f->now)) {
    link->asked = fabric_stamp(f->now);
    f->contended[f->contended_count++] = (uint32_t)(link - f->links);
  } else if (turn > link->best_turn) {
    return;
  }
  link->best = node;
  link->best_branch = (uint8_t)branch;
  link->best_rank = (uint16_t)rank;
  link->best_turn = (uint16_t)turn;
}

static inline fabric_out out_of(const wafer_fabric *f, const fabric_node *q, uint32_t branch) {
  return branch ? f->outs[q->first_out + branch] : q->only;
}

/* False: the queue beyond is full, and its next pop enlists this one again. */
static inline bool offer(wafer_fabric *f, uint32_t node, fabric_node *q, uint32_t branch) {
  fabric_out out = out_of(f, q, branch);
  const fabric_node *beyond = &f->nodes[out.node];
  if (beyond->filtered && skip(f, q, branch, out)) return true;
  if (beyond->count == beyond->capacity) return false;
  if (!fabric_room(f, beyond)) return true;
  fabric_link *link = &f->links[out.link];
  if (link->candidates == 1)
    take(f, q, branch, out);
  else
    ask(f, node, branch, branch ? f->ranks[q->first_out + branch] : q->rank, link);
  return true;
}

static wafer_status no_route(const wafer_fabric *f, uint32_t node) {
  static const char *const ports[] = {"the north", "the east", "the south", "the west", "the core"};
  const fabric_site *site = &f->sites[node];
  return fabric_trap(f, site->router, "a wavelet of color %u came in from %s and has no route",
                     site->color, ports[site->port]);
}

static inline wafer_status visit(wafer_fabric *f, uint32_t node, bool *stays) {
  fabric_node *q = &f->nodes[node];
  if (fabric_wait(f, q)) {
    f->moved = true; /* it will */
    return WAFER_OK;
  }
  if (q->pending == 1) {
    *stays = offer(f, node, q, 0) || q->switched; /* the queue beyond knows only one before it */
    return WAFER_OK;
  }
  if (!q->outs && !q->switched) return no_route(f, node);
  for (uint32_t left = q->pending; left; left &= left - 1)
    offer(f, node, q, (uint32_t)__builtin_ctz(left));
  return WAFER_OK;
}

static void serve_contended(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->contended_count; i++) {
    fabric_link *link = &f->links[f->contended[i]];
    fabric_node *q = &f->nodes[link->best];
    link->last = link->best_rank;
    take(f, q, link->best_branch, out_of(f, q, link->best_branch));
  }
  f->contended_count = 0;
}

/* After everything else of the cycle: the next position holds from the next cycle on. */
static void turn_switches(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->turning_count; i++) {
    fabric_switch *s = &f->switches[f->turning[i].sw];
    fabric_node *before = &f->nodes[s->nodes[s->position]];
    before->outs = before->pending = 0;
    if (f->turning[i].reset)
      s->position = 0;
    else if (s->position + 1u < s->positions)
      s->position++;
    else if (s->wrap)
      s->position = 0;
    fabric_node *q = &f->nodes[s->nodes[s->position]];
    q->first_out = s->first_out[s->position];
    q->outs = (uint8_t)s->outs[s->position];
    q->only = f->outs[q->first_out];
    q->rank = f->ranks[q->first_out];
    q->pending = all_outs(q);
  }
  f->turning_count = 0;
}

/* Queues that are empty or wait for a full one leave the list when their turn comes; those filled
 * or freed in this cycle join behind. */
wafer_status fabric_route(wafer_fabric *f) {
  uint32_t before = f->active_count, kept = 0;
  for (uint32_t i = 0; i < before; i++) {
    uint32_t node = f->active[i];
    __builtin_prefetch(&f->nodes[f->active[i + 4 < before ? i + 4 : i]]);
    bool stays = f->nodes[node].count != 0;
    if (stays) WAFER_TRY(visit(f, node, &stays));
    if (stays)
      f->active[kept++] = node;
    else
      f->nodes[node].listed = false;
  }
  serve_contended(f);
  turn_switches(f);
  uint32_t joined = f->active_count - before;
  memmove(&f->active[kept], &f->active[before], joined * sizeof *f->active);
  f->active_count = kept + joined;
  return WAFER_OK;
}
