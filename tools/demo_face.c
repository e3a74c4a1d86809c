/* Prints the best face of BlazeFace front's four outputs in a folder: what tools/demo ends with.
 * Anchors: 2 per cell of a 16x16 grid, then 6 per cell of an 8x8 grid, at cell centres; boxes are
 * offsets in pixels of the 128x128 image (Bazarevsky et al., "BlazeFace", 2019, section 3). */
#include <math.h>
#include <stdio.h>

#include "cli.h"

enum { PIXELS = 128, VALUES = 16 };

static const struct grid {
  const char *scores, *boxes;
  int cells, anchors;
} grids[] = {{"Identity_0", "Identity_2_0", 16, 2}, {"Identity_1_0", "Identity_3_0", 8, 6}};

static wafer_status read_floats(wafer_arena *arena, const char *folder, const char *name,
                                int64_t count, const float **out) {
  char path[4096];
  wafer_view view;
  for (int form = 0; form < 2; form++) {
    snprintf(path, sizeof path, form ? "%s/out_%s.npy" : "%s/%s.npy", folder, name);
    FILE *there = fopen(path, "rb");
    if (!there && !form) continue;
    if (there) fclose(there);
    break;
  }
  WAFER_TRY(wafer_npy_read(cli_diag(), arena, path, &view));
  int64_t elements;
  if (view.dtype != WAFER_DTYPE_f32 || !wafer_shape_elements(&view.shape, &elements) ||
      elements != count)
    return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_BAD_INPUT, "wants %lld f32 values",
                      (long long)count);
  *out = view.data;
  return WAFER_OK;
}

static wafer_status print_best(wafer_arena *arena, const char *folder, const char *title) {
  double best = -INFINITY, box[4] = {0};
  for (size_t g = 0; g < WAFER_COUNT(grids); g++) {
    const struct grid *grid = &grids[g];
    int count = grid->cells * grid->cells * grid->anchors;
    const float *scores, *boxes;
    WAFER_TRY(read_floats(arena, folder, grid->scores, count, &scores));
    WAFER_TRY(read_floats(arena, folder, grid->boxes, (int64_t)count * VALUES, &boxes));
    for (int i = 0; i < count; i++) {
      if (!(scores[i] > best)) continue;
      int cell = i / grid->anchors;
      best = scores[i];
      box[0] = (cell % grid->cells + 0.5) / grid->cells + boxes[i * VALUES] / PIXELS;
      box[1] = (cell / grid->cells + 0.5) / grid->cells + boxes[i * VALUES + 1] / PIXELS;
      box[2] = boxes[i * VALUES + 2] / PIXELS;
      box[3] = boxes[i * VALUES + 3] / PIXELS;
    }
  }
  printf("%-10s face at x %.4f y %.4f, %.4f x %.4f of the image, score %.5f\n", title, box[0],
         box[1], box[2], box[3], 1 / (1 + exp(-best)));
  return WAFER_OK;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fputs("usage: wafer-demo-face FOLDER TITLE\n", stderr);
    return WAFER_USAGE;
  }
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  wafer_status status = print_best(arena, argv[1], argv[2]);
  wafer_arena_destroy(arena);
  return status;
}
