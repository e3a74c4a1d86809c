/* Weight streaming with sparse weights: shapes that waste few multiply cycles.
 *
 * Products are lean when all together take at most 5/4, or what options ask for, of the non-zeros'
 * part of the dense multiply cycles; of such sizings the fastest is looked for. Waste gets a price,
 * which is bisected between one that is too low and one with which products are lean. Once a
 * product makes up for no other, and once long ones have credit for short ones: with credit a few
 * layers on few cores spare all others that, but where all layers are alike all turn at the same
 * price. So what was found is mixed then: as many kernels from the first on, or from the last, as
 * goes have the shapes of a faster sizing. */
#include "size_streaming.h"

#define WORTH_LEAST 256  /* the first price, then each twice the one before */
#define WORTH_MOST 16384 /* 256 cycles for one that is wasted */
#define WORTH_BETWEEN 4  /* so many are tried between the last two */
#define SLOWER_MOST 3    /* times as long the whole may take for the sake of lean products */
#define LEAN 1250        /* thousandths; at a tenth, 0.125: tiles are estimated here */

typedef struct search {
  sizing fastest;
  sizing wasteful; /* at the highest price with which products are not lean */
  sizing lean;     /* the fastest, of these with a price, however slow */
  sizing *out;     /* what is best so far */
} search;

static size_multiply multiplied(const streaming *s, const sizing *of) {
  size_multiply sum = {0};
  for (uint32_t k = 0; k < s->graph->kernel_count; k++) {
    size_multiply own = size_multiply_cycles(s->ctx->machine, &s->graph->kernels[k].body,
                                             &of->kernels[k].point->split);
    sum.cycles += own.cycles;
    sum.due += own.due;
  }
  return sum;
}

static bool is_lean(const streaming *s, const sizing *of) {
  size_multiply m = multiplied(s, of);
  return 1000 * m.cycles <= s->waste.lean * m.due;
}

/* Of lean ones the fastest, else what is nearest to lean. */
static bool is_better(const streaming *s, const sizing *a, const sizing *b) {
  bool lean = is_lean(s, a);
  size_multiply x = multiplied(s, a), y = multiplied(s, b);
  if (lean != is_lean(s, b)) return lean;
  unsigned __int128 of_a = (unsigned __int128)x.cycles * y.due,
                    of_b = (unsigned __int128)y.cycles * x.due;
  return lean || of_a == of_b ? a->cost.latency_cycles < b->cost.latency_cycles : of_a < of_b;
}

/* Takes a sizing where it is better, and says whether it is lean. */
static bool weigh(const streaming *s, search *h, const sizing *tried) {
  if (!tried->cost.fits) return false;
  bool slow = tried->cost.latency_cycles > SLOWER_MOST * h->fastest.cost.latency_cycles;
  if (!slow && is_better(s, tried, h->out)) *h->out = *tried;
  return is_lean(s, tried);
}

/* ---- Prices ---- */

/* Shapes for which waste has the price s->waste, each for itself, or all together from the fastest:
 * whether one is lean. */
static wafer_status try_price(streaming *s, uint32_t keeps, search *h, bool *lean) {
  sizing tried[2];
  const sizing *nearest = &h->wasteful;
  uint32_t own_keeps;
  *lean = false;
  s->lean = false;
  s->shares = NULL;
  WAFER_TRY(streaming_together(s, keeps, &h->fastest, &tried[0]));
  WAFER_TRY(streaming_either(s, &own_keeps, &tried[1]));
  for (uint32_t i = 0; i < WAFER_COUNT(tried); i++) {
    bool here = weigh(s, h, &tried[i]), first = !h->lean.cost.fits;
    if (here && (first || tried[i].cost.latency_cycles < h->lean.cost.latency_cycles))
      h->lean = tried[i];
    if (tried[i].cost.fits && (nearest == &h->wasteful || is_better(s, &tried[i], nearest)))
      nearest = &tried[i];
    *lean |= here;
  }
  if (!*lean) h->wasteful = *nearest;
  return WAFER_OK;
}

/* From below the lowest price with which products are lean, as near as tries go. */
static wafer_status bisect(streaming *s, uint32_t keeps, search *h) {
  int64_t low = 0, high = WORTH_LEAST;
  bool found = false;
  for (uint32_t between = 0; between <= WORTH_BETWEEN && high <= WORTH_MOST; between += found) {
    bool lean;
    s->waste.worth = found ? (low + high) / 2 : high;
    WAFER_TRY(try_price(s, keeps, h, &lean));
    found |= lean;
    if (lean)
      high = s->waste.worth;
    else
      low = s->waste.worth;
    if (!found) high *= 2;
  }
  return WAFER_OK;
}

/* ---- Mixtures ---- */

/* The first kernels, or the last, with the shapes of `fast`: as many as goes. */
static wafer_status mix(streaming *s, const sizing *fast, bool last, search *h) {
  uint32_t count = s->graph->kernel_count, low = 0, high = count;
  sizing mixed = h->lean, tried;
  mixed.kernels = WAFER_NEW(s->ctx->arena, sized_kernel, count);
  if (!mixed.kernels) return streaming_no_memory(s);
  while (high > low + 1) {
    uint32_t at = (low + high) / 2;
    for (uint32_t k = 0; k < count; k++)
      mixed.kernels[k] = ((last ? count - 1 - k : k) < at ? fast : &h->lean)->kernels[k];
    WAFER_TRY(size_again(s, &mixed, &tried));
    if (weigh(s, h, &tried))
      low = at;
    else
      high = at;
  }
  return WAFER_OK;
}

wafer_status size_sparse(streaming *s, uint32_t keeps, sizing *out) {
  static const int64_t credits[] = {0, 5};
  const sizing fastest = *out;
  s->waste.lean = s->ctx->options && s->ctx->options->lean ? s->ctx->options->lean : LEAN;
  if (!multiplied(s, out).due || is_lean(s, out)) return WAFER_OK;
  for (uint32_t c = 0; c < WAFER_COUNT(credits); c++) {
    search h = {.fastest = fastest, .wasteful = fastest, .out = out};
    s->waste.credit = credits[c];
    WAFER_TRY(bisect(s, keeps, &h));
    for (uint32_t i = 0; i < 4 && h.lean.cost.fits; i++)
      WAFER_TRY(mix(s, i < 2 ? &h.fastest : &h.wasteful, i % 2, &h));
  }
  return WAFER_OK;
}
