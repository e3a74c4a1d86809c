// What normalizes becomes one op: with a mean or without, by a product or a quotient; not what has other users.
// RUN: wafer-opt %s --passes=shape,normalize | FileCheck %s
// CHECK: %[[L:.*]] = "nn.normalize"(%arg0) {axes = array<i64: 1>, center = 1 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT: %[[R:.*]] = "nn.normalize"(%[[L]]) {axes = array<i64: 0, 1>, center = 0 : i64, epsilon = 0.000000e+00 : f64}
// CHECK-NEXT: %[[P:.*]] = "nn.constant"() {value = dense<-5.000000e-01>
// CHECK-NEXT: %[[T:.*]] = "nn.normalize"(%[[R]]) {axes = array<i64: 0>, center = 1 : i64, epsilon = 0.000000e+00 : f64}
// CHECK-NEXT: %[[M:.*]] = "nn.reduce_mean"(%[[T]])
// CHECK-NEXT: %[[C:.*]] = "nn.sub"(%[[T]], %[[M]])
// CHECK-NEXT: %[[U:.*]] = "nn.normalize"(%[[C]]) {axes = array<i64: 1>, center = 0 : i64, epsilon = 0.000000e+00 : f64}
// CHECK-NEXT: %[[Q:.*]] = "nn.mul"(%[[U]], %[[U]])
// CHECK-NEXT: %[[S:.*]] = "nn.reduce_mean"(%[[Q]])
// CHECK-NEXT: %[[W:.*]] = "nn.sqrt"(%[[S]])
// CHECK-NEXT: %[[D:.*]] = "nn.div"(%[[U]], %[[W]])
// CHECK-NEXT: return %[[D]], %[[C]], %[[W]]
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>) {
  %e = "nn.constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
  %m0 = "nn.reduce_mean"(%x) {axes = array<i64: 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %c0 = "nn.sub"(%x, %m0) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q0 = "nn.mul"(%c0, %c0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v0 = "nn.reduce_mean"(%q0) {axes = array<i64: 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %a0 = "nn.add"(%v0, %e) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r0 = "nn.sqrt"(%a0) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %i0 = "nn.reciprocal"(%r0) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y0 = "nn.mul"(%c0, %i0) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q1 = "nn.mul"(%y0, %y0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v1 = "nn.reduce_mean"(%q1) {axes = array<i64: 0, 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<1x1xf32>
  %r1 = "nn.sqrt"(%v1) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %y1 = "nn.div"(%y0, %r1) : (tensor<4x8xf32>, tensor<1x1xf32>) -> tensor<4x8xf32>
  %p = "nn.constant"() {value = dense<-0.5> : tensor<f32>} : () -> tensor<f32>
  %m2 = "nn.reduce_mean"(%y1) {axes = array<i64: 0>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %c2 = "nn.sub"(%y1, %m2) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %q2 = "nn.mul"(%c2, %c2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v2 = "nn.reduce_mean"(%q2) {axes = array<i64: 0>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %i2 = "nn.pow"(%v2, %p) : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %y2 = "nn.mul"(%i2, %c2) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m3 = "nn.reduce_mean"(%y2) {axes = array<i64: 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %c3 = "nn.sub"(%y2, %m3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q3 = "nn.mul"(%c3, %c3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v3 = "nn.reduce_mean"(%q3) {axes = array<i64: 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %r3 = "nn.sqrt"(%v3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y3 = "nn.div"(%c3, %r3) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q4 = "nn.mul"(%y3, %y3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v4 = "nn.reduce_mean"(%q4) {axes = array<i64: 1>, keepdims = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %r4 = "nn.sqrt"(%v4) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y4 = "nn.div"(%y3, %r4) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  func.return %y4, %c3, %r4 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>
}
