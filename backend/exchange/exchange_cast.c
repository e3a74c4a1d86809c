#include "exchange_cast.h"

#include <stdlib.h>
#include <string.h>

#define MOST_RUNS 512 /* of a filter, of one sender */
#define NOWHERE INT32_MIN

/* The elements of a parcel as they are sent, `per` to a word; NOWHERE: a word has fewer. */
typedef struct sequence {
  int32_t *at; /* addresses; words * per */
  uint32_t words;
} sequence;

/* A way to send: the parcel, or all in one; which of the others it has. */
typedef struct offer {
  sequence all;
  uint32_t words;   /* of it, and of what it has not */
  uint32_t *counts; /* runs of each parcel, 0: it has it not */
  line_run **runs;
} offer;

static uint32_t per_word(wafer_dtype dtype) {
  uint32_t bytes = (uint32_t)wafer_dtype_bytes(dtype);
  return bytes < WAFER_WAVELET_BYTES ? WAFER_WAVELET_BYTES / bytes : 1;
}

/* The addresses of a box, one after the other. */
static uint32_t walk(const line_box *box, int32_t *out) {
  uint32_t count = 1;
  out[0] = box->src;
  for (uint32_t level = 0; level < box->levels; level++) {
    uint32_t inner = box->shape[level], all = count * inner;
    for (uint32_t i = all; i-- > 0;)
      out[i] = out[i / inner] + (int32_t)(i % inner) * box->src_stride[level];
    count = all;
  }
  return count;
}

static bool spell(const cast *c, const line_box *boxes, uint32_t count, uint32_t words,
                  sequence *out) {
  uint32_t per = per_word(c->dtype), at = 0;
  *out = (sequence){WAFER_NEW(c->scratch, int32_t, (size_t)words *per), words};
  for (uint32_t i = 0; out->at && i < count; i++) {
    at += walk(&boxes[i], out->at + at);
    while (at % per) out->at[at++] = NOWHERE;
  }
  return out->at != NULL;
}

static int by_value(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return a < b ? -1 : a > b;
}

/* The word of `all` that begins with the address, from `from` on: most follow the one before. */
static uint32_t find_word(const sequence *all, uint32_t per, int32_t address, uint32_t from) {
  for (uint32_t w = from; w < all->words; w++)
    if (all->at[(size_t)w * per] == address) return w;
  return all->words;
}

/* The runs of `all` that are `part`; 0: it is not in it, in this order. False: out of memory. */
static bool find_runs(const cast *c, const sequence *all, const sequence *part, line_run **runs,
                      uint32_t *count) {
  uint32_t per = per_word(c->dtype), next = 0;
  line_run found[MOST_RUNS];
  *count = 0;
  for (uint32_t w = 0; w < part->words; w++) {
    const int32_t *word = &part->at[(size_t)w * per];
    uint32_t at = find_word(all, per, word[0], next);
    bool has = at < all->words;
    for (uint32_t i = 1; i < per && has; i++)
      has = word[i] == NOWHERE || word[i] == all->at[(size_t)at * per + i];
    bool longer = has && *count && at == next;
    if (!has || (!longer && *count == MOST_RUNS)) return *count = 0, true;
    if (longer)
      found[*count - 1].count++;
    else
      found[(*count)++] = (line_run){at, 1};
    next = at + 1;
  }
  *runs = wafer_arena_copy(c->scratch, found, *count * sizeof *found);
  return *runs != NULL;
}

/* What is sent once, that which is not in it as before. */
static bool weigh(const cast *c, const sequence *parts, offer *o) {
  o->words = o->all.words;
  o->counts = WAFER_NEW(c->scratch, uint32_t, c->count);
  o->runs = WAFER_NEW(c->scratch, line_run *, c->count);
  if (!o->counts || !o->runs) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    if (!find_runs(c, &o->all, &parts[i], &o->runs[i], &o->counts[i])) return false;
    bool sent = c->parcels[c->of[i]].send == c->of[i];
    if (sent && !o->counts[i]) o->words += parts[i].words;
  }
  return true;
}

/* All addresses, each once, as boxes; none: there are too many. False: out of memory. */
static bool unite(cast *c, const sequence *parts) {
  uint32_t per = per_word(c->dtype), count = 0, kept = 0;
  int32_t bytes = (int32_t)wafer_dtype_bytes(c->dtype);
  for (uint32_t i = 0; i < c->count; i++) count += parts[i].words * per;
  int32_t *at = WAFER_NEW(c->scratch, int32_t, count);
  if (!at) return false;
  count = 0;
  for (uint32_t i = 0; i < c->count; i++)
    for (uint32_t k = 0; k < parts[i].words * per; k++)
      if (parts[i].at[k] != NOWHERE) at[count++] = parts[i].at[k];
  qsort(at, count, sizeof *at, by_value);
  for (uint32_t i = 0; i < count; i++)
    if (!kept || at[kept - 1] != at[i]) at[kept++] = at[i];
  c->box_count = c->words = 0;
  for (uint32_t i = 0, end; i < kept; i = end) {
    for (end = i + 1; end < kept && at[end] == at[end - 1] + bytes;) end++;
    line_box *last = c->box_count ? &c->box[c->box_count - 1] : NULL;
    bool rows = last && last->shape[1] == end - i;
    int32_t step =
        last ? at[i] - last->src - ((int32_t)last->shape[0] - 1) * last->src_stride[0] : 0;
    if (rows && (last->shape[0] == 1 || step == last->src_stride[0])) {
      last->src_stride[0] = step;
      last->shape[0]++;
      continue;
    }
    if (c->box_count == CAST_BOXES) return c->box_count = 0, true;
    c->box[c->box_count++] =
        (line_box){.levels = 2, .shape = {1, end - i}, .src = at[i], .src_stride = {0, bytes}};
  }
  for (uint32_t i = 0; i < c->box_count; i++) {
    line_box *box = &c->box[i];
    c->words += line_words(c->dtype, (uint64_t)box->shape[0] * box->shape[1]);
    if (box->shape[0] > 1) continue;
    box->levels = 1;
    box->shape[0] = box->shape[1];
    box->src_stride[0] = bytes;
  }
  return true;
}

static void take(const cast *c, const offer *o, uint32_t send) {
  for (uint32_t i = 0; i < c->count; i++) {
    line_parcel *p = &c->parcels[c->of[i]];
    if (!o->counts[i] || c->of[i] == send) continue;
    p->send = send;
    p->run_count = o->counts[i];
    p->runs = o->runs[i];
  }
}

bool cast_once(cast *c) {
  uint32_t sends = 0, words = 0, largest = 0;
  sequence *parts = WAFER_NEW(c->scratch, sequence, c->count);
  if (!parts) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    const line_parcel *p = &c->parcels[c->of[i]];
    if (p->send == c->of[i]) sends++, words += p->words;
    if (p->words > c->parcels[c->of[largest]].words) largest = i;
  }
  if (sends < 2 || wafer_dtype_bytes(c->dtype) > WAFER_WAVELET_BYTES) return true;
  for (uint32_t i = 0; i < c->count; i++) {
    const line_parcel *p = &c->parcels[c->of[i]];
    if (!spell(c, c->boxes + p->first, p->count, p->words, &parts[i])) return false;
  }
  largest = c->parcels[c->of[largest]].send;
  offer one = {.words = 0}, all = {.words = UINT32_MAX};
  for (uint32_t i = 0; i < c->count; i++)
    if (c->of[i] == largest) one.all = parts[i];
  if (!weigh(c, parts, &one) || !unite(c, parts)) return false;
  if (c->box_count &&
      (!spell(c, c->box, c->box_count, c->words, &all.all) || !weigh(c, parts, &all)))
    return false;
  if (one.words <= all.words) c->box_count = 0;
  if (one.words > words && all.words > words) c->box_count = 0;
  if (one.words <= all.words && one.words < words) take(c, &one, largest);
  if (c->box_count) take(c, &all, c->next);
  return true;
}
