/* From routes to queues and links: every port from which a colour may come into a router gets a
 * queue, every direction out of a router a link; an out joins the two. */
#include <stdlib.h>
#include <string.h>

#include "router.h"

/* Opposite of north, east, south, west. */
static const uint8_t opposite[] = {WAFER_PORT_south, WAFER_PORT_west, WAFER_PORT_north,
                                   WAFER_PORT_east};

/* A colour at a router. */
typedef struct rule {
  uint32_t route;
  uint32_t first_node; /* its queues, by port */
  uint8_t color;
} rule;

typedef struct builder {
  wafer_fabric *f;
  rule *rules;
  uint32_t *first_rule; /* per router, and the end */
  uint32_t *turn[2];    /* per router that has a route: among them by rows, by columns */
  uint32_t edge_nodes;  /* dead ends, and queues of the border, come from here on */
} builder;

static wafer_loc here(const builder *b) {
  return wafer_at_file(b->f->program->name);
}

static wafer_status no_memory(const builder *b) {
  return wafer_fail(b->f->diag, here(b), WAFER_NO_MEMORY,
                    "the routes of %ux%u cores do not fit the host", b->f->program->width,
                    b->f->program->height);
}

/* The router beyond a port; FABRIC_NONE outside the fabric. */
uint32_t fabric_neighbour(const wafer_fabric *f, uint32_t router, uint32_t port) {
  uint32_t width = f->program->width, x = router % width, y = router / width;
  switch (port) {
  case WAFER_PORT_north: return y > 0 ? router - width : FABRIC_NONE;
  case WAFER_PORT_east: return x + 1 < width ? router + 1 : FABRIC_NONE;
  case WAFER_PORT_south: return y + 1 < f->program->height ? router + width : FABRIC_NONE;
  default: return x > 0 ? router - 1 : FABRIC_NONE;
  }
}

static uint32_t router_of(const wafer_fabric *f, wafer_rect r, uint64_t i) {
  return (r.y + (uint32_t)(i / r.width)) * f->program->width + r.x + (uint32_t)(i % r.width);
}

/* The rule of a colour at a router, NULL: none. */
static rule *find_rule(const builder *b, uint32_t router, uint8_t color) {
  for (uint32_t i = b->first_rule[router]; i < b->first_rule[router + 1]; i++)
    if (b->rules[i].color == color) return &b->rules[i];
  return NULL;
}

static wafer_status two_routes(const builder *b, uint32_t router, uint8_t color) {
  uint32_t width = b->f->program->width;
  return wafer_fail(b->f->diag, here(b), WAFER_BAD_INPUT,
                    "core (%u,%u) has two routes for color %u; a color has one, with positions",
                    router % width, router / width, color);
}

static wafer_status sort_router(builder *b, uint32_t router) {
  uint32_t first = b->first_rule[router];
  for (uint32_t i = first + 1; i < b->first_rule[router + 1]; i++) {
    rule one = b->rules[i];
    uint32_t at = i;
    for (; at > first && b->rules[at - 1].color > one.color; at--) b->rules[at] = b->rules[at - 1];
    b->rules[at] = one;
    if (at > first && b->rules[at - 1].color == one.color) return two_routes(b, router, one.color);
  }
  return WAFER_OK;
}

/* Rules by router, of one router by colour. */
static wafer_status sort_rules(builder *b) {
  const wafer_fabric *f = b->f;
  const wafer_fabric_program *p = f->program;
  uint64_t count = 0;
  b->first_rule = calloc((size_t)f->count + 2, sizeof *b->first_rule);
  if (!b->first_rule) return no_memory(b);
  uint32_t *fill = b->first_rule + 1; /* of the next router: becomes the end of this one */
  for (uint32_t i = 0; i < p->route_count; i++) {
    uint64_t area = wafer_rect_area(p->routes[i].cores);
    count += area;
    for (uint64_t k = 0; k < area; k++) fill[router_of(f, p->routes[i].cores, k) + 1]++;
  }
  if (count >= FABRIC_NONE) return no_memory(b);
  b->rules = malloc((count + 1) * sizeof *b->rules);
  if (!b->rules) return no_memory(b);
  for (uint32_t router = 0; router < f->count; router++) fill[router + 1] += fill[router];
  for (uint32_t i = 0; i < p->route_count; i++)
    for (uint64_t k = 0; k < wafer_rect_area(p->routes[i].cores); k++) {
      uint32_t router = router_of(f, p->routes[i].cores, k);
      b->rules[fill[router]++] = (rule){.route = i, .color = p->routes[i].color};
    }
  for (uint32_t router = 0; router < f->count; router++) WAFER_TRY(sort_router(b, router));
  return WAFER_OK;
}

static const wafer_core_binding *bound(const fabric_core *core, uint8_t color, bool output) {
  for (uint32_t i = 0; core && i < core->program->binding_count; i++)
    if (core->program->bindings[i].color == color && core->program->bindings[i].output == output)
      return &core->program->bindings[i];
  return NULL;
}

static fabric_core *core_at(const wafer_fabric *f, uint32_t router) {
  return f->core_of[router] == FABRIC_NONE ? NULL : &f->cores[f->core_of[router]];
}

/* A new queue, of at most FABRIC_LONGEST words; its registers are those of the link into it. */
static uint32_t add_node(wafer_fabric *f, uint32_t router, uint8_t color, uint8_t port,
                         uint32_t words) {
  if (words > FABRIC_LONGEST) words = FABRIC_LONGEST;
  f->nodes[f->node_count] =
      (fabric_node){.capacity = (uint16_t)words, .credit = 1, .from_core = port == WAFER_PORT_ramp};
  f->sites[f->node_count] = (fabric_site){.from = FABRIC_NONE,
                                          .router = router,
                                          .source = router,
                                          .end = f->node_count,
                                          .core = f->core_of[router],
                                          .writer = f->core_of[router],
                                          .sw = FABRIC_NONE,
                                          .port = port,
                                          .color = color};
  return f->node_count++;
}

static uint32_t in_words(const wafer_fabric *f, uint32_t router, uint8_t color, uint32_t port) {
  const wafer_machine *m = f->machine;
  if (port != WAFER_PORT_ramp) return m->hop_queue + m->hop_cycles - 1;
  const wafer_core_binding *binding = bound(core_at(f, router), color, true);
  return m->hop_queue + m->ramp_cycles + (binding ? m->output_queue_words[binding->queue] : 0);
}

/* The queues of one router, and those of its core's inputs. */
static void add_nodes(builder *b, uint32_t router) {
  wafer_fabric *f = b->f;
  fabric_core *core = core_at(f, router);
  for (uint32_t i = b->first_rule[router]; i < b->first_rule[router + 1]; i++) {
    rule *r = &b->rules[i];
    r->first_node = f->node_count;
    uint32_t ports = wafer_route_from(&f->program->routes[r->route]);
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (ports >> port & 1)
        add_node(f, router, r->color, (uint8_t)port, in_words(f, router, r->color, port));
  }
  for (uint32_t i = 0; core && i < core->program->binding_count; i++) {
    const wafer_core_binding *binding = &core->program->bindings[i];
    core->queue[i] = FABRIC_NONE;
    if (binding->output) continue;
    core->queue[i] =
        add_node(f, router, binding->color, WAFER_PORT_ramp,
                 f->machine->input_queue_words[binding->queue] + f->machine->ramp_cycles);
    f->nodes[core->queue[i]].to_core = true;
    f->nodes[core->queue[i]].from_core = false;
  }
}

/* The queue for a colour that comes into a router from a port; a dead end where no route lets it
 * in: the wavelet that gets there is the trap. */
static uint32_t queue_at(builder *b, uint32_t router, uint8_t color, uint32_t port) {
  const rule *r = find_rule(b, router, color);
  for (uint32_t node = r ? r->first_node : b->f->node_count; node < b->f->node_count; node++) {
    const fabric_site *site = &b->f->sites[node];
    if (site->router != router || site->color != color || b->f->nodes[node].to_core) break;
    if (site->port == port) return node;
  }
  return add_node(b->f, router, color, (uint8_t)port, in_words(b->f, router, color, port));
}

/* Where the host takes words out. */
static uint32_t edge_node(builder *b, uint32_t router, uint8_t color, uint32_t port) {
  for (uint32_t node = b->edge_nodes; node < b->f->node_count; node++) {
    const fabric_site *site = &b->f->sites[node];
    if (b->f->nodes[node].at_edge && site->router == router && site->color == color &&
        site->port == port)
      return node;
  }
  uint32_t node = add_node(b->f, router, color, (uint8_t)port,
                           b->f->machine->hop_queue + b->f->machine->hop_cycles - 1);
  b->f->nodes[node].at_edge = true;
  return node;
}

/* The input queue of the core for a colour; FABRIC_NONE: none. */
static uint32_t input_of(const wafer_fabric *f, uint32_t router, uint8_t color) {
  const fabric_core *core = core_at(f, router);
  return core ? core_queue(core, color, false) : FABRIC_NONE;
}

/* Links of one direction lie side by side as they follow each other: those that a wavelet goes over
 * are near each other. */
static uint32_t link_at(const builder *b, uint32_t router, uint32_t port) {
  bool vertical = port == WAFER_PORT_north || port == WAFER_PORT_south;
  return port * (b->f->link_count / WAFER_PORTS) + b->turn[vertical][router];
}

static wafer_status add_out(builder *b, uint32_t node, uint32_t port) {
  wafer_fabric *f = b->f;
  uint32_t router = f->sites[node].router, to, width = f->program->width;
  uint8_t color = f->sites[node].color;
  if (port == WAFER_PORT_ramp) {
    to = input_of(f, router, color);
    if (to == FABRIC_NONE)
      return wafer_fail(
          f->diag, here(b), WAFER_BAD_INPUT,
          "the route of color %u leads into core (%u,%u), which binds no input queue to it", color,
          router % width, router / width);
  } else {
    uint32_t beyond = fabric_neighbour(f, router, port);
    to = beyond == FABRIC_NONE ? edge_node(b, router, color, port)
                               : queue_at(b, beyond, color, opposite[port]);
  }
  fabric_link *link = &f->links[link_at(b, router, port)];
  if (link->candidates == FABRIC_CANDIDATES)
    return wafer_fail(f->diag, here(b), WAFER_NO_FIT,
                      "more than %u ways lead out of a port of core (%u,%u)", FABRIC_CANDIDATES,
                      router % width, router / width);
  f->nodes[to].by_switch = f->nodes[node].switched;
  f->sites[to].from = f->nodes[node].switched ? f->sites[node].sw : node;
  f->outs[f->out_count++] = (fabric_out){.link = (uint32_t)(link - f->links),
                                         .node = to,
                                         .rank = link->candidates++,
                                         .latency = link->latency,
                                         .hops = link->between};
  return WAFER_OK;
}

/* The outs of every position of one colour at one router. */
static wafer_status join_rule(builder *b, uint32_t router, const rule *at) {
  wafer_fabric *f = b->f;
  const wafer_route *r = &f->program->routes[at->route];
  fabric_switch *s = &f->switches[f->switch_count];
  for (uint32_t p = 0; p < r->positions; p++) {
    uint32_t node = queue_at(b, router, at->color, r->at[p].from);
    s->nodes[p] = node;
    f->nodes[node].switched = r->positions > 1;
    f->sites[node].sw = r->positions > 1 ? f->switch_count : FABRIC_NONE;
    s->first_out[p] = f->out_count;
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (r->at[p].to >> port & 1) WAFER_TRY(add_out(b, node, port));
    s->outs[p] = f->out_count - s->first_out[p];
  }
  fabric_node *first = &f->nodes[s->nodes[0]];
  f->sites[s->nodes[0]].first_out = s->first_out[0];
  first->outs = (uint8_t)s->outs[0];
  s->positions = r->positions;
  s->wrap = r->wrap;
  f->switch_count += r->positions > 1;
  return WAFER_OK;
}

static void join_links(builder *b) {
  wafer_fabric *f = b->f;
  for (uint32_t i = 0; i < f->link_count; i++) {
    f->links[i].between = i / (f->link_count / WAFER_PORTS) != WAFER_PORT_ramp;
    uint32_t cycles = f->links[i].between ? f->machine->hop_cycles : f->machine->ramp_cycles;
    f->links[i].latency = (uint16_t)(cycles ? cycles : 1);
  }
}

/* A core's way to itself, which its program does not take. */
static bool is_unused(const builder *b, uint32_t router, const rule *at) {
  const wafer_route *r = &b->f->program->routes[at->route];
  const fabric_core *core = core_at(b->f, router);
  return r->positions == 1 && r->at[0].from == WAFER_PORT_ramp && r->at[0].to == WAFER_TO(ramp) &&
         (!core || core_queue(core, at->color, true) == FABRIC_NONE);
}

static wafer_status join(builder *b) {
  wafer_fabric *f = b->f;
  join_links(b);
  for (uint32_t router = 0; router < f->count; router++) {
    fabric_core *core = core_at(f, router);
    for (uint32_t i = 0; core && i < core->program->binding_count; i++) {
      const wafer_core_binding *binding = &core->program->bindings[i];
      if (binding->output) core->queue[i] = queue_at(b, router, binding->color, WAFER_PORT_ramp);
    }
    for (uint32_t i = b->first_rule[router]; i < b->first_rule[router + 1]; i++)
      if (!is_unused(b, router, &b->rules[i])) WAFER_TRY(join_rule(b, router, &b->rules[i]));
  }
  return WAFER_OK;
}

/* Those that have a route, by rows or columns; how many there are. */
static uint32_t number_routers(builder *b, bool by_column) {
  uint32_t width = b->f->program->width, height = b->f->program->height, count = 0;
  for (uint32_t i = 0; i < b->f->count; i++) {
    uint32_t router = by_column ? i % height * width + i / height : i;
    b->turn[by_column][router] = count;
    count += b->first_rule[router + 1] > b->first_rule[router];
  }
  return count;
}

/* Upper bounds: queues, outs and switches that the routes can ask for. */
static wafer_status allocate(builder *b) {
  wafer_fabric *f = b->f;
  size_t nodes = 0, outs = 0, switches = 0, filters = 0, routers = 0;
  for (uint32_t by = 0; by < 2; by++) {
    b->turn[by] = calloc((size_t)f->count + 1, sizeof *b->turn[by]);
    if (!b->turn[by]) return no_memory(b);
    routers = number_routers(b, by);
  }
  for (uint32_t i = 0; i < b->first_rule[f->count]; i++) {
    const wafer_route *r = &f->program->routes[b->rules[i].route];
    nodes += (size_t)__builtin_popcount(wafer_route_from(r));
    for (uint32_t p = 0; p < r->positions; p++) outs += (size_t)__builtin_popcount(r->at[p].to);
    switches += r->positions > 1;
  }
  for (uint32_t i = 0; i < f->core_count; i++) nodes += f->cores[i].program->binding_count;
  nodes += outs; /* dead ends */
  for (uint32_t i = 0; i < f->program->filter_use_count; i++)
    filters += wafer_rect_area(f->program->filter_uses[i].cores);
  if (nodes >= FABRIC_LOOK || 2 * routers * WAFER_PORTS >= FABRIC_LOOK >> FABRIC_RANK_BITS)
    return no_memory(b);
  f->link_count = (uint32_t)(routers * WAFER_PORTS);
  f->nodes = aligned_alloc(64, (nodes + 2) / 2 * 64);
  f->first_site = calloc((size_t)f->count + 1, sizeof *f->first_site);
  f->filters = calloc(filters + 1, sizeof *f->filters);
  f->sites = aligned_alloc(64, (nodes + 1) * sizeof *f->sites);
  f->outs = malloc((outs + 1) * sizeof *f->outs);
  f->candidates = malloc((outs + 1) * sizeof *f->candidates);
  f->ways = malloc((outs + 1) * sizeof *f->ways);
  f->link_room = f->link_count + (uint32_t)(outs / FABRIC_RANKS) + 1; /* with those of many */
  f->links = calloc(f->link_room, sizeof *f->links);
  f->gates = aligned_alloc(64, (f->link_room + 3ull) / 4 * 64);
  f->switches = calloc(switches + 1, sizeof *f->switches);
  bool lists = fabric_make_lists(f, (uint32_t)switches);
  return f->nodes && f->first_site && f->filters && f->sites && f->outs && f->candidates &&
                 f->ways && f->links && f->gates && f->switches && lists
             ? WAFER_OK
             : no_memory(b);
}

/* Who may ask for a link, in the order of ranks. */
static void list_candidates(wafer_fabric *f) {
  uint32_t first = 0, more = f->link_count;
  for (uint32_t i = 0; i < f->link_count; i++) {
    f->links[i].first = first;
    f->links[i].more = f->links[i].candidates > FABRIC_RANKS ? more++ : FABRIC_NONE;
    first += f->links[i].candidates;
    f->gates[i] =
        (fabric_gate){.first = f->links[i].first, .many = f->links[i].more != FABRIC_NONE};
    if (!f->gates[i].many) continue;
    f->links[f->links[i].more].more = i;
    f->gates[f->links[i].more] = f->gates[i];
  }
  for (uint32_t node = 0; node < f->node_count; node++) {
    fabric_node *q = &f->nodes[node];
    const fabric_switch *s = q->switched ? &f->switches[f->sites[node].sw] : NULL;
    for (uint32_t p = 0; p < (s ? s->positions : 1u); p++) {
      if (s && s->nodes[p] != node) continue;
      uint32_t start = s ? s->first_out[p] : f->sites[node].first_out;
      uint32_t count = s ? s->outs[p] : q->outs;
      for (uint32_t k = 0; k < count; k++) {
        const fabric_out *out = &f->outs[start + k];
        fabric_set_candidate(f, node, out);
      }
    }
  }
}

/* Nobody else asks for the link at the same time: of several candidates, all are let out by one
 * switch. */
static bool is_alone(const wafer_fabric *f, const fabric_link *link) {
  const fabric_candidate *who = &f->candidates[link->first];
  uint32_t sw = link->candidates ? f->sites[who[0].node].sw : FABRIC_NONE;
  for (uint32_t i = 1; i < link->candidates; i++)
    if (sw == FABRIC_NONE || f->sites[who[i].node].sw != sw) return false;
  return true;
}

/* One way out, which nothing but the link and the room beyond decides: it asks for the link at
 * once. All others are looked at first. */
static void find_ask(wafer_fabric *f, uint32_t node) {
  fabric_node *q = &f->nodes[node];
  const fabric_out *out = &f->outs[f->sites[node].first_out];
  if (q->to_core) return;
  q->ask = FABRIC_LOOK | node;
  if (q->outs != 1 || q->switched || q->passed || f->nodes[out->node].filtered) return;
  q->ask = fabric_asked(f, out);
}

/* How many words a core may leave in an input before it is visited: there has to be room for those
 * that come in until then. Words that come ahead of time, as they may where a queue passes another
 * core, would need more than that. */
static void find_patience(wafer_fabric *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    const fabric_node *q = &f->nodes[i];
    f->sites[i].patience = q->to_core && !q->outer && !q->by_switch ? q->capacity : 0;
  }
  for (uint32_t i = 0; i < f->out_count; i++) {
    const fabric_out *out = &f->outs[i];
    uint32_t capacity = f->nodes[out->node].capacity, *patience = &f->sites[out->node].patience;
    bool ahead = i + 1 < f->out_count && f->nodes[f->outs[i + 1].node].filtered;
    uint32_t most = ahead || capacity < out->latency ? 0 : capacity - out->latency;
    if (*patience > most) *patience = most;
  }
}

/* Queues at rest, in their own entries or in the pool. */
static wafer_status fill_queues(builder *b) {
  wafer_fabric *f = b->f;
  for (uint32_t i = 0; i < f->node_count; i++)
    if (f->nodes[i].capacity > FABRIC_INLINE && !f->nodes[i].gone)
      f->pool_count += f->nodes[i].capacity;
  f->pool = calloc(f->pool_count + 1, sizeof *f->pool);
  if (!f->pool) return no_memory(b);
  fabric_entry *free_entries = f->pool;
  for (uint32_t i = 0; i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    fabric_find_pass(f, q);
    find_ask(f, i);
    q->outer = f->sites[i].from == FABRIC_NONE;
    q->pending = (uint8_t)((1u << q->outs) - 1);
    if (q->capacity <= FABRIC_INLINE) continue;
    q->elsewhere = free_entries;
    if (!q->gone) free_entries += q->capacity;
  }
  find_patience(f);
  router_find_briefs(f);
  return WAFER_OK;
}

static wafer_status add_filters(builder *b) {
  wafer_fabric *f = b->f;
  for (uint32_t i = 0; i < f->program->filter_use_count; i++) {
    const wafer_filter_use *use = &f->program->filter_uses[i];
    for (uint64_t k = 0; k < wafer_rect_area(use->cores); k++) {
      uint32_t router = router_of(f, use->cores, k), width = f->program->width;
      uint32_t node = input_of(f, router, use->color);
      if (node == FABRIC_NONE || f->nodes[node].filtered)
        return wafer_fail(f->diag, here(b), WAFER_BAD_INPUT,
                          "core (%u,%u) has a filter for color %u, and %s", router % width,
                          router / width, use->color,
                          node == FABRIC_NONE ? "no input queue is bound to it" : "one before");
      f->nodes[node].filtered = true;
      f->sites[node].filter = f->filter_count;
      fabric_filter_start(&f->filters[f->filter_count++], &f->program->filters[use->filter]);
    }
  }
  return WAFER_OK;
}

static wafer_status build(builder *b) {
  wafer_fabric *f = b->f;
  WAFER_TRY(sort_rules(b));
  WAFER_TRY(allocate(b));
  for (uint32_t router = 0; router < f->count; router++) {
    f->first_site[router] = f->node_count;
    add_nodes(b, router);
  }
  f->first_site[f->count] = b->edge_nodes = f->node_count;
  WAFER_TRY(join(b));
  list_candidates(f);
  for (uint32_t i = 0; i < f->out_count; i++)
    f->outs[i].alone = is_alone(f, &f->links[f->outs[i].link]);
  WAFER_TRY(add_filters(b));
  WAFER_TRY(fabric_cut(f));
  if (!f->single) {
    WAFER_TRY(fabric_merge(f));
    uint32_t *stack = malloc(((size_t)f->node_count + 1) * sizeof *stack);
    if (!stack) return no_memory(b);
    fabric_find_roots(f, stack);
    free(stack);
    WAFER_TRY(fabric_find_fans(f));
  }
  fabric_find_border(f);
  return fill_queues(b);
}

wafer_status fabric_build_routes(wafer_fabric *f) {
  builder b = {.f = f};
  wafer_status status = build(&b);
  free(b.rules);
  free(b.first_rule);
  free(b.turn[0]);
  free(b.turn[1]);
  return status;
}
