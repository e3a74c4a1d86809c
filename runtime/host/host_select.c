/* Host operators whose results have as many elements as the operands' values say. */
#define _GNU_SOURCE /* qsort_r */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static bool is_set(const wafer_view *x, int64_t i) {
  if (x->dtype == WAFER_DTYPE_string) return *((const char *const *)x->data)[i] != 0;
  return wafer_element_f64(x->dtype, x->data, i) != 0;
}

/* A row of indices per dim, a column per element that is not zero; a scalar counts as one dim. */
wafer_status host_non_zero(host_site *site) {
  const wafer_view *x;
  wafer_view *y;
  int64_t found = 0, column = 0;
  WAFER_TRY(host_tensor(site, 0, &x));
  int64_t count = host_elements(x);
  for (int64_t i = 0; i < count; i++) found += is_set(x, i);
  uint32_t rank = x->shape.rank ? x->shape.rank : 1;
  wafer_shape shape = {.rank = 2, .dims = {rank, found}};
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_i64, &shape, &y));
  int64_t *out = y->data;
  for (int64_t i = 0; i < count; i++) {
    if (!is_set(x, i)) continue;
    int64_t rest = i;
    for (uint32_t d = x->shape.rank; d-- > 0; rest /= x->shape.dims[d])
      out[d * found + column] = rest % x->shape.dims[d];
    column++;
  }
  return WAFER_OK;
}

/* ---- ScatterElements, ScatterND ---- */

static double joined(char how, double a, double b) {
  switch (how) {
  case 'a': return a + b;
  case 'u': return a * b;
  case 'i': return b < a || isnan(b) ? b : a;
  case 'x': return b > a || isnan(b) ? b : a;
  default: return b;
  }
}

/* The same of integers, which wrap around; `huge`: without a sign. */
static int64_t joined_whole(char how, int64_t a, int64_t b, bool huge) {
  bool less = huge ? (uint64_t)b < (uint64_t)a : b < a;
  switch (how) {
  case 'a': return (int64_t)((uint64_t)a + (uint64_t)b);
  case 'u': return (int64_t)((uint64_t)a * (uint64_t)b);
  case 'i': return less ? b : a;
  case 'x': return less ? a : b;
  default: return b;
  }
}

/* `how`: a letter of add, mul, min, max, or n: the last update stays. */
static void put_element(const wafer_view *y, int64_t at, const wafer_view *from, int64_t i,
                        char how) {
  size_t bytes = wafer_dtype_bytes(y->dtype);
  if (how == 'n')
    memcpy((char *)y->data + (size_t)at * bytes, (const char *)from->data + (size_t)i * bytes,
           bytes);
  else if (wafer_dtype_is_float(y->dtype))
    wafer_element_set_f64(y->dtype, y->data, at,
                          joined(how, wafer_element_f64(y->dtype, y->data, at),
                                 wafer_element_f64(from->dtype, from->data, i)));
  else
    wafer_element_set_i64(y->dtype, y->data, at,
                          joined_whole(how, wafer_element_i64(y->dtype, y->data, at),
                                       wafer_element_i64(from->dtype, from->data, i),
                                       y->dtype == WAFER_DTYPE_u64));
}

static wafer_status reduction_of(const host_site *site, char *how) {
  const char *names[] = {"none", "add", "mul", "min", "max"};
  const char *name = host_text(site, "reduction", "none");
  for (uint32_t i = 0; i < 5; i++)
    if (!strcmp(name, names[i])) {
      *how = "nauix"[i];
      return WAFER_OK;
    }
  return host_fail(site, "there is no reduction '%s'", name);
}

wafer_status host_scatter_elements(host_site *site) {
  const wafer_view *x, *index, *updates;
  uint32_t axis;
  char how = 0;
  WAFER_TRY(host_numbers(site, 0, &x));
  WAFER_TRY(host_numbers(site, 1, &index));
  WAFER_TRY(host_typed(site, 2, x->dtype, &updates));
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  WAFER_TRY(reduction_of(site, &how));
  if (!wafer_shape_equal(&index->shape, &updates->shape) || index->shape.rank != x->shape.rank)
    return host_fail(site, "indices and updates differ in shape");
  for (uint32_t d = 0; d < x->shape.rank; d++)
    if (d != axis && index->shape.dims[d] > x->shape.dims[d])
      return host_fail(site, "dim %u of the indices is larger than the tensor's", d);
  wafer_item *made = wafer_item_copy(x);
  if (!made) return host_no_memory(site);
  for (int64_t i = 0, count = host_elements(updates); i < count; i++) {
    int64_t rest = i, stride = 1, place = 0;
    for (uint32_t d = x->shape.rank; d-- > 0; stride *= x->shape.dims[d]) {
      int64_t size = index->shape.dims[d], dim = x->shape.dims[d], at = rest % size;
      if (d == axis) at = wafer_element_i64(index->dtype, index->data, i);
      if (at < -dim || at >= dim) {
        wafer_item_release(made);
        return host_fail(site, "index %" PRId64 " is out of range", at);
      }
      place += (at < 0 ? at + dim : at) * stride;
      rest /= size;
    }
    put_element(&made->tensor, place, updates, i, how);
  }
  return host_give(site, 0, made);
}

/* The last dim of the indices names the first dims of x, an update is what is behind them. */
wafer_status host_scatter_nd(host_site *site) {
  const wafer_view *x, *index, *updates;
  char how = 0;
  WAFER_TRY(host_numbers(site, 0, &x));
  WAFER_TRY(host_typed(site, 1, WAFER_DTYPE_i64, &index));
  WAFER_TRY(host_typed(site, 2, x->dtype, &updates));
  WAFER_TRY(reduction_of(site, &how));
  uint32_t q = index->shape.rank, r = x->shape.rank;
  int64_t depth = q ? index->shape.dims[q - 1] : 0, tuples = 1, inner = 1;
  if (q < 1 || depth < 1 || depth > r || q - 1 + r - depth > WAFER_MAX_RANK)
    return host_fail(site, "the indices do not fit the tensor");
  wafer_shape shape = {.rank = q - 1 + r - (uint32_t)depth};
  for (uint32_t d = 0; d + 1 < q; d++) tuples *= shape.dims[d] = index->shape.dims[d];
  for (uint32_t d = (uint32_t)depth; d < r; d++)
    inner *= shape.dims[q - 1 + d - (uint32_t)depth] = x->shape.dims[d];
  if (!wafer_shape_equal(&shape, &updates->shape))
    return host_fail(site, "the updates do not fit the indices");
  wafer_item *made = wafer_item_copy(x);
  if (!made) return host_no_memory(site);
  for (int64_t i = 0; i < tuples; i++) {
    int64_t place = 0;
    for (int64_t k = 0; k < depth; k++) {
      int64_t dim = x->shape.dims[k], at = ((const int64_t *)index->data)[i * depth + k];
      if (at < -dim || at >= dim) {
        wafer_item_release(made);
        return host_fail(site, "index %" PRId64 " is out of range", at);
      }
      place = place * dim + (at < 0 ? at + dim : at);
    }
    for (int64_t k = 0; k < inner; k++)
      put_element(&made->tensor, place * inner + k, updates, i * inner + k, how);
  }
  return host_give(site, 0, made);
}

/* The entries of dim `axis` (of all elements in a row: no axis) where the condition holds. */
wafer_status host_compress(host_site *site) {
  const wafer_view *x, *condition;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_typed(site, 1, WAFER_DTYPE_bool, &condition));
  wafer_view flat = *x;
  uint32_t axis = 0;
  if (host_attr(site, "axis", WAFER_HOST_ATTR_ints)) {
    WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  } else {
    wafer_shape row = {.rank = 1, .dims = {host_elements(x)}};
    flat = wafer_view_of(x->dtype, &row, x->data);
  }
  int64_t most = host_elements(condition), count = 0;
  if (most > flat.shape.dims[axis])
    return host_fail(site, "the condition has %" PRId64 " elements, the dim %" PRId64, most,
                     flat.shape.dims[axis]);
  wafer_item *indices = wafer_item_new(WAFER_DTYPE_i64, &condition->shape);
  if (!indices) return host_no_memory(site);
  for (int64_t i = 0; i < most; i++)
    if (is_set(condition, i)) ((int64_t *)indices->tensor.data)[count++] = i;
  wafer_shape kept = {.rank = 1, .dims = {count}};
  wafer_view at = wafer_view_of(WAFER_DTYPE_i64, &kept, indices->tensor.data);
  wafer_attr attr = HOST_INT(axis, axis);
  wafer_status status =
      host_core_op(site, WAFER_OP_gather, &(wafer_attrs){1, &attr}, 2, (wafer_view[]){flat, at});
  wafer_item_release(indices);
  return status;
}

/* ---- Unique ---- */

/* Entries along a dim, as rows of `width` elements; sorted by value, then by place. */
typedef struct unique {
  wafer_view rows; /* (count, width), dense */
  int64_t count, width;
  int64_t *order;   /* entries, sorted */
  int64_t *group;   /* entry -> its group in sorted order */
  int64_t *first;   /* group -> first entry */
  int64_t *members; /* group -> how many */
  int64_t groups;
} unique;

static int compare_cell(const wafer_view *v, int64_t a, int64_t b) {
  if (v->dtype == WAFER_DTYPE_string) {
    const char *const *text = v->data;
    int order = strcmp(text[a], text[b]);
    return (order > 0) - (order < 0);
  }
  if (wafer_dtype_is_float(v->dtype)) {
    double x = wafer_element_f64(v->dtype, v->data, a), y = wafer_element_f64(v->dtype, v->data, b);
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
  }
  int64_t x = wafer_element_i64(v->dtype, v->data, a), y = wafer_element_i64(v->dtype, v->data, b);
  if (v->dtype == WAFER_DTYPE_u64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
  return (x > y) - (x < y);
}

static int compare_rows(const unique *u, int64_t a, int64_t b) {
  for (int64_t i = 0; i < u->width; i++) {
    int order = compare_cell(&u->rows, a * u->width + i, b * u->width + i);
    if (order) return order;
  }
  return 0;
}

static int by_row(const void *a, const void *b, void *self) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  int order = compare_rows(self, x, y);
  return order ? order : (x > y) - (x < y);
}

static int by_first(const void *a, const void *b, void *self) {
  const unique *u = self;
  int64_t x = u->first[*(const int64_t *)a], y = u->first[*(const int64_t *)b];
  return (x > y) - (x < y);
}

static void sift(unique *u) {
  for (int64_t i = 0; i < u->count; i++) u->order[i] = i;
  qsort_r(u->order, (size_t)u->count, sizeof *u->order, by_row, u);
  for (int64_t i = 0; i < u->count; i++) {
    bool fresh = i == 0 || compare_rows(u, u->order[i - 1], u->order[i]) != 0;
    if (fresh) u->first[u->groups++] = u->order[i];
    u->group[u->order[i]] = u->groups - 1;
    u->members[u->groups - 1]++;
  }
}

/* Row `ranked[g]` of the result is group g in sorted order. */
static wafer_status give_unique(host_site *site, const unique *u, const wafer_view *x,
                                uint32_t axis, const int64_t *sequence, const int64_t *ranked) {
  wafer_shape groups = {.rank = 1, .dims = {u->groups}}, all = {.rank = 1, .dims = {u->count}};
  wafer_view *inverse, *counts;
  wafer_item *picked = wafer_item_new(WAFER_DTYPE_i64, &groups);
  if (!picked) return host_no_memory(site);
  for (int64_t i = 0; i < u->groups; i++)
    ((int64_t *)picked->tensor.data)[i] = u->first[sequence[i]];
  wafer_attr attr = HOST_INT(axis, axis);
  wafer_status status = host_core_op(site, WAFER_OP_gather, &(wafer_attrs){1, &attr}, 2,
                                     (wafer_view[]){*x, picked->tensor});
  if (status != WAFER_OK) {
    wafer_item_release(picked);
    return status;
  }
  WAFER_TRY(host_give(site, 1, picked));
  if (site->output_count > 2) {
    WAFER_TRY(host_new(site, 2, WAFER_DTYPE_i64, &all, &inverse));
    for (int64_t i = 0; i < u->count; i++) ((int64_t *)inverse->data)[i] = ranked[u->group[i]];
  }
  if (site->output_count < 4) return WAFER_OK;
  WAFER_TRY(host_new(site, 3, WAFER_DTYPE_i64, &groups, &counts));
  for (int64_t i = 0; i < u->groups; i++) ((int64_t *)counts->data)[i] = u->members[sequence[i]];
  return WAFER_OK;
}

static wafer_status find_unique(host_site *site, unique *u, const wafer_view *x, uint32_t axis,
                                int64_t *scratch) {
  int64_t n = u->count, *sequence = scratch + 4 * n, *ranked = scratch + 5 * n;
  u->order = scratch, u->group = scratch + n, u->first = scratch + 2 * n;
  u->members = scratch + 3 * n;
  sift(u);
  for (int64_t g = 0; g < u->groups; g++) sequence[g] = g;
  if (!host_int(site, "sorted", 1))
    qsort_r(sequence, (size_t)u->groups, sizeof *sequence, by_first, u);
  for (int64_t g = 0; g < u->groups; g++) ranked[sequence[g]] = g;
  return give_unique(site, u, x, axis, sequence, ranked);
}

wafer_status host_unique(host_site *site) {
  const wafer_view *x;
  uint32_t axis = 0;
  WAFER_TRY(host_tensor(site, 0, &x));
  wafer_shape row = {.rank = 1, .dims = {host_elements(x)}};
  wafer_view flat = wafer_view_of(x->dtype, &row, x->data);
  if (host_attr(site, "axis", WAFER_HOST_ATTR_ints)) {
    WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
    flat = *x;
  }
  unique u = {.count = flat.shape.dims[axis]};
  int64_t perm[WAFER_MAX_RANK];
  for (uint32_t d = 0, at = 1; d < flat.shape.rank; d++)
    if (d == axis)
      perm[0] = d;
    else
      perm[at++] = d;
  wafer_attr attr = HOST_INTS(perm, flat.shape.rank, perm);
  wafer_item *rows;
  WAFER_TRY(host_core_item(site, WAFER_OP_transpose, &(wafer_attrs){1, &attr}, 1, &flat, &rows));
  u.rows = rows->tensor;
  u.width = u.count ? host_elements(&flat) / u.count : 0;
  int64_t *scratch = calloc(6 * (size_t)u.count + 1, sizeof *scratch);
  wafer_status status =
      scratch ? find_unique(site, &u, &flat, axis, scratch) : host_no_memory(site);
  free(scratch);
  wafer_item_release(rows);
  return status;
}

/* ---- NonMaxSuppression ---- */

typedef struct box {
  double y0, x0, y1, x1;
} box;

static box box_of(const wafer_view *boxes, int64_t at, bool center) {
  double v[4];
  for (int k = 0; k < 4; k++) v[k] = wafer_element_f64(boxes->dtype, boxes->data, at * 4 + k);
  if (center) return (box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return (box){fmin(v[0], v[2]), fmin(v[1], v[3]), fmax(v[0], v[2]), fmax(v[1], v[3])};
}

static double overlap(const box *a, const box *b) {
  double height = fmin(a->y1, b->y1) - fmax(a->y0, b->y0);
  double width = fmin(a->x1, b->x1) - fmax(a->x0, b->x0);
  if (height <= 0 || width <= 0) return 0;
  double both = height * width;
  double one = (a->y1 - a->y0) * (a->x1 - a->x0), other = (b->y1 - b->y0) * (b->x1 - b->x0);
  return one + other - both > 0 ? both / (one + other - both) : 0;
}

typedef struct suppression {
  const wafer_view *boxes, *scores;
  bool center, limited;
  int64_t most, *candidates, *kept;
  double threshold, least;
} suppression;

static int by_score(const void *a, const void *b, void *self) {
  const double *scores = self;
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  if (scores[x] < scores[y]) return 1;
  if (scores[x] > scores[y]) return -1;
  int last = isnan(scores[x]) - isnan(scores[y]); /* no number comes last */
  return last ? last : (x > y) - (x < y);
}

/* The boxes of one batch and class that stay, best first, at `kept`; their number. */
static int64_t suppress(const suppression *s, int64_t batch, double *scores, int64_t count) {
  int64_t found = 0, kept = 0;
  for (int64_t i = 0; i < count; i++)
    if (!s->limited || scores[i] > s->least) s->candidates[found++] = i;
  qsort_r(s->candidates, (size_t)found, sizeof *s->candidates, by_score, scores);
  for (int64_t i = 0; i < found && kept < s->most; i++) {
    box here = box_of(s->boxes, batch * count + s->candidates[i], s->center);
    bool stays = true;
    for (int64_t k = 0; k < kept && stays; k++) {
      box other = box_of(s->boxes, batch * count + s->kept[k], s->center);
      stays = overlap(&here, &other) <= s->threshold;
    }
    if (stays) s->kept[kept++] = s->candidates[i];
  }
  return kept;
}

/* Twice over the classes: to count, then to write. */
static wafer_status suppress_all(host_site *site, const suppression *s, double *scores) {
  const wafer_shape *shape = &s->scores->shape;
  int64_t batches = shape->dims[0], classes = shape->dims[1], count = shape->dims[2], total = 0;
  int64_t *out = NULL;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t b = 0; b < batches; b++)
      for (int64_t c = 0; c < classes; c++) {
        for (int64_t i = 0; i < count; i++)
          scores[i] =
              wafer_element_f64(s->scores->dtype, s->scores->data, (b * classes + c) * count + i);
        int64_t kept = suppress(s, b, scores, count);
        if (!pass) total += kept;
        for (int64_t k = 0; pass && k < kept; k++, out += 3)
          out[0] = b, out[1] = c, out[2] = s->kept[k];
      }
    if (pass) break;
    wafer_view *y;
    wafer_shape result = {.rank = 2, .dims = {total, 3}};
    WAFER_TRY(host_new(site, 0, WAFER_DTYPE_i64, &result, &y));
    out = y->data;
  }
  return WAFER_OK;
}

wafer_status host_non_max_suppression(host_site *site) {
  suppression s = {.center = host_int(site, "center_point_box", 0) != 0};
  const wafer_view *number;
  WAFER_TRY(host_numbers(site, 0, &s.boxes));
  WAFER_TRY(host_numbers(site, 1, &s.scores));
  const wafer_shape *b = &s.boxes->shape, *c = &s.scores->shape;
  if (b->rank != 3 || c->rank != 3 || b->dims[2] != 4 || b->dims[0] != c->dims[0] ||
      b->dims[1] != c->dims[2])
    return host_fail(site, "boxes must be (batches, boxes, 4), scores (batches, classes, boxes)");
  if (host_has(site, 2)) WAFER_TRY(host_scalar(site, 2, &s.most));
  for (uint32_t i = 3; i < 5; i++) {
    if (!host_has(site, i)) continue;
    WAFER_TRY(host_typed(site, i, WAFER_DTYPE_f32, &number));
    if (host_elements(number) != 1) return host_fail(site, "operand %u must be one number", i);
    *(i == 3 ? &s.threshold : &s.least) = wafer_element_f64(WAFER_DTYPE_f32, number->data, 0);
    if (i == 4) s.limited = true;
  }
  size_t count = (size_t)b->dims[1];
  s.candidates = calloc(count + 1, sizeof *s.candidates);
  s.kept = calloc(count + 1, sizeof *s.kept);
  double *scores = calloc(count + 1, sizeof *scores);
  wafer_status status =
      s.candidates && s.kept && scores ? suppress_all(site, &s, scores) : host_no_memory(site);
  free(s.candidates);
  free(s.kept);
  free(scores);
  return status;
}
