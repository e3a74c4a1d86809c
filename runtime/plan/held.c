#include "held.h"

bool held_init(held *h, wafer_arena *arena, const wafer_plan *plan,
               const wafer_function *function) {
  *h = (held){.arena = arena, .of = WAFER_NEW(arena, held_entry *, plan->value_count)};
  if (!h->of) return false;
  const wafer_holding edge = {.where = WAFER_AT_edge}, store = {.where = WAFER_AT_memoryx};
  for (uint32_t i = 0; i < function->input_count; i++)
    if (!held_add(h, function->inputs[i], &edge, WAFER_NONE)) return false;
  for (uint32_t i = 0; i < plan->value_count; i++)
    if (plan->values[i].weight != WAFER_NONE && !held_add(h, i, &store, WAFER_NONE)) return false;
  return true;
}

const held_entry *held_find(const held *h, uint32_t value, const wafer_holding *holding) {
  for (const held_entry *e = h->of[value]; e; e = e->next)
    if (wafer_holding_equal(&e->holding, holding)) return e;
  return NULL;
}

bool held_add(held *h, uint32_t value, const wafer_holding *holding, uint32_t maker) {
  held_entry *e = h->spare ? h->spare : WAFER_NEW(h->arena, held_entry, 1);
  if (!e) return false;
  if (e == h->spare) h->spare = e->next;
  *e = (held_entry){.next = h->of[value], .holding = *holding, .maker = maker};
  h->of[value] = e;
  return true;
}

void held_drop(held *h, uint32_t value) {
  for (held_entry **at = &h->of[value]; *at;) {
    held_entry *e = *at;
    if (e->holding.where != WAFER_AT_wafer) {
      at = &e->next;
      continue;
    }
    *at = e->next;
    e->next = h->spare;
    h->spare = e;
  }
}

wafer_holding held_input(const wafer_kernel *k, uint32_t input) {
  return (wafer_holding){.where = WAFER_AT_wafer,
                         .rect = k->rect,
                         .layout = wafer_kernel_input_layout(&k->body, &k->split, input)};
}

wafer_holding held_output(const wafer_kernel *k, uint32_t output) {
  return (wafer_holding){.where = WAFER_AT_wafer,
                         .rect = k->rect,
                         .layout = wafer_kernel_output_layout(&k->body, &k->split, output)};
}
