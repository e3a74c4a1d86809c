/* Architectures as ONNX files (docs/zoo.md): of large models without weights, of small ones with
 * fresh ones. */
#ifndef WAFER_ZOO_H
#define WAFER_ZOO_H

#include "wafer/arena.h"
#include "wafer/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_zoo_kind {
  WAFER_ZOO_gpt,  /* tokens [batch, sequence] i64 -> logits [batch, sequence, vocabulary] */
  WAFER_ZOO_bert, /* tokens, segments, mask [batch, sequence] i64 -> hidden, pooled (or logits) */
  WAFER_ZOO_mlp,  /* x [batch, widths[0]] -> logits [batch, last width] */
  WAFER_ZOO_cnn   /* x [batch, channels, side, side] -> logits [batch, classes] */
} wafer_zoo_kind;

#define WAFER_ZOO_POSITION_MAP(X) X(learned) X(rotary) X(none)
#define WAFER_ZOO_NORM_MAP(X) X(layer) X(rms) X(batch)
#define WAFER_ZOO_ACTIVATION_MAP(X) X(gelu) X(gelu_tanh) X(swiglu) X(relu)
#define X(name) WAFER_ZOO_##name,
typedef enum wafer_zoo_position { WAFER_ZOO_POSITION_MAP(X) } wafer_zoo_position;
typedef enum wafer_zoo_norm { WAFER_ZOO_NORM_MAP(X) } wafer_zoo_norm;
typedef enum wafer_zoo_activation { WAFER_ZOO_ACTIVATION_MAP(X) } wafer_zoo_activation;
#undef X

typedef enum wafer_zoo_flag {
  WAFER_ZOO_TIED = 1,            /* the last product takes the embedding's table */
  WAFER_ZOO_PARALLEL = 2,        /* x + attention(norm(x)) + mlp(norm(x)) */
  WAFER_ZOO_ONE_NORM = 4,        /* of a layer that is parallel */
  WAFER_ZOO_INTERLEAVED = 8,     /* rotary pairs are neighbours, not halves */
  WAFER_ZOO_ATTENTION_BIAS = 16, /* biases of query, key, value and output */
  WAFER_ZOO_MLP_BIAS = 32,
  WAFER_ZOO_HEAD_BIAS = 64,   /* of the last product */
  WAFER_ZOO_MASKED_HEAD = 128 /* bert: logits of masked tokens in place of the pooler */
} wafer_zoo_flag;

#define WAFER_ZOO_MOST_WIDTHS 16

typedef struct wafer_zoo_model {
  const char *name, *summary;
  wafer_zoo_kind kind;
  /* gpt, bert. `positions`: rows of the table of learned ones, 0: `sequence`. `parts`: matrices
   * come in so many, each with its share of heads, of d_ff, of the tokens that a table has. */
  int64_t layers, d_model, heads, d_ff, vocabulary, sequence, positions, rotary, parts;
  wafer_zoo_position position;
  wafer_zoo_norm norm;
  wafer_zoo_activation activation;
  uint32_t flags;
  int64_t batch; /* 0: symbolic, named "batch" */
  /* mlp: all widths, input and classes included. cnn: channels of the image, of each convolution
   * (3x3; the image is halved after each second one), classes; norm `batch`: behind each
   * convolution, in place of its bias, in training mode. */
  uint32_t width_count;
  int64_t widths[WAFER_ZOO_MOST_WIDTHS];
  int64_t side; /* cnn: of the square image */
} wafer_zoo_model;

/* The named ones; false behind the last. */
bool wafer_zoo_at(size_t index, wafer_zoo_model *out);
bool wafer_zoo_find(const char *name, wafer_zoo_model *out);

/* USAGE with what does not go together. */
wafer_status wafer_zoo_check(const wafer_diag *diag, const wafer_zoo_model *model);
/* Elements of all weights, the shared table once. 0: the model is refused or memory is short. */
uint64_t wafer_zoo_parameters(const wafer_zoo_model *model);

typedef struct wafer_zoo_options {
  bool
      init; /* weights drawn from `seed`; otherwise they are external, in a file that is not made */
  uint64_t seed;
} wafer_zoo_options;

/* Same model, same options: same bytes. Matrices of gpt and bert are drawn from N(0, 0.02), those
 * that end a residual branch from N(0, 0.02 / sqrt(branches)) (Radford et al. 2019); those of mlp
 * and cnn from N(0, 2 / inputs) (He et al. 2015); gains are 1, biases 0. */
wafer_status wafer_zoo_write(const wafer_diag *diag, const wafer_zoo_model *model,
                             const wafer_zoo_options *options, const char *path);

#ifdef __cplusplus
}
#endif
#endif
