#include "exchange_route.h"

#include <string.h>

typedef struct planner {
  wafer_arena *arena;
  const exchange *x;
  bool turned; /* columns for rows */
  bool even;   /* lanes have even parts, where that is not as before */
  const spread *from, *to;
  route *out;
} planner;

static const spread *turned(wafer_arena *arena, const spread *s) {
  spread *out = WAFER_NEW(arena, spread, 1);
  return out && spread_turn(arena, s, out) ? out : NULL;
}

static bool begin(planner *p, wafer_arena *arena, const exchange *x, bool turn, route *out) {
  *p = (planner){.arena = arena, .x = x, .turned = turn, .from = x->from, .to = x->to, .out = out};
  *out = (route){.count = 0};
  if (!turn) return true;
  p->from = turned(arena, x->from);
  p->to = turned(arena, x->to);
  return p->from && p->to;
}

static void add_pass(planner *p, const spread *from, const spread *to, const index_map *map,
                     bool columns, const uint32_t *group) {
  p->out->pass[p->out->count++] = (pass){.x = p->x,
                                         .scratch = p->arena,
                                         .from = from,
                                         .to = to,
                                         .map = *map,
                                         .columns = columns != p->turned,
                                         .group = group};
}

/* Words wait in that spread, given as the planner turns things. */
static void add_scratch(planner *p, spread *s) {
  wafer_rect r = s->rect;
  if (p->turned) r = wafer_rect_turn(r);
  s->address = p->x->scratch;
  if (spread_bytes(s) > p->out->scratch) p->out->scratch = spread_bytes(s);
  p->out->scratch_at = wafer_rect_around(p->out->scratch_at, r);
}

/* Along rows into the target's columns, then along these, if rows alone are not enough. `group`: of
 * the columns of `from`, as in a pass. */
static bool add_two(planner *p, const spread *from, const index_map *map, const uint32_t *group) {
  bool needless;
  if (!mid_is_needless(p->arena, from, p->to, map, &needless)) return false;
  if (needless) {
    add_pass(p, from, p->to, map, false, group);
    return true;
  }
  mid *m = WAFER_NEW(p->arena, mid, 1);
  if (!m || !mid_make(p->arena, from, p->to, map, m)) return false;
  add_scratch(p, &m->s);
  const spread *second = turned(p->arena, &m->s), *to = turned(p->arena, p->to);
  add_pass(p, from, &m->s, map, false, group);
  add_pass(p, second, to, &m->map, true, m->row_group);
  return second && to;
}

/* What the passes load on a link. */
static uint64_t load_of(const planner *p) {
  uint64_t load = 0;
  for (uint32_t i = 0; i < p->out->count; i++) load += mid_load(p->arena, p->out->pass[i].to);
  return load;
}

/* Whether words on their way fit where they wait, as far as that room is known. */
static bool has_room(const exchange *x, const route *r) {
  return !x->scratch_room || r->scratch <= x->scratch_room;
}

/* The one of two plans that has room, then the one that loads links less, or else needs less
 * scratch. */
static void choose(const planner *a, const planner *b, route *out) {
  uint64_t first = load_of(a), second = load_of(b);
  bool better = b->out->count == 1 || second < first ||
                (second == first && b->out->scratch < a->out->scratch);
  bool fits = has_room(a->x, a->out), other_fits = has_room(b->x, b->out);
  if (fits != other_fits) better = other_fits;
  *out = a->out->count > 1 && better ? *b->out : *a->out;
}

/* Rows first, or columns. */
static bool plan_overlapping(wafer_arena *arena, const exchange *x, route *out) {
  planner rows, columns;
  route one, other;
  if (!begin(&rows, arena, x, false, &one) || !add_two(&rows, rows.from, &x->map, NULL) ||
      !begin(&columns, arena, x, true, &other) || !add_two(&columns, columns.from, &x->map, NULL))
    return false;
  choose(&rows, &columns, out);
  return true;
}

/* ---- lines that two rectangles share ---- */

static uint32_t shared(uint32_t a, uint32_t a_count, uint32_t b, uint32_t b_count,
                       uint32_t *first) {
  uint32_t end = a + a_count < b + b_count ? a + a_count : b + b_count;
  *first = a > b ? a : b;
  return end > *first ? end - *first : 0;
}

/* The rows of the source that words may leave by. */
static uint32_t shared_rows(const planner *p, uint32_t *first) {
  uint32_t most =
      shared(p->from->rect.y, p->from->rect.height, p->to->rect.y, p->to->rect.height, first);
  if (!p->x->lanes_end) return most;
  return shared(*first, most, p->x->lanes_first, p->x->lanes_end - p->x->lanes_first, first);
}

/* Rows that hold the same count once. Those of group g go to lane g * lanes / groups, where as many
 * go to each lane; else, where rows cut one dim alone, lanes have even parts of all its indices. */
typedef struct lanes {
  uint32_t first, count, groups;
  uint32_t *group;
  uint32_t *leader; /* of each group: a row of it */
  bool even;        /* they have even parts, */
  uint32_t dim;     /* of that dim */
} lanes;

/* Whether the source's rows cut one dim alone. */
static bool cuts_one(const spread *s, uint32_t *dim) {
  uint32_t cuts = 0;
  for (uint32_t d = 0; d < s->rank; d++) {
    bool cut = false;
    for (uint32_t r = 1; r < s->rect.height; r++) cut |= s->dim[d].row[r] != s->dim[d].row[0];
    if (cut) *dim = d;
    cuts += cut;
  }
  return cuts == 1;
}

static bool find_lanes(const planner *p, uint32_t first, uint32_t most, lanes *l) {
  l->group = spread_kinds(p->arena, p->from, true, &l->groups);
  l->leader = WAFER_NEW(p->arena, uint32_t, l->groups);
  if (!l->group || !l->leader) return false;
  for (uint32_t r = p->from->rect.height; r-- > 0;) l->leader[l->group[r]] = r;
  l->first = first;
  l->count = l->groups < most ? l->groups : most;
  l->even = p->even && l->groups % l->count && cuts_one(p->from, &l->dim);
  while (!l->even && l->groups % l->count) l->count--; /* as many of them in each lane */
  return true;
}

/* Elements first .. end - 1 of the part, counted from its beginning. False: out of memory. */
static bool cut_part(wafer_arena *arena, const spread_part *of, int32_t first, int32_t end,
                     spread_part *out) {
  spread_run *runs = WAFER_NEW(arena, spread_run, of->count);
  if (!runs) return false;
  *out = (spread_part){0, runs};
  for (uint32_t i = 0; i < of->count; i++) {
    const spread_run *run = &of->runs[i];
    int32_t length = run->hi - run->lo, from = first - run->at, to = end - run->at;
    if (from < 0) from = 0;
    if (to > length) to = length;
    if (from < to)
      runs[out->count++] = (spread_run){run->lo + from, run->lo + to, run->at + from - first};
  }
  return true;
}

static int32_t length_of(const spread_part *part) {
  const spread_run *last = part->count ? &part->runs[part->count - 1] : NULL;
  return last ? last->at + last->hi - last->lo : 0;
}

/* Columns of kind `col` of a lane. */
static bool lane_part(const planner *p, const lanes *l, const spread_dim *dim, bool even,
                      uint32_t lane, uint32_t col, spread_part *out) {
  uint32_t each = even ? l->groups : l->groups / l->count, first = even ? 0 : lane * each;
  const spread_part **parts = WAFER_NEW(p->arena, const spread_part *, each);
  spread_part all;
  if (!parts) return false;
  for (uint32_t g = 0; g < each; g++)
    parts[g] = &dim->part[dim->row[l->leader[first + g]] * dim->cols + col];
  if (!even) return joint_union(p->arena, parts, each, out);
  if (!joint_union(p->arena, parts, each, &all)) return false;
  int64_t length = length_of(&all);
  return cut_part(p->arena, &all, (int32_t)(length * lane / l->count),
                  (int32_t)(length * (lane + 1) / l->count), out);
}

static bool gather_dim(const planner *p, const lanes *l, uint32_t d, spread_dim *out) {
  const spread_dim *dim = &p->from->dim[d];
  uint32_t *row = WAFER_NEW(p->arena, uint32_t, l->count);
  *out = *dim;
  out->rows = l->count;
  out->row = row;
  out->buffer = 1;
  out->part = WAFER_NEW(p->arena, spread_part, (size_t)l->count * dim->cols);
  if (!row || !out->part) return false;
  for (uint32_t i = 0; i < l->count; i++) {
    row[i] = i;
    for (uint32_t c = 0; c < dim->cols; c++) {
      spread_part *part = &out->part[i * dim->cols + c];
      if (!lane_part(p, l, dim, l->even && d == l->dim, i, c, part)) return false;
      if (length_of(part) > out->buffer) out->buffer = length_of(part);
    }
  }
  return true;
}

/* The source's rows put together in the lanes, in its own columns. */
static bool gather(planner *p, const lanes *l, spread *out) {
  *out = *p->from;
  out->rect.y = l->first;
  out->rect.height = l->count;
  for (uint32_t d = 0; d < out->rank; d++)
    if (!gather_dim(p, l, d, &out->dim[d])) return false;
  spread_pack(out);
  add_scratch(p, out);
  return true;
}

static bool plan_lanes(planner *p) {
  lanes l;
  uint32_t first, most = shared_rows(p, &first);
  if (most == p->from->rect.height) return add_two(p, p->from, &p->x->map, NULL);
  spread *lane = WAFER_NEW(p->arena, spread, 1);
  index_map same = index_identity();
  if (!lane || !find_lanes(p, first, most, &l) || !gather(p, &l, lane)) return false;
  const spread *from = turned(p->arena, p->from), *to = turned(p->arena, lane);
  add_pass(p, from, to, &same, true, NULL);
  return from && to && add_two(p, lane, &p->x->map, NULL);
}

/* ---- sorted in the source first ---- */

static bool squeeze_dim(const planner *p, uint32_t each, const spread_dim *dim, uint32_t rows,
                        spread_dim *out) {
  uint32_t *row = WAFER_NEW(p->arena, uint32_t, rows), height = p->to->rect.height;
  const spread_part **parts = WAFER_NEW(p->arena, const spread_part *, each);
  *out = *dim;
  out->rows = 0;
  out->row = row;
  out->part = WAFER_NEW(p->arena, spread_part, (size_t)rows * dim->cols);
  if (!row || !parts || !out->part) return false;
  for (uint32_t i = 0; i < rows; i++) {
    const uint32_t *of = &dim->row[i * each];
    uint32_t count = i * each + each <= height ? each : height - i * each, same = 0;
    while (same < i && (count < each || memcmp(&dim->row[same * each], of, each * sizeof *of) != 0))
      same++;
    row[i] = same < i ? row[same] : out->rows++;
    for (uint32_t c = 0; c < dim->cols && same == i; c++) {
      for (uint32_t k = 0; k < count; k++) parts[k] = &dim->part[of[k] * dim->cols + c];
      if (!joint_union(p->arena, parts, count, &out->part[row[i] * dim->cols + c])) return false;
    }
  }
  return true;
}

/* What the target's rows need, as many of them as one in each of the shared rows. */
static bool squeeze(const planner *p, spread *out) {
  uint32_t first, height = p->to->rect.height;
  uint32_t most = shared(p->from->rect.y, p->from->rect.height, p->to->rect.y, height, &first);
  uint32_t each = (height + most - 1) / most, rows = (height + each - 1) / each;
  *out = *p->to;
  out->rect.y = first + (most - rows) / 2;
  out->rect.height = rows;
  for (uint32_t d = 0; d < out->rank; d++)
    if (!squeeze_dim(p, each, &p->to->dim[d], rows, &out->dim[d])) return false;
  return true;
}

/* In the source's columns to the shared row near which an element belongs, along that row, and over
 * a few cores of the target's columns to its place. Without the first, every column of the target
 * carries all that its rows need from afar. */
static bool plan_sorted(planner *p) {
  spread near;
  mid *m = WAFER_NEW(p->arena, mid, 1);
  if (!m || !squeeze(p, &near)) return false;
  const spread *from = turned(p->arena, p->from), *to = turned(p->arena, &near);
  if (!from || !to || !mid_make(p->arena, from, to, &p->x->map, m)) return false;
  spread *lane = WAFER_NEW(p->arena, spread, 1);
  if (!lane || !spread_turn(p->arena, &m->s, lane)) return false;
  add_scratch(p, lane);
  m->s.address = lane->address;
  add_pass(p, from, &m->s, &p->x->map, true, NULL);
  return add_two(p, lane, &m->map, m->row_group);
}

/* Predicted; UINT64_MAX: out of memory. */
static uint64_t cycles_of(const planner *p, const route *r) {
  wafer_arena *arena = wafer_arena_create();
  fragment f;
  uint64_t all = 0;
  bool made = arena != NULL;
  if (made)
    fragment_begin(
        &f, arena, "", NULL,
        wafer_rect_around(wafer_rect_around(p->x->from->rect, p->x->to->rect), r->scratch_at));
  for (uint32_t i = 0; made && i < r->count; i++) {
    uint64_t cycles;
    pass one = r->pass[i];
    one.scratch = arena;
    made = pass_add(&one, &f, &cycles);
    all += cycles;
  }
  made = made && !f.failed;
  wafer_arena_destroy(arena);
  return made ? all : UINT64_MAX;
}

#define LONG_LOAD 1024 /* words on a link, from which on another way is worth looking for */

/* Takes the other way where that fits and is faster, or alone fits. */
static bool prefer(const planner *known, const route *other, route *out) {
  if (!has_room(known->x, other)) return true;
  if (!has_room(known->x, out)) return *out = *other, true;
  uint64_t before = cycles_of(known, out), after = cycles_of(known, other);
  if (after < before) *out = *other;
  return after != UINT64_MAX && before != UINT64_MAX;
}

/* Do all of these cores work, and for nobody else? */
static bool are_free(const exchange *x, wafer_rect r) {
  for (uint32_t i = 0; i < x->other_count; i++)
    if (wafer_rect_overlaps(x->others[i], r)) return false;
  for (uint32_t i = 0; i < x->machine->dead_count; i++)
    if (wafer_rect_overlaps((wafer_rect){x->machine->dead[i].x, x->machine->dead[i].y, 1, 1}, r))
      return false;
  for (uint32_t i = 0; i < x->machine->reserved_count; i++)
    if (wafer_rect_overlaps(x->machine->reserved[i], r)) return false;
  return true;
}

/* The target's rows beside the source, in its columns: above it and below it. */
static bool sides_are_free(const planner *p) {
  wafer_rect a = p->from->rect, b = p->to->rect;
  uint32_t end = a.y + a.height, last = b.y + b.height;
  wafer_rect sides[2] = {{a.x, b.y, a.width, b.y < a.y ? a.y - b.y : 0},
                         {a.x, end, a.width, last > end ? last - end : 0}};
  for (int i = 0; i < 2; i++) {
    wafer_rect r = sides[i];
    if (p->turned) r = wafer_rect_turn(r);
    if (wafer_rect_area(r) && !are_free(p->x, r)) return false;
  }
  return true;
}

/* ---- between rectangles that share lines ---- */

/* Other ways than `out` when that takes long or has no room. */
static bool look_around(wafer_arena *arena, const exchange *x, bool columns, route *out) {
  planner sorted, lines_first, known = {.arena = arena, .x = x, .out = out};
  route other;
  if (has_room(x, out) && load_of(&known) < LONG_LOAD) return true;
  if (!begin(&sorted, arena, x, columns, &other) || !plan_sorted(&sorted) ||
      !prefer(&known, &other, out))
    return false;
  if (!sides_are_free(&sorted)) return true;
  return begin(&lines_first, arena, x, !columns, &other) &&
         add_two(&lines_first, lines_first.from, &x->map, NULL) && prefer(&known, &other, out);
}

/* Even parts in the shared lines, where the source's do not share them out evenly. */
static bool look_at_even(wafer_arena *arena, const exchange *x, bool columns, route *out) {
  planner even, known = {.arena = arena, .x = x, .out = out};
  route other;
  if (x->few_colors) return true;
  if (!begin(&even, arena, x, columns, &other)) return false;
  uint32_t dim, groups, first, height = even.from->rect.height;
  uint32_t most = shared_rows(&even, &first);
  if (most == height || !cuts_one(even.from, &dim)) return true;
  if (!spread_kinds(arena, even.from, true, &groups)) return false;
  if (groups <= most || groups % most == 0) return true;
  even.even = true;
  if (!plan_lanes(&even)) return false;
  other.even = true;
  return prefer(&known, &other, out);
}

/* Other ways than `lanes_first`, which `out` is. */
static bool look_beside(const planner *lanes_first, bool columns, route *out) {
  planner lines_first;
  route other;
  wafer_arena *arena = lanes_first->arena;
  const exchange *x = lanes_first->x;
  wafer_rect a = lanes_first->from->rect, b = lanes_first->to->rect;
  if (b.y < a.y || b.y + b.height > a.y + a.height) return look_around(arena, x, columns, out);
  if (!begin(&lines_first, arena, x, !columns, &other) ||
      !add_two(&lines_first, lines_first.from, &x->map, NULL))
    return false;
  choose(lanes_first, &lines_first, out);
  return true;
}

/* Into the shared lines first; or, where the target has no others or where cores beside the source
 * are free, to its lines first. */
static bool plan_apart(wafer_arena *arena, const exchange *x, bool columns, route *out) {
  planner lanes_first;
  route one;
  if (!begin(&lanes_first, arena, x, columns, &one) || !plan_lanes(&lanes_first)) return false;
  *out = one;
  if (!look_at_even(arena, x, columns, out)) return false;
  one = *out;
  bool made = look_beside(&lanes_first, columns, out);
  out->even = one.even;
  return made;
}

bool route_plan(wafer_arena *arena, const exchange *x, route *out) {
  wafer_rect a = x->from->rect, b = x->to->rect;
  uint32_t first, rows = shared(a.y, a.height, b.y, b.height, &first);
  uint32_t columns = shared(a.x, a.width, b.x, b.width, &first);
  if ((rows && columns) || (!rows && !columns)) return plan_overlapping(arena, x, out);
  return plan_apart(arena, x, columns != 0, out);
}

/* ---- over the border ---- */

/* A tensor without dims as one of one element. */
static const spread *with_dim(wafer_arena *arena, const spread *s) {
  static const wafer_layout whole = {
      .rank = 1, .rows = {1}, .cols = {1}, .row_stride = {1}, .col_stride = {1}};
  if (s->rank) return s;
  spread *out = WAFER_NEW(arena, spread, 1);
  bool made = out && spread_of_layout(arena, s->rect, &whole, &(wafer_shape){1, {1}}, s->dtype,
                                      s->address, out);
  return made ? out : NULL;
}

/* Column 0 is the host, so everything else is a column farther. */
static bool shift_first(const planner *p, const border *b) {
  pass *first = &p->out->pass[0];
  spread *inside = WAFER_NEW(p->arena, spread, 1);
  if (!inside) return false;
  *inside = p->x->from ? *first->from : *first->to;
  inside->rect.x++;
  *(p->x->from ? &first->from : &first->to) = inside;
  first->border = &b->ports;
  return true;
}

/* Words that cross the border in a cycle, one at least. */
static uint64_t lanes_of(const exchange *x) {
  uint64_t bytes = x->machine->clock_hz * WAFER_WAVELET_BYTES;
  return x->border_rate ? (x->border_rate + bytes - 1) / bytes : UINT32_MAX;
}

bool route_border(wafer_arena *arena, const exchange *x, route *out) {
  planner p = {.arena = arena, .x = x, .out = out};
  border *b = WAFER_NEW(arena, border, 1);
  index_map same = index_identity();
  const spread *inside = with_dim(arena, x->from ? x->from : x->to);
  const uint32_t *trunks;
  *out = (route){.count = 0};
  if (!b || !inside || !border_trunks(arena, inside, &trunks)) return false;
  if (x->from) trunks = NULL;
  if (!border_make(arena, inside, x->value, lanes_of(x), trunks != NULL, b)) return false;
  p.to = inside;
  if (x->from)
    add_pass(&p, inside, &b->host, &same, false, NULL);
  else if (trunks) {
    add_pass(&p, &b->host, inside, &same, false, NULL);
    out->pass[0].trunks = trunks;
  } else if (!add_two(&p, &b->host, &same, NULL))
    return false;
  return shift_first(&p, b);
}
