/* The values of a vector instruction: operands from memory, queues and constants, one operation
 * over up to a chunk of elements, and where the results go. f16 and bf16 compute in f32 and round
 * when they are stored or sent; integers wrap. */
#include "core_value.h"

#include <math.h>
#include <string.h>

#include "exec/exec_map_ops.h"
#include "tensor/vmath.h"

/* ---- what computes ---- */

core_class core_class_of(const wafer_instruction *code) {
  bool moves = code->op == WAFER_CORE_move || code->op == WAFER_CORE_convert;
  uint8_t dtype = code->in[code->op == WAFER_CORE_select].dtype;
  if (code->op == WAFER_CORE_apply) return CORE_APPLIES;
  if (core_takes_pairs(code->op)) return CORE_PAIRS;
  if (moves && code->in[0].kind != WAFER_OPERAND_constant &&
      (code->out.dtype == dtype || code->out.kind == WAFER_OPERAND_null))
    return CORE_COPIES;
  if (wafer_dtype_is_float(dtype)) {
    for (uint32_t k = code->op == WAFER_CORE_select; k < core_inputs(code); k++)
      if (code->in[k].dtype == WAFER_DTYPE_f64) return CORE_F64;
    return CORE_F32;
  }
  return dtype == WAFER_DTYPE_u64 ? CORE_U64 : CORE_I64;
}

#define EACH(out, expr)                                                                            \
  for (uint32_t i = 0; i < n; i++) (out)[i] = (expr);                                              \
  return

/* Those that floats and integers share; `keep` says whether x wins although y may be NaN. */
#define SHARED_CASES(o, a, b, c, keep)                                                             \
  case WAFER_CORE_max: EACH(o, a[i] > b[i] || keep(a[i]) ? a[i] : b[i]);                           \
  case WAFER_CORE_min: EACH(o, a[i] < b[i] || keep(a[i]) ? a[i] : b[i]);                           \
  case WAFER_CORE_less: EACH(o, a[i] < b[i]);                                                      \
  case WAFER_CORE_equal: EACH(o, a[i] == b[i]);                                                    \
  case WAFER_CORE_select: EACH(o, a[i] != 0 ? b[i] : c[i]);
#define ARITHMETIC_CASES(o, a, b)                                                                  \
  case WAFER_CORE_add: EACH(o, a[i] + b[i]);                                                       \
  case WAFER_CORE_sub: EACH(o, a[i] - b[i]);                                                       \
  case WAFER_CORE_mul: EACH(o, a[i] * b[i]);
#define IS_NAN(x) ((x) != (x))
#define NEVER(x) false

WAFER_CLONES static void of_f32(uint8_t op, uint32_t n, const float *a, const float *b,
                                const float *c, float *o) {
  switch (op) {
    ARITHMETIC_CASES(o, a, b)
    SHARED_CASES(o, a, b, c, IS_NAN)
  case WAFER_CORE_fma: EACH(o, fmaf(a[i], b[i], c[i]));
  case WAFER_CORE_exp: vmath_exp(o, a, n); return;
  case WAFER_CORE_reciprocal: vmath_reciprocal(o, a, n); return;
  case WAFER_CORE_sqrt: vmath_sqrt(o, a, n); return;
  default: EACH(o, a[i]);
  }
}

static void of_f64(uint8_t op, uint32_t n, const double *a, const double *b, const double *c,
                   double *o) {
  switch (op) {
    ARITHMETIC_CASES(o, a, b)
    SHARED_CASES(o, a, b, c, IS_NAN)
  case WAFER_CORE_fma: EACH(o, fma(a[i], b[i], c[i]));
  case WAFER_CORE_exp: EACH(o, vmath_f64_exp(a[i]));
  case WAFER_CORE_reciprocal: EACH(o, vmath_f64_reciprocal(a[i]));
  case WAFER_CORE_sqrt: EACH(o, vmath_f64_sqrt(a[i]));
  default: EACH(o, a[i]);
  }
}

static void of_u64(uint8_t op, uint32_t n, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                   uint64_t *o) {
  switch (op) {
    ARITHMETIC_CASES(o, a, b)
    SHARED_CASES(o, a, b, c, NEVER)
  case WAFER_CORE_fma: EACH(o, a[i] * b[i] + c[i]);
  default: EACH(o, a[i]);
  }
}

static void of_i64(uint8_t op, uint32_t n, const int64_t *a, const int64_t *b, const int64_t *c,
                   int64_t *o) {
  switch (op) {
    SHARED_CASES(o, a, b, c, NEVER)
  default: /* the others wrap alike */
    of_u64(op, n, (const uint64_t *)a, (const uint64_t *)b, (const uint64_t *)c, (uint64_t *)o);
  }
}

/* ---- apply: a routine of the run-time library ---- */

/* The type that the loops of kernel fidelity hold elements in. */
static wafer_dtype held(uint8_t dtype) {
  return dtype == WAFER_DTYPE_f16 || dtype == WAFER_DTYPE_bf16 ? WAFER_DTYPE_f32
                                                               : (wafer_dtype)dtype;
}

static wafer_dtype operand_type(const wafer_instruction *code) {
  return held(code->in[code->function == WAFER_OP_select].dtype);
}

/* What the routine's elements are. */
static wafer_dtype result_type(const wafer_instruction *code) {
  switch (code->function) {
  case WAFER_OP_isnan:
  case WAFER_OP_isinf:
  case WAFER_OP_equal:
  case WAFER_OP_less:
  case WAFER_OP_less_equal: return WAFER_DTYPE_bool;
  case WAFER_OP_cast: return held(code->out.dtype);
  default: return operand_type(code);
  }
}

static map_loop *routine(const wafer_instruction *code) {
  wafer_op op = (wafer_op)code->function;
  map_loop *loop = NULL;
  if (op == WAFER_OP_cast) return map_loop_cast(held(code->in[0].dtype), held(code->out.dtype));
  if (op == WAFER_OP_pow && code->in[1].kind == WAFER_OPERAND_constant)
    loop = map_loop_get(op, operand_type(code), MAP_RIGHT_SCALAR); /* as a kernel does */
  return loop ? loop : map_loop_get(op, operand_type(code), MAP_ALL);
}

static bool needs_attrs(uint16_t function) {
  return wafer_op_get((wafer_op)function)->attr_count && function != WAFER_OP_cast;
}

bool core_has_routine(const wafer_instruction *code) {
  if (code->function >= WAFER_OP_COUNT || !wafer_op_is((wafer_op)code->function, WAFER_TRAIT_MAP))
    return false;
  bool selects = code->function == WAFER_OP_select;
  for (uint32_t k = 0; k < core_inputs(code); k++)
    if (held(code->in[k].dtype) != (selects && !k ? WAFER_DTYPE_bool : operand_type(code)))
      return false;
  const wafer_op_info *info = wafer_op_get((wafer_op)code->function);
  for (uint32_t i = 0; needs_attrs(code->function) && i < info->attr_count; i++)
    if (!code->attrs || !wafer_attr_find(code->attrs, info->attrs[i])) return false;
  return routine(code) != NULL;
}

/* Raw elements to the type that is held, in place of the lanes. */
static void hold(uint8_t dtype, uint32_t n, core_lanes *lanes) {
  float wide[CORE_CHUNK];
  if (held(dtype) == dtype) return;
  for (uint32_t i = 0; i < n; i++) {
    uint16_t bits;
    memcpy(&bits, lanes->raw + 2 * i, 2);
    wide[i] = dtype == WAFER_DTYPE_f16 ? wafer_f32_of_f16(bits) : wafer_f32_of_bf16(bits);
  }
  memcpy(lanes->f, wide, n * sizeof *wide);
}

static void apply(const wafer_instruction *code, uint32_t n, core_lanes in[3], void *raw) {
  map_attrs attrs = {0};
  core_lanes result;
  core_class wide = CORE_F64;
  if (needs_attrs(code->function)) attrs = map_attrs_of((wafer_op)code->function, code->attrs);
  for (uint32_t k = 0; k < core_inputs(code); k++) hold(code->in[k].dtype, n, &in[k]);
  wafer_dtype type = result_type(code);
  bool as_is = type == code->out.dtype;
  routine(code)(as_is ? raw : result.raw, in[0].raw, in[1].raw, in[2].raw, n, &attrs);
  if (as_is) return;
  if (type == WAFER_DTYPE_f32)
    wide = CORE_F32;
  else if (type != WAFER_DTYPE_f64)
    wide = type == WAFER_DTYPE_u64 ? CORE_U64 : CORE_I64;
  core_lanes lanes;
  core_widen(wide, type, result.raw, n, &lanes);
  core_narrow(wide, &lanes, n, (wafer_dtype)code->out.dtype, raw);
}

/* ---- operands ---- */

/* The wavelets of this step, by operand; a step with one takes no more elements than a chunk. */
typedef struct wavelets {
  uint32_t word[3][CORE_STEP_WORDS];
} wavelets;

static uint32_t words_of(const core_thread *t, uint32_t k, uint32_t elements) {
  return (elements * t->bytes[k] + 3) / 4;
}

static void take_words(wafer_fabric *f, core_thread *t, uint32_t elements, wavelets *taken) {
  for (uint32_t k = 1; k <= core_inputs(t->code); k++) {
    if (core_operand(t->code, k)->kind != WAFER_OPERAND_fabric) continue;
    fabric_node *q = &f->nodes[t->queue[k]];
    for (uint32_t w = 0; w < words_of(t, k, elements); w++) {
      taken->word[k - 1][w] = fabric_front(q)->word;
      fabric_pop(f, q);
    }
  }
}

static void repeat(const wafer_operand *o, wafer_dtype type, uint32_t n, void *raw) {
  for (uint32_t i = 0; i < n; i++) wafer_element_set_f64(type, raw, i, o->value);
}

/* n elements of input k, `skip` of this step being done, as they are stored. */
static wafer_status fetch(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                          uint32_t skip, uint32_t n, const wavelets *taken, void *raw) {
  const wafer_operand *o = core_operand(t->code, k);
  if (o->kind == WAFER_OPERAND_memory) return core_gather(f, at, t, k, n, raw);
  if (o->kind == WAFER_OPERAND_constant)
    repeat(o, (wafer_dtype)o->dtype, n, raw);
  else
    memcpy(raw, (const unsigned char *)taken->word[k - 1] + skip * t->bytes[k],
           (size_t)n * t->bytes[k]);
  return WAFER_OK;
}

static wafer_status compute(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t skip,
                            uint32_t n, const wavelets *taken, void *raw) {
  const wafer_instruction *code = t->code;
  core_class type = (core_class)t->type;
  core_lanes in[3], out;
  if (type == CORE_COPIES) return fetch(f, at, t, 1, skip, n, taken, raw);
  for (uint32_t k = 1; k <= core_inputs(code); k++) {
    core_lanes *lanes = &in[k - 1];
    WAFER_TRY(fetch(f, at, t, k, skip, n, taken, type == CORE_APPLIES ? lanes : &out));
    if (type != CORE_APPLIES) core_widen(type, (wafer_dtype)code->in[k - 1].dtype, &out, n, lanes);
  }
  if (type == CORE_F32)
    of_f32(code->op, n, in[0].f, in[1].f, in[2].f, out.f);
  else if (type == CORE_F64)
    of_f64(code->op, n, in[0].d, in[1].d, in[2].d, out.d);
  else if (type == CORE_I64)
    of_i64(code->op, n, in[0].i, in[1].i, in[2].i, out.i);
  else if (type == CORE_U64)
    of_u64(code->op, n, (uint64_t *)in[0].i, (uint64_t *)in[1].i, (uint64_t *)in[2].i,
           (uint64_t *)out.i);
  else
    apply(code, n, in, raw);
  if (type != CORE_APPLIES) core_narrow(type, &out, n, (wafer_dtype)code->out.dtype, raw);
  return WAFER_OK;
}

/* ---- accumulators: one element of memory that each result is written to and read from ---- */

static bool is_accumulator(const core_thread *t, uint32_t k) {
  const wafer_operand *in = core_operand(t->code, k), *out = &t->code->out;
  return in->kind == WAFER_OPERAND_memory && out->kind == WAFER_OPERAND_memory &&
         t->address[k] == t->address[0] && !in->stride[3] && !out->stride[3] &&
         in->dtype == WAFER_DTYPE_f32 && out->dtype == WAFER_DTYPE_f32;
}

/* The input that accumulates in an f32 sum, product or extreme; 0: none. */
static uint32_t accumulator(const core_thread *t) {
  if (t->type != CORE_F32) return 0;
  switch (t->code->op) {
  case WAFER_CORE_fma: return is_accumulator(t, 3) ? 3 : 0;
  case WAFER_CORE_add:
  case WAFER_CORE_mul: return is_accumulator(t, 1) ? 1 : is_accumulator(t, 2) ? 2 : 0;
  case WAFER_CORE_max:
  case WAFER_CORE_min: return is_accumulator(t, 1) ? 1 : 0;
  default: return 0;
  }
}

WAFER_CLONES static float fold(uint8_t op, uint32_t n, float sum, const float *a, const float *b) {
  for (uint32_t i = 0; i < n; i++) switch (op) {
    case WAFER_CORE_fma: sum = fmaf(a[i], b[i], sum); break;
    case WAFER_CORE_add: sum = sum + b[i]; break;
    case WAFER_CORE_mul: sum = sum * b[i]; break;
    case WAFER_CORE_max: sum = sum > b[i] || isnan(sum) ? sum : b[i]; break;
    default: sum = sum < b[i] || isnan(sum) ? sum : b[i]; break;
    }
  return sum;
}

static wafer_status accumulate(wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t skip,
                               uint32_t n, const wavelets *taken, uint32_t which) {
  core_lanes in[2], raw;
  float sum;
  WAFER_TRY(core_gather(f, at, t, which, 1, &sum));
  for (uint32_t k = 1; k <= 2; k++) {
    if (k == which) continue;
    WAFER_TRY(fetch(f, at, t, k, skip, n, taken, &raw));
    core_widen(CORE_F32, (wafer_dtype)core_operand(t->code, k)->dtype, &raw, n,
               &in[which == 2 ? 1 : k - 1]);
  }
  sum = fold(t->code->op, n, sum, in[0].f, in[1].f);
  return core_scatter(f, at, t, 1, &sum);
}

/* ---- a step ---- */

static void send(wafer_fabric *f, const core_thread *t, uint32_t elements, uint32_t cost,
                 const uint32_t *word) {
  uint32_t words = words_of(t, 0, elements);
  bool last = t->done + elements == t->count;
  for (uint32_t w = 0; w < words; w++)
    fabric_push(f, t->queue[0], word[w],
                last && w + 1 == words ? t->code->control : WAFER_CONTROL_none,
                cost - (words - 1 - w) + f->machine->ramp_cycles);
}

/* Elements that may be computed at once: of one run, and without one's result being another's
 * input. */
static uint32_t portion(const core_thread *t, uint32_t left, uint32_t *which) {
  uint32_t n = left < CORE_CHUNK ? left : CORE_CHUNK;
  if (n > core_run_left(t)) n = core_run_left(t);
  *which = n > 1 ? accumulator(t) : 0;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++)
    if (k != *which && !core_runs_apart(t, k, n)) {
      *which = 0;
      return 1;
    }
  return n;
}

wafer_status core_compute(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t elements,
                          uint32_t cost) {
  const wafer_operand *out = &t->code->out;
  wavelets taken;
  core_lanes raw;
  uint32_t result[CORE_STEP_WORDS] = {0};
  take_words(f, t, elements, &taken);
  for (uint32_t skip = 0, n, which; skip < elements; skip += n) {
    n = portion(t, elements - skip, &which);
    if (which) {
      WAFER_TRY(accumulate(f, at, t, skip, n, &taken, which));
    } else {
      WAFER_TRY(compute(f, at, t, skip, n, &taken, &raw));
      if (out->kind == WAFER_OPERAND_memory) WAFER_TRY(core_scatter(f, at, t, n, &raw));
      if (out->kind == WAFER_OPERAND_fabric)
        memcpy((unsigned char *)result + skip * t->bytes[0], &raw, (size_t)n * t->bytes[0]);
    }
    core_advance(t, n);
  }
  if (out->kind == WAFER_OPERAND_fabric) send(f, t, elements, cost, result);
  return WAFER_OK;
}
