/* tools/place/place_shapes.c: shape curves of the contest's kernels, against trying every split. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "tools/place/place.h"

typedef struct cost {
  uint64_t height, width, time;
  bool fits;
} cost;

static uint64_t ceil_of(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

/* The contest's formulas, in integers: time times unit; memory without a division. */
static cost cost_of(const contest *c, const contest_kernel *kernel, uint64_t unit,
                    const contest_split *s) {
  contest_conv v[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(kernel, v);
  cost all = {.fits = true};
  for (uint32_t i = 0; i < n; i++) {
    uint64_t ci = s->c[i], ki = s->k[i], h = s->h, w = s->w;
    uint64_t height = h * w * (ci + 1);
    uint64_t time = ceil_of(v[i].H, h) * ceil_of(v[i].W, w) * ceil_of(v[i].C, ci) *
                    ceil_of(v[i].K, ki) * v[i].R * v[i].S * unit / v[i].T / v[i].T;
    uint64_t words = v[i].C * v[i].K * v[i].R * v[i].S * w * h +
                     (v[i].W + v[i].S - 1) * (v[i].H + v[i].R - 1) * v[i].K * ci;
    if (words > c->memlimit * ci * ki * w * h) all.fits = false;
    if (height > all.height) all.height = height;
    if (time > all.time) all.time = time;
    all.width += 3 * ki;
  }
  return all;
}

/* What the tool says of a split is what the formulas say. */
static void check_measures(const contest *c, const contest_kernel *kernel, uint64_t unit,
                           const contest_split *s) {
  cost want = cost_of(c, kernel, unit, s);
  uint32_t width, height;
  contest_dims(kernel, s, &width, &height);
  CU_ASSERT_EQUAL(width, want.width);
  CU_ASSERT_EQUAL(height, want.height);
  CU_ASSERT_EQUAL(contest_time(c, kernel, unit, s), want.time);
}

/* Inside, and its sides as odd. */
static bool covers(uint32_t w, uint32_t h, uint64_t width, uint64_t height) {
  return w <= width && h <= height && (width - w) % 2 == 0 && (height - h) % 2 == 0;
}

/* Each shape is what its split says, and no split at all beats the curve. */
static void check_conv(const contest *c, const contest_kernel *kernel) {
  wafer_arena *arena = wafer_arena_create();
  uint64_t unit = kernel->T * kernel->T;
  wafer_placer_shapes shapes;
  CU_ASSERT_EQUAL_FATAL(contest_shapes(NULL, arena, c, kernel, unit, &shapes), WAFER_OK);
  for (uint32_t i = 0; i < shapes.count; i++) {
    contest_split s = contest_split_of(c, kernel, unit, &shapes.at[i]);
    cost got = cost_of(c, kernel, unit, &s);
    CU_ASSERT_TRUE(got.fits);
    CU_ASSERT_EQUAL(got.width, shapes.at[i].width);
    CU_ASSERT(got.height <= shapes.at[i].height);
    CU_ASSERT(got.time <= shapes.at[i].time);
    check_measures(c, kernel, unit, &s);
  }
  uint32_t missed = 0, tried = 0;
  for (uint32_t h = 1; h <= kernel->H; h++)
    for (uint32_t w = 1; w <= kernel->W; w++)
      for (uint32_t ci = 1; ci <= kernel->C; ci++)
        for (uint32_t ki = 1; ki <= kernel->K; ki++) {
          contest_split s = {h, w, {ci}, {ki}};
          cost got = cost_of(c, kernel, unit, &s);
          if (!got.fits || got.height > c->height || got.width > c->width) continue;
          tried++;
          bool covered = false;
          for (uint32_t i = 0; i < shapes.count && !covered; i++) {
            const wafer_placer_shape *q = &shapes.at[i];
            covered = q->time <= got.time && (covers(q->width, q->height, got.width, got.height) ||
                                              covers(q->height, q->width, got.width, got.height));
          }
          missed += !covered;
        }
  CU_ASSERT(tried > 100);
  CU_ASSERT_EQUAL(missed, 0);
  wafer_arena_destroy(arena);
}

static void convs(void) {
  static const uint64_t limits[] = {60, 200, 5000};
  for (size_t i = 0; i < WAFER_COUNT(limits); i++) {
    contest c = {.width = 48, .height = 48, .memlimit = limits[i]};
    contest_kernel plain = {
        .type = KERNEL_CONV, .name = "a", .H = 6, .W = 5, .R = 1, .S = 1, .C = 7, .K = 9, .T = 1};
    contest_kernel strided = {
        .type = KERNEL_CONV, .name = "b", .H = 7, .W = 4, .R = 3, .S = 3, .C = 5, .K = 12, .T = 2};
    check_conv(&c, &plain);
    check_conv(&c, &strided);
  }
}

/* Blocks: random splits never beat the curve. */
static void blocks(void) {
  contest c = {.width = 64, .height = 64, .memlimit = 900};
  for (int type = KERNEL_DBLOCK; type <= KERNEL_CBLOCK; type++) {
    wafer_arena *arena = wafer_arena_create();
    contest_kernel kernel = {.type = (kernel_type)type, .name = "b", .H = 6, .W = 8, .F = 16};
    wafer_placer_shapes shapes;
    CU_ASSERT_EQUAL_FATAL(contest_shapes(NULL, arena, &c, &kernel, 4, &shapes), WAFER_OK);
    uint32_t seed = 1, legal = 0, missed = 0;
    for (uint32_t round = 0; round < 200000; round++) {
      contest_split s = {.h = 1, .w = 1};
      uint32_t *part[] = {&s.h,    &s.w,    &s.c[0], &s.c[1], &s.c[2],
                          &s.c[3], &s.k[0], &s.k[1], &s.k[2], &s.k[3]};
      for (int i = 0; i < 10; i++) {
        seed = seed * 1664525u + 1013904223u;
        *part[i] = 1 + (seed >> 16) % (i < 2 ? 6 : 8);
      }
      cost got = cost_of(&c, &kernel, 4, &s);
      if (!got.fits || got.height > c.height || got.width > c.width) continue;
      legal++;
      bool covered = false;
      for (uint32_t i = 0; i < shapes.count && !covered; i++) {
        const wafer_placer_shape *q = &shapes.at[i];
        covered = q->time <= got.time && (covers(q->width, q->height, got.width, got.height) ||
                                          covers(q->height, q->width, got.width, got.height));
      }
      missed += !covered;
    }
    CU_ASSERT(legal > 100);
    CU_ASSERT_EQUAL(missed, 0);
    for (uint32_t i = 0; i < shapes.count; i++) {
      contest_split s = contest_split_of(&c, &kernel, 4, &shapes.at[i]);
      cost got = cost_of(&c, &kernel, 4, &s);
      CU_ASSERT(got.fits && got.width == shapes.at[i].width);
      CU_ASSERT(got.height <= shapes.at[i].height && got.time <= shapes.at[i].time);
      check_measures(&c, &kernel, 4, &s);
    }
    wafer_arena_destroy(arena);
  }
}

/* By hand: 1 x 1 image, one feature, one filter: one core high twice, three wide, time 1. */
static void smallest(void) {
  wafer_arena *arena = wafer_arena_create();
  contest c = {.width = 9, .height = 9, .memlimit = 2};
  contest_kernel k = {
      .type = KERNEL_CONV, .name = "a", .H = 1, .W = 1, .R = 1, .S = 1, .C = 1, .K = 1, .T = 1};
  wafer_placer_shapes shapes;
  CU_ASSERT_EQUAL_FATAL(contest_shapes(NULL, arena, &c, &k, 1, &shapes), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(shapes.count, 1);
  CU_ASSERT(shapes.at[0].width == 3 && shapes.at[0].height == 2 && shapes.at[0].time == 1);
  c.memlimit = 1;
  CU_ASSERT_EQUAL(contest_shapes(NULL, arena, &c, &k, 1, &shapes), WAFER_NO_FIT);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_place_shapes[] = {
    {"convolutions", convs}, {"blocks", blocks}, {"the smallest", smallest}, CU_TEST_INFO_NULL};
