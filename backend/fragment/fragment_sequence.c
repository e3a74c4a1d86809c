/* Which core runs what: all cores go through the steps of a launch, and those that come by the same
 * codes share the sequence so far. */
#include "fragment_sequence.h"

#include <string.h>

wafer_status link_no_memory(const linker *l) {
  return wafer_fail(l->diag, wafer_at_file(l->link->name), WAFER_NO_MEMORY,
                    "out of memory for a program of %u fragments", l->link->count);
}

static uint32_t hash(uint32_t before, uint32_t of, uint32_t code) {
  uint64_t h = ((uint64_t)before << 32 | code) * 0x9e3779b97f4a7c15u ^ of * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(h >> 29);
}

static bool more_buckets(linker *l) {
  uint32_t count = l->bucket_count ? l->bucket_count * 4 : 256;
  uint32_t *buckets = WAFER_NEW(l->arena, uint32_t, count);
  sequence *sequences = WAFER_NEW(l->arena, sequence, count / 2);
  if (!buckets || !sequences) return false;
  memset(buckets, 0xff, count * sizeof *buckets);
  if (l->count) memcpy(sequences, l->sequences, l->count * sizeof *sequences);
  for (uint32_t i = 0; i < l->count; i++) {
    const sequence *s = &sequences[i];
    uint32_t at = hash(s->before, s->fragment, s->code) & (count - 1);
    while (buckets[at] != NOTHING) at = (at + 1) & (count - 1);
    buckets[at] = i;
  }
  l->sequences = sequences;
  l->room = count / 2;
  l->buckets = buckets;
  l->bucket_count = count;
  return true;
}

/* Instructions at the end of a sample: one less to do; none left ends the core, unless it falls out
 * at the end of its program. */
static uint32_t end_length(const linker *l, bool again) {
  return l->link->marks + (again ? 2 : 3);
}

/* The sequence, NOTHING when there is no memory. */
static uint32_t follow(linker *l, uint32_t before, uint32_t of, uint32_t code) {
  if (l->count == l->room && !more_buckets(l)) return NOTHING;
  uint32_t at = hash(before, of, code) & (l->bucket_count - 1);
  for (; l->buckets[at] != NOTHING; at = (at + 1) & (l->bucket_count - 1)) {
    const sequence *s = &l->sequences[l->buckets[at]];
    if (s->before == before && s->fragment == of && s->code == code) return l->buckets[at];
  }
  uint32_t length = before == NOTHING ? 0 : l->sequences[before].length;
  if (of == FRAGMENT_ENDS)
    length += end_length(l, code);
  else if (of != STARTS)
    length += l->link->at[of]->codes[code].count + l->link->marks;
  l->buckets[at] = l->count;
  l->sequences[l->count] = (sequence){before, of, code, length};
  return l->count++;
}

static wafer_status follow_stripe(linker *l, uint32_t i, uint32_t stripe) {
  const fragment *f = l->link->at[i];
  const uint32_t *variant = f->variant;
  wafer_rect r = fragment_in_stripe(l->link, f->rect, stripe);
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    for (uint32_t x = r.x; x < r.x + r.width; x++, variant++) {
      uint32_t *last = &l->last[y * l->link->width + x];
      if (*variant == FRAGMENT_IDLE) continue;
      *last = follow(l, *last, i, *variant);
      if (*last == NOTHING) return link_no_memory(l);
    }
  return WAFER_OK;
}

static wafer_status follow_fragment(linker *l, uint32_t i) {
  for (uint32_t b = 0; b < fragment_stripes(l->link); b++) WAFER_TRY(follow_stripe(l, i, b));
  return WAFER_OK;
}

/* Cores with any work count all samples, also those of other replicas. */
static bool *find_busy(const linker *l) {
  bool *busy = WAFER_NEW(l->arena, bool, (size_t)l->link->width * l->link->height);
  for (uint32_t i = 0; busy && i < l->link->count; i++) {
    const fragment *f = l->link->at[i];
    const uint32_t *variant = f->variant;
    for (uint32_t y = f->rect.y; y < f->rect.y + f->rect.height; y++)
      for (uint32_t x = f->rect.x; x < f->rect.x + f->rect.width; x++)
        busy[y * l->link->width + x] |= *variant++ != FRAGMENT_IDLE;
  }
  return busy;
}

static wafer_status follow_end(linker *l, const bool *busy, bool again) {
  size_t cores = (size_t)l->link->width * l->link->height;
  for (size_t i = 0; i < cores; i++) {
    if (!busy[i]) continue;
    l->last[i] = follow(l, l->last[i], FRAGMENT_ENDS, again);
    if (l->last[i] == NOTHING) return link_no_memory(l);
  }
  return WAFER_OK;
}

/* Cores that have done something by now do not do it again. */
static wafer_status follow_start(linker *l) {
  size_t cores = (size_t)l->link->width * l->link->height;
  for (size_t i = 0; i < cores; i++) {
    if (l->last[i] == NOTHING) continue;
    l->last[i] = follow(l, l->last[i], STARTS, 0);
    if (l->last[i] == NOTHING) return link_no_memory(l);
  }
  return WAFER_OK;
}

wafer_status link_sequences(linker *l) {
  const fragment_link *link = l->link;
  size_t cores = (size_t)link->width * link->height;
  l->last = WAFER_NEW(l->arena, uint32_t, cores);
  if (!l->last) return link_no_memory(l);
  memset(l->last, 0xff, cores * sizeof *l->last);
  for (uint32_t i = 0; i < link->count && !link->steps; i++) WAFER_TRY(follow_fragment(l, i));
  if (!link->steps) return WAFER_OK;
  const bool *busy = find_busy(l);
  if (!busy) return link_no_memory(l);
  for (uint32_t i = 0; i < link->once; i++) WAFER_TRY(follow_fragment(l, link->steps[i]));
  WAFER_TRY(follow_start(l));
  for (uint32_t i = link->once; i < link->step_count; i++)
    WAFER_TRY(link->steps[i] == FRAGMENT_ENDS ? follow_end(l, busy, i + 1 == link->step_count)
                                              : follow_fragment(l, link->steps[i]));
  return WAFER_OK;
}
