/* Phases of several kernels in weight streaming.
 *
 * Kernels that follow each other may share a phase: they lie side by side, those that do not need
 * each other run at once (wafer_graph_turn), and what leaves the wafer follows each other over the
 * border. So a phase of theirs takes the longest kernel of each turn, and the latency of the border
 * once. In exchange what passes between kernels that no longer begin at the same corner has to
 * move. That pays where branches are short beside what an action costs anyhow, at one sample at a
 * time: of several samples in stripes each has kernels and links of its own, with nothing to wait
 * for.
 *
 * Each run of a few kernels is weighed by the shapes that a sizing has given them: what its phases
 * take less, and what exchanges with all others take more. Of runs that do not overlap those are
 * taken that gain most together; then everything is sized again, and the sizing stays if it is
 * faster. */
#include "size_streaming.h"
#include "streams.h"

#define MOST_SHARING 8 /* kernels of a phase */

/* Kernels of a run that ends with one of them, and what that gains over phases of their own. */
typedef struct run_end {
  uint32_t first;
  uint64_t gain;  /* of the run itself */
  uint64_t total; /* of it and the best ones before it */
  bool columns;   /* they lie one below the other, not one beside the other */
} run_end;

typedef struct sharing {
  streaming *s;
  const sizing *alone; /* every kernel has a phase to itself */
  size_share *shares;
  run_end *ends; /* kernel: of the best run that ends with it; alone if that gains nothing */
} sharing;

/* ---- What a shared phase takes ---- */

/* Latencies that come once, whatever follows each other. */
static uint64_t once(uint64_t *sum, uint64_t cycles, uint64_t latency) {
  *sum += cycles > latency ? cycles - latency : 0;
  return cycles ? latency : 0;
}

void size_join(const wafer_machine *m, const wafer_graph *graph, const size_phase *own,
               const sized_kernel *kernels, const size_share *shares, uint32_t first, uint32_t end,
               size_phase *out) {
  uint64_t in[MOST_SHARING] = {0}, longest[MOST_SHARING] = {0}, leave = 0, latency = 0, way = 0;
  uint32_t turn[MOST_SHARING];
  uint64_t from_memoryx = m->memoryx_latency_cycles + m->edge_latency_cycles;
  *out = (size_phase){0};
  for (uint32_t k = first; k < end; k++) {
    const size_phase *one = &own[k];
    uint64_t cycles = kernels[k].point->cycles;
    uint32_t t = turn[k - first] = wafer_graph_turn(graph, first, k, turn);
    in[t] += one->in;
    longest[t] = max_u64(longest[t], cycles);
    leave += one->leave;
    uint64_t late = one->work - cycles - one->leave + shares[k].corner.x * (uint64_t)m->hop_cycles;
    if (one->leave) latency = max_u64(latency, late);
    way = max_u64(way, once(&out->weights, one->weights, from_memoryx));
    out->spread = max_u64(out->spread, one->spread);
    out->load_bytes = max_u64(out->load_bytes, one->load_bytes);
    out->fixed_bytes = max_u64(out->fixed_bytes, one->fixed_bytes);
    out->sample_bytes = max_u64(out->sample_bytes, one->sample_bytes);
    out->cores += one->cores;
  }
  out->in = in[0];
  out->work = longest[0] + leave + latency;
  for (uint32_t t = 1; t < MOST_SHARING; t++) out->work += in[t] + longest[t];
  out->beat = out->in + out->work; /* one sample after the other */
  out->leave = leave;
  out->weights += way;
}

/* ---- Which kernels may ---- */

/* All inputs and results are there as a whole, and weights come while the phase before works. */
static bool is_plain(const sharing *h, uint32_t k) {
  const wafer_kernel_body *body = &h->s->graph->kernels[k].body;
  const uint32_t *depths = h->alone->kernels[k].depths;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (depths[i] != (body->input_is_weight[i] ? SIZE_WEIGHT_DEPTH : h->s->batch)) return false;
  return depths[body->input_count] == h->s->batch;
}

/* Streams that meet at a kernel: each of a phase wants a colour. */
static uint32_t streams_of(const wafer_graph *graph, uint32_t k) {
  const wafer_graph_kernel *kernel = &graph->kernels[k];
  uint32_t count = kernel->body.input_count;
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    count += wafer_graph_is_output(&graph->values[kernel->outputs[i]]);
  return count;
}

/* How many kernels from `first` on may share a phase: as many as there are colours for, and room on
 * a core for all that any of them has. Weights of the one behind them may need room of theirs. */
static uint32_t most_from(const sharing *h, uint32_t first) {
  const streaming *s = h->s;
  uint32_t end = first, streams = 0;
  uint64_t bytes = 0;
  while (end < s->graph->kernel_count && end - first < MOST_SHARING && is_plain(h, end)) {
    const size_phase *own = &h->alone->phases[end];
    streams += streams_of(s->graph, end);
    bytes += own->fixed_bytes + s->batch * own->sample_bytes;
    if (streams > s->ctx->machine->colors || bytes > s->budget) break;
    end++;
  }
  return end;
}

/* Beside or below each other; false: the wafer is too small. */
static bool line_up(const sharing *h, uint32_t first, uint32_t end, bool columns) {
  uint32_t x = 0, y = 0;
  for (uint32_t k = first; k < end; k++) {
    const wafer_shape_point *point = h->alone->kernels[k].point;
    h->shares[k].corner = (wafer_core_at){x, y};
    if (x + point->width > h->s->whole.width || y + point->height > h->s->whole.height)
      return false;
    *(columns ? &y : &x) += columns ? point->height : point->width;
  }
  return true;
}

static void lay_back(const sharing *h, uint32_t first, uint32_t end) {
  for (uint32_t k = first; k < end; k++) h->shares[k].corner = (wafer_core_at){0, 0};
}

/* ---- What it gains ---- */

static wafer_holding holding_at(const sharing *h, uint32_t k, uint32_t place, bool apart) {
  streaming *s = h->s;
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  wafer_kernel_body body = size_with_depths(&kernel->body, h->alone->kernels[k].depths);
  const wafer_shape_point *point = h->alone->kernels[k].point;
  s->corner = apart ? h->shares[k].corner : (wafer_core_at){0, 0};
  return place < body.input_count ? streaming_input(s, &body, point, place)
                                  : streaming_output(s, &body, point, place - body.input_count);
}

/* Cycles in which input i of kernel k comes from where it was made. */
static uint64_t edge_cycles(const sharing *h, uint32_t k, uint32_t i, bool apart) {
  const wafer_graph_kernel *kernel = &h->s->graph->kernels[k];
  const wafer_graph_value *value = &h->s->graph->values[kernel->inputs[i]];
  if (value->producer == WAFER_NONE) return 0;
  const wafer_kernel_body *made = &h->s->graph->kernels[value->producer].body;
  wafer_holding from = holding_at(h, value->producer, made->input_count + value->output, apart),
                to = holding_at(h, k, i, apart);
  if (wafer_holding_equal(&from, &to)) return 0;
  return relayout_cycles(h->s->ctx->machine, &from, &to, &value->type.shape,
                         stream_words(&value->type, kernel->body.storage));
}

/* Of all edges of kernels [first, end), those among them once. */
static uint64_t edges_cycles(const sharing *h, uint32_t first, uint32_t end, bool apart) {
  const wafer_graph *graph = h->s->graph;
  uint64_t sum = 0;
  for (uint32_t k = first; k < end; k++) {
    const wafer_graph_kernel *kernel = &graph->kernels[k];
    for (uint32_t i = 0; i < kernel->body.input_count; i++) sum += edge_cycles(h, k, i, apart);
    for (uint32_t o = 0; o < kernel->body.output_count; o++) {
      const wafer_graph_value *value = &graph->values[kernel->outputs[o]];
      for (uint32_t u = 0; u < value->use_count; u++)
        if (value->uses[u].kernel >= end)
          sum += edge_cycles(h, value->uses[u].kernel, value->uses[u].input, apart);
    }
  }
  return sum;
}

/* Cycles that the run is faster in a phase of its own; 0: it is not. */
static uint64_t gain_of(const sharing *h, uint32_t first, uint32_t end, bool columns) {
  size_phase shared;
  uint64_t alone = 0, together = 0;
  if (line_up(h, first, end, columns)) {
    size_join(h->s->ctx->machine, h->s->graph, h->alone->phases, h->alone->kernels, h->shares,
              first, end, &shared);
    alone = edges_cycles(h, first, end, false);
    together = shared.in + shared.work + edges_cycles(h, first, end, true);
    for (uint32_t k = first; k < end; k++)
      alone += h->alone->phases[k].in + h->alone->phases[k].work;
  }
  lay_back(h, first, end);
  return alone > together ? alone - together : 0;
}

/* ---- The choice ---- */

/* For each kernel the best run that ends with it, with the best ones before it. */
static void find_runs(const sharing *h) {
  uint64_t before = 0;
  for (uint32_t first = 0; first < h->s->graph->kernel_count; first++) {
    uint32_t most = most_from(h, first);
    for (uint32_t end = first + 2; end <= most; end++)
      for (int columns = 0; columns < 2; columns++) {
        uint64_t gain = gain_of(h, first, end, columns);
        if (gain && before + gain > h->ends[end - 1].total)
          h->ends[end - 1] = (run_end){first, gain, before + gain, columns};
      }
    if (h->ends[first].total <= before) h->ends[first] = (run_end){first, 0, before, false};
    before = h->ends[first].total;
  }
}

/* Runs that gain at least so much share a phase, the other kernels have one to themselves. The sum
 * of their gains, and how many they are. */
static uint64_t take_runs(const sharing *h, uint64_t least, uint32_t *runs) {
  uint32_t n = h->s->graph->kernel_count, phase = n;
  uint64_t sum = 0;
  lay_back(h, 0, n);
  *runs = 0;
  for (uint32_t end = n, first; end > 0; end = first) {
    const run_end *run = &h->ends[end - 1];
    bool taken = run->gain >= least;
    first = taken ? run->first : end - 1;
    if (taken) (void)line_up(h, first, end, run->columns); /* as when it was weighed */
    phase--;
    for (uint32_t k = first; k < end; k++) h->shares[k].phase = phase;
    sum += taken ? run->gain : 0;
    *runs += taken;
  }
  return sum;
}

/* What `place` finds. */
static wafer_status write_rects(const sharing *h, const sizing *out) {
  const streaming *s = h->s;
  for (uint32_t k = 0; k < s->graph->kernel_count; k++) {
    sized_kernel *sized = &out->kernels[k];
    wafer_rect *rect = WAFER_NEW(s->ctx->arena, wafer_rect, 1);
    if (!rect) return streaming_no_memory(s);
    *rect = (wafer_rect){s->whole.x + h->shares[k].corner.x, s->whole.y + h->shares[k].corner.y,
                         sized->point->width, sized->point->height};
    sized->rect = rect;
  }
  return WAFER_OK;
}

wafer_status size_shared(streaming *s, sizing *out) {
  uint32_t n = s->graph->kernel_count, runs;
  sharing h = {.s = s, .alone = out};
  sizing shared;
  if (s->batch > 1 || s->stripes > 1 || s->paid || n == 0) return WAFER_OK;
  h.shares = WAFER_NEW(s->ctx->arena, size_share, n);
  h.ends = WAFER_NEW(s->ctx->arena, run_end, n);
  if (!h.shares || !h.ends) return streaming_no_memory(s);
  find_runs(&h);
  s->shares = h.shares;
  for (uint64_t least = 1, sum; (sum = take_runs(&h, least, &runs)); least = sum / runs + 1) {
    WAFER_TRY(size_again(s, out, &shared));
    if (!shared.cost.fits || shared.cost.latency_cycles >= out->cost.latency_cycles) continue;
    *out = shared;
    return write_rects(&h, out);
  }
  return WAFER_OK;
}
