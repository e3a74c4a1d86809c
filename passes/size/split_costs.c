#include "split_costs.h"

#include "ir/intern.h"

struct split_costs {
  wafer_arena *arena;
  intern *at;
  wafer_opened_body *opened;
  split_body of; /* the one that is opened */
};

split_costs *split_costs_create(wafer_arena *arena) {
  split_costs *costs = WAFER_NEW(arena, split_costs, 1);
  if (!costs) return NULL;
  *costs = (split_costs){
      .arena = arena, .at = intern_create(arena), .opened = wafer_opened_body_create(arena)};
  return costs->at && costs->opened ? costs : NULL;
}

split_body split_body_of(split_costs *costs, const wafer_machine *machine,
                         const wafer_kernel_body *body) {
  return (split_body){
      .costs = costs, .machine = machine, .body = body, .signature = wafer_kernel_signature(body)};
}

/* The signature, and each loop that is cut. */
static size_t put_key(const split_body *of, const wafer_split *split, uint64_t *key) {
  size_t n = 0;
  key[n++] = of->signature;
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) {
    if (split->rows[l] == 1 && split->cols[l] == 1) continue;
    key[n++] = l;
    key[n++] = (uint64_t)split->rows[l] << 32 | split->cols[l];
  }
  return n;
}

static wafer_opened_body *opened_of(const split_body *of) {
  split_costs *costs = of->costs;
  if (costs->of.body != of->body || costs->of.machine != of->machine ||
      costs->of.signature != of->signature) {
    costs->of = *of;
    wafer_opened_body_open(costs->opened, of->machine, of->body);
  }
  return costs->opened;
}

static split_cost cost_of(const split_body *of, const wafer_split *split) {
  wafer_cost cost;
  wafer_opened_body_cost(opened_of(of), split, &cost);
  return (split_cost){cost.cycles, wafer_cost_bytes(&cost)};
}

split_cost split_cost_find(const split_body *of, const wafer_split *split) {
  uint64_t key[1 + 2 * WAFER_MAX_LOOPS];
  size_t words = put_key(of, split, key);
  void **slot = intern_slot(of->costs->at, key, words * sizeof *key);
  if (slot && *slot) return *(const split_cost *)*slot;
  const split_cost cost = cost_of(of, split);
  if (slot) *slot = wafer_arena_copy(of->costs->arena, &cost, sizeof cost);
  return cost;
}

wafer_layout split_layout_of(const split_body *of, const wafer_split *split, uint32_t value) {
  return wafer_opened_body_layout(opened_of(of), split, value);
}
