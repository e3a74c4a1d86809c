/* Fans: a queue from which words only go on, over links that are theirs alone, to cores that keep
 * what they want of them. While all those cores wait for nothing but these words, or want none, the
 * words are only written down as they come into the first queue, the root; as soon as one of the
 * cores has all that it waits for, all of them go through the fan at once.
 *
 * A word leaves a queue in cycle
 *   d(h, i) = max(d(h-1, i) + latency, d(h, i-1) + 1, d(h+1, i - capacity of h+1) + credit).
 * At most one comes into the root in a cycle. When all begin at rest and no queue keeps one longer
 * than `capacity - credit` cycles, the last term never decides, whatever comes: a word leaves queue
 * h `shift` cycles after it leaves the root. As in trains, cores and queues are brought into the
 * future: to the cycle after their last word. */
#include <stdlib.h>
#include <string.h>

#include "core_value.h"
#include "fabric_islands.h"

#define LEAST 4           /* words that are worth it */
#define MOST (1u << 16)   /* words of a fan at once */
#define LONGEST_PAUSE 64u /* words until it is tried again */

typedef fabric_twig twig;
typedef fabric_fan fan;

/* ---- which queues: found once ---- */

/* Could a fan go through this queue, as far as its ways out say? */
static bool branches_off(const wafer_fabric *f, uint32_t node) {
  const fabric_node *q = &f->nodes[node];
  if (q->to_core || q->at_edge || q->switched || !q->outs) return false;
  for (uint32_t k = 0; k < q->outs; k++) {
    const fabric_out *out = &f->outs[fabric_site_of(f, q)->first_out + k];
    const fabric_node *to = &f->nodes[out->node];
    if (!out->alone || to->at_edge || to->by_switch || to->strip != q->strip) return false;
    if (!to->to_core && out->latency + to->credit > to->capacity) return false;
  }
  return true;
}

/* The queues all of whose way on is a fan, from their ends back; `open` counts the outs of which it
 * is not known yet. */
static void find_inner(const wafer_fabric *f, uint8_t *open, uint32_t *stack, bool *inner) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < f->node_count; i++) {
    const fabric_node *q = &f->nodes[i];
    inner[i] = false;
    if (q->gone) continue;
    open[i] = q->outs;
    if (q->to_core) stack[count++] = i;
  }
  while (count) {
    uint32_t at = stack[--count], from = f->sites[at].from;
    inner[at] = true;
    if (from == FABRIC_NONE || f->nodes[at].by_switch) continue;
    if (!--open[from] && branches_off(f, from)) stack[count++] = from;
  }
}

/* Words come in one a cycle at most, and find room. */
static bool may_be_root(const wafer_fabric *f, uint32_t node) {
  const fabric_node *q = &f->nodes[node];
  const fabric_site *site = &f->sites[node];
  uint32_t hop = f->machine->hop_cycles ? f->machine->hop_cycles : 1;
  uint32_t delay = (q->from_core ? 1 + f->machine->ramp_cycles : hop) + site->late;
  bool wide = site->writer != FABRIC_NONE && q->from_core &&
              f->cores[site->writer].wide >> site->color % 32 & 1;
  return !q->to_core && !wide && delay + q->credit <= q->capacity;
}

static void list_twigs(wafer_fabric *f, fan *one) {
  one->first = f->twig_count;
  f->twigs[f->twig_count++] = (twig){.node = one->root};
  for (uint32_t i = one->first; i < f->twig_count; i++) {
    twig at = f->twigs[i];
    const fabric_node *q = &f->nodes[at.node];
    for (uint32_t k = 0; !q->to_core && k < q->outs; k++) {
      const fabric_out *out = &f->outs[fabric_site_of(f, q)->first_out + k];
      f->twigs[f->twig_count++] = (twig){.node = out->node,
                                         .shift = at.shift + out->latency,
                                         .latency = out->latency,
                                         .hops = out->hops};
    }
  }
  one->count = f->twig_count - one->first;
}

static wafer_status no_room(const wafer_fabric *f) {
  return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                    "%u queues do not fit the host", f->node_count);
}

static bool begins(const wafer_fabric *f, const bool *inner, uint32_t i) {
  const fabric_node *q = &f->nodes[i];
  uint32_t from = f->sites[i].from;
  bool above = from != FABRIC_NONE && !q->by_switch && inner[from] && may_be_root(f, from);
  return inner[i] && !q->gone && !q->to_core && !above && may_be_root(f, i);
}

wafer_status fabric_find_fans(wafer_fabric *f) {
  uint32_t *stack = malloc((f->node_count + 1) * sizeof *stack), count = 0;
  uint8_t *open = malloc(f->node_count + 1);
  bool *inner = malloc((f->node_count + 1) * sizeof *inner);
  f->twigs = malloc((f->node_count + 1) * sizeof *f->twigs);
  bool room = stack && open && inner && f->twigs;
  if (room) find_inner(f, open, stack, inner);
  for (uint32_t i = 0; room && i < f->node_count; i++) count += begins(f, inner, i);
  f->fans = room ? calloc(count + 1, sizeof *f->fans) : NULL;
  for (uint32_t i = 0; f->fans && i < f->node_count; i++)
    if (begins(f, inner, i)) {
      fan *one = &f->fans[f->fan_count];
      one->root = i;
      list_twigs(f, one);
      f->nodes[i].fans_out = true;
      f->sites[i].fan = f->fan_count++;
    }
  free(stack);
  free(open);
  free(inner);
  return f->fans ? WAFER_OK : no_room(f);
}

void fabric_free_fans(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->fan_count; i++) {
    free(f->fans[i].word);
    free(f->fans[i].at);
  }
  free(f->fans);
  free(f->twigs);
}

/* ---- filters ahead of time ---- */

/* Of the next `words`, at most: so many are kept, or not, one after the other. */
static uint32_t run_of(const fabric_filter *filter, uint32_t words, bool *kept) {
  *kept = !fabric_skips(filter);
  if (filter->at == filter->rule->run_count) return words; /* nothing more, ever */
  return filter->left < words ? filter->left : words;
}

/* As many as run_of says, or less. */
static void step(fabric_filter *filter, uint32_t words) {
  if (filter->at == filter->rule->run_count || !words) return;
  filter->left -= words - 1;
  fabric_filter_step(filter);
}

/* Words until so many have been kept, the last of them included; at most MOST. */
static uint32_t words_until(fabric_filter filter, uint32_t wanted) {
  for (uint32_t words = 0, n; words < MOST; words += n) {
    bool kept;
    n = run_of(&filter, MOST - words, &kept);
    if (kept && n >= wanted) return words + wanted;
    if (kept) wanted -= n;
    step(&filter, n);
  }
  return MOST;
}

/* ---- who keeps words ---- */

/* The first cycle in which the thread can take a word. */
static uint64_t free_from(const wafer_fabric *f, const fabric_core *core, const core_thread *t) {
  uint64_t at = f->now > t->ready ? f->now : t->ready;
  return core->busy[CORE_COMPUTES] > at ? core->busy[CORE_COMPUTES] : at;
}

static core_thread *only_thread(const fabric_core *core) {
  return &core->threads[__builtin_ctz(core->running)];
}

/* The thread of the core behind a queue, when that can do nothing but keep what comes, a word a
 * cycle. */
static core_thread *keeper(const wafer_fabric *f, uint32_t node) {
  uint32_t at = f->sites[node].core;
  const fabric_core *core = &f->cores[at];
  if (__builtin_popcount(core->running) != 1) return NULL;
  core_thread *t = only_thread(core);
  const wafer_instruction *code = t->code;
  if (code->op != WAFER_CORE_move || t->type != CORE_COPIES || t->waits || t->fraction ||
      code->in[0].kind != WAFER_OPERAND_fabric || code->out.kind != WAFER_OPERAND_memory ||
      t->queue[1] != node || t->bytes[1] > 4 || !fabric_only_waits(core, t))
    return NULL;
  const wafer_throughput *rate = core_rate(f->machine, code);
  bool even = (uint64_t)t->step * rate->cycles <= rate->elements;
  bool alone = core->worked_to <= free_from(f, core, t);
  return even && alone && core_box_inside(f, at, t, 0) ? t : NULL;
}

static uint32_t words_wanted(const core_thread *t) {
  return (t->count - t->done + t->step - 1) / t->step;
}

/* ---- beginning ---- */

/* Is every slot free when the word that takes it comes, one a cycle from `first` on? */
static bool has_room(const wafer_fabric *f, const fabric_node *q, uint64_t first) {
  for (uint32_t m = 0; m < q->capacity; m++)
    if (f->now + fabric_wait_for(f, q, m) > first + m) return false;
  return true;
}

/* How many words until a core has all that it waits for, or wants one and does not wait for any;
 * the first may be there in cycle `first`. 0: no fan. */
static uint32_t words_left(const wafer_fabric *f, twig *w, uint64_t first) {
  const fabric_node *q = &f->nodes[w->node];
  const core_thread *t = keeper(f, w->node);
  const fabric_filter *filter = q->filtered ? &f->filters[f->sites[w->node].filter] : NULL;
  w->keeps = t != NULL;
  if (!t) return filter ? words_until(*filter, 1) - 1 : 0;
  uint64_t next = free_from(f, &f->cores[f->sites[w->node].core], t);
  if (next > first && next - first + w->latency + q->credit > q->capacity) return 0;
  return filter ? words_until(*filter, words_wanted(t)) : words_wanted(t);
}

/* Can a word that leaves the root in cycle `ready` be the first of a fan? */
static bool may_begin(wafer_fabric *f, fan *one, uint64_t ready) {
  one->left = MOST;
  for (uint32_t i = one->first; i < one->first + one->count; i++) {
    twig *w = &f->twigs[i];
    const fabric_node *q = &f->nodes[w->node];
    uint64_t first = ready + w->shift;
    if (q->to_core) core_catch_up(f, f->sites[w->node].core);
    if (q->count || !has_room(f, q, i == one->first ? f->now : first - w->latency)) return false;
    if (!q->to_core && f->now + fabric_after_last(f, q) > first) return false;
    uint32_t left = q->to_core ? words_left(f, w, first) : MOST;
    if (left < one->left) one->left = left;
    if (one->left < LEAST) return false;
  }
  return true;
}

static bool begin(wafer_fabric *f, fan *one, uint64_t ready) {
  if (one->wait) {
    one->wait--;
    return false;
  }
  if (f->faults || !may_begin(f, one, ready)) {
    one->pause = one->pause >= LONGEST_PAUSE ? LONGEST_PAUSE : 2 * one->pause + 1;
    one->wait = one->pause;
    return false;
  }
  for (uint32_t i = one->first; i < one->first + one->count; i++)
    if (f->twigs[i].keeps) f->cores[f->sites[f->twigs[i].node].core].fanned = true;
  one->base = one->last = ready;
  one->pause = 0;
  return true;
}

/* ---- what goes through ---- */

/* Words that have gone through a queue, in those cycles: its slots are free after the last ones. */
static void use_slots(const wafer_fabric *f, fabric_node *q, const uint64_t *left, uint32_t words) {
  for (uint32_t i = words > q->capacity ? words - q->capacity : 0; i < words; i++) {
    uint64_t frees = left[i] + q->credit;
    fabric_entry_at(q, (q->head + i) % q->capacity)->ready =
        fabric_stamp(frees > f->now ? frees : f->now);
  }
  q->head = (uint16_t)((q->head + words) % q->capacity);
}

/* The core takes them, the last of them in cycle `last`. */
static wafer_status take(wafer_fabric *f, uint32_t at, const uint32_t *word, uint32_t words,
                         uint64_t last) {
  fabric_core *core = &f->cores[at];
  core_thread *t = only_thread(core);
  uint32_t elements = words < words_wanted(t) ? words * t->step : t->count - t->done;
  const unsigned char *from = (const unsigned char *)word;
  for (uint32_t done = 0, run; done < elements; done += run) {
    run = elements - done < core_run_left(t) ? elements - done : core_run_left(t);
    WAFER_TRY(core_scatter(f, at, t, run, from + (size_t)done * t->bytes[1]));
    core_advance(t, run);
  }
  uint64_t end = last + 1;
  t->done += elements;
  t->ready = end;
  f->stats.elements += elements;
  core->busy[CORE_COMPUTES] = core->worked_to = end;
  core->worked += words;
  core->turn[CORE_COMPUTES] = (uint8_t)(t->code->thread + 1);
  if (core->finish < end) core->finish = end;
  if (t->done == t->count) core_end_instruction(core, t, end);
  if (core->wake < end) core->wake = FABRIC_NEVER; /* it would find nothing to do */
  /* Who wants more words may have had these before others of the fan came: a bucket of the past
   * would keep it asleep. */
  fabric_wake(f, at, end > f->now ? end : f->now + 1);
  return WAFER_OK;
}

static bool make_kept(wafer_fabric *f, uint32_t room) {
  if (f->kept_room >= room) return true;
  free(f->kept);
  f->kept_room = 0;
  f->kept = malloc((size_t)room * (sizeof(uint64_t) + sizeof(uint32_t)));
  if (!f->kept) return false;
  f->kept_room = room;
  return true;
}
static uint32_t *kept_words(const wafer_fabric *f) {
  return (uint32_t *)(f->kept + f->kept_room);
}

/* Those that the filter of a core's queue lets in, and when they come: in `kept`; how many. */
static uint32_t sift(wafer_fabric *f, const fan *one, const twig *w) {
  bool filtered = f->nodes[w->node].filtered;
  fabric_filter *filter = filtered ? &f->filters[f->sites[w->node].filter] : NULL;
  uint32_t count = 0;
  for (uint32_t i = 0, n; i < one->words; i += n) {
    bool in = true;
    n = filter ? run_of(filter, one->words - i, &in) : one->words;
    if (filter) step(filter, n);
    for (uint32_t k = i; in && k < i + n; k++, count++) {
      f->kept[count] = one->base + one->at[k] + w->shift;
      kept_words(f)[count] = one->word[k];
    }
  }
  return count;
}

/* How many of the words have come to a core, which keeps them. */
static wafer_status arrive(wafer_fabric *f, const fan *one, const twig *w, uint32_t *words) {
  uint32_t at = f->sites[w->node].core;
  fabric_core *core = &f->cores[at];
  uint32_t n = *words = sift(f, one, w);
  if (w->keeps) core->fanned = false;
  if (!n) return WAFER_OK;
  const core_thread *t = only_thread(core);
  uint64_t next = t->ready > core->busy[CORE_COMPUTES] ? t->ready : core->busy[CORE_COMPUTES];
  for (uint32_t k = 0; k < n && f->kept[k] < next; k++) f->kept[k] = next++;
  use_slots(f, &f->nodes[w->node], f->kept, n);
  return take(f, at, kept_words(f), n, f->kept[n - 1]);
}

static void pass(wafer_fabric *f, const fan *one, const twig *w) {
  fabric_node *q = &f->nodes[w->node];
  uint32_t first = one->words > q->capacity ? one->words - q->capacity : 0;
  for (uint32_t k = first; k < one->words; k++) f->kept[k] = one->base + one->at[k] + w->shift;
  use_slots(f, q, f->kept, one->words);
}

/* All that has come goes through, and the fan ends. */
static bool flush(wafer_fabric *f, fan *one) {
  if (!make_kept(f, one->words)) return false;
  for (uint32_t i = one->first; i < one->first + one->count; i++) {
    const twig *w = &f->twigs[i];
    uint32_t words = one->words;
    if (!f->nodes[w->node].to_core)
      pass(f, one, w);
    else if (arrive(f, one, w, &words) != WAFER_OK)
      return false;
    f->stats.hops += (uint64_t)words * w->hops;
    if (f->entered) f->entered[w->node] += words;
  }
  one->words = 0;
  return true;
}

/* ---- words ---- */

static bool make_words(fan *one) {
  if (one->words < one->room) return true;
  uint32_t room = one->room ? 2 * one->room : 64;
  uint32_t *word = realloc(one->word, room * sizeof *word);
  if (word) one->word = word;
  uint32_t *at = word ? realloc(one->at, room * sizeof *at) : NULL;
  if (!at) return false;
  one->at = at;
  one->room = room;
  return true;
}

bool fabric_fan_out(wafer_fabric *f, uint32_t node, uint32_t word, uint32_t delay) {
  fan *one = &f->fans[f->sites[node].fan];
  uint64_t ready = f->now + delay;
  if (!one->words && !begin(f, one, ready)) return false;
  f->failed |= !make_words(one);
  if (f->failed) return true;
  if (one->words && ready <= one->last) ready = one->last + 1;
  one->word[one->words] = word;
  one->at[one->words++] = (uint32_t)(ready - one->base);
  one->last = ready;
  if (one->words >= one->left || ready - one->base >= FABRIC_TRAIN) f->failed |= !flush(f, one);
  return true;
}

bool fabric_end_fans(wafer_fabric *f) {
  const fabric_island *here = f->islands ? &f->islands->here : NULL;
  bool any = false;
  for (uint32_t i = 0; i < (here ? here->node_count : f->fan_count); i++) {
    uint32_t root = here ? here->nodes[i] : f->fans[i].root;
    if (!fabric_fan_holds(f, root)) continue;
    f->failed |= !flush(f, &f->fans[f->sites[root].fan]);
    any = true;
  }
  return any && !f->failed;
}
