// Passes whose attributes are missing say which pass writes them.
// RUN: wafer-opt %s --passes=default:fuse | sed 's/KERNELED/KERNELED,MODED,SIZED,PLACED,ROUTED/' > %t
// RUN: not wafer-opt %t --passes=size 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not wafer-opt %t --passes=place 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not wafer-opt %t --passes=route 2>&1 | FileCheck %s --check-prefix=ROUTE
// RUN: not wafer-opt %t --passes=schedule 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SIZE: error: the module has no wafer.mode and wafer.batch, run pass mode before size
// PLACE: error: the module has no wafer.mode, run pass mode before place
// ROUTE: error: the module has no wafer.mode, run pass mode before route
// SCHEDULE: error: the module has no wafer.mode, run pass mode before schedule
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "nn.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("act")
  return %0 : tensor<4xf32>
}
