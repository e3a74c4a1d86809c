// RUN: not wafer-opt %s --passes=default:mode --machine=small16 --mode=pipelined 2>&1 | FileCheck %s
// RUN: not wafer-opt %s --passes=default:mode --machine=small16 2>&1 | FileCheck %s --check-prefix=STREAM

// The kernel, bytes asked and allowed, who owns them, and a machine that was tried.
// CHECK: node 'huge': error: pipelined does not fit small16: kernel 'huge' needs {{[0-9]+}} bytes per core, 15360 are allowed (code {{[0-9]+}}, weights {{[0-9]+}}, inputs {{[0-9]+}}, outputs {{[0-9]+}}, scratch {{[0-9]+}}, held for other kernels 0); of these weight 'w' (1 at a time) 65536, {{.*}}; --machine small64 fits: {{[0-9]+}} cycles a sample
// STREAM: node 'huge': error: streaming does not fit small16: kernel 'huge' needs {{[0-9]+}} bytes per core, 15360 are allowed
func.func @main(%x: tensor<1x2048xf32>) -> tensor<1x2048xf32> {
  %w = "nn.weight"() {name = "w"} : () -> tensor<2048x2048xf32>
  %0 = "nn.matmul"(%x, %w) : (tensor<1x2048xf32>, tensor<2048x2048xf32>) -> tensor<1x2048xf32> loc("huge")
  return %0 : tensor<1x2048xf32>
}
