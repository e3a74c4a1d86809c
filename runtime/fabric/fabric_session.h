/* The state of a session at fabric fidelity, and the parts of running it. Private to
 * session_fabric*.c. */
#ifndef RUNTIME_FABRIC_SESSION_H
#define RUNTIME_FABRIC_SESSION_H

#include "session/session_fabric.h"
#include "wafer/assembly.h"
#include "wafer/fault.h"
#include "wafer/orders.h"
#include "wafer/pairs.h"

typedef struct fabric_launch {
  const wafer_launch *of;
  wafer_launch_body body;
  const wafer_fabric_program *band; /* of the wafer, or of the first band */
  wafer_fabric_program program;     /* of the wafer */
  uint32_t bands;                   /* that it is spread over; 0: `program` owns nothing */
  uint32_t **words;                 /* per port: of the run under way, sample after sample */
  uint64_t room;                    /* samples in them */
  wafer_fabric_stats stats;         /* of its last run */
} fabric_launch;

/* Which way a launch crosses the border. */
typedef enum fabric_border {
  FABRIC_BORDER_none,
  FABRIC_BORDER_in,
  FABRIC_BORDER_out
} fabric_border;

/* The time of a run. Launches of actions follow each other; the weights of a phase arrive while
 * phases before compute. */
typedef struct fabric_clock {
  uint64_t now;         /* end of the last action */
  uint64_t start;       /* of the phase */
  uint64_t memoryx;     /* free from here on */
  uint64_t loaded;      /* what it sent has come to its cores */
  uint64_t crossed;     /* the border is free again after the last action, */
  fabric_border border; /* if that has crossed it so */
  uint32_t phase, loading;
} fabric_clock;

/* When a part of a train began and ended at a sample, over all cores. */
typedef struct fabric_part_time {
  uint64_t first, last; /* last 0: not at all */
} fabric_part_time;

/* What the marks of a launch tell. */
typedef struct fabric_marks {
  uint32_t *part, *done; /* per core: at hand; samples that have ended */
  uint64_t *begin, *end; /* per kernel and sample: when the last of its cores began it, ended it */
  uint64_t *finish;      /* per sample: when the last core ended it */
  uint64_t samples;
  uint32_t bands;          /* that share them */
  uint64_t *since;         /* per core, when somebody watches: when the part at hand began */
  fabric_part_time *times; /* of a train, when somebody watches: per sample, per action */
} fabric_marks;

/* What cores and links did, when somebody asks; arrays as those of wafer_run_stats. */
typedef struct fabric_load {
  uint64_t *core_cycles, *wavelets;
  wafer_load *kernels, *phases;
} fabric_load;

/* How a sparse weight lies, and for whom. */
typedef struct fabric_pairs {
  wafer_pairs form;
  wafer_layout layout; /* of the weight */
} fabric_pairs;

struct session_fabric {
  const wafer_plan *plan;
  const wafer_diag *diag;
  const wafer_function *function;
  wafer_arena *arena;
  wafer_fabric *fabric;
  fabric_launch *launches; /* of the function */
  uint32_t launch_count;
  const fabric_launch *running; /* while marks come */
  void **stored; /* per plan value: dense elements of a sample as cores store them, or pairs */
  const fabric_pairs **pairs;   /* per plan value: of a weight that lies so; else NULL */
  const wafer_layout **ordered; /* per plan value: that crosses the border so; NULL: as it is */
  wafer_orders *orders;
  void *staging;   /* a sample as the caller has it */
  uint32_t loaded; /* bands that have the weights of a pipeline */
  fabric_marks marks;
  const wafer_kernel_watch *kernels; /* NULL: nobody asks */
  const wafer_watch *watch;
  bool *watched;   /* per core; NULL: none is */
  uint64_t start;  /* of the launch under way, in cycles of the run */
  uint64_t told;   /* up to here a watcher knows of it already */
  uint64_t sample; /* at hand; of a train the first */
  fabric_load load;
  session_faults *faults; /* NULL: none */
  bool shared;            /* they are its caller's */
  wafer_run_stats stats;
  uint64_t *kernel_busy, *phase_cycles, *stream_busy;
  wafer_step_cycles step; /* since the last train: of what is done of a step */
  bool gathered;          /* sums of replicas have come together since */
  uint64_t *armed;        /* streaming: when the weights of each phase are all there */
};

wafer_status session_fabric_no_memory(const session_fabric *s);
/* Of a value's elements in `stored`. */
static inline const wafer_phase *session_fabric_phase(const session_fabric *s,
                                                      const fabric_launch *l) {
  return &s->plan->phases[l->of->phase];
}
static inline wafer_dtype session_fabric_type(const session_fabric *s, uint32_t value) {
  if (s->pairs[value]) return WAFER_DTYPE_u32;
  return wafer_stored_dtype(s->plan->values[value].type.dtype, s->plan->storage);
}
size_t session_fabric_elements(const session_fabric *s, uint32_t value);
/* One sample of a caller's view to `stored`; the elements of a weight to `stored`, once. */
wafer_status session_fabric_input(session_fabric *s, uint32_t value, const wafer_view *view,
                                  bool train, uint64_t sample);
wafer_status session_fabric_weight(session_fabric *s, uint32_t value);

/* Sparse weights (session_fabric_sparse.c): which lie as pairs, and what is ordered; the words of
 * a weight's pairs to `stored`; elements of `each` bytes to the places of a layout, or back. */
wafer_status session_fabric_sparse_begin(session_fabric *s);
wafer_status session_fabric_pairs_pack(session_fabric *s, uint32_t value);
wafer_status session_fabric_order(session_fabric *s, uint32_t value, const wafer_layout *layout,
                                  bool back, size_t each, void *elements);
/* `stored` to where the caller's sample is. */
wafer_status session_fabric_output(session_fabric *s, uint32_t value, void *to, uint64_t sample);

/* What a launch takes in and gives out. */
typedef struct fabric_io {
  const wafer_view *inputs;
  void *const *out; /* per output of the function */
  bool train;       /* views have a leading dim of samples */
  uint64_t first, samples;
  uint64_t last;    /* streaming: there are none behind it; the bands of a launch go on with it */
  uint32_t stripes; /* streaming: that have a sample, the first of them `first` */
} fabric_io;

/* The sample of the launch's i-th. */
static inline uint64_t fabric_io_sample(const fabric_io *io, uint64_t i) {
  return io->first + i < io->last ? io->first + i : io->last;
}

wafer_status session_fabric_launch(session_fabric *s, fabric_launch *l, const fabric_io *io);
/* The same without what it leaves: nobody is told, no output taken. */
wafer_status session_fabric_only(session_fabric *s, fabric_launch *l, const fabric_io *io);
/* A trained weight as it is at first, in f32, to `stored` of its value among the plan's
 * step_values, once (session_fabric_step.c). */
wafer_status session_fabric_master(session_fabric *s, uint32_t value);

/* Streaming: whether the launch has kernels that run at once; marks then tell the time of each. */
bool session_fabric_several(const session_fabric *s, const fabric_launch *l);
/* Cycles of action `a` in a launch of streaming that took `cycles`. */
uint64_t session_fabric_action_cycles(const session_fabric *s, const fabric_launch *l, uint32_t a,
                                      uint64_t cycles);

/* Bands (session_fabric_bands.c): those that have some of so many samples, the first ones; where a
 * rectangle and a port of the plan are in one of them; the launch's program on so many; what that
 * has allocated; a core's place within its band, and in a train how many samples are its own. */
uint32_t session_fabric_bands(const session_fabric *s, uint64_t samples);
wafer_rect session_fabric_rect(const session_fabric *s, uint32_t band, wafer_rect r);
wafer_port session_fabric_port(const session_fabric *s, uint32_t band, wafer_port port);
wafer_status session_fabric_spread(session_fabric *s, fabric_launch *l, uint32_t bands);
void session_fabric_gather(fabric_launch *l);
void session_fabric_place_registers(session_fabric *s, const fabric_launch *l, uint64_t samples);

/* After a launch (session_fabric_tap.c): who asks what kernels have made; gradients of pipelined
 * training, which stay on their cores. */
wafer_status session_fabric_tell(session_fabric *s, const fabric_launch *l, const fabric_io *io);
wafer_status session_fabric_left(session_fabric *s, const fabric_launch *l, const fabric_io *io);
/* What a tap of a weight points at, f32. */
wafer_status session_fabric_new_weight(session_fabric *s, const wafer_tap *tap, float *to);

/* Time (session_fabric_time.c). */
wafer_status session_fabric_watch(session_fabric *s, const fabric_launch *l, uint64_t samples);
/* Streaming: when the launch begins, then what it adds to the clock. */
uint64_t session_fabric_start(session_fabric *s, fabric_clock *c, const fabric_launch *l);
/* How the launch crosses the border of the wafer. */
fabric_border session_fabric_border(const session_fabric *s, const fabric_launch *l);
void session_fabric_tick(session_fabric *s, fabric_clock *c, const fabric_launch *l,
                         uint32_t samples); /* of those that it has, none twice */
void session_fabric_train_time(session_fabric *s, const fabric_launch *l);

/* Load and faults (session_fabric_load.c): once per session, per run, before and after a launch. */
wafer_status session_fabric_load_begin(session_fabric *s);
void session_fabric_load_clear(session_fabric *s);
wafer_status session_fabric_inject(session_fabric *s, const fabric_launch *l, uint64_t samples);
void session_fabric_faults_launch(session_fabric *s);
void session_fabric_load_launch(session_fabric *s, const fabric_launch *l);

/* Who watches (session_fabric_watch.c). */
wafer_status session_fabric_watch_begin(session_fabric *s, const wafer_watch *watch);
wafer_status session_fabric_watch_train(session_fabric *s, const fabric_launch *l);
/* Core `core` has ended `part` of the launch, which it began at cycle `since`. */
void session_fabric_watch_part(session_fabric *s, size_t core, uint32_t part, uint64_t sample,
                               uint64_t since, uint64_t cycle);
void session_fabric_watch_launch(const session_fabric *s, const fabric_launch *l, uint64_t cycles);
void session_fabric_watch_end(session_fabric *s);

#endif
