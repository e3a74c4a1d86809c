#include "wafer/weights.h"

#include <string.h>
#include <xxhash.h>

#define FIRST_SLOTS 64 /* a power of two */

typedef struct entry {
  wafer_weight weight; /* first: a wafer_weight * is its entry */
  uint64_t hash;       /* of the name */
  uint32_t suffix;     /* the last one that was tried for this name */
  struct entry *next;  /* with as much to share */
} entry;

#define SHARED 1024 /* lists of entries to share, by digest */

struct wafer_weights {
  wafer_arena *arena;
  size_t count, slot_count; /* at most half of the slots are taken */
  entry **entries;          /* slot_count / 2 of them, in insertion order */
  entry **slots;            /* open addressing by hash */
  entry **shared;           /* SHARED lists; NULL: nothing is shared yet */
};

static bool resize(wafer_weights *weights, size_t slot_count) {
  entry **entries = WAFER_NEW(weights->arena, entry *, slot_count / 2);
  entry **slots = WAFER_NEW(weights->arena, entry *, slot_count);
  if (!entries || !slots) return false;
  for (size_t i = 0; i < weights->count; i++) {
    size_t at = weights->entries[i]->hash & (slot_count - 1);
    while (slots[at]) at = (at + 1) & (slot_count - 1);
    slots[at] = entries[i] = weights->entries[i];
  }
  weights->entries = entries;
  weights->slots = slots;
  weights->slot_count = slot_count;
  return true;
}

wafer_weights *wafer_weights_create(wafer_arena *arena) {
  wafer_weights *made = WAFER_NEW(arena, wafer_weights, 1);
  if (!made) return NULL;
  made->arena = arena;
  return resize(made, FIRST_SLOTS) ? made : NULL;
}

static uint64_t hash_of(const char *name) {
  return XXH3_64bits(name, strlen(name));
}

/* Where a name is, or where it would go. */
static entry **slot_of(const wafer_weights *weights, const char *name, uint64_t hash) {
  size_t at = hash & (weights->slot_count - 1);
  for (entry *found; (found = weights->slots[at]); at = (at + 1) & (weights->slot_count - 1))
    if (found->hash == hash && strcmp(found->weight.name, name) == 0) break;
  return &weights->slots[at];
}

wafer_weight *wafer_weights_find(const wafer_weights *weights, const char *name) {
  entry *found = *slot_of(weights, name, hash_of(name));
  return found ? &found->weight : NULL;
}

/* `name` itself, or name_2, name_3, ...: the count is kept so that many equal names stay linear. */
static const char *free_name(wafer_weights *weights, const char *name) {
  entry *taken = *slot_of(weights, name, hash_of(name));
  const char *found = wafer_arena_strdup(weights->arena, name);
  if (!taken) return found;
  do {
    taken->suffix = taken->suffix ? taken->suffix + 1 : 2;
    found = wafer_arena_printf(weights->arena, "%s_%u", name, taken->suffix);
  } while (found && wafer_weights_find(weights, found));
  return found;
}

wafer_weight *wafer_weights_add(wafer_weights *weights, const char *name, wafer_dtype dtype,
                                const wafer_shape *shape, const void *data) {
  if (weights->count == weights->slot_count / 2 && !resize(weights, weights->slot_count * 2))
    return NULL;
  const char *own_name = free_name(weights, name);
  entry *made = WAFER_NEW(weights->arena, entry, 1);
  if (!own_name || !made) return NULL;
  size_t bytes = wafer_tensor_bytes(dtype, shape);
  made->weight = (wafer_weight){.name = own_name,
                                .dtype = dtype,
                                .shape = *shape,
                                .data = data,
                                .bytes = bytes,
                                .expected = ""};
  made->hash = hash_of(own_name);
  *slot_of(weights, own_name, made->hash) = made;
  weights->entries[weights->count++] = made;
  return &made->weight;
}

static bool has_data(const entry *e, wafer_dtype dtype, const wafer_shape *shape,
                     const void *data) {
  return e->weight.dtype == dtype && wafer_shape_equal(&e->weight.shape, shape) &&
         memcmp(e->weight.data, data, e->weight.bytes) == 0;
}

wafer_weight *wafer_weights_share(wafer_weights *weights, const char *name, wafer_dtype dtype,
                                  const wafer_shape *shape, const void *data) {
  if (!weights->shared && !(weights->shared = WAFER_NEW(weights->arena, entry *, SHARED)))
    return NULL;
  uint64_t digest = XXH3_64bits(data, wafer_tensor_bytes(dtype, shape));
  entry **list = &weights->shared[digest % SHARED];
  for (entry *e = *list; e; e = e->next)
    if (e->weight.digest == digest && has_data(e, dtype, shape, data)) return &e->weight;
  entry *made = (entry *)wafer_weights_add(weights, name, dtype, shape, data);
  if (!made) return NULL;
  made->weight.digest = digest;
  made->next = *list;
  *list = made;
  return &made->weight;
}

size_t wafer_weights_count(const wafer_weights *weights) {
  return weights->count;
}

wafer_weight *wafer_weights_at(const wafer_weights *weights, size_t index) {
  return index < weights->count ? &weights->entries[index]->weight : NULL;
}

wafer_view wafer_weight_view(const wafer_weight *weight) {
  return wafer_view_of(weight->dtype, &weight->shape, (void *)(uintptr_t)weight->data);
}

uint64_t wafer_weight_digest(wafer_weight *weight) {
  if (weight->data && !weight->digest) weight->digest = XXH3_64bits(weight->data, weight->bytes);
  return weight->digest;
}
