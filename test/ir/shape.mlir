// RUN: wafer-opt %s --passes=shape | FileCheck %s

// Kernels come first: the call's type is what the kernel returns.
// CHECK: wafer.facts = "SHAPED"
// CHECK: func.func @main(%arg0: tensor<1x3x9x8xf32> {wafer.name = "x"}) -> (tensor<2x60xf32> {wafer.name = "y"})
func.func @main(%x: tensor<1x3x9x8xf32> {wafer.name = "x"}) -> (tensor<?x?xf32> {wafer.name = "y"}) {
  %w = "nn.weight"() {name = "w"} : () -> tensor<6x3x3x3xf32>
  // CHECK: "nn.conv"{{.*}} -> tensor<1x6x5x4xf32>
  %0 = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x9x8xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x5x4xf32>
  // CHECK: call @k{{.*}} -> tensor<1x6x5x4xf32>
  %1 = func.call @k(%0) : (tensor<1x6x5x4xf32>) -> tensor<1x?x?x4xf32>
  // CHECK: "nn.reshape"{{.*}} -> tensor<2x60xf32>
  %2 = "nn.reshape"(%1) {shape = array<i64: 2, 60>} : (tensor<1x?x?x4xf32>) -> tensor<?x?xf32>
  func.return %2 : tensor<?x?xf32>
}

// CHECK: func.func private @k(%arg0: tensor<1x6x5x4xf32>) -> tensor<1x6x5x4xf32>
func.func private @k(%x: tensor<1x6x5x4xf32>) -> tensor<1x?x?x4xf32> attributes {wafer.family = "map", wafer.anchor = 0 : i64} {
  // CHECK: "nn.relu"{{.*}} -> tensor<1x6x5x4xf32>
  %0 = "nn.relu"(%x) : (tensor<1x6x5x4xf32>) -> tensor<1x?x?x4xf32>
  func.return %0 : tensor<1x?x?x4xf32>
}
