/* Sequences of codes, of which each that a core ends with becomes a program. Private to the linker:
 * fragment_sequence.c finds them, fragment_link.c writes the programs. */
#ifndef BACKEND_FRAGMENT_SEQUENCE_H
#define BACKEND_FRAGMENT_SEQUENCE_H

#include "fragment_color.h"

/* A sequence of codes: that of `before`, then `code` of a fragment; of FRAGMENT_ENDS: whether the
 * first sample comes again; STARTS: here, after what came once. */
typedef struct sequence {
  uint32_t before, fragment, code;
  uint32_t length; /* instructions, marks included */
} sequence;

#define NOTHING UINT32_MAX
#define STARTS (FRAGMENT_ENDS - 1)

typedef struct linker {
  const wafer_diag *diag;
  wafer_arena *arena;
  const wafer_machine *machine;
  const fragment_link *link;
  fragment_coloring colors;
  uint32_t *last; /* of each core: its sequence so far */
  sequence *sequences;
  uint32_t count, room;
  uint32_t *buckets, bucket_count;
} linker;

wafer_status link_no_memory(const linker *l);
/* Of each core its sequence, NOTHING where it does nothing. */
wafer_status link_sequences(linker *l);

#endif
