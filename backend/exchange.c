#include "exchange.h"

#include <string.h>

#include "exchange_border.h"

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
  pass first = {x, p->arena, &p->from, p->two ? &p->mid.s : &p->to, x->map, p->turned, NULL, NULL};
  if (!pass_add(&first, f, &cycles)) return false;
  f->cycles += cycles;
  if (!p->two) return true;
  pass second = {x,          p->arena,   &p->mid_turned,   &p->to_turned,
                 p->mid.map, !p->turned, p->mid.row_group, NULL};
  if (!pass_add(&second, f, &cycles)) return false;
  f->cycles += cycles;
  return true;
}

/* ---- over the border ---- */

typedef struct border_plan {
  wafer_arena *arena;
  spread scalar; /* instead of a spread without dims */
  const spread *inside;
  border border;
  bool two;
  mid mid;
} border_plan;

/* A tensor without dims as one of one element. */
static bool give_dim(border_plan *p, const spread *s) {
  static const wafer_layout whole = {1, {1}, {1}, {1}, {1}};
  p->inside = s;
  if (s->rank) return true;
  p->inside = &p->scalar;
  return spread_of_layout(p->arena, s->rect, &whole, &(wafer_shape){1, {1}}, s->dtype, s->address,
                          &p->scalar);
}

static bool plan_border(const exchange *x, border_plan *p) {
  index_map same = index_identity();
  bool needless = true;
  if (!give_dim(p, x->from ? x->from : x->to) ||
      !border_make(p->arena, p->inside, x->value, &p->border))
    return false;
  if (!x->from && !mid_is_needless(p->arena, &p->border.host, p->inside, &same, &needless))
    return false;
  p->two = !needless;
  if (!p->two) return true;
  if (!mid_make(p->arena, &p->border.host, p->inside, &same, &p->mid)) return false;
  p->mid.s.address = x->scratch;
  return true;
}

static bool add_column_pass(const exchange *x, const border_plan *p, fragment *f,
                            uint64_t *cycles) {
  spread from, to;
  if (!spread_turn(p->arena, &p->mid.s, &from) || !spread_turn(p->arena, p->inside, &to))
    return false;
  pass second = {x, p->arena, &from, &to, p->mid.map, true, p->mid.row_group, NULL};
  return pass_add(&second, f, cycles);
}

static bool add_border_passes(const exchange *x, const border_plan *p, fragment *f) {
  uint64_t cycles, more = 0, words = 0;
  spread inside = p->two ? p->mid.s : p->border.inside;
  uint32_t ports = f->port_count;
  inside.rect.x = p->inside->rect.x + 1;
  pass first = {x,
                p->arena,
                x->from ? &inside : &p->border.host,
                x->from ? &p->border.host : &inside,
                index_identity(),
                false,
                NULL,
                &p->border.ports};
  if (!pass_add(&first, f, &cycles)) return false;
  if (p->two && !add_column_pass(x, p, f, &more)) return false;
  for (uint32_t i = ports; i < f->port_count; i++)
    for (uint32_t k = 0; k < f->ports[i].box_count; k++) {
      const uint32_t *shape = f->ports[i].boxes[k].shape;
      words += line_words(inside.dtype, (uint64_t)shape[0] * shape[1] * shape[2] * shape[3]);
    }
  uint64_t rate = wafer_machine_transfer_cycles(x->machine, words * WAFER_WAVELET_BYTES,
                                                x->border_rate ? x->border_rate : UINT64_MAX);
  f->cycles += (cycles > rate ? cycles : rate) + more;
  return true;
}

/* ---- outside ---- */

static wafer_status finish(const exchange *x, const fragment *f, bool made, uint64_t bytes) {
  wafer_loc loc = wafer_at_kernel(NULL, f->name, f->node);
  if (!made)
    return wafer_fail(x->diag, loc, WAFER_NO_MEMORY, "out of memory for the routes of an exchange");
  if (bytes <= x->scratch_room) return WAFER_OK;
  return wafer_fail(x->diag, loc, WAFER_NO_FIT,
                    "words on their way need %llu bytes on a core, %u are free",
                    (unsigned long long)bytes, x->scratch_room);
}

uint64_t exchange_scratch(const exchange *x) {
  wafer_arena *arena = wafer_arena_create();
  uint64_t bytes = UINT64_MAX;
  if (arena && x->from && x->to) {
    route_plan p = {.arena = arena};
    if (plan_route(x, &p)) bytes = p.two ? spread_bytes(&p.mid.s) : 0;
  } else if (arena) {
    border_plan p = {.arena = arena};
    if (plan_border(x, &p)) bytes = p.two ? spread_bytes(&p.mid.s) : 0;
  }
  wafer_arena_destroy(arena);
  return bytes;
}

wafer_status exchange_add(const exchange *x, fragment *f) {
  route_plan p = {.arena = wafer_arena_create()};
  bool made = p.arena && plan_route(x, &p);
  uint64_t bytes = made && p.two ? spread_bytes(&p.mid.s) : 0;
  if (made && bytes <= x->scratch_room) made = add_passes(x, &p, f);
  wafer_arena_destroy(p.arena);
  return finish(x, f, made, bytes);
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
  if (is_too_large(x->from ? x->from : x->to))
    return wafer_fail(x->diag, wafer_at_kernel(NULL, f->name, f->node), WAFER_NO_FIT,
                      "a tensor of more than %d bytes cannot cross the border at once", INT32_MAX);
  border_plan p = {.arena = wafer_arena_create()};
  bool made = p.arena && plan_border(x, &p);
  uint64_t bytes = made && p.two ? spread_bytes(&p.mid.s) : 0;
  if (made && bytes <= x->scratch_room) made = add_border_passes(x, &p, f);
  wafer_arena_destroy(p.arena);
  return finish(x, f, made, bytes);
}
