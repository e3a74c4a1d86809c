/* A large fabric in islands. Private to the fabric. */
#ifndef RUNTIME_FABRIC_ISLANDS_H
#define RUNTIME_FABRIC_ISLANDS_H

#include <stdatomic.h>

#include "fabric_state.h"

/* What is run by itself until `limit`; its queues and cores. */
typedef struct fabric_island {
  uint32_t number;
  uint64_t limit; /* FABRIC_NEVER: to its end */
  uint32_t *nodes, *cores, node_count, core_count;
  uint64_t work, due; /* visits so far; so many are worth dividing it */
  uint32_t lazy;
} fabric_island;

typedef struct fabric_islands {
  uint32_t least; /* cores of an island */
  bool eager;
  fabric_island here; /* the one at work */
  uint32_t depth;
  /* The fabric once more for each further thread of the host, with what it has at hand; what
   * follows is everybody's, of each queue, link and core the entries of whose island it is. */
  wafer_fabric **crew;
  uint32_t crew_count;
  _Atomic uint32_t *given;   /* numbers */
  uint32_t *net;             /* per queue: the first of its net */
  uint8_t *awake;            /* per net, by that queue */
  uint32_t *set;             /* queues, then cores: what is joined */
  uint32_t *size;            /* of a set, in cores; then INTO and the island's index */
  uint32_t *asker;           /* per link: a queue that may ask for it */
  uint32_t *of_node;         /* numbers of islands */
  _Atomic uint32_t *of_core; /* the same; others look at them meanwhile */
  uint32_t *nodes, *cores;   /* all */
} fabric_islands;

static inline uint32_t fabric_island_of(const fabric_islands *all, uint32_t core) {
  return atomic_load_explicit(&all->of_core[core], memory_order_relaxed);
}
static inline void fabric_set_island(fabric_islands *all, uint32_t core, uint32_t number) {
  atomic_store_explicit(&all->of_core[core], number, memory_order_relaxed);
}
/* Is the core in another island? It may be at another cycle, then. */
static inline bool fabric_is_abroad(const wafer_fabric *f, uint32_t core) {
  return f->islands && fabric_island_of(f->islands, core) != f->islands->here.number;
}

/* What the present cycle has to do. */
static inline void fabric_islands_work(wafer_fabric *f) {
  if (!f->islands) return;
  f->islands->here.work += f->awake_count + f->wheel[f->now % FABRIC_WHEEL].count + f->asked.count +
                           f->bucket_of[f->now % FABRIC_BUCKETS].count;
}

/* Divides what is joined; how many islands, 1: not worth it. Their numbers, in of_node and of_core,
 * are those from `*base` on. */
uint32_t fabric_islands_find(wafer_fabric *f, uint64_t horizon, uint32_t *base);

#endif
