// RUN: wafer-opt %s --passes=shape,fuse | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<1x3x8x8xf32>
// CHECK: %[[W1:.*]] = "nn.weight"() {name = "w1"}
// CHECK: %[[W2:.*]] = "nn.weight"() {name = "b/w2"}
// CHECK: %[[A:.*]] = call @conv1(%[[X]], %[[W1]])
// CHECK: %[[B:.*]] = call @conv2(%[[A]], %[[W2]])
// CHECK: %[[P:.*]] = call @pool(%[[B]])
// CHECK: %[[E:.*]] = call @gate(%[[P]], %[[B]])
// CHECK: %[[Y:.*]] = call @join(%[[P]], %[[X]])
// CHECK: %[[S:.*]] = call @{{.*}}(%[[X]])
// CHECK: return %[[E]], %[[Y]], %[[S]], %[[B]]
func.func @main(%x: tensor<1x3x8x8xf32> {wafer.name = "x"})
    -> (tensor<1x4x8x8xf32> {wafer.name = "e"}, tensor<1x196xf32> {wafer.name = "y"},
        tensor<1x3x8x8xf32> {wafer.name = "same"}, tensor<1x4x8x8xf32> {wafer.name = "b"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<4x3x3x3xf32>
  %unused = "nn.weight"() {name = "unused"} : () -> tensor<4xf32>
  %three = "nn.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>

  // A convolution takes its elementwise tail, the diamond of a hardswish too; small constants come along.
  // CHECK: func.func private @conv1(%arg0: tensor<1x3x8x8xf32>, %arg1: tensor<4x3x3x3xf32> {wafer.weight})
  // CHECK-SAME: wafer.anchor = 0 : i64, wafer.family = "conv"
  // CHECK-NEXT: %[[C:.*]] = "nn.conv"(%arg0, %arg1)
  // CHECK-NEXT: %[[T:.*]] = "nn.constant"
  // CHECK-NEXT: "nn.add"(%[[C]], %[[T]])
  // CHECK-NEXT: %[[K:.*]] = "nn.clip"
  // CHECK-NEXT: "nn.mul"(%[[C]], %[[K]])
  // CHECK-NEXT: return
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32> loc("conv1")
  %h1 = "nn.add"(%c1, %three) : (tensor<1x4x8x8xf32>, tensor<f32>) -> tensor<1x4x8x8xf32>
  %h2 = "nn.clip"(%h1) {min = 0.0 : f64, max = 6.0 : f64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %h3 = "nn.mul"(%c1, %h2) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>

  // Its weights are a constant: they become a weight. The residual is its own input.
  // CHECK: func.func private @conv2(%arg0: tensor<1x4x8x8xf32>, %arg1: tensor<4x4x1x1xf32> {wafer.weight})
  // CHECK-NEXT: %[[C2:.*]] = "nn.conv"(%arg0, %arg1)
  // CHECK-NEXT: "nn.add"(%arg0, %[[C2]])
  // CHECK-NEXT: return
  %w2 = "nn.constant"() {value = dense<0.5> : tensor<4x4x1x1xf32>} : () -> tensor<4x4x1x1xf32> loc("b/w2")
  %c2 = "nn.conv"(%h3, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> loc("conv2")
  %b = "nn.add"(%h3, %c2) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>

  // Used twice: a kernel of its own. What is broadcast again is a map kernel.
  // CHECK: func.func private @pool({{.*}}wafer.family = "reduce"
  // CHECK: func.func private @gate({{.*}}wafer.family = "map"
  %p = "nn.reduce_mean"(%b) {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32> loc("pool")
  %g = "nn.mul"(%p, %b) : (tensor<1x4x1x1xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("gate")
  %e = "nn.relu"(%g) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>

  // A tree of views is one kernel.
  // CHECK: func.func private @join(%arg0: tensor<1x4x1x1xf32>, %arg1: tensor<1x3x8x8xf32>)
  // CHECK-SAME: wafer.anchor = 3 : i64, wafer.family = "move"
  // CHECK-NEXT: "nn.reshape"
  // CHECK-NEXT: "nn.transpose"
  // CHECK-NEXT: "nn.reshape"
  // CHECK-NEXT: "nn.concat"
  // CHECK-NEXT: return
  %pr = "nn.reshape"(%p) {shape = array<i64: 1, 4>} : (tensor<1x4x1x1xf32>) -> tensor<1x4xf32>
  %t = "nn.transpose"(%x) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x8x8x3xf32>
  %r = "nn.reshape"(%t) {shape = array<i64: 1, 192>} : (tensor<1x8x8x3xf32>) -> tensor<1x192xf32>
  %y = "nn.concat"(%pr, %r) {axis = 1 : i64} : (tensor<1x4xf32>, tensor<1x192xf32>) -> tensor<1x196xf32> loc("join")
  return %e, %y, %x, %b : tensor<1x4x8x8xf32>, tensor<1x196xf32>, tensor<1x3x8x8xf32>, tensor<1x4x8x8xf32>
}
