/* Activations that pass in slices: where their shares lie, and what it costs, worked out by hand.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "kernel_plain.h"

static void product(body_text *b, const char *inputs) {
  body_text_begin(b, "gemm", inputs);
  body_text_node(b, "matmul", "0 1", "");
  for (uint32_t i = 0; i < b->body.input_count; i++) b->depth[i] = b->weight[i] ? 1 : 0;
}

static void expect_layout(const char *name, const wafer_layout *l, const char *want) {
  char text[128] = "";
  for (uint32_t d = 0, used = 0; d < l->rank; d++)
    used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%ux%u", d ? " " : "", l->rows[d],
                               l->cols[d]);
  if (strcmp(text, want) != 0) printf("%s: %s, wanted %s\n", name, text, want);
  CU_ASSERT_STRING_EQUAL(text, want);
}

/* Parts of each dim over rows x columns, of both factors. */
static void test_shares(void) {
  static const struct {
    const char *name, *inputs, *split, *left, *right;
  } cases[] = {
      {"both along the sum", "64x128xf32 128x96xf32", "rows0:4 cols1:8", "4x1 1x8", "4x1 1x8"},
      {"a gradient: one along its results", "64x4096xf32 4096x96xf32", "rows2:4 cols0:8", "1x8 4x1",
       "4x1 1x8"},
      {"a weight stays", "64x128xf32 w:128x96xf32", "rows0:4 cols1:8", "4x1 1x8", "1x1 1x8"},
      {"batches are long enough", "16x8x8xf32 16x8x8xf32", "rows1:4 cols2:4", "1x4 4x1 1x1",
       "4x1 1x1 1x4"},
      {"batches are not", "2x8x64xf32 2x64x8xf32", "rows1:4 cols2:4", "1x1 4x1 1x4", "1x1 4x1 1x4"},
      {"nothing is left whole", "64x128xf32 128x96xf32", "rows0:2 rows2:2 cols1:8", "2x1 2x1",
       "2x1 1x8"},
      {"none needs another's", "64x128xf32 128x96xf32", "rows2:4", "1x1 4x1", "4x1 1x1"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    wafer_split split = split_text(cases[i].split);
    product(&b, cases[i].inputs);
    wafer_layout left = wafer_kernel_input_layout(&b.body, &split, 0);
    wafer_layout right = wafer_kernel_input_layout(&b.body, &split, 1);
    expect_layout(cases[i].name, &left, cases[i].left);
    expect_layout(cases[i].name, &right, cases[i].right);
  }
}

/* Cores along the loop that a factor lacks have, between them, all that one of them needs, once. */
static void test_shares_are_complete(void) {
  body_text b;
  wafer_split split = split_text("rows0:3 cols1:5");
  bool there[3][128] = {{false}};
  product(&b, "9x128xf32 128x20xf32");
  wafer_layout at = wafer_kernel_input_layout(&b.body, &split, 0);
  for (uint32_t row = 0; row < 3; row++)
    for (uint32_t col = 0; col < 5; col++) {
      uint32_t part = wafer_layout_part(&at, 1, row, col), length = (128 + 4) / 5;
      CU_ASSERT_EQUAL(wafer_layout_part(&at, 0, row, col), row);
      for (uint32_t k = part * length; k < (part + 1) * length && k < 128; k++) {
        CU_ASSERT_FALSE(there[row][k]);
        there[row][k] = true;
      }
    }
  for (uint32_t row = 0; row < 3; row++)
    for (uint32_t k = 0; k < 128; k++) CU_ASSERT_TRUE(there[row][k]);
}

/* Left: 16x128 of a core's row, a share of 16x16; right: 128x12 of its column, 32x12. The left
 * one's 8192 bytes are 8 slices, a share each: 8 (10 + 6 + 28) + 2048 + 7 + 38; the right one's
 * 6144 are 4: 4 44 + 1536 + 3 + 38. */
static void test_cost(void) {
  body_text b;
  product(&b, "64x128xf32 128x96xf32");
  wafer_cost passing = cost_of(&b, "rows0:4 cols1:8");
  b.depth[0] = b.depth[1] = 1;
  wafer_cost whole = cost_of(&b, "rows0:4 cols1:8");
  CU_ASSERT_EQUAL(whole.input_bytes, (16 * 128 + 128 * 12) * 4);
  CU_ASSERT_EQUAL(passing.input_bytes, (16 * 16 + 32 * 12) * 4 + 4 * WAFER_SLICE_BYTES);
  CU_ASSERT_EQUAL(whole.fabric_cycles, 0);
  CU_ASSERT_EQUAL(passing.fabric_cycles, 8 * 44 + 2048 + 7 + 38 + 4 * 44 + 1536 + 3 + 38);
  CU_ASSERT_EQUAL(passing.compute_cycles, whole.compute_cycles);
}

/* Sums wait where slices go along the summed loop, also when results leave in slices; along a dim
 * of the result they are complete slice by slice. */
static void test_sums(void) {
  static const struct {
    const char *split;
    uint64_t scratch;
  } cases[] = {{"rows0:2 cols1:2", 128 * 128 * 4}, {"rows2:4 cols0:2", WAFER_SLICE_BYTES}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    product(&b, "256x256xf32 256x256xf32");
    b.body.storage = WAFER_DTYPE_f16;
    b.body.output_depth = 0;
    CU_ASSERT_EQUAL(cost_of(&b, cases[i].split).scratch_bytes, cases[i].scratch);
  }
}

/* Rows of a table: the updates and their indices pass along their own rows to all parts of it, and
 * every index is looked at (6 cycles) on each of them. */
static void test_scatter(void) {
  body_text b;
  wafer_split split = split_text("rows0:8 cols1:4");
  body_text_begin(&b, "scatter", "64x32xf32 512xi64 512x32xf32");
  body_text_node(&b, "scatter", "0 1 2", "mode=add");
  wafer_cost whole = cost_of(&b, "rows0:8 cols1:4");
  b.depth[1] = b.depth[2] = 0;
  wafer_cost passing = cost_of(&b, "rows0:8 cols1:4");
  wafer_layout indices = wafer_kernel_input_layout(&b.body, &split, 1);
  wafer_layout updates = wafer_kernel_input_layout(&b.body, &split, 2);
  expect_layout("indices", &indices, "8x4");
  expect_layout("updates", &updates, "8x1 1x4");
  CU_ASSERT_EQUAL(whole.input_bytes, 8 * 8 * 4 + 512 * 8 + 512 * 8 * 4);
  CU_ASSERT_EQUAL(passing.input_bytes,
                  8 * 8 * 4 + 512 / 32 * 8 + 512 / 8 * 8 * 4 + 4 * WAFER_SLICE_BYTES);
  /* Of the whole: the table's copy, then every index checked (10 cycles, and 4 whether its row is
   * of this part), and an eighth of the rows. */
  uint64_t copy = whole.compute_cycles - (6 + 28 + 7) - 512 * (10 + 4) - 512 / 8 * (6 - 1 + 8);
  CU_ASSERT_EQUAL(passing.compute_cycles, copy + 512 * 6 + 28 + 512 * (6 + 8));
}

/* An operand that another node takes too, or one of a family that cannot, stays whole. */
static void test_who_passes(void) {
  body_text b;
  product(&b, "64x64xf32 64x64xf32");
  CU_ASSERT_TRUE(wafer_body_passes(&b.body, 0) && wafer_body_passes(&b.body, 1));
  body_text_node(&b, "add", "2 0", "");
  CU_ASSERT_FALSE(wafer_body_can_pass(&b.body, 0));
  CU_ASSERT_TRUE(wafer_body_can_pass(&b.body, 1));
  body_text_begin(&b, "gemm", "64x64xf32 w:64x64xf32");
  body_text_node(&b, "matmul", "0 1", "");
  CU_ASSERT_TRUE(wafer_body_can_pass(&b.body, 0) && !wafer_body_passes(&b.body, 0));
  CU_ASSERT_FALSE(wafer_body_can_pass(&b.body, 1));
  body_text_begin(&b, "gemm", "64x64xf32");
  body_text_node(&b, "matmul", "0 0", "");
  CU_ASSERT_FALSE(wafer_body_can_pass(&b.body, 0));
  body_text_begin(&b, "map", "64x64xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_FALSE(wafer_body_can_pass(&b.body, 0));
}

CU_TestInfo tests_kernel_slices[] = {{"shares over rows and columns", test_shares},
                                     {"shares are complete", test_shares_are_complete},
                                     {"cost of passing", test_cost},
                                     {"sums that wait", test_sums},
                                     {"updates of a table", test_scatter},
                                     {"who passes", test_who_passes},
                                     CU_TEST_INFO_NULL};
