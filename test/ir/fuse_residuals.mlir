// RUN: wafer-opt %s --passes=shape,fuse | FileCheck %s

// A sum with what a convolution takes is a kernel of its own where cores would hold all channels;
// behind a convolution whose groups are single channels it is not.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "nn.weight"
// CHECK-NEXT: "nn.weight"
// CHECK-NEXT: call @conv(
// CHECK-NEXT: call @sum(
// CHECK-NEXT: call @depthwise(
// CHECK-NEXT: return
func.func @main(%x: tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> {
  // CHECK: func.func private @depthwise(
  // CHECK-NEXT: "nn.conv"
  // CHECK-NEXT: "nn.add"
  %w = "nn.weight"() {name = "w"} : () -> tensor<16x16x1x1xf32>
  %d = "nn.weight"() {name = "d"} : () -> tensor<16x1x1x1xf32>
  %conv = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x16x16x16xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x16x16xf32> loc("conv")
  %sum = "nn.add"(%conv, %x) : (tensor<1x16x16x16xf32>, tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> loc("sum")
  %depthwise = "nn.conv"(%sum, %d) {group = 16 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x16x16x16xf32>, tensor<16x1x1x1xf32>) -> tensor<1x16x16x16xf32> loc("depthwise")
  %out = "nn.add"(%depthwise, %sum) : (tensor<1x16x16x16xf32>, tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> loc("out")
  return %out : tensor<1x16x16x16xf32>
}
