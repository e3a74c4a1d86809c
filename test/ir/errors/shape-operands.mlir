// RUN: not wafer-opt %s --passes=shape 2>&1 | FileCheck %s
// CHECK: shape-operands.mlir:5:{{[0-9]+}}: error:
// CHECK-NOT: error:
func.func @main(%x: tensor<4x8xf32>, %y: tensor<7xf32>) -> tensor<4x8xf32> {
  %0 = "nn.add"(%x, %y) : (tensor<4x8xf32>, tensor<7xf32>) -> tensor<4x8xf32>
  func.return %0 : tensor<4x8xf32>
}
