/* Fabric fidelity of a plan: what one run of the fabric executes, and what crosses the wafer's
 * border meanwhile. The backend makes launches, the runtime runs them; docs/plan-format.md says how
 * they lie in a file.
 *
 * - Streaming: each stream of a phase is a launch of its own for each sample that is resident, and
 *   so are kernels that run at once, on memories that stay; a weight's stream is one launch, which
 *   the report overlaps with the phases before.
 * - Pipelined: a launch for each weight, and each replica that it goes to; one runs every kernel
 * and stream of the phase over a train of samples, which replicas of kernels share out. While it
 * trains, kernels add up their gradients over the train, each replica on its own; launches behind
 * the train bring these sums together, update the weights and send them to who reads them. */
#ifndef WAFER_LAUNCH_H
#define WAFER_LAUNCH_H

#include "wafer/fabric.h"
#include "wafer/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Register of every core that holds the samples of a train when it starts. */
#define WAFER_TRAIN_REGISTER 14

typedef enum wafer_launch_kind {
  WAFER_LAUNCH_load,   /* the weight streams of the phase */
  WAFER_LAUNCH_action, /* one stream of the phase, or kernels that run at once; one sample */
  WAFER_LAUNCH_train,  /* all of the phase, a train of samples */
  /* Pipelined training, behind a train, in this order; in no file. */
  WAFER_LAUNCH_gather, /* sums of replicas come to the first, which adds them to its own */
  WAFER_LAUNCH_norm,   /* squares of the sums are added up, kernel by kernel, and leave the wafer */
  WAFER_LAUNCH_control, /* the numbers of the update come to all cores that have sums */
  WAFER_LAUNCH_update,  /* the optimizer's rule, wherever there is a sum */
  WAFER_LAUNCH_send,    /* new weights go to the kernels that read them */
  WAFER_LAUNCH_COUNT
} wafer_launch_kind;
const char *wafer_launch_kind_name(wafer_launch_kind kind);

static inline bool wafer_launch_ends_step(wafer_launch_kind kind) {
  return kind >= WAFER_LAUNCH_gather;
}

/* The numbers of an update, f32, in the order in which they lie on a core. `kept` is 1 - lr decay,
 * `share` what a statistic is multiplied by; the others are those of
 * runtime/train/optimizer_rules.h. */
#define WAFER_UPDATE_NUMBERS(X)                                                                    \
  X(scale)                                                                                         \
  X(decay) X(lr) X(momentum) X(rest1) X(beta2) X(rest2) X(root) X(eps) X(size) X(kept) X(share)
enum {
#define X(name) WAFER_NUMBER_##name,
  WAFER_UPDATE_NUMBERS(X)
#undef X
      WAFER_NUMBER_COUNT
};

/* A box of elements of a value, by their row-major index in the tensor: outermost first. It travels
 * as ceil(elements / elements per wavelet) wavelets. */
typedef struct wafer_port_box {
  int64_t first;
  uint32_t shape[4];
  int64_t stride[4];
} wafer_port_box;

/* What crosses the border through one router, in this order, once for each of its samples: `first`,
 * `first + every` ... of a train. */
typedef struct wafer_port_use {
  uint32_t value; /* of the plan; an input or a weight going in, an output coming out */
  uint32_t x, y;  /* router at the border of the fabric */
  uint8_t side;   /* wafer_port that faces outwards */
  uint8_t color;
  uint8_t control; /* rides on the last wavelet that goes in */
  bool out;
  uint32_t first, every; /* first < every */
  uint32_t box_count;
  const wafer_port_box *boxes;
} wafer_port_use;

static inline bool wafer_port_carries(const wafer_port_use *port, uint64_t sample) {
  return sample % port->every == port->first;
}

/* Where an output of a kernel lies when a launch has ended: on the core in row r and column c of
 * the kernel's rectangle elements [lo, hi) of each dim, of part[row[r] * cols + col[c]], the first
 * at index `at` of the dim. Of a gradient of pipelined training that is the sum over the samples of
 * the train that the replica has had, in f32. */
typedef struct wafer_tap_part {
  int32_t lo, hi, at;
} wafer_tap_part;

typedef struct wafer_tap_dim {
  int32_t stride; /* bytes */
  uint32_t cols;
  const uint32_t *row, *col;
  const wafer_tap_part *part;
} wafer_tap_dim;

typedef struct wafer_tap {
  uint32_t kernel, output; /* of the plan; of the kernel */
  uint32_t replica;        /* sums: one of each; of others the first has what is asked for */
  bool weight;             /* not the output: the weight whose gradient it is, f32 */
  int32_t address;
  wafer_tap_dim dim[WAFER_MAX_RANK];
} wafer_tap;

typedef struct wafer_launch {
  wafer_launch_kind kind;
  uint32_t phase;
  uint32_t action;    /* the first one, of the phase's actions; 0 for the other kinds */
  uint32_t sample;    /* below the plan's batch; 0 for the other kinds */
  uint32_t program;   /* index into the plan's programs */
  uint64_t predicted; /* cycles; of a train: of one sample by itself */
  uint64_t
      interval;  /* of a train: cycles from sample to sample, predicted; 0 for the other kinds */
  uint64_t fill; /* of a train: what `samples` of them take beside samples * interval, until the
                    last words have left the wafer, predicted; those that fill a pipeline leave
                    unlike later ones: */
  uint32_t short_train_count;
  const uint64_t *short_trains; /* what trains of 2, 4, 8 ... samples take, predicted */
  /* Of a train, of its first sample by itself, value by value: when the first words of the value
   * are at the border, and for how many cycles all of them pass it. */
  uint32_t leaving_count; /* of both */
  const uint64_t *leaving;
  /* Of a train: the kernel whose cores receive, compute and send longest; WAFER_NONE: no train. */
  uint32_t slowest;
  uint32_t tap_count; /* in no file: wafer_plan_add_programs makes them when asked */
  const wafer_tap *taps;
} wafer_launch;

/* Weights come a long way: cores of a load are ready for the first word, which comes so many cycles
 * after they began; from then on its cycles count. */
static inline uint32_t wafer_launch_opening(const wafer_machine *m) {
  return m->task_switch_cycles + m->vector_setup_cycles + m->descriptor_load_cycles +
         WAFER_CORE_THREADS;
}

/* Constants of the program: bytes in the memory of every core of a rectangle before it starts. */
typedef struct wafer_launch_data {
  wafer_rect cores;
  uint32_t address;
  wafer_bytes bytes;
} wafer_launch_data;

/* The contents of a launch's program file. */
typedef struct wafer_launch_body {
  wafer_bytes program; /* of wafer_fabric_program_write */
  /* Cores mark the beginning of part i with i: the action of the phase that it belongs to. The end
   * of everything is marked with part_count. */
  uint32_t part_count;
  const uint32_t *parts;
  uint32_t port_count, data_count;
  const wafer_port_use *ports;
  const wafer_launch_data *data;
} wafer_launch_body;

/* To bytes in the arena; the same body gives the same bytes. False: no memory, or more than 2 GiB.
 */
bool wafer_launch_write(wafer_arena *arena, const wafer_launch_body *body, wafer_bytes *out);
/* From untrusted bytes; everything lives in the arena. `file` is for
 * messages. Values, places and boxes may be any: see wafer_port_fits, and the fabric's own checks.
 */
wafer_status wafer_launch_read(const wafer_diag *diag, const char *file, wafer_arena *arena,
                               wafer_bytes bytes, wafer_launch_body *body);
/* Every box lies inside a tensor of so many elements; *count: elements in all, at most 2^32 - 1. */
bool wafer_port_fits(const wafer_port_use *port, int64_t elements, uint64_t *count);

#ifdef __cplusplus
}
#endif
#endif
