#include "turns.h"

#include <stdbool.h>
#include <string.h>

static void insert_turn(turns *t, uint32_t at, uint64_t from, uint64_t to) {
  bool joins_last = at > 0 && t->to[at - 1] == from,
       joins_next = at < t->count && t->from[at] == to;
  if (joins_last && joins_next) {
    t->to[at - 1] = t->to[at];
    t->count--;
    memmove(&t->from[at], &t->from[at + 1], (t->count - at) * sizeof t->from[0]);
    memmove(&t->to[at], &t->to[at + 1], (t->count - at) * sizeof t->to[0]);
  } else if (joins_last) {
    t->to[at - 1] = to;
  } else if (joins_next) {
    t->from[at] = from;
  } else {
    memmove(&t->from[at + 1], &t->from[at], (t->count - at) * sizeof t->from[0]);
    memmove(&t->to[at + 1], &t->to[at], (t->count - at) * sizeof t->to[0]);
    t->from[at] = from;
    t->to[at] = to;
    t->count++;
  }
}

uint64_t turns_take(turns *t, uint64_t start, uint64_t cycles) {
  if (cycles == 0) return start;
  if (t->count == TURNS) {
    t->forgotten = t->to[0];
    t->count--;
    memmove(&t->from[0], &t->from[1], t->count * sizeof t->from[0]);
    memmove(&t->to[0], &t->to[1], t->count * sizeof t->to[0]);
  }
  if (start < t->forgotten) start = t->forgotten;
  uint32_t at = t->count;
  while (at > 0 && t->from[at - 1] >= start + cycles) at--;
  while (at > 0 && t->to[at - 1] > start) at--;
  for (; at < t->count && t->from[at] < start + cycles; at++)
    if (start < t->to[at]) start = t->to[at];
  insert_turn(t, at, start, start + cycles);
  return start;
}
