// RUN: wafer-opt %s --passes=shape,simplify | FileCheck %s
// RUN: wafer-opt %s --passes=shape,simplify | wafer-opt - --passes=simplify | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<1x2x14x14xf32>, %[[W:arg1]]: tensor<4x2x3x3xf32>, %[[S:arg2]]: tensor<1x2x5x5xf32>
func.func @main(%x: tensor<1x2x14x14xf32>, %w: tensor<4x2x3x3xf32>, %s: tensor<1x2x5x5xf32>)
    -> (tensor<1x4x14x14xf32>, tensor<1x4x14x14xf32>, tensor<1x4x10x14xf32>, tensor<1x4x3x3xf32>) {

  // All taps but the one in the middle meet pads alone.
  // CHECK: %[[ONE:.*]] = "nn.slice"(%[[W]]) {shape = array<i64: 4, 2, 1, 1>, starts = array<i64: 0, 0, 1, 1>, steps = array<i64: 1, 1, 1, 1>}
  // CHECK: "nn.conv"(%[[X]], %[[ONE]]) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}
  %a = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 36, 14>, pads = array<i64: 36, 14, 36, 14>}
      : (tensor<1x2x14x14xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x14x14xf32>

  // A dilation of 13 reaches the last column; rows stay.
  // CHECK: "nn.conv"(%[[X]], %[[W]]) {dilations = array<i64: 1, 13>
  %b = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 13>, pads = array<i64: 1, 13, 1, 13>}
      : (tensor<1x2x14x14xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x14x14xf32>

  // Of windows of 27 rows that begin 13 before the first one, the first 10 meet it with two taps: of
  // weights that change these are too many to be moved for the one that does not.
  // CHECK: "nn.conv"(%[[X]], %[[W]]) {dilations = array<i64: 13, 1>, group = 1 : i64, pads = array<i64: 13, 1, 9, 1>
  %c = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 13, 1>, pads = array<i64: 13, 1, 9, 1>}
      : (tensor<1x2x14x14xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x10x14xf32>

  // What is left would begin behind the first element.
  // CHECK: "nn.conv"(%[[S]], %[[W]]) {dilations = array<i64: 4, 4>, group = 1 : i64, pads = array<i64: 3, 3, 3, 3>
  %d = "nn.conv"(%s, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 4, 4>, pads = array<i64: 3, 3, 3, 3>}
      : (tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  return %a, %b, %c, %d : tensor<1x4x14x14xf32>, tensor<1x4x14x14xf32>, tensor<1x4x10x14xf32>, tensor<1x4x3x3xf32>
}
