/* passes/size.c and its room: sizing both modes, on the machine that ships as small16. */
#include "passes/size/size_streaming.h"
#include "size_scene.h"

static void curves_are_shared(void) {
  char text[8192];
  fixture f;
  const wafer_curve *a, *b, *c;
  setup(&f, "small16", chain(text, sizeof text, 3));
  CU_ASSERT_EQUAL_FATAL(f.graph.kernel_count, 4);
  CU_ASSERT_EQUAL(
      curve_of(&f.diag, f.curves, &f.graph.kernels[1].body, (curve_query){.budget = 10000}, &a),
      WAFER_OK);
  CU_ASSERT_EQUAL(
      curve_of(&f.diag, f.curves, &f.graph.kernels[2].body, (curve_query){.budget = 10000}, &b),
      WAFER_OK);
  CU_ASSERT_EQUAL(
      curve_of(&f.diag, f.curves, &f.graph.kernels[1].body, (curve_query){.budget = 9000}, &c),
      WAFER_OK);
  CU_ASSERT_PTR_EQUAL(a, b);
  CU_ASSERT_PTR_NOT_EQUAL(a, c);
  CU_ASSERT_PTR_EQUAL(curve_set_of(&f.ctx, f.ir), f.curves);
  teardown(&f);
}

/* The curve of the second kernel on the machine, by a compilation that has `curves` in common with
 * others. */
static const wafer_curve *common_curve(fixture *f, wafer_curves *curves, const wafer_machine *on) {
  const curve_query query = {.budget = 10000};
  const wafer_curve *curve;
  wafer_ctx with = f->ctx;
  with.machine = on;
  with.curves = curves;
  curve_set *set = curve_set_of(&with, f->ir);
  CU_ASSERT_EQUAL_FATAL(curve_of(&f->diag, set, &f->graph.kernels[1].body, query, &curve),
                        WAFER_OK);
  return curve;
}

/* What two splits of each kernel take, and how their values lie, as it is found for one. */
static void check_splits(const fixture *f, curve_set *set, const wafer_machine *machine) {
  for (uint32_t i = 0; i < 4 * f->graph.kernel_count; i++) {
    const wafer_kernel_body *body = &f->graph.kernels[i / 2 % f->graph.kernel_count].body;
    const split_body splits = curve_splits(set, body);
    wafer_split split = size_uncut();
    wafer_cost cost;
    split.rows[0] = 1 + i % 2;
    split.cols[1] = 2;
    wafer_kernel_cost(machine, body, &split, &cost);
    split_cost found = split_cost_find(&splits, &split);
    CU_ASSERT_EQUAL(found.cycles, cost.cycles);
    CU_ASSERT_EQUAL(found.bytes, wafer_cost_bytes(&cost));
    wafer_layout lies = split_layout_of(&splits, &split, 0),
                 own = wafer_kernel_value_layout(body, &split, 0);
    CU_ASSERT_TRUE(wafer_layout_equal(&lies, &own));
  }
}

/* A wafer and its bands have them in common, for one body after the other; another wafer, for which
 * the same program is sized to advise it, has its own. */
static void splits_are_found_once(void) {
  char text[8192];
  fixture f;
  const wafer_machine *other, *band;
  setup(&f, "small16", chain(text, sizeof text, 3));
  check_splits(&f, f.curves, f.ctx.machine);
  wafer_ctx with = f.ctx;
  CU_ASSERT_EQUAL_FATAL(
      wafer_machine_band(NULL, f.ctx.arena, f.ctx.machine, (wafer_cut){2, 1, false}, &band),
      WAFER_OK);
  with.machine = band;
  check_splits(&f, curve_set_of(&with, f.ir), band);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&f.diag, f.ctx.arena, "wse3", &other), WAFER_OK);
  with.machine = other;
  check_splits(&f, curve_set_of(&with, f.ir), other);
  check_splits(&f, f.curves, f.ctx.machine);
  teardown(&f);
}

/* A point is kept once a signature. */
static void points_are_kept_once(void) {
  char text[8192];
  fixture f;
  wafer_shape_point point = {.split = size_uncut(), .width = 1, .height = 1, .cycles = 7};
  setup(&f, "small16", chain(text, sizeof text, 3));
  const wafer_shape_point *first = curve_keep_point(f.curves, 1, &point);
  CU_ASSERT_PTR_NOT_NULL_FATAL(first);
  CU_ASSERT_EQUAL(first->cycles, 7);
  CU_ASSERT_PTR_EQUAL(curve_keep_point(f.curves, 1, &point), first);
  CU_ASSERT_PTR_NOT_EQUAL(curve_keep_point(f.curves, 2, &point), first);
  point.cycles = 8;
  CU_ASSERT_PTR_NOT_EQUAL(curve_keep_point(f.curves, 1, &point), first);
  teardown(&f);
}

/* Those of a wafer outlast the compilation that has found them; a band has its own, and other
 * wafers have no part in them. */
static void curves_outlast_compilations(void) {
  char text[8192];
  fixture a, b;
  const wafer_machine *wafer, *band;
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &wafer), WAFER_OK);
  wafer_curves *curves = wafer_curves_create(arena, wafer);
  setup(&a, "small16", chain(text, sizeof text, 3));
  setup(&b, "small16", text);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_band(NULL, arena, wafer, (wafer_cut){2, 1, false}, &band),
                        WAFER_OK);
  const wafer_curve *first = common_curve(&a, curves, wafer);
  const wafer_curve *half = common_curve(&a, curves, band);
  CU_ASSERT_PTR_NOT_EQUAL(first, half);
  teardown(&a);
  CU_ASSERT_PTR_EQUAL(common_curve(&b, curves, wafer), first);
  CU_ASSERT_PTR_EQUAL(common_curve(&b, curves, band), half);
  const wafer_curve *own = common_curve(&b, curves, b.ctx.machine);
  CU_ASSERT_PTR_NOT_EQUAL(own, first);
  CU_ASSERT_EQUAL_FATAL(own->count, first->count);
  for (size_t i = 0; i < own->count; i++)
    CU_ASSERT_EQUAL(memcmp(&own->at[i].split, &first->at[i].split, sizeof own->at[i].split), 0);
  teardown(&b);
  wafer_arena_destroy(arena);
}

static uint64_t time_of_copies(const wafer_shape_point *at, uint64_t copies, uint64_t words) {
  uint64_t lanes = copies * words / at->height;
  return at->cycles > lanes ? at->cycles : lanes;
}

/* Whether a point no wider and no higher is as fast in so many copies. */
static bool has_as_good(const wafer_curve *curve, const wafer_shape_point *as, uint64_t copies,
                        uint64_t words) {
  for (size_t i = 0; i < curve->count; i++)
    if (curve->at[i].width <= as->width && curve->at[i].height <= as->height &&
        time_of_copies(&curve->at[i], copies, words) <= time_of_copies(as, copies, words))
      return true;
  return false;
}

/* A curve for copies has all that one without has, and shapes with more rows beside them, which are
 * no faster alone. */
static void copies_have_shapes_of_their_own(void) {
  char text[8192];
  fixture f;
  const wafer_curve *plain, *copied;
  curve_query query = {.budget = 30000, .words = 512};
  size_t better = 0;
  setup(&f, "small16", chain(text, sizeof text, 3));
  const wafer_kernel_body *body = &f.graph.kernels[1].body;
  CU_ASSERT_EQUAL_FATAL(curve_of(&f.diag, f.curves, body, query, &plain), WAFER_OK);
  query.copied = true;
  CU_ASSERT_EQUAL_FATAL(curve_of(&f.diag, f.curves, body, query, &copied), WAFER_OK);
  for (size_t i = 0; i < plain->count; i++)
    CU_ASSERT(has_as_good(copied, &plain->at[i], 1, query.words));
  for (size_t i = 0; i < copied->count; i++) {
    CU_ASSERT(!i || copied->at[i - 1].cycles <= copied->at[i].cycles);
    better += !has_as_good(plain, &copied->at[i], 8, query.words);
  }
  CU_ASSERT(better > 0);
  teardown(&f);
}

/* Samples that the last kernel of a chain holds of what skips all others. */
static uint32_t skip_depth(const fixture *f, const sizing *s) {
  uint32_t last = f->graph.kernel_count - 1;
  const wafer_graph_kernel *join = &f->graph.kernels[last];
  CU_ASSERT_EQUAL_FATAL(join->body.input_count, 2);
  return s->kernels[last].depths[f->graph.values[join->inputs[0]].producer != 0];
}

/* A value that skips the whole chain waits there, longer the longer the chain is. */
static void skips_are_deep(void) {
  char text[8192];
  fixture f;
  sizing s;
  uint32_t last = 0;
  for (uint32_t count = 2; count <= 8; count += 3) {
    setup(&f, "small16", chain(text, sizeof text, count));
    CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
    CU_ASSERT_TRUE_FATAL(s.cost.fits);
    uint32_t depth = skip_depth(&f, &s);
    CU_ASSERT(depth >= SIZE_PIPELINE_DEPTH && depth > last);
    last = depth;
    CU_ASSERT(s.cost.peak_core_bytes <= wafer_machine_core_budget(f.ctx.machine));
    CU_ASSERT(s.cost.interval_cycles <= s.cost.latency_cycles);
    teardown(&f);
  }
}

/* With buffers for all that may wait these kernels take more cores than there are: fewer wait. */
static void skips_are_eased(void) {
  char text[16384];
  fixture f;
  sizing s;
  setup(&f, "small16", chain(text, sizeof text, 45));
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(s.cost.fits);
  CU_ASSERT(skip_depth(&f, &s) < f.graph.kernel_count);
  CU_ASSERT(s.cost.peak_core_bytes <= wafer_machine_core_budget(f.ctx.machine));
  teardown(&f);
}

/* So they do where one of them stays where an earlier plan had it. */
static void kept_kernels_are_eased(void) {
  char text[16384];
  fixture f;
  sizing s;
  setup(&f, "small16", chain(text, sizeof text, 45));
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(s.cost.fits);
  wafer_rect corner = f.ctx.machine->usable;
  corner.width = s.kernels[0].point->width;
  corner.height = s.kernels[0].point->height;
  teardown(&f);
  setup(&f, "small16", text); /* a layout that was found would be taken again */
  const wafer_pin pin = {.kernel = f.graph.kernels[0].name, .rect = corner, .kept = true};
  const wafer_options options = {.pin_count = 1, .pins = &pin};
  const wafer_options *before = f.ctx.options;
  f.ctx.options = &options;
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(s.cost.fits);
  CU_ASSERT_EQUAL(s.wanted, 1);
  f.ctx.options = before;
  teardown(&f);
}

/* What was found for a graph is found again, on its own for each batch; another graph has another.
 */
static void sizings_are_kept(void) {
  char text[8192];
  fixture f;
  sizing first, again, four;
  setup(&f, "small64", chain(text, sizeof text, 4));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &first), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 4, 1, &four), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &again), WAFER_OK);
  CU_ASSERT_FATAL(first.cost.fits && again.cost.fits && four.cost.fits);
  CU_ASSERT_EQUAL(first.cost.latency_cycles, again.cost.latency_cycles);
  CU_ASSERT_NOT_EQUAL(first.cost.latency_cycles, four.cost.latency_cycles);
  for (uint32_t k = 0; k < f.graph.kernel_count; k++) {
    const sized_kernel *a = &first.kernels[k], *b = &again.kernels[k];
    CU_ASSERT(!memcmp(a->point, b->point, sizeof *a->point));
    CU_ASSERT(!memcmp(a->depths, b->depths,
                      (f.graph.kernels[k].body.input_count + 1) * sizeof *a->depths));
  }
  wafer_graph shorter = f.graph;
  shorter.kernel_count--;
  CU_ASSERT_PTR_NOT_NULL(curve_set_sizing(f.curves, &f.graph, 4));
  CU_ASSERT_PTR_NULL(curve_set_sizing(f.curves, &f.graph, 2));
  CU_ASSERT_PTR_NULL(curve_set_sizing(f.curves, &shorter, 1));
  teardown(&f);
}

/* Nothing is made faster than the edge: the interval is its, and cores stay free. */
static void the_edge_bounds(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", chain(text, sizeof text, 1));
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  uint64_t edge = wafer_machine_transfer_cycles(f.ctx.machine, 64 * 64 * 4,
                                                f.ctx.machine->edge_in_bytes_per_second);
  CU_ASSERT(s.cost.fits && s.cost.interval_cycles >= edge);
  CU_ASSERT(s.cost.cores < wafer_rect_area(f.ctx.machine->usable) / 2);
  teardown(&f);
}

/* More samples share a phase's weights: the interval falls, until they do not fit. */
static void batches_pay(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "small16", chain(text, sizeof text, 2));
  streams(&f, &s);
  const wafer_machine *m = f.ctx.machine;
  uint64_t one = size_streaming_interval(m, &s, 1);
  CU_ASSERT_EQUAL(one, s.cost.interval_cycles);
  CU_ASSERT(size_streaming_interval(m, &s, 4) < one);
  CU_ASSERT_EQUAL(size_streaming_interval(m, &s, 1000000), UINT64_MAX);
  teardown(&f);
}

/* A result leaves along the rows of its kernel, as fast as the edge takes it: what is low sends it
 * slowly, and pays for that. */
static void results_want_lanes(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", chain(text, sizeof text, 1));
  streams(&f, &s);
  const uint32_t last = f.graph.kernel_count - 1;
  const wafer_machine *m = f.ctx.machine;
  const wafer_kernel_body body =
      size_with_depths(&f.graph.kernels[last].body, s.kernels[last].depths);
  const wafer_shape_point low = {.width = 64, .height = 1}, high = {.width = 64, .height = 16};
  uint64_t slow = size_work_cycles(m, &f.graph, last, &body, &low, 1),
           fast = size_work_cycles(m, &f.graph, last, &body, &high, 1);
  CU_ASSERT_EQUAL(slow - fast, 64 * 64 - 64 * 64 / 16);
  CU_ASSERT_EQUAL(size_work_cycles(m, &f.graph, 0, &body, &low, 1), 0); /* stays on the wafer */
  CU_ASSERT(s.kernels[last].point->height >= 16);
  teardown(&f);
}

/* Matrix products of 64 x 64 in a row, far shorter than the way from MemoryX; all by weights of
 * their own, or by one. */
static const char *products(char *text, size_t bytes, uint32_t count, bool shared) {
  size_t at = (size_t)snprintf(text, bytes,
                               "func.func @main(%%v0: tensor<64x64xf32>) -> tensor<64x64xf32> {\n");
  for (uint32_t i = 0; i < count && (!shared || i == 0); i++)
    at += (size_t)snprintf(text + at, bytes - at,
                           "  %%w%u = \"nn.weight\"() {name = \"w%u\"} : () -> tensor<64x64xf32>\n",
                           i, i);
  for (uint32_t i = 0; i < count; i++)
    at += (size_t)snprintf(text + at, bytes - at,
                           "  %%v%u = \"nn.matmul\"(%%v%u, %%w%u) : (tensor<64x64xf32>, "
                           "tensor<64x64xf32>) -> tensor<64x64xf32>\n",
                           i + 1, i, shared ? 0 : i);
  snprintf(text + at, bytes - at, "  return %%v%u : tensor<64x64xf32>\n}\n", count);
  return text;
}

static uint64_t pace_of(fixture *f, wafer_placer_kind placer, bool quick) {
  const wafer_options options = {.placer = placer, .place_moves = 1000};
  sizing s;
  f->ctx.options = &options;
  curve_set_forget_layout(f->curves);
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f->ctx, f->curves, &f->graph, quick, &s), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(s.cost.fits);
  f->ctx.options = NULL;
  return s.pace;
}

/* Kernels that take longer alone may be faster together: the search's pace is never longer than
 * that of shelves, and here it is a tenth shorter at the least. */
static void a_search_finds_a_pace(void) {
  char text[8192];
  fixture f;
  setup(&f, "small64", chain(text, sizeof text, 8));
  uint64_t shelves = pace_of(&f, WAFER_PLACER_shelf, false);
  uint64_t quick = pace_of(&f, WAFER_PLACER_best, true);
  uint64_t best = pace_of(&f, WAFER_PLACER_best, false);
  CU_ASSERT(quick <= shelves);
  CU_ASSERT(best <= shelves - shelves / 10);
  teardown(&f);
}

static void short_layers_arrive_in_groups(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", products(text, sizeof text, 12, false));
  streams(&f, &s);
  CU_ASSERT(s.phases[11].ahead > 1);
  for (uint32_t k = 1; k < f.graph.kernel_count; k++) /* in the order of their phases */
    CU_ASSERT(k - s.phases[k].ahead >= k - 1 - s.phases[k - 1].ahead || k <= s.phases[k].ahead);
  for (uint32_t k = 0; k < f.graph.kernel_count; k++) s.phases[k].ahead = 1;
  uint64_t one = size_group_cycles(f.ctx.machine, &s, 1);
  CU_ASSERT(s.cost.latency_cycles < one / 2);
  teardown(&f);
}

/* It ends with each phase that uses it. */
static void a_weight_is_not_two_phases_early(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", products(text, sizeof text, 6, true));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &s), WAFER_OK);
  for (uint32_t k = 0; k < f.graph.kernel_count; k++) CU_ASSERT_EQUAL(s.phases[k].ahead, 1);
  teardown(&f);
}

static void refusals_name_the_kernel(void) {
  static const char text[] =
      "func.func @main(%x: tensor<1x2048xf32>) -> tensor<1x2048xf32> {\n"
      "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<2048x2048xf32>\n"
      "  %0 = \"nn.matmul\"(%x, %w) : (tensor<1x2048xf32>, tensor<2048x2048xf32>)\n"
      "    -> tensor<1x2048xf32> loc(\"huge\")\n"
      "  return %0 : tensor<1x2048xf32>\n}\n";
  fixture f;
  sizing s;
  setup(&f, "small16", text);
  CU_ASSERT_EQUAL_FATAL(size_pipelined(&f.ctx, f.curves, &f.graph, false, &s), WAFER_OK);
  CU_ASSERT_FALSE(s.cost.fits);
  CU_ASSERT_EQUAL(s.refusal.kernel, 0);
  CU_ASSERT(s.refusal.asked > s.refusal.allowed);
  CU_ASSERT_PTR_NOT_NULL(strstr(s.cost.why_not, "kernel 'huge' needs"));
  /* streamed, it passes in slices: 16 MiB over 256 cores of 48 KiB */
  streams(&f, &s);
  CU_ASSERT_EQUAL(s.kernels[0].depths[1], 0);
  CU_ASSERT(s.cost.peak_core_bytes <= wafer_machine_core_budget(f.ctx.machine));
  teardown(&f);
}

/* Tiles of 20 x 20 over 256 cores of 15 KB: no split has room for factors as a whole. */
static void factors_pass_in_slices(void) {
  static const char text[] =
      "func.func @main(%x: tensor<320x320xf32>, %y: tensor<320x320xf32>) -> tensor<320x320xf32> {\n"
      "  %0 = \"nn.matmul\"(%x, %y) : (tensor<320x320xf32>, tensor<320x320xf32>)\n"
      "    -> tensor<320x320xf32>\n"
      "  return %0 : tensor<320x320xf32>\n}\n";
  fixture f;
  sizing s;
  setup(&f, "small16", text);
  streams(&f, &s);
  wafer_kernel_body body = size_with_depths(&f.graph.kernels[0].body, s.kernels[0].depths);
  CU_ASSERT_TRUE(wafer_body_passes(&body, 0) && wafer_body_passes(&body, 1));
  CU_ASSERT(s.cost.peak_core_bytes <= wafer_machine_core_budget(f.ctx.machine));
  teardown(&f);
}

/* `count` products of 4 x 512 by weights in a row, all added up from the last to the first. */
static const char *waiting_products(char *text, size_t bytes, uint32_t count) {
#define ROWS "tensor<4x512xf32>"
  size_t at = (size_t)snprintf(text, bytes, "func.func @main(%%v0: " ROWS ") -> " ROWS " {\n");
  for (uint32_t i = 1; i <= count; i++)
    at += (size_t)snprintf(
        text + at, bytes - at,
        "  %%w%u = \"nn.weight\"() {name = \"w%u\"} : () -> tensor<512x512xf32>\n"
        "  %%v%u = \"nn.matmul\"(%%v%u, %%w%u) : (" ROWS ", tensor<512x512xf32>) -> " ROWS "\n",
        i, i, i, i - 1, i);
  for (uint32_t i = count; i > 1; i--)
    at +=
        (size_t)snprintf(text + at, bytes - at,
                         "  %%s%u = \"nn.add\"(%%%c%u, %%v%u) : (" ROWS ", " ROWS ") -> " ROWS "\n",
                         i - 1, i == count ? 'v' : 's', i, i - 1);
  snprintf(text + at, bytes - at, "  return %%s1 : " ROWS "\n}\n");
#undef ROWS
  return text;
}

/* 64 values that wait for their sums: 8 KB of a core where 4 rows are cut by 16, 2 KB where all
 * cores have a share. */
static void waiting_values_are_spread(void) {
  static char text[64 * 512];
  fixture f;
  sizing s;
  setup(&f, "small16", waiting_products(text, sizeof text, 64));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &s), WAFER_OK);
  CU_ASSERT_TRUE(s.cost.fits);
  CU_ASSERT(s.cost.peak_core_bytes <= wafer_machine_core_budget(f.ctx.machine));
  teardown(&f);
}

static void largest_rectangle(void) {
  static const wafer_core_at dead[] = {{7, 2}, {3, 5}};
  wafer_machine m = {.width = 12, .height = 9, .usable = {1, 1, 10, 7}};
  wafer_rect whole;
  CU_ASSERT_TRUE(size_whole_wafer(&m, &whole));
  CU_ASSERT_EQUAL(wafer_rect_area(whole), 70);
  m.dead = dead;
  m.dead_count = 2;
  CU_ASSERT_TRUE(size_whole_wafer(&m, &whole));
  CU_ASSERT_EQUAL(wafer_rect_area(whole), 35); /* rows 3 to 7 right of the second, or as large */
  for (uint32_t i = 0; i < 2; i++)
    CU_ASSERT_FALSE(wafer_rect_overlaps(whole, (wafer_rect){dead[i].x, dead[i].y, 1, 1}));
}

static bool is_free(const wafer_machine *m, wafer_rect r) {
  for (uint32_t i = 0; i < m->dead_count; i++)
    if (wafer_rect_overlaps(r, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1})) return false;
  return true;
}

/* Of all rectangles of the usable cores. */
static uint64_t largest_area(const wafer_machine *m) {
  uint64_t most = 0;
  wafer_rect u = m->usable, r;
  for (r.x = u.x; r.x < u.x + u.width; r.x++)
    for (r.y = u.y; r.y < u.y + u.height; r.y++)
      for (r.width = 1; r.x + r.width <= u.x + u.width; r.width++)
        for (r.height = 1; r.y + r.height <= u.y + u.height; r.height++)
          if (wafer_rect_area(r) > most && is_free(m, r)) most = wafer_rect_area(r);
  return most;
}

static void largest_among_all_rectangles(void) {
  wafer_core_at dead[72];
  wafer_machine m = {.width = 9, .height = 8, .usable = {1, 2, 7, 5}, .dead = dead};
  wafer_rect whole;
  for (uint32_t seed = 1; seed < 200; seed++) {
    uint32_t state = seed;
    m.dead_count = 0;
    for (uint32_t i = 0; i < 72; i++) {
      state = state * 1664525u + 1013904223u;
      if (state >> 28 <= seed % 7) dead[m.dead_count++] = (wafer_core_at){i % 9, i / 9};
    }
    CU_ASSERT_TRUE(size_whole_wafer(&m, &whole));
    CU_ASSERT_EQUAL(wafer_rect_area(whole), largest_area(&m));
    CU_ASSERT_TRUE(wafer_rect_area(whole) == 0 || is_free(&m, whole));
  }
}

static void reserved_cores_are_left(void) {
  static const wafer_rect reserved[] = {{0, 0, 4, 9}, {6, 3, 1, 1}};
  wafer_machine m = {
      .width = 12, .height = 9, .usable = {1, 1, 10, 7}, .reserved = reserved, .reserved_count = 2};
  wafer_rect whole;
  CU_ASSERT_TRUE(size_whole_wafer(&m, &whole));
  CU_ASSERT_EQUAL(wafer_rect_area(whole), 28); /* columns 7 to 10, or rows 4 to 7 right of 4 */
  for (uint32_t i = 0; i < 2; i++) CU_ASSERT_FALSE(wafer_rect_overlaps(whole, reserved[i]));
}

CU_TestInfo tests_size[] = {
    {"sizings are kept", sizings_are_kept},
    {"equal kernels share a curve", curves_are_shared},
    {"curves outlast compilations", curves_outlast_compilations},
    {"what a split takes is found once a wafer", splits_are_found_once},
    {"points are kept once", points_are_kept_once},
    {"a curve for copies has rows for their streams", copies_have_shapes_of_their_own},
    {"values that skip kernels wait", skips_are_deep},
    {"fewer wait where cores are too few", skips_are_eased},
    {"fewer wait beside kept kernels", kept_kernels_are_eased},
    {"a search finds a shorter pace", a_search_finds_a_pace},
    {"the edge bounds a pipeline", the_edge_bounds},
    {"batches pay in streaming", batches_pay},
    {"results want lanes to the edge", results_want_lanes},
    {"short layers arrive in groups", short_layers_arrive_in_groups},
    {"a weight is not two phases early", a_weight_is_not_two_phases_early},
    {"refusals name the kernel", refusals_name_the_kernel},
    {"factors of a product pass in slices", factors_pass_in_slices},
    {"values that wait long are spread over all cores", waiting_values_are_spread},
    {"the largest rectangle without dead cores", largest_rectangle},
    {"reserved cores are left out", reserved_cores_are_left},
    {"no rectangle is larger", largest_among_all_rectangles},
    CU_TEST_INFO_NULL,
};
