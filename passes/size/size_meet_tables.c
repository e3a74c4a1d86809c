/* What values take from the options of a kernel to those of the next: layers alike have the same
 * options, and tables of these are made once, side by side by threads. */
#include <string.h>

#include "ir/intern.h"
#include "size_meet.h"
#include "streams.h"

/* An option at an end of an edge. */
typedef struct option_end {
  wafer_holding at;
  const wafer_shape_point *point;
  uint64_t words[2]; /* of a row, of a column */
} option_end;

typedef struct tables {
  const meet *m;
  intern *contents; /* all that tables know of a kernel's options -> anything */
  intern *known;    /* contents of both ends, places, words -> cycles */
  uint64_t *key;
  void **content;         /* of kernels */
  uint32_t new_count;     /* tables to fill */
  const meet_edge **news; /* the first edge of each */
} tables;

/* ---- one table ---- */

static void open_ends(const meet *m, const meet_kernel *k, uint32_t place, bool beside,
                      const meet_edge *e, option_end *ends) {
  for (uint32_t i = 0; i < k->count; i++) {
    option_end *end = &ends[i];
    end->at = meet_holding(m, &k->at[i], place, beside);
    end->point = k->at[i].point;
    for (int column = 0; column < 2; column++)
      end->words[column] = meeting_words(&end->at.layout, e->shape, column, e->words);
  }
}

static uint64_t between(const meet *m, const meet_edge *e, const option_end *from,
                        const option_end *to) {
  bool columns = meeting_along_columns(from->at.rect, to->at.rect);
  const meeting of = {.from = {from->words[columns], from->words[!columns]},
                      .to = {to->words[columns], to->words[!columns]},
                      .alike = meeting_alike(&from->at, &to->at, e->shape, columns)};
  return meeting_takes(m->p->ctx->machine, &of, from->at.rect, to->at.rect, e->words, columns) +
         meet_room_price(m->p, &from->at, from->point, &to->at, to->point, e->shape, e->words);
}

static void fill(void *self, uint32_t tile, uint32_t thread) {
  const tables *t = self;
  const meet_edge *e = t->news[tile];
  const meet_kernel *a = &t->m->kernels[e->producer], *b = &t->m->kernels[e->user];
  option_end from[MEET_OPTIONS], to[MEET_OPTIONS];
  uint64_t *cycles = e->cycles;
  (void)thread;
  open_ends(t->m, a, e->output, false, e, from);
  open_ends(t->m, b, e->input, true, e, to);
  for (uint32_t i = 0; i < a->count; i++)
    for (uint32_t j = 0; j < b->count; j++) *cycles++ = between(t->m, e, &from[i], &to[j]);
}

/* ---- which there are ---- */

#define SPLIT_WORDS (sizeof(wafer_split) / sizeof(uint64_t))
#define OPTION_WORDS (SPLIT_WORDS + 1)

static void *content_of(const tables *t, const meet_kernel *k) {
  size_t n = 0;
  t->key[n++] = wafer_kernel_signature(&k->body);
  t->key[n++] = size_order(&k->body);
  for (uint32_t i = 0; i < k->count; i++, n += OPTION_WORDS) {
    memcpy(&t->key[n], &k->at[i].point->split, sizeof(wafer_split));
    t->key[n + SPLIT_WORDS] = k->at[i].point->bytes;
  }
  void **slot = intern_slot(t->contents, t->key, n * sizeof *t->key);
  if (slot && !*slot) *slot = (void *)(uintptr_t)k;
  return slot ? *slot : NULL;
}

static wafer_status open_table(tables *t, meet_edge *e) {
  const meet_kernel *a = &t->m->kernels[e->producer], *b = &t->m->kernels[e->user];
  const uint64_t key[] = {(uint64_t)(uintptr_t)t->content[e->producer],
                          (uint64_t)(uintptr_t)t->content[e->user], e->output, e->input, e->words};
  void **slot = intern_slot(t->known, key, sizeof key);
  if (!slot) return pipeline_no_memory(t->m->p);
  if (!*slot) {
    *slot = WAFER_NEW(t->m->p->ctx->arena, uint64_t, (size_t)a->count * b->count);
    if (!*slot) return pipeline_no_memory(t->m->p);
    t->news[t->new_count++] = e;
  }
  e->cycles = *slot;
  return WAFER_OK;
}

wafer_status meet_open_tables(meet *m) {
  uint32_t n = m->p->graph->kernel_count;
  wafer_arena *arena = m->p->ctx->arena;
  tables t = {.m = m,
              .contents = intern_create(arena),
              .known = intern_create(arena),
              .key = WAFER_NEW(arena, uint64_t, 2 + MEET_OPTIONS * OPTION_WORDS),
              .content = WAFER_NEW(arena, void *, n),
              .news = WAFER_NEW(arena, const meet_edge *, m->edge_count)};
  if (!t.contents || !t.known || !t.key || !t.content || !t.news) return pipeline_no_memory(m->p);
  for (uint32_t k = 0; k < n; k++)
    if (!(t.content[k] = content_of(&t, &m->kernels[k]))) return pipeline_no_memory(m->p);
  for (uint32_t i = 0; i < m->edge_count; i++) WAFER_TRY(open_table(&t, &m->edges[i]));
  wafer_workers_run(curve_set_workers(m->p->curves), t.new_count, fill, &t);
  return WAFER_OK;
}
