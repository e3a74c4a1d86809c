// One row of cores and one colour: a value that skips a kernel has to pass it, and cannot.
// RUN: sed 's/height="16"/height="1"/g; s/colors="24"/colors="1"/' %S/../../../runtime/machines/small16.xml > %t.xml
// RUN: not wafer-opt %s --passes=default --machine=%t.xml --mode=pipelined 2>&1 | FileCheck %s
// RUN: sed 's/height="16"/height="1"/g; s/colors="24"/colors="4"/' %S/../../../runtime/machines/small16.xml > %t.4.xml
// RUN: wafer-opt %s --passes=default --machine=%t.4.xml --mode=pipelined | FileCheck %s --check-prefix=FOUR
// CHECK: node '{{.*}}': error: no colour is left for the stream of '{{.*}}' at kernel '{{.*}}': all 1 are taken at core ({{[0-9]+}}, 0) and on every other way tried, try --mode streaming; most taken: {{.*}} 1; through ({{[0-9]+}}, 0): {{.*}} 1 streams in all
// FOUR: VERIFIED
func.func @main(%x: tensor<16xf32> {wafer.name = "x"}) -> (tensor<16xf32> {wafer.name = "y"}) {
  %a = "nn.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32> loc("first")
  %s = "nn.softmax"(%a) {axis = 0 : i64} : (tensor<16xf32>) -> tensor<16xf32> loc("second")
  %t = "nn.softmax"(%s) {axis = 0 : i64} : (tensor<16xf32>) -> tensor<16xf32> loc("third")
  %y = "nn.mul"(%t, %a) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32> loc("last")
  return %y : tensor<16xf32>
}
