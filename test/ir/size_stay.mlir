// RUN: wafer-opt %s --passes=default:schedule --machine=wse2 --mode=streaming | FileCheck %s

// Two steps take the same weight: it comes once, stays while the phase between runs, and is freed behind the second.
// Another, which one of them takes, ends with its phase.
// CHECK: %[[S:.*]] = "nn.weight"() {name = "shared"}
// CHECK: %[[O:.*]] = "nn.weight"() {name = "own"}
// CHECK: %[[ONCE:.*]] = "wafer.stream"(%[[S]])
// CHECK-NOT: "wafer.stream"(%[[S]])
// CHECK: call @first({{.*}}, %[[ONCE]])
// CHECK-NOT: "wafer.free"(%[[S]])
// CHECK: "wafer.stream"(%[[O]])
// CHECK: call @between(
// CHECK: "wafer.free"(%[[O]])
// CHECK-NOT: "wafer.stream"(%[[S]])
// CHECK: call @second({{.*}}, %[[ONCE]])
// CHECK: "wafer.free"(%[[S]])
// CHECK: func.func private @second(
// CHECK-SAME: wafer.stays = 2 : i64
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %s = "nn.weight"() {name = "shared"} : () -> tensor<64x64xf32>
  %o = "nn.weight"() {name = "own"} : () -> tensor<64x64xf32>
  %a = "nn.matmul"(%x, %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %b = "nn.matmul"(%a, %o) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("between")
  %y = "nn.matmul"(%b, %s) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
  return %y : tensor<64x64xf32>
}
