#include "wafer/machine.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"
#include "runtime/machine/machine_fields.h"
#include "scratch.h"

static void every_shipped_machine_opens(void) {
  size_t count = 0;
  for (const char *const *name = wafer_machine_names(); *name; name++, count++) {
    caught last;
    wafer_diag diag = caught_diag(&last);
    wafer_arena *arena = wafer_arena_create();
    const wafer_machine *machine;
    CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, *name, &machine), WAFER_OK);
    CU_ASSERT_STRING_EQUAL(machine->name, *name);
    CU_ASSERT_EQUAL(wafer_machine_check(&diag, *name, machine), WAFER_OK);
    CU_ASSERT_EQUAL(last.count, 0);
    wafer_arena_destroy(arena);
  }
  CU_ASSERT_EQUAL(count, 5);
}

static void the_figures_are_those_published(void) {
  static const struct {
    const char *name;
    uint32_t width, height, usable_width, usable_height, hop;
    uint64_t clock;
  } rows[] = {
      {"wse1", 633, 633, 633, 633, 1, 850000000},    {"wse2", 750, 994, 743, 992, 1, 1100000000},
      {"wse3", 762, 1172, 755, 1170, 2, 1100000000}, {"small64", 64, 64, 64, 64, 1, 1100000000},
      {"small16", 16, 16, 16, 16, 1, 1100000000},
  };
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    const wafer_machine *m;
    CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, rows[i].name, &m), WAFER_OK);
    CU_ASSERT(m->width == rows[i].width && m->height == rows[i].height);
    CU_ASSERT_EQUAL(m->usable.width, rows[i].usable_width);
    CU_ASSERT_EQUAL(m->usable.height, rows[i].usable_height);
    CU_ASSERT_EQUAL(m->hop_cycles, rows[i].hop);
    CU_ASSERT_EQUAL(m->clock_hz, rows[i].clock);
  }
  const wafer_machine *wse2;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2), WAFER_OK);
  CU_ASSERT_EQUAL(wse2->core_bytes, 49152);
  CU_ASSERT_EQUAL(wafer_machine_core_budget(wse2), 49152 - 4096);
  CU_ASSERT_EQUAL(wse2->rate[WAFER_RATE_fma][1].elements, 4);
  CU_ASSERT_EQUAL(wse2->input_queues, 8);
  CU_ASSERT_EQUAL(wse2->input_queue_words[3], 4);
  CU_ASSERT_EQUAL(wse2->output_queues, 6);
  CU_ASSERT_EQUAL(wse2->edge_in_bytes_per_second, 150000000000);
  wafer_arena_destroy(arena);
}

static void cycles_round_up(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse3", &m), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_f32, 3), 6);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_f64, 3), 12);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_f16, 73), 25);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_i8, 74), 26);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_f16, 0), 0);
  CU_ASSERT_EQUAL(wafer_machine_cycles(m, WAFER_RATE_fma, WAFER_DTYPE_f32, UINT64_MAX), UINT64_MAX);
  CU_ASSERT_EQUAL(wafer_machine_transfer_cycles(m, 150, 150000000000), 2);
  CU_ASSERT_EQUAL(wafer_machine_transfer_cycles(m, 1500, 150000000000), 11);
  CU_ASSERT_EQUAL(wafer_machine_transfer_cycles(m, 1500, UINT64_MAX), 0);
  CU_ASSERT_EQUAL(wafer_machine_transfer_cycles(m, UINT64_MAX, 1), UINT64_MAX);
  wafer_arena_destroy(arena);
}

/* small16's text with the first `from` replaced; in the arena. */
static char *edited(wafer_arena *arena, const char *from, const char *to) {
  size_t bytes;
  const char *text = wafer_machine_text("small16", &bytes), *at = strstr(text, from);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  return wafer_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static wafer_status parse(caught *last, wafer_arena *arena, const char *text,
                          const wafer_machine **out) {
  wafer_diag diag = caught_diag(last);
  return wafer_machine_parse(&diag, arena, "my.xml", text, strlen(text), out);
}

static void printing_and_parsing_agree(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *first, *second;
  caught last;
  char *text, *again;
  size_t bytes, more;
  char *mine = edited(arena, "<clock", "<dead x=\"3\" y=\"2\"/><dead x=\"1\" y=\"2\"/><clock");
  CU_ASSERT_EQUAL_FATAL(parse(&last, arena, mine, &first), WAFER_OK);
  CU_ASSERT_EQUAL(first->dead_count, 2);
  CU_ASSERT(first->dead[0].x == 1 && first->dead[1].x == 3);
  wafer_machine changed = *first;
  changed.edge_in_bytes_per_second = UINT64_MAX;
  CU_ASSERT_EQUAL(wafer_machine_print(NULL, arena, &changed, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(parse(&last, arena, text, &second), WAFER_OK);
  CU_ASSERT_EQUAL(second->edge_in_bytes_per_second, UINT64_MAX);
  CU_ASSERT_EQUAL(wafer_machine_print(NULL, arena, second, &again, &more), WAFER_OK);
  CU_ASSERT_EQUAL(bytes, more);
  CU_ASSERT_STRING_EQUAL(text, again);
  wafer_arena_destroy(arena);
}

static const struct {
  const char *from, *to, *place, *want;
} bad[] = {
    {"<router ", "<router colour=\"1\" ", "my.xml:18",
     "invalid attribute colour for element router"},
    {" hop-cycles=\"1\"", "", "my.xml:18", "<router> lacks hop-cycles"},
    {"<clock", "<color/><clock", "my.xml:7", "did not expect element color there"},
    {"  <clock hz=\"1100000000\"/>\n", "", "my.xml:4", "<clock> is missing"},
    {"<clock", "<clock hz=\"1\"/><clock", "my.xml:7", "did not expect element clock there"},
    {"<machine ", "<wafer ", "my.xml:24",
     "opening and ending tag mismatch: wafer line 4 and machine"},
    {"version=\"1\"", "version=\"2\"", "my.xml:4", "element machine failed to validate attributes"},
    {" name=\"small16\"", "", "my.xml:4", "<machine> lacks name"},
    {"\"small16\"", "\"small 16\"", "my.xml:4", "element machine failed to validate attributes"},
    {"hop-cycles=\"1\"", "hop-cycles=\"one\"", "my.xml:18",
     "router hop-cycles is 'one'; allowed are 1 to 65536"},
    {"hop-cycles=\"1\"", "hop-cycles=\"01\"", "my.xml:18",
     "router hop-cycles is '01'; allowed are 1 to 65536"},
    {"hop-cycles=\"1\"", "hop-cycles=\"0\"", "my.xml:18",
     "router hop-cycles is '0'; allowed are 1 to 65536"},
    {"hop-cycles=\"1\"", "hop-cycles=\"-1\"", "my.xml:18",
     "router hop-cycles is '-1'; allowed are 1 to 65536"},
    {"hz=\"1100000000\"", "hz=\"99999999999999999999\"", "my.xml:7",
     "clock hz is '99999999999999999999'; allowed are 1 to 1000000000000"},
    {"hz=\"1100000000\"", "hz=\"unlimited\"", "my.xml:7",
     "clock hz is 'unlimited'; allowed are 1 to 1000000000000"},
    {"in-bytes-per-second=\"12500000000\"", "in-bytes-per-second=\"much\"", "my.xml:21",
     "edge in-bytes-per-second is 'much'; allowed are 1 to 1000000000000000000 and unlimited"},
    {"\"1/16\"", "\"1/65537\"", "my.xml:14",
     "a rate is elements/cycles, both numbers from 1 to 65536"},
    {"\"1/16\"", "\"1/0\"", "my.xml:14", "a rate is elements/cycles, both numbers from 1 to 65536"},
    {"\"1/16\"", "\"1/2/3\"", "my.xml:14",
     "a rate is elements/cycles, both numbers from 1 to 65536"},
    {"of=\"fma\"", "of=\"gemm\"", "my.xml:13", "rate of 'gemm' is unknown"},
    {"of=\"fma\"", "of=\"mul\"", "my.xml:13", "rate of 'mul' is there twice"},
    {"  <rate of=\"fma\" bits32=\"1\" bits16=\"4\"/>\n", "", "my.xml:4",
     "the rate of 'fma' is missing"},
    {"\"6 6 4 4 2 2 2 2\"", "\"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\"", "my.xml:19",
     "<input-queues> words: 1 to 16 queues of 1 to 65536 words"},
    {"\"6 6 4 4 2 2 2 2\"", "\"6  6\"", "my.xml:19",
     "<input-queues> words: 1 to 16 queues of 1 to 65536 words"},
    {"\"6 6 4 4 2 2 2 2\"", "\"6 \"", "my.xml:19",
     "<input-queues> words: 1 to 16 queues of 1 to 65536 words"},
    {"reserved-bytes=\"1024\"", "reserved-bytes=\"16384\"", "my.xml",
     "core reserved-bytes, 16384, leaves nothing of 16384 bytes"},
    {"<usable x=\"0\"", "<usable x=\"1\"", "my.xml",
     "the usable rectangle, 16 x 16 cores at (1,0), leaves the fabric of 16 x 16"},
    {"<clock", "<dead x=\"16\" y=\"0\"/><clock", "my.xml:7",
     "a dead core is not inside the fabric"},
    {"<clock", "<dead x=\"16\"/><clock", "my.xml:7", "<dead> lacks y"},
    {"<clock", "<dead x=\"1\" y=\"5\"/><dead x=\"1\" y=\"5\"/><clock", "my.xml",
     "dead core (1,5) is listed twice"},
    {"</machine>", "", "my.xml:25", "premature end of data in tag machine line 4"},
    {"</machine>", "</machine><machine/>", "my.xml:24", "extra content at the end of the document"},
    {"<clock", "words<clock", "my.xml:4", "did not expect text in element machine content"},
    {"<machine ", "<!DOCTYPE machine><machine ", "my.xml:4",
     "document type declarations are refused"},
    {"<machine ", "<!DOCTYPE machine SYSTEM \"http://127.0.0.1:9/x.dtd\"><machine ", "my.xml:4",
     "document type declarations are refused"},
    {"<machine ",
     "<!DOCTYPE m [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><machine ",
     "my.xml:4", "document type declarations are refused"},
    {"name=\"small16\"", "name=\"&secret;\"", "my.xml:4", "entity 'secret' not defined"},
};

static void bad_machines_are_refused(void) {
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_machine *machine;
    caught last;
    char *text = edited(arena, bad[i].from, bad[i].to);
    CU_ASSERT_EQUAL(parse(&last, arena, text, &machine), WAFER_BAD_INPUT);
    CU_ASSERT_PTR_NULL(machine);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_STRING_EQUAL(last.place, bad[i].place);
    CU_ASSERT_STRING_EQUAL(last.text, bad[i].want);
    wafer_arena_destroy(arena);
  }
}

static void every_truncation_is_refused(void) {
  size_t bytes;
  const char *text = wafer_machine_text("small16", &bytes);
  for (size_t size = 0; size + 2 < bytes; size += 7) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_machine *machine;
    caught last;
    wafer_diag diag = caught_diag(&last);
    CU_ASSERT_EQUAL(wafer_machine_parse(&diag, arena, "m", text, size, &machine), WAFER_BAD_INPUT);
    CU_ASSERT_EQUAL(last.count, 1);
    wafer_arena_destroy(arena);
  }
}

static wafer_status open_saved(caught *last, wafer_arena *arena, const char *text, size_t bytes,
                               const wafer_machine **out) {
  scratch in = scratch_create();
  wafer_diag diag = caught_diag(last);
  const char *path = scratch_save(&in, "my.xml", text, bytes);
  wafer_status status = wafer_machine_open(&diag, arena, path, out);
  scratch_remove(&in);
  return status;
}

static void a_path_is_read_and_a_name_is_looked_up(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  caught last;
  char *large = calloc(1, 17 << 20), *text = edited(arena, "\"small16\"", "\"mine\"");
  CU_ASSERT_EQUAL_FATAL(open_saved(&last, arena, text, strlen(text), &machine), WAFER_OK);
  CU_ASSERT_STRING_EQUAL(machine->name, "mine");
  CU_ASSERT_EQUAL(open_saved(&last, arena, large, 17 << 20, &machine), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "a machine file has at most 16777216 bytes, this one 17825792");
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL(wafer_machine_open(&diag, arena, "wse9", &machine), WAFER_USAGE);
  CU_ASSERT_STRING_EQUAL(last.text, "there is no machine 'wse9'; shipped are small16 small64 wse1 "
                                    "wse2 wse3, or give the path of an XML file");
  CU_ASSERT_EQUAL(wafer_machine_open(&diag, arena, "none.xml", &machine), WAFER_IO);
  CU_ASSERT_PTR_NULL(machine);
  size_t bytes;
  CU_ASSERT_PTR_NULL(wafer_machine_text("wse9", &bytes));
  free(large);
  wafer_arena_destroy(arena);
}

/* A struct filled by hand is held to the same laws as a file. */
static void a_struct_is_checked_too(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *good;
  wafer_core_at dead[256];
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &good), WAFER_OK);
  wafer_machine m = *good;
  m.name = "a b";
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  m = *good;
  m.colors = 0;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "router colors is 0; allowed are 1 to 1024");
  m = *good;
  m.rate[WAFER_RATE_exp][1].cycles = 0;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "rate exp is 1/0; both must be 1 to 65536");
  m = *good;
  m.output_queues = 17;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  m = *good;
  m.output_queue_words[5] = 0;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "output-queues: queue 5 has 0 words; allowed are 1 to 65536");
  m = *good;
  for (uint32_t i = 0; i < 256; i++) dead[i] = (wafer_core_at){i % 16, i / 16};
  m.dead = dead;
  m.dead_count = 255;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_OK);
  m.dead_count = 256;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "every core of the usable rectangle is dead");
  m.dead_count = 2;
  dead[0].x = 2;
  CU_ASSERT_EQUAL(wafer_machine_check(&diag, "m", &m), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "dead cores are not sorted by y, then x");
  wafer_arena_destroy(arena);
}

static void running_out_of_memory_is_reported(void) {
  wafer_status status = WAFER_NO_MEMORY;
  for (size_t n = 1; status != WAFER_OK; n++) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_machine *machine;
    wafer_arena_fail_after(n);
    status = wafer_machine_open(NULL, arena, "small16", &machine);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    wafer_arena_destroy(arena);
  }
}

/* Equal bands of usable rows, as the wafer's XML says them; refused where they would differ. */
static void wafers_have_bands(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wafer, *band, *again, *none;
  wafer_core_at dead = {300, 300};
  char *text;
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse2", &wafer), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){3, 1, false}, &band),
                        WAFER_OK);
  CU_ASSERT(band->height == 330 && band->usable.height == 330 && band->usable.y == 0);
  CU_ASSERT_EQUAL(wafer_machine_bands(band), 3);
  CU_ASSERT_EQUAL(wafer_machine_whole(band)->height, 994);
  CU_ASSERT_EQUAL(wafer_machine_check(NULL, "band", band), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, band, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_parse(NULL, arena, "band", text, bytes, &again), WAFER_OK);
  CU_ASSERT(again->height == 330 && again->cut.bands == 3 && again->whole->height == 994);
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){1, 1, false}, &band),
                  WAFER_OK);
  CU_ASSERT(band == wafer && wafer_machine_bands(band) == 1 && wafer_machine_whole(band) == wafer);
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){993, 1, false}, &none),
                  WAFER_NO_FIT);
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){0, 1, false}, &none),
                  WAFER_NO_FIT);
  wafer_machine damaged = *wafer;
  damaged.dead = &dead;
  damaged.dead_count = 1;
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, &damaged, (wafer_cut){2, 1, false}, &none),
                  WAFER_UNSUPPORTED);
  wafer_arena_destroy(arena);
}

/* Bands that are together have an even share of what crosses the edge, the wafer all of it. */
static void bands_share_rates(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wafer, *band, *again;
  char *text;
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse2", &wafer), WAFER_OK);
  wafer_machine fast = *wafer;
  fast.edge_out_bytes_per_second = UINT64_MAX;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_band(NULL, arena, &fast, (wafer_cut){4, 1, true}, &band),
                        WAFER_OK);
  CU_ASSERT_EQUAL(band->edge_in_bytes_per_second, wafer->edge_in_bytes_per_second / 4);
  CU_ASSERT_EQUAL(band->memoryx_bytes_per_second, wafer->memoryx_bytes_per_second / 4);
  CU_ASSERT_EQUAL(band->edge_out_bytes_per_second, UINT64_MAX);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, band, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_parse(NULL, arena, "band", text, bytes, &again), WAFER_OK);
  CU_ASSERT(again->cut.together && again->cut.bands == 4);
  CU_ASSERT_EQUAL(again->edge_in_bytes_per_second, band->edge_in_bytes_per_second);
  CU_ASSERT_EQUAL(wafer_machine_whole(again)->edge_in_bytes_per_second,
                  wafer->edge_in_bytes_per_second);
  wafer_arena_destroy(arena);
}

/* Of two sides each has half of the bands, of half the columns, within the usable ones of both;
 * every core of each is on the wafer once, where the wafer says it is. */
static void bands_have_sides(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wafer, *band, *again, *none;
  char *text;
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse2", &wafer), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){6, 2, false}, &band),
                        WAFER_OK);
  CU_ASSERT(band->width == 375 && band->usable.x == 4 && band->usable.width == 371);
  CU_ASSERT(band->height == 330 && wafer_machine_bands(band) == 6);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, band, &text, &bytes), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_parse(NULL, arena, "band", text, bytes, &again), WAFER_OK);
  CU_ASSERT(again->width == 375 && again->cut.bands == 6 && again->cut.sides == 2);
  uint64_t inside = 0;
  for (uint32_t y = 0; y < wafer->height; y++)
    for (uint32_t x = 0; x < wafer->width; x++) {
      wafer_core_at at, back;
      uint32_t index = wafer_machine_band_at(band, x, y, &at);
      if (index == 6) continue;
      back = wafer_machine_band_core(band, index, at.x, at.y);
      CU_ASSERT(back.x == x && back.y == y && at.x < 375 && at.y < 330 && index < 6);
      inside++;
    }
  CU_ASSERT_EQUAL(inside, 6 * 375 * 330);
  wafer_core_at first = wafer_machine_band_core(band, 0, 4, 0),
                east = wafer_machine_band_core(band, 3, 4, 0);
  CU_ASSERT(first.x == 4 && first.y == 1 && east.x == 745 && east.y == 331);
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){5, 2, false}, &none),
                  WAFER_UNSUPPORTED);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small64", &wafer), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){4, 2, false}, &none),
                  WAFER_UNSUPPORTED); /* its edge is in the west alone */
  wafer_arena_destroy(arena);
}

static bool document_has(const char *document, const char *word) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "`%s`", word);
  return strstr(document, quoted) != NULL;
}

static void every_field_is_documented(void) {
  static char document[32768];
  long bytes = scratch_load(WAFER_SOURCE_DIR "/docs/machine.md", document, sizeof document - 1);
  CU_ASSERT_FATAL(bytes > 0 && bytes < (long)sizeof document - 1);
  for (size_t i = 0; i < machine_field_count; i++) {
    CU_ASSERT(document_has(document, machine_fields[i].element));
    CU_ASSERT(document_has(document, machine_fields[i].attribute));
  }
  for (int rate = 0; rate < WAFER_RATE_COUNT; rate++)
    CU_ASSERT(document_has(document, wafer_rate_name((wafer_rate)rate)));
  for (const char *const *name = wafer_machine_names(); *name; name++)
    CU_ASSERT(document_has(document, *name));
}

CU_TestInfo tests_machine[] = {
    {"every shipped machine opens", every_shipped_machine_opens},
    {"the figures are those published", the_figures_are_those_published},
    {"cycles round up", cycles_round_up},
    {"printing and parsing agree", printing_and_parsing_agree},
    {"bad machines are refused", bad_machines_are_refused},
    {"every truncation is refused", every_truncation_is_refused},
    {"a path is read and a name is looked up", a_path_is_read_and_a_name_is_looked_up},
    {"a struct is checked, too", a_struct_is_checked_too},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    {"wafers have bands", wafers_have_bands},
    {"bands have sides", bands_have_sides},
    {"bands that are together share rates", bands_share_rates},
    {"every field is documented", every_field_is_documented},
    CU_TEST_INFO_NULL,
};
