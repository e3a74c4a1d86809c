// RUN: wafer-opt %s --passes=shape,fold,simplify | FileCheck %s

// What is computed of repeated constants is known, though these are too large to be kept: here
// squares of differences of two. What adds to an input
// what is only repeated stays as it was.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<128x256xf32>
func.func @main(%x: tensor<128x256xf32>) -> (tensor<128x256xf32>, tensor<128x256xf32>) {
  // CHECK-NOT: nn.sub
  // CHECK-NOT: nn.mul
  // CHECK: %[[RAMP:.*]] = "nn.reshape"(%{{.*}})
  // CHECK-NEXT: %[[APART:.*]] = "nn.weight"() {name = "folded.mul"}
  // CHECK-NEXT: %[[SUM:.*]] = "nn.add"(%[[X]], %[[APART]])
  // CHECK-NEXT: "nn.add"(%[[SUM]], %[[RAMP]])
  %ramp = "nn.constant"() {value = dense<[[1.0], [2.0], [4.0], [8.0]]> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  %row = "nn.constant"() {value = dense<[[1.0, 3.0, 5.0, 7.0]]> : tensor<1x4xf32>} : () -> tensor<1x4xf32>
  %a = "nn.expand"(%ramp) {shape = array<i64: 4, 8192>} : (tensor<4x1xf32>) -> tensor<4x8192xf32>
  %b = "nn.reshape"(%a) {shape = array<i64: 128, 256>} : (tensor<4x8192xf32>) -> tensor<128x256xf32>
  %c = "nn.reshape"(%row) {shape = array<i64: 1, 4, 1>} : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
  %d = "nn.expand"(%c) {shape = array<i64: 128, 4, 64>} : (tensor<1x4x1xf32>) -> tensor<128x4x64xf32>
  %e = "nn.reshape"(%d) {shape = array<i64: 128, 256>} : (tensor<128x4x64xf32>) -> tensor<128x256xf32>
  %f = "nn.sub"(%b, %e) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %g = "nn.mul"(%f, %f) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %sum = "nn.add"(%x, %g) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %more = "nn.add"(%sum, %b) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  func.return %sum, %more : tensor<128x256xf32>, tensor<128x256xf32>
}
