#include "scope.h"

#include <string.h>

bool scope_init(scope *s, wafer_arena *arena, const scope *outer, const frame *f, size_t names) {
  size_t slots = 8;
  while (slots < 2 * names) slots *= 2;
  *s = (scope){.outer = outer, .frame = f, .mask = slots - 1};
  s->slots = WAFER_NEW(arena, name_entry, slots);
  return s->slots != NULL;
}

static size_t slot_of(const scope *s, const char *name) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (const char *at = name; *at; at++) hash = (hash ^ (uint8_t)*at) * UINT64_C(1099511628211);
  size_t slot = (size_t)(hash ^ hash >> 29) & s->mask;
  while (s->slots[slot].name && strcmp(s->slots[slot].name, name)) slot = (slot + 1) & s->mask;
  return slot;
}

name_entry *scope_find(const scope *s, const char *name) {
  for (; s; s = s->outer) {
    name_entry *entry = &s->slots[slot_of(s, name)];
    if (entry->name) return entry;
  }
  return NULL;
}

name_entry *scope_add(scope *s, const char *name) {
  name_entry *entry = &s->slots[slot_of(s, name)];
  if (entry->name) return NULL;
  entry->name = name;
  return entry;
}
