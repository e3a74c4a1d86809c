/* A bump allocator: everything of one compilation, or of one open plan, lives in one and dies with
 * it. */
#ifndef WAFER_ARENA_H
#define WAFER_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wafer/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_arena wafer_arena;

/* NULL when the host is out of memory. */
wafer_arena *wafer_arena_create(void);
void wafer_arena_destroy(wafer_arena *arena); /* NULL is fine */

/* `count * size` zeroed bytes aligned to 16; NULL on overflow or when the host is out of memory.
 * A count of 0 gives a valid pointer. */
void *wafer_arena_alloc(wafer_arena *arena, size_t count, size_t size);
#define WAFER_NEW(arena, type, count) ((type *)wafer_arena_alloc((arena), (count), sizeof(type)))

/* Room for one more in a list of `count` that is full at `room`: twice as much, or `least` at
 * first. `list` is the address of its pointer. False when out of memory; then all stays as it is.
 */
bool wafer_arena_grow(wafer_arena *arena, void *list, size_t count, uint32_t *room, size_t size,
                      uint32_t least);
#define WAFER_GROW(arena, list, count, room, least)                                                \
  wafer_arena_grow((arena), &(list), (count), &(room), sizeof *(list), (least))

/* Copies; NULL when out of memory, or for a NULL argument. */
char *wafer_arena_strdup(wafer_arena *arena, const char *text);
char *wafer_arena_strndup(wafer_arena *arena, const char *text, size_t bytes);
void *wafer_arena_copy(wafer_arena *arena, const void *data, size_t bytes);
char *wafer_arena_printf(wafer_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs `run(object)` when the arena is destroyed, latest first: what the arena's things hold
 * outside of it (a mapped file) ends with it. False when out of memory; then nothing is kept. */
bool wafer_arena_defer(wafer_arena *arena, void (*run)(void *object), void *object);

/* Bytes handed out so far. */
size_t wafer_arena_bytes(const wafer_arena *arena);

/* For tests: the n-th allocation from now fails (1 = the next one), 0 switches it off.
 * Process-wide. */
void wafer_arena_fail_after(size_t n);

#ifdef __cplusplus
}
#endif
#endif
