/* Tiles as large as the registers of an instruction set: 12 by 16 sums are 12 of the 32 of AVX-512,
 * 6 by 16 are 12 of the 16 of AVX2, which leaves two for weights and one for what meets them. */
#include "exec_conv_tile.h"

#include <math.h>
#include <string.h>

#include "tensor/vmath.h"
#include "wafer/clones.h"

typedef float lanes8 __attribute__((vector_size(8 * sizeof(float))));
typedef float lanes16 __attribute__((vector_size(16 * sizeof(float))));

#define LANES_OF(vector) (sizeof(vector) / sizeof(vector)[0])

/* One rounding, as on cores; the compiler fuses it wherever the instruction set can. */
#if WAFER_HAS_CLONES
#define MULTIPLY_ADD(sum, x, w) ((sum) += (x) * (w))
#define EACH(i, count) _Pragma("GCC unroll 16") for (uint32_t i = 0; i < (count); i++)
#else
#define MULTIPLY_ADD(sum, x, w)                                                                    \
  for (uint32_t lane = 0; lane < LANES_OF(sum); lane++)                                            \
  (sum)[lane] = fmaf(x, (w)[lane], (sum)[lane])
#define EACH(i, count) for (uint32_t i = 0; i < (count); i++)
#endif

/* Chains that end go on those around them. */
__attribute__((noinline)) WAFER_CLONES static void end_chains(tile_chains *chains, uint32_t ends,
                                                              uint32_t sums) {
  for (uint32_t e = 0; e < ends; e++) {
    for (uint32_t i = 0; i < sums; i++) chains->of[e + 1][i] += chains->of[e][i];
    memset(chains->of[e], 0, sums * sizeof chains->of[e][0]);
  }
}

/* A tile of PLACES windows by VECTORS times the lanes of LANES filters. */
#define DEFINE_TILE(NAME, LANES, PLACES, VECTORS)                                                  \
  WAFER_CLONES static void NAME(const tile_sum *s, const float *const *x, const int64_t *term,     \
                                const float *weights, const float *bias, tile_chains *chains) {    \
    enum { SUMS = (PLACES) * (VECTORS) };                                                          \
    const LANES *w = (const void *)weights, *b = (const void *)bias;                               \
    LANES *chain = (void *)chains->of[0];                                                          \
    const float *from[PLACES];                                                                     \
    EACH(i, PLACES) from[i] = x[i];                                                                \
    for (const tile_part *part = s->part; part < s->part + s->part_count; part++) {                \
      LANES sum[SUMS];                                                                             \
      EACH(i, SUMS) sum[i] = (LANES){0};                                                           \
      for (const int64_t *end = term + (part->to - part->from) * s->taps; term < end; term++) {    \
        EACH(i, SUMS) MULTIPLY_ADD(sum[i], from[i / (VECTORS)][*term], w[i % (VECTORS)]);          \
        w += (VECTORS);                                                                            \
      }                                                                                            \
      if (part->first && b) EACH(i, SUMS) sum[i] += b[i % (VECTORS)];                              \
      EACH(i, SUMS) chain[i] += sum[i];                                                            \
      if (part->ends > 0) end_chains(chains, part->ends, LANES_OF(sum[0]) * SUMS);                 \
    }                                                                                              \
  }

DEFINE_TILE(add_12x16, lanes16, 12, 1)
DEFINE_TILE(add_6x16, lanes8, 6, 2)
DEFINE_TILE(add_6x8, lanes8, 6, 1)

WAFER_CLONES static void clip(const tile_sum *s, float *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    float low = values[i] < s->clip_min ? s->clip_min : values[i];
    values[i] = low > s->clip_max ? s->clip_max : low;
  }
}

void conv_tile_store(const conv_tile *tile, const tile_sum *sum, tile_chains *chains,
                     float *const *y, uint32_t places, uint32_t filters) {
  float *from = chains->of[sum->chains];
  uint32_t count = tile->places * tile->filters;
  if (sum->clips) clip(sum, from, count);
  for (uint32_t i = 0; i < places; i++) {
    const float *of = from + i * tile->filters;
    if (filters == TILE_FILTERS)
      memcpy(y[i], of, TILE_FILTERS * sizeof *of);
    else
      memcpy(y[i], of, filters * sizeof *of);
  }
  memset(from, 0, count * sizeof *from);
}

conv_tile conv_tile_for(int64_t filters) {
  if (filters <= 8) return (conv_tile){6, 8, add_6x8};
  if (strcmp(vmath_instruction_set(), "avx512") == 0) return (conv_tile){12, 16, add_12x16};
  return (conv_tile){6, 16, add_6x16};
}
