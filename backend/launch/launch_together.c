/* Values that several kernels take: what goes the same way first is sent once to all of them, where
 * that is shorter. */
#include "launch_order.h"
#include "launch_state.h"

/* May it go with others? */
static bool may_go(const launcher *l, const wafer_action *a) {
  if (a->kind != WAFER_ACTION_stream) return false;
  const wafer_stream *t = &l->plan->streams[a->index];
  return t->from_kernel != WAFER_NONE && t->to_kernel != WAFER_NONE &&
         l->ways[a->index].way != FRAGMENT_ANY_WAY && !launch_order_changes(t);
}

static bool go_alike(const launcher *l, uint32_t a, uint32_t b) {
  const wafer_stream *t = &l->plan->streams[a], *other = &l->plan->streams[b];
  return t->value == other->value && l->ways[a].way == l->ways[b].way &&
         wafer_holding_equal(&t->from, &other->from);
}

/* Those behind action `a` that may go with it. */
static uint32_t find_alike(const launcher *l, const wafer_phase *phase, uint32_t a,
                           const wafer_stream *out[EXCHANGE_TOGETHER]) {
  uint32_t count = 1, first = phase->actions[a].index;
  out[0] = &l->plan->streams[first];
  for (uint32_t b = a + 1; b < phase->action_count && count < EXCHANGE_TOGETHER; b++)
    if (may_go(l, &phase->actions[b]) && go_alike(l, first, phase->actions[b].index))
      out[count++] = &l->plan->streams[phase->actions[b].index];
  return count;
}

wafer_status launch_find_together(launcher *l, const wafer_phase *phase, const uint32_t **with) {
  uint32_t streams = l->plan->stream_count;
  uint32_t *brings = WAFER_NEW(l->map.arena, uint32_t, streams);
  bool *weighed = WAFER_NEW(l->arena, bool, streams);
  const wafer_stream *alike[EXCHANGE_TOGETHER];
  *with = NULL;
  if (!brings || !weighed) return launch_no_memory(l);
  for (uint32_t i = 0; i < streams; i++) brings[i] = i;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    uint32_t first = phase->actions[a].index;
    if (!may_go(l, &phase->actions[a]) || weighed[first]) continue;
    uint32_t count = find_alike(l, phase, a, alike);
    uint64_t apart = 0, together;
    if (count == 1) continue;
    for (uint32_t i = 0; i < count; i++) {
      apart += l->ways[alike[i] - l->plan->streams].cycles;
      weighed[alike[i] - l->plan->streams] = true;
    }
    WAFER_TRY(launch_weigh_together(l, alike, count, &together));
    if (together >= apart) continue;
    for (uint32_t i = 1; i < count; i++) brings[alike[i] - l->plan->streams] = first;
    *with = brings;
  }
  return WAFER_OK;
}
