/* Faults strike at the beginning of a cycle, before cores and routers. A wavelet is at a router in
 * one of its queues, or in a queue of its core; the first that could leave is hit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_state.h"
#include "wafer/fault.h"

struct fabric_faults {
  uint64_t start, limit; /* start: cycles before the run */
  uint32_t count;
  struct one_fault {
    wafer_fault fault;
    uint64_t struck; /* FABRIC_NEVER: not yet */
    uint8_t color;   /* of the wavelet */
    uint32_t word;
  } at[];
};

static const char *const names[] = {"drop", "flip", "stuck", "flip"};

/* ---- text ---- */

static const char *scan(const char *s, uint64_t *out) {
  char *rest;
  if (*s < '0' || *s > '9' || strlen(s) > 80) return NULL;
  *out = strtoull(s, &rest, 10);
  return rest - s < 20 ? rest : NULL;
}

/* X,Y,... after the '@'; how many, 0: something else. */
static uint32_t scan_all(const char *s, uint64_t numbers[5]) {
  uint32_t count = 0;
  for (bool more = true; more; s++) {
    s = count < 5 ? scan(s, &numbers[count]) : NULL;
    if (!s || (*s && *s != ',')) return 0;
    count++;
    more = *s == ',';
  }
  return count;
}

bool wafer_fault_parse(const char *text, wafer_fault *out) {
  uint64_t n[5] = {0};
  *out = (wafer_fault){.kind = WAFER_FAULT_upset};
  const char *s = strchr(text, '@');
  for (uint8_t k = 0; s && k < WAFER_FAULT_upset; k++)
    if (strlen(names[k]) == (size_t)(s - text) && !memcmp(names[k], text, strlen(names[k])))
      out->kind = k;
  if (out->kind == WAFER_FAULT_upset) return false;
  uint32_t count = scan_all(s + 1, n);
  uint64_t bits = count == 5 ? 8 : 32;
  if (count == 5 && out->kind == WAFER_FAULT_flip) {
    if (n[2] > UINT32_MAX) return false;
    out->kind = WAFER_FAULT_upset;
    out->address = (uint32_t)n[2];
    n[2] = n[4];
  } else if (count != 3 && (count != 4 || out->kind != WAFER_FAULT_flip)) {
    return false;
  }
  if (n[0] > UINT32_MAX || n[1] > UINT32_MAX || n[3] >= bits) return false;
  out->x = (uint32_t)n[0];
  out->y = (uint32_t)n[1];
  out->cycle = n[2];
  out->bit = (uint8_t)n[3];
  return true;
}

void wafer_fault_format(const wafer_fault *fault, char *buffer, size_t bytes) {
  typedef unsigned long long ull;
  const char *name = names[fault->kind];
  if (fault->kind == WAFER_FAULT_upset)
    snprintf(buffer, bytes, "%s@%u,%u,%u,%u,%llu", name, fault->x, fault->y, fault->address,
             fault->bit, (ull)fault->cycle);
  else if (fault->kind == WAFER_FAULT_flip)
    snprintf(buffer, bytes, "%s@%u,%u,%llu,%u", name, fault->x, fault->y, (ull)fault->cycle,
             fault->bit);
  else
    snprintf(buffer, bytes, "%s@%u,%u,%llu", name, fault->x, fault->y, (ull)fault->cycle);
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
  for (uint32_t i = 0; i < faults->count; i++) {
    uint64_t cycle = faults->at[i].fault.cycle;
    cycle = cycle > faults->start ? cycle - faults->start : 0;
    if (faults->at[i].struck == FABRIC_NEVER && cycle < first) first = cycle;
  }
  return first;
}

wafer_status wafer_fabric_inject(wafer_fabric *f, const wafer_fault *faults, uint32_t count,
                                 uint64_t start, uint64_t limit) {
  wafer_loc here = wafer_at_file(f->program->name);
  fabric_faults_free(f);
  for (uint32_t i = 0; i < count; i++) {
    if (faults[i].x >= f->program->width || faults[i].y >= f->program->height)
      return wafer_fail(f->diag, here, WAFER_USAGE, "a fault at core (%u,%u) of %ux%u", faults[i].x,
                        faults[i].y, f->program->width, f->program->height);
    if (faults[i].kind == WAFER_FAULT_upset && faults[i].address >= f->machine->core_bytes)
      return wafer_fail(f->diag, here, WAFER_USAGE, "a fault at address %u of %u bytes",
                        faults[i].address, f->machine->core_bytes);
  }
  f->faults = calloc(1, sizeof *f->faults + count * sizeof f->faults->at[0]);
  if (!f->faults) return wafer_fail(f->diag, here, WAFER_NO_MEMORY, "no room for faults");
  f->faults->count = count;
  f->faults->start = start;
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
      fabric_front(q)->word ^= 1u << one->fault.bit;
      return true;
    }
    fabric_lose(f, node);
    return true;
  }
  return false;
}

static void strike_memory(wafer_fabric *f, const wafer_fault *fault) {
  unsigned char byte;
  if (!wafer_fabric_read(f, fault->x, fault->y, fault->address, &byte, 1)) return;
  byte ^= (unsigned char)(1u << fault->bit);
  wafer_fabric_write(f, fault->x, fault->y, fault->address, &byte, 1);
}

static void strike(wafer_fabric *f, struct one_fault *one) {
  uint32_t core = f->core_of[one->fault.y * f->program->width + one->fault.x];
  if (one->fault.kind == WAFER_FAULT_upset)
    strike_memory(f, &one->fault);
  else if (one->fault.kind != WAFER_FAULT_stuck && !strike_wavelet(f, one))
    return;
  else if (one->fault.kind == WAFER_FAULT_stuck && core != FABRIC_NONE)
    f->cores[core].stuck = true;
  one->struck = f->faults->start + f->now;
}

wafer_status fabric_faults_strike(wafer_fabric *f) {
  struct fabric_faults *faults = f->faults;
  if (f->now >= faults->limit)
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_TRAP,
                      "has not ended at cycle %llu, the limit of a run with faults",
                      (unsigned long long)faults->limit);
  for (uint32_t i = 0; i < faults->count; i++)
    if (faults->at[i].struck == FABRIC_NEVER && faults->at[i].fault.cycle <= faults->start + f->now)
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
    if (one->fault.kind == WAFER_FAULT_stuck || one->fault.kind == WAFER_FAULT_upset)
      wafer_note(f->diag, wafer_at_file(f->program->name), "fault %s struck in cycle %llu", text,
                 (unsigned long long)one->struck);
    else
      wafer_note(f->diag, wafer_at_file(f->program->name),
                 "fault %s struck a wavelet of color %u, word %08x, in cycle %llu", text,
                 one->color, one->word, (unsigned long long)one->struck);
  }
}
