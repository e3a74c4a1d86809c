// RUN: wafer-opt %s --passes=shape,fuse | FileCheck %s

// Elementwise branches that an op joins are one kernel with it; one that others have used is not.
// CHECK-LABEL: func.func @main
// CHECK: call @used
// CHECK: call @sum
// CHECK-NEXT: call @b(
// CHECK-NEXT: return
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>)
    -> (tensor<4xf32>, tensor<4x8xf32>) {
  // CHECK: func.func private @b(
  // CHECK-SAME: wafer.anchor = 1 : i64, wafer.family = "map"
  // CHECK-NEXT: "nn.exp"
  // CHECK-NEXT: "nn.neg"
  // CHECK-NEXT: "nn.add"
  // CHECK-NEXT: "nn.mul"
  // CHECK-NEXT: return
  %used = "nn.sqrt"(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("used")
  %sum = "nn.reduce_sum"(%used) {axes = array<i64: 1>, keepdims = 0 : i64} : (tensor<4x8xf32>) -> tensor<4xf32> loc("sum")
  %a = "nn.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("a")
  %b = "nn.neg"(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("b")
  %both = "nn.add"(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("both")
  %out = "nn.mul"(%both, %used) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("out")
  return %sum, %out : tensor<4xf32>, tensor<4x8xf32>
}
