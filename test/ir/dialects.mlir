// The dialect files load in stock MLIR too.
// REQUIRES: mlir-opt
// RUN: cat %dialects/nn.irdl.mlir %dialects/wafer.irdl.mlir > %t
// RUN: mlir-opt --irdl-file=%t %s | FileCheck %s
// CHECK: nn.clip
// CHECK: wafer.stream
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "nn.clip"(%x) {min = 0.0 : f64, max = 0x7FF0000000000000 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "wafer.stream"(%0) {from = array<i64: 0, 0, 0, 0, 0, 0>, to = array<i64: 2, 0, 0, 4, 1, 1, 1, 4>, route = array<i64: 0, 0, 3, 0>,
                           color = 1 : i64, words = 4 : i64, cycles = 4 : i64, latency = 5 : i64, depth = 1 : i64}
      : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
