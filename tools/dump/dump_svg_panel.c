/* A panel: the wafer to scale with the kernels and streams of one phase. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dump_svg.h"

enum {
  MOST_LABELS = 400,
  CROWD = 3000, /* kernels among which labels would find no place */
  NUMBER_SIZE = 10
};

static svg_box box_of(const svg_panel *p, wafer_rect r) {
  return (svg_box){p->x + ((double)r.x - p->view.x) * p->scale,
                   p->y + ((double)r.y - p->view.y) * p->scale, r.width * p->scale,
                   r.height * p->scale};
}

static void put_box(wafer_file *to, svg_box b, const char *style) {
  svg_put(to, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" %s/>\n", b.x, b.y,
          b.width, b.height, style);
}

/* ---- view ---- */

static void extend(wafer_rect *all, wafer_rect r) {
  uint32_t right = r.x + r.width, bottom = r.y + r.height;
  if (!all->width) {
    *all = r;
    return;
  }
  if (all->x + all->width > right) right = all->x + all->width;
  if (all->y + all->height > bottom) bottom = all->y + all->height;
  if (r.x < all->x) all->x = r.x;
  if (r.y < all->y) all->y = r.y;
  all->width = right - all->x;
  all->height = bottom - all->y;
}

/* [at, at + length) widened on both sides to `want`, inside [0, most). */
static void widen(uint32_t *at, uint32_t *length, uint32_t want, uint32_t most) {
  if (want > most) want = most;
  if (want <= *length) return;
  uint32_t before = (want - *length) / 2;
  *at = *at > before ? *at - before : 0;
  *length = want;
  if (*at > most - want) *at = most - want;
}

wafer_rect svg_view(const wafer_plan *plan) {
  const wafer_machine *m = plan->machine;
  wafer_rect all = {0}, whole = {0, 0, m->width, m->height};
  for (uint32_t i = 0; i < plan->kernel_count; i++) extend(&all, dump_extent(&plan->kernels[i]));
  if (!all.width) return whole;
  uint32_t margin = (all.width > all.height ? all.width : all.height) / 12 + 2;
  uint32_t width = all.width + 2 * margin, height = all.height + 2 * margin;
  widen(&all.x, &all.width, width > height / 3 ? width : height / 3, m->width);
  widen(&all.y, &all.height, height > width / 3 ? height : width / 3, m->height);
  return wafer_rect_area(all) * 5 > wafer_rect_area(whole) * 2 ? whole : all;
}

/* ---- the wafer ---- */

static void draw_ticks(wafer_file *to, const svg_panel *p) {
  svg_font font = {.size = 9, .color = SVG_FAINT, .anchor = 'm'};
  uint32_t step = 1;
  char text[16];
  for (int i = 0; step * p->scale < 44; i++)
    step = step * (i % 3 == 1 ? 5 : 2) / (i % 3 == 1 ? 2 : 1);
  for (uint32_t x = (p->view.x + step - 1) / step * step; x < p->view.x + p->view.width;
       x += step) {
    double at = p->x + (x - p->view.x) * p->scale;
    snprintf(text, sizeof text, "%u", x);
    svg_put(to, "<path d=\"M%.1f %.1fv-4\" stroke=\"" SVG_FAINT "\"/>", at, p->y);
    svg_text(to, at, p->y - 7, 0, font, text);
  }
  font.anchor = 'e';
  for (uint32_t y = (p->view.y + step - 1) / step * step; y < p->view.y + p->view.height;
       y += step) {
    double at = p->y + (y - p->view.y) * p->scale;
    snprintf(text, sizeof text, "%u", y);
    svg_put(to, "<path d=\"M%.1f %.1fh-4\" stroke=\"" SVG_FAINT "\"/>", p->x, at);
    svg_text(to, p->x - 7, at + 3, 0, font, text);
  }
}

static void draw_grid(wafer_file *to, const svg_panel *p) {
  if (p->scale < 7) return;
  svg_put(to, "<path stroke=\"#e4e4df\" stroke-width=\"0.6\" fill=\"none\" d=\"");
  for (uint32_t x = 1; x < p->view.width; x++)
    svg_put(to, "M%.1f %.1fv%.1f", p->x + x * p->scale, p->y, p->view.height * p->scale);
  for (uint32_t y = 1; y < p->view.height; y++)
    svg_put(to, "M%.1f %.1fh%.1f", p->x, p->y + y * p->scale, p->view.width * p->scale);
  svg_put(to, "\"/>\n");
}

static void draw_wafer(wafer_file *to, const svg_panel *p) {
  const wafer_machine *m = p->plan->machine;
  put_box(to, box_of(p, (wafer_rect){0, 0, m->width, m->height}), "fill=\"#e9e9e5\"");
  put_box(to, box_of(p, m->usable), "fill=\"#fafaf7\" stroke=\"#c9c9c2\" stroke-width=\"0.8\"");
  draw_grid(to, p);
  for (uint32_t i = 0; i < m->reserved_count; i++)
    put_box(to, box_of(p, m->reserved[i]), "fill=\"#e8e8e0\" stroke=\"none\"");
  for (uint32_t i = 0; i < m->dead_count; i++) {
    svg_box b = box_of(p, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1});
    if (b.width < 1.5) b.width = b.height = 1.5;
    put_box(to, b, "fill=\"#3a3a3a\"");
  }
}

/* ---- kernels ---- */

static svg_rgb color_of(const wafer_plan *plan, const wafer_kernel *k) {
  double budget = wafer_machine_core_budget(plan->machine);
  return svg_family_color(k->body.family,
                          (double)wafer_cost_bytes(&k->cost) / (budget > 0 ? budget : 1));
}

static void draw_kernel(wafer_file *to, const svg_panel *p, const wafer_kernel *k) {
  svg_rgb fill = color_of(p->plan, k), line = svg_darker(svg_family_color(k->body.family, 1));
  char style[128];
  snprintf(style, sizeof style,
           "fill=\"#%02x%02x%02x\" stroke=\"#%02x%02x%02x\" stroke-width=\"%.2g\"", fill.r, fill.g,
           fill.b, line.r, line.g, line.b, p->scale < 2 ? 0.6 : 0.9);
  const wafer_plan *plan = p->plan;
  wafer_rect r = k->rect;
  uint32_t copies = plan->stripes > 1 ? plan->stripes : k->replicas;
  for (uint32_t i = 0; i < copies && r.x < plan->machine->width; i++) {
    put_box(to, box_of(p, r), style);
    r.x += plan->stripes > 1 ? plan->stripe_columns : r.width;
  }
}

/* Number and name inside the rectangle, across or upright, or the number alone; false when there is
 * no room for either. */
static bool draw_name(wafer_file *to, const svg_panel *p, uint32_t index) {
  static const double sizes[] = {11, 9};
  const wafer_kernel *k = &p->plan->kernels[index];
  svg_box b = box_of(p, dump_extent(k));
  char text[256], number[16];
  uint32_t digits = (uint32_t)snprintf(number, sizeof number, "%u", index);
  snprintf(text, sizeof text, "%u %.200s", index, k->name + p->skip);
  svg_rgb fill = color_of(p->plan, k);
  svg_font font = {.color = svg_is_dark(fill) ? "#ffffff" : SVG_INK,
                   .anchor = 'm',
                   .bold = true,
                   .halo = &fill,
                   .keep = digits + 1};
  double x = b.x + b.width / 2, y = b.y + b.height / 2;
  for (size_t i = 0; i < WAFER_COUNT(sizes); i++) {
    double wanted = svg_text_width(text, sizes[i]) + 6,
           least = fmin(wanted, svg_text_width("12345678", sizes[i]) + 6);
    font.size = sizes[i];
    font.upright = b.height > b.width && b.width < wanted;
    double along = font.upright ? b.height : b.width, across = font.upright ? b.width : b.height;
    if (along < least || across < sizes[i] + 2) continue;
    double down = 0.36 * sizes[i]; /* from the middle to the base line */
    svg_text(to, font.upright ? x + down : x, font.upright ? y : y + down, along - 6, font, text);
    return true;
  }
  font.size = NUMBER_SIZE;
  font.upright = false;
  if (b.height < 12 || b.width < svg_text_width(number, NUMBER_SIZE) + 2) return false;
  svg_text(to, x, y + 3.6, 0, font, number);
  return true;
}

/* ---- streams ---- */

static void draw_arrow(wafer_file *to, double x, double y, double dx, double dy, svg_rgb c) {
  double length = hypot(dx, dy), size = 5;
  if (length < 1e-9) return;
  dx = dx / length * size, dy = dy / length * size;
  svg_put(to, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fz\" fill=\"#%02x%02x%02x\"/>\n", x, y,
          x - dx - dy * 0.55, y - dy + dx * 0.55, x - dx + dy * 0.55, y - dy - dx * 0.55, c.r, c.g,
          c.b);
}

/* Streams of several colors that share links are drawn beside each other. */
static void draw_stream(wafer_file *to, const svg_panel *p, const wafer_stream *s) {
  if (!s->route_count) return;
  bool weight = p->plan->values[s->value].owner == WAFER_OWNER_weight;
  svg_rgb c = svg_stream_color(s->color);
  double aside = ((int)(s->color % 7) - 3) * fmin(1.2, p->scale / 8);
  double ox = p->x + (0.5 - p->view.x) * p->scale + aside,
         oy = p->y + (0.5 - p->view.y) * p->scale + aside;
  svg_put(to, "<path fill=\"none\" stroke=\"#%02x%02x%02x\" stroke-width=\"%s\"%s d=\"M%.1f %.1f",
          c.r, c.g, c.b, weight ? "0.8" : "1.6", weight ? " stroke-dasharray=\"3 2\"" : "",
          ox + s->route[0].x0 * p->scale, oy + s->route[0].y0 * p->scale);
  for (uint32_t i = 0; i < s->route_count; i++)
    svg_put(to, "L%.1f %.1f", ox + s->route[i].x1 * p->scale, oy + s->route[i].y1 * p->scale);
  svg_put(to, "\"/>\n");
  const wafer_route_segment *end = &s->route[s->route_count - 1];
  for (uint32_t i = s->route_count; i-- > 0 && end->x0 == end->x1 && end->y0 == end->y1;)
    end = &s->route[i];
  if (!weight)
    draw_arrow(to, ox + end->x1 * p->scale, oy + end->y1 * p->scale, (double)end->x1 - end->x0,
               (double)end->y1 - end->y0, c);
}

static void draw_streams(wafer_file *to, const svg_panel *p, bool weights) {
  for (uint32_t i = 0; i < p->phase->action_count; i++) {
    const wafer_action *a = &p->phase->actions[i];
    if (a->kind != WAFER_ACTION_stream) continue;
    const wafer_stream *s = &p->plan->streams[a->index];
    if ((p->plan->values[s->value].owner == WAFER_OWNER_weight) == weights) draw_stream(to, p, s);
  }
}

/* ---- labels outside ---- */

static void draw_label(wafer_file *to, const svg_label *l, uint32_t index) {
  char number[16];
  snprintf(number, sizeof number, "%u", index);
  svg_put(to, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"" SVG_INK "\" stroke-width=\"0.6\"/>",
          l->from_x, l->from_y, l->x, l->y);
  svg_put(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.2\" fill=\"" SVG_INK "\"/>", l->from_x,
          l->from_y);
  svg_put(to,
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2.5\" fill=\"#ffffff\" "
          "stroke=\"" SVG_INK "\" stroke-width=\"0.6\"/>",
          l->x - l->half_width, l->y - l->half_height, 2 * l->half_width, 2 * l->half_height);
  svg_text(to, l->x, l->y + 3.5, 0,
           (svg_font){.size = NUMBER_SIZE, .color = SVG_INK, .anchor = 'm'}, number);
}

/* Kernels whose number did not fit into them get it beside them. `outside` lists them. */
static void draw_labels(wafer_file *to, const svg_panel *p, const svg_box *taken,
                        uint32_t taken_count, const uint32_t *outside, uint32_t count) {
  svg_box page = {p->x, p->y, p->view.width * p->scale, p->view.height * p->scale};
  if (count > MOST_LABELS) count = MOST_LABELS;
  svg_label *labels = calloc(count ? count : 1, sizeof *labels);
  if (!labels) return;
  for (uint32_t i = 0; i < count; i++) {
    char number[16];
    snprintf(number, sizeof number, "%u", outside[i]);
    labels[i].of = box_of(p, dump_extent(&p->plan->kernels[outside[i]]));
    labels[i].half_width = svg_text_width(number, NUMBER_SIZE) / 2 + 2;
    labels[i].half_height = 6;
  }
  svg_place_labels(page, taken, taken_count, labels, count);
  for (uint32_t i = 0; i < count; i++)
    if (labels[i].found) draw_label(to, &labels[i], outside[i]);
  free(labels);
}

static void draw_kernels(wafer_file *to, const svg_panel *p) {
  uint32_t all = 0, count = 0;
  svg_box *taken = calloc(p->phase->action_count + 1, sizeof *taken);
  uint32_t *outside = calloc(p->phase->action_count + 1, sizeof *outside);
  for (uint32_t i = 0; taken && outside && i < p->phase->action_count; i++) {
    const wafer_action *a = &p->phase->actions[i];
    if (a->kind == WAFER_ACTION_kernel)
      taken[all++] = box_of(p, dump_extent(&p->plan->kernels[a->index]));
  }
  for (uint32_t i = 0; taken && outside && i < p->phase->action_count; i++) {
    const wafer_action *a = &p->phase->actions[i];
    if (a->kind == WAFER_ACTION_kernel && !draw_name(to, p, a->index)) outside[count++] = a->index;
  }
  if (taken && outside && all <= CROWD) draw_labels(to, p, taken, all, outside, count);
  free(taken);
  free(outside);
}

void svg_draw_panel(wafer_file *to, const svg_panel *p) {
  svg_put(to,
          "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" viewBox=\"%.1f %.1f %.1f "
          "%.1f\">\n",
          p->x, p->y, p->view.width * p->scale, p->view.height * p->scale, p->x, p->y,
          p->view.width * p->scale,
          p->view.height * p->scale); /* a view port of its own: nothing sticks out */
  draw_wafer(to, p);
  for (uint32_t i = 0; i < p->phase->action_count; i++)
    if (p->phase->actions[i].kind == WAFER_ACTION_kernel)
      draw_kernel(to, p, &p->plan->kernels[p->phase->actions[i].index]);
  draw_streams(to, p, true);
  draw_streams(to, p, false);
  draw_kernels(to, p);
  svg_put(to, "</svg>\n");
  if (p->ticks) draw_ticks(to, p);
  put_box(to, (svg_box){p->x, p->y, p->view.width * p->scale, p->view.height * p->scale},
          "fill=\"none\" stroke=\"#8c959f\" stroke-width=\"0.8\"");
}

void svg_draw_map(wafer_file *to, const wafer_plan *plan, wafer_rect view, svg_box box) {
  const wafer_machine *m = plan->machine;
  svg_panel p = {.plan = plan, .view = {0, 0, m->width, m->height}, .x = box.x, .y = box.y};
  p.scale = fmin(box.width / m->width, box.height / m->height);
  draw_wafer(to, &p);
  for (uint32_t i = 0; i < plan->kernel_count && i < 2000; i++)
    draw_kernel(to, &p, &plan->kernels[i]);
  put_box(to, box_of(&p, (wafer_rect){0, 0, m->width, m->height}),
          "fill=\"none\" stroke=\"#8c959f\" stroke-width=\"0.8\"");
  put_box(to, box_of(&p, view), "fill=\"none\" stroke=\"#cf222e\" stroke-width=\"1.2\"");
}
