// RUN: not wafer-opt %s 2>&1 | FileCheck %s
// CHECK: missing-attribute.mlir:4:{{[0-9]+}}: error: {{.*}}axis
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "nn.softmax"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
