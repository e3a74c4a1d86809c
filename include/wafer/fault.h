/* Faults in an emulated fabric: what a run does when a wavelet is lost, a bit of one changes, or a
 * core stops. A fault either changes nothing that is checked, or shows: as a trap, whose notes name
 * it, or as values that differ. */
#ifndef WAFER_FAULT_H
#define WAFER_FAULT_H

#include "wafer/fabric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_fault_kind {
  WAFER_FAULT_drop,  /* the next wavelet at the router is lost */
  WAFER_FAULT_flip,  /* a bit of it changes */
  WAFER_FAULT_stuck, /* the core does nothing any more; its router goes on */
  WAFER_FAULT_upset, /* a bit of the core's memory changes */
} wafer_fault_kind;

typedef struct wafer_fault {
  uint8_t kind, bit; /* wafer_fault_kind; bit 0 to 31 of a flip, 0 to 7 of an upset */
  uint32_t x, y;
  uint64_t cycle;   /* from which on it can strike */
  uint32_t address; /* of an upset; what nobody has written stays so */
} wafer_fault;

/* drop@X,Y,CYCLE, stuck@X,Y,CYCLE, flip@X,Y,CYCLE[,BIT] (bit 0 where none is said), and an upset:
 * flip@X,Y,ADDRESS,BIT,CYCLE. False: no such fault. */
bool wafer_fault_parse(const char *text, wafer_fault *out);
/* Writes the form that wafer_fault_parse reads; 96 bytes are enough. */
void wafer_fault_format(const wafer_fault *fault, char *buffer, size_t bytes);

/* For the next run of the fabric, which ends with a trap at cycle `limit`: a fault may keep a
 * program from ending. Cycles of faults count from `start` cycles before that run. Reprogramming
 * takes faults away. USAGE: no such core or address; NO_MEMORY. */
wafer_status wafer_fabric_inject(wafer_fabric *fabric, const wafer_fault *faults, uint32_t count,
                                 uint64_t start, uint64_t limit);
/* The cycle, counted likewise, in which a fault of the last run struck, by its number; UINT64_MAX:
 * it did not. */
uint64_t wafer_fabric_struck(const wafer_fabric *fabric, uint32_t fault);
/* A note for each fault that struck; a run that traps gives them by itself. */
void wafer_fabric_note_faults(const wafer_fabric *fabric);

#ifdef __cplusplus
}
#endif
#endif
