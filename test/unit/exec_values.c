/* Moves, maps, casts and orders through the execution engine against the oracle. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "exec_bench.h"

/* Few distinct numbers, so that the first and the last of equals matter; a NaN beats all. */
static void finds_extremes(void) {
  for (int64_t axis = 0; axis < 3; axis++)
    for (int kind = 0; kind < 4; kind++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "3x4x37", false);
      float *data = b.data[x];
      for (int i = 0; i < 3 * 4 * 37; i++)
        data[i] = i == 40 ? NAN : (float)(bench_next(&b) % 3) - 1.0f;
      wafer_attr attrs[] = {whole(WAFER_ATTR_axis, axis), whole(WAFER_ATTR_keepdims, kind & 1),
                            whole(WAFER_ATTR_last, kind & 1)};
      bench_output(&b,
                   bench_node(&b, kind & 2 ? WAFER_OP_arg_min : WAFER_OP_arg_max, &x, 1, attrs, 3));
      bench_check(&b, "arg");
    }
}

static void softmaxes(void) {
  for (int64_t axis = 0; axis < 4; axis++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "2x3x5x37", false);
    bench_output(&b, NODE(&b, softmax, (x), whole(WAFER_ATTR_axis, axis)));
    bench_check(&b, "softmax");
  }
}

static void normalizes(void) {
  static const int64_t axes[][3] = {{0}, {1}, {3}, {2, 3}, {1, 2, 3}};
  static const uint32_t counts[] = {1, 1, 1, 2, 3};
  for (uint32_t i = 0; i < 2 * WAFER_COUNT(axes); i++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "2x3x5x37", false), of = i / 2;
    wafer_attr attrs[] = {{.id = WAFER_ATTR_axes, .ints = {counts[of], axes[of]}},
                          {.id = WAFER_ATTR_epsilon, .f = 0.01},
                          whole(WAFER_ATTR_center, i & 1)};
    bench_output(&b, bench_node(&b, WAFER_OP_normalize, &x, 1, attrs, WAFER_COUNT(attrs)));
    bench_check(&b, "normalize");
  }
}

static void moves(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "2x6x5x4", false);
  bench_output(&b, NODE(&b, transpose, (x), INTS(perm, 0, 2, 3, 1)));
  bench_output(&b, NODE(&b, reshape, (x), INTS(shape, 2, 6, 20)));
  bench_output(&b, NODE(&b, reshape, (x), INTS(shape, 12, 1, 5, 4)));
  bench_output(&b, NODE(&b, reshape, (x), INTS(shape, 4, 60)));
  bench_output(&b, NODE(&b, reshape, (x), INTS(shape, 2, 3, 2, 5, 4)));
  uint32_t t = NODE(&b, transpose, (x), INTS(perm, 3, 0, 1, 2));
  bench_output(&b, NODE(&b, reshape, (t), INTS(shape, 4, 1, 2, 30)));
  bench_output(&b, NODE(&b, reshape, (t), INTS(shape, 8, 30)));
  bench_output(&b, NODE(&b, slice, (x), INTS(starts, 1, 5, 0, 3), INTS(steps, 1, -2, 1, -1),
                        INTS(shape, 1, 3, 5, 4)));
  bench_output(&b, NODE(&b, concat, (x, x), whole(WAFER_ATTR_axis, 1)));
  bench_output(&b, NODE(&b, concat, (x, x), whole(WAFER_ATTR_axis, 2)));
  bench_output(&b, NODE(&b, pad, (x), INTS(pads, 0, 1, 2, 0, 1, 0, 1, 3),
                        word(WAFER_ATTR_mode, "constant"), real(WAFER_ATTR_fill, -1.5)));
  bench_output(&b, NODE(&b, pad, (x), INTS(pads, 0, 0, -1, 0, 0, 0, 2, -2),
                        word(WAFER_ATTR_mode, "constant"), real(WAFER_ATTR_fill, 0)));
  bench_output(&b, NODE(&b, pad, (x), INTS(pads, 0, 1, 2, 0, 0, 1, 2, 3),
                        word(WAFER_ATTR_mode, "reflect"), real(WAFER_ATTR_fill, 0)));
  uint32_t s = NODE(&b, slice, (x), INTS(starts, 0, 2, 0, 0), INTS(steps, 1, 1, 1, 1),
                    INTS(shape, 2, 1, 5, 4));
  bench_output(&b, NODE(&b, expand, (s), INTS(shape, 2, 3, 5, 4)));
  b.oracle_stages = 1; /* the reflecting pad */
  bench_check(&b, "moves");
}

static void resizes(void) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const coordinates[] = {"half_pixel",           "asymmetric",
                                            "align_corners",        "pytorch_half_pixel",
                                            "half_pixel_symmetric", "tf_half_pixel_for_nn"};
  static const double scales[] = {1, 1, 2.5, 0.8};
  for (size_t m = 0; m < WAFER_COUNT(modes); m++)
    for (size_t c = 0; c < WAFER_COUNT(coordinates); c++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x5x6x8", false);
      bench_output(&b, NODE(&b, resize, (x), INTS(shape, 1, 5, 15, 6),
                            {.id = WAFER_ATTR_scales, .floats = {4, scales}},
                            word(WAFER_ATTR_mode, modes[m]),
                            word(WAFER_ATTR_coordinates, coordinates[c]),
                            word(WAFER_ATTR_rounding, "round_prefer_floor"),
                            real(WAFER_ATTR_cubic_a, -0.75), whole(WAFER_ATTR_exclude_outside, 0)));
      b.oracle_stages = m == 2;
      bench_check(&b, coordinates[c]);
    }
}

/* A dim of 1 has the same order wherever it stands, until it is resized. */
static void resizes_dims_of_one(void) {
  static const double scales[] = {1, 1, 3, 1};
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "5x4x1x3", false);
  uint32_t mean = NODE(&b, reduce_mean, (x), INTS(axes, 3), whole(WAFER_ATTR_keepdims, 1));
  bench_output(
      &b, NODE(&b, resize, (mean), INTS(shape, 5, 4, 3, 1),
               {.id = WAFER_ATTR_scales, .floats = {4, scales}}, word(WAFER_ATTR_mode, "nearest"),
               word(WAFER_ATTR_coordinates, "half_pixel"), word(WAFER_ATTR_rounding, "floor"),
               real(WAFER_ATTR_cubic_a, -0.75), whole(WAFER_ATTR_exclude_outside, 0)));
  bench_check(&b, "dims of 1");
}

/* Rows that are taken in several times, none, and from the end. */
static void scatters(void) {
  static const char *const modes[] = {"none", "add", "mul", "max", "min"};
  for (size_t m = 0; m < WAFER_COUNT(modes); m++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "7x3x5", false);
    uint32_t i = bench_input(&b, WAFER_DTYPE_i64, "4x6", false);
    uint32_t updates = bench_input(&b, WAFER_DTYPE_f32, "4x6x3x5", false);
    bench_output(&b, NODE(&b, scatter, (x, i, updates), word(WAFER_ATTR_mode, modes[m])));
    bench_check(&b, modes[m]);
  }
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_i64, "5", false),
           i = bench_input(&b, WAFER_DTYPE_i64, "9", false);
  uint32_t updates = bench_input(&b, WAFER_DTYPE_i64, "9", false);
  bench_output(&b, NODE(&b, scatter, (x, i, updates), word(WAFER_ATTR_mode, "none")));
  bench_check(&b, "scatter of whole numbers");
}

static void gathers(void) {
  for (int64_t axis = 0; axis < 3; axis++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "4x5x6", false),
             i = bench_input(&b, WAFER_DTYPE_i64, "2x3", false);
    bench_output(&b, NODE(&b, gather, (x, i), whole(WAFER_ATTR_axis, axis)));
    bench_check(&b, "gather");
  }
  for (int64_t axis = 0; axis < 3; axis++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "4x5x6x7", false),
             i = bench_input(&b, WAFER_DTYPE_i64, "4x5x3", false);
    bench_output(&b, NODE(&b, gather_batched, (x, i), whole(WAFER_ATTR_axis, axis)));
    bench_check(&b, "gather_batched");
  }
}

/* Every elementwise op on every type that the oracle knows it for. */
static void maps(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f64, WAFER_DTYPE_i32,
                                      WAFER_DTYPE_i64, WAFER_DTYPE_u8,  WAFER_DTYPE_i8,
                                      WAFER_DTYPE_u32, WAFER_DTYPE_bool};
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++)
    for (size_t t = 0; t < WAFER_COUNT(types); t++) {
      const wafer_op_info *info = wafer_op_get((wafer_op)op);
      if (!(info->traits & WAFER_TRAIT_MAP) || op == WAFER_OP_cast) continue;
      bench b = bench_start();
      uint32_t operands[3] = {0};
      for (uint32_t i = 0; i < info->most; i++)
        operands[i] = bench_input(&b, op == WAFER_OP_select && i == 0 ? WAFER_DTYPE_bool : types[t],
                                  i == 0   ? "2x7x3x5"
                                  : i == 1 ? "7x1x1"
                                           : "",
                                  false);
      wafer_attr attrs[] = {real(WAFER_ATTR_min, -1.0), real(WAFER_ATTR_max, 1.0),
                            whole(WAFER_ATTR_truncate, 0), whole(WAFER_ATTR_negative, 1),
                            whole(WAFER_ATTR_positive, 0)};
      wafer_type in[3], out;
      for (uint32_t i = 0; i < info->most; i++) in[i] = b.inputs[operands[i]];
      wafer_attrs ordered = bench_attrs(&b, (wafer_op)op, attrs, 5);
      wafer_loc nowhere = wafer_at_file(NULL);
      bool valid =
          wafer_op_infer(NULL, nowhere, (wafer_op)op, &ordered, info->most, in, &out) == WAFER_OK;
      bool divides = op == WAFER_OP_div || op == WAFER_OP_mod || op == WAFER_OP_pow;
      if (valid && !(divides && !wafer_dtype_is_float(types[t])))
        bench_output(&b, bench_node(&b, (wafer_op)op, operands, info->most, attrs, 5)),
            bench_check(&b, info->name);
      else
        wafer_arena_destroy(b.arena);
    }
}

static void divides_integers(void) {
  static const wafer_op ops[] = {WAFER_OP_div, WAFER_OP_mod, WAFER_OP_pow};
  for (size_t o = 0; o < WAFER_COUNT(ops); o++)
    for (int truncate = 0; truncate < 2; truncate++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_i32, "4x9", false),
               y = bench_input(&b, WAFER_DTYPE_i32, "4x9", false);
      for (int i = 0; i < 36; i++)
        if (((int32_t *)b.data[y])[i] <= 0)
          ((int32_t *)b.data[y])[i] = ops[o] == WAFER_OP_pow ? 0 : -2;
      uint32_t operands[] = {x, y};
      wafer_attr attrs[] = {whole(WAFER_ATTR_truncate, truncate)};
      bench_output(&b, bench_node(&b, ops[o], operands, 2, attrs, 1));
      bench_check(&b, wafer_op_get(ops[o])->name);
    }
}

static void casts(void) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f64, WAFER_DTYPE_i32,
                                      WAFER_DTYPE_i64, WAFER_DTYPE_i8,  WAFER_DTYPE_bool,
                                      WAFER_DTYPE_f16, WAFER_DTYPE_bf16};
  for (size_t i = 0; i < WAFER_COUNT(types); i++)
    for (size_t j = 0; j < WAFER_COUNT(types); j++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, types[i], "3x50", false);
      bench_output(&b, NODE(&b, cast, (x), word(WAFER_ATTR_to, wafer_dtype_name(types[j]))));
      bench_check_within(&b, wafer_dtype_name(types[j]), 0.0);
    }
}

/* A chain whose values change width: a register may not be written over what is read from it. */
static void widens_inside_a_chain(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "3x500", false),
           y = bench_input(&b, WAFER_DTYPE_f32, "3x500", false);
  uint32_t same = NODE(&b, less, (x, y));
  uint32_t mask = NODE(&b, cast, (same), word(WAFER_ATTR_to, "f32"));
  bench_output(&b, NODE(&b, mul, (x, mask)));
  bench_check_within(&b, "less, cast, mul", 0.0);
}

/* Operands that broadcast in every way, longer than a block. */
static void broadcasts(void) {
  static const char *const shapes[] = {"3x40x17x11", "40x1x1", "1x40x1x1", "3x1x1x1",   "17x1",
                                       "11",         "",       "3x40x1x1", "1x1x17x11", "3x1x17x1"};
  for (size_t i = 0; i < WAFER_COUNT(shapes); i++)
    for (int left = 0; left < 2; left++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_f32, shapes[0], false),
               y = bench_input(&b, WAFER_DTYPE_f32, shapes[i], i % 2);
      uint32_t s = left ? NODE(&b, sub, (y, x)) : NODE(&b, sub, (x, y));
      bench_output(&b, NODE(&b, mul, (s, y)));
      b.most_stages = 1;
      bench_check(&b, shapes[i]);
    }
}

/* Element sizes change along the chain; the pool's result is overwritten by the last one. */
static void changes_types_on_the_way(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x1x20x70", false);
  uint32_t p = NODE(&b, max_pool, (x), INTS(kernel, 3, 3), INTS(strides, 1, 1),
                    INTS(dilations, 1, 1), INTS(pads, 1, 1, 1, 1), whole(WAFER_ATTR_ceil_mode, 0));
  uint32_t peak = NODE(&b, equal, (x, p)),
           mask = NODE(&b, cast, (peak), word(WAFER_ATTR_to, "f32"));
  uint32_t wide = NODE(&b, cast, (mask), word(WAFER_ATTR_to, "f64"));
  uint32_t back = NODE(&b, cast, (wide), word(WAFER_ATTR_to, "f32"));
  uint32_t none = NODE(&b, not, (peak)), y = NODE(&b, mul, (x, back));
  bench_output(&b, NODE(&b, select, (none, p, y)));
  b.most_stages = 1;
  bench_check(&b, "types on the way");
}

/* f16 storage: what a kernel stores is rounded, what passes inside is not. */
static void rounds_what_it_stores(void) {
  bench b = bench_start();
  b.body.storage = WAFER_DTYPE_f16;
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x40", false),
           w = bench_input(&b, WAFER_DTYPE_f32, "40", true);
  for (int i = 0; i < 40; i++) wafer_round_f16((float *)b.data[w] + i, 1);
  uint32_t y = NODE(&b, add, (x, w));
  uint32_t z = NODE(&b, mul, (y, y));
  wafer_round_f16(b.data[z], 40);
  bench_output(&b, z);
  bench_check_within(&b, "f16 storage", 0.0);
}

static void reports_a_bad_index(void) {
  bench b = bench_start();
  exec_tensor *in[2], *out[1];
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "4x5", false),
           i = bench_input(&b, WAFER_DTYPE_i64, "3", false);
  bench_output(&b, NODE(&b, gather, (x, i), whole(WAFER_ATTR_axis, 0)));
  caught last;
  wafer_diag diag = caught_diag(&last);
  exec_program *p = bench_program(&b, 1, 1, in, out, false);
  thread_pool *pool = thread_pool_create(1);
  p->diag = &diag;
  memcpy(p->frame.address[in[i]->buffer], (int64_t[]){0, -5, 4}, 24);
  CU_ASSERT(exec_program_run(p, pool, 0, p->stage_count) == WAFER_TRAP);
  CU_ASSERT_STRING_EQUAL(last.text, "index -5 (element 1) lies outside the dimension of 4 that it "
                                    "picks from");
  thread_pool_destroy(pool);
  exec_program_destroy(p);
  wafer_arena_destroy(b.arena);
}

CU_TestInfo tests_exec_values[] = {
    {"softmaxes", softmaxes},
    {"normalizes", normalizes},
    {"moves elements", moves},
    {"resizes", resizes},
    {"resizes_dims_of_one", resizes_dims_of_one},
    {"gathers", gathers},
    {"scatters", scatters},
    {"finds extremes", finds_extremes},
    {"runs every elementwise op", maps},
    {"divides integers", divides_integers},
    {"casts", casts},
    {"widens inside a chain", widens_inside_a_chain},
    {"broadcasts", broadcasts},
    {"changes types on the way", changes_types_on_the_way},
    {"rounds what it stores", rounds_what_it_stores},
    {"reports an index out of range", reports_a_bad_index},
    CU_TEST_INFO_NULL,
};
