/* Places for labels that do not fit into their rectangles: rings of spots beside its sides, the
 * nearest free one wins. */
#include <math.h>

#include "dump_svg.h"

static bool meet(svg_box a, svg_box b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

static bool inside(svg_box outer, svg_box b) {
  return b.x >= outer.x && b.y >= outer.y && b.x + b.width <= outer.x + outer.width &&
         b.y + b.height <= outer.y + outer.height;
}

static svg_box box_of(const svg_label *l) {
  return (svg_box){l->x - l->half_width - 1, l->y - l->half_height - 1, 2 * l->half_width + 2,
                   2 * l->half_height + 2};
}

/* Narrows [*from, *to], the part of the line that is still inside, to where start + t * step is in
 * [low, high]. */
static void clip(double start, double step, double low, double high, double *from, double *to) {
  if (fabs(step) < 1e-9) {
    if (start < low || start > high) *to = -1;
    return;
  }
  double a = (low - start) / step, b = (high - start) / step;
  *from = fmax(*from, fmin(a, b));
  *to = fmin(*to, fmax(a, b));
}

static bool leader_meets(const svg_label *l, svg_box b) {
  double from = 0, to = 1;
  clip(l->from_x, l->x - l->from_x, b.x, b.x + b.width, &from, &to);
  clip(l->from_y, l->y - l->from_y, b.y, b.y + b.height, &from, &to);
  return from < to;
}

/* Neither the label nor its leader is in the way of another. */
static bool is_free(svg_box page, const svg_box *taken, uint32_t taken_count,
                    const svg_label *labels, uint32_t count, const svg_label *l) {
  svg_box box = box_of(l);
  if (!inside(page, box)) return false;
  for (uint32_t i = 0; i < taken_count; i++)
    if (meet(taken[i], box)) return false;
  for (uint32_t i = 0; i < count; i++)
    if (labels[i].found && (meet(box_of(&labels[i]), box) || leader_meets(l, box_of(&labels[i])) ||
                            leader_meets(&labels[i], box)))
      return false;
  return true;
}

static double clamp(double value, double low, double high) {
  return fmax(low, fmin(high, value));
}

/* Puts the label on `side` (above, below, right, left) at a distance, `along` of -1 .. 1 beside the
 * middle. */
static void put_at(svg_label *l, int side, double away, double along) {
  double half_width = l->of.width / 2, half_height = l->of.height / 2;
  double x = l->of.x + half_width, y = l->of.y + half_height, sign = side % 2 ? 1 : -1;
  bool upright = side < 2;
  l->x = x + (upright ? along * (half_width + away) : -sign * (half_width + away + l->half_width));
  l->y =
      y + (upright ? sign * (half_height + away + l->half_height) : along * (half_height + away));
  double inset_x = fmin(half_width, 1.5), inset_y = fmin(half_height, 1.5);
  l->from_x = clamp(l->x, l->of.x + inset_x, l->of.x + l->of.width - inset_x);
  l->from_y = clamp(l->y, l->of.y + inset_y, l->of.y + l->of.height - inset_y);
}

static void place_one(svg_box page, const svg_box *taken, uint32_t taken_count,
                      const svg_label *labels, uint32_t done, svg_label *l) {
  static const double along[] = {0, -0.4, 0.4, -0.8, 0.8};
  for (double away = 4; away < 400 && !l->found; away += 6 + away / 8)
    for (size_t spot = 0; spot < 4 * WAFER_COUNT(along) && !l->found; spot++) {
      put_at(l, (int)(spot % 4), away, along[spot / 4]);
      l->found = is_free(page, taken, taken_count, labels, done, l);
    }
}

void svg_place_labels(svg_box page, const svg_box *taken, uint32_t taken_count, svg_label *labels,
                      uint32_t count) {
  for (uint32_t i = 0; i < count; i++) place_one(page, taken, taken_count, labels, i, &labels[i]);
}
