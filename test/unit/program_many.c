#include "program_many.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

/* ---- Splits ---- */

static wafer_split random_split(rng *r, const body_text *b) {
  wafer_split split = split_whole();
  wafer_loops loops;
  uint32_t rows = 4, cols = 6;
  wafer_kernel_loops(&b->body, &loops);
  for (uint32_t tries = 0; tries < 3; tries++) {
    uint32_t l = below(r, loops.count ? loops.count : 1);
    if (loops.count == 0 || !loops.divisible[l]) continue;
    int64_t left = loops.extent[l] / ((int64_t)split.rows[l] * split.cols[l]);
    uint32_t parts = between(r, 1, tries & 1 ? cols : rows);
    if (parts > left) parts = (uint32_t)left;
    if (parts < 2) continue;
    if ((tries & 1 ? split.cols[l] : split.rows[l]) > 1) continue;
    *(tries & 1 ? &split.cols[l] : &split.rows[l]) = parts;
    *(tries & 1 ? &cols : &rows) /= parts;
  }
  return split;
}

/* ---- Many of each family ---- */

typedef struct tally {
  uint32_t runs, refused;
  double predicted, modelled, worst; /* sums of relative errors of cycles; the worst of the model */
} tally;

static void describe(const body_text *b, const wafer_split *split, uint64_t seed) {
  printf("\n  seed %llu:", (unsigned long long)seed);
  for (uint32_t i = 0; i < b->body.input_count; i++) {
    char shape[64];
    wafer_shape_format(&b->inputs[i].shape, shape, sizeof shape);
    printf(" %s", shape);
    printf("x%s", wafer_dtype_name(b->inputs[i].dtype));
  }
  if (b->body.storage == WAFER_DTYPE_f16) printf(" stored as f16");
  for (uint32_t i = 0; i < b->body.node_count; i++)
    printf(" %s", wafer_op_get(b->nodes[i].op)->name);
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) {
    if (split->rows[l] > 1) printf(" rows%u:%u", l, split->rows[l]);
    if (split->cols[l] > 1) printf(" cols%u:%u", l, split->cols[l]);
  }
}

static void try_one(program_maker *make, int64_t percent, uint64_t seed, tally *all) {
  body_text b;
  rng r = {seed * 7919 + 17};
  if (!make(&r, &b)) return;
  if (one_in(&r, 4)) b.body.storage = WAFER_DTYPE_f16;
  wafer_split split = random_split(&r, &b);
  program_run run = program_run_body("small64", &b, &split, seed);
  all->runs++;
  if (run.status == WAFER_UNSUPPORTED) {
    all->refused++;
    if (getenv("WAFER_TABLE")) {
      describe(&b, &split, seed);
      printf(": %s", run.message);
    }
    return;
  }
  int64_t room = run.memory_modelled * percent / 100;
  double allowed = b.body.storage == WAFER_DTYPE_f16 ? F16_ERROR : F32_ERROR;
  if (run.status != WAFER_OK || !(run.error <= allowed)) {
    describe(&b, &split, seed);
    printf(": status %d, error %g: %s", run.status, run.error, run.message);
  }
  CU_ASSERT_EQUAL(run.status, WAFER_OK);
  CU_ASSERT_TRUE(run.error <= allowed);
  if (run.status == WAFER_OK && (run.memory > room || run.code_bytes > run.code_modelled)) {
    describe(&b, &split, seed);
    printf(": %lld bytes of a core, modelled %lld; of code %llu, %llu", (long long)run.memory,
           (long long)run.memory_modelled, (unsigned long long)run.code_bytes,
           (unsigned long long)run.code_modelled);
  }
  CU_ASSERT_TRUE(run.status != WAFER_OK || run.memory <= room);
  CU_ASSERT_TRUE(run.code_bytes <= run.code_modelled);
  if (run.status != WAFER_OK) return;
  double model = off(run.modelled, run.counted);
  if (getenv("WAFER_TABLE") && (model > 0.3 || off(run.predicted, run.counted) > 0.1)) {
    describe(&b, &split, seed);
    printf(": counted %llu predicted %llu modelled %llu", (unsigned long long)run.counted,
           (unsigned long long)run.predicted, (unsigned long long)run.modelled);
  }
  all->predicted += off(run.predicted, run.counted);
  all->modelled += model;
  if (model > all->worst) all->worst = model;
}

#define SEEDS 60

void program_many(const char *family, program_maker *make, int64_t memory_percent) {
  tally all = {0};
  const char *seeds = getenv("WAFER_SEEDS");
  for (uint64_t seed = 0; seed < (seeds ? (uint64_t)atoi(seeds) : SEEDS); seed++)
    try_one(make, memory_percent, seed, &all);
  double done = all.runs > all.refused ? all.runs - all.refused : 1;
  if (getenv("WAFER_TABLE"))
    printf("\n%-16s %4u runs %3u refused  program %5.1f %%  model %6.1f %% mean %6.1f %% worst",
           family, all.runs, all.refused, 100 * all.predicted / done, 100 * all.modelled / done,
           100 * all.worst);
  CU_ASSERT_TRUE(all.runs > 0 && all.refused * 4 < all.runs);
}
