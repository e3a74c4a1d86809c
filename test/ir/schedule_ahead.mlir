// RUN: wafer-opt %s --passes=default:schedule --machine=wse2 --mode=streaming | FileCheck %s

// Products far shorter than the way from MemoryX: weights leave several phases before theirs.
// CHECK: "wafer.load"() {phase = 2 : i64}
// CHECK: "wafer.phase"() {index = 0 : i64
// CHECK: "wafer.phase"() {index = 2 : i64
// CHECK: wafer.ahead = 2 : i64
func.func @main(%v0: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w0 = "nn.weight"() {name = "w0"} : () -> tensor<64x64xf32>
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<64x64xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<64x64xf32>
  %w3 = "nn.weight"() {name = "w3"} : () -> tensor<64x64xf32>
  %w4 = "nn.weight"() {name = "w4"} : () -> tensor<64x64xf32>
  %v1 = "nn.matmul"(%v0, %w0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %v2 = "nn.matmul"(%v1, %w1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %v3 = "nn.matmul"(%v2, %w2) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %v4 = "nn.matmul"(%v3, %w3) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %v5 = "nn.matmul"(%v4, %w4) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %v5 : tensor<64x64xf32>
}
