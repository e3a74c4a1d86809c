/* Who waits for whom in a pipeline, for how long and with how many bytes: see size_waits.c. */
#include <math.h>
#include <string.h>

#include "size_waits.h"
#include "streams.h"

#define MOST_WAY (1u << 20) /* kernels on all ways; of readers beyond nothing is known */
#define DEEP_READERS 16u
#define DEPTHS 24u
#define MOST_POINTS 4096 /* of a curve, as a search has them */
#define MOST_BEHIND 4u
#define MOST_WAYS_OVER 4 /* the wafer, of a stream, past all copies at both ends */
#define SHAPES 16u /* of a kernel, whose bytes are looked at */

/* ---- Bytes ---- */

static double all_bytes(const wafer_type *type, wafer_dtype storage) {
  int64_t elements = 0;
  (void)wafer_shape_elements(&type->shape, &elements);
  return (double)elements * (double)wafer_stored_bytes(type->dtype, storage);
}

/* Of a reader: what all its cores need at the least of what waits and of what stays, which is all
 * there is, or less if some shape that is looked at has less. */
static wafer_status weigh(const pipeline *p, reader *r, skip *skips, const uint32_t *inputs) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[r->kernel];
  const wafer_kernel_body *body = &kernel->body;
  const wafer_curve *curve = p->curve[r->kernel];
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, body->input_count + 1);
  uint64_t code = wafer_machine_core_budget(p->ctx->machine);
  if (!depths) return pipeline_no_memory(p);
  pipeline_shallow_depths(p, r->kernel, depths);
  for (uint32_t o = 0; o < body->output_count; o++)
    r->stay +=
        SIZE_PIPELINE_DEPTH * all_bytes(&p->graph->values[kernel->outputs[o]].type, body->storage);
  for (uint32_t i = 0; i < r->count; i++)
    skips[i].bytes = all_bytes(&body->inputs[inputs[i]], body->storage);
  for (size_t at = 0; at < curve->count; at += (curve->count + SHAPES - 1) / SHAPES) {
    const wafer_shape_point *point = &curve->at[at];
    double cores = (double)point->width * point->height;
    wafer_kernel_body shallow = size_with_depths(body, depths);
    wafer_cost cost, deeper;
    wafer_kernel_bytes(p->ctx->machine, &shallow, &point->split, &cost);
    r->stay = fmin(r->stay, cores * (double)cost.output_bytes);
    if (cost.code_bytes < code) code = cost.code_bytes;
    for (uint32_t i = 0; i < r->count; i++) {
      depths[inputs[i]]++;
      wafer_kernel_body deep = size_with_depths(body, depths);
      wafer_kernel_bytes(p->ctx->machine, &deep, &point->split, &deeper);
      depths[inputs[i]]--;
      double more = (double)(deeper.input_bytes - cost.input_bytes);
      skips[i].bytes = fmin(skips[i].bytes, cores * more);
    }
  }
  r->budget = (double)(wafer_machine_core_budget(p->ctx->machine) - code);
  return WAFER_OK;
}

/* ---- Who waits for whom ---- */

typedef struct finder {
  size_waits *w;
  wafer_arena *scratch;
  uint64_t *cycles; /* kernel: of its shape with the fewest cores */
  uint32_t *before; /* on the longest way */
  int64_t *reach;   /* its length; -1: none */
  uint32_t *inputs;
  uint32_t reader_room, skip_room, way_room;
} finder;

/* The longest way from `from` to k in cycles; `before` leads back along it. */
static int64_t longest_way(const finder *f, uint32_t from, uint32_t k) {
  const pipeline *p = f->w->s->p;
  for (uint32_t x = from + 1; x <= k; x++) {
    f->reach[x] = -1;
    for (uint32_t i = 0; i < p->graph->kernels[x].body.input_count; i++) {
      uint32_t y = pipeline_producer(p, x, i);
      if (y == WAFER_NONE || y < from || (y > from && f->reach[y] < 0)) continue;
      int64_t at = y == from ? 0 : f->reach[y] + (int64_t)f->cycles[y];
      if (at <= f->reach[x]) continue;
      f->reach[x] = at;
      f->before[x] = y;
    }
  }
  return f->reach[k];
}

/* The only kernel that makes what x takes, none of which comes from the edge. */
static uint32_t only_producer(const pipeline *p, uint32_t x) {
  uint32_t only = WAFER_NONE;
  for (uint32_t i = 0; i < p->graph->kernels[x].body.input_count; i++) {
    uint32_t from = pipeline_producer(p, x, i);
    if (p->graph->kernels[x].body.input_is_weight[i]) continue;
    if (from == WAFER_NONE || (only != WAFER_NONE && from != only)) return WAFER_NONE;
    only = from;
  }
  return only;
}

static bool add_to_way(finder *f, uint32_t kernel, uint32_t *count) {
  size_waits *w = f->w;
  if (!WAFER_GROW(w->s->p->ctx->arena, w->way, w->way_count, f->way_room, 64)) return false;
  w->way[w->way_count++] = kernel;
  ++*count;
  return true;
}

/* What k reads of `made` waits while kernels on the longest way between them have a sample, or on
 * that from one from which a single row of kernels leads to `made`, less the time of these. */
static bool note_way(finder *f, uint32_t made, uint32_t k, skip *to) {
  const pipeline *p = f->w->s->p;
  uint32_t start = made;
  int64_t most = longest_way(f, made, k), behind = 0;
  for (uint32_t x = made, n = 0; n < MOST_BEHIND; n++) {
    behind += (int64_t)(f->cycles[x] + f->w->s->bound) + f->w->latency;
    if ((x = only_producer(p, x)) == WAFER_NONE) break;
    int64_t reach = longest_way(f, x, k) - behind;
    if (reach <= most) continue;
    most = reach;
    start = x;
  }
  *to = (skip){.first = f->w->way_count};
  longest_way(f, start, k);
  for (uint32_t x = f->before[k]; x != start; x = f->before[x])
    if (!add_to_way(f, x, &to->count)) return false;
  for (uint32_t x = made; x != start; x = only_producer(p, x))
    if (!add_to_way(f, x, &to->behind)) return false;
  return true;
}

/* Kernel k, if something waits for it. What does not has two buffers, and stays. */
static wafer_status note_reader(finder *f, uint32_t k) {
  size_waits *w = f->w;
  const pipeline *p = w->s->p;
  reader r = {.kernel = k, .first = w->skip_count};
  bool waits = false;
  for (uint32_t i = 0; i < p->graph->kernels[k].body.input_count; i++) {
    uint32_t from = pipeline_producer(p, k, i);
    if (from == WAFER_NONE) continue;
    if (!WAFER_GROW(p->ctx->arena, w->skips, w->skip_count, f->skip_room, 16) ||
        !note_way(f, from, k, &w->skips[w->skip_count]))
      return pipeline_no_memory(p);
    w->skips[w->skip_count].input = i;
    waits |= w->skips[w->skip_count++].count > 0;
    f->inputs[r.count++] = i;
  }
  if (!waits) {
    w->skip_count = r.first;
    return WAFER_OK;
  }
  WAFER_TRY(weigh(p, &r, &w->skips[r.first], f->inputs));
  uint32_t kept = r.first;
  for (uint32_t i = r.first; i < w->skip_count; i++) {
    if (w->skips[i].count)
      w->skips[kept++] = w->skips[i];
    else
      r.stay += SIZE_PIPELINE_DEPTH * w->skips[i].bytes;
  }
  w->skip_count = kept;
  r.count = kept - r.first;
  if (!WAFER_GROW(p->ctx->arena, w->readers, w->reader_count, f->reader_room, 16))
    return pipeline_no_memory(p);
  w->readers[w->reader_count++] = r;
  return WAFER_OK;
}

/* Cycles of the shape with the fewest cores: what is likely to be long. */
static uint64_t likely_cycles(const search *s, uint32_t k) {
  const wafer_curve *curve = s->p->curve[k];
  uint64_t least = UINT64_MAX, cycles = 0;
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *at = &curve->at[i];
    uint64_t copies = (at->cycles + s->bound - 1) / max_u64(s->bound, 1);
    uint64_t cores = (uint64_t)at->width * at->height * max_u64(copies, 1);
    if (copies > s->most || cores >= least) continue;
    least = cores;
    cycles = at->cycles;
  }
  return cycles;
}

/* Samples of a skip that are likely to wait. */
static double likely_depth(const finder *f, const reader *r, const skip *x) {
  const uint32_t *way = &f->w->way[x->first];
  double span = (double)f->cycles[r->kernel], t = (double)max_u64(f->w->s->bound, 1);
  for (uint32_t j = 0; j < x->count; j++) span += (double)f->cycles[way[j]];
  for (uint32_t j = x->count; j < x->count + x->behind; j++)
    span -= (double)f->cycles[way[j]] + (double)f->w->latency + t;
  return fmax(span / t, 0);
}

/* The reader's curve for so many samples of what waits longest; not among those that are kept for
 * others, which would want much memory. */
static wafer_status find_deep(const finder *f, const reader *r, uint32_t depth, deep_curve *out) {
  const pipeline *p = f->w->s->p;
  const wafer_kernel_body *body = &p->graph->kernels[r->kernel].body;
  const wafer_machine *m = p->ctx->machine;
  uint32_t *depths = WAFER_NEW(f->scratch, uint32_t, body->input_count + 1);
  wafer_arena *arena = wafer_arena_create();
  wafer_curve curve = {0};
  wafer_curve_options options = {.max_width = m->usable.width,
                                 .max_height = m->usable.height,
                                 .budget = wafer_machine_core_budget(m),
                                 .most_points = MOST_POINTS};
  bool ok = depths && arena;
  if (ok) pipeline_shallow_depths(p, r->kernel, depths);
  if (ok) depths[f->w->skips[r->longest].input] = depth;
  wafer_kernel_body deep = ok ? size_with_depths(body, depths) : *body;
  ok = ok && wafer_kernel_curve(m, &deep, &options, arena, &curve) == WAFER_OK;
  *out = (deep_curve){.count = curve.count,
                      .at = ok ? WAFER_NEW(p->ctx->arena, deep_point, curve.count) : NULL};
  for (size_t i = 0; out->at && i < curve.count; i++)
    out->at[i] = (deep_point){curve.at[i].width, curve.at[i].height, curve.at[i].cycles};
  wafer_arena_destroy(arena);
  return out->at ? WAFER_OK : pipeline_no_memory(p);
}

/* Depths from the shallowest on, by a quarter more each, until twice as many as are likely. */
static wafer_status deepen_reader(const finder *f, reader *r) {
  uint32_t count = 0, depths[DEPTHS], depth = SIZE_PIPELINE_DEPTH;
  double likely = 2 * likely_depth(f, r, &f->w->skips[r->longest]) + 2;
  for (; count < DEPTHS && depth < likely; depth += 1 + depth / 4) depths[count++] = depth;
  r->deep = WAFER_NEW(f->w->s->p->ctx->arena, deep_curve, count);
  if (!r->deep) return pipeline_no_memory(f->w->s->p);
  for (uint32_t i = 0; i < count; i++) {
    WAFER_TRY(find_deep(f, r, depths[i], &r->deep[i]));
    r->deep[i].depth = i + 1 < count ? depths[i + 1] - 1 : 0;
  }
  r->deep_count = count;
  return WAFER_OK;
}

/* Those readers for which most bytes are likely to wait. Where no weights lie beside them cores
 * share them out, and memory tells as much. */
static wafer_status deepen_readers(finder *f) {
  size_waits *w = f->w;
  double *bytes = WAFER_NEW(f->scratch, double, w->reader_count);
  if (!bytes) return pipeline_no_memory(w->s->p);
  for (uint32_t i = 0; i < w->reader_count; i++) {
    reader *r = &w->readers[i];
    if (!size_has_weights(&w->s->p->graph->kernels[r->kernel].body)) continue;
    for (uint32_t j = r->first; j < r->first + r->count; j++) {
      double waits = w->skips[j].bytes * likely_depth(f, r, &w->skips[j]);
      if (waits <= bytes[i]) continue;
      bytes[i] = waits;
      r->longest = j;
    }
  }
  for (uint32_t many = 0; many < DEEP_READERS; many++) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < w->reader_count; i++)
      if (bytes[i] > bytes[most]) most = i;
    if (!w->reader_count || bytes[most] <= 0) break;
    bytes[most] = 0;
    WAFER_TRY(deepen_reader(f, &w->readers[most]));
  }
  return WAFER_OK;
}

static wafer_status find_readers(finder *f) {
  const pipeline *p = f->w->s->p;
  uint32_t n = p->graph->kernel_count, inputs = 0;
  for (uint32_t k = 0; k < n; k++)
    if (p->graph->kernels[k].body.input_count > inputs)
      inputs = p->graph->kernels[k].body.input_count;
  f->cycles = WAFER_NEW(f->scratch, uint64_t, n);
  f->before = WAFER_NEW(f->scratch, uint32_t, n);
  f->reach = WAFER_NEW(f->scratch, int64_t, n);
  f->inputs = WAFER_NEW(f->scratch, uint32_t, inputs);
  if (!f->cycles || !f->before || !f->reach || !f->inputs) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) f->cycles[k] = likely_cycles(f->w->s, k);
  for (uint32_t k = 0; k < n && f->w->way_count < MOST_WAY; k++) WAFER_TRY(note_reader(f, k));
  return deepen_readers(f);
}

wafer_status size_waits_find(const search *s, size_waits **out) {
  const pipeline *p = s->p;
  uint32_t n = p->graph->kernel_count;
  size_waits *w = WAFER_NEW(p->ctx->arena, size_waits, 1);
  if (!w) return pipeline_no_memory(p);
  const wafer_machine *m = p->ctx->machine;
  const wafer_holding on = {.where = WAFER_AT_wafer};
  uint64_t hops = MOST_WAYS_OVER * ((uint64_t)m->width + m->height);
  *w = (size_waits){.s = s,
                    .latency = (int64_t)stream_latency(m, &on, &on, hops),
                    .hulls = WAFER_NEW(p->ctx->arena, hull, p->kind_count),
                    .price = WAFER_NEW(p->ctx->arena, double, n),
                    .part = WAFER_NEW(p->ctx->arena, double, n),
                    .rent = WAFER_NEW(p->ctx->arena, double, n),
                    .now = WAFER_NEW(p->ctx->arena, spot, n)};
  finder f = {.w = w, .scratch = wafer_arena_create()};
  bool ok = w->hulls && w->price && w->part && w->rent && w->now && f.scratch;
  wafer_status status = !ok                              ? pipeline_no_memory(p)
                        : n <= WAFER_PLACER_MOST_KERNELS ? find_readers(&f)
                                                         : WAFER_OK;
  wafer_arena_destroy(f.scratch);
  *out = w;
  return status;
}
