/* Looking up and replacing elements by index, beyond Gather; running sums. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

static int64_t elements_of(const wafer_shape *shape, uint32_t from) {
  int64_t count = 1; /* of a shape that exists, so it fits */
  for (uint32_t d = from; d < shape->rank; d++) count *= shape->dims[d];
  return count;
}

/* Negative indices count from the end. */
static MlirValue from_start(import_node *n, MlirValue index, int64_t extent) {
  index = emit_cast(n, index, WAFER_DTYPE_i64);
  MlirValue below = emit_binary(n, WAFER_OP_less, index, emit_scalar_like(n, index, 0));
  return emit_select(n, below, ADD(index, emit_scalar_like(n, index, (double)extent)), index);
}

/* Position in `data` of what stands at each place of `shape`, dim `axis` left out. */
static MlirValue places(import_node *n, const wafer_shape *data, const wafer_shape *shape,
                        uint32_t axis) {
  int64_t count = elements_of(shape, 0), *at = node_new_ints(n, count);
  if (!at) return none;
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, stride = 1, place = 0;
    for (uint32_t d = shape->rank; d-- > 0; rest /= shape->dims[d], stride *= data->dims[d])
      if (d != axis) place += rest % shape->dims[d] * stride;
    at[i] = place;
  }
  wafer_view view = wafer_view_of(WAFER_DTYPE_i64, shape, at);
  return emit_constant(n, &view);
}

MlirValue emit_rows(import_node *n, MlirValue rows, MlirValue index) {
  return emit_gather(n, rows, index, 0);
}

/* ---- Looking up along one dim, by indices for each place of the others ---- */

/* Whether the indices are known to be the same all along dim d. */
static bool repeats(import_node *n, MlirValue index, uint32_t d) {
  wafer_shape shape = node_type(n, index).shape;
  if (n->status != WAFER_OK || shape.dims[d] == 1) return true;
  wafer_view known;
  if (wafer_ir_is_constant(index)) {
    if (!wafer_ir_constant(n->im->ctx, n->im->ir, index, &known)) return false;
    int64_t inner = elements_of(&shape, d + 1), count = elements_of(&shape, 0);
    for (int64_t i = 0; i < count; i++) {
      int64_t first = i - i / inner % shape.dims[d] * inner;
      if (wafer_element_i64(known.dtype, known.data, i) !=
          wafer_element_i64(known.dtype, known.data, first))
        return false;
    }
    return true;
  }
  MlirOperation op = mlirValueIsAOpResult(index) ? mlirOpResultGetOwner(index) : (MlirOperation){0};
  if (mlirOperationIsNull(op) || wafer_ir_op(op) != WAFER_OP_expand) return false;
  MlirValue from = mlirOperationGetOperand(op, 0);
  uint32_t missing = shape.rank - node_rank(n, from);
  return d < missing || repeats(n, from, d - missing);
}

/* The first of each of the dims from `from` up to `to`, and these dims no more. */
static MlirValue first_of(import_node *n, MlirValue index, uint32_t from, uint32_t to) {
  wafer_shape kept = {0};
  for (uint32_t d = from; d < to; d++) index = emit_part(n, index, d, 0, 1);
  wafer_shape shape = node_type(n, index).shape;
  for (uint32_t d = 0; d < shape.rank; d++)
    if (d < from || d >= to) kept.dims[kept.rank++] = shape.dims[d];
  return emit_reshape(n, index, kept.rank, kept.dims);
}

/* As many of the data along the other dims as there are indices for. */
static MlirValue data_met(import_node *n, MlirValue data, MlirValue index, uint32_t axis) {
  wafer_shape shape = node_type(n, data).shape, want = node_type(n, index).shape;
  for (uint32_t d = 0; n->status == WAFER_OK && d < shape.rank; d++) {
    if (d == axis || want.dims[d] == shape.dims[d]) continue;
    if (want.dims[d] > shape.dims[d])
      node_bad(n, "dim %u has %lld indices, the operand %lld elements", d, (long long)want.dims[d],
               (long long)shape.dims[d]);
    data = emit_part(n, data, d, 0, want.dims[d]);
  }
  return data;
}

/* out[i][j] = data[i][index[i][j]] for axis 1: the dims before it are those of the indices, too,
 * and those behind it are rows, or come before it where their indices differ. */
MlirValue emit_gather_elements(import_node *n, MlirValue data, MlirValue index, uint32_t axis) {
  uint32_t rank = node_rank(n, data), last = rank - 1;
  if (n->status == WAFER_OK && node_rank(n, index) != rank)
    node_bad(n, "the indices have %u dims, the operand %u", node_rank(n, index), rank);
  data = n->status == WAFER_OK ? data_met(n, data, index, axis) : none;
  if (n->status != WAFER_OK) return none;
  bool rows = true, alike = true;
  for (uint32_t d = axis + 1; d < rank; d++) rows &= repeats(n, index, d);
  if (!rows) {
    int64_t perm[WAFER_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) perm[d] = d < axis || d == last ? d : d + 1;
    perm[last] = axis;
    MlirValue found = emit_gather_elements(n, emit_transpose(n, data, rank, perm),
                                           emit_transpose(n, index, rank, perm), last);
    for (uint32_t d = 0; d < rank; d++) perm[d] = d < axis ? d : d - 1;
    perm[axis] = last;
    return emit_transpose(n, found, rank, perm);
  }
  for (uint32_t d = 0; d < axis; d++) alike &= repeats(n, index, d);
  index = first_of(n, index, axis + 1, rank);
  if (alike) return emit_gather(n, data, first_of(n, index, 0, axis), axis);
  return emit_gather_batched(n, data, index, axis);
}

void import_gather_elements(import_node *n) {
  MlirValue data = node_input(n, 0);
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), node_rank(n, data));
  n->outputs[0] = emit_gather_elements(n, data, node_input(n, 1), axis);
}

/* The number of the row that each tuple of the indices' last dim names, of those behind the first
 * `batch` dims. */
static MlirValue row_numbers(import_node *n, const wafer_shape *data, uint32_t batch) {
  wafer_shape shape = node_type(n, node_input(n, 1)).shape;
  uint32_t last = shape.rank - 1;
  int64_t tuple = shape.dims[last];
  wafer_shape kept = {.rank = last};
  memcpy(kept.dims, shape.dims, sizeof shape.dims);
  MlirValue sum = none;
  for (int64_t i = 0; i < tuple; i++) {
    uint32_t d = batch + (uint32_t)i;
    MlirValue one = emit_part(n, node_input(n, 1), last, i, 1);
    one = from_start(n, emit_reshape(n, one, kept.rank, kept.dims), data->dims[d]);
    int64_t stride = 1;
    for (uint32_t k = d + 1; k < batch + (uint32_t)tuple; k++) stride *= data->dims[k];
    one = MUL(one, emit_scalar_like(n, one, (double)stride));
    sum = sum.ptr ? ADD(sum, one) : one;
  }
  return sum;
}

void import_gather_nd(import_node *n) {
  MlirValue data = node_input(n, 0);
  wafer_shape shape = node_type(n, data).shape, index = node_type(n, node_input(n, 1)).shape;
  int64_t batch = attr_int(n, "batch_dims", 0);
  if (n->status != WAFER_OK) return;
  bool fits = index.rank > 0 && batch >= 0 && batch < (int64_t)index.rank &&
              batch < (int64_t)shape.rank && index.dims[index.rank - 1] >= 1 &&
              index.dims[index.rank - 1] + batch <= (int64_t)shape.rank;
  if (!fits) {
    node_bad(n, "the indices do not fit an operand of %u dims", shape.rank);
    return;
  }
  uint32_t inner = (uint32_t)(index.dims[index.rank - 1] + batch), rank = index.rank - 1;
  if (rank + shape.rank - inner > WAFER_MAX_RANK) {
    node_unsupported(n, "a result of more than %d dims", WAFER_MAX_RANK);
    return;
  }
  uint32_t lead = (uint32_t)batch;
  wafer_shape table = {.rank = lead + 1};
  memcpy(table.dims, shape.dims, lead * sizeof *table.dims);
  table.dims[lead] = 1;
  for (uint32_t d = lead; d < inner; d++) table.dims[lead] *= shape.dims[d];
  for (uint32_t d = inner; d < shape.rank; d++) index.dims[rank++] = shape.dims[d];
  if (inner < shape.rank) table.dims[table.rank++] = elements_of(&shape, inner);
  MlirValue rows = emit_gather_batched(n, emit_reshape(n, data, table.rank, table.dims),
                                       row_numbers(n, &shape, lead), lead);
  n->outputs[0] = emit_reshape(n, rows, rank, index.dims);
}

/* ---- What is known to be set ---- */

/* Places of what is not 0 in a tensor that is known; how many. */
static int64_t *places_set(import_node *n, const wafer_view *known, int64_t *count) {
  int64_t all = elements_of(&known->shape, 0), *at = node_new_ints(n, all);
  bool floats = wafer_dtype_is_float(known->dtype);
  *count = 0;
  for (int64_t i = 0; at && i < all; i++)
    if (floats ? wafer_element_f64(known->dtype, known->data, i) != 0
               : wafer_element_i64(known->dtype, known->data, i) != 0)
      at[(*count)++] = i;
  return at;
}

/* A row of indices for each dim. */
void import_non_zero(import_node *n) {
  wafer_view x;
  int64_t count;
  if (!node_constant(n, 0, "X", &x)) return;
  int64_t *set = places_set(n, &x, &count);
  wafer_shape shape = {.rank = 2, .dims = {x.shape.rank ? x.shape.rank : 1, count}};
  int64_t *at = set ? node_new_ints(n, elements_of(&shape, 0)) : NULL;
  if (!at) return;
  for (int64_t i = 0; i < count; i++) {
    if (!x.shape.rank) at[i] = 0;
    for (uint32_t d = x.shape.rank; d-- > 0; set[i] /= x.shape.dims[d])
      at[d * count + i] = set[i] % x.shape.dims[d];
  }
  wafer_view places = wafer_view_of(WAFER_DTYPE_i64, &shape, at);
  n->outputs[0] = emit_constant(n, &places);
}

/* Entries along a dim, or of all elements in a row. */
void import_compress(import_node *n) {
  wafer_view condition;
  MlirValue x = node_input(n, 0);
  int64_t count, all;
  uint32_t axis = 0;
  if (!node_constant(n, 1, "condition", &condition)) return;
  wafer_shape shape = node_type(n, x).shape;
  all = elements_of(&shape, 0);
  if (attr_has(n, "axis"))
    axis = node_axis(n, attr_int(n, "axis", 0), shape.rank);
  else
    x = emit_reshape(n, x, 1, &all);
  int64_t *set = places_set(n, &condition, &count);
  if (n->status != WAFER_OK || !set) return;
  shape = node_type(n, x).shape;
  if (elements_of(&condition.shape, 0) > shape.dims[axis])
    node_bad(n, "the condition has %lld elements, the dim %lld",
             (long long)elements_of(&condition.shape, 0), (long long)shape.dims[axis]);
  wafer_view places = wafer_view_of(WAFER_DTYPE_i64, &(wafer_shape){1, {count}}, set);
  n->outputs[0] = emit_gather(n, x, emit_constant(n, &places), axis);
}

/* ---- Scattering to places that are computed, or that take more than one update ---- */

static bool scatters_now(import_node *n) {
  return strcmp(attr_text(n, "reduction", "none"), "none") != 0 ||
         (node_has_input(n, 1) && !wafer_ir_is_constant(node_input(n, 1)));
}

/* Rows of `rest` elements each (0: single elements), at the numbers in `index`. */
static void scatter_rows(import_node *n, const wafer_shape *shape, int64_t rest, MlirValue index) {
  wafer_shape places = node_type(n, index).shape;
  if (n->status != WAFER_OK) return;
  if (elements_of(shape, 0) == 0) {
    n->outputs[0] = node_input(n, 0);
    return;
  }
  int64_t count = elements_of(&places, 0), rows = elements_of(shape, 0) / (rest ? rest : 1);
  uint32_t rank = rest ? 2 : 1;
  MlirValue operands[] = {emit_reshape(n, node_input(n, 0), rank, (int64_t[]){rows, rest}),
                          emit_reshape(n, index, 1, &count),
                          emit_reshape(n, node_input(n, 2), rank, (int64_t[]){count, rest})};
  wafer_attr mode = TEXT_ATTR(mode, attr_text(n, "reduction", "none"));
  MlirValue y = emit_op(n, WAFER_OP_scatter, 3, operands, &mode, 1);
  n->outputs[0] = emit_reshape(n, y, shape->rank, shape->dims);
}

static void scatter_elements_now(import_node *n, const wafer_shape *shape, uint32_t axis) {
  MlirValue index = node_input(n, 1);
  wafer_shape want = node_type(n, index).shape, updates = node_type(n, node_input(n, 2)).shape;
  if (n->status == WAFER_OK &&
      (want.rank != shape->rank || !wafer_shape_equal(&want, &updates) || !want.rank))
    node_bad(n, "indices and updates differ in shape");
  for (uint32_t d = 0; n->status == WAFER_OK && d < want.rank; d++)
    if (d != axis && want.dims[d] > shape->dims[d])
      node_bad(n, "dim %u has %lld indices, the operand %lld elements", d, (long long)want.dims[d],
               (long long)shape->dims[d]);
  if (n->status == WAFER_OK && elements_of(&want, 0) > 1 << 24)
    node_unsupported(n, "more than 2^24 indices");
  if (n->status != WAFER_OK) return;
  index = from_start(n, index, shape->dims[axis]);
  index = MUL(index, emit_scalar_like(n, index, (double)elements_of(shape, axis + 1)));
  scatter_rows(n, shape, 0, ADD(index, places(n, shape, &want, axis)));
}

/* ---- Scattering to places that are known ---- */

/* Where each element of the result comes from: an element of the updates, or -1 for the operand's
 * own. The last one counts. */
typedef struct sources {
  int64_t count, updates;
  int64_t *from;
} sources;

static sources no_sources(import_node *n, const wafer_shape *data, const wafer_shape *updates) {
  sources s = {.count = elements_of(data, 0), .updates = elements_of(updates, 0)};
  if (s.count > 1 << 26) node_unsupported(n, "more than 2^26 elements");
  s.from = n->status == WAFER_OK ? node_new_ints(n, s.count) : NULL;
  for (int64_t i = 0; s.from && i < s.count; i++) s.from[i] = -1;
  return s;
}

static int64_t checked(import_node *n, int64_t index, int64_t extent) {
  int64_t at = index < 0 ? index + extent : index;
  if (at >= 0 && at < extent) return at;
  node_bad(n, "index %lld is outside of %lld elements", (long long)index, (long long)extent);
  return 0;
}

/* The result: looked up among the updates, or left as it is. */
static void scatter(import_node *n, const wafer_shape *shape, const sources *s) {
  if (n->status != WAFER_OK || !s->from) return;
  bool *taken = WAFER_NEW(n->im->ctx->arena, bool, (size_t)s->count + 1);
  if (!taken) {
    node_bad(n, "no memory for %lld places", (long long)s->count);
    return;
  }
  for (int64_t i = 0; i < s->count; i++) {
    taken[i] = s->from[i] >= 0;
    if (!taken[i]) s->from[i] = 0;
  }
  wafer_view from = wafer_view_of(WAFER_DTYPE_i64, shape, s->from);
  wafer_view mask = wafer_view_of(WAFER_DTYPE_bool, shape, taken);
  if (s->updates == 0) {
    n->outputs[0] = node_input(n, 0);
    return;
  }
  MlirValue all = emit_reshape(n, node_input(n, 2), 1, &s->updates);
  MlirValue found = emit_rows(n, all, emit_constant(n, &from));
  n->outputs[0] = emit_select(n, emit_constant(n, &mask), found, node_input(n, 0));
}

void import_scatter_elements(import_node *n) {
  wafer_shape shape = node_type(n, node_input(n, 0)).shape,
              updates = node_type(n, node_input(n, 2)).shape;
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), shape.rank);
  wafer_view index;
  if (n->status == WAFER_OK && scatters_now(n)) {
    scatter_elements_now(n, &shape, axis);
    return;
  }
  if (!node_constant(n, 1, "indices", &index)) return;
  if (!wafer_shape_equal(&index.shape, &updates) || updates.rank != shape.rank)
    node_bad(n, "indices and updates differ in shape");
  sources s = no_sources(n, &shape, &updates);
  for (int64_t i = 0; i < s.updates && n->status == WAFER_OK; i++) {
    int64_t rest = i, stride = 1, place = 0;
    for (uint32_t d = shape.rank; d-- > 0; stride *= shape.dims[d], rest /= updates.dims[d]) {
      int64_t at =
          d == axis ? wafer_element_i64(index.dtype, index.data, i) : rest % updates.dims[d];
      place += checked(n, at, shape.dims[d]) * stride;
    }
    if (n->status == WAFER_OK) s.from[place] = i;
  }
  scatter(n, &shape, &s);
}

void import_scatter_nd(import_node *n) {
  wafer_shape shape = node_type(n, node_input(n, 0)).shape,
              updates = node_type(n, node_input(n, 2)).shape;
  wafer_view index = {.shape = node_type(n, node_input(n, 1)).shape};
  int64_t tuple = index.shape.rank ? index.shape.dims[index.shape.rank - 1] : 0;
  if (tuple < 1 || tuple > (int64_t)shape.rank) {
    node_bad(n, "the indices do not fit an operand of %u dims", shape.rank);
    return;
  }
  if (n->status == WAFER_OK && scatters_now(n)) {
    int64_t row = elements_of(&shape, (uint32_t)tuple);
    if (elements_of(&updates, 0) != elements_of(&index.shape, 0) / tuple * row)
      node_bad(n, "the updates do not fit the indices");
    scatter_rows(n, &shape, row, row_numbers(n, &shape, 0));
    return;
  }
  if (!node_constant(n, 1, "indices", &index)) return;
  int64_t rest = elements_of(&shape, (uint32_t)tuple), rows = elements_of(&index.shape, 0) / tuple;
  if (elements_of(&updates, 0) != rows * rest) node_bad(n, "the updates do not fit the indices");
  sources s = no_sources(n, &shape, &updates);
  for (int64_t r = 0; r < rows && n->status == WAFER_OK; r++) {
    int64_t place = 0;
    for (int64_t d = 0; d < tuple; d++)
      place = place * shape.dims[d] +
              checked(n, wafer_element_i64(index.dtype, index.data, r * tuple + d), shape.dims[d]);
    for (int64_t e = 0; e < rest && n->status == WAFER_OK; e++)
      s.from[place * rest + e] = r * rest + e;
  }
  scatter(n, &shape, &s);
}

/* ---- Running sums and products ---- */

/* x moved by `by` places along an axis, towards its end or its begin; `fill` comes in. */
static MlirValue moved(import_node *n, MlirValue x, uint32_t axis, int64_t by, bool back,
                       double fill) {
  wafer_shape shape = node_type(n, x).shape;
  int64_t pads[2 * WAFER_MAX_RANK] = {0};
  pads[axis + (back ? shape.rank : 0)] = by;
  MlirValue part = emit_part(n, x, axis, back ? by : 0, shape.dims[axis] - by);
  return emit_padded(n, part, pads, fill);
}

/* CumSum, CumProd: of 1, 2, 4, ... neighbours. */
void import_cumulative(import_node *n) {
  MlirValue sum = node_input(n, 0);
  wafer_shape shape = node_type(n, sum).shape;
  int_list given = node_ints(n, 1, "axis");
  bool back = attr_int(n, "reverse", 0) != 0;
  double neutral = n->op->op == WAFER_OP_mul;
  if (n->status == WAFER_OK && given.count != 1) node_bad(n, "axis must be one number");
  if (n->status != WAFER_OK) return;
  uint32_t axis = node_axis(n, given.at[0], shape.rank);
  int64_t extent = n->status == WAFER_OK ? shape.dims[axis] : 0;
  if (attr_int(n, "exclusive", 0) && extent > 0) sum = moved(n, sum, axis, 1, back, neutral);
  for (int64_t by = 1; by < extent; by *= 2)
    sum = emit_binary(n, n->op->op, sum, moved(n, sum, axis, by, back, neutral));
  n->outputs[0] = sum;
}
