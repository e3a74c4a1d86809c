/* A fragment: what the cores of a rectangle do in one piece of a launch (an exchange, a node of a
 * kernel), with the routes it needs; and a program for the fabric made of fragments that every core
 * runs one after the other.
 *
 * Colours of a fragment are its own, counted from 0; linking gives them real ones: no other
 * fragment of the launch has that colour at any router of its routes, because cores are not at the
 * same fragment at the same time, unless its words come from the same core. Where these do not
 * suffice a fragment of a train may get several for one, on different lines, and its words may
 * leave these (fragment_ways.c). A core's code of a fragment is straight: it begins with
 * microthreads free and ends (falling out at its end) with microthreads free. Targets of branches
 * count from the beginning of the code. Registers 0 and 1 are the core's x and y; the others are a
 * fragment's to use and hold nothing when it begins. */
#ifndef BACKEND_FRAGMENT_H
#define BACKEND_FRAGMENT_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/launch.h"

#define FRAGMENT_IDLE UINT32_MAX
#define FRAGMENT_ENDS UINT32_MAX /* among steps: a sample ends */
/* Registers that are not for fragments: samples that are still to do in a train, the host's to set;
 * the wavelet of a data task. */
#define FRAGMENT_SAMPLES WAFER_TRAIN_REGISTER

/* Addresses first .. end - 1 of a core. */
typedef struct fragment_bytes {
  int32_t first, end;
} fragment_bytes;

typedef struct fragment_code {
  const wafer_instruction *code;
  uint32_t count;
  uint64_t cycles; /* predicted; of an exchange 0, for which lines tell */
  /* Of these, what each phase of chains takes with all that comes before it and behind the one
   * before; what is left comes behind the last. NULL: all of it does. */
  const uint64_t *phases;
  /* Of code that moves words alone. Joins part it into passes; of the last one, if it does nothing
   * but send: where it begins, how many instructions send, from which addresses. */
  bool moves;
  uint32_t passes, last, sends;
  fragment_bytes sent, written; /* what the last pass sends; what any pass writes to */
} fragment_code;

/* What a core keeps of the wavelets of a colour at its ramp: skip, keep, skip, keep ..., in
 * wavelets, then again from the start. */
typedef struct fragment_filter {
  const uint32_t *runs;
  uint32_t count;
} fragment_filter;

typedef struct fragment_filter_use {
  wafer_rect cores;
  uint8_t color;
  uint32_t filter;
} fragment_filter_use;

/* Each core of a rectangle passes sums on, while it makes them, to the core so far before it in its
 * row, or column; of a phase those nearest to the first come first. */
typedef struct fragment_chain {
  wafer_rect cores;
  bool columns;
  uint32_t distance, phase;
  uint64_t words;
} fragment_chain;

/* Each core of a rectangle sends so many words on a colour that no other core of the fragment sends
 * to the same cores. */
typedef struct fragment_source {
  wafer_rect cores;
  uint8_t color;
  uint64_t words;
} fragment_source;

/* Lines alike, along rows or columns of the fabric: of which coordinates. */
typedef struct fragment_span {
  uint32_t first, count;
} fragment_span;

/* What one core sends on a bus, to cores farther on. Places count in the direction of the bus. */
typedef struct fragment_block {
  uint32_t at;
  uint64_t words;
  uint64_t cycles; /* in which its core can send them, set-ups of many sends included */
} fragment_block;

/* What a core keeps of a bus: the last of it ends at word `end` of a block; if it is more than its
 * queue holds, the first that finds no room there ends at word `full` of an earlier block, or of
 * that one. */
typedef struct fragment_taker {
  uint32_t at, block, full_block;
  uint64_t words, end, full; /* 0: there is room for all */
  bool other; /* the core itself sends on another colour of this direction, if it does */
} fragment_taker;

/* Blocks in the order in which they pass, that of the farthest sender first; takers by the last
 * word that they keep, and those that can be full by the word with which they are. */
typedef struct fragment_bus {
  bool back; /* place q is position length - 1 - q of the line */
  uint32_t block_count, taker_count, full_count;
  const fragment_block *blocks;
  const fragment_taker *takers;
  const uint32_t *full; /* indices into takers */
} fragment_bus;

/* Instructions of a core of a line, in their order: what it sends forth, what it takes of those
 * that share its colour and of others; then back. */
enum {
  FRAGMENT_SEND,
  FRAGMENT_TAKE,
  FRAGMENT_TAKE_OTHERS,
  FRAGMENT_BACK, /* the same three from here on */
  FRAGMENT_TRANSFERS = 2 * FRAGMENT_BACK
};
typedef struct fragment_transfers {
  uint32_t count[FRAGMENT_TRANSFERS];
} fragment_transfers;

/* To where the first pass of an exchange goes, if all of its words go to one side. */
typedef enum fragment_way {
  FRAGMENT_ANY_WAY,
  FRAGMENT_EAST,
  FRAGMENT_WEST,
  FRAGMENT_SOUTH,
  FRAGMENT_NORTH
} fragment_way;

/* Lines on which an exchange passes words. Of each position the cycles in which the vector unit is
 * busy with it, 0: nothing is to do there. */
typedef struct fragment_line {
  bool columns, trunks, border; /* as line_place has them */
  uint32_t first, length;       /* coordinate of position 0; with a border, of position 1 */
  uint32_t span_count, bus_count;
  const fragment_span *spans;
  const fragment_bus *buses;
  const uint64_t *busy;
  const fragment_transfers *transfers; /* of each position */
} fragment_line;

typedef struct fragment {
  const char *name; /* of the kernel or stream, for traps */
  const char *node; /* ONNX node, or NULL */
  bool stream; /* it moves a value from where it was made to where a kernel reads it, or the host */
  bool even;   /* it might want fewer colours if it were slower */
  bool makes_room;   /* for what comes next: also when no sample is to come any more */
  wafer_rect rect;   /* cores that run code */
  uint32_t *variant; /* width * height of rect, row-major: index into codes, FRAGMENT_IDLE */
  uint32_t code_count, code_room;
  fragment_code *codes;            /* no two alike */
  uint32_t *buckets, bucket_count; /* of codes, by hash */
  wafer_instruction *spare;        /* room for one that may be known */
  uint32_t spare_room;
  fragment_way way;            /* of an exchange between kernels */
  wafer_rect scratch_at;       /* of an exchange: cores on which words on their way lie, */
  uint32_t scratch_end;        /* below this address */
  struct fragment_pair *pairs; /* codes put one behind the other so far, by hash */
  uint32_t pair_count, pair_room;
  uint32_t colors; /* used: 0 .. colors - 1 */
  uint32_t route_count, route_room;
  wafer_route *routes;
  uint32_t filter_count, filter_room;
  fragment_filter *filters; /* no two alike */
  uint32_t *filter_buckets, filter_bucket_count;
  uint32_t use_count, use_room;
  fragment_filter_use *uses;
  uint32_t source_count, source_room;
  fragment_source *sources; /* as far as they are known: see fragment_color.h */
  uint32_t port_count, port_room;
  wafer_port_use *ports; /* what crosses the border, in order */
  uint32_t line_count, line_room;
  fragment_line *lines; /* of an exchange, in the order in which cores go through them */
  uint32_t around;      /* hops that words go more than along these, at most (fragment_around.h) */
  uint64_t cycles;      /* predicted */
  uint64_t border;      /* of these, for which words cross the border at its rate */
  uint32_t chain_count, chain_room;
  fragment_chain *chains; /* phase by phase */
  uint32_t phase_count;   /* of chains */
  wafer_arena *arena;
  bool failed; /* out of memory: everything after it did nothing */
} fragment;

/* ---- sends that go on ----
 *
 * In a train a core leaves what it sends last in a stream to microthreads and goes on: it takes the
 * next inputs meanwhile. It waits for them where it computes, where it would write to what is still
 * being sent, and where there are no more microthreads for sends. */
typedef struct fragment_under_way {
  uint32_t count; /* instructions, and as many microthreads */
  fragment_bytes bytes;
  uint32_t colors; /* the set of real ones, where they are known */
} fragment_under_way;

/* So many microthreads are for them. */
static inline uint32_t fragment_sends_room(const wafer_machine *m) {
  return (m->microthreads - 1) / 2;
}
/* And so many for what a core waits for beside them. */
static inline uint32_t fragment_waited_for(const wafer_machine *m) {
  return m->microthreads - 1 - fragment_sends_room(m);
}
/* Does the code end with sends that go on? */
bool fragment_goes_on(const wafer_machine *machine, const fragment *f, const fragment_code *code);
/* Must what is under way end before the code begins? If not, or then, adds its own sends. */
bool fragment_waits(const wafer_machine *machine, const fragment *f, const fragment_code *code,
                    fragment_under_way *under_way);

/* What timing and linking have taken: looks at blocks, takers, links and routers, the same on every
 * host. A million of them take one to four hundredths of a second. */
typedef struct fragment_effort {
  uint64_t spent, most; /* 0: as much as it takes */
} fragment_effort;
/* `e`: NULL where nobody counts. */
static inline void fragment_spend(fragment_effort *e, uint64_t looks) {
  if (e) e->spent += looks;
}
static inline bool fragment_is_spent(const fragment_effort *e) {
  return e && e->most && e->spent > e->most;
}

/* Every core idle. */
void fragment_begin(fragment *f, wafer_arena *arena, const char *name, const char *node,
                    wafer_rect rect);
/* What the code is: see above. */
fragment_code fragment_describe(const wafer_instruction *code, uint32_t count);
/* Keeps a copy of the code, once; its index. */
uint32_t fragment_code_add(fragment *f, const wafer_instruction *code, uint32_t count);
/* The cores of `cores` (of the fabric, inside the fragment's rectangle) run that code, after what
 * they run already. */
void fragment_run(fragment *f, wafer_rect cores, uint32_t code);
/* A colour that the fragment has not used so far. */
uint8_t fragment_color(fragment *f);
void fragment_route(fragment *f, const wafer_route *route);
/* Do routers with one or the other do the same? */
bool fragment_same_way(const wafer_route *a, const wafer_route *b);
void fragment_filter_add(fragment *f, wafer_rect cores, uint8_t color, const uint32_t *runs,
                         uint32_t count);

void fragment_source_add(fragment *f, wafer_rect cores, uint8_t color, uint64_t words);

void fragment_chain_add(fragment *f, const fragment_chain *chain);
/* Keeps the lines, whose lists live as long as the fragment. */
void fragment_line_add(fragment *f, const fragment_line *line);

/* Keeps the use; its boxes live as long as the fragment. */
void fragment_port(fragment *f, const wafer_port_use *use);

typedef struct fragment_ports {
  uint32_t count;
  wafer_port_use *at;
} fragment_ports;

typedef struct fragment_link {
  const char *name;
  uint32_t width, height;    /* of the fabric */
  uint32_t count;            /* fragments, in the order of execution */
  const fragment *const *at; /* rectangles and routes inside the fabric */
  fragment_ports *ports;     /* NULL, or where the ports of all fragments go */
  bool marks; /* cores mark the beginning of fragment i with i, and the end of their last with
                 `count` */
  /* NULL: every fragment once. Else those that one sample after another takes, FRAGMENT_ENDS behind
   * each; from the first sample again until as many as register FRAGMENT_SAMPLES says are done. */
  uint32_t step_count;
  const uint32_t *steps;
  /* All of it so often side by side, each so many columns east of the one before; 0: once. What has
   * ports or steps stands once. */
  uint32_t stripes, stripe_columns;
  uint32_t once; /* of the steps: the first ones, which come once, before the first sample */
  /* NULL: samples come one behind the other. Else when each fragment is due of sample 0; that of
   * sample s is so s * period later. A core goes through its fragments by when they are due: with
   * those that are due a period and more before its last one it is samples ahead. Steps are in this
   * order, each comes once in a sample, and the first sample comes again. */
  const int64_t *due;
  int64_t period;
  fragment_effort *effort; /* NULL, or what it may take to find colours off the lines */
  bool *lacks_colors; /* NULL, or set when it is colours that there are too few of */
  /* NULL, or words may leave their lines where colours are lacking: the fragments with the ways
   * that they then have, as many as in `at`; NULL where all are as they were. */
  const fragment *const **around;
} fragment_link;

static inline uint32_t fragment_stripes(const fragment_link *link) {
  return link->stripes ? link->stripes : 1;
}
/* The cores that are those in another stripe; stripes are alike: what the first has, all have. */
static inline wafer_rect fragment_in_stripe(const fragment_link *link, wafer_rect r,
                                            uint32_t stripe) {
  r.x += stripe * link->stripe_columns;
  return r;
}

/* Puts fragments together; the program lives in the arena. NO_FIT: more colours at a router, or
 * more queues of a core, than the machine has. */
wafer_status fragment_link_program(const wafer_diag *diag, wafer_arena *arena,
                                   const wafer_machine *machine, const fragment_link *link,
                                   wafer_fabric_program *out);

/* ---- code ---- */

/* Descriptors: of memory with the strides of the four levels, outermost first; of a colour. */
static inline wafer_operand fragment_memory(wafer_dtype dtype, int32_t address,
                                            const int32_t stride[WAFER_LEVELS]) {
  return (wafer_operand){.kind = WAFER_OPERAND_memory,
                         .dtype = (uint8_t)dtype,
                         .reg = WAFER_NO_REGISTER,
                         .address = address,
                         .stride = {stride[0], stride[1], stride[2], stride[3]}};
}
static inline wafer_operand fragment_wire(wafer_dtype dtype, uint8_t color) {
  return (wafer_operand){.kind = WAFER_OPERAND_fabric, .dtype = (uint8_t)dtype, .color = color};
}

#endif
