/* Weights and optimizer state as tables, out of all servers and back. */
#include <stdlib.h>
#include <string.h>

#include "train_local.h"

/* A tensor of state, as its server announces it. */
typedef struct note {
  uint32_t place;
  char suffix[12];
  wafer_shape shape;
  const float *data; /* of this rank */
} note;

static size_t note_bytes(const note *n) {
  return wafer_tensor_bytes(WAFER_DTYPE_f32, &n->shape);
}

/* Those of this rank's servers, in order of places; malloc'ed. */
static note *own_notes(const local *l, uint32_t *count) {
  *count = wafer_memoryx_state_count(l->memoryx);
  note *notes = calloc((size_t)*count + 1, sizeof *notes);
  for (uint32_t i = 0; notes && i < *count; i++) {
    wafer_memoryx_state s = wafer_memoryx_state_at(l->memoryx, i);
    notes[i] = (note){.place = l->first[l->rank] + s.parameter, .shape = s.shape, .data = s.data};
    strncpy(notes[i].suffix, s.suffix, sizeof notes[i].suffix - 1);
  }
  return notes;
}

static wafer_status send_notes(const local *l, const note *notes, uint32_t count) {
  WAFER_TRY(local_send(l, 0, &count, sizeof count));
  return local_send(l, 0, notes, count * sizeof *notes);
}

static wafer_status receive_notes(const local *l, uint32_t from, note **notes, uint32_t *count) {
  WAFER_TRY(local_receive(l, from, count, sizeof *count));
  *notes = calloc((size_t)*count + 1, sizeof **notes);
  if (!*notes) return local_no_memory(l);
  return local_receive(l, from, *notes, *count * sizeof **notes);
}

static const char *state_name(wafer_arena *arena, const local *l, const note *n) {
  return wafer_arena_printf(arena, "%s:%s", l->parameters[n->place].name, n->suffix);
}

/* ---- saving ---- */

/* State of another rank stays until the next checkpoint. */
static wafer_status receive_state(local *l, uint32_t from, note *n) {
  if (l->state_count == l->state_room) {
    uint32_t room = l->state_room ? 2 * l->state_room : 64;
    store_block *grown = realloc(l->states, room * sizeof *grown);
    if (!grown) return local_no_memory(l);
    l->states = grown;
    l->state_room = room;
  }
  store_block *to = &l->states[l->state_count];
  WAFER_TRY(store_take(l->about.diag, l->about.memoryx.store, note_bytes(n), to));
  l->state_count++;
  n->data = to->data;
  return local_receive(l, from, to->data, note_bytes(n));
}

static wafer_status gather(local *l, note **all, uint32_t *count) {
  *all = own_notes(l, count);
  if (!*all) return local_no_memory(l);
  for (uint32_t r = 1; r < l->rank_count; r++) {
    uint32_t more = 0;
    note *notes = NULL;
    wafer_status status = receive_notes(l, r, &notes, &more);
    for (uint32_t i = 0; i < more && status == WAFER_OK; i++)
      status = receive_state(l, r, &notes[i]);
    note *grown = status == WAFER_OK ? realloc(*all, (*count + more + 1) * sizeof *grown) : NULL;
    if (grown && more) memcpy(grown + *count, notes, more * sizeof *notes);
    free(notes);
    if (status != WAFER_OK) return status;
    if (!grown) return local_no_memory(l);
    *all = grown;
    *count += more;
  }
  return WAFER_OK;
}

static wafer_status give(const local *l) {
  uint32_t count;
  note *notes = own_notes(l, &count);
  if (!notes) return local_no_memory(l);
  wafer_status status = send_notes(l, notes, count);
  for (uint32_t i = 0; i < count && status == WAFER_OK; i++)
    status = local_send(l, 0, notes[i].data, note_bytes(&notes[i]));
  free(notes);
  return status;
}

/* In the order of parameters: a checkpoint does not tell who kept what. */
static wafer_status fill(const local *l, wafer_arena *arena, const note *notes, uint32_t count,
                         wafer_weights *weights, wafer_weights *state) {
  for (uint32_t i = 0; i < l->about.parameter_count; i++) {
    const wafer_parameter *p = &l->about.parameters[i];
    if (!wafer_weights_add(weights, p->name, p->dtype, &p->shape, l->value[l->place[i]]))
      return local_no_memory(l);
    uint32_t low = 0, high = count; /* notes are in order of places */
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (notes[middle].place < l->place[i])
        low = middle + 1;
      else
        high = middle;
    }
    for (; low < count && notes[low].place == l->place[i]; low++) {
      const char *name = state_name(arena, l, &notes[low]);
      if (!name ||
          !wafer_weights_add(state, name, WAFER_DTYPE_f32, &notes[low].shape, notes[low].data))
        return local_no_memory(l);
    }
  }
  return WAFER_OK;
}

wafer_status local_save(local *l, wafer_arena *arena, wafer_weights **weights,
                        wafer_weights **state) {
  if (l->rank) return give(l);
  note *notes = NULL;
  uint32_t count = 0;
  while (l->state_count) store_release(&l->states[--l->state_count]);
  *weights = wafer_weights_create(arena);
  *state = wafer_weights_create(arena);
  wafer_status status = *weights && *state ? gather(l, &notes, &count) : local_no_memory(l);
  if (status == WAFER_OK) status = fill(l, arena, notes, count, *weights, *state);
  free(notes);
  return status;
}

/* ---- loading ---- */

static wafer_status find(const local *l, const wafer_weights *table, const char *name,
                         wafer_dtype dtype, const wafer_shape *shape, const wafer_weight **out) {
  *out = wafer_weights_find(table, name);
  if (*out && (*out)->dtype == dtype && wafer_shape_equal(&(*out)->shape, shape)) return WAFER_OK;
  return wafer_fail(l->about.diag, (wafer_loc){0}, WAFER_BAD_INPUT,
                    "the checkpoint has no '%s' of the model's type and shape; is it of another "
                    "model, or of other frozen weights",
                    name);
}

/* A weight that was trained and now is frozen would fall back to what the model's file has. */
static wafer_status refuse_more(const local *l, const wafer_weights *weights) {
  for (size_t i = 0; i < wafer_weights_count(weights); i++) {
    const char *name = wafer_weights_at(weights, i)->name;
    uint32_t p = 0;
    while (p < l->about.parameter_count && strcmp(l->parameters[p].name, name)) p++;
    if (p == l->about.parameter_count)
      return wafer_fail(l->about.diag, (wafer_loc){0}, WAFER_BAD_INPUT,
                        "the checkpoint has trained '%s', which this run does not train; freeze "
                        "what was frozen, or take what `wafer export` makes of it as the model",
                        name);
  }
  return WAFER_OK;
}

static wafer_status load_weights(local *l, const wafer_weights *weights) {
  const wafer_weight *w = NULL;
  for (uint32_t r = 0; r < l->rank_count; r++)
    for (uint32_t p = l->first[r]; p < l->first[r + 1]; p++) {
      const wafer_parameter *of = &l->parameters[p];
      WAFER_TRY(find(l, weights, of->name, of->dtype, &of->shape, &w));
      if (r == 0)
        wafer_memoryx_set(l->memoryx, p, w->data);
      else
        WAFER_TRY(local_send(l, r, w->data, w->bytes));
    }
  bool more = wafer_weights_count(weights) != l->about.parameter_count;
  return more ? refuse_more(l, weights) : WAFER_OK;
}

static wafer_status take_weights(local *l) {
  for (uint32_t p = l->first[l->rank]; p < l->first[l->rank + 1]; p++) {
    WAFER_TRY(local_receive(l, 0, l->value[p], local_bytes(l, p)));
    wafer_memoryx_set(l->memoryx, p - l->first[l->rank], l->value[p]);
  }
  return WAFER_OK;
}

static wafer_status load_notes(local *l, uint32_t rank, const note *notes, uint32_t count,
                               const wafer_weights *state) {
  for (uint32_t i = 0; i < count; i++) {
    const wafer_weight *w = NULL;
    wafer_arena *arena = wafer_arena_create();
    const char *name = arena ? state_name(arena, l, &notes[i]) : NULL;
    wafer_status status =
        name ? find(l, state, name, WAFER_DTYPE_f32, &notes[i].shape, &w) : local_no_memory(l);
    wafer_arena_destroy(arena);
    if (status != WAFER_OK) return status;
    if (rank == 0)
      memcpy(wafer_memoryx_state_at(l->memoryx, i).data, w->data, w->bytes);
    else
      WAFER_TRY(local_send(l, rank, w->data, w->bytes));
  }
  return WAFER_OK;
}

static wafer_status load_state(local *l, const wafer_weights *state) {
  wafer_status status = WAFER_OK;
  for (uint32_t r = 0; r < l->rank_count && status == WAFER_OK; r++) {
    uint32_t count = 0;
    note *notes = r ? NULL : own_notes(l, &count);
    if (r) status = receive_notes(l, r, &notes, &count);
    if (status == WAFER_OK)
      status = notes ? load_notes(l, r, notes, count, state) : local_no_memory(l);
    free(notes);
  }
  return status;
}

static wafer_status take_state(local *l) {
  uint32_t count;
  note *notes = own_notes(l, &count);
  wafer_status status = notes ? send_notes(l, notes, count) : local_no_memory(l);
  for (uint32_t i = 0; i < count && status == WAFER_OK; i++)
    status = local_receive(l, 0, wafer_memoryx_state_at(l->memoryx, i).data, note_bytes(&notes[i]));
  free(notes);
  return status;
}

wafer_status local_load(local *l, const wafer_weights *weights, const wafer_weights *state) {
  WAFER_TRY(l->rank ? take_weights(l) : load_weights(l, weights));
  if (l->about.training.run) /* evaluation has no use for state */
    WAFER_TRY(l->rank ? take_state(l) : load_state(l, state));
  return local_share(l);
}
