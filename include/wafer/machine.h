/* The wafer as data: one const struct, read once from XML (docs/machine.md) and checked once.
 * Sources of the shipped figures stand as comments in runtime/machines/<name>.xml. */
#ifndef WAFER_MACHINE_H
#define WAFER_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a core's vector unit does at a rate of its own. RATE(name) */
#define WAFER_RATE_MAP(X)                                                                          \
  X(move)    /* copy, permute, pad: one element in, one out */                                     \
  X(add)     /* add, sub, max, min, compare, select, and, or, not, abs, neg, floor */              \
  X(mul)     /* one multiplication */                                                              \
  X(fma)     /* multiply and accumulate into f32 */                                                \
  X(divide)  /* division and reciprocal, in software */                                            \
  X(sqrt)    /* in software */                                                                     \
  X(exp)     /* exp, log, tanh, sigmoid, erf, sin, cos, pow: software, per element */              \
  X(convert) /* between element types */

typedef enum wafer_rate {
#define X(name) WAFER_RATE_##name,
  WAFER_RATE_MAP(X)
#undef X
      WAFER_RATE_COUNT
} wafer_rate;

const char *wafer_rate_name(wafer_rate rate);

/* Rates are exact fractions: `elements` every `cycles`. */
typedef struct wafer_throughput {
  uint32_t elements, cycles; /* both at least 1 */
} wafer_throughput;

#define WAFER_MACHINE_QUEUES 16

typedef struct wafer_rect {
  uint32_t x, y, width, height; /* cores; (x, y) is the corner nearest the origin */
} wafer_rect;

static inline uint64_t wafer_rect_area(wafer_rect r) {
  return (uint64_t)r.width * r.height;
}
static inline bool wafer_rect_overlaps(wafer_rect a, wafer_rect b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
static inline bool wafer_rect_equal(wafer_rect a, wafer_rect b) {
  return a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height;
}
static inline bool wafer_rect_has(wafer_rect r, uint32_t x, uint32_t y) {
  return x >= r.x && x - r.x < r.width && y >= r.y && y - r.y < r.height;
}
static inline bool wafer_rect_within(wafer_rect r, wafer_rect outer) {
  return r.x >= outer.x && r.y >= outer.y &&
         (uint64_t)r.x + r.width <= (uint64_t)outer.x + outer.width &&
         (uint64_t)r.y + r.height <= (uint64_t)outer.y + outer.height;
}
/* Rows for columns. */
static inline wafer_rect wafer_rect_turn(wafer_rect r) {
  return (wafer_rect){r.y, r.x, r.height, r.width};
}
/* The smallest rectangle that has all cores of both. */
static inline wafer_rect wafer_rect_around(wafer_rect a, wafer_rect b) {
  if (!wafer_rect_area(a)) return b;
  if (!wafer_rect_area(b)) return a;
  uint32_t x = a.x < b.x ? a.x : b.x, y = a.y < b.y ? a.y : b.y;
  uint32_t right = a.x + a.width > b.x + b.width ? a.x + a.width : b.x + b.width;
  uint32_t below = a.y + a.height > b.y + b.height ? a.y + a.height : b.y + b.height;
  return (wafer_rect){x, y, right - x, below - y};
}

typedef struct wafer_core_at {
  uint32_t x, y;
} wafer_core_at;

/* A link of the fabric: from (x, y) to its neighbour in the east, or in the south. */
typedef struct wafer_link_at {
  uint32_t x, y;
  bool south;
} wafer_link_at;

/* avoid: the fabric is what it is, kernels and routes keep off what is dead. spares: as real wafers
 * do, links bypass what is dead and the fabric is a full, somewhat smaller rectangle. */
#define WAFER_REPAIR_MAP(X) X(avoid) X(spares)
typedef enum wafer_repair_policy {
#define X(name) WAFER_REPAIR_##name,
  WAFER_REPAIR_MAP(X)
#undef X
      WAFER_REPAIR_COUNT
} wafer_repair_policy;
const char *wafer_repair_name(wafer_repair_policy policy);

/* What is broken, in places of the fabric as it was made. A dead link takes the core at its west or
 * north end with it. Random ones come on top of the named: core (x, y) is dead where a hash of
 * (seed, x, y) falls below `per_million` of a million. */
typedef struct wafer_defects {
  uint32_t dead_count, link_count, per_million;
  uint64_t seed;
  const wafer_core_at *dead; /* sorted by (y, x) */
  const wafer_link_at *links;
  wafer_repair_policy policy;
} wafer_defects;

/* How a full rectangle lies on a fabric with dead cores: within every column (or every row) the
 * dead ones are skipped, and as many of the live as leave all columns equally long, evenly spread,
 * so that neighbours stay neighbours as far as possible. docs/machine.md. */
typedef struct wafer_repair {
  uint32_t width, height; /* of the fabric as it was made */
  wafer_rect usable;
  uint32_t hop_cycles;
  bool columns;          /* spare columns: cores move along their row; else rows */
  uint32_t lost;         /* rows (columns) fewer than were made */
  uint32_t links_most;   /* hops of the longest link between logical neighbours */
  uint32_t links_mean;   /* thousandths of a hop, mean over all links */
  const uint16_t *moved; /* [y * machine.width + x]: row (column) where the core really is */
  uint32_t dead_count;
  const wafer_core_at *dead; /* where they really are, sorted by (y, x) */
} wafer_repair;

/* How a wafer is cut into equal bands of its usable rows. Of two sides each has half of the bands:
 * their rows end in the middle of the wafer, and those of the second side are the first's,
 * mirrored: they have the wafer's east border as these have the west one. Bands of a pipeline begin
 * one after the other, each sample crossing the edge at its full rate; those of weight streaming go
 * through the phases together, each with an even share of it and of MemoryX. */
typedef struct wafer_cut {
  uint32_t bands, sides; /* bands of both sides; {1, 1}: the wafer is whole */
  bool together;
} wafer_cut;

typedef struct wafer_machine {
  const char *name;
  uint32_t width, height; /* cores of the fabric */
  wafer_rect usable;      /* where kernels may lie */
  uint64_t clock_hz;

  uint32_t core_bytes; /* SRAM of one core */
  uint32_t banks;
  uint32_t reserved_bytes; /* of core_bytes: run-time system, stack, task tables */

  /* rate[r][c]: c = 0 for 32-bit types (and wider, in software), 1 for 16-bit and narrower. */
  wafer_throughput rate[WAFER_RATE_COUNT][2];
  uint32_t vector_setup_cycles;    /* a vector instruction, descriptors in registers */
  uint32_t descriptor_load_cycles; /* more when descriptors must be loaded */
  uint32_t task_switch_cycles;
  uint32_t microthreads;

  uint32_t hop_cycles; /* router to router; after repair the mean of the slowest line, rounded up */
  uint32_t detour_cycles; /* most that a straight run takes beyond its hops, after repair; else 0 */
  uint32_t ramp_cycles;   /* core to router, each way */
  uint32_t hop_queue;     /* wavelets buffered per colour at a hop */
  uint32_t colors;        /* routable */
  uint32_t input_queues, output_queues;
  uint32_t input_queue_words[WAFER_MACHINE_QUEUES], output_queue_words[WAFER_MACHINE_QUEUES];

  uint64_t edge_in_bytes_per_second, edge_out_bytes_per_second; /* UINT64_MAX: unlimited */
  uint64_t edge_latency_cycles;
  uint32_t edge_sides; /* 1: words cross it at the wafer's west border; 2: or at the east one */

  uint64_t memoryx_bytes;            /* capacity of the weight store */
  uint64_t memoryx_bytes_per_second; /* towards one wafer */
  uint64_t memoryx_latency_cycles;
  uint32_t swarmx_fanout; /* children of a node of the tree */
  uint64_t swarmx_bytes_per_second, swarmx_hop_cycles;

  /* That no kernel may lie on; routes may not pass the dead. */
  uint32_t dead_count, reserved_count;
  const wafer_core_at *dead; /* sorted by (y, x); none after repair */
  const wafer_rect *reserved;
  const wafer_defects *defects; /* as they were named; NULL: none, or `dead` is all */
  const wafer_repair *repair;   /* NULL: this is the fabric as it was made */

  /* Of a band of a wafer: the wafer, and how it is cut. */
  const struct wafer_machine *whole; /* NULL: this is a whole wafer */
  wafer_cut cut;                     /* zeros then */
} wafer_machine;

/* Words of 32 bits that cross a link per cycle and direction: 1 by construction (wavelet = 32
 * bits). */
#define WAFER_WAVELET_BYTES 4

/* Bytes a core may use for code, weights, buffers and activations. */
static inline uint32_t wafer_machine_core_budget(const wafer_machine *m) {
  return m->core_bytes - m->reserved_bytes;
}

/* ceil(count * cycles / elements) for the element width of `dtype`; 64-bit types count double. */
uint64_t wafer_machine_cycles(const wafer_machine *m, wafer_rate rate, wafer_dtype dtype,
                              uint64_t count);
/* ceil(bytes / (edge rate / clock)) in cycles; 0 when the rate is unlimited. */
uint64_t wafer_machine_transfer_cycles(const wafer_machine *m, uint64_t bytes,
                                       uint64_t bytes_per_second);

/* A shipped machine by name, or the XML file at a path. The result lives in the arena. */
wafer_status wafer_machine_open(const wafer_diag *diag, wafer_arena *arena,
                                const char *name_or_path, const wafer_machine **out);
/* The names of the shipped machines, NULL at the end. */
const char *const *wafer_machine_names(void);
/* The XML text of a shipped machine; NULL when there is none of that name. */
const char *wafer_machine_text(const char *name, size_t *bytes);
/* Reads a machine from XML text; `file` is for messages. Validated against the schema, then
 * checked. */
wafer_status wafer_machine_parse(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const char *text, size_t bytes, const wafer_machine **out);
/* The machine as XML, every field, in the arena; parsing it again gives an equal machine. */
wafer_status wafer_machine_print(const wafer_diag *diag, wafer_arena *arena,
                                 const wafer_machine *machine, char **text, size_t *bytes);
/* Defects as XML: <defects> with the same elements as a machine's; where it does not say how they
 * are repaired, with spares. */
wafer_status wafer_machine_defects_open(const wafer_diag *diag, wafer_arena *arena,
                                        const char *path, wafer_defects *out);
/* The machine with these defects, in the arena: with spares a smaller whole one, else one with dead
 * cores, those included that the dead cut off. NO_FIT where nothing usable is left or the wafer is
 * cut in two; BAD_INPUT for places outside the fabric. The machine has none yet. */
wafer_status wafer_machine_apply(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const wafer_machine *machine, const wafer_defects *defects,
                                 const wafer_machine **out);
/* One of the bands of a cut, of equal parts of the wafer's usable rows, the first ones, with the
 * columns beside them (of two sides the more there are at one): what is laid out on it fits on all
 * of them, `height` rows apart. What crosses the wafer's edge they share as it comes, so rates are
 * the wafer's, unless they are together: then those of the edge and of MemoryX are a band's share.
 * In the arena, which also keeps the wafer; the wafer itself where it is one band.
 * NO_FIT: a band has no usable core. UNSUPPORTED: bands would differ, by dead cores or reserved
 * ones, or have no border with an edge. */
wafer_status wafer_machine_band(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_machine *wafer, wafer_cut cut,
                                const wafer_machine **out);
static inline const wafer_machine *wafer_machine_whole(const wafer_machine *m) {
  return m->whole ? m->whole : m;
}
static inline uint32_t wafer_machine_bands(const wafer_machine *m) {
  return m->whole ? m->cut.bands : 1;
}
static inline wafer_cut wafer_machine_cut(const wafer_machine *m) {
  return m->whole ? m->cut : (wafer_cut){1, 1, false};
}
/* Whether words cross the wafer's edge at so many of its borders; UNSUPPORTED: at fewer. */
wafer_status wafer_machine_check_sides(const wafer_diag *diag, const wafer_machine *wafer,
                                       uint32_t sides);
/* The columns of a half of the wafer that kernels of bands at both sides may have; 0: there are no
 * such bands. */
static inline uint32_t wafer_machine_half_columns(const wafer_machine *m) {
  uint32_t west = m->usable.x, east = m->width - west - m->usable.width;
  uint32_t margin = west > east ? west : east, half = m->width / 2;
  return m->edge_sides > 1 && half > margin ? half - margin : 0;
}
/* As many bands as there are of the height that those of the cut have: else rows are left over. */
static inline wafer_cut wafer_machine_fill(const wafer_machine *m, wafer_cut cut) {
  uint32_t each = cut.bands / cut.sides, rows = each ? m->usable.height / each : 0;
  return rows ? (wafer_cut){m->usable.height / rows * cut.sides, cut.sides, cut.together} : cut;
}
/* Where on the wafer a core of one of its bands lies. Bands of two sides come in turn from both. */
wafer_core_at wafer_machine_band_core(const wafer_machine *band, uint32_t index, uint32_t x,
                                      uint32_t y);
/* The band that a core of the wafer is in, and where in it; as many as there are: in none. */
uint32_t wafer_machine_band_at(const wafer_machine *band, uint32_t x, uint32_t y,
                               wafer_core_at *at);
/* Where a core really is. */
wafer_core_at wafer_machine_made_at(const wafer_machine *machine, uint32_t x, uint32_t y);
/* Every law a machine obeys (usable inside the fabric, nothing zero that divides ...). */
wafer_status wafer_machine_check(const wafer_diag *diag, const char *file,
                                 const wafer_machine *machine);

#ifdef __cplusplus
}
#endif
#endif
