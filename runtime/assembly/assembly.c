/* What instructions consist of. */
#include "assembly.h"

const char *assembly_fields(uint8_t op) {
  static const char *const fields[WAFER_CORE_OPS] = {
      [WAFER_CORE_set] = "av",     [WAFER_CORE_plus] = "abcv",  [WAFER_CORE_minus] = "abcv",
      [WAFER_CORE_times] = "abc",  [WAFER_CORE_branch] = "abl", [WAFER_CORE_time] = "a",
      [WAFER_CORE_load] = "abvd",  [WAFER_CORE_bound] = "av",   [WAFER_CORE_delay] = "av",
      [WAFER_CORE_activate] = "t", [WAFER_CORE_block] = "t",    [WAFER_CORE_unblock] = "t",
      [WAFER_CORE_join] = "m",     [WAFER_CORE_mark] = "v",     [WAFER_CORE_end] = "",
  };
  return op < WAFER_CORE_OPS ? fields[op] : "";
}

uint32_t assembly_levels(const wafer_instruction *code) {
  uint32_t levels = WAFER_LEVELS;
  while (levels > 1 && code->shape[WAFER_LEVELS - levels] == 1) levels--;
  return levels;
}
