#include "exchange.h"

#include "exchange_route.h"

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

static bool plan(wafer_arena *arena, const exchange *x, route *out) {
  if (!arena) return false;
  return x->from && x->to ? route_plan(arena, x, out) : route_border(arena, x, out);
}

uint64_t exchange_scratch_at(const exchange *x, wafer_rect *where) {
  wafer_arena *arena = wafer_arena_create();
  route r = {.scratch = 0};
  uint64_t bytes = plan(arena, x, &r) ? r.scratch : UINT64_MAX;
  *where = r.scratch_at;
  wafer_arena_destroy(arena);
  return bytes;
}

uint64_t exchange_scratch(const exchange *x) {
  wafer_rect where;
  return exchange_scratch_at(x, &where);
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

/* The rectangle of one side of a pass, as it lies on the fabric. */
static wafer_rect rect_of(const pass *p, const spread *s) {
  wafer_rect r = s->rect;
  return p->columns ? (wafer_rect){r.y, r.x, r.height, r.width} : r;
}

static bool takes_part(const pass *p, const spread *s) {
  return wafer_rect_overlaps(rect_of(p, p->from), s->rect) ||
         wafer_rect_overlaps(rect_of(p, p->to), s->rect);
}

/* Cycles from the farthest sender to the farthest receiver. */
static uint64_t flight_of(const exchange *x, const pass *p, uint64_t cycles) {
  wafer_rect a = p->from->rect, b = p->to->rect;
  uint32_t first = a.x < b.x ? a.x : b.x;
  uint32_t end = a.x + a.width > b.x + b.width ? a.x + a.width : b.x + b.width;
  uint64_t flight =
      (uint64_t)(end - first) * x->machine->hop_cycles + 2 * (uint64_t)x->machine->ramp_cycles;
  return flight < cycles ? flight : cycles;
}

/* Passes follow each other; those in which one end has no part yet, or no longer, leave its cores
 * free. */
static bool add_passes(const exchange *x, const route *r, fragment *f) {
  bool begun = false;
  for (uint32_t i = 0; i < r->count; i++) {
    const pass *p = &r->pass[i];
    line_time time;
    uint32_t ports = f->port_count;
    if (!pass_add(p, f, &time)) return false;
    uint64_t least = port_cycles(x, f, ports, p->to->dtype);
    uint64_t cycles = time.cycles < least ? least : time.cycles;
    f->cycles += cycles;
    if (x->from && takes_part(p, x->from)) f->sending += time.busy;
    if (x->to && takes_part(p, x->to)) f->taking += time.busy;
    if (!x->from || !x->to) continue;
    uint64_t flight = flight_of(x, p, cycles);
    if (!begun) f->lead += takes_part(p, x->to) ? flight : cycles;
    begun |= takes_part(p, x->to);
    f->tail = takes_part(p, x->from) ? flight : f->tail + cycles;
  }
  return true;
}

static wafer_status add(const exchange *x, fragment *f) {
  wafer_arena *arena = wafer_arena_create();
  wafer_loc loc = wafer_at_kernel(NULL, f->name, f->node);
  route r = {.scratch = 0};
  bool made = plan(arena, x, &r);
  if (made && r.scratch <= x->scratch_room) made = add_passes(x, &r, f);
  wafer_arena_destroy(arena);
  if (!made)
    return wafer_fail(x->diag, loc, WAFER_NO_MEMORY, "out of memory for the routes of an exchange");
  if (r.scratch <= x->scratch_room) {
    f->scratch_at = r.scratch_at;
    f->scratch_end = (uint32_t)x->scratch + (uint32_t)r.scratch;
    return WAFER_OK;
  }
  return wafer_fail(x->diag, loc, WAFER_NO_FIT,
                    "words on their way need %llu bytes on a core, %u are free",
                    (unsigned long long)r.scratch, x->scratch_room);
}

static bool has_constants(const exchange *x) {
  for (uint32_t s = 0; s < x->from->rank; s++)
    if (x->map.dim[s].dim == INDEX_CONSTANT) return true;
  return false;
}

wafer_status exchange_add(const exchange *x, fragment *f) {
  if (x->to->rank < WAFER_MAX_RANK || !has_constants(x)) return add(x, f);
  return wafer_fail(x->diag, wafer_at_kernel(NULL, f->name, f->node), WAFER_UNSUPPORTED,
                    "picks out of one tensor for another of %u dims; 7 at most", WAFER_MAX_RANK);
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
  if (!is_too_large(x->from ? x->from : x->to)) return add(x, f);
  return wafer_fail(x->diag, wafer_at_kernel(NULL, f->name, f->node), WAFER_NO_FIT,
                    "a tensor of more than %d bytes cannot cross the border at once", INT32_MAX);
}
