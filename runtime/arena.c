#include "wafer/arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16u
#define FIRST_BLOCK ((size_t)16 << 10)
#define LAST_BLOCK ((size_t)1 << 20)

typedef struct block {
  struct block *next;
  size_t used, bytes;
  _Alignas(ALIGNMENT) unsigned char data[];
} block;

typedef struct cleanup {
  struct cleanup *next;
  void (*run)(void *object);
  void *object;
} cleanup;

struct wafer_arena {
  block *blocks;     /* the first one is filled, the others are full or hold one large object */
  cleanup *cleanups; /* latest first */
  size_t next_block, total;
};

static atomic_size_t fail_countdown;

void wafer_arena_fail_after(size_t n) {
  atomic_store(&fail_countdown, n);
}

static bool told_to_fail(void) {
  size_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
  while (left && !atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {
  }
  return left == 1;
}

wafer_arena *wafer_arena_create(void) {
  if (told_to_fail()) return NULL;
  wafer_arena *arena = calloc(1, sizeof *arena);
  if (arena) arena->next_block = FIRST_BLOCK;
  return arena;
}

void wafer_arena_destroy(wafer_arena *arena) {
  if (!arena) return;
  for (cleanup *at = arena->cleanups; at; at = at->next) at->run(at->object);
  for (block *at = arena->blocks, *next; at; at = next) {
    next = at->next;
    free(at);
  }
  free(arena);
}

static block *block_create(size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(block)) return NULL;
  block *made =
      calloc(1, sizeof *made + bytes); /* large ones come from the system already zeroed */
  if (made) made->bytes = bytes;
  return made;
}

/* A block of its own, behind the one that is being filled. */
static void *alloc_large(wafer_arena *arena, size_t bytes) {
  block *made = block_create(bytes);
  if (!made) return NULL;
  made->used = bytes;
  block **link = arena->blocks ? &arena->blocks->next : &arena->blocks;
  made->next = *link;
  *link = made;
  return made->data;
}

static bool add_block(wafer_arena *arena) {
  block *made = block_create(arena->next_block);
  if (!made) return false;
  made->next = arena->blocks;
  arena->blocks = made;
  if (arena->next_block < LAST_BLOCK) arena->next_block *= 2;
  return true;
}

static void *alloc_bytes(wafer_arena *arena, size_t bytes) {
  block *first = arena->blocks;
  if (!first || first->bytes - first->used < bytes) {
    if (bytes > arena->next_block / 4) return alloc_large(arena, bytes);
    if (!add_block(arena)) return NULL;
    first = arena->blocks;
  }
  void *result = first->data + first->used;
  first->used += bytes;
  return result;
}

void *wafer_arena_alloc(wafer_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (told_to_fail() || __builtin_mul_overflow(count, size, &bytes)) return NULL;
  if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
  bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  void *result = alloc_bytes(arena, bytes);
  if (result) arena->total += bytes;
  return result;
}

bool wafer_arena_defer(wafer_arena *arena, void (*run)(void *object), void *object) {
  cleanup *made = WAFER_NEW(arena, cleanup, 1);
  if (!made) return false;
  *made = (cleanup){arena->cleanups, run, object};
  arena->cleanups = made;
  return true;
}

void *wafer_arena_copy(wafer_arena *arena, const void *data, size_t bytes) {
  if (!data) return NULL;
  void *copy = wafer_arena_alloc(arena, bytes, 1);
  if (copy && bytes) memcpy(copy, data, bytes);
  return copy;
}

char *wafer_arena_strndup(wafer_arena *arena, const char *text, size_t bytes) {
  if (!text || bytes == SIZE_MAX) return NULL;
  char *copy = wafer_arena_alloc(arena, bytes + 1, 1);
  if (copy && bytes) memcpy(copy, text, bytes);
  return copy;
}

bool wafer_arena_grow(wafer_arena *arena, void *list, size_t count, uint32_t *room, size_t size,
                      uint32_t least) {
  void *old, *more;
  uint32_t next = *room ? 2 * *room : least;
  if (count < *room) return true;
  memcpy(&old, list, sizeof old);
  more = next > count ? wafer_arena_alloc(arena, next, size) : NULL;
  if (!more) return false;
  if (count) memcpy(more, old, count * size);
  memcpy(list, &more, sizeof more);
  *room = next;
  return true;
}

char *wafer_arena_strdup(wafer_arena *arena, const char *text) {
  return text ? wafer_arena_strndup(arena, text, strlen(text)) : NULL;
}

char *wafer_arena_printf(wafer_arena *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : wafer_arena_alloc(arena, (size_t)length + 1, 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

size_t wafer_arena_bytes(const wafer_arena *arena) {
  return arena->total;
}
