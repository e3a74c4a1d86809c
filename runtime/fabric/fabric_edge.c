/* The border: words that the host feeds into routers' ports and drains from them, at the rates of
 * groups. */
#include <stdlib.h>

#include "fabric_state.h"

static wafer_loc here(const wafer_fabric *f) {
  return wafer_at_file(f->program->name);
}

static bool is_site(const wafer_fabric *f, uint32_t node, uint32_t router, wafer_port port,
                    uint8_t color) {
  const fabric_site *site = &f->sites[node];
  return site->router == router && site->port == port && site->color == color &&
         !f->nodes[node].to_core;
}

/* The queue of a port from outside, or (drain) the one that leads outside. */
static uint32_t find_node(const wafer_fabric *f, uint32_t router, wafer_port port, uint8_t color,
                          bool drain) {
  uint32_t first = drain ? f->first_site[f->count] : f->first_site[router];
  uint32_t end = drain ? f->node_count : f->first_site[router + 1];
  for (uint32_t node = first; node < end; node++)
    if (is_site(f, node, router, port, color) && f->nodes[node].at_edge == drain)
      return f->sites[node].end;
  return FABRIC_NONE;
}

static wafer_status no_port(const wafer_fabric *f, uint32_t x, uint32_t y, wafer_port port,
                            uint32_t group) {
  return wafer_fail(f->diag, here(f), WAFER_USAGE,
                    "port %u of core (%u,%u), group %u: words come in and go out at ports of the "
                    "border that are not the ramp, in groups below %u, before the run",
                    port, x, y, group, WAFER_EDGE_GROUPS);
}

static wafer_status add(wafer_fabric *f, uint32_t x, uint32_t y, wafer_port port, uint8_t color,
                        fabric_edge edge) {
  uint32_t router = y * f->program->width + x;
  if (f->ran || x >= f->program->width || y >= f->program->height || port >= WAFER_PORT_ramp ||
      edge.group >= WAFER_EDGE_GROUPS || fabric_neighbour(f, router, port) != FABRIC_NONE)
    return no_port(f, x, y, port, edge.group);
  edge.node = find_node(f, router, port, color, edge.drain != NULL);
  if (edge.node == FABRIC_NONE)
    return wafer_fail(f->diag, here(f), WAFER_BAD_INPUT,
                      "no route of color %u %s at port %u of core (%u,%u)", color,
                      edge.drain ? "leaves the fabric" : "comes in", port, x, y);
  if (f->edge_count == f->edge_room) {
    uint32_t room = f->edge_room ? 2 * f->edge_room : 64;
    fabric_edge *more = realloc(f->edges, room * sizeof *more);
    if (!more)
      return wafer_fail(f->diag, here(f), WAFER_NO_MEMORY,
                        "%u feeds and drains do not fit the host", room);
    f->edges = more;
    f->edge_room = room;
  }
  f->edges[f->edge_count++] = edge;
  return WAFER_OK;
}

wafer_status wafer_fabric_feed(wafer_fabric *f, uint32_t x, uint32_t y, wafer_port port,
                               uint8_t color, const uint32_t *words, uint32_t count,
                               wafer_control control, uint32_t group) {
  if (!count) return WAFER_OK;
  return add(f, x, y, port, color,
             (fabric_edge){.count = count,
                           .round = f->edge_round,
                           .feed = words,
                           .control = (uint8_t)control,
                           .group = (uint8_t)(group < 255 ? group : 255)});
}

wafer_status wafer_fabric_drain(wafer_fabric *f, uint32_t x, uint32_t y, wafer_port port,
                                uint8_t color, uint32_t *words, uint32_t count, uint32_t group,
                                uint64_t *finish) {
  return add(f, x, y, port, color,
             (fabric_edge){.count = count,
                           .round = f->edge_round,
                           .drain = words,
                           .finish = finish,
                           .group = (uint8_t)(group < 255 ? group : 255)});
}

void wafer_fabric_round(wafer_fabric *f) {
  f->edge_round++;
}

void wafer_fabric_rate(wafer_fabric *f, uint32_t group, uint32_t words, uint32_t cycles) {
  if (group >= WAFER_EDGE_GROUPS) return;
  f->groups[group].words = words;
  f->groups[group].cycles = words ? cycles : 0;
}

/* A route that leads outside must have somebody who takes the words. */
static wafer_status check_drains(const wafer_fabric *f) {
  for (uint32_t node = f->first_site[f->count]; node < f->node_count; node++) {
    if (!f->nodes[node].at_edge) continue;
    bool drained = false;
    for (uint32_t i = 0; i < f->edge_count && !drained; i++) drained = f->edges[i].node == node;
    uint32_t router = f->sites[node].router;
    if (!drained)
      return wafer_fail(f->diag, here(f), WAFER_BAD_INPUT,
                        "the route of color %u leaves the fabric at core (%u,%u), where nobody "
                        "drains it",
                        f->sites[node].color, router % f->program->width,
                        router / f->program->width);
  }
  return WAFER_OK;
}

/* Behind those of its round. */
static void take_turn(wafer_fabric *f, uint32_t edge) {
  fabric_group *group = &f->groups[f->edges[edge].group];
  uint32_t at = group->turn_count++;
  for (; at > 0 && f->edges[group->turns[at - 1]].round > f->edges[edge].round; at--)
    group->turns[at] = group->turns[at - 1];
  group->turns[at] = edge;
}

/* The first of each queue gets a turn; the others wait behind it. */
wafer_status fabric_edge_begin(wafer_fabric *f) {
  WAFER_TRY(check_drains(f));
  f->edges_left = 0;
  for (uint32_t i = 0; i < f->edge_count; i++) f->edges_left += f->edges[i].count != 0;
  if (!f->edges_left) return WAFER_OK;
  uint32_t *last = malloc(f->node_count * sizeof *last);
  bool room = last != NULL;
  for (uint32_t g = 0; g < WAFER_EDGE_GROUPS; g++) {
    f->groups[g].due = f->now;
    f->groups[g].turns = malloc(f->edge_count * sizeof *f->groups[g].turns);
    room &= f->groups[g].turns != NULL;
  }
  for (uint32_t i = 0; room && i < f->node_count; i++) last[i] = FABRIC_NONE;
  for (uint32_t i = 0; room && i < f->edge_count; i++) {
    fabric_edge *edge = &f->edges[i];
    edge->behind = FABRIC_NONE;
    if (!edge->count) continue;
    if (last[edge->node] == FABRIC_NONE)
      take_turn(f, i);
    else
      f->edges[last[edge->node]].behind = i;
    last[edge->node] = i;
  }
  free(last);
  if (room) return WAFER_OK;
  return wafer_fail(f->diag, here(f), WAFER_NO_MEMORY, "%u feeds and drains do not fit the host",
                    f->edge_count);
}

/* One word, where there is room for it or one to take. */
static bool can_go(const wafer_fabric *f, const fabric_edge *edge) {
  const fabric_node *q = &f->nodes[edge->node];
  return edge->feed ? !fabric_room_in(f, q, 1) : q->count && !fabric_wait(f, q);
}

static void go(wafer_fabric *f, fabric_edge *edge) {
  fabric_node *q = &f->nodes[edge->node];
  bool last = edge->done + 1 == edge->count;
  if (edge->feed) {
    fabric_push(f, edge->node, edge->feed[edge->done], last ? edge->control : WAFER_CONTROL_none,
                f->machine->hop_cycles ? f->machine->hop_cycles : 1);
  } else {
    edge->drain[edge->done] = fabric_front(q)->word;
    fabric_pop(f, q);
  }
  edge->done++;
  f->moved = true;
  if (f->edge_finish < f->now + 1) f->edge_finish = f->now + 1;
  if (last && edge->finish && *edge->finish < f->now + 1) *edge->finish = f->now + 1;
}

/* What has ended hands its turn to whoever waits behind it, who may be of another group. */
static void hand_over(wafer_fabric *f, fabric_group *group, uint32_t turn) {
  const fabric_edge *edge = &f->edges[group->turns[turn]];
  f->edges_left--;
  for (group->turn_count--; turn < group->turn_count; turn++)
    group->turns[turn] = group->turns[turn + 1];
  if (edge->behind != FABRIC_NONE) take_turn(f, edge->behind);
}

/* Every member of a round once, beginning where the rate ended the cycle before. False: the rate
 * has ended again. */
static bool serve_round(wafer_fabric *f, fabric_group *group, const uint32_t *turns,
                        uint32_t members) {
  uint32_t round = f->edges[turns[0]].round;
  uint32_t from = group->round == round && group->next < members ? group->next : 0;
  for (uint32_t i = 0; i < members; i++) {
    uint32_t turn = from + i < members ? from + i : from + i - members;
    fabric_edge *edge = &f->edges[turns[turn]];
    const fabric_node *q = &f->nodes[edge->node];
    if (!can_go(f, edge)) {
      f->moved |= edge->feed ? fabric_room_in(f, q, 1) != FABRIC_NONE : q->count != 0; /* it will */
      continue;
    }
    if (group->cycles && group->credit < group->cycles) {
      group->next = turn;
      group->round = round;
      f->moved = true; /* the rate gives more in the next cycle */
      return false;
    }
    if (group->cycles) group->credit -= group->cycles;
    go(f, edge);
  }
  return true;
}

/* What the rate gives in the present cycle and in those since the last one that nobody visited;
 * less than a word of it is kept for the next cycle. */
static void add_credit(const wafer_fabric *f, fabric_group *group) {
  uint64_t since = group->due > f->opens ? group->due : f->opens;
  uint64_t most = group->cycles - 1u, skipped = f->now - since;
  group->credit += skipped < most ? skipped * group->words : most;
  if (group->credit > most) group->credit = most;
  group->credit += group->words;
  group->due = f->now + 1;
}

static void serve(wafer_fabric *f, fabric_group *group) {
  if (group->cycles) add_credit(f, group);
  for (uint32_t first = 0, end = 0; first < group->turn_count; first = end) {
    uint32_t round = f->edges[group->turns[first]].round;
    while (end < group->turn_count && f->edges[group->turns[end]].round == round) end++;
    if (!serve_round(f, group, group->turns + first, end - first)) return;
  }
}

void wafer_fabric_open(wafer_fabric *f, uint32_t cycle) {
  f->opens = cycle;
}

void fabric_edge_cycle(wafer_fabric *f) {
  if (f->now < f->opens) {
    f->moved = true; /* it will */
    return;
  }
  for (uint32_t g = 0; g < WAFER_EDGE_GROUPS; g++)
    if (f->groups[g].turn_count) serve(f, &f->groups[g]);
  for (uint32_t g = 0; g < WAFER_EDGE_GROUPS; g++)
    for (uint32_t turn = f->groups[g].turn_count; turn-- > 0;) {
      const fabric_edge *edge = &f->edges[f->groups[g].turns[turn]];
      if (edge->done == edge->count) hand_over(f, &f->groups[g], turn);
    }
}

void fabric_edge_free(wafer_fabric *f) {
  free(f->edges);
  f->edges = NULL;
  f->edge_count = f->edge_room = f->edges_left = f->edge_round = 0;
  f->edge_finish = 0;
  for (uint32_t g = 0; g < WAFER_EDGE_GROUPS; g++) {
    free(f->groups[g].turns);
    f->groups[g] = (fabric_group){0};
  }
}
