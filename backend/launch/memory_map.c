#include "memory_map.h"

#include <string.h>

#define ALIGN 8

/* Moves `address` above a place that it would overlap; false: none is in the way. */
static bool step_over(const memory_map *map, wafer_rect rect, uint32_t bytes, uint32_t *address) {
  for (uint32_t i = 0; i < map->count; i++) {
    const memory_place *p = &map->at[i];
    bool apart = *address + bytes <= p->address || p->address + p->bytes <= *address;
    if (apart || !wafer_rect_overlaps(rect, p->at.rect)) continue;
    *address = p->address + p->bytes;
    return true;
  }
  return false;
}

memory_place *memory_take(memory_map *map, memory_place place, uint32_t least, uint32_t phase,
                          bool *no_memory) {
  uint32_t address = least + (phase - least) % ALIGN; /* unsigned: up to the next such address */
  *no_memory = false;
  if (place.bytes > map->limit) return NULL;
  while (step_over(map, place.at.rect, place.bytes, &address)) address += (phase - address) % ALIGN;
  if (address > map->limit - place.bytes) return NULL;
  if (!WAFER_GROW(map->arena, map->at, map->count, map->room, 64)) {
    *no_memory = true;
    return NULL;
  }
  place.address = address;
  place.spread.address = (int32_t)address;
  map->at[map->count] = place;
  return &map->at[map->count++];
}

bool memory_put(memory_map *map, wafer_rect rect, uint32_t address, uint32_t bytes) {
  if (bytes == 0) return true;
  if (!WAFER_GROW(map->arena, map->at, map->count, map->room, 64)) return false;
  map->at[map->count++] = (memory_place){.value = WAFER_NONE,
                                         .at = {.where = WAFER_AT_wafer, .rect = rect},
                                         .address = address,
                                         .bytes = bytes};
  return true;
}

memory_place *memory_find(const memory_map *map, uint32_t value, uint32_t sample,
                          const wafer_holding *at) {
  for (uint32_t i = 0; i < map->count; i++)
    if (map->at[i].value == value && map->at[i].sample == sample &&
        wafer_holding_equal(&map->at[i].at, at))
      return &map->at[i];
  return NULL;
}

uint32_t memory_top(const memory_map *map, wafer_rect rect) {
  uint32_t top = 0;
  for (uint32_t i = 0; i < map->count; i++) {
    const memory_place *p = &map->at[i];
    if (wafer_rect_overlaps(rect, p->at.rect) && p->address + p->bytes > top)
      top = p->address + p->bytes;
  }
  return (top + ALIGN - 1) / ALIGN * ALIGN;
}

void memory_drop(memory_map *map, uint32_t value, const wafer_holding *but, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < map->count; i++) {
    bool keeps = map->at[i].value != value;
    for (uint32_t b = 0; b < count; b++) keeps |= wafer_holding_equal(&map->at[i].at, &but[b]);
    if (keeps) map->at[kept++] = map->at[i];
  }
  map->count = kept;
}

void memory_drop_at(memory_map *map, uint32_t value, const wafer_holding *at) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < map->count; i++)
    if (map->at[i].value != value || !wafer_holding_equal(&map->at[i].at, at))
      map->at[kept++] = map->at[i];
  map->count = kept;
}

bool memory_hand_over(memory_map *from, memory_map *to) {
  for (uint32_t i = 0; i < from->count; i++) {
    const memory_place *p = &from->at[i];
    if (p->value == WAFER_NONE && !memory_put(to, p->at.rect, p->address, p->bytes)) return false;
  }
  memory_drop(from, WAFER_NONE, NULL, 0);
  return true;
}
