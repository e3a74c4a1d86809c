/* What passes a line in which order: kept with the fragment, for its clocks. */
#include <stdlib.h>
#include <string.h>

#include "exchange_line.h"

static int by_last_word(const void *left, const void *right) {
  const fragment_taker *a = left, *b = right;
  if (a->block != b->block) return a->block < b->block ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

/* Takers by the word with which their queues are full, the order that they have where it is one. */
static bool order_full(wafer_arena *arena, fragment_bus *bus) {
  uint32_t *full = WAFER_NEW(arena, uint32_t, bus->taker_count);
  if (!full) return false;
  for (uint32_t i = 0; i < bus->taker_count; i++) {
    const fragment_taker *own = &bus->takers[i];
    uint32_t at = bus->full_count;
    if (!own->full) continue;
    for (; at > 0; at--) {
      const fragment_taker *other = &bus->takers[full[at - 1]];
      if (other->full_block < own->full_block) break;
      if (other->full_block == own->full_block && other->full <= own->full) break;
      full[at] = full[at - 1];
    }
    full[at] = i;
    bus->full_count++;
  }
  bus->full = full;
  return true;
}

bool line_order_bus(line_order *o, const fragment_bus *bus) {
  wafer_arena *arena = o->f->arena;
  if (!WAFER_GROW(arena, o->buses, o->bus_count, o->bus_room, 2)) return false;
  fragment_taker *takers = WAFER_NEW(arena, fragment_taker, bus->taker_count);
  fragment_bus *own = &o->buses[o->bus_count++];
  *own = *bus;
  own->taker_count = 0;
  own->blocks = wafer_arena_copy(arena, bus->blocks, bus->block_count * sizeof *bus->blocks);
  own->takers = takers;
  if (!own->blocks || !takers) return false;
  for (uint32_t i = 0; i < bus->taker_count; i++)
    if (bus->takers[i].words) takers[own->taker_count++] = bus->takers[i];
  qsort(takers, own->taker_count, sizeof *takers, by_last_word);
  return order_full(arena, own);
}

static uint32_t position(const line *l, const fragment_bus *bus, uint32_t place) {
  return bus->back ? l->length - 1 - place : place;
}

void line_order_pace(const line_order *o, const line *l, const line_core *cores) {
  for (uint32_t b = 0; b < o->bus_count; b++) {
    const fragment_bus *bus = &o->buses[b];
    fragment_block *blocks = (fragment_block *)bus->blocks;
    fragment_taker *takers = (fragment_taker *)bus->takers;
    uint32_t segment = cores[position(l, bus, blocks[0].at)].segment[bus->back];
    for (uint32_t k = 0; k < bus->block_count; k++)
      blocks[k].cycles = cores[position(l, bus, blocks[k].at)].sending[bus->back];
    for (uint32_t t = 0; t < bus->taker_count; t++)
      takers[t].other = cores[position(l, bus, takers[t].at)].segment[bus->back] != segment;
  }
}

bool line_order_end(const line_order *o, const line *l, const line_place *place,
                    const line_core *cores, const uint64_t *busy) {
  wafer_arena *arena = o->f->arena;
  fragment_transfers *transfers = WAFER_NEW(arena, fragment_transfers, l->length);
  fragment_line own = {
      .columns = place->columns,
      .trunks = place->trunks,
      .border = place->border != NULL,
      .first = place->first,
      .length = l->length,
      .span_count = place->span_count,
      .bus_count = o->bus_count,
      .spans = wafer_arena_copy(arena, place->spans, place->span_count * sizeof *place->spans),
      .buses = o->buses,
      .busy = wafer_arena_copy(arena, busy, l->length * sizeof *busy),
      .transfers = transfers};
  if (!own.spans || !own.busy || !transfers) return false;
  for (uint32_t p = own.border; p < l->length; p++) transfers[p] = cores[p].transfers;
  fragment_line_add(o->f, &own);
  return !o->f->failed;
}
