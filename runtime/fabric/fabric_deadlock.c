/* When nothing moves any more: has everything ended, and if not, who waits for whom. */
#include <stdio.h>
#include <stdlib.h>

#include "fabric_state.h"

/* What a core that has not ended waits for. */
typedef struct wait {
  uint32_t node; /* the queue that is empty or full; FABRIC_NONE: a thread of its own */
  bool to_send;
} wait;

static bool thread_waits(const wafer_fabric *f, const core_thread *t, wait *w) {
  const wafer_instruction *code = t->code;
  if (t->state == THREAD_FREE) return false;
  *w = (wait){FABRIC_NONE, false};
  for (uint32_t k = 0; k < WAFER_COUNT(code->in); k++)
    if (code->in[k].kind == WAFER_OPERAND_fabric && !f->nodes[t->queue[k + 1]].count)
      w->node = t->queue[k + 1];
  if (w->node == FABRIC_NONE && code->out.kind == WAFER_OPERAND_fabric) {
    const fabric_node *q = &f->nodes[t->queue[0]];
    if (q->count == q->capacity) *w = (wait){t->queue[0], true};
  }
  return true;
}

/* False: the core has ended. Threads that wait for the fabric say more than those that wait for
 * them. */
static bool core_waits(const wafer_fabric *f, uint32_t router, wait *w) {
  const fabric_core *core =
      f->core_of[router] == FABRIC_NONE ? NULL : &f->cores[f->core_of[router]];
  bool waits = false;
  wait one;
  *w = (wait){FABRIC_NONE, false};
  if (!core) return false;
  for (uint32_t i = 0; i < core->thread_count; i++) {
    if (!thread_waits(f, &core->threads[i], &one)) continue;
    waits = true;
    if (w->node == FABRIC_NONE) *w = one;
  }
  return waits || core->state != CORE_IDLE;
}

/* The core at the other end: of an empty queue, where its wavelets would come from, or the first of
 * them has stopped; of a full one, where the first wavelet that cannot go on would go. */
static uint32_t other_end(const wafer_fabric *f, wait w) {
  uint32_t node = w.node;
  for (uint32_t steps = 0; steps < f->node_count; steps++) {
    const fabric_node *q = &f->nodes[node];
    const fabric_site *site = &f->sites[node];
    if (!w.to_send) {
      if (q->count && !q->to_core) return site->router; /* of a row: at its end */
      if (site->from == FABRIC_NONE) return site->source;
      const fabric_switch *s = q->by_switch ? &f->switches[site->from] : NULL;
      node = s ? s->nodes[s->position] : site->from;
      continue;
    }
    if (q->to_core || q->at_edge || !q->pending) return site->router;
    uint32_t branch = (uint32_t)__builtin_ctz(q->pending);
    for (uint32_t left = q->pending; left; left &= left - 1) {
      uint32_t one = (uint32_t)__builtin_ctz(left);
      const fabric_node *d = &f->nodes[f->outs[f->sites[node].first_out + one].node];
      if (d->count == d->capacity) branch = one;
    }
    node = f->outs[f->sites[node].first_out + branch].node;
  }
  return f->sites[w.node].router;
}

static void describe(const wafer_fabric *f, uint32_t at, bool waits, wait w, char *text,
                     size_t bytes) {
  uint32_t width = f->program->width;
  if (!waits)
    snprintf(text, bytes, "core (%u,%u) has ended", at % width, at / width);
  else if (w.node == FABRIC_NONE)
    snprintf(text, bytes, "core (%u,%u) waits for a microthread of its own", at % width,
             at / width);
  else
    snprintf(text, bytes, "core (%u,%u) waits %s color %u", at % width, at / width,
             w.to_send ? "to send on" : "for a wavelet of", f->sites[w.node].color);
}

/* Follows the waits from `at` until a core comes again or does not wait; a line for each. */
static wafer_status deadlock(const wafer_fabric *f, uint32_t first) {
  char text[128];
  wait w;
  core_waits(f, first, &w);
  describe(f, first, true, w, text, sizeof text);
  fabric_trap(f, first, "deadlock: nothing moves and %s", text);
  wafer_status status = fabric_tell_trap(f);
  unsigned char *seen = calloc(f->count, 1);
  for (uint32_t at = first; seen;) {
    bool waits = core_waits(f, at, &w);
    describe(f, at, waits, w, text, sizeof text);
    bool again = seen[at];
    seen[at] = 1;
    wafer_note(f->diag, wafer_at_file(f->program->name), "%s%s", text,
               again ? ": the cycle is closed" : "");
    if (again || !waits || w.node == FABRIC_NONE) break;
    at = other_end(f, w);
  }
  free(seen);
  return status;
}

static wafer_status left_over(const wafer_fabric *f, uint32_t node) {
  const fabric_node *q = &f->nodes[node];
  return fabric_trap(f, f->sites[node].router, "%u wavelets of color %u %s; nobody takes them",
                     q->count, f->sites[node].color,
                     q->to_core ? "are left in the core's input queue" : "are left in the router");
}

static wafer_status edge_waits(const wafer_fabric *f) {
  for (uint32_t i = 0; i < f->edge_count; i++) {
    const fabric_edge *edge = &f->edges[i];
    const fabric_site *site = &f->sites[edge->node];
    if (edge->done < edge->count)
      return fabric_trap(f, site->router, "%u of %u words of color %u have not %s the fabric here",
                         edge->count - edge->done, edge->count, site->color,
                         edge->feed ? "come into" : "left");
  }
  return WAFER_OK;
}

wafer_status fabric_settle(const wafer_fabric *f) {
  wait w;
  for (uint32_t at = 0; at < f->core_count; at++)
    if (core_waits(f, f->cores[at].router, &w)) return deadlock(f, f->cores[at].router);
  WAFER_TRY(edge_waits(f));
  for (uint32_t i = 0; i < f->node_count; i++)
    if (f->nodes[i].count && f->nodes[i].to_core) return left_over(f, i);
  for (uint32_t i = 0; i < f->node_count; i++)
    if (f->nodes[i].count) return left_over(f, i);
  return WAFER_OK;
}
