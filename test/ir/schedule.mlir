// RUN: wafer-opt %s --passes=default:schedule --machine=small16 | FileCheck %s
// RUN: wafer-opt %s --passes=default:schedule --machine=small16 --mode=streaming | FileCheck %s --check-prefix=STREAM

// CHECK: "wafer.load"() {phase = 0 : i64}
// CHECK-NEXT: "wafer.phase"() {index = 0 : i64, name = "pipeline"}
// CHECK-NOT: wafer.phase
// CHECK-NOT: wafer.free
// CHECK: return

// STREAM: %[[W1:.*]] = "nn.weight"
// STREAM: %[[W2:.*]] = "nn.weight"
// STREAM-NOT: wafer.load
// STREAM: "wafer.phase"() {index = 0 : i64, name = "first"}
// STREAM: %[[A:.*]] = call @first(
// STREAM-NEXT: "wafer.free"(%arg0)
// STREAM-NEXT: "wafer.free"(%[[W1]])
// STREAM-NEXT: "wafer.phase"() {index = 1 : i64, name = "second"}
// STREAM: %[[B:.*]] = call @second(
// STREAM-NEXT: "wafer.free"(%[[W2]])
// STREAM-NEXT: "wafer.phase"() {index = 2 : i64, name = "soft"}
// STREAM: %[[C:.*]] = call @soft(
// STREAM-NEXT: "wafer.stream"(%[[C]])
// STREAM-NEXT: "wafer.free"(%[[B]])
// STREAM-NEXT: "wafer.free"(%[[A]])
// STREAM-NEXT: "wafer.free"(%[[C]])
// STREAM-NEXT: return
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
