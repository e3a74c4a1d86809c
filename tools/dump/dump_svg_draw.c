/* Primitives of the picture. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "dump_svg.h"

void svg_put(wafer_file *to, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  int count = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (count > 0)
    (void)wafer_file_write(to, text, (size_t)count < sizeof text ? (size_t)count : sizeof text - 1);
}

/* ---- text ---- */

/* Bytes of the UTF-8 character at `s`; bytes that are none count as one. */
static size_t character(const char *s) {
  unsigned char c = (unsigned char)*s;
  size_t count = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
  for (size_t i = 1; i < count; i++)
    if (((unsigned char)s[i] & 0xc0) != 0x80) return 1;
  return count;
}

double svg_text_width(const char *text, double size) {
  size_t count = 0;
  for (const char *s = text; *s; s += character(s)) count++;
  return 0.62 * size * (double)count;
}

static void put_character(wafer_file *to, const char *s, size_t bytes) {
  bool control = bytes == 1 && ((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f);
  switch (*s) {
  case '<': svg_put(to, "&lt;"); break;
  case '>': svg_put(to, "&gt;"); break;
  case '&': svg_put(to, "&amp;"); break;
  case '"': svg_put(to, "&quot;"); break;
  default: svg_put(to, "%.*s", control ? 1 : (int)bytes, control ? "?" : s);
  }
}

/* At most `most` characters: the first `keep`, "..", the last ones. */
static void put_escaped(wafer_file *to, const char *text, size_t most, size_t keep) {
  size_t count = 0, at = 0;
  for (const char *s = text; *s; s += character(s)) count++;
  size_t tail =
      count > most ? count - most + keep + 2 : 0; /* where it starts, when there is a cut */
  for (const char *s = text; *s; s += character(s), at++) {
    if (tail && at == keep) svg_put(to, "..");
    if (at < keep || at >= tail) put_character(to, s, character(s));
  }
}

void svg_text(wafer_file *to, double x, double y, double most, svg_font font, const char *text) {
  size_t characters = most > 0 ? (size_t)(most / (0.62 * font.size)) : SIZE_MAX;
  if (characters < font.keep + 3) characters = font.keep + 3;
  svg_put(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.3g\" fill=\"%s\"", x, y, font.size,
          font.color);
  if (font.anchor == 'm') svg_put(to, " text-anchor=\"middle\"");
  if (font.anchor == 'e') svg_put(to, " text-anchor=\"end\"");
  if (font.halo)
    svg_put(to, " paint-order=\"stroke\" stroke=\"#%02x%02x%02x\" stroke-width=\"3\"", font.halo->r,
            font.halo->g, font.halo->b);
  if (font.bold) svg_put(to, " font-weight=\"bold\"");
  if (font.upright) svg_put(to, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
  svg_put(to, ">");
  put_escaped(to, text, characters, font.keep);
  svg_put(to, "</text>\n");
}

/* ---- colors ---- */

static svg_rgb mix(svg_rgb a, svg_rgb b, double part) {
  return (svg_rgb){(uint8_t)lround(a.r + (b.r - a.r) * part),
                   (uint8_t)lround(a.g + (b.g - a.g) * part),
                   (uint8_t)lround(a.b + (b.b - a.b) * part)};
}

svg_rgb svg_family_color(wafer_family family, double load) {
  static const svg_rgb full[WAFER_FAMILY_COUNT] = {
      [WAFER_FAMILY_map] = {58, 145, 74},     [WAFER_FAMILY_move] = {125, 120, 116},
      [WAFER_FAMILY_reduce] = {142, 88, 160}, [WAFER_FAMILY_softmax] = {214, 84, 136},
      [WAFER_FAMILY_normalize] = {176, 132, 206},
      [WAFER_FAMILY_sort] = {96, 110, 20},    [WAFER_FAMILY_gemm] = {48, 104, 176},
      [WAFER_FAMILY_conv] = {222, 118, 20},   [WAFER_FAMILY_conv_transpose] = {196, 52, 52},
      [WAFER_FAMILY_pool] = {30, 142, 148},   [WAFER_FAMILY_resize] = {60, 60, 140},
      [WAFER_FAMILY_gather] = {150, 110, 70}, [WAFER_FAMILY_scatter] = {110, 70, 40},
  };
  double part = load < 0 ? 0 : load > 1 ? 1 : load;
  return mix((svg_rgb){255, 255, 255}, full[family], 0.18 + 0.82 * part);
}

/* Hues a golden angle apart, so that neighbours in number differ. */
svg_rgb svg_stream_color(uint32_t color) {
  double hue = fmod(210 + 137.508 * color, 360) / 60, light = color % 2 ? 0.36 : 0.48;
  double chroma = 0.75 * (1 - fabs(2 * light - 1)), second = chroma * (1 - fabs(fmod(hue, 2) - 1));
  double base = light - chroma / 2, rgb[3] = {base, base, base};
  static const int major[] = {0, 1, 1, 2, 2, 0}, minor[] = {1, 0, 2, 1, 0, 2};
  rgb[major[(int)hue % 6]] += chroma;
  rgb[minor[(int)hue % 6]] += second;
  return (svg_rgb){(uint8_t)lround(255 * rgb[0]), (uint8_t)lround(255 * rgb[1]),
                   (uint8_t)lround(255 * rgb[2])};
}

bool svg_is_dark(svg_rgb c) {
  return 0.299 * c.r + 0.587 * c.g + 0.114 * c.b < 140;
}
svg_rgb svg_darker(svg_rgb c) {
  return mix(c, (svg_rgb){0, 0, 0}, 0.35);
}
