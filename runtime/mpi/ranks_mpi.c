/* The plug-in that joins ranks by MPI: a library of its own, so that nothing else links MPI. It
 * sees one header and returns what went wrong as text. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

#include "wafer/ranks.h"

#define PART ((size_t)1 << 30) /* MPI counts in int */
#define SPINS 2000             /* polls before a rank lets others have the core */

/* MPI's own waiting spins for good, which starves ranks that share a core. */
static int wait_for(MPI_Request *request) {
  const struct timespec nap = {0, 50000};
  int done = 0;
  for (unsigned polls = 0;; polls++) {
    int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done) return code;
    if (polls > SPINS) nanosleep(&nap, NULL);
  }
}

static wafer_status move(char *data, size_t bytes, int other, int sends) {
  for (size_t at = 0; at < bytes; at += PART) {
    MPI_Request request;
    int part = (int)(bytes - at < PART ? bytes - at : PART);
    int code = sends ? MPI_Isend(data + at, part, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request)
                     : MPI_Irecv(data + at, part, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS) code = wait_for(&request);
    if (code != MPI_SUCCESS) return WAFER_INTERNAL;
  }
  return WAFER_OK;
}

static wafer_status mpi_send(void *self, uint32_t to, const void *data, size_t bytes) {
  (void)self;
  return move((char *)(uintptr_t)data, bytes, (int)to, 1);
}

static wafer_status mpi_receive(void *self, uint32_t from, void *data, size_t bytes) {
  (void)self;
  return move(data, bytes, (int)from, 0);
}

static void mpi_abort(void *self, int code) {
  (void)self;
  MPI_Abort(MPI_COMM_WORLD, code);
  abort();
}

static void mpi_destroy(void *self) {
  (void)self;
  MPI_Finalize();
}

const char *wafer_mpi_ranks(wafer_ranks *out);

const char *wafer_mpi_ranks(wafer_ranks *out) {
  int rank = 0, count = 1, local = 1, level;
  MPI_Comm host;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
    return "cannot start";
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) ==
      MPI_SUCCESS) {
    MPI_Comm_size(host, &local);
    MPI_Comm_free(&host);
  }
  *out = (wafer_ranks){.rank = (uint32_t)rank,
                       .count = (uint32_t)count,
                       .local_count = (uint32_t)local,
                       .send = mpi_send,
                       .receive = mpi_receive,
                       .abort = mpi_abort,
                       .destroy = mpi_destroy};
  return NULL;
}
