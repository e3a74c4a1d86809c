#include "order.h"

#include <string.h>

#define INNER SIZE_MAX /* the maker of a name that a graph inside a node has itself */

/* What a node waits for, one after the other, and where the walk stands in it. */
typedef struct visit {
  size_t node, next, end; /* next: of `needs` */
} visit;

typedef struct need {
  size_t maker;
  const char *name;
} need;

typedef struct sorter {
  const node_order *order;
  wafer_arena *arena; /* for the time of sorting */
  scope makers;       /* who makes which name */
  need *needs;        /* of all nodes, in their order */
  size_t *first;      /* of node i: needs[first[i]] to needs[first[i + 1]] */
  uint32_t room;
  size_t count;
} sorter;

static wafer_status no_memory(const node_order *o) {
  return wafer_fail(o->diag, wafer_at_file(o->file), WAFER_NO_MEMORY,
                    "no memory to put %zu nodes in order", o->nodes->count);
}

static bool name_makers(scope *makers, wafer_arena *arena, const scope *outer,
                        const onnx_nodes *nodes, size_t others, bool inner) {
  size_t names = others;
  for (size_t i = 0; i < nodes->count; i++) names += nodes->at[i].output.count;
  if (!scope_init(makers, arena, outer, NULL, names)) return false;
  for (size_t i = 0; i < nodes->count; i++)
    for (size_t j = 0; j < nodes->at[i].output.count; j++) {
      name_entry *entry = scope_add(makers, nodes->at[i].output.at[j]);
      if (entry) entry->maker = inner ? INNER : i;
    }
  return true;
}

/* ---- What nodes use ---- */

/* A name that is there already stands for that, unless a node before this one makes it anew. */
static bool use(sorter *s, size_t node, const scope *names, const char *name) {
  const name_entry *entry = name && *name ? scope_find(names, name) : NULL;
  if (!entry || entry->maker == INNER) return true;
  if (entry->maker >= node && scope_find(s->order->visible, name)) return true;
  if (!WAFER_GROW(s->arena, s->needs, s->count, s->room, 64)) return false;
  s->needs[s->count++] = (need){entry->maker, entry->name};
  return true;
}

static bool use_in_node(sorter *s, size_t index, const scope *names, const onnx_node *node);

static bool use_in_graph(sorter *s, size_t index, const scope *outer, const onnx_graph *graph) {
  scope names;
  size_t others = graph->input.count + graph->initializer.count + graph->sparse_initializer.count;
  if (!name_makers(&names, s->arena, outer, &graph->node, others, true)) return false;
  for (size_t i = 0; i < others; i++) {
    const onnx_tensor *values = NULL;
    const char *name = NULL;
    size_t k = i;
    if (k < graph->input.count)
      name = graph->input.at[k].name;
    else if ((k -= graph->input.count) < graph->initializer.count)
      name = graph->initializer.at[k].name;
    else if ((values = graph->sparse_initializer.at[k - graph->initializer.count].values))
      name = values->name;
    name_entry *entry = name ? scope_add(&names, name) : NULL;
    if (entry) entry->maker = INNER;
  }
  for (size_t i = 0; i < graph->node.count; i++)
    if (!use_in_node(s, index, &names, &graph->node.at[i])) return false;
  for (size_t i = 0; i < graph->output.count; i++)
    if (!use(s, index, &names, graph->output.at[i].name)) return false;
  return true;
}

/* `index`: of the node of the graph being sorted that `node` is, or is inside of. */
static bool use_in_node(sorter *s, size_t index, const scope *names, const onnx_node *node) {
  for (size_t i = 0; i < node->input.count; i++)
    if (!use(s, index, names, node->input.at[i])) return false;
  for (size_t a = 0; a < node->attribute.count; a++) {
    const onnx_attribute *attribute = &node->attribute.at[a];
    if (attribute->g && !use_in_graph(s, index, names, attribute->g)) return false;
    for (size_t g = 0; g < attribute->graphs.count; g++)
      if (!use_in_graph(s, index, names, &attribute->graphs.at[g])) return false;
  }
  return true;
}

/* Fills in what every node needs. *sorted: all of it stands before the node. */
static bool find_needs(sorter *s, bool *sorted) {
  const onnx_nodes *nodes = s->order->nodes;
  s->first = WAFER_NEW(s->arena, size_t, nodes->count + 1);
  if (!s->first || !name_makers(&s->makers, s->arena, NULL, nodes, 0, false)) return false;
  *sorted = true;
  for (size_t i = 0; i < nodes->count; i++) {
    if (!use_in_node(s, i, &s->makers, &nodes->at[i])) return false;
    s->first[i + 1] = s->count;
    for (size_t k = s->first[i]; k < s->count; k++) *sorted &= s->needs[k].maker < i;
  }
  return true;
}

/* ---- Sorting ---- */

/* `path` leads from a node to one that uses it: said is the one that stands first in the file. */
static wafer_status cycle(const sorter *s, const visit *path, size_t count) {
  const onnx_nodes *nodes = s->order->nodes;
  size_t least = 0;
  for (size_t i = 1; i < count; i++)
    if (path[i].node < path[least].node) least = i;
  size_t index = path[least].node;
  const need *uses = &s->needs[path[least].next];
  wafer_loc loc = wafer_at_node(s->order->file, onnx_node_label(&nodes->at[index]), (int64_t)index);
  return wafer_fail(s->order->diag, loc, WAFER_BAD_INPUT,
                    "is part of a cycle: uses '%s' of node '%s', which depends on this node",
                    uses->name, onnx_node_label(&nodes->at[uses->maker]));
}

/* Walks from every node, in their order, to what it needs first. */
static wafer_status sort(const sorter *s, size_t *sorted) {
  size_t count = s->order->nodes->count, made = 0, depth = 0;
  enum { NEW, OPEN, DONE };
  uint8_t *state = WAFER_NEW(s->arena, uint8_t, count);
  visit *path = WAFER_NEW(s->arena, visit, count);
  if (!state || !path) return no_memory(s->order);
  for (size_t start = 0; start < count; start++) {
    if (state[start] == NEW) path[depth++] = (visit){start, s->first[start], s->first[start + 1]};
    while (depth) {
      visit *at = &path[depth - 1];
      state[at->node] = OPEN;
      while (at->next < at->end && state[s->needs[at->next].maker] == DONE) at->next++;
      if (at->next == at->end) {
        state[at->node] = DONE;
        sorted[made++] = at->node;
        depth--;
        continue;
      }
      size_t maker = s->needs[at->next].maker;
      if (state[maker] == OPEN) {
        visit *from = at;
        while (from->node != maker) from--;
        return cycle(s, from, (size_t)(at - from) + 1);
      }
      path[depth++] = (visit){maker, s->first[maker], s->first[maker + 1]};
    }
  }
  return WAFER_OK;
}

static wafer_status sort_nodes(sorter *s, const size_t **out) {
  bool sorted;
  if (!find_needs(s, &sorted)) return no_memory(s->order);
  if (sorted) return WAFER_OK;
  size_t *order = WAFER_NEW(s->order->arena, size_t, s->order->nodes->count);
  if (!order) return no_memory(s->order);
  *out = order;
  return sort(s, order);
}

wafer_status order_nodes(const node_order *order, const size_t **out) {
  *out = NULL;
  sorter s = {.order = order, .arena = wafer_arena_create()};
  wafer_status status = s.arena ? sort_nodes(&s, out) : no_memory(order);
  wafer_arena_destroy(s.arena);
  return status;
}
