/* Hops as bits. Most queues of a busy fabric hold two words and have one way on, over a link of one
 * cycle into another such queue: of those no more has to be known than how many words are in them.
 * Each is a bit, and the candidates of a link are a field of bits, in the order of ranks. A cycle
 * finds for each field the one whose turn it is among those that have a wavelet and room beyond,
 * many fields at once, and sets the bits of the queues to which those go. The wavelets stay where
 * they are: on a way through such queues they keep their order, so they are written down where the
 * way begins, and read where it ends.
 *
 * All is known when the cycle begins: a wavelet that comes in this cycle leaves in the next one at
 * the earliest, and room that one leaves is seen in the next. Where a way begins and ends are
 * queues as others are; a link that asks for one without room is served again. */
#include "router_bits.h"

#include <string.h>

#include "tensor/vmath.h"

#define AHEAD 4 /* ends, of fetching */

/* ---- fields ---- */

#define INLINE inline __attribute__((always_inline)) /* into each of the clones */
#define VECTOR 32 /* bytes; hosts without such vectors take two */
#define VECTORS (8 * BITS_WORDS / VECTOR)
typedef uint8_t fields8 __attribute__((vector_size(VECTOR), may_alias));
typedef uint16_t fields16 __attribute__((vector_size(VECTOR), may_alias));
typedef uint32_t fields32 __attribute__((vector_size(VECTOR), may_alias));
typedef uint64_t words __attribute__((vector_size(VECTOR), may_alias));
#define OF(type, kind) ((type *)g->kind)[i]

/* Of each field of a group, who goes: the first of those that can after the one that went last.
 * And: turns, once they have gone. */
#define WIDTH(bits)                                                                                \
  static INLINE void pick##bits(bits_group *g) {                                                   \
    for (uint32_t i = 0; i < VECTORS; i++) {                                                       \
      fields##bits can = OF(fields##bits, has) & ~OF(fields##bits, barred);                        \
      fields##bits high = can & OF(fields##bits, after);                                           \
      can = high | (can & (fields##bits)(high == 0));                                              \
      OF(fields##bits, goes) = can & -can;                                                         \
    }                                                                                              \
  }                                                                                                \
  static INLINE void turn##bits(bits_group *g) {                                                   \
    for (uint32_t i = 0; i < VECTORS; i++) {                                                       \
      fields##bits goes = OF(fields##bits, goes), kept = (fields##bits)(goes == 0);                \
      OF(fields##bits, after) = (OF(fields##bits, after) & kept) | -(goes + goes);                 \
    }                                                                                              \
  }
WIDTH(8)
WIDTH(16)
WIDTH(32)
#undef WIDTH

/* The lowest bits of those fields of 4 in which there are any: 16 times that, less it, is all bits
 * of the fields. */
#define LOWEST4(bits) ((bits | bits >> 1 | bits >> 2 | bits >> 3) & 0x1111111111111111)

static INLINE void pick4(bits_group *g) {
  for (uint32_t i = 0; i < VECTORS; i++) {
    words can = OF(words, has) & ~OF(words, barred), high = can & OF(words, after);
    words some = LOWEST4(high);
    can = high | (can & ~((some << 4) - some));
    words above = (can << 1 & 0xeeeeeeeeeeeeeeee) | (can << 2 & 0xcccccccccccccccc) |
                  (can << 3 & 0x8888888888888888);
    OF(words, goes) = can & ~above;
  }
}

static INLINE void turn4(bits_group *g) {
  for (uint32_t i = 0; i < VECTORS; i++) {
    words goes = OF(words, goes), some = LOWEST4(goes), high = some << 4;
    OF(words, after) = (OF(words, after) & ~(high - some)) | (high - (goes << 1));
  }
}

/* One candidate: it is always its turn. */
static INLINE void pick1(bits_group *g) {
  for (uint32_t i = 0; i < VECTORS; i++) OF(words, goes) = OF(words, has) & ~OF(words, barred);
}

/* ---- lists ---- */

/* The bits of a word, of which the first one has this number; seldom more than one. */
static INLINE uint32_t *list_bits(uint32_t *end, uint32_t first, uint64_t bits) {
  uint32_t *next = end + __builtin_popcountll(bits);
  *end++ = first + (uint32_t)__builtin_ctzll(bits | 1ull << 63);
  for (bits &= bits - 1; bits; bits &= bits - 1) *end++ = first + (uint32_t)__builtin_ctzll(bits);
  return next;
}

/* The place is that of a bit of `comes`. */
static inline void come(const struct router_bits *b, uint32_t place) {
  ((uint8_t *)b->at)[place / 8] |= (uint8_t)(1u << place % 8);
  b->active[place / BITS_PLACE_GROUP] = 1;
}

/* ---- ends of ways ---- */

/* Where the next wavelet goes in a queue; NULL: there is no room, also when its core has taken what
 * it would have by now. */
static inline fabric_entry *room_in(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  if (q->count == q->capacity && q->to_core) core_catch_up(f, f->sites[node].core);
  if (q->count == q->capacity) return NULL;
  fabric_entry *slot = fabric_slot(q, q->count);
  return fabric_until(slot->stamp, (uint32_t)f->now) ? NULL : slot;
}

/* No room beyond the bit: it does not ask before there is. */
static SELDOM void bar(wafer_fabric *f, struct router_bits *b, uint32_t bit, uint32_t node) {
  fabric_node *beyond = &f->nodes[node];
  uint32_t wait = fabric_room_in(f, beyond, 1);
  *bits_word(b, BITS_PLACE(goes, bit)) &= ~bits_mask(bit);
  *bits_word(b, BITS_PLACE(barred, bit)) |= bits_mask(bit);
  beyond->awaited |= wait == FABRIC_NONE;
  uint64_t taken = wait == FABRIC_NONE && beyond->to_core ? core_takes_at(f, node) : FABRIC_NEVER;
  if (taken != FABRIC_NEVER) wait = (uint32_t)(taken - f->now) + beyond->credit;
  if (wait != FABRIC_NONE) router_ask_in(f, FABRIC_BIT | FABRIC_BIT_ROOM | bit, wait);
}

/* The front of a queue leaves it; the next one asks when it may. */
static inline fabric_entry leave(wafer_fabric *f, struct router_bits *b, const bits_end *end) {
  fabric_node *q = &f->nodes[end->from];
  fabric_entry *entries = fabric_entry_at(q, 0), front = entries[q->head];
  uint32_t now = (uint32_t)f->now, next = q->head + 1u == q->capacity ? 0 : q->head + 1u;
  entries[q->head].stamp = fabric_stamp(now + q->credit);
  q->head = (uint16_t)next;
  q->count--;
  f->moved |= q->outer;
  if (q->awaited) router_tell_of_pop(f, end->from, q);
  if (!q->count) return front;
  uint32_t wait = fabric_until(entries[next].stamp, now);
  if (wait > 1)
    router_ask_in(f, FABRIC_BIT | end->bit, wait);
  else
    come(b, BITS_PLACE(comes, end->bit));
  return front;
}

/* Into a queue, mostly of a core. */
static inline void arrive(wafer_fabric *f, const bits_end *end, fabric_entry *slot,
                          fabric_entry entry) {
  fabric_node *q = &f->nodes[end->to];
  if ((q->flags & FABRIC_PUSH_FLAGS) != FABRIC_TO_CORE) {
    router_put(f, end->to, entry, end->latency);
    return;
  }
  slot->word = entry.word;
  slot->stamp = fabric_stamp(f->now + end->latency) | (entry.stamp & ~FABRIC_STAMP_MASK);
  if (++q->count >= q->patience) fabric_wake(f, f->sites[end->to].core, f->now + end->latency);
}

/* False: there is no room. */
static inline bool go(wafer_fabric *f, struct router_bits *b, bits_end *end) {
  bool arrives = end->next == FABRIC_NONE;
  fabric_entry *slot = arrives ? room_in(f, end->to) : NULL;
  if (arrives && !slot) {
    bar(f, b, end->bit, end->to);
    return false;
  }
  f->stats.hops += end->hops;
  fabric_entry entry =
      end->from == FABRIC_NONE ? end->words[end->at++ & end->mask] : leave(f, b, end);
  if (arrives) {
    arrive(f, end, slot, entry);
  } else {
    end->words[end->at++ & end->mask] = entry;
    come(b, end->next);
  }
  return true;
}

/* Another of the field, when the one whose turn it was cannot go; FABRIC_NONE: none. */
static uint32_t another(const struct router_bits *b, uint32_t bit) {
  static const uint32_t widths[BITS_WIDTHS] = {1, 4, 8, 16, 32};
  uint32_t group = bit / BITS_GROUP, word = bit / 64 % BITS_WORDS, i = 0;
  const bits_group *g = &b->at[group];
  while (group >= b->below[i]) i++;
  uint64_t field = ((1ull << widths[i]) - 1) << (bit % 64 / widths[i] * widths[i]);
  uint64_t can = g->has[word] & ~g->barred[word] & field, high = can & g->after[word];
  if (high) can = high;
  return can ? bit / 64 * 64 + (uint32_t)__builtin_ctzll(can) : FABRIC_NONE;
}

static SELDOM void go_another(wafer_fabric *f, struct router_bits *b, uint32_t bit) {
  for (;;) {
    bit = another(b, bit);
    if (bit == FABRIC_NONE) return;
    *bits_word(b, BITS_PLACE(goes, bit)) |= bits_mask(bit);
    if (!bits_apart(b, bit)) break;
    if (go(f, b, &b->ends[b->end_of[bit]])) return;
  }
  f->stats.hops++;
  come(b, b->to[bit]);
}

/* ---- a cycle ---- */

static INLINE void pick(const struct router_bits *b, uint32_t group) {
  if (group < b->below[BITS_1])
    pick1(&b->at[group]);
  else if (group < b->below[BITS_4])
    pick4(&b->at[group]);
  else if (group < b->below[BITS_8])
    pick8(&b->at[group]);
  else if (group < b->below[BITS_16])
    pick16(&b->at[group]);
  else
    pick32(&b->at[group]);
}

static INLINE void turn(const struct router_bits *b, uint32_t group) {
  if (group < b->below[BITS_1]) return;
  if (group < b->below[BITS_4])
    turn4(&b->at[group]);
  else if (group < b->below[BITS_8])
    turn8(&b->at[group]);
  else if (group < b->below[BITS_16])
    turn16(&b->at[group]);
  else
    turn32(&b->at[group]);
}

/* What has gone and come; who is full now, or is not any more, is in `goes`. False: nobody can go.
 */
static INLINE bool settle(bits_group *g) {
  words any = {0};
  for (uint32_t i = 0; i < VECTORS; i++) {
    words goes = OF(words, goes), comes = OF(words, comes), two = OF(words, two);
    words stay = OF(words, has) & ~goes, full = (two & ~goes) | (stay & comes);
    stay |= two | comes;
    OF(words, has) = stay;
    OF(words, two) = full;
    OF(words, goes) = full ^ two;
    OF(words, comes) = (words){0};
    any |= stay & ~OF(words, barred);
  }
  return any[0] | any[1] | any[2] | any[3];
}

/* The next group in which there is something to do. */
static inline uint32_t next_active(const struct router_bits *b, uint32_t group) {
  uint64_t eight;
  for (; group < b->groups && !b->active[group]; group++) {
    memcpy(&eight, b->active + group, sizeof eight);
    if (!eight) group += 7;
  }
  return group;
}

/* All who go, but for those apart: they are listed. */
static INLINE void hop(struct router_bits *b, uint32_t group, uint32_t **apart) {
  uint8_t *active = b->active, *bytes = (uint8_t *)b->at;
  for (uint32_t i = 0; i < BITS_WORDS; i++) {
    uint32_t first = group * BITS_GROUP + i * 64;
    uint64_t goes = b->at[group].goes[i];
    b->count += (uint32_t)__builtin_popcountll(goes);
    *apart = list_bits(*apart, first, goes & b->at[group].apart[i]);
    for (const uint32_t *to = b->to + first; goes; goes &= goes - 1) {
      uint32_t place = to[__builtin_ctzll(goes)];
      bytes[place / 8] |= (uint8_t)(1u << place % 8); /* of a word, they would wait longer */
      active[place / BITS_PLACE_GROUP] = 1;
    }
  }
}

WAFER_CLONES static void pick_all(wafer_fabric *f, struct router_bits *b) {
  uint32_t *end = b->list;
  for (uint32_t at = 0; (at = next_active(b, at)) < b->groups; at++) {
    pick(b, at);
    hop(b, at, &end);
  }
  b->listed = (uint32_t)(end - b->list);
  f->stats.hops += b->count - b->listed;
}

/* Where ways begin and end: what they are is in the host's cache by then. */
static void go_all(wafer_fabric *f, struct router_bits *b) {
  uint32_t *list = b->list, count = b->listed;
  for (uint32_t i = 0; i < count; i++) {
    list[i] = b->end_of[list[i]];
    __builtin_prefetch(&b->ends[list[i]], 1);
  }
  for (uint32_t i = 0; i < count; i++) {
    const bits_end *later = &b->ends[list[i + AHEAD < count ? i + AHEAD : i]];
    __builtin_prefetch(&f->nodes[later->from == FABRIC_NONE ? later->to : later->from], 1);
    bits_end *end = &b->ends[list[i]];
    if (!go(f, b, end)) go_another(f, b, end->bit);
  }
}

WAFER_CLONES static void settle_all(struct router_bits *b) {
  uint8_t *active = b->active, *bytes = (uint8_t *)b->at;
  uint32_t *end = b->list;
  for (uint32_t at = 0; (at = next_active(b, at)) < b->groups; at++) {
    bits_group *g = &b->at[at];
    turn(b, at);
    active[at] = settle(g);
    for (uint32_t i = 0; i < BITS_WORDS; i++)
      end = list_bits(end, at * BITS_GROUP + i * 64, g->goes[i]);
    memset(g->goes, 0, sizeof g->goes);
  }
  for (const uint32_t *at = b->list; at < end; at++) {
    uint32_t place = b->from[*at];
    bytes[place / 8] ^= (uint8_t)(1u << place % 8);
    active[place / BITS_PLACE_GROUP] = 1;
  }
}

void router_bits_cycle(wafer_fabric *f) {
  struct router_bits *b = &f->bits[f->strip];
  b->count = 0;
  if (!b->busy) return;
  pick_all(f, b);
  go_all(f, b);
  settle_all(b);
  b->busy = b->count;
}

void router_bits_ask(wafer_fabric *f, uint32_t asked) {
  struct router_bits *b = &f->bits[f->strip];
  uint32_t bit = asked % FABRIC_BIT_ROOM;
  if (asked & FABRIC_BIT_ROOM) {
    *bits_word(b, BITS_PLACE(barred, bit)) &= ~bits_mask(bit);
  } else {
    const fabric_node *q = &f->nodes[b->ends[b->end_of[bit]].from];
    uint32_t wait = fabric_wait(f, q);
    if (wait) {
      router_ask_in(f, asked, wait);
      return;
    }
    *bits_word(b, BITS_PLACE(has, bit)) |= bits_mask(bit);
  }
  b->active[bit / BITS_GROUP] = 1;
  b->busy = true;
}

bool router_bits_rest(const wafer_fabric *f) {
  return !f->bits || !f->bits[f->strip].busy;
}

uint32_t router_bits_went(const wafer_fabric *f) {
  return f->bits ? f->bits[f->strip].count : 0;
}
