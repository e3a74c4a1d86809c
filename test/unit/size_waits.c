/* passes/size/size_bound.c, size_waits.c, size_waits_find.c, size_patience.c, size_repair.c,
 * size_hold.c, size_areas.c: cores for what waits, and for copies, bounded, spared and found. */
#include "passes/size/size_best.h"
#include "size_scene.h"

/* What a search says of a program on a machine without limit of the edge. */
typedef struct told {
  unsigned long long interval, shelves, bound;
} told;

static told look(const char *machine, const char *text) {
  const wafer_options options = {
      .placer = WAFER_PLACER_best, .place_moves = 20000, .programs = WAFER_PROGRAMS_never};
  fixture f;
  sizing s;
  told t = {0};
  setup(&f, machine, text);
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
    told t = look("small16", chain(text, sizeof text, n));
    CU_ASSERT(t.bound <= t.interval && t.interval <= t.shelves);
  }
}

/* What takes a cycle on few cores fits at any interval: the search divided by one of none. */
static void an_interval_has_a_cycle(void) {
  told t = look("small64", "func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {\n"
                           "  %y = \"nn.relu\"(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>\n"
                           "  func.return %y : tensor<1x4xf32>\n}\n");
  CU_ASSERT_EQUAL(t.bound, 1);
  CU_ASSERT_EQUAL(t.interval, 1);
}

/* Of a value that skips 20 kernels one sample waits for each; if it came from the edge instead,
 * none would. */
static void what_waits_takes_cores(void) {
  char text[16384];
  told waits = look("small16", chain(text, sizeof text, 20));
  char *skip = strstr(text, ", %v0)");
  CU_ASSERT_PTR_NOT_NULL_FATAL(skip);
  memcpy(skip, ", %x) ", 6);
  told comes = look("small16", text);
  CU_ASSERT(waits.bound > comes.bound + comes.bound / 20);
}

/* With kernels that are fast enough for little to wait the wafer is as fast as it can be; shelves
 * and, before, the search were not. */
static void patience_is_limited(void) {
  char text[16384];
  told t = look("small16", chain(text, sizeof text, 10));
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

/* ---- Repairs ---- */

/* A pipeline of the model with shallow buffers; nothing is placed. */
static void open_pipeline(fixture *f, sizing *out, pipeline *p) {
  uint32_t n = f->graph.kernel_count;
  bool fits;
  *out = (sizing){0};
  *p = (pipeline){.ctx = &f->ctx, .graph = &f->graph, .curves = f->curves, .out = out};
  CU_ASSERT_EQUAL_FATAL(pipeline_start(p), WAFER_OK);
  for (uint32_t k = 0; k < n; k++) p->stage[k] = k;
  CU_ASSERT_EQUAL_FATAL(pipeline_find_curves(p, SIZE_PIPELINE_DEPTH, &fits), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(fits);
}

/* A column of each kernel's own, of the fewest cores, but at least so many. */
static shelf_place column(const pipeline *p, uint32_t k, uint32_t cores) {
  const wafer_shape_point *found = NULL, *at = p->curve[k]->at;
  for (const wafer_shape_point *end = at + p->curve[k]->count; at < end; at++)
    if (at->width == 1 && at->height >= cores && (!found || at->height < found->height)) found = at;
  CU_ASSERT_PTR_NOT_NULL_FATAL(found);
  uint32_t index = (uint32_t)(found - p->curve[k]->at);
  return (shelf_place){index, {k, 0, 1, found->height}, 1, found};
}

/* All kernels on columns of eight cores, and the last on one of four, which hold less than waits;
 * the time of the slowest. */
static uint64_t settle_shallow(pipeline *p, shelf_place *places) {
  uint32_t n = p->graph->kernel_count, last = n - 1;
  uint64_t slowest = 0;
  CU_ASSERT_TRUE_FATAL(n <= 12);
  for (uint32_t k = 0; k < n; k++) places[k] = column(p, k, k == last ? 4 : 8);
  CU_ASSERT_EQUAL_FATAL(pipeline_settle(p, places), WAFER_OK);
  for (uint32_t k = 0; k < n; k++)
    if (places[k].point->cycles > slowest) slowest = places[k].point->cycles;
  CU_ASSERT_TRUE_FATAL(p->wanted[last] != NULL && p->out->cost.interval_cycles > slowest);
  return slowest;
}

/* Such a layout of a chain, whose slowest kernel takes `slowest`. */
typedef struct shallow {
  fixture f;
  sizing out;
  pipeline p;
  shelf_place places[16];
  uint64_t slowest;
} shallow;

static void open_shallow(shallow *s) {
  char text[16384];
  setup(&s->f, "small16", chain(text, sizeof text, 10));
  open_pipeline(&s->f, &s->out, &s->p);
  s->slowest = settle_shallow(&s->p, s->places);
}

/* Kernels are held to the times that they have in a layout; each shape of a curve then has room for
 * what waits there, so that no more is wanted of any that takes no longer. */
static void what_waits_has_room_where_kernels_are_held(void) {
  shallow s;
  open_shallow(&s);
  uint32_t n = s.f.graph.kernel_count, last = n - 1;
  uint64_t t = s.slowest, cycles = s.places[last].point->cycles;
  const wafer_curve *before = s.p.curve[last];
  CU_ASSERT_EQUAL_FATAL(pipeline_hold(&s.p, t), WAFER_OK);
  for (uint32_t k = 0; k < n; k++) {
    uint64_t most = t * s.p.patience[k] / SIZE_PATIENCE, now = s.places[k].point->cycles;
    CU_ASSERT(most >= now && most <= now + now / 16);
  }
  CU_ASSERT_PTR_NOT_EQUAL_FATAL(s.p.curve[last], before);
  uint32_t held = 0;
  for (size_t i = 0; i < s.p.curve[last]->count; i++) {
    const wafer_shape_point *at = &s.p.curve[last]->at[i];
    if (at->cycles > cycles || at->width > 4) continue;
    s.places[last] = (shelf_place){(uint32_t)i, {last, 0, at->width, at->height}, 1, at};
    CU_ASSERT_EQUAL_FATAL(pipeline_settle(&s.p, s.places), WAFER_OK);
    CU_ASSERT_PTR_NULL(s.p.wanted[last]);
    held++;
  }
  CU_ASSERT(held > 0);
  teardown(&s.f);
}

/* Each kernel as slow as patience allows, in a column: nobody wants room for more than there is. */
static void what_waits_has_room_where_kernels_are_patient(void) {
  shallow s;
  open_shallow(&s);
  pipeline *p = &s.p;
  uint64_t t = s.out.cost.interval_cycles, before = t;
  CU_ASSERT_EQUAL_FATAL(pipeline_be_patient(p, 1, 256, s.slowest / 8, &t), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(t < before);
  for (uint32_t k = 0; k < s.f.graph.kernel_count; k++) {
    const wafer_shape_point *at = p->curve[k]->at, *slowest = NULL;
    for (const wafer_shape_point *end = at + p->curve[k]->count; at < end; at++)
      if (at->cycles <= t * p->patience[k] / SIZE_PATIENCE && at->cycles <= t &&
          (!slowest || at->cycles > slowest->cycles))
        slowest = at;
    CU_ASSERT_PTR_NOT_NULL_FATAL(slowest);
    uint32_t index = (uint32_t)(slowest - p->curve[k]->at);
    s.places[k] = (shelf_place){index, {k, 0, slowest->width, slowest->height}, 1, slowest};
  }
  p->edge = t;
  CU_ASSERT_EQUAL_FATAL(pipeline_settle(p, s.places), WAFER_OK);
  for (uint32_t k = 0; k < s.f.graph.kernel_count; k++) CU_ASSERT_PTR_NULL(p->wanted[k]);
  teardown(&s.f);
}

/* The last kernel's few cores hold less than waits for ten before it; it gets others, of those
 * that are free, and all others stay where they are. */
static void what_holds_too_little_is_repaired(void) {
  shallow s;
  shelf_place before[WAFER_COUNT(s.places)];
  open_shallow(&s);
  uint32_t last = s.f.graph.kernel_count - 1;
  search looking = {.p = &s.p, .replicas = 1, .most = 1, .found = s.slowest};
  uint64_t interval = s.out.cost.interval_cycles;
  memcpy(before, s.places, sizeof before);
  CU_ASSERT_EQUAL_FATAL(search_repair(&looking, s.places), WAFER_OK);
  CU_ASSERT(s.out.cost.interval_cycles < interval && !s.p.wanted[last]);
  CU_ASSERT(wafer_rect_within(s.places[last].rect, s.f.ctx.machine->usable));
  CU_ASSERT(wafer_rect_area(s.places[last].rect) > wafer_rect_area(before[last].rect));
  for (uint32_t k = 0; k < last; k++) {
    CU_ASSERT(wafer_rect_equal(s.places[k].rect, before[k].rect));
    CU_ASSERT(!wafer_rect_overlaps(s.places[k].rect, s.places[last].rect));
  }
  teardown(&s.f);
}

/* ---- Copies ---- */

/* In whole cycles one copy more may gain nothing and two more a cycle: the search stopped there. */
static void all_copies_are_weighed(void) {
  wafer_shape_point point = {.cycles = 557, .width = 1, .height = 64};
  const wafer_curve curve = {.at = &point, .count = 1};
  char text[16384];
  fixture f;
  sizing out;
  pipeline p;
  wafer_placer_problem problem;
  setup(&f, "small64", chain(text, sizeof text, 2));
  open_pipeline(&f, &out, &p);
  for (uint32_t k = 0; k < f.graph.kernel_count; k++) p.curve[k] = &curve;
  CU_ASSERT_EQUAL_FATAL(pipeline_find_kinds(&p), WAFER_OK);
  search s = {.p = &p, .replicas = 48, .most = 48};
  CU_ASSERT_EQUAL_FATAL(search_find_areas(&s), WAFER_OK);
  search_deal(&s);
  for (uint32_t k = 0; k < p.kind_count; k++) p.kinds[k].words = 13 * 64; /* in 13 cycles */
  CU_ASSERT_EQUAL_FATAL(search_problem(&s, &s.areas[0], &problem), WAFER_OK);
  const wafer_placer_shapes *shapes = &problem.kinds[0];
  uint32_t times = 0;
  for (uint64_t time = 557; time >= 13; time--) {
    uint32_t copies = (uint32_t)((557 + time - 1) / time), found = 0;
    if ((557 + copies - 1) / copies != time) continue; /* of no number of copies */
    for (uint32_t i = 0; i < shapes->count; i++)
      found += shapes->at[i].width == copies && shapes->at[i].time == time;
    CU_ASSERT_EQUAL(found, 1);
    times++;
  }
  CU_ASSERT_EQUAL(shapes->count, times); /* streams are no faster in more */
  teardown(&f);
}

/* ---- What takes nothing of a sample ---- */

/* The last of 20 kernels multiplies with the exponentials of a weight, or of what came before. */
static uint32_t depth_of_last(const char *by, uint32_t *constant) {
  static const char weight[] = "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<64x64xf32>\n"
                               "  %e = \"nn.exp\"(%w) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n";
  char text[16384], all[16384 + sizeof weight];
  fixture f;
  sizing out;
  pipeline p;
  shelf_place places[32];
  char *skip = strstr(chain(text, sizeof text, 20), ", %v0)"), *first = strchr(text, '\n') + 1;
  CU_ASSERT_PTR_NOT_NULL_FATAL(skip);
  memcpy(skip, by, strlen(by));
  snprintf(all, sizeof all, "%.*s%s%s", (int)(first - text), text, weight, first);
  setup(&f, "small64", all);
  open_pipeline(&f, &out, &p);
  uint32_t n = f.graph.kernel_count, last = n - 1;
  CU_ASSERT_TRUE_FATAL(n <= WAFER_COUNT(places));
  wafer_graph_stages(&f.graph, p.stage);
  for (uint32_t k = 0; k < n; k++) places[k] = column(&p, k, 64);
  CU_ASSERT_EQUAL_FATAL(pipeline_settle(&p, places), WAFER_OK);
  for (uint32_t k = *constant = 0; k < n; k++) *constant += f.graph.kernels[k].constant;
  uint32_t depth = out.kernels[last].depths[1];
  teardown(&f);
  return depth;
}

/* It starts when its reader is due: its values do not wait there for as many samples as there are
 * kernels before that one. */
static void constants_start_late(void) {
  uint32_t constants;
  CU_ASSERT(depth_of_last(", %v0)", &constants) >= 15);
  CU_ASSERT(depth_of_last(", %e )", &constants) <= SIZE_PIPELINE_DEPTH + 1);
  CU_ASSERT_EQUAL(constants, 1);
}

/* Where the way over a part of the wafer takes longer than several intervals, as many samples more
 * have room as may come meanwhile. */
static void detours_have_room(void) {
  char text[16384];
  fixture f;
  sizing out;
  pipeline p;
  shelf_place places[16];
  setup(&f, "small64", chain(text, sizeof text, 10));
  wafer_machine slow = *f.ctx.machine;
  slow.hop_cycles = 600;
  f.ctx.machine = &slow;
  open_pipeline(&f, &out, &p);
  uint32_t n = f.graph.kernel_count;
  CU_ASSERT_TRUE_FATAL(n <= WAFER_COUNT(places));
  for (uint32_t k = 0; k < n; k++) places[k] = column(&p, k, 64);
  CU_ASSERT_EQUAL_FATAL(pipeline_settle(&p, places), WAFER_OK);
  uint64_t t = out.cost.interval_cycles,
           detour = (uint64_t)(slow.width + slow.height) * slow.hop_cycles / 8;
  CU_ASSERT(detour > 3 * t);
  for (uint32_t k = 0; k < n; k++)
    CU_ASSERT(out.kernels[k].depths[0] * t >= detour + out.kernels[k].point->cycles);
  teardown(&f);
}

/* Numbers of kinds say what the placer takes first of equals: they follow kernels, not where curves
 * happen to lie. */
static void kinds_follow_kernels(void) {
  static const wafer_curve curves[32];
  char text[16384];
  fixture f;
  sizing out = {0};
  setup(&f, "small64", chain(text, sizeof text, 6));
  pipeline p = {.ctx = &f.ctx, .graph = &f.graph, .curves = f.curves, .out = &out};
  uint32_t n = f.graph.kernel_count;
  CU_ASSERT_TRUE_FATAL(n > 4 && n <= WAFER_COUNT(curves));
  CU_ASSERT_EQUAL_FATAL(pipeline_start(&p), WAFER_OK);
  for (uint32_t k = 0; k < n; k++) p.curve[k] = &curves[n - 1 - k];
  p.curve[3] = p.curve[1];
  CU_ASSERT_EQUAL_FATAL(pipeline_find_kinds(&p), WAFER_OK);
  CU_ASSERT_EQUAL(p.kind_count, n - 1);
  for (uint32_t k = 0; k < n; k++) {
    CU_ASSERT_EQUAL(p.kind_of[k], k == 3 ? 1 : k < 3 ? k : k - 1);
    CU_ASSERT_PTR_EQUAL(p.kinds[p.kind_of[k]].curve, p.curve[k]);
  }
  teardown(&f);
}

CU_TestInfo tests_size_waits[] = {
    {"kinds follow kernels", kinds_follow_kernels},
    {"detours have room", detours_have_room},
    {"all copies are weighed", all_copies_are_weighed},
    {"what takes nothing of a sample starts late", constants_start_late},
    {"what waits has room where kernels are held", what_waits_has_room_where_kernels_are_held},
    {"what holds too little is repaired", what_holds_too_little_is_repaired},
    {"shapes grow to their lanes", shapes_grow_to_their_lanes},
    {"no layout is below the bound", no_layout_is_below_the_bound},
    {"an interval has a cycle", an_interval_has_a_cycle},
    {"what waits takes cores", what_waits_takes_cores},
    {"kernels are as patient as pays", patience_is_limited},
    {"what waits has room where kernels are patient",
     what_waits_has_room_where_kernels_are_patient},
    CU_TEST_INFO_NULL,
};
