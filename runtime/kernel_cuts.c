/* The ways to cut the loops of a body along one direction.
 *
 * Per loop only the distinct quotients ceil(extent / parts) matter, with the fewest parts that give
 * each. At most two loops share a direction, at most four (the longest) are cut at all. Costs are
 * the same with rows and columns exchanged, so one list of choices per pair of loops serves both
 * directions. It is pruned to its own Pareto set over (cores, cycles, bytes), while it is long with
 * a tolerance of up to 16 %, the ends kept; or, to learn whether anything fits, to that over the
 * kinds of bytes. Neither depends on a budget: one set of lists serves all curves of a body. */
#include <stdlib.h>

#include "kernel_curve.h"

#define MAX_CHOICES 48 /* of a list, while 16 % of tolerance can make it so */

int64_t kernel_next_parts(int64_t extent, int64_t parts) {
  int64_t quotient = kernel_ceil(extent, parts);
  return quotient <= 1 ? extent + 1 : kernel_ceil(extent, quotient - 1);
}

wafer_split kernel_split_of(const kernel_choice *rows, const kernel_choice *cols) {
  wafer_split split;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) split.rows[i] = split.cols[i] = 1;
  for (int i = 0; i < 2; i++) {
    split.rows[rows->loop[i]] *= rows->parts[i];
    if (cols) split.cols[cols->loop[i]] *= cols->parts[i];
  }
  return split;
}

static void pick_loops(wafer_cuts *cuts, const wafer_loops *loops) {
  bool taken[WAFER_MAX_LOOPS] = {false};
  for (cuts->count = 0; cuts->count < KERNEL_MAX_CUT; cuts->count++) {
    uint32_t best = WAFER_MAX_LOOPS;
    for (uint32_t i = 0; i < loops->count; i++) {
      if (!loops->divisible[i] || taken[i]) continue;
      if (best == WAFER_MAX_LOOPS || loops->extent[i] > loops->extent[best]) best = i;
    }
    if (best == WAFER_MAX_LOOPS) return;
    taken[best] = true;
    cuts->loop[cuts->count] = best;
  }
}

wafer_cuts *wafer_cuts_create(const wafer_machine *machine, const wafer_kernel_body *body,
                              uint32_t max_width, uint32_t max_height, wafer_arena *arena) {
  wafer_cuts *cuts = WAFER_NEW(arena, wafer_cuts, 1);
  wafer_loops loops;
  if (!cuts) return NULL;
  *cuts = (wafer_cuts){
      .machine = machine, .arena = arena, .max_width = max_width, .max_height = max_height};
  wafer_kernel_loops(body, &loops);
  pick_loops(cuts, &loops);
  return cuts;
}

/* ---- what a choice costs ---- */

/* A choice alone, and its vector work when the other loops are cut to single elements: how long the
 * runs are that it leaves tells only then. */
static void weigh(const wafer_cuts *cuts, kernel_view *view, kernel_choice *c) {
  wafer_split split = kernel_split_of(c, NULL);
  wafer_cost cost;
  kernel_view_split(view, &split);
  kernel_bytes(view, &cost);
  c->cycles = kernel_add(kernel_compute_cycles(view), kernel_fabric_cycles(view));
  c->weights = cost.weight_bytes;
  c->inputs = cost.input_bytes;
  c->bytes = kernel_all_bytes(&cost);
  for (uint32_t i = 0; i < cuts->count; i++)
    if (cuts->loop[i] != c->loop[0] && cuts->loop[i] != c->loop[1])
      split.cols[cuts->loop[i]] = (uint32_t)view->loops.extent[cuts->loop[i]];
  kernel_view_split(view, &split);
  c->alone = kernel_compute_cycles(view);
}

static int by_length(const void *left, const void *right) {
  const kernel_choice *a = left, *b = right;
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return a->parts[0] < b->parts[0] ? -1 : a->parts[0] > b->parts[0];
}

/* Whether `a` is nowhere worse than `b`, within `tolerance` eighths of a percent. */
static bool beats(const kernel_choice *a, const kernel_choice *b, uint64_t tolerance) {
  return a->bytes <= kernel_add(b->bytes, b->bytes / 800 * tolerance) &&
         a->alone <= kernel_add(b->alone, b->alone * tolerance / 800) &&
         a->cycles <= kernel_add(b->cycles, b->cycles / 800 * tolerance);
}

/* Bytes are judged per kind, since what the other direction cuts decides which kind weighs. */
static bool leaner(const kernel_choice *a, const kernel_choice *b) {
  return a->weights <= b->weights && a->inputs <= b->inputs &&
         a->bytes - a->weights - a->inputs <= b->bytes - b->weights - b->inputs;
}

/* Keeps, whatever their length, the leanest of those that fit either direction, and of all. The
 * longest are asked first: they are the leanest, mostly. */
static void prune_by_bytes(const wafer_cuts *cuts, kernel_choices *list) {
  uint32_t both = cuts->max_width < cuts->max_height ? cuts->max_width : cuts->max_height;
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) list->at[i].beaten = false;
  for (size_t i = 0; i < list->count; i++) {
    kernel_choice *c = &list->at[i];
    for (size_t j = list->count; j-- > 0 && !c->beaten;) {
      const kernel_choice *other = &list->at[j];
      if (j == i || other->beaten || (other->length > both && c->length <= both)) continue;
      c->beaten = leaner(other, c);
    }
  }
  for (size_t i = 0; i < list->count; i++)
    if (!list->at[i].beaten) list->at[kept++] = list->at[i];
  list->count = kept;
}

/* Keeps what no shorter or equal kernel_choice beats; the fastest and the smallest stay. */
static void prune_within(kernel_choices *list, uint64_t tolerance) {
  size_t kept = 0, fastest = 0, smallest = 0;
  for (size_t i = 1; i < list->count; i++) {
    if (list->at[i].cycles < list->at[fastest].cycles) fastest = i;
    if (list->at[i].bytes < list->at[smallest].bytes) smallest = i;
  }
  for (size_t i = 0; i < list->count; i++) {
    const kernel_choice c = list->at[i];
    bool beaten = false;
    for (size_t j = kept; j-- > 0 && !beaten && i != fastest && i != smallest;)
      beaten = beats(&list->at[j], &c, tolerance);
    if (!beaten) list->at[kept++] = c;
  }
  list->count = kept;
}

/* Widens the tolerance until the list is short, up to 16 %. */
static void prune(const wafer_cuts *cuts, bool bytes_alone, kernel_choices *list) {
  qsort(list->at, list->count, sizeof *list->at, by_length);
  if (bytes_alone) {
    prune_by_bytes(cuts, list);
    return;
  }
  prune_within(list, 0);
  for (uint64_t tolerance = 4; tolerance <= 128 && list->count > MAX_CHOICES; tolerance *= 2)
    prune_within(list, tolerance);
}

/* Fills in the ways to cut loops `i` and `j` into no more than `limit` parts; at NULL: counts. */
static size_t list_all(const wafer_cuts *cuts, const wafer_loops *loops, uint32_t i, uint32_t j,
                       kernel_choice *at) {
  int64_t limit = cuts->max_width > cuts->max_height ? cuts->max_width : cuts->max_height;
  int64_t outer = loops->extent[i], inner = i == j ? 1 : loops->extent[j];
  size_t count = 0;
  for (int64_t p = 1; p <= outer && p <= limit; p = kernel_next_parts(outer, p))
    for (int64_t q = 1; q <= inner && p * q <= limit; q = kernel_next_parts(inner, q), count++)
      if (at)
        at[count] = (kernel_choice){
            .loop = {i, j}, .parts = {(uint32_t)p, (uint32_t)q}, .length = (uint32_t)(p * q)};
  return count;
}

const kernel_choices *kernel_cuts_list(wafer_cuts *cuts, kernel_view *view, wafer_arena *scratch,
                                       bool bytes_alone, uint32_t i, uint32_t j) {
  kernel_choices *list = &cuts->lists[bytes_alone].of[i][j], all;
  uint32_t outer = cuts->loop[i], inner = cuts->loop[j];
  if (list->made) return list;
  all.count = list_all(cuts, &view->loops, outer, inner, NULL);
  all.at = WAFER_NEW(scratch, kernel_choice, all.count);
  if (!all.at) return NULL;
  list_all(cuts, &view->loops, outer, inner, all.at);
  for (size_t c = 0; c < all.count; c++) weigh(cuts, view, &all.at[c]);
  prune(cuts, bytes_alone, &all);
  list->at = wafer_arena_copy(cuts->arena, all.at, all.count * sizeof *all.at);
  list->count = all.count;
  list->made = list->at != NULL;
  return list->made ? list : NULL;
}
