// RUN: not wafer-opt %s --passes=fold 2>&1 | FileCheck %s --check-prefix=NEEDS
// RUN: not wafer-opt %s --passes=shape,nonesuch 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not wafer-opt %s --passes=default:nonesuch 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: not wafer-opt %s --passes=shape --print-ir-after=fold 2>&1 | FileCheck %s --check-prefix=PRINT
// RUN: not wafer-opt %s --passes=shape --mode=both 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not wafer-opt %s.missing 2>&1 | FileCheck %s --check-prefix=FILE
// NEEDS: error: wafer-fold needs what no earlier pass gives; run 'shape' before it
// UNKNOWN: error: there is no pass 'nonesuch'
// LAST: error: there is no pass 'nonesuch' to stop after
// PRINT: error: there is no pass 'fold' in the pipeline to print after
// MODE: error: --mode is 'both', not auto, pipelined or streaming
// FILE: pipeline.mlir.missing: error: the file cannot be read
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
