/* Launches: what crosses the border, and the contents of a program file. */
#include "wafer/launch.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "backend/launch/memory_map.h"
#include "compiled.h"
#include "runtime/session/port.h"

static const wafer_port_box boxes[] = {
    {.first = 1, .shape = {1, 1, 2, 3}, .stride = {0, 0, 8, 2}},
    {.first = 20, .shape = {1, 1, 1, 1}, .stride = {0, 0, 0, 0}},
};
static const wafer_port_use port = {.value = 3,
                                    .x = 0,
                                    .y = 7,
                                    .side = WAFER_PORT_west,
                                    .color = 5,
                                    .first = 2,
                                    .every = 3,
                                    .box_count = 2,
                                    .boxes = boxes};

static void test_pack(void) {
  uint16_t tensor[24], back[24] = {0};
  uint32_t words[4];
  for (uint16_t i = 0; i < 24; i++) tensor[i] = (uint16_t)(100 + i);
  CU_ASSERT_EQUAL(port_words(&port, 2), 4); /* six elements in pairs, one alone */
  port_pack(&port, 2, tensor, words);
  CU_ASSERT_EQUAL(words[0], 101u | 103u << 16);
  CU_ASSERT_EQUAL(words[1], 105u | 109u << 16);
  CU_ASSERT_EQUAL(words[3], 120u);
  port_unpack(&port, 2, words, back);
  for (uint16_t i = 0; i < 24; i++) {
    bool carried = i == 1 || i == 3 || i == 5 || i == 9 || i == 11 || i == 13 || i == 20;
    CU_ASSERT_EQUAL(back[i], carried ? tensor[i] : 0);
  }
}

static void test_fits(void) {
  uint64_t count;
  wafer_port_box far = {.first = 4, .shape = {1, 1, 1, 2}, .stride = {0, 0, 0, INT64_MAX}};
  wafer_port_use other = {.box_count = 1, .boxes = &far};
  CU_ASSERT(wafer_port_fits(&port, 21, &count));
  CU_ASSERT_EQUAL(count, 7);
  CU_ASSERT(!wafer_port_fits(&port, 20, &count)); /* the last lies behind the end */
  CU_ASSERT(!wafer_port_fits(&other, INT64_MAX, &count));
  far = (wafer_port_box){.first = 3, .shape = {1, 1, 1, 5}, .stride = {0, 0, 0, -1}};
  CU_ASSERT(!wafer_port_fits(&other, 100, &count)); /* before the beginning */
  far = (wafer_port_box){.shape = {UINT32_MAX, UINT32_MAX, 4, 4}};
  CU_ASSERT(!wafer_port_fits(&other, 100, &count));
}

/* A replica's samples; a file whose port has none is refused. */
static void test_samples(void) {
  wafer_port_use never = port;
  const wafer_launch_body body = {.program = {"program", 7}, .port_count = 1, .ports = &never};
  wafer_arena *arena = wafer_arena_create();
  wafer_launch_body back;
  wafer_bytes bytes;
  for (uint64_t i = 0; i < 9; i++) CU_ASSERT_EQUAL(wafer_port_carries(&port, i), i % 3 == 2);
  never.first = never.every;
  CU_ASSERT_FATAL(wafer_launch_write(arena, &body, &bytes));
  CU_ASSERT_EQUAL(wafer_launch_read(NULL, "f", arena, bytes, &back), WAFER_BAD_INPUT);
  wafer_arena_destroy(arena);
}

static bool same_body(const wafer_launch_body *a, const wafer_launch_body *b) {
  return a->port_count == b->port_count && a->data_count == b->data_count &&
         a->part_count == b->part_count && a->program.size == b->program.size &&
         a->ports[0].box_count == b->ports[0].box_count &&
         !memcmp(a->ports[0].boxes, b->ports[0].boxes, sizeof boxes) &&
         a->ports[0].color == b->ports[0].color && a->ports[0].side == b->ports[0].side &&
         a->ports[0].first == b->ports[0].first && a->ports[0].every == b->ports[0].every &&
         a->parts[1] == b->parts[1] && a->data[0].address == b->data[0].address &&
         a->data[0].cores.height == b->data[0].cores.height &&
         !memcmp(a->data[0].bytes.data, b->data[0].bytes.data, b->data[0].bytes.size) &&
         !memcmp(a->program.data, b->program.data, b->program.size);
}

static void test_file(void) {
  static const uint32_t parts[] = {0, 300};
  const wafer_launch_data data = {.cores = {1, 2, 3, 400}, .address = 4096, .bytes = {"abcd", 4}};
  const wafer_launch_body body = {.program = {"program", 7},
                                  .part_count = 2,
                                  .parts = parts,
                                  .port_count = 1,
                                  .ports = &port,
                                  .data_count = 1,
                                  .data = &data};
  wafer_arena *arena = wafer_arena_create();
  wafer_launch_body back;
  wafer_bytes bytes, again;
  CU_ASSERT_FATAL(wafer_launch_write(arena, &body, &bytes));
  CU_ASSERT_FATAL(wafer_launch_read(NULL, "f", arena, bytes, &back) == WAFER_OK);
  CU_ASSERT(same_body(&back, &body));
  CU_ASSERT_FATAL(wafer_launch_write(arena, &back, &again));
  CU_ASSERT(again.size == bytes.size && !memcmp(again.data, bytes.data, bytes.size));
  for (size_t size = 0; size < bytes.size; size++) { /* cut off anywhere */
    const wafer_bytes cut = {wafer_arena_copy(arena, bytes.data, size), size};
    CU_ASSERT_EQUAL(wafer_launch_read(NULL, "f", arena, cut, &back), WAFER_BAD_INPUT);
  }
  for (size_t i = 0; i < bytes.size; i++) { /* any byte may be anything */
    unsigned char *changed = wafer_arena_copy(arena, bytes.data, bytes.size);
    changed[i] ^= 0xff;
    (void)wafer_launch_read(NULL, "f", arena, (wafer_bytes){changed, bytes.size}, &back);
  }
  wafer_arena_destroy(arena);
}

static memory_place place_at(uint32_t value, wafer_rect rect, uint32_t bytes) {
  return (memory_place){.value = value, .at = {WAFER_AT_wafer, rect, {0}}, .bytes = bytes};
}

static void test_memory(void) {
  bool lacks;
  memory_map map = {.arena = wafer_arena_create(), .limit = 100};
  const wafer_rect left = {0, 0, 2, 2}, right = {2, 0, 2, 2}, both = {1, 0, 2, 1};
  CU_ASSERT_EQUAL(memory_take(&map, place_at(0, left, 40), 0, 0, &lacks)->address, 0);
  CU_ASSERT_EQUAL(memory_take(&map, place_at(1, right, 24), 0, 4, &lacks)->address, 4);
  CU_ASSERT_EQUAL(memory_take(&map, place_at(2, both, 16), 0, 4, &lacks)->address, 44);
  CU_ASSERT_EQUAL(memory_top(&map, left), 64); /* 60, aligned */
  CU_ASSERT_PTR_NULL(memory_take(&map, place_at(3, left, 48), 0, 0, &lacks));
  CU_ASSERT(!lacks);
  memory_drop(&map, 0, NULL, 0);
  CU_ASSERT_EQUAL(memory_take(&map, place_at(3, left, 44), 0, 0, &lacks)->address, 0);
  wafer_holding kept = place_at(3, left, 44).at, gone = place_at(1, left, 24).at;
  const wafer_holding both_kept[] = {gone, kept}; /* two kernels of the next phase have it */
  memory_drop(&map, 3, both_kept, 2);
  CU_ASSERT_PTR_NOT_NULL(memory_find(&map, 3, 0, &kept));
  memory_drop(&map, 1, &gone, 1);
  CU_ASSERT_PTR_NULL(memory_find(&map, 1, 0, &(wafer_holding){WAFER_AT_wafer, right, {0}}));
  CU_ASSERT_PTR_NULL(memory_take(&map, place_at(4, left, 101), 0, 0, &lacks));
  CU_ASSERT(memory_put(&map, left, 64, 36));
  CU_ASSERT_EQUAL(memory_top(&map, left), 104);
  memory_drop(&map, WAFER_NONE, NULL, 0);
  CU_ASSERT_EQUAL(memory_top(&map, left), 64);
  CU_ASSERT_EQUAL(memory_take(&map, place_at(4, left, 8), 66, 4, &lacks)->address, 68);
  wafer_arena_destroy(map.arena);
}

/* Samples that are resident together have copies of their own; those that passed end alone. */
static void test_memory_samples(void) {
  bool lacks;
  memory_map map = {.arena = wafer_arena_create(), .limit = 100}, other = {.arena = map.arena};
  const wafer_rect left = {0, 0, 2, 2}, right = {2, 0, 2, 2};
  memory_place first = place_at(0, left, 40), second = first, apart = place_at(0, right, 40);
  second.sample = 1;
  CU_ASSERT_EQUAL(memory_take(&map, first, 0, 0, &lacks)->address, 0);
  CU_ASSERT_EQUAL(memory_take(&map, second, 0, 0, &lacks)->address, 40);
  CU_ASSERT_PTR_NOT_NULL(memory_take(&map, apart, 0, 0, &lacks));
  CU_ASSERT_EQUAL(memory_find(&map, 0, 1, &first.at)->address, 40);
  CU_ASSERT_PTR_NULL(memory_find(&map, 0, 2, &first.at));
  CU_ASSERT(memory_put(&map, left, 80, 20));
  CU_ASSERT(memory_hand_over(&map, &other));
  CU_ASSERT_EQUAL(memory_top(&map, left), 80);
  CU_ASSERT_EQUAL(memory_top(&other, left), 104);
  memory_drop_at(&map, 0, &first.at);
  CU_ASSERT_PTR_NULL(memory_find(&map, 0, 1, &first.at));
  CU_ASSERT_PTR_NOT_NULL(memory_find(&map, 0, 0, &apart.at));
  wafer_arena_destroy(map.arena);
}

/* The train's cycles between samples; 0: there are no programs. */
static uint64_t train_within(uint64_t within, uint32_t bands) {
  wafer_options options = {.mode = WAFER_MODE_pipelined,
                           .programs = WAFER_PROGRAMS_always,
                           .bands = bands,
                           .programs_within = within};
  uint64_t interval = 0;
  compiled m;
  CU_ASSERT_EQUAL_FATAL(
      compiled_text(&m, NULL, &options,
                    "in x f32 16x16; Softmax(axis=1) x -> a; Relu a -> b; Add b x -> y; out y"),
      WAFER_OK);
  for (uint32_t i = 0; i < m.plan->launch_count; i++) interval += m.plan->launches[i].interval;
  if (!interval) CU_ASSERT_PTR_NOT_NULL(strstr(m.plan->no_programs, "take more than"));
  compiled_end(&m);
  return (interval + bands - 1) / bands;
}

/* One that is too slow is given up before its end; of those that are not nothing changes. */
static void test_within(void) {
  for (uint32_t bands = 1; bands < 4; bands += 2) {
    uint64_t any = train_within(0, bands);
    CU_ASSERT(any > 1);
    CU_ASSERT_EQUAL(train_within(any, bands), any);
    CU_ASSERT_EQUAL(train_within(any - 1, bands), 0);
    CU_ASSERT_EQUAL(train_within(1, bands), 0);
  }
}

/* Samples of the train that tells how fast bands are. */
static uint32_t train_samples(uint32_t bands) {
  wafer_options options = {
      .mode = WAFER_MODE_pipelined, .programs = WAFER_PROGRAMS_always, .bands = bands};
  uint32_t samples = 0;
  compiled m;
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, "in x f32 16x64; Relu x -> y; out y"),
                        WAFER_OK);
  for (uint32_t i = 0; i < m.plan->launch_count; i++)
    if (m.plan->launches[i].kind == WAFER_LAUNCH_train)
      samples = 1u << m.plan->launches[i].short_train_count;
  compiled_end(&m);
  return samples;
}

/* Two bands have twice the time of what the edge brings: half of a train tells that they keep pace.
 */
static void test_half(void) {
  CU_ASSERT_EQUAL(train_samples(1), 16);
  CU_ASSERT_EQUAL(train_samples(2), 8);
}

CU_TestInfo tests_launch[] = {
    {"words of a port", test_pack},
    {"ports that reach beyond their tensor", test_fits},
    {"samples of a port", test_samples},
    {"program files, whole, cut off and damaged", test_file},
    {"addresses on rectangles", test_memory},
    {"programs that take too long are not made", test_within},
    {"half of a fast train tells", test_half},
    {"addresses of samples that are resident together", test_memory_samples},
    CU_TEST_INFO_NULL,
};
