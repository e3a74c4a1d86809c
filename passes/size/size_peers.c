/* Who is like whom among pipelines that take turns, and whom one follows.
 *
 * Each waits for those of its weights that the one before has not left on the same cores in the
 * same layout. So a piece follows the one of those laid out already that has most of its weights
 * (size_follow.c). Where there is none, or the way it is laid out does not suit, its kernels with
 * weights are cut as those of all pieces can be (size_shared.c). */
#include "size_peers.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "streams.h"

#define LATER 8  /* a sample that finds its weights is done at most one part in these later */
#define CHANGE 4 /* one call in so many, at least, is behind another piece's */

typedef struct keyed {
  uint64_t key;
  uint32_t kernel;
} keyed;

static int by_key(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

static uint64_t joined(uint64_t key, const char *name) {
  return XXH3_64bits_withSeed(name, strlen(name), key);
}

/* Of a weight: its data, if there is some, else its name. */
static uint64_t weight_key(uint64_t key, const wafer_graph_value *weight) {
  const uint64_t both[] = {key, weight->digest};
  return weight->digest ? XXH3_64bits(both, sizeof both) : joined(key, weight->name);
}

static uint64_t key_of(const wafer_graph *g, const wafer_graph_kernel *k) {
  uint64_t key = (uint64_t)k->body.family;
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (k->body.input_is_weight[i]) key = weight_key(key, &g->values[k->inputs[i]]);
  return size_has_weights(&k->body) ? key : joined(key, k->node ? k->node : k->name);
}

static keyed *sort_kernels(wafer_arena *arena, const wafer_graph *g) {
  keyed *all = WAFER_NEW(arena, keyed, g->kernel_count);
  for (uint32_t k = 0; all && k < g->kernel_count; k++)
    all[k] = (keyed){key_of(g, &g->kernels[k]), k};
  if (all) qsort(all, g->kernel_count, sizeof *all, by_key);
  return all;
}

/* Of several with one key the first is like the first, and so on. */
wafer_status peer_match(const pipeline *p, peer *with) {
  const wafer_graph *g = p->graph, *other = with->graph;
  const keyed *own = sort_kernels(p->ctx->arena, g), *others = sort_kernels(p->ctx->arena, other);
  if (!own || !others) return pipeline_no_memory(p);
  for (uint32_t i = 0, j = 0; i < g->kernel_count; i++) {
    while (j < other->kernel_count && others[j].key < own[i].key) j++;
    const bool found = j < other->kernel_count && others[j].key == own[i].key;
    with->like[own[i].kernel] = found ? others[j++].kernel : WAFER_NONE;
  }
  return WAFER_OK;
}

bool peer_has_weight(const pipeline *p, const peer *of, uint32_t k, uint32_t input) {
  const wafer_graph_kernel *own = &p->graph->kernels[k];
  if (of->like[k] == WAFER_NONE || !own->body.input_is_weight[input]) return false;
  const wafer_graph_kernel *other = &of->graph->kernels[of->like[k]];
  if (input >= other->body.input_count || !other->body.input_is_weight[input]) return false;
  const wafer_graph_value *a = &p->graph->values[own->inputs[input]],
                          *b = &of->graph->values[other->inputs[input]];
  return weight_key(0, a) == weight_key(0, b) && a->type.dtype == b->type.dtype &&
         wafer_shape_equal(&a->type.shape, &b->type.shape) && a->nonzeros == b->nonzeros;
}

uint64_t peer_load(const pipeline *p, const peer *of, peer_counts *counts) {
  const wafer_graph *g = p->graph;
  uint64_t words = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    const wafer_kernel_body *body = &g->kernels[k].body;
    for (uint32_t i = 0; i < body->input_count; i++)
      if (body->input_is_weight[i] && counts(p, of, k, i))
        words += value_words(&g->values[g->kernels[k].inputs[i]], body->storage);
  }
  return memoryx_cycles(p->ctx->machine, words);
}

bool peer_is_better(const pipeline *p, uint64_t load, uint64_t other_latency, uint64_t other_load) {
  const uint64_t latency = p->out->cost.latency_cycles;
  return latency <= other_latency + other_latency / LATER &&
         latency + load / CHANGE < other_latency + other_load / CHANGE;
}

/* Of the pieces laid out the one that has most of the weights; of equals the one with the most
 * kernels that are alike, and the last that was laid out. Its graph is NULL: none has any. */
static wafer_status find_leader(const pipeline *p, peer *out) {
  const wafer_peers *peers = p->graph->peers;
  const uint32_t n = p->graph->kernel_count;
  uint64_t most = 0, most_alike = 0;
  uint32_t *spare = WAFER_NEW(p->ctx->arena, uint32_t, n);
  *out = (peer){NULL, WAFER_NEW(p->ctx->arena, uint32_t, n)};
  if (!spare || !out->like) return pipeline_no_memory(p);
  for (uint32_t i = 0; i < peers->count; i++) {
    peer tried = {&peers->at[i], spare};
    uint64_t alike = 0;
    if (!peers->laid[i]) continue;
    WAFER_TRY(peer_match(p, &tried));
    const uint64_t load = peer_load(p, &tried, peer_has_weight);
    for (uint32_t k = 0; k < n; k++) alike += spare[k] != WAFER_NONE;
    if (!load || load < most || (load == most && alike <= most_alike)) continue;
    most = load;
    most_alike = alike;
    spare = out->like;
    *out = tried;
  }
  return WAFER_OK;
}

wafer_status pipeline_heed_peers(pipeline *p) {
  peer leader;
  bool taken = false;
  if (!p->graph->peers) return WAFER_OK;
  WAFER_TRY(find_leader(p, &leader));
  if (leader.graph) WAFER_TRY(pipeline_follow(p, &leader, &taken));
  return taken ? WAFER_OK : pipeline_share_cuts(p);
}
