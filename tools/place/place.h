/* The ISPD 2020 contest's files and kernels, for `wafer place --ispd`. */
#ifndef WAFER_TOOLS_PLACE_H
#define WAFER_TOOLS_PLACE_H

#include "cli.h"
#include "wafer/placer.h"

typedef enum kernel_type { KERNEL_CONV, KERNEL_DBLOCK, KERNEL_CBLOCK } kernel_type;

#define KERNEL_MOST_CONVS 4

/* Formal arguments of a convolution: image, receptive field, features, filters, stride. */
typedef struct contest_conv {
  uint64_t H, W, R, S, C, K, T;
} contest_conv;

typedef struct contest_kernel {
  kernel_type type;
  const char *name;
  uint32_t id;                        /* in brackets */
  uint64_t H, W, F, R, S, C, K, T, U; /* as the file has them */
} contest_kernel;

typedef struct contest {
  const char *path, *test;
  uint32_t width, height;
  uint64_t wdeltat, wlength, wadapter, memlimit;
  uint32_t count, edge_count;
  contest_kernel *kernels; /* in topological order as far as there is one */
  wafer_placer_edge *edges;
} contest;

wafer_status contest_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                          contest *out);

/* Execution arguments of a kernel: h, w, then c and k of each convolution. */
typedef struct contest_split {
  uint32_t h, w, c[KERNEL_MOST_CONVS], k[KERNEL_MOST_CONVS];
} contest_split;

/* The convolutions a kernel consists of; how many. */
uint32_t contest_convs(const contest_kernel *kernel, contest_conv out[KERNEL_MOST_CONVS]);

/* One convolution with h, w and c: its time with all filters on one column, and the least k that
 * memory asks for; false when none is enough, or the time is beyond any. */
bool contest_divide(const contest *c, const contest_conv *conv, uint64_t unit, uint32_t h,
                    uint32_t w, uint32_t features, uint64_t *base, uint64_t *least);

/* Times are integers in units of 1 / unit: the least common multiple of the squared strides. */
wafer_status contest_unit(const wafer_diag *diag, const contest *c, uint64_t *unit);

/* All shapes of a kernel no other shape covers; `tag` of a shape gives its split back. */
wafer_status contest_shapes(const wafer_diag *diag, wafer_arena *arena, const contest *c,
                            const contest_kernel *kernel, uint64_t unit, wafer_placer_shapes *out);
contest_split contest_split_of(const contest *c, const contest_kernel *kernel, uint64_t unit,
                               const wafer_placer_shape *shape);

/* The least k of one convolution with the split's h, w and c, for at most this time; 0: none. */
uint32_t contest_least_k(const contest *c, const contest_kernel *kernel, uint64_t unit,
                         uint64_t most_time, const contest_split *split, uint32_t conv);

/* A way to be no slower than a time: what the kernel takes (its first c), gives (its last k) and
 * its sides, not turned. Any more of the last k cost three columns each. */
typedef struct contest_way {
  uint16_t in, out, width, height;
} contest_way;

typedef struct contest_ways {
  uint32_t count, room;
  contest_way *at; /* the caller frees it */
} contest_ways;

/* All h, w and c of a kernel, worked out once; NULL when out of memory. */
typedef struct contest_divisions contest_divisions;
const contest_divisions *contest_list_divisions(wafer_arena *arena, const contest *c,
                                                const contest_kernel *kernel, uint64_t unit);
/* The ways that no other covers which takes as much; false when out of memory. */
bool contest_list_ways(const contest_divisions *d, uint64_t time, contest_ways *to);
/* Is the wafer large enough, turned or not? */
bool contest_fits(const contest *c, uint32_t width, uint32_t height);

/* The time a split takes, in units of 1 / unit. */
uint64_t contest_time(const contest *c, const contest_kernel *kernel, uint64_t unit,
                      const contest_split *split);

/* Cores along each side, not turned. */
void contest_dims(const contest_kernel *kernel, const contest_split *split, uint32_t *width,
                  uint32_t *height);

/* Components in which an edge's ends disagree: the output (h, w, k) of the producer's last
 * convolution, the input (h, w, c) of the consumer's first. */
uint32_t contest_mismatches(const contest *c, const contest_split *splits, uint32_t edge);

/* The last convolution a kernel's output comes from. */
uint32_t contest_last_conv(const contest_kernel *k);

/* Adapters of all edges; `components`: disagreeing components are counted (A1), not disagreeing
 * edges (A0). */
uint32_t contest_adapters(const contest *c, const contest_split *splits, bool components);

/* A split as far as its neighbours see it: the first c, the last k. All else is the widest c that
 * its room has rows for, and the least k. */
typedef struct contest_fit {
  uint16_t h, w, c, k;
} contest_fit;

/* Splits that are no slower than `time` in their rooms. */
typedef struct contest_fit_list {
  wafer_arena *arena;
  const contest *c;
  uint64_t unit, time;
  const wafer_placed *rooms; /* of each kernel */
  uint32_t *first;           /* count + 1 offsets into `at`; NULL: the time was over */
  uint32_t count, room;
  contest_fit *at;
} contest_fit_list;

/* False when out of memory. The time is over when it is `until` (0: never). */
bool contest_list_fits(wafer_arena *arena, const contest *c, uint64_t unit, uint64_t time,
                       double until, const wafer_placed *rooms, contest_fit_list *out);
contest_split contest_split_of_fit(const contest_fit_list *fits, uint32_t i, const contest_fit *f);

/* Other splits in the same rooms and no slower than `time`, so that edges agree where they can; the
 * best found when it is `until`, in cli_seconds() (0: any time). */
wafer_status contest_adapt(const wafer_diag *diag, const contest *c, uint64_t unit, uint64_t time,
                           double until, const wafer_placed *rooms, bool components,
                           contest_split *splits);

/* The rectangles and the free cores around them, as far as their centres stay where they are; no
 * two overlap. */
void contest_rooms(const contest *c, const wafer_placed *at, wafer_placed *rooms);

/* What `wafer place` is asked for, and what it finds. */
typedef struct contest_job {
  const char *in, *out, *svg;
  bool components; /* A1 */
  wafer_placer_options options;
  double started; /* in cli_seconds(): the seconds count from here */
  contest contest;
  uint64_t unit;
  wafer_placer_problem problem;
  wafer_placement placement; /* its score is without adapters */
  contest_split *splits;
} contest_job;

/* Finds placement and splits for the problem. */
wafer_status contest_search(const wafer_diag *diag, wafer_arena *arena, contest_job *j);

/* A score that no layout is below, whatever its splits, adapters counted; the best known when it is
 * `until`, in cli_seconds() (0: any time). *bound is the score of some layout before. */
wafer_status contest_bound(const wafer_diag *diag, wafer_arena *arena, const contest_job *j,
                           double until, double *bound);

/* Writes the solution. */
wafer_status contest_write(const wafer_diag *diag, const char *path, const contest *c,
                           const contest_split *splits, const wafer_placed *at);
wafer_status contest_svg(const wafer_diag *diag, const char *path, const contest *c,
                         const wafer_placed *at);

#endif
