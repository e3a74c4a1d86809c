/* How the programs of kernels are put together: what program_<family>.c share. Private to backend/.
 *
 * A kernel becomes fragments in the order of its nodes. Local work is collected as *steps*: one
 * node's vector code over the tiles of a core. Whenever something crosses cores (an exchange, a
 * chain), the steps so far become one fragment, whose code is made once per class of core: cores
 * whose tiles have the same lengths and addresses. */
#ifndef PROGRAM_BUILD_H
#define PROGRAM_BUILD_H

#include "exchange/exchange.h"
#include "fragment/fragment.h"
#include "program.h"
#include "program_nest.h"

#define PROGRAM_STEPS 64 /* between two crossings */
#define PROGRAM_IN (WAFER_OP_MAX_OPERANDS)
#define PROGRAM_EXTRA 10
#define PROGRAM_PLACE 4 /* bytes of a place in a list that is sorted, and of a key */

typedef struct program program;
typedef struct program_step program_step;

/* Which indices of a dim of an operand a core needs: all, or what follows from a part of `by` (a
 * dim of the result, or a loop): floor((lo * num - before) / den) .. floor(((hi - 1) * num + after)
 * / den), cut off at multiples of `each` (0: not). They may lie outside of the tensor. */
typedef struct program_link {
  const spread_dim *by; /* NULL: all */
  int64_t num, den, before, after, each;
  bool clipped; /* nothing outside of the tensor is wanted */
} program_link;

/* What a step reads or writes of a value on a core. */
typedef struct program_tile {
  int32_t address; /* of the first element */
  int32_t len[WAFER_MAX_RANK];
  int32_t before[WAFER_MAX_RANK], after[WAFER_MAX_RANK]; /* of len: outside of the tensor */
} program_tile;

/* A step on a class of core. */
typedef struct program_site {
  const program *p;
  const program_step *step;
  const wafer_node *node;
  program_tile out, in[PROGRAM_IN];
  int32_t extra[PROGRAM_EXTRA];
  const int32_t *hint; /* PROGRAM_EXTRA more, which the code of this class does not depend on */
  program_code *code;
} program_site;

typedef struct program_operand {
  const spread *at; /* NULL: `constant` everywhere */
  double constant;
  wafer_dtype dtype;
  program_link link[WAFER_MAX_RANK];
} program_operand;

struct program_step {
  uint32_t node;
  void (*emit)(const program_site *site);
  const spread *out; /* cores that hold nothing of it do nothing */
  uint32_t in_count;
  program_operand in[PROGRAM_IN];
  /* Further numbers that the code depends on, of what lies at row and column of the rectangle; then
   * the hints. */
  void (*extra)(const program *p, const program_step *step, uint32_t row, uint32_t col,
                int32_t *extra);
  /* the family's own, the same on every core */
  double fill;
  int32_t constant[PROGRAM_EXTRA];
  bool always; /* also where the core holds no element of `out` */
  bool chains; /* it is a phase of chains of its fragment */
};

/* Memory in use from `address` on, until node `until` is done. */
typedef struct program_block {
  int32_t address, bytes;
  uint32_t until;
} program_block;

struct program {
  const program_request *r;
  const wafer_kernel_body *body;
  wafer_arena *arena;
  wafer_loops loops;
  spread_dim loop[WAFER_MAX_LOOPS]; /* the parts of each, as dims of a spread */
  const spread *value[WAFER_MAX_KERNEL_VALUES];
  const spread *result[WAFER_MAX_KERNEL_VALUES]; /* where the caller wants it; NULL: nowhere */
  uint32_t home[WAFER_MAX_KERNEL_VALUES]; /* the value in whose place it lies; itself: in its own */
  spread *place[WAFER_MAX_KERNEL_VALUES]; /* of those that others lie in, once it is reserved */
  const spread *table[WAFER_MAX_KERNEL_VALUES]; /* of arg_max, arg_min and arg_sort */
  bool first_only[WAFER_MAX_KERNEL_VALUES]; /* only where the reduction loops have their first part
                                             */
  bool constant[WAFER_MAX_KERNEL_VALUES];   /* one element, known, stands for all */
  double splat[WAFER_MAX_KERNEL_VALUES];
  uint32_t last[WAFER_MAX_KERNEL_VALUES];
  uint32_t node;           /* at work */
  const uint32_t *nowhere; /* zeros: the kind of every row and column of a dim that is not cut */
  program_step *steps;
  uint32_t step_count, step_room;
  fragment *open;
  uint64_t latency; /* of the open fragment, besides its code: words under way */
  program_block *blocks;
  uint32_t block_count, block_room;
  int32_t highest; /* address after the last byte of scratch memory that was used */
  program_kernel_code *out;
  uint32_t fragment_room, data_room;
};

/* ---- program.c ---- */
/* An empty program of the request; `out` is the caller's to set. */
wafer_status program_begin(program *p, const program_request *r);
wafer_status program_no_memory(const program *p);
wafer_status program_refuse(const program *p, const char *what);
/* How node `n`'s result lies: its layout, with memory of its own unless the caller has given it. */
wafer_status program_result(program *p, uint32_t node, spread **out);
/* Buffers for a spread: packs it in the kernel's order, reserves until node `until`. `phase` is the
 * address modulo 8. */
wafer_status program_reserve(program *p, spread *s, int32_t phase, uint32_t until);
/* Strides of `s` in the order of those of `like`. */
void program_pack_like(spread *s, const spread *like);
wafer_status program_bytes(program *p, uint64_t bytes, int32_t phase, uint32_t until,
                           int32_t *address);
wafer_status program_table(program *p, uint32_t node, spread *at, const void *elements);
void program_release(program *p, uint32_t node);
wafer_status program_append(program *p, fragment *f);
fragment *program_fragment(program *p, const char *what);

/* ---- program_local.c ---- */
/* A step of the present node whose operands are where it needs them. */
wafer_status program_add(program *p, const program_step *step);
/* The fragment that the steps so far will be: for colours and routes; NULL: out of memory. */
fragment *program_open(program *p);
/* The steps so far become a fragment. */
wafer_status program_flush(program *p);
/* Step whose output is `out`, of `node`, with no operands yet. */
program_step program_step_of(uint32_t node, const spread *out,
                             void (*emit)(const program_site *site));
/* What a core needs of a dim, before it is cut off at the tensor; empty when `by` is. */
void program_range(const program_link *link, int64_t extent, uint32_t row, uint32_t col,
                   int64_t *from, int64_t *to);

/* ---- program_link.c ---- */
static inline program_link program_like(const spread_dim *dim) {
  return (program_link){.by = dim, .num = 1, .den = 1};
}
/* Node `node`'s operand i as operand of a step, with links that say what is needed: from where it
 * lies when that covers them, else after an exchange. `fill`: what lies outside of the tensor. */
wafer_status program_operand_of(program *p, uint32_t node, uint32_t i, const program_link *link,
                                double fill, program_operand *out);
/* A value of the step's own, whole boxes like `like`'s. */
program_operand program_own(const spread *s);
/* A spread that holds what the links need of a tensor with these extents; no memory yet. */
wafer_status program_wanted(program *p, uint32_t rank, const int64_t *extent, wafer_dtype dtype,
                            const program_link *link, spread *out);

/* ---- program_move.c ---- */
/* The result of a node whose operand 0 is one constant. */
wafer_status program_filled(program *p, uint32_t node);
/* Elements of `to` into those of `out`, which may be of another type. */
wafer_status program_land(program *p, const spread *to, const spread *out);
/* An exchange whatever the types. `outside`: what elements without a source are; NULL: all have
 * one. */
wafer_status program_moved(program *p, const spread *from, spread *out, const index_map *map,
                           const double *outside);
/* Steps so far, then what `to` lacks of `from`; `map` NULL: index for index. */
wafer_status program_exchange(program *p, const spread *from, const spread *to,
                              const index_map *map);

/* ---- program_reshape.c ---- */
/* A copy of `s`, of a scalar seen as one element along a dim. NULL: out of memory. */
spread *program_ranked(program *p, const spread *s);
/* `s` with its dims first .. end - 1 seen as one. */
wafer_status program_merge(program *p, const spread *s, uint32_t first, uint32_t end, spread *out);
wafer_status program_reshape(program *p, uint32_t node, spread *result);

/* ---- program_window.c ---- */
/* What windows reach: results first .. last along a dim need indices floor((first * num - before) /
 * den) .. floor((last * num + after) / den) of the operand's. */
typedef struct program_reach {
  int64_t num, den, before, after;
} program_reach;
/* The windows of a node's operand 0 along dim d; false: it has none there. */
bool program_window(const wafer_node *node, const wafer_kernel_body *body, uint32_t d,
                    program_reach *w);
/* What results lo .. hi - 1 need, before it is cut off at the tensor. */
void program_window_range(const program_reach *w, int32_t lo, int32_t hi, int32_t *from,
                          int32_t *to);
program_link program_windowed(const spread_dim *dim, const program_reach *w);

/* ---- program_reduce.c ---- */
/* What changes nothing: the fold begins with it. */
double program_neutral(wafer_core_op op, wafer_dtype dtype);
/* 0, step, 2 step ... as i32, as many as the node's axis is long: whole on every core, or of an
 * axis that is cut and reduced a core's part. */
wafer_status program_index_table(program *p, uint32_t node, int32_t step);
/* Where the sums of a node go, `dtype`: its result when that is as wide, else a buffer. */
wafer_status program_sums(program *p, uint32_t node, spread *result, wafer_dtype dtype,
                          spread **sums);
/* After a step that left sums: over the cut reduction loops, then into the result. `scale`: times
 * that. */
wafer_status program_settle(program *p, uint32_t node, const spread *sums, wafer_core_op op,
                            double scale, const spread *result);

/* ---- program_pairs.c ---- */
/* The operand of the anchor that lies as pairs; UINT32_MAX: none does. */
uint32_t program_weight_pairs(const wafer_machine *machine, const wafer_kernel_body *body,
                              const wafer_split *split);
/* The operand of a node (0 or 1) that lies as pairs (wafer/pairs.h); UINT32_MAX: none does. */
uint32_t program_pairs_of(const program *p, uint32_t node);
/* It becomes operand 1 of a step, whose constants and colours are then those of its lists. Where
 * its pairs end sums too (*ends), they do in `result`, which becomes operand 2. */
wafer_status program_pairs_set(program *p, uint32_t node, uint32_t operand, const spread *result,
                               program_step *step, bool *ends);
/* Which operand of its node the step has as pairs. */
uint32_t program_pairs_operand(const program_step *step);
/* Where pairs end sums: in the step's own sums, where nobody does. */
const spread *program_pairs_result(const program_step *step);
/* Sums are cleared, where no pairs begin them. */
void program_pairs_clear(const program_site *site);

/* What pairs go over. */
typedef struct program_pairs_over {
  nest runs; /* at[0]: the sums, at[1]: operand 0 of the step, at[2]: results; a pair's loops */
  int32_t sums[2], operand[2],
      results[2]; /* bytes that a step of the upper, of the lower part of an index moves them */
  uint32_t group, channels; /* of filters in groups: filters of one, and channels */
  uint32_t tap_loops; /* over the taps, outermost first, and bytes that they move the operand */
  int32_t taps[WAFER_MAX_RANK], tap[WAFER_MAX_RANK];
} program_pairs_over;
void program_pairs_begin(const program_site *site, program_pairs_over *over);
/* Every list over all runs. Code of the site from `before` on gives the sums their first values:
 * one instruction of it goes on beside the first pairs' way. */
void program_pairs_emit(const program_site *site, uint32_t before, const program_pairs_over *over);

/* ---- program_sum.c ---- */
/* Outputs that the body sums: their sums become zero, in fragments of their own; a sample's are
 * added to them. */
wafer_status program_clear_sums(program *p);
wafer_status program_add_sums(program *p);

/* ---- program_map.c ---- */
/* The instruction that computes an elementwise op; apply: a routine. */
wafer_core_op program_instruction(wafer_op op, bool floats);
wafer_status program_splat(program *p, uint32_t node, const spread *out);

/* ---- program_chain.c ---- */
/* Sums (or what `op` does) of `s` over the parts of the loops in `set`, to the first parts. `done`:
 * loops of which the first parts alone have it. */
wafer_status program_chain(program *p, const spread *s, uint32_t set, uint32_t done,
                           wafer_core_op op);
/* `s` as it lies on the cores of the first parts alone, of the loops in `set`. */
wafer_status program_first(program *p, const spread *s, uint32_t set, spread *out);
/* Loops of the body that are cut and summed over; those from `first` to `end` - 1 that are cut. */
uint32_t program_cut_reductions(const program *p);
uint32_t program_cut_loops(const program *p, uint32_t first, uint32_t end);

/* ---- helpers of emit functions ---- */
/* Adds operand k of a nest (0: the output) with strides of the dims of `s` in loops 0 .. rank - 1
 */
void nest_place(nest *n, uint32_t k, const spread *s, const program_tile *tile);
void nest_constant(nest *n, uint32_t k, wafer_dtype dtype, double value);
/* Loops over the dims of a tile. */
nest program_nest_over(wafer_core_op op, uint32_t inputs, const spread *out,
                       const program_tile *tile);
/* The output is `value` everywhere. */
void program_fill(const program_site *site, const spread *s, const program_tile *tile,
                  double value);

/* ---- families: a node's steps ---- */
typedef wafer_status program_rule(program *p, uint32_t node);
#define FAMILY(name, ...) program_rule program_##name;
#include "wafer/kernels.def"

#endif
