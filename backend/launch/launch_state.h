/* A launch while it is made: values find addresses, kernels and streams become pieces, pieces are
 * linked into a program. Private to launch*.c. */
#ifndef BACKEND_LAUNCH_STATE_H
#define BACKEND_LAUNCH_STATE_H

#include "exchange/exchange.h"
#include "fragment/fragment_clock.h"
#include "launch.h"
#include "launch_data.h"
#include "memory_map.h"
#include "wafer/orders.h"

/* Where the words of an exchange go first, and what it takes by itself. */
typedef struct launch_way {
  fragment_way way;
  uint64_t cycles;
} launch_way;

/* Ways to make a train: sample by sample; or ahead, values leaving early or late, each to every
 * reader by itself or to several at once. */
#define LAUNCH_TRAINS 5
#define LAUNCH_AHEAD(together, late) (1 + 2 * (uint32_t)(together) + (uint32_t)(late))

typedef struct launcher {
  const wafer_ctx *ctx;
  wafer_plan *plan;
  wafer_diag diag; /* keeps the first message */
  char why[512];
  memory_map map;
  wafer_orders *orders;
  uint32_t sample;       /* of those resident in a stripe: the one at hand */
  uint32_t stripe;       /* of the stream at hand, which crosses the border */
  uint32_t turn;         /* of a train: the sample at hand, which says on which replicas it is */
  memory_map passing;    /* of a train: words on their way between kernels */
  bool lacks_colors;     /* what was finished last wants more colours than there are */
  bool even;             /* an exchange might want fewer colours */
  bool few_colors;       /* exchanges are such as want few */
  bool may_go_around;    /* words of a train need not keep to their lines */
  const uint32_t *rooms; /* of a train: NULL, or of each stream the samples that its end holds */
  const uint32_t *with;  /* of a train: NULL, or of each stream the one that brings its words */
  launch_way *ways;      /* of a train being made: of each stream, by itself */
  uint64_t told[LAUNCH_TRAINS]; /* interval of the train made in each way; 0: not yet */
  wafer_arena *arena;    /* of the launch being made */
  wafer_stream *streams; /* the plan's, with the cycles of their programs */
  wafer_kernel *kernels; /* likewise */
  wafer_launch *launches;
  wafer_bytes *programs;
  uint32_t launch_count, launch_room, program_count, program_room;
  bool *loaded;         /* phase: its weights came by a load step */
  bool tapped;          /* launches say where outputs of kernels lie */
  fragment_clock clock; /* of kernels, and of streams in weight streaming, one by one; of trains;
                           made when it is needed, and at cycle 0 in between */
  fragment_effort effort; /* of all trains of the plan */
  wafer_rect *others;   /* of the kernels of a pipeline, all replicas: their cores are busy */
  uint32_t other_count;
} launcher;

#define LAUNCH_ONCE UINT32_MAX

/* In place of the sample of a value that is a gradient: what lies beside it, for good, under the
 * kernel's rectangle. */
#define LAUNCH_SUM UINT32_MAX
#define LAUNCH_TERM (UINT32_MAX - 1) /* where the gradient of a sample is no f32 */
#define LAUNCH_WEIGHT (UINT32_MAX - 2)
#define LAUNCH_SLOT (UINT32_MAX - 4) /* the optimizer's, two */

/* What has been put together for a launch. */
typedef struct launch_pieces {
  uint32_t count, room;
  const fragment **at;
  uint32_t *parts; /* action of each; LAUNCH_ONCE: of none, what a train begins with */
  uint32_t action; /* at hand */
  uint32_t step_count, step_room;
  uint32_t *steps; /* of a train, as fragment_link has them: until replicas come to stand as they
                      stood at the first sample; */
  uint32_t once;   /* the first ones: those that come once */
  int64_t *due;    /* NULL, or of each piece, as fragment_link has it; the latest is `last_due` */
  int64_t period;
  uint64_t last_due;
  uint64_t *cycles;     /* NULL, or of each kernel of the plan, what a sample takes in the train */
  const uint32_t *with; /* the launcher's, while it was made */
  struct train_times *times; /* of a train whose interval is known */
  launch_data_list data;
  uint32_t tap_count, tap_room;
  wafer_tap *taps;
} launch_pieces;

wafer_loc launch_at_kernel(const launcher *l, const wafer_kernel *k);
wafer_status launch_no_memory(const launcher *l);

/* Each launch in an arena of its own. */
wafer_status launch_begin(launcher *l, launch_pieces *p);

/* On which replica of a kernel sample `turn` is. */
static inline uint32_t launch_replica(const launcher *l, uint32_t kernel, uint32_t turn) {
  return kernel == WAFER_NONE ? 0 : turn % l->plan->kernels[kernel].replicas;
}

/* Is it a stream of weights? They come before a train. */
bool launch_is_load(const launcher *l, const wafer_action *a);

/* launch_add.c. A kernel's program: its inputs where the phase has put them, outputs where there is
 * room. */
wafer_status launch_add_kernel(launcher *l, const wafer_kernel *k, launch_pieces *p);
/* A stream's program, an exchange; nothing where everything is in place, or where another brings
 * what it does (`with`), which is then in that one's. */
wafer_status launch_add_stream(launcher *l, const wafer_stream *t, launch_pieces *p);
/* False: out of memory. */
bool launch_add_piece(launcher *l, launch_pieces *p, const fragment *f, uint32_t part);
/* Takes the place, whose spread is known but for where it is: from address `least` on. */
wafer_status launch_take(launcher *l, wafer_loc loc, memory_place *place, uint32_t least,
                         int32_t phase);
/* Where a kernel's output lies, where a stream's value comes to: taken where it was not. */
wafer_status launch_place_output(launcher *l, const wafer_kernel *k, wafer_rect rect, uint32_t i,
                                 const spread **out);
wafer_status launch_place_target(launcher *l, const wafer_stream *t, const wafer_holding *target,
                                 const spread **out);
wafer_rect launch_on_replica(const launcher *l, uint32_t kernel, wafer_rect rect);
/* Words on their way lie as low as the cores let them that they wait on. */
void launch_lower_scratch(const launcher *l, exchange *x, uint32_t count);

wafer_status launch_take_rooms(launcher *l, const wafer_phase *phase);

/* launch_rooms.c. How far samples of a train may be ahead of each other where values skip kernels.
 */
typedef struct launch_rooms {
  uint32_t *of;         /* each stream of the plan: samples that there is room for where it ends */
  int64_t *due;         /* each kernel: cycle in which it may begin with sample 0, */
  int64_t *leaves;      /* each stream: in which it may, */
  int64_t period;       /* with the next ones so much later each */
  bool any;             /* a stream has room for several */
  const uint32_t *with; /* each stream: the one that brings its words; NULL: each its own */
} launch_rooms;
/* From the cycles of a train's pieces whose streams have one room each. `early`: values are due to
 * leave when their kernels are, else when these have made them. `with`: as there. */
wafer_status launch_find_rooms(launcher *l, const wafer_phase *phase, const launch_pieces *p,
                               bool early, const uint32_t *with, launch_rooms *out);
/* launch_together.c. Which streams of a value go together, from the ways they took: the first of
 * them brings the words of all. NULL: none do. */
wafer_status launch_find_together(launcher *l, const wafer_phase *phase, const uint32_t **with);
/* launch_add.c. Cycles of the streams in one exchange. */
wafer_status launch_weigh_together(launcher *l, const wafer_stream *const *t, uint32_t count,
                                   uint64_t *cycles);

/* launch_train.c. All kernels and streams of a pipeline, sample after sample; `rooms`: NULL, all of
 * a sample before the next. */
wafer_status launch_add_train(launcher *l, const wafer_phase *phase, const launch_rooms *rooms,
                              launch_pieces *p);
/* Programs begin anew with each sample, and nothing of one is kept beyond it. */
bool launch_may_have_rooms(const launcher *l, const wafer_phase *phase);

/* launch_time.c. Of a stream that has the wafer to itself: cycles until all is done, and until the
 * border has let the words of the host in, which come `opening` cycles after cores begin; from then
 * on both count. */
wafer_status launch_time_stream(launcher *l, const fragment *f, uint32_t opening, uint64_t *cycles,
                                uint64_t *crossed);
/* Of a kernel's program, from when all of its cores begin to when the last one is done. */
wafer_status launch_time_kernel(launcher *l, const fragment *const *f, uint32_t count,
                                uint64_t *cycles);
/* Which trains are asked for. */
typedef struct launch_wish {
  uint64_t below;  /* cycles of the interval: others are too slow; UINT64_MAX: none are */
  uint64_t wanted; /* trains that are much faster are no better; 0: they are */
  const fragment_effort *effort; /* when it is spent it is as if they were too slow; NULL: never */
} launch_wish;
/* Of a sample across the wafer's edge; 0: functions of a plan that has several bring their own. */
static inline uint64_t launch_edge_cycles(const launcher *l) {
  return l->plan->function_count == 1 ? wafer_plan_edge_traffic(l->plan, 0).cycles : 0;
}
/* The interval between samples of a train, UINT64_MAX where that is not `below`; never shorter than
 * the edge's. */
wafer_status launch_time(launcher *l, launch_pieces *p, uint32_t phase, launch_wish wish,
                         uint64_t *interval);
/* What else is predicted of one: when its first sample ends, what short trains take, what its
 * kernels take, and the slowest. `wanted`: of launch_time. */
wafer_status launch_tell(launcher *l, launch_pieces *p, uint64_t wanted, wafer_launch *launch);

/* launch_step.c. Pipelined training: the weights and the optimizer's state beside each sum, before
 * a train of the phase, and the launches behind it. */
wafer_status launch_begin_steps(launcher *l, uint32_t phase);
wafer_status launch_end_step(launcher *l, uint32_t phase);

/* launch_parts.c. As launch_finish; where colours are lacking, in several launches. */
wafer_status launch_finish_parts(launcher *l, const wafer_launch *launch, const char *name,
                                 launch_pieces *p);

/* launch_finish.c. Links the pieces, and keeps the bytes; a train whose words then go other ways is
 * timed again. */
wafer_status launch_finish(launcher *l, wafer_launch launch, const char *name, launch_pieces *p);

#endif
