/* The picture of a run: cells of one color are one path, so that a whole wafer stays small. */
#include "run_heat.h"

#include <math.h>
#include <stdlib.h>

#include "dump/dump_svg.h"

typedef unsigned long long ull;

enum { PAGE = 1200, LEFT = 40, TOP = 112, PANEL = 552, GAP = 24, LEVELS = 24, FOOT = 74 };
#define DECADES 3 /* of the scale, below the busiest cell */

typedef struct heat {
  const wafer_plan *plan;
  const wafer_run_stats *stats;
  wafer_rect view;
  uint32_t bin, columns, rows; /* cores of a cell's side; cells */
  double *cells, most;         /* of the panel at hand, per cycle and core */
  double x, scale;             /* its left side; pixels of a core */
} heat;

/* ---- cells ---- */

static double at_core(const heat *h, bool links, uint32_t x, uint32_t y) {
  size_t core = (size_t)y * wafer_machine_whole(h->plan->machine)->width + x;
  const uint64_t *out = &h->stats->link_wavelets[core * WAFER_LINKS];
  return links ? (double)(out[0] + out[1] + out[2] + out[3]) : (double)h->stats->core_cycles[core];
}

/* A kernel's in the first band. */
static wafer_rect cores_of(const heat *h, uint32_t kernel) {
  wafer_rect r = dump_extent(&h->plan->kernels[kernel]);
  wafer_core_at first = wafer_machine_band_core(h->plan->machine, 0, r.x, r.y);
  return (wafer_rect){first.x, first.y, r.width, r.height};
}

/* What is busy, and the kernels, with a core of margin. */
static wafer_rect view_of(const heat *h) {
  const wafer_machine *m = wafer_machine_whole(h->plan->machine);
  uint32_t left = m->width, top = m->height, right = 0, bottom = 0;
  for (uint32_t y = 0; y < m->height; y++)
    for (uint32_t x = 0; x < m->width; x++) {
      if (at_core(h, false, x, y) == 0 && at_core(h, true, x, y) == 0) continue;
      left = x < left ? x : left;
      right = x + 1 > right ? x + 1 : right;
      top = y < top ? y : top;
      bottom = y + 1;
    }
  for (uint32_t k = 0; k < h->plan->kernel_count; k++) {
    wafer_rect r = cores_of(h, k);
    left = r.x < left ? r.x : left;
    top = r.y < top ? r.y : top;
    right = r.x + r.width > right ? r.x + r.width : right;
    bottom = r.y + r.height > bottom ? r.y + r.height : bottom;
  }
  if (left >= right || top >= bottom) return (wafer_rect){0, 0, m->width, m->height};
  left -= left > 0;
  top -= top > 0;
  right += right < m->width;
  bottom += bottom < m->height;
  return (wafer_rect){left, top, right - left, bottom - top};
}

static bool lay_out(heat *h) {
  h->view = view_of(h);
  uint32_t longer = h->view.width > h->view.height ? h->view.width : h->view.height;
  h->bin = (longer + RUN_HEAT_CELLS - 1) / RUN_HEAT_CELLS;
  h->columns = (h->view.width + h->bin - 1) / h->bin;
  h->rows = (h->view.height + h->bin - 1) / h->bin;
  h->scale = fmin((double)PANEL / h->view.width, 900.0 / h->view.height);
  h->cells = calloc((size_t)h->columns * h->rows, sizeof *h->cells);
  return h->cells != NULL;
}

/* Means over the cores of each cell; a cell at the far sides may have fewer. */
static void fill(heat *h, bool links) {
  double cycles = h->stats->total_cycles ? (double)h->stats->total_cycles : 1;
  h->most = 0;
  for (uint32_t i = 0; i < h->columns * h->rows; i++) {
    uint32_t x0 = i % h->columns * h->bin, y0 = i / h->columns * h->bin, count = 0;
    double sum = 0;
    for (uint32_t y = y0; y < y0 + h->bin && y < h->view.height; y++)
      for (uint32_t x = x0; x < x0 + h->bin && x < h->view.width; x++, count++)
        sum += at_core(h, links, h->view.x + x, h->view.y + y);
    h->cells[i] = sum / (count * cycles);
    if (h->cells[i] > h->most) h->most = h->cells[i];
  }
}

/* 0: nothing at all; LEVELS: as busy as the busiest. */
static uint32_t level_of(const heat *h, double value) {
  if (value <= 0 || h->most <= 0) return 0;
  double below = log10(h->most / value) / DECADES;
  return below >= 1 ? 1 : (uint32_t)(LEVELS - floor(below * (LEVELS - 1)));
}

/* Pale yellow over red to black-violet: darker is busier in print, too. */
static svg_rgb color_of(uint32_t level) {
  static const uint8_t stops[4][3] = {{253, 240, 180}, {245, 150, 60}, {190, 30, 80}, {45, 10, 60}};
  double at = 3.0 * (level - 1) / (LEVELS - 1);
  uint32_t i = at >= 3 ? 2 : (uint32_t)at;
  uint8_t c[3];
  for (int k = 0; k < 3; k++)
    c[k] = (uint8_t)(stops[i][k] + (at - i) * (stops[i + 1][k] - stops[i][k]));
  return (svg_rgb){c[0], c[1], c[2]};
}

/* ---- drawing ---- */

static void draw_level(wafer_file *to, const heat *h, uint32_t level) {
  svg_rgb c = color_of(level);
  double side = h->bin * h->scale;
  bool begun = false;
  for (uint32_t y = 0; y < h->rows; y++)
    for (uint32_t x = 0, end; x < h->columns; x = end + 1) {
      for (end = x; end < h->columns; end++)
        if (level_of(h, h->cells[y * h->columns + end]) != level) break;
      if (end == x) continue;
      if (!begun) svg_put(to, "<path fill=\"#%02x%02x%02x\" d=\"", c.r, c.g, c.b);
      begun = true;
      double width = (fmin(end * h->bin, h->view.width) - x * h->bin) * h->scale;
      double height = (fmin((y + 1.0) * h->bin, h->view.height) - y * h->bin) * h->scale;
      svg_put(to, "M%.5g %.5gh%.4gv%.4gh-%.4gz", h->x + x * side, TOP + y * side, width, height,
              width);
    }
  if (begun) svg_put(to, "\"/>\n");
}

static void draw_outlines(wafer_file *to, const heat *h) {
  svg_put(to, "<path fill=\"none\" stroke=\"#2f81f7\" stroke-width=\"0.8\" d=\"");
  for (uint32_t k = 0; k < h->plan->kernel_count; k++) {
    wafer_rect r = cores_of(h, k);
    double width = r.width * h->scale;
    svg_put(to, "M%.5g %.5gh%.4gv%.4gh-%.4gz", h->x + ((double)r.x - h->view.x) * h->scale,
            TOP + ((double)r.y - h->view.y) * h->scale, width, r.height * h->scale, width);
  }
  svg_put(to, "\"/>\n");
}

static void draw_legend(wafer_file *to, const heat *h, const char *unit) {
  const svg_font font = {.size = 10, .color = SVG_FAINT};
  const svg_font end = {.size = 10, .color = SVG_FAINT, .anchor = 'e'};
  double y = TOP + h->view.height * h->scale + 16, step = (double)PANEL / 2 / LEVELS;
  char text[64];
  for (uint32_t level = 1; level <= LEVELS; level++) {
    svg_rgb c = color_of(level);
    svg_put(to,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"10\" "
            "fill=\"#%02x%02x%02x\"/>\n",
            h->x + (level - 1) * step, y, step + 0.2, c.r, c.g, c.b);
  }
  snprintf(text, sizeof text, "up to %.3g", h->most * pow(10, -DECADES));
  svg_text(to, h->x, y + 22, 0, font, text);
  snprintf(text, sizeof text, "%.3g %s", h->most, unit);
  svg_text(to, h->x + PANEL / 2.0, y + 22, 0, end, text);
  svg_text(to, h->x + PANEL / 2.0 + 10, y + 9, 0, font, "logarithmic; blank: never");
}

static void draw_panel(wafer_file *to, heat *h, bool links) {
  const char *unit = links ? "wavelets a cycle" : "of the cycles";
  h->x = LEFT + (links ? PANEL + GAP : 0);
  fill(h, links);
  svg_text(to, h->x, TOP - 10, PANEL, (svg_font){.size = 12, .color = SVG_INK, .bold = true},
           links ? "links: wavelets that left each router" : "cores: cycles at work");
  svg_put(to,
          "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%.1f\" fill=\"#fafaf7\" "
          "stroke=\"#c9c9c2\" stroke-width=\"0.8\"/>\n",
          h->x, TOP, h->view.width * h->scale, h->view.height * h->scale);
  for (uint32_t level = 1; level <= LEVELS; level++) draw_level(to, h, level);
  draw_outlines(to, h);
  draw_legend(to, h, unit);
}

static void draw_page(wafer_file *to, heat *h) {
  const wafer_plan *plan = h->plan;
  const wafer_machine *wafer = wafer_machine_whole(plan->machine);
  double height = TOP + h->view.height * h->scale + FOOT;
  char text[256];
  svg_put(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d "
          "%.0f\" font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n"
          "<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
          PAGE, height, PAGE, height, PAGE, height);
  snprintf(text, sizeof text, "%.160s on %.60s", plan->model, plan->machine->name);
  svg_text(to, LEFT, 38, 1100, (svg_font){.size = 22, .color = SVG_INK, .bold = true}, text);
  snprintf(text, sizeof text, "%s, %llu sample%s in %llu cycles, %llu wavelet hops",
           wafer_mode_name(plan->mode), (ull)h->stats->samples, h->stats->samples == 1 ? "" : "s",
           (ull)h->stats->total_cycles, (ull)h->stats->hops);
  svg_text(to, LEFT, 60, 1100, (svg_font){.size = 13, .color = SVG_INK}, text);
  snprintf(text, sizeof text, "cores %u to %u by %u to %u of %ux%u, a cell is the mean of %ux%u",
           h->view.x, h->view.x + h->view.width - 1, h->view.y, h->view.y + h->view.height - 1,
           wafer->width, wafer->height, h->bin, h->bin);
  svg_text(to, LEFT, 78, 1100, (svg_font){.size = 12, .color = SVG_FAINT}, text);
  draw_panel(to, h, false);
  draw_panel(to, h, true);
  svg_put(to, "</svg>\n");
}

wafer_status run_heat(const wafer_diag *diag, const wafer_plan *plan, const wafer_run_stats *stats,
                      const char *path) {
  heat h = {.plan = plan, .stats = stats};
  wafer_file *file;
  if (!lay_out(&h))
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "the host is out of memory");
  wafer_status status = wafer_file_begin(diag, path, &file);
  if (status == WAFER_OK) {
    draw_page(file, &h);
    status = wafer_file_commit(file);
  }
  free(h.cells);
  return status;
}
