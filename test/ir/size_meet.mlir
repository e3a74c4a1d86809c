// RUN: wafer-opt %s --passes=default:size --machine=wse2 --mode=pipelined | FileCheck %s

// A core of a pipeline receives, computes and sends in turn. So neighbours have rows that hold the same part of a value:
// image rows and columns, cut over rows alike, by all three (loops of a convolution: n, c, h, w, then its sums).
// CHECK: func.func private @first({{.*}}wafer.rows = array<i64: 1, 1, [[H:[0-9]+]], [[W:[0-9]+]], 1
// CHECK: func.func private @second({{.*}}wafer.rows = array<i64: 1, 1, [[H]], [[W]], 1
// CHECK: func.func private @third({{.*}}wafer.rows = array<i64: 1, 1, [[H]], [[W]], 1
func.func @main(%x: tensor<1x16x32x32xf32> {wafer.name = "x"}) -> (tensor<1x32x32x32xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<32x16x1x1xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<48x32x1x1xf32>
  %w3 = "nn.weight"() {name = "w3"} : () -> tensor<32x48x1x1xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x16x32x32xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x32x32xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x32x32x32xf32>, tensor<48x32x1x1xf32>) -> tensor<1x48x32x32xf32> loc("second")
  %c3 = "nn.conv"(%c2, %w3) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x48x32x32xf32>, tensor<32x48x1x1xf32>) -> tensor<1x32x32x32xf32> loc("third")
  return %c3 : tensor<1x32x32x32xf32>
}
