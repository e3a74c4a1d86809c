/* Random graphs, a few hundred in CI, thousands on demand.
 *
 *   graphs [COUNT [FIRST [T]]]   checks COUNT (200) graphs from seed FIRST (1) on, and prints the
 *                                smallest failing form of each that fails; T: difference (1e-5)
 *   graphs show SEED             prints a graph
 *   graphs save DIR COUNT FIRST  writes them as tests for `wafer conform`: models and inputs */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/protobuf.h"

static uint64_t number(int argc, char **argv, int index, uint64_t absent) {
  return index < argc ? strtoull(argv[index], NULL, 10) : absent;
}

static bool check_one(uint64_t seed, double tolerance, const char *folder) {
  graph *g = calloc(1, sizeof *g);
  char why[1024] = "";
  if (!g) abort();
  graph_make(g, seed);
  g->tolerance = tolerance;
  bool holds = graph_holds(g, folder, why, sizeof why);
  if (!holds) {
    printf("FAILED: seed %llu, %u nodes: %s\n", (unsigned long long)seed, graph_look(g).node_count,
           why);
    graph_reduce(g, folder, why, sizeof why);
    printf("reduced to %u nodes: %s\n", graph_look(g).node_count, why);
    graph_print(g, false, stdout);
    fflush(stdout);
  }
  free(g);
  return holds;
}

static int check_all(uint64_t count, uint64_t first, double tolerance) {
  const char *base = getenv("TMPDIR");
  char folder[512], path[600];
  uint64_t failed = 0;
  snprintf(folder, sizeof folder, "%s/wafer-graphs-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(folder)) return perror(folder), 1;
  for (uint64_t seed = first; seed < first + count; seed++)
    failed += !check_one(seed, tolerance, folder);
  snprintf(path, sizeof path, "%s/graph.onnx", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/graph.wplan", folder);
  unlink(path);
  rmdir(folder);
  printf("%llu graphs, %llu failed\n", (unsigned long long)count, (unsigned long long)failed);
  return failed != 0;
}

static bool save_input(const graph *g, uint32_t value, const char *path) {
  static const int codes[WAFER_DTYPE_COUNT] = {[WAFER_DTYPE_f32] = 1,
                                               [WAFER_DTYPE_i32] = 6,
                                               [WAFER_DTYPE_i64] = 7,
                                               [WAFER_DTYPE_bool] = 9,
                                               [WAFER_DTYPE_f64] = 11};
  wafer_arena *arena = wafer_arena_create();
  protobuf *tensor = calloc(1, sizeof *tensor);
  if (!arena || !tensor) abort();
  wafer_view view = graph_data(g, value, arena);
  for (uint32_t d = 0; d < view.shape.rank; d++) pb_int(tensor, 1, view.shape.dims[d]);
  pb_int(tensor, 2, codes[view.dtype]);
  pb_data(tensor, 9, view.data, wafer_tensor_bytes(view.dtype, &view.shape));
  FILE *file = fopen(path, "w");
  bool fine = file && fwrite(tensor->bytes, 1, tensor->count, file) == tensor->count;
  fine = file && fclose(file) == 0 && fine;
  free(tensor);
  wafer_arena_destroy(arena);
  return fine;
}

/* DIR/SEED/model.onnx and DIR/SEED/test_data_set_0/input_N.pb. */
static bool save_one(const char *folder, uint64_t seed) {
  graph *g = calloc(1, sizeof *g);
  char path[4096];
  if (!g) abort();
  graph_make(g, seed);
  graph_view view = graph_look(g);
  snprintf(path, sizeof path, "%s/%llu", folder, (unsigned long long)seed);
  mkdir(path, 0777);
  strcat(path, "/test_data_set_0");
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%llu/model.onnx", folder, (unsigned long long)seed);
  bool fine = graph_save(g, false, path);
  for (uint32_t v = 0, input = 0; v < g->value_count && fine; v++) {
    if (!view.inputs[v]) continue;
    snprintf(path, sizeof path, "%s/%llu/test_data_set_0/input_%u.pb", folder,
             (unsigned long long)seed, input++);
    fine = save_input(g, v, path);
  }
  if (!fine) perror(path);
  free(g);
  return fine;
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "show")) {
    graph *g = calloc(1, sizeof *g);
    if (!g) abort();
    graph_make(g, number(argc, argv, 2, 1));
    graph_print(g, false, stdout);
    free(g);
    return 0;
  }
  if (argc > 3 && !strcmp(argv[1], "save")) {
    uint64_t count = number(argc, argv, 3, 1), first = number(argc, argv, 4, 1);
    for (uint64_t seed = first; seed < first + count; seed++)
      if (!save_one(argv[2], seed)) return 1;
    return 0;
  }
  return check_all(number(argc, argv, 1, 200), number(argc, argv, 2, 1),
                   argc > 3 ? strtod(argv[3], NULL) : 1e-5);
}
