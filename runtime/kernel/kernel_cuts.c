/* The ways to cut the loops of a body along one direction.
 *
 * Per loop only the distinct quotients ceil(extent / parts) matter, with the fewest parts that give
 * each. At most two loops share a direction, at most four are cut at all: the longest, and of loops
 * as long as the last of these one that is summed over, for where that is whole so are windows and
 * weights along it. Costs are the same with rows and columns exchanged, so one list of choices per
 * pair of loops serves both directions. It is pruned to its own Pareto set over (cores, cycles,
 * bytes), while it is long with a tolerance of up to 16 %, the ends kept; or, to learn whether
 * anything fits, to that over the kinds of bytes. Neither depends on a budget: one set of lists
 * serves all curves of a body. */
#include <stdlib.h>

#include "kernel_curve.h"

#define MAX_CHOICES 48 /* of a list, while 16 % of tolerance can make it so */
#define BLOCK 16       /* choices that are passed over together */

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

static void pick_sum(wafer_cuts *cuts, const wafer_loops *loops, const bool *taken) {
  uint32_t *last = &cuts->loop[cuts->count - 1];
  for (uint32_t i = loops->parallel; i < loops->count && *last < loops->parallel; i++)
    if (loops->divisible[i] && !taken[i] && loops->extent[i] == loops->extent[*last]) *last = i;
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
  pick_sum(cuts, loops, taken);
}

/* The most parts along a direction, at most `limit`. */
static uint32_t most_parts(const wafer_cuts *cuts, const wafer_loops *loops, int64_t limit) {
  int64_t most = 1;
  for (uint32_t i = 0; i < cuts->count; i++)
    for (uint32_t j = i; j < cuts->count; j++) {
      int64_t outer = loops->extent[cuts->loop[i]],
              inner = i == j ? 1 : loops->extent[cuts->loop[j]];
      for (int64_t p = 1; p <= outer && p <= limit; p = kernel_next_parts(outer, p))
        for (int64_t q = 1; q <= inner && p * q <= limit; q = kernel_next_parts(inner, q))
          most = p * q > most ? p * q : most;
    }
  return (uint32_t)most;
}

wafer_cuts *wafer_cuts_create(const wafer_machine *machine, const wafer_kernel_body *body,
                              uint32_t max_width, uint32_t max_height, wafer_workers *workers,
                              wafer_arena *arena) {
  wafer_cuts *cuts = WAFER_NEW(arena, wafer_cuts, 1);
  wafer_loops loops;
  if (!cuts) return NULL;
  *cuts = (wafer_cuts){.machine = machine,
                       .arena = arena,
                       .workers = workers,
                       .max_width = max_width,
                       .max_height = max_height};
  wafer_kernel_loops(body, &loops);
  pick_loops(cuts, &loops);
  cuts->most_cols = most_parts(cuts, &loops, max_width);
  cuts->most_rows = most_parts(cuts, &loops, max_height);
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

/* What a choice is judged by. */
typedef struct measures {
  uint64_t cycles, alone, bytes;
} measures;

/* What another choice may measure at most to beat this one, within `tolerance` eighths of a
 * percent. */
static measures limits_of(const kernel_choice *c, uint64_t tolerance) {
  return (measures){.cycles = kernel_add(c->cycles, c->cycles / 800 * tolerance),
                    .alone = kernel_add(c->alone, c->alone * tolerance / 800),
                    .bytes = kernel_add(c->bytes, c->bytes / 800 * tolerance)};
}

/* Bytes are judged per kind, since what the other direction cuts decides which kind weighs. */
typedef struct kinds {
  uint64_t weights, inputs, others;
} kinds;

static bool leaner(const kinds *a, const kinds *b) {
  return a->weights <= b->weights && a->inputs <= b->inputs && a->others <= b->others;
}

/* A list with its kinds, and the least of each kind in every BLOCK of choices: none of a block is
 * leaner than one that these are not. */
typedef struct leaning {
  kernel_choices *list;
  kinds *of, *least;
  uint32_t both; /* cores that both directions have */
  size_t by;     /* that beat another last: most often it beats the next one too */
} leaning;

static void measure_kinds(leaning *l) {
  for (size_t i = 0; i < l->list->count; i++) {
    kernel_choice *c = &l->list->at[i];
    kinds *least = &l->least[i / BLOCK];
    const kinds k = {c->weights, c->inputs, c->bytes - c->weights - c->inputs};
    if (i % BLOCK == 0) *least = k;
    if (k.weights < least->weights) least->weights = k.weights;
    if (k.inputs < least->inputs) least->inputs = k.inputs;
    if (k.others < least->others) least->others = k.others;
    l->of[i] = k;
    c->beaten = false;
  }
}

static bool beats_leaner(leaning *l, size_t j, size_t i) {
  const kernel_choice *other = &l->list->at[j], *c = &l->list->at[i];
  if (!leaner(&l->of[j], &l->of[i]) || j == i || other->beaten) return false;
  if (other->length > l->both && c->length <= l->both) return false;
  l->by = j;
  return true;
}

/* The longest are asked first: they are the leanest, mostly. */
static bool is_beaten(leaning *l, size_t i) {
  if (beats_leaner(l, l->by, i)) return true;
  for (size_t end = l->list->count; end > 0; end = (end - 1) / BLOCK * BLOCK) {
    size_t first = (end - 1) / BLOCK * BLOCK;
    if (!leaner(&l->least[first / BLOCK], &l->of[i])) continue;
    for (size_t j = end; j-- > first;)
      if (beats_leaner(l, j, i)) return true;
  }
  return false;
}

/* Keeps, whatever their length, the leanest of those that fit either direction, and of all. */
static void prune_by_bytes(leaning *l) {
  kernel_choices *list = l->list;
  size_t kept = 0;
  measure_kinds(l);
  for (size_t i = 0; i < list->count; i++) list->at[i].beaten = is_beaten(l, i);
  for (size_t i = 0; i < list->count; i++)
    if (!list->at[i].beaten) list->at[kept++] = list->at[i];
  list->count = kept;
}

static bool beats(const measures *a, const measures *limit) {
  return a->bytes <= limit->bytes && a->alone <= limit->alone && a->cycles <= limit->cycles;
}

/* What stays of a list, and the least of each measure of every BLOCK of them: none of a block beats
 * what these do not. Who beat another last is asked first. */
typedef struct staying {
  size_t count, by;
  measures *of, *least;
} staying;

static void stay(staying *s, const kernel_choice *c) {
  const measures m = {c->cycles, c->alone, c->bytes};
  measures *least = &s->least[s->count / BLOCK];
  if (s->count % BLOCK == 0) *least = m;
  if (m.cycles < least->cycles) least->cycles = m.cycles;
  if (m.alone < least->alone) least->alone = m.alone;
  if (m.bytes < least->bytes) least->bytes = m.bytes;
  s->of[s->count++] = m;
}

static bool beaten(staying *s, const measures *limit) {
  if (s->count && beats(&s->of[s->by], limit)) return true;
  for (size_t end = s->count; end > 0; end = (end - 1) / BLOCK * BLOCK) {
    size_t first = (end - 1) / BLOCK * BLOCK;
    if (!beats(&s->least[first / BLOCK], limit)) continue;
    for (size_t j = end; j-- > first;)
      if (beats(&s->of[j], limit)) return s->by = j, true;
  }
  return false;
}

/* Keeps what no shorter or equal kernel_choice beats; the fastest and the smallest stay. */
static void prune_within(kernel_choices *list, uint64_t tolerance, staying *s) {
  size_t fastest = 0, smallest = 0;
  s->count = s->by = 0;
  for (size_t i = 1; i < list->count; i++) {
    if (list->at[i].cycles < list->at[fastest].cycles) fastest = i;
    if (list->at[i].bytes < list->at[smallest].bytes) smallest = i;
  }
  for (size_t i = 0; i < list->count; i++) {
    const measures limit = limits_of(&list->at[i], tolerance);
    if (i != fastest && i != smallest && beaten(s, &limit)) continue;
    list->at[s->count] = list->at[i];
    stay(s, &list->at[s->count]);
  }
  list->count = s->count;
}

/* Widens the tolerance until the list is short, up to 16 %. */
static bool prune(const wafer_cuts *cuts, wafer_arena *scratch, bool bytes_alone,
                  kernel_choices *list) {
  if (bytes_alone) {
    leaning l = {.list = list,
                 .of = WAFER_NEW(scratch, kinds, list->count),
                 .least = WAFER_NEW(scratch, kinds, list->count / BLOCK + 1),
                 .both = cuts->max_width < cuts->max_height ? cuts->max_width : cuts->max_height};
    if (!l.of || !l.least) return false;
    prune_by_bytes(&l);
    return true;
  }
  staying s = {.of = WAFER_NEW(scratch, measures, list->count),
               .least = WAFER_NEW(scratch, measures, list->count / BLOCK + 1)};
  if (!s.of || !s.least) return false;
  prune_within(list, 0, &s);
  for (uint64_t tolerance = 4; tolerance <= 128 && list->count > MAX_CHOICES; tolerance *= 2)
    prune_within(list, tolerance, &s);
  return true;
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

typedef struct weighing {
  const wafer_cuts *cuts;
  kernel_choices *all;
} weighing;

static void weigh_some(void *self, kernel_view *view, size_t first, size_t end) {
  const weighing *w = self;
  for (size_t c = first; c < end; c++) weigh(w->cuts, view, &w->all->at[c]);
}

/* All ways to cut two loops, weighed and sorted; NULL: out of memory. */
static const kernel_choices *all_of(kernel_search *s, uint32_t i, uint32_t j) {
  kernel_choices *all = &s->all[i][j];
  const wafer_cuts *cuts = s->cuts;
  const wafer_loops *loops = &s->views[0].loops;
  if (all->made) return all;
  all->count = list_all(cuts, loops, cuts->loop[i], cuts->loop[j], NULL);
  all->at = WAFER_NEW(s->scratch, kernel_choice, all->count);
  if (!all->at) return NULL;
  list_all(cuts, loops, cuts->loop[i], cuts->loop[j], all->at);
  kernel_share_out(s, all->count, weigh_some, &(weighing){cuts, all});
  qsort(all->at, all->count, sizeof *all->at, by_length);
  all->made = true;
  return all;
}

const kernel_choices *kernel_cuts_list(kernel_search *s, bool bytes_alone, uint32_t i, uint32_t j) {
  kernel_choices *list = &s->cuts->lists[bytes_alone].of[i][j];
  if (list->made) return list;
  const kernel_choices *all = all_of(s, i, j);
  kernel_choices pruned = {.count = all ? all->count : 0};
  if (all) pruned.at = wafer_arena_copy(s->scratch, all->at, all->count * sizeof *all->at);
  if (!pruned.at || !prune(s->cuts, s->scratch, bytes_alone, &pruned)) return NULL;
  list->at = wafer_arena_copy(s->cuts->arena, pruned.at, pruned.count * sizeof *pruned.at);
  list->count = pruned.count;
  list->made = list->at != NULL;
  return list->made ? list : NULL;
}

kernel_pair *kernel_cuts_pairs(wafer_cuts *cuts, const kernel_choices *rows,
                               const kernel_choices *cols) {
  kernel_pairs *p = cuts->pairs;
  while (p && (p->rows != rows || p->cols != cols)) p = p->next;
  if (p) return p->at;
  kernel_pair *at = WAFER_NEW(cuts->arena, kernel_pair, rows->count * cols->count);
  p = at ? WAFER_NEW(cuts->arena, kernel_pairs, 1) : NULL;
  if (!p) return NULL;
  *p = (kernel_pairs){rows, cols, at, cuts->pairs};
  return (cuts->pairs = p)->at;
}
