// RUN: wafer-opt %s --passes=shape,simplify | FileCheck %s
// RUN: wafer-opt %s --passes=shape,simplify | wafer-opt - --passes=simplify | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<1x1x30x31xf32>, %[[W:arg1]]: tensor<1x1x3x3xf32>
func.func @main(%x: tensor<1x1x30x31xf32>, %w: tensor<1x1x3x3xf32>)
    -> (tensor<1x1x3x7xf32>, tensor<1x1x8x3xf32>, tensor<1x1x27x28xf32>) {

  // Rows 9, 19 and 29 alone lie in a window, and columns 0, 5, ... 30.
  // CHECK: %[[SEEN:.*]] = "nn.slice"(%[[X]]) {shape = array<i64: 1, 1, 3, 7>, starts = array<i64: 0, 0, 9, 0>, steps = array<i64: 1, 1, 10, 5>}
  // CHECK: "nn.max_pool"(%[[SEEN]]) {ceil_mode = 0 : i64, dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<1x1x3x7xf32>
  %p = "nn.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 10, 5>, dilations = array<i64: 10, 5>, pads = array<i64: 1, 5, 0, 0>, ceil_mode = 0 : i64}
      : (tensor<1x1x30x31xf32>) -> tensor<1x1x3x7xf32>

  // Stride 4 and dilation 6: every second row. Stride 9 and dilation 2 have no divisor.
  // CHECK: %[[ROWS:.*]] = "nn.slice"(%[[X]]) {shape = array<i64: 1, 1, 15, 31>, starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 2, 1>}
  // CHECK: "nn.conv"(%[[ROWS]], %[[W]]) {dilations = array<i64: 3, 2>, group = 1 : i64, pads = array<i64: 3, 0, 3, 0>, strides = array<i64: 2, 9>}
  %c = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 4, 9>, dilations = array<i64: 6, 2>, pads = array<i64: 6, 0, 5, 0>}
      : (tensor<1x1x30x31xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x8x3xf32>

  // Every element is read.
  // CHECK: "nn.conv"(%[[X]], %[[W]]) {dilations = array<i64: 2, 2>{{.*}}strides = array<i64: 1, 1>}
  %d = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>}
      : (tensor<1x1x30x31xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x27x28xf32>
  return %p, %c, %d : tensor<1x1x3x7xf32>, tensor<1x1x8x3xf32>, tensor<1x1x27x28xf32>
}
