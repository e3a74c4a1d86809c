/* Addresses to numbers: open addressing, grown at half full. */
#include "wafer/ir.h"

typedef struct entry {
  const void *key;
  uint32_t number;
} entry;

struct wafer_ir_map {
  wafer_arena *arena;
  size_t count, room; /* room is a power of two */
  entry *at;
};

wafer_ir_map *wafer_ir_map_create(wafer_arena *arena) {
  wafer_ir_map *map = WAFER_NEW(arena, wafer_ir_map, 1);
  if (!map) return NULL;
  *map = (wafer_ir_map){.arena = arena, .room = 64, .at = WAFER_NEW(arena, entry, 64)};
  return map->at ? map : NULL;
}

static entry *find(const wafer_ir_map *map, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
  size_t slot = (size_t)(hash >> 20) & (map->room - 1);
  while (map->at[slot].key && map->at[slot].key != key) slot = (slot + 1) & (map->room - 1);
  return &map->at[slot];
}

static bool grow(wafer_ir_map *map) {
  wafer_ir_map larger = {.arena = map->arena,
                         .count = map->count,
                         .room = 2 * map->room,
                         .at = WAFER_NEW(map->arena, entry, 2 * map->room)};
  if (!larger.at) return false;
  for (size_t i = 0; i < map->room; i++)
    if (map->at[i].key) *find(&larger, map->at[i].key) = map->at[i];
  *map = larger;
  return true;
}

bool wafer_ir_map_put(wafer_ir_map *map, const void *key, uint32_t number) {
  if (2 * map->count >= map->room && !grow(map)) return false;
  entry *at = find(map, key);
  if (!at->key) map->count++;
  *at = (entry){.key = key, .number = number};
  return true;
}

uint32_t wafer_ir_map_get(const wafer_ir_map *map, const void *key) {
  const entry *at = find(map, key);
  return at->key ? at->number : WAFER_NONE;
}
