/* Which addresses of which cores are taken: copies of values on rectangles, while they live. */
#ifndef BACKEND_MEMORY_MAP_H
#define BACKEND_MEMORY_MAP_H

#include "exchange/spread.h"
#include "wafer/plan.h"

typedef struct memory_place {
  uint32_t value;
  uint32_t sample; /* of those resident together; 0 of weights */
  wafer_holding at;
  spread spread; /* at its address */
  uint32_t address, bytes;
} memory_place;

typedef struct memory_map {
  wafer_arena *arena;
  uint32_t limit; /* addresses below it may be used */
  uint32_t count, room;
  memory_place *at;
} memory_map;

/* The lowest `bytes` bytes that are free on every core of the place's rectangle, at an address from
 * `least` on that is `phase` modulo 8. NULL: no room, or (*no_memory) no host memory. */
memory_place *memory_take(memory_map *map, memory_place place, uint32_t least, uint32_t phase,
                          bool *no_memory);
/* Takes bytes at a given address for nobody in particular: WAFER_NONE drops them. False: no host
 * memory. */
bool memory_put(memory_map *map, wafer_rect rect, uint32_t address, uint32_t bytes);
memory_place *memory_find(const memory_map *map, uint32_t value, uint32_t sample,
                          const wafer_holding *at);
/* The first address above everything that any core of the rectangle holds. */
uint32_t memory_top(const memory_map *map, wafer_rect rect);
/* Ends all copies of a value but those that lie where one of `but` says. */
void memory_drop(memory_map *map, uint32_t value, const wafer_holding *but, uint32_t count);
/* Ends the copies of a value that lie there. */
void memory_drop_at(memory_map *map, uint32_t value, const wafer_holding *at);
/* What is taken for nobody in particular is so in `to` instead. False: no host memory. */
bool memory_hand_over(memory_map *from, memory_map *to);

#endif
