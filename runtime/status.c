#include "wafer/status.h"

const char *wafer_status_text(wafer_status status) {
  switch (status) {
#define X(name, code, text)                                                                        \
  case WAFER_##name: return text;
    WAFER_STATUS_MAP(X)
#undef X
  }
  return "unknown status";
}
