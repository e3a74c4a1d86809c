// RUN: wafer-opt %s --passes=shape,fold | FileCheck %s

// The distances of 256 positions are known before a model runs: 256 KiB in place of a kernel that
// computes them for each sample. Those of 1,024 are computed where they are wanted.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<256x256xf32>, %y: tensor<1024x1024xf32>) -> (tensor<256x256xf32>, tensor<1024x1024xf32>) {
  // CHECK: %[[NEAR:.*]] = "nn.constant"() {value = dense<1.0{{0*}}e+00> : tensor<256x256xf32>}
  // CHECK-NEXT: %[[SUM:.*]] = "nn.add"(%arg0, %[[NEAR]])
  // CHECK: %[[FAR:.*]] = "nn.sub"(%{{.*}}, %{{.*}}) : (tensor<1024x1xf32>, tensor<1x1024xf32>)
  // CHECK-NEXT: "nn.add"(%arg1, %[[FAR]])
  %one = "nn.constant"() {value = dense<1.0> : tensor<256x1xf32>} : () -> tensor<256x1xf32>
  %two = "nn.constant"() {value = dense<2.0> : tensor<1x256xf32>} : () -> tensor<1x256xf32>
  %difference = "nn.sub"(%one, %two) : (tensor<256x1xf32>, tensor<1x256xf32>) -> tensor<256x256xf32>
  %near = "nn.abs"(%difference) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %sum = "nn.add"(%x, %near) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %three = "nn.constant"() {value = dense<3.0> : tensor<1024x1xf32>} : () -> tensor<1024x1xf32>
  %four = "nn.constant"() {value = dense<4.0> : tensor<1x1024xf32>} : () -> tensor<1x1024xf32>
  %far = "nn.sub"(%three, %four) : (tensor<1024x1xf32>, tensor<1x1024xf32>) -> tensor<1024x1024xf32>
  %other = "nn.add"(%y, %far) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  func.return %sum, %other : tensor<256x256xf32>, tensor<1024x1024xf32>
}
