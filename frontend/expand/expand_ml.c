/* Operators of ai.onnx.ml over numbers. */
#include <math.h>
#include <string.h>

#include "operators.h"

static const MlirValue none;

/* Columns of the last dim. */
void import_array_feature_extractor(import_node *n) {
  MlirValue x = node_input(n, 0), index = node_input(n, 1);
  wafer_shape s = node_type(n, x).shape, i = node_type(n, index).shape;
  int64_t count = 1;
  if (n->status == WAFER_OK && s.rank == 0) node_bad(n, "the operand is a scalar");
  if (n->status != WAFER_OK || !wafer_shape_elements(&i, &count)) return;
  index = emit_reshape(n, index, 1, &count);
  MlirValue y = emit_gather(n, x, index, s.rank - 1);
  n->outputs[0] = s.rank == 1 ? emit_reshape(n, y, 2, (int64_t[]){1, count}) : y;
}

void import_binarizer(import_node *n) {
  MlirValue x = node_input(n, 0);
  MlirValue limit = emit_scalar_like(n, x, attr_float(n, "threshold", 0));
  n->outputs[0] = emit_cast(n, emit_binary(n, WAFER_OP_less, limit, x), node_dtype(n, x));
}

/* ---- TreeEnsemble ---- */

/* A walk of all trees at once: where each sample stands in each tree. Interior nodes are places 0
 * .. nodes - 1, leaves come behind them and lead to themselves. */
typedef struct forest {
  int64_t nodes, leaves, trees, depth;
  int_list features, yes, no, yes_leaf, no_leaf, roots, targets, missing;
  wafer_view splits, modes, weights, members;
} forest;

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER };

static wafer_view attr_tensor(import_node *n, const char *name, int64_t count) {
  const onnx_attribute *a = attr_find(n, name);
  wafer_view view = {0};
  int64_t have = 0;
  if (!a || !a->t) {
    if (count >= 0) node_bad(n, "attribute %s is missing", name);
    return view;
  }
  if (n->status == WAFER_OK) n->status = data_view(&n->im->store, a->t, &view);
  if (n->status == WAFER_OK && count >= 0 &&
      (!wafer_shape_elements(&view.shape, &have) || have != count))
    node_bad(n, "attribute %s has %lld entries, needs %lld", name, (long long)have,
             (long long)count);
  return view;
}

static int_list attr_column(import_node *n, const char *name, int64_t count, int64_t most) {
  int_list list = attr_ints(n, name);
  if (n->status == WAFER_OK && list.count != count)
    node_bad(n, "attribute %s has %u entries, needs %lld", name, list.count, (long long)count);
  for (uint32_t i = 0; n->status == WAFER_OK && i < list.count; i++)
    if (list.at[i] < 0 || list.at[i] >= most)
      node_bad(n, "%s[%u] is %lld, must be 0 to %lld", name, i, (long long)list.at[i],
               (long long)most - 1);
  return list;
}

static int64_t child(const forest *f, int64_t node, bool yes) {
  if (node >= f->nodes) return node;
  int64_t id = yes ? f->yes.at[node] : f->no.at[node];
  bool leaf = yes ? f->yes_leaf.at[node] : f->no_leaf.at[node];
  return leaf ? f->nodes + id : id;
}

static void check_children(import_node *n, const forest *f) {
  for (int64_t i = 0; i < f->nodes && n->status == WAFER_OK; i++)
    for (int yes = 0; yes < 2; yes++) {
      int64_t to = child(f, i, yes);
      if (to < 0 || to >= f->nodes + f->leaves || (to < f->nodes && to == i))
        node_bad(n, "node %lld leads to %lld, which is not there", (long long)i, (long long)to);
    }
}

/* The longest way from a root to a leaf; more steps than nodes: a cycle. */
static int64_t depth_of(import_node *n, const forest *f) {
  size_t places = (size_t)(f->nodes + f->leaves);
  bool *now = WAFER_NEW(n->im->ctx->arena, bool, places + 1);
  bool *next = WAFER_NEW(n->im->ctx->arena, bool, places + 1);
  int64_t depth = 0;
  bool more = now && next;
  if (!more) node_bad(n, "no memory for %zu nodes", places);
  for (uint32_t i = 0; more && i < f->roots.count; i++) now[f->roots.at[i]] = true;
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

static forest forest_of(import_node *n, int64_t features) {
  forest f = {.nodes = attr_ints(n, "nodes_featureids").count,
              .leaves = attr_ints(n, "leaf_targetids").count,
              .trees = attr_ints(n, "tree_roots").count};
  int64_t targets = attr_int(n, "n_targets", 1);
  f.features = attr_column(n, "nodes_featureids", f.nodes, features);
  f.yes = attr_column(n, "nodes_truenodeids", f.nodes, INT32_MAX);
  f.no = attr_column(n, "nodes_falsenodeids", f.nodes, INT32_MAX);
  f.yes_leaf = attr_column(n, "nodes_trueleafs", f.nodes, 2);
  f.no_leaf = attr_column(n, "nodes_falseleafs", f.nodes, 2);
  f.roots = attr_column(n, "tree_roots", f.trees, f.nodes);
  f.targets = attr_column(n, "leaf_targetids", f.leaves, targets);
  f.splits = attr_tensor(n, "nodes_splits", f.nodes);
  f.modes = attr_tensor(n, "nodes_modes", f.nodes);
  f.weights = attr_tensor(n, "leaf_weights", f.leaves);
  f.members = attr_tensor(n, "membership_values", -1);
  if (attr_has(n, "nodes_missing_value_tracks_true"))
    f.missing = attr_column(n, "nodes_missing_value_tracks_true", f.nodes, 2);
  if (f.nodes < 1 || f.leaves < 1 || f.trees < 1) node_bad(n, "there are no trees");
  check_children(n, &f);
  f.depth = n->status == WAFER_OK ? depth_of(n, &f) : 0;
  return f;
}

typedef int64_t place_fn(const forest *f, int64_t place);

static int64_t feature_at(const forest *f, int64_t p) {
  return p < f->nodes ? f->features.at[p] : 0;
}
static int64_t mode_at(const forest *f, int64_t p) {
  return p < f->nodes ? wafer_element_i64(f->modes.dtype, f->modes.data, p) : LEQ;
}
static int64_t yes_at(const forest *f, int64_t p) {
  return child(f, p, true);
}
static int64_t no_at(const forest *f, int64_t p) {
  return child(f, p, false);
}
static int64_t missing_at(const forest *f, int64_t p) {
  return p < f->nodes && f->missing.count ? f->missing.at[p] : 0;
}
static int64_t target_at(const forest *f, int64_t p) {
  return p < f->nodes ? 0 : f->targets.at[p - f->nodes];
}

/* What a function tells of every place, looked up at `at`. */
static MlirValue place_column(import_node *n, const forest *f, place_fn *tell, MlirValue at) {
  int64_t count = f->nodes + f->leaves;
  wafer_view view = node_new_tensor(n, WAFER_DTYPE_i64, 1, &count);
  for (int64_t i = 0; view.data && i < count; i++) ((int64_t *)view.data)[i] = tell(f, i);
  return view.data ? emit_rows(n, emit_constant(n, &view), at) : none;
}

/* Splits of nodes, or weights of leaves. */
static MlirValue real_column(import_node *n, const forest *f, wafer_dtype dtype, bool leaves,
                             MlirValue at) {
  int64_t count = f->nodes + f->leaves;
  const wafer_view *from = leaves ? &f->weights : &f->splits;
  wafer_view view = node_new_tensor(n, dtype, 1, &count);
  for (int64_t i = 0; view.data && i < count; i++) {
    bool inside = leaves == (i >= f->nodes);
    int64_t k = leaves ? i - f->nodes : i;
    wafer_element_set_f64(dtype, view.data, i,
                          inside ? wafer_element_f64(from->dtype, from->data, k) : 0);
  }
  return view.data ? emit_rows(n, emit_constant(n, &view), at) : none;
}

/* Sets, one for each node of mode MEMBER, as rows of equal length (filled up with their first). */
static MlirValue member_rows(import_node *n, const forest *f, wafer_dtype dtype, MlirValue at) {
  int64_t total = 0, most = 1, run = 0, next = 0, places = f->nodes + f->leaves;
  if (f->members.data) wafer_shape_elements(&f->members.shape, &total);
  for (int64_t i = 0; i < total; i++) {
    run = isnan(wafer_element_f64(f->members.dtype, f->members.data, i)) ? 0 : run + 1;
    most = run > most ? run : most;
  }
  wafer_view view = node_new_tensor(n, dtype, 2, (int64_t[]){places, most});
  for (int64_t p = 0; view.data && p < places; p++) {
    bool open = mode_at(f, p) == MEMBER, any = false;
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
  MlirValue split = real_column(n, f, dtype, false, at), mode = place_column(n, f, mode_at, at);
  MlirValue result = emit_binary(n, WAFER_OP_less_equal, value, split);
  const MlirValue tests[] = {
      [LT] = emit_binary(n, WAFER_OP_less, value, split),
      [GTE] = emit_binary(n, WAFER_OP_less_equal, split, value),
      [GT] = emit_binary(n, WAFER_OP_less, split, value),
      [EQ] = emit_binary(n, WAFER_OP_equal, value, split),
      [NEQ] = emit_unary(n, WAFER_OP_not, emit_binary(n, WAFER_OP_equal, value, split))};
  for (int64_t m = LT; m <= NEQ; m++)
    if (has_mode(f, m))
      result =
          emit_select(n, emit_binary(n, WAFER_OP_equal, mode, emit_scalar_like(n, mode, (double)m)),
                      tests[m], result);
  if (has_mode(f, MEMBER)) {
    MlirValue wide = emit_reshape(n, value, 3, (int64_t[]){s.dims[0], s.dims[1], 1});
    MlirValue hit = emit_binary(n, WAFER_OP_equal, wide, member_rows(n, f, dtype, at));
    hit = emit_reduce(n, WAFER_OP_reduce_max, emit_cast(n, hit, WAFER_DTYPE_u8), 1u << 2, false);
    MlirValue is = emit_binary(n, WAFER_OP_equal, mode, emit_scalar_like(n, mode, MEMBER));
    result = emit_select(n, is, emit_cast(n, hit, WAFER_DTYPE_bool), result);
  }
  if (!f->missing.count) return result;
  MlirValue through = emit_cast(n, place_column(n, f, missing_at, at), WAFER_DTYPE_bool);
  through = emit_binary(n, WAFER_OP_and, through, emit_unary(n, WAFER_OP_isnan, value));
  return emit_binary(n, WAFER_OP_or, result, through);
}

/* (samples, trees) to (samples, targets): a leaf counts for its target. */
static MlirValue aggregated(import_node *n, const forest *f, MlirValue weight, MlirValue at) {
  int64_t how = attr_int(n, "aggregate_function", 1), targets = attr_int(n, "n_targets", 1);
  wafer_shape s = node_type(n, weight).shape;
  MlirValue target = place_column(n, f, target_at, at);
  int64_t wide[] = {s.dims[0], f->trees, 1};
  MlirValue own = emit_binary(n, WAFER_OP_equal, emit_reshape(n, target, 3, wide),
                              emit_iota(n, WAFER_DTYPE_i64, targets));
  double least, most;
  wafer_dtype_range(node_dtype(n, weight), &least, &most);
  double other = how == 2 ? most : how == 3 ? least : 0;
  MlirValue all =
      emit_select(n, own, emit_reshape(n, weight, 3, wide), emit_scalar_like(n, weight, other));
  wafer_op op = how == 2   ? WAFER_OP_reduce_min
                : how == 3 ? WAFER_OP_reduce_max
                           : WAFER_OP_reduce_sum;
  if (how < 0 || how > 3) node_bad(n, "aggregate_function is %lld", (long long)how);
  MlirValue y = emit_reduce(n, op, all, 1u << 1, false);
  return how == 0 ? DIV(y, emit_scalar_like(n, y, (double)f->trees)) : y;
}

static MlirValue post_transformed(import_node *n, MlirValue y) {
  int64_t post = attr_int(n, "post_transform", 0);
  if (post == 0) return y;
  if (post == 1) return emit_softmax(n, y, 1);
  if (post == 2) return emit_unary(n, WAFER_OP_sigmoid, y);
  node_problem(n, WAFER_PROBLEM_attribute, "post_transform %lld", (long long)post);
  return none;
}

void import_tree_ensemble(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  if (n->status == WAFER_OK && s.rank != 2) node_bad(n, "the operand has %u dims, needs 2", s.rank);
  forest f = forest_of(n, s.rank == 2 ? s.dims[1] : 0);
  if (n->status != WAFER_OK) return;
  MlirValue at = emit_constant_i64(n, 1, f.trees, f.roots.at);
  at = emit_expand(n, at, 2, (int64_t[]){s.dims[0], f.trees});
  for (int64_t step = 0; step < f.depth && n->status == WAFER_OK; step++) {
    MlirValue value = emit_gather_elements(n, x, place_column(n, &f, feature_at, at), 1);
    at = emit_select(n, passes(n, &f, value, at), place_column(n, &f, yes_at, at),
                     place_column(n, &f, no_at, at));
  }
  MlirValue weight = real_column(n, &f, node_dtype(n, x), true, at);
  n->outputs[0] = post_transformed(n, aggregated(n, &f, weight, at));
}
