/* Laws of a plan that a hostile one breaks with little text: dead cores, routes, counts. Whole
 * broken plans are test/plan/broken.sh. */
#include <CUnit/CUnit.h>

#include "relay_plan.h"

typedef struct fixture {
  wafer_arena *arena;
  wafer_machine machine;
  relay_plan relay;
} fixture;

static fixture *prepare(void) {
  static fixture f;
  const wafer_machine *small;
  f.arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "small16", &small) == WAFER_OK);
  f.machine = *small;
  CU_ASSERT_FATAL(relay_init(&f.relay, &f.machine, f.arena, WAFER_MODE_pipelined));
  return &f;
}

static wafer_status check(fixture *f) {
  return wafer_plan_check(NULL, "relay.wplan", &f->relay.plan);
}

static void finds_dead_cores(void) {
  static const wafer_core_at dead[] = {{5, 0}, {0, 1}, {9, 1}, {15, 15}};
  fixture *f = prepare();
  f->machine.dead = dead;
  f->machine.dead_count = WAFER_COUNT(dead);
  CU_ASSERT(check(f) == WAFER_OK);
  for (uint32_t x = 0; x < 3; x++) { /* the kernels' cores, and one that routes cross */
    const wafer_core_at on_row[] = {{x, 0}, {0, 1}};
    f->machine.dead = on_row;
    f->machine.dead_count = WAFER_COUNT(on_row);
    CU_ASSERT(check(f) == WAFER_BAD_INPUT);
  }
  wafer_arena_destroy(f->arena);
}

/* Each turn of the route costs two numbers of text and may cross the whole fabric. */
static void stops_where_a_route_meets_itself(void) {
  enum { TURNS = 200000 };
  fixture *f = prepare();
  wafer_route_segment *route = WAFER_NEW(f->arena, wafer_route_segment, TURNS + 1);
  CU_ASSERT_FATAL(route != NULL);
  f->machine.width = f->machine.height = 16384;
  for (uint32_t i = 0; i < TURNS; i++)
    route[i] =
        i % 2 ? (wafer_route_segment){16383, 0, 0, 0} : (wafer_route_segment){0, 0, 16383, 0};
  route[TURNS] = (wafer_route_segment){0, 0, 2, 0};
  f->relay.streams[RELAY_HAND_OVER].route = route;
  f->relay.streams[RELAY_HAND_OVER].route_count = TURNS + 1;
  CU_ASSERT(check(f) == WAFER_BAD_INPUT);
  wafer_arena_destroy(f->arena);
}

static void refuses_many_functions(void) {
  fixture *f = prepare();
  wafer_function *functions = WAFER_NEW(f->arena, wafer_function, 1025);
  CU_ASSERT_FATAL(functions != NULL);
  for (int i = 0; i < 1025; i++) functions[i] = (wafer_function){.name = "more"};
  functions[0] = f->relay.function;
  f->relay.plan.functions = functions;
  f->relay.plan.function_count = 1024;
  CU_ASSERT(check(f) == WAFER_OK);
  f->relay.plan.function_count = 1025;
  CU_ASSERT(check(f) == WAFER_BAD_INPUT);
  wafer_arena_destroy(f->arena);
}

CU_TestInfo tests_plan_check[] = {
    {"finds dead cores under kernels and routes", finds_dead_cores},
    {"stops where a route meets itself", stops_where_a_route_meets_itself},
    {"refuses many functions", refuses_many_functions},
    CU_TEST_INFO_NULL,
};
