#include "intern.h"

#include <stdint.h>
#include <string.h>

typedef struct entry {
  uint64_t hash;
  size_t bytes;
  const void *key;
  void *thing;
} entry;

struct intern {
  wafer_arena *arena;
  size_t count, room; /* room is a power of two, at most half of it taken */
  entry *at;
};

intern *intern_create(wafer_arena *arena) {
  intern *table = WAFER_NEW(arena, intern, 1);
  if (!table) return NULL;
  *table = (intern){.arena = arena, .room = 256, .at = WAFER_NEW(arena, entry, 256)};
  return table->at ? table : NULL;
}

/* Word by word, each multiplied into what came before. */
static uint64_t hash_of(const void *key, size_t bytes) {
  uint64_t hash = bytes, word;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    size_t rest = bytes - at < sizeof word ? bytes - at : sizeof word;
    word = 0;
    memcpy(&word, (const char *)key + at, rest);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static entry *find(const intern *table, uint64_t hash, const void *key, size_t bytes) {
  size_t slot = (size_t)hash & (table->room - 1);
  for (entry *e; (e = &table->at[slot])->key; slot = (slot + 1) & (table->room - 1))
    if (e->hash == hash && e->bytes == bytes && memcmp(e->key, key, bytes) == 0) break;
  return &table->at[slot];
}

static bool grow(intern *table) {
  intern larger = *table;
  larger.room *= 2;
  larger.at = WAFER_NEW(table->arena, entry, larger.room);
  if (!larger.at) return false;
  for (size_t i = 0; i < table->room; i++) {
    const entry *e = &table->at[i];
    if (e->key) *find(&larger, e->hash, e->key, e->bytes) = *e;
  }
  *table = larger;
  return true;
}

void **intern_slot(intern *table, const void *key, size_t bytes) {
  uint64_t hash = hash_of(key, bytes);
  entry *e = find(table, hash, key, bytes);
  if (e->key) return &e->thing;
  if (2 * table->count >= table->room && !grow(table)) return NULL;
  const void *kept = wafer_arena_copy(table->arena, key, bytes);
  if (!kept) return NULL;
  e = find(table, hash, key, bytes);
  *e = (entry){hash, bytes, kept, NULL};
  table->count++;
  return &e->thing;
}
