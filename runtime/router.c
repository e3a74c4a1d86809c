/* A cycle of all routers: every queue with a wavelet offers its front to the links of its route; a link
 * takes one wavelet a cycle, in turn between the queues that ask; a full queue behind it takes none. */
#include "fabric_state.h"

void fabric_push(wafer_fabric *f, uint32_t node, fabric_entry entry) {
  fabric_node *q = &f->nodes[node];
  uint32_t at = q->head + q->count++;
  if (at >= q->capacity) at -= q->capacity;
  f->pool[q->base + at] = entry;
  if (q->to_core) {
    fabric_wake(f, q->router, entry.ready);
  } else if (!q->listed) {
    q->listed = true;
    f->active[f->active_count++] = node;
  }
}

static uint32_t all_outs(const fabric_node *q) { return (1u << q->outs) - 1; }

void fabric_pop(wafer_fabric *f, fabric_node *q) {
  if (++q->head == q->capacity) q->head = 0;
  q->count--;
  q->popped = f->now + 1;
  q->pending = all_outs(q);
  f->moved = true;
}

/* The front of q has taken its last link. */
static void leave(wafer_fabric *f, fabric_node *q, bool control) {
  fabric_pop(f, q);
  if (q->from == FABRIC_NONE) fabric_wake(f, q->router, f->now + 1);
  if (control && q->sw != FABRIC_NONE) f->turning[f->turning_count++] = q->sw;
}

static void take(wafer_fabric *f, fabric_node *q, uint32_t branch) {
  fabric_entry entry = *fabric_front(f, q);
  const fabric_out *out = &f->outs[q->first_out + branch];
  const fabric_link *link = &f->links[out->link];
  entry.ready = f->now + link->latency;
  fabric_push(f, out->node, entry);
  f->stats.hops += link->between;
  q->pending &= ~(1u << branch);
  if (!q->pending) leave(f, q, entry.control);
}

/* Keeps the asker that is next in turn. */
static void ask(wafer_fabric *f, uint32_t node, uint32_t out, fabric_link *link) {
  uint32_t rank = f->ranks[out] + link->candidates - link->last - 1;
  if (rank >= link->candidates) rank -= link->candidates;
  if (link->asked != f->now + 1) {
    link->asked = f->now + 1;
    f->contended[f->contended_count++] = (uint32_t)(link - f->links);
  } else if (rank > link->best_rank) {
    return;
  }
  link->best = node;
  link->best_out = out;
  link->best_rank = rank;
}

static wafer_status visit(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  if (fabric_front(f, q)->ready > f->now) {
    f->moved = true; /* it will */
    return WAFER_OK;
  }
  if (!q->outs && q->sw == FABRIC_NONE)
    return fabric_trap(f, q->router, "a wavelet of color %u came in from port %u and has no route", q->color,
                       q->port);
  for (uint32_t left = q->pending; left; left &= left - 1) {
    uint32_t branch = (uint32_t)__builtin_ctz(left), out = q->first_out + branch;
    if (!fabric_has_room(f, &f->nodes[f->outs[out].node])) continue;
    fabric_link *link = &f->links[f->outs[out].link];
    if (link->candidates > 1) ask(f, node, out, link);
    else take(f, q, branch);
  }
  return WAFER_OK;
}

static void serve_contended(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->contended_count; i++) {
    fabric_link *link = &f->links[f->contended[i]];
    link->last = f->ranks[link->best_out];
    fabric_node *q = &f->nodes[link->best];
    take(f, q, link->best_out - q->first_out);
  }
  f->contended_count = 0;
}

/* After everything else of the cycle: the next position holds from the next cycle on. */
static void turn_switches(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->turning_count; i++) {
    fabric_switch *s = &f->switches[f->turning[i]];
    fabric_node *before = &f->nodes[s->nodes[s->position]];
    before->outs = before->pending = 0;
    if (s->position + 1u < s->positions) s->position++;
    else if (s->wrap) s->position = 0;
    fabric_node *q = &f->nodes[s->nodes[s->position]];
    q->first_out = s->first_out[s->position];
    q->outs = s->outs[s->position];
    q->pending = all_outs(q);
  }
  f->turning_count = 0;
}

wafer_status fabric_route(wafer_fabric *f) {
  uint32_t before = f->active_count, kept = 0;
  for (uint32_t i = 0; i < before; i++) WAFER_TRY(visit(f, f->active[i]));
  serve_contended(f);
  turn_switches(f);
  for (uint32_t i = 0; i < f->active_count; i++) {
    uint32_t node = f->active[i];
    f->nodes[node].listed = f->nodes[node].count != 0;
    if (f->nodes[node].listed) f->active[kept++] = node;
  }
  f->active_count = kept;
  return WAFER_OK;
}
