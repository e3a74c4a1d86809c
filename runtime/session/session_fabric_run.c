/* Running launches: the fabric is programmed with each in turn; the words of inputs and weights go
 * to the routers at the border, and those of outputs come from them. Memories stay from launch to
 * launch, so what a kernel left is where the next stream finds it. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"
#include "port.h"

/* ---- rates ---- */

/* At the border: shared by all that flows one way. */
enum { GROUP_EDGE_IN, GROUP_EDGE_OUT, GROUP_MEMORYX };

static uint32_t group_of(const session_fabric *s, const wafer_port_use *p) {
  if (p->out) return GROUP_EDGE_OUT;
  bool weight = s->plan->values[p->value].weight != WAFER_NONE;
  weight |= s->plan->step_values && p->value > s->plan->step_values;
  return weight ? GROUP_MEMORYX : GROUP_EDGE_IN;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a ? a : 1;
}

/* Bytes per second as words per cycles, in 32 bits each. */
static void set_rate(session_fabric *s, uint32_t group, uint64_t bytes_per_second) {
  uint64_t words = bytes_per_second, cycles = WAFER_WAVELET_BYTES * s->plan->machine->clock_hz;
  if (bytes_per_second == UINT64_MAX) return;
  uint64_t common = gcd(words, cycles);
  words /= common;
  cycles /= common;
  while (words > UINT32_MAX || cycles > UINT32_MAX) {
    words = (words + 1) / 2;
    cycles = (cycles + 1) / 2;
  }
  wafer_fabric_rate(s->fabric, group, (uint32_t)words, (uint32_t)cycles);
}

static void set_rates(session_fabric *s) {
  const wafer_machine *m = wafer_machine_whole(s->plan->machine);
  uint64_t memoryx = m->memoryx_bytes_per_second < m->edge_in_bytes_per_second
                         ? m->memoryx_bytes_per_second
                         : m->edge_in_bytes_per_second;
  set_rate(s, GROUP_EDGE_IN, m->edge_in_bytes_per_second);
  set_rate(s, GROUP_EDGE_OUT, m->edge_out_bytes_per_second);
  set_rate(s, GROUP_MEMORYX, memoryx);
}

/* ---- ports ---- */

static uint64_t words_of(const session_fabric *s, const wafer_port_use *p) {
  return port_words(p, wafer_dtype_bytes(session_fabric_type(s, p->value)));
}

static wafer_status make_room(session_fabric *s, fabric_launch *l, uint64_t samples) {
  for (uint32_t i = 0; i < l->body.port_count; i++) {
    uint64_t count = words_of(s, &l->body.ports[i]);
    if (count > UINT32_MAX || (count && samples > SIZE_MAX / 8 / count))
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                        "a port carries %llu words of a sample, %llu samples at once",
                        (unsigned long long)count, (unsigned long long)samples);
    if (l->room >= samples) continue;
    free(l->words[i]);
    l->words[i] = malloc((count * samples + 1) * sizeof(uint32_t));
    if (!l->words[i]) {
      l->room = 0;
      return session_fabric_no_memory(s);
    }
  }
  if (l->room < samples) l->room = samples;
  return WAFER_OK;
}

static wafer_status connect(session_fabric *s, fabric_launch *l, uint32_t index, uint64_t sample,
                            uint32_t band) {
  const wafer_port_use *p = &l->body.ports[index];
  wafer_core_at at = wafer_machine_band_core(s->plan->machine, band, p->x, p->y);
  wafer_port side = session_fabric_port(s, band, (wafer_port)p->side);
  uint32_t count = (uint32_t)words_of(s, p), *words = l->words[index] + sample * count;
  if (p->out)
    return wafer_fabric_drain(s->fabric, at.x, at.y, side, p->color, words, count,
                              group_of(s, p),
                              l->of->kind == WAFER_LAUNCH_train ? &s->marks.finish[sample] : NULL);
  if (s->plan->values[p->value].weight != WAFER_NONE) WAFER_TRY(session_fabric_weight(s, p->value));
  if (s->plan->step_values && p->value > s->plan->step_values)
    WAFER_TRY(session_fabric_master(s, p->value));
  port_pack(p, wafer_dtype_bytes(session_fabric_type(s, p->value)), s->stored[p->value], words);
  return wafer_fabric_feed(s->fabric, at.x, at.y, side, p->color, words, count,
                           (wafer_control)p->control, group_of(s, p));
}

/* A replica that no sample comes to gives nothing out; its way out is there all the same. */
static wafer_status connect_idle(session_fabric *s, const fabric_launch *l, uint64_t samples) {
  uint32_t bands = session_fabric_bands(s, samples);
  for (uint32_t i = 0; i < bands * l->body.port_count; i++) {
    uint32_t band = i / l->body.port_count, port = i % l->body.port_count;
    const wafer_port_use *p = &l->body.ports[port];
    wafer_core_at at = wafer_machine_band_core(s->plan->machine, band, p->x, p->y);
    wafer_port side = session_fabric_port(s, band, (wafer_port)p->side);
    if (p->out && p->first >= (samples - band + bands - 1) / bands)
      WAFER_TRY(wafer_fabric_drain(s->fabric, at.x, at.y, side, p->color, l->words[port], 0,
                                   group_of(s, p), NULL));
  }
  return WAFER_OK;
}

/* What goes to all bands, of the samples each to one. */
static wafer_status connect_once(session_fabric *s, fabric_launch *l, uint32_t bands) {
  WAFER_TRY(make_room(s, l, 1));
  for (uint32_t b = 0; b < bands; b++)
    for (uint32_t p = 0; p < l->body.port_count; p++) WAFER_TRY(connect(s, l, p, 0, b));
  return WAFER_OK;
}

static wafer_status connect_samples(session_fabric *s, fabric_launch *l, const fabric_io *io) {
  const wafer_function *f = s->function;
  uint32_t bands = session_fabric_bands(s, io->samples);
  WAFER_TRY(make_room(s, l, io->samples));
  for (uint64_t i = 0; i < io->samples; i++) {
    if (i && l->of->kind == WAFER_LAUNCH_train) wafer_fabric_round(s->fabric);
    for (uint32_t k = 0; k < f->input_count; k++)
      WAFER_TRY(session_fabric_input(s, f->inputs[k], &io->inputs[k], io->train,
                                     fabric_io_sample(io, i)));
    for (uint32_t p = 0; p < l->body.port_count; p++)
      if (wafer_port_carries(&l->body.ports[p], i / bands))
        WAFER_TRY(connect(s, l, p, i, (uint32_t)(i % bands)));
  }
  return connect_idle(s, l, io->samples);
}

/* An output's elements from all ports that carry some; streaming brings an output in one launch. */
static wafer_status collect(session_fabric *s, const fabric_launch *l, const fabric_io *io) {
  const wafer_function *f = s->function;
  uint32_t bands = session_fabric_bands(s, io->samples);
  for (uint64_t i = 0; i < io->samples; i++)
    for (uint32_t k = 0; k < f->output_count; k++) {
      bool any = false;
      for (uint32_t p = 0; p < l->body.port_count; p++) {
        const wafer_port_use *port = &l->body.ports[p];
        bool brings = port->out && port->value == f->outputs[k];
        if (!brings || !wafer_port_carries(port, i / bands)) continue;
        port_unpack(port, wafer_dtype_bytes(session_fabric_type(s, port->value)),
                    l->words[p] + i * words_of(s, port), s->stored[port->value]);
        any = true;
      }
      if (any)
        WAFER_TRY(session_fabric_output(s, f->outputs[k], io->out[k], fabric_io_sample(io, i)));
    }
  return WAFER_OK;
}

/* ---- launches ---- */

/* To a core, and to that of every stripe which does the same. */
static bool write_stripes(session_fabric *s, const fabric_launch *l, const wafer_launch_data *d,
                          uint32_t x, uint32_t y) {
  const wafer_plan *plan = s->plan;
  uint32_t stripes = l->of->kind == WAFER_LAUNCH_action ? wafer_launch_samples(plan, l->of) : 1;
  for (uint32_t b = 0; b < stripes; b++)
    if (!wafer_fabric_write(s->fabric, x + b * plan->stripe_columns, y, d->address, d->bytes.data,
                            (uint32_t)d->bytes.size))
      return false;
  return true;
}

static wafer_status write_data(session_fabric *s, const fabric_launch *l, uint32_t bands) {
  const wafer_machine *m = s->plan->machine;
  for (uint32_t i = 0; i < l->body.data_count; i++) {
    const wafer_launch_data *d = &l->body.data[i];
    const wafer_rect *r = &d->cores;
    bool inside = r->x <= m->width && r->width <= m->width - r->x && r->y <= m->height &&
                  r->height <= m->height - r->y;
    for (uint32_t b = 0; inside && b < bands; b++) {
      wafer_rect to = session_fabric_rect(s, b, *r);
      for (uint32_t y = to.y; inside && y < to.y + to.height; y++)
        for (uint32_t x = to.x; inside && x < to.x + to.width; x++)
          inside = write_stripes(s, l, d, x, y);
    }
    if (!inside)
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_BAD_INPUT,
                        "program %u: constant %u lies outside of the cores' memory", l->of->program,
                        i);
  }
  return WAFER_OK;
}

wafer_status session_fabric_only(session_fabric *s, fabric_launch *l, const fabric_io *io) {
  bool load = l->of->kind == WAFER_LAUNCH_load;
  bool once = load || wafer_launch_ends_step(l->of->kind);
  uint32_t bands = session_fabric_bands(s, io->samples);
  WAFER_TRY(session_fabric_spread(s, l, bands));
  WAFER_TRY(wafer_fabric_reprogram(s->fabric, &l->program));
  set_rates(s);
  WAFER_TRY(write_data(s, l, bands));
  if (l->of->kind == WAFER_LAUNCH_train || s->watched || session_fabric_several(s, l))
    WAFER_TRY(session_fabric_watch(s, l, io->samples));
  WAFER_TRY(once ? connect_once(s, l, bands) : connect_samples(s, l, io));
  session_fabric_place_registers(s, l, io->samples);
  s->sample = io->first;
  WAFER_TRY(session_fabric_inject(s, l, io->samples));
  if (load) wafer_fabric_open(s->fabric, wafer_launch_opening(s->plan->machine));
  wafer_status status = wafer_fabric_run(s->fabric, &l->stats);
  wafer_fabric_observe(s->fabric, NULL, NULL);
  session_fabric_faults_launch(s);
  WAFER_TRY(status);
  session_fabric_load_launch(s, l);
  s->stats.hops += l->stats.hops;
  s->stats.elements += l->stats.elements;
  return WAFER_OK;
}

wafer_status session_fabric_launch(session_fabric *s, fabric_launch *l, const fabric_io *io) {
  WAFER_TRY(session_fabric_only(s, l, io));
  WAFER_TRY(collect(s, l, io));
  WAFER_TRY(session_fabric_left(s, l, io));
  bool one = io->samples == 1 || l->of->kind == WAFER_LAUNCH_action;
  return one ? session_fabric_tell(s, l, io) : WAFER_OK;
}

/* ---- runs ---- */

static wafer_status check_cancel(const session_fabric *s, uint32_t launch) {
  if (!wafer_cancelled(s->diag)) return WAFER_OK;
  return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                    "cancelled at launch %u of %u", launch, s->launch_count);
}

/* The samples of a launch, of a band's to `end` - 1, one in each band; none: false. A round of
 * stripes that is not full is filled up with the last sample. */
static bool take_samples(const session_fabric *s, const wafer_launch *launch, uint64_t first,
                         uint64_t end, fabric_io *io) {
  uint32_t samples =
      launch->kind == WAFER_LAUNCH_action ? wafer_launch_samples(s->plan, launch) : 1;
  uint64_t own = first + launch->sample;
  if (own - launch->sample % s->plan->stripes >= end) return false;
  if (own >= end) own = end - 1;
  io->stripes = end - own < samples ? (uint32_t)(end - own) : samples;
  io->first = own * io->samples;
  return true;
}

/* Those of a launch that are none twice. */
static uint32_t samples_of(const fabric_io *io) {
  uint64_t left = io->last + 1 - io->first, all = io->samples * io->stripes;
  return (uint32_t)(left < all ? left : all);
}

/* Streaming: a band's samples `first` to `end` - 1, which are resident together. */
static wafer_status run_group(session_fabric *s, const fabric_io *all, uint64_t first, uint64_t end,
                              fabric_clock *c) {
  uint32_t bands = wafer_machine_bands(s->plan->machine);
  uint64_t own = (all->samples + bands - 1) / bands;
  fabric_io io = *all;
  io.samples = bands;
  for (uint32_t i = 0; i < s->launch_count; i++) {
    fabric_launch *l = &s->launches[i];
    if (!take_samples(s, l->of, first, end, &io)) continue;
    WAFER_TRY(check_cancel(s, i));
    s->start = session_fabric_start(s, c, l);
    WAFER_TRY(session_fabric_launch(s, l, &io));
    uint64_t sample = first + l->of->sample; /* from `end` on it fills the round up, and is none */
    session_fabric_tick(s, c, l, sample < end ? samples_of(&io) : 0);
    if (sample == 0 && session_fabric_border(s, l) == FABRIC_BORDER_out)
      s->stats.latency_cycles = c->now;
    wafer_progress(s->diag, "fabric", first * s->launch_count + (end - first) * (i + 1),
                   own * s->launch_count);
  }
  return WAFER_OK;
}

static wafer_status run_samples(session_fabric *s, const fabric_io *io) {
  uint32_t bands = wafer_machine_bands(s->plan->machine);
  uint64_t batch = s->plan->batch, own = (io->samples + bands - 1) / bands;
  fabric_clock c = {0};
  for (uint64_t first = 0; first < own; first += batch) {
    uint64_t end = own - first < batch ? own : first + batch;
    WAFER_TRY(run_group(s, io, first, end, &c));
  }
  s->stats.total_cycles = c.now;
  s->stats.interval_cycles = c.now / io->samples;
  return WAFER_OK;
}

/* A pipeline: the weights once per session, then all samples in one launch. */
static wafer_status run_train(session_fabric *s, const fabric_io *io) {
  uint32_t bands = session_fabric_bands(s, io->samples);
  s->start = 0;
  s->gathered = false;
  s->step = (wafer_step_cycles){0};
  for (uint32_t i = 0; i < s->launch_count; i++) {
    fabric_launch *l = &s->launches[i];
    bool train = l->of->kind == WAFER_LAUNCH_train;
    if (wafer_launch_ends_step(l->of->kind) || (!train && s->loaded >= bands)) continue;
    WAFER_TRY(check_cancel(s, i));
    WAFER_TRY(session_fabric_launch(s, l, io));
    session_fabric_watch_launch(s, l, l->stats.cycles);
    s->start += l->stats.cycles;
    if (train) session_fabric_train_time(s, l);
    wafer_progress(s->diag, "fabric", i + 1, s->launch_count);
  }
  if (s->loaded < bands) s->loaded = bands;
  return WAFER_OK;
}

wafer_status session_fabric_run(session_fabric *s, const wafer_view *inputs, bool train,
                                uint64_t samples, void *const *out) {
  const fabric_io io = {
      .inputs = inputs, .out = out, .train = train, .samples = samples, .last = samples - 1};
  memset(s->kernel_busy, 0, s->plan->kernel_count * sizeof *s->kernel_busy);
  memset(s->stream_busy, 0, s->plan->stream_count * sizeof *s->stream_busy);
  memset(s->phase_cycles, 0, s->plan->phase_count * sizeof *s->phase_cycles);
  memset(s->armed, 0, s->plan->phase_count * sizeof *s->armed);
  s->stats.hops = s->stats.elements = 0;
  session_fabric_load_clear(s);
  s->stats.samples = samples;
  return s->plan->mode == WAFER_MODE_pipelined ? run_train(s, &io) : run_samples(s, &io);
}

wafer_run_stats session_fabric_stats(const session_fabric *s) {
  return s->stats;
}
