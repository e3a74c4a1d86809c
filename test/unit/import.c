/* frontend/import.c: names, shapes, functions, options; what is wrong or cannot be compiled is
 * said. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

static void rows_rise_and_are_found(void) {
  const onnx_op *row, *before = NULL;
  for (size_t i = 0; (row = onnx_op_row(i)); before = row, i++) {
    int order = before ? strcmp(before->type, row->type) : -1;
    if (order == 0) order = strcmp(before->domain, row->domain);
    CU_ASSERT(order < 0 || (order == 0 && before->since < row->since));
    CU_ASSERT_PTR_EQUAL(onnx_op_find(row->domain, row->type, row->since), row);
    CU_ASSERT(row->least <= row->most);
  }
  CU_ASSERT_PTR_NULL(onnx_op_find("", "Gelu", 19));
  CU_ASSERT_PTR_NOT_NULL(
      onnx_op_find("com.microsoft", "Gelu", 1)); /* another domain's is another */
  CU_ASSERT_PTR_NULL(onnx_op_find("", "Nonsense", 19));
}

/* ---- Graphs ---- */

static void shape_arithmetic_folds_away(void) {
  session s = {0};
  import_text(&s, 13,
              "in x f32 2x3x4; init i i64 1 = 0; init m i64 1 = -1; Shape x -> s; Gather s i -> n; "
              "Concat(axis=0) n m -> t; Reshape x t -> y; out y f32 2x12; "
              "init unused f32 3000 = 1");
  CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
  char got[64];
  format_value(&s, result(&s, 0), got, sizeof got);
  CU_ASSERT_STRING_EQUAL(got, "2x12");
  CU_ASSERT_STRING_EQUAL(wafer_ir_argument_name(wafer_ir_main(s.ir), 0), "x");
  CU_ASSERT_STRING_EQUAL(wafer_ir_node_name(mlirOpResultGetOwner(result(&s, 0))), "y");
  CU_ASSERT_EQUAL(wafer_weights_count(s.ir->weights), 0);
  CU_ASSERT_EQUAL(s.ir->node_count, 4);
  end(&s);
}

static void domains_need_no_import(void) {
  session s = {0};
  import_text(&s, 13,
              "init r f32 scalar = 1; init t i64 scalar = 0; init x f32 1 = 2; init g f32 1 = 3; "
              "init v f32 1 = 0; ai.onnx.preview.training::Momentum(alpha=0.0,beta=1.0,"
              "mode='standard',norm_coefficient=0.0) r t x g v -> y z; out y");
  char got[64] = "";
  if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
  CU_ASSERT_STRING_EQUAL(got, "1: -1");
  end(&s);
}

static void large_initializers_become_weights(void) {
  session s = {0};
  char graph[2048] = "in x f32 300; init w f32 300 =";
  for (int i = 0; i < 300; i++) strcat(graph, i % 2 ? " 1" : " 2");
  strcat(graph, "; Add x w -> y; out y");
  import_text(&s, 13, graph);
  CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
  const wafer_weight *weight = wafer_weights_find(s.ir->weights, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(weight);
  CU_ASSERT_EQUAL(wafer_element_f64(weight->dtype, weight->data, 2), 2.0);
  end(&s);
}

static void options_make_dims_static(void) {
  static const wafer_dim_binding dims[] = {{.name = "N", .size = 2}};
  static const wafer_shape_binding shapes[] = {{"x", {2, {2, 5}}}};
  static const int64_t three[] = {3};
  wafer_shape scalar = {0};
  wafer_view value = wafer_view_of(WAFER_DTYPE_i64, &scalar, (void *)(uintptr_t)three);
  wafer_value_binding values[] = {{"k", value}};
  session s = {.options = {.dims = dims, .dim_count = 1}};
  import_text(&s, 13, "in x f32 Nx5; Relu x -> y; out y");
  CU_ASSERT_EQUAL(s.status, WAFER_OK);
  end(&s);
  const wafer_dim_binding none = {.name = "N"}; /* a cache that is empty at first */
  s = (session){.options = {.dims = &none, .dim_count = 1}};
  import_text(&s, 13, "in x f32 Nx5; in z f32 1x5; Concat(axis=0) x z -> y; out y");
  CU_ASSERT_EQUAL(s.status, WAFER_OK);
  end(&s);
  s = (session){.options = {.shapes = shapes, .shape_count = 1}};
  import_text(&s, 13, "in x f32 Nx5; in z f32 5xN; MatMul x z -> y; out y");
  CU_ASSERT_EQUAL(s.status, WAFER_OK); /* z follows from N */
  end(&s);
  s = (session){.options = {.values = values, .value_count = 1}};
  import_text(
      &s, 13,
      "in x f32 1; in k i64 scalar; init z i64 1 = -1; Unsqueeze k z -> r; Tile x r -> y; out y");
  CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
  CU_ASSERT_EQUAL(wafer_ir_value_type(result(&s, 0)).shape.dims[0], 3);
  end(&s);
  static float backwards[] = {1, 2, 3};
  value = (wafer_view){WAFER_DTYPE_f32, {1, {3}}, {-1}, backwards + 2};
  values[0] = (wafer_value_binding){"x", value};
  char got[64] = "";
  s = (session){.options = {.values = values, .value_count = 1}};
  import_text(&s, 13, "in x f32 N; Neg x -> y; out y");
  CU_ASSERT_EQUAL_FATAL(s.status, WAFER_OK);
  format_value(&s, result(&s, 0), got, sizeof got);
  CU_ASSERT_STRING_EQUAL(got, "3: -3 -2 -1");
  end(&s);
}

/* my::Twice(a, b, c) = a + a, at most c where the caller gives it. */
static void put_function(protobuf *model) {
  static const char *const nodes[] = {"Add a a -> s", "Clip s - c -> r"};
  protobuf *parts = calloc(3, sizeof *parts), *function = &parts[0];
  pb_text(function, 1, "Twice");
  for (const char *name = "abc"; *name; name++) pb_data(function, 4, name, 1);
  pb_text(function, 5, "r");
  for (size_t i = 0; i < WAFER_COUNT(nodes); i++) {
    char *copy = strdup(nodes[i]), *rest = NULL;
    parts[1].count = 0;
    onnx_text_node(&parts[1], strtok_r(copy, " ", &rest), &rest);
    pb_message(function, 7, &parts[1]);
    free(copy);
  }
  pb_int(&parts[2], 2, 13);
  pb_message(function, 9, &parts[2]);
  pb_text(function, 10, "my");
  pb_message(model, 25, function);
  free(parts);
}

/* y = FlexAttention(q, k, v), in whose softmax two equal scores meet, over values 2 and 6. */
static void put_attention(protobuf *model, const char *score, const char *chance) {
  protobuf *parts = calloc(3, sizeof *parts), *node = &parts[0], *graph = &parts[1];
  char text[] = "q k v -> y", *rest = text;
  onnx_text_graph(graph, "init q f32 1x1x1x1 = 1; init k f32 1x1x2x1 = 0 0; "
                         "init v f32 1x1x2x1 = 2 6; out y");
  onnx_text_node(node, (char[]){"ai.onnx.preview::FlexAttention"}, &rest);
  put_graph(node, "score_mod", score);
  put_graph(node, "prob_mod", chance);
  pb_message(graph, 1, node);
  for (int64_t domain = 0; domain < 2; domain++) {
    parts[2].count = 0;
    pb_text(&parts[2], 1, domain ? "ai.onnx.preview" : "");
    pb_int(&parts[2], 2, domain ? 1 : 26);
    pb_message(model, 8, &parts[2]);
  }
  pb_int(model, 1, 13);
  pb_message(model, 7, graph);
  free(parts);
}

static void attention_is_changed_by_graphs(void) {
  static const struct {
    const char *score, *chance, *want, *said;
  } cases[] = {
      {NULL, NULL, "1x1x1x1: 4", ""},
      {"in s f32 *; init c f32 2 = 0 -100; Add s c -> t; out t", NULL, "1x1x1x1: 2", ""},
      {NULL, "in p f32 *; init c f32 scalar = 2; Mul p c -> r; out r", "1x1x1x1: 8", ""},
      {"in s f32 *; init c f32 2 = -100 0; Add s c -> t; out t",
       "in p f32 *; init c f32 scalar = 2; Mul p c -> r; out r", "1x1x1x1: 12", ""},
      {"in s f32 *; ReduceSum s -> t; out t", NULL, "", "must keep the shape"},
      {"in s f32 *; in t f32 *; Add s t -> u; out u", NULL, "", "of one input"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    protobuf *model = calloc(1, sizeof *model);
    session s = {.folder = scratch_create()};
    char got[128] = "";
    put_attention(model, cases[i].score, cases[i].chance);
    import_file(&s, scratch_save(&s.folder, "t.onnx", model->bytes, model->count));
    free(model);
    if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
    if (strcmp(got, cases[i].want)) printf("attention %zu\n%s", i, s.said.text);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, cases[i].said));
    end(&s);
  }
}

static void functions_of_the_model_are_their_bodies(void) {
  static const struct {
    const char *graph, *want;
  } cases[] = {
      {"init x f32 2 = 1 4; init m f32 scalar = 5; my::Twice x x m -> y; out y", "2: 2 5"},
      {"init x f32 2 = 1 4; my::Twice x -> y; out y", "2: 2 8"},
      {"init x f32 2 = 1 4; my::Twice x -> z; my::Twice z -> y; out y", "2: 4 16"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    protobuf *model = calloc(1, sizeof *model);
    session s = {.folder = scratch_create()};
    char got[128] = "";
    onnx_text_model(model, 13, cases[i].graph);
    put_function(model);
    import_file(&s, scratch_save(&s.folder, "t.onnx", model->bytes, model->count));
    free(model);
    CU_ASSERT_EQUAL(s.status, WAFER_OK);
    if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
    end(&s);
  }
}

/* ---- What is wrong ---- */

static const struct {
  int64_t opset;
  const char *graph;
  wafer_status status;
  const char *want;
} wrong[] = {
    {13, "in x f32 4; Relu z -> y; out y", WAFER_BAD_INPUT,
     "node 'y' (#0): uses 'z', which no node"},
    {13, "in x f32 4; Add x b -> a; Relu a -> b; out b", WAFER_BAD_INPUT,
     "node 'a' (#0): is part of a cycle"},
    {13, "in x f32 4; Relu y -> y; out y", WAFER_BAD_INPUT, "cycle"},
    {13, "in x f32 4; Relu x -> y; Neg x -> y; out y", WAFER_BAD_INPUT, "'y' is defined twice"},
    {13, "in x f32 4; Relu x -> y; out z", WAFER_BAD_INPUT, "output 'z' is not defined"},
    {13, "in x f32 4; Relu x -> y", WAFER_BAD_INPUT, "has no outputs"},
    {13, "in x f32 4; Relu x -> y; out y f32 5", WAFER_BAD_INPUT,
     "contradicts what the model declares"},
    {13, "in x f32 4; in z f32 3; Add x z -> y; out y", WAFER_BAD_INPUT,
     "node 'y' (#0): add: 4 and 3 do not broadcast"},
    {13, "in x f32 4; in z i64 4; Add x z -> y; out y", WAFER_BAD_INPUT, "must agree"},
    {13, "in x f32 4; Relu x x -> y; out y", WAFER_BAD_INPUT, "has 2 inputs, takes at most 1"},
    {13, "in x f32 4; Add x -> y; out y", WAFER_BAD_INPUT, "has 1 inputs, needs 2"},
    {14,
     "in x f32 2x1x1; init w f32 1x4x1 = 1 1 1 1; init r f32 1x4x1 = 0 0 0 0; init h f32 1x1x2 = 0 "
     "0; LSTM x w r - - h -> y; out y",
     WAFER_BAD_INPUT, "input 5 has 3 dims, the last of 2, needs 3 and the recurrence's 1"},
    {14,
     "in x f32 2x1x1; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; init l i32 1 = 3; "
     "RNN x w r - l -> y; out y",
     WAFER_BAD_INPUT, "sequence_lens has 3, must be 0 to 2"},
    {14,
     "in x f32 2x1x1; in l i32 2; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; "
     "RNN x w r - l -> y; out y",
     WAFER_BAD_INPUT, "sequence_lens is not a vector of 1 integers"},
    {14, /* what follows a failure in a step has no dims to cut */
     "in x f32 2x1x1; init w f32 1x4x1 = 1 1 1 1; init r f32 1x4x1 = 0 0 0 0; init b f32 1x8 = 0 0 "
     "0 0 0 0 0 0; init p f32 1x2 = 0 0; LSTM x w r b - - - p -> y; out y",
     WAFER_BAD_INPUT, "slice"},
    {13, "in x f32 4; init s i64 1 = 3; Reshape x s -> y; out y", WAFER_BAD_INPUT, "4 elements"},
    {13, "in x f32 4; init s i64 2 = -1 -1; Reshape x s -> y; out y", WAFER_BAD_INPUT, "-1 twice"},
    {13, "in x f32 4; init s i64 3 = 1099511627776 1099511627776 4; Expand x s -> y; out y",
     WAFER_BAD_INPUT, "too many elements"},
    {13, "in x f32 4; Concat(axis=5) x x -> y; out y", WAFER_BAD_INPUT, "axis 5 is out of range"},
    {13, "in x f32 4; Concat(axis=0.5) x x -> y; out y", WAFER_BAD_INPUT,
     "attribute axis is of type 1"},
    {13, "in x f32 1x1x4; init w f32 1x1x2 = 1 1; Conv(strides=[0]) x w -> y; out y",
     WAFER_BAD_INPUT, "stride"},
    {13, "in x f32 1x1x4; init w f32 1x1x9 = 1 1 1 1 1 1 1 1 1; Conv x w -> y; out y",
     WAFER_BAD_INPUT, "node 'y'"},
    {14,
     "in x f32 2x1x1; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; RNN(direction='backwards') x w r "
     "-> y; out y",
     WAFER_BAD_INPUT, "direction is 'backwards', must be forward, reverse or bidirectional"},
    {14,
     "in x f32 2x1x1; init w f32 1x1x1 = 1; init r f32 1x1x1 = 0; RNN(direction='bidirectional') x "
     "w r -> y; out y",
     WAFER_BAD_INPUT, "direction is 'bidirectional', the weights are of 1"},
    {23, "in x f32 1x2x4x8; in k f32 1x0x4x8; Attention x k k -> y; out y", WAFER_BAD_INPUT,
     "2 heads of queries, 0 of keys"},
    {18, "in x f32 1x1x8; LpPool(kernel_shape=[2],pads=[9223372036854775807,1]) x -> y; out y",
     WAFER_BAD_INPUT, "pads[0] is 9223372036854775807"},
    {13,
     "in x f32 1x1x1099511627776; init w f32 1x1x1 = 1; ConvTranspose(strides=[2147483647],"
     "auto_pad='SAME_UPPER') x w -> y; out y",
     WAFER_BAD_INPUT, "1099511627776 elements of spatial dim 0 are too many"},
    {18,
     "in x f32 1x1x1x8; init s f32 4 = 1 1 1 0.5; Resize(mode='linear',antialias=1,"
     "coordinate_transformation_mode='bogus') x - s -> y; out y",
     WAFER_BAD_INPUT, "coordinate_transformation_mode is 'bogus', must be one of"},
    {13,
     "init z f32 scalar = 0; init l f32 scalar = 9; init d f32 scalar = 0; Range z l d -> y; out y",
     WAFER_BAD_INPUT, "from 0 to 9 by 0 is no range"},
    {13, "in x f32 4; Einsum(equation='i,i->') x -> y; out y", WAFER_BAD_INPUT, "differ in number"},
    {13, "in x f32 4; Einsum(equation='i->ij') x -> y; out y", WAFER_BAD_INPUT, "no operand has"},
    {13, "in x f32 Nx4; Relu x -> y; out y", WAFER_BAD_INPUT, "give --dim N=N or --shape x=..."},
    {13, "in x f32 ?x4; Relu x -> y; out y", WAFER_BAD_INPUT,
     "leaves open (?x4); give --shape x=..."},
    {13, "in x f32 *; Relu x -> y; out y", WAFER_BAD_INPUT, "unknown rank"},
    {13, "in x f32 -1x4; Relu x -> y; out y", WAFER_BAD_INPUT, "leaves open"},
    {13, "in x f32 1099511627776x1099511627776; Relu x -> y; out y", WAFER_BAD_INPUT,
     "too many elements"},
    {13, "in x string 4; Softplus x -> z; LSTM x x x -> y; out y", WAFER_UNSUPPORTED,
     "the host does not have this operator"},
    {28, "in x f32 4; Relu x -> y; out y", WAFER_UNSUPPORTED, "opset 28, 1 to 27"},
    {5, "in x f32 4; Cast(to='FLOAT99') x -> y; out y", WAFER_BAD_INPUT, "'FLOAT99'"},
    {5, "in x f32 4; init t f32 1 = -1; init a f32 1 = 0; Tile x t a -> y; out y", WAFER_BAD_INPUT,
     "tiles is -1"},
    {6, "in x f32 2x3; in s f32 3; Add(broadcast=1,axis=2) x s -> y; out y", WAFER_BAD_INPUT,
     "axis 2"},
    {6, "in x f32 2x3; in s f32 2; Add(broadcast=1,axis=1) x s -> y; out y", WAFER_BAD_INPUT,
     "node 'y'"},
    {6, "in x f32 2x3; in s f32 2x3; Add(broadcast=1,axis=1) x s -> y; out y", WAFER_BAD_INPUT,
     "operand 1 has 2 dims, there are 1 from axis 1 on"},
    {19, "in x f32 4; Gelu x -> y; out y", WAFER_UNSUPPORTED, "this opset does not have it yet"},
    {13, "in x f32 4; in s i64 1; Reshape x s -> y; out y", WAFER_UNSUPPORTED,
     "model's input 's'; give --bind s=FILE.npy"},
    {13, "in x f32 1x1x4; AveragePool(kernel_shape=[2]) x -> y i; out y", WAFER_UNSUPPORTED,
     "output 1 ('i')"},
};

static void what_is_wrong_is_said(void) {
  for (size_t i = 0; i < WAFER_COUNT(wrong); i++) {
    session s = {0};
    import_text(&s, wrong[i].opset, wrong[i].graph);
    CU_ASSERT_EQUAL(s.status, wrong[i].status);
    CU_ASSERT_PTR_NULL(s.ir);
    if (!strstr(s.said.text, wrong[i].want)) printf("%s\n  said %s", wrong[i].graph, s.said.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, wrong[i].want));
    end(&s);
  }
}

static void everything_unsupported_is_listed(void) {
  session s = {0};
  import_text(&s, 13,
              "in x f32 4; my::Foo x -> a; Relu a -> b; NonZeros x -> c; Add b c -> d; "
              "ThatOne x -> e; Add d e -> y; out y");
  CU_ASSERT_EQUAL(s.status, WAFER_UNSUPPORTED);
  static const char *const wants[] = {
      "node 'a' (#0): operator Foo of my",
      "node 'c' (#2): operator NonZeros of ai.onnx, opset 13, on (f32 4)",
      "node 'e' (#4): operator ThatOne", "cannot compile 3 of 6 nodes"};
  for (size_t i = 0; i < WAFER_COUNT(wants); i++)
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, wants[i]));
  end(&s);
  /* tensors are no nodes: it said 2 of 1 */
  s = (session){0};
  import_text(&s, 13, "init a c64 1 = 1; init b c64 1 = 1; Add a b -> y; out y");
  CU_ASSERT_EQUAL(s.status, WAFER_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, "cannot compile the model for 2 reasons"));
  end(&s);
}

static void remember_problem(void *self, const wafer_problem *problem) {
  remember(self, WAFER_ERROR, WAFER_OK, problem->loc, problem->text);
  remember(self, WAFER_ERROR, WAFER_OK, problem->loc, problem->remedy);
  remember(self, WAFER_ERROR, WAFER_OK, problem->loc, wafer_problem_name(problem->kind));
}

/* Open dims and types that are not supported do not hide what is behind them. */
static void problems_are_listed_in_one_go(void) {
  static const char *const want[] = {"(Nx4)",        "give --dim N=N or --shape x=...",
                                     "dim",          "element type 0",
                                     "type",         "operator Foo of my",
                                     "operator",     "node 'a'",
                                     "on (unknown)", "operator Whirl of ai.onnx",
                                     "node 'late'",  "this opset does not have it yet",
                                     "opset",        "input 1 (shape, 's')",
                                     "value",        "(spatial = 0)",
                                     "attribute",    "Relu: attribute foo is ignored"};
  session s = {.options = {.problem = remember_problem}};
  s.options.problem_self = &s.said;
  import_text(
      &s, 13,
      "in x f32 Nx4; in t nothing 2; in z f32 4; in s i64 1; in i f32 1x4x2; my::Foo x -> a; "
      "Relu a -> b; Relu(foo=1) z -> c; Whirl c -> d; Gelu b -> late; Reshape z s -> r; "
      "BatchNormalization(spatial=0) i z z z z -> m; out b");
  CU_ASSERT_EQUAL(s.status, WAFER_UNSUPPORTED);
  for (size_t i = 0; i < WAFER_COUNT(want); i++) {
    if (!strstr(s.said.text, want[i])) printf("'%s' is not in\n%s", want[i], s.said.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, want[i]));
  }
  CU_ASSERT_PTR_NULL(strstr(s.said.text, "cannot compile"));
  end(&s);
}

static void wrong_options_list_the_names(void) {
  static const wafer_dim_binding dims[] = {{.name = "M", .size = 2}};
  static const wafer_shape_binding other[] = {{"q", {1, {2}}}}, fixed[] = {{"x", {2, {2, 6}}}},
                                   rank[] = {{"x", {1, {2}}}};
  const struct {
    wafer_options options;
    wafer_status status;
    const char *want;
  } cases[] = {
      {{.dims = dims, .dim_count = 1}, WAFER_USAGE, "no symbolic dim of the model; they are 'N'"},
      {{.shapes = other, .shape_count = 1}, WAFER_USAGE, "its inputs are 'x', 'z'"},
      {{.shapes = fixed, .shape_count = 1},
       WAFER_BAD_INPUT,
       "--shape x=2x6: dim 1 is 5 in the model"},
      {{.shapes = rank, .shape_count = 1}, WAFER_BAD_INPUT, "has 1 dims, the model's input has 2"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {.options = cases[i].options};
    import_text(&s, 13, "in x f32 Nx5; in z f32 3; Relu x -> y; out y");
    CU_ASSERT_EQUAL(s.status, cases[i].status);
    if (!strstr(s.said.text, cases[i].want)) printf("%s\n", s.said.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, cases[i].want));
    end(&s);
  }
}

static void missing_files_are_named(void) {
  session s = {.folder = scratch_create()};
  import_file(&s, scratch_path(&s.folder, "none.onnx"));
  CU_ASSERT_EQUAL(s.status, WAFER_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, "none.onnx"));
  end(&s);
}

CU_TestInfo tests_import[] = {
    {"rows rise and are found", rows_rise_and_are_found},
    {"shape arithmetic folds away", shape_arithmetic_folds_away},
    {"domains need no import", domains_need_no_import},
    {"large initializers become weights", large_initializers_become_weights},
    {"options make dims static", options_make_dims_static},
    {"functions of the model are their bodies", functions_of_the_model_are_their_bodies},
    {"graph attributes change attention", attention_is_changed_by_graphs},
    {"what is wrong is said", what_is_wrong_is_said},
    {"everything unsupported is listed", everything_unsupported_is_listed},
    {"problems are listed in one go", problems_are_listed_in_one_go},
    {"wrong options list the names", wrong_options_list_the_names},
    {"missing files are named", missing_files_are_named},
    CU_TEST_INFO_NULL,
};
