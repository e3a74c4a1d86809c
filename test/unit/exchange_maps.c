/* Exchanges on the emulator that transpose, slice, pad, repeat and look up. */
#include <CUnit/CUnit.h>

#include "exchange_scene.h"

/* A target and its map from `shape`; tables are the arena's. */
typedef struct mapped {
  wafer_shape shape;
  index_map map;
} mapped;

static mapped transposed(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = {.rank = shape->rank}};
  int64_t perm[WAFER_MAX_RANK];
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    uint32_t j = dice_roll(d, i + 1);
    perm[i] = perm[j];
    perm[j] = i;
  }
  for (uint32_t i = 0; i < shape->rank; i++) m.shape.dims[i] = shape->dims[perm[i]];
  m.map = index_transpose(shape->rank, perm);
  return m;
}

/* Slices with steps either way, pads, parts of concatenations: a * i + b. */
static mapped sliced(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = *shape, .map = index_identity()};
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    int64_t a = (int64_t)dice_roll(d, 5) - 2, over = (int64_t)dice_roll(d, 4) - 2;
    m.shape.dims[i] = 1 + dice_roll(d, 10);
    m.map.dim[i].a = a ? a : 1;
    m.map.dim[i].b = a < 0 ? shape->dims[i] - 1 - over : over;
  }
  return m;
}

/* Dims of one index repeat, others are picked out; ranks differ. */
static mapped expanded(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.map = index_identity()};
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    if (dice_roll(d, 4) == 0) m.shape.dims[m.shape.rank++] = 1 + dice_roll(d, 5);
    if (m.shape.rank == 5) break;
    if (dice_roll(d, 3) == 0) {
      m.map.dim[i] = (index_dim){INDEX_CONSTANT, 0, dice_roll(d, (uint32_t)shape->dims[i]), NULL};
      continue;
    }
    m.map.dim[i].dim = (int)m.shape.rank;
    m.shape.dims[m.shape.rank++] = shape->dims[i];
  }
  for (uint32_t i = 0; i < shape->rank; i++)
    if (m.map.dim[i].dim >= (int)m.shape.rank)
      m.map.dim[i] = (index_dim){INDEX_CONSTANT, 0, 0, NULL};
  if (!m.shape.rank) m.shape = (wafer_shape){1, {3}};
  return m;
}

static mapped gathered(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = *shape, .map = index_identity()};
  uint32_t axis = dice_roll(d, shape->rank);
  m.shape.dims[axis] = 1 + dice_roll(d, 14);
  int64_t *table = WAFER_NEW(s->arena, int64_t, (size_t)m.shape.dims[axis]);
  for (int64_t i = 0; i < m.shape.dims[axis]; i++)
    table[i] = (int64_t)dice_roll(d, (uint32_t)shape->dims[axis] + 1) - 1;
  m.map.dim[axis].table = table;
  return m;
}

typedef mapped make_map(scene *s, dice *d, const wafer_shape *shape);

static void exchange_mapped(uint32_t seed, make_map *make, accuracy *a) {
  dice d = {seed + 77};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + dice_roll(&d, 4)};
  wafer_rect rect = {0};
  scene_begin(&s);
  wafer_dtype dtype = dice_dtype(&d);
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + dice_roll(&d, 7);
  wafer_layout one = dice_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &one, &shape, dtype, 0, &from));
  mapped m = make(&s, &d, &shape);
  wafer_layout other = dice_layout(&d, m.shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &other, &m.shape, dtype, scene_after(&from), &to));
  CU_ASSERT(scene_exchange(&s, &from, &to, &m.map, seed, a));
  scene_end(&s);
}

static void test_maps(void) {
  static const struct {
    const char *name;
    make_map *make;
  } maps[] = {
      {"transpose", transposed}, {"slice", sliced}, {"expand", expanded}, {"gather", gathered}};
  for (size_t i = 0; i < WAFER_COUNT(maps); i++) {
    accuracy a = {0};
    for (uint32_t seed = 0; seed < 80; seed++) exchange_mapped(seed, maps[i].make, &a);
    accuracy_judge(maps[i].name, &a, 0.08);
  }
}

CU_TestInfo tests_exchange_maps[] = {{"maps", test_maps}, CU_TEST_INFO_NULL};
