/* Exchanges on the emulator that bring one tensor to several rectangles at once. */
#include <CUnit/CUnit.h>

#include "exchange_scene.h"

#define MOST_TARGETS 3

/* Adds the exchanges, together or one behind the other, and runs them. */
static bool run_to(scene *s, const spread *from, const spread *to, uint32_t count, bool together) {
  exchange x[MOST_TARGETS];
  int32_t end = scene_after(from);
  for (uint32_t i = 0; i < count; i++)
    if (scene_after(&to[i]) > end) end = scene_after(&to[i]);
  for (uint32_t i = 0; i < count; i++)
    x[i] = (exchange){.diag = &s->diag,
                      .machine = &s->machine,
                      .from = from,
                      .to = &to[i],
                      .map = index_identity(),
                      .scratch = end,
                      .scratch_room = 20000};
  wafer_status status = together ? exchange_add_together(x, count, &s->f) : WAFER_OK;
  for (uint32_t i = 0; i < count && !together && status == WAFER_OK; i++)
    status = exchange_add(&x[i], &s->f);
  return status == WAFER_OK && scene_load(s) && scene_for_all(s, from, scene_fill, NULL) &&
         wafer_fabric_run(s->fabric, &s->stats) == WAFER_OK;
}

static void check_to(scene *s, const spread *from, const spread *to, uint32_t count,
                     uint32_t seed) {
  index_map map = index_identity();
  scene_wanted w = {from, &map};
  for (uint32_t i = 0; i < count; i++) {
    bool right = scene_for_all(s, &to[i], scene_check, &w);
    CU_ASSERT(right);
    if (!right) printf("\n  seed %u, target %u: %s", seed, i, s->caught.text);
  }
}

/* Targets of any cuts on one side of the source, or below it, most of which share some of its rows,
 * or columns; some lie beside the one before, so that words on their way to both meet. */
static void to_random(uint32_t seed, accuracy *a) {
  dice d = {seed};
  scene s;
  spread at[1 + MOST_TARGETS];
  bool down = dice_roll(&d, 2), back = dice_roll(&d, 2);
  uint32_t count = 2 + dice_roll(&d, MOST_TARGETS - 1), next = 0;
  wafer_shape shape = {.rank = 1 + dice_roll(&d, 3)};
  int32_t end = 0;
  wafer_rect last = {0};
  scene_begin(&s);
  wafer_dtype dtype = dice_dtype(&d);
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + dice_roll(&d, 16);
  for (uint32_t i = 0; i <= count; i++) {
    uint32_t one = back ? count - i : i; /* the source is the first of a row, or its last */
    wafer_rect rect = {0};
    wafer_layout layout = dice_layout(&d, shape.rank, &rect);
    uint32_t *along = down ? &rect.y : &rect.x, *across = down ? &rect.x : &rect.y;
    *along = next;
    *across = dice_roll(&d, 3);
    if (i > !back && i < count + !back && dice_roll(&d, 3) == 0) {
      *along = down ? last.y : last.x;
      *across = down ? last.x + last.width : last.y + last.height;
    }
    uint32_t behind = *along + (down ? rect.height : rect.width);
    if (behind > next) next = behind;
    next += dice_roll(&d, 2);
    last = rect;
    CU_ASSERT(spread_of_layout(s.arena, rect, &layout, &shape, dtype, end, &at[one]));
    end = scene_after(&at[one]);
    if (rect.x + rect.width > SCENE_WIDTH || rect.y + rect.height > SCENE_HEIGHT) next = UINT16_MAX;
  }
  if (next < UINT16_MAX) {
    CU_ASSERT(run_to(&s, &at[0], &at[1], count, true));
    check_to(&s, &at[0], &at[1], count, seed);
    if (s.stats.cycles) accuracy_note(a, seed, scene_predicted(&s), s.stats.cycles);
  }
  scene_end(&s);
}

static void test_random(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 1500; seed++) to_random(seed, &a);
  CU_ASSERT(a.runs > 200);
  accuracy_judge("together", &a, 0.12);
}

/* Words on their way to the last target lay where those to the one before it came, which goes by
 * itself. */
static void test_apart(void) {
  static const uint32_t seeds[] = {19462, 29354, 32988};
  accuracy a = {0};
  for (uint32_t i = 0; i < WAFER_COUNT(seeds); i++) to_random(seeds[i], &a);
  CU_ASSERT(a.runs == WAFER_COUNT(seeds));
}

/* One target takes all of a row in each core, the other a part of the channels in each: senders
 * send what they have once, and filters part it. */
static uint64_t to_two(wafer_dtype dtype, bool together) {
  scene s;
  spread from, to[2];
  wafer_shape shape = {2, {64, 24}};
  wafer_layout cut = {2, {1, 4}, {4, 1}, {1, 1}, {1, 1}, {0}},
               rows = {2, {1, 4}, {1, 1}, {1, 1}, {1, 1}, {0}},
               parts = {2, {1, 4}, {8, 1}, {1, 1}, {1, 1}, {0}};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){0, 2, 4, 4}, &cut, &shape, dtype, 0, &from));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){4, 2, 3, 4}, &rows, &shape, dtype,
                             scene_after(&from), &to[0]));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){9, 2, 8, 4}, &parts, &shape, dtype,
                             scene_after(&to[0]), &to[1]));
  CU_ASSERT(run_to(&s, &from, to, 2, together));
  check_to(&s, &from, to, 2, together);
  uint64_t cycles = s.stats.cycles;
  scene_end(&s);
  return cycles;
}

static void test_once(void) {
  CU_ASSERT(to_two(WAFER_DTYPE_f32, true) < to_two(WAFER_DTYPE_f32, false) * 7 / 10);
  CU_ASSERT(to_two(WAFER_DTYPE_f16, true) < to_two(WAFER_DTYPE_f16, false) * 8 / 10);
}

CU_TestInfo tests_exchange_together[] = {
    {"random", test_random}, {"apart", test_apart}, {"once", test_once}, CU_TEST_INFO_NULL};
