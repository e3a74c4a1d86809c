#include "exchange_parcel.h"

#include <string.h>

#include "exchange_cast.h"

#define UNKNOWN UINT32_MAX

bool parcels_add_box(parcels *m, const line_box *box) {
  if (!WAFER_GROW(m->scratch, m->boxes, m->box_count, m->box_room, 16)) return false;
  m->boxes[m->box_count++] = *box;
  return true;
}

void parcels_clear(parcels *m) {
  m->count = m->box_count = 0;
  if (m->send_buckets) memset(m->sends, 0xff, m->send_buckets * sizeof *m->sends);
}

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

static bool sends_same(const parcels *m, const line_parcel *a, const line_parcel *b) {
  if (a->count != b->count || a->words != b->words) return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!same_source(&m->boxes[a->first + i], &m->boxes[b->first + i])) return false;
  return true;
}

static uint64_t hash_of(const parcels *m, const line_parcel *p) {
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

static uint32_t *send_bucket(const parcels *m, uint32_t parcel) {
  const line_parcel *p = &m->at[parcel];
  uint32_t at = (uint32_t)(hash_of(m, p) >> 32) & (m->send_buckets - 1);
  for (; m->sends[at] != UNKNOWN; at = (at + 1) & (m->send_buckets - 1)) {
    const line_parcel *other = &m->at[m->sends[at]];
    if (other->from == p->from && sends_same(m, p, other)) break;
  }
  return &m->sends[at];
}

static bool more_send_buckets(parcels *m) {
  uint32_t count = m->send_buckets ? 4 * m->send_buckets : 256;
  uint32_t *sends = WAFER_NEW(m->scratch, uint32_t, count);
  if (!sends) return false;
  memset(sends, 0xff, count * sizeof *sends);
  m->sends = sends;
  m->send_buckets = count;
  for (uint32_t i = 0; i + 1 < m->count; i++)
    if (m->at[i].send == i) *send_bucket(m, i) = i;
  return true;
}

/* Parcels of one sender that send the same elements name the first of them. */
static bool find_send(parcels *m, uint32_t parcel) {
  if (2 * m->count >= m->send_buckets && !more_send_buckets(m)) return false;
  uint32_t *bucket = send_bucket(m, parcel);
  if (*bucket == UNKNOWN) *bucket = parcel;
  m->at[parcel].send = *bucket;
  return true;
}

bool parcels_add(parcels *m, uint32_t from, uint32_t first) {
  line_parcel parcel = {.from = from, .first = first, .count = m->box_count - first};
  for (uint32_t i = 0; i < parcel.count; i++)
    parcel.words += line_words(m->dtype, elements_of(&m->boxes[first + i]));
  if (!WAFER_GROW(m->scratch, m->at, m->count, m->room, 16)) return false;
  m->at[m->count++] = parcel;
  return find_send(m, m->count - 1);
}

bool parcels_send_once(parcels *m, uint32_t kinds) {
  uint32_t *of = WAFER_NEW(m->scratch, uint32_t, m->count), made = m->count;
  if (!of) return false;
  for (uint32_t kind = 0; kind < kinds; kind++) {
    cast c = {
        .scratch = m->scratch, .dtype = m->dtype, .boxes = m->boxes, .parcels = m->at, .of = of};
    for (uint32_t i = 0; i < made; i++)
      if (m->at[i].from == kind) of[c.count++] = i;
    c.next = m->count;
    if (!cast_once(&c)) return false;
    if (!c.box_count) continue;
    line_parcel all = {.from = kind,
                       .first = m->box_count,
                       .count = c.box_count,
                       .words = c.words,
                       .send = m->count};
    for (uint32_t i = 0; i < c.box_count; i++)
      if (!parcels_add_box(m, &c.box[i])) return false;
    if (!WAFER_GROW(m->scratch, m->at, m->count, m->room, 16)) return false;
    m->at[m->count++] = all;
  }
  return true;
}
