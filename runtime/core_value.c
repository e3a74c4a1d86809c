/* The values of a step: operands from memory, queues and constants, one operation, and where the
 * result goes. Floats compute in f32 and round when they are stored; integers wrap. */
#include <math.h>
#include <string.h>

#include "fabric_state.h"
#include "vmath.h"

/* A value of any of the types of a core. */
typedef struct scalar {
  float f;
  int64_t i;
} scalar;

static bool is_float(uint8_t dtype) {
  return dtype == WAFER_DTYPE_f32 || dtype == WAFER_DTYPE_f16;
}

static scalar from_bits(uint8_t dtype, uint32_t bits) {
  scalar s = {0};
  switch (dtype) {
  case WAFER_DTYPE_f32:
    memcpy(&s.f, &bits, 4);
    break;
  case WAFER_DTYPE_f16:
    s.f = wafer_f32_of_f16((uint16_t)bits);
    break;
  case WAFER_DTYPE_i32:
    s.i = (int32_t)bits;
    break;
  case WAFER_DTYPE_u32:
    s.i = bits;
    break;
  case WAFER_DTYPE_i16:
    s.i = (int16_t)bits;
    break;
  default:
    s.i = (uint16_t)bits;
    break;
  }
  return s;
}

static uint32_t to_bits(uint8_t dtype, scalar s) {
  uint32_t bits;
  switch (dtype) {
  case WAFER_DTYPE_f32:
    memcpy(&bits, &s.f, 4);
    return bits;
  case WAFER_DTYPE_f16:
    return wafer_f16_of_f32(s.f);
  case WAFER_DTYPE_i16:
  case WAFER_DTYPE_u16:
    return (uint16_t)s.i;
  default:
    return (uint32_t)s.i;
  }
}

/* Between the families of types, as C casts; out of range saturates. */
static scalar cross(scalar s, bool from_float, bool to_float) {
  if (from_float && !to_float)
    s.i = s.f >= 0x1p62f ? INT64_MAX : s.f > -0x1p62f ? (int64_t)s.f : INT64_MIN;
  if (!from_float && to_float) s.f = (float)s.i;
  return s;
}

static wafer_status outside(const wafer_fabric *f, uint32_t at, int64_t address, uint32_t bytes,
                            const char *what) {
  return fabric_trap(f, at, "%s %u bytes at address %lld; data is from 0 to %u, in steps of 2",
                     what, bytes, (long long)address, f->cores[at].limit);
}

static bool inside(const wafer_fabric *f, uint32_t at, int64_t address, uint32_t bytes) {
  return address >= 0 && address + bytes <= f->cores[at].limit && !(address & 1);
}

static wafer_status load(const wafer_fabric *f, uint32_t at, int64_t address, uint8_t dtype,
                         uint32_t *bits) {
  uint32_t bytes = wafer_dtype_bits(dtype) / 8;
  if (!inside(f, at, address, bytes)) return outside(f, at, address, bytes, "reads");
  const unsigned char *written = f->written + (size_t)at * f->written_bytes;
  for (uint32_t unit = (uint32_t)address / 2; unit < ((uint32_t)address + bytes) / 2; unit++)
    if (!(written[unit / 8] >> (unit % 8) & 1))
      return fabric_trap(f, at, "reads address %u, which nobody has written", unit * 2);
  *bits = 0;
  memcpy(bits, f->memory + (size_t)at * f->machine->core_bytes + address, bytes);
  return WAFER_OK;
}

static wafer_status store(wafer_fabric *f, uint32_t at, int64_t address, uint8_t dtype,
                          uint32_t bits) {
  uint32_t bytes = wafer_dtype_bits(dtype) / 8;
  if (!inside(f, at, address, bytes)) return outside(f, at, address, bytes, "writes");
  unsigned char *written = f->written + (size_t)at * f->written_bytes;
  for (uint32_t unit = (uint32_t)address / 2; unit < ((uint32_t)address + bytes) / 2; unit++)
    written[unit / 8] |= (unsigned char)(1u << unit % 8);
  memcpy(f->memory + (size_t)at * f->machine->core_bytes + address, &bits, bytes);
  return WAFER_OK;
}

static float unary(wafer_core_op op, float x) {
  float y = x;
  if (op == WAFER_CORE_exp)
    vmath_exp(&y, &x, 1);
  else if (op == WAFER_CORE_reciprocal)
    vmath_reciprocal(&y, &x, 1);
  else if (op == WAFER_CORE_sqrt)
    vmath_sqrt(&y, &x, 1);
  return y;
}

static float of_floats(wafer_core_op op, const scalar *in) {
  switch (op) {
  case WAFER_CORE_add:
    return in[0].f + in[1].f;
  case WAFER_CORE_sub:
    return in[0].f - in[1].f;
  case WAFER_CORE_max:
    return in[0].f > in[1].f || isnan(in[0].f) ? in[0].f : in[1].f;
  case WAFER_CORE_min:
    return in[0].f < in[1].f || isnan(in[0].f) ? in[0].f : in[1].f;
  case WAFER_CORE_less:
    return in[0].f < in[1].f;
  case WAFER_CORE_equal:
    return in[0].f == in[1].f;
  case WAFER_CORE_select:
    return in[0].f != 0 ? in[1].f : in[2].f;
  case WAFER_CORE_mul:
    return in[0].f * in[1].f;
  case WAFER_CORE_fma:
    return fmaf(in[0].f, in[1].f, in[2].f);
  default:
    return unary(op, in[0].f);
  }
}

static int64_t of_integers(wafer_core_op op, const scalar *in) {
  uint64_t a = (uint64_t)in[0].i, b = (uint64_t)in[1].i;
  switch (op) {
  case WAFER_CORE_add:
    return (int64_t)(a + b);
  case WAFER_CORE_sub:
    return (int64_t)(a - b);
  case WAFER_CORE_max:
    return in[0].i > in[1].i ? in[0].i : in[1].i;
  case WAFER_CORE_min:
    return in[0].i < in[1].i ? in[0].i : in[1].i;
  case WAFER_CORE_less:
    return in[0].i < in[1].i;
  case WAFER_CORE_equal:
    return in[0].i == in[1].i;
  case WAFER_CORE_select:
    return in[0].i ? in[1].i : in[2].i;
  case WAFER_CORE_mul:
    return (int64_t)(a * b);
  case WAFER_CORE_fma:
    return (int64_t)(a * b + (uint64_t)in[2].i);
  case WAFER_CORE_move:
  case WAFER_CORE_convert:
    return in[0].i;
  default:
    return (int64_t)unary(op, (float)in[0].i);
  }
}

static const uint8_t op_inputs[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = inputs,
#include "wafer/core_ops.def"
};

/* To the next element of operand k (0: out), the `element`-th of this step being done. */
static void advance(core_thread *t, uint32_t k, const wafer_operand *o, uint32_t element) {
  uint64_t done = (uint64_t)t->done + element + 1, period = t->inner;
  t->address[k] += o->stride[3];
  for (uint32_t level = 3; level > 0 && done % period == 0; level--) {
    uint32_t extent = level == 3 ? t->inner : t->code->shape[level];
    t->address[k] += o->stride[level - 1] - (int64_t)extent * o->stride[level];
    period *= t->code->shape[level - 1];
  }
}

/* One element from operand k; `words` holds the wavelet of each fabric operand. */
static wafer_status fetch(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t k,
                          uint32_t element, const uint32_t *words, bool as_float, scalar *out) {
  const wafer_operand *o = &t->code->in[k];
  uint32_t bits;
  if (o->kind == WAFER_OPERAND_constant) {
    *out = cross((scalar){.f = (float)o->value}, true, as_float);
    return WAFER_OK;
  }
  if (o->kind == WAFER_OPERAND_fabric) {
    bits = wafer_dtype_bits(o->dtype) == 16 ? words[k] >> 16 * element & 0xffff : words[k];
  } else {
    WAFER_TRY(load(f, at, t->address[k + 1], o->dtype, &bits));
    advance(t, k + 1, o, element);
  }
  *out = cross(from_bits(o->dtype, bits), is_float(o->dtype), as_float);
  return WAFER_OK;
}

static void take_words(wafer_fabric *f, core_thread *t, uint32_t *words) {
  for (uint32_t k = 0; k < op_inputs[t->code->op]; k++) {
    if (t->code->in[k].kind != WAFER_OPERAND_fabric) continue;
    fabric_node *q = &f->nodes[t->queue[k + 1]];
    words[k] = fabric_front(q)->word;
    fabric_pop(f, q);
  }
}

static void send(wafer_fabric *f, core_thread *t, uint32_t elements, uint32_t cost, uint32_t word) {
  bool last = t->done + elements == t->count;
  fabric_push(f, t->queue[0], word, last ? t->code->control : WAFER_CONTROL_none, cost + f->machine->ramp_cycles);
}

wafer_status core_compute(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t elements,
                          uint32_t cost) {
  const wafer_instruction *code = t->code;
  const wafer_operand *out = &code->out;
  wafer_core_op op = (wafer_core_op)code->op;
  uint32_t words[3] = {0}, word = 0;
  bool floats = is_float(op == WAFER_CORE_select ? code->in[1].dtype : code->in[0].dtype);
  take_words(f, t, words);
  for (uint32_t e = 0; e < elements; e++) {
    scalar in[3] = {{0}}, result = {0};
    for (uint32_t k = 0; k < op_inputs[op]; k++)
      WAFER_TRY(fetch(f, at, t, k, e, words, floats, &in[k]));
    if (floats)
      result.f = of_floats(op, in);
    else
      result.i = of_integers(op, in);
    uint32_t bits = to_bits(out->dtype, cross(result, floats, is_float(out->dtype)));
    if (out->kind == WAFER_OPERAND_fabric) {
      word |= wafer_dtype_bits(out->dtype) == 16 ? bits << 16 * e : bits;
      continue;
    }
    WAFER_TRY(store(f, at, t->address[0], out->dtype, bits));
    advance(t, 0, out, e);
  }
  if (out->kind == WAFER_OPERAND_fabric) send(f, t, elements, cost, word);
  return WAFER_OK;
}
