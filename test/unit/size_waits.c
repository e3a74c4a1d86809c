/* passes/size/size_bound.c, size_waits.c, size_waits_find.c, size_patience.c: cores for what waits,
 * bounded and spared. */
#include "passes/size/size_best.h"
#include "size_scene.h"

/* What a search says of a chain on small16 without limit of the edge. */
typedef struct told {
  unsigned long long interval, shelves, bound;
} told;

static told look(const char *text) {
  const wafer_options options = {
      .placer = WAFER_PLACER_best, .place_moves = 20000, .programs = WAFER_PROGRAMS_never};
  fixture f;
  sizing s;
  told t = {0};
  setup(&f, "small16", text);
  wafer_machine free = *f.ctx.machine;
  free.edge_in_bytes_per_second = free.edge_out_bytes_per_second = UINT64_MAX;
  f.ctx.machine = &free;
  f.ctx.options = &options;
  f.curves = curve_set_of(&f.ctx, f.ir);
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(s.cost.fits);
  CU_ASSERT_EQUAL_FATAL(
      sscanf(f.caught.text, "placer best: interval %llu cycles (shelves %llu; no layout below %llu",
             &t.interval, &t.shelves, &t.bound),
      3);
  f.ctx.options = NULL;
  teardown(&f);
  return t;
}

/* No layout is below what is said of it. */
static void no_layout_is_below_the_bound(void) {
  char text[16384];
  for (uint32_t n = 2; n <= 26; n += 3) {
    told t = look(chain(text, sizeof text, n));
    CU_ASSERT(t.bound <= t.interval && t.interval <= t.shelves);
  }
}

/* Of a value that skips 20 kernels one sample waits for each; if it came from the edge instead,
 * none would. */
static void what_waits_takes_cores(void) {
  char text[16384];
  told waits = look(chain(text, sizeof text, 20));
  char *skip = strstr(text, ", %v0)");
  CU_ASSERT_PTR_NOT_NULL_FATAL(skip);
  memcpy(skip, ", %x) ", 6);
  told comes = look(text);
  CU_ASSERT(waits.bound > comes.bound + comes.bound / 20);
}

/* With kernels that are fast enough for little to wait the wafer is as fast as it can be; shelves
 * and, before, the search were not. */
static void patience_is_limited(void) {
  char text[16384];
  told t = look(chain(text, sizeof text, 10));
  CU_ASSERT(t.interval == t.bound && t.interval < t.shelves);
}

/* Shapes of a bound are grown to the lanes that their streams take, along rows or along columns of
 * each copy; a kernel that no split gives so many has none. */
static void shapes_grow_to_their_lanes(void) {
  const wafer_curve curve = {.most_rows = 12, .most_cols = 14};
  const kind of = {.curve = &curve, .words = 100};
  const search_sides one = {.width = 3, .height = 2};
  wafer_machine machine = {.usable = {.width = 64, .height = 64}};
  const wafer_ctx ctx = {.machine = &machine};
  pipeline p = {.ctx = &ctx};
  const search s = {.p = &p, .most = 4};
  search_sides grown[2];
  CU_ASSERT_EQUAL_FATAL(search_grow(&s, &of, one, 30, 10, grown), 2); /* ten lanes, three copies */
  CU_ASSERT(grown[0].width == 9 && grown[0].height == 10);
  CU_ASSERT(grown[1].width == 30 && grown[1].height == 2);
  CU_ASSERT_EQUAL_FATAL(search_grow(&s, &of, one, 10, 8, grown), 1); /* thirteen lanes */
  CU_ASSERT(grown[0].width == 26 && grown[0].height == 2);
  CU_ASSERT_EQUAL(search_grow(&s, &of, one, 10, 7, grown), 0);        /* fifteen */
  CU_ASSERT_EQUAL(search_grow(&s, &of, one, 51, 10, grown), 0);       /* six copies */
  CU_ASSERT_EQUAL_FATAL(search_grow(&s, &of, one, 30, 50, grown), 1); /* has two lanes */
  CU_ASSERT(grown[0].width == 3 && grown[0].height == 2);
}

CU_TestInfo tests_size_waits[] = {
    {"shapes grow to their lanes", shapes_grow_to_their_lanes},
    {"no layout is below the bound", no_layout_is_below_the_bound},
    {"what waits takes cores", what_waits_takes_cores},
    {"kernels are as patient as pays", patience_is_limited},
    CU_TEST_INFO_NULL,
};
