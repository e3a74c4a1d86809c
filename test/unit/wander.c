/* `wander` of the options: where every kernel is pinned, a search for the pace of programs takes
 * one of the layouts near the pins, the same one each time. */
#include <CUnit/CUnit.h>

#include "compiled.h"
#include "wafer/placement.h"

#define NET                                                                                        \
  "in x f32 64x192; Softmax(axis=1) x -> a; Softmax(axis=0) a -> b; Softmax(axis=1) b -> c; "      \
  "Softmax(axis=0) c -> d; Mul a d -> y; out y"
#define KERNELS 4 /* the product is behind the last */

typedef struct layout {
  wafer_rect rect[KERNELS];
  wafer_split split[KERNELS];
} layout;

static wafer_options options_of(uint32_t wander, wafer_pins *pins) {
  return (wafer_options){.mode = WAFER_MODE_pipelined,
                         .programs = WAFER_PROGRAMS_always,
                         .placer = WAFER_PLACER_best,
                         .place_moves = 1000,
                         .bands = 1,
                         .relays = WAFER_RELAYS_none,
                         .wander = wander,
                         .pin_count = pins ? pins->pin_count : 0,
                         .pins = pins ? pins->pins : NULL};
}

/* `keep`: gets pins, in `arena`. */
static void laid_out(uint32_t wander, wafer_pins *pins, wafer_arena *arena, wafer_pins *keep,
                     layout *out) {
  wafer_options options = options_of(wander, pins);
  compiled m;
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, NET), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(m.plan->kernel_count, KERNELS);
  CU_ASSERT(m.plan->launch_count > 0);
  CU_ASSERT_EQUAL(wafer_plan_verify(NULL, m.plan), WAFER_OK);
  *out = (layout){0};
  for (uint32_t k = 0; k < KERNELS; k++) {
    out->rect[k] = m.plan->kernels[k].rect;
    out->split[k] = m.plan->kernels[k].split;
  }
  if (keep) {
    CU_ASSERT_EQUAL_FATAL(wafer_pins_of(NULL, arena, m.plan, keep), WAFER_OK);
    wafer_pin *own = wafer_arena_copy(arena, keep->pins, keep->pin_count * sizeof *own);
    for (uint32_t k = 0; k < KERNELS; k++) {
      own[k].kernel = wafer_arena_printf(arena, "%s", own[k].kernel);
      own[k].kept = false;
    }
    keep->pins = own;
  }
  compiled_end(&m);
}

static void one_nearby(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_pins pins;
  layout first, held, near, again;
  uint32_t others = 0;
  laid_out(0, NULL, arena, &pins, &first);
  laid_out(0, &pins, arena, NULL, &held);
  CU_ASSERT_EQUAL(memcmp(&first, &held, sizeof first), 0);
  for (uint32_t nth = 1; nth <= 8; nth++) {
    laid_out(nth, &pins, arena, NULL, &near);
    laid_out(nth, &pins, arena, NULL, &again);
    CU_ASSERT_EQUAL(memcmp(&near, &again, sizeof near), 0);
    others += memcmp(&near, &first, sizeof near) != 0;
  }
  CU_ASSERT(others > 4);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_wander[] = {
    {"a layout near the pins", one_nearby},
    CU_TEST_INFO_NULL,
};
