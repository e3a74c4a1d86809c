#include "wafer/diag.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 4096
#define PLACE_BYTES 1024

/* Names come from untrusted files: a message stays one line and cannot steer a terminal. */
static void make_printable(char *text) {
  for (unsigned char *at = (unsigned char *)text; *at; at++)
    if (*at < 0x20 || *at == 0x7f) *at = '?';
}

/* Marks that the end of a message did not fit into its buffer. */
static void mark_cut(char *buffer, size_t bytes, int wanted) {
  if (wanted < 0) buffer[0] = '\0';
  if (wanted >= 0 && (size_t)wanted >= bytes && bytes > 4) memcpy(buffer + bytes - 4, "...", 4);
}

__attribute__((format(printf, 5, 0))) static void report(const wafer_diag *diag,
                                                         wafer_severity severity,
                                                         wafer_status status, const wafer_loc *loc,
                                                         const char *format, va_list arguments) {
  if (!diag || !diag->emit) return;
  char text[TEXT_BYTES];
  mark_cut(text, sizeof text, vsnprintf(text, sizeof text, format, arguments));
  make_printable(text);
  diag->emit(diag->self, severity, status, loc, text);
}

wafer_status wafer_fail(const wafer_diag *diag, wafer_loc loc, wafer_status status,
                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report(diag, WAFER_ERROR, status, &loc, format, arguments);
  va_end(arguments);
  return status;
}

void wafer_warn(const wafer_diag *diag, wafer_loc loc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report(diag, WAFER_WARNING, WAFER_OK, &loc, format, arguments);
  va_end(arguments);
}

void wafer_note(const wafer_diag *diag, wafer_loc loc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report(diag, WAFER_NOTE, WAFER_OK, &loc, format, arguments);
  va_end(arguments);
}

void wafer_progress(const wafer_diag *diag, const char *what, uint64_t done, uint64_t total) {
  if (diag && diag->progress) diag->progress(diag->self, what, done, total);
}

bool wafer_cancelled(const wafer_diag *diag) {
  return diag && diag->cancelled && diag->cancelled(diag->self);
}

void wafer_diag_to_file(void *self, wafer_severity severity, wafer_status status,
                        const wafer_loc *loc, const char *text) {
  static const char *const words[] = {
      [WAFER_ERROR] = "error", [WAFER_WARNING] = "warning", [WAFER_NOTE] = "note"};
  (void)status;
  char place[PLACE_BYTES];
  wafer_loc_format(loc, place, sizeof place);
  fprintf(self, "%s%s%s: %s\n", place, place[0] ? ": " : "", words[severity], text);
}

/* Text that grows in a fixed buffer; what does not fit is dropped. */
typedef struct writer {
  char *buffer;
  size_t bytes, used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *to, const char *format, ...) {
  if (to->used + 1 >= to->bytes) return;
  va_list arguments;
  va_start(arguments, format);
  int wanted = vsnprintf(to->buffer + to->used, to->bytes - to->used, format, arguments);
  va_end(arguments);
  mark_cut(to->buffer + to->used, to->bytes - to->used, wanted);
  to->used += strlen(to->buffer + to->used);
}

static void put_node(writer *to, const wafer_loc *loc) {
  put(to, "node '%s'", loc->name ? loc->name : "");
  if (loc->index >= 0) put(to, " (#%" PRId64 ")", loc->index);
}

static void put_kernel(writer *to, const wafer_loc *loc) {
  put(to, "kernel '%s'", loc->name ? loc->name : "");
  if (loc->node && loc->node[0]) put(to, " (node '%s')", loc->node);
}

static void put_line(writer *to, const wafer_loc *loc) {
  put(to, "%s%" PRIu32, loc->file ? ":" : "line ", loc->line);
  if (loc->column) put(to, ":%" PRIu32, loc->column);
}

void wafer_loc_format(const wafer_loc *loc, char *buffer, uint64_t bytes) {
  if (bytes == 0) return;
  buffer[0] = '\0';
  if (!loc) return;
  writer to = {buffer, (size_t)bytes, 0};
  if (loc->file) put(&to, "%s", loc->file);
  if (loc->kind == WAFER_AT_LINE && loc->line) put_line(&to, loc);
  bool named = loc->kind == WAFER_AT_NODE || loc->kind == WAFER_AT_KERNEL;
  if (loc->file && (named || loc->kind == WAFER_AT_CORE)) put(&to, ": ");
  if (loc->kind == WAFER_AT_NODE) put_node(&to, loc);
  if (loc->kind == WAFER_AT_KERNEL) put_kernel(&to, loc);
  if (loc->kind == WAFER_AT_CORE) {
    put(&to, "core (%" PRIu32 ",%" PRIu32 ") cycle %" PRIu64, loc->x, loc->y, loc->cycle);
    if (loc->name) put(&to, ": "), put_kernel(&to, loc);
  }
  make_printable(buffer);
}
