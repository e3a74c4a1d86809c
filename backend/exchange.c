#include "exchange.h"

#include <string.h>

#include "exchange_mid.h"

index_map index_identity(void) {
  index_map map;
  for (int d = 0; d < WAFER_MAX_RANK; d++) map.dim[d] = (index_dim){d, 1, 0, NULL};
  return map;
}

index_map index_transpose(uint32_t rank, const int64_t *perm) {
  index_map map = index_identity();
  for (uint32_t d = 0; d < rank; d++) map.dim[perm[d]].dim = (int)d;
  return map;
}

/* What there is to do: one pass, along rows or columns, or two. */
typedef struct route_plan {
  wafer_arena *arena; /* until it is done */
  bool turned;        /* columns first, or alone: spreads are turned over */
  spread from, to;
  bool two;
  mid mid;
  spread mid_turned, to_turned;
} route_plan;

static bool turn(route_plan *p, const exchange *x) {
  return spread_turn(p->arena, x->from, &p->from) && spread_turn(p->arena, x->to, &p->to);
}

/* In one pass, if rows (columns: `turned`) suffice. */
static bool try_one(route_plan *p, const exchange *x, bool turned, bool *done) {
  p->from = *x->from;
  p->to = *x->to;
  if (turned && !turn(p, x)) return false;
  p->turned = turned;
  return mid_is_needless(p->arena, &p->from, &p->to, &x->map, done);
}

/* Makes the spread between the passes, and says what both load on a link. */
static bool try_two(route_plan *p, const exchange *x, bool turned, uint64_t *load) {
  bool done;
  if (!try_one(p, x, turned, &done)) return false; /* for its spreads */
  p->two = true;
  if (!mid_make(p->arena, &p->from, &p->to, &x->map, &p->mid)) return false;
  p->mid.s.address = x->scratch;
  if (!spread_turn(p->arena, &p->mid.s, &p->mid_turned) ||
      !spread_turn(p->arena, &p->to, &p->to_turned))
    return false;
  *load = mid_load(p->arena, &p->mid.s) + mid_load(p->arena, &p->to_turned);
  return true;
}

static bool plan_route(const exchange *x, route_plan *p) {
  bool done = false;
  uint64_t rows_first = 0, columns_first = 0;
  if (!try_one(p, x, false, &done)) return false;
  if (done) return true;
  if (!try_one(p, x, true, &done)) return false;
  if (done) return true;
  route_plan other = *p;
  if (!try_two(p, x, false, &rows_first) || !try_two(&other, x, true, &columns_first)) return false;
  if (columns_first < rows_first ||
      (columns_first == rows_first && spread_bytes(&other.mid.s) < spread_bytes(&p->mid.s)))
    *p = other;
  return true;
}

static bool add_passes(const exchange *x, const route_plan *p, fragment *f) {
  uint64_t cycles;
  pass first = {x, p->arena, &p->from, p->two ? &p->mid.s : &p->to, x->map, p->turned, NULL};
  if (!pass_add(&first, f, &cycles)) return false;
  f->cycles += cycles;
  if (!p->two) return true;
  pass second = {x,          p->arena,   &p->mid_turned,  &p->to_turned,
                 p->mid.map, !p->turned, p->mid.row_group};
  if (!pass_add(&second, f, &cycles)) return false;
  f->cycles += cycles;
  return true;
}

uint64_t exchange_scratch(const exchange *x) {
  route_plan p = {.arena = wafer_arena_create()};
  uint64_t bytes = UINT64_MAX;
  if (p.arena && plan_route(x, &p)) bytes = p.two ? spread_bytes(&p.mid.s) : 0;
  wafer_arena_destroy(p.arena);
  return bytes;
}

wafer_status exchange_add(const exchange *x, fragment *f) {
  route_plan p = {.arena = wafer_arena_create()};
  wafer_loc loc = wafer_at_kernel(NULL, f->name, f->node);
  bool made = p.arena && plan_route(x, &p);
  uint64_t bytes = made && p.two ? spread_bytes(&p.mid.s) : 0;
  if (made && bytes <= x->scratch_room) made = add_passes(x, &p, f);
  wafer_arena_destroy(p.arena);
  if (!made)
    return wafer_fail(x->diag, loc, WAFER_NO_MEMORY, "out of memory for the routes of an exchange");
  if (bytes <= x->scratch_room) return WAFER_OK;
  return wafer_fail(x->diag, loc, WAFER_NO_FIT,
                    "words on their way need %llu bytes on a core, %u are free",
                    (unsigned long long)bytes, x->scratch_room);
}
