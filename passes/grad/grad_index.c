/* Derivatives of gather and scatter. */
#include <string.h>

#include "grad.h"

/* As a vector. */
static MlirValue flat(grad *d, MlirValue x) {
  wafer_shape s = grad_shape(d, x);
  return grad_reshape_to(d, x, 1, (int64_t[]){grad_elements(&s, 0, s.rank)});
}

/* Rows of `width` elements. */
static MlirValue rows_of(grad *d, MlirValue x, int64_t rows, int64_t width) {
  return grad_reshape_to(d, x, 2, (int64_t[]){rows, width});
}

static MlirValue zeros(grad *d, wafer_dtype dtype, int64_t rows, int64_t width) {
  return grad_splat(d, &(wafer_type){dtype, {2, {rows, width}}}, 0);
}

/* What was taken several times gets the sum. Rows run along the gathered dim: it is brought to the
 * front and back. */
void grad_rule_gather(grad *d) {
  wafer_type x = grad_type(d, d->x[0]);
  uint32_t axis = (uint32_t)grad_int(d, WAFER_ATTR_axis);
  wafer_shape index = grad_shape(d, d->x[1]);
  int64_t before = grad_elements(&x.shape, 0, axis), rows = x.shape.dims[axis];
  int64_t after = grad_elements(&x.shape, axis + 1, x.shape.rank), width = before * after;
  int64_t taken = grad_elements(&index, 0, index.rank);
  const int64_t swap[] = {1, 0, 2};
  MlirValue g = grad_reshape_to(d, d->g, 3, (int64_t[]){before, taken, after});
  g = rows_of(d, grad_transpose(d, g, swap), taken, width);
  g = grad_scatter(d, zeros(d, x.dtype, rows, width), flat(d, d->x[1]), g, "add");
  g = grad_reshape_to(d, g, 3, (int64_t[]){rows, before, after});
  d->part[0] = grad_reshape(d, grad_transpose(d, g, swap), &x.shape);
}

/* The rows of all tables are one table: those of the table i begin at row i times a table's. */
void grad_rule_gather_batched(grad *d) {
  wafer_type x = grad_type(d, d->x[0]);
  uint32_t axis = (uint32_t)grad_int(d, WAFER_ATTR_axis);
  wafer_shape shape = grad_shape(d, d->x[1]);
  int64_t tables = grad_elements(&x.shape, 0, axis), rows = x.shape.dims[axis];
  int64_t width = grad_elements(&x.shape, axis + 1, x.shape.rank);
  int64_t taken = grad_elements(&shape, axis, shape.rank);
  MlirValue index =
      grad_reshape_to(d, grad_cast(d, d->x[1], WAFER_DTYPE_i64), 2, (int64_t[]){tables, taken});
  MlirValue count = grad_scalar(d, index, (double)rows), zero = grad_scalar(d, index, 0);
  MlirValue below = grad_binary(d, WAFER_OP_less, index, zero);
  MlirValue first = MUL(rows_of(d, grad_iota(d, tables), tables, 1), count);
  index = ADD(ADD(index, first), grad_select(d, below, count, zero));
  MlirValue g = rows_of(d, d->g, tables * taken, width);
  g = grad_scatter(d, zeros(d, x.dtype, tables * rows, width), flat(d, index), g, "add");
  d->part[0] = grad_reshape(d, g, &x.shape);
}

/* ---- scatter: rows of `data` at `index` become, or take in, rows of `updates` ---- */

typedef struct places {
  MlirValue data, index, updates, g, y; /* as rows; the index as a vector */
  int64_t rows, width, count;           /* of data; updates */
  wafer_dtype dtype;
} places;

static MlirValue taken(grad *d, const places *p, MlirValue rows) {
  return grad_gather(d, rows, p->index, 0);
}

static MlirValue truth(grad *d, const places *p, MlirValue condition) {
  return grad_cast(d, condition, p->dtype);
}

/* The last of those that went to the same row is the one that stayed. */
static void by_replacing(grad *d, const places *p) {
  MlirValue zero = grad_scalar(d, p->g, 0), number = grad_iota(d, p->count);
  MlirValue none = grad_splat(d, &(wafer_type){WAFER_DTYPE_i64, {1, {p->rows}}}, -1);
  MlirValue last = grad_scatter(d, none, p->index, number, "none");
  MlirValue stayed = EQUAL(taken(d, p, last), number);
  stayed = rows_of(d, stayed, p->count, 1);
  d->part[0] = grad_scatter(d, p->g, p->index, zeros(d, p->dtype, p->count, p->width), "none");
  if (d->wanted[2]) d->part[2] = grad_select(d, stayed, taken(d, p, p->g), zero);
}

static void by_adding(grad *d, const places *p) {
  d->part[0] = p->g;
  if (d->wanted[2]) d->part[2] = taken(d, p, p->g);
}

/* y / x, but where x is 0 and the only such factor: the product of the others. */
static void by_multiplying(grad *d, const places *p) {
  MlirValue zero = grad_scalar(d, p->g, 0), one = grad_scalar(d, p->g, 1);
  MlirValue null[2] = {EQUAL(p->data, zero), EQUAL(p->updates, zero)};
  MlirValue filled[2] = {grad_select(d, null[0], one, p->data),
                         grad_select(d, null[1], one, p->updates)};
  MlirValue nulls = grad_scatter(d, truth(d, p, null[0]), p->index, truth(d, p, null[1]), "add");
  MlirValue rest = MUL(p->g, grad_scatter(d, filled[0], p->index, filled[1], "mul"));
  MlirValue single = grad_select(d, EQUAL(nulls, one), rest, zero);
  MlirValue none = grad_select(d, EQUAL(nulls, zero), rest, zero);
  d->part[0] = grad_select(d, null[0], single, DIV(none, filled[0]));
  if (d->wanted[2])
    d->part[2] = grad_select(d, null[1], taken(d, p, single), DIV(taken(d, p, none), filled[1]));
}

/* All that are equal to what came out share its gradient. */
static void by_extreme(grad *d, const places *p) {
  MlirValue zero = grad_scalar(d, p->g, 0);
  MlirValue own = EQUAL(p->data, p->y), other = EQUAL(p->updates, taken(d, p, p->y));
  MlirValue ties = grad_scatter(d, truth(d, p, own), p->index, truth(d, p, other), "add");
  MlirValue each = DIV(p->g, ties);
  d->part[0] = grad_select(d, own, each, zero);
  if (d->wanted[2]) d->part[2] = grad_select(d, other, taken(d, p, each), zero);
}

void grad_rule_scatter(grad *d) {
  const char *mode = wafer_attr_string(&d->attrs, WAFER_ATTR_mode);
  wafer_type x = grad_type(d, d->x[0]);
  wafer_shape index = grad_shape(d, d->x[1]), updates = grad_shape(d, d->x[2]);
  places p = {.rows = x.shape.dims[0],
              .width = grad_elements(&x.shape, 1, x.shape.rank),
              .count = grad_elements(&index, 0, index.rank),
              .dtype = x.dtype};
  p.data = rows_of(d, d->x[0], p.rows, p.width);
  p.updates = rows_of(d, d->x[2], p.count, p.width);
  p.g = rows_of(d, d->g, p.rows, p.width);
  p.y = rows_of(d, d->y, p.rows, p.width);
  p.index = flat(d, d->x[1]);
  if (!strcmp(mode, "none"))
    by_replacing(d, &p);
  else if (!strcmp(mode, "add"))
    by_adding(d, &p);
  else if (!strcmp(mode, "mul"))
    by_multiplying(d, &p);
  else
    by_extreme(d, &p);
  if (d->wanted[0]) d->part[0] = grad_reshape(d, d->part[0], &x.shape);
  if (d->wanted[2]) d->part[2] = grad_reshape(d, d->part[2], &updates);
}
