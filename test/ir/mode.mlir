// RUN: wafer-opt %s --passes=default:mode --machine=small16 | FileCheck %s --check-prefixes=CHECK,PIPE
// RUN: wafer-opt %s --passes=default:mode --machine=small16 --mode=streaming --batch=4 | FileCheck %s --check-prefixes=CHECK,STREAM
// RUN: wafer-opt %s --passes=default:mode --machine=small16 --mode=streaming --batch=auto | FileCheck %s --check-prefix=AUTO
// RUN: wafer-opt %s --passes=default:mode --machine=small16 --mode=streaming --batch=15 | FileCheck %s --check-prefix=ODD
// RUN: wafer-opt %s --passes=default:mode --machine=small16 --dtype=f16 | FileCheck %s --check-prefix=HALF

// Both modes are costed, whichever is chosen: fits, latency, interval, cores, bytes of the fullest core.
// PIPE: wafer.batch = 1 : i64
// Samples side by side, in bands of the 16 rows and stripes of the 16 columns.
// STREAM: wafer.bands = 2 : i64, wafer.batch = 2 : i64
// As many samples as shorten the interval.
// AUTO: wafer.bands = {{[0-9]+}} : i64, wafer.batch = {{[0-9]+}} : i64
// Stripes need not be a power of two.
// ODD: wafer.stripes = array<i64: 15, 1>
// CHECK-SAME: wafer.cost.pipelined = array<i64: 1, {{[0-9]+, [0-9]+}}, {{[0-9]+}}, {{[0-9]+}}>, wafer.cost.pipelined.why_not = ""
// CHECK-SAME: wafer.cost.streaming = array<i64: 1, {{[0-9]+, [0-9]+}}, {{[0-9]+}}, {{[0-9]+}}>, wafer.cost.streaming.why_not = ""
// CHECK-SAME: wafer.flip_batch = {{[0-9]+}} : i64
// PIPE-SAME: wafer.mode = "pipelined"
// STREAM-SAME: wafer.mode = "streaming"
// CHECK-SAME: wafer.storage = "f32"
// STREAM-SAME: wafer.stripes = array<i64: 2, 8>
// HALF: wafer.storage = "f16"
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
