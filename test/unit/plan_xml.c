#include "runtime/plan/plan_xml.h"

#include <CUnit/CUnit.h>
#include <libxml/parser.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"

/* A plan that uses every element and every kind of field, as the writer spells it. It breaks laws
 * that wafer_plan_check would prove; the reader does not know them. */
static const char before_machine[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<plan format=\"1\" model=\"a&amp;b \\x01\\\\.onnx\" producer=\"wafer test\" "
    "mode=\"streaming\" "
    "storage=\"f16\" batch=\"3\" flip-batch=\"7\" onnx-nodes=\"2\">\n"
    " <pipelined fits=\"false\" why-not=\"too &quot;large&quot;\" latency-cycles=\"0\" "
    "interval-cycles=\"0\" cores=\"0\" peak-core-bytes=\"0\"/>\n"
    " <streaming fits=\"true\" latency-cycles=\"18446744073709551615\" interval-cycles=\"20\" "
    "cores=\"4\" peak-core-bytes=\"512\"/>\n";
static const char after_machine[] =
    " <weight name=\"w\" type=\"2x3x1x1xf32\" digest=\"0123456789abcdef\"/>\n"
    " <weight name=\"scalar\" type=\"i64\" absent=\"true\"/>\n"
    " <weight name=\"v\" type=\"2xf32\" absent=\"true\" trained=\"true\"/>\n"
    " <value name=\"x\" owner=\"input\" type=\"1x3x4x4xf32\"/>\n"
    " <value name=\"w\" owner=\"weight\" type=\"2x3x1x1xf32\" weight=\"0\"/>\n"
    " <value name=\"y\" node=\"conv 1\" owner=\"output\" type=\"1x2x4x4xf32\"/>\n"
    " <value name=\"t\" node=\"clip\" type=\"0xbool\"/>\n"
    " <kernel name=\"conv\" family=\"conv\" anchor=\"1\" storage=\"f16\" output-depth=\"2\" "
    "rect=\"1 2 2 2\" rows=\"1 1 2\" cols=\"1 2\" replicas=\"2\" slabs=\"4\" bound=\"edge\">\n"
    "  <input value=\"0\" type=\"1x3x4x4xf32\" depth=\"2\"/>\n"
    "  <input value=\"1\" type=\"2x3x1x1xf32\" weight=\"true\"/>\n"
    "  <node op=\"constant\" type=\"2xi16\" value=\"0100ff7f\"/>\n"
    "  <node op=\"conv\" onnx=\"conv 1\" operands=\"0 1\" type=\"1x2x4x4xf32\" group=\"1\" "
    "strides=\"1 1\" dilations=\"1 1\" pads=\"-1 0 0 0\"/>\n"
    "  <node op=\"constant\" onnx=\"c\" type=\"4x4xf32\" splat=\"true\" value=\"0000803f\"/>\n"
    "  <node op=\"clip\" onnx=\"clip\" operands=\"3\" type=\"1x2x4x4xf32\" min=\"-inf\" "
    "max=\"0.1\"/>\n"
    "  <node op=\"cast\" onnx=\"cast\" operands=\"5\" type=\"1x2x4x4xf16\" to=\"f16\"/>\n"
    "  <node op=\"resize\" onnx=\"r\" operands=\"3\" type=\"1x2x8x8xf32\" shape=\"1 2 8 8\" "
    "scales=\"1 1 2 2.5e-07\" mode=\"linear\" coordinates=\"half_pixel\" rounding=\"\" "
    "cubic_a=\"nan\" "
    "exclude_outside=\"0\"/>\n"
    "  <output value=\"2\" of=\"5\"/>\n"
    "  <cost cycles=\"100\" compute-cycles=\"90\" fabric-cycles=\"10\" operations=\"192\" "
    "code-bytes=\"1\" weight-bytes=\"2\" input-bytes=\"3\" output-bytes=\"4\" "
    "scratch-bytes=\"5\"/>\n"
    "  <memory what=\"code\" bytes=\"1\"/>\n"
    "  <memory what=\"weight w\" node=\"conv 1\" bytes=\"2\"/>\n"
    " </kernel>\n"
    " <stream value=\"0\" from=\"edge\" to=\"wafer 1 2 2 2 rows 1 1 2 1 cols 1 2 1 1\" "
    "to-kernel=\"0\" color=\"5\" route=\"0 0 1 0, 1 0 1 2\" words=\"48\" cycles=\"48\" "
    "latency=\"3\" "
    "depth=\"2\"/>\n"
    " <stream value=\"1\" from=\"memoryx\" to=\"wafer 0 0 1 1 rows  cols \" color=\"0\" "
    "words=\"6\" "
    "cycles=\"6\" latency=\"9\"/>\n"
    " <phase name=\"first\" actions=\"s0 s1 k0\" frees=\"0 1\" peak-core-bytes=\"15\"/>\n"
    " <phase name=\"second\" actions=\"\" peak-core-bytes=\"0\"/>\n"
    " <function name=\"main\" inputs=\"0\" outputs=\"2\">\n"
    "  <step kind=\"load\" phase=\"0\"/>\n"
    "  <step kind=\"phase\" phase=\"1\"/>\n"
    " </function>\n"
    " <training loss=\"2\" count=\"3\" labels=\"0\" seed=\"1\" micro-batch=\"8\">\n"
    "  <trained weight=\"0\"/>\n"
    "  <trained weight=\"2\" gradient=\"3\"/>\n"
    "  <noise input=\"0\" key=\"00000000000000ff\"/>\n"
    " </training>\n"
    "</plan>\n";

static wafer_arena *arena;
static wafer_plan plan;
static caught last;

/* The sample, malloc'ed; `from` replaced by `to` where it first stands. */
static char *sample(const char *from, const char *to) {
  const wafer_machine *machine;
  char *xml, *text = malloc(65536);
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &machine), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, machine, &xml, &bytes), WAFER_OK);
  CU_ASSERT_FATAL(text && bytes < 32768);
  strcat(strcat(strcpy(text, before_machine), strstr(xml, "<machine")), after_machine);
  if (!from) return text;
  char *at = strstr(text, from);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
  memcpy(at, to, strlen(to));
  return text;
}

static wafer_status read_text(const char *text, size_t bytes) {
  wafer_diag diag = caught_diag(&last);
  plan = (wafer_plan){0};
  wafer_status status = plan_xml_read(&diag, arena, "p.wplan/plan.xml", text, bytes, &plan);
  CU_ASSERT_EQUAL(last.count, status != WAFER_OK);
  return status;
}

static wafer_status read_sample(const char *from, const char *to) {
  arena = wafer_arena_create();
  char *text = sample(from, to);
  wafer_status status = read_text(text, strlen(text));
  free(text);
  return status;
}

static void done(void) {
  wafer_arena_destroy(arena);
  arena = NULL;
}

/* ---- what is read ---- */

static void test_heads_are_read(void) {
  CU_ASSERT_EQUAL_FATAL(read_sample(NULL, NULL), WAFER_OK);
  CU_ASSERT_STRING_EQUAL(plan.model, "a&b \x01\\.onnx");
  CU_ASSERT_EQUAL(plan.mode, WAFER_MODE_streaming);
  CU_ASSERT_EQUAL(plan.storage, WAFER_DTYPE_f16);
  CU_ASSERT(plan.batch == 3 && plan.flip_batch == 7 && plan.node_count == 2);
  CU_ASSERT(!plan.pipelined.fits && plan.streaming.fits);
  CU_ASSERT_STRING_EQUAL(plan.pipelined.why_not, "too \"large\"");
  CU_ASSERT_EQUAL(plan.streaming.latency_cycles, UINT64_MAX);
  CU_ASSERT_STRING_EQUAL(plan.machine->name, "small16");
  CU_ASSERT_EQUAL_FATAL(wafer_weights_count(plan.weights), 3);
  CU_ASSERT_EQUAL(wafer_weights_at(plan.weights, 0)->digest, 0x0123456789abcdef);
  CU_ASSERT_EQUAL(wafer_weights_at(plan.weights, 1)->bytes, 8);
  CU_ASSERT(wafer_weights_at(plan.weights, 0)->data && !wafer_weights_at(plan.weights, 1)->data);
  CU_ASSERT_EQUAL_FATAL(plan.value_count, 4);
  CU_ASSERT(plan.values[0].weight == WAFER_NONE && plan.values[1].weight == 0);
  CU_ASSERT(plan.values[3].type.shape.rank == 1 && plan.values[3].type.shape.dims[0] == 0);
  done();
}

static void test_kernels_are_read(void) {
  CU_ASSERT_EQUAL_FATAL(read_sample(NULL, NULL), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(plan.kernel_count, 1);
  const wafer_kernel *k = plan.kernels;
  CU_ASSERT_EQUAL_FATAL(k->body.node_count, 6);
  CU_ASSERT(k->split.rows[2] == 2 && k->split.rows[WAFER_MAX_LOOPS - 1] == 1 &&
            k->split.cols[1] == 2);
  CU_ASSERT(k->body.input_depth[0] == 2 && k->body.input_depth[1] == 1 &&
            k->body.input_is_weight[1]);
  CU_ASSERT(k->outputs[0] == 2 && k->body.outputs[0] == 5 && k->cost.scratch_bytes == 5);
  const wafer_attrs *attrs = &k->body.nodes[1].attrs;
  uint32_t count;
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &count);
  CU_ASSERT(count == 4 && pads[0] == -1);
  CU_ASSERT_EQUAL(wafer_attr_float(&k->body.nodes[3].attrs, WAFER_ATTR_min), -INFINITY);
  CU_ASSERT_EQUAL(wafer_attr_float(&k->body.nodes[3].attrs, WAFER_ATTR_max), 0.1);
  CU_ASSERT(isnan(wafer_attr_float(&k->body.nodes[5].attrs, WAFER_ATTR_cubic_a)));
  const wafer_attr *data = wafer_attr_find(&k->body.nodes[0].attrs, WAFER_ATTR_value);
  CU_ASSERT(!data->data.splat && !memcmp(data->data.bytes, "\x01\x00\xff\x7f", 4));
  CU_ASSERT(wafer_attr_find(&k->body.nodes[2].attrs, WAFER_ATTR_value)->data.splat);
  done();
}

static void test_streams_and_steps_are_read(void) {
  CU_ASSERT_EQUAL_FATAL(read_sample(NULL, NULL), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(plan.stream_count, 2);
  const wafer_stream *s = plan.streams;
  CU_ASSERT(s->from.where == WAFER_AT_edge && s->to.where == WAFER_AT_wafer &&
            s->to.layout.rank == 4);
  CU_ASSERT(s->to.rect.y == 2 && s->to.layout.rows[2] == 2 && s->to.layout.cols[1] == 2);
  CU_ASSERT(s->from_kernel == WAFER_NONE && s->to_kernel == 0 && s->route_count == 2);
  CU_ASSERT(s->route[1].x0 == 1 && s->route[1].y1 == 2);
  CU_ASSERT(s[1].to.layout.rank == 0 && s[1].depth == 1 && s[1].route_count == 0);
  CU_ASSERT(plan.phase_count == 2 && plan.phases[0].action_count == 3 &&
            plan.phases[0].free_count == 2);
  CU_ASSERT(plan.phases[0].actions[2].kind == WAFER_ACTION_kernel &&
            plan.phases[0].actions[1].index == 1);
  CU_ASSERT(plan.function_count == 1 && plan.functions->step_count == 2);
  CU_ASSERT(plan.functions->steps[1].kind == WAFER_STEP_phase &&
            plan.functions->steps[1].phase == 1);
  done();
}

static void test_training_is_read(void) {
  CU_ASSERT_EQUAL_FATAL(read_sample(NULL, NULL), WAFER_OK);
  const wafer_training *t = plan.training;
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  CU_ASSERT(t->loss == 2 && t->count == 3 && t->correct == WAFER_NONE && t->seed == 1);
  CU_ASSERT(t->labels == 0 && t->micro_batch == 8);
  CU_ASSERT(t->trained_count == 2 && t->trained[0].gradient == WAFER_NONE);
  CU_ASSERT(t->trained[1].weight == 2 && t->trained[1].gradient == 3);
  CU_ASSERT(t->noise_count == 1 && t->noises[0].key == 255);
  CU_ASSERT(wafer_weights_at(plan.weights, 2)->trained &&
            !wafer_weights_at(plan.weights, 0)->trained);
  done();
}

static void check_round_trip(void) {
  char *text, *want;
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(read_sample(NULL, NULL), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(plan_xml_write(NULL, &plan, &text, &bytes), WAFER_OK);
  want = sample(NULL, NULL);
  CU_ASSERT_EQUAL(bytes, strlen(text));
  CU_ASSERT_STRING_EQUAL(text, want);
  free(text);
  free(want);
  done();
}

static void test_writing_gives_what_was_read(void) {
  check_round_trip();
}

static void test_locale_does_not_matter(void) {
  static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
  for (size_t i = 0; i < WAFER_COUNT(commas) && !setlocale(LC_NUMERIC, commas[i]); i++) {
  }
  check_round_trip();
  setlocale(LC_NUMERIC, "C");
}

static void test_memory_runs_out(void) {
  for (size_t n = 1;; n++) {
    arena = wafer_arena_create();
    char *text = sample(NULL, NULL);
    wafer_arena_fail_after(n);
    wafer_status status = read_text(text, strlen(text));
    wafer_arena_fail_after(0);
    free(text);
    done();
    if (status == WAFER_OK) break;
    CU_ASSERT_EQUAL(status, WAFER_NO_MEMORY);
  }
}

/* ---- what is refused ---- */

static const struct {
  const char *name, *from, *to, *words; /* words of the message */
} refused[] = {
    {"another format", "format=\"1\"", "format=\"2\"", "format 1"},
    {"mode auto", "mode=\"streaming\"", "mode=\"auto\"", "pipelined or streaming"},
    {"missing attribute", "batch=\"3\" ", "", "lacks its attribute 'batch'"},
    {"unknown attribute", "batch=\"3\"", "batch=\"3\" bach=\"4\"", "no attribute 'bach'"},
    {"attribute twice", "batch=\"3\"", "batch=\"3\" batch=\"3\"", "not well-formed"},
    {"negative number", "batch=\"3\"", "batch=\"-3\"", "a number from 0"},
    {"signed number", "batch=\"3\"", "batch=\"+3\"", "a number from 0"},
    {"blank before", "batch=\"3\"", "batch=\" 3\"", "a number from 0"},
    {"32 bits overflow", "batch=\"3\"", "batch=\"4294967296\"", "a number from 0"},
    {"64 bits overflow", "18446744073709551615", "18446744073709551616", "a number from 0"},
    {"empty number", "batch=\"3\"", "batch=\"\"", "a number from 0"},
    {"flag", "fits=\"true\"", "fits=\"1\"", "true or false"},
    {"a second streaming", "<machine",
     "<streaming fits=\"true\" latency-cycles=\"1\" "
     "interval-cycles=\"2\" cores=\"4\" peak-core-bytes=\"5\"/><machine",
     "a second <streaming>"},
    {"short digest", "0123456789abcdef", "0123456789abcde", "16 hexadecimal digits"},
    {"rank 9", "1x3x4x4xf32", "1x1x1x1x1x1x1x1x1xf32", "rank 8"},
    {"dims overflow", "1x3x4x4xf32", "4294967296x4294967296xf32", "a type"},
    {"negative dim", "1x3x4x4xf32", "1x-3xf32", "a type"},
    {"no element type", "1x3x4x4xf32", "1x3x4x4", "a type"},
    {"element type none", "1x3x4x4xf32", "none", "a type"},
    {"two trainings", "</plan>",
     "<training loss=\"0\" count=\"0\" labels=\"0\" micro-batch=\"1\"/></plan>",
     "a second <training>"},
    {"a training without its loss", "<training loss=\"2\"", "<training",
     "lacks its attribute 'loss'"},
    {"two weights of a name", "name=\"scalar\"", "name=\"w\"", "a second weight named 'w'"},
    {"unknown element", "<value", "<valve", "holds no <valve>"},
    {"element in a leaf", "<cost", "<memory what=\"x\" bytes=\"1\"><cost", ""},
    {"text", "<value", "hello<value", "text"},
    {"unknown family", "family=\"conv\"", "family=\"conv3\"", "a kernel family"},
    {"family none", "family=\"conv\"", "family=\"none\"", "a kernel family"},
    {"13 parts", "rows=\"1 1 2\"", "rows=\"1 1 1 1 1 1 1 1 1 1 1 1 2\"", "at most 12"},
    {"three numbers of a rectangle", "rect=\"1 2 2 2\"", "rect=\"1 2 2\"", "x y width height"},
    {"nine operands", "operands=\"0 1\"", "operands=\"0 1 0 1 0 1 0 1 0\"", "at most 8"},
    {"unknown op", "op=\"clip\"", "op=\"clop\"", "a core op"},
    {"attribute of another op", "to=\"f16\"", "to=\"f16\" axis=\"1\"",
     "carries no attribute 'axis'"},
    {"attribute of the op missing", "group=\"1\" ", "", "lacks its attribute 'group'"},
    {"attribute overflows", "group=\"1\"", "group=\"9223372036854775808\"", "an integer"},
    {"attribute in hexadecimal", "max=\"0.1\"", "max=\"0x1p3\"", "a number"},
    {"attribute list ends in a blank", "pads=\"-1 0 0 0\"", "pads=\"-1 0 0 0 \"", "integers"},
    {"constant too short", "0100ff7f", "0100ff", "two hexadecimal digits"},
    {"constant too long", "0100ff7f", "0100ff7f00", "two hexadecimal digits"},
    {"constant odd", "0100ff7f", "0100ff7f0", "two hexadecimal digits"},
    {"constant no digit", "0100ff7f", "0100gg7f", "two hexadecimal digits"},
    {"huge constant", "2xi16", "1152921504606846975xi8", "two hexadecimal digits"},
    {"bad escape", "\\x01", "\\x0g", "text in which"},
    {"escaped nul", "\\x01", "\\x00", "text in which"},
    {"escape at the end", "wafer test", "wafer test\\", "text in which"},
    {"kernel without output", "<output value=\"2\" of=\"5\"/>", "", "lacks its <output>"},
    {"kernel without cost", "<cost ", "<!--", ""},
    {"holding nowhere", "from=\"edge\"", "from=\"moon\"", "edge, memoryx"},
    {"holding without columns", "cols 1 2 1 1", "", "edge, memoryx"},
    {"holding of unequal ranks", "cols 1 2 1 1", "cols 1 2 1", "edge, memoryx"},
    {"holding of rank 9", "rows 1 1 2 1", "rows 1 1 2 1 1 1 1 1 1", "edge, memoryx"},
    {"half a segment", "0 0 1 0, 1 0 1 2", "0 0 1 0, 1 0", "segments"},
    {"segment and a comma", "0 0 1 0, 1 0 1 2", "0 0 1 0,", "segments"},
    {"index none by number", "to-kernel=\"0\"", "to-kernel=\"4294967295\"", "an index"},
    {"unknown action", "s0 s1 k0", "s0 s1 j0", "streams sN"},
    {"actions not separated", "s0 s1 k0", "s0s1 k0", "streams sN"},
    {"unknown step", "kind=\"load\"", "kind=\"leap\"", "load, phase, host"},
    {"no function", "<function name=\"main\" inputs=\"0\" outputs=\"2\">", "<function>", "lacks"},
    {"processing instruction", "<value", "<?php ?><value", "elements and comments alone"},
    {"CDATA", "<value", "<![CDATA[x]]><value", "elements and comments alone"},
    {"unknown entity", "name=\"main\"", "name=\"&main;\"", "not well-formed"},
    {"second root", "</plan>\n", "</plan><plan/>", "not well-formed"},
    {"another root", "<plan format", "<plane format", "<plan> is expected"},
    {"machine broken", "<fabric width=\"16\"", "<fabric width=\"0\"", ""},
    {"machine missing", "<machine ", "<machina ", "holds no <machina>"},
};

static void test_malformed_is_refused(void) {
  for (size_t i = 0; i < WAFER_COUNT(refused); i++) {
    wafer_status status = read_sample(refused[i].from, refused[i].to);
    bool right = status == WAFER_BAD_INPUT && strstr(last.text, refused[i].words);
    if (!right) printf("\n  %s: %d, %s: %s\n", refused[i].name, status, last.place, last.text);
    CU_ASSERT(right);
    done();
  }
}

static void test_messages_name_the_line(void) {
  CU_ASSERT_EQUAL(read_sample("owner=\"output\"", "owner=\"owner\""), WAFER_BAD_INPUT);
  char *text = sample(NULL, NULL), *at = strstr(text, "owner=\"output\"");
  int line = 1;
  for (char *c = text; c < at; c++) line += *c == '\n';
  char want[64];
  snprintf(want, sizeof want, "p.wplan/plan.xml:%d", line);
  CU_ASSERT(strstr(last.place, want) != NULL);
  free(text);
  done();
}

/* ---- hostile documents ---- */

static void refuse(const char *text, size_t bytes) {
  arena = wafer_arena_create();
  CU_ASSERT_EQUAL(read_text(text, bytes), WAFER_BAD_INPUT);
  CU_ASSERT(wafer_arena_bytes(arena) < 1 << 20);
  done();
}

static void test_bombs_are_refused(void) {
  static const char *const bombs[] = {
      "",
      "not xml at all",
      "<?xml version=\"1.0\"?><!DOCTYPE plan [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b "
      "\"&a;&a;&a;&a;\">"
      "<!ENTITY c \"&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;\">]><plan format=\"&d;\"/>",
      "<!DOCTYPE plan SYSTEM \"http://127.0.0.1:1/x.dtd\"><plan/>",
      "<!DOCTYPE plan [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><plan>&x;</plan>",
      "<plan xmlns:xi=\"http://www.w3.org/2001/XInclude\"><xi:include "
      "href=\"/etc/passwd\"/></plan>",
      "<?xml version=\"1.0\" encoding=\"UTF-16\"?><plan/>",
  };
  for (size_t i = 0; i < WAFER_COUNT(bombs); i++) refuse(bombs[i], strlen(bombs[i]));
  refuse("<plan format=\"1\"\0/>", 19);
  refuse("\xff\xfe<\0p\0l\0a\0n\0/\0>\0", 16);
}

static void test_deep_documents_are_refused(void) {
  enum { deep = 100000 };
  char *text = malloc(deep * 6 + 1);
  for (int i = 0; i < deep; i++) memcpy(text + 6 * i, "<plan>", 6);
  refuse(text, deep * 6);
  free(text);
}

static void test_truncated_is_refused(void) {
  arena = wafer_arena_create();
  char *text = sample(NULL, NULL);
  size_t bytes = strlen(text);
  done();
  for (size_t size = 0; size < bytes - 2; size++) { /* without the last line end it is complete */
    char *cut = malloc(size ? size : 1);
    memcpy(cut, text, size);
    refuse(cut, size);
    free(cut);
  }
  free(text);
}

/* Any byte replaced: read or refused, never a crash. */
static void test_damage_is_survived(void) {
  arena = wafer_arena_create();
  char *text = sample(NULL, NULL);
  size_t bytes = strlen(text);
  done();
  for (size_t i = 0; i < bytes; i++)
    for (int c = 0; c < 4; c++) {
      char kept = text[i];
      text[i] = c == 3 ? (char)(kept ^ 1) : "<9\""[c];
      arena = wafer_arena_create();
      (void)read_text(text, bytes);
      done();
      text[i] = kept;
    }
  free(text);
}

/* ---- the schema ---- */

static wafer_status validate(const char *from, const char *to) {
  wafer_diag diag = caught_diag(&last);
  arena = wafer_arena_create();
  char *text = sample(from, to);
  wafer_status status = plan_xml_validate(&diag, "p.wplan/plan.xml", text, strlen(text));
  if ((status == WAFER_OK) != !last.count) CU_FAIL("status and message disagree");
  free(text);
  done();
  return status;
}

static void test_schema_accepts_what_is_written(void) {
  wafer_status status = validate(NULL, NULL);
  if (status != WAFER_OK) printf("\n  %s: %s\n", last.place, last.text);
  CU_ASSERT_EQUAL(status, WAFER_OK);
}

static void test_schema_refuses(void) {
  CU_ASSERT_EQUAL(validate("batch=\"3\"", "batch=\"x\""), WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(validate("<value", "<valve"), WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(validate("rows 1 1 2 1", "rows"),
                  WAFER_OK); /* ranks are the reader's to compare */
  CU_ASSERT_EQUAL(validate("s0 s1 k0", "s0 j1"), WAFER_BAD_INPUT);
  CU_ASSERT_EQUAL(validate("pads=\"-1 0 0 0\"", "pads=\"one\""), WAFER_BAD_INPUT);
}

/* plan.rng restates the tables: each field, and each attribute of attrs.def, stands in it. */
static bool in_schema(const char *schema, const char *element, const char *name) {
  char want[128];
  snprintf(want, sizeof want, "<element name=\"%s\">", element);
  const char *at = strstr(schema, want);
  snprintf(want, sizeof want, "<attribute name=\"%s\">", name);
  const char *found = at ? strstr(at, want) : NULL;
  if (!found) printf("\n  plan.rng lacks %s of <%s>\n", name, element);
  return found != NULL;
}

static void test_schema_knows_every_field(void) {
  static char schema[1 << 16];
  FILE *file = fopen(WAFER_SOURCE_DIR "/runtime/plan/plan.rng", "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  CU_ASSERT(fread(schema, 1, sizeof schema - 1, file) > 0);
  fclose(file);
  const xml_element *elements[] = {
      &xml_plan_element,   &xml_weight_element,   &xml_value_element,   &xml_kernel_element,
      &xml_input_element,  &xml_node_element,     &xml_output_element,  &xml_split_cost_element,
      &xml_memory_element, &xml_stream_element,   &xml_phase_element,   &xml_function_element,
      &xml_step_element,   &xml_training_element, &xml_trained_element, &xml_noise_element};
  for (size_t i = 0; i < WAFER_COUNT(elements); i++)
    for (uint32_t f = 0; f < elements[i]->field_count; f++)
      CU_ASSERT(in_schema(schema, elements[i]->name, elements[i]->fields[f].name));
  for (uint32_t a = 0; a < WAFER_ATTR_COUNT; a++) {
    CU_ASSERT(in_schema(schema, "node", wafer_attr_name((wafer_attr_id)a)));
    for (uint32_t f = 0; f < xml_node_element.field_count; f++) /* no attribute may hide a field */
      CU_ASSERT(strcmp(xml_node_element.fields[f].name, wafer_attr_name((wafer_attr_id)a)) != 0);
  }
}

CU_TestInfo tests_plan_xml[] = {
    {"heads, weights and values are read", test_heads_are_read},
    {"kernels are read", test_kernels_are_read},
    {"streams, phases and steps are read", test_streams_and_steps_are_read},
    {"training is read", test_training_is_read},
    {"writing gives what was read", test_writing_gives_what_was_read},
    {"the locale does not matter", test_locale_does_not_matter},
    {"memory runs out", test_memory_runs_out},
    {"malformed plans are refused", test_malformed_is_refused},
    {"messages name the line", test_messages_name_the_line},
    {"bombs are refused", test_bombs_are_refused},
    {"deep documents are refused", test_deep_documents_are_refused},
    {"truncated documents are refused", test_truncated_is_refused},
    {"damage is survived", test_damage_is_survived},
    {"the schema accepts what is written", test_schema_accepts_what_is_written},
    {"the schema refuses", test_schema_refuses},
    {"the schema knows every field", test_schema_knows_every_field},
    CU_TEST_INFO_NULL,
};
