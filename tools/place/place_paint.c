/* Writes a solution as the contest wants it, and as a picture. */
#include <stdio.h>
#include <stdlib.h>

#include "place.h"
#include "wafer/file.h"

typedef unsigned long long ull;

static void put_kernel(FILE *f, const contest_kernel *k, const contest_split *s) {
  static const char *const names[] = {"conv", "dblock", "cblock"};
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(k, convs);
  fprintf(f, "%s = %s(", k->name, names[k->type]);
  if (k->type == KERNEL_CONV)
    fprintf(f, " %llu %llu %llu %llu %llu %llu %llu %llu", (ull)k->H, (ull)k->W, (ull)k->C,
            (ull)k->K, (ull)k->R, (ull)k->S, (ull)k->T, (ull)k->U);
  else
    fprintf(f, " %llu %llu %llu", (ull)k->H, (ull)k->W, (ull)k->F);
  fprintf(f, " %u %u", s->h, s->w);
  for (uint32_t i = 0; i < n; i++) fprintf(f, " %u", s->c[i]);
  for (uint32_t i = 0; i < n; i++) fprintf(f, " %u", s->k[i]);
  fputs(" )\n", f);
}

static wafer_status save(const wafer_diag *diag, const char *path, FILE *f, char **text,
                         size_t *bytes) {
  bool ok = !ferror(f);
  ok = fclose(f) == 0 && ok;
  wafer_status status = ok ? wafer_file_save(diag, path, *text, *bytes)
                           : wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY,
                                        "no memory to write the solution");
  free(*text);
  return status;
}

wafer_status contest_write(const wafer_diag *diag, const char *path, const contest *c,
                           const contest_split *splits, const wafer_placed *at) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to write");
  for (uint32_t i = 0; i < c->count; i++) put_kernel(f, &c->kernels[i], &splits[i]);
  for (uint32_t i = 0; i < c->count; i++)
    fprintf(f, "%s : place( %u %u R%d )\n", c->kernels[i].name, at[i].x, at[i].y,
            at[i].turned ? 90 : 0);
  fputs("kmap = union(", f);
  for (uint32_t i = 0; i < c->count; i++) fprintf(f, " %s", c->kernels[i].name);
  fputs(" )\n", f);
  return save(diag, path, f, &text, &bytes);
}

static double middle(uint32_t low, uint32_t size) {
  return low + size / 2.0;
}

wafer_status contest_svg(const wafer_diag *diag, const char *path, const contest *c,
                         const wafer_placed *at) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to draw");
  fprintf(f,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" "
          "font-family=\"sans-serif\" text-anchor=\"middle\">\n"
          "<rect width=\"%u\" height=\"%u\" fill=\"#eee\" stroke=\"#333\"/>\n",
          c->width, c->height, c->width, c->height);
  for (uint32_t i = 0; i < c->count; i++) {
    const wafer_placed *p = &at[i];
    double y = (double)c->height - p->y - p->height,
           shorter = p->width < p->height ? p->width : p->height;
    fprintf(f,
            "<rect x=\"%u\" y=\"%g\" width=\"%u\" height=\"%u\" fill=\"hsl(%u 60%% 75%%)\" "
            "stroke=\"#333\" stroke-width=\"0.5\"><title>%s %u x %u</title></rect>\n",
            p->x, y, p->width, p->height, i * 300 / c->count, c->kernels[i].name, p->width,
            p->height);
    fprintf(f, "<text x=\"%g\" y=\"%g\" font-size=\"%g\">%s</text>\n", middle(p->x, p->width),
            y + p->height / 2.0, shorter / 4 < 14 ? shorter / 4 : 14, c->kernels[i].name);
  }
  for (uint32_t e = 0; e < c->edge_count; e++) {
    const wafer_placed *a = &at[c->edges[e].from], *b = &at[c->edges[e].to];
    fprintf(f,
            "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#b00\" "
            "stroke-opacity=\"0.6\"/>\n",
            middle(a->x, a->width), c->height - middle(a->y, a->height), middle(b->x, b->width),
            c->height - middle(b->y, b->height));
  }
  fputs("</svg>\n", f);
  return save(diag, path, f, &text, &bytes);
}
