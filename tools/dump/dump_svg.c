/* The page of the picture: head, a panel per phase, legend, table of kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dump_svg.h"

enum {
  PAGE = 1200,
  LEFT = 44,    /* of the panels; the coordinates stand in the margin */
  TOP = 112,    /* of panels and legend */
  PANELS = 780, /* their width */
  SIDE = 842,   /* left of the legend */
  SIDE_WIDTH = 338,
  GAP = 14,
  CAPTION = 16,
  ROW = 14,     /* of the table */
  COLUMN = 378, /* of the table below the panels */
  MAP = 150,
  SWATCHES = 8, /* stream colors in a row */
  MOST_PANELS = 60,
  MOST_ROWS = 900,
};

/* Phases that look alike share a panel when there are too many. */
typedef struct group {
  uint64_t look;
  uint32_t first, count;
} group;

typedef struct page {
  const wafer_plan *plan;
  wafer_rect view;
  bool zoomed;
  group *groups;
  uint32_t group_count, hidden; /* hidden: phases without a panel */
  uint32_t columns;             /* of panels */
  double scale, panel_width, panel_height;
  uint32_t family_count[WAFER_FAMILY_COUNT], families;
  uint32_t colors[256], color_count; /* in use, sorted */
  double panels_end, legend_end, height;
  uint32_t rows, side_rows; /* of the table; those under the legend */
  double below;             /* top of the table's other columns */
  size_t skip;              /* what all names begin with */
} page;

/* ---- layout ---- */

static uint64_t mix(uint64_t look, uint64_t value) {
  return (look ^ value) * 0x100000001b3;
}

static uint64_t look_of(const wafer_plan *plan, const wafer_phase *phase) {
  uint64_t look = 0xcbf29ce484222325;
  for (uint32_t i = 0; i < phase->action_count; i++) {
    if (phase->actions[i].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &plan->kernels[phase->actions[i].index];
    const uint32_t parts[] = {k->rect.x,      k->rect.y,   k->rect.width,
                              k->rect.height, k->replicas, k->body.family};
    for (size_t n = 0; n < WAFER_COUNT(parts); n++) look = mix(look, parts[n]);
  }
  return look;
}

static bool group_phases(page *g) {
  const wafer_plan *plan = g->plan;
  bool all = plan->phase_count <= MOST_PANELS;
  g->groups = calloc(MOST_PANELS, sizeof *g->groups);
  for (uint32_t i = 0; g->groups && i < plan->phase_count; i++) {
    uint64_t look = look_of(plan, &plan->phases[i]);
    uint32_t k = all ? g->group_count : 0;
    while (k < g->group_count && g->groups[k].look != look) k++;
    if (k == MOST_PANELS) {
      g->hidden++;
      continue;
    }
    if (k == g->group_count) g->groups[g->group_count++] = (group){look, i, 0};
    g->groups[k].count++;
  }
  return g->groups != NULL;
}

static int by_number(const void *a, const void *b) {
  return (*(const uint32_t *)a > *(const uint32_t *)b) -
         (*(const uint32_t *)a < *(const uint32_t *)b);
}

static void collect(page *g) {
  for (uint32_t i = 0; i < g->plan->kernel_count; i++)
    g->family_count[g->plan->kernels[i].body.family]++;
  for (int f = 0; f < WAFER_FAMILY_COUNT; f++) g->families += g->family_count[f] > 0;
  for (uint32_t i = 0; i < g->plan->stream_count; i++) {
    uint32_t color = g->plan->streams[i].color, k = 0;
    while (k < g->color_count && g->colors[k] != color) k++;
    if (k == g->color_count && k < WAFER_COUNT(g->colors)) g->colors[g->color_count++] = color;
  }
  qsort(g->colors, g->color_count, sizeof g->colors[0], by_number);
}

static double legend_height(const page *g) {
  double color_rows = (g->color_count + SWATCHES - 1) / SWATCHES;
  return 22 + 16.0 * g->families + 22 + (g->color_count ? 40 + 18 * color_rows : 0) +
         (g->zoomed ? MAP + 34 : 0);
}

static void lay_panels(page *g) {
  uint32_t n = g->group_count;
  g->columns = n <= 1 ? 1 : n <= 4 ? 2 : n <= 9 ? 3 : n <= 16 ? 4 : n <= 30 ? 5 : 6;
  g->panel_width = (PANELS - GAP * (g->columns - 1.0)) / g->columns;
  double tallest = n <= 1 ? 900 : g->panel_width * 1.35;
  g->scale = fmin(g->panel_width / g->view.width, tallest / g->view.height);
  g->panel_height = g->view.height * g->scale + (n > 1 ? CAPTION : 0);
  uint32_t rows = (n + g->columns - 1) / g->columns;
  g->panels_end = TOP + rows * (g->panel_height + GAP);
}

static void lay_out(page *g) {
  const wafer_machine *m = g->plan->machine;
  g->view = svg_view(g->plan);
  g->skip = cli_shared_prefix(g->plan);
  g->zoomed = g->view.width < m->width || g->view.height < m->height;
  collect(g);
  lay_panels(g);
  g->legend_end = TOP + legend_height(g);
  g->rows = g->plan->kernel_count < MOST_ROWS ? g->plan->kernel_count : MOST_ROWS;
  double space = g->panels_end - g->legend_end - 2.0 * ROW - 10;
  g->side_rows = space > 0 ? (uint32_t)(space / ROW) : 0;
  if (g->side_rows > g->rows) g->side_rows = g->rows;
  g->below = fmax(g->panels_end, g->legend_end) + 24;
  uint32_t left = g->rows - g->side_rows, per_column = (left + 2) / 3;
  g->height = g->below + (left ? (per_column + 1.5) * ROW : 0) + 24;
}

/* ---- head ---- */

static void draw_head(wafer_file *to, const page *g) {
  const wafer_plan *plan = g->plan;
  const wafer_mode_cost *c =
      plan->mode == WAFER_MODE_streaming ? &plan->streaming : &plan->pipelined;
  char text[512];
  int length = snprintf(text, sizeof text, "%.160s on %.60s", plan->model, plan->machine->name);
  if (plan->machine->whole)
    snprintf(text + length, sizeof text - (size_t)length, ", the first of %u bands",
             plan->machine->cut.bands);
  svg_text(to, LEFT, 38, 1100, (svg_font){.size = 22, .color = SVG_INK, .bold = true}, text);
  snprintf(text, sizeof text, "%s, storage %s: %u ONNX nodes, %u kernels, %u streams, %u phase%s",
           wafer_mode_name(plan->mode), wafer_dtype_name(plan->storage), plan->node_count,
           plan->kernel_count, plan->stream_count, plan->phase_count,
           plan->phase_count == 1 ? "" : "s");
  svg_text(to, LEFT, 60, 1100, (svg_font){.size = 13, .color = SVG_INK}, text);
  snprintf(
      text, sizeof text,
      "latency %llu cycles, interval %llu cycles at %.4g GHz; at most %llu of %u bytes of a core",
      (ull)c->latency_cycles, (ull)c->interval_cycles, (double)plan->machine->clock_hz * 1e-9,
      (ull)c->peak_core_bytes, wafer_machine_core_budget(plan->machine));
  svg_text(to, LEFT, 78, 1100, (svg_font){.size = 12, .color = SVG_FAINT}, text);
}

/* ---- panels ---- */

static void draw_caption(wafer_file *to, const page *g, const group *of, double x, double y) {
  const char *name = g->plan->phases[of->first].name;
  char text[256];
  if (g->skip && !strncmp(name, g->plan->kernels[0].name, g->skip)) name += g->skip;
  uint32_t digits = (uint32_t)snprintf(text, sizeof text, "%u ", of->first);
  if (of->count > 1)
    snprintf(text + digits, sizeof text - digits, "and %u alike, %.160s", of->count - 1, name);
  else
    snprintf(text + digits, sizeof text - digits, "%.200s", name);
  svg_font font = {
      .size = 11, .color = SVG_INK, .bold = true, .keep = of->count > 1 ? digits + 14 : digits};
  svg_text(to, x, y + 11, g->panel_width, font, text);
}

static void draw_panels(wafer_file *to, const page *g) {
  for (uint32_t i = 0; i < g->group_count; i++) {
    double x = LEFT + i % g->columns * (g->panel_width + GAP);
    double y = TOP + i / g->columns * (g->panel_height + GAP);
    svg_panel panel = {.plan = g->plan,
                       .phase = &g->plan->phases[g->groups[i].first],
                       .view = g->view,
                       .x = x,
                       .y = y,
                       .scale = g->scale,
                       .ticks = g->group_count == 1,
                       .skip = g->skip};
    if (g->group_count > 1) {
      draw_caption(to, g, &g->groups[i], x, y);
      panel.y += CAPTION;
    }
    svg_draw_panel(to, &panel);
  }
}

/* ---- legend ---- */

static double draw_families(wafer_file *to, const page *g, double y) {
  const svg_font font = {.size = 11, .color = SVG_INK}, faint = {.size = 9, .color = SVG_FAINT};
  enum { steps = 8, width = 96 };
  char text[64];
  svg_text(to, SIDE, y + 11, 0, (svg_font){.size = 12, .color = SVG_INK, .bold = true},
           "kernels, darker with more bytes per core");
  y += 22;
  for (int f = 0; f < WAFER_FAMILY_COUNT; f++) {
    if (!g->family_count[f]) continue;
    for (int s = 0; s < steps; s++) {
      svg_rgb c = svg_family_color((wafer_family)f, (double)s / (steps - 1));
      svg_put(to,
              "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"11\" fill=\"#%02x%02x%02x\"/>",
              SIDE + (double)s * width / steps, y, (double)width / steps + 0.2, c.r, c.g, c.b);
    }
    snprintf(text, sizeof text, "%s, %u", wafer_family_name((wafer_family)f), g->family_count[f]);
    svg_text(to, SIDE + width + 10, y + 9.5, 0, font, text);
    y += 16;
  }
  snprintf(text, sizeof text, "%u B", wafer_machine_core_budget(g->plan->machine));
  svg_text(to, SIDE, y + 7, 0, faint, "0 B");
  svg_text(to, SIDE + width, y + 7, 0, (svg_font){.size = 9, .color = SVG_FAINT, .anchor = 'e'},
           text);
  return y + 22;
}

static double draw_colors(wafer_file *to, const page *g, double y) {
  const svg_font font = {.size = 10, .color = SVG_INK};
  svg_text(to, SIDE, y + 11, 0, (svg_font){.size = 12, .color = SVG_INK, .bold = true},
           "streams by fabric color");
  y += 22;
  svg_put(to, "<path d=\"M%d %.1fh30\" stroke=\"" SVG_INK "\" stroke-width=\"1.6\"/>", SIDE, y + 4);
  svg_text(to, SIDE + 36, y + 8, 0, font, "activations");
  svg_put(to,
          "<path d=\"M%d %.1fh30\" stroke=\"" SVG_INK
          "\" stroke-width=\"0.8\" stroke-dasharray=\"3 2\"/>",
          SIDE + 130, y + 4);
  svg_text(to, SIDE + 166, y + 8, 0, font, "weights");
  y += 18;
  for (uint32_t i = 0; i < g->color_count; i++) {
    char number[16];
    svg_rgb c = svg_stream_color(g->colors[i]);
    double x = SIDE + i % SWATCHES * (SIDE_WIDTH / (double)SWATCHES), at = y + i / SWATCHES * 18;
    snprintf(number, sizeof number, "%u", g->colors[i]);
    svg_put(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"5\" fill=\"#%02x%02x%02x\"/>", x,
            at + 3, c.r, c.g, c.b);
    svg_text(to, x + 18, at + 9, 0, font, number);
  }
  return y + (g->color_count + SWATCHES - 1) / SWATCHES * 18;
}

static void draw_legend(wafer_file *to, const page *g) {
  double y = draw_families(to, g, TOP);
  if (g->color_count) y = draw_colors(to, g, y);
  if (!g->zoomed) return;
  const wafer_machine *m = g->plan->machine;
  char text[128];
  snprintf(text, sizeof text, "shown: %ux%u of %ux%u cores", g->view.width, g->view.height,
           m->width, m->height);
  svg_text(to, SIDE, y + 15, 0, (svg_font){.size = 12, .color = SVG_INK, .bold = true}, text);
  svg_draw_map(to, g->plan, g->view, (svg_box){SIDE, y + 24, SIDE_WIDTH, MAP});
}

/* ---- table ---- */

static void draw_table_head(wafer_file *to, double x, double y, double width) {
  svg_font font = {.size = 9, .color = SVG_FAINT},
           end = {.size = 9, .color = SVG_FAINT, .anchor = 'e'};
  svg_text(to, x + 22, y, 0, end, "#");
  svg_text(to, x + 40, y, 0, font, "kernel");
  svg_text(to, x + width - 98, y, 0, end, "cores");
  svg_text(to, x + width - 54, y, 0, end, "B/core");
  svg_text(to, x + width, y, 0, end, "cycles");
  svg_put(to, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#d0d7de\"/>\n", x, y + 4, width);
}

static void draw_row(wafer_file *to, const page *g, uint32_t index, double x, double y,
                     double width) {
  const wafer_kernel *k = &g->plan->kernels[index];
  svg_font font = {.size = 10, .color = SVG_INK},
           end = {.size = 10, .color = SVG_INK, .anchor = 'e'};
  svg_rgb c = svg_family_color(k->body.family, 0.8);
  char text[64];
  snprintf(text, sizeof text, "%u", index);
  svg_text(to, x + 22, y, 0, end, text);
  svg_put(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"#%02x%02x%02x\"/>",
          x + 27, y - 8, c.r, c.g, c.b);
  svg_text(to, x + 40, y, width - 98 - 60 - 40, font, k->name + g->skip);
  if (k->replicas > 1)
    snprintf(text, sizeof text, "%u*%ux%u", k->replicas, k->rect.width, k->rect.height);
  else
    snprintf(text, sizeof text, "%ux%u", k->rect.width, k->rect.height);
  svg_text(to, x + width - 98, y, 0, end, text);
  snprintf(text, sizeof text, "%llu", (ull)wafer_cost_bytes(&k->cost));
  svg_text(to, x + width - 54, y, 0, end, text);
  snprintf(text, sizeof text, "%llu", (ull)wafer_kernel_cycles(k));
  svg_text(to, x + width, y, 0, end, text);
}

static void draw_table(wafer_file *to, const page *g) {
  uint32_t left = g->rows - g->side_rows, per_column = (left + 2) / 3;
  if (g->side_rows) draw_table_head(to, SIDE, g->legend_end + 14, SIDE_WIDTH);
  for (uint32_t i = 0; i < g->side_rows; i++)
    draw_row(to, g, i, SIDE, g->legend_end + 14 + (i + 1.2) * ROW, SIDE_WIDTH);
  for (uint32_t i = 0; i < left; i++) {
    double x = LEFT - 20 + i / per_column * (double)(COLUMN + 9);
    if (i % per_column == 0) draw_table_head(to, x, g->below, COLUMN);
    draw_row(to, g, g->side_rows + i, x, g->below + (i % per_column + 1.2) * ROW, COLUMN - 4);
  }
  char text[160];
  if (g->rows == g->plan->kernel_count && !g->hidden) return;
  snprintf(text, sizeof text,
           "not drawn: %u phases; not in the table: %u kernels; `wafer dump` lists all", g->hidden,
           g->plan->kernel_count - g->rows);
  svg_text(to, LEFT, g->height - 8, 0, (svg_font){.size = 11, .color = SVG_FAINT}, text);
}

static void draw_page(wafer_file *to, const page *g) {
  svg_put(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d "
          "%.0f\" "
          "font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n",
          PAGE, g->height, PAGE, g->height);
  svg_put(to, "<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n", PAGE, g->height);
  draw_head(to, g);
  draw_panels(to, g);
  draw_legend(to, g);
  draw_table(to, g);
  svg_put(to, "</svg>\n");
}

wafer_status dump_svg(const wafer_diag *diag, const wafer_plan *plan, const char *path) {
  page g = {.plan = plan};
  wafer_file *file;
  if (!group_phases(&g))
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "the host is out of memory");
  lay_out(&g);
  wafer_status status = wafer_file_begin(diag, path, &file);
  if (status == WAFER_OK) {
    draw_page(file, &g);
    status = wafer_file_commit(file);
  }
  free(g.groups);
  return status;
}
