// Every copy of a kernel has to keep off dead and reserved cores, not the first alone.
// RUN: wafer-opt %s --passes=default --machine=small16 --mode=pipelined --bands=1 | sed 's/wafer.replicas = 1/wafer.replicas = 2/' > %t
// RUN: sed 's/<clock/<dead x="5" y="0"\/><clock/' %S/../../../runtime/machines/small16.xml > %t.dead.xml
// RUN: not wafer-opt %t --passes=verify --machine=%t.dead.xml 2>&1 | FileCheck %s --check-prefix=DEAD
// DEAD: error: kernel 'only' lies on the dead core (5, 0)
// RUN: sed 's/<clock/<reserved x="5" y="0" width="1" height="1"\/><clock/' %S/../../../runtime/machines/small16.xml > %t.kept.xml
// RUN: not wafer-opt %t --passes=verify --machine=%t.kept.xml 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: kernel 'only' lies on the reserved cores at (5, 0)
func.func @main(%x: tensor<4x8xf32> {wafer.name = "x"}) -> (tensor<4x8xf32> {wafer.name = "y"}) {
  %s = "nn.softmax"(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("only")
  return %s : tensor<4x8xf32>
}
