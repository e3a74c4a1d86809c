/* The picture of a plan: primitives, panels (one per phase) and the page around them. Lengths are
 * in pixels of a page 1200 wide. */
#ifndef WAFER_DUMP_SVG_H
#define WAFER_DUMP_SVG_H

#include "dump.h"
#include "wafer/file.h"

#define SVG_INK "#24292f"
#define SVG_FAINT "#6e7781"

/* ---- primitives (dump_svg_draw.c). The file remembers its first failure. ---- */

typedef struct svg_box {
  double x, y, width, height;
} svg_box;

void svg_put(wafer_file *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct svg_rgb {
  uint8_t r, g, b;
} svg_rgb;

typedef struct svg_font {
  double size;
  const char *color;
  char anchor;         /* 's'tart, 'm'iddle, 'e'nd */
  bool bold, upright;  /* upright: read from bottom to top */
  uint32_t keep;       /* characters at the start that stay when text is cut */
  const svg_rgb *halo; /* around the letters, so that lines do not cross them; NULL: none */
} svg_font;

/* Text, cut with ".." where it would be wider than `most` (0: never). (x, y) is on the base line.
 */
void svg_text(wafer_file *to, double x, double y, double most, svg_font font, const char *text);
/* No narrower than what a renderer makes of it. */
double svg_text_width(const char *text, double size);

svg_rgb svg_family_color(wafer_family family, double load); /* load 0: pale, 1: full */
svg_rgb svg_stream_color(uint32_t color);
bool svg_is_dark(svg_rgb color);
svg_rgb svg_darker(svg_rgb color);

/* ---- panels (dump_svg_panel.c) ---- */

typedef struct svg_panel {
  const wafer_plan *plan;
  const wafer_phase *phase;
  wafer_rect view; /* cores shown */
  double x, y;     /* of the view's corner */
  double scale;    /* pixels of a core */
  bool ticks;      /* coordinates along the sides */
  size_t skip;     /* characters of every name that are left out */
} svg_panel;

/* What of the wafer is worth showing: everything, or the part in which the kernels are. */
wafer_rect svg_view(const wafer_plan *plan);
void svg_draw_panel(wafer_file *to, const svg_panel *panel);
/* The whole wafer, small, with the view marked. */
void svg_draw_map(wafer_file *to, const wafer_plan *plan, wafer_rect view, svg_box box);

/* ---- labels (dump_svg_label.c) ---- */

typedef struct svg_label {
  svg_box of; /* the rectangle it names */
  double half_width, half_height;
  double x, y;           /* its middle, when found */
  double from_x, from_y; /* where its leader starts, in the rectangle */
  bool found;
} svg_label;

/* Finds places near their rectangles for labels that cover neither a rectangle nor each other and
 * stay inside `page`. */
void svg_place_labels(svg_box page, const svg_box *taken, uint32_t taken_count, svg_label *labels,
                      uint32_t count);

#endif
