/* A folder for one test, under $TMPDIR or /tmp, removed with what is in it. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <CUnit/CUnit.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct scratch {
  char folder[256];
  char path[8][512]; /* the last eight paths handed out */
  unsigned next;
} scratch;

static inline scratch scratch_create(void) {
  scratch made = {.next = 0};
  const char *base = getenv("TMPDIR");
  snprintf(made.folder, sizeof made.folder, "%s/wafer-unit-XXXXXX", base ? base : "/tmp");
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(made.folder));
  return made;
}

static inline const char *scratch_path(scratch *in, const char *name) {
  char *path = in->path[in->next++ % 8];
  CU_ASSERT_FATAL(strlen(in->folder) + strlen(name) + 2 <= sizeof in->path[0]);
  strcpy(path, in->folder);
  strcat(strcat(path, "/"), name);
  return path;
}

static inline const char *scratch_save(scratch *in, const char *name, const void *data,
                                       size_t bytes) {
  const char *path = scratch_path(in, name);
  FILE *file = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  CU_ASSERT_EQUAL(fwrite(data, 1, bytes, file), bytes);
  fclose(file);
  return path;
}

/* Bytes of a file, -1 when there is none; its first bytes go to `buffer`. */
static inline long scratch_load(const char *path, void *buffer, size_t bytes) {
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  size_t got = fread(buffer, 1, bytes, file);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  fclose(file);
  return got <= (size_t)size ? size : -1;
}

/* Entries of the folder; with `remove_them`, none afterwards. */
static inline int scratch_entries(scratch *in, int remove_them) {
  int count = 0;
  DIR *folder = opendir(in->folder);
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    count++;
    if (remove_them) remove(scratch_path(in, entry->d_name));
  }
  closedir(folder);
  return count;
}

static inline void scratch_remove(scratch *in) {
  scratch_entries(in, 1);
  rmdir(in->folder);
}

#endif
