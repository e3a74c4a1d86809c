/* Places for labels that do not fit into their rectangles: rings around it, the nearest free spot
 * wins. */
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

static bool is_free(svg_box page, const svg_box *taken, uint32_t taken_count,
                    const svg_label *labels, uint32_t count, svg_box box) {
  if (!inside(page, box)) return false;
  for (uint32_t i = 0; i < taken_count; i++)
    if (meet(taken[i], box)) return false;
  for (uint32_t i = 0; i < count; i++)
    if (labels[i].found && meet(box_of(&labels[i]), box)) return false;
  return true;
}

static void place_one(svg_box page, const svg_box *taken, uint32_t taken_count,
                      const svg_label *labels, uint32_t done, svg_label *l) {
  enum { rings = 14, spots = 24 };
  double from_x = l->of.x + l->of.width / 2, from_y = l->of.y + l->of.height / 2;
  for (int ring = 0; ring < rings && !l->found; ring++) {
    double away = 6 + 7.0 * ring;
    for (int spot = 0; spot < spots && !l->found; spot++) {
      double angle = 2 * 3.14159265358979 * (spot + 0.5 * (ring % 2)) / spots - 0.8;
      l->x = from_x + cos(angle) * (l->of.width / 2 + l->half_width + away);
      l->y = from_y + sin(angle) * (l->of.height / 2 + l->half_height + away);
      l->found = is_free(page, taken, taken_count, labels, done, box_of(l));
    }
  }
}

void svg_place_labels(svg_box page, const svg_box *taken, uint32_t taken_count, svg_label *labels,
                      uint32_t count) {
  for (uint32_t i = 0; i < count; i++) place_one(page, taken, taken_count, labels, i, &labels[i]);
}
