/* What keeps a model from compiling, reported so that one run lists all of it. */
#include <stdarg.h>
#include <stdio.h>

#include "import.h"

static const struct {
  const char *name, *remedy;
} kinds[] = {
#define X(name, remedy) {#name, remedy},
    WAFER_PROBLEM_MAP(X)
#undef X
};

const char *wafer_problem_name(wafer_problem_kind kind) {
  return kinds[kind].name;
}

const char *wafer_problem_remedy(wafer_problem_kind kind) {
  return kinds[kind].remedy;
}

wafer_status import_problem(const wafer_ctx *ctx, wafer_loc loc, wafer_status status,
                            wafer_problem_kind kind, const char *remedy, const char *format, ...) {
  const wafer_options *o = ctx->options;
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (o && o->problem) {
    o->problem(o->problem_self,
               &(wafer_problem){kind, &loc, text, remedy ? remedy : wafer_problem_remedy(kind)});
    return status;
  }
  return wafer_fail(ctx->diag, loc, status, "%s%s%s", text, remedy ? "; " : "",
                    remedy ? remedy : "");
}
