/* Outcome codes. Each is also the exit code of every `wafer` command (0 to 9), so the list is
 * stable: a code says what the caller can do differently, the diagnostic's text says what happened.
 */
#ifndef WAFER_STATUS_H
#define WAFER_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_STATUS_MAP(X)                                                                        \
  X(OK, 0, "ok")                                                                                   \
  X(USAGE, 1, "the command or call was used wrongly")                                              \
  X(BAD_INPUT, 2, "the input is malformed")                                                        \
  X(UNSUPPORTED, 3, "the input is valid, this compiler is not")                                    \
  X(NO_FIT, 4, "the model does not fit on this wafer")                                             \
  X(TRAP, 5, "the emulated program did something wrong")                                           \
  X(DIFFER, 6, "the results differ")                                                               \
  X(IO, 7, "a file could not be read or written")                                                  \
  X(NO_MEMORY, 8, "the host is out of memory")                                                     \
  X(INTERNAL, 9, "internal or cluster failure")

typedef enum wafer_status {
#define X(name, code, text) WAFER_##name = code,
  WAFER_STATUS_MAP(X)
#undef X
} wafer_status;

/* The fixed sentence of a status; never NULL. */
const char *wafer_status_text(wafer_status status);

#define WAFER_MUST_USE __attribute__((warn_unused_result))

/* Returns the failure of `expr` to the caller; the only control-flow macro of the project. */
#define WAFER_TRY(expr)                                                                            \
  do {                                                                                             \
    wafer_status try_status = (expr);                                                              \
    if (try_status != WAFER_OK) return try_status;                                                 \
  } while (0)

#define WAFER_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __cplusplus
}
#endif
#endif
