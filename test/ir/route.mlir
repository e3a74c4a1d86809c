// RUN: wafer-opt %s --passes=default:route --machine=small16 --bands=1 | FileCheck %s

// Inputs come from the edge (0), weights from MemoryX (1), the rest from cores (2). Streams that meet at a kernel have
// different colours.
// CHECK: %[[W1:.*]] = "nn.weight"
// CHECK: %[[W2:.*]] = "nn.weight"
// CHECK: %[[X:.*]] = "wafer.stream"(%arg0) {color = 0 : i64, cycles = {{[0-9]+}} : i64, depth = {{[0-9]+}} : i64, from = array<i64: 0, {{.*}}to = array<i64: 2, {{.*}}words = 768 : i64
// CHECK: %[[S1:.*]] = "wafer.stream"(%[[W1]]) {color = 1 : i64, {{.*}}from = array<i64: 1, {{.*}}route = array<i64: 0, 1, 0, 1>, {{.*}}words = 216 : i64
// CHECK: %[[A:.*]] = call @first(%[[X]], %[[S1]])
// CHECK: %[[A2:.*]] = "wafer.stream"(%[[A]]) {color = 2 : i64, {{.*}}from = array<i64: 2,
// CHECK: %[[S2:.*]] = "wafer.stream"(%[[W2]]) {color = 0 : i64, {{.*}}route = array<i64: 15, 9, 15, 9>
// CHECK: %[[B:.*]] = call @second(%[[A2]], %[[S2]])
// CHECK: %[[B3:.*]] = "wafer.stream"(%[[B]]) {color = 1 : i64,
// CHECK: %[[A3:.*]] = "wafer.stream"(%[[A]]) {color = 3 : i64, {{.*}}depth = 2 : i64, {{.*}}route = array<i64: 3, 3, 3, 6>
// CHECK: %[[C:.*]] = call @soft(%[[B3]], %[[A3]])
// CHECK: %[[Y:.*]] = "wafer.stream"(%[[C]]) {{.*}}to = array<i64: 0,
// CHECK: return %[[Y]]
func.func @main(%x: tensor<1x3x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x8x8xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<8x3x3x3xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<8x8x3x3xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x8x8xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("second")
  %s = "nn.softmax"(%c2) {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("soft")
  %y = "nn.mul"(%c1, %s) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("gate")
  return %y : tensor<1x8x8x8xf32>
}
