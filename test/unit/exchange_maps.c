/* Exchanges on the emulator that transpose, slice, pad, repeat and look up. */
#include <CUnit/CUnit.h>

#include "exchange/exchange_joint.h"
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
  m.map.dim[axis].table = index_table_of(s->arena, table, m.shape.dims[axis]);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m.map.dim[axis].table);
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

enum { EXTENT = 40, PARTS = 5 };

/* Runs of some of the indices. `taken`: NULL, or those that no other part may have. */
static spread_part some_runs(wafer_arena *arena, dice *d, bool *taken) {
  spread_run *runs = WAFER_NEW(arena, spread_run, EXTENT);
  spread_part part = {0, runs};
  int32_t at = 0;
  CU_ASSERT_PTR_NOT_NULL_FATAL(runs);
  for (int32_t i = 0; i < EXTENT; i++) {
    if ((taken && taken[i]) || dice_roll(d, 3)) continue;
    if (taken) taken[i] = true;
    bool longer = part.count && runs[part.count - 1].hi == i && dice_roll(d, 4);
    if (longer)
      runs[part.count - 1].hi++;
    else
      runs[part.count++] = (spread_run){i, i + 1, at};
    at++;
  }
  return part;
}

static int32_t place_of(const spread_part *part, int64_t index) {
  for (uint32_t r = 0; r < part->count; r++)
    if (part->runs[r].lo <= index && index < part->runs[r].hi)
      return part->runs[r].at + (int32_t)index - part->runs[r].lo;
  return -1;
}

/* The pieces, in their order, are what the target's indices take of the source, one by one. */
static bool is_met(const spread_part *source, const spread_part *target, const index_dim *map,
                   const joint_list *list) {
  uint32_t piece = 0;
  int32_t done = 0;
  for (int64_t i = 0; i < EXTENT; i++) {
    int32_t dst = place_of(target, i);
    int32_t src = place_of(source, map->table ? map->table->at[i] : map->a * i + map->b);
    if (dst < 0 || src < 0) continue;
    const joint_piece *p = &list->at[piece];
    if (piece == list->count || p->dst + done != dst || p->src + done * p->step != src)
      return false;
    if (++done < p->count) continue;
    piece++;
    done = 0;
  }
  return piece == list->count;
}

/* Every p-th of windows that overlap. */
static spread_part window_of(wafer_arena *arena, int32_t p) {
  spread_run *run = WAFER_NEW(arena, spread_run, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(run);
  *run = (spread_run){6 * p, 6 * p + 10, 0};
  return (spread_part){1, run};
}

/* Parts of many short runs, alone and together, whether or not targets have indices in common, and
 * windows. */
static void test_parts_meet(void) {
  wafer_arena *arena = wafer_arena_create();
  for (uint64_t seed = 1; seed <= 400; seed++) {
    dice d = {seed};
    int64_t table[EXTENT];
    bool taken[EXTENT] = {0}, apart = dice_roll(&d, 2);
    index_dim map = {.a = (int64_t)dice_roll(&d, 5) - 2, .b = dice_roll(&d, EXTENT)};
    for (int i = 0; i < EXTENT; i++) table[i] = (int64_t)dice_roll(&d, EXTENT + 3) - 1;
    if (seed % 8 == 0) /* some steps are even */
      for (int i = 0; i < EXTENT; i++) table[i] = i % 11 * (i / 11 - 1) + 7;
    if (seed % 4 == 0) map.table = index_table_of(arena, table, EXTENT);
    spread_part source = some_runs(arena, &d, NULL), target[PARTS];
    for (int p = 0; p < PARTS; p++)
      target[p] = seed % 3 ? some_runs(arena, &d, apart ? taken : NULL) : window_of(arena, p);
    const joint_many *many = joint_many_of(arena, target, PARTS);
    joint_list all[PARTS], one;
    CU_ASSERT_FATAL(many && joint_pieces_of(arena, &source, many, &map, all));
    for (int p = 0; p < PARTS; p++) {
      CU_ASSERT_FATAL(joint_pieces(arena, &source, &target[p], &map, &one));
      CU_ASSERT(is_met(&source, &target[p], &map, &one));
      CU_ASSERT(is_met(&source, &target[p], &map, &all[p]));
    }
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_exchange_maps[] = {
    {"maps", test_maps}, {"parts meet", test_parts_meet}, CU_TEST_INFO_NULL};
