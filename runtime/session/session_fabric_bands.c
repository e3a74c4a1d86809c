/* A launch on several bands of the wafer: the same programs, routes and filters in each, rows
 * further down, or mirrored at the east border. Bands that have no sample of a run stay empty. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"

uint32_t session_fabric_bands(const session_fabric *s, uint64_t samples) {
  uint32_t bands = wafer_machine_bands(s->plan->machine);
  return samples < bands ? (uint32_t)samples : bands;
}

static void put_cores(const wafer_machine *m, const wafer_fabric_program *band, uint32_t bands,
                      uint32_t *core) {
  const wafer_machine *wafer = wafer_machine_whole(m);
  size_t own = (size_t)band->width * band->height;
  memset(core, 0xff, (size_t)wafer->width * wafer->height * sizeof *core);
  for (uint32_t b = 0; b < bands; b++)
    for (size_t i = 0; i < own; i++) {
      wafer_core_at at = wafer_machine_band_core(m, b, (uint32_t)(i % band->width),
                                                 (uint32_t)(i / band->width));
      core[(size_t)at.y * wafer->width + at.x] = band->core[i];
    }
}

wafer_rect session_fabric_rect(const session_fabric *s, uint32_t band, wafer_rect r) {
  const wafer_machine *m = s->plan->machine;
  wafer_core_at first = wafer_machine_band_core(m, band, r.x, r.y),
                last = wafer_machine_band_core(m, band, r.x + r.width - 1, r.y);
  return (wafer_rect){first.x < last.x ? first.x : last.x, first.y, r.width, r.height};
}

wafer_port session_fabric_port(const session_fabric *s, uint32_t band, wafer_port port) {
  static const wafer_port mirrored[] = {
      [WAFER_PORT_north] = WAFER_PORT_north, [WAFER_PORT_south] = WAFER_PORT_south,
      [WAFER_PORT_east] = WAFER_PORT_west,   [WAFER_PORT_west] = WAFER_PORT_east,
      [WAFER_PORT_ramp] = WAFER_PORT_ramp};
  return band % wafer_machine_cut(s->plan->machine).sides ? mirrored[port] : port;
}

static wafer_route route_in(const session_fabric *s, uint32_t band, const wafer_route *of) {
  wafer_route route = *of;
  route.cores = session_fabric_rect(s, band, of->cores);
  for (uint32_t i = 0; i < of->positions; i++) {
    route.at[i].from = (uint8_t)session_fabric_port(s, band, (wafer_port)of->at[i].from);
    route.at[i].to = 0;
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (of->at[i].to >> port & 1)
        route.at[i].to |= (uint8_t)(1u << session_fabric_port(s, band, (wafer_port)port));
  }
  return route;
}

/* The band's program in each of the first `bands`. */
static wafer_status spread(session_fabric *s, const wafer_fabric_program *band, uint32_t bands,
                           wafer_fabric_program *out) {
  const wafer_machine *wafer = wafer_machine_whole(s->plan->machine);
  size_t cores = (size_t)wafer->width * wafer->height;
  uint32_t *core = malloc(cores * sizeof *core);
  wafer_route *routes = malloc(((size_t)bands * band->route_count + 1) * sizeof *routes);
  wafer_filter_use *uses = malloc(((size_t)bands * band->filter_use_count + 1) * sizeof *uses);
  *out = *band;
  out->width = wafer->width;
  out->height = wafer->height;
  out->core = core;
  out->routes = routes;
  out->filter_uses = uses;
  if (!core || !routes || !uses) return session_fabric_no_memory(s);
  put_cores(s->plan->machine, band, bands, core);
  out->route_count = out->filter_use_count = 0;
  for (uint32_t b = 0; b < bands; b++) {
    for (uint32_t i = 0; i < band->route_count; i++)
      routes[out->route_count++] = route_in(s, b, &band->routes[i]);
    for (uint32_t i = 0; i < band->filter_use_count; i++) {
      wafer_filter_use *use = &uses[out->filter_use_count++];
      *use = band->filter_uses[i];
      use->cores = session_fabric_rect(s, b, use->cores);
    }
  }
  return WAFER_OK;
}

void session_fabric_gather(fabric_launch *l) {
  if (!l->bands) return;
  free((void *)l->program.core);
  free((void *)l->program.routes);
  free((void *)l->program.filter_uses);
  l->bands = 0;
}

wafer_status session_fabric_spread(session_fabric *s, fabric_launch *l, uint32_t bands) {
  if (wafer_machine_bands(s->plan->machine) == 1) {
    l->program = *l->band;
    return WAFER_OK;
  }
  if (l->bands == bands) return WAFER_OK;
  session_fabric_gather(l);
  l->bands = bands;
  return spread(s, l->band, bands, &l->program);
}

void session_fabric_place_registers(session_fabric *s, const fabric_launch *l, uint64_t samples) {
  const wafer_fabric_program *p = &l->program;
  uint32_t bands = session_fabric_bands(s, samples);
  bool train = l->of->kind == WAFER_LAUNCH_train;
  if (!train && !s->plan->machine->whole) return;
  for (uint32_t y = 0; y < p->height; y++)
    for (uint32_t x = 0; x < p->width; x++) {
      if (p->core[(size_t)y * p->width + x] == WAFER_NO_PROGRAM) continue;
      wafer_core_at at;
      uint32_t band = wafer_machine_band_at(s->plan->machine, x, y, &at);
      uint64_t own = (samples - band + bands - 1) / bands;
      if (at.x != x) wafer_fabric_set(s->fabric, x, y, 0, (int32_t)at.x);
      if (at.y != y) wafer_fabric_set(s->fabric, x, y, 1, (int32_t)at.y);
      if (train) wafer_fabric_set(s->fabric, x, y, WAFER_TRAIN_REGISTER, (int32_t)own);
    }
}
