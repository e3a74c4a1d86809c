/* passes/fuse/group.c: which ops form one kernel. */
#include "passes/fuse/group.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#define MOST 400

typedef struct program {
  uint32_t count;
  group_op ops[MOST];
} program;

/* Adds an op of one of three shapes: 's' is small (after a reduction), 'h' has more than a core
 * would hold for nothing, anything else is large. */
static uint32_t op(program *p, wafer_op kind, char size, uint32_t count, const uint32_t *operands) {
  group_op *made = &p->ops[p->count];
  int64_t last = size == 's' ? 1 : size == 'h' ? GROUP_WHOLE : 8;
  *made = (group_op){.op = kind, .operand_count = count, .shape = {.rank = 2, .dims = {4, last}}};
  for (uint32_t i = 0; i < count; i++) made->operands[i] = operands[i];
  return p->count++;
}

static uint32_t op1(program *p, wafer_op kind, uint32_t a) {
  return op(p, kind, 'l', 1, (uint32_t[]){a});
}
static uint32_t op2(program *p, wafer_op kind, uint32_t a, uint32_t b) {
  return op(p, kind, 'l', 2, (uint32_t[]){a, b});
}

#define ARGUMENT 10000

/* The groups as text: a letter per op, in the order of ops; '.' for sources. */
static void expect_of(program *p, bool whole, const char *name, const char *want) {
  wafer_arena *arena = wafer_arena_create();
  grouping groups;
  char got[MOST + 1] = {0};
  for (uint32_t i = 0; i < p->count; i++)
    for (uint32_t k = 0; k < p->ops[i].operand_count; k++)
      if (p->ops[i].operands[k] >= ARGUMENT) p->ops[i].operands[k] += p->count - ARGUMENT;
  CU_ASSERT_EQUAL_FATAL(group_ops(NULL, arena, p->count, p->ops, whole, &groups), WAFER_OK);
  for (uint32_t i = 0; i < p->count; i++)
    got[i] = groups.of[i] == UINT32_MAX ? '.' : (char)('a' + groups.of[i]);
  CU_ASSERT_STRING_EQUAL(got, want);
  if (strcmp(got, want)) printf("  %s: %s instead of %s\n", name, got, want);
  wafer_arena_destroy(arena);
}

static void expect(program *p, const char *name, const char *want) {
  expect_of(p, false, name, want);
}

static void tails(void) {
  program p = {0};
  uint32_t w = op(&p, WAFER_OP_weight, 'l', 0, NULL);
  uint32_t c = op2(&p, WAFER_OP_conv, ARGUMENT, w);
  uint32_t three = op(&p, WAFER_OP_constant, 's', 0, NULL);
  uint32_t a = op2(&p, WAFER_OP_add, c, three), k = op1(&p, WAFER_OP_clip, a);
  uint32_t m = op2(&p, WAFER_OP_mul, c, k); /* a diamond: c is used twice, inside */
  op2(&p, WAFER_OP_add, ARGUMENT + 1, m);
  expect(&p, "hardswish and a residual", ".a.aaaa");
}

/* relu(x * w) + x, the product summing over a dim of x that the sum cuts as its own, or not. */
static void residual(char size, bool mixes, const char *want) {
  program p = {0};
  uint32_t w = op(&p, WAFER_OP_weight, size, 0, NULL);
  uint32_t x = op(&p, WAFER_OP_max_pool, size, 1, (uint32_t[]){ARGUMENT});
  uint32_t c = op(&p, WAFER_OP_conv, size, 2, (uint32_t[]){x, w});
  p.ops[c].mixes = mixes;
  uint32_t a = op(&p, WAFER_OP_relu, size, 1, (uint32_t[]){c});
  op(&p, WAFER_OP_add, size, 2, (uint32_t[]){a, x});
  expect(&p, "a residual of the product's own operand", want);
}

static void residuals_of_own_operands(void) {
  residual('h', true, ".abbc");
  residual('h', false, ".abbb");
  residual('l', true, ".abbb");
}

static void outside_use_closes(void) {
  program p = {0};
  uint32_t c = op1(&p, WAFER_OP_max_pool, ARGUMENT);
  uint32_t d = op1(&p, WAFER_OP_max_pool, c); /* closes c's group */
  uint32_t s = op1(&p, WAFER_OP_sigmoid, c);
  op2(&p, WAFER_OP_mul, d, s);
  expect(&p, "two users", "acbc");
}

static void shapes_must_agree(void) {
  program p = {0};
  uint32_t r = op(&p, WAFER_OP_reduce_mean, 's', 1, (uint32_t[]){ARGUMENT});
  uint32_t s = op(&p, WAFER_OP_sigmoid, 's', 1, (uint32_t[]){r});
  op2(&p, WAFER_OP_mul, ARGUMENT, s);
  expect(&p, "broadcast after a reduction", "aab");
}

static void maps_form_kernels(void) {
  program p = {0};
  uint32_t a = op1(&p, WAFER_OP_relu, ARGUMENT), b = op1(&p, WAFER_OP_exp, a);
  op2(&p, WAFER_OP_add, b, ARGUMENT + 1);
  op1(&p, WAFER_OP_relu, ARGUMENT + 2);
  expect(&p, "connected elementwise ops", "aaab");
}

static void views_form_trees(void) {
  program p = {0};
  uint32_t a = op1(&p, WAFER_OP_reshape, ARGUMENT), b = op1(&p, WAFER_OP_transpose, ARGUMENT + 1);
  uint32_t c = op2(&p, WAFER_OP_concat, a, b), d = op2(&p, WAFER_OP_concat, c, ARGUMENT + 2);
  op1(&p, WAFER_OP_relu, d);
  expect(&p, "a chain of concats", "aaaaa");
  program q = {0};
  uint32_t t = op1(&q, WAFER_OP_transpose, ARGUMENT);
  op1(&q, WAFER_OP_slice, t);
  op1(&q, WAFER_OP_slice, t);
  expect(&q, "slices of one value", "abc");
}

/* Two parts of 64 rows each, joined along these, which `groups` and 64 / groups dims take the place
 * of, groups alone being cut. */
static void concat_then_reshape(int64_t columns, int64_t groups, const char *want) {
  program p = {0};
  uint32_t c = op2(&p, WAFER_OP_concat, ARGUMENT, ARGUMENT + 1);
  uint32_t r = op1(&p, WAFER_OP_reshape, c);
  op1(&p, WAFER_OP_transpose, r);
  p.ops[c].moved = 1u << 2;
  p.ops[c].taken = 64 * columns;
  p.ops[c].shape = (wafer_shape){.rank = 3, .dims = {1, 64, columns}};
  for (uint32_t i = r; i < p.count; i++)
    p.ops[i].shape = (wafer_shape){.rank = 4, .dims = {1, groups, 64 / groups, columns}};
  expect(&p, "a concatenation that is reshaped", want);
}

static void crowded_concats_stand_apart(void) {
  concat_then_reshape(2100, 4, "abb");
  concat_then_reshape(2100, 1, "aaa");  /* dims of one index are no parts, those behind are */
  concat_then_reshape(2100, 64, "aaa"); /* all are cut */
  concat_then_reshape(128, 4, "aaa");   /* a core has room for a fourth of it */
}

/* 128 rows of 33 x 63, of which 32 x 32 are taken, and the rows become 4 x 32; one of 197 rows. */
static void crowded_slices_stand_apart(void) {
  program p = {0};
  uint32_t c = op1(&p, WAFER_OP_slice, ARGUMENT), r = op1(&p, WAFER_OP_reshape, c);
  p.ops[c].shape = (wafer_shape){.rank = 3, .dims = {128, 32, 32}};
  p.ops[c].moved = 1u << 1 | 1u << 2;
  p.ops[c].taken = 128 * 33 * 63;
  p.ops[r].shape = (wafer_shape){.rank = 5, .dims = {4, 32, 1, 32, 32}};
  expect(&p, "a slice whose rows are divided", "ab");
  program q = {0};
  c = op1(&q, WAFER_OP_slice, ARGUMENT), r = op1(&q, WAFER_OP_reshape, c);
  q.ops[c].shape = (wafer_shape){.rank = 3, .dims = {1, 1, 192}};
  q.ops[c].moved = 1u << 1;
  q.ops[c].taken = 197 * 192;
  q.ops[r].shape = (wafer_shape){.rank = 2, .dims = {1, 192}};
  expect(&q, "one row", "aa");
}

/* Eight parts, joined two by two; cores copy few parts where these are small. */
static void concat_of_eight(int64_t elements, bool whole, const char *want) {
  program p = {0};
  for (uint32_t i = 0; i < 4; i++) op2(&p, WAFER_OP_concat, ARGUMENT + 2 * i, ARGUMENT + 2 * i + 1);
  op2(&p, WAFER_OP_concat, 0, 1);
  op2(&p, WAFER_OP_concat, 2, 3);
  op2(&p, WAFER_OP_concat, 4, 5);
  op1(&p, WAFER_OP_transpose, 6);
  for (uint32_t i = 0; i < p.count; i++)
    p.ops[i].shape = (wafer_shape){.rank = 2, .dims = {i < 4 ? 2 : i < 6 ? 4 : 8, elements}};
  expect_of(&p, whole, "a tree of concats", want);
}

static void small_parts_form_trees_of_kernels(void) {
  concat_of_eight(GROUP_SMALL_PART, false, "aabbabcc");
  concat_of_eight(GROUP_SMALL_PART, true, "aaaaaaaa");
  concat_of_eight(GROUP_SMALL_PART + 1, false, "aaaaaaaa");
}

static void sizes_are_bounded(void) {
  program p = {0};
  uint32_t last = ARGUMENT;
  for (uint32_t i = 0; i < GROUP_MAX_OPS + 1; i++) last = op1(&p, WAFER_OP_relu, last);
  char want[MOST + 1] = {0};
  memset(want, 'a', GROUP_MAX_OPS);
  want[GROUP_MAX_OPS] = 'b';
  expect(&p, "a long chain", want);
  program q = {0};
  last = op1(&q, WAFER_OP_relu, ARGUMENT);
  for (uint32_t i = 0; i < GROUP_MAX_INPUTS; i++)
    last = op2(&q, WAFER_OP_add, last, ARGUMENT + 1 + i);
  expect(&q, "many inputs", "aaaaaaaab");
}

/* A reduction over places follows a convolution that nothing else has used; others do not. */
static void reductions_follow(void) {
  program p = {0};
  uint32_t c = op2(&p, WAFER_OP_conv, ARGUMENT, ARGUMENT + 1), s = op1(&p, WAFER_OP_sigmoid, c);
  uint32_t m = op(&p, WAFER_OP_reduce_mean, 's', 1, (uint32_t[]){s});
  p.ops[m].keeps = 2;
  p.ops[m].behind = true;
  op(&p, WAFER_OP_sigmoid, 's', 1, (uint32_t[]){m});
  op2(&p, WAFER_OP_mul, s, 3);
  expect(&p, "a squeeze", "aaabc");
  p.ops[4].operands[1] = m;
  expect(&p, "the mean itself scales", "aaabc");
  p.ops[4].operands[1] = 3;
  p.ops[m].keeps = 1;
  expect(&p, "over channels, too", "aabbc");
  program q = {0};
  c = op2(&q, WAFER_OP_conv, ARGUMENT, ARGUMENT + 1);
  op1(&q, WAFER_OP_max_pool, c);
  m = op(&q, WAFER_OP_reduce_mean, 's', 1, (uint32_t[]){c});
  q.ops[m].keeps = 2;
  q.ops[m].behind = true;
  expect(&q, "used before", "abc");
  program g = {0};
  c = op2(&g, WAFER_OP_matmul, ARGUMENT, ARGUMENT + 1);
  m = op(&g, WAFER_OP_reduce_mean, 's', 1, (uint32_t[]){c});
  g.ops[m].keeps = 2;
  g.ops[m].behind = true;
  expect(&g, "of a product", "ab");
}

/* What is computed of all pairs of elements is summed up where it is made; what is no larger than
 * what it is made of goes to a kernel of the sum. */
static void reductions_of_pairs_follow(void) {
  program p = {0};
  uint32_t pairs = op2(&p, WAFER_OP_less, ARGUMENT, ARGUMENT + 1);
  uint32_t sum = op(&p, WAFER_OP_reduce_sum, 's', 1, (uint32_t[]){pairs});
  p.ops[pairs].shape = (wafer_shape){.rank = 3, .dims = {1, 128, 128}};
  p.ops[pairs].taken = 256;
  p.ops[sum].keeps = 2;
  expect(&p, "ranks", "aa");
  p.ops[pairs].taken = 128 * 128;
  expect(&p, "a sum", "ab");
}

/* A group that grew after another one used its value would depend on itself. */
static void no_cycles(void) {
  program p = {0};
  uint32_t x = op1(&p, WAFER_OP_relu, ARGUMENT);
  uint32_t r = op1(&p, WAFER_OP_softmax, x);
  op2(&p, WAFER_OP_add, x, r);
  expect(&p, "round a softmax", "abb");
  p.ops[2].operands[0] = r;
  p.ops[2].operands[1] = x;
  expect(&p, "the other way round", "abb");
}

CU_TestInfo tests_group[] = {
    {"anchors take their elementwise tails", tails},
    {"sums with what an anchor multiplies may stand apart", residuals_of_own_operands},
    {"a use from outside closes a group", outside_use_closes},
    {"tails have the anchor's shape", shapes_must_agree},
    {"elementwise ops form kernels", maps_form_kernels},
    {"views form trees", views_form_trees},
    {"concatenations of many small parts are several kernels", small_parts_form_trees_of_kernels},
    {"concatenations have kernels of their own where reshapes leave few parts",
     crowded_concats_stand_apart},
    {"and slices", crowded_slices_stand_apart},
    {"groups are bounded", sizes_are_bounded},
    {"reductions over places follow their anchors", reductions_follow},
    {"reductions of pairs are where the pairs are made", reductions_of_pairs_follow},
    {"groups never depend on themselves", no_cycles},
    CU_TEST_INFO_NULL,
};
