/* Sizing weight streaming, kernel after kernel: what lies on the wafer between phases, and the
 * shape that the next phase takes beside it. */
#ifndef WAFER_PASSES_SIZE_STREAMING_H
#define WAFER_PASSES_SIZE_STREAMING_H

#include "size.h"

/* A value's copies on the wafer between phases. */
typedef struct held {
  uint32_t count, room;
  wafer_holding *at;
  uint64_t bytes; /* per core and sample, of all copies */
} held;

/* Where a kernel lies that shares its phase: from the first corner of the wafer. */
typedef struct size_share {
  uint32_t phase;
  wafer_core_at corner;
} size_share;

typedef struct streaming {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  sizing *out;
  uint32_t batch;                   /* samples resident in a stripe */
  uint32_t stripes;                 /* whose samples share the edge; ctx->machine is one of them */
  const wafer_shape_point **wished; /* kernel: the shape to take if it fits; NULL: none */
  const sized_kernel *greedy;       /* of those wishes */
  const size_share *shares;         /* kernel; NULL: each has a phase to itself */
  size_phase *own;                  /* kernel: the phase that it would have to itself */
  wafer_core_at corner;             /* of the kernel at hand */
  uint64_t budget;
  wafer_rect whole;
  held *held;         /* value */
  uint32_t *last_use; /* value: the last kernel that needs it */
  uint64_t live;      /* bytes per core and sample of all held values */
  uint64_t before;    /* bytes of the fullest core in the phase before */
  /* What did not fit, and in which body: the refusal is written when there is no other way. */
  wafer_kernel_body refused;
  uint32_t refused_kernel;
  uint64_t asked, beside; /* bytes per core: of the kernel with what is held, of that alone */
  bool lean;              /* shapes that spread their results thin are weighed as well */
  uint64_t price;         /* 1024ths of a cycle for a byte on each core through a phase */
  uint64_t paid;          /* the price at which all fitted */
  size_waste waste;       /* what the waste of sparse products costs */
  bool prices_spread;     /* the way of weights over the cores costs, too */
  uint32_t keeps;         /* kernels: copies of values that are needed later than that end with the
                             phase, and are made again */
} streaming;

wafer_status streaming_no_memory(const streaming *s);

/* Kernel k is at hand. */
static inline void streaming_at(streaming *s, uint32_t k) {
  s->corner = s->shares ? s->shares[k].corner : (wafer_core_at){0, 0};
}

/* ---- What is held: size_held.c ---- */

/* Where a shape has an input, an output. */
wafer_holding streaming_input(const streaming *s, const wafer_kernel_body *body,
                              const wafer_shape_point *point, uint32_t input);
wafer_holding streaming_output(const streaming *s, const wafer_kernel_body *body,
                               const wafer_shape_point *point, uint32_t output);
/* Whether an input's samples pass through a buffer, instead of staying with all of the batch. */
bool streaming_passes(const streaming *s, const wafer_kernel_body *body, uint32_t input);

bool held_has(const held *h, const wafer_holding *holding);
/* Bytes per core of a kernel in a shape, and of all that is held meanwhile. */
uint64_t held_beside(const streaming *s, const wafer_graph_kernel *kernel,
                     const wafer_kernel_body *body, const wafer_shape_point *point);
/* Whether an input that is to pass lies where the shape needs it: nothing would be sent. */
bool held_stays(const streaming *s, const wafer_graph_kernel *kernel, const wafer_kernel_body *body,
                const wafer_shape_point *point);
/* The copies that the phase makes, then the values that nobody needs any more. */
wafer_status held_update(streaming *s, uint32_t k, const wafer_kernel_body *body,
                         const wafer_shape_point *point);

/* ---- When weights leave MemoryX: size_ahead.c ---- */

/* Chooses it for every phase of a sizing that fits. */
wafer_status size_ahead(streaming *s);
/* Cycles of the phases, `batch` samples resident. */
uint64_t size_group_cycles(const wafer_machine *machine, const sizing *of, uint64_t batch);
/* With the way of weights over the cores as well. */
uint64_t size_spread_group_cycles(const wafer_machine *machine, const sizing *of, uint64_t batch);

/* ---- All phases ---- */

/* The shapes of all kernels chosen together, from those of `greedy`: at the lowest price of memory,
 * from below the one that was paid, with which they fit. */
wafer_status streaming_together(streaming *s, uint32_t keeps, const sizing *greedy, sizing *out);
/* Each phase for itself or all together, whichever is better; phases are shared where time alone
 * counts. *keeps: that was tried. */
wafer_status streaming_either(streaming *s, uint32_t *keeps, sizing *out);

/* ---- Sparse weights: size_sparse.c ---- */

/* From the fastest sizing, which fits, the fastest whose sparse products waste little; where none
 * was found the one that wastes least. */
wafer_status size_sparse(streaming *s, uint32_t keeps, sizing *out);

/* ---- One phase: size_phase.c ---- */

/* The curves that phases ask for first. */
wafer_status streaming_find_curves(streaming *s);
/* Chooses the shape and the buffers of kernel k, which becomes the next phase; without one that
 * fits `s->out` says why. */
wafer_status streaming_phase(streaming *s, uint32_t k, bool *fits);

/* What comes for the phase of kernel k from MemoryX, now that some of its weights stay. */
void streaming_arrive(streaming *s, uint32_t k);

/* ---- Weights that stay: size_stay.c ---- */

/* Chooses them, when all kernels have shapes. */
void size_stay(streaming *s);

/* ---- Phases of several kernels: size_share.c ---- */

/* The phase of kernels [first, end), of such shapes, from those that each would have to itself. */
void size_join(const wafer_machine *machine, const wafer_graph *graph, const size_phase *own,
               const sized_kernel *kernels, const size_share *shares, uint32_t first, uint32_t end,
               size_phase *out);
/* Lets kernels that follow each other share a phase, side by side, where that makes the sizing
 * faster. */
wafer_status size_shared(streaming *s, sizing *out);
/* Sizes all kernels in the shapes of `like`, with `s->shares`; for size_shared. */
wafer_status size_again(streaming *s, const sizing *like, sizing *out);

#endif
