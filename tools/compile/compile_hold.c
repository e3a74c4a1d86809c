/* A sink that holds errors back: what failed need not be told where another way is found. */
#include <stdio.h>

#include "compile.h"

static const char *copy_of(wafer_arena *arena, const char *text) {
  return text ? wafer_arena_strdup(arena, text) : NULL;
}

static void pass_on(const compile_held *h, wafer_severity severity, wafer_status status,
                    const wafer_loc *loc, const char *text) {
  if (h->to && h->to->emit) h->to->emit(h->to->self, severity, status, loc, text);
}

static void emit(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  compile_held *h = self;
  compile_error **end = &h->first;
  compile_error *kept = severity == WAFER_ERROR ? WAFER_NEW(h->arena, compile_error, 1) : NULL;
  const char *copied = kept ? wafer_arena_strdup(h->arena, text) : NULL;
  if (!copied) {
    pass_on(h, severity, status, loc, text);
    return;
  }
  *kept = (compile_error){.status = status, .loc = *loc, .text = copied};
  kept->loc.file = copy_of(h->arena, loc->file);
  kept->loc.name = copy_of(h->arena, loc->name);
  kept->loc.node = copy_of(h->arena, loc->node);
  while (*end) end = &(*end)->next;
  *end = kept;
}

static void progress(void *self, const char *what, uint64_t done, uint64_t total) {
  const compile_held *h = self;
  char text[96];
  if (h->aside) snprintf(text, sizeof text, "%s: %s", h->aside, what);
  wafer_progress(h->to, h->aside ? text : what, done, total);
}

static bool cancelled(void *self) {
  const compile_held *h = self;
  return wafer_cancelled(h->to);
}

wafer_diag compile_hold(compile_held *held) {
  return (wafer_diag){held->aside ? NULL : emit, progress, cancelled, held};
}

void compile_tell(const compile_held *held) {
  for (const compile_error *e = held->first; e; e = e->next)
    pass_on(held, WAFER_ERROR, e->status, &e->loc, e->text);
}
