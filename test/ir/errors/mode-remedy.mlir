// RUN: not wafer-opt %s --passes=default:mode --machine=small16 --mode=pipelined 2>&1 | FileCheck %s
// RUN: wafer-opt %s --passes=default:mode --machine=small16 | FileCheck %s --check-prefix=AUTO

// Two layers of 1 MB each: not at once on 4 MB with all that belongs to them, one after the other they fit.
// CHECK: error: pipelined does not fit small16: {{.*}}; --mode streaming fits: {{[0-9]+}} cycles a sample
// AUTO: wafer.cost.pipelined.why_not = "{{[^"]+}}"
// AUTO-SAME: wafer.mode = "streaming"
func.func @main(%x: tensor<1x512xf32>) -> tensor<1x512xf32> {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<512x512xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<512x512xf32>
  %w3 = "nn.weight"() {name = "w3"} : () -> tensor<512x512xf32>
  %0 = "nn.matmul"(%x, %w1) : (tensor<1x512xf32>, tensor<512x512xf32>) -> tensor<1x512xf32> loc("one")
  %1 = "nn.matmul"(%0, %w2) : (tensor<1x512xf32>, tensor<512x512xf32>) -> tensor<1x512xf32> loc("two")
  %2 = "nn.matmul"(%1, %w3) : (tensor<1x512xf32>, tensor<512x512xf32>) -> tensor<1x512xf32> loc("three")
  return %2 : tensor<1x512xf32>
}
