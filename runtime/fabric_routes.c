/* From routes to queues and links: every port from which a colour may come into a router gets a
 * queue, every direction out of a router a link; an out joins the two. */
#include <stdlib.h>
#include <string.h>

#include "fabric_state.h"

/* Opposite of north, east, south, west. */
static const uint8_t opposite[] = {WAFER_PORT_south, WAFER_PORT_west, WAFER_PORT_north,
                                   WAFER_PORT_east};

typedef struct builder {
  wafer_fabric *f;
  uint32_t *rule;       /* of router * colors + color; FABRIC_NONE */
  uint32_t edge_nodes;  /* dead ends, and queues of the border, come from here on */
  uint32_t *first_node; /* of a rule at a router: its queues, by port */
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
  case WAFER_PORT_north:
    return y > 0 ? router - width : FABRIC_NONE;
  case WAFER_PORT_east:
    return x + 1 < width ? router + 1 : FABRIC_NONE;
  case WAFER_PORT_south:
    return y + 1 < f->program->height ? router + width : FABRIC_NONE;
  default:
    return x > 0 ? router - 1 : FABRIC_NONE;
  }
}

static wafer_status lay_rule(builder *b, uint32_t index) {
  const wafer_fabric_program *p = b->f->program;
  const wafer_route *r = &p->routes[index];
  for (uint32_t y = r->cores.y; y < r->cores.y + r->cores.height; y++)
    for (uint32_t x = r->cores.x; x < r->cores.x + r->cores.width; x++) {
      uint32_t *rule = &b->rule[(size_t)(y * p->width + x) * b->f->machine->colors + r->color];
      if (*rule != FABRIC_NONE)
        return wafer_fail(
            b->f->diag, here(b), WAFER_BAD_INPUT,
            "core (%u,%u) has two routes for color %u; a color has one, with positions", x, y,
            r->color);
      *rule = index;
    }
  return WAFER_OK;
}

static uint32_t in_ports(const wafer_route *r) {
  uint32_t ports = 0;
  for (uint32_t p = 0; p < r->positions; p++) ports |= 1u << r->at[p].from;
  return ports;
}

static const wafer_core_binding *bound(const fabric_core *core, uint8_t color, bool output) {
  for (uint32_t i = 0; core->program && i < core->program->binding_count; i++)
    if (core->program->bindings[i].color == color && core->program->bindings[i].output == output)
      return &core->program->bindings[i];
  return NULL;
}

/* A new queue, of at most FABRIC_LONGEST words; its registers are those of the link into it. */
static uint32_t add_node(wafer_fabric *f, uint32_t router, uint8_t color, uint8_t port,
                         uint32_t words) {
  if (words > FABRIC_LONGEST) words = FABRIC_LONGEST;
  f->nodes[f->node_count] = (fabric_node){.capacity = (uint16_t)words,
                                          .popped = FABRIC_NONE,
                                          .from = FABRIC_NONE,
                                          .from_core = port == WAFER_PORT_ramp};
  f->sites[f->node_count] =
      (fabric_site){.router = router, .sw = FABRIC_NONE, .port = port, .color = color};
  if (words > FABRIC_INLINE) f->pool_count += words;
  return f->node_count++;
}

static uint32_t in_words(const wafer_fabric *f, uint32_t router, uint8_t color, uint32_t port) {
  const wafer_machine *m = f->machine;
  if (port != WAFER_PORT_ramp) return m->hop_queue + m->hop_cycles - 1;
  const wafer_core_binding *binding = bound(&f->cores[router], color, true);
  return m->hop_queue + m->ramp_cycles + (binding ? m->output_queue_words[binding->queue] : 0);
}

/* The queues of one router, and those of its core's inputs. */
static void add_nodes(builder *b, uint32_t router) {
  wafer_fabric *f = b->f;
  fabric_core *core = &f->cores[router];
  for (uint32_t color = 0; color < f->machine->colors; color++) {
    size_t at = (size_t)router * f->machine->colors + color;
    b->first_node[at] = f->node_count;
    if (b->rule[at] == FABRIC_NONE) continue;
    uint32_t ports = in_ports(&f->program->routes[b->rule[at]]);
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (ports >> port & 1)
        add_node(f, router, (uint8_t)color, (uint8_t)port,
                 in_words(f, router, (uint8_t)color, port));
  }
  for (uint32_t i = 0; core->program && i < core->program->binding_count; i++) {
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
  size_t at = (size_t)router * b->f->machine->colors + color;
  if (b->rule[at] != FABRIC_NONE)
    for (uint32_t node = b->first_node[at]; node < b->f->node_count; node++) {
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

static wafer_status add_out(builder *b, uint32_t node, uint32_t port) {
  wafer_fabric *f = b->f;
  uint32_t router = f->sites[node].router, to;
  uint8_t color = f->sites[node].color;
  if (port == WAFER_PORT_ramp) {
    to = core_queue(&f->cores[router], color, false);
    if (to == FABRIC_NONE)
      return wafer_fail(
          f->diag, here(b), WAFER_BAD_INPUT,
          "the route of color %u leads into core (%u,%u), which binds no input queue to it", color,
          router % f->program->width, router / f->program->width);
  } else {
    uint32_t beyond = fabric_neighbour(f, router, port);
    to = beyond == FABRIC_NONE ? edge_node(b, router, color, port)
                               : queue_at(b, beyond, color, opposite[port]);
  }
  uint32_t link = router * WAFER_PORTS + port;
  f->nodes[to].from = node;
  f->ranks[f->out_count] =
      f->links[link].candidates++; /* at most 5 ports of 4 positions of 1024 colors */
  f->outs[f->out_count++] = (fabric_out){link, to};
  return WAFER_OK;
}

/* The outs of every position of one colour at one router. */
static wafer_status join_rule(builder *b, uint32_t router, uint8_t color) {
  wafer_fabric *f = b->f;
  const wafer_route *r = &f->program->routes[b->rule[(size_t)router * f->machine->colors + color]];
  fabric_switch *s = &f->switches[f->switch_count];
  for (uint32_t p = 0; p < r->positions; p++) {
    uint32_t node = queue_at(b, router, color, r->at[p].from);
    s->nodes[p] = node;
    s->first_out[p] = f->out_count;
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (r->at[p].to >> port & 1) WAFER_TRY(add_out(b, node, port));
    s->outs[p] = f->out_count - s->first_out[p];
    if (r->positions == 1) continue;
    f->nodes[node].switched = true;
    f->sites[node].sw = f->switch_count;
  }
  fabric_node *first = &f->nodes[s->nodes[0]];
  first->first_out = s->first_out[0];
  first->only = f->outs[s->first_out[0]];
  first->rank = f->ranks[s->first_out[0]];
  first->outs = (uint8_t)s->outs[0];
  first->pending = (uint8_t)((1u << first->outs) - 1);
  s->positions = r->positions;
  s->wrap = r->wrap;
  f->switch_count += r->positions > 1;
  return WAFER_OK;
}

static wafer_status join(builder *b) {
  wafer_fabric *f = b->f;
  for (uint32_t i = 0; i < f->link_count; i++) {
    f->links[i].asked = FABRIC_NONE;
    f->links[i].between = i % WAFER_PORTS != WAFER_PORT_ramp;
    f->links[i].latency = f->links[i].between ? f->machine->hop_cycles : f->machine->ramp_cycles;
    if (!f->links[i].latency) f->links[i].latency = 1;
  }
  for (uint32_t router = 0; router < f->count; router++) {
    fabric_core *core = &f->cores[router];
    for (uint32_t i = 0; core->program && i < core->program->binding_count; i++) {
      const wafer_core_binding *binding = &core->program->bindings[i];
      if (binding->output) core->queue[i] = queue_at(b, router, binding->color, WAFER_PORT_ramp);
    }
    for (uint32_t color = 0; color < f->machine->colors; color++)
      if (b->rule[(size_t)router * f->machine->colors + color] != FABRIC_NONE)
        WAFER_TRY(join_rule(b, router, (uint8_t)color));
  }
  return WAFER_OK;
}

/* Upper bounds: queues, outs and switches that the routes can ask for. */
static wafer_status allocate(builder *b) {
  wafer_fabric *f = b->f;
  size_t nodes = 0, outs = 0, switches = 0, filters = 0;
  for (size_t at = 0; at < (size_t)f->count * f->machine->colors; at++) {
    if (b->rule[at] == FABRIC_NONE) continue;
    const wafer_route *r = &f->program->routes[b->rule[at]];
    nodes += (size_t)__builtin_popcount(in_ports(r));
    for (uint32_t p = 0; p < r->positions; p++) outs += (size_t)__builtin_popcount(r->at[p].to);
    switches += r->positions > 1;
  }
  for (uint32_t i = 0; i < f->count; i++)
    nodes += f->cores[i].program ? f->cores[i].program->binding_count : 0;
  nodes += outs; /* dead ends */
  for (uint32_t i = 0; i < f->program->filter_use_count; i++)
    filters += wafer_rect_area(f->program->filter_uses[i].cores);
  f->link_count = f->count * WAFER_PORTS;
  f->nodes = aligned_alloc(64, (nodes + 1) * sizeof *f->nodes);
  f->first_site = calloc(f->count + 1, sizeof *f->first_site);
  f->filters = calloc(filters + 1, sizeof *f->filters);
  f->sites = calloc(nodes + 1, sizeof *f->sites);
  f->active = calloc(2 * (nodes + 1), sizeof *f->active);
  f->outs = calloc(outs + 1, sizeof *f->outs);
  f->ranks = calloc(outs + 1, sizeof *f->ranks);
  f->links = calloc(f->link_count, sizeof *f->links);
  f->contended = calloc(f->link_count, sizeof *f->contended);
  f->switches = calloc(switches + 1, sizeof *f->switches);
  f->turning = calloc(switches + 1, sizeof *f->turning);
  return f->nodes && f->first_site && f->filters && f->sites && f->active && f->outs && f->ranks &&
                 f->links && f->contended && f->switches && f->turning
             ? WAFER_OK
             : no_memory(b);
}

static wafer_status add_filters(builder *b) {
  wafer_fabric *f = b->f;
  for (uint32_t i = 0; i < f->program->filter_use_count; i++) {
    const wafer_filter_use *use = &f->program->filter_uses[i];
    for (uint32_t at = 0; at < wafer_rect_area(use->cores); at++) {
      uint32_t x = use->cores.x + at % use->cores.width, y = use->cores.y + at / use->cores.width;
      uint32_t node = core_queue(&f->cores[y * f->program->width + x], use->color, false);
      if (node == FABRIC_NONE || f->nodes[node].filtered)
        return wafer_fail(f->diag, here(b), WAFER_BAD_INPUT,
                          "core (%u,%u) has a filter for color %u, and %s", x, y, use->color,
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
  size_t entries = (size_t)f->count * f->machine->colors;
  b->rule = malloc(entries * sizeof *b->rule);
  b->first_node = malloc(entries * sizeof *b->first_node);
  if (!b->rule || !b->first_node) return no_memory(b);
  memset(b->rule, 0xff, entries * sizeof *b->rule);
  for (uint32_t i = 0; i < f->program->route_count; i++) WAFER_TRY(lay_rule(b, i));
  WAFER_TRY(allocate(b));
  for (uint32_t router = 0; router < f->count; router++) {
    f->first_site[router] = f->node_count;
    add_nodes(b, router);
  }
  f->first_site[f->count] = b->edge_nodes = f->node_count;
  WAFER_TRY(join(b));
  WAFER_TRY(add_filters(b));
  if (f->pool_count >= FABRIC_NONE)
    return wafer_fail(f->diag, here(b), WAFER_NO_FIT, "queues of %llu words; the emulator holds %u",
                      (unsigned long long)f->pool_count, FABRIC_NONE);
  f->pool = calloc(f->pool_count + 1, sizeof *f->pool);
  if (!f->pool) return no_memory(b);
  fabric_entry *free_entries = f->pool;
  for (uint32_t i = 0; i < f->node_count; i++) {
    fabric_node *q = &f->nodes[i];
    q->entries = q->capacity <= FABRIC_INLINE ? q->own : free_entries;
    if (q->capacity > FABRIC_INLINE) free_entries += q->capacity;
  }
  return WAFER_OK;
}

wafer_status fabric_build_routes(wafer_fabric *f) {
  builder b = {.f = f};
  wafer_status status = build(&b);
  free(b.rule);
  free(b.first_node);
  return status;
}
