// Kernels, their streams and the largest rectangle step around dead cores; verify agrees.
// RUN: sed 's/<clock/<dead x="3" y="4"\/><dead x="9" y="12"\/><clock/' %S/../../runtime/machines/small16.xml > %t.xml
// RUN: wafer-opt %s --passes=default --machine=%t.xml --mode=pipelined | FileCheck %s
// RUN: wafer-opt %s --passes=default --machine=%t.xml --mode=streaming | FileCheck %s --check-prefix=STREAM
// CHECK: wafer.facts = "{{.*}}VERIFIED"
// STREAM: wafer.facts = "{{.*}}VERIFIED"
// STREAM: func.func private @first({{.*}}wafer.rect = array<i64: {{[0-9]+}}, {{[0-9]+}}, {{[0-9]+}}, {{[0-9]+}}>
func.func @main(%x: tensor<1x4x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x16x16xf32> {wafer.name = "y"}) {
  %w = "nn.weight"() {name = "w"} : () -> tensor<8x4x3x3xf32>
  %c = "nn.conv"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x4x16x16xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x16x16xf32> loc("first")
  %s = "nn.softmax"(%c) {axis = 1 : i64} : (tensor<1x8x16x16xf32>) -> tensor<1x8x16x16xf32> loc("second")
  return %s : tensor<1x8x16x16xf32>
}
