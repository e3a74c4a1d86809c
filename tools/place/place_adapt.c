/* Protocols: once rooms and the slowest time stand, each kernel may still choose among the splits
 * that keep both. Where edges have no circles the best choice of all together is exact; else
 * circles are cut at kernels that stay as they are, others each time. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define PASSES 16
#define PATIENCE 4 /* passes without a better one */
#define NONE UINT32_MAX

typedef struct edge_end {
  uint32_t other;
  bool gives; /* this end is the producer's */
} edge_end;

typedef struct adapter {
  const contest *c;
  double until;
  bool components;
  contest_split *splits;
  contest_fit_list fits;
  uint32_t *first_end; /* of each kernel */
  edge_end *ends;
  uint32_t *cost;           /* of each fit: adapters in the trees below and to kernels that stay */
  uint32_t *order, *parent; /* of kernels: trees of the pass, parents first; NONE: a root */
  uint32_t *set;            /* scratch: which kernels hang together */
  bool *stays;
  uint64_t random;
  struct slot *slots; /* a power of two, mask + 1 */
  uint32_t mask, stamp;
} adapter;

/* The least cost of the fits that have some of h, w and a number of features or filters. */
typedef struct slot {
  uint64_t key;
  uint32_t stamp, cost;
} slot;

uint32_t contest_last_conv(const contest_kernel *k) {
  return k->type == KERNEL_CONV ? 0 : 2;
}

uint32_t contest_mismatches(const contest *c, const contest_split *splits, uint32_t edge) {
  const wafer_placer_edge *e = &c->edges[edge];
  const contest_split *a = &splits[e->from], *b = &splits[e->to];
  return (a->h != b->h) + (a->w != b->w) +
         (a->k[contest_last_conv(&c->kernels[e->from])] != b->c[0]);
}

uint32_t contest_adapters(const contest *c, const contest_split *splits, bool components) {
  uint32_t sum = 0;
  for (uint32_t e = 0; e < c->edge_count; e++) {
    uint32_t n = contest_mismatches(c, splits, e);
    sum += components ? n : n > 0;
  }
  return sum;
}

static bool late(const adapter *a) {
  return a->until > 0 && cli_seconds() > a->until;
}

/* What a kernel has at one end of an edge. */
typedef struct protocol {
  uint32_t h, w, x;
} protocol;

static protocol of_fit(const contest_fit *f, bool gives) {
  return (protocol){f->h, f->w, gives ? f->k : f->c};
}

static protocol of_split(const adapter *a, uint32_t i, bool gives) {
  const contest_split *s = &a->splits[i];
  return (protocol){s->h, s->w, gives ? s->k[contest_last_conv(&a->c->kernels[i])] : s->c[0]};
}

static uint32_t differ(const adapter *a, protocol p, protocol q) {
  uint32_t n = (p.h != q.h) + (p.w != q.w) + (p.x != q.x);
  return a->components ? n : n > 0;
}

/* ---- Trees ---- */

static uint32_t root_of(uint32_t *set, uint32_t i) {
  while (set[i] != i) i = set[i] = set[set[i]];
  return i;
}

static uint32_t below(adapter *a, uint32_t n) {
  a->random = a->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(((a->random >> 32) * n) >> 32);
}

/* Would the kernel close a circle of such as do not stay? If not, it is one of them. */
static bool join(adapter *a, uint32_t i) {
  uint32_t first = a->first_end[i], last = a->first_end[i + 1];
  for (uint32_t e = first; e < last; e++)
    for (uint32_t f = first; f < e; f++) {
      uint32_t x = a->ends[e].other, y = a->ends[f].other;
      if (!a->stays[x] && !a->stays[y] && root_of(a->set, x) == root_of(a->set, y)) return false;
    }
  a->stays[i] = false;
  for (uint32_t e = first; e < last; e++)
    if (!a->stays[a->ends[e].other]) a->set[root_of(a->set, a->ends[e].other)] = i;
  return true;
}

/* Kernels that do not stay, in trees; how many. `order` is shuffled first. */
static uint32_t grow_trees(adapter *a) {
  uint32_t n = a->c->count, count = 0, *shuffled = a->order + n;
  for (uint32_t i = 0; i < n; i++) a->stays[i] = true, a->set[i] = i, shuffled[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = below(a, i), at = shuffled[k];
    shuffled[k] = shuffled[i - 1], shuffled[i - 1] = at;
  }
  for (uint32_t i = 0; i < n; i++) join(a, shuffled[i]);
  for (uint32_t i = 0; i < n; i++) a->parent[i] = i; /* not reached yet */
  for (uint32_t k = 0, done = 0; k < n; k++) {
    if (a->stays[shuffled[k]] || a->parent[shuffled[k]] != shuffled[k]) continue;
    a->parent[shuffled[k]] = NONE;
    a->order[count++] = shuffled[k];
    for (; done < count; done++)
      for (uint32_t e = a->first_end[a->order[done]]; e < a->first_end[a->order[done] + 1]; e++) {
        uint32_t to = a->ends[e].other;
        if (a->stays[to] || a->parent[to] != to) continue;
        a->parent[to] = a->order[done];
        a->order[count++] = to;
      }
  }
  return count;
}

/* ---- The best of a tree ---- */

/* Parts: bit 0 h, bit 1 w, bit 2 the number. */
static uint64_t key_of(protocol p, uint32_t parts) {
  return (uint64_t)(parts & 1 ? p.h : 0) << 48 | (uint64_t)(parts & 2 ? p.w : 0) << 32 |
         (uint64_t)(parts & 4 ? p.x : 0) << 8 | parts;
}

static slot *find(const adapter *a, uint64_t key) {
  uint64_t at = (key * 0x9e3779b97f4a7c15u) >> 32;
  for (;; at++) {
    slot *s = &a->slots[at & a->mask];
    if (s->stamp != a->stamp || s->key == key) return s;
  }
}

static const uint32_t part_count[8] = {0, 1, 1, 2, 1, 2, 2, 3};

/* A fit that costs as much more than the best as its matching parts may save is of no use. */
static void tabulate(adapter *a, uint32_t i, bool gives, uint32_t least) {
  a->stamp++;
  for (uint32_t f = a->fits.first[i]; f < a->fits.first[i + 1]; f++) {
    uint32_t more = a->cost[f] - least;
    protocol p = of_fit(&a->fits.at[f], gives);
    for (uint32_t parts = a->components ? 1 : 7; parts < 8; parts++) {
      if (more >= (a->components ? part_count[parts] : 1)) continue;
      uint64_t key = key_of(p, parts);
      slot *s = find(a, key);
      if (s->stamp == a->stamp && s->cost <= a->cost[f]) continue;
      *s = (slot){key, a->stamp, a->cost[f]};
    }
  }
}

/* The least of the tabulated fits with what their edge to this end costs. */
static uint32_t least_with(const adapter *a, protocol p, uint32_t least) {
  uint32_t all = a->components ? 3 : 1, best = least + all;
  for (uint32_t parts = a->components ? 1 : 7; parts < 8; parts++) {
    const slot *s = find(a, key_of(p, parts));
    if (s->stamp != a->stamp) continue;
    uint32_t cost = s->cost + (a->components ? 3 - part_count[parts] : 0);
    if (cost < best) best = cost;
  }
  return best;
}

static bool gives_to(const adapter *a, uint32_t i, uint32_t other) {
  uint32_t e = a->first_end[i];
  while (a->ends[e].other != other) e++;
  return a->ends[e].gives;
}

/* Kernels that stay cost what they cost. */
static void start_costs(adapter *a, uint32_t i) {
  for (uint32_t f = a->fits.first[i]; f < a->fits.first[i + 1]; f++) {
    a->cost[f] = 0;
    for (uint32_t e = a->first_end[i]; e < a->first_end[i + 1]; e++) {
      edge_end to = a->ends[e];
      if (a->stays[to.other])
        a->cost[f] += differ(a, of_fit(&a->fits.at[f], to.gives), of_split(a, to.other, !to.gives));
    }
  }
}

/* Adds to the parent's fits what the best below each comes to. */
static void pass_up(adapter *a, uint32_t i) {
  uint32_t up = a->parent[i], least = UINT32_MAX;
  bool gives = gives_to(a, i, up);
  for (uint32_t f = a->fits.first[i]; f < a->fits.first[i + 1]; f++)
    if (a->cost[f] < least) least = a->cost[f];
  tabulate(a, i, gives, least);
  for (uint32_t f = a->fits.first[up]; f < a->fits.first[up + 1]; f++)
    a->cost[f] += least_with(a, of_fit(&a->fits.at[f], !gives), least);
}

/* The fit of least cost. Of equals the one that the kernel has, so that it stays where it is; in
 * later passes any, so that these do not stand still. */
static void choose(adapter *a, uint32_t i, bool any) {
  uint32_t up = a->parent[i], best = UINT32_MAX, which = 0, equals = 0;
  bool gives = up != NONE && gives_to(a, i, up), own = false;
  protocol in = of_split(a, i, false), out = of_split(a, i, true);
  for (uint32_t f = a->fits.first[i]; f < a->fits.first[i + 1]; f++) {
    const contest_fit *fit = &a->fits.at[f];
    uint32_t cost = a->cost[f];
    if (up != NONE) cost += differ(a, of_fit(fit, gives), of_split(a, up, !gives));
    if (cost > best) continue;
    bool same = fit->h == in.h && fit->w == in.w && fit->c == in.x && fit->k == out.x;
    equals = cost < best ? 1 : equals + 1;
    if (cost == best && !(any ? below(a, equals) == 0 : same)) continue;
    best = cost, which = f, own = same;
  }
  if (!own) a->splits[i] = contest_split_of_fit(&a->fits, i, &a->fits.at[which]);
}

/* False when the time is over. */
static bool improve(adapter *a, uint32_t count, bool any) {
  for (uint32_t k = 0; k < count; k++) start_costs(a, a->order[k]);
  for (uint32_t k = count; k-- > 0;) {
    if (late(a)) return false;
    if (a->parent[a->order[k]] != NONE) pass_up(a, a->order[k]);
  }
  for (uint32_t k = 0; k < count; k++) choose(a, a->order[k], any);
  return true;
}

static void list_ends(adapter *a) {
  const contest *c = a->c;
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    a->first_end[i] = n;
    for (uint32_t e = 0; e < c->edge_count; e++) {
      if (c->edges[e].from == i) a->ends[n++] = (edge_end){c->edges[e].to, true};
      if (c->edges[e].to == i) a->ends[n++] = (edge_end){c->edges[e].from, false};
    }
  }
  a->first_end[c->count] = n;
}

static bool init(adapter *a, wafer_arena *arena, const contest_split *splits) {
  uint32_t n = a->c->count, most = 0, slots = 64;
  uint32_t all = a->fits.first[n];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t own = a->fits.first[i + 1] - a->fits.first[i];
    if (own > most) most = own;
  }
  while (slots / 16 < most) slots *= 2;
  a->mask = slots - 1;
  a->splits = wafer_arena_copy(arena, splits, n * sizeof *splits);
  a->first_end = WAFER_NEW(arena, uint32_t, n + 1);
  a->ends = WAFER_NEW(arena, edge_end, 2 * (size_t)a->c->edge_count);
  a->cost = WAFER_NEW(arena, uint32_t, all);
  a->order = WAFER_NEW(arena, uint32_t, 2 * (size_t)n);
  a->parent = WAFER_NEW(arena, uint32_t, n);
  a->set = WAFER_NEW(arena, uint32_t, n);
  a->stays = WAFER_NEW(arena, bool, n);
  a->slots = WAFER_NEW(arena, slot, slots);
  if (!a->splits || !a->first_end || !a->ends || !a->cost || !a->order || !a->parent || !a->set ||
      !a->stays || !a->slots)
    return false;
  list_ends(a);
  return true;
}

static void improve_all(adapter *a, contest_split *splits) {
  uint32_t n = a->c->count, best = contest_adapters(a->c, splits, a->components);
  for (uint32_t pass = 0, since = 0; pass < PASSES && best && since < PATIENCE; pass++) {
    uint32_t count = grow_trees(a);
    if (!improve(a, count, pass > 0)) break;
    uint32_t now = contest_adapters(a->c, a->splits, a->components);
    since++;
    if (now < best) {
      best = now, since = 0;
      memcpy(splits, a->splits, n * sizeof *splits);
    }
    if (count == n) break; /* exact */
  }
}

wafer_status contest_adapt(const wafer_diag *diag, const contest *c, uint64_t unit, uint64_t time,
                           double until, const wafer_placed *rooms, bool components,
                           contest_split *splits) {
  adapter a = {.c = c, .until = until, .components = components};
  wafer_arena *arena = wafer_arena_create();
  bool ok = arena && contest_list_fits(arena, c, unit, time, until, rooms, &a.fits);
  if (ok && a.fits.first && (ok = init(&a, arena, splits))) improve_all(&a, splits);
  if (arena) wafer_arena_destroy(arena);
  return ok ? WAFER_OK
            : wafer_fail(diag, wafer_at_file(c->path), WAFER_NO_MEMORY, "no memory for protocols");
}
