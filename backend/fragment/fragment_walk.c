/* Words on the lines of a fragment, bus by bus and block by block: who waits for whom, as the top
 * of fragment_clock.h says. */
#include "fragment_walk.h"

#define AHEAD 4 /* samples by which words may be ahead of those who take them */

/* Does the core go on while it sends what the line at hand is about? */
static bool goes_on(const walk *w, size_t core) {
  return w->c->train && w->c->passes[core] == 1;
}

static size_t core_at(const walk *w, uint32_t line, uint32_t p) {
  uint32_t along = w->line->first + p - w->line->border, width = w->c->machine->width;
  return w->line->columns ? (size_t)along * width + line : (size_t)line * width + along;
}

/* ---- a bus ---- */

/* When the last of a message finds room: the word so many before it has left. `ends`: of its last
 * word each time, `end`: this time. INT64_MIN: there was always room. */
static int64_t has_room(const walk *w, const int64_t *ends, int64_t end, uint64_t words,
                        uint64_t room) {
  uint64_t ago = room / words, rest = room % words;
  if (ago >= AHEAD) {
    ago = AHEAD - 1;
    rest = words - 1;
  }
  if (ago > w->times) return INT64_MIN;
  return (ago ? ends[(w->times - ago) % AHEAD] : end) - (int64_t)rest;
}

static uint32_t position(const walk *w, const fragment_bus *bus, uint32_t q) {
  return bus->back ? w->line->length - 1 - q : q;
}

static bool is_host(const walk *w, const fragment_bus *bus, uint32_t q) {
  return w->line->border && position(w, bus, q) == 0;
}

/* ---- microthreads ---- */

/* When the microthread of a transfer is free. They are given out by turns and in order: so many
 * transfers before it have ended, each of a list after an even part of the time of all. */
static int64_t thread_free(const walk *w, uint32_t p, uint32_t transfer) {
  const fragment_transfers *all = &w->line->transfers[p];
  uint32_t threads = w->threads[p];
  int64_t at = w->enter[p];
  for (uint32_t i = 0, left = transfer < threads ? 0 : transfer - threads + 1; left; i++) {
    uint32_t count = all->count[i], of = left < count ? left : count;
    int64_t own = w->ends[p * FRAGMENT_TRANSFERS + i] - w->enter[p];
    if (of) at = later(at, w->enter[p] + own * of / count);
    left -= of;
  }
  return at;
}

/* A list of transfers of the core: when its first words can pass, or when it has ended at least. */
static int64_t list_begins(const walk *w, uint32_t p, uint32_t list) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < list; i++) before += w->line->transfers[p].count[i];
  return thread_free(w, p, before) + w->setup;
}

static int64_t list_ends(walk *w, uint32_t p, uint32_t list, uint64_t words, int64_t end) {
  int64_t *last = &w->ends[p * FRAGMENT_TRANSFERS + list];
  uint32_t count = w->line->transfers[p].count[list], before = 0;
  for (uint32_t i = 0; i < list; i++) before += w->line->transfers[p].count[i];
  if (count > 1)
    end = later(end, thread_free(w, p, before + count - 1) + w->setup + (int64_t)(words / count));
  return *last = later(*last, end);
}

/* A core that takes more messages than it has microthreads sets up for the others between them.
 * `first`: when the first word is there. */
static int64_t takes_until(walk *w, uint32_t p, uint32_t list, int64_t first) {
  int64_t *begins = &w->begins[p * FRAGMENT_TRANSFERS + list];
  uint32_t count = w->line->transfers[p].count[list];
  int64_t rounds = count ? (count - 1) / w->threads[p] : 0;
  if (first < *begins) *begins = first;
  return rounds ? *begins + count + rounds * w->setup : INT64_MIN;
}

/* ---- a bus, block by block ---- */

/* A block on its way: where it is held up, and when it has passed up to a word, less the hops. */
typedef struct passage {
  int64_t first, begin, time; /* the bus, the block; up to word `at` */
  uint64_t at, words;         /* of the block */
  uint64_t cycles;            /* in which border and links let the block pass, at least */
  uint64_t all, left;         /* words of the bus; of this block and those behind it */
  int64_t shared;             /* cycles in which others want the links too */
  bool held;
  uint32_t held_at;
  uint32_t seen; /* links from this place on are in `links` */
  fragment_burst links;
  const fragment_round *round; /* in which the host sends them; NULL: it does not */
} passage;

/* Up to word `end` of the block, when nobody holds it up. */
static void pass_words(passage *p, uint64_t end) {
  p->time =
      later(p->time + (int64_t)(end - p->at), p->begin + (int64_t)(p->cycles * end / p->words));
  if (p->round) p->time = later(p->time, p->round->start + fragment_round_cycles(p->round, end));
  p->at = end;
}

static void hold(passage *p, int64_t until, uint32_t at) {
  if (until <= p->time) return;
  p->time = until;
  p->held = true;
  p->held_at = at;
}

/* Words stand before a core that has room for no more until it begins to take them. */
static void fill(const walk *w, const fragment_bus *bus, const fragment_taker *t, passage *p) {
  uint32_t list = bus->back * FRAGMENT_BACK + FRAGMENT_TAKE + t->other;
  int64_t way = (int64_t)t->at * w->hop + w->around + w->ramp;
  if (is_host(w, bus, t->at)) return;
  pass_words(p, t->full);
  hold(p, list_begins(w, position(w, bus, t->at), list) + 1 - way, t->at);
}

static void take(walk *w, const fragment_bus *bus, const fragment_taker *t, int64_t *past,
                 passage *p) {
  bool host = is_host(w, bus, t->at);
  uint32_t at = position(w, bus, t->at),
           list = bus->back * FRAGMENT_BACK + FRAGMENT_TAKE + t->other;
  int64_t way = (int64_t)t->at * w->hop + w->around, words = (int64_t)t->words, limit;
  int64_t *done = &w->done[at], ready = host ? 0 : list_begins(w, at, list);
  pass_words(p, t->end);
  if (host) {
    if (p->first + way < w->leaves) w->leaves = p->first + way;
    limit = fragment_border_ends(&w->c->out, w->leaves, w->border) - way;
  } else {
    limit = has_room(w, past, ready + words, t->words, w->taken);
    if (limit != INT64_MIN) limit -= way + w->ramp;
  }
  hold(p, limit, t->at);
  int64_t end = p->time + way + (host ? 0 : w->ramp);
  if (!host) {
    int64_t first = later(ready, p->first + way + w->ramp);
    end = later(later(end, ready + words), takes_until(w, at, list, first));
    end = list_ends(w, at, list, t->words, end);
  }
  past[w->times % AHEAD] = end;
  *done = later(*done, end);
  if (host) w->left = later(w->left, end);
}

/* When the sender has got rid of its words. */
static int64_t sent(const walk *w, const fragment_block *block, int64_t start, const int64_t *ends,
                    const passage *p) {
  int64_t end = start + later((int64_t)block->words, (int64_t)block->cycles);
  if (!p->held) return end;
  uint64_t hops = p->held_at - block->at + w->f->around;
  int64_t room = has_room(w, ends, p->time, block->words, w->own + hops * w->link);
  if (room == INT64_MIN) return end;
  return later(end, room + (int64_t)p->held_at * w->hop + w->around + (int64_t)hops);
}

/* The link from place q on; NULL: the host's. */
static fragment_burst *link_at(const walk *w, const fragment_bus *bus, uint32_t q) {
  uint32_t p = position(w, bus, q);
  if (w->line->border && p == 0) return NULL;
  uint32_t along = w->line->first + p - w->line->border;
  bool columns = w->line->columns;
  return fragment_clock_link(w->c, columns, bus->back, columns ? w->trunk : along,
                             columns ? along : w->trunk);
}

static uint64_t words_of(const fragment_bus *bus) {
  uint64_t words = 0;
  for (uint32_t k = 0; k < bus->block_count; k++) words += bus->blocks[k].words;
  return words;
}

static uint32_t end_of(const fragment_bus *bus) {
  uint32_t end = bus->blocks[0].at;
  for (uint32_t t = 0; t < bus->taker_count; t++)
    if (bus->takers[t].at > end) end = bus->takers[t].at;
  return end;
}

/* Adds what passes the links from place `at` to `*seen` - 1, less the hops; what begins from
 * `horizon` on keeps nobody waiting. */
static void look_at_links(const walk *w, const fragment_bus *bus, uint32_t at, int64_t horizon,
                          uint32_t *seen, fragment_burst *all) {
  while (*seen > at) {
    const fragment_burst *link = link_at(w, bus, --*seen);
    int64_t way = (int64_t)*seen * w->hop;
    if (!link || link->until == 0 || link->from - way >= horizon) continue;
    if (link->from - way < all->from) all->from = link->from - way;
    if (link->until - way <= all->until) continue;
    all->until = link->until - way;
    all->late = link->late;
  }
}

/* All words of the bus have passed at `end`. */
static void leave_links(const walk *w, const fragment_bus *bus, int64_t end, int64_t *late) {
  uint32_t last = end_of(bus);
  int64_t words = 0;
  for (uint32_t k = bus->block_count; k-- > 0;) {
    uint32_t until = k ? bus->blocks[k - 1].at : last;
    words += (int64_t)bus->blocks[k].words;
    for (uint32_t q = bus->blocks[k].at; q < until; q++) {
      fragment_burst *link = link_at(w, bus, q), own = {end - words, end, late};
      if (!link) continue;
      own.from += (int64_t)q * w->hop;
      own.until += (int64_t)q * w->hop;
      if (own.from <= link->until && own.until >= link->from) {
        if (link->from < own.from) own.from = link->from;
        own.until = later(own.until, link->until);
      }
      if (own.until > link->until) *link = own;
    }
  }
}

/* Behind the block before, and what others have on the links. `start`: of the sender. */
static void begin_block(const walk *w, const fragment_bus *bus, uint32_t k, int64_t start,
                        passage *p) {
  const fragment_block *block = &bus->blocks[k];
  bool host = is_host(w, bus, block->at);
  p->begin = start + (host ? 0 : w->ramp) - (int64_t)block->at * w->hop;
  p->held = p->time + w->c->train > p->begin;
  p->held_at = k ? bus->blocks[k - 1].at : block->at;
  if (p->held) p->begin = p->time + w->c->train;
  look_at_links(w, bus, block->at, p->begin + (int64_t)p->left, &p->seen, &p->links);
  if (p->begin < p->links.until && p->begin + (int64_t)block->words > p->links.from) {
    int64_t both = p->links.until - p->begin, all = (int64_t)p->all;
    *p->links.late = later(*p->links.late, both < all ? both : all);
    p->begin = p->links.until;
    p->held = true;
    p->held_at = block->at;
  }
  if (k == 0) p->first = p->begin;
  p->left -= block->words;
  p->time = p->begin;
  p->at = 0;
  p->words = block->words;
  p->cycles = block->words + block->words * (uint64_t)p->shared / p->all;
  if (!host && block->cycles > p->cycles) p->cycles = block->cycles;
  if (host && (uint64_t)w->border > p->cycles) p->cycles = (uint64_t)w->border;
  p->round = host ? w->c->round : NULL;
}

/* When the border has room for words of the host. */
static int64_t host_begins(const fragment_clock *c) {
  return c->round ? c->round->start : c->edge;
}

static void pass_border(walk *w, int64_t begin) {
  const fragment_round *r = w->c->round;
  w->edge = later(w->edge, begin + w->border);
  if (r) w->edge = later(w->edge, r->start + (int64_t)r->cycles);
}

/* Those whose queues are full with words of block k up to `end`; `next`: the first that may be. */
static uint32_t fill_until(const walk *w, const fragment_bus *bus, uint32_t k, uint64_t end,
                           uint32_t next, passage *p) {
  for (; next < bus->full_count; next++) {
    const fragment_taker *t = &bus->takers[bus->full[next]];
    if (t->full_block != k || t->full > end) break;
    fill(w, bus, t, p);
  }
  return next;
}

static void pass_bus(walk *w, const fragment_bus *bus) {
  int64_t *last = w->past, *late = last + 1, *ends = last + 2;
  int64_t *takes = ends + AHEAD * bus->block_count;
  uint32_t t = 0, full = 0;
  passage p = {.time = w->times ? *last : INT64_MIN,
               .all = words_of(bus),
               .left = words_of(bus),
               .shared = *late,
               .seen = end_of(bus),
               .links = {INT64_MAX, INT64_MIN, NULL}};
  *late = 0;
  fragment_spend(w->c->effort, bus->block_count + bus->taker_count + p.seen - bus->blocks[0].at);
  for (uint32_t k = 0; k < bus->block_count; k++, ends += AHEAD) {
    const fragment_block *block = &bus->blocks[k];
    bool host = is_host(w, bus, block->at);
    uint32_t at = position(w, bus, block->at);
    uint32_t list = bus->back * FRAGMENT_BACK + FRAGMENT_SEND;
    int64_t start = host ? host_begins(w->c) : list_begins(w, at, list);
    begin_block(w, bus, k, start, &p);
    for (; t < bus->taker_count && bus->takers[t].block == k; t++) {
      full = fill_until(w, bus, k, bus->takers[t].end, full, &p);
      take(w, bus, &bus->takers[t], takes + AHEAD * t, &p);
    }
    full = fill_until(w, bus, k, UINT64_MAX, full, &p);
    pass_words(&p, block->words);
    int64_t end = host ? p.time : sent(w, block, start, ends, &p);
    if (!host) end = list_ends(w, at, list, block->words, end);
    w->done[at] = later(w->done[at], end);
    if (host) pass_border(w, p.begin);
    ends[w->times % AHEAD] = p.time;
  }
  *last = p.time;
  leave_links(w, bus, p.time - p.shared, late);
  w->past = takes + AHEAD * bus->taker_count;
}

/* ---- a line ---- */

/* When the core begins with a line: to send last behind what it still sends, but the microthreads
 * of these sends set up side by side. */
static int64_t enter(const walk *w, size_t core) {
  int64_t at = (int64_t)w->c->cores[core];
  return goes_on(w, core) ? later(at, (int64_t)w->c->sent[core] - w->setup) : at;
}

static void set(walk *w, size_t core, int64_t time) {
  *(goes_on(w, core) ? &w->c->sent[core] : &w->c->cores[core]) = (uint64_t)time;
  if (w->c->passes[core]) w->c->passes[core]--;
  if ((uint64_t)time > w->c->last) w->c->last = (uint64_t)time;
}

/* `first` .. first + count - 1: one line, or those that share a trunk, of which the last to come
 * holds the others up. */
static void pass_line(walk *w, uint32_t first, uint32_t count) {
  const fragment_line *line = w->line;
  w->trunk = first + count / 2;
  for (uint32_t p = line->border; p < line->length; p++) {
    w->enter[p] = 0;
    w->threads[p] = w->c->machine->microthreads - 1;
    for (uint32_t i = 0; i < count && line->busy[p]; i++) {
      size_t core = core_at(w, first + i, p);
      w->enter[p] = later(w->enter[p], enter(w, core));
      if (w->c->threads[core] < w->threads[p]) w->threads[p] = w->c->threads[core];
    }
    w->done[p] = w->enter[p] + (int64_t)line->busy[p];
    for (uint32_t i = p * FRAGMENT_TRANSFERS; i < (p + 1) * FRAGMENT_TRANSFERS; i++) {
      w->ends[i] = w->enter[p];
      w->begins[i] = INT64_MAX;
    }
  }
  w->enter[0] = line->border ? 0 : w->enter[0];
  w->done[0] = line->border ? 0 : w->done[0];
  for (uint32_t i = 0; i < line->bus_count; i++) pass_bus(w, &line->buses[i]);
  for (uint32_t p = line->border; p < line->length; p++)
    for (uint32_t i = 0; i < count && line->busy[p]; i++) {
      uint32_t off = i > count / 2 ? i - count / 2 : count / 2 - i;
      set(w, core_at(w, first + i, p), w->done[p] + (int64_t)off * w->hop);
    }
}

static uint64_t past_of(const fragment_line *line) {
  uint64_t each = 0, lines = 0;
  for (uint32_t i = 0; i < line->bus_count; i++)
    each += 2 + AHEAD * ((uint64_t)line->buses[i].block_count + line->buses[i].taker_count);
  for (uint32_t i = 0; i < line->span_count; i++) lines += line->trunks ? 1 : line->spans[i].count;
  return each * lines;
}

fragment_past *walk_past(const fragment_clock *c, const fragment *f) {
  fragment_past *past = WAFER_NEW(c->arena, fragment_past, 1);
  uint64_t all = 0;
  for (uint32_t i = 0; i < f->line_count; i++) all += past_of(&f->lines[i]);
  if (past) past->ends = WAFER_NEW(c->arena, int64_t, all);
  return past && past->ends ? past : NULL;
}

bool walk_lines(walk *w) {
  const fragment *f = w->f;
  uint32_t longest = 1;
  if (!f->line_count) return true;
  for (uint32_t i = 0; i < f->line_count; i++)
    if (f->lines[i].length > longest) longest = f->lines[i].length;
  wafer_arena *arena = wafer_arena_create();
  w->enter = arena ? WAFER_NEW(arena, int64_t, longest) : NULL;
  w->done = arena ? WAFER_NEW(arena, int64_t, longest) : NULL;
  w->threads = arena ? WAFER_NEW(arena, uint32_t, longest) : NULL;
  w->ends = arena ? WAFER_NEW(arena, int64_t, FRAGMENT_TRANSFERS * (size_t)longest) : NULL;
  w->begins = arena ? WAFER_NEW(arena, int64_t, FRAGMENT_TRANSFERS * (size_t)longest) : NULL;
  bool made = w->enter && w->done && w->threads && w->ends && w->begins;
  for (uint32_t i = 0; made && i < f->line_count; i++) {
    w->line = &f->lines[i];
    for (uint32_t s = 0; s < w->line->span_count; s++) {
      const fragment_span *span = &w->line->spans[s];
      uint32_t each = w->line->trunks ? span->count : 1;
      for (uint32_t y = 0; y < span->count; y += each) pass_line(w, span->first + y, each);
    }
  }
  wafer_arena_destroy(arena);
  return made;
}
