// RUN: wafer-opt %s --passes=default:grad --train=cross-entropy --machine=small16 | FileCheck %s
// RUN: wafer-opt %s --passes=default:grad --train=cross-entropy --machine=wse2 | FileCheck %s --check-prefix=ROOM

// 1400 rows of 128 with their f32 sums are a megabyte and a half, of which a wafer of 3.9 MB holds no three: what head and
// embedding add to the gradient of the table that they share is one product, of 5 terms from the head and 5 from the
// tokens, whose places are ones; negative tokens count from the end. It leaves as it is made: nothing is turned, nothing
// is added.
// CHECK: %[[FROM:[0-9]+]] = "nn.select"({{.*}}, %arg0)
// CHECK: %[[ROW:[0-9]+]] = "nn.reshape"(%[[FROM]]) {{.*}} -> tensor<1x5xi64>
// CHECK: %[[HERE:[0-9]+]] = "nn.equal"({{.*}}, %[[ROW]]) {{.*}} -> tensor<1400x5xi1>
// CHECK: %[[PLACES:[0-9]+]] = "nn.cast"(%[[HERE]]){{.*}} -> tensor<1400x5xf32>
// CHECK: %[[LEFT:[0-9]+]] = "nn.concat"({{.*}}, %[[PLACES]]) {{.*}} -> tensor<1400x10xf32>
// CHECK: %[[RIGHT:[0-9]+]] = "nn.concat"({{.*}}) {{.*}} -> tensor<10x128xf32>
// CHECK: %[[W:[0-9]+]] = "nn.matmul"(%[[LEFT]], %[[RIGHT]]) : (tensor<1400x10xf32>, tensor<10x128xf32>) -> tensor<1400x128xf32>
// CHECK-NOT: nn.scatter
// CHECK: return {{.*}}%[[W]]

// On a larger wafer rows are added where they belong.
// ROOM: nn.scatter
// ROOM-NOT: nn.concat
func.func @main(%t: tensor<5xi64> {wafer.name = "tokens"},
                %w: tensor<1400x128xf32> {wafer.name = "w", wafer.of = "w", wafer.role = "parameter"},
                %v: tensor<128x128xf32> {wafer.name = "v", wafer.of = "v", wafer.role = "parameter"})
    -> (tensor<5x1400xf32> {wafer.name = "y"}) {
  %x = "nn.gather"(%w, %t) {axis = 0 : i64} : (tensor<1400x128xf32>, tensor<5xi64>) -> tensor<5x128xf32> loc("embedding")
  %m = "nn.matmul"(%x, %v) : (tensor<5x128xf32>, tensor<128x128xf32>) -> tensor<5x128xf32> loc("layer")
  %a = "nn.relu"(%m) : (tensor<5x128xf32>) -> tensor<5x128xf32> loc("layer")
  %s = "nn.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<1400x128xf32>) -> tensor<128x1400xf32> loc("head")
  %y = "nn.matmul"(%a, %s) : (tensor<5x128xf32>, tensor<128x1400xf32>) -> tensor<5x1400xf32> loc("head")
  return %y : tensor<5x1400xf32>
}
