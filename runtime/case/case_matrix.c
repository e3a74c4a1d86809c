/* Seeded matrices and their product on the host. */
#include "case_matrix.h"

static void draw(int8_t *out, size_t count, uint64_t *state, double density) {
  for (size_t i = 0; i < count; i++) {
    uint64_t value = case_random(state);
    if (density > 0)
      out[i] = (double)(value >> 11) * 0x1p-53 < density ? (int8_t)(value & 1 ? 1 : -1) : 0;
    else
      out[i] = (int8_t)(value % 3) - 1;
  }
}

static void multiply(const case_matrices *x) {
  for (uint32_t i = 0; i < x->m; i++) {
    float *c = &x->c[(size_t)i * x->n];
    for (uint32_t k = 0; k < x->k; k++) {
      float a = x->a[(size_t)i * x->k + k];
      const int8_t *b = &x->b[(size_t)k * x->n];
      for (uint32_t j = 0; a != 0 && j < x->n; j++) c[j] += a * b[j];
    }
  }
}

wafer_status case_matrices_fit(const case_build *b, uint64_t elements) {
  uint64_t room = wafer_machine_core_budget(b->machine) / b->bytes;
  if (elements <= room) return WAFER_OK;
  return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_NO_FIT,
                    "tiles of %llu elements; a core of %s has room for %llu",
                    (unsigned long long)elements, b->machine->name, (unsigned long long)room);
}

case_matrices *case_matrices_make(case_build *b, uint32_t m, uint32_t k, uint32_t n, double of_a,
                                  double of_b) {
  case_matrices *x = WAFER_NEW(b->arena, case_matrices, 1);
  uint64_t state = b->o.seed;
  if (!x) return NULL;
  *x = (case_matrices){.m = m, .k = k, .n = n};
  x->a = WAFER_NEW(b->arena, int8_t, (size_t)m *k);
  x->b = WAFER_NEW(b->arena, int8_t, (size_t)k *n);
  x->c = WAFER_NEW(b->arena, float, (size_t)m *n);
  if (!x->a || !x->b || !x->c) return NULL;
  draw(x->a, (size_t)m * k, &state, of_a);
  draw(x->b, (size_t)k * n, &state, of_b);
  multiply(x);
  return x;
}

wafer_status case_matrix_put(case_build *b, uint32_t x, uint32_t y, uint32_t address,
                             const case_block *block) {
  unsigned char data[4096];
  uint32_t count = block->rows * block->cols, fits = sizeof data / b->bytes, have = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t row = block->turned ? i % block->rows : i / block->cols;
    uint32_t col = block->turned ? i / block->rows : i % block->cols;
    wafer_element_set_f64(b->o.dtype, data, have++, block->from[(size_t)row * block->stride + col]);
    if (have < fits && i + 1 < count) continue;
    if (!wafer_fabric_write(b->fabric, x, y, address, data, have * b->bytes))
      return wafer_fail(b->diag, wafer_at_file(b->fabric_program.name), WAFER_NO_FIT,
                        "tiles of %u elements do not fit a core of %s", count, b->machine->name);
    address += have * b->bytes;
    have = 0;
  }
  return WAFER_OK;
}
