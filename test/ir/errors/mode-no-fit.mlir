// RUN: not wafer-opt %s --passes=default:mode --machine=small16 --mode=pipelined 2>&1 | FileCheck %s

// The kernel, bytes asked and allowed, who owns them, and what was tried: streamed, the weight passes in slices.
// CHECK: node 'huge': error: pipelined does not fit small16: kernel 'huge' needs {{[0-9]+}} bytes per core, 15360 are allowed (code {{[0-9]+}}, weights {{[0-9]+}}, inputs {{[0-9]+}}, outputs {{[0-9]+}}, scratch {{[0-9]+}}, held for other kernels 0); of these weight 'w' (1 at a time) 65536, {{.*}}; --mode streaming fits: {{[0-9]+}} cycles a sample
func.func @main(%x: tensor<1x2048xf32>) -> tensor<1x2048xf32> {
  %w = "nn.weight"() {name = "w"} : () -> tensor<2048x2048xf32>
  %0 = "nn.matmul"(%x, %w) : (tensor<1x2048xf32>, tensor<2048x2048xf32>) -> tensor<1x2048xf32> loc("huge")
  return %0 : tensor<1x2048xf32>
}
