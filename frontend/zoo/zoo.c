/* The zoo: named architectures, and what each is built with. */
#include "zoo.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "wafer/onnx.h"

/* ---- Names ---- */

static const wafer_zoo_model models[] = {
#define TIED WAFER_ZOO_TIED
#define PARALLEL WAFER_ZOO_PARALLEL
#define ONE_NORM WAFER_ZOO_ONE_NORM
#define INTERLEAVED WAFER_ZOO_INTERLEAVED
#define ATTENTION_BIAS WAFER_ZOO_ATTENTION_BIAS
#define MLP_BIAS WAFER_ZOO_MLP_BIAS
#define HEAD_BIAS WAFER_ZOO_HEAD_BIAS
#define GPT(name_, layers_, d_, heads_, ff_, vocabulary_, sequence_, rotary_, position_, norm_,    \
            activation_, flags_, summary_)                                                         \
  {.name = name_,                                                                                  \
   .summary = summary_,                                                                            \
   .kind = WAFER_ZOO_gpt,                                                                          \
   .layers = layers_,                                                                              \
   .d_model = d_,                                                                                  \
   .heads = heads_,                                                                                \
   .d_ff = ff_,                                                                                    \
   .vocabulary = vocabulary_,                                                                      \
   .sequence = sequence_,                                                                          \
   .positions = sequence_,                                                                         \
   .rotary = rotary_,                                                                              \
   .parts = 1,                                                                                     \
   .position = WAFER_ZOO_##position_,                                                              \
   .norm = WAFER_ZOO_##norm_,                                                                      \
   .activation = WAFER_ZOO_##activation_,                                                          \
   .flags = flags_},
#define BERT(name_, layers_, d_, heads_, ff_, vocabulary_, sequence_, summary_)                    \
  {.name = name_,                                                                                  \
   .summary = summary_,                                                                            \
   .kind = WAFER_ZOO_bert,                                                                         \
   .layers = layers_,                                                                              \
   .d_model = d_,                                                                                  \
   .heads = heads_,                                                                                \
   .d_ff = ff_,                                                                                    \
   .vocabulary = vocabulary_,                                                                      \
   .sequence = sequence_,                                                                          \
   .positions = sequence_,                                                                         \
   .parts = 1,                                                                                     \
   .activation = WAFER_ZOO_gelu,                                                                   \
   .flags = ATTENTION_BIAS | MLP_BIAS},
#include "wafer/zoo.def"
};

bool wafer_zoo_at(size_t index, wafer_zoo_model *out) {
  if (index >= WAFER_COUNT(models)) return false;
  *out = models[index];
  return true;
}

bool wafer_zoo_find(const char *name, wafer_zoo_model *out) {
  for (size_t i = 0; i < WAFER_COUNT(models); i++)
    if (!strcmp(models[i].name, name)) return *out = models[i], true;
  return false;
}

/* ---- Parts ---- */

const char *zoo_name(zoo *z, const char *format, ...) {
  char text[160];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  const char *name = wafer_arena_strdup(z->arena, text);
  z->failed |= !name;
  return name ? name : "";
}

const char *zoo_weight(zoo *z, const char *name, double mean, double deviation, uint32_t rank,
                       const int64_t *dims) {
  wafer_onnx_weight w = {.name = name, .dtype = WAFER_DTYPE_f32, .shape.rank = rank};
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; i++) {
    w.shape.dims[i] = dims[i];
    elements *= (uint64_t)dims[i];
  }
  if (z->options->init) {
    w.fill = zoo_fill;
    w.self = zoo_draw_of(z, name, mean, deviation);
  } else {
    w.location = zoo_name(z, "%s.weights", z->spec->name);
    w.offset = 4 * z->parameters;
  }
  z->parameters += elements;
  wafer_onnx_weight_add(z->model, &w);
  return name;
}

const char *zoo_vector(zoo *z, const char *name, double value, int64_t size) {
  return zoo_weight(z, name, value, 0, 1, &size);
}

const char *zoo_matrix(zoo *z, const char *name, double deviation, int64_t rows, int64_t columns) {
  return zoo_weight(z, name, 0, deviation, 2, (int64_t[]){rows, columns});
}

const char *zoo_ints(zoo *z, const char *name, size_t count, const int64_t *values) {
  wafer_onnx_node_add(z->model, "Constant", name, (const char *const[]){NULL},
                      (const char *const[]){name, NULL});
  wafer_onnx_attr_ints(z->model, "value_ints", values, count);
  return name;
}

const char *zoo_op(zoo *z, const char *type, const char *name, const char *const *inputs) {
  wafer_onnx_node_add(z->model, type, name, inputs, (const char *const[]){name, NULL});
  return name;
}

wafer_onnx_dim zoo_batch(const zoo *z) {
  return (wafer_onnx_dim){z->spec->batch, z->spec->batch ? NULL : "batch"};
}

/* ---- Checks ---- */

static wafer_status __attribute__((format(printf, 3, 4)))
refuse(const wafer_diag *diag, const wafer_zoo_model *m, const char *format, ...) {
  char what[160];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return wafer_fail(diag, (wafer_loc){0}, WAFER_USAGE, "%s: %s", m->name, what);
}

static wafer_status check_transformer(const wafer_diag *diag, const wafer_zoo_model *m) {
  if (m->layers < 1 || m->d_model < 1 || m->heads < 1 || m->d_ff < 1 || m->vocabulary < 1 ||
      m->sequence < 1 || m->parts < 1)
    return refuse(diag, m, "layers, d_model, heads, d_ff, vocabulary and sequence must be given");
  if (m->d_model % m->heads)
    return refuse(diag, m, "%" PRId64 " heads do not divide a width of %" PRId64, m->heads,
                  m->d_model);
  if (m->heads % m->parts || m->d_ff % m->parts)
    return refuse(diag, m,
                  "%" PRId64 " parts do not divide %" PRId64 " heads and a d_ff of %" PRId64,
                  m->parts, m->heads, m->d_ff);
  if (m->position == WAFER_ZOO_rotary &&
      (m->rotary < 2 || m->rotary % 2 || m->rotary > m->d_model / m->heads))
    return refuse(diag, m,
                  "%" PRId64 " rotary dims: they are even, and at most the %" PRId64 " of a head",
                  m->rotary, m->d_model / m->heads);
  if (m->position == WAFER_ZOO_learned && m->positions && m->positions < m->sequence)
    return refuse(diag, m,
                  "a sequence of %" PRId64 " is longer than the table of %" PRId64 " positions",
                  m->sequence, m->positions);
  if ((m->flags & WAFER_ZOO_ONE_NORM) && !(m->flags & WAFER_ZOO_PARALLEL))
    return refuse(diag, m, "one norm per layer needs attention and MLP in parallel");
  if (m->norm == WAFER_ZOO_batch) return refuse(diag, m, "norm batch is of cnn");
  return WAFER_OK;
}

static wafer_status check_widths(const wafer_diag *diag, const wafer_zoo_model *m) {
  uint32_t least = m->kind == WAFER_ZOO_cnn ? 3 : 2;
  if (m->width_count < least || m->width_count > WAFER_ZOO_MOST_WIDTHS)
    return refuse(diag, m,
                  m->kind == WAFER_ZOO_cnn
                      ? "widths are channels of the image, of each convolution, classes"
                      : "widths are those of the input, of each layer, classes");
  if (m->norm == WAFER_ZOO_rms || (m->norm == WAFER_ZOO_batch && m->kind != WAFER_ZOO_cnn))
    return refuse(diag, m, "of norms a cnn has batch, an mlp none");
  for (uint32_t i = 0; i < m->width_count; i++)
    if (m->widths[i] < 1) return refuse(diag, m, "a width is at least 1");
  if (m->kind == WAFER_ZOO_cnn && (m->side < 1 || m->side >> ((m->width_count - 2) / 2) < 1))
    return refuse(diag, m,
                  "an image of side %" PRId64
                  " is too small to be halved after each second of %u convolutions",
                  m->side, m->width_count - 2);
  return WAFER_OK;
}

wafer_status wafer_zoo_check(const wafer_diag *diag, const wafer_zoo_model *m) {
  bool transformer = m->kind == WAFER_ZOO_gpt || m->kind == WAFER_ZOO_bert;
  return transformer ? check_transformer(diag, m) : check_widths(diag, m);
}

/* ---- All together ---- */

/* Both branches of a layer end in the residual. */
static void build(zoo *z) {
  const wafer_zoo_model *spec = z->spec;
  z->residual = 0.02 / sqrt(2.0 * (double)(spec->layers > 0 ? spec->layers : 1));
  z->model = wafer_onnx_model_create(z->arena, spec->name, 23);
  z->failed |= !z->model;
  if (!z->model) return;
  if (!z->options->init)
    wafer_onnx_model_note(z->model, WAFER_ONNX_WEIGHTS_KEY, WAFER_ONNX_WEIGHTS_ABSENT);
  switch (spec->kind) {
  case WAFER_ZOO_gpt: zoo_gpt(z); break;
  case WAFER_ZOO_bert: zoo_bert(z); break;
  case WAFER_ZOO_mlp: zoo_mlp(z); break;
  case WAFER_ZOO_cnn: zoo_cnn(z); break;
  }
}

uint64_t wafer_zoo_parameters(const wafer_zoo_model *model) {
  wafer_zoo_options options = {0};
  zoo z = {.spec = model, .options = &options, .arena = wafer_arena_create()};
  if (z.arena && wafer_zoo_check(NULL, model) == WAFER_OK) build(&z);
  wafer_arena_destroy(z.arena);
  return z.failed ? 0 : z.parameters;
}

wafer_status wafer_zoo_write(const wafer_diag *diag, const wafer_zoo_model *model,
                             const wafer_zoo_options *options, const char *path) {
  WAFER_TRY(wafer_zoo_check(diag, model));
  zoo z = {.spec = model, .options = options, .arena = wafer_arena_create()};
  if (z.arena) build(&z);
  wafer_status status = WAFER_OK;
  if (!z.arena || z.failed)
    status = wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to write it");
  else
    status = wafer_onnx_model_write(diag, z.model, path);
  wafer_arena_destroy(z.arena);
  return status;
}

/* ---- Draws ---- */

zoo_draw *zoo_draw_of(zoo *z, const char *name, double mean, double deviation) {
  zoo_draw *draw = WAFER_NEW(z->arena, zoo_draw, 1);
  z->failed |= !draw;
  if (draw)
    *draw = (zoo_draw){XXH3_64bits_withSeed(name, strlen(name), z->options->seed), mean, deviation};
  return draw;
}

/* SplitMix64's finaliser (Steele, Lea, Flood 2014) over key and counter. */
static uint64_t mix(uint64_t key, uint64_t counter) {
  uint64_t x = key + (counter + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* In (0, 1]. */
static double uniform(uint64_t key, uint64_t counter) {
  return ((double)(mix(key, counter) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller, a pair of uniforms per element. */
void zoo_fill(void *self, int64_t first, int64_t count, void *to) {
  const zoo_draw *draw = self;
  float *out = to;
  for (int64_t i = 0; i < count; i++) {
    uint64_t counter = 2 * (uint64_t)(first + i);
    double normal = 0;
    if (draw->deviation > 0)
      normal = sqrt(-2 * log(uniform(draw->key, counter))) *
               cos(6.283185307179586 * uniform(draw->key, counter + 1));
    out[i] = (float)(draw->mean + draw->deviation * normal);
  }
}
