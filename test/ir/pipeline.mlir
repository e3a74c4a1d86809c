// RUN: wafer-opt %s --passes=shape,cse,simplify --print-ir-after=all 2>&1 | FileCheck %s
// RUN: wafer-opt %s --passes=default:simplify | FileCheck %s --check-prefix=DEFAULT
// RUN: wafer-opt %s --passes=default:simplify | wafer-opt - --passes=simplify | FileCheck %s --check-prefix=DEFAULT
// CHECK: after shape
// CHECK: wafer.facts = "SHAPED"
// CHECK: after cse
// CHECK: after simplify
// CHECK: wafer.facts = "SHAPED,SIMPLE"
// DEFAULT: wafer.facts = "SHAPED,FOLDED,SIMPLE"
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
