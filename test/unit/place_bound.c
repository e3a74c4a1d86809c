/* tools/place/place_ways.c, tools/place/place_bound.c: no split and no layout is below them, tried
 * one by one.
 */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>

#include "tools/place/place.h"

#define MOST_SPLITS 40000

/* All splits of a kernel that fit the wafer, up to `most` of each number. */
typedef struct splits {
  uint32_t count;
  contest_split *at;
} splits;

/* The next one, no number above `most` nor above what it divides. */
static bool next_split(const contest_kernel *k, uint32_t most, contest_split *s) {
  contest_conv v[KERNEL_MOST_CONVS];
  uint32_t convs = contest_convs(k, v), n = 2;
  uint32_t *digits[2 + 2 * KERNEL_MOST_CONVS] = {&s->h, &s->w};
  uint64_t ends[2 + 2 * KERNEL_MOST_CONVS] = {k->H, k->W};
  for (uint32_t i = 0; i < convs; i++) {
    ends[n] = v[i].C, digits[n++] = &s->c[i];
    ends[n] = v[i].K, digits[n++] = &s->k[i];
  }
  for (uint32_t i = 0; i < n; i++) {
    if (++*digits[i] <= ends[i] && *digits[i] <= most) return true;
    *digits[i] = 1;
  }
  return false;
}

static bool enough_memory(const contest *c, const contest_kernel *k, const contest_split *s) {
  uint32_t convs = contest_convs(k, (contest_conv[KERNEL_MOST_CONVS]){{0}});
  for (uint32_t i = 0; i < convs; i++) {
    uint32_t least = contest_least_k(c, k, 1, UINT64_MAX, s, i);
    if (!least || s->k[i] < least) return false;
  }
  return true;
}

static splits all_splits(const contest *c, const contest_kernel *k, uint32_t most) {
  splits all = {0, calloc(MOST_SPLITS, sizeof *all.at)};
  contest_split s = {1, 1, {1, 1, 1, 1}, {1, 1, 1, 1}};
  CU_ASSERT_PTR_NOT_NULL_FATAL(all.at);
  do {
    uint32_t width, height;
    contest_dims(k, &s, &width, &height);
    if (!contest_fits(c, width, height) || !enough_memory(c, k, &s)) continue;
    CU_ASSERT_FATAL(all.count < MOST_SPLITS);
    all.at[all.count++] = s;
  } while (next_split(k, most, &s));
  return all;
}

static bool covered(const contest_ways *ways, uint32_t in, uint32_t out, uint32_t width,
                    uint32_t height) {
  for (uint32_t i = 0; i < ways->count; i++) {
    const contest_way *e = &ways->at[i];
    if (e->in == in && e->out <= out && e->height <= height &&
        e->width + 3 * (out - e->out) <= width)
      return true;
  }
  return false;
}

/* Each split that keeps a time takes and gives as a way does that is no larger. */
static void check_ways(const contest *c, const contest_kernel *k, uint32_t most) {
  wafer_arena *arena = wafer_arena_create();
  splits all = all_splits(c, k, most);
  const contest_divisions *d = contest_list_divisions(arena, c, k, 1);
  contest_ways ways = {0};
  uint32_t missed = 0, tried = 0;
  for (uint64_t time = 4; time < 20000; time = time * 3 / 2) {
    CU_ASSERT_FATAL(contest_list_ways(d, time, &ways));
    for (uint32_t i = 0; i < all.count; i++) {
      uint32_t width, height;
      if (contest_time(c, k, 1, &all.at[i]) > time) continue;
      contest_dims(k, &all.at[i], &width, &height);
      missed += !covered(&ways, all.at[i].c[0], all.at[i].k[contest_last_conv(k)], width, height);
      tried++;
    }
  }
  CU_ASSERT(tried > 1000);
  CU_ASSERT_EQUAL(missed, 0);
  free(ways.at);
  free(all.at);
  wafer_arena_destroy(arena);
}

static void ways(void) {
  contest c = {.width = 40, .height = 30, .memlimit = 120};
  contest_kernel square = {
      .type = KERNEL_CONV, .name = "a", .H = 6, .W = 6, .R = 3, .S = 3, .C = 7, .K = 9, .T = 1};
  contest_kernel oblong = {
      .type = KERNEL_CONV, .name = "b", .H = 7, .W = 4, .R = 1, .S = 3, .C = 5, .K = 12, .T = 1};
  contest_kernel block = {.type = KERNEL_DBLOCK, .name = "c", .H = 3, .W = 3, .F = 8};
  check_ways(&c, &square, 9);
  check_ways(&c, &oblong, 9);
  c.memlimit = 400;
  check_ways(&c, &block, 8);
}

/* The best of two kernels beside or on each other, whatever their splits. */
static double best_of_two(const contest_job *j) {
  const contest *c = &j->contest;
  double best = INFINITY;
  splits of[2] = {all_splits(c, &c->kernels[0], 8), all_splits(c, &c->kernels[1], 8)};
  for (uint32_t a = 0; a < of[0].count; a++)
    for (uint32_t b = 0; b < of[1].count; b++)
      for (int turns = 0; turns < 4; turns++) {
        contest_split two[2] = {of[0].at[a], of[1].at[b]};
        uint32_t w[2], h[2];
        for (int i = 0; i < 2; i++)
          if (turns >> i & 1)
            contest_dims(&c->kernels[i], &two[i], &h[i], &w[i]);
          else
            contest_dims(&c->kernels[i], &two[i], &w[i], &h[i]);
        bool beside = w[0] + w[1] <= c->width && h[0] <= c->height && h[1] <= c->height;
        bool above = h[0] + h[1] <= c->height && w[0] <= c->width && w[1] <= c->width;
        uint32_t apart = beside ? w[0] + w[1] + (h[0] + h[1]) % 2 : UINT32_MAX;
        if (above && h[0] + h[1] + (w[0] + w[1]) % 2 < apart)
          apart = h[0] + h[1] + (w[0] + w[1]) % 2;
        if (!beside && !above) continue;
        double time = fmax((double)contest_time(c, &c->kernels[0], 1, &two[0]),
                           (double)contest_time(c, &c->kernels[1], 1, &two[1]));
        best = fmin(best, (double)c->wdeltat * time + 0.5 * (double)c->wlength * apart +
                              (double)c->wadapter * contest_adapters(c, two, j->components));
      }
  free(of[0].at);
  free(of[1].at);
  return best;
}

static double bound_of(contest_job *j, double until, double best) {
  static const uint32_t kind[2] = {0, 1};
  wafer_arena *arena = wafer_arena_create();
  j->unit = 1;
  j->problem = (wafer_placer_problem){.kind_count = 2, .kind = kind};
  j->problem.time_weight = (double)j->contest.wdeltat;
  j->problem.wire_weight = (double)j->contest.wlength;
  j->placement = (wafer_placement){.time_bound = 1, .score_bound = 1};
  CU_ASSERT_EQUAL(contest_bound(NULL, arena, j, until, &best), WAFER_OK);
  wafer_arena_destroy(arena);
  return best;
}

/* Images of one place, so that only features and filters can disagree, and agree at a loss alone:
 * the dearer adapters are, the higher the bound, never above the best of all layouts. */
static void two_kernels(void) {
  contest_kernel kernels[2] = {
      {.type = KERNEL_CONV, .name = "a", .H = 1, .W = 1, .R = 3, .S = 3, .C = 8, .K = 8, .T = 1},
      {.type = KERNEL_CONV, .name = "b", .H = 1, .W = 1, .R = 2, .S = 2, .C = 2, .K = 8, .T = 1}};
  wafer_placer_edge edge = {0, 1, 1};
  contest_job j = {.contest = {.width = 24,
                               .height = 20,
                               .wdeltat = 1,
                               .wlength = 1,

                               .memlimit = 500,
                               .count = 2,
                               .edge_count = 1,
                               .kernels = kernels,
                               .edges = &edge}};
  double before = 0;
  for (uint64_t adapter = 1; adapter <= 9; adapter += 4)
    for (int components = 0; components < 2; components++) {
      j.contest.wadapter = adapter, j.components = components;
      double best = best_of_two(&j), bound = bound_of(&j, 0, 10 * best);
      CU_ASSERT(bound <= best + 1e-9);
      CU_ASSERT(bound >= 0.75 * best);
      CU_ASSERT(bound >= before);
      before = bound;
    }
  j.contest.wadapter = 1;
  double without = bound_of(&j, 0, 1e6);
  CU_ASSERT(before > without + 6);                        /* adapters count */
  CU_ASSERT(bound_of(&j, 0, without - 1) <= without - 1); /* a layout's score is none too high */
  CU_ASSERT_EQUAL(bound_of(&j, 1e-9, 1e6), 1); /* no time: that of the engine's least time */
}

CU_TestInfo tests_place_bound[] = {
    {"all ways are listed", ways}, {"two kernels", two_kernels}, CU_TEST_INFO_NULL};
