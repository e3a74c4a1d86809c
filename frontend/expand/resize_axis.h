/* One dim resized by a matrix or by a table of places: what the core op resize leaves out, which
 * are antialiasing and crops. */
#ifndef FRONTEND_RESIZE_AXIS_H
#define FRONTEND_RESIZE_AXIS_H

#include "import.h"

typedef struct axis_resize {
  uint32_t axis;
  int64_t in, out;
  double scale; /* of the result's length, which is scale * in before it was rounded */
  const char *mode, *coordinates, *rounding;
  bool antialias; /* shrinking: the weights reach over 1 / scale elements */
  bool exclude_outside;
  double cubic_a;
  double first, last; /* tf_crop_and_resize: the part of the dim, 0 its first element, 1 its last */
  double outside;     /* of a crop's elements beyond the operand */
} axis_resize;

MlirValue emit_resize_axis(import_node *n, MlirValue x, const axis_resize *r);

#endif
