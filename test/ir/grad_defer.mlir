// RUN: wafer-opt %s --passes=default:grad --train=cross-entropy | FileCheck %s

// A table that head and embedding share: the head's part of its gradient, the product of 32x4 and
// 4x64, is made last, right before the embedding's part is added to it, not while the layer's
// activations wait. Its factors wait instead.
// CHECK: %[[G:[0-9]+]] = "nn.mul"({{.*}}%{{[a-z0-9]+}}) : (tensor<4x64xf32>, tensor<f32>)
// CHECK-NOT: -> tensor<32x64xf32>
// The layer's gradient comes first.
// CHECK: "nn.matmul"{{.*}} -> tensor<32x32xf32>
// CHECK: %[[ROWS:[0-9]+]] = "nn.scatter
// CHECK: %[[HEAD:[0-9]+]] = "nn.matmul"({{.*}}, %[[G]]) : (tensor<32x4xf32>, tensor<4x64xf32>) -> tensor<32x64xf32>
// CHECK-NEXT: %[[TURNED:[0-9]+]] = "nn.transpose"(%[[HEAD]])
// CHECK-NEXT: "nn.add"(%[[TURNED]], %[[ROWS]])
func.func @main(%t: tensor<4xi64> {wafer.name = "tokens"},
                %w: tensor<64x32xf32> {wafer.name = "w", wafer.of = "w", wafer.role = "parameter"},
                %v: tensor<32x32xf32> {wafer.name = "v", wafer.of = "v", wafer.role = "parameter"})
    -> (tensor<4x64xf32> {wafer.name = "y"}) {
  %x = "nn.gather"(%w, %t) {axis = 0 : i64} : (tensor<64x32xf32>, tensor<4xi64>) -> tensor<4x32xf32> loc("embedding")
  %m = "nn.matmul"(%x, %v) : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32> loc("layer")
  %a = "nn.relu"(%m) : (tensor<4x32xf32>) -> tensor<4x32xf32> loc("layer")
  %s = "nn.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<64x32xf32>) -> tensor<32x64xf32> loc("head")
  %y = "nn.matmul"(%a, %s) : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32> loc("head")
  return %y : tensor<4x64xf32>
}
