#include "exchange.h"

#include <string.h>

#include "exchange_route.h"

index_map index_identity(void) {
  index_map map;
  for (int d = 0; d < WAFER_MAX_RANK; d++) map.dim[d] = (index_dim){d, 1, 0, NULL};
  return map;
}

/* The longest run of even steps from there on. */
static index_run run_from(const int64_t *at, int64_t first, int64_t count) {
  index_run run = {first, 1, at[first], 0};
  if (first + 1 < count) run.step = at[first + 1] - at[first];
  while (first + run.count < count && at[first + run.count] == run.at + run.step * run.count)
    run.count++;
  return run;
}

const index_table *index_table_of(wafer_arena *arena, const int64_t *at, int64_t count) {
  index_table *table = WAFER_NEW(arena, index_table, 1);
  index_run *runs = NULL;
  uint32_t room = 0;
  if (!table) return NULL;
  table->at = at;
  for (int64_t i = 0; i < count; i += runs[table->run_count - 1].count) {
    if (!WAFER_GROW(arena, runs, table->run_count, room, 4)) return NULL;
    runs[table->run_count++] = run_from(at, i, count);
  }
  table->runs = runs;
  return table;
}

index_map index_transpose(uint32_t rank, const int64_t *perm) {
  index_map map = index_identity();
  for (uint32_t d = 0; d < rank; d++) map.dim[perm[d]].dim = (int)d;
  return map;
}

static bool plan(wafer_arena *arena, const exchange *x, route *out) {
  if (!arena) return false;
  return x->from && x->to ? route_plan(arena, x, out) : route_border(arena, x, out);
}

uint64_t exchange_scratch(const exchange *x) {
  wafer_rect where;
  return exchange_scratch_at(x, 1, &where);
}

/* Cycles in which all words of ports from `first` on cross the border. */
static uint64_t port_cycles(const exchange *x, const fragment *f, uint32_t first,
                            wafer_dtype dtype) {
  uint64_t words = 0;
  for (uint32_t i = first; i < f->port_count; i++)
    for (uint32_t k = 0; k < f->ports[i].box_count; k++) {
      const uint32_t *shape = f->ports[i].boxes[k].shape;
      words += line_words(dtype, (uint64_t)shape[0] * shape[1] * shape[2] * shape[3]);
    }
  return wafer_machine_transfer_cycles(x->machine, words * WAFER_WAVELET_BYTES,
                                       x->border_rate ? x->border_rate : UINT64_MAX);
}

static bool add_pass(const exchange *x, const pass *p, fragment *f) {
  uint32_t ports = f->port_count;
  uint64_t cycles;
  if (!pass_add(p, f, &cycles)) return false;
  uint64_t least = port_cycles(x, f, ports, p->to->dtype);
  f->border += least;
  f->cycles += cycles < least ? least : cycles;
  return true;
}

/* Do both take the same words to the same places? */
static bool is_same(const pass *a, const pass *b) {
  return a->columns == b->columns && !a->border && !b->border && !a->trunks && !b->trunks &&
         !a->group && !b->group && spread_equal(a->from, b->from) && spread_equal(a->to, b->to);
}

/* Does the other go to the same side of the same senders, and to other cores than those `taken`? */
static bool goes_along(const pass *p, const pass *other, const spread *const *taken,
                       uint32_t count) {
  fragment_way way = pass_way(p);
  const wafer_rect *to = &other->to->rect;
  if (way == FRAGMENT_ANY_WAY || pass_way(other) != way || !spread_equal(p->from, other->from))
    return false;
  if (to->y != p->to->rect.y || to->height != p->to->rect.height) return false;
  for (uint32_t i = 0; i <= count; i++)
    if (wafer_rect_overlaps(*to, i < count ? taken[i]->rect : p->to->rect)) return false;
  return true;
}

/* The first pass in which words leave their senders' lines for others. */
static uint32_t leaving_pass(const route *r) {
  return r->count > 1 && pass_way(&r->pass[0]) == FRAGMENT_ANY_WAY ? 1 : 0;
}

/* Passes follow each other, but for those that others have done, or that go together. */
static bool add_passes(const exchange *x, const route *r, uint32_t count, fragment *f) {
  const spread *with[EXCHANGE_TOGETHER];
  uint32_t done[EXCHANGE_TOGETHER] = {0}, leaving = leaving_pass(r);
  pass along = r->pass[leaving];
  along.with = with;
  for (uint32_t i = 0; i < count; i++) f->even |= r[i].even;
  for (uint32_t i = 1; i < count; i++) {
    if (r->count <= leaving || r[i].count <= leaving) continue;
    if (leaving && !is_same(&r->pass[0], &r[i].pass[0])) continue;
    if (!goes_along(&along, &r[i].pass[leaving], with, along.with_count)) continue;
    with[along.with_count++] = r[i].pass[leaving].to;
    done[i] = leaving + 1;
  }
  for (uint32_t k = 0; k < r->count; k++)
    if (!add_pass(x, k == leaving ? &along : &r->pass[k], f)) return false;
  for (int apart = 0; apart < 2; apart++) /* words that have gone along are on their way */
    for (uint32_t i = 1; i < count; i++)
      for (uint32_t k = done[i]; k < r[i].count && apart == (done[i] == 0); k++)
        if (!add_pass(&x[i], &r[i].pass[k], f)) return false;
  f->way = r->count ? pass_way(&along) : FRAGMENT_ANY_WAY;
  return true;
}

/* Rows, or columns, that the source shares with all of the targets, if it shares either with each.
 */
static void find_lanes(exchange *x, uint32_t count) {
  uint32_t first[2] = {0, 0}, end[2] = {UINT32_MAX, UINT32_MAX};
  for (uint32_t i = 0; i < count && count > 1; i++) {
    const wafer_rect *a = &x[i].from->rect, *b = &x[i].to->rect;
    uint32_t at[2] = {a->y > b->y ? a->y : b->y, a->x > b->x ? a->x : b->x};
    uint32_t to[2] = {a->y + a->height, a->x + a->width};
    if (b->y + b->height < to[0]) to[0] = b->y + b->height;
    if (b->x + b->width < to[1]) to[1] = b->x + b->width;
    for (int axis = 0; axis < 2; axis++) {
      if (at[axis] > first[axis]) first[axis] = at[axis];
      if (to[axis] < end[axis]) end[axis] = to[axis];
    }
  }
  int axis = first[0] < end[0] ? 0 : 1;
  if (count < 2 || first[axis] >= end[axis] || first[!axis] < end[!axis]) return;
  for (uint32_t i = 0; i < count; i++) {
    x[i].lanes_first = first[axis];
    x[i].lanes_end = end[axis];
  }
}

/* Words on their way lie at the highest place that any asks for: what one of them brings has gone
 * on before those of the next, or lies on other cores. */
static bool plan_all(wafer_arena *arena, exchange *x, uint32_t count, route *r) {
  for (uint32_t i = 1; i < count; i++)
    if (x[i].scratch > x->scratch) {
      x->scratch = x[i].scratch;
      x->scratch_room = x[i].scratch_room;
    }
  find_lanes(x, count);
  for (uint32_t i = 0; i < count; i++) {
    x[i].scratch = x->scratch;
    x[i].scratch_room = x->scratch_room;
    if (!plan(arena, &x[i], &r[i])) return false;
  }
  return true;
}

uint64_t exchange_scratch_at(const exchange *first, uint32_t count, wafer_rect *where) {
  wafer_arena *arena = wafer_arena_create();
  exchange x[EXCHANGE_TOGETHER];
  route r[EXCHANGE_TOGETHER];
  uint64_t bytes = 0;
  memcpy(x, first, count * sizeof *x);
  bool made = plan_all(arena, x, count, r);
  for (uint32_t i = 0; i < count; i++) {
    where[i] = made ? r[i].scratch_at : (wafer_rect){0};
    if (made && r[i].scratch > bytes) bytes = r[i].scratch;
  }
  wafer_arena_destroy(arena);
  return made ? bytes : UINT64_MAX;
}

static wafer_status add(const exchange *first, uint32_t count, fragment *f) {
  wafer_arena *arena = wafer_arena_create();
  wafer_loc loc = wafer_at_kernel(NULL, f->name, f->node);
  exchange x[EXCHANGE_TOGETHER];
  route r[EXCHANGE_TOGETHER];
  uint32_t lacking = 0;
  memcpy(x, first, count * sizeof *x);
  bool made = plan_all(arena, x, count, r);
  while (made && lacking < count && r[lacking].scratch <= x[lacking].scratch_room) lacking++;
  if (made && lacking == count) made = add_passes(x, r, count, f);
  wafer_arena_destroy(arena);
  if (!made)
    return wafer_fail(x->diag, loc, WAFER_NO_MEMORY, "out of memory for the routes of an exchange");
  if (lacking < count)
    return wafer_fail(x->diag, loc, WAFER_NO_FIT,
                      "words on their way need %llu bytes on a core, %u are free",
                      (unsigned long long)r[lacking].scratch, x[lacking].scratch_room);
  for (uint32_t i = 0; i < count; i++) {
    f->scratch_at = wafer_rect_around(f->scratch_at, r[i].scratch_at);
    uint32_t end = (uint32_t)x->scratch + (uint32_t)r[i].scratch;
    if (end > f->scratch_end) f->scratch_end = end;
  }
  return WAFER_OK;
}

static bool has_constants(const exchange *x) {
  for (uint32_t s = 0; s < x->from->rank; s++)
    if (x->map.dim[s].dim == INDEX_CONSTANT) return true;
  return false;
}

wafer_status exchange_add_together(const exchange *x, uint32_t count, fragment *f) {
  for (uint32_t i = 0; i < count; i++)
    if (x[i].to->rank == WAFER_MAX_RANK && has_constants(&x[i]))
      return wafer_fail(x->diag, wafer_at_kernel(NULL, f->name, f->node), WAFER_UNSUPPORTED,
                        "picks out of one tensor for another of %u dims; 7 at most",
                        WAFER_MAX_RANK);
  return add(x, count, f);
}

wafer_status exchange_add(const exchange *x, fragment *f) {
  return exchange_add_together(x, 1, f);
}

/* Elements are counted in 31 bits. */
static bool is_too_large(const spread *s) {
  uint64_t bytes = wafer_dtype_bytes(s->dtype);
  for (uint32_t d = 0; d < s->rank; d++)
    if (__builtin_mul_overflow(bytes, (uint64_t)s->dim[d].extent, &bytes) || bytes > INT32_MAX)
      return true;
  return false;
}

wafer_status exchange_border(const exchange *x, fragment *f) {
  if (!is_too_large(x->from ? x->from : x->to)) return add(x, 1, f);
  return wafer_fail(x->diag, wafer_at_kernel(NULL, f->name, f->node), WAFER_NO_FIT,
                    "a tensor of more than %d bytes cannot cross the border at once", INT32_MAX);
}
