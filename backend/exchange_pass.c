/* A pass: lines alike, and what moves on them.
 *
 * Dims are independent, so what a core sends to another is a product of pieces, one factor per dim:
 * the joints. A line is known by its joints. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

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

/* A product of joints, one per factor, on some lines. */
typedef struct line_class {
  uint32_t joint[FACTORS];
  fragment_span *spans;
  uint32_t span_count, span_room;
} line_class;

typedef struct maker {
  const pass *p;
  fragment *f;
  wafer_arena *scratch;
  factor factors[FACTORS];
  uint32_t factor_count;
  line_class *classes;
  uint32_t class_count, class_room;
  /* of positions */
  uint32_t first, length; /* coordinate of position 0 */
  uint32_t *from_kind, from_kinds, *to_kind, to_kinds;
  uint32_t **members, *member_count, groups; /* columns of `from`, sorted, by group */
  uint32_t *from_column, *to_column;         /* of each kind: a column that is of it */
  uint32_t *from_group;                      /* of each kind of sender */
  uint32_t **takers, *taker_count;           /* columns of `to`, by kind */
  /* of the class at hand */
  const joint *at[FACTORS];
  uint64_t **meets[FACTORS]; /* of each kind in a factor's target: set of kinds of senders */
  line_parcel *parcels;
  uint32_t parcel_count, parcel_room;
  line_box *boxes;
  uint32_t box_count, box_room;
  uint32_t *sends, send_buckets; /* parcels by what they send */
  line_move *moves;
  uint32_t move_count, move_room;
} maker;

static bool grow(wafer_arena *arena, void *list, uint32_t count, uint32_t *room, size_t size) {
  void *old, *more;
  if (count < *room) return true;
  uint32_t next = *room ? 2 * *room : 16;
  memcpy(&old, list, sizeof old);
  more = wafer_arena_alloc(arena, next, size);
  if (!more) return false;
  if (count) memcpy(more, old, count * size);
  memcpy(list, &more, sizeof more);
  *room = next;
  return true;
}

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

static bool find_positions(maker *m) {
  const spread *from = m->p->from, *to = m->p->to;
  uint32_t width = from->rect.width;
  uint32_t end = from->rect.x + width > to->rect.x + to->rect.width ? from->rect.x + width
                                                                    : to->rect.x + to->rect.width;
  m->first = from->rect.x < to->rect.x ? from->rect.x : to->rect.x;
  m->length = end - m->first;
  m->from_kind = spread_kinds(m->scratch, from, false, &m->from_kinds);
  m->to_kind = spread_kinds(m->scratch, to, false, &m->to_kinds);
  m->from_column = WAFER_NEW(m->scratch, uint32_t, m->from_kinds);
  m->to_column = WAFER_NEW(m->scratch, uint32_t, m->to_kinds);
  if (!m->from_kind || !m->to_kind || !m->from_column || !m->to_column) return false;
  for (uint32_t c = 0; c < width; c++) m->from_column[m->from_kind[c]] = c;
  for (uint32_t c = 0; c < to->rect.width; c++) m->to_column[m->to_kind[c]] = c;
  const uint32_t *group = m->p->group ? m->p->group : m->from_kind;
  m->from_group = WAFER_NEW(m->scratch, uint32_t, m->from_kinds);
  if (!m->from_group) return false;
  for (uint32_t c = 0; c < width; c++) m->from_group[m->from_kind[c]] = group[c];
  for (uint32_t c = 0; c < width; c++)
    if (group[c] >= m->groups) m->groups = group[c] + 1;
  return sort_columns(m->scratch, group, width, from->rect.x, m->groups, &m->members,
                      &m->member_count) &&
         sort_columns(m->scratch, m->to_kind, to->rect.width, to->rect.x, m->to_kinds, &m->takers,
                      &m->taker_count);
}

/* ---- factors and classes of lines ---- */

/* In the order of the target's dims, so that neighbouring elements of the target follow each other.
 */
static void find_factors(maker *m) {
  const pass *p = m->p;
  bool followed[WAFER_MAX_RANK] = {false};
  for (uint32_t s = 0; s < p->from->rank; s++) {
    int d = p->map.dim[s].dim;
    if (d != INDEX_CONSTANT) followed[d] = true;
    if (d == INDEX_CONSTANT)
      m->factors[m->factor_count++] =
          (factor){.source = (int)s, .target = -1, .map = p->map.dim[s]};
  }
  for (uint32_t d = 0; d < p->to->rank; d++) {
    factor f = {.source = -1, .target = (int)d};
    for (uint32_t s = 0; s < p->from->rank && followed[d]; s++)
      if (p->map.dim[s].dim == (int)d) {
        f.source = (int)s;
        f.map = p->map.dim[s];
      }
    m->factors[m->factor_count++] = f;
  }
}

static uint32_t joint_at(maker *m, factor *f, uint32_t row) {
  const spread_dim *s = f->source < 0 ? NULL : &m->p->from->dim[f->source];
  const spread_dim *t = f->target < 0 ? NULL : &m->p->to->dim[f->target];
  joint next;
  if (!joint_of(m->scratch, s, s ? s->row[row] : 0, t, t ? t->row[row] : 0, &f->map, &next))
    return UNKNOWN;
  for (uint32_t i = 0; i < f->joint_count; i++)
    if (joint_equal(&f->joints[i], &next)) return i;
  if (!grow(m->scratch, &f->joints, f->joint_count, &f->joint_room, sizeof next)) return UNKNOWN;
  f->joints[f->joint_count] = next;
  return f->joint_count++;
}

/* Joint of each row for one factor: made once for each pair of kinds. */
typedef struct known {
  uint32_t source, target, joint;
  bool used;
} known;

static uint32_t *joints_of(maker *m, factor *f) {
  uint32_t rows = m->p->from->rect.height, buckets = 64;
  while (buckets < 2 * rows) buckets *= 2;
  uint32_t *joints = WAFER_NEW(m->scratch, uint32_t, rows);
  known *table = WAFER_NEW(m->scratch, known, buckets);
  if (!joints || !table) return NULL;
  for (uint32_t row = 0; row < rows; row++) {
    uint32_t s = f->source < 0 ? 0 : m->p->from->dim[f->source].row[row];
    uint32_t t = f->target < 0 ? 0 : m->p->to->dim[f->target].row[row];
    uint32_t at = (s * 2654435761u ^ t * 2246822519u) >> 7 & (buckets - 1);
    while (table[at].used && (table[at].source != s || table[at].target != t))
      at = (at + 1) & (buckets - 1);
    if (!table[at].used) table[at] = (known){s, t, joint_at(m, f, row), true};
    joints[row] = table[at].joint;
    if (joints[row] == UNKNOWN) return NULL;
  }
  return joints;
}

static bool add_line(maker *m, uint32_t row, uint32_t *const *joints) {
  line_class *c = NULL;
  for (uint32_t i = 0; i < m->class_count && !c; i++) {
    uint32_t k = 0;
    while (k < m->factor_count && m->classes[i].joint[k] == joints[k][row]) k++;
    if (k == m->factor_count) c = &m->classes[i];
  }
  if (!c) {
    if (!grow(m->scratch, &m->classes, m->class_count, &m->class_room, sizeof *c)) return false;
    c = &m->classes[m->class_count++];
    for (uint32_t k = 0; k < m->factor_count; k++) c->joint[k] = joints[k][row];
  }
  uint32_t at = m->p->from->rect.y + row;
  fragment_span *last = c->span_count ? &c->spans[c->span_count - 1] : NULL;
  const uint32_t *trunk = m->p->trunks;
  if (last && last->first + last->count == at && (!trunk || trunk[row] == trunk[row - 1])) {
    last->count++;
    return true;
  }
  if (!grow(m->scratch, &c->spans, c->span_count, &c->span_room, sizeof *last)) return false;
  c->spans[c->span_count++] = (fragment_span){at, 1};
  return true;
}

static bool find_classes(maker *m) {
  uint32_t *joints[FACTORS];
  for (uint32_t k = 0; k < m->factor_count; k++)
    if (!(joints[k] = joints_of(m, &m->factors[k]))) return false;
  for (uint32_t row = 0; row < m->p->from->rect.height; row++)
    if (!add_line(m, row, joints)) return false;
  return true;
}

/* ---- what moves ---- */

static const joint_list *pieces_of(const maker *m, uint32_t k, uint32_t from, uint32_t to) {
  const factor *f = &m->factors[k];
  uint32_t s = f->source < 0 ? 0 : m->p->from->dim[f->source].col[m->from_column[from]];
  uint32_t t = f->target < 0 ? 0 : m->p->to->dim[f->target].col[m->to_column[to]];
  return &m->at[k]->list[s * m->at[k]->targets + t];
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
static bool put_boxes(maker *m, joint_piece *product) {
  line_box box = {.src = m->p->from->address, .dst = m->p->to->address};
  uint32_t outermost = UNKNOWN;
  bool fits = true;
  for (uint32_t k = 0; k < m->factor_count; k++) {
    const factor *f = &m->factors[k];
    const joint_piece *piece = &product[k];
    int32_t src = f->source < 0 ? 0 : m->p->from->dim[f->source].stride;
    int32_t dst = f->target < 0 ? 0 : m->p->to->dim[f->target].stride;
    box.src += piece->src * src;
    box.dst += piece->dst * dst;
    if (piece->count > 1 && outermost == UNKNOWN) outermost = k;
    fits = fits && put_level(&box, (uint32_t)piece->count, piece->step * src, dst);
  }
  if (fits) {
    if (!grow(m->scratch, &m->boxes, m->box_count, &m->box_room, sizeof box)) return false;
    m->boxes[m->box_count++] = box;
    return true;
  }
  joint_piece whole = product[outermost];
  for (int32_t i = 0; i < whole.count; i++) {
    product[outermost] = (joint_piece){whole.src + i * whole.step, 0, whole.dst + i, 1};
    if (!put_boxes(m, product)) return false;
  }
  product[outermost] = whole;
  return true;
}

static bool put_products(maker *m, joint_piece *product, uint32_t k, uint32_t from, uint32_t to) {
  if (k == m->factor_count) return put_boxes(m, product);
  const joint_list *list = pieces_of(m, k, from, to);
  for (uint32_t i = 0; i < list->count; i++) {
    product[k] = list->at[i];
    if (!put_products(m, product, k + 1, from, to)) return false;
  }
  return true;
}

/* ---- parcels ---- */

static uint64_t elements_of(const line_box *box) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < box->levels; i++) n *= box->shape[i];
  return n;
}

static bool same_source(const line_box *a, const line_box *b) {
  return a->levels == b->levels && a->src == b->src &&
         memcmp(a->shape, b->shape, a->levels * sizeof *a->shape) == 0 &&
         memcmp(a->src_stride, b->src_stride, a->levels * sizeof *a->src_stride) == 0;
}

static bool sends_same(const maker *m, const line_parcel *a, const line_parcel *b) {
  if (a->count != b->count || a->words != b->words) return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!same_source(&m->boxes[a->first + i], &m->boxes[b->first + i])) return false;
  return true;
}

static uint64_t hash_of(const maker *m, const line_parcel *p) {
  uint64_t hash = p->from * 0x9e3779b97f4a7c15u;
  for (uint32_t i = 0; i < p->count; i++) {
    const line_box *box = &m->boxes[p->first + i];
    hash = (hash ^ (uint32_t)box->src) * 0x9e3779b97f4a7c15u;
    for (uint32_t k = 0; k < box->levels; k++)
      hash = (hash ^ box->shape[k] ^ (uint64_t)(uint32_t)box->src_stride[k] << 32) *
             0xbf58476d1ce4e5b9u;
  }
  return hash;
}

static uint32_t *send_bucket(const maker *m, uint32_t parcel) {
  const line_parcel *p = &m->parcels[parcel];
  uint32_t at = (uint32_t)(hash_of(m, p) >> 32) & (m->send_buckets - 1);
  for (; m->sends[at] != UNKNOWN; at = (at + 1) & (m->send_buckets - 1)) {
    const line_parcel *other = &m->parcels[m->sends[at]];
    if (other->from == p->from && sends_same(m, p, other)) break;
  }
  return &m->sends[at];
}

static bool more_send_buckets(maker *m) {
  uint32_t count = m->send_buckets ? 4 * m->send_buckets : 256;
  uint32_t *sends = WAFER_NEW(m->scratch, uint32_t, count);
  if (!sends) return false;
  memset(sends, 0xff, count * sizeof *sends);
  m->sends = sends;
  m->send_buckets = count;
  for (uint32_t i = 0; i + 1 < m->parcel_count; i++)
    if (m->parcels[i].send == i) *send_bucket(m, i) = i;
  return true;
}

/* Parcels of one sender that send the same elements name the first of them. */
static bool find_send(maker *m, uint32_t parcel) {
  if (2 * m->parcel_count >= m->send_buckets && !more_send_buckets(m)) return false;
  uint32_t *bucket = send_bucket(m, parcel);
  if (*bucket == UNKNOWN) *bucket = parcel;
  m->parcels[parcel].send = *bucket;
  return true;
}

static bool make_parcel(maker *m, uint32_t from, uint32_t to) {
  joint_piece product[FACTORS];
  line_parcel parcel = {.from = from, .first = m->box_count};
  if (!put_products(m, product, 0, from, to)) return false;
  parcel.count = m->box_count - parcel.first;
  for (uint32_t i = 0; i < parcel.count; i++)
    parcel.words += line_words(m->p->to->dtype, elements_of(&m->boxes[parcel.first + i]));
  if (!grow(m->scratch, &m->parcels, m->parcel_count, &m->parcel_room, sizeof parcel)) return false;
  m->parcels[m->parcel_count++] = parcel;
  return find_send(m, m->parcel_count - 1);
}

/* From senders of one kind to the takers of another: each takes from the nearest of its group. */
static bool add_moves(maker *m, uint32_t from, uint32_t to) {
  uint32_t group = m->from_group[from];
  if (!make_parcel(m, from, to)) return false;
  for (uint32_t i = 0; i < m->taker_count[to]; i++) {
    uint32_t at = m->takers[to][i];
    uint32_t server = pass_nearest(m->members[group], m->member_count[group], at);
    if (m->from_kind[server - m->p->from->rect.x] != from) continue;
    if (!grow(m->scratch, &m->moves, m->move_count, &m->move_room, sizeof *m->moves)) return false;
    m->moves[m->move_count++] = (line_move){server - m->first, at - m->first, m->parcel_count - 1};
  }
  return true;
}

/* ---- who meets whom ---- */

/* The kinds of senders of which a factor has something for takers of a kind. */
static const uint64_t *meets(maker *m, uint32_t k, uint32_t to) {
  const factor *f = &m->factors[k];
  uint32_t t = f->target < 0 ? 0 : m->p->to->dim[f->target].col[m->to_column[to]];
  if (m->meets[k][t]) return m->meets[k][t];
  uint64_t *set = m->meets[k][t] = WAFER_NEW(m->scratch, uint64_t, (m->from_kinds + 63) / 64);
  for (uint32_t from = 0; set && from < m->from_kinds; from++)
    if (pieces_of(m, k, from, to)->count) set[from / 64] |= (uint64_t)1 << from % 64;
  return set;
}

static bool add_takers(maker *m, uint32_t to) {
  const uint64_t *sets[FACTORS];
  for (uint32_t k = 0; k < m->factor_count; k++)
    if (!(sets[k] = meets(m, k, to))) return false;
  for (uint32_t word = 0; word < (m->from_kinds + 63) / 64; word++) {
    uint64_t all = ~(uint64_t)0;
    if (m->from_kinds - 64 * word < 64) all = ((uint64_t)1 << (m->from_kinds - 64 * word)) - 1;
    for (uint32_t k = 0; k < m->factor_count; k++) all &= sets[k][word];
    for (; all; all &= all - 1)
      if (!add_moves(m, 64 * word + (uint32_t)__builtin_ctzll(all), to)) return false;
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

static bool add_lines(maker *m, const line_class *c, line_colors *colors, uint64_t *cycles) {
  const wafer_machine *machine = m->p->x->machine;
  line l = {m->length, m->p->to->dtype, m->boxes, m->parcels, m->moves, m->move_count};
  line_place place = {m->p->columns, m->p->trunks != NULL, m->first, c->span_count,
                      c->spans,      m->p->border};
  uint32_t near = 0;
  uint64_t first = 0;
  if (!m->p->border && !reach_near(machine, m->scratch, &l, &near)) return false;
  if (near) {
    l.move_count = put_near_first(m, near);
    if (l.move_count == UNKNOWN ||
        !line_add(machine, m->scratch, &l, &place, &colors[1], m->f, &first))
      return false;
    l.moves += l.move_count;
    l.move_count = m->move_count - l.move_count;
  }
  if (!line_add(machine, m->scratch, &l, &place, &colors[0], m->f, cycles)) return false;
  *cycles += first;
  return true;
}

static bool add_class(maker *m, const line_class *c, line_colors *colors, uint64_t *cycles) {
  for (uint32_t k = 0; k < m->factor_count; k++) {
    m->at[k] = &m->factors[k].joints[c->joint[k]];
    m->meets[k] = WAFER_NEW(m->scratch, uint64_t *, m->at[k]->targets);
    if (!m->meets[k]) return false;
  }
  m->parcel_count = m->box_count = m->move_count = 0;
  if (m->send_buckets) memset(m->sends, 0xff, m->send_buckets * sizeof *m->sends);
  for (uint32_t to = 0; to < m->to_kinds; to++)
    if (!add_takers(m, to)) return false;
  return add_lines(m, c, colors, cycles);
}

bool pass_add(const pass *p, fragment *f, uint64_t *cycles) {
  maker m = {.p = p, .f = f, .scratch = p->scratch};
  line_colors colors[2] = {{.made = {{false}}}}; /* of all, and of near ones apart */
  *cycles = 0;
  find_factors(&m);
  if (!find_positions(&m) || !find_classes(&m)) return false;
  for (uint32_t i = 0; i < m.class_count; i++) {
    uint64_t one;
    if (!add_class(&m, &m.classes[i], colors, &one)) return false;
    if (one > *cycles) *cycles = one;
  }
  return true;
}
