/* Faults strike at the beginning of a cycle, before cores and routers. A wavelet is at a router in
 * one of its queues, or in a queue of its core; the first that could leave is hit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_state.h"
#include "wafer/fault.h"

struct fabric_faults {
  uint64_t limit;
  uint32_t count;
  struct one_fault {
    wafer_fault fault;
    uint64_t struck; /* FABRIC_NEVER: not yet */
    uint8_t color;   /* of the wavelet */
    uint32_t word;
  } at[];
};

static const char *const names[] = {"drop", "flip", "stuck"};

/* ---- text ---- */

static const char *scan(const char *s, uint64_t most, uint64_t *out) {
  char *rest;
  if (*s < '0' || *s > '9' || strlen(s) > 60) return NULL;
  *out = strtoull(s, &rest, 10);
  return *out <= most && rest - s < 20 ? rest : NULL;
}

bool wafer_fault_parse(const char *text, wafer_fault *out) {
  uint64_t x, y, cycle, bit = 0;
  *out = (wafer_fault){.kind = WAFER_COUNT(names)};
  const char *s = strchr(text, '@');
  for (uint8_t k = 0; s && k < WAFER_COUNT(names); k++)
    if (strlen(names[k]) == (size_t)(s - text) && !memcmp(names[k], text, strlen(names[k])))
      out->kind = k;
  if (out->kind == WAFER_COUNT(names)) return false;
  s = scan(s + 1, UINT32_MAX, &x);
  s = s && *s == ',' ? scan(s + 1, UINT32_MAX, &y) : NULL;
  s = s && *s == ',' ? scan(s + 1, UINT64_MAX, &cycle) : NULL;
  if (s && *s == ',' && out->kind == WAFER_FAULT_flip) s = scan(s + 1, 31, &bit);
  if (!s || *s) return false;
  out->x = (uint32_t)x;
  out->y = (uint32_t)y;
  out->cycle = cycle;
  out->bit = (uint8_t)bit;
  return true;
}

void wafer_fault_format(const wafer_fault *fault, char *buffer, size_t bytes) {
  int used = snprintf(buffer, bytes, "%s@%u,%u,%llu", names[fault->kind], fault->x, fault->y,
                      (unsigned long long)fault->cycle);
  if (fault->kind == WAFER_FAULT_flip && used > 0 && (size_t)used < bytes)
    snprintf(buffer + used, bytes - (size_t)used, ",%u", fault->bit);
}

/* ---- before a run ---- */

void fabric_faults_free(wafer_fabric *f) {
  free(f->faults);
  f->faults = NULL;
  f->fault_due = FABRIC_NEVER;
}

/* The first cycle in which there is something to do. */
static uint64_t due(const struct fabric_faults *faults) {
  uint64_t first = faults->limit;
  for (uint32_t i = 0; i < faults->count; i++)
    if (faults->at[i].struck == FABRIC_NEVER && faults->at[i].fault.cycle < first)
      first = faults->at[i].fault.cycle;
  return first;
}

wafer_status wafer_fabric_inject(wafer_fabric *f, const wafer_fault *faults, uint32_t count,
                                 uint64_t limit) {
  wafer_loc here = wafer_at_file(f->program->name);
  fabric_faults_free(f);
  for (uint32_t i = 0; i < count; i++)
    if (faults[i].x >= f->program->width || faults[i].y >= f->program->height)
      return wafer_fail(f->diag, here, WAFER_USAGE, "a fault at core (%u,%u) of %ux%u",
                        faults[i].x, faults[i].y, f->program->width, f->program->height);
  f->faults = calloc(1, sizeof *f->faults + count * sizeof f->faults->at[0]);
  if (!f->faults) return wafer_fail(f->diag, here, WAFER_NO_MEMORY, "no room for faults");
  f->faults->count = count;
  f->faults->limit = limit;
  for (uint32_t i = 0; i < count; i++)
    f->faults->at[i] = (struct one_fault){.fault = faults[i], .struck = FABRIC_NEVER};
  f->fault_due = due(f->faults);
  return WAFER_OK;
}

/* ---- in a run ---- */

/* False: there is no wavelet. */
static bool strike_wavelet(wafer_fabric *f, struct one_fault *one) {
  uint32_t router = one->fault.y * f->program->width + one->fault.x;
  for (uint32_t node = f->first_site[router]; node < f->first_site[router + 1]; node++) {
    fabric_node *q = &f->nodes[node];
    if (!q->count || fabric_wait(f, q)) continue;
    one->color = f->sites[node].color;
    one->word = fabric_front(q)->word;
    if (one->fault.kind == WAFER_FAULT_flip) {
      q->entries[q->head].word ^= 1u << one->fault.bit;
      return true;
    }
    fabric_lose(f, node);
    return true;
  }
  return false;
}

static void strike(wafer_fabric *f, struct one_fault *one) {
  uint32_t core = f->core_of[one->fault.y * f->program->width + one->fault.x];
  if (one->fault.kind == WAFER_FAULT_stuck && core != FABRIC_NONE)
    f->cores[core].stuck = true;
  else if (one->fault.kind != WAFER_FAULT_stuck && !strike_wavelet(f, one))
    return;
  one->struck = f->now;
}

wafer_status fabric_faults_strike(wafer_fabric *f) {
  struct fabric_faults *faults = f->faults;
  if (f->now >= faults->limit)
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_TRAP,
                      "has not ended at cycle %llu, the limit of a run with faults",
                      (unsigned long long)faults->limit);
  for (uint32_t i = 0; i < faults->count; i++)
    if (faults->at[i].struck == FABRIC_NEVER && faults->at[i].fault.cycle <= f->now)
      strike(f, &faults->at[i]);
  f->fault_due = due(faults);
  return WAFER_OK;
}

/* ---- afterwards ---- */

uint64_t wafer_fabric_struck(const wafer_fabric *f, uint32_t fault) {
  return f->faults && fault < f->faults->count ? f->faults->at[fault].struck : UINT64_MAX;
}

void wafer_fabric_note_faults(const wafer_fabric *f) {
  for (uint32_t i = 0; f->faults && i < f->faults->count; i++) {
    const struct one_fault *one = &f->faults->at[i];
    char text[96];
    if (one->struck == FABRIC_NEVER) continue;
    wafer_fault_format(&one->fault, text, sizeof text);
    if (one->fault.kind == WAFER_FAULT_stuck)
      wafer_note(f->diag, wafer_at_file(f->program->name), "fault %s struck in cycle %llu", text,
                 (unsigned long long)one->struck);
    else
      wafer_note(f->diag, wafer_at_file(f->program->name),
                 "fault %s struck a wavelet of color %u, word %08x, in cycle %llu", text,
                 one->color, one->word, (unsigned long long)one->struck);
  }
}
