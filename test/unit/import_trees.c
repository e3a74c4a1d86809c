/* frontend/expand/expand_trees.c: trees whose nodes have names. What they are worth is
 * onnxruntime's word; test/onnx has TreeEnsemble. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

#define X "init x f32 2x1 = -1 1; "
/* x <= 0 goes to node 1, else to node 2 */
#define TREE(mode, yes)                                                                            \
  "nodes_treeids=[3,3,3],nodes_nodeids=[0,1,2],nodes_featureids=[0,0,0],nodes_values=[0.0,0,0],"   \
  "nodes_modes=['" mode "','LEAF','LEAF'],nodes_truenodeids=[" yes ",0,0],"                        \
  "nodes_falsenodeids=[2,0,0],"
#define ONE(weights)                                                                               \
  X "ai.onnx.ml::TreeEnsembleClassifier(" TREE(                                                    \
      "BRANCH_LEQ",                                                                                \
      "1") "class_treeids=[3,3],class_nodeids=[1,2],class_ids=[0,0],classlabels_int64s=[7,9],"     \
           "class_weights=[" weights "]"
#define THREE                                                                                      \
  X "ai.onnx.ml::TreeEnsembleClassifier(" TREE(                                                    \
      "BRANCH_LEQ", "1") "class_treeids=[3,3,3],class_nodeids=[1,1,2],class_ids=[0,1,2],"          \
                         "classlabels_int64s=[7,8,9],"                                             \
                         "class_weights=[0.25,0.5,1]"
/* Leaves of two trees, of which the second is a leaf alone. */
#define TWO_TREES                                                                                  \
  X "ai.onnx.ml::TreeEnsembleRegressor(nodes_treeids=[0,0,0,1],nodes_nodeids=[0,1,2,0],"           \
    "nodes_featureids=[0,0,0,0],nodes_values=[0.0,0,0,0],"                                         \
    "nodes_modes=['BRANCH_GTE','LEAF','LEAF','LEAF'],nodes_truenodeids=[1,0,0,0],"                 \
    "nodes_falsenodeids=[2,0,0,0],target_treeids=[0,0,1],target_nodeids=[1,2,0],"                  \
    "target_ids=[0,0,0],target_weights=[1.0,2,5]"

static const struct {
  const char *graph, *want;
} folded[] = {
    {TWO_TREES ") x -> y", "2x1: 7 6"},
    {TWO_TREES ",base_values=[0.5],aggregate_function='AVERAGE') x -> y", "2x1: 4 3.5"},
    {TWO_TREES ",aggregate_function='MIN') x -> y", "2x1: 2 1"},
    {TWO_TREES ",aggregate_function='MAX',post_transform='LOGISTIC') x -> y",
     "2x1: 0.99331 0.99331"},
    {"init x f32 2x1 = nan 1; ai.onnx.ml::TreeEnsembleRegressor(" TREE(
         "BRANCH_GT",
         "1") "nodes_missing_value_tracks_true=[1,0,0],target_treeids=[3,3],target_nodeids=[1,2],"
              "target_ids=[0,0],target_weights=[1.0,2]) x -> y",
     "2x1: 1 1"},
    {ONE("0.25,0.75") ") x -> y s", "2: 7 9"},
    {ONE("0.25,0.75") ",post_transform='LOGISTIC') x -> l y", "2x2: 0.75 0.25 0.25 0.75"},
    {ONE("-0.25,0.25") ") x -> y s", "2: 7 9"},
    {ONE("-0.25,0.25") ") x -> l y", "2x2: 0.25 -0.25 -0.25 0.25"},
    {ONE("-0.25,0.75") ",post_transform='LOGISTIC',base_values=[0.0]) x -> l y",
     "2x2: 0.56218 0.43782 0.32082 0.67918"},
    {THREE ") x -> y s", "2: 8 9"},
    {THREE ") x -> l y", "2x3: 0.25 0.5 0 0 0 1"},
    {THREE ",base_values=[1.0,0,0]) x -> y s", "2: 7 7"},
    {THREE ",post_transform='SOFTMAX') x -> l y",
     "2x3: 0.3265 0.41923 0.25428 0.21194 0.21194 0.57612"},
    {"init x i64 2x2 = 1 -1 -1 4; "
     "ai.onnx.ml::Imputer(imputed_value_int64s=[7,8],replaced_value_int64=-1) x -> y",
     "2x2: 1 8 7 4"},
    {"init x f32 2x2 = 1 nan nan 4; "
     "ai.onnx.ml::Imputer(imputed_value_floats=[7.0],replaced_value_float=nan.0) x -> y",
     "2x2: 1 7 7 4"},
};

static void trees_are_worth_what_they_say(void) {
  for (size_t i = 0; i < WAFER_COUNT(folded); i++)
    check_folded(18, folded[i].graph, folded[i].want);
}

#define LEAVES "target_treeids=[3,3],target_ids=[0,0],target_weights=[1.0,2],"
#define REGRESSOR(mode, yes) X "ai.onnx.ml::TreeEnsembleRegressor(" TREE(mode, yes) LEAVES

static const struct {
  const char *graph;
  wafer_status status;
  const char *want;
} wrong[] = {
    {REGRESSOR("BRANCH_UP", "1") "target_nodeids=[1,2]) x -> y", WAFER_BAD_INPUT,
     "a node's mode is 'BRANCH_UP'"},
    {REGRESSOR("BRANCH_LT", "5") "target_nodeids=[1,2]) x -> y", WAFER_BAD_INPUT,
     "tree 3 has no node 5"},
    {REGRESSOR("BRANCH_LT", "0") "target_nodeids=[1,2]) x -> y", WAFER_BAD_INPUT,
     "node 0 leads to 0"},
    {REGRESSOR("BRANCH_LT", "1") "target_nodeids=[1,9]) x -> y", WAFER_BAD_INPUT,
     "tree 3 has no node 9"},
    {REGRESSOR("BRANCH_LT", "1") "target_nodeids=[1,2],post_transform='PROBIT') x -> y",
     WAFER_UNSUPPORTED, "post_transform PROBIT"},
    {REGRESSOR("BRANCH_LT", "1") "target_nodeids=[1,2],base_values=[1.0,2]) x -> y",
     WAFER_BAD_INPUT, "base_values has 2 entries, needs 1"},
    {REGRESSOR("BRANCH_LT", "1") "target_nodeids=[1,2],aggregate_function='ALL') x -> y",
     WAFER_BAD_INPUT, "aggregate_function is 'ALL'"},
    {REGRESSOR("BRANCH_LT", "1") "target_nodeids=[1,2],n_targets=1000000000) x -> y",
     WAFER_BAD_INPUT, "2 leaves say something of 1000000000 targets"},
    {"in x f32 2x2; ai.onnx.ml::ZipMap(classlabels_int64s=[1,2]) x -> y", WAFER_UNSUPPORTED,
     "convert the model without it, as skl2onnx does with options={'zipmap': False}"},
};

static void what_is_wrong_with_trees_is_said(void) {
  for (size_t i = 0; i < WAFER_COUNT(wrong); i++)
    check_refused(18, wrong[i].graph, wrong[i].status, wrong[i].want);
}

CU_TestInfo tests_import_trees[] = {
    {"trees are worth what they say", trees_are_worth_what_they_say},
    {"what is wrong with trees is said", what_is_wrong_with_trees_is_said},
    CU_TEST_INFO_NULL,
};
