/* Programs of stages: memory and running. */
#include "exec.h"

#include <dnnl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

/* Aligned memory of a program, in a list. */
typedef struct exec_block {
  struct exec_block *next;
} exec_block;

static size_t aligned(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

wafer_status exec_no_memory(const exec_program *p) {
  return wafer_fail(p->diag, p->loc, WAFER_NO_MEMORY, "no memory left while preparing the run");
}

wafer_status exec_program_create(const wafer_diag *diag, exec_program **out) {
  *out = NULL;
  wafer_arena *arena = wafer_arena_create();
  exec_program *p = arena ? WAFER_NEW(arena, exec_program, 1) : NULL;
  if (!p) {
    wafer_arena_destroy(arena);
    return wafer_fail(diag, wafer_at_file(NULL), WAFER_NO_MEMORY,
                      "no memory left while preparing the run");
  }
  p->arena = arena;
  p->diag = diag;
  *out = p;
  return WAFER_OK;
}

void exec_program_destroy(exec_program *p) {
  if (!p) return;
  for (uint32_t i = 0; i < p->stage_count; i++)
    if (p->stages[i]->release) p->stages[i]->release(p->stages[i]);
  if (p->stream) dnnl_stream_destroy(p->stream);
  if (p->engine) dnnl_engine_destroy(p->engine);
  for (exec_block *b = p->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(p->memory);
  wafer_arena_destroy(p->arena);
}

void *exec_alloc(exec_program *p, size_t bytes) {
  if (bytes > SIZE_MAX - 2 * ALIGN) return NULL;
  exec_block *block = aligned_alloc(ALIGN, ALIGN + aligned(bytes));
  if (!block) return NULL;
  block->next = p->blocks;
  p->blocks = block;
  p->constant_bytes += bytes;
  return memset((char *)block + ALIGN, 0, bytes);
}

void exec_slabs(const exec_program *p, exec_stage *stage, const exec_tensor *result,
                uint32_t most) {
  uint32_t outer = exec_outer_dim(result);
  stage->rows = result->shape.rank ? result->shape.dims[outer] : 1;
  stage->row = result->shape.rank ? result->strides[outer] : 1;
  int64_t slabs = p->slabs < most ? p->slabs : most;
  if (slabs > stage->rows) slabs = stage->rows;
  if (slabs > THREADS_MOST_TILES) slabs = THREADS_MOST_TILES;
  stage->slabs = slabs < 1 ? 1 : (uint32_t)slabs;
}

wafer_status exec_stage_add(exec_program *p, exec_stage *stage, exec_op *op, uint32_t most_slabs) {
  exec_slabs(p, stage, op->result, most_slabs);
  stage->storage = p->storage;
  if (!WAFER_GROW(p->arena, p->stages, p->stage_count, p->stage_room, 64)) {
    if (stage->release) stage->release(stage);
    return exec_no_memory(p);
  }
  p->stages[p->stage_count++] = stage;
  for (uint32_t i = 0; op->node && i < op->node->operand_count; i++) exec_use(p, op->operands[i]);
  exec_use(p, op->result);
  op->stage = stage;
  return WAFER_OK;
}

/* --- memory: buffers whose lifetimes overlap lie apart; first fit in the order of first use */

typedef struct placed {
  size_t offset, end;
  uint32_t last;
} placed;

static bool crosses(const exec_buffer *b, uint32_t boundary_count, const uint32_t *boundaries) {
  for (uint32_t i = 0; i < boundary_count; i++)
    if (b->first < boundaries[i] && b->last >= boundaries[i]) return true;
  return false;
}

/* Buffers that exist per sample live through whole segments between boundaries. */
static void segments_of(const exec_buffer *b, uint32_t boundary_count, const uint32_t *boundaries,
                        uint32_t stage_count, uint32_t *first, uint32_t *last) {
  *first = 0;
  *last = stage_count;
  for (uint32_t i = 0; i < boundary_count; i++) {
    if (boundaries[i] <= b->first) *first = boundaries[i];
    if (boundaries[i] > b->last && *last == stage_count) *last = boundaries[i] - 1;
  }
}

typedef struct sort_key {
  uint32_t first, last, buffer;
} sort_key;

static int by_first_use(const void *a, const void *b) {
  const sort_key *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->buffer < y->buffer ? -1 : 1;
}

/* `live` is sorted by offset. Puts `bytes` in the first gap and returns its offset. */
static size_t place(placed *live, size_t *live_count, uint32_t first, uint32_t last, size_t bytes) {
  size_t kept = 0;
  for (size_t i = 0; i < *live_count; i++)
    if (live[i].last >= first) live[kept++] = live[i];
  size_t at = 0, offset = 0;
  while (at < kept && live[at].offset - offset < bytes) offset = live[at++].end;
  memmove(&live[at + 1], &live[at], (kept - at) * sizeof *live);
  live[at] = (placed){.offset = offset, .end = offset + bytes, .last = last};
  *live_count = kept + 1;
  return offset;
}

static size_t place_all(exec_program *p, uint32_t group, sort_key *keys, size_t count,
                        placed *live) {
  size_t live_count = 0, top = 0;
  qsort(keys, count, sizeof *keys, by_first_use);
  for (size_t i = 0; i < count; i++) {
    exec_buffer *b = &p->buffers[keys[i].buffer];
    size_t bytes = aligned(b->bytes ? b->bytes : 1), whole = b->stride ? bytes * group : bytes;
    b->offset = place(live, &live_count, keys[i].first, keys[i].last, whole);
    if (b->offset + whole > top) top = b->offset + whole;
  }
  return top;
}

static size_t lifetimes(exec_program *p, uint32_t group, uint32_t boundary_count,
                        const uint32_t *boundaries, sort_key *keys) {
  size_t count = 0;
  for (uint32_t i = 0; i < p->buffer_count; i++) {
    exec_buffer *b = &p->buffers[i];
    if (b->constant || b->outside || b->first > b->last) continue;
    sort_key *key = &keys[count++];
    *key = (sort_key){.first = b->first, .last = b->last, .buffer = i};
    bool per_sample = group > 1 && (b->per_sample || crosses(b, boundary_count, boundaries));
    b->stride = per_sample ? aligned(b->bytes ? b->bytes : 1) : 0;
    if (per_sample)
      segments_of(b, boundary_count, boundaries, p->stage_count, &key->first, &key->last);
  }
  return count;
}

static wafer_status plan_memory(exec_program *p, uint32_t group, uint32_t boundary_count,
                                const uint32_t *boundaries) {
  sort_key *keys = calloc((size_t)p->buffer_count + 1, sizeof *keys);
  placed *live = calloc((size_t)p->buffer_count + 1, sizeof *live);
  bool planned = keys && live;
  if (planned) {
    size_t count = lifetimes(p, group, boundary_count, boundaries, keys);
    p->memory_bytes = place_all(p, group, keys, count, live);
  }
  free(keys);
  free(live);
  free(p->memory);
  p->memory = planned ? aligned_alloc(ALIGN, p->memory_bytes + ALIGN) : NULL;
  return p->memory ? WAFER_OK : exec_no_memory(p);
}

static wafer_status make_scratch(exec_program *p, uint32_t threads) {
  size_t most = 0;
  for (uint32_t i = 0; i < p->stage_count; i++) {
    const exec_stage *s = p->stages[i];
    if (s->scratch > most) most = s->scratch;
    if (s->tail && exec_map_scratch(s->tail) > most) most = exec_map_scratch(s->tail);
  }
  p->frame.scratch = WAFER_NEW(p->arena, void *, threads);
  if (!p->frame.scratch) return exec_no_memory(p);
  for (uint32_t i = 0; i < threads; i++)
    if (!(p->frame.scratch[i] = exec_alloc(p, most + ALIGN))) return exec_no_memory(p);
  return WAFER_OK;
}

wafer_status exec_program_finish(exec_program *p, uint32_t threads, uint32_t group,
                                 uint32_t boundary_count, const uint32_t *boundaries) {
  WAFER_TRY(plan_memory(p, group, boundary_count, boundaries));
  if (!p->frame.scratch) WAFER_TRY(make_scratch(p, threads));
  if (!p->frame.address) p->frame.address = WAFER_NEW(p->arena, void *, p->buffer_count);
  if (!p->frame.address) return exec_no_memory(p);
  exec_program_select(p, 0);
  return WAFER_OK;
}

void exec_program_select(exec_program *p, uint32_t sample) {
  for (uint32_t i = 0; i < p->buffer_count; i++) {
    const exec_buffer *b = &p->buffers[i];
    p->frame.address[i] = b->constant || b->outside
                              ? (void *)(uintptr_t)b->constant
                              : (char *)p->memory + b->offset + sample * b->stride;
  }
}

/* --- running */

typedef struct stage_run {
  const exec_program *program;
  const exec_stage *stage;
  atomic_uint status;
} stage_run;

static void run_slab(void *self, uint32_t slab, uint32_t thread) {
  stage_run *run = self;
  const exec_stage *s = run->stage;
  const exec_frame *frame = &run->program->frame;
  wafer_status status = s->run(s, frame, slab, thread);
  if (status != WAFER_OK) {
    atomic_store(&run->status, status);
    return;
  }
  int64_t from, to;
  exec_slab(s, slab, &from, &to);
  if (s->tail) exec_map_run(s->tail, frame, from * s->row, to * s->row, frame->scratch[thread]);
  if (s->rounds)
    exec_round(s->rounds->type, s->storage, (float *)exec_data(frame, s->rounds) + from * s->row,
               (size_t)((to - from) * s->row));
}

static wafer_status stage_failed(const exec_program *p, const exec_stage *s, wafer_status status) {
  char text[160] = "the kernel failed";
  if (s->fault) snprintf(text, sizeof text, "%s", s->fault);
  if (s->tell) s->tell(s, &p->frame, text, sizeof text);
  return wafer_fail(p->diag, s->loc, status, "%s", text);
}

wafer_status exec_program_run(exec_program *p, thread_pool *pool, uint32_t first, uint32_t last) {
  int before = thread_enter();
  wafer_status status = WAFER_OK;
  thread_pool_series(pool, true);
  for (uint32_t i = first; i < last && status == WAFER_OK; i++) {
    stage_run run = {.program = p, .stage = p->stages[i]};
    thread_pool_run(pool, p->stages[i]->slabs, run_slab, &run);
    status = (wafer_status)atomic_load(&run.status);
    if (status != WAFER_OK) status = stage_failed(p, p->stages[i], status);
  }
  thread_pool_series(pool, false);
  thread_leave(before);
  return status;
}
