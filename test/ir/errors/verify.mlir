// A legal module with one thing changed at a time.
// RUN: wafer-opt %s --passes=default --machine=small16 --mode=streaming > %t
// RUN: sed 's/color = 0 : i64/color = 24 : i64/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=COLOR
// RUN: sed 's/rect = array<i64: 0, 0, 8, 16>/rect = array<i64: 0, 1, 8, 16>/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: sed 's/rect = array<i64: 0, 0, 8, 16>/rect = array<i64: 0, 0, 7, 16>/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: sed 's/wafer.depths = array<i64: 1, 2, 1>/wafer.depths = array<i64: 9000, 2, 1>/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: sed 's/wafer.phase = 1 : i64/wafer.phase = 0 : i64/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: sed 's/call @second(%%[0-9]*,/call @second(%%4,/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: sed 's/route = array<i64: 0, 7, 7, 7>/route = array<i64: 0, 7, 7, 9>/' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=ROUTE
// RUN: sed 's/wafer.flip_batch = 0 : i64, //' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=MODULE
// RUN: sed 's/, wafer.slabs = 1 : i64//' %t | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=SLABS
// COLOR: error: the stream of 'x' has colour 24, the machine has 24
// OUTSIDE: error: kernel 'first' lies on 8 x 16 cores at (0, 1), outside the usable ones
// SPLIT: error: kernel 'first' is split over 8 x 16 cores, its rectangle has 7 x 16
// BYTES: error: kernel 'first' needs {{[0-9]+}} bytes per core, 15360 are allowed
// PHASE: error: kernel 'second' of phase 0 stands in phase 1
// PLACE: error: input 0 of kernel 'second' ('first') is not where the kernel wants it, a wafer.stream is missing
// ROUTE: error: segment 0 of the route of 'first' leaves the wafer, is not straight, or starts elsewhere
// MODULE: error: the module lacks its mode, batch, storage, flip batch or the cost of a mode
// SLABS: error: kernel 'first' lacks a split, slabs, a phase or a rectangle

// The same for two kernels side by side.
// RUN: wafer-opt %s --passes=default --machine=small16 --mode=pipelined --bands=1 > %t.pipelined
// RUN: sed 's/wafer.rect = array<i64: 0, 6,/wafer.rect = array<i64: 1, 6,/' %t.pipelined | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: sed 's/color = 0\(.*\)route = array<i64: 15, 9, 15, 9>/color = 2\1route = array<i64: 15, 4, 9, 4>/' %t.pipelined | not wafer-opt - --passes=verify --machine=small16 2>&1 | FileCheck %s --check-prefix=CLASH
// OVERLAP: error: kernels 'second' and 'soft' overlap at core (8, 6)
// CLASH: error: the stream of 'w2' brings colour 2 to core (9, 4) from another side than an earlier one
func.func @main(%x: tensor<1x3x16x16xf32> {wafer.name = "x"}) -> (tensor<1x8x8x8xf32> {wafer.name = "y"}) {
  %w1 = "nn.weight"() {name = "w1"} : () -> tensor<8x3x3x3xf32>
  %w2 = "nn.weight"() {name = "w2"} : () -> tensor<8x8x3x3xf32>
  %c1 = "nn.conv"(%x, %w1) {group = 1 : i64, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x8x8xf32> loc("first")
  %c2 = "nn.conv"(%c1, %w2) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("second")
  %s = "nn.softmax"(%c2) {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("soft")
  %y = "nn.mul"(%c1, %s) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("gate")
  return %y : tensor<1x8x8x8xf32>
}
