/* What size_waits_find.c (who waits for whom) and size_waits.c (the cores that it takes) share. */
#ifndef WAFER_PASSES_SIZE_WAITS_H
#define WAFER_PASSES_SIZE_WAITS_H

#include "size_best.h"

/* A value that waits. */
typedef struct skip {
  double bytes; /* of a sample */
  uint32_t input;
  uint32_t first, count; /* of the way: kernels between, */
  uint32_t behind; /* and behind them those before its producer, which it may wait for instead */
} skip;

/* A curve of a reader, for buffers that hold up to `depth` samples, 0: any number. */
typedef struct deep_point {
  uint32_t width, height;
  uint64_t cycles;
} deep_point;

typedef struct deep_curve {
  uint32_t depth;
  size_t count;
  deep_point *at;
} deep_curve;

/* A shape of it, the most cycles that one with as many copies may have, and those for which it has
 * room; and how many times as many copies there may be, of all of these. */
typedef struct spot {
  double cycles, slow, cores, room, times;
} spot;

/* A kernel that reads values which may wait for each other. */
typedef struct reader {
  uint32_t kernel, first, count; /* of the skips */
  double stay;                   /* bytes of all its cores, whatever waits */
  double budget;                 /* bytes of a core for them */
  uint32_t longest;              /* the skip that needs most room */
  uint32_t deep_count;           /* 0: as its curve is */
  deep_curve *deep;
  uint32_t spot_count;
  spot *spots; /* at the interval at hand */
} reader;

/* A shape. */
typedef struct corner {
  double cycles, cores;
} corner;

typedef struct hull {
  uint32_t count;
  corner *at; /* none has fewer cores and fewer cycles */
  uint32_t slow_count;
  corner *slow; /* of each number of copies the fewest cores, and the most cycles they may have */
} hull;

struct size_waits {
  const search *s;
  uint32_t reader_count, skip_count, way_count;
  int64_t latency; /* of the longest way over the wafer */
  reader *readers;
  skip *skips;
  uint32_t *way;
  hull *hulls;   /* of each kind, at the interval at hand */
  double *price; /* kernel: of a cycle, in cores */
  double *part;  /* kernel: so much for what waits, the rest for its shape */
  double *rent;  /* kernel: of a cycle for which it has no room */
  spot *now;     /* kernel: its shape */
};

#endif
