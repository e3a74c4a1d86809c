/* Throughput over systems, as a plot. */
#include <libxml/xmlwriter.h>
#include <math.h>

#include "scale.h"
#include "wafer/file.h"

typedef unsigned long long ull;
enum { LEFT = 90, TOP = 30, WIDE = 550, HIGH = 310, TICK = 5 };

typedef struct plot {
  xmlTextWriterPtr w;
  double most_x, most_y; /* at the ends of the axes */
} plot;

static double at_x(const plot *p, double systems) {
  return LEFT + WIDE * systems / p->most_x;
}
static double at_y(const plot *p, double rate) {
  return TOP + HIGH * (1 - rate / p->most_y);
}

static void attr(plot *p, const char *name, double value) {
  xmlTextWriterWriteFormatAttribute(p->w, BAD_CAST name, "%.1f", value);
}

static void label(plot *p, double x, double y, const char *anchor, const char *text) {
  xmlTextWriterStartElement(p->w, BAD_CAST "text");
  attr(p, "x", x), attr(p, "y", y);
  xmlTextWriterWriteAttribute(p->w, BAD_CAST "text-anchor", BAD_CAST anchor);
  xmlTextWriterWriteString(p->w, BAD_CAST text);
  xmlTextWriterEndElement(p->w);
}

static void segment(plot *p, double x1, double y1, double x2, double y2) {
  xmlTextWriterStartElement(p->w, BAD_CAST "line");
  attr(p, "x1", x1), attr(p, "y1", y1), attr(p, "x2", x2), attr(p, "y2", y2);
  xmlTextWriterWriteAttribute(p->w, BAD_CAST "stroke", BAD_CAST "#444");
  xmlTextWriterEndElement(p->w);
}

/* 1, 2 or 5 times a power of ten, about six of them up to `most`. */
static double tick_of(double most) {
  double raw = most / 6, power = pow(10, floor(log10(raw))), rest = raw / power;
  return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static void axes(plot *p) {
  char text[32];
  double tick = fmax(1, tick_of(p->most_x));
  segment(p, LEFT, TOP, LEFT, TOP + HIGH);
  segment(p, LEFT, TOP + HIGH, LEFT + WIDE, TOP + HIGH);
  for (int i = 0; i * tick <= p->most_x * 1.000001; i++) {
    double x = at_x(p, i * tick);
    segment(p, x, TOP + HIGH, x, TOP + HIGH + TICK);
    snprintf(text, sizeof text, "%g", i * tick);
    label(p, x, TOP + HIGH + 18, "middle", text);
  }
  tick = tick_of(p->most_y);
  for (int i = 0; i * tick <= p->most_y * 1.000001; i++) {
    double y = at_y(p, i * tick);
    segment(p, LEFT - TICK, y, LEFT, y);
    snprintf(text, sizeof text, "%.4g", i * tick);
    label(p, LEFT - 8, y + 4, "end", text);
  }
  label(p, LEFT + WIDE / 2.0, TOP + HIGH + 36, "middle", "systems");
  label(p, LEFT - 8, TOP - 12, "end", "samples/s");
}

/* Of one system on; `slope` above 0: a line of so many samples/s for each system. */
static void curve(plot *p, const char *style, const scale_table *t, double slope) {
  xmlTextWriterStartElement(p->w, BAD_CAST "polyline");
  xmlTextWriterWriteAttribute(p->w, BAD_CAST "style", BAD_CAST style);
  xmlTextWriterStartAttribute(p->w, BAD_CAST "points");
  for (uint32_t i = 0; i < t->count; i++) {
    const scale_row *r = &t->rows[i];
    double rate = slope > 0 ? slope * (double)r->systems : scale_rate(r);
    xmlTextWriterWriteFormatString(p->w, "%.1f,%.1f ", at_x(p, (double)r->systems), at_y(p, rate));
  }
  xmlTextWriterEndAttribute(p->w);
  xmlTextWriterEndElement(p->w);
}

static void draw(plot *p, const scale_table *t) {
  const scale_row *last = &t->rows[t->count - 1];
  double slope = scale_rate(&t->rows[0]) / (double)t->rows[0].systems;
  char text[128];
  p->most_x = (double)last->systems;
  p->most_y = fmax(scale_rate(last), slope * p->most_x);
  axes(p);
  curve(p, "fill:none;stroke:#bbb;stroke-dasharray:4", t, slope);
  curve(p, "fill:none;stroke:#06c;stroke-width:2", t, 0);
  snprintf(text, sizeof text, "%s on %s; dashed: linear; efficiency %.4f at %llu systems",
           t->plan->model, t->plan->machine->name, last->efficiency, (ull)last->systems);
  label(p, LEFT + 10, TOP - 12, "start", text);
}

wafer_status scale_write_svg(const scale_table *t) {
  xmlBufferPtr buffer = xmlBufferCreate();
  plot p = {.w = buffer ? xmlNewTextWriterMemory(buffer, 0) : NULL};
  if (!p.w) return xmlBufferFree(buffer), cli_no_memory();
  xmlTextWriterStartDocument(p.w, NULL, "UTF-8", NULL);
  xmlTextWriterStartElement(p.w, BAD_CAST "svg");
  xmlTextWriterWriteAttribute(p.w, BAD_CAST "xmlns", BAD_CAST "http://www.w3.org/2000/svg");
  xmlTextWriterWriteAttribute(p.w, BAD_CAST "viewBox", BAD_CAST "0 0 680 400");
  xmlTextWriterWriteAttribute(p.w, BAD_CAST "font-family", BAD_CAST "sans-serif");
  xmlTextWriterWriteAttribute(p.w, BAD_CAST "font-size", BAD_CAST "12");
  draw(&p, t);
  xmlTextWriterEndDocument(p.w);
  xmlFreeTextWriter(p.w);
  wafer_status status = wafer_file_save(cli_diag(), t->a->svg, xmlBufferContent(buffer),
                                        (size_t)xmlBufferLength(buffer));
  xmlBufferFree(buffer);
  return status;
}
