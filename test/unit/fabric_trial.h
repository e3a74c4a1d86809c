/* Random programs for the fabric: colours along walks over a small wafer, with filters, switches
 * and types of all widths; what a run of one leaves. */
#ifndef FABRIC_TRIAL_H
#define FABRIC_TRIAL_H

#include "wafer/fabric.h"

enum { SIDE = 6, CORES = SIDE * SIDE, COLORS = 7, MOST = 24, RUNS = 6 };
enum { REGION = 1024, RESULTS = 16384 };

/* A colour: from a core along a walk, to the core at its end and some on the way. */
typedef struct flow {
  uint32_t length, at[CORES]; /* routers of the walk */
  bool takes[CORES];          /* the core there, too */
  uint32_t keeps[CORES];      /* words that its filter lets in; 0: it has none */
  uint32_t elements;
  uint8_t dtype;
  uint32_t kind, turn; /* the place on the walk where a switch is */
  bool wrap;
} flow;

typedef struct trial {
  uint64_t seed;
  bool uncounted; /* what links carry is not, and wavelets hop as they do where nobody counts */
  uint32_t width, height, flow_count, route_count;
  flow flows[COLORS];
  wafer_route routes[COLORS * CORES];
  wafer_instruction code[CORES][MOST];
  wafer_core_binding bindings[CORES][WAFER_CORE_BINDINGS];
  wafer_core_program programs[CORES];
  uint32_t core[CORES];
  uint32_t runs[COLORS * CORES][RUNS];
  wafer_filter filters[COLORS * CORES];
  wafer_filter_use uses[COLORS * CORES];
  uint32_t filter_count;
  wafer_fabric_program program;
} trial;

typedef struct outcome {
  wafer_status status;
  wafer_fabric_stats stats;
  uint64_t marks[CORES]; /* 1 + the cycle in which a core was done with what it begins; 0: never */
  uint64_t finish[CORES], worked[CORES], wavelets[CORES * WAFER_LINKS];
  unsigned char results[CORES][COLORS * REGION];
  char text[8192]; /* all that was said */
} outcome;

/* Below; from the trial's seed. */
uint32_t trial_draw(trial *t, uint32_t below);
void trial_make(trial *t, uint64_t seed);
bool trial_has_switch(const trial *t);
void trial_run(const trial *t, const wafer_machine *machine, const wafer_fabric_options *options,
               outcome *o);

#endif
