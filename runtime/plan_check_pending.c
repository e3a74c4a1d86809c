/* Goes when runtime/plan_check.c arrives. */
#include "wafer/plan.h"

wafer_status wafer_plan_check(const wafer_diag *diag, const char *file, const wafer_plan *plan) {
  (void)diag, (void)file, (void)plan;
  return WAFER_OK;
}
