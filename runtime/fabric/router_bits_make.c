/* Which queues are bits (router_bits.c), before a run; and what is in them after it. */
#include <stdlib.h>
#include <string.h>

#include "router_bits.h"

/* While it is decided. */
typedef struct maker {
  wafer_fabric *f;
  uint8_t *width;   /* of each link's field, 1 + the place of it; 0: the link is as others are */
  uint32_t *field;  /* of each link: its first bit, in its strip */
  uint32_t *bit_of; /* of each queue; FABRIC_NONE: none */
} maker;

static const uint32_t widths[BITS_WIDTHS] = {1, 4, 8, 16, 32};

/* ---- which ---- */

static bool is_plain(const fabric_node *q) {
  return q->outs == 1 && router_is_brief(q) && !q->gone && !q->outer && !q->by_switch &&
         !q->border && !(q->flags & FABRIC_PUSH_FLAGS);
}

/* Links whose candidates ask for nothing else, of which one at least may be no more than a bit. */
static uint8_t width_of(const wafer_fabric *f, uint32_t at) {
  const fabric_link *link = &f->links[at];
  bool plain = false;
  if (!link->candidates || f->gates[at].many || f->gates[at].border) return 0;
  for (uint32_t i = 0; i < link->candidates; i++) {
    const fabric_candidate *who = &f->candidates[link->first + i];
    const fabric_node *q = &f->nodes[who->node];
    if (q->ask & FABRIC_LOOK || q->gone) return 0;
    plain |= is_plain(q) || is_plain(&f->nodes[who->to & ~FABRIC_LOOK]);
  }
  for (uint8_t i = 0; plain && i < BITS_WIDTHS; i++)
    if (link->candidates <= widths[i]) return i + 1;
  return 0;
}

static uint32_t strip_of(const wafer_fabric *f, uint32_t link) {
  return f->nodes[f->candidates[f->links[link].first].node].strip;
}

/* Fields of one width side by side, in the order of links. */
static void place_fields(maker *m, uint32_t strip) {
  wafer_fabric *f = m->f;
  struct router_bits *b = &f->bits[strip];
  for (uint32_t w = 0; w < BITS_WIDTHS; w++) {
    uint64_t at = (uint64_t)b->groups * BITS_GROUP;
    for (uint32_t i = 0; i < f->link_count; i++) {
      if (m->width[i] != w + 1 || strip_of(f, i) != strip) continue;
      m->field[i] = (uint32_t)at;
      at += widths[w];
    }
    b->below[w] = b->groups = (uint32_t)((at + BITS_GROUP - 1) / BITS_GROUP);
  }
}

static void name_bits(maker *m) {
  wafer_fabric *f = m->f;
  for (uint32_t i = 0; i < f->link_count; i++)
    for (uint32_t k = 0; m->width[i] && k < f->links[i].candidates; k++)
      m->bit_of[f->candidates[f->links[i].first + k].node] = m->field[i] + k;
}

/* Does its bit say all of the queue? Who writes to it is one, too, and its wavelets come in the
 * cycle after. */
static bool is_bit(const maker *m, uint32_t node) {
  const wafer_fabric *f = m->f;
  uint32_t from = f->sites[node].from;
  if (m->bit_of[node] == FABRIC_NONE || !is_plain(&f->nodes[node]) || from == FABRIC_NONE)
    return false;
  const fabric_out *out = &f->outs[f->sites[from].first_out];
  return m->bit_of[from] != FABRIC_NONE && out->latency == 1 && out->hops == 1;
}

/* ---- tables ---- */

static bool make_bits(struct router_bits *b) {
  size_t bits = (size_t)b->groups * BITS_GROUP, bytes = (b->groups + 1u) * sizeof *b->at;
  b->at = aligned_alloc(64, bytes);
  if (b->at) memset(b->at, 0, bytes);
  b->active = calloc(b->groups + 1 + sizeof(uint64_t), sizeof *b->active);
  b->list = malloc((bits + BITS_BEYOND) * sizeof *b->list);
  b->to = malloc(bits * sizeof *b->to);
  b->from = malloc(bits * sizeof *b->from);
  b->end_of = malloc(bits * sizeof *b->end_of);
  b->ends = aligned_alloc(64, (b->end_count + 1u) * sizeof *b->ends);
  b->end_count = 0;
  bool room = b->at && b->active && b->list && b->to && b->from && b->end_of && b->ends;
  for (size_t i = 0; room && i < bits; i++) b->to[i] = b->from[i] = FABRIC_NONE;
  return room;
}

/* Candidate `at`, of a link with a field. */
static void add_bit(maker *m, uint32_t at) {
  wafer_fabric *f = m->f;
  const fabric_candidate *who = &f->candidates[at];
  struct router_bits *b = &f->bits[f->nodes[who->node].strip];
  uint32_t to = who->to & ~FABRIC_LOOK, bit = m->bit_of[who->node];
  uint32_t next = is_bit(m, to) ? BITS_PLACE(comes, m->bit_of[to]) : FABRIC_NONE;
  if (next != FABRIC_NONE) b->from[m->bit_of[to]] = BITS_PLACE(barred, bit);
  bool from_bit = is_bit(m, who->node);
  b->to[bit] = next;
  if (next != FABRIC_NONE && from_bit) return;
  b->to[bit] = b->groups * BITS_PLACE_GROUP;
  *bits_word(b, BITS_PLACE(apart, bit)) |= bits_mask(bit);
  b->end_of[bit] = b->end_count;
  uint32_t *patience = &f->sites[to].patience;
  if (next == FABRIC_NONE && *patience) *patience = FABRIC_LONGEST + 1; /* it is asked for room */
  b->ends[b->end_count++] = (bits_end){.bit = bit,
                                       .from = from_bit ? FABRIC_NONE : who->node,
                                       .next = next,
                                       .to = to,
                                       .latency = f->ways[at].latency,
                                       .hops = f->ways[at].hops};
}

/* The turn is after that of rank 0, as at every link. */
static void begin_turns(maker *m, uint32_t link) {
  struct router_bits *b = &m->f->bits[strip_of(m->f, link)];
  uint32_t field = m->field[link], width = widths[m->width[link] - 1];
  *bits_word(b, BITS_PLACE(after, field)) |= ((1ull << width) - 2) << field % 64;
}

static uint32_t bit_at(uint32_t place) {
  return place / BITS_PLACE_GROUP * BITS_GROUP + place % BITS_GROUP;
}

/* The bits of a way, from the first that stands for a queue; *last: that from which wavelets leave
 * it. */
static uint32_t follow(const struct router_bits *b, uint32_t bit, uint32_t *last) {
  uint32_t count = 1;
  for (; !bits_apart(b, bit); bit = bit_at(b->to[bit])) count++;
  *last = bit;
  return count;
}

/* Twice: how many entries all ways take; then, with a pool, where they lie. */
static size_t make_ways(struct router_bits *b) {
  size_t used = 0;
  for (uint32_t i = 0; i < b->end_count; i++) {
    bits_end *begin = &b->ends[i];
    if (begin->next == FABRIC_NONE) continue;
    uint32_t last, room = 2, queues = follow(b, bit_at(begin->next), &last);
    while (room < 2 * queues) room *= 2;
    if (b->pool) {
      bits_end *end = &b->ends[b->end_of[last]];
      begin->words = end->words = b->pool + used;
      begin->mask = end->mask = room - 1;
    }
    used += room;
  }
  return used;
}

/* How many ends each strip has. */
static void count_ends(maker *m) {
  wafer_fabric *f = m->f;
  for (uint32_t i = 0; i < f->link_count; i++)
    for (uint32_t k = 0; m->width[i] && k < f->links[i].candidates; k++) {
      const fabric_candidate *who = &f->candidates[f->links[i].first + k];
      bool both = is_bit(m, who->node) && is_bit(m, who->to & ~FABRIC_LOOK);
      f->bits[f->nodes[who->node].strip].end_count += !both;
    }
}

static bool fill(maker *m) {
  wafer_fabric *f = m->f;
  for (uint32_t strip = 0; strip < f->strip_count; strip++) place_fields(m, strip);
  name_bits(m);
  count_ends(m);
  for (uint32_t strip = 0; strip < f->strip_count; strip++)
    if (!make_bits(&f->bits[strip])) return false;
  for (uint32_t i = 0; i < f->link_count; i++) {
    if (m->width[i]) begin_turns(m, i);
    for (uint32_t k = 0; m->width[i] && k < f->links[i].candidates; k++)
      add_bit(m, f->links[i].first + k);
  }
  for (uint32_t strip = 0; strip < f->strip_count; strip++) {
    struct router_bits *b = &f->bits[strip];
    b->pool = malloc((make_ways(b) + 1) * sizeof *b->pool);
    if (!b->pool) return false;
    make_ways(b);
  }
  return true;
}

/* From here on they ask for their bits. Who hops into such a queue over another link is not as
 * simple as others are. */
static void name_asks(maker *m) {
  wafer_fabric *f = m->f;
  for (uint32_t i = 0; i < f->link_count; i++)
    for (uint32_t k = 0; k < f->links[i].candidates; k++) {
      fabric_candidate *who = &f->candidates[f->links[i].first + k];
      if (m->bit_of[who->to & ~FABRIC_LOOK] != FABRIC_NONE) who->to |= FABRIC_LOOK;
    }
  for (uint32_t i = 0; i < f->node_count; i++)
    if (m->bit_of[i] != FABRIC_NONE) f->nodes[i].ask = FABRIC_BIT | m->bit_of[i];
}

static bool make(maker *m) {
  wafer_fabric *f = m->f;
  f->bits = calloc(f->strip_count, sizeof *f->bits);
  m->width = calloc(f->link_count + 1u, sizeof *m->width);
  m->field = calloc(f->link_count + 1u, sizeof *m->field);
  m->bit_of = malloc((f->node_count + 1u) * sizeof *m->bit_of);
  if (!f->bits || !m->width || !m->field || !m->bit_of) return false;
  for (uint32_t i = 0; i < f->link_count; i++) m->width[i] = width_of(f, i);
  for (uint32_t i = 0; i < f->node_count; i++) m->bit_of[i] = FABRIC_NONE;
  if (!fill(m)) return false;
  name_asks(m);
  return true;
}

wafer_status router_bits_begin(wafer_fabric *f) {
  uint64_t most = (uint64_t)f->link_count * widths[BITS_WIDTHS - 1] + BITS_WIDTHS * BITS_GROUP;
  if (!f->single || f->plain || f->entered || f->faults) return WAFER_OK;
  if (8 * most > FABRIC_BIT_ROOM || (uint64_t)f->link_room << FABRIC_RANK_BITS > FABRIC_BIT)
    return WAFER_OK;
  maker m = {.f = f};
  bool made = make(&m);
  free(m.width);
  free(m.field);
  free(m.bit_of);
  return made ? WAFER_OK
              : wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                           "the bits of %u queues do not fit the host", f->node_count);
}

/* ---- after a run ---- */

static bool is_set(const struct router_bits *b, uint32_t place) {
  return *bits_word(b, place) & bits_mask(place);
}

void router_bits_end(wafer_fabric *f) {
  for (uint32_t i = 0; f->bits && i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    const struct router_bits *b = &f->bits[q->strip];
    uint32_t bit = q->ask % FABRIC_BIT_ROOM;
    if (q->to_core || q->ask & FABRIC_LOOK || !(q->ask & FABRIC_BIT)) continue;
    if (b->from[bit] != FABRIC_NONE)
      q->count = (uint16_t)(is_set(b, BITS_PLACE(has, bit)) + is_set(b, BITS_PLACE(two, bit)));
  }
}

void router_bits_free(wafer_fabric *f) {
  for (uint32_t i = 0; f->bits && i < f->strip_count; i++) {
    struct router_bits *b = &f->bits[i];
    free(b->at);
    free(b->active);
    free(b->list);
    free(b->to);
    free(b->from);
    free(b->end_of);
    free(b->ends);
    free(b->pool);
  }
  free(f->bits);
}
