/* Resize along one dim: which input elements an output element is made of. */
#ifndef RUNTIME_RESIZE_H
#define RUNTIME_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "modes.h"

typedef struct resize_axis {
  int64_t in, out; /* elements; in is at least 1 */
  double scale;    /* as the model gives it: it need not be out / in */
  resize_mode mode;
  coordinates coordinates;
  rounding rounding;
  double cubic_a;
  bool exclude_outside;
} resize_axis;

/* Element j of the result is the sum of weight[k] * input[index[k]]; unused taps weigh 0. Indices
 * are inside the input. */
typedef struct resize_taps {
  int64_t index[4];
  double weight[4];
} resize_taps;

void resize_taps_of(const resize_axis *axis, int64_t j, resize_taps *taps);

#endif
