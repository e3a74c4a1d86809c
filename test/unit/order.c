/* frontend/order.c: nodes that stand before those they use, in the model's graph and inside of
 * others. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

/* "a b y": the nodes of @main in their order. */
static void format_nodes(const session *s, char *out, size_t room) {
  MlirOperation op = mlirBlockGetFirstOperation(wafer_ir_body(wafer_ir_main(s->ir)));
  *out = 0;
  for (; !mlirOperationIsNull(mlirOperationGetNextInBlock(op));
       op = mlirOperationGetNextInBlock(op))
    snprintf(out + strlen(out), room - strlen(out), "%s%s", *out ? " " : "",
             wafer_ir_node_name(op));
}

static void nodes_move_before_those_that_use_them(void) {
  static const struct {
    const char *graph, *want;
  } cases[] = {
      {"in x f32 4; Relu x -> a; Neg a -> b; Add a b -> y; out y", "a b y"},
      /* what may stay stays: only a and b move, before the first that uses them */
      {"in x f32 4; Relu x -> c; Add c b -> d; Neg d -> y; Neg a -> b; Abs x -> a; out y",
       "c a b d y"},
      /* all behind one another, backwards */
      {"in x f32 4; Abs c -> y; Neg b -> c; Relu a -> b; Neg x -> a; out y", "a b c y"},
      /* a name that nobody has yet is made by the one node that makes it, though others look alike
       */
      {"in x f32 4; Add a a -> y; Relu x -> b; Neg b -> a; out y", "b a y"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    char got[128] = "";
    import_text(&s, 13, cases[i].graph);
    if (s.status != WAFER_OK) printf("%s\n  said %s", cases[i].graph, s.said.text);
    CU_ASSERT_EQUAL(s.status, WAFER_OK);
    if (s.status == WAFER_OK) format_nodes(&s, got, sizeof got);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
    end(&s);
  }
}

static void cycles_name_a_node(void) {
  static const struct {
    const char *graph, *want;
  } cases[] = {
      {"in x f32 4; Relu x -> a; Add a c -> b; Neg b -> c; out c",
       "node 'b' (#1): is part of a cycle: uses 'c' of node 'c', which depends on this node"},
      /* the node that leads into the cycle is no part of it; the file's first one that is, is said
       */
      {"in x f32 4; Neg d -> y; Add x d -> b; Neg b -> c; Abs c -> d; out y",
       "node 'b' (#1): is part of a cycle: uses 'd' of node 'd', which depends on this node"},
      {"in x f32 4; Neg d -> y; Abs c -> d; Add x d -> b; Neg b -> c; out y",
       "node 'd' (#1): is part of a cycle: uses 'c' of node 'c', which depends on this node"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    import_text(&s, 13, cases[i].graph);
    CU_ASSERT_EQUAL(s.status, WAFER_BAD_INPUT);
    if (!strstr(s.said.text, cases[i].want)) printf("%s\n  said %s", cases[i].graph, s.said.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, cases[i].want));
    end(&s);
  }
}

/* A chain, written backwards. */
static void long_chains_are_sorted(void) {
  enum { COUNT = 1000 };
  size_t room = COUNT * 40, used;
  char *text = calloc(1, room);
  used = (size_t)snprintf(text, room, "in n0 f32 4; out n%d", COUNT);
  for (int i = COUNT; i > 0; i--)
    used += (size_t)snprintf(text + used, room - used, "; Neg n%d -> n%d", i - 1, i);
  session s = {0};
  import_text(&s, 13, text);
  CU_ASSERT_EQUAL(s.status, WAFER_OK);
  end(&s);
  free(text);
}

/* ---- Graphs inside nodes ---- */

/* z = If(c) over the outer `rest`, whose node stands first. */
static void import_if(session *s, const char *yes, const char *no, const char *rest) {
  protobuf *parts = calloc(4, sizeof *parts), *model = &parts[0], *graph = &parts[1];
  protobuf *node = &parts[2];
  char text[] = "c -> z", *words = text;
  onnx_text_node(node, (char[]){"If"}, &words);
  put_graph(node, "then_branch", yes);
  put_graph(node, "else_branch", no);
  pb_message(graph, 1, node);
  onnx_text_graph(graph, rest);
  pb_int(model, 1, 8);
  pb_int(&parts[3], 2, 13);
  pb_message(model, 8, &parts[3]);
  pb_message(model, 7, graph);
  s->folder = scratch_create();
  import_file(s, scratch_save(&s->folder, "t.onnx", model->bytes, model->count));
  free(parts);
}

static void graphs_inside_nodes_are_sorted_too(void) {
  static const struct {
    const char *yes, *no, *rest, *want, *said;
  } cases[] = {
      /* the branch's own nodes */
      {"Neg a -> b; Abs x -> a; out b", "Abs x -> b; out b",
       "init x f32 2 = 1 -2; init c bool 1 = 1; out z", "2: -1 -2", ""},
      /* what a branch uses of the graph around it, as an operand and as a result */
      {"Neg o -> b; out b", "out o", "Abs x -> o; init x f32 2 = 1 -2; init c bool 1 = 1; out z",
       "2: -1 -2", ""},
      {"Neg x -> b; out b", "out o", "Abs x -> o; init x f32 2 = 1 -2; init c bool 1 = 0; out z",
       "2: 1 2", ""},
      /* its condition */
      {"Neg x -> b; out b", "Abs x -> b; out b",
       "Not d -> c; init x f32 2 = 1 -2; init d bool 1 = 1; out z", "2: 1 2", ""},
      /* a name of its own is not one of the graph around it */
      {"Abs x -> o; Neg o -> b; out b", "Abs x -> b; out b",
       "Neg z -> w; init x f32 2 = 1 -2; init c bool 1 = 1; out w", "2: 1 2", ""},
      {"Neg w -> b; out b", "Abs x -> b; out b",
       "Neg z -> w; init x f32 2 = 1 -2; init c bool 1 = 1; out w", "",
       "node 'z' (#0): is part of a cycle: uses 'w' of node 'w'"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    session s = {0};
    char got[128] = "";
    import_if(&s, cases[i].yes, cases[i].no, cases[i].rest);
    if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
    if (strcmp(got, cases[i].want)) printf("if %zu\n%s", i, s.said.text);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.said.text, cases[i].said));
    end(&s);
  }
}

CU_TestInfo tests_order[] = {
    {"nodes move before those that use them", nodes_move_before_those_that_use_them},
    {"cycles name a node", cycles_name_a_node},
    {"long chains are sorted", long_chains_are_sorted},
    {"graphs inside nodes are sorted too", graphs_inside_nodes_are_sorted_too},
    CU_TEST_INFO_NULL,
};
