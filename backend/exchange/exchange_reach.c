/* Where to part near moves from far ones. A word goes to the end of its bus, whoever wants it: a
 * halo of eight words for the neighbour, on buses that reach eighty cores far, costs each of their
 * links as much as if all eight went that far. So moves that are much nearer than the others go
 * first, on buses of their own, where both together take less. */
#include "exchange_reach.h"

#include <stdlib.h>

#define GAP 2 /* the next distance is so many times as long, where a line may be parted */

/* Moves of a line in one direction, at one distance. */
typedef struct hop {
  uint32_t from, send, distance, words;
} hop;

static int by_sender(const void *left, const void *right) {
  const hop *a = left, *b = right;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  if (a->send != b->send) return a->send < b->send ? -1 : 1;
  return a->distance < b->distance ? -1 : a->distance > b->distance;
}

/* Those that go up, or down, by sender. */
static hop *hops_of(wafer_arena *scratch, const line *l, bool down, uint32_t *count) {
  hop *hops = WAFER_NEW(scratch, hop, l->move_count);
  *count = 0;
  for (uint32_t i = 0; hops && i < l->move_count; i++) {
    const line_move *m = &l->moves[i];
    if (m->from == m->to || (m->from > m->to) != down) continue;
    const line_parcel *parcel = &l->parcels[m->parcel];
    hops[(*count)++] =
        (hop){down ? l->length - 1 - m->from : m->from, parcel->send,
              down ? m->from - m->to : m->to - m->from, l->parcels[parcel->send].words};
  }
  if (hops) qsort(hops, *count, sizeof *hops, by_sender);
  return hops;
}

/* Moves of one direction, and room for the words of each sender. */
typedef struct flow {
  hop *hops;
  uint32_t count, length;
  uint64_t *words;
} flow;

/* What each position sends farther than `lo` and not farther than `hi`, each word once; the
 * farthest distance, 0: nothing. */
static uint32_t fill_words(const flow *f, uint32_t lo, uint32_t hi) {
  const hop *last = NULL;
  uint32_t far = 0;
  for (uint32_t q = 0; q < f->length; q++) f->words[q] = 0;
  for (uint32_t i = 0; i < f->count; i++) {
    const hop *h = &f->hops[i];
    if (h->distance <= lo || h->distance > hi) continue;
    if (!last || last->from != h->from || last->send != h->send) f->words[h->from] += h->words;
    last = h;
    if (h->distance > far) far = h->distance;
  }
  return far;
}

/* Cycles of the buses that these moves take: segments of `far` senders, of which a link carries two
 * (exchange_line.c). */
static uint64_t cycles_of(const wafer_machine *m, const flow *f, uint32_t lo, uint32_t hi) {
  uint32_t far = fill_words(f, lo, hi);
  uint64_t most = 0, before = 0;
  if (far == 0) return 0;
  uint32_t each = 2 * far >= f->length ? f->length : far;
  for (uint32_t first = 0; first < f->length; first += each) {
    uint64_t words = 0;
    for (uint32_t q = first; q < f->length && q < first + each; q++) words += f->words[q];
    if (words + before > most) most = words + before;
    before = far > 1 ? words : 0;
  }
  return most + 2ull * far * m->hop_cycles + 2ull * m->ramp_cycles + m->vector_setup_cycles +
         m->descriptor_load_cycles;
}

static uint64_t slower(const wafer_machine *m, const flow *flows, uint32_t lo, uint32_t hi) {
  uint64_t forth = cycles_of(m, &flows[0], lo, hi), back = cycles_of(m, &flows[1], lo, hi);
  return forth > back ? forth : back;
}

bool reach_near(const wafer_machine *machine, wafer_arena *scratch, const line *l, uint32_t *near) {
  flow flows[2];
  bool *used = WAFER_NEW(scratch, bool, l->length);
  *near = 0;
  if (!used) return false;
  for (uint32_t down = 0; down < 2; down++) {
    flow *f = &flows[down];
    *f = (flow){.length = l->length, .words = WAFER_NEW(scratch, uint64_t, l->length)};
    f->hops = hops_of(scratch, l, down, &f->count);
    if (!f->hops || !f->words) return false;
    for (uint32_t i = 0; i < f->count; i++) used[f->hops[i].distance] = true;
  }
  uint64_t best = slower(machine, flows, 0, l->length);
  for (uint32_t d = 1, last = 0; d < l->length; d++) {
    if (!used[d]) continue;
    if (last && d >= GAP * last) {
      uint64_t both = slower(machine, flows, 0, last) + slower(machine, flows, last, l->length);
      if (both < best) {
        best = both;
        *near = last;
      }
    }
    last = d;
  }
  return true;
}
