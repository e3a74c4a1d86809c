/* The JSON of a trace: an event a line. Processes are kernels, streams, weights and sampled cores;
 * threads are the tracks in them. Times are microseconds of the machine's clock, args have cycles.
 */
#include "run_trace.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/file.h"

enum { KERNELS = 1, STREAMS, WEIGHTS, CORES, PROCESSES };
#define TAIL_BYTES 512 /* kept for the end of the file */

struct run_trace {
  const wafer_diag *diag;
  const wafer_plan *plan;
  char *path, *text;
  size_t used, room;
  uint64_t most, left_out;
  bool no_memory, begun;  /* begun: there is an event */
  bool *named[PROCESSES]; /* tracks that have their name */
  size_t tracks[PROCESSES];
};

/* ---- text ---- */

static bool has_room(run_trace *t, size_t bytes) {
  if (t->used + bytes + TAIL_BYTES > t->most) return false;
  if (t->used + bytes <= t->room) return true;
  size_t room = 2 * (t->used + bytes);
  char *text = realloc(t->text, room);
  if (!text) t->no_memory = true;
  if (!text) return false;
  t->text = text;
  t->room = room;
  return true;
}

static bool put(run_trace *t, const char *text) {
  size_t bytes = strlen(text);
  if (!has_room(t, bytes)) return false;
  memcpy(t->text + t->used, text, bytes);
  t->used += bytes;
  return true;
}

/* One event; false: it does not fit. */
static bool put_event(run_trace *t, cJSON *event) {
  char *text = event ? cJSON_PrintUnformatted(event) : NULL;
  size_t before = t->used;
  bool fits = text && has_room(t, strlen(text) + 2) && put(t, t->begun ? ",\n" : "\n");
  fits = fits && put(t, text);
  t->begun = t->begun || fits;
  if (!text) t->no_memory = true;
  if (!fits) t->used = before;
  cJSON_free(text);
  cJSON_Delete(event);
  return fits;
}

static cJSON *event_of(const char *phase, const char *name, int process, size_t track) {
  cJSON *e = cJSON_CreateObject();
  cJSON_AddStringToObject(e, "ph", phase);
  cJSON_AddStringToObject(e, "name", name);
  cJSON_AddNumberToObject(e, "pid", process);
  cJSON_AddNumberToObject(e, "tid", (double)track + 1);
  return e;
}

static bool put_name(run_trace *t, const char *what, const char *name, int process, size_t track) {
  cJSON *e = event_of("M", what, process, track);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(e, "args"), "name", name);
  return put_event(t, e);
}

/* ---- spans ---- */

static int process_of(const wafer_span *span) {
  if (span->of_core) return CORES;
  if (span->kind == WAFER_SPAN_kernel) return KERNELS;
  return span->kind == WAFER_SPAN_load ? WEIGHTS : STREAMS;
}

/* Weights arrive at a core while it works: they have a track of their own. */
static size_t track_of(const run_trace *t, const wafer_span *span) {
  size_t core = (size_t)span->y * wafer_machine_whole(t->plan->machine)->width + span->x;
  if (span->of_core) return 2 * core + (span->kind == WAFER_SPAN_load);
  return span->kind == WAFER_SPAN_load ? 0 : span->index;
}

static const char *kernel_name(const run_trace *t, uint32_t kernel, const char *none) {
  return kernel < t->plan->kernel_count ? t->plan->kernels[kernel].name : none;
}

/* "k3 name", "s5 value", "weights of k3 name". */
static void format_span(const run_trace *t, const wafer_span *span, char *out, size_t bytes) {
  if (span->kind == WAFER_SPAN_kernel) {
    snprintf(out, bytes, "k%u %s", span->index, kernel_name(t, span->index, ""));
    return;
  }
  const wafer_stream *stream = &t->plan->streams[span->index];
  if (span->kind == WAFER_SPAN_load)
    snprintf(out, bytes, "weights of %s", kernel_name(t, stream->to_kernel, "the wafer"));
  else
    snprintf(out, bytes, "s%u %s", span->index, t->plan->values[stream->value].name);
}

static bool name_track(run_trace *t, const wafer_span *span, const char *name) {
  int process = process_of(span);
  size_t track = track_of(t, span);
  char core[64];
  if (track >= t->tracks[process] || t->named[process][track]) return true;
  snprintf(core, sizeof core, "core %u,%u%s", span->x, span->y,
           span->kind == WAFER_SPAN_load ? ", weights" : "");
  if (process == CORES) name = core;
  if (process == WEIGHTS) name = "weights";
  return t->named[process][track] = put_name(t, "thread_name", name, process, track);
}

void run_trace_span(void *self, const wafer_span *span) {
  run_trace *t = self;
  char name[256];
  double us = 1e6 / (double)t->plan->machine->clock_hz;
  format_span(t, span, name, sizeof name);
  cJSON *e = event_of("X", name, process_of(span), track_of(t, span));
  cJSON_AddNumberToObject(e, "ts", (double)span->start * us);
  cJSON_AddNumberToObject(e, "dur", (double)span->cycles * us);
  cJSON *args = cJSON_AddObjectToObject(e, "args");
  cJSON_AddNumberToObject(args, "cycle", (double)span->start);
  cJSON_AddNumberToObject(args, "cycles", (double)span->cycles);
  cJSON_AddNumberToObject(args, "sample", (double)span->sample);
  if (t->left_out || !name_track(t, span, name)) { /* nothing after the first gap */
    cJSON_Delete(e);
    t->left_out++;
  } else if (!put_event(t, e)) {
    t->left_out++;
  }
}

/* ---- the file ---- */

static void destroy(run_trace *t) {
  for (int p = 0; t && p < PROCESSES; p++) free(t->named[p]);
  if (t) free(t->path);
  if (t) free(t->text);
  free(t);
}

static bool begin(run_trace *t) {
  static const char *const names[] = {
      [KERNELS] = "kernels", [STREAMS] = "streams", [WEIGHTS] = "weights", [CORES] = "cores"};
  bool fits = put(t, "{\"traceEvents\":[");
  for (int p = KERNELS; p < PROCESSES; p++)
    fits = fits && put_name(t, "process_name", names[p], p, 0);
  return fits;
}

wafer_status run_trace_open(const wafer_diag *diag, const wafer_plan *plan, const char *path,
                            uint64_t most_bytes, run_trace **out) {
  run_trace *t = calloc(1, sizeof *t);
  bool made = t != NULL;
  if (made) {
    *t = (run_trace){.diag = diag, .plan = plan, .path = strdup(path), .most = most_bytes};
    t->tracks[KERNELS] = plan->kernel_count;
    t->tracks[STREAMS] = plan->stream_count;
    t->tracks[WEIGHTS] = 1;
    const wafer_machine *wafer = wafer_machine_whole(plan->machine);
    t->tracks[CORES] = 2 * (size_t)wafer->width * wafer->height;
    made = t->path != NULL;
  }
  for (int p = KERNELS; made && p < PROCESSES; p++)
    made = (t->named[p] = calloc(t->tracks[p] + 1, sizeof(bool))) != NULL;
  if (made && begin(t)) return *out = t, WAFER_OK;
  destroy(t);
  return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory for a trace");
}

static wafer_status save(run_trace *t) {
  char tail[TAIL_BYTES];
  int bytes =
      snprintf(tail, sizeof tail,
               "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock_hz\":%llu,"
               "\"spans_left_out\":%llu}}\n",
               (unsigned long long)t->plan->machine->clock_hz, (unsigned long long)t->left_out);
  t->most = UINT64_MAX - TAIL_BYTES;
  if (t->no_memory || !put(t, tail) || bytes < 0)
    return wafer_fail(t->diag, wafer_at_file(t->path), WAFER_NO_MEMORY, "no memory for the trace");
  if (t->left_out)
    wafer_warn(t->diag, wafer_at_file(t->path),
               "%llu spans did not fit and were left out; --trace-bytes allows more",
               (unsigned long long)t->left_out);
  return wafer_file_save(t->diag, t->path, t->text, t->used);
}

wafer_status run_trace_close(run_trace *t, bool keep) {
  if (!t) return WAFER_OK;
  wafer_status status = keep ? save(t) : WAFER_OK;
  destroy(t);
  return status;
}
