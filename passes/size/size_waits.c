/* Cores that a pipeline needs for what waits. A value that skips kernels has at its reader room for
 * as many samples as these have at a time: for what is read by kernel k, made by kernel f,
 *
 *   cores of k * bytes of a core >= bytes that stay + sum over values: bytes * span / t,
 *   span >= cycles of k + cycles of all kernels on some way from f to k,
 *
 * and no fewer than its shape has. Of each kernel some part of the one and the rest of the other is
 * no more than the larger of both; so for any parts the sum over all kernels is least with each in
 * the shape that is cheapest by itself, its cycles priced by the parts of those whom they hold up.
 * The parts for which that is most are found step by step (Lagrangian relaxation, subgradients).
 *
 * That leaves out what cores hold several times: weights, halos. So readers with weights for which
 * most waits have curves for buffers of several depths for the value that waits longest, each of
 * which is as if for the deepest that the next one is not for; room for more samples is bought
 * there, and cycles of those who hold the reader up are paid, at a price of its own. */
#include <math.h>
#include <string.h>

#include "size_waits.h"
#include "streams.h"

#define STEPS 80

/* Keeps the corners that are cheapest at some price of cycles; points come by rising cycles. */
static void add_corner(hull *h, corner c) {
  if (h->count && h->at[h->count - 1].cores <= c.cores) return;
  if (h->count && h->at[h->count - 1].cycles == c.cycles) h->count--;
  for (; h->count > 1; h->count--) {
    const corner *a = &h->at[h->count - 2], *b = &h->at[h->count - 1];
    if ((b->cores - a->cores) * (c.cycles - a->cycles) <
        (c.cores - a->cores) * (b->cycles - a->cycles))
      break;
  }
  h->at[h->count++] = c;
}

/* Of all copies of a shape, and with the lanes that its streams need; INFINITY: it keeps no such
 * interval. */
static double cores_of(const size_waits *w, const kind *of, search_sides one, uint64_t cycles,
                       uint64_t t) {
  search_sides grown[2];
  double least = INFINITY;
  uint32_t n = search_grow(w->s, of, one, cycles, t, grown);
  for (uint32_t i = 0; i < n; i++) least = fmin(least, (double)(grown[i].width * grown[i].height));
  return least;
}

/* Slower shapes than the hull's, and those that its curve leaves out, have at least as many cores
 * as as many copies of one of its. */
static void add_slow(const size_waits *w, hull *h, const double *one, uint64_t t) {
  double least = INFINITY;
  for (uint32_t copies = 1; copies <= w->s->most; copies++) {
    least = fmin(least, one[copies]);
    if (least < INFINITY)
      h->slow[h->slow_count++] = (corner){(double)copies * (double)t, copies * least};
  }
}

/* Of the shapes that keep the interval, with as many copies as it takes. */
static bool make_hull(const size_waits *w, wafer_arena *arena, uint32_t k, uint64_t t) {
  const kind *of = &w->s->p->kinds[k];
  hull *h = &w->hulls[k];
  *h = (hull){.at = WAFER_NEW(arena, corner, of->curve->count),
              .slow = WAFER_NEW(arena, corner, w->s->most)};
  double *one = WAFER_NEW(arena, double, w->s->most + 1); /* of the cores of so many copies */
  if (!h->at || !h->slow || !one) return false;
  for (uint32_t copies = 0; copies <= w->s->most; copies++) one[copies] = INFINITY;
  for (size_t i = 0; i < of->curve->count; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    uint64_t copies = max_u64((at->cycles + t - 1) / t, 1);
    double cores = cores_of(w, of, (search_sides){at->width, at->height}, at->cycles, t);
    if (cores == INFINITY) continue;
    add_corner(h, (corner){(double)at->cycles, cores});
    one[copies] = fmin(one[copies], cores / (double)copies);
  }
  add_slow(w, h, one, t);
  return true;
}

/* Of the reader's shapes for each depth those that no other has as many copies as, cores and
 * cycles. Room for samples is what buffers have, and no more than memory has. */
static bool make_spots(const size_waits *w, wafer_arena *arena, reader *r, uint64_t t) {
  const kind *of = &w->s->p->kinds[w->s->p->kind_of[r->kernel]];
  size_t points = 0;
  for (uint32_t d = 0; d < r->deep_count; d++) points += r->deep[d].count;
  r->spot_count = 0;
  r->spots = WAFER_NEW(arena, spot, points);
  for (uint32_t d = 0; r->spots && d < r->deep_count; d++) {
    uint64_t last = 0;
    double least = INFINITY;
    for (size_t i = 0; i < r->deep[d].count; i++) {
      const deep_point *at = &r->deep[d].at[i];
      uint64_t copies = max_u64((at->cycles + t - 1) / t, 1);
      double cores = cores_of(w, of, (search_sides){at->width, at->height}, at->cycles, t);
      double depth = r->deep[d].depth;
      if (cores == INFINITY || (copies == last && cores >= least)) continue;
      double room = cores * r->budget / w->skips[r->longest].bytes;
      if (depth > 0) room = fmin(room, depth * (double)copies);
      r->spots[r->spot_count++] = (spot){(double)at->cycles, (double)(copies * t), cores,
                                         room * (double)t, (double)w->s->most / (double)copies};
      last = copies;
      least = cores;
    }
  }
  return r->spots != NULL;
}

static double span_of(const size_waits *w, const reader *r, const skip *x, double t) {
  const uint32_t *way = &w->way[x->first];
  double span = w->now[r->kernel].cycles - x->behind * (t + (double)w->latency);
  for (uint32_t j = 0; j < x->count; j++) span += w->now[way[j]].cycles;
  for (uint32_t j = x->count; j < x->count + x->behind; j++) span -= w->now[way[j]].cycles;
  return span;
}

/* What waits for the reader, each sample for as long as kernels between have it now. */
static double span_bytes(const size_waits *w, const reader *r, double t) {
  double bytes = r->stay;
  for (uint32_t i = r->first; i < r->first + r->count; i++)
    bytes += w->skips[i].bytes * span_of(w, r, &w->skips[i], t) / t;
  return bytes;
}

/* What follows from parts and rents; and what they bring in by themselves, in cores. */
static double set_prices(const size_waits *w, double t) {
  double all = 0;
  memset(w->price, 0, w->s->p->graph->kernel_count * sizeof *w->price);
  for (uint32_t i = 0; i < w->reader_count; i++) {
    const reader *r = &w->readers[i];
    all += w->part[r->kernel] * r->stay / r->budget;
    for (uint32_t j = r->first; j < r->first + r->count; j++) {
      const skip *x = &w->skips[j];
      const uint32_t *way = &w->way[x->first];
      double each = w->part[r->kernel] * x->bytes / (r->budget * t);
      if (r->deep_count && j == r->longest) each += w->rent[r->kernel];
      w->price[r->kernel] += each;
      all -= each * x->behind * (t + (double)w->latency);
      for (uint32_t y = 0; y < x->count; y++) w->price[way[y]] += each;
      for (uint32_t y = x->count; y < x->count + x->behind; y++) w->price[way[y]] -= each;
    }
  }
  return all;
}

/* The reader's cheapest shape, with what its room brings in. */
static double choose_spot(const size_waits *w, const reader *r) {
  uint32_t k = r->kernel;
  double least = INFINITY;
  for (uint32_t i = 0; i < r->spot_count; i++) {
    const spot *at = &r->spots[i];
    double cycles = w->price[k] < 0 ? at->slow : at->cycles;
    double worth = (1 - w->part[k]) * at->cores + w->price[k] * cycles - w->rent[k] * at->room;
    double times = w->price[k] < 0 && worth < 0 ? at->times : 1;
    if (worth * times >= least) continue;
    least = worth * times;
    w->now[k] = (spot){cycles * times, 0, at->cores * times, at->room * times, 1};
  }
  return least;
}

/* Each kernel's cheapest shape; what all cost. INFINITY: one has none. */
static double choose(const size_waits *w) {
  const pipeline *p = w->s->p;
  double all = 0;
  uint32_t next = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const reader *r = next < w->reader_count ? &w->readers[next] : NULL;
    bool reads = r && r->kernel == k;
    next += reads;
    if (reads && r->deep_count) {
      all += choose_spot(w, r);
      continue;
    }
    const hull *h = &w->hulls[p->kind_of[k]];
    const corner *at = w->price[k] < 0 ? h->slow : h->at;
    double least = INFINITY;
    for (uint32_t i = 0; i < (w->price[k] < 0 ? h->slow_count : h->count); i++) {
      double worth = (1 - w->part[k]) * at[i].cores + w->price[k] * at[i].cycles;
      if (worth >= least) continue;
      least = worth;
      w->now[k] = (spot){.cycles = at[i].cycles, .cores = at[i].cores};
    }
    all += least;
  }
  return all;
}

static double within(double x, double most) {
  return fmin(fmax(x, 0), most);
}

/* More, and more cores with room for samples would cost less than nothing. */
static double highest_rent(const size_waits *w, const reader *r, double t) {
  return (1 - w->part[r->kernel]) * w->skips[r->longest].bytes / (t * r->budget);
}

/* Parts and rents go where they bind. */
static void step_on(const size_waits *w, const reader *r, double t, double step) {
  uint32_t k = r->kernel;
  double waits = span_bytes(w, r, t) / r->budget, cores = w->now[k].cores;
  w->part[k] = within(w->part[k] + step * (waits - cores) / (waits + cores), 1);
  if (!r->deep_count) return;
  const skip *x = &w->skips[r->longest];
  double span = span_of(w, r, x, t), room = w->now[k].room;
  double highest = highest_rent(w, r, t);
  w->rent[k] = within(w->rent[k] + step * highest * (span - room) / (span + room), highest);
}

/* No layout at interval t has fewer cores; from parts as they were left. Ends above `enough`. */
static double fewest(const size_waits *w, double t, double enough) {
  double most = 0;
  for (uint32_t i = 0; i < w->reader_count; i++) {
    const reader *r = &w->readers[i];
    if (r->deep_count) w->rent[r->kernel] = within(w->rent[r->kernel], highest_rent(w, r, t));
  }
  for (uint32_t step = 0; step < STEPS && most <= enough; step++) {
    double all = set_prices(w, t);
    all += choose(w);
    if (all > most) most = all;
    for (uint32_t i = 0; i < w->reader_count && all < INFINITY; i++)
      step_on(w, &w->readers[i], t, 1 / (2 + step / 8.0));
  }
  return most;
}

wafer_status size_waits_fit(const size_waits *w, uint64_t t, uint64_t cores, bool *fit) {
  const pipeline *p = w->s->p;
  wafer_arena *arena = wafer_arena_create();
  bool ok = arena != NULL;
  for (uint32_t k = 0; ok && k < p->kind_count; k++) ok = make_hull(w, arena, k, t);
  for (uint32_t i = 0; ok && i < w->reader_count; i++) ok = make_spots(w, arena, &w->readers[i], t);
  *fit = ok && fewest(w, (double)t, (double)cores) <= (double)cores;
  wafer_arena_destroy(arena);
  return ok ? WAFER_OK : pipeline_no_memory(p);
}
