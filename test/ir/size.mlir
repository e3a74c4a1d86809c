// RUN: wafer-opt %s --passes=default:size --machine=small16 --bands=1 | FileCheck %s
// RUN: wafer-opt %s --passes=default:size --machine=small16 --mode=streaming --batch=17 | FileCheck %s --check-prefix=STREAM

// Buffers of a pipeline are double at least: what is long under way (the edge) or waits for others (a skip)
// has more; weights are resident.
// CHECK: func.func private @first({{.*}}wafer.cols = array<i64: {{.*}}wafer.depths = array<i64: 3, 1, 2>{{.*}}wafer.replicas = 1 : i64, wafer.rows = array<i64: {{.*}}wafer.slabs = 1 : i64
// CHECK: func.func private @second({{.*}}wafer.depths = array<i64: 2, 1, 2>
// CHECK: func.func private @soft({{.*}}wafer.depths = array<i64: 2, 4, 2>

// In streaming every sample of a batch that no stripes divide is there at once, and the next weights arrive while these are used.
// STREAM: func.func private @first({{.*}}wafer.depths = array<i64: 17, 2, 17>
// STREAM: func.func private @soft({{.*}}wafer.depths = array<i64: 17, 17, 17>
func.func @main(%x: tensor<1x3x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x8x8xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<8x3x3x3xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<8x8x3x3xf32>
  %w3 = "nn.weight"() {name = "w3"} : () -> tensor<8x8x3x3xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x8x8xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("second")
  %c3 = "nn.conv"(%c2, %w3) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("third")
  %s = "nn.softmax"(%c3) {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("soft")
  %y = "nn.mul"(%c1, %s) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("gate")
  return %y : tensor<1x8x8x8xf32>
}
