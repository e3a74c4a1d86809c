// RUN: wafer-opt %s --passes=shape,fold | FileCheck %s

// Shape arithmetic disappears, in one walk.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<2x3xf32>
func.func @main(%x: tensor<2x3xf32>) -> (tensor<3xi64>, tensor<2x3xf32>, tensor<4xf32>, tensor<500x500xf32>, tensor<2xi1>) {
  // CHECK-NEXT: %[[DIMS:.*]] = "nn.constant"() {value = dense<[6, 7, 0]> : tensor<3xi64>}
  %a = "nn.constant"() {value = dense<[2, 3]> : tensor<2xi64>} : () -> tensor<2xi64>
  %b = "nn.constant"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %one = "nn.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %zero = "nn.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %c = "nn.slice"(%a) {starts = array<i64: 0>, steps = array<i64: 1>, shape = array<i64: 1>} : (tensor<2xi64>) -> tensor<1xi64>
  %d = "nn.mul"(%c, %b) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %e = "nn.add"(%d, %one) : (tensor<1xi64>, tensor<i64>) -> tensor<1xi64>
  %f = "nn.concat"(%d, %e) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %g = "nn.concat"(%f, %zero) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>

  // What depends on an input stays.
  // CHECK-NEXT: %[[Y:.*]] = "nn.relu"(%[[X]])
  %y = "nn.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>

  // So does what needs bytes that are not there.
  // CHECK-NEXT: %[[W:.*]] = "nn.weight"() {name = "w"}
  // CHECK-NEXT: %[[EXP:.*]] = "nn.exp"(%[[W]])
  %w = "nn.weight"() {name = "w"} : () -> tensor<4xf32>
  %z = "nn.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>

  // And what would only grow.
  // CHECK-NEXT: %[[RAMP:.*]] = "nn.constant"
  // CHECK: %[[BIG:.*]] = "nn.expand"(%[[RAMP]])
  %ramp = "nn.constant"() {value = dense<[[1.0], [2.0]]> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  %big = "nn.expand"(%ramp) {shape = array<i64: 2, 125000>} : (tensor<2x1xf32>) -> tensor<2x125000xf32>
  %square = "nn.reshape"(%big) {shape = array<i64: 500, 500>} : (tensor<2x125000xf32>) -> tensor<500x500xf32>

  // CHECK: %[[LESS:.*]] = "nn.constant"() {value = dense<[true, false]> : tensor<2xi1>}
  %less = "nn.less"(%a, %b) : (tensor<2xi64>, tensor<1xi64>) -> tensor<2xi1>
  // CHECK: return %[[DIMS]], %[[Y]], %[[EXP]], %{{.*}}, %[[LESS]]
  func.return %g, %y, %z, %square, %less : tensor<3xi64>, tensor<2x3xf32>, tensor<4xf32>, tensor<500x500xf32>, tensor<2xi1>
}
