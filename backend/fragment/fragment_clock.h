/* When each core of a launch is done with its fragments: a clock per core, moved on fragment by
 * fragment. Private to backend/.
 *
 * A core works on one fragment after the other, so when it begins one is known once those before
 * have been gone through; what is left is who waits for whom on the lines of an exchange. Words of
 * a bus come in the order of its blocks, one a cycle: with times at the router that a block comes
 * from behind to, less the hops to there, block k ends passing in
 *   e(k) = max(its first word is there, e(k - 1) + turn) + its words,
 * where turn is 0 in an exchange that has its cores to itself, whose senders all stand ready, and 1
 * in a train, as counted over random exchanges and over trains; and a taker holds up what comes
 * after the words that its queue has room for until it takes them. A sender is done when what
 * others hold up has found room in the queues on its way. This is the recurrence of tandem queues
 * with blocking (Baccelli, Cohen, Olsder, Quadrat, Synchronization and Linearity, 1992, section 2),
 * for messages in place of words. A link that several buses want at the same time is shared: the
 * later one in the order of the fragments waits for the words of the earlier one, which take longer
 * by as much the next time; so the first time is rehearsed. A core's transfers have microthreads by
 * turns: one that comes later than there are microthreads begins when the one so many before it has
 * ended, so that what goes back along a line may wait for what goes forth. Beside sends that go on
 * there are fewer, and there are in all samples if in one: it is the same code.
 *
 * Words of the host come over the border port by port in turn, a word each: those of all values of
 * a sample side by side, of which the short ones are through first. */
#ifndef BACKEND_FRAGMENT_CLOCK_H
#define BACKEND_FRAGMENT_CLOCK_H

#include "fragment.h"

/* Words that passed a link last, without a gap: cycles. */
typedef struct fragment_burst {
  int64_t from, until;
  int64_t *late; /* of the bus: cycles that others wanted the link meanwhile */
} fragment_burst;

/* Of a fragment that is gone through again and again: the ends of what passed, of each line, bus by
 * bus, for as many times back as words may be ahead of those who take them. */
typedef struct fragment_past {
  uint64_t times;
  int64_t *ends;
} fragment_past;

/* Ports over which the host sends so many words of a sample. */
typedef struct fragment_feed {
  uint64_t words;
  uint32_t ports;
} fragment_feed;

/* What the host sends of a sample. */
typedef struct fragment_round {
  uint32_t feed_count, feed_room;
  fragment_feed *feeds;
  uint64_t words, cycles; /* of all: so many words cross the border in so many cycles */
  int64_t start;          /* of the sample at hand */
} fragment_round;

/* What the border lets out, value by value, each from when its first word is there: it is busy
 * until then, but for the latest gaps. */
#define FRAGMENT_GAPS 8
typedef struct fragment_border {
  int64_t busy;
  uint32_t count;
  int64_t gaps[FRAGMENT_GAPS][2]; /* from, until; in their order */
} fragment_border;

typedef struct fragment_clock {
  const wafer_machine *machine;
  wafer_arena *arena;
  fragment_burst *links; /* of all cores along the rows, back, along the columns, back: see
                            fragment_clock_link */
  uint64_t *cores;       /* width * height of the machine: cycle in which the core is free */
  uint64_t *sent;        /* the same: cycle in which its sends that go on end */
  fragment_under_way *under_way; /* the same: these sends */
  fragment_under_way *linked; /* the same, as its code knows of them: of the sample before, too */
  uint32_t *threads;          /* the same: microthreads for transfers of the fragment at hand */
  uint32_t *passes;              /* the same: of the fragment at hand, that are still to come */
  uint32_t *part;                /* the same: of what the core did last */
  uint32_t entered; /* the part at hand, as whoever goes through fragments numbers them */
  uint64_t begun;   /* when the last core came to it */
  bool train;       /* of samples: sends go on, and blocks of a bus are a cycle apart */
  bool once;        /* what comes once, ahead of the samples */
  const fragment_round *round; /* of the sample at hand; NULL: values cross one after the other */
  int64_t edge;                /* when the border has room for more words of the host */
  fragment_border out;
  int64_t leaves; /* of the fragment at hand: when its first word is at the border; INT64_MAX */
  int64_t left;   /* when the last word of cores has left the wafer */
  uint64_t last;  /* when the last core was done so far */
  fragment_effort *effort; /* NULL: nobody counts */
} fragment_clock;

/* The link of a core along its row, back, along its column, or back. Those that
 * follow each other on the way are neighbours in memory: who goes along a column would wait for
 * memory at every core. */
static inline fragment_burst *fragment_clock_link(const fragment_clock *c, bool columns, bool back,
                                                  uint32_t x, uint32_t y) {
  size_t width = c->machine->width, height = c->machine->height;
  return &c->links[(2 * columns + back) * width * height +
                   (columns ? x * height + y : y * width + x)];
}
/* Words of a core that have left it, or are on their way through its ramp, before a link takes
 * them.
 */
uint64_t fragment_sender_room(const wafer_machine *machine);
/* Words that a core's queue and ramp hold of what comes to it. */
uint64_t fragment_taker_room(const wafer_machine *machine);
/* Adds what the host sends of a sample when the fragment is gone through. False: out of memory. */
bool fragment_round_add(fragment_round *round, wafer_arena *arena, const fragment *f);
/* Does the host send anything? */
bool fragment_is_fed(const fragment *f);
/* Cycles of the round in which a port's first words have come in, while all ports have room. */
int64_t fragment_round_cycles(const fragment_round *round, uint64_t words);
/* When the border has let so many cycles' words out of which the first is there at `from`; and does
 * it. */
int64_t fragment_border_ends(const fragment_border *b, int64_t from, int64_t cycles);
void fragment_border_pass(fragment_border *b, int64_t from, int64_t cycles);
/* All cores free at cycle 0. False: out of memory. */
bool fragment_clock_init(fragment_clock *c, wafer_arena *arena, const wafer_machine *machine);
/* What comes next is a part of its own, 0: of none. */
void fragment_clock_enter(fragment_clock *c, uint32_t part);
/* Back to cycle 0, what `past` knows of shared links kept, and what is under way where a sample
 * begins; NULL: nothing is. */
void fragment_clock_restart(fragment_clock *c, fragment_past **past, uint32_t count);
/* Moves the clocks of the cores that the fragment runs on. `past`: the fragment's, NULL at first.
 * False: out of memory. */
bool fragment_clock_pass(fragment_clock *c, const fragment *f, fragment_past **past);
/* Of fragments that run alone, one behind the other, from clocks at cycle 0, which are there again
 * behind them: cycles until all is done, and until the border has let the words of the host in.
 * These come `opening` cycles after the cores begin; from then on both count. False: out of memory.
 */
bool fragment_clock_alone(fragment_clock *c, const fragment *const *f, uint32_t count,
                          uint32_t opening, uint64_t *cycles, uint64_t *crossed);

#endif
