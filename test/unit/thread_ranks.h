/* Ranks that are threads: what MPI gives to processes, for tests. */
#ifndef TEST_UNIT_THREAD_RANKS_H
#define TEST_UNIT_THREAD_RANKS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/ranks.h"

enum { MOST_RANKS = 8 };

typedef struct letter {
  struct letter *next;
  size_t bytes;
  char data[];
} letter;

typedef struct post {
  pthread_mutex_t lock;
  pthread_cond_t news;
  letter *first[MOST_RANKS][MOST_RANKS]; /* from, to */
  struct post_box {
    struct post *post;
    uint32_t rank;
  } box[MOST_RANKS];
} post;

static wafer_status post_send(void *self, uint32_t to, const void *data, size_t bytes) {
  struct post_box *box = self;
  letter *l = malloc(sizeof *l + bytes), **end;
  if (!l) return WAFER_NO_MEMORY;
  *l = (letter){.bytes = bytes};
  memcpy(l->data, data, bytes);
  pthread_mutex_lock(&box->post->lock);
  for (end = &box->post->first[box->rank][to]; *end; end = &(*end)->next);
  *end = l;
  pthread_cond_broadcast(&box->post->news);
  pthread_mutex_unlock(&box->post->lock);
  return WAFER_OK;
}

/* INTERNAL: the message has another length. */
static wafer_status post_receive(void *self, uint32_t from, void *data, size_t bytes) {
  struct post_box *box = self;
  letter **first = &box->post->first[from][box->rank];
  pthread_mutex_lock(&box->post->lock);
  while (!*first) pthread_cond_wait(&box->post->news, &box->post->lock);
  letter *l = *first;
  *first = l->next;
  pthread_mutex_unlock(&box->post->lock);
  bool fits = l->bytes == bytes;
  if (fits) memcpy(data, l->data, bytes);
  free(l);
  return fits ? WAFER_OK : WAFER_INTERNAL;
}

static inline void post_open(post *p, uint32_t count, wafer_ranks *out) {
  *p = (post){0};
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->news, NULL);
  for (uint32_t i = 0; i < count; i++) {
    p->box[i] = (struct post_box){p, i};
    out[i] = (wafer_ranks){.self = &p->box[i],
                           .rank = i,
                           .count = count,
                           .local_count = count,
                           .send = post_send,
                           .receive = post_receive};
  }
}

/* Whether every message was taken. */
static inline bool post_close(post *p) {
  bool empty = true;
  for (int i = 0; i < MOST_RANKS; i++)
    for (int k = 0; k < MOST_RANKS; k++) empty &= !p->first[i][k];
  pthread_cond_destroy(&p->news);
  pthread_mutex_destroy(&p->lock);
  return empty;
}

#endif
