// RUN: not wafer-opt %s --passes=default:mode --machine=small16 2>&1 | FileCheck %s

// No slices help where activations have no room.
// CHECK: node 'huge': error: streaming does not fit small16: kernel 'huge' needs {{[0-9]+}} bytes per core, 15360 are allowed
func.func @main(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = "nn.matmul"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> loc("huge")
  return %0 : tensor<2048x2048xf32>
}
