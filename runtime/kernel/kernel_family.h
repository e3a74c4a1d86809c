/* What a kernel family tells the shared mechanism of kernel.c: a column of kernels.def, written in
 * kernel_<family>.c. Private to runtime/.
 *
 * A view is one body seen through one split: which loop cuts which dim of which value, and how long
 * the longest part of it is. It lives on the stack, so the arrays have the size of the largest
 * body. */
#ifndef KERNEL_FAMILY_H
#define KERNEL_FAMILY_H

#include "wafer/kernel.h"
#include "wafer/pairs.h"

/* How the dims of a value follow the loops. */
typedef struct kernel_map {
  int8_t loop[WAFER_MAX_RANK];  /* -1: the dim is whole on every core */
  int64_t even[WAFER_MAX_RANK]; /* when set, the dim is cut only if the parts divide this number, or
                                   share its parts evenly */
  int64_t each[WAFER_MAX_RANK]; /* then: indices of the loop to one of so many parts; 0: parts that
                                   are more are not told apart */
  int64_t
      nested[WAFER_MAX_RANK];  /* when set, the loop goes over this dim and another one: n > 0,
                                  the other lies inside and has n indices; n < 0, around it, -n */
  int64_t own[WAFER_MAX_RANK]; /* then: how many indices of the loop's this dim has itself; a dim
                                  that a reshape makes of it has others, and as many parts */
} kernel_map;

#define KERNEL_LARGE_PART 1024 /* elements: one index of a dim is too many for a core to hold */
#define KERNEL_ROOMY_PART 4096 /* elements that any core has room for */

/* How many parts of its loop's a dim has, over rows and columns, and how many parts of the loop lie
 * between two of them. Of two dims that are one loop the outer one gets the parts, the inner one
 * what is left when every index of the outer one is a part. */
typedef struct kernel_cut {
  uint32_t rows, cols, row_stride, col_stride;
} kernel_cut;

kernel_cut kernel_cut_of(const kernel_map *map, uint32_t d, uint32_t rows, uint32_t cols);

/* What the windows of the slowest part need beyond its own tile, in elements along one dim. */
typedef struct kernel_halo_dim {
  int64_t foreign;       /* fetched from other cores */
  int64_t crossing;      /* of a link, in the direction with more of them */
  int64_t before, after; /* of the links before the part and after it */
  int64_t tiles;         /* to the part that has the farthest of them */
  int64_t reach;         /* extent of the buffer that holds tile, halo and padding */
} kernel_halo_dim;

/* Which elements of a dim of the anchor's operand 0 the results first .. last need, before
 * clipping: floor((first * num - before) / den) .. floor((last * num + after) / den), both
 * included. */
typedef struct kernel_window {
  int64_t num, den, before, after; /* den 0: the dim has no window */
} kernel_window;

typedef struct kernel_family kernel_family;

typedef struct kernel_view {
  const wafer_kernel_body *body;
  const wafer_machine *machine; /* NULL while only layouts are asked for */
  const wafer_split *split;
  wafer_loops loops;
  uint32_t values;
  kernel_map map[WAFER_MAX_KERNEL_VALUES];
  bool plain[WAFER_MAX_KERNEL_VALUES];   /* every cut dim is as long as its loop */
  bool stored[WAFER_MAX_KERNEL_VALUES];  /* an input or output: it lies in the storage type */
  bool between[WAFER_MAX_KERNEL_VALUES]; /* made by one node for others, neither output nor constant
                                          */
  bool in_place[WAFER_MAX_KERNEL_VALUES];  /* its node writes it over an operand that ends there */
  bool in_output[WAFER_MAX_KERNEL_VALUES]; /* it lies where an output will: all that makes that of
                                              it is elementwise */
  uint32_t order[WAFER_MAX_LOOPS];         /* of a loop, as wafer_layout.order */
  uint32_t last[WAFER_MAX_KERNEL_VALUES];  /* node that reads it last */
  uint8_t dtype[WAFER_MAX_KERNEL_VALUES],
      bytes[WAFER_MAX_KERNEL_VALUES];                   /* on a core, of an element */
  const kernel_family *family[WAFER_MAX_KERNEL_VALUES]; /* of a node */
  uint32_t windowed;                                    /* the value that has windows, UINT32_MAX */
  kernel_map windowed_map;                              /* how the anchor alone would have it cut */
  kernel_window window[WAFER_MAX_RANK];                 /* of its dims */
  int64_t most_of_index; /* elements: more for one index of what a reshape cuts are too many */
  bool any_passes, passes[WAFER_MAX_KERNEL_VALUES];     /* inputs that pass in slices */
  bool calm; /* nests are one instruction whose reads never meet one bank: programs make that of
                some */
  /* of the split */
  uint64_t elements[WAFER_MAX_KERNEL_VALUES];            /* of a tile */
  int64_t tile[WAFER_MAX_KERNEL_VALUES][WAFER_MAX_RANK]; /* longest part of each dim */
  kernel_halo_dim halo[WAFER_MAX_RANK];                  /* of the windowed value */
  uint32_t pass_loop;                      /* along which inputs pass, UINT32_MAX: none does */
  uint64_t share[WAFER_MAX_KERNEL_VALUES]; /* elements of such an input that stay on a core */
  uint32_t sparse;        /* operand of the anchor that lies as pairs; UINT32_MAX: none does */
  wafer_weighing weighed; /* of that operand */
} kernel_view;

struct wafer_opened_body {
  kernel_view view;
};

struct kernel_family {
  /* Appends the anchor's reduction loops and takes `divisible` from loops that may not be cut.
   * NULL: the dims of the output are all. */
  void (*loops)(const wafer_kernel_body *body, wafer_loops *loops);
  /* How an operand of a node of this family lies when its result lies as `result`. `map` comes
   * whole. */
  void (*operand)(const kernel_view *k, uint32_t node, uint32_t operand, const kernel_map *result,
                  kernel_map *map);
  /* Vector work of a node of this family on the view's tiles, in cycles. */
  uint64_t (*compute)(const kernel_view *k, uint32_t node);
  /* Of that, of families that multiply with weights: what all elements take, and what the pairs of
   * a sparse operand do. NULL: they do not. */
  uint64_t (*dense)(const kernel_view *k, uint32_t node);
  uint64_t (*sparse)(const kernel_view *k, uint32_t node, uint32_t operand,
                     const wafer_pairs *pairs);
  /* The address modulo whole turns of the banks at which what the pairs are multiplied with had
   * best begin; NULL: 0. */
  uint32_t (*phase)(const kernel_view *k, uint32_t node);
  /* Fabric work of the anchor inside the rectangle, in cycles; NULL: none. */
  uint64_t (*fabric)(const kernel_view *k);
  /* Fabric work of any node of this family, anchor or not, besides; NULL: none. */
  uint64_t (*moves)(const kernel_view *k, uint32_t node);
  /* Fills the windows of the anchor's operand 0; NULL: it has none. */
  void (*windows)(const kernel_view *k, kernel_window *window);
  /* Whether the anchor can take an operand in slices (kernel_slices.c); NULL: none. */
  bool (*passes)(const wafer_node *anchor, uint32_t operand);
  /* Multiply-accumulates per element of the node's result, as operations; 1 for what is
   * elementwise. */
  uint64_t (*operations)(const kernel_view *k, uint32_t node);
  /* Bytes of a core that any node of this family needs besides its result; NULL: none. */
  uint64_t (*scratch)(const kernel_view *k, uint32_t node);
  /* Bytes of code that grow with a node's tile; NULL: none. */
  uint64_t (*code)(const kernel_view *k, uint32_t node);
  bool accumulates; /* the anchor sums in f32, whatever the storage */
};

#define FAMILY(name, ...) extern const kernel_family kernel_family_##name;
#include "wafer/kernels.def"

const kernel_family *kernel_family_of(const wafer_kernel_body *body, uint32_t node);
/* Appends a reduction loop; those beyond WAFER_MAX_LOOPS stay whole. */
void kernel_loop_append(wafer_loops *loops, int64_t extent, bool divisible);

/* Of a body: operand numbers and types. */
static inline const wafer_node *kernel_node(const kernel_view *k, uint32_t node) {
  return &k->body->nodes[node];
}
static inline const wafer_type *kernel_type(const kernel_view *k, uint32_t value) {
  return wafer_body_type(k->body, value);
}
static inline uint32_t kernel_result(const kernel_view *k, uint32_t node) {
  return k->body->input_count + node;
}
static inline bool kernel_is_anchor(const kernel_view *k, uint32_t node) {
  return node == k->body->anchor;
}
/* Element type in which a value lies on a core: floats that are stored in the storage type, the
 * others, kept between two nodes, as they are computed. */
static inline wafer_dtype kernel_dtype(const kernel_view *k, uint32_t value) {
  return (wafer_dtype)k->dtype[value];
}
/* Of the sums that make the value. */
static inline wafer_dtype kernel_sums(const kernel_view *k, uint32_t value) {
  return wafer_sum_dtype(kernel_type(k, value)->dtype);
}
static inline uint64_t kernel_tile_elements(const kernel_view *k, uint32_t value) {
  return k->elements[value];
}

/* Fills loops and maps of a body; then the tiles of a split. */
void kernel_view_open(kernel_view *k, const wafer_machine *machine, const wafer_kernel_body *body);
void kernel_view_split(kernel_view *k, const wafer_split *split);
/* The parts of a view's cost; kernel_view_split comes first. */
uint64_t kernel_compute_cycles(const kernel_view *k);
uint64_t kernel_fabric_cycles(const kernel_view *k);
void kernel_bytes(const kernel_view *k, wafer_cost *cost);

/* The faster of `dense` and `sparse`: kernel_sparse.c. */
void kernel_sparse_split(kernel_view *k); /* the last part of kernel_view_split */
uint64_t kernel_multiply(const kernel_view *k, uint32_t node);
/* Bytes of an input on a core that are not those of all elements of its tile: of a sparse weight
 * that lies as pairs. False: it does not. */
bool kernel_pairs_bytes(const kernel_view *k, uint32_t value, uint64_t *bytes);
/* Bytes of a value of such a kernel on a core, `extent` of it, `element` each, where pairs step
 * along dim `dim` of it (wafer/pairs.h). */
uint64_t kernel_apart_bytes(const kernel_view *k, uint32_t value, int dim, const int64_t *extent,
                            uint64_t element);
/* Bytes of code beyond what the family has for pairs of one kind. */
uint64_t kernel_pairs_code(const kernel_view *k);

/* Cores along a side from one part of a loop to the next; `parts`: of that side. */
static inline uint32_t kernel_stride_of(const kernel_view *k, const uint32_t *parts,
                                        uint32_t loop) {
  uint32_t stride = 1;
  for (uint32_t i = loop + 1; i < k->loops.count; i++) stride *= parts[i];
  return stride;
}

/* Inputs that pass in slices: kernel_slices.c. The first two are parts of opening and splitting a
 * view, the third cuts the layout of such an input further. */
void kernel_slices_open(kernel_view *k);
void kernel_slices_split(kernel_view *k);
void kernel_share(const kernel_view *k, const wafer_split *split, uint32_t value,
                  wafer_layout *layout);
bool kernel_shared(const kernel_view *k, uint32_t value); /* cores have shares of the input */
uint64_t kernel_pass_cycles(const kernel_view *k);
uint64_t kernel_passing_bytes(const kernel_view *k, uint32_t value); /* share and slices */
bool kernel_sums_wait(const kernel_view *k); /* no result is complete before all has passed */

/* Sums and products that stop at UINT64_MAX. */
static inline uint64_t kernel_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t kernel_mul(uint64_t a, uint64_t b) {
  uint64_t all;
  return __builtin_mul_overflow(a, b, &all) ? UINT64_MAX : all;
}
static inline int64_t kernel_ceil(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}
static inline int64_t kernel_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t kernel_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The longest of dims `from` .. `to` - 1 of a value's tile, at least 1. */
static inline int64_t kernel_longest(const kernel_view *k, uint32_t value, uint32_t from,
                                     uint32_t to) {
  int64_t longest = 1;
  for (uint32_t d = from; d < to; d++)
    if (k->tile[value][d] > longest) longest = k->tile[value][d];
  return longest;
}
/* `elements` of work by vector instructions over `run` elements each: descriptors are loaded once,
 * each instruction costs its set-up and the machine's rate. */
uint64_t kernel_vector(const kernel_view *k, wafer_rate rate, wafer_dtype dtype, uint64_t elements,
                       uint64_t run);

/* A loop nest as the programs of cores have it: the four longest loops are the levels of one vector
 * instruction, the others loops of the program around it. */
#define KERNEL_NEST_LOOPS 20
#define KERNEL_LEVELS 4 /* loops of a descriptor: the longest ones */

typedef struct kernel_nest {
  uint32_t count;
  int64_t extent[KERNEL_NEST_LOOPS]; /* in any order; loops of one pass are left out */
  bool conflicts;                    /* half of the steps read twice from one bank */
  bool squares;                      /* all of them do: both operands are the same elements */
} kernel_nest;
static inline void kernel_nest_add(kernel_nest *n, int64_t extent) {
  if (extent != 1 && n->count < KERNEL_NEST_LOOPS) n->extent[n->count++] = extent;
}
/* The dims from .. to - 1 of a value's tile. */
void kernel_nest_tile(kernel_nest *n, const kernel_view *k, uint32_t value, uint32_t from,
                      uint32_t to);
uint64_t kernel_nest_cycles(const kernel_view *k, wafer_rate rate, wafer_dtype dtype,
                            const kernel_nest *n);
/* A multiply-accumulate `sum += left * right` whose operands' places are known: bytes from one turn
 * of a loop to the next, and where they begin, modulo the banks. Loops from the outermost. */
enum { KERNEL_STEPS_SUM, KERNEL_STEPS_LEFT, KERNEL_STEPS_RIGHT, KERNEL_STEPS_OPERANDS };
typedef struct kernel_steps {
  uint32_t count;
  int64_t extent[KERNEL_NEST_LOOPS];
  int64_t stride[KERNEL_STEPS_OPERANDS][KERNEL_NEST_LOOPS];
  int32_t address[KERNEL_STEPS_OPERANDS];
  int64_t per_step; /* elements; kernel_steps_cycles sets it */
} kernel_steps;
void kernel_steps_add(kernel_steps *s, int64_t extent, int64_t sum, int64_t left, int64_t right);
/* `dtype`: of the left operand. */
uint64_t kernel_steps_cycles(const wafer_machine *machine, wafer_dtype dtype,
                             const kernel_steps *steps);
/* One instruction that goes over a value's tile. */
uint64_t kernel_over_tile(const kernel_view *k, wafer_rate rate, wafer_dtype dtype, uint32_t value);
/* Zeros, or what else lies outside of the windowed operand, around its tile. */
uint64_t kernel_pads(const kernel_view *k);
/* What an anchor that sums in f32 adds: the accumulators' first values, and narrowing when it
 * stores. Where it multiplies with pairs, what these leave of that; with pairs of so many kinds. */
uint64_t kernel_accumulators(const kernel_view *k, uint32_t node);
uint64_t kernel_sums_cycles(const kernel_view *k, uint32_t node, uint32_t kinds);
/* A convolution's bias, where it has one; what is stored narrower is narrowed with it. At the end
 * of a chain of partial sums a core adds it while the others' are on their way. */
uint64_t kernel_bias(const kernel_view *k, uint32_t node);

/* Fabric work inside the rectangle, in cycles. `words` of 32 bits per core. */
uint64_t kernel_chain(const kernel_view *k, uint32_t loop,
                      uint64_t words); /* reduce to the first part */
uint64_t kernel_broadcast(const kernel_view *k, uint32_t loop,
                          uint64_t words); /* from the first part */
/* In one direction alone, along loop `loop` whose parts there are parts[loop]. */
uint64_t kernel_multicast(const kernel_view *k, const uint32_t *parts, uint32_t loop,
                          uint64_t words);
uint64_t kernel_halo(const kernel_view *k); /* of the windowed operand */
/* By how many cycles kernel_halo is late when cores at the borders begin so many cycles after the
 * others. These have neighbours on fewer sides; so where the words of the others wait in their own
 * queues, and nobody is held up, part of that is not seen. */
uint64_t kernel_halo_late(const kernel_view *k, uint64_t late);
/* Chain over every reduction loop, `words` each, then broadcast of the stored outputs. */
uint64_t kernel_reduce_loops(const kernel_view *k, uint64_t words);
/* The same over the dims of the result from `first` on, of what a reduction behind the anchor
 * makes: `stored` words of it go back. */
uint64_t kernel_reduce_dims(const kernel_view *k, uint32_t first, uint64_t words, uint64_t stored);
uint64_t kernel_words(wafer_dtype dtype, uint64_t elements); /* narrow elements are packed */

/* Maps shared by families: result dim d of `result` cuts dim `to` of the operand. */
static inline void kernel_map_set(kernel_map *map, uint32_t to, const kernel_map *result,
                                  uint32_t d) {
  map->loop[to] = result->loop[d];
  map->even[to] = result->even[d];
  map->each[to] = result->each[d];
  map->nested[to] = result->nested[d];
  map->own[to] = result->own[d];
}
static inline void kernel_map_loop(kernel_map *map, uint32_t to, uint32_t loop) {
  map->loop[to] = (int8_t)loop;
  map->even[to] = map->each[to] = map->nested[to] = 0;
}
/* Dims `outer` and `inner` of the operand are, one inside the other, result dim d. */
void kernel_map_nest(kernel_map *map, uint32_t outer, uint32_t inner, const int64_t *dims,
                     const kernel_map *result, uint32_t d);
/* As kernel_map_set, and the parts must divide `even` too, or be so many of each of its groups that
 * none has results of two; `each` results are of one group. */
void kernel_map_even(kernel_map *map, uint32_t to, const kernel_map *result, uint32_t d,
                     int64_t even, int64_t each);
/* ONNX's broadcast: dims align at the right, a dim of 1 against more is whole. */
void kernel_map_broadcast(const wafer_shape *operand, const wafer_shape *shape,
                          const kernel_map *result, kernel_map *map);
/* kernel_dims.c. How operand i of a node lies when its result lies as in the view. */
kernel_map kernel_operand_map(const kernel_view *k, uint32_t node, uint32_t i);
/* How all values of a view do whose body, loops and families are known. */
void kernel_map_values(kernel_view *k);

#endif
