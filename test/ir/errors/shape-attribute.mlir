// RUN: not wafer-opt %s --passes=shape 2>&1 | FileCheck %s
// CHECK: error: attribute 'axis' of nn.softmax must be an i64
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "nn.softmax"(%x) {axis = 1 : i32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %0 : tensor<4x8xf32>
}
