/* ImageDecoder, by ImageMagick: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP. */
#include <magick/MagickCore.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* Formats that only draw pixels; others of the library read files, fetch or run programs. */
static bool is_image(const unsigned char *b, size_t n) {
  static const struct {
    const char *bytes;
    size_t count;
  } magic[] = {{"BM", 2},    {"\xff\xd8\xff", 3}, {"\x89PNG\r\n", 6},      {"II*\0", 4},
               {"MM\0*", 4}, {"RIFF", 4},         {"\xff\x4f\xff\x51", 4}, {"\0\0\0\x0cjP", 6}};
  if (n > 2 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6') return true;
  for (size_t i = 0; i < WAFER_COUNT(magic); i++)
    if (n >= magic[i].count && !memcmp(b, magic[i].bytes, magic[i].count)) return true;
  return false;
}

static void start(void) {
  MagickCoreGenesis(NULL, MagickFalse); /* signals stay the program's */
  SetMagickResourceLimit(WidthResource, 1 << 16);
  SetMagickResourceLimit(HeightResource, 1 << 16);
  SetMagickResourceLimit(MemoryResource, (MagickSizeType)1 << 31);
  SetMagickResourceLimit(MapResource, 0);
  SetMagickResourceLimit(DiskResource, 0);
}

/* The brightness of ITU-R 601 in 16 bits of fraction, as most decoders have it. */
static void to_gray(const unsigned char *rgb, size_t pixels, unsigned char *gray) {
  for (size_t i = 0; i < pixels; i++, rgb += 3)
    gray[i] = (unsigned char)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

static wafer_status give_pixels(host_site *site, const Image *image, ExceptionInfo *exception,
                                const char *format) {
  bool gray = !strcmp(format, "Grayscale");
  size_t pixels = (size_t)image->columns * image->rows;
  wafer_shape shape = {.rank = 3,
                       .dims = {(int64_t)image->rows, (int64_t)image->columns, gray ? 1 : 3}};
  wafer_view *y;
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_u8, &shape, &y));
  unsigned char *rgb = gray ? malloc(3 * pixels + 1) : y->data;
  if (!rgb) return host_no_memory(site);
  bool done = ExportImagePixels(image, 0, 0, image->columns, image->rows,
                                strcmp(format, "BGR") ? "RGB" : "BGR", CharPixel, rgb, exception);
  if (gray && done) to_gray(rgb, pixels, y->data);
  if (gray) free(rgb);
  return done ? WAFER_OK : host_fail(site, "the image's pixels cannot be read");
}

wafer_status host_image_decoder(host_site *site) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const wafer_view *x;
  const char *format = host_text(site, "pixel_format", "RGB");
  WAFER_TRY(host_typed(site, 0, WAFER_DTYPE_u8, &x));
  if (strcmp(format, "RGB") && strcmp(format, "BGR") && strcmp(format, "Grayscale"))
    return host_fail(site, "pixel_format is '%.20s', must be RGB, BGR or Grayscale", format);
  size_t bytes = (size_t)host_elements(x);
  if (!is_image(x->data, bytes))
    return host_fail(site, "%zu bytes that are no BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP",
                     bytes);
  pthread_once(&once, start);
  ExceptionInfo *exception = AcquireExceptionInfo();
  ImageInfo *info = CloneImageInfo(NULL);
  Image *image = info ? BlobToImage(info, x->data, bytes, exception) : NULL;
  wafer_status status = image ? give_pixels(site, image, exception, format)
                              : host_fail(site, "the image cannot be decoded: %s",
                                          exception->reason ? exception->reason : "out of memory");
  if (image) DestroyImageList(image);
  if (info) DestroyImageInfo(info);
  DestroyExceptionInfo(exception);
  return status;
}
