#include "fragment.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Room for one more, doubling; NULL and `failed` when there is no memory. */
static void *grow(fragment *f, void *list, uint32_t count, uint32_t *room, size_t size) {
  f->failed = f->failed || !wafer_arena_grow(f->arena, &list, count, room, size, 16);
  return f->failed ? NULL : list;
}

void fragment_begin(fragment *f, wafer_arena *arena, const char *name, const char *node,
                    wafer_rect rect) {
  size_t cores = wafer_rect_area(rect);
  *f = (fragment){.name = name, .node = node, .rect = rect, .arena = arena};
  f->variant = WAFER_NEW(arena, uint32_t, cores);
  f->failed = !f->variant;
  if (f->variant) memset(f->variant, 0xff, cores * sizeof *f->variant);
}

/* ---- code, each kind once ---- */

/* Field by field into zeroes: bytes between fields are equal too. */
static void put_operand(wafer_operand *to, const wafer_operand *from) {
  to->kind = from->kind;
  to->dtype = from->dtype;
  to->color = from->color;
  to->reg = from->reg;
  to->address = from->address;
  memcpy(to->stride, from->stride, sizeof to->stride);
  to->value = from->value;
}

static void put_instruction(wafer_instruction *to, const wafer_instruction *from) {
  to->op = from->op;
  to->thread = from->thread;
  to->after = from->after;
  to->async = from->async;
  to->load_descriptors = from->load_descriptors;
  to->control = from->control;
  to->then = from->then;
  to->count_reg = from->count_reg;
  to->a = from->a;
  to->b = from->b;
  to->c = from->c;
  to->function = from->function;
  to->target = from->target;
  to->value = from->value;
  memcpy(to->shape, from->shape, sizeof to->shape);
  to->attrs = from->attrs;
  put_operand(&to->out, &from->out);
  for (uint32_t k = 0; k < WAFER_COUNT(to->in); k++) put_operand(&to->in[k], &from->in[k]);
}

static void rehash(fragment *f) {
  uint32_t count = f->bucket_count ? f->bucket_count * 4 : 64;
  uint32_t *buckets = WAFER_NEW(f->arena, uint32_t, count);
  f->failed |= !buckets;
  if (!buckets) return;
  memset(buckets, 0xff, count * sizeof *buckets);
  for (uint32_t i = 0; i < f->code_count; i++) {
    size_t bytes = f->codes[i].count * sizeof *f->codes[i].code;
    uint32_t at = (uint32_t)XXH3_64bits(f->codes[i].code, bytes) & (count - 1);
    while (buckets[at] != UINT32_MAX) at = (at + 1) & (count - 1);
    buckets[at] = i;
  }
  f->buckets = buckets;
  f->bucket_count = count;
}

/* Room for code that may be known. */
static wafer_instruction *spare_code(fragment *f, uint32_t count) {
  if (count <= f->spare_room) return f->spare;
  f->spare = WAFER_NEW(f->arena, wafer_instruction, 2 * count);
  f->spare_room = f->spare ? 2 * count : 0;
  f->failed |= !f->spare;
  return f->spare;
}

uint32_t fragment_code_add(fragment *f, const wafer_instruction *code, uint32_t count) {
  if (2 * f->code_count >= f->bucket_count) rehash(f);
  wafer_instruction *clean = spare_code(f, count);
  if (f->failed) return FRAGMENT_IDLE;
  for (uint32_t i = 0; i < count; i++) put_instruction(&clean[i], &code[i]);
  size_t bytes = count * sizeof *clean;
  uint32_t at = (uint32_t)XXH3_64bits(clean, bytes) & (f->bucket_count - 1);
  for (; f->buckets[at] != UINT32_MAX; at = (at + 1) & (f->bucket_count - 1)) {
    const fragment_code *known = &f->codes[f->buckets[at]];
    if (known->count == count && memcmp(known->code, clean, bytes) == 0) return f->buckets[at];
  }
  fragment_code *codes = grow(f, f->codes, f->code_count, &f->code_room, sizeof *codes);
  const wafer_instruction *copy = wafer_arena_copy(f->arena, clean, bytes);
  f->failed |= !copy;
  if (f->failed) return FRAGMENT_IDLE;
  f->codes = codes;
  codes[f->code_count] = fragment_describe(copy, count);
  f->buckets[at] = f->code_count;
  return f->code_count++;
}

/* ---- one code after another ---- */

typedef struct fragment_pair {
  uint32_t first, second, both;
  bool used;
} fragment_pair;

static fragment_pair *find_pair(fragment_pair *pairs, uint32_t room, uint32_t first,
                                uint32_t second) {
  uint64_t hash = ((uint64_t)first << 32 | second) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(hash >> 32) & (room - 1);
  while (pairs[at].used && (pairs[at].first != first || pairs[at].second != second))
    at = (at + 1) & (room - 1);
  return &pairs[at];
}

static bool more_pairs(fragment *f) {
  uint32_t room = f->pair_room ? 4 * f->pair_room : 64;
  fragment_pair *more = WAFER_NEW(f->arena, fragment_pair, room);
  f->failed |= !more;
  if (!more) return false;
  for (uint32_t i = 0; i < f->pair_room; i++)
    if (f->pairs[i].used)
      *find_pair(more, room, f->pairs[i].first, f->pairs[i].second) = f->pairs[i];
  f->pairs = more;
  f->pair_room = room;
  return true;
}

static uint32_t put_behind(fragment *f, uint32_t first, uint32_t second) {
  const fragment_code *a = &f->codes[first], *b = &f->codes[second];
  uint32_t count = a->count + b->count, begin = a->count;
  wafer_instruction *code = WAFER_NEW(f->arena, wafer_instruction, count);
  f->failed |= !code;
  if (!code) return FRAGMENT_IDLE;
  memcpy(code, a->code, a->count * sizeof *code);
  memcpy(code + begin, b->code, b->count * sizeof *code);
  for (uint32_t i = begin; i < count; i++)
    if (code[i].op == WAFER_CORE_branch) code[i].target = (uint16_t)(code[i].target + begin);
  return fragment_code_add(f, code, count);
}

static uint32_t behind(fragment *f, uint32_t first, uint32_t second) {
  if (first == FRAGMENT_IDLE || second == FRAGMENT_IDLE)
    return first == FRAGMENT_IDLE ? second : first;
  if (2 * f->pair_count >= f->pair_room && !more_pairs(f)) return FRAGMENT_IDLE;
  fragment_pair *pair = find_pair(f->pairs, f->pair_room, first, second);
  if (!pair->used) {
    *pair = (fragment_pair){first, second, put_behind(f, first, second), true};
    f->pair_count++;
  }
  return pair->both;
}

void fragment_run(fragment *f, wafer_rect cores, uint32_t code) {
  for (uint32_t y = cores.y - f->rect.y; y < cores.y - f->rect.y + cores.height; y++)
    for (uint32_t x = cores.x - f->rect.x; x < cores.x - f->rect.x + cores.width && !f->failed;
         x++) {
      uint32_t *variant = &f->variant[y * f->rect.width + x];
      *variant = behind(f, *variant, code);
    }
}

/* ---- colours ---- */

uint8_t fragment_color(fragment *f) {
  return (uint8_t)f->colors++;
}

bool fragment_same_way(const wafer_route *a, const wafer_route *b) {
  bool same = a->positions == b->positions && a->wrap == b->wrap;
  for (uint32_t i = 0; i < a->positions && same; i++)
    same = a->at[i].from == b->at[i].from && a->at[i].to == b->at[i].to;
  return same;
}

void fragment_route(fragment *f, const wafer_route *route) {
  wafer_route *routes = grow(f, f->routes, f->route_count, &f->route_room, sizeof *routes);
  if (!routes || !wafer_rect_area(route->cores)) return;
  f->routes = routes;
  routes[f->route_count++] = *route;
}

void fragment_chain_add(fragment *f, const fragment_chain *chain) {
  fragment_chain *chains = grow(f, f->chains, f->chain_count, &f->chain_room, sizeof *chains);
  if (!chains) return;
  f->chains = chains;
  chains[f->chain_count++] = *chain;
}

void fragment_line_add(fragment *f, const fragment_line *line) {
  fragment_line *lines = grow(f, f->lines, f->line_count, &f->line_room, sizeof *lines);
  if (!lines) return;
  f->lines = lines;
  lines[f->line_count++] = *line;
}

void fragment_port(fragment *f, const wafer_port_use *use) {
  wafer_port_use *ports = grow(f, f->ports, f->port_count, &f->port_room, sizeof *ports);
  if (!ports) return;
  f->ports = ports;
  ports[f->port_count++] = *use;
}

static uint32_t filter_bucket(const fragment *f, const uint32_t *runs, uint32_t count) {
  uint32_t at = (uint32_t)XXH3_64bits(runs, count * sizeof *runs) & (f->filter_bucket_count - 1);
  for (; f->filter_buckets[at] != UINT32_MAX; at = (at + 1) & (f->filter_bucket_count - 1)) {
    const fragment_filter *known = &f->filters[f->filter_buckets[at]];
    if (known->count == count && memcmp(known->runs, runs, count * sizeof *runs) == 0) break;
  }
  return at;
}

static bool more_filter_buckets(fragment *f) {
  uint32_t count = f->filter_bucket_count ? 4 * f->filter_bucket_count : 64;
  uint32_t *buckets = WAFER_NEW(f->arena, uint32_t, count);
  f->failed |= !buckets;
  if (!buckets) return false;
  memset(buckets, 0xff, count * sizeof *buckets);
  f->filter_buckets = buckets;
  f->filter_bucket_count = count;
  for (uint32_t i = 0; i < f->filter_count; i++)
    buckets[filter_bucket(f, f->filters[i].runs, f->filters[i].count)] = i;
  return true;
}

static uint32_t filter_of(fragment *f, const uint32_t *runs, uint32_t count) {
  if (2 * f->filter_count >= f->filter_bucket_count && !more_filter_buckets(f)) return 0;
  uint32_t at = filter_bucket(f, runs, count);
  if (f->filter_buckets[at] != UINT32_MAX) return f->filter_buckets[at];
  fragment_filter *list = grow(f, f->filters, f->filter_count, &f->filter_room, sizeof *list);
  uint32_t *copy = wafer_arena_copy(f->arena, runs, count * sizeof *runs);
  f->failed |= !copy;
  if (!list || !copy) return 0;
  f->filters = list;
  list[f->filter_count] = (fragment_filter){copy, count};
  f->filter_buckets[at] = f->filter_count;
  return f->filter_count++;
}

void fragment_filter_add(fragment *f, wafer_rect cores, uint8_t color, const uint32_t *runs,
                         uint32_t count) {
  uint32_t filter = filter_of(f, runs, count);
  fragment_filter_use *uses = grow(f, f->uses, f->use_count, &f->use_room, sizeof *uses);
  if (!uses) return;
  f->uses = uses;
  uses[f->use_count++] = (fragment_filter_use){cores, color, filter};
}

void fragment_source_add(fragment *f, wafer_rect cores, uint8_t color, uint64_t words) {
  fragment_source *sources = grow(f, f->sources, f->source_count, &f->source_room, sizeof *sources);
  if (!sources) return;
  f->sources = sources;
  sources[f->source_count++] = (fragment_source){cores, color, words};
}
