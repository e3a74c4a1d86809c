/* Compositions of core ops that several operators share; the file that has each is named. As the
 * builders of import.h they return a null value once the node has failed. */
#ifndef FRONTEND_COMPOSE_H
#define FRONTEND_COMPOSE_H

#include "import.h"

/* ---- Activations (expand_map.c, expand_activation.c) ---- */

/* x/2 (1 + erf(x / sqrt(2))), and x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
MlirValue emit_gelu(import_node *n, MlirValue x);
MlirValue emit_gelu_tanh(import_node *n, MlirValue x);
MlirValue emit_leaky_relu(import_node *n, MlirValue x, double alpha);
MlirValue emit_elu(import_node *n, MlirValue x, double alpha);
MlirValue emit_thresholded_relu(import_node *n, MlirValue x, double alpha);
MlirValue emit_hard_sigmoid(import_node *n, MlirValue x, double alpha, double beta);
MlirValue emit_softsign(import_node *n, MlirValue x);

/* An activation that a node names in an attribute: those of RNN, GRU and LSTM. */
typedef struct nonlinearity {
  const struct nonlinearity_kind *kind;
  double alpha, beta;
} nonlinearity;
/* By its name, in any case of letters; the node fails, naming it, when there is none. Parameters
 * are those that the activation has by default. */
nonlinearity nonlinearity_by_name(import_node *n, const char *name, size_t length);
/* How many of alpha and beta it has: 0 to 2. */
uint32_t nonlinearity_parameters(const nonlinearity *a);
MlirValue emit_nonlinearity(import_node *n, const nonlinearity *a, MlirValue x);

/* ---- Windows and products (expand_window.c) ---- */

/* The channels of (N, ..., C) move to the front, (N, C, ...), when `first`, else back. */
MlirValue emit_channels_moved(import_node *n, MlirValue x, bool first);
/* The node's pool (its attributes) of another operand. */
MlirValue emit_pool(import_node *n, wafer_op op, MlirValue x);
/* The node's Gemm (transA, transB, alpha, beta) of other operands; c may be null. */
MlirValue emit_gemm(import_node *n, MlirValue a, MlirValue b, MlirValue c);
/* As ONNX's MatMul: vectors are rows and columns. */
MlirValue emit_matmul(import_node *n, MlirValue a, MlirValue b);

/* ---- Normalizations (expand_reduce.c) ---- */

/* (x - mean) / sqrt(variance + epsilon) over the dims of a bit set; mean and 1/sqrt(...) on the
 * side. */
typedef struct normalized {
  MlirValue y, mean, inverse;
} normalized;
normalized emit_normalized(import_node *n, MlirValue x, uint32_t dims, double epsilon);
/* x / sqrt(mean of squares + epsilon) over the dims of a bit set */
MlirValue emit_rms_normalized(import_node *n, MlirValue x, uint32_t dims, double epsilon);
/* (N, C, ...) normalized over each of `groups` parts of the channels and all dims behind them. */
MlirValue emit_group_normalized(import_node *n, MlirValue x, int64_t groups, double epsilon);

/* ---- Attention (expand_attention.c) ---- */

typedef struct attention {
  MlirValue q, k, v; /* (batch, heads, positions, size); queries may have more heads */
  int64_t batch, heads, kv_heads, rows, columns, past;
} attention;
/* (batch, positions, heads * size) to (batch, heads, positions, size), and back. */
MlirValue emit_split_heads(import_node *n, MlirValue x, int64_t heads);
MlirValue emit_join_heads(import_node *n, MlirValue x);
/* Counts from q, k and v, which have four dims; the node fails where they do not fit. */
void attention_measure(import_node *n, attention *a);
/* scale * q k^T: (batch, heads, rows, columns) */
MlirValue emit_scores(import_node *n, const attention *a, double scale);
MlirValue emit_softcapped(import_node *n, MlirValue scores, double cap);
/* What rows of `chances` weigh together of v: (batch, heads, rows, size). */
MlirValue emit_weighted(import_node *n, const attention *a, MlirValue chances, MlirValue v);
/* 0 where `allowed` holds, `otherwise` elsewhere, in the type of `like`. */
MlirValue emit_bias_of(import_node *n, MlirValue allowed, MlirValue like, double otherwise);
/* column <= row + shift, as a matrix of bools */
MlirValue emit_causal(import_node *n, int64_t rows, int64_t columns, int64_t shift);
/* Pairs (a, b) of x's last dim, of four, become (a cos - b sin, a sin + b cos): neighbours when
 * interleaved, else halves. Cosines and sines broadcast against half of x; those of the first
 * `turned` elements are all there are, what follows stays. */
MlirValue emit_rotated(import_node *n, MlirValue x, MlirValue cosine, MlirValue sine,
                       int64_t turned, bool interleaved);

/* ---- Models of ai.onnx.ml (expand_linear.c) ---- */

/* What attribute post_transform makes of (samples, scores). */
MlirValue emit_post_transformed(import_node *n, MlirValue y);
/* How many labels a classifier has. */
int64_t classifier_labels(import_node *n);
/* A classifier's outputs: the label with the most in (samples, labels), and scores. */
void emit_classified(import_node *n, MlirValue by, MlirValue scores);
/* (samples, 1) as the scores of two labels: what the other one lacks of `whole`, and itself. */
MlirValue emit_two_scores(import_node *n, MlirValue y, double whole);

/* ---- Quantized numbers (expand_quantize.c) ---- */

/* round(x / scale) + zero, within the type's numbers; `zero` may be null. Both of x's shape once
 * they are broadcast. */
MlirValue emit_quantized(import_node *n, MlirValue x, MlirValue scale, MlirValue zero,
                         wafer_dtype dtype);
/* (x - zero) * scale in f32, `zero` may be null; one scale and zero point for all of x. */
MlirValue emit_dequantized(import_node *n, MlirValue x, MlirValue scale, MlirValue zero);
/* An operand as i32, its zero point taken off; a vector of them stands for the rows or columns. */
MlirValue emit_centered(import_node *n, MlirValue x, MlirValue zero, bool rows);
/* DynamicQuantizeLinear: u8 numbers, their scale and zero point. */
typedef struct quantized_numbers {
  MlirValue y, scale, zero;
} quantized_numbers;
quantized_numbers emit_dynamically_quantized(import_node *n, MlirValue x);

#endif
