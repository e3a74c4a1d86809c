#include "wafer/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libwafer-mpi.so"

/* ---- MPI's plug-in ---- */

/* Beside the program, as built or installed; else wherever the loader looks. */
static void *load_plugin(void) {
  static const char *const places[] = {"../lib/" PLUGIN, "../lib/x86_64-linux-gnu/" PLUGIN,
                                       "../lib64/" PLUGIN};
  char path[PATH_MAX + 64];
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  char *slash = length > 0 ? (path[length] = 0, strrchr(path, '/')) : NULL;
  for (size_t i = 0; slash && i < WAFER_COUNT(places); i++) {
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "%s", places[i]);
    void *found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (found) return found;
  }
  return dlopen(PLUGIN, RTLD_NOW | RTLD_GLOBAL);
}

static unsigned long number(const char *variable) {
  const char *text = getenv(variable);
  return text ? strtoul(text, NULL, 10) : 0;
}

/* What OpenMPI, PMI (MPICH, Intel) and Slurm's srun tell the processes that they start. */
bool wafer_ranks_launched(void) {
  return number("OMPI_COMM_WORLD_SIZE") > 1 || number("PMI_SIZE") > 1 ||
         (getenv("SLURM_PROCID") && number("SLURM_STEP_NUM_TASKS") > 1);
}

wafer_status wafer_ranks_mpi(const wafer_diag *diag, wafer_ranks *out) {
  wafer_ranks_plugin *fill;
  *out = (wafer_ranks){0};
  void *plugin = load_plugin(), *symbol = plugin ? dlsym(plugin, WAFER_RANKS_PLUGIN) : NULL;
  if (!symbol)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_UNSUPPORTED,
                      "several processes need " PLUGIN ", which is not there: %s; build with "
                      "libopenmpi-dev installed",
                      dlerror());
  memcpy(&fill, &symbol, sizeof fill);
  const char *why = fill(out);
  if (why) return wafer_fail(diag, (wafer_loc){0}, WAFER_INTERNAL, "MPI: %s", why);
  if (out->count > 1 || !wafer_ranks_launched()) return WAFER_OK;
  return wafer_fail(diag, (wafer_loc){0}, WAFER_USAGE,
                    "a launcher started several processes, but MPI sees one alone; with Slurm: "
                    "srun --mpi=pmix");
}

/* ---- trees ---- */

wafer_status wafer_ranks_broadcast(const wafer_ranks *r, uint32_t root, void *data, size_t bytes) {
  if (r->count < 2 || bytes == 0) return WAFER_OK;
  uint32_t place = (r->rank + r->count - root) % r->count, bit = 1;
  for (; bit < r->count && !(place & bit); bit <<= 1);
  if (place) WAFER_TRY(r->receive(r->self, (place - bit + root) % r->count, data, bytes));
  for (bit >>= 1; bit; bit >>= 1)
    if (place + bit < r->count)
      WAFER_TRY(r->send(r->self, (place + bit + root) % r->count, data, bytes));
  return WAFER_OK;
}
