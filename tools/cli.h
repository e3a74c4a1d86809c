/* What the subcommands of `wafer` share: the sink that prints to stderr, progress, option values.
 */
#ifndef WAFER_CLI_H
#define WAFER_CLI_H

#include <stdio.h>

#include "wafer/wafer.h"

/* One subcommand. Returns the exit code. argv[0] is the subcommand's name. */
int wafer_tool_compile(int argc, char **argv);
int wafer_tool_dump(int argc, char **argv);
int wafer_tool_run(int argc, char **argv);
int wafer_tool_check(int argc, char **argv);
int wafer_tool_machines(int argc, char **argv);
int wafer_tool_conform(int argc, char **argv);
int wafer_tool_place(int argc, char **argv);
int wafer_tool_fabric(int argc, char **argv);
int wafer_tool_zoo(int argc, char **argv);
int wafer_tool_scale(int argc, char **argv);
int wafer_tool_train(int argc, char **argv);
int wafer_tool_export(int argc, char **argv);

/* A sink that writes to stderr: messages as lines; progress as one line rewritten in place on a
 * terminal, as a line every two seconds elsewhere. cli_quiet() silences progress. */
const wafer_diag *cli_diag(void);
void cli_quiet(void);
void cli_progress_done(void); /* clears the progress line */

/* Prints "wafer <tool>: <text>, see wafer <tool> --help" and returns WAFER_USAGE. */
int cli_usage(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next option as getopt_long gives it. '?', after a message that names what is unknown or lacks
 * its value. */
struct option;
int cli_option(const char *tool, int argc, char **argv, const char *letters,
               const struct option *options);
/* Reports that the host is out of memory; returns WAFER_NO_MEMORY. */
wafer_status cli_no_memory(void);

/* Option values; false after printing what is wrong. */
bool cli_parse_u64(const char *tool, const char *option, const char *text, uint64_t least,
                   uint64_t most, uint64_t *out);
bool cli_parse_f64(const char *tool, const char *option, const char *text, double *out);
/* "NAME=VALUE": splits at the last '=' into the arena; false without one. */
bool cli_parse_pair(const char *tool, const char *option, const char *text, wafer_arena *arena,
                    const char **name, const char **value);
/* One of the words of `values`, "auto apart behind": *out is which. */
bool cli_parse_choice(const char *tool, const char *option, const char *text, const char *values,
                      uint32_t *out);
bool cli_parse_mode(const char *tool, const char *text, wafer_mode *out); /* of --mode */
bool cli_parse_fidelity(const char *tool, const char *text, wafer_fidelity *out);
/* "1x3x48x320", or "scalar". */
bool cli_parse_shape(const char *tool, const char *option, const char *text, wafer_shape *out);
/* INPUT=DIMS of --shape, the name in the arena. */
bool cli_parse_input_shape(const char *tool, const char *text, wafer_arena *arena,
                           wafer_shape_binding *out);

/* Names of one model often share a long path: how much of a kernel's name a view may leave out. */
size_t cli_shared_prefix(const wafer_plan *plan);

/* Whether a file could be written there (NULL: none is): said before the work, not after it. Pipes
 * and devices are not touched. */
wafer_status cli_check_output(const char *path);
/* The first `outputs` of so many files (NULL: none) are to be written: USAGE where one is another
 * of them all, which it would overwrite. */
wafer_status cli_check_apart(const char *tool, const char *const *files, size_t outputs,
                             size_t count);
/* Writes malloc'ed JSON text (NULL: out of memory) to a file, atomically, and frees it. */
wafer_status cli_write_json(const char *path, char *text);

/* Monotonic seconds. */
double cli_seconds(void);

#endif
