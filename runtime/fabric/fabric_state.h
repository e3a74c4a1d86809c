/* The state of an emulated fabric: flat arrays, allocated once. A cycle reads what the cycle before
 * left: entries carry the cycle from which they can leave, queues the cycle of their last pop, so
 * the order of visits within a cycle does not matter. */
#ifndef RUNTIME_FABRIC_STATE_H
#define RUNTIME_FABRIC_STATE_H

#include "fabric_parts.h"
#include "threads.h"

#define FABRIC_WHEEL 1024 /* buckets; a power of two */
#define FABRIC_STRIPS 16
#define FABRIC_AHEAD 12 /* hops, of fetching */

struct wafer_fabric {
  const wafer_diag *diag;
  const wafer_machine *machine;
  const wafer_fabric_program *program;
  uint32_t count;    /* routers */
  uint32_t *core_of; /* per router; FABRIC_NONE: no program */
  fabric_core *cores;
  uint32_t core_count;
  core_thread *threads; /* of all cores */
  core_thread *decoded; /* of all programs' instructions, */
  core_scalar *scalars; /* and these */
  uint32_t *queues;     /* of all bindings */
  fabric_image *images; /* per router */

  fabric_node *nodes;
  fabric_site *sites; /* of the nodes */
  fabric_entry *pool; /* of queues longer than FABRIC_INLINE */
  fabric_out *outs;
  fabric_candidate *candidates;
  fabric_way *ways; /* of the candidates */
  fabric_link *links;
  fabric_gate *gates; /* of the links */
  fabric_switch *switches;
  uint32_t node_count, out_count, link_count, link_room, switch_count;
  uint64_t pool_count;

  fabric_bucket asked, asked_next; /* links that are asked for in this cycle, in the next one */
  fabric_candidate *briefs;        /* that are served in this cycle, and some more; */
  uint32_t brief_count;
  fabric_bucket others;     /* what all others ask for */
  struct router_bits *bits; /* of the strips; NULL: no queue is a bit (router_bits.c) */
  bool serving;             /* links have been asked for, and are served */
  fabric_bucket told;       /* queues that were left by a brief hop: who waits for room may ask */
  fabric_bucket bucket_of[FABRIC_BUCKETS];
  fabric_turn *turning; /* switches that a control wavelet passed */
  uint32_t turning_count;
  uint32_t *awake, awake_count;      /* cores to visit in this cycle */
  fabric_bucket wheel[FABRIC_WHEEL]; /* cores by the cycle in which they wake, or woke before */

  uint32_t *first_site; /* per router: its nodes; from that of `count` on: dead ends, the border */
  fabric_filter *filters;
  uint32_t filter_count;
  fabric_edge *edges;
  uint32_t edge_count, edge_room, edges_left;
  uint32_t edge_round; /* of the feeds and drains to come */
  fabric_group groups[WAFER_EDGE_GROUPS];
  uint64_t edge_finish;
  uint32_t opens; /* the border, in this cycle */
  wafer_mark *mark;
  void *mark_user;
  uint64_t *entered; /* per node: words pushed; NULL: nobody counts */

  uint64_t now;
  uint64_t era;       /* changes before stamps come round */
  uint64_t fault_due; /* the cycle of the next fault, FABRIC_NEVER: none */
  struct fabric_faults *faults;
  fabric_stage *stages; /* of the train that is being made */
  fabric_passage *passages;
  fabric_fan *fans;
  fabric_twig *twigs;
  uint32_t fan_count, twig_count, kept_room;
  uint64_t *kept; /* cycles in which a core takes words; behind them the words */
  uint32_t stage_count, stage_room, passage_count, passage_room;
  uint32_t *stage_of;                          /* per core: its stage, where that names the core */
  uint32_t asked_core, asked_root, asked_push; /* of the last bound on another's push */
  int64_t train_budget;                        /* of looks, in all */
  uint32_t train_length, train_words;
  float *train; /* twice train_words */
  bool moved;   /* something at the border, in this cycle */
  bool ran;
  bool single; /* wavelets one by one, */
  bool plain;  /* and elements of cores */
  bool counts; /* what links carry */
  bool failed; /* no memory for a bucket */
  bool ends;   /* nothing is under way: nobody waits patiently any more */
  uint64_t shuffle;
  fabric_caught *caught;
  fabric_marked *marked;
  uint32_t marked_count, marked_room;

  /* Strips, this one and all; one is the whole fabric (fabric_strips.c). */
  thread_pool *workers; /* NULL: one thread */
  uint32_t strip, strip_count, asked_strips;
  uint32_t asked_island;          /* for tests: cores of an island */
  bool asked_islands;             /* for the threads, rather than strips */
  struct fabric_islands *islands; /* NULL: never divided (fabric_islands.c) */
  wafer_fabric *strips[FABRIC_STRIPS];
  fabric_bucket later;  /* cores whose visit goes on when the strips are done */
  fabric_bucket popped; /* queues whose pop is news to another strip */
  bool aside;           /* other strips are at work, too: hands off what is theirs */
  bool deferred;        /* the visit would have touched that */
  wafer_status status;  /* of the strip's part of the cycle */
  fabric_pace pace;

  wafer_fabric_stats stats;
};

/* A cycle as it is told. */
static inline uint64_t fabric_since_open(const wafer_fabric *f, uint64_t cycle) {
  return cycle > f->opens ? cycle - f->opens : 0;
}

/* The trap of a cycle is told when the cycle is over: of several, that of the first router. */
wafer_status fabric_trap(const wafer_fabric *f, uint32_t router, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
wafer_status fabric_tell_trap(const wafer_fabric *f);

/* The strip's own lists. */
static inline wafer_fabric *fabric_home(wafer_fabric *f, uint32_t strip) {
  return strip == f->strip ? f : f->strips[strip];
}

/* ---- queues (router.c) ---- */

static inline uint32_t fabric_stamp(uint64_t cycle) {
  return (uint32_t)cycle & FABRIC_STAMP_MASK;
}
static inline fabric_entry *fabric_entry_at(const fabric_node *q, uint32_t at) {
  const fabric_entry *own = q->own;
  return (q->capacity <= FABRIC_INLINE ? (fabric_entry *)own : q->elsewhere) + at;
}
static inline fabric_entry *fabric_front(const fabric_node *q) {
  return fabric_entry_at(q, q->head);
}
/* The slot so many words behind the front. */
static inline fabric_entry *fabric_slot(const fabric_node *q, uint32_t behind) {
  uint32_t at = q->head + behind;
  return fabric_entry_at(q, at < q->capacity ? at : at - q->capacity);
}
static inline fabric_site *fabric_site_of(const wafer_fabric *f, const fabric_node *q) {
  return &f->sites[q - f->nodes];
}
/* Cycles from the cycle of the stamp `now` to that of another; 0: it has been. */
static inline uint32_t fabric_until(uint32_t stamp, uint32_t now) {
  int32_t ahead = (int32_t)((stamp - now) << (32 - FABRIC_STAMP_BITS)); /* drops what is above */
  return ahead > 0 ? (uint32_t)ahead >> (32 - FABRIC_STAMP_BITS) : 0;
}
/* The same, less than 0 when it has been. */
static inline int64_t fabric_ahead(uint32_t stamp, uint32_t now) {
  return (int32_t)((stamp - now) << (32 - FABRIC_STAMP_BITS)) >> (32 - FABRIC_STAMP_BITS);
}
/* Is the cycle of one of the two stamps yet to come? */
static inline bool fabric_early(uint32_t a, uint32_t b, uint32_t now) {
  return ((now - a) | (now - b)) >> (FABRIC_STAMP_BITS - 1) & 1;
}
/* Cycles until the front, or the one so far behind it, may leave; 0: now. */
static inline uint32_t fabric_wait_for(const wafer_fabric *f, const fabric_node *q,
                                       uint32_t behind) {
  return fabric_until(fabric_slot(q, behind)->ready, (uint32_t)f->now);
}
static inline uint32_t fabric_wait(const wafer_fabric *f, const fabric_node *q) {
  return fabric_wait_for(f, q, 0);
}
/* Cycles until there is room for so many words, FABRIC_NONE: only after a pop. Who waits for that
 * says so by `awaited`. */
static inline uint32_t fabric_room_in(const wafer_fabric *f, const fabric_node *q, uint32_t words) {
  return q->count + words > q->capacity ? FABRIC_NONE : fabric_wait_for(f, q, q->count + words - 1);
}
/* Of an empty queue: cycles until another wavelet may leave it; its last one may be ahead of time.
 */
static inline uint32_t fabric_after_last(const wafer_fabric *f, const fabric_node *q) {
  uint32_t last = q->head ? q->head - 1u : q->capacity - 1u;
  return fabric_until(fabric_entry_at(q, last)->ready - q->credit + 1u, (uint32_t)f->now);
}
/* Room was asked for; the entry may leave `delay` cycles from now. */
void fabric_push(wafer_fabric *f, uint32_t node, uint32_t word, uint32_t control, uint32_t delay);
/* The same of several that follow each other, into a queue for which a push is no more than an
 * entry (FABRIC_PUSH_FLAGS). */
typedef struct fabric_burst {
  const unsigned char *from; /* the first word, */
  int32_t stride;            /* bytes to the next */
  uint32_t words, delay;
  uint32_t control; /* of the last */
} fabric_burst;
void fabric_push_burst(wafer_fabric *f, uint32_t node, const fabric_burst *burst);
void fabric_pop(wafer_fabric *f, fabric_node *q);
/* What was kept from other strips while they were at work. */
void fabric_tell_of_pops(wafer_fabric *f);
/* The front of a queue vanishes, between cycles. */
void fabric_lose(wafer_fabric *f, uint32_t node);
/* One more in the bucket. */
bool fabric_more_room(wafer_fabric *f, fabric_bucket *bucket);
static inline bool fabric_put(wafer_fabric *f, fabric_bucket *bucket, uint32_t one) {
  if (bucket->count == bucket->room && !fabric_more_room(f, bucket)) return false;
  bucket->at[bucket->count++] = one;
  return true;
}
/* Nothing is under way: no queue asks for a link, now or later. */
bool fabric_rests(const wafer_fabric *f);
/* Before stamps come round: everything that lies in the past becomes the present. */
void fabric_refresh(wafer_fabric *f);
/* One cycle of all routers. */
wafer_status fabric_route(wafer_fabric *f);

/* The filter's next wavelet: is it skipped? And: it has passed. */
static inline bool fabric_skips(const fabric_filter *filter) {
  return filter->at % 2 == 0 || filter->at == filter->rule->run_count;
}
void fabric_filter_step(fabric_filter *filter);
void fabric_filter_start(fabric_filter *filter, const wafer_filter *rule);
/* The router beyond a port; FABRIC_NONE outside the fabric. */
uint32_t fabric_neighbour(const wafer_fabric *f, uint32_t router, uint32_t port);
/* What the host feeds and drains in this cycle (fabric_edge.c). */
wafer_status fabric_edge_begin(wafer_fabric *f);
void fabric_edge_cycle(wafer_fabric *f);
void fabric_edge_free(wafer_fabric *f);

/* ---- cores ---- */

/* Fetches what the microthreads that run, or control, will touch. */
void core_fetch(const wafer_fabric *f, uint32_t core);
/* What one visit did: the cycle of the next, FABRIC_NEVER: when a queue changes. */
wafer_status core_visit(wafer_fabric *f, uint32_t core, uint64_t *next);
/* The second half of a visit, which goes on here when it was deferred: what is sent. */
wafer_status core_visit_sends(wafer_fabric *f, uint32_t core, uint64_t *next);
/* Sets up a vector instruction on its microthread, which is free (core_vector.c). */
wafer_status core_issue(wafer_fabric *f, uint32_t core, const wafer_instruction *code);
/* One step of a microthread, when all that it needs is there; else `*next` comes down to when it
 * may be. */
wafer_status core_step(wafer_fabric *f, uint32_t core, core_thread *thread, core_unit unit,
                       bool *stepped, uint64_t *next);
/* What a vector instruction's microthread begins with on any core: `ready` counts from the issue,
 * `queue` are bindings, no register has been added to an address. */
void core_decode(const wafer_machine *machine, const wafer_core_program *program,
                 const wafer_instruction *code, core_thread *thread);
/* The step of a microthread that is quick: its one element, when the words and the room are there
 * (core_quick.c). Room and words are checked, values follow, both as core_step would. */
void core_quicken(const wafer_machine *machine, core_thread *thread);
bool core_quick_ready(wafer_fabric *f, fabric_core *core, const core_thread *thread,
                      uint64_t *next);
wafer_status core_quick_element(wafer_fabric *f, uint32_t core, core_thread *thread);
/* Elements of a send, in cycles one after the other from the present one on, whose words can go
 * into the queue now because nothing can come in between; 1: only the one of this cycle. */
uint32_t core_burst(wafer_fabric *f, uint32_t core, const core_thread *thread);
void core_quick_burst(wafer_fabric *f, uint32_t core, core_thread *thread, uint32_t n);
/* A send that has been issued, and for which control waits: all of its words go into the queue at
 * once, if their room in their cycles is known. */
void core_send_ahead(wafer_fabric *f, uint32_t core, core_thread *thread);
/* One of the units is at work in those cycles, which begin no earlier than those before; both at
 * once are one core at work. */
static inline void core_worked(fabric_core *core, uint64_t start, uint64_t end) {
  if (end <= core->worked_to) return;
  core->worked += end - (core->worked_to > start ? core->worked_to : start);
  core->worked_to = end;
}
/* What was sent ahead of time is among the cycles worked, when all before it are. */
static inline void core_count_ahead(fabric_core *core) {
  core_worked(core, core->ahead_from, core->ahead_from + core->ahead);
  core->ahead = 0;
}
static inline void core_works(fabric_core *core, uint64_t start, uint64_t end) {
  if (core->finish < end) core->finish = end;
  if (core->ahead && start >= core->ahead_from) core_count_ahead(core);
  core_worked(core, start, end);
}
/* The values of one step of `elements`; pops and pushes (core_value.c). */
wafer_status core_compute(wafer_fabric *f, uint32_t core, core_thread *thread, uint32_t elements,
                          uint32_t cost);
/* The binding of a program's colour; their count: none. Its queue; FABRIC_NONE: none. */
uint32_t core_binding(const wafer_core_program *program, uint8_t color, bool output);
uint32_t core_queue(const fabric_core *core, uint8_t color, bool output);

/* ---- patience (core_patience.c) ---- */

/* Cycles before this one are control's: no microthread takes them, whatever comes in from now on.
 */
uint64_t core_free_until(const wafer_fabric *f, const fabric_core *core);
/* Does control have nothing for the next cycle? What it waits for is in *next. */
bool core_control_waits(const wafer_fabric *f, const fabric_core *core, uint64_t *next);

/* Could the microthread, which is quick, be patient? */
bool core_keeps(const wafer_fabric *f, uint32_t core, const core_thread *thread);
/* What a patient microthread would have taken before this cycle; who looks at a core, or at what is
 * in its queues, asks for that first. */
void core_catch_up(wafer_fabric *f, uint32_t core);
uint64_t core_patience_due(wafer_fabric *f, const fabric_core *core);
/* A queue into a core that is full, when what would have been taken is: the cycle in which the
 * front is, if nothing comes in between; FABRIC_NEVER: nobody waits patiently for it. */
uint64_t core_takes_at(const wafer_fabric *f, uint32_t node);
/* Of a core that lags: the cycle of control's next instruction, FABRIC_NEVER: it does not lag any
 * more. And: those before a later cycle, from the one in that cycle on; then the same of the next.
 */
uint64_t core_lags_at(fabric_core *core);
uint64_t core_control_late(fabric_core *core, uint64_t cycle, uint64_t before);
/* Nothing runs on the core: control goes on ahead of time, to the vector instruction that it issues
 * next, and waits for that. Nobody sees it before, for no microthread and no task can come in
 * between; where control would do something else first it goes no farther. */
void core_issue_ahead(wafer_fabric *f, uint32_t core);
/* A visit of a patient core: the word of this cycle. */
wafer_status core_compute_patiently(wafer_fabric *f, uint32_t core, bool *stepped, uint64_t *next);
/* The end of a visit: does somebody wait patiently from here on, and for how many words? */
void core_wait_patiently(wafer_fabric *f, uint32_t core, uint64_t *next);
/* Nobody else comes: those who have words are woken; false: nobody has. */
bool core_end_patience(wafer_fabric *f);

/* ---- trains (fabric_train.c) ---- */

/* The microthread, whose step could go now, sends all its words to all cores that keep them or pass
 * them on; `*went` false: not that way, nothing has changed. */
wafer_status fabric_train(wafer_fabric *f, uint32_t core, core_thread *thread, bool *went);

/* ---- who may come in its way (fabric_quiet.c) ---- */

/* Each queue's root and reach. The stack has room for all queues. */
void fabric_find_roots(wafer_fabric *f, uint32_t *stack);
/* Nothing but the end of its one instruction lets the core do something. */
bool fabric_only_waits(const fabric_core *core, const core_thread *thread);
bool fabric_woken_by_words(const fabric_core *core);
/* At most FABRIC_TRAIN. */
uint32_t fabric_from_now(const wafer_fabric *f, uint64_t cycle);
/* The one queue that the microthread takes words from; FABRIC_NONE: none, or several. */
uint32_t fabric_taken(const core_thread *thread);
/* Nobody else asks for the link before `until`, in cycles from now. */
bool fabric_link_is_quiet(wafer_fabric *f, const fabric_out *out, uint32_t until);

/* ---- fans (fabric_fan.c) ---- */

wafer_status fabric_find_fans(wafer_fabric *f);
void fabric_free_fans(wafer_fabric *f);
/* A word comes into the root of a fan; false: it goes by itself. */
bool fabric_fan_out(wafer_fabric *f, uint32_t node, uint32_t word, uint32_t delay);
/* Is the queue the root of a fan in which words have been written down? */
static inline bool fabric_fan_holds(const wafer_fabric *f, uint32_t node) {
  return f->nodes[node].fans_out && f->fans[f->sites[node].fan].words;
}
/* Nobody else comes: what is written down goes through; false: nothing is. */
bool fabric_end_fans(wafer_fabric *f);

/* ---- time (fabric_run.c) ---- */

/* Stamps come round after several eras. */
#define FABRIC_ERA_BITS (FABRIC_STAMP_BITS - 2)
static inline uint64_t fabric_era(const wafer_fabric *f) {
  return f->now >> FABRIC_ERA_BITS;
}
/* Until nothing moves, or the island's limit. */
wafer_status fabric_loop(wafer_fabric *f);

/* There is news for the core: it is visited at `cycle`, or earlier. */
void fabric_wake(wafer_fabric *f, uint32_t core, uint64_t cycle);
/* A cycle of the cores and routers of a strip; with others aside, without what touches those. */
wafer_status fabric_step(wafer_fabric *f);
/* What that left. */
wafer_status fabric_step_rest(wafer_fabric *f);

/* Told when the cycle is over, in the order of routers. */
void fabric_pass_mark(wafer_fabric *f, uint32_t router, int32_t value);
/* The same of another cycle than the present one. */
void fabric_keep_mark(wafer_fabric *f, uint64_t cycle, uint32_t router, int32_t value);

/* ---- strips (fabric_strips.c) ---- */

/* Cuts the fabric for its threads: queues and cores know their strips. */
wafer_status fabric_cut(wafer_fabric *f);
/* Which queues and links have to do with two strips, when all routes are there. */
void fabric_find_border(wafer_fabric *f);
/* The same fabric with lists of its own, empty; NULL: out of memory. And: without them. */
wafer_fabric *fabric_twin(const wafer_fabric *f);
void fabric_free_twin(wafer_fabric *twin);
/* Around a run: lists for each strip; their counts together. */
wafer_status fabric_strips_begin(wafer_fabric *f);
void fabric_strips_end(wafer_fabric *f);
void fabric_strips_free(wafer_fabric *f);
/* A strip's own: lists of what is to be done in a cycle, for `switches`. */
bool fabric_make_lists(wafer_fabric *f, uint32_t switches);
void fabric_free_lists(wafer_fabric *f);
/* A cycle of all strips, side by side where there is enough to do. */
wafer_status fabric_strips_cycle(wafer_fabric *f);
/* Is the queue another strip's, at work at the same time? Then the visit is deferred. */
static inline bool fabric_is_aside(wafer_fabric *f, uint32_t node) {
  bool aside = f->aside && f->nodes[node].strip != f->strip;
  f->deferred |= aside;
  return aside;
}

/* ---- islands (fabric_islands.c, fabric_islands_run.c) ---- */

/* May it be divided at all? */
bool fabric_islands_fit(const wafer_fabric *f);
/* Before a run: what is large may be divided. */
wafer_status fabric_islands_begin(wafer_fabric *f);
void fabric_islands_free(wafer_fabric *f);
/* Is it time to try? And: divides what is at work and runs its islands up to the same cycle;
 * `*divided` false: it stays as it is. */
bool fabric_islands_due(const wafer_fabric *f);
wafer_status fabric_divide(wafer_fabric *f, bool *divided);

/* ---- faults (fault.c) ---- */

wafer_status fabric_faults_strike(wafer_fabric *f);
void fabric_faults_free(wafer_fabric *f);

/* ---- counts (fabric_load.c) ---- */

wafer_status fabric_load_begin(wafer_fabric *f);

/* ---- the end (fabric_deadlock.c) ---- */

/* Nothing moves: OK when everything has ended, else the trap. */
wafer_status fabric_settle(const wafer_fabric *f);

/* ---- set-up ---- */

wafer_status fabric_check(const wafer_diag *diag, const wafer_machine *machine,
                          const wafer_fabric_program *program);
/* Queues, links and switches from the routes (fabric_routes.c). */
wafer_status fabric_build_routes(wafer_fabric *f);
/* Who takes an out. */
static inline uint32_t fabric_candidate_of(const wafer_fabric *f, const fabric_out *out) {
  return f->links[out->link].first + out->rank;
}
static inline void fabric_set_candidate(wafer_fabric *f, uint32_t node, const fabric_out *out) {
  uint32_t at = fabric_candidate_of(f, out);
  f->candidates[at] = (fabric_candidate){node, out->node | FABRIC_LOOK};
  f->ways[at] = (fabric_way){out->latency, out->hops};
}
/* What asks for an out. */
uint32_t fabric_asked(const wafer_fabric *f, const fabric_out *out);
/* May wavelets pass the queue ahead of time, as far as its ways out say? */
void fabric_find_pass(const wafer_fabric *f, fabric_node *q);
/* Rows of queues that nothing else crosses become one each (fabric_merge.c). */
wafer_status fabric_merge(wafer_fabric *f);

#endif
