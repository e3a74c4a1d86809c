/* The trees of ai.onnx.ml: TreeEnsemble, which lists interior nodes and leaves apart, and before it
 * TreeEnsembleRegressor and TreeEnsembleClassifier, which name nodes by a tree and a number in it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forest.h"
#include "operators.h"

static double *new_doubles(import_node *n, int64_t count) {
  double *list = WAFER_NEW(n->im->ctx->arena, double, (size_t)count);
  if (!list) n->status = import_no_memory(n->im);
  return list;
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

/* `count` numbers of an attribute: a tensor, or a list. */
static const double *attr_reals(import_node *n, const char *name, int64_t count) {
  const onnx_attribute *a = attr_find(n, name);
  float_list list = {0};
  wafer_view view = {0};
  int64_t have = 0;
  if (!a || !a->t) {
    list = attr_floats(n, name);
    have = list.count;
  } else if (n->status == WAFER_OK) {
    n->status = data_view(&n->im->store, a->t, &view);
    if (n->status == WAFER_OK) wafer_shape_elements(&view.shape, &have);
  }
  if (n->status == WAFER_OK && have != count)
    node_bad(n, "attribute %s has %lld entries, needs %lld", name, (long long)have,
             (long long)count);
  if (n->status != WAFER_OK || !view.data) return list.at;
  double *wide = new_doubles(n, count);
  for (int64_t i = 0; wide && i < count; i++) wide[i] = wafer_element_f64(view.dtype, view.data, i);
  return wide;
}

#define MOST_WEIGHTS (1 << 28) /* a number of each leaf for each target */

/* Leaves that say nothing yet. */
static double *new_weights(import_node *n, const forest *f) {
  int64_t count = f->leaves * f->targets;
  if (count > MOST_WEIGHTS)
    node_bad(n, "%lld leaves say something of %lld targets, at most %d can be said in all",
             (long long)f->leaves, (long long)f->targets, MOST_WEIGHTS);
  double *weights = n->status == WAFER_OK ? new_doubles(n, count) : NULL;
  for (int64_t i = 0; weights && i < count; i++) weights[i] = NAN;
  return weights;
}

/* ---- TreeEnsemble ---- */

/* Where nodes lead to, as places. */
static const int64_t *children(import_node *n, const char *ids, const char *leaves, int64_t nodes) {
  int_list id = attr_column(n, ids, nodes, INT32_MAX), leaf = attr_column(n, leaves, nodes, 2);
  int64_t *to = node_new_ints(n, nodes);
  for (int64_t i = 0; n->status == WAFER_OK && i < nodes; i++)
    to[i] = leaf.at[i] ? nodes + id.at[i] : id.at[i];
  return to;
}

static forest forest_of_ensemble(import_node *n, int64_t targets) {
  forest f = {.nodes = attr_ints(n, "nodes_featureids").count,
              .leaves = attr_ints(n, "leaf_targetids").count,
              .trees = attr_ints(n, "tree_roots").count,
              .targets = targets};
  f.features = attr_column(n, "nodes_featureids", f.nodes, INT32_MAX).at;
  f.yes = children(n, "nodes_truenodeids", "nodes_trueleafs", f.nodes);
  f.no = children(n, "nodes_falsenodeids", "nodes_falseleafs", f.nodes);
  f.roots = attr_column(n, "tree_roots", f.trees, f.nodes).at;
  f.splits = attr_reals(n, "nodes_splits", f.nodes);
  const double *modes = attr_reals(n, "nodes_modes", f.nodes);
  const double *weights = attr_reals(n, "leaf_weights", f.leaves);
  int_list target = attr_column(n, "leaf_targetids", f.leaves, f.targets);
  if (attr_has(n, "nodes_missing_value_tracks_true"))
    f.missing = attr_column(n, "nodes_missing_value_tracks_true", f.nodes, 2).at;
  const onnx_attribute *members = attr_find(n, "membership_values");
  if (n->status == WAFER_OK && members && members->t)
    n->status = data_view(&n->im->store, members->t, &f.members);
  int64_t *mode = node_new_ints(n, f.nodes);
  double *weight = new_weights(n, &f);
  for (int64_t i = 0; n->status == WAFER_OK && i < f.nodes; i++) mode[i] = (int64_t)modes[i];
  for (int64_t i = 0; n->status == WAFER_OK && i < f.leaves; i++)
    weight[i * targets + target.at[i]] = weights[i];
  f.modes = mode;
  f.weights = weight;
  return f;
}

void import_tree_ensemble(import_node *n) {
  int64_t targets = attr_int(n, "n_targets", 1), post = attr_int(n, "post_transform", 0);
  int64_t how = attr_int(n, "aggregate_function", FOREST_SUM);
  if (targets < 1 || targets > INT32_MAX) node_bad(n, "n_targets is %lld", (long long)targets);
  if (how < FOREST_AVERAGE || how > FOREST_MAX)
    node_bad(n, "aggregate_function is %lld", (long long)how);
  if (n->status != WAFER_OK) return;
  forest f = forest_of_ensemble(n, targets);
  MlirValue y = emit_forest(n, &f, node_input(n, 0), (forest_sum)how);
  if (post == 1) y = emit_softmax(n, y, 1);
  if (post == 2) y = emit_unary(n, WAFER_OP_sigmoid, y);
  if (post < 0 || post > 2)
    node_problem(n, WAFER_PROBLEM_attribute, "post_transform %lld", (long long)post);
  n->outputs[0] = y;
}

/* ---- Nodes by tree and number ---- */

/* The attributes of what leaves say. */
typedef struct leaf_names {
  const char *trees, *nodes, *ids, *weights, *weight_tensor;
} leaf_names;

typedef struct named_node {
  int64_t tree, number, place;
} named_node;

static int compare_named(const void *a, const void *b) {
  const named_node *x = a, *y = b;
  if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

typedef struct named_nodes {
  uint32_t count;
  named_node *at;
} named_nodes;

/* The place of a node; below 0: the node has failed. */
static int64_t place_of(import_node *n, const named_nodes *all, int64_t tree, int64_t number) {
  const named_node key = {.tree = tree, .number = number};
  const named_node *found = bsearch(&key, all->at, all->count, sizeof key, compare_named);
  if (!found) node_bad(n, "tree %lld has no node %lld", (long long)tree, (long long)number);
  return found ? found->place : -1;
}

/* A node's mode; FOREST_MODES: a leaf, and below 0 the node has failed. */
enum { FOREST_MODES = FOREST_NEQ + 1 };
static int64_t mode_of(import_node *n, wire_bytes text) {
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                      "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
  for (int64_t i = 0; i <= FOREST_MODES; i++)
    if (text.count == strlen(names[i]) && !memcmp(text.at, names[i], text.count)) return i;
  node_bad(n, "a node's mode is '%.*s'", (int)text.count, (const char *)text.at);
  return -1;
}

/* Modes of all nodes, in the order in which they are listed, and how many are no leaves. */
static int64_t *read_modes(import_node *n, uint32_t count, int64_t *interior) {
  const onnx_attribute *a = attr_find(n, "nodes_modes");
  int64_t *modes = node_new_ints(n, count);
  if (!a || a->strings.count != count) node_bad(n, "nodes_modes must be %u strings", count);
  for (uint32_t i = 0; n->status == WAFER_OK && i < count; i++) {
    modes[i] = mode_of(n, a->strings.at[i]);
    *interior += modes[i] != FOREST_MODES;
  }
  return modes;
}

static const char *either(import_node *n, const char *name, const char *tensor) {
  return attr_has(n, tensor) ? tensor : name;
}

/* What leaves say, entry by entry; what is said of other nodes does not count. */
static void read_leaves(import_node *n, const leaf_names *names, const named_nodes *all,
                        forest *f) {
  int_list nodes = attr_ints(n, names->nodes);
  int_list trees = attr_column(n, names->trees, nodes.count, INT64_MAX);
  int_list ids = attr_column(n, names->ids, nodes.count, f->targets);
  const double *said = attr_reals(n, either(n, names->weights, names->weight_tensor), nodes.count);
  double *weights = new_weights(n, f);
  for (uint32_t i = 0; n->status == WAFER_OK && i < nodes.count; i++) {
    int64_t leaf = place_of(n, all, trees.at[i], nodes.at[i]) - f->nodes;
    if (leaf < 0) continue;
    double *weight = &weights[leaf * f->targets + ids.at[i]];
    *weight = isnan(*weight) ? said[i] : *weight + said[i];
  }
  f->weights = weights;
}

/* The columns of the interior nodes, in the order in which they are listed. */
static void read_interior(import_node *n, const int64_t *mode, const named_node *listed,
                          const named_nodes *all, forest *f) {
  static const char missing[] = "nodes_missing_value_tracks_true";
  uint32_t count = all->count;
  int_list feature = attr_column(n, "nodes_featureids", count, INT64_MAX);
  int_list yes = attr_column(n, "nodes_truenodeids", count, INT64_MAX);
  int_list no = attr_column(n, "nodes_falsenodeids", count, INT64_MAX);
  int_list through =
      attr_ints(n, missing).count ? attr_column(n, missing, count, 2) : (int_list){0};
  const double *value = attr_reals(n, either(n, "nodes_values", "nodes_values_as_tensor"), count);
  int64_t *ints = node_new_ints(n, 5 * f->nodes);
  double *splits = new_doubles(n, f->nodes);
  int64_t *features = ints, *modes = ints + f->nodes, *left = modes + f->nodes,
          *right = left + f->nodes, *tracks = right + f->nodes;
  for (uint32_t i = 0; n->status == WAFER_OK && i < count; i++) {
    int64_t p = listed[i].place;
    if (p >= f->nodes) continue;
    features[p] = feature.at[i];
    modes[p] = mode[i];
    left[p] = place_of(n, all, listed[i].tree, yes.at[i]);
    right[p] = place_of(n, all, listed[i].tree, no.at[i]);
    tracks[p] = through.count ? through.at[i] : 0;
    splits[p] = value[i];
  }
  f->features = features;
  f->modes = modes;
  f->yes = left;
  f->no = right;
  f->missing = through.count ? tracks : NULL;
  f->splits = splits;
}

/* Places that no node leads to. */
static void find_roots(import_node *n, forest *f) {
  int64_t places = f->nodes + f->leaves, *roots = node_new_ints(n, places);
  bool *led = WAFER_NEW(n->im->ctx->arena, bool, (size_t)places);
  if (!led) n->status = import_no_memory(n->im);
  for (int64_t i = 0; n->status == WAFER_OK && i < f->nodes; i++)
    led[f->yes[i]] = led[f->no[i]] = true;
  for (int64_t i = 0; n->status == WAFER_OK && i < places; i++)
    if (!led[i]) roots[f->trees++] = i;
  f->roots = roots;
}

static forest forest_of_names(import_node *n, const leaf_names *names, int64_t targets) {
  forest f = {.targets = targets};
  uint32_t count = attr_ints(n, "nodes_nodeids").count;
  int_list tree = attr_column(n, "nodes_treeids", count, INT64_MAX);
  int_list number = attr_column(n, "nodes_nodeids", count, INT64_MAX);
  const int64_t *mode = read_modes(n, count, &f.nodes);
  named_node *listed = WAFER_NEW(n->im->ctx->arena, named_node, 2 * (size_t)count);
  if (!listed) n->status = import_no_memory(n->im);
  if (n->status != WAFER_OK) return f;
  int64_t next = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t place = mode[i] == FOREST_MODES ? f.nodes + f.leaves++ : next++;
    listed[i] = (named_node){tree.at[i], number.at[i], place};
  }
  const named_nodes all = {count, listed + count};
  memcpy(all.at, listed, count * sizeof *listed);
  qsort(all.at, count, sizeof *all.at, compare_named);
  for (uint32_t i = 1; i < count; i++)
    if (!compare_named(&all.at[i - 1], &all.at[i]))
      node_bad(n, "tree %lld has two nodes %lld", (long long)all.at[i].tree,
               (long long)all.at[i].number);
  read_interior(n, mode, listed, &all, &f);
  read_leaves(n, names, &all, &f);
  find_roots(n, &f);
  return f;
}

/* As onnxruntime has it, whatever numbers are given: doubles are compared as they are, others as
 * f32, and what comes of them is f32. */
static MlirValue sums(import_node *n, const leaf_names *names, int64_t targets, forest_sum how) {
  MlirValue x = node_input(n, 0);
  attr_find(n, "nodes_hitrates"); /* of no meaning for what comes of it */
  const char *base = either(n, "base_values", "base_values_as_tensor");
  if (node_dtype(n, x) != WAFER_DTYPE_f64) x = emit_cast(n, x, WAFER_DTYPE_f32);
  forest f = forest_of_names(n, names, targets);
  MlirValue y = emit_forest(n, &f, x, how);
  if (attr_has(n, base)) {
    wafer_view view = node_new_tensor(n, node_dtype(n, x), 1, &targets);
    const double *values = attr_reals(n, base, targets);
    for (int64_t i = 0; n->status == WAFER_OK && i < targets; i++)
      wafer_element_set_f64(view.dtype, view.data, i, values[i]);
    y = ADD(y, emit_constant(n, &view));
  }
  return emit_cast(n, y, WAFER_DTYPE_f32);
}

void import_tree_regressor(import_node *n) {
  static const leaf_names names = {"target_treeids", "target_nodeids", "target_ids",
                                   "target_weights", "target_weights_as_tensor"};
  static const char *const ways[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const char *way = attr_text(n, "aggregate_function", "SUM");
  int64_t targets = attr_int(n, "n_targets", 1);
  uint32_t how = 0;
  while (how < WAFER_COUNT(ways) && strcmp(way, ways[how])) how++;
  if (how == WAFER_COUNT(ways)) node_bad(n, "aggregate_function is '%s'", way);
  if (targets < 1 || targets > INT32_MAX) node_bad(n, "n_targets is %lld", (long long)targets);
  if (n->status == WAFER_OK)
    n->outputs[0] = emit_post_transformed(n, sums(n, &names, targets, (forest_sum)how));
}

/* One score decides between two labels: a share of one where no leaf takes away from it, else by
 * its sign. */
void import_tree_classifier(import_node *n) {
  static const leaf_names names = {"class_treeids", "class_nodeids", "class_ids", "class_weights",
                                   "class_weights_as_tensor"};
  int_list ids = attr_ints(n, names.ids);
  int64_t labels = classifier_labels(n);
  const double *weights = attr_reals(n, either(n, names.weights, names.weight_tensor), ids.count);
  bool one = labels == 2, share = true;
  for (uint32_t i = 0; n->status == WAFER_OK && i < ids.count; i++) {
    one = one && ids.at[i] == 0;
    share = share && weights[i] >= 0;
  }
  if (n->status != WAFER_OK) return;
  MlirValue y = sums(n, &names, one ? 1 : labels, FOREST_SUM), scores = y;
  if (one) scores = y = emit_two_scores(n, y, share ? 1 : 0);
  bool softmax = !strcmp(attr_text(n, "post_transform", "NONE"), "SOFTMAX");
  if (!one || !(share || softmax)) /* of one score it is nothing */
    scores = emit_post_transformed(n, y);
  emit_classified(n, y, scores);
}
