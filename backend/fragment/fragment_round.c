/* The border in a train: words of the host that a sample brings, in turn a word of every port that
 * has some left; words of cores, as they come. */
#include "fragment_clock.h"

#include <string.h>

static bool is_fed(const fragment_line *line, const fragment_bus *bus) {
  return line->border && !bus->back && bus->block_count && bus->blocks[0].at == 0;
}

static uint32_t ports_of(const fragment_line *line) {
  uint32_t ports = 0;
  for (uint32_t s = 0; s < line->span_count; s++) ports += line->trunks ? 1 : line->spans[s].count;
  return ports;
}

bool fragment_is_fed(const fragment *f) {
  for (uint32_t i = 0; i < f->line_count; i++)
    for (uint32_t b = 0; b < f->lines[i].bus_count; b++)
      if (is_fed(&f->lines[i], &f->lines[i].buses[b])) return true;
  return false;
}

static bool add_feed(fragment_round *r, wafer_arena *arena, fragment_feed feed) {
  r->words += feed.words * feed.ports;
  for (uint32_t i = 0; i < r->feed_count; i++)
    if (r->feeds[i].words == feed.words) {
      r->feeds[i].ports += feed.ports;
      return true;
    }
  if (!WAFER_GROW(arena, r->feeds, r->feed_count, r->feed_room, 4)) return false;
  r->feeds[r->feed_count++] = feed;
  return true;
}

bool fragment_round_add(fragment_round *r, wafer_arena *arena, const fragment *f) {
  bool fed = false;
  for (uint32_t i = 0; i < f->line_count; i++)
    for (uint32_t b = 0; b < f->lines[i].bus_count; b++) {
      const fragment_line *line = &f->lines[i];
      if (!is_fed(line, &line->buses[b])) continue;
      fragment_feed feed = {.words = line->buses[b].blocks[0].words, .ports = ports_of(line)};
      if (!add_feed(r, arena, feed)) return false;
      fed = true;
    }
  if (fed) r->cycles += f->border;
  return true;
}

/* In its last turn a port is in the middle of the others, on average. */
int64_t fragment_round_cycles(const fragment_round *r, uint64_t words) {
  uint64_t twice = 0; /* the words before that turn, and those behind it */
  for (uint32_t i = 0; i < r->feed_count; i++) {
    const fragment_feed *feed = &r->feeds[i];
    twice += feed->words < words ? 2 * feed->words * feed->ports : (2 * words - 1) * feed->ports;
  }
  return r->words ? (int64_t)(r->cycles * twice / (2 * r->words)) : 0;
}

/* Fills gaps behind `from`, and what is behind them all. */
int64_t fragment_border_ends(const fragment_border *b, int64_t from, int64_t cycles) {
  for (uint32_t i = 0; i < b->count; i++) {
    int64_t begin = b->gaps[i][0] > from ? b->gaps[i][0] : from, room = b->gaps[i][1] - begin;
    if (room <= 0) continue;
    if (room >= cycles) return begin + cycles;
    cycles -= room;
  }
  return (b->busy > from ? b->busy : from) + cycles;
}

static void drop_gap(fragment_border *b, uint32_t at) {
  memmove(&b->gaps[at], &b->gaps[at + 1], (--b->count - at) * sizeof *b->gaps);
}

void fragment_border_pass(fragment_border *b, int64_t from, int64_t cycles) {
  int64_t end = fragment_border_ends(b, from, cycles);
  for (uint32_t i = b->count; i-- > 0;) {
    int64_t *gap = b->gaps[i];
    if (gap[1] <= from || gap[0] >= end) continue;
    if (gap[0] < from && gap[1] <= end)
      gap[1] = from; /* a gap that is cut in two keeps its later part */
    else if (gap[1] > end)
      gap[0] = end;
    else
      drop_gap(b, i);
  }
  if (end <= b->busy) return;
  if (from > b->busy) {
    if (b->count == FRAGMENT_GAPS) drop_gap(b, 0);
    b->gaps[b->count][0] = b->busy;
    b->gaps[b->count++][1] = from;
  }
  b->busy = end;
}
