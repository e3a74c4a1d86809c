/* frontend/expand/expand_move.c: what Tile becomes has parts for the cores. */
#include <CUnit/CUnit.h>

#include "compiled.h"

/* Views one behind the other, of which no core had a part: 26 kB did not fit a wafer. */
static void several_dims_are_repeated(void) {
  static const char *const graphs[] = {
      "in x f32 2x50x64; init r i64 3 = 1 2 2; Relu x -> h; Tile h r -> y; out y",
      "in x f32 1x3x32x32; init r i64 4 = 4 1 2 2; Relu x -> h; Tile h r -> y; out y",
      "in x f32 8x24x24x3; init r i64 4 = 1 2 2 1; Relu x -> h; Tile h r -> y; out y"};
  static const wafer_mode modes[] = {WAFER_MODE_pipelined, WAFER_MODE_streaming};
  for (size_t i = 0; i < WAFER_COUNT(graphs) * WAFER_COUNT(modes); i++) {
    const wafer_options options = {.mode = modes[i % WAFER_COUNT(modes)],
                                   .programs = WAFER_PROGRAMS_never};
    compiled m;
    CU_ASSERT_EQUAL(compiled_text(&m, NULL, &options, graphs[i / WAFER_COUNT(modes)]), WAFER_OK);
    compiled_end(&m);
  }
}

CU_TestInfo tests_tile[] = {
    {"several dims are repeated", several_dims_are_repeated},
    CU_TEST_INFO_NULL,
};
