#include "wafer/memoryx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer_rules.h"
#include "store.h"
#include "wafer/file.h"

#define PIECE ((uint64_t)1 << 16) /* elements that a thread takes; results of sums depend on it */
#define ALIGNMENT 64u

/* A parameter on its server. */
typedef struct resident {
  wafer_parameter about;
  uint32_t server, slot_count;
  uint64_t elements, offset, first_piece; /* in the gradient vector; among all pieces */
  rule_slot slots[RULE_SLOTS];
  float *master, *state[RULE_SLOTS];
  void *value; /* of the parameter's type; the master itself for f32 */
} resident;

struct wafer_memoryx {
  const wafer_diag *diag;
  wafer_optimizer optimizer;
  thread_pool *pool;
  uint32_t count, server_count, state_count;
  resident *residents;
  store_block *servers;
  uint64_t elements, pieces;
  double *squares; /* per piece */
  /* Of the call under way. */
  const float *gradients;
  rule_step step;
  float share;
};

/* ---- layout ---- */

static wafer_status no_memory(const wafer_diag *diag) {
  return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory for the weight servers");
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t elements_of(const wafer_shape *shape) {
  int64_t count = 0;
  (void)wafer_shape_elements(shape, &count); /* the caller's shapes have passed it */
  return (uint64_t)count;
}

static bool is_f32(const resident *r) {
  return r->about.dtype == WAFER_DTYPE_f32;
}

static uint32_t slots_of(const wafer_optimizer *optimizer, const wafer_parameter *p,
                         rule_slot *slots) {
  return p->statistic ? 0 : rule_slots(optimizer->kind, &p->shape, slots);
}

uint64_t wafer_memoryx_bytes_of(const wafer_optimizer *optimizer, const wafer_parameter *p) {
  rule_slot slots[RULE_SLOTS];
  uint64_t elements = elements_of(&p->shape), bytes = aligned(4 * elements);
  uint32_t count = slots_of(optimizer, p, slots);
  if (p->dtype != WAFER_DTYPE_f32) bytes += aligned(wafer_dtype_bytes(p->dtype) * elements);
  for (uint32_t i = 0; i < count; i++) bytes += aligned(4 * elements_of(&slots[i].shape));
  return bytes;
}

wafer_status wafer_memoryx_assign(const wafer_memoryx_options *options,
                                  const wafer_parameter *parameters, uint32_t count,
                                  uint32_t *server) {
  uint32_t servers = options->servers ? options->servers : 1;
  uint64_t *load = calloc(servers, sizeof *load);
  if (!load) return no_memory(options->diag);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t best = 0;
    for (uint32_t s = 1; s < servers; s++)
      if (load[s] < load[best]) best = s;
    server[i] = best;
    load[best] += wafer_memoryx_bytes_of(&options->optimizer, &parameters[i]);
  }
  free(load);
  return WAFER_OK;
}

static wafer_status describe(wafer_memoryx *m, const wafer_parameter *parameters,
                             const uint32_t *server) {
  for (uint32_t i = 0; i < m->count; i++) {
    resident *r = &m->residents[i];
    r->about = parameters[i];
    wafer_dtype dtype = r->about.dtype;
    if (dtype != WAFER_DTYPE_f32 && dtype != WAFER_DTYPE_f16 && dtype != WAFER_DTYPE_bf16)
      return wafer_fail(
          m->diag, (wafer_loc){0}, WAFER_UNSUPPORTED,
          "weight '%s' of type %s cannot be trained, f32, f16 and bf16 can; freeze it",
          r->about.name, wafer_dtype_name(dtype));
    r->elements = elements_of(&r->about.shape);
    r->offset = m->elements;
    r->first_piece = m->pieces;
    r->slot_count = slots_of(&m->optimizer, &r->about, r->slots);
    r->server = server[i];
    m->servers[r->server].bytes += wafer_memoryx_bytes_of(&m->optimizer, &r->about);
    m->state_count += r->slot_count + !is_f32(r);
    m->elements += r->elements;
    m->pieces += (r->elements + PIECE - 1) / PIECE;
  }
  return WAFER_OK;
}

static char *cut(char **next, uint64_t bytes) {
  char *at = *next;
  *next += aligned(bytes);
  return at;
}

static void settle(resident *r, char **next) {
  r->master = (float *)cut(next, 4 * r->elements);
  r->value =
      is_f32(r) ? (void *)r->master : cut(next, wafer_dtype_bytes(r->about.dtype) * r->elements);
  for (uint32_t i = 0; i < r->slot_count; i++)
    r->state[i] = (float *)cut(next, 4 * elements_of(&r->slots[i].shape));
}

static wafer_status take_servers(wafer_memoryx *m, const char *store) {
  if (store) WAFER_TRY(wafer_folder_make(m->diag, store));
  char **next = calloc(m->server_count, sizeof *next);
  wafer_status status = next ? WAFER_OK : WAFER_NO_MEMORY;
  for (uint32_t i = 0; i < m->server_count && status == WAFER_OK; i++) {
    size_t bytes = m->servers[i].bytes;
    m->servers[i] = (store_block){0};
    status = store_take(m->diag, store, bytes, &m->servers[i]);
    next[i] = m->servers[i].data;
  }
  for (uint32_t i = 0; i < m->count && status == WAFER_OK; i++) {
    resident *r = &m->residents[i];
    settle(r, &next[r->server]);
    if (r->about.initial) wafer_memoryx_set(m, i, r->about.initial);
  }
  free(next);
  return status;
}

static wafer_status build(wafer_memoryx *m, const wafer_memoryx_options *o,
                          const wafer_parameter *parameters) {
  m->pool = thread_pool_create(o->threads);
  m->residents = calloc(m->count ? m->count : 1, sizeof *m->residents);
  m->servers = calloc(m->server_count, sizeof *m->servers);
  if (!m->pool || !m->residents || !m->servers) return no_memory(m->diag);
  uint32_t *server = calloc((size_t)m->count + 1, sizeof *server);
  wafer_status status =
      server ? wafer_memoryx_assign(o, parameters, m->count, server) : no_memory(m->diag);
  if (status == WAFER_OK) status = describe(m, parameters, server);
  free(server);
  if (status == WAFER_OK && !(m->squares = calloc(m->pieces + 1, sizeof *m->squares)))
    status = no_memory(m->diag);
  if (status == WAFER_OK) return take_servers(m, o->store);
  for (uint32_t i = 0; i < m->server_count; i++) m->servers[i] = (store_block){0};
  return status;
}

wafer_status wafer_memoryx_create(const wafer_memoryx_options *options,
                                  const wafer_parameter *parameters, uint32_t count,
                                  wafer_memoryx **out) {
  *out = NULL;
  wafer_memoryx *m = calloc(1, sizeof *m);
  if (!m) return no_memory(options->diag);
  *m = (wafer_memoryx){.diag = options->diag,
                       .optimizer = options->optimizer,
                       .count = count,
                       .server_count = options->servers ? options->servers : 1};
  wafer_status status = build(m, options, parameters);
  if (status == WAFER_OK)
    *out = m;
  else
    wafer_memoryx_destroy(m);
  return status;
}

void wafer_memoryx_destroy(wafer_memoryx *m) {
  if (!m) return;
  for (uint32_t i = 0; m->servers && i < m->server_count; i++)
    if (m->servers[i].data) store_release(&m->servers[i]);
  thread_pool_destroy(m->pool);
  free(m->squares);
  free(m->servers);
  free(m->residents);
  free(m);
}

/* ---- looking ---- */

const void *wafer_memoryx_weight(const wafer_memoryx *m, uint32_t parameter) {
  return m->residents[parameter].value;
}

uint64_t wafer_memoryx_offset(const wafer_memoryx *m, uint32_t parameter) {
  return parameter < m->count ? m->residents[parameter].offset : m->elements;
}

uint32_t wafer_memoryx_state_count(const wafer_memoryx *m) {
  return m->state_count;
}

wafer_memoryx_state wafer_memoryx_state_at(const wafer_memoryx *m, uint32_t index) {
  uint32_t p = 0;
  for (;; p++) {
    uint32_t own = m->residents[p].slot_count + !is_f32(&m->residents[p]);
    if (index < own) break;
    index -= own;
  }
  const resident *r = &m->residents[p];
  if (index == r->slot_count) return (wafer_memoryx_state){p, "master", r->about.shape, r->master};
  return (wafer_memoryx_state){p, r->slots[index].suffix, r->slots[index].shape, r->state[index]};
}

/* ---- pieces ---- */

/* The parameter that a piece belongs to: the last one that begins at or before it and has any. */
static resident *of_piece(const wafer_memoryx *m, uint64_t piece, uint64_t *from, uint64_t *n) {
  uint32_t low = 0, high = m->count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (m->residents[middle].first_piece <= piece)
      low = middle;
    else
      high = middle;
  }
  resident *r = &m->residents[low];
  *from = (piece - r->first_piece) * PIECE;
  *n = r->elements - *from < PIECE ? r->elements - *from : PIECE;
  return r;
}

/* Zeros of a sparse weight's first value. */
static void keep_zeros(const resident *r, uint64_t from, uint64_t n) {
  if (!r->about.sparse || !r->about.initial) return;
  for (uint64_t i = from; i < from + n; i++)
    if (wafer_element_f64(r->about.dtype, r->about.initial, (int64_t)i) == 0) r->master[i] = 0;
}

/* The value that the wafer sees of master elements [from, from + n). */
static void narrow(const resident *r, uint64_t from, uint64_t n) {
  uint16_t *to = r->value;
  if (is_f32(r)) return;
  bool half = r->about.dtype == WAFER_DTYPE_f16;
  for (uint64_t i = from; i < from + n; i++)
    to[i] = half ? wafer_f16_of_f32(r->master[i]) : wafer_bf16_of_f32(r->master[i]);
}

void wafer_memoryx_set(wafer_memoryx *m, uint32_t parameter, const void *data) {
  resident *r = &m->residents[parameter];
  if (r->value != data) memcpy(r->value, data, wafer_dtype_bytes(r->about.dtype) * r->elements);
  for (uint64_t i = 0; !is_f32(r) && i < r->elements; i++)
    r->master[i] = (float)wafer_element_f64(r->about.dtype, data, (int64_t)i);
  keep_zeros(r, 0, r->elements);
  if (r->about.sparse) narrow(r, 0, r->elements);
}

static void square_piece(void *self, uint64_t piece) {
  wafer_memoryx *m = self;
  uint64_t from, n;
  const resident *r = of_piece(m, piece, &from, &n);
  m->squares[piece] = rule_squares(m->gradients + r->offset + from, n);
}

void wafer_memoryx_squares(wafer_memoryx *m, const float *gradients, double *squares) {
  m->gradients = gradients;
  store_each(m->pool, m->pieces, square_piece, m);
  for (uint32_t p = 0; p < m->count; p++) {
    const resident *r = &m->residents[p];
    uint64_t end = p + 1 < m->count ? m->residents[p + 1].first_piece : m->pieces;
    squares[p] = 0;
    for (uint64_t i = r->first_piece; i < end && !r->about.statistic; i++)
      squares[p] += m->squares[i];
  }
}

/* What the micro-batches made of it, on the average. */
static void keep_statistic(const wafer_memoryx *m, const resident *r, uint64_t from, uint64_t n) {
  const float *sum = m->gradients + r->offset;
  for (uint64_t i = from; i < from + n; i++) r->master[i] = sum[i] * m->share;
}

static void update_piece(void *self, uint64_t piece) {
  wafer_memoryx *m = self;
  uint64_t from, n;
  resident *r = of_piece(m, piece, &from, &n);
  float *slots[RULE_SLOTS] = {NULL};
  for (uint32_t i = 0; i < r->slot_count; i++) slots[i] = r->state[i] + from;
  if (r->about.statistic)
    keep_statistic(m, r, from, n);
  else
    rule_apply(&m->step, r->master + from, m->gradients + r->offset + from, slots, n);
  keep_zeros(r, from, n);
  narrow(r, from, n);
}

static void update_whole(void *self, uint64_t parameter) {
  wafer_memoryx *m = self;
  resident *r = &m->residents[parameter];
  if (r->about.statistic)
    keep_statistic(m, r, 0, r->elements);
  else
    rule_factored(&m->step, &r->about.shape, r->master, m->gradients + r->offset, r->state);
  keep_zeros(r, 0, r->elements);
  narrow(r, 0, r->elements);
}

void wafer_memoryx_update(wafer_memoryx *m, const wafer_update *update, const float *gradients) {
  m->gradients = gradients;
  m->share = (float)update->share;
  m->step = rule_step_of(&m->optimizer, update->number, update->lr, update->scale);
  if (rule_elementwise(m->optimizer.kind))
    store_each(m->pool, m->pieces, update_piece, m);
  else
    store_each(m->pool, m->count, update_whole, m);
}
