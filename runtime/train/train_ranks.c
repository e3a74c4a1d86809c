/* The transport of a run: rank 0 tells every rank what to do and does its own part of it. */
#include "train_local.h"

typedef enum order_kind { RUN, SQUARES, UPDATE, EVALUATE, SAVE, LOAD, END } order_kind;

typedef struct order {
  uint32_t kind;
  wafer_work work;
  wafer_update update;
} order;

static wafer_status tell(local *l, order what) {
  return wafer_ranks_broadcast(&l->about.ranks, 0, &what, sizeof what);
}

static wafer_status run(void *self, const wafer_work *work, double *scalars) {
  WAFER_TRY(tell(self, (order){.kind = RUN, .work = *work}));
  return local_run(self, work, scalars);
}
static wafer_status squares(void *self, double *sum) {
  WAFER_TRY(tell(self, (order){.kind = SQUARES}));
  return local_squares(self, sum);
}
static wafer_status update(void *self, const wafer_update *how) {
  WAFER_TRY(tell(self, (order){.kind = UPDATE, .update = *how}));
  return local_update(self, how);
}
static wafer_status count(void *self, bool waits, bool skips, wafer_step_time *out) {
  return local_count(self, waits, skips, out); /* rank 0 has all that it takes */
}
static wafer_status evaluate(void *self, double *scalars) {
  WAFER_TRY(tell(self, (order){.kind = EVALUATE}));
  return local_evaluate(self, scalars);
}
static wafer_status save(void *self, wafer_arena *arena, wafer_weights **weights,
                         wafer_weights **state) {
  WAFER_TRY(tell(self, (order){.kind = SAVE}));
  return local_save(self, arena, weights, state);
}
static wafer_status load(void *self, const wafer_weights *weights, const wafer_weights *state) {
  WAFER_TRY(tell(self, (order){.kind = LOAD}));
  return local_load(self, weights, state);
}

const wafer_transport local_transport = {.run = run,
                                         .squares = squares,
                                         .update = update,
                                         .count = count,
                                         .evaluate = evaluate,
                                         .save = save,
                                         .load = load};

static wafer_status follow(local *l, const order *what) {
  switch ((order_kind)what->kind) {
  case RUN: return local_run(l, &what->work, NULL);
  case SQUARES: return local_squares(l, NULL);
  case UPDATE: return local_update(l, &what->update);
  case EVALUATE: return local_evaluate(l, NULL);
  case SAVE: return local_save(l, NULL, NULL, NULL);
  case LOAD: return local_load(l, NULL, NULL);
  case END: break;
  }
  return WAFER_OK;
}

wafer_status wafer_transport_serve(const wafer_transport *transport) {
  local *l = transport->self;
  for (;;) {
    order what;
    WAFER_TRY(wafer_ranks_broadcast(&l->about.ranks, 0, &what, sizeof what));
    if (what.kind == END) return WAFER_OK;
    WAFER_TRY(follow(l, &what));
  }
}

wafer_status wafer_transport_end(const wafer_transport *transport) {
  local *l = transport->self;
  return l->rank ? WAFER_OK : tell(l, (order){.kind = END});
}
