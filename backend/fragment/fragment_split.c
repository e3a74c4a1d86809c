/* A colour of a fragment for some of its routers, another one for the others. */
#include <string.h>

#include "fragment_around.h"

typedef struct splitter {
  fragment *out;
  const fragment_where *where;
  uint8_t color, other;
} splitter;

static bool is_there(const splitter *s, uint32_t x, uint32_t y) {
  return s->where->there[(size_t)y * s->where->width + x];
}

/* The routers of `r` from (x, y) on in its row that are there, or not, as the first is. */
static wafer_rect run_at(const splitter *s, wafer_rect r, uint32_t x, uint32_t y) {
  uint32_t end = x + 1;
  while (end < r.x + r.width && is_there(s, end, y) == is_there(s, x, y)) end++;
  return (wafer_rect){x, y, end - x, 1};
}

static bool is_uniform(const splitter *s, wafer_rect r) {
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    if (is_there(s, r.x, y) != is_there(s, r.x, r.y) || run_at(s, r, r.x, y).width < r.width)
      return false;
  return true;
}

/* A rectangle of something that has the colour, in parts of which each has one: `add` keeps it. */
typedef void adder(splitter *s, const void *item, wafer_rect cores, uint8_t color);

static void split(splitter *s, const void *item, wafer_rect r, adder *add) {
  if (is_uniform(s, r)) {
    add(s, item, r, is_there(s, r.x, r.y) ? s->other : s->color);
    return;
  }
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    for (uint32_t x = r.x; x < r.x + r.width;) {
      wafer_rect run = run_at(s, r, x, y);
      add(s, item, run, is_there(s, x, y) ? s->other : s->color);
      x += run.width;
    }
}

static void add_route(splitter *s, const void *item, wafer_rect cores, uint8_t color) {
  wafer_route route = *(const wafer_route *)item;
  route.cores = cores;
  route.color = color;
  fragment_route(s->out, &route);
}

static void add_source(splitter *s, const void *item, wafer_rect cores, uint8_t color) {
  fragment_source_add(s->out, cores, color, ((const fragment_source *)item)->words);
}

static void add_filter(splitter *s, const void *item, wafer_rect cores, uint8_t color) {
  const fragment_filter *filter = item;
  fragment_filter_add(s->out, cores, color, filter->runs, filter->count);
}

/* All that the fragment has of colours, but for its code. */
static void split_routes(splitter *s, const fragment *f) {
  for (uint32_t i = 0; i < f->route_count; i++) {
    const wafer_route *r = &f->routes[i];
    r->color == s->color ? split(s, r, r->cores, add_route) : fragment_route(s->out, r);
  }
  for (uint32_t i = 0; i < f->use_count; i++) {
    const fragment_filter_use *use = &f->uses[i];
    const fragment_filter *filter = &f->filters[use->filter];
    if (use->color == s->color)
      split(s, filter, use->cores, add_filter);
    else
      fragment_filter_add(s->out, use->cores, use->color, filter->runs, filter->count);
  }
  for (uint32_t i = 0; i < f->source_count; i++) {
    const fragment_source *from = &f->sources[i];
    if (from->color == s->color)
      split(s, from, from->cores, add_source);
    else
      fragment_source_add(s->out, from->cores, from->color, from->words);
  }
  for (uint32_t i = 0; i < f->port_count; i++) {
    wafer_port_use port = f->ports[i];
    if (port.color == s->color && is_there(s, port.x, port.y)) port.color = s->other;
    fragment_port(s->out, &port);
  }
}

/* The same code with the other colour. False: out of memory. */
static bool put_code(splitter *s, const fragment_code *from, fragment_code *to) {
  wafer_instruction *code = wafer_arena_copy(s->out->arena, from->code, from->count * sizeof *code);
  if (!code) return false;
  for (uint32_t i = 0; i < from->count; i++) {
    wafer_operand *operands[] = {&code[i].out, &code[i].in[0], &code[i].in[1], &code[i].in[2]};
    for (uint32_t k = 0; k < WAFER_COUNT(operands) && code[i].op < WAFER_CORE_VECTORS; k++)
      if (operands[k]->kind == WAFER_OPERAND_fabric && operands[k]->color == s->color)
        operands[k]->color = s->other;
  }
  *to = *from;
  to->code = code;
  return true;
}

static bool split_codes(splitter *s, const fragment *f) {
  fragment *out = s->out;
  size_t cores = wafer_rect_area(f->rect);
  uint32_t *other = WAFER_NEW(out->arena, uint32_t, f->code_count);
  out->codes = WAFER_NEW(out->arena, fragment_code, 2 * (size_t)f->code_count);
  out->variant = wafer_arena_copy(out->arena, f->variant, cores * sizeof *f->variant);
  if (!other || !out->codes || !out->variant) return false;
  memcpy(out->codes, f->codes, f->code_count * sizeof *f->codes);
  out->code_count = f->code_count;
  for (size_t i = 0; i < cores; i++) {
    uint32_t *variant = &out->variant[i], x = (uint32_t)(i % f->rect.width);
    uint32_t y = (uint32_t)(i / f->rect.width);
    if (*variant == FRAGMENT_IDLE || !is_there(s, f->rect.x + x, f->rect.y + y)) continue;
    if (!other[*variant]) {
      other[*variant] = out->code_count++;
      if (!put_code(s, &f->codes[*variant], &out->codes[other[*variant]])) return false;
    }
    *variant = other[*variant];
  }
  return true;
}

const fragment *fragment_split(wafer_arena *arena, const fragment *f, uint32_t color,
                               const fragment_where *where) {
  fragment *out = wafer_arena_copy(arena, f, sizeof *f);
  splitter s = {out, where, (uint8_t)color, (uint8_t)f->colors};
  if (!out) return NULL;
  *out = (fragment){.name = f->name,
                    .node = f->node,
                    .stream = f->stream,
                    .makes_room = f->makes_room,
                    .rect = f->rect,
                    .scratch_at = f->scratch_at,
                    .scratch_end = f->scratch_end,
                    .colors = f->colors + 1,
                    .line_count = f->line_count,
                    .line_room = f->line_count,
                    .lines = f->lines,
                    .around = f->around,
                    .cycles = f->cycles,
                    .border = f->border,
                    .chain_count = f->chain_count,
                    .chain_room = f->chain_count,
                    .chains = f->chains,
                    .phase_count = f->phase_count,
                    .arena = arena};
  if (!split_codes(&s, f)) return NULL;
  split_routes(&s, f);
  return out->failed ? NULL : out;
}
