/* What a run says of itself while it goes on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train.h"
#include "wafer/file.h"

typedef unsigned long long ull;

bool train_curve_add(train_curve *curve, uint64_t step, double value) {
  if (curve->count == curve->room) {
    size_t room = curve->room ? curve->room * 2 : 256;
    train_point *more = realloc(curve->points, room * sizeof *more);
    if (!more) return false;
    curve->points = more;
    curve->room = room;
  }
  curve->points[curve->count++] = (train_point){step, value};
  return true;
}

/* ---- the metrics file ---- */

/* Number after "NAME": in a line of ours. */
static bool member(const char *line, const char *end, const char *name, double *out) {
  size_t length = strlen(name);
  for (const char *at = line; at + length + 3 < end; at++)
    if (*at == '"' && !strncmp(at + 1, name, length) && at[length + 1] == '"' &&
        at[length + 2] == ':')
      return *out = strtod(at + length + 3, NULL), true;
  return false;
}

/* Lines of steps that the run will not do again; their points are part of the plot. */
static size_t keep_lines(train_log *log, char *text, size_t bytes, uint64_t done) {
  size_t kept = 0;
  for (char *line = text, *next; line < text + bytes; line = next) {
    char *end = memchr(line, '\n', (size_t)(text + bytes - line));
    double step, value;
    if (!end) break; /* cut off when the run was killed */
    next = end + 1;
    if (!member(line, end, "step", &step) || step > (double)done) continue;
    if (member(line, end, "loss", &value)) train_curve_add(&log->losses, (uint64_t)step, value);
    if (member(line, end, "eval_loss", &value))
      train_curve_add(&log->scores, (uint64_t)step, value);
    memmove(text + kept, line, (size_t)(next - line));
    kept += (size_t)(next - line);
  }
  return kept;
}

static wafer_status rewrite(train_log *log, const char *path, uint64_t done) {
  wafer_bytes old = {"", 0};
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  wafer_status status = WAFER_OK;
  FILE *there = done ? fopen(path, "r") : NULL;
  if (there) fclose(there), status = wafer_file_map(cli_diag(), arena, path, &old);
  char *text = wafer_arena_alloc(arena, old.size + 1, 1);
  if (!text) status = cli_no_memory();
  if (status == WAFER_OK) {
    memcpy(text, old.data, old.size);
    status = wafer_file_save(cli_diag(), path, text, keep_lines(log, text, old.size, done));
  }
  wafer_arena_destroy(arena);
  return status;
}

static wafer_status written(const train_log *log) {
  if (!log->metrics || (fflush(log->metrics) == 0 && !ferror(log->metrics))) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(log->a->metrics), WAFER_IO, "cannot write: %m");
}

/* JSON has no infinities. */
static void put_number(FILE *to, const char *name, double value) {
  if (isfinite(value))
    fprintf(to, ",\"%s\":%.9g", name, value);
  else
    fprintf(to, ",\"%s\":null", name);
}

/* ---- the run ---- */

/* The plot is drawn at the end; a folder that will not take it is said before the first step. */
static wafer_status check_plot(const char *path) {
  if (!path) return WAFER_OK;
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  if (!folder) return cli_no_memory();
  bool writable = access(folder, W_OK | X_OK) == 0;
  free(folder);
  if (writable) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_IO, "cannot write: %m");
}

static wafer_status begin(void *self, uint64_t done) {
  train_log *log = self;
  log->started = cli_seconds();
  log->first_step = done;
  bool trains = log->a->mode != EVALUATE;
  if (done && trains && !log->a->quiet)
    printf("resumed after step %llu%s\n", (ull)done,
           done < log->a->train.steps ? "" : ": no step is left of those asked for");
  WAFER_TRY(check_plot(log->a->plot));
  if (!log->a->metrics) return WAFER_OK;
  if (trains) WAFER_TRY(rewrite(log, log->a->metrics, done));
  log->metrics = fopen(log->a->metrics, "a");
  if (log->metrics) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(log->a->metrics), WAFER_IO, "cannot write: %m");
}

static double rate(const train_log *log, uint64_t step) {
  double seconds = cli_seconds() - log->started;
  return (double)((step - log->first_step) * log->a->train.batch) / (seconds > 0 ? seconds : 1);
}

static double emulated_rate(const train_log *log) {
  uint64_t steps = log->last.step - log->first_step;
  double cycles =
      steps && log->counted ? (double)log->counted / (double)steps : (double)log->step_cycles;
  return (double)log->a->train.batch * log->clock_hz / cycles;
}

/* | Train Device=wse2 x4, Step=50, Loss=8.85, Rate=... */
static void describe(const train_log *log, char *to, size_t bytes) {
  snprintf(to, bytes,
           "| Train Device=%s x%llu, Step=%llu/%llu, Loss=%.5f, Rate=%.4g samples/sec emulated, "
           "%.4g here",
           log->machine, (ull)log->a->systems, (ull)log->last.step, (ull)log->a->train.steps,
           log->last.loss, emulated_rate(log), rate(log, log->last.step));
}

static wafer_status step(void *self, const wafer_train_step *now) {
  train_log *log = self;
  char line[256];
  log->last = *now;
  log->counted += now->time.step;
  describe(log, line, sizeof line);
  wafer_progress(cli_diag(), line, now->step, log->a->train.steps);
  if (now->skipped)
    wafer_note(cli_diag(), (wafer_loc){0},
               "step %llu changed nothing: gradients overflow at a loss scale of %g",
               (ull)now->step, now->loss_scale);
  if (!train_curve_add(&log->losses, now->step, now->loss)) return cli_no_memory();
  if (!log->metrics) return WAFER_OK;
  fprintf(log->metrics, "{\"step\":%llu", (ull)now->step);
  put_number(log->metrics, "loss", now->loss);
  put_number(log->metrics, "lr", now->lr);
  put_number(log->metrics, "gradient_norm", now->norm);
  put_number(log->metrics, "loss_scale", now->loss_scale);
  put_number(log->metrics, "samples_per_second", rate(log, now->step));
  put_number(log->metrics, "emulated_samples_per_second", emulated_rate(log));
  if (now->time.step)
    fprintf(log->metrics,
            ",\"cycles\":%llu,\"cycles_systems\":%llu,\"cycles_sum\":%llu,"
            "\"cycles_update\":%llu",
            (ull)now->time.step, (ull)now->time.system, (ull)now->time.sum, (ull)now->time.update);
  fputs("}\n", log->metrics);
  return written(log);
}

static wafer_status score(void *self, const wafer_train_score *now) {
  train_log *log = self;
  cli_progress_done();
  if (!log->a->quiet) {
    printf("| Eval Device=%s x%llu, Step=%llu, Loss=%.5f", log->machine, (ull)log->a->systems,
           (ull)now->step, now->loss);
    if (!isnan(now->accuracy)) printf(", Accuracy=%.4f", now->accuracy);
    putchar('\n');
    fflush(stdout);
  }
  if (!train_curve_add(&log->scores, now->step, now->loss)) return cli_no_memory();
  if (!log->metrics) return WAFER_OK;
  fprintf(log->metrics, "{\"step\":%llu", (ull)now->step);
  put_number(log->metrics, "eval_loss", now->loss);
  if (!isnan(now->accuracy)) put_number(log->metrics, "eval_accuracy", now->accuracy);
  fputs("}\n", log->metrics);
  return written(log);
}

wafer_train_watch train_watch_of(train_log *log) {
  return (wafer_train_watch){.self = log, .begin = begin, .step = step, .score = score};
}

/* What the run's steps took, beside what was predicted before it. */
static void compare(const train_log *log) {
  const wafer_step_time *t = &log->last.time;
  if (!t->step) return;
  printf(
      "the last step took %llu cycles as counted: systems %llu, sum %llu, update %llu; predicted "
      "%llu, %+.2f %%\n",
      (ull)t->step, (ull)t->system, (ull)t->sum, (ull)t->update, (ull)log->step_cycles,
      100 * ((double)log->step_cycles / (double)t->step - 1));
}

wafer_status train_log_close(train_log *log, wafer_status status) {
  cli_progress_done();
  if (status == WAFER_OK && !log->a->quiet && log->last.step) {
    char line[256];
    describe(log, line, sizeof line);
    puts(line);
    compare(log);
  }
  if (log->metrics && fclose(log->metrics) != 0 && status == WAFER_OK)
    status = wafer_fail(cli_diag(), wafer_at_file(log->a->metrics), WAFER_IO, "cannot write: %m");
  if (status == WAFER_OK && log->a->plot)
    status = train_plot(log->a->plot, log->a->model, &log->losses, &log->scores);
  free(log->losses.points);
  free(log->scores.points);
  return status;
}
