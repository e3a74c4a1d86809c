/* Diagnostics: one sink, every message with a place. Message law: lower case, no full stop,
 * expected then found, numbers with units, then what to do.
 *
 * A failing function reports once, where it happened, with `return wafer_fail(...)`; everything
 * above passes the status on with WAFER_TRY and prints nothing. */
#ifndef WAFER_DIAG_H
#define WAFER_DIAG_H

#include <stdbool.h>
#include <stdint.h>

#include "wafer/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_severity { WAFER_ERROR, WAFER_WARNING, WAFER_NOTE } wafer_severity;

typedef enum wafer_place_kind {
  WAFER_AT_NOWHERE, /* file may still be set */
  WAFER_AT_NODE,    /* an ONNX node: file, name, index (-1: unknown) */
  WAFER_AT_LINE,    /* a text file: file, line, column (0: unknown) */
  WAFER_AT_KERNEL,  /* a kernel of a plan: file, name; node names the ONNX node it comes from */
  WAFER_AT_CORE,    /* a core at a cycle: x, y, cycle; name is the kernel */
} wafer_place_kind;

/* Where a message points. Strings are borrowed for the duration of the call. */
typedef struct wafer_loc {
  wafer_place_kind kind;
  const char *file;
  const char *name; /* ONNX node or kernel */
  const char *node; /* ONNX node behind a kernel, or NULL */
  int64_t index;
  uint32_t line, column;
  uint32_t x, y;
  uint64_t cycle;
} wafer_loc;

static inline wafer_loc wafer_at_file(const char *file) {
  return (wafer_loc){.kind = WAFER_AT_NOWHERE, .file = file};
}
static inline wafer_loc wafer_at_node(const char *file, const char *name, int64_t index) {
  return (wafer_loc){.kind = WAFER_AT_NODE, .file = file, .name = name, .index = index};
}
static inline wafer_loc wafer_at_line(const char *file, uint32_t line, uint32_t column) {
  return (wafer_loc){.kind = WAFER_AT_LINE, .file = file, .line = line, .column = column};
}
static inline wafer_loc wafer_at_kernel(const char *file, const char *kernel, const char *node) {
  return (wafer_loc){.kind = WAFER_AT_KERNEL, .file = file, .name = kernel, .node = node};
}

/* The sink. Every member may be NULL; a NULL wafer_diag * is a sink that drops everything.
 * `emit` gets one finished line without severity or place; `progress` gets done <= total (total 0:
 * unknown); `cancelled` is polled by long work, which then stops with WAFER_USAGE. */
typedef struct wafer_diag {
  void (*emit)(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
               const char *text);
  void (*progress)(void *self, const char *what, uint64_t done, uint64_t total);
  bool (*cancelled)(void *self);
  void *self;
} wafer_diag;

/* Reports an error and returns `status`. */
wafer_status wafer_fail(const wafer_diag *diag, wafer_loc loc, wafer_status status,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
void wafer_warn(const wafer_diag *diag, wafer_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wafer_note(const wafer_diag *diag, wafer_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wafer_progress(const wafer_diag *diag, const char *what, uint64_t done, uint64_t total);
bool wafer_cancelled(const wafer_diag *diag);

/* Writes `place: severity: text` as one line to a FILE *; what the command line tools use. `self`
 * of the sink is that FILE *. */
void wafer_diag_to_file(void *self, wafer_severity severity, wafer_status status,
                        const wafer_loc *loc, const char *text);

/* Formats a place ("model.onnx: node 'conv1' (#17)") into `buffer`; empty when it points nowhere.
 */
void wafer_loc_format(const wafer_loc *loc, char *buffer, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
