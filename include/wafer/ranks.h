/* Processes that work together on one training run. What they need of each other is this table: two
 * calls that move bytes. MPI is one way to fill it (wafer_ranks_mpi), a process alone another
 * (zero: one rank), a test's threads a third. */
#ifndef WAFER_RANKS_H
#define WAFER_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "wafer/diag.h"
#include "wafer/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_ranks {
  void *self;
  uint32_t rank, count; /* count 0 or 1: alone */
  uint32_t local_count; /* ranks on this host: they share its cores */
  /* Both block. A message is received whole, in the order in which its sender sent; the receiver
   * knows its length. A call fails when the other rank is gone, if it returns at all. */
  wafer_status (*send)(void *self, uint32_t to, const void *data, size_t bytes);
  wafer_status (*receive)(void *self, uint32_t from, void *data, size_t bytes);
  void (*abort)(void *self, int code); /* ends every rank of the job; does not return */
  void (*destroy)(void *self);         /* every rank has come to its end */
} wafer_ranks;

/* The ranks of the MPI job that this process belongs to, through the plug-in libwafer-mpi.so beside
 * the program or on the loader's path: what runs alone needs no MPI. UNSUPPORTED: no plug-in or no
 * MPI library. USAGE: a launcher started several processes that are no MPI job together. */
wafer_status wafer_ranks_mpi(const wafer_diag *diag, wafer_ranks *out);
/* Whether mpirun, srun or another launcher started this process as one of several. */
bool wafer_ranks_launched(void);

/* `data` of rank `root` reaches all others along a binomial tree, as SwarmX broadcasts. */
wafer_status wafer_ranks_broadcast(const wafer_ranks *ranks, uint32_t root, void *data,
                                   size_t bytes);

/* The symbol of the plug-in: fills in the table, or says why not. */
typedef const char *wafer_ranks_plugin(wafer_ranks *out);
#define WAFER_RANKS_PLUGIN "wafer_mpi_ranks"

#ifdef __cplusplus
}
#endif
#endif
