/* The search behind `wafer place`: the placement engine, then protocols in the layouts it found. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define SEARCH_SHARE 0.85 /* of the seconds or moves; the rest is for protocols, if they count */
#define ADAPT_MOVES 24    /* what protocols count for, a kernel */
#define SLOWER 40         /* times at which protocols are tried, at most */
#define MOST_BOXES 3      /* layouts of a search that protocols are tried in */

/* What is left for protocols: so many tries, until then (0: any time). */
typedef struct adapt_budget {
  uint64_t tries;
  double until;
} adapt_budget;

static uint64_t slowest_of(const contest_job *j, const contest_split *splits) {
  uint64_t slowest = 0;
  for (uint32_t i = 0; i < j->contest.count; i++) {
    uint64_t time = contest_time(&j->contest, &j->contest.kernels[i], j->unit, &splits[i]);
    if (time > slowest) slowest = time;
  }
  return slowest;
}

/* Rectangles of the splits' own size, in the middle of the boxes `in`. */
static void centre(const contest_job *j, const contest_split *splits, const wafer_placed *in,
                   wafer_placed *out) {
  for (uint32_t i = 0; i < j->contest.count; i++) {
    uint32_t w, h;
    contest_dims(&j->contest.kernels[i], &splits[i], &w, &h);
    out[i] = in[i];
    out[i].width = in[i].turned ? h : w;
    out[i].height = in[i].turned ? w : h;
    out[i].x += (in[i].width - out[i].width) / 2;
    out[i].y += (in[i].height - out[i].height) / 2;
  }
}

/* The placement of these splits, as the contest scores it but for adapters. */
static void rate(const contest_job *j, const contest_split *splits, wafer_placement *p) {
  p->time = slowest_of(j, splits);
  p->wire2 = p->area = 0;
  for (uint32_t i = 0; i < j->contest.count; i++)
    p->area += (uint64_t)p->at[i].width * p->at[i].height;
  for (uint32_t e = 0; e < j->contest.edge_count; e++) {
    const wafer_placed *a = &p->at[j->contest.edges[e].from], *b = &p->at[j->contest.edges[e].to];
    int64_t x = (int64_t)(2 * a->x + a->width) - (int64_t)(2 * b->x + b->width);
    int64_t y = (int64_t)(2 * a->y + a->height) - (int64_t)(2 * b->y + b->height);
    p->wire2 += (uint64_t)(llabs(x) + llabs(y)) * j->contest.edges[e].weight;
  }
  p->score =
      j->problem.time_weight * (double)p->time + j->problem.wire_weight * 0.5 * (double)p->wire2;
}

static wafer_status no_memory(const wafer_diag *diag, const contest *c) {
  return wafer_fail(diag, wafer_at_file(c->path), WAFER_NO_MEMORY, "no memory for protocols");
}

static bool late(const adapt_budget *b) {
  return b->until > 0 && cli_seconds() > b->until;
}

/* Splits for the boxes: those that placed them, then ones that agree better: in the boxes, with the
 * free cores around them, and there, step by step, at longer times, as far as adapters saved may
 * pay for these. What is better than *best stays. */
static wafer_status agree(const wafer_diag *diag, wafer_arena *arena, contest_job *j,
                          const wafer_placement *boxes, uint32_t steps, const adapt_budget *b,
                          double *best) {
  const contest *c = &j->contest;
  uint32_t n = c->count;
  contest_split *splits = WAFER_NEW(arena, contest_split, n);
  wafer_placed *at = WAFER_NEW(arena, wafer_placed, 2 * (size_t)n);
  wafer_placed *rooms = WAFER_NEW(arena, wafer_placed, n);
  if (!splits || !at || !rooms) return no_memory(diag, c);
  for (uint32_t i = 0; i < n; i++)
    splits[i] = contest_split_of(c, &c->kernels[i], j->unit,
                                 &j->problem.kinds[j->problem.kind[i]].at[boxes->at[i].shape]);
  contest_rooms(c, boxes->at, rooms);
  double adapter = (double)c->wadapter, slower = steps > 2 ? steps - 2 : 1;
  double most = adapter * contest_adapters(c, splits, j->components) / j->problem.time_weight;
  uint64_t time = slowest_of(j, splits);
  wafer_placement tried = *boxes;
  tried.at = at;
  for (uint32_t k = 0; k <= steps && (!k || !late(b)); k++) {
    double longer = k < 3 ? 0 : most * (k - 2) * (k - 2) / (slower * slower);
    const wafer_placed *in = k < 2 ? boxes->at : rooms;
    if (k) /* at first as placed */
      WAFER_TRY(contest_adapt(diag, c, j->unit, time + (uint64_t)longer, b->until, in,
                              j->components, splits));
    centre(j, splits, in, at);
    if (!wafer_placer_shift(&j->problem, b->until, at)) return no_memory(diag, c);
    rate(j, splits, &tried);
    double score = tried.score + adapter * contest_adapters(c, splits, j->components);
    if (score > *best || (score == *best && adapter > 0)) continue;
    *best = score;
    j->placement = tried;
    j->placement.at = at + n;
    memcpy(at + n, at, n * sizeof *at);
    memcpy(j->splits, splits, n * sizeof *splits);
  }
  return WAFER_OK;
}

/* Protocols in the best layouts found: what agrees best need not be what the search liked best. */
static wafer_status agree_all(const wafer_diag *diag, wafer_arena *arena, contest_job *j,
                              const wafer_placement *found, const adapt_budget *b, double *best) {
  bool counted = j->contest.wadapter > 0;
  uint32_t layouts = counted ? found->other_count + 1 : 1;
  if (layouts > MOST_BOXES) layouts = MOST_BOXES;
  uint64_t most = counted ? SLOWER + 2 : 1, steps = b->tries / layouts;
  for (uint32_t i = 0; i < layouts && (!i || !late(b)); i++) {
    wafer_placement boxes = *found;
    if (i) boxes.at = found->others[i - 1];
    WAFER_TRY(agree(diag, arena, j, &boxes, (uint32_t)(steps < most ? steps : most), b, best));
  }
  return WAFER_OK;
}

/* Where adapters cost something, one search counts those of the shapes as they come from their
 * curves, and one leaves them to the protocols: the first may shun what these would mend. */
wafer_status contest_search(const wafer_diag *diag, wafer_arena *arena, contest_job *j) {
  bool counted = j->contest.wadapter > 0;
  uint32_t runs = counted ? 2 : 1;
  wafer_placer_options options = j->options;
  double best = INFINITY, adapter_weight = j->problem.adapter_weight, first = 0;
  double share = counted ? SEARCH_SHARE : 1;
  uint64_t moves = 0, of_run = j->options.moves / runs + (j->options.moves > 0);
  adapt_budget budget = {UINT64_MAX, 0};
  if (of_run) {
    options.moves = (uint64_t)(share * (double)of_run) + 1;
    budget.tries =
        (uint64_t)((1 - SEARCH_SHARE) * (double)of_run) / (ADAPT_MOVES * j->contest.count);
  }
  if (!(j->splits = WAFER_NEW(arena, contest_split, j->contest.count)))
    return wafer_fail(diag, wafer_at_file(j->in), WAFER_NO_MEMORY, "no memory for a solution");
  for (uint32_t k = 0; k < runs; k++) {
    wafer_placement found;
    options.spent = cli_seconds() - j->started;
    if (j->options.seconds > 0) { /* an equal part for each run */
      double end = j->options.seconds * (k + 1) / runs;
      options.seconds = fmax(share * (end - options.spent), 0.001);
      budget.until = j->started + end;
    }
    j->problem.adapter_weight = k ? 0 : adapter_weight;
    WAFER_TRY(wafer_place(diag, arena, &j->problem, &options, &found));
    moves += found.moves;
    if (!k) first = found.first_seconds;
    WAFER_TRY(agree_all(diag, arena, j, &found, &budget, &best));
  }
  j->placement.moves = moves;
  j->placement.first_seconds = first;
  return WAFER_OK;
}
