#include "wafer/least_pace.h"

#include <stdlib.h>

#include "size.h"
#include "streams.h"
#include "wafer/wafer.h"

/* Of a kernel; of a relay nothing. */
typedef struct least {
  uint64_t computes, takes, sends; /* core cycles of a sample; sends run beside takes */
  uint64_t work;                   /* the least of all three */
  uint64_t cores;                  /* that hold it */
  uint64_t parts;                  /* into which its loops can be cut, all copies together */
} least;

typedef struct bound {
  const wafer_plan *plan;
  const wafer_machine *wafer;
  least *kernels;
  bool *sent;    /* of each value: cores have sent it once */
  bool *fed;     /* of each relay: the host sends what it holds */
  least all;     /* of all kernels, with those of values that several want */
  uint64_t work; /* core cycles of all */
} bound;

static uint64_t words_of(const wafer_plan *plan, uint32_t value) {
  return stream_words(&plan->values[value].type, plan->storage);
}

/* Programs copy less than the cost of such a kernel says. */
static bool is_copied(wafer_family family) {
  return family == WAFER_FAMILY_move || family == WAFER_FAMILY_resize ||
         family == WAFER_FAMILY_gather || family == WAFER_FAMILY_scatter;
}

static uint64_t computed(const wafer_machine *m, const wafer_kernel_body *body) {
  wafer_cost cost;
  wafer_split whole;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) whole.rows[i] = whole.cols[i] = 1;
  if (is_copied(body->family)) return 0;
  wafer_kernel_cost(m, body, &whole, &cost);
  return cost.compute_cycles;
}

static uint64_t parts_of(const wafer_kernel_body *body) {
  wafer_loops loops;
  uint64_t parts = 1;
  wafer_kernel_loops(body, &loops);
  for (uint32_t i = 0; i < loops.count && parts < UINT32_MAX; i++)
    if (loops.divisible[i]) parts *= (uint64_t)loops.extent[i];
  return parts < UINT32_MAX ? parts : UINT32_MAX;
}

static uint64_t cores_for(const bound *b, const wafer_kernel *k) {
  uint64_t words = 0, budget = wafer_machine_core_budget(b->wafer);
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    bool sparse = k->body.sparsity && k->body.sparsity[i].sparse;
    uint64_t samples = k->body.input_is_weight[i] ? !sparse : SIZE_PIPELINE_DEPTH;
    words += samples * words_of(b->plan, k->inputs[i]);
  }
  for (uint32_t o = 0; o < k->body.output_count; o++)
    words += SIZE_PIPELINE_DEPTH * words_of(b->plan, k->outputs[o]);
  return ceil_div(words * WAFER_WAVELET_BYTES, budget ? budget : 1);
}

static void add_kernels(bound *b) {
  uint64_t copies = 1;
  for (uint32_t k = 0; k < b->plan->kernel_count; k++)
    if (b->plan->kernels[k].replicas > copies) copies = b->plan->kernels[k].replicas;
  for (uint32_t k = 0; k < b->plan->kernel_count; k++) {
    const wafer_kernel *kernel = &b->plan->kernels[k];
    if (wafer_is_relay(kernel->name)) continue;
    b->kernels[k] = (least){.computes = computed(b->wafer, &kernel->body),
                            .cores = cores_for(b, kernel),
                            .parts = copies * parts_of(&kernel->body)};
    b->all.computes += b->kernels[k].computes;
  }
}

static bool is_relay(const bound *b, uint32_t kernel) {
  return kernel != WAFER_NONE && wafer_is_relay(b->plan->kernels[kernel].name);
}

/* What the stream's value costs those who send and take it. A relay passes on what it takes, so
 * what goes there is counted where it gets, as sent by the kernel, or the host, that relays leave
 * it to; a kernel's first is its own. */
static void add_stream(bound *b, const wafer_stream *s) {
  uint64_t words = words_of(b->plan, s->value);
  if (s->from.where == WAFER_AT_memoryx) return;
  bool relayed = is_relay(b, s->from_kernel);
  bool from_host = relayed ? b->fed[s->from_kernel] : s->from_kernel == WAFER_NONE;
  if (!from_host && !relayed && !b->sent[s->value]) {
    b->sent[s->value] = true;
    b->kernels[s->from_kernel].sends += words;
  }
  if (is_relay(b, s->to_kernel)) {
    b->fed[s->to_kernel] = from_host;
    return;
  }
  if (!from_host) b->all.sends += words;
  if (s->to_kernel == WAFER_NONE) return;
  b->kernels[s->to_kernel].takes += words;
  b->all.takes += words;
}

static uint64_t work_of(const least *of) {
  return of->computes + (of->takes > of->sends ? of->takes : of->sends);
}

static void add_up(bound *b) {
  uint64_t apart = 0;
  for (uint32_t k = 0; k < b->plan->kernel_count; k++)
    apart += b->kernels[k].work = work_of(&b->kernels[k]);
  b->work = work_of(&b->all);
  if (b->work < apart) b->work = apart;
}

/* Everything that does not depend on bands; streams stand in the order in which values are made. */
static bool measure(bound *b) {
  b->kernels = calloc((size_t)b->plan->kernel_count + 1, sizeof *b->kernels);
  b->sent = calloc((size_t)b->plan->value_count + 1, sizeof *b->sent);
  b->fed = calloc((size_t)b->plan->kernel_count + 1, sizeof *b->fed);
  if (!b->kernels || !b->sent || !b->fed) return false;
  add_kernels(b);
  for (uint32_t i = 0; i < b->plan->stream_count; i++) add_stream(b, &b->plan->streams[i]);
  add_up(b);
  return true;
}

/* Cores of one of so many bands. */
static uint64_t cores_of(const bound *b, uint32_t bands) {
  const wafer_machine *m = b->wafer;
  uint64_t margins = m->height - m->usable.height;
  return m->usable.width * (m->height / bands - margins);
}

static bool is_feasible(const bound *b, uint32_t bands, uint64_t cycles) {
  uint64_t cores = cores_of(b, bands), time = cycles * bands, left = cores;
  if (ceil_div(b->work, time) > cores) return false;
  for (uint32_t k = 0; k < b->plan->kernel_count; k++) {
    const least *of = &b->kernels[k];
    uint64_t need = ceil_div(of->work, time);
    if (need > of->parts) return false;
    need = need > of->cores ? need : of->cores;
    if (need > left) return false;
    left -= need;
  }
  return true;
}

/* The least cycles that so many bands allow, known to be feasible: `high`, and more than `low`. */
static uint64_t least_between(const bound *b, uint32_t bands, uint64_t low, uint64_t high) {
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (is_feasible(b, bands, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* Fewer and fewer cycles; once they are the edge's no bands can do better. */
static void find(const bound *b, uint64_t edge, wafer_least_pace *out) {
  const wafer_machine *m = b->wafer;
  uint32_t most = m->height / (m->height - m->usable.height + 1);
  uint64_t found = b->work + 1; /* of one core */
  out->bands = 1;
  for (uint32_t bands = 1; bands <= most && found > edge; bands++) {
    if (found <= 1 || !is_feasible(b, bands, found - 1)) continue;
    found = least_between(b, bands, 0, found - 1);
    out->bands = bands;
  }
  out->cycles = found > edge ? found : edge;
}

wafer_status wafer_plan_least_pace(const wafer_diag *diag, const wafer_plan *plan, uint64_t edge,
                                   wafer_least_pace *out) {
  *out = (wafer_least_pace){0};
  if (plan->mode != WAFER_MODE_pipelined || !plan->launch_count || plan->training) return WAFER_OK;
  bound b = {.plan = plan, .wafer = wafer_machine_whole(plan->machine)};
  bool ok = measure(&b);
  if (ok) find(&b, edge, out);
  free(b.kernels);
  free(b.sent);
  free(b.fed);
  if (ok) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "no memory for a bound");
}
