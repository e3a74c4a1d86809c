/* The programs of a kernel at the end of a step of pipelined training: what its cores do with the
 * gradients that they have added up. Addresses are the caller's. */
#ifndef BACKEND_PROGRAM_UPDATE_H
#define BACKEND_PROGRAM_UPDATE_H

#include "program.h"
#include "wafer/optimizer.h"

/* What lies beside the sum of an output, all in f32 and laid out as the sum. */
typedef struct program_held {
  spread sum, term; /* term: another replica's sum, or what is being computed; lost afterwards */
  spread weight;
  uint32_t slot_count;
  spread slot[2];       /* the optimizer's state: m, v */
  const spread *stored; /* NULL, or the weight as kernels read it, not in f32 */
  bool statistic;       /* the weight becomes the mean of what was added up */
} program_held;

typedef enum program_update_part {
  PROGRAM_UPDATE_begin,   /* state becomes zero */
  PROGRAM_UPDATE_gather,  /* sum += term */
  PROGRAM_UPDATE_squares, /* their sum, of gradients; of what several cores hold one has it */
  PROGRAM_UPDATE_rule,    /* weight and state by the optimizer's rule; sum and term are lost */
} program_update_part;

typedef struct program_update_of {
  program_update_part part;
  wafer_optimizer_kind optimizer;
  int32_t numbers;          /* address of WAFER_UPDATE_NUMBERS, f32 each */
  const spread *squares;    /* an f32 on every core */
  const program_held *held; /* per output of the body; those that it does not sum are not read */
} program_update_of;

/* Fragments that run one behind the other; none where there is nothing to do. */
wafer_status program_update(const program_request *request, const program_update_of *update,
                            program_kernel_code *out);

/* Adds up an f32 of every core, as a kernel of family reduce does: the first one gets the sum, what
 * the others have is lost. Of the request's kernel its place and names count alone. */
wafer_status program_total(const program_request *request, const spread *each,
                           program_kernel_code *out);

#endif
