/* A launch on several bands of the wafer: the same programs, routes and filters in each, rows
 * further down. Bands that have no sample of a run stay empty. */
#include <stdlib.h>
#include <string.h>

#include "fabric_session.h"

uint32_t session_fabric_bands(const session_fabric *s, uint64_t samples) {
  uint32_t bands = wafer_machine_bands(s->plan->machine);
  return samples < bands ? (uint32_t)samples : bands;
}

static void put_cores(const wafer_fabric_program *band, uint32_t bands, uint32_t *core,
                      size_t count) {
  size_t own = (size_t)band->width * band->height;
  memset(core, 0xff, count * sizeof *core);
  for (uint32_t b = 0; b < bands; b++) memcpy(core + b * own, band->core, own * sizeof *core);
}

/* The band's program in each of the first `bands`. */
static wafer_status spread(session_fabric *s, const wafer_fabric_program *band, uint32_t bands,
                           wafer_fabric_program *out) {
  uint32_t height = wafer_machine_whole(s->plan->machine)->height;
  size_t cores = (size_t)band->width * height;
  uint32_t *core = malloc(cores * sizeof *core);
  wafer_route *routes = malloc(((size_t)bands * band->route_count + 1) * sizeof *routes);
  wafer_filter_use *uses = malloc(((size_t)bands * band->filter_use_count + 1) * sizeof *uses);
  *out = *band;
  out->height = height;
  out->core = core;
  out->routes = routes;
  out->filter_uses = uses;
  if (!core || !routes || !uses) return session_fabric_no_memory(s);
  put_cores(band, bands, core, cores);
  out->route_count = out->filter_use_count = 0;
  for (uint32_t b = 0; b < bands; b++) {
    for (uint32_t i = 0; i < band->route_count; i++) {
      routes[out->route_count] = band->routes[i];
      routes[out->route_count++].cores.y += b * band->height;
    }
    for (uint32_t i = 0; i < band->filter_use_count; i++) {
      uses[out->filter_use_count] = band->filter_uses[i];
      uses[out->filter_use_count++].cores.y += b * band->height;
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
  uint32_t rows = s->plan->machine->height, bands = session_fabric_bands(s, samples);
  bool train = l->of->kind == WAFER_LAUNCH_train;
  if (!train && bands == 1) return;
  for (uint32_t y = 0; y < p->height; y++)
    for (uint32_t x = 0; x < p->width; x++) {
      if (p->core[(size_t)y * p->width + x] == WAFER_NO_PROGRAM) continue;
      uint64_t own = (samples - y / rows + bands - 1) / bands;
      if (y >= rows) wafer_fabric_set(s->fabric, x, y, 1, (int32_t)(y % rows));
      if (train) wafer_fabric_set(s->fabric, x, y, WAFER_TRAIN_REGISTER, (int32_t)own);
    }
}
