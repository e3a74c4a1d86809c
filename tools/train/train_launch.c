/* One run over several processes: starting them, starting them again, and what each is told. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train.h"

#define SUPERVISED "WAFER_SUPERVISED" /* set for processes that another `wafer train` started */

bool train_supervises(const train_arguments *a) {
  return (a->processes > 1 || a->restarts) && !getenv(SUPERVISED) && !wafer_ranks_launched() &&
         !a->validate_only && !a->compile_only;
}

/* ---- starting ---- */

/* mpirun, when there is more than one process, then this program with the arguments it was given.
 */
static char **command_of(const train_arguments *a, wafer_arena *arena, int argc, char **argv,
                         bool again) {
  const char *const mpirun[] = {
      "mpirun",    "--quiet", "--oversubscribe",
      "--bind-to", "none",    "-x",
      SUPERVISED,  "-n",      wafer_arena_printf(arena, "%" PRIu64, a->processes)};
  char **made = WAFER_NEW(arena, char *, (size_t)argc + WAFER_COUNT(mpirun) + 5), *self;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  size_t count = 0;
  self = length > 0 ? wafer_arena_strndup(arena, path, (size_t)length) : NULL;
  if (!made || !self || !mpirun[WAFER_COUNT(mpirun) - 1]) return NULL;
  for (size_t i = 0; a->processes > 1 && i < WAFER_COUNT(mpirun); i++)
    made[count++] = (char *)(uintptr_t)mpirun[i];
  if (a->processes > 1 && geteuid() == 0) made[count++] = "--allow-run-as-root";
  made[count++] = self;
  made[count++] = "train";
  for (int i = 1; i < argc; i++) made[count++] = argv[i];
  if (again && !a->train.resume) made[count++] = "--resume";
  return made;
}

/* The exit code of the command; 128 and the signal that ended it; -1: it could not be started. */
static int run_command(char **command) {
  int how;
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* no run goes on without the one who started it */
    if (getppid() == parent && setenv(SUPERVISED, "1", 1) == 0) execvp(command[0], command);
    _exit(127);
  }
  if (child < 0) return -1;
  while (waitpid(child, &how, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

static wafer_status failed(const train_arguments *a, int code) {
  const wafer_loc at = wafer_at_file(a->train.checkpoint);
  if (code == 127 || code < 0)
    return wafer_fail(
        cli_diag(), (wafer_loc){0}, WAFER_UNSUPPORTED,
        a->processes > 1 ? "mpirun cannot be started; install openmpi-bin, or leave out --processes"
                         : "another process cannot be started; leave out --restarts");
  if (!a->train.checkpoint)
    return wafer_fail(cli_diag(), at, WAFER_INTERNAL,
                      "a process of the run ended unexpectedly (code %d), and without --checkpoint "
                      "nothing is kept",
                      code);
  return wafer_fail(cli_diag(), at, WAFER_INTERNAL,
                    "a process of the run ended unexpectedly (code %d); the newest checkpoint here "
                    "is whole: the same command with --resume goes on",
                    code);
}

/* A run that ends with a code of ours said why, and would end so again. */
wafer_status train_supervise(const train_arguments *a, wafer_arena *arena, int argc, char **argv) {
  for (uint64_t attempt = 0;; attempt++) {
    char **command = command_of(a, arena, argc, argv, attempt > 0);
    if (!command) return cli_no_memory();
    int code = run_command(command);
    if (code >= 0 && code < WAFER_INTERNAL) return (wafer_status)code;
    if (attempt == a->restarts || code == 127 || code < 0) return failed(a, code);
    wafer_warn(cli_diag(), wafer_at_file(a->train.checkpoint),
               "a process of the run ended unexpectedly (code %d); restart %" PRIu64 " of %" PRIu64,
               code, attempt + 1, a->restarts);
  }
}

/* ---- a rank ---- */

wafer_status train_join(train_arguments *a, wafer_ranks *out) {
  *out = (wafer_ranks){.count = 1, .local_count = 1};
  if (!wafer_ranks_launched()) return WAFER_OK;
  WAFER_TRY(wafer_ranks_mpi(cli_diag(), out));
  if (!a->threads) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    a->threads = cores > (long)out->local_count ? (uint64_t)cores / out->local_count : 1;
  }
  if (out->rank == 0) return WAFER_OK;
  a->quiet = true;
  a->metrics = a->plot = NULL;
  cli_quiet();
  return WAFER_OK;
}

/* Rank 0 looks at everything first, so that what is wrong is said once. */
wafer_status train_agree(const wafer_ranks *ranks, wafer_status (*prepare)(void *self),
                         void *self) {
  uint32_t agreed = WAFER_OK;
  if (ranks->rank == 0) agreed = prepare(self);
  WAFER_TRY(wafer_ranks_broadcast(ranks, 0, &agreed, sizeof agreed));
  if (agreed != WAFER_OK || ranks->rank == 0) return (wafer_status)agreed;
  wafer_status status = prepare(self);
  if (status != WAFER_OK) ranks->abort(ranks->self, status);
  return status;
}
