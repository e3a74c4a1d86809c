/* Rows of queues that nothing else crosses, as one queue.
 *
 * In a row q1 .. qn each queue has one way out, over a link that no other queue asks for. Wavelet i
 * leaves q_h in cycle
 *   d(h, i) = max(d(h-1, i) + latency, d(h, i-1) + 1, d(h+1, i - capacity of q_h+1) + 1).
 * Since no queue is shorter than a wavelet takes to come and its room to be seen (capacity at least
 * latency + 1) and wavelets come in one after another, the terms of the middle never decide: the
 * row is a queue as long as all of them together, through which a wavelet takes the sum of the
 * latencies and the news of room a cycle for each. */
#include <stdlib.h>

#include "fabric_state.h"

#define MOST_CYCLES 30000 /* of a row: latencies and capacities are 16 bits */

/* Words that come in together could find less room in the first queue than in the row. */
static bool sends_wide(const wafer_fabric *f, uint32_t node) {
  const fabric_site *site = &f->sites[node];
  return site->writer != FABRIC_NONE && f->cores[site->writer].wide >> site->color % 32 & 1;
}

/* The queue that the row goes on to from here; FABRIC_NONE: it ends. */
static uint32_t next_of(const wafer_fabric *f, uint32_t node) {
  const fabric_node *q = &f->nodes[node];
  if (q->switched || q->outs != 1 || q->to_core || q->at_edge) return FABRIC_NONE;
  if (q->from_core && sends_wide(f, node)) return FABRIC_NONE;
  const fabric_out *out = &f->outs[f->sites[node].first_out];
  const fabric_node *beyond = &f->nodes[out->node];
  bool lone =
      f->links[out->link].candidates == 1 && !beyond->by_switch && f->sites[out->node].from == node;
  bool long_enough = beyond->capacity > out->latency && q->capacity > 1;
  lone &= beyond->strip == q->strip;
  return lone && long_enough && !beyond->filtered && !beyond->at_edge ? out->node : FABRIC_NONE;
}

typedef struct row {
  uint32_t end;
  uint32_t latency, hops; /* on the way to the end */
} row;

/* The last queue stands for the row that begins at `first`. */
static row merge_row(wafer_fabric *f, uint32_t first) {
  row r = {.end = first};
  uint32_t capacity = f->nodes[first].capacity, credit = f->nodes[first].credit;
  for (uint32_t next; (next = next_of(f, r.end)) != FABRIC_NONE; r.end = next) {
    const fabric_out *out = &f->outs[f->sites[r.end].first_out];
    if (capacity + f->nodes[next].capacity + r.latency + out->latency > MOST_CYCLES) break;
    capacity += f->nodes[next].capacity;
    credit += f->nodes[next].credit;
    r.latency += out->latency;
    r.hops += out->hops;
    f->nodes[r.end].gone = true;
  }
  if (r.end == first) return r;
  fabric_node *end = &f->nodes[r.end], *start = &f->nodes[first];
  end->capacity = (uint16_t)capacity;
  end->credit = (uint16_t)credit;
  end->by_switch = start->by_switch;
  end->from_core = start->from_core;
  f->sites[r.end].from = f->sites[first].from;
  f->sites[r.end].writer = f->sites[first].writer;
  f->sites[r.end].source = f->sites[first].router;
  f->sites[r.end].late = (uint16_t)r.latency;
  f->sites[r.end].far = (uint16_t)r.hops;
  return r;
}

/* Does a row begin here: is it not the continuation of another queue's? */
static bool begins(const wafer_fabric *f, uint32_t node) {
  uint32_t from = f->sites[node].from;
  return from == FABRIC_NONE || f->nodes[node].by_switch || next_of(f, from) != node;
}

wafer_status fabric_merge(wafer_fabric *f) {
  row *rows = malloc((f->node_count + 1) * sizeof *rows);
  uint8_t *begin = malloc(f->node_count + 1);
  if (!rows || !begin) {
    free(rows);
    free(begin);
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                      "%u queues do not fit the host", f->node_count);
  }
  for (uint32_t i = 0; i < f->node_count; i++) {
    begin[i] = begins(f, i);
    rows[i] = (row){.end = i};
  }
  for (uint32_t i = 0; i < f->node_count; i++)
    for (uint32_t first = i; begin[i] && first != FABRIC_NONE;) {
      rows[first] = merge_row(f, first);
      first = next_of(f, rows[first].end); /* a row that was too long goes on as another */
    }
  for (uint32_t i = 0; i < f->out_count; i++) {
    const row *r = &rows[f->outs[i].node];
    f->outs[i].node = r->end;
    f->outs[i].latency = (uint16_t)(f->outs[i].latency + r->latency);
    f->outs[i].hops = (uint16_t)(f->outs[i].hops + r->hops);
    uint32_t node = f->candidates[fabric_candidate_of(f, &f->outs[i])].node;
    fabric_set_candidate(f, node, &f->outs[i]);
  }
  for (uint32_t i = 0; i < f->core_count; i++)
    for (uint32_t k = 0; k < f->cores[i].program->binding_count; k++)
      if (f->cores[i].queue[k] != FABRIC_NONE)
        f->cores[i].queue[k] = rows[f->cores[i].queue[k]].end;
  for (uint32_t i = 0; i < f->node_count; i++) f->sites[i].end = rows[i].end;
  free(rows);
  free(begin);
  return WAFER_OK;
}
