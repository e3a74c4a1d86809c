// RUN: wafer-opt %s --passes=default:place --machine=small16 | FileCheck %s
// RUN: wafer-opt %s --passes=default:place --machine=small16 --mode=streaming | FileCheck %s --check-prefix=STREAM

// One phase, side by side from the corner on.
// CHECK: func.func private @first({{.*}}wafer.phase = 0 : i64, wafer.rect = array<i64: 0, {{[0-9]+}}, [[W1:[0-9]+]], {{[0-9]+}}>
// CHECK: func.func private @second({{.*}}wafer.phase = 0 : i64, wafer.rect = array<i64: [[W1]], {{[0-9]+}}, {{[0-9]+}}, {{[0-9]+}}>
// CHECK: func.func private @soft({{.*}}wafer.phase = 0 : i64, wafer.rect = array<i64:

// A phase each, all on the same corner.
// STREAM: func.func private @first({{.*}}wafer.phase = 0 : i64, wafer.rect = array<i64: 0, 0,
// STREAM: func.func private @second({{.*}}wafer.phase = 1 : i64, wafer.rect = array<i64: 0, 0,
// STREAM: func.func private @soft({{.*}}wafer.phase = 2 : i64, wafer.rect = array<i64: 0, 0,
func.func @main(%x: tensor<1x3x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x8x8xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<8x3x3x3xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<8x8x3x3xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x8x8xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("second")
  %s = "nn.softmax"(%c2) {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("soft")
  %y = "nn.mul"(%c1, %s) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("gate")
  return %y : tensor<1x8x8x8xf32>
}
