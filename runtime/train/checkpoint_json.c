#include "checkpoint_json.h"

#include <cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FORMAT "wafer-checkpoint-1"
#define DIGEST ",\n  \"digest\": \"" /* what follows is not part of the digest */

const char *const checkpoint_files[CHECKPOINT_FILES] = {"weights.safetensors", "state.safetensors"};

/* Members of wafer_checkpoint, in the file's order. Numbers are text where a double of JSON would
 * not hold them. */
#define TEXTS(X) X(model) X(loss) X(optimizer) X(sparsity)
#define COUNTS(X) X(step) X(updates) X(batch) X(micro_batch) X(seed) X(good_steps)
#define REALS(X) X(last_loss) X(loss_scale)

/* A C string as JSON text, malloc'ed. */
static char *quoted(const char *text) {
  cJSON *item = cJSON_CreateString(text);
  char *made = item ? cJSON_PrintUnformatted(item) : NULL;
  cJSON_Delete(item);
  return made;
}

static char *append(wafer_arena *arena, char *to, const char *name, const char *value) {
  return to && value ? wafer_arena_printf(arena, "%s,\n  \"%s\": %s", to, name, value) : NULL;
}

static char *append_text(wafer_arena *arena, char *to, const char *name, const char *value) {
  char *text = quoted(value);
  char *made = append(arena, to, name, text);
  free(text);
  return made;
}

static char *append_count(wafer_arena *arena, char *to, const char *name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "\"%" PRIu64 "\"", value);
  return append(arena, to, name, text);
}

static char *append_real(wafer_arena *arena, char *to, const char *name, double value) {
  char text[40];
  snprintf(text, sizeof text, "\"%.17g\"", value);
  return append(arena, to, name, text);
}

static char *append_part(wafer_arena *arena, char *to, const char *name, checkpoint_part part) {
  char text[96];
  snprintf(text, sizeof text, "{\"bytes\": \"%" PRIu64 "\", \"xxh3\": \"%016" PRIx64 "\"}",
           part.bytes, part.digest);
  return append(arena, to, name, text);
}

char *checkpoint_print(wafer_arena *arena, const wafer_checkpoint *about,
                       const checkpoint_part parts[CHECKPOINT_FILES]) {
  char *text = wafer_arena_strdup(arena, "{\n  \"format\": \"" FORMAT "\"");
#define X(name) text = append_text(arena, text, #name, about->name);
  TEXTS(X)
#undef X
#define X(name) text = append_count(arena, text, #name, about->name);
  COUNTS(X)
#undef X
#define X(name) text = append_real(arena, text, #name, about->name);
  REALS(X)
#undef X
  if (about->settings) text = append_text(arena, text, "settings", about->settings);
  if (about->samples) text = append_count(arena, text, "samples", about->samples);
  for (int i = 0; i < CHECKPOINT_FILES; i++)
    text = append_part(arena, text, checkpoint_files[i], parts[i]);
  if (!text) return NULL;
  return wafer_arena_printf(arena, "%s" DIGEST "%016" PRIx64 "\"\n}\n", text,
                            (uint64_t)XXH3_64bits(text, strlen(text)));
}

/* ---- reading ---- */

static const char *text_of(const cJSON *object, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool number_of(const cJSON *object, const char *name, int base, uint64_t *out) {
  const char *text = text_of(object, name);
  char *end;
  if (!text || !*text) return false;
  *out = strtoull(text, &end, base);
  return !*end;
}

static bool real_of(const cJSON *object, const char *name, double *out) {
  const char *text = text_of(object, name);
  char *end;
  if (!text || !*text) return false;
  *out = strtod(text, &end);
  return !*end;
}

static bool read_members(wafer_arena *arena, const cJSON *json, wafer_checkpoint *about,
                         checkpoint_part parts[CHECKPOINT_FILES]) {
  bool fine = true;
#define X(name) fine &= (about->name = wafer_arena_strdup(arena, text_of(json, #name))) != NULL;
  TEXTS(X)
#undef X
#define X(name) fine &= number_of(json, #name, 10, &about->name);
  COUNTS(X)
#undef X
#define X(name) fine &= real_of(json, #name, &about->name);
  REALS(X)
#undef X
  const char *settings = text_of(json, "settings");
  fine &= !settings || (settings = wafer_arena_strdup(arena, settings)) != NULL;
  about->settings = settings;
  if (!number_of(json, "samples", 10, &about->samples)) about->samples = 0;
  for (int i = 0; i < CHECKPOINT_FILES; i++) {
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(json, checkpoint_files[i]);
    fine &= number_of(part, "bytes", 10, &parts[i].bytes);
    fine &= number_of(part, "xxh3", 16, &parts[i].digest);
  }
  return fine;
}

const char *checkpoint_parse(wafer_arena *arena, const char *text, size_t bytes,
                             wafer_checkpoint *about, checkpoint_part parts[CHECKPOINT_FILES]) {
  uint64_t digest;
  char *copy = wafer_arena_strndup(arena, text, bytes);
  const char *cut = copy ? strstr(copy, DIGEST) : NULL;
  cJSON *json = copy ? cJSON_Parse(copy) : NULL;
  const char *format = text_of(json, "format"), *wrong = NULL;
  if (!json || !format || !cut || !number_of(json, "digest", 16, &digest))
    wrong = "checkpoint.json is cut off or no checkpoint";
  else if (strcmp(format, FORMAT))
    wrong = "checkpoint.json is of another format than " FORMAT;
  else if (digest != XXH3_64bits(copy, (size_t)(cut - copy)))
    wrong = "checkpoint.json is damaged: its digest differs";
  else if (!read_members(arena, json, about, parts))
    wrong = "checkpoint.json lacks members";
  cJSON_Delete(json);
  return wrong;
}
