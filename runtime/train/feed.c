/* The activation server: one thread fills a ring of micro-batches ahead of the driver. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"

enum { SLOTS = 4 };

typedef enum slot_state { EMPTY, FULL, FAILED } slot_state;

/* A micro-batch; `number` of its first sample. What a failure said is repeated when it is taken. */
typedef struct slot {
  slot_state state;
  uint64_t number;
  const void *fields[DATASET_FIELDS];
} slot;

struct wafer_feed {
  wafer_feed_options about;
  wafer_gather gathers[DATASET_FIELDS];
  slot slots[SLOTS];
  uint64_t *samples; /* of the thread; the second half is the caller's */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool started, stop;
  uint64_t next;       /* number of the micro-batch that the thread makes next */
  uint32_t head, tail; /* counters of slots taken and made; modulo SLOTS */
  bool lent;           /* the caller reads the slot before head */
};

static uint32_t field_count(const wafer_feed *f) {
  return wafer_dataset_fields(f->about.dataset);
}

static wafer_status fill(const wafer_feed *f, slot *s, uint64_t *samples, const wafer_diag *diag) {
  for (uint32_t i = 0; i < f->about.micro_batch; i++)
    samples[i] = wafer_dataset_at(f->about.dataset, f->about.shuffle, f->about.seed, s->number + i);
  for (uint32_t i = 0; i < field_count(f); i++)
    WAFER_TRY(wafer_dataset_gather(f->about.dataset, diag, &f->gathers[i], samples,
                                   f->about.micro_batch, (void *)(uintptr_t)s->fields[i]));
  return WAFER_OK;
}

static void *serve(void *argument) {
  wafer_feed *f = argument;
  pthread_mutex_lock(&f->lock);
  for (;;) {
    while (!f->stop && f->tail - f->head + f->lent == SLOTS)
      pthread_cond_wait(&f->changed, &f->lock);
    if (f->stop) break;
    slot *s = &f->slots[f->tail % SLOTS];
    s->number = f->next;
    uint32_t tail = f->tail;
    pthread_mutex_unlock(&f->lock);
    wafer_status status = fill(f, s, f->samples, NULL);
    pthread_mutex_lock(&f->lock);
    if (f->tail == tail && f->next == s->number) { /* else the caller has jumped */
      s->state = status == WAFER_OK ? FULL : FAILED;
      f->tail++;
      f->next += f->about.micro_batch;
    }
    pthread_cond_broadcast(&f->changed);
  }
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

static bool take_memory(wafer_feed *f) {
  f->samples = calloc(f->about.micro_batch * 2, sizeof *f->samples);
  if (!f->samples) return false;
  for (uint32_t i = 0; i < field_count(f); i++) {
    wafer_shape shape = wafer_dataset_shape(f->about.dataset, i);
    size_t bytes = wafer_tensor_bytes(f->gathers[i].dtype, &shape) * f->about.micro_batch;
    for (uint32_t s = 0; s < SLOTS; s++)
      if (!(f->slots[s].fields[i] = malloc(bytes ? bytes : 1))) return false;
  }
  return true;
}

wafer_status wafer_feed_create(const wafer_feed_options *options, wafer_feed **out) {
  wafer_feed *f = *out = calloc(1, sizeof *f);
  if (f) {
    f->about = *options;
    memcpy(f->gathers, options->fields, field_count(f) * sizeof *f->gathers);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    if (take_memory(f)) return WAFER_OK;
  }
  wafer_feed_destroy(f);
  *out = NULL;
  return wafer_fail(options->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "out of memory for micro-batches of samples");
}

void wafer_feed_destroy(wafer_feed *f) {
  if (!f) return;
  if (f->started) {
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
  }
  for (uint32_t s = 0; s < SLOTS; s++)
    for (uint32_t i = 0; i < DATASET_FIELDS; i++) free((void *)(uintptr_t)f->slots[s].fields[i]);
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->lock);
  free(f->samples);
  free(f);
}

/* With the lock. What lies ahead is dropped; a micro-batch in the making is dropped by its maker.
 */
static void jump(wafer_feed *f, uint64_t number) {
  f->head = f->tail += 1; /* another counter: the maker sees that it is late */
  f->next = number;
  f->lent = false;
}

static wafer_status start(wafer_feed *f, uint64_t number) {
  f->next = number;
  if (pthread_create(&f->thread, NULL, serve, f) != 0)
    return wafer_fail(f->about.diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                      "out of threads for reading samples");
  f->started = true;
  return WAFER_OK;
}

wafer_status wafer_feed_take(wafer_feed *f, uint64_t number, const void *const **fields) {
  if (!f->started) WAFER_TRY(start(f, number));
  pthread_mutex_lock(&f->lock);
  f->lent = false;
  pthread_cond_broadcast(&f->changed);
  uint64_t ahead = f->head == f->tail ? f->next : f->slots[f->head % SLOTS].number;
  if (ahead != number) jump(f, number);
  pthread_cond_broadcast(&f->changed);
  while (f->head == f->tail) pthread_cond_wait(&f->changed, &f->lock);
  slot *s = &f->slots[f->head++ % SLOTS];
  f->lent = true;
  pthread_mutex_unlock(&f->lock);
  *fields = s->fields;
  return s->state == FULL ? WAFER_OK : fill(f, s, f->samples + f->about.micro_batch, f->about.diag);
}
