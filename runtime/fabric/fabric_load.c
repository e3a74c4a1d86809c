/* What cores and links did in a run. The router counts words per queue; a row of queues that is one
 * (fabric_merge.c) has one count for all of its links. */
#include <stdlib.h>

#include "fabric_state.h"

void wafer_fabric_count(wafer_fabric *f, bool count) {
  f->counts = count;
}

wafer_status fabric_load_begin(wafer_fabric *f) {
  free(f->entered);
  f->entered = NULL;
  if (!f->counts) return WAFER_OK;
  f->entered = calloc(f->node_count + 1u, sizeof *f->entered);
  return f->entered ? WAFER_OK
                    : wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                                 "no room for the counts of %u queues", f->node_count);
}

/* Words of a queue came over the one link that leads to it: from the router next to it, or out of
 * its own where the host takes them. */
static void add_words(const wafer_fabric *f, uint32_t node, uint64_t words, uint64_t *wavelets) {
  static const uint8_t opposite[] = {WAFER_PORT_south, WAFER_PORT_west, WAFER_PORT_north,
                                     WAFER_PORT_east};
  const fabric_site *site = &f->sites[node];
  uint32_t from = site->router, port = site->port;
  if (port == WAFER_PORT_ramp) return;
  if (!f->nodes[node].at_edge) {
    from = fabric_neighbour(f, site->router, site->port);
    port = opposite[site->port];
  }
  if (from != FABRIC_NONE) wavelets[(size_t)from * WAFER_LINKS + port] += words;
}

void wafer_fabric_load(const wafer_fabric *f, uint64_t *core_cycles, uint64_t *wavelets) {
  for (uint32_t at = 0; core_cycles && at < f->core_count; at++)
    core_cycles[f->cores[at].router] += f->cores[at].worked;
  for (uint32_t node = 0; wavelets && f->entered && node < f->node_count; node++) {
    uint32_t end = f->sites[node].end; /* of the row that begins here, or the queue by itself */
    bool within = f->nodes[node].gone && end == node, ends = f->sites[node].late > 0;
    if (within || ends || !f->entered[end]) continue;
    for (uint32_t at = node; at != end; at = f->outs[f->sites[at].first_out].node)
      add_words(f, at, f->entered[end], wavelets);
    add_words(f, end, f->entered[end], wavelets);
  }
}
