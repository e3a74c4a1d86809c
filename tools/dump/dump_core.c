/* What one core holds, phase by phase: the kernel that runs there, and what earlier phases left. */
#include <stdlib.h>
#include <string.h>

#include "dump.h"

/* A value held on a rectangle that covers the core. */
typedef struct held {
  uint32_t value;
  wafer_holding holding;
} held;

typedef struct core_map {
  FILE *to;
  const wafer_plan *plan;
  uint32_t x, y;
  held *at;
  size_t count, capacity;
  bool failed; /* out of memory */
  uint64_t bytes, most;
} core_map;

static void hold(core_map *m, uint32_t value, const wafer_holding *holding) {
  if (holding->where != WAFER_AT_wafer || !wafer_rect_has(holding->rect, m->x, m->y)) return;
  for (size_t i = 0; i < m->count; i++)
    if (m->at[i].value == value && wafer_holding_equal(&m->at[i].holding, holding)) return;
  if (m->count == m->capacity) {
    size_t capacity = m->capacity ? m->capacity * 2 : 32;
    held *at = realloc(m->at, capacity * sizeof *at);
    if (!at) {
      m->failed = true;
      return;
    }
    m->at = at;
    m->capacity = capacity;
  }
  m->at[m->count++] = (held){value, *holding};
}

static void drop(core_map *m, const wafer_phase *p) {
  size_t kept = 0;
  for (size_t i = 0; i < m->count; i++) {
    bool dropped = false;
    for (uint32_t f = 0; f < p->free_count; f++) dropped |= p->frees[f] == m->at[i].value;
    if (!dropped) m->at[kept++] = m->at[i];
  }
  m->count = kept;
}

static void print_line(core_map *m, uint64_t bytes, const char *what, const char *node) {
  m->bytes += bytes;
  fprintf(m->to, "  %8llu  %-44s %s\n", (ull)bytes, what, node);
}

static bool is_at(const held *h, const wafer_kernel *k, wafer_layout layout) {
  wafer_holding own = {WAFER_AT_wafer, k->rect, layout};
  return wafer_holding_equal(&own, &h->holding);
}

/* A kernel's own memory counts its inputs and outputs where it runs. */
static bool counted_by(const wafer_kernel *k, const held *h) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (k->inputs[i] == h->value && is_at(h, k, wafer_kernel_input_layout(&k->body, &k->split, i)))
      return true;
  for (uint32_t i = 0; i < k->body.output_count; i++)
    if (k->outputs[i] == h->value &&
        is_at(h, k, wafer_kernel_output_layout(&k->body, &k->split, i)))
      return true;
  return false;
}

static bool counted(const core_map *m, const wafer_phase *p, const held *h) {
  for (uint32_t i = 0; i < p->action_count; i++)
    if (p->actions[i].kind == WAFER_ACTION_kernel &&
        counted_by(&m->plan->kernels[p->actions[i].index], h))
      return true;
  return false;
}

/* As wafer_plan_check counts them. */
static uint64_t held_bytes(const wafer_plan *plan, const held *h) {
  const wafer_value *v = &plan->values[h->value];
  uint64_t samples = v->weight == WAFER_NONE ? wafer_plan_resident(plan) : 1;
  return wafer_plan_held_bytes(plan, h->value, &h->holding) * samples;
}

static void print_kernel(core_map *m, const wafer_kernel *k) {
  fprintf(m->to, "  kernel '%s' (%s) on %ux%u cores at %u,%u\n", k->name,
          wafer_family_name(k->body.family), k->rect.width, k->rect.height, k->rect.x, k->rect.y);
  for (uint32_t i = 0; i < k->memory_count; i++)
    print_line(m, k->memory[i].bytes, k->memory[i].what, k->memory[i].node);
}

static void print_held(core_map *m, const wafer_phase *p) {
  for (size_t i = 0; i < m->count; i++) {
    const held *h = &m->at[i];
    if (counted(m, p, h)) continue;
    const wafer_value *v = &m->plan->values[h->value];
    char what[96];
    snprintf(what, sizeof what, "held: %s %.60s", wafer_owner_name(v->owner), v->name);
    print_line(m, held_bytes(m->plan, h), what, v->node);
  }
}

/* The weights that a load leaves on the core. */
static void load(core_map *m, const wafer_phase *p) {
  for (uint32_t i = 0; i < p->action_count; i++) {
    const wafer_action *a = &p->actions[i];
    const wafer_stream *s = a->kind == WAFER_ACTION_stream ? &m->plan->streams[a->index] : NULL;
    if (s && s->from.where == WAFER_AT_memoryx) hold(m, s->value, &s->to);
  }
}

/* What the phase makes and receives on the core. */
static void run(core_map *m, const wafer_phase *p) {
  for (uint32_t i = 0; i < p->action_count; i++) {
    const wafer_action *a = &p->actions[i];
    if (a->kind == WAFER_ACTION_stream) {
      const wafer_stream *s = &m->plan->streams[a->index];
      if (!wafer_stream_passes(m->plan, s)) hold(m, s->value, &s->to);
      continue;
    }
    const wafer_kernel *k = &m->plan->kernels[a->index];
    for (uint32_t o = 0; o < k->body.output_count; o++) {
      wafer_layout layout = wafer_kernel_output_layout(&k->body, &k->split, o);
      hold(m, k->outputs[o], &(wafer_holding){WAFER_AT_wafer, k->rect, layout});
    }
  }
}

static void print_phase(core_map *m, uint32_t index) {
  const wafer_phase *p = &m->plan->phases[index];
  uint32_t reserved = m->plan->machine->reserved_bytes, all = m->plan->machine->core_bytes;
  m->bytes = 0;
  fprintf(m->to, "\nphase %u '%s'\n", index, p->name);
  print_line(m, reserved, "reserved by the machine", "");
  for (uint32_t i = 0; i < p->action_count; i++) {
    if (p->actions[i].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &m->plan->kernels[p->actions[i].index];
    if (wafer_rect_has(dump_extent(k), m->x, m->y)) print_kernel(m, k);
  }
  run(m, p);
  print_held(m, p);
  drop(m, p);
  fprintf(m->to, "  %8llu  of %u bytes\n", (ull)m->bytes, all);
  if (m->bytes > m->most) m->most = m->bytes;
}

/* Stripe of a column, or as many as there are where columns are left over; *x: the column of the
 * first stripe that does the same. */
static uint32_t to_first_stripe(const wafer_plan *plan, uint32_t *x) {
  uint32_t left = wafer_plan_first_column(plan);
  if (plan->stripes == 1) return 0;
  if (*x < left || (*x - left) / plan->stripe_columns >= plan->stripes) return plan->stripes;
  uint32_t stripe = (*x - left) / plan->stripe_columns;
  *x -= stripe * plan->stripe_columns;
  return stripe;
}

/* The core's band, or as many as there are where cores are left over; *x, *y: the core of the first
 * band that does the same. */
static uint32_t to_first_band(const wafer_machine *m, uint32_t *x, uint32_t *y) {
  wafer_core_at at;
  uint32_t band = wafer_machine_band_at(m, *x, *y, &at);
  if (band >= wafer_machine_bands(m)) return band;
  *x = at.x;
  *y = at.y;
  return band;
}

wafer_status dump_core(FILE *to, const wafer_diag *diag, const wafer_plan *plan, uint32_t x,
                       uint32_t y) {
  const wafer_machine *machine = plan->machine, *whole = wafer_machine_whole(machine);
  if (x >= whole->width || y >= whole->height)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_USAGE,
                      "core %u,%u is outside the %ux%u cores of %s", x, y, whole->width,
                      whole->height, whole->name);
  core_map m = {.to = to, .plan = plan, .x = x, .y = y};
  fprintf(to, "core %u,%u of %s: %u bytes%s\n", x, y, machine->name, machine->core_bytes,
          wafer_rect_has(whole->usable, x, y) ? "" : "; outside the usable rectangle");
  for (uint32_t i = 0; i < machine->dead_count; i++)
    if (machine->dead[i].x == x && machine->dead[i].y == y) fputs("this core is dead\n", to);
  uint32_t stripe = to_first_stripe(plan, &m.x), band = to_first_band(machine, &m.x, &m.y);
  if (machine->whole && band == machine->cut.bands) fputs("in no band\n", to);
  if (machine->whole && band < machine->cut.bands)
    fprintf(to, "in band %u of %u%s\n", band, machine->cut.bands,
            band % machine->cut.sides ? ", mirrored" : "");
  if (plan->stripes > 1 && stripe < plan->stripes)
    fprintf(to, "in stripe %u of %u\n", stripe, plan->stripes);
  if (stripe == plan->stripes) fputs("in no stripe\n", to);
  if (stripe == plan->stripes || band == wafer_machine_bands(machine))
    m.x = m.y = UINT32_MAX; /* where no kernel is */
  if (machine->repair) {
    wafer_core_at made = wafer_machine_made_at(whole, x, y);
    fprintf(to, "dead cores are bypassed: on the fabric as it was made this is core %u,%u\n",
            made.x, made.y);
  }
  for (uint32_t k = 0; k < plan->function_count; k++)
    for (uint32_t i = 0; i < plan->functions[k].step_count; i++) {
      const wafer_step *s = &plan->functions[k].steps[i];
      if (s->kind == WAFER_STEP_load) load(&m, &plan->phases[s->phase]);
      if (s->kind == WAFER_STEP_phase) print_phase(&m, s->phase);
    }
  fprintf(to, "\nat most %llu of %u bytes\n", (ull)m.most, machine->core_bytes);
  free(m.at);
  if (m.failed)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "the host is out of memory");
  return WAFER_OK;
}
