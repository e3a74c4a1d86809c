/* A sink for tests: keeps the last message, counts them. */
#ifndef CAUGHT_H
#define CAUGHT_H

#include <stdio.h>
#include <string.h>

#include "wafer/diag.h"

typedef struct caught {
  int count;
  wafer_severity severity;
  wafer_status status;
  char place[1024];
  char text[4096];
} caught;

static inline void caught_emit(void *self, wafer_severity severity, wafer_status status,
                               const wafer_loc *loc, const char *text) {
  caught *last = self;
  last->count++;
  last->severity = severity;
  last->status = status;
  wafer_loc_format(loc, last->place, sizeof last->place);
  snprintf(last->text, sizeof last->text, "%s", text);
}

static inline wafer_diag caught_diag(caught *last) {
  memset(last, 0, sizeof *last);
  return (wafer_diag){.emit = caught_emit, .self = last};
}

#endif
