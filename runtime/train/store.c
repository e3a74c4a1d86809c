#define _GNU_SOURCE /* O_TMPFILE, mkostemp */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static wafer_status failed(const wafer_diag *diag, const char *folder, const char *what,
                           size_t bytes) {
  return wafer_fail(diag, wafer_at_file(folder), WAFER_IO, "cannot %s %zu bytes: %m", what, bytes);
}

/* A file without a name; -1 with errno. */
static int open_nameless(const char *folder) {
  int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%s/.wafer-XXXXXX", folder) >= sizeof path)
    return errno = ENAMETOOLONG, -1;
  if ((fd = mkostemp(path, O_CLOEXEC)) >= 0) unlink(path);
  return fd;
}

static wafer_status take_file(const wafer_diag *diag, const char *folder, store_block *block) {
  int fd = open_nameless(folder);
  if (fd < 0) return failed(diag, folder, "make a file of", block->bytes);
  errno = posix_fallocate(fd, 0, (off_t)block->bytes);
  wafer_status status = errno ? failed(diag, folder, "reserve", block->bytes) : WAFER_OK;
  if (status == WAFER_OK) {
    block->data = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (block->data == MAP_FAILED) status = failed(diag, folder, "map", block->bytes);
  }
  close(fd);
  return status;
}

wafer_status store_take(const wafer_diag *diag, const char *folder, size_t bytes,
                        store_block *out) {
  store_block made = {.bytes = bytes ? bytes : 1};
  *out = (store_block){0};
  if (folder) {
    WAFER_TRY(take_file(diag, folder, &made));
  } else {
    made.data = mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.data == MAP_FAILED)
      return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                        "out of memory for %zu bytes of training state; --store DIR keeps it in "
                        "files",
                        bytes);
  }
  *out = made;
  return WAFER_OK;
}

void store_release(store_block *block) {
  if (block->data) munmap(block->data, block->bytes);
  *block = (store_block){0};
}

typedef struct stride {
  uint64_t count;
  uint32_t tiles;
  void (*run)(void *self, uint64_t block);
  void *self;
} stride;

static void run_tile(void *self, uint32_t tile, uint32_t thread) {
  const stride *s = self;
  (void)thread;
  for (uint64_t block = tile; block < s->count; block += s->tiles) s->run(s->self, block);
}

void store_each(thread_pool *pool, uint64_t count, void (*run)(void *self, uint64_t block),
                void *self) {
  uint32_t tiles = count < THREADS_MOST_TILES ? (uint32_t)count : THREADS_MOST_TILES;
  stride s = {count, tiles, run, self};
  thread_pool_run(pool, tiles, run_tile, &s);
}
