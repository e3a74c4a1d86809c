/* The heap of a compilation. Passes fill much memory for a short time each, plan after plan: given
 * back to the system and had again page by page, it takes a tenth of the time. So what is freed
 * stays with the process, in huge pages where the system has some, unless memory is limited
 * (Linux, Transparent Hugepage Support; glibc does the same for all programs of whoever sets
 * glibc.malloc.hugetlb). */
#include "compile.h"

#ifdef __GLIBC__
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define OWN_BYTES (8 << 20) /* an allocation from there on is a mapping of its own */
#define AHEAD_BYTES (512 << 20)
#define PAGE ((uintptr_t)4096)

/* What is held ahead would count. */
static bool is_limited(int resource) {
  struct rlimit limit;
  return getrlimit(resource, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

void compile_keep_heap(void) {
  if (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA)) return;
  mallopt(M_MMAP_THRESHOLD, OWN_BYTES);
  mallopt(M_TRIM_THRESHOLD, 2 * AHEAD_BYTES - 1);
  mallopt(M_TOP_PAD, AHEAD_BYTES);
  void *some = malloc(OWN_BYTES / 2); /* grows the heap, of which nothing is touched */
  uintptr_t begin = ((uintptr_t)some + PAGE - 1) / PAGE * PAGE, end = (uintptr_t)sbrk(0);
  if (some && end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* as it likes */
  free(some);
}
#else
void compile_keep_heap(void) {}
#endif
