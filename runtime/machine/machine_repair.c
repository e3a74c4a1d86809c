/* A machine with defects: spare rows or columns make a full rectangle of it, or what is dead, and
 * what the dead cut off, is listed for kernels and routes to keep off. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "machine_fields.h"

#define MOST_CORES (1u << 22) /* of a fabric with random defects or repair */
#define CUT_OFF_SHARE 16      /* a part of this share of the live cores is a half, no chip */

enum { DEAD = 1, NO_EAST = 2, NO_SOUTH = 4, REACHED = 8 };

typedef struct repairer {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *file;
  const wafer_machine *made;
  const wafer_defects *defects;
  uint8_t *state; /* of each core as it was made */
} repairer;

const char *wafer_repair_name(wafer_repair_policy policy) {
  static const char *const names[] = {
#define X(name) #name,
      WAFER_REPAIR_MAP(X)
#undef X
  };
  return (uint32_t)policy < WAFER_REPAIR_COUNT ? names[policy] : "unknown";
}

static wafer_status no_memory(const repairer *r) {
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "no memory for defects");
}

/* ---- what is dead ---- */

/* The finalizer of splitmix64 over seed and place: the same on every host. */
static uint64_t hash_of(uint64_t seed, uint32_t x, uint32_t y) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (1 + (((uint64_t)y << 32) | x));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static wafer_status outside(const repairer *r, const char *what, uint32_t x, uint32_t y) {
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT,
                    "%s (%u,%u) is outside the fabric of %u x %u cores", what, x, y, r->made->width,
                    r->made->height);
}

static wafer_status mark_links(const repairer *r) {
  const wafer_machine *m = r->made;
  for (uint32_t i = 0; i < r->defects->link_count; i++) {
    wafer_link_at at = r->defects->links[i];
    if (at.x >= m->width - !at.south || at.y >= m->height - at.south)
      return outside(r, "a dead link of core", at.x, at.y);
    r->state[(size_t)at.y * m->width + at.x] |= DEAD | (at.south ? NO_SOUTH : NO_EAST);
  }
  return WAFER_OK;
}

static wafer_status mark(const repairer *r) {
  const wafer_machine *m = r->made;
  const wafer_defects *d = r->defects;
  for (uint32_t i = 0; i < d->dead_count; i++) {
    if (d->dead[i].x >= m->width || d->dead[i].y >= m->height)
      return outside(r, "dead core", d->dead[i].x, d->dead[i].y);
    r->state[(size_t)d->dead[i].y * m->width + d->dead[i].x] |= DEAD;
  }
  for (uint32_t y = 0; d->per_million && y < m->height; y++)
    for (uint32_t x = 0; x < m->width; x++)
      if (hash_of(d->seed, x, y) % 1000000 < d->per_million)
        r->state[(size_t)y * m->width + x] |= DEAD;
  return mark_links(r);
}

/* The marked cores in an array of their own. */
static wafer_status list_dead(const repairer *r, uint32_t *count, const wafer_core_at **out) {
  size_t cores = (size_t)r->made->width * r->made->height, n = 0;
  for (size_t i = 0; i < cores; i++) n += r->state[i] & DEAD;
  wafer_core_at *at = WAFER_NEW(r->arena, wafer_core_at, n);
  if (!at) return no_memory(r);
  *count = 0;
  for (size_t i = 0; i < cores; i++)
    if (r->state[i] & DEAD)
      at[(*count)++] =
          (wafer_core_at){(uint32_t)(i % r->made->width), (uint32_t)(i / r->made->width)};
  *out = at;
  return WAFER_OK;
}

/* What the other policy makes of the wafer, tried: behind a refusal. Where nobody is told nothing
 * is tried, so that a try does not end in another. */
static const char *other_way(const repairer *r, const char *otherwise);

/* ---- is it in one piece? ---- */

/* Marks all that can be reached from a core; their number. With spares a dead core is passed over,
 * a dead link is not. */
static size_t reach(const repairer *r, size_t from, uint32_t *queue) {
  uint32_t w = r->made->width, h = r->made->height;
  bool over = r->defects->policy == WAFER_REPAIR_spares;
  size_t count = 0;
  queue[count++] = (uint32_t)from;
  r->state[from] |= REACHED;
  for (size_t head = 0; head < count; head++) {
    uint32_t at = queue[head], x = at % w, y = at / w;
    const struct {
      bool there;
      uint32_t to, link;
      uint8_t broken;
    } ways[] = {{x + 1 < w, at + 1, at, NO_EAST},
                {x > 0, at - 1, at - 1, NO_EAST},
                {y + 1 < h, at + w, at, NO_SOUTH},
                {y > 0, at - w, at - w, NO_SOUTH}};
    for (size_t i = 0; i < WAFER_COUNT(ways); i++) {
      uint32_t to = ways[i].to;
      if (!ways[i].there || (r->state[ways[i].link] & ways[i].broken) || r->state[to] & REACHED ||
          (!over && r->state[to] & DEAD))
        continue;
      r->state[to] |= REACHED;
      queue[count++] = to;
    }
  }
  return count;
}

/* What the largest piece cannot reach is dead too; a piece as large as a share of the wafer means
 * that it is cut. */
static wafer_status check_whole(const repairer *r) {
  size_t cores = (size_t)r->made->width * r->made->height, most = 0, live = 0, first = 0;
  bool over = r->defects->policy == WAFER_REPAIR_spares;
  uint32_t *queue = WAFER_NEW(r->arena, uint32_t, cores);
  if (!queue) return no_memory(r);
  for (size_t i = 0; i < cores; i++) {
    if (r->state[i] & REACHED || (!over && r->state[i] & DEAD)) continue;
    size_t part = reach(r, i, queue);
    live += part;
    if (part <= most) continue;
    most = part;
    first = i;
  }
  if ((live - most) * CUT_OFF_SHARE > live)
    return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_FIT,
                      "dead cores and links cut the wafer in pieces: %zu of %zu live cores cannot "
                      "be reached from the %zu around (%zu,%zu); %s",
                      live - most, live, most, first % r->made->width, first / r->made->width,
                      other_way(r, "no plan can use such a wafer"));
  if (most == live) return WAFER_OK;
  for (size_t i = 0; i < cores; i++) r->state[i] &= (uint8_t)~REACHED;
  if (most) reach(r, first, queue);
  for (size_t i = 0; i < cores; i++)
    if (!(r->state[i] & REACHED)) r->state[i] |= DEAD;
  return WAFER_OK;
}

/* ---- spare rows and columns ---- */

/* The fabric seen along lines that lose their dead cores: columns, or rows. */
typedef struct view {
  bool columns; /* spare columns: the lines are rows */
  uint32_t lines, length, live;
  size_t line_step, step;
} view;

static view view_of(const wafer_machine *m, bool columns) {
  return columns ? (view){true, m->height, m->width, 0, m->width, 1}
                 : (view){false, m->width, m->height, 0, 1, m->width};
}

/* Live cores of the line that has fewest. */
static uint32_t least_live(const repairer *r, const view *v) {
  uint32_t least = v->length;
  for (uint32_t i = 0; i < v->lines; i++) {
    uint32_t live = 0;
    for (uint32_t j = 0; j < v->length; j++)
      live += !(r->state[i * v->line_step + j * v->step] & DEAD);
    least = live < least ? live : least;
  }
  return least;
}

static uint64_t usable_after(const wafer_machine *m, const view *v) {
  uint32_t lost = v->length - v->live;
  wafer_rect u = m->usable;
  uint32_t *side = v->columns ? &u.width : &u.height;
  *side = *side > lost ? *side - lost : 0;
  return wafer_rect_area(u);
}

/* The way that leaves more. */
static wafer_status choose_view(const repairer *r, view *out) {
  view rows = view_of(r->made, false), columns = view_of(r->made, true);
  rows.live = least_live(r, &rows);
  columns.live = least_live(r, &columns);
  uint64_t by_rows = usable_after(r->made, &rows), by_columns = usable_after(r->made, &columns);
  *out = by_columns > by_rows ? columns : rows;
  if (by_rows || by_columns) return WAFER_OK;
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_FIT,
                    "spares cannot repair this wafer: some column has %u live cores of %u and some "
                    "row %u of %u, which leaves no usable rectangle; %s",
                    rows.live, rows.length, columns.live, columns.length,
                    other_way(r, "what is left cannot be used either"));
}

/* Where the cores of a line lie: each at the place that spreads the lost ones evenly, or at the
 * next live core behind it, as long as enough live ones are left. */
static void place_line(const repairer *r, const view *v, uint32_t line, uint32_t *live,
                       uint16_t *moved, size_t step) {
  uint32_t count = 0, next = 0;
  for (uint32_t j = 0; j < v->length; j++)
    if (!(r->state[line * v->line_step + j * v->step] & DEAD)) live[count++] = j;
  for (uint32_t i = 0; i < v->live; i++, next++) {
    uint32_t wish = i + (uint32_t)((uint64_t)i * (v->length - v->live) / v->live);
    while (live[next] < wish && next < count - v->live + i) next++;
    moved[i * step] = (uint16_t)live[next];
  }
}

/* ---- what bypasses cost ---- */

static uint32_t link_hops(const wafer_repair *p, uint32_t width, uint32_t x, uint32_t y,
                          bool south) {
  uint32_t a = p->moved[(size_t)y * width + x],
           b = p->moved[(size_t)(y + south) * width + x + !south];
  uint32_t apart = a > b ? a - b : b - a;
  return south == !p->columns ? apart : apart + 1;
}

typedef struct stretch {
  uint64_t links, hops, most;
  uint64_t worst_line; /* mean hops of a link, rounded up */
} stretch;

static void measure_lines(const wafer_machine *m, const wafer_repair *p, bool south, stretch *s) {
  uint32_t lines = south ? m->width : m->height, links = (south ? m->height : m->width) - 1;
  for (uint32_t i = 0; i < lines; i++) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < links; j++) {
      uint64_t hops = link_hops(p, m->width, south ? i : j, south ? j : i, south);
      sum += hops;
      s->most = hops > s->most ? hops : s->most;
    }
    s->links += links;
    s->hops += sum;
    if (links && (sum + links - 1) / links > s->worst_line)
      s->worst_line = (sum + links - 1) / links;
  }
}

/* The most that any straight run takes beyond `each` hops a link: the greatest sum over a run. */
static uint64_t most_beyond(const wafer_machine *m, const wafer_repair *p, bool south,
                            uint64_t each) {
  uint32_t lines = south ? m->width : m->height, links = (south ? m->height : m->width) - 1;
  uint64_t most = 0;
  for (uint32_t i = 0; i < lines; i++) {
    uint64_t run = 0;
    for (uint32_t j = 0; j < links; j++) {
      run += link_hops(p, m->width, south ? i : j, south ? j : i, south);
      run = run > each ? run - each : 0;
      most = run > most ? run : most;
    }
  }
  return most;
}

static void measure(wafer_machine *m, wafer_repair *p) {
  stretch s = {.worst_line = 1};
  measure_lines(m, p, false, &s);
  measure_lines(m, p, true, &s);
  uint64_t east = most_beyond(m, p, false, s.worst_line);
  uint64_t south = most_beyond(m, p, true, s.worst_line);
  p->links_most = (uint32_t)(s.most ? s.most : 1);
  p->links_mean = s.links ? (uint32_t)(1000 * s.hops / s.links) : 1000;
  m->hop_cycles *= (uint32_t)s.worst_line;
  m->detour_cycles = (uint32_t)(east > south ? east : south) * p->hop_cycles;
}

static wafer_status repair(const repairer *r, wafer_machine *m) {
  view v;
  WAFER_TRY(choose_view(r, &v));
  wafer_repair *p = WAFER_NEW(r->arena, wafer_repair, 1);
  uint16_t *moved = WAFER_NEW(r->arena, uint16_t, (size_t)v.lines * v.live);
  uint32_t *live = WAFER_NEW(r->arena, uint32_t, v.length);
  if (!p || !moved || !live) return no_memory(r);
  *p = (wafer_repair){.width = m->width,
                      .height = m->height,
                      .usable = m->usable,
                      .hop_cycles = m->hop_cycles,
                      .columns = v.columns,
                      .lost = v.length - v.live,
                      .moved = moved};
  WAFER_TRY(list_dead(r, &p->dead_count, &p->dead));
  *(v.columns ? &m->width : &m->height) = v.live;
  *(v.columns ? &m->usable.width : &m->usable.height) -= p->lost;
  for (uint32_t i = 0; i < v.lines; i++)
    place_line(r, &v, i, live, moved + (v.columns ? (size_t)i * m->width : i),
               v.columns ? 1 : m->width);
  measure(m, p);
  m->repair = p;
  return WAFER_OK;
}

/* ---- the whole ---- */

static bool by_place(wafer_core_at a, wafer_core_at b) {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

/* Each once, sorted: what the printed machine says. */
static wafer_status check_named(const repairer *r) {
  const wafer_defects *d = r->defects;
  for (uint32_t i = 1; i < d->dead_count; i++)
    if (!by_place(d->dead[i - 1], d->dead[i]))
      return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT,
                        "dead core (%u,%u) is listed twice", d->dead[i].x, d->dead[i].y);
  if ((uint64_t)r->made->width * r->made->height <= MOST_CORES) return WAFER_OK;
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT,
                    "defects are worked out for at most %u cores, the fabric has %u x %u",
                    MOST_CORES, r->made->width, r->made->height);
}

static wafer_status apply(const repairer *r, wafer_machine *m) {
  WAFER_TRY(check_named(r));
  WAFER_TRY(mark(r));
  WAFER_TRY(check_whole(r));
  if (r->defects->policy == WAFER_REPAIR_spares) return repair(r, m);
  return list_dead(r, &m->dead_count, &m->dead);
}

/* Live cores of the usable rectangle. */
static uint64_t left_of(const wafer_machine *m) {
  uint64_t cores = wafer_rect_area(m->usable);
  for (uint32_t i = 0; i < m->dead_count; i++)
    cores -= wafer_rect_overlaps(m->usable, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1});
  return cores;
}

static const char *other_way(const repairer *r, const char *otherwise) {
  if (!r->diag) return otherwise;
  bool spares = r->defects->policy == WAFER_REPAIR_spares;
  repairer with = {.arena = r->arena, .file = r->file, .made = r->made};
  wafer_machine *m = wafer_arena_copy(r->arena, r->made, sizeof *m);
  wafer_defects *other = wafer_arena_copy(r->arena, r->defects, sizeof *other);
  with.state = WAFER_NEW(r->arena, uint8_t, (size_t)r->made->width * r->made->height);
  if (!m || !other || !with.state) return otherwise;
  other->policy = spares ? WAFER_REPAIR_avoid : WAFER_REPAIR_spares;
  with.defects = m->defects = other;
  bool works = apply(&with, m) == WAFER_OK && wafer_machine_check(NULL, r->file, m) == WAFER_OK;
  const char *name = wafer_repair_name(other->policy);
  const char *text =
      works ? wafer_arena_printf(r->arena, "--repair %s leaves %" PRIu64 " cores", name, left_of(m))
            : NULL;
  return text ? text : otherwise;
}

wafer_status wafer_machine_apply(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const wafer_machine *machine, const wafer_defects *defects,
                                 const wafer_machine **out) {
  repairer r = {.diag = diag, .arena = arena, .file = file, .made = machine};
  wafer_machine *m = wafer_arena_copy(arena, machine, sizeof *machine);
  wafer_defects *kept = wafer_arena_copy(arena, defects, sizeof *defects);
  *out = m;
  if (!m || !kept) return no_memory(&r);
  if (machine->defects)
    return wafer_fail(diag, wafer_at_file(file), WAFER_USAGE,
                      "machine '%s' names defects of its own; give them in one place",
                      machine->name);
  if ((uint64_t)machine->width * machine->height <= MOST_CORES)
    r.state = WAFER_NEW(arena, uint8_t, (size_t)machine->width * machine->height);
  if ((uint64_t)machine->width * machine->height <= MOST_CORES && !r.state) return no_memory(&r);
  r.defects = m->defects = kept;
  WAFER_TRY(apply(&r, m));
  return wafer_machine_check(diag, file, m);
}

wafer_core_at wafer_machine_made_at(const wafer_machine *m, uint32_t x, uint32_t y) {
  if (!m->repair || x >= m->width || y >= m->height) return (wafer_core_at){x, y};
  uint32_t moved = m->repair->moved[(size_t)y * m->width + x];
  return m->repair->columns ? (wafer_core_at){moved, y} : (wafer_core_at){x, moved};
}
