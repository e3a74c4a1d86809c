// RUN: wafer-opt %s --passes=shape,fold,simplify | FileCheck %s

// Weights of integer products lie in as few bits as hold them, their zero point taken off.

// CHECK-LABEL: @main
func.func @main(%a: tensor<2x4xi32> {wafer.name = "a"}, %x: tensor<1x2x4x4xi32> {wafer.name = "x"},
                %u: tensor<4x3xui8> {wafer.name = "u"})
    -> (tensor<2x3xi32> {wafer.name = "whole"}, tensor<2x3xi32> {wafer.name = "centered"},
        tensor<2x3xi32> {wafer.name = "wider"}, tensor<1x1x4x4xi32> {wafer.name = "conv"},
        tensor<2x3xi32> {wafer.name = "unknown"}, tensor<2x3xi32> {wafer.name = "wide"}) {
  %b = "nn.constant"() {value = dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 255]]> : tensor<4x3xui8>} : () -> tensor<4x3xui8>
  %zeros = "nn.constant"() {value = dense<[128, 255, 0]> : tensor<3xi32>} : () -> tensor<3xi32>
  %far = "nn.constant"() {value = dense<128> : tensor<3xi32>} : () -> tensor<3xi32>
  %w = "nn.cast"(%b) {to = "i32"} : (tensor<4x3xui8>) -> tensor<4x3xi32>

  // As the model has them.
  // CHECK: "nn.matmul"(%arg0, %{{.*}}) : (tensor<2x4xi32>, tensor<4x3xui8>) -> tensor<2x3xi32>
  %y0 = "nn.matmul"(%a, %w) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>

  // From -255 to 255: 16 bits.
  // CHECK: "nn.constant"() {value = dense<{{\[\[}}-127, -253, 3], {{.*}}[-118, -244, 255]]> : tensor<4x3xi16>}
  // CHECK: "nn.matmul"(%arg0, %{{.*}}) : (tensor<2x4xi32>, tensor<4x3xi16>) -> tensor<2x3xi32>
  %c0 = "nn.sub"(%w, %zeros) : (tensor<4x3xi32>, tensor<3xi32>) -> tensor<4x3xi32>
  %y1 = "nn.matmul"(%a, %c0) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>

  // From -128 to 127: 8 bits.
  // CHECK: "nn.matmul"(%arg0, %{{.*}}) : (tensor<2x4xi32>, tensor<4x3xi8>) -> tensor<2x3xi32>
  %c1 = "nn.sub"(%w, %far) : (tensor<4x3xi32>, tensor<3xi32>) -> tensor<4x3xi32>
  %y2 = "nn.matmul"(%a, %c1) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>

  // CHECK: "nn.conv"(%arg1, %{{.*}}) {{.*}} : (tensor<1x2x4x4xi32>, tensor<1x2x1x1xi8>) -> tensor<1x1x4x4xi32>
  %f = "nn.constant"() {value = dense<[[[[-3]], [[100]]]]> : tensor<1x2x1x1xi32>} : () -> tensor<1x2x1x1xi32>
  %y3 = "nn.conv"(%x, %f) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x2x4x4xi32>, tensor<1x2x1x1xi32>) -> tensor<1x1x4x4xi32>

  // What is not known stays.
  // CHECK: "nn.matmul"(%arg0, %{{.*}}) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>
  %v = "nn.cast"(%u) {to = "i32"} : (tensor<4x3xui8>) -> tensor<4x3xi32>
  %y4 = "nn.matmul"(%a, %v) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>

  // And what takes more than 16 bits.
  // CHECK: "nn.matmul"(%arg0, %{{.*}}) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>
  %many = "nn.constant"() {value = dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 40000]]> : tensor<4x3xi32>} : () -> tensor<4x3xi32>
  %y5 = "nn.matmul"(%a, %many) : (tensor<2x4xi32>, tensor<4x3xi32>) -> tensor<2x3xi32>
  func.return %y0, %y1, %y2, %y3, %y4, %y5
      : tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>, tensor<1x1x4x4xi32>, tensor<2x3xi32>, tensor<2x3xi32>
}
