/* Which sample comes when, and its bytes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "dataset.h"

uint64_t wafer_mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1); /* splitmix64's steps (Steele et al., 2014) */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* A Feistel network over the next even number of bits, walked until it falls into range: four
 * rounds with mixed halves, at most four times as many numbers as are used. */
uint64_t wafer_permute(uint64_t key, uint64_t count, uint64_t index) {
  uint32_t half = 1;
  while (half < 32 && (uint64_t)1 << (2 * half) < count) half++;
  uint64_t mask = ((uint64_t)1 << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 4; round++) {
      uint64_t next = left ^ (wafer_mix(wafer_mix(key, round), right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

uint64_t wafer_dataset_at(const wafer_dataset *d, bool shuffle, uint64_t seed, uint64_t number) {
  uint64_t epoch = number / d->samples, index = number % d->samples;
  return shuffle ? wafer_permute(wafer_mix(seed, epoch), d->samples, index) : index;
}

/* The shard of a sample, and which of its samples it is. */
static const shard *find(const field *f, uint64_t *sample) {
  uint32_t low = 0, high = f->shard_count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (f->first[middle] <= *sample)
      low = middle;
    else
      high = middle;
  }
  while (f->first[low + 1] <= *sample) low++; /* past shards without samples */
  *sample -= f->first[low];
  return &f->shards[low];
}

/* ---- conversion ---- */

typedef struct range {
  double least, most;
} range;

static wafer_status out_of_range(const wafer_diag *diag, const shard *s, uint64_t row, bool tokens,
                                 double value, const wafer_gather *how) {
  if (how->classes && tokens && how->field == 0)
    return wafer_fail(diag, wafer_at_file(s->path), WAFER_BAD_INPUT,
                      "row %" PRIu64 " has token %.17g, the model has tokens 0 to %" PRId64, row,
                      value, how->classes - 1);
  if (how->classes)
    return wafer_fail(diag, wafer_at_file(s->path), WAFER_BAD_INPUT,
                      "row %" PRIu64 " has label %.17g, the loss has classes 0 to %" PRId64 "%s",
                      row, value, how->classes - 1,
                      how->ignores ? "" : "; --ignore-index names labels that do not count");
  return wafer_fail(diag, wafer_at_file(s->path), WAFER_BAD_INPUT,
                    "row %" PRIu64 " has %.17g, which the model's input of %s does not hold", row,
                    value, wafer_dtype_name(how->dtype));
}

/* Of tokens that the model reads none is negative, whatever labels are ignored: to pick from the
 * back is not what is meant. */
static bool is_label(const wafer_gather *how, bool read, double value) {
  if (how->ignores && value == (double)how->ignore_index && !(read && value < 0)) return true;
  return value >= 0 && value < (double)how->classes && value == floor(value);
}

/* `row` of the file has the first element; of tokens every element is a row. */
static wafer_status convert(const wafer_diag *diag, const shard *s, uint64_t row, bool tokens,
                            int64_t first, int64_t count, const wafer_gather *how, void *to) {
  wafer_dtype from = s->view.dtype;
  bool to_integer = !wafer_dtype_is_float(how->dtype);
  range r = {-INFINITY, INFINITY};
  if (to_integer) wafer_dtype_range(how->dtype, &r.least, &r.most);
  for (int64_t i = 0; i < count; i++) {
    double value = wafer_element_f64(from, s->view.data, first + i);
    bool fine = how->classes ? is_label(how, tokens && how->field == 0, value)
                             : !to_integer || (value >= r.least && value <= r.most);
    if (!fine) return out_of_range(diag, s, tokens ? row + (uint64_t)i : row, tokens, value, how);
    if (to_integer && !wafer_dtype_is_float(from))
      wafer_element_set_i64(how->dtype, to, i, wafer_element_i64(from, s->view.data, first + i));
    else
      wafer_element_set_f64(how->dtype, to, i, value);
  }
  return WAFER_OK;
}

wafer_status wafer_dataset_gather(const wafer_dataset *d, const wafer_diag *diag,
                                  const wafer_gather *how, const uint64_t *samples, uint32_t count,
                                  void *to) {
  const field *f = &d->fields[d->tokens ? 0 : how->field];
  wafer_shape shape = wafer_dataset_shape(d, how->field);
  int64_t elements = 0;
  (void)wafer_shape_elements(&shape, &elements);
  size_t step = (size_t)elements * wafer_dtype_bytes(how->dtype);
  for (uint32_t i = 0; i < count; i++, to = (char *)to + step) {
    uint64_t sample = samples[i];
    const shard *s = find(f, &sample);
    int64_t first = (int64_t)sample * elements + (d->tokens ? (int64_t)how->field : 0);
    if (s->view.dtype == how->dtype && !how->classes)
      memcpy(to, (const char *)s->view.data + (size_t)first * wafer_dtype_bytes(how->dtype), step);
    else
      WAFER_TRY(convert(diag, s, d->tokens ? (uint64_t)first : sample, d->tokens, first, elements,
                        how, to));
  }
  return WAFER_OK;
}
