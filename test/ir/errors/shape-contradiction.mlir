// RUN: not wafer-opt %s --passes=shape 2>&1 | FileCheck %s
// CHECK: node 'block1/add': error: the result is 4x8 of f32 by the operands, but tensor<4x9xf32> in the module
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x9xf32> {
  %0 = "nn.add"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x9xf32> loc("block1/add")
  func.return %0 : tensor<4x9xf32>
}
