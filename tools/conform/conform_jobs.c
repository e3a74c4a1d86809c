/* Conformance tests in worker processes: each takes the next test that nobody has, and writes its
 * result into memory shared with the parent, which starts another worker for one that died. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"

#define MOST_SECONDS 300 /* of one test */
#define MOST_JOBS 256

typedef struct shared {
  atomic_size_t next;
  conform_result results[];
} shared;

typedef struct pool {
  const conform_arguments *arguments;
  const wafer_machine *machine;
  const conform_cases *cases;
  shared *memory;
  char folder[64]; /* for plans */
  struct worker {
    pid_t pid; /* 0: none */
  } workers[MOST_JOBS];
  atomic_size_t *current; /* per worker: its test, shared */
  size_t printed;
} pool;

static size_t bytes_of(const conform_cases *cases) {
  return sizeof(shared) + cases->count * sizeof(conform_result);
}

static void *share(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* ---- A worker ---- */

static void work(const pool *p, size_t worker) {
  char scratch[128];
  snprintf(scratch, sizeof scratch, "%s/%zu.wplan", p->folder, worker);
  for (size_t i; (i = atomic_fetch_add(&p->memory->next, 1)) < p->cases->count;) {
    conform_result *result = &p->memory->results[i];
    result->verdict = CONFORM_RUNNING;
    atomic_store(&p->current[worker], i);
    alarm(MOST_SECONDS);
    conform_run(p->arguments, p->machine, scratch, &p->cases->at[i], result);
    alarm(0);
  }
}

static wafer_status start(pool *p, size_t worker) {
  fflush(NULL);
  atomic_store(&p->current[worker], p->cases->count);
  pid_t pid = fork();
  if (pid < 0)
    return wafer_fail(cli_diag(), (wafer_loc){0}, WAFER_INTERNAL, "no worker process: %s",
                      strerror(errno));
  if (pid == 0) {
    work(p, worker);
    fflush(NULL);
    _exit(0);
  }
  p->workers[worker].pid = pid;
  return WAFER_OK;
}

/* ---- The parent ---- */

static void print_ready(pool *p) {
  for (; p->printed < p->cases->count; p->printed++) {
    const conform_result *r = &p->memory->results[p->printed];
    if (r->verdict == CONFORM_WAITING || r->verdict == CONFORM_RUNNING) break;
    if (r->verdict == CONFORM_PASSED) continue;
    cli_progress_done();
    printf("%s %s: %s\n", r->verdict == CONFORM_FAILED ? "FAILED" : "skipped",
           p->cases->at[p->printed].name, r->message);
    fflush(stdout);
  }
  wafer_progress(cli_diag(), "tests", p->printed, p->cases->count);
}

/* The test that a worker died of. */
static void blame(const pool *p, size_t worker, int how) {
  size_t i = atomic_load(&p->current[worker]);
  if (i >= p->cases->count || p->memory->results[i].verdict != CONFORM_RUNNING) return;
  conform_result *r = &p->memory->results[i];
  if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM)
    snprintf(r->message, sizeof r->message, "took more than %d seconds", MOST_SECONDS);
  else if (WIFSIGNALED(how))
    snprintf(r->message, sizeof r->message, "crashed: %s", strsignal(WTERMSIG(how)));
  else
    snprintf(r->message, sizeof r->message, "ended its process with exit code %d",
             WEXITSTATUS(how));
  r->verdict = CONFORM_FAILED;
}

static size_t worker_of(const pool *p, pid_t pid) {
  size_t worker = 0;
  while (worker < p->arguments->jobs && p->workers[worker].pid != pid) worker++;
  return worker;
}

/* One worker that has ended; false when none has. */
static bool reap(pool *p, size_t *alive, wafer_status *status) {
  int how;
  pid_t pid = waitpid(-1, &how, WNOHANG);
  size_t worker = pid > 0 ? worker_of(p, pid) : p->arguments->jobs;
  if (worker == p->arguments->jobs) return false;
  p->workers[worker].pid = 0;
  --*alive;
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return true;
  blame(p, worker, how);
  if (atomic_load(&p->memory->next) >= p->cases->count) return true;
  *status = start(p, worker);
  *alive += *status == WAFER_OK;
  return true;
}

static wafer_status run_pool(pool *p) {
  size_t alive = 0;
  wafer_status status = WAFER_OK;
  for (size_t worker = 0; worker < p->arguments->jobs && status == WAFER_OK; worker++) {
    status = start(p, worker);
    alive += status == WAFER_OK;
  }
  while (alive) {
    if (!reap(p, &alive, &status)) usleep(20000);
    print_ready(p);
  }
  print_ready(p);
  return status;
}

static wafer_status make_folder(pool *p) {
  const char *parent = getenv("TMPDIR");
  int length = snprintf(p->folder, sizeof p->folder, "%s/wafer-conform-XXXXXX",
                        parent && *parent && strlen(parent) < 32 ? parent : "/tmp");
  if (length < (int)sizeof p->folder && mkdtemp(p->folder)) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(p->folder), WAFER_IO, "cannot be made: %s",
                    strerror(errno));
}

static void remove_folder(const pool *p) {
  char path[128];
  for (size_t worker = 0; worker < p->arguments->jobs; worker++) {
    snprintf(path, sizeof path, "%s/%zu.wplan", p->folder, worker);
    unlink(path);
  }
  rmdir(p->folder);
}

wafer_status conform_run_all(const conform_arguments *a, const wafer_machine *machine,
                             const conform_cases *cases, conform_result **results) {
  pool p = {a, machine, cases, .memory = share(bytes_of(cases))};
  *results = NULL;
  p.current = share(MOST_JOBS * sizeof *p.current);
  if (!p.memory || !p.current) return cli_no_memory();
  *results = p.memory->results;
  wafer_status status = make_folder(&p);
  if (status == WAFER_OK) {
    status = run_pool(&p);
    remove_folder(&p);
  }
  cli_progress_done();
  munmap(p.current, MOST_JOBS * sizeof *p.current);
  return status;
}

void conform_free_results(const conform_cases *cases, conform_result *results) {
  if (results) munmap((char *)results - offsetof(shared, results), bytes_of(cases));
}
