// RUN: wafer-opt %s --passes=shape,simplify | FileCheck %s
// RUN: wafer-opt %s --passes=shape,simplify | wafer-opt - --passes=simplify | FileCheck %s

// A slice looks for what it takes behind what only lays elements side by side.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<1x1x1x8xf32>, %b: tensor<1x1x1x8xf32>, %c: tensor<1x1x1x8xf32>, %d: tensor<2x6xf32>)
    -> (tensor<1x8xf32>, tensor<1x16xf32>, tensor<1x2x8xf32>, tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x2x1xf32>) {
  // The last step of three: %arg2 alone is left.
  // CHECK: %[[LAST:.*]] = "nn.reshape"(%arg2) {shape = array<i64: 1, 8>} : (tensor<1x1x1x8xf32>) -> tensor<1x8xf32>
  %t0 = "nn.concat"(%a, %b) {axis = 0 : i64} : (tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>) -> tensor<2x1x1x8xf32>
  %t1 = "nn.concat"(%t0, %c) {axis = 0 : i64} : (tensor<2x1x1x8xf32>, tensor<1x1x1x8xf32>) -> tensor<3x1x1x8xf32>
  %t2 = "nn.reshape"(%t1) {shape = array<i64: 1, 3, 8>} : (tensor<3x1x1x8xf32>) -> tensor<1x3x8xf32>
  %t3 = "nn.slice"(%t2) {shape = array<i64: 1, 1, 8>, starts = array<i64: 0, 2, 0>, steps = array<i64: 1, 1, 1>} : (tensor<1x3x8xf32>) -> tensor<1x1x8xf32>
  %last = "nn.reshape"(%t3) {shape = array<i64: 1, 8>} : (tensor<1x1x8xf32>) -> tensor<1x8xf32>

  // The first step of two directions, merged behind their steps; backwards.
  // CHECK: %[[TWO:.*]] = "nn.concat"(%arg0, %arg2) {axis = 1 : i64}
  // CHECK: %[[BOTH:.*]] = "nn.reshape"(%[[TWO]]) {shape = array<i64: 1, 16>}
  %u0 = "nn.concat"(%c, %a) {axis = 0 : i64} : (tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>) -> tensor<2x1x1x8xf32>
  %u1 = "nn.concat"(%t0, %u0) {axis = 1 : i64} : (tensor<2x1x1x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x2x1x8xf32>
  %u2 = "nn.reshape"(%u1) {shape = array<i64: 2, 16>} : (tensor<2x2x1x8xf32>) -> tensor<2x16xf32>
  %both = "nn.slice"(%u2) {shape = array<i64: 1, 16>, starts = array<i64: 0, 0>, steps = array<i64: -1, 1>} : (tensor<2x16xf32>) -> tensor<1x16xf32>

  // Steps of two operands: as it is.
  // CHECK: %[[PART:.*]] = "nn.slice"(%{{.*}}) {shape = array<i64: 2, 1, 1, 8>, starts = array<i64: 1, 0, 0, 0>
  // CHECK: %[[SOME:.*]] = "nn.reshape"(%[[PART]]) {shape = array<i64: 1, 2, 8>}
  %some = "nn.slice"(%t2) {shape = array<i64: 1, 2, 8>, starts = array<i64: 0, 1, 0>, steps = array<i64: 1, 1, 1>} : (tensor<1x3x8xf32>) -> tensor<1x2x8xf32>

  // Every second of the second half, from its end on.
  // CHECK: %[[HALF:.*]] = "nn.slice"(%arg3) {shape = array<i64: 2, 2>, starts = array<i64: 0, 5>, steps = array<i64: 1, -2>}
  %e = "nn.exp"(%d) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %v0 = "nn.concat"(%e, %d) {axis = 1 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x12xf32>
  %half = "nn.slice"(%v0) {shape = array<i64: 2, 2>, starts = array<i64: 0, 11>, steps = array<i64: 1, -2>} : (tensor<2x12xf32>) -> tensor<2x2xf32>

  // A dim that the reshape makes: as it is.
  // CHECK: %[[W:.*]] = "nn.reshape"(%arg3) {shape = array<i64: 2, 2, 3>}
  // CHECK: %[[NEW:.*]] = "nn.slice"(%[[W]])
  %w0 = "nn.reshape"(%d) {shape = array<i64: 2, 2, 3>} : (tensor<2x6xf32>) -> tensor<2x2x3xf32>
  %w1 = "nn.slice"(%w0) {shape = array<i64: 2, 1, 3>, starts = array<i64: 0, 1, 0>, steps = array<i64: 1, 1, 1>} : (tensor<2x2x3xf32>) -> tensor<2x1x3xf32>
  %new = "nn.reshape"(%w1) {shape = array<i64: 2, 3>} : (tensor<2x1x3xf32>) -> tensor<2x3xf32>

  // Turned before.
  // CHECK: %[[X:.*]] = "nn.slice"(%arg3) {shape = array<i64: 2, 2>, starts = array<i64: 0, 1>, steps = array<i64: 1, 1>}
  // CHECK: %[[Y:.*]] = "nn.transpose"(%[[X]]) {perm = array<i64: 1, 0>}
  // CHECK: %[[TURNED:.*]] = "nn.reshape"(%[[Y]])
  %x0 = "nn.transpose"(%v0) {perm = array<i64: 1, 0>} : (tensor<2x12xf32>) -> tensor<12x2xf32>
  %x1 = "nn.slice"(%x0) {shape = array<i64: 2, 2>, starts = array<i64: 7, 0>, steps = array<i64: 1, 1>} : (tensor<12x2xf32>) -> tensor<2x2xf32>
  %turned = "nn.reshape"(%x1) {shape = array<i64: 2, 2, 1>} : (tensor<2x2xf32>) -> tensor<2x2x1xf32>

  func.return %last, %both, %some, %half, %new, %turned
      : tensor<1x8xf32>, tensor<1x16xf32>, tensor<1x2x8xf32>, tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x2x1xf32>
}
