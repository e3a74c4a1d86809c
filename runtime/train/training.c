/* Words of training options. */
#include <string.h>

#include "wafer/wafer.h"

static const char *const spellings[] = {
#define X(name, spelling, summary) spelling,
    WAFER_LOSS_MAP(X)
#undef X
};

const char *wafer_loss_name(wafer_loss loss) {
  return loss < WAFER_LOSS_COUNT ? spellings[loss] : "none";
}

wafer_loss wafer_loss_by_name(const char *spelling) {
  for (uint32_t i = 0; i < WAFER_LOSS_COUNT; i++)
    if (!strcmp(spelling, spellings[i])) return (wafer_loss)i;
  return WAFER_LOSS_COUNT;
}
