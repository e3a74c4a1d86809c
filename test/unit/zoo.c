#include "wafer/zoo.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "caught.h"
#include "wafer/file.h"
#include "wafer/onnx.h"

static uint64_t parameters(const char *name) {
  wafer_zoo_model model;
  return wafer_zoo_find(name, &model) ? wafer_zoo_parameters(&model) : 0;
}

static void parameters_are_the_published_ones(void) {
  CU_ASSERT_EQUAL(parameters("gpt2"), 124439808);
  CU_ASSERT_EQUAL(parameters("gpt2-medium"), 354823168);
  CU_ASSERT_EQUAL(parameters("gpt2-large"), 774030080);
  CU_ASSERT_EQUAL(parameters("gpt2-xl"), 1557611200);
  CU_ASSERT_EQUAL(parameters("bert-base"), 109482240);
  CU_ASSERT_EQUAL(parameters("bert-large"), 335141888);
  CU_ASSERT_EQUAL(parameters("gpt-j-6b"), 6050882784);
  CU_ASSERT_EQUAL(parameters("gpt-neox-20b"), 20554567680);
  CU_ASSERT_EQUAL(parameters("llama-7b"), 6738415616);
}

/* Per layer two norms (4 d), query, key, value and output (4 d d + 4 d), two matrices of d by 4 d
 * with their biases (8 d d + 5 d); a last norm, and tables of tokens and positions. */
static uint64_t gpt3(uint64_t layers, uint64_t d, uint64_t vocabulary, uint64_t sequence) {
  return layers * (12 * d * d + 13 * d) + (vocabulary + sequence + 2) * d;
}

static void parameters_follow_from_the_numbers(void) {
  CU_ASSERT_EQUAL(parameters("gpt3-xl"), gpt3(24, 2048, 50257, 2048));
  CU_ASSERT_EQUAL(parameters("gpt3-2.7b"), gpt3(32, 2560, 50257, 2048));
  CU_ASSERT_EQUAL(parameters("gpt3-6.7b"), gpt3(32, 4096, 50257, 2048));
  CU_ASSERT_EQUAL(parameters("gpt3-13b"), gpt3(40, 5120, 50257, 2048));
  CU_ASSERT_EQUAL(parameters("gpt3-175b"), gpt3(96, 12288, 50257, 2048));
  CU_ASSERT_EQUAL(parameters("gpt-1t"), gpt3(128, 25600, 51200, 2048));
  CU_ASSERT_TRUE(parameters("gpt-1t") >= 1000000000000);

  CU_ASSERT_EQUAL(parameters("gpt-100t"), gpt3(216, 196608, 51200, 128));
  CU_ASSERT_TRUE(parameters("gpt-100t") >= 100000000000000);
}

/* ---- Files ---- */

static char path[64];

static void name_file(void) {
  snprintf(path, sizeof path, "/tmp/wafer-zoo-%ld.onnx", (long)getpid());
}

static wafer_zoo_model small_gpt(void) {
  wafer_zoo_model m;
  wafer_zoo_find("gpt2", &m);
  m.layers = 1, m.d_model = 8, m.heads = 2, m.d_ff = 16, m.vocabulary = 11;
  m.sequence = m.positions = 4;
  return m;
}

static void write_and_map(const wafer_zoo_model *m, bool init, uint64_t seed, wafer_arena *arena,
                          wafer_bytes *out) {
  wafer_zoo_options options = {init, seed};
  name_file();
  CU_ASSERT_EQUAL_FATAL(wafer_zoo_write(NULL, m, &options, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_file_map(NULL, arena, path, out), WAFER_OK);
}

static bool same(wafer_bytes a, wafer_bytes b) {
  return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

static void a_seed_decides_every_byte(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_zoo_model m = small_gpt();
  wafer_bytes a, b, c;
  write_and_map(&m, true, 1, arena, &a);
  write_and_map(&m, true, 1, arena, &b);
  write_and_map(&m, true, 2, arena, &c);
  CU_ASSERT_TRUE(same(a, b));
  CU_ASSERT_EQUAL(a.size, c.size);
  CU_ASSERT_FALSE(same(a, c));
  CU_ASSERT_TRUE(a.size > 4 * wafer_zoo_parameters(&m));
  unlink(path);
  wafer_arena_destroy(arena);
}

static void absent_weights_take_no_room(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_zoo_model m;
  wafer_bytes file;
  CU_ASSERT_TRUE(wafer_zoo_find("gpt3-175b", &m));
  write_and_map(&m, false, 0, arena, &file);
  CU_ASSERT_TRUE(file.size < 1 << 20);
  const wafer_onnx_info *info;
  CU_ASSERT_EQUAL_FATAL(wafer_onnx_inspect(NULL, arena, path, &info), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(info->input_count, 1);
  CU_ASSERT_STRING_EQUAL(info->inputs[0].name, "tokens");
  CU_ASSERT_TRUE(info->inputs[0].open);
  CU_ASSERT_EQUAL_FATAL(info->output_count, 1);
  CU_ASSERT_EQUAL(info->outputs[0].shape.dims[2], 50257);
  unlink(path);
  wafer_arena_destroy(arena);
}

static void what_does_not_go_together_is_refused(void) {
  wafer_zoo_model m = small_gpt();
  wafer_zoo_options options = {0};
  caught c;
  wafer_diag diag = caught_diag(&c);
  name_file();
  m.heads = 3;
  CU_ASSERT_EQUAL(wafer_zoo_write(&diag, &m, &options, path), WAFER_USAGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "3 heads do not divide a width of "));
  CU_ASSERT_EQUAL(wafer_zoo_parameters(&m), 0);
  m = small_gpt();
  m.position = WAFER_ZOO_rotary, m.rotary = 6;
  CU_ASSERT_EQUAL(wafer_zoo_write(&diag, &m, &options, path), WAFER_USAGE);
  m = (wafer_zoo_model){.name = "cnn", .kind = WAFER_ZOO_cnn, .width_count = 6, .side = 3};
  for (uint32_t i = 0; i < m.width_count; i++) m.widths[i] = 1;
  CU_ASSERT_EQUAL(wafer_zoo_write(&diag, &m, &options, path), WAFER_USAGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "too small to be halved"));
  CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void small_ones_count_as_written(void) {
  wafer_zoo_model mlp = {
      .name = "mlp", .kind = WAFER_ZOO_mlp, .width_count = 3, .widths = {64, 128, 10}};
  wafer_zoo_model cnn = {
      .name = "cnn", .kind = WAFER_ZOO_cnn, .width_count = 4, .side = 8, .widths = {1, 16, 32, 10}};
  CU_ASSERT_EQUAL(wafer_zoo_parameters(&mlp), 64 * 128 + 128 + 128 * 10 + 10);
  CU_ASSERT_EQUAL(wafer_zoo_parameters(&cnn), 9 * 16 + 16 + 9 * 16 * 32 + 32 + 32 * 16 * 10 + 10);
}

CU_TestInfo tests_zoo[] = {
    {"parameters are the published ones", parameters_are_the_published_ones},
    {"parameters follow from the numbers", parameters_follow_from_the_numbers},
    {"a seed decides every byte", a_seed_decides_every_byte},
    {"absent weights take no room", absent_weights_take_no_room},
    {"what does not go together is refused", what_does_not_go_together_is_refused},
    {"small ones count as written", small_ones_count_as_written},
    CU_TEST_INFO_NULL,
};
