/* Exchanges on the emulator between spreads and the border of the wafer. */
#include <CUnit/CUnit.h>

#include "exchange_scene.h"

/* Elements of a port in its order; `words`: of its wavelets, filled (into the fabric) or read. */
static uint32_t port_words(const wafer_port_use *use, uint32_t bytes, uint32_t *words,
                           int64_t *seen) {
  uint32_t at = 0, per = bytes < 4 ? 4 / bytes : 1;
  for (uint32_t b = 0; b < use->box_count; b++) {
    const wafer_port_box *box = &use->boxes[b];
    uint32_t count = 0;
    for (uint32_t i = 0; i < box->shape[0]; i++)
      for (uint32_t j = 0; j < box->shape[1]; j++)
        for (uint32_t k = 0; k < box->shape[2]; k++)
          for (uint32_t l = 0; l < box->shape[3]; l++, count++) {
            int64_t index = box->first + i * box->stride[0] + j * box->stride[1] +
                            k * box->stride[2] + l * box->stride[3];
            uint64_t value = scene_element(index);
            unsigned char *place = (unsigned char *)&words[at] + (size_t)count * bytes;
            if (!use->out)
              memcpy(place, &value, bytes);
            else if (memcmp(place, &value, bytes) != 0)
              return UINT32_MAX;
            if (seen) seen[index]++;
          }
    at += bytes < 8 ? (count + per - 1) / per : 2 * count;
  }
  return at;
}

static uint32_t port_count_words(const wafer_port_use *use, uint32_t bytes) {
  uint32_t at = 0, per = bytes < 4 ? 4 / bytes : 1;
  for (uint32_t b = 0; b < use->box_count; b++) {
    const uint32_t *n = use->boxes[b].shape;
    uint32_t count = n[0] * n[1] * n[2] * n[3];
    at += bytes < 8 ? (count + per - 1) / per : 2 * count;
  }
  return at;
}

static bool run_border(scene *s, const spread *t, bool out, int64_t *seen) {
  uint32_t bytes = (uint32_t)wafer_dtype_bytes(t->dtype);
  exchange x = {.diag = &s->diag,
                .machine = &s->machine,
                .from = out ? t : NULL,
                .to = out ? NULL : t,
                .map = index_identity(),
                .scratch = scene_after(t),
                .scratch_room = 20000,
                .value = 7,
                .border_rate = s->border_rate};
  if (exchange_border(&x, &s->f) != WAFER_OK || !scene_load(s)) return false;
  uint32_t **words = WAFER_NEW(s->arena, uint32_t *, s->ports.count);
  for (uint32_t i = 0; i < s->ports.count; i++) {
    const wafer_port_use *use = &s->ports.at[i];
    uint32_t count = port_count_words(use, bytes);
    words[i] = WAFER_NEW(s->arena, uint32_t, count);
    CU_ASSERT(use->value == 7 && use->x == 0 && use->out == out);
    if (!out) port_words(use, bytes, words[i], seen);
    wafer_status status =
        out ? wafer_fabric_drain(s->fabric, use->x, use->y, (wafer_port)use->side, use->color,
                                 words[i], count, 0, NULL)
            : wafer_fabric_feed(s->fabric, use->x, use->y, (wafer_port)use->side, use->color,
                                words[i], count, WAFER_CONTROL_none, 0);
    if (status != WAFER_OK) return false;
  }
  if (out && !scene_for_all(s, t, scene_fill, NULL)) return false;
  if (wafer_fabric_run(s->fabric, &s->stats) != WAFER_OK) return false;
  for (uint32_t i = 0; out && i < s->ports.count; i++)
    if (port_words(&s->ports.at[i], bytes, words[i], seen) == UINT32_MAX) return false;
  index_map same = index_identity();
  scene_wanted w = {t, &same};
  return out || scene_for_all(s, t, scene_check, &w);
}

static void cross_border(uint32_t seed, bool out, accuracy *a) {
  dice d = {seed + 5000 * out};
  scene s;
  spread t;
  wafer_shape shape = {.rank = dice_roll(&d, 4)};
  wafer_rect rect = {0};
  int64_t elements = 1;
  scene_begin(&s);
  wafer_dtype dtype = dice_dtype(&d);
  for (uint32_t i = 0; i < shape.rank; i++) elements *= shape.dims[i] = 1 + dice_roll(&d, 12);
  wafer_layout layout = dice_layout(&d, shape.rank, &rect);
  rect.x = dice_roll(&d, SCENE_WIDTH - rect.width + 1);
  rect.y = dice_roll(&d, SCENE_HEIGHT - rect.height + 1);
  CU_ASSERT(spread_of_layout(s.arena, rect, &layout, &shape, dtype, 0, &t));
  int64_t *seen = WAFER_NEW(s.arena, int64_t, (size_t)elements);
  bool done = run_border(&s, &t, out, seen);
  if (!done) printf("\n  seed %u: %s %s", seed, s.caught.place, s.caught.text);
  CU_ASSERT(done);
  for (int64_t i = 0; i < elements; i++) CU_ASSERT_EQUAL(seen[i], 1); /* each crosses once */
  if (done) accuracy_note(a, seed, scene_predicted(&s), s.stats.cycles);
  scene_end(&s);
}

static void test_border(void) {
  accuracy in = {0}, out = {0};
  for (uint32_t seed = 0; seed < 120; seed++) {
    cross_border(seed, false, &in);
    cross_border(seed, true, &out);
  }
  accuracy_judge("in", &in, 0.1);
  accuracy_judge("out", &out, 0.05);
}

/* 24 x 5 elements, the first dim in as many parts of rows and columns as said, come in, so many
 * words a cycle (0: no limit); ports. */
static uint32_t load(const wafer_layout *layout, uint64_t words, uint64_t *most_cycles) {
  scene s;
  spread t;
  scene_begin(&s);
  const wafer_shape shape = {2, {24, 5}};
  s.border_rate = words * WAFER_WAVELET_BYTES * s.machine.clock_hz;
  CU_ASSERT(
      spread_of_layout(s.arena, (wafer_rect){3, 2, 8, 12}, layout, &shape, WAFER_DTYPE_f32, 0, &t));
  int64_t *seen = WAFER_NEW(s.arena, int64_t, 120);
  CU_ASSERT(run_border(&s, &t, false, seen));
  for (int64_t i = 0; i < 120; i++) CU_ASSERT_EQUAL(seen[i], 1);
  CU_ASSERT(s.stats.cycles <= *most_cycles);
  *most_cycles = s.stats.cycles;
  uint32_t ports = s.ports.count;
  scene_end(&s);
  return ports;
}

/* What all columns hold alike comes in at one row of those that hold it, and branches. */
static void test_trunks(void) {
  wafer_layout all = {
      .rank = 2, .rows = {1, 1}, .cols = {1, 1}, .row_stride = {1, 1}, .col_stride = {1, 1}};
  wafer_layout blocks = all, interleaved = all;
  uint64_t cycles = 120 + 60, third = 40 + 60, any = UINT64_MAX;
  blocks.rows[0] = interleaved.rows[0] = 3;
  blocks.row_stride[0] = 4;
  CU_ASSERT_EQUAL(load(&all, 0, &cycles), 1);
  CU_ASSERT_EQUAL(load(&blocks, 0, &third), 3);
  CU_ASSERT(load(&interleaved, 0, &any) > 3);
}

/* No more rows than keep the border busy share what they hold alike, where columns do not. */
static void test_lanes(void) {
  wafer_layout halves = {
      .rank = 2, .rows = {1, 1}, .cols = {2, 1}, .row_stride = {1, 1}, .col_stride = {1, 1}};
  uint64_t any = UINT64_MAX;
  CU_ASSERT_EQUAL(load(&halves, 0, &any), 12);
  any = UINT64_MAX;
  CU_ASSERT_EQUAL(load(&halves, 3, &any), 3);
  any = UINT64_MAX;
  CU_ASSERT_EQUAL(load(&halves, 1, &any), 2); /* one for each half */
}

CU_TestInfo tests_exchange_border[] = {{"border", test_border},
                                       {"what all columns hold branches off a trunk", test_trunks},
                                       {"as many rows as keep the border busy", test_lanes},
                                       CU_TEST_INFO_NULL};
