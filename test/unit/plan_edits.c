/* A legal plan, edited in one place at a time: each edit breaks one law, is refused with that law's
 * status, and the message names the kernel or node. The sweep over rectangles against counting core
 * by core. */
#include <CUnit/CUnit.h>

#include "caught.h"
#include "relay_plan.h"
#include "runtime/plan/plan_check.h"

typedef enum modes { PIPELINED = 1, STREAMING = 2, BOTH = 3 } modes;

typedef struct edit_case {
  const char *name;
  void (*edit)(relay_plan *r);
  modes modes;
  wafer_status want;
  const char *words; /* in the place or the text of the message */
} edit_case;

/* ---- edits ---- */

static void drop_action(relay_plan *r, uint32_t phase, uint32_t at) {
  for (uint32_t a = at; a + 1 < r->phases[phase].action_count; a++)
    r->actions[phase][a] = r->actions[phase][a + 1];
  r->phases[phase].action_count--;
}
static uint32_t last_phase(const relay_plan *r) {
  return r->plan.phase_count - 1;
}

static void no_edit(relay_plan *r) {
  (void)r;
}
static void input_stream_removed(relay_plan *r) {
  drop_action(r, 0, 0);
}
static void output_stream_removed(relay_plan *r) {
  uint32_t p = last_phase(r);
  drop_action(r, p, r->phases[p].action_count - 1);
}
static void relayout_removed(relay_plan *r) {
  drop_action(r, last_phase(r), r->plan.phase_count == 1 ? 2 : 0);
}
static void weight_stream_removed(relay_plan *r) {
  drop_action(r, last_phase(r), r->plan.phase_count == 1 ? 3 : 1);
}
static void kernel_removed(relay_plan *r) {
  drop_action(r, 0, 1);
}
static void phases_swapped(relay_plan *r) {
  r->steps[0].phase = 1;
  r->steps[1].phase = 0;
}
static void phase_twice(relay_plan *r) {
  r->steps[1].phase = 0;
}
static void phase_unknown(relay_plan *r) {
  r->steps[0].phase = 9;
}
static void freed_early(relay_plan *r) {
  r->frees[0][r->phases[0].free_count++] = RELAY_H;
}
static void frees_unknown(relay_plan *r) {
  r->frees[0][r->phases[0].free_count++] = RELAY_VALUES;
}
static void kernel_before_input(relay_plan *r) {
  wafer_action first = r->actions[0][0];
  r->actions[0][0] = r->actions[0][1];
  r->actions[0][1] = first;
}
static void overlap(relay_plan *r) {
  r->kernels[1].rect.x = 0;
}
static void overlap_with_streams(relay_plan *r) {
  r->kernels[1].rect.x = 0;
  r->streams[RELAY_HAND_OVER].to.rect.x = r->streams[RELAY_WEIGHT].to.rect.x = 0;
  r->streams[RELAY_OUT].from.rect.x = 0;
  r->routes[RELAY_HAND_OVER].x1 = r->routes[RELAY_WEIGHT].x1 = r->routes[RELAY_OUT].x0 = 0;
  r->routes[RELAY_OUT].x1 = 0;
}
static void replicas_overlap(relay_plan *r) {
  r->kernels[0].replicas = 3;
  r->routes[RELAY_IN].x1 = 2;
}
static void replica_passed_by(relay_plan *r) {
  r->kernels[0].replicas = 2;
}
static void outside(relay_plan *r) {
  r->kernels[0].rect.x = r->machine.width;
}
static void wider_than_split(relay_plan *r) {
  r->kernels[0].rect.width = 2;
}
static void split_in_none(relay_plan *r) {
  r->kernels[0].split.rows[3] = 0;
}
static void split_beyond_extent(relay_plan *r) {
  r->kernels[0].split.rows[0] = 9;
}
static void split_of_no_loop(relay_plan *r) {
  r->kernels[0].split.cols[1] = 2;
}
static void no_slabs(relay_plan *r) {
  r->kernels[0].slabs = 0;
}
static void many_slabs(relay_plan *r) {
  r->kernels[0].slabs = 65;
}
static void no_replica(relay_plan *r) {
  r->kernels[0].replicas = 0;
}
static void cheaper(relay_plan *r) {
  r->kernels[1].cost.cycles--;
}
static void smaller(relay_plan *r) {
  r->kernels[1].cost.input_bytes--;
}
static void memory_map_off(relay_plan *r) {
  r->memory[1].bytes++;
}
static void byte_too_many(relay_plan *r) {
  r->machine.core_bytes =
      r->machine.reserved_bytes + (uint32_t)wafer_cost_bytes(&r->kernels[1].cost) - 1;
  r->phases[0].peak_core_bytes = r->phases[1].peak_core_bytes = 0;
}
static void peak_too_small(relay_plan *r) {
  r->phases[0].peak_core_bytes = 1;
}
static void peak_too_large(relay_plan *r) {
  r->phases[0].peak_core_bytes = r->machine.core_bytes;
}
static void color_unknown(relay_plan *r) {
  r->streams[RELAY_IN].color = r->machine.colors;
}
static void color_clash(relay_plan *r) { /* the output leaves from where the relayout comes in */
  r->streams[RELAY_OUT].color = r->streams[RELAY_HAND_OVER].color;
}
static void route_missing(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].route_count = 0;
}
static void route_slanted(relay_plan *r) {
  r->routes[RELAY_HAND_OVER].y1 = 1;
}
static void route_outside(relay_plan *r) {
  r->routes[RELAY_HAND_OVER].x1 = r->machine.width;
}
static void route_too_short(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].route = &r->routes[RELAY_IN];
}
static void words_off(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].words++;
}
static void no_buffer(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].depth = 0;
}
static void layout_rank(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].to.layout.rank = 2;
}
static void layout_wide(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].to.layout.cols[0] = 2;
}
static void stream_of_other_value(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].value = RELAY_X;
}
static void stream_of_no_value(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].value = RELAY_VALUES;
}
static void activation_from_store(relay_plan *r) {
  r->streams[RELAY_IN].from.where = WAFER_AT_memoryx;
}
static void into_store(relay_plan *r) {
  r->streams[RELAY_OUT].to.where = WAFER_AT_memoryx;
}
static void action_unknown(relay_plan *r) {
  r->actions[0][0].index = RELAY_STREAMS;
}
static void weight_unknown(relay_plan *r) {
  r->values[RELAY_W].weight = 2;
}
static void weight_of_other_type(relay_plan *r) {
  r->values[RELAY_W].type.dtype = WAFER_DTYPE_i32;
}
static void weight_as_activation(relay_plan *r) {
  r->values[RELAY_W].weight = WAFER_NONE;
}
static void output_is_weight(relay_plan *r) {
  r->function.outputs = &relay_numbers[RELAY_W];
}
static void value_without_type(relay_plan *r) {
  r->values[RELAY_V].type.dtype = WAFER_DTYPE_none;
}
static void value_negative(relay_plan *r) {
  r->values[RELAY_V].type.shape.dims[0] = -1;
}
static void operand_ahead(relay_plan *r) {
  r->nodes[0].operands[0] = 1;
}
static void operands_many(relay_plan *r) {
  r->nodes[0].operand_count = 1000;
}
static void op_unknown(relay_plan *r) {
  r->nodes[0].op = WAFER_OP_COUNT;
}
static void op_without_attrs(relay_plan *r) {
  r->nodes[0].op = WAFER_OP_clip;
}
static void op_of_other_family(relay_plan *r) {
  r->kernels[0].body.family = WAFER_FAMILY_gemm;
}
static void node_type_off(relay_plan *r) {
  r->nodes[0].type.shape.dims[0] = 4;
}
static void anchor_off(relay_plan *r) {
  r->kernels[0].body.anchor = 1;
}
static void output_is_input(relay_plan *r) {
  r->kernels[0].body.outputs = &relay_numbers[0];
}
static void nodes_many(relay_plan *r) {
  r->kernels[0].body.node_count = UINT32_MAX;
}
static void depth_zero(relay_plan *r) {
  r->depths[0] = 0;
}
static void storage_odd(relay_plan *r) {
  r->plan.storage = WAFER_DTYPE_i8;
}
static void batch_zero(relay_plan *r) {
  r->plan.batch = 0;
}
static void batch_unprovided(relay_plan *r) {
  r->plan.batch = 2;
}
static void stripes_uneven(relay_plan *r) {
  r->plan.stripes = 2;
  r->plan.stripe_columns = 4;
}
static void stripes_of_nothing(relay_plan *r) {
  r->plan.batch = r->plan.stripes = 2;
}
static void stripes_beyond(relay_plan *r) {
  r->plan.batch = r->plan.stripes = 2;
  r->plan.stripe_columns = r->machine.width;
}
static void stripes_narrow(relay_plan *r) {
  r->plan.batch = r->plan.stripes = 2;
  r->plan.stripe_columns = 1;
}
static void stripe_passed_by(relay_plan *r) {
  r->plan.batch = r->plan.stripes = 2;
  r->plan.stripe_columns = r->machine.width / 2;
}
static void mode_auto(relay_plan *r) {
  r->plan.mode = WAFER_MODE_auto;
}
static void no_function(relay_plan *r) {
  r->plan.function_count = 0;
}

static const edit_case edit_cases[] = {
    {"none", no_edit, BOTH, WAFER_OK, ""},
    {"input stream removed", input_stream_removed, BOTH, WAFER_TRAP, "Relu_0"},
    {"output stream removed", output_stream_removed, BOTH, WAFER_TRAP, "Add_1"},
    {"relayout removed", relayout_removed, BOTH, WAFER_TRAP, "Add_1"},
    {"weight stream removed", weight_stream_removed, BOTH, WAFER_TRAP, "Add_1"},
    {"kernel removed", kernel_removed, BOTH, WAFER_BAD_INPUT, "does not run after it"},
    {"phases swapped", phases_swapped, STREAMING, WAFER_TRAP, "'h'"},
    {"a phase twice", phase_twice, STREAMING, WAFER_BAD_INPUT, "first"},
    {"a phase that is not there", phase_unknown, BOTH, WAFER_BAD_INPUT, "step 0"},
    {"freed early", freed_early, STREAMING, WAFER_TRAP, "'h'"},
    {"frees what is not there", frees_unknown, BOTH, WAFER_BAD_INPUT, "frees"},
    {"kernel before its input", kernel_before_input, BOTH, WAFER_TRAP, "bend"},
    {"rectangle over another", overlap_with_streams, PIPELINED, WAFER_BAD_INPUT,
     "both lie on core (0, 0)"},
    {"rectangle without its streams", overlap, BOTH, WAFER_BAD_INPUT, "sum"},
    {"replicas over a neighbour", replicas_overlap, PIPELINED, WAFER_BAD_INPUT,
     "both lie on core (2, 0)"},
    {"a replica that a route leaves out", replica_passed_by, PIPELINED, WAFER_BAD_INPUT,
     "passes by replica 1, "},
    {"rectangle outside", outside, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"rectangle wider than the split", wider_than_split, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"split in no parts", split_in_none, BOTH, WAFER_BAD_INPUT, "loop 3"},
    {"split beyond the extent", split_beyond_extent, BOTH, WAFER_BAD_INPUT, "extent is 8"},
    {"split of no loop", split_of_no_loop, BOTH, WAFER_BAD_INPUT, "loop 1"},
    {"no slab", no_slabs, BOTH, WAFER_BAD_INPUT, "slabs"},
    {"65 slabs", many_slabs, BOTH, WAFER_BAD_INPUT, "slabs"},
    {"no replica", no_replica, BOTH, WAFER_BAD_INPUT, "replicas"},
    {"a cycle less", cheaper, BOTH, WAFER_BAD_INPUT, "cost of kernel 'sum' does not match"},
    {"a byte less", smaller, BOTH, WAFER_BAD_INPUT, "cost of kernel 'sum' does not match"},
    {"a memory map that does not add up", memory_map_off, BOTH, WAFER_BAD_INPUT, "memory map"},
    {"one byte too many", byte_too_many, BOTH, WAFER_NO_FIT, "bytes per core"},
    {"peak below a kernel", peak_too_small, BOTH, WAFER_BAD_INPUT, "first"},
    {"peak beyond a core", peak_too_large, BOTH, WAFER_NO_FIT, "first"},
    {"colour beyond the machine's", color_unknown, BOTH, WAFER_BAD_INPUT, "colour"},
    {"one colour from two sides", color_clash, BOTH, WAFER_BAD_INPUT, "another side"},
    {"no route", route_missing, BOTH, WAFER_BAD_INPUT, "route"},
    {"slanted route", route_slanted, BOTH, WAFER_BAD_INPUT, "straight"},
    {"route off the fabric", route_outside, BOTH, WAFER_BAD_INPUT, "straight run inside"},
    {"route that stops short", route_too_short, BOTH, WAFER_BAD_INPUT, "join"},
    {"words of another value", words_off, BOTH, WAFER_BAD_INPUT, "words"},
    {"stream without buffer", no_buffer, BOTH, WAFER_BAD_INPUT, "'h'"},
    {"layout of another rank", layout_rank, BOTH, WAFER_BAD_INPUT, "layout"},
    {"layout wider than its rectangle", layout_wide, BOTH, WAFER_BAD_INPUT, "parts"},
    {"stream of another value", stream_of_other_value, BOTH, WAFER_BAD_INPUT, "'x'"},
    {"stream of no value", stream_of_no_value, BOTH, WAFER_BAD_INPUT, "value 5"},
    {"an input from MemoryX", activation_from_store, BOTH, WAFER_BAD_INPUT, "no weight"},
    {"an output into MemoryX", into_store, BOTH, WAFER_BAD_INPUT, "'y'"},
    {"action of no stream", action_unknown, BOTH, WAFER_BAD_INPUT, "action 0"},
    {"weight that is not there", weight_unknown, BOTH, WAFER_BAD_INPUT, "weight 2"},
    {"weight of another type", weight_of_other_type, BOTH, WAFER_BAD_INPUT, "'w'"},
    {"weight taken for an activation", weight_as_activation, BOTH, WAFER_BAD_INPUT, "Add_1"},
    {"output that is a weight", output_is_weight, BOTH, WAFER_BAD_INPUT, "'w' is a weight"},
    {"value without element type", value_without_type, BOTH, WAFER_BAD_INPUT, "'v'"},
    {"value with a negative dim", value_negative, BOTH, WAFER_BAD_INPUT, "'v'"},
    {"operand of a later node", operand_ahead, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"a thousand operands", operands_many, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"op that is not there", op_unknown, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"op without its attributes", op_without_attrs, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"anchor of another family", op_of_other_family, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"node of another type", node_type_off, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"anchor beyond the nodes", anchor_off, BOTH, WAFER_BAD_INPUT, "bend"},
    {"output that no node makes", output_is_input, BOTH, WAFER_BAD_INPUT, "Relu_0"},
    {"too many nodes", nodes_many, BOTH, WAFER_BAD_INPUT, "bend"},
    {"depth of none", depth_zero, BOTH, WAFER_BAD_INPUT, "bend"},
    {"storage of integers", storage_odd, BOTH, WAFER_BAD_INPUT, "storage"},
    {"batch of none", batch_zero, BOTH, WAFER_BAD_INPUT, "batch"},
    {"batch without room", batch_unprovided, STREAMING, WAFER_BAD_INPUT, "bend"},
    {"stripes for no samples", stripes_uneven, STREAMING, WAFER_BAD_INPUT,
     "do not divide by 2 stripes"},
    {"stripes in a pipeline", stripes_uneven, PIPELINED, WAFER_BAD_INPUT, "2 stripes of 4 columns"},
    {"stripes of no columns", stripes_of_nothing, STREAMING, WAFER_BAD_INPUT,
     "2 stripes of 0 columns"},
    {"a stripe beyond the wafer", stripes_beyond, STREAMING, WAFER_BAD_INPUT,
     "does not fit into 2"},
    {"a stripe too narrow", stripes_narrow, STREAMING, WAFER_BAD_INPUT, "the first stripe has 1"},
    {"a stripe that a route leaves out", stripe_passed_by, STREAMING, WAFER_BAD_INPUT,
     "passes by stripe 1"},
    {"batch in a pipeline", batch_unprovided, PIPELINED, WAFER_BAD_INPUT, "batch"},
    {"no mode", mode_auto, BOTH, WAFER_BAD_INPUT, "mode"},
    {"no function", no_function, BOTH, WAFER_BAD_INPUT, "function"},
};

static void check_edit(const edit_case *c, wafer_mode mode) {
  static relay_plan r;
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *small;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &small), WAFER_OK);
  wafer_machine machine = *small;
  CU_ASSERT_FATAL(relay_init(&r, &machine, arena, mode));
  r.machine = machine;
  r.plan.machine = &r.machine;
  c->edit(&r);
  wafer_status got = wafer_plan_check(&diag, "relay.wplan", &r.plan);
  bool said = strstr(last.text, c->words) || strstr(last.place, c->words);
  bool ok = got == c->want && last.count == (got != WAFER_OK) && (got == WAFER_OK || said);
  if (!ok)
    printf("\n  %s, %s: %s, want %s and '%s'\n  %s: %s", c->name, wafer_mode_name(mode),
           wafer_status_text(got), wafer_status_text(c->want), c->words, last.place, last.text);
  CU_ASSERT(ok);
  wafer_arena_destroy(arena);
}

static void test_edits(void) {
  for (size_t i = 0; i < WAFER_COUNT(edit_cases); i++) {
    if (edit_cases[i].modes & PIPELINED) check_edit(&edit_cases[i], WAFER_MODE_pipelined);
    if (edit_cases[i].modes & STREAMING) check_edit(&edit_cases[i], WAFER_MODE_streaming);
  }
}

/* ---- memory ---- */

/* What an earlier phase leaves on a kernel's core counts with it: to the byte. */
static void test_held_bytes(void) {
  static relay_plan r;
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *small;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &small), WAFER_OK);
  wafer_machine machine = *small;
  CU_ASSERT_FATAL(relay_init(&r, &machine, arena, WAFER_MODE_streaming));
  overlap_with_streams(&r);   /* the second kernel on the first one's core */
  r.phases[0].free_count = 0; /* x, 8 numbers, stays beside its own x + w */
  uint32_t needed = (uint32_t)wafer_cost_bytes(&r.kernels[1].cost) + 8 * 4;
  r.phases[0].peak_core_bytes = r.phases[1].peak_core_bytes = needed - 1;
  machine.core_bytes = machine.reserved_bytes + needed;
  CU_ASSERT_EQUAL(wafer_plan_check(&diag, "relay.wplan", &r.plan), WAFER_OK);
  machine.core_bytes--;
  CU_ASSERT_EQUAL(wafer_plan_check(&diag, "relay.wplan", &r.plan), WAFER_NO_FIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "'x'"));
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "kernel 'sum' of node 'Add_1'"));
  wafer_arena_destroy(arena);
}

static uint32_t next(uint64_t *state, uint32_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % below;
}

static void test_heaviest(void) {
  enum { SIDE = 12, MOST = 20 };
  uint64_t state = 7;
  for (int round = 0; round < 200; round++) {
    wafer_arena *arena = wafer_arena_create();
    plan_weighed rects[MOST];
    uint64_t cores[SIDE][SIDE] = {{0}}, want = 0, got;
    size_t count = next(&state, MOST + 1);
    wafer_core_at at = {0, 0};
    for (size_t i = 0; i < count; i++) {
      wafer_rect r = {next(&state, SIDE), next(&state, SIDE), 0, 0};
      r.width = 1 + next(&state, SIDE - r.x), r.height = 1 + next(&state, SIDE - r.y);
      rects[i] = (plan_weighed){r, next(&state, 50)};
      for (uint32_t y = r.y; y < r.y + r.height; y++)
        for (uint32_t x = r.x; x < r.x + r.width; x++) cores[y][x] += rects[i].weight;
    }
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < SIDE; x++)
        if (cores[y][x] > want) want = cores[y][x];
    CU_ASSERT_FATAL(plan_check_heaviest(arena, count, rects, &got, &at));
    CU_ASSERT_EQUAL(got, want);
    CU_ASSERT(want == 0 || cores[at.y][at.x] == want);
    wafer_arena_destroy(arena);
  }
}

/* ---- host memory ---- */

static void test_out_of_memory(void) {
  static relay_plan r;
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *small;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &small), WAFER_OK);
  CU_ASSERT_FATAL(relay_init(&r, small, arena, WAFER_MODE_streaming));
  wafer_status status = WAFER_NO_MEMORY;
  for (size_t n = 1; status == WAFER_NO_MEMORY && n < 100; n++) {
    wafer_arena_fail_after(n);
    status = wafer_plan_check(NULL, "relay.wplan", &r.plan);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
  }
  CU_ASSERT_EQUAL(status, WAFER_OK);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_plan_edits[] = {
    {"each edit is refused by its law", test_edits},
    {"what lies beside a kernel counts to the byte", test_held_bytes},
    {"the heaviest core, against counting", test_heaviest},
    {"without host memory", test_out_of_memory},
    CU_TEST_INFO_NULL,
};
