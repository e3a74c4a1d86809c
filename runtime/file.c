#define _GNU_SOURCE /* O_TMPFILE */
#include "wafer/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below this, reading is as fast as mapping and cannot fault later. */
#define SMALL_FILE ((size_t)1 << 20)
#define TEMPORARY_TRIES 1000

/* ---- in ---- */

typedef struct mapping {
  void *address;
  size_t bytes;
} mapping;

static void unmap(void *object) {
  mapping *m = object;
  munmap(m->address, m->bytes);
}

static wafer_status no_memory(const wafer_diag *diag, const char *path, size_t bytes) {
  return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY,
                    "out of memory: %zu bytes for this file", bytes);
}

static wafer_status read_small(const wafer_diag *diag, wafer_arena *arena, const char *path, int fd,
                               wafer_bytes *out) {
  char *data = wafer_arena_alloc(arena, out->size, 1);
  if (!data) return no_memory(diag, path, out->size);
  for (size_t done = 0; done < out->size;) {
    ssize_t got = read(fd, data + done, out->size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot read: %m");
    if (got == 0)
      return wafer_fail(diag, wafer_at_file(path), WAFER_IO,
                        "ended after %zu of %zu bytes while being read", done, out->size);
    done += (size_t)got;
  }
  out->data = data;
  return WAFER_OK;
}

static wafer_status map_large(const wafer_diag *diag, wafer_arena *arena, const char *path, int fd,
                              wafer_bytes *out) {
  mapping *made = WAFER_NEW(arena, mapping, 1);
  if (!made) return no_memory(diag, path, sizeof *made);
  void *address = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED)
    return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot map: %m");
  *made = (mapping){address, out->size};
  if (!wafer_arena_defer(arena, unmap, made)) {
    unmap(made);
    return no_memory(diag, path, sizeof *made);
  }
  out->data = address;
  return WAFER_OK;
}

static wafer_status load(const wafer_diag *diag, wafer_arena *arena, const char *path, int fd,
                         wafer_bytes *out) {
  struct stat about;
  if (fstat(fd, &about) != 0)
    return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot read: %m");
  if (S_ISDIR(about.st_mode))
    return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "is a folder, not a file");
  if (!S_ISREG(about.st_mode))
    return wafer_fail(diag, wafer_at_file(path), WAFER_IO,
                      "is not a regular file; save the bytes to one first");
  if ((uint64_t)about.st_size > SIZE_MAX) return no_memory(diag, path, SIZE_MAX);
  out->size = (size_t)about.st_size;
  return (out->size < SMALL_FILE ? read_small : map_large)(diag, arena, path, fd, out);
}

wafer_status wafer_file_map(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            wafer_bytes *out) {
  *out = (wafer_bytes){0};
  int fd =
      open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not make us wait */
  if (fd < 0) return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot open: %m");
  wafer_bytes got = {0};
  wafer_status status = load(diag, arena, path, fd, &got);
  close(fd);
  if (status == WAFER_OK) *out = got;
  return status;
}

/* ---- out ---- */

struct wafer_file {
  const wafer_diag *diag;
  char *path;      /* as the caller names it, for messages */
  char *target;    /* what rename() replaces; NULL: written directly */
  char *temporary; /* what is renamed; NULL: there is none (yet) */
  bool nameless;   /* it gets its name when all is written: of a run that is killed nothing stays */
  FILE *stream;
  wafer_status status;
};

static void destroy(wafer_file *file) {
  if (file->stream) fclose(file->stream);
  if (file->temporary) unlink(file->temporary);
  free(file->temporary);
  free(file->target);
  free(file->path);
  free(file);
}

void wafer_file_abort(wafer_file *file) {
  if (file) destroy(file);
}

static wafer_status io_failure(wafer_file *file, const char *what) {
  file->status = wafer_fail(file->diag, wafer_at_file(file->path), WAFER_IO, "cannot %s: %m", what);
  return file->status;
}

/* "folder/.wafer-PID-N.tmp" beside `target`: short enough wherever the target's own name is. */
static char *temporary_name(const char *target, unsigned n) {
  const char *slash = strrchr(target, '/');
  size_t folder = slash ? (size_t)(slash - target) + 1 : 0, room = 64;
  char *name = malloc(folder + room);
  if (!name) return NULL;
  memcpy(name, target, folder);
  snprintf(name + folder, room, ".wafer-%ld-%u.tmp", (long)getpid(), n);
  return name;
}

/* A file without a name in the target's folder; -1 where it could not get one later. */
static int open_nameless(wafer_file *file) {
  const char *slash = strrchr(file->target, '/');
  char *folder = slash ? strndup(file->target, (size_t)(slash - file->target) + 1) : strdup(".");
  bool named = folder && access("/proc/self/fd", X_OK) == 0;
  int fd = named ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
  free(folder);
  file->nameless = fd >= 0;
  return fd;
}

/* Names it beside the target. */
static bool give_name(wafer_file *file) {
  char own[64];
  snprintf(own, sizeof own, "/proc/self/fd/%d", fileno(file->stream));
  for (unsigned n = 0; n < TEMPORARY_TRIES; n++) {
    char *name = temporary_name(file->target, n);
    if (!name) return errno = ENOMEM, false;
    if (linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0)
      return file->temporary = name, true;
    free(name);
    if (errno != EEXIST) return false;
  }
  return false;
}

/* The descriptor of a new file beside the target, -1 with errno. Not every file system has some
 * without names. */
static int open_temporary(wafer_file *file) {
  int nameless = open_nameless(file);
  if (nameless >= 0) return nameless;
  for (unsigned n = 0; n < TEMPORARY_TRIES; n++) {
    char *name = temporary_name(file->target, n);
    if (!name) return errno = ENOMEM, -1;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return file->temporary = name, fd;
    free(name);
    if (errno != EEXIST) return -1;
  }
  return -1;
}

static int open_direct(const char *path) {
  if (strcmp(path, "/dev/stdout") != 0) return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  fflush(stdout);
  return dup(STDOUT_FILENO);
}

/* A link keeps pointing where it points: the file behind it is what gets replaced. */
static int open_target(wafer_file *file) {
  struct stat about;
  bool exists = stat(file->path, &about) == 0;
  if (exists && S_ISDIR(about.st_mode)) return errno = EISDIR, -1;
  bool direct = strncmp(file->path, "/dev/", 5) == 0 || (exists && !S_ISREG(about.st_mode));
  if (direct) return open_direct(file->path);
  file->target = exists ? realpath(file->path, NULL) : strdup(file->path);
  if (!file->target) return -1;
  if (exists && access(file->target, W_OK) != 0) return -1;
  int fd = open_temporary(file);
  if (fd >= 0 && exists && fchmod(fd, about.st_mode & 07777) != 0)
    errno = 0; /* the new mode is fine */
  return fd;
}

wafer_status wafer_file_begin(const wafer_diag *diag, const char *path, wafer_file **out) {
  *out = NULL;
  wafer_file *file = calloc(1, sizeof *file);
  if (!file || !(file->path = strdup(path))) {
    free(file);
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY,
                      "out of memory for writing a file");
  }
  file->diag = diag;
  int fd = open_target(file);
  if (fd >= 0 && !(file->stream = fdopen(fd, "w"))) close(fd);
  if (!file->stream) {
    wafer_status status = io_failure(file, "write");
    destroy(file);
    return status;
  }
  *out = file;
  return WAFER_OK;
}

wafer_status wafer_file_write(wafer_file *file, const void *data, size_t bytes) {
  if (file->status != WAFER_OK || bytes == 0) return file->status;
  if (fwrite(data, 1, bytes, file->stream) != bytes) return io_failure(file, "write");
  return WAFER_OK;
}

/* The name itself must survive a power cut, too; a folder that cannot be synced is no failure. */
static void sync_folder(const char *target) {
  const char *slash = strrchr(target, '/');
  char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup(".");
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

static wafer_status finish(wafer_file *file) {
  if (file->status != WAFER_OK) return file->status;
  if (fflush(file->stream) != 0) return io_failure(file, "write");
  if (file->target && fsync(fileno(file->stream)) != 0) return io_failure(file, "write");
  if (file->nameless && !give_name(file)) return io_failure(file, "write");
  FILE *stream = file->stream;
  file->stream = NULL;
  if (fclose(stream) != 0) return io_failure(file, "write");
  if (!file->temporary) return WAFER_OK;
  if (rename(file->temporary, file->target) != 0) return io_failure(file, "write");
  free(file->temporary);
  file->temporary = NULL;
  sync_folder(file->target);
  return WAFER_OK;
}

wafer_status wafer_file_commit(wafer_file *file) {
  wafer_status status = finish(file);
  destroy(file);
  return status;
}

wafer_status wafer_file_save(const wafer_diag *diag, const char *path, const void *data,
                             size_t bytes) {
  wafer_file *file;
  WAFER_TRY(wafer_file_begin(diag, path, &file));
  (void)wafer_file_write(file, data, bytes);
  return wafer_file_commit(file);
}

wafer_status wafer_folder_make(const wafer_diag *diag, const char *path) {
  char part[4096];
  snprintf(part, sizeof part, "%s", path);
  for (char *slash = part + 1; *part && (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    (void)mkdir(part, 0777); /* what is wrong shows at the last one */
  }
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot make the folder: %m");
}
