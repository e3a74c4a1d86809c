/* What a pipeline's functions of the wafer leave on its cores for each other. */
#include <stdlib.h>
#include <string.h>

#include "wafer/plan.h"

/* What a load step brings, and of which function. */
typedef struct brought {
  const wafer_plan *plan;
  const wafer_stream *stream;
  uint32_t function;
  bool stays; /* no phase of the function frees it */
} brought;

/* The same of one function, in the order of places: numbers of what is brought, equal where the
 * same weight comes to the same cores in the same parts and form. */
typedef struct kept {
  uint32_t place;
  bool stays;
  uint64_t words;
} kept;

typedef struct kept_list {
  uint32_t count;
  kept *at;
} kept_list;

struct wafer_loads {
  const wafer_plan *plan;
  kept_list *of; /* function */
};

/* ---- What is the same ---- */

#define KEY_WORDS (10 + 4 * WAFER_MAX_RANK)

/* Non-zeros lie in lists as the kernel wants them; NULL: all elements do. */
static const wafer_sparsity *form_of(const wafer_kernel *k, uint32_t value) {
  for (uint32_t i = 0; k && k->body.sparsity && i < k->body.input_count; i++)
    if (k->inputs[i] == value && k->body.sparsity[i].sparse) return &k->body.sparsity[i];
  return NULL;
}

static void put_key(const brought *b, uint64_t key[KEY_WORDS]) {
  const wafer_stream *s = b->stream;
  const wafer_value *v = &b->plan->values[s->value];
  const wafer_kernel *k = s->to_kernel == WAFER_NONE ? NULL : &b->plan->kernels[s->to_kernel];
  const wafer_sparsity *form = form_of(k, s->value);
  const wafer_layout *l = &s->to.layout;
  memset(key, 0, KEY_WORDS * sizeof *key);
  *key++ = v->weight;
  *key++ = v->type.dtype;
  *key++ = (uint64_t)s->to.rect.x << 32 | s->to.rect.y;
  *key++ = (uint64_t)s->to.rect.width << 32 | s->to.rect.height;
  *key++ = k ? k->replicas : 0;
  *key++ = form ? 1 + form->late_list : 0;
  *key++ = form ? form->nonzeros : 0;
  *key++ = form ? form->fullest : 0;
  *key++ = form ? form->filled : 0;
  *key++ = l->rank;
  for (uint32_t d = 0; d < l->rank; d++) {
    *key++ = (uint64_t)l->rows[d] << 32 | l->cols[d];
    *key++ = l->rows[d] > 1 ? l->row_stride[d] : 0;
    *key++ = l->cols[d] > 1 ? l->col_stride[d] : 0;
    *key++ = l->order[d];
  }
}

static int by_key(const brought *a, const brought *b) {
  uint64_t left[KEY_WORDS], right[KEY_WORDS];
  put_key(a, left);
  put_key(b, right);
  return memcmp(left, right, sizeof left);
}

static int by_place(const void *left, const void *right) {
  const brought *a = left, *b = right;
  int order = by_key(a, b);
  return order ? order : (a->function > b->function) - (a->function < b->function);
}

/* ---- What there is ---- */

static bool is_freed(const wafer_plan *plan, const wafer_function *f, uint32_t value) {
  for (uint32_t s = 0; s < f->step_count; s++) {
    const wafer_phase *phase = &plan->phases[f->steps[s].phase];
    for (uint32_t i = 0; i < phase->free_count; i++)
      if (phase->frees[i] == value) return true;
  }
  return false;
}

/* What functions of the wafer load, appended to `to`, or counted where that is NULL. */
static size_t list_loads(const wafer_plan *plan, brought *to) {
  size_t count = 0;
  for (uint32_t f = 0; plan->mode == WAFER_MODE_pipelined && f < plan->function_count; f++) {
    const wafer_function *function = &plan->functions[f];
    for (uint32_t i = 0; i < function->step_count; i++) {
      if (function->steps[i].kind != WAFER_STEP_load) continue;
      const wafer_phase *phase = &plan->phases[function->steps[i].phase];
      for (uint32_t a = 0; a < phase->action_count; a++) {
        const wafer_stream *s = &plan->streams[phase->actions[a].index];
        if (phase->actions[a].kind != WAFER_ACTION_stream || s->from.where != WAFER_AT_memoryx)
          continue;
        if (to) to[count] = (brought){plan, s, f, !is_freed(plan, function, s->value)};
        count++;
      }
    }
  }
  return count;
}

const wafer_loads *wafer_loads_of(wafer_arena *arena, const wafer_plan *plan) {
  const size_t count = list_loads(plan, NULL);
  wafer_loads *made = WAFER_NEW(arena, wafer_loads, 1);
  brought *all = calloc(count + 1, sizeof *all);
  kept *at = WAFER_NEW(arena, kept, count);
  kept_list *of = WAFER_NEW(arena, kept_list, plan->function_count);
  if (!made || !all || !at || !of) {
    free(all);
    return NULL;
  }
  *made = (wafer_loads){plan, of};
  list_loads(plan, all);
  for (size_t i = 0; i < count; i++) of[all[i].function].count++;
  for (uint32_t f = 0; f < plan->function_count; f++) {
    of[f].at = at;
    at += of[f].count;
    of[f].count = 0;
  }
  qsort(all, count, sizeof *all, by_place);
  for (uint32_t i = 0, place = 0; i < count; i++) {
    kept_list *own = &of[all[i].function];
    if (i && by_key(&all[i - 1], &all[i])) place++;
    own->at[own->count++] = (kept){place, all[i].stays, all[i].stream->words};
  }
  free(all);
  return made;
}

uint64_t wafer_loads_cycles(const wafer_loads *loads, uint32_t function, uint32_t last) {
  const kept_list *own = &loads->of[function], none = {0};
  const kept_list *there = last == WAFER_NONE ? &none : &loads->of[last];
  const wafer_machine *m = loads->plan->machine;
  uint64_t bytes = 0;
  for (uint32_t i = 0, j = 0; i < own->count; i++) {
    while (j < there->count && (there->at[j].place < own->at[i].place || !there->at[j].stays)) j++;
    if (j == there->count || there->at[j].place != own->at[i].place)
      bytes += own->at[i].words * WAFER_WAVELET_BYTES;
  }
  return wafer_machine_transfer_cycles(m, bytes, m->memoryx_bytes_per_second);
}
