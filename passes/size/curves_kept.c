#include "curves_kept.h"

#include <string.h>

#include "ir/intern.h"

struct wafer_curves {
  const wafer_machine *machine;
  wafer_arena *arena;
  intern *at;
  split_costs *costs;
};

wafer_curves *wafer_curves_create(wafer_arena *arena, const wafer_machine *machine) {
  wafer_curves *made = WAFER_NEW(arena, wafer_curves, 1);
  if (!made) return NULL;
  *made = (wafer_curves){machine, arena, intern_create(arena), split_costs_create(arena)};
  return made->at && made->costs ? made : NULL;
}

split_costs *curves_kept_costs(const wafer_curves *curves) {
  return curves->costs;
}

/* A band has a copy of its wafer. */
bool curves_same_wafer(const wafer_machine *a, const wafer_machine *b) {
  a = a->whole ? a->whole : a;
  b = b->whole ? b->whole : b;
  return a == b || !memcmp(a, b, sizeof *a);
}

bool curves_kept_of(const wafer_curves *curves, const wafer_machine *machine) {
  return curves && curves_same_wafer(machine, curves->machine);
}

/* NULL: out of memory. */
static void **slot_of(wafer_curves *curves, const curves_key *key) {
  const curve_query *q = &key->query;
  const uint64_t words[] = {key->signature,
                            q->budget,
                            q->words,
                            (uint64_t)q->lean << 1 | q->copied,
                            (uint64_t)key->max_width << 32 | key->max_height,
                            key->most_points};
  return intern_slot(curves->at, words, sizeof words);
}

const wafer_curve *curves_kept_find(wafer_curves *curves, const curves_key *key) {
  void **slot = slot_of(curves, key);
  return slot ? *slot : NULL;
}

const wafer_curve *curves_kept_add(wafer_curves *curves, const curves_key *key,
                                   const wafer_curve *curve) {
  void **slot = slot_of(curves, key);
  wafer_curve *kept = slot ? wafer_arena_copy(curves->arena, curve, sizeof *kept) : NULL;
  size_t bytes = curve->count * sizeof *curve->at;
  if (!kept || (bytes && !(kept->at = wafer_arena_copy(curves->arena, curve->at, bytes))))
    return NULL;
  return *slot = kept;
}
