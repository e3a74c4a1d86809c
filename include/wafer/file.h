/* Files: whole ones in, read only; whole ones out, atomically. Every reader and writer of the
 * project goes through here. Failures are WAFER_IO and name the file. */
#ifndef WAFER_FILE_H
#define WAFER_FILE_H

#include "wafer/arena.h"
#include "wafer/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_bytes {
  const void *data; /* borrowed; not NULL, not even for 0 bytes */
  size_t size;
} wafer_bytes;

/* The bytes of a regular file, for as long as the arena lives. Large files are mapped, small ones
 * read; the start is aligned to 16. Only while somebody truncates a mapped file under us does
 * reading it fault. */
wafer_status wafer_file_map(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            wafer_bytes *out);

/* A file being written. It appears under its name at commit, complete, or not at all: until then
 * the bytes are in a file of the same folder that has no name, so that nothing stays of a process
 * that is killed, or where the file system has none such in one with a name of its own. A target
 * that exists and is not a regular file (/dev/full, a pipe) and /dev/stdout get the bytes directly.
 */
typedef struct wafer_file wafer_file;

wafer_status wafer_file_begin(const wafer_diag *diag, const char *path, wafer_file **out);
/* Reports the first failure only; later calls, and commit, then return its status. */
wafer_status wafer_file_write(wafer_file *file, const void *data, size_t bytes);
/* Flush, fsync, rename. Ends the file in any case; on failure nothing is left behind. */
wafer_status wafer_file_commit(wafer_file *file);
void wafer_file_abort(wafer_file *file); /* leaves nothing behind; NULL is fine */

/* begin, write, commit. */
wafer_status wafer_file_save(const wafer_diag *diag, const char *path, const void *data,
                             size_t bytes);

/* The folder, and those above it, where they are not there. */
wafer_status wafer_folder_make(const wafer_diag *diag, const char *path);

#ifdef __cplusplus
}
#endif
#endif
