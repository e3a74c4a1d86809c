// RUN: wafer-opt %s --passes=default:grad --train=cross-entropy | FileCheck %s --check-prefixes=CHECK,STEP
// RUN: wafer-opt %s --passes=default:grad --train=cross-entropy --evaluate | FileCheck %s --check-prefixes=CHECK,EVAL
// RUN: wafer-opt %s --passes=default:grad | FileCheck %s --check-prefix=PLAIN
// RUN: not wafer-opt %s --passes=default:grad --train=mse:z 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not wafer-opt %s --passes=default:grad --train=mse:fixed 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: wafer-opt %s --passes=default --train=mse --mode=pipelined --optimizer=adam | FileCheck %s --check-prefix=PIPE
// RUN: not wafer-opt %s --passes=default --train=mse --mode=pipelined --optimizer=lion 2>&1 | FileCheck %s --check-prefix=LION

// Without training nothing happens: parameters stay arguments.
// PLAIN: %{{[a-z0-9]+}}: tensor<8x3xf32> {wafer.name = "w", wafer.of = "w", wafer.role = "parameter"}
// PLAIN-NOT: wafer.micro_batch
// NAME: error: the loss reads output 'z', which the model does not have; its first one is 'y'
// NOTHING: error: there is nothing to train: the loss depends on none of the model's 3 float weights
// LION: error: lion is none of the optimizers whose update a pipeline does on the wafer, which are sgd, momentum, adam, adamw

// In a pipeline the loss and its count go to the edge, gradients stay where kernels make them.
// PIPE: module attributes {{.*}}wafer.mode = "pipelined", wafer.optimizer = "adam"
// PIPE: %[[SUM:[0-9]+]] = call @loss(
// PIPE: %[[LOSS:[0-9]+]] = "wafer.stream"(%[[SUM]])
// PIPE: %[[B:[0-9]+]] = call @{{.*}} -> tensor<3xf32>
// PIPE: %[[W:[0-9]+]] = call @{{.*}} -> tensor<8x3xf32>
// PIPE: return %[[LOSS]], %{{[0-9]+}}, %[[W]], %[[B]]

// The loss, how many elements it is of, and gradients of what it depends on: not of `other`.
// CHECK: module attributes {{.*}}wafer.micro_batch = 4 : i64
// CHECK: func.func @main(%[[X:[a-z0-9]+]]: tensor<4x8xf32> {wafer.name = "x"}, %[[T:[a-z0-9]+]]: tensor<4xi64> {wafer.name = "labels", wafer.role = "labels"}
// STEP-SAME: %[[SEED:[a-z0-9]+]]: tensor<f32> {wafer.name = "seed", wafer.role = "seed"})
// STEP-SAME: -> (tensor<f32> {wafer.name = "loss", wafer.role = "loss"}, tensor<f32> {wafer.name = "count", wafer.role = "count"},
// STEP-SAME: tensor<8x3xf32> {wafer.name = "gradient:w", wafer.of = "w", wafer.role = "gradient"}, tensor<3xf32> {wafer.name = "gradient:b"
// EVAL-SAME: tensor<f32> {wafer.name = "correct", wafer.role = "correct"})
// CHECK-NOT: "other"
// CHECK: %[[W:[0-9]+]] = "nn.weight"() {name = "w"}
// CHECK: "nn.matmul"(%[[X]], %[[W]])
// STEP: %[[E:[0-9]+]] = "nn.exp"
// STEP: "nn.log"
// The output's part is softmax - 1 at the label, times the seed; one product of the transposed input gives w's.
// STEP: %[[G:[0-9]+]] = "nn.mul"({{.*}}, %[[SEED]])
// STEP: "nn.reduce_sum"(%[[G]]) {axes = array<i64: 0>, keepdims = 1 : i64}
// STEP: %[[XT:[0-9]+]] = "nn.transpose"(%[[X]]) {perm = array<i64: 1, 0>}
// STEP: %[[DW:[0-9]+]] = "nn.matmul"(%[[XT]], %[[G]])
// STEP: return {{.*}} : tensor<f32>, tensor<f32>, tensor<8x3xf32>, tensor<3xf32>
// EVAL: "nn.arg_max"
func.func @main(%x: tensor<4x8xf32> {wafer.name = "x"},
                %w: tensor<8x3xf32> {wafer.name = "w", wafer.of = "w", wafer.role = "parameter"},
                %b: tensor<3xf32> {wafer.name = "b", wafer.of = "b", wafer.role = "parameter"},
                %o: tensor<3xf32> {wafer.name = "other", wafer.of = "other", wafer.role = "parameter"})
    -> (tensor<4x3xf32> {wafer.name = "y"}, tensor<4x3xf32> {wafer.name = "z2"}, tensor<4x3xf32> {wafer.name = "fixed"}) {
  %m = "nn.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc("fc")
  %y = "nn.add"(%m, %b) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32> loc("fc")
  %z = "nn.mul"(%y, %o) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32> loc("aside")
  %f = "nn.floor"(%y) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("steps")
  return %y, %z, %f : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}
