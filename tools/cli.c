#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wafer/file.h"

static struct {
  bool quiet, terminal, shown, known;
  double started, printed;
} state;

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void cli_progress_done(void) {
  if (state.shown && state.terminal) fputs("\r\033[K", stderr);
  state.shown = false;
}

static void emit(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  (void)self;
  cli_progress_done();
  wafer_diag_to_file(stderr, severity, status, loc, text);
}

/* Nothing in the first half second: quick work stays silent. */
static void progress(void *self, const char *what, uint64_t done, uint64_t total) {
  (void)self;
  if (state.quiet) return;
  double now = cli_seconds();
  if (!state.known) {
    state.known = true;
    state.terminal = isatty(STDERR_FILENO) == 1;
    state.started = state.printed = now;
  }
  if (now - state.started < 0.5 || now - state.printed < (state.terminal ? 0.05 : 2.0)) return;
  state.printed = now;
  state.shown = true;
  if (state.terminal) fputs("\r\033[K", stderr);
  if (total)
    fprintf(stderr, "%s: %llu of %llu (%.0f %%)", what, (unsigned long long)done,
            (unsigned long long)total, 100.0 * (double)done / (double)total);
  else
    fprintf(stderr, "%s: %llu", what, (unsigned long long)done);
  if (!state.terminal) fputc('\n', stderr);
  fflush(stderr);
}

const wafer_diag *cli_diag(void) {
  static const wafer_diag diag = {.emit = emit, .progress = progress};
  return &diag;
}

void cli_quiet(void) {
  state.quiet = true;
}

int cli_usage(const char *tool, const char *format, ...) {
  va_list args;
  cli_progress_done();
  fprintf(stderr, "wafer %s: error: ", tool);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "; see `wafer %s --help`\n", tool);
  return WAFER_USAGE;
}

int cli_option(const char *tool, int argc, char **argv, const char *letters,
               const struct option *options) {
  opterr = 0;
  optopt = 0;
  int option = getopt_long(argc, argv, letters, options, NULL);
  if (option != '?') return option;
  const char *given = argv[optind - 1];
  bool is_long = !strncmp(given, "--", 2);
  if (is_long && optopt)
    cli_usage(tool, strchr(given, '=') ? "%.*s takes no value" : "%.*s lacks its value",
              (int)strcspn(given, "="), given);
  else if (is_long)
    cli_usage(tool, "there is no option %s, or more than one that begins so", given);
  else if (strchr(letters, optopt))
    cli_usage(tool, "-%c lacks its value", optopt);
  else
    cli_usage(tool, "there is no option -%c", optopt);
  return option;
}

wafer_status cli_no_memory(void) {
  return wafer_fail(cli_diag(), (wafer_loc){0}, WAFER_NO_MEMORY, "the host is out of memory");
}

bool cli_parse_u64(const char *tool, const char *option, const char *text, uint64_t least,
                   uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno || end == text || *end || text[0] == '-' || value < least || value > most) {
    cli_usage(tool, "%s wants an integer from %llu to %llu, got '%s'", option,
              (unsigned long long)least, (unsigned long long)most, text);
    return false;
  }
  *out = value;
  return true;
}

bool cli_parse_f64(const char *tool, const char *option, const char *text, double *out) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value) || value < 0) {
    cli_usage(tool, "%s wants a number that is not negative, got '%s'", option, text);
    return false;
  }
  *out = value;
  return true;
}

bool cli_parse_pair(const char *tool, const char *option, const char *text, wafer_arena *arena,
                    const char **name, const char **value) {
  const char *cut = strrchr(text, '=');
  if (!cut || cut == text || !cut[1]) {
    cli_usage(tool, "%s wants NAME=VALUE, got '%s'", option, text);
    return false;
  }
  *name = wafer_arena_strndup(arena, text, (size_t)(cut - text));
  *value = wafer_arena_strdup(arena, cut + 1);
  if (*name && *value) return true;
  cli_no_memory();
  return false;
}

bool cli_parse_choice(const char *tool, const char *option, const char *text, const char *values,
                      uint32_t *out) {
  char list[96] = "";
  size_t listed = 0, length;
  *out = 0;
  for (const char *at = values; *at; at += length + strspn(at + length, " "), ++*out) {
    length = strcspn(at, " ");
    if (strlen(text) == length && !memcmp(text, at, length)) return true;
    const char *between = at == values ? "" : at[length] ? ", " : " or ";
    listed +=
        (size_t)snprintf(list + listed, sizeof list - listed, "%s%.*s", between, (int)length, at);
  }
  cli_usage(tool, "%s wants %s, got '%s'", option, list, text);
  return false;
}

bool cli_parse_mode(const char *tool, const char *text, wafer_mode *out) {
  uint32_t at;
  if (!cli_parse_choice(tool, "--mode", text, "auto pipelined streaming", &at)) return false;
  *out = (wafer_mode)at;
  return true;
}

bool cli_parse_fidelity(const char *tool, const char *text, wafer_fidelity *out) {
  uint32_t at;
  if (!cli_parse_choice(tool, "--fidelity", text, "kernel fabric", &at)) return false;
  *out = at ? WAFER_FIDELITY_fabric : WAFER_FIDELITY_kernel;
  return true;
}

bool cli_parse_shape(const char *tool, const char *option, const char *text, wafer_shape *out) {
  *out = (wafer_shape){0};
  if (!strcmp(text, "scalar")) return true;
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    long long dim = strtoll(at, &end, 10);
    if (errno || end == at || dim < 0 || (*end && *end != 'x') || out->rank == WAFER_MAX_RANK) {
      cli_usage(tool, "%s wants a shape such as 1x3x48x320 (at most %d dims), got '%s'", option,
                WAFER_MAX_RANK, text);
      return false;
    }
    out->dims[out->rank++] = dim;
    if (!*end) return true;
    at = end + 1;
  }
}

bool cli_parse_input_shape(const char *tool, const char *text, wafer_arena *arena,
                           wafer_shape_binding *out) {
  const char *value;
  return cli_parse_pair(tool, "--shape", text, arena, &out->input, &value) &&
         cli_parse_shape(tool, "--shape", value, &out->shape);
}

wafer_status cli_check_output(const char *path) {
  struct stat about;
  wafer_file *file;
  bool exists = path && stat(path, &about) == 0;
  bool special = exists && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
  if (!path || special || !strncmp(path, "/dev/", 5)) return WAFER_OK;
  WAFER_TRY(wafer_file_begin(cli_diag(), path, &file));
  wafer_file_abort(file);
  return WAFER_OK;
}

static bool is_same_file(const char *a, const char *b) {
  struct stat first, second;
  if (!strcmp(a, b)) return true;
  return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

wafer_status cli_check_apart(const char *tool, const char *const *files, size_t outputs,
                             size_t count) {
  for (size_t i = 0; i < outputs; i++)
    for (size_t j = i + 1; files[i] && strncmp(files[i], "/dev/", 5) != 0 && j < count; j++)
      if (files[j] && is_same_file(files[i], files[j]))
        return (wafer_status)cli_usage(tool, "'%s' is to be written, and is %s as well", files[i],
                                       j < outputs ? "another output" : "an input");
  return WAFER_OK;
}

wafer_status cli_write_json(const char *path, char *text) {
  if (!text) return cli_no_memory();
  wafer_status status = wafer_file_save(cli_diag(), path, text, strlen(text));
  free(text);
  return status;
}

size_t cli_shared_prefix(const wafer_plan *plan) {
  if (plan->kernel_count < 2) return 0;
  const char *first = plan->kernels[0].name;
  size_t shared = strlen(first);
  for (uint32_t i = 1; i < plan->kernel_count; i++) {
    size_t same = 0;
    while (same < shared && first[same] == plan->kernels[i].name[same]) same++;
    shared = same;
  }
  while (shared && first[shared - 1] != '/') shared--;
  return shared;
}
