// RUN: wafer-opt %s --passes=default:mode --machine=small16 --mode=pipelined --relays=auto | FileCheck %s
// RUN: wafer-opt %s --passes=default:mode --machine=small16 --mode=streaming --relays=auto | FileCheck %s --check-prefix=STREAM

// A sum of what three convolutions in a row begin and end with: the first would stand still until a sample has passed
// the other two. A relay holds it for the one that is skipped, with the name of the node that makes it.
// CHECK: %[[A:.*]] = call @first(
// CHECK: %[[R:.*]] = call @"first/relay1"(%[[A]])
// CHECK: %[[B:.*]] = call @second(%[[A]]
// CHECK: call @third(%[[B]], {{.*}}, %[[R]])
// CHECK: func.func private @"first/relay1"(%arg0: tensor<1x8x16x16xf32>)
// CHECK-SAME: wafer.family = "move"
// CHECK: "nn.reshape"
// One layer after the other needs none.
// STREAM-NOT: relay
func.func @main(%x: tensor<1x8x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x16x16xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<8x8x3x3xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<8x8x3x3xf32>
  %w3 = "nn.weight"() {name = "w3"} : () -> tensor<8x8x3x3xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x16x16xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x16x16xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x16x16xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x16x16xf32> loc("second")
  %c3 = "nn.conv"(%c2, %w3) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x16x16xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x16x16xf32> loc("third")
  %y = "nn.add"(%c1, %c3) : (tensor<1x8x16x16xf32>, tensor<1x8x16x16xf32>) -> tensor<1x8x16x16xf32> loc("sum")
  return %y : tensor<1x8x16x16xf32>
}
