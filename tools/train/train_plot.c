/* Curves of a run's losses as SVG. */
#include <math.h>

#include "dump/dump_svg.h"
#include "train.h"

enum { WIDTH = 900, HEIGHT = 480, LEFT = 70, RIGHT = 20, TOP = 50, BOTTOM = 50, MOST_DOTS = 2000 };

typedef struct frame {
  double x0, x1, y0, y1; /* of the data */
} frame;

static void widen(frame *f, const train_curve *curve) {
  for (size_t i = 0; i < curve->count; i++) {
    if (!isfinite(curve->points[i].value)) continue;
    f->x1 = fmax(f->x1, (double)curve->points[i].step);
    f->y0 = fmin(f->y0, curve->points[i].value);
    f->y1 = fmax(f->y1, curve->points[i].value);
  }
}

static double page_x(const frame *f, double x) {
  return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double page_y(const frame *f, double y) {
  return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that about `count` of them fit. */
static double tick_step(double span, double count) {
  double rough = span / count, power = pow(10, floor(log10(rough))), part = rough / power;
  return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void draw_axes(wafer_file *to, const frame *f) {
  char text[32];
  svg_font faint = {.size = 12, .color = SVG_FAINT, .anchor = 'm'}, right = faint;
  right.anchor = 'e';
  double dx = tick_step(f->x1 - f->x0, 8), dy = tick_step(f->y1 - f->y0, 6);
  for (double x = ceil(f->x0 / dx) * dx; x <= f->x1; x += dx) {
    snprintf(text, sizeof text, "%.6g", x);
    svg_text(to, page_x(f, x), HEIGHT - BOTTOM + 18, 0, faint, text);
  }
  for (double y = ceil(f->y0 / dy) * dy; y <= f->y1; y += dy) {
    snprintf(text, sizeof text, "%.6g", fabs(y) < dy / 2 ? 0 : y);
    svg_put(to, "<path d=\"M%d %.1fH%d\" stroke=\"#d8dee4\"/>\n", LEFT, page_y(f, y),
            WIDTH - RIGHT);
    svg_text(to, LEFT - 8, page_y(f, y) + 4, 0, right, text);
  }
  svg_put(to, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"%s\"/>\n", LEFT, TOP,
          HEIGHT - BOTTOM, WIDTH - RIGHT, SVG_INK);
  svg_text(to, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10, 0, faint, "step");
}

/* Long curves are drawn by every n-th point: a page has no more pixels. */
static void draw_curve(wafer_file *to, const frame *f, const train_curve *curve, const char *color,
                       double width) {
  size_t stride = curve->count / MOST_DOTS + 1;
  char move = 'M';
  if (curve->count == 0) return;
  svg_put(to, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" d=\"", color, width);
  for (size_t i = 0; i < curve->count; i += stride) {
    const train_point *p = &curve->points[i];
    if (!isfinite(p->value)) continue;
    svg_put(to, "%c%.1f %.1f", move, page_x(f, (double)p->step), page_y(f, p->value));
    move = 'L';
  }
  svg_put(to, "\"/>\n");
}

static void draw_key(wafer_file *to, double x, const char *color, const char *name) {
  svg_put(to, "<path d=\"M%.1f 34h24\" stroke=\"%s\" stroke-width=\"3\"/>\n", x, color);
  svg_text(to, x + 30, 38, 0, (svg_font){.size = 12, .color = SVG_INK, .anchor = 's'}, name);
}

wafer_status train_plot(const char *path, const char *title, const train_curve *losses,
                        const train_curve *scores) {
  static const char *const blue = "#0969da", *const orange = "#bc4c00";
  frame f = {0, 1, INFINITY, -INFINITY};
  wafer_file *to;
  widen(&f, losses);
  widen(&f, scores);
  if (!(f.y0 < f.y1)) f.y0 = isfinite(f.y0) ? f.y0 - 1 : 0, f.y1 = f.y0 + 2;
  WAFER_TRY(wafer_file_begin(cli_diag(), path, &to));
  svg_put(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
  svg_text(to, LEFT, 20, WIDTH - LEFT,
           (svg_font){.size = 14, .color = SVG_INK, .anchor = 's', .bold = true}, title);
  draw_axes(to, &f);
  draw_curve(to, &f, losses, blue, 1.2);
  draw_curve(to, &f, scores, orange, 2.4);
  draw_key(to, LEFT, blue, "loss of the batch");
  if (scores->count) draw_key(to, LEFT + 170, orange, "loss on the evaluation data");
  svg_put(to, "</svg>\n");
  return wafer_file_commit(to);
}
