/* tools/place/place_adapt.c, tools/place/place_fits.c: the splits that agree best, against all
 * there are; tools/place/place_rooms.c: free cores. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "tools/place/place.h"

#define KERNELS 4
#define MOST_SPLITS 2000

typedef struct net {
  contest c;
  contest_kernel kernels[KERNELS];
  wafer_placer_edge edges[KERNELS];
  wafer_placed rooms[KERNELS];
  uint64_t time;
  uint32_t count[KERNELS]; /* of all that fit */
  contest_split splits[KERNELS][MOST_SPLITS];
} net;

static uint32_t draw(uint64_t *state, uint32_t low, uint32_t high) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return low + (uint32_t)((*state >> 33) % (high - low + 1));
}

static bool fits(const net *n, uint32_t i, const contest_split *s) {
  uint32_t width, height, convs = n->kernels[i].type == KERNEL_CONV ? 1 : 3;
  const wafer_placed *room = &n->rooms[i];
  contest_dims(&n->kernels[i], s, &width, &height);
  for (uint32_t v = 0; v < convs; v++) {
    uint32_t least = contest_least_k(&n->c, &n->kernels[i], 1, n->time, s, v);
    if (!least || s->k[v] < least) return false;
  }
  return (room->turned ? height : width) <= room->width &&
         (room->turned ? width : height) <= room->height;
}

/* Convolutions, whose splits are four numbers. */
static void list_all(net *n, uint32_t i) {
  const contest_kernel *k = &n->kernels[i];
  n->count[i] = 0;
  for (uint32_t h = 1; h <= k->H; h++)
    for (uint32_t w = 1; w <= k->W; w++)
      for (uint32_t c = 1; c <= k->C; c++)
        for (uint32_t f = 1; f <= k->K; f++) {
          contest_split s = {h, w, {c}, {f}};
          if (n->count[i] < MOST_SPLITS && fits(n, i, &s)) n->splits[i][n->count[i]++] = s;
        }
}

/* The last edge closes a circle. */
static void make(net *n, uint64_t *state, bool circle) {
  static const wafer_placer_edge edges[KERNELS] = {{0, 1, 1}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1}};
  n->c = (contest){.width = 60,
                   .height = 60,
                   .memlimit = 200,
                   .count = KERNELS,
                   .edge_count = circle ? 4 : 3,
                   .kernels = n->kernels,
                   .edges = n->edges};
  memcpy(n->edges, edges, sizeof edges);
  n->time = draw(state, 20, 60);
  for (uint32_t i = 0; i < KERNELS; i++) {
    do {
      uint64_t side = draw(state, 2, 4), field = draw(state, 1, 2);
      n->kernels[i] = (contest_kernel){.type = KERNEL_CONV,
                                       .name = "k",
                                       .H = side,
                                       .W = side,
                                       .R = field,
                                       .S = field,
                                       .C = draw(state, 2, 6),
                                       .K = draw(state, 2, 6),
                                       .T = 1};
      n->rooms[i] = (wafer_placed){
          .turned = draw(state, 0, 1), .width = draw(state, 6, 24), .height = draw(state, 6, 24)};
      list_all(n, i);
    } while (!n->count[i] || n->count[i] > 60);
  }
}

static uint32_t least_of(const net *n, bool components) {
  uint32_t least = UINT32_MAX;
  contest_split s[KERNELS];
  for (uint32_t a = 0; a < n->count[0]; a++)
    for (uint32_t b = 0; b < n->count[1]; b++)
      for (uint32_t c = 0; c < n->count[2]; c++)
        for (uint32_t d = 0; d < n->count[3]; d++) {
          s[0] = n->splits[0][a], s[1] = n->splits[1][b];
          s[2] = n->splits[2][c], s[3] = n->splits[3][d];
          uint32_t now = contest_adapters(&n->c, s, components);
          if (now < least) least = now;
        }
  return least;
}

/* On trees nothing agrees better; on circles little does. */
static void check(bool circle, bool components, uint32_t *missed) {
  static net n;
  uint64_t state = 1 + circle + 2 * components;
  for (uint32_t tried = 0; tried < 12; tried++) {
    make(&n, &state, circle);
    contest_split s[KERNELS];
    for (uint32_t i = 0; i < KERNELS; i++) s[i] = n.splits[i][draw(&state, 0, n.count[i] - 1)];
    uint32_t before = contest_adapters(&n.c, s, components);
    CU_ASSERT_EQUAL_FATAL(contest_adapt(NULL, &n.c, 1, n.time, 0, n.rooms, components, s),
                          WAFER_OK);
    uint32_t after = contest_adapters(&n.c, s, components), least = least_of(&n, components);
    for (uint32_t i = 0; i < KERNELS; i++) CU_ASSERT(fits(&n, i, &s[i]));
    CU_ASSERT(after <= before);
    CU_ASSERT(after >= least);
    *missed += after - least;
  }
}

static void trees(void) {
  uint32_t missed = 0;
  check(false, true, &missed);
  check(false, false, &missed);
  CU_ASSERT_EQUAL(missed, 0);
}

static void circles(void) {
  uint32_t missed = 0;
  check(true, true, &missed);
  check(true, false, &missed);
  CU_ASSERT(missed <= 12);
}

/* A block's convolutions beside the first get all the features a row that the room has. */
static void blocks(void) {
  static net n;
  contest_kernel block = {.type = KERNEL_DBLOCK, .name = "b", .H = 4, .W = 4, .F = 16};
  n.kernels[0] = n.kernels[1] = block;
  n.c = (contest){.width = 60,
                  .height = 60,
                  .memlimit = 4000,
                  .count = 2,
                  .edge_count = 1,
                  .kernels = n.kernels,
                  .edges = n.edges};
  n.edges[0] = (wafer_placer_edge){0, 1, 1};
  n.rooms[0] = (wafer_placed){.width = 48, .height = 20};
  n.rooms[1] = (wafer_placed){.turned = true, .width = 24, .height = 48};
  n.time = 400;
  contest_split s[2] = {{1, 1, {16, 4, 4}, {1, 1, 2}}, {2, 2, {5, 4, 4}, {1, 1, 2}}};
  CU_ASSERT_EQUAL(contest_adapt(NULL, &n.c, 1, n.time, 0, n.rooms, true, s), WAFER_OK);
  CU_ASSERT(fits(&n, 0, &s[0]));
  CU_ASSERT(fits(&n, 1, &s[1]));
  CU_ASSERT_EQUAL(contest_adapters(&n.c, s, true), 0);
}

static bool apart(const wafer_placed *a, const wafer_placed *b) {
  return a->x + a->width <= b->x || b->x + b->width <= a->x || a->y + a->height <= b->y ||
         b->y + b->height <= a->y;
}

static bool legal(const contest *c, const wafer_placed *at) {
  for (uint32_t i = 0; i < c->count; i++) {
    if (at[i].x + at[i].width > c->width || at[i].y + at[i].height > c->height) return false;
    for (uint32_t k = 0; k < i; k++)
      if (!apart(&at[i], &at[k])) return false;
  }
  return true;
}

/* Rooms keep middles and overlap nowhere. */
static void rooms(void) {
  contest c = {.width = 40, .height = 30, .count = 3};
  wafer_placed at[3] = {{.x = 0, .y = 0, .width = 10, .height = 10},
                        {.x = 30, .y = 2, .width = 6, .height = 4},
                        {.x = 12, .y = 20, .width = 8, .height = 3}};
  wafer_placed room[3];
  contest_rooms(&c, at, room);
  CU_ASSERT(legal(&c, room));
  for (uint32_t i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(2 * at[i].x + at[i].width, 2 * room[i].x + room[i].width);
    CU_ASSERT_EQUAL(2 * at[i].y + at[i].height, 2 * room[i].y + room[i].height);
  }
  CU_ASSERT_EQUAL(room[1].width, 12); /* twice as wide, at most */
  CU_ASSERT_EQUAL(room[1].height, 8);
}

CU_TestInfo tests_place_adapt[] = {{"the best of trees", trees},
                                   {"circles", circles},
                                   {"blocks of convolutions", blocks},
                                   {"free cores", rooms},
                                   CU_TEST_INFO_NULL};
