/* Operands of steps: whether what a core needs of a value lies on it, and the exchange that brings
 * it when it does not. */
#include <string.h>

#include "program_build.h"

static int64_t clip(int64_t at, int64_t extent) {
  return at < 0 ? 0 : at > extent ? extent : at;
}

/* A dim with one part that is everywhere. */
static bool whole_dim(program *p, int64_t extent, spread_dim *dim) {
  spread_run *run = WAFER_NEW(p->arena, spread_run, 1);
  *dim = (spread_dim){.extent = extent,
                      .buffer = (int32_t)extent,
                      .rows = 1,
                      .cols = 1,
                      .row = p->nowhere,
                      .col = p->nowhere,
                      .part = WAFER_NEW(p->arena, spread_part, 1)};
  if (!run || !dim->part) return false;
  *run = (spread_run){0, (int32_t)extent, 0};
  dim->part[0] = (spread_part){extent > 0, run};
  return true;
}

/* The part of the link for kinds of row and column that lie at `row` and `col`. */
static bool linked_dim(program *p, int64_t extent, const program_link *link, spread_dim *dim) {
  const spread_dim *by = link->by;
  uint32_t parts = by->rows * by->cols;
  spread_run *runs = WAFER_NEW(p->arena, spread_run, parts);
  *dim = *by;
  dim->extent = extent;
  dim->buffer = 0;
  dim->part = WAFER_NEW(p->arena, spread_part, parts);
  if (!runs || !dim->part) return false;
  for (uint32_t i = 0; i < parts; i++) {
    static const uint32_t zero[1];
    spread_dim one = *by; /* that part alone */
    int64_t from, to;
    one.part = &by->part[i];
    one.row = one.col = zero;
    program_link single = *link;
    single.by = &one;
    program_range(&single, extent, 0, 0, &from, &to);
    int64_t lo = clip(from, extent), hi = clip(to, extent);
    runs[i] = (spread_run){(int32_t)lo, (int32_t)hi, (int32_t)(lo - from)};
    dim->part[i] = (spread_part){lo < hi, &runs[i]};
    if (to - from > dim->buffer) dim->buffer = (int32_t)(to - from);
  }
  return true;
}

wafer_status program_wanted(program *p, uint32_t rank, const int64_t *extent, wafer_dtype dtype,
                            const program_link *link, spread *out) {
  *out = (spread){.rect = p->r->rect, .dtype = dtype, .rank = rank};
  for (uint32_t d = 0; d < rank; d++) {
    bool done = link[d].by ? linked_dim(p, extent[d], &link[d], &out->dim[d])
                           : whole_dim(p, extent[d], &out->dim[d]);
    if (!done) return program_no_memory(p);
  }
  return WAFER_OK;
}

/* ---- Does a core have what it needs? ---- */

typedef enum cover { COVER_no, COVER_room, COVER_yes } cover;

static cover cover_at(const spread_dim *have, const program_link *link, uint32_t row,
                      uint32_t col) {
  const spread_part *part = &have->part[have->row[row] * have->cols + have->col[col]];
  int64_t from, to;
  program_range(link, have->extent, row, col, &from, &to);
  if (from >= to) return COVER_yes;
  if (!part->runs) return COVER_no;
  int64_t origin = part->runs->lo - part->runs->at;
  bool room = from >= origin && to <= origin + have->buffer;
  if (part->count == 1 && part->runs->lo <= from && part->runs->hi >= to) return COVER_yes;
  return room ? COVER_room : COVER_no;
}

/* Rows (or columns) that differ in their kinds of two dims. */
static uint32_t *distinct(program *p, uint32_t n, const uint32_t *a, uint32_t kinds,
                          const uint32_t *b, uint32_t others, uint32_t *count) {
  uint32_t *list = WAFER_NEW(p->arena, uint32_t, n);
  bool *seen = WAFER_NEW(p->arena, bool, (size_t)kinds *others);
  *count = 0;
  if (!list || !seen) return NULL;
  for (uint32_t i = 0; i < n; i++) {
    size_t pair = (size_t)a[i] * others + b[i];
    if (!seen[pair]) list[(*count)++] = i;
    seen[pair] = true;
  }
  return list;
}

typedef struct cross {
  uint32_t rows, cols;
  const uint32_t *row, *col;
} cross;

/* Every pair of kinds that a dim and a link's dim have on one core is at one of row x col. */
static bool cross_of(program *p, const spread_dim *a, const spread_dim *by, cross *c) {
  const spread_dim *b = by ? by : a;
  c->row = distinct(p, p->r->rect.height, a->row, a->rows, b->row, b->rows, &c->rows);
  c->col = distinct(p, p->r->rect.width, a->col, a->cols, b->col, b->cols, &c->cols);
  return c->row && c->col;
}

static wafer_status covers(program *p, const spread *s, const program_link *link, cover *least) {
  *least = COVER_yes;
  for (uint32_t d = 0; d < s->rank; d++) {
    cross c;
    if (!cross_of(p, &s->dim[d], link[d].by, &c)) return program_no_memory(p);
    for (uint32_t r = 0; r < c.rows; r++)
      for (uint32_t i = 0; i < c.cols; i++) {
        cover here = cover_at(&s->dim[d], &link[d], c.row[r], c.col[i]);
        if (here < *least) *least = here;
      }
  }
  return WAFER_OK;
}

/* Pairs of kinds that rows (or columns) have in two dims: `kind` of each row, and of which pair a
 * row is an example. False: out of memory. */
typedef struct pairs {
  uint32_t count;
  uint32_t *kind, *example;
} pairs;

static bool pairs_of(program *p, uint32_t n, const uint32_t *a, uint32_t kinds, const uint32_t *b,
                     uint32_t others, pairs *out) {
  uint32_t *number = WAFER_NEW(p->arena, uint32_t, (size_t)kinds *others);
  *out = (pairs){.kind = WAFER_NEW(p->arena, uint32_t, n),
                 .example = WAFER_NEW(p->arena, uint32_t, n)};
  if (!number || !out->kind || !out->example) return false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t *at = &number[(size_t)a[i] * others + b[i]]; /* counted from 1 */
    if (!*at) {
      out->example[out->count] = i;
      *at = ++out->count;
    }
    out->kind[i] = *at - 1;
  }
  return true;
}

/* The wanted parts of a dim inside the buffer that is there: index for index at the same address.
 */
static bool dim_in_room(program *p, const spread_dim *h, const spread_dim *w, spread_dim *dim) {
  pairs rows, cols;
  if (!pairs_of(p, p->r->rect.height, h->row, h->rows, w->row, w->rows, &rows) ||
      !pairs_of(p, p->r->rect.width, h->col, h->cols, w->col, w->cols, &cols))
    return false;
  *dim = (spread_dim){.extent = h->extent,
                      .buffer = h->buffer,
                      .stride = h->stride,
                      .rows = rows.count,
                      .cols = cols.count,
                      .row = rows.kind,
                      .col = cols.kind};
  spread_run *runs = WAFER_NEW(p->arena, spread_run, (size_t)dim->rows * dim->cols);
  dim->part = WAFER_NEW(p->arena, spread_part, (size_t)dim->rows * dim->cols);
  if (!runs || !dim->part) return false;
  for (uint32_t r = 0; r < dim->rows; r++)
    for (uint32_t c = 0; c < dim->cols; c++) {
      uint32_t at = r * dim->cols + c, row = rows.example[r], col = cols.example[c];
      const spread_run *hr = h->part[h->row[row] * h->cols + h->col[col]].runs;
      const spread_part *wp = &w->part[w->row[row] * w->cols + w->col[col]];
      if (!hr || !wp->runs) continue;
      runs[at] = *wp->runs;
      runs[at].at = wp->runs->lo - (hr->lo - hr->at);
      dim->part[at] = (spread_part){wp->count, &runs[at]};
    }
  return true;
}

static bool in_room(program *p, const spread *have, const spread *wanted, spread *out) {
  *out = *wanted;
  out->address = have->address;
  for (uint32_t d = 0; d < have->rank; d++)
    if (!dim_in_room(p, &have->dim[d], &wanted->dim[d], &out->dim[d])) return false;
  return true;
}

/* ---- What lies outside ---- */

/* Fills the slabs before and after the tensor, dim by dim. */
static void emit_pads(const program_site *site) {
  const spread *s = site->step->in[0].at;
  const program_tile *tile = &site->in[0];
  for (uint32_t d = 0; d < s->rank; d++)
    for (uint32_t side = 0; side < 2; side++) {
      program_tile slab = *tile;
      slab.len[d] = side ? tile->after[d] : tile->before[d];
      if (slab.len[d] == 0) continue;
      if (side) slab.address += (tile->len[d] - tile->after[d]) * s->dim[d].stride;
      nest n = program_nest_over(WAFER_CORE_move, 1, s, &slab);
      nest_constant(&n, 1, s->dtype, (double)site->step->fill);
      nest_emit(site->code, &n);
    }
}

static wafer_status reaches_outside(program *p, const spread *s, const program_link *link,
                                    bool *any) {
  *any = false;
  for (uint32_t d = 0; d < s->rank && !*any; d++) {
    cross c;
    if (!link[d].by) continue;
    if (!cross_of(p, &s->dim[d], link[d].by, &c)) return program_no_memory(p);
    for (uint32_t r = 0; r < c.rows; r++)
      for (uint32_t i = 0; i < c.cols; i++) {
        int64_t from, to;
        program_range(&link[d], s->dim[d].extent, c.row[r], c.col[i], &from, &to);
        *any |= from < 0 || to > s->dim[d].extent;
      }
  }
  return WAFER_OK;
}

/* ---- Operands ---- */

program_operand program_own(const spread *s) {
  program_operand o = {.at = s, .dtype = s->dtype};
  for (uint32_t d = 0; d < s->rank; d++) o.link[d] = program_like(&s->dim[d]);
  return o;
}

static wafer_status bring(program *p, const spread *have, const program_link *link, bool room,
                          double fill, spread *to) {
  int64_t extent[WAFER_MAX_RANK];
  spread wanted;
  for (uint32_t d = 0; d < have->rank; d++) extent[d] = have->dim[d].extent;
  WAFER_TRY(program_wanted(p, have->rank, extent, have->dtype, link, &wanted));
  if (room) {
    if (!in_room(p, have, &wanted, to)) return program_no_memory(p);
  } else {
    program_pack_like(&wanted, have);
    WAFER_TRY(program_reserve(p, &wanted, have->address & (have->apart ? 7 : 4), p->node));
    *to = wanted;
  }
  bool outside;
  WAFER_TRY(reaches_outside(p, to, link, &outside));
  if (outside) {
    program_step pads = program_step_of(p->node, to, emit_pads);
    pads.in_count = 1;
    pads.in[0] = (program_operand){.at = to, .dtype = to->dtype};
    memcpy(pads.in[0].link, link, sizeof pads.in[0].link);
    pads.fill = fill;
    pads.always = true;
    WAFER_TRY(program_add(p, &pads));
  }
  return program_exchange(p, have, to, NULL);
}

wafer_status program_operand_of(program *p, uint32_t node, uint32_t i, const program_link *link,
                                double fill, program_operand *out) {
  uint32_t value = p->body->nodes[node].operands[i];
  *out = (program_operand){.dtype = wafer_body_type(p->body, value)->dtype};
  if (p->constant[value]) {
    out->constant = p->splat[value];
    return WAFER_OK;
  }
  const spread *have = p->value[value];
  memcpy(out->link, link, sizeof out->link);
  out->dtype = have->dtype;
  out->at = have;
  cover least;
  WAFER_TRY(covers(p, have, link, &least));
  if (least == COVER_yes) return WAFER_OK;
  spread *to = WAFER_NEW(p->arena, spread, 1);
  if (!to) return program_no_memory(p);
  WAFER_TRY(bring(p, have, link, least == COVER_room, fill, to));
  out->at = to;
  return WAFER_OK;
}
