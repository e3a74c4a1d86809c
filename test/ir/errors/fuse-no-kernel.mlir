// RUN: not wafer-opt %s --passes=shape,fuse 2>&1 | FileCheck %s
// CHECK: node 'bn1': error: no kernel computes nn.batch_norm, run pass simplify before fuse
func.func @main(%x: tensor<1x2x4x4xf32>, %c: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %0 = "nn.batch_norm"(%x, %c, %c, %c, %c) {epsilon = 1.0e-5 : f64}
      : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32> loc("bn1")
  return %0 : tensor<1x2x4x4xf32>
}
