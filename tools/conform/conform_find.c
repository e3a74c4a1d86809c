/* Tests of `wafer conform`: what lies below a folder. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conform.h"

#define MOST_FOLDERS 64 /* inside one another */

typedef struct finder {
  wafer_arena *arena;
  const char *filter;
  size_t root; /* bytes of the searched folder's path and the slash behind it */
  uint32_t room;
  conform_case *cases;
  size_t count;
} finder;

static wafer_status search(finder *f, const char *folder, int depth);

static bool exists(const char *path) {
  return path && access(path, F_OK) == 0;
}

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool wanted(const finder *f, const char *name) {
  if (!f->filter) return true;
  const char *slash = strrchr(name, '/');
  return fnmatch(f->filter, name, 0) == 0 || fnmatch(f->filter, slash ? slash + 1 : name, 0) == 0;
}

static wafer_status add(finder *f, conform_case c) {
  if (!c.name || !c.model || (c.set_count && !c.sets)) return cli_no_memory();
  if (!wanted(f, c.name)) return WAFER_OK;
  if (!WAFER_GROW(f->arena, f->cases, f->count, f->room, 256)) return cli_no_memory();
  f->cases[f->count++] = c;
  return WAFER_OK;
}

/* folder/model.onnx; its sets are numbered from 0 without gaps. */
static wafer_status add_folder(finder *f, const char *folder) {
  conform_case c = {.name = strlen(folder) > f->root ? folder + f->root : ".",
                    .model = wafer_arena_printf(f->arena, "%s/model.onnx", folder)};
  size_t count = 0;
  while (exists(wafer_arena_printf(f->arena, "%s/test_data_set_%zu", folder, count))) count++;
  c.sets = WAFER_NEW(f->arena, const char *, count);
  if (!c.sets) return cli_no_memory();
  for (; c.set_count < count; c.set_count++) {
    c.sets[c.set_count] =
        wafer_arena_printf(f->arena, "%s/test_data_set_%zu/", folder, c.set_count);
    if (!c.sets[c.set_count]) return cli_no_memory();
  }
  return add(f, c);
}

/* folder/NAME.onnx beside folder/NAME_output_0.pb. */
static wafer_status add_file(finder *f, const char *folder, const char *file) {
  const char *dot = strrchr(file, '.');
  if (!dot || strcmp(dot, ".onnx")) return WAFER_OK;
  char *path = wafer_arena_printf(f->arena, "%s/%.*s", folder, (int)(dot - file), file);
  char *set = path ? wafer_arena_printf(f->arena, "%s_", path) : NULL;
  if (!set || !exists(wafer_arena_printf(f->arena, "%soutput_0.pb", set))) return WAFER_OK;
  conform_case c = {.name = path + f->root,
                    .model = wafer_arena_printf(f->arena, "%s.onnx", path),
                    .set_count = 1,
                    .sets = WAFER_NEW(f->arena, const char *, 1),
                    .ramp = !exists(wafer_arena_printf(f->arena, "%sinput_0.pb", set))};
  if (c.sets) c.sets[0] = set;
  return add(f, c);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const conform_case *)a)->name, ((const conform_case *)b)->name);
}

/* What a folder that is no test holds. */
static wafer_status search_entries(finder *f, const char *folder, int depth, DIR *entries) {
  for (const struct dirent *e; (e = readdir(entries));) {
    if (*e->d_name == '.') continue;
    const char *path = wafer_arena_printf(f->arena, "%s/%s", folder, e->d_name);
    if (!path) return cli_no_memory();
    if (is_folder(path))
      WAFER_TRY(search(f, path, depth + 1));
    else
      WAFER_TRY(add_file(f, folder, e->d_name));
  }
  return WAFER_OK;
}

static wafer_status search(finder *f, const char *folder, int depth) {
  if (exists(wafer_arena_printf(f->arena, "%s/model.onnx", folder))) return add_folder(f, folder);
  if (depth > MOST_FOLDERS)
    return wafer_fail(cli_diag(), wafer_at_file(folder), WAFER_IO,
                      "lies in more than %d folders; does a link lead back?", MOST_FOLDERS);
  DIR *entries = opendir(folder);
  if (!entries)
    return wafer_fail(cli_diag(), wafer_at_file(folder), WAFER_IO, "cannot be listed: %s",
                      strerror(errno));
  wafer_status status = search_entries(f, folder, depth, entries);
  closedir(entries);
  return status;
}

wafer_status conform_find(wafer_arena *arena, const char *folder, const char *filter,
                          conform_cases *out) {
  *out = (conform_cases){0};
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  const char *root = wafer_arena_strndup(arena, folder, length);
  finder f = {.arena = arena, .filter = filter, .root = length + 1};
  if (!root) return cli_no_memory();
  WAFER_TRY(search(&f, root, 0));
  if (f.count) qsort(f.cases, f.count, sizeof *f.cases, by_name);
  *out = (conform_cases){f.count, f.cases};
  return WAFER_OK;
}
