#include "wafer/diag.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"

static void fail_reports_once_and_returns_the_code(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_status status = wafer_fail(&diag, wafer_at_node("m.onnx", "conv1", 17), WAFER_NO_FIT,
                                   "needs %d rows, wafer has %d", 12, 8);
  CU_ASSERT_EQUAL(status, WAFER_NO_FIT);
  CU_ASSERT_EQUAL(last.count, 1);
  CU_ASSERT_EQUAL(last.severity, WAFER_ERROR);
  CU_ASSERT_EQUAL(last.status, WAFER_NO_FIT);
  CU_ASSERT_STRING_EQUAL(last.place, "m.onnx: node 'conv1' (#17)");
  CU_ASSERT_STRING_EQUAL(last.text, "needs 12 rows, wafer has 8");
}

static void places_read_well(void) {
  static const struct {
    wafer_loc loc;
    const char *want;
  } cases[] = {
      {{.kind = WAFER_AT_NOWHERE}, ""},
      {{.kind = WAFER_AT_NOWHERE, .file = "a"}, "a"},
      {{.kind = WAFER_AT_NODE, .file = "a", .name = "n", .index = -1}, "a: node 'n'"},
      {{.kind = WAFER_AT_NODE, .name = "n", .index = 0}, "node 'n' (#0)"},
      {{.kind = WAFER_AT_LINE, .file = "a.xml", .line = 3}, "a.xml:3"},
      {{.kind = WAFER_AT_LINE, .file = "a.xml", .line = 3, .column = 9}, "a.xml:3:9"},
      {{.kind = WAFER_AT_LINE, .file = "a.xml"}, "a.xml"},
      {{.kind = WAFER_AT_LINE, .line = 4}, "line 4"},
      {{.kind = WAFER_AT_KERNEL, .file = "p", .name = "k", .node = "n"},
       "p: kernel 'k' (node 'n')"},
      {{.kind = WAFER_AT_KERNEL, .name = "k"}, "kernel 'k'"},
      {{.kind = WAFER_AT_CORE, .file = "p", .x = 12, .y = 3, .cycle = 1842},
       "p: core (12,3) cycle 1842"},
      {{.kind = WAFER_AT_CORE, .x = 1, .y = 2, .cycle = 3, .name = "k", .node = "n"},
       "core (1,2) cycle 3: kernel 'k' (node 'n')"},
      {{.kind = WAFER_AT_NODE, .name = "a\x1b[2J\nb", .index = -1}, "node 'a?[2J?b'"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    char place[256];
    wafer_loc_format(&cases[i].loc, place, sizeof place);
    CU_ASSERT_STRING_EQUAL(place, cases[i].want);
  }
}

static void long_texts_are_cut_and_say_so(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  char *text = malloc(10000);
  memset(text, 'x', 9999);
  text[9999] = '\0';
  wafer_warn(&diag, wafer_at_file("f"), "%s", text);
  size_t length = strlen(last.text);
  CU_ASSERT_EQUAL(last.severity, WAFER_WARNING);
  CU_ASSERT_EQUAL(length, 4095);
  CU_ASSERT_STRING_EQUAL(last.text + length - 4, "x...");
  char place[16];
  wafer_loc loc = wafer_at_node(text, "n", 1);
  wafer_loc_format(&loc, place, sizeof place);
  CU_ASSERT_STRING_EQUAL(place, "xxxxxxxxxxxx...");
  free(text);
}

static void a_file_gets_one_line_each(void) {
  char buffer[256] = "";
  FILE *file = fmemopen(buffer, sizeof buffer, "w");
  wafer_diag diag = {.emit = wafer_diag_to_file, .self = file};
  (void)wafer_fail(&diag, wafer_at_line("a.xml", 2, 0), WAFER_BAD_INPUT, "bad\nthing");
  wafer_note(&diag, (wafer_loc){0}, "see there");
  fclose(file);
  CU_ASSERT_STRING_EQUAL(buffer, "a.xml:2: error: bad?thing\nnote: see there\n");
}

static void no_sink_drops_everything(void) {
  wafer_diag empty = {0};
  CU_ASSERT_EQUAL(wafer_fail(NULL, (wafer_loc){0}, WAFER_IO, "x"), WAFER_IO);
  CU_ASSERT_EQUAL(wafer_fail(&empty, (wafer_loc){0}, WAFER_IO, "x"), WAFER_IO);
  wafer_progress(&empty, "x", 1, 2);
  wafer_progress(NULL, "x", 1, 2);
  CU_ASSERT_FALSE(wafer_cancelled(NULL));
  CU_ASSERT_FALSE(wafer_cancelled(&empty));
}

CU_TestInfo tests_diag[] = {
    {"fail reports once and returns the code", fail_reports_once_and_returns_the_code},
    {"places read well", places_read_well},
    {"long texts are cut and say so", long_texts_are_cut_and_say_so},
    {"a file gets one line each", a_file_gets_one_line_each},
    {"no sink drops everything", no_sink_drops_everything},
    CU_TEST_INFO_NULL,
};
