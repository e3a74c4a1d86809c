/* Islands one after the other, on each thread of the host: what is to be done is put aside, and
 * each gets its share of it, from the same cycle on. */
#include <stdlib.h>

#include "fabric_islands.h"

#define HORIZON 192u   /* cycles, where nets do not sleep for good */
#define LAZIEST 64u    /* times the cost of dividing: the work until it is tried again */
#define BUSY 4u        /* visits of each queue and core before there is a horizon */
#define EAGER_VISITS 9 /* for tests */

/* ---- what is to be done ---- */

/* Where it stands: in a bucket of queues, among the links that are asked for, in the wheel, or
 * among those awake. */
enum { ASKED = FABRIC_BUCKETS, IN_WHEEL, AWAKE = IN_WHEEL + FABRIC_WHEEL };

typedef struct pending {
  uint32_t island, where, what; /* what: as it stands there */
} pending;

typedef struct pendings {
  pending *at;
  uint32_t count, room;
} pendings;

static bool add(pendings *list, pending one) {
  if (list->count == list->room) {
    uint32_t room = list->room ? 2 * list->room : 1024;
    pending *more = realloc(list->at, room * sizeof *more);
    if (!more) return false;
    list->at = more;
    list->room = room;
  }
  list->at[list->count++] = one;
  return true;
}

static uint32_t of_link(const wafer_fabric *f, uint32_t link) {
  uint32_t asker = f->islands->asker[link < f->link_count ? link : f->links[link].more];
  return asker == FABRIC_NONE ? FABRIC_NONE : f->islands->of_node[asker];
}

static uint32_t of_asked(const wafer_fabric *f, uint32_t asked) {
  return asked & FABRIC_LOOK ? f->islands->of_node[asked & ~FABRIC_LOOK]
                             : of_link(f, asked >> FABRIC_RANK_BITS);
}

/* All that is to be done, with the islands that it is for. */
static bool put_aside(wafer_fabric *f, pendings *list) {
  const fabric_islands *all = f->islands;
  bool room = true;
  for (uint32_t i = 0; i < FABRIC_BUCKETS; i++) {
    fabric_bucket *b = &f->bucket_of[i];
    for (uint32_t k = 0; k < b->count; k++)
      room &= add(list, (pending){of_asked(f, b->at[k]), i, b->at[k]});
    b->count = 0;
  }
  for (uint32_t k = 0; k < f->asked.count; k++)
    room &= add(list, (pending){of_link(f, f->asked.at[k]), ASKED, f->asked.at[k]});
  f->asked.count = 0;
  for (uint32_t i = 0; i < FABRIC_WHEEL; i++) {
    fabric_bucket *b = &f->wheel[i];
    for (uint32_t k = 0; k < b->count; k++) {
      uint32_t core = b->at[k];
      bool waits = f->cores[core].wake != FABRIC_NEVER && !f->cores[core].awake;
      if (waits) room &= add(list, (pending){fabric_island_of(all, core), IN_WHEEL + i, core});
    }
    b->count = 0;
  }
  for (uint32_t k = 0; k < f->awake_count; k++)
    room &= add(list, (pending){fabric_island_of(all, f->awake[k]), AWAKE, f->awake[k]});
  f->awake_count = 0;
  return room;
}

/* Queues of nets that are asleep are empty: that they ask for something is void. */
static void drop_void(wafer_fabric *f, pendings *list) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    pending one = list->at[i];
    if (one.island != FABRIC_NONE)
      list->at[kept++] = one;
    else if (one.where == ASKED)
      f->gates[one.what].mask = 0;
    else if (one.what & FABRIC_LOOK)
      f->nodes[one.what & ~FABRIC_LOOK].armed = 0;
  }
  list->count = kept;
}

static void put_back(wafer_fabric *f, const pending *at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t where = at[i].where, what = at[i].what;
    if (where == AWAKE)
      f->awake[f->awake_count++] = what;
    else if (where >= IN_WHEEL)
      fabric_put(f, &f->wheel[where - IN_WHEEL], what);
    else if (where == ASKED)
      fabric_put(f, &f->asked, what);
    else
      fabric_put(f, &f->bucket_of[where], what);
  }
}

/* ---- a division ---- */

/* What one of the crew has done of it. */
typedef struct share {
  wafer_fabric *f;
  pendings left;
  uint64_t horizon, end, work;
  bool trapped;
  wafer_status status;
} share;

typedef struct division {
  fabric_island whole, *at;
  uint32_t count, base; /* base: the number of the first */
  uint32_t *members;    /* cores and queues, island by island */
  uint32_t *first;      /* of `to_do`, of each island and behind the last */
  pendings to_do;
  uint64_t start, horizon;
  share *shares;
  uint32_t share_count;
} division;

/* The island of a member, by its number; NULL: asleep. */
static fabric_island *island_of(const division *d, uint32_t number) {
  return number == FABRIC_NONE ? NULL : &d->at[number - d->base];
}

/* Lists of the islands' queues and cores, one behind the other. */
static void list_members(const wafer_fabric *f, const division *d) {
  const fabric_islands *all = f->islands;
  const fabric_island *w = &d->whole;
  uint32_t *next = d->members;
  for (uint32_t i = 0; i < w->core_count; i++)
    island_of(d, fabric_island_of(all, w->cores[i]))->core_count++;
  for (uint32_t i = 0; i < w->node_count; i++) {
    fabric_island *one = island_of(d, all->of_node[w->nodes[i]]);
    if (one) one->node_count++;
  }
  for (uint32_t i = 0; i < d->count; i++) {
    fabric_island *one = &d->at[i];
    one->cores = next;
    one->nodes = next + one->core_count;
    next = one->nodes + one->node_count;
    one->core_count = one->node_count = 0;
  }
  for (uint32_t i = 0; i < w->core_count; i++) {
    fabric_island *one = island_of(d, fabric_island_of(all, w->cores[i]));
    one->cores[one->core_count++] = w->cores[i];
  }
  for (uint32_t i = 0; i < w->node_count; i++) {
    fabric_island *one = island_of(d, all->of_node[w->nodes[i]]);
    if (one) one->nodes[one->node_count++] = w->nodes[i];
  }
}

static int by_island(const void *left, const void *right) {
  const pending *a = left, *b = right;
  return (a->island > b->island) - (a->island < b->island);
}

/* Where what is to be done by each of them begins. */
static void find_first(division *d) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < d->count; i++) {
    d->first[i] = at;
    while (at < d->to_do.count && d->to_do.at[at].island == d->base + i) at++;
  }
  d->first[d->count] = at;
}

/* In the whole all threads of the host take islands, in an island the one that works on it. */
static bool prepare_shares(wafer_fabric *f, division *d) {
  const fabric_islands *all = f->islands;
  bool alone = all->depth || d->count > THREADS_MOST_TILES;
  d->share_count = 1 + (alone ? 0 : all->crew_count);
  d->shares = calloc(d->share_count, sizeof *d->shares);
  if (!d->shares) return false;
  for (uint32_t i = 0; i < d->share_count; i++)
    d->shares[i] = (share){.f = i ? all->crew[i - 1] : f, .horizon = d->horizon, .end = d->start};
  return true;
}

static bool prepare(wafer_fabric *f, division *d) {
  const fabric_island *w = &d->whole;
  d->at = calloc(d->count, sizeof *d->at);
  d->first = malloc((d->count + 1ul) * sizeof *d->first);
  d->members = malloc(((size_t)w->core_count + w->node_count + 1) * sizeof *d->members);
  if (!d->at || !d->first || !d->members || !prepare_shares(f, d) || !put_aside(f, &d->to_do))
    return false;
  for (uint32_t i = 0; i < d->count; i++)
    d->at[i] = (fabric_island){.number = d->base + i, .limit = d->horizon, .lazy = 1};
  list_members(f, d);
  drop_void(f, &d->to_do);
  qsort(d->to_do.at, d->to_do.count, sizeof *d->to_do.at, by_island);
  find_first(d);
  return true;
}

/* Up to the horizon, the end, or the trap of another one of the share. */
static void run(void *self, uint32_t island, uint32_t thread) {
  division *d = self;
  share *own = &d->shares[thread];
  wafer_fabric *f = own->f;
  fabric_islands *all = f->islands;
  fabric_island one = d->at[island];
  if (own->status != WAFER_OK) return;
  if (one.limit > own->horizon) one.limit = own->horizon;
  one.due = one.node_count + one.core_count;
  all->here = one;
  all->depth++;
  f->now = d->start;
  f->era = fabric_era(f);
  f->ends = false;
  f->edges_left = 0; /* else nothing is divided */
  put_back(f, d->to_do.at + d->first[island], d->first[island + 1] - d->first[island]);
  wafer_status status = fabric_loop(f);
  all->depth--;
  own->work += all->here.work;
  if (status == WAFER_TRAP) {
    own->trapped = true;
    own->horizon = f->now + 1;
  } else {
    own->status = status;
  }
  if (f->now > own->end) own->end = f->now;
  if (!put_aside(f, &own->left)) f->failed = true;
}

/* What one of the crew kept to itself. */
static void take_over(wafer_fabric *f, wafer_fabric *from) {
  for (uint32_t i = 0; i < from->marked_count; i++)
    fabric_keep_mark(f, from->marked[i].cycle, from->marked[i].router, from->marked[i].value);
  from->marked_count = 0;
  f->stats.hops += from->stats.hops;
  f->stats.elements += from->stats.elements;
  from->stats = (wafer_fabric_stats){0};
  f->failed |= from->failed;
  fabric_caught *own = f->caught, *other = from->caught;
  bool sooner = !own->any || other->loc.cycle < own->loc.cycle ||
                (other->loc.cycle == own->loc.cycle && other->router < own->router);
  if (other->any && sooner) *own = *other;
  other->any = false;
}

/* One again. */
static wafer_status rejoin(wafer_fabric *f, division *d) {
  fabric_islands *all = f->islands;
  wafer_status status = WAFER_OK;
  bool trapped = false, left = false;
  uint64_t end = d->start;
  all->here = d->whole;
  for (uint32_t i = 0; i < d->whole.core_count; i++)
    fabric_set_island(all, d->whole.cores[i], d->whole.number);
  for (uint32_t i = 0; i < d->whole.node_count; i++)
    all->of_node[d->whole.nodes[i]] = d->whole.number;
  for (uint32_t i = 0; i < d->share_count; i++) {
    const share *one = &d->shares[i];
    if (i) take_over(f, one->f);
    put_back(f, one->left.at, one->left.count);
    left |= one->left.count > 0;
    trapped |= one->trapped;
    all->here.work += one->work;
    if (one->end > end) end = one->end;
    if (one->status != WAFER_OK) status = one->status;
  }
  f->now = left && !trapped ? d->horizon : end;
  f->era = fabric_era(f);
  return status == WAFER_OK && trapped ? WAFER_TRAP : status;
}

static wafer_status run_all(wafer_fabric *f, division *d) {
  if (!prepare(f, d)) {
    f->failed = true;
    return WAFER_OK;
  }
  if (d->share_count > 1)
    thread_pool_run(f->workers, d->count, run, d);
  else
    for (uint32_t i = 0; i < d->count; i++) run(d, i, 0);
  return rejoin(f, d);
}

static void end_division(division *d) {
  for (uint32_t i = 0; d->shares && i < d->share_count; i++) free(d->shares[i].left.at);
  free(d->shares);
  free(d->at);
  free(d->first);
  free(d->members);
  free(d->to_do.at);
}

/* ---- when ---- */

bool fabric_islands_due(const wafer_fabric *f) {
  const fabric_islands *all = f->islands;
  return all && !f->edges_left && all->here.core_count > 2 * all->least &&
         all->here.work >= all->here.due;
}

static void try_later(fabric_islands *all, bool in_vain) {
  fabric_island *here = &all->here;
  uint64_t cost = here->node_count + here->core_count;
  here->lazy = in_vain ? 2 * here->lazy + 1 : 0;
  if (here->lazy > LAZIEST) here->lazy = LAZIEST;
  here->due = here->work + (all->eager ? EAGER_VISITS : here->lazy * cost);
}

/* Trains go through the whole with few visits of each queue and core; a horizon holds them up. */
static bool is_busy(const fabric_islands *all) {
  uint64_t size = (uint64_t)all->here.node_count + all->here.core_count;
  return all->eager || all->here.work >= BUSY * size;
}

/* What was done ahead of time, or not yet, for as long as nobody looked. */
static void catch_up(wafer_fabric *f) {
  const fabric_island *here = &f->islands->here;
  fabric_end_fans(f);
  for (uint32_t i = 0; i < here->core_count; i++) core_catch_up(f, here->cores[i]);
}

wafer_status fabric_divide(wafer_fabric *f, bool *divided) {
  fabric_islands *all = f->islands;
  division d = {.start = f->now, .horizon = all->here.limit};
  uint64_t near = f->now + HORIZON;
  *divided = false;
  catch_up(f);
  d.count = fabric_islands_find(f, d.horizon, &d.base);
  if (d.count < 2 && is_busy(all) && near < d.horizon && near >> FABRIC_ERA_BITS == f->era) {
    d.horizon = near;
    d.count = fabric_islands_find(f, near, &d.base);
  }
  if (d.count < 2) {
    try_later(all, true);
    return WAFER_OK;
  }
  d.whole = all->here;
  uint64_t before = all->here.work;
  wafer_status status = run_all(f, &d);
  end_division(&d);
  WAFER_TRY(status);
  *divided = true;
  try_later(all, all->here.work - before < 4ull * (all->here.node_count + all->here.core_count));
  return WAFER_OK;
}
