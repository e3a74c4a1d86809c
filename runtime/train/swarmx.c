#include "wafer/swarmx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer_rules.h"
#include "store.h"

#define PIECE ((uint64_t)1 << 16)
#define MOST_HELD 4096 /* partial sums that wait for a neighbour */

/* `held` are nodes in order of their leaves, none the sibling of its neighbour; their data are
 * blocks of `buffers`, of which those at `spare` are free. */
struct wafer_swarmx {
  const wafer_diag *diag;
  thread_pool *pool;
  const char *store; /* own copy */
  uint64_t elements, leaves;
  uint32_t held_count, spare_count, buffer_count;
  wafer_swarmx_node held[MOST_HELD];
  float *spare[MOST_HELD];
  store_block buffers[MOST_HELD];
  /* Of the addition under way. */
  float *to;
  const float *from;
};

wafer_status wafer_swarmx_create(const wafer_diag *diag, uint64_t elements, const char *store,
                                 uint32_t threads, wafer_swarmx **out) {
  wafer_swarmx *s = *out = calloc(1, sizeof *s);
  if (s) s->pool = thread_pool_create(threads);
  if (s && store) s->store = strdup(store);
  if (!s || !s->pool || (store && !s->store)) {
    wafer_swarmx_destroy(s);
    *out = NULL;
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory for SwarmX");
  }
  s->diag = diag;
  s->elements = elements;
  return WAFER_OK;
}

void wafer_swarmx_destroy(wafer_swarmx *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->buffer_count; i++) store_release(&s->buffers[i]);
  thread_pool_destroy(s->pool);
  free((char *)(uintptr_t)s->store);
  free(s);
}

void wafer_swarmx_begin(wafer_swarmx *s, uint64_t leaves) {
  s->leaves = leaves;
  s->held_count = 0;
  s->spare_count = s->buffer_count;
  for (uint32_t i = 0; i < s->buffer_count; i++) s->spare[i] = s->buffers[i].data;
}

/* ---- adding ---- */

static void add_piece(void *self, uint64_t piece) {
  const wafer_swarmx *s = self;
  uint64_t from = piece * PIECE, left = s->elements - from;
  rule_add(s->to + from, s->from + from, left < PIECE ? left : PIECE);
}

static void add_whole(wafer_swarmx *s, float *to, const float *from) {
  s->to = to;
  s->from = from;
  store_each(s->pool, (s->elements + PIECE - 1) / PIECE, add_piece, s);
}

static void add_scalars(double *to, const double *from) {
  for (int i = 0; i < WAFER_SWARMX_SCALARS; i++) to[i] += from[i];
}

static float *writable(const wafer_swarmx_node *node) {
  return (float *)(uintptr_t)node->data;
}

/* Whether b is the right sibling of a. */
static bool siblings(const wafer_swarmx_node *a, const wafer_swarmx_node *b) {
  return a->level == b->level && (a->index & 1) == 0 && b->index == a->index + 1;
}

/* A sum of two held neighbours in the buffer of the left one. */
static void join(wafer_swarmx *s, uint32_t left) {
  wafer_swarmx_node *a = &s->held[left], *b = a + 1;
  add_whole(s, writable(a), b->data);
  add_scalars(a->scalars, b->scalars);
  s->spare[s->spare_count++] = writable(b);
  s->held_count--;
  memmove(b, b + 1, (s->held_count - left - 1) * sizeof *b);
  a->level++;
  a->index >>= 1;
}

static void join_all(wafer_swarmx *s, uint32_t at) {
  for (;;) {
    if (at + 1 < s->held_count && siblings(&s->held[at], &s->held[at + 1]))
      join(s, at);
    else if (at > 0 && siblings(&s->held[at - 1], &s->held[at]))
      join(s, --at);
    else
      return;
  }
}

static wafer_status take_buffer(wafer_swarmx *s, float **out) {
  if (s->spare_count) return *out = s->spare[--s->spare_count], WAFER_OK;
  if (s->buffer_count == MOST_HELD)
    return wafer_fail(s->diag, (wafer_loc){0}, WAFER_INTERNAL,
                      "more than %d partial sums wait for their neighbours", MOST_HELD);
  store_block *made = &s->buffers[s->buffer_count];
  WAFER_TRY(store_take(s->diag, s->store, s->elements * sizeof(float), made));
  s->buffer_count++;
  *out = made->data;
  return WAFER_OK;
}

/* A place among the held nodes, data still to be filled in. */
static wafer_status insert(wafer_swarmx *s, const wafer_swarmx_node *node, uint32_t *at) {
  uint64_t first = node->index << node->level;
  float *data = NULL;
  for (*at = s->held_count; *at > 0; --*at)
    if (s->held[*at - 1].index << s->held[*at - 1].level < first) break;
  if (node->level > 62 || first + ((uint64_t)1 << node->level) > s->leaves)
    return wafer_fail(s->diag, (wafer_loc){0}, WAFER_INTERNAL,
                      "a partial sum begins at micro-batch %" PRIu64 " of %" PRIu64, first,
                      s->leaves);
  WAFER_TRY(take_buffer(s, &data));
  wafer_swarmx_node *slot = &s->held[*at];
  memmove(slot + 1, slot, (s->held_count++ - *at) * sizeof *slot);
  *slot = *node;
  slot->data = data;
  return WAFER_OK;
}

wafer_status wafer_swarmx_add(wafer_swarmx *s, const wafer_swarmx_node *node) {
  uint32_t at;
  WAFER_TRY(insert(s, node, &at));
  memcpy(writable(&s->held[at]), node->data, s->elements * sizeof(float));
  join_all(s, at);
  return WAFER_OK;
}

/* A piece as dense f32 at `to`; returns its end. */
static float *unpack(const wafer_view *piece, float *to) {
  int64_t count = 0;
  (void)wafer_shape_elements(&piece->shape, &count);
  if (piece->dtype == WAFER_DTYPE_f32) return wafer_view_pack(piece, to), to + count;
  /* Narrower ones are packed at the end of their room, then widened from the front. */
  char *packed = (char *)(to + count) - (size_t)count * wafer_dtype_bytes(piece->dtype);
  wafer_view_pack(piece, packed);
  for (int64_t i = 0; i < count; i++) to[i] = (float)wafer_element_f64(piece->dtype, packed, i);
  return to + count;
}

static wafer_status check_pieces(const wafer_swarmx *s, const wafer_view *pieces, uint32_t count) {
  uint64_t sum = 0;
  bool narrow = true;
  for (uint32_t i = 0; i < count; i++) {
    int64_t elements = 0;
    narrow &= wafer_dtype_is_float(pieces[i].dtype) && wafer_dtype_bytes(pieces[i].dtype) <= 4;
    narrow &= wafer_shape_elements(&pieces[i].shape, &elements);
    sum += (uint64_t)elements;
  }
  if (narrow && sum == s->elements) return WAFER_OK;
  return wafer_fail(s->diag, (wafer_loc){0}, WAFER_INTERNAL,
                    "gradients are not %" PRIu64 " floats of at most 32 bits", s->elements);
}

wafer_status wafer_swarmx_add_leaf(wafer_swarmx *s, uint64_t leaf, const wafer_view *pieces,
                                   uint32_t count, const double *scalars) {
  wafer_swarmx_node node = {.index = leaf};
  uint32_t at;
  memcpy(node.scalars, scalars, sizeof node.scalars);
  WAFER_TRY(check_pieces(s, pieces, count));
  WAFER_TRY(insert(s, &node, &at));
  float *to = writable(&s->held[at]);
  for (uint32_t i = 0; i < count; i++) to = unpack(&pieces[i], to);
  join_all(s, at);
  return WAFER_OK;
}

uint32_t wafer_swarmx_held(const wafer_swarmx *s, const wafer_swarmx_node **out) {
  *out = s->held;
  return s->held_count;
}

/* What is held now covers the leaves from left to right in falling levels; a node without a right
 * sibling is its own parent, so the rightmost two are joined first. */
wafer_status wafer_swarmx_finish(wafer_swarmx *s, const float **sum, const double **scalars) {
  uint64_t covered = 0;
  for (uint32_t i = 0; i < s->held_count; i++) covered += (uint64_t)1 << s->held[i].level;
  if (covered != s->leaves || covered == 0)
    return wafer_fail(s->diag, (wafer_loc){0}, WAFER_INTERNAL,
                      "%" PRIu64 " of %" PRIu64 " micro-batches came to SwarmX", covered,
                      s->leaves);
  while (s->held_count > 1) join(s, s->held_count - 2);
  *sum = s->held[0].data;
  *scalars = s->held[0].scalars;
  return WAFER_OK;
}
