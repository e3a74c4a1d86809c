/* Random graphs: nodes that move elements, or add them up along an axis. */
#include <string.h>

#include "graphs_maker.h"

bool make_transpose(maker *m) {
  uint32_t x = pick(m, ALL, 2, 5);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, out = {.rank = s.rank};
  char list[64] = "";
  uint32_t left[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < s.rank; d++) left[d] = d;
  for (uint32_t d = 0; d < s.rank; d++) {
    uint32_t at = (uint32_t)any(m, d, s.rank - 1), from = left[at];
    left[at] = left[d];
    out.dims[d] = s.dims[from];
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", d ? "," : "", from);
  }
  add_node(m, 1, &x, "Transpose(perm=[%s])", list);
  return add_output(m, value_at(m, x)->dtype, out);
}

/* Factors of the number of elements, in the order in which they are found. */
bool make_reshape(maker *m) {
  uint32_t x = pick(m, ALL, 0, 5);
  if (x == NOBODY) return false;
  int64_t left = elements_of(&value_at(m, x)->shape);
  wafer_shape out = {.rank = (uint32_t)any(m, 1, 4)};
  for (uint32_t d = 0; d + 1 < out.rank; d++) {
    int64_t f = any(m, 1, left < 8 ? left : 8);
    while (left % f) f--;
    out.dims[d] = f;
    left /= f;
  }
  out.dims[out.rank - 1] = left;
  int64_t dims[WAFER_MAX_RANK];
  memcpy(dims, out.dims, sizeof dims);
  if (any(m, 0, 2) == 0) dims[any(m, 0, out.rank - 1)] = -1;
  add_node(m, 2, (uint32_t[]){x, add_ints(m, 1, out.rank, dims)}, "Reshape");
  return add_output(m, value_at(m, x)->dtype, out);
}

bool make_unsqueeze(maker *m) {
  uint32_t x = pick(m, ALL, 0, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, out = {.rank = s.rank + 1};
  int64_t axis = any(m, 0, s.rank);
  for (uint32_t d = 0, from = 0; d < out.rank; d++) out.dims[d] = d == axis ? 1 : s.dims[from++];
  add_node(m, 2, (uint32_t[]){x, add_ints(m, 1, 1, &axis)}, "Unsqueeze");
  return add_output(m, value_at(m, x)->dtype, out);
}

/* A value that differs from one of shape s along an axis at most; if there is none, a new one. */
static uint32_t beside(maker *m, wafer_dtype dtype, const wafer_shape *s, uint32_t axis) {
  for (int tries = 0; tries < 8; tries++) {
    uint32_t v = pick(m, 1u << dtype, s->rank, s->rank);
    bool fits = v != NOBODY;
    for (uint32_t d = 0; fits && d < s->rank; d++)
      fits = d == axis || value_at(m, v)->shape.dims[d] == s->dims[d];
    if (fits) return v;
  }
  return add_random(m, GRAPH_CONSTANT, dtype, *s, -2, 2);
}

/* Of two values, or of so many that one op does not take them all. */
bool make_concat(maker *m) {
  uint32_t x = pick(m, ALL, 1, 5), all[12], count = any(m, 0, 3) ? 2 : (uint32_t)any(m, 3, 12);
  if (x == NOBODY) return false;
  wafer_dtype dtype = value_at(m, x)->dtype;
  wafer_shape s = value_at(m, x)->shape, sum = s;
  uint32_t axis = (uint32_t)any(m, 0, s.rank - 1), at = (uint32_t)any(m, 0, count - 1);
  sum.dims[axis] = 0;
  for (uint32_t i = 0; i < count; i++) {
    all[i] = i == at ? x : beside(m, dtype, &s, axis);
    sum.dims[axis] += value_at(m, all[i])->shape.dims[axis];
  }
  if (elements_of(&sum) > MOST_ELEMENTS) return false;
  add_node(m, count, all, "Concat(axis=%u)", axis);
  return add_output(m, dtype, sum);
}

bool make_slice(maker *m) {
  uint32_t x = pick(m, ALL, 1, 5);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  int64_t axis = any(m, 0, s.rank - 1), dim = s.dims[axis];
  int64_t start = any(m, 0, dim - 1), end = any(m, start + 1, dim), step = any(m, 1, 3);
  s.dims[axis] = (end - start + step - 1) / step;
  if (any(m, 0, 3) == 0) { /* backwards, from end - 1 down to start */
    int64_t first = end - 1;
    end = start ? start - 1 : -dim - 1;
    start = first;
    step = -step;
  }
  uint32_t in[] = {x, add_ints(m, 1, 1, &start), add_ints(m, 1, 1, &end), add_ints(m, 1, 1, &axis),
                   add_ints(m, 1, 1, &step)};
  add_node(m, 5, in, "Slice");
  return add_output(m, value_at(m, x)->dtype, s);
}

bool make_split(maker *m) {
  uint32_t x = pick(m, ALL, 1, 5);
  if (x == NOBODY) return false;
  wafer_dtype dtype = value_at(m, x)->dtype;
  wafer_shape s = value_at(m, x)->shape;
  uint32_t axis = (uint32_t)any(m, 0, s.rank - 1);
  if (s.dims[axis] < 2) return false;
  int64_t first = any(m, 1, s.dims[axis] - 1), parts[] = {first, s.dims[axis] - first};
  add_node(m, 2, (uint32_t[]){x, add_ints(m, 1, 2, parts)}, "Split(axis=%u)", axis);
  for (int i = 0; i < 2; i++) {
    s.dims[axis] = parts[i];
    add_output(m, dtype, s);
  }
  return true;
}

bool make_expand(maker *m) {
  uint32_t x = pick(m, ALL, 0, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, out = {.rank = s.rank + (uint32_t)any(m, 0, 1)};
  for (uint32_t d = 0; d < out.rank; d++) {
    int64_t dim = d + s.rank < out.rank ? 1 : s.dims[d + s.rank - out.rank];
    out.dims[d] = dim == 1 ? any(m, 1, 4) : dim;
  }
  if (elements_of(&out) > MOST_ELEMENTS) return false;
  add_node(m, 2, (uint32_t[]){x, add_ints(m, 1, out.rank, out.dims)}, "Expand");
  return add_output(m, value_at(m, x)->dtype, out);
}

bool make_pad(maker *m) {
  static const char *const modes[] = {"constant", "edge", "reflect"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 1, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  int64_t pads[2 * WAFER_MAX_RANK] = {0};
  for (uint32_t d = 0; d < s.rank; d++) {
    int64_t most = s.dims[d] > 2 ? 2 : s.dims[d] - 1;
    pads[d] = any(m, 0, most);
    pads[d + s.rank] = any(m, 0, most);
  }
  uint32_t in[] = {x, add_ints(m, 1, 2 * s.rank, pads)};
  for (uint32_t d = 0; d < s.rank; d++) s.dims[d] += pads[d] + pads[d + s.rank];
  if (elements_of(&s) > MOST_ELEMENTS) return false;
  add_node(m, 2, in, "Pad(mode='%s')", ONE_OF(m, modes));
  return add_output(m, WAFER_DTYPE_f32, s);
}

bool make_gather(maker *m) {
  uint32_t x = pick(m, ALL, 1, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, out = {0};
  uint32_t axis = (uint32_t)any(m, 0, s.rank - 1), rank = (uint32_t)any(m, 0, 1);
  int64_t at[4], count = rank ? any(m, 1, 4) : 1;
  for (int64_t i = 0; i < count; i++) at[i] = any(m, -s.dims[axis], s.dims[axis] - 1);
  for (uint32_t d = 0; d < s.rank; d++) {
    if (d != axis) out.dims[out.rank++] = s.dims[d];
    if (d == axis && rank) out.dims[out.rank++] = count;
  }
  uint32_t in[] = {x, add_ints(m, rank, (uint32_t)count, at)};
  add_node(m, 2, in, "Gather(axis=%u)", axis);
  return add_output(m, value_at(m, x)->dtype, out);
}

bool make_cumsum(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32 | INTS, 1, 4);
  if (x == NOBODY) return false;
  int64_t axis = any(m, 0, value_at(m, x)->shape.rank - 1);
  add_node(m, 2, (uint32_t[]){x, add_ints(m, 0, 1, &axis)}, "CumSum(exclusive=%d,reverse=%d)",
           (int)any(m, 0, 1), (int)any(m, 0, 1));
  return add_output(m, value_at(m, x)->dtype, value_at(m, x)->shape);
}
