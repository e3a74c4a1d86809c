/* frontend/expand/expand_quantize.c: what quantized numbers are, and products of them. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "import_session.h"

static const struct {
  int64_t opset;
  const char *graph, *want;
} folded[] = {
    {13,
     "init a f32 3 = -9 1.5 900; init s f32 scalar = 2; init z u8 scalar = 10; "
     "QuantizeLinear a s z -> y",
     "3: 6 11 255"},
    {13,
     "init a u8 2x2 = 1 2 3 4; init s f32 2 = 2 3; init z u8 2 = 1 2; "
     "DequantizeLinear(axis=1) a s z -> y",
     "2x2: 0 0 4 6"},
    /* a scale in a vector of one, as quantizers write it, is for all of x: no axis is looked at */
    {13, "init a i32 3 = 1 2 -3; init s f32 1 = 0.5; init z i32 1 = 0; DequantizeLinear a s z -> y",
     "3: 0.5 1 -1.5"},
    {13, "init a f32 3 = -9 1.5 900; init s f32 1 = 2; init z u8 1 = 10; QuantizeLinear a s z -> y",
     "3: 6 11 255"},
    {13, "init a u8 scalar = 9; init s f32 1 = 0.5; DequantizeLinear a s -> y", "scalar: 4.5"},
    {13,
     "init a u8 1x2 = 1 2; init b u8 2x1 = 3 4; init z u8 scalar = 1; "
     "MatMulInteger a b z -> y",
     "1x1: 4"},
    {13, "init a f32 3 = 0 2.55 1.5; DynamicQuantizeLinear a -> y s z", "3: 0 255 150"},
    {13, "init a u8 2 = 1 2; init b u8 2 = 3 4; MatMulInteger a b -> y", "scalar: 11"},
    /* a scale for each row of a, for each column of b */
    {13,
     "init a u8 2x2 = 1 2 3 4; init s f32 2 = 1 2; init z u8 2 = 0 1; init b i8 2x2 = 1 2 3 -4; "
     "init t f32 2 = 1 0.5; init w i8 2 = 0 1; init u f32 scalar = 1; init v i8 scalar = 0; "
     "QLinearMatMul a s z b t w u v -> y",
     "2x2: 7 -4 22 -13"},
    {13,
     "init a u8 2 = 1 2; init s f32 1 = 2; init z u8 1 = 1; init b i8 2x2 = 1 2 3 4; "
     "init t f32 2 = 1 0.5; init w i8 2 = 0 0; init u f32 1 = 1; init v i8 1 = 5; "
     "QLinearMatMul a s z b t w u v -> y",
     "2: 11 9"},
};

static void quantized_numbers_are_what_they_stand_for(void) {
  for (size_t i = 0; i < WAFER_COUNT(folded); i++)
    check_folded(folded[i].opset, folded[i].graph, folded[i].want);
}

CU_TestInfo tests_import_quantize[] = {
    {"quantized numbers are what they stand for", quantized_numbers_are_what_they_stand_for},
    CU_TEST_INFO_NULL,
};
