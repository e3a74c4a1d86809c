/* Life of a process's part of a run: what it keeps, and who keeps the rest. */
#include "train_local.h"

#include <stdlib.h>
#include <string.h>

wafer_status local_no_memory(const local *l) {
  return wafer_fail(l->about.diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory for training");
}

size_t local_bytes(const local *l, uint32_t place) {
  return wafer_tensor_bytes(l->parameters[place].dtype, &l->parameters[place].shape);
}

/* ---- places ---- */

static bool allocate(local *l) {
  size_t n = (size_t)l->about.parameter_count + 1;
  l->parameters = calloc(n, sizeof *l->parameters);
  l->parameter = calloc(n, sizeof *l->parameter);
  l->place = calloc(n, sizeof *l->place);
  l->first = calloc((size_t)l->rank_count + 1, sizeof *l->first);
  l->offset = calloc(n, sizeof *l->offset);
  l->value = calloc(n, sizeof *l->value);
  l->pieces = calloc(n, sizeof *l->pieces);
  l->squares = calloc(n, sizeof *l->squares);
  l->about_weights = calloc(n, sizeof *l->about_weights);
  return l->parameters && l->parameter && l->place && l->first && l->offset && l->value &&
         l->pieces && l->squares && l->about_weights;
}

/* Gradients travel as f32, those of a sparse weight with the places of its elements. */
static wafer_step_weight weight_of(const local *l, const wafer_parameter *p, uint32_t server) {
  uint64_t sum = wafer_tensor_bytes(WAFER_DTYPE_f32, &p->shape), nonzeros = 0;
  if (p->sparse && p->initial) {
    for (uint64_t i = 0; i < sum / 4; i++)
      nonzeros += wafer_element_f64(p->dtype, p->initial, (int64_t)i) != 0;
    const wafer_type type = {WAFER_DTYPE_f32, p->shape};
    sum = wafer_sparse_words(&type, WAFER_DTYPE_f32, nonzeros) * WAFER_WAVELET_BYTES;
  }
  uint64_t state = wafer_memoryx_bytes_of(&l->about.memoryx.optimizer, p);
  return (wafer_step_weight){sum, 2 * state + sum, server};
}

static void put(local *l, uint32_t place, uint32_t parameter, uint32_t server) {
  int64_t elements = 0;
  l->parameters[place] = l->about.parameters[parameter];
  l->about_weights[place] = weight_of(l, &l->parameters[place], server);
  l->parameter[place] = parameter;
  l->place[parameter] = place;
  (void)wafer_shape_elements(&l->parameters[place].shape, &elements);
  l->offset[place + 1] = l->offset[place] + (uint64_t)elements;
}

/* Server s is rank s % P's. */
static wafer_status settle_places(local *l) {
  uint32_t count = l->about.parameter_count, place = 0;
  const wafer_memoryx_options *m = &l->about.memoryx;
  uint32_t *server = calloc((size_t)count + 1, sizeof *server);
  if (!server || !allocate(l)) return free(server), local_no_memory(l);
  wafer_status status = wafer_memoryx_assign(m, l->about.parameters, count, server);
  for (uint32_t r = 0; r < l->rank_count; r++) {
    for (uint32_t i = 0; i < count; i++)
      if (server[i] % l->rank_count == r) put(l, place++, i, server[i]);
    l->first[r + 1] = place;
  }
  free(server);
  return status;
}

/* Room for what this rank's servers do not have. */
static wafer_status settle_values(local *l) {
  uint32_t from = l->first[l->rank], to = l->first[l->rank + 1];
  size_t bytes = 0;
  for (uint32_t p = 0; p < l->about.parameter_count; p++)
    if (p < from || p >= to) bytes += (local_bytes(l, p) + 63) / 64 * 64;
  if (bytes) WAFER_TRY(store_take(l->about.diag, l->about.memoryx.store, bytes, &l->weights));
  char *next = l->weights.data;
  for (uint32_t p = 0; p < l->about.parameter_count; p++)
    if (p >= from && p < to) {
      l->value[p] = (void *)(uintptr_t)wafer_memoryx_weight(l->memoryx, p - from);
    } else {
      l->value[p] = next;
      next += (local_bytes(l, p) + 63) / 64 * 64;
    }
  return WAFER_OK;
}

static wafer_status open_memoryx(local *l) {
  wafer_memoryx_options o = l->about.memoryx;
  uint32_t from = l->first[l->rank], count = l->first[l->rank + 1] - from;
  uint32_t servers = o.servers ? o.servers : 1;
  o.servers = servers / l->rank_count + (l->rank < servers % l->rank_count);
  return wafer_memoryx_create(&o, l->parameters + from, count, &l->memoryx);
}

/* ---- the rest ---- */

static wafer_status bind(const local *l, const wafer_system *system) {
  for (uint32_t p = 0; system->bind && p < l->about.parameter_count; p++)
    WAFER_TRY(system->bind(system->self, l->parameter[p], l->value[p]));
  return WAFER_OK;
}

static wafer_status open_feeds(local *l) {
  const wafer_local *a = &l->about;
  wafer_feed_options o = {.fields = a->fields, .diag = a->diag, .seed = a->seed};
  if (a->training.run) {
    o.dataset = a->data;
    o.micro_batch = a->micro_batch;
    o.shuffle = a->shuffle;
    WAFER_TRY(wafer_feed_create(&o, &l->feed));
  }
  if (!a->eval_data) return WAFER_OK;
  o.dataset = a->eval_data;
  o.shuffle = false;
  o.micro_batch = a->eval_micro_batch;
  WAFER_TRY(wafer_feed_create(&o, &l->eval_feed));
  o.micro_batch = (uint32_t)(wafer_dataset_samples(a->eval_data) % a->eval_micro_batch);
  return o.micro_batch ? wafer_feed_create(&o, &l->rest_feed) : WAFER_OK;
}

static wafer_status open_sums(local *l) {
  const wafer_memoryx_options *m = &l->about.memoryx;
  const wafer_diag *diag = l->about.diag;
  uint64_t all = l->offset[l->about.parameter_count];
  uint64_t own = l->offset[l->first[l->rank + 1]] - l->offset[l->first[l->rank]];
  WAFER_TRY(wafer_swarmx_create(diag, all, m->store, m->threads, &l->root));
  if (l->rank_count > 1) {
    WAFER_TRY(store_take(diag, m->store, all * sizeof(float), &l->incoming));
    WAFER_TRY(store_take(diag, m->store, own * sizeof(float), &l->mine));
  }
  if (l->about.systems == 1) return WAFER_OK;
  return wafer_swarmx_create(diag, all, m->store, m->threads, &l->partial);
}

static wafer_status open_all(local *l) {
  WAFER_TRY(settle_places(l));
  WAFER_TRY(open_memoryx(l));
  WAFER_TRY(settle_values(l));
  WAFER_TRY(local_share(l));
  WAFER_TRY(bind(l, &l->about.training));
  WAFER_TRY(bind(l, &l->about.evaluation));
  WAFER_TRY(bind(l, &l->about.rest));
  WAFER_TRY(open_feeds(l));
  return open_sums(l);
}

static void release(local *l) {
  void *arrays[] = {l->parameters, l->parameter, l->place,  l->first, l->offset,       l->value,
                    l->pieces,     l->squares,   l->states, l->log,   l->about_weights};
  while (l->state_count) store_release(&l->states[--l->state_count]);
  store_release(&l->weights);
  store_release(&l->mine);
  store_release(&l->incoming);
  for (size_t i = 0; i < WAFER_COUNT(arrays); i++) free(arrays[i]);
  free(l);
}

static void local_destroy(void *self) {
  local *l = self;
  wafer_system *systems[] = {&l->about.training, &l->about.evaluation, &l->about.rest};
  for (size_t i = 0; i < WAFER_COUNT(systems); i++)
    if (systems[i]->destroy) systems[i]->destroy(systems[i]->self);
  wafer_feed_destroy(l->feed);
  wafer_feed_destroy(l->eval_feed);
  wafer_feed_destroy(l->rest_feed);
  wafer_swarmx_destroy(l->root);
  wafer_swarmx_destroy(l->partial);
  wafer_memoryx_destroy(l->memoryx);
  release(l);
}

wafer_status wafer_transport_local(const wafer_local *about, wafer_transport *out) {
  local *l = calloc(1, sizeof *l);
  *out = (wafer_transport){0};
  if (!l) return wafer_fail(about->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  l->about = *about;
  l->rank = about->ranks.rank;
  l->rank_count = about->ranks.count ? about->ranks.count : 1;
  if (!l->about.systems) l->about.systems = 1;
  wafer_status status = open_all(l);
  if (status != WAFER_OK) return local_destroy(l), status;
  *out = local_transport;
  out->self = l;
  out->destroy = local_destroy;
  return WAFER_OK;
}
