#include "wafer/least_pace.h"

#include <stdlib.h>

#include "size.h"
#include "wafer/least_cores.h"
#include "wafer/wafer.h"

typedef struct bound {
  const wafer_plan *plan;
  const wafer_machine *wafer;
  wafer_arena *arena;
  uint64_t copies;           /* that a kernel may have */
  bool **takes, **sends;     /* of each kernel, by its inputs and outputs */
  wafer_least_cores **least; /* of a relay none */
} bound;

static bool is_relay(const bound *b, uint32_t kernel) {
  return wafer_is_relay(b->plan->kernels[kernel].name);
}

static void mark(const uint32_t *values, uint32_t count, uint32_t value, bool *marks) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i] == value) {
      marks[i] = true;
      return;
    }
}

/* What streams bring to each kernel, and take from it, with every sample. */
static bool mark_streams(bound *b) {
  const wafer_plan *plan = b->plan;
  b->takes = WAFER_NEW(b->arena, bool *, plan->kernel_count);
  b->sends = WAFER_NEW(b->arena, bool *, plan->kernel_count);
  if (!b->takes || !b->sends) return false;
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    b->takes[k] = WAFER_NEW(b->arena, bool, plan->kernels[k].body.input_count);
    b->sends[k] = WAFER_NEW(b->arena, bool, plan->kernels[k].body.output_count);
    if (!b->takes[k] || !b->sends[k]) return false;
  }
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    if (s->from.where == WAFER_AT_memoryx) continue;
    if (s->to_kernel != WAFER_NONE) {
      const wafer_kernel *to = &plan->kernels[s->to_kernel];
      mark(to->inputs, to->body.input_count, s->value, b->takes[s->to_kernel]);
    }
    if (s->from_kernel != WAFER_NONE) {
      const wafer_kernel *from = &plan->kernels[s->from_kernel];
      mark(from->outputs, from->body.output_count, s->value, b->sends[s->from_kernel]);
    }
  }
  return true;
}

static bool are_alike(const bound *b, uint32_t j, uint32_t k) {
  const wafer_kernel_body *x = &b->plan->kernels[j].body, *y = &b->plan->kernels[k].body;
  if (x->input_count != y->input_count || x->output_count != y->output_count) return false;
  for (uint32_t i = 0; i < x->input_count; i++)
    if (b->takes[j][i] != b->takes[k][i]) return false;
  for (uint32_t o = 0; o < x->output_count; o++)
    if (b->sends[j][o] != b->sends[k][o]) return false;
  return true;
}

/* Everything that depends on neither bands nor cycles; kernels that are alike share it. */
static bool measure(bound *b) {
  uint32_t n = b->plan->kernel_count;
  uint64_t *signature = WAFER_NEW(b->arena, uint64_t, n);
  b->least = WAFER_NEW(b->arena, wafer_least_cores *, n);
  b->copies = 1;
  if (!signature || !b->least || !mark_streams(b)) return false;
  for (uint32_t k = 0; k < n; k++) {
    const wafer_kernel *kernel = &b->plan->kernels[k];
    if (kernel->replicas > b->copies) b->copies = kernel->replicas;
    if (is_relay(b, k)) continue;
    signature[k] = wafer_kernel_signature(&kernel->body);
    for (uint32_t j = 0; j < k && !b->least[k]; j++)
      if (b->least[j] && signature[j] == signature[k] && are_alike(b, j, k))
        b->least[k] = b->least[j];
    if (b->least[k]) continue;
    b->least[k] = WAFER_NEW(b->arena, wafer_least_cores, 1);
    if (!b->least[k] || wafer_kernel_least_cores(b->wafer, &kernel->body, b->takes[k], b->sends[k],
                                                 b->arena, b->least[k]) != WAFER_OK)
      return false;
  }
  return true;
}

/* Cores of one of the bands of a cut; 0: there is no such cut. */
static uint64_t cores_of(const bound *b, wafer_cut cut) {
  const wafer_machine *m = b->wafer;
  uint64_t columns = cut.sides == 1 ? m->usable.width : wafer_machine_half_columns(m);
  return columns * (m->usable.height / (cut.bands / cut.sides));
}

/* Of all copies of a kernel, each of which has the time of so many samples. */
static uint64_t cores_for(const bound *b, uint32_t kernel, uint64_t cycles) {
  uint64_t fewest = UINT64_MAX;
  for (uint64_t copies = 1; copies <= b->copies; copies++) {
    uint64_t each = wafer_least_cores_for(b->least[kernel], copies * cycles);
    if (each != UINT64_MAX && each * copies < fewest) fewest = each * copies;
  }
  return fewest;
}

/* `stops`: a kernel that no cores are enough for, or whose cores are more than there are;
 * WAFER_NONE where all kernels together are. */
static bool is_feasible(const bound *b, wafer_cut cut, uint64_t cycles, uint32_t *stops) {
  uint64_t cores = cores_of(b, cut), left = cores;
  bool fits = true;
  *stops = WAFER_NONE;
  for (uint32_t k = 0; k < b->plan->kernel_count; k++) {
    if (!b->least[k]) continue;
    uint64_t need = cores_for(b, k, cycles * cut.bands);
    if (need > cores && *stops == WAFER_NONE) *stops = k;
    fits &= need <= left;
    left -= need < left ? need : left;
  }
  return fits;
}

/* The least cycles that a cut allows, known to be feasible: `high`, and more than `low`. */
static uint64_t least_between(const bound *b, wafer_cut cut, uint64_t low, uint64_t high) {
  uint32_t stops;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (is_feasible(b, cut, middle, &stops))
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* Fewer and fewer cycles, from those of the plan on, which are feasible; once they are the edge's
 * no bands can do better. */
static void find(const bound *b, uint64_t edge, uint64_t reached, wafer_least_pace *out) {
  const wafer_machine *m = b->wafer;
  uint32_t stops;
  uint64_t found = reached;
  out->cut = wafer_machine_cut(b->plan->machine);
  for (uint32_t i = 0; i < m->usable.height * m->edge_sides && found > edge; i++) {
    uint32_t sides = 1 + i / m->usable.height, each = 1 + i % m->usable.height;
    wafer_cut cut = {each * sides, sides, false};
    if (found <= 1 || !is_feasible(b, cut, found - 1, &stops)) continue;
    found = least_between(b, cut, 0, found - 1);
    out->cut = cut;
  }
  out->cycles = found > edge ? found : edge;
  out->at_edge = found <= edge;
  out->kernel = WAFER_NONE;
  if (found > edge && found > 1) is_feasible(b, out->cut, found - 1, &out->kernel);
}

wafer_status wafer_plan_least_pace(const wafer_diag *diag, const wafer_plan *plan, uint64_t edge,
                                   uint64_t reached, wafer_least_pace *out) {
  *out = (wafer_least_pace){.kernel = WAFER_NONE};
  if (plan->mode != WAFER_MODE_pipelined || !plan->launch_count || plan->training) return WAFER_OK;
  bound b = {
      .plan = plan, .wafer = wafer_machine_whole(plan->machine), .arena = wafer_arena_create()};
  bool ok = b.arena && (reached <= edge || measure(&b));
  if (ok) find(&b, edge, reached, out);
  wafer_arena_destroy(b.arena);
  if (ok) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "no memory for a bound");
}
