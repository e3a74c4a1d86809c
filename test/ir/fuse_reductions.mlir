// RUN: wafer-opt %s --passes=shape,fuse --reductions=behind | FileCheck %s
// RUN: wafer-opt %s --passes=shape,fuse | FileCheck %s --check-prefix=APART

// Behind its convolution the mean of a squeeze takes no stream; the gate is a kernel of its own, for the
// convolution cannot wait for what is made of its result. A mean that leaves nothing else is the only output.
// CHECK: %[[Y:.*]]:2 = call @conv(%arg0, %{{.*}})
// CHECK: %[[G:.*]] = call @gate(%[[Y]]#0, %[[Y]]#1)
// CHECK: call @last(%[[G]], %{{.*}}) : ({{.*}}) -> tensor<1x4xf32>
// CHECK: func.func private @conv(
// CHECK-NEXT: %[[C:.*]] = "nn.conv"
// CHECK-NEXT: %[[M:.*]] = "nn.reduce_mean"(%[[C]])
// CHECK-NEXT: return %[[C]], %[[M]]
// APART: %[[C:.*]] = call @conv(
// APART: call @squeeze(%[[C]])
func.func @main(%x: tensor<1x3x8x8xf32> {wafer.name = "x"}) -> (tensor<1x4xf32> {wafer.name = "y"}) {
  %w = "nn.weight"() {name = "w"} : () -> tensor<4x3x3x3xf32>
  %v = "nn.weight"() {name = "v"} : () -> tensor<4x4x1x1xf32>
  %c = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32> loc("conv")
  %m = "nn.reduce_mean"(%c) {axes = array<i64: 2, 3>, keepdims = 1 : i64}
      : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32> loc("squeeze")
  %g = "nn.mul"(%c, %m) : (tensor<1x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x8x8xf32> loc("gate")
  %d = "nn.conv"(%g, %v) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> loc("last")
  %r = "nn.relu"(%d) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %y = "nn.reduce_mean"(%r) {axes = array<i64: 2, 3>, keepdims = 0 : i64}
      : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32> loc("mean")
  return %y : tensor<1x4xf32>
}
