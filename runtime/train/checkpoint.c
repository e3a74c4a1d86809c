#include "wafer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "checkpoint_json.h"
#include "wafer/file.h"

#define PREFIX "step-"
#define ASIDE ".writing" /* a checkpoint on its way in */
#define AWAY ".removing" /* one on its way out */
#define LOCK ".lock"
#define ABOUT "checkpoint.json"
#define PATH_BYTES 4096

struct wafer_checkpoints {
  const wafer_diag *diag;
  char folder[PATH_BYTES - 256];
  int lock;
};

/* ---- folders ---- */

/* "" where the path would be too long: nothing has that name. */
static void join_path(char *to, const char *folder, const char *name) {
  if ((size_t)snprintf(to, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES) *to = 0;
}

static void step_path(char *to, const char *folder, uint64_t step) {
  snprintf(to, PATH_BYTES, "%s/" PREFIX "%08" PRIu64, folder, step);
}

/* A folder of ours: its files, then itself. What somebody else put there stays. */
static void remove_folder(const char *path) {
  char file[PATH_BYTES];
  for (int i = 0; i < CHECKPOINT_FILES; i++) {
    join_path(file, path, checkpoint_files[i]);
    unlink(file);
  }
  join_path(file, path, ABOUT);
  unlink(file);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (strncmp(entry->d_name, ".wafer-", 7)) continue; /* of wafer_file_begin */
    join_path(file, path, entry->d_name);
    unlink(file);
  }
  if (folder) closedir(folder);
  rmdir(path);
}

static wafer_status sync_folder(const wafer_diag *diag, const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = fd >= 0 && fsync(fd) == 0;
  if (!synced) wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot sync: %m");
  if (fd >= 0) close(fd);
  return synced ? WAFER_OK : WAFER_IO;
}

/* Steps of the checkpoints of a folder, the newest first, malloc'ed; NULL: out of memory. */
static int newest_first(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x < y) - (x > y);
}

static uint64_t *list_steps(const char *path, size_t *count) {
  size_t room = 64;
  uint64_t *steps = malloc(room * sizeof *steps);
  DIR *folder = opendir(path);
  *count = 0;
  for (struct dirent *entry; steps && folder && (entry = readdir(folder));) {
    char *end;
    const char *number = entry->d_name + strlen(PREFIX);
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) || *number < '0' || *number > '9') continue;
    uint64_t step = strtoull(number, &end, 10);
    if (*end) continue;
    if (*count == room) {
      uint64_t *more = realloc(steps, (room *= 2) * sizeof *steps);
      if (!more) free(steps);
      if (!(steps = more)) break;
    }
    steps[(*count)++] = step;
  }
  if (folder) closedir(folder);
  if (steps) qsort(steps, *count, sizeof *steps, newest_first);
  return steps;
}

wafer_status wafer_checkpoints_open(const wafer_diag *diag, const char *folder,
                                    wafer_checkpoints **out) {
  char path[PATH_BYTES];
  *out = NULL;
  wafer_checkpoints *c = calloc(1, sizeof *c);
  if (!c) return wafer_fail(diag, wafer_at_file(folder), WAFER_NO_MEMORY, "out of memory");
  c->diag = diag;
  c->lock = -1;
  wafer_status status = wafer_folder_make(diag, folder);
  if ((size_t)snprintf(c->folder, sizeof c->folder, "%s", folder) >= sizeof c->folder)
    status = wafer_fail(diag, wafer_at_file(folder), WAFER_USAGE, "the path is too long");
  if (status == WAFER_OK) {
    join_path(path, folder, LOCK);
    c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock < 0)
      status = wafer_fail(diag, wafer_at_file(path), WAFER_IO, "cannot open: %m");
    else if (flock(c->lock, LOCK_EX | LOCK_NB) != 0)
      status = wafer_fail(diag, wafer_at_file(folder), WAFER_IO, "another run writes here");
  }
  if (status != WAFER_OK) return wafer_checkpoints_close(c), status;
  join_path(path, folder, ASIDE);
  remove_folder(path);
  join_path(path, folder, AWAY);
  remove_folder(path);
  *out = c;
  return WAFER_OK;
}

void wafer_checkpoints_close(wafer_checkpoints *c) {
  if (!c) return;
  if (c->lock >= 0) close(c->lock);
  free(c);
}

uint64_t wafer_checkpoints_last(const wafer_checkpoints *c) {
  size_t count;
  uint64_t *steps = list_steps(c->folder, &count), last = steps && count ? steps[0] : 0;
  free(steps);
  return last;
}

/* ---- reading ---- */

static wafer_status read_part(const wafer_diag *diag, wafer_arena *arena, const char *path,
                              checkpoint_part want, wafer_weights *weights) {
  wafer_bytes file;
  WAFER_TRY(wafer_file_map(diag, arena, path, &file));
  if (file.size != want.bytes)
    return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                      "has %zu bytes, the checkpoint wrote %" PRIu64, file.size, want.bytes);
  if (XXH3_64bits(file.data, file.size) != want.digest)
    return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT, "is damaged: its digest differs");
  return weights ? wafer_weights_read(diag, arena, path, weights) : WAFER_OK;
}

static wafer_status read_one(const wafer_diag *diag, wafer_arena *arena, const char *path,
                             wafer_checkpoint *about, wafer_weights *weights,
                             wafer_weights *state) {
  char file[PATH_BYTES];
  wafer_bytes text;
  checkpoint_part parts[CHECKPOINT_FILES];
  join_path(file, path, ABOUT);
  WAFER_TRY(wafer_file_map(diag, arena, file, &text));
  const char *wrong = checkpoint_parse(arena, text.data, text.size, about, parts);
  if (wrong) return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT, "%s", wrong);
  for (int i = 0; i < CHECKPOINT_FILES; i++) {
    join_path(file, path, checkpoint_files[i]);
    WAFER_TRY(read_part(diag, arena, file, parts[i], i ? state : weights));
  }
  return WAFER_OK;
}

/* A sink that turns errors into warnings: the run goes on with an older checkpoint. */
static void warn_instead(void *self, wafer_severity severity, wafer_status status,
                         const wafer_loc *loc, const char *text) {
  const wafer_diag *to = self;
  (void)severity, (void)status;
  wafer_warn(to, *loc, "%s; this checkpoint is skipped", text);
}

/* The newest whole one is found before anything of it enters the tables. */
static wafer_status read_newest(const wafer_diag *diag, wafer_arena *arena, const char *folder,
                                wafer_checkpoint *about, wafer_weights *weights,
                                wafer_weights *state, bool *found) {
  size_t count;
  uint64_t *steps = list_steps(folder, &count);
  const wafer_diag gentle = {.emit = warn_instead, .self = (void *)(uintptr_t)diag};
  wafer_status status = WAFER_OK;
  *found = false;
  if (!steps) return wafer_fail(diag, wafer_at_file(folder), WAFER_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < count && !*found; i++) {
    char path[PATH_BYTES];
    wafer_arena *trial = wafer_arena_create();
    step_path(path, folder, steps[i]);
    wafer_checkpoint seen;
    *found = trial && read_one(&gentle, trial, path, &seen, wafer_weights_create(trial),
                               wafer_weights_create(trial)) == WAFER_OK;
    wafer_arena_destroy(trial);
    if (*found) status = read_one(diag, arena, path, about, weights, state);
  }
  free(steps);
  return status;
}

wafer_status wafer_checkpoint_newest(wafer_checkpoints *c, wafer_arena *arena,
                                     wafer_checkpoint *about, wafer_weights *weights,
                                     wafer_weights *state, bool *found) {
  return read_newest(c->diag, arena, c->folder, about, weights, state, found);
}

wafer_status wafer_checkpoint_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                   wafer_checkpoint *about, wafer_weights *weights,
                                   wafer_weights *state) {
  char file[PATH_BYTES];
  bool found;
  join_path(file, path, ABOUT);
  if (access(file, F_OK) == 0) return read_one(diag, arena, path, about, weights, state);
  WAFER_TRY(read_newest(diag, arena, path, about, weights, state, &found));
  if (found) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                    "is no checkpoint and no folder with a whole one");
}

/* ---- writing ---- */

static wafer_status digest_file(const wafer_diag *diag, const char *path, checkpoint_part *out) {
  wafer_arena *arena = wafer_arena_create();
  wafer_bytes file;
  if (!arena) return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "out of memory");
  wafer_status status = wafer_file_map(diag, arena, path, &file);
  if (status == WAFER_OK) *out = (checkpoint_part){file.size, XXH3_64bits(file.data, file.size)};
  wafer_arena_destroy(arena);
  return status;
}

static wafer_status write_files(const wafer_checkpoints *c, wafer_arena *arena, const char *aside,
                                const wafer_checkpoint *about, const wafer_weights *const *tables) {
  char path[PATH_BYTES];
  checkpoint_part parts[CHECKPOINT_FILES];
  if (mkdir(aside, 0777) != 0)
    return wafer_fail(c->diag, wafer_at_file(aside), WAFER_IO, "cannot make the folder: %m");
  for (int i = 0; i < CHECKPOINT_FILES; i++) {
    join_path(path, aside, checkpoint_files[i]);
    WAFER_TRY(wafer_weights_write(c->diag, path, tables[i]));
    WAFER_TRY(digest_file(c->diag, path, &parts[i]));
  }
  char *text = checkpoint_print(arena, about, parts);
  if (!text) return wafer_fail(c->diag, wafer_at_file(aside), WAFER_NO_MEMORY, "out of memory");
  join_path(path, aside, ABOUT);
  WAFER_TRY(wafer_file_save(c->diag, path, text, strlen(text)));
  return sync_folder(c->diag, aside);
}

/* A checkpoint of that step which is in the way is a damaged one, which was skipped. */
static wafer_status put_in_place(const wafer_checkpoints *c, const char *aside, uint64_t step) {
  char path[PATH_BYTES], away[PATH_BYTES];
  step_path(path, c->folder, step);
  join_path(away, c->folder, AWAY);
  if (rename(path, away) != 0 && errno != ENOENT)
    return wafer_fail(c->diag, wafer_at_file(path), WAFER_IO, "cannot be replaced: %m");
  if (rename(aside, path) != 0)
    return wafer_fail(c->diag, wafer_at_file(path), WAFER_IO, "cannot be put in place: %m");
  WAFER_TRY(sync_folder(c->diag, c->folder));
  remove_folder(away);
  return WAFER_OK;
}

/* Of those up to `step`: later ones are damaged, and do not count. Renamed first: a
 * checkpoint is never seen with some of its files. */
static void remove_old(const wafer_checkpoints *c, uint64_t step, uint64_t keep) {
  size_t count;
  char path[PATH_BYTES], away[PATH_BYTES];
  uint64_t *steps = keep ? list_steps(c->folder, &count) : NULL, seen = 0;
  join_path(away, c->folder, AWAY);
  for (size_t i = 0; steps && i < count; i++) {
    if (steps[i] > step || seen++ < keep) continue;
    step_path(path, c->folder, steps[i]);
    if (rename(path, away) == 0) remove_folder(away);
  }
  free(steps);
}

wafer_status wafer_checkpoint_write(wafer_checkpoints *c, const wafer_checkpoint *about,
                                    const wafer_weights *weights, const wafer_weights *state,
                                    uint64_t keep) {
  const wafer_weights *tables[CHECKPOINT_FILES] = {weights, state};
  char aside[PATH_BYTES];
  wafer_arena *arena = wafer_arena_create();
  if (!arena)
    return wafer_fail(c->diag, wafer_at_file(c->folder), WAFER_NO_MEMORY, "out of memory");
  join_path(aside, c->folder, ASIDE);
  wafer_status status = write_files(c, arena, aside, about, tables);
  if (status == WAFER_OK) status = put_in_place(c, aside, about->step);
  if (status != WAFER_OK) remove_folder(aside);
  wafer_arena_destroy(arena);
  if (status == WAFER_OK) remove_old(c, about->step, keep);
  return status;
}
