/* Any bytes as a plan: what opens is checked, and what passes the check runs. */
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  int file = fuzz_file(data, size, path);
  if (file < 0) return 0;
  const wafer_plan *plan;
  if (wafer_plan_open(NULL, path, &plan) == WAFER_OK) {
    wafer_session_options options = {.threads = 1};
    wafer_session *session;
    if (wafer_plan_verify(NULL, plan) == WAFER_OK &&
        wafer_session_create(plan, &options, &session) == WAFER_OK)
      wafer_session_destroy(session);
    wafer_plan_close(plan);
  }
  close(file);
  return 0;
}
