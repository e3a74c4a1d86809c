/* A kernel on the wafer: plan values for its inputs and outputs, its split, its rectangle, what it
 * costs. */
#include "plan_check.h"

#include <string.h>

static wafer_status check_value(const plan_check *c, const wafer_kernel *k, const char *what,
                                uint32_t i, uint32_t value, const wafer_type *type, bool weight) {
  wafer_loc loc = plan_check_at(c, k);
  if (value >= c->plan->value_count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s %u is value %u, the plan has %u", what, i,
                      value, c->plan->value_count);
  const wafer_value *v = &c->plan->values[value];
  if (!wafer_type_equal(type, &v->type))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s %u is of another type than value '%s'",
                      what, i, v->name);
  if (weight != (v->weight != WAFER_NONE))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s %u, value '%s', is %sa weight of the plan",
                      what, i, v->name, weight ? "not " : "");
  return WAFER_OK;
}

/* What the kernel counts on is what the weight has, of no more elements than there are; its fullest
 * tile has no more than fit, and no more than all. */
static wafer_status check_sparsity(const plan_check *c, const wafer_kernel *k, uint32_t i) {
  static const wafer_sparsity dense = {0};
  const wafer_sparsity *is = k->body.sparsity ? &k->body.sparsity[i] : &dense;
  uint32_t index = c->plan->values[k->inputs[i]].weight;
  const wafer_weight *w = index == WAFER_NONE ? NULL : wafer_weights_at(c->plan->weights, index);
  bool sparse = w && w->sparse;
  if (is->sparse != sparse || (sparse && is->nonzeros != w->nonzeros))
    return wafer_fail(
        c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
        "input %u counts on %" PRIu64 " elements that are not zero, weight '%s' has %" PRIu64, i,
        is->nonzeros, c->plan->values[k->inputs[i]].name, sparse ? w->nonzeros : 0);
  int64_t elements = 0;
  (void)wafer_shape_elements(&k->body.inputs[i].shape, &elements);
  if (sparse && is->nonzeros > (uint64_t)elements)
    return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                      "weight '%s' has %" PRIu64 " elements that are not zero, of %" PRId64,
                      w->name, is->nonzeros, elements);
  if (is->order && !wafer_kernel_may_deal(&k->body, i))
    return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                      "weight '%s' is dealt, which what the kernel does with it does not allow: "
                      "compile the model again",
                      c->plan->values[k->inputs[i]].name);
  if (!sparse || !is->fullest) return WAFER_OK;
  wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
  uint64_t tile = wafer_layout_tile(&layout, &k->body.inputs[i].shape);
  bool filled = !is->filled || (is->fullest <= is->filled && is->filled <= tile);
  if (filled && is->fullest <= tile && is->fullest <= is->nonzeros) return WAFER_OK;
  return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                    "input %u has %" PRIu64 " elements that are not zero in a tile of %" PRIu64
                    ", and %" PRIu64 " in all",
                    i, is->fullest, tile, is->nonzeros);
}

static wafer_status check_values(const plan_check *c, const wafer_kernel *k) {
  const wafer_kernel_body *b = &k->body;
  for (uint32_t i = 0; i < b->input_count; i++)
    WAFER_TRY(check_value(c, k, "input", i, k->inputs[i], &b->inputs[i], b->input_is_weight[i]));
  for (uint32_t i = 0; i < b->output_count; i++)
    WAFER_TRY(
        check_value(c, k, "output", i, k->outputs[i], wafer_body_type(b, b->outputs[i]), false));
  return WAFER_OK;
}

static wafer_status check_split(const plan_check *c, const wafer_kernel *k) {
  wafer_loc loc = plan_check_at(c, k);
  wafer_loops loops;
  wafer_kernel_loops(&k->body, &loops);
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    uint64_t parts = (uint64_t)k->split.rows[i] * k->split.cols[i];
    if (parts < 1)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "loop %u is cut into 0 parts, must be at least 1", i);
    if (parts == 1) continue;
    if (i >= loops.count || !loops.divisible[i])
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "loop %u is cut into %" PRIu64 " parts and cannot be cut", i, parts);
    if (parts > (uint64_t)loops.extent[i])
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "loop %u is cut into %" PRIu64 " parts, its extent is %" PRId64, i, parts,
                        loops.extent[i]);
  }
  uint32_t width = wafer_split_width(&k->split), height = wafer_split_height(&k->split);
  if (width != k->rect.width || height != k->rect.height)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "is split over %ux%u cores, its rectangle has %ux%u", width, height,
                      k->rect.width, k->rect.height);
  return WAFER_OK;
}

static wafer_status check_rect(const plan_check *c, const wafer_kernel *k) {
  const wafer_machine *m = c->plan->machine;
  wafer_loc loc = plan_check_at(c, k);
  wafer_rect all = k->rect;
  if (k->replicas < 1 || k->replicas > m->width)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%u replicas, must be 1 to %u", k->replicas,
                      m->width);
  if ((uint64_t)all.width * k->replicas <= UINT32_MAX) all.width *= k->replicas;
  if (!plan_check_inside(m->usable, all) || all.width / k->replicas != k->rect.width)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "%u times %ux%u cores at (%u, %u), the usable ones are %ux%u at (%u, %u)",
                      k->replicas, k->rect.width, k->rect.height, k->rect.x, k->rect.y,
                      m->usable.width, m->usable.height, m->usable.x, m->usable.y);
  if (plan_check_dead_in(c, all) > 0)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "kernel '%s', %ux%u cores at (%u, %u), lies on %u dead cores", k->name,
                      all.width, all.height, all.x, all.y, plan_check_dead_in(c, all));
  for (uint32_t i = 0; i < m->reserved_count; i++)
    if (wafer_rect_overlaps(all, m->reserved[i]))
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "kernel '%s', %ux%u cores at (%u, %u), lies on the reserved %ux%u at "
                        "(%u, %u)",
                        k->name, all.width, all.height, all.x, all.y, m->reserved[i].width,
                        m->reserved[i].height, m->reserved[i].x, m->reserved[i].y);
  return WAFER_OK;
}

static bool same_cost(const wafer_cost *a, const wafer_cost *b) {
  return a->cycles == b->cycles && a->compute_cycles == b->compute_cycles &&
         a->fabric_cycles == b->fabric_cycles && a->operations == b->operations &&
         a->code_bytes == b->code_bytes && a->weight_bytes == b->weight_bytes &&
         a->input_bytes == b->input_bytes && a->output_bytes == b->output_bytes &&
         a->scratch_bytes == b->scratch_bytes;
}

/* Saturating: a hostile body may ask for more than 2^64 bytes. */
static uint64_t bytes_of(const wafer_cost *cost) {
  const uint64_t parts[] = {cost->code_bytes, cost->weight_bytes, cost->input_bytes,
                            cost->output_bytes, cost->scratch_bytes};
  uint64_t sum = 0;
  for (size_t i = 0; i < WAFER_COUNT(parts); i++)
    sum = sum > UINT64_MAX - parts[i] ? UINT64_MAX : sum + parts[i];
  return sum;
}

static wafer_status check_cost(const plan_check *c, const wafer_kernel *k) {
  wafer_loc loc = plan_check_at(c, k);
  uint64_t budget = wafer_machine_core_budget(c->plan->machine), sum = 0;
  wafer_cost cost;
  wafer_kernel_cost(c->plan->machine, &k->body, &k->split, &cost);
  if (bytes_of(&cost) > budget)
    return wafer_fail(c->diag, loc, WAFER_NO_FIT,
                      "kernel '%s' of node '%s' needs %" PRIu64 " bytes per core, %" PRIu64
                      " are allowed: code %" PRIu64 ", weights %" PRIu64 ", inputs %" PRIu64
                      ", outputs %" PRIu64 ", scratch %" PRIu64,
                      k->name, plan_check_node(k) ? plan_check_node(k) : "", bytes_of(&cost),
                      budget, cost.code_bytes, cost.weight_bytes, cost.input_bytes,
                      cost.output_bytes, cost.scratch_bytes);
  if (!same_cost(&cost, &k->cost))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "cost of kernel '%s' does not match: %" PRIu64 " cycles and %" PRIu64
                      " bytes, must be %" PRIu64 " and %" PRIu64,
                      k->name, k->cost.cycles, bytes_of(&k->cost), cost.cycles, bytes_of(&cost));
  for (uint32_t i = 0; i < k->memory_count; i++)
    sum = sum > UINT64_MAX - k->memory[i].bytes ? UINT64_MAX : sum + k->memory[i].bytes;
  if (sum != bytes_of(&cost))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "memory map of kernel '%s' adds up to %" PRIu64 " bytes, must be %" PRIu64,
                      k->name, sum, bytes_of(&cost));
  return WAFER_OK;
}

/* In streaming all samples of a stripe are resident: a kernel's results lie where it made them. */
static wafer_status check_depths(const plan_check *c, const wafer_kernel *k) {
  uint32_t resident = wafer_plan_resident(c->plan);
  if (k->body.output_depth >= resident || k->body.output_depth == 0) return WAFER_OK;
  return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                    "kernel '%s' has room for %u samples of its results, %u are resident together",
                    k->name, k->body.output_depth, resident);
}

wafer_status plan_check_kernel(const plan_check *c, const wafer_kernel *k) {
  WAFER_TRY(check_values(c, k));
  WAFER_TRY(check_split(c, k));
  WAFER_TRY(check_rect(c, k));
  for (uint32_t i = 0; i < k->body.input_count; i++) WAFER_TRY(check_sparsity(c, k, i));
  if (k->slabs < 1 || k->slabs > 64)
    return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT, "%u slabs, must be 1 to 64",
                      k->slabs);
  if ((uint32_t)k->bound > WAFER_BOUND_edge)
    return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT, "is bound by nothing known");
  WAFER_TRY(check_depths(c, k));
  return check_cost(c, k);
}
