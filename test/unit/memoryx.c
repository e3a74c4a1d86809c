#include "wafer/memoryx.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caught.h"
#include "scratch.h"

enum { COUNT = 5, UPDATES = 4 };

/* Sizes around the pieces of threads, an empty one, a scalar, two that are not f32. */
static const wafer_parameter parameters[COUNT] = {
    {.name = "large", .dtype = WAFER_DTYPE_f32, .shape = {2, {300, 501}}},
    {.name = "empty", .dtype = WAFER_DTYPE_f32, .shape = {1, {0}}},
    {.name = "half", .dtype = WAFER_DTYPE_f16, .shape = {3, {2, 5, 7}}},
    {.name = "scalar", .dtype = WAFER_DTYPE_f32, .shape = {0, {0}}},
    {.name = "brain", .dtype = WAFER_DTYPE_bf16, .shape = {1, {65536}}},
};

static void make_initial(float *large, float *scalar, wafer_parameter *out) {
  memcpy(out, parameters, sizeof parameters);
  for (int i = 0; i < 300 * 501; i++) large[i] = (float)(i % 977) / 977 - 0.5f;
  *scalar = 3;
  out[0].initial = large;
  out[3].initial = scalar;
}

static wafer_memoryx *make(wafer_optimizer_kind kind, uint32_t servers, uint32_t threads,
                           const char *store) {
  static float large[300 * 501], scalar;
  wafer_parameter made[COUNT];
  make_initial(large, &scalar, made);
  wafer_memoryx_options options = {.optimizer = wafer_optimizer_default(kind),
                                   .servers = servers,
                                   .threads = threads,
                                   .store = store};
  wafer_memoryx *m;
  CU_ASSERT_EQUAL_FATAL(wafer_memoryx_create(&options, made, COUNT, &m), WAFER_OK);
  return m;
}

static double squares_of(wafer_memoryx *m, const float *g) {
  double each[COUNT], sum = 0;
  wafer_memoryx_squares(m, g, each);
  for (int i = 0; i < COUNT; i++) sum += each[i];
  return sum;
}

/* A few updates; the squares of the last gradients. */
static double train(wafer_memoryx *m) {
  uint64_t n = wafer_memoryx_offset(m, COUNT);
  float *g = malloc(n * sizeof *g);
  double squares = 0;
  for (uint64_t t = 1; t <= UPDATES; t++) {
    for (uint64_t i = 0; i < n; i++) g[i] = (float)((i * 7919 + t * 104729) % 1009) / 1009 - 0.4f;
    squares = squares_of(m, g);
    wafer_memoryx_update(m, &(wafer_update){.number = t, .lr = 0.01, .scale = 0.5}, g);
  }
  free(g);
  return squares;
}

static size_t bytes_of(uint32_t i) {
  return wafer_tensor_bytes(parameters[i].dtype, &parameters[i].shape);
}

static bool equal(const wafer_memoryx *a, const wafer_memoryx *b) {
  bool same = wafer_memoryx_state_count(a) == wafer_memoryx_state_count(b);
  for (uint32_t i = 0; i < COUNT; i++)
    same &= !memcmp(wafer_memoryx_weight(a, i), wafer_memoryx_weight(b, i), bytes_of(i));
  for (uint32_t i = 0; same && i < wafer_memoryx_state_count(a); i++) {
    wafer_memoryx_state s = wafer_memoryx_state_at(a, i), t = wafer_memoryx_state_at(b, i);
    same &= s.parameter == t.parameter && !strcmp(s.suffix, t.suffix) &&
            wafer_shape_equal(&s.shape, &t.shape) &&
            !memcmp(s.data, t.data, wafer_tensor_bytes(WAFER_DTYPE_f32, &s.shape));
  }
  return same;
}

/* The two largest parameters, and three servers that all have some. */
static void servers_share_parameters_out(void) {
  for (int kind = 0; kind < WAFER_OPTIMIZER_COUNT; kind++) {
    const wafer_memoryx_options options = {
        .optimizer = wafer_optimizer_default((wafer_optimizer_kind)kind), .servers = 3};
    uint32_t server[COUNT], used = 0;
    CU_ASSERT_EQUAL_FATAL(wafer_memoryx_assign(&options, parameters, COUNT, server), WAFER_OK);
    for (int i = 0; i < COUNT; i++) used |= 1u << server[i];
    CU_ASSERT_NOT_EQUAL(server[0], server[4]);
    CU_ASSERT_EQUAL(used, 7);
  }
}

static void servers_threads_and_files_change_nothing(void) {
  scratch in = scratch_create();
  for (int kind = 0; kind < WAFER_OPTIMIZER_COUNT; kind++) {
    wafer_memoryx *one = make((wafer_optimizer_kind)kind, 1, 1, NULL);
    wafer_memoryx *three = make((wafer_optimizer_kind)kind, 3, 2, in.folder);
    double squares = train(one);
    CU_ASSERT_EQUAL(squares, train(three));
    CU_ASSERT(equal(one, three));
    wafer_memoryx_destroy(one);
    wafer_memoryx_destroy(three);
  }
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 0); /* its files have no names */
  scratch_remove(&in);
}

static void the_norm_is_that_of_all_gradients(void) {
  wafer_memoryx *m = make(WAFER_OPTIMIZER_sgd, 2, 2, NULL);
  uint64_t n = wafer_memoryx_offset(m, COUNT);
  float *g = malloc(n * sizeof *g);
  double want = 0;
  for (uint64_t i = 0; i < n; i++) g[i] = (float)(i % 13) - 6, want += (double)g[i] * g[i];
  CU_ASSERT_EQUAL(n, 300 * 501 + 70 + 1 + 65536);
  CU_ASSERT_DOUBLE_EQUAL(squares_of(m, g), want, 1e-9 * want);
  g[n - 1] = INFINITY;
  CU_ASSERT(!isfinite(squares_of(m, g)));
  g[n - 1] = NAN;
  CU_ASSERT(!isfinite(squares_of(m, g)));
  free(g);
  wafer_memoryx_destroy(m);
}

/* Narrow weights follow a master, whose small steps do not vanish in rounding. */
static void narrow_weights_have_a_master(void) {
  wafer_memoryx *m = make(WAFER_OPTIMIZER_sgd, 1, 1, NULL);
  uint64_t n = wafer_memoryx_offset(m, COUNT);
  float *g = calloc(n, sizeof *g);
  uint16_t one[70];
  for (int i = 0; i < 70; i++) one[i] = 0x3c00;
  wafer_memoryx_set(m, 2, one);
  for (uint64_t i = 0; i < 70; i++) g[wafer_memoryx_offset(m, 2) + i] = 1;
  for (uint64_t t = 1; t <= 8; t++)
    wafer_memoryx_update(m, &(wafer_update){.number = t, .lr = 0x1p-13, .scale = 1}, g);
  const uint16_t *half = wafer_memoryx_weight(m, 2);
  CU_ASSERT_EQUAL(half[69], 0x3bfe); /* 1 - 2^-10 */
  CU_ASSERT_EQUAL(wafer_memoryx_state_count(m), 2);
  CU_ASSERT_STRING_EQUAL(wafer_memoryx_state_at(m, 1).suffix, "master");
  CU_ASSERT_EQUAL(wafer_memoryx_state_at(m, 1).parameter, 4);
  free(g);
  wafer_memoryx_destroy(m);
}

static void other_types_are_refused(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_parameter p = {.name = "ids", .dtype = WAFER_DTYPE_i64, .shape = {1, {4}}};
  wafer_memoryx_options options = {.diag = &diag};
  wafer_memoryx *m;
  CU_ASSERT_EQUAL(wafer_memoryx_create(&options, &p, 1, &m), WAFER_UNSUPPORTED);
  CU_ASSERT_STRING_EQUAL(
      last.text, "weight 'ids' of type i64 cannot be trained, f32, f16 and bf16 can; freeze it");
  options.store = "/dev/null/store";
  p.dtype = WAFER_DTYPE_f32;
  CU_ASSERT_EQUAL(wafer_memoryx_create(&options, &p, 1, &m), WAFER_IO);
  CU_ASSERT_STRING_EQUAL(last.place, "/dev/null/store");
}

/* In a process that may have 8 MB more: state of 3 x 24 MB does not fit in memory, in files it
 * does.
 */
static int train_large(const char *store) {
  wafer_parameter p = {.name = "w", .dtype = WAFER_DTYPE_f32, .shape = {2, {1536, 4096}}};
  wafer_memoryx_options options = {
      .optimizer = wafer_optimizer_default(WAFER_OPTIMIZER_adam), .threads = 1, .store = store};
  FILE *status = fopen("/proc/self/statm", "r");
  unsigned long pages[6] = {0};
  for (int i = 0; i < 6; i++)
    if (fscanf(status, "%lu", &pages[i]) != 1) return 100;
  fclose(status);
  rlim_t limit = pages[5] * (rlim_t)sysconf(_SC_PAGESIZE) + (8 << 20);
  float *gradients = calloc((size_t)1536 * 4096, sizeof *gradients);
  wafer_memoryx *m;
  if (!gradients || setrlimit(RLIMIT_DATA, &(struct rlimit){limit, limit})) return 101;
  wafer_status made = wafer_memoryx_create(&options, &p, 1, &m);
  if (made != WAFER_OK) return (int)made;
  gradients[77] = 1;
  wafer_memoryx_update(m, &(wafer_update){.number = 1, .lr = 0.5, .scale = 1}, gradients);
  const float *w = wafer_memoryx_weight(m, 0);
  return fabsf(w[77] + 0.5f) < 1e-5f && w[78] == 0 ? 0 : 102;
}

static int in_a_child(const char *store) {
  fflush(NULL);
  pid_t child = fork();
  int status = 0;
  if (child == 0) _exit(train_large(store));
  CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void state_larger_than_memory_lies_in_files(void) {
#ifndef __SANITIZE_ADDRESS__ /* whose own memory counts */
  scratch in = scratch_create();
  CU_ASSERT_EQUAL(in_a_child(NULL), WAFER_NO_MEMORY);
  CU_ASSERT_EQUAL(in_a_child(in.folder), WAFER_OK);
  scratch_remove(&in);
#else
  (void)in_a_child;
#endif
}

CU_TestInfo tests_memoryx[] = {
    {"servers share parameters out", servers_share_parameters_out},
    {"servers, threads and files change nothing", servers_threads_and_files_change_nothing},
    {"the norm is that of all gradients", the_norm_is_that_of_all_gradients},
    {"narrow weights have a master", narrow_weights_have_a_master},
    {"other types are refused", other_types_are_refused},
    {"state larger than memory lies in files", state_larger_than_memory_lies_in_files},
    CU_TEST_INFO_NULL,
};
