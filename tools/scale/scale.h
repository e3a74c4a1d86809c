/* The parts of `wafer scale`. */
#ifndef WAFER_TOOLS_SCALE_H
#define WAFER_TOOLS_SCALE_H

#include "cli.h"
#include "training.h"
#include "wafer/scale.h"

enum { SCALE_ROWS = 64 };

typedef struct scale_arguments {
  const char *model, *machine, *csv, *svg, *json;
  uint64_t first, last, batch, global, state_bytes, servers, sequence;
  double density, tokens, gpu_gb, clip_norm;
  wafer_dtype dtype;
  bool dynamic, scale_set; /* the loss scale */
  training_flags training;
} scale_arguments;

typedef struct scale_row {
  uint64_t systems, samples;
  double efficiency;
  wafer_scale_step step;
  wafer_scale_gpu cluster; /* of as many processors */
} scale_row;

typedef struct scale_table {
  const scale_arguments *a;
  const wafer_plan *plan;
  wafer_scale_pass pass;
  wafer_scale_model model; /* without a batch */
  uint64_t next; /* the next larger micro-batch, which does not fit; 0: the whole batch fits */
  uint64_t sequence;
  uint32_t count;
  scale_row rows[SCALE_ROWS];
} scale_table;

static inline double scale_rate(const scale_row *r) {
  return (double)r->samples / r->step.seconds;
}
static inline wafer_scale_gpu scale_cluster(const scale_table *t, uint64_t processors,
                                            uint64_t samples) {
  wafer_scale_model model = t->model;
  model.batch = (double)samples;
  return wafer_scale_cluster(&model, processors, 1e9 * t->a->gpu_gb);
}
/* Clipping and a dynamic loss scale want all gradients before the first update. */
static inline bool scale_waits(const scale_arguments *a) {
  return a->dynamic || a->clip_norm > 0;
}
/* What a cluster cannot do without, as words: at least 48 bytes. */
const char *scale_forced(const wafer_scale_gpu *g, char *to, size_t bytes);

void scale_print(const scale_table *t);             /* scale_print.c */
wafer_status scale_write_csv(const scale_table *t); /* scale_write.c */
wafer_status scale_write_json(const scale_table *t);
wafer_status scale_write_svg(const scale_table *t); /* scale_svg.c */

#endif
