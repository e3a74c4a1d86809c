/* The program of a kernel: fragments that compute its outputs from its inputs on a rectangle of
 * cores, at given places in their memories.
 *
 * The caller decides where inputs and outputs lie; program_spread says how they lie best: in which
 * order of dims, with room for the halo of windows, so that nothing is copied. Spreads in another
 * order, or without room, are computed on as well; what is not where a node needs it is exchanged.
 */
#ifndef BACKEND_PROGRAM_H
#define BACKEND_PROGRAM_H

#include "exchange/spread.h"
#include "fragment/fragment.h"

typedef struct program_request {
  const wafer_diag *diag;
  wafer_arena *arena; /* of everything that comes out */
  const wafer_machine *machine;
  wafer_loc loc; /* the kernel */
  const char *name;
  const wafer_kernel_body *body;
  const wafer_split *split;
  wafer_rect rect;                /* of the fabric */
  const spread *inputs, *outputs; /* of the body; outputs may not overlap inputs */
  const spread *sums; /* per output that the body sums: f32, laid out as it; others are not looked
                         at. NULL: nothing is added up */
  int32_t scratch, scratch_end; /* addresses that are free on every core of the rectangle */
} program_request;

/* A constant that the program reads: it has to be in the memories before the first run. */
typedef struct program_data {
  uint32_t node;
  const void *elements; /* dense, row-major, in the spread's element type */
  const spread *at;
} program_data;

typedef struct program_kernel_code {
  uint32_t fragment_count, data_count;
  uint32_t clear_count;  /* of the fragments: the first, which clear sums before the first sample */
  fragment **fragments;  /* in the order of execution */
  program_data *data;    /* within the scratch memory; nothing else uses those addresses */
  int32_t scratch_bytes; /* in use, from `scratch` on */
  uint64_t cycles;       /* predicted, one sample, without those that clear */
} program_kernel_code;

/* UNSUPPORTED names kernel, op and ONNX node that have no program; NO_FIT: too little scratch
 * memory. */
wafer_status program_kernel(const program_request *request, program_kernel_code *out);

/* How value `v` of a body (an input or a node's result) lies on the cores, at address 0. False: out
 * of memory. */
bool program_spread(wafer_arena *arena, const wafer_machine *machine, const wafer_kernel_body *body,
                    const wafer_split *split, wafer_rect rect, uint32_t v, spread *out);
/* How the sum of output `output` lies: as the output does, in f32. */
bool program_sum_spread(wafer_arena *arena, const wafer_machine *machine,
                        const wafer_kernel_body *body, const wafer_split *split, wafer_rect rect,
                        uint32_t output, spread *out);
/* The address modulo 8 at which value `v` had best begin: reads of one step then hit different
 * banks. */
int32_t program_phase(const wafer_machine *machine, const wafer_kernel_body *body,
                      const wafer_split *split, uint32_t v);

#endif
