// Weights of a text have no data: they stay as they are, and so does the module.
// RUN: wafer-opt %s --passes=shape,fuse,prune | FileCheck %s
// RUN: not wafer-opt %s --passes=shape,prune 2>&1 | FileCheck %s --check-prefix=NEEDS
// CHECK: "nn.weight"() {name = "w"} : () -> tensor<8x4xf32>
// CHECK: call @
// CHECK-NEXT: return
// NEEDS: prune needs
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %w = "nn.weight"() {name = "w"} : () -> tensor<8x4xf32>
  %y = "nn.matmul"(%x, %w) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
