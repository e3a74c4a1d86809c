/* Sparse weights on cores: pairs of position and value, as the instruction axpy takes them
 * (docs/core.md, sparse wavelets).
 *
 * A tile is some lists of equal length, one behind the other. A core sends each list to itself, a
 * colour for each, and a microthread for each multiplies with the pairs that come: while one sets
 * up a pair the others compute. A position is the index of the tile's row, shifted by the bits that
 * count its columns, and that of the column. Dims of the weight beyond those two are the taps of a
 * convolution: a list has the pairs of one after those of another, and behind each the word that
 * ends pairs. It is filled up with pairs of value 0, so that all cores run the same code. Of
 * filters in groups positions count the channels of all groups that the tile has filters of, for
 * these are what the core has of the channels.
 *
 * Sums are cleared before; or their first pair begins them, so that nobody has to, and the last
 * ends them in the storage type, so that nobody has to narrow them. Pairs then come kind by kind,
 * each kind over all taps, and a sum without any has one of value 0. Lists are filled up with the
 * first of a tile again. */
#ifndef WAFER_PAIRS_H
#define WAFER_PAIRS_H

#include "wafer/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_PAIR_LISTS 4 /* two microthreads each; that which clears the sums sends the last */

/* What pairs do to a sum, in the order in which they come. */
typedef enum wafer_pair_kind {
  WAFER_PAIR_begins, /* the first of several: sum = product */
  WAFER_PAIR_alone,  /* there is no other: result = product */
  WAFER_PAIR_adds,   /* sum += product */
  WAFER_PAIR_ends    /* the last of several: result = sum + product */
} wafer_pair_kind;

typedef struct wafer_pairs {
  uint32_t lists;   /* 0: the tile lies dense */
  uint32_t length;  /* pairs of a list */
  uint32_t taps;    /* of each list */
  uint32_t words;   /* of a core */
  uint32_t kinds;   /* 1: sums are cleared, and all pairs add; 2: pairs begin them, others add; 4 */
  uint32_t sums;    /* of a full tile, where there are kinds: */
  uint32_t kept;    /* as many as the tile is long in this dim of the weight */
  uint32_t columns; /* that positions count */
  uint32_t group;   /* filters of a group, where these are the channels of several; 0 */
} wafer_pairs;

/* Kind i of those that there are. */
static inline wafer_pair_kind wafer_pairs_kind(uint32_t kinds, uint32_t i) {
  return kinds == 4 ? (wafer_pair_kind)i : i + 1 < kinds ? WAFER_PAIR_begins : WAFER_PAIR_adds;
}

/* How a tile of `rows` x `cols` x `taps` elements lies, when the fullest has `pairs`: in no more
 * room than its elements take, and with positions that 16 bits can say; in `most` lists at most.
 * `sums` and `kept` are the caller's to set. */
wafer_pairs wafer_pairs_of(wafer_dtype stored, uint64_t pairs, uint64_t rows, uint64_t cols,
                           uint64_t taps, uint32_t most, uint32_t kinds);
/* The same where each `group` of filters has `cols` channels of its own. */
wafer_pairs wafer_pairs_in_groups(const wafer_pairs *pairs, uint64_t rows, uint64_t cols,
                                  uint64_t group);
/* Of a weight that passes in slices: all of it, and one of `slices` slices. Positions are those in
 * a slice, and there is room for two of them in any case. */
wafer_pairs wafer_pairs_passing(wafer_dtype stored, uint64_t pairs, uint64_t taps, uint32_t lists);
wafer_pairs wafer_pairs_slice(const wafer_pairs *all, wafer_dtype stored, uint64_t slices);
/* Slices of so many bytes. */
static inline uint64_t wafer_slices(uint64_t bytes) {
  return bytes / WAFER_SLICE_BYTES + (bytes % WAFER_SLICE_BYTES != 0);
}
/* An input of a kernel, if it is a sparse weight that its anchor multiplies with: how the pairs of
 * the fullest tile would lie, and what the multiplications take with them and with all elements.
 * False: it is none, or pairs have no room. */
typedef struct wafer_weighing {
  wafer_pairs pairs;
  uint64_t sparse_cycles, dense_cycles;
  uint64_t spared; /* of what dense products take to clear and narrow sums */
} wafer_weighing;
bool wafer_kernel_weigh(const wafer_machine *machine, const wafer_kernel_body *body,
                        const wafer_split *split, uint32_t input, wafer_weighing *out);
/* How it lies: as pairs where they are faster and the fullest tile is known, else dense. */
wafer_pairs wafer_kernel_pairs(const wafer_machine *machine, const wafer_kernel_body *body,
                               const wafer_split *split, uint32_t input);
/* Bytes of one copy of an input's tile, without halos: those of its pairs where it lies so. */
uint64_t wafer_kernel_input_bytes(const wafer_machine *machine, const wafer_kernel_body *body,
                                  const wafer_split *split, uint32_t input);
/* Whether an input is a matrix, or the filters of a convolution, that the anchor multiplies with.
 */
bool wafer_body_factor(const wafer_kernel_body *body, uint32_t input);
/* Whether an input is a sparse matrix, or sparse filters, that the anchor, and nobody else,
 * multiplies with. */
bool wafer_body_multiplies(const wafer_kernel_body *body, uint32_t input);

/* What a pair is multiplied with: `rows` runs of `length` elements. */
typedef struct wafer_run {
  uint64_t times; /* all lists pass, each time over other elements */
  uint64_t rows, length;
  uint32_t collisions; /* of WAFER_STEPS steps, those that read twice from one bank */
} wafer_run;
#define WAFER_STEPS 4096

/* Filters of a group, where such an input is filters in groups; 0 of one group, and where each
 * channel has one filter: its row tells the channel. */
uint32_t wafer_body_group(const wafer_kernel_body *body, uint32_t input);

/* The dim of such an input that its sums have too. */
uint32_t wafer_body_kept(const wafer_kernel_body *body, uint32_t input);

/* The dim of a value, of a body whose anchor's operand `weight` lies as pairs, along which a pair's
 * index moves the reads of it: of the other operand, of sums, and of results that are as wide as
 * these. -1: there is none. */
int wafer_pairs_dim(const wafer_kernel_body *body, uint32_t weight, uint32_t value);
/* Of sums that make the value, however wide it is itself. */
int wafer_pairs_sums_dim(const wafer_kernel_body *body, uint32_t weight, uint32_t value);
/* The address modulo 8 at which that operand had best begin, where sums begin at 4. */
uint32_t wafer_pairs_phase(const wafer_machine *machine, const wafer_kernel_body *body,
                           const wafer_split *split);
/* Bytes from one of its indices to the next, where `bytes` lie between: whole turns of the banks,
 * so that a read of one and a read of the other are as far apart at every pair. One element alone
 * is no run, and would take several times its room. */
static inline uint64_t wafer_pairs_stride(uint64_t bytes, uint64_t element) {
  return bytes > element ? (bytes + 7) / 8 * 8 : bytes;
}

/* Cycles from when the sums are clear; with pairs that begin them, of all. */
uint64_t wafer_pairs_cycles(const wafer_machine *machine, const wafer_pairs *pairs,
                            wafer_dtype stored, const wafer_run *run);

/* The words of all tiles as a tensor, [part of dim 0][part of dim 1][word], and how that lies. */
wafer_shape wafer_pairs_shape(const wafer_pairs *pairs, const wafer_layout *weight);
wafer_layout wafer_pairs_layout(const wafer_layout *weight);

/* Pairs of the fullest tile when each sum has one at least. place as below; 0: out of memory. */
uint64_t wafer_pairs_filled(wafer_dtype dtype, const wafer_shape *shape, const wafer_layout *weight,
                            const uint32_t *const place[2], uint32_t kept, const void *elements);

/* Fills it from the dense elements of a weight of `shape`. place[d][i]: where index i of dim d
 * comes in the order in which parts follow each other, NULL: i. NO_MEMORY, or BAD_INPUT
 * where a tile has more pairs than its lists; neither says so. */
wafer_status wafer_pairs_pack(const wafer_pairs *pairs, wafer_dtype stored,
                              const wafer_shape *shape, const wafer_layout *weight,
                              const uint32_t *const place[2], const void *elements,
                              uint32_t *words);

#ifdef __cplusplus
}
#endif
#endif
