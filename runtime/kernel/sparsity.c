/* What streams of a weight whose zeros stay behind. */
#include "wafer/kernel.h"

uint64_t wafer_sparse_words(const wafer_type *type, wafer_dtype storage, uint64_t nonzeros) {
  int64_t elements = 0;
  (void)wafer_shape_elements(&type->shape, &elements);
  uint64_t each = wafer_stored_bytes(type->dtype, storage);
  uint64_t dense = ((uint64_t)elements * each + WAFER_WAVELET_BYTES - 1) / WAFER_WAVELET_BYTES;
  uint64_t wavelets = each <= 2 ? 1 : 2;
  return nonzeros < dense / wavelets ? nonzeros * wavelets : dense;
}
