// RUN: wafer-opt %s --passes=default --machine=wse2 --mode=streaming | FileCheck %s

// Heads share a phase, side by side: all inputs, then all calls, then what leaves the wafer.
// CHECK: "wafer.phase"() {index = 0 : i64, name = "stem"}
// CHECK: %[[S:.*]] = call @stem(
// CHECK: "wafer.phase"() {index = 1 : i64, name = "left and 1 more"}
// CHECK-NEXT: %[[MOVED:.*]] = "wafer.stream"(%[[S]])
// CHECK-NEXT: %[[L:.*]] = call @left(%[[S]])
// CHECK-NEXT: %[[R:.*]] = call @right(%[[MOVED]])
// CHECK-NEXT: %[[Y:.*]] = "wafer.stream"(%[[L]])
// CHECK-NEXT: %[[Z:.*]] = "wafer.stream"(%[[R]])
// CHECK-NEXT: "wafer.free"
// CHECK-NOT: wafer.phase
// CHECK: return %[[Y]], %[[Z]]
// CHECK: func.func private @left({{.*}}wafer.phase = 1 : i64, wafer.rect = array<i64: [[X:[0-9]+]], [[Y:[0-9]+]], 16, 64>
// CHECK: func.func private @right({{.*}}wafer.phase = 1 : i64, wafer.rect = array<i64: 20, [[Y]], 16, 64>
func.func @main(%x: tensor<64x64xf32> {wafer.name = "x"}) -> (tensor<64x64xf32> {wafer.name = "y"}, tensor<64x64xf32> {wafer.name = "z"}) {
  %0 = "nn.softmax"(%x) {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("stem")
  %1 = "nn.softmax"(%0) {axis = 0 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("left")
  %2 = "nn.softmax"(%0) {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("right")
  return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
}
