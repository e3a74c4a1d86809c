/* runtime/kernel/pairs.c, and products with pairs on cores: backend/program/program_gemm.c,
 * runtime/fabric/core_pairs.c.
 */
#include "wafer/pairs.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>

#include "program_run.h"

static void lists_take_no_more_room_than_the_tile(void) {
  static const struct {
    wafer_dtype stored;
    uint64_t pairs, rows, cols, taps;
    struct {
      uint32_t lists, length, taps, words;
    } want;
  } cases[] = {
      {WAFER_DTYPE_f32, 100, 10, 100, 1, {4, 25, 1, 4 * (2 * 25 + 1)}},
      {WAFER_DTYPE_f16, 100, 10, 100, 1, {4, 25, 1, 4 * (25 + 1)}},
      {WAFER_DTYPE_f32, 8, 9, 10, 1, {2, 4, 1, 2 * (2 * 4 + 1)}}, /* short lists do not pay */
      {WAFER_DTYPE_f32, 1, 1, 10, 1, {1, 1, 1, 3}},
      {WAFER_DTYPE_f32, 3, 2, 3, 1, {0}}, /* a word more than the elements */
      {WAFER_DTYPE_f32, 3, 1, 7, 1, {1, 3, 1, 7}},
      {WAFER_DTYPE_f16, 600, 10, 100, 1, {0}},
      {WAFER_DTYPE_f32, 116, 16, 8, 9, {4, 29, 9, 4 * (2 * 29 + 9)}},
      {WAFER_DTYPE_f32, 50, 16, 8, 9, {1, 50, 9, 2 * 50 + 9}}, /* lists of a tap are too short */
      {WAFER_DTYPE_f16, 100, 300, 129, 1, {0}},                /* 300 << 8 is no index */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wafer_pairs got = wafer_pairs_of(cases[i].stored, cases[i].pairs, cases[i].rows, cases[i].cols,
                                     cases[i].taps, WAFER_PAIR_LISTS, 1);
    CU_ASSERT(got.lists == cases[i].want.lists && got.length == cases[i].want.length &&
              got.taps == cases[i].want.taps && got.words == cases[i].want.words);
  }
}

/* Positions count the channels of all groups that a tile may have filters of. */
static void positions_count_channels_of_groups(void) {
  static const struct {
    uint64_t rows, cols, group;
    uint32_t want;
  } cases[] = {
      {32, 4, 4, 32},                   /* eight whole groups */
      {2, 16, 8, 16},                   /* a fourth of one */
      {8, 4, 6, 12},                    /* from 8, the end of one and another; from 4, three */
      {1, 3, 5, 3},     {256, 1, 1, 0}, /* 256 << 8 is no index */
      {128, 1, 1, 128}, {64, 1024, 64, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const wafer_pairs one = {.lists = 1, .length = 4, .taps = 1, .words = 9};
    wafer_pairs got = wafer_pairs_in_groups(&one, cases[i].rows, cases[i].cols, cases[i].group);
    CU_ASSERT_EQUAL(got.columns, cases[i].want);
    CU_ASSERT_EQUAL(got.lists, cases[i].want > 0);
  }
}

enum { ROWS = 7, COLS = 10, PARTS = 3 }; /* tiles of 3x4 at most, in 3x3 parts */

static double value_at(uint32_t r, uint32_t c) {
  return (r * 5 + c * 3) % 4 ? 0 : (double)(r * COLS + c) + 0.5;
}

/* Reads the lists of a tile; adds what their pairs say to the dense tile. */
static uint32_t unpack(const wafer_pairs *p, wafer_dtype stored, const uint32_t *words,
                       double tile[3][4]) {
  uint32_t list = p->words / p->lists, each = stored == WAFER_DTYPE_f16 ? 1 : 2, pairs = 0;
  for (uint32_t l = 0; l < p->lists; l++, words += list) {
    for (uint32_t i = 0; i + 1 < list; i += each, pairs++) {
      uint32_t index = each == 1 ? words[i] >> 16 : words[i];
      float wide;
      memcpy(&wide, &words[i + each - 1], sizeof wide);
      tile[index >> 2][index & 3] +=
          each == 1 ? (double)wafer_f32_of_f16((uint16_t)words[i]) : (double)wide;
    }
    CU_ASSERT_EQUAL(words[list - 1], each == 1 ? 0xffff0000u : 0xffffu);
  }
  return pairs;
}

static void pairs_say_what_the_weight_has(void) {
  static const uint32_t turned[ROWS] = {6, 5, 4, 3, 2, 1, 0};
  static const uint32_t *const natural[2], *const places[2] = {turned, NULL};
  const wafer_shape shape = {2, {ROWS, COLS}};
  const wafer_layout layout = {.rank = 2, .rows = {PARTS, 1}, .cols = {1, PARTS}};
  for (uint32_t narrow = 0; narrow < 2; narrow++)
    for (uint32_t order = 0; order < 2; order++) {
      wafer_dtype stored = narrow ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32;
      char dense[ROWS * COLS * 4];
      uint32_t words[PARTS * PARTS * 12];
      wafer_pairs pairs = {2, 2, 1, 2 * (narrow ? 3 : 5), .kinds = 1, .columns = 4};
      for (uint32_t i = 0; i < ROWS * COLS; i++)
        wafer_element_set_f64(stored, dense, i, value_at(i / COLS, i % COLS));
      CU_ASSERT_EQUAL(
          wafer_pairs_pack(&pairs, stored, &shape, &layout, order ? places : natural, dense, words),
          WAFER_OK);
      for (uint32_t t = 0; t < PARTS * PARTS; t++) {
        double tile[3][4] = {{0}};
        CU_ASSERT_EQUAL(unpack(&pairs, stored, words + t * pairs.words, tile), 4);
        for (uint32_t r = 0; r < 3; r++)
          for (uint32_t c = 0; c < 4; c++) {
            uint32_t row = t / PARTS * 3 + r, col = t % PARTS * 4 + c;
            bool outside = row >= ROWS || col >= COLS;
            CU_ASSERT(tile[r][c] == (outside ? 0 : value_at(order ? ROWS - 1 - row : row, col)));
          }
      }
      pairs.length = 1, pairs.words = 2 * (narrow ? 2 : 3);
      CU_ASSERT_EQUAL(wafer_pairs_pack(&pairs, stored, &shape, &layout, natural, dense, words),
                      WAFER_BAD_INPUT);
    }
}

/* What a list does to sums and results of a tile: nothing is added to what nobody has begun, and
 * what has ended is a sum no more. */
static void follow(const wafer_pairs *p, const uint32_t *words, const double x[4], double *sum,
                   bool *begun, double *result) {
  for (uint32_t i = 0; i < p->kinds; i++, words++)
    for (wafer_pair_kind kind = wafer_pairs_kind(p->kinds, i); *words != 0xffff0000u; words++) {
      uint32_t row = *words >> 18;
      double product = (double)wafer_f32_of_f16((uint16_t)*words) * x[*words >> 16 & 3];
      bool first = kind == WAFER_PAIR_begins || kind == WAFER_PAIR_alone;
      CU_ASSERT(first || begun[row]);
      double value = first ? product : sum[row] + product;
      bool ends = kind == WAFER_PAIR_alone || kind == WAFER_PAIR_ends;
      *(ends ? &result[row] : &sum[row]) = value;
      begun[row] = !ends;
    }
}

/* Tiles without non-zeros, with one and with several, and rows that only a full tile has. */
static void pairs_begin_and_end_sums(void) {
  static const uint32_t *const natural[2];
  static const double x[4] = {1, 10, 100, 1000};
  const wafer_shape shape = {2, {ROWS, COLS}};
  const wafer_layout layout = {.rank = 2, .rows = {PARTS, 1}, .cols = {1, PARTS}};
  char dense[ROWS * COLS * 2];
  for (uint32_t i = 0; i < ROWS * COLS; i++) {
    uint32_t r = i / COLS, c = i % COLS;
    double value = r == 3 ? 0 : r == 1 ? (double)(c + 1) : c % 4 == 2 ? (double)r + 1 : 0;
    wafer_element_set_f64(WAFER_DTYPE_f16, dense, i, value);
  }
  uint64_t filled = wafer_pairs_filled(WAFER_DTYPE_f16, &shape, &layout, natural, 0, dense);
  CU_ASSERT_EQUAL(filled, 1 + 4 + 1);
  for (uint32_t kinds = 2; kinds <= 4; kinds += 2) {
    wafer_pairs pairs = {1, 6, 1, 6 + kinds, kinds, 3, .columns = 4};
    uint32_t words[PARTS * PARTS * 10];
    CU_ASSERT_EQUAL(
        wafer_pairs_pack(&pairs, WAFER_DTYPE_f16, &shape, &layout, natural, dense, words),
        WAFER_OK);
    for (uint32_t t = 0; t < PARTS * PARTS; t++) {
      double sum[3] = {0}, result[3] = {0};
      bool begun[3] = {false};
      follow(&pairs, words + t * pairs.words, x, sum, begun, result);
      for (uint32_t r = 0; r < 3 && t / PARTS * 3 + r < ROWS; r++) {
        double want = 0;
        for (uint32_t c = 0; c < 4 && t % PARTS * 4 + c < COLS; c++) {
          size_t at = (t / PARTS * 3 + r) * COLS + t % PARTS * 4 + c;
          want += wafer_element_f64(WAFER_DTYPE_f16, dense, (int64_t)at) * x[c];
        }
        CU_ASSERT(kinds == 4 || begun[r]);
        CU_ASSERT((kinds == 4 ? result : sum)[r] == want);
      }
    }
    pairs.length = 5, pairs.words--;
    CU_ASSERT_EQUAL(
        wafer_pairs_pack(&pairs, WAFER_DTYPE_f16, &shape, &layout, natural, dense, words),
        WAFER_BAD_INPUT);
  }
}

/* Values and cycles of a body with a sparse weight, in that storage. Cycles that were counted. */
static uint64_t multiplies(const char *machine, body_text *b, const char *split_of, bool narrow) {
  wafer_split split = split_text(split_of);
  b->body.storage = narrow ? WAFER_DTYPE_f16 : WAFER_DTYPE_f32;
  program_run run = program_run_body(machine, b, &split, 7);
  CU_ASSERT_EQUAL(run.status, WAFER_OK);
  CU_ASSERT(run.sparse);
  CU_ASSERT(run.error < (narrow ? 1e-3 : 1e-6));
  double off = fabs((double)run.modelled - (double)run.counted) / (double)run.counted;
  CU_ASSERT(off <= 0.1);
  CU_ASSERT(run.code_bytes <= run.code_modelled);
  CU_ASSERT(run.memory <= run.memory_modelled);
  if (run.memory > run.memory_modelled)
    printf("\n%s: %lld bytes of a core, modelled %lld\n", split_of, (long long)run.memory,
           (long long)run.memory_modelled);
  if (run.status || off > 0.1)
    printf("\n%s on %s: modelled %llu, counted %llu %s\n", split_of, machine,
           (unsigned long long)run.modelled, (unsigned long long)run.counted, run.message);
  return run.counted;
}

/* Values as dense ones give them, in the cycles of the cost model. */
static void products_take_pairs(void) {
  static const struct {
    const char *inputs, *split;
    bool left; /* the weight is the left operand */
  } cases[] = {
      {"12x40xf32 w:40x18xf32", "rows0:2 cols1:3", false},
      {"1x64xf32 w:64x48xf32", "rows2:4 cols1:4", false},    /* a single row, k is cut */
      {"3x10x32xf32 w:32x20xf32", "rows0:3 cols2:2", false}, /* two dims of rows, one run */
      {"2x5x32xf32 w:32x20xf32", "rows1:2 cols2:2", false},  /* rows that are no run at the edge */
      {"w:30x48xf32 48x16xf32", "rows0:3 cols1:2", true},
      {"64x48xf32 w:48x64xf32", "rows0:2 cols1:2 cols2:2", false},
      {"2x64xf32 w:64x48xf32", "cols1:4", false}, /* four lists, one of which begins late */
      {"4x96xf32 w:96x64xf32", "cols1:8", false},
      {"3x120xf32 w:120x8xf32", "cols1:2", false}, /* which goes on alone, as three were busy */
      {"17x48xf32 w:48x32xf32 17x32xf32", "cols1:2", false}, /* odd rows, and a tail */
      {"3x7x48xf32 w:48x32xf32", "cols2:2", false},
      {"7x5x48xf32 w:48x32xf32", "rows1:3", false}, /* and fewer of them at the edge */
      {"w:30x48xf32 48x13xf32", "rows0:3", true},
      {"2x9x30xf32 w:30x36xf32", "rows3:4 cols2:2", false}, /* sums in a chain */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint32_t form = 0; form < 8; form++) {
      bool narrow = form % 2, late = form / 2 % 2, begun = form / 4;
      body_text b;
      body_text_begin(&b, "gemm", cases[i].inputs);
      CU_ASSERT_FATAL(body_text_node(&b, "matmul", "0 1", "") != UINT32_MAX);
      if (b.body.input_count > 2) (void)body_text_node(&b, "add", "3 2", "");
      const wafer_sparsity sparsity[3] = {
          {.sparse = cases[i].left, .late_list = late, .filled = begun},
          {.sparse = !cases[i].left, .late_list = late, .filled = begun}};
      b.body.sparsity = sparsity;
      multiplies("small16", &b, cases[i].split, narrow);
    }
}

/* Guards: rows of a core began anywhere, and in f16 half of the steps over 17 of them, or 6, met
 * one bank: what a core reads of activations and of sums begins at whole turns of the banks. */
static void odd_rows_keep_to_their_banks(void) {
  static const uint32_t rows[][2] = {{17, 20}, {6, 8}, {3, 4}, {9, 12}};
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    uint64_t counted[2];
    for (uint32_t even = 0; even < 2; even++) {
      body_text b;
      char inputs[64];
      snprintf(inputs, sizeof inputs, "%ux64xf32 w:64x48xf32", rows[i][even]);
      body_text_begin(&b, "gemm", inputs);
      CU_ASSERT_FATAL(body_text_node(&b, "matmul", "0 1", "") != UINT32_MAX);
      const wafer_sparsity sparsity[2] = {[1] = {.sparse = true, .filled = true}};
      b.body.sparsity = sparsity;
      counted[even] = multiplies("small16", &b, "cols1:2", true);
    }
    CU_ASSERT(counted[0] <= counted[1]);
  }
}

/* The same for filters, tap by tap. */
static void convolutions_take_pairs(void) {
  static const struct {
    const char *inputs, *split, *attrs;
  } cases[] = {
      {"1x8x14x14xf32 w:16x8x3x3xf32", "cols1:2", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"1x8x20x20xf32 w:16x8x3x3xf32", "rows2:2 cols3:2", /* halos */
       "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"2x16x10x10xf32 w:32x16x1x1xf32", "cols1:2", /* samples and places are one run */
       "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0"},
      {"1x32x16x16xf32 w:16x32x1x1xf32", "cols3:16", /* a place wide: no reads collide */
       "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0"},
      {"1x16x18x18xf32 w:8x16x3x3xf32", "rows4:2", /* channels are cut */
       "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"1x8x21x21xf32 w:16x8x3x3xf32", "rows2:2 cols1:2",
       "group=1 strides=2,2 dilations=1,1 pads=1,1,1,1"},
      {"2x16x12x12xf32 w:16x1x5x5xf32", "rows1:2", /* a filter for each channel */
       "group=16 strides=1,1 dilations=1,1 pads=2,2,2,2"},
      {"1x16x14x14xf32 w:32x4x3x3xf32", "rows2:2", /* all groups on a core */
       "group=4 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"2x16x9x9xf32 w:32x4x3x3xf32", "cols1:2", /* two groups */
       "group=4 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"1x32x14x14xf32 w:16x16x3x3xf32", "rows1:2 cols1:2", /* half a group */
       "group=2 strides=2,2 dilations=1,1 pads=1,1,1,1"},
      {"1x16x14x14xf32 w:24x4x3x3xf32", "cols1:3", /* parts that begin inside of groups */
       "group=4 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"1x8x16x16xf32 w:24x1x5x5xf32", "cols1:2", /* three filters for each channel */
       "group=8 strides=1,1 dilations=1,1 pads=2,2,2,2"},
      {"1x8x64xf32 w:16x8x5xf32", "rows1:2", "group=1 strides=1 dilations=2 pads=4,4"},
      {"1x8x15x13xf32 w:24x8x3x3xf32 24xf32", "rows2:2 cols1:3",
       "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
      {"1x32x7x7xf32 w:24x32x1x1xf32", "rows1:2", /* an odd number of places */
       "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0"},
      {"3x16x5x5xf32 w:16x16x3x3xf32", "cols1:2", /* and of samples */
       "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint32_t form = 0; form < 8; form++) {
      bool narrow = form % 2, late = form / 2 % 2, begun = form / 4;
      body_text b;
      body_text_begin(&b, "conv", cases[i].inputs);
      const char *operands = b.body.input_count > 2 ? "0 1 2" : "0 1";
      CU_ASSERT_FATAL(body_text_node(&b, "conv", operands, cases[i].attrs) != UINT32_MAX);
      const wafer_sparsity sparsity[3] = {
          [1] = {.sparse = true, .late_list = late, .filled = begun}};
      b.body.sparsity = sparsity;
      multiplies("small64", &b, cases[i].split, narrow);
    }
}

/* Guards: of three taps in a row one read the bank of the sums, wherever windows began at a whole
 * turn of the banks; taps four elements apart never do. */
static void taps_in_a_row_keep_to_their_banks(void) {
  uint64_t counted[2];
  for (uint32_t far = 0; far < 2; far++) {
    body_text b;
    body_text_begin(&b, "conv", "1x16x64xf32 w:16x16x3xf32");
    const char *attrs =
        far ? "group=1 strides=1 dilations=4 pads=4,4" : "group=1 strides=1 dilations=1 pads=1,1";
    CU_ASSERT_FATAL(body_text_node(&b, "conv", "0 1", attrs) != UINT32_MAX);
    const wafer_sparsity sparsity[2] = {[1] = {.sparse = true, .filled = true}};
    b.body.sparsity = sparsity;
    counted[far] = multiplies("small64", &b, "cols1:2", true);
  }
  CU_ASSERT(counted[0] <= counted[1]);
}

CU_TestInfo tests_pairs[] = {
    {"lists take no more room than the tile", lists_take_no_more_room_than_the_tile},
    {"positions count channels of groups", positions_count_channels_of_groups},
    {"pairs say what the weight has", pairs_say_what_the_weight_has},
    {"pairs begin and end sums", pairs_begin_and_end_sums},
    {"products take pairs", products_take_pairs},
    {"odd rows keep to their banks", odd_rows_keep_to_their_banks},
    {"convolutions take pairs", convolutions_take_pairs},
    {"taps in a row keep to their banks", taps_in_a_row_keep_to_their_banks},
    CU_TEST_INFO_NULL,
};
