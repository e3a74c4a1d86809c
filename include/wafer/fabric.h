/* The fabric, cycle by cycle: cores that execute programs against their own memory, routers that
 * carry wavelets of 32 bits over static routes. docs/core.md describes both and gives the sources.
 *
 * A program for the fabric is data: core programs (one per class of core, stored once), which core
 * runs which, and routes. Time is an integer cycle; results do not depend on the order of visits.
 * The emulator is strict: reading what nobody wrote, writing outside, a wavelet without a route or
 * without a reader, a deadlock: WAFER_TRAP with core, cycle, colour, kernel and ONNX node. */
#ifndef WAFER_FABRIC_H
#define WAFER_FABRIC_H

#include "wafer/machine.h"
#include "wafer/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- core programs ---- */

typedef enum wafer_core_op {
#define VECTOR(name, ...) WAFER_CORE_##name,
#include "wafer/core_ops.def"
  WAFER_CORE_VECTORS,
  WAFER_CORE_before_scalars = WAFER_CORE_VECTORS - 1,
#define SCALAR(name) WAFER_CORE_##name,
#include "wafer/core_ops.def"
  WAFER_CORE_OPS
} wafer_core_op;

const char *wafer_core_op_name(wafer_core_op op);

#define WAFER_CORE_REGISTERS 16
#define WAFER_CORE_THREADS 8   /* the emulator's limit; the machine may have fewer */
#define WAFER_CORE_BINDINGS 48 /* input and output queues in use by one program */
#define WAFER_CORE_TASKS 32
#define WAFER_INSTRUCTION_BYTES 8 /* of code, each; a descriptor takes as much again */

typedef enum wafer_operand_kind {
  WAFER_OPERAND_none,
  WAFER_OPERAND_memory,   /* address + r[reg], strides in bytes */
  WAFER_OPERAND_fabric,   /* the program's binding for `color` */
  WAFER_OPERAND_constant, /* value */
  WAFER_OPERAND_null,     /* as output: what is computed is dropped */
} wafer_operand_kind;

#define WAFER_NO_REGISTER 255
#define WAFER_LEVELS 4 /* of a descriptor */

/* A descriptor. f64 f32 f16 bf16 i8..i64 u8..u64 bool, as kernel fidelity stores them; smaller
 * types, a byte each, are moved and converted only. On the
 * fabric 32 bits are a wavelet: four elements of 8 bits, two of 16, half a one of 64; the last
 * wavelet of an instruction may be part filled. */
typedef struct wafer_operand {
  uint8_t kind, dtype, color;
  uint8_t reg; /* added to the address; WAFER_NO_REGISTER: none */
  int32_t address;
  int32_t stride[WAFER_LEVELS]; /* bytes, outermost first, for the levels of the shape; 0 repeats */
  double value;
} wafer_operand;

/* What the last wavelet of an instruction does to the switches of its colour that it passes. */
typedef enum wafer_control {
  WAFER_CONTROL_none,
  WAFER_CONTROL_advance, /* to the next position; from the last to the first where the route wraps
                          */
  WAFER_CONTROL_reset,   /* to position 0 */
} wafer_control;

typedef struct wafer_instruction {
  uint8_t op;
  uint8_t thread;        /* microthread of a vector instruction */
  uint8_t after;         /* 1 + the microthread whose present instruction must end first; 0: none */
  bool async;            /* the task goes on while it runs */
  bool load_descriptors; /* not in registers yet: takes longer to set up */
  uint8_t control;       /* wafer_control */
  uint8_t then;          /* 1 + the task to activate at its end; 0: none */
  uint8_t count_reg;     /* stands for shape[3]; WAFER_NO_REGISTER: none does */
  uint8_t a, b, c;       /* registers of scalar instructions; WAFER_NO_REGISTER reads as 0 */
  uint16_t function;     /* of apply: a wafer_op of trait MAP; of load: a wafer_dtype */
  uint16_t target;       /* task, or instruction of a branch */
  int32_t value;
  uint32_t shape[WAFER_LEVELS]; /* elements, outermost first; all operands step through it */
  const wafer_attrs *attrs;     /* of apply's function; NULL: none */
  wafer_operand out, in[3];
} wafer_instruction;

typedef enum wafer_task_kind {
  WAFER_TASK_start,   /* at cycle 0 */
  WAFER_TASK_local,   /* when activated */
  WAFER_TASK_data,    /* on each wavelet of `color`, which is then in the last register */
  WAFER_TASK_control, /* on each control wavelet of `color` */
} wafer_task_kind;

typedef struct wafer_core_task {
  uint8_t kind, color;
  bool blocked; /* at first */
  uint32_t entry;
} wafer_core_task;

/* A queue between core and router, by its number in the machine file, and the colour that uses it.
 */
typedef struct wafer_core_binding {
  uint8_t color, queue;
  bool output;
} wafer_core_binding;

typedef struct wafer_core_program {
  const char *name; /* kernel and class */
  const char *node; /* ONNX node, or NULL */
  const wafer_instruction *code;
  uint32_t code_count;
  const wafer_core_task *tasks;
  uint32_t task_count;
  const wafer_core_binding *bindings;
  uint32_t binding_count;
} wafer_core_program;

/* Bytes of code and descriptors; data starts at address 0 and ends where reserved bytes and code
 * begin. */
uint32_t wafer_core_program_bytes(const wafer_core_program *program);

/* ---- routes ---- */

typedef enum wafer_port {
  WAFER_PORT_north,
  WAFER_PORT_east,
  WAFER_PORT_south,
  WAFER_PORT_west,
  WAFER_PORT_ramp,
  WAFER_PORTS
} wafer_port;
#define WAFER_TO(port) (1u << WAFER_PORT_##port)

#define WAFER_SWITCH_POSITIONS 4

/* One colour at the routers of a rectangle: from one port to a set of ports, per switch position.
 */
typedef struct wafer_route {
  wafer_rect cores;
  uint8_t color;
  uint8_t positions; /* 1: static; more: a control wavelet advances to the next */
  bool wrap;         /* from the last position to the first, else it stays */
  struct {
    uint8_t from; /* wafer_port */
    uint8_t to;   /* set of WAFER_TO */
  } at[WAFER_SWITCH_POSITIONS];
} wafer_route;
/* Sets of ports that words come through, and leave through, at any position. */
static inline uint32_t wafer_route_from(const wafer_route *route) {
  uint32_t ports = 0;
  for (uint32_t i = 0; i < route->positions; i++) ports |= 1u << route->at[i].from;
  return ports;
}
static inline uint32_t wafer_route_to(const wafer_route *route) {
  uint32_t ports = 0;
  for (uint32_t i = 0; i < route->positions; i++) ports |= route->at[i].to;
  return ports;
}

/* What a core's ramp lets in of a colour: runs of wavelets, `skip, keep, skip, keep ...`, then with
 * `repeat` from the start again, else nothing more. Those that are skipped have room always and
 * cost the core nothing. */
typedef struct wafer_filter {
  const uint32_t *runs;
  uint32_t run_count;
  bool repeat;
} wafer_filter;

typedef struct wafer_filter_use {
  wafer_rect cores;
  uint8_t color;
  uint32_t filter;
} wafer_filter_use;

#define WAFER_NO_PROGRAM UINT32_MAX

typedef struct wafer_fabric_program {
  const char *name;
  uint32_t width, height; /* cores, from (0, 0) */
  const wafer_core_program *programs;
  uint32_t program_count;
  const uint32_t *core;      /* width * height: index of the program, or WAFER_NO_PROGRAM */
  const wafer_route *routes; /* one per router and colour */
  uint32_t route_count;
  const wafer_filter *filters;
  uint32_t filter_count;
  const wafer_filter_use *filter_uses; /* one per core and colour, at most */
  uint32_t filter_use_count;
} wafer_fabric_program;

/* ---- running ---- */

typedef struct wafer_fabric wafer_fabric;

typedef struct wafer_fabric_stats {
  uint64_t cycles;      /* to the end of the last task or instruction */
  uint64_t border;      /* to the last word that crossed the border */
  uint64_t hops;        /* wavelets over links between routers */
  uint64_t elements;    /* of vector instructions */
  uint64_t core_cycles; /* in which a core computed, controlled or sent, over all cores */
} wafer_fabric_stats;

typedef struct wafer_fabric_options {
  uint32_t threads; /* of the host; 0: as many as it has. Nothing but time depends on it. */
  /* Every wavelet by itself at every router, instead of rows of queues and trains of words at once:
   * the same results, cycle for cycle, for comparison. */
  bool single;
  /* `single`, and a core is visited for every element that it sends or takes: what the others are
   * compared with. */
  bool plain;
  /* Threads share out what has nothing to do with each other for a while, instead of parts of the
   * wafer in every cycle, where it has more than 1,024 cores: better for networks, in which few
   * cores are at work at once, and worse where all cores talk to all. */
  bool islands;
  uint32_t strips; /* for tests: the wafer is cut into so many parts, which changes nothing */
  uint32_t island; /* for tests: so is what has more cores than twice as many, where it can be */
} wafer_fabric_options;

/* Borrows machine and program, which stay as they are as long as it has them; options NULL: one
 * thread. BAD_INPUT: a route or a program that no core could have; NO_FIT: code or queues beyond
 * the machine's. */
wafer_status wafer_fabric_create(const wafer_diag *diag, const wafer_machine *machine,
                                 const wafer_fabric_program *program,
                                 const wafer_fabric_options *options, wafer_fabric **out);
void wafer_fabric_destroy(wafer_fabric *fabric);
/* New programs, routes and filters on a fabric of the same size; memories stay as they are, with
 * what has been written; feeds, drains and rates go. The fabric may run again, from cycle 0. */
wafer_status wafer_fabric_reprogram(wafer_fabric *fabric, const wafer_fabric_program *program);
/* Memory and registers from outside, before and after a run. False: beyond the memory of the core
 * or of the host, or, for read, not written by anyone. Registers are those of a core that has a
 * program. */
bool wafer_fabric_write(wafer_fabric *fabric, uint32_t x, uint32_t y, uint32_t address,
                        const void *data, uint32_t bytes);
bool wafer_fabric_read(const wafer_fabric *fabric, uint32_t x, uint32_t y, uint32_t address,
                       void *data, uint32_t bytes);
void wafer_fabric_set(wafer_fabric *fabric, uint32_t x, uint32_t y, uint32_t reg, int32_t value);
int32_t wafer_fabric_get(const wafer_fabric *fabric, uint32_t x, uint32_t y, uint32_t reg);
/* The cycle after a core's last instruction. */
uint64_t wafer_fabric_finish(const wafer_fabric *fabric, uint32_t x, uint32_t y);
/* Words through a port of a router at the border, where no neighbour is. What is fed comes in like
 * wavelets from a neighbour, the last of them with `control`; what is drained leaves the same way.
 * A drain of 0 words says that none is to come, and no route may lead outside without a drain;
 * where
 * *`finish` is earlier, it becomes the cycle in which the last of the words has left (NULL:
 * unseen). Feeds (drains) of one port and colour queue up in the order of the calls. `words` and
 * `finish` are borrowed until the run has ended. Before the run; USAGE: no port of the border;
 * BAD_INPUT: no route there.
 */
wafer_status wafer_fabric_feed(wafer_fabric *fabric, uint32_t x, uint32_t y, wafer_port port,
                               uint8_t color, const uint32_t *words, uint32_t count,
                               wafer_control control, uint32_t group);
wafer_status wafer_fabric_drain(wafer_fabric *fabric, uint32_t x, uint32_t y, wafer_port port,
                                uint8_t color, uint32_t *words, uint32_t count, uint32_t group,
                                uint64_t *finish);
#define WAFER_EDGE_GROUPS 16
/* All feeds and drains of a group (below WAFER_EDGE_GROUPS) share `words` per `cycles`, in turn
 * within a round;
 * without a rate each has a word a cycle. */
void wafer_fabric_rate(wafer_fabric *fabric, uint32_t group, uint32_t words, uint32_t cycles);
/* Feeds and drains of the calls from here on wait for the rate behind those so far: what shares one
 * is served in such rounds, the first that can go. Before the run. */
void wafer_fabric_round(wafer_fabric *fabric);
/* The next run takes nothing from the host before this cycle, and counts its cycles from it: words
 * that have come a long way meet cores that are ready for them. */
void wafer_fabric_open(wafer_fabric *fabric, uint32_t cycle);
#define WAFER_LINKS 4 /* out of a router: wafer_port but the ramp */
/* Whether the runs from now on count what every link carries, which takes time and memory. */
void wafer_fabric_count(wafer_fabric *fabric, bool count);
/* Adds what the last run did: per core (width * height) the cycles in which it was at work,
 * per link (WAFER_LINKS of each router in turn) the wavelets that left over it, in all as many as
 * the hops; nothing where they were not counted. Either may be NULL. */
void wafer_fabric_load(const wafer_fabric *fabric, uint64_t *core_cycles, uint64_t *wavelets);
/* Called at every `mark`, those of a cycle in the order of routers; NULL: nobody. */
typedef void wafer_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value);
void wafer_fabric_observe(wafer_fabric *fabric, wafer_mark *mark, void *user);
/* From the start tasks until nothing moves. Once per program. */
wafer_status wafer_fabric_run(wafer_fabric *fabric, wafer_fabric_stats *stats);
/* For tests: visits in another order, which must change nothing. */
void wafer_fabric_shuffle(wafer_fabric *fabric, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
