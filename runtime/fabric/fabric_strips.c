/* Strips: the fabric on several threads of the host.
 *
 * The wafer is cut into strips of whole rows, or columns, of routers with about as many queues
 * each. A strip is the fabric once more, with the same cores, queues and links, and lists of its
 * own of what there is to do. In every cycle the strips are at work side by side, each on what lies
 * in it and leads nowhere else; then, one strip after the other, what has to do with two of them:
 * links over the border and what shares a link with them, looks at their queues, and messages that
 * would go over it as a train. The order of visits within a cycle does not matter, so neither does
 * this, nor who does what: cycles and bytes are the same for any number of strips and threads.
 *
 * What one strip does at once ends at its border: rows of queues, fans, wavelets that pass cores.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "router.h"

#define OF_A_THREAD 2    /* strips: what is busy moves over the wafer */
#define LEAST_QUEUES 128 /* of a strip */
#define LEAST_VISITS 64  /* of a cycle that is worth several threads */
#define TRIAL 32         /* cycles in which it is seen whether threads pay */
#define TRIALS 16        /* two of so many are trials */

/* ---- cutting ---- */

typedef struct cut {
  bool columns;
  uint32_t lines, width;
  uint8_t *strip; /* of each line */
} cut;

static uint32_t line_of(const cut *c, uint32_t router) {
  return c->columns ? router % c->width : router / c->width;
}

/* Lines to strips, so that each has about as many queues. */
static bool divide(const wafer_fabric *f, uint32_t strips, cut *c) {
  uint32_t *queues = calloc(c->lines, sizeof *queues);
  c->strip = malloc(c->lines);
  if (!queues || !c->strip) {
    free(queues);
    return false;
  }
  for (uint32_t i = 0; i < f->node_count; i++) queues[line_of(c, f->sites[i].router)]++;
  uint64_t before = 0;
  for (uint32_t line = 0; line < c->lines; before += queues[line++])
    c->strip[line] = (uint8_t)((before + queues[line] / 2) * strips / (f->node_count + 1u));
  free(queues);
  return true;
}

static uint64_t crossings(const wafer_fabric *f, const cut *c) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < f->link_count; i++)
    for (uint32_t k = 0; k < f->links[i].candidates; k++) {
      const fabric_candidate *who = &f->candidates[f->links[i].first + k];
      uint32_t from = f->sites[who->node].router, to = f->sites[who->to & ~FABRIC_LOOK].router;
      count += c->strip[line_of(c, from)] != c->strip[line_of(c, to)];
    }
  return count;
}

static void apply(wafer_fabric *f, const cut *c) {
  for (uint32_t i = 0; i < f->node_count; i++)
    f->nodes[i].strip = c->strip[line_of(c, f->sites[i].router)] & (FABRIC_STRIPS - 1);
  for (uint32_t i = 0; i < f->core_count; i++)
    f->cores[i].strip = c->strip[line_of(c, f->cores[i].router)];
}

static wafer_status no_room(const wafer_fabric *f) {
  return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                    "%u strips of %u queues do not fit the host", f->strip_count, f->node_count);
}

/* As many as are worth it. */
static uint32_t good_strips(const wafer_fabric *f) {
  uint32_t strips = f->workers ? OF_A_THREAD * thread_pool_size(f->workers) : 1;
  return strips < f->node_count / LEAST_QUEUES ? strips : f->node_count / LEAST_QUEUES;
}

wafer_status fabric_cut(wafer_fabric *f) {
  uint32_t strips = f->asked_strips ? f->asked_strips : good_strips(f);
  if (f->asked_islands && fabric_islands_fit(f)) strips = 1;
  if (strips > FABRIC_STRIPS) strips = FABRIC_STRIPS;
  f->strip_count = strips > 1 ? strips : 1;
  f->strips[0] = f;
  if (f->strip_count == 1) return WAFER_OK;
  uint32_t width = f->program->width;
  cut rows = {.lines = f->program->height, .width = width},
      columns = {.columns = true, .lines = width, .width = width};
  bool room = divide(f, strips, &rows) && divide(f, strips, &columns);
  if (room) apply(f, crossings(f, &columns) < crossings(f, &rows) ? &columns : &rows);
  free(rows.strip);
  free(columns.strip);
  return room ? WAFER_OK : no_room(f);
}

void fabric_find_border(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->link_count && f->strip_count > 1; i++)
    for (uint32_t k = 0; k < f->links[i].candidates; k++) {
      const fabric_candidate *who = &f->candidates[f->links[i].first + k];
      fabric_node *from = &f->nodes[who->node], *to = &f->nodes[who->to & ~FABRIC_LOOK];
      if (from->strip == to->strip) continue;
      from->border = true;
      to->crossed = true;
    }
  for (uint32_t i = 0; i < f->link_count && f->strip_count > 1; i++)
    for (uint32_t k = 0; k < f->links[i].candidates; k++)
      if (f->nodes[f->candidates[f->links[i].first + k].node].border) f->gates[i].border = true;
  for (uint32_t i = 0; i < f->link_count; i++)
    if (f->gates[i].many) f->gates[f->links[i].more].border = f->gates[i].border;
}

/* ---- around a run ---- */

static bool list_for(fabric_bucket *list, uint32_t links) {
  *list = (fabric_bucket){.at = malloc(links * sizeof *list->at), .room = links};
  return list->at;
}

bool fabric_make_lists(wafer_fabric *f, uint32_t switches) {
  uint32_t links = f->link_room;
  f->briefs = calloc(links + FABRIC_AHEAD, sizeof *f->briefs);
  f->turning = malloc((switches + 1) * sizeof *f->turning);
  bool room = f->briefs && f->turning;
  room &= list_for(&f->asked, links) & list_for(&f->asked_next, links);
  room &= list_for(&f->others, links) & list_for(&f->told, links);
  return room;
}

static bool make_lists(wafer_fabric *s) {
  memset(s->bucket_of, 0, sizeof s->bucket_of);
  memset(s->wheel, 0, sizeof s->wheel);
  s->awake = malloc((s->core_count + 1) * sizeof *s->awake);
  s->caught = calloc(1, sizeof *s->caught);
  return fabric_make_lists(s, s->switch_count) && s->awake && s->caught;
}

wafer_fabric *fabric_twin(const wafer_fabric *f) {
  wafer_fabric *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
  if (!s) return NULL;
  *s = *f;
  s->stages = NULL;
  s->passages = NULL;
  s->kept = NULL;
  s->train = NULL;
  s->stage_room = s->passage_room = s->kept_room = s->train_words = 0;
  s->marked = NULL;
  s->marked_room = 0;
  if (make_lists(s)) return s;
  fabric_free_twin(s);
  return NULL;
}

static wafer_status make_strip(wafer_fabric *f, uint32_t i) {
  f->strips[i] = fabric_twin(f);
  if (!f->strips[i]) return no_room(f);
  f->strips[i]->strip = i;
  return WAFER_OK;
}

wafer_status fabric_strips_begin(wafer_fabric *f) {
  for (uint32_t i = 1; i < f->strip_count; i++) WAFER_TRY(make_strip(f, i));
  for (uint32_t i = 1; i < f->strip_count; i++)
    memcpy(f->strips[i]->strips, f->strips, sizeof f->strips);
  if (f->strip_count > 1 && f->workers) thread_pool_series(f->workers, true);
  return WAFER_OK;
}

void fabric_strips_end(wafer_fabric *f) {
  if (f->strip_count > 1 && f->workers) thread_pool_series(f->workers, false);
  for (uint32_t i = 1; i < f->strip_count; i++) {
    f->stats.hops += f->strips[i]->stats.hops;
    f->stats.elements += f->strips[i]->stats.elements;
  }
}

void fabric_free_lists(wafer_fabric *f) {
  for (uint32_t i = 0; i < FABRIC_BUCKETS; i++) free(f->bucket_of[i].at);
  for (uint32_t i = 0; i < FABRIC_WHEEL; i++) free(f->wheel[i].at);
  free(f->asked.at);
  free(f->asked_next.at);
  free(f->told.at);
  free(f->briefs);
  free(f->others.at);
  free(f->turning);
  free(f->awake);
  free(f->later.at);
  free(f->popped.at);
  free(f->caught);
  free(f->marked);
  free(f->stages);
  free(f->passages);
  free(f->kept);
  free(f->train);
}

void fabric_free_twin(wafer_fabric *twin) {
  if (twin) fabric_free_lists(twin);
  free(twin);
}

void fabric_strips_free(wafer_fabric *f) {
  for (uint32_t i = 1; i < FABRIC_STRIPS; i++) fabric_free_twin(f->strips[i]);
}

/* ---- a cycle ---- */

static uint32_t visits(const wafer_fabric *s) {
  return s->awake_count + s->wheel[s->now % FABRIC_WHEEL].count + s->asked.count +
         router_bits_went(s) + s->bucket_of[s->now % FABRIC_BUCKETS].count;
}

static void step(void *self, uint32_t tile, uint32_t thread) {
  wafer_fabric *f = self, *s = f->strips[tile];
  (void)thread;
  s->status = fabric_step(s);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Do threads pay? Where others use the host, too, a thread waits for one that does not run: so now
 * and then both ways are tried. */
static bool together(fabric_pace *p) {
  uint32_t trial = p->cycles / TRIAL % TRIALS;
  if (p->cycles++ % (TRIAL * TRIALS) == 0) *p = (fabric_pace){.cycles = p->cycles};
  if (trial < 2) return trial == 1;
  return p->visits[1] / p->seconds[1] > p->visits[0] / p->seconds[0];
}

static void step_all(wafer_fabric *f, bool threads) {
  if (threads) {
    thread_pool_run(f->workers, f->strip_count, step, f);
    return;
  }
  for (uint32_t i = 0; i < f->strip_count; i++) step(f, i, 0);
}

/* All strips, on threads where there is enough to do. */
static void step_strips(wafer_fabric *f) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < f->strip_count; i++) count += visits(f->strips[i]);
  if (!f->workers || f->asked_strips || count < LEAST_VISITS) {
    step_all(f, f->workers && f->asked_strips);
    return;
  }
  bool threads = together(&f->pace);
  double start = seconds();
  step_all(f, threads);
  f->pace.seconds[threads] += seconds() - start;
  f->pace.visits[threads] += count;
}

/* What all strips found out. */
static wafer_status gather(wafer_fabric *f) {
  wafer_status status = f->status;
  for (uint32_t i = 1; i < f->strip_count; i++) {
    wafer_fabric *s = f->strips[i];
    if (s->status != WAFER_OK) status = s->status;
    f->failed |= s->failed;
    f->moved |= s->moved;
    s->moved = false;
  }
  return status;
}

wafer_status fabric_strips_cycle(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->strip_count; i++) f->strips[i]->aside = true;
  step_strips(f);
  for (uint32_t i = 0; i < f->strip_count; i++) f->strips[i]->aside = false;
  for (uint32_t i = 0; i < f->strip_count; i++) {
    wafer_status rest = fabric_step_rest(f->strips[i]);
    if (rest != WAFER_OK) f->strips[i]->status = rest;
  }
  return gather(f);
}
