/* The fewest cores for a turn of a kernel (wafer/least_cores.h).
 *
 * Bytes and vector work follow from the parts of each loop alone, not from which of them lie over
 * rows; so splits are numbers of parts, of which matter those alone at which a tile gets shorter.
 * All are tried over at most so many cores, then over twice as many, until that takes too long. A
 * split whose loops leave so much of the last parts empty that it cannot gain on what is known is
 * passed over; so is one that could gain no more than one part in GAIN, by which the result is
 * shortened. */
#include <stdlib.h>

#include "kernel_family.h"
#include "wafer/least_cores.h"

#define DEPTH 2         /* samples of what is taken and given that cores have room for */
#define MOST_TRIED 4000 /* splits, and then twice the cores no more */
#define FIRST_CORES 16
#define MOST_CORES (1 << 16)
#define GAIN 128

typedef struct choices {
  uint32_t loop, count;
  uint32_t *parts; /* ascending */
} choices;

typedef struct seek {
  kernel_view view;
  wafer_split split;
  wafer_kernel_body body; /* as shallow as it may be */
  uint32_t depths[WAFER_MAX_KERNEL_VALUES];
  const bool *takes, *sends;
  wafer_arena *scratch;
  uint32_t count;
  choices of[WAFER_MAX_LOOPS];
  bool exact;           /* tiles follow from numbers of parts */
  uint64_t dense, rest; /* core cycles of multiplying, which all loops share, and of the others */
  uint64_t fewest, low, high; /* cores that hold it; of splits that are tried: more than low */
  uint64_t known;             /* cycles, over at most `low` cores */
  uint64_t *best;             /* [cores - low - 1] */
  uint64_t tried;
} seek;

/* ---- What one split takes ---- */

/* The body with no more samples on a core than it needs. */
static wafer_kernel_body shallow(const wafer_kernel_body *body, uint32_t *depths) {
  wafer_kernel_body of = *body;
  for (uint32_t i = 0; i < body->input_count; i++) depths[i] = body->input_is_weight[i] ? 1 : DEPTH;
  of.input_depth = depths;
  of.output_depth = DEPTH;
  return of;
}

static bool is_copied(wafer_family family) {
  return family == WAFER_FAMILY_move || family == WAFER_FAMILY_resize ||
         family == WAFER_FAMILY_gather || family == WAFER_FAMILY_scatter;
}

static bool is_halved(wafer_family family) {
  return family == WAFER_FAMILY_softmax || family == WAFER_FAMILY_normalize ||
         family == WAFER_FAMILY_sort;
}

static uint64_t parts_of(const kernel_view *k, uint32_t loop) {
  return (uint64_t)k->split->rows[loop] * k->split->cols[loop];
}

static uint64_t pads_of(const kernel_view *k) {
  bool cut = false;
  wafer_family family = k->body->family;
  if (k->windowed == UINT32_MAX) return 0;
  if (family != WAFER_FAMILY_conv && family != WAFER_FAMILY_pool) return 0;
  for (uint32_t d = 0; d < kernel_type(k, k->windowed)->shape.rank; d++) {
    int loop = k->map[k->windowed].loop[d];
    cut |= loop >= 0 && k->window[d].den && parts_of(k, (uint32_t)loop) > 1;
  }
  return cut ? kernel_pads(k) : 0;
}

static uint64_t computes(const kernel_view *k) {
  wafer_family family = k->body->family;
  if (is_copied(family)) return 0;
  uint64_t cycles = kernel_compute_cycles(k), pads = pads_of(k);
  cycles -= pads < cycles ? pads : cycles;
  if (is_halved(family)) return cycles / 2;
  if (family != WAFER_FAMILY_conv && family != WAFER_FAMILY_gemm) return cycles;
  for (uint32_t loop = k->loops.parallel; loop < k->loops.count; loop++)
    if (parts_of(k, loop) > 1)
      return kernel_add(cycles, kernel_tile_elements(k, kernel_result(k, k->body->anchor)));
  return cycles;
}

/* Indices of dim `d`, of the windowed value, that the part lacks which has a whole one on either
 * side, or at least behind it; 0 where there is none. */
static uint64_t lacked(const kernel_view *k, uint32_t d) {
  const kernel_window *w = &k->window[d];
  const kernel_map *map = &k->map[k->windowed];
  if (map->loop[d] < 0 || w->den != 1 || map->even[d] || map->nested[d]) return 0;
  int64_t extent = kernel_type(k, k->windowed)->shape.dims[d], own = k->tile[k->windowed][d];
  int64_t results = k->tile[kernel_result(k, k->body->anchor)][d], parts = own ? extent / own : 0;
  if (parts < 2 || k->loops.extent[map->loop[d]] < parts * results) return 0;
  int64_t p = parts > 2, from = p * results * w->num - w->before;
  int64_t to = ((p + 1) * results - 1) * w->num + w->after + 1;
  int64_t below = p * own - kernel_most(from, 0), above = kernel_least(to, extent) - (p + 1) * own;
  return (uint64_t)(kernel_most(below, 0) + kernel_most(above, 0));
}

/* Words of halos, corners left out: of a core with neighbours wherever there are any. */
static uint64_t halo(const kernel_view *k) {
  uint64_t words = 0;
  if (k->windowed == UINT32_MAX) return 0;
  for (uint32_t d = 0; d < kernel_type(k, k->windowed)->shape.rank; d++) {
    uint64_t tile = (uint64_t)kernel_most(k->tile[k->windowed][d], 1);
    words += kernel_words(kernel_dtype(k, k->windowed),
                          kernel_mul(k->elements[k->windowed] / tile, lacked(k, d)));
  }
  return words;
}

static uint64_t taken(const kernel_view *k, const bool *takes) {
  uint64_t words = halo(k);
  for (uint32_t i = 0; i < k->body->input_count; i++)
    if (takes[i]) words += kernel_words(kernel_dtype(k, i), k->elements[i]);
  return words;
}

/* Whether every core has a tile of its own. */
static bool is_apart(const kernel_view *k, uint32_t value) {
  const kernel_map *map = &k->map[value];
  bool cut[WAFER_MAX_LOOPS] = {false};
  for (uint32_t d = 0; d < kernel_type(k, value)->shape.rank; d++) {
    if (map->loop[d] < 0) continue;
    uint32_t loop = (uint32_t)map->loop[d];
    kernel_cut c = kernel_cut_of(map, d, k->split->rows[loop], k->split->cols[loop]);
    cut[loop] |= (uint64_t)c.rows * c.cols == parts_of(k, loop);
  }
  for (uint32_t loop = 0; loop < k->loops.count; loop++)
    if (parts_of(k, loop) > 1 && !cut[loop]) return false;
  return true;
}

static uint64_t sent(const kernel_view *k, const bool *sends) {
  uint64_t words = 0;
  for (uint32_t o = 0; o < k->body->output_count; o++) {
    uint32_t value = k->body->outputs[o];
    if (sends[o] && is_apart(k, value))
      words += kernel_words(kernel_dtype(k, value), k->elements[value]);
  }
  return words;
}

static bool has_sparse(const wafer_kernel_body *body) {
  for (uint32_t i = 0; body->sparsity && i < body->input_count; i++)
    if (body->sparsity[i].sparse) return true;
  return false;
}

static bool fits(const kernel_view *k) {
  wafer_cost cost;
  kernel_bytes(k, &cost);
  if (has_sparse(k->body)) cost.weight_bytes = 0; /* how full tiles are is not known here */
  return wafer_cost_bytes(&cost) <= wafer_machine_core_budget(k->machine);
}

static uint64_t turn_of(const kernel_view *k, const bool *takes, const bool *sends) {
  return wafer_least_turn(computes(k), taken(k, takes), sent(k, sends));
}

/* ---- What is tried ---- */

static int by_number(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Numbers of parts from which on the longest of an extent is shorter, and those that divide
 * `even`. */
static void add_parts(uint32_t *parts, uint32_t *count, int64_t limit, int64_t extent,
                      int64_t even) {
  for (int64_t p = 1; p <= limit && p <= extent;) {
    parts[(*count)++] = (uint32_t)p;
    int64_t quotient = kernel_ceil(extent, p);
    p = quotient <= 1 ? extent + 1 : kernel_ceil(extent, quotient - 1);
  }
  for (int64_t p = 2; p <= limit && p <= even; p++)
    if (even % p == 0) parts[(*count)++] = (uint32_t)p;
}

static uint32_t distinct(uint32_t *parts, uint32_t count) {
  uint32_t kept = 0;
  qsort(parts, count, sizeof *parts, by_number);
  for (uint32_t i = 0; i < count; i++)
    if (!kept || parts[kept - 1] != parts[i]) parts[kept++] = parts[i];
  return kept;
}

/* Of all dims that follow the loop. */
static bool choose(seek *s, uint32_t loop) {
  const kernel_view *k = &s->view;
  int64_t extent = k->loops.extent[loop];
  choices *c = &s->of[s->count];
  size_t room = 2 * (size_t)(extent < 65536 ? extent : 65536), dims = 1;
  for (uint32_t v = 0; v < k->values; v++) dims += kernel_type(k, v)->shape.rank;
  *c = (choices){.loop = loop, .parts = WAFER_NEW(s->scratch, uint32_t, room * dims)};
  if (!c->parts) return false;
  add_parts(c->parts, &c->count, MOST_CORES, extent, 0);
  for (uint32_t v = 0; v < k->values; v++)
    for (uint32_t d = 0; d < kernel_type(k, v)->shape.rank; d++) {
      if (k->map[v].loop[d] != (int)loop) continue;
      int64_t limit = extent < MOST_CORES ? extent : MOST_CORES;
      uint32_t more = c->count;
      add_parts(c->parts, &more, limit, kernel_type(k, v)->shape.dims[d], k->map[v].even[d]);
      c->count = distinct(c->parts, more);
      s->exact &= !k->map[v].nested[d];
    }
  s->count++;
  return true;
}

/* What multiplies takes no less in any split; nor do elements of what is elementwise. */
static void find_work(seek *s) {
  const kernel_view *k = &s->view;
  uint64_t takes = 0, sends = 0;
  for (uint32_t node = 0; node < s->body.node_count && !is_copied(s->body.family); node++) {
    const wafer_node *n = kernel_node(k, node);
    const kernel_family *family = k->family[node];
    uint64_t elements = kernel_tile_elements(k, kernel_result(k, node));
    wafer_dtype dtype = n->operand_count ? kernel_dtype(k, n->operands[0]) : WAFER_DTYPE_f32;
    uint64_t *work = kernel_is_anchor(k, node) ? &s->dense : &s->rest;
    if (family->dense)
      *work += wafer_machine_cycles(k->machine, WAFER_RATE_fma, dtype,
                                    kernel_mul(elements, family->operations(k, node) / 2));
    else if (wafer_op_is(n->op, WAFER_TRAIT_MAP))
      s->rest += wafer_machine_cycles(k->machine, wafer_op_get(n->op)->rate, dtype, elements);
  }
  takes = taken(k, s->takes);
  sends = sent(k, s->sends);
  s->rest += wafer_least_turn(0, takes, sends);
}

/* ---- Trying ---- */

static void try_split(seek *s, uint64_t cores, double filled) {
  uint64_t *best = &s->best[cores - s->low - 1];
  uint64_t least = *best < s->known ? *best : s->known;
  double work = (double)s->dense * filled + (double)s->rest;
  if (work * (GAIN + 1) / GAIN >= (double)least * (double)cores) return;
  s->tried++;
  kernel_view_split(&s->view, &s->split);
  uint64_t turn = turn_of(&s->view, s->takes, s->sends);
  if (turn < least && fits(&s->view)) *best = turn;
}

/* `filled`: what the longest parts have over what there is. */
static void try_loops(seek *s, uint32_t at, uint64_t cores, double filled) {
  if (at == s->count) {
    if (cores > s->low) try_split(s, cores, filled);
    return;
  }
  const choices *c = &s->of[at];
  int64_t extent = s->view.loops.extent[c->loop];
  for (uint32_t i = 0; i < c->count && cores * c->parts[i] <= s->high; i++) {
    s->split.cols[c->loop] = c->parts[i];
    int64_t longest = kernel_ceil(extent, c->parts[i]);
    try_loops(s, at + 1, cores * c->parts[i],
              filled * (double)(longest * c->parts[i]) / (double)extent);
  }
  s->split.cols[c->loop] = 1;
}

typedef struct shapes {
  uint32_t count, room;
  wafer_least_shape *at;
} shapes;

static bool keep(seek *s, shapes *kept) {
  for (uint64_t i = 0; i < s->high - s->low; i++) {
    if (s->best[i] >= s->known) continue;
    if (!WAFER_GROW(s->scratch, kept->at, kept->count, kept->room, 64)) return false;
    s->known = s->best[i];
    kept->at[kept->count++] = (wafer_least_shape){s->low + 1 + i, s->known - s->known / (GAIN + 1)};
  }
  return true;
}

static bool try_all(seek *s, uint64_t most, shapes *kept) {
  s->known = UINT64_MAX;
  for (s->low = s->fewest - 1; s->low < most && s->tried < MOST_TRIED && s->low < MOST_CORES;
       s->low = s->high) {
    s->high = s->low < FIRST_CORES ? FIRST_CORES : 2 * s->low;
    if (s->high > most) s->high = most;
    s->best = WAFER_NEW(s->scratch, uint64_t, s->high - s->low);
    if (!s->best) return false;
    for (uint64_t i = 0; i < s->high - s->low; i++) s->best[i] = UINT64_MAX;
    try_loops(s, 0, 1, 1);
    if (!keep(s, kept)) return false;
  }
  return true;
}

/* ---- All together ---- */

/* Cores that have room for all that is there once. */
static uint64_t cores_for_bytes(const seek *s) {
  const kernel_view *k = &s->view;
  uint64_t bytes = 0, budget = wafer_machine_core_budget(k->machine);
  for (uint32_t i = 0; i < s->body.input_count; i++)
    if (!s->body.sparsity || !s->body.sparsity[i].sparse)
      bytes += kernel_mul(s->depths[i], kernel_mul(k->elements[i], k->bytes[i]));
  for (uint32_t o = 0; o < s->body.output_count; o++) {
    uint32_t value = s->body.outputs[o];
    bytes += kernel_mul(DEPTH, kernel_mul(k->elements[value], k->bytes[value]));
  }
  uint64_t cores = bytes / (budget ? budget : 1) + (bytes % (budget ? budget : 1) != 0);
  return cores ? cores : 1;
}

/* Of a split of single elements; reads of a convolution that meet one bank make half as much again
 * at most. */
static uint64_t floor_of(seek *s) {
  for (uint32_t i = 0; i < s->count; i++)
    s->split.cols[s->of[i].loop] = (uint32_t)s->view.loops.extent[s->of[i].loop];
  kernel_view_split(&s->view, &s->split);
  uint64_t cycles = is_copied(s->body.family) ? 0 : kernel_compute_cycles(&s->view);
  uint64_t pads = pads_of(&s->view);
  for (uint32_t i = 0; i < s->count; i++) s->split.cols[s->of[i].loop] = 1;
  cycles -= pads < cycles ? pads : cycles;
  return is_halved(s->body.family) ? cycles / 3 : cycles / 3 * 2;
}

static bool open_seek(seek *s, const wafer_machine *machine, const wafer_kernel_body *body,
                      wafer_least_cores *out) {
  s->body = shallow(body, s->depths);
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) s->split.rows[i] = s->split.cols[i] = 1;
  kernel_view_open(&s->view, machine, &s->body);
  s->view.calm = true;
  kernel_view_split(&s->view, &s->split);
  s->exact = !has_sparse(body);
  out->most = 1;
  for (uint32_t loop = 0; loop < s->view.loops.count; loop++) {
    if (!s->view.loops.divisible[loop]) continue;
    if (!choose(s, loop)) return false;
    out->most = kernel_mul(out->most, (uint64_t)s->view.loops.extent[loop]);
  }
  s->fewest = cores_for_bytes(s);
  find_work(s);
  if (has_sparse(body)) s->dense = 0;
  return true;
}

wafer_status wafer_kernel_least_cores(const wafer_machine *machine, const wafer_kernel_body *body,
                                      const bool *takes, const bool *sends, wafer_arena *arena,
                                      wafer_least_cores *out) {
  wafer_arena *scratch = wafer_arena_create();
  seek *s = scratch ? WAFER_NEW(scratch, seek, 1) : NULL;
  shapes kept = {0};
  *out = (wafer_least_cores){0};
  bool ok = s != NULL;
  if (ok) {
    *s = (seek){.takes = takes, .sends = sends, .scratch = scratch};
    ok = open_seek(s, machine, body, out);
  }
  if (ok) {
    out->work = s->dense + s->rest;
    out->floor = floor_of(s);
    s->low = s->fewest - 1;
    ok = !s->exact || try_all(s, out->most, &kept);
    out->tried = s->low < out->most ? s->low : out->most;
    out->at = kept.count ? wafer_arena_copy(arena, kept.at, kept.count * sizeof *kept.at) : NULL;
    out->count = kept.count;
    ok = ok && (out->at || !kept.count);
  }
  wafer_arena_destroy(scratch);
  return ok ? WAFER_OK : WAFER_NO_MEMORY;
}

uint64_t wafer_least_turn_of(const wafer_machine *machine, const wafer_kernel_body *body,
                             const bool *takes, const bool *sends, const wafer_split *split) {
  uint32_t depths[WAFER_MAX_KERNEL_VALUES];
  wafer_kernel_body of = shallow(body, depths);
  kernel_view k;
  kernel_view_open(&k, machine, &of);
  k.calm = true;
  kernel_view_split(&k, split);
  return fits(&k) ? turn_of(&k, takes, sends) : UINT64_MAX;
}

uint64_t wafer_least_cores_for(const wafer_least_cores *of, uint64_t cycles) {
  size_t low = 0, high = of->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (of->at[middle].cycles <= cycles)
      high = middle;
    else
      low = middle + 1;
  }
  if (low < of->count) return of->at[low].cores;
  if (cycles < of->floor || !cycles) return UINT64_MAX;
  uint64_t cores = (of->work + cycles - 1) / cycles;
  if (cores <= of->tried) cores = of->tried + 1;
  return cores <= of->most ? cores : UINT64_MAX;
}
