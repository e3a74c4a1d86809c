/* A walk of all trees at once: where each sample stands in each tree. Leaves lead to themselves. */
#include <math.h>
#include <string.h>

#include "forest.h"

static const MlirValue none;

static int64_t child(const forest *f, int64_t place, bool yes) {
  if (place >= f->nodes) return place;
  return yes ? f->yes[place] : f->no[place];
}

static void check_places(import_node *n, const forest *f, int64_t features) {
  if (f->leaves < 1 || f->trees < 1) node_bad(n, "there are no trees");
  for (int64_t i = 0; i < f->nodes && n->status == WAFER_OK; i++) {
    if (f->features[i] < 0 || f->features[i] >= features)
      node_bad(n, "node %lld asks for feature %lld of %lld", (long long)i,
               (long long)f->features[i], (long long)features);
    for (int yes = 0; yes < 2; yes++) {
      int64_t to = child(f, i, yes);
      if (to < 0 || to >= f->nodes + f->leaves || to == i)
        node_bad(n, "node %lld leads to %lld, which is not there", (long long)i, (long long)to);
    }
  }
}

/* The longest way from a root to a leaf; more steps than nodes: a cycle. */
static int64_t depth_of(import_node *n, const forest *f) {
  size_t places = (size_t)(f->nodes + f->leaves);
  bool *now = WAFER_NEW(n->im->ctx->arena, bool, places);
  bool *next = WAFER_NEW(n->im->ctx->arena, bool, places);
  int64_t depth = 0;
  bool more = now && next;
  if (!more) n->status = import_no_memory(n->im);
  for (int64_t i = 0; more && i < f->trees; i++) now[f->roots[i]] = true;
  while (more && depth <= f->nodes) {
    more = false;
    memset(next, 0, places);
    for (int64_t i = 0; i < f->nodes; i++)
      if (now[i]) next[child(f, i, true)] = next[child(f, i, false)] = more = true;
    memcpy(now, next, places);
    depth += more;
  }
  if (depth > f->nodes) node_bad(n, "the trees have a cycle");
  return depth;
}

typedef int64_t place_fn(const forest *f, int64_t place);

static int64_t feature_at(const forest *f, int64_t p) {
  return p < f->nodes ? f->features[p] : 0;
}
static int64_t mode_at(const forest *f, int64_t p) {
  return p < f->nodes ? f->modes[p] : FOREST_LEQ;
}
static int64_t yes_at(const forest *f, int64_t p) {
  return child(f, p, true);
}
static int64_t no_at(const forest *f, int64_t p) {
  return child(f, p, false);
}
static int64_t missing_at(const forest *f, int64_t p) {
  return p < f->nodes && f->missing[p];
}

/* What a function tells of every place, looked up at `at`. */
static MlirValue place_column(import_node *n, const forest *f, place_fn *tell, MlirValue at) {
  int64_t count = f->nodes + f->leaves;
  wafer_view view = node_new_tensor(n, WAFER_DTYPE_i64, 1, &count);
  for (int64_t i = 0; view.data && i < count; i++) ((int64_t *)view.data)[i] = tell(f, i);
  return view.data ? emit_rows(n, emit_constant(n, &view), at) : none;
}

static MlirValue split_column(import_node *n, const forest *f, wafer_dtype dtype, MlirValue at) {
  int64_t count = f->nodes + f->leaves;
  wafer_view view = node_new_tensor(n, dtype, 1, &count);
  for (int64_t i = 0; view.data && i < f->nodes; i++)
    wafer_element_set_f64(dtype, view.data, i, f->splits[i]);
  return view.data ? emit_rows(n, emit_constant(n, &view), at) : none;
}

/* Sets, one for each node that asks for one, as rows of equal length (filled up with their first).
 */
static MlirValue member_rows(import_node *n, const forest *f, wafer_dtype dtype, MlirValue at) {
  int64_t total = 0, most = 1, run = 0, next = 0, places = f->nodes + f->leaves;
  if (f->members.data) wafer_shape_elements(&f->members.shape, &total);
  for (int64_t i = 0; i < total; i++) {
    run = isnan(wafer_element_f64(f->members.dtype, f->members.data, i)) ? 0 : run + 1;
    most = run > most ? run : most;
  }
  wafer_view view = node_new_tensor(n, dtype, 2, (int64_t[]){places, most});
  for (int64_t p = 0; view.data && p < places; p++) {
    bool open = mode_at(f, p) == FOREST_MEMBER, any = false;
    for (int64_t k = 0; k < most; k++) {
      double value = NAN;
      if (open && next < total)
        value = wafer_element_f64(f->members.dtype, f->members.data, next++);
      if (open && isnan(value)) open = false;
      if (isnan(value) && any) value = wafer_element_f64(dtype, view.data, p * most);
      any |= !isnan(value);
      wafer_element_set_f64(dtype, view.data, p * most + k, value);
    }
    if (open && next < total) next++; /* the NaN behind the longest set */
  }
  return view.data ? emit_rows(n, emit_constant(n, &view), at) : none;
}

static bool has_mode(const forest *f, int64_t mode) {
  for (int64_t i = 0; i < f->nodes; i++)
    if (mode_at(f, i) == mode) return true;
  return false;
}

/* Whether each sample's feature passes the test of the node where it stands. */
static MlirValue passes(import_node *n, const forest *f, MlirValue value, MlirValue at) {
  wafer_dtype dtype = node_dtype(n, value);
  wafer_shape s = node_type(n, value).shape;
  MlirValue split = split_column(n, f, dtype, at), mode = place_column(n, f, mode_at, at);
  MlirValue result = emit_binary(n, WAFER_OP_less_equal, value, split);
  const MlirValue tests[] = {
      [FOREST_LT] = emit_binary(n, WAFER_OP_less, value, split),
      [FOREST_GTE] = emit_binary(n, WAFER_OP_less_equal, split, value),
      [FOREST_GT] = emit_binary(n, WAFER_OP_less, split, value),
      [FOREST_EQ] = emit_binary(n, WAFER_OP_equal, value, split),
      [FOREST_NEQ] = emit_unary(n, WAFER_OP_not, emit_binary(n, WAFER_OP_equal, value, split))};
  for (int64_t m = FOREST_LT; m <= FOREST_NEQ; m++)
    if (has_mode(f, m))
      result =
          emit_select(n, emit_binary(n, WAFER_OP_equal, mode, emit_scalar_like(n, mode, (double)m)),
                      tests[m], result);
  if (has_mode(f, FOREST_MEMBER)) {
    MlirValue wide = emit_reshape(n, value, 3, (int64_t[]){s.dims[0], s.dims[1], 1});
    MlirValue hit = emit_binary(n, WAFER_OP_equal, wide, member_rows(n, f, dtype, at));
    hit = emit_reduce(n, WAFER_OP_reduce_max, emit_cast(n, hit, WAFER_DTYPE_u8), 1u << 2, false);
    MlirValue is = emit_binary(n, WAFER_OP_equal, mode, emit_scalar_like(n, mode, FOREST_MEMBER));
    result = emit_select(n, is, emit_cast(n, hit, WAFER_DTYPE_bool), result);
  }
  if (!f->missing) return result;
  MlirValue through = emit_cast(n, place_column(n, f, missing_at, at), WAFER_DTYPE_bool);
  through = emit_binary(n, WAFER_OP_and, through, emit_unary(n, WAFER_OP_isnan, value));
  return emit_binary(n, WAFER_OP_or, result, through);
}

/* (samples, trees) of places to (samples, targets). */
static MlirValue aggregated(import_node *n, const forest *f, wafer_dtype dtype, forest_sum how,
                            MlirValue at) {
  static const wafer_op ops[] = {WAFER_OP_reduce_sum, WAFER_OP_reduce_sum, WAFER_OP_reduce_min,
                                 WAFER_OP_reduce_max};
  double least, most;
  wafer_dtype_range(dtype, &least, &most);
  double nothing = how == FOREST_MIN ? most : how == FOREST_MAX ? least : 0;
  int64_t places = f->nodes + f->leaves, first = f->nodes * f->targets;
  wafer_view view = node_new_tensor(n, dtype, 2, (int64_t[]){places, f->targets});
  for (int64_t i = 0; view.data && i < f->leaves * f->targets; i++)
    wafer_element_set_f64(dtype, view.data, first + i,
                          isnan(f->weights[i]) ? nothing : f->weights[i]);
  if (!view.data) return none;
  MlirValue y = emit_reduce(n, ops[how], emit_rows(n, emit_constant(n, &view), at), 1u << 1, false);
  return how == FOREST_AVERAGE ? DIV(y, emit_scalar_like(n, y, (double)f->trees)) : y;
}

MlirValue emit_forest(import_node *n, const forest *f, MlirValue x, forest_sum how) {
  wafer_shape s = node_type(n, x).shape;
  if (n->status == WAFER_OK && s.rank != 2) node_bad(n, "the operand has %u dims, needs 2", s.rank);
  check_places(n, f, s.dims[1]);
  int64_t depth = n->status == WAFER_OK ? depth_of(n, f) : 0;
  if (n->status != WAFER_OK) return none;
  MlirValue at = emit_constant_i64(n, 1, f->trees, f->roots);
  at = emit_expand(n, at, 2, (int64_t[]){s.dims[0], f->trees});
  for (int64_t step = 0; step < depth && n->status == WAFER_OK; step++) {
    MlirValue value = emit_gather_elements(n, x, place_column(n, f, feature_at, at), 1);
    at = emit_select(n, passes(n, f, value, at), place_column(n, f, yes_at, at),
                     place_column(n, f, no_at, at));
  }
  return aggregated(n, f, node_dtype(n, x), how, at);
}
