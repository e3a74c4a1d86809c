/* Where kernels shall lie: pins and reserved rectangles, as XML that `wafer dump --placement`
 * writes, people edit and `wafer compile --placement` reads (runtime/plan/placement.rng,
 * docs/placement.md). */
#ifndef WAFER_PLACEMENT_H
#define WAFER_PLACEMENT_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_pin {
  const char *kernel; /* a kernel's name, or an ONNX node that it computes */
  wafer_rect rect;
  uint32_t replicas; /* of the rectangle, side by side; 0: 1 */
  /* How the kernel's loops are cut; heed it only where it makes such a rectangle. 0 parts, or
   * another rectangle: the fastest split that does. */
  wafer_split split;
  /* Kept from an earlier plan: a wish, given up where the kernel is another, or the rest does not
   * fit otherwise. A kernel of another name but this identity (wafer_kernel_identity) will do. */
  bool kept;
  uint64_t identity; /* of a kept one */
} wafer_pin;

typedef struct wafer_pins {
  const char *machine, *mode; /* that places were made for; NULL: it does not say */
  wafer_cut cut; /* into bands with the kernels at these places; zeros: it does not say */
  bool reductions_behind; /* kernels have reductions behind their anchors (wafer_body_reduces) */
  uint32_t pin_count, reserved_count;
  const wafer_pin *pins;
  const wafer_rect *reserved;
} wafer_pins;

/* What a kernel computes: equal for bodies that differ in their buffers' depths alone. */
uint64_t wafer_kernel_identity(const wafer_kernel_body *body);

/* Strings live in the arena. BAD_INPUT names the line. */
wafer_status wafer_pins_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                             wafer_pins *out);
/* The kernels of a plan as pins that are kept; the machine's reserved rectangles. */
wafer_status wafer_pins_of(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           wafer_pins *out);
/* A plan's placement as XML in the arena; read again it pins every kernel where it is. */
wafer_status wafer_pins_print(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                              char **text, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
