/* Pieces -> a launch: linked into one program, timed, and its bytes kept once. */
#include <string.h>

#include "launch_state.h"
#include "wafer/assembly.h"

static uint32_t find_program(const launcher *l, wafer_bytes bytes) {
  uint32_t i = 0;
  while (i < l->program_count && (l->programs[i].size != bytes.size ||
                                  memcmp(l->programs[i].data, bytes.data, bytes.size) != 0))
    i++;
  return i;
}

/* ---- the time of a train ---- */

#define TRAIN_SAMPLES 8

/* The cores of a replica, at one sample after another. */
typedef struct train_cores {
  uint64_t first, last; /* when the first, the last of them has done its pieces so far */
  uint64_t busy;        /* cycles of those until replicas stand as at the first sample */
} train_cores;

typedef struct train_clock {
  const launcher *l;
  const wafer_phase *phase;
  train_cores **cores; /* of each kernel: by replica */
  uint32_t turn;       /* sample at hand */
  uint64_t end;        /* of the last one */
} train_clock;

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static train_cores *cores_at(const train_clock *c, uint32_t kernel) {
  return kernel == WAFER_NONE ? NULL : &c->cores[kernel][launch_replica(c->l, kernel, c->turn)];
}

static uint64_t compute(train_cores *at, const fragment *f) {
  at->first += f->cycles - f->tail;
  at->last += f->cycles - f->tail;
  at->busy += f->cycles;
  return at->last;
}

/* Streams of a core follow each other, cores apart: a bus needs the source's until the last words
 * have left, and the target's from when the first arrive. The core whose words go first is ready
 * first of all or last of all, as splits and directions have it: a bus begins halfway between. */
static uint64_t carry(train_cores *from, train_cores *to, const fragment *f) {
  uint64_t start = from ? (from->first + from->last) / 2 : 0;
  if (to && to->first > start + f->lead) start = to->first - f->lead;
  uint64_t end = start + f->cycles;
  if (from) end = later(end, from->last + f->sending + f->tail);
  if (to) end = later(end, to->last + f->taking);
  if (from) *from = (train_cores){start + f->sending, end - f->tail, from->busy + f->cycles};
  if (to) *to = (train_cores){start + f->lead + f->taking, end, to->busy + f->cycles};
  return end;
}

static void pass_piece(train_clock *c, uint32_t action, const fragment *f) {
  const wafer_action *a = &c->phase->actions[action];
  uint64_t end;
  if (a->kind == WAFER_ACTION_stream) {
    const wafer_stream *t = &c->l->plan->streams[a->index];
    end = carry(cores_at(c, t->from_kernel), cores_at(c, t->to_kernel), f);
  } else {
    end = compute(cores_at(c, a->index), f);
  }
  c->end = later(c->end, end);
}

static train_cores **make_cores(const launcher *l) {
  const wafer_plan *plan = l->plan;
  train_cores **cores = WAFER_NEW(l->arena, train_cores *, plan->kernel_count);
  for (uint32_t k = 0; cores && k < plan->kernel_count; k++)
    if (!(cores[k] = WAFER_NEW(l->arena, train_cores, plan->kernels[k].replicas))) return NULL;
  return cores;
}

/* The kernel of which a replica's cores have most to do. */
static uint32_t slowest_kernel(const train_clock *c) {
  const wafer_plan *plan = c->l->plan;
  uint32_t slowest = WAFER_NONE;
  uint64_t most = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t r = 0; r < plan->kernels[k].replicas; r++) {
      if (c->cores[k][r].busy <= most) continue;
      most = c->cores[k][r].busy;
      slowest = k;
    }
  return slowest;
}

/* All steps once; `ends`: of each of their samples. */
static void pass_steps(const launch_pieces *p, train_clock *c, uint64_t *ends) {
  for (uint32_t i = 0; i < p->step_count; i++)
    if (p->steps[i] == FRAGMENT_ENDS)
      ends[c->turn++] = c->end;
    else
      pass_piece(c, p->parts[p->steps[i]], p->at[p->steps[i]]);
  c->turn = 0;
}

/* Cores go through their pieces in the order of the steps, again and again. */
static wafer_status time_train(launcher *l, const launch_pieces *p, wafer_launch *launch) {
  uint32_t turns = 0, half = TRAIN_SAMPLES / 2;
  for (uint32_t i = 0; i < p->step_count; i++) turns += p->steps[i] == FRAGMENT_ENDS;
  half = (half + turns - 1) / turns * turns;
  train_clock c = {.l = l, .phase = &l->plan->phases[launch->phase], .cores = make_cores(l)};
  uint64_t *ends = WAFER_NEW(l->arena, uint64_t, 2 * half);
  if (!c.cores || !ends) return launch_no_memory(l);
  for (uint32_t s = 0; s < 2 * half; s += turns) {
    pass_steps(p, &c, ends + s);
    if (s == 0) launch->slowest = slowest_kernel(&c);
  }
  launch->predicted = ends[0];
  launch->interval = (ends[2 * half - 1] - ends[half - 1] + half - 1) / half;
  return WAFER_OK;
}

/* Pieces of an action stand together, and follow each other; actions run at once. */
static uint64_t longest_action(const launch_pieces *p) {
  uint64_t longest = 0, own = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    own = p->at[i]->cycles + (i > 0 && p->parts[i] == p->parts[i - 1] ? own : 0);
    longest = later(longest, own);
  }
  return longest;
}

wafer_status launch_finish(launcher *l, wafer_launch launch, const char *name,
                           const launch_pieces *p) {
  const wafer_machine *m = l->plan->machine;
  fragment_link link = {
      .name = name,
      .width = m->width,
      .height = m->height,
      .count = p->count,
      .at = (const fragment *const *)p->at,
      .marks = true,
      .step_count = p->step_count,
      .steps = p->steps,
      .stripes = launch.kind == WAFER_LAUNCH_action ? wafer_launch_samples(l->plan, &launch) : 1,
      .stripe_columns = l->plan->stripe_columns};
  wafer_launch_body body = {
      .part_count = p->count, .parts = p->parts, .data_count = p->data.count, .data = p->data.at};
  wafer_fabric_program program;
  fragment_ports ports;
  link.ports = &ports;
  WAFER_TRY(fragment_link_program(&l->diag, l->arena, m, &link, &program));
  body.port_count = ports.count;
  body.ports = ports.at;
  if (!wafer_fabric_program_write(l->arena, &program, &body.program)) return launch_no_memory(l);
  wafer_bytes bytes;
  if (!wafer_launch_write(l->arena, &body, &bytes)) return launch_no_memory(l);
  launch.program = find_program(l, bytes);
  if (launch.program == l->program_count) {
    void *copy = wafer_arena_alloc(l->ctx->arena, bytes.size, 1);
    if (!copy) return launch_no_memory(l);
    memcpy(copy, bytes.data, bytes.size);
    l->programs[l->program_count++] = (wafer_bytes){copy, bytes.size};
  }
  launch.predicted = longest_action(p);
  launch.slowest = WAFER_NONE;
  launch.tap_count = p->tap_count;
  launch.taps = p->taps;
  if (launch.kind == WAFER_LAUNCH_train) WAFER_TRY(time_train(l, p, &launch));
  l->launches[l->launch_count++] = launch;
  return WAFER_OK;
}
