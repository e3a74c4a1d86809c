// RUN: wafer-opt %s --passes=shape,fuse | not wafer-opt - --passes=shape,fuse 2>&1 | FileCheck %s
// CHECK: error: @main holds an op that is not of dialect nn: it is fused already, or not a model
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "nn.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
