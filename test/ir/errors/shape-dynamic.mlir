// RUN: not wafer-opt %s --passes=shape 2>&1 | FileCheck %s
// CHECK: shape-dynamic.mlir:{{[0-9]+}}:{{[0-9]+}}: error: argument 'x' (#0) needs a static shape
func.func @main(%x: tensor<?x8xf32> {wafer.name = "x"}) -> tensor<?x8xf32> {
  func.return %x : tensor<?x8xf32>
}
