/* Why a kernel has its size and its place, what limits it, and what more cores would buy: the shape
 * curve worked out again from the plan's body. Where core programs tell a kernel's cycles, the
 * curve's estimates of other shapes are taken to be off as that of its own is. */
#include <math.h>

#include "dump.h"
#include "report/report.h"
#include "wafer/pairs.h"

/* What a sample takes at least, each thing alone. */
typedef struct pace {
  uint64_t kernel, others, stream,
      edge;         /* this kernel, the slowest other one, its streams, the edge */
  uint32_t slowest; /* other kernel */
} pace;

static uint64_t max64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Samples that so many of a kernel, or of a stream, are at: those of the bands, and of replicas or
 * stripes. */
static uint64_t copies_of(const wafer_plan *plan, uint32_t replicas) {
  return (uint64_t)wafer_machine_bands(plan->machine) * plan->stripes * replicas;
}

static uint64_t share_of(const wafer_plan *plan, uint32_t replicas, uint64_t cycles) {
  uint64_t copies = copies_of(plan, replicas);
  return (cycles + copies - 1) / copies;
}

static uint64_t kernel_share(const wafer_plan *plan, uint32_t kernel, uint64_t cycles) {
  return share_of(plan, plan->kernels[kernel].replicas, cycles);
}

/* `edge`: all that crosses it, at its rate. A stream to it has lanes in each band. */
static pace pace_of(const wafer_plan *plan, uint32_t kernel, uint64_t edge) {
  pace p = {.kernel = kernel_share(plan, kernel, wafer_kernel_cycles(&plan->kernels[kernel])),
            .edge = edge,
            .slowest = WAFER_NONE};
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    uint64_t cycles = kernel_share(plan, k, wafer_kernel_cycles(&plan->kernels[k]));
    if (k == kernel || (p.slowest != WAFER_NONE && cycles <= p.others)) continue;
    p.others = cycles;
    p.slowest = k;
  }
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    if (s->from.where == WAFER_AT_memoryx) continue;
    bool outside = s->from.where == WAFER_AT_edge || s->to.where == WAFER_AT_edge;
    if (outside)
      p.edge = max64(p.edge, share_of(plan, 1, s->cycles));
    else if (s->from_kernel == kernel || s->to_kernel == kernel)
      p.stream = max64(p.stream, share_of(plan, 1, s->cycles));
  }
  return p;
}

/* The pace if this kernel took no time. */
static uint64_t rest_of(const pace *p) {
  return max64(p->others, max64(p->stream, p->edge));
}

/* What sets it. */
static const char *rest_name(const wafer_plan *plan, const pace *p) {
  if (p->edge == rest_of(p)) return "the edge";
  if (p->stream == rest_of(p)) return "its streams";
  return plan->kernels[p->slowest].name;
}

/* ---- the curve ---- */

/* What to expect of a shape of this kernel that is estimated at so many cycles. */
static uint64_t expected(const wafer_kernel *k, uint64_t estimate) {
  if (!k->program_cycles || !k->cost.cycles) return estimate;
  return (uint64_t)round((double)estimate * (double)k->program_cycles / (double)k->cost.cycles);
}

static const wafer_shape_point *fastest(const wafer_curve *c, uint32_t width, uint32_t height) {
  const wafer_shape_point *best = NULL;
  for (size_t i = 0; i < c->count; i++)
    if (c->at[i].width <= width && c->at[i].height <= height &&
        (!best || c->at[i].cycles < best->cycles))
      best = &c->at[i];
  return best;
}

/* Fewest cores among shapes of at most so many cycles. */
static const wafer_shape_point *smallest(const wafer_kernel *k, const wafer_curve *c,
                                         uint64_t cycles) {
  const wafer_shape_point *best = NULL;
  for (size_t i = 0; i < c->count; i++)
    if (expected(k, c->at[i].cycles) <= cycles &&
        (!best ||
         (uint64_t)c->at[i].width * c->at[i].height < (uint64_t)best->width * best->height))
      best = &c->at[i];
  return best;
}

static void print_point(FILE *to, const wafer_kernel *k, const char *what,
                        const wafer_shape_point *p) {
  if (p)
    fprintf(to, "  %-32s %ux%u = %llu cores, %llu cycles, %llu bytes of a core\n", what, p->width,
            p->height, (ull)p->width * p->height, (ull)expected(k, p->cycles), (ull)p->bytes);
}

static void print_size(FILE *to, const wafer_plan *plan, const wafer_kernel *k,
                       const wafer_curve *c, const pace *p) {
  uint64_t budget = wafer_machine_core_budget(plan->machine);
  fprintf(to, "size: %ux%u cores, %u replica%s, one of %zu shapes worth having\n", k->rect.width,
          k->rect.height, k->replicas, k->replicas == 1 ? "" : "s", c->count);
  print_point(to, k, "the fewest cores that hold it", smallest(k, c, UINT64_MAX));
  if (plan->mode == WAFER_MODE_pipelined)
    print_point(to, k, "the fewest at this pace",
                smallest(k, c, max64(p->kernel, rest_of(p)) * copies_of(plan, k->replicas)));
  print_point(to, k, "the fastest", c->count ? &c->at[0] : NULL);
  fprintf(to, "  memory: %llu of %llu bytes of a core", (ull)wafer_cost_bytes(&k->cost),
          (ull)budget);
  const wafer_shape_point *least = smallest(k, c, UINT64_MAX);
  if (least && (uint64_t)least->width * least->height > 1)
    fprintf(to, "; fewer than %llu cores cannot hold it", (ull)least->width * least->height);
  fputc('\n', to);
}

/* ---- what limits it ---- */

static uint32_t kernels_in(const wafer_phase *phase, uint32_t kernel, bool *has) {
  uint32_t count = 0;
  *has = false;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    count++;
    *has |= phase->actions[a].index == kernel;
  }
  return count;
}

/* In weight streaming: kernels that are on the wafer at the same time, itself among them. */
static uint32_t phase_of(const wafer_plan *plan, uint32_t kernel, uint32_t *phase) {
  bool has = false;
  for (*phase = 0; *phase < plan->phase_count; ++*phase) {
    uint32_t count = kernels_in(&plan->phases[*phase], kernel, &has);
    if (has) return count;
  }
  return 0;
}

static void print_limit(FILE *to, const wafer_plan *plan, uint32_t kernel, const pace *p,
                        uint64_t interval) {
  const wafer_kernel *k = &plan->kernels[kernel];
  bool pipelined = plan->mode == WAFER_MODE_pipelined;
  fprintf(to, "limit: bound by %s: %llu cycles of compute, %llu of fabric\n",
          wafer_bound_name(k->bound), (ull)k->cost.compute_cycles, (ull)k->cost.fabric_cycles);
  if (!pipelined) {
    uint32_t phase, together = phase_of(plan, kernel, &phase);
    if (together > 1)
      fprintf(to, "  in phase %u with %u more, at the same time: ", phase, together - 1);
    else
      fputs("  a phase of its own: ", to);
    fprintf(to, "%.1f %% of the %llu cycles of a sample\n",
            interval ? 100.0 * (double)wafer_kernel_cycles(k) / (double)copies_of(plan, 1) /
                           (double)interval
                     : 0,
            (ull)interval);
    return;
  }
  fprintf(to, "  cycles a sample: this kernel %llu, its streams %llu, the edge's %llu",
          (ull)p->kernel, (ull)p->stream, (ull)p->edge);
  if (p->slowest != WAFER_NONE)
    fprintf(to, ", the slowest other kernel (%s) %llu", plan->kernels[p->slowest].name,
            (ull)p->others);
  fputc('\n', to);
  if (p->kernel > rest_of(p))
    fprintf(to, "  it sets the pace: the next limit is at %llu cycles (%s)\n", (ull)rest_of(p),
            rest_name(plan, p));
  else if (p->kernel == rest_of(p))
    fprintf(to, "  it sets the pace, and so does %s\n", rest_name(plan, p));
  else
    fprintf(to, "  it does not set the pace, %s %s: %llu cycles of slack\n", rest_name(plan, p),
            p->edge < rest_of(p) && p->stream == rest_of(p) ? "do" : "does",
            (ull)(rest_of(p) - p->kernel));
  if (interval > max64(p->kernel, rest_of(p)))
    fprintf(
        to,
        "  the plan's interval is %llu: buffers, and cores that receive, compute and send in turn, "
        "cost the rest\n",
        (ull)interval);
}

/* ---- more cores ---- */

/* What `cycles` instead of those the kernel takes mean for a sample. */
static void print_effect(FILE *to, const wafer_plan *plan, uint64_t share, const pace *p) {
  uint64_t rest = rest_of(p), before = max64(p->kernel, rest), after = max64(share, rest);
  if (plan->mode == WAFER_MODE_streaming)
    fputs("; at most that much off each sample: what moving its inputs takes changes too\n", to);
  else if (after < before)
    fprintf(to, "; the pace goes from %llu to %llu\n", (ull)before, (ull)after);
  else
    fprintf(to, "; the pace stays at %llu, that of %s\n", (ull)before, rest_name(plan, p));
}

/* `known`: cycles that need no more cores. */
static void print_gain(FILE *to, const wafer_plan *plan, uint32_t kernel, const char *what,
                       uint64_t cores, uint64_t known, const wafer_shape_point *then,
                       const pace *p) {
  const wafer_kernel *k = &plan->kernels[kernel];
  uint64_t now = wafer_kernel_cycles(k), cycles = then ? expected(k, then->cycles) : now;
  fprintf(to, "  %s (%llu core%s): ", what, (ull)cores, cores == 1 ? "" : "s");
  if (cycles >= known) {
    fputs("nothing, no shape in it is faster\n", to);
    return;
  }
  fprintf(to, "%llu cycles instead of %llu, %.1f %% fewer, as %ux%u", (ull)cycles, (ull)now,
          100.0 * (double)(now - cycles) / (double)now, then->width, then->height);
  print_effect(to, plan, kernel_share(plan, kernel, cycles), p);
}

/* Neighbours may take what a kernel makes as another split leaves it. Its cycles on these cores. */
static uint64_t print_recut(FILE *to, const wafer_plan *plan, uint32_t kernel, const wafer_curve *c,
                            const pace *p) {
  const wafer_kernel *k = &plan->kernels[kernel];
  const wafer_shape_point *best = fastest(c, k->rect.width, k->rect.height);
  uint64_t now = wafer_kernel_cycles(k), cycles = best ? expected(k, best->cycles) : now;
  if (cycles >= now) return now;
  print_gain(to, plan, kernel, "these, cut without regard to what it takes and gives", 0, now, best,
             p);
  return cycles;
}

/* The fewest cores on which it is faster at all. */
static void print_next(FILE *to, const wafer_plan *plan, uint32_t kernel, const wafer_curve *c,
                       uint64_t known, const pace *p) {
  const wafer_kernel *k = &plan->kernels[kernel];
  uint64_t now = wafer_rect_area(k->rect);
  const wafer_shape_point *next = known ? smallest(k, c, known - 1) : NULL;
  if (!next) {
    fputs("  nothing: no shape that fits the wafer is faster\n", to);
    return;
  }
  uint64_t then = (uint64_t)next->width * next->height;
  print_gain(to, plan, kernel, "the next faster shape", then > now ? (then - now) * k->replicas : 0,
             known, next, p);
}

static void print_replica(FILE *to, const wafer_plan *plan, uint32_t kernel, const pace *p) {
  const wafer_kernel *k = &plan->kernels[kernel];
  uint64_t share = share_of(plan, k->replicas + 1, wafer_kernel_cycles(k));
  fprintf(to, "  one more replica (%llu cores): %llu cycles a sample instead of %llu",
          (ull)wafer_rect_area(k->rect), (ull)share, (ull)p->kernel);
  print_effect(to, plan, share, p);
}

static void print_grown(FILE *to, const wafer_plan *plan, uint32_t kernel, const char *what,
                        uint32_t width, uint32_t height, const wafer_curve *c, uint64_t known,
                        const pace *p) {
  const wafer_kernel *k = &plan->kernels[kernel];
  uint64_t more = (uint64_t)width * height - wafer_rect_area(k->rect);
  print_gain(to, plan, kernel, what, more * k->replicas, known, fastest(c, width, height), p);
}

static void print_more(FILE *to, const wafer_plan *plan, uint32_t kernel, const wafer_curve *c,
                       const pace *p) {
  uint32_t width = plan->kernels[kernel].rect.width, height = plan->kernels[kernel].rect.height;
  fputs("more cores would buy\n", to);
  uint64_t known = print_recut(to, plan, kernel, c, p);
  print_grown(to, plan, kernel, "one more row", width, height + 1, c, known, p);
  print_grown(to, plan, kernel, "one more column", width + 1, height, c, known, p);
  print_next(to, plan, kernel, c, known, p);
  print_grown(to, plan, kernel, "twice the rows", width, 2 * height, c, known, p);
  print_grown(to, plan, kernel, "twice the columns", 2 * width, height, c, known, p);
  if (plan->mode == WAFER_MODE_pipelined) print_replica(to, plan, kernel, p);
}

/* ---- its sparse weight ---- */

static void print_sparse(FILE *to, const wafer_plan *plan, const wafer_kernel *k) {
  wafer_weighing w;
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    if (!wafer_kernel_weigh(plan->machine, &k->body, &k->split, i, &w)) continue;
    bool pairs = wafer_kernel_pairs(plan->machine, &k->body, &k->split, i).lists > 0;
    fprintf(to,
            "sparse '%s': multiplies with %s: %llu cycles with %u lists of %u pairs, %llu with all "
            "elements\n",
            plan->values[k->inputs[i]].name, pairs ? "non-zeros alone" : "zeros too",
            (ull)w.sparse_cycles, w.pairs.lists, w.pairs.length, (ull)w.dense_cycles);
  }
}

/* ---- its place ---- */

static void print_place(FILE *to, const wafer_plan *plan, uint32_t kernel) {
  const wafer_kernel *k = &plan->kernels[kernel];
  fprintf(to, "place: at %u,%u", k->rect.x, k->rect.y);
  if (plan->mode == WAFER_MODE_streaming) {
    uint32_t phase, together = phase_of(plan, kernel, &phase);
    if (together > 1)
      fprintf(to, ", beside the %u more of phase %u\n", together - 1, phase);
    else
      fputs(", the wafer's corner: in streaming each phase has all of it in turn\n", to);
    return;
  }
  fputs(", beside those it talks to as far as there was room\n", to);
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    bool in = s->to_kernel == kernel, out = s->from_kernel == kernel;
    if ((!in && !out) || s->from.where == WAFER_AT_memoryx) continue;
    uint32_t other = in ? s->from_kernel : s->to_kernel;
    fprintf(to, "  %s %s: %llu hops, %llu words over %llu cycles\n", in ? "from" : "to  ",
            other == WAFER_NONE ? "the edge" : plan->kernels[other].name,
            (ull)wafer_route_hops(s->route_count, s->route), (ull)s->words, (ull)s->cycles);
  }
}

wafer_status dump_why(FILE *to, const wafer_diag *diag, const wafer_plan *plan, uint32_t kernel) {
  const wafer_kernel *k = &plan->kernels[kernel];
  const wafer_machine *m = plan->machine;
  wafer_curve_options options = {.max_width = m->usable.width,
                                 .max_height = m->usable.height,
                                 .budget = wafer_machine_core_budget(m)};
  wafer_curve curve;
  report r;
  WAFER_TRY(report_make(diag, plan, &r));
  wafer_arena *arena = wafer_arena_create();
  if (!arena || wafer_kernel_curve(m, &k->body, &options, arena, &curve) != WAFER_OK) {
    wafer_arena_destroy(arena);
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "the host is out of memory");
  }
  pace p = pace_of(plan, kernel, plan->mode == WAFER_MODE_pipelined ? r.edge_cycles : 0);
  fprintf(to, "kernel k%u '%s': %s, %llu cycles of a sample", kernel, k->name,
          wafer_family_name(k->body.family), (ull)wafer_kernel_cycles(k));
  if (k->program_cycles)
    fprintf(to, " by its programs, estimated at %llu; other shapes in that ratio",
            (ull)k->cost.cycles);
  fputc('\n', to);
  print_size(to, plan, k, &curve, &p);
  print_limit(to, plan, kernel, &p, r.interval_cycles);
  print_sparse(to, plan, k);
  print_more(to, plan, kernel, &curve, &p);
  print_place(to, plan, kernel);
  wafer_arena_destroy(arena);
  return WAFER_OK;
}
