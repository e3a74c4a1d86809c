/* Islands: parts of a large fabric that have nothing to do with each other for a while, and are run
 * one after the other, each through all of that time, so that the host's cache holds what it works
 * on.
 *
 * The queues of a colour that lead to each other are a net. Nothing happens in a net without words
 * until a core pushes one into it, and when a core can do that at the earliest follows from the
 * code that it has not come to yet: every instruction takes a cycle, and one that the others wait
 * for as many as it has elements. So a net whose senders are all far from it is asleep until a
 * horizon, or for good. What remains joins cores and queues: nets that are awake, and links for
 * which several of those ask. What is not joined is in different islands until the horizon; then
 * all are one again, or divided anew. An island that is large is divided in turn. */
#include <stdlib.h>

#include "fabric_islands.h"

#define LEAST 512 /* cores of an island, about as many as the cache holds */

/* ---- nets: once per program ---- */

static uint32_t find(uint32_t *set, uint32_t i) {
  while (set[i] != i) i = set[i] = set[set[i]];
  return i;
}

static void unite(uint32_t *set, uint32_t a, uint32_t b) {
  a = find(set, a);
  b = find(set, b);
  if (a < b)
    set[b] = a;
  else
    set[a] = b;
}

/* The outs of a queue in all positions of its switch, run by run. */
typedef struct ways {
  const fabric_switch *sw;
  uint32_t node, position;
} ways;

static bool next_ways(const wafer_fabric *f, ways *w, uint32_t *first, uint32_t *count) {
  const fabric_node *q = &f->nodes[w->node];
  if (!w->sw) {
    *first = f->sites[w->node].first_out;
    *count = q->outs;
    return w->position++ == 0;
  }
  while (w->position < w->sw->positions && w->sw->nodes[w->position] != w->node) w->position++;
  if (w->position == w->sw->positions) return false;
  *first = w->sw->first_out[w->position];
  *count = w->sw->outs[w->position++];
  return true;
}

static ways ways_of(const wafer_fabric *f, uint32_t node) {
  return (ways){.sw = f->nodes[node].switched ? &f->switches[f->sites[node].sw] : NULL,
                .node = node};
}

static void find_nets(const wafer_fabric *f, uint32_t *net) {
  for (uint32_t i = 0; i < f->node_count; i++) net[i] = i;
  for (uint32_t i = 0; i < f->node_count; i++) {
    uint32_t first, count;
    for (ways w = ways_of(f, i); !f->nodes[i].gone && next_ways(f, &w, &first, &count);)
      for (uint32_t k = 0; k < count; k++) unite(net, i, f->outs[first + k].node);
  }
  for (uint32_t i = 0; i < f->switch_count; i++)
    for (uint32_t p = 1; p < f->switches[i].positions; p++)
      unite(net, f->switches[i].nodes[0], f->switches[i].nodes[p]);
  for (uint32_t i = 0; i < f->node_count; i++) net[i] = find(net, i);
}

static wafer_status no_room(const wafer_fabric *f) {
  return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                    "%u queues and %u cores do not fit the host", f->node_count, f->core_count);
}

static uint32_t least_of(const wafer_fabric *f) {
  return f->asked_island ? f->asked_island : LEAST;
}

bool fabric_islands_fit(const wafer_fabric *f) {
  return !f->single && f->core_count > 2 * least_of(f);
}

/* One more to work on islands. */
static wafer_fabric *hire(const wafer_fabric *f) {
  wafer_fabric *one = fabric_twin(f);
  fabric_islands *own = one ? malloc(sizeof *own) : NULL;
  if (!own) {
    fabric_free_twin(one);
    return NULL;
  }
  *own = *f->islands;
  own->crew_count = 0;
  one->islands = own;
  one->strips[0] = one;
  one->workers = NULL;
  return one;
}

static bool hire_crew(wafer_fabric *f) {
  fabric_islands *all = f->islands;
  uint32_t count = f->workers ? thread_pool_size(f->workers) - 1 : 0;
  all->crew = calloc(count + 1, sizeof *all->crew);
  for (; all->crew && all->crew_count < count; all->crew_count++)
    if (!(all->crew[all->crew_count] = hire(f))) return false;
  return all->crew;
}

wafer_status fabric_islands_begin(wafer_fabric *f) {
  if (f->faults || f->strip_count > 1 || !fabric_islands_fit(f)) return WAFER_OK;
  fabric_islands *all = calloc(1, sizeof *all);
  f->islands = all;
  if (!all) return no_room(f);
  all->least = least_of(f);
  all->eager = f->asked_island > 0;
  all->given = calloc(1, sizeof *all->given);
  all->net = malloc((f->node_count + 1) * sizeof *all->net);
  all->awake = calloc(f->node_count + 1, 1);
  all->set = malloc(((size_t)f->node_count + f->core_count + 1) * sizeof *all->set);
  all->size = malloc(((size_t)f->node_count + f->core_count + 1) * sizeof *all->size);
  all->asker = malloc((f->link_room + 1) * sizeof *all->asker);
  all->of_node = calloc(f->node_count + 1, sizeof *all->of_node);
  all->of_core = calloc(f->core_count + 1, sizeof *all->of_core);
  all->nodes = malloc((f->node_count + 1) * sizeof *all->nodes);
  all->cores = malloc((f->core_count + 1) * sizeof *all->cores);
  if (!all->given || !all->net || !all->awake || !all->set || !all->size || !all->asker ||
      !all->of_node || !all->of_core || !all->nodes || !all->cores)
    return no_room(f);
  find_nets(f, all->net);
  for (uint32_t i = 0; i < f->node_count; i++)
    if (!f->nodes[i].gone) all->nodes[all->here.node_count++] = i;
  for (uint32_t i = 0; i < f->core_count; i++) all->cores[i] = i;
  all->here.core_count = f->core_count;
  all->here.nodes = all->nodes;
  all->here.cores = all->cores;
  all->here.limit = FABRIC_NEVER;
  return hire_crew(f) ? WAFER_OK : no_room(f);
}

void fabric_islands_free(wafer_fabric *f) {
  fabric_islands *all = f->islands;
  if (!all) return;
  for (uint32_t i = 0; i < all->crew_count; i++) {
    free(all->crew[i]->islands);
    fabric_free_twin(all->crew[i]);
  }
  free(all->crew);
  free((void *)all->given);
  free(all->net);
  free(all->awake);
  free(all->set);
  free(all->size);
  free(all->asker);
  free(all->of_node);
  free((void *)all->of_core);
  free(all->nodes);
  free(all->cores);
  free(all);
}

/* ---- which nets are awake before the horizon ---- */

static void rouse(const wafer_fabric *f, const fabric_core *core, uint32_t binding) {
  uint32_t node = core->queue[binding];
  if (node != FABRIC_NONE) f->islands->awake[f->islands->net[node]] = 1;
}

static void rouse_outputs(const wafer_fabric *f, const fabric_core *core) {
  for (uint32_t i = 0; i < core->program->binding_count; i++)
    if (core->program->bindings[i].output) rouse(f, core, i);
}

/* One start task, and code that goes straight on. */
static bool is_straight(const wafer_core_program *p) {
  if (p->task_count != 1 || p->tasks[0].kind != WAFER_TASK_start) return false;
  for (uint32_t i = 0; i < p->code_count; i++) {
    const wafer_instruction *code = &p->code[i];
    if (code->op == WAFER_CORE_branch || code->op == WAFER_CORE_activate ||
        code->op == WAFER_CORE_axpy || code->op == WAFER_CORE_compress)
      return false; /* pairs end when they end */
    if (code->op < WAFER_CORE_VECTORS && code->then) return false;
  }
  return true;
}

/* Steps of a microthread that are left, a cycle each at least. */
static uint64_t ends_at(const core_thread *t, uint64_t now) {
  if (t->state == THREAD_FREE) return t->ready;
  uint64_t start = t->ready > now ? t->ready : now;
  return start + (t->count - t->done + t->step - 1) / (t->step ? t->step : 1);
}

/* A vector instruction that is issued at that cycle, at the earliest: when its last step is done.
 */
static uint64_t walk_vector(const wafer_fabric *f, const fabric_core *core, uint32_t pc,
                            uint64_t at) {
  const wafer_instruction *code = &core->program->code[pc];
  const core_thread *t = &core->decoded[pc];
  uint64_t count = code->count_reg == WAFER_NO_REGISTER ? code->shape[3] : 0;
  for (uint32_t level = 0; level < WAFER_LEVELS - 1; level++) count *= code->shape[level];
  if (code->out.kind == WAFER_OPERAND_fabric) rouse(f, core, t->queue[0]);
  return at + (count + t->step - 1) / (t->step ? t->step : 1);
}

/* From where control is on: nets into which the core could push before the horizon. */
static void walk(const wafer_fabric *f, const fabric_core *core, uint32_t pc, uint64_t at,
                 uint64_t horizon) {
  uint64_t ends[WAFER_CORE_THREADS];
  for (uint32_t i = 0; i < WAFER_CORE_THREADS; i++)
    ends[i] = i < core->thread_count ? ends_at(&core->threads[i], f->now) : 0;
  if (core->state == CORE_JOIN && ends[core->joined] > at) at = ends[core->joined];
  for (; pc < core->program->code_count && at < horizon; pc++) {
    const wafer_instruction *code = &core->program->code[pc];
    bool joins = code->op == WAFER_CORE_join, vector = code->op < WAFER_CORE_VECTORS;
    if (code->op == WAFER_CORE_end) return;
    if ((joins || vector) && ends[code->thread] > at) at = ends[code->thread];
    if (at >= horizon) return;
    if (vector) {
      ends[code->thread] = walk_vector(f, core, pc, at);
      at = code->async ? at + 1 : ends[code->thread];
    } else if (code->op != WAFER_CORE_mark && !joins) {
      at++;
    }
  }
}

static void rouse_from(const wafer_fabric *f, const fabric_core *core, uint64_t horizon) {
  for (uint32_t left = core->running; left; left &= left - 1) {
    const core_thread *t = &core->threads[__builtin_ctz(left)];
    if (t->there & 1) f->islands->awake[f->islands->net[t->queue[0]]] = 1;
  }
  bool begins = core->activated & ~core->blocked;
  if (!is_straight(core->program))
    rouse_outputs(f, core);
  else if (core->state != CORE_IDLE)
    walk(f, core, core->pc, core->resume > f->now ? core->resume : f->now, horizon);
  else if (begins)
    walk(f, core, core->program->tasks[0].entry, f->now, horizon);
}

/* ---- what is joined ---- */

static void join_links(const wafer_fabric *f, uint32_t node) {
  fabric_islands *all = f->islands;
  uint32_t first, count;
  for (ways w = ways_of(f, node); next_ways(f, &w, &first, &count);)
    for (uint32_t k = 0; k < count; k++) {
      const fabric_out *out = &f->outs[first + k];
      unite(all->set, node, out->node);
      if (all->asker[out->link] == FABRIC_NONE)
        all->asker[out->link] = node;
      else
        unite(all->set, node, all->asker[out->link]);
    }
}

static void forget_links(const wafer_fabric *f, uint32_t node) {
  uint32_t first, count;
  for (ways w = ways_of(f, node); next_ways(f, &w, &first, &count);)
    for (uint32_t k = 0; k < count; k++) f->islands->asker[f->outs[first + k].link] = FABRIC_NONE;
}

static bool is_awake(const wafer_fabric *f, uint32_t node) {
  return f->islands->awake[f->islands->net[node]];
}

static void join(wafer_fabric *f, uint64_t horizon) {
  fabric_islands *all = f->islands;
  const fabric_island *here = &all->here;
  for (uint32_t i = 0; i < here->node_count; i++) {
    uint32_t node = here->nodes[i];
    all->set[node] = node;
    all->awake[all->net[node]] = 0;
    forget_links(f, node);
  }
  for (uint32_t i = 0; i < here->node_count; i++)
    if (f->nodes[here->nodes[i]].count) all->awake[all->net[here->nodes[i]]] = 1;
  for (uint32_t i = 0; i < here->core_count; i++) {
    uint32_t core = here->cores[i];
    all->set[f->node_count + core] = f->node_count + core;
    rouse_from(f, &f->cores[core], horizon);
  }
  for (uint32_t i = 0; i < here->node_count; i++) {
    uint32_t node = here->nodes[i];
    const fabric_node *q = &f->nodes[node];
    const fabric_site *site = &f->sites[node];
    if (!is_awake(f, node)) continue;
    join_links(f, node);
    if (q->switched) unite(all->set, node, f->switches[site->sw].nodes[0]);
    if (q->to_core) unite(all->set, node, f->node_count + site->core);
    if (q->from_core && site->writer != FABRIC_NONE)
      unite(all->set, node, f->node_count + site->writer);
  }
}

/* ---- dividing ---- */

#define INTO (1u << 31)

static uint32_t core_root(const wafer_fabric *f, uint32_t core) {
  return find(f->islands->set, f->node_count + core);
}

/* Sets to islands of about the least size, in the order of cores; how many. `*largest`: the cores
 * of the largest. */
static uint32_t pack(const wafer_fabric *f, uint32_t *largest) {
  const fabric_islands *all = f->islands;
  const fabric_island *here = &all->here;
  uint32_t count = 0, filled = 0;
  *largest = 0;
  for (uint32_t i = 0; i < here->node_count; i++) all->size[find(all->set, here->nodes[i])] = 0;
  for (uint32_t i = 0; i < here->core_count; i++) all->size[core_root(f, here->cores[i])] = 0;
  for (uint32_t i = 0; i < here->core_count; i++) all->size[core_root(f, here->cores[i])]++;
  for (uint32_t i = 0; i < here->core_count; i++) {
    uint32_t *size = &all->size[core_root(f, here->cores[i])];
    if (*size & INTO) continue;
    if (!count || filled + *size > all->least) {
      count++;
      filled = 0;
    }
    filled += *size;
    if (filled > *largest) *largest = filled;
    *size = INTO | (count - 1);
  }
  return count;
}

uint32_t fabric_islands_find(wafer_fabric *f, uint64_t horizon, uint32_t *base) {
  fabric_islands *all = f->islands;
  const fabric_island *here = &all->here;
  uint32_t largest;
  join(f, horizon);
  uint32_t count = pack(f, &largest);
  if (count < 2 || (!all->eager && largest > here->core_count / 2)) return 1;
  *base = atomic_fetch_add(all->given, count);
  for (uint32_t i = 0; i < here->node_count; i++) {
    uint32_t node = here->nodes[i];
    uint32_t into = all->size[find(all->set, node)] & ~INTO; /* words without a core: the first */
    all->of_node[node] = is_awake(f, node) ? *base + into : FABRIC_NONE;
  }
  for (uint32_t i = 0; i < here->core_count; i++)
    fabric_set_island(all, here->cores[i],
                      *base + (all->size[core_root(f, here->cores[i])] & ~INTO));
  return count;
}
