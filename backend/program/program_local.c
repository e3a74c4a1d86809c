/* Steps to fragments: the classes of cores, and the code of each.
 *
 * What a step's code depends on follows from kinds of rows and columns, because the dims of spreads
 * do: rows that are of the same kind in every dim of every step make one class, columns alike, and
 * a pair of classes is looked at once. Pairs with equal tiles share their code. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "program_build.h"

static int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

static const spread_part *part_of(const spread_dim *dim, uint32_t row, uint32_t col) {
  return &dim->part[dim->row[row] * dim->cols + dim->col[col]];
}

void program_range(const program_link *link, int64_t extent, uint32_t row, uint32_t col,
                   int64_t *from, int64_t *to) {
  *from = *to = 0;
  if (!link->by) {
    *to = extent;
    return;
  }
  const spread_part *part = part_of(link->by, row, col);
  if (!part->count) return;
  int64_t lo = part->runs->lo, hi = part->runs[part->count - 1].hi;
  *from = floor_div(lo * link->num - link->before, link->den);
  *to = floor_div((hi - 1) * link->num + link->after, link->den) + 1;
  if (link->clipped && *from < 0) *from = 0;
  if (link->clipped && *to > extent) *to = extent;
  if (!link->each) return;
  *from -= *from % link->each;
  *to += (link->each - *to % link->each) % link->each;
}

program_step program_step_of(uint32_t node, const spread *out,
                             void (*emit)(const program_site *site)) {
  return (program_step){.node = node, .out = out, .emit = emit};
}

wafer_status program_add(program *p, const program_step *step) {
  if (p->step_count == PROGRAM_STEPS) WAFER_TRY(program_flush(p));
  if (!WAFER_GROW(p->arena, p->steps, p->step_count, p->step_room, 2)) return program_no_memory(p);
  p->steps[p->step_count++] = *step;
  return WAFER_OK;
}

/* ---- Tiles ---- */

/* False: the core holds nothing of it. */
static bool out_tile(const spread *s, uint32_t row, uint32_t col, program_tile *tile) {
  memset(tile, 0, sizeof *tile);
  tile->address = s->address;
  for (uint32_t d = 0; d < s->rank; d++) {
    const spread_part *part = part_of(&s->dim[d], row, col);
    if (!part->count) return false;
    tile->len[d] = part->runs->hi - part->runs->lo;
    tile->address += part->runs->at * s->dim[d].stride;
  }
  return true;
}

static void in_tile(const program_operand *o, uint32_t row, uint32_t col, program_tile *tile) {
  const spread *s = o->at;
  memset(tile, 0, sizeof *tile);
  if (!s) return;
  tile->address = s->address;
  for (uint32_t d = 0; d < s->rank; d++) {
    int64_t extent = s->dim[d].extent, from, to;
    const spread_part *part = part_of(&s->dim[d], row, col);
    program_range(&o->link[d], extent, row, col, &from, &to);
    tile->len[d] = (int32_t)(to - from);
    tile->before[d] = (int32_t)(from < 0 ? (to < 0 ? to : 0) - from : 0);
    tile->after[d] = (int32_t)(to > extent ? to - (from > extent ? from : extent) : 0);
    if (part->runs) /* with no elements of its own it may still hold what lies outside */
      tile->address += (int32_t)(part->runs->at + from - part->runs->lo) * s->dim[d].stride;
  }
}

/* Everything that the code of the steps depends on; `numbers` has room for all. */
static uint32_t describe(const program *p, uint32_t row, uint32_t col, program_site *sites,
                         int32_t (*hints)[PROGRAM_EXTRA], bool *idle) {
  uint32_t busy = 0;
  for (uint32_t i = 0; i < p->step_count; i++) {
    const program_step *step = &p->steps[i];
    program_site *site = &sites[i];
    memset(site, 0, sizeof *site);
    idle[i] = !out_tile(step->out, row, col, &site->out) && !step->always;
    if (idle[i]) memset(&site->out, 0, sizeof site->out);
    if (idle[i]) continue;
    busy++;
    for (uint32_t k = 0; k < step->in_count; k++) in_tile(&step->in[k], row, col, &site->in[k]);
    int32_t numbers[2 * PROGRAM_EXTRA] = {0};
    if (step->extra) step->extra(p, step, row, col, numbers);
    memcpy(site->extra, numbers, sizeof site->extra);
    memcpy(hints[i], numbers + PROGRAM_EXTRA, sizeof hints[i]);
    site->p = p;
    site->step = step;
    site->node = &p->body->nodes[step->node];
  }
  return busy;
}

/* ---- Classes ---- */

typedef struct kinds {
  uint32_t count;
  uint32_t *of;     /* of each row, or column: its class */
  uint32_t *sample; /* a row of each class */
} kinds;

typedef struct dim_list {
  uint32_t count;
  const spread_dim **at;
} dim_list;

static void list_add(dim_list *list, const spread_dim *dim) {
  for (uint32_t i = 0; i < list->count; i++)
    if (list->at[i]->row == dim->row && list->at[i]->col == dim->col) return;
  list->at[list->count++] = dim;
}

static bool list_dims(const program *p, dim_list *list) {
  uint32_t most = WAFER_MAX_LOOPS;
  for (uint32_t i = 0; i < p->step_count; i++)
    most += WAFER_MAX_RANK * (1 + 2 * p->steps[i].in_count);
  *list = (dim_list){.at = WAFER_NEW(p->arena, const spread_dim *, most)};
  if (!list->at) return false;
  bool loops = false;
  for (uint32_t i = 0; i < p->step_count; i++) loops |= p->steps[i].extra != NULL;
  for (uint32_t l = 0; loops && l < p->loops.count; l++) list_add(list, &p->loop[l]);
  for (uint32_t i = 0; i < p->step_count; i++) {
    const program_step *step = &p->steps[i];
    for (uint32_t d = 0; d < step->out->rank; d++) list_add(list, &step->out->dim[d]);
    for (uint32_t k = 0; k < step->in_count; k++)
      for (uint32_t d = 0; step->in[k].at && d < step->in[k].at->rank; d++) {
        list_add(list, &step->in[k].at->dim[d]);
        if (step->in[k].link[d].by) list_add(list, step->in[k].link[d].by);
      }
  }
  return true;
}

static bool same_kind(const dim_list *list, bool rows, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < list->count; i++) {
    const uint32_t *kind = rows ? list->at[i]->row : list->at[i]->col;
    if (kind[a] != kind[b]) return false;
  }
  return true;
}

static uint64_t hash_kinds(const dim_list *list, bool rows, uint32_t a) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < list->count; i++)
    hash = hash * 0x9e3779b97f4a7c15u + (rows ? list->at[i]->row : list->at[i]->col)[a] + 1;
  return hash ^ hash >> 29;
}

static bool classify(const program *p, const dim_list *list, bool rows, kinds *out) {
  uint32_t n = rows ? p->r->rect.height : p->r->rect.width, size = 64;
  while (size < 2 * n) size *= 2;
  uint32_t *table = WAFER_NEW(p->arena, uint32_t, size);
  *out =
      (kinds){.of = WAFER_NEW(p->arena, uint32_t, n), .sample = WAFER_NEW(p->arena, uint32_t, n)};
  if (!table || !out->of || !out->sample) return false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t slot = (uint32_t)hash_kinds(list, rows, i) & (size - 1);
    while (table[slot] && !same_kind(list, rows, out->sample[table[slot] - 1], i))
      slot = (slot + 1) & (size - 1);
    if (!table[slot]) {
      out->sample[out->count] = i;
      table[slot] = ++out->count;
    }
    out->of[i] = table[slot] - 1;
  }
  return true;
}

/* ---- Code ---- */

typedef struct variants {
  uint32_t size, count;
  uint64_t *hash; /* 0: free */
  uint32_t *code;
} variants;

static wafer_status grow(const program *p, variants *v) {
  uint32_t size = v->size ? 2 * v->size : 256;
  variants more = {.size = size,
                   .count = v->count,
                   .hash = WAFER_NEW(p->arena, uint64_t, size),
                   .code = WAFER_NEW(p->arena, uint32_t, size)};
  if (!more.hash || !more.code) return program_no_memory(p);
  for (uint32_t i = 0; i < v->size; i++) {
    if (!v->hash[i]) continue;
    uint32_t slot = (uint32_t)v->hash[i] & (size - 1);
    while (more.hash[slot]) slot = (slot + 1) & (size - 1);
    more.hash[slot] = v->hash[i];
    more.code[slot] = v->code[i];
  }
  *v = more;
  return WAFER_OK;
}

static wafer_status make_code(const program *p, fragment *f, const program_site *sites,
                              int32_t (*hints)[PROGRAM_EXTRA], const bool *idle, program_code *code,
                              uint32_t *index) {
  uint64_t *phases = f->phase_count ? WAFER_NEW(p->arena, uint64_t, f->phase_count) : NULL;
  uint64_t before = 0;
  code->count = 0;
  code->cycles = 0;
  for (uint32_t i = 0, phase = 0; i < p->step_count; i++) {
    program_site site = sites[i];
    site.code = code;
    site.hint = hints[i];
    if (!idle[i]) p->steps[i].emit(&site);
    if (!p->steps[i].chains || !phases) continue;
    phases[phase++] = code->cycles - before;
    before = code->cycles;
  }
  if (code->failed) return program_no_memory(p);
  if (code->cycles > f->cycles) f->cycles = code->cycles;
  *index = code->count ? fragment_code_add(f, code->at, code->count) : FRAGMENT_IDLE;
  if (f->phase_count && !phases) return program_no_memory(p);
  if (*index != FRAGMENT_IDLE) {
    f->codes[*index].cycles = code->cycles;
    f->codes[*index].phases = phases;
  }
  return f->failed ? program_no_memory(p) : WAFER_OK;
}

/* The code of a pair of classes: made when its tiles are new. 64 bits of hash stand for the tiles.
 */
static wafer_status code_of(const program *p, fragment *f, variants *v, uint32_t row, uint32_t col,
                            program_site *sites, program_code *code, uint32_t *index) {
  bool idle[PROGRAM_STEPS];
  int32_t hints[PROGRAM_STEPS][PROGRAM_EXTRA];
  *index = FRAGMENT_IDLE;
  if (!describe(p, row, col, sites, hints, idle)) return WAFER_OK;
  XXH128_hash_t wide = XXH3_128bits(sites, p->step_count * sizeof *sites);
  uint64_t hash = (wide.low64 ^ wide.high64) | 1;
  if (2 * (v->count + 1) > v->size) WAFER_TRY(grow(p, v));
  uint32_t slot = (uint32_t)hash & (v->size - 1);
  while (v->hash[slot] && v->hash[slot] != hash) slot = (slot + 1) & (v->size - 1);
  if (!v->hash[slot]) {
    WAFER_TRY(make_code(p, f, sites, hints, idle, code, &v->code[slot]));
    v->hash[slot] = hash;
    v->count++;
  }
  *index = v->code[slot];
  return WAFER_OK;
}

static wafer_status fill_variants(const program *p, fragment *f, const kinds *rows,
                                  const kinds *cols) {
  wafer_rect rect = p->r->rect;
  uint32_t *code = WAFER_NEW(p->arena, uint32_t, (size_t)rows->count * cols->count);
  program_site *sites = WAFER_NEW(p->arena, program_site, p->step_count);
  program_code room = {.arena = p->arena, .machine = p->r->machine};
  variants known = {0};
  if (!code || !sites) return program_no_memory(p);
  for (uint32_t r = 0; r < rows->count; r++)
    for (uint32_t c = 0; c < cols->count; c++)
      WAFER_TRY(code_of(p, f, &known, rows->sample[r], cols->sample[c], sites, &room,
                        &code[(size_t)r * cols->count + c]));
  for (uint32_t y = 0; y < rect.height; y++)
    for (uint32_t x = 0; x < rect.width; x++)
      f->variant[(size_t)y * rect.width + x] =
          code[(size_t)rows->of[y] * cols->count + cols->of[x]];
  return WAFER_OK;
}

fragment *program_open(program *p) {
  if (!p->open) p->open = program_fragment(p, p->body->nodes[p->node].name);
  return p->open;
}

wafer_status program_flush(program *p) {
  dim_list list;
  kinds rows, cols;
  if (p->step_count == 0) return WAFER_OK;
  fragment *f = program_open(p);
  if (!f) return program_no_memory(p);
  if (!list_dims(p, &list) || !classify(p, &list, true, &rows) || !classify(p, &list, false, &cols))
    return program_no_memory(p);
  WAFER_TRY(fill_variants(p, f, &rows, &cols));
  f->cycles += p->latency;
  p->step_count = 0;
  p->open = NULL;
  p->latency = 0;
  return program_append(p, f);
}

/* ---- What emit functions share ---- */

void nest_place(nest *n, uint32_t k, const spread *s, const program_tile *tile) {
  nest_operand *o = &n->at[k];
  *o = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)s->dtype, .address = tile->address};
  for (uint32_t d = 0; d < s->rank; d++) o->stride[d] = s->dim[d].stride;
}

void nest_constant(nest *n, uint32_t k, wafer_dtype dtype, double value) {
  n->at[k] =
      (nest_operand){.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)dtype, .value = value};
}

nest program_nest_over(wafer_core_op op, uint32_t inputs, const spread *out,
                       const program_tile *tile) {
  nest n = {.op = op, .inputs = inputs};
  for (uint32_t d = 0; d < out->rank; d++) nest_loop(&n, tile->len[d]);
  nest_place(&n, 0, out, tile);
  return n;
}

void program_fill(const program_site *site, const spread *s, const program_tile *tile,
                  double value) {
  nest n = program_nest_over(WAFER_CORE_move, 1, s, tile);
  nest_constant(&n, 1, s->dtype, value);
  nest_emit(site->code, &n);
}
