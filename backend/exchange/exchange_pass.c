/* A pass: lines alike, and what moves on them.
 *
 * Dims are independent, so what a core sends to another is a product of pieces, one factor per dim:
 * the joints. A line is known by its joints. */
#include <stdlib.h>
#include <string.h>

#include "exchange_parcel.h"
#include "exchange_pass.h"
#include "exchange_reach.h"

#define FACTORS (2 * WAFER_MAX_RANK)
#define UNKNOWN UINT32_MAX

/* A dim of the source with the one of the target that follows it, or one of them alone (-1). */
typedef struct factor {
  int source, target;
  index_dim map;
  joint *joints; /* that differ */
  uint32_t joint_count, joint_room;
} factor;

/* A product of joints, one per factor of each target, on some lines. */
typedef struct line_class {
  uint32_t *joint;
  fragment_span *spans;
  uint32_t span_count, span_room;
} line_class;

/* A spread that the pass ends in. */
typedef struct target {
  const spread *to;
  factor factors[FACTORS];
  uint32_t factor_count;
  uint32_t *kind, kinds;           /* of its columns */
  uint32_t *column;                /* of each kind: a column that is of it */
  uint32_t **takers, *taker_count; /* columns, by kind */
  /* of the class at hand */
  const joint *at[FACTORS];
  uint64_t **meets[FACTORS]; /* of each kind in a factor's target: set of kinds of senders */
} target;

typedef struct maker {
  const pass *p;
  fragment *f;
  wafer_arena *scratch;
  target *targets;
  uint32_t target_count;
  line_class *classes;
  uint32_t class_count, class_room;
  /* of positions */
  uint32_t first, length; /* coordinate of position 0 */
  uint32_t *from_kind, from_kinds;
  uint32_t **members, *member_count, groups; /* columns of `from`, sorted, by group */
  uint32_t *from_column;                     /* of each kind: a column that is of it */
  uint32_t *from_group;                      /* of each kind of sender */
  /* of the class at hand */
  parcels all;
  line_move *moves;
  uint32_t move_count, move_room;
} maker;

/* ---- kinds ---- */

uint32_t pass_nearest(const uint32_t *sorted, uint32_t count, uint32_t at) {
  uint32_t low = 0, high = count;
  while (low < high) { /* the first that is not below */
    uint32_t middle = (low + high) / 2;
    if (sorted[middle] < at)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == count) return sorted[count - 1];
  if (low == 0) return sorted[0];
  return at - sorted[low - 1] <= sorted[low] - at ? sorted[low - 1] : sorted[low];
}

/* Columns, from `first` on, by what they belong to. */
static bool sort_columns(wafer_arena *arena, const uint32_t *of, uint32_t width, uint32_t first,
                         uint32_t groups, uint32_t ***members, uint32_t **count) {
  uint32_t *all = WAFER_NEW(arena, uint32_t, width);
  *members = WAFER_NEW(arena, uint32_t *, groups);
  *count = WAFER_NEW(arena, uint32_t, groups);
  if (!all || !*members || !*count) return false;
  for (uint32_t c = 0; c < width; c++) (*count)[of[c]]++;
  for (uint32_t g = 0; g < groups; g++) {
    (*members)[g] = all;
    all += (*count)[g];
    (*count)[g] = 0;
  }
  for (uint32_t c = 0; c < width; c++) (*members)[of[c]][(*count)[of[c]]++] = first + c;
  return true;
}

static bool find_takers(maker *m, target *t) {
  const spread *to = t->to;
  t->kind = spread_kinds(m->scratch, to, false, &t->kinds);
  t->column = WAFER_NEW(m->scratch, uint32_t, t->kinds);
  if (!t->kind || !t->column) return false;
  for (uint32_t c = 0; c < to->rect.width; c++) t->column[t->kind[c]] = c;
  return sort_columns(m->scratch, t->kind, to->rect.width, to->rect.x, t->kinds, &t->takers,
                      &t->taker_count);
}

static bool find_positions(maker *m) {
  const spread *from = m->p->from;
  uint32_t width = from->rect.width, end = from->rect.x + width;
  m->first = from->rect.x;
  for (uint32_t i = 0; i < m->target_count; i++) {
    const wafer_rect *to = &m->targets[i].to->rect;
    if (to->x < m->first) m->first = to->x;
    if (to->x + to->width > end) end = to->x + to->width;
    if (!find_takers(m, &m->targets[i])) return false;
  }
  m->length = end - m->first;
  m->from_kind = spread_kinds(m->scratch, from, false, &m->from_kinds);
  m->from_column = WAFER_NEW(m->scratch, uint32_t, m->from_kinds);
  if (!m->from_kind || !m->from_column) return false;
  for (uint32_t c = 0; c < width; c++) m->from_column[m->from_kind[c]] = c;
  const uint32_t *group = m->p->group ? m->p->group : m->from_kind;
  m->from_group = WAFER_NEW(m->scratch, uint32_t, m->from_kinds);
  if (!m->from_group) return false;
  for (uint32_t c = 0; c < width; c++) m->from_group[m->from_kind[c]] = group[c];
  for (uint32_t c = 0; c < width; c++)
    if (group[c] >= m->groups) m->groups = group[c] + 1;
  return sort_columns(m->scratch, group, width, from->rect.x, m->groups, &m->members,
                      &m->member_count);
}

/* ---- factors and classes of lines ---- */

/* In the order of the target's dims, so that neighbouring elements of the target follow each other.
 */
static void find_factors(const pass *p, target *t) {
  bool followed[WAFER_MAX_RANK] = {false};
  for (uint32_t s = 0; s < p->from->rank; s++) {
    int d = p->map.dim[s].dim;
    if (d != INDEX_CONSTANT) followed[d] = true;
    if (d == INDEX_CONSTANT)
      t->factors[t->factor_count++] =
          (factor){.source = (int)s, .target = -1, .map = p->map.dim[s]};
  }
  for (uint32_t d = 0; d < t->to->rank; d++) {
    factor f = {.source = -1, .target = (int)d};
    for (uint32_t s = 0; s < p->from->rank && followed[d]; s++)
      if (p->map.dim[s].dim == (int)d) {
        f.source = (int)s;
        f.map = p->map.dim[s];
      }
    t->factors[t->factor_count++] = f;
  }
}

static uint32_t joint_at(maker *m, const spread *to, factor *f, uint32_t row) {
  const spread_dim *s = f->source < 0 ? NULL : &m->p->from->dim[f->source];
  const spread_dim *t = f->target < 0 ? NULL : &to->dim[f->target];
  joint next;
  if (!joint_of(m->scratch, s, s ? s->row[row] : 0, t, t ? t->row[row] : 0, &f->map, &next))
    return UNKNOWN;
  for (uint32_t i = 0; i < f->joint_count; i++)
    if (joint_equal(&f->joints[i], &next)) return i;
  if (!WAFER_GROW(m->scratch, f->joints, f->joint_count, f->joint_room, 16)) return UNKNOWN;
  f->joints[f->joint_count] = next;
  return f->joint_count++;
}

/* Joint of each row for one factor: made once for each pair of kinds. */
typedef struct known {
  uint32_t source, target, joint;
  bool used;
} known;

static uint32_t *joints_of(maker *m, const spread *to, factor *f) {
  uint32_t rows = m->p->from->rect.height, buckets = 64;
  while (buckets < 2 * rows) buckets *= 2;
  uint32_t *joints = WAFER_NEW(m->scratch, uint32_t, rows);
  known *table = WAFER_NEW(m->scratch, known, buckets);
  if (!joints || !table) return NULL;
  for (uint32_t row = 0; row < rows; row++) {
    uint32_t s = f->source < 0 ? 0 : m->p->from->dim[f->source].row[row];
    uint32_t t = f->target < 0 ? 0 : to->dim[f->target].row[row];
    uint32_t at = (s * 2654435761u ^ t * 2246822519u) >> 7 & (buckets - 1);
    while (table[at].used && (table[at].source != s || table[at].target != t))
      at = (at + 1) & (buckets - 1);
    if (!table[at].used) table[at] = (known){s, t, joint_at(m, to, f, row), true};
    joints[row] = table[at].joint;
    if (joints[row] == UNKNOWN) return NULL;
  }
  return joints;
}

/* `joints`: of each factor, of one target after the other. */
static bool add_line(maker *m, uint32_t row, uint32_t count, uint32_t *const *joints) {
  line_class *c = NULL;
  for (uint32_t i = 0; i < m->class_count && !c; i++) {
    uint32_t k = 0;
    while (k < count && m->classes[i].joint[k] == joints[k][row]) k++;
    if (k == count) c = &m->classes[i];
  }
  if (!c) {
    if (!WAFER_GROW(m->scratch, m->classes, m->class_count, m->class_room, 16)) return false;
    c = &m->classes[m->class_count++];
    c->joint = WAFER_NEW(m->scratch, uint32_t, count);
    if (!c->joint) return false;
    for (uint32_t k = 0; k < count; k++) c->joint[k] = joints[k][row];
  }
  uint32_t at = m->p->from->rect.y + row;
  fragment_span *last = c->span_count ? &c->spans[c->span_count - 1] : NULL;
  const uint32_t *trunk = m->p->trunks;
  if (last && last->first + last->count == at && (!trunk || trunk[row] == trunk[row - 1])) {
    last->count++;
    return true;
  }
  if (!WAFER_GROW(m->scratch, c->spans, c->span_count, c->span_room, 16)) return false;
  c->spans[c->span_count++] = (fragment_span){at, 1};
  return true;
}

static bool find_classes(maker *m) {
  uint32_t count = 0;
  uint32_t **joints = WAFER_NEW(m->scratch, uint32_t *, m->target_count * FACTORS);
  if (!joints) return false;
  for (uint32_t i = 0; i < m->target_count; i++)
    for (uint32_t k = 0; k < m->targets[i].factor_count; k++, count++)
      if (!(joints[count] = joints_of(m, m->targets[i].to, &m->targets[i].factors[k])))
        return false;
  for (uint32_t row = 0; row < m->p->from->rect.height; row++)
    if (!add_line(m, row, count, joints)) return false;
  return true;
}

/* ---- what moves ---- */

static const joint_list *pieces_of(const maker *m, const target *t, uint32_t k, uint32_t from,
                                   uint32_t to) {
  const factor *f = &t->factors[k];
  uint32_t sender = f->source < 0 ? 0 : m->p->from->dim[f->source].col[m->from_column[from]];
  uint32_t taker = f->target < 0 ? 0 : t->to->dim[f->target].col[t->column[to]];
  return &t->at[k]->list[sender * t->at[k]->targets + taker];
}

static bool continues(const line_box *box, uint32_t count, int32_t src, int32_t dst) {
  uint32_t last = box->levels - 1;
  return box->levels && box->src_stride[last] == src * (int32_t)count &&
         box->dst_stride[last] == dst * (int32_t)count;
}

/* Puts a level inside those that the box has, or makes the last one longer; false: no room. */
static bool put_level(line_box *box, uint32_t count, int32_t src, int32_t dst) {
  if (count == 1) return true;
  bool longer = continues(box, count, src, dst);
  if (!longer && box->levels == WAFER_LEVELS) return false;
  uint32_t at = longer ? box->levels - 1 : box->levels++;
  box->shape[at] = longer ? box->shape[at] * count : count;
  box->src_stride[at] = src;
  box->dst_stride[at] = dst;
  return true;
}

/* The product of a piece per factor, as a box; what has more than WAFER_LEVELS levels is done one
 * index after the other along its outermost. */
static bool put_boxes(maker *m, const target *t, joint_piece *product) {
  line_box box = {.src = m->p->from->address, .dst = t->to->address};
  uint32_t outermost = UNKNOWN;
  bool fits = true;
  for (uint32_t k = 0; k < t->factor_count; k++) {
    const factor *f = &t->factors[k];
    const joint_piece *piece = &product[k];
    int32_t src = f->source < 0 ? 0 : m->p->from->dim[f->source].stride;
    int32_t dst = f->target < 0 ? 0 : t->to->dim[f->target].stride;
    box.src += piece->src * src;
    box.dst += piece->dst * dst;
    if (piece->count > 1 && outermost == UNKNOWN) outermost = k;
    fits = fits && put_level(&box, (uint32_t)piece->count, piece->step * src, dst);
  }
  if (fits) {
    return parcels_add_box(&m->all, &box);
  }
  joint_piece whole = product[outermost];
  for (int32_t i = 0; i < whole.count; i++) {
    product[outermost] = (joint_piece){whole.src + i * whole.step, 0, whole.dst + i, 1};
    if (!put_boxes(m, t, product)) return false;
  }
  product[outermost] = whole;
  return true;
}

static bool put_products(maker *m, const target *t, joint_piece *product, uint32_t k, uint32_t from,
                         uint32_t to) {
  if (k == t->factor_count) return put_boxes(m, t, product);
  const joint_list *list = pieces_of(m, t, k, from, to);
  for (uint32_t i = 0; i < list->count; i++) {
    product[k] = list->at[i];
    if (!put_products(m, t, product, k + 1, from, to)) return false;
  }
  return true;
}

/* ---- who sends to whom ---- */

static bool make_parcel(maker *m, const target *t, uint32_t from, uint32_t to) {
  joint_piece product[FACTORS];
  uint32_t first = m->all.box_count;
  return put_products(m, t, product, 0, from, to) && parcels_add(&m->all, from, first);
}

/* From senders of one kind to the takers of another: each takes from the nearest of its group. */
static bool add_moves(maker *m, const target *t, uint32_t from, uint32_t to) {
  uint32_t group = m->from_group[from];
  if (!make_parcel(m, t, from, to)) return false;
  for (uint32_t i = 0; i < t->taker_count[to]; i++) {
    uint32_t at = t->takers[to][i];
    uint32_t server = pass_nearest(m->members[group], m->member_count[group], at);
    if (m->from_kind[server - m->p->from->rect.x] != from) continue;
    if (!WAFER_GROW(m->scratch, m->moves, m->move_count, m->move_room, 16)) return false;
    m->moves[m->move_count++] = (line_move){server - m->first, at - m->first, m->all.count - 1};
  }
  return true;
}

/* ---- who meets whom ---- */

/* The kinds of senders of which a factor has something for takers of a kind. */
static const uint64_t *meets(maker *m, target *t, uint32_t k, uint32_t to) {
  const factor *f = &t->factors[k];
  uint32_t taker = f->target < 0 ? 0 : t->to->dim[f->target].col[t->column[to]];
  if (t->meets[k][taker]) return t->meets[k][taker];
  uint64_t *set = t->meets[k][taker] = WAFER_NEW(m->scratch, uint64_t, (m->from_kinds + 63) / 64);
  for (uint32_t from = 0; set && from < m->from_kinds; from++)
    if (pieces_of(m, t, k, from, to)->count) set[from / 64] |= (uint64_t)1 << from % 64;
  return set;
}

static bool add_takers(maker *m, target *t, uint32_t to) {
  const uint64_t *sets[FACTORS];
  for (uint32_t k = 0; k < t->factor_count; k++)
    if (!(sets[k] = meets(m, t, k, to))) return false;
  for (uint32_t word = 0; word < (m->from_kinds + 63) / 64; word++) {
    uint64_t all = ~(uint64_t)0;
    if (m->from_kinds - 64 * word < 64) all = ((uint64_t)1 << (m->from_kinds - 64 * word)) - 1;
    for (uint32_t k = 0; k < t->factor_count; k++) all &= sets[k][word];
    for (; all; all &= all - 1)
      if (!add_moves(m, t, 64 * word + (uint32_t)__builtin_ctzll(all), to)) return false;
  }
  return true;
}

/* Near moves before the others where that is sooner; those that go nowhere are near. */
static uint32_t put_near_first(maker *m, uint32_t near) {
  line_move *far = WAFER_NEW(m->scratch, line_move, m->move_count);
  uint32_t count = 0, kept = 0;
  if (!far) return UNKNOWN;
  for (uint32_t i = 0; i < m->move_count; i++) {
    const line_move move = m->moves[i];
    uint32_t distance = move.from > move.to ? move.from - move.to : move.to - move.from;
    *(distance > near ? &far[count++] : &m->moves[kept++]) = move;
  }
  if (count) memcpy(&m->moves[kept], far, count * sizeof *far);
  return kept;
}

/* `work` holds what is of no use behind these lines. */
static bool add_moved(maker *m, wafer_arena *work, const line_class *c, line_colors *colors,
                      uint64_t *cycles) {
  const wafer_machine *machine = m->p->x->machine;
  line l = {m->length, m->p->to->dtype, m->all.boxes, m->all.at, m->moves, m->move_count};
  line_place place = {m->p->columns, m->p->trunks != NULL, m->first, c->span_count,
                      c->spans,      m->p->border};
  uint32_t near = 0;
  uint64_t first = 0;
  if (!m->p->border && !reach_near(machine, work, &l, &near)) return false;
  if (near) {
    l.move_count = put_near_first(m, near);
    if (l.move_count == UNKNOWN ||
        !line_add(machine, work, &l, &place, &colors[1], m->f, &first))
      return false;
    l.moves += l.move_count;
    l.move_count = m->move_count - l.move_count;
  }
  if (!line_add(machine, work, &l, &place, &colors[0], m->f, cycles)) return false;
  *cycles += first;
  return true;
}

static bool add_lines(maker *m, const line_class *c, line_colors *colors, uint64_t *cycles) {
  wafer_arena *work = wafer_arena_create();
  bool added = work && add_moved(m, work, c, colors, cycles);
  wafer_arena_destroy(work);
  return added;
}

/* What moves on a class of lines. */
static bool find_moves(maker *m, const line_class *c) {
  const uint32_t *next = c->joint;
  m->move_count = 0;
  parcels_clear(&m->all);
  for (uint32_t i = 0; i < m->target_count; i++) {
    target *t = &m->targets[i];
    for (uint32_t k = 0; k < t->factor_count; k++) {
      t->at[k] = &t->factors[k].joints[*next++];
      t->meets[k] = WAFER_NEW(m->scratch, uint64_t *, t->at[k]->targets);
      if (!t->meets[k]) return false;
    }
    for (uint32_t to = 0; to < t->kinds; to++)
      if (!add_takers(m, t, to)) return false;
  }
  return m->target_count == 1 || parcels_send_once(&m->all, m->from_kinds);
}

fragment_way pass_way(const pass *p) {
  const wafer_rect *from = &p->from->rect, *to = &p->to->rect;
  bool after = to->x >= from->x + from->width, before = to->x + to->width <= from->x;
  if (p->border || p->trunks || p->group || (!after && !before)) return FRAGMENT_ANY_WAY;
  if (p->columns) return after ? FRAGMENT_SOUTH : FRAGMENT_NORTH;
  return after ? FRAGMENT_EAST : FRAGMENT_WEST;
}

bool pass_add(const pass *p, fragment *f, uint64_t *cycles) {
  maker m = {.p = p,
             .f = f,
             .scratch = p->scratch,
             .target_count = 1 + p->with_count,
             .all = {.scratch = p->scratch, .dtype = p->to->dtype}};
  line_colors colors[2] = {{.made = {{false}}}}; /* of all, and of near ones apart */
  *cycles = 0;
  m.targets = WAFER_NEW(m.scratch, target, m.target_count);
  if (!m.targets) return false;
  for (uint32_t i = 0; i < m.target_count; i++) {
    m.targets[i].to = i ? p->with[i - 1] : p->to;
    find_factors(p, &m.targets[i]);
  }
  if (!find_positions(&m) || !find_classes(&m)) return false;
  for (uint32_t i = 0; i < m.class_count; i++) {
    uint64_t one;
    if (!find_moves(&m, &m.classes[i]) || !add_lines(&m, &m.classes[i], colors, &one)) return false;
    if (one > *cycles) *cycles = one;
  }
  return true;
}
