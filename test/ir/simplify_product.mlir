// RUN: wafer-opt %s --passes=shape,simplify | FileCheck %s
// RUN: wafer-opt %s --passes=shape,simplify | wafer-opt - --passes=simplify | FileCheck %s

// A matrix too large to be turned while compiling would be turned on the wafer for each sample: what it is multiplied with
// is turned instead, if that is less.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4096xf32>, %b: tensor<2x3x4096xf32>, %l: tensor<8192x4096xf32>, %s: tensor<1x64xf32>)
    -> (tensor<1x8192xf32>, tensor<2x3x8192xf32>, tensor<8192x8192xf32>, tensor<1x32xf32>) {
  // CHECK-DAG: %[[W:.*]] = "nn.weight"() {name = "w"}
  // CHECK-DAG: %[[T:.*]] = "nn.transpose"(%[[W]])
  // CHECK-DAG: %[[X:.*]] = "nn.reshape"(%arg0) {shape = array<i64: 4096, 1>}
  // CHECK: %[[Y:.*]] = "nn.matmul"(%[[W]], %[[X]]) : (tensor<8192x4096xf32>, tensor<4096x1xf32>) -> tensor<8192x1xf32>
  // CHECK: %[[ONE:.*]] = "nn.reshape"(%[[Y]]) {shape = array<i64: 1, 8192>}
  %w = "nn.weight"() {name = "w"} : () -> tensor<8192x4096xf32>
  %t = "nn.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<8192x4096xf32>) -> tensor<4096x8192xf32>
  %one = "nn.matmul"(%x, %t) : (tensor<1x4096xf32>, tensor<4096x8192xf32>) -> tensor<1x8192xf32>

  // Several at once.
  // CHECK: %[[B:.*]] = "nn.transpose"(%arg1) {perm = array<i64: 0, 2, 1>}
  // CHECK: %[[P:.*]] = "nn.matmul"(%[[W]], %[[B]]) : (tensor<8192x4096xf32>, tensor<2x4096x3xf32>) -> tensor<2x8192x3xf32>
  // CHECK: %[[SOME:.*]] = "nn.transpose"(%[[P]]) {perm = array<i64: 0, 2, 1>}
  %some = "nn.matmul"(%b, %t) : (tensor<2x3x4096xf32>, tensor<4096x8192xf32>) -> tensor<2x3x8192xf32>

  // As many elements as the matrix has: it stays.
  // CHECK: %[[MANY:.*]] = "nn.matmul"(%arg2, %[[T]])
  %many = "nn.matmul"(%l, %t) : (tensor<8192x4096xf32>, tensor<4096x8192xf32>) -> tensor<8192x8192xf32>

  // A small matrix is turned by `fold`.
  // CHECK: %[[S:.*]] = "nn.transpose"(%{{.*}}) {perm = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  // CHECK: %[[SMALL:.*]] = "nn.matmul"(%arg3, %[[S]])
  %v = "nn.weight"() {name = "v"} : () -> tensor<32x64xf32>
  %u = "nn.transpose"(%v) {perm = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  %small = "nn.matmul"(%s, %u) : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>

  // CHECK: return %[[ONE]], %[[SOME]], %[[MANY]], %[[SMALL]]
  func.return %one, %some, %many, %small
      : tensor<1x8192xf32>, tensor<2x3x8192xf32>, tensor<8192x8192xf32>, tensor<1x32xf32>
}
