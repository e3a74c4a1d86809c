/* A fabric with a tensor on it, random spreads, and how far off predictions are, for tests of
 * exchanges. */
#ifndef EXCHANGE_SCENE_H
#define EXCHANGE_SCENE_H

#include "backend/exchange/exchange.h"
#include "backend/fragment/fragment_clock.h"
#include "caught.h"

typedef struct dice {
  uint64_t state;
} dice;

uint32_t dice_roll(dice *d, uint32_t sides);
wafer_dtype dice_dtype(dice *d);
/* Dims cut at random, with replicas between; `rect` gets the size that holds it. */
wafer_layout dice_layout(dice *d, uint32_t rank, wafer_rect *rect);

#define SCENE_WIDTH 32
#define SCENE_HEIGHT 32

typedef struct scene {
  wafer_arena *arena;
  wafer_machine machine;
  caught caught;
  wafer_diag diag;
  fragment f;
  fragment_ports ports;
  int32_t times; /* that all is done; 0: once */
  uint64_t border_rate;
  wafer_fabric_program program;
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  const wafer_rect *others;
  uint32_t other_count;
} scene;

void scene_begin(scene *s);
void scene_end(scene *s);
/* Links what was added to `f` and makes the fabric. */
bool scene_load(scene *s);

/* The element with that row-major index. */
uint64_t scene_element(int64_t index);

/* Calls `each` for every element that a core holds: indices of the tensor. */
typedef bool scene_each(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                        const int32_t *index, const void *with);

bool scene_for_all(scene *s, const spread *t, scene_each *each, const void *with);

/* What a target holds, by the source. */
typedef struct scene_wanted {
  const spread *from;
  const index_map *map;
} scene_wanted;

/* For scene_for_all: writes the elements; compares with those of a scene_wanted. */
bool scene_fill(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                const int32_t *index, const void *with);
bool scene_check(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                 const int32_t *index, const void *with);

typedef struct accuracy {
  uint32_t runs, worst_run;
  double sum, worst; /* |predicted - counted| / counted */
  uint64_t counted, predicted;
} accuracy;

void accuracy_note(accuracy *a, uint32_t run, uint64_t predicted, uint64_t counted);
/* Of what was added: cycles by the clocks of its cores. */
uint64_t scene_predicted(scene *s);
/* What the prediction may be off by, on average; WAFER_EXCHANGE_ERRORS=1 prints it. */
void accuracy_judge(const char *what, const accuracy *a, double most);

/* The first address behind the spread. */
int32_t scene_after(const spread *t);
/* Adds the exchange, runs it, checks every element; false with a message of what went wrong. */
bool scene_exchange(scene *s, const spread *from, const spread *to, const index_map *map,
                    uint32_t seed, accuracy *a);

#endif
