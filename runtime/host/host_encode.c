/* Host operators that look elements up in lists: LabelEncoder, TfIdfVectorizer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* ---- LabelEncoder ---- */

/* A list of keys, values or one default, whichever attribute holds it. */
typedef struct labels {
  const wafer_host_attr *at;
  wafer_dtype dtype;
} labels;

static labels find_labels(const host_site *site, const char *const names[4], const char *dtype) {
  static const wafer_host_attr_kind kinds[] = {WAFER_HOST_ATTR_texts, WAFER_HOST_ATTR_ints,
                                               WAFER_HOST_ATTR_floats};
  static const wafer_dtype dtypes[] = {WAFER_DTYPE_string, WAFER_DTYPE_i64, WAFER_DTYPE_f32};
  for (int k = 0; k < 3; k++) {
    const wafer_host_attr *a = host_attr(site, names[k], kinds[k]);
    if (a) return (labels){a, dtypes[k]};
  }
  for (int k = 0; k < 3; k++) {
    const wafer_host_attr *a = host_attr(site, names[3], kinds[k]);
    const char *name = host_text(site, dtype, "");
    if (a)
      return (labels){a, !strcmp(name, "string") ? WAFER_DTYPE_string : wafer_dtype_by_name(name)};
  }
  return (labels){0};
}

static bool is_of_texts(const labels *l) {
  return l->at->kind == WAFER_HOST_ATTR_texts;
}

static bool is_key(const labels *keys, uint32_t k, const wafer_view *x, int64_t i) {
  switch (keys->at->kind) {
  case WAFER_HOST_ATTR_texts: return !strcmp(keys->at->texts[k], ((const char *const *)x->data)[i]);
  case WAFER_HOST_ATTR_ints: return keys->at->ints[k] == wafer_element_i64(x->dtype, x->data, i);
  default: {
    double key = keys->at->floats[k], element = wafer_element_f64(x->dtype, x->data, i);
    return key == element || (isnan(key) && isnan(element));
  }
  }
}

/* The values' element type has a default of its own: "_Unused", -1, -0.0. */
static void put(const labels *from, uint32_t k, const wafer_view *y, int64_t i) {
  if (from->dtype == WAFER_DTYPE_string)
    ((const char **)y->data)[i] = from->at ? from->at->texts[k] : "_Unused";
  else if (!from->at)
    wafer_element_set_f64(from->dtype, y->data, i, wafer_dtype_is_float(from->dtype) ? -0.0 : -1);
  else if (from->at->kind == WAFER_HOST_ATTR_ints)
    wafer_element_set_i64(from->dtype, y->data, i, from->at->ints[k]);
  else
    wafer_element_set_f64(from->dtype, y->data, i, from->at->floats[k]);
}

wafer_status host_label_encoder(host_site *site) {
  static const char *const key_names[] = {"keys_strings", "keys_int64s", "keys_floats",
                                          "keys_tensor"};
  static const char *const value_names[] = {"values_strings", "values_int64s", "values_floats",
                                            "values_tensor"};
  static const char *const default_names[] = {"default_string", "default_int64", "default_float",
                                              "default_tensor"};
  labels keys = find_labels(site, key_names, "keys_tensor.dtype");
  labels values = find_labels(site, value_names, "values_tensor.dtype");
  labels absent = find_labels(site, default_names, "default_tensor.dtype");
  const wafer_view *x;
  WAFER_TRY(host_tensor(site, 0, &x));
  if (!keys.at || !values.at || keys.at->count != values.at->count || !values.dtype)
    return host_fail(site, "keys and values are missing or of unlike lengths");
  if (is_of_texts(&keys) != (keys.dtype == WAFER_DTYPE_string) ||
      is_of_texts(&values) != (values.dtype == WAFER_DTYPE_string))
    return host_fail(site, "keys or values are not of the type that is said of them");
  if ((x->dtype == WAFER_DTYPE_string) != (keys.dtype == WAFER_DTYPE_string))
    return host_fail(site, "operand 0 is of type %s, the keys of type %s",
                     wafer_dtype_name(x->dtype), wafer_dtype_name(keys.dtype));
  if (!absent.at || !absent.at->count || absent.at->kind != values.at->kind) absent.at = NULL;
  absent.dtype = values.dtype;
  wafer_item *y = wafer_item_new(values.dtype, &x->shape);
  if (!y) return host_no_memory(site);
  for (int64_t i = 0, n = host_elements(x); i < n; i++) {
    uint32_t k = 0;
    while (k < keys.at->count && !is_key(&keys, k, x, i)) k++;
    if (k < keys.at->count)
      put(&values, k, &y->tensor, i);
    else
      put(&absent, 0, &y->tensor, i);
  }
  if (values.dtype != WAFER_DTYPE_string) return host_give(site, 0, y);
  wafer_item *copy = wafer_item_copy(&y->tensor);
  wafer_item_release(y);
  return host_give(site, 0, copy);
}

/* ---- TfIdfVectorizer ---- */

typedef struct vectorizer {
  const wafer_host_attr *counts, *indexes, *pool, *weights;
  int64_t shortest, longest, skips;
  const wafer_view *x;
  double *found; /* per column of the result */
} vectorizer;

static bool same_item(const vectorizer *v, int64_t pool, int64_t at) {
  if (v->pool->kind == WAFER_HOST_ATTR_texts)
    return !strcmp(v->pool->texts[pool], ((const char *const *)v->x->data)[at]);
  return v->pool->ints[pool] == wafer_element_i64(v->x->dtype, v->x->data, at);
}

/* The grams of `n` items stand in the pool from counts[n-1] to counts[n]; `gram` counts the grams
 * of all lengths. */
static void count_gram(const vectorizer *v, int64_t n, int64_t at, int64_t step) {
  int64_t gram = 0;
  for (int64_t length = 1; length <= n; length++) {
    int64_t from = v->counts->ints[length - 1];
    int64_t end = length < v->counts->count ? v->counts->ints[length] : v->pool->count;
    if (length < n) {
      gram += (end - from) / length;
      continue;
    }
    for (; from + n <= end; from += n, gram++) {
      int64_t k = 0;
      while (k < n && same_item(v, from + k, at + k * step)) k++;
      if (k == n && gram < v->indexes->count) v->found[v->indexes->ints[gram]]++;
    }
  }
}

static void count_row(const vectorizer *v, int64_t start, int64_t length) {
  for (int64_t n = v->shortest; n <= v->longest; n++)
    for (int64_t step = 1; step <= (n == 1 ? 1 : v->skips + 1); step++)
      for (int64_t at = 0; at + (n - 1) * step < length; at++) count_gram(v, n, start + at, step);
}

static wafer_status check_vectorizer(const host_site *site, const vectorizer *v, int64_t *columns) {
  if (!v->counts || !v->indexes || !v->pool || !v->counts->count)
    return host_fail(site, "the pool, ngram_counts or ngram_indexes is missing");
  bool texts = v->pool->kind == WAFER_HOST_ATTR_texts;
  if (texts != (v->x->dtype == WAFER_DTYPE_string))
    return host_fail(site, "the pool is of another type than the operand");
  if (v->shortest < 1 || v->longest < v->shortest || v->longest > v->counts->count ||
      v->skips < 0 || v->skips > INT32_MAX)
    return host_fail(site, "the lengths of grams do not fit ngram_counts");
  for (uint32_t i = 0; i < v->counts->count; i++)
    if (v->counts->ints[i] < 0 || v->counts->ints[i] > v->pool->count ||
        (i && v->counts->ints[i] < v->counts->ints[i - 1]))
      return host_fail(site, "ngram_counts do not rise within the pool");
  for (uint32_t i = 0; i < v->indexes->count; i++) {
    if (v->indexes->ints[i] < 0 || v->indexes->ints[i] > INT32_MAX)
      return host_fail(site, "ngram_indexes[%u] is out of range", i);
    if (v->indexes->ints[i] >= *columns) *columns = v->indexes->ints[i] + 1;
  }
  return WAFER_OK;
}

/* TF: how often; IDF: the weight when at all; TFIDF: their product. */
static void write_row(const host_site *site, const vectorizer *v, int64_t columns, float *out) {
  const char *mode = host_text(site, "mode", "TF");
  bool once = !strcmp(mode, "IDF"), weighted = strcmp(mode, "TF") != 0;
  for (int64_t c = 0; c < columns; c++) out[c] = (float)(once ? v->found[c] > 0 : v->found[c]);
  for (uint32_t i = 0; weighted && v->weights && i < v->weights->count && i < v->indexes->count;
       i++)
    out[v->indexes->ints[i]] *= (float)v->weights->floats[i];
}

wafer_status host_tf_idf(host_site *site) {
  vectorizer v = {.counts = host_attr(site, "ngram_counts", WAFER_HOST_ATTR_ints),
                  .indexes = host_attr(site, "ngram_indexes", WAFER_HOST_ATTR_ints),
                  .pool = host_attr(site, "pool_strings", WAFER_HOST_ATTR_texts),
                  .weights = host_attr(site, "weights", WAFER_HOST_ATTR_floats),
                  .shortest = host_int(site, "min_gram_length", 1),
                  .longest = host_int(site, "max_gram_length", 1),
                  .skips = host_int(site, "max_skip_count", 0)};
  int64_t columns = 0;
  wafer_view *y;
  if (!v.pool) v.pool = host_attr(site, "pool_int64s", WAFER_HOST_ATTR_ints);
  WAFER_TRY(host_tensor(site, 0, &v.x));
  WAFER_TRY(check_vectorizer(site, &v, &columns));
  wafer_shape shape = v.x->shape;
  if (shape.rank < 1 || shape.rank > 2)
    return host_fail(site, "the operand has %u dims", shape.rank);
  int64_t length = shape.dims[shape.rank - 1], rows = shape.rank == 2 ? shape.dims[0] : 1;
  shape.dims[shape.rank - 1] = columns;
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_f32, &shape, &y));
  v.found = malloc(((size_t)columns + 1) * sizeof *v.found);
  if (!v.found) return host_no_memory(site);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < columns; c++) v.found[c] = 0;
    count_row(&v, r * length, length);
    write_row(site, &v, columns, (float *)y->data + r * columns);
  }
  free(v.found);
  return WAFER_OK;
}
