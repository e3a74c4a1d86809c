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

/* Passes follow each other. */
static bool add_passes(const exchange *x, const route *r, fragment *f) {
  for (uint32_t i = 0; i < r->count; i++) {
    uint32_t ports = f->port_count;
    uint64_t cycles;
    if (!pass_add(&r->pass[i], f, &cycles)) return false;
    uint64_t least = port_cycles(x, f, ports, r->pass[i].to->dtype);
    f->border += least;
    f->cycles += cycles < least ? least : cycles;
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
