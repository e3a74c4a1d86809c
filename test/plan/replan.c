/* replan unpack PLAN DIR: the members of a plan as files. replan pack DIR PLAN: a plan of these
 * files with every digest recomputed, so that tests can change what they like and see what the
 * runtime says. Nothing else is checked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plan/plan_file.h"
#include "runtime/tensor/safetensors.h"
#include "runtime/zip.h"
#include "wafer/weights.h"

#define MOST_PROGRAMS 4096

static char *path_of(wafer_arena *arena, const char *folder, const char *name) {
  char *path = wafer_arena_printf(arena, "%s/%s", folder, name);
  if (!path) exit(WAFER_NO_MEMORY);
  return path;
}

static wafer_status unpack(const wafer_diag *d, wafer_arena *arena, const char *plan,
                           const char *folder) {
  wafer_bytes file, comment;
  zip_entry *entries;
  size_t count;
  WAFER_TRY(wafer_file_map(d, arena, plan, &file));
  WAFER_TRY(zip_read(d, wafer_at_file(plan), arena, file, &entries, &count, &comment));
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    return wafer_fail(d, wafer_at_file(folder), WAFER_IO, "cannot be made: %s", strerror(errno));
  for (size_t i = 0; i < count; i++) {
    char *path = path_of(arena, folder, entries[i].name);
    for (char *c = path + strlen(folder) + 1; *c; c++) /* programs/0.bin: all in one folder */
      if (*c == '/') *c = '_';
    WAFER_TRY(wafer_file_save(d, path, entries[i].data.data, entries[i].data.size));
  }
  return WAFER_OK;
}

/* The value of an attribute inside one tag; NULL when it has none. *end is its closing quote. */
static char *attribute(char *tag, const char *tag_end, const char *name, char **end) {
  char want[64];
  snprintf(want, sizeof want, " %s=\"", name);
  char *at = strstr(tag, want);
  if (!at || at >= tag_end) return NULL;
  at += strlen(want);
  *end = strchr(at, '"');
  return *end && *end < tag_end ? at : NULL;
}

/* Puts the digests of the data into the <weight> tags of plan.xml. Names with XML's own characters
 * in them keep their digest. */
static void renew_digests(char *xml, const wafer_weights *weights) {
  for (char *tag = xml; (tag = strstr(tag, "<weight ")); tag++) {
    char *tag_end = strchr(tag, '>'), *name_end, *digest_end, name[512], digits[17];
    if (!tag_end) return;
    const char *from = attribute(tag, tag_end, "name", &name_end);
    char *digest = attribute(tag, tag_end, "digest", &digest_end);
    if (!from || !digest || digest_end - digest != 16) continue;
    snprintf(name, sizeof name, "%.*s", (int)(name_end - from), from);
    wafer_weight *weight = wafer_weights_find(weights, name);
    if (!weight) continue;
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)wafer_weight_digest(weight));
    memcpy(digest, digits, 16);
  }
}

/* programs_0.bin ... as far as there are any. */
static wafer_status programs_of(const wafer_diag *d, wafer_arena *arena, const char *folder,
                                plan_members *members) {
  static wafer_bytes programs[MOST_PROGRAMS];
  char name[32];
  members->programs = programs;
  for (; members->program_count < MOST_PROGRAMS; members->program_count++) {
    snprintf(name, sizeof name, "programs_%u.bin", members->program_count);
    const char *path = path_of(arena, folder, name);
    if (access(path, F_OK) != 0) return WAFER_OK;
    WAFER_TRY(wafer_file_map(d, arena, path, &programs[members->program_count]));
  }
  return WAFER_OK;
}

static wafer_status pack(const wafer_diag *d, wafer_arena *arena, const char *folder,
                         const char *plan) {
  wafer_bytes xml, all, parts[2];
  plan_members members = {.weight_parts = 2, .weights = parts};
  const char *name = path_of(arena, folder, "weights.safetensors");
  WAFER_TRY(wafer_file_map(d, arena, path_of(arena, folder, "plan.xml"), &xml));
  WAFER_TRY(wafer_file_map(d, arena, path_of(arena, folder, "model.mlir"), &members.mlir));
  WAFER_TRY(wafer_file_map(d, arena, name, &all));
  wafer_weights *weights = wafer_weights_create(arena);
  char *text = wafer_arena_strndup(arena, xml.data, xml.size);
  if (!weights || !text) return WAFER_NO_MEMORY;
  WAFER_TRY(safetensors_read(d, wafer_at_file(name), all, arena, weights));
  uint64_t header = 0; /* little endian, and in the file: safetensors_read has looked */
  for (int i = 0; i < 8; i++) header |= (uint64_t)((const unsigned char *)all.data)[i] << (8 * i);
  parts[0] = (wafer_bytes){all.data, header + 8};
  parts[1] = (wafer_bytes){(const char *)all.data + header + 8, all.size - header - 8};
  renew_digests(text, weights);
  members.xml = (wafer_bytes){text, strlen(text)};
  WAFER_TRY(programs_of(d, arena, folder, &members));
  return plan_file_save(d, arena, plan, &members);
}

int main(int argc, char **argv) {
  bool packs = argc == 4 && !strcmp(argv[1], "pack");
  if (!packs && (argc != 4 || strcmp(argv[1], "unpack"))) {
    fputs("usage: replan unpack PLAN DIR | replan pack DIR PLAN\n", stderr);
    return WAFER_USAGE;
  }
  wafer_diag d = {.emit = wafer_diag_to_file, .self = stderr};
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return WAFER_NO_MEMORY;
  wafer_status status = (packs ? pack : unpack)(&d, arena, argv[2], argv[3]);
  wafer_arena_destroy(arena);
  return status;
}
