#define _GNU_SOURCE /* O_TMPFILE */
#include "wafer/file.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "caught.h"
#include "scratch.h"

static void a_file_is_read_back(void) {
  enum { LARGE = 3 << 20 };
  static const size_t sizes[] = {0, 1, 4096, 100000, (1 << 20) - 1, 1 << 20, LARGE};
  scratch in = scratch_create();
  char *data = malloc(LARGE);
  for (size_t i = 0; i < LARGE; i++) data[i] = (char)(i * 7 + i / 251);
  for (size_t i = 0; i < WAFER_COUNT(sizes); i++) {
    wafer_arena *arena = wafer_arena_create();
    wafer_bytes got;
    const char *path = scratch_path(&in, "f");
    CU_ASSERT_EQUAL(wafer_file_save(NULL, path, data, sizes[i]), WAFER_OK);
    CU_ASSERT_EQUAL(wafer_file_map(NULL, arena, path, &got), WAFER_OK);
    CU_ASSERT_EQUAL(got.size, sizes[i]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got.data);
    CU_ASSERT_EQUAL(memcmp(got.data, data, sizes[i]), 0);
    wafer_arena_destroy(arena);
  }
  free(data);
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 1);
  scratch_remove(&in);
}

static void what_is_not_a_file_is_refused(void) {
  scratch in = scratch_create();
  const char *fifo = scratch_path(&in, "fifo");
  CU_ASSERT_EQUAL(mkfifo(fifo, 0600), 0);
  const struct {
    const char *path, *want;
  } cases[] = {
      {scratch_path(&in, "none"), "cannot open: No such file or directory"},
      {in.folder, "is a folder, not a file"},
      {fifo, "is not a regular file; save the bytes to one first"},
      {"/dev/zero", "is not a regular file; save the bytes to one first"},
  };
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    caught last;
    wafer_diag diag = caught_diag(&last);
    wafer_bytes got;
    CU_ASSERT_EQUAL(wafer_file_map(&diag, arena, cases[i].path, &got), WAFER_IO);
    CU_ASSERT_PTR_NULL(got.data);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_STRING_EQUAL(last.place, cases[i].path);
    CU_ASSERT_STRING_EQUAL(last.text, cases[i].want);
  }
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

/* Whether files of this folder need no name. */
static bool has_nameless(const scratch *in) {
  int fd = open(in->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0 && access("/proc/self/fd", X_OK) == 0;
}

static void an_abort_leaves_the_old_file(void) {
  scratch in = scratch_create();
  const char *path = scratch_save(&in, "f", "old", 3);
  wafer_file *file;
  char text[8] = "";
  CU_ASSERT_EQUAL(wafer_file_begin(NULL, path, &file), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_file_write(file, "newer", 5), WAFER_OK);
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), has_nameless(&in) ? 1 : 2);
  CU_ASSERT_EQUAL(scratch_load(path, text, 8), 3);
  wafer_file_abort(file);
  wafer_file_abort(NULL);
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 1);
  CU_ASSERT_EQUAL(scratch_load(path, text, 8), 3);
  CU_ASSERT_STRING_EQUAL(text, "old");
  scratch_remove(&in);
}

static void a_commit_replaces_it_and_keeps_its_mode(void) {
  scratch in = scratch_create();
  const char *path = scratch_save(&in, "f", "old", 3), *link = scratch_path(&in, "link");
  struct stat about;
  char text[8] = "";
  chmod(path, 0640);
  CU_ASSERT_EQUAL(symlink("f", link), 0);
  wafer_file *file;
  CU_ASSERT_EQUAL(wafer_file_begin(NULL, link, &file), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_file_write(file, "new", 3), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_file_commit(file), WAFER_OK);
  CU_ASSERT_EQUAL(scratch_load(path, text, 8), 3);
  CU_ASSERT_STRING_EQUAL(text, "new");
  CU_ASSERT(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640);
  CU_ASSERT(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 2);
  scratch_remove(&in);
}

static void a_full_disk_is_one_error(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_file *file;
  char *data = calloc(1, 1 << 20);
  CU_ASSERT_EQUAL(wafer_file_save(&diag, "/dev/full", "x", 1), WAFER_IO);
  CU_ASSERT_EQUAL(last.count, 1);
  CU_ASSERT_STRING_EQUAL(last.place, "/dev/full");
  CU_ASSERT_STRING_EQUAL(last.text, "cannot write: No space left on device");
  CU_ASSERT_EQUAL(wafer_file_begin(&diag, "/dev/full", &file), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_file_write(file, data, 1 << 20), WAFER_IO);
  CU_ASSERT_EQUAL(wafer_file_write(file, data, 1 << 20), WAFER_IO);
  CU_ASSERT_EQUAL(wafer_file_commit(file), WAFER_IO);
  CU_ASSERT_EQUAL(last.count, 2);
  free(data);
}

static void what_cannot_be_written_says_why(void) {
  scratch in = scratch_create();
  static const struct {
    const char *name, *want;
  } cases[] = {
      {"none/f", "cannot write: No such file or directory"},
      {"", "cannot write: Is a directory"},
      {"f/g", "cannot write: Not a directory"},
  };
  scratch_save(&in, "f", "", 0);
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    caught last;
    wafer_diag diag = caught_diag(&last);
    wafer_file *file = (wafer_file *)&last;
    CU_ASSERT_EQUAL(wafer_file_begin(&diag, scratch_path(&in, cases[i].name), &file), WAFER_IO);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_STRING_EQUAL(last.text, cases[i].want);
  }
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 1);
  scratch_remove(&in);
}

static void a_pipe_is_written_directly(void) {
  int ends[2];
  char path[64], text[4] = "";
  CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
  CU_ASSERT_EQUAL(wafer_file_save(NULL, path, "abc", 3), WAFER_OK);
  CU_ASSERT_EQUAL(read(ends[0], text, 3), 3);
  CU_ASSERT_STRING_EQUAL(text, "abc");
  close(ends[0]);
  close(ends[1]);
}

static void running_out_of_memory_is_reported(void) {
  scratch in = scratch_create();
  char *data = calloc(1, 2 << 20);
  const char *paths[] = {scratch_save(&in, "small", "x", 1),
                         scratch_save(&in, "big", data, 2 << 20)};
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < 2; i++)
    for (size_t n = 1; n <= (i ? 2 : 1); n++) {
      wafer_bytes got;
      wafer_arena_fail_after(n);
      CU_ASSERT_EQUAL(wafer_file_map(NULL, arena, paths[i], &got), WAFER_NO_MEMORY);
      CU_ASSERT_PTR_NULL(got.data);
    }
  wafer_arena_fail_after(0);
  wafer_arena_destroy(arena);
  free(data);
  scratch_remove(&in);
}

CU_TestInfo tests_file[] = {
    {"a file is read back", a_file_is_read_back},
    {"what is not a file is refused", what_is_not_a_file_is_refused},
    {"an abort leaves the old file", an_abort_leaves_the_old_file},
    {"a commit replaces it and keeps its mode", a_commit_replaces_it_and_keeps_its_mode},
    {"a full disk is one error", a_full_disk_is_one_error},
    {"what cannot be written says why", what_cannot_be_written_says_why},
    {"a pipe is written directly", a_pipe_is_written_directly},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};
