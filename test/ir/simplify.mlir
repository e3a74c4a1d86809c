// RUN: wafer-opt %s --passes=shape,simplify | FileCheck %s
// RUN: wafer-opt %s --passes=shape,simplify | wafer-opt - --passes=simplify | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg0]]: tensor<1x2x4x4xf32>
func.func @main(%x: tensor<1x2x4x4xf32>, %c: tensor<1x1x4x4xf32>, %m: tensor<2x1x3xf32>)
    -> (tensor<1x2x4x4xf32>, tensor<1x3x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x3x4xf32>, tensor<1x2x4x4xf32>, tensor<2x3xf32>, tensor<1x2x4x4xf32>, tensor<4xf32>) {

  // A pair of transposes, x * 1, x + 0, x - 0, x / 1, x ^ 1 and relus: one relu is left.
  // CHECK: %[[RELU:.*]] = "nn.relu"(%[[X]])
  %one = "nn.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %ones = "nn.constant"() {value = dense<1.0> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %zero = "nn.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %t0 = "nn.transpose"(%x) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x4x4x2xf32>
  %t1 = "nn.transpose"(%t0) {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x4x4x2xf32>) -> tensor<1x2x4x4xf32>
  %t2 = "nn.mul"(%ones, %t1) : (tensor<2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %t3 = "nn.add"(%t2, %zero) : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %t4 = "nn.sub"(%t3, %zero) : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %t5 = "nn.div"(%t4, %one) : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %t6 = "nn.pow"(%t5, %one) : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %t7 = "nn.relu"(%t6) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %t8 = "nn.relu"(%t7) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>

  // Zeros around the image, then batch_norm, then a bias: all in the convolution.
  // CHECK-DAG: %[[W:.*]] = "nn.constant"() {value = dense<{{\[\[}}{{\[\[}}2.0{{.*}}> : tensor<3x2x1x1xf32>}
  // CHECK-DAG: %[[B:.*]] = "nn.constant"() {value = dense<[9.000000e+00, 2.000000e+01, 3.000000e+01]> : tensor<3xf32>}
  // CHECK: %[[CONV:.*]] = "nn.conv"(%[[X]], %[[W]], %[[B]]) {{.*}}pads = array<i64: 1, 1, 1, 1>{{.*}} -> tensor<1x3x2x2xf32>
  // CHECK-NOT: nn.pad
  // CHECK-NOT: nn.batch_norm
  %w = "nn.constant"() {value = dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]], [[[5.0]], [[6.0]]]]> : tensor<3x2x1x1xf32>} : () -> tensor<3x2x1x1xf32>
  %scale = "nn.constant"() {value = dense<[2.0, 1.0, 1.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %bias = "nn.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %mean = "nn.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %var = "nn.constant"() {value = dense<1.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %more = "nn.constant"() {value = dense<[[[10.0]], [[20.0]], [[30.0]]]> : tensor<3x1x1xf32>} : () -> tensor<3x1x1xf32>
  %p = "nn.pad"(%x) {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, mode = "constant", fill = 0.0 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x6xf32>
  %c0 = "nn.conv"(%p, %w) {group = 1 : i64, strides = array<i64: 3, 3>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<1x2x6x6xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x2x2xf32>
  %c1 = "nn.batch_norm"(%c0, %scale, %bias, %mean, %var) {epsilon = 0.0 : f64}
      : (tensor<1x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  %c2 = "nn.add"(%c1, %more) : (tensor<1x3x2x2xf32>, tensor<3x1x1xf32>) -> tensor<1x3x2x2xf32>

  // Gathers in equal steps are slices, and two slices are one, past the reshape of a gather of one row, too.
  // CHECK: %[[ROWS:.*]] = "nn.slice"(%[[X]]) {shape = array<i64: 1, 1, 2, 2>, starts = array<i64: 0, 0, 0, 1>, steps = array<i64: 1, 1, 1, 2>}
  // CHECK: "nn.reshape"(%[[ROWS]]) {shape = array<i64: 1, 2, 2>}
  // CHECK: "nn.slice"(%[[X]]) {{.*}}shape = array<i64: 1, 2, 3, 4>
  %i = "nn.constant"() {value = dense<[1, 3]> : tensor<2xi64>} : () -> tensor<2xi64>
  %g0 = "nn.gather"(%x, %i) {axis = 3 : i64} : (tensor<1x2x4x4xf32>, tensor<2xi64>) -> tensor<1x2x4x2xf32>
  %g1 = "nn.slice"(%g0) {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>, shape = array<i64: 1, 2, 4, 2>} : (tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32>
  %k = "nn.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %g2 = "nn.gather"(%g1, %k) {axis = 1 : i64} : (tensor<1x2x4x2xf32>, tensor<i64>) -> tensor<1x4x2xf32>
  %g3 = "nn.slice"(%g2) {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>, shape = array<i64: 1, 2, 2>} : (tensor<1x4x2xf32>) -> tensor<1x2x2xf32>
  %j = "nn.constant"() {value = dense<[-4, 1, -2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %h = "nn.gather"(%x, %j) {axis = 2 : i64} : (tensor<1x2x4x4xf32>, tensor<3xi64>) -> tensor<1x2x3x4xf32>

  // An expand that the op does by itself; clips become one.
  // CHECK: %[[SUM:.*]] = "nn.add"(%[[X]], %arg1)
  // CHECK: "nn.clip"(%[[SUM]]) {max = 5.000000e+00 : f64, min = 0.000000e+00 : f64}
  %e = "nn.expand"(%c) {shape = array<i64: 1, 2, 4, 4>} : (tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s0 = "nn.add"(%x, %e) : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s1 = "nn.clip"(%s0) {min = -1.0 : f64, max = 5.0 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s2 = "nn.relu"(%s1) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>

  // A mean over a dim of 1 and a transpose that moves one: a reshape.
  // CHECK: "nn.reshape"(%arg2) {shape = array<i64: 2, 3>} : (tensor<2x1x3xf32>) -> tensor<2x3xf32>
  %r0 = "nn.transpose"(%m) {perm = array<i64: 1, 0, 2>} : (tensor<2x1x3xf32>) -> tensor<1x2x3xf32>
  %r1 = "nn.reduce_mean"(%r0) {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<1x2x3xf32>) -> tensor<2x3xf32>

  // A condition that is known. Nothing is left of it.
  // CHECK-NOT: nn.select
  %true = "nn.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %q = "nn.select"(%true, %x, %e) : (tensor<i1>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>

  // Equal weights are one, dead ops are gone.
  // CHECK: %[[N:.*]] = "nn.weight"() {name = "n"}
  // CHECK-NOT: nn.weight
  // CHECK: "nn.add"(%[[N]], %[[N]])
  // CHECK-NOT: nn.exp
  %n0 = "nn.weight"() {name = "n"} : () -> tensor<4xf32>
  %n1 = "nn.weight"() {name = "n"} : () -> tensor<4xf32>
  %n2 = "nn.add"(%n0, %n1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dead = "nn.exp"(%x) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>

  // CHECK: return %[[RELU]], %[[CONV]]
  func.return %t8, %c2, %g3, %h, %s2, %r1, %q, %n2
      : tensor<1x2x4x4xf32>, tensor<1x3x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x3x4xf32>, tensor<1x2x4x4xf32>, tensor<2x3xf32>, tensor<1x2x4x4xf32>, tensor<4xf32>
}
