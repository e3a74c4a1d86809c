/* The closing report of a compilation: the figures, as text and as JSON (docs/report.schema.json).
 */
#ifndef WAFER_REPORT_H
#define WAFER_REPORT_H

#include <stdio.h>

#include "cli.h"
#include "wafer/least_pace.h"
#include "wafer/plan.h"

/* The same model on the machine without its defects; zeros: not known. */
typedef struct report_whole {
  uint64_t interval_cycles, latency_cycles, cores;
} report_whole;

typedef struct report {
  const wafer_plan *plan;
  uint64_t latency_cycles, interval_cycles; /* of a train, by wafer_timeline_run */
  uint64_t train_samples;
  uint64_t one_replica_interval_cycles;   /* had every kernel one replica only; 0: it has */
  uint64_t one_band_interval_cycles;      /* of the pipeline of a band; 0: it has the wafer */
  uint64_t edge_in_bytes, edge_out_bytes; /* one sample's inputs and outputs */
  uint64_t weight_bytes;                  /* of the model, as they stream */
  uint64_t edge_cycles;                   /* what the edge alone would need per sample */
  uint64_t compute_cycles; /* what the slowest kernel, or the sum of phases, needs per sample */
  uint64_t operations;     /* of one sample */
  double active_cores;     /* streaming: mean over the cycles of the phases */
  double utilization;      /* operations / what all usable cores could do in an interval */
  double samples_per_s, compute_samples_per_s, transmission_samples_per_s;
  wafer_least_pace least; /* of core programs, by report_bound; zeros: no bound */
  report_whole whole;
  const char *placer; /* whose pipeline it is and why; NULL: no two were compared */
  char bottleneck[256];
} report;

/* Of a plan with functions of the host: the way of a sample that takes longest. Of any other its
 * one function, once. */
typedef struct report_way {
  bool several;      /* there are functions of the host */
  wafer_call *calls; /* of each function of the wafer; cycles are 0 where there is but one */
  uint64_t *behind;  /* of each: the most that it waits for weights behind another one */
  uint32_t *of_kernel, *of_weight; /* kernel, value: whose it is; WAFER_NONE: no function's */
} report_way;
/* The caller drops it, if it was found. */
wafer_status report_way_find(const wafer_diag *diag, const wafer_plan *plan, report_way *out);
void report_way_drop(report_way *way);
/* How often a sample comes by. */
uint64_t report_way_kernel(const report_way *way, uint32_t kernel);
/* What a sample spends in a function, samples going the same way; and the function of the most. */
uint64_t report_way_spent(const report_way *way, uint32_t function);
uint32_t report_way_longest(const report_way *way, uint32_t functions);
wafer_status report_make(const wafer_diag *diag, const wafer_plan *plan, report *out);
/* Adds what no plan of core programs is below. */
wafer_status report_bound(const wafer_diag *diag, report *r);
wafer_status report_print(FILE *to, const report *r);
/* How the samples of weight streaming that are resident together are dealt out; nothing where one
 * by one. */
void report_print_resident(FILE *to, const wafer_plan *plan);
struct cJSON;
/* "onnx_nodes" of a kernel: the names of what it computes, one after the other, each once. */
void report_add_nodes(struct cJSON *kernel, const wafer_kernel *k);
/* What a training step consists of; nothing for inference. */
void report_print_training(FILE *to, const wafer_plan *plan);
void report_add_training(struct cJSON *root, const wafer_plan *plan);
/* The JSON text, malloc'ed; NULL when out of memory. `compile_seconds` below 0 leaves it out. */
char *report_json(const report *r, double compile_seconds);

#endif
