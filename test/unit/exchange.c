/* Exchanges on the emulator: every element arrives, whatever the spreads, and about when predicted.
 */
#include <CUnit/CUnit.h>

#include "exchange_scene.h"

/* A tensor in one random layout goes to another; some have few elements and many dims, some the
 * other way about. */
static void exchange_random(uint32_t seed, bool large, int32_t times, accuracy *a) {
  dice d = {seed + 1000 * large};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + dice_roll(&d, large ? 2 : 4)};
  wafer_rect rect = {0};
  scene_begin(&s);
  s.times = times;
  wafer_dtype dtype = dice_dtype(&d);
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + dice_roll(&d, large ? 40 : 9);
  wafer_layout one = dice_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &one, &shape, dtype, 0, &from));
  wafer_layout other = dice_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &other, &shape, dtype, scene_after(&from), &to));
  index_map map = index_identity();
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, seed, a));
  scene_end(&s);
}

/* Apart: side by side, one above the other, or neither. */
static void exchange_apart(uint32_t seed, bool large, accuracy *a) {
  dice d = {seed};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + dice_roll(&d, 3)};
  wafer_rect one = {0}, other = {0};
  scene_begin(&s);
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + dice_roll(&d, large ? 24 : 12);
  wafer_layout from_layout = dice_layout(&d, shape.rank, &one);
  wafer_layout to_layout = dice_layout(&d, shape.rank, &other);
  bool fits = one.width + other.width <= SCENE_WIDTH || one.height + other.height <= SCENE_HEIGHT;
  if (one.width + other.width <= SCENE_WIDTH) {
    one.x = dice_roll(&d, SCENE_WIDTH - one.width - other.width + 1);
    other.x = one.x + one.width + dice_roll(&d, SCENE_WIDTH - one.x - one.width - other.width + 1);
    one.y = dice_roll(&d, SCENE_HEIGHT - one.height + 1);
    other.y = dice_roll(&d, SCENE_HEIGHT - other.height + 1);
  } else if (fits) {
    one.y = dice_roll(&d, SCENE_HEIGHT - one.height - other.height + 1);
    other.y =
        one.y + one.height + dice_roll(&d, SCENE_HEIGHT - one.y - one.height - other.height + 1);
    one.x = dice_roll(&d, SCENE_WIDTH - one.width + 1);
    other.x = dice_roll(&d, SCENE_WIDTH - other.width + 1);
  }
  CU_ASSERT(spread_of_layout(s.arena, one, &from_layout, &shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(spread_of_layout(s.arena, other, &to_layout, &shape, WAFER_DTYPE_f32,
                             scene_after(&from), &to));
  index_map map = index_identity();
  bool back = dice_roll(&d, 2) == 1;
  if (fits)
    CU_ASSERT(back ? scene_exchange(&s, &to, &from, &map, seed, a)
                   : scene_exchange(&s, &from, &to, &map, seed, a));
  scene_end(&s);
}

/* Words on their way to one target lie nowhere but on its own way: not on cores beyond it, which
 * words to another pass. */
static void test_scratch_of_each(void) {
  scene s;
  spread from, to[2];
  wafer_rect where[2];
  wafer_shape shape = {2, {12, 8}};
  wafer_layout tall = {2, {6, 1}, {1, 4}, {1, 1}, {1, 1}, {0}},
               flat = {2, {1, 3}, {4, 1}, {1, 1}, {1, 1}, {0}};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){2, 5, 4, 3}, &flat, &shape, WAFER_DTYPE_f32, 0,
                             &from));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){8, 3, 4, 6}, &tall, &shape, WAFER_DTYPE_f32,
                             scene_after(&from), &to[0]));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){20, 3, 4, 6}, &tall, &shape, WAFER_DTYPE_f32,
                             scene_after(&from), &to[1]));
  exchange x[2];
  for (int i = 0; i < 2; i++)
    x[i] = (exchange){.machine = &s.machine, .from = &from, .to = &to[i], .map = index_identity()};
  CU_ASSERT(exchange_scratch_at(x, 2, where) > 0);
  CU_ASSERT(wafer_rect_area(where[0]) > 0 && where[0].x + where[0].width <= 12);
  CU_ASSERT(wafer_rect_area(where[1]) > 0 && where[1].x >= 20);
  scene_end(&s);
}

/* Rectangles that share rows: the cores of other rows and columns do nothing. */
static void test_between(void) {
  scene s;
  spread from, to;
  wafer_shape shape = {2, {12, 8}};
  wafer_layout tall = {2, {6, 1}, {1, 4}, {1, 1}, {1, 1}, {0}},
               flat = {2, {1, 3}, {4, 1}, {1, 1}, {1, 1}, {0}};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){2, 3, 4, 6}, &tall, &shape, WAFER_DTYPE_f32, 0,
                             &from));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){20, 7, 4, 3}, &flat, &shape, WAFER_DTYPE_f32,
                             scene_after(&from), &to));
  exchange x = {.machine = &s.machine, .from = &from, .to = &to, .map = index_identity()};
  wafer_rect where;
  CU_ASSERT(exchange_scratch_at(&x, 1, &where) > 0);
  CU_ASSERT(where.x == 2 && where.width == 22 && where.y >= 3 && where.y + where.height <= 10);
  index_map map = index_identity();
  accuracy a = {0};
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, 0, &a));
  for (uint32_t y = 0; y < SCENE_HEIGHT; y++)
    for (uint32_t x_at = 0; x_at < SCENE_WIDTH; x_at++) {
      bool in_from = x_at >= 2 && x_at < 6 && y >= 3 && y < 9;
      bool in_to = x_at >= 20 && x_at < 24 && y >= 7 && y < 10;
      CU_ASSERT(in_from || in_to || s.f.variant[y * SCENE_WIDTH + x_at] == FRAGMENT_IDLE);
    }
  scene_end(&s);
}

/* A row's words all belong to one column, where they would wait for their way along it: more than
 * a core has room for. Columns first they are spread, though a link carries more. */
static void test_room(void) {
  scene s;
  spread from, to;
  wafer_shape shape = {3, {64, 64, 9}};
  wafer_layout one = {3, {4, 1, 1}, {1, 4, 1}, {1, 1, 1}, {1, 1, 1}, {0}},
               other = {3, {1, 1, 4}, {4, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
  const wafer_rect rect = {0, 0, 4, 4};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, rect, &one, &shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(
      spread_of_layout(s.arena, rect, &other, &shape, WAFER_DTYPE_f32, scene_after(&from), &to));
  index_map map = index_identity();
  exchange x = {.machine = &s.machine, .from = &from, .to = &to, .map = map};
  uint64_t waits = exchange_scratch(&x);
  x.scratch_room = (uint32_t)waits - 1;
  CU_ASSERT(exchange_scratch(&x) < waits);
  accuracy a = {0};
  CU_ASSERT(waits > 20000); /* the room of a scene */
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, 0, &a));
  scene_end(&s);
}

/* Nine rows of a source, eight of which the target shares: they have an eighth of the words each,
 * not three of them all words because three is what divides nine. */
static void test_even_lanes(void) {
  scene s;
  spread from, to;
  wafer_shape shape = {3, {24, 2, 216}};
  wafer_layout nine = {3, {1, 1, 9}, {3, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}},
               eight = {3, {1, 2, 1}, {1, 1, 12}, {1, 4, 1}, {1, 1, 1}, {0}};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){2, 3, 3, 9}, &nine, &shape, WAFER_DTYPE_f32, 0,
                             &from));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){5, 3, 12, 8}, &eight, &shape, WAFER_DTYPE_f32,
                             scene_after(&from), &to));
  index_map map = index_identity();
  accuracy a = {0};
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, 0, &a));
  CU_ASSERT(a.counted < 24 * 2 * 216 / 3);
  scene_end(&s);
}

/* Does a core outside of both rectangles take part? */
static bool uses_others(const scene *s, wafer_rect from, wafer_rect to) {
  bool uses = false;
  for (uint32_t y = 0; y < SCENE_HEIGHT; y++)
    for (uint32_t x = 0; x < SCENE_WIDTH; x++) {
      wafer_rect core = {x, y, 1, 1};
      bool own = wafer_rect_overlaps(core, from) || wafer_rect_overlaps(core, to);
      uses |= !own && s->f.variant[y * SCENE_WIDTH + x] != FRAGMENT_IDLE;
    }
  return uses;
}

/* A low source beside a tall target of which each column needs everything: in how many cycles. */
static uint64_t exchange_beside(bool turned, const wafer_rect *other, accuracy *a) {
  scene s;
  spread from, to;
  wafer_shape shape = {3, {12, 24, 24}};
  wafer_layout low = {3, {2, 4, 1}, {1, 1, 4}, {4, 1, 1}, {1, 1, 1}, {0}},
               tall = {3, {1, 24, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
  wafer_rect one = {2, 10, 4, 8}, two = {6, 4, 8, 24};
  if (turned) {
    low = (wafer_layout){3, {1, 1, 4}, {2, 4, 1}, {1, 1, 1}, {4, 1, 1}, {0}};
    tall = (wafer_layout){3, {1, 1, 1}, {1, 24, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
    one = (wafer_rect){10, 2, 8, 4};
    two = (wafer_rect){4, 6, 24, 8};
  }
  scene_begin(&s);
  s.others = other;
  s.other_count = other != NULL;
  index_map map = index_identity();
  CU_ASSERT(spread_of_layout(s.arena, one, &low, &shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(
      spread_of_layout(s.arena, two, &tall, &shape, WAFER_DTYPE_f32, scene_after(&from), &to));
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, 0, a));
  CU_ASSERT(uses_others(&s, one, two) == !other);
  uint64_t cycles = s.stats.cycles;
  scene_end(&s);
  return cycles;
}

/* Cores beside the source pass words on where they are free; else they are sorted in the source, so
 * that each goes into the target near its place. */
static void test_beside(void) {
  accuracy a = {0};
  for (int turned = 0; turned < 2; turned++) {
    static const wafer_rect above[] = {{3, 0, 2, 5}, {0, 3, 5, 2}};
    uint64_t around = exchange_beside(turned, NULL, &a);
    uint64_t within = exchange_beside(turned, &above[turned], &a);
    CU_ASSERT(around < 3500);
    CU_ASSERT(within < 5500 && within > around);
  }
  accuracy_judge("beside", &a, 0.06);
}

static void test_apart(void) {
  accuracy a = {0}, large = {0};
  for (uint32_t seed = 0; seed < 200; seed++) exchange_apart(seed, false, &a);
  for (uint32_t seed = 1000; seed < 1100; seed++) exchange_apart(seed, true, &large);
  accuracy_judge("apart", &a, 0.06);
  accuracy_judge("apart, many elements", &large, 0.06);
}

static void test_identity(void) {
  accuracy small = {0}, large = {0};
  for (uint32_t seed = 0; seed < 200; seed++) exchange_random(seed, false, 1, &small);
  for (uint32_t seed = 0; seed < 100; seed++) exchange_random(seed, true, 1, &large);
  accuracy_judge("few elements", &small, 0.06);
  accuracy_judge("many elements", &large, 0.07);
}

/* The same buses serve sample after sample: switches and filters are back where they began. */
static void test_train(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 80; seed++) exchange_random(seed, seed % 4 == 0, 5, &a);
}

/* ---- halos ---- */

/* Dim d gets the indices that windows of so many taps at its results need, with the indices outside
 * the tensor in its buffer. */
static bool under_windows(wafer_arena *arena, spread *s, uint32_t d, uint32_t taps) {
  spread_dim *dim = &s->dim[d];
  uint32_t parts = dim->rows * dim->cols;
  int64_t before = taps / 2, reach = 0;
  spread_part *part = WAFER_NEW(arena, spread_part, parts);
  if (!part) return false;
  for (uint32_t p = 0; p < parts; p++) {
    if (!dim->part[p].count) continue;
    const spread_run *own = dim->part[p].runs;
    int64_t from = own->lo - before, to = own->hi - before + taps - 1;
    int64_t lo = from > 0 ? from : 0, hi = to < dim->extent ? to : dim->extent;
    if (reach < to - from) reach = to - from;
    spread_run *run = WAFER_NEW(arena, spread_run, 1);
    if (!run) return false;
    *run = (spread_run){(int32_t)lo, (int32_t)hi, (int32_t)(lo - from)};
    part[p] = (spread_part){lo < hi, run};
  }
  dim->part = part;
  dim->buffer = (int32_t)reach;
  spread_pack(s);
  return true;
}

/* Windows over tiles: every core takes from cores near to it, at the same time. */
static uint64_t exchange_windows(const wafer_layout *layout, wafer_rect rect,
                                 const wafer_shape *shape, uint32_t taps, uint32_t seed,
                                 accuracy *a) {
  scene s;
  spread from, to;
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, rect, layout, shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(
      spread_of_layout(s.arena, rect, layout, shape, WAFER_DTYPE_f32, scene_after(&from), &to));
  for (uint32_t i = 1; i < 3; i++) CU_ASSERT(under_windows(s.arena, &to, i, taps));
  index_map map = index_identity();
  CU_ASSERT(scene_exchange(&s, &from, &to, &map, seed, a));
  CU_ASSERT(s.f.colors <= 8);
  uint64_t cycles = s.stats.cycles;
  scene_end(&s);
  return cycles;
}

static void test_windows(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 60; seed++) {
    dice d = {seed};
    uint32_t rows = 1 + dice_roll(&d, 12), cols = 1 + dice_roll(&d, 12),
             taps = 1 + dice_roll(&d, 5);
    wafer_shape shape = {3,
                         {1 + dice_roll(&d, 3), rows * (1 + dice_roll(&d, 3)) - dice_roll(&d, 2),
                          1 + dice_roll(&d, 40)}};
    wafer_layout layout = {3, {1, rows, 1}, {1, 1, cols}, {1, 1, 1}, {1, 1, 1}, {0}};
    exchange_windows(&layout, (wafer_rect){0, 0, cols, rows}, &shape, taps, seed, &a);
  }
  accuracy_judge("windows", &a, 0.05);
}

/* Two dims are cut over the same rows: neighbours in one of them are `inner` rows away, those in
 * the other one beside each other. */
static wafer_layout strided(uint32_t outer, uint32_t inner) {
  return (wafer_layout){3, {1, outer, inner}, {1, 1, 1}, {1, inner, 1}, {1, 1, 1}, {0}};
}

static void test_strided_windows(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 60; seed++) {
    dice d = {seed};
    uint32_t inner = 2 + dice_roll(&d, 9), outer = 2 + dice_roll(&d, 32 / inner - 1);
    uint32_t taps = 2 + dice_roll(&d, 2);
    wafer_shape shape = {
        3, {1 + dice_roll(&d, 3), outer * (1 + dice_roll(&d, 6)), inner * (1 + dice_roll(&d, 6))}};
    wafer_layout layout = strided(outer, inner);
    exchange_windows(&layout, (wafer_rect){0, 0, 1, outer * inner}, &shape, taps, seed, &a);
  }
  accuracy_judge("strided windows", &a, 0.14);
}

/* 16 words for the row beside and one for that 10 rows away: on one bus all 17 would go 10 rows
 * far. */
static void test_near_words(void) {
  accuracy a = {0};
  wafer_layout layout = strided(3, 10);
  wafer_shape shape = {3, {1, 48, 10}};
  CU_ASSERT(exchange_windows(&layout, (wafer_rect){0, 0, 1, 30}, &shape, 3, 0, &a) < 16 * 10);
}

CU_TestInfo tests_exchange[] = {
    {"identity", test_identity},        {"apart", test_apart},
    {"between", test_between},          {"scratch of each", test_scratch_of_each},
    {"ways that have room", test_room}, {"even lanes", test_even_lanes},
    {"beside each other", test_beside}, {"train", test_train},
    {"windows", test_windows},          {"strided windows", test_strided_windows},
    {"near words", test_near_words},    CU_TEST_INFO_NULL};
