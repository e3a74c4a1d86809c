/* What an emulated fabric is made of: queues, links, switches, what crosses the border, cores and
 * their microthreads, trains and fans. Private to the fabric. */
#ifndef RUNTIME_FABRIC_PARTS_H
#define RUNTIME_FABRIC_PARTS_H

#include <assert.h>
#include <stdalign.h>

#include "wafer/fabric.h"

#define FABRIC_NONE UINT32_MAX
#define FABRIC_NEVER UINT64_MAX

/* Cycles in queues and links are 30 bits: within half of that of each other, which fabric_refresh
 * sees to. */
#define FABRIC_STAMP_BITS 30
#define FABRIC_STAMP_MASK 0x3fffffffu
#define FABRIC_SOON (1u << 20) /* no latency is longer */
#define FABRIC_LONGEST_DELAY                                                                       \
  (1 << 28) /* of a core: the present and a stamp are closer than they can count */

/* A wavelet in a queue. */
typedef struct fabric_entry {
  uint32_t word;
  union {
    struct {
      uint32_t ready : FABRIC_STAMP_BITS; /* may leave in this cycle or later */
      uint32_t control : 2;               /* wafer_control */
    };
    uint32_t stamp; /* both */
  };
} fabric_entry;

#define FABRIC_LONGEST 65535 /* queue: what a machine has beyond that is not used */
#define FABRIC_INLINE 2      /* entries of a queue beside the rest of it */

/* A way out of a queue: over a link into the next one. */
typedef struct fabric_out {
  uint32_t link, node;
  uint16_t rank;    /* among the candidates of the link */
  uint16_t latency; /* cycles until the wavelet may leave the next queue */
  uint16_t hops;    /* between routers */
  bool alone;       /* no other candidate can ask for the link at the same time */
} fabric_out;

/* What a queue asks for: the link in its upper bits and its rank there in the lower ones; or, with
 * this bit, the queue itself, which has to be looked at (router.c). */
#define FABRIC_LOOK (1u << 31)
/* Without it: a bit of router_bits.c, which has a wavelet, or with the other one, room beyond. */
#define FABRIC_BIT (1u << 30)
#define FABRIC_BIT_ROOM (1u << 29)
#define FABRIC_RANK_BITS 6
#define FABRIC_RANKS (1u << FABRIC_RANK_BITS)

/* A queue: of one colour and one port of a router, or of a core's input; or a row of those that
 * nothing else crosses, as one (fabric_merge.c). Capacity counts the registers of the link that
 * leads to it. One writer, one pop a cycle. A slot of its entries that is free says in `ready` from
 * which cycle on it is room. What every hop touches: half a line of the cache; its site has the
 * rest. */
typedef struct fabric_node {
  alignas(32) union {
    fabric_entry own[FABRIC_INLINE]; /* of a queue that is no longer than that, */
    fabric_entry *elsewhere;         /* or of others */
  };
  uint16_t capacity, head, count;
  uint16_t credit; /* cycles from a pop to room for the writer */
  union {
    uint32_t ask;
    uint32_t patience; /* of a core's input: words in it that wake the core, at least */
  };
  uint8_t outs : 3, pending : 5; /* pending: bits of outs that the front still has to take */
  uint8_t armed : 7;             /* 1 + the bucket in which it is looked at next; 0: in none */
  uint8_t border : 1;            /* a way out leads into another strip (fabric_strips.c) */
  union {
    struct {
      bool to_core : 1;   /* read by the core */
      bool at_edge : 1;   /* read by the host */
      bool passed : 1;    /* one way on, and a core whose filter keeps wavelets from it */
      bool awaited : 1;   /* its next pop is news to the queue before, or to the core */
      bool outer : 1;     /* no queue before: written by a core or the host */
      bool from_core : 1; /* written by the core */
      bool fans_out : 1;  /* the root of a fan */
      bool crossed : 1;   /* words come out of another strip */
    };
    uint8_t flags;
  };
  bool switched : 1;  /* of a colour that has positions here */
  bool by_switch : 1; /* a switch chooses the queue before it */
  bool filtered : 1;  /* of a core: its site names a filter */
  bool gone : 1;      /* part of a row, which another node stands for */
  uint8_t strip : 4;
} fabric_node;
static_assert(sizeof(fabric_node) == 32, "two queues are a line of the cache");
/* Of the flags: those for which a push is more than an entry, and one of them. */
#define FABRIC_PUSH_FLAGS 0xc7u
#define FABRIC_TO_CORE 0x01u

/* What a cycle seldom needs of a queue. */
typedef struct fabric_site {
  alignas(64) uint32_t first_out;
  uint32_t
      from; /* the queue before, or the switch that chooses it; FABRIC_NONE: a core, the host */
  uint32_t router;       /* y * width + x */
  uint32_t source;       /* of a row: the router where it begins */
  uint32_t end;          /* the queue that stands for the row which begins here; else itself */
  uint32_t core, writer; /* that reads it; that writes it */
  uint32_t sw;           /* the switch of its colour here */
  uint32_t filter;       /* of a core, or of the core that it passes */
  uint32_t root;         /* the queue at which its words come in; FABRIC_NONE: behind a switch */
  uint32_t reach;     /* cycles from a core's push into that queue until they may leave this one */
  uint16_t late, far; /* of a row: cycles and hops before its last queue, for core or host */
  uint32_t fan;       /* whose root it is */
  uint32_t patience;  /* of a core's input: as above, at most; 0: every word wakes it */
  uint8_t port, color;
  bool used; /* a core has pushed into it */
} fabric_site;

#define FABRIC_CANDIDATES (2 * FABRIC_RANKS) /* of a link, at most */

/* A direction out of a router. */
typedef struct fabric_link {
  uint32_t first;      /* of its candidates */
  uint32_t more;       /* the link that has the masks of ranks above, and back; FABRIC_NONE */
  uint16_t candidates; /* outs that may ask */
  uint16_t latency;
  bool between; /* routers: a hop */
} fabric_link;

/* What a cycle changes of a link, and what it has to know: a quarter of a line of the cache. */
typedef struct fabric_gate {
  alignas(
      16) uint64_t mask; /* candidates that ask for it, whose front could go as far as they know */
  uint32_t first;        /* as above */
  uint16_t turns;        /* the rank served last; above 8 bits: the one before */
  bool border;           /* some candidate has a way out into another strip */
  bool many;             /* candidates, more than a mask has bits */
} fabric_gate;
static_assert(sizeof(fabric_gate) == 16, "gates do not straddle lines of the cache");

/* Who may ask for a link: a queue, for a hop to another; `to` with FABRIC_LOOK: there is more to it
 * than to the simplest ones (router_brief.c). */
typedef struct fabric_candidate {
  uint32_t node, to;
} fabric_candidate;

/* Of a candidate: as of its way out. */
typedef struct fabric_way {
  uint16_t latency, hops;
} fabric_way;

/* What to look at in a cycle: what queues ask for whose front may be ready or have room before it,
 * or cores. */
typedef struct fabric_bucket {
  uint32_t *at, count, room;
} fabric_bucket;
#define FABRIC_BUCKETS 64 /* cycles; a power of two */

/* A colour at a router whose route has positions. nodes[p]: the queue that position p lets out. */
typedef struct fabric_switch {
  uint32_t nodes[WAFER_SWITCH_POSITIONS];
  uint32_t first_out[WAFER_SWITCH_POSITIONS], outs[WAFER_SWITCH_POSITIONS];
  uint8_t positions, position;
  bool wrap;
} fabric_switch;

typedef struct fabric_turn {
  uint32_t sw;
  bool reset;
} fabric_turn;

/* Where a filter stands: `left` more wavelets of run `at`, which skips when it is even. */
typedef struct fabric_filter {
  const wafer_filter *rule;
  uint32_t at, left;
} fabric_filter;

/* Words that the host puts into a queue, or takes out of one. */
typedef struct fabric_edge {
  uint32_t node, count, done;
  uint32_t behind; /* the next on the same port and colour; FABRIC_NONE */
  uint32_t round;  /* those of earlier ones have the rate first */
  const uint32_t *feed;
  uint32_t *drain;  /* one of the two */
  uint64_t *finish; /* of a drain: where the cycle after its last word is noted; may be NULL */
  uint8_t control, group;
} fabric_edge;

/* Feeds and drains whose turn it is, and what they share. */
typedef struct fabric_group {
  uint32_t words, cycles;      /* the rate; 0 cycles: none */
  uint64_t credit;             /* words * cycles */
  uint64_t due;                /* the next cycle that gives some */
  uint32_t *turns, turn_count; /* round by round */
  uint32_t next, round;        /* where the rate ended: place within that round */
} fabric_group;

typedef enum thread_state { THREAD_FREE, THREAD_BUSY } thread_state;

typedef struct core_thread {
  const wafer_instruction *code;
  uint64_t ready; /* set up, and the element before is done; of a free one: when it ended */
  uint32_t waits; /* set of microthreads whose instructions must end first */
  uint32_t done, count;
  uint32_t inner; /* elements of the innermost level */
  uint32_t index[WAFER_LEVELS];
  uint32_t step;      /* elements, at most */
  uint32_t fraction;  /* of a cycle owed to the rate, in its own denominator */
  int64_t address[4]; /* out, in: of the next element */
  uint32_t queue[4];  /* out, in: node of a fabric operand */
  uint8_t bytes[4];   /* of an element */
  uint8_t state;
  uint8_t type;   /* core_class */
  bool plain : 1; /* f32 moves and sums, from memory and fabric to memory or fabric */
  bool keeps : 1; /* quick, from one queue to memory, and nothing on the way can trap */
  /* What costs a core least to emulate (core_quick.c): */
  bool quick; /* plain, an element a cycle whatever its addresses */
  bool adds;
  uint8_t inputs;
  uint8_t there, moves; /* bits of the operands on the fabric; of those a register is added to */
  int32_t stride[3];    /* of the innermost level */
} core_thread;
static_assert(sizeof(core_thread) == 128, "a microthread is two lines of the cache");

/* Of a scalar instruction what control has to know when only its registers do; several to a line of
 * the cache. */
typedef struct core_scalar {
  int32_t value;
  uint16_t target;
  uint8_t op, a, b, c;
} core_scalar;

#define CORE_STEP_WORDS 4 /* wavelets of an operand in a step, at most */

typedef enum core_state { CORE_IDLE, CORE_RUN, CORE_JOIN } core_state;

/* What works at the same time: control and arithmetic; moves to the fabric, which need neither. */
typedef enum core_unit { CORE_COMPUTES, CORE_SENDS, CORE_UNITS } core_unit;

/* A core's memory from address 0 to where it has been written, at least; behind it a bit for each
 * byte: written. */
typedef struct fabric_image {
  unsigned char *data;
  uint32_t bytes;
} fabric_image;

/* Of a core that has a program; those are numbered by themselves. Line by line of the cache: what a
 * visit asks first, what it may change, registers. */
typedef struct fabric_core {
  alignas(64) core_thread *threads; /* as many as the program names */
  uint64_t resume;                  /* of control */
  uint64_t busy[CORE_UNITS];        /* free from here on */
  uint64_t wake;                    /* when it is in the wheel */
  uint32_t running, sending; /* sets of microthreads; sending: of those, moves to the fabric */
  uint32_t pc;
  uint8_t patient; /* 1 + the microthread that takes its words when the core is visited for more
                      than them (core_patience.c); 0: none */
  uint8_t state, joined, task_turn;
  uint8_t turn[CORE_UNITS];
  bool awake;    /* in the list of this cycle or the next */
  bool stuck;    /* by a fault */
  uint8_t still; /* microthreads, of the first 8, that wait until somebody wakes the core */
  uint8_t pairs; /* microthreads, of the first 8, that take pairs */
  uint8_t strip;

  const wafer_core_program *program;
  uint64_t finish;
  uint64_t worked, worked_to; /* cycles in which a unit was at work; up to here, but for `ahead` */
  uint32_t router;
  uint32_t limit; /* bytes of data */
  uint32_t activated, blocked;
  uint32_t due;    /* of those activated: by instructions that end at */
  uint32_t wide;   /* colours (modulo 32) on which a step may send several words */
  uint64_t due_at; /* this cycle, the last of them */

  int32_t r[WAFER_CORE_REGISTERS];
  uint32_t *queue;            /* node of each binding */
  const core_thread *decoded; /* of each instruction of the program (core_decode) */
  uint32_t thread_count;
  uint32_t source;     /* of the patient microthread: the queue, */
  uint32_t most;       /* how many words it leaves there, */
  int32_t kept[2];     /* and the bytes of memory that it writes to: from, below */
  uint8_t refused;     /* trains that would have begun here, one after another; to 6 */
  uint8_t pause;       /* sends that do not try one */
  bool fanned;         /* words that it waits for may have been written down in a fan */
  bool lags;           /* control has not done all that it would have by now: it is private */
  uint32_t ahead;      /* cycles of a send whose words are in their queue ahead of time, */
  uint64_t ahead_from; /* from this one on; not yet among those worked */
  const core_scalar *scalars; /* of each instruction of the program */
} fabric_core;
static_assert(sizeof(fabric_core) == 256, "a core is four lines of the cache");

/* The first trap of a cycle, of the router that comes first. */
typedef struct fabric_caught {
  bool any;
  uint32_t router;
  wafer_loc loc;
  char text[512];
} fabric_caught;

/* What strips did on one thread, and on several. */
typedef struct fabric_pace {
  uint32_t cycles;
  double visits[2], seconds[2];
} fabric_pace;

/* What a core passed, in the order of visits. */
typedef struct fabric_marked {
  uint64_t cycle;
  uint32_t router, order;
  int32_t value;
} fabric_marked;

/* Cycles until a train's end, at most: stamps tell them from the past. */
#define FABRIC_TRAIN 0x40000

/* A core that a train comes to, or begins at. */
typedef struct fabric_stage {
  uint32_t core;
  core_thread *thread;
  uint32_t start; /* cycles from now to the first step */
  bool first;
} fabric_stage;

/* A queue that a train goes through. */
typedef struct fabric_passage {
  uint32_t node;
  uint32_t enter, leave; /* cycles from now, of the first word */
  uint16_t hops;         /* on the way into it */
} fabric_passage;

/* A queue of a fan (fabric_fan.c). */
typedef struct fabric_twig {
  uint32_t node;
  uint32_t shift; /* cycles after the root in which a word leaves it, of a core's: is there */
  uint16_t latency, hops; /* on the way into it */
  bool keeps;             /* of a core that waits for words */
} fabric_twig;

/* Words that have come into the root of a fan, and when they leave it. */
typedef struct fabric_fan {
  uint32_t root, first, count; /* of its queues; the root is the first */
  uint32_t *word, *at;         /* after `base` */
  uint32_t words, room, left;  /* left: to go through at */
  uint32_t pause, wait;        /* words until it is tried again */
  uint64_t base, last;
} fabric_fan;

#endif
