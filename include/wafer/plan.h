/* The plan: machine + functions of steps + phases + where each weight is. All that the runtime
 * needs; the seam between the backend, which fills it, and the runtime, which executes it.
 *
 * Laws of execution
 * - A *holding* is a copy of a value at one place: at the wafer's edge (host side), in MemoryX, or
 * on a rectangle of cores in a layout. A value exists only where holdings say so.
 * - At the start of a function each input has an edge holding; each weight a MemoryX holding.
 * - A stream needs the holding `from` of its value and makes the holding `to`.
 * - A kernel needs, for input i, the holding {its rect, wafer_kernel_input_layout(i)} of that value
 * and makes {its rect, output layout} for each output.
 * - A phase runs its streams and kernels in the order of `actions`; then `frees` drop every wafer
 * holding of the values named. A function ends with an edge holding of each output; gradients of
 * pipelined training stay on the wafer instead (wafer_plan_updates).
 * - Using a holding that is not there is a trap; so is a core that would hold more bytes than it
 * has.
 *
 * A plan read from a file is untrusted: wafer_plan_check proves all of this before anything runs.
 * An opened plan is immutable and may be shared between threads. */
#ifndef WAFER_PLAN_H
#define WAFER_PLAN_H

#include "wafer/host.h"
#include "wafer/kernel.h"
#include "wafer/launch.h"
#include "wafer/optimizer.h"
#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_NONE UINT32_MAX
/* Most samples that one buffer holds; a plan above it is refused. */
#define WAFER_MAX_DEPTH 65536

typedef enum wafer_owner {
  WAFER_OWNER_input,
  WAFER_OWNER_output,
  WAFER_OWNER_weight,
  WAFER_OWNER_state,
  WAFER_OWNER_activation,
  WAFER_OWNER_gradient,
} wafer_owner;
const char *wafer_owner_name(wafer_owner owner);

typedef enum wafer_mode { WAFER_MODE_auto, WAFER_MODE_pipelined, WAFER_MODE_streaming } wafer_mode;
const char *wafer_mode_name(wafer_mode mode);

/* tensor: of static type. host: whatever host steps make and take, see item.h; its type is none. */
#define WAFER_VALUE_KIND_MAP(X) X(tensor) X(host)
typedef enum wafer_value_kind {
#define X(name) WAFER_VALUE_##name,
  WAFER_VALUE_KIND_MAP(X)
#undef X
      WAFER_VALUE_COUNT
} wafer_value_kind;
const char *wafer_value_kind_name(wafer_value_kind kind);

/* A value of the plan. An output that is an input or a weight unchanged is a value of its own,
 * made by a `move` kernel. */
typedef struct wafer_value {
  const char *name; /* ONNX value name; inputs and outputs carry the model's */
  const char *node; /* ONNX node that makes it, "" for inputs and weights */
  wafer_owner owner;
  wafer_type type; /* element type in ONNX's terms */
  uint32_t weight; /* index into the plan's weights, WAFER_NONE */
  wafer_value_kind kind;
} wafer_value;

typedef enum wafer_where { WAFER_AT_edge, WAFER_AT_memoryx, WAFER_AT_wafer } wafer_where;
const char *wafer_where_name(wafer_where where);

typedef struct wafer_holding {
  wafer_where where;
  wafer_rect rect;     /* wafer only */
  wafer_layout layout; /* wafer only */
} wafer_holding;

bool wafer_holding_equal(const wafer_holding *a, const wafer_holding *b);

/* What carries a value from one place to others: a colour and a static route. */
typedef struct wafer_route_segment { /* straight run of routers, both ends included */
  uint32_t x0, y0, x1, y1;
} wafer_route_segment;
/* From router to router along a route's segments: the wire that it takes. */
static inline uint64_t wafer_route_hops(uint32_t count, const wafer_route_segment *route) {
  uint64_t hops = 0;
  for (uint32_t i = 0; i < count; i++) {
    const wafer_route_segment *s = &route[i];
    hops += s->x0 < s->x1 ? s->x1 - s->x0 : s->x0 - s->x1;
    hops += s->y0 < s->y1 ? s->y1 - s->y0 : s->y0 - s->y1;
  }
  return hops;
}

typedef struct wafer_stream {
  uint32_t value;
  wafer_holding from, to;
  uint32_t from_kernel,
      to_kernel; /* WAFER_NONE at the edge, in MemoryX, or for what an earlier phase left */
  uint32_t color;
  uint32_t route_count;
  /* Trunk from source to target rectangle, connected end to end; it passes every replica of the
   * kernels there, each of which takes or gives its samples. */
  const wafer_route_segment *route;
  uint64_t words;   /* wavelets of one sample (of the whole tensor for a weight) */
  uint64_t cycles;  /* its links are busy per sample */
  uint64_t latency; /* cycles from the first word's departure to its arrival */
  uint32_t
      depth; /* samples buffered at the target; fewer than are resident: see wafer_stream_passes */
} wafer_stream;

/* One line of a core's memory map. */
typedef struct wafer_memory_item {
  const char *what; /* "code", "weight conv1.w", "input x (2 samples)", ... */
  const char *node; /* ONNX node or value it comes from */
  uint64_t bytes;   /* per core of the rectangle */
} wafer_memory_item;

typedef struct wafer_kernel {
  const char *name;
  wafer_kernel_body body;
  const uint32_t *inputs;  /* plan values, body.input_count of them */
  const uint32_t *outputs; /* plan values, body.output_count of them */
  wafer_split split;
  wafer_rect rect;
  uint32_t
      replicas; /* copies of the rectangle side by side; sample s runs on replica s % replicas */
  uint32_t
      slabs; /* tiles the host cuts the work into at kernel fidelity; part of the result's bits */
  wafer_cost cost;         /* as sizing estimates it */
  uint64_t program_cycles; /* of a sample, what its core programs take; 0: it has none yet */
  wafer_bound bound;
  uint32_t memory_count;
  const wafer_memory_item *memory; /* sums to wafer_cost_bytes(&cost) */
} wafer_kernel;

/* Predicted cycles of a sample: those of its programs where it has some. */
static inline uint64_t wafer_kernel_cycles(const wafer_kernel *k) {
  return k->program_cycles ? k->program_cycles : k->cost.cycles;
}

typedef enum wafer_action_kind { WAFER_ACTION_stream, WAFER_ACTION_kernel } wafer_action_kind;
typedef struct wafer_action {
  wafer_action_kind kind;
  uint32_t index; /* into the plan's streams or kernels */
} wafer_action;

/* Kernels and streams that are on the wafer at the same time. In streaming, kernels that stand one
 * behind another among the actions run at once; for the rest actions follow each other, and so do
 * samples of a stripe. */
typedef struct wafer_phase {
  const char *name;
  uint32_t action_count;
  const wafer_action *actions; /* in an order in which every holding is made before it is used */
  uint32_t free_count;
  const uint32_t *frees;    /* values whose wafer holdings end with the phase */
  uint64_t peak_core_bytes; /* most bytes on one core: kernels of the phase and everything held,
                               weights of later phases that have come ahead among it */
} wafer_phase;

/* The first action behind `action` that does not run with it. */
uint32_t wafer_phase_run_end(const wafer_phase *phase, uint32_t action);

/* Later kinds (repeat, store-gradient, sum, update, bind-state) join this table with the features
 * that need them. STEP(name, summary) */
#define WAFER_STEP_MAP(X)                                                                          \
  X(load, "weights of a phase from MemoryX to their cores, ahead of it")                           \
  X(phase, "run a phase on a group of samples")                                                    \
  X(host, "one host operator over values at the edge")                                             \
  X(call, "another function of the plan")                                                          \
  X(if, "one of two functions, by a condition")                                                    \
  X(loop, "a function again and again, as ONNX's Loop")                                            \
  X(scan, "a function over slices, as ONNX's Scan")                                                \
  X(map, "a function over the elements of sequences, as ONNX's SequenceMap")                       \
  X(fit, "the first of several functions whose inputs are of the given types")

typedef enum wafer_step_kind {
#define X(name, summary) WAFER_STEP_##name,
  WAFER_STEP_MAP(X)
#undef X
      WAFER_STEP_COUNT
} wafer_step_kind;

/* A function is one of two kinds. A *wafer function* has load and phase steps alone. A *host
 * function* has all the others: it runs beside the wafer, sample by sample, and its values are held
 * at the edge, host values among them. Its bodies are functions of larger index, so that no call
 * can come back; a value is made in one place of the plan.
 *
 * load: runs the weight streams of `phase` (their `from` is MemoryX); the phase then finds the
 * holdings and its own pass over those streams is skipped. phase: runs it for every sample of the
 * group. Pipelined: load, phase. Streaming: a phase's weight streams overlap the phase before it,
 * or all from the one on that a load step of theirs stands before; they come for every group. host:
 * outputs = op(inputs, attrs). call: outputs = bodies[0](inputs). if: outputs = bodies[inputs[0] ?
 * 0 : 1](inputs[1..]). loop: inputs are the most trips and the condition (WAFER_NONE: none),
 * `carried` values, captures; the body takes trip, condition, carried values, captures and gives
 * condition, carried values, slices; outputs are the carried values, then the slices stacked along
 * a new first dim. scan: inputs are `carried` values, the tensors to be cut (as many as attribute
 * scan_input_axes has entries), captures; the body takes carried values, slices, captures and gives
 * carried values, slices. fit: outputs = bodies[i](inputs), the first i whose inputs of static type
 * are those. map: inputs are `carried` sequences, or tensors that stay as they are, then captures.
 */
typedef struct wafer_step {
  wafer_step_kind kind;
  uint32_t phase;   /* load, phase; else WAFER_NONE */
  wafer_host_op op; /* host; else none */
  const char *node; /* ONNX node, "" for load, phase and call */
  uint32_t carried; /* loop, scan, map */
  uint32_t input_count, output_count, body_count, attr_count;
  const uint32_t *inputs, *outputs; /* values, WAFER_NONE where one is left out */
  const uint32_t *bodies;           /* functions */
  const wafer_host_attr *attrs;
} wafer_step;

static inline bool wafer_step_on_wafer(const wafer_step *step) {
  return step->kind == WAFER_STEP_load || step->kind == WAFER_STEP_phase;
}
const char *wafer_step_kind_name(wafer_step_kind kind);

typedef struct wafer_function {
  const char *name;
  uint32_t input_count, output_count, step_count;
  const uint32_t *inputs, *outputs; /* plan values */
  const wafer_step *steps;
} wafer_function;

/* Whether it has steps beside load and phase. */
bool wafer_function_on_host(const wafer_function *function);
/* It has steps, and all are the wafer's. */
bool wafer_function_on_wafer(const wafer_function *function);

/* A weight that training changes. */
typedef struct wafer_trained {
  uint32_t weight;   /* index of the plan's weights, which has `trained` set; ascending */
  uint32_t gradient; /* value, output of functions[0], of the weight's type; NONE: evaluation */
  bool statistic;    /* the output is no gradient: the weight becomes its mean over micro-batches */
} wafer_trained;

/* An input of functions[0] that the driver fills with draws from [0, 1) of f32, keyed by seed,
 * step, micro-batch and this key: XXH3-64 of the ONNX node's name. */
typedef struct wafer_noise {
  uint32_t input;
  uint64_t key;
} wafer_noise;

/* What makes a plan a training plan: one run of functions[0] is one micro-batch, forward and, but
 * for evaluation, backward. Values are inputs and outputs of functions[0]; loss, count, correct and
 * seed are f32 scalars. */
typedef struct wafer_training {
  uint32_t loss;    /* output: sum of the losses of the elements that count */
  uint32_t count;   /* output: number of those elements */
  uint32_t correct; /* output: those whose largest class is the label; NONE but in evaluation plans
                       of losses with classes */
  uint32_t labels;  /* input */
  uint32_t seed;    /* input: gradient of `loss` to start the backward pass; NONE: evaluation */
  uint32_t micro_batch;           /* leading dim of the inputs */
  uint32_t classes;               /* labels are numbers below it; 0: they are none of classes */
  wafer_optimizer_kind optimizer; /* of wafer_plan_updates; elsewhere it says nothing */
  uint32_t trained_count, noise_count;
  const wafer_trained *trained;
  const wafer_noise *noises;
} wafer_training;

/* What one mode would cost; both are kept for the report. */
typedef struct wafer_mode_cost {
  bool fits;
  const char *why_not;                      /* "" when it fits */
  uint64_t latency_cycles, interval_cycles; /* one sample; steady state per sample */
  uint64_t cores;
  uint64_t peak_core_bytes;
} wafer_mode_cost;

#define WAFER_PROGRAMS_LATER "made when they are needed"

typedef struct wafer_plan {
  const char *model;    /* file name without folder */
  const char *producer; /* "wafer 0.1.0" */
  /* What kernels, streams and programs lie on: the wafer, or a band of it. Every band has the same
   * pipeline or phases, `machine->height` rows below the band before; sample s passes through band
   * s % wafer_machine_bands(machine). */
  const wafer_machine *machine;
  wafer_mode mode; /* pipelined or streaming */
  wafer_dtype storage;
  uint32_t batch; /* samples resident together on `machine` (streaming); 1 for pipelined */
  /* Streaming: the wafer is cut into so many stripes alike, each as many columns east of the one
   * before; rectangles say where things lie in the first. Sample s of the batch is held and
   * computed in stripe s mod stripes, weights go to all. 1 for pipelined, which has no columns. */
  uint32_t stripes, stripe_columns;
  wafer_mode_cost pipelined, streaming;
  uint32_t flip_batch; /* samples resident at which the faster mode changes, 0: never */
  uint32_t node_count; /* ONNX nodes of the model */

  uint32_t value_count, kernel_count, stream_count, phase_count, function_count;
  const wafer_value *values;
  const wafer_kernel *kernels;
  const wafer_stream *streams;
  const wafer_phase *phases;
  const wafer_function *functions; /* functions[0] is "main" */
  const wafer_weights *weights;
  const wafer_training *training; /* NULL: inference */
  /* Fabric fidelity; none when the plan was compiled without programs. In the order of execution
   * within a phase. Programs are those of wafer_launch_write; equal ones are stored once. */
  uint32_t launch_count, program_count;
  const wafer_launch *launches;
  const wafer_bytes *programs;
  /* Pipelined training with programs: the first of the values, appended, that ports alone name:
   * WAFER_UPDATE_NUMBERS; then each trained weight in f32 as it is at first; then the sum of a
   * kernel's squares. Bits, in u32, that no storage type narrows. 0: there are none. */
  uint32_t step_values;
  const char *no_programs; /* why there are none, beginning with WAFER_PROGRAMS_LATER where they
                              were not tried, or took too long; "" when there are */
  uint64_t effort;         /* that programs took to make: looks at what is on the wafer, of which a
                              million take one to four hundredths of a second; not in the file */
  const char *mlir;        /* the placed IR as text, for people and tools */
  size_t mlir_bytes;
  struct wafer_plan_file
      *file; /* of wafer_plan_open: its mapping and digests; NULL for one built in memory */
} wafer_plan;

/* Pipelined training: the weights stay on the wafer. Every gradient is a summed output of the
 * kernel that makes it and of no other; at the end of a batch the same cores update the weight with
 * it, and send the new one to every kernel that reads it. */
static inline bool wafer_plan_updates(const wafer_plan *plan) {
  return plan->training && plan->mode == WAFER_MODE_pipelined && plan->training->seed != WAFER_NONE;
}

/* Samples of the batch that lie in one stripe. */
static inline uint32_t wafer_plan_resident(const wafer_plan *plan) {
  return plan->batch / plan->stripes;
}
/* Where the first stripe begins: the column farthest west that a kernel has. */
static inline uint32_t wafer_plan_first_column(const wafer_plan *plan) {
  uint32_t x = UINT32_MAX;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    if (plan->kernels[k].rect.x < x) x = plan->kernels[k].rect.x;
  return x;
}
/* Samples that are on the wafer together, of all bands. */
static inline uint64_t wafer_plan_together(const wafer_plan *plan) {
  return (uint64_t)plan->batch * (plan->machine->cut.together ? plan->machine->cut.bands : 1);
}
/* Bytes of a core's part of a value that lies so, of one sample: those of its pairs where it is a
 * weight that the kernel there takes as such. Saturates. */
uint64_t wafer_plan_held_bytes(const wafer_plan *plan, uint32_t value, const wafer_holding *at);

/* A sample's inputs and outputs of a function of the wafer: bytes that cross the wafer's edge, each
 * value once, without gradients that stay on the wafer; and the cycles of the direction that takes
 * longer, below which no interval is. */
typedef struct wafer_edge_traffic {
  uint64_t in_bytes, out_bytes, cycles;
} wafer_edge_traffic;
wafer_edge_traffic wafer_plan_edge_traffic(const wafer_plan *plan, uint32_t function);

/* From the edge or MemoryX, or to the edge: such a stream runs past stripes. */
static inline bool wafer_stream_crosses(const wafer_stream *stream) {
  return stream->from.where != WAFER_AT_wafer || stream->to.where != WAFER_AT_wafer;
}

/* Samples that a launch of an action serves, the first of them launch->sample: one in every stripe;
 * of what crosses the border, where samples follow each other, one. */
uint32_t wafer_launch_samples(const wafer_plan *plan, const wafer_launch *launch);

/* In streaming a stream into the wafer with fewer samples of room than a stripe has resident: the
 * samples pass to its kernel one after the other, and what it brings ends with the phase. */
bool wafer_stream_passes(const wafer_plan *plan, const wafer_stream *stream);

/* Opens a plan file: structure, digests and laws are checked; weights are mapped and their digests
 * checked at first touch, or all at once by wafer_plan_verify. */
wafer_status wafer_plan_open(const wafer_diag *diag, const char *path, const wafer_plan **out);
void wafer_plan_close(const wafer_plan *plan); /* of wafer_plan_open; NULL is fine */
/* Writes the file under a temporary name and renames it. */
wafer_status wafer_plan_write(const wafer_diag *diag, const wafer_plan *plan, const char *path);
/* plan.xml as text, for `dump --xml`; free() it. */
wafer_status wafer_plan_print_xml(const wafer_diag *diag, const wafer_plan *plan, char **text,
                                  size_t *bytes);
/* Every digest of an opened plan, weights included. */
wafer_status wafer_plan_verify(const wafer_diag *diag, const wafer_plan *plan);
/* The digest of one weight, once; what the runtime calls at first touch. Thread safe. */
wafer_status wafer_plan_touch_weight(const wafer_diag *diag, const wafer_plan *plan,
                                     uint32_t weight);

/* Proves the laws above by executing every function symbolically: rectangles inside the usable
 * wafer and disjoint within a phase, holdings, layouts, bytes per core, colours, routes connected
 * and inside the wafer, bodies well formed (operand numbers, attribute ranges, types agree with the
 * ops' shape rules as far as memory safety needs). BAD_INPUT for structure, NO_FIT for bytes, TRAP
 * for holdings. `file` is for messages. */
wafer_status wafer_plan_check(const wafer_diag *diag, const char *file, const wafer_plan *plan);
/* The same of a plan whose phases do not say yet what they have on a core at most: that, per phase.
 */
wafer_status wafer_plan_check_peaks(const wafer_diag *diag, const char *file,
                                    const wafer_plan *plan, uint64_t *peaks);

/* What the cores of a kernel execute at fabric fidelity, in the arena: the program of its launch,
 * or, where others run with it, the part that lies on the kernel's rectangle. UNSUPPORTED: the
 * plan has no program for it. */
wafer_status wafer_plan_kernel_program(const wafer_diag *diag, wafer_arena *arena,
                                       const wafer_plan *plan, uint32_t kernel,
                                       const wafer_fabric_program **out);

/* The train through the machine, in cycles, without values: what the report and the session both
 * use. */
typedef struct wafer_timeline {
  uint64_t latency_cycles;  /* first sample, start to last output word */
  uint64_t interval_cycles; /* steady state: over the last half of the train, in streaming from a
                               group's first sample on; latency for one sample */
  uint64_t total_cycles;
  uint64_t
      *kernel_busy; /* per plan kernel: cycles it worked, whole train; caller's array or NULL */
  uint64_t *phase_cycles; /* per plan phase, first group: start to end; caller's array or NULL */
  uint64_t *finish;       /* per sample: when its last output word left; caller's array or NULL */
  /* Of a function of the wafer, first sample; caller's arrays or NULL. Per output: when its last
   * word is out. Per plan weight: when its last word has left MemoryX for the last time. */
  uint64_t *output_cycles, *weight_cycles;
} wafer_timeline;

/* Runs functions[function] for `samples` samples. Edge rates of 0 mean the machine's. Of a host
 * function: the wafer's cycles alone, the longer branch of an `if`, one trip of a loop, samples one
 * after the other; latency_cycles are those of the first, which finds no weights on the wafer. */
wafer_status wafer_timeline_run(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                                uint64_t samples, wafer_timeline *timeline);

/* What load steps of a pipeline's functions of the wafer bring to its cores. What the function that
 * ran last has kept there need not come again: the same weight (one of the plan's, in the same
 * form) on the same cores, in the same layout and replicas. It lies among the bytes that both
 * phases are proven to have room for, and nothing ran between them; all else of the function before
 * may be gone. */
typedef struct wafer_loads wafer_loads;
/* In the arena; borrows the plan. NULL: out of memory. */
const wafer_loads *wafer_loads_of(wafer_arena *arena, const wafer_plan *plan);
/* Until the weights of a function of the wafer are there: the bytes of its load steps at MemoryX's
 * rate, whose latency passes while inputs are on their way, but for those that function `last`
 * leaves (WAFER_NONE: nothing is there). 0 in weight streaming. */
uint64_t wafer_loads_cycles(const wafer_loads *loads, uint32_t function, uint32_t last);

/* What calls of a function take on the way of a sample that takes longest. */
typedef struct {
  uint64_t cycles;      /* of a call that finds the weights of `first` on the wafer */
  uint64_t load;        /* until these are there, where nothing is */
  uint64_t again;       /* until these are there, where `last` ran last, as samples of one way go */
  uint64_t calls;       /* a sample */
  uint64_t loads;       /* of these that wait for weights, samples going the same way */
  uint64_t waits;       /* the cycles that they wait */
  uint32_t first, last; /* functions of the wafer that run in it; WAFER_NONE: none does */
} wafer_call;

/* A call where nothing is on the wafer; and one behind itself. */
uint64_t wafer_call_latency(const wafer_call *call);
uint64_t wafer_call_interval(const wafer_call *call);

/* The way of a sample of functions[function] that takes longest, on an empty wafer. `calls`, per
 * function: `cycles` and `load` are given of those of the wafer, all else is found. NULL for
 * `loads`: functions leave nothing for each other. */
void wafer_plan_longest_way(const wafer_plan *plan, uint32_t function, const wafer_loads *loads,
                            wafer_call *calls);
/* The same from functions[0] on, which is of the host: by the plan's timeline. */
wafer_status wafer_plan_calls(const wafer_diag *diag, const wafer_plan *plan,
                              const wafer_loads *loads, wafer_call *calls);

/* A step of pipelined training in cycles, of a plan with wafer_plan_updates: the pipe fills, runs
 * its micro-batches, drains, and only then do weights change. Each part waits for the one before.
 *   train    total_cycles of a timeline of the micro-batches
 *   gather   replicas: a sum passes along them to the first, whose words are (replicas - 1) x tiles
 *            through the rectangle's height in lanes, and a hop per column
 *   norm     squares of the sums are added up and leave, for the norm and to see whether all is
 *            finite; loss and count have left (train has that)
 *   control  rate and scale come back to all cores
 *   update   the longest: vector instructions of the optimizer over a kernel's sums
 *   send     the longest: new weights that leave a kernel or reach it, one after the other; words
 *            over the lanes of a stream between the two rectangles, hops, and what the passes of an
 *            exchange begin with, for each replica */
typedef struct wafer_step_cycles {
  uint64_t train, gather, norm, control, update, send;
  uint64_t step;       /* all of them */
  uint64_t sent_words; /* new weights, over all kernels; none of them crosses the edge */
} wafer_step_cycles;

wafer_status wafer_plan_step_cycles(const wafer_diag *diag, const wafer_plan *plan,
                                    uint64_t micro_batches, wafer_step_cycles *out);
/* Of a plan with programs: what their launches are predicted to take; `step` is the sum of those
 * behind the train, which is left out. */
wafer_step_cycles wafer_plan_launched_step(const wafer_plan *plan);
/* The part of a step that a launch behind the train is; NULL: it is none. */
uint64_t *wafer_step_part(wafer_step_cycles *cycles, wafer_launch_kind kind);

#ifdef __cplusplus
}
#endif
#endif
