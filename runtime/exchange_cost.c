/* The cost of an exchange in closed form.
 *
 * A pass works on lines. The cuts that both layouts have alike, and that lie around all others,
 * divide a line into blocks that do not concern each other. In a block each element that is not in
 * its place goes over a bus once, half of them either way where there are as many senders on either
 * side. Where the outermost cut of both is of one dim, words go no farther than its ends are apart
 * and a part is wide, and segments of twice that work at the same time. */
#include "wafer/exchange.h"

/* One direction of a layout: over rows, or over columns. */
typedef struct direction {
  uint32_t first, extent; /* of the rectangle */
  const uint32_t *parts, *stride;
} direction;

static direction along(const wafer_spot *s, bool rows) {
  return rows ? (direction){s->rect.y, s->rect.height, s->layout.rows, s->layout.row_stride}
              : (direction){s->rect.x, s->rect.width, s->layout.cols, s->layout.col_stride};
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}
static uint64_t apart(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

/* How a line is used. */
typedef struct line {
  uint64_t block;           /* cores that concern each other */
  uint64_t shared;          /* parts by which blocks differ */
  uint64_t senders, takers; /* that differ, in a block */
  uint32_t moving;          /* dims that are cut differently */
} line;

/* Of a dim: are all parts of either in the same places? `other` is the perpendicular direction. */
static bool stays(const direction *from, const direction *to, const direction *from_other,
                  const direction *to_other, uint32_t d) {
  if (from->parts[d] != to->parts[d]) return false;
  if (from->parts[d] < 2) return true;
  return from->stride[d] == to->stride[d] && from_other->parts[d] == to_other->parts[d];
}

static line line_of(const direction *from, const direction *to, const direction *from_other,
                    const direction *to_other, uint32_t rank) {
  line l = {.block = 1, .shared = 1, .senders = 1, .takers = 1};
  bool same_place = from->first == to->first && to->extent <= from->extent;
  for (uint32_t d = 0; d < rank; d++) {
    if (same_place && stays(from, to, from_other, to_other, d)) continue;
    if (from->parts[d] < 2 && to->parts[d] < 2) continue;
    l.moving++;
    l.senders *= from->parts[d];
    l.takers *= to->parts[d];
    if (from->parts[d] > 1) l.block = most(l.block, (uint64_t)from->stride[d] * from->parts[d]);
    if (to->parts[d] > 1) l.block = most(l.block, (uint64_t)to->stride[d] * to->parts[d]);
  }
  for (uint32_t d = 0; d < rank; d++)
    if (same_place && stays(from, to, from_other, to_other, d) && from->parts[d] > 1) {
      if (from->stride[d] >= l.block) l.shared *= from->parts[d];
    }
  if (!same_place) {
    uint64_t end = most(from->first + from->extent, to->first + to->extent);
    l.block = end - least(from->first, to->first);
    l.moving = l.moving ? l.moving : 1;
  }
  return l;
}

static uint32_t outermost(const direction *a, uint32_t rank) {
  uint32_t best = rank;
  for (uint32_t d = 0; d < rank; d++)
    if (a->parts[d] > 1 && (best == rank || a->stride[d] > a->stride[best])) best = d;
  return best;
}

/* How far words go where the outermost cut of both is of the same dim; UINT32_MAX: anywhere. */
static uint64_t farthest(const direction *from, const direction *to, uint32_t rank) {
  uint32_t a = outermost(from, rank), b = outermost(to, rank);
  if (a != b || a == rank) return UINT32_MAX;
  uint64_t ends =
      apart((uint64_t)from->parts[a] * from->stride[a], (uint64_t)to->parts[a] * to->stride[a]);
  return apart(from->first, to->first) + ends + most(from->stride[a], to->stride[a]);
}

/* Elements of the largest part, of dims cut by `a` and, in the other direction, by `b`. */
static uint64_t content(const wafer_shape *shape, const uint32_t *a) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < shape->rank; d++) n *= ((uint64_t)shape->dims[d] + a[d] - 1) / a[d];
  return n;
}

static uint64_t words_of(uint64_t elements, wafer_dtype dtype) {
  return (elements * wafer_dtype_bits(dtype) + 31) / 32;
}

/* `elements`: that a line holds before the pass and somebody needs. */
static uint64_t pass(const wafer_machine *m, const direction *from, const direction *to,
                     const direction *from_other, const direction *to_other,
                     const wafer_shape *shape, wafer_dtype dtype, uint64_t elements) {
  line l = line_of(from, to, from_other, to_other, shape->rank);
  bool same_place = from->first == to->first && to->extent <= from->extent;
  if (l.moving == 0) return 0;
  uint64_t setup = m->vector_setup_cycles + m->descriptor_load_cycles + 2ull * m->ramp_cycles;
  if (l.senders == 1 && same_place) return setup; /* everybody has it all */
  uint64_t words = words_of(elements, dtype) / l.shared, hops = l.block;
  uint64_t far = farthest(from, to, shape->rank);
  if (same_place) words -= words / most(l.senders, 1);
  if (2 * far < l.block) {
    words = words * far / l.block;
    hops = 2 * far;
  } else if (same_place && l.senders > 2) {
    words = (words + 1) / 2;
  }
  return setup + words + hops * m->hop_cycles + least(l.senders, hops);
}

static uint64_t product(const uint32_t *parts, uint32_t rank) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < rank; d++) n *= parts[d];
  return n;
}

/* First along `first`, then along the other direction. */
static uint64_t two_passes(const wafer_machine *m, const wafer_spot *from, const wafer_spot *to,
                           const wafer_shape *shape, wafer_dtype dtype, bool rows_move_last) {
  direction f1 = along(from, !rows_move_last), t1 = along(to, !rows_move_last);
  direction f2 = along(from, rows_move_last), t2 = along(to, rows_move_last);
  uint64_t held = content(shape, f2.parts);
  uint64_t copies = f2.extent / most(product(f2.parts, shape->rank), 1);
  uint64_t serves =
      least(copies, product(t2.parts, shape->rank)); /* lines share out what they have */
  uint64_t first = pass(m, &f1, &t1, &f2, &t2, shape, dtype, (held + serves - 1) / most(serves, 1));
  uint64_t second = pass(m, &f2, &t2, &t1, &t1, shape, dtype, content(shape, t1.parts));
  return first + second;
}

uint64_t wafer_exchange_cycles(const wafer_machine *machine, const wafer_spot *from,
                               const wafer_spot *to, const wafer_shape *shape, wafer_dtype dtype) {
  return least(two_passes(machine, from, to, shape, dtype, true),
               two_passes(machine, from, to, shape, dtype, false));
}
