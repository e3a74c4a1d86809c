/* The buses of a line: who sends in which order, who keeps what, where switches are.
 *
 * A direction is worked on as if words went forth, to higher positions; `q` counts positions that
 * way. */
#include <stdlib.h>
#include <string.h>

#include "exchange_line.h"
#include "fragment/fragment_clock.h"

/* What a core sends once on a bus, to some of the cores before it. */
typedef struct group {
  uint32_t from, nearest, farthest, first, count; /* moves */
  uint32_t parcel;
} group;

/* What passes a core, and what it keeps of that: skip, keep, skip, keep ... */
typedef struct keeper {
  uint32_t *runs;
  uint32_t count, room;
  uint64_t done; /* wavelets decided on */
} keeper;

typedef struct bus {
  const line *l;
  const wafer_machine *machine;
  wafer_arena *scratch;
  const line_place *place;
  line_colors *colors;
  fragment *f;
  line_core *cores;
  uint32_t back;
  group *groups;
  uint32_t group_count;
  uint32_t *first_group; /* of position q; those of q end where those of q - 1 begin */
  uint64_t *words;       /* that q sends */
  uint32_t *reach;       /* farthest q that takes some */
  uint64_t *load;        /* words over the link from q on, of all buses */
  keeper *keepers;
  line_order *order;
  fragment_block *blocks; /* of the bus at hand */
  uint32_t block_count;
  fragment_taker *takers; /* by q */
  uint64_t cycles;
  bool failed;
} bus;

uint32_t line_words(wafer_dtype dtype, uint64_t elements) {
  return (uint32_t)((elements * wafer_dtype_bytes(dtype) + 3) / 4);
}

static uint32_t position(const bus *b, uint32_t q) {
  return b->back ? b->l->length - 1 - q : q;
}

/* ---- who sends what ---- */

typedef struct forth {
  uint32_t from, to, send, parcel;
} forth;

static int by_send(const void *left, const void *right) {
  const forth *a = left, *b = right;
  if (a->from != b->from) return a->from > b->from ? -1 : 1;
  if (a->send != b->send) return a->send < b->send ? -1 : 1;
  return a->to < b->to ? -1 : a->to > b->to;
}

static int by_place(const void *left, const void *right) {
  const group *a = left, *b = right;
  if (a->from != b->from) return a->from > b->from ? -1 : 1;
  if (a->nearest != b->nearest) return a->nearest < b->nearest ? -1 : 1;
  if (a->farthest != b->farthest) return a->farthest < b->farthest ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static forth *moves_of(bus *b, uint32_t *count) {
  const line *l = b->l;
  forth *moves = WAFER_NEW(b->scratch, forth, l->move_count);
  *count = 0;
  for (uint32_t i = 0; moves && i < l->move_count; i++) {
    const line_move *m = &l->moves[i];
    if (m->from == m->to || (m->from > m->to) != b->back) continue;
    moves[(*count)++] =
        (forth){position(b, m->from), position(b, m->to), l->parcels[m->parcel].send, m->parcel};
  }
  if (moves) qsort(moves, *count, sizeof *moves, by_send);
  return moves;
}

static void group_moves(bus *b, const forth *moves, uint32_t count) {
  for (uint32_t i = 0, end; i < count; i = end) {
    for (end = i + 1;
         end < count && moves[end].from == moves[i].from && moves[end].send == moves[i].send;)
      end++;
    b->groups[b->group_count++] = (group){.from = moves[i].from,
                                          .nearest = moves[i].to,
                                          .farthest = moves[end - 1].to,
                                          .first = i,
                                          .count = end - i,
                                          .parcel = moves[i].send};
  }
  qsort(b->groups, b->group_count, sizeof *b->groups, by_place);
  for (uint32_t q = b->l->length, g = 0; q-- > 0;) {
    b->first_group[q] = g;
    for (; g < b->group_count && b->groups[g].from == q; g++) {
      b->words[q] += b->l->parcels[b->groups[g].parcel].words;
      if (b->groups[g].farthest > b->reach[q]) b->reach[q] = b->groups[g].farthest;
    }
  }
}

static uint32_t groups_end(const bus *b, uint32_t q) {
  return q ? b->first_group[q - 1] : b->group_count;
}

/* ---- what is kept ---- */

static void push_run(bus *b, keeper *k, uint64_t words) {
  if (!WAFER_GROW(b->scratch, k->runs, k->count, k->room, 4)) {
    b->failed = true;
    return;
  }
  k->runs[k->count++] = (uint32_t)words;
}

static void keep(bus *b, keeper *k, uint64_t at, uint64_t words) {
  if (k->count && k->done == at) {
    k->runs[k->count - 1] += (uint32_t)words;
  } else {
    push_run(b, k, at - k->done);
    push_run(b, k, words);
  }
  k->done = at + words;
}

static void add_ops(bus *b, line_ops *ops, const line_parcel *parcel) {
  for (uint32_t i = 0; i < parcel->count; i++) {
    if (!WAFER_GROW(b->scratch, ops->at, ops->count, ops->room, 4)) {
      b->failed = true;
      return;
    }
    ops->at[ops->count++] = &b->l->boxes[parcel->first + i];
  }
}

/* ---- one bus ---- */

/* Positions first .. end; senders are those below `limit`. */
typedef struct segment {
  uint32_t first, limit, end, slot;
} segment;

static uint8_t color_of(bus *b, uint32_t slot) {
  if (!b->colors->made[b->back][slot]) {
    b->colors->made[b->back][slot] = true;
    b->colors->at[b->back][slot] = fragment_color(b->f);
  }
  return b->colors->at[b->back][slot];
}

static bool sends(const bus *b, const segment *s, uint32_t q) {
  return q >= s->first && q < s->limit && b->words[q];
}

static wafer_route route_at(const bus *b, const segment *s, uint32_t q, bool takes) {
  static const uint8_t forward[2][2] = {{WAFER_PORT_east, WAFER_PORT_west},
                                        {WAFER_PORT_south, WAFER_PORT_north}};
  uint8_t on = forward[b->place->columns][b->back], from = forward[b->place->columns][!b->back];
  uint8_t onward = (uint8_t)(1u << on), ramp = WAFER_TO(ramp);
  bool sender = sends(b, s, q);
  uint8_t passed = (uint8_t)((q == s->end ? 0 : onward) | (takes ? ramp : 0));
  wafer_route route = {.positions = 1};
  if (!sender) {
    route.at[0].from = from;
    route.at[0].to = passed;
    return route;
  }
  route.at[0].from = WAFER_PORT_ramp;
  route.at[0].to = onward;
  if (q == s->first) return route;
  route.positions = 2;
  route.at[1].from = from;
  route.at[1].to = passed;
  return route;
}

/* The host has no router. */
static void add_routes(bus *b, const segment *s, uint8_t color) {
  wafer_route route = {0};
  bool border = b->place->border != NULL;
  uint32_t first = s->first + (border && !b->back), end = s->end - (border && b->back);
  uint32_t since = first;
  for (uint32_t q = first; q <= end + 1; q++) {
    wafer_route next = {0};
    if (q <= end) next = route_at(b, s, q, b->keepers[q].count > 0);
    if (q > first && (q > end || !fragment_same_way(&route, &next))) {
      route.color = color;
      line_route(b->f, b->place, route, position(b, b->back ? q - 1 : since), q - since);
      since = q;
    }
    route = next;
  }
}

/* Filters of cores that do not keep all that passes; the lists begin anew with every sample. */
static void add_filters(bus *b, const segment *s, uint8_t color) {
  uint64_t passed = 0;
  for (uint32_t q = s->first; q <= s->end; q++) {
    keeper *k = &b->keepers[q];
    if (k->count && (k->count > 2 || k->runs[0] || k->runs[1] != passed)) {
      if (k->done < passed) {
        push_run(b, k, passed - k->done);
        push_run(b, k, 0);
      }
      for (uint32_t i = 0; i < b->place->span_count; i++)
        fragment_filter_add(b->f, line_rect(b->place, &b->place->spans[i], position(b, q), 1),
                            color, k->runs, k->count);
    }
    if (sends(b, s, q)) passed += b->words[q];
  }
}

static void note_taker(bus *b, uint32_t q, uint64_t words, uint64_t end) {
  fragment_taker *t = &b->takers[q];
  uint64_t room = fragment_taker_room(b->machine);
  if (t->words <= room && t->words + words > room) {
    t->full_block = b->block_count;
    t->full = end - (t->words + words) + room + 1;
  }
  t->at = q;
  t->block = b->block_count;
  t->words += words;
  t->end = end;
}

/* What position q keeps of a parcel that its sender begins with wavelet `at` of all that pass q,
 * having sent so much before. */
static void keep_parcel(bus *b, uint32_t q, const line_parcel *p, uint64_t at, uint64_t sent) {
  const line_run whole = {0, p->words};
  const line_run *runs = p->run_count ? p->runs : &whole;
  for (uint32_t i = 0; i < p->run_count || i == 0; i++) {
    keep(b, &b->keepers[q], at + runs[i].first, runs[i].count);
    note_taker(b, q, runs[i].count, sent + runs[i].first + runs[i].count);
  }
}

/* The sender's boxes, and the keepers' share of them; `before`: wavelets of the senders nearer to
 * the end. */
static void add_sender(bus *b, const segment *s, const forth *moves, uint32_t q, uint64_t before,
                       const uint64_t *nearer) {
  line_core *core = &b->cores[position(b, q)];
  core->segment[b->back] = (uint8_t)s->slot;
  uint64_t sent = 0;
  for (uint32_t g = b->first_group[q]; g < groups_end(b, q); g++) {
    const group *own = &b->groups[g];
    const line_parcel *parcel = &b->l->parcels[own->parcel];
    add_ops(b, &core->list[LINE_SEND + b->back], parcel);
    for (uint32_t i = 0; i < own->count; i++) {
      const forth *m = &moves[own->first + i];
      keep_parcel(b, m->to, &b->l->parcels[m->parcel], before - nearer[m->to], sent);
      add_ops(b, &b->cores[position(b, m->to)].list[LINE_TAKE + 2 * b->back + s->slot],
              &b->l->parcels[m->parcel]);
    }
    before += parcel->words;
    sent += parcel->words;
  }
  b->blocks[b->block_count++] = (fragment_block){.at = q, .words = sent};
}

/* Handing over from a sender to the one behind it. */
#define HANDOVER_CYCLES 1

static void add_bus(bus *b, segment s, const forth *moves) {
  uint32_t senders = 0, last = 0;
  uint64_t all = 0, carried = 0;
  while (s.first < s.limit && !b->words[s.first]) s.first++;
  if (s.first == s.limit) return;
  s.end = s.first;
  uint64_t *nearer = WAFER_NEW(b->scratch, uint64_t, b->l->length + 1);
  b->failed |= !nearer;
  if (!nearer) return;
  for (uint32_t q = s.first; q < s.limit; q++) {
    if (!b->words[q]) continue;
    if (b->reach[q] > s.end) s.end = b->reach[q];
    senders++;
    last = q;
  }
  for (uint32_t q = s.end + 1; q-- > s.first;) { /* words of senders at q and nearer to the end */
    memset(&b->keepers[q], 0, sizeof b->keepers[q]);
    b->takers[q] = (fragment_taker){0};
    if (sends(b, &s, q)) all += b->words[q];
    nearer[q] = all;
  }
  b->block_count = 0;
  for (uint32_t q = last + 1; q-- > s.first;) {
    if (!sends(b, &s, q)) continue;
    add_sender(b, &s, moves, q, nearer[q] - b->words[q], nearer);
    uint8_t control = q > s.first ? WAFER_CONTROL_advance : WAFER_CONTROL_reset;
    b->cores[position(b, q)].control[b->back] = senders > 1 ? control : WAFER_CONTROL_none;
  }
  for (uint32_t q = s.first; q < s.end; q++) {
    if (sends(b, &s, q)) carried += b->words[q];
    b->load[q] += carried;
  }
  b->failed |= !line_order_bus(b->order, &(fragment_bus){.back = b->back,
                                                         .block_count = b->block_count,
                                                         .taker_count = s.end - s.first + 1,
                                                         .blocks = b->blocks,
                                                         .takers = &b->takers[s.first]});
  uint8_t color = color_of(b, s.slot);
  add_routes(b, &s, color);
  add_filters(b, &s, color);
  for (uint32_t i = 0; i < b->place->span_count && senders == 1 && !b->place->border; i++)
    fragment_source_add(b->f, line_rect(b->place, &b->place->spans[i], position(b, last), 1), color,
                        all);
  uint64_t start = b->machine->vector_setup_cycles + b->machine->descriptor_load_cycles;
  uint64_t hops = (uint64_t)b->machine->hop_cycles * (s.end - s.first + line_branches(b->place));
  bool fed = b->place->border && !b->back; /* the host's words are on their way meanwhile */
  uint64_t handed = all + (senders - 1) * HANDOVER_CYCLES; /* over the last link */
  uint64_t travelled = hops + b->words[s.first];
  uint64_t cycles = start + b->machine->ramp_cycles + (handed > travelled ? handed : travelled);
  if (fed) cycles = (start > hops ? start : hops) + all;
  if (!b->place->border || fed) cycles += b->machine->ramp_cycles;
  if (cycles > b->cycles) b->cycles = cycles;
}

/* Where no word goes farther than `far` cores, segments of 2 far cores, twice. */
static void add_part(bus *b, uint32_t first, uint32_t end, uint32_t far, const forth *moves) {
  if (2 * far >= end - first + 1 || b->place->border) {
    add_bus(b, (segment){.first = first, .limit = end}, moves);
  } else {
    for (uint32_t slot = 0; slot < 2; slot++)
      for (uint32_t at = first + slot * far; at < end; at += 2 * far) {
        uint32_t limit = at + far < end ? at + far : end;
        add_bus(b, (segment){.first = at, .limit = limit, .slot = slot}, moves);
      }
  }
}

/* Buses of two segments that share a link take turns on it. */
static void share_links(bus *b) {
  const wafer_machine *m = b->machine;
  uint64_t most = 0;
  for (uint32_t q = 0; q < b->l->length; q++)
    if (b->load[q] > most) most = b->load[q];
  uint64_t cycles =
      most + m->vector_setup_cycles + m->descriptor_load_cycles + 2ull * m->ramp_cycles;
  if (most && cycles > b->cycles && !b->place->border) b->cycles = cycles;
}

/* Parts of the line between which nothing goes. */
static bool add_direction(bus *b) {
  uint32_t n = b->l->length, count;
  forth *moves = moves_of(b, &count);
  b->groups = WAFER_NEW(b->scratch, group, count);
  b->first_group = WAFER_NEW(b->scratch, uint32_t, n);
  b->words = WAFER_NEW(b->scratch, uint64_t, n);
  b->reach = WAFER_NEW(b->scratch, uint32_t, n);
  b->load = WAFER_NEW(b->scratch, uint64_t, n);
  b->keepers = WAFER_NEW(b->scratch, keeper, n + 1);
  b->blocks = WAFER_NEW(b->scratch, fragment_block, n);
  b->takers = WAFER_NEW(b->scratch, fragment_taker, n + 1);
  if (!moves || !b->groups || !b->first_group || !b->words || !b->reach || !b->load ||
      !b->keepers || !b->blocks || !b->takers)
    return false;
  group_moves(b, moves, count);
  for (uint32_t q = 0; q < n;) {
    uint32_t first = q, end = q, far = 0;
    for (; q <= end && q < n; q++) {
      if (!b->words[q]) continue;
      if (b->reach[q] > end) end = b->reach[q];
      if (b->reach[q] - q > far) far = b->reach[q] - q;
    }
    if (far) add_part(b, first, end, far, moves);
  }
  share_links(b);
  return !b->failed;
}

static void add_copies(bus *b) {
  for (uint32_t i = 0; i < b->l->move_count; i++) {
    const line_move *m = &b->l->moves[i];
    if (m->from == m->to) add_ops(b, &b->cores[m->to].list[LINE_COPY], &b->l->parcels[m->parcel]);
  }
}

bool line_add(const wafer_machine *machine, wafer_arena *scratch, const line *l,
              const line_place *place, line_colors *colors, fragment *f, uint64_t *cycles) {
  uint64_t busiest = 0, links[2] = {0, 0};
  uint32_t latest = 0;
  line_work work;
  line_order order = {.f = f};
  line_core *cores = WAFER_NEW(scratch, line_core, l->length);
  uint64_t *busy = WAFER_NEW(scratch, uint64_t, l->length);
  if (!cores || !busy) return false;
  for (uint32_t back = 0; back < 2; back++) {
    bus b = {.l = l,
             .machine = machine,
             .scratch = scratch,
             .place = place,
             .colors = colors,
             .f = f,
             .cores = cores,
             .order = &order,
             .back = back};
    if (!add_direction(&b)) return false;
    if (!back) add_copies(&b);
    links[back] = b.cycles;
  }
  if (place->border) {
    line_ports(l, place, &cores[0], false, colors->at[0][0], f);
    line_ports(l, place, &cores[0], true, colors->at[1][0], f);
  }
  if (!line_work_create(scratch, cores, l->length, &work)) return false;
  for (uint32_t p = place->border != NULL; p < l->length; p++) {
    uint32_t late;
    uint32_t code = line_core_code(machine, &work, l->dtype, &cores[p], colors, f, &busy[p], &late);
    if (late > latest) latest = late;
    if (busy[p] > busiest) busiest = busy[p];
    if (code == FRAGMENT_IDLE) continue;
    for (uint32_t i = 0; i < place->span_count; i++)
      fragment_run(f, line_rect(place, &place->spans[i], p, 1), code);
  }
  line_order_pace(&order, l, cores);
  uint64_t both = links[0] * latest / 100 + links[1];
  if (links[0] > both) both = links[0];
  *cycles = both > busiest ? both : busiest;
  return line_order_end(&order, l, place, cores, busy);
}
