/* Stripes: every rectangle of a plan stands once in each, at the same place. */
#include "plan_check.h"

wafer_status plan_check_stripes(const plan_check *c) {
  const wafer_plan *plan = c->plan;
  wafer_loc loc = wafer_at_file(c->file);
  bool one = plan->stripes == 1 && plan->stripe_columns == 0;
  if (one) return WAFER_OK;
  if (plan->mode == WAFER_MODE_pipelined || plan->stripes < 2 || plan->stripe_columns < 1)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "%u stripes of %u columns in %s mode, must be 1 of 0, or in streaming more",
                      plan->stripes, plan->stripe_columns, wafer_mode_name(plan->mode));
  if (plan->batch % plan->stripes)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%u samples do not divide by %u stripes",
                      plan->batch, plan->stripes);
  return WAFER_OK;
}

/* The kernel in the last stripe lies on usable cores, and in none on cores that others are to have.
 */
static wafer_status check_kernel(const plan_check *c, const wafer_kernel *k, uint32_t left) {
  const wafer_plan *plan = c->plan;
  const wafer_machine *m = plan->machine;
  uint64_t east = k->rect.x + (uint64_t)(plan->stripes - 1) * plan->stripe_columns;
  wafer_rect r = k->rect;
  r.x = east < UINT32_MAX ? (uint32_t)east : UINT32_MAX;
  if (k->replicas != 1 || r.width > plan->stripe_columns - (k->rect.x - left) ||
      !plan_check_inside(m->usable, r))
    return wafer_fail(
        c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
        "kernel '%s', %u times %ux%u cores at (%u, %u), does not fit into %u stripes of "
        "%u columns from %u on",
        k->name, k->replicas, r.width, r.height, k->rect.x, r.y, plan->stripes,
        plan->stripe_columns, left);
  for (uint32_t b = 0; b < plan->stripes; b++) {
    bool taken = false;
    r.x = k->rect.x + b * plan->stripe_columns;
    for (uint32_t i = 0; i < m->reserved_count; i++)
      taken |= wafer_rect_overlaps(r, m->reserved[i]);
    if (taken || plan_check_dead_in(c, r))
      return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                        "kernel '%s' lies on dead or reserved cores in stripe %u", k->name, b);
  }
  return WAFER_OK;
}

wafer_status plan_check_stripe_columns(const plan_check *c) {
  const wafer_plan *plan = c->plan;
  if (plan->stripes == 1) return WAFER_OK;
  uint32_t left = wafer_plan_first_column(plan);
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    if (kernel->rect.x - left >= plan->stripe_columns)
      return wafer_fail(c->diag, plan_check_at(c, kernel), WAFER_BAD_INPUT,
                        "kernel '%s' begins at column %u, the first stripe has %u from %u on",
                        kernel->name, kernel->rect.x, plan->stripe_columns, left);
    WAFER_TRY(check_kernel(c, kernel, left));
  }
  return WAFER_OK;
}
